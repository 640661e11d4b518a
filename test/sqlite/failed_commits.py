"""Transactions whose COMMIT fails, because another connection reads, and that go on: with other rows, with ROLLBACK TO, with
the COMMIT again. Random transactions change arrays with auto_consolidate, in the database and beside it, and ordinary
tables in the same way; both have the same rows at each step, also after statements that fail in their midst.

usage: failed_commits.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
ROUNDS: how many histories (12); SEED: the first one's
"""
import os
import random
import sys
import tempfile

import host
from host import Database, Error, same

ROUNDS = int(os.environ.get("ROUNDS", 12))
SEED = int(os.environ.get("SEED", 100))
TRANSACTIONS = 80   # of a history
BUSY = 5
OVERFLOW = "abs(-9223372036854775807 - 1)"   # an error when it is computed


class Table:
    """A virtual table `tN` and an ordinary table `oN` with the same rows: `kind` is dense, sparse, or duplicates."""

    def __init__(self, history, number):
        chance = history.chance
        self.number, self.kind = number, chance.choice(("dense", "sparse", "duplicates"))
        path = chance.choice(("", "", f"'{os.path.join(history.folder, f'a{number}')}', "))
        options = [f"auto_consolidate={chance.randint(4, 6)}", *{"dense": ["kind=dense"], "duplicates": ["duplicates=yes"]}.get(self.kind, [])]
        if self.kind != "dense" and chance.random() < 0.4:
            options.append("auto_vacuum_s=0")
        dimension = "x INTEGER DIMENSION(0, 199, 10)" if self.kind == "dense" else "x INTEGER DIMENSION"
        history.db.query(f"CREATE VIRTUAL TABLE t{number} USING tessera({path}{', '.join(options)}, {dimension}, a INTEGER)")
        history.db.query(f"CREATE TABLE o{number}(x INTEGER {'' if self.kind == 'duplicates' else 'PRIMARY KEY'}, a INTEGER)")


class History:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.folder = tempfile.mkdtemp(dir=host.FOLDER)
        self.db = self.connect()
        self.db.query(f"PRAGMA journal_mode = {self.chance.choice(('delete', 'delete', 'wal'))}")
        self.tables = [Table(self, n) for n in range(self.chance.randint(1, 2))]
        self.reader = self.connect()
        self.value, self.savepoints, self.busy = 0, [], 0

    def connect(self):
        db = Database(os.path.join(self.folder, "t.db"))
        db.query("PRAGMA synchronous = OFF")
        db.query("PRAGMA busy_timeout = 0")
        return db

    def compare(self, db=None):
        db = db or self.db
        for table in self.tables:
            n = table.number
            same(db.query(f"SELECT x, a FROM t{n} WHERE a IS NOT NULL ORDER BY 1, 2"), db.query(f"SELECT x, a FROM o{n} ORDER BY 1, 2"))

    def both(self, table, sql, parameters=()):
        """Executes the statement in both tables; {} is the table."""
        for letter in "to":
            self.db.query(sql.format(f"{letter}{table.number}"), parameters)

    def change(self):
        table = self.chance.choice(self.tables)
        for _ in range(self.chance.choice((1, 1, 2, 7))):
            x, what = self.chance.randrange(200), self.chance.random()
            self.value += 1
            if what < 0.7 or table.kind == "dense":
                self.both(table, f"INSERT {'' if table.kind == 'duplicates' else 'OR REPLACE '}INTO {{}} VALUES(?, ?)", (x, self.value))
            elif what < 0.85 or table.kind == "duplicates":
                self.both(table, "DELETE FROM {} WHERE x BETWEEN ?1 AND ?1 + 5", (x,))
            else:
                self.both(table, "UPDATE {} SET a = a + 1000000 WHERE x BETWEEN ?1 AND ?1 + 9", (x,))

    def fail(self):
        """A statement whose third row is an error: its other rows are undone."""
        table = self.chance.choice(self.tables)
        for letter in "to":
            error = self.db.error(f"INSERT OR REPLACE INTO {letter}{table.number} SELECT value, CASE value WHEN 103 THEN {OVERFLOW} ELSE 1 END FROM json_each('[101, 102, 103]')")
            host.check_contains(error.text, "integer overflow")

    def save(self):
        self.savepoints.append(f"s{len(self.savepoints)}")
        self.db.query(f"SAVEPOINT {self.savepoints[-1]}")

    def undo(self):
        if self.savepoints:
            at = self.chance.randrange(len(self.savepoints))
            self.db.query(f"ROLLBACK TO {self.savepoints[at]}")
            del self.savepoints[at + 1:]

    def release(self):
        if self.savepoints:
            at = self.chance.randrange(len(self.savepoints))
            self.db.query(f"RELEASE {self.savepoints[at]}")
            del self.savepoints[at:]

    def commit(self):
        """Returns true if the COMMIT has not failed. Often the other connection reads at that time."""
        self.reader.query("BEGIN")
        try:
            if self.chance.random() < 0.6:
                self.reader.query("SELECT count(*) FROM o0")
        except Error as e:   # while the lock of a COMMIT that failed keeps new readers away
            same(e.code, BUSY)
        try:
            self.db.query("COMMIT")
            return True
        except Error as e:
            same(e.code, BUSY)
            self.busy += 1
            return False
        finally:
            self.reader.query("ROLLBACK")

    def transaction(self):
        self.db.query("BEGIN")
        self.savepoints = []
        for step in self.chance.choice(([], [self.save])), self.chance.choice(([], [], [self.fail])), [self.change], self.chance.choice(([], [self.undo])):
            for action in step:
                action()
        for _ in range(self.chance.randint(0, 4)):
            self.chance.choice((self.save, self.save, self.undo, self.release, self.compare, self.fail, self.change, self.change))()
        while not self.commit():
            what = self.chance.choice((self.undo, self.undo, self.change, self.change, self.compare, None, None, None, None, "ROLLBACK"))
            if what == "ROLLBACK":
                self.db.query(what)
                return
            if what:
                what()

    def run(self):
        for n in range(TRANSACTIONS):
            self.transaction()
            self.compare()
            if self.chance.random() < 0.05:
                self.db.query(f"SELECT tessera_upkeep('db:t{self.chance.choice(self.tables).number}')")
                self.compare()
            if n % 10 == 9:
                self.compare(self.reader)
        for table in self.tables:
            same(self.db.query(f"SELECT severity, file, message FROM tessera_check('db:t{table.number}') WHERE severity <> 'note'"), [])
        fresh = self.connect()
        self.compare(fresh)
        merges = self.db.value("SELECT value FROM tessera_stats WHERE name = 'auto_merges'")
        for db in fresh, self.reader, self.db:
            db.close()
        return self.busy, merges


def test_histories():
    busy = merges = 0
    for seed in range(SEED, SEED + ROUNDS):
        try:
            done = History(seed).run()
        except Exception as e:
            raise AssertionError(f"SEED={seed} ROUNDS=1: {e}") from e
        busy, merges = busy + done[0], merges + done[1]
    assert busy > ROUNDS and merges > ROUNDS, f"{busy} COMMITs failed, {merges} merges"


if __name__ == "__main__":
    host.main(sys.modules[__name__])
