"""tessera_changes: random histories with deletes, moves, merges and vacuums; net, 'every' and the changes of the open
transaction are compared with what two reads of the table at those times show.

usage: changes.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import sys
import tempfile
import time

import host
from host import Database, Error, same

SEED = int(os.environ.get("SEED", 20261128))
ROUNDS = int(os.environ.get("ROUNDS", 3))
SIDE, COMMITS, PAIRS = 8, 12, 12
BOXES = [("", lambda x, y: True), ("x >= 3", lambda x, y: x >= 3), ("x = 2 AND y < 5", lambda x, y: x == 2 and y < 5)]


class History:
    def __init__(self, r, dense, inside):
        self.r, self.dense = r, dense
        folder = tempfile.mkdtemp(dir=host.FOLDER)
        self.db = Database(os.path.join(folder, "data.db"))
        place = "" if inside else f"'{os.path.join(folder, 'a')}', "
        self.db.query(f"""CREATE VIRTUAL TABLE t USING tessera({place}kind={'dense' if dense else 'sparse'}, x INT32 DIMENSION(0, {SIDE - 1}, 4),
                          y INT32 DIMENSION(0, {SIDE - 1}, 4), v FLOAT64, w TEXT)""")
        self.db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
        self.times = []
        for _ in range(COMMITS):
            self.commit()

    def commit(self):
        r, kind = self.r, self.r.random()
        time.sleep(0.002)
        if kind < 0.6 or self.dense:
            rows = ", ".join(f"({r.randrange(SIDE)}, {r.randrange(SIDE)}, {r.choice(['NULL', '0.0', '-0.0', '1', '2'])}, {r.choice(['NULL', repr('a'), repr('b')])})" for _ in range(r.randrange(1, 9)))
            self.db.query(f"INSERT OR REPLACE INTO t VALUES {rows}")
        elif kind < 0.8:
            self.db.query(f"DELETE FROM t WHERE {r.choice('xyv')} = {r.randrange(4)}")
        else:
            self.db.query(f"UPDATE t SET {r.choice(['v = v + 1', f'x = (x + 1) % {SIDE}', f'y = {SIDE - 1} - y'])} WHERE x < {r.randrange(SIDE)}")
        last = self.db.query("SELECT last_write FROM tessera_array('db:t')")[0][0]
        if last:
            self.times = self.times or [last - 1]
            self.times.append(last)
        if r.random() < 0.15:
            self.db.query("SELECT tessera_consolidate('db:t')")
            if not self.dense:   # a dense array would lose its past
                self.db.query("SELECT tessera_vacuum('db:t')")

    def state(self, at):
        only = "WHERE written_at IS NOT NULL" if self.dense else ""
        return {row[:2]: row[2:] for row in self.db.query(f"SELECT x, y, v, w FROM t({'' if at is None else at}) {only}")}

    def net(self, before, after):
        return between(self.state(before), self.state(after))

    def changes(self, arguments, where="", more=""):
        return sorted(self.db.query(f"SELECT change, x, y, old_v, new_v, old_w, new_w{more} FROM c({arguments}) {'WHERE ' + where if where else ''}"), key=repr)

    def every(self, before, after):
        rows = []
        for at in range(before + 1, after + 1):   # each millisecond is a step
            rows += [row + (at,) for row in self.net(at - 1, at)]
        return sorted(rows, key=repr)


def between(a, b):
    rows = []
    for key in a.keys() | b.keys():
        if a.get(key) != b.get(key):
            old, new = a.get(key, (None, None)), b.get(key, (None, None))
            rows.append(("insert" if key not in a else "delete" if key not in b else "update",) + key + (old[0], new[0], old[1], new[1]))
    return sorted(rows, key=repr)


def histories(name, dense, inside):
    for i in range(ROUNDS):
        seed = f"{name} {SEED} {i}"
        h = History(random.Random(seed), dense, inside)
        for _ in range(PAIRS):
            before, after = h.r.choice(h.times) - h.r.choice([0, 0, 1]), h.r.choice(h.times)
            where, holds = h.r.choice(BOXES)
            wanted = [row for row in h.net(before, after) if holds(*row[1:3])]
            same(h.changes(f"{before}, {after}", where), wanted, f"{seed}: net {before} to {after} {where}")
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


def test_in_the_database():
    histories("inside", False, True)


def test_transaction():
    for inside in (False, True):
        h = History(random.Random(f"transaction {SEED}"), False, inside)
        before = h.state(None)
        h.db.query("BEGIN")
        h.db.query("INSERT OR REPLACE INTO t VALUES(1, 1, 99, 'z'), (7, 7, 1, 'y')")
        h.db.query("DELETE FROM t WHERE x = 2")
        h.db.query("UPDATE t SET v = 50 WHERE x = 3")
        wanted = between(before, h.state(None))
        same(h.changes("'committed'"), wanted, "the transaction's own")
        same(h.changes("'committed'", more=", changed_at"), [row + (None,) for row in wanted], "they have no time yet")
        same([row for row in h.changes(f"{h.times[-1]}, NULL, 'every'", more=", changed_at")], [row + (None,) for row in wanted], "the last step of every")
        same(h.changes(f"{h.times[0]}, 'committed'"), between(h.state(h.times[0]), before), "until the last commit")
        h.db.query("ROLLBACK")
        same(h.changes("'committed'"), [], "rolled back")


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


def fails(db, sql, *words):
    try:
        rows = db.query(sql)
    except Error as e:
        for word in words:
            if word not in e.text:
                raise AssertionError(f"{sql}: {e.text!r} lacks {word!r}") from None
        return
    raise AssertionError(f"{sql}: {rows} instead of an error")


def test_errors():
    h = History(random.Random(1), True, False)
    db, first, last = h.db, h.times[1], h.times[-1]
    fails(db, "SELECT * FROM c", "before is missing")
    fails(db, "SELECT * FROM c(NULL)", "before is missing")
    fails(db, f"SELECT * FROM c({first}, {last}, 'all')", "net or every")
    fails(db, f"SELECT * FROM c({last}, {first}, 'every')", "goes forward")
    fails(db, "SELECT * FROM c('soon')", "before")
    fails(db, "CREATE VIRTUAL TABLE temp.d USING tessera_changes(places)", "places")
    fails(db, "CREATE VIRTUAL TABLE temp.d USING tessera_changes", "needs a table")
    db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    fails(db, f"SELECT * FROM c({first}, {last})", "is lost", "the past is whole")
    fails(db, f"SELECT * FROM c({first - 2}, {last}, 'every')", "lost", "net change can be told")
    same(len(db.query(f"SELECT * FROM c({first - 2}, {last})")) > 0, True, "net around what is lost")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
