"""tessera_progress: what long work shows to other connections while it runs, and that its row ends with the work; and
that the host's progress handler is called regularly and can stop the work.

usage: progress.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import sys
import threading
import time

import host
from host import Database, literal, same

INTERRUPT = 9
LIST = "SELECT operation, path, done, total, started FROM tessera_progress"


def path(name):
    return os.path.join(host.FOLDER, name)


def run_watched(db, other, action, stop_at=None):
    """Runs an action. Returns the number of calls of the progress handler, and all rows that the other connection saw in these calls, by operation.
    The handler stops the action at call number `stop_at`."""
    calls, seen = [0], {}

    def handler():
        calls[0] += 1
        for operation, *row in other.query(LIST):
            rows = seen.setdefault(operation, [])
            if not rows or rows[-1] != row:
                rows.append(row)
        return stop_at is not None and calls[0] >= stop_at

    db.raw.set_progress_handler(handler, 1)
    try:
        action()
    finally:
        db.raw.set_progress_handler(None, 1)
        same(other.query(LIST), [], "what is left")
    return calls[0], seen


def check_rows(rows, where, began, steps):
    """Checks that `done` only grows, stays within `total`, and takes more than a few values."""
    before = (0, 0)
    for there, done, total, started in rows:
        same(there, where, "path")
        if not (done <= (total or 0) and before[0] <= done and before[1] <= (total or 0)):
            raise AssertionError(f"after {before} came {(done, total)}")
        if not began - 1 <= started / 1000 <= time.time() + 1:
            raise AssertionError(f"started at {started}, it is {time.time()}")
        before = (done, total or 0)
    if len({done for _, done, _, _ in rows}) < steps:
        raise AssertionError(f"{len(rows)} rows, {rows[:3]} ... {rows[-3:]}")


def check_shown(db, other, operation, where, steps, action, calls=10):
    """Checks that an action is shown with at least `steps` values of `done`, and polls the handler at least `calls` times."""
    began = time.time()
    count, seen = run_watched(db, other, action)
    same(operation in seen, True, f"{operation} among {list(seen)}")
    check_rows(seen[operation], where, began, steps)
    if count < calls:
        raise AssertionError(f"{operation}: the progress handler was called {count} times")
    return count


def check_stopped(db, other, action, at):
    """Checks that the action fails if the handler stops it at call number `at`, and that it is not shown afterwards."""
    try:
        run_watched(db, other, action, at)
    except host.Error as e:
        same(e.code in (INTERRUPT, None), True, f"{e.text}: code {e.code}")
        return
    raise AssertionError("it was not stopped")


def make_sparse(db, where, fragments=6, cells=4000):
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)}, x INT64 DIMENSION(0, 9999999), v INT32, s TEXT, capacity=100)")
    for f in range(fragments):
        fill(db, "t", f, cells)


def fill(db, table, first, cells):
    db.query(f"WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < {cells - 1}) "
             f"INSERT INTO {table} SELECT i * 7 + {first}, i, 'text ' || i FROM n")


def test_maintenance_is_shown():
    db, other, where = Database(path("main.db")), Database(), path("sparse")
    make_sparse(db, where)
    do = lambda sql: lambda: db.query(sql, (where,))
    check_stopped(db, other, do("SELECT tessera_consolidate(?)"), 40)
    check_shown(db, other, "consolidate", where, 3, do("SELECT tessera_consolidate(?)"))
    check_stopped(db, other, do("SELECT tessera_vacuum(?)"), 4)
    check_shown(db, other, "vacuum", where, 4, do("SELECT tessera_vacuum(?)"), 5)
    check_stopped(db, other, do("SELECT count(*) FROM tessera_check(?)"), 30)
    check_shown(db, other, "check", where, 5, do("SELECT count(*) FROM tessera_check(?)"))
    same(db.value("SELECT count(*) FROM tessera_check(?) WHERE severity = 'error'", (where,)), 0, "errors")
    for i in range(3):
        db.query("SELECT tessera_set_metadata(?, ?, 1)", (where, f"key{i}"))
    check_shown(db, other, "consolidate", where, 2, do("SELECT tessera_consolidate(?, 'array_meta')"), 2)
    fill(db, "t", 3, 10)
    check_shown(db, other, "consolidate", where, 1, do("SELECT tessera_consolidate(?, 'commits')"), 1)
    check_shown(db, other, "consolidate", where, 2, do("SELECT tessera_consolidate(?, 'fragment_meta')"), 2)


def test_dense_arrays_are_merged_cell_by_cell():
    db, other, where = Database(), Database(), path("dense")
    db.query(f"CREATE VIRTUAL TABLE d USING tessera({literal(where)}, kind=dense, y INT32 DIMENSION(0, 199, 10), x INT32 DIMENSION(0, 99, 10), v INT32)")
    for part in range(4):
        db.query("WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 4999) "
                 f"INSERT INTO d SELECT {part} * 50 + i / 100, i % 100, i FROM n")
    began = time.time()
    _, seen = run_watched(db, other, lambda: db.query("SELECT tessera_consolidate(?)", (where,)))
    check_rows(seen["consolidate"], where, began, 2)
    same(seen["consolidate"][-1][2], 20000, "all of its cells")


def test_commits_show_the_number_of_cells():
    db, other, where = Database(), Database(), path("commit")
    make_sparse(db, where, 0)
    db.query("BEGIN")
    fill(db, "t", 0, 60000)
    began = time.time()
    _, seen = run_watched(db, other, lambda: db.query("COMMIT"))
    check_rows(seen["commit"], where, began, 3)
    same(seen["commit"][-1][2], 60000, "total")
    db.query("BEGIN")
    fill(db, "t", 1, 60000)
    check_stopped(db, other, lambda: db.query("COMMIT"), 3)
    try:
        db.query("ROLLBACK")
    except host.Error:
        pass   # the failed COMMIT has rolled back already
    same(db.value("SELECT count(*) FROM t"), 60000, "rows")


def test_copies_and_blocks_are_shown():
    db, other, where = Database(path("main.db")), Database(), path("sparse")
    make_sparse(db, where, 3, 20000)
    check_shown(db, other, "copy", where, 3, lambda: db.query("SELECT tessera_copy(?, ?)", (where, path("copied"))))
    check_shown(db, other, "sync", where, 3, lambda: db.query("SELECT tessera_sync(?, 'db:inside')", (where,)))
    check_shown(db, other, "sync", "db:main.inside", 3, lambda: db.query("SELECT tessera_sync('db:inside', ?)", (path("out"),)))
    check_stopped(db, other, lambda: db.query("SELECT tessera_sync('db:inside', ?)", (path("again"),)), 20)
    same(os.path.exists(path("again")), False, "what an interrupted export leaves")
    relief = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sql", "data", "relief")
    for operation, sql in (("read", "SELECT length(tessera_npy(?, 'elevation'))"), ("draw", "SELECT length(tessera_png(?, 'elevation'))"),
                           ("aggregate", "SELECT max(max) FROM tessera_aggregate(?, 'elevation', NULL, 'y')")):
        fresh = Database()
        check_shown(fresh, other, operation, relief, 2, lambda: fresh.query(sql, (relief,)), 3)
    npy = db.value("SELECT tessera_npy(?, 'elevation')", (relief,))
    big = path("big")
    db.query(f"CREATE VIRTUAL TABLE h USING tessera({literal(big)}, kind=dense, y INT32 DIMENSION(0, 539, 20), x INT32 DIMENSION(0, 1079, 20), elevation INT16)")
    check_shown(db, other, "write", big, 2, lambda: db.query("SELECT tessera_write_npy(?, 'elevation', ?)", (big, npy)), 2)


def test_errors_end_the_progress():
    db, other = Database(), Database()
    where = path("broken")
    make_sparse(db, where, 2)
    folder = os.path.join(where, "__fragments")
    for name in os.listdir(folder):
        file = os.path.join(folder, name, "a0.tdb")
        with open(file, "r+b") as f:
            f.truncate(os.path.getsize(file) // 2)
    for sql in ("SELECT tessera_consolidate(?)", "SELECT tessera_copy(?, '" + path("nowhere") + "')", "SELECT * FROM tessera_aggregate(?, 'v', '{\"x\":[0,50]}')"):
        try:
            run_watched(Database(), other, lambda: db.query(sql, (where,)))
            raise AssertionError(f"{sql}: no error")
        except host.Error:
            pass
        same(other.query(LIST), [], sql)


def test_another_thread_sees_the_progress():
    db, where = Database(), path("threads")
    make_sparse(db, where, 6, 20000)
    seen, done = [], threading.Event()

    def look():
        other = Database()
        while not done.is_set():
            seen.extend(other.query(LIST))
        other.close()
    thread = threading.Thread(target=look)
    thread.start()
    try:
        db.query("SELECT tessera_consolidate(?)", (where,))
    finally:
        done.set()
        thread.join()
    for operation, there, finished, total, _ in seen:
        same((operation in ("consolidate", "commit"), there), (True, where), "row")
        same(finished <= (total or 0), True, f"{finished} of {total}")


def test_a_child_does_not_see_its_parents_work():
    if host.binding != "sqlite3":
        return
    db, where = Database(), path("forked")
    make_sparse(db, where)
    found = []

    def handler():   # the process forks during the work; the child opens other connections and sees none of its parent's work
        if not found and Database().query(LIST):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if Database().query(LIST) == [] and Database().query("SELECT count(*) FROM tessera_check(?)", (where,)) else 1)
                except BaseException:
                    os._exit(2)
            found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return 0
    db.raw.set_progress_handler(handler, 1)
    db.query("SELECT tessera_consolidate(?)", (where,))
    same(found, [0], "the child")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
