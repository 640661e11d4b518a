"""States of the past that TileDB has taken away: tessera says that they are lost, tessera_log which ones, and what TileDB
has kept reads as it was.

usage: past.py SHELL EXTENSION      (77: the package `tiledb` is not installed)
"""
import sys

from cases import Cases
from change import Session, equal

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None


def write(path, time, **cells):
    with tiledb.open(path, "w", timestamp=time) as a:
        a[numpy.array(cells["x"], dtype="int32")] = {"v": numpy.array(cells["v"], dtype="int32")}


def delete(path, time, condition):
    with tiledb.open(path, "d", timestamp=time) as a:
        a.query(cond=condition).submit()


def merge(path, purge=False):
    config = tiledb.Config({"sm.consolidation.purge_deleted_cells": str(purge).lower()})
    tiledb.consolidate(path, config=config)


def sparse(path, **options):
    domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 99), tile=10, dtype="int32"))
    tiledb.Array.create(path, tiledb.ArraySchema(domain, [tiledb.Attr("v", dtype="int32")], sparse=True, **options))


def whole(s, path):
    return [(row["time"], row["kind"], row["whole"]) for row in s(f"SELECT time, kind, whole FROM tessera_log('{path}')")]


def check_dense(s):
    path = s.path("dense")
    domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 99), tile=10, dtype="int32"))
    tiledb.Array.create(path, tiledb.ArraySchema(domain, [tiledb.Attr("v", dtype="int32")]))
    for time, value in ((10, 1), (20, 2), (30, 3)):
        with tiledb.open(path, "w", timestamp=time) as a:
            a[0:5] = numpy.full(5, value, dtype="int32")
    tiledb.consolidate(path)
    table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
    equal("merged, not vacuumed", s(table, "SELECT v FROM t(20) WHERE x = 1"), [{"v": 2}])
    equal("log before the vacuum", whole(s, path), [(10, "write", 1), (20, "write", 1), (30, "write", 1), (30, "merge", 1)])
    tiledb.vacuum(path)
    for time in (10, 20, 29):
        s.fails(f"{table}; SELECT * FROM t({time}) WHERE x < 5", "is lost", '{"x":[0,4]}', "the past is whole")
        equal("the box beside", s(table, f"SELECT v FROM t({time}) WHERE x > 50"), [])
    equal("the end of the range", s(table, "SELECT v FROM t(30) WHERE x = 1"), [{"v": 3}])
    equal("before", s(table, "SELECT v FROM t(9)"), [])
    equal("log after the vacuum", whole(s, path), [(30, "merge", 0)])


def check_sparse(s):
    """Without a purge, TileDB keeps the past of a sparse array; with one, it loses the states before the delete."""
    for duplicates in (False, True):
        for purge in (False, True):
            path = s.path(f"sparse{duplicates:d}{purge:d}")
            sparse(path, allows_duplicates=duplicates)
            table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
            write(path, 10, x=[1, 2], v=[1, 2])
            write(path, 20, x=[3], v=[3])
            delete(path, 30, "v == 2")
            write(path, 40, x=[4], v=[4])
            states = {time: s(table, f"SELECT x, v FROM t({time}) ORDER BY x") for time in (10, 20, 30, 40)}
            merge(path, purge)
            tiledb.vacuum(path)
            for time in (10, 20, 30, 40):
                if purge and time < 30:
                    s.fails(f"{table}; SELECT * FROM t({time})", "is lost", "purged", "the past is whole")
                else:
                    equal(f"as of {time}, purge {purge}", s(table, f"SELECT x, v FROM t({time}) ORDER BY x"), states[time])
            equal("log", whole(s, path), [(30, "delete", 1), (40, "merge", 0 if purge else None)])


def check_our_note(s):
    """After our purge, TileDB merges again: the note still tells what is lost."""
    path = s.path("noted")
    sparse(path)
    table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
    write(path, 10, x=[1, 2], v=[1, 2])
    delete(path, 20, "v == 2")
    write(path, 30, x=[3], v=[3])
    s(f"""SELECT tessera_consolidate('{path}', 'fragments', '{{"purge_deleted":true}}'), tessera_vacuum('{path}')""")
    write(path, 40, x=[4], v=[4])
    merge(path)
    tiledb.vacuum(path)
    s.fails(f"{table}; SELECT * FROM t(10)", "is lost", "purged")
    equal("from the delete on", s(table, "SELECT x FROM t(20)"), [{"x": 1}])


def check_late_deletes(s):
    """A delete that comes late, with a time that was merged already, has purged nothing; beside a purge, too."""
    for purge in (False, True):
        path = s.path(f"late{purge:d}")
        sparse(path)
        table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
        write(path, 10, x=[1, 2, 3, 4], v=[1, 2, 3, 4])
        if purge:
            delete(path, 20, "v == 2")
        write(path, 40, x=[5], v=[5])
        merge(path, purge)
        tiledb.vacuum(path)
        delete(path, 30, "v == 3")
        for time in (10, 19, 20, 29, 30, 40):
            if purge and time < 20:
                s.fails(f"{table}; SELECT * FROM t({time})", "is lost", "deleted up to 1970-01-01 00:00:00.020 were purged")
                continue
            expected = {1, 3, 4} | ({2} if not purge else set()) | ({5} if time >= 40 else set())
            expected -= {3} if time >= 30 else set()
            equal(f"late, purge {purge}, as of {time}", {row["x"] for row in s(table, f"SELECT x FROM t({time})")}, expected)
        log = [(20, "delete", 1)] * purge + [(30, "delete", 1), (40, "merge", 0 if purge else 1)]
        equal(f"log, purge {purge}", whole(s, path), log)


def check_no_half_of_an_update(s):
    """Duplicates: TileDB shows our UPDATE from its own time on, as we do, and not the delete alone a millisecond before."""
    path = s.path("update")
    sparse(path, allows_duplicates=True)
    table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
    s(table, "INSERT INTO t VALUES(1, 10), (1, 11), (2, 20)", "UPDATE t SET v = v + 1 WHERE x = 1")
    time = s(f"SELECT last_write FROM tessera_array('{path}')")[0]["last_write"]
    for merged in (False, True):
        if merged:
            merge(path)
            tiledb.vacuum(path)
        for at, values in ((time - 1, [10, 11, 20]), (time, [11, 12, 20])):
            equal(f"tessera, merged {merged}", sorted(row["v"] for row in s(table, f"SELECT v FROM t({at})")), values)
            if merged and at < time:
                continue   # TileDB's merged fragments have the time of the delete alone
            with tiledb.open(path, timestamp=at) as a:
                equal(f"TileDB, merged {merged}", sorted(a[:]["v"].tolist()), values)


def check_purge_by_a_newer_delete(s):
    """The delete is newer than all cells of the fragment that it was purged from."""
    for purge in (False, True):
        path = s.path(f"newer{purge:d}")
        sparse(path)
        table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
        write(path, 10, x=[1, 2], v=[1, 2])
        write(path, 20, x=[3], v=[3])
        delete(path, 30, "v == 2")
        merge(path, purge)
        tiledb.vacuum(path)
        for time, expected in ((10, [1, 2]), (20, [1, 2, 3]), (29, [1, 2, 3]), (30, [1, 3])):
            if purge and time < 30:
                s.fails(f"{table}; SELECT * FROM t({time})", "is lost", "deleted up to 1970-01-01 00:00:00.030 were purged")
            else:
                equal(f"purge {purge}, as of {time}", [row["x"] for row in s(table, f"SELECT x FROM t({time}) ORDER BY x")], expected)
        equal("log", whole(s, path), [(20, "merge", 0 if purge else None), (30, "delete", 1)])


def check_note_and_two_times(s):
    """Our purge by an UPDATE of duplicates, whose delete has two times; then TileDB merges again, and only the note tells."""
    path = s.path("twice")
    sparse(path, allows_duplicates=True)
    table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
    s(table, "INSERT INTO t VALUES(1, 10), (2, 20)", "INSERT INTO t VALUES(3, 30)", "UPDATE t SET v = v + 1 WHERE x = 1")
    time = s(f"SELECT last_write FROM tessera_array('{path}')")[0]["last_write"]
    s(f"""SELECT tessera_consolidate('{path}', 'fragments', '{{"purge_deleted":true}}'), tessera_vacuum('{path}')""", table, "INSERT INTO t VALUES(9, 9)")
    merge(path)
    tiledb.vacuum(path)
    for at in (time - 2, time - 1):
        s.fails(f"{table}; SELECT * FROM t({at})", "is lost", "purged")
    equal("from the UPDATE on", [row["v"] for row in s(table, f"SELECT v FROM t({time}) ORDER BY x")], [11, 20, 30])


def main():
    if tiledb is None:
        print("SKIPPED: the package tiledb is not installed")
        return 77
    tests = Cases("past")
    for check in (check_dense, check_sparse, check_late_deletes, check_our_note, check_no_half_of_an_update, check_purge_by_a_newer_delete, check_note_and_two_times):
        tests.run(check.__name__, lambda folder, check=check: check(Session(sys.argv[1], sys.argv[2], folder)))
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
