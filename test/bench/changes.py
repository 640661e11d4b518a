"""Measures what changed, feeds and copies, beside what does the same elsewhere: EXCEPT of two reads, pandas on two reads of TileDB-Py, SQLite's sessions
through apsw, Icechunk's diff with values, and rsync. The cases of a row take turns in one process; a ratio is that of their least times, which are
processor time of all threads and child processes. The targets are those that docs/performance-data.md has.

usage: changes.py EXTENSION FOLDER [CELLS]
"""
import os
import random
import resource
import shutil
import subprocess
import sys
import time

import environment

PACKAGES = [["numpy", "pandas<3", "tiledb", "apsw", "icechunk", "zarr"]]
TURNS, SIDE, WRITTEN, DELETED = 3, 10000, 1500, 500


def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def row(title, cases, targets):
    """`targets`: {case: how many times as long as the first case it should take, at least}; a negative number: at most."""
    times = {name: [] for name in cases}
    for _ in range(TURNS):
        for name, case in cases.items():
            start = spent()
            case()
            times[name].append(spent() - start)
    first, *others = cases
    for name in others or [first]:
        ratio, target = min(times[name]) / max(min(times[first]), 1e-4), targets.get(name)
        missed = target is not None and (ratio < target if target > 0 else ratio > -target)
        goal = "" if target is None else f"{'at most ' if target < 0 else ''}{abs(target)}"
        print(f"| {title} | {min(times[first]) * 1e3:.1f} ms | {name} | {min(times[name]) * 1e3:.1f} ms | {'**' if missed else ''}{ratio:.2f}{'**' if missed else ''} | {goal} |", flush=True)


def connect(extension):
    import apsw
    db = apsw.Connection(":memory:")
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def one(db, sql, *values):
    return db.execute(sql, values).fetchall()[0]


class Sparse:
    """An array on a square grid, of which scattered cells of the first `side` rows and columns are written again and deleted in one commit."""

    def __init__(self, extension, folder, name, cells, changed=None):
        self.db, self.path = connect(extension), os.path.join(folder, name)
        side, step = int(cells ** 0.5), 10
        changed = int((changed or cells) ** 0.5)
        self.db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{self.path}', kind=sparse, x INT32 DIMENSION(0, {SIDE - 1}, 100), y INT32 DIMENSION(0, {SIDE - 1}, 100), v FLOAT64)")
        self.db.execute(f"WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {side - 1}) INSERT INTO t SELECT a.i * {step}, b.i * {step}, a.i + b.i FROM n a, n b")
        self.before, self.token = one(self.db, "SELECT last_write, tessera_token('db:t') FROM tessera_array('db:t')")
        time.sleep(0.01)
        r = random.Random(1)
        self.keys = list({(r.randrange(changed) * step, r.randrange(changed) * step) for _ in range(2 * (WRITTEN + DELETED))})[:WRITTEN + DELETED]
        self.db.execute("BEGIN")
        self.apply("t")
        self.db.execute("COMMIT")
        self.db.execute("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")

    def apply(self, table):
        for i, key in enumerate(self.keys):
            self.db.execute(f"INSERT OR REPLACE INTO {table} VALUES(?, ?, -1)" if i < WRITTEN else f"DELETE FROM {table} WHERE x = ? AND y = ?", key)

    def expect(self, rows):
        if rows != WRITTEN + DELETED:
            raise SystemExit(f"{rows} changes instead of {WRITTEN + DELETED}")

    def net(self):
        self.expect(one(self.db, "SELECT count(*), sum(new_v) FROM c(?)", self.before)[0])

    def box(self):
        one(self.db, f"SELECT count(*), sum(new_v) FROM c(?) WHERE x < {SIDE // 10} AND y < {SIDE // 10}", self.before)

    def feed(self):
        self.expect(one(self.db, "SELECT count(*), sum(new_v) FROM c(?)", self.token)[0])

    def reverted(self):
        self.db.execute("BEGIN")
        self.expect(one(self.db, "SELECT tessera_revert('db:t', ?)", self.before)[0])
        self.db.execute("ROLLBACK")

    def excepted(self):
        old, new = f"SELECT * FROM t({self.before})", "SELECT * FROM t"
        self.expect(one(self.db, f"SELECT count(DISTINCT x * {SIDE} + y) FROM (SELECT * FROM ({old} EXCEPT {new}) UNION ALL SELECT * FROM ({new} EXCEPT {old}))")[0])

    def frames(self):
        import pandas
        import tiledb
        states = []
        for timestamp in (self.before, None):
            with tiledb.open(self.path, timestamp=timestamp) as array:
                states.append(pandas.DataFrame(dict(array[:])))
        both = states[0].merge(states[1], on=["x", "y"], how="outer", suffixes=("_old", "_new"), indicator=True)
        self.expect(((both._merge != "both") | (both.v_old != both.v_new)).sum())

    def session(self):
        import apsw
        session = apsw.Session(self.db, "main")
        session.attach("r")
        self.db.execute("BEGIN")
        self.apply("r")
        changeset = session.changeset()
        self.db.execute("ROLLBACK")
        self.expect(sum(1 for _ in apsw.Changeset.iter(changeset)))


class Dense:
    """60 x 180 x 360 cells, of which one step is written again with few other values."""

    def __init__(self, extension, folder):
        import numpy
        self.db, self.path, self.folder = connect(extension), os.path.join(folder, "dense"), folder
        self.db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{self.path}', kind=dense, t INT32 DIMENSION(0, 59, 10), y INT32 DIMENSION(0, 179, 45), x INT32 DIMENSION(0, 359, 90), v FLOAT64)")
        self.db.execute("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 359) INSERT INTO t SELECT a.i, b.i, c.i, a.i + b.i + c.i / 1000.0 FROM n a, n b, n c WHERE a.i < 60 AND b.i < 180")
        self.before = one(self.db, "SELECT last_write FROM tessera_array('db:t')")[0]
        time.sleep(0.01)
        self.db.execute("INSERT OR REPLACE INTO t SELECT t, y, x, v + (y % 15 = 0) FROM t WHERE t = 30")
        self.db.execute("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
        self.numpy, self.count = numpy, 12 * 360

    def expect(self, rows):
        if rows != self.count:
            raise SystemExit(f"{rows} changes instead of {self.count}")

    def net(self):
        self.expect(one(self.db, "SELECT count(*), sum(new_v) FROM c(?)", self.before)[0])

    def tiledb(self):
        import tiledb
        with tiledb.open(self.path, timestamp=self.before) as old, tiledb.open(self.path) as new:
            self.expect((old[:]["v"] != new[:]["v"]).sum())

    def icechunk(self):
        """Makes the same history in Icechunk. Returns a function: the chunks that differ, and the values of both sides compared; None if it is not installed."""
        try:
            import icechunk
            import zarr
        except ImportError:
            return None
        repository = icechunk.Repository.create(icechunk.local_filesystem_storage(os.path.join(self.folder, "icechunk")))
        session = repository.writable_session("main")
        group = zarr.group(store=session.store)
        t, y, x = self.numpy.ogrid[:60, :180, :360]
        array = group.create_array("v", shape=(60, 180, 360), chunks=(10, 45, 90), dtype="f8")
        array[:] = t + y + x / 1000.0
        first = session.commit("all")
        session = repository.writable_session("main")
        array = zarr.open_group(store=session.store)["v"]
        array[30] = array[30] + (self.numpy.arange(180)[:, None] % 15 == 0)
        second = session.commit("a step")

        def diff():
            chunks = [chunk for chunks in repository.diff(from_snapshot_id=first, to_snapshot_id=second).updated_chunks.values() for chunk in chunks]
            sides = [zarr.open_group(store=repository.readonly_session(snapshot_id=s).store, mode="r")["v"] for s in (first, second)]
            found = 0
            for chunk in chunks:
                where = tuple(slice(i * n, (i + 1) * n) for i, n in zip(chunk, (10, 45, 90)))
                found += (sides[0][where] != sides[1][where]).sum()
            self.expect(found)
        return diff


def copies(sparse, folder):
    to, other = os.path.join(folder, "copy"), os.path.join(folder, "rsync")

    def sync():
        if one(sparse.db, "SELECT tessera_sync('db:t', ?) ->> 'copied'", to)[0] and sync.again:
            raise SystemExit("something was copied twice")
        sync.again = True
    sync.again = False
    sync()
    cases = {"tessera": sync}
    if shutil.which("rsync"):
        def rsync():
            subprocess.run(["rsync", "-a", "--delete", sparse.path + "/", other], check=True)
        rsync()
        cases["rsync"] = rsync
    else:
        print("rsync is not installed: not tried")
    return cases


def main():
    extension, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    environment.inside(folder, "changes", PACKAGES)
    cells = int(sys.argv[3]) if len(sys.argv) > 3 else 1000000
    folder = os.path.join(folder, "changes-data")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    print("| task | tessera | beside | takes | ratio | target |\n|---|---|---|---|---|---|")
    sparse = Sparse(extension, folder, "sparse", cells)
    small, large = Sparse(extension, folder, "small", cells // 10), Sparse(extension, folder, "large", cells, cells // 10)
    sparse.db.execute("CREATE TABLE r(x INT, y INT, v REAL, PRIMARY KEY(x, y)) WITHOUT ROWID")
    sparse.db.execute("INSERT INTO r SELECT * FROM t(?)", (sparse.before,))
    row(f"2,000 of {cells:,} cells changed", {"tessera": sparse.net, "EXCEPT both ways": sparse.excepted, "pandas on TileDB-Py": sparse.frames}, {"EXCEPT both ways": 50})
    row("2,000 in a corner, and the array grows", {"a tenth": small.net, "ten times as large": large.net}, {"ten times as large": -1.3})
    row("a hundredth of the area", {"tessera": sparse.box, "EXCEPT both ways, all": sparse.excepted}, {})
    row("the same as a feed", {"tessera": sparse.feed, "SQLite's session": sparse.session}, {})
    row("a revert of them, and ROLLBACK", {"tessera": sparse.reverted, "EXCEPT both ways": sparse.excepted}, {})
    dense = Dense(extension, folder)
    cases = {"tessera": dense.net, "TileDB-Py and numpy": dense.tiledb}
    diff = dense.icechunk()
    if diff:
        cases["Icechunk, with values"] = diff
    row("a step of 60 written again", cases, {"TileDB-Py and numpy": 2})
    row("a copy that lacks nothing", copies(sparse, folder), {})
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
