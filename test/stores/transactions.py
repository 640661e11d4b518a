"""Transactions over arrays in buckets and tables of SQLite: rollback, savepoints, spilling; processes that die at every request; races.

usage: transactions.py LIBRARY FOLDER [moto | versitygw | azurite | gcs | gcs_memory] [NAME OF TEST ...] [--every N] [--seed N]

With --every N it is a sample: of the requests of a process that change something, one in N kills it, and at least one. The seed chooses which; it is
that of the day, so that in time each of them has its turn. A request that only reads leaves the server as the one before has left it.
"""
import hashlib
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time

from buckets import NAME, There, load, raises, run, there
from fault_proxy import FaultProxy, kind_of

EVERY = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else int(time.time()) // 86400
ARRAY = f"s3://{NAME}/"


def rows(db, *statement):
    return db.execute(*statement).fetchall()


def database(bucket, name):
    path = os.path.join(bucket.folder, name + ".db")
    for each in (path, path + "-journal", path + "-wal"):
        if os.path.exists(each):
            os.remove(each)
    return path


def outside(bucket, uri, columns="x, a"):
    """The cells that a connection without the database sees, or None if there is no array."""
    db = bucket.connect(direct=True)
    try:
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
    except sqlite3.Error as error:
        assert "not found" in str(error), error
        return None
    found = rows(db, f"SELECT {columns} FROM t ORDER BY x")
    db.close()
    return found


# ---- One process

def test_merges_after_commits(bucket):
    """auto_consolidate in a bucket: at least 64 fragments become one, in one merge of a COMMIT; others see all rows at every time."""
    uri, source, made = ARRAY + "merged", os.path.join(bucket.folder, "merged-source"), load(bucket.library)
    made.execute(f"CREATE VIRTUAL TABLE t USING tessera('{source}', x INT32 DIMENSION(0, 999, 10), a INT32)")
    made.executemany("INSERT INTO t VALUES (?, ?)", [(i, -i) for i in range(60)]) # a fragment each
    made.close()
    bucket.upload(source, "merged")
    db = bucket.connect(database(bucket, "merged"))
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', auto_consolidate=4)")
    for i in range(60, 70):
        db.execute("INSERT INTO t VALUES (?, ?)", (i, -i))
        assert rows(db, f"SELECT count(*) FROM tessera_fragments('{uri}')") == [(i + 1 if i < 63 else i - 62,)], i
    assert rows(db, "SELECT value FROM tessera_stats WHERE name = 'auto_merges'") == [(1,)]
    assert outside(bucket, uri) == [(i, -i) for i in range(70)]
    db.close()


def test_together(bucket):
    """The array and the tables commit together or not at all; statements in the transaction see its own cells."""
    path, uri = database(bucket, "together"), ARRAY + "together"
    db = bucket.connect(path)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)")
    db.execute("CREATE TABLE log(what)")
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    db.execute("INSERT INTO log VALUES ('one')")
    assert rows(db, "SELECT x, a FROM t ORDER BY x") == [(1, 1), (2, 2)] and outside(bucket, uri) == []
    db.execute("COMMIT")
    assert outside(bucket, uri) == [(1, 1), (2, 2)]
    db.execute("BEGIN")
    db.execute("UPDATE t SET a = 10 WHERE x = 1")
    db.execute("DELETE FROM t WHERE x = 2")
    db.execute("INSERT INTO t VALUES (3, 3)")
    db.execute("INSERT INTO log VALUES ('two')")
    assert rows(db, "SELECT x, a FROM t ORDER BY x") == [(1, 10), (3, 3)]
    before = set(bucket.keys("together"))
    db.execute("ROLLBACK")
    assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == [(1, 1), (2, 2)] and rows(db, "SELECT * FROM log") == [("one",)]
    assert set(bucket.keys("together")) <= before
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (4, 4)")
    db.execute("SAVEPOINT s")
    db.execute("INSERT INTO t VALUES (5, 5)")
    db.execute("UPDATE t SET a = 40 WHERE x = 4")
    db.execute("SAVEPOINT deeper")
    db.execute("DELETE FROM t WHERE x < 3")
    assert rows(db, "SELECT x, a FROM t ORDER BY x") == [(4, 40), (5, 5)]
    db.execute("ROLLBACK TO deeper")
    assert rows(db, "SELECT x, a FROM t ORDER BY x") == [(1, 1), (2, 2), (4, 40), (5, 5)]
    db.execute("ROLLBACK TO s")
    db.execute("INSERT INTO t VALUES (6, 6)")
    db.execute("RELEASE s")
    db.execute("COMMIT")
    assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == [(1, 1), (2, 2), (4, 4), (6, 6)]
    found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not found, found


def test_two_stores(bucket):
    """Arrays in a bucket, in a directory and in the database commit in one transaction."""
    path = database(bucket, "stores")
    db = bucket.connect(path)
    places = {"b": f"'{ARRAY}stores', ", "d": f"'{bucket.folder}/stores-directory', ", "i": ""}
    for table, place in places.items():
        db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera({place}x INT32 DIMENSION(0, 99, 10), a INT32)")
    for commit in ("ROLLBACK", "COMMIT"):
        db.execute("BEGIN")
        for table in places:
            db.execute(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
        db.execute(commit)
        expected = [(1, 1), (2, 2)] if commit == "COMMIT" else []
        for table in places:
            assert rows(db, f"SELECT x, a FROM {table} ORDER BY x") == expected, (table, commit)
    db.execute("BEGIN")
    for table in places:
        db.execute(f"INSERT INTO {table} VALUES (3, 3)")
    bucket.proxy.fault("status", kind="PUT", status=403, code="AccessDenied", times=999)
    raises(db, "COMMIT", says="AccessDenied")
    bucket.proxy.clear()
    if db.in_transaction:
        db.execute("ROLLBACK")
    for table in places: # a store that fails before SQLite has committed takes all back
        assert rows(db, f"SELECT x, a FROM {table} ORDER BY x") == [(1, 1), (2, 2)], table


def test_a_server_that_is_away_for_a_while(bucket):
    """A statement that fails because the server gives no answer leaves the transaction open; so does COMMIT, which can be tried again."""
    path, uri, inner = database(bucket, "away"), ARRAY + "away", os.path.join(bucket.folder, "away-directory")
    db = bucket.connect(path, retries=0)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)")
    db.execute(f"CREATE VIRTUAL TABLE d USING tessera('{inner}', x INT32 DIMENSION(0, 99, 10), a INT32)")
    db.execute("CREATE TABLE log(what)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    expected = [(1, 1)]
    faults = ({"do": "status", "status": 503, "code": "SlowDown"}, {"do": "reset"}) if bucket.server.kind == "moto" else ({"do": "status", "status": 503, "code": "SlowDown"},)
    for n, fault in enumerate(faults, 2):
        db.execute("BEGIN")
        db.execute("INSERT INTO log VALUES (?)", (n,))
        db.execute("INSERT INTO t VALUES (?, ?)", (n, n))
        db.execute("INSERT INTO d VALUES (?, ?)", (n, n))
        bucket.proxy.fault(times=9999, kind=None, **fault)
        raises(db, f"SELECT count(*) FROM tessera_array('{uri}-other')", code="SQLITE_BUSY")
        assert db.in_transaction and rows(db, "SELECT what FROM log WHERE what = ?", (n,)) == [(n,)]
        raises(db, "COMMIT", code="SQLITE_BUSY")
        assert db.in_transaction, "the COMMIT has ended the transaction"
        bucket.proxy.clear()
        db.execute("INSERT INTO t VALUES (?, ?)", (n + 10, n + 10))
        db.execute("COMMIT")
        expected = sorted(expected + [(n, n), (n + 10, n + 10)])
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == expected
        assert rows(db, "SELECT max(x) FROM d") == rows(db, "SELECT max(what) FROM log") == [(n,)]
    found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not found, found


def test_an_array_that_is_dropped_meanwhile(bucket):
    """A COMMIT fails if another process has dropped the array, also if it has made another one in its place; that one stays whole."""
    for again in (False, True):
        uri = f"{ARRAY}dropped{again:d}"
        db, other = bucket.connect(), bucket.connect(direct=True)
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', kind=sparse, x INT32 DIMENSION(0, 99, 10), a INT32)")
        db.execute("INSERT INTO t VALUES (1, 1)")
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (2, 2)")
        other.execute(f"SELECT tessera_drop('{uri}')").fetchall()
        if again:
            other.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', kind=sparse, y TEXT DIMENSION, b TEXT)")
            other.execute("INSERT INTO t VALUES ('new', 'one')")
        time.sleep(1.2) # a listing counts for a second
        raises(db, "COMMIT", says="it has been dropped, or replaced by another array: open it again")
        assert not db.in_transaction
        if again:
            assert rows(other, "SELECT * FROM t") == [("new", "one")]
            assert not rows(bucket.connect(direct=True), f"SELECT * FROM tessera_check('{uri}')")
        else:
            assert not bucket.keys(f"dropped{again:d}/"), bucket.keys(f"dropped{again:d}/")
            other.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', kind=sparse, y TEXT DIMENSION, b TEXT)")
        db.close()
        other.close()


def test_spilling(bucket):
    """A transaction that needs more than its memory writes to this machine, not to the bucket, until it commits."""
    uri = ARRAY + "spilled"
    db = bucket.connect(database(bucket, "spilled"))
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 9999999, 10000), a INT32, s TEXT, memory_mb=2)")
    count = 200000 if EVERY == 1 else 60000
    insert = f"INSERT INTO t WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < {count - 1}) SELECT i * 7 % {count}, i, 'text ' || i FROM r"
    for commit in ("ROLLBACK", "COMMIT"):
        db.execute("BEGIN")
        bucket.proxy.clear()
        db.execute(insert)
        assert bucket.proxy.count("PUT") + bucket.proxy.count("PART") == 0, "puts before the commit"
        db.execute(commit)
        if commit == "ROLLBACK":
            assert bucket.proxy.count("PUT") == 0 and rows(db, "SELECT count(*) FROM t") == [(0,)]
    assert rows(db, "SELECT count(*), sum(a), count(s) FROM t") == [(count, count * (count - 1) // 2, count)]
    assert outside(bucket, uri, "count(*), sum(a)") == [(count, count * (count - 1) // 2)]
    found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not found, found


def test_lost_answers(bucket):
    """A write whose answer is lost has been done once."""
    statements = ("INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET a = 5 WHERE x = 1", "DELETE FROM t WHERE x = 2", "INSERT INTO t VALUES (3, 3)")
    for n in range(200) if EVERY == 1 else (random.Random(SEED).randrange(20), 199):
        uri = f"{ARRAY}lost{n}"
        db = bucket.connect(database(bucket, "lost"))
        bucket.proxy.clear()
        rule = bucket.proxy.fault("lost", kind="PUT", skip=n)
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)")
        for statement in statements:
            db.execute(statement)
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == [(1, 5), (3, 3)], n
        assert len(rows(db, f"SELECT * FROM tessera_fragments('{uri}')")) == 3, n
        db.close()
        if rule["times"]:
            return
    raise AssertionError("there is no end")


def test_last_step(bucket):
    """When the last request of a commit fails for good, SQLite has committed: nothing is lost, and the connection goes on."""
    for place in (database(bucket, "last"), ":memory:"):
        uri = ARRAY + ("last" if place != ":memory:" else "last-memory")
        db = bucket.connect(place, retries=0)
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)")
        db.execute("INSERT INTO t VALUES (1, 1)")
        bucket.proxy.fault("status", kind="PUT", path=r"\.wrt", status=403, code="AccessDenied", times=999)
        db.execute("INSERT INTO t VALUES (2, 2)")
        bucket.proxy.clear()
        expected = [(1, 1), (2, 2)]
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == expected, (place, rows(db, "SELECT x, a FROM t ORDER BY x"))
        db.execute("INSERT INTO t VALUES (3, 3)")
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == expected + [(3, 3)], place


# ---- Processes

# It imports little: to begin is most of what some hundred of them do.
CHILD = r"""
import json, sqlite3, sys
order = json.loads(sys.argv[1])
db = sqlite3.connect(order["database"], isolation_level=None, timeout=60)
db.enable_load_extension(True)
db.load_extension(order["library"])
for sql in order["before"]: db.execute(sql).fetchall()
print("READY", flush=True)
sys.stdin.readline()
try:
    for sql in order["sql"]: db.execute(sql).fetchall()
    print("DONE", flush=True)
except sqlite3.Error as error:
    print("ERROR", getattr(error, "sqlite_errorname", ""), error, flush=True)
"""


class Child:
    """A process that runs statements through a port, once it is told to."""

    def __init__(self, bucket, port, sql, database=":memory:", before=()):
        configure = f"SELECT tessera_configure('s3://{NAME}', '{json.dumps(There.options(port))}')"
        order = {"library": os.path.splitext(bucket.library)[0], "database": database, "before": [there(text) for text in (configure, *before)],
                 "sql": [there(text) for text in sql]}
        self.process = subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", CHILD, json.dumps(order)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ready(self):
        line = self.process.stdout.readline()
        assert line.strip() == "READY", line
        return self

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """What it printed, which is empty if it was killed."""
        try:
            text = self.process.communicate(timeout=120)[0]
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        assert self.process.returncode in (0, -signal.SIGKILL), (self.process.returncode, text)
        return text.strip()


READS = ("GET", "HEAD", "LIST", "UPLOADS")


class Killer(FaultProxy):
    """Kills a process at its nth request, or its nth that changes something: before the server sees it, or after it has carried it out. `moments` tell of
    each request whether it changes something, whether no other change was under way when it came, and the local files of then."""

    victim, at, after, changes, seen, changing, files = None, 0, False, False, 0, 0, ()

    def strike(self, request):
        if self.changes and not self.is_change(request):
            return False
        with self.lock:
            self.seen += 1
            hit = self.victim and self.seen == self.at
        if hit:
            self.victim.process.kill()
            self.victim.process.wait()
        return hit

    def is_change(self, request):
        method, target, _ = request.line.split(" ", 2)
        return kind_of(method, target.partition("?")[2], request.headers) not in READS

    def ask_server(self, server, request):
        change = self.is_change(request)
        with self.lock:
            self.moments.append((change, not self.changing, digest(self.files) if not self.at else b""))
            self.changing += change
        if not self.after and self.strike(request):
            raise OSError("killed")
        answer = super().ask_server(server, request)
        if self.after and self.strike(request):
            raise OSError("killed")
        with self.lock:
            self.changing -= change
        return answer


def digest(files):
    """A digest of the contents of files, some of which may be missing, and of directories."""
    found = hashlib.sha256()
    for file in [os.path.join(at, name) for folder in files for at, _, names in sorted(os.walk(folder)) for name in sorted(names)] + list(files):
        found.update(file.encode() + b"\0")
        try:
            with open(file, "rb") as f:
                found.update(hashlib.sha256(f.read()).digest())
        except (FileNotFoundError, IsADirectoryError):
            found.update(b"none")
    return found.digest()


def die(bucket, name, prepare, statements, judge, place, after=False, changes=False, folder=None):
    """Kills a process at one of its requests (with `changes`, of those that change something), or not: 0. Returns what it said, the kinds of the
    requests that came, and their moments if it was not killed. The process changes local files in its database, and in `folder`."""
    last, path = f"{name}{place}{'a' if after else ''}{'c' if changes else ''}", database(bucket, name)
    uri = ARRAY + last
    db = bucket.connect(path, direct=True)
    prepare(db, uri)
    db.close()
    with Killer(bucket.server.port) as killer:
        killer.after, killer.changes, killer.files, killer.moments = after, changes, [path, path + "-journal", path + "-wal", *filter(None, [folder])], []
        child = Child(bucket, killer.port, [text.format(uri=uri, name=last) for text in statements], path).ready()
        killer.victim, killer.at = child, place
        child.go()
        said = child.end()
        kinds = killer.kinds()
    assert said in ("", "DONE"), (name, place, said)
    try:
        judge(uri, path, said)
    except Exception as error:
        raise AssertionError(f"{name}, seed {SEED}, killed {'after' if after else 'before'} request {place} of {kinds}: {error}") from error
    return said, kinds, killer.moments


def places_of(moments, after):
    """Where to kill a process of these moments, so that each state is left once: (place, after, changes) as for die().

    A death leaves what the server has carried out, and the local files. These are the same before a request that only reads as before the next one, and
    after a request as before the next one, unless the process has written a file between the two. Of changes that are under way together a death
    leaves any: it comes before each of them."""
    total, done, found, tried, others = sum(change for change, _, _ in moments), 0, [], set(), []
    for place, (change, alone, local) in enumerate(moments, 1):
        done += change
        if change:
            found.append((done, False, True))
            tried.update([(done - 1, local)] * alone)
        if change and after and (alone or done == total):
            others.append(((done, True, True), (done, local)))
        if not change and alone:
            others.append(((place, False, False), (done, local)))
    for where, state in sorted(others, key=lambda each: each[0][2], reverse=True): # first those that are counted in changes: reads vary
        if state not in tried:
            found.append(where)
            tried.add(state)
    return found


def deaths(bucket, name, prepare, statements, judge, after=False, folder=None):
    """Kills a process so that each state is left that a death before one of its requests can leave, with `after` also after one, or a sample.
    `prepare(db, uri)` makes the state, `judge(uri, path, said)` judges what is left. `folder`: where the process has local files beside its database."""
    chance = random.Random(f"{SEED} {name}")
    if EVERY > 1:
        kinds = die(bucket, name, prepare, statements, judge, 0)[1]
        changes = sum(kind not in READS for kind in kinds)
        count = changes or len(kinds) # an import reads alone
        places = sorted(chance.sample(range(1, count + 1), -(-count // EVERY)))
        struck = [place for place in places if not die(bucket, name, prepare, statements, judge, place, chance.random() < 0.5, changes > 0)[0]]
        assert struck, f"{name}, seed {SEED}: no death at {places} of {count} requests"
        print(f"    {name}: deaths at {struck} of {count} requests, seed {SEED}")
        return
    bucket.renew()
    moments = die(bucket, name, prepare, statements, judge, 0, folder=folder)[2]
    places = places_of(moments, after)
    struck = [place for place in places if not die(bucket, name, prepare, statements, judge, *place)[0]]
    changes = [place for place in places if place[2]]
    assert struck and all(place in struck for place in changes), f"{name}: no death at {set(changes) - set(struck)} of {moments}"
    print(f"    {name}: {len(struck)} deaths at {len(moments)} requests, {sum(change for change, _, _ in moments)} of which change something", flush=True)


def test_deaths_of_commits(bucket):
    before, after = [(1, 1), (2, 2)], [(1, 1), (2, 20), (3, 3)]

    def prepare(db, uri):
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)")
        db.execute("CREATE TABLE log(what)")
        db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")

    def judge(uri, path, said):
        seen = outside(bucket, uri)
        assert seen in (before, after), f"outside: {seen}"
        db = bucket.connect(path, direct=True)
        log = rows(db, "SELECT * FROM log")
        expected = after if log else before
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == expected, f"log {log}, cells {rows(db, 'SELECT x, a FROM t ORDER BY x')}"
        assert log or seen == before, "outside sees what SQLite has not committed"
        assert not said or log
        db.execute("SELECT tessera_recover('db:t')").fetchall()
        assert outside(bucket, uri) == expected, "after tessera_recover"
        db.execute("INSERT INTO t VALUES (9, 9)")
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == expected + [(9, 9)], "after the next commit"
        found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
        assert not found, found
        db.close()

    statements = ("BEGIN", "INSERT INTO t VALUES (3, 3)", "UPDATE t SET a = 20 WHERE x = 2", "INSERT INTO log VALUES ('done')", "COMMIT")
    deaths(bucket, "commit", prepare, statements, judge, True)


def test_deaths_of_deletes(bucket):
    before, after = [(1, 1), (2, 2)], [(1, 1)]

    def prepare(db, uri):
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)")
        db.execute("INSERT INTO t VALUES (1, 1), (2, 2)")

    def judge(uri, path, said):
        assert outside(bucket, uri) in (before, after)
        db = bucket.connect(path, direct=True)
        found = rows(db, "SELECT x, a FROM t ORDER BY x")
        assert found in (before, after) and (not said or found == after), found
        db.execute("INSERT INTO t VALUES (9, 9)")
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == found + [(9, 9)]
        db.close()

    deaths(bucket, "delete", prepare, ("DELETE FROM t WHERE x = 2",), judge)


def test_deaths_of_creates(bucket):
    def prepare(db, uri):
        db.execute("CREATE TABLE log(what)")

    def judge(uri, path, said):
        db = bucket.connect(path, direct=True)
        made = rows(db, "SELECT count(*) FROM sqlite_schema WHERE name = 't'") == [(1,)]
        assert made or not said
        create = f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a TEXT ENUM('p', 'q'))"
        try:
            if not made:
                db.execute(create)
        except sqlite3.Error as error: # as for a directory: what was cut off is deleted by hand
            assert "is being created there" in str(error), error
            bucket.remove(uri.removeprefix(ARRAY) + "/")
            db.execute(create)
        db.execute("INSERT INTO t VALUES (9, 'q')")
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == [(9, "q")]
        found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
        assert not found, found
        db.close()

    deaths(bucket, "create", prepare, ("CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a TEXT ENUM('p', 'q'))",), judge)


def test_deaths_of_upkeep(bucket):
    """Consolidation, vacuum, metadata, evolution: the contents are always the same."""
    cells = [(1, 10), (2, 2), (3, 3)]

    def prepare(db, uri):
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)")
        for sql in ("INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)", "INSERT INTO t VALUES (3, 3), (4, 4)", "DELETE FROM t WHERE x = 4", "UPDATE t SET a = 10 WHERE x = 1"):
            db.execute(sql)

    def prepare_merged(db, uri):
        prepare(db, uri)
        db.execute(f"SELECT tessera_consolidate('{uri}')").fetchall()

    def judge(uri, path, said):
        assert outside(bucket, uri) == cells
        db = bucket.connect(path, direct=True)
        for what in ("fragments", "commits", "fragment_meta"):
            db.execute(f"SELECT tessera_consolidate('{uri}', '{what}')").fetchall()
        db.execute(f"SELECT tessera_vacuum('{uri}')").fetchall()
        assert rows(db, "SELECT x, a FROM t ORDER BY x") == outside(bucket, uri) == cells
        found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
        assert not found, found
        db.close()

    deaths(bucket, "merge", prepare, ("SELECT tessera_consolidate('{uri}')",), judge)
    deaths(bucket, "commits", prepare, ("SELECT tessera_consolidate('{uri}', 'commits')", "SELECT tessera_consolidate('{uri}', 'fragment_meta')"), judge)
    deaths(bucket, "vacuum", prepare_merged, ("SELECT tessera_vacuum('{uri}')",), judge)
    deaths(bucket, "evolve", prepare, ("SELECT tessera_add_attribute('{uri}', 'b INT32')", "SELECT tessera_set_metadata('{uri}', 'k', 1)"), judge)


# ---- Races

def race(bucket, statements, databases=None, before=(), port=None):
    """Eight processes run statements at once; `{n}` is the number of the process. Returns what each said."""
    children = [Child(bucket, port or bucket.server.port, [text.format(n=n) for text in statements], databases[n] if databases else ":memory:", before) for n in range(8)]
    for child in children:
        child.ready()
    for child in children:
        child.go()
    return [child.end() for child in children]


def test_race_to_create(bucket):
    for turn in range(3 if EVERY == 1 else 1):
        uri = f"{ARRAY}race{turn}"
        said = race(bucket, (f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 99, 10), a INT32)", "INSERT INTO t VALUES ({n}, {n})"))
        assert said.count("DONE") == 1, said
        assert len(outside(bucket, uri)) == 1
        assert len([key for key in bucket.keys(f"race{turn}/__schema/")]) == 1


def test_race_to_commit(bucket):
    """Commits of eight processes all arrive, each once, with times that rise as they are published; of cells that all of them write the last one stays."""
    uri, turns = ARRAY + "race-commit", 6 if EVERY == 1 else 2
    db = bucket.connect(direct=True)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 9999, 10), a INT32)")
    statements = [text for i in range(turns) for text in ("BEGIN", f"INSERT INTO t VALUES (100 * {{n}} + {i} + 100, {{n}})", f"INSERT OR REPLACE INTO t VALUES ({i}, {{n}})", "COMMIT")]
    bucket.proxy.clear()
    said = race(bucket, statements, [database(bucket, f"race{n}") for n in range(8)], [f"CREATE VIRTUAL TABLE t USING tessera('{uri}')"], bucket.proxy.port)
    assert said == ["DONE"] * 8, said
    assert rows(db, "SELECT count(*) FROM t WHERE x >= 100") == [(8 * turns,)]
    assert rows(db, "SELECT count(*) FROM t WHERE x < 100") == [(turns,)]
    fragments = rows(db, f"SELECT name FROM tessera_fragments('{uri}')")
    assert len(fragments) == len(set(fragments)) == 8 * turns, len(fragments)
    assert_rising(published_times(bucket), 8 * turns)
    found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not found, found


def published_times(bucket):
    """The times of the commits that were published through the proxy, in the order of publication, and how old each was then; in milliseconds."""
    now = time.time() - time.monotonic()
    times = [(int(re.search(r"/__(\d+)_\d+_[^/]*\.wrt$", entry["path"]).group(1)), entry["time"]) for entry in bucket.proxy.log
             if entry["kind"] == "PUT" and entry["path"].endswith(".wrt") and entry["status"] in (200, 201)]
    return [(stamp, (now + at) * 1000 - stamp) for stamp, at in times]


def assert_rising(published, count):
    """Asserts that so many commits have times that rise, but for a writer that took more than five seconds: the others do not wait longer for it."""
    assert len({stamp for stamp, _ in published}) == len(published) == count, published
    for (before, _), (stamp, age) in zip(published, published[1:]):
        assert before < stamp or age > 5000, (before, stamp, age, published)


def test_race_of_large_commits(bucket):
    """Commits that are uploaded before their turn get new times if others were quicker."""
    uri = ARRAY + "race-large"
    db = bucket.connect(direct=True)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 9999999, 100000), a BLOB)")
    bucket.proxy.clear()
    said = race(bucket, ["INSERT OR REPLACE INTO t SELECT {n} * 100000 + value, randomblob(1000) FROM json_each('[" + ",".join(map(str, range(3000))) + "]')"] * 2,
                [database(bucket, f"large{n}") for n in range(8)], [f"CREATE VIRTUAL TABLE t USING tessera('{uri}')"], bucket.proxy.port)
    assert said == ["DONE"] * 8, said
    assert_rising(published_times(bucket), 16)
    assert any(entry["kind"] == "COPY" or "__fragments" in entry["path"] and entry["kind"] == "DELETE" for entry in bucket.proxy.log), "nobody was late"
    assert rows(db, "SELECT count(*), sum(length(a)) FROM t") == [(24000, 24000000)]
    found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not found, found


def test_race_to_consolidate(bucket):
    for what in ("fragments", "commits", "fragment_meta", "array_meta")[:None if EVERY == 1 else 1]:
        uri = ARRAY + "race-" + what
        db = bucket.connect(direct=True)
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 9999, 10), a INT32)")
        for i in range(8):
            db.execute(f"INSERT INTO t VALUES ({i}, {i}), (100, {i})" if i == 0 else f"INSERT OR REPLACE INTO t VALUES ({i}, {i}), (100, {i})")
            db.execute(f"SELECT tessera_set_metadata('{uri}', 'k', {i})").fetchall()
        said = race(bucket, (f"SELECT tessera_consolidate('{uri}', '{what}')", f"SELECT tessera_vacuum('{uri}', '{what}')"))
        for line in said:
            assert line == "DONE" or line.startswith(("ERROR SQLITE_ABORT", "ERROR SQLITE_BUSY")) or (sys.version_info < (3, 11) and "ERROR" in line), (what, said)
        assert "DONE" in said, (what, said) # who publishes first wins, the others give way
        cells = [(i, i) for i in range(8)] + [(100, 7)]
        assert outside(bucket, uri) == rows(db, "SELECT x, a FROM t ORDER BY x") == cells, what
        assert rows(db, f"SELECT value FROM tessera_metadata('{uri}')") == [(7,)]
        db.execute(f"SELECT tessera_consolidate('{uri}', '{what}'), tessera_vacuum('{uri}')").fetchall()
        found = [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
        assert not found and outside(bucket, uri) == cells, (what, found)


TESTS = (test_together, test_merges_after_commits, test_two_stores, test_a_server_that_is_away_for_a_while, test_an_array_that_is_dropped_meanwhile, test_spilling, test_lost_answers, test_last_step, test_race_to_create, test_race_to_commit, test_race_of_large_commits,
         test_race_to_consolidate,
         test_deaths_of_commits, test_deaths_of_deletes, test_deaths_of_creates, test_deaths_of_upkeep)

if __name__ == "__main__":
    sys.exit(run(TESTS, "transactions"))
