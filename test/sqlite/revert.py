"""tessera_revert: random histories of sparse and dense arrays, and of arrays with duplicates, come back to the state of
a random time in a random slice; within transactions, savepoints and rollbacks.

usage: revert.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import shutil
import sys
import tempfile

import host
from host import Database, check_contains, same

SEED = int(os.environ.get("SEED", 20261128))
KINDS = ("kind=dense", "kind=sparse", "kind=sparse, duplicates=true")


def last(db, name="t"):
    return db.value(f"SELECT max(last_write) FROM tessera_array('db:{name}')")


def where_of(box):
    return " AND ".join(f"{n} BETWEEN {low} AND {high}" for n, (low, high) in box.items()) or "1"


def rows(db, where="1", as_of=None):
    """The rows of t, in an order that does not depend on anything but them; written cells only."""
    return sorted(db.query(f"SELECT x, y, v, s, w FROM t WHERE ({where}) AND as_of IS ?" if as_of is not None else f"SELECT x, y, v, s, w FROM t WHERE {where}",
                           (as_of,) if as_of is not None else ()), key=repr)


def change(rng, db, kind):
    """One random statement."""
    number = rng.randrange(3 if "dense" in kind else 5)
    x, y = rng.randrange(8), rng.randrange(8)
    if number < 2:
        for _ in range(rng.randint(1, 5)):
            db.query("INSERT OR REPLACE INTO t VALUES(?, ?, ?, ?, ?)", (rng.randrange(8), rng.randrange(8), rng.choice([None, 1, 2.5]), rng.choice(["", "a", "long text"]), rng.randrange(3)))
    elif number == 2:
        db.query("UPDATE t SET v = ?, s = 'u' WHERE x = ? AND w IS NOT NULL AND v IS NOT NULL", (rng.choice([None, 7]), x))
    elif number == 3:
        db.query("DELETE FROM t WHERE x = ?", (x,))
    else:
        db.query("DELETE FROM t WHERE y = ? AND x < ?", (y, x))


def make(db, kind, where=""):
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({where}{kind}, x INT32 DIMENSION(0, 7, 3), y INT32 DIMENSION(0, 7, 3), v FLOAT64, s TEXT, w INT8 NOT NULL)")


def box_of(rng):
    return {n: sorted(rng.choices(range(8), k=2)) for n in "xy" if rng.random() < 0.5}


def expected_of(db, kind, box, time):
    """What a revert gives: the state of the time in the box. Cells of dense arrays that were written since have NULL, or the fill value."""
    old = rows(db, where_of(box), time)
    if "dense" not in kind:
        return old
    values = {r[:2]: r for r in old}
    written = set(db.query(f"SELECT x, y FROM t WHERE {where_of(box)} AND written_at IS NOT NULL"))
    then = set(db.query(f"SELECT x, y FROM t WHERE {where_of(box)} AND as_of = ? AND written_at IS NOT NULL", (time,)))
    # a table shows the cells between those that were written, as NULL
    return sorted(((values[r[:2]] if r[:2] in then else (*r[:2], None, None, -128 if r[:2] in written else None)) for r in rows(db, where_of(box))), key=repr)


def test_histories_come_back():
    rng = random.Random(SEED)
    for number in range(host.rounds(36)):
        kind = KINDS[number % 3]
        where = host.literal(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")) + ", " if number // 3 % 2 else ""
        db = Database()
        make(db, kind, where)
        times = [] if "dense" in kind else [0]   # before its first schema a dense array has no cells at all
        for _ in range(rng.randint(1, 7)):
            change(rng, db, kind)
            times.append(last(db) or 0)
        if rng.random() < 0.3 and "dense" not in kind:
            db.query("SELECT tessera_consolidate('db:t')")
        for _ in range(3):
            time, box = rng.choice(times), box_of(rng)
            piece = None if not box else "{" + ",".join(f'"{n}":[{a},{b}]' for n, (a, b) in box.items()) + "}"
            outside = rows(db, f"NOT ({where_of(box)})")
            expected = expected_of(db, kind, box, time)
            ends = rng.choice(["COMMIT", "ROLLBACK", None])
            before = rows(db)
            if ends:
                db.query("BEGIN")
            changed = db.value("SELECT tessera_revert('db:t', ?, ?)", (time, piece))
            what = f"{kind} {number}: {piece} at {time} of {times}"
            same(rows(db, where_of(box)), expected, what)
            same(rows(db, f"NOT ({where_of(box)})"), outside, f"{what}: outside of the slice")
            if ends:
                db.query(ends)
            if ends == "ROLLBACK":
                same(rows(db), before, f"{what}: rolled back")
            else:
                same(rows(db, where_of(box)), expected, f"{what}: committed")
                commits = db.value("SELECT count(*) FROM tessera_fragments('db:t')")
                same(db.value("SELECT tessera_revert('db:t', ?, ?)", (time, piece)), 0, f"{what}: again, after {changed}")
                same(db.value("SELECT count(*) FROM tessera_fragments('db:t')"), commits, f"{what}: no commit")
        same([r for r in db.query("SELECT severity, message FROM tessera_check('db:t')") if r[0] != "note"], [])
        db.close()


def test_own_rows_of_the_transaction():
    rng = random.Random(SEED + 1)
    for number in range(host.rounds(18)):
        kind = KINDS[number % 3]
        db = Database()
        make(db, kind)
        for _ in range(3):
            change(rng, db, kind)
        committed = rows(db)
        db.query("BEGIN")
        change(rng, db, kind)
        db.query("SAVEPOINT a")
        middle = rows(db)
        change(rng, db, kind)
        db.query("SELECT tessera_revert('db:t', 'committed')")
        if "dense" not in kind:   # a dense cell that only the transaction has written becomes NULL, or has the fill value
            same(rows(db), committed, kind)
        db.query("ROLLBACK TO a")
        same(rows(db), middle, f"{kind}: ROLLBACK TO")
        db.query("SELECT tessera_revert('db:t', 'committed', '{\"x\":[0,3]}')")
        same(rows(db, "x > 3"), [r for r in middle if r[0] > 3], kind)
        db.query("COMMIT")
        db.close()


def test_reverts_of_a_connection_that_has_read_nothing():
    """The second revert took a snapshot of what the first one had looked at for the present state, and changed nothing."""
    for path in "", "'a', ":
        folder = tempfile.mkdtemp(dir=host.FOLDER)
        db, other = (Database(os.path.join(folder, "t.db")) for _ in range(2))
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({path}x INTEGER DIMENSION, a INTEGER)")
        other.query("INSERT INTO t VALUES(50, 9)")
        time = last(other)
        other.query("INSERT INTO t VALUES(52, 11)")
        db.query("BEGIN IMMEDIATE")
        same(db.value("SELECT tessera_revert('db:t', ?, '{\"x\":[59,59]}')", (time,)), 0)
        same(db.value("SELECT tessera_revert('db:t', ?, '{\"x\":[52,58]}')", (time,)), 1)
        db.query("COMMIT")
        same(other.query("SELECT * FROM t"), [(50, 9)])
        db.close()
        other.close()


def test_rows_of_one_place_are_compared_as_bags():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(duplicates=true, x INT32 DIMENSION(0, 9), v INT32)")
    db.query("INSERT INTO t VALUES(1, 1), (1, 2), (1, 2), (5, 5)")
    time = last(db)
    db.query("UPDATE t SET v = v + 10 WHERE x = 1")
    same(db.value("SELECT tessera_revert('db:t', ?)", (time,)), 6, "as many rows, with other values: all are replaced")
    same(sorted(db.query("SELECT x, v FROM t")), [(1, 1), (1, 2), (1, 2), (5, 5)])
    db.query("BEGIN")
    db.query("DELETE FROM t WHERE x = 1")
    db.query("INSERT INTO t VALUES(1, 2), (1, 1), (1, 2)")
    same(db.value("SELECT tessera_revert('db:t', ?)", (time,)), 0, "the same rows in another order")
    db.query("COMMIT")


def test_no_time_shows_half_of_an_update():
    """Duplicates: an UPDATE deletes up to one millisecond and writes at the next one. It is in view from the second one on, also when it has been merged."""
    for place in ("", "'{}', "):
        for merged in (False, True):
            db = Database()
            folder = tempfile.mkdtemp()
            path = os.path.join(folder, "a")
            db.query(f"CREATE VIRTUAL TABLE t USING tessera({place.format(path)}duplicates=true, x INT32 DIMENSION(0, 9), v INT32)")
            db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
            db.query("INSERT INTO t VALUES(1, 10), (1, 11), (2, 20)")
            db.query("UPDATE t SET v = v + 1 WHERE x = 1")
            if merged:
                db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
            time = last(db)
            old, new = [(1, 10), (1, 11), (2, 20)], [(1, 11), (1, 12), (2, 20)]
            same(sorted(db.query("SELECT x, v FROM t(?)", (time - 1,))), old, f"merged {merged}: the moment before")
            same(sorted(db.query("SELECT x, v FROM t(?)", (time,))), new, f"merged {merged}: its own time")
            same(sorted(db.query("SELECT change, x, old_v, new_v FROM c(?, NULL, 'every')", (time - 2,)), key=repr), [("delete", 1, 10, None), ("insert", 1, None, 12)])
            same(db.query("SELECT DISTINCT changed_at FROM c(?, NULL, 'every')", (time - 2,)), [(time,)], "one commit")
            same(db.query("SELECT time, kind FROM tessera_log('db:t') WHERE kind <> 'write' ORDER BY kind"), [(time, "delete"), (time, "merge")] if merged else [(time, "both")])
            same(db.value("SELECT tessera_revert('db:t', ?)", (time - 1,)), 4)
            same(sorted(db.query("SELECT x, v FROM t")), old, "undone")
            same(db.query("SELECT * FROM tessera_check('db:t')"), [])
            db.close()
            shutil.rmtree(folder)


def test_bytes_come_back():
    """NaN, which SQL shows as NULL, and -0.0."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE n USING tessera(kind=dense, x INT32 DIMENSION(0, 3, 4), v FLOAT64)")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    data = bytes.fromhex("010000000000f87f" + "0000000000000080" + "000000000000f03f" + "000000000000f0ff")
    block = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data
    db.query("SELECT tessera_write_npy('db:n', 'v', ?)", (block,))
    time = last(db, "n")
    db.query("UPDATE n SET v = 5")
    same(db.value("SELECT tessera_revert('db:n', ?)", (time,)), 4)
    same(db.value("SELECT tessera_npy('db:n', 'v')")[-32:], data)


def test_attributes_that_were_added_since():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    db.query("INSERT INTO t VALUES(1, 1), (2, 2)")
    time = last(db)
    db.query("SELECT tessera_add_attribute('db:t', 'w INT32')")
    same(db.value("SELECT tessera_revert('db:t', ?)", (time,)), 0)
    db.query("UPDATE t SET v = 9 WHERE x = 1")
    same(db.value("SELECT tessera_revert('db:t', ?)", (time,)), 1)
    same(db.query("SELECT x, v FROM t"), [(1, 1), (2, 2)])


def test_far_boxes_and_what_a_commit_costs():
    """A dense array of 10^12 cells is not walked through, and a change of one cell writes one cell."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT64 DIMENSION(0, 999999, 1000), x INT64 DIMENSION(0, 999999, 1000), v INT32)")
    db.query("INSERT INTO t VALUES(0, 0, 1), (999999, 999999, 1)")
    time = last(db)
    db.query("INSERT OR REPLACE INTO t VALUES(999999, 999999, 2)")
    same(db.value("SELECT tessera_revert('db:t', ?)", (time,)), 1)
    same(db.query("SELECT y, v FROM t WHERE v > 0"), [(0, 1), (999999, 1)])
    same(db.value("SELECT cells FROM tessera_fragments('db:t') ORDER BY end_time DESC LIMIT 1"), 1)


def tiles_read(db, sql, parameters=()):
    """The tiles that a statement reads from the store, and what it gives."""
    before = db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'")
    result = db.value(sql, parameters)
    return db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'") - before, result


def many_tiles(kind):
    """Makes an array of 400 tiles, of which one cell was deleted if it is sparse. Returns its path."""
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({host.literal(path)}, {kind}, x INT32 DIMENSION(0, 199, 10), y INT32 DIMENSION(0, 199, 10), v FLOAT64{'' if 'dense' in kind else ', capacity=100'})")
    db.query("INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39999) SELECT i / 200, i % 200, i FROM n")
    if "dense" not in kind:
        db.query("DELETE FROM t WHERE x = 150 AND y = 150")
    db.close()
    return path


def copied(made):
    """Opens a copy of an array as t."""
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    shutil.copytree(made, path)
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({host.literal(path)}, cache_mb=0)")
    return db


def test_only_the_boxes_of_what_was_written_since_are_read():
    """Dense, sparse, and with duplicates: an array of 400 tiles, and changes in a few; a delete that both states have; more boxes than are walked one by one."""
    for kind in KINDS:
        made = many_tiles(kind)
        for far in (False, True):
            db = copied(made)
            before, time = db.query("SELECT * FROM t ORDER BY x, y"), last(db)
            if far:
                db.query("UPDATE t SET v = -v WHERE x % 10 = 5 AND y % 10 = 5 AND x < 190")   # 380 cells in as many tiles
            else:
                db.query("UPDATE t SET v = -v WHERE x BETWEEN 22 AND 31 AND y BETWEEN 47 AND 52")
            changed = 380 if far else 60
            if "duplicates" in kind or "dense" not in kind:   # an UPDATE of a row is a write; duplicates are deleted and written
                changed = changed * (2 if "duplicates" in kind else 1)
            whole = tiles_read(db, "SELECT count(v) FROM t")[0]
            read, result = tiles_read(db, "SELECT tessera_revert('db:t', ?, '{\"y\":[0,50]}')", (time,))
            rest = tiles_read(db, "SELECT tessera_revert('db:t', ?)", (time,))
            same(result + rest[1], changed, f"{kind}, far {far}")
            same(db.query("SELECT * FROM t ORDER BY x, y"), before, f"{kind}, far {far}")
            if not far:
                same(read + rest[0] < whole / 4, True, f"{kind}: {read} and {rest[0]} tiles read, {whole} are there")
            db.close()


def test_only_the_tiles_of_what_was_deleted_since_are_read():
    """Deletes that were committed, by coordinates, one by one and by an attribute, and those of the transaction."""
    for kind in [kind for kind in KINDS if "dense" not in kind]:
        made = many_tiles(kind)
        for statement in ("DELETE FROM t WHERE x BETWEEN 22 AND 31 AND y BETWEEN 47 AND 52", "DELETE FROM t WHERE x = 40 AND y IN (7, 190)",
                          "DELETE FROM t WHERE v BETWEEN 7 AND 90"):
            for own in (False, True):
                db = copied(made)
                before, time = db.query("SELECT * FROM t ORDER BY x, y"), last(db)
                whole = tiles_read(db, "SELECT count(v) FROM t")[0]
                db.query("BEGIN")
                db.query(statement)
                db.query("INSERT INTO t VALUES(150, 150, 1)")
                if not own:
                    db.query("COMMIT")
                deleted = len(before) + 1 - db.value("SELECT count(*) FROM t")
                read, result = tiles_read(db, "SELECT tessera_revert('db:t', ?)", ("committed" if own else time,))
                if own:
                    db.query("COMMIT")
                what = f"{kind}, {statement}, own {own}: {read} tiles read, {whole} are there"
                same(result, deleted + 1, what)
                same(db.query("SELECT * FROM t ORDER BY x, y"), before, what)
                same(read < whole / 4, True, what)
                db.close()


COORDINATES = {
    "INT32 DIMENSION(0, 99, 10)": lambda i: i,
    "UINT64 DIMENSION": lambda i: i * 2**57 + 1 if i < 64 else i,
    "TEXT DIMENSION": lambda i: "" if i == 0 else f"n{i * 37 % 100:02}",
    "DATE DIMENSION('2020-01-01', '2039-12-31', 30)": lambda i: f"2020-{i // 10 + 1:02}-{i % 10 + 10}",
    "FLOAT64 DIMENSION(-100, 100, 7)": lambda i: i / 4 - 10,
}


def test_few_changes_all_over_an_array():
    """With coordinates of each kind: what was written, deleted and put in is compared place by place, not the boxes around it; with the transaction's own changes, or all of them its own."""
    for number, (declared, value) in enumerate(COORDINATES.items()):
        for kind in [kind for kind in KINDS if "dense" not in kind]:
            for own in (False, True):
                db = Database()
                db.query(f"CREATE VIRTUAL TABLE t USING tessera({kind}, k {declared}, y INT32 DIMENSION(0, 99, 10), v FLOAT64)")
                db.query("BEGIN")
                for i in range(50):
                    db.query(f"INSERT INTO t WITH RECURSIVE n(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM n WHERE j < 39) SELECT ?, j, j FROM n", (value(i),))
                db.query("COMMIT")
                before, time = sorted(db.query("SELECT * FROM t")), last(db)
                if own:
                    db.query("BEGIN")
                for i in range(10):
                    db.query("UPDATE t SET v = ? WHERE k = ? AND y = ?", (-i - 1, value(5 * i), 4 * i))
                    db.query("DELETE FROM t WHERE k = ? AND y IN (?, 41)", (value(5 * i + 1), 4 * i))
                if not own:
                    db.query("BEGIN")
                db.query("INSERT INTO t VALUES(?, 50, 1), (?, 41, 2)", (value(50), value(7)))
                after = sorted(db.query("SELECT * FROM t"))
                compared = db.value("SELECT value FROM tessera_stats WHERE name = 'keys_compared'")
                changed = db.value("SELECT tessera_revert('db:t', ?)", ("committed" if own else time,))
                compared = db.value("SELECT value FROM tessera_stats WHERE name = 'keys_compared'") - compared
                what = f"{kind}, {declared}, own {own}: {compared} places"
                same(changed, 10 * (2 if "duplicates" in kind else 1) + 10 + 2, what)
                same(sorted(db.query("SELECT * FROM t")), before, what)
                same(20 <= compared <= 22, True, what)
                db.query("ROLLBACK" if number % 2 else "COMMIT")
                same(sorted(db.query("SELECT * FROM t")), before if own or number % 2 == 0 else [row for row in after if row[1] < 41], what)
                db.close()


def test_a_past_that_is_lost():
    """The error of a read of this time, and nothing is written; the box beside what is lost comes back."""
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({host.literal(path)}, kind=dense, x INT32 DIMENSION(0, 99, 10), v INT32)")
    times = []
    for i in range(3):
        db.query("INSERT OR REPLACE INTO t VALUES(1, ?), (2, ?)", (i, i))
        times.append(last(db))
    db.query("SELECT tessera_consolidate(?), tessera_vacuum(?)", (path, path))
    db.query("INSERT INTO t VALUES(50, 50)")
    db.query("BEGIN")
    check_contains(db.error("SELECT tessera_revert('db:t', ?)", (times[1],)).text, "is lost: cells of {\"x\":[1,2]} were merged over")
    same(db.query("SELECT x, v FROM t WHERE v IS NOT NULL"), [(1, 2), (2, 2), (50, 50)])
    same(db.value("SELECT tessera_revert('db:t', ?, '{\"x\":[50,60]}')", (times[1],)), 1)
    same(db.query("SELECT x, v FROM t WHERE v IS NOT NULL"), [(1, 2), (2, 2)])
    db.query("COMMIT")


def test_refusals():
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    make(db, "kind=sparse", host.literal(path) + ", ")
    db.query("INSERT INTO t VALUES(1, 1, 1, '', 1)")
    check_contains(db.error("SELECT tessera_revert('db:t', NULL)").text, "tessera_revert: the time is NULL: give a time, or 'committed'")
    check_contains(db.error("SELECT tessera_revert(?, 1)", (path,)).text, "is a path: name a table, 'db:t'")
    check_contains(db.error("SELECT tessera_revert('weather', 0)").text, "'weather' is a path: name a table, 'db:weather'")
    check_contains(db.error("SELECT tessera_revert('db:t', 'yesterday noon')").text, "tessera_revert:")
    check_contains(db.error("SELECT tessera_revert('db:t', 1, '{\"z\":1}')").text, "tessera_revert: the array has no dimension 'z'")
    check_contains(db.error("SELECT tessera_revert('db:nothing', 1)").text, "no such table: db:nothing")
    db.query(f"CREATE VIRTUAL TABLE old USING tessera({host.literal(path)}, as_of=1)")
    check_contains(db.error("SELECT tessera_revert('db:old', 1)").text, "read-only")
    db.query(f"CREATE VIRTUAL TABLE young USING tessera({host.literal(path)}, since=1)")
    check_contains(db.error("SELECT tessera_revert('db:young', 1)").text, "shows cells since a time only")
    same(rows(db), [(1, 1, 1.0, "", 1)], "nothing has changed")
    same(host.autocommit(db), True, "no transaction is open")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
