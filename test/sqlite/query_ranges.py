"""Joins by ranges in columnar queries: each text runs as a view and as a tessera_query, which must give the same rows. The rows
of the joined table are boxes that overlap, with open, empty and null ends.

usage: query_ranges.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import math
import random
import sys

import host
from host import Database, Error, check_contains, same

TEXTS = host.rounds(120)


def make(db, seed):
    """Makes dense and sparse arrays, with labels that fall or repeat, and the joined table b."""
    chance = random.Random(seed)
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, t INT16 DIMENSION(-2, 9, 5), y INT16 DIMENSION(0, 12, 4), x INT16 DIMENSION(3, 20, 7), v FLOAT64, n INT64, name TEXT)")
    for t in range(-2, 9):
        if t == 4:
            continue  # unwritten cells
        for y in range(1, 13):
            db.query("INSERT INTO g VALUES " + ", ".join(f"({t}, {y}, {x}, {'NULL' if chance.random() < .1 else chance.randint(-64, 64) / 4}, {chance.randint(-9, 9)}, 'w{chance.randint(0, 3)}')" for x in range(3, 21)))
    db.query("CREATE VIRTUAL TABLE s USING tessera(day DATE DIMENSION('2020-01-01', '2021-12-31', 30), x INT64 DIMENSION(-50, 99, 10), v FLOAT64, n INT64, capacity=20)")
    for i in range(150):
        db.query("INSERT OR REPLACE INTO s VALUES(date('2020-01-01', ?), ?, ?, ?)", (f"{chance.randint(0, 700)} days", chance.randint(-50, 99), chance.randint(-64, 64) / 4, i))
    db.query("CREATE VIRTUAL TABLE r USING tessera(chrom TEXT DIMENSION, x INT64 DIMENSION(-50, 99, 10), v FLOAT64, n INT64, capacity=20)")
    for i in range(150):
        db.query("INSERT OR REPLACE INTO r VALUES(?, ?, ?, ?)", (chance.choice(("z0", "z1", "z1x", "z2", "z4", "z5", "z66", "", "Z3", "2020-3", "zürich")), chance.randint(-10, 40), chance.randint(-64, 64) / 4, i))
    db.query("CREATE TABLE b(id INTEGER, zone TEXT, w REAL, tl, th, yl REAL, yh REAL, xl, xh, dl TEXT, dh TEXT, other TEXT COLLATE NOCASE)")
    for i in range(24):
        def pair(low, high, some=.1, whole=False):
            a, c = sorted((chance.uniform(low, high), chance.uniform(low, high)))
            if chance.random() < .5 or whole:
                a, c = round(a), round(c)
            if chance.random() < .1:
                a, c = c, a
            return [None if chance.random() < some else end for end in (a, c)]
        days = [None if d is None else f"{2020 + int(d) // 365}-{1 + int(d) % 365 // 31:02}-{1 + int(d) % 28:02}" for d in pair(0, 700)]
        db.query("INSERT INTO b VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'x')", (i, f"z{i % 7}", i / 8, *pair(-4, 11), *pair(-1, 14), *pair(0, 23), *days))
    db.query("CREATE VIEW bv AS SELECT id, zone, w, tl, th, yl, yh, xl, xh, dl, dh FROM b WHERE id % 5 < 4")


CONDITIONS = {
    "g": [("t BETWEEN b.tl AND b.th", "b.tl <= t AND t < b.th", "t > b.tl", "t = b.id - 3", "t / 2 BETWEEN b.tl AND b.th", "-t BETWEEN b.tl AND b.th", "-(t / 2) BETWEEN b.tl AND b.th", "abs(t) <= b.th", "t * t BETWEEN b.tl AND b.th"),
          ("y BETWEEN b.yl AND b.yh", "b.yl < y AND y <= b.yh", "y < b.yh - 1", "y = b.id", "y % 5 BETWEEN b.yl AND b.yh"),
          ("x BETWEEN b.xl AND b.xh", "x BETWEEN b.xl AND b.xl + 4", "x >= b.xh", "x = b.id", "x BETWEEN 5 AND b.xh")],
    "s": [("day BETWEEN b.dl AND b.dh", "day > b.dl", "strftime('%m', day) BETWEEN substr(b.dl, 6, 2) AND substr(b.dh, 6, 2)"),
          ("x BETWEEN b.xl AND b.xh", "x BETWEEN b.tl * 4 AND b.th * 9", "x / 10 BETWEEN b.tl AND b.th", "x = b.id")],
    "r": [("chrom = b.zone", "b.zone = chrom", "chrom = b.zone || 'x'", "chrom BETWEEN b.zone AND 'z5'", "chrom BETWEEN b.dl AND b.zone", "chrom > b.zone", "b.zone >= chrom", "chrom < b.dl", "chrom BETWEEN b.zone AND b.zone || 'x'"),
          ("x BETWEEN b.xl AND b.xh", "x BETWEEN b.tl * 4 AND b.th * 9", "x = b.id")],
}


def text(chance):
    """Returns a text that joins by ranges."""
    array = chance.choice("ggsr")
    terms = [chance.choice(some) for some in CONDITIONS[array] if chance.random() < .75]
    if not any(word in term for term in terms for word in ("BETWEEN", "<", ">")):
        terms.append(CONDITIONS[array][-1][0])
    if chance.random() < .3:
        terms.append(chance.choice(("b.id % 3 > 0", "b.zone <> 'z2'", "b.w IS NOT NULL")))
    chance.shuffle(terms)
    keys = chance.sample(["b.zone", "b.id", "b.w", "b.dl", "b.th", "x", "x / 3", "b.id + x", "n % 3"] + (["t", "y", "name"] if array == "g" else ["chrom"] if array == "r" else ["day", "substr(day, 1, 4)"]), chance.randint(0, 3))
    number = chance.choice(["v", "n", "v * b.w", "b.w", "b.id", "n + b.id", "CASE WHEN v > b.w THEN v END"])
    items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
    items += ["count(*) AS c", f"{chance.choice(('sum', 'avg', 'min', 'max', 'count', 'total'))}({number}) AS a",
              f"sum({number}) FILTER (WHERE {chance.choice(('v > 0', 'b.w < 2', 'n > b.id'))}) AS f", "max(b.zone) AS z", "count(DISTINCT b.id) AS d"]
    where = chance.choice(["", "", " WHERE v > 0", " WHERE x < 14", " WHERE v > b.w", " WHERE b.zone > 'z1' AND n > 0"])
    group = " GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys))) if keys else ""
    joined = chance.choice(("b", "bv AS b"))
    return f"SELECT {', '.join(items)} FROM {array} JOIN {joined} ON {' AND '.join(terms)}{where}{group}"


def near(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    return a == b and type(a) is type(b)


def compare(db, words, around=""):
    db.query("DROP TABLE IF EXISTS temp.q")
    db.query("DROP VIEW IF EXISTS temp.v")
    db.query(f"CREATE TEMP VIEW v AS {words}")
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({words})")
    key = lambda row: [(value is not None, isinstance(value, str), value if value is not None else 0) for value in row]
    expected, rows = (sorted(db.query(f"SELECT * FROM temp.{name} {around}"), key=key) for name in ("v", "q"))
    assert len(rows) == len(expected) and all(near(a, b) for x, y in zip(rows, expected) for a, b in zip(x, y)), \
        f"{words} {around}\nview:  {expected[:6]}\nquery: {rows[:6]}"
    return len(rows)


def test_texts_give_the_rows_of_the_view():
    """Generated texts over a dense and a sparse array, with terms of the statement around."""
    db = Database()
    make(db, 1)
    chance, rows = random.Random(2), 0
    for _ in range(TEXTS):
        words = text(chance)
        rows += compare(db, words)
        if "k0" in words and chance.random() < .5:
            compare(db, words, chance.choice(("WHERE k0 > 2", "WHERE k0 = 5", "WHERE c > 3 AND k0 IS NOT NULL")))
    assert rows > 10 * TEXTS, rows


def test_the_engine_pairs_cells_with_rows():
    """What EXPLAIN QUERY PLAN and the counters say: only tiles that a row meets are read, and each pair is counted."""
    db = Database()
    make(db, 1)
    db.query("CREATE TABLE boxes(name, y1, y2, x1, x2)")
    db.query("INSERT INTO boxes VALUES('a', 1, 2, 3, 5), ('b', 2, 3, 4, 6), ('c', NULL, 3, 4, 6), ('d', 3, 2, 4, 6)")
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT b.name, count(*) AS n FROM g JOIN boxes b ON g.y BETWEEN b.y1 AND b.y2 AND g.x BETWEEN b.x1 AND b.x2 GROUP BY 1)")
    check_contains(str(db.query("EXPLAIN QUERY PLAN SELECT * FROM q")), "ranges JOIN boxes ON g.y BETWEEN b.y1 AND b.y2")
    db.query("SELECT tessera_reset_stats()")
    same(db.query("SELECT * FROM q"), [("a", 66), ("b", 66)])
    stats = dict(db.query("SELECT name, value FROM tessera_stats"))
    same(stats["cells_paired"], 132, "11 steps x 2 rows x 3 columns, twice")
    same(stats["cells_computed"], 11 * 3 * 4, "cells of the box that the rows span")
    check_contains(db.plan("SELECT * FROM q WHERE name = 'a'"), "name=?")
    db.query("SELECT tessera_reset_stats()")
    same(db.query("SELECT * FROM q WHERE name = 'a'"), [("a", 66)])
    stats = dict(db.query("SELECT name, value FROM tessera_stats"))
    same((stats["cells_computed"], stats["cells_paired"]), (66, 66), "the rows are tested before anything is read")


def test_dimensions_of_texts():
    """Genes: chromosomes that no row names are not read, and the pairs are counted."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE calls USING tessera(chrom TEXT DIMENSION, pos INT64 DIMENSION(0, 999, 100), depth INT32, capacity=10)")
    db.query("INSERT INTO calls WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT 'chr' || (i / 100), i, i % 7 FROM n")
    db.query("CREATE TABLE genes(name, chrom TEXT, first INTEGER, last INTEGER, code INTEGER, folded TEXT COLLATE NOCASE)")
    db.query("INSERT INTO genes VALUES('A', 'chr1', 110, 129, 1, 'CHR1'), ('B', 'chr1', 120, 159, 1, 'x'), ('C', 'chr4', 0, 999, 4, 'x'), ('D', 'chr99', 0, 999, 9, 'x'), ('E', NULL, 0, 999, 0, 'x')")
    text = "SELECT g.name, count(*), sum(c.depth) FROM calls c JOIN genes g ON c.chrom = g.chrom AND c.pos BETWEEN g.first AND g.last GROUP BY g.name"
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
    db.query("SELECT tessera_reset_stats()")
    same(db.query("SELECT * FROM q"), db.query(text))
    stats = dict(db.query("SELECT name, value FROM tessera_stats"))
    same(stats["cells_paired"], 20 + 40 + 100)
    assert stats["cells_computed"] <= 200, (stats["cells_computed"], "of 1000 cells, 200 are of chromosomes with genes")
    for on, message in (("c.chrom = g.code", "a comparison of a text with a number: CAST one of them"), ("g.folded = c.chrom", "COLLATE"), ("substr(c.chrom, 4) = g.chrom", "a join binds its table to dimensions")):
        text = f"SELECT count(*) FROM calls c JOIN genes g ON {on} AND c.pos BETWEEN g.first AND g.last"
        try:
            db.query(f"CREATE VIRTUAL TABLE temp.w USING tessera_query({text})")
            db.query("SELECT * FROM w")
        except Error as error:
            check_contains(str(error), message)
        else:
            raise AssertionError(f"{on} was not refused")
        db.query("DROP TABLE IF EXISTS temp.w")


def test_terms_around_on_rows_convert_as_in_a_view():
    """A term on a column of the joined table may compare a text with a number, whichever of them SQLite converts."""
    db = Database()
    make(db, 1)
    db.query("CREATE TABLE c(plain, words TEXT, whole INTEGER, y1, y2)")
    db.query("INSERT INTO c VALUES(5, '5', 5, 1, 3), ('5', '05', 6, 2, 9), (5.0, '5.0', 5, 4, 4), ('x', 'x', 'x', 1, 12), (NULL, NULL, NULL, 1, 12)")
    db.query("CREATE TABLE d(text TEXT, number INTEGER, any)")
    db.query("INSERT INTO d VALUES('5', 5, 5), ('05', 6, '5'), ('x', 'x', NULL)")
    for column in ("words", "whole"):
        db.query("DROP TABLE IF EXISTS temp.q")
        db.query("DROP VIEW IF EXISTS temp.v")
        words = f"SELECT c.{column} AS k, count(*) AS n FROM g JOIN c ON y BETWEEN c.y1 AND c.y2 AND x < 9 GROUP BY 1"
        if column == "whole":
            db.query("UPDATE c SET whole = 7 WHERE whole = 'x'")
        for term in ("k = 5", "k = '5'", "k = '05'", "k IS NULL", "k IN (5, 6)", "k > 5", "k = 5.0"):
            compare(db, words, f"WHERE {term}")
        for other in ("text", "number", "any"):
            rows = [db.query(f"SELECT d.rowid, q.k, q.n FROM d JOIN temp.{name} q ON q.k = d.{other} ORDER BY 1, 2, 3") for name in ("v", "q")]
            same(rows[1], rows[0], (column, other))


def test_keys_that_are_columns_of_rows():
    """Texts, numbers of both signs, zeros of both signs, NaN's stand-in NULL, and values that several rows share; alone, with a dimension (a grid), and with a key of cells."""
    db = Database()
    make(db, 1)
    db.query("CREATE TABLE k(text TEXT, whole INTEGER, real REAL, y1, y2)")
    db.query("INSERT INTO k VALUES('b', -3, -0.0, 1, 9), ('a', 9223372036854775807, 0.0, 2, 3), (NULL, NULL, NULL, 1, 12), ('b', -3, -1e300, 4, 12), ('', 0, 9e999, 5, 6), ('é', 7, 2.5, 3, 3), ('none', 5, 5, 99, 100)")
    for column in ("text", "whole", "real"):
        for more in ("", ", t", ", n % 3", ", t, k.text", ", n % 3, k.whole"):
            keys = f"k.{column}{more}"
            items = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys.split(", ")))
            words = f"SELECT {items}, count(*) AS c, sum(v) AS a FROM g JOIN k ON y BETWEEN k.y1 AND k.y2 AND x < 15 GROUP BY {', '.join(str(i + 1) for i in range(keys.count(',') + 1))}"
            compare(db, words)
            same(db.query("SELECT * FROM temp.q"), db.query(f"SELECT * FROM temp.q ORDER BY {', '.join(str(i + 1) for i in range(keys.count(',') + 1))}"), f"the order of {words}")
    compare(db, "SELECT k.text, count(*) FROM g JOIN k ON y BETWEEN k.y1 AND k.y2 AND x < 15 WHERE k.text > 'a' GROUP BY 1")


def test_dimensions_of_uint64():
    """They join like other integers, unless a cell lies above the integers of SQL."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE u USING tessera(pos UINT64 DIMENSION(0, 18446744073709541000, 1000), v INT32)")
    db.query("INSERT INTO u SELECT value * 7, value FROM (WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM c WHERE value < 300) SELECT value FROM c)")
    db.query("INSERT INTO u VALUES(9223372036854775807, -1)")
    db.query("CREATE TABLE b(id, low, high)")
    db.query("INSERT INTO b VALUES(1, 5, 70), (2, 60, 700), (3, -9, 8), (4, 2.5, 7.5), (5, 100, 9223372036854775807), (6, NULL, 4), (7, 9, 8), (8, 9223372036854775807, 9223372036854775807)")
    for term in ("pos BETWEEN b.low AND b.high", "pos > b.low AND pos < b.high", "pos >= b.low"):
        compare(db, f"SELECT b.id, count(*) AS n, sum(v) AS s FROM u JOIN b ON {term} GROUP BY 1")
    db.query("INSERT INTO u VALUES('09223372036854775808', -2)")
    db.query("DROP TABLE IF EXISTS temp.q")
    try:
        db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT b.id, count(*) AS n FROM u JOIN b ON pos BETWEEN b.low AND b.high GROUP BY 1)")
        db.query("SELECT * FROM temp.q")
    except Error as error:
        check_contains(str(error), "its dimension has cells above 9223372036854775807")
    else:
        raise AssertionError("coordinates above the integers were joined")


def test_steps_of_a_tile_share_their_pairs():
    """Dimensions without a range are slower: the next step of t has the pairs of the last one, also where a filter leaves rows out, and blocks are cut by tiles."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, t INT32 DIMENSION(0, 40, 10), y INT32 DIMENSION(0, 69, 60), x INT32 DIMENSION(0, 79, 70), v INT32)")
    db.query("INSERT INTO g WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 229599) SELECT i / 5600, i / 80 % 70, i % 80, i * 7 % 1001 FROM c")
    chance = random.Random(4)
    db.query("CREATE TABLE b(zone TEXT, y, low, high, w REAL)")
    for i in range(400):
        low = chance.randint(0, 79)
        db.query("INSERT INTO b VALUES(?, ?, ?, ?, ?)", (f"z{i % 9}", chance.randint(0, 69), low, low + chance.choice((0, 0, 1, 5, 40)), i / 8))
    for term, where in (("", ""), (" AND g.t BETWEEN b.w - 9 AND b.w", ""), ("", " WHERE v % 3 > 0"), ("", " WHERE g.x % 2 = 0 AND g.y <> 7 AND t > 3")):
        words = f"SELECT b.zone, t, count(*) AS n, sum(v * b.w) AS a, max(v) AS m FROM g JOIN b ON g.y = b.y AND g.x BETWEEN b.low AND b.high{term}{where} GROUP BY 1, 2"
        compare(db, words)
        seen = set()
        for options in ("threads=1", "threads=3", "threads=1, memory_mb=4"):
            db.query("DROP TABLE IF EXISTS temp.q")
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({options}, {words})")
            seen.add(str(db.query("SELECT * FROM q")))
        same(len(seen), 1, words)


def test_steps_of_a_tile_with_other_cells_have_other_pairs():
    """In each step another cell was overwritten, so that the older fragment gives as many cells, from the same one on, but not the same."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, t INT32 DIMENSION(0, 9, 10), y INT32 DIMENSION(0, 9, 10), x INT32 DIMENSION(0, 9, 10), v INT32)")
    db.query("INSERT INTO g WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 999) SELECT i / 100, i / 10 % 10, i % 10, 1 << (i / 100) FROM c")
    for t in range(10):
        db.query("REPLACE INTO g VALUES(?, 0, ?, ?)", (t, 9 - t, 1000 << t))
    db.query("CREATE TABLE b(zone TEXT, y, low, high)")
    for x in range(10):
        db.query("INSERT INTO b VALUES(?, 0, ?, ?)", (f"z{x % 4}", x, x))
    compare(db, "SELECT zone, t, sum(v) AS s, count(*) AS n FROM g JOIN b ON g.y = b.y AND g.x BETWEEN b.low AND b.high GROUP BY 1, 2")
    compare(db, "SELECT zone, sum(v) AS s, count(*) AS n FROM g JOIN b ON g.y <= b.y AND g.x BETWEEN b.low AND b.high GROUP BY 1")


def test_results_do_not_depend_on_threads_or_memory():
    db = Database()
    make(db, 3)
    words = "SELECT b.zone, sum(v * b.w) AS a, median(v) AS m, count(*) AS n FROM g JOIN b ON y BETWEEN b.yl AND b.yh AND x BETWEEN b.xl AND b.xh GROUP BY 1"
    seen = set()
    for options in ("threads=1", "threads=2", "threads=7", "threads=1, memory_mb=4"):
        db.query("DROP TABLE IF EXISTS temp.q")
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({options}, {words})")
        seen.add(str(db.query("SELECT * FROM q")))
    same(len(seen), 1)


def test_tessera_sql_joins_by_ranges():
    db = Database()
    make(db, 1)
    words = "SELECT b.zone, count(*) AS n, max(v) AS most FROM g JOIN bv AS b ON y BETWEEN b.yl AND b.yh GROUP BY 1 ORDER BY 1"
    db.query("SELECT tessera_reset_stats()")
    rows = db.query(db.value("SELECT tessera_sql(?)", (words,)))
    stats = dict(db.query("SELECT name, value FROM tessera_stats"))
    assert stats["cells_paired"] > 0, "it ran by rows"
    same(rows, db.query(words))


def test_refusals_say_what_is_possible():
    db = Database()
    make(db, 1)
    for words, message in (
            ("SELECT y, b.id FROM g JOIN b ON y BETWEEN b.yl AND b.yh AND x > b.xl", "a join by ranges is an inner join, of a query with GROUP BY or aggregates"),
            ("SELECT count(*) FROM g LEFT JOIN b ON y BETWEEN b.yl AND b.yh AND x > b.xl", "a join by ranges is an inner join"),
            ("SELECT count(*) FROM g JOIN b ON y > b.yl AND x > b.xl JOIN bv ON t > bv.tl AND x > bv.xl", "a second join by ranges"),
            ("SELECT max(b.other) FROM g JOIN b ON y > b.yl AND x > b.xl", "COLLATE")):
        try:
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({words})")
            db.query("SELECT * FROM q")
        except Error as error:
            check_contains(str(error), message)
        else:
            raise AssertionError(f"{words} was not refused")
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT count(*) FROM g JOIN b ON t / 2 >= b.zone AND x > b.xl)")
    try:
        db.query("SELECT * FROM q")
    except Error as error:
        check_contains(str(error), "a comparison of a text with a number: CAST one of them")
    else:
        raise AssertionError("a text was compared with a number")


def test_the_rows_fit_into_memory_or_say_so():
    db = Database()
    make(db, 1)
    db.query("CREATE TABLE many AS WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 99999) SELECT i, i % 13 AS a, i % 20 AS b FROM c")
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(memory_mb=1, SELECT count(*), max(m.i) FROM g JOIN many m ON y BETWEEN m.a AND m.a + 1 AND x >= m.b)")
    try:
        db.query("SELECT * FROM q")
    except Error as error:
        check_contains(str(error), "the rows of 'many' do not fit into memory_mb (1)")
    else:
        raise AssertionError("too many rows fitted")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
