"""A statement that needs more than `memory_mb` fails with SQLITE_TOOBIG: the statement ends, the transaction around it
goes on, and the message names `memory_mb` and the memory that was needed. (SQLITE_NOMEM, on which SQLite rolls the
whole transaction back, means that memory could not be allocated: heap.py.)

usage: budgets.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import re
import sys
import tempfile

import host
from host import Database, same

TOOBIG = 18


def holds(e, what):
    same(e.code, TOOBIG, f"{what}: the code of {e.text!r}")
    assert e.text and "memory_mb" in e.text, f"{what}: {e.text!r} does not name memory_mb"


def new(name="a"):
    return os.path.join(tempfile.mkdtemp(dir=host.FOLDER), name)


def large(filters, rows=20000):
    """Makes an array of one tile whose strings are some 12 MB. The options follow the filter."""
    path = new()
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT64 DIMENSION(0, 1000000), s TEXT NOT NULL FILTERS({filters}), v INT32 NOT NULL, capacity=100000)")
    db.query(f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows - 1}) INSERT INTO t SELECT i, hex(zeroblob(300)) || i, i FROM n")
    db.close()
    return path


def goes_on(db, sql, what):
    """Checks that the statement fails with TOOBIG, within a transaction that writes to an ordinary table and an array before and after it."""
    array = new()
    db.query("CREATE TABLE IF NOT EXISTS o(a)")
    db.query(f"CREATE VIRTUAL TABLE beside USING tessera('{array}', x INT32 DIMENSION(0, 9), v INT32)")
    db.query("BEGIN")
    db.query("INSERT INTO o VALUES('before')")
    db.query("INSERT INTO beside VALUES(1, 1)")
    e = db.error(sql)
    holds(e, what)
    assert not host.autocommit(db), f"{what}: the transaction is gone"
    db.query("INSERT INTO beside VALUES(2, 2)")
    db.query("INSERT INTO o VALUES('after')")
    db.query("COMMIT")
    same(db.query("SELECT a FROM o"), [("before",), ("after",)], what)
    same(db.query("SELECT x FROM beside"), [(1,), (2,)], what)
    db.query("DELETE FROM o")
    db.query("DROP TABLE beside")
    return e


def test_a_select_beyond_the_budget_ends_alone():
    for filters in ("none", "zstd", "gzip", "bzip2", "lz4"):
        path = large(filters)
        db = Database()
        db.table("t", path, ", memory_mb=1, cache_mb=0")
        e = goes_on(db, "SELECT max(s) FROM t", filters)
        assert re.search(r"\d+ bytes of memory asked for: memory_mb allows 1048576 bytes", e.text), e.text
        same(db.value("SELECT max(v) FROM t"), 19999, "what fits is read")
        db.close()


def test_the_memory_of_codecs_is_counted():
    """bzip2 needs 3.7 MB for its largest blocks, zlib some 40 KB."""
    path = new()
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT64 DIMENSION(0, 1000000), v INT64 NOT NULL FILTERS(bzip2(9)))")
    db.query("INSERT INTO t VALUES(1, 1)")
    db.close()
    db = Database()
    db.table("t", path, ", memory_mb=1")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(2, 2)")
    e = db.error("COMMIT")
    holds(e, "bzip2")
    assert "bzip2" in e.text, e.text
    db.close()


def test_functions_and_tables_beyond_the_budget_end_alone():
    path = large("zstd", 50000)
    db = Database()
    db.table("t", path, ", memory_mb=1")
    goes_on(db, "SELECT count(*) FROM tessera_aggregate('db:t', 'v', NULL, 'x')", "groups")
    goes_on(db, "SELECT x, count(s) FROM t GROUP BY x", "an order")
    db.close()


def test_rows_of_an_array_in_the_database_stay_in_memory():
    """Cells of an array in the database are not spilled before the commit: beyond memory_mb the statements of the transaction fail, one by one."""
    db = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "x.db"))
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT64 DIMENSION(0, 1000000), s TEXT NOT NULL, memory_mb=1)")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 'before')")
    db.query("SAVEPOINT one")
    e = db.error("WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO t SELECT i, hex(zeroblob(100)) FROM n")
    holds(e, "rows of an array in the database")
    assert not host.autocommit(db), "the transaction is gone"
    same(db.query("SELECT x, s FROM t"), [(1, "before")], "nothing of the statement is left")
    db.query("INSERT INTO t VALUES(2, 'after')")
    db.query("COMMIT")
    same(db.query("SELECT x, s FROM t"), [(1, "before"), (2, "after")], "committed")
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
