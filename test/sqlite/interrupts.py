"""sqlite3_interrupt and the progress handler during all long work: how often the extension polls them, and what a
cancelled statement leaves.

With a progress handler at each step of SQLite's bytecode, and one thread, a statement is stopped at its k-th call, for
several k, each time on a fresh copy. Between two successive calls no more than 4 MiB or 65,536 cells may be decoded,
give or take a tile.

usage: interrupts.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import shutil
import struct
import sys
import tempfile

import host
from host import Database, Error, check_contains, same

INTERRUPT = 9
BYTES, CELLS = 4 << 20, 65536
SIDE = 400             # cells of the dense array are SIDE x SIDE, its tiles 100 x 100
ROWS, TILE = 20000, 1000   # cells of each of three fragments of the sparse array, and of its tiles
POINTS = int(os.environ.get("POINTS", "2"))   # a statement is stopped at so many of its polls, besides the first and the last
FIELDS = 3


def npy():
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }" % (SIDE, SIDE)
    head += " " * (117 - len(head)) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{SIDE * SIDE}d", *(i % 1000 for i in range(SIDE * SIDE)))


def make(folder):
    """Makes the sparse array s, whose fragments interleave, the dense array d, and the same in the database as si and di."""
    os.chdir(folder)
    db = Database("a.db")
    for s, d, at_s, at_d in (("s", "d", "'s', ", "'d', "), ("si", "di", "", "")):
        db.query(f"CREATE VIRTUAL TABLE {s} USING tessera({at_s}x INT64 DIMENSION(0, 9999999, 100000), y INT32 DIMENSION(0, 9, 10), a FLOAT64, capacity={TILE}, threads=1)")
        for k in range(3):
            db.query(f"INSERT INTO {s} WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS - 1}) SELECT i * 7919 % {ROWS} * 3 + {k}, 1, i FROM c")
        db.query(f"CREATE VIRTUAL TABLE {d} USING tessera({at_d}kind=dense, y INT32 DIMENSION(0, {SIDE - 1}, 100), x INT32 DIMENSION(0, {SIDE - 1}, 100), a FLOAT64, threads=1)")
        db.query(f"SELECT tessera_write_npy('db:{d}', 'a', ?)", (npy(),))
    db.query("CREATE TABLE moved(x, y, a)")
    db.query("INSERT INTO moved SELECT x, 5, a FROM s WHERE x < 15000")
    db.close()


READS = [
    "SELECT count(*) FROM s WHERE a < -1",
    "SELECT x FROM s WHERE a = 7777 ORDER BY y, x",
    "SELECT count(*) FROM si WHERE a < -1",
    "SELECT count(*) FROM d WHERE a = 1.5",
    "SELECT x FROM d WHERE a = 777 AND y > 300 ORDER BY x DESC, y",
    "SELECT sum FROM tessera_aggregate('s', 'a', '{\"x\":[1,50000]}')",
    "SELECT sum(sum) FROM tessera_aggregate('d', 'a', '{\"x\":[3,390]}', 'y')",
    "SELECT length(tessera_npy('d', 'a'))",
    "SELECT length(tessera_npy('db:di', 'a', '{\"y\":[7,393]}'))",
    "SELECT length(tessera_png('d', 'a'))",
    "SELECT length(tessera_png('s', 'a'))",
    "SELECT length(tessera_preview('d', 'a'))",
    "SELECT count(*) FROM tessera_check('s')",
    "SELECT count(*) FROM tessera_check('db:di')",
    "SELECT count(*) FROM tessera_partitions('s', 8)",
]
WRITES = [   # each makes one commit, or none if it is stopped
    ("INSERT INTO s SELECT x, y, a FROM moved", "s"),
    ("INSERT INTO si SELECT x, y, a FROM moved", "si"),
    ("DELETE FROM s WHERE a % 7 = 3", "s"),
    ("UPDATE d SET a = 1 WHERE y < 100", "d"),
    ("SELECT tessera_consolidate('s')", None),
    ("SELECT tessera_consolidate('db:si')", None),
    ("SELECT tessera_copy('s', 'new', '{\"capacity\":500}')", None),
    ("SELECT tessera_copy('d', 'db:new', '{\"extents\":{\"x\":30}}')", None),
    ("SELECT tessera_sync('s', 'db:new')", None),
    ("SELECT tessera_sync('db:si', 'new')", None),
    ("SELECT tessera_consolidate('s', 'commits')", None),
]


def open_copy(folder):
    """Returns a connection in a fresh copy of the directory, which becomes the current one."""
    new = tempfile.mkdtemp(dir=host.FOLDER)
    shutil.copytree(folder, new, dirs_exist_ok=True)
    os.chdir(new)
    db = Database("a.db")
    db.query("SELECT (SELECT a FROM s LIMIT 1), (SELECT a FROM d LIMIT 1), (SELECT a FROM si LIMIT 1), (SELECT a FROM di LIMIT 1)")
    return db


def stats(db):
    return dict(db.query("SELECT name, value FROM tessera_stats"))


def stop_at(db, sql, k, steps=1):
    """Runs a statement and stops it at the k-th call (0: never). Returns the number of calls, the counters, and whether it was stopped."""
    calls, stopped = 0, False

    def handler():
        nonlocal calls
        calls += 1
        return calls == k
    db.query("SELECT tessera_reset_stats()")
    db.raw.set_progress_handler(handler, steps)
    try:
        db.query(sql)
    except Error as e:
        assert e.code in (None, INTERRUPT), f"{sql}, stopped at {k}: {e} ({e.code})"
        check_contains(e.text.lower(), "interrupt")
        stopped = True
    db.raw.set_progress_handler(None, 0)
    return calls, stats(db), stopped


def points(calls, seed):
    """Returns pairs of successive calls: the first, the last, and some in between."""
    chance = random.Random(seed)
    chosen = {1, calls - 1} | {chance.randrange(1, max(calls, 2)) for _ in range(POINTS)}
    return sorted(k for k in chosen if 0 < k < calls)


def check_gap(before, after, what):
    decoded, cells = after["bytes_decoded"] - before["bytes_decoded"], after["cells_decoded"] - before["cells_decoded"]
    assert decoded <= BYTES + 100 * 100 * 8 and cells <= CELLS + 100 * 100 * FIELDS, f"{what}: {decoded} bytes and {cells} cells without a question"


def state(db):
    """Returns the contents of the arrays as numbers that can be compared."""
    return {t: db.query(f"SELECT count(*), total(a), total(y), total(x) FROM {t}")[0] for t in ("s", "si", "d", "di")}


def sound(db, what):
    for path in ("s", "d", "db:si", "db:di"):
        same(db.query("SELECT * FROM tessera_check(?) WHERE severity <> 'note'", (path,)), [], what)


def with_folder(function):
    before = os.getcwd()
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    try:
        make(folder)
        function(folder)
    finally:
        os.chdir(before)


def test_reading_is_stopped():
    def work(folder):
        db = open_copy(folder)
        want = state(db)
        for i, sql in enumerate(READS):
            db.close()
            db = open_copy(folder)
            answer = db.query(sql)
            db.close()
            db = open_copy(folder)
            calls, total, stopped = stop_at(db, sql, 0)
            assert not stopped and calls >= total["bytes_decoded"] // BYTES and calls >= total["cells_decoded"] // CELLS, (sql, calls, total)
            for k in points(calls, i):
                at = []
                for stop in (k, k + 1):
                    db.close()
                    db = open_copy(folder)
                    at.append(stop_at(db, sql, stop))
                    same(db.query(sql), answer, f"{sql}, stopped at {stop} of {calls}")
                check_gap(at[0][1], at[1][1], f"{sql} between {k} and {k + 1} of {calls}")
                assert at[0][2], f"{sql} was not stopped at {k} of {calls}"
        same(state(db), want)
        db.close()
    with_folder(work)


def test_one_interrupt_stops_every_part_of_a_statement():
    """One interrupt suffices, also while a table is looked up, and while a statement within a function is planned."""
    def work(folder):
        db = open_copy(folder)
        calls = stop_at(db, READS[8], 0)[0]
        for k in range(1, calls, calls // 48):
            db.close()
            db = open_copy(folder)
            assert stop_at(db, READS[8], k)[2], f"{READS[8]} was not stopped at {k} of {calls}"
        db.close()
    with_folder(work)


def test_writing_is_stopped():
    def work(folder):
        db = open_copy(folder)
        before = state(db)
        db.close()
        for i, (sql, table) in enumerate(WRITES):
            db = open_copy(folder)
            calls, total, stopped = stop_at(db, sql, 0)
            assert not stopped and calls >= total["bytes_decoded"] // BYTES, (sql, calls, total)
            after = state(db)
            assert (after != before) == (table is not None), (sql, before, after)
            sound(db, sql)
            db.close()
            for k in points(calls, i)[1:]:
                db = open_copy(folder)
                stopped = stop_at(db, sql, k)[2]
                what = f"{sql}, stopped at {k} of {calls}"
                now = state(db)
                assert now == before or now == after, f"{what}: {now}"
                assert stopped or now == after, what
                sound(db, what)
                if os.path.exists("new") and stopped:   # a directory appears as a whole or not at all
                    try:
                        same(db.query("SELECT * FROM tessera_check('new') WHERE severity <> 'note'"), [], what)
                    except Error as e:
                        check_contains(e.text, "not found")
                    shutil.rmtree("new")
                if stopped and now == before:   # runs the statement again to its end
                    db.query("DROP TABLE IF EXISTS new")   # complete, if the statement was stopped after its commit
                    db.query(sql)
                    same(state(db), after, what)
                sound(db, what)
                db.close()
    with_folder(work)


def test_vacuum_is_stopped():
    def work(folder):
        os.chdir(folder)
        db = Database("a.db")
        db.query("SELECT tessera_consolidate('s'), tessera_consolidate('db:si')")
        want = state(db)
        db.close()
        for path in ("s", "db:si"):
            db = open_copy(folder)
            sql = f"SELECT tessera_vacuum('{path}')"
            calls, _, stopped = stop_at(db, sql, 0)
            assert not stopped and calls > 3, calls
            db.close()
            for k in points(calls, 1):
                db = open_copy(folder)
                stop_at(db, sql, k)
                for again in (False, True):
                    same(state(db), want, f"{sql}, stopped at {k} of {calls}")
                    sound(db, f"{sql}, stopped at {k} of {calls}")
                    db.query(sql)
                same(db.query("SELECT count(*) FROM tessera_fragments(?)", (path,)), [(1,)])
                db.close()
    with_folder(work)


def test_connecting_is_stopped():
    """If SQLite connects a table after an interrupt, the statement fails with INTERRUPT; the next statement finds the table."""
    db = Database()
    calls = []
    def interrupt(action, *names):
        calls.append(action)
        db.raw.interrupt()
        return 0
    if host.binding == "apsw":
        return
    db.raw.set_authorizer(interrupt)
    e = db.error("SELECT * FROM tessera_progress")
    db.raw.set_authorizer(None)
    assert calls
    check_contains(e.text, "interrupted")
    same(db.query("SELECT * FROM tessera_progress"), [])


def test_changes_are_stopped():
    """At each of the first calls, where the table reads its array's history: the error is that of an interrupt, which leaves the transaction."""
    def work(folder):
        db = open_copy(folder)
        db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(s)")
        db.query("BEGIN")
        db.query("INSERT INTO s VALUES(1, 9, 1)")
        for k in range(1, 30):
            assert stop_at(db, f"SELECT count(*) FROM c('committed') -- {k}", k)[2], k
            same(db.query("SELECT count(*) FROM s WHERE y = 9"), [(1,)])
        db.query("ROLLBACK")
        db.close()
    with_folder(work)


def test_handlers_of_many_steps():
    """Work that returns no rows also calls a handler that SQLite calls once in 1,000 steps."""
    def work(folder):
        for sql in READS[:2] + READS[5:6] + READS[12:13] + [sql for sql, _ in WRITES[4:7]]:
            db = open_copy(folder)
            calls, total, _ = stop_at(db, sql, 0, 1000)
            assert total["bytes_decoded"] > 0 and calls >= total["bytes_decoded"] // BYTES, f"{sql}: {calls} calls, {total['bytes_decoded']} bytes decoded"
            db.close()
            if os.path.exists("new"):
                shutil.rmtree("new")
    with_folder(work)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
