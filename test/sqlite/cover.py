"""tessera_cover: polygons as runs of cells. Shares and centres are compared with exact ones, in rational numbers; a sample
of cells was burnt by GDAL.

usage: cover.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import math
import random
import struct
import sys
from fractions import Fraction

import host
from host import Database, check_contains, same

NY, NX = 12, 16
EXACT = 1e-12   # most that a share may be off


def make(ny=NY, nx=NX, more=""):
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE g USING tessera(kind=dense, t INT32 DIMENSION(0, 1, 1), y INT32 DIMENSION(0, {ny - 1}, {min(4, ny)}), x INT32 DIMENSION(0, {nx - 1}, 7), v FLOAT32{more})")
    return db


UNIT = {"axes": {"y": [0, 1], "x": [0, 1]}}


def runs(db, geometry, rule=None, options=UNIT, grid="db:g"):
    return db.query("SELECT y, x_from, x_to, coverage FROM tessera_cover(?, ?, ?, ?)", (grid, geometry, rule, json.dumps(options)))


def cells(db, geometry, rule=None, options=UNIT, grid="db:g"):
    """Returns {(y, x): coverage}, after checks of the order of the runs and that they are maximal."""
    found, before = {}, None
    for y, first, last, coverage in runs(db, geometry, rule, options, grid):
        assert first <= last and 0 < coverage <= 1, (y, first, last, coverage)
        if before:
            assert (y, first) > before[:2], "the order of the runs"
            assert (y, first, coverage) != (before[0], before[1] + 1, before[2]), "two runs that are one"
        before = (y, last, coverage)
        found.update({(y, x): coverage for x in range(first, last + 1)})
    return found


def wkt(*polygons):
    """The text of polygons, each a list of rings."""
    ring = lambda points: "(" + ", ".join(f"{x!r} {y!r}" for x, y in list(points) + [points[0]]) + ")"
    return "MULTIPOLYGON (" + ", ".join("(" + ", ".join(map(ring, rings)) + ")" for rings in polygons) + ")"


# ---- Exact covers, for rings that do not cross themselves or each other ----

def clip(points, axis, edge, above):
    """Clips a ring of Fractions at a line (Sutherland and Hodgman)."""
    out = []
    for (a, b) in zip(points, points[1:] + points[:1]):
        inside = [(p[axis] >= edge) if above else (p[axis] <= edge) for p in (a, b)]
        if inside[0] != inside[1]:
            share = (edge - a[axis]) / (b[axis] - a[axis])
            cut = [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share]
            cut[axis] = edge
            out.append(tuple(cut))
        if inside[1]:
            out.append(b)
    return out


def area(points):
    return abs(sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(points, points[1:] + points[:1]))) / 2


def exact_share(polygons, low, high):
    """The share of the box from `low` to `high` (x, y) that polygons cover which have no point in common."""
    total = Fraction(0)
    for rings in polygons:
        for n, ring in enumerate(rings):
            points = [(Fraction(x), Fraction(y)) for x, y in ring]
            for axis in (0, 1):
                for edge, above in ((low[axis], True), (high[axis], False)):
                    points = clip(points, axis, Fraction(edge), above) if points else points
            total += (1 if n == 0 else -1) * (area(points) if points else 0)
    return total / ((Fraction(high[0]) - Fraction(low[0])) * (Fraction(high[1]) - Fraction(low[1])))


def exact_contains(polygons, x, y):
    """Whether polygons contain a point; one on a side belongs to the polygon on its greater side."""
    def winds(ring):
        winding = 0
        for (x0, y0), (x1, y1) in zip(ring, ring[1:] + ring[:1]):
            if (y0 <= y) != (y1 <= y):
                crossing = Fraction(x0) + (Fraction(x1) - Fraction(x0)) * (Fraction(y) - Fraction(y0)) / (Fraction(y1) - Fraction(y0))
                winding += (1 if y1 > y0 else -1) * (crossing <= Fraction(x))
        return winding != 0
    return any(winds(rings[0]) and not any(winds(hole) for hole in rings[1:]) for rings in polygons)


def star(chance, centre, reach, corners, short=False):
    """A star-shaped ring: it does not cross itself."""
    angles = sorted(chance.uniform(0, 2 * math.pi) for _ in range(corners))
    points = [(centre[0] + reach * chance.uniform(.5, 1) * math.cos(a), centre[1] + reach * chance.uniform(.5, 1) * math.sin(a)) for a in angles]
    return [(round(4 * x) / 4, round(4 * y) / 4) for x, y in points] if short else points


def polygon(chance, low, high, short):
    """A polygon around the middle of a box, often with a hole, often beyond the box."""
    centre = tuple(chance.uniform(low[i] + .3 * (high[i] - low[i]), low[i] + .7 * (high[i] - low[i])) for i in (0, 1))
    reach = (high[0] - low[0]) * chance.uniform(.1, .8)
    regular = [(centre[0] + reach * math.cos(k * math.pi / 4), centre[1] + reach * math.sin(k * math.pi / 4)) for k in range(8)]
    if chance.random() < .4:   # a hole that is surely within
        hole = star(chance, centre, reach * .4, 5)
        return [regular[::chance.choice((1, -1))], hole]
    if short:
        return [[(round(4 * x) / 4, round(4 * y) / 4) for x, y in regular]]
    corners = chance.choice((3, 7, 20))
    angles = sorted(chance.uniform(0, 2 * math.pi) for _ in range(corners))
    return [[(centre[0] + r * math.cos(a), centre[1] + r * math.sin(a)) for a in angles for r in (reach * chance.uniform(.4, 1),)]]


def edges_of(origin, step, count):
    return [origin + step * i for i in range(count + 1)]


def compare(db, polygons, ys, xs, options, grid="db:g", centres=None):
    """Compares all cells with exact ones. `ys` and `xs`: the edges along the coordinates."""
    got = cells(db, wkt(*polygons), "fraction", options, grid)
    for y in range(len(ys) - 1):
        for x in range(len(xs) - 1):
            low, high = (min(xs[x:x + 2]), min(ys[y:y + 2])), (max(xs[x:x + 2]), max(ys[y:y + 2]))
            share = exact_share(polygons, low, high)
            off = abs(Fraction(got.get((y, x), 0)) - share)
            assert off <= EXACT, f"{wkt(*polygons)} {options}: cell {y}, {x}: {got.get((y, x))}, exactly {float(share)}"
            if share in (0, 1):
                same(got.get((y, x), 0), float(share), f"cell {y}, {x} of {wkt(*polygons)}")
    got = cells(db, wkt(*polygons), "centre", options, grid)
    middle = centres or [[(edges[i] + edges[i + 1]) / 2 for i in range(len(edges) - 1)] for edges in (ys, xs)]
    expected = {(y, x): 1.0 for y, cy in enumerate(middle[0]) for x, cx in enumerate(middle[1]) if exact_contains(polygons, cx, cy)}
    same(got, expected, f"centres of {wkt(*polygons)} {options}")


def test_shares_and_centres_are_exact():
    """Degrees, metres far from the origin, and edges that no binary number has; rising and falling."""
    db = make()
    chance = random.Random(5)
    for origins, steps in (((0, 0), (1, 1)), ((50.5, -8.25), (-.25, .25)), ((5200020, 399960), (-10, 10)), ((.1, .7), (.3, -.1))):
        ys, xs = edges_of(origins[0], steps[0], NY), edges_of(origins[1], steps[1], NX)
        options = {"axes": {"y": [origins[0], steps[0]], "x": [origins[1], steps[1]]}}
        for n in range(6):
            made = polygon(chance, (min(xs), min(ys)), (max(xs), max(ys)), n % 3 == 0 and abs(steps[0]) == 1)
            compare(db, [made], ys, xs, options)


def test_long_sides_are_exact():
    """A triangle a thousand cells wide: its sides are computed from their nearer ends."""
    db = make(3, 1000)
    ring = [(-17.3, -.4), (1003.7, 1.3), (1003.7, 2.9)]
    compare(db, [[ring]], edges_of(0, 1, 3), edges_of(0, 1, 1000), UNIT)


def test_corners_far_away():
    """Sides are followed from their nearer end, so that a corner at a number that stands for no place moves no cell near the others."""
    db, chance = make(), random.Random(4)
    for power in host.sampled((9, 18, 30, 100, 250)):
        for _ in range(8):
            far = [chance.choice((1, -1)) * 10 ** (power * chance.uniform(.8, 1)) for _ in (0, 1)]
            near = [(chance.uniform(0, NX), chance.uniform(0, NY)) for _ in (0, 1)]
            ring = [*near, tuple(far)] if chance.random() < .5 else [near[0], (far[0], near[0][1]), (near[0][0], far[1])]
            compare(db, [[ring]], edges_of(0, 1, NY), edges_of(0, 1, NX), UNIT)
    db.close()


def test_cells_are_those_of_gdal():
    """rasterio.features.rasterize gave these cells: of each row a hexadecimal number, whose lowest bit is x = 0."""
    db = make()
    for text, rows in GDAL:
        for rule, expected in zip(("centre", "touched"), rows):
            got = cells(db, text, rule)
            same([sum(1 << x for x in range(NX) if (y, x) in got) for y in range(NY)], [int(n, 16) for n in expected.split()], f"{rule} of {text}")


def test_polygons_that_tile_a_square_share_its_cells():
    """Triangles whose corners are on edges, on centres and in between: shares add up to 1, and each centre is in one."""
    db = make()
    chance = random.Random(7)
    triangles = [((1, 1), (13, 1), (13, 10)), ((1, 1), (13, 10), (1, 10))]
    while len(triangles) < 60:
        n = chance.randrange(len(triangles))
        corners = triangles.pop(n)
        while True:
            weights = sorted((chance.random(), chance.random()))
            shares = (weights[0], weights[1] - weights[0], 1 - weights[1])
            cut = chance.choice((1, 2, 1000))
            inner = tuple(round(cut * sum(s * c[i] for s, c in zip(shares, corners))) / cut for i in (0, 1))
            parts = [(corners[0], corners[1], inner), (corners[1], corners[2], inner), (corners[2], corners[0], inner)]
            turns = [(b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) for a, b, c in parts]
            if all(turn > 0 for turn in turns):
                break
            if cut == 1000 and chance.random() < .1:
                parts = [corners]
                break
        triangles += parts
    shares, centres = {}, {}
    for corners in triangles:
        for all_of, rule in ((shares, "fraction"), (centres, "centre")):
            for cell, coverage in cells(db, wkt([list(corners)]), rule).items():
                all_of[cell] = all_of.get(cell, 0) + coverage
    square = {(y, x) for y in range(1, 10) for x in range(1, 13)}
    same(set(shares), square)
    assert all(abs(share - 1) < 1e-13 for share in shares.values()), max(abs(share - 1) for share in shares.values())
    same(centres, {cell: 1.0 for cell in square})


def test_boxes_along_edges_and_through_centres():
    db = make()
    box = lambda x0, y0, x1, y1: wkt([[(x0, y0), (x1, y0), (x1, y1), (x0, y1)]])
    for rule in ("fraction", "centre", "touched"):
        same(runs(db, box(2, 3, 5, 5), rule), [(3, 2, 4, 1.0), (4, 2, 4, 1.0)], rule)
    same(runs(db, box(.5, .5, 2.5, 2.5), "centre"), [(0, 0, 1, 1.0), (1, 0, 1, 1.0)], "a centre is of the box above and right")
    same(runs(db, box(.5, .5, 2.5, 1.5)), [(0, 0, 0, .25), (0, 1, 1, .5), (0, 2, 2, .25), (1, 0, 0, .25), (1, 1, 1, .5), (1, 2, 2, .25)])
    same(runs(db, box(.25, .25, 9.25, .75), "touched"), [(0, 0, 9, 1.0)])
    same(runs(db, box(1.25, 1.25, 1.5, 1.5)), [(1, 1, 1, .0625)], "within one cell")
    same(runs(db, box(1.25, 1.25, 1.5, 1.5), "centre"), [])
    same(runs(db, box(1.25, 1.25, 1.375, 1.5), "touched"), [(1, 1, 1, 1.0)])
    same(len(runs(db, box(-1e9, -1e9, 1e9, 1e9))), NY, "far beyond the grid")
    same(runs(db, box(-9, 2, 0, 4), "touched") + runs(db, box(NX, 2, NX + 3, 4), "touched") + runs(db, box(2, NY, 4, NY + 1)) + runs(db, box(2, -3, 4, 0)), [])


def test_invalid_polygons_mean_what_a_map_paints():
    db = make()
    def shares(*polygons):
        return cells(db, wkt(*polygons))
    square = [(1, 1), (6, 1), (6, 6), (1, 6)]
    whole = shares([square])
    same(shares([square[::-1]]), whole, "clockwise")
    same(shares([square + square]), whole, "wound twice")
    same(shares([square[:2] + [(6, 1), (6, 1)] + square[2:]]), whole, "double points")
    same(shares([square[:2] + [(9.3, 3.1), (6, 1)] + square[2:]]), whole, "a spike")
    spike = [(6, 1), (9.3, 3.1), (6, 1)]
    same(set(cells(db, wkt([square[:2] + spike[1:] + square[2:]]), "touched")), set(whole) | set(cells(db, wkt([spike]), "touched")), "a spike touches")
    other = [(3, 3), (8, 3), (8, 8), (3, 8)]
    same(shares([square], [other]), {cell: 1.0 for cell in whole | shares([other])}, "parts that overlap")
    same(shares([square], [square]), whole, "a part twice")
    holes = [[(2, 2), (4, 2), (4, 4), (2, 4)], [(3, 3), (5, 3), (5, 5), (3, 5)]]
    same(shares([square] + holes), {cell: 1.0 for cell in whole if not any(cell in shares([hole]) for hole in holes)}, "holes that overlap")
    same(shares([square, [(4, 4), (9, 4), (9, 9), (4, 9)]]), {(y, x): 1.0 for y, x in whole if y < 4 or x < 4}, "a hole beyond its polygon")
    bow = shares([[(1.5, 1.5), (8.5, 8.5), (8.5, 1.5), (1.5, 8.5)]])
    for cell in ((2, 2), (2, 7), (7, 2), (7, 7), (4, 2), (4, 7)):
        left = exact_share([[[(1.5, 1.5), (5, 5), (1.5, 8.5)]], [[(8.5, 8.5), (5, 5), (8.5, 1.5)]]], (cell[1], cell[0]), (cell[1] + 1, cell[0] + 1))
        same(bow.get(cell, 0), float(left), f"a bow-tie: {cell}")
    half = [(1, 1.5), (6, 1.5), (6, 6), (1, 6)]
    same(shares([half], [half])[1, 1], 1.0, "shares of two parts add up, to 1 at most")


FORMS = [[(1.25, 1.5), (9.5, 2.25), (6.75, 8.125)], [(5.5, 3.5), (6.25, 3.75), (6, 4.5)]]


def ring_closed(points):
    return points + points[:1]


def wkb(rings, order="<", extra=(), code=3, srid=None):
    """WKB of a polygon whose points have further numbers."""
    out = struct.pack(order + "BI", order == "<", code | (0x20000000 if srid is not None else 0)) + (struct.pack(order + "i", srid) if srid is not None else b"")
    out += struct.pack(order + "I", len(rings))
    for points in rings:
        out += struct.pack(order + "I", len(points) + 1)
        for point in ring_closed(points):
            out += struct.pack(order + f"{2 + len(extra)}d", *point, *extra)
    return out


def gpkg(body, order="<", envelope=0, empty=False):
    flags = (order == "<") | envelope << 1 | empty << 4
    return b"GP" + struct.pack("BB", 0, flags) + struct.pack(order + "i", 4326) + struct.pack(order + "d", 7) * (0, 4, 6, 6, 8)[envelope] + body


def forms():
    """One polygon in all forms."""
    polygon = {"type": "Polygon", "coordinates": [ring_closed(ring) for ring in FORMS]}
    rings = lambda more="": ", ".join("(" + ", ".join(f"{x} {y}{more}" for x, y in ring_closed(ring)) + ")" for ring in FORMS)
    yield json.dumps(polygon)
    yield json.dumps({"coordinates": [[[[x, y, 7, 8] for x, y in ring] for ring in FORMS]], "bbox": [[{}], [], {"a": [1, None, True, "]}\\\""]}], "type": "MultiPolygon"})
    yield json.dumps({"properties": {"type": "Point", "geometry": None}, "geometry": polygon, "type": "Feature", "id": 3}, indent=2)
    yield f"POLYGON ({rings()})"
    yield f"\n polygon({rings()})  "
    yield f"SRID=4326;Polygon Z ({rings(' 9.5')})"
    yield f"POLYGON ZM({rings(' 1e3 -2')})"
    yield f"POLYGONM({rings(' .5')})"
    yield f"MULTIPOLYGON (({rings()}), EMPTY)"
    for order in "<>":
        yield wkb(FORMS, order)
        yield wkb(FORMS, order, (5,), 1003)
        yield wkb(FORMS, order, (5,), 2003)
        yield wkb(FORMS, order, (5, 6), 3003)
        yield wkb(FORMS, order, (5,), 0x80000003, srid=4326)
        yield wkb(FORMS, order, (5, 6), 0xC0000003)
        yield struct.pack(order + "BII", order == "<", 6, 2) + wkb(FORMS, "<>"[order == "<"]) + wkb([], order)
        for envelope in range(5):
            yield gpkg(wkb(FORMS, order), order, envelope)


def test_all_forms_of_geometry_give_the_same_cells():
    db = make()
    expected = cells(db, wkt(FORMS))
    assert len(expected) > 20
    for form in forms():
        same(cells(db, form), expected, form)


def test_empty_polygons_give_no_row():
    db = make()
    for empty in (None, "POLYGON EMPTY", "multipolygon empty", "POLYGON Z EMPTY", '{"type":"Polygon","coordinates":[]}', '{"type":"MultiPolygon","coordinates":[]}',
                  '{"type":"Feature","geometry":null}', wkb([]), gpkg(wkb([]), empty=True), struct.pack("<BII", 1, 6, 0)):
        same(runs(db, empty), [], empty)


def test_damaged_geometries_are_errors():
    """A geometry that ends early anywhere is an error that says so, and so are bytes that follow."""
    db = make()
    for number, form in enumerate(forms()):
        for size in range(1, len(form) - 3 if isinstance(form, str) else len(form), 1 if number % 6 == 0 else 11):
            if not form[:size].strip():
                continue
            error = db.error("SELECT * FROM tessera_cover('db:g', ?, NULL, ?)", (form[:size], json.dumps(UNIT)))
            check_contains(error.text, "tessera_cover: ")
        check_contains(db.error("SELECT * FROM tessera_cover('db:g', ?, NULL, ?)", (form + (b"x" if isinstance(form, bytes) else "x"), json.dumps(UNIT))).text, "geometry")
    nested = '{"a":' + "[" * 5000 + "]" * 5000 + ',"type":"Polygon","coordinates":[]}'
    check_contains(db.error("SELECT * FROM tessera_cover('db:g', ?, NULL, ?)", (nested, json.dumps(UNIT))).text, "the geometry has more than 512 levels")


def test_errors_say_what_is_wanted():
    db = make()
    triangle = "POLYGON ((0 0, 1 0, 1 1))"
    for geometry, message in (("LINESTRING (0 0, 1 1)", "tessera_cover: expected a POLYGON or MULTIPOLYGON, not LINESTRING"),
                              ('{"type":"FeatureCollection","features":[]}', "expected a POLYGON or MULTIPOLYGON, not FeatureCollection"),
                              (struct.pack("<BI", 1, 7), "expected a POLYGON or MULTIPOLYGON, not GEOMETRYCOLLECTION"),
                              ("", "no geometry: expected GeoJSON, WKT, WKB or GeoPackage"), (b"", "no geometry: expected GeoJSON"), (b"\x07", "no geometry: expected GeoJSON"), (12, "no geometry: expected GeoJSON"),
                              (wkb(FORMS)[:92], "the geometry ends early (byte "), ("POLYGON ((0 0, 1", "the geometry ends early (byte 17)"),
                              ("POLYGON ((0 0, 1 1))", "a ring has 2 points"), (wkb([[(0, 0), (math.nan, 0), (1, 1)]]), "a coordinate is not finite"),
                              ("POLYGON ((0 0, 1e999 1, 1 1))", "a coordinate is not finite"), ("POLYGON ((0 0, one 1, 1 1))", "the geometry is damaged at byte 16: expected a number"),
                              ('{"type":"Polygon"}', "the GeoJSON has no coordinates"), ('{"type":7}', "the GeoJSON has no type")):
        check_contains(db.error("SELECT * FROM tessera_cover('db:g', ?, NULL, ?)", (geometry, json.dumps(UNIT))).text, message)
    db.query("CREATE VIRTUAL TABLE s USING tessera(y INT32 DIMENSION(0, 9), x INT32 DIMENSION(0, 9), v INT32)")
    db.query("CREATE VIRTUAL TABLE l USING tessera(kind=dense, y INT32 DIMENSION(0, 9, 10) LABEL lat FLOAT64 LABEL lat_2 FLOAT64, x INT32 DIMENSION(0, 9, 10) LABEL lon FLOAT64, v INT32)")
    for grid, rule, options, message in (("db:g", "center", UNIT, "tessera_cover: rule: 'center': centre, touched or fraction"),
                                         ("db:g", None, {}, "y has no numeric label: name one or [origin, step] in axes"),
                                         ("db:l", None, {}, "y has several labels: lat, lat_2: name one in axes"),
                                         ("db:l", None, {"axes": {"y": "latitude", "x": "lon"}}, "y has no numeric label 'latitude': it has lat, lat_2"),
                                         ("db:l", None, {"axes": {"y": "lat", "x": "lon"}}, "y has no labels: [origin, step] in axes gives cells a width"),
                                         ("db:g", None, {"axes": {"y": [0, 1]}}, "axes: expected two dimensions, first y, then x"),
                                         ("db:g", None, {"axes": {"y": [0, 1], "z": [0, 1]}}, "axes: the array has no dimension 'z'"),
                                         ("db:g", None, {"axes": {"y": [0], "x": [0, 1]}}, "axes: y: expected the name of a label, or [origin, step]"),
                                         ("db:g", None, {"axes": {"y": [0, 0], "x": [0, 1]}}, "[origin, step] of y gives its cells no width"),
                                         ("db:g", None, {"axes": 7}, "axes: expected an object such as"), ("db:g", None, {"wrap": -1}, "wrap"), ("db:g", None, {"rap": 1}, "rap"),
                                         ("db:s", None, UNIT, "the grid is a dense array of two dimensions or more"), ("/nowhere", None, UNIT, "/nowhere")):
        check_contains(db.error("SELECT * FROM tessera_cover(?, ?, ?, ?)", (grid, triangle, rule, json.dumps(options))).text, message)


def labelled(lats, lons):
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE g USING tessera(kind=dense, y INT32 DIMENSION(-3, {len(lats) - 4}, 3) LABEL lat FLOAT64{'' if lats[0] < lats[-1] else ' DECREASING'}, "
             f"x INT32 DIMENSION(2, {len(lons) + 1}, 2) LABEL lon FLOAT64{'' if lons[0] < lons[-1] else ' DECREASING'}, v FLOAT32)")
    for name, first, values in (("lat", -3, lats), ("lon", 2, lons)):
        db.query(f"SELECT tessera_write_label('db:g', '{name}', ?, ?)", (json.dumps(values), first))
    return db


def edges_between(centres):
    middle = [a + (b - a) / 2 for a, b in zip(centres, centres[1:])]
    return [centres[0] - (middle[0] - centres[0])] + middle + [centres[-1] + (centres[-1] - middle[-1])]


def test_labels_are_centres_of_their_cells():
    """Rising and falling labels, with steps that differ."""
    chance = random.Random(11)
    for lat_falls, lon_falls in ((False, False), (True, False), (False, True)):
        lats, lons = (sorted((chance.uniform(0, 12) for _ in range(count)), reverse=falls) for count, falls in ((7, lat_falls), (9, lon_falls)))
        db = labelled(lats, lons)
        shifted = Database()
        ys, xs = edges_between(lats), edges_between(lons)
        for _ in range(3):
            made = [polygon(chance, (0, 0), (12, 12), False)]
            for rule in ("fraction", "centre"):
                got = {(y + 3, x - 2): c for (y, x), c in cells(db, wkt(*made), rule, {}).items()}
                for y in range(len(lats)):
                    for x in range(len(lons)):
                        low, high = (min(xs[x:x + 2]), min(ys[y:y + 2])), (max(xs[x:x + 2]), max(ys[y:y + 2]))
                        expected = exact_share(made, low, high) if rule == "fraction" else exact_contains(made, lons[x], lats[y])
                        assert abs(Fraction(got.get((y, x), 0)) - expected) <= EXACT, (rule, y, x, got.get((y, x)), float(expected))
        shifted.close()


def test_a_coordinate_without_a_label_is_no_cell():
    db = labelled([0.5, 1.5, 2.5], [0.5, 1.5, None, 2.5, 3.5])
    same(runs(db, "POLYGON ((0 0, 4 0, 4 3, 0 3))", None, {}), [(y, *xs, 1.0) for y in (-3, -2, -1) for xs in ((2, 3), (5, 6))])


def test_wrap_lays_polygons_across_the_date_line():
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, y INT32 DIMENSION(0, 3, 4), x INT32 DIMENSION(0, 35, 9), v FLOAT32)")
    at_zero = {"axes": {"y": [0, 1], "x": [0, 10]}}
    at_180 = {"axes": {"y": [0, 1], "x": [-180, 10]}}
    box = lambda low, high: f"POLYGON (({low} 1, {high} 1, {high} 2, {low} 2))"
    same(runs(db, box(-25, -5), None, at_zero), [], "no wrap")
    same(runs(db, box(-25, -5), None, {**at_zero, "wrap": 360}), [(1, 33, 33, .5), (1, 34, 34, 1.0), (1, 35, 35, .5)])
    same(runs(db, box(-15, 15), None, {**at_zero, "wrap": 360}), [(1, 0, 0, 1.0), (1, 1, 1, .5), (1, 34, 34, .5), (1, 35, 35, 1.0)])
    crossing = runs(db, box(165, 195), None, {**at_180, "wrap": 360})
    same(crossing, [(1, 0, 0, 1.0), (1, 1, 1, .5), (1, 34, 34, .5), (1, 35, 35, 1.0)])
    same(runs(db, "MULTIPOLYGON (((165 1, 180 1, 180 2, 165 2)), ((-180 1, -165 1, -165 2, -180 2)))", None, {**at_180, "wrap": 360}), crossing, "RFC 7946")
    same(runs(db, box(-1000, 1000), None, {**at_180, "wrap": 360}), [(1, 0, 35, 1.0)], "more than once around")
    check_contains(db.error("SELECT * FROM tessera_cover('db:g', ?, NULL, ?)", (box(0, 9), json.dumps({**at_zero, "wrap": 1e-6}))).text, "repeated by wrap, has more than 16777216 points")


def test_dimensions_of_axes():
    """`axes` may choose any two dimensions, and a label may be for one of them only."""
    db = make()
    same(runs(db, "POLYGON ((0 0, 2 0, 2 1, 0 1))", None, {"axes": {"t": [0, 1], "x": [0, 1]}}), [(0, 0, 1, 1.0)])
    same(runs(db, "POLYGON ((0 0, 2 0, 2 1, 0 1))", None, {"axes": {"X": [0, 1], "t": [0, 1]}}), [(0, 0, 1, 1.0)])
    db = labelled([0.5, 1.5, 2.5], [0.5, 1.5, 2.5])
    same(runs(db, "POLYGON ((0 0, 2 0, 2 1, 0 1))", None, {"axes": {"y": None, "x": [0, .5]}}), [(-3, 2, 4, 1.0)])
    db.query("CREATE VIRTUAL TABLE u USING tessera(kind=dense, y UINT64 DIMENSION(18446744073709551000, 18446744073709551003, 4), x UINT64 DIMENSION(9223372036854775806, 9223372036854775809, 4), v INT8)")
    same(runs(db, "POLYGON ((1 0, 9 0, 9 2, 1 2))", None, UNIT, "db:u"), [(f"{18446744073709551000 + i}", 9223372036854775807, "09223372036854775809", 1.0) for i in (0, 1)])


def test_labels_are_read_once_for_a_join():
    """The axes are kept while a statement joins polygons with a grid; another grid or option opens another one."""
    db = labelled([0.5, 1.5, 2.5], [0.5, 1.5, 2.5])
    db.query("CREATE TABLE zones(name, shape, options)")
    for i in range(20):
        db.query("INSERT INTO zones VALUES(?, ?, ?)", (i, "POLYGON ((0 0, 2 0, 2 1, 0 1))", '{"axes":{"y":[-1, 1],"x":"lon"}}' if i > 17 else None))
    counts = []
    for limit in (1, 18):
        db.query("SELECT tessera_reset_stats()")
        same(len(db.query(f"SELECT * FROM (SELECT * FROM zones LIMIT {limit}) z JOIN tessera_cover('db:g', z.shape) c")), limit)
        counts.append(dict(db.query("SELECT name, value FROM tessera_stats"))["cells_decoded"])
    same(counts[1], counts[0], "cells of labels that were decoded")
    assert counts[0] > 0
    same([row[0] for row in db.query("SELECT c.y FROM zones z JOIN tessera_cover('db:g', z.shape, NULL, z.options) c ORDER BY z.name")], [-3] * 18 + [-2] * 2)


def test_rows_of_the_transaction_do_not_matter():
    db = make()
    db.query("BEGIN")
    db.query("INSERT INTO g VALUES(0, 0, 0, 1)")
    same(runs(db, "POLYGON ((0 0, 2 0, 2 1, 0 1))"), [(0, 0, 1, 1.0)])
    db.query("ROLLBACK")


def test_memory_is_bounded():
    db = make(more=", memory_mb=1")
    many = "POLYGON ((" + ", ".join(f"{math.cos(i / 5000):.9f} {math.sin(i / 5000):.9f}" for i in range(60000)) + "))"
    check_contains(db.error("SELECT * FROM tessera_cover('db:g', ?, NULL, ?)", (many, json.dumps(UNIT))).text, "memory_mb")
    db.query("CREATE VIRTUAL TABLE wide USING tessera(kind=dense, y INT64 DIMENSION(0, 3, 4), x INT64 DIMENSION(0, 999999999, 1000), v INT8, memory_mb=1)")
    check_contains(db.error("SELECT * FROM tessera_cover('db:wide', 'POLYGON ((0 0.5, 1000000000 0.6, 1000000000 2))', NULL, ?)", (json.dumps(UNIT),)).text, "memory_mb")
    same(db.query("SELECT * FROM tessera_cover('db:wide', 'POLYGON ((0 0, 1000000000 0, 1000000000 1, 0 1))', NULL, ?)", (json.dumps(UNIT),)), [(0, 0, 999999999, 1.0)])


def test_zones_by_rows_and_by_columns():
    """A view of covers joined with the cube, by rows as a view and by columns as a tessera_query."""
    db = make()
    db.query("INSERT INTO g WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 383) SELECT i / 192, i / 16 % 12, i % 16, CASE WHEN i % 7 THEN i * i % 101 / 4.0 END FROM c")
    db.query("CREATE TABLE zones(zone TEXT, shape)")
    chance = random.Random(13)
    for i in range(12):
        db.query("INSERT INTO zones VALUES(?, ?)", (f"z{i % 8}", wkt(polygon(chance, (0, 0), (NX, NY), False))))
    cover = f"SELECT zone, c.* FROM zones z JOIN tessera_cover('db:g', z.shape, 'fraction', '{json.dumps(UNIT)}') c"
    db.query(f"CREATE TEMP VIEW covered AS {cover}")
    db.query(f"CREATE TABLE cover AS {cover}")
    for joined in ("temp.covered", "cover"):
        words = (f"SELECT c.zone, t, sum(v * c.coverage) / sum(c.coverage) FILTER (WHERE v IS NOT NULL) AS mean, max(v) AS most, count(v) AS n, sum(c.coverage) AS cells FROM g r "
                 f"JOIN {joined} c ON c.y = r.y AND r.x BETWEEN c.x_from AND c.x_to GROUP BY c.zone, t")
        db.query("DROP TABLE IF EXISTS temp.q")
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({words})")
        expected, got = (sorted(db.query(text)) for text in (words, "SELECT * FROM temp.q"))
        same(len(got), 16)
        assert len(got) == len(expected) and all(a == b if not isinstance(a, float) else math.isclose(a, b, rel_tol=1e-12) for x, y in zip(got, expected) for a, b in zip(x, y)), (got, expected)
        same(db.query("SELECT count(*) FROM temp.q WHERE zone = 'z1'"), [(2,)])


GDAL = [
    ('POLYGON ((8.4 6.5, 6.82 7.49, 6.96 7.96, 5.53 9.55, 5.24 9.24, 2.11 6.82, 2 6.6, 2.25 5.92, 2.95 3.9, 4.29 4.97, 4.16 3.57, 6.61 3.88, 6.47 4.11, 6.91 4.65, 8.07 6.19, 8.4 6.5))',
     ('0 0 0 0 78 fc fc 78 30 20 0 0', '0 0 0 7c fc fc 1fc fc 78 70 0 0')),
    ('POLYGON ((15.54 11.86, 13.08 10.28, 5.83 3.95, 10.43 1.28, 10.95 3.51, 14.81 2.13, 17.77 5.29, 17.67 6.39, 18.27 6.84, 15.54 11.86))',
     ('0 0 4700 ff80 ffc0 ff00 fe00 fc00 f800 f000 e000 8000', '0 600 f780 ffe0 ffe0 ff80 ff00 fe00 fc00 f800 f000 c000')),
    ('POLYGON ((13.49 9.98, 10.74 12.12, 9.99 7.75, 13.49 9.98))',
     ('0 0 0 0 0 0 0 0 400 1c00 1c00 800', '0 0 0 0 0 0 0 600 c00 3c00 3c00 1c00')),
    ('POLYGON ((15.4 8.93, 11.28 9.42, 11.03 10.64, 10.47 10.57, 8.37 8.18, 6.14 8.75, 7.64 6.93, 7.82 -0.72, 10.34 0.53, 10.39 0.52, 13.89 1.27, 14.32 -0.01, 16.46 1.74, 17.88 3.5, 18.42 3.6, 15.4 8.93))',
     ('4300 ff00 ff00 ff00 ff00 ff00 ff00 ff80 fe40 400 400 0', 'ff80 ff80 ff80 ff80 ff80 ff80 ff80 ffc0 ffc0 7e00 e00 0')),
    ('POLYGON ((13.13 5.14, 10.88 7.07, 10.13 6.8, 8.79 5.7, 8.21 5.79, 6.18 5.4, 7.71 4.75, 8.56 0.44, 11.83 1.42, 13.13 5.14))',
     ('0 f00 f00 1f00 1f00 1f80 c00 0 0 0 0 0', '700 1f00 1f00 1f80 3f80 3fc0 1e00 400 0 0 0 0')),
    ('POLYGON ((11.45 6.21, 9.4 6.05, 4.02 9.01, 5.95 -1.54, 10.53 1.5, 11.45 6.21), (7.22 6.59, 5.54 6.08, 6.05 4.13, 6.49 4.79, 7.83 5.26, 7.22 6.59))',
     ('1c0 7e0 7e0 7e0 7e0 720 1f0 70 10 0 0 0', '3e0 7e0 7e0 ff0 ff0 fb0 ff0 f0 30 10 0 0')),
    ('POLYGON ((13.31 9.43, 7.6 4.25, 7.4 3.41, 14.2 -1.81, 15.41 0.45, 13.31 9.43), (13.44 4.59, 12.55 5.21, 12.2 5.91, 12.14 5.2, 11.88 5.47, 11.84 4.96, 12.25 2.9, 12.74 2.5, 13.32 3.32, 13.44 4.59))',
     ('7800 7c00 7e00 6f80 2f00 3e00 3c00 3800 3000 0 0 0', 'fc00 fe00 ff80 7f80 7f80 7f00 7e00 3c00 3800 3000 0 0')),
    ('MULTIPOLYGON (((9.26 10.42, 11.06 -2.8, 14.02 -0.98, 9.26 10.42)), ((7.22 6.03, 6.7 5.74, 7.31 4.05, 7.22 6.03)))',
     ('1800 1c00 1c00 c00 c00 400 400 0 0 200 0 0', '3c00 3c00 1c00 1c00 ec0 ec0 e80 600 600 200 200 0')),
    ('MULTIPOLYGON (((16.01 3.72, 12.16 7.09, 10.83 1.75, 16.01 3.72)), ((9.61 5.15, 9.92 5.58, 9.65 5.98, 9.57 6.04, 9.85 6.56, 7.66 6.49, 7.59 6.15, 6.7 5.62, 6.53 4.42, 6.99 4.05, 7.99 3.03, 8.3 3.48, 9.45 2.93, 9.14 3.56, 9.51 3.9, 9.61 5.15)))',
     ('0 0 1800 7900 7380 3380 1300 0 0 0 0 0', '0 c00 7e00 fb80 fbc0 7bc0 3b80 1000 0 0 0 0')),
    ('POLYGON ((2 2, 9 2, 9 5, 6 5, 6 9, 2 9, 2 2))',
     ('0 0 1fc 1fc 1fc 3c 3c 3c 3c 0 0 0', '0 0 1fc 1fc 1fc 3c 3c 3c 3c 0 0 0')),
    ('POLYGON ((1.2 1.2, 14.9 1.2, 14.9 1.3, 1.2 1.3, 1.2 1.2))',
     ('0 0 0 0 0 0 0 0 0 0 0 0', '0 7ffe 0 0 0 0 0 0 0 0 0 0')),
    ('POLYGON ((-5 3.1, 30 4.3, 30 4.95, -5 3.42, -5 3.1))',
     ('0 0 0 7f 0 0 0 0 0 0 0 0', '0 0 0 ffff ff00 0 0 0 0 0 0 0')),
]


if __name__ == "__main__":
    host.main(sys.modules[__name__])
