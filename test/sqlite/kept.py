"""States of the past that a vacuum or a purge took away: a request that meets what is lost fails, in every way into an
array; a box beside it, and times outside of the range, read as ever.

usage: kept.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import sys
import tempfile
import time

import host
from host import Database, Error, same


def new():
    return os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")


def commit(db, sql):
    """Runs a statement that commits, and returns the time of the commit. Commits get different times."""
    time.sleep(0.003)
    db.query(sql)
    return db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]


def lost(db, sql, *words):
    try:
        rows = db.query(sql)
    except Error as e:
        for word in words or ("is lost", "the past is whole"):
            if word not in e.text:
                raise AssertionError(f"{sql}: {e.text!r} lacks {word!r}") from None
        return
    raise AssertionError(f"{sql}: {rows} instead of an error")


def grid(place):
    """One cell far away that stays, and two commits in a corner that are merged and vacuumed. Returns the three times."""
    db = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "data.db"))
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({place} kind=dense, x INT32 DIMENSION(0, 99, 10), v INT32)")
    times = [commit(db, f"INSERT INTO t VALUES{rows}") for rows in ("(70, 7)", "(0, 1), (1, 1)", "(0, 2), (1, 2)")]
    db.query(f"SELECT tessera_consolidate('db:t', 'fragments', '{{\"since\":{times[1]}}}')")
    same(db.query(f"SELECT v FROM t({times[1]}) WHERE x = 0"), [(1,)], "merged, not vacuumed")
    db.query("SELECT tessera_vacuum('db:t')")
    return db, times


def test_dense():
    for place in (f"'{new()}',", ""):
        db, (far, first, second) = grid(place)
        for t in (first, second - 1):
            lost(db, f"SELECT * FROM t({t})", '{"x":[0,1]}', "were merged over", "vacuumed", "the past is whole")
            lost(db, f"SELECT v FROM t({t}) WHERE x = 1")
            lost(db, f"SELECT count(*) FROM t({t})")
            lost(db, f"SELECT * FROM t({t}) WHERE x < 90 ORDER BY x DESC LIMIT 1")
            lost(db, f"SELECT * FROM tessera_aggregate('db:t', 'v') WHERE as_of = {t}")
            lost(db, f"SELECT * FROM t WHERE since = {t + 1}", "what was written since")
            same(db.query(f"SELECT v FROM t({t}) WHERE x BETWEEN 70 AND 71 AND v IS NOT NULL"), [(7,)], "the box beside")
        same(db.query(f"SELECT x, v FROM t({first - 1})"), [(70, 7)], "before the range")
        same(sorted(db.query(f"SELECT x, v FROM t({second}) WHERE v IS NOT NULL")), [(0, 2), (1, 2), (70, 7)], "from the end of the range on")
        same(db.query(f"SELECT x FROM t WHERE since = {first} AND v IS NOT NULL"), [(0,), (1,)], "since the beginning of the range")
        same(db.query(f"SELECT x FROM t WHERE since = {second + 1}"), [], "since the end of the range")
        if not place:
            continue
        db.query(f"CREATE VIRTUAL TABLE old USING tessera({place} as_of={first})")
        lost(db, "SELECT tessera_npy('db:old', 'v')")
        lost(db, "SELECT tessera_npy('db:old', 'v', '{\"x\":[0,5]}')")
        same(len(db.query("SELECT tessera_npy('db:old', 'v', '{\"x\":[70,71]}')")[0][0]) > 8, True, "a block beside")
        db.query("CREATE VIRTUAL TABLE sums USING tessera_query(SELECT sum(v) FROM old)")
        lost(db, "SELECT * FROM sums")


def points(place, options=""):
    """Returns the times of three writes, a delete, and a write after it."""
    db = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "data.db"))
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({place} x INT32 DIMENSION(0, 99, 10), v INT32{options})")
    times = [commit(db, sql) for sql in ("INSERT INTO t VALUES(1, 1)", "INSERT INTO t VALUES(2, 2)", "DELETE FROM t WHERE x = 1", "INSERT INTO t VALUES(3, 3)")]
    return db, times


def test_sparse_keeps_its_past():
    db, times = points(f"'{new()}',")
    states = [db.query(f"SELECT * FROM t({t})") for t in times]
    db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    same([db.query(f"SELECT * FROM t({t})") for t in times], states, "merged and vacuumed")


def test_purge():
    for inside in (False, True):
        for options in ("", ", duplicates=yes"):
            db, (first, second, deleted, last) = points("" if inside else f"'{new()}',", options)
            purge = "SELECT tessera_consolidate('db:t', 'fragments', '{\"purge_deleted\":true}'), tessera_vacuum('db:t')"
            db.query(purge)
            for again in range(2):
                for t in (first, second, deleted - 1):
                    lost(db, f"SELECT * FROM t({t})", "cells deleted up to", "were purged", "the past is whole")
                same(db.query(f"SELECT x FROM t({first - 1})"), [], "before the first commit")
                same(db.query(f"SELECT x FROM t({deleted})"), [(2,)], "from the delete on")
                same(db.query(f"SELECT x FROM t({last})"), [(2,), (3,)], "later")
                commit(db, "DELETE FROM t WHERE x = 9")
                commit(db, "INSERT INTO t VALUES(4, 4)")   # after this merge, only the note tells
                db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")


def log(db):
    return db.query("SELECT kind, fragments, cells, box, condition, whole FROM tessera_log('db:t')")


def test_log():
    db, times = points("")
    db.query("SELECT tessera_reset_stats()")
    rows = [("write", 1, 1, '{"x":[1,1]}', None, 1), ("write", 1, 1, '{"x":[2,2]}', None, 1), ("delete", 0, 0, None, '"x" = 1', 1), ("write", 1, 1, '{"x":[3,3]}', None, 1)]
    same(log(db), rows, "each commit")
    same(db.query("SELECT time, start FROM tessera_log('db:t')"), [(t, t) for t in times], "times")
    same(db.query(f"SELECT time FROM tessera_log('db:t') WHERE as_of = {times[2]} AND since = {times[1]}"), [(times[1],), (times[2],)], "between two times")
    same(db.query("SELECT value FROM tessera_stats WHERE name = 'tiles_read'"), [(0,)], "no cell is read")
    db.query("SELECT tessera_consolidate('db:t')")
    merge = ("merge", 1, 3, '{"x":[1,3]}', None, 1)
    same(log(db), rows + [merge], "the merge beside its sources")
    db.query("SELECT tessera_vacuum('db:t')")
    same(log(db), [rows[2], merge], "vacuumed")
    db.query("INSERT INTO t VALUES(7, 7)")
    db.query("DELETE FROM t WHERE v IN (7, 8) AND x > 5")
    same(log(db)[-1][0], "delete", "a condition on an attribute")


def test_log_of_a_lost_past():
    db, (far, first, second) = grid("")
    same(db.query("SELECT time, start, kind, whole FROM tessera_log('db:t')"), [(far, far, "write", 1), (second, first, "merge", 0)], "a dense merge")
    db, times = points("")
    db.query("SELECT tessera_consolidate('db:t', 'fragments', '{\"purge_deleted\":true}'), tessera_vacuum('db:t')")
    same(db.query("SELECT kind, whole FROM tessera_log('db:t')"), [("delete", 1), ("merge", 0)], "a purge")


def test_log_texts():
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{new()}', n TEXT DIMENSION, at DATETIME_DAY, v FLOAT64)")
    db.query("INSERT INTO t VALUES('it''s', '2024-06-01', 0.5), ('b', '2024-06-02', NULL)")
    db.query("DELETE FROM t WHERE n = 'it''s'")
    same(db.query("SELECT kind, condition FROM tessera_log('db:t')")[-1], ("delete", '"n" = \'it\'\'s\''), "quoted")


def test_copies_start_whole():
    db, times = points("")
    db.query("SELECT tessera_consolidate('db:t', 'fragments', '{\"purge_deleted\":true}'), tessera_vacuum('db:t')")
    db.query("SELECT tessera_copy('db:t', 'db:u')")
    same(db.query(f"SELECT * FROM u({times[0]})"), [], "a copy has one time")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
