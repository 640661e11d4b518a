"""Arrays that CREATE VIRTUAL TABLE makes in SQLite's transactions: commits that fail and are tried again, savepoints,
connections and processes that end before the commit, several databases.

usage: create.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import locale
import os
import subprocess
import sys
import tempfile

import host
from host import Database, Error, check_contains, literal, not_on_windows, same

BUSY, CONSTRAINT, CANTOPEN = 5, 19, 14


def place():
    return os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "array")


def create(db, path, table="t", rest="x INT DIMENSION, a TEXT ENUM('p')"):
    db.query(f"CREATE VIRTUAL TABLE {table} USING tessera({literal(path)}, {rest})")


def kind(path):
    """Returns what another connection sees."""
    db = Database()
    found = db.query("SELECT kind FROM tessera_objects(?) WHERE path = ?", (os.path.dirname(path), host.slashes(path)))
    db.close()
    return found[0][0] if found else None


def database(mode="delete"):
    file = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "t.db")
    db = Database(file)
    db.query("PRAGMA busy_timeout = 0")
    db.query("PRAGMA journal_mode=" + mode)
    db.query("CREATE TABLE p(x)")
    db.query("INSERT INTO p VALUES(1), (2)")
    return file, db


def test_a_commit_that_fails_because_of_a_reader_can_be_tried_again():
    for version in (3, 22):
        file, db = database()
        path = place()
        reader = Database(file)
        cursor = reader.cursor("SELECT * FROM p")
        reader.next(cursor)
        rest = f"x INT DIMENSION, a INT NOT NULL, format_version={version}"
        error = db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, {rest})")
        check_contains(error.text, "locked")
        same(os.path.exists(path), False, "an autocommit statement was rolled back")
        db.query("BEGIN")
        create(db, path, rest=rest)
        check_contains(db.error("COMMIT").text, "locked")
        same((kind(path), db.value("SELECT count(*) FROM t")), (None, 0), "the transaction goes on")
        check_contains(db.error("COMMIT").text, "locked")
        del cursor
        reader.close()
        db.query("COMMIT")
        same((kind(path), db.value("SELECT count(*) FROM t")), ("array", 0))
        db.close()


def test_a_commit_that_fails_because_of_a_reader_can_be_rolled_back():
    file, db = database()
    path = place()
    reader = Database(file)
    cursor = reader.cursor("SELECT * FROM p")
    reader.next(cursor)
    db.query("BEGIN")
    create(db, path)
    check_contains(db.error("COMMIT").text, "locked")
    db.query("ROLLBACK")
    same(os.path.exists(path), False)
    del cursor
    reader.close()


def test_a_commit_hook_that_refuses_leaves_no_array():
    if not hasattr(Database(load=False).raw, "set_commit_hook"):
        return
    for mode in ("delete", "wal"):
        _, db = database(mode)
        path = place()
        db.raw.set_commit_hook(lambda: True)
        db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, x INT DIMENSION)")
        same(os.path.exists(path), False)
        db.raw.set_commit_hook(None)
        create(db, path)
        same(kind(path), "array")


def test_tables_in_main_temp_and_attached_databases():
    _, db = database("wal")
    db.query("ATTACH ? AS other", (os.path.join(host.FOLDER, "other.db"),))
    db.query("ATTACH ':memory:' AS nowhere")
    for schema in ("main", "temp", "other", "nowhere"):
        path, second, third = place(), place(), place()
        create(db, path, f"{schema}.t{schema}")
        same((kind(path), db.value(f"SELECT count(*) FROM t{schema}")), ("array", 0))
        db.query("BEGIN")
        create(db, second, f"{schema}.u{schema}")
        create(db, third, f"{schema}.v{schema}")
        same((kind(second), kind(third)), (None, None))
        db.query("ROLLBACK")
        same((os.path.exists(second), os.path.exists(third)), (False, False))


def test_several_arrays_in_one_transaction():
    _, db = database()
    db.query("ATTACH ? AS other", (os.path.join(host.FOLDER, "two.db"),))
    paths = [place() for _ in range(4)]
    db.query("BEGIN")
    create(db, paths[0], "main.a")
    create(db, paths[1], "other.b")
    db.query("SAVEPOINT s")
    create(db, paths[2], "c")
    create(db, paths[3], "other.d")
    db.query("ROLLBACK TO s")
    create(db, paths[3], "d", "y TEXT DIMENSION")
    db.query("COMMIT")
    same([kind(p) for p in paths], ["array", "array", None, "array"])
    same([os.path.exists(p) for p in paths], [True, True, False, True])
    same(db.query("SELECT name FROM tessera_schema(?)", (paths[3],)), [("y",)])


def test_a_connection_that_closes_leaves_no_array():
    _, db = database()
    path = place()
    db.query("BEGIN")
    create(db, path)
    same(os.path.exists(path), True)
    db.close()
    same(os.path.exists(path), False)


def test_a_process_that_dies_leaves_a_pending_array():
    """The directory that a crash leaves is no array, cannot be created over, and is explained by the error."""
    file, db = database()
    path = place()
    db.close()
    text = ("import sys, os; sys.path.insert(0, sys.argv[1]); import host; host.EXTENSION = sys.argv[2]; host.binding = sys.argv[3]\n"
            "db = host.Database(sys.argv[4]); db.query('BEGIN')\n"
            "db.query(f\"CREATE VIRTUAL TABLE t USING tessera('{sys.argv[5]}', x INT DIMENSION)\")\n"
            "os._exit(7)\n")
    died = subprocess.run([sys.executable, "-c", text, os.path.dirname(os.path.abspath(__file__)), host.EXTENSION, host.binding, file, path])
    same(died.returncode, 7)
    db = Database(file)
    same(db.query("SELECT name FROM sqlite_schema"), [("p",)])
    same(kind(path), None)
    check_contains(db.error("SELECT count(*) FROM tessera_array(?)", (path,)).text, "array not found")
    check_contains(db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, x INT DIMENSION)").text, "an array is being created there")


def test_another_connection_does_not_see_a_pending_array():
    _, db = database()
    path = place()
    db.query("BEGIN")
    create(db, path)
    other = Database()
    check_contains(other.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)})").text, "array not found")
    check_contains(other.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, y INT DIMENSION)").text, "an array is being created there")
    db.query("COMMIT")
    other.table("t", path)
    same(other.query("SELECT * FROM t"), [])


@not_on_windows("Python has no chmod() of directories there")
def test_a_read_only_directory_is_an_error():
    if os.geteuid() == 0:
        return   # root may write everywhere
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    os.chmod(folder, 0o500)
    db = Database()
    error = db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(folder + '/array')}, x INT DIMENSION)")
    check_contains(error.text, "ermission")
    os.chmod(folder, 0o700)
    same(os.listdir(folder), [])


def test_columns_and_options_in_one_statement():
    """The options for reading apply at once; a hidden column is renamed if a column has its name."""
    db = Database()
    path = place()
    create(db, path, rest="as_of INT DIMENSION(1, 9), since TEXT, written_at BLOB, [a b] INT, columns='as_of,a b', unwritten=fill, as_of=5")
    same([row[0] for row in db.query("SELECT name FROM pragma_table_xinfo('t')")], ["as_of", "a b", "_as_of", "since", "written_at"])
    db = Database()
    path = place()
    check_contains(db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, x INT DIMENSION, columns='y')").text, "no column y")
    same(os.path.exists(path), False, "what CREATE refuses leaves nothing")


def test_definitions_of_any_length():
    db = Database()
    path = place()
    labels = ", ".join(f"'label {i}'" for i in range(70000))
    create(db, path, rest=f"x INT DIMENSION, a TEXT ENUM({labels}), b TEXT ENUM('one')")
    same(db.query("SELECT name, datatype FROM tessera_schema(?)", (path,)), [("x", "INT64"), ("a", "INT32"), ("b", "UINT16")])
    same(db.value("SELECT count(*) FROM tessera_enumeration(?, 'a')", (path,)), 70000)
    path = place()
    create(db, path, "wide", "x INT DIMENSION, " + ", ".join(f"a{i} INT8" for i in range(1500)))
    same(db.value("SELECT count(*) FROM pragma_table_info('wide')"), 1501)
    path = place()
    error = db.error(f"CREATE VIRTUAL TABLE over USING tessera({literal(path)}, x INT DIMENSION, " + ", ".join(f"a{i} INT8" for i in range(1996)) + ")")
    same((error.text is not None, os.path.exists(path)), (True, False))


@not_on_windows("it has no localedef")
def test_a_decimal_point_of_several_bytes():
    """Numbers in JSON and SQL have a point, whatever the locale of the host has; U+066B of Pashto has two bytes. Where the locale cannot be made, nothing is tested."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    try:
        subprocess.run(["localedef", "-i", "ps_AF", "-f", "UTF-8", os.path.join(folder, "ps_AF.UTF-8")], check=True, capture_output=True)
        os.environ["LOCPATH"] = folder
        locale.setlocale(locale.LC_ALL, "ps_AF.UTF-8")
    except (OSError, subprocess.CalledProcessError, locale.Error):
        os.environ.pop("LOCPATH", None)
        return
    try:
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(os.path.join(folder, 'a'))}, x FLOAT64 DIMENSION(-1.5, 100, 0.25), f FLOAT32 NOT NULL DEFAULT -1.5, l FLOAT64[])")
        db.query("INSERT INTO t VALUES(1.25, 2.5, '[1.5, 1e300, 3]')")
        same(db.query("SELECT l FROM t"), [("[1.5,1.0000000000000001e+300,3.0]",)])
        db.query("UPDATE t SET l = l, f = f")
        for sql in ("SELECT non_empty_domain FROM tessera_array('db:t')", "SELECT slice FROM tessera_partitions('db:t', 1)", "SELECT domain FROM tessera_schema('db:t') WHERE name = 'x'"):
            json.loads(db.value(sql))
        ddl = db.value("SELECT tessera_ddl('db:t')")
        assert "-1.5" in ddl and "0.25" in ddl, ddl
        db.query(ddl.replace("TABLE t ", "TABLE t2 ").replace("/a'", "/b'"))
        same(db.query("SELECT x, f FROM t WHERE x BETWEEN 1.2 AND 1.3"), [(1.25, 2.5)])
        try:
            db.query("INSERT INTO t VALUES(1000.5, 2.5, NULL)")
            raise AssertionError("a coordinate outside the domain was written")
        except Error as e:
            check_contains(str(e), "1000.5")
    finally:
        locale.setlocale(locale.LC_ALL, "C")
        os.environ.pop("LOCPATH")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
