"""Measures blocks of the Python module beside TileDB-Py and blocks as BLOBs, in one process: each way takes turns, and the least time of each
counts. Each opens the array anew, so that no tile is in its cache. Prints times in ms, those of all processors together, and the ratios of both.
Ways of libraries that are not installed are left out. frames.py measures streams and what comes in.

usage: python.py EXTENSION FOLDER [TURNS]
"""
import io
import os
import shutil
import sqlite3
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
from package import install  # noqa: E402

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

try:
    import tiledb
except ImportError:
    tiledb = None

SIDE = 4000


def measure(title, ways, turns, base):
    """Runs ways, {name: function}, in turns, and prints how many times longer each takes than the one called `base`."""
    least = {}
    for _ in range(turns):
        for name, way in ways.items():
            began, used = time.perf_counter(), time.process_time()
            way()
            took = time.perf_counter() - began, time.process_time() - used
            least[name] = tuple(map(min, took, least.get(name, took)))
    print(f"{title:<46} {'ms':>9} {'':>7} {'CPU ms':>9}")
    for name, (wall, cpu) in least.items():
        print(f"  {name:<44} {wall * 1000:9.2f} {wall / least[base][0]:7.2f} {cpu * 1000:9.2f} {cpu / least[base][1]:7.2f}")
    sys.stdout.flush()


def dense(turns):
    smooth = np.add.outer(np.sin(np.arange(SIDE) / 300), np.cos(np.arange(SIDE) / 200)).astype("f4")
    values = smooth + np.random.default_rng(1).random((SIDE, SIDE), dtype="f4") / 64
    if not os.path.exists("dense"):
        tessera.create("dense", {"v": values}, dimensions=["y", "x"], extents={"y": 500, "x": 500})
    out = np.empty((SIDE, SIDE), "f4")

    def opened():
        getattr(tessera.connections._thread, "connections", {}).clear()   # of this thread, with its cache
        return tessera.open("dense")

    def as_blob():
        db = sqlite3.connect(":memory:")
        tessera.load(db)
        return np.load(io.BytesIO(db.execute("SELECT tessera_npy('dense', 'v')").fetchone()[0]))

    ways = {"numpy()": lambda: opened().numpy("v"), "numpy(out=)": lambda: opened().numpy("v", out), "tessera_npy, numpy.load": as_blob,
            "stream, v alone, to pyarrow": lambda: pa.table(opened().select("v"))}
    if tiledb:
        ways["TileDB-Py, A[:]"] = lambda: read_tiledb("dense")
    assert np.array_equal(opened().numpy("v"), values)
    measure(f"dense, {SIDE} x {SIDE} FLOAT32", ways, turns, "numpy()")
    array = opened()
    measure("opening", {"tessera.open": lambda: tessera.open("dense"), "a stream": lambda: array.__arrow_c_stream__()}, turns * 5, "a stream")


def read_tiledb(path):
    with tiledb.open(path) as opened:
        return opened[:]


if __name__ == "__main__":
    extension, folder = (os.path.abspath(name) for name in sys.argv[1:3])
    shutil.rmtree(f"{folder}/python", ignore_errors=True)
    os.makedirs(f"{folder}/python/work")
    install(f"{folder}/python/package", extension)
    os.chdir(f"{folder}/python/work")
    import tessera
    dense(int(sys.argv[3]) if len(sys.argv) > 3 else 5)
