"""tessera_sample: values between cells. They are compared with rational numbers, from a formula of this file.

usage: sample.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import itertools
import json
import math
import random
import sqlite3
import sys
from fractions import Fraction

import host
from host import Database, check_contains, same

CLOSE = 1e-12   # most that a value may be off, as a share of the greatest of its cells


def label(name, kind, values):
    return f" LABEL {name} {kind}" + (" DECREASING" if len(values) > 1 and values[0] > values[1] else "")


def make(dimensions, labels=None, values=None, attribute="v FLOAT64"):
    """A grid; `dimensions`: {name: (low, high)}; `labels`: {dimension: (name, type, values)}; `values`: {coordinates: value}."""
    db = Database()
    labels = labels or {}
    columns = ", ".join(f"{d} INT32 DIMENSION({low}, {high}, 3)" + (label(*labels[d]) if d in labels else "") for d, (low, high) in dimensions.items())
    db.query(f"CREATE VIRTUAL TABLE g USING tessera(kind=dense, {columns}, {attribute})")
    for cell, value in (values or {}).items():
        db.query(f"INSERT INTO g({', '.join(dimensions)}, {attribute.split()[0]}) VALUES({', '.join('?' * (len(cell) + 1))})", (*cell, value))
    for d, (name, _, listed) in labels.items():
        db.query("SELECT tessera_write_label('db:g', ?, ?)", (name, json.dumps(listed)))
    return db


def sample(db, point, method=None, options=None, attribute="v"):
    return db.value("SELECT tessera_sample('db:g', ?, ?, ?, ?)", (attribute, json.dumps(point), method, json.dumps(options) if options else None))


# ---- The oracle ----

def around(centres, at, method, wrap=None, falls=False):
    """The weights {cell: weight} of a point among rising centres; None outside."""
    n = len(centres)
    ring = False
    if wrap:
        low = centres[0] - (centres[1] - centres[0]) / 2
        high = centres[-1] + (centres[-1] - centres[-2]) / 2
        at -= wrap * math.floor((at - low) / wrap)
        ring = high - low == wrap
    if at in centres:
        return {centres.index(at): Fraction(1)}
    if method == "nearest":
        reach = [(centres[1] - centres[0]) / 2, (centres[-1] - centres[-2]) / 2]
        if not ring and not centres[0] - reach[0] <= at <= centres[-1] + reach[1]:
            return None
        far = lambda i: min(abs(at - centres[i]), wrap - abs(at - centres[i])) if ring else abs(at - centres[i])
        return {min(range(n), key=lambda i: (far(i), -i if falls else i)): Fraction(1)}
    i = sum(c < at for c in centres) - 1
    if not ring and not 0 <= i < n - 1:
        return None
    low = centres[i] if i >= 0 else centres[-1] - wrap
    high = centres[i + 1] if i + 1 < n else centres[0] + wrap
    t = (at - low) / (high - low)
    if method == "cubic" and (n >= 4 if ring else 1 <= i < n - 2):
        cubic = lambda d: Fraction(3, 2) * d**3 - Fraction(5, 2) * d**2 + 1 if d <= 1 else Fraction(-1, 2) * (d**3 - 5 * d**2 + 8 * d - 4)
        return {(i + k) % n: cubic(abs(t - k)) for k in (-1, 0, 1, 2)}
    return {i % n: 1 - t, (i + 1) % n: t}


def expect(values, axes, point, method, wrap=None):
    """`axes`: {name: (centres by coordinate, lowest coordinate)}, slowest first; `wrap` is of the last one."""
    weights = []
    for k, (name, (centres, first)) in enumerate(axes.items()):
        falls = centres[0] > centres[-1]
        rising = [Fraction(c) for c in (centres[::-1] if falls else centres)]
        found = around(rising, Fraction(point[name]), method, Fraction(wrap) if wrap and k == len(axes) - 1 else None, falls)
        if found is None:
            return None
        weights.append([(first + (len(centres) - 1 - i if falls else i), w) for i, w in found.items()])
    total = Fraction(0)
    for combination in itertools.product(*weights):
        value = values.get(tuple(cell for cell, _ in combination))
        if value is None:
            return None
        total += math.prod(w for _, w in combination) * Fraction(value)
    return float(total)


def compare(db, values, axes, point, method, options=None, wrap=None, what=""):
    got, expected = sample(db, point, method, options), expect(values, axes, point, method, wrap)
    close = got == expected if got is None or expected is None else abs(got - expected) <= CLOSE * max(1, max(abs(v) for v in values.values() if v is not None))
    assert close, f"{method} at {point} {options or ''} {what}: {got}, exactly {expected}"
    return expected is not None


def grid(chance, dimensions, missing=.05):
    cells = itertools.product(*(range(low, high + 1) for low, high in dimensions.values()))
    return {cell: None if chance.random() < missing else round(chance.uniform(-100, 100), 3) for cell in cells if chance.random() > missing}


def numbers(chance, low, high):
    """A number between two or a bit beyond them, often one of quarters."""
    at = chance.uniform(low - 1, high + 1)
    return round(4 * at) / 4 if chance.random() < .6 else at


# ---- Tests ----

def test_dimensions_of_integers():
    chance = random.Random(1)
    for dimensions, order in (({"x": (-3, 6)}, "row"), ({"y": (0, 5), "x": (10, 15)}, "row"), ({"y": (0, 5), "x": (10, 15)}, "col"), ({"t": (1, 3), "y": (-2, 3), "x": (0, 4)}, "row")):
        values = grid(chance, dimensions)
        db = make(dimensions, values=values, attribute=f"v FLOAT64, cell_order={order}")
        db.query("SELECT tessera_consolidate('db:g')")   # one fragment: boxes within a tile are looked up at once
        axes = {name: (list(range(low, high + 1)), low) for name, (low, high) in dimensions.items()}
        found = 0
        for n in range(240):
            point = {name: numbers(chance, *ends) for name, ends in dimensions.items()}
            found += compare(db, values, axes, point, ("linear", "nearest", "cubic")[n % 3])
        assert found > 40, found


def test_labels():
    """Rising, falling and irregular labels, by the names of labels; as cubic wants them, also equal ones."""
    chance = random.Random(2)
    dimensions = {"y": (0, 6), "x": (5, 12)}
    values = grid(chance, dimensions)
    for lat, lon in (([10 + .25 * i for i in range(7)], [3 - .5 * i for i in range(8)]), ([90, 80, 75.5, 75, 60, 59.25, 0], [-4, -3.5, 0, .1, 7, 8, 9.75, 100]), ([.1 * i for i in range(7)], [-.7 * i for i in range(8)])):
        db = make(dimensions, {"y": ("lat", "FLOAT64", lat), "x": ("lon", "FLOAT64", lon)}, values)
        for n in range(150):
            point = {"lat": numbers(chance, min(lat), max(lat)), "lon": numbers(chance, min(lon), max(lon))}
            if n % 5 == 0:
                point = {"lat": chance.choice(lat), "lon": chance.choice(lon)}
            method = ("linear", "nearest", "cubic")[n % 3]
            if method == "cubic" and lat[0] == 90:
                check_contains(db.error("SELECT tessera_sample('db:g', 'v', ?, 'cubic')", (json.dumps(point),)).text, "cubic needs equal ones")
                continue
            compare(db, values, {"lat": (lat, 0), "lon": (lon, 5)}, point, method, what=f"{lat} {lon}")


def test_affine_axes_and_a_ring():
    chance = random.Random(3)
    dimensions = {"y": (0, 5), "x": (2, 9)}
    values = grid(chance, dimensions, .02)
    db = make(dimensions, {"x": ("lon", "FLOAT64", [45 * i for i in range(8)])}, values)
    affine = {"axes": {"y": [9, -1.5], "x": [-22.5, 45]}, "wrap": 360}
    axes = {"y": ([9 - 1.5 * (i + .5) for i in range(6)], 0), "x": ([45 * i for i in range(8)], 2)}
    for n in range(300):
        point = {"y": numbers(chance, 0, 9), "x": numbers(chance, -400, 800)}
        method = ("linear", "nearest", "cubic")[n % 3]
        compare(db, values, axes, point, method, affine, 360)
        same(sample(db, {"y": point["y"], "lon": point["x"]}, method, affine), sample(db, point, method, affine), "by the label's name")
    part = {"axes": {"y": [9, -1.5], "x": [0, 10]}, "wrap": 360}   # a part of the globe: its ends are no neighbours
    same(sample(db, {"y": 8.25, "x": 200}, None, part), None)
    compare(db, values, {"y": axes["y"], "x": ([10 * i + 5 for i in range(8)], 2)}, {"y": 8, "x": 12 - 360}, "linear", part, 360)


def test_datetimes():
    """A label of datetimes: by ISO text, between days, across what a double cannot tell from the epoch."""
    values = {(t, 0): 10.0 * t for t in range(4)}
    days = ["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-05"]
    db = make({"t": (0, 3), "x": (0, 2)}, {"t": ("day", "DATE", days)}, values)
    for at, method, expected in (("2024-02-29", None, 10), ("2024-02-28T06:00", None, 2.5), ("2024-03-03", None, 25), ("2024-02-29T12:00", "nearest", 10), ("2024-02-29T12:01", "nearest", 20),
                                 ("2024-03-05T12:00", None, None), ("2024-03-06", "nearest", 30), ("2024-02-27", None, None)):
        same(sample(db, {"day": at, "x": 0}, method), expected, f"{at} {method}")
    db.query("CREATE VIRTUAL TABLE n USING tessera(kind=dense, t DATETIME_NS DIMENSION('2024-01-01T00:00:00.000000000', '2024-01-01T00:00:00.000000009', 10), v INT32)")
    db.query("INSERT INTO n VALUES('2024-01-01T00:00:00.000000003', 30), ('2024-01-01T00:00:00.000000004', 40)")
    same(db.value("SELECT tessera_sample('db:n', 'v', '{\"t\":\"2024-01-01T00:00:00.000000003\"}')"), 30.0)


def test_types_of_values():
    db = make({"x": (0, 3)}, attribute="v INT32, u UINT64, s TEXT, e TEXT ENUM('low', 'high'), f FLOAT32")
    db.query("INSERT INTO g(x, v, u, s, e, f) VALUES(0, 1, 4, 'a', 'low', 0.5), (1, 2, 5, 'b', 'high', NULL), (2, 2147483647, 6, NULL, 'low', 1.5)")
    at = lambda attribute, x, method=None: sample(db, {"x": x}, method, None, attribute)
    same([at("v", .5), at("v", 1, "nearest"), at("u", .25), at("v", 1.5)], [1.5, 2.0, 4.25, 1073741824.5])
    assert isinstance(at("v", 1, "nearest"), float)
    same([at("s", .4, "nearest"), at("s", 1.6, "nearest"), at("e", .6, "nearest")], ["a", None, "high"])
    same([at("f", 0), at("f", .5), at("f", 1), at("f", 1.5), at("f", 2), at("v", 2.5), at("v", 3)], [.5, None, None, None, 1.5, None, None])
    for attribute in ("s", "e"):
        check_contains(db.error("SELECT tessera_sample('db:g', ?, '{\"x\":1}')", (attribute,)).text, f"{attribute} has no numbers")


def test_statements():
    """Rows of a table, other arrays and attributes in one statement, NULLs, and a state that changes between statements."""
    db = make({"y": (0, 2), "x": (0, 2)}, {"y": ("lat", "FLOAT64", [50, 49, 48])}, {(y, x): y * 10.0 + x for y in range(3) for x in range(3)}, "v FLOAT64")
    db.query("CREATE TABLE p(name, lat, x)")
    db.query("INSERT INTO p VALUES('a', 49.5, 1), ('b', 48, 0.5), ('c', NULL, 1), ('d', 51, 1)")
    text = "SELECT name, tessera_sample('db:g', 'v', json_object('lat', lat, 'x', x)) FROM p"
    same(db.query(text), [("a", 6.0), ("b", 20.5), ("c", None), ("d", None)])
    db.query("UPDATE g SET v = v + 100")
    same(db.query(text), [("a", 106.0), ("b", 120.5), ("c", None), ("d", None)])
    db.query("CREATE VIRTUAL TABLE h USING tessera(kind=dense, x INT32 DIMENSION(0, 2, 3), v FLOAT64, w FLOAT64)")
    db.query("INSERT INTO h VALUES(0, 1, 2), (1, 3, 6)")
    same(db.query("SELECT tessera_sample(path, 'v', '{\"x\":0.5}'), tessera_sample('db:h', attribute, '{\"x\":0.5}') FROM (SELECT 'db:h' AS path, 'v' AS attribute UNION ALL SELECT 'db:h', 'w')"), [(2.0, 2.0), (2.0, 4.0)])
    same(db.value("SELECT tessera_sample('db:h', 'v', NULL)"), None)
    db.query("BEGIN")
    db.query("INSERT INTO h VALUES(2, 5, 5)")
    check_contains(db.error("SELECT tessera_sample('db:h', 'v', '{\"x\":0.5}')").text, "commit first")
    db.query("ROLLBACK")
    same(db.value("SELECT tessera_sample('db:h', 'v', '{\"x\":0.5}')"), 2.0)
    db.query("DROP TABLE h")


def test_numbers_beside_numbers_of_a_time():
    """A point of numbers is read in C until one is an instant; then SQLite reads the whole point."""
    db = make({"y": (0, 2), "x": (0, 2)}, {"x": ("day", "DATETIME_DAY", ["1970-01-01", "1970-01-02", "1970-01-04"])}, {(y, x): y * 10.0 + x for y in range(3) for x in range(3)})
    same([sample(db, {"y": 1, "day": day}) for day in (2, "1970-01-03", 3)], [11.5, 11.5, 12.0])


def test_errors():
    db = make({"y": (0, 3), "x": (0, 3)}, {"y": ("lat", "FLOAT64", [1, 2, 3, 4]), "x": ("lon", "FLOAT64", [1, 2])})
    db.query("CREATE VIRTUAL TABLE s USING tessera(k INT32 DIMENSION(0, 9, 10), v INT32)")
    db.query("CREATE VIRTUAL TABLE l USING tessera(kind=dense, x INT32 DIMENSION(0, 3, 4) LABEL lon FLOAT64 LABEL name TEXT, v INT32)")
    db.query("SELECT tessera_write_label('db:l', 'lon', '[1]'), tessera_write_label('db:l', 'name', '[\"a\"]')")
    for arguments, part in (("'db:g', 'v', '{\"y\":1}'", "point: no coordinate of x"), ("'db:g', 'v', '{\"y\":1,\"lat\":2,\"x\":1}'", "'lat' is a second coordinate of y"),
                            ("'db:g', 'v', '{\"z\":1}'", "has no label 'z' (it has"), ("'db:g', 'w', '{}'", "no attribute 'w'"), ("'db:g', 'v', '[1]'", "point: expected a JSON object"),
                            ("'db:g', 'v', '{\"y\":1,\"x\":1}', 'spline'", "'spline': expected linear, nearest or cubic"), ("'db:l', 'v', '{\"lon\":1}'", "x has one label"), ("'db:l', 'v', '{\"name\":\"a\"}'", "name has texts: give the coordinate of x, by tessera_nearest"),
                            ("'db:g', 'v', '{\"lat\":\"one\",\"x\":1}'", "point: lat: expected a number, not \"one\""), ("'db:g', 'v', '{\"y\":\"one\",\"x\":1}'", "one"),
                            ("'db:g', 'v', '{\"y\":1,\"x\":1}', NULL, '{\"axis\":1}'", "axis"), ("'db:s', 'v', '{\"k\":1}'", "sparse"), ("'db:none', 'v', '{}'", "no such table"), ("1, 'v', '{}'", "argument 1: expected text")):
        check_contains(db.error(f"SELECT tessera_sample({arguments})").text, part)
    names = [f"d{i}" for i in range(13)]
    db.query("CREATE VIRTUAL TABLE many USING tessera(kind=dense, " + ", ".join(f"{name} INT32 DIMENSION(0, 1, 2)" for name in names) + ", v INT8)")
    check_contains(db.error("SELECT tessera_sample('db:many', 'v', ?)", (json.dumps(dict.fromkeys(names, .5)),)).text, "among more than 4096 cells")


def test_points_of_numbers_are_what_sqlites_json_makes_of_them():
    """A point of plain numbers is read in C. With an escape in a name SQLite reads the same point."""
    chance = random.Random(11)
    db = make({"y": (-3, 5), "x": (0, 6)}, {"y": ("lat", "FLOAT64", [-40, -30.5, -10, 0, 3, 20, 50, 70.25, 80])},
              {(y, x): float(y * y - 3 * x) for y in range(-3, 6) for x in range(7)})
    forms = ["{}", " {} ", "{}e0", "{}E+00"]
    for _ in range(300):
        lat = chance.choice((str(chance.uniform(-40, 80)), str(chance.randint(-39, 79)), f"{chance.uniform(1, 8):.3f}e1", "-0", "0.0", "1e-400", "2.5E0"))
        x = chance.choice((str(chance.uniform(0, 6)), str(chance.randint(-1, 7)), "6", "3.0", "6.0000000000000001", "1e400", "-1e400", "99999999999999999999", "9223372036854775808"))
        lat, x = chance.choice(forms).format(lat) if "e" not in lat.lower() else lat, chance.choice(forms[:2]).format(x)
        for method in ("linear", "nearest"):
            quick, slow = [db.value("SELECT tessera_sample('db:g', 'v', ?, ?)", (f'{{"{name}":{lat},"x":{x}}}', method)) for name in ("lat", r"l\u0061t")]
            same(quick == slow or abs(quick - slow) < 1e-9, True, f"{lat}, {x}, {method}: {quick}, {slow}")
    for wrong in ('{"lat":01,"x":1}', '{"lat":1.,"x":1}' if sqlite3.sqlite_version_info < (3, 42) else '{"lat":,"x":1}', '{"lat":1,"x":1}}', '{"lat":1 "x":1}', '{"lat":1,"x":1', '{"lat":1e,"x":1}', '{"lat":--1,"x":1}'):
        check_contains(db.error("SELECT tessera_sample('db:g', 'v', ?)", (wrong,)).text, "malformed JSON")
    many = "{" + ",".join(f'"lat":{k}' for k in range(20)) + "}"
    check_contains(db.error("SELECT tessera_sample('db:g', 'v', ?)", (many,)).text, "'lat' is a second coordinate of y")


def test_beyond_all_numbers():
    """Coordinates beyond the type, and at the ends of domains."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, x UINT8 DIMENSION(0, 250, 100), v INT8)")
    db.query("INSERT INTO g VALUES(0, 1), (250, 2)")
    for x, method, expected in ((-.5, "nearest", 1), (-.51, "nearest", None), (-.5, None, None), (250.5, "nearest", 2), (250.6, "nearest", None), (1e300, None, None), (-1e300, "nearest", None), (300, None, None), (250, None, 2)):
        same(sample(db, {"x": x}, method), expected, f"{x} {method}")
    for x in (-1e300, 1e300, 1e17):
        same(sample(db, {"x": x}, None, None), None, str(x))


if __name__ == "__main__":
    host.main(sys.modules[__name__])
