"""tessera_changes: random histories with deletes, moves, duplicates, new attributes, merges and vacuums; net, 'every' and
the changes of the open transaction are compared with what two reads of the table at those times show.

usage: changes.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
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
SIDE, COMMITS, PAIRS = 8, 12, 12
BOXES = [("", lambda x, y: True), ("x >= 3", lambda x, y: x >= 3), ("x = 2 AND y < 5", lambda x, y: x == 2 and y < 5)]


class History:
    def __init__(self, r, dense, inside, duplicates=False):
        self.r, self.dense, self.duplicates, self.attributes = r, dense, duplicates, ["v", "w"]
        folder = tempfile.mkdtemp(dir=host.FOLDER)
        self.db = Database(os.path.join(folder, "data.db"))
        place = "" if inside else f"'{os.path.join(folder, 'a')}', "
        self.path = os.path.join(folder, "a")
        self.file = os.path.join(folder, "data.db")
        self.db.query(f"""CREATE VIRTUAL TABLE t USING tessera({place}kind={'dense' if dense else 'sparse'}, x INT32 DIMENSION(0, {SIDE - 1}, 4),
                          y INT32 DIMENSION(0, {SIDE - 1}, 4), v FLOAT64, w TEXT, capacity=4{', duplicates=1' if duplicates else ''})""")
        self.times = []
        for i in range(COMMITS):
            if i == COMMITS // 2 and r.random() < 0.4:
                self.db.query("SELECT tessera_add_attribute('db:t', 'u INT32 DEFAULT -1')")
                self.attributes.append("u")
                self.db = Database(self.file)
            self.commit()
        self.db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")

    def row(self):
        r = self.r
        return f"({r.randrange(SIDE)}, {r.randrange(SIDE)}, {r.choice(['NULL', '0.0', '-0.0', '1', '2'])}, {r.choice(['NULL', repr('a'), repr('b')])})"

    def commit(self):
        time.sleep(0.002)
        try:
            self.write()
        except Error as e:   # of a delete in an array with duplicates
            if "another cell has the same coordinates" not in e.text:
                raise
            if not host.autocommit(self.db):
                self.db.query("ROLLBACK")
        self.note()
        if self.r.random() < 0.15:
            self.db.query("SELECT tessera_consolidate('db:t')")
            if not self.dense:   # a dense array would lose its past
                self.db.query("SELECT tessera_vacuum('db:t')")

    def write(self):
        r, kind = self.r, self.r.random()
        if kind < 0.6 or self.dense:
            self.db.query(f"INSERT OR REPLACE INTO t(x, y, v, w) VALUES {', '.join(self.row() for _ in range(r.randrange(1, 9)))}")
        elif kind < 0.7:
            self.db.query(f"DELETE FROM t WHERE {r.choice('xyv')} = {r.randrange(4)}")
        elif kind < 0.8:
            self.db.query("BEGIN")
            for _ in range(r.randrange(1, 20)):
                self.db.query(f"DELETE FROM t WHERE x = {r.randrange(SIDE)} AND y = {r.randrange(SIDE)}")
            self.db.query("COMMIT")
        else:
            self.db.query(f"UPDATE t SET {r.choice(['v = v + 1', f'x = (x + 1) % {SIDE}', f'y = {SIDE - 1} - y'])} WHERE x < {r.randrange(SIDE)}")

    def note(self):
        last = self.db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]
        if last and last not in self.times:
            self.times = self.times or [last - 1]
            self.times.append(last)

    def state(self, at):
        only = "WHERE written_at IS NOT NULL" if self.dense else ""
        rows = collections.defaultdict(list)
        for row in self.db.query(f"SELECT x, y, {', '.join(self.attributes)} FROM t({'' if at is None else at}) {only}"):
            rows[row[:2]].append(tuple(0.0 if value == 0 and isinstance(value, float) else value for value in row[2:]))   # -0.0 is 0.0
        return rows

    def net(self, before, after):
        return between(self.state(before), self.state(after), self.duplicates, len(self.attributes))

    def changes(self, arguments, where="", more="", order=""):
        pairs = ", ".join(f"old_{name}, new_{name}" for name in self.attributes)
        rows = self.db.query(f"SELECT change, x, y, {pairs}{more} FROM c({arguments}) {'WHERE ' + where if where else ''} {order}")
        rows = [tuple(0.0 if value == 0 and isinstance(value, float) else value for value in row) for row in rows]
        return rows if order else sorted(rows, key=repr)

    def every(self, before, after):
        rows = []
        for at in range(before + 1, after + 1):   # each millisecond is a step
            rows += [row + (at,) for row in self.net(at - 1, at)]
        return sorted(rows, key=repr)


def between(a, b, duplicates=False, attributes=2):
    """The brute force: the rows by which two states differ."""
    rows, none = [], (None,) * attributes
    for key in a.keys() | b.keys():
        old, new = collections.Counter(a.get(key, [])), collections.Counter(b.get(key, []))
        gone, come = list((old - new).elements()), list((new - old).elements())
        if not duplicates and gone and come:
            rows.append(("update", *key, *(value for pair in zip(gone[0], come[0]) for value in pair)))
            continue
        rows += [("delete", *key, *(value for pair in zip(values, none) for value in pair)) for values in gone]
        rows += [("insert", *key, *(value for pair in zip(none, values) for value in pair)) for values in come]
    return sorted(rows, key=repr)


def histories(name, *kind):
    for i in range(ROUNDS):
        seed = f"{name} {SEED} {i}"
        h = History(random.Random(seed), *kind)
        for _ in range(PAIRS):
            before, after = h.r.choice(h.times) - h.r.choice([0, 0, 1]), h.r.choice(h.times)
            where, holds = h.r.choice(BOXES)
            wanted = [row for row in h.net(before, after) if holds(*row[1:3])]
            same(h.changes(f"{before}, {after}", where), wanted, f"{seed}: net {before} to {after} {where}")
            order = h.r.choice(["ORDER BY y DESC, x", "ORDER BY x, y", "ORDER BY x DESC"])
            got = h.changes(f"{before}, {after}", where, order=order)
            same(sorted(got, key=repr), wanted, f"{seed}: {order}")
            keys = {"ORDER BY y DESC, x": lambda row: (-row[2], row[1]), "ORDER BY x, y": lambda row: row[1:3], "ORDER BY x DESC": lambda row: -row[1]}
            same([keys[order](row) for row in got], sorted(keys[order](row) for row in got), f"{seed}: {order}")
        before, after = sorted(h.r.sample(h.times, 2))
        wanted = h.every(before, after)
        same(h.changes(f"{before}, {after}, 'every'", more=", changed_at"), wanted, f"{seed}: every {before} to {after}")
        last = {row[1:3]: row[-1] for row in sorted(wanted, key=lambda row: row[-1])}
        for row in h.changes(f"{before}, {after}", more=", changed_at"):
            if row[0] == "delete":
                same(row[-1], last[row[1:3]], f"{seed}: when a cell was deleted")
        same(h.changes(f"{h.times[0]}"), h.net(h.times[0], None), f"{seed}: until now")


def test_sparse():
    histories("sparse", False, False)


def test_dense():
    histories("dense", True, False)


class Blocks:
    """A dense array whose blocks are written again with few other values, as a step of a forecast is."""
    SIDE = 24

    def __init__(self, r, merges):
        self.r, self.attributes, self.merges = r, ["v", "w", "e", "n", "k"], merges
        self.file = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "data.db")
        self.db = Database(self.file)
        self.db.query(f"""CREATE VIRTUAL TABLE t USING tessera(kind=dense, x INT32 DIMENSION(0, {self.SIDE - 1}, 8), y INT32 DIMENSION(0, {self.SIDE - 1}, 12),
                          v FLOAT64, w TEXT, e TEXT ENUM('red', 'green'), n FLOAT32 NOT NULL, k INT8)""")
        self.times = []

    def write(self):
        """Values depend on the place, but for a few cells: those of a block written twice are mostly the same."""
        r, low, high = self.r, *sorted(self.r.sample(range(self.SIDE), 2))
        odd, other = r.choice([5, 11, 50]), r.randrange(3)
        chosen = f"(x * 7 + y * 3) % {odd} = {other}"
        values = {"v": "iif(y % 4 = 0, iif(x % 2, 0.0, NULL), y)", "w": "iif(y % 3, 'w' || y, NULL)", "e": "iif(y % 5, 'red', NULL)", "n": "iif(y % 6, x, 9e999)", "k": "y"}
        others = {"v": "iif(y % 4 = 0, -0.0, NULL)", "w": "'other'", "e": "'green'", "n": "-0.0", "k": "NULL"}
        if "u" in self.attributes:
            values["u"], others["u"] = "iif(y % 2, x, NULL)", "-1"
        changed = r.sample(list(values), r.randrange(3))
        columns = [f"iif({chosen}, {others[a]}, {values[a]})" if a in changed else values[a] for a in values]
        rows = f"WITH s(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM s WHERE x < {self.SIDE - 1})"
        self.db.query(f"""{rows} INSERT OR REPLACE INTO t(x, y, {', '.join(values)}) SELECT x, y, {', '.join(columns)}
                          FROM (SELECT a.x, b.x AS y FROM s a, s b) WHERE x BETWEEN {low} AND {high} AND y <= {r.choice([6, self.SIDE])}""")

    def commit(self):
        time.sleep(0.002)
        self.write()
        self.times.append(self.db.query("SELECT last_write FROM tessera_array('db:t')")[0][0])
        if self.merges and self.r.random() < .4:
            self.db.query("SELECT tessera_consolidate('db:t')")

    def evolve(self):
        self.db.query("SELECT tessera_add_attribute('db:t', 'u INT32 DEFAULT -1'), tessera_extend_enumeration('db:t', 'e', 'blue')")
        self.db = Database(self.file)
        self.attributes.append("u")


def test_dense_blocks():
    """Blocks are compared with the state before at once: what differs is what two reads show, whatever the values are. With merges, whose cells may be hidden."""
    for i in range(2 * ROUNDS):
        h = Blocks(random.Random(f"blocks {SEED} {i // 2}"), i % 2)
        for _ in range(6):
            h.commit()
        h.evolve()
        for _ in range(3):
            h.commit()
        h.dense, h.duplicates = True, False
        h.state, h.net, h.changes, h.every = (getattr(History, name).__get__(h) for name in ("state", "net", "changes", "every"))
        h.db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
        h.db.query("CREATE VIRTUAL TABLE temp.d USING tessera_changes(t, columns='w')")
        for k in range(6):
            before, after = h.r.sample(h.times, 2)
            where, holds = h.r.choice(BOXES)
            wanted = [row for row in h.net(before, after) if holds(*row[1:3])]
            same(h.changes(f"{before}, {after}", where), wanted, f"blocks {i}: net {before} to {after} {where}")
            same(h.changes(f"{before}, {after}", where, order="ORDER BY y, x DESC"), sorted(wanted, key=lambda row: (row[2], -row[1])), "in order")
            of_w = sorted((row for row in wanted if row[0] != "update" or row[5] != row[6]), key=lambda row: row[1:3])
            same(h.db.query(f"SELECT x, y, old_w, new_w FROM d({before}, {after}) {'WHERE ' + where if where else ''} ORDER BY x, y"), [row[1:3] + row[5:7] for row in of_w], "one attribute")
        same(h.changes(f"{h.times[2]}, {h.times[-1]}, 'every'", more=", changed_at"), h.every(h.times[2], h.times[-1]), "every")
        committed = h.state(None)
        h.db.query("BEGIN")
        h.write()
        now = h.state("NULL) WHERE n IS NOT NULL --")   # what the transaction has written has no time, but has n
        same(h.changes("'committed'"), between(committed, now, attributes=6), "the transaction's own")
        h.db.query("ROLLBACK")


def test_dense_blocks_cost():
    """Of a block that is written again, only cells that differ are looked up; all of them are counted as compared. A merge in between changes nothing about it."""
    for merged in (False, True):
        dense_blocks_cost(merged)


def dense_blocks_cost(merged):
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{os.path.join(tempfile.mkdtemp(dir=host.FOLDER), 'a')}', kind=dense, x INT32 DIMENSION(0, 99, 10), y INT32 DIMENSION(0, 99, 50), v INT32)")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    rows = "WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT OR REPLACE INTO t SELECT a.i, b.i, a.i"
    db.query(f"{rows} FROM n a, n b")
    first = db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]
    time.sleep(0.003)
    db.query(f"{rows} + (b.i = 7) FROM n a, n b WHERE a.i BETWEEN 20 AND 39")
    if merged:
        db.query("SELECT tessera_consolidate('db:t')")
    db.query("SELECT tessera_reset_stats()")
    same(db.query(f"SELECT count(*), sum(new_v - old_v) FROM c({first})"), [(20, 20)], "the changes")
    values = dict(db.query("SELECT name, value FROM tessera_stats"))
    same((values["changes_found"], values["keys_compared"]), (20, 2000), "found and compared")
    if values["rows_returned"] > 100:
        raise AssertionError(f"{values['rows_returned']} rows for 20 changes")


def test_dense_blocks_that_are_hidden():
    """A commit that is published after a merge over its time lies above the merged cells: what is compared is what is there, not what the merge has written."""
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, x INT32 DIMENSION(0, 99, 10), y INT32 DIMENSION(0, 99, 50), v INT32)")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    times, late = [], None
    for value in ("1", "3 + 2 * (b.i = 7)", "3", "3"):
        before = set(os.listdir(f"{path}/__commits")) if times else set()
        time.sleep(0.003)
        db.query(f"WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT OR REPLACE INTO t SELECT a.i, b.i, {value} FROM n a, n b")
        times.append(db.value("SELECT last_write FROM tessera_array('db:t')"))
        if len(times) == 2:
            name, = set(os.listdir(f"{path}/__commits")) - before
            fragment = f"{path}/__fragments/{name.removesuffix('.wrt')}"
            late = host.uncommit(path, [name])
            os.rename(fragment, f"{path}-late")   # a merge leaves the time of a fragment that is under way alone
    db.query("SELECT tessera_consolidate('db:t')")
    os.rename(f"{path}-late", fragment)
    late()
    wanted = [("update", 100, 7, 7, 300, 500)]
    same(db.query(f"SELECT 'update', count(*), min(n.y), max(n.y), sum(o.v), sum(n.v) FROM t({times[2]}) o JOIN t n USING(x, y) WHERE o.v <> n.v"), wanted, "two reads")
    same(db.query(f"SELECT change, count(*), min(y), max(y), sum(old_v), sum(new_v) FROM c({times[2]}) GROUP BY 1"), wanted, "the changes")


def test_in_the_database():
    histories("inside", False, True)


def test_duplicates():
    histories("duplicates", False, False, True)


def test_transaction():
    for kind in ((False, False), (False, True), (True, False), (True, True), (False, False, True)):
        h = History(random.Random(f"transaction {SEED}"), *kind)
        before, dense = h.state(None), kind[0]
        h.db.query("BEGIN")
        h.db.query("INSERT OR REPLACE INTO t(x, y, v, w) VALUES(1, 1, 99, 'z'), (7, 7, 1, 'y')")
        if not dense:
            h.db.query("DELETE FROM t WHERE x = 2")
        if not h.duplicates:   # rows of one place cannot be told apart
            h.db.query("UPDATE t SET v = 50 WHERE x = 3" + (" AND written_at IS NOT NULL" if dense else ""))
        if dense:   # what the transaction has written has no time, as what nobody has written
            now = h.state("NULL) WHERE written_at IS NOT NULL OR v >= 50 OR (x, y) IN ((7, 7), (1, 1)) --")
        wanted = between(before, now if dense else h.state(None), h.duplicates, len(h.attributes))
        same(h.changes("'committed'"), wanted, f"{kind}: the transaction's own")
        same(h.changes("'committed'", more=", changed_at"), [row + (None,) for row in wanted], "they have no time yet")
        same([row for row in h.changes(f"{h.times[-1]}, NULL, 'every'", more=", changed_at")], [row + (None,) for row in wanted], "the last step of every")
        same(h.changes(f"{h.times[0]}, 'committed'"), between(h.state(h.times[0]), before, h.duplicates, len(h.attributes)), "until the last commit")
        h.db.query("ROLLBACK")
        same(h.changes("'committed'"), [], "rolled back")


def test_a_commit_during_a_scan_is_not_in_it():
    """Steps of 'every' are the commits that were there when the scan began."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db, other = Database(os.path.join(folder, "one.db")), Database(os.path.join(folder, "other.db"))
    place = host.literal(os.path.join(folder, "a"))
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}, x INT32 DIMENSION(0, 99, 10), v INT32)")
    other.query(f"CREATE VIRTUAL TABLE t USING tessera({place})")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    for x in (1, 2):
        db.query("INSERT INTO t VALUES(?, 0)", (x,))
        time.sleep(0.002)
    rows = db.cursor("SELECT x FROM c(0, NULL, 'every')")
    same(db.next(rows), (1,))
    other.query("INSERT INTO t VALUES(3, 0)")
    same([db.next(rows), db.next(rows)], [(2,), None])
    same([row[0] for row in db.query("SELECT x FROM c(0, NULL, 'every')")], [1, 2, 3], "a scan that begins later")


def test_columns():
    """The option columns: the other attributes are neither shown nor compared. Names that meet; labels; plans."""
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', change INT32 DIMENSION(0, 99, 10), v INT32, before INT32, new_v INT32)")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    db.query("CREATE VIRTUAL TABLE temp.d USING tessera_changes(t, columns='before, new_v')")
    names = [row[0] for row in db.query("SELECT name FROM pragma_table_xinfo('c')")]
    same(names, ["change", "change_2", "old_v", "new_v", "old_before", "new_before", "old_new_v", "new_new_v", "changed_at", "before", "after", "mode"], "names")
    db.query("INSERT INTO t VALUES(1, 1, 1, 1), (2, 2, 2, 2)")
    first = db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]
    time.sleep(0.003)
    db.query("UPDATE t SET v = 9 WHERE change = 1")
    db.query("UPDATE t SET before = 8 WHERE change = 2")
    same(db.query(f"SELECT change_2, old_v, new_v FROM c({first}) ORDER BY change_2"), [(1, 1, 9), (2, 2, 2)], "all attributes")
    same(db.query(f"SELECT change_2, old_before, new_before FROM d({first})"), [(2, 2, 8)], "chosen attributes")
    same(db.query(f"SELECT change_2, before, after, mode FROM c({first}, NULL, 'net') WHERE before = {first} AND change_2 = 1"), [(1, first, None, "net")], "arguments are columns with the value that was passed")
    same(db.query(f"SELECT change_2 FROM c({first}) WHERE before = 0"), [], "no time is two times")
    for option in ("columns='v,x'", "columns='change'", "columns=v", "rows='v'", "columns='v', columns='v'"):
        fails(db, f"CREATE VIRTUAL TABLE temp.e USING tessera_changes(t, {option})", "columns")
    plan = db.plan(f"SELECT * FROM c({first}) WHERE change_2 BETWEEN 1 AND 5 ORDER BY change_2 DESC")
    same(plan, "SCAN c VIRTUAL TABLE INDEX 3:before=? AND change_2>=? AND change_2<=? ORDER BY change_2 DESC NET", "the plan")


def test_texts_that_are_never_null():
    """Other bytes, another length, none: each is a change; the same text, written again, is none. Of so many cells a dense array compares blocks, a sparse one looks
    each up."""
    old, new = ("same", "abc", "abc", "abc", "", ""), ("same", "abd", "ab", "", "a", "")
    for kind in ("kind=sparse", "kind=dense"):
        for more in ("", ", n INT32 NOT NULL"):
            db = Database()
            path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
            db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', {kind}, x INT32 DIMENSION(0, 99, 100), s TEXT NOT NULL{more})")
            for texts in (old, new):
                time.sleep(0.003)
                db.query(f"INSERT OR REPLACE INTO t(x, s{more[:3]}) VALUES" + ", ".join(f"({x}, '{texts[x % 6]}'{', 1' if more else ''})" for x in range(60)))
                first = db.query("SELECT last_write FROM tessera_array('db:t')")[0][0] if texts is old else first
            db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
            same(db.query(f"SELECT x, change, old_s, new_s FROM c({first}) ORDER BY x"), [(x, "update", old[x % 6], new[x % 6]) for x in range(60) if x % 6 not in (0, 5)], kind + more)


def test_labels():
    """Labels of dimensions are hidden columns, and restrict what is read."""
    db = Database()
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db.query(f"CREATE VIRTUAL TABLE names USING tessera('{folder}/names', kind=dense, x INT32 DIMENSION(0, 9, 10), name TEXT)")
    db.query("INSERT INTO names VALUES(0, 'zero'), (1, 'one'), (2, 'two')")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{folder}/a', x INT32 DIMENSION(0, 9, 10), v INT32, labels='x={folder}/names')")
    db.query("INSERT INTO t VALUES(0, 1), (1, 1), (2, 1)")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    first = db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]
    time.sleep(0.003)
    db.query("UPDATE t SET v = v + x WHERE x < 2")
    db.query("DELETE FROM t WHERE x = 2")
    same(sorted(db.query(f"SELECT name, change, old_v, new_v FROM c({first})")), [("one", "update", 1, 2), ("two", "delete", 1, None)], "labels")
    same(db.query(f"SELECT x FROM c({first}) WHERE name = 'two'"), [(2,)], "a label in WHERE")


def test_options_of_the_table():
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT32 DIMENSION(0, 9, 10), v INT32)")
    for v in (1, 2, 3):
        db.query(f"INSERT OR REPLACE INTO t VALUES(1, {v})")
        time.sleep(0.003)
    times = [row[0] for row in db.query("SELECT time FROM tessera_log('db:t')")]
    db.table("old", path, f", as_of={times[1]}")
    db.table("late", path, f", since={times[1]}")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(old)")
    db.query("CREATE VIRTUAL TABLE temp.d USING tessera_changes(late)")
    same(db.query(f"SELECT old_v, new_v FROM c({times[0]})"), [(1, 2)], "after is at most the table's as_of")
    same(db.query(f"SELECT old_v, new_v FROM c({times[0]}, {times[2]})"), [(1, 2)], "also if it is given")
    fails(db, f"SELECT * FROM d({times[0]})", "option since")
    token = db.query(f"SELECT tessera_token('{path}')")[0][0]
    fails(db, f"SELECT * FROM c('{token}')", "option as_of")


def test_labels_of_enumerations():
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{os.path.join(tempfile.mkdtemp(dir=host.FOLDER), 'a')}', x INT32 DIMENSION(0, 9, 10), e TEXT ENUM('red', 'green'))")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    db.query("INSERT INTO t VALUES(1, 'red')")
    time.sleep(0.003)
    db.query("UPDATE t SET e = 'green'")
    first = db.query("SELECT time FROM tessera_log('db:t') LIMIT 1")[0][0]
    same(db.query(f"SELECT change, x, old_e, new_e FROM c({first})"), [("update", 1, "red", "green")], "labels")


def test_cost():
    """The changes of a corner read the tiles of that corner, not the array."""
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{os.path.join(tempfile.mkdtemp(dir=host.FOLDER), 'a')}', x INT32 DIMENSION(0, 99999, 1000), v INT32, capacity=100)")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    db.query("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 49999) INSERT INTO t SELECT i, i FROM n")
    first = db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]
    time.sleep(0.003)
    db.query("UPDATE t SET v = -1 WHERE x BETWEEN 100 AND 149")

    def tiles():
        values = dict(db.query("SELECT name, value FROM tessera_stats"))
        return values["tiles_read"] + values["tiles_cached"]
    db.query("SELECT tessera_reset_stats()")
    same(db.query(f"SELECT count(*), sum(new_v) FROM c({first})"), [(50, -50)], "the changes")
    few = tiles()
    db.query("SELECT tessera_reset_stats()")
    db.query(f"SELECT sum(v) FROM t({first})")
    if few * 4 > tiles():
        raise AssertionError(f"{few} tiles for 50 changes, {tiles()} for the whole array")


def uncached(columns):
    """Returns a connection with a new table t(columns) that keeps no tiles, and its table of changes c."""
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', cache_mb=0, {columns})")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    return db


def test_each_tile_is_decoded_once():
    """Look-ups of a diff and of a feed that come in another order than the tiles: nothing is cached, and yet each tile is decoded about once."""
    db = uncached("x INT32 DIMENSION(0, 99, 100), y INT32 DIMENSION(0, 99, 2), v INT32, capacity=200")
    db.query("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO t SELECT a.i, b.i, a.i FROM n a, n b")
    first, token = db.query("SELECT last_write, tessera_token('db:t') FROM tessera_array('db:t')")[0]
    time.sleep(0.003)
    db.query("UPDATE t SET v = -1 WHERE x % 10 = 3 AND y % 3 = 1")
    for arguments, columns in ((first, "count(*), sum(new_v), sum(old_v)"), (f"'{token}'", "count(*), sum(new_v), 15840")):
        db.query("SELECT tessera_reset_stats()")
        same(db.query(f"SELECT {columns} FROM c({arguments})"), [(330, -330, 15840)], "the changes")
        values = dict(db.query("SELECT name, value FROM tessera_stats"))
        if values["cells_decoded"] > 3 * 10000:
            raise AssertionError(f"{values['cells_decoded']} cells decoded for 330 changes in 50 tiles of 200: {arguments}")


def test_more_keys_than_are_read_together():
    """A feed, and the bags of an array with duplicates, look up more keys than a window has, in another order than the tiles: no tile is read for each key."""
    for kind in ("", ", duplicates=yes"):
        db = uncached(f"kind=sparse, x INT32 DIMENSION(0, 349, 350), y INT32 DIMENSION(0, 199, 2), v INT32, capacity=700{kind}")
        db.query("INSERT INTO t VALUES(0, 0, 0)")
        first, token = db.query("SELECT last_write, tessera_token('db:t') FROM tessera_array('db:t')")[0]
        time.sleep(0.003)
        db.query("WITH x(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM x WHERE i < 349), y(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM y WHERE i < 199) INSERT OR REPLACE INTO t SELECT x.i, y.i, 1 FROM x, y")
        for arguments in (f"'{token}'", first):
            db.query("SELECT tessera_reset_stats()")
            count = db.query(f"SELECT count(*) FROM c({arguments}) WHERE new_v = 1")[0][0]
            same(count, 70000, f"the changes{kind}: {arguments}")
            decoded = dict(db.query("SELECT name, value FROM tessera_stats"))["cells_decoded"]
            if decoded > 12 * 70000:
                raise AssertionError(f"{decoded} cells decoded for 70,000 changes in tiles of 700{kind}: {arguments}")
        db.close()


def test_deletes_of_single_cells():
    """Cells at the corners of tiles and within, deleted one by one and by lists, in one transaction: with coordinates of each kind, in each order, with duplicates; places without a cell, too."""
    kinds = {"k INT32 DIMENSION(-50, 49, 10)": range(-9, 9), "k FLOAT64 DIMENSION(-9, 9, 2)": [i / 2 for i in range(-9, 9)], "k FLOAT32 DIMENSION": [-2.0**90, -0.5, 0.0, 0.5, 2.0**90],
             "k TEXT DIMENSION": ["", "a", "aa", "ab", "b", "é", "z" * 40], "k UINT64 DIMENSION": [0, 1, 2**40, 2**62]}
    for declared, values in kinds.items():
        for more in ("", ", cell_order=col", ", cell_order=hilbert", ", duplicates=1"):
            if "hilbert" in more and "TEXT" in declared:
                continue
            db, values = Database(), list(values)
            path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
            db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=sparse, {declared}, y INT32 DIMENSION(0, 9, 5), v INT32, capacity=4{more})")
            db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
            db.query("BEGIN")
            for k in values:
                db.query("INSERT INTO t VALUES(?, 1, 1), (?, 2, 2), (?, 7, 3)", (k, k, k))
            db.query("COMMIT")
            first, token = db.query("SELECT last_write, tessera_token('db:t') FROM tessera_array('db:t')")[0]
            time.sleep(0.003)
            before = db.query("SELECT k, y, v FROM t")
            db.query("BEGIN")
            for k in values:
                db.query("DELETE FROM t WHERE k = ? AND y = 1", (k,))
            db.query("DELETE FROM t WHERE k IN (?, ?) AND y IN (7, 9)", (values[0], values[-1]))
            db.query("DELETE FROM t WHERE k = ? AND y = 5", (values[1],))
            db.query("COMMIT")
            left = set(db.query("SELECT k, y, v FROM t"))
            gone = sorted((row for row in before if row not in left), key=repr)
            same(len(gone), len(values) + 2, declared + more)
            same(sorted(db.query(f"SELECT k, y, old_v FROM c({first}) WHERE change = 'delete'"), key=repr), gone, declared + more)
            same(sorted(db.query("SELECT k, y FROM c(?) WHERE change = 'delete'", (token,)), key=repr), sorted((row[:2] for row in gone), key=repr), declared + more)
            same(db.value("SELECT count(*) FROM c(?)", (first,)), len(gone), declared + more)
            db.close()


def test_growth():
    """Scattered changes and deletes cost the same in a small array and in one of ten times the size."""
    def read(cells):
        db = Database()
        path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
        db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT32 DIMENSION(0, 999999, 10000), v INT32, capacity=100)")
        db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
        db.query(f"WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {cells - 1}) INSERT INTO t SELECT i, i FROM n")
        first = db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]
        time.sleep(0.003)
        db.query("BEGIN")
        for i in range(20):
            db.query(f"DELETE FROM t WHERE x = {i * 400}")
            db.query(f"UPDATE t SET v = -1 WHERE x = {i * 400 + 7}")
        db.query("COMMIT")
        db.query("SELECT tessera_reset_stats()")
        same(db.query(f"SELECT change, count(*) FROM c({first}) GROUP BY 1"), [("delete", 20), ("update", 20)], "the changes")
        values = dict(db.query("SELECT name, value FROM tessera_stats"))
        same(values["changes_found"], 40, "changes_found")
        same(values["keys_compared"], 40, "keys_compared")
        return values["tiles_read"] + values["tiles_cached"]
    small, large = read(8000), read(80000)
    if large > small * 1.3:
        raise AssertionError(f"{small} tiles in a small array, {large} in a large one")


def scattered(kind, options=""):
    """An array of 20,000 cells, of which every seventh has changed, and which is opened with options. Returns the database, and the time and the token before."""
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE made USING tessera('{path}', {kind}, x INT32 DIMENSION(0, 19999, 500), v INT32, s TEXT{'' if 'dense' in kind else ', capacity=300'})")
    db.query("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999) INSERT INTO made SELECT i, i, 'text ' || i % 10 FROM n")
    first, token = db.query("SELECT last_write, tessera_token('db:made') FROM tessera_array('db:made')")[0]
    time.sleep(0.003)
    db.query("UPDATE made SET v = -v, s = s || '!' WHERE x % 7 = 3")
    if "dense" not in kind:
        db.query("DELETE FROM made WHERE x % 70 = 1")
    db.query("DROP TABLE made")
    db.table("t", path, options)
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    return db, first, token


KINDS = ("kind=dense", "kind=sparse", "kind=sparse, duplicates=yes")


def test_threads_and_little_memory():
    """The rows are the same with any number of threads, and within a megabyte."""
    for kind in KINDS:
        seen = []
        for options in ("", ", threads=1", ", threads=2", ", threads=7", ", threads=7, memory_mb=1, cache_mb=0"):
            db, first, token = scattered(kind, options)
            rows = db.query(f"SELECT change, x, old_v, new_v, old_s, new_s FROM c({first}) ORDER BY x, change, new_v")
            same(db.query(f"SELECT change, x, old_v, new_v, old_s, new_s FROM c({first}, NULL, 'every') ORDER BY x, change, new_v"), rows, f"{kind}{options}: every")
            same(rows == db.query(f"SELECT change, x, old_v, new_v, old_s, new_s FROM c({first}, NULL) ORDER BY x DESC, change DESC, new_v DESC")[::-1], True, f"{kind}{options}: the order")
            same(len(db.query("SELECT x FROM c(?) WHERE change = 'write'", (token,))) >= len([row for row in rows if row[0] != "delete"]), True, f"{kind}{options}: the feed")
            seen.append(rows)
            db.close()
        same(len(seen[0]) > 2000 and seen[1:] == seen[:1] * 4, True, kind)


def test_interrupts():
    """A scan that is stopped at any of its polls says so, and the next one has all rows."""
    for kind in KINDS:
        db, first, token = scattered(kind)
        for sql in (f"SELECT count(*), sum(new_v), max(old_s) FROM c({first})", f"SELECT count(*), sum(new_v) FROM c({first}, NULL, 'every')", f"SELECT count(*), sum(new_v) FROM c('{token}')"):
            wanted, stops = db.query(sql), 0
            for polls in (1, 2, 3, 5, 10, 40, 100, 400):
                left = [polls]

                def stop():
                    left[0] -= 1
                    return left[0] <= 0
                db.raw.set_progress_handler(stop, 200)
                try:
                    same(db.query(sql), wanted, f"{kind}: {sql}")
                except Error as e:
                    same(e.code in (9, None), True, f"{kind}: {e.text}")   # SQLITE_INTERRUPT
                    stops += 1
                finally:
                    db.raw.set_progress_handler(None, 0)
                same(db.query(sql), wanted, f"{kind}: {sql} after it was stopped")
            same(stops > 3, True, f"{kind}: {sql} was stopped {stops} times")
        db.close()


def fails(db, sql, *words):
    try:
        rows = db.query(sql)
    except Error as e:
        for word in words:
            if word not in e.text:
                raise AssertionError(f"{sql}: {e.text!r} lacks {word!r}") from None
        return
    raise AssertionError(f"{sql}: {rows} instead of an error")


def test_gone():
    """A table of changes whose source is gone, the array or the table, says so, and can be dropped."""
    for inside in (False, True):
        folder = tempfile.mkdtemp(dir=host.FOLDER)
        file, path = os.path.join(folder, "data.db"), os.path.join(folder, "a")
        db = Database(file)
        place = "" if inside else f"'{path}', "
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({place}x INT32 DIMENSION(0, 9, 5), v INT32)")
        db.query("CREATE VIRTUAL TABLE c USING tessera_changes(t)")
        if inside:
            db.query("DROP TABLE t")
        db.close()
        if not inside:
            os.rename(path, path + "-away")
        db = Database(file)
        for sql in ("SELECT * FROM c", "SELECT change FROM c(0)"):
            host.check_contains(db.error(sql).text, "'t' is not a table of tessera; once" if inside else "array not found")
        assert "open the database again" not in db.error("CREATE VIRTUAL TABLE d USING tessera_changes(t)").text
        if not inside:
            os.rename(path + "-away", path)
            db.close()
            db = Database(file)
            same(db.query("SELECT * FROM c(0)"), [])
            db.close()
            os.rename(path, path + "-away")
            db = Database(file)
        db.query("DROP TABLE c")
        same(db.query("SELECT name FROM sqlite_schema WHERE name = 'c'"), [])
        db.close()


def test_source_in_temp():
    """A table of changes in temp finds its source as SQLite finds names: an array in temp, as tessera_attach makes, before one in main."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db = Database(os.path.join(folder, "data.db"))
    for name, value in (("main.t", 1), ("temp.t", 2), ("temp.u", 3), ("main.w", 4)):
        path = os.path.join(folder, name)
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera('{path}', x INT32 DIMENSION(0, 9, 5), v INT32)")
        db.query(f"INSERT INTO {name} VALUES(1, {value})")
    db.query(f"SELECT tessera_attach('{os.path.join(folder, 'temp.u')}', '{{\"prefix\":\"a\"}}')")
    db.query("CREATE TEMP TABLE w(x)")
    for name, source, value in (("temp.c", "t", 2), ("temp.d", "u", 3), ("temp.e", "atemp_u", 3), ("temp.f", "w", 4), ("temp.g", "main.t", 1),
                                ("main.h", "t", 1)):
        if source == "atemp_u":
            source = '"' + db.query("SELECT name FROM tessera_attached")[0][0] + '"'
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera_changes({source})")
        same(db.query(f"SELECT new_v FROM {name}(0)"), [(value,)], name)
    fails(db, "CREATE VIRTUAL TABLE i USING tessera_changes(u)", "is not a table of tessera")
    db.query("DROP TABLE temp.t")
    db.query("CREATE VIRTUAL TABLE temp.t USING tessera_changes(t)")
    same(db.query("SELECT new_v FROM temp.t(0)"), [(1,)], "a table with the name of its source")
    db.close()


def test_names_that_are_taken():
    """Dimensions may have the names that a hidden argument would get, however many underscores it has."""
    db = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "data.db"))
    names = ["_" * i + "before" for i in range(35)]
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({', '.join(f'{n} INT8 DIMENSION(0, 9, 10)' for n in names)}, v INT8)")
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    same(db.query("SELECT name FROM pragma_table_xinfo('c') WHERE hidden LIMIT 1"), [("_" * 35 + "before",)])
    db.close()


def test_errors():
    h = History(random.Random(1), True, False)
    db, first, last = h.db, h.times[1], h.times[-1]
    fails(db, "SELECT * FROM c", "before is missing", "a token")
    fails(db, "SELECT * FROM c(NULL)", "before is missing")
    fails(db, f"SELECT * FROM c({first}, {last}, 'all')", "net or every")
    fails(db, f"SELECT * FROM c({last}, {first}, 'every')", "goes forward")
    fails(db, "SELECT * FROM c('soon')", "before")
    fails(db, "CREATE VIRTUAL TABLE temp.d USING tessera_changes(places)", "places")
    fails(db, "CREATE VIRTUAL TABLE temp.d USING tessera_changes", "needs a table")
    db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    fails(db, f"SELECT * FROM c({first}, {last})", "is lost", "the past is whole")
    fails(db, f"SELECT * FROM c({first - 2}, {last}, 'every')", "lost", "net change is shown")
    same(len(db.query(f"SELECT * FROM c({first - 2}, {last})")) > 0, True, "net around what is lost")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
