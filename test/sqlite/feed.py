"""tessera_token and the feed of tessera_changes: random histories in which commits become visible late, merges and
vacuums come in between and batches come twice. A consumer that applies the feed by coordinates ends with the array's
state. Texts that are no tokens are refused.

usage: feed.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import collections
import os
import random
import sys
import tempfile
import time

import host
from host import Database, Error, same

SEED = int(os.environ.get("SEED", 20261128))
ROUNDS = int(os.environ.get("ROUNDS", 2))
SIDE, STEPS = 6, 50


class Consumer:
    """Has what the feed told it: for each coordinate the rows there."""

    def __init__(self, db, r):
        self.db, self.r, self.rows, self.resets = db, r, collections.defaultdict(list), 0
        self.token = db.query("SELECT tessera_token('db:t')")[0][0]
        self.read_everything()

    def read_everything(self):
        self.token = self.db.query("SELECT tessera_token('db:t')")[0][0]
        self.rows = state(self.db)

    def poll(self):
        """Takes one batch. Now and then it dies before it has stored the token, so that the batch comes twice."""
        new = self.db.query("SELECT tessera_token('db:t')")[0][0]
        arguments = self.r.choice([("?, ?", (self.token, new)), ("?", (self.token,)), ("?, 'committed'", (self.token,))])
        try:
            batch = self.db.query(f"SELECT change, x, y, new_v FROM c({arguments[0]})", arguments[1])
        except Error as e:
            if "read everything" not in e.text:
                raise
            self.resets += 1
            return self.read_everything()
        for change, x, y, v in batch:
            if change == "delete":
                self.rows.pop((x, y), None)
            elif self.db.duplicates:
                self.rows[x, y].append(v)
            else:
                self.rows[x, y] = [v]
        if self.r.random() < 0.8:
            self.token = new


def state(db):
    rows = collections.defaultdict(list)
    for x, y, v in db.query(f"SELECT x, y, v FROM t {'WHERE written_at IS NOT NULL' if db.dense else ''}"):
        rows[x, y].append(v)
    return rows


def comparable(rows):
    return {key: sorted(values, key=repr) for key, values in rows.items() if values}


def open_array(kind):
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db = Database()
    db.query(f"""CREATE VIRTUAL TABLE t USING tessera('{path}', kind={'dense' if kind == 'dense' else 'sparse'}, x INT32 DIMENSION(0, {SIDE - 1}, 3),
                 y INT32 DIMENSION(0, {SIDE - 1}, 3), v INT32, capacity=5{', duplicates=1' if kind == 'duplicates' else ''})""")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    db.dense, db.duplicates, db.path = kind == "dense", kind == "duplicates", path
    return db


def commits(path):
    folder = os.path.join(path, "__commits")
    return {name for name in os.listdir(folder) if not name.endswith((".vac", ".lock"))}


class Writer:
    """Writes, and holds some commits back: they become visible later, with their own times."""

    def __init__(self, db, r):
        self.db, self.r, self.held, self.value = db, r, [], 0

    def write(self):
        time.sleep(0.002)
        before = commits(self.db.path)
        try:
            self.change()
        except Error as e:   # of a delete in an array with duplicates
            if "another cell has the same coordinates" not in e.text:
                raise
        if self.r.random() < 0.25:
            self.held.append(host.uncommit(self.db.path, list(commits(self.db.path) - before)))

    def change(self):
        r, db = self.r, self.db
        kind = r.random()
        if kind < 0.6 or db.dense:
            rows = []
            for _ in range(r.randrange(1, 6)):
                self.value += 1
                rows.append(f"({r.randrange(SIDE)}, {r.randrange(SIDE)}, {self.value if r.random() < 0.7 else r.randrange(3)})")
            db.query(f"INSERT OR REPLACE INTO t VALUES {', '.join(rows)}")
        elif kind < 0.8:
            db.query(f"DELETE FROM t WHERE {r.choice(['x', 'y', 'v'])} = {r.randrange(SIDE)}")
        elif kind < 0.9:
            db.query(f"DELETE FROM t WHERE x = {r.randrange(SIDE)} AND y = {r.randrange(SIDE)}")
        else:
            db.query(f"UPDATE t SET x = (x + 1) % {SIDE} WHERE y = {r.randrange(SIDE)}")

    def publish(self, all_=False):
        while self.held and (all_ or self.r.random() < 0.5):
            self.held.pop(self.r.randrange(len(self.held)))()

    def merge(self):
        """A merge while commits are held back would take their times, as a merge of someone who cannot see them does."""
        if self.held and self.r.random() < 0.7:
            return
        options = self.r.choice(["", """, '{"purge_deleted":true}'"""]) if not self.db.dense and not self.db.duplicates else ""
        self.db.query(f"SELECT tessera_consolidate('db:t'{options})")
        if self.r.random() < 0.6:
            self.db.query("SELECT tessera_vacuum('db:t')")


def histories(kind):
    for i in range(ROUNDS):
        seed = f"{kind} {SEED} {i}"
        r = random.Random(seed)
        db = open_array(kind)
        writer, consumer = Writer(db, r), Consumer(db, r)
        for step in range(STEPS):
            what = r.random()
            if what < 0.55:
                writer.write()
            elif what < 0.65:
                writer.publish()
            elif what < 0.7:
                writer.merge()
            else:
                consumer.poll()
            if step % 25 == 24:
                writer.publish(True)
                consumer.poll()
                same(comparable(consumer.rows), comparable(state(db)), f"{seed}: after step {step}")
        if consumer.resets > STEPS / 10:
            raise AssertionError(f"{seed}: read everything {consumer.resets} times")


def test_sparse():
    histories("sparse")


def test_duplicates():
    histories("duplicates")


def test_dense():
    histories("dense")


def test_late_commit_between():
    """1, 2 (seen), then a late 9 before the 2, then 1 again: the net change is nothing, the consumer must get the 1."""
    for kind in ("sparse", "dense"):
        db = open_array(kind)

        def write(v):
            time.sleep(0.003)
            before = commits(db.path)
            db.query(f"INSERT OR REPLACE INTO t VALUES(1, 1, {v})")
            return list(commits(db.path) - before)
        write(1)
        restore = host.uncommit(db.path, write(9))
        write(2)
        token = db.query("SELECT tessera_token('db:t')")[0][0]
        restore()
        same(db.query("SELECT change, x, y, new_v FROM c(?)", (token,)), [("write", 1, 1, 2)], "the late commit's cell, as it is now")
        write(1)
        same(db.query("SELECT change, new_v FROM c(?)", (token,)), [("write", 1)], "the cell as it is now")
        same(db.query("SELECT * FROM c((SELECT tessera_token('db:t')))"), [], "nothing is new to a new token")


def test_late_commits_are_counted():
    """tessera_stats counts the commits that became visible late, inserts and deletes, and neither others nor merges."""
    for kind in ("sparse", "dense"):
        db = open_array(kind)

        def late(token):
            db.query("SELECT tessera_reset_stats()")
            db.query("SELECT * FROM c(?)", (token,))
            return db.query("SELECT value FROM tessera_stats WHERE name = 'commits_late'")[0][0]

        def write(sql):
            time.sleep(0.003)
            before = commits(db.path)
            db.query(sql)
            return list(commits(db.path) - before)
        write("INSERT INTO t VALUES(1, 1, 1)")
        held = [host.uncommit(db.path, write("INSERT OR REPLACE INTO t VALUES(1, 1, 2)")),
                host.uncommit(db.path, write("DELETE FROM t WHERE v < 5" if kind == "sparse" else "INSERT INTO t VALUES(5, 5, 5)"))]
        write("INSERT INTO t VALUES(2, 2, 2)")
        old = db.query("SELECT tessera_token('db:t')")[0][0]
        same(late(old), 0, f"{kind}: nothing is new")
        write("INSERT INTO t VALUES(3, 3, 3)")
        same(late(old), 0, f"{kind}: a commit that is not late")
        for number, restore in enumerate(held):
            restore()
            same(late(old), number + 1, f"{kind}: late commits")
        token = db.query("SELECT tessera_token('db:t')")[0][0]
        same(late(token), 0, f"{kind}: they are late once")
        db.query("SELECT tessera_consolidate('db:t')")
        same((late(token), late(old)), (0, 2), f"{kind}: a merge")


def test_merges_are_no_news():
    """A merge alone brings nothing, before the vacuum and after it if the consumer has polled in between."""
    for kind in ("sparse", "dense", "duplicates"):
        db = open_array(kind)
        for x in range(4):
            time.sleep(0.002)
            db.query(f"INSERT INTO t VALUES({x}, 0, {x})")
        token = db.query("SELECT tessera_token('db:t')")[0][0]
        db.query("INSERT INTO t VALUES(5, 5, 5)")
        db.query("SELECT tessera_consolidate('db:t')")
        got = [row for row in db.query("SELECT change, x FROM c(?)", (token,)) if row[0] == "write"]
        same(got, [("write", 5)], f"{kind}: one cell is new, though a merge has it")
        token = db.query("SELECT tessera_token('db:t')")[0][0]
        db.query("SELECT tessera_vacuum('db:t')")
        same(db.query("SELECT change, x FROM c(?)", (token,)), [], f"{kind}: the token knows the merge")


def test_purged():
    """A purge before the deletes were seen is an error; after that it is none."""
    db = open_array("sparse")
    for x in range(4):
        db.query(f"INSERT INTO t VALUES({x}, 0, {x})")
    time.sleep(0.003)
    old = db.query("SELECT tessera_token('db:t')")[0][0]
    db.query("DELETE FROM t WHERE x = 2")
    seen = db.query("SELECT tessera_token('db:t')")[0][0]
    same(db.query("SELECT change, x FROM c(?)", (old,)), [("delete", 2)], "the delete")
    db.query("""SELECT tessera_consolidate('db:t', '{"purge_deleted":true}'), tessera_vacuum('db:t')""")
    fails(db, "SELECT * FROM c(?)", (old,), "were purged", "read everything, and take a new token")
    new = db.query("SELECT tessera_token('db:t')")[0][0]
    same(db.query("SELECT * FROM c(?)", (new,)), [], "a new token")
    same(old != seen, True, "tokens differ")


def test_gone():
    """A commit that somebody has removed, though no merge explains it, is an error and no silence."""
    db = open_array("sparse")
    db.query("INSERT INTO t VALUES(1, 1, 1)")
    before = commits(db.path)
    time.sleep(0.003)
    db.query("INSERT INTO t VALUES(2, 2, 2)")
    token = db.query("SELECT tessera_token('db:t')")[0][0]
    host.uncommit(db.path, list(commits(db.path) - before))
    fails(db, "SELECT * FROM c(?)", (token,), "cannot tell what is new before", "read everything")


def fails(db, sql, parameters, *words):
    try:
        rows = db.query(sql, parameters)
    except Error as e:
        for word in words:
            if word not in e.text:
                raise AssertionError(f"{sql}: {e.text!r} lacks {word!r}") from None
        return
    raise AssertionError(f"{sql}: {rows} instead of an error")


def test_texts():
    db, other = open_array("sparse"), open_array("sparse")
    for x in range(5):
        time.sleep(0.002)
        db.query(f"INSERT INTO t VALUES({x}, 0, 0)")
    token = db.query("SELECT tessera_token('db:t')")[0][0]
    fails(db, "SELECT * FROM c(?)", (other.query("SELECT tessera_token('db:t')")[0][0],), "of another array")
    fails(db, "SELECT * FROM c(?, ?)", (token, other.query("SELECT tessera_token('db:t')")[0][0]), "of another array")
    db.query("SELECT tessera_add_attribute('db:t', 'w INT32')")
    same(db.query("SELECT * FROM c(?)", (token,)), [], "the same array with another attribute")
    folder = os.path.join(db.path, "__schema")
    names = sorted(name for name in os.listdir(folder) if name.startswith("__1"))
    os.rename(os.path.join(folder, names[-1]), os.path.join(folder, names[-1].replace("__1", "__0", 1).replace("_1", "_0", 1)))
    same(db.query("SELECT * FROM c(?)", (token,)), [], "a clock was wrong when the attribute came")
    r = random.Random(SEED)
    for i in range(300):
        text = list(token)
        for _ in range(r.randrange(1, 4)):
            at = r.randrange(10, len(text))
            text[at:at + 1] = r.choice([[], ["A"], ["_", "-"], [chr(r.randrange(1, 300))], list(token[10:30])])
        text = "".join(text)
        if text != token:
            fails(db, "SELECT * FROM c(?)", (text,), "not a token of tessera_token")
    for text in ("tessera:", "tessera:1", "tessera:1:", "tessera:2:AAAA", token[:40], token + " ", "tessera:1:" + "A" * 2000000):
        fails(db, "SELECT * FROM c(?)", (text,), "not a token of tessera_token")
    fails(db, "SELECT * FROM c(?, 5)", (token,), "after a token comes")
    fails(db, "SELECT * FROM c(5, ?)", (token,), "two of one kind")
    fails(db, "SELECT * FROM c(?, NULL, 'net')", (token,), "no mode")
    fails(db, "SELECT tessera_token(?)", (5,), "expected text")
    same(db.query("SELECT tessera_token(NULL)"), [(None,)], "no path")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(5, 5, 5)")
    fails(db, "SELECT tessera_token('db:t')", (), "commit first")
    same(db.query("SELECT * FROM c(?)", (token,)), [], "the transaction's own rows are no news")
    db.query("ROLLBACK")


def test_many_commits():
    """Tokens name the newest 4,096 commits, and count the rest: a late one among those is an error."""
    db = open_array("sparse")
    db.query("INSERT INTO t VALUES(0, 0, 0)")
    folder = os.path.join(db.path, "__commits")
    first = sorted(commits(db.path))[0]
    parts = first.split("_")   # __TIME_TIME_UUID_VERSION.wrt: more commits of the same fragment's directory
    for i in range(4200):
        start = int(parts[2]) - 5000 + i
        name = f"__{start}_{start}_{i:032x}_{parts[5]}"
        os.symlink(os.path.join(db.path, "__fragments", first[:-4]), os.path.join(db.path, "__fragments", name[:-4]))
        open(os.path.join(folder, name), "w").close()
    time.sleep(0.003)
    token = db.query("SELECT tessera_token('db:t')")[0][0]
    same(len(token) < 80000, True, f"a token of {len(token)} bytes")
    same(db.query("SELECT * FROM c(?)", (token,)), [], "nothing is new")
    restore = host.uncommit(db.path, [sorted(commits(db.path))[7]])
    fails(db, "SELECT * FROM c(?)", (token,), "cannot tell what is new before")
    restore()
    same(db.query("SELECT * FROM c(?)", (token,)), [], "nothing is new")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
