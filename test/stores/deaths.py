"""Processes that die at a request of theirs, while they change, copy, move or remove an array or a group in a bucket: what they leave is the state
before or the state after, what was left can be done again, and nothing is lost. transactions.py has the deaths of commits, creations and upkeep.

usage: deaths.py LIBRARY FOLDER [moto | versitygw | azurite | gcs | gcs_memory] [NAME OF TEST ...] [--every N] [--seed N]      # a sample, as transactions.py says
"""
import os
import sqlite3
import sys
import tempfile

from buckets import run
from transactions import ARRAY, deaths, outside, rows

CELLS = [(1, 1), (2, 2), (3, 30)]
CREATE = "CREATE VIRTUAL TABLE {table} USING tessera({place}x INT32 DIMENSION(0, 99, 10), a INT32)"


def fill(db, table, place=""):
    """Makes an array of two fragments with metadata, whose cells are CELLS."""
    db.execute(CREATE.format(table=table, place=place))
    db.execute(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
    db.execute(f"UPDATE {table} SET a = 30 WHERE x = 3")
    db.execute(f"SELECT tessera_set_metadata('db:{table}', 'k', 1)").fetchall()


def check(db, uri):
    found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not found, found


def attempt(db, statement):
    """Returns the message of a statement's error, or "" if it succeeds."""
    try:
        rows(db, statement)
        return ""
    except sqlite3.Error as error:
        return str(error)


def test_updates(bucket):
    states = [(1, 1), (2, 2), (3, 30)], [(1, 1), (2, 20), (3, 30)], [(1, 1), (2, 20), (3, 30), (4, 4)]

    def judge(uri, path, said):
        assert outside(bucket, uri) in states
        db = bucket.connect(path, direct=True)
        cells = rows(db, "SELECT x, a FROM t ORDER BY x")
        rows(db, "SELECT tessera_recover('db:t')")
        assert cells in states and outside(bucket, uri) == cells and (not said or cells == states[2]), cells
        db.execute("INSERT OR REPLACE INTO t VALUES (4, 5)")
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == cells[:3] + [(4, 5)]
        check(db, uri)
        db.close()

    deaths(bucket, "update", lambda db, uri: fill(db, "t", f"'{uri}', "), ("UPDATE t SET a = 20 WHERE x = 2", "INSERT INTO t VALUES (4, 4)"), judge, True)


def test_copies(bucket):
    """A copy, an export and an import that were cut off show nothing, or all; they can be made again, some after what is left was deleted."""

    def judge_goal(again):
        def judge(uri, path, said):
            goal = uri + "-goal"
            db = bucket.connect(path, direct=True)
            seen = attempt(db, f"SELECT * FROM tessera_array('{goal}')")
            if not seen:
                assert outside(bucket, goal) == CELLS, outside(bucket, goal)
            else:
                assert not said and "not found" in seen, seen
                message = attempt(db, again.format(uri=uri))
                if message: # without locks nobody knows for a minute that the process has died; then a sync takes over, and a copy never
                    assert ("is filling it, or was killed" in message or "was made a moment ago" in message) if "sync" in again else "is being created there" in message, message
                    bucket.remove(goal.removeprefix(ARRAY) + "/")
                    rows(db, again.format(uri=uri))
            assert outside(bucket, goal) == CELLS and outside(bucket, uri) in (CELLS, None)
            assert rows(db, f"SELECT key, value FROM tessera_metadata('{goal}')") == [("k", 1)]
            check(db, goal)
            db.close()
        return judge

    copy, export = "SELECT tessera_copy('{uri}', '{uri}-goal')", "SELECT tessera_sync('db:t', '{uri}-goal')"
    deaths(bucket, "copy", lambda db, uri: fill(db, "t", f"'{uri}', "), (copy,), judge_goal(copy), True)
    deaths(bucket, "export", lambda db, uri: fill(db, "t"), (export,), judge_goal(export), True)

    def judge_import(uri, path, said):
        db = bucket.connect(path, direct=True)
        made = rows(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'inside'") == [(1,)]
        assert made or not said
        if not made:
            db.execute(f"SELECT tessera_sync('{uri}', 'db:inside')").fetchall()
        assert rows(db, "SELECT x, a FROM inside ORDER BY x") == outside(bucket, uri) == CELLS
        check(db, "db:inside")
        db.close()

    deaths(bucket, "import", lambda db, uri: fill(db, "t", f"'{uri}', "), ("SELECT tessera_sync('{uri}', 'db:inside')",), judge_import, True)


PAIRS = [(a, b) for a in ("bucket", "directory", "database") for b in ("bucket", "directory", "database") if "bucket" in (a, b)]   # crash_upkeep.py has the others


def test_syncs(bucket):
    """A copy that follows its array, which has new commits, a delete, and a merge whose sources are gone: it is as it was, or as it will be; the next sync makes it the same, and then copies nothing."""
    after = [(1, 1), (3, 30), (4, 4), (5, 5)]
    for pair in PAIRS:
        with tempfile.TemporaryDirectory() as folder:
            sync_of(bucket, pair, after, folder, {"bucket": "{uri}-", "directory": folder + "/{name}-", "database": "db:"})


def sync_of(bucket, pair, after, folder, places):
    source, target = (places[kind] + end for kind, end in zip(pair, ("t", "copy")))
    sync = f"SELECT tessera_sync('{source}', '{target}')"

    def names(uri):
        return {"uri": uri, "name": uri.rpartition("/")[2]}

    def prepare(db, uri):
        fill(db, "t", "" if pair[0] == "database" else f"'{source}', ".format(**names(uri)))
        rows(db, sync.format(**names(uri)))
        db.execute("INSERT INTO t VALUES (4, 4)")
        db.execute(f"SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t', '{{\"grace_s\":0}}')").fetchall()
        db.execute("DELETE FROM t WHERE x = 2")
        db.execute("INSERT INTO t VALUES (5, 5)")

    def judge(uri, path, said):
        db = bucket.connect(path, direct=True)
        from_, to = source.format(**names(uri)), target.format(**names(uri))
        if pair[1] != "database":
            db.execute(f"CREATE VIRTUAL TABLE temp.copy USING tessera('{to}')")
        seen = rows(db, "SELECT x, a FROM copy ORDER BY x")
        assert seen in (CELLS, after) and (not said or seen == after), seen
        rows(db, f"SELECT tessera_sync('{from_}', '{to}')")
        assert rows(db, "SELECT x, a FROM copy ORDER BY x") == rows(db, "SELECT x, a FROM t ORDER BY x") == after
        assert rows(db, f"SELECT tessera_sync('{from_}', '{to}')") == [('{"copied":0,"removed":0,"bytes":0}',)]
        check(db, to)
        db.close()

    deaths(bucket, f"sync-{pair[0]}-{pair[1]}", prepare, (sync,), judge, True, folder)


def test_drops(bucket):
    """A drop that was cut off can be made again, and then nothing is left."""

    def judge(uri, path, said):
        seen = outside(bucket, uri)
        assert seen in (CELLS, None) and not (said and seen), seen
        db = bucket.connect(path, direct=True)
        message = attempt(db, f"SELECT tessera_drop('{uri}')")
        assert not message or not bucket.keys(uri.removeprefix(ARRAY) + "/"), message
        assert bucket.keys(uri.removeprefix(ARRAY) + "/") == []
        db.execute("DROP TABLE t")
        fill(db, "t", f"'{uri}', ")
        assert outside(bucket, uri) == CELLS
        db.close()

    deaths(bucket, "drop", lambda db, uri: fill(db, "t", f"'{uri}', "), ("SELECT tessera_drop('{uri}')",), judge, True)


def test_metadata(bucket):
    states = {1: 1}, {1: 1, 2: 2}, {2: 2}

    def judge(uri, path, said):
        db = bucket.connect(path, direct=True)
        found = {value: value for _, value in rows(db, f"SELECT key, value FROM tessera_metadata('{uri}')")}
        assert found in states and (not said or found == states[2]), found
        db.execute(f"SELECT tessera_set_metadata('{uri}', 'm', 3)").fetchall()
        for what in ("consolidate", "vacuum"):
            db.execute(f"SELECT tessera_{what}('{uri}', 'array_meta')").fetchall()
        assert {value for _, value in rows(db, f"SELECT key, value FROM tessera_metadata('{uri}')")} == {*found, 3}
        check(db, uri)
        db.close()

    changes = ("SELECT tessera_set_metadata('{uri}', 'l', 2)", "SELECT tessera_set_metadata('{uri}', 'k', NULL)")
    merges = tuple(f"SELECT tessera_{what}('{{uri}}', 'array_meta')" for what in ("consolidate", "vacuum"))
    deaths(bucket, "metadata", lambda db, uri: fill(db, "t", f"'{uri}', "), changes + merges, judge, True)


def test_evolutions(bucket):
    """The schema of before or of after, and the cells are the same."""

    def judge(uri, path, said):
        db = bucket.connect(":memory:", direct=True)
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
        columns = [row[1] for row in rows(db, "PRAGMA table_info(t)")]
        assert columns in (["x", "a"], ["x", "a", "b"], ["x", "b"]) and (not said or columns == ["x", "b"]), columns
        if "b" not in columns:
            message = attempt(db, f"SELECT tessera_add_attribute('{uri}', 'b INT32')")
            assert not message or "named 'b'" in message, message # the change that was cut off is completed first
        if "a" in columns:
            assert rows(db, "SELECT x, a FROM t ORDER BY x") == CELLS
        db.execute(f"CREATE VIRTUAL TABLE u USING tessera('{uri}')")
        db.execute("INSERT INTO u(x, b) VALUES (9, 9)")
        assert rows(db, "SELECT x, b FROM u ORDER BY x") == [(1, None), (2, None), (3, None), (9, 9)]
        check(db, uri)
        db.close()

    deaths(bucket, "evolve", lambda db, uri: fill(db, "t", f"'{uri}', "),
         ("SELECT tessera_add_attribute('{uri}', 'b INT32')", "SELECT tessera_drop_attribute('{uri}', 'a')"), judge, True)


def test_groups(bucket):
    """A group is made or not, and has its members of before or of after; each step can be made again."""

    def prepare(db, uri):
        db.execute(CREATE.format(table="t", place=f"'{uri}/t', "))

    steps = ("SELECT tessera_create_group('{uri}')", "SELECT tessera_add_member('{uri}', '{uri}/t', 'one')", "SELECT tessera_add_member('{uri}', '{uri}/t', 'two')",
             "SELECT tessera_drop_member('{uri}', 'one')", "SELECT tessera_set_metadata('{uri}', 'k', 1)", "SELECT tessera_consolidate('{uri}'), tessera_vacuum('{uri}')")

    def judge(uri, path, said):
        db = bucket.connect(path, direct=True)
        message = attempt(db, f"SELECT * FROM tessera_members('{uri}')")
        if message:
            assert not said and "not found" in message, message
            message = attempt(db, steps[0].format(uri=uri))
            assert not message, message
        members = [name for name, in rows(db, f"SELECT name FROM tessera_members('{uri}') ORDER BY 1")]
        assert members in ([], ["one"], ["one", "two"], ["two"]) and (not said or members == ["two"]), members
        for step in (steps[1] if "one" not in members else "", steps[3], steps[2] if "two" not in members else "", *steps[4:]):
            rows(db, step.format(uri=uri))
        assert [name for name, in rows(db, f"SELECT name FROM tessera_members('{uri}')")] == ["two"]
        assert rows(db, f"SELECT key, value FROM tessera_metadata('{uri}')") == [("k", 1)]
        db.close()

    deaths(bucket, "group", prepare, steps, judge, True)


def test_kinds_of_upkeep(bucket):
    """Each kind of consolidation and of vacuum by itself: the contents are always the same."""

    def prepare(db, uri):
        fill(db, "t", f"'{uri}', ")
        for sql in ("DELETE FROM t WHERE x = 2", "INSERT INTO t VALUES (2, 2)", f"SELECT tessera_set_metadata('{uri}', 'k', 1)"):
            rows(db, sql)

    def judge(uri, path, said):
        assert outside(bucket, uri) == CELLS
        db = bucket.connect(path, direct=True)
        for what in ("fragments", "commits", "fragment_meta", "array_meta"):
            rows(db, f"SELECT tessera_consolidate('{uri}', '{what}'), tessera_vacuum('{uri}', '{what}')")
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == CELLS
        assert rows(db, f"SELECT key, value FROM tessera_metadata('{uri}')") == [("k", 1)]
        check(db, uri)
        db.close()

    for what in ("fragments", "commits", "fragment_meta"):
        deaths(bucket, "kind-" + what, prepare, tuple(f"SELECT tessera_{verb}('{{uri}}', '{what}')" for verb in ("consolidate", "vacuum")), judge, True)


TESTS = (test_updates, test_copies, test_syncs, test_drops, test_metadata, test_evolutions, test_groups, test_kinds_of_upkeep)

if __name__ == "__main__":
    sys.exit(run(TESTS, "deaths"))
