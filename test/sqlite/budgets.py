"""A statement that needs more than `memory_mb` fails with SQLITE_TOOBIG: only the statement is undone, its transaction
stays open, and the message names `memory_mb` and the number of bytes that were requested. (SQLITE_NOMEM, after which
SQLite rolls the whole transaction back, means that memory could not be allocated: heap.py.)

usage: budgets.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import array
import os
import re
import sys
import tempfile

import host
from host import Database, same

TOOBIG = 18


def check_toobig(e, what):
    same(e.code, TOOBIG, f"{what}: the code of {e.text!r}")
    assert e.text and "memory_mb" in e.text, f"{what}: {e.text!r} does not name memory_mb"


def new_path(name="a"):
    return os.path.join(tempfile.mkdtemp(dir=host.FOLDER), name)


def open_file():
    """Returns a connection to a new database file."""
    return Database(new_path("x.db"))


def make_array(declaration, insert):
    """Makes an array in a directory, within the default budget, by one INSERT. Returns its path."""
    path = new_path()
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', {declaration})")
    db.query(insert)
    db.close()
    return path


def open_array(path, options=""):
    """Returns a connection whose table `t` is the array, with a budget of 1 MiB."""
    db = Database()
    db.table("t", path, f", memory_mb=1{options}")
    return db


def make_large(filters, rows=20000):
    """Makes an array of one tile whose strings take 600 bytes a row before they are filtered: 12 MB in 20,000 rows."""
    return make_array(f"x INT64 DIMENSION(0, 1000000), s TEXT NOT NULL FILTERS({filters}), v INT32 NOT NULL, capacity=100000",
                      f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows - 1}) INSERT INTO t SELECT i, hex(zeroblob(300)) || i, i FROM n")


def array_of_int64(block):
    values = array.array("q")
    values.frombytes(block)
    return values.tolist()


def check_fails_alone(db, sql, what):
    """Checks that the statement fails with TOOBIG, within a transaction that writes to an ordinary table and an array before and after it."""
    array = new_path()
    db.query("CREATE TABLE IF NOT EXISTS o(a)")
    db.query(f"CREATE VIRTUAL TABLE beside USING tessera('{array}', x INT32 DIMENSION(0, 9), v INT32)")
    db.query("BEGIN")
    db.query("INSERT INTO o VALUES('before')")
    db.query("INSERT INTO beside VALUES(1, 1)")
    e = db.error(sql)
    check_toobig(e, what)
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
        db = open_array(make_large(filters), ", cache_mb=0")
        e = check_fails_alone(db, "SELECT max(s) FROM t", filters)
        assert re.search(r"\d+ bytes of memory requested: memory_mb allows 1048576 bytes", e.text), e.text
        same(db.value("SELECT max(v) FROM t"), 19999, "a column that fits is read")
        db.close()


def test_a_commit_has_room_for_codecs():
    """A commit has room for codecs, however small memory_mb is: bzip2 needs 3.7 MB for its largest blocks."""
    path = make_array("x INT64 DIMENSION(0, 1000000), v INT64 NOT NULL FILTERS(bzip2(9))", "INSERT INTO t VALUES(1, 1)")
    db = open_array(path)
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(2, 2)")
    db.query("COMMIT")
    same(Database().value(f"SELECT count(*) FROM tessera_fragments('{path}')"), 2, "committed")
    db.close()


def test_many_small_commits_in_one_tile_are_read_within_the_budget():
    """Each commit writes one cell of the same space tile, so its fragment has a whole tile of each column: of 40 commits these take twice
    the budget. SQLite asks for the columns of a batch one by one, so the reader does not know them when it plans the memory."""
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{new_path()}', kind=dense, x INT32 DIMENSION(0, 99, 100), y INT32 DIMENSION(0, 19, 20), a INT64, b FLOAT64, c INT64, "
             "d FLOAT64, memory_mb=1)")
    for n in range(40):
        db.query("INSERT INTO t VALUES(?, ?, ?, ?, ?, ?)", (n * 7 % 100, n * 3 % 20, n, n + 0.5, -n, n * 2.0))
    wanted = sorted((n * 7 % 100, n * 3 % 20, n, n + 0.5, -n, n * 2.0) for n in range(40))
    columns = "x, y, a, b, c, d"
    same(sorted(db.query(f"SELECT {columns} FROM t WHERE a IS NOT NULL")), wanted, "cells of an indexed predicate")
    same(sorted(db.query(f"SELECT {columns} FROM t WHERE +a IS NOT NULL")), wanted, "cells of a predicate that SQLite tests")
    same(db.query(f"SELECT {columns} FROM t WHERE +a IS NOT NULL ORDER BY y, x"), sorted(wanted, key=lambda r: (r[1], r[0])), "cells in order")


def test_functions_and_tables_beyond_the_budget_end_alone():
    db = open_array(make_large("zstd", 50000))
    check_fails_alone(db, "SELECT count(*) FROM tessera_aggregate('db:t', 'v', NULL, 'x')", "groups")
    check_fails_alone(db, "SELECT x, count(s) FROM t GROUP BY x", "an order")
    db.close()


def test_the_check_reads_fewer_tiles_at_once():
    """tessera_check reads as many tiles at once as memory_mb has room for, down to a single one. It leaves out only a tile that does not fit alone."""
    number = "INT64 DIMENSION(0, 199999)"
    for declaration in (f"y {number}, x {number}, v FLOAT64, s TEXT, capacity=10000", f"y TEXT DIMENSION, x {number}, v FLOAT64, s TEXT, capacity=5000",
                        f"y {number}, x {number}, v INT32, s TEXT, capacity=10000, cell_order=hilbert"):
        db = open_array(make_array(declaration, "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99999) "
                                   "INSERT INTO t SELECT i, i * 7 % 200000, i, 'text ' || i FROM n"))
        same(db.query("SELECT severity, message FROM tessera_check('db:t')"), [], declaration)
        db.close()
    db = open_file()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 399, 100), x INT32 DIMENSION(0, 1999, 100), v FLOAT64, memory_mb=2)")
    db.query("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) INSERT INTO t SELECT a.i, b.i, a.i * 1000 + b.i FROM n a, n b WHERE a.i < 400")
    same(db.query("SELECT severity, message FROM tessera_check('db:t')"), [], "dense, in the database")
    db.close()
    db = open_array(make_large("zstd"))
    found = db.query("SELECT severity, message FROM tessera_check('db:t')")
    same([severity for severity, _ in found], ["warning"], str(found))
    assert "field 's', tile 0: not checked: " in found[0][1] and "memory_mb allows" in found[0][1], found
    db.close()


def test_a_block_leaves_a_tile_of_many_fragments_to_the_next_window():
    """tessera_npy reads several space tiles at once, but not one whose fragments would not fit into memory_mb beside the others: it comes alone, fragment by fragment."""
    db, tile = open_file(), 262144
    path = new_path()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, x INT64 DIMENSION(0, {2 * tile - 1}, {tile}), v INT64)")
    expected = [None] * (2 * tile)
    for number, (low, count) in enumerate([(0, tile)] + [(tile + 1000 * k, 190000) for k in range(6)]):   # the last six share a space tile: 12 MiB
        db.query(f"WITH RECURSIVE n(i) AS (SELECT {low} UNION ALL SELECT i + 1 FROM n WHERE i < {low + count - 1}) INSERT INTO t(x, v) SELECT i, i * 7 + {number} FROM n")
        expected[low:low + count] = [i * 7 + number for i in range(low, low + count)]
    written = tile + 195000
    for budget in (4, 8, 10, 12, 64):
        block = db.query(f"SELECT tessera_npy('{path}', 'v', '{{\"x\":[0,{written - 1}]}}', '{{\"memory_mb\":{budget}}}')")[0][0]
        assert array_of_int64(block[-8 * written:]) == expected[:written], f"memory_mb={budget}"
    db.close()


def path_arguments():
    """Returns the text before the columns of a declaration: for an array in the database, and for one in a directory."""
    return "", f"'{new_path()}', "


def test_a_statement_on_an_array_in_the_database_spills():
    """A statement inserts more rows than memory_mb has room for, alone and within savepoints: the rows are spilled to disk, and COMMIT publishes them."""
    fill = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999) INSERT INTO {t} SELECT i * 7919 % 20011 + ?1, hex(zeroblob(i % 40)) FROM n"
    db = open_file()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT64 DIMENSION(0, 1000000), s TEXT, capacity=1000, memory_mb=1)")
    db.query("CREATE TABLE o(x INTEGER PRIMARY KEY, s TEXT)")

    def on_both(sql, parameters=()):
        for t in ("t", "o"):
            db.query(sql.format(t=t), parameters)

    def check_rows(what):
        same(db.query("SELECT x, s FROM t ORDER BY x"), db.query("SELECT x, s FROM o ORDER BY x"), what)

    on_both(fill, (0,))
    check_rows("a transaction of its own")
    db.query("BEGIN")
    on_both("INSERT INTO {t} VALUES(900000, 'before')")
    db.query("SAVEPOINT one")
    on_both(fill, (100000,))
    db.query("SAVEPOINT two")
    on_both(fill, (200000,))
    on_both("UPDATE {t} SET s = 'changed' WHERE x BETWEEN 100000 AND 101000")
    db.query("ROLLBACK TO two")
    check_rows("a savepoint back")
    on_both("DELETE FROM {t} WHERE x % 5 = 0 AND x < 110000")
    db.query("RELEASE two")
    db.query("SAVEPOINT three")
    on_both(fill, (300000,))
    db.query("ROLLBACK TO one")
    on_both(fill, (400000,))
    check_rows("the first savepoint back")
    on_both("UPDATE {t} SET s = x WHERE x BETWEEN 410000 AND 415000")
    db.query("COMMIT")
    check_rows("committed")
    db.query("BEGIN")
    db.query(fill.format(t="t"), (500000,))
    db.query("ROLLBACK")
    check_rows("rolled back")
    same(db.query("SELECT severity, message FROM tessera_check('db:t') WHERE severity = 'error'"), [], "the array has no fault")
    db.close()


def test_an_insert_that_no_commit_could_write_is_refused():
    """An INSERT fails if no commit would have room for its cell or space tile. The statement is undone, its memory is free again, and COMMIT succeeds."""
    for place in path_arguments():
        db = open_file()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}x INT64 DIMENSION(0, 1000000), s TEXT, memory_mb=1)")
        db.query("CREATE TABLE o(a)")
        db.query("BEGIN")
        db.query("INSERT INTO o VALUES(1)")
        db.query("INSERT INTO t VALUES(1, 'before')")
        for attempt in range(3):
            e = db.error("WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t SELECT i, printf('%.*c', 100000, 'a') FROM n")
            check_toobig(e, "a tile of large cells")
            db.query("INSERT INTO t VALUES(?, printf('%.*c', 100000, 'b'))", (20 + attempt,))
        db.query("COMMIT")
        same(db.query("SELECT x, length(s) FROM t"), [(1, 6), (20, 100000), (21, 100000), (22, 100000)], "committed")
        same(db.value("SELECT count(*) FROM o"), 1, "the ordinary table")
        db.close()
    for place in path_arguments():
        db = open_file()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}kind=dense, y INT32 DIMENSION(0, 3999, 2000), x INT32 DIMENSION(0, 3999, 2000), v INT64 NOT NULL, memory_mb=1)")
        db.query("CREATE TABLE o(a)")
        db.query("BEGIN")
        db.query("INSERT INTO o VALUES(1)")
        check_toobig(db.error("INSERT INTO t VALUES(1, 1, 1)"), "a space tile of 32 MB")
        db.query("COMMIT")
        same(db.value("SELECT count(*) FROM o"), 1, "the ordinary table")
        db.close()


def test_deletes_beyond_the_budget_end_alone():
    """Deletes that exceed the budget are refused, and earlier ones can be committed."""
    for place in path_arguments():
        db = open_file()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}x INT64 DIMENSION(0, 1000000), v INT64, capacity=1000, memory_mb=1)")
        db.query("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 79999) INSERT INTO t SELECT i, i FROM n")
        db.query("BEGIN")
        db.query("DELETE FROM t WHERE x % 2 = 0 AND x < 56000")
        check_toobig(db.error("DELETE FROM t WHERE x % 2 = 1"), "too many rows")
        db.query("COMMIT")
        same(db.query("SELECT count(*), min(x) FROM t"), [(52000, 1)], "committed")
        db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
