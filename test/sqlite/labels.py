"""Dimension labels: their columns, comparisons with them, tessera_nearest; arrays that TileDB labelled, in directories and in the database; labels
that are missing, damaged, out of order or not written.

usage: labels.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import array
import ast
import bisect
import datetime
import fractions
import math
import os
import random
import shutil
import struct
import sys
import tempfile
import threading

import host
from host import Database, check_contains, copy, literal, not_on_windows, same

ARRAYS = {   # name: its labels, each with its dimension and the directory of its array
    "increasing_float": {"lat": ("r", "l0")},
    "decreasing_int_and_time": {"z": ("r", "l0"), "t": ("c", "l1")},
    "string_label": {"nm": ("c", "l0")},
}


def opened(name, where):
    """A connection with the table a over an array of the corpus, and tables l0, l1 over the arrays of its labels."""
    db, path = Database(), host.corpus(f"new/labels/{name}")
    if where == "directory":
        db.table("a", path)
    else:
        db.query(f"SELECT tessera_sync({literal(path)}, 'db:a')")
    for label, (_, folder) in ARRAYS[name].items():
        db.table(folder, f"{path}/__labels/{folder}")
    return db


def near(random_, value):
    """A value of a label, or one beside it."""
    if isinstance(value, str):
        return random_.choice([value, value[:-1], value + "x", ""])
    return random_.choice([value, value + 0.25, value - 1, -value])


def test_values():
    """A label's column has the values of the label's array."""
    for where in ("directory", "database"):
        for name, labels in ARRAYS.items():
            db = opened(name, where)
            for label, (dimension, folder) in labels.items():
                index = db.query(f"SELECT name FROM tessera_schema('db:{folder}') WHERE role = 'dimension'")[0][0]
                shown = db.query(f"SELECT DISTINCT {dimension}, {label} FROM a ORDER BY 1")
                same(shown, db.query(f'SELECT "{index}", label FROM {folder} ORDER BY 1'), f"{name}.{label}")
                assert len(shown) > 3
            db.close()


def test_comparisons():
    """Each comparison gives the same rows whether the array or SQLite makes it, and the array reads less for it."""
    chance = random.Random(5)
    for where in ("directory", "database"):
        for name, labels in ARRAYS.items():
            db = opened(name, where)
            for label, (dimension, _) in labels.items():
                values = [v for v, in db.query(f"SELECT DISTINCT {label} FROM a")]
                for _ in range(host.rounds(60)):
                    a, b = (near(chance, chance.choice(values)) for _ in range(2))
                    term, given = chance.choice([("{} = ?", [a]), ("{} > ?", [a]), ("{} >= ?", [a]), ("{} < ?", [a]), ("{} <= ?", [a]), ("{} IS ?", [a]),
                                                 ("{} BETWEEN ? AND ?", [a, b]), ("{} IN (?, ?)", [a, b]), ("{} <> ?", [a]), ("{} IS NULL", []),
                                                 ("{} IS NOT ?", [a]), ("{} IS ?", [None]), ("{} IN (?, NULL)", [a])])
                    pushed = db.query(f"SELECT * FROM a WHERE {term.format(label)} ORDER BY 1, 2", given)
                    same(pushed, db.query(f"SELECT * FROM a WHERE {term.format('+' + label)} ORDER BY 1, 2", given), f"{name}: {term} {given}")
                check_contains(db.plan(f"SELECT * FROM a WHERE {label} >= ?", (values[0],)), f"{dimension}({label})>=?")
                db.query("CREATE TEMP TABLE given(v)")
                db.raw.cursor().executemany("INSERT INTO given VALUES(?)", [(near(chance, v),) for v in values])
                joined = db.query(f"SELECT given.v, a.* FROM given CROSS JOIN a ON a.{label} = given.v ORDER BY 1, 2, 3")
                same(joined, db.query(f"SELECT given.v, a.* FROM given CROSS JOIN a ON +a.{label} = given.v ORDER BY 1, 2, 3"), f"{name}: join")
                assert joined
                db.query("DROP TABLE given")
            db.close()


def test_bounds():
    """A range of values reads one part of the dimension."""
    db = Database()
    db.table("a", host.corpus("new/labels/increasing_float"))
    low, high = db.query("SELECT min(lat), max(lat) FROM a")[0]
    every = db.value("SELECT count(*) FROM a")
    db.query("SELECT tessera_reset_stats()")
    same(db.query("SELECT count(*) FROM a WHERE lat <= ?", (low,)), [(every // db.value("SELECT count(DISTINCT r) FROM a"),)])
    assert db.value("SELECT value FROM tessera_stats WHERE name = 'rows_returned'") < every * 3
    same(db.query("SELECT count(*) FROM a WHERE lat > ?", (high,)), [(0,)])
    same(db.query("SELECT count(*) FROM a WHERE lat BETWEEN ? AND ?", (high, low)), [(0,)])
    db.close()


def test_columns():
    """A label is hidden unless the option says otherwise, and stands behind its dimension then; UPDATE cannot set it."""
    db, path = Database(), copy("new/labels/increasing_float", "labelled")
    db.table("hidden", path)
    db.table("shown", path, ", labels=yes")
    db.table("absent", path, ", labels=no")
    columns = lambda t: [row[1] for row in db.query(f"PRAGMA table_xinfo({t})") if row[6] == 0]
    same(columns("hidden"), columns("absent"))
    same((columns("hidden"), columns("shown")), (["r", "c", "a"], ["r", "lat", "c", "a"]))
    db.table("never", path, ", labels=hidden")
    same(columns("never"), columns("hidden"))
    db.table("chosen", path, ", columns='a, lat'")
    same((columns("chosen"), len(db.query("SELECT * FROM chosen")[0])), (["lat", "a"], 2))
    check_contains(db.error(f"CREATE VIRTUAL TABLE x USING tessera({literal(path)}, columns='a, lon')").text, "has no column lon")
    check_contains(db.error("SELECT lat FROM absent").text, "no such column")
    check_contains(db.error(f"CREATE VIRTUAL TABLE x USING tessera({literal(path)}, labels=perhaps)").text, "'labels': expected yes, no, group or hidden, not perhaps")
    r, c, lat, a = db.query("SELECT r, c, lat, a FROM shown LIMIT 1")[0]
    check_contains(db.error("UPDATE shown SET lat = 1 WHERE r = ? AND c = ?", (r, c)).text, "the column lat cannot be set")
    check_contains(db.error("INSERT INTO hidden(r, c, lat, a) VALUES(?, ?, 1e9, 1)", (r, c)).text, "no coordinate has the label 1000000000.0")
    db.query("UPDATE shown SET a = 77 WHERE lat = ? AND c = ?", (lat, c))
    same(db.query("SELECT r, c, lat, a FROM shown WHERE a = 77"), [(r, c, lat, 77)])
    db.query("INSERT INTO hidden VALUES(?, ?, 78)", (r, c))
    same(db.query("SELECT lat, a FROM hidden WHERE r = ? AND c = ?", (r, c)), [(lat, 78)])
    same(db.query(f"SELECT name, role, datatype, domain FROM tessera_schema({literal(path)}) WHERE role = 'label'"), [("lat", "label", "FLOAT64", '"r"')])
    db.close()


def test_positions():
    """A dimension lat_index of a label lat is hidden, so that SELECT * and INSERT have the coordinates; its name and all that is pushed down work as ever.
    Random statements give what an ordinary table gives."""
    for place in ("", "directory"):
        db, chance = Database(), random.Random(23)
        path = literal(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "m")) + ", " if place else ""
        db.query(f"CREATE VIRTUAL TABLE m USING tessera({path}kind=dense, time_index INT32 DIMENSION(0, 3, 2) LABEL time DATE, Lat_Index INT32 DIMENSION(0, 4, 3) LABEL lat FLOAT32 DECREASING LABEL name TEXT, "
                 "x INT32 DIMENSION(0, 1, 2), tas FLOAT32, n INT32)")
        days, lats, names = [f"2024-01-0{d}" for d in (1, 2, 3, 4)], [50.0, 40, 30.5, 20, 10], ["a", "b", "c", "d", "e"]
        for label, values in (("time", days), ("lat", lats), ("name", names)):
            db.value(f"SELECT tessera_write_label('db:m', '{label}', ?)", (str(values).replace("'", '"'),))
        same([(row[1], row[6]) for row in db.query("PRAGMA table_xinfo(m)")],
             [("time", 0), ("lat", 0), ("name", 0), ("x", 0), ("tas", 0), ("n", 0), ("as_of", 1), ("since", 1), ("written_at", 1), ("time_index", 1), ("Lat_Index", 1)])
        rows = [(day, lat, name, x, d * 10 + i + x / 4, x - i) for d, day in enumerate(days) for i, (lat, name) in enumerate(zip(lats, names)) for x in (0, 1)]
        db.query("CREATE TABLE t(time TEXT, lat REAL, name TEXT, x INTEGER, tas REAL, n INTEGER)")
        for table in ("m", "t"):
            db.raw.cursor().executemany(f"INSERT INTO {table} VALUES(?, ?, ?, ?, ?, ?)", rows)
        same(sorted(db.query("SELECT * FROM m")), sorted(rows))
        same(sorted(db.query("SELECT time_index, lat_index, x, tas FROM m")), sorted((days.index(r[0]), lats.index(r[1]), r[3], r[4]) for r in rows))
        terms = ["time = '2024-01-03'", "lat BETWEEN 20 AND 40", "lat IN (10, 30.5, 7)", "name > 'b'", "n >= -2", "tas < 21.5", "x = 1", "time > '2024-01-01'", "lat IS 40", "n IS NOT NULL"]
        orders = ["time, lat, x", "lat DESC, time, x", "name, x DESC, time", "tas, n", "x, time DESC, lat"]
        for _ in range(host.rounds(60)):
            where, order = " AND ".join(chance.sample(terms, chance.randint(1, 3))), chance.choice(orders)
            columns = chance.choice(["*", "tas, time", "count(*), sum(n)", "lat, n, name"])
            sql = f"SELECT {columns} FROM {{}} WHERE {where}" + (f" ORDER BY {order}" if "(" not in columns else "")
            same(db.query(sql.format("m")), db.query(sql.format("t")), sql)
        check_contains(db.plan("SELECT * FROM m WHERE lat > 20 AND time = '2024-01-02' AND x = 1 ORDER BY lat"), "Lat_Index(lat)>? AND time_index(time)=?")
        same(db.query("SELECT DISTINCT lat_index FROM m ORDER BY 1 DESC"), [(i,) for i in (4, 3, 2, 1, 0)])
        for sql in ("UPDATE {} SET tas = tas + 1, n = NULL WHERE lat < 35 AND time = '2024-01-02'", "UPDATE {} SET n = x"):
            for table in ("m", "t"):
                db.query(sql.format(table))
            same(sorted(db.query("SELECT * FROM m"), key=str), sorted(db.query("SELECT * FROM t"), key=str), sql)
        check_contains(db.error("UPDATE m SET lat = 3").text, "the column lat cannot be set")
        check_contains(db.error("INSERT INTO m VALUES('2024-01-09', 50, 'a', 0, 1, 1)").text, "no coordinate has the label 2024-01-09")
        check_contains(db.error("INSERT INTO m VALUES('2024-01-01', 50, 'b', 0, 1, 1)").text, "another coordinate of")
        db.query("INSERT INTO m(time_index, lat_index, x, tas) VALUES(0, 0, 0, 77)")
        same(db.query("SELECT * FROM m WHERE tas = 77"), [("2024-01-01", 50.0, "a", 0, 77.0, None)])
        same(db.query("SELECT count(*) FROM m('2020-01-01')"), [(0,)])
        db.query("INSERT INTO m SELECT * FROM m WHERE time = '2024-01-04'")
        same(db.query("SELECT max(written_at) IS NOT NULL, count(as_of) FROM m"), [(1, 0)])
        db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT * FROM m WHERE lat > 20)")
        same(sorted(db.query("SELECT * FROM q"), key=str), sorted(db.query("SELECT * FROM m WHERE lat > 20"), key=str))
        db.query("CREATE VIRTUAL TABLE w USING tessera(kind=dense, lat_index INT32 DIMENSION(0, 4, 5) LABEL lat REAL, weight REAL)")
        db.value("SELECT tessera_write_label('db:w', 'lat', '[1, 2, 3, 4, 5]')")
        db.query("INSERT INTO w VALUES(1, 0.5), (3, 1.5), (5, 2.5)")
        db.query("CREATE VIRTUAL TABLE j USING tessera_query(SELECT * FROM m JOIN w ON m.lat_index = w.lat_index)")
        same(sorted(db.query("SELECT * FROM j"), key=str), sorted(db.query("SELECT * FROM m JOIN w ON m.lat_index = w.lat_index"), key=str))
        db.value("SELECT tessera_create_as('db:copied', 'SELECT time, lat, name, tas FROM m')")
        same(db.query("SELECT name, datatype FROM tessera_schema('db:copied') WHERE role = 'attribute'"), [("time", "DATETIME_DAY"), ("lat", "FLOAT32"), ("name", "UTF8"), ("tas", "FLOAT32")])
        db.close()


def test_nearest():
    db, path = Database(), host.corpus("new/labels/increasing_float")
    db.table("a", path)
    pairs = db.query("SELECT DISTINCT r, lat FROM a ORDER BY 1")
    chance = random.Random(6)
    ask = lambda *given: db.value(f"SELECT tessera_nearest('db:a', {', '.join('?' * len(given))})", given)
    for _ in range(host.rounds(200)):
        value = chance.choice(pairs)[1] + chance.choice([0, 0.01, -0.01, 0.3, 100, -100])
        before = [r for r, lat in pairs if lat <= value]
        after = [r for r, lat in pairs if lat >= value]
        nearest = min(pairs, key=lambda p: (abs(p[1] - value), p[0]))
        same(ask("lat", value, "before"), before[-1] if before else None, str(value))
        same(ask("LAT", value, "after"), after[0] if after else None, str(value))
        same(ask("lat", value), nearest[0], str(value))
        same(ask("lat", value, None, 0.2), nearest[0] if abs(nearest[1] - value) <= 0.2 else None, str(value))
    same(ask("lat", None), None)
    same(db.query("SELECT count(*) FROM a WHERE r = tessera_nearest('db:a', 'lat', ?)", (pairs[2][1],)), db.query("SELECT count(*) FROM a WHERE r = ?", (pairs[2][0],)))

    same(db.query("SELECT tessera_nearest(p, 'lat', 1e9) IS NOT NULL FROM (SELECT 'db:a' AS p UNION ALL SELECT ?)", (path,)), [(1,), (1,)])
    for given, part in (((path, "nope", 1), "has no label 'nope' (it has lat)"), ((path, "lat", "x"), "'x' is not a valid FLOAT64"),
                        ((path, "lat", 1, "sideways"), "expected 'nearest', 'before' or 'after'"), ((path, "lat", 1, None, "far"), "tolerance: expected a number"),
                        ((host.corpus("new/labels/string_label"), "nm", "x"), "texts have no distance"), ((path + "x", "lat", 1), "not found")):
        check_contains(db.error(f"SELECT tessera_nearest({', '.join('?' * len(given))})", given).text, part)
    falling = host.corpus("new/labels/decreasing_int_and_time")
    db.table("f", falling)
    for label, dimension in (("z", "r"), ("t", "c")):
        pairs = db.query(f"SELECT DISTINCT {dimension}, {label} FROM f ORDER BY 1")
        for coordinate, value in pairs:
            same(db.value("SELECT tessera_nearest(?, ?, ?)", (falling, label, value)), coordinate)
    db.close()


LIMITS = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-2**15, 2**15 - 1), "UINT32": (0, 2**32 - 1), "INT64": (-2**63, 2**63 - 1), "UINT64": (0, 2**64 - 1)}


def labelled(kind, code, values, name):
    """A connection, and the path of an array whose dimension y, from -3 on, has these labels."""
    db, path = Database(), os.path.join(tempfile.mkdtemp(dir=host.FOLDER), name)
    falls = "DECREASING" if values[0] > values[-1] else ""
    db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(path)}, kind=dense, y INT32 DIMENSION(-3, {len(values) - 4}, 2) LABEL lat {kind} {falls}, v INT8)")
    db.value("SELECT tessera_write_label('db:a', 'lat', ?)", (npy(code, values),))
    db.query("INSERT INTO a(y, v) WITH RECURSIVE c(y) AS (SELECT -3 UNION ALL SELECT y + 1 FROM c WHERE y < ?) SELECT y, 1 FROM c", (len(values) - 4,))
    return db, path


def beside(pairs, value, side, within=None):
    """The coordinate of the label that is nearest to a value, by brute force."""
    known = [(abs(label - value), y) for y, label in pairs if not (side == "before" and label > value) and not (side == "after" and label < value)]
    distance, y = min(known, default=(None, None))
    return y if y is None or within is None or distance <= within else None


def test_values_between_labels_of_integers():
    """Numbers with a fraction, and those beyond the datatype, compare by their value: nearest takes the nearest label, ranges go inwards."""
    chance = random.Random(11)
    for kind, (least, most) in LIMITS.items():
        code = ("<i" if least else "<u") + str((most - least + 1).bit_length() // 8)
        for direction in (1, -1):
            values = sorted(chance.sample(range(max(least, -100), min(most, 200)), 6) + [least, most][::direction][:1])[::direction]
            db, path = labelled(kind, code, values, kind)
            pairs = [(y - 3, label) for y, label in enumerate(values)]
            asked = [v + part for v in values if abs(v) < 1000 for part in (-0.5, 0.25, 0.5, 0.75)] + [a / 2 + b / 2 for a, b in zip(values, values[1:]) if abs(a) + abs(b) < 1000]
            for value in asked + [1000.0, -1000.0, 1e30, -1e30, 9e18, 1.5e19, math.inf, -math.inf, 300, -300]:
                exact = value if math.isinf(value) else fractions.Fraction(value)
                for side in ("nearest", "before", "after"):
                    if not math.isinf(value):
                        same(db.value("SELECT tessera_nearest(?, 'lat', ?, ?)", (path, value, side)), beside(pairs, exact, side), f"{kind} {direction}: {value} {side}")
                        same(db.value("SELECT tessera_nearest(?, 'lat', ?, ?, 1.5)", (path, value, side)), beside(pairs, exact, side, 1.5), f"{kind} {direction}: {value} {side} within")
                        continue
                    end = max(pairs, key=lambda p: p[1] * math.copysign(1, value))[0]
                    same(db.value("SELECT tessera_nearest(?, 'lat', ?, ?)", (path, value, side)), None if side == ("after" if value > 0 else "before") else end, f"{kind}: {value} {side}")
                text = repr(value).replace("inf", "9e999")
                for low, high in ((text, "null"), ("null", text), (text, text), (text, repr(float(chance.randrange(250)) + 0.5))):
                    ends = [float(end) if end != "null" else None for end in (low, high)]
                    if None not in ends and ends[0] > ends[1]:
                        continue
                    inside = [y for y, label in pairs if (ends[0] is None or label >= ends[0]) and (ends[1] is None or label <= ends[1])]
                    found = db.query("SELECT count(*) FROM tessera_partitions(?1, 1, ?2)", (path, f'{{"lat":[{low},{high}]}}'))[0][0]
                    same(bool(found), bool(inside), f"{kind}: {low} to {high}")
                    if inside:
                        same(tuple(read_shape(db, path, f'{{"lat":[{low},{high}]}}')), (len(inside),), f"{kind}: {low} to {high}")
            for wrong in ('["x",2]', '[true,2]', "[40.5,2.25]"):
                assert db.error("SELECT tessera_npy(?, 'v', ?)", (path, f'{{"lat":{wrong}}}'))
            check_contains(db.error("SELECT tessera_nearest(?, 'lat', 'x')", (path,)).text, "'x' is not a valid " + kind)
            db.close()


def read_shape(db, path, box):
    header = db.value("SELECT tessera_npy(?, 'v', ?, '{\"header\":true}')", (path, box))
    return ast.literal_eval(header)["shape"]


def test_instants_between_labels():
    """An instant with a time of day lies between two labels that are days; a unit may be any, the calendar's too."""
    days = [19000, 19001, 19004]
    for values, lowest in ((days, 0), (days[::-1], 2)):
        db, path = labelled("DATETIME_DAY", "<M8[D]", values, "days")
        at = {value: y - 3 for y, value in enumerate(values)}
        for text, side, within, expected in (("2022-01-08T06:00", None, None, 19000), ("2022-01-08T18:00", None, None, 19001), ("2022-01-08T18:00", "before", None, 19000),
                                             ("2022-01-08T06:00", "after", None, 19001), ("2022-01-08T18:00", None, 0.25, 19001), ("2022-01-08T18:00", None, 0.2, None),
                                             ("2022-01-10T12:00:00.000000001", None, None, 19004), ("2022-01-10T11:59:59", None, None, 19001),
                                             ("2022-01-08T12:00", None, None, values[min(values.index(19000), values.index(19001))]),
                                             ("9999", "after", None, None), ("0001", None, None, 19000), (19000.75, None, None, 19001), (1e30, None, None, 19004)):
            same(db.value("SELECT tessera_nearest(?, 'lat', ?, ?, ?)", (path, text, side, within)), at.get(expected), f"{text} {side} {within}")
        for low, high, count in (("2022-01-08T01:00", "2022-01-12T23:00", 2), ("2022-01-08", "2022-01-12T00:00", 3), ("2022-01-08", "2022-01-11T23:00", 2), ("2022-01-08T01:00", "2022-01-08T02:00", 0), ("2022-01-08T01", "2022-01-08T01", 0)):
            found = db.query("SELECT count(*) FROM tessera_partitions(?, 1, ?)", (path, f'{{"lat":["{low}","{high}"]}}'))[0][0]
            same(read_shape(db, path, f'{{"lat":["{low}","{high}"]}}') if found else (0,), (count,), f"{low} to {high}")
        check_contains(db.error("SELECT tessera_nearest(?, 'lat', '2022-13-01')", (path,)).text, "is not a valid DATETIME_DAY")
        db.close()
    for kind, code, values, text, expected in (("DATETIME_YEAR", "<M8[Y]", [50, 52, 55], "2020-12-30", -3), ("DATETIME_MONTH", "<M8[M]", [600, 601], "2020-01-20", -2),
                                               ("DATETIME_US", "<M8[us]", [-10**16, 1 - 10**16], "1653-02-10T06:13:20.0000007", -2)):
        db, path = labelled(kind, code, values, kind)
        same(db.value("SELECT tessera_nearest(?, 'lat', ?)", (path, text)), expected, kind)
        db.close()


def test_nearest_in_tiles():
    """Among many labels tessera_nearest reads at most the two tiles of the neighbours, and finds what a search among all of them finds."""
    folder, count, chance = tempfile.mkdtemp(dir=host.FOLDER), 40_000, random.Random(9)
    for name, sign, kind, code in (("rising", 1, "FLOAT64", "<f8"), ("falling", -1, "FLOAT64", "<f8"), ("integers", -1, "INT64", "<i8"), ("days", 1, "DATETIME_DAY", "<M8[D]")):
        path, db = os.path.join(folder, name), Database()
        values = [sign * 3 * i for i in range(count)]
        db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(path)}, kind=dense, y INT32 DIMENSION(-5, {count - 6}, 1000) LABEL lat {kind} {'DECREASING' if sign < 0 else ''}, v INT8)")
        db.value("SELECT tessera_write_label('db:a', 'lat', ?)", (npy(code, values),))
        db.close()
        up = sorted(values)

        def expected(value, side):
            i = bisect.bisect_left(up, value)
            after = up[i] if i < count else None
            before = after if after == value else up[i - 1] if i > 0 else None
            known = [x for x, s in ((before, "after"), (after, "before")) if x is not None and side != s]
            return min(((abs(x - value), sign * x // 3 - 5) for x in known), default=(None, None))[1]

        for case in range(12):
            db = Database()   # has read nothing
            for asked in range(7):   # the later ones load all values
                value = chance.choice([chance.choice(values), chance.randint(up[0], up[-1]), 3000 * chance.randrange(count // 1000) * sign - chance.randrange(4), up[0] - 9, up[-1] + 9])
                side = chance.choice([None, "nearest", "before", "after"])
                db.query("SELECT tessera_reset_stats()")
                same(db.value("SELECT tessera_nearest(?, 'lat', ?, ?)", (path, value, side)), expected(value, side), f"{name}: {value} {side}")
                tiles = db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'")
                assert tiles <= 2 or asked >= 4, (name, value, side, asked, tiles)
            db.close()
        db = Database()
        same(db.query("SELECT value, tessera_nearest(?, 'lat', value, 'before') FROM json_each(?)", (path, str(values[::997]))), [(v, sign * v // 3 - 5) for v in values[::997]], name)
        assert 2 < db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'") <= 8 + count // 1000
        same(db.query("SELECT tessera_nearest(?1, 'lat', ?2, NULL, 1), tessera_nearest(?1, 'lat', ?2, NULL, 0.5)", (path, values[7] + 1)), [(2, None)])
        db.close()


def test_damage():
    """A label's array that is missing, or whose values are out of order, is an error of the statements that use the label, and of no others."""
    path = copy("new/labels/increasing_float", "missing")
    shutil.rmtree(os.path.join(path, "__labels", "l0"))
    db = Database()
    db.table("a", path)
    assert db.value("SELECT count(a) FROM a") > 0
    check_contains(db.error("SELECT lat FROM a").text, "label lat")
    check_contains(db.error("SELECT count(*) FROM a WHERE lat = 1").text, "label lat")
    check_contains(str(db.query("SELECT severity, file, message FROM tessera_check('db:a')")), "('error', '__labels/l0', \"the array of dimension label 'lat' is missing\")")
    path = copy("new/labels/increasing_float", "cut")
    fragment = os.listdir(os.path.join(path, "__labels", "l0", "__fragments"))[0]
    with open(os.path.join(path, "__labels", "l0", "__fragments", fragment, "a0.tdb"), "r+b") as file:
        file.truncate(8)
    check_contains(str(db.query("SELECT severity, file, message FROM tessera_check(?)", (path,))), f"('error', '__labels/l0/__fragments/{fragment}/a0.tdb', ")
    path = copy("new/labels/increasing_float", "disordered")
    db.table("l", f"{path}/__labels/l0")
    db.table("b", path)
    index, = db.query("SELECT name FROM tessera_schema('db:l') WHERE role = 'dimension'")[0]
    low, = db.query(f'SELECT min("{index}") FROM l')[0]
    before = db.query("SELECT r, lat FROM b GROUP BY 1, 2")
    then = db.value("SELECT max(end_time) FROM tessera_fragments('db:l')")
    db.query(f'UPDATE l SET label = 1e9 WHERE "{index}" = ?', (low,))
    error = db.error("SELECT lat FROM b")
    check_contains(error.text, "label lat: its values must rise, but number 1 does not")
    same(error.code, 11)   # SQLITE_CORRUPT
    same(db.query("SELECT severity, file, message FROM tessera_check('db:b')"), [("error", "__labels/l0", "label lat: its values must rise, but number 1 does not")])
    same(db.query("SELECT r, lat FROM b(?) GROUP BY 1, 2", (max(then, db.value("SELECT max(end_time) FROM tessera_fragments('db:b')")),)), before, "the state before")
    db.close()


@not_on_windows("wine removes no directory whose files are open")
def test_unwritten():
    """Coordinates whose label was never written have NULL, and no comparison finds them."""
    path = copy("new/labels/increasing_float", "unwritten")
    db = Database()
    db.table("b", path)
    every = db.query("SELECT DISTINCT r, lat FROM b ORDER BY 1")
    shutil.rmtree(os.path.join(path, "__labels", "l0", "__fragments"))
    shutil.rmtree(os.path.join(path, "__labels", "l0", "__commits"))
    os.mkdir(os.path.join(path, "__labels", "l0", "__fragments"))
    os.mkdir(os.path.join(path, "__labels", "l0", "__commits"))
    db.table("l", f"{path}/__labels/l0")
    index, = db.query("SELECT name FROM tessera_schema('db:l') WHERE role = 'dimension'")[0]
    same(db.query("SELECT count(*), count(lat) FROM b")[0][1], 0)
    for r, lat in (every[1], every[3]):   # a gap between two
        db.query(f'INSERT INTO l("{index}", label) VALUES(?, ?)', (r, lat))
    same(db.query("SELECT DISTINCT r, lat FROM b WHERE lat IS NOT NULL ORDER BY 1"), [every[1], every[3]])
    same(db.query("SELECT DISTINCT r FROM b WHERE lat BETWEEN -1e9 AND 1e9 ORDER BY 1"), [(every[1][0],), (every[3][0],)])
    same(db.query("SELECT tessera_nearest('db:b', 'lat', ?)", (every[2][1],))[0][0] in (every[1][0], every[3][0]), True)
    db.close()


def create(db, path, options=""):
    """Makes the table a and its array, with labels on both dimensions; without a path the array is in the database. Returns its address."""
    first = literal(path) + ", " if path else ""
    db.query(f"CREATE VIRTUAL TABLE a USING tessera({first}kind=dense, y INT32 DIMENSION(1, 6, 4) FILTERS(delta, lz4) LABEL lat FLOAT64 DECREASING "
             f"FILTERS(byteshuffle, zstd(5)) LABEL name TEXT, x INT32 DIMENSION(0, 3, 2) LABEL day DATE, v INT32{options})")
    return path or "db:a"


def test_group():
    """labels='group' shows coordinates that lie in the array's group, in whatever order they are, and gives the rows that SQLite gives without them."""
    folder, db, chance = tempfile.mkdtemp(dir=host.FOLDER), Database(), random.Random(3)
    root = os.path.join(folder, "set")
    db.value("SELECT tessera_create_group(?)", (root,))
    coordinates = {"y": ("FLOAT64", [50.0 - 0.5 * i for i in range(12)]), "x": ("INT32", [7, 3, 3, None, 9, -1, 12, 5]), "t": ("TEXT", ["a", "b", "bé", "c"])}
    for name, (kind, values) in coordinates.items():
        db.query(f"CREATE VIRTUAL TABLE c USING tessera({literal(os.path.join(root, name))}, kind=dense, {name} INT32 DIMENSION(0, {len(values) - 1}, 4), {name}_ {kind})")
        db.raw.cursor().executemany(f"INSERT INTO c VALUES(?, ?)", list(enumerate(values)))
        db.value("SELECT tessera_add_member(?, ?)", (root, os.path.join(root, name)))
        db.query("DROP TABLE c")
    path = os.path.join(root, "t2m")
    db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(path)}, kind=dense, t INT32 DIMENSION(0, 3, 2), y INT32 DIMENSION(0, 11, 4), x INT32 DIMENSION(0, 7, 4), w INT32 DIMENSION(0, 0, 1), v INT32)")
    db.query("INSERT INTO a SELECT t.value, y.value, x.value, 0, 100 * t.value + 10 * y.value + x.value FROM json_each('[0,1,2,3]') t, json_each('[0,1,2,3,4,5,6,7,8,9,10,11]') y, json_each('[0,1,2,3,4,5,6,7]') x")
    db.table("g", path, ", labels='group'")
    same([row[1] for row in db.query("PRAGMA table_xinfo(g)")], ["t", "y", "x", "w", "v", "as_of", "since", "written_at", "t_2", "y_2", "x_2"])
    same(len(db.query("SELECT * FROM g LIMIT 1")[0]), 5)
    for dimension, (_, values) in coordinates.items():
        same(dict(db.query(f"SELECT DISTINCT {dimension}, {dimension}_2 FROM g")), dict(enumerate(values)))
        check_contains(db.plan(f"SELECT * FROM g WHERE {dimension}_2 >= ?", (values[0],)), f"{dimension}({dimension}_2)>=?")
        for _ in range(host.rounds(40)):
            a, b = (near(chance, chance.choice([v for v in values if v is not None])) for _ in range(2))
            term, given = chance.choice([("{} = ?", [a]), ("{} > ?", [a]), ("{} <= ?", [a]), ("{} BETWEEN ? AND ?", [a, b]), ("{} IN (?, ?)", [a, b]), ("{} IS NULL", []), ("{} <> ?", [a])])
            sql = f"SELECT t, y, x, v FROM g WHERE {term} ORDER BY {dimension}_2 DESC, 1, 2, 3"
            same(db.query(sql.format(f"{dimension}_2"), given), db.query(sql.format(f"+{dimension}_2"), given), f"{dimension}: {term} {given}")
        same(db.query(f"SELECT {dimension}_2, count(*), sum(v) FROM g GROUP BY 1 ORDER BY 1"), db.query(f"SELECT +{dimension}_2, count(*), sum(v) FROM g GROUP BY 1 ORDER BY 1"), dimension)
    db.query("SELECT tessera_reset_stats()")
    same(db.query("SELECT count(*), min(y), max(y) FROM g WHERE y_2 BETWEEN 44.5 AND 45.5 AND t_2 = 'b' AND x_2 = 3"), [(6, 9, 11)])
    assert db.value("SELECT value FROM tessera_stats WHERE name = 'rows_returned'") <= 6
    check_contains(db.error("INSERT INTO g(t_2, y, x, w, v) VALUES('a', 1, 1, 0, 5)").text, "the values of another array can be read")
    db.query("INSERT INTO g(t, y, x, w, v) VALUES(0, 1, 1, 0, 5)")
    check_contains(db.error("UPDATE g SET y_2 = 1").text, "cannot be set")
    for name, part in ((os.path.join(folder, "alone"), "option labels='group': "), (None, "an array in the database is in no group")):
        given = literal(name) + ", " if name else ""
        if name:
            db.query(f"CREATE VIRTUAL TABLE n USING tessera({given}kind=dense, y INT32 DIMENSION(0, 1, 2), v INT32)")
            db.query("DROP TABLE n")
        check_contains(db.error(f"CREATE VIRTUAL TABLE z USING tessera({given}labels=group" + (")" if name else ", kind=dense, y INT32 DIMENSION(0, 1, 2), v INT32)")).text, part)
    db.table("own", os.path.join(root, "y"), ", labels='group'")   # coordinates themselves have none
    same(len(db.query("PRAGMA table_xinfo(own)")), 5)
    db.value("SELECT tessera_restrict(?)", (os.path.join(root, "t2m"),))
    check_contains(db.error(f"CREATE VIRTUAL TABLE r USING tessera({literal(path)}, labels='group')").text, "option labels='group': ")
    db.close()


def test_create():
    """LABEL in CREATE makes the labels' arrays together with the array; tessera_ddl shows the clause, and its text makes the same array."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    for path in (os.path.join(folder, "a"), None):
        db = Database()
        address = create(db, path)
        text = db.value("SELECT tessera_ddl(?)", (address,))
        check_contains(text, "FILTERS(delta, lz4) LABEL lat FLOAT64 DECREASING FILTERS(byteshuffle, zstd(5)) LABEL name ASCII,")
        check_contains(text, "LABEL day DATETIME_DAY,")
        same(db.query("SELECT name, datatype FROM tessera_schema(?) WHERE role = 'label'", (address,)),
             [("lat", "FLOAT64"), ("name", "ASCII"), ("day", "DATETIME_DAY")])
        same(db.query("SELECT * FROM tessera_check(?)", (address,)), [])
        db.query("INSERT INTO a VALUES(2, 1, 7)")
        same(db.query("SELECT y, x, v, lat, name, day FROM a WHERE v IS NOT NULL"), [(2, 1, 7, None, None, None)])
        if path:
            db.table("l", f"{path}/__labels/l0")
            for y in range(1, 7):
                db.query("INSERT INTO l VALUES(?, ?)", (y, 90.0 - y))
            same(db.query("SELECT y, lat, v FROM a WHERE lat BETWEEN 87.5 AND 88.5 AND x = 1"), [(2, 88.0, 7)])
            other = Database()
            other.query(text.replace(path, path + "2"))
            same(other.value("SELECT tessera_ddl(?)", (path + "2",)).replace("TABLE a2 ", "TABLE a ", 1), text.replace(path, path + "2"))
            other.close()
        db.close()


def labels_of(db, address):
    return db.query(f"SELECT y, lat, name FROM {address} ORDER BY y, x")


@not_on_windows("wine removes no directory whose files are open")
def test_life():
    """What happens to an array happens to its labels, too: evolution, upkeep, copies of directories, arrays in the database, keys, DROP."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    for key in (None, bytes(range(32))):
        path, db = os.path.join(folder, f"a{key is None}"), Database()
        for each in ("", "/__labels/l0", "/__labels/l1"):
            db.value("SELECT tessera_set_key(?, ?) IS NULL", (path + each, key))
        create(db, path, ", encryption=aes_256_gcm" if key else "")
        for number, values in ((0, [90.0 - y for y in range(1, 7)]), (1, ["a", "b", "c", "d", "e", "f"])):
            db.table("l", f"{path}/__labels/l{number}")
            for y, value in enumerate(values):
                db.query("INSERT INTO l VALUES(?, ?)", (y + 1, value))
            db.query("DROP TABLE l")
        for x in range(3):
            db.query(f"INSERT INTO a(y, x, v) VALUES(2, {x}, {x}), (5, {x}, 7)")
        before = labels_of(db, "a")
        assert (2, 88.0, "b") in before
        db.value("SELECT tessera_add_attribute('db:a', 'w INT32')")
        db.table("b", path)
        db.query("UPDATE b SET w = 1 WHERE lat = 88")
        db.value("SELECT tessera_consolidate('db:a')")
        db.value("SELECT tessera_vacuum('db:a')")
        same(labels_of(db, "a"), before)
        same(db.query("SELECT lat, w FROM b WHERE name = 'b' AND x = 1"), [(88.0, 1)])
        same(db.query("SELECT * FROM tessera_check('db:a')"), [])
        db.value("SELECT tessera_copy('db:a', ?)", (path + "copied",))
        db.table("c", path + "copied")
        same(labels_of(db, "c"), before)
        db.query("DROP TABLE c")
        db.value("SELECT tessera_sync(?, 'db:i')", (path,))
        same(labels_of(db, "i"), before)
        db.value("SELECT tessera_sync('db:i', ?)", (path + "exported",))
        if not key: # the new path has no key yet
            db.table("e", path + "exported")
            same(labels_of(db, "e"), before)
            same(db.query("SELECT count(*), sum(v) FROM e WHERE lat BETWEEN 84.5 AND 88"), db.query("SELECT count(*), sum(v) FROM a WHERE y BETWEEN 2 AND 5"))
            db.query("DROP TABLE e")
        db.query("DROP TABLE i")
        db.value("SELECT tessera_drop(?)", (path + "exported",))
        assert not os.path.exists(path + "exported")
        db.close()


def test_upkeep():
    """tessera_consolidate and tessera_vacuum tend the arrays of the labels, too, but leave them where fragments are named."""
    folder, key = tempfile.mkdtemp(dir=host.FOLDER), bytes(range(32))
    for path in (os.path.join(folder, "a"), os.path.join(folder, "secret"), None):
        db, secret = Database(), bool(path and path.endswith("secret"))
        for each in ("", "/__labels/l0", "/__labels/l1") if secret else ():
            db.value("SELECT tessera_set_key(?, ?) IS NULL", (path + each, key))
        create(db, path, ", encryption=aes_256_gcm" if secret else "")
        for y in range(1, 4):
            db.value("SELECT tessera_write_label('db:a', 'lat', ?, ?)", (f"[{90 - y}]", y))
            db.value("SELECT tessera_write_label('db:a', 'name', ?, ?)", (f'["n{y}"]', y))
            db.query(f"INSERT INTO a(y, x, v) VALUES({y}, 0, {y})")
        before = labels_of(db, "a")
        same([row[1:] for row in before if row[0] < 4 and row[1]], [(90.0 - y, f"n{y}") for y in range(1, 4)])
        fragments = lambda number: db.value("SELECT count(*) FROM tessera_fragments(?)", (f"{path}/__labels/l{number}",))
        if path:
            same([fragments(0), fragments(1), fragments(2) if os.path.exists(f"{path}/__labels/l2/__fragments") and not secret else 0], [3, 3, 0])
            names = [name for name, in db.query("SELECT name FROM tessera_fragments(?)", (path,))]
            same(db.value("SELECT tessera_consolidate('db:a', 'fragments', ?)", ('{"fragments":["' + '","'.join(names) + '"]}',)), 3)
            same([fragments(0), fragments(1)], [3, 3])
        same(db.value("SELECT tessera_consolidate('db:a', 'commits')"), 10 if path else 9)
        same(db.value("SELECT tessera_consolidate('db:a')"), 6 if path else 9)
        same(db.value("SELECT tessera_consolidate('db:a')"), 0)
        removed = db.value("SELECT tessera_vacuum('db:a')")
        assert removed > 9, removed
        same(db.value("SELECT tessera_vacuum('db:a')"), 0)
        if path:
            same([fragments(0), fragments(1)], [1, 1])
            same(len(os.listdir(f"{path}/__labels/l0/__fragments")), 1)
        same(labels_of(db, "a"), before)
        same(db.query("SELECT * FROM tessera_check('db:a')"), [])
        db.close()
    path = os.path.join(folder, "a")
    shutil.rmtree(f"{path}/__labels/l0")   # a label that is missing keeps the rest from nothing
    db = Database()
    same(db.query("SELECT tessera_consolidate(?1), tessera_vacuum(?1)", (path,)), [(0, 0)])
    schema, = (name for name in os.listdir(f"{path}/__labels/l1/__schema") if name != "__enumerations")
    with open(f"{path}/__labels/l1/__schema/{schema}", "r+b") as file:
        file.truncate(20)
    check_contains(db.error("SELECT tessera_consolidate(?)", (path,)).text, "label name: ")
    db.close()


def npy(kind, values, *, fortran=False, shape=None):
    """An NPY file: `kind` is numpy's type, such as <f8."""
    code = {"f4": "f", "f8": "d", "i1": "b", "u1": "B", "i2": "h", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}.get(kind[1:], "q")
    head = str({"descr": kind, "fortran_order": fortran, "shape": shape or (len(values),)}) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"{kind[0]}{len(values)}{code}", *values)


def npy_of(kind, content, count):
    """An NPY file of values that are bytes already."""
    head = str({"descr": kind, "fortran_order": False, "shape": (count,)}) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + content


def test_the_order_of_labels_without_text():
    """A label past the year 9999 shows as an integer, which SQL sorts before all text, though the array has it last."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(kind=dense, y INT32 DIMENSION(1, 3, 3) LABEL day DATE, v FLOAT64)")
    db.query("INSERT INTO a(y, v) VALUES(1, 1), (2, 2), (3, 3)")
    for days in ([10, 20, 30], [10, 20, 10**8], [-10**8, 10, 20], [-10**8, 10, 10**8]):
        db.query("SELECT tessera_write_label('db:a', 'day', ?)", (npy("<M8[D]", days),))
        for way in ("", " DESC"):
            found = db.query(f"SELECT day FROM a ORDER BY day{way}")
            same(found, sorted(found, key=lambda row: (isinstance(row[0], str), row[0]), reverse=bool(way)), (days, way))
    db.close()


def test_write_label():
    """tessera_write_label writes JSON and NPY from an origin on, in directories, encrypted ones, and in the database, where ROLLBACK undoes it."""
    folder, key = tempfile.mkdtemp(dir=host.FOLDER), bytes(range(32))
    for path in (os.path.join(folder, "a"), os.path.join(folder, "secret"), None):
        db = Database()
        if path and path.endswith("secret"):
            db.value("SELECT tessera_set_key(?, ?) IS NULL", (path, key))
        create(db, path, ", encryption=aes_256_gcm" if path and path.endswith("secret") else "")
        db.query("INSERT INTO a(y, x, v) SELECT value, 1, value * 10 FROM json_each('[1,2,3,4,5,6]')")
        db.query("INSERT INTO a(y, x, v) VALUES(6, 3, 0)")
        write = lambda *given: db.value(f"SELECT tessera_write_label('db:a', {', '.join('?' * len(given))})", given)
        lats = lambda: [row[0] for row in db.query("SELECT lat FROM a WHERE x = 1 ORDER BY y")]
        same(write("lat", "[60, 50.5, null]"), 3)
        same(lats(), [60.0, 50.5, None, None, None, None])
        same(write("LAT", npy(">f8", [20.0, 10.0]), 5), 2)
        same(write("lat", "[30]", '{"y":4}'), 1)
        same(lats(), [60.0, 50.5, None, 30.0, 20.0, 10.0])
        same(db.query("SELECT y, v FROM a WHERE lat BETWEEN 15 AND 31 AND x = 1"), [(4, 40), (5, 50)])
        same(write("name", '["a", "bé", "", "x", "y", "z"]'.replace('"", ', '"c", ')), 6)
        same(db.query("SELECT v FROM a WHERE name = 'bé' AND x = 1"), [(20,)])
        same(write("day", '["2024-02-28", "2024-02-29"]', 1), 2)
        same(write("day", npy("<M8[D]", [19783]), '{"x":3}'), 1)
        same(db.query("SELECT DISTINCT x, day FROM a WHERE day IS NOT NULL ORDER BY x"), [(1, "2024-02-28"), (2, "2024-02-29"), (3, "2024-03-01")])
        same(write("day", "[]"), 0)
        before = lats()
        for given, part in ((("lat", "[55]", 6), "its values must fall, but that of coordinate 6 does not"), (("lat", "[9]", 3), "that of coordinate 4 does not"),
                            (("lat", "[1, 1]"), "that of coordinate 2 does not"), (("lat", "[70, 71]"), "that of coordinate 2"), (("lat", "[1, 2]", 6), "2 values from the origin on reach beyond the domain"),
                            (("lat", "[1]", 0), "beyond the domain"), (("lat", "[1]", 7), "beyond the domain"), (("lat", "[1]", -2147483648), "beyond the domain"),
                            (("lat", "[1]", '{"x":1}'), "origin: expected one coordinate of dimension 'y'"), (("lat", "[1]", "far"), "origin: "), (("lat", "[1]", '{"y":[1,2]}'), "origin: "),
                            (("lat", '["far"]'), "label lat: value 0: "), (("lat", "[true]"), "value 0: expected a number, found true"), (("lat", "[[1]]"), "expected a number"),
                            (("lat", "{}"), "expected a JSON array"), (("lat", "[1"), "label lat: "), (("lat", None), "expected a BLOB, found NULL"), (("lat", b"x"), "not an NPY file"),
                            (("lat", npy("<i4", [1])), "the block is '<i4'"), (("lat", npy("<f8", [1.0, 2.0], shape=(2, 1))), "2 axes, expected 1"), (("name", "[1]"), "expected a text, found 1"),
                            (("name", "[null]"), "expected a text, found null"), (("name", npy("<i4", [1])), "NPY files cannot hold"), (("name", '["b", "a"]'), "its values must rise"),
                            (("day", '["2024-02-29"]', 3), "that of coordinate 3"), (("lon", "[1]"), "no label 'lon' (it has lat, name, day)")):
            check_contains(db.error(f"SELECT tessera_write_label('db:a', {', '.join('?' * len(given))})", given).text, part)
        same(lats(), before)
        if not path:
            db.query("BEGIN")
            same(write("lat", "[61]"), 1)
            same(lats()[0], 61.0)
            db.query("ROLLBACK")
            same(lats(), before)
        same(db.query("SELECT * FROM tessera_check('db:a')"), [])
        db.close()


def test_copy():
    """tessera_copy takes labels along: between directories and databases, with other tiles, with gaps and keys, and as they were at a time."""
    folder, key = tempfile.mkdtemp(dir=host.FOLDER), bytes(range(32))
    source, secret = os.path.join(folder, "source"), os.path.join(folder, "secret")
    db = Database()
    create(db, source)
    db.query("INSERT INTO a(y, x, v) SELECT y.value, x.value, 10 * y.value + x.value FROM json_each('[1,2,3,4,5,6]') y, json_each('[0,1,2,3]') x")
    db.value("SELECT tessera_write_label('db:a', 'lat', '[60, null, 40, 30, null, 20]')")
    db.value("SELECT tessera_write_label('db:a', 'name', ?, 2)", ('["b", "bé", "c"]',))
    db.value("""SELECT tessera_write_label('db:a', 'day', '["2024-01-01", "2024-01-02"]', 2)""")
    rows = "SELECT y, x, lat, name, day, v FROM {} ORDER BY y, x"
    before, then = db.query(rows.format("a")), db.value("SELECT max(end_time) FROM tessera_fragments(?)", (source + "/__labels/l0",))
    same([r[2:5] for r in before if r[1] == 2], [(60.0, None, "2024-01-01"), (None, "b", "2024-01-01"), (40.0, "bé", "2024-01-01"), (30.0, "c", "2024-01-01"), (None, None, "2024-01-01"), (20.0, None, "2024-01-01")])
    db.value("SELECT tessera_set_key(?, ?) IS NULL", (secret, key))
    last = source
    for number, (target, options) in enumerate(((os.path.join(folder, "plain"), None), ("db:inside", '{"extents":{"y":2,"x":3}}'), (os.path.join(folder, "back"), '{"filters":{"v":"zstd"},"tile_order":"col"}'), ("db:again", None))):
        same(db.value("SELECT tessera_copy(?, ?, ?)", (last, target, options)), 24)
        if not target.startswith("db:"):
            db.table(f"t{number}", target)
        table = target[3:] if target.startswith("db:") else f"t{number}"
        same(db.query(rows.format(table)), before, target)
        same(db.query(f"SELECT y FROM {table} WHERE lat BETWEEN 25 AND 45 AND x = 0 ORDER BY 1"), [(3,), (4,)])
        ddl = db.value("SELECT tessera_ddl(?)", (target,))
        for part in ("LABEL lat FLOAT64 DECREASING FILTERS(byteshuffle, zstd(5))", "LABEL name ASCII", "LABEL day DATETIME_DAY"):
            check_contains(ddl, part)
        same(db.query("SELECT * FROM tessera_check(?)", (target,)), [])
        check_contains(db.error(f"SELECT tessera_write_label('{target}', 'lat', '[50]', 4)").text, "must fall")
        last = target
    db.value("SELECT tessera_write_label('db:a', 'lat', '[70]')")
    db.query("BEGIN")
    db.value("SELECT tessera_copy(?, 'db:gone')", (source,))
    db.query("ROLLBACK")
    same(db.value("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'gone%'"), 0)
    db.query(f"CREATE VIRTUAL TABLE enc USING tessera({literal(secret)}, encryption=aes_256_gcm, kind=dense, y INT32 DIMENSION(0, 1, 2) LABEL q INT32, v INT32)")
    db.query("INSERT INTO enc(y, v) VALUES(0, 1), (1, 2)")
    db.value("SELECT tessera_write_label('db:enc', 'q', '[5, 7]')")
    db.value("SELECT tessera_copy('db:enc', ?)", (secret + "2",))
    db.table("enc2", secret + "2")
    same(db.query("SELECT q, v FROM enc2"), [(5, 1), (7, 2)])
    other = Database()
    other.error(f"CREATE VIRTUAL TABLE x USING tessera({literal(secret + '2/__labels/l0')})")
    other.close()
    check_contains(db.error("SELECT tessera_copy('db:enc', ?, '{\"format_version\":17}')", (source + "old",)).text, "need format version 18")
    assert not os.path.exists(source + "old")
    damaged = os.path.join(folder, "damaged")
    shutil.copytree(source, damaged)
    shutil.rmtree(os.path.join(damaged, "__labels", "l1"))
    check_contains(db.error("SELECT tessera_copy(?, ?)", (damaged, source + "new")).text, "label name")
    assert not os.path.exists(source + "new")
    db.close()


def test_write_label_by_chance():
    """A write succeeds just where a list of numbers would stay in order, and then shows that list."""
    chance, db = random.Random(7), Database()
    for falls in (False, True):
        db.query(f"CREATE VIRTUAL TABLE c USING tessera(kind=dense, y INT8 DIMENSION(-20, 19, 7) LABEL q INT32 {'DECREASING' if falls else ''}, v INT8)")
        db.query("INSERT INTO c(y, v) SELECT value, 1 FROM json_each('[" + ",".join(map(str, range(-20, 20))) + "]')")
        known, done, tries = [None] * 40, 0, host.rounds(150)
        for _ in range(tries):
            first, count = chance.randrange(40), chance.randint(1, 4)
            first = min(first, 40 - count)
            values = [10 * (first + i) + chance.randint(-8, 8) * (1 if chance.random() < 0.7 else 4) for i in range(count)]
            values = [-v for v in values] if falls else values
            now = known[:first] + values + known[first + count:]
            kept = [v for v in now if v is not None]
            sound = all((a > b) if falls else (a < b) for a, b in zip(kept, kept[1:]))
            sql, given = "SELECT tessera_write_label('db:c', 'q', ?, ?)", (str(values), first - 20)
            if sound:
                same(db.value(sql, given), count)
                known, done = now, done + 1
            else:
                check_contains(db.error(sql, given).text, "its values must " + ("fall" if falls else "rise"))
            same([row[0] for row in db.query("SELECT q FROM c ORDER BY y")], known)
        assert tries * 20 // 150 < done and (tries < 30 or done < tries * 140 // 150), (done, tries)   # the first ones succeed
        db.query("DROP TABLE c")
    db.close()


def test_two_writers():
    """Of two processes that write one label at a time, one is refused, so that the order holds for both."""
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db = Database()
    create(db, path)
    db.query("INSERT INTO a(y, x, v) SELECT value, 0, 1 FROM json_each('[1,2,3,4,5,6]')")
    other = Database()
    other.table("a", path)
    db.value("SELECT tessera_write_label('db:a', 'lat', '[60, 50, 40, 30, 20, 10]')")
    same(other.value("SELECT tessera_lease(?, 60)", (path + "/__labels/l0",)), 1)
    error = db.error("SELECT tessera_write_label('db:a', 'lat', '[61]')")
    check_contains(error.text, "label lat: label array")
    check_contains(error.text, "another process is writing it")
    same(error.code, 5)   # SQLITE_BUSY
    same(db.value("""SELECT tessera_write_label('db:a', 'name', '["a"]')"""), 1)   # another label
    same(other.value("SELECT tessera_write_label('db:a', 'lat', '[62]')"), 1)   # the holder itself, which gives the lease back
    same(db.value("SELECT tessera_write_label('db:a', 'lat', '[63]')"), 1)
    done, refused = [], []

    def write(seed):
        chance, mine = random.Random(seed), Database()
        mine.table("a", path)
        for _ in range(host.rounds(40)):
            y = chance.randint(1, 5)
            high = 70 - 10 * y + chance.randint(-9, 9)   # near what is there, so that many fit
            try:
                mine.value("SELECT tessera_write_label('db:a', 'lat', ?, ?)", (f"[{high}, {high - chance.randint(1, 9)}]", y))
                done.append(y)
            except Exception as e:
                refused.append(str(e))
        mine.close()

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done and all("must fall" in e or "another process" in e for e in refused), refused
    values = [lat for _, lat in db.query("SELECT y, lat FROM a WHERE x = 0 ORDER BY y")]
    same(values, sorted(set(values), reverse=True))
    same([r for r in db.query("SELECT severity, file, message FROM tessera_check('db:a')") if r[0] != "note"], [])
    other.close()
    db.close()


def test_insert():
    """INSERT takes labels for coordinates, in tables that show them or not, and refuses what no coordinate has and what does not agree."""
    db = Database()
    create(db, None)
    db.value("SELECT tessera_write_label('db:a', 'lat', '[60, 50.5, 0, -10, null, -20]')")
    db.value("""SELECT tessera_write_label('db:a', 'name', '["a", "b", "bé", "c", "d", "e"]')""")
    db.value("""SELECT tessera_write_label('db:a', 'day', '["2024-01-01", "2024-01-02", "2024-02-01"]')""")
    db.query("INSERT INTO a(lat, day, v) VALUES(60, '2024-01-02', 1), (-0.0, '2024-02-01', 2)")
    db.query("INSERT INTO a(name, x, v) VALUES('bé', 1, 3), ('e', 3, 4)")
    db.query("INSERT INTO a(y, lat, name, x, day, v) VALUES(2, 50.5, 'b', 0, '2024-01-01', 5)")
    same(db.query("SELECT y, x, v FROM a WHERE v IS NOT NULL ORDER BY v"), [(1, 1, 1), (3, 2, 2), (3, 1, 3), (6, 3, 4), (2, 0, 5)])
    db.query("INSERT OR REPLACE INTO a(lat, x, v) SELECT lat, x, v + 10 FROM a WHERE lat IS NOT NULL AND v IS NOT NULL")
    same(db.query("SELECT y, x, v FROM a WHERE v > 10 ORDER BY v"), [(1, 1, 11), (3, 2, 12), (3, 1, 13), (6, 3, 14), (2, 0, 15)])
    db.query("BEGIN")
    db.value("SELECT tessera_write_label('db:a', 'lat', '[-15]', 5)") # seen at once
    db.query("INSERT INTO a(lat, x, v) VALUES(-15, 1, 6)")
    same(db.query("SELECT y FROM a WHERE v = 6"), [(5,)])
    db.query("ROLLBACK")
    for columns, values, part in (("lat, x", "47, 1", "a.lat: no coordinate has the label 47"), ("lat, x", "-15, 1", "no coordinate has the label -15"), ("name, x", "'z', 1", "no coordinate has the label z"),
                                  ("name, x", "'', 1", "no coordinate has the label"), ("lat, x", "'north', 1", "a.lat: "), ("lat, x", "x'00', 1", "a.lat: "), ("day, y", "'2024-01-03', 1", "no coordinate has the label 2024-01-03"),
                                  ("y, lat, x", "1, 50.5, 1", "a.lat: another coordinate of y has this label"), ("lat, name, x", "60, 'b', 1", "another coordinate of y has this label"),
                                  ("lat", "60", "a.x: NULL, but a dimension is never NULL"), ("lat, x", "NULL, 1", "a.y: NULL, but a dimension is never NULL")):
        check_contains(db.error(f"INSERT INTO a({columns}, v) VALUES({values}, 9)").text, part)
    check_contains(db.error("UPDATE a SET lat = 1").text, "the column lat cannot be set")
    same(db.query("SELECT count(*) FROM a WHERE v = 9"), [(0,)])
    db.close()


def test_slices():
    """A label is a key of slices: the slice is that of the coordinates between the two labels."""
    db = Database()
    create(db, None)
    db.value("SELECT tessera_write_label('db:a', 'lat', '[60, 50.5, 40, 30, null, 20]')")
    db.value("""SELECT tessera_write_label('db:a', 'name', '["a", "b", "bé", "c", "d", "e"]')""")
    db.value("""SELECT tessera_write_label('db:a', 'day', '["2024-01-01", "2024-01-02", "2024-02-01"]')""")
    db.query("INSERT INTO a(y, x, v) SELECT y.value, x.value, 10 * y.value + x.value FROM json_each('[1,2,3,4,5,6]') y, json_each('[0,1,2,3]') x")
    count = lambda json: db.query("SELECT count, sum FROM tessera_aggregate('db:a', 'v', ?)", (json,))
    block = lambda json: db.value("SELECT tessera_npy('db:a', 'v', ?)", (json,))
    for label, plain_ in (('{"lat":[30,51]}', '{"y":[2,4]}'), ('{"lat":40}', '{"y":3}'), ('{"lat":[null,30]}', '{"y":[4,6]}'), ('{"LAT":[45,null]}', '{"y":[1,2]}'), ('{"lat":[10,100]}', '{"y":[1,6]}'),
                          ('{"name":["b","c"]}', '{"y":[2,4]}'), ('{"name":"bé","x":[1,2]}', '{"y":3,"x":[1,2]}'), ('{"day":["2024-01-02","2024-03-01"],"lat":20}', '{"x":[1,2],"y":6}'),
                          ('{"lat":null}', '{"y":null}'), ('{"lat":[null,null]}', '{}')):
        same(count(label), count(plain_), label)
        same(block(label), block(plain_), label)
        same(db.query("SELECT cells, slice FROM tessera_partitions('db:a', 1, ?)", (label,)), db.query("SELECT cells, slice FROM tessera_partitions('db:a', 1, ?)", (plain_,)), label)
        assert label.count("[") == 0 or "null" in label or db.value("SELECT tessera_png('db:a', 'v', ?)", (label,)) == db.value("SELECT tessera_png('db:a', 'v', ?)", (plain_,)), label
    for nothing in ('{"lat":45}', '{"lat":[41,42]}', '{"name":"z"}', '{"day":"2030-01-01"}'):
        same(count(nothing), [(0, None)], nothing)
        check_contains(str(block(nothing)), "'shape': (0, 0)")
        same(db.query("SELECT count(*) FROM tessera_partitions('db:a', 3, ?)", (nothing,)), [(0,)], nothing)
    for wrong, part in (('{"lat":[50,40]}', "its low end is above its high end"), ('{"lat":50,"y":1}', "given twice"), ('{"y":1,"lat":50}', "given twice"), ('{"lat":50,"name":"a"}', "given twice"),
                        ('{"lat":"north"}', "lat"), ('{"lat":[1,2,3]}', "lat"), ('{"lon":1}', "the array has no dimension 'lon'"), ('{"lat":true}', "not coordinates")):
        check_contains(db.error("SELECT tessera_npy('db:a', 'v', ?)", (wrong,)).text, part)
    db.close()


def test_blocks():
    """tessera_npy takes the name of a label: its values along the dimension, in a directory and in the database, whatever the table shows."""
    def values(file):
        header = ast.literal_eval(file[10:10 + int.from_bytes(file[8:10], "little")].decode())
        (count,), form = header["shape"], header["descr"]
        data = file[10 + int.from_bytes(file[8:10], "little"):]
        if form[:2] == "|S":
            return [data[i * int(form[2:]):][:int(form[2:])].rstrip(b"\0").decode() for i in range(count)]
        return list(struct.unpack(f"<{count}{ {'<f8': 'd', '<i4': 'i', '<M8[D]': 'q'}[form]}", data))
    for path in (None, os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")):
        db = Database()
        create(db, path)
        block = lambda *arguments: values(db.value(f"SELECT tessera_npy('db:a', {', '.join('?' * len(arguments))})", arguments))
        same([block(name) for name in ("lat", "name", "day")], [[], [], []], "nothing is written")
        db.query("INSERT INTO a(y, x, v) VALUES(2, 0, 1), (5, 3, 2)")
        db.value("SELECT tessera_write_label('db:a', 'lat', '[60, 50.5, null, 30, 25, 20]')")
        db.value("""SELECT tessera_write_label('db:a', 'name', '["a", "bé", "c"]', 2)""")
        db.value("""SELECT tessera_write_label('db:a', 'day', '["2024-01-01", "2024-01-02", "2024-02-01"]')""")
        same([str(v) for v in block("lat")], ["50.5", "nan", "30.0", "25.0"])
        same(block("NAME", '{"y":[1,4]}'), ["", "a", "bé", "c"])
        same(block("day", '{"x":[0,2]}'), [19723, 19724, 19754])
        same(block("lat", '{"y":[6,6],"x":2}'), [20])
        same(block("name", '{"day":"2024-01-02","lat":[25,50.5]}'), ["a", "bé", "c", ""])
        check_contains(db.value("SELECT tessera_npy('db:a', 'name', '{\"y\":[1,4]}', '{\"header\":true}')"), "'|S3', 'fortran_order': False, 'shape': (4,)")
        check_contains(db.error("SELECT tessera_npy('db:a', 'lats')").text, "has no attribute 'lats'")
        same([str(v) for v in block("lat", '{"y":[1,9]}')], [str(v) for v in block("lat", '{"y":[1,6]}')], "a pair is cut to the domain")
        check_contains(db.error("SELECT tessera_npy('db:a', 'lat', '{\"y\":9}')").text, "domain")
        db.close()


@not_on_windows("wine removes no directory whose files are open")
def test_groups():
    """Labels are keys of tessera_aggregate: the groups are those of GROUP BY; coordinates without a label are one group."""
    for place in ("db:a", None):
        path = place or os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
        db = Database()
        create(db, None if place else path)
        db.query("INSERT INTO a(y, x, v) SELECT y.value, x.value, 10 * y.value + x.value FROM json_each('[1,2,3,4,5,6]') y, json_each('[0,1,2,3]') x")
        db.value("SELECT tessera_write_label('db:a', 'lat', '[60, 50.5, 40, 30, 25, 20]')")
        db.value("""SELECT tessera_write_label('db:a', 'name', '["a", "b", "bé"]', 2)""")
        db.value("""SELECT tessera_write_label('db:a', 'day', '["2024-01-01", "2024-01-02", "2024-02-01", "2024-02-02"]')""")
        for by, keys in (("lat", "lat"), ("name", "name"), ('["day","lat"]', "day, lat"), ('["y","name"]', "y, name"), ('["LAT","x"]', "lat, x")):
            for slice_ in (None, '{"lat":[24,50.5]}'):
                n = keys.count(",") + 1
                got = db.query(f"SELECT {', '.join(f'key{k + 1}' for k in range(n))}, count, sum, min, max FROM tessera_aggregate(?, 'v', ?, ?)", (path, slice_, by))
                where = "WHERE lat BETWEEN 24 AND 50.5" if slice_ else ""
                same(sorted(got, key=str), sorted(db.query(f"SELECT {keys}, count(v), sum(v), min(v), max(v) FROM a {where} GROUP BY {keys}"), key=str), by)
        check_contains(db.error("SELECT * FROM tessera_aggregate(?, 'v', NULL, 'lon')", (path,)).text, "the array has no dimension 'lon' to group by")
        if not place:
            shutil.rmtree(path + "/__labels/l0")
            check_contains(db.error("SELECT * FROM tessera_aggregate(?, 'v', NULL, 'lat')", (path,)).text, "label lat")
            same(len(db.query("SELECT * FROM tessera_aggregate(?, 'v', NULL, 'day')", (path,))), 4)
        db.close()


def test_order():
    """ORDER BY a label is the order of its dimension, up and down, in every array of the corpus."""
    for where in ("directory", "database"):
        for name, labels in ARRAYS.items():
            db = opened(name, where)
            attribute, = db.query("SELECT name FROM tessera_schema('db:a') WHERE role = 'attribute'")[0]
            for label, (dimension, _) in labels.items():
                for way in ("", " DESC"):
                    sql = f"SELECT {label}, {attribute} FROM a ORDER BY {label}{way}"
                    check_contains(db.plan(sql), f"ORDER BY {dimension}({label}){way}")
                    assert "TEMP B-TREE" not in db.plan(sql), db.plan(sql)
                    got = db.query(sql)
                    same([r[0] for r in got], sorted((r[0] for r in got), reverse=bool(way)))
                    same(sorted(got), sorted(db.query(f"SELECT {label}, {attribute} FROM a")))
                    same(db.query(sql + " LIMIT 3"), got[:3])
            db.close()


def test_order_with_gaps():
    """Rows without a label come first, as SQLite sorts NULL: also where the label lost its value after the statement was prepared, in orders of several
    columns, and with GROUP BY and DISTINCT."""
    chance = random.Random(11)
    for kind in ("dense", "sparse"):
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE a USING tessera(kind={kind}, y INT32 DIMENSION(0, 7, 4) LABEL lat FLOAT64 DECREASING, x INT32 DIMENSION(0, 5, 3) LABEL lon FLOAT32, day INT32 DIMENSION(0, 1, 1), v INT32)")
        db.query("INSERT INTO a(y, x, day, v) SELECT y.value, x.value, d.value, y.value * 100 + x.value * 10 FROM json_each('[0,1,2,3,4,5,6,7]') y, json_each('[0,1,2,3,4,5]') x, json_each('[0,1]') d")
        statements = [f"SELECT lat, lon, y, x, day, v FROM a {where}ORDER BY {order}{limit}" for order in ("lat", "lat DESC", "lon, lat DESC", "lat, x DESC, day", "x, lat", "day, lon DESC, lat")
                      for where in ("", "WHERE v > 230 ", "WHERE lat > 20 ", "WHERE y BETWEEN 2 AND 5 ", "WHERE lon IS NULL ") for limit in ("", " LIMIT 7 OFFSET 3")]
        statements += ["SELECT lat, count(*), sum(v) FROM a GROUP BY lat", "SELECT DISTINCT lat FROM a", "SELECT DISTINCT lat, lon FROM a ORDER BY lat", "SELECT lon, min(v) FROM a GROUP BY lon ORDER BY lon DESC"]
        known = {"lat": [80 - 10 * i for i in range(8)], "lon": [i * 5 for i in range(6)]}
        for lat, lon in (((), ()), ((2,), ()), ((0, 7), (1, 2)), ((), (5,)), (range(8), range(6)), ((), ())):
            for label, gaps in (("lat", lat), ("lon", lon)):
                values = [None if i in gaps else value for i, value in enumerate(known[label])]
                db.value(f"SELECT tessera_write_label('db:a', '{label}', ?)", (str(values).replace("None", "null"),))
            for sql in statements:
                got, head = db.query(sql), sql.split(" LIMIT")[0]
                if "ORDER BY" not in sql:
                    same(sorted(got, key=str), sorted(db.query(sql.replace("lat", "+lat", 1) if "DISTINCT" in sql else sql.replace("GROUP BY lat", "GROUP BY +lat")), key=str), sql)
                    continue
                order = head.split("ORDER BY ")[1]
                plain_ = db.query(head.split("ORDER BY")[0] + "ORDER BY " + ", ".join("+" + term for term in order.split(", ")))
                columns = head[len("SELECT "):head.index(" FROM")].split(", ")
                keys = [columns.index(term.split()[0]) for term in order.split(", ") if term.split()[0] in columns]
                pick = lambda rows: [[r[k] for k in keys] for r in rows]
                if "LIMIT" in sql:
                    same(pick(got), pick(plain_)[3:10], sql)
                else:
                    same(pick(got), pick(plain_), sql)
                    same(sorted(got, key=str), sorted(plain_, key=str), sql)
            whole = not lat
            plan = db.plan(f"SELECT v FROM a ORDER BY lat -- {lat} {lon} {chance.random()}")   # another text: prepared now
            assert ("TEMP B-TREE" in plan) != whole, (plan, lat)
        db.close()


def test_joins():
    """A join on a label looks the label up for each row, and reads the rows of that coordinate alone."""
    db = Database()
    create(db, None)
    db.query("INSERT INTO a(y, x, v) SELECT y.value, x.value, 10 * y.value + x.value FROM json_each('[1,2,3,4,5,6]') y, json_each('[0,1,2,3]') x")
    db.value("SELECT tessera_write_label('db:a', 'lat', '[60, 50.5, 40, 30, null, 20]')")
    db.value("""SELECT tessera_write_label('db:a', 'day', '["2024-01-01", "2024-01-02", "2024-02-01"]')""")
    db.query("CREATE TABLE places(name, lat, day)")
    db.query("INSERT INTO places VALUES('here', 40, '2024-01-02'), ('there', 50.5, '2024-02-01'), ('nowhere', 41, '2024-01-01'), ('null', NULL, NULL), ('text', '30', '2024-01-01')")
    sql = "SELECT p.name, v FROM places p CROSS JOIN a ON a.lat = p.lat AND a.day = p.day ORDER BY 1"
    check_contains(db.plan(sql), "y(lat)=? AND x(day)=?")
    db.query("SELECT tessera_reset_stats()")
    same(db.query(sql), [("here", 31), ("text", 40), ("there", 22)])
    same(db.value("SELECT value FROM tessera_stats WHERE name = 'rows_returned'"), 3)
    same(db.query("SELECT p.name, a.v FROM places p LEFT JOIN a ON a.lat = p.lat AND a.x = 0 ORDER BY 1"), [("here", 30), ("nowhere", None), ("null", None), ("text", 40), ("there", 20)])
    db.close()


def test_many_labels():
    """A range of 1,000,000 labels reads at most 4 tiles of their array; rows without a label, and values out of order, are seen all the same."""
    for falls in (False, True):
        path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(path)}, kind=dense, y INT64 DIMENSION(0, 999999, 10000) LABEL q FLOAT64 {'DECREASING' if falls else ''}, v INT8)")
        values = array.array("d", (i / 8 for i in range(10**6)))
        if falls:
            values.reverse()
        db.value("SELECT tessera_write_label('db:a', 'q', ?)", (npy_of("<f8", values.tobytes(), len(values)),))
        at = lambda q: int(999999 - 8 * q if falls else 8 * q)
        zeros = npy_of("|i1", bytes(10**6), 10**6)
        db.value("SELECT tessera_write_npy('db:a', 'v', ?)", (zeros,))
        other = Database()
        other.table("a", path)
        for low, high in ((1000.0, 1010.5), (30000.1, 90000.3), (-5, 3), (124990, 10**9)):
            expected = sorted((at(max(0, math.ceil(low * 8) / 8)), at(min(999999 / 8, math.floor(high * 8) / 8))))
            other.query("SELECT tessera_reset_stats()")
            got = other.query("SELECT min(y), max(y), count(*) FROM (SELECT y FROM a WHERE q BETWEEN ? AND ?)", (low, high))
            same(got, [(expected[0], expected[1], expected[1] - expected[0] + 1)], str((low, high)))
            tiles = other.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'")
            assert tiles <= 4, tiles   # y needs no tile of the array itself
        same(other.query("SELECT count(*) FROM a WHERE q BETWEEN 7.01 AND 7.02"), [(0,)])
        same(other.query("SELECT y, q FROM a WHERE q = 500.5"), [(at(500.5), 500.5)])
        db.value("SELECT tessera_write_label('db:a', 'q', '[null]', ?)", (at(2000),))
        third = Database()
        third.table("a", path)
        same(third.query("SELECT count(*) FROM a WHERE q BETWEEN 1999 AND 2001"), [(16,)])
        same(third.query("SELECT count(*) FROM a WHERE q >= 0 AND q < 1e9"), [(999999,)])
        db.table("l", path + "/__labels/l0")
        db.query('UPDATE l SET label = 1e12 WHERE "index" = ?', (at(3000),))
        fourth = Database()
        fourth.table("a", path)
        error = fourth.error("SELECT count(*) FROM a WHERE q BETWEEN 2999 AND 3001")
        same(error.code, 11)
        check_contains(error.text, "label q: its values must")
        for each in (db, other, third, fourth):
            each.close()


def test_large_by_chance():
    """Ranges of many labels, written in pieces that overlap, with gaps: what searches in tiles find is what a table has."""
    chance, count = random.Random(13), 40000
    for kind, falls in (("FLOAT64", False), ("FLOAT32", True), ("INT64", False), ("DATETIME_SEC", False), ("UINT32", True)):
        path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(path)}, kind=dense, y INT32 DIMENSION(-100, {count - 101}, 2000) LABEL q {kind} {'DECREASING' if falls else ''}, v INT8)")
        db.value("SELECT tessera_write_npy('db:a', 'v', ?)", (npy_of("|i1", bytes(count), count),))
        shown = lambda i: (count - i if falls else i) * 3 + 7   # the value of place i
        form = {"FLOAT64": "<f8", "FLOAT32": "<f4", "INT64": "<i8", "DATETIME_SEC": "<M8[s]", "UINT32": "<u4"}[kind]
        pack = {"FLOAT64": "d", "FLOAT32": "f", "INT64": "q", "DATETIME_SEC": "q", "UINT32": "I"}[kind]
        missing = set()
        for first, last in ((0, count), (5000, 9000), (8000, 21000), (39000, 40000)):
            gaps = {chance.randrange(first, last) for _ in range(chance.choice([0, 0, 3]))} if kind in ("FLOAT64", "FLOAT32") else set()
            values = array.array(pack, [float("nan") if i in gaps else shown(i) for i in range(first, last)])
            db.value("SELECT tessera_write_label('db:a', 'q', ?, ?)", (npy_of(form, values.tobytes(), last - first), first - 100))
            missing = {i for i in missing if not first <= i < last} | gaps
        db.query("CREATE TABLE t(y INTEGER PRIMARY KEY, q)")
        as_sql = (lambda n: datetime.datetime.fromtimestamp(n, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")) if kind == "DATETIME_SEC" else (lambda n: float(n) if kind[0] == "F" else n)
        db.raw.cursor().executemany("INSERT INTO t VALUES(?, ?)", [(i - 100, None if i in missing else as_sql(shown(i))) for i in range(count)])
        db.query("CREATE INDEX tq ON t(q)")
        for _ in range(12):
            other = Database()   # a new connection has loaded no values
            other.table("a", path)
            for _ in range(2):
                low = chance.choice([shown(chance.randrange(count)), shown(chance.randrange(count)) + 1, 0, -5])
                high = low + chance.choice([0, 1, 5, 3000, 60000, 10**6])
                given = [as_sql(max(low, 0)), as_sql(max(high, 0))]
                for where in ("q BETWEEN ? AND ?", "q > ? AND q < ?"):
                    sql = f"SELECT count(*), min(y), max(y), total(y) FROM {{}} WHERE {where}"
                    same(other.query(sql.format("a"), given), db.query(sql.format("t"), given), f"{kind} {where} {given}")
            other.close()
        same([r for r in db.query("SELECT severity, file, message FROM tessera_check('db:a')") if r[0] != "note"], [])
        db.close()


def test_create_refused():
    """A CREATE with labels that is rolled back, or that fails at a label, leaves nothing behind."""
    db, folder = Database(), tempfile.mkdtemp(dir=host.FOLDER)
    path = os.path.join(folder, "a")
    db.query("BEGIN")
    create(db, path)
    assert os.path.exists(os.path.join(path, "__labels", "l2"))
    db.query("ROLLBACK")
    same(os.listdir(folder), [])
    y, v = "y INT32 DIMENSION(1, 6, 4)", "v INT32"
    for columns, part in ((f"{y}, {v} LABEL q REAL", "column v: LABEL is for dimensions"), (f"{y} LABEL V REAL, {v}", "two columns are named"),
                          (f"{y} LABEL q REAL LABEL q REAL, {v}", "two columns are named q"), (f"{y} LABEL q REAL UNORDERED, {v}", "without an order are not supported"),
                          (f"{y} LABEL q BLOB, {v}", "BLOB cannot be a label's datatype"), (f"{y} LABEL q REAL FILTERS(dictionary), {v}", "attribute 'label': filter dictionary"),
                          (f"{y} LABEL p REAL LABEL q REAL FILTERS(dictionary), {v}", "label 'q'"), (f"{y} LABEL q REAL, {v}, format_version=17", "need format version 18"),
                          (f"{y} LABEL q REAL[2], {v}", "one value per coordinate")):
        check_contains(db.error(f"CREATE VIRTUAL TABLE z USING tessera({literal(path)}, kind=dense, {columns})").text, part)
        same(os.listdir(folder), [], columns)
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
