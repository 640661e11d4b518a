"""What a statement sees of an array that changes, and what a connection does to its process: rowids, snapshots,
threads, forks, interrupts, memory limits.

usage: state.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import gc
import os
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time

import host
from host import Database, Error, commits, copy, corpus, check_contains, multiply, same, uncommit

GRID = "new/timetravel/dense"
CELLS = "new/timetravel/sparse"
BIG = "new/medium/sparse_100k"
DENSE = "new/medium/dense_100k"
NOMEM, BUSY, INTERRUPT, CORRUPT, CANTOPEN, TOOBIG = 7, 5, 9, 11, 14, 18


def named(array, sql):
    """Replaces {1} and {2} by the names of both dimensions."""
    names = ("x", "y") if array == BIG else ("r", "c")
    return sql.replace("{1}", names[0]).replace("{2}", names[1])


def by_time(path):
    return sorted(commits(path), key=lambda n: int(n.split("_")[2]))


def rowids(db, table="t"):
    return dict(db.query(f"SELECT rowid, r || ' ' || c || ' ' || written_at FROM {table} WHERE written_at NOT NULL"))


# ---- Rowids ----------------------------------------------------------------------------------------------------------

def test_rowids_stay_while_the_connection_lives():
    for array in (GRID, CELLS):
        path = copy(array, "a")
        db = Database(os.path.join(host.FOLDER, os.path.basename(array) + ".db"))
        newest = by_time(path)[-1:]
        back = uncommit(path, newest)
        db.table("t", path)
        seen = {}

        def look(table="t"):
            for key, cell in rowids(db, table).items():
                same(seen.setdefault(key, cell), cell, f"rowid {key}")
        look("t(200)")   # the times are not in ascending order
        look()
        look("t(100)")
        back()
        look()
        look("t(300, 200)")
        count = len(seen)
        db.query("VACUUM")   # disconnects all tables
        look()
        db.query("DROP TABLE t")
        db.table("t", path, ", as_of=300")
        look()
        # More arrays than a connection keeps open while no table uses them.
        for i in range(20):
            db.table(f"x{i}", copy(CELLS, "x"))
            db.query(f"SELECT count(*) FROM x{i}")
        db.query("VACUUM")
        look()
        look("t(1000)")
        same(len(seen), count, "cells have new rowids")
        same(len(set(seen.values())), len(seen), "one cell has two rowids")


def test_two_tables_on_one_array():
    db = Database()
    path = copy(GRID, "a")
    db.table("t", path, ", cache_mb=0, threads=1, memory_mb=1")
    db.table("u", path, ", unwritten=fill, as_of=300, threads=4")
    db.table("v", path, ", columns='a'")
    same(db.value("SELECT count(*) FROM t WHERE a IS NULL") > 0, True)
    same(db.value("SELECT count(*) FROM u WHERE a IS NULL"), 0)
    same(db.query("SELECT count(a) FROM v"), db.query("SELECT count(a) FROM t"))
    same(set(rowids(db, "u")) - set(rowids(db, "t(300)")), set())
    same(db.query("SELECT count(*) FROM t JOIN u ON t.rowid = u.rowid AND (t.r, t.c, t.a) = (u.r, u.c, u.a) WHERE t.as_of = 300"),
         db.query("SELECT count(a) FROM t(300)"))


# ---- What a statement sees -------------------------------------------------------------------------------------------

def test_an_open_cursor_sees_one_state_the_next_statement_the_next():
    for array in (GRID, CELLS):
        path = copy(array, "a")
        names = by_time(path)
        back = uncommit(path, names[2:])
        db = Database()
        db.table("t", path)
        before = db.query("SELECT rowid, r, c, a FROM t")
        for sql in ("SELECT rowid, r, c, a FROM t", "SELECT rowid, r, c, a FROM t UNION ALL SELECT rowid, r, c, a FROM t",
                    "SELECT x.rowid, x.r, x.c, x.a FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.rowid = x.rowid)",
                    "SELECT x.rowid, x.r, x.c, x.a FROM t x, (SELECT count(*) AS n FROM t) WHERE (SELECT count(*) FROM t z WHERE z.r = x.r AND z.c <= x.c + n) > 0",
                    "SELECT rowid, r, c, a FROM t(5000) WHERE (SELECT count(*) FROM t) = " + str(len(before))):
            cursor = db.cursor(sql)
            got = [db.next(cursor)]
            back()
            while (row := db.next(cursor)) is not None:
                got.append(row)
            same(sorted(got, key=repr), sorted(before * (2 if "UNION" in sql else 1), key=repr), sql)
            after = db.query("SELECT rowid, r, c, a FROM t")
            assert after != before
            back = uncommit(path, names[2:])
            same(db.query("SELECT rowid, r, c, a FROM t"), before)


def test_functions_see_what_is_committed_when_they_are_called():
    """If no cursor is open, a function that reads is a statement of its own: it sees the commits of its connection and of others."""
    path = os.path.join(host.FOLDER, "d")
    db, other = Database(os.path.join(host.FOLDER, "f.db")), Database(os.path.join(host.FOLDER, "g.db"))
    db.query("CREATE VIRTUAL TABLE d USING tessera('d', kind=dense, y INT32 DIMENSION(0, 3, 2), x INT32 DIMENSION(0, 3, 2), a INT32)".replace("'d'", f"'{path}'"))
    other.table("d", path)

    def block(value):
        head = "{'descr': '<i4', 'fortran_order': False, 'shape': (4, 4), }"
        head += " " * (117 - len(head)) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<16i", *[value] * 16)

    looks = ["SELECT tessera_npy('db:d', 'a')", "SELECT tessera_preview('db:d', 'a', '{}', '{\"min\":0,\"max\":9}')", "SELECT tessera_png('db:d', 'a', '{}', '{\"min\":0,\"max\":9}')",
             "SELECT group_concat(sum) FROM (SELECT sum FROM tessera_aggregate('db:d', 'a', '{}', 'y'))"]
    db.query("INSERT INTO d VALUES(1, 1, 1)")
    seen = [[db.value(look)] for look in looks]

    def differ(what):
        for look, values in zip(looks, seen):
            value = db.value(look)
            assert value not in values, f"{look} after {what}: as before"
            values.append(value)
    db.query("SELECT tessera_write_npy('db:d', 'a', ?)", (block(2),))
    differ("this connection's tessera_write_npy")
    other.query("SELECT tessera_write_npy('db:d', 'a', ?)", (block(3),))
    differ("another connection's tessera_write_npy")
    other.query("UPDATE d SET a = 4 WHERE x = 2")
    differ("another connection's UPDATE")
    cursor = db.cursor("SELECT y, x, a FROM d")
    rows = [db.next(cursor)]
    db.query("SELECT tessera_write_npy('db:d', 'a', ?)", (block(5),))
    differ("a write while a cursor is open")
    while (row := db.next(cursor)) is not None:
        rows.append(row)
    same(sorted(rows), [(y, x, 4 if x == 2 else 3) for y in range(4) for x in range(4)], "the open cursor")
    other.query("SELECT tessera_add_attribute('db:d', 'b INT32')")
    same(len(db.value("SELECT tessera_npy('db:d', 'b')")), 128 + 64, "an attribute that another connection has added")


def test_a_statement_that_changes_another_array():
    """A function that changes one array, or a commit to it, during a statement does not change the states of other arrays that the statement reads."""
    db, other = Database(), Database()
    for name in "tm":
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera('{os.path.join(host.FOLDER, 'stands_' + name)}', x INTEGER DIMENSION(0, 9999), v INT)")
        other.table(name, os.path.join(host.FOLDER, "stands_" + name))
    db.query("INSERT INTO t VALUES(1, 1), (2, 2), (3, 3)")
    path, added = os.path.join(host.FOLDER, "stands_m"), [10]
    functions = {"0": None, f"tessera_set_metadata('{path}', 'k', p.x)": None, f"tessera_consolidate('{path}')": None, "commit": "INSERT INTO m VALUES(?, 1)"}
    joins = ["SELECT p.x, (SELECT count(*) FROM t q WHERE q.v >= 0 AND q.x <> p.x + 9000), {} FROM t p",
             "SELECT p.x, (SELECT count(*) FROM t q JOIN t r ON r.x = q.x WHERE r.v >= 0 AND r.x <> p.x + 9000), {} FROM t p",
             "SELECT p.x, q.x, {} FROM t p CROSS JOIN t q ON q.x <> p.x + 9000"]
    for join in joins:
        for function, write in functions.items():
            there = db.value("SELECT count(*) FROM t")
            cursor = db.cursor(join.format(function if not write else 0))
            rows = []
            while (row := db.next(cursor)) is not None:
                rows.append(row)
                added[0] += 1
                other.query("INSERT INTO t VALUES(?, 0)", (added[0],))
                if write and len(rows) <= 3:
                    before = db.value("SELECT count(*) FROM m")
                    db.query(write, (added[0],))
                    same(db.value("SELECT count(*) FROM m"), before + 1, "its own commit")
            if "CROSS" in join:
                same(len(rows), there * there, (join, function))
            else:
                same([row[1] for row in rows], [there] * there, (join, function))
            other.query("DELETE FROM t WHERE x > 3")
            cursor = None
            gc.collect()


def test_the_first_statement_after_others_have_changed_the_schema():
    """SQLite connects a table by the schema that the connection has read, which may be outdated: SQLite must read it again."""
    file = os.path.join(host.FOLDER, "schema.db")
    other = Database(file)
    other.query("CREATE TABLE plain(a)")
    other.query("CREATE VIRTUAL TABLE inside USING tessera(x INT32 DIMENSION(0, 99, 10), a INT32)")
    other.query("INSERT INTO inside VALUES(1, 10)")
    other.query(f"CREATE VIRTUAL TABLE gone USING tessera('{host.FOLDER}/gone', x INT32 DIMENSION(0, 99, 10), a INT32)")
    shutil.rmtree(os.path.join(host.FOLDER, "gone"))
    statements = {"SELECT * FROM inside": [(1, 10)], "SELECT count(*) FROM inside, plain": [(0,)], "INSERT INTO inside VALUES(1, 10)": [],
                  "SELECT name FROM pragma_table_info('inside')": [("x",), ("a",)], "SELECT name FROM pragma_table_info('gone')": [("x",), ("a",)],
                  "SELECT cells FROM tessera_array('db:inside')": [(2,)], "ALTER TABLE inside RENAME TO renamed": [], "DROP TABLE renamed": [], "DROP TABLE gone": []}
    for i, (sql, rows) in enumerate(statements.items()):
        db = Database(file)
        db.query("SELECT * FROM plain")   # reads the schema without connecting the tables
        other.query(f"CREATE TABLE new{i}(a)")
        same(db.query(sql), rows, sql)
        db.close()
    # The other connection drops the table and creates another one with the same name, each time.
    db = Database(file)
    for i in range(1, 5):
        other.query(f"CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 99, 10), {', '.join(f'a{k} INT32' for k in range(i))})")
        other.query(f"INSERT INTO t VALUES(1{', ' + str(i)}{', NULL' * (i - 1)})")
        same(db.query("SELECT * FROM t"), [(1, i) + (None,) * (i - 1)], "made again")
        db.query("SELECT count(*) FROM plain")
        other.query("DROP TABLE t")
        same(db.error("SELECT * FROM t").text, "no such table: t")


def test_a_table_that_is_replaced_while_functions_wait_for_the_lock():
    """Functions change the array that the table has when they get the lock."""
    file = os.path.join(host.FOLDER, "anew.db")
    db, other = Database(file), Database(file)
    make = "CREATE VIRTUAL TABLE t USING tessera(kind=dense, x INT32 DIMENSION(0, 9, 5), a INT32)"
    other.query(make)
    db.query("PRAGMA busy_timeout = 60000")
    head = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + (head + " " * (117 - len(head)) + "\n").encode() + struct.pack("<i", 7)
    calls = {"SELECT tessera_consolidate('db:t')": ("SELECT fragments FROM tessera_array('db:t')", 1), "SELECT tessera_set_metadata('db:t', 'k', 1)": ("SELECT count(*) FROM tessera_metadata('db:t')", 1),
             f"SELECT tessera_write_npy('db:t', 'a', x'{npy.hex()}')": ("SELECT a FROM t WHERE x = 0", 7)}
    for sql, (look, wanted) in calls.items():
        db.query("SELECT * FROM t")
        other.query("BEGIN IMMEDIATE")
        other.query("DROP TABLE t")
        other.query(make)
        other.query("INSERT INTO t VALUES(1, 1)")
        failed = []

        def call():
            try:
                db.query(sql)
            except Error as e:
                failed.append(e.text)
        thread = threading.Thread(target=call)
        thread.start()
        time.sleep(0.2)
        other.query("COMMIT")
        thread.join()
        same(failed, [], sql)
        same(db.value(look), wanted, sql)


def test_arrays_that_are_replaced():
    """If another array is at the same path, a table shows its known columns, or an error that says what to do; never wrong cells."""
    path = copy(CELLS, "a")
    file = os.path.join(host.FOLDER, "r.db")
    db = Database(file)
    db.table("t", path)
    rows = db.query("SELECT * FROM t")
    cursor = db.cursor("SELECT * FROM t")
    db.next(cursor)
    shutil.rmtree(path)
    shutil.copytree(corpus("new/sparse/string_2d"), path)
    cursor = None
    gc.collect()
    e = db.error("SELECT * FROM t")
    check_contains(e.text, "replaced")
    again = Database(file)
    assert again.value("SELECT count(*) FROM t") > 0
    again.close()
    # An array with the same columns and more cells.
    shutil.rmtree(path)
    shutil.copytree(corpus(CELLS), path)
    same(db.query("SELECT * FROM t"), rows)
    shutil.rmtree(path)
    shutil.copytree(corpus("new/timetravel/sparse_dups"), path)
    try:
        got = db.value("SELECT count(*) FROM t")
        want = Database(file).value("SELECT count(*) FROM t")
        same(got, want)
    except Error as e:
        check_contains(e.text, path)


def test_arrays_that_vanish_under_a_cursor():
    for array in (BIG, DENSE):
        path = copy(array, "a")
        db = Database()
        db.table("t", path, ", cache_mb=1")
        cursor = db.cursor("SELECT * FROM t")
        db.next(cursor)
        shutil.rmtree(path)
        try:
            while db.next(cursor) is not None:
                pass
        except Error as e:
            check_contains(e.text, path)
        cursor = None
        gc.collect()
        e = db.error("SELECT * FROM t")
        check_contains(e.text, "array not found")
        same(e.code in (None, CANTOPEN), True)
        shutil.copytree(corpus(array), path)
        assert db.value("SELECT count(*) FROM t") > 0
        db.query("DROP TABLE t")


def test_statements_prepared_without_the_array():
    """The statements fail while the array is missing, and return rows when it is back, also with arguments."""
    path = copy(CELLS, "a")
    file = os.path.join(host.FOLDER, "r.db")
    db = Database(file)
    db.table("t", path)
    queries = [("SELECT count(*) FROM t(?)", (200,)), ("SELECT count(*) FROM t WHERE r = ? AND c > 1", (2,)), ("SELECT count(*) FROM t", ()),
               ("SELECT count(*) FROM t x JOIN t y ON x.r = y.c WHERE y.as_of = ?", (200,))]
    want = [db.query(*q) for q in queries]
    columns = [row[1] for row in db.query("PRAGMA table_info(t)")]
    db.close()
    os.rename(path, path + ".away")
    db = Database(file)
    cursors = [db.raw.cursor() for _ in queries]   # the bindings cache prepared statements by their text
    for q in queries:
        check_contains(db.error(*q).text, "array not found: " + path)
    same([row[1] for row in db.query("PRAGMA table_info(t)")], columns)
    os.rename(path + ".away", path)
    same([db.query(*q) for q in queries], want)
    os.rename(path, path + ".away")
    for q in queries:
        check_contains(db.error(*q).text, "array not found: " + path)


# ---- Threads, forks, closing -----------------------------------------------------------------------------------------

def answers(db, which):
    array, options = which
    db.query("DROP TABLE IF EXISTS t")
    db.table("t", corpus(array), options)
    return [db.query(named(array, q)) for q in ("SELECT count(*), total(rowid > 0), min({1}), max({2}) FROM t", "SELECT count(*) FROM t WHERE {1} = 5",
                                                "SELECT sum(length(quote(x))) FROM (SELECT s AS x FROM t LIMIT 5000)")]


def test_connections_in_threads():
    work = [(BIG, ", threads=4"), (DENSE, ", threads=4"), (BIG, ", threads=1"), (DENSE, ", cache_mb=0"), (BIG, ", memory_mb=64, threads=8")]
    want = [answers(Database(), w) for w in work]
    failures = []

    def run(n):
        try:
            for i in range(len(work)):
                k = (i + n) % len(work)
                db = Database()
                same(answers(db, work[k]), want[k], work[k])
                db.close()
        except BaseException as e:
            failures.append(e)
    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_one_connection_in_several_threads():
    db = Database()
    want = answers(db, (BIG, ", threads=4"))
    failures = []

    def run():
        try:
            for _ in range(5):
                same(db.query(named(BIG, "SELECT count(*) FROM t WHERE {1} = 5")), want[1])
        except BaseException as e:
            failures.append(e)
    for _ in range(3):   # one after the other, each in a new thread
        t = threading.Thread(target=run)
        t.start()
        t.join()
    if failures:
        raise failures[0]


def test_forks():
    db = Database()
    want = answers(db, (BIG, ", threads=8"))
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(60)
                mine = Database()
                code = 0 if answers(mine, (BIG, ", threads=8")) == want else 2
            finally:
                os._exit(code)
        same(os.waitpid(child, 0)[1], 0, "the child's answers")
        same(answers(db, (BIG, ", threads=8")), want)


def test_closing_gives_back_all_memory():
    def use():
        db = Database(os.path.join(host.FOLDER, "m.db"))
        db.query("DROP TABLE IF EXISTS t")
        answers(db, (BIG, ""))
        cursor = db.cursor("SELECT * FROM t")
        db.next(cursor)
        try:
            db.query("SELECT * FROM t('x')")
        except Error:
            pass
        cursor = None
        db.close()
    use()
    gc.collect()
    before = host.memory_used()
    for _ in range(3):
        use()
    gc.collect()
    assert host.memory_used() <= before + 4096, (before, host.memory_used())


# ---- Stopping --------------------------------------------------------------------------------------------------------

LONG = [(BIG, 40, "SELECT count(*), sum(length(s)) FROM t"), (BIG, 40, "SELECT count(*) FROM t a JOIN t b ON a.x = b.y"), (DENSE, 30, "SELECT count(*) FROM t a, t b WHERE a.i < b.i")]


def test_interrupts():
    for array, copies, sql in LONG:
        path = copy(array, "a")
        multiply(path, copies)
        db = Database()
        db.table("t", path, ", cache_mb=0")
        for wait in (0.05, 0.2):
            at = []

            def stop():
                time.sleep(wait)
                at.append(time.monotonic())
                db.raw.interrupt()
            thread = threading.Thread(target=stop)
            db.query("SELECT 1 FROM t LIMIT 1")
            thread.start()
            try:
                db.query(sql)
                ended = time.monotonic()
                thread.join()
                assert ended <= at[0] + 0.01, f"{sql} was not stopped"   # the statement ended before the interrupt
            except Error as e:
                assert e.code in (None, INTERRUPT), e
                check_contains(e.text.lower(), "interrupt")
                assert time.monotonic() - at[0] < 2, f"{sql}: stopped after {time.monotonic() - at[0]:.1f} s"
            thread.join()
            assert db.value("SELECT count(*) FROM (SELECT 1 FROM t LIMIT 3)") == 3


def test_progress_handlers():
    for array, copies, sql in LONG:
        path = copy(array, "a")
        multiply(path, copies)
        db = Database()
        db.table("t", path, ", cache_mb=0")
        started = time.monotonic()
        calls = [0]

        def handler():
            calls[0] += 1
            return time.monotonic() > started + 0.2
        if host.binding == "apsw":
            db.raw.set_progress_handler(handler, 100)
        else:
            db.raw.set_progress_handler(handler, 100)
        try:
            db.query(sql)
            assert time.monotonic() < started + 0.3
        except Error as e:
            check_contains(e.text.lower(), "interrupt")
            assert time.monotonic() - started < 2.2
        assert calls[0] > 0
        db.raw.set_progress_handler(None, 0)
        assert db.value("SELECT count(*) FROM (SELECT 1 FROM t LIMIT 3)") == 3


# ---- Memory ----------------------------------------------------------------------------------------------------------

def test_small_budgets_answer_or_name_the_option():
    for array in (BIG, DENSE, CELLS, GRID):
        path = copy(array, "a")
        if array == BIG:
            multiply(path, 5)
        db = Database()
        db.table("t", path)
        queries = [named(array, q) for q in ("SELECT count(*), total({1}), total({2}) FROM t", "SELECT count(*) FROM t WHERE {2} = 7", "SELECT {1}, {2} FROM t ORDER BY 2, 1 LIMIT 3")]
        want = [db.query(q) for q in queries]
        for megabytes in (1, 2, 4, 64):
            db.query("DROP TABLE t")
            db.table("t", path, f", memory_mb={megabytes}, cache_mb=0")
            for q, w in zip(queries, want):
                try:
                    same(db.query(q), w, (array, megabytes, q))
                except Error as e:
                    check_contains(e.text, "memory_mb")
                    assert e.code in (None, TOOBIG), e
                    assert megabytes < 64, e


def test_several_threads_need_no_more_memory_than_one():
    """Tiles are read ahead only as long as there is memory: a statement that succeeds with one thread succeeds with several."""
    path = os.path.join(host.FOLDER, "ahead")
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT64 DIMENSION(0, 9999999, 100000), y INT64 DIMENSION(0, 999, 100), a INT32, n TEXT, capacity=4000)")
    for k in range(6):   # they overlap, and are merged by the version merge
        db.query("INSERT INTO t SELECT (i * 2654435761 + ?1 * 40503) % 10000000, i * 7919 % 1000, i, printf('%040d', i * ?1) "
                 "FROM (WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM s WHERE i < 15000) SELECT i FROM s)", (k + 1,))

    def answers(threads, megabytes):
        once = Database()
        once.table("t", path, f", threads={threads}, memory_mb={megabytes}, cache_mb=0")
        try:
            return once.query("SELECT count(*), sum(a), sum(length(n)) FROM (SELECT * FROM t)")
        except Error as e:
            assert e.code in (TOOBIG, None), e
            return None
        finally:
            once.close()
    alone = [answers(1, megabytes) for megabytes in range(1, 12)]
    assert alone[0] is None and alone[-1], alone
    for threads in (2, 4):
        for megabytes, answer in enumerate(alone, 1):
            if answer:
                same(answers(threads, megabytes), answer, f"{threads} threads, memory_mb={megabytes}")


def test_no_cache_and_any_number_of_threads():
    for array in (BIG, DENSE):
        want = None
        for options in ("", ", cache_mb=0", ", cache_mb=1", ", threads=1", ", threads=8", ", threads=64", ", threads=3, cache_mb=0"):
            db = Database()
            db.table("t", corpus(array), options)
            got = [db.query(named(array, q)) for q in ("SELECT * FROM t", "SELECT * FROM t WHERE {1} BETWEEN 3 AND 9 AND {2} > 4", "SELECT * FROM t WHERE {1} = 5 AND {2} IN (1, 2, 9)")]
            want = want or got
            assert got == want, (array, options)
            if "cache_mb=0" in options:
                db.query("SELECT tessera_reset_stats()")
                for _ in range(2):
                    db.query(named(array, "SELECT * FROM t WHERE {1} = 5"))
                same(db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_cached'"), 0, options)


def test_heap_limits():
    """At SQLite's heap limit statements fail with NOMEM, and nothing else happens."""
    path = copy(BIG, "a")
    multiply(path, 4)
    db = Database()
    db.table("t", path)
    want = db.query("SELECT count(*), total(length(s)) FROM t WHERE x > 3")
    db.close()
    failed = 0
    try:
        for limit in list(range(300_000, 3_000_000, 100_000)) + [5_000_000, 10_000_000, 20_000_000, 40_000_000]:
            db = Database()
            try:
                db.query(f"PRAGMA hard_heap_limit = {limit + host.memory_used()}")
                db.table("t", path)
                same(db.query("SELECT count(*), total(length(s)) FROM t WHERE x > 3"), want, limit)
            except Error as e:
                failed += 1
                assert e.code in (None, NOMEM) or "memory" in e.text, e
            finally:
                set_heap_limit(0)
            db.query("SELECT 1")
            db.close()
    finally:
        set_heap_limit(0)
    assert failed > 3


def set_heap_limit(limit):
    """Resets the limit, which a PRAGMA can only lower."""
    if host.binding == "apsw":
        host.apsw.hard_heap_limit(limit)
    else:
        import ctypes
        import ctypes.util
        library = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
        library.sqlite3_hard_heap_limit64.argtypes = [ctypes.c_int64]
        library.sqlite3_hard_heap_limit64(limit)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
