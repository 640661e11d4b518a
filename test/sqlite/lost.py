"""A vacuum that was cut off: whatever it has removed of the sources of a merged fragment, commits, directories or single
files, in whatever order, each read of the past has the rows of then or fails and says what is lost. It never has fewer.

usage: lost.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]      (the variable STATES: how many of each array, 0 is all)
"""
import itertools
import os
import random
import shutil
import sys
import time

import host
from host import Database, Error, check_contains, literal, same

STATES = int(os.environ.get("STATES", 40))
COLUMNS = "x INT DIMENSION(1, 40, 5), v INT"
WHOLE, GONE, NO_METADATA, NO_DATA = "whole", "gone", "without metadata", "without data"   # what is left of a source
COMMIT = "without commit"
METADATA = "__fragment_metadata.tdb"


def path(name):
    return os.path.join(host.FOLDER, name)


def attempt(function):
    """What a read gives; or that it fails, as it may if the past is lost."""
    try:
        return function()
    except Error as e:
        assert "lost" in e.text, e.text
        return "lost"


def look(where, times):
    """{(way to read, time): what it gives}"""
    db, seen = Database(), {}
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)})")
    db.query("CREATE VIRTUAL TABLE c USING tessera_changes(t)")
    seen["now", None] = sorted(db.query("SELECT * FROM t"))
    for t in times:
        seen["as_of", t] = attempt(lambda: sorted(db.query("SELECT * FROM t WHERE as_of = ?", (t,))))
        seen["point", t] = attempt(lambda: db.query("SELECT v FROM t WHERE as_of = ? AND x = 4", (t,)))
        seen["since", t] = attempt(lambda: sorted(db.query("SELECT * FROM t WHERE since = ?", (t,))))
        seen["sum", t] = attempt(lambda: db.query("SELECT sum FROM tessera_aggregate(?, 'v') WHERE as_of = ?", (where, t)))
        for mode in ("net", "every"):
            seen[mode, t] = attempt(lambda: sorted(db.query("SELECT * FROM c(?, NULL, ?)", (t, mode)), key=repr))
    seen["log", None] = db.query("SELECT time, kind, whole FROM tessera_log(?)", (where,))
    db.close()
    return seen


def build(name, options, also):
    """Three commits that overlap, merged and not vacuumed. Returns the names of their fragments."""
    where, db = path(name), Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)}, {options}{COLUMNS})")
    for i in range(3):
        db.query("INSERT OR REPLACE INTO t VALUES" + ", ".join(f"({x}, {10 * x + i})" for x in range(1 + 2 * i, 8 + i)))
        time.sleep(0.002)
    for what in also:
        db.query("SELECT tessera_consolidate(?, ?), tessera_vacuum(?, ?)", (where, what, where, what))
    names = [row[0] for row in db.query("SELECT name FROM tessera_fragments(?) ORDER BY start_time", (where,))]
    db.query("SELECT tessera_consolidate(?)", (where,))
    db.close()
    return names


def cut(where, names, states, uncommitted):
    for name, left, commit_gone in zip(names, states, uncommitted):
        directory = os.path.join(where, "__fragments", name)
        if commit_gone:
            os.remove(os.path.join(where, "__commits", name + ".wrt"))
        if left == GONE:
            shutil.rmtree(directory)
        for file in [] if left in (GONE, WHOLE) else os.listdir(directory):
            if (file == METADATA) == (left == NO_METADATA):
                os.remove(os.path.join(directory, file))


def run_all(name, options="", also=()):
    names = build(name, options, also)
    times = sorted({int(n.split("_")[2]) + d for n in names for d in (-1, 0)})
    whole = look(path(name), times)
    same([row for row in whole["log", None] if row[2] != 1], [], "nothing is lost before the vacuum")
    commits = [(0, 0, 0)] if "commits" in also else list(itertools.product((0, 1), repeat=3))
    every = list(itertools.product(itertools.product((WHOLE, GONE, NO_METADATA, NO_DATA), repeat=3), commits))
    lost = 0
    for states, uncommitted in every if STATES == 0 else random.Random(name).sample(every, min(STATES, len(every))):
        what = f"{name}: {states}, uncommitted {uncommitted}"
        shutil.rmtree(path("cut"), ignore_errors=True)
        shutil.copytree(path(name), path("cut"))
        cut(path("cut"), names, states, uncommitted)
        seen = look(path("cut"), times)
        for key, value in seen.items():
            if key[0] != "log" and value != "lost":
                same(value, whole[key], f"{what}: {key}")
        lost += sum(value == "lost" for value in seen.values())
        told = all(row[2] for row in seen["log", None])
        if states != (WHOLE,) * 3 or 1 in uncommitted:
            same(told, "sparse" in name, f"{what}: tessera_log {seen['log', None]}")
        if "sparse" in name:
            same([key for key, value in seen.items() if value == "lost"], [], f"{what}: cells keep their times")
        same(seen["now", None], whole["now", None], what)
    return lost


def test_dense():
    same(run_all("dense", "kind=dense, ") > 0, True)


def test_dense_with_commits_in_one_file():
    same(run_all("dense in one file", "kind=dense, ", ("commits",)) > 0, True)


def test_dense_with_consolidated_footers():
    same(run_all("dense with footers", "kind=dense, ", ("fragment_meta",)) > 0, True)


def test_sparse():
    run_all("sparse")


def test_a_vacuum_finishes_it():
    names = build("rest", "kind=dense, ", ())
    cut(path("rest"), names, (GONE, NO_METADATA, NO_DATA), (0, 0, 0))
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(path('rest'))})")
    times = [int(name.split("_")[2]) for name in names]
    message = db.error("SELECT * FROM t WHERE as_of = ?", (times[1],)).text
    check_contains(message, "is lost: cells of {\"x\":[1,9]} were merged over")
    check_contains(message, "the past is whole")
    db.query("SELECT tessera_vacuum(?)", (path("rest"),))
    check_contains(db.error("SELECT * FROM t WHERE as_of = ?", (times[1],)).text, "is lost: cells of {\"x\":[1,9]} were merged over")
    same(os.listdir(path("rest/__fragments")) != [], True)
    same(db.query("SELECT severity, message FROM tessera_check(?) WHERE severity <> 'note'", (path("rest"),)), [])


def test_a_file_of_data_is_named():
    names = build("data", "kind=dense, ", ())
    cut(path("data"), names, (NO_DATA, WHOLE, WHOLE), (0, 0, 0))
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(path('data'))})")
    message = db.error("SELECT v FROM t WHERE as_of = ? AND x = 1", (int(names[0].split("_")[2]),)).text
    check_contains(message, f"the states that need fragment {names[0]} are lost: it was merged into")
    check_contains(message, "a0.tdb")


def test_a_transaction_does_not_see_less():
    """What another connection merges, and then loses in a vacuum that is cut off, after a transaction has begun."""
    where = path("frozen")
    db, other = Database(path("frozen.db")), Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)}, kind=dense, {COLUMNS})")
    db.query("INSERT INTO t VALUES(5, 5), (6, 6)")
    name, = (row[0] for row in db.query("SELECT name FROM tessera_fragments(?)", (where,)))
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(30, 30)")
    same(db.query("SELECT v FROM t WHERE x = 5"), [(5,)])
    other.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)})")
    other.query("INSERT INTO t VALUES(2, 2)")
    other.query("SELECT tessera_consolidate(?)", (where,))
    same(db.query("SELECT x, v FROM t WHERE x IN (2, 30)"), [(30, 30)], "merged, and the sources are there")
    cut(where, [name], [GONE], [0])
    same(attempt(lambda: db.query("SELECT v FROM t WHERE x = 6")) in ([(6,)], "lost"), True)
    db.query("ROLLBACK")
    same(db.query("SELECT x, v FROM t WHERE x IN (2, 5, 6)"), [(2, 2), (5, 5), (6, 6)])


def test_a_transaction_does_not_see_less_after_a_purge():
    where = path("purged")
    db, other = Database(path("purged.db")), Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)}, {COLUMNS})")
    other.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)})")
    db.query("INSERT INTO t VALUES(1, 1), (10, 10)")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(30, 30)")
    time.sleep(0.002)   # what is committed in the same millisecond belongs to the state
    other.query("DELETE FROM t WHERE x = 10")
    other.query("INSERT INTO t VALUES(2, 2)")
    other.query("""SELECT tessera_consolidate(?, 'fragments', '{"purge_deleted":true}'), tessera_vacuum(?)""", (where, where))
    check_contains(db.error("SELECT x FROM t ORDER BY x").text, "was vacuumed during this statement")   # which lists the array again
    check_contains(db.error("SELECT x FROM t ORDER BY x").text, "merged with later commits and vacuumed: roll back")
    db.query("ROLLBACK")
    same(db.query("SELECT x FROM t ORDER BY x"), [(1,), (2,)])


if __name__ == "__main__":
    host.main(sys.modules[__name__])
