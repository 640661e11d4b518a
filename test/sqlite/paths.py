"""Paths of arrays: forms of paths, relative paths, links, arrays that disappear and come back, files without
permission.

usage: paths.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import shutil
import sys
import tempfile

import host
from host import Database, Error, copy, corpus, check_contains, literal, same

CELLS = "new/timetravel/sparse"
CANTOPEN, IOERR = 14, 10


def count(db, path, options=""):
    db.query("DROP TABLE IF EXISTS t")
    db.table("t", path, options)
    return db.value("SELECT count(*) FROM t")


def test_forms_of_paths():
    db = Database()
    want = count(db, corpus(CELLS))
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    for name in ("plain", "with blanks", "größe 日本", "it's", 'double "quotes"', "per%cent", "a#b?c=d&e", "line\nbreak", "-", "...", "db:t", "x" * 255, "semi;colon, comma", "back\\slash", "*[a]?"):
        path = os.path.join(folder, name)
        shutil.copytree(corpus(CELLS), path)
        for form in (path, path + "/", path + "///", path + "/.", f"{folder}/./{name}", f"{folder}/{name}/../{name}", f"{folder}//{name}"):
            same(count(db, form), want, form)
        uri = "".join(c if c.isalnum() and c.isascii() or c in "/-_." else "".join(f"%{b:02X}" for b in c.encode()) for c in path)
        for form in ("file://" + uri, "file://" + uri + "/", "file://localhost" + uri, "file://" + uri.replace("%2", "%2").lower() if uri == uri.lower() else "file://" + uri):
            same(count(db, form), want, form)
        link = os.path.join(folder, "link")
        os.symlink(path, link)
        same(count(db, link), want, link)
        same(count(db, link + "/"), want, link)
        os.remove(link)


def test_bytes_that_are_no_utf8():
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    path = os.path.join(os.fsencode(folder), b"caf\xe9")
    shutil.copytree(os.fsencode(corpus(CELLS)), path)
    db = Database()
    assert count(db, "file://" + folder + "/caf%E9") > 0


def test_texts_with_nul_are_refused():
    """A path, a name or words that were read up to a NUL only would mean another array, or other words."""
    db = Database()
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    path = os.path.join(folder, "array")
    db.query(f"CREATE VIRTUAL TABLE n USING tessera({literal(path)}, x INT32 DIMENSION(0, 9, 5), v INT32)")
    for statement, text in (("SELECT tessera_drop(?)", path), ("SELECT tessera_copy(?, 'other')", path), ("SELECT tessera_sync('db:n', ?)", path + "2"), ("SELECT tessera_token(?)", path),
                            ("SELECT * FROM tessera_fragments(?)", path), ("SELECT tessera_vacuum(?)", "db:n"), ("SELECT tessera_add_attribute('db:n', ?)", "w INT32"),
                            ("SELECT tessera_add_check('db:n', ?, 'v > 0')", "c"), ("SELECT tessera_add_check('db:n', 'c', ?)", "v > 0"), ("SELECT tessera_drop_attribute('db:n', ?)", "v"),
                            ("SELECT tessera_npy(?)", "SELECT count(*) FROM n GROUP BY x")):
        try:
            db.query(statement, (text + "\0rest",))
        except Error as error:
            check_contains(error.text, "has a NUL character behind '")
            same(error.code in (20, None), True, statement)   # SQLITE_MISMATCH
        else:
            raise AssertionError(f"{statement} took a NUL")
    same(os.listdir(folder), ["array"])


def test_bad_paths():
    db = Database()
    file = os.path.join(host.FOLDER, "file")
    open(file, "w").close()
    loop = os.path.join(host.FOLDER, "loop")
    os.symlink(loop, loop)
    for path in (host.FOLDER + "/nothing", file, file + "/x", loop, host.FOLDER, host.FOLDER + "/" + "x" * 5000, "/" + "y/" * 3000, "file:///nothing",
                 "file://elsewhere/x", "%", "~", "\n", " ", "/", "."):
        e = db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)})")
        assert "not found" in e.text or "symbolic links" in e.text or "name too long" in e.text.lower(), e.text
        same(e.code in (None, CANTOPEN, IOERR), True, f"{path}: {e.code}")
        assert len(e.text) < 2000
    for path in ("hdfs://x/y", "https://x/y", "mem://x"):
        check_contains(db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)})").text, "only directories")
    check_contains(db.error("CREATE VIRTUAL TABLE t USING tessera('s3://bucket/array')").text, "no scope for s3://bucket/array: call tessera_configure first")
    check_contains(db.error("CREATE VIRTUAL TABLE t USING tessera('gs://bucket/array')").text, "no scope for gcs://bucket/array: call tessera_configure first")
    for path in ("file:///a%zz", "file:///a%", "file:///a%0"):
        check_contains(db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)})").text, "%25")
    assert db.error("CREATE VIRTUAL TABLE t USING tessera('')").text
    same(db.query("SELECT count(*) FROM sqlite_master"), [(0,)])


def test_relative_paths_are_the_databases():
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    for name in ("db", "cwd", "second"):
        os.mkdir(os.path.join(folder, name))
    shutil.copytree(corpus(CELLS), os.path.join(folder, "db", "here"))
    shutil.copytree(corpus("new/sparse/string_2d"), os.path.join(folder, "cwd", "here"))
    shutil.copytree(corpus("new/sparse/one_cell"), os.path.join(folder, "second", "here"))
    db = Database(os.path.join(folder, "db", "x.db"))
    db.query("ATTACH ? AS second", (os.path.join(folder, "second", "y.db"),))
    before = os.getcwd()
    try:
        os.chdir(os.path.join(folder, "cwd"))
        want = {}
        for schema, path in (("main", "db"), ("temp", "cwd"), ("second", "second")):
            for form in ("here", "./here", "../" + path + "/here"):
                db.query("DROP TABLE IF EXISTS t")
                db.query(f"DROP TABLE IF EXISTS {schema}.t")
                db.table(f"{schema}.t", form)
                got = db.value(f"SELECT count(*) FROM {schema}.t")
                absolute = Database()
                absolute.table("t", os.path.join(folder, path, "here"))
                same(got, absolute.value("SELECT count(*) FROM t"), (schema, form))
                want[schema] = got
            db.query(f"DROP TABLE {schema}.t")
        same(len(set(want.values())), 3)
        # Database and array move together.
        db.table("main.t", "here")
        db.close()
        os.rename(os.path.join(folder, "db"), os.path.join(folder, "moved"))
        db = Database(os.path.join(folder, "moved", "x.db"))
        same(db.value("SELECT count(*) FROM t"), want["main"])
        # For SQLite the directory of a database that is opened through a link is that of the link's target.
        os.symlink(os.path.join(folder, "moved", "x.db"), os.path.join(folder, "cwd", "link.db"))
        db.close()
        same(Database(os.path.join(folder, "cwd", "link.db")).value("SELECT count(*) FROM t"), want["main"])
    finally:
        os.chdir(before)


def test_key_of_a_path_whose_parents_are_missing():
    folder, key = tempfile.mkdtemp(dir=host.FOLDER), "ab" * 32
    db = Database(os.path.join(folder, "x.db"))
    db.query("CREATE TABLE there(x)")   # so that the database's file exists
    before = os.getcwd()
    try:
        os.chdir(folder)
        for given, made in (("new/s", "new/s"), ("a/b/c", "./a//b/./c/"), ("./d//./e/", "d/e"),
                            (os.path.join(folder, "f/g"), "f/g"), ("h", "h")):
            db.query("SELECT tessera_set_key(?, ?)", (given, key))
            db.query(f"CREATE VIRTUAL TABLE s USING tessera('{made}', encryption=aes_256_gcm, id INT32 DIMENSION, v TEXT)")
            db.query("INSERT INTO s VALUES(1, 'one')")
            same(db.query("SELECT v FROM s"), [("one",)])
            same(os.path.exists(os.path.join(folder, made)), True)
            db.query("DROP TABLE s")
    finally:
        os.chdir(before)


def test_arrays_that_go_and_come_back():
    path = copy(CELLS, "a")
    file = os.path.join(host.FOLDER, "g.db")
    db = Database(file)
    db.table("t", path)
    want = db.query("SELECT * FROM t")
    columns = db.query("PRAGMA table_xinfo(t)")
    away = path + ".away"
    for reopen in (False, True):
        if reopen:
            db.close()
            db = Database(file)
        for what in ("", "__fragments", "__schema", "__commits"):
            os.rename(os.path.join(path, what) if what else path, away)
            if reopen:
                db.close()
                db = Database(file)
            try:
                got = db.query("SELECT * FROM t")
                # Without commit files the array has no cells; decoded tiles stay cached.
                same(got, [] if what == "__commits" else want, what)
                assert what == "__commits" or (what == "__fragments" and not reopen), what
            except Error as e:
                check_contains(e.text, path)
            same(db.query("PRAGMA table_xinfo(t)"), columns)
            db.query("ALTER TABLE t RENAME TO u")
            db.query("ALTER TABLE u RENAME TO t")
            same(db.value("PRAGMA integrity_check"), "ok")
            os.rename(away, os.path.join(path, what) if what else path)
            same(db.query("SELECT * FROM t"), want, what)
    shutil.rmtree(path)
    db.close()
    db = Database(file)
    check_contains(db.error("SELECT * FROM t").text, "array not found: " + path)
    db.query("VACUUM")
    db.query("DROP TABLE t")
    same(db.query("SELECT name FROM sqlite_master"), [])


def test_columns_that_have_changed_while_the_array_was_away():
    path = copy(CELLS, "a")
    file = os.path.join(host.FOLDER, "c.db")
    db = Database(file)
    db.table("t", path)
    db.close()
    os.rename(path, path + ".away")
    db = Database(file)
    check_contains(db.error("SELECT * FROM t").text, "array not found")
    shutil.copytree(corpus("new/sparse/string_2d"), path)
    check_contains(db.error("SELECT * FROM t").text, "open the database again")
    again = Database(file)
    assert again.value("SELECT count(*) FROM t") > 0


def test_files_without_permission_are_errors():
    """Runs in a child process that has given up root's rights, if it had them."""
    path = copy(CELLS, "a")
    os.chmod(host.FOLDER, 0o755)
    os.chmod(os.path.dirname(path), 0o755)
    schema = os.path.join(path, "__schema")
    fragments = os.path.join(path, "__fragments")
    some = os.path.join(fragments, sorted(os.listdir(fragments))[0])
    reader, writer = os.pipe()
    for victim, open_fails in ((path, True), (schema, True), (os.path.join(path, "__commits"), None), (some, False), (os.path.join(some, "__fragment_metadata.tdb"), False),
                               (os.path.join(some, "a0.tdb"), False)):
        mode = os.stat(victim).st_mode
        os.chmod(victim, 0)
        child = os.fork()
        if child == 0:
            text = "nothing"
            try:
                if os.getuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                try:
                    text = f"read: {count(Database(), path)}"
                except Error as e:
                    text = f"{e.code}: {e.text}"
                except BaseException as e:
                    text = f"unexpected {e!r}"
            finally:
                os.write(writer, (text + "\0").encode())
                os._exit(0)
        os.waitpid(child, 0)
        os.chmod(victim, mode)
        text = os.read(reader, 10000).decode().rstrip("\0")
        if text.startswith("read") and victim.endswith("a0.tdb"):
            continue   # not selected by the arguments
        check_contains(text, "ermission denied")
        check_contains(text, path)
    os.close(reader)
    os.close(writer)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
