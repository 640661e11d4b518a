"""The present ends at the clock: commits that are ahead of it, of machines whose clocks are ahead or because this one's was set
back, are in no state, no list of changes and no feed until it reaches them. Such commits in fixed places; and random histories
of writes, reverts, merges and schemas while the clock is set: states, changes, reverts and feeds agree.

usage: clocks.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
environment: CLOCK_LIBRARY, the library of stores/clock.c; without it the histories are left out
"""
import collections
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

import host
from host import Database, Error, same
from changes import between

SEED = int(os.environ.get("SEED", 20261129))
ROUNDS = int(os.environ.get("ROUNDS", 2))
SIDE, STEPS = 6, 30


class Clock:
    """The calendar's clock of this process, which the library moves by what this file has."""

    def __init__(self):
        self.moved = 0

    def set(self, milliseconds):
        self.moved = milliseconds
        with open(os.environ["TESSERA_TEST_CLOCK"], "r+b") as f:
            f.write(struct.pack("q", milliseconds * 1000000))


class History:
    def __init__(self, seed, dense, inside, duplicates):
        self.r, self.dense, self.duplicates = random.Random(seed), dense, duplicates
        self.seed, self.log = seed, []
        self.clock = Clock()
        self.clock.set(0)
        folder = tempfile.mkdtemp(dir=host.FOLDER)
        self.file = os.path.join(folder, "data.db")
        self.db = Database(self.file)
        self.db.query("PRAGMA synchronous = OFF")
        place = "" if inside else f"'{os.path.join(folder, 'a')}', "
        self.db.query(f"""CREATE VIRTUAL TABLE t USING tessera({place}kind={'dense' if dense else 'sparse'}, x INT32 DIMENSION(0, {SIDE - 1}, 3),
                          y INT32 DIMENSION(0, {SIDE - 1}, 2), v FLOAT64, w TEXT{'' if dense else ', capacity=4'}{', duplicates=1' if duplicates else ''})""")
        self.attributes = ["v", "w"]
        self.db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
        self.times, self.evolved = [], 0
        self.token, self.copy = None, collections.defaultdict(list)

    def query(self, sql, parameters=()):
        self.log.append(sql)
        return self.db.query(sql, parameters)

    # ---- What happens ----

    def write(self):
        r, kind = self.r, self.r.random()
        try:
            if kind < .6 or self.dense:
                rows = ", ".join(f"({r.randrange(SIDE)}, {r.randrange(SIDE)}, {r.choice(['NULL', '1', '2', '3'])}, {r.choice(['NULL', repr('a'), repr('b')]) if 'w' in self.attributes else 'NULL'})" for _ in range(r.randrange(1, 6)))
                names = "x, y, v, w" if "w" in self.attributes else "x, y, v"
                if "w" not in self.attributes:
                    rows = rows.replace(", NULL)", ")")
                self.query(f"INSERT OR REPLACE INTO t({names}) VALUES {rows}")
            elif kind < .8:
                self.query(f"DELETE FROM t WHERE {r.choice('xyv')} = {r.randrange(4)}")
            else:
                self.query(f"UPDATE t SET v = coalesce(v, 0) + 1 WHERE x < {r.randrange(SIDE)}")
        except Error as e:
            if "another cell has the same coordinates" not in e.text:
                raise
        self.note()

    def note(self):
        if not host.autocommit(self.db):
            return
        for t, in self.db.query("SELECT time FROM tessera_log('db:t')"):
            if t not in self.times:
                self.times.append(t)

    def step_clock(self):
        self.clock.set(self.clock.moved + self.r.choice([-20000, -5000, -2500, -1500, -300, 300, 1500, 2500, 5000]))
        self.log.append(f"-- clock {self.clock.moved}")
        self.reopen()   # another schema may be in force

    def reopen(self):
        self.log.append("-- reopen")
        self.db.close()
        self.db = Database(self.file)
        self.db.query("PRAGMA synchronous = OFF")
        self.db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")

        if self.attributes != self.columns():
            self.attributes, self.token = self.columns(), None

    def columns(self):
        return [row[1] for row in self.db.query("PRAGMA table_info(t)")][2:]

    def evolve(self):
        before = list(self.attributes)
        try:
            if "w" in self.attributes and self.r.random() < .5:
                self.query("SELECT tessera_drop_attribute('db:t', 'w')")
                self.attributes.remove("w")
            elif "w" not in self.attributes:
                self.query("SELECT tessera_add_attribute('db:t', 'w TEXT')")
                self.attributes.append("w")
            else:
                return
        except Error as e:
            if "ahead of this machine's clock" not in e.text:
                raise
            self.log.append("-- refused")
            self.attributes = before
            return
        wanted, self.token, self.evolved = list(self.attributes), None, self.present()
        self.reopen()
        same(self.attributes, wanted, f"{self.where()}: columns after a change of the schema")

    def merge(self):
        self.query("SELECT tessera_consolidate('db:t')")
        if not self.dense:
            self.query("SELECT tessera_vacuum('db:t')")

    # ---- What is there ----

    def where(self):
        return f"{self.seed}\n    " + "\n    ".join(self.log[-25:]) + "\n"

    def present(self):
        return int(time.time() * 1000)

    def state(self, at, where="1"):
        only = " AND written_at IS NOT NULL" if self.dense else ""
        rows = collections.defaultdict(list)
        for row in self.db.query(f"SELECT x, y, {', '.join(self.attributes)} FROM t({'' if at is None else at}) WHERE {where}{only}"):
            rows[row[:2]].append(row[2:])
        return rows

    def changes(self, arguments):
        pairs = ", ".join(f"old_{name}, new_{name}" for name in self.attributes)
        return sorted(self.db.query(f"SELECT change, x, y, {pairs} FROM c({arguments})"), key=repr)

    def net(self, a, b):
        return between(a, b, self.duplicates, len(self.attributes))

    def look(self):
        if not self.times:
            return
        r = self.r
        before, after = r.choice(self.times) - r.choice([0, 0, 1]), r.choice(self.times)
        same(self.changes(f"{before}, {after}"), self.net(self.state(before), self.state(after)), f"{self.where()}net {before} to {after}")
        same(self.changes(f"{before}"), self.net(self.state(before), self.state(None)), f"{self.where()}until now from {before} of {self.times}")
        same(self.changes(f"{before}, 'committed'"), self.net(self.state(before), self.state(None)), f"{self.where()}until what is committed from {before} of {self.times}")
        same(self.changes("'committed'"), [], f"{self.where()}nothing")
        # steps of 'every', one after the other, are the state at their end
        if before <= self.present() and not self.duplicates:
            cells = {key: rows[0] for key, rows in self.state(before).items()}
            n = len(self.attributes)
            pairs = ", ".join(f"old_{name}, new_{name}" for name in self.attributes)
            last = 0
            for row in self.db.query(f"SELECT change, x, y, {pairs}, changed_at FROM c({before}, NULL, 'every')"):
                assert row[-1] >= last, f"{self.where()}: {row} after {last}"
                last = row[-1]
                old, new = row[3:3 + 2 * n:2], row[4:3 + 2 * n:2]
                same(cells.get(row[1:3]), None if row[0] == "insert" else old, f"{self.where()}every from {before}: {row}")
                if row[0] == "delete":
                    del cells[row[1:3]]
                else:
                    cells[row[1:3]] = new
            same(cells, {key: rows[0] for key, rows in self.state(None).items()}, f"{self.where()}every from {before}")

    def own(self):
        """The transaction's own changes, also while commits are ahead of the clock."""
        committed = self.state(None)
        self.query("BEGIN")
        try:
            self.write()
            if host.autocommit(self.db):
                return
            if not self.dense:   # what the transaction has written has no time
                same(self.changes("'committed'"), self.net(committed, self.state(None)), f"{self.where()}the transaction's own")
            same(self.changes("'committed', 'committed'"), [], f"{self.where()}committed twice")
        finally:
            if not host.autocommit(self.db):
                self.query("ROLLBACK")

    def in_peace(self, function):
        """Calls a function that compares. What it finds does not count if a commit has come into view meanwhile."""
        now = self.present()
        try:
            function()
        except AssertionError:
            if not any(now - 5 <= t <= self.present() + 5 for t in self.times):
                raise

    def revert(self):
        if not self.times:
            return
        r = self.r
        at, now = r.choice(self.times), self.present()
        if self.present() < self.evolved + 10:   # writers use the newest schema
            return
        low, high = sorted((r.randrange(SIDE), r.randrange(SIDE)))
        where, box = (f"x BETWEEN {low} AND {high}", f"'{{\"x\":[{low},{high}]}}'") if r.random() < .6 else ("1", "NULL")
        if self.dense:
            old, new = self.state(at, where), self.state(None, where)
            none = tuple(None for _ in self.attributes)
            wanted = {key: old.get(key, [none]) for key in old.keys() | new.keys()}
        else:
            wanted = dict(self.state(at, where))
        outside = dict(self.state(None, f"NOT ({where})"))
        ends = r.choice(["COMMIT", "ROLLBACK", "none"])
        if ends != "none":
            self.query("BEGIN")
        try:
            self.query(f"SELECT tessera_revert('db:t', {at}, {box})")
        except Error as e:
            if "the time is ahead of the clock" not in e.text or at <= now - 5:
                raise
            if not host.autocommit(self.db):
                self.query("ROLLBACK")
            return
        if ends != "none":
            self.query(ends)
        self.note()
        if ends == "ROLLBACK":
            return
        order = lambda rows: {key: sorted(bag, key=repr) for key, bag in rows.items()}
        same(order(self.state(None, where)), order(wanted), f"{self.where()}revert to {at} {where} of {self.times}, now {self.present()}")
        same(order(self.state(None, f"NOT ({where})")), order(outside), f"{self.where()}revert: outside")

    def consume(self, last=False):
        token = self.db.value("SELECT tessera_token('db:t')")
        n = len(self.attributes)
        if self.token is None or self.r.random() < .1:
            self.copy = {key: list(rows) for key, rows in self.state(None).items()}
        else:
            news = ", ".join(f"new_{name}" for name in self.attributes)
            for row in self.db.query(f"SELECT change, x, y, {news} FROM c(?, ?)", (self.token, token)):
                key = row[1:3]
                if row[0] == "delete":
                    self.copy.pop(key, None)
                elif self.duplicates:
                    self.copy.setdefault(key, []).append(row[3:])
                else:
                    self.copy[key] = [row[3:]]
        self.token = token
        if not last:
            return
        order = lambda rows: {key: sorted(bag, key=repr) for key, bag in rows.items()}
        same(order(self.copy), order(self.state(None)), f"{self.where()}feed; now {self.present()}, {self.times}")

    def run(self):
        for _ in range(STEPS):
            time.sleep(.002)
            try:
                self.step()
            except Error as e:   # meanwhile the clock has reached the time of another schema
                if not any(text in e.text for text in ("the attribute has been dropped", "the attribute w has been dropped", "there is no attribute 'w'", "an attribute 'w' already", "no such column")):
                    raise
                if not host.autocommit(self.db):
                    self.query("ROLLBACK")
                self.log.append("-- another schema")
                self.reopen()
        # a consumer that has seen commits which a clock hides again is right once the clock has caught up
        self.clock.set(self.clock.moved + max(0, max([self.evolved, *self.times]) + 10 - self.present()))
        self.reopen()
        self.look()
        self.consume(True)

    def step(self):
        do = self.r.random()
        if do < .35: self.write()
        elif do < .5: self.step_clock()
        elif do < .55: self.merge()
        elif do < .62: self.evolve()
        elif do < .68: self.reopen()
        elif do < .76: self.in_peace(self.own)
        elif do < .84: self.in_peace(self.revert)
        elif do < .9: self.consume()
        else: self.in_peace(self.look)


def histories(name, *kind):
    if not os.environ.get("CLOCK_LIBRARY"):
        print(f"left out: the histories of {name}, for nothing moves the clock")
        return
    for i in range(ROUNDS):
        History(f"{name} {SEED} {i}", *kind).run()


def test_sparse():
    histories("sparse", False, False, False)


def test_dense():
    histories("dense", True, False, False)


def test_duplicates():
    histories("duplicates", False, False, True)


def test_in_the_database():
    histories("inside", False, True, False)


def open_array(columns):
    db = Database()
    db.path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{db.path}', {columns})")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    return db


def last(db):
    return db.value("SELECT max(time) FROM tessera_log('db:t')")


def put_ahead(path, name, ahead):
    """Gives a commit, or a schema, a time that is `ahead` milliseconds later: times are in names only. Returns it."""
    time_of = name.split("_")[2]
    later = str(int(time_of) + ahead)
    new = name.replace(f"__{time_of}_{time_of}_", f"__{later}_{later}_")
    for folder in ("__fragments", "__schema"):
        if os.path.exists(f"{path}/{folder}/{name}"):
            os.rename(f"{path}/{folder}/{name}", f"{path}/{folder}/{new}")
    for suffix in (".wrt", ".del"):
        if os.path.exists(f"{path}/__commits/{name}{suffix}"):
            os.rename(f"{path}/__commits/{name}{suffix}", f"{path}/__commits/{new}{suffix}")
    return int(later)


HOUR = 3600000
KINDS = ("kind=sparse", "kind=dense", "kind=sparse, duplicates=yes")


def with_one_ahead(kind):
    """An array with a cell at 1, and one at 2 of a commit that is an hour ahead. Returns the database and both times."""
    db = open_array(f"{kind}, x INT32 DIMENSION(0, 9, 5), v INT32")
    db.query("INSERT INTO t VALUES(1, 1)")
    first = last(db)
    time.sleep(.003)
    db.query("INSERT INTO t VALUES(2, 2)")
    name, = [n for n in os.listdir(f"{db.path}/__fragments") if int(n.split("_")[2]) > first]
    return db, first, put_ahead(db.path, name, HOUR)


def test_commits_that_are_ahead():
    for kind in KINDS:
        db, first, ahead = with_one_ahead(kind)
        written = "WHERE v IS NOT NULL"
        same(db.query(f"SELECT x, v FROM t {written}"), [(1, 1)], kind)
        for arguments in ("0", "0, 'committed'", "0, NULL, 'every'", "0, 'committed', 'every'"):
            same(db.query(f"SELECT change, x, new_v FROM c({arguments})"), [("insert", 1, 1)], f"{kind}: {arguments}")
        for arguments in ("'committed'", f"{first}", "'committed', 'committed'", f"{first}, NULL, 'every'", f"{ahead}, {ahead}"):
            same(db.query(f"SELECT * FROM c({arguments})"), [], f"{kind}: {arguments}")
        same(db.query(f"SELECT change, x, old_v, new_v FROM c({first}, {ahead})"), [("insert", 2, None, 2)], f"{kind}: a time that is ahead")
        same(db.query(f"SELECT change, x, old_v, new_v FROM c({ahead})"), [("delete", 2, 2, None)], f"{kind}: back from a time that is ahead")
        same(db.query(f"SELECT * FROM c({ahead - 1})"), [], f"{kind}: nothing is there yet")
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(3, 3)")
        for arguments in ("'committed'", f"{ahead - 1}", f"{first}", f"{ahead - 1}, NULL, 'every'"):
            same(db.query(f"SELECT change, x, old_v, new_v FROM c({arguments})"), [("insert", 3, None, 3)], f"{kind}: own rows, {arguments}")
        host.check_contains(db.error(f"SELECT * FROM c({ahead})").text, "ahead of the clock")
        same(db.value("SELECT tessera_revert('db:t', 'committed')"), 1, kind)
        db.query("COMMIT")
        same(db.query(f"SELECT x, v FROM t {written}"), [(1, 1)], f"{kind}: reverted to what is committed")


def test_reverts_to_a_time_that_is_ahead():
    """What is ahead would come back beside what the revert has written."""
    for kind in KINDS:
        db, first, ahead = with_one_ahead(kind)
        db.query("INSERT OR REPLACE INTO t VALUES(1, 7)")
        host.check_contains(db.error(f"SELECT tessera_revert('db:t', {ahead})").text, "the time is ahead of the clock, and so are some commits")
        same(db.value(f"SELECT tessera_revert('db:t', {ahead - 1})"), 0, f"{kind}: a time before them is the present")
        same(db.value(f"SELECT tessera_revert('db:t', {first})"), 3 if "duplicates" in kind else 1, kind)
        same(db.query("SELECT x, v FROM t WHERE v IS NOT NULL"), [(1, 1)], kind)


def test_a_schema_that_is_ahead():
    """A change of the schema would hold only until the clock has reached the newest one: an error, also if that one has the change."""
    db = open_array("x INT32 DIMENSION(0, 9, 5), v INT32, w INT32, k INT32")
    time.sleep(.003)
    db.query("SELECT tessera_drop_attribute('db:t', 'w')")
    path = db.path
    put_ahead(path, max(n for n in os.listdir(f"{path}/__schema") if n.startswith("__1")), HOUR)
    db = Database()
    db.table("t", path)
    same([row[1] for row in db.query("PRAGMA table_info(t)")], ["x", "v", "w", "k"])
    for change in ("tessera_drop_attribute('db:t', 'v')", "tessera_drop_attribute('db:t', 'w')", "tessera_add_attribute('db:t', 'u INT32')",
                   "tessera_add_attribute('db:t', 'w INT32')"):   # which the schema in force has, and the newest has not
        host.check_contains(db.error(f"SELECT {change}").text, "ahead of this machine's clock")


def with_the_schema_ahead(db):
    """Puts the newest schema of an array an hour ahead. Returns a connection that has not seen it."""
    put_ahead(db.path, max(n for n in os.listdir(f"{db.path}/__schema") if n.startswith("__1")), HOUR)
    other = Database()
    other.table("t", db.path)
    return other


def test_writers_beside_a_schema_that_is_ahead():
    """Rows and blocks are written with the schema that is in force, whatever the schema that is ahead has dropped or added."""
    for kind in KINDS[:2]:
        for change in ("tessera_drop_attribute('db:t', 'v')", "tessera_add_attribute('db:t', 'u INT32')"):
            db = open_array(f"{kind}, x INT32 DIMENSION(0, 9, 5), v INT32, w INT32")
            db.query("INSERT INTO t VALUES(1, 10, 100)")
            time.sleep(.003)
            db.query(f"SELECT {change}")
            path = db.path
            db = with_the_schema_ahead(db)
            db.query("INSERT INTO t VALUES(2, 20, 200)")
            db.query("SELECT tessera_create_as(?, 'SELECT 3 AS x, 30 AS v, 300 AS w', '{\"if_exists\":\"append\"}')", (path,))
            written = "WHERE v IS NOT NULL ORDER BY x"
            same(db.query(f"SELECT x, v, w FROM t {written}"), [(1, 10, 100), (2, 20, 200), (3, 30, 300)], f"{kind}: {change}")
            same(db.query("SELECT message FROM tessera_check('db:t') WHERE severity <> 'note'"), [], f"{kind}: {change}")


def test_merges_beside_a_schema_that_is_ahead():
    """A merged fragment has the schema of one of its sources, and cells that a condition deletes stay deleted, whatever the schema that is ahead has dropped or added."""
    for kind in KINDS[:2]:
        for change in ("tessera_drop_attribute('db:t', 'v')", "tessera_add_attribute('db:t', 'u INT32')"):
            db = open_array(f"{kind}, x INT32 DIMENSION(0, 9, 5), v INT32, w INT32")
            db.query("INSERT INTO t VALUES(1, 10, 100), (2, 20, 200)")
            db.query("INSERT OR REPLACE INTO t VALUES(2, 22, 202), (3, 30, 300)")
            if "sparse" in kind:
                db.query("DELETE FROM t WHERE v = 10")
            wanted = db.query("SELECT x, v, w FROM t WHERE v IS NOT NULL ORDER BY x")
            schemas = set(db.query("SELECT schema FROM tessera_fragments('db:t')"))
            time.sleep(.003)
            db.query(f"SELECT {change}")
            db = with_the_schema_ahead(db)
            same(db.value("SELECT tessera_consolidate('db:t')"), 2, f"{kind}: {change}")
            same(set(db.query("SELECT schema FROM tessera_fragments('db:t')")), schemas, f"{kind}: {change}")
            for after in ("SELECT 1", "SELECT tessera_vacuum('db:t', '{\"grace_s\":0}')"):
                db.query(after)
                same(db.query("SELECT x, v, w FROM t WHERE v IS NOT NULL ORDER BY x"), wanted, f"{kind}: {change}, {after}")
            same(db.query("SELECT message FROM tessera_check('db:t') WHERE severity <> 'note'"), [], f"{kind}: {change}")


def test_late_commits_in_a_chain_of_merges():
    """As many merges across a time as commits, each over the one before: a commit that none of them has is found among them, and no other is."""
    db = open_array("kind=dense, x INT32 DIMENSION(0, 9, 5), v INT32")
    times, late, fragment = [], None, None
    for number in range(8):
        time.sleep(.003)
        before = set(os.listdir(f"{db.path}/__commits")) if times else set()
        db.query("BEGIN")
        for x in {3: (5, 6), 5: (6,), 6: (4,)}.get(number, (5, 4)):   # what came late comes into view at 6, in a cell that 5 has written and 6 has not
            db.query("INSERT OR REPLACE INTO t VALUES(?, ?)", (x, number))
        db.query("COMMIT")
        times.append(last(db))
        if number == 3:
            name, = {n for n in set(os.listdir(f"{db.path}/__commits")) - before if n.endswith(".wrt")}
            fragment = f"{db.path}/__fragments/{name.removesuffix('.wrt')}"
            late = host.uncommit(db.path, [name])
            os.rename(fragment, f"{db.path}-late")
        if number not in (3, 5):
            db.query("SELECT tessera_consolidate('db:t')")
    os.rename(f"{db.path}-late", fragment)
    late()
    def state(at):
        return dict(db.query(f"SELECT x, v FROM t({at}) WHERE v IS NOT NULL"))
    for i, a in enumerate(times):
        for b in times[i + 1:]:
            one, other = state(a), state(b)
            wanted = sorted((x, one.get(x), other.get(x)) for x in {*one, *other} if one.get(x) != other.get(x))
            same(db.query(f"SELECT x, old_v, new_v FROM c({a}, {b}) ORDER BY x"), wanted, f"from {a} to {b}")


def test_late_commits_within_a_merge():
    """A dense array: a commit comes into the time range of a merge after it. With the merge in view it is the newest of its cells; before, a later source is."""
    db = open_array("kind=dense, x INT32 DIMENSION(0, 9, 5), v INT32")
    times, late, fragment = [], None, None
    for number, cells in enumerate([{5: 1, 6: 1}, {5: 2}, {5: 3}, {6: 4}]):
        time.sleep(.003)
        before = set(os.listdir(f"{db.path}/__commits")) if times else set()
        db.query("INSERT OR REPLACE INTO t VALUES" + ", ".join(f"({x}, {v})" for x, v in cells.items()))
        times.append(last(db))
        if number == 1:
            name, = set(os.listdir(f"{db.path}/__commits")) - before
            fragment = f"{db.path}/__fragments/{name.removesuffix('.wrt')}"
            late = host.uncommit(db.path, [name])
            os.rename(fragment, f"{db.path}-late")
    db.query("SELECT tessera_consolidate('db:t')")
    os.rename(f"{db.path}-late", fragment)
    late()
    states = [db.query(f"SELECT x, v FROM t({at}) WHERE v IS NOT NULL ORDER BY x") for at in (times[2], times[3])]
    same(states, [[(5, 3), (6, 1)], [(5, 2), (6, 4)]], "the states")
    for mode in ("", ", 'every'"):
        same(db.query(f"SELECT change, x, old_v, new_v FROM c({times[2]}, {times[3]}{mode}) ORDER BY x"), [("update", 5, 3, 2), ("update", 6, 1, 4)], mode)


if __name__ == "__main__":
    library = os.environ.get("CLOCK_LIBRARY")
    if library and "TESSERA_TEST_CLOCK" not in os.environ:
        with tempfile.NamedTemporaryFile() as clock:
            clock.write(bytes(8))
            clock.flush()
            preload = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), library]))
            sys.exit(subprocess.run([sys.executable, *sys.argv], env=os.environ | {"LD_PRELOAD": preload, "TESSERA_TEST_CLOCK": clock.name}).returncode)
    host.main(sys.modules[__name__])
