"""tessera_changes over histories of TileDB: random writes, deletes, new attributes, merges and vacuums of TileDB between commits of tessera. Each mode is
compared with two as_of reads; where one of these is lost, what changed is an error, too.

usage: changes.py EXTENSION ROUNDS SEED
"""
import collections
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process

SIDE, STEPS, PAIRS = 6, 14, 30
KINDS = {"sparse": "kind=sparse, capacity=5", "dense": "kind=dense", "duplicates": "kind=sparse, capacity=5, duplicates=1"}


def connect(extension, folder):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{folder}/a', {KINDS[os.path.basename(folder)]}, if_exists=open, x INT32 DIMENSION(0, {SIDE - 1}, 3), y INT32 DIMENSION(0, {SIDE - 1}, 3), v INT32)")
    return db


def make(extension, folder, _):
    connect(extension, folder)


def history(_, folder, seed):
    """Writes with TileDB, each commit at a millisecond of its own, some of them earlier than others."""
    import numpy
    import tiledb
    r, path, dense, times = random.Random(seed), os.path.join(folder, "a"), folder.endswith("dense"), []
    free = list(range(1000, 1000 + 10 * STEPS, 5))
    evolved = False
    for step in range(STEPS):
        at = free.pop(0 if r.random() < 0.8 else r.randrange(min(4, len(free))))
        kind = r.random()
        if kind < 0.6 or step == 0:
            with tiledb.open(path, "w", timestamp=at) as array:
                names = [array.attr(i).name for i in range(array.nattr)]
                if dense:
                    x, y = r.randrange(SIDE - 2), r.randrange(SIDE - 2)
                    values = {name: numpy.array([[r.randrange(4) for _ in range(2)] for _ in range(2)], numpy.int32) for name in names}
                    array[x:x + 2, y:y + 2] = values
                else:
                    keys = list({(r.randrange(SIDE), r.randrange(SIDE)) for _ in range(6)})
                    array[[k[0] for k in keys], [k[1] for k in keys]] = {name: numpy.array([r.randrange(4) for _ in keys], numpy.int32) for name in names}
            times.append(at)
        elif kind < 0.75 and not dense:
            with tiledb.open(path, "d", timestamp=at) as array:
                array.query(cond=r.choice([f"x == {r.randrange(SIDE)}", f"v == {r.randrange(4)}", f"x == {r.randrange(SIDE)} and y < 3 and v < 3", f"x < 3 and y == {r.randrange(SIDE)}"])).submit()
            times.append(at)
        elif kind < 0.8 and not evolved and step > 3 and not dense:
            evolution = tiledb.ArraySchemaEvolution(tiledb.default_ctx())
            evolution.add_attribute(tiledb.Attr("w", dtype=numpy.int32))
            evolution.timestamp(at)
            evolution.array_evolve(path)
            evolved = True
        else:
            config = tiledb.Config()
            if r.random() < 0.5 and times:   # a part of the history
                config["sm.consolidation.timestamp_end"] = str(max(times) - 10)
            tiledb.consolidate(path, config=config)
            if r.random() < 0.4:
                tiledb.vacuum(path)
    print(json.dumps(sorted(times)))


class Comparison:
    def __init__(self, extension, folder, seed):
        self.db, self.r, self.dense, self.duplicates = connect(extension, folder), random.Random(seed), folder.endswith("dense"), folder.endswith("duplicates")
        self.db.execute("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
        self.names = [row[0] for row in self.db.execute("SELECT name FROM pragma_table_info('t') WHERE name IN ('v', 'w')")]

    def state(self, at, where):
        rows = collections.defaultdict(list)
        for row in self.db.execute(f"SELECT x, y, {', '.join(self.names)} FROM t({at}) WHERE {where}" + (" AND written_at IS NOT NULL" if self.dense else "")):
            rows[row[:2]].append(row[2:])
        return rows

    def between(self, before, after, where):
        """The brute force; None: a state is lost."""
        try:
            old, new = self.state(before, where), self.state(after, where)
        except sqlite3.Error as e:
            if "is lost" not in str(e):
                raise
            return None
        rows, none = [], (None,) * len(self.names)
        for key in old.keys() | new.keys():
            a, b = collections.Counter(old.get(key, [])), collections.Counter(new.get(key, []))
            gone, come = list((a - b).elements()), list((b - a).elements())
            if gone and come and not self.duplicates:
                rows.append(("update", *key, *gone[0], *come[0]))
            else:
                rows += [("delete", *key, *values, *none) for values in gone] + [("insert", *key, *none, *values) for values in come]
        return sorted(rows, key=repr)

    def changes(self, arguments, where, more=""):
        sides = ", ".join(f"{side}_{name}" for side in ("old", "new") for name in self.names)
        try:
            return sorted(self.db.execute(f"SELECT change, x, y, {sides}{more} FROM c({arguments}) WHERE {where}"), key=repr)
        except sqlite3.Error as e:
            if "lost" not in str(e):
                raise
            return None

    def run(self, times):
        told = 0
        for _ in range(PAIRS):
            before, after = self.r.choice(times) - self.r.randrange(2), self.r.choice(times)
            where = self.r.choice(["1", "x < 3", "x = 2 AND y > 1", "y >= 4"])
            wanted, got = self.between(before, after, where), self.changes(f"{before}, {after}", where)
            if got != wanted:
                sys.exit(f"net {before} to {after} WHERE {where}\n  got:      {got}\n  expected: {wanted}")
            told += got is not None
        before, after = times[0] - 1, times[-1]
        got = self.changes(f"{before}, {after}, 'every'", "1", ", changed_at")
        if got is not None:
            steps = [self.between(at - 1, at, "1") for at in sorted(set(times))]
            wanted = sorted((row + (at,) for at, rows in zip(sorted(set(times)), steps) for row in rows), key=repr)
            if got != wanted:
                sys.exit(f"every\n  got:      {got}\n  expected: {wanted}")
        print(json.dumps([told, got is not None]))


def compare(extension, folder, seed):
    Comparison(extension, folder, seed).run(json.loads(sys.argv[5]))


def main():
    extension, rounds, seed = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    end_with_this_process()

    def run(role, *words):
        environment = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        if role != "history" and os.environ.get("TESSERA_PRELOAD"):
            environment["LD_PRELOAD"] = os.environ["TESSERA_PRELOAD"]
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--" + role, extension, *words], env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{role} {words} has failed: {done.stdout}")
        return done.stdout
    told, every = collections.Counter(), collections.Counter()
    for kind in KINDS:
        for i in range(rounds):
            with tempfile.TemporaryDirectory() as parent:
                folder, words = os.path.join(parent, kind), f"{kind} {seed} {i}"
                os.mkdir(folder)
                run("make", folder, words)
                pairs, all_ = json.loads(run("compare", folder, words, run("history", folder, words)))
                told[kind] += pairs
                every[kind] += all_
    print(f"compared {dict(told)}, each commit of {dict(every)}")
    if min(told[kind] for kind in KINDS) < rounds:
        raise SystemExit("nearly everything was lost: nothing was compared")


if __name__ == "__main__":
    roles = {"--make": make, "--history": history, "--compare": compare}
    if sys.argv[1] in roles:
        roles[sys.argv[1]](*sys.argv[2:5])
    else:
        main()
