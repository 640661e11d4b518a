"""Map tiles of tessera_png: each pixel compared with the cells that Mercator's formulas give it, cell by cell in Python; rising, falling
and irregular latitudes, longitudes from 0 to 360, the date line, poles, gaps in labels, overviews, enumerations, queries; tiles that do not exist.

usage: map_tiles.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import contextlib
import json
import math
import os
import random
import struct
import sys
import tempfile
import threading
import urllib.error
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import host
import package
from host import Database, check_contains, same
from pictures import ERROR, MISMATCH, RANGE, ROOT, data, decode

NOTHING = (9, 8, 7, 6)
PLACE = tempfile.TemporaryDirectory() # of the Python package, until the process ends


# ---- What a tile shows --------------------------------------------------------------------------------------------------

def edges_of(centres):
    """The edges between rising centres: midway, and at the ends as far beyond the centre as before it."""
    inner = [a + (b - a) / 2 for a, b in zip(centres, centres[1:])]
    return [centres[0] - (inner[0] - centres[0])] + inner + [centres[-1] + (centres[-1] - inner[-1])]


def side_of(cells, zoom, number, pixels, rows, nearest=False):
    """The cells that each pixel of a side shows. `cells` are (centre, low edge, high edge, key)."""
    every, shown = 2**zoom * pixels, []
    def at(k):
        part = (number * pixels + k) / every
        return math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * part)))) if rows else part * 360 - 180
    turns = (0,) if rows else (-360, 0, 360, 720)
    for k in range(pixels):
        low, high, middle = min(at(k), at(k + 1)), max(at(k), at(k + 1)), at(k + .5)
        inside = [] if nearest else [key for centre, _, _, key in cells for t in turns if low + t <= centre < high + t]
        around = [key for t in turns for _, a, b, key in cells if a <= middle + t < b]
        shown.append(inside or around[:1])
    return shown


def expected(value, rows, columns):
    """Means of pixels. `value` gives a number or None for the keys of a row and a column."""
    means = []
    for ys in rows:
        line = []
        for xs in columns:
            values = [v for y in ys for x in xs if (v := value(y, x)) is not None]
            line.append(math.fsum(values) / len(values) if values else None)
        means.append(line)
    return means


def check(got, means, what):
    same((len(got), len(got[0])), (len(means), len(means[0])), f"{what}: size")
    for y, (line, wanted) in enumerate(zip(got, means)):
        for x, (pixel, mean) in enumerate(zip(line, wanted)):
            if mean is None:
                same(pixel, NOTHING, f"{what}: no data at {y}, {x}")
            elif len(set(pixel[:3])) != 1 or pixel[3] != 255 or abs(pixel[0] - mean) > 0.5001:
                raise AssertionError(f"{what}: pixel {y}, {x} is {pixel}, the mean is {mean}")


def tile(db, where, zxy, slice_=None, side=32, **options):
    options = {"tile": list(zxy), "width": side, "min": 0, "max": 255, "colormap": "gray", "nodata": "#09080706", **options}
    return decode(db.value("SELECT tessera_png(?, 'v', ?, ?)", (where, slice_ and json.dumps(slice_), json.dumps(options))))


# ---- Arrays -------------------------------------------------------------------------------------------------------------

def make(db, name, ys, xs, rng, low=(0, 0), labels=True, gap=None, kind="INT32", first="", large=False):
    """Makes an array with the labels `ys` and `xs`. Returns (value, cells of y, cells of x)."""
    sides = [(low[0], ys), (low[1], xs)]
    label = [f" LABEL {n} FLOAT64{' DECREASING' if c[0] > c[-1] else ''}" if labels else "" for n, c in (("lat", ys), ("lon", xs))]
    dims = [f"{n} {kind} DIMENSION({a}, {a + len(c) - 1}, {min(50, len(c))}){more}" for n, more, (a, c) in zip("yx", label, sides)]
    db.query(f"CREATE VIRTUAL TABLE {name} USING tessera(kind=dense, {first}{', '.join(dims)}, v INT32)")
    values = {}
    for j in range(len(ys)):
        for i in range(len(xs)):
            values[j, i] = None if rng.random() < .1 and not large else rng.randint(0, 250)
    if large:
        head = "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(ys), len(xs))
        head = (head + " " * (117 - len(head)) + "\n").encode()
        block = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}i", *values.values())
        db.query("SELECT tessera_write_npy(?, 'v', ?)", (f"db:{name}", block))
    before = "0, " if first else ""
    rows = [f"({before}{j + low[0]}, {i + low[1]}, {'NULL' if v is None else v})" for (j, i), v in values.items() if not large]
    for at in range(0, len(rows), 2000):
        db.query(f"INSERT INTO {name}({'t, ' if first else ''}y, x, v) VALUES {', '.join(rows[at:at + 2000])}")
    cells = []
    for label, n, (a, centres) in zip(("lat", "lon"), "yx", sides):
        there = [(c, k) for k, c in enumerate(centres) if (n, k) != gap]
        if labels:
            at = 0
            while at < len(centres):   # stretches around the gap
                end = at
                while end < len(centres) and (n, end) != gap:
                    end += 1
                if end > at:
                    db.query("SELECT tessera_write_label(?, ?, ?, ?)", (f"db:{name}", label, json.dumps(centres[at:end]), a + at))
                at = end + 1
        there.sort()
        borders = edges_of([c for c, _ in there])
        cells.append([(c, borders[k], borders[k + 1], key) for k, (c, key) in enumerate(there)])
    return (lambda y, x: values[y, x]), *cells


def steps(first, step, count):
    return [first + step * k for k in range(count)]


GRIDS = {   # latitudes, longitudes
    "rising": (steps(-88.5, 3, 60), steps(-178, 4, 90)),
    "falling, 0 to 360": (steps(89, -2, 90), steps(0, 5, 72)),
    "centres on edges of pixels": (steps(-90, 11.25, 17), steps(-180, 11.25, 32)),
    "across the date line": (steps(-20, 1, 41), steps(165, .75, 41)),
    "irregular, falling longitudes": ([-80, -60, -41, -40, -10, -3, 0, 5, 7.5, 33, 71, 84, 89], [170, 120, 118, 40, 39, 1, -2, -44, -90, -91, -170]),
    "once around, and again": (steps(-60, 10, 13), steps(-180, 10, 37)),
    "from the west, over the seam": (steps(-80, 5, 33), steps(-34.5, 3, 120)),
}
TILES = [(0, 0, 0), (1, 0, 0), (1, 1, 1), (2, 3, 1), (2, 0, 2), (3, 7, 3), (3, 0, 4), (5, 31, 15), (5, 16, 0), (9, 300, 200)]


def test_each_pixel_has_the_cells_of_its_degrees():
    rng = random.Random(42)
    for name, (ys, xs) in GRIDS.items():
        db = Database()
        low = (rng.randint(-40, 9), rng.randint(-40, 9))
        value, cells_y, cells_x = make(db, "t", ys, xs, rng, low)
        for z, x, y in TILES:
            wanted = expected(value, side_of(cells_y, z, y, 32, True), side_of(cells_x, z, x, 32, False))
            check(tile(db, "db:t", (z, x, y)), wanted, f"{name}, {z}/{x}/{y}")


def test_coordinates_without_a_label_are_no_cells():
    rng = random.Random(3)
    for gap in (("y", 20), ("x", 33)):
        db = Database()
        value, cells_y, cells_x = make(db, "t", *GRIDS["rising"], rng, gap=gap)
        for z, x, y in ((0, 0, 0), (2, 1, 2), (3, 4, 3)):
            wanted = expected(value, side_of(cells_y, z, y, 32, True), side_of(cells_x, z, x, 32, False))
            check(tile(db, "db:t", (z, x, y)), wanted, f"without {gap}, {z}/{x}/{y}")


def affine(origin, step, count):
    return sorted((origin + step * (k + .5), *sorted((origin + step * k, origin + step * (k + 1))), k) for k in range(count))


def test_edges_and_steps_an_order_of_axes_and_a_slice():
    rng = random.Random(5)
    db = Database()
    for name, kind, low in (("signed", "INT16", (-30, -60)), ("unsigned", "UINT64", (0, 0))):
        value, _, _ = make(db, name, steps(0, 1, 60), steps(0, 1, 120), rng, low, labels=False, kind=kind)
        sides = affine(90, -3, 60), affine(0, 3, 120)
        axes = {"y": [90, -3], "x": [0, 3]}
        for z, x, y in ((0, 0, 0), (2, 3, 1), (4, 15, 6)):
            wanted = expected(value, side_of(sides[0], z, y, 32, True), side_of(sides[1], z, x, 32, False))
            check(tile(db, f"db:{name}", (z, x, y), axes=axes, wrap=360), wanted, f"{name} {z}/{x}/{y}")
        # The first dimension may be the longitudes.
        turned = affine(-180, 6, 60), affine(-60, 1, 120)
        wanted = expected(lambda b, a: value(a, b), side_of(turned[1], 1, 0, 32, True), side_of(turned[0], 1, 0, 32, False))
        check(tile(db, f"db:{name}", (1, 0, 0), axes={"x": [-60, 1], "y": [-180, 6]}), wanted, f"{name}: x as latitudes")
        # A slice cuts the map: cells beside it are not there.
        cut = lambda j, i: value(j, i) if 10 <= j <= 30 and 5 <= i <= 50 else None
        slice_ = {"y": [low[0] + 10, low[0] + 30], "x": [low[1] + 5, low[1] + 50]}
        wanted = expected(cut, side_of(sides[0], 0, 0, 32, True), side_of(sides[1], 0, 0, 32, False))
        check(tile(db, f"db:{name}", (0, 0, 0), slice_, axes=axes), wanted, f"{name}: a slice")


def test_third_dimensions_sizes_and_empty_tiles():
    rng = random.Random(6)
    db = Database()
    value, cells_y, cells_x = make(db, "t", steps(-80, 5, 33), steps(-175, 10, 36), rng, first="t INT32 DIMENSION(0, 3, 1), ")
    for side in (1, 17, 64):
        wanted = expected(value, side_of(cells_y, 1, 0, side, True), side_of(cells_x, 1, 1, side, False))
        check(tile(db, "db:t", (1, 1, 0), {"t": 0}, side), wanted, f"{side} pixels")
    same(len(decode(db.value("""SELECT tessera_png('db:t', 'v', '{"t":0}', '{"tile":[0,0,0],"min":0,"max":9}')"""))), 256, "the default")
    nothing = [[NOTHING] * 32] * 32
    same(tile(db, "db:t", (1, 0, 0), {"t": 2}), nothing, "never written")
    same(tile(db, "db:t", (6, 20, 0), {"t": 0}), nothing, "beyond the grid")
    check_contains(db.error("""SELECT tessera_png('db:t', 'v', '{"t":[0,1]}', '{"tile":[0,0,0],"min":0,"max":9,"axes":{"y":null,"x":"lon"}}')""").text, "the slice has several values of 't': give one")
    check_contains(db.error("""SELECT tessera_png('db:t', 'v', '{"t":[0,1]}', '{"tile":[0,0,0],"min":0,"max":9}')""").text, "3 dimensions are left")
    db.query("CREATE VIRTUAL TABLE e USING tessera(kind=dense, y INT32 DIMENSION(0, 9, 5), x INT32 DIMENSION(0, 9, 5), v FLOAT32)")
    same(tile(db, "db:e", (0, 0, 0), axes={"y": [50, -10], "x": [0, 10]}), nothing, "an array without cells")


def test_long_axes():
    """Above 65,536 coordinates, the place of a cell is searched for among the runs of its side."""
    db = Database()
    value, _, _ = make(db, "t", range(70000), range(3), random.Random(4), (-9, 0), labels=False, large=True)
    y, x = affine(70, -.002, 70000), affine(-60, 40, 3)
    for tile_ in ((0, 0, 0), (1, 0, 0)):
        wanted = expected(value, side_of(y, tile_[0], tile_[2], 16, True), side_of(x, tile_[0], tile_[1], 16, False))
        check(tile(db, "db:t", tile_, side=16, axes={"y": [70, -.002], "x": [-60, 40]}), wanted, f"{tile_}")


def level_cells(cells, shift):
    """The cells of a level: blocks of 2^shift coordinates from the first."""
    blocks = {}
    for _, a, b, k in cells:
        at = k >> shift
        blocks[at] = (min(a, blocks.get(at, (a, b))[0]), max(b, blocks.get(at, (a, b))[1]))
    return sorted((a + (b - a) / 2, a, b, k) for k, (a, b) in blocks.items())


def test_overviews_are_used_and_their_cells_are_where_they_belong():
    rng = random.Random(7)
    for ys, xs in ((steps(85, -.25, 681), steps(-90, .25, 700)), (steps(-80, .25, 641), steps(10, .5, 620))):
        db = Database()
        _, cells_y, cells_x = make(db, "t", ys, xs, rng, (-5, 3), large=True)
        db.query("SELECT tessera_make_overviews('db:t')")
        levels = {}
        for shift in (1, 2):
            levels[shift] = {(y, x): v for y, x, v in db.query(f"SELECT y, x, v FROM t_overview_{shift}")}
        used = set()
        for z, x, y in ((0, 0, 0), (1, 0, 0), (1, 1, 1), (2, 2, 1), (2, 1, 1)):
            got = tile(db, "db:t", (z, x, y))
            same(got == tile(db, "db:t", (z, x, y), overviews=False), False, f"{z}/{x}/{y}: an overview is used")
            for shift in (2, 1):
                sides = [side_of(level_cells(c, shift), z, n, 32, rows) for c, n, rows in ((cells_y, y, True), (cells_x, x, False))]
                try:
                    check(got, expected(lambda j, i: levels[shift][j, i], *sides), f"level {shift}, {z}/{x}/{y}")
                    used.add(shift)
                    break
                except AssertionError:
                    if shift == 1:
                        raise
        same(2 in used, True, f"levels that were used: {used}")
        # Close up the array itself is read.
        got = tile(db, "db:t", (6, 36, 25))
        same(got == tile(db, "db:t", (6, 36, 25), overviews=False), True, "no overview close up")


def test_enumerations_show_the_cell_around_the_centre():
    db = Database()
    rng = random.Random(8)
    ys, xs = GRIDS["rising"]
    value, cells_y, cells_x = make(db, "n", ys, xs, rng)
    words = ", ".join(f"'c{k}'" for k in range(256))
    db.query(f"CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 59, 20), x INT32 DIMENSION(0, 89, 30), v TEXT ENUM({words}))")
    db.query("INSERT INTO t SELECT y, x, 'c' || v FROM n WHERE v IS NOT NULL")
    axes = {"y": [-90, 3], "x": [-180, 4]}
    wanted = expected(value, side_of(affine(-90, 3, 60), 0, 0, 32, True, True), side_of(affine(-180, 4, 90), 0, 0, 32, False, True))
    check(tile(db, "db:t", (0, 0, 0), axes=axes), wanted, "an enumeration")


def test_queries():
    rng = random.Random(9)
    db = Database()
    value, cells_y, cells_x = make(db, "t", *GRIDS["falling, 0 to 360"], rng, (-3, 4))
    for z, x, y in ((0, 0, 0), (2, 0, 1), (5, 17, 12)):
        options = {"tile": [z, x, y], "width": 32, "min": 0, "max": 255, "colormap": "gray", "nodata": "#09080706"}
        wanted = expected(value, side_of(cells_y, z, y, 32, True), side_of(cells_x, z, x, 32, False))
        for query in ("SELECT lat, lon, v FROM t", "SELECT lat, lon, avg(v) FROM t GROUP BY lat, lon"):
            check(decode(db.value("SELECT tessera_png(?, ?)", (query, json.dumps(options)))), wanted, f"{query}, {z}/{x}/{y}")
    same(decode(db.value("SELECT tessera_png('SELECT lat, lon, avg(v) FROM t WHERE v > 999 GROUP BY lat, lon', ?)", (json.dumps(options),))),
         [[NOTHING] * 32] * 32, "no rows")
    check_contains(db.error("SELECT tessera_png('SELECT lat, lon, v FROM t', ?)", (json.dumps(options | {"axes": {"y": "lat", "x": "lon"}}),)).text,
                   "'axes' is for arrays: the keys of a query are degrees, first latitudes")


def test_tiles_that_do_not_exist_are_refused():
    db = Database()
    make(db, "t", steps(-80, 20, 9), steps(-170, 20, 18), random.Random(1))
    def refused(options, text, code):
        options = {"min": 0, "max": 1} | options if isinstance(options, dict) else options
        e = db.error("SELECT tessera_png('db:t', 'v', NULL, ?)", (options if isinstance(options, str) else json.dumps(options),))
        check_contains(e.text, text)
        same(e.code in (code, None), True, f"{options}: code {e.code}")
    refused({"tile": [3, 8, 0]}, "tile 3/8/0: x and y run from 0 to 7 at zoom 3", RANGE)
    refused({"tile": [3, 0, -1]}, "tile 3/0/-1: x and y run from 0 to 7 at zoom 3", RANGE)
    refused({"tile": [31, 0, 0]}, "tile 31/0/0: zooms run from 0 to 30", RANGE)
    refused({"tile": [-1, 0, 0]}, "tile -1/0/0: zooms run from 0 to 30", RANGE)
    refused({"tile": [2**62, 2**63 - 1, -2**63]}, "zooms run from 0 to 30", RANGE)
    for wrong in ([0, 0], [0, 0, 0, 0], [0, 0, 0.5], [0, "0", 0], [0, None, 0], [0, 0, 2**70], {}, "0/0/0", 0, True):
        refused({"tile": wrong}, "'tile': expected three integers, [z, x, y]", MISMATCH)
    refused('{"tile":[0,0,0]}', "'tile': give min and max, so that all tiles have one scale", ERROR)
    refused({"tile": [0, 0, 0], "flip": True}, "'flip': a tile has north at its top", ERROR)
    refused({"tile": [0, 0, 0], "wrap": 180}, "'wrap': the longitudes of a tile repeat every 360 degrees", RANGE)
    refused({"tile": [0, 0, 0], "width": 256, "height": 512}, "a tile of 256 x 512 pixels: width and height are equal", RANGE)
    refused({"tile": [0, 0, 0], "width": 5000}, "at most 4096", RANGE)
    refused({"axes": {"y": "lat", "x": "lon"}}, "'axes' and 'wrap' are for a tile", ERROR)
    refused({"tile": [0, 0, 0], "axes": {"y": "lat"}}, "axes: expected two dimensions", MISMATCH)
    refused({"tile": [0, 0, 0], "axes": {"y": "lat", "x": [-720, 100]}}, "the longitudes span 1800 degrees: a map has 360, a grid at most 540", MISMATCH)
    refused({"tile": [0, 0, 0], "axes": {"y": "lat", "x": [-1e300, 1e299]}}, "the longitudes span", MISMATCH)
    check_contains(db.error("""SELECT tessera_preview('db:t', 'v', NULL, '{"tile":[0,0,0]}')""").text, "no option is called 'tile'")
    # At the deepest zoom each pixel is a ten-thousandth of a degree and less.
    got = tile(db, "db:t", (30, 2**29 + 9, 2**29 - 5), axes={"y": [-90, 20], "x": [-180, 20]})
    same({len(set(map(tuple, got))), len(set(got[0]))}, {1}, "one cell fills it")
    db.query("CREATE VIRTUAL TABLE s USING tessera(y INT32 DIMENSION(0, 9, 5), x INT32 DIMENSION(0, 9, 5), v FLOAT32)")
    check_contains(db.error("""SELECT tessera_png('db:s', 'v', NULL, '{"tile":[0,0,0],"min":0,"max":1}')""").text, "the grid is a dense array")


def test_the_server_of_the_manual():
    with open(os.path.join(ROOT, "docs", "guides", "plots-and-maps.md"), encoding="utf-8") as f:
        code = f.read().split("```python\n")[1].split("```")[0]
    code = code.replace("demo/relief", data("relief")).replace("8000", "0").replace("server.serve_forever()\n", "")
    scope = {"__name__": "server"}
    if "tessera" not in sys.modules: # the test runs once for each SQLite
        package.install(os.path.join(PLACE.name, "package"), host.EXTENSION)
    exec(code, scope)
    scope["Tiles"].log_message = lambda *_: None
    server, answers = scope["server"], []
    def ask():
        for path in ("/2/2/1.png", "/2/4/1.png", "/favicon.ico"):
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=60) as answer:
                answers.append((path, answer.headers["Content-Type"], len(decode(answer.read()))))
    client = threading.Thread(target=ask)
    client.start()
    for _ in range(3):
        server.handle_request()
    client.join()
    server.server_close()
    same(answers, [("/2/2/1.png", "image/png", 256)], "tiles, and what is none")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
