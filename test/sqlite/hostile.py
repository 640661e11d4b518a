"""A database from an attacker, whose schema names tessera tables and whose shadow tables hold anything. Opening and
reading it changes no file; its statements return rows or an error; and writes of its user stay within the array that a
table names.

usage: hostile.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import hashlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import host
from host import Database, Error, check_contains, literal, same

SEED = int(os.environ.get("SEED", "1"))
ROUNDS = int(os.environ.get("ROUNDS", "20"))

READS = ["SELECT * FROM i", "SELECT * FROM o", "SELECT * FROM i WHERE x = 5", "SELECT * FROM o ORDER BY x DESC LIMIT 2", "SELECT * FROM i('2030-01-01')",
         "SELECT * FROM tessera_check('db:i')", "SELECT * FROM tessera_check('db:o')", "SELECT * FROM tessera_fragments('db:i')", "SELECT * FROM tessera_array('db:o')",
         "SELECT * FROM tessera_metadata('db:i')", "SELECT tessera_ddl('db:i')", "SELECT * FROM tessera_advise('db:i')", "SELECT * FROM tessera_aggregate('db:i', 'a')",
         "SELECT length(tessera_preview('db:i', 'a'))", "SELECT * FROM tessera_partitions('db:i', 3)", "PRAGMA integrity_check", "SELECT * FROM sqlite_master", "PRAGMA table_info(i)"]


def template(folder):
    """Makes arrays: i is in the database, o in the directory "array", and "victim" is an array that no table names."""
    os.chdir(folder)
    db = Database("a.db")
    for name, path in (("i", ""), ("o", "'array', "), ("v", "'victim', ")):
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({path}x INT32 DIMENSION(0, 99, 10), a FLOAT64, s TEXT)")
        for k in range(3):
            db.query(f"INSERT INTO {name} VALUES (?, ?, 'one'), (?, 2.5, NULL)", (k, k / 2, 50 + k))
    db.query("SELECT tessera_set_metadata('db:i', 'k', 'v')")
    db.query("DROP TABLE v")
    db.query("CREATE TABLE plain(z)")
    db.query("INSERT INTO plain VALUES(7)")
    db.close()


def files(folder):
    """Returns each file and directory with its content."""
    found = {}
    for where, folders, names in os.walk(folder):
        found.update((os.path.relpath(os.path.join(where, name), folder), "directory") for name in folders)
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                found[os.path.relpath(os.path.join(where, name), folder)] = hashlib.sha256(file.read()).hexdigest()
    return found


def outside(found):
    """Returns the files that belong to no table."""
    return {name: content for name, content in found.items() if not name.startswith(("a.db", "array"))}


def tamper(statements):
    """Changes a database without the extension and its checks."""
    db = sqlite3.connect("a.db", isolation_level=None)
    db.execute("PRAGMA writable_schema = ON")
    for sql in statements:
        db.execute(*((sql,) if isinstance(sql, str) else sql))
    db.close()


def attempt(db, sql, parameters=()):
    try:
        return db.query(sql, parameters)
    except Error as e:
        assert e.text is None or "internal" not in e.text.lower(), (sql, e.text)
        return e


def look(trusted):
    db = Database("a.db")
    db.query(f"PRAGMA trusted_schema = {trusted}")
    found = [attempt(db, sql) for sql in READS]
    db.close()
    return found


def with_copies(cases, function):
    before, folder = os.getcwd(), tempfile.mkdtemp(dir=host.FOLDER)
    try:
        template(folder)
        for case in cases:
            new = tempfile.mkdtemp(dir=host.FOLDER)
            shutil.copytree(folder, new, dirs_exist_ok=True)
            os.chdir(new)
            try:
                tamper(case)
            except sqlite3.Error:
                continue   # SQLite itself refuses the change
            function(case)
            os.chdir(before)
            shutil.rmtree(new)
    finally:
        os.chdir(before)


VALUES = ["NULL", "''", "-1", "0", "1", "9223372036854775807", "-9223372036854775808", "4294967296", "1e300", "x'00'", "zeroblob(100000)", "'x'", "'../victim'", "'..'", "'.'", "'/'",
          "'a/b'", "'/etc/passwd'", "'__schema'", "'__fragments'", "hex(randomblob(16))", "randomblob(65536)"]
COLUMNS = {"i_files": ["id", "parent", "name", "size", "modified", "stamp"], "i_chunks": ["id", "bytes"], "i_config": ["key", "value"], "o_config": ["key", "value"], "o_commits": ["name"]}
NAMED = [
    ["UPDATE i_files SET parent = id"],
    ["UPDATE i_files SET parent = 2 WHERE id = 1"],
    ["UPDATE i_files SET parent = 3 WHERE id = 2", "UPDATE i_files SET parent = 2 WHERE id = 3"],
    ["UPDATE i_files SET size = NULL"], ["UPDATE i_files SET size = 1 << 40 WHERE size > 0"], ["UPDATE i_files SET size = -5 WHERE size > 0"],
    ["UPDATE i_files SET name = '../../victim' WHERE size IS NULL AND id > 1 AND id = (SELECT max(id) FROM i_files WHERE size IS NULL)"],
    ["UPDATE i_files SET name = '../victim/' || name WHERE size > 0"],
    ["UPDATE i_files SET name = '..' WHERE id = (SELECT max(id) FROM i_files WHERE size IS NULL)"],
    ["UPDATE i_files SET name = CAST(x'2e2e002f' AS TEXT) WHERE size > 0 AND id = (SELECT max(id) FROM i_files)"],
    ["UPDATE i_files SET name = CAST(name AS BLOB)"],
    ["DELETE FROM i_files"], ["DELETE FROM i_chunks"], ["DROP TABLE i_files"], ["DROP TABLE i_chunks"], ["DROP TABLE i_config"], ["DROP TABLE o_config"], ["DROP TABLE o_commits"],
    ["UPDATE i_chunks SET bytes = zeroblob(65537)"], ["UPDATE i_chunks SET bytes = 'text'"], ["UPDATE i_chunks SET bytes = 5"],
    ["DROP TABLE i_chunks", "CREATE VIEW i_chunks AS SELECT 1 AS id, zeroblob(1000000000) AS bytes"],
    ["DROP TABLE i_files", "CREATE VIEW i_files AS SELECT 1 AS id, 0 AS parent, 'x' AS name, NULL AS size, 1 AS modified, 1 AS stamp"],
    ["DROP TABLE o_config", "CREATE VIEW o_config AS SELECT 'declaration' AS key, tessera_drop('victim') AS value"],
    ["DROP TABLE o_commits", "CREATE VIEW o_commits AS SELECT tessera_vacuum('array') AS name"],
    ["DROP TABLE o_commits", "CREATE TABLE o_commits(name, other)", "INSERT INTO o_commits VALUES('__commits/../../victim', 1)"],
    ["INSERT OR REPLACE INTO o_config VALUES('creation', '__1_1_0123456789abcdef0123456789abcdef 00000000')"],
    ["INSERT OR REPLACE INTO o_config VALUES('creation', '../victim')"],
    ["INSERT OR REPLACE INTO i_config VALUES('creation', '__array_schema.tdb')"],
    ["UPDATE o_config SET value = 'CREATE TABLE x(a); DROP TABLE plain' WHERE key = 'declaration'", "UPDATE sqlite_master SET sql = replace(sql, '''array''', '''nothing''') WHERE name = 'o'"],
    ["UPDATE o_config SET value = NULL", "UPDATE sqlite_master SET sql = replace(sql, '''array''', '''nothing''') WHERE name = 'o'"],
    ["UPDATE o_config SET value = zeroblob(10)", "UPDATE sqlite_master SET sql = replace(sql, '''array''', '''nothing''') WHERE name = 'o'"],
    ["UPDATE sqlite_master SET sql = replace(sql, '''array''', '''victim/__fragments''') WHERE name = 'o'"],
    ["UPDATE sqlite_master SET sql = replace(sql, '''array''', '''made''') WHERE name = 'o'"],   # changing the text of a CREATE creates no array
    ["UPDATE sqlite_master SET sql = replace(sql, '''array'',', '''made'', key_file=''a.db'',') WHERE name = 'o'"],
    ["UPDATE sqlite_master SET sql = replace(sql, '''array'',', '') WHERE name = 'o'"],
    ["UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE i USING tessera(''db:i'')' WHERE name = 'i'"],
    ["UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE i USING tessera(''db:main.o'')' WHERE name = 'i'"],
    ["UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE i USING tessera(' WHERE name = 'i'"],
    ["UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE i USING tessera_check(''array'')' WHERE name = 'i'"],
    ["CREATE VIRTUAL TABLE i2 USING fts5(x)", "DROP TABLE i_files", "UPDATE sqlite_master SET name = 'i_files', tbl_name = 'i_files' WHERE name = 'i2'"],
    ["UPDATE sqlite_master SET sql = 'CREATE TABLE \"i_files\"(id, parent, name, size, modified, stamp) --(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER, "
     "modified INTEGER NOT NULL, stamp INTEGER NOT NULL, UNIQUE(parent, name))' WHERE name = 'i_files'", "DELETE FROM sqlite_master WHERE tbl_name = 'i_files' AND type = 'index'"],
]


def chance_cases():
    chance = random.Random(SEED)
    cases = []
    for _ in range(ROUNDS):
        case = []
        for _ in range(chance.choice((1, 1, 2, 5))):
            table = chance.choice(sorted(COLUMNS))
            column, value = chance.choice(COLUMNS[table]), chance.choice(VALUES)
            row = f"(SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET {chance.randrange(30)})" if table.startswith("i_") and table != "i_config" else None
            case.append(f"UPDATE OR IGNORE {table} SET {column} = {value}" + (f" WHERE rowid = {row}" if row else ""))
            if chance.random() < 0.2:
                case.append(f"INSERT OR IGNORE INTO {table} VALUES({', '.join(chance.choice(VALUES) for _ in COLUMNS[table])})")
        cases.append(case)
    return cases


def test_reading_changes_nothing():
    def work(case):
        before = files(".")
        for trusted in (0, 1):
            look(trusted)
            same(files("."), before, case)
    with_copies([[]] + NAMED + chance_cases(), work)


def test_writing_changes_the_named_array_only():
    """The user writes: whatever happens to the array that a table names, nothing else is changed."""
    def work(case):
        before = outside(files("."))
        db = Database("a.db")
        for sql in ("INSERT INTO i VALUES(7, 1, 'x')", "DELETE FROM i WHERE x = 1", "INSERT INTO o VALUES(8, 1, 'y')", "DELETE FROM o WHERE x = 1", "SELECT tessera_consolidate('db:i')",
                    "SELECT tessera_vacuum('db:i')", "SELECT tessera_recover('db:o')", "ALTER TABLE i RENAME TO j", "DROP TABLE j", "DROP TABLE i", "DROP TABLE o"):
            attempt(db, sql)
        db.close()
        after = outside(files("."))
        if "made" in str(case):   # no array is created at a path that the changed text of a CREATE names
            assert not os.path.exists("made"), case
        same(after, before, case)
    with_copies(NAMED + chance_cases(), work)


def test_exporting_stays_in_its_directory():
    def work(case):
        before = files(".")
        db = Database("a.db")
        attempt(db, "SELECT tessera_sync('db:i', 'out/new')")
        db.close()
        after = {name: content for name, content in files(".").items() if name != "out" and not name.startswith("out/")}
        same(after, before, case)
        if os.path.exists("out"):
            for where, _, names in os.walk("out"):
                assert not any(os.path.islink(os.path.join(where, name)) for name in names)
    with_copies([case for case in NAMED if "i_" in str(case)] + chance_cases(), work)


CHANGING = ["tessera_reset_stats()", "tessera_set_key('array', NULL)", "tessera_recover('array')", "tessera_set_metadata('array', 'k', 1)", "tessera_set_metadata('array', 'k', NULL)",
            "tessera_add_attribute('array', 'b INT8')", "tessera_drop_attribute('array', 's')", "tessera_extend_enumeration('array', 'e', 'x')", "tessera_expand_domain('array', '{}')",
            "tessera_create_group('group')", "tessera_add_member('group', 'array')", "tessera_drop_member('group', 'array')", "tessera_drop('array')",
            "tessera_write_npy('array', 'a', x'00')", "tessera_write_label('array', 'l', '[1]')", "tessera_sync('db:i', 'out')", "tessera_sync('array', 'db:n')", "tessera_hide('db:i')", "tessera_show('db:i')", "tessera_attach()", "tessera_restrict('.')", "tessera_consolidate('array')",
            "tessera_vacuum('array')", "tessera_lease('array', 9)", "tessera_copy('array', 'other')", "tessera_regrid('array', 'other', '{}', 'mean')", "tessera_make_overviews('array')", "tessera_configure('s3://bucket', '{}')", "tessera_stream('array')",
            "tessera_library()", "tessera_create_as('made', 'SELECT 1 AS a')", "tessera_create_csv('made', 'a.csv')", "tessera_create_stream('made', 'token')", "tessera_rows('SELECT 1')",
            "tessera_attach('group')", "tessera_detach('group')", "tessera_sql('SELECT 1')", "tessera_sql_within('{}', 'SELECT 1')", "tessera_upkeep('array')", "tessera_revert('db:i', 0)", "tessera_add_check('array', 'c', 'a > 0')", "tessera_drop_check('array', 'c')"]


def test_functions_that_change_are_direct_only():
    def work(_):
        db = Database("a.db")
        registered = {name for name, in db.query("SELECT DISTINCT name FROM pragma_function_list WHERE name LIKE 'tessera%'")}
        reading = {"tessera_version", "tessera_nearest", "tessera_npy", "tessera_png", "tessera_preview", "tessera_sample", "tessera_token", "tessera_ddl"}
        same(registered, reading | {call.split("(")[0] for call in CHANGING}, "the functions that there are, and those that this test knows")
        innocuous = {name for name, flags in db.query("SELECT name, flags FROM pragma_function_list WHERE name LIKE 'tessera%'") if flags & 0x200000}
        assert innocuous <= {"tessera_version"}, innocuous   # all others read files outside of the database
        before = files(".")
        db.close()
        for k, call in enumerate(CHANGING):
            raw = sqlite3.connect("a.db", isolation_level=None)
            raw.execute("PRAGMA writable_schema = ON")
            names = [row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE name LIKE 'evil%'")]
            for name in names:
                raw.execute(f"DELETE FROM sqlite_master WHERE name = '{name}'")
            raw.close()
            raw = sqlite3.connect("a.db", isolation_level=None)
            raw.execute("PRAGMA writable_schema = ON")
            for name, kind, sql in ((f"evil{k}", "view", f"CREATE VIEW evil{k} AS SELECT {call} AS x"), (f"eviltrigger{k}", "trigger", f"CREATE TRIGGER eviltrigger{k} AFTER INSERT ON plain BEGIN SELECT {call}; END")):
                raw.execute("INSERT INTO sqlite_master(type, name, tbl_name, rootpage, sql) VALUES(?, ?, ?, 0, ?)", (kind, name, "plain" if kind == "trigger" else name, sql))
            raw.close()
            db = Database("a.db")
            for sql in (f"SELECT * FROM evil{k}", "INSERT INTO plain VALUES(1)"):
                check_contains(db.error(sql).text, "unsafe use of")
            db.close()
        now = {name: content for name, content in files(".").items() if not name.startswith("a.db")}
        same(now, {name: content for name, content in before.items() if not name.startswith("a.db")})
    with_copies([[]], work)


def test_untrusted_schemas_cannot_use_the_extension():
    """With trusted_schema off, views and triggers of the file cannot use the extension's tables and functions; statements can."""
    statements = ["CREATE VIEW peek AS SELECT * FROM o", "CREATE VIEW look AS SELECT * FROM tessera_array('victim')", "CREATE VIEW draw AS SELECT tessera_preview('victim', 'a')",
                  "CREATE TRIGGER meddle AFTER INSERT ON plain BEGIN INSERT INTO o VALUES(99, 1, 'z'); END"]

    def work(_):
        before = files(".")
        db = Database("a.db")
        db.query("PRAGMA trusted_schema = OFF")
        for sql in ("SELECT * FROM peek", "SELECT * FROM look", "SELECT * FROM draw", "INSERT INTO plain VALUES(1)"):
            check_contains(db.error(sql).text, "unsafe use of")
        same(len(db.query("SELECT * FROM o")), 6)
        db.query("INSERT INTO o VALUES(98, 1, 'z')")
        same(len(db.query("SELECT * FROM o")), 7)
        db.close()
        db = Database("a.db")   # trusted: they work as SQLite's own tables do
        same(len(db.query("SELECT * FROM peek")), 7)
        db.query("SELECT tessera_restrict('array')")
        for sql in ("SELECT * FROM look", "SELECT * FROM draw"):
            check_contains(db.error(sql).text, "tessera_restrict")
        db.close()
        same(outside(files(".")), outside(before))
    with_copies([statements], work)


def test_loading_succeeds_while_the_database_is_locked():
    """Loading must not read the database, which another connection may have locked."""
    path = os.path.join(host.FOLDER, "locked.db")
    other = Database(path)
    other.query("CREATE TABLE t(x)")
    db = Database(path, load=False)

    def lock(*_):
        if not locked:
            locked.append(other.query("BEGIN EXCLUSIVE"))
        return 0
    locked = []
    if host.binding == "apsw":
        db.raw.authorizer = lock
    else:
        db.raw.set_authorizer(lock)
    db.run(lambda: db.raw.load_extension(host.EXTENSION))
    assert locked and db.value("SELECT tessera_version()").startswith("tessera")
    assert "locked" in db.error("SELECT * FROM t").text
    other.query("ROLLBACK")


def test_loading_twice_changes_nothing():
    """The second time keeps the connection's directory limit, keys and open arrays."""
    def work(_):
        db = Database("a.db")
        db.query("BEGIN")
        db.query("INSERT INTO o VALUES(90, 1, 'z')")
        db.run(lambda: db.raw.load_extension(host.EXTENSION))
        db.query("CREATE VIRTUAL TABLE p USING tessera('array')")
        same(len(db.query("SELECT * FROM p")), 7)
        db.query("ROLLBACK")
        db.query("SELECT tessera_restrict('array')")
        reading = db.cursor("SELECT * FROM o")
        db.next(reading)
        db.run(lambda: db.raw.load_extension(host.EXTENSION))
        db.query("SELECT load_extension(?)", (host.EXTENSION,))
        check_contains(db.error("SELECT * FROM tessera_array('victim')").text, "tessera_restrict")
        same(len(db.query("SELECT * FROM tessera_array('db:o')")), 1)
        db.close()
    with_copies([[]], work)


def test_an_unreadable_schema_is_no_missing_table():
    """Where an authorizer hides the schema, a table's address says why it was not found."""
    def work(_):
        db = Database("a.db")

        def deny(action, table, *_):
            return 1 if action == 20 and "sqlite_" in (table or "") else 0  # SQLITE_DENY, SQLITE_READ
        same(len(db.query("SELECT * FROM tessera_array('db:o')")), 1)
        if host.binding == "apsw":
            db.raw.authorizer = deny
        else:
            db.raw.set_authorizer(deny)
        check_contains(db.error("SELECT * FROM tessera_array('db:o')").text, "db:o cannot be opened: access to")
        db.close()
    with_copies([[]], work)


def test_defensive_connections_work():
    """On a defensive connection everything works, and only the extension can write its shadow tables."""
    def work(_):
        script = "\n".join([".bail off", ".dbconfig defensive on", ".dbconfig trusted_schema off", f".load {host.EXTENSION}", "INSERT INTO i VALUES(77, 1, 'x');", "UPDATE i SET a = 3 WHERE x = 77;",
                            "BEGIN;", "SAVEPOINT s;", "INSERT INTO o VALUES(77, 1, 'x');", "DELETE FROM i WHERE x = 0;", "ROLLBACK TO s;", "INSERT INTO o VALUES(78, 1, 'x');", "COMMIT;",
                            "SELECT tessera_consolidate('db:i'), tessera_vacuum('db:i') > 0;", "SELECT count(*), total(a) FROM i;", "SELECT count(*) FROM o;",
                            "CREATE VIRTUAL TABLE n USING tessera(x INT32 DIMENSION(0, 9, 5), a INT8);", "INSERT INTO n VALUES(1, 2);", "ALTER TABLE n RENAME TO m;", "SELECT * FROM m;", "DROP TABLE m;",
                            "DELETE FROM i_files;", "UPDATE o_config SET value = 1;", "SELECT severity FROM tessera_check('db:i');"])
        shell = subprocess.run([shutil.which("sqlite3"), "a.db"], input=script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = shell.stdout.split("\n")
        wanted = ["5|1", "7|12.0", "7", "1|2"]
        same([line for line in lines if line and "defensive" not in line and "trusted_schema" not in line], wanted, shell.stderr)
        same(shell.stderr.count("may not be modified"), 2, shell.stderr)
    with_copies([[]], work)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
