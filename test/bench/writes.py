"""The writing part of the bench: cells by INSERT ... SELECT, a dense block, and arrays of many fragments. Each case makes new files, and its
time is from opening them until they are closed.

usage: writes.py consolidate SYSTEM PATH [LIBRARY]     in a process of its own: prints seconds and the peak of its memory in MiB
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import time

import numpy as np

import data as made
from systems import DECLARED, Rtree, Sqlite, Tessera, Tiledb, npy, tessera_columns


class Writes:
    def __init__(self, size, folder, library, available):
        self.count, self.side, self.fragments = made.SIZES[size][4:]
        self.folder, self.library, self.available = os.path.join(folder, "writes"), library, available
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.cells = made.points(self.count, seed=11)
        self.count = len(self.cells["x"])
        self.rows = list(zip(*[c.tolist() for c in self.cells.values()]))
        self.block = made.raster(max(self.side, 500))[:self.side, :self.side]
        self.source = os.path.join(self.folder, "source.db")
        import apsw
        connection = apsw.Connection(self.source)
        connection.execute(f"CREATE TABLE source({DECLARED['points']}); BEGIN")
        connection.executemany("INSERT INTO source VALUES (?, ?, ?, ?, ?)", self.rows)
        connection.execute("COMMIT")
        connection.close()

    def path(self, name):
        path = os.path.join(self.folder, name)
        for leftover in (path, path + "-wal", path + "-shm", path + ".db", path + ".db-wal", path + ".db-shm"):
            shutil.rmtree(leftover) if os.path.isdir(leftover) else os.path.exists(leftover) and os.remove(leftover)
        return path

    def insert_select(self, system, path, declared, selected):
        connection = system().connect(path + ".db")
        connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-200000").fetchall()
        connection.execute(declared)
        connection.execute("ATTACH ? AS s", (self.source,))
        connection.execute("BEGIN")
        connection.execute(f"INSERT INTO r SELECT {selected} FROM s.source")
        count = connection.changes()
        connection.execute("COMMIT")
        connection.close()
        return count

    def million(self):
        """Returns {system: function that inserts the cells and returns their number}."""
        def tiledb_rows(path):
            import tiledb
            tiledb.Array.create(path, Tiledb().schema("points"))
            x, y, v, k, name = zip(*self.rows)
            with tiledb.open(path, "w") as array:
                array[np.array(x), np.array(y)] = {"v": np.array(v), "k": np.array(k, dtype="i4"), "name": np.array(name, dtype=object)}
            return self.count

        def tiledb_columns(path):
            import tiledb
            c = self.cells
            tiledb.Array.create(path, Tiledb().schema("points"))
            with tiledb.open(path, "w") as array:
                array[c["x"], c["y"]] = {a: c[a] for a in made.ATTRIBUTES["points"]}
            return self.count

        cases = {
            "tessera": lambda path: self.insert_select(Tessera, path, f"CREATE VIRTUAL TABLE r USING tessera('{path}', {tessera_columns('points')})", "*"),
            "sqlite": lambda path: self.insert_select(Sqlite, path, f"CREATE TABLE r({DECLARED['points']}, PRIMARY KEY(x, y)) WITHOUT ROWID", "*"),
            "rtree": lambda path: self.insert_select(Rtree, path, Rtree.declared, "rowid, x, x, y, y, v, k, name")}
        if "tiledb" in self.available:
            cases.update(tiledb=tiledb_rows, columns=tiledb_columns)
        return cases

    def dense(self):
        """Writes the block: through tessera_write_npy here, from numpy in the other systems."""
        def tessera(path):
            connection = Tessera().connect(":memory:")
            connection.execute(f"CREATE VIRTUAL TABLE r USING tessera('{path}', {tessera_columns('raster', (4000, 4000))})")
            connection.execute("SELECT tessera_write_npy('db:r', 'v', ?, ?)", (npy(self.block), '{"y":0,"x":0}')).fetchall()
            connection.close()
            return self.block.size

        def tiledb(path):
            import tiledb
            tiledb.Array.create(path, Tiledb().schema("raster", (4000, 4000)))
            with tiledb.open(path, "w") as array:
                array[0:self.side, 0:self.side] = self.block
            return self.block.size

        def zarr(path):
            import zarr
            codec = zarr.codecs.BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")
            array = zarr.create_array(store=path, shape=(4000, 4000), chunks=made.TILES["raster"], dtype="f4", compressors=codec)
            array[0:self.side, 0:self.side] = self.block
            return self.block.size

        found = {"tessera": tessera, "tiledb": tiledb, "zarr": zarr}
        return {name: case for name, case in found.items() if name in self.available}

    def many_fragments(self):
        """Makes an array of many fragments of 1,000 cells each. TileDB writes it if it is installed, so that both libraries read the same."""
        path = self.path("fragments")
        random = np.random.default_rng(5)
        declared = f"x INT64 DIMENSION(0, {made.SIDE - 1}, {made.SIDE // 10}), y INT64 DIMENSION(0, {made.SIDE - 1}, {made.SIDE // 10}), v FLOAT64 NOT NULL FILTERS(zstd(5))"
        connection = Tessera().connect(":memory:")
        connection.execute(f"CREATE VIRTUAL TABLE r USING tessera('{path}', {declared}, capacity=10000)")
        for i in range(self.fragments):
            x, y, v = random.integers(0, made.SIDE, 1000), random.integers(0, made.SIDE, 1000), random.random(1000)
            if "tiledb" in self.available:
                import tiledb
                with tiledb.open(path, "w") as array:
                    array[x, y] = v
            else:
                connection.execute("BEGIN")
                connection.executemany("INSERT INTO r VALUES (?, ?, ?)", zip(x.tolist(), y.tolist(), v.tolist()))
                connection.execute("COMMIT")
        connection.close()
        return path

    BOX = (400_000, 430_000)

    def opening(self, path, boxed):
        """Opens a new connection and the array, and reads a corner without cells, so that only the fragments' boxes are examined; or reads a small box."""
        corner = (0, 0)
        box = self.BOX if boxed else corner

        def tessera(_):
            connection = Tessera().connect(":memory:")
            connection.execute(f"CREATE VIRTUAL TABLE r USING tessera('{path}')")
            found = connection.execute("SELECT count(*) FROM r WHERE x BETWEEN ? AND ? AND y BETWEEN ? AND ?", box * 2).fetchall()[0][0]
            connection.close()
            return found

        def tiledb(_):
            import tiledb
            with tiledb.open(path, ctx=tiledb.Ctx()) as array:
                if not boxed:
                    return 0  # the reader has opened the fragments by now
                return len(array.query(attrs=["v"]).multi_index[box[0]:box[1], box[0]:box[1]]["v"])

        return {"tessera": tessera, **({"tiledb": tiledb} if "tiledb" in self.available else {})}

    def consolidating(self, path):
        """Returns {system: (seconds, MiB)} of consolidating a copy of the array in a process of its own, without the start of the process."""
        found = {}
        for name in ("tessera", "tiledb"):
            if name not in self.available:
                continue
            copy = self.path("consolidated")
            shutil.copytree(path, copy)
            result = subprocess.run([sys.executable, __file__, "consolidate", name, copy, self.library], capture_output=True, text=True)
            if result.returncode:
                print(f"{name} does not consolidate: {(result.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
            else:
                found[name] = tuple(json.loads(result.stdout))
        return found


def peak():
    """Returns the peak of the process's memory in MiB. (ru_maxrss would include the size of the bench that started this process.)"""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def consolidate(name, path, library):
    if name == "tessera":
        Tessera.library = library
        connection = Tessera().connect(":memory:")
        start = time.perf_counter()
        connection.execute("SELECT tessera_consolidate(?)", (path,)).fetchall()
    else:
        import tiledb
        start = time.perf_counter()
        tiledb.consolidate(path)
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, peak()]))


if __name__ == "__main__":
    consolidate(sys.argv[2], sys.argv[3], sys.argv[4])
