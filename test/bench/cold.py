"""Measures first reads: of arrays that no cache has yet, each way in a process of its own, in turns. The files are in the machine's memory. Ratios are
those of the least times, which are processor time of all threads: other work on the machine changes that little. Ways of libraries that are not
installed are left out. The goals are those that docs/performance-first-reads.md has.

usage: cold.py EXTENSION FOLDER [--turns N] [--only TEXT]
"""
import argparse
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import time

import environment

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))

PACKAGES = [["numpy", "pyarrow"], ["tiledb"], ["blosc2"], ["numcodecs", "zarr"], ["tensorstore"]]
SIDE, TILE = 4000, 500                      # of the grid
BIG, BIG_TILE, LOOKUPS = 10_000, 1000, 400  # of the grid for lookups
DAYS, LATS, LONS = 365, 180, 360            # of the cube
WIDE = 2000                                 # of the grid of five attributes
QUERIES = {
    "A: means of 30 days": "SELECT t/30, avg(v), count(*) FROM cube GROUP BY 1",
    "B: month and lat/4, WHERE v > 200": "SELECT t/31, lat/4, avg(v - 273.15) FROM cube WHERE t >= 31 AND v > 200 GROUP BY 1, 2",
    "D: CASE, max - min by lat": "SELECT lat, avg(CASE WHEN v > 293.15 THEN 1.0 ELSE 0.0 END), max(v) - min(v) FROM cube GROUP BY lat",
    "F: histogram": "SELECT floor(v/5)*5, count(*) FROM cube GROUP BY 1",
    "G: a slice": "SELECT sum(v*v), sum(v), count(*) FROM cube WHERE lat BETWEEN 30 AND 60",
}


def used():
    """Returns processor time of all threads in ms, page faults, and the peak of the process's memory in MiB."""
    r = resource.getrusage(resource.RUSAGE_SELF)
    return (r.ru_utime + r.ru_stime) * 1000, r.ru_minflt, r.ru_maxrss / 1024


def scheduled():
    """Returns how long the threads of the process have run, and waited for a processor, in ms; None where the system does not tell."""
    try:
        found = [list(map(int, open(f"/proc/self/task/{thread}/schedstat", encoding="ascii").read().split())) for thread in os.listdir("/proc/self/task")]
    except OSError:
        return None
    return sum(run + waited for run, waited, _ in found) / 1e6


# ---- Ways: each a function that prepares and returns the function to be measured, which is called in a new process ----

def block():
    import numpy
    out = numpy.empty((SIDE, SIDE), "f4")
    out[:] = 0   # its pages are not part of the read
    return out


def read_tessera(**options):
    import tessera
    array, out = tessera.open("grid", **options), block()
    return lambda: array.numpy("v", out)


def read_stream(**options):
    import pyarrow
    import tessera
    array = tessera.open("grid", **options)

    def read():
        for batch in pyarrow.RecordBatchReader.from_stream(array.select("v")):
            del batch
    return read


def read_tiledb():
    import tiledb
    array = tiledb.open("grid", ctx=tiledb.Ctx({"sm.compute_concurrency_level": 1, "sm.io_concurrency_level": 1}))
    block()
    return lambda: array[:]


def read_blosc2():
    import blosc2
    blosc2.set_nthreads(1)
    array, out = blosc2.open("grid.b2nd"), block()
    return lambda: array.get_slice_numpy(out, ([0, 0], [SIDE, SIDE])) if hasattr(array, "get_slice_numpy") else array[:]


def read_zarr():
    import zarr
    array, out = zarr.open_array("grid.zarr", mode="r"), block()

    def read():
        out[:] = array[:]
    return read


def read_tensorstore():
    import tensorstore
    array = tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": os.path.abspath("grid.zarr")},
                              "context": {"data_copy_concurrency": {"limit": 1}}}).result()
    out = block()

    def read():
        out[:] = array.read().result()
    return read


def connection(table, path):
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    db.load_extension(os.environ["TESSERA"])
    db.execute(f"CREATE VIRTUAL TABLE temp.{table} USING tessera('{path}')")
    return db


def look_up(warm):
    db, chance = connection("big", "big"), random.Random(5)
    places = [(chance.randrange(BIG), chance.randrange(BIG)) for _ in range(LOOKUPS)]
    db.execute("SELECT v FROM big WHERE y = 1 AND x = 1").fetchall()

    def look():
        for place in places:
            db.execute("SELECT v FROM big WHERE y = ? AND x = ?", place).fetchone()
    if warm:   # reads the tile of each cell whole
        places = [(y % BIG_TILE, x % BIG_TILE) for y, x in places]
        db.execute(f"SELECT sum(v * 1.0) FROM big WHERE y < {BIG_TILE} AND x < {BIG_TILE}").fetchall()
    return look


def ask(query, again):
    db = connection("cube", "cube")
    db.execute(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({QUERIES[query]})")
    if again:
        db.execute("SELECT * FROM q").fetchall()
    return lambda: db.execute("SELECT * FROM q").fetchall()


def ask_wide(where):
    db = connection("wide", "wide")
    db.execute(f"CREATE VIRTUAL TABLE temp.q USING tessera_query(threads=1, SELECT sum(b), sum(c), sum(d * e), count(*) FROM wide WHERE {where})")
    return lambda: db.execute("SELECT * FROM q").fetchall()


def read_cube():
    import numpy
    import tessera
    out = numpy.empty((DAYS, LATS, LONS), "f4")
    out[:] = 0
    array = tessera.open("cube", threads=1)
    return lambda: array.numpy("v", out)


WAYS = {
    "tessera": lambda: read_tessera(cache_mb=0, threads=1), "tessera, two threads": lambda: read_tessera(cache_mb=0, threads=2), "tessera, into the cache": lambda: read_tessera(threads=1),
    "tessera, stream": lambda: read_stream(cache_mb=0, threads=1), "TileDB-Py": read_tiledb, "blosc2": read_blosc2, "zarr-python": read_zarr, "TensorStore": read_tensorstore,
    "lookups": lambda: look_up(False), "lookups, warm": lambda: look_up(True), "cube": read_cube,
    "WHERE a > 10": lambda: ask_wide("a > 10"), "WHERE a + 0 > 10": lambda: ask_wide("a + 0 > 10"),
    **{f"{query}, {'again' if again else 'first'}": lambda query=query, again=again: ask(query, again) for query in QUERIES for again in (False, True)}}


def run_way(name):
    way = WAYS[name]()
    busy, began, before = scheduled(), time.perf_counter(), used()
    way()
    after, took = used(), time.perf_counter() - began
    got = {"cpu": after[0] - before[0], "wall": took * 1000, "faults": after[1] - before[1], "peak": after[2] - before[2]}
    if busy is not None:   # of two threads: how long they had nothing to do, together
        got["idle"] = max(0, 2 * got["wall"] - (scheduled() - busy))
    print(json.dumps(got))


# ---- The data ----

def make_data():
    import numpy as np
    import tessera

    def wave(side):
        return np.add.outer(np.sin(np.arange(side) / 300), np.cos(np.arange(side) / 200)).astype("f4")
    noise = np.random.default_rng(1)
    if not os.path.exists("grid"):
        values = wave(SIDE) + noise.random((SIDE, SIDE), dtype="f4") / 64
        tessera.create("grid", {"v": values}, dimensions=["y", "x"], extents={"y": TILE, "x": TILE})
        if optional("blosc2"):
            import blosc2
            blosc2.asarray(values, chunks=(TILE, TILE), urlpath="grid.b2nd", mode="w", cparams={"codec": blosc2.Codec.ZSTD, "clevel": 5, "filters": [blosc2.Filter.SHUFFLE], "nthreads": 1})
        if optional("zarr"):
            import zarr
            from zarr.codecs import BloscCodec
            zarr.create_array("grid.zarr", shape=values.shape, dtype="f4", chunks=(TILE, TILE), compressors=BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"))[:] = values
    if not os.path.exists("big"):
        values = wave(BIG)
        for i in range(0, BIG, TILE):
            values[i:i + TILE] += noise.random((TILE, BIG), dtype="f4") / 64
        tessera.create("big", {"v": values}, dimensions=["y", "x"], extents={"y": BIG_TILE, "x": BIG_TILE})
    if not os.path.exists("wide"):   # two hills, and a peak in each tile, so that statistics exclude none
        y, x = np.ogrid[0:WIDE, 0:WIDE]
        values = {"a": (20 * np.exp(-((y - 1000) / 150) ** 2 - ((x - 1000) / 150) ** 2) + 20 * np.exp(-((y - 300) / 60) ** 2 - ((x - 1600) / 100) ** 2)).astype("f4") + noise.random((WIDE, WIDE), dtype="f4") / 64}
        values["a"][TILE // 2::TILE, TILE // 2::TILE] = 20
        for name in "bcde":
            values[name] = np.add.outer(np.sin(np.arange(WIDE) / 200), np.cos(np.arange(WIDE) / 90)).astype("f4") + noise.random((WIDE, WIDE), dtype="f4") / 64
        tessera.create("wide", values, dimensions=["y", "x"], extents={"y": TILE, "x": TILE})
    if not os.path.exists("cube"):
        t, lat, lon = np.ogrid[0:DAYS, 0:LATS, 0:LONS]
        values = (288 - 45 * abs(lat - 90) / 90 + 12 * np.sin(t / 58) + 4 * np.sin(lon / 20)).astype("f4") + noise.integers(0, 256, (DAYS, LATS, LONS)).astype("f4") / 128
        tessera.create("cube", {"v": values}, dimensions=["t", "lat", "lon"], extents={"t": 30, "lat": 60, "lon": 60})


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


# ---- The table ----

class Turns:
    """The least of each figure of each way, over all turns."""

    def __init__(self, script, names, turns):
        self.least = {}
        os.environ["OPENBLAS_NUM_THREADS"] = "1"   # numpy's own threads, which wait by running
        for _ in range(turns):
            for name in names:
                r = subprocess.run([sys.executable, script, "--way", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
                if r.returncode == 0:   # else its library is not installed
                    got = json.loads(r.stdout)
                    self.least[name] = {key: min(value, self.least.get(name, got)[key]) for key, value in got.items()}

    def cpu(self, name):
        return self.least[name]["cpu"] if name in self.least else None


def line(what, value, ratio="", goal="", met=True):
    print(f"| {what} | {value} | {ratio} | {goal}{'' if met else ', **missed**'} |")


def against(turns, what, name, beside, most, factor=1.0):
    """A line that compares two ways: the first should take at most `most` times as long."""
    cpu, other = turns.cpu(name), turns.cpu(beside)
    if cpu is not None and other is not None:
        line(what, f"{cpu / factor:.3g} ms", f"{cpu / other:.2f} times {beside} ({other:.3g} ms)", f"at most {most}", cpu <= most * other)


def report(script, count, only):
    print("Times are processor time of all threads.\n\n| what | measured | beside | goal |\n|---|---|---|---|")
    reads = ["tessera", "tessera, two threads", "tessera, into the cache", "tessera, stream", "TileDB-Py", "blosc2", "zarr-python", "TensorStore"]
    if only in "reads":
        t = Turns(script, reads, count)
        against(t, "16,000,000 cells to numpy", "tessera", "blosc2", 1.1)
        for other in ("TileDB-Py", "zarr-python", "TensorStore"):
            against(t, "the same", "tessera", other, 1)
        faults = t.least["tessera"]["faults"]
        line("... its page faults", faults, "", "under 2,000", faults < 2000)
        wall = t.least["tessera"]["wall"] / t.least["tessera, two threads"]["wall"]
        line("... on two threads, wall", f"{t.least['tessera, two threads']['wall']:.3g} ms", f"{wall:.2f} times faster than on one", "at least 1.8 on two idle cores", wall >= 1.8)
        two = t.least["tessera, two threads"]
        if "idle" in two:
            took = (two["cpu"] + two["idle"]) / 2
            line("... the same without waiting for other programs", f"{took:.3g} ms", f"{t.cpu('tessera') / took:.2f} times faster; the threads have nothing to do for {two['idle']:.2g} ms of {2 * took:.3g}")
        line("... memory beside the result", f"{t.least['tessera']['peak']:.3g} MiB", "", "at most 16", t.least["tessera"]["peak"] <= 16)
        line("... into the cache as well", f"{t.cpu('tessera, into the cache'):.3g} ms", f"{t.least['tessera, into the cache']['faults']:,} page faults")
        against(t, "a stream of the column", "tessera, stream", "tessera", 1.15)
    if only in "lookups":
        t = Turns(script, ["lookups", "lookups, warm"], count)
        each = t.cpu("lookups") / LOOKUPS
        line(f"a random cell of {BIG * BIG:,}, tile not in the cache", f"{each:.3f} ms", f"{t.cpu('lookups, warm') / LOOKUPS:.4f} ms in the cache", "at most 0.1 ms", each <= 0.1)
    if only in "columns":
        t = Turns(script, ["WHERE a > 10", "WHERE a + 0 > 10"], count)
        against(t, "first sums of four of five attributes, of which 1.6 % pass", "WHERE a > 10", "WHERE a + 0 > 10", 0.5)
    if only in "queries":
        t = Turns(script, ["cube", *(f"{query}, {when}" for query in QUERIES for when in ("first", "again"))], count)
        for query in QUERIES:
            first, limit = t.cpu(f"{query}, first"), t.cpu("cube") + t.cpu(f"{query}, again")
            line(query, f"{first:.3g} ms", f"{first / limit:.2f} times a read of all ({t.cpu('cube'):.3g} ms) and the answer from the cache ({limit - t.cpu('cube'):.3g} ms)", "at most 1.3", first <= 1.3 * limit)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("extension", nargs="?")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--way", help="for this program itself")
    options = parser.parse_args()
    if options.way:
        run_way(options.way)
        return
    script, extension, folder = os.path.abspath(__file__), os.path.abspath(options.extension), os.path.abspath(options.folder)
    environment.inside(folder, "cold", PACKAGES)
    from package import install
    place = os.path.join(folder, "cold-data")
    shutil.rmtree(f"{place}-package", ignore_errors=True)
    install(f"{place}-package", extension)
    os.environ["TESSERA"] = extension
    os.makedirs(place, exist_ok=True)
    os.chdir(place)
    make_data()
    report(script, options.turns, options.only)


if __name__ == "__main__":
    main()
