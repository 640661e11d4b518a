"""tessera_npy, tessera_png and tessera_preview of a columnar query: the grid that they take is compared with the rows of the
same SELECT; what has no place in a grid is refused.

usage: query_grids.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import ast
import math
import os
import random
import sqlite3
import struct
import sys

import host
from host import Database, Error, check_contains, same
from pictures import SHADES, decode
from query_rules import make

MISMATCH, RANGE, TOOBIG = 20, 25, 18


def opened():
    db = Database()
    make(db, False)
    return db


def npy(block):
    """Returns type, shape and numbers of an NPY file."""
    same(block[:8], b"\x93NUMPY\x01\x00", "the first bytes")
    size = struct.unpack("<H", block[8:10])[0]
    same((10 + size) % 64, 0, "where the numbers begin")
    head = ast.literal_eval(block[10:10 + size].decode())
    body = block[10 + size:]
    same(head["fortran_order"], False, "order")
    return head["descr"], head["shape"], list(struct.unpack(f"<{len(body) // 8}{'q' if head['descr'] == '<i8' else 'd'}", body))


def grid_of(rows, axes):
    """Makes the grid of rows, each with its keys and then a number, in the way that the manual describes."""
    values = []
    for a in range(axes):
        seen = {row[a] for row in rows}
        values.append(list(range(min(seen), max(seen) + 1)) if all(isinstance(v, int) for v in seen) else sorted(seen))
    shape = tuple(len(v) for v in values)
    numbers = [math.nan] * math.prod(shape)
    for row in rows:
        place = 0
        for a in range(axes):
            place = place * shape[a] + values[a].index(row[a])
        numbers[place] = math.nan if row[axes] is None else row[axes]
    return shape, numbers


def check_grid(db, text, axes, rows=None, column=None, whole=False):
    """Compares the block of a query with the grid of its rows, or of those of another SELECT with the keys first."""
    kind, shape, numbers = npy(db.value("SELECT tessera_npy(?)", (text,)) if column is None else db.value("SELECT tessera_npy(?, ?)", (text, column)))
    wanted = grid_of(db.query(rows or text), axes)
    same((kind, shape), ("<i8" if whole else "<f8", wanted[0]), text)
    same(len(numbers), len(wanted[1]), text)
    for i, (found, right) in enumerate(zip(numbers, wanted[1])):
        assert math.isnan(found) and math.isnan(right) or found == right or abs(found - right) <= 1e-12 * abs(right), f"{text}: place {i}: {found}, not {right}"


def refused(db, words, *arguments, name="tessera_npy", code=None):
    try:
        db.value(f"SELECT {name}({', '.join('?' * len(arguments))})", arguments)
    except Error as e:
        check_contains(e.text, f"{name}: ")
        check_contains(e.text, words)
        if code is not None:
            same(e.code & 255 if e.code else code, code, words)
        return
    raise AssertionError(f"{name}{arguments} is not refused")


def test_the_block_of_a_query_has_its_rows():
    db = opened()
    check_grid(db, "SELECT lat, lon, avg(temp - 273.15) FROM t GROUP BY 1, 2", 2)
    check_grid(db, "select lat/2 AS band, day/4, max(temp) from t where day BETWEEN 3 AND 30 group by 1, 2", 2)
    check_grid(db, "SELECT floor(temp/3)*3 AS bin, lat, count(*) FROM t GROUP BY 1, 2", 2, whole=True)
    check_grid(db, "SELECT name, lat, sum(n) FROM t GROUP BY 1, 2", 2, whole=True)
    check_grid(db, "SELECT strftime('%m', day) AS month, x/10, round(avg(v), 1) FROM s GROUP BY 1, 2", 2)
    check_grid(db, " SELECT day, x, v FROM s", 2)
    check_grid(db, "SELECT day, lat, lon, temp * 2 FROM t WHERE n % 7 <> 0", 3)
    check_grid(db, "SELECT count(*) FROM t", 0, whole=True)
    check_grid(db, "SELECT lat, min(n) FROM t GROUP BY 1 HAVING lat <> 0 ORDER BY 2 LIMIT 2", 1, whole=True)
    db.close()


def test_axes_need_not_be_columns():
    db = opened()
    check_grid(db, "SELECT avg(temp) FROM t GROUP BY lon, lat/2", 2, "SELECT lon, lat/2, avg(temp) FROM t GROUP BY 1, 2")
    check_grid(db, "SELECT avg(temp), lon FROM t GROUP BY lon, lat", 2, "SELECT lon, lat, avg(temp) FROM t GROUP BY 1, 2")
    check_grid(db, "SELECT temp FROM t WHERE day = 3 AND lat > -1", 3, "SELECT day, lat, lon, temp FROM t WHERE day = 3 AND lat > -1")
    check_grid(db, "SELECT lon, lat, temp FROM t WHERE day = 3", 2)
    check_grid(db, "SELECT lon, lat, temp, n, name FROM t WHERE day = 3", 2, "SELECT lon, lat, n FROM t WHERE day = 3", "N", whole=True)
    check_grid(db, "SELECT min(temp), max(temp) AS most FROM t GROUP BY lat", 1, "SELECT lat, max(temp) FROM t GROUP BY 1", "most")
    check_grid(db, "SELECT max(temp), max(temp) - 1 FROM t GROUP BY lat ORDER BY 1, lat LIMIT 3", 1, "SELECT lat, max(temp) - 1 FROM t GROUP BY 1 ORDER BY max(temp), lat LIMIT 3", "max(temp) - 1")
    db.close()


def test_places_without_a_row_are_nan():
    db = opened()
    check_grid(db, "SELECT lat, lon, avg(temp) FROM t WHERE lat <> -1 AND n % 11 > 8 AND (lat < 0 OR lon <> 2) GROUP BY 1, 2", 2)
    check_grid(db, "SELECT lat, avg(nullif(lat, 0)) FROM t GROUP BY 1", 1)
    kind, shape, numbers = npy(db.value("SELECT tessera_npy('SELECT lat, max(temp) FROM t WHERE temp > 1000 GROUP BY 1')"))
    same((kind, shape, numbers), ("<f8", (0,), []), "no rows")
    refused(db, "'count(*)' is INTEGER, but has NULLs or no row for some keys", "SELECT lat, count(*) FROM t WHERE lat <> 0 GROUP BY 1")
    refused(db, "use ifnull", "SELECT lat, sum(nullif(lat, 0)) FROM t GROUP BY 1")
    check_grid(db, "SELECT lat, CAST(count(*) AS REAL) FROM t WHERE lat <> 0 GROUP BY 1", 1)
    db.close()


def test_a_column_that_is_null_is_as_if_it_were_absent():
    db = opened()
    text = "SELECT lat, max(temp) FROM t GROUP BY 1"
    same(db.value("SELECT tessera_npy(?, NULL)", (text,)), db.value("SELECT tessera_npy(?)", (text,)))
    same(db.value("SELECT tessera_npy(?, NULL, NULL, NULL)", (text,)), db.value("SELECT tessera_npy(?)", (text,)))
    same(db.value("SELECT tessera_npy(?)", (text + " ;\n",)), db.value("SELECT tessera_npy(?)", (text,)), "a semicolon at the end")
    same(db.value("SELECT tessera_preview(?, NULL)", ("SELECT max(temp) FROM t GROUP BY lat, lon",)), db.value("SELECT tessera_preview('SELECT max(temp) FROM t GROUP BY lat, lon')"))
    check_contains(db.error("SELECT tessera_npy(?, 5)", (text,)).text, "argument 2: expected the name of a column")
    check_contains(db.error("SELECT tessera_npy(?, NULL, '{}')", (text,)).text, "a query has no slice")
    check_contains(db.error("SELECT tessera_npy('t', NULL)").text, "argument 2: expected text")
    db.close()


def test_what_has_no_place_in_a_grid_is_refused():
    db = opened()
    for words, *arguments in (
            ("several columns could be the values (min(temp), max(temp))", "SELECT lat, min(temp), max(temp) FROM t GROUP BY 1"),
            ("the query has no column 'x'; it has lat, max(temp)", "SELECT lat, max(temp) FROM t GROUP BY 1", "x"),
            ("all columns of the query are keys", "SELECT lat, lon FROM t GROUP BY 1, 2"),
            ("several rows have the same position", "SELECT lat, temp FROM t"),
            ("the key 'wind' has a NULL", "SELECT wind, avg(v) FROM s GROUP BY 1"),
            ("a query has no slice", "SELECT lat, max(temp) FROM t GROUP BY 1", "max(temp)", "{}"),
            ("no such table: nosuch", "SELECT a FROM nosuch"), ("not evaluated over columns", "SELECT group_concat(name) FROM t"),
            ("syntax error", "SELECT lat, max(temp) FROM t GROUP BY 1; DROP TABLE t"), ("parameters are not allowed", "SELECT lat, max(temp) + ? FROM t GROUP BY 1"),
            ("neither a key", "SELECT lon, sum(temp) FROM t GROUP BY lat"), ("a path must be followed by an attribute", "t")):
        refused(db, words, *arguments)
    refused(db, "'max(name)' is text or bytes", "SELECT lat, max(name) FROM t GROUP BY 1", code=MISMATCH)
    refused(db, "has more than", "SELECT n * 1000000000 + lat AS far, max(temp) FROM t GROUP BY 1", code=TOOBIG)
    refused(db, "values of several types", "SELECT CASE WHEN lat > 0 THEN 1 ELSE 0.5 END AS k, count(*) FROM t GROUP BY 1", code=MISMATCH)
    db.query("CREATE TABLE ordinary(a)")
    refused(db, "not a tessera table", "SELECT a FROM ordinary")
    db.query("BEGIN")
    db.query("INSERT INTO s VALUES('2020-05-05', 7, 1.0, NULL)")
    refused(db, "the transaction has rows for s: commit first", "SELECT x, max(v) FROM s GROUP BY 1")
    db.query("ROLLBACK")
    db.value("SELECT length(tessera_npy('SELECT x, max(v) FROM s GROUP BY 1'))")
    db.close()


def shades(rows, axes=2):
    """The characters of a grid whose places are all drawn."""
    shape, numbers = grid_of(rows, axes)
    known = [v for v in numbers if not math.isnan(v)]
    low, high = min(known), max(known)
    lines = ["".join(" " if math.isnan(v) else SHADES[min(int((v - low) / (high - low) * len(SHADES)), len(SHADES) - 1)] for v in numbers[y * shape[1]:(y + 1) * shape[1]]) for y in range(shape[0])]
    return lines, low, high


def test_the_picture_of_a_query_has_its_rows():
    db = opened()
    for text in ("SELECT day, lon, avg(temp) FROM t WHERE day < 20 AND n % 11 > 2 GROUP BY 1, 2", "SELECT name, lat, sum(n) FROM t GROUP BY 1, 2", "SELECT lat/2.0 AS half, strftime('%w', day) AS w, min(temp) FROM t GROUP BY 1, 2",
                 "SELECT lat, lon, sum(n) FROM t WHERE lat < 0 OR lon <> 2 GROUP BY 1, 2"):
        lines, low, high = shades(db.query(text))
        drawn = db.value("SELECT tessera_preview(?, ?)", (text, f'{{"width": {len(lines[0])}, "height": {len(lines)}}}')).split("\n")
        same(drawn[:-1], lines, text)
        check_contains(drawn[-1], f"(.) to {high:.15g} (@); down ")
        flipped = db.value("SELECT tessera_preview(?, NULL, ?)", (text, f'{{"width": {len(lines[0])}, "height": {len(lines)}, "flip": true}}')).split("\n")
        same(flipped[:-1], lines[::-1], text)
        pixels = decode(db.value("SELECT tessera_png(?, ?)", (text, f'{{"width": {2 * len(lines[0])}, "height": {3 * len(lines)}, "colormap": "gray", "nodata": "#ff0000"}}')))
        same((len(pixels), len(pixels[0])), (3 * len(lines), 2 * len(lines[0])), "pixels")
        for y, line in enumerate(lines):
            for x, shade in enumerate(line):
                pixel = pixels[3 * y + 2][2 * x + 1]
                assert pixel[:3] == (255, 0, 0) if shade == " " else pixel[0] == pixel[1] == pixel[2] and abs(pixel[0] / 256 * len(SHADES) - SHADES.index(shade) - 0.5) < 0.6, f"{text}: {x}, {y}: {pixel} for {shade!r}"
    one = db.value("SELECT tessera_preview('SELECT lat, lon, min(temp) AS a, sum(n) AS total FROM t WHERE lat > 0 GROUP BY 1, 2', 'total', '{\"width\": 1, \"height\": 1}')")
    check_contains(one, "total: 24200 (.) to 24560 (@); down lat 1 to 2, right lon 0 to 4")
    same(len(decode(db.value("SELECT tessera_png('SELECT lat, lon, sum(n) FROM t GROUP BY 1, 2')"))), 6, "rows of pixels of its own size")
    for name in ("tessera_png", "tessera_preview"):
        refused(db, "a picture has two keys, the query 1", "SELECT lat, sum(n) FROM t GROUP BY 1", name=name)
        refused(db, "the query has no rows", "SELECT lat, lon, sum(n) FROM t WHERE n < 0 GROUP BY 1, 2", name=name)
        refused(db, "no option is called 'size'", "SELECT lat, lon, sum(n) FROM t GROUP BY 1, 2", '{"size": 1}', name=name)
        refused(db, "a query has no slice", "SELECT lat, lon, sum(n) FROM t GROUP BY 1, 2", "{}", "{}", name=name)
        refused(db, "a path must be followed by an attribute", "t", name=name)
    db.close()


def test_labels_are_axes_of_cells():
    db = Database()
    db.query("CREATE VIRTUAL TABLE l USING tessera(kind=dense, t INT32 DIMENSION(0, 1, 2) LABEL day DATE, y INT32 DIMENSION(5, 7, 2) LABEL lat FLOAT64 DECREASING LABEL name TEXT, v FLOAT64, n INT32)")
    db.query("SELECT tessera_write_label('db:l', 'day', '[\"2024-01-01\",\"2024-01-03\"]'), tessera_write_label('db:l', 'lat', '[47.5, 47.25, 46]'), tessera_write_label('db:l', 'name', '[\"a\",\"b\"]')")
    db.query("INSERT INTO l(t, y, v, n) VALUES (0, 5, 1.5, 1), (0, 6, 2.5, 2), (0, 7, 3.5, 3), (1, 5, 4.5, 4), (1, 7, 6.5, 6)")
    check_grid(db, "SELECT day, lat, v FROM l", 2)
    check_grid(db, "SELECT lat, v FROM l WHERE day = '2024-01-01'", 1)
    check_grid(db, "SELECT lat, y, n, v FROM l WHERE t = 0", 1, "SELECT lat, n FROM l WHERE t = 0", "n", whole=True)
    check_grid(db, "SELECT y, lat, v FROM l WHERE t = 0", 1, "SELECT y, v FROM l WHERE t = 0")
    check_grid(db, "SELECT t, lat, y FROM l", 2, "SELECT t, y, lat FROM l", "lat")
    check_grid(db, "SELECT lat FROM l", 2, "SELECT t, y, lat FROM l", "lat")
    refused(db, "several rows have the same position", "SELECT lat, v FROM l")
    refused(db, "the key 'name' has a NULL", "SELECT name, v FROM l WHERE t = 0")
    refused(db, "all columns of the query are keys", "SELECT lat, day FROM l")
    check_contains(db.value("SELECT tessera_preview('SELECT day, lat, v FROM l', '{\"width\": 3, \"height\": 2}')"), 'down day "2024-01-01" to "2024-01-03", right lat 46 to 47.5')
    db.close()


def test_a_table_may_be_called_select():
    """What does not go on as a SELECT does is a path."""
    db = Database()
    for name in ("select", "select.tdb", "Selected", "select-2"):
        for call, more in (("tessera_npy", ()), ("tessera_png", ())):
            refused(db, "not found", name, "a", *more, name=call)
    db.close()


def test_a_grid_has_at_most_the_bytes_of_a_value():
    db = Database()
    if not hasattr(db.raw, "setlimit"):
        return
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, y INT32 DIMENSION(0, 9, 5), x INT32 DIMENSION(0, 9, 5), v INT32)")
    db.query("INSERT INTO g WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) SELECT i / 10, i % 10, i FROM n")
    for text in ("SELECT tessera_npy('SELECT y, x, sum(v) FROM g GROUP BY y, x')", "SELECT tessera_npy('db:g', 'v')"):
        whole = db.value(text)
        db.raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, len(whole))
        same(db.value(text), whole)
        db.raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, len(whole) - 1)
        check_contains(db.error(text).text, "SQLite's limit for a value")
        db.raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000000)
    db.close()


def test_cells_of_a_box_go_to_their_places_as_blocks():
    """The grid is that of the rows, in any order of the axes, with conditions that leave a box or a part of it; and no row takes memory."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, memory_mb=1, t INT16 DIMENSION(-3, 40, 6), y INT16 DIMENSION(0, 29, 7), x INT16 DIMENSION(5, 44, 16), v FLOAT32, n INT32, name TEXT)")
    for t in range(-2, 39):
        db.query("INSERT INTO g WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 1199) SELECT ?, i / 40, 5 + i % 40, CASE WHEN i % 7 > 0 THEN i * 0.5 + ? END, i * ?, 'w' FROM c", (t, t, t))
    window = "sum(n) OVER (PARTITION BY y, x ORDER BY t ROWS 2 PRECEDING)"
    for text, whole in (("SELECT t, y, x, v FROM g", False), ("SELECT x, t, y, n FROM g", True), ("SELECT y, x, t, v * n + 1 AS r FROM g WHERE t BETWEEN 3 AND 20 AND x > 10", False),
                        (f"SELECT t, y, x, {window} AS s FROM g", True), (f"SELECT x, y, t, s FROM (SELECT t, y, x, {window} AS s FROM g WHERE t < 12)", True), ("SELECT t, y, x, NULL + n AS r FROM g WHERE t < 3", False)):
        check_grid(db, text, 3, whole=whole)
    for text, whole in (("SELECT t, y, x, v FROM g WHERE t = 4 AND n % 3 = 0", False), ("SELECT t, y, x, n FROM g WHERE t IN (3, 5) AND y = 2", None), ("SELECT t, y, x, s FROM (SELECT t, y, x, avg(v) OVER (PARTITION BY y, x ORDER BY t) AS s FROM g WHERE y = 3) WHERE t < 9", False)):
        if whole is None:
            refused(db, "no row for some keys", text)
        else:
            check_grid(db, text, 3)
    refused(db, "has NULLs", "SELECT t, y, x, CASE WHEN x > 8 THEN n END AS r FROM g")
    refused(db, "too many rows for memory_mb (1)", "SELECT t, y, x, v FROM g WHERE n > -100000000")
    db.close()


def test_pictures_of_a_box_leave_out_integers_that_are_null():
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, y INT16 DIMENSION(-4, 25, 7), x INT16 DIMENSION(0, 39, 16), n INT32)")
    db.query("INSERT INTO g WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 1199) SELECT i / 40 - 4, i % 40, CASE WHEN i % 7 > 2 THEN i - 600 END FROM c")
    for where in ("", " WHERE y < 9 AND x > 20"):
        texts = [f"SELECT y, x, {item} AS r FROM g{where}" for item in ("n", "CAST(n AS REAL)", "ifnull(n, 0)")]
        whole, reals, zeros = (db.query("SELECT tessera_png(?)", (text,))[0][0] for text in texts)
        assert whole == reals and whole != zeros
    db.close()


def tables(memory=""):
    """A connection with tessera_query tables of cells, of windows and of groups over one array."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, t INT16 DIMENSION(0, 39, 6) LABEL day DATE, y INT16 DIMENSION(0, 12, 5) LABEL lat FLOAT64 DECREASING, x INT16 DIMENSION(3, 20, 7), v FLOAT64, n INT32)")
    db.query("SELECT tessera_write_label('db:g', 'lat', json('[60.5, 60, 59.5, 59, 58.5, 58, 57.5, 57, 56.5, 56, 55.5, 55, 54.5]'))")
    db.query("SELECT tessera_write_label('db:g', 'day', json_group_array(date('2024-01-01', value || ' days'))) FROM json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39]')")
    for day in range(30):
        db.query("INSERT INTO g(t, y, x, v, n) WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 168) SELECT 2 + ?, i / 13, 4 + i % 13, CASE WHEN (i + ?) % 7 > 0 THEN (i * ?) % 97 / 4.0 END, i FROM c", (day, day, day + 3))
    db.query(f"CREATE VIRTUAL TABLE cells USING tessera_query({memory}SELECT t, y, x, v * 2 AS w, n FROM g -- the end\n)")
    db.query(f"CREATE VIRTUAL TABLE rolling USING tessera_query({memory}SELECT t, y, x, lat, day, v, avg(v) OVER (PARTITION BY y, x ORDER BY t ROWS 4 PRECEDING) AS mean FROM g)")
    db.query(f"CREATE VIRTUAL TABLE flat USING tessera_query({memory}SELECT y, x, v FROM g WHERE t = 8)")
    db.query(f"CREATE VIRTUAL TABLE monthly USING tessera_query({memory}SELECT strftime('%m', day) AS month, y, avg(v) AS mean, count(*) AS number FROM g GROUP BY 1, 2)")
    db.query(f"CREATE VIRTUAL TABLE \"few rows\" USING tessera_query({memory}SELECT t, y, x, v FROM g WHERE v > 3 ORDER BY t, y, x LIMIT 40)")
    return db


def test_from_has_a_tessera_query():
    """Of cells, the text of the tessera_query takes the place of its name; of groups, SQLite gives the rows."""
    for memory in ("", "memory_mb=64, threads=2, "):
        db = tables(memory)
        check_grid(db, "SELECT t, y, x, mean FROM rolling", 3)
        check_grid(db, "SELECT x, t, y, mean - v AS d FROM rolling AS r WHERE r.t BETWEEN 8 AND 11 AND r.x < 9", 3)
        check_grid(db, "SELECT mean FROM rolling", 3, "SELECT t, y, x, mean FROM rolling")
        check_grid(db, "SELECT rolling.y, x, mean FROM main.rolling WHERE t = 8 AND mean > 5", 2)
        check_grid(db, "SELECT lat, x, v FROM rolling WHERE t = 11", 2)
        check_grid(db, "SELECT y, avg(mean), median(v) FROM rolling GROUP BY y", 1, "SELECT y, avg(mean) FROM rolling GROUP BY y", "avg(mean)")
        check_grid(db, "SELECT * FROM cells", 3, "SELECT t, y, x, w FROM cells", "w")
        check_grid(db, "SELECT t, y, x, n FROM cells WHERE t < 32 AND x <= 16 AND x >= 4 AND t >= 2", 3, column="n", whole=True)
        check_grid(db, "SELECT y, x, m FROM (SELECT y, x, avg(w) OVER (PARTITION BY t, y ORDER BY x ROWS 1 PRECEDING) AS m FROM cells WHERE t = 4)", 2)
        check_grid(db, "SELECT month, y, mean FROM monthly", 2)
        check_grid(db, "SELECT y, month, round(mean, 1) FROM monthly WHERE number > 3", 2)
        check_grid(db, "SELECT * FROM monthly", 2, "SELECT month, y, number FROM monthly", "number", whole=True)
        check_grid(db, "SELECT month AS m, max(mean) FROM monthly GROUP BY m ORDER BY 2 DESC", 1)
        check_grid(db, "SELECT y / 3, sum(number) FROM monthly GROUP BY 1", 1, whole=True)
        check_grid(db, "SELECT month, y, sum(number) FROM monthly GROUP BY month, monthly.y", 2, whole=True)
        check_grid(db, "SELECT month, y, sum(number) FROM monthly GROUP BY y, month", 2, "SELECT y, month, number FROM monthly", whole=True)
        check_grid(db, "SELECT y AS month, month AS m, y + 1 AS n, max(mean) FROM monthly GROUP BY n, month", 2, "SELECT y + 1, month, mean FROM monthly", "max(mean)")
        check_grid(db, "SELECT max(mean) FROM monthly", 0)
        check_grid(db, 'SELECT t, y, x, v FROM "few rows"', 3)
        db.close()


def test_a_path_names_a_tessera_query():
    db = tables()

    def same_block(call, text):
        assert db.value(f"SELECT tessera_npy({call})") == db.value("SELECT tessera_npy(?)", (text,)), f"{call} is not {text}"
    same_block("'db:rolling', 'mean'", "SELECT t, y, x, mean FROM rolling")
    same_block("'db:main.rolling', 'MEAN', NULL, NULL", "SELECT t, y, x, mean FROM rolling")
    same_block("'db:rolling', 'mean', '{\"day\":[\"2024-01-05\",\"2024-01-07\"]}'", "SELECT t, y, x, mean FROM rolling WHERE t BETWEEN 4 AND 6")
    same_block("'db:flat', 'v'", "SELECT y, x, v FROM g WHERE t = 8")
    same_block("'db:monthly', 'mean', '{\"y\":[2,null],\"month\":\"01\"}'", "SELECT month, y, mean FROM monthly WHERE y >= 2 AND month = '01'")
    same_block("'db:\"few rows\"', 'v'", 'SELECT t, y, x, v FROM "few rows"')
    same_block("'db:rolling', 'mean', '{\"t\":8,\"x\":[5,9],\"y\":null}'", "SELECT t, y, x, mean FROM rolling WHERE t = 8 AND x BETWEEN 5 AND 9")
    same(npy(db.value("SELECT tessera_npy('db:rolling', 'mean', '{\"t\":8}')"))[1], (1, 13, 13), "a key with one value stays an axis")
    same(npy(db.value("SELECT tessera_npy('db:cells', 'w', '{\"x\":[]}')"))[1], (0, 0, 0), "an empty slice")
    for name in ("tessera_png", "tessera_preview"):
        for options in (None, '{"width":26,"flip":true}'):
            drawn = db.value(f"SELECT {name}('db:rolling', 'mean', '{{\"t\":8}}', ?)", (options,))
            same(drawn, db.value(f"SELECT {name}(?, NULL, ?)", ("SELECT y, x, mean FROM rolling WHERE t = 8", options)), f"{name} {options}")
        same(db.value(f"SELECT {name}('db:flat', 'v')"), db.value(f"SELECT {name}(?)", ("SELECT y, x, v FROM g WHERE t = 8",)))
        same(db.value(f"SELECT {name}('db:monthly', 'mean', '{{\"month\":\"01\"}}')"), db.value(f"SELECT {name}(?)", ("SELECT month, y, mean FROM monthly WHERE month = '01'",)))
        refused(db, "a picture has two keys, the query 3: give one value of all but two in the slice", "db:rolling", "mean", name=name)
        refused(db, "set the others to one value in WHERE", "SELECT t, y, x, mean FROM rolling", name=name)
    tile = '{"tile":[0,0,0],"min":0,"max":9}'
    same(db.value("SELECT tessera_png('SELECT lat, x, mean FROM rolling WHERE t = 8', ?)", (tile,)), db.value("SELECT tessera_png('SELECT lat, x, mean FROM (SELECT lat, x, t, avg(v) OVER (PARTITION BY y, x ORDER BY t ROWS 4 PRECEDING) AS mean FROM g) WHERE t = 8', ?)", (tile,)))
    db.close()


def test_what_a_grid_of_a_tessera_query_refuses():
    db = tables("memory_mb=1, ")
    for words, *arguments in (
            ("no such column: zz", "SELECT t, y, x, zz FROM rolling"), ("several columns could be the values (v, mean)", "SELECT t, y, x, v, mean FROM rolling"),
            ("several rows have the same position", "SELECT y, mean FROM monthly"), ("'y / 3' in GROUP BY is none of the columns", "SELECT sum(mean) FROM monthly GROUP BY y / 3"),
            ("'month' in GROUP BY is none of the columns", "SELECT y, max(mean) FROM monthly GROUP BY month"), ("'y' in GROUP BY is none of the columns", "SELECT month AS y, max(mean) FROM monthly GROUP BY y"),
            ("'y / 3' in GROUP BY is none of the columns", "SELECT number / 3, max(mean) FROM monthly GROUP BY y / 3"),
            ("takes neither joins nor subqueries", "SELECT a.month, a.y, a.mean FROM monthly a JOIN flat f ON f.y = a.y"), ("takes neither joins nor subqueries", "SELECT month, y, mean FROM monthly WHERE mean > (SELECT max(v) FROM g)"),
            ("parameters are not allowed", "SELECT month, y, mean FROM monthly WHERE y > ?"), ("all columns of the query are keys", "SELECT month, y FROM monthly"), ("* with GROUP BY", "SELECT * FROM monthly GROUP BY y"),
            ("rolling has no column 'zz'; it has t, y, x, lat, day, v, mean", "db:rolling", "zz"), ("slice: 'mean' is not a key of rolling (t, y, x, lat, day)", "db:rolling", "v", '{"mean":3}'),
            ("takes no options here", "db:rolling", "v", None, "{}"), ("no such table", "db:nosuch", "v"), ("not a tessera table", "db:sqlite_master", "v")):
        refused(db, words, *arguments)
    refused(db, "'x': expected a number, text or a pair of them", "db:rolling", "v", '{"x":{"a":1}}', code=MISMATCH)
    refused(db, "'x' has more than two ends", "db:rolling", "v", '{"x":[1,2,3]}', code=MISMATCH)
    refused(db, "'x' has one end", "db:rolling", "v", '{"x":[1]}', code=MISMATCH)
    refused(db, "'x': the low end is above the high one", "db:rolling", "v", '{"x":[9,4]}', code=RANGE)
    refused(db, "slice", "db:rolling", "v", "[1]", code=MISMATCH)
    db.query("CREATE VIRTUAL TABLE large USING tessera(kind=dense, memory_mb=64, y INT32 DIMENSION(0, 599, 100), x INT32 DIMENSION(0, 599, 100), v FLOAT32)")
    db.query("INSERT INTO large VALUES (0, 0, 1.0), (599, 599, 2.0)")
    db.query("CREATE VIRTUAL TABLE wide USING tessera_query(memory_mb=2, SELECT y, x, v + 1 AS w FROM large)")
    same(npy(db.value("SELECT tessera_npy('db:wide', 'w')"))[1], (600, 600), "a block is a value, whose size SQLite limits")
    refused(db, "more than 2097152 bytes, which is memory_mb", "db:wide", "w", name="tessera_png", code=TOOBIG)
    refused(db, "too many rows for memory_mb (2)", "SELECT y, x, w FROM wide WHERE abs(y - x) >= 0", code=TOOBIG)
    db.query("BEGIN")
    db.query("INSERT INTO g(t, y, x, v) VALUES (4, 3, 7, 1.0)")
    for arguments in (("SELECT t, y, x, mean FROM rolling",), ("SELECT month, y, mean FROM monthly",), ("db:rolling", "mean")):
        refused(db, "the transaction has rows for g: commit first", *arguments)
    db.query("ROLLBACK")
    db.query("DROP TABLE g")
    refused(db, "rolling: no such", "db:rolling", "mean")
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
