"""TileDB reads arrays that libtessera writes, with generated schemas and cells: cell by cell, and by their fragment
information; then TileDB consolidates them and reads the same. The sizes on disk are compared with those of TileDB's own
arrays.

usage: write.py LIBRARY [COUNT [FIRST]]
"""
import itertools
import os
import random
import sys

import numpy as np

import generate
from cases import Cases
from tessera_c import NUMPY, SIZE, VARIABLE, Refused, Remote
from tiledb_c import TileDB, TileDBError, library

MOST_CELLS = 2000  # of a sparse array in this test


def tree_size(path, within="__fragments"):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(os.path.join(path, within)) for name in names
               if not name.startswith("__fragment_metadata"))


def fields_of(s):
    return s["dims"] + s["attrs"]


def pack_rows(s, rows):
    fields = fields_of(s)
    return {f["name"]: generate.packed(f, [row[i] for row in rows]) for i, f in enumerate(fields)}


def order_key(row):
    return tuple((c is None, c or b"") for c in row)


def same_rows(expected, found):
    expected, found = sorted(expected, key=order_key), sorted(found, key=order_key)
    if expected == found:
        return None
    for a, b in itertools.zip_longest(expected, found):
        if a != b:
            return f"{len(found)} cells, {len(expected)} expected; expected {a}, found {b}"


def read_rows(tiledb, path, s, box=None):
    cells = MOST_CELLS
    if box:
        cells = int(np.prod([int(high) - int(low) + 1 for low, high in box]))
    result = tiledb.read(path, s, cells, box=box)
    columns = [generate.unpacked(f, result[f["name"]]) for f in fields_of(s)]
    if len({len(c) for c in columns}) > 1:
        return f"columns of {[len(c) for c in columns]} cells"
    return list(zip(*columns))


# ---- Sparse

def newest(s, batches):
    rows = [row for batch in batches for row in batch]
    if s["duplicates"]:
        return rows
    return list({row[:len(s["dims"])]: row for row in rows}.values())


def run_sparse(r, s, tessera, tiledb, path):
    batches = [generate.sparse_cells(r, s, r.choice([1, 2, 10, 100, 400])) for _ in range(r.choice([1, 1, 2, 3]))]
    for i, rows in enumerate(batches):
        parts = [rows] if r.random() < 0.5 else [rows[:len(rows) // 3], rows[len(rows) // 3:]]
        tessera.write(path, s, [(pack_rows(s, part), len(part)) for part in parts], time=10 * (i + 1), threads=r.choice([1, 2]))
    expected = newest(s, batches)
    found = read_rows(tiledb, path, s)
    wrong = found if isinstance(found, str) else same_rows(expected, found)
    if wrong:
        return wrong
    fragments = tiledb.fragments(path, s)
    if [f["times"] for f in fragments] != [(10 * (i + 1),) * 2 for i in range(len(batches))] or any(f["dense"] for f in fragments):
        return f"fragments: {fragments}"
    for f, rows in zip(fragments, batches):
        kept = newest(s, [rows])
        if f["cells"] != len(kept):
            return f"a fragment of {f['cells']} cells: {len(kept)} were written"
        for d, dim in enumerate(s["dims"]):
            values = [row[d] if dim["type"] == "ASCII" else np.frombuffer(row[d], NUMPY[dim["type"]])[0] for row in kept]
            if (min(values), max(values)) != tuple(f["box"][d]):
                return f"non-empty domain {f['box'][d]} of {dim['name']}: {min(values)} to {max(values)} were written"
    if len(batches) > 1 and not any(f["type"] == "ASCII" for f in s["dims"]):
        return wrong_when_merged(tiledb, path, lambda: same_rows(expected, read_rows(tiledb, path, s)))
    return None


def wrong_when_merged(tiledb, path, compare):
    """Consolidates the array by TileDB. Returns how it differs then, or None, also if TileDB fails: merged cells are in another order, or beside padding, and there are pipelines
    with which TileDB cannot write that, or cannot read what it has written."""
    try:
        tiledb.consolidate(path)
        wrong = compare()
    except TileDBError:
        return None
    return wrong and "consolidated: " + wrong


def size_sparse(r, s, tessera, tiledb, ours, theirs):
    rows = list({row[:len(s["dims"])]: row for row in generate.sparse_cells(r, s, 300)}.values())
    columns = pack_rows(s, rows)
    tessera.write(ours, s, [(columns, len(rows))], time=10)
    tiledb.write(theirs, s, columns, time=10)


# ---- Dense

def fill_of(f):
    if "fill" in f:
        return f["fill"]
    if f["nullable"]:
        return None
    size, kind = SIZE[f["type"]], NUMPY.get(f["type"])
    if f["type"] == "CHAR":
        one = b"\x80"
    elif f["type"] == "BOOL" or kind is None:
        one = bytes(size)
    elif kind.startswith("f"):
        one = np.array(np.nan, kind).tobytes()
    else:
        one = np.array(np.iinfo(kind).min if kind.startswith("i") else np.iinfo(kind).max, kind).tobytes()
    return one if f["values"] == VARIABLE else one * f["values"]


def coordinates(ends, order="row"):
    """Returns all points of a box, row-major or column-major."""
    ranges = [range(int(low), int(high) + 1) for low, high in ends]
    if order == "row":
        return list(itertools.product(*ranges))
    return [p[::-1] for p in itertools.product(*ranges[::-1])]


def write_boxes(r, s, tessera, path, time, boxes):
    """Writes random cells into each box. Returns the values of each point afterwards."""
    batches, written = [], {}
    for ends in boxes:
        array_order = r.random() < 0.5
        points = coordinates(ends, s["cell_order"] if array_order else "row")
        cells = [generate.column(r, f, len(points)) for f in s["attrs"]]
        written.update(zip(points, zip(*cells)))
        batches.append(({f["name"]: generate.packed(f, c) for f, c in zip(s["attrs"], cells)}, ends, array_order))
    tessera.write(path, s, batches, time=time, threads=r.choice([1, 2]))
    return written


def halves(ends):
    low, high = ends[0]
    if low == high:
        return [ends]
    middle = (low + high) // 2
    return [[(low, middle)] + ends[1:], [(middle + 1, high)] + ends[1:]]


def compare_dense(tiledb, path, s, domain, state):
    rows = read_rows(tiledb, path, s, box=domain)
    if isinstance(rows, str):
        return rows
    unwritten = tuple(fill_of(f) for f in s["attrs"])
    dims = len(s["dims"])
    for point, row in zip(coordinates(domain), rows):
        if tuple(int(np.frombuffer(v, NUMPY[d["type"]])[0]) for v, d in zip(row, s["dims"])) != point:
            return f"point {point} has coordinates {row[:dims]}"
        if row[dims:] != state.get(point, unwritten):
            return f"point {point}: expected {state.get(point, unwritten)}, found {row[dims:]}"
    return None


def run_dense(r, s, tessera, tiledb, path):
    state, count = {}, r.choice([1, 1, 2, 3])
    for i in range(count):
        ends = generate.box(r, s)
        boxes = halves(ends) if r.random() < 0.3 and s["version"] >= 12 else [ends]
        state.update(write_boxes(r, s, tessera, path, 10 * (i + 1), boxes))
    domain = [d["domain"] for d in s["dims"]]
    wrong = compare_dense(tiledb, path, s, domain, state)
    if wrong:
        return wrong
    fragments = tiledb.fragments(path, s)
    if not all(f["dense"] and f["version"] == s.get("version", 22) for f in fragments):
        return f"fragments: {fragments}"
    if count > 1:
        return wrong_when_merged(tiledb, path, lambda: compare_dense(tiledb, path, s, domain, state))
    return None


# TileDB does not initialise the padding of a dense tile, and such filters then sometimes fail or crash.
OF_PADDING = {"delta", "double_delta", "positive_delta", "bit_width_reduction"}


def size_dense(r, s, tessera, tiledb, ours, theirs):
    if any(name in OF_PADDING for f in s["attrs"] for name, _ in f["filters"] + s["offsets_filters"]):
        raise TileDBError("not tried")
    ends = generate.box(r, s)
    points = coordinates(ends)
    columns = {f["name"]: generate.packed(f, generate.column(r, f, len(points))) for f in s["attrs"]}
    tessera.write(ours, s, [(columns, ends, False)], time=10)
    tiledb.write(theirs, s, columns, box=ends, time=10)


# ---- Running the cases

class Wrong(Exception):
    pass


def one(folder, seed, tessera, path):
    r = random.Random(seed)
    s = generate.schema(r)
    tiledb = TileDB(path, s["key"])
    ours, sized, theirs = (os.path.join(folder, name) for name in ("ours", "sized", "theirs"))
    try:
        tessera.create(ours, s)
    except Refused as e:
        if os.path.exists(ours):
            raise Wrong(f"left something behind: {e}") from None
        return {"refused": 1}
    tiledb.create(theirs, s)  # TileDB accepts every schema that tessera accepts
    wrong = (run_dense if s["dense"] else run_sparse)(r, s, tessera, tiledb, ours)
    if wrong:
        raise Wrong(wrong)
    tessera.create(sized, s)
    try:
        (size_dense if s["dense"] else size_sparse)(r, s, tessera, tiledb, sized, theirs)
    except TileDBError:  # some pipelines fail in TileDB on padding, on deltas that are too large, and on no bytes
        return {"done": 1}
    return {"done": 1, "ours": tree_size(sized), "theirs": tree_size(theirs)}


def main():
    tessera_library, count, first = sys.argv[1], int((sys.argv + [0, 200])[2] or 200), int((sys.argv + [0, 0, 1])[3] if len(sys.argv) > 3 else 1)
    path = library()
    if not path:
        print("SKIPPED: the package `tiledb` is not installed")
        return 77
    tessera = Remote(tessera_library)
    tests = Cases("write", tessera.restart)
    for seed in range(first, first + count):
        tests.run(f"seed {seed}", one, seed, tessera, path)
    t = tests.tally
    failed = tests.end(f"{t['done']} arrays read by TileDB as they were written, {t['refused']} schemas refused; {t['ours']} bytes on disk, TileDB's own {t['theirs']}")
    return failed or not t["done"]


if __name__ == "__main__":
    sys.exit(main())
