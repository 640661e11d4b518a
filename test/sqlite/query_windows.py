"""Window functions over dimensions in columnar queries: each text runs as a view and as a tessera_query, which must give the same
rows, bit for bit: the values are multiples of 1/4, so that no sum is rounded.

Neighbourhoods, which are joins of an array with itself by offsets, have texts of their own.

TEXTS is how many texts are generated, from SEED.

usage: query_windows.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import statistics
import sys

import host
from host import Database, Error, check_contains, same

TEXTS, SEED = int(os.environ.get("TEXTS", "60")), int(os.environ.get("SEED", "1"))


def make(db, seed):
    """Makes a dense array with unwritten cells, nulls, tiles that do not divide it and overlapping fragments; and a sparse one."""
    chance = random.Random(seed)
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, t INT16 DIMENSION(-2, 40, 6), y INT16 DIMENSION(0, 12, 4), x INT16 DIMENSION(3, 20, 7), v FLOAT64, f FLOAT32, n INT64, name TEXT)")
    for t in list(range(-1, 24)) + list(range(28, 36)) + [5, 6, 7]:
        for y in range(1, 12):
            if chance.random() < .2:
                continue
            db.query("INSERT OR REPLACE INTO g VALUES " + ", ".join(f"({t}, {y}, {x}, {'NULL' if chance.random() < .1 else chance.randint(-64, 64) / 4}, {chance.randint(-64, 64) / 4}, {'NULL' if chance.random() < .1 else chance.randint(-9, 9)}, 'w{chance.randint(0, 30)}')" for x in range(3, 18)))
    db.query("CREATE TABLE heights(x INTEGER PRIMARY KEY, height REAL, depth INTEGER)")
    db.query("INSERT INTO heights SELECT value, value * value / 8.0, -3 * value FROM json_each('[3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]')")
    db.query("CREATE VIRTUAL TABLE s USING tessera(day DATE DIMENSION('2020-01-01', '2020-06-30', 30), x INT64 DIMENSION(-50, 99, 10), v FLOAT64, n INT64, capacity=20)")
    for i in range(400):
        db.query("INSERT OR REPLACE INTO s VALUES(date('2020-01-01', ?), ?, ?, ?)", (f"{chance.randint(0, 180)} days", chance.randint(-50, 20), chance.randint(-64, 64) / 4 if i % 9 else None, i))


DIMENSIONS = {"g": ("t", "y", "x"), "s": ("day", "x")}
ORDERS = {"t": ("t", "t * 2", "-t", "t / 2.0", "t * t * t"), "y": ("y", "y * y", "100 - y"), "x": ("x", "x * 1.5", "exp(x / 10.0)", "-x"),
          "day": ("day", "julianday(day)", "unixepoch(day) / 86400", "day")}


def frame(chance, array):
    """Returns a frame, or an empty text for the default."""
    if chance.random() < .1:
        return ""
    kind = chance.choice(("ROWS", "RANGE")) if array == "g" else "RANGE"
    number = (lambda: str(chance.choice((0, 1, 2, 3, 5, 11, 50)))) if kind == "ROWS" else (lambda: str(chance.choice((0, 1, 2, 2.5, 4, 10, 90))))
    start = chance.choice(("UNBOUNDED PRECEDING", f"{number()} PRECEDING", f"{number()} PRECEDING", "CURRENT ROW", f"{number()} FOLLOWING"))
    if chance.random() < .15 and "FOLLOWING" not in start:
        return f" {kind} {start}"
    ends = ["UNBOUNDED FOLLOWING", f"{number()} FOLLOWING", f"{number()} FOLLOWING"]
    if "FOLLOWING" not in start:
        ends += ["CURRENT ROW", "CURRENT ROW"]
        if start != "CURRENT ROW":
            ends.append(f"{number()} PRECEDING")
    return f" {kind} BETWEEN {start} AND {chance.choice(ends)}"


def over(chance, array, whole=False):
    """Returns the definition of a window."""
    dimensions = list(DIMENSIONS[array])
    if whole:
        return f"PARTITION BY {', '.join(chance.sample(dimensions, chance.randint(1, len(dimensions))))}" if chance.random() < .8 else ""
    along = chance.choice(dimensions)
    rest = [d for d in dimensions if d != along]
    chance.shuffle(rest)
    order, window = chance.choice(ORDERS[along]), frame(chance, array)
    if order == "day" and ("FOLLOWING" in window or "PRECEDING" in window):
        window = window if "RANGE" not in window else ""
    return f"PARTITION BY {', '.join(rest)} ORDER BY {order}{chance.choice(('', ' ASC', ' DESC'))}{window}"


def function(chance, array, names):
    """Returns a window function with OVER."""
    number = chance.choice(("v", "n", "v", "v * 2", "n + x", "abs(v)", "CASE WHEN v > 0 THEN v END") + (("f", "name") if array == "g" else ()))
    text = number == "name"
    words = over(chance, array, not text and chance.random() < .15)
    if names and chance.random() < .3:
        words, ordered = chance.choice(names), True
    else:
        ordered, words = "ORDER" in words, f"({words})"
    where = f" FILTER (WHERE {chance.choice(('v > 0', 'n < 4', 'x % 3 > 0', 'v IS NOT NULL'))})" if chance.random() < .25 else ""
    kinds = ["aggregate"] * 4
    if ordered:
        kinds += ["first_value", "last_value", "nth"]
        if array == "g":
            kinds += ["shift", "shift", "row_number"]
    kind = chance.choice(kinds)
    if kind == "aggregate":
        aggregate = chance.choice(("min", "max", "count") if text else ("sum", "avg", "min", "max", "count", "total", "count(*)"))
        if aggregate in ("min", "max"):
            where = ""   # SQLite 3.40 forgets the FILTER of min and max in some frames
        return f"{aggregate if '(' in aggregate else f'{aggregate}({number})'}{where} OVER {words}"
    if kind == "nth":
        return f"nth_value({number}, {chance.randint(1, 4)}) OVER {words}"
    if kind == "row_number":
        return f"row_number() OVER {words}"
    if kind == "shift":
        more = chance.choice(("", "", f", {chance.randint(0, 5)}", f", {chance.randint(0, 3)}, {chr(39) + 'none' + chr(39) if text else 0 if number[0] == 'n' else -1.5}"))
        return f"{chance.choice(('lag', 'lead'))}({number}{more}) OVER {words}"
    return f"{kind}({number}) OVER {words}"


def text(chance):
    """Returns a text with window functions, and the array."""
    array = chance.choice("ggs")
    dimensions = DIMENSIONS[array]
    names = ["w", "w2"] if chance.random() < .3 else []
    windows = [over(chance, array) for _ in names]
    items = list(dimensions) + [function(chance, array, names) + f" AS r{i}" for i in range(chance.randint(1, 3))]
    if chance.random() < .3:
        items.append(f"v - avg(v) OVER ({over(chance, array)}) AS anomaly")
    if chance.random() < .2:
        items.append("v * 2 AS twice")
    plain = chance.choice(("", "", f" WHERE {dimensions[0]} > {0 if array == 'g' else repr('2020-02-10')}", " WHERE x BETWEEN 5 AND 14", " WHERE x % 3 > 0", " WHERE x IN (4, 5, 6, 9, 12)"))
    if array == "s" or not any(word in " ".join(items) for word in ("ROWS", "lag(", "lead(", "row_number", " w")):
        plain = chance.choice((plain, " WHERE v > -8", " WHERE n % 2 = 0 AND x > 3"))
    window = " WINDOW " + ", ".join(f"{name} AS ({window})" for name, window in zip(names, windows)) if names else ""
    words = f"SELECT {', '.join(items)} FROM {array}{plain}{window}"
    kind = chance.random()
    if kind < .15:
        return f"SELECT {dimensions[1]}, x / 4 AS band, max(r0) AS most, count(r0) AS cells FROM ({words}) WHERE r0 IS NOT NULL GROUP BY 1, 2" if "name" not in items[len(dimensions)] else words, array
    if kind < .3:
        return f"SELECT {', '.join(dimensions)}, r0, r0 IS NULL AS none FROM ({words}) WHERE {dimensions[1]} > 4 AND {dimensions[0]} < {20 if array == 'g' else repr('2020-05-01')}", array
    return words, array


def rows_of(db, words, options=""):
    db.query("DROP TABLE IF EXISTS temp.q")
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({options}{words})")


def compare(db, words, around=""):
    db.query("DROP VIEW IF EXISTS temp.v")
    db.query(f"CREATE TEMP VIEW v AS {words}")
    rows_of(db, words)
    key = lambda row: [(value is not None, isinstance(value, str), value if value is not None else 0) for value in row]
    expected, rows = (sorted(db.query(f"SELECT * FROM temp.{name} {around}"), key=key) for name in ("v", "q"))
    if rows != expected or [list(map(type, row)) for row in rows] != [list(map(type, row)) for row in expected]:
        apart = [(a, b) for a, b in zip(expected, rows) if a != b or list(map(type, a)) != list(map(type, b))]
        raise AssertionError(f"{words} {around}\n{len(expected)} and {len(rows)} rows; view, query: {apart[:5]}")
    return len(rows)


AROUND = {"g": ("WHERE t = 5", "WHERE t BETWEEN 3 AND 9 AND x = 7", "WHERE y IN (2, 3, 9)", "WHERE x > 11", "WHERE t > 38"),
          "s": ("WHERE x BETWEEN -5 AND 5", "WHERE day > '2020-03-01'", "WHERE x = 3")}


def test_texts_give_the_rows_of_the_view():
    """Generated texts, with terms of the statement around, which must not change what frames see."""
    db = Database()
    make(db, SEED)
    chance, rows = random.Random(SEED + 1), 0
    for _ in range(TEXTS):
        words, array = text(chance)
        rows += compare(db, words)
        if "band" not in words:
            compare(db, words, chance.choice(AROUND[array]))
    assert rows > 100 * TEXTS, rows


def test_results_do_not_depend_on_threads_memory_or_slices():
    """Bits, of values that round: units of any size, and slices of them, give the same."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(kind=dense, t INT32 DIMENSION(0, 199, 30), y INT32 DIMENSION(0, 8, 4), x INT32 DIMENSION(0, 39, 16), v FLOAT64)")
    chance = random.Random(5)
    for t in range(200):
        db.query("INSERT INTO r VALUES " + ", ".join(f"({t}, {y}, {x}, {chance.uniform(-1, 1) * 10 ** chance.randint(-9, 9)})" for y in range(9) for x in range(40)))
    windows = [f"{function}(v) OVER (PARTITION BY {by} ORDER BY {order} {frame})" for function in ("sum", "avg", "stddev", "median", "max", "last_value")
               for by, order, frame in (("y, x", "t", "ROWS BETWEEN 29 PRECEDING AND CURRENT ROW"), ("t, x", "y", "RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING"), ("y, t", "x DESC", "ROWS UNBOUNDED PRECEDING"))]
    words = f"SELECT t, y, x, {', '.join(windows)}, sum(v) OVER (PARTITION BY t) FROM r"
    rows_of(db, words, "threads=1, ")
    expected = sorted(db.query("SELECT * FROM q"))
    for options in ("threads=2, ", "threads=7, ", "threads=1, memory_mb=24, ", "threads=3, memory_mb=64, "):
        rows_of(db, words, options)
        assert sorted(db.query("SELECT * FROM q")) == expected, options
        for around, keep in (("t = 57", lambda row: row[0] == 57), ("y BETWEEN 2 AND 3 AND x > 30", lambda row: row[1] in (2, 3) and row[2] > 30)):
            assert sorted(db.query(f"SELECT * FROM q WHERE {around}")) == [row for row in expected if keep(row)], (options, around)


def test_functions_that_sqlite_may_lack():
    """median, percentile, stddev and variance against Python's."""
    db = Database()
    make(db, 4)
    rows_of(db, "SELECT t, y, x, v, median(v) OVER w, percentile(v, 25) OVER w, stddev(v) OVER w, variance(n) FILTER (WHERE n > -5) OVER w, n FROM g WINDOW w AS (PARTITION BY y, x ORDER BY t DESC RANGE BETWEEN 4 PRECEDING AND 1 FOLLOWING)")
    lines = {}
    rows = db.query("SELECT * FROM q")
    for t, y, x, v, *_, n in rows:
        lines.setdefault((y, x), {})[t] = v, n
    def near(a, b):
        return a == b if a is None or b is None else abs(a - b) <= 1e-12 * max(1, abs(b))
    for t, y, x, v, median, quarter, deviation, variance, n in rows:
        frame = [lines[y, x].get(s, (None, None)) for s in range(t - 1, t + 5)]
        values = sorted(value for value, _ in frame if value is not None)
        others = [other for _, other in frame if other is not None and other > -5]
        place = (len(values) - 1) / 4
        low = values[int(place)] if values else None
        assert near(median, statistics.median(values) if values else None), (t, y, x)
        assert near(quarter, low + (values[min(int(place) + 1, len(values) - 1)] - low) * (place % 1) if values else None), (t, y, x)
        assert near(deviation, statistics.stdev(values) if len(values) > 1 else None), (t, y, x)
        assert near(variance, statistics.variance(others) if len(others) > 1 else None), (t, y, x)


def test_infinities_leave_the_frame():
    """What differs from the view: SQLite gives NULL from here on."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(kind=dense, t INT32 DIMENSION(0, 5, 2), v FLOAT64)")
    db.query("INSERT INTO r VALUES(0, 1), (1, 1e999), (2, 2), (3, 1e308), (4, 1e308), (5, -1e999)")
    rows_of(db, "SELECT t, sum(v) OVER (ORDER BY t ROWS 1 PRECEDING), avg(v) OVER (ORDER BY t ROWS 1 PRECEDING), total(v) OVER (ORDER BY t) FROM r")
    inf = float("inf")
    same(sorted(db.query("SELECT * FROM q")), [(0, 1, 1, 1), (1, inf, inf, inf), (2, inf, inf, inf), (3, 1e308, 5e307, inf), (4, inf, inf, inf), (5, -inf, -inf, None)])


def test_frames_reach_past_the_axis():
    """An offset past the axis is its end, however great it is. (SQLite 3.40 takes minutes for some of them, so the rows are those of UNBOUNDED.)"""
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(kind=dense, t INT32 DIMENSION(0, 4, 2), n INT64)")
    db.query("INSERT INTO r VALUES(0, 5), (1, 7), (2, NULL), (3, 1), (4, 2)")
    for offset in (5, 2**31 - 1, 2**31, 2**63 - 1):
        for order in ("t", "t DESC"):
            texts = [f"SELECT t, sum(n) OVER (ORDER BY {order} ROWS BETWEEN {first} PRECEDING AND {last} FOLLOWING) AS a FROM r" for first, last in ((offset, 1), ("UNBOUNDED", 1), (1, offset), (1, "UNBOUNDED"))]
            rows = [rows_of(db, words) or sorted(db.query("SELECT * FROM q")) for words in texts]
            same((rows[0], rows[2]), (rows[1], rows[3]))
            rows_of(db, f"SELECT t, lag(n, {offset}, -7) OVER (ORDER BY {order}) AS a, lead(n, {offset}, -8) OVER (ORDER BY {order}) AS b FROM r")
            same(sorted(db.query("SELECT * FROM q")), [(t, -7, -8) for t in range(5)])


def test_sums_of_integers_are_exact():
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(kind=dense, t INT32 DIMENSION(0, 4, 2), n INT64)")
    db.query("INSERT INTO r VALUES(0, 9223372036854775807), (1, -9223372036854775807), (2, 9223372036854775806), (3, 1), (4, 1)")
    rows_of(db, "SELECT t, sum(n) OVER (ORDER BY t ROWS 1 PRECEDING) FROM r")
    same(sorted(db.query("SELECT * FROM q")), [(0, 9223372036854775807), (1, 0), (2, -1), (3, 9223372036854775807), (4, 2)])
    rows_of(db, "SELECT t, sum(n) OVER (ORDER BY t ROWS 2 PRECEDING) FROM r")
    try:
        db.query("SELECT * FROM q")
    except Error as error:
        check_contains(str(error), "integer overflow: the sum passes 64 bits: 'n' (character ")
    else:
        raise AssertionError("a sum past 64 bits")


def test_terms_around_restrict_what_is_read():
    db = Database()
    make(db, 1)
    rows_of(db, "SELECT t, y, x, sum(n) OVER (PARTITION BY y, x ORDER BY t ROWS 2 PRECEDING) AS s FROM g")
    check_contains(str(db.query("EXPLAIN QUERY PLAN SELECT * FROM q WHERE t = 10")), "windows sum(n) OVER (PARTITION BY y, x ORDER BY t ROWS 2 PRECEDING)")
    for around, cells, reached in (("t = 10 AND y = 5 AND x = 7", 1, 3), ("t BETWEEN 10 AND 12 AND y = 5", 45, 75)):
        db.query("SELECT tessera_reset_stats()")
        rows = db.query(f"SELECT * FROM q WHERE {around}")
        stats = dict(db.query("SELECT name, value FROM tessera_stats"))
        same((len(rows), stats["cells_computed"], stats["cells_around"]), (cells, cells, reached))


def test_tessera_sql_evaluates_windows_over_columns():
    db = Database()
    make(db, 1)
    for words in ("SELECT t, y, x, avg(v) OVER (PARTITION BY y, x ORDER BY t ROWS 3 PRECEDING) AS m FROM g ORDER BY 1, 2, 3",
                  "SELECT y, max(s) FROM (SELECT y, sum(n) OVER (PARTITION BY y, t ORDER BY x ROWS 3 PRECEDING) AS s FROM g WHERE t > 2) GROUP BY y ORDER BY y",
                  "SELECT t, lag(n, 2, 7) OVER (PARTITION BY y, x ORDER BY t) FROM g WHERE y = 4 AND x = 9 ORDER BY 1"):
        db.query("SELECT tessera_reset_stats()")
        rows = db.query(db.value("SELECT tessera_sql(?)", (words,)))
        stats = dict(db.query("SELECT name, value FROM tessera_stats"))
        assert stats["cells_around"] > 0, f"{words} ran by rows"
        same(rows, db.query(words))


def test_groups_by_dimensions_beside_attributes():
    """Keys that form no grid, since an attribute is among them or a dimension has too many coordinates, are read from columns, which the windows alone do not need."""
    db = Database()
    make(db, 2)
    for keys in ("x, name", "y, n", "t, y, name", "n, t % 5", "name"):
        assert compare(db, f"SELECT {keys}, max(m) AS most, count(m) AS cells FROM (SELECT t, y, x, n, name, sum(n) OVER (PARTITION BY y, t ORDER BY x ROWS 2 PRECEDING) AS m FROM g) GROUP BY {keys}") > 9
    db.query("CREATE VIRTUAL TABLE wide USING tessera(kind=dense, y INT64 DIMENSION(0, 1099999, 100000), x INT64 DIMENSION(0, 0, 1), v INT32)")
    db.query("INSERT INTO wide VALUES (5, 0, 3), (1000000, 0, 7), (1000001, 0, 8)")
    rows_of(db, "SELECT y, max(s) AS most FROM (SELECT y, x, v, sum(v) OVER (PARTITION BY y ORDER BY x) AS s FROM wide) GROUP BY y HAVING max(s) > 0")
    same(sorted(db.query("SELECT * FROM q")), [(5, 3), (1000000, 7), (1000001, 8)])


def test_rows_are_counted_before_the_outer_where():
    """A comparison with a datetime around a subquery leaves out results, not rows that a window has counted; inside the subquery it leaves out rows, and is refused."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE e USING tessera(kind=dense, t INT16 DIMENSION(0, 9, 4), y INT16 DIMENSION(0, 3, 4), n INT32, d DATE)")
    db.query("WITH RECURSIVE i(a) AS (SELECT 0 UNION ALL SELECT a + 1 FROM i WHERE a < 39) INSERT INTO e SELECT a / 4, a % 4, a * 7 % 10, date('2020-01-01', (a / 4 * 40) || ' days') FROM i")
    words = "(SELECT t, y, d, lag(n) OVER (PARTITION BY y ORDER BY t) AS w, sum(n) OVER (PARTITION BY y ORDER BY t ROWS 2 PRECEDING) AS s FROM e{})"
    for where, rows in (("d > '2020-05-01'", 24), ("d BETWEEN '2020-05-01' AND '2020-09-01' AND t > 2", 12), ("d IN ('2020-04-30', '2020-07-19') AND y = 2", 2), ("d <> '2020-04-30'", 36)):
        same(compare(db, f"SELECT t, y, w, s FROM {words.format('')} WHERE {where}"), rows, where)
    same(compare(db, f"SELECT y, max(w) AS most FROM {words.format('')} WHERE d > '2020-05-01' GROUP BY y"), 4)
    rows_of(db, f"SELECT y, w FROM {words.format(' WHERE d > 20')}")
    check_contains(db.error("SELECT * FROM q").text, "rows that WHERE has left")


def test_what_is_refused_runs_by_rows():
    """A query refuses with a reason; tessera_sql gives SQLite's rows."""
    db = Database()
    make(db, 1)
    by = "PARTITION BY y, x ORDER BY t"
    for words, message in ((f"SELECT sum(v) OVER (PARTITION BY y ORDER BY t) FROM g", "PARTITION BY all other dimensions: 'x' is missing"),
                           (f"SELECT sum(v) OVER ({by} GROUPS 2 PRECEDING) FROM g", "GROUPS"), (f"SELECT sum(v) OVER ({by} ROWS 2 PRECEDING EXCLUDE TIES) FROM g", "EXCLUDE"),
                           (f"SELECT sum(v) OVER ({by} ROWS 2 PRECEDING) FROM g WHERE v > 0", "write RANGE, which counts coordinates"), (f"SELECT lag(v) OVER ({by}) FROM g WHERE n > t", "write RANGE, which counts coordinates"),
                           ("SELECT sum(v) OVER (PARTITION BY y, x ORDER BY t % 5) FROM g", "rises or falls with the dimension"), ("SELECT sum(v) OVER (PARTITION BY y, x ORDER BY v) FROM g", "ORDER BY of a window is one dimension"),
                           (f"SELECT lag(v, n) OVER ({by}) FROM g", "the offset is not a constant"), (f"SELECT sum(max(v)) OVER (ORDER BY y) FROM g GROUP BY y", "windows beside GROUP BY"),
                           ("SELECT DISTINCT sum(v) OVER (PARTITION BY y) FROM g", "windows beside GROUP BY"), ("SELECT first_value(v) OVER () FROM g WHERE t = 3", "in no order"), (f"SELECT sum(name) OVER ({by}) FROM g", "expected numbers, not texts"),
                           ("SELECT sum(r) OVER (PARTITION BY y, x ORDER BY t) FROM (SELECT t, y, x, sum(v) OVER (PARTITION BY y, x ORDER BY t) AS r FROM g)", "windows at two levels"), ("SELECT row_number() OVER (PARTITION BY day ORDER BY x) FROM s", "a sparse array"),
                           (f"SELECT sum(v) OVER (w ROWS 2 PRECEDING) FROM g WINDOW w AS ({by})", "a window that builds on another")):
        try:
            rows_of(db, words)
            db.query("SELECT * FROM q")
        except Error as error:
            check_contains(str(error), message)
        else:
            raise AssertionError(f"{words} was not refused")
        same(sorted(map(repr, db.query(db.value("SELECT tessera_sql(?)", (words,))))), sorted(map(repr, db.query(words))), words)
    for words, message in ((f"SELECT sum(v) OVER ({by} ROWS -1 PRECEDING) FROM g", "frame starting offset must be a non-negative integer"), ("SELECT sum(v) OVER nosuch FROM g", "no such window: nosuch"),
                           (f"SELECT t FROM g WHERE sum(v) OVER ({by}) > 2", "misuse of window function"), (f"SELECT count(DISTINCT v) OVER ({by}) FROM g", "DISTINCT is not supported for window functions"),
                           (f"SELECT nth_value(v, 0) OVER ({by}) FROM g", "second argument to nth_value must be a positive integer")):
        try:
            rows_of(db, words)
            db.query("SELECT * FROM q")
        except Error as error:
            check_contains(str(error), message)
        else:
            raise AssertionError(f"{words} was not refused")


def test_axes_may_end_at_the_last_integer():
    db = Database()
    db.query("CREATE VIRTUAL TABLE e USING tessera(kind=sparse, d INT64 DIMENSION(0, 9223372036854775807), v INT32)")
    db.query("INSERT INTO e VALUES (9223372036854775800, 1), (9223372036854775803, 5), (9223372036854775807, 2)")
    rows_of(db, "SELECT d, sum(v) OVER (ORDER BY d RANGE 4 PRECEDING) AS s FROM e")
    same(db.query("SELECT s FROM q ORDER BY d"), [(1,), (6,), (7,)])


def test_frames_fit_into_memory_or_say_so():
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(kind=dense, t INT32 DIMENSION(0, 199999, 10000), v FLOAT64)")
    db.query("INSERT INTO r SELECT value, value % 7 FROM (WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM c WHERE value < 199999) SELECT value FROM c)")
    rows_of(db, "SELECT max(s), count(*) FROM (SELECT sum(v) OVER (ORDER BY t ROWS 100 PRECEDING) AS s FROM r)", "memory_mb=8, ")
    same(db.query("SELECT * FROM q"), [(309, 200000)])
    rows_of(db, "SELECT max(s), count(*) FROM (SELECT sum(v) OVER (ORDER BY t ROWS UNBOUNDED PRECEDING) AS s FROM r)", "memory_mb=1, ")
    try:
        db.query("SELECT * FROM q")
    except Error as error:
        check_contains(str(error), "the frames of the windows do not fit into memory_mb (1)")
    else:
        raise AssertionError("200,000 cells fitted into a MiB")


# ---- Neighbourhoods: joins of an array with itself by offsets ----

def make_neighbours(db, seed):
    """Makes arrays with unwritten cells, nulls, tiles that do not divide them and overlapping fragments; and kernels."""
    chance = random.Random(seed)
    db.query("CREATE VIRTUAL TABLE p USING tessera(kind=dense, y INT16 DIMENSION(0, 30, 5), x INT16 DIMENSION(-6, 17, 7), v FLOAT64, f FLOAT32, n INT64)")
    db.query("CREATE VIRTUAL TABLE c USING tessera(kind=dense, t INT32 DIMENSION(-9, 20, 3), y INT32 DIMENSION(0, 9, 4), x INT32 DIMENSION(0, 9, 5), v FLOAT64, n INT64)")
    db.query("CREATE VIRTUAL TABLE e USING tessera(y INT32 DIMENSION(-99, 99, 10), x INT32 DIMENSION(0, 99, 10), v FLOAT64, n INT64, capacity=9)")
    value = lambda: "NULL" if chance.random() < .15 else chance.randint(-64, 64) / 4
    for y in list(range(2, 13)) + [15, 16, 4, 5]:
        db.query("INSERT OR REPLACE INTO p VALUES " + ", ".join(f"({y}, {x}, {value()}, {chance.randint(-64, 64) / 4}, {'NULL' if chance.random() < .1 else chance.randint(-9, 9)})" for x in range(-5, 11) if chance.random() < .8))
    for t in (-3, -2, 0, 1, 2):
        db.query("INSERT OR REPLACE INTO c VALUES " + ", ".join(f"({t}, {y}, {x}, {value()}, {chance.randint(-9, 9)})" for y in range(2, 7) for x in range(1, 8) if chance.random() < .9))
    db.query("INSERT OR REPLACE INTO e VALUES " + ", ".join(f"({chance.randint(-12, 9)}, {chance.randint(40, 60)}, {value()}, {chance.randint(-9, 9)})" for _ in range(200)))
    db.query("CREATE TABLE k(dy, dx, dt, w REAL, i INTEGER, part)")
    rows = [(chance.randint(-2, 2), chance.randint(-3, 3), chance.randint(-1, 1), chance.choice((None, .25, -1, 2, 0)), chance.choice((None, 1, -2, 3)), chance.randint(0, 2)) for _ in range(9)]
    for row in rows + [(1, -1, 0, .5, 2, 1), (1, -1, 0, .25, 3, 0), (None, 0, 0, 1, 1, 1), (0.0, 2.0, 0, 1, 1, 1), (900, 0, 0, 1, 1, 1)]:
        db.query("INSERT INTO k VALUES (?, ?, ?, ?, ?, ?)", row)
    db.query("CREATE VIEW wide AS SELECT dy * 2 AS dy, dx, dt, w, i, part FROM k WHERE part < 2")
    db.query("CREATE VIRTUAL TABLE held USING tessera(dy INT32 DIMENSION(-9, 999), dx INT32 DIMENSION(-9, 9), dt INT32, w FLOAT64, i INT64, part INT32, duplicates=yes)")
    db.query("INSERT INTO held SELECT * FROM k WHERE dy IS NOT NULL")


OF = {"p": ("y", "x"), "c": ("t", "y", "x"), "e": ("y", "x")}


def offsets(chance, dimension, kernel):
    """Returns terms of ON that say where neighbours are along a dimension."""
    low, high = sorted((chance.randint(-3, 3), chance.randint(-3, 3)))
    plus = lambda side, n: chance.choice((f"{side}.{dimension}" if n == 0 else f"{side}.{dimension} + {n}" if n > 0 else f"{side}.{dimension} - {-n}", f"{side}.{dimension} + ({n})" if n < 0 else f"{n} + {side}.{dimension}"))
    if kernel and (dimension == "x" or chance.random() < .7):
        return chance.choice((f"b.{dimension} = a.{dimension} + k.d{dimension}", f"a.{dimension} - d{dimension} = b.{dimension}", f"a.{dimension} = b.{dimension} + k.d{dimension}", f"k.d{dimension} + a.{dimension} = b.{dimension}"))
    if chance.random() < .2:
        return chance.choice((f"b.{dimension} = {plus('a', low)}", f"{plus('b', high)} = a.{dimension}"))
    return chance.choice((f"b.{dimension} BETWEEN {plus('a', low)} AND {plus('a', high)}", f"b.{dimension} >= {plus('a', low)} AND b.{dimension} < {plus('a', high + 1)}",
                          f"{plus('a', low - 1)} < b.{dimension} AND {plus('a', high)} >= b.{dimension}", f"a.{dimension} BETWEEN {plus('b', low)} AND {plus('b', high)}"))


def neighbourhood(chance):
    """Returns a text with a neighbourhood, and the array."""
    array = chance.choice("pppce")
    dimensions = OF[array]
    kernel = chance.choice((None, None, "k", "k", "wide", "held"))
    on = [offsets(chance, d, kernel) for d in dimensions]
    where = []
    filters = ["b.v > 1", "b.n % 2 = 0", "b.v IS NOT NULL"] + ["k.part > 0", "dx <> 0"] * bool(kernel)
    arguments = ["b.v", "b.n", "b.v * b.n", "b.x"] + ["b.v * k.w", "k.w * b.v", "b.n * k.i", "(b.v + b.n) * k.i", "b.n * k.w", "k.w", "i"] * bool(kernel)
    def aggregate():
        name = chance.choice(("sum", "sum", "avg", "min", "max", "count", "total"))
        argument = chance.choice(arguments) if name != "count" or chance.random() < .6 else "*"
        return f"{name}({argument})" + (f" FILTER (WHERE {chance.choice(filters)})" if chance.random() < .3 else "")
    items = [f"a.{d}" for d in dimensions] + [f"{aggregate()} AS r{i}" for i in range(chance.randint(1, 3))]
    items += chance.sample(["a.v - avg(b.v) AS off", "coalesce(a.v, avg(b.v)) AS filled", "CASE WHEN count(b.v) > 3 THEN max(b.v) END AS most", "a.n"], chance.choice((0, 0, 1, 2)))
    for terms in (["b.v > -8", "b.n <> 3", "b.x > 2", "b.y % 2 = 0"], ["(a.v IS NULL OR a.v < 9)", f"a.{dimensions[0]} > 0", "a.x BETWEEN 0 AND 7", "a.y IN (3, 4, 6)"], ["k.part < 2", "dy * dx <= 2"] if kernel else []):
        if terms and chance.random() < .35:
            where.append(chance.choice(terms))
    joins = [f"JOIN {array} b ON " + " AND ".join(on)]
    if kernel:
        joins.insert(0, f"JOIN {kernel} k")
    if not kernel and chance.random() < .2:
        joins, where = [f", {array} b"], on + where
    group = ", ".join(f"a.{d}" for d in chance.sample(dimensions, len(dimensions))) if chance.random() < .7 else ", ".join(map(str, range(1, len(dimensions) + 1)))
    names = ("a", "b")
    having = chance.choice(("", "", "", " HAVING count(b.v) > 2", " HAVING r0 > 0"))
    words = f"SELECT {', '.join(items)} FROM {array} {names[0]} {' '.join(joins)}" + (" WHERE " + " AND ".join(where) if where else "") + f" GROUP BY {group}{having}"
    return words.replace(f"FROM {array} a", f"FROM {array} b").replace(f"{array} b ON", f"{array} a ON") if chance.random() < .2 and ", " + array not in words else words, array


NEAR = {"p": ("WHERE y = 5", "WHERE y BETWEEN 3 AND 6 AND x = 2", "WHERE x > 4"), "c": ("WHERE t = 0", "WHERE x < 4 AND y = 3"), "e": ("WHERE x BETWEEN 44 AND 50", "WHERE y = 0")}


def test_neighbourhoods_give_the_rows_of_the_view():
    """Generated texts, with terms of the statement around; the query must not fall back to rows."""
    db = Database()
    make_neighbours(db, SEED)
    chance, rows, by_columns = random.Random(SEED + 2), 0, 0
    for _ in range(TEXTS):
        words, array = neighbourhood(chance)
        db.query("SELECT tessera_reset_stats()")
        rows += compare(db, words)
        by_columns += dict(db.query("SELECT name, value FROM tessera_stats"))["cells_around"] > 0
        compare(db, words, chance.choice(NEAR[array]))
    assert rows > 30 * TEXTS and by_columns > .9 * TEXTS, (rows, by_columns)


def percentile(values, percent):
    """By the definition of SQLite's; None among the values is NULL."""
    values = sorted(value for value in values if value is not None)
    if not values:
        return None
    place = percent * (len(values) - 1) / 100
    low, high = values[int(place)], values[min(int(place) + 1, len(values) - 1)]
    return low + (high - low) * (place - int(place))


def test_medians_of_neighbours():
    """Over small boxes and large ones, and over kernels, against Python's: SQLite before 3.51 has none."""
    db = Database()
    make_neighbours(db, 6)
    cells = {(y, x): (v, n) for y, x, v, n in db.query("SELECT y, x, v, n FROM p")}
    def times(a, b):
        return None if a is None or b is None else a * b
    kernel = db.query("SELECT dy, dx, w, i FROM k WHERE dy IS NOT NULL")
    cases = [(f"p b ON b.y BETWEEN a.y - {down} AND a.y + 1 AND b.x BETWEEN a.x - 3 AND a.x + 3", "median(b.v), percentile(b.n, 30), median(b.n) FILTER (WHERE b.v > 0)",
              [(dy, dx, None, None) for dy in range(-down, 2) for dx in range(-3, 4)]) for down in (1, 7)]
    cases.append(("p b ON b.y BETWEEN a.y - 70000 AND a.y AND b.x = a.x", "median(b.v), percentile(b.n, 30), median(b.n) FILTER (WHERE b.v > 0)", [(dy, 0, None, None) for dy in range(-40, 1)]))   # the box has 31 rows
    cases.append(("k JOIN p b ON b.y = a.y + k.dy AND b.x = a.x + k.dx", "median(b.v * k.w), percentile(b.n * k.i, 30), median(b.v)", kernel))
    for on, items, offsets in cases:
        rows_of(db, f"SELECT a.y, a.x, {items} FROM p a JOIN {on} GROUP BY a.y, a.x")
        rows = {(y, x): found for y, x, *found in db.query("SELECT * FROM q")}
        near = {}
        for y, x in cells:
            there = [(*cells[y + dy, x + dx], w, i) for dy, dx, w, i in offsets if (y + dy, x + dx) in cells]
            if there:
                near[y, x] = there
        assert rows.keys() == near.keys() and len(rows) > 100, (on, len(rows), len(near))
        for place, there in near.items():
            if offsets is kernel:
                expected = percentile([times(v, w) for v, _, w, _ in there], 50), percentile([times(n, i) for _, n, _, i in there], 30), percentile([v for v, *_ in there], 50)
            else:
                expected = percentile([v for v, *_ in there], 50), percentile([n for _, n, *_ in there], 30), percentile([n for v, n, *_ in there if v is not None and v > 0], 50)
            for found, wanted in zip(rows[place], expected):
                assert found == wanted or (found is not None and wanted is not None and abs(found - wanted) <= 1e-12 * max(1, abs(wanted))), (on, place, rows[place], expected)


def test_medians_of_boxes_that_the_array_cuts_everywhere():
    """Boxes wider than a small array, beside it, and empty ones."""
    db, chance = Database(), random.Random(21)
    for rows, columns in (2, 3), (1, 9), (5, 4):
        values = [[chance.randrange(9) for _ in range(columns)] for _ in range(rows)]
        db.query(f"CREATE VIRTUAL TABLE s USING tessera(kind=dense, y INT32 DIMENSION(0, {rows - 1}, 1), x INT32 DIMENSION(0, {columns - 1}, 3), v INTEGER)")
        db.query("INSERT INTO s VALUES " + ", ".join(f"({y}, {x}, {v})" for y, line in enumerate(values) for x, v in enumerate(line)))
        for down, up, left, right in ((-1, 1, -1, 1), (-9, 9, -9, 9), (-1, 0, 0, 4), (0, 4, -4, -1), (2, 3, -1, 1), (-50, -40, 0, 1), (1, 0, -1, 1), (-1, 1, 5000, 5001)):
            rows_of(db, f"SELECT a.y, a.x, median(b.v), count(b.v) FROM s a JOIN s b ON b.y BETWEEN a.y + {down} AND a.y + {up} AND b.x BETWEEN a.x + {left} AND a.x + {right} GROUP BY a.y, a.x")
            near = {(y, x): [values[q][p] for q in range(max(y + down, 0), min(y + up, rows - 1) + 1) for p in range(max(x + left, 0), min(x + right, columns - 1) + 1)] for y in range(rows) for x in range(columns)}
            same(sorted(db.query("SELECT * FROM q")), [(*place, percentile(there, 50), len(there)) for place, there in sorted(near.items()) if there], (rows, columns, down, up, left, right))
        db.query("DROP TABLE s")


def test_neighbourhoods_do_not_depend_on_threads_memory_or_slices():
    """Bits, of values that round."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(kind=dense, y INT32 DIMENSION(0, 99, 32), x INT32 DIMENSION(0, 199, 50), v FLOAT64)")
    chance = random.Random(7)
    for y in range(100):
        db.query("INSERT INTO r VALUES " + ", ".join(f"({y}, {x}, {chance.uniform(-1, 1) * 10 ** chance.randint(-9, 9)})" for x in range(200)))
    db.query("CREATE TABLE k(dy, dx, w)")
    db.query("INSERT INTO k SELECT a.value, b.value, 1.0 / (1 + abs(a.value * 3 + b.value)) FROM json_each('[-2,-1,0,1,2]') a, json_each('[-3,-1,0,2]') b")
    box = "SELECT a.y, a.x, sum(b.v), avg(b.v), stddev(b.v), max(b.v), median(b.v) FROM r a JOIN r b ON b.y BETWEEN a.y - 3 AND a.y + 2 AND b.x BETWEEN a.x - 4 AND a.x + 1 GROUP BY a.y, a.x"
    kernel = "SELECT a.y, a.x, sum(b.v * k.w), avg(k.w * b.v), stddev(b.v * k.w), min(b.v), percentile(b.v * k.w, 75) FROM r a JOIN k JOIN r b ON b.y = a.y + k.dy AND b.x = a.x + k.dx GROUP BY a.y, a.x"
    for words in (box, kernel):
        rows_of(db, words, "threads=1, ")
        expected = sorted(db.query("SELECT * FROM q"))
        assert len(expected) == 20000
        for options in ("threads=2, ", "threads=7, memory_mb=4, "):
            rows_of(db, words, options)
            assert sorted(db.query("SELECT * FROM q")) == expected, options
            same(sorted(db.query("SELECT * FROM q WHERE y BETWEEN 20 AND 21 AND x > 190")), [row for row in expected if row[0] in (20, 21) and row[1] > 190], options)


def test_units_know_nothing_of_each_other():
    """Sums of the first units are exact, those of later ones are rounded."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, y INT16 DIMENSION(0, 159, 20), x INT16 DIMENSION(0, 59, 20), v FLOAT64)")
    chance = random.Random(1)
    db.query("CREATE TABLE rows(y, x, v)")
    db.raw.cursor().executemany("INSERT INTO rows VALUES(?, ?, ?)", ((y, x, chance.randint(-9, 9) / 4 if y < 80 else chance.uniform(-1, 1) * 10 ** chance.randint(0, 9)) for y in range(160) for x in range(60)))
    db.query("INSERT INTO g SELECT * FROM rows")
    db.query("CREATE TABLE k(dy, dx, w)")
    db.query("INSERT INTO k VALUES(-1, 0, 2), (0, 0, -4), (1, 1, 2), (0, 1, 1)")
    for name, text in (("box", "avg(b.v) AS r FROM g a JOIN g b ON b.y BETWEEN a.y - 1 AND a.y + 1 AND b.x BETWEEN a.x - 1 AND a.x + 1"),
                       ("kernel", "sum(b.v * k.w) AS r FROM g a JOIN k JOIN g b ON b.y = a.y + k.dy AND b.x = a.x + k.dx")):
        for memory in (1, 1024):
            db.query(f"CREATE VIRTUAL TABLE {name}{memory} USING tessera_query(memory_mb={memory}, SELECT a.y, a.x, {text} GROUP BY a.y, a.x)")
        few, many = (db.query(f"SELECT * FROM {name}{memory} ORDER BY y, x") for memory in (1, 1024))
        assert len(few) == 9600 and few == many
    db.close()


def test_tessera_sql_evaluates_neighbourhoods_over_columns():
    db = Database()
    make_neighbours(db, 3)
    for words, columns in (("SELECT a.y, a.x, avg(b.v) AS m FROM p a JOIN p b ON b.y BETWEEN a.y - 1 AND a.y + 1 AND b.x BETWEEN a.x - 1 AND a.x + 1 GROUP BY a.y, a.x ORDER BY 1, 2", True),
                           ("SELECT a.y, a.x, sqrt(pow(sum(b.v * k.w), 2)) AS m FROM p a JOIN k JOIN p b ON b.y = a.y + k.dy AND b.x = a.x + k.dx GROUP BY a.y, a.x ORDER BY 1, 2", True),
                           ("SELECT a.y, a.x, avg(abs(b.v - a.v)) FROM p a JOIN p b ON b.y BETWEEN a.y - 1 AND a.y + 1 AND b.x BETWEEN a.x - 1 AND a.x + 1 GROUP BY a.y, a.x ORDER BY 1, 2", False)):
        db.query("SELECT tessera_reset_stats()")
        rows = db.query(db.value("SELECT tessera_sql(?)", (words,)))
        assert (dict(db.query("SELECT name, value FROM tessera_stats"))["cells_around"] > 0) == columns, words
        same(rows, db.query(words))


def test_neighbourhoods_that_are_refused():
    db = Database()
    make_neighbours(db, 1)
    box = "FROM p a JOIN p b ON b.y BETWEEN a.y - 1 AND a.y + 1 AND b.x BETWEEN a.x - 1 AND a.x + 1"
    kernel = "FROM p a JOIN {} k JOIN p b ON b.y = a.y + k.dy AND b.x = a.x + k.dx"
    by = " GROUP BY a.y, a.x"
    db.query("CREATE TABLE many AS SELECT value % 300 AS dy, value / 300 AS dx, 1 AS w FROM (WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM c WHERE value < 65536) SELECT value FROM c)")
    db.query("CREATE TABLE halves AS SELECT 0.5 AS dy, 0 AS dx, 'x' AS w")
    db.query("CREATE TABLE texts AS SELECT 0 AS dy, 0 AS dx, 'x' AS w")
    db.query("CREATE TABLE mixed AS SELECT 0 AS dy, 0 AS dx, 1 AS w UNION ALL SELECT 1, 0, 1.5")
    for words, message in ((f"SELECT a.y, a.x, count(DISTINCT b.n) {box}{by}", "DISTINCT in a neighbourhood"), ("SELECT a.y, a.x, median(b.v) FROM p a JOIN p b ON b.y BETWEEN a.y - 300 AND a.y + 300 AND b.x BETWEEN a.x - 300 AND a.x + 300 GROUP BY 1, 2", "more than 65536 neighbours"),
                           ("SELECT a.y, a.x, median(b.v) FROM p a JOIN p b ON b.y BETWEEN a.y AND a.y + 300 AND b.x BETWEEN a.x AND a.x + 300 GROUP BY 1, 2", "more than 65536 neighbours"),
                           (f"SELECT a.y, a.x, max(b.v - a.v) {box}{by}", "an aggregate is of the neighbours, of the kernel, or of their product"),
                           (f"SELECT a.y, a.x, count(*) FILTER (WHERE b.v > a.v) {box}{by}", "FILTER tests the neighbours"),
                           (f"SELECT a.y, a.x, b.v {box}{by}", "'b.v' is neither a key of GROUP BY nor in an aggregate"), (f"SELECT a.y, count(*) {box} GROUP BY a.y", "a join"),
                           (f"SELECT a.y, a.x, count(*) {kernel.format('many')}{by}", "more than 65536 cells by many"), (f"SELECT a.y, a.x, count(*) {kernel.format('halves')}{by}", "halves.dy: '0.5' is no whole number"),
                           (f"SELECT a.y, a.x, sum(b.v * k.w) {kernel.format('texts')}{by}", "a weight that is no number"), (f"SELECT a.y, a.x, sum(k.w) {kernel.format('mixed')}{by}", "an INTEGER in some rows and a REAL in others"),
                           ("SELECT a.y, a.x, count(*) FROM p a JOIN k GROUP BY a.y, a.x", "a join without ON")):
        try:
            rows_of(db, words)
            db.query("SELECT * FROM q")
        except Error as error:
            check_contains(str(error), message)
        else:
            raise AssertionError(f"{words} was not refused")
    compare(db, f"SELECT a.y, a.x, sum(b.v * k.w) {kernel.format('mixed')}{by}")
    db.query("CREATE TABLE far AS SELECT 8 AS dy, 0 AS dx UNION ALL SELECT -8, 0")   # of 15 rows, the one in the middle has no neighbour
    compare(db, f"SELECT a.y, a.x, sum(b.v), count(*) {kernel.format('far')}{by}")
    db.query("DELETE FROM many")
    same(compare(db, f"SELECT a.y, a.x, sum(b.v * k.w), count(*) {kernel.format('many')}{by}"), 0)
    db.query("INSERT INTO many VALUES (0, 0, 9223372036854775807)")
    rows_of(db, f"SELECT a.y, a.x, sum(b.n * k.w) {kernel.format('many')}{by}")
    try:
        db.query("SELECT * FROM q")
    except Error as error:
        check_contains(str(error), "integer overflow")
    else:
        raise AssertionError("a product overflowed")


def test_a_kernel_may_be_a_cte_or_end_in_rows():
    """A CTE goes before a table of its name. What columns cannot do runs by rows, if FROM has a path, too."""
    db = Database()
    path = os.path.join(host.FOLDER, "c")
    db.query(f"CREATE VIRTUAL TABLE c USING tessera({host.literal(path)}, kind=dense, y INT32 DIMENSION(0, 2, 3), x INT32 DIMENSION(0, 2, 3), v FLOAT64)")
    db.query("INSERT INTO c SELECT value/3, value%3, value FROM json_each('[0,1,2,3,4,5,6,7,8]')")
    db.query("CREATE TABLE k(dy, dx, w)")
    db.query("INSERT INTO k VALUES(0, 0, 100)")
    words = "SELECT a.y, a.x, sum(b.v * {1}.w) AS s FROM {0} a JOIN {1} JOIN {0} b ON b.y = a.y + {1}.dy AND b.x = a.x + {1}.dx WHERE a.y = 1 GROUP BY a.y, a.x"
    def through_columns(text):
        return sorted(db.query(db.value("SELECT tessera_sql(?)", (text,))))
    for name in ("k", "K"):
        text = f"WITH {name}(dy, dx, w) AS (VALUES(0, 0, 2)) " + words.format("c", "k")
        same(through_columns(text), [(1, 0, 6), (1, 1, 8), (1, 2, 10)], text)
    db.query("INSERT INTO k VALUES(0.5, 0, 1)")   # no offset of cells, but no error of a join
    for table in ("c", host.literal(path).replace("'", '"')):
        same(through_columns(words.format(table, "k")), [(1, 0, 300), (1, 1, 400), (1, 2, 500)], table)
    words = words.replace("SELECT a.y, ", "SELECT a.y AS dy, ").replace("GROUP BY a.y", "GROUP BY dy")   # a column of the kernel goes before an alias
    db.query("INSERT INTO k VALUES(1, 0, 7)")
    same(through_columns(words.format("c", "k")), sorted(db.query(words.format("c", "k"))), words)
    try:
        rows_of(db, "SELECT a.y, a.x, count(DISTINCT b.v) FROM c a JOIN c b ON b.y BETWEEN a.y - 1 AND a.y + 1 AND b.x BETWEEN a.x - 1 AND a.x + 1 GROUP BY a.y, a.x")
    except Error as error:
        check_contains(str(error), "DISTINCT in a neighbourhood")
    else:
        raise AssertionError("CREATE takes what its rows would refuse")


def test_a_kernel_may_be_an_array_at_an_earlier_time():
    db = Database()
    db.query("CREATE VIRTUAL TABLE c USING tessera(kind=dense, y INT32 DIMENSION(0, 2, 3), x INT32 DIMENSION(0, 2, 3), v FLOAT64)")
    db.query("INSERT INTO c SELECT value/3, value%3, value FROM json_each('[0,1,2,3,4,5,6,7,8]')")
    db.query("CREATE VIRTUAL TABLE k USING tessera(dy INT32 DIMENSION(-2, 2), dx INT32 DIMENSION(-2, 2), w INT32)")
    db.query("INSERT INTO k VALUES(0, 1, 1), (1, 0, 10)")
    then = db.value("SELECT max(end_time) FROM tessera_fragments('db:k')")
    db.query("INSERT INTO k VALUES(0, 1, 100)")
    text = "SELECT a.y, a.x, sum(b.v * q.w) AS s FROM c a JOIN {} q JOIN c b ON b.y = a.y + q.dy AND b.x = a.x + q.dx GROUP BY a.y, a.x"
    for kernel, corner in (("k", 130.0), (f"k({then})", 31.0)):
        compare(db, text.format(kernel))
        same(db.value("SELECT s FROM temp.q WHERE y = 0 AND x = 0"), corner, kernel)
    own = "SELECT a.y, a.x, sum(b.v) AS s FROM c a JOIN c q JOIN c b ON b.y = a.y + q.y AND b.x = a.x + q.x GROUP BY a.y, a.x"
    check_contains(db.error(f"CREATE VIRTUAL TABLE temp.r USING tessera_query({own})").text, "a join")   # the array is not its own kernel


def test_interrupts_stop_neighbourhoods():
    """The host is asked at least once for 65,536 neighbours that are added."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(kind=dense, y INT32 DIMENSION(0, 99, 100), x INT32 DIMENSION(0, 99, 100), v INT32)")
    db.query("INSERT INTO r VALUES (0, 0, 1), (99, 99, 1)")
    db.query("CREATE TABLE k AS SELECT a.value AS dy, b.value AS dx FROM json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]') a, json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]') b")
    polls = []
    set_handler = getattr(db.raw, "set_progress_handler", None) or db.raw.setprogresshandler
    words = "SELECT a.y, a.x, sum(b.v) AS s FROM r a JOIN k JOIN r b ON b.y = a.y - k.dy AND b.x = a.x - k.dx GROUP BY a.y, a.x"
    def count(kernel):
        db.query(f"DELETE FROM k WHERE dy + dx > {kernel}")
        rows_of(db, words, "threads=1, ")
        polls.clear()
        set_handler(lambda: polls.append(1) and False, 1)
        rows = db.query("SELECT count(*), sum(s) FROM q")
        set_handler(None, 0)
        return rows, len(polls)
    rows, many = count(99)
    same(rows, [(10000, 401)])
    set_handler(lambda: polls.append(1) or len(polls) > many + many // 2, 1)
    try:
        db.query("SELECT count(*) FROM q")
    except Error as error:
        check_contains(str(error).lower(), "interrupt")
    else:
        raise AssertionError("the query was not interrupted")
    finally:
        set_handler(None, 0)
    few = count(0)[1]
    assert many - few > 10000 * 399 // 65536 // 2, (many, few)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
