"""The owner of a prepared commit: databases with the same path that are different files, copies, markers of earlier
versions, writers that are alive, owners that are gone for good ('disown'), and commits that are published already or
have lost their fragments.

usage: owners.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import host
from host import Database, Error, check_contains, literal, same

BUSY, CORRUPT = 5, 11
SPARSE = "x INT DIMENSION(0, 100000), v INT"
DAY = 24 * 3600


def folder():
    return tempfile.mkdtemp(dir=host.FOLDER)


def open_array(place, database="my.db", mode="delete"):
    """Opens a database in a directory of its own, with a table of the array beside it, which is created if it is missing."""
    path = os.path.join(place, "a")
    if not os.path.isdir(path):
        Database().query(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, {SPARSE})")
    db = Database(os.path.join(place, database))
    db.query(f"PRAGMA journal_mode={mode}")
    db.table("IF NOT EXISTS t", path)
    return db


def rows(place):
    db = Database()
    db.table("t", os.path.join(place, "a"))
    got = [x for x, in db.query("SELECT x FROM t ORDER BY x")]
    db.close()
    return got


def markers(place):
    return sorted(glob.glob(os.path.join(place, "a", "__commits", "*.pending")))


def fragments(place):
    found = os.path.join(place, "a", "__fragments")
    return sorted(os.listdir(found)) if os.path.isdir(found) else []


def owner(path):
    """Returns the fields of a marker: the id, "locked" or "unlocked", and the path of the database."""
    with open(path) as f:
        line = f.read().split("\n\n")[1]
    found = re.fullmatch(r"owner ([0-9a-f]{32}) (locked|unlocked) \S+\n(.*)\n", line)
    assert found, line
    return found.groups()


def make_older(place, seconds):
    then = time.time() - seconds
    for where, folders, files in os.walk(os.path.join(place, "a")):
        for name in folders + files:
            os.utime(os.path.join(where, name), (then, then))


# A process whose COMMIT fails because of a reader: its commit stays prepared until the process continues or dies.
WRITER = """
import os, sqlite3, sys, time
extension, database, array, row, what = sys.argv[1:6]
db = sqlite3.connect(database, isolation_level=None)
db.enable_load_extension(True)
db.load_extension(extension)
db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS t USING tessera('" + array + "')")
db.execute("CREATE TABLE IF NOT EXISTS other(x)")
reader = sqlite3.connect(database, isolation_level=None)
cursor = reader.execute("SELECT 1 FROM sqlite_schema")   # makes COMMIT fail: the transaction stays open, its commit prepared
next(cursor)
db.execute("PRAGMA busy_timeout = 0")
db.execute("BEGIN")
db.execute("INSERT INTO t VALUES(?, ?)", (row, row))
try:
    db.execute("COMMIT")
    print("committed", flush=True)
except sqlite3.OperationalError:
    child = what == "child" and os.fork()
    if what == "child" and child == 0:
        time.sleep(600)
    print("prepared", child or "", flush=True)
if what != "commit":
    sys.stdin.readline()
    os.kill(os.getpid(), 9)
sys.stdin.readline()
while next(cursor, None): pass
reader.close()
db.execute("COMMIT")
print("committed", flush=True)
"""


class Writer:
    """A process that has prepared a commit of one row. `go` lets it commit or die."""

    def __init__(self, place, database, row, what="commit", command=()):
        if not os.path.isdir(os.path.join(place, "a")):
            open_array(place).close()
        self.process = subprocess.Popen([*command, sys.executable, "-c", WRITER, host.EXTENSION, database, os.path.join(place, "a"), str(row), what],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.process.stdout.readline().strip()

    def let_go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline().strip()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        return said


def other_place(place, name):
    where = os.path.join(place, name)
    os.mkdir(where)
    return os.path.join(where, "my.db")


# ---- Identities ------------------------------------------------------------------------------------------------------

def owner_config(db):
    return dict(db.query("SELECT key, value FROM t_config WHERE key LIKE 'owner%'"))


def test_a_marker_has_the_id_of_the_database_file():
    """The marker has the id of the record. A copy of the file gets another id, and keeps the earlier ones."""
    place = folder()
    db = open_array(place)
    before = owner_config(db)
    same(len(before), 1)
    writer = Writer(place, os.path.join(place, "my.db"), 5)
    same(writer.said, "prepared")
    (marker,) = markers(place)
    got, lock, file = owner(marker)
    same((got, lock, file), (before["owner"].split()[0], "locked", os.path.join(place, "my.db")))
    same(writer.let_go(), "committed")
    same((rows(place), markers(place), owner_config(db)), ([5], [], before))
    db.close()
    copy = other_place(place, "copy")
    shutil.copy(os.path.join(place, "my.db"), copy)
    db = Database(copy)
    same(owner_config(db), before, "nothing was written yet")
    db.query("INSERT INTO t VALUES(6, 6)")
    after = owner_config(db)
    same(len(after), 2)
    same(after["owner " + before["owner"].split()[0]], before["owner"].split()[1])
    same(after["owner"].split()[0] != before["owner"].split()[0], True)
    db.query("INSERT INTO t VALUES(7, 7)")
    same(owner_config(db), after)
    db.close()
    os.rename(copy, copy + "2")   # the file gets another path
    db = Database(copy + "2")
    db.query("INSERT INTO t VALUES(8, 8)")
    same(len(owner_config(db)), 3)
    same(rows(place), [5, 6, 7, 8])


def test_a_file_that_comes_back_gets_a_new_id():
    """A file that is moved away and back has the same place as before, path and inode. A copy may have taken the first id there meanwhile, so it is not used again."""
    place = folder()
    db = open_array(place)
    first = owner_config(db)["owner"]
    db.close()
    ids = [first.split()[0]]
    for path in ("away.db", "my.db", "away.db", "my.db"):
        os.rename(os.path.join(place, "my.db" if path == "away.db" else "away.db"), os.path.join(place, path))
        db = Database(os.path.join(place, path))
        db.query("INSERT INTO t VALUES(?, 0)", (len(ids),))
        config = owner_config(db)
        db.close()
        ids.append(config["owner"].split()[0])
        same((config["owner"].split()[1] == first.split()[1]), path == "my.db", path)
        same((len(set(ids)), set(config)), (len(ids), {"owner"} | {"owner " + i for i in ids[:-1]}), path)
    same(markers(place), [])


def test_the_record_of_an_earlier_version():
    """Tables that were created without an owner get one with their next commit."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    db.query("DELETE FROM t_config WHERE key LIKE 'owner%'")
    db.query("INSERT INTO t VALUES(2, 2)")
    same(list(owner_config(db)), ["owner"])
    same(rows(place), [1, 2])


def test_processes_end_with_a_test_that_fails():
    """A test that fails leaves no process, not even a child of one that was killed: it would hold the pipe to ctest."""
    text = """
import os, sys, time
sys.path[:0] = sys.argv[1:]
from processes import end_with_this_process
end_with_this_process()
parts = os.pipe()
child = os.fork()
if child == 0:
    if os.fork() == 0:
        os.write(parts[1], b"x")
        time.sleep(600)
    time.sleep(600)
os.read(parts[0], 1)
os.kill(child, 9)
assert False, "the test fails"
"""
    top = os.path.dirname(os.path.dirname(os.path.abspath(host.__file__)))
    ended = subprocess.run([sys.executable, "-c", text, top], capture_output=True, text=True, timeout=60)
    same(ended.returncode, 1)
    check_contains(ended.stderr, "the test fails")


# ---- Two databases with one path -------------------------------------------------------------------------------------

def two_databases(one, two, place, command_one=(), command_two=()):
    """The first writer has prepared a commit while the second one prepares, commits, recovers and disowns; then the first one commits, too."""
    writer = Writer(place, one, 1, command=command_one)
    same(writer.said, "prepared")
    same(Writer(place, two, 2, command=command_two).let_go(), "committed")
    db = Database(two)
    if not db.query("SELECT 1 FROM sqlite_schema WHERE name = 't'"):
        db.table("t", os.path.join(place, "a"))
    same(db.query("SELECT tessera_recover('db:t')"), [(0,)])
    same(db.error("SELECT tessera_recover('db:t', '{\"disown\":true}')").code in (None, BUSY), True)
    same((len(markers(place)), len(fragments(place))), (1, 2))
    same(writer.let_go(), "committed")
    same((rows(place), markers(place)), ([1, 2], []))
    same(db.query("SELECT tessera_recover('db:t', '{\"disown\":true}')"), [(0,)])
    db.close()


def test_two_files_at_one_path_do_not_settle_each_others_commits():
    place = folder()
    two_databases(other_place(place, "one"), other_place(place, "two"), place)


def test_a_copy_does_not_settle_a_commit_of_the_original():
    """The copy was made before the commit: it has the same record and the same earlier ids."""
    place = folder()
    one, two = other_place(place, "one"), other_place(place, "two")
    db = Database(one)
    open_array(place).close()
    db.table("t", os.path.join(place, "a"))
    db.close()
    shutil.copy(one, two)
    two_databases(one, two, place)


def test_two_hosts_do_not_settle_each_others_commits():
    """Two mount namespaces have a database each at the same path."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode if shutil.which("unshare") else True:
        print("SKIPPED test_two_hosts: mount namespaces are not allowed here (unshare -m); test_two_files does the same in one")
        return
    place = folder()
    local = os.path.join(place, "local")
    os.mkdir(local)
    database = os.path.join(local, "my.db")
    commands = []
    for name in ("host1", "host2"):
        os.mkdir(os.path.join(place, name))
        commands.append(["unshare", "-m", "sh", "-c", f"mount --bind '{place}/{name}' '{local}' && exec \"$@\"", "sh"])
    for first, second in ((0, 1), (1, 0)):
        writer = Writer(place, database, 10 + first, command=commands[first])
        same(writer.said, "prepared")
        same(owner(markers(place)[0])[2], database)
        same(Writer(place, database, 20 + second, command=commands[second]).let_go(), "committed")
        same(len(markers(place)), 1)
        same(writer.let_go(), "committed")
        same(markers(place), [])
    same(rows(place), [10, 11, 20, 21])


def test_the_next_write_removes_the_commit_of_a_dead_writer():
    """The lock was released with the process: the next write removes the uncommitted commit."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    same(Writer(place, os.path.join(place, "my.db"), 2, "die").let_go(), "")
    same((len(markers(place)), len(fragments(place))), (1, 2))
    db.query("INSERT INTO t VALUES(3, 3)")
    same((markers(place), len(fragments(place)), rows(place)), ([], 2, [1, 3]))


def test_a_child_keeps_the_lock():
    """A child of fork shares the lock: until it ends, too, the writer of the marker counts as alive."""
    place = folder()
    db = open_array(place)
    writer = Writer(place, os.path.join(place, "my.db"), 2, "child")
    said, child = writer.said.split()
    same(said, "prepared")
    writer.process.stdin.write("\n")
    writer.process.stdin.flush()
    writer.process.wait()
    db.query("PRAGMA busy_timeout = 5000")
    same(db.query("SELECT tessera_recover('db:t')"), [(0,)])
    same(len(markers(place)), 1)
    os.kill(int(child), 9)
    for _ in range(100):
        if db.value("SELECT tessera_recover('db:t')"):
            break
        time.sleep(0.05)
    same((markers(place), fragments(place)), ([], []))


def left_to_its_writer(place):
    """Makes a commit whose writer lives and has not published it. Returns the database and the pid of the process that holds the lock."""
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    writer = Writer(place, os.path.join(place, "my.db"), 2, "child")
    child = int(writer.said.split()[1])
    writer.process.stdin.write("\n")
    writer.process.stdin.flush()
    writer.process.wait()
    marker, = markers(place)
    with open(marker) as f:
        commit = f.readline().strip()
    db.query("INSERT INTO t_commits VALUES(?)", (commit,))   # as after a successful COMMIT
    return db, child


def test_a_writer_that_dies_before_it_publishes():
    """While the writer lives, another process writes and leaves the commit alone. The record keeps the unpublished commit."""
    place = folder()
    db, child = left_to_its_writer(place)
    db.query("INSERT INTO t VALUES(3, 3)")
    seen = len(markers(place)), db.value("SELECT count(*) FROM t_commits"), db.query("SELECT x FROM t ORDER BY x")
    os.kill(child, 9)
    same(seen, (1, 2, [(1,), (2,), (3,)]))
    time.sleep(0.1)
    db.query("INSERT INTO t VALUES(4, 4)")
    same((markers(place), rows(place)), ([], [1, 2, 3, 4]))
    db.query("INSERT INTO t VALUES(5, 5)")
    same(db.value("SELECT count(*) FROM t_commits"), 1)


def test_drop_waits_for_a_writer_that_publishes():
    place = folder()
    db, child = left_to_its_writer(place)
    error = db.error("DROP TABLE t")
    os.kill(child, 9)
    check_contains(error.text, "locked")   # SQLite's own message: for a DROP it shows no other
    same(error.code in (None, BUSY), True)
    time.sleep(0.1)
    db.query("DROP TABLE t")
    same((markers(place), rows(place)), ([], [1, 2]))


def test_a_record_whose_marker_cannot_be_looked_at_stays():
    """The marker of a commit in the layout of old versions is in the fragment's directory. Here that is a symbolic link, which a bound connection does not follow: so it cannot tell whether there is a marker."""
    place = folder()
    db = open_array(place)
    name = f"__1_1_{'a' * 32}_5"
    link = os.path.join(place, "a", name)
    db.query("INSERT INTO t VALUES(1, 1)")
    for row in (name + ".ok", "no commit"):
        db.query("INSERT INTO t_commits VALUES(?)", (row,))
    os.symlink(place, link)
    db.query("SELECT tessera_restrict(?)", (place,))
    db.query("INSERT INTO t VALUES(2, 2)")
    same(db.query("SELECT name FROM t_commits WHERE name NOT LIKE '\\_\\_commits%' ESCAPE '\\'"), [(name + ".ok",)])
    same(db.error("DROP TABLE t").code in (None, BUSY), True)
    os.remove(link)
    db.query("INSERT INTO t VALUES(3, 3)")
    same(db.value("SELECT count(*) FROM t_commits"), 1)   # of the last INSERT
    db.query("DROP TABLE t")
    same(rows(place), [1, 2, 3])


# ---- Markers of earlier versions -------------------------------------------------------------------------------------

def make_earlier_version(place, db, forget):
    """Restores the state of the last commit that a crash of an earlier version of tessera leaves."""
    (commit,), = db.query("SELECT name FROM t_commits")
    stem = os.path.basename(commit)[:-4]
    os.remove(os.path.join(place, "a", commit))
    with open(os.path.join(place, "a", "__commits", stem + ".pending"), "w") as f:
        f.write(f"{commit}\n{stem}\n\n{os.path.join(place, 'my.db')}\n")
    if forget:
        db.query("DELETE FROM t_commits")


def test_an_old_marker_with_this_path_is_published_by_the_record():
    """The marker names the path of this database, which may have been another file's. The record publishes the commit; only 'disown' removes it."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    make_earlier_version(place, db, False)
    db.query("INSERT INTO t VALUES(2, 2)")
    same((rows(place), markers(place)), ([1, 2], []))
    make_earlier_version(place, db, True)
    db.query("INSERT INTO t VALUES(3, 3)")
    same(db.query("SELECT tessera_recover('db:t')"), [(0,)])
    same((rows(place), len(markers(place)), len(fragments(place))), ([1, 3], 1, 3))
    error = db.error("SELECT tessera_recover('db:t', '{\"disown\":true}')")
    check_contains(error.text, "24 hours")
    same(error.code in (None, BUSY), True)
    make_older(place, DAY + 60)
    same(db.query("SELECT tessera_recover('db:t', '{\"disown\":true}')"), [(1,)])
    same((rows(place), markers(place), len(fragments(place))), ([1, 3], [], 2))


# ---- Owners that are gone --------------------------------------------------------------------------------------------

def test_disown_removes_what_no_database_can_commit():
    place = folder()
    gone = os.path.join(place, "gone.db")
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    same(Writer(place, gone, 2, "die").let_go(), "")
    for file in glob.glob(gone + "*"):
        os.remove(file)
    path = os.path.join(place, "a")
    statement = f"SELECT tessera_recover('{path}', '{{\"disown\":true}}')"
    said = db.value("SELECT message FROM tessera_check(?) WHERE file LIKE '%.pending'", (path,))
    check_contains(said, "tessera_recover(path, '{\"disown\":true}')")
    check_contains(said, gone)
    same([r for r in db.query("SELECT finding FROM tessera_advise(?)", (path,)) if "prepared" in r[0]], [], "it is young")
    check_contains(db.error(statement).text, "24 hours")
    same(len(markers(place)), 1)
    make_older(place, DAY + 60)
    (detail, advised), = [r[1:] for r in db.query("SELECT finding, detail, statement FROM tessera_advise(?)", (path,)) if "prepared" in r[0]]
    same(advised, statement)
    check_contains(detail, gone)
    same([r for r in db.query("SELECT finding FROM tessera_advise(?)", (path,)) if r[0] == "debris"], [], "a vacuum would not remove it")
    same(db.query("SELECT tessera_recover(?)", (path,)), [(0,)])
    same(db.query("SELECT tessera_vacuum(?)", (path,)), [(0,)])
    same(db.query(advised), [(1,)])
    same((rows(place), markers(place), len(fragments(place))), ([1], [], 1))
    same(db.query(advised), [(0,)])
    same(db.query("SELECT * FROM tessera_check(?)", (path,)), [])
    check_contains(db.error("SELECT tessera_recover('db:t', '{\"all\":true}')").text, "no option is called 'all': disown")
    db.query("BEGIN")
    check_contains(db.error(statement).text, "within a transaction")
    db.query("ROLLBACK")
    same(db.query("SELECT tessera_recover('db:t', NULL)"), [(0,)])


def make_unpublished(place, db, name="t"):
    """Restores the state of the last commit that a crash between the database's commit and the array's leaves."""
    (commit,), = db.query(f"SELECT name FROM {name}_commits")
    stem = os.path.basename(commit)[:-4]
    os.remove(os.path.join(place, "a", commit))
    marker = os.path.join(place, "a", "__commits", stem + ".pending")
    with open(marker, "w") as f:
        f.write(f"{commit}\n{stem}\n\nowner {'0' * 32} unlocked there\n/other.db\n")
    return commit, stem, marker


def test_disown_spares_commits_of_the_record():
    """tessera_recover publishes a commit that this database has committed, whatever id its marker has, and never removes it."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    make_unpublished(place, db)
    make_older(place, 3 * DAY)
    same(db.query("SELECT tessera_recover('db:t', '{\"disown\":true}')"), [(0,)])
    same((len(markers(place)), len(fragments(place))), (1, 1))
    (advised,), = [r[1:] for r in db.query("SELECT finding, statement FROM tessera_advise('db:t')") if "prepared" in r[0]]
    same(advised, "SELECT tessera_recover('db:t')")
    same(db.query(advised), [(1,)])
    same((rows(place), markers(place)), ([1], []))


# ---- Published commits, and lost ones --------------------------------------------------------------------------------

def test_a_published_commit_that_was_consolidated_stays():
    """The commit is in a .con only, and its marker is left: the commit is neither undone nor published again."""
    for vacuum in ("commits", "all"):
        place = folder()
        db = open_array(place)
        db.query("INSERT INTO t VALUES(1, 1)")
        (commit,), = db.query("SELECT name FROM t_commits")
        stem = os.path.basename(commit)[:-4]
        identity = owner_config(db)["owner"].split()[0]
        db.query("INSERT INTO t VALUES(2, 2)")   # the record names another commit now
        marker = os.path.join(place, "a", "__commits", stem + ".pending")
        if vacuum == "all":
            db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
        else:
            db.query("SELECT tessera_consolidate('db:t', 'commits'), tessera_vacuum('db:t', 'commits')")
        same(os.path.exists(os.path.join(place, "a", commit)), False)
        with open(marker, "w") as f:
            f.write(f"{commit}\n{stem}\n\nowner {identity} unlocked here\n{place}/my.db\n")
        db.query("INSERT INTO t VALUES(3, 3)")
        same((rows(place), markers(place)), ([1, 2, 3], []))
        same(db.query("SELECT * FROM tessera_check('db:t') WHERE severity <> 'note'"), [])


def test_a_published_commit_that_was_merged_stays():
    """The record still names the commit, its marker is left, and a vacuum has removed its fragment after a merge: the merged fragment has all of its cells."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    other = open_array(place, "other.db")
    other.query("INSERT INTO t VALUES(2, 2)")
    (commit,), = db.query("SELECT name FROM t_commits")
    stem = os.path.basename(commit)[:-4]
    other.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    with open(os.path.join(place, "a", "__commits", stem + ".pending"), "w") as f:
        f.write(f"{commit}\n{stem}\n\nowner {'0' * 32} unlocked here\n{place}/my.db\n")
    again = Database(os.path.join(place, "my.db"))
    same(again.query("SELECT x FROM t ORDER BY x"), [(1,), (2,)])
    again.query("INSERT INTO t VALUES(3, 3)")
    same((rows(place), markers(place)), ([1, 2, 3], []))


def test_a_lost_commit_is_an_error_until_it_is_disowned():
    """The fragments of a commit that this database must publish were removed: every statement on the array fails, until 'disown' gives the commit up."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    db.query("INSERT INTO t VALUES(2, 2)")
    _, stem, _ = make_unpublished(place, db)
    shutil.rmtree(os.path.join(place, "a", "__fragments", stem))
    again = Database(os.path.join(place, "my.db"))
    for sql in ("SELECT * FROM t", "INSERT INTO t VALUES(3, 3)", "SELECT tessera_recover('db:t')"):
        error = again.error(sql)
        check_contains(error.text, "disown")
        same(error.code in (None, CORRUPT), True)
    same(rows(place), [1])
    same(again.query("SELECT tessera_recover('db:t', '{\"disown\":true}')"), [(1,)])
    again.query("INSERT INTO t VALUES(3, 3)")
    same((rows(place), [x for x, in again.query("SELECT x FROM t ORDER BY x")]), ([1, 3], [1, 3]))


def test_a_commit_that_is_lost_during_commit_fails_the_next_statement():
    """The prepared fragment is removed between xSync and xCommit. SQLite ignores what xCommit returns, so the next statement fails."""
    for file in ("my.db", None):
        place = folder()
        db = open_array(place, file) if file else Database()
        if not file:
            open_array(place).close()
            db.table("t", os.path.join(place, "a"))
        db.query("INSERT INTO t VALUES(1, 1)")

        def remove(statement, *others):
            for name in fragments(place) if "t_commits" in str(statement) else ():
                if not os.path.exists(os.path.join(place, "a", "__commits", name + ".wrt")):
                    shutil.rmtree(os.path.join(place, "a", "__fragments", name))

        if host.binding == "apsw":
            db.raw.set_commit_hook(lambda: remove("t_commits") is not None)
            db.query("INSERT INTO t VALUES(2, 2)")
            db.raw.set_commit_hook(None)
        else:   # the authorizer sees the statement of xSync that writes the record
            db.raw.set_trace_callback(remove)
            db.query("INSERT INTO t VALUES(2, 2)")
            db.raw.set_trace_callback(None)
        error = db.error("SELECT * FROM t")
        check_contains(error.text, "rows are lost")
        same(error.code in (None, CORRUPT), True)
        if file:
            same(db.query("SELECT tessera_recover('db:t', '{\"disown\":true}')"), [(1,)])
        same((rows(place), db.query("SELECT x FROM t")), ([1], [(1,)]))
        db.query("INSERT INTO t VALUES(3, 3)")
        same(rows(place), [1, 3])


def test_a_read_only_connection_settles_nothing():
    """A read-only connection reads the prepared commits of its database, and neither publishes nor removes them."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    make_unpublished(place, db)
    db.close()
    db = Database(os.path.join(place, "my.db"))
    db.query("PRAGMA query_only = 1")
    same((db.query("SELECT x FROM t"), rows(place)), ([(1,)], []))
    same(len(markers(place)), 1)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
