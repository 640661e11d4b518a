"""tessera_hide, tessera_show and tessera_attach() without arguments: tables of arrays in the database whose declarations leave the schema, so that
programs without the extension open the file, and come back; and if_exists=open, by which the text of a table can be run again.

usage: hide.py EXTENSION ARRAYS
"""
import json
import os
import sqlite3
import sys

from host import Database, Error, check_contains, literal, main, same
import host

BUSY, ERROR, NOT_FOUND, MISMATCH, CORRUPT = 5, 1, 14, 20, 11
COLUMNS = "x INT32 DIMENSION(0, 99, 10), v INT32, e TEXT ENUM('a', 'b')"


def path(name):
    return os.path.join(host.FOLDER, name).replace(os.sep, "/")


def declarations(db):
    return dict(db.query("SELECT name, sql FROM main.sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%'"))


def example(name="a.db", columns=COLUMNS):
    db = Database(path(name))
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({columns})")
    db.query("INSERT INTO t VALUES(1, 10, 'a'), (2, 20, 'b'), (3, 30, 'a')")
    return db


def test_a_hidden_table_comes_back_as_it_was():
    db = example(columns=COLUMNS + ", cache_mb=3 -- a comment\n")
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT e, count(*) AS n FROM t GROUP BY e)")
    before, rows, groups = declarations(db), db.query("SELECT * FROM t"), db.query("SELECT * FROM q ORDER BY e")
    for _ in range(2):
        same((db.value("SELECT tessera_hide('db:q')"), db.value("SELECT tessera_hide('db:main.t')")), (1, 1))
        same(declarations(db), {})
        check_contains(db.error("SELECT * FROM t").text, "no such table")
        same(db.query("SELECT path FROM tessera_kept ORDER BY 1"), [("db:main.q",), ("db:main.t",)])
        same(db.value("PRAGMA main.integrity_check"), "ok")
        same(db.value("SELECT tessera_attach()"), 2)
        same(db.value("SELECT tessera_attach()"), 2, "again: they are there")
        same((db.query("SELECT * FROM t"), db.query("SELECT * FROM q ORDER BY e")), (rows, groups))
        same(declarations(db), {})
        same((db.value("SELECT tessera_show('db:t')"), db.value("SELECT tessera_show('db:q')")), (1, 1))
        same((db.query("SELECT * FROM main.t"), db.query("SELECT * FROM main.q ORDER BY e")), (rows, groups))
        same(db.query("SELECT name FROM temp.sqlite_schema"), [], "nothing is left in temp")
        same(db.query("SELECT * FROM tessera_kept"), [])
    plain = lambda texts: {name: "".join(text.replace('"', "").split()) for name, text in texts.items()}
    same(plain(declarations(db)), plain(before))
    db.query("INSERT INTO t VALUES(4, 40, 'b')")
    same(Database(path("a.db")).value("SELECT count(*) FROM t"), 4)


def test_hidden_tables_are_written_in_the_same_transactions():
    for mode in ("delete", "wal"):
        db = example(mode + ".db")
        db.query(f"PRAGMA journal_mode={mode}")
        db.query("CREATE TABLE ordinary(x)")
        db.query("SELECT tessera_hide('db:t')")
        other = Database(path(mode + ".db"))
        for one in (db, other):
            one.query("SELECT tessera_attach()")
            one.query("PRAGMA busy_timeout=50")
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(4, 40, 'b')")
        db.query("SAVEPOINT s")
        db.query("INSERT INTO t VALUES(5, 50, 'b')")
        db.query("INSERT INTO ordinary VALUES(1)")
        db.query("ROLLBACK TO s")
        same((db.value("SELECT count(*) FROM t"), other.value("SELECT count(*) FROM t")), (4, 3), mode)
        same(other.error("INSERT INTO t VALUES(9, 9, 'a')").code in (None, BUSY), True, "the first write takes the file's lock")
        db.query("ROLLBACK")
        same(db.value("SELECT count(*) FROM t"), 3)
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(4, 40, 'b')")
        db.query("INSERT INTO ordinary VALUES(1)")
        db.query("COMMIT")
        same((other.value("SELECT count(*) FROM t"), other.value("SELECT count(*) FROM ordinary")), (4, 1), mode)
        other.query("UPDATE t SET v = 41 WHERE x = 4")
        other.query("DELETE FROM t WHERE x = 1")
        same(db.query("SELECT x, v FROM t ORDER BY x"), [(2, 20), (3, 30), (4, 41)], mode)
        same(db.value("SELECT tessera_consolidate('db:t')") > 1, True)
        same(other.value("SELECT tessera_vacuum('db:t')") > 0, True)
        db.query("SELECT tessera_add_attribute('db:t', 'w INT8'), tessera_extend_enumeration('db:t', 'e', 'c')")
        same(db.query("SELECT * FROM tessera_check('db:t')"), [])
        fresh = Database(path(mode + ".db"))
        same(fresh.value("SELECT tessera_attach()"), 1)
        fresh.query("INSERT INTO t VALUES(7, 70, 'c', 7)")
        same(fresh.value("SELECT tessera_show('db:t')"), 1, "also after its columns have changed")
        same(fresh.query("SELECT * FROM t WHERE x > 3 ORDER BY x"), [(4, 41, "b", None), (7, 70, "c", 7)])


def test_in_use():
    db = example()
    cursor = db.cursor("SELECT * FROM t")
    db.next(cursor)
    error = db.error("SELECT tessera_hide('db:t')")
    same(error.code in (None, BUSY), True, error.text)
    check_contains(error.text, "in use")
    del cursor
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(9, 9, 'a')")
    check_contains(db.error("SELECT tessera_hide('db:t')").text, "commit first")
    db.query("COMMIT")
    same(list(declarations(db)), ["t"])
    db.query("SELECT tessera_hide('db:t')")
    db.query("SELECT tessera_attach()")
    cursor = db.cursor("SELECT * FROM t")
    db.next(cursor)
    error = db.error("SELECT tessera_show('db:t')")
    same(error.code in (None, BUSY), True, error.text)
    same(db.value("SELECT count(*) FROM tessera_kept"), 1)
    del cursor
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(8, 9, 'a')")
    check_contains(db.error("SELECT tessera_show('db:t')").text, "commit first")
    check_contains(db.error("DROP TABLE temp.t").text, "locked")   # the text is SQLite's
    db.query("COMMIT")
    db.query("DROP TABLE temp.t")
    same(db.value("SELECT tessera_show('db:t')"), 1)
    same(db.value("SELECT count(*) FROM t"), 5)


def test_an_attached_table_connects_again():
    """SQLite reads the schema of temp again after a rollback: then xConnect gets the arguments, the columns with them."""
    db = example()
    db.query("SELECT tessera_hide('db:t')")
    db.query("SELECT tessera_attach()")
    db.query("BEGIN")
    db.query("CREATE TEMP TABLE other(x)")
    db.query("ROLLBACK")
    db.query("INSERT INTO t VALUES(4, 40, 'a')")
    same(db.value("SELECT count(*) FROM t"), 4)
    db.query("BEGIN")
    db.query("SELECT tessera_show('db:t')")
    db.query("ROLLBACK")
    same((db.value("SELECT count(*) FROM temp.t"), db.value("SELECT tessera_show('db:t')")), (4, 1))


def test_rollback_undoes_both():
    db = example()
    for call, others in (("tessera_hide", ["t"]), ("tessera_show", [])):
        db.query("BEGIN")
        same(db.value(f"SELECT {call}('db:t')"), 1)
        db.query("ROLLBACK")
        same(list(declarations(db)), others, call)
        same(db.value("SELECT count(*) FROM sqlite_schema WHERE name = 'tessera_kept'"), int(call == "tessera_show"))
        same(list(declarations(Database(path("a.db")))), others)
        db.query(f"SELECT {call}('db:t')")
    same(db.value("SELECT count(*) FROM t"), 3)


def test_overviews_go_with_their_table():
    db = Database(path("o.db"))
    db.query("CREATE VIRTUAL TABLE o USING tessera(kind=dense, y INT32 DIMENSION(0, 599, 100), x INT32 DIMENSION(0, 599, 100), v INT32)")
    db.query("WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 599) INSERT INTO o SELECT a.i, b.i, a.i FROM n a, n b")
    db.query("SELECT tessera_make_overviews('db:o')")
    names = sorted(declarations(db))
    same(len(names) > 1, True, names)
    same(db.value("SELECT tessera_hide('db:o')"), len(names))
    same(declarations(db), {})
    same(db.value("SELECT tessera_attach()"), len(names))
    same(db.value("SELECT length(tessera_png('db:o', 'v', NULL, '{\"width\":60}')) > 0"), 1)
    same(db.value("SELECT tessera_show('db:o')"), len(names))
    same(sorted(declarations(db)), names)
    db.query("DROP TABLE o")
    same(declarations(db), {}, "the levels are known as levels")


def test_what_cannot_be_hidden():
    db = example()
    db.query(f"CREATE VIRTUAL TABLE d USING tessera({literal(path('dir'))}, x INT32 DIMENSION(0, 9), v INT32)")
    db.query("CREATE TABLE ordinary(x)")
    db.query("CREATE TEMP TABLE other(x)")
    for argument, says in (("'db:d'", "not in the file"), ("'db:ordinary'", "no table of tessera"), ("'db:nosuch'", "no table of tessera"), ("'t'", "expected 'db:TABLE'"),
                           ("'db:temp.other'", "only tables of main"), ("NULL", "expected 'db:TABLE'"), ("'db:t_files'", "no table of tessera")):
        check_contains(db.error(f"SELECT tessera_hide({argument})").text, says)
    for argument, says in (("'db:t'", "is not hidden"), ("'db:nosuch'", "is not hidden"), ("'t'", "expected 'db:TABLE'")):
        check_contains(db.error(f"SELECT tessera_show({argument})").text, says)
    same(db.value("SELECT tessera_attach()"), 0)
    same(sorted(declarations(db)), ["d", "t"])


def test_a_table_of_the_name_in_temp():
    db = example()
    db.query("SELECT tessera_hide('db:t')")
    db.query("CREATE TEMP TABLE t(x)")
    check_contains(db.error("SELECT tessera_attach()").text, "a table t exists in temp")
    same(db.value("SELECT tessera_show('db:t')"), 1, "it is not ours, and stays")
    same((db.query("SELECT * FROM t"), db.value("SELECT count(*) FROM main.t")), ([], 3))


def test_one_row_that_fails_does_not_stop_the_others():
    """Each row that fails is named; the others are attached, stay so, and no transaction stays open."""
    for begin in (False, True):
        db = example(f"failing{begin:d}.db")
        db.query("SELECT tessera_hide('db:t')")
        for row in (("/nothing/here", None), ("db:main.lost", '{"module":"tessera","arguments":"x"}'), ("db:main.worse", '{"module":"other"}'), (b"blob", None), ("text", 5)):
            db.query("INSERT INTO tessera_kept VALUES(?, ?)", row)
        if begin:
            db.query("BEGIN")
        for _ in range(2):   # attached already: the same
            text = db.error("SELECT tessera_attach()").text
            for part in ("tessera_attach: ", "5 rows of tessera_kept failed, the others are attached", "/nothing/here", "db:main.lost: ", "db:main.worse: ", "a row whose path or options are not text"):
                check_contains(text, part)
            same(db.value("SELECT count(*) FROM temp.sqlite_schema WHERE name = 't'"), 1)
            same(db.value("SELECT count(*) > 0 FROM t"), 1)
        same(host.autocommit(db), not begin)
        if begin:
            db.query("COMMIT")
        db.query("DELETE FROM tessera_kept WHERE path NOT IN ('db:main.t', '/nothing/here')")
        text = db.error("SELECT tessera_attach()").text
        for part in ("tessera_attach: 1 row of tessera_kept failed, the others are attached: ", "/nothing/here", "; DELETE FROM tessera_kept WHERE path = ... forgets one"):
            check_contains(text, part)
        db.query("DELETE FROM tessera_kept WHERE path = '/nothing/here'")
        same(db.value("SELECT tessera_attach()"), 1)
        db.close()


def test_what_a_stranger_has_written_runs_nothing_else():
    db = example()
    db.query("SELECT tessera_hide('db:t')")
    db.query("CREATE TABLE victim(x)")
    original = db.value("SELECT options FROM tessera_kept")

    def kept(at, options):
        db.query("DELETE FROM tessera_kept")
        db.query("INSERT INTO tessera_kept VALUES(?, ?)", (at, options if isinstance(options, (str, type(None))) else json.dumps(options)))
        for call in ("SELECT tessera_attach()", "SELECT tessera_show('db:t')"):
            try:
                db.query(call)
            except Error:
                pass
        same(db.value("SELECT count(*) FROM sqlite_schema WHERE name = 'victim'"), 1)
        db.query("DROP TABLE IF EXISTS temp.t")

    for arguments in ("x INT32 DIMENSION(0, 9), v INT8); DROP TABLE victim; --", "x INT32 DIMENSION); DROP TABLE victim; CREATE TABLE z(x", "'/etc/passwd'", "SELECT 1", "", "(", "'", '"',
                      "x INT32 DIMENSION(0, 9) /*", "x INT32 DIMENSION(0, 9) --", "'db:main.t', 'db:main.t'"):
        for module in ("tessera", "tessera_query"):
            kept("db:main.t", {"module": module, "arguments": arguments})
    for options in ({"module": "tessera"}, {"module": "sqlite_dbpage", "arguments": ""}, {"module": "fts5", "arguments": "x"}, {"module": 7}, '{"module"', '{"module":[', "[]", "7", ""):
        kept("db:main.t", options)
    for at in ("db:", "db:t.t.t", "db:temp.t", "nosuch", ""):
        kept(at, original)
    for statement in ("DROP TABLE tessera_kept", "CREATE VIEW tessera_kept AS SELECT 'db:main.t' AS path, '{}' AS options"):
        db.query(statement)
    check_contains(db.error("SELECT tessera_attach()").text, "is not the table that tessera makes")


def test_only_temp_takes_the_path_of_a_table():
    db = example()
    db.query("SELECT tessera_hide('db:t')")
    check_contains(db.error("CREATE VIRTUAL TABLE main.again USING tessera('db:main.t')").text, "names a table of this database")
    check_contains(db.error(f"CREATE VIRTUAL TABLE temp.again USING tessera('db:main.t', {COLUMNS})").text, "without columns")
    same(db.error("CREATE VIRTUAL TABLE temp.again USING tessera('db:nosuch')").code in (None, NOT_FOUND), True)
    db.query("CREATE VIRTUAL TABLE temp.again USING tessera('db:t', enums=code)")
    same(db.query("SELECT x, e FROM again WHERE x < 3"), [(1, 0), (2, 1)])
    db.query("ALTER TABLE again RENAME TO renamed")
    db.query("INSERT INTO renamed VALUES(5, 5, 0)")
    db.query("DROP TABLE renamed")
    same(db.value("SELECT tessera_show('db:t')"), 1)
    same(db.value("SELECT count(*) FROM t"), 4, "DROP leaves an array that is not the table's own")


def test_a_file_without_the_extension():
    """What programs see: ordinary tables, and nothing that needs a module."""
    db = example()
    db.query("SELECT tessera_hide('db:t')")
    db.close()
    plain = sqlite3.connect(path("a.db"))
    names = [name for name, in plain.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")]
    same(names, ["t_chunks", "t_config", "t_files", "tessera_kept"])
    for name in names:
        plain.execute(f"PRAGMA table_xinfo({name})").fetchall()
        plain.execute(f"SELECT count(*) FROM {name}").fetchall()
    text = "\n".join(plain.iterdump())
    plain.close()
    copy = sqlite3.connect(path("copy.db"))
    copy.executescript(text)
    copy.close()
    again = Database(path("copy.db"))
    same(again.value("SELECT tessera_attach()"), 1, "a replay of the dump")
    same(again.value("SELECT count(*) FROM t"), 3)
    again.query("INSERT INTO t VALUES(7, 7, 'a')")
    same(again.value("SELECT tessera_show('db:t')"), 1)
    same(again.value("SELECT count(*) FROM t"), 4)


# ---- if_exists ---------------------------------------------------------------------------------------------------------------------------------------

def test_if_exists_opens_an_array_like_the_one_asked_for():
    db = Database()
    where = literal(path("a"))
    columns = "kind=sparse, x INT32 DIMENSION(0, 99, 10), v INT32, s TEXT NOT NULL, e TEXT ENUM('a')"
    db.query(f"CREATE VIRTUAL TABLE one USING tessera({where}, {columns}, if_exists=open)")
    db.query("INSERT INTO one VALUES(1, 2, 's', 'a')")
    check_contains(db.error(f"CREATE VIRTUAL TABLE two USING tessera({where}, {columns})").text, "already there")
    check_contains(db.error(f"CREATE VIRTUAL TABLE two USING tessera({where}, {columns}, if_exists=fail)").text, "already there")
    check_contains(db.error(f"CREATE VIRTUAL TABLE two USING tessera({where}, {columns}, if_exists=maybe)").text, "fail or open")
    db.query("SELECT tessera_extend_enumeration('db:one', 'e', 'b')")
    db.query(f"CREATE VIRTUAL TABLE two USING tessera({where}, {columns}, if_exists=open, cache_mb=4)")
    same(db.query("SELECT * FROM two"), [(1, 2, "s", "a")])
    text = db.value("SELECT tessera_ddl('db:one')")
    check_contains(text, "if_exists=open")
    db.query(text.replace("CREATE VIRTUAL TABLE a ", "CREATE VIRTUAL TABLE three "))
    same(db.value("SELECT count(*) FROM three"), 1)
    for change, says in ((("v INT32", "v FLOAT64"), "its column v is INT32, not FLOAT64"), (("v INT32", "v INT32 NOT NULL"), "its column v is INT32, not INT32 NOT NULL"),
                         (("v INT32, ", ""), "it has 4 columns, not 3"), (("v INT32", "w INT32"), "it has no column w"), (("(0, 99, 10)", "(0, 99, 5)"), "domain or extent of its dimension x"),
                         (("(0, 99, 10)", "(0, 98, 10)"), "domain or extent of its dimension x"), (("kind=sparse", "kind=dense"), "it is sparse, not dense"),
                         ((" ENUM('a')", ""), "its column e has an enumeration"), (("v INT32", "v INT32 DIMENSION(0, 9, 5)"), "its column v is no dimension")):
        error = db.error(f"CREATE VIRTUAL TABLE four USING tessera({where}, {columns.replace(*change)}, if_exists=open)")
        check_contains(error.text, says)
    same(db.value("SELECT count(*) FROM one"), 1)


def test_if_exists_finds_the_shadow_tables_that_a_tool_has_left():
    db = example()
    text = declarations(db)["t"]
    db.query("SELECT tessera_hide('db:t')")
    db.query("DROP TABLE tessera_kept")
    check_contains(db.error(text).text, "already exists")
    db.query(text.replace(COLUMNS, COLUMNS + ", if_exists=open"))
    same(db.value("SELECT count(*) FROM t"), 3)


if __name__ == "__main__":
    main(sys.modules[__name__])
