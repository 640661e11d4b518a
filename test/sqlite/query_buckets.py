"""Keys that rise with a dimension, such as t / 1000: tiles that are one bucket are answered from their statistics, and the answers are
those of the same text as a view. Arithmetic keys of long axes, with bounds of WHERE, unwritten cells, negative coordinates and NULLs.

usage: query_buckets.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import random
import struct
import sys

import host
from host import Database, same

SIDE, EXTENT = 20000, 100


def npy(kind, size, values):
    head = "{'descr': '<%s', 'fortran_order': False, 'shape': (%d,), }" % (kind, len(values))
    head = (head + " " * (117 - len(head)) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{size}", *values)


def series(db, low=0, name="s"):
    rng = random.Random(low)
    db.query(f"CREATE VIRTUAL TABLE {name} USING tessera(kind=dense, t INT32 DIMENSION({low}, {low + SIDE - 1}, {EXTENT}), v FLOAT64, n INT32)")
    blocks = npy("f8", "d", [rng.uniform(-9, 9) for _ in range(SIDE)]), npy("i4", "i", [rng.randint(-99, 99) for _ in range(SIDE)])
    db.query(f"SELECT tessera_write_npy('db:{name}', 'v', ?, 'n', ?)", blocks)


def counted(db, sql):
    """The rows, and the counters of the query."""
    counters = lambda: dict(db.query("SELECT name, value FROM tessera_stats"))
    before = counters()
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({sql})")
    try:
        rows = db.query("SELECT * FROM q")
    finally:
        db.query("DROP TABLE q")
    return rows, {name: value - before[name] for name, value in counters().items()}


ALL = "count(*), count(v), min(v), max(v), min(n), max(n), sum(n)"
ENDS = ALL + ", min(t), max(t), count(t)"   # of buckets, which the tiles of a dense array tell
KEYS = [   # a key, and how many of the 200 tiles are in one bucket, with the lowest coordinate 0
    ("t/1000", 200), ("t/250", 160), ("(t - 7)/1000", 181), ("(t+50)/1000", 180), ("t*3/700", None), ("floor(t/1000.0)", 200), ("CAST(t/250.0 AS INTEGER)", 160),
    ("CAST(floor((t-7)/1000.0) AS INTEGER)", 180), ("t/1000*5+t/2000", None), ("t/1", 0), ("(t-10000)/500", 180)]
FALLING = ["-t/1000", "(10000-t)/700", "t/-1000", "t%1000", "t*-1/900", "abs(t-10000)/900", "t/0", "t & 4095", "t*t/90000"]


def test_tiles_within_a_bucket_are_not_decoded():
    db = Database()
    series(db)
    for key, whole in KEYS:
        sql = f"SELECT {key} AS b, {ENDS} FROM s GROUP BY 1"
        rows, counters = counted(db, sql)
        same(rows, db.query(sql + " ORDER BY 1"), key)
        if whole is not None:
            same((counters["tiles_skipped_by_value"], counters["coordinates_evaluated"]), (whole, 0), f"{key}: tiles, coordinates for SQLite")
            same(counters["cells_computed"], (200 - whole) * EXTENT, f"{key}: cells")


def test_only_tiles_that_may_have_the_row_of_an_extreme_are_decoded():
    """Values in the row of a maximum or minimum: among equal ones, those of the first row. So tiles with an equal extreme are decoded, too."""
    db = Database()
    series(db)
    for change in ("", "UPDATE s SET v = 8.99 WHERE t % 1700 = 3", "UPDATE s SET n = NULL WHERE t BETWEEN 3950 AND 5150"):
        if change:
            db.query(change)
        for key in ("", "t/1000", "t/250", "(t-7)/1000"):
            for items, most in (("max(v), t", .2), ("min(v), n, t * 2", .2), ("max(n), t, v", 1), ("min(n), v", 1), ("max(t), v", 1), ("min(t), v, n", .1), ("max(v), t, count(*), sum(n)", .2)):
                for where in ("", " WHERE t >= 250", " WHERE v > -10", " WHERE n <> 99"):
                    sql = f"SELECT {key + ' AS b, ' if key else ''}{items} FROM s{where}{' GROUP BY 1' if key else ''}"
                    rows, counters = counted(db, sql)
                    same(rows, db.query(sql + (" ORDER BY 1" if key else "")), sql)
                    if not key and not where and not change:
                        assert counters["cells_computed"] <= most * SIDE and (most == 1 or counters["tiles_skipped_by_value"] > 100), f"{sql}: {counters}"


def test_rows_of_equal_extremes_in_tiles_beside_each_other():
    """The first row by its coordinates may be in a later tile."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, y INT32 DIMENSION(0, 39, 8), x INT32 DIMENSION(0, 39, 8), v INT32)")
    most, least = (3 * 40 + 2, 2 * 40 + 13, 17 * 40 + 1, 16 * 40 + 30), (38 * 40 + 2, 37 * 40 + 33)
    db.query(f"INSERT INTO g WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 1599) SELECT i / 40, i % 40, CASE WHEN i IN {most} THEN 99 WHEN i IN {least} THEN -99 ELSE i * 7919 % 1601 % 12 END FROM c")
    for change in ("", "UPDATE g SET v = 100 WHERE y = 21 AND x IN (9, 20)"):
        if change:
            db.query(change)
        for key in ("", "y/8", "y/16", "x/8"):
            for end, order in (("max", "DESC"), ("min", "ASC")):
                rows, counters = counted(db, f"SELECT {key + ', ' if key else ''}{end}(v), y, x FROM g{' GROUP BY 1' if key else ''}")
                expected = [db.query(f"SELECT {'?1, ' if key else ''}v, y, x FROM g{f' WHERE {key} = ?1' if key else ''} ORDER BY v {order}, y, x LIMIT 1", (group,) if key else ())[0]
                            for group in (sorted({row[0] for row in db.query(f"SELECT {key} FROM g")}) if key else [0])]
                same(rows, expected, f"{change}: {key}, {end}")
                assert key or change or end == "min" or counters["tiles_skipped_by_value"] > 15, counters


def test_boxes_of_rounded_coordinates_prove_nothing():
    """scale_float moves coordinates after the boxes of tiles were made."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(y INT32 DIMENSION(0, 100000, 1000) FILTERS(scale_float(4, 8, 0)), v INT32)")
    db.query("INSERT INTO r VALUES(13, 1)")
    for sql in ("SELECT y/8, count(*) FROM r GROUP BY 1", "SELECT y, sum(v) FROM r GROUP BY 1", "SELECT y*2, max(v) FROM r GROUP BY 1"):
        same(counted(db, sql)[0], db.query(sql), sql)


def test_keys_that_fall_or_turn():
    for low in (0, -10000):
        db = Database()
        series(db, low)
        for key in FALLING + [k for k, _ in KEYS]:
            sql = f"SELECT {key} AS b, {ENDS} FROM s GROUP BY 1"
            rows, _ = counted(db, sql)
            same(sorted(rows, key=repr), sorted(db.query(sql), key=repr), f"{key} from {low}")


def test_terms_of_where_are_not_asked_of_each_coordinate():
    db = Database()
    series(db, -3000)
    for term, tiles in (("t BETWEEN 1000 AND 8999", 80), ("t >= 1000 AND 9000 > t", 80), ("t > 1000 AND t <= 8999", 79), ("t = 1500", 0), ("t >= 99999", 0),
                        ("t < -9999999999", 0), ("t >= -99999999999 AND t < 2000", 44), ("n > -200", 194), ("n > 0", 0)):
        sql = f"SELECT t/500 AS b, {ENDS} FROM s WHERE {term} GROUP BY 1"
        rows, counters = counted(db, sql)
        same(rows, db.query(sql + " ORDER BY 1"), term)
        same((counters["tiles_skipped_by_value"] >= tiles, counters["coordinates_evaluated"] < 2), (True, True), f"{term}: {counters['tiles_skipped_by_value']}")
    for term in ("t < 8999.5", "t = '1500'", "t IN (5, 6, 9000)", "t <> 700", "t < NULL", "t BETWEEN 10 AND NULL", "t BETWEEN 700 AND 9000 - t", "NOT t < 90", "t < 5 OR t > 90"):
        sql = f"SELECT t/500 AS b, {ENDS} FROM s WHERE {term} GROUP BY 1"
        same(counted(db, sql)[0], db.query(sql + " ORDER BY 1"), term)


def test_unwritten_cells_and_arrays_of_few_rows():
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE s USING tessera(kind=dense, k INT32 DIMENSION(0, 2, 3), t INT32 DIMENSION(-5000, 14999, {EXTENT}), v FLOAT64, n INT32)")
    for k, t in ((0, -4321), (1, 77), (2, 9100)):
        db.query("WITH RECURSIVE c(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM c WHERE i < 299) INSERT INTO s SELECT ?, ? + i, i / 7.0, i % 11 FROM c", (k, t))
    for key in ("t/1000", "floor((t+3)/500.0)", "(t-1)/250"):
        for keys in (key, f"{key}, k"):
            sql = f"SELECT {keys}, {ENDS} FROM s GROUP BY {keys}"
            same(sorted(counted(db, sql)[0]), sorted(db.query(sql)), keys)
    db.query("CREATE VIRTUAL TABLE p USING tessera(t INT32 DIMENSION(-5000, 14999, 100), v FLOAT64, n INT32, capacity=50)")
    db.query("INSERT INTO p SELECT t, v, n FROM s WHERE v IS NOT NULL")
    for key in ("t/1000", "floor((t+3)/500.0)", "(t-1)/250"):
        sql = f"SELECT {key}, {ALL} FROM p GROUP BY 1"
        rows, counters = counted(db, sql)
        same((sorted(rows), counters["tiles_skipped_by_value"] > 5), (sorted(db.query(sql)), True), f"sparse, {key}")


def test_unwritten_cells_are_counted_once_where_a_key_becomes_uncertain():
    """From 2^53 on, what a REAL is as INTEGER is left to the cells: the counts of the coordinates before may not stay."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE s USING tessera(kind=dense, t INT32 DIMENSION(0, 19999, 1000), k INT32 DIMENSION(0, 9, 10), n INT32)")
    db.query("INSERT INTO s(t, k, n) VALUES (0, 0, 1), (19999, 9, 2)")
    for key in ("CAST(t*1e12 AS INTEGER)/1000000000000000", "CAST((t-19999)*1e12 AS INTEGER)/1000000000000000", "t*1e305"):
        sql = f"SELECT {key} AS b, count(*), count(n) FROM s GROUP BY 1"
        same(sorted(counted(db, sql)[0]), sorted(db.query(sql)), key)


def test_keys_that_turn_in_long_series():
    """Past 1,048,576 coordinates every key is computed. Both ends of a tile have the same 0 of t - t/99*99, and not its other cells."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE s USING tessera(kind=dense, t INT32 DIMENSION(0, 1999999, 100), n INT32)")
    db.query("WITH RECURSIVE c(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM c WHERE i < 499) INSERT INTO s SELECT i, i % 7 FROM c")
    db.query("INSERT INTO s VALUES(1999999, 3)")
    cells = [(i, i % 7) for i in range(500)] + [(1999999, 3)]
    for key, of in (("t - t/99*99", lambda t: t % 99), ("t/100", lambda t: t // 100), ("t/1000 - t/1", lambda t: t // 1000 - t), ("(t/50)*(3 - t/50)", lambda t: t // 50 * (3 - t // 50))):
        sums = {}
        for t, n in cells:
            sums.setdefault(of(t), []).append(n)
        rows, _ = counted(db, f"SELECT {key}, count(*), sum(n), min(n) FROM s WHERE n >= 0 GROUP BY 1")
        same(sorted(rows), sorted((k, len(v), sum(v), min(v)) for k, v in sums.items()), key)


def test_the_ends_of_64_bits():
    db = Database()
    db.query("CREATE VIRTUAL TABLE s USING tessera(t INT64 DIMENSION(-9223372036854775807, 9223372036854774805, 1000), n INT32, capacity=2)")
    db.query("INSERT INTO s VALUES(-9223372036854775807, 1), (-9223372036854775806, 2), (5, 3), (6, 4), (9223372036854774804, 5), (9223372036854774805, 6)")
    for key in ("t/1000", "(t - 5)/7", "t*1/3", "floor(t/1e15)"):
        sql = f"SELECT {key} AS b, count(*), min(n), max(n), sum(n) FROM s WHERE n > 2 AND n < 5 GROUP BY 1"
        same(counted(db, sql)[0], db.query(sql + " ORDER BY 1"), key)
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT (t - 5)/7, count(*) FROM s GROUP BY 1)")
    same("integer overflow" in db.error("SELECT * FROM q").text, True, "an overflow is told, though the tile has one bucket")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
