"""Arrays in the database: their shadow tables under everything that SQLite does to a database, transactions, import and
export, damage.

usage: database.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os
import random
import shutil
import sqlite3
import struct
import sys
import tempfile
import threading
import time

import host
import streams
from host import Database, Error, corpus, check_contains, literal, same

CORRUPT, CANTOPEN, BUSY, FULL, AUTH, ERROR = 11, 14, 5, 13, 23, 1
SPARSE = "new/timetravel/sparse"
DENSE = "new/timetravel/dense"
BIG = "new/medium/sparse_100k"
CREATE = "CREATE VIRTUAL TABLE {} USING tessera(x INT32 DIMENSION(0, 9999, 100), v FLOAT64, s TEXT)"


def path(name):
    return os.path.join(host.FOLDER, name)


def made(db, name="t", rows=3, schema=""):
    db.query(CREATE.format(schema + name))
    fill(db, schema + name, 0, rows)


def fill(db, name, first, count):
    db.query(f"WITH RECURSIVE n(i) AS (VALUES({first}) UNION ALL SELECT i + 1 FROM n WHERE i < {first + count - 1}) "
             f"INSERT INTO {name} SELECT i, i + 0.5, 'row ' || i FROM n")


def xs(db, name="t"):
    return [row[0] for row in db.query(f"SELECT x FROM {name} ORDER BY x")]


def tables(db, schema="main"):
    return sorted(row[0] for row in db.query(f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table'"))


def sound(db, name="t"):
    same([row for row in db.query(f"SELECT * FROM tessera_check('db:{name}')") if row[0] != "note"], [], "check")


def tree(directory):
    """Returns all files below a directory with their bytes; directories have None."""
    found = {}
    for folder, names, files in os.walk(directory, followlinks=True):
        for name in names:
            found[os.path.relpath(os.path.join(folder, name), directory)] = None
        for name in files:
            with open(os.path.join(folder, name), "rb") as f:
                found[os.path.relpath(os.path.join(folder, name), directory)] = f.read()
    return found


# ---- Create and drop -------------------------------------------------------------------------------------------------

def test_create_and_drop():
    db = Database()
    made(db)
    same(tables(db), ["t", "t_chunks", "t_config", "t_files"])
    same(xs(db), [0, 1, 2])
    sound(db)
    same(db.query("SELECT path, kind, cells FROM tessera_array('db:t')"), [("db:t", "sparse", 3)])
    db.query("DROP TABLE t")
    same(tables(db), [])
    made(db, rows=1)
    same(xs(db), [0])


def test_create_fails_and_leaves_nothing():
    db = Database()
    for suffix in ("files", "chunks", "config"):
        db.query(f"CREATE TABLE t_{suffix}(a)")
        check_contains(db.error(CREATE.format("t")).text, f"t_{suffix}")
        same(tables(db), [f"t_{suffix}"])
        db.query(f"DROP TABLE t_{suffix}")
    check_contains(db.error("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 100), v FLOAT64)").text, "x")
    check_contains(db.error("CREATE VIRTUAL TABLE t USING tessera()").text, "path")
    check_contains(db.error("CREATE VIRTUAL TABLE t USING tessera('db:u')").text, "db:u")
    same(tables(db), [])


def test_create_rolled_back():
    db = Database(path("a.db"))
    for end in ("ROLLBACK", "ROLLBACK TO s; COMMIT"):
        for statement in ["BEGIN", "SAVEPOINT s", CREATE.format("t"), "INSERT INTO t VALUES(1, 2, 'x')", *end.split("; ")]:
            db.query(statement)
        same(tables(db), [])
        same(db.query("PRAGMA integrity_check"), [("ok",)])
        check_contains(db.error("SELECT * FROM tessera_array('db:t')").text, "no such table")
    for statement in ["BEGIN", CREATE.format("t"), "INSERT INTO t VALUES(1, 2, 'x')", "COMMIT"]:
        db.query(statement)
    same(xs(db), [1])
    for statement in ["BEGIN", CREATE.format("u"), "INSERT INTO u VALUES(1, 2, 'x')", "DROP TABLE u", "COMMIT"]:
        db.query(statement)
    same(tables(db), ["t", "t_chunks", "t_config", "t_files"])


def test_drop_rolled_back():
    db = Database(path("a.db"))
    made(db)
    db.query("BEGIN")
    db.query("DROP TABLE t")
    same(tables(db), [])
    db.query("ROLLBACK")
    same(xs(db), [0, 1, 2])
    for statement in ["BEGIN", "SAVEPOINT s", "DROP TABLE t", "ROLLBACK TO s", "COMMIT"]:
        db.query(statement)
    same(xs(db), [0, 1, 2])
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(7, 7, 'seven')")
    db.query("DROP TABLE t")   # removes the rows, too
    db.query("COMMIT")
    same(tables(db), [])


def test_drop_within_a_savepoint_keeps_rows_safe():
    db = Database(path("a.db"))
    made(db)
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(7, 7, 'seven')")
    db.query("SAVEPOINT s")
    db.error("DROP TABLE t")   # ROLLBACK TO would restore the table without the row
    db.query("ROLLBACK TO s")
    db.query("COMMIT")
    same(xs(db), [0, 1, 2, 7])


def test_rename():
    db = Database(path("a.db"))
    made(db)
    db.query("ALTER TABLE t RENAME TO u")
    same(tables(db), ["u", "u_chunks", "u_config", "u_files"])
    same(xs(db, "u"), [0, 1, 2])
    fill(db, "u", 3, 1)
    same(xs(db, "u"), [0, 1, 2, 3])
    db.query("BEGIN")
    db.query("INSERT INTO u VALUES(4, 4, 'four')")
    db.query("ALTER TABLE u RENAME TO w")
    db.query("INSERT INTO w VALUES(5, 5, 'five')")
    same(xs(db, "w"), [0, 1, 2, 3, 4, 5])
    db.query("COMMIT")
    same(xs(db, "w"), [0, 1, 2, 3, 4, 5])
    sound(db, "w")
    for look in (True, False):   # with and without connecting to the table before
        db.query("BEGIN")
        db.query(f"INSERT INTO w VALUES({6 + look}, 6, 'six')")
        db.query("SAVEPOINT s")
        db.query("ALTER TABLE w RENAME TO v")
        db.query("ROLLBACK TO s")
        if look:
            same(xs(db, "w")[-1], 7)
        db.query("COMMIT")
    same(xs(db, "w"), list(range(8)))
    db.query("CREATE TABLE v_files(a)")
    db.error("ALTER TABLE w RENAME TO v")
    same(xs(db, "w"), list(range(8)))


def test_labels_of_a_renamed_table():
    """Labels are read and written where the table is, not at its former name, which another table may have."""
    declared = "USING tessera(kind=dense, x INTEGER DIMENSION(0, 9, 10) LABEL lat FLOAT64, a INTEGER)"
    file = path("labels.db")
    db = Database(file)
    db.query(f"CREATE VIRTUAL TABLE d {declared}")
    db.query("SELECT tessera_write_label('db:d', 'lat', '[1.5, 2.5, 3.5]')")
    db.query("INSERT INTO d(x, a) VALUES(0, 1), (1, 2), (2, 3)")
    for undo in "ROLLBACK", "ROLLBACK TO s":
        db.query("BEGIN")
        db.query("SAVEPOINT s")
        db.query("ALTER TABLE d RENAME TO d2")
        same(db.query("SELECT x, lat FROM d2 WHERE x = 0"), [(0, 1.5)])
        db.query(undo)
        same(db.query("SELECT x, lat FROM d WHERE lat = 2.5"), [(1, 2.5)])
        if undo != "ROLLBACK":
            db.query("COMMIT")
    db.query("ALTER TABLE d RENAME TO d2")
    same(db.query("SELECT x, lat FROM d2 WHERE x = 0"), [(0, 1.5)])
    db.query(f"CREATE VIRTUAL TABLE d {declared}")
    db.query("SELECT tessera_write_label('db:d', 'lat', '[2.5, 200, 300]')")
    db.query("INSERT INTO d(x, a) VALUES(0, 100), (1, 200), (2, 300)")
    same(db.query("SELECT x, lat, a FROM d2 ORDER BY x"), [(0, 1.5, 1), (1, 2.5, 2), (2, 3.5, 3)])
    db.query("INSERT INTO d2(lat, a) VALUES(2.5, 22)")
    same(db.query("SELECT x, a FROM d2 ORDER BY x"), [(0, 1), (1, 22), (2, 3)])
    db.query("SELECT tessera_write_label('db:d2', 'lat', '[7, 8, 9]')")
    for each in db, Database(file):
        same(each.query("SELECT x, lat FROM d2 ORDER BY x"), [(0, 7.0), (1, 8.0), (2, 9.0)])
        same(each.query("SELECT x, lat FROM d ORDER BY x"), [(0, 2.5), (1, 200.0), (2, 300.0)])
        sound(each, "d")
        sound(each, "d2")
        each.close()


def test_a_view_in_the_place_of_a_table_is_no_altered_table():
    db = Database()
    made(db)
    db.query("DROP TABLE t_files")
    missing = db.error("SELECT * FROM t").text
    check_contains(missing, "array not found: db:main.t")
    db.query("CREATE VIEW t_files AS SELECT 1 AS id")
    same(db.error("SELECT * FROM t").text, missing)
    db.query("DROP VIEW t_files")
    db.query("CREATE TABLE t_files(id)")
    check_contains(db.error("SELECT * FROM t").text, "t_files was altered")


def test_tables_with_names_of_any_kind():
    db = Database()
    for name in ["a b", 'q"u', "dot.ted", "it's", "größe", "12", "select", "a(b", "x_files"]:
        quoted = '"' + name.replace('"', '""') + '"'
        made(db, quoted, 2)
        same(xs(db, quoted), [0, 1], name)
        address = "db:main." + quoted
        same(db.query("SELECT cells FROM tessera_array(?)", (address,)), [(2,)])
        same(db.query("SELECT * FROM tessera_check(?)", (address,)), [])
        db.query(f'ALTER TABLE {quoted} RENAME TO "{name.replace(chr(34), "")}2"')
        db.query(f'DROP TABLE "{name.replace(chr(34), "")}2"')
    same(tables(db), [])


# ---- What SQLite does to databases -----------------------------------------------------------------------------------

def test_vacuum_backup_dump():
    db = Database(path("a.db"))
    made(db, rows=2000)
    wanted = db.query("SELECT * FROM t ORDER BY x")
    db.query("VACUUM")
    same(db.query("SELECT * FROM t ORDER BY x"), wanted, "VACUUM")
    db.query(f"VACUUM INTO {literal(path('b.db'))}")
    copies = [path("b.db")]
    if host.binding == "sqlite3":
        target = sqlite3.connect(path("c.db"))
        db.raw.backup(target)
        target.close()
        copies.append(path("c.db"))
        with sqlite3.connect(path("d.db")) as target:   # what the shell's `.dump` does
            for sql in db.raw.iterdump():
                if "VIRTUAL TABLE" in sql or sql.startswith(("INSERT INTO sqlite_master", 'INSERT INTO "t" ')):
                    continue
                target.execute(sql)
            row = db.query("SELECT type, name, tbl_name, 0, sql FROM sqlite_schema WHERE name = 't'")[0]
            target.execute("PRAGMA writable_schema = ON")   # newer releases of iterdump() set it, too, and take it back
            target.execute("INSERT INTO sqlite_schema VALUES(?, ?, ?, ?, ?)", row)
        target.close()
        copies.append(path("d.db"))
    for name in copies:
        copy = Database(name)
        same(copy.query("SELECT * FROM t ORDER BY x"), wanted, name)
        sound(copy)
        fill(copy, "t", 5000, 1)
        same(len(xs(copy)), 2001)
        copy.close()
    same(len(xs(db)), 2000)


def test_programs_without_the_extension():
    """They read and write other tables, and copy the database with its arrays; the arrays themselves are errors."""
    db = Database(path("a.db"))
    made(db)
    db.query("CREATE TABLE plain AS SELECT 1 AS a")
    db.close()
    plain = Database(path("a.db"), load=False)
    for sql in ("SELECT * FROM t", "INSERT INTO t VALUES(9, 9, 'nine')", "DROP TABLE t"):
        check_contains(plain.error(sql).text, "no such module: tessera")
    for sql in ("INSERT INTO plain VALUES(2)", "ALTER TABLE plain RENAME TO simple", "VACUUM", f"VACUUM INTO {literal(path('b.db'))}"):
        plain.query(sql)
    same(plain.query("SELECT a FROM simple"), [(1,), (2,)])
    same(plain.query("PRAGMA integrity_check"), [("ok",)])
    plain.close()
    for name in ("a.db", "b.db"):
        db = Database(path(name))
        same(xs(db), [0, 1, 2], name)
        sound(db)
        db.close()


def test_attach_temp_memory():
    db = Database(path("a.db"))
    made(db)
    db.query(f"ATTACH {literal(path('b.db'))} AS other")
    db.query("ATTACH ':memory:' AS fleeting")
    for schema, count in (("other.", 4), ("temp.", 5), ("fleeting.", 6)):
        made(db, "t", count, schema)
    same([len(xs(db, s + "t")) for s in ("main.", "other.", "temp.", "fleeting.")], [3, 4, 5, 6])
    same(len(xs(db)), 5)
    same(db.query("SELECT cells FROM tessera_array('db:t')"), [(5,)])
    same(db.query("SELECT cells FROM tessera_array('db:other.t')"), [(4,)])
    db.query("DROP TABLE temp.t")
    same(len(xs(db)), 3)
    db.query("BEGIN")
    fill(db, "main.t", 100, 1)
    fill(db, "other.t", 100, 1)
    db.query("ROLLBACK")
    same([len(xs(db, s + "t")) for s in ("main.", "other.")], [3, 4])
    db.query("DETACH other")
    shutil.copy(path("a.db"), path("c.db"))
    db.query(f"ATTACH {literal(path('c.db'))} AS other")
    same(len(xs(db, "other.t")), 3)
    fill(db, "other.t", 100, 1)
    same([len(xs(db, s + "t")) for s in ("main.", "other.")], [3, 4])
    db.query("DETACH other")


def test_read_only():
    db = Database(path("a.db"))
    made(db)
    db.close()
    os.chmod(path("a.db"), 0o444)
    db = Database()
    if host.binding == "sqlite3":
        db.raw = sqlite3.connect(f"file:{path('a.db')}?mode=ro", uri=True, isolation_level=None)
        db.raw.enable_load_extension(True)
        db.raw.load_extension(host.EXTENSION)
        same(xs(db), [0, 1, 2])
        db.error("INSERT INTO t VALUES(9, 9, 'nine')")
        db.error("SELECT tessera_set_metadata('db:t', 'k', 1)")
        same(xs(db), [0, 1, 2])


def test_utf16():
    db = Database(path("a.db"))
    db.query("PRAGMA encoding = 'UTF-16le'")
    made(db, rows=300)
    same(len(xs(db)), 300)
    sound(db)
    db.query("SELECT tessera_sync(?, 'db:u')", (corpus(BIG),))
    same(db.value("SELECT count(*) FROM u"), 100000)


def test_defensive():
    db = Database(path("a.db"))
    made(db)
    if not db.defend():
        return
    db.error("DELETE FROM t_chunks")
    db.error("UPDATE t_files SET size = 0")
    fill(db, "t", 10, 5)
    db.query("SELECT tessera_set_metadata('db:t', 'k', 1)")
    db.query("SELECT tessera_sync(?, 'db:u')", (corpus(SPARSE),))
    db.query("ALTER TABLE t RENAME TO w")
    same(len(xs(db, "w")), 8)
    db.query("DROP TABLE w")


def test_shadow_tables_of_an_existing_database():
    """SQLite recognizes shadow tables when it reads the schema, by the modules that it knows by then. So loading the extension reads
    no schema: it succeeds where another connection has locked the database, once or twice."""
    db = Database(path("a.db"))
    made(db)
    db.table("d", host.copy(SPARSE, "d"))
    db.query("BEGIN EXCLUSIVE")
    other = Database(path("a.db"))
    other.run(lambda: other.raw.load_extension(host.EXTENSION))
    check_contains(other.error("SELECT * FROM t").text, "locked")
    db.query("COMMIT")
    for one in other, Database(path("a.db")):
        same(sorted(one.query("SELECT name FROM pragma_table_list WHERE type = 'shadow'")), [("d_commits",), ("d_config",), ("t_chunks",), ("t_config",), ("t_files",)])
    if other.defend():
        other.error("DELETE FROM t_chunks")
        other.error("DROP TABLE d_commits")
    same(xs(other), xs(db))


def test_counters_of_the_application():
    db = Database()
    made(db)
    db.query("CREATE TABLE plain(a)")
    db.query("INSERT INTO plain VALUES(1), (2), (3)")
    last = db.value("SELECT last_insert_rowid()")
    db.query("SELECT tessera_set_metadata('db:t', 'k', 1)")
    db.query("SELECT tessera_sync(?, 'db:u')", (corpus(SPARSE),))
    same(db.value("SELECT last_insert_rowid()"), last)


# ---- Transactions ----------------------------------------------------------------------------------------------------

def test_rollback_and_savepoints():
    db = Database(path("a.db"))
    made(db)
    chance = random.Random(7)
    state, marks = list(range(3)), []
    for step in range(60):
        action = chance.choice(["insert", "insert", "savepoint", "back", "release", "read"]) if marks or step else "begin"
        if not marks:
            db.query("BEGIN")
            marks.append(list(state))
        if action == "insert":
            state.append(100 + step)
            fill(db, "t", 100 + step, 1)
        elif action == "savepoint" and len(marks) < 5:
            db.query(f"SAVEPOINT s{len(marks)}")
            marks.append(list(state))
        elif action == "back":
            if len(marks) == 1:
                db.query("ROLLBACK")
                state = marks.pop()
            else:
                db.query(f"ROLLBACK TO s{len(marks) - 1}")
                state = list(marks[-1])
        elif action == "release":
            if len(marks) == 1:
                db.query("COMMIT")
            else:
                db.query(f"RELEASE s{len(marks) - 1}")
            marks.pop()
        same(xs(db), state, f"step {step}: {action}")
    if marks:
        db.query("COMMIT")
    same(xs(db), state)
    sound(db)


def test_two_connections():
    for mode in ("WAL", "DELETE"):
        name = path(f"{mode}.db")
        one = Database(name)
        one.query(f"PRAGMA journal_mode = {mode}")
        made(one)
        two = Database(name)
        same(xs(two), [0, 1, 2])
        fill(two, "t", 3, 1)
        same(xs(one), [0, 1, 2, 3])
        # A statement sees one state, whatever other connections commit.
        cursor = one.cursor("SELECT x FROM t ORDER BY x")
        same(one.next(cursor), (0,))
        if mode == "WAL":
            fill(two, "t", 4, 1)
            same(xs(two)[-1], 4)
            same([one.next(cursor) for _ in range(4)], [(1,), (2,), (3,), None])
        else:
            same(two.error("INSERT INTO t VALUES(4, 4, 'four')").code in (BUSY, None), True)
            del cursor
            fill(two, "t", 4, 1)
        same(xs(one), [0, 1, 2, 3, 4])
        # A transaction does so from its first read on.
        one.query("BEGIN")
        same(len(xs(one)), 5)
        if mode == "WAL":
            fill(two, "t", 5, 1)
            same(len(xs(one)), 5)
        one.query("COMMIT")
        # Changes that were rolled back never reappear.
        one.query("BEGIN")
        fill(one, "t", 50, 1)
        same(xs(one)[-1], 50)
        one.query("ROLLBACK")
        fill(two, "t", 60, 1)
        same(xs(one)[-1], 60)
        same(50 in xs(one), False)
        # Another connection drops the table and creates one with the same name.
        two.query("DROP TABLE t")
        made(two, rows=1)
        same(xs(one), [0])
        two.query("ALTER TABLE t RENAME TO u")
        one.error("SELECT * FROM t")
        same(xs(one, "u"), [0])
        one.close()
        two.close()


def test_a_commit_that_fails_because_of_a_reader_can_be_tried_again():
    one, two = Database(path("a.db")), Database(path("a.db"))
    made(one)
    one.query("PRAGMA busy_timeout = 0")
    cursor = two.cursor("SELECT x FROM t")
    same(two.next(cursor), (0,))
    one.query("BEGIN")
    fill(one, "t", 10, 1)
    one.error("COMMIT")
    same(xs(one), [0, 1, 2, 10])
    fill(one, "t", 11, 1)   # the transaction goes on
    one.query("SAVEPOINT s")
    fill(one, "t", 12, 1)
    one.error("COMMIT")
    one.query("ROLLBACK TO s")
    fill(one, "t", 13, 1)
    same(xs(one), [0, 1, 2, 10, 11, 13])
    del cursor
    one.query("COMMIT")
    same(xs(one), [0, 1, 2, 10, 11, 13])
    same(xs(two), [0, 1, 2, 10, 11, 13])
    sound(one)
    same(one.value("SELECT count(*) FROM tessera_fragments('db:t')"), 2)   # the commit that ROLLBACK TO has undone is gone


def test_errors_leave_no_lock():
    one, two = Database(path("a.db")), Database(path("a.db"))
    one.query("SELECT tessera_sync(?, 'db:t')", (corpus(BIG),))
    x = one.value("SELECT x FROM t LIMIT 1")
    for sql in ("SELECT sum(x) FROM t", f"SELECT * FROM t WHERE x = {x}", "SELECT * FROM t LIMIT 3", "EXPLAIN SELECT * FROM t WHERE x > 5",
                "SELECT count(*) FROM tessera_tiles('db:t')", "SELECT * FROM tessera_check('db:t')", "SELECT tessera_ddl('db:t')",
                "PRAGMA integrity_check"):
        one.query(sql)
        two.query("BEGIN EXCLUSIVE")   # fails with BUSY if a lock is left
        two.query("COMMIT")
    cursor = one.cursor("SELECT * FROM t")
    one.next(cursor)
    two.error("BEGIN EXCLUSIVE")
    del cursor
    two.query("BEGIN EXCLUSIVE")
    two.query("COMMIT")
    one.close()
    two.close()


def test_functions_that_fail_because_of_a_reader_leave_no_transaction():
    """With a rollback journal a commit waits for readers. A function that cannot commit leaves no transaction open."""
    db, other = Database(path("a.db")), Database(path("a.db"))
    made(db)
    for i in range(3):
        fill(db, "t", 10 * i, 5)
    db.query("CREATE TABLE plain(x)")
    db.query("INSERT INTO plain VALUES(1), (2), (3)")
    before = db.value("SELECT fragments FROM tessera_array('db:t')")
    db.query("PRAGMA busy_timeout = 0")
    for sql in ("SELECT tessera_vacuum('db:t')", "SELECT tessera_consolidate('db:t')", "SELECT tessera_set_metadata('db:t', 'k', 1)"):
        cursor = other.cursor("SELECT * FROM plain")
        other.next(cursor)
        check_contains(db.error(sql).text, "locked")
        del cursor
        db.query("BEGIN")   # fails if a transaction is open
        db.query("COMMIT")
        same(other.value("SELECT fragments FROM tessera_array('db:t')"), before)
    db.query("INSERT INTO plain VALUES(4)")
    same(other.value("SELECT count(*) FROM plain"), 4)
    sound(db)


def test_functions_wait_for_the_lock():
    """A function that changes an array in the database waits for another writer as an INSERT does, for as long as the busy timeout allows,
    and then works on what that writer has committed; without a timeout it fails at once."""
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + (head + " " * (117 - len(head)) + "\n").encode() + struct.pack("<d", 1)
    calls = [("SELECT tessera_consolidate('db:t')", ()), ("SELECT tessera_consolidate('db:t', 'commits')", ()), ("SELECT tessera_vacuum('db:t')", ()),
             ("SELECT tessera_set_metadata('db:t', 'k', 1)", ()), ("SELECT tessera_set_metadata('db:t', 'k', NULL)", ()), ("SELECT tessera_add_attribute('db:t', 'w INT32')", ()),
             ("SELECT tessera_drop_attribute('db:t', 'w')", ()), ("SELECT tessera_write_npy('db:d', 'v', ?)", (npy,)), ("SELECT tessera_copy('db:t', 'db:copied')", ()),
             ("SELECT tessera_copy(?, 'db:taken')", (corpus(SPARSE),)), ("SELECT tessera_sync(?, 'db:u')", (corpus(SPARSE),)),
             ("INSERT INTO t(x) VALUES(50)", ())]
    for mode in ("WAL", "DELETE"):
        name = path(f"lock_{mode}.db")
        db = Database(name)
        db.query(f"PRAGMA journal_mode = {mode}")
        made(db)
        db.query("CREATE VIRTUAL TABLE d USING tessera(kind=dense, x INT32 DIMENSION(0, 0, 1), v FLOAT64)")
        db.query("CREATE TABLE log(x)")
        for number, (sql, arguments) in enumerate(calls):
            fill(db, "t", 10 + number, 1)
            held, tried = threading.Event(), threading.Event()

            def other():
                two = Database(name)
                two.query("BEGIN IMMEDIATE")
                two.query("INSERT INTO log VALUES(1)")
                held.set()
                tried.wait(60)
                time.sleep(0.03)
                two.query("INSERT INTO t(x) VALUES(?)", (100 + number,))
                two.query("COMMIT")
                two.close()
            thread = threading.Thread(target=other)
            thread.start()
            held.wait()
            db.query("PRAGMA busy_timeout = 0")
            same(db.error(sql, arguments).code in (BUSY, None), True, sql)
            db.query("PRAGMA busy_timeout = 60000")
            tried.set()
            db.query(sql, arguments)
            thread.join()
            same(100 + number in xs(db), True, sql)
        same(db.value("SELECT count(*) FROM log"), len(calls))
        sound(db)
        db.close()


def test_functions_are_atomic():
    db = Database(path("a.db"))
    made(db)
    before = db.query("SELECT id, parent, name, size FROM t_files")
    for sql in ("SELECT tessera_add_attribute('db:t', 'v INT32')", "SELECT tessera_drop_attribute('db:t', 'nosuch')"):
        db.error(sql)
        same(db.query("SELECT id, parent, name, size FROM t_files"), before, sql)
        db.query("BEGIN")   # no transaction is open
        db.query("ROLLBACK")
    db.query("BEGIN")
    db.query("SELECT tessera_set_metadata('db:t', 'k', 1)")
    db.query("SELECT tessera_set_metadata('db:t', 'l', 2)")
    same(db.query("SELECT key FROM tessera_metadata('db:t')"), [("k",), ("l",)])
    db.query("ROLLBACK")
    same(db.query("SELECT key FROM tessera_metadata('db:t')"), [])
    db.query("CREATE TABLE log(a)")
    db.query("INSERT INTO log SELECT tessera_set_metadata('db:t', 'k', 1)")
    same(db.query("SELECT key FROM tessera_metadata('db:t')"), [("k",)])
    db.query("BEGIN")
    fill(db, "t", 10, 1)
    check_contains(db.error("SELECT tessera_set_metadata('db:t', 'm', 1)").text, "commit first")
    db.query("COMMIT")
    same(len(xs(db)), 4)


# ---- The rows of the shadow tables ------------------------------------------------------------------------------------

def rows_fit(db, name, what):
    """Checks that each file has its chunks, and that no chunk is without its file. Returns the numbers of files and chunks."""
    same(db.value(f"SELECT count(*) FROM {name}_chunks WHERE id >> 32 NOT IN (SELECT id FROM {name}_files WHERE size > 0)"), 0, f"{what}: chunks without a file")
    same(db.query(f"SELECT name FROM {name}_files AS f WHERE size IS NOT NULL AND (size + 65535) / 65536 <> "
                  f"(SELECT count(*) FROM {name}_chunks WHERE id >= f.id << 32 AND id < (f.id + 1) << 32)"), [], f"{what}: files without their chunks")
    same(db.value(f"SELECT coalesce(sum(size), 0) FROM {name}_files"), db.value(f"SELECT coalesce(sum(length(bytes)), 0) FROM {name}_chunks"), f"{what}: bytes")
    same(db.value(f"SELECT count(*) FROM {name}_files WHERE parent <> 0 AND parent NOT IN (SELECT id FROM {name}_files WHERE size IS NULL)"), 0, f"{what}: files without a directory")
    return db.value(f"SELECT count(*) FROM {name}_files WHERE size IS NOT NULL"), db.value(f"SELECT count(*) FROM {name}_chunks")


def test_no_chunk_stays_behind():
    db = Database(path("a.db"))
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 999999, 1000), v INT64 FILTERS(none))")
    insert = "WITH RECURSIVE n(i) AS (VALUES({}) UNION ALL SELECT i + 1 FROM n WHERE i < {}) INSERT INTO t SELECT i, i FROM n"
    for k in range(3):
        db.query(insert.format(20000 * k, 20000 * k + 19999))   # 160,000 bytes of v: three chunks
    files, chunks = rows_fit(db, "t", "rows")
    same(chunks > files, True, "files of several chunks")
    db.query("SELECT tessera_set_metadata('db:t', 'k', 1), tessera_set_metadata('db:t', 'k', 2)")
    db.query("SELECT tessera_consolidate('db:t', 'array_meta')")
    db.query("SELECT tessera_consolidate('db:t')")
    before = rows_fit(db, "t", "consolidated")
    db.query("SELECT tessera_vacuum('db:t'), tessera_vacuum('db:t', 'array_meta')")
    after = rows_fit(db, "t", "vacuumed")
    same(after[0] < before[0] and after[1] < before[1] - 8, True, f"{before}, {after}: the vacuum removes the chunks of what it removes")
    db.query("BEGIN")
    db.query(insert.format(100000, 119999))
    db.query("SAVEPOINT s")
    db.query(insert.format(200000, 219999))
    db.query("ROLLBACK TO s")
    db.query("COMMIT")
    rows_fit(db, "t", "rolled back to a savepoint")
    before = rows_fit(db, "t", "before a rollback")
    for sql in ("BEGIN", insert.format(300000, 319999), "ROLLBACK"):
        db.query(sql)
    same(rows_fit(db, "t", "rolled back"), before, "a rollback leaves what was there")
    db.query("ALTER TABLE t RENAME TO u")
    same(rows_fit(db, "u", "renamed"), before, "a renamed table keeps its files")
    db.query("DELETE FROM u")
    db.query("SELECT tessera_consolidate('db:u'), tessera_vacuum('db:u'), tessera_consolidate('db:u', 'commits'), tessera_vacuum('db:u', 'commits')")
    rows_fit(db, "u", "all rows deleted")
    db.query("SELECT tessera_copy('db:u', 'db:t')")
    rows_fit(db, "t", "copied")
    db.query("DROP TABLE u")
    same([name for name in tables(db) if name.startswith("u")], [], "a dropped table")


# ---- Readers that have begun -------------------------------------------------------------------------------------------

MANY = 60000
LONG = f"CREATE VIRTUAL TABLE {{}} USING tessera(kind=dense, x INT32 DIMENSION(1, {MANY}, 500), v INT32, cache_mb=0)"


def made_long(db, name, sign):
    db.query(LONG.format(name))
    for first in (1, MANY // 2 + 1):   # two fragments: the files of the second are opened late
        db.query(f"WITH RECURSIVE n(i) AS (VALUES({first}) UNION ALL SELECT i + 1 FROM n WHERE i < {first + MANY // 2 - 1}) INSERT INTO {name} SELECT i, {sign} * i FROM n")


class Stream:
    """A stream of `t` whose first batch was read."""

    def __init__(self, db):
        self.reader = streams.Reader(db, "db:t", None, '{"batch_rows":500}')
        self.first = self.reader.batch()

    def rest(self):
        return [v for x, v in self.first + self.reader.rows()]


class Begun(Stream):
    """A stream that has opened no file yet."""

    def __init__(self, db):
        self.reader, self.first = streams.Reader(db, "db:t"), []


class Cursor:
    def __init__(self, db):
        self.db, self.cursor = db, db.cursor("SELECT x, v FROM t")
        self.first = [db.next(self.cursor) for _ in range(500)]

    def rest(self):
        while (row := self.db.next(self.cursor)) is not None:
            self.first.append(row)
        return [v for x, v in self.first]


def another_makes_it_again(db, other):
    other.query("DROP TABLE t")
    made_long(other, "t", -1)


def another_renames(db, other):
    other.query("ALTER TABLE t RENAME TO t3")
    other.query("ALTER TABLE t2 RENAME TO t")


def renames(db, other):
    another_renames(other, db)


def makes_it_again(db, other):
    another_makes_it_again(other, db)


def vacuums(db, other):
    """Then the vacuumed files' ids are those of other files."""
    db.query("UPDATE t SET v = v + 0 WHERE x < 40000")
    for _ in range(2):
        db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
        db.query("UPDATE t SET v = -x")


def rolls_back(db, other):
    """The files of the rows are taken back; later ones get their ids."""
    db.query("BEGIN")
    db.query("UPDATE t SET v = -x")
    db.query("ROLLBACK")
    db.query("UPDATE t SET v = -x")
    db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")


def test_a_reader_keeps_to_its_array():
    """A reader that has begun gives the rows that it began with, or fails: never rows of another array or of another state."""
    # what happens meanwhile, whether a stream and a cursor reach their end, and what the failure is
    base = path("begun.db")
    db = Database(base)
    db.query("PRAGMA journal_mode = WAL")
    made_long(db, "t", 1)
    made_long(db, "t2", -1)
    db.close()
    cases = [(another_makes_it_again, False, True), (another_renames, True, True), (renames, True, True), (makes_it_again, False, None),
             (vacuums, False, False), (rolls_back, False, None)]
    for change, stream_ends, cursor_ends in cases:
        for kind, ends in ((Stream, stream_ends), (Begun, stream_ends), (Cursor, cursor_ends)):
            if ends is None:   # SQLite refuses the change while the cursor is open
                continue
            name = path(f"{change.__name__}_{kind.__name__}.db")
            shutil.copyfile(base, name)
            db, other = Database(name), Database(name)
            reader = kind(db)
            what = f"{kind.__name__}, {change.__name__}"
            change(db, other)
            try:
                got = reader.rest()
            except (Error, streams.Failed) as e:
                got = None
                same(ends, False, f"{what}: {e}")
                same("vacuumed" in str(e) or "not found" in str(e), True, f"{what}: {e}")
                same(getattr(e, "code", 4) in (4, None), True, what)   # SQLITE_ABORT
            if ends:
                same(got == list(range(1, MANY + 1)), True, what)
            elif got is not None:
                raise AssertionError(f"{what}: no error, {sum(v < 0 for v in got)} of {len(got)} rows are of another array")
            del reader
            db.close()
            other.close()


# ---- Import and export -----------------------------------------------------------------------------------------------

ARRAYS = [SPARSE, DENSE, BIG, "new/sparse/empty", "new/enums", "new/labels", "new/deletes", "new/consolidated", "old/lib1.7_py0.5.9", "old/lib2.1_py0.7.7",
          "old/lib2.9_py0.15.6"]


def some_arrays():
    """Returns two arrays of each of these directories of the corpus."""
    for name in ARRAYS:
        directory = corpus(name)
        if os.path.exists(directory + ".json"):
            yield directory
            continue
        here = [d for d in sorted(os.listdir(directory)) if os.path.isdir(os.path.join(directory, d)) and
                os.path.exists(os.path.join(directory, d + ".json"))]
        for one in here[:2]:
            with open(os.path.join(directory, one + ".json"), encoding="utf-8") as f:
                if json.load(f).get("kind") == "array":
                    yield os.path.join(directory, one)


def test_a_small_limit_of_values_says_so():
    db = Database(path("a.db"))
    db.query("CREATE VIRTUAL TABLE s USING tessera(id INT32 DIMENSION, v TEXT)")
    insert = "WITH RECURSIVE q(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM q WHERE i < 3000) INSERT INTO s SELECT i, hex(randomblob(40)) FROM q"
    if not hasattr(db.raw, "limit") and not hasattr(db.raw, "setlimit"):
        return   # before Python 3.11
    limit = db.limit_length(20000)
    error = db.error(insert)
    check_contains(error.text, "SQLITE_LIMIT_LENGTH, is below the")
    same(error.code in (18, None), True, error.code)
    db.limit_length(limit)
    db.query(insert)
    same(db.value("SELECT count(*) FROM s"), 3000)


def test_files_stay_as_they_are():
    db = Database(path("a.db"))
    for i, directory in enumerate(some_arrays()):
        wanted = tree(directory)
        out = path(f"out{i}")
        for places in ((directory, f"db:t{i}"), (f"db:t{i}", out)):
            done = json.loads(db.value("SELECT tessera_sync(?, ?)", places))
            same(done["copied"], sum(v is not None for v in wanted.values()))
        same({name: bytes for name, bytes in tree(out).items() if "/.synced_" not in "/" + name}, wanted, directory)
        db.table(f"o{i}", out)
        columns = [row[1] for row in db.query(f"PRAGMA table_info(t{i})")]
        same(columns, [row[1] for row in db.query(f"PRAGMA table_info(o{i})")])
        names = ", ".join('CAST("' + name.replace('"', '""') + '" AS BLOB)' for name in columns)
        wanted = sorted(map(repr, db.query(f"SELECT {names} FROM o{i}")))
        same(sorted(map(repr, db.query(f"SELECT {names} FROM t{i}"))), wanted)
        db.query(f"SELECT tessera_sync('db:t{i}', 'db:again')")
        same(sorted(map(repr, db.query(f"SELECT {names} FROM again"))), wanted)
        db.query("DROP TABLE again")


def test_import_that_fails_leaves_nothing():
    db = Database(path("a.db"))
    os.mkdir(path("empty"))
    before = tables(db)
    for target in (path("nosuch"), path("empty"), corpus("new/groups")):
        db.error("SELECT tessera_sync(?, 'db:t')", (target,))
        same(tables(db), before)
    db.query("PRAGMA max_page_count = 20")
    e = db.error("SELECT tessera_sync(?, 'db:t')", (corpus(BIG),))
    same(e.code in (FULL, None), True, e.text)
    db.query("PRAGMA max_page_count = 1000000")
    same(tables(db), before)
    same(db.query("PRAGMA integrity_check"), [("ok",)])
    db.query("SELECT tessera_sync(?, 'db:t')", (corpus(SPARSE),))
    check_contains(db.error("SELECT tessera_sync(?, 'db:t')", (corpus(BIG),)).text, "another array")
    db.error("SELECT tessera_sync(?, NULL)", (corpus(SPARSE),))
    db.error("SELECT tessera_sync(NULL, 'db:u')")
    db.query("BEGIN")
    db.query("SELECT tessera_sync(?, 'db:u')", (corpus(SPARSE),))
    db.query("ROLLBACK")
    same(tables(db), ["t", "t_chunks", "t_config", "t_files"])
    db.query("CREATE VIEW v AS SELECT tessera_sync('x', 'db:w')")
    check_contains(db.error("SELECT * FROM v").text, "unsafe use")


def test_export_that_fails_leaves_nothing():
    db = Database(path("a.db"))
    db.query("SELECT tessera_sync(?, 'db:t')", (corpus(BIG),))
    os.mkdir(path("there"))
    with open(path("there/other"), "w", encoding="utf-8"):
        pass
    for target, says in ((path("there"), "already"), ("", "path")):
        check_contains(db.error("SELECT tessera_sync('db:t', ?)", (target,)).text, says)
    same(os.listdir(path("there")), ["other"])
    check_contains(db.error("SELECT tessera_sync('db:nosuch', ?)", (path("x"),)).text, "nosuch")
    db.query("DELETE FROM t_chunks WHERE id = (SELECT max(c.id) FROM t_chunks c JOIN t_files f ON f.id = c.id >> 32 WHERE f.name LIKE '%.tdb')")
    e = db.error("SELECT tessera_sync('db:t', ?)", (path("x"),))
    same(e.code in (CORRUPT, None, 267), True, e.text)
    same(os.path.exists(path("x")), False)


def test_fragments_are_found_by_few_statements():
    """Opening many fragments takes three statements each: the fragment, its metadata file, and the length of that file's last chunk."""
    if host.binding != "sqlite3":
        return
    file = path("many.db")
    db = Database(file)
    made(db, rows=0)
    for x in range(80):
        fill(db, "t", x, 1)
    wanted = db.query("SELECT * FROM t ORDER BY 1")
    db.close()
    db, statements = Database(file), []
    db.raw.set_trace_callback(statements.append)
    same(db.query("SELECT * FROM t WHERE x = 5"), [row for row in wanted if row[0] == 5])
    db.raw.set_trace_callback(None)
    found = [s for s in statements if "t_files" in s or "t_chunks" in s]
    same(3 * 80 <= len(found) < 5 * 80, True, len(found))
    same(db.query("SELECT * FROM t ORDER BY 1"), wanted)


def test_keys():
    key = bytes(range(32))
    with open(path("key"), "wb") as f:
        f.write(key)
    definition = "(x INT32 DIMENSION(0, 99, 10), v FLOAT64, encryption=aes_256_gcm{})"
    db = Database(path("a.db"))
    db.query("CREATE VIRTUAL TABLE t USING tessera" + definition.format(", key_file='key'"))
    db.query("INSERT INTO t VALUES(1, 2.5)")
    db.query("SELECT tessera_set_key('db:u', ?)", (key,))
    db.query("CREATE VIRTUAL TABLE u USING tessera" + definition.format(""))
    db.query("INSERT INTO u VALUES(1, 2.5)")
    db.query("ALTER TABLE u RENAME TO w")
    db.query("SELECT tessera_sync('db:t', ?)", (path("out"),))
    db.query("SELECT tessera_set_key(?, ?)", (path("out"), key))
    db.query("SELECT tessera_sync(?, 'db:i')", (path("out"),))
    for name in ("t", "w", "i"):
        same(db.query(f"SELECT * FROM {name}"), [(1, 2.5)], name)
    same(any(b"\x04@" in row[0] and len(row[0]) < 16 for row in db.query("SELECT bytes FROM t_chunks")), False)
    db.close()
    db = Database(path("a.db"))
    same(db.query("SELECT * FROM t"), [(1, 2.5)])
    for name in ("w", "i"):
        same(db.error(f"SELECT * FROM {name}").code in (AUTH, None), True)
        db.query("SELECT tessera_set_key(?, ?)", ("db:" + name, key))
        same(db.query(f"SELECT * FROM {name}"), [(1, 2.5)], name)


# ---- Damage ----------------------------------------------------------------------------------------------------------

def damaged(statements):
    """Makes databases with a table `t`, each with one of these changes to its shadow tables."""
    source = path("sound.db")
    if not os.path.exists(source):
        db = Database(source)
        db.query("SELECT tessera_sync(?, 'db:t')", (corpus(SPARSE),))
        db.query("SELECT tessera_sync(?, 'db:big')", (corpus(BIG),))
        db.close()
    for sql in statements:
        name = tempfile.mktemp(dir=host.FOLDER)
        shutil.copy(source, name)
        plain = sqlite3.connect(name)
        try:
            plain.executescript(sql)
        except sqlite3.Error:   # SQLite itself refuses the change
            continue
        finally:
            plain.close()
        yield sql, Database(name)
        os.remove(name)


def look_at(db, sql):
    """Runs each kind of statement, which must return rows or an error."""
    errors = []
    for statement in ("SELECT * FROM t", "SELECT * FROM tessera_check('db:t')", "SELECT * FROM tessera_fragments('db:t')",
                      f"SELECT tessera_sync('db:t', {literal(path('x'))})", "PRAGMA integrity_check", "SELECT tessera_set_metadata('db:t', 'a', 1)"):
        try:
            db.query(statement)
        except Error as e:
            same(e.code in (None, CORRUPT, CANTOPEN, ERROR, FULL, 4), True, f"{sql}: {statement}: {e.code} {e.text}")
            errors.append(statement)
        shutil.rmtree(path("x"), ignore_errors=True)
    return errors


def test_damaged_shadow_tables_are_errors():
    file = "(SELECT max(id) FROM t_files WHERE size > 100 AND name NOT LIKE '.synced%')"
    hurts = [f"DELETE FROM t_chunks WHERE id = {file} << 32",
             f"UPDATE t_chunks SET bytes = substr(bytes, 2) WHERE id = {file} << 32",
             f"UPDATE t_chunks SET bytes = 'text' WHERE id = {file} << 32",
             f"UPDATE t_chunks SET bytes = 7 WHERE id = {file} << 32",
             f"UPDATE t_files SET size = size + 1 WHERE id = {file}",
             f"UPDATE t_files SET size = -1 WHERE id = {file}",
             f"UPDATE t_files SET size = 'x' WHERE id = {file}",
             f"UPDATE t_files SET size = 9223372036854775807 WHERE id = {file}",
             f"UPDATE t_files SET size = 1 << 50 WHERE id = {file}",
             f"UPDATE t_files SET size = NULL WHERE id = {file}",
             f"UPDATE t_files SET name = '../../etc' WHERE id = {file}",
             f"UPDATE t_files SET name = '' WHERE id = {file}",
             "DELETE FROM t_files WHERE id = 1",
             "UPDATE t_files SET size = 5 WHERE id = 1",
             "UPDATE t_files SET name = 'x' WHERE id = 1",
             "UPDATE t_files SET size = 5 WHERE name = '__schema'",
             "DELETE FROM t_files WHERE name = '__schema'",
             "DELETE FROM t_files",
             "DELETE FROM t_chunks",
             "DROP TABLE t_files",
             "DROP TABLE t_chunks",
             "DROP TABLE t_chunks; CREATE VIEW t_chunks AS SELECT 1 AS id, x'00' AS bytes",
             "DROP TABLE t_files; CREATE VIEW t_files AS SELECT * FROM big_files",
             "DROP TABLE t_files; CREATE TABLE t_files(id, parent, name, size, modified, stamp)",
             "DROP TABLE t_chunks; CREATE TABLE t_chunks(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT ROWID"]
    kept = []
    for sql, db in damaged(hurts):
        if not look_at(db, sql):
            kept.append(sql)
        same(db.value("SELECT count(*) FROM big"), 100000)
        if "VIEW" not in sql:
            db.query("DROP TABLE t")
        db.close()
    same(kept, [], "not seen")


def test_a_claimed_size_is_refused_before_memory_is_taken():
    """A shadow table has the last piece of a file of a gigabyte and no others."""
    file = "(SELECT max(id) FROM t_files WHERE name LIKE '\\_\\_1%' ESCAPE '\\' AND size > 0)"
    hurt = f"INSERT INTO t_chunks VALUES(({file} << 32) + (1 << 14) - 1, zeroblob(65536)); UPDATE t_files SET size = 1 << 30 WHERE id = {file}"
    for sql, db in damaged([hurt]):
        check_contains(db.error("SELECT count(*) FROM t").text, "the database has")
        db.close()


def test_circles_of_directories_end():
    for sql, db in damaged(["UPDATE t_files SET parent = id WHERE name = '__fragments'",
                            "UPDATE t_files SET parent = (SELECT id FROM t_files WHERE name = '__commits') WHERE name = '__fragments';"
                            "UPDATE t_files SET parent = (SELECT id FROM t_files WHERE name = '__fragments') WHERE name = '__commits'",
                            "UPDATE t_files SET parent = 1 << 62 WHERE name = '__commits'"]):
        look_at(db, sql)
        db.close()


def test_random_damage_gives_rows_or_errors():
    chance = random.Random(11)
    hurts = []
    for _ in range(60):
        column = chance.choice(["id", "parent", "name", "size", "modified", "stamp", "bytes", "bytes", "bytes"])
        value = chance.choice(["0", "1", "-1", "2", "NULL", "'x'", "x'00'", "zeroblob(70000)", "9e99", "1 << 40", "randomblob(500)"])
        name = "t_chunks" if column == "bytes" else "t_files"
        hurts.append(f"UPDATE OR IGNORE {name} SET {column} = {value} WHERE rowid = (SELECT rowid FROM {name} LIMIT 1 OFFSET "
                     f"{chance.randrange(40)})")
    for sql, db in damaged(hurts):
        look_at(db, sql)
        db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
