"""Measures windows over dimensions, and neighbourhoods (joins of an array with itself by offsets), beside bottleneck, xarray, xarray-spatial and scipy, which compute
on a block in memory, and beside SQLite's own windows over a slice of the same cube. Prints processor time of all threads in ns a cell: other work on the machine changes that little. The least of some
turns counts. Ways of libraries that are not installed are left out. Compares answers.

usage: windows.py EXTENSION FOLDER [--turns N] [--only TEXT]
"""
import argparse
import io
import os
import resource
import shutil
import sqlite3
import sys

import environment

PACKAGES = [["numpy"], ["bottleneck"], ["xarray"], ["scipy"], ["xarray-spatial"]]   # each line by itself: one that cannot be installed is left out
DAYS, ROWS, COLUMNS = 365, 90, 180
STEPS = 30   # of a frame
SIDE = 2000   # of the grid with neighbourhoods
FRAME = f"(PARTITION BY y, x ORDER BY t ROWS BETWEEN {STEPS - 1} PRECEDING AND CURRENT ROW)"


def optional(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError:
        print(f"{name} is not installed: its ways are left out")
        return None


def processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("extension")
    parser.add_argument("folder")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose names have this in them")
    options = parser.parse_args()
    environment.inside(options.folder, "windows", PACKAGES)
    import numpy
    bottleneck, xarray, ndimage, xrspatial = optional("bottleneck"), optional("xarray"), optional("scipy.ndimage"), optional("xrspatial")
    path = os.path.join(os.path.abspath(options.folder), "windows_cube")
    shutil.rmtree(path, ignore_errors=True)
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(os.path.abspath(options.extension))
    cube = (numpy.random.default_rng(1).random((DAYS, ROWS, COLUMNS)) * 50 + 250).astype("f4")
    db.execute(f"CREATE VIRTUAL TABLE c USING tessera('{path}', kind=dense, t INT32 DIMENSION(0, {DAYS - 1}, 73), y INT32 DIMENSION(0, {ROWS - 1}, 45), x INT32 DIMENSION(0, {COLUMNS - 1}, 60), v FLOAT32)")
    block = io.BytesIO()
    numpy.save(block, cube)
    db.execute("SELECT tessera_write_npy(?, 'v', ?)", (path, block.getvalue())).fetchall()

    def ours(function):
        answer = db.execute("SELECT tessera_npy(?)", (f"SELECT t, y, x, {function}(v) OVER {FRAME} AS r FROM c",)).fetchone()[0]
        return numpy.load(io.BytesIO(answer))

    def rows(function):   # of one line of latitude
        return db.execute(f"SELECT count(r) FROM (SELECT {function}(v) OVER {FRAME} AS r FROM c WHERE y = 7)").fetchone()[0]

    def moving(name):
        return lambda: getattr(bottleneck, name)(cube, STEPS, min_count=1, axis=0)
    ways = [("mean", "tessera, to npy", lambda: ours("avg"), 1), ("mean", "SQLite's rows", lambda: rows("avg"), ROWS)]
    ways += [("max", "tessera, to npy", lambda: ours("max"), 1), ("median", "tessera, to npy", lambda: ours("median"), 1)]
    if bottleneck:
        ways += [("mean", "bottleneck, in memory", moving("move_mean"), 1), ("max", "bottleneck, in memory", moving("move_max"), 1), ("median", "bottleneck, in memory", moving("move_median"), 1)]
    if xarray:
        ways.append(("mean", "xarray, in memory", lambda: xarray.DataArray(cube, dims=("t", "y", "x")).rolling(t=STEPS, min_periods=1).mean().values, 1))
    if ndimage:
        ways.append(("max", "scipy, in memory (at the edges other cells)", lambda: ndimage.maximum_filter1d(cube, STEPS, axis=0), 1))
    grid = (numpy.random.default_rng(2).random((SIDE, SIDE)) * 500 + 250).astype("f4")
    path = os.path.join(os.path.abspath(options.folder), "windows_grid")
    shutil.rmtree(path, ignore_errors=True)
    db.execute(f"CREATE VIRTUAL TABLE g USING tessera('{path}', kind=dense, y INT32 DIMENSION(0, {SIDE - 1}, 250), x INT32 DIMENSION(0, {SIDE - 1}, 250), v FLOAT32)")
    block = io.BytesIO()
    numpy.save(block, grid)
    db.execute("SELECT tessera_write_npy(?, 'v', ?)", (path, block.getvalue())).fetchall()
    db.execute("CREATE TABLE horn(dy INTEGER, dx INTEGER, wx INTEGER, wy INTEGER)")
    db.executemany("INSERT INTO horn VALUES (?, ?, ?, ?)", [(y, x, x * (2 - abs(y)), y * (2 - abs(x))) for y in (-1, 0, 1) for x in (-1, 0, 1) if x or y])

    def around(result, joins):
        answer = db.execute("SELECT tessera_npy(?)", (f"SELECT a.y, a.x, {result} AS r FROM g a {joins} GROUP BY a.y, a.x",)).fetchone()[0]
        return numpy.load(io.BytesIO(answer))[2:-2, 2:-2]   # at the edges, others take other cells

    def slope():
        return around("degrees(atan(sqrt(sum(b.v * k.wx) * sum(b.v * k.wx) + sum(b.v * k.wy) * sum(b.v * k.wy)) / 8 / 30))", "JOIN horn k JOIN g b ON b.y = a.y + k.dy AND b.x = a.x + k.dx")

    def hillshade():   # light from the north-west, at 45 degrees
        x, y = "sum(b.v * k.wx)", "sum(b.v * k.wy)"
        return around(f"(0.7071067811865476 + 0.5 * ({x} + {y}) / 240) / sqrt(1 + ({x} * {x} + {y} * {y}) / 57600)", "JOIN horn k JOIN g b ON b.y = a.y + k.dy AND b.x = a.x + k.dx")

    def scipy_hillshade():
        wide = grid.astype("f8")
        x, y = ndimage.sobel(wide, 1), ndimage.sobel(wide, 0)
        return ((0.7071067811865476 + 0.5 * (x + y) / 240) / numpy.sqrt(1 + (x * x + y * y) / 57600))[2:-2, 2:-2]

    def spatial(function):
        return lambda: getattr(xrspatial, function)(xarray.DataArray(grid, dims=("y", "x"), attrs={"res": (30, 30)})).values[2:-2, 2:-2]

    def scipy_slope():
        wide = grid.astype("f8")
        return numpy.degrees(numpy.arctan(numpy.hypot(ndimage.sobel(wide, 0), ndimage.sobel(wide, 1)) / 8 / 30))[2:-2, 2:-2]
    square = "JOIN g b ON b.y BETWEEN a.y - 2 AND a.y + 2 AND b.x BETWEEN a.x - 2 AND a.x + 2"
    share = cube.size / grid.size
    ways += [("mean 5x5", "tessera, to npy", lambda: around("avg(b.v)", square), share), ("max 5x5", "tessera, to npy", lambda: around("max(b.v)", square), share), ("slope", "tessera, to npy", slope, share)]
    ways.append(("hillshade", "tessera, to npy", hillshade, share))
    ways.append(("median 3x3", "tessera, to npy", lambda: around("median(b.v)", square.replace("2", "1")), share))
    if xrspatial:
        ways += [("slope", "xarray-spatial, in memory", spatial("slope"), share), ("hillshade", "xarray-spatial, in memory (another formula)", spatial("hillshade"), share)]
    if ndimage:
        ways.append(("hillshade", "scipy, in memory", scipy_hillshade, share))
        ways += [("mean 5x5", "scipy, in memory", lambda: ndimage.uniform_filter(grid.astype("f8"), 5)[2:-2, 2:-2], share), ("max 5x5", "scipy, in memory", lambda: ndimage.maximum_filter(grid, 5)[2:-2, 2:-2], share),
                 ("slope", "scipy, in memory", scipy_slope, share), ("median 3x3", "scipy, in memory", lambda: ndimage.median_filter(grid, 3)[2:-2, 2:-2], share)]
    answers = {}
    for what, way, function, part in sorted((entry for entry in ways if options.only in entry[0]), key=lambda entry: entry[0]):
        least = None
        for _ in range(options.turns):
            before = processor()
            answer = function()
            used = processor() - before
            least = used if least is None else min(least, used)
        print(f"{what:12}{way:45}{least / cube.size * part * 1e9:8.1f} ns a cell")
        if "another formula" not in way and ((part == 1 and "scipy" not in way) or part == share):
            answers.setdefault(what, []).append(answer)
    for what, found in answers.items():
        for other in found[1:]:
            if not numpy.allclose(found[0], other, rtol=1e-4):
                sys.exit(f"{what}: the answers differ")


if __name__ == "__main__":
    main()
