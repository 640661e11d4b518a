"""Measures data in and out in one step: arrays from Arrow tables and SELECTs, and Arrow streams of arrays, beside rows through sqlite3 and beside
TileDB-Py. The cases of a row take turns in one process; a ratio is that of their least times, which are processor time of all threads: other work on
the machine changes that little. Each read comes from a new connection, without decoded tiles in its cache. The targets are those that
docs/performance-data.md has.

usage: frames.py EXTENSION FOLDER [POINTS [SIDE]]
"""
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time

import environment

PACKAGES = [["numpy", "pandas<3", "pyarrow", "tiledb"]]
TURNS = 3


class Frames:
    def __init__(self, extension, folder, count, side):
        import numpy as np
        import pandas as pd
        import pyarrow as pa
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "python"))
        import tessera
        self.np, self.pd, self.pa, self.tessera, self.extension = np, pd, pa, tessera, extension
        tessera.loading.loadable_path = lambda: extension
        self.folder = os.path.join(folder, "frames-data")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        random = np.random.default_rng(7)
        self.cells = {"lat": random.uniform(-90, 90, count), "lon": random.uniform(-180, 180, count), "v": random.normal(size=count), "k": random.integers(0, 1000, count).astype("i4"),
                      "name": np.array([f"station {i % 5000}" for i in range(count)], dtype=object)}
        self.table = pa.table(self.cells)
        self.block = np.cumsum(random.normal(size=(side, side)).astype("f4"), axis=1)

    def path(self, name):
        path = os.path.join(self.folder, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        return path

    def connect(self, path=":memory:"):
        db = sqlite3.connect(path, isolation_level=None)
        db.enable_load_extension(True)
        db.load_extension(self.extension)
        return db

    def row(self, title, cases, targets):
        """`targets`: {case: how many times as long as the first case it should take, at least}; a negative number: at most."""
        times = {name: [] for name in cases}
        for _ in range(TURNS):
            for name, case in cases.items():
                if times[name] and min(times[name]) > 20:
                    continue
                start = time.process_time()
                case()
                times[name].append(time.process_time() - start)
        first, *others = cases
        own = min(times[first])
        for name in others or [first]:
            ratio, target = min(times[name]) / own, targets.get(name)
            missed = target is not None and (ratio < target if target > 0 else ratio > -target)
            goal = "" if target is None else f"{'at most ' if target < 0 else ''}{abs(target)}"
            print(f"| {title} | {own * 1e3:.0f} ms | {name} | {min(times[name]) * 1e3:.0f} ms | {'**' if missed else ''}{ratio:.2f}{'**' if missed else ''} | {goal} |", flush=True)

    def fresh(self, path):
        """The array at a path in a connection that has read nothing yet."""
        return self.tessera.open(path, connection=self.connect())

    def peak(self, path, size):
        """Reads all batches of an array in another process, and keeps none of them."""
        out = subprocess.run([sys.executable, os.path.abspath(__file__), "--peak", self.extension, path], capture_output=True, text=True, check=True).stdout
        grown = int(out)
        print(f"| peak memory of a stream of {size / 1e6:.0f} MB | {grown / 2**20:.0f} MiB | its size | | {'**' if 2 * grown > size else ''}{grown / size:.2f}{'**' if 2 * grown > size else ''} | at most 0.5 |", flush=True)

    # ---- In ----------------------------------------------------------------------------------------------------------

    def create(self):
        import tiledb
        np = self.np
        options = {"dimensions": ["lat", "lon"], "duplicates": True}
        rows = list(zip(*[c.tolist() for c in self.cells.values()]))
        declared = "lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), v FLOAT64 NOT NULL FILTERS(byteshuffle, zstd(5)), k INT32 NOT NULL FILTERS(byteshuffle, zstd(5)), name TEXT NOT NULL FILTERS(zstd(5)), cell_order=hilbert, duplicates=yes"

        def executemany():
            db = self.connect()
            db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{self.path('rows')}', {declared})")
            db.execute("BEGIN")
            db.executemany("INSERT INTO t VALUES(?, ?, ?, ?, ?)", rows)
            db.execute("COMMIT")

        def filters():
            return tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(5)])

        def schema():
            dimensions = [tiledb.Dim(n, domain=(-e, e), dtype="f8", filters=filters()) for n, e in (("lat", 90), ("lon", 180))]
            attributes = [tiledb.Attr("v", dtype="f8", filters=filters()), tiledb.Attr("k", dtype="i4", filters=filters()), tiledb.Attr("name", dtype="ascii", var=True, filters=tiledb.FilterList([tiledb.ZstdFilter(5)]))]
            return tiledb.ArraySchema(tiledb.Domain(*dimensions), attributes, sparse=True, allows_duplicates=True, cell_order="hilbert", capacity=10000)

        def assign():
            path = self.path("assigned")
            tiledb.Array.create(path, schema())
            with tiledb.open(path, "w") as array:
                array[self.cells["lat"], self.cells["lon"]] = {name: self.cells[name] for name in ("v", "k", "name")}

        def from_pandas():
            frame = self.pd.DataFrame(self.cells).set_index(["lat", "lon"])
            tiledb.from_pandas(self.path("frame"), frame, sparse=True, allows_duplicates=True, capacity=10000, full_domain=False)

        self.row(f"an Arrow table of {len(rows):,} points becomes an array", {"create": lambda: self.tessera.create(self.path("made"), self.table, **options), "executemany": executemany, "TileDB from_pandas": from_pandas, "TileDB A[..] =": assign},
                 {"executemany": 2.5, "TileDB from_pandas": 2, "TileDB A[..] =": 1.3})
        source = os.path.join(self.folder, "source.db")
        db = self.connect(source)
        db.execute("CREATE TABLE source(lat REAL, lon REAL, v REAL, k INTEGER, name TEXT)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO source VALUES(?, ?, ?, ?, ?)", rows)
        db.execute("COMMIT")

        def create_as():
            db.execute("SELECT tessera_create_as(?, 'SELECT * FROM source', '{\"dimensions\":[\"lat\",\"lon\"],\"duplicates\":true}')", (self.path("as"),)).fetchone()

        create_as()
        text = db.execute("SELECT tessera_ddl(?)", (os.path.join(self.folder, "as"),)).fetchone()[0]
        own = text[text.index(",") + 1:text.rindex(")")]   # the columns and options of that array

        def insert_select(columns):
            db.execute("DROP TABLE IF EXISTS t")
            db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{self.path('selected')}', {columns})")
            db.execute("INSERT INTO t SELECT * FROM source")

        self.row("CREATE and INSERT ... SELECT, the same array", {"INSERT": lambda: insert_select(own), "tessera_create_as": create_as}, {"tessera_create_as": -1.3})
        self.row("the same, columns NOT NULL within known bounds", {"INSERT": lambda: insert_select(declared.replace("INT32", "INT64")), "tessera_create_as": create_as}, {"tessera_create_as": -1.3})
        db.close()

    # ---- Out ---------------------------------------------------------------------------------------------------------

    def dense(self):
        import tiledb
        path, side = self.path("raster"), len(self.block)
        tile = min(side, 500)
        filters = tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(5)])
        domain = tiledb.Domain(*[tiledb.Dim(n, domain=(0, side - 1), tile=tile, dtype="i4") for n in "yx"])
        tiledb.Array.create(path, tiledb.ArraySchema(domain, [tiledb.Attr("v", dtype="f4", filters=filters)]))
        with tiledb.open(path, "w") as array:
            array[:] = self.block
        opened, pa, fresh = tiledb.open(path), self.pa, self.fresh
        db = self.connect()
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{path}', cache_mb=0)")
        part, rows = f"SELECT v FROM t WHERE y < {max(1, side // 8)}", (0, max(1, side // 8) - 1)
        self.row(f"v of {side} x {side} as a stream", {"stream": lambda: pa.table(fresh(path).select("v")), "TileDB return_arrow": lambda: opened.query(attrs=["v"], return_arrow=True).df[:]}, {"TileDB return_arrow": 1.0})
        self.row("v alone", {"v": lambda: pa.table(fresh(path).select("v")), "y, x, v": lambda: pa.table(fresh(path))}, {"y, x, v": -1.7})
        self.row("v of an eighth as a stream", {"stream": lambda: pa.table(fresh(path).sel(y=rows).select("v")), "rows of sqlite3": lambda: db.execute(part).fetchall()}, {"rows of sqlite3": 40})
        self.row("v to numpy", {"numpy": lambda: fresh(path).numpy("v"), "TileDB A[:]": lambda: opened[:]}, {"TileDB A[:]": 1.2})
        self.peak(path, self.block.size * 12)

    def sparse(self):
        import tiledb
        path, pa, fresh = os.path.join(self.folder, "made"), self.pa, self.fresh
        opened = tiledb.open(path)
        db = self.connect()
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{path}', cache_mb=0)")
        self.row("all points as a stream", {"stream": lambda: pa.table(fresh(path)), "TileDB return_arrow": lambda: opened.query(return_arrow=True).df[:], "rows of sqlite3": lambda: db.execute("SELECT * FROM t").fetchall()},
                 {"TileDB return_arrow": 1.7, "rows of sqlite3": 10})
        self.row("all points to pandas", {"stream": lambda: pa.table(fresh(path)).to_pandas(), "TileDB .df": lambda: opened.df[:]}, {"TileDB .df": 1.7})


def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))


def peak(extension, path):
    import pyarrow as pa
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "python"))
    import tessera
    tessera.loading.loadable_path = lambda: extension
    array = tessera.open(path)
    with open("/proc/self/clear_refs", "w") as file:   # the peak is that of the present
        file.write("5")
    before = status("VmRSS")
    for batch in pa.RecordBatchReader.from_stream(array):
        del batch
    print(status("VmHWM") - before)


def main():
    if sys.argv[1] == "--peak":
        return peak(*sys.argv[2:4])
    extension, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    environment.inside(folder, "frames", PACKAGES)
    frames = Frames(extension, folder, *([int(n) for n in sys.argv[3:5]] + [2_000_000, 4000][len(sys.argv) - 3:]))
    print("| what | time | beside | its time | ratio | target |\n|---|---|---|---|---|---|")
    frames.create()
    frames.dense()
    frames.sparse()
    print(f"\nThe peak of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    shutil.rmtree(frames.folder)


if __name__ == "__main__":
    main()
