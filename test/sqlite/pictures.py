"""tessera_png and tessera_preview: pixels compared with the means of rows, over random arrays, slices and sizes;
arguments that are refused; arrays that are encrypted, in the database, or opened at an earlier time; the picture of README.md.

usage: pictures.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import math
import os
import random
import re
import struct
import sys
import zlib

import host
from host import Database, check_contains, literal, same

TOOBIG, ERROR, RANGE, MISMATCH, INTERRUPT = 18, 1, 25, 20, 9
SHADES = ".:-=+*#%@"


def path(name):
    return os.path.join(host.FOLDER, name)


ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def data(name):
    return os.path.join(ROOT, "sql", "data", name)


def stored_rows(raw, size):
    return [raw[at:at + size] for at in range(0, len(raw), size)]


def decode(png):
    """Returns rows of (r, g, b, a). Checks the checksum of every chunk."""
    same(png[:8], b"\x89PNG\r\n\x1a\n", "signature")
    at, data, kinds, palette, alpha = 8, b"", [], b"", b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        same(struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0], zlib.crc32(kind + body), f"checksum of {kind}")
        kinds.append(kind)
        if kind == b"IHDR":
            width, height, depth, colours, *rest = struct.unpack(">IIBBBBB", body)
            same((depth, rest), (8, [0, 0, 0]), "depth, compression, filter, interlace")
        elif kind == b"PLTE":
            palette = [tuple(body[k:k + 3]) for k in range(0, size, 3)]
        elif kind == b"tRNS":
            alpha = body
        elif kind == b"IDAT":
            data += body
        at += 12 + size
    order = {3: [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]}.get(colours, [b"IHDR", b"IDAT", b"IEND"])
    same((at, kinds), (len(png), sorted(kinds, key=order.index)), "chunks in their order")
    same((kinds[0], kinds[-1], len(palette) <= 256, len(alpha) <= len(palette)), (b"IHDR", b"IEND", True, True), "chunks")
    raw, pixel = zlib.decompress(data), {2: 3, 3: 1, 6: 4}[colours]
    same(len(raw), height * (1 + pixel * width), "bytes of pixels")
    rows, above = [], bytes(1 + pixel * width)
    for line in stored_rows(raw, 1 + pixel * width):
        same(line[0] in (0, 2), True, f"filter {line[0]}")
        line = above = bytes(1) + (line[1:] if line[0] == 0 else bytes((a + b) & 255 for a, b in zip(line[1:], above[1:])))
        if colours == 3:
            rows.append([palette[k] + (alpha[k] if k < len(alpha) else 255,) for k in line[1:]])
        else:
            rows.append([tuple(line[k:k + pixel]) + (255,) * (4 - pixel) for k in range(1, len(line), pixel)])
    return rows


def png(db, where, attribute, slice_=None, options=None):
    given = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in (slice_, options)]
    return decode(db.value("SELECT tessera_png(?, ?, ?, ?)", (where, attribute, *given)))


def preview(db, where, attribute, slice_=None, options=None):
    given = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in (slice_, options)]
    return db.value("SELECT tessera_preview(?, ?, ?, ?)", (where, attribute, *given)).split("\n")


# ---- Expected pixels ----------------------------------------------------------------------------------------------------

def places(cells, rows, columns, height, width):
    """Returns means by place. `cells` are (row, column, value); `rows` and `columns` are numbers of values, or (low, high) for floats."""
    def of(value, side, count):
        if isinstance(side, tuple):
            low, high = side
            return min(count - 1, int((value - low) / (high - low) * count)) if high > low else 0
        return value * count // side
    h = height if isinstance(rows, tuple) else min(height, rows)
    w = width if isinstance(columns, tuple) else min(width, columns)
    sums = {}
    for y, x, value in cells:
        if value is not None:
            sums.setdefault((of(y, rows, h), of(x, columns, w)), []).append(value)
    return h, w, {k: math.fsum(v) / len(v) for k, v in sums.items()}


def check_gray(got, cells, rows, columns, height, width, low, high, flip):
    h, w, means = places(cells, rows, columns, height, width)
    same((len(got), len(got[0])), (height, width), "size")
    for y in range(height):
        for x in range(width):
            mean = means.get(((height - 1 - y if flip else y) * h // height, x * w // width))
            pixel = got[y][x]
            if mean is None:
                same(pixel, (9, 8, 7, 6), f"no data at {y}, {x}")
                continue
            part = 0 if mean <= low else 1 if mean >= high else (mean - low) / (high - low)
            step = 128 if low == high else part * 255
            if pixel[3] != 255 or len(set(pixel[:3])) != 1 or abs(pixel[0] - step) > 0.51:
                raise AssertionError(f"pixel {y}, {x} is {pixel}, the mean {mean} of {low}..{high} asks for {step}")


def finite(cells):
    values = [v for _, _, v in cells if v is not None and math.isfinite(v)]
    return (min(values), max(values)) if values else (0, 0)


# ---- Random arrays ------------------------------------------------------------------------------------------------------

TYPES = {"INT8": (-100, 100), "UINT8": (0, 250), "INT16": (-3000, 3000), "UINT16": (0, 60000), "INT32": (-10**9, 10**9), "UINT32": (0, 4 * 10**9),
         "INT64": (-2**60, 2**60), "UINT64": (0, 2**62), "FLOAT32": (-1000, 1000), "FLOAT64": (-1e9, 1e9), "BOOL": (0, 1)}


def random_value(rng, datatype):
    low, high = TYPES[datatype]
    if rng.random() < 0.15:
        return None
    return rng.uniform(low, high) if datatype.startswith("FLOAT") else rng.randint(low, high)


def look(db, rng, where, table, dims, box, fixed, real=False):
    """Compares a picture with the rows. dims: the names of the two axes; box: their ranges (low, high) in the slice; fixed: the values of the other dimensions."""
    slice_ = {d: list(b) for d, b in zip(dims, box)} | fixed
    condition = " AND ".join([f'"{d}" BETWEEN ? AND ?' for d in dims] + [f'"{d}" = ?' for d in fixed])
    parameters = [v for b in box for v in b] + list(fixed.values())
    cells = [(y if real else y - box[0][0], x if real else x - box[1][0], v) for y, x, v in
             db.query(f'SELECT "{dims[0]}", "{dims[1]}", v FROM {table} WHERE {condition}', parameters)]
    rows, columns = map(tuple, box) if real else (box[0][1] - box[0][0] + 1, box[1][1] - box[1][0] + 1)
    height, width, flip = rng.randint(1, 40), rng.randint(1, 40), rng.random() < 0.5
    low, high = finite(cells)
    options = {"height": height, "width": width, "flip": flip, "colormap": "gray", "nodata": "#09080706"}
    if rng.random() < 0.3:
        low, high = -50.5, 60.25
        options |= {"min": low, "max": high}
    check_gray(png(db, where, "v", slice_, options), cells, rows, columns, height, width, low, high, flip)
    # The text shows the same places: a blank if there is no mean, otherwise its shade.
    for key in ("colormap", "nodata"):
        del options[key]
    lines = preview(db, where, "v", slice_, options)
    same([len(line) for line in lines[:-1]], [width] * height, "preview")
    h, w, means = places(cells, rows, columns, height, width)
    for y in range(height):
        for x in range(width):
            mean, shade = means.get(((height - 1 - y if flip else y) * h // height, x * w // width)), lines[y][x]
            if mean is None or low == high:
                same(shade, " " if mean is None else "+" if mean == high else shade, "shade")
                continue
            at = min(len(SHADES) - 1e-9, max(0, (mean - low) / (high - low) * len(SHADES)))
            if shade == " " or abs(SHADES.index(shade) - int(at)) > (abs(at - round(at)) < 1e-6):
                raise AssertionError(f"shade {shade!r} at {y}, {x}: {mean} of {low}..{high}")


SIDE = 500
PICTURES = {"smooth": lambda y, x: 1000 * math.sin(y / 70) * math.cos(x / 50) + 300 * math.sin((x + y) / 9), "noise": lambda y, x: (x * 7919 + y * 104729) * (x + 31 * y) % 65521 % 700 - 350,
            "pattern": lambda y, x: (x * 3 + y * 5) % 700, "steps": lambda y, x: x // 40 * 100 + y // 70 * 37, "labels": lambda y, x: (x // 3 * 31 + y // 3 * 17) * (x // 9 + y // 5) % 11}


def test_files_are_not_much_longer_than_zlib_makes_them():
    """At most 1.6 times as long as its default level makes the same rows without a filter. Values that are smooth are much shorter."""
    os.chdir(host.FOLDER)
    db = Database()
    for name, value in PICTURES.items():
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera('{name}', kind=dense, y INT32 DIMENSION(0, {SIDE - 1}, 100), x INT32 DIMENSION(0, {SIDE - 1}, 100), v INT16)")
        head = "{'descr': '<i2', 'fortran_order': False, 'shape': (%d, %d), }" % (SIDE, SIDE)
        head += " " * (117 - len(head)) + "\n"
        cells = struct.pack(f"<{SIDE * SIDE}h", *(int(value(y, x)) for y in range(SIDE) for x in range(SIDE)))
        db.query(f"SELECT tessera_write_npy('{name}', 'v', ?)", (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + cells,))
        file = db.value(f"SELECT tessera_png('{name}', 'v', NULL, '{{\"width\":{SIDE},\"height\":{SIDE}}}')")
        decode(file)
        ends = sorted({v[0] for v in db.query(f"SELECT v FROM {name}")})
        rank = {v: round((v - ends[0]) / (ends[-1] - ends[0]) * 255) for v in ends}
        rows = b"".join(bytes(1) + bytes(rank[v[0]] for v in db.query(f"SELECT v FROM {name} WHERE y = {y} ORDER BY x")) for y in range(SIDE))
        share = len(file) / len(zlib.compress(rows, 6))
        same(share <= (0.9 if name == "smooth" else 1.6), True, f"{name}: {len(file)} bytes, {share:.2f} times the default")


def test_dense_arrays_show_the_means_of_their_rows():
    rng = random.Random(9)
    for round_ in range(24):
        db = Database()
        datatype = rng.choice(list(TYPES))
        in_database, dimensions = rng.random() < 0.4, rng.choice((2, 2, 3, 4))
        kind = rng.choice(("INT8", "INT32", "UINT16", "INT64"))
        names = ["y", "x", "z", "odd name"][:dimensions]
        low = {n: 0 if kind == "UINT16" else rng.randint(-30, 5) for n in names}
        size = {n: rng.randint(1, 40) if n in "yx" else rng.randint(2, 3) for n in names}
        columns = ", ".join(f'"{n}" {kind} DIMENSION({low[n]}, {low[n] + size[n] - 1}, {rng.randint(1, size[n])})' for n in names)
        where = "db:t" if in_database else path(f"d{round_}")
        first = "" if in_database else literal(where) + ", "
        orders = f"cell_order={rng.choice(('row', 'col'))}, tile_order={rng.choice(('row', 'col'))}"
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({first}kind=dense, {columns}, v {datatype}, {orders})")
        for _ in range(rng.randint(1, 3)):   # boxes that overlap and leave gaps
            box = {n: sorted(rng.randint(low[n], low[n] + size[n] - 1) for _ in "ab") for n in names}
            cells = [[]]
            for n in names:
                cells = [c + [i] for c in cells for i in range(box[n][0], box[n][1] + 1)]
            db.query("BEGIN")
            for cell in cells:
                db.query(f"INSERT INTO t VALUES({', '.join('?' * (dimensions + 1))})", (*cell, random_value(rng, datatype)))
            db.query("COMMIT")
        for _ in range(3):
            box = [sorted(rng.randint(low[n], low[n] + size[n] - 1) for _ in "ab") for n in "yx"]
            look(db, rng, where, "t", names[:2], box, {n: rng.randint(low[n], low[n] + size[n] - 1) for n in names[2:]})
        db.close()


def test_sparse_arrays_show_the_means_of_their_cells():
    rng = random.Random(19)
    for round_ in range(10):
        db = Database()
        datatype, real = rng.choice(list(TYPES)), round_ % 2 == 0
        kind = "FLOAT64" if real else "INT32"
        pair = lambda a, b: (rng.uniform(a, b), rng.uniform(a, b)) if real else (rng.randint(a, b), rng.randint(a, b))
        extra = 'contig TEXT DIMENSION, ' if rng.random() < 0.5 else ""
        duplicates = "yes" if rng.random() < 0.5 else "no"
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({extra}y {kind} DIMENSION(-90, 90, 30), x {kind} DIMENSION(-180, 180, 60), "
                 f"v {datatype}, capacity=64, duplicates={duplicates})")
        for _ in range(3):
            db.query("BEGIN")
            for _ in range(300):
                y, x = pair(-90, 90)[0], pair(-180, 180)[0]
                row = ([rng.choice(("chr1", "chr2"))] if extra else []) + [y, x, random_value(rng, datatype)]
                db.query(f"INSERT INTO t VALUES({', '.join('?' * len(row))})", row)
            db.query("COMMIT")
        for _ in range(3):
            look(db, rng, "db:t", "t", ["y", "x"], [sorted(pair(-90, 90)), sorted(pair(-180, 180))], {"contig": "chr1"} if extra else {}, real)
        db.close()


def test_axes_that_are_enormous():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(p UINT64 DIMENSION(0, 18446744073709551614), q INT64 DIMENSION, v INT32)")
    db.query("INSERT INTO t VALUES(0, -9223372036854775808, 1), ('18446744073709551614', 9223372036854775806, 2), (9223372036854775807, 0, 3)")
    got = png(db, "db:t", "v", None, {"width": 3, "height": 2, "colormap": "gray", "min": 1, "max": 3})
    same([[p[0] if p[3] else None for p in row] for row in got], [[0, 255, None], [None, None, 128]], "corners")
    same(len(png(db, "db:t", "v")), 800, "default")


def test_no_data():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 0, 1), x INT32 DIMENSION(0, 7, 8), "
             "v FLOAT64, n INT16 NOT NULL DEFAULT -9999, b UINT8 NOT NULL, d DATE)")
    db.query("INSERT INTO t VALUES(0, 0, NULL, -9999, 255, NULL), (0, 1, 9e999, 1, 254, '2020-01-01'), (0, 2, 1.5, 3, 0, '2020-01-03'), "
             "(0, 3, -1.5, 2, 7, '2020-01-02'), (0, 7, -9e999, 2, 1, '2020-01-02')")
    gray = {"colormap": "gray"}
    values = lambda name, more={}: [p[0] if p[3] else None for p in png(db, "db:t", name, None, gray | more)[0]]
    same(values("v"), [None, 255, 255, 0, None, None, None, 0], "NULL, infinities, never written")
    same(values("n"), [None, 0, 255, 128, None, None, None, 128], "a fill value that was declared")
    same(values("b", {"min": 0, "max": 255}), [255, 254, 0, 7, None, None, None, 1], "a fill value of one byte that was not")
    same(values("d"), [None, 0, 255, 128, None, None, None, 128], "datetimes")
    same(values("d", {"min": "2020-01-01", "max": "2020-01-02"}), [None, 0, 255, 255, None, None, None, 255], "with ISO ends")
    same(png(db, "db:t", "v", None, {"nodata": "white"})[0][0], (255, 255, 255, 255), "a colour")
    same(png(db, "db:t", "v", {"x": [4, 6]})[0], [(0, 0, 0, 0)] * 3, "nothing at all")
    same(preview(db, "db:t", "v", {"x": [4, 6]}, {"width": 3, "height": 1}), ["   ", "v: no data; down y 0 to 0, right x 4 to 6"], "preview of nothing")
    same(preview(db, "db:t", "d", None, {"width": 8, "height": 1}),
         [" .@+   +", "d: 2020-01-01 (.) to 2020-01-03 (@); down y 0 to 0, right x 0 to 7"], "preview of dates")


def test_nulls_above_other_values_than_the_fill_value():
    """Other writers leave any value under a null. It is no data in a picture and in a coarser array, and the fill value in a block."""
    for n, kind in enumerate(("kind=dense", "kind=dense, cell_order=col, tile_order=col", "kind=sparse, capacity=32")):
        db, where, extents = Database(), path(f"under{n}"), (", 4", ", 8") if n < 2 else ("", "")
        db.query(f"CREATE VIRTUAL TABLE u USING tessera({literal(where)}, {kind}, y INT32 DIMENSION(0, 3{extents[0]}), x INT32 DIMENSION(0, 7{extents[1]}), v INT32 FILTERS(none), validity_filters=(none))")
        db.query("WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 31) INSERT INTO u SELECT i / 8, i % 8, CASE WHEN i < 4 THEN NULL ELSE i * 10 END FROM c")
        (file,) = [os.path.join(folder, name) for folder, _, names in os.walk(where) for name in names if name == "a0_validity.tdb"]
        order = sorted(range(32), key=lambda i: (i % 8, i)) if n == 1 else list(range(32))
        with open(file, "r+b") as f:   # as many nulls as before, in other cells
            bytes_ = f.read()
            same(bytes_[-32:], bytes(i >= 4 for i in order), "a byte for each cell")
            f.seek(len(bytes_) - 32)
            f.write(bytes(i < 28 for i in order))
        db.close()
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE u USING tessera({literal(where)})")
        fill = -2**31
        want = [fill] * 4 + [i * 10 for i in range(4, 28)] + [fill] * 4
        same([v for v, in db.query("SELECT v FROM u ORDER BY y, x")], want[:28] + [None] * 4)
        pixels_agree(db, where, want, fill)
        if n < 2:
            blocks_agree(db, where, want)
            db.query("SELECT tessera_regrid(?, 'db:coarse', '{\"y\":2,\"x\":4}', 'count')", (where,))
            same([v for v, in db.query("SELECT v FROM coarse ORDER BY y, x")], [8, 8, 8, 4])
        db.close()


def blocks_agree(db, where, want):
    """From tiles that are kept, and from tiles whose cells go into the block while they are decoded, because no cache takes them."""
    db.query(f"CREATE VIRTUAL TABLE uncached USING tessera({literal(where)}, cache_mb=0)")
    for array in (where, "db:uncached"):
        for slice_, cells in ((None, want), ({"y": [1, 3], "x": [2, 7]}, [want[y * 8 + x] for y in (1, 2, 3) for x in range(2, 8)]), ({"y": 3}, want[24:]), ({"x": [6, 6]}, want[6::8])):
            block = db.value("SELECT tessera_npy(?, 'v', ?)", (array, slice_ and json.dumps(slice_)))
            same(list(struct.unpack(f"<{len(cells)}i", block[-4 * len(cells):])), cells, (array, slice_))


def pixels_agree(db, where, want, fill):
    for options in ({}, {"width": 8, "height": 4}, {"width": 4, "height": 2}, {"width": 16, "height": 8}):
        rows = png(db, where, "v", None, {"colormap": "gray", "min": 0, "max": 310, **options})
        high, wide = len(rows), len(rows[0])
        for y in range(high):
            for x in range(wide):
                cells = [want[j * 8 + i] for j in range(y * 4 // high, max(y * 4 // high + 1, (y + 1) * 4 // high)) for i in range(x * 8 // wide, max(x * 8 // wide + 1, (x + 1) * 8 // wide))]
                cells = [cell for cell in cells if cell != fill]
                same(rows[y][x][3] > 0, bool(cells), (where, options, y, x))
                if cells:
                    same(abs(rows[y][x][0] - sum(cells) / len(cells) / 310 * 255) <= 1, True, (where, options, y, x, rows[y][x], cells))


def test_numbers_at_the_ends():
    """Means that are neighbours among doubles, so that no share can be computed, and means at both ends of the doubles."""
    tiny = 5e-324
    for values in ([3 * tiny, 4 * tiny, 5 * tiny], [0.0, tiny, 2 * tiny], [-1.7e308, 0.0, 1.7e308], [-math.inf, 0.0, 1.0]):
        db = Database()
        db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 0, 1), x INT32 DIMENSION(0, 2, 3), v FLOAT64)")
        for x, value in enumerate(values):
            db.query("INSERT INTO t VALUES(0, ?, ?)", (x, value))
        first, middle, last = (SHADES.index(shade) for shade in preview(db, "db:t", "v", None, {"width": 3, "height": 1})[0])
        same([first, first <= middle <= last, last], [0, True, len(SHADES) - 1], f"shades of {values}")
        first, middle, last = (p[0] for p in png(db, "db:t", "v", None, {"colormap": "gray"})[0])
        same([first, first <= middle <= last, last], [0, True, 255], f"greys of {values}")


def test_colours_and_sizes():
    db = Database()
    relief = data("relief")
    sizes = lambda options: (lambda got: (len(got[0]), len(got)))(png(db, relief, "elevation", None, options))
    same(sizes(None), (540, 270), "two cells a pixel")
    same(sizes({"width": 100}), (100, 50), "width alone")
    same(sizes({"height": 100}), (200, 100), "height alone")
    same(sizes({"width": 7, "height": 91}), (7, 91), "both")
    ends = {"viridis": ((68, 1, 84), (253, 231, 37)), "magma": ((0, 0, 4), (252, 253, 191)), "inferno": ((0, 0, 4), (252, 255, 164)),
            "turbo": ((48, 18, 59), (122, 4, 3)), "coolwarm": ((59, 76, 192), (180, 4, 38)), "gray": ((0, 0, 0), (255, 255, 255))}
    for name, (low, high) in ends.items():
        got = {p for row in png(db, relief, "elevation", None, {"colormap": name, "min": -1, "max": 1, "width": 60}) for p in row}
        if not {(*low, 255), (*high, 255)} <= got:
            raise AssertionError(f"{name}: {sorted(got)[:3]}")
    same(db.value("SELECT tessera_png(?, 'elevation')", (relief,)), db.value("SELECT tessera_png(?, 'elevation', '{}', '{\"colormap\":\"VIRIDIS\"}')", (relief,)),
         "the default")
    # In the map terrain only values below 0 are blue.
    db.table("r", relief)
    cells = db.query("SELECT y + 270, x + 540, elevation FROM r")
    h, w, means = places(cells, 540, 1080, 90, 180)
    got = png(db, relief, "elevation", None, {"colormap": "terrain", "width": 180})
    for (y, x), mean in means.items():
        _, g, b, _ = got[y][x]
        if (b > g) != (mean < 0):
            raise AssertionError(f"terrain at {y}, {x}: {got[y][x]} for {mean}")


def test_other_times_and_keys():
    db = Database()
    where = path("past")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where)}, kind=dense, y INT32 DIMENSION(0, 1, 2), x INT32 DIMENSION(0, 1, 2), v INT32)")
    db.query("INSERT INTO t VALUES(0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 1, 4)")
    then = db.value("SELECT last_write FROM tessera_array(?)", (where,))
    gray = {"colormap": "gray", "min": 0, "max": 255}
    flat = lambda address: [p[0] for row in png(db, address, "v", None, gray) for p in row]
    db.query("UPDATE t SET v = v * 10")
    db.table("old", where, f", as_of={then}")
    same((flat(where), flat("db:t"), flat("db:old")), ([10, 20, 30, 40], [10, 20, 30, 40], [1, 2, 3, 4]), "times")
    key = "00112233445566778899aabbccddeeff" * 2
    with open(path("key"), "w") as f:
        f.write(key)
    secret = path("secret")
    db.query(f"CREATE VIRTUAL TABLE s USING tessera({literal(secret)}, kind=dense, y INT32 DIMENSION(0, 1, 2), x INT32 DIMENSION(0, 1, 2), v INT32, "
             f"encryption=aes_256_gcm, key_file={literal(path('key'))})")
    db.query("INSERT INTO s VALUES(0, 0, 5), (0, 1, 6), (1, 0, 7), (1, 1, 8)")
    same(flat("db:s"), [5, 6, 7, 8], "the table's key")
    other = Database()
    same(other.error("SELECT tessera_png(?, 'v')", (secret,)).code in (23, None), True, "no key")
    other.query("SELECT tessera_set_key(?, ?)", (secret, key))
    same(other.value("SELECT length(tessera_png(?, 'v')) > 0", (secret,)), 1, "a key that was given")


def test_enumerations_are_not_averaged():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 3, 2), x INT32 DIMENSION(0, 999, 100), v TEXT ENUM('a','b','c'))")
    db.query("INSERT INTO t SELECT 0, value, substr('abc', 1 + value % 3, 1) FROM (WITH RECURSIVE n(value) AS (VALUES(0) UNION ALL "
             "SELECT value + 1 FROM n WHERE value < 999) SELECT value FROM n)")
    got = png(db, "db:t", "v", None, {"colormap": "gray"})
    same([p[0] for p in got[0][:4]], [0, 128, 255, 0], "codes")
    same(len(got[0]), 1000, "a pixel for each cell")
    e = db.error("""SELECT tessera_png('db:t', 'v', NULL, '{"width":10}')""")
    check_contains(e.text, "attribute 'v' is enumerated, and labels have no mean: 100 cells would be one pixel")
    check_contains(db.error("SELECT tessera_preview('db:t', 'v')").text, "enumerated")


def test_wrong_arguments_are_refused():
    db = Database()
    relief, climate = data("relief"), data("climate")
    def refused(options, text, code, function="tessera_png"):
        e = db.error(f"SELECT {function}(?, 'elevation', NULL, ?)", (relief, options if isinstance(options, str) else json.dumps(options)))
        check_contains(e.text, text)
        same(e.code in (code, None), True, f"{options}: code {e.code}")
    refused({"widht": 3}, "no option is called 'widht': width, height, min, max, flip, overviews, colormap, nodata", ERROR)
    refused({"colormap": "gray"}, "no option is called 'colormap': width, height, min, max, flip, overviews", ERROR, "tessera_preview")
    refused({"colormap": "jet"}, "'colormap': no colormap is called 'jet': viridis, magma, inferno, turbo, coolwarm, gray, terrain", ERROR)
    refused({"colormap": 3}, "'colormap': expected text, not 3", MISMATCH)
    refused({"width": 0}, "'width': expected an integer from 1 to 65535, not 0", RANGE)
    refused({"width": -5}, "'width': expected an integer from 1 to 65535, not -5", RANGE)
    refused({"width": 1.5}, "'width': expected an integer", MISMATCH)
    refused({"width": "wide"}, "'width': expected an integer from 1 to 65535, not \"wide\"", MISMATCH)
    refused({"min": "deep"}, "'min': 'deep'", MISMATCH)
    refused('{"max": 9e999}', "'max': expected a finite number", RANGE)
    refused({"min": 5, "max": 5}, "'min' is not below 'max'", RANGE)
    refused({"flip": 1}, "'flip': expected true or false", MISMATCH)
    for colour in ("#12345", "#12345g", "#123456789", "red", "", "#"):
        refused({"nodata": colour}, "is not a colour", MISMATCH)
    refused("[1]", "options: expected a JSON object", MISMATCH)
    refused('{"width":', "options: malformed JSON", MISMATCH)
    refused("", "options: expected a JSON object", MISMATCH)
    before = host.memory_used()
    for options in ({"width": 10**5, "height": 10**5}, {"width": 2**31 - 1}, {"width": 2**31}, {"width": 65536, "height": 1}, {"width": 1, "height": 65536}, {"width": 10**300}, '{"height":99999999999999999999}'):
        for function in ("tessera_png", "tessera_preview"):
            refused(options, "expected an integer from 1 to 65535, not", RANGE, function)
    same(host.memory_used() - before < 1 << 20, True, "memory")
    for sql, text in (("SELECT tessera_png(?, 'sst')", "3 dimensions are left (month, j, i): give one value of all but two in the slice"),
                      ("SELECT tessera_png(?, 'nothing')", "has no attribute 'nothing'"),
                      ("SELECT tessera_png(?, 'sst', '{\"week\":1}')", "the array has no dimension 'week'"),
                      ("SELECT tessera_png(?, 3)", "argument 2: expected text"),
                      ("SELECT tessera_png(NULL, 'sst') WHERE ? IS NOT NULL", "argument 1: expected text")):
        check_contains(db.error(sql, (climate,)).text, text)
    db.query("CREATE VIRTUAL TABLE s USING tessera(contig TEXT DIMENSION, p INT32 DIMENSION(0, 9), q INT32 DIMENSION(0, 9), name TEXT, v INT32, w INT32[3])")
    for sql, text in (("SELECT tessera_png('db:s', 'v')", "array db:s has no cells there"),
                      ("SELECT tessera_png('db:s', 'name')", "attribute 'name' is UTF8: a picture needs numbers"),
                      ("SELECT tessera_png('db:s', 'w')", "attribute 'w' has several values in a cell")):
        check_contains(db.error(sql).text, text)
    db.query("INSERT INTO s VALUES('a', 1, 1, 'n', 1, '[1,2,3]')")
    check_contains(db.error("SELECT tessera_png('db:s', 'v')").text, "dimension 'contig' holds strings: give one value of it in the slice")
    same(len(png(db, "db:s", "v", {"contig": "a"})), 1, "one cell")
    db.query("CREATE VIRTUAL TABLE l USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    db.query("INSERT INTO l VALUES(1, 1)")
    check_contains(db.error("SELECT tessera_png('db:l', 'v')").text, "has one dimension: a picture has two")
    db.query("CREATE VIRTUAL TABLE tight USING tessera(x FLOAT64 DIMENSION(0, 9), y FLOAT64 DIMENSION(0, 9), v INT32, memory_mb=1)")
    db.query("INSERT INTO tight VALUES(1, 1, 1), (2, 2, 2)")
    e = db.error("""SELECT tessera_png('db:tight', 'v', NULL, '{"width":3000,"height":3000}')""")
    same(e.code, TOOBIG, "code")
    check_contains(e.text, "memory_mb")
    if host.binding == "sqlite3" and hasattr(db.raw, "setlimit"):
        db.raw.setlimit(0, 2000)
        check_contains(db.error("SELECT tessera_png(?, 'elevation')", (relief,)).text, "540 x 270 pixels exceed SQLite's limit for a value (2000 bytes)")


def test_the_picture_of_the_readme_is_the_demos():
    """The demo's call of tessera_png makes the pixels of docs/pictures/relief.png. Their compressed bytes may differ between releases of zlib."""
    with open(os.path.join(ROOT, "sql", "demo_write.sql"), encoding="utf-8") as script:
        call, = re.findall(r"writefile\('relief\.png', (tessera_png\(.*?\))\) > 0", script.read(), re.S)
    with open(os.path.join(ROOT, "docs", "pictures", "relief.png"), "rb") as picture:
        shown = picture.read()
    made = Database().value("SELECT " + call.replace("'sql/data/relief'", literal(data("relief"))))
    same(decode(made) == decode(shown), True, "the pixels of docs/pictures/relief.png")


def test_the_file_has_the_fewest_bytes_for_a_pixel():
    """The colour type: a palette up to 256 colours, then RGB, and RGBA where a pixel is transparent."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(y INT32 DIMENSION(0, 15, 16), x INT32 DIMENSION(0, 15, 16), v INT32)")
    db.query("WITH RECURSIVE k(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n < 255) INSERT INTO t SELECT n / 16, n % 16, n FROM k")
    def kind(options, slice_=None):
        file = db.value("SELECT tessera_png('db:t', 'v', ?, ?)", (slice_, json.dumps(options)))
        return file[25], decode(file)
    colours, pixels = kind({"colormap": "gray"})
    same((colours, pixels), (3, [[(16 * y + x,) * 3 + (255,) for x in range(16)] for y in range(16)]), "256 colours")
    db.query("CREATE VIRTUAL TABLE u USING tessera(y INT32 DIMENSION(0, 16, 17), x INT32 DIMENSION(0, 15, 16), v INT32)")
    db.query("INSERT INTO u SELECT * FROM t")
    for nodata, expected in (("transparent", (6, (0, 0, 0, 0))), ("#010203", (2, (1, 2, 3, 255)))):
        file = db.value("SELECT tessera_png('db:u', 'v', '{\"y\":[0,16]}', ?)", (json.dumps({"colormap": "gray", "nodata": nodata}),))
        same((file[25], decode(file)[16][0]), expected, f"257 colours, {nodata}")
        same(decode(file)[:16], pixels, "the pixels with data")


def test_the_progress_handler_stops_it():
    db = Database()
    relief = data("relief")
    calls = []
    wide = json.dumps({"width": 300, "height": 3000})
    draw = "SELECT length(tessera_png(?, 'elevation', NULL, ?))"
    db.query(draw, (relief, wide))   # decoded tiles are cached now, so each call does the same work
    db.raw.set_progress_handler(lambda: calls.append(1) or 0, 1)
    db.query(draw, (relief, wide))
    if len(calls) < 50:
        raise AssertionError(f"the progress handler was called {len(calls)} times")
    calls.clear()   # a wide picture of 4 MiB of pixels has fewer rows
    db.query(draw, (relief, json.dumps({"width": 65535, "height": 16})))
    same(len(calls) > 20, True, f"{len(calls)} calls")
    calls.clear()
    for stop in (12, 45):   # calls come in bundles of different sizes
        calls.clear()
        db.raw.set_progress_handler(lambda: calls.append(1) or len(calls) > stop, 1)
        e = db.error(draw, (relief, wide))
        same(e.code in (INTERRUPT, None), True, f"code {e.code}")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
