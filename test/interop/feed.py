"""A storm for feeds: processes of tessera and of TileDB write, delete, merge and vacuum one array, at stepped clocks, and are
killed. A consumer applies the feed of tessera_changes from token to token, dies between applying and storing, too, and
ends with exactly the array's state: before recovery, and after it.

usage: feed.py EXTENSION SECONDS SEED
"""
import collections
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process

SIDE, ATTEMPTS = 12, 200
KINDS = {"sparse": "kind=sparse, capacity=20", "dense": "kind=dense", "duplicates": "kind=sparse, capacity=20, duplicates=1"}


def connect(extension, folder, name):
    db = sqlite3.connect(os.path.join(folder, name), isolation_level=None, timeout=10)
    db.enable_load_extension(True)
    db.load_extension(extension)
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").fetchone():
        kind = KINDS[os.path.basename(folder)]
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{folder}/a', {kind}, if_exists=open, x INT32 DIMENSION(0, {SIDE - 1}, 4), y INT32 DIMENSION(0, {SIDE - 1}, 4), v INT32)")
    return db


# ---- Those who write

def tessera(extension, folder, seed):
    r = random.Random(seed)
    db = connect(extension, folder, f"{seed.split()[0]}.db")
    dense, duplicates = folder.endswith("dense"), folder.endswith("duplicates")
    db.execute("SELECT tessera_recover('db:t')")
    while True:
        kind = r.random()
        try:
            if kind < 0.65 or (dense and kind < 0.9):
                rows = ", ".join(f"({r.randrange(SIDE)}, {r.randrange(SIDE)}, {r.randrange(1000)})" for _ in range(r.randrange(1, 8)))
                db.execute(f"INSERT OR REPLACE INTO t VALUES {rows}")
            elif kind < 0.9:
                db.execute(f"DELETE FROM t WHERE x = {r.randrange(SIDE)} AND y {r.choice(['=', '<'])} {r.randrange(SIDE)}" if duplicates or kind < 0.8 else f"DELETE FROM t WHERE v < {r.randrange(30)}")
            elif kind < 0.96:
                db.execute("SELECT tessera_consolidate('db:t')")
            else:
                db.execute("SELECT tessera_vacuum('db:t')")
        except sqlite3.Error:   # busy, or what another process has merged meanwhile
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        time.sleep(r.random() * 0.02)


def tiledb(_, folder, seed):
    import numpy
    import tiledb as library
    r, path = random.Random(seed), os.path.join(folder, "a")
    dense = folder.endswith("dense")
    while True:
        # a clock that goes wrong: up to a second late, so that these commits come between those that were seen
        now = int(time.time() * 1000) - r.choice([0, 0, r.randrange(1000)])
        kind = r.random()
        try:
            if kind < 0.7:
                with library.open(path, "w", timestamp=now) as array:
                    if dense:
                        x, y = r.randrange(SIDE - 2), r.randrange(SIDE - 2)
                        array[x:x + 2, y:y + 2] = numpy.array([[r.randrange(1000) for _ in range(2)] for _ in range(2)], numpy.int32)
                    else:
                        keys = list({(r.randrange(SIDE), r.randrange(SIDE)) for _ in range(5)})
                        array[[k[0] for k in keys], [k[1] for k in keys]] = numpy.array([r.randrange(1000) for _ in keys], numpy.int32)
            elif kind < 0.85 and not dense:
                with library.open(path, "d", timestamp=now) as array:
                    array.query(cond=r.choice([f"x == {r.randrange(SIDE)} and y < {r.randrange(SIDE)}", f"v < {r.randrange(100)}"])).submit()
            elif kind < 0.93:
                library.consolidate(path)
            else:
                library.vacuum(path)
        except library.TileDBError:   # a merge of another process came first
            pass
        time.sleep(r.random() * 0.05)


# ---- The one who reads

class Consumer:
    def __init__(self, extension, folder, seed):
        self.db, self.r = connect(extension, folder, "consumer.db"), random.Random(seed)
        self.duplicates, self.dense = folder.endswith("duplicates"), folder.endswith("dense")
        self.db.execute("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
        self.batches = self.rows_taken = self.resets = self.again = 0
        self.read_everything()

    def query(self, sql, *values):
        for attempt in range(ATTEMPTS):
            try:
                return self.db.execute(sql, values).fetchall()
            except sqlite3.Error as e:
                if "read everything" in str(e) or "is lost" in str(e) or attempt == ATTEMPTS - 1:
                    raise
                self.again += 1   # a vacuum came between the listing and the reading
                time.sleep(0.02)

    def state(self):
        rows = collections.defaultdict(list)
        for x, y, v in self.query("SELECT x, y, v FROM t" + (" WHERE written_at IS NOT NULL" if self.dense else "")):
            rows[x, y].append(v)
        return {key: sorted(values, key=repr) for key, values in rows.items()}

    def read_everything(self):
        self.token = self.query("SELECT tessera_token('db:t')")[0][0]
        self.rows = collections.defaultdict(list, self.state())

    def poll(self, stores=True):
        new = self.query("SELECT tessera_token('db:t')")[0][0]
        try:
            batch = self.query("SELECT change, x, y, new_v FROM c(?, ?)", self.token, new)
        except sqlite3.Error as e:
            if "read everything" not in str(e) and "is lost" not in str(e):
                raise
            self.resets += "read everything" in str(e)
            if "read everything" in str(e):
                self.read_everything()
            return   # lost: merged and vacuumed since the token was made; the next one will do
        for change, x, y, v in batch:
            if change == "delete":
                self.rows.pop((x, y), None)
            elif self.duplicates:
                self.rows[x, y].append(v)
            else:
                self.rows[x, y] = [v]
        self.batches += 1
        self.rows_taken += len(batch)
        if stores:
            self.token = new

    def check(self, when):
        self.poll()
        have, want = {key: sorted(values, key=repr) for key, values in self.rows.items() if values}, self.state()
        if have != want:
            different = sorted(key for key in have.keys() | want.keys() if have.get(key) != want.get(key))[:5]
            sys.exit(f"{when}: the consumer differs: " + ", ".join(f"{key}: has {have.get(key)}, the array {want.get(key)}" for key in different))


def consumer(extension, folder, seed):
    c = Consumer(extension, folder, seed)
    print("ready", flush=True)
    while not os.path.exists(os.path.join(folder, "stop")):
        c.poll(c.r.random() < 0.8)
        time.sleep(c.r.random() * 0.1)
    c.check("before recovery")
    for name in sorted(os.listdir(folder)):
        if name.startswith("tessera") and name.endswith(".db"):
            writer = connect(extension, folder, name)
            writer.execute("SELECT tessera_recover('db:t')")
            writer.close()
            c.check(f"after the recovery of {name}")
    c.db.execute("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    c.check("after a merge")
    print(json.dumps({"batches": c.batches, "rows": c.rows_taken, "resets": c.resets, "again": c.again, "cells": len(c.rows)}), flush=True)


# ---- The storm

class Storm:
    def __init__(self, extension, folder, r):
        self.extension, self.folder, self.r, self.started, self.running = extension, folder, r, 0, {}

    def start(self, role, name):
        environment = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        preload = os.environ.get("TESSERA_PRELOAD")
        if preload and role != "tiledb":
            environment["LD_PRELOAD"] = preload
        self.started += 1
        words = [sys.executable, os.path.abspath(__file__), "--" + role, self.extension, self.folder, f"{name} {self.started} {self.r.random()}"]
        self.running[name] = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE if role == "consumer" else None, stderr=None if role == "consumer" else subprocess.DEVNULL, text=True)
        return self.running[name]

    def kill(self, name):
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()

    def run(self, seconds):
        os.mkdir(self.folder)
        reader = self.start("consumer", "consumer")
        if reader.stdout.readline() != "ready\n":
            raise SystemExit("the consumer has failed")
        for name in ("tessera1", "tessera2", "tiledb"):
            self.start(name.rstrip("12"), name)
        end, kills = time.time() + seconds, 0
        while time.time() < end and reader.poll() is None:
            time.sleep(self.r.random())
            name = self.r.choice(["tessera1", "tessera2"] * 3 + ["tiledb"])
            kills += 1
            self.kill(name)
            self.start(name.rstrip("12"), name)
        for name in ("tessera1", "tessera2", "tiledb"):
            self.kill(name)
        with open(os.path.join(self.folder, "stop"), "w", encoding="utf-8"):
            pass
        told, _ = reader.communicate(timeout=300)
        if reader.returncode:
            raise SystemExit(f"{self.folder}: the consumer has failed: {told}")
        told = json.loads(told)
        print(f"{os.path.basename(self.folder)}: {kills} kills, {told}")
        if told["rows"] == 0:
            raise SystemExit("nothing came: the storm was none")
        if told["resets"] > told["batches"] / 4:
            raise SystemExit("the consumer had to read everything too often")


def main():
    extension, seconds, seed = os.path.abspath(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    end_with_this_process()
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            Storm(extension, os.path.join(folder, kind), r).run(seconds / len(KINDS))


if __name__ == "__main__":
    roles = {"--tessera": tessera, "--tiledb": tiledb, "--consumer": consumer}
    if sys.argv[1] in roles:
        roles[sys.argv[1]](*sys.argv[2:5])
    else:
        main()
