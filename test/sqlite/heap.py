"""`PRAGMA hard_heap_limit` holds for all work of the extension: with less memory than a statement needs it fails with
NOMEM and changes nothing; with more it succeeds, on the same connection.

usage: heap.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import shutil
import sys
import tempfile

import host
from host import Database, Error, same
from state import set_heap_limit

NOMEM = 7
LIMITS = [100_000, 300_000, 700_000, 1_500_000, 3_000_000, 8_000_000, 20_000_000]   # bytes above the memory in use
WORK = [
    "INSERT INTO s SELECT x + 20000, y, a FROM s", "UPDATE d SET a = 3 WHERE y < 50", "DELETE FROM s WHERE a % 3 = 1", "INSERT INTO i SELECT x + 20000, y, a FROM s",
    "SELECT tessera_consolidate('s')", "SELECT tessera_consolidate('db:i')", "SELECT tessera_vacuum('s')", "SELECT tessera_upkeep('s', '{\"fanout\":4}')", "SELECT tessera_copy('s', 'new')", "SELECT tessera_sync('db:i', 'new')",
    "SELECT tessera_sync('s', 'db:n')", "SELECT count(*) FROM tessera_check('s')", "SELECT length(tessera_npy('d', 'a'))", "SELECT length(tessera_png('d', 'a'))",
    "SELECT sum(sum) FROM tessera_aggregate('s', 'a', NULL, 'y')", "SELECT count(*) FROM (SELECT * FROM s ORDER BY y, x)",
    "CREATE VIRTUAL TABLE n USING tessera('new', x INT32 DIMENSION(0, 9, 5), a TEXT)", "SELECT tessera_set_metadata('s', 'k', zeroblob(100000))",
]


def make(folder):
    os.chdir(folder)
    db = Database("a.db")
    numbers = "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 9999)"
    db.query("CREATE VIRTUAL TABLE s USING tessera('s', x INT64 DIMENSION(0, 99999, 1000), y INT32 DIMENSION(0, 9, 10), a INT64 FILTERS(gzip), capacity=1000, threads=2)")
    db.query("CREATE VIRTUAL TABLE d USING tessera('d', kind=dense, y INT32 DIMENSION(0, 99, 10), x INT32 DIMENSION(0, 99, 10), a FLOAT64 FILTERS(bzip2))")
    for k in range(2):
        db.query(f"INSERT INTO s {numbers} SELECT i * 2 + {k}, i % 10, i FROM c")
    db.query(f"INSERT INTO d {numbers} SELECT i / 100, i % 100, i FROM c")
    db.query("SELECT tessera_sync('s', 'db:i')")
    db.close()


def state(db):
    return [db.query(f"SELECT count(*), total(a), total(x) FROM {t}") for t in ("s", "d", "i")]


def test_statements_fail_or_succeed_within_the_heap_limit():
    home, folder, failures = os.getcwd(), tempfile.mkdtemp(dir=host.FOLDER), 0
    try:
        make(folder)
        for sql in WORK:
            new = tempfile.mkdtemp(dir=host.FOLDER)
            shutil.copytree(folder, new, dirs_exist_ok=True)
            os.chdir(new)
            db = Database("a.db")
            before, worked = state(db), False
            for limit in LIMITS:
                set_heap_limit(host.memory_used() + limit)
                try:
                    db.query(sql)
                    worked = True
                except Error as e:
                    assert e.code in (None, NOMEM) or "memory" in (e.text or ""), f"{sql}, {limit} bytes: {e} ({e.code})"
                    failures += 1
                finally:
                    set_heap_limit(0)
                if worked:
                    break
                same(state(db), before, f"{sql}, {limit} bytes")
            if not worked:
                db.query(sql)
            for path in ("s", "d", "db:i"):
                same(db.query("SELECT * FROM tessera_check(?) WHERE severity = 'error'", (path,)), [], f"{sql}, {limit} bytes")
            db.close()
    finally:
        set_heap_limit(0)
        os.chdir(home)
    assert failures > len(WORK) // 2, f"only {failures} statements ran out of memory"


def test_zeros_that_find_no_memory():
    """The zeros of zeroblob() take memory only when a function asks for them."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT64 DIMENSION(0, 9), v INT16[], b BLOB)")
    for sql in ("SELECT length(tessera_sql('SELECT ?', zeroblob(50000000)))", "SELECT length(row) FROM tessera_select('SELECT ?', zeroblob(50000000))",
                "INSERT INTO t VALUES (1, zeroblob(50000000), NULL)", "INSERT INTO t VALUES (1, NULL, zeroblob(50000000))"):
        set_heap_limit(host.memory_used() + 8_000_000)
        try:
            e = db.error(sql)
        finally:
            set_heap_limit(0)
        assert e.code in (None, NOMEM) or "memory" in (e.text or ""), f"{sql}: {e} ({e.code})"
        same(db.query("SELECT * FROM t"), [], sql)


def test_a_table_that_finds_no_memory_when_it_is_opened():
    """It has failed for lack of memory, and is opened by the next statement, with the columns that the array has now."""
    for path in "", "'a', ":
        name = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "t.db")
        first = Database(name)
        first.query(f"CREATE VIRTUAL TABLE t USING tessera({path}x INT64 DIMENSION(0, 9), a INT64)")
        first.query("SELECT tessera_add_attribute('db:t', 'b INT64')")
        failures = 0
        for limit in range(2_000, 100_000, 2_000):
            db = Database(name)
            set_heap_limit(host.memory_used() + limit)
            try:
                db.query("SELECT x FROM t")
            except Error as e:
                assert e.code in (None, NOMEM) or "memory" in (e.text or ""), f"{limit} bytes: {e} ({e.code})"
                failures += 1
            finally:
                set_heap_limit(0)
            same(db.query("SELECT b FROM t"), [], f"{limit} bytes")
            db.close()
        first.close()
        assert failures > 5, f"only {failures} statements ran out of memory"


if __name__ == "__main__":
    host.main(sys.modules[__name__])
