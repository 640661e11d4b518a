"""SQLite's transactions on arrays: commits that fail and go on, savepoints that virtual tables are not told of, tables
that are dropped, several connections and databases, and the state that a crash between the database's commit and the
array's leaves.

usage: transactions.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time

import host
from host import Database, Error, check_contains, literal, not_on_windows, same

ABORT, BUSY, LOCKED, READONLY, INTERRUPT, CONSTRAINT = 4, 5, 6, 8, 9, 19
SPARSE = "x INT DIMENSION(0, 100000), a INT, s TEXT"


def open_database(mode="delete", folder=None):
    file = os.path.join(folder or tempfile.mkdtemp(dir=host.FOLDER), "t.db")
    db = Database(file)
    db.query("PRAGMA busy_timeout = 0")
    db.query("PRAGMA journal_mode=" + mode)
    return file, db


def make(db, name="t", definition=SPARSE, path=None):
    db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({literal(path or name)}, {definition})")


def again(file):
    db = Database(file)
    db.query("PRAGMA busy_timeout = 0")
    return db


def array(file, name="t"):
    return os.path.join(os.path.dirname(file), name)


def outside(file, name="t"):
    """Returns the keys that another connection sees."""
    db = Database()
    db.table("t", array(file, name))
    keys = [row[0] for row in db.query("SELECT x FROM t ORDER BY x")]
    db.close()
    return keys


def keys(db, name="t"):
    return [row[0] for row in db.query(f"SELECT x FROM {name} ORDER BY x")]


def files(path):
    return sorted(os.path.relpath(os.path.join(d, f), path) for d, ds, fs in os.walk(path) for f in fs + ds)


def commit_files(path):
    return sorted(os.listdir(os.path.join(path, "__commits")))


def sound(path):
    db = Database()
    same(db.query("SELECT severity, file, message FROM tessera_check(?) WHERE severity <> 'note'", (path,)), [])
    db.close()


def cut_off(file, name="t"):
    """Restores the state of the last commit that a crash between the database's commit and the array's leaves. Returns its name."""
    db = Database(file, load=False)
    (commit,), = db.query(f"SELECT name FROM {name}_commits")
    (owner,), = db.query(f"SELECT substr(value, 1, 32) FROM {name}_config WHERE key = 'owner'")
    db.close()
    path = array(file, name)
    os.remove(os.path.join(path, commit))
    stem = os.path.basename(commit).rsplit(".", 1)[0]
    with open(os.path.join(path, "__commits", stem + ".pending"), "w", newline="\n") as f:
        f.write(f"{commit}\n{stem}\n\nowner {owner} unlocked here\n{file}\n")
    return stem


# ---- Commits that fail -----------------------------------------------------------------------------------------------

def test_a_commit_that_fails_because_of_a_reader_goes_on():
    file, db = open_database()
    make(db)
    db.query("CREATE TABLE p(x)")
    db.query("INSERT INTO p VALUES(1), (2)")
    reader = again(file)
    cursor = reader.cursor("SELECT * FROM p")
    reader.next(cursor)
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 1, 'a'), (2, 2, 'b')")
    db.query("INSERT INTO p VALUES(3)")
    db.query("SAVEPOINT s")
    db.query("INSERT INTO t VALUES(3, 3, 'c')")
    check_contains(db.error("COMMIT").text, "locked")
    same((keys(db), outside(file)), ([1, 2, 3], []), "the transaction goes on")
    same([row[0] for row in reader.query("SELECT x FROM t")], [], "prepared is not committed")
    db.query("ROLLBACK TO s")
    same(keys(db), [1, 2])
    check_contains(db.error("COMMIT").text, "locked")
    check_contains(db.error("COMMIT").text, "locked")
    db.query("INSERT INTO t VALUES(4, 4, 'd')")
    del cursor
    reader.close()
    db.query("COMMIT")
    same((keys(db), outside(file)), ([1, 2, 4], [1, 2, 4]))
    same(len(os.listdir(os.path.join(array(file), "__fragments"))), 1, "what was prepared before is gone")
    same(len(commit_files(array(file))), 1)
    same(db.value("SELECT count(*) FROM t_commits"), 1)
    sound(array(file))


def retry(file, db, between=None):
    """COMMIT fails because of a reader of `p`, others do something, the reader ends, COMMIT succeeds. Returns a time between the two tries."""
    reader = again(file)
    cursor = reader.cursor("SELECT * FROM p")
    reader.next(cursor)
    for _ in range(2):
        same((db.error("COMMIT").text, db.value("SELECT count(*) FROM p")), ("database is locked", 2))
    time.sleep(0.02)
    moment = int(time.time() * 1000)
    time.sleep(0.02)
    if between:
        between()
    del cursor
    reader.close()
    db.query("COMMIT")
    return moment


def test_a_commit_that_is_tried_again_has_the_time_of_the_last_try():
    """Commits of others since the first try are older, and a time between the two tries reads as before."""
    kinds = {
        "sparse": (SPARSE, "INSERT INTO t VALUES(1, 11, 'new'), (4, 44, 'new')"),
        "moved": (SPARSE, "UPDATE t SET x = x + 100"),
        "deleted": (SPARSE, "DELETE FROM t WHERE x < 3"),
        "replaced": (SPARSE + ", duplicates=yes", "UPDATE t SET a = -a WHERE x < 3"),
        "spilled": (SPARSE + ", memory_mb=2, capacity=8", "INSERT INTO t SELECT value, 11, printf('%.*c', 30000, 'a') FROM generate_series(1, 99)"),
        "dense": ("kind=dense, x INT DIMENSION(0, 99, 10), a INT, s TEXT", "INSERT INTO t VALUES(1, 11, 'new'), (40, 44, 'new'), (77, 7, 'new')"),
        "version 12": (SPARSE + ", format_version=12", "INSERT INTO t VALUES(1, 11, 'new')"),
        "version 3": (SPARSE + ", format_version=3", "INSERT INTO t VALUES(1, 11, 'new')"),
        "version 3, dense": ("kind=dense, format_version=3, x INT DIMENSION(0, 99, 10), a INT, s TEXT", "INSERT INTO t VALUES(1, 11, 'new'), (3, 33, 'new')"),
    }
    for kind, (definition, change) in kinds.items():
        if "version 3" in kind:
            definition = definition.replace("a INT", "a INT NOT NULL").replace("s TEXT", "s TEXT NOT NULL")
        file, db = open_database()
        make(db, definition=definition)
        db.query("CREATE TABLE p(x)")
        db.query("INSERT INTO p VALUES(1), (2)")
        db.query("INSERT INTO t SELECT value, value, 'old' FROM json_each('[0,1,2,3]')")
        db.query("CREATE VIRTUAL TABLE u USING tessera('t')")   # SQLite calls the methods of both tables
        other = Database()
        other.table("t", array(file))
        row = other.query("SELECT * FROM t WHERE x IN (1, 101, 40, 99)")
        for extra in ("", "INSERT INTO u SELECT max(x) + 1, 5, 'u' FROM u", "SAVEPOINT s", "SAVEPOINT s; INSERT INTO t VALUES(90, 9, 'gone'); ROLLBACK TO s"):
            db.query("BEGIN")
            for sql in [change.replace("generate_series(1, 99)", "json_each('[" + ",".join(map(str, range(1, 100))) + "]')")] + extra.split(";"):
                if sql.strip():
                    db.query(sql)
            wanted = db.query("SELECT * FROM t ORDER BY x, a")
            before = other.query("SELECT * FROM t ORDER BY x, a")
            moment = retry(file, db)
            same(other.query(f"SELECT * FROM t({moment}) ORDER BY x, a"), before, kind)
            same(db.query(f"SELECT * FROM t({moment}) ORDER BY x, a"), before, kind)
            same((other.query("SELECT * FROM t ORDER BY x, a"), db.query("SELECT * FROM t ORDER BY x, a")), (wanted,) * 2, kind)
            same([n for n in files(array(file)) if "pending" in n or os.path.basename(n).startswith(".")], [], kind)
            same([db.value(f"SELECT count(*) FROM {t}_commits") for t in "tu"][0], 1, kind)
            if extra.startswith("INSERT"):
                same(db.query("SELECT * FROM t_commits"), db.query("SELECT * FROM u_commits"), kind)
            sound(array(file))
            db.query("UPDATE t SET a = a + 1000, s = 'more' WHERE x = 0")   # the transaction goes on
        # Cells that others write between the tries are older.
        if kind in ("deleted", "replaced", "moved"):
            continue
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(1, 1111, 'mine')")
        retry(file, db, lambda: other.query("INSERT INTO t VALUES(1, 2222, 'theirs'), (5, 5555, 'theirs')"))
        same(other.query("SELECT a FROM t WHERE x = 1"), [(1111,)], kind)
        same(db.query("SELECT a FROM t WHERE x IN (1, 5) ORDER BY x"), [(1111,), (5555,)], kind)


def test_a_commit_to_an_old_array_is_tried_again():
    for library in ("lib2.0_py0.6.6", "lib2.3_py0.9.5", "lib2.4_py0.10.5", "lib2.7_py0.13.3"):
        for kind, change in (("sparse2d", "INSERT INTO t VALUES(5, 50, 5, 'five', 0.5, '[1,2,3]')"), ("dense2d", "UPDATE t SET a = -7 WHERE r = 3 AND c IN (3, 5)")):
            path = host.copy(f"old/{library}/{kind}", "t")
            file, db = open_database(folder=os.path.dirname(path))
            db.query("CREATE VIRTUAL TABLE t USING tessera('t')")
            db.query("CREATE TABLE p(x)")
            db.query("INSERT INTO p VALUES(1), (2)")
            other = Database()
            other.table("t", path)
            columns = "r, c, a" if kind == "dense2d" else "x, y, a"
            before = other.query(f"SELECT {columns} FROM t ORDER BY 1, 2")
            db.query("BEGIN")
            db.query(change)
            wanted = db.query(f"SELECT {columns} FROM t ORDER BY 1, 2")
            moment = retry(file, db)
            same(other.query(f"SELECT {columns} FROM t({moment}) ORDER BY 1, 2"), before, library)
            same(other.query(f"SELECT {columns} FROM t ORDER BY 1, 2"), wanted, library)
            same([n for n in files(path) if "pending" in n or os.path.basename(n).startswith(".")], [], library)
            sound(path)


def test_a_delete_that_is_tried_again_spares_new_duplicates():
    """If duplicates are allowed, a delete condition must not delete a row that others have added at its coordinates meanwhile."""
    file, db = open_database()
    make(db, definition=SPARSE + ", duplicates=yes")
    db.query("CREATE TABLE p(x)")
    db.query("INSERT INTO p VALUES(1), (2)")
    db.query("INSERT INTO t VALUES(1, 1, 'a'), (2, 2, 'b')")
    other = Database()
    other.table("t", array(file))
    db.query("BEGIN")
    db.query("DELETE FROM t WHERE x = 1")
    reader = again(file)
    cursor = reader.cursor("SELECT * FROM p")
    reader.next(cursor)
    check_contains(db.error("COMMIT").text, "locked")
    other.query("INSERT INTO t VALUES(1, 5, 'c')")
    del cursor
    reader.close()
    db.error("COMMIT")
    same(other.query("SELECT a FROM t ORDER BY a"), [(1,), (2,), (5,)])
    sound(array(file))


def test_deletes_of_duplicates_beside_a_merge():
    """A merge copies the cells that an open transaction has deleted: they have other rowids then, and are no cells of others. A cell that somebody adds is one,
    also if the merge has taken it in, and also if others have deleted as many as they have added."""
    def others(other, path, *statements):
        for sql in statements:
            other.query(sql)
        other.query("SELECT tessera_consolidate(?)", (path,))
    cases = [((), True), (("INSERT INTO t VALUES('k0', 9)",), True), (("DELETE FROM t WHERE s = 'k2'",), True), (("INSERT INTO t VALUES('k1', 9)",), False),
             (("DELETE FROM t WHERE s = 'k1'",), True), (("DELETE FROM t WHERE s = 'k1'", "INSERT INTO t VALUES('k1', 9)"), False)]
    for statement, left in (("DELETE FROM t WHERE s = 'k1'", []), ("UPDATE t SET v = v + 100 WHERE s = 'k1'", [(101,), (104,)])):
        for meanwhile, commits in cases:
            file, db = open_database()
            make(db, definition="s TEXT DIMENSION, v INT64, duplicates=yes")
            for i in range(6):
                db.query("INSERT INTO t VALUES(?, ?)", (f"k{i % 3}", i))
            other = Database()
            other.table("t", array(file))
            db.query("BEGIN")
            db.query(statement)
            others(other, array(file), *meanwhile)
            if commits:
                db.query("COMMIT")
                same(other.query("SELECT v FROM t WHERE s = 'k1' ORDER BY v"), left, (statement, meanwhile))
            else:
                check_contains(db.error("COMMIT").text, "another cell has the same coordinates and would be deleted, too")
                same((9,) in other.query("SELECT v FROM t WHERE s = 'k1' ORDER BY v"), True, (statement, meanwhile))
            sound(array(file))


def test_duplicates_that_cannot_be_deleted_fail_in_their_statement():
    """Also if the statement reads its own table in a subquery. The transaction goes on."""
    file, db = open_database()
    make(db, definition="s TEXT DIMENSION, v INT64, duplicates=yes")
    for i in range(6):
        db.query("INSERT INTO t VALUES(?, ?)", (f"k{i % 3}", i))
    db.query("BEGIN")
    for sql in ("DELETE FROM t WHERE v = 1", "DELETE FROM t WHERE v = (SELECT max(v) FROM t)", "DELETE FROM t WHERE v IN (SELECT v FROM t WHERE v < 2)", "DELETE FROM t WHERE s = 'k1' OR v = 2",
                "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t o WHERE o.s = t.s AND o.v > t.v)", "UPDATE t SET v = (SELECT max(v) FROM t) + 1 WHERE v = 1",
                "UPDATE t SET v = 0 FROM (SELECT max(v) AS m FROM t) AS q WHERE t.v = q.m"):
        check_contains(db.error(sql).text, "another cell has the same coordinates and would be deleted, too")
    for sql, left in (("DELETE FROM t WHERE v IN (1, 3) OR s IN ('k1', 'k0')", 2), ("INSERT INTO t VALUES('k2', 7), ('k2', 8)", 4), ("DELETE FROM t WHERE rowid IN (SELECT o.rowid FROM t AS o WHERE o.s = t.s)", 0)):
        db.query(sql)
        same(db.query("SELECT count(*) FROM t"), [(left,)], sql)
    db.query("COMMIT")
    same(db.query("SELECT count(*) FROM t"), [(0,)])


def test_a_commit_of_a_new_array_is_tried_again():
    file, db = open_database()
    db.query("CREATE TABLE p(x)")
    db.query("INSERT INTO p VALUES(1), (2)")
    for version in (3, 12, 22):
        db.query("BEGIN")
        make(db, f"v{version}", f"x INT DIMENSION(0, 9), a INT NOT NULL, format_version={version}")
        db.query(f"INSERT INTO v{version} VALUES(1, 1)")
        retry(file, db)
        other = Database()
        other.table("t", array(file, f"v{version}"))
        same((other.query("SELECT * FROM t"), db.query(f"SELECT * FROM v{version}")), ([(1, 1)],) * 2)
        sound(array(file, f"v{version}"))


def test_a_commit_in_the_database_is_tried_again():
    for definition in (SPARSE, SPARSE + ", format_version=3", "kind=dense, x INT DIMENSION(0, 99, 10), a INT, s TEXT"):
        if "version" in definition:
            definition = definition.replace("a INT", "a INT NOT NULL").replace("s TEXT", "s TEXT NOT NULL")
        file, db = open_database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({definition})")
        db.query("CREATE TABLE p(x)")
        db.query("INSERT INTO p VALUES(1), (2)")
        db.query("INSERT INTO t VALUES(1, 1, 'a'), (2, 2, 'b')")
        before = db.query("SELECT * FROM t ORDER BY x")
        for extra in ("", "SAVEPOINT s", "SAVEPOINT s; INSERT INTO t VALUES(90, 9, 'gone'); ROLLBACK TO s"):
            db.query("BEGIN")
            for sql in ["INSERT INTO t VALUES(1, 11, 'new'), (7, 7, 'new')"] + extra.split(";"):
                if sql.strip():
                    db.query(sql)
            wanted = db.query("SELECT * FROM t ORDER BY x")
            moment = retry(file, db)
            reader = again(file)
            same((reader.query(f"SELECT * FROM t({moment}) ORDER BY x"), reader.query("SELECT * FROM t ORDER BY x")), (before, wanted), definition)
            same(reader.query("SELECT * FROM tessera_check('db:t') WHERE severity <> 'note'"), [])
            same(reader.value("SELECT count(*) FROM tessera_fragments('db:t')"), db.value("SELECT count(*) FROM tessera_fragments('db:t')"))
            reader.close()
            before = wanted


def test_a_commit_in_the_database_is_tried_again_after_rollback_to():
    """The failed attempt has published in the database's transaction; ROLLBACK TO takes part of that back."""
    file, db = open_database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({SPARSE})")
    db.query("CREATE TABLE p(x)")
    db.query("INSERT INTO p VALUES(1), (2)")
    reader = again(file)
    cursor = reader.cursor("SELECT * FROM p")
    reader.next(cursor)
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    db.query("SAVEPOINT s")
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    check_contains(db.error("COMMIT").text, "locked")
    db.query("ROLLBACK TO s")
    same(keys(db), [1])
    db.query("INSERT INTO t VALUES(3, 3, 'c')")
    same(keys(db), [1, 3])
    del cursor
    reader.close()
    db.query("COMMIT")
    same((keys(db), keys(again(file))), ([1, 3], [1, 3]))
    same(db.query("SELECT * FROM tessera_check('db:t')"), [])


def test_a_failed_commit_is_rolled_back():
    file, db = open_database()
    make(db)
    db.query("CREATE TABLE p(x)")
    db.query("INSERT INTO p VALUES(1), (2)")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    before = files(array(file))
    reader = again(file)
    cursor = reader.cursor("SELECT * FROM p")
    reader.next(cursor)
    check_contains(db.error("INSERT INTO t VALUES(2, 2, 'b')").text, "locked")   # with autocommit the statement is rolled back at once
    same((keys(db), files(array(file))), ([1], before))
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    check_contains(db.error("COMMIT").text, "locked")
    db.query("ROLLBACK")
    same((keys(db), files(array(file))), ([1], before))
    del cursor
    reader.close()
    db.query("INSERT INTO t VALUES(3, 3, 'c')")
    same((keys(db), outside(file)), ([1, 3], [1, 3]))


def test_a_commit_hook_that_refuses_rolls_back():
    if not hasattr(Database(load=False).raw, "set_commit_hook"):
        return
    for mode in ("delete", "wal"):
        file, db = open_database(mode)
        make(db)
        before = files(array(file))
        db.raw.set_commit_hook(lambda: True)
        db.error("INSERT INTO t VALUES(1, 1, 'a')")
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(2, 2, 'b')")
        db.error("COMMIT")
        db.raw.set_commit_hook(None)
        same((keys(db), outside(file), files(array(file))), ([], [], before))
        db.query("INSERT INTO t VALUES(3, 3, 'c')")
        same((keys(db), outside(file)), ([3], [3]))


def commit_unpublished(db, *statements):
    """Commits statements in the database alone: from the commit hook on, which runs between xSync and xCommit, no file can be opened."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    db.query("BEGIN")
    for statement in statements:
        db.query(statement)
    db.raw.set_commit_hook(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard)) is not None)
    try:
        db.query("COMMIT")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    db.raw.set_commit_hook(None)


def can_commit_unpublished():
    return os.name != "nt" and hasattr(Database(load=False).raw, "set_commit_hook")


def test_a_commit_that_could_not_be_published_is_published_by_writing_another_array():
    """A database in memory has no record of it, so nothing else would publish it until the array itself is written."""
    if not can_commit_unpublished():
        return
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db, other = Database(), Database()
    for name in ("a", "b"):
        make(db, name, path=os.path.join(folder, name))
        db.query(f"INSERT INTO {name} VALUES(1, 1, 'x')")
    other.table("a", os.path.join(folder, "a"))
    db.query("CREATE TABLE o(x)")
    commit_unpublished(db, "INSERT INTO a VALUES(2, 2, 'y')", "INSERT INTO o VALUES(1)")
    same((keys(db, "a"), keys(other, "a")), ([1, 2], [1]))
    same((keys(db, "b"), keys(other, "a")), ([1], [1]))
    db.query("INSERT INTO b VALUES(2, 2, 'y')")
    same((keys(db, "a"), keys(other, "a")), ([1, 2], [1, 2]))


OLD = "x INT DIMENSION(0, 100000), a INT NOT NULL, s TEXT NOT NULL, format_version=3"
READS = ("SELECT x FROM t ORDER BY x", "SELECT x FROM t WHERE x = 2", "SELECT count(*) FROM t", "SELECT x FROM t WHERE as_of = 1000",
         "SELECT * FROM q", "SELECT count(*) FROM tessera_fragments('db:t')", "SELECT tessera_ddl('db:t')")


def test_reading_publishes_nothing():
    """A commit that xCommit could not publish is read as committed, and no statement that reads writes a file for that. Writing, tessera_recover and close publish it."""
    if not can_commit_unpublished():
        return
    dense = "x INT DIMENSION(1, 10, 5), a INT"
    kinds = (("sparse", SPARSE, "INSERT INTO t VALUES(2, 2, 'y')", [1, 2]), ("delete", SPARSE, "DELETE FROM t WHERE x = 1", []),
             ("both", SPARSE + ", duplicates=yes", "INSERT INTO t VALUES(2, 2, 'y'); DELETE FROM t WHERE x = 1", [2]),
             ("dense", dense + ", kind=dense", "INSERT INTO t VALUES(2, 2)", [1, 2]), ("old", OLD, "INSERT INTO t VALUES(2, 2, 'y')", [1, 2]))
    for way in ("write", "recover", "close"):
        for kind, definition, statements, expected in kinds:
            path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), kind)
            db, other = Database(), Database()
            make(db, "t", definition, path)
            db.query("INSERT INTO t VALUES(1, 1)" if kind == "dense" else "INSERT INTO t VALUES(1, 1, 'x')")
            other.table("t", path)
            db.query("CREATE TABLE o(x)")
            db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT sum(x) AS s FROM t)")
            seen = keys(db)
            commit_unpublished(db, *statements.split("; "), "INSERT INTO o VALUES(1)")
            before = files(path)
            for read in READS:
                db.query(read)
                same(files(path), before, (kind, read))
            shown = keys(db) if kind != "dense" else [row[0] for row in db.query("SELECT x FROM t WHERE a IS NOT NULL ORDER BY x")]
            same(shown, expected, kind)
            same(keys(other), seen, (kind, "others do not see it yet"))
            if way == "write":
                db.query("INSERT INTO t VALUES(3, 3)" if kind == "dense" else "INSERT INTO t VALUES(3, 3, 'z')")
            elif way == "recover":
                db.query("SELECT tessera_recover('db:t')")
            else:
                db.close()
            same([x for x in [row[0] for row in other.query("SELECT x FROM t WHERE a IS NOT NULL ORDER BY x")] if x != 3], expected, (kind, way))
            sound(path)


def unpublish(path, name):
    """Restores the state that a crash between the commit of a CREATE and the array's publication leaves. Returns its files."""
    old = name == "__array_schema.tdb"
    os.rename(os.path.join(path, name if old else "__schema"), os.path.join(path, ".pending" + name))
    return files(path)


def test_reading_does_not_publish_a_creation():
    """A table whose process died between its CREATE's commit and the array's publication shows the array as it is; writing it publishes it."""
    for definition in (SPARSE, OLD):
        file, db = open_database()
        make(db, definition=definition)
        db.query("INSERT INTO t VALUES(1, 1, 'a')")
        db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT sum(x) AS s FROM t)")
        name = db.value("SELECT value FROM t_config WHERE key = 'creation'").split(" ")[0]
        db.close()
        before = unpublish(array(file), name)
        db = again(file)
        for read in READS:
            db.query(read)
            same(files(array(file)), before, read)
        same(keys(db), [1])
        db.query("INSERT INTO t VALUES(2, 2, 'b')")
        same((keys(db), outside(file)), ([1, 2], [1, 2]))
        db.close()
        before = unpublish(array(file), name)
        db = again(file)
        same(keys(db), [1, 2])
        same(files(array(file)), before)
        db.close()   # publishes, too
        same(outside(file), [1, 2])


def test_a_commit_to_an_array_that_was_removed_fails():
    file, db = open_database()
    make(db)
    make(db, "u")
    db.query("CREATE TABLE p(x)")
    db.query("BEGIN")
    db.query("INSERT INTO p VALUES(1)")
    db.query("INSERT INTO u VALUES(1, 1, 'a')")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    shutil.rmtree(array(file))
    check_contains(db.error("COMMIT").text, "array")   # SQLite then rolls back
    same((db.query("SELECT * FROM p"), keys(db, "u"), outside(file, "u")), ([], [], []))
    check_contains(db.error("SELECT * FROM t").text, "array not found")
    check_contains(db.error("INSERT INTO t VALUES(1, 1, 'a')").text, "array not found")
    db.query("INSERT INTO u VALUES(2, 2, 'b')")
    db.query("DROP TABLE t")
    same(outside(file, "u"), [2])


@not_on_windows("wine removes no directory whose files are open")
def test_a_commit_to_an_array_that_was_replaced_fails():
    """Cells are not written to another array that is at the path meanwhile."""
    file, db = open_database()
    make(db)
    for statement in ("INSERT INTO t VALUES(2, 2, 'b')", "UPDATE t SET a = 5"):
        db.query("INSERT INTO t VALUES(1, 1, 'a')")
        db.query("BEGIN")
        db.query(statement)
        shutil.rmtree(array(file))
        other = Database()
        other.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(array(file))}, x DOUBLE DIMENSION(0, 9), b INT8)")
        other.query("INSERT INTO t VALUES(0.5, 7)")
        check_contains(db.error("COMMIT").text, "replaced")
        same(other.query("SELECT * FROM t"), [(0.5, 7)])
        same(other.query(f"SELECT * FROM tessera_check({literal(array(file))}) WHERE severity <> 'note'"), [])
        db.query("DROP TABLE t")
        shutil.rmtree(array(file))
        make(db)


def test_tables_of_an_array_that_was_replaced():
    """A table does not write to another array that is at its path now, whatever the columns of that array. INSERT gives the same error as SELECT."""
    others = {"t": SPARSE, "dense": "kind=dense, x INT DIMENSION(0, 99999, 100), a INT, s TEXT", "dups": "duplicates=yes, " + SPARSE,
              "types": "x INT DIMENSION(0, 9), a TEXT, s INT", "names": "y INT DIMENSION(0, 9), a INT, s TEXT"}
    for own in (True, False):
        for definition in others.values():
            file, db = open_database()
            make(db)
            db.query("INSERT INTO t VALUES(1, 1, 'a')")
            other = db if own else Database(os.path.join(os.path.dirname(file), "other.db"))
            other.query(f"SELECT tessera_drop({literal(array(file))})")
            make(other, "u", definition, array(file))
            said = db.error("SELECT * FROM t").text
            check_contains(said, "replaced")
            for begin, end in (((), ()), (("BEGIN",), ("COMMIT",)), (("BEGIN", "INSERT INTO p VALUES(1)"), ("COMMIT",))):
                db.query("CREATE TABLE IF NOT EXISTS p(x)")
                for sql in begin:
                    db.query(sql)
                same(db.error("INSERT INTO t VALUES(2, 2, 'b')").text, said)
                same(db.error("INSERT INTO t(x) SELECT 3").text, said)
                for sql in end:
                    db.query(sql)
            same((other.query("SELECT count(*) FROM u WHERE a IS NOT NULL"), db.query("SELECT * FROM p")), ([(0,)], [(1,)]))
            same(other.query(f"SELECT * FROM tessera_check({literal(array(file))}) WHERE severity <> 'note'"), [])
            if not own:   # another table has begun the transaction on the array, which goes on
                db.table("v", array(file))
                db.query("BEGIN")
                db.query("INSERT INTO v VALUES(5, 5, '5')")
                same(db.error("INSERT INTO t VALUES(2, 2, 'b')").text, said)
                db.query("INSERT INTO v VALUES(6, 6, '6')")
                db.query("COMMIT")
                same(other.query("SELECT count(*) FROM u WHERE a IS NOT NULL"), [(2,)])


def test_restricted_within_a_transaction():
    """tessera_restrict fails while the transaction has written outside of the directory."""
    file, db = open_database()
    folder = os.path.join(os.path.dirname(file), "inside")
    os.mkdir(folder)
    make(db)
    make(db, "u", path="inside/u")
    db.query("BEGIN")
    db.query("INSERT INTO u VALUES(1, 1, 'a')")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    restrict = f"SELECT tessera_restrict({literal(folder)})"
    check_contains(db.error(restrict).text, "commit first")
    db.query("ROLLBACK")
    db.query("BEGIN")
    make(db, "v")
    check_contains(db.error(restrict).text, "commit first")
    db.query("ROLLBACK")
    db.query("BEGIN")
    db.query("INSERT INTO u VALUES(2, 2, 'b')")
    db.query(restrict)
    db.query("COMMIT")
    same(keys(db, "u"), [2])
    check_contains(db.error("INSERT INTO t VALUES(3, 3, 'c')").text, "is not below")


def test_an_interrupted_insert_leaves_nothing():
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    before = files(array(file))
    create = getattr(db.raw, "create_scalar_function", None) or getattr(db.raw, "createscalarfunction", None)
    if create:
        create("stop", lambda: db.raw.interrupt(), 0)
    else:
        db.raw.create_function("stop", 0, lambda: db.raw.interrupt())
    error = db.error("WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i < 50000) "
                     "INSERT INTO t SELECT i, CASE WHEN i = 25000 THEN stop() END, 'a' FROM n")
    check_contains(error.text, "interrupted")
    same((keys(db), files(array(file))), ([1], before))


# ---- After a crash ---------------------------------------------------------------------------------------------------

def test_a_prepared_commit_of_the_record_is_visible_to_its_database():
    for mode in ("delete", "wal"):
        file, db = open_database(mode)
        make(db)
        db.query("CREATE VIRTUAL TABLE u USING tessera('t')")
        db.query("INSERT INTO t VALUES(1, 1, 'a')")
        db.query("INSERT INTO t VALUES(2, 2, 'b')")
        stem = cut_off(file)
        same(outside(file), [1], "others do not see it yet")
        reader = again(file)
        same((keys(reader), keys(reader, "u"), keys(db)), ([1, 2],) * 3)
        same(reader.value("SELECT count(*) FROM tessera_fragments('db:t')"), 2)
        sound(array(file))
        check_contains(Database().value("SELECT message FROM tessera_check(?) WHERE file LIKE '%pending'", (array(file),)), "prepared through a database")
        # A write of another database leaves the commit alone.
        other = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "other.db"))
        other.table("t", array(file))
        other.query("INSERT INTO t VALUES(3, 3, 'c')")
        same((outside(file), keys(reader)), ([1, 3], [1, 2, 3]))
        same(stem + ".pending" in commit_files(array(file)), True)
        db.query("INSERT INTO u VALUES(4, 4, 'd')")
        same((outside(file), keys(reader), keys(db)), ([1, 2, 3, 4],) * 3)
        same([n for n in commit_files(array(file)) if "pending" in n], [])
        sound(array(file))


SQLITE_PRAGMA, SQLITE_READ = 19, 20   # to an authorizer


def test_a_record_that_cannot_be_read_is_an_error():
    """If the database does not tell whether a commit is its own, the statement fails; the rows are not left out."""
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    cut_off(file)
    reader = again(file)
    same(keys(reader), [1])
    for denied in (SQLITE_PRAGMA, SQLITE_READ):
        reader = again(file)
        reader.raw.set_authorizer(lambda action, name, *others: int(action == denied and name in (None, "database_list", "t_commits")))
        check_contains(reader.error("SELECT x FROM t").text, "cannot find out")
        reader.raw.set_authorizer(None)
        same(keys(reader), [1])


def test_a_transaction_without_rows_sees_what_functions_change():
    """An UPDATE that selects no row begins a transaction on the array. Rows that the transaction writes after a function has changed the array are based on that change."""
    for where in ("", "'functions', "):
        file, db = open_database()
        db.query(f"CREATE VIRTUAL TABLE i USING tessera({where}kind=dense, k INT32 DIMENSION(0, 9, 10), a INT32 NOT NULL)")
        db.query(f"CREATE VIRTUAL TABLE c USING tessera({where.replace('functions', 'current')}k INT32 DIMENSION(0, 99, 10) CURRENT(0, 4), a INT32)")
        db.query("INSERT INTO i VALUES(0, 1), (1, 1), (2, 1), (5, 50)")
        db.query("BEGIN")
        db.query("UPDATE i SET a = 2 WHERE k = 9")
        db.query("SAVEPOINT s")
        db.query("""SELECT tessera_write_npy('db:i', 'a', tessera_npy('db:i', 'a', '{"k":5}'), '{"k":0}')""")
        same(db.query("SELECT a FROM i WHERE k < 3 ORDER BY k"), [(50,), (1,), (1,)])
        db.query("UPDATE i SET a = a + 1 WHERE k = 0")
        same(db.query("SELECT a FROM i WHERE k < 3 ORDER BY k"), [(51,), (1,), (1,)])
        db.query("SAVEPOINT u")
        db.query("UPDATE i SET a = a + 1 WHERE k = 0")
        db.query("ROLLBACK TO u")
        db.query("RELEASE s")
        check_contains(db.error("INSERT INTO c VALUES(5, 1)").text, "tessera_expand_domain")
        db.query("""SELECT tessera_expand_domain('db:c', '{"k":[0,9]}')""")
        db.query("INSERT INTO c VALUES(5, 1)")
        db.query("COMMIT")
        same(db.query("SELECT a FROM i WHERE k < 3 ORDER BY k"), [(51,), (1,), (1,)])
        same(db.query("SELECT * FROM c"), [(5, 1)])
        for table in "ic":
            same(db.query(f"SELECT * FROM tessera_check('db:{table}') WHERE severity <> 'note'"), [])
        db.close()


def test_recover_publishes():
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    cut_off(file)
    db.query("BEGIN")
    check_contains(db.error("SELECT tessera_recover('db:t')").text, "within a transaction")
    db.query("ROLLBACK")
    same(db.query("SELECT tessera_recover('db:t')"), [(1,)])
    same(db.query("SELECT tessera_recover('db:t')"), [(0,)])
    same((outside(file), keys(db)), ([1], [1]))


def test_drop_publishes():
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    cut_off(file)
    db.query("ALTER TABLE t RENAME TO w")
    same(keys(db, "w"), [1])
    db.query("DROP TABLE w")
    same(outside(file), [1])


@not_on_windows("wine takes the time of a file's last change for that of its creation, by which databases are told apart")
def test_a_commit_that_was_not_committed_is_undone():
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    before = files(array(file))
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    cut_off(file)
    db.query("DELETE FROM t_commits")   # as if the database had been restored to an earlier state
    same((keys(db), outside(file)), ([1], [1]))
    other = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "other.db"))
    other.table("t", array(file))
    same(other.query("SELECT tessera_recover('db:t')"), [(0,)], "it belongs to another database")
    same(db.query("SELECT tessera_recover('db:t')"), [(1,)])
    same(files(array(file)), before)


def test_a_database_that_moves_with_its_arrays():
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    cut_off(file)
    db.close()
    folder = tempfile.mkdtemp(dir=host.FOLDER) + "/moved"
    shutil.move(os.path.dirname(file), folder)
    db = again(folder + "/t.db")
    same(keys(db), [1])
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    same(outside(folder + "/t.db"), [1, 2])


def test_damaged_markers():
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    stem = cut_off(file)
    marker = os.path.join(array(file), "__commits", stem + ".pending")
    with open(marker, "rb") as f:
        good = f.read()
    rng = random.Random(5)
    for i in range(120):
        data = bytearray(good)
        if i < 60:
            data = data[:rng.randrange(len(data))]
        else:
            data[rng.randrange(len(data))] = rng.choice(b"\0\n/.Z_9")
        with open(marker, "wb") as f:
            f.write(data)
        same(keys(again(file)) in ([], [1]), True)
        same(outside(file), [])
    with open(marker, "wb") as f:
        f.write(good)
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    same(outside(file), [1, 2])


# ---- Savepoints and statements ---------------------------------------------------------------------------------------

def test_random_histories():
    random_histories(12, False)


def test_random_histories_in_the_database():
    random_histories(8, True)


def random_histories(count, inside_database):
    """The same statements on an array and on an ordinary table."""
    for seed in range(count):
        rng = random.Random(seed)
        mode = rng.choice(("delete", "wal"))
        file, db = open_database(mode)
        definition = "x INT DIMENSION(0, 100000), a INT, s TEXT" + (", capacity=3" if seed % 2 else "")
        if inside_database:
            db.query(f"CREATE VIRTUAL TABLE t USING tessera({definition})")
            tables = ("t",)
        else:
            make(db, "t", definition)
            db.query("CREATE VIRTUAL TABLE u USING tessera('t')")
            tables = ("t", "u")
        db.query("CREATE TABLE p(x)")
        db.query("INSERT INTO p VALUES(1), (2)")
        db.query("CREATE TABLE o(x INTEGER PRIMARY KEY, a INT, s TEXT)")
        depth, inside, log = [], False, []
        for step in range(rng.choice((40, 90))):
            name = rng.choice(tables)
            key, value = rng.randrange(25), rng.randrange(1000)
            kind = rng.randrange(16)
            both = None
            if kind < 4:
                both = f"INSERT OR REPLACE INTO {{}} VALUES({key}, {value}, 'v{value}')"
            elif kind == 4:
                both = f"INSERT OR REPLACE INTO {{}} SELECT x + 25, a, s FROM o WHERE x < {key}"
            elif kind == 5:
                both = f"UPDATE {{}} SET a = a + {value} WHERE x < {key}"
            elif kind == 6:
                both = f"DELETE FROM {{}} WHERE x BETWEEN {key} AND {key + 4}"
            elif kind == 7:
                both = f"UPDATE {{}} SET s = 'w', x = x + 1000 WHERE x = {key}"
            elif kind == 8 and not inside:
                inside = True
                log.append("BEGIN")
                db.query("BEGIN")
            elif kind in (9, 10) and inside:
                depth.append(f"s{len(depth)}")
                log.append("SAVEPOINT " + depth[-1])
                db.query(log[-1])
            elif kind == 11 and depth:
                at = rng.randrange(len(depth))
                log.append("ROLLBACK TO " + depth[at])
                db.query(log[-1])
                depth = depth[:at + 1]
            elif kind == 12 and depth:
                at = rng.randrange(len(depth))
                log.append("RELEASE " + depth[at])
                db.query(log[-1])
                depth = depth[:at]
            elif kind == 13 and inside:
                if mode == "delete" and rng.random() < 0.4:   # a reader prevents the commit, and the transaction goes on
                    reader = again(file)
                    cursor = reader.cursor("SELECT * FROM p")
                    reader.next(cursor)
                    try:
                        db.query("COMMIT")
                        depth, inside = [], False   # the transaction was empty
                    except Error as e:
                        check_contains(e.text, "locked")
                        log.append("COMMIT that failed")
                    del cursor
                    reader.close()
                else:
                    log.append(rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))
                    db.query(log[-1])
                    depth, inside = [], False
            elif kind == 14 and inside and rng.random() < 0.3:   # a rollback resets the schema
                log.append(f"CREATE TABLE extra{step}(x)")
                db.query(log[-1])
            elif kind == 15:
                both = f"INSERT OR REPLACE INTO {{}} SELECT x, {value}, s FROM o WHERE x % 3 = {key % 3}"
            if both:
                log.append(both.format(name))
                outcomes = []
                for table in (name, "o"):
                    try:
                        db.query(both.format(table))
                        outcomes.append("done")
                    except Error as e:
                        outcomes.append("failed")
                        log.append(e.text)
                same(outcomes[0], outcomes[1], f"seed {seed}: {log[-6:]}")
            shown = db.query(f"SELECT * FROM {rng.choice(tables)} ORDER BY x")
            same(shown, db.query("SELECT * FROM o ORDER BY x"), f"seed {seed}: {log[-8:]}")
        if inside:
            db.query("COMMIT")
        want = db.query("SELECT * FROM o ORDER BY x")
        same(db.query("SELECT * FROM t ORDER BY x"), want, f"seed {seed}, after the last commit")
        if inside_database:
            same(db.query("SELECT tessera_sync('db:t', ?)", (array(file),)) != [], True)
        same(outside(file), [row[0] for row in want])
        sound(array(file))
        db.close()


def test_cursors_over_the_end_of_a_transaction():
    """A statement that is open over the end of a transaction goes on if it reads what has stayed, and fails if it reads changes that were
    rolled back. `kept` was opened before the savepoint, and reads what is older."""
    rows = [(1, 1, "a"), (2, 2, "b"), (3, 3, "c"), (4, 4, "d")]
    for inside in (False, True):
        for end in ("COMMIT", "ROLLBACK", "ROLLBACK TO s", "RELEASE s"):
            for select in ("SELECT x, a, s FROM t", "SELECT x, a, s FROM t ORDER BY x", "SELECT x, a, s FROM q"):   # SQLite would sort those of q at once
                file, db = open_database()
                db.query(f"CREATE VIRTUAL TABLE t USING tessera({SPARSE})" if inside else f"CREATE VIRTUAL TABLE t USING tessera('t', {SPARSE})")
                db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT x, a, s FROM t)")
                db.query("INSERT INTO t VALUES(1, 1, 'a'), (2, 2, 'b')")
                before = db.cursor(select)
                same(db.next(before), rows[0])
                db.query("BEGIN")
                db.query("INSERT INTO t VALUES(3, 3, 'c')")
                kept = db.cursor(select)
                same(db.next(kept), rows[0])
                db.query("SAVEPOINT s")
                db.query("INSERT INTO t VALUES(4, 4, 'd')")
                cursor = db.cursor(select)
                same(db.next(cursor), rows[0])
                db.query("INSERT INTO t VALUES(5, 5, 'e')")
                same(keys(db), [1, 2, 3, 4, 5])
                db.query(end)
                what = f"{end}, {select}, inside {inside}"
                same([db.next(before) for _ in range(2)], rows[1:2] + [None], what)
                for one, count, undone in ((kept, 3, end == "ROLLBACK"), (cursor, 4, end.startswith("ROLLBACK"))):
                    try:
                        same([db.next(one) for _ in range(count)], rows[1:count] + [None], what)
                        same(undone, False, f"{what}: rows that were rolled back")
                    except Error as e:
                        same((undone, e.code in (None, ABORT)), (True, True), f"{what}: {e}")
                        check_contains(e.text, "rolled back")
                del before, kept, cursor
                if db.raw.in_transaction:
                    db.query("COMMIT")
                same(keys(db), {"COMMIT": [1, 2, 3, 4, 5], "ROLLBACK": [1, 2], "ROLLBACK TO s": [1, 2, 3], "RELEASE s": [1, 2, 3, 4, 5]}[end], what)
                db.close()


def test_a_statement_that_grows_what_it_reads():
    file, db = open_database()
    make(db)
    db.query("CREATE VIRTUAL TABLE u USING tessera('t')")
    db.query("INSERT INTO t VALUES(1, 1, 'a'), (2, 2, 'b')")
    for i in range(3):   # the last ones read uncommitted rows
        db.query("BEGIN") if i == 1 else None
        count = db.value("SELECT count(*) FROM t")
        db.query("INSERT INTO t SELECT u.x + ?, u.a, u.s FROM u", (10 ** (i + 2),))
        same(db.value("SELECT count(*) FROM t"), 2 * count)
    db.query("INSERT INTO t SELECT u.x + 20000, u.a, u.s FROM u AS v, u WHERE v.x = 1")
    same(db.value("SELECT count(*) FROM t"), 32)
    db.query("COMMIT")
    same(len(outside(file)), 32)


def test_two_vtab_objects_for_a_table():
    """ROLLBACK TO after DDL resets the schema: SQLite then has another sqlite3_vtab for the table, and syncs both."""
    file, db = open_database()
    make(db)
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    db.query("SAVEPOINT s")
    db.query("CREATE TABLE p(x)")
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    db.query("ROLLBACK TO s")
    same(keys(db), [1])
    db.query("INSERT INTO t VALUES(3, 3, 'c')")
    db.query("SAVEPOINT s2")
    db.query("INSERT INTO t VALUES(4, 4, 'd')")
    db.query("ROLLBACK TO s2")
    same(keys(db), [1, 3])
    db.query("COMMIT")
    same((keys(db), outside(file), len(commit_files(array(file)))), ([1, 3], [1, 3], 1))


def test_tables_that_are_dropped_in_a_transaction():
    for writes_before in (False, True):
        file, db = open_database()
        make(db)
        db.query("INSERT INTO t VALUES(1, 1, 'a')")
        db.query("BEGIN")
        if writes_before:
            db.query("INSERT INTO t VALUES(2, 2, 'b')")
        db.query("SAVEPOINT s")
        db.query("CREATE VIRTUAL TABLE w USING tessera('t')")
        db.query("INSERT INTO w VALUES(3, 3, 'c')")
        db.query(f"CREATE VIRTUAL TABLE n USING tessera('n', {SPARSE})")
        db.query("INSERT INTO n VALUES(1, 1, 'a')")
        db.query("ROLLBACK TO s")
        want = [1, 2] if writes_before else [1]
        same(keys(db), want)
        db.query("CREATE VIRTUAL TABLE w USING tessera('t')")
        same(keys(db, "w"), want)
        db.query("INSERT INTO w VALUES(4, 4, 'd')")
        db.query("COMMIT")
        same((keys(db), outside(file)), (want + [4], want + [4]))
        same(os.path.exists(array(file, "n")), False)
        sound(array(file))


def test_drop_with_rows_is_refused():
    file, db = open_database()
    make(db)
    db.query("CREATE VIRTUAL TABLE u USING tessera('t')")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    same(db.error("DROP TABLE t").code in (None, LOCKED), True)
    same(db.error("DROP TABLE u").code in (None, LOCKED), True)
    db.query("COMMIT")
    same(outside(file), [1])
    db.query("BEGIN")
    db.query("INSERT INTO t SELECT * FROM u WHERE x > 5")   # begins a transaction without rows
    db.query("DROP TABLE t")
    db.query("INSERT INTO u VALUES(2, 2, 'b')")
    db.query("COMMIT")
    same((outside(file), keys(db, "u")), ([1, 2], [1, 2]))


# ---- Connections and databases ---------------------------------------------------------------------------------------

def test_an_open_transaction_is_invisible_to_others():
    for mode in ("delete", "wal"):
        file, db = open_database(mode)
        make(db)
        other = again(file)
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(1, 1, 'a')")
        same((keys(other), outside(file), keys(db)), ([], [], [1]))
        error = other.error("INSERT INTO t VALUES(2, 2, 'b')")
        check_contains(error.text, "locked")
        db.query("COMMIT")
        same((keys(other), outside(file)), ([1], [1]))
        other.query("INSERT INTO t VALUES(2, 2, 'b')")
        same((keys(db), outside(file)), ([1, 2], [1, 2]))


def test_one_state_from_the_first_write_on():
    file, db = open_database()
    make(db)
    other = Database()
    other.table("t", array(file))
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    other.query("INSERT INTO t VALUES(2, 2, 'other'), (1, 1, 'other')")
    same((keys(db), keys(other)), ([1], [1, 2]))
    same(db.query("SELECT s FROM t"), [("a",)])
    db.query("COMMIT")
    same((keys(db), outside(file)), ([1, 2], [1, 2]))
    same(db.query("SELECT s FROM t WHERE x = 1"), [("a",)], "the later commit wins")


@not_on_windows("a file that is open cannot be moved there")
def test_no_writing_where_the_database_is_read_only():
    file, db = open_database()
    make(db)
    db.query("PRAGMA query_only = 1")
    check_contains(db.error("INSERT INTO t VALUES(1, 1, 'a')").text, "readonly")
    db.query("PRAGMA query_only = 0")
    same(outside(file), [])
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    os.rename(file, file + ".moved")   # SQLite does not write to a database file that was moved
    error = db.error("INSERT INTO t VALUES(2, 2, 'b')")
    check_contains(error.text, "readonly")
    same(error.code in (8, None), True, f"{error.code}: {error.text}")
    same(db.query("SELECT x FROM t"), [(1,)])
    os.rename(file + ".moved", file)
    db.query("INSERT INTO t VALUES(3, 3, 'c')")
    same(outside(file), [1, 3])


def test_several_databases():
    file, db = open_database()
    make(db)
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db.query("ATTACH ? AS other", (folder + "/other.db",))
    db.query(f"CREATE VIRTUAL TABLE other.u USING tessera('u', {SPARSE})")
    db.query(f"CREATE VIRTUAL TABLE other.t2 USING tessera({literal(array(file))})")
    db.query(f"CREATE VIRTUAL TABLE temp.t3 USING tessera({literal(array(file))})")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    db.query("INSERT INTO u VALUES(2, 2, 'b')")
    for name in ("t2", "t3"):
        check_contains(db.error(f"INSERT INTO {name} VALUES(3, 3, 'c')").text, "is written through a table of database main")
    db.query("COMMIT")
    same((outside(file), outside(folder + "/other.db", "u")), ([1], [2]))
    db.query("INSERT INTO t2 VALUES(3, 3, 'c')")
    db.query("INSERT INTO t3 VALUES(4, 4, 'd')")
    same(outside(file), [1, 3, 4])
    same([n for n in commit_files(array(file)) if "pending" in n], [])


def test_databases_without_a_file():
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db = Database()
    make(db, path=folder + "/t")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    db.query("ROLLBACK")
    db.query("INSERT INTO t VALUES(3, 3, 'c')")
    same(keys(db), [1, 3])
    same(outside(folder + "/x.db"), [1, 3])


def test_durability_as_the_database_has_it():
    for mode in (0, 1, 2, 3):
        file, db = open_database()
        db.query(f"PRAGMA synchronous = {mode}")
        make(db)
        db.query("INSERT INTO t VALUES(1, 1, 'a')")
        same(outside(file), [1])


def test_paths_that_mean_one_array():
    file, db = open_database()
    make(db)
    path = array(file)
    link = "T" # Windows does not tell case, and wine makes no links
    if os.name != "nt":
        link = "link"
        os.symlink(path, os.path.join(os.path.dirname(file), link))
    for i, other in enumerate((path, pathlib.Path(path).as_uri(), "./t", link, path + "/")):
        db.query(f"CREATE VIRTUAL TABLE u{i} USING tessera({literal(other)})")
    db.query("BEGIN")
    for i in range(5):
        db.query(f"INSERT INTO u{i} VALUES({i}, 1, 'a')")
        same(keys(db, f"u{(i + 2) % 5}"), list(range(i + 1)))
    db.query("COMMIT")
    same(len(commit_files(path)), 1)


def test_times_increase():
    file, db = open_database()
    make(db)
    for i in range(20):
        db.query("INSERT INTO t VALUES(?, 1, 'a')", (i,))
    times = [row[0] for row in db.query("SELECT written_at FROM t ORDER BY x")]
    same(sorted(set(times)), times)


def test_vacuum_of_the_database_keeps_the_record():
    file, db = open_database()
    make(db)
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    db.query("VACUUM")
    db.query("INSERT INTO t VALUES(2, 2, 'b')")
    same((keys(db), outside(file)), ([1, 2], [1, 2]))


def test_a_transaction_larger_than_memory():
    """Cells are spilled to sorted runs. A commit merges as many runs at once as memory has room for, and needs several passes."""
    numbers = "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1) "
    file, db = open_database()
    make(db, definition="x INT32 DIMENSION(0, 9999999), s TEXT, memory_mb=1")   # the fragment has tiles of the default capacity
    db.query(numbers + "INSERT INTO t SELECT i * 7919 % ?1, 'text' || i FROM n", (40000,))
    same(db.query("SELECT count(*), sum(s = 'text' || (x * 17679 % 40000)) FROM t"), [(40000, 40000)])   # 7919 * 17679 % 40000 = 1
    sound(array(file))

    make(db, "u", "x INT32 DIMENSION(0, 9999), s TEXT, capacity=16, memory_mb=1")   # a tile of few rows takes a large part of the memory
    db.query("CREATE TABLE p(x INTEGER PRIMARY KEY, s TEXT)")

    def both(sql, *values):
        for name in ("u", "p"):
            db.query(sql.format(name), values)

    def equal():
        same(*[sorted(db.query(f"SELECT x, length(s), substr(s, 1, 12) FROM {name}")) for name in ("u", "p")])

    write = numbers + "INSERT OR REPLACE INTO {} SELECT (i * 79 + ?2) % 1009, printf('%d %d %.*c', ?2, i, 4000 + i % 1500, 'a') FROM n"
    for end in ("ROLLBACK", "COMMIT"):
        db.query("BEGIN")
        both(write, 500, 1)
        both("DELETE FROM {} WHERE x % 7 = 3")
        db.query("SAVEPOINT a")
        both(write, 300, 2)
        both("DELETE FROM {} WHERE x % 5 = 1")
        db.query("ROLLBACK TO a")   # the savepoint is in the middle of a run
        both(write, 200, 3)
        both("UPDATE {} SET s = 'new ' || s WHERE x % 3 = 1")
        db.query("SAVEPOINT b")
        both("DELETE FROM {} WHERE x % 11 = 4")
        equal()
        db.query(end)
        equal()
        same([name for name in os.listdir(os.path.join(array(file, "u"), "__fragments")) if name.startswith(".")], [])
    same(db.value("SELECT count(*) FROM u") > 400, True)
    sound(array(file, "u"))


def test_rows_that_no_update_came_for_are_forgotten():
    """A SELECT of the columns that an UPDATE reads looks like an UPDATE until it ends."""
    file, db = open_database()
    make(db)
    db.query("WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 99999) INSERT INTO t SELECT i, i, 's' FROM n")
    db = again(file)
    look, one = "SELECT sum(r), count(o), count(s), count(w) FROM (SELECT rowid AS r, as_of AS o, since AS s, written_at AS w FROM t(NULL, NULL))", "SELECT x FROM t WHERE x = 5"
    db.query("SELECT sum(rowid), count(written_at) FROM t")
    db.query(one)
    before = host.memory_used()
    db.query(look)
    db.query(one)
    same(host.memory_used() - before < 300000, True, f"{host.memory_used() - before} bytes for rows that nobody changes")
    db.query("UPDATE t SET x = x + 1 WHERE x >= 80000 AND a >= (SELECT min(x) FROM t AS u WHERE u.x = t.x)")   # with other scans in between
    same(keys(db), [*range(80000), *range(80001, 100001)])


def test_savepoints_before_the_first_of_two_tables():
    """SQLite tells a table that begins to write only of the innermost savepoint. A second table of the array, or the table itself after its schema was read again, must not take an
    older savepoint for one that has the rows of the first."""
    many = "INSERT INTO t SELECT value, 1 FROM json_each('[1, 2]')"
    by_trigger, one, other = "INSERT INTO source VALUES(1, 1)", "INSERT INTO t VALUES(1, 1)", "INSERT INTO t2 VALUES(4, 4)"
    reload = ["SAVEPOINT z", "CREATE TABLE n(x)", "ROLLBACK TO z", "RELEASE z"]
    within = ["SAVEPOINT s0", "SAVEPOINT s", one, "RELEASE s"]
    histories = [[["SAVEPOINT s0", first, other] for first in (by_trigger, many, one)] + [[*within, other]],
                 [["SAVEPOINT s0", first, *reload, "INSERT INTO t VALUES(4, 4)"] for first in (by_trigger, many)] +
                 [[*within, *reload, "INSERT INTO t VALUES(4, 4)"], [*within, "ALTER TABLE t RENAME TO t3", "INSERT INTO t3 VALUES(4, 4)"],
                  ["SAVEPOINT s0", "ALTER TABLE t RENAME TO t3", by_trigger, "SAVEPOINT z", "ROLLBACK TO z", "RELEASE z", "INSERT INTO t3 VALUES(4, 4)"]]]
    for in_database in False, True:
        for history in histories[1] + (histories[0] if not in_database else []):
            file, db = open_database()
            place = "" if in_database else f"{literal(array(file, 'a'))}, "
            db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}x INTEGER DIMENSION, a INTEGER)")
            if not in_database:
                db.query(f"CREATE VIRTUAL TABLE t2 USING tessera({literal(array(file, 'a'))})")
            db.query("CREATE TABLE source(x, a)")
            db.query("CREATE TRIGGER r AFTER INSERT ON source BEGIN INSERT INTO t VALUES(new.x, new.a); END")
            for sql in ["BEGIN", *history, "ROLLBACK TO s0", "COMMIT"]:
                db.query(sql)
            same(keys(db), [], f"{'in the database' if in_database else 'beside it'}: {history}")
            db.close()


def test_an_update_that_fails_is_undone():
    """SQLite opens no statement journal for UPDATE FROM of a virtual table. Of the statement nothing stays but what OR FAIL and OR IGNORE keep, and what came before it stays."""
    join, plain = "FROM source AS s WHERE s.k = t.x", "WHERE x > 0"
    for in_database in False, True:
        for kind in "sparse", "dense":
            for before in "SELECT 1", "UPDATE t SET a = a + 1 WHERE x = 1", "INSERT INTO t VALUES(9, 9)", "SAVEPOINT s", "DELETE FROM t WHERE x = 9", "UPDATE source SET v = v":
                for clause in "", "OR ABORT", "OR REPLACE", "OR FAIL", "OR IGNORE", "OR ROLLBACK":
                    if before.startswith("DELETE") and kind == "dense":
                        continue
                    file, db = open_database()
                    place = "" if in_database else f"{literal(array(file, 'a'))}, "
                    db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}kind={kind}, x INT32 DIMENSION(0, 9, 5), a INT32 NOT NULL CHECK(a < 100))")
                    db.query("INSERT INTO t VALUES(1, 1), (2, 2), (3, 3), (9, 0)")
                    db.query("CREATE TABLE source(k, v, w)")
                    db.query("INSERT INTO source VALUES(1, 50, 51), (2, 500, 'no'), (3, 60, 61)")
                    first = db.query("SELECT x, a FROM t WHERE a IS NOT NULL")
                    db.query("BEGIN")
                    db.query(before)
                    rows = sorted(db.query("SELECT x, a FROM t WHERE a IS NOT NULL"))
                    db.error(f"UPDATE {clause} t SET a = s.w {join}")   # no constraint: the OR clause does not matter
                    same(sorted(db.query("SELECT x, a FROM t WHERE a IS NOT NULL")), rows, f"{kind}, {before}, {clause}: a value that does not fit")
                    db.error(f"UPDATE {clause} t SET rowid = 7 {plain}")   # fails at its first row
                    same(sorted(db.query("SELECT x, a FROM t WHERE a IS NOT NULL")), rows, f"{kind}, {before}, {clause}: rowid")
                    if clause == "OR IGNORE":
                        db.query(f"UPDATE {clause} t SET a = s.v {join}")
                        rows = sorted({**dict(rows), 1: 50, 3: 60}.items())
                    else:
                        db.error(f"UPDATE {clause} t SET a = s.v {join}")
                        rows = sorted({**dict(rows), 1: 50}.items()) if clause == "OR FAIL" else sorted(first) if clause == "OR ROLLBACK" else rows
                    same(sorted(db.query("SELECT x, a FROM t WHERE a IS NOT NULL")), rows, f"{kind}, {before}, {clause}: CHECK")
                    if clause != "OR ROLLBACK":
                        db.query("INSERT INTO t VALUES(5, 5)")
                        db.query("COMMIT")
                        rows = sorted(rows + [(5, 5)])
                    db.close()
                    same(sorted(Database(file).query("SELECT x, a FROM t WHERE a IS NOT NULL")), rows, f"{kind}, {before}, {clause}: opened again")


APPEND = """SELECT tessera_create_as('db:t', 'SELECT 9 AS x, 9 AS a%s UNION ALL SELECT 3, 33%s', '{"dimensions":["x"],"if_exists":"append"}')"""


def test_functions_that_a_savepoint_undoes():
    """A function changes an array in the database, a row is written, and ROLLBACK TO undoes both: the transaction goes on without what the function has done."""
    functions = {APPEND % (", NULL AS e", ", NULL"): True, "SELECT tessera_consolidate('db:t')": True, """SELECT tessera_upkeep('db:t', '{"fanout":4,"vacuum":true,"grace_s":0}')""": True,
                 "SELECT tessera_add_attribute('db:t', 'z INT32')": False, "SELECT tessera_extend_enumeration('db:t', 'e', 'q')": False,
                 "SELECT tessera_add_check('db:t', 'k', 'a < 100')": False, "SELECT tessera_set_metadata('db:t', 'k', 1)": False}
    then = {"SELECT 1": [3, 6], "INSERT INTO t(x, a) VALUES(8, 8)": [4, 14], "UPDATE t SET a = a + 1 WHERE x = 3": [3, 7], "INSERT OR IGNORE INTO t(x, a) VALUES(9, 51)": [4, 57],
            "INSERT OR FAIL INTO t(x, a) VALUES(9, 51)": [4, 57], "SELECT tessera_revert('db:t', 'committed')": [3, 6]}
    for dense in False, True:
        for function, both in functions.items():
            for sql, expected in then.items() if both or not dense else ():
                file, db = open_database()
                db.query(f"CREATE VIRTUAL TABLE t USING tessera(cache_mb=0, {'kind=dense, x INTEGER DIMENSION(0, 9, 10)' if dense else 'x INTEGER DIMENSION'}, a INTEGER, e TEXT ENUM('p'))")
                for i in range(1, 4):
                    db.query("INSERT INTO t(x, a) VALUES(?1, ?1)", (i,))
                for step in "BEGIN", "SAVEPOINT s", function, "SELECT * FROM t", "INSERT INTO t(x, a) VALUES(5, 5)", "SELECT * FROM t", "ROLLBACK TO s", sql, "COMMIT":
                    db.query(step)
                for each in db, again(file):
                    same(list(each.query("SELECT count(a), sum(a) FROM t")[0]), expected, f"{function}; {sql}")
                db.close()


def test_statements_see_what_a_function_has_done():
    """Also while the host still reads the rows of another statement."""
    for place in "", "'a', ":
        file, db = open_database()
        place = place and f"{literal(array(file, 'a'))}, "
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}x INTEGER DIMENSION, a INTEGER)")
        make(db, "other", "x INTEGER DIMENSION, a INTEGER", array(file, "other"))
        for table in "other", "t":
            db.query(f"INSERT INTO {table} VALUES(1, 1), (2, 2)")
        for begin in "SELECT 1", "BEGIN":
            before = db.value("SELECT count(*) FROM t")
            open_cursor = db.cursor("SELECT * FROM other")
            db.next(open_cursor)
            db.query(begin)
            db.query("SELECT * FROM t")
            db.query(APPEND % ("", ""))
            same(db.query("SELECT a FROM t WHERE x = 3"), [(33,)])
            same(db.value("SELECT count(*) FROM t"), max(before, 4))
            db.query("UPDATE t SET a = a + 1 WHERE x = 3")
            while db.next(open_cursor):
                pass
            if begin == "BEGIN":
                db.query("COMMIT")
            same(db.query("SELECT a FROM t WHERE x = 3"), [(34,)])
        db.close()


def test_a_function_after_a_commit_that_failed():
    """The transaction has no rows, COMMIT fails, and a function changes the array: what comes then goes by what the function has done."""
    append = """SELECT tessera_create_as('db:t', 'SELECT 3 AS x, 30 AS a UNION ALL SELECT 4, 40', '{"dimensions":["x"],"if_exists":"append"}')"""
    for first in ["DELETE FROM t WHERE x = 37"], ["SAVEPOINT s", "INSERT INTO t VALUES(5, 5)", "ROLLBACK TO s"]:
        for sql, expected in {"SELECT 1": [(1, 1), (3, 30), (4, 40)], "UPDATE t SET a = a + 1": [(1, 2), (3, 31), (4, 41)],
                              "INSERT OR IGNORE INTO t VALUES(4, 99)": [(1, 1), (3, 30), (4, 40)], "DELETE FROM t WHERE a > 10": [(1, 1)]}.items():
            file, db = open_database()
            db.query("CREATE VIRTUAL TABLE t USING tessera(x INTEGER DIMENSION, a INTEGER)")
            db.query("CREATE TABLE n(x)")
            db.query("INSERT INTO t VALUES(1, 1), (3, 3)")
            for step in "BEGIN", "INSERT INTO n VALUES(1)", *first:
                db.query(step)
            reader = again(file)
            reader.query("BEGIN")
            reader.query("SELECT count(*) FROM n")
            same(db.error("COMMIT").code, BUSY)
            reader.close()
            db.query(append)
            same(db.query("SELECT * FROM t ORDER BY x"), [(1, 1), (3, 30), (4, 40)])
            db.query(sql)
            db.query("COMMIT")
            for each in db, again(file):
                same(each.query("SELECT * FROM t ORDER BY x"), expected, f"{first}; {sql}")
            db.close()


def test_a_drop_that_fails_keeps_the_rows():
    """DROP TABLE of an array in the database fails while a statement is open: the transaction goes on with its rows."""
    for sql in "SELECT x FROM o", "SELECT id FROM t_files", "SELECT value FROM json_each('[1, 2, 3]')":
        _, db = open_database()
        db.query("CREATE VIRTUAL TABLE t USING tessera(x INTEGER DIMENSION, a INTEGER)")
        db.query("CREATE TABLE o(x)")
        db.query("INSERT INTO o VALUES(1), (2), (3)")
        db.query("INSERT INTO t VALUES(0, 0)")
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(1, 1), (2, 2)")
        cursor = db.cursor(sql)
        db.next(cursor)
        same(db.error("DROP TABLE t").code, LOCKED)
        while db.next(cursor):
            pass
        same(keys(db), [0, 1, 2])
        db.query("COMMIT")
        same(keys(db), [0, 1, 2])
        db.query("DROP TABLE t")
        db.close()


def test_a_function_that_is_undone_beside_an_open_statement():
    """ROLLBACK and ROLLBACK TO undo what a function has changed in the database while the host reads another statement's rows."""
    for function in ("SELECT tessera_add_attribute('db:t', 'z INT32')", "SELECT tessera_extend_enumeration('db:t', 'e', 'q')", "SELECT tessera_consolidate('db:t')",
                     """SELECT tessera_upkeep('db:t', '{"fanout":4,"vacuum":true,"grace_s":0}')""", APPEND % (", ''p'' AS e", ", ''p''")):
        for end in "ROLLBACK TO s", "ROLLBACK":
            for reads in False, True:
                _, db = open_database()
                db.query("CREATE VIRTUAL TABLE t USING tessera(cache_mb=0, x INTEGER DIMENSION, a INTEGER, e TEXT ENUM('p'))")
                for i in range(4):
                    db.query("INSERT INTO t VALUES(?1, ?1, 'p')", (i,))
                db.query("BEGIN")
                cursor = db.cursor("SELECT * FROM t")
                db.next(cursor)
                db.query("SAVEPOINT s")
                db.query(function)
                if reads:
                    db.query("SELECT sum(a) FROM t")
                db.query(end)
                same(db.query("SELECT * FROM t ORDER BY x"), [(i, i, "p") for i in range(4)], f"{function}; {end}")
                db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
