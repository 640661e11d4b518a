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
from host import Database, Error, holds, literal, same

BUSY, CORRUPT = 5, 11
SPARSE = "x INT DIMENSION(0, 100000), v INT"
DAY = 24 * 3600


def folder():
    return tempfile.mkdtemp(dir=host.FOLDER)


def open_array(place, database="my.db", mode="delete"):
    """A database in its own directory on an array beside it, which is made where there is none."""
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
    """ID, "locked" or "unlocked", and the database, as a marker says."""
    with open(path) as f:
        line = f.read().split("\n\n")[1]
    found = re.fullmatch(r"owner ([0-9a-f]{32}) (locked|unlocked) \S+\n(.*)\n", line)
    assert found, line
    return found.groups()


def age(place, seconds):
    then = time.time() - seconds
    for where, folders, files in os.walk(os.path.join(place, "a")):
        for name in folders + files:
            os.utime(os.path.join(where, name), (then, then))


# A process whose COMMIT meets a reader: so its commit stays prepared until it goes on, or dies.
WRITER = """
import os, sqlite3, sys, time
extension, database, array, row, what = sys.argv[1:6]
db = sqlite3.connect(database, isolation_level=None)
db.enable_load_extension(True)
db.load_extension(extension)
db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS t USING tessera('" + array + "')")
db.execute("CREATE TABLE IF NOT EXISTS other(x)")
reader = sqlite3.connect(database, isolation_level=None)
cursor = reader.execute("SELECT 1 FROM sqlite_schema")   # COMMIT fails behind it, and the transaction goes on: prepared
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
    """A process that has prepared a commit of one row. `go` lets it commit, or die."""

    def __init__(self, place, database, row, what="commit", command=()):
        if not os.path.isdir(os.path.join(place, "a")):
            open_array(place).close()
        self.process = subprocess.Popen([*command, sys.executable, "-c", WRITER, host.EXTENSION, database, os.path.join(place, "a"), str(row), what],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.process.stdout.readline().strip()

    def go(self):
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

def config(db):
    return dict(db.query("SELECT key, value FROM t_config WHERE key LIKE 'owner%'"))


def test_an_id_of_the_file():
    """The marker has the id that the record has; a copy of the file has another one, and keeps those before."""
    place = folder()
    db = open_array(place)
    before = config(db)
    same(len(before), 1)
    writer = Writer(place, os.path.join(place, "my.db"), 5)
    same(writer.said, "prepared")
    (marker,) = markers(place)
    got, lock, file = owner(marker)
    same((got, lock, file), (before["owner"].split()[0], "locked", os.path.join(place, "my.db")))
    same(writer.go(), "committed")
    same((rows(place), markers(place), config(db)), ([5], [], before))
    db.close()
    copy = other_place(place, "copy")
    shutil.copy(os.path.join(place, "my.db"), copy)
    db = Database(copy)
    same(config(db), before, "nothing was written yet")
    db.query("INSERT INTO t VALUES(6, 6)")
    after = config(db)
    same(len(after), 2)
    same(after["owner " + before["owner"].split()[0]], before["owner"].split()[1])
    same(after["owner"].split()[0] != before["owner"].split()[0], True)
    db.query("INSERT INTO t VALUES(7, 7)")
    same(config(db), after)
    db.close()
    os.rename(copy, copy + "2")   # moved: the path is another one
    db = Database(copy + "2")
    db.query("INSERT INTO t VALUES(8, 8)")
    same(len(config(db)), 3)
    same(rows(place), [5, 6, 7, 8])


def test_the_record_of_an_earlier_version():
    """Tables that were made without an owner get one with their next commit."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    db.query("DELETE FROM t_config WHERE key LIKE 'owner%'")
    db.query("INSERT INTO t VALUES(2, 2)")
    same(list(config(db)), ["owner"])
    same(rows(place), [1, 2])


# ---- Two databases of one path ---------------------------------------------------------------------------------------

def two_databases(one, two, place, command_one=(), command_two=()):
    """The first stands between preparing and commit while the second prepares, commits, recovers and disowns; then it commits, too."""
    writer = Writer(place, one, 1, command=command_one)
    same(writer.said, "prepared")
    same(Writer(place, two, 2, command=command_two).go(), "committed")
    db = Database(two)
    if not db.query("SELECT 1 FROM sqlite_schema WHERE name = 't'"):
        db.table("t", os.path.join(place, "a"))
    same(db.query("SELECT tessera_recover('db:t')"), [(0,)])
    same(db.error("SELECT tessera_recover('db:t', 'disown')").code in (None, BUSY), True)
    same((len(markers(place)), len(fragments(place))), (1, 2))
    same(writer.go(), "committed")
    same((rows(place), markers(place)), ([1, 2], []))
    same(db.query("SELECT tessera_recover('db:t', 'disown')"), [(0,)])
    db.close()


def test_two_files():
    place = folder()
    two_databases(other_place(place, "one"), other_place(place, "two"), place)


def test_a_copy_while_a_commit_is_prepared():
    """The copy is made before: it has the same record and the same ids of the past."""
    place = folder()
    one, two = other_place(place, "one"), other_place(place, "two")
    db = Database(one)
    open_array(place).close()
    db.table("t", os.path.join(place, "a"))
    db.close()
    shutil.copy(one, two)
    two_databases(one, two, place)


def test_two_hosts():
    """Two mount namespaces with a database each, of one path."""
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
        same(Writer(place, database, 20 + second, command=commands[second]).go(), "committed")
        same(len(markers(place)), 1)
        same(writer.go(), "committed")
        same(markers(place), [])
    same(rows(place), [10, 11, 20, 21])


def test_what_a_dead_writer_of_this_file_left():
    """The lock went with the process: the next write removes what was not committed."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    same(Writer(place, os.path.join(place, "my.db"), 2, "die").go(), "")
    same((len(markers(place)), len(fragments(place))), (1, 2))
    db.query("INSERT INTO t VALUES(3, 3)")
    same((markers(place), len(fragments(place)), rows(place)), ([], 2, [1, 3]))


def test_a_child_keeps_the_lock():
    """A fork shares the lock: the marker counts as one whose writer lives until the child ends, too."""
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
    """A commit of this database whose writer lives, and has not published it: returns the database and the pid that holds the lock."""
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
    db.query("INSERT INTO t_commits VALUES(?)", (commit,))   # as if its COMMIT had succeeded
    return db, child


def test_a_writer_that_dies_before_it_publishes():
    """While it lives another process writes, and leaves the commit to it. That it has not published it stays in the record."""
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
    holds(error.text, "locked")   # SQLite's own text: it shows no other for a DROP
    same(error.code in (None, BUSY), True)
    time.sleep(0.1)
    db.query("DROP TABLE t")
    same((markers(place), rows(place)), ([], [1, 2]))


# ---- Markers of earlier versions -------------------------------------------------------------------------------------

def earlier(place, db, forget):
    """The last commit as an earlier version's crash left it."""
    (commit,), = db.query("SELECT name FROM t_commits")
    stem = os.path.basename(commit)[:-4]
    os.remove(os.path.join(place, "a", commit))
    with open(os.path.join(place, "a", "__commits", stem + ".pending"), "w") as f:
        f.write(f"{commit}\n{stem}\n\n{os.path.join(place, 'my.db')}\n")
    if forget:
        db.query("DELETE FROM t_commits")


def test_a_marker_of_this_path():
    """It names the path of this database: that may be another file's. The record publishes it; nothing but 'disown' removes it."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    earlier(place, db, False)
    db.query("INSERT INTO t VALUES(2, 2)")
    same((rows(place), markers(place)), ([1, 2], []))
    earlier(place, db, True)
    db.query("INSERT INTO t VALUES(3, 3)")
    same(db.query("SELECT tessera_recover('db:t')"), [(0,)])
    same((rows(place), len(markers(place)), len(fragments(place))), ([1, 3], 1, 3))
    error = db.error("SELECT tessera_recover('db:t', 'disown')")
    holds(error.text, "24 hours")
    same(error.code in (None, BUSY), True)
    age(place, DAY + 60)
    same(db.query("SELECT tessera_recover('db:t', 'disown')"), [(1,)])
    same((rows(place), markers(place), len(fragments(place))), ([1, 3], [], 2))


# ---- Owners that are gone --------------------------------------------------------------------------------------------

def test_disown():
    place = folder()
    gone = os.path.join(place, "gone.db")
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    same(Writer(place, gone, 2, "die").go(), "")
    for file in glob.glob(gone + "*"):
        os.remove(file)
    path = os.path.join(place, "a")
    statement = f"SELECT tessera_recover('{path}', 'disown')"
    said = db.value("SELECT message FROM tessera_check(?) WHERE file LIKE '%.pending'", (path,))
    holds(said, "tessera_recover(path, 'disown')")
    holds(said, gone)
    same([r for r in db.query("SELECT finding FROM tessera_advise(?)", (path,)) if "prepared" in r[0]], [], "it is young")
    holds(db.error(statement).text, "24 hours")
    same(len(markers(place)), 1)
    age(place, DAY + 60)
    (detail, advised), = [r[1:] for r in db.query("SELECT finding, detail, statement FROM tessera_advise(?)", (path,)) if "prepared" in r[0]]
    same(advised, statement)
    holds(detail, gone)
    same([r for r in db.query("SELECT finding FROM tessera_advise(?)", (path,)) if r[0] == "debris"], [], "a vacuum would not remove it")
    same(db.query("SELECT tessera_recover(?)", (path,)), [(0,)])
    same(db.query("SELECT tessera_vacuum(?)", (path,)), [(0,)])
    same(db.query(advised), [(1,)])
    same((rows(place), markers(place), len(fragments(place))), ([1], [], 1))
    same(db.query(advised), [(0,)])
    same(db.query("SELECT * FROM tessera_check(?)", (path,)), [])
    holds(db.error("SELECT tessera_recover('db:t', 'all')").text, "'disown'")
    db.query("BEGIN")
    holds(db.error(statement).text, "within a transaction")
    db.query("ROLLBACK")
    same(db.query("SELECT tessera_recover('db:t', NULL)"), [(0,)])


def owed(place, db, name="t"):
    """The last commit as a crash leaves it between the database's commit and the array's."""
    (commit,), = db.query(f"SELECT name FROM {name}_commits")
    stem = os.path.basename(commit)[:-4]
    os.remove(os.path.join(place, "a", commit))
    marker = os.path.join(place, "a", "__commits", stem + ".pending")
    with open(marker, "w") as f:
        f.write(f"{commit}\n{stem}\n\nowner {'0' * 32} unlocked there\n/other.db\n")
    return commit, stem, marker


def test_disown_spares_what_is_owed():
    """What this database has committed is published by tessera_recover, whatever id its marker has, and never removed."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    owed(place, db)
    age(place, 3 * DAY)
    same(db.query("SELECT tessera_recover('db:t', 'disown')"), [(0,)])
    same((len(markers(place)), len(fragments(place))), (1, 1))
    (advised,), = [r[1:] for r in db.query("SELECT finding, statement FROM tessera_advise('db:t')") if "prepared" in r[0]]
    same(advised, "SELECT tessera_recover('db:t')")
    same(db.query(advised), [(1,)])
    same((rows(place), markers(place)), ([1], []))


# ---- What was published, and what is gone ----------------------------------------------------------------------------

def test_published_and_consolidated():
    """The commit stands in a .con alone; the marker is left. Nothing is undone, and nothing is published again."""
    for vacuum in ("commits", "all"):
        place = folder()
        db = open_array(place)
        db.query("INSERT INTO t VALUES(1, 1)")
        (commit,), = db.query("SELECT name FROM t_commits")
        stem = os.path.basename(commit)[:-4]
        identity = config(db)["owner"].split()[0]
        db.query("INSERT INTO t VALUES(2, 2)")   # the record names another one now
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


def test_published_and_merged():
    """The record still names it, the marker is left, and the fragment went with a merge: all its cells are in the merged one."""
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


def test_committed_and_gone():
    """Somebody has removed what this database owes: every statement on it says so, until 'disown' gives it up."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    db.query("INSERT INTO t VALUES(2, 2)")
    _, stem, _ = owed(place, db)
    shutil.rmtree(os.path.join(place, "a", "__fragments", stem))
    again = Database(os.path.join(place, "my.db"))
    for sql in ("SELECT * FROM t", "INSERT INTO t VALUES(3, 3)", "SELECT tessera_recover('db:t')"):
        error = again.error(sql)
        holds(error.text, "disown")
        same(error.code in (None, CORRUPT), True)
    same(rows(place), [1])
    same(again.query("SELECT tessera_recover('db:t', 'disown')"), [(1,)])
    again.query("INSERT INTO t VALUES(3, 3)")
    same((rows(place), [x for x, in again.query("SELECT x FROM t ORDER BY x")]), ([1, 3], [1, 3]))


def test_gone_at_the_commit():
    """Between xSync and xCommit somebody removes what was prepared. SQLite does not look at what xCommit returns: the next statement is told."""
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
        else:   # it sees the statement of xSync that writes the record
            db.raw.set_trace_callback(remove)
            db.query("INSERT INTO t VALUES(2, 2)")
            db.raw.set_trace_callback(None)
        error = db.error("SELECT * FROM t")
        holds(error.text, "rows are lost")
        same(error.code in (None, CORRUPT), True)
        if file:
            same(db.query("SELECT tessera_recover('db:t', 'disown')"), [(1,)])
        same((rows(place), db.query("SELECT x FROM t")), ([1], [(1,)]))
        db.query("INSERT INTO t VALUES(3, 3)")
        same(rows(place), [1, 3])


def test_read_only():
    """A connection that may not write reads what its database owes, and settles nothing."""
    place = folder()
    db = open_array(place)
    db.query("INSERT INTO t VALUES(1, 1)")
    owed(place, db)
    db.close()
    db = Database(os.path.join(place, "my.db"))
    db.query("PRAGMA query_only = 1")
    same((db.query("SELECT x FROM t"), rows(place)), ([(1,)], []))
    same(len(markers(place)), 1)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
