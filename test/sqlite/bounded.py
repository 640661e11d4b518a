"""The memory of consolidations is bounded: an array far larger than memory_mb is merged tile by tile. SQLite's
allocator, which the extension uses, must not take more than memory_mb, and the process not more than 32 MB for a
million cells of 40 MB. The same holds for a transaction on a dense array: ten times memory_mb of cells are written,
read, changed and committed in it.

The memory of processes is measured with the library that the test of the amalgamation has built (or the release build, if there
is one), because sanitizers need too much memory themselves. The allocator is measured in the extension under test, with fewer cells.

usage: bounded.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import ctypes
import ctypes.util
import json
import os
import subprocess
import sys
import tempfile
import time

import host
from host import Database, Error, same

MIB = 1 << 20
TOOBIG = 18
FRAGMENTS = 8
BOUND = 32   # MiB above the memory before: some 20 are used; all decoded cells would be 50
KNOWN = MIB   # bytes for the metadata of the fragments and their tiles
KNOWN_RUNS = 3 * MIB   # the same for the sorted runs of a transaction, twice at its commit: some 3,000 tiles, whatever memory_mb is
SEED = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1) "
TEXT = "substr('the quick brown fox jumps over the lazy dog', 1, 1 + i % 40)"

# The columns, and the ?1 rows of fragment ?2: each fragment covers the whole domain, and a part of its cells replaces earlier ones.
KINDS = {
    "sparse": ("x INT64 DIMENSION(0, 999999, 10000), y INT64 DIMENSION(0, 999999, 10000), v FLOAT64 NOT NULL, w INT64, k INT32 NOT NULL, capacity={tile}",
               "(i * 7919 + ?2 % 3) % 1000000, (i * 104729 + ?2) % 1000000, i * 0.5, i * i, ?2"),
    "text": ("x INT64 DIMENSION(0, 999999, 10000), y INT64 DIMENSION(0, 999999, 10000), v INT64 NOT NULL, w TEXT, capacity={tile}",
             f"(i * 7919 + ?2 % 3) % 1000000, (i * 104729 + ?2) % 1000000, i, {TEXT}"),
    "dense": ("kind=dense, x INT64 DIMENSION(0, 9999999, {tile}), v FLOAT64 NOT NULL, w INT64, s TEXT NOT NULL", f"i + ?2 * ?1 / 2, i * 0.5, ?2, {TEXT}"),
}


def make(kind, cells, tile, path):
    db = Database()
    columns, values = KINDS[kind]
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({host.literal(path)}, {columns.format(tile=tile)})")
    for f in range(FRAGMENTS):
        db.query(f"{SEED}INSERT INTO t SELECT {values} FROM n", (cells // FRAGMENTS, f))
    db.close()


def peak():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) * 1024


def highwater():
    """Returns the peak of SQLite's allocator since the last call, in bytes."""
    if host.binding == "apsw":
        return host.apsw.memory_high_water(True)
    library = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
    library.sqlite3_memory_highwater.restype = ctypes.c_int64
    return library.sqlite3_memory_highwater(1)


def consolidate(path, memory):
    """Returns the number of merged fragments, and the bytes that the allocator and the process have used for it."""
    db = Database()
    db.query("SELECT kind FROM tessera_array(?)", (path,))
    highwater()
    used, before = host.memory_used(), peak() if os.path.exists("/proc/self/status") else None
    merged = db.value("SELECT tessera_consolidate(?, 'fragments', ?)", (path, json.dumps({"memory_mb": memory})))
    taken = highwater() - used, peak() - before if before else 0
    fragments = db.value("SELECT count(*) FROM tessera_fragments(?)", (path,))
    db.close()
    return merged, fragments, *taken


def transact(path, memory, cells):
    """Runs one transaction that writes so many cells of some 230 bytes in random order, a part of them twice. Returns the bytes that the allocator and the process used while the cells
    were written, while they were read, and for the commit."""
    db = Database()
    db.query(f"""CREATE VIRTUAL TABLE t USING tessera({host.literal(path)}, kind=dense, y INT64 DIMENSION(0, 9999, 20), x INT64 DIMENSION(0, 99, 20),
                 v INT64 NOT NULL, s TEXT NOT NULL FILTERS(lz4), memory_mb={memory}, cache_mb=0)""")
    used, before = host.memory_used(), peak() if os.path.exists("/proc/self/status") else 0
    highwater()
    db.query("BEGIN")
    for first, count in ((0, cells), (cells // 3, cells // 10)):   # the second time some cells again
        db.query(f"{SEED}INSERT INTO t SELECT k / 100, k % 100, k + ?3, substr(hex(zeroblob(100)), 1, 195 + k % 10) || k FROM (SELECT ?2 + i * 7919 % ?1 k FROM n)",
                 (count, first, first))
    written = highwater() - used
    rows = db.query("SELECT count(*), sum(v), sum(length(s)) FROM t WHERE v IS NOT NULL")
    changed = db.value("SELECT count(*) FROM t WHERE v >= ? AND y < 50", (cells // 3,))
    db.query("UPDATE t SET v = -1 WHERE y = 7 AND v IS NOT NULL")
    read = highwater() - used
    db.query("COMMIT")
    committed, taken = highwater() - used, peak() - before if before else 0
    again = db.query("SELECT count(*), sum(v) + sum(v = -1), sum(length(s)) FROM t WHERE v IS NOT NULL")
    bytes_spilled = cells * 230
    fragments = db.value("SELECT count(*) FROM tessera_fragments(?)", (path,))
    same(db.value("SELECT count(*) FROM t WHERE v = -1"), 100, "updated")
    db.close()
    return rows[0], again[0], changed, fragments, written, read, committed, taken, bytes_spilled


def in_process(library, *arguments):
    """Runs one of these functions in a process of its own, without the sanitizers that this process has preloaded."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([sys.executable, __file__, "--do", host.binding, library, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def released():
    """Returns a library without sanitizers, or None."""
    folder, name = os.path.split(host.EXTENSION)
    libraries = (os.path.join(folder, place, name) for place in ("../release", "amalgamation"))
    return next((library for library in libraries if os.path.exists(library)), None)


def test_the_memory_of_a_process_that_consolidates_is_bounded():
    library = released()
    if not library or not os.path.exists("/proc/self/status"):
        print("not measured: there is no library without sanitizers, or the system does not tell")
        return
    cells = int(os.environ.get("CELLS", 1_000_000))
    for kind in KINDS:
        path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
        start = time.monotonic()
        in_process(library, "make", kind, cells, 10000, path)
        made = time.monotonic()
        merged, fragments, allocated, taken = in_process(library, "consolidate", path, 1024)
        print(f"{kind}: {cells:,} cells merged in {time.monotonic() - made:.1f} s (made in {made - start:.1f} s), {allocated / MIB:.1f} MiB, the process {taken / MIB:.1f} MiB")
        same((merged, fragments), (FRAGMENTS, 1), kind)
        assert taken <= BOUND * MIB, f"{kind}: {taken / MIB:.1f} MiB for {cells} cells"


def test_the_memory_of_a_dense_transaction_is_bounded():
    for memory in (1, 8):
        cells = (memory * 10 * MIB // 230 + 99) // 100 * 100
        path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
        if memory > 1 and not released():
            continue   # too much for the sanitizers
        start = time.monotonic()
        rows, again, changed, fragments, written, read, committed, taken, size = \
            in_process(released(), "transact", path, memory, cells) if memory > 1 else transact(path, memory, cells)
        print(f"{cells:,} cells of {size / MIB:.0f} MB in {memory} MB, {time.monotonic() - start:.1f} s: written in {written / MIB:.2f} MiB, read in {read / MIB:.2f}, "
              f"committed in {committed / MIB:.2f}, the process {taken / MIB:.1f}")
        extra = cells // 10 * (cells // 3)
        same(rows[:2], type(rows)((cells, cells * (cells - 1) // 2 + extra)), "own rows")
        same((again[0], again[2], fragments), (rows[0], rows[2], 1), "committed")
        for what, bytes_taken, budgets in (("writing", written, 1), ("reading", read, 2), ("the commit", committed, 1)):
            assert bytes_taken <= budgets * memory * MIB + KNOWN_RUNS, f"{what} takes {bytes_taken / MIB:.2f} MiB of {memory}"
        if taken and memory > 1:
            assert taken <= 4 * memory * MIB + 16 * MIB, f"the process takes {taken / MIB:.1f} MiB"


def test_a_consolidation_keeps_to_memory_mb():
    """The merged fragments are larger than memory_mb, which only their metadata may exceed. If memory_mb is too small, the consolidation fails and loses nothing."""
    cells = int(os.environ.get("CELLS", 300_000))
    for kind in KINDS:
        for tile, little, enough in ((500, 1, 4), (10000, 2, 8)):
            path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
            if released():
                in_process(released(), "make", kind, cells, tile, path)
            else:
                make(kind, cells, tile, path)
            db = Database()
            db.table("t", path)
            sums = "SELECT count(*), total(x), total(v), total(w) FROM t"
            wanted = db.query(sums)
            for memory in (little, enough):
                used = host.memory_used()
                try:
                    merged, fragments, allocated, _ = consolidate(path, memory)
                    assert fragments == 1 or memory == little, (kind, tile, memory, merged, fragments)
                except Error as e:
                    assert memory == little and e.code == TOOBIG, (kind, tile, memory, e.text, e.code)
                    allocated = highwater() - used
                assert allocated <= memory * MIB + KNOWN, f"{kind}, tiles of {tile} cells, memory_mb={memory}: {allocated / MIB:.2f} MiB"
                same(db.query(sums), wanted, kind)
            db.close()


if __name__ == "__main__":
    if sys.argv[1] == "--do":
        host.binding, host.EXTENSION = sys.argv[2:4]
        arguments = [int(a) if a.isdigit() else a for a in sys.argv[5:]]
        print(json.dumps(globals()[sys.argv[4]](*arguments)))
    else:
        host.main(sys.modules[__name__])
