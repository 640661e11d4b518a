"""Dimensions of datetimes and times in columnar queries: their own values come from the coordinates, so that SQLite makes no
text of each coordinate between the first and the last one. The rows are those of the view.

usage: query_times.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import sys

import host
from host import Database, check_contains, same


def opened():
    """Opens a database with e, sparse, and d, dense."""
    os.chdir(host.FOLDER)
    db = Database()
    db.query("CREATE VIRTUAL TABLE e USING tessera(at DATETIME_MIN DIMENSION, clock TIME_MIN DIMENSION, v INT32)")
    db.query("INSERT INTO e VALUES('2024-01-01 05:06', '07:00', 3), ('2024-01-03', '05:30', 9), ('2024-01-02', '23:59', NULL)")
    db.query("CREATE VIRTUAL TABLE d USING tessera(kind=dense, day DATE DIMENSION('2024-01-01', '2024-12-31', 30), v INT32)")
    db.query("INSERT INTO d VALUES('2024-02-28', 3), ('2024-02-29', 9), ('2024-03-01', NULL)")
    return db


def check(db, text, evaluated, around=""):
    """Compares a query with the view, and the number of coordinates that SQLite evaluates, unless it is None."""
    db.query(f"CREATE TEMP VIEW v AS {text}")
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
    db.query("SELECT tessera_reset_stats()")
    shown = (lambda rows: list(map(repr, rows))) if "ORDER" in text else (lambda rows: sorted(map(repr, rows)))
    same(shown(db.query(f"SELECT * FROM q {around}")), shown(db.query(f"SELECT * FROM v {around}")), text)
    if evaluated is not None:
        same(db.value("SELECT value FROM tessera_stats WHERE name = 'coordinates_evaluated'"), evaluated, text)
    db.query("DROP TABLE temp.q")
    db.query("DROP VIEW temp.v")


def test_ends_and_counts():
    db = opened()
    check(db, "SELECT min(at), max(at), count(at), count(DISTINCT at), min(clock), max(clock) FROM e", 0)
    check(db, "SELECT at, clock, max(v) FROM e", 0)
    check(db, "SELECT v IS NULL AS k, min(at) AS m, max(at) FROM e GROUP BY 1 HAVING max(at) > '2024-01-02 00:30'", 0)
    check(db, "SELECT max(at) FILTER (WHERE v > 3), min(at) FROM e WHERE at > '2024-01-01 06:00'", 0)
    check(db, "SELECT max(at), min(clock) FROM e WHERE v > 100", 0)
    check(db, "SELECT min(day), max(day), count(DISTINCT day) FROM d WHERE v > 2", 0)
    check(db, "SELECT max(date(at)) FROM e", 2 * 24 * 60 - 306 + 1)
    db.close()


def test_cells_of_sparse_arrays():
    db = opened()
    check(db, "SELECT * FROM e", 0)
    check(db, "SELECT clock, v, at AS t FROM e WHERE v > 2 ORDER BY t DESC", 0)
    check(db, "SELECT at, v FROM e ORDER BY v LIMIT 2", 0)
    check(db, "SELECT at, v FROM e WHERE at >= '2024-01-02'", 0)
    check(db, "SELECT at, clock FROM e", 0, "WHERE at >= '2024-01-02' AND at < '2024-01-03'")
    check(db, "SELECT DISTINCT clock FROM e ORDER BY 1", 0)
    check(db, "SELECT at, v IS NULL AS k, max(clock), count(*) FROM e GROUP BY at, 2 HAVING at > '2024-01-01 12:00' ORDER BY 1 DESC", 0)
    check(db, "SELECT at, sum(v) AS total FROM e GROUP BY at", 0, "WHERE at >= '2024-01-02' AND at < '2024-01-03' OR total = 3")
    check(db, "SELECT date(at) AS d, clock, sum(v) FROM e WHERE at < '2024-01-02' GROUP BY 1, 2", 24 * 60 - 306)
    same(b"'shape': (2, 2)" in db.value("SELECT tessera_npy('SELECT at, clock, 1.0 * v FROM e WHERE v IS NOT NULL')"), True, "the axes of a grid have the different texts")
    db.close()


def test_expressions_of_too_many_coordinates_say_what_helps():
    db = opened()
    db.query("CREATE VIRTUAL TABLE wide USING tessera(kind=dense, at DATETIME_MIN DIMENSION('2024-01-01', '2026-12-31', 1440), v FLOAT64)")
    db.query("INSERT INTO wide VALUES('2024-01-01 05:06', 3), ('2026-01-01 05:06', 4)")
    for text in ("SELECT strftime('%H', at) AS h, count(*) FROM wide GROUP BY h", "SELECT count(*) FROM wide WHERE time(at) < '06:00'"):
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        check_contains(db.error("SELECT * FROM q").text, "more than 1048576 values are between the least and the greatest 'at': let WHERE compare it with a range")
        db.query("DROP TABLE temp.q")
    check_contains(db.error("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT round(v, 1) FROM e)").text, "'round(v, 1)' (character 8): round(x, n) of an attribute; dimensions, labels and results may have it")
    check(db, "SELECT round(v / 2.0) FROM e", 0)
    check(db, "SELECT strftime('%H', at) AS h, count(*) FROM wide WHERE at < '2024-01-02' AND v > 1 GROUP BY h", 24 * 60 - 306)
    db.close()


LISTED = ["SELECT strftime('%H', at) AS h, avg(n), count(*) FROM o GROUP BY 1", "SELECT strftime('%Y-%m', at) AS m, w, sum(n) FROM o WHERE strftime('%w', at) IN ('0', '6') GROUP BY 1, 2", "SELECT at, date(at), n FROM o WHERE time(at) > '12:00' AND n > 4",
          "SELECT count(*) FILTER (WHERE strftime('%m', at) = '06'), min(date(at)), max(at), count(DISTINCT date(at)) FROM o", "SELECT CASE WHEN strftime('%H', at) < '06' THEN n ELSE -1 END AS k, count(*) FROM o GROUP BY 1",
          "SELECT date(at) AS d, s FROM o WHERE at >= '2015' AND at < '2016-02' ORDER BY 1 DESC, 2 LIMIT 20", "SELECT CAST(strftime('%Y', at) AS INTEGER) * 100 + n AS k, max(n) FROM o GROUP BY 1 HAVING count(*) > 3", "SELECT at, count(*) FROM o WHERE at > '2012-05-05 05' GROUP BY at",
          "SELECT strftime('%Y', at) AS y, s/10 AS g, avg(n) FROM o GROUP BY 1, 2", "SELECT length(at) AS l, count(*) FROM o WHERE n IS NOT NULL OR strftime('%Y', at) = '2013' GROUP BY 1", "SELECT count(*) FROM o WHERE date(at) = '1999-01-01'",
          "SELECT CASE WHEN date(at) > '2012' THEN 'late' ELSE time(at) END AS k, count(*) FROM o WHERE s < 3 GROUP BY 1", "SELECT strftime('%Y', at) AS y, count(*) FROM o WHERE n > 50 GROUP BY 1"]


def test_sparse_arrays_evaluate_the_coordinates_of_cells_alone():
    """Between the first and the last cell there are more coordinates than SQLite evaluates."""
    r = random.Random(1)
    for minutes in (8000000, 1200000):
        db = opened()
        db.query("CREATE VIRTUAL TABLE o USING tessera(at DATETIME_MIN DIMENSION, s INT32 DIMENSION(0, 99), n INT32, w TEXT ENUM('a', 'b'), duplicates=yes)")
        db.query("BEGIN")
        different = set()
        for i in range(1200):
            different.add(minute := r.randrange(minutes) if i % 5 else 77)
            db.query("INSERT INTO o VALUES(strftime('%Y-%m-%d %H:%M', '2010-01-01', ?), ?, ?, ?)", (f"{minute} minutes", r.randrange(100), r.randrange(10) if i % 7 else None, r.choice("ab")))
            if i == 600:
                db.query("COMMIT")
                db.query("BEGIN")
        for around in ("", "WHERE 1 = 1"):
            for text in LISTED:
                check(db, text, None, around)
            check(db, LISTED[0], len(different), around)
            db.query("COMMIT" if not around else "SELECT 1")
        check(db, LISTED[0], len(different), "WHERE h >= '05' AND h < '17'")
        db.close()
    db = opened()
    db.query("CREATE VIRTUAL TABLE far USING tessera(x INT64 DIMENSION, v INT32)")
    db.query("INSERT INTO far VALUES(-9000000000000000000, 1), (5, 2), (9000000000000000000, 3)")
    check(db, "SELECT x / 1000 AS k, v FROM far WHERE x % 5 = 0", 0)
    check(db, "SELECT printf('%d', x) AS k, sum(v) FROM far GROUP BY 1", 3)
    db.close()


def test_forms_that_are_no_text():
    db = opened()
    db.query("CREATE VIRTUAL TABLE far USING tessera(y DATETIME_YEAR DIMENSION, v INT32)")
    db.query("INSERT INTO far VALUES('1999', 1), ('2005', 7), (10005, 5)")
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT min(y), max(y), count(y) FROM far WHERE v IN (1, 7))")
    check_contains(db.error("SELECT * FROM q").text, "INTEGER in one branch, REAL or TEXT in another")
    db.query("DROP TABLE temp.q")
    db.query("CREATE VIRTUAL TABLE numbers USING tessera('numbers', at DATE DIMENSION, v INT32)")
    db.query("INSERT INTO numbers VALUES('2024-01-01', 3), ('2024-01-05', 4)")
    db.query("CREATE VIRTUAL TABLE i USING tessera('numbers', datetimes=integer)")
    check(db, "SELECT max(at), count(at) FROM i", 0)
    check(db, "SELECT at, v FROM i", 0)
    db.close()


def test_datetimes_that_a_table_shows_as_integers_are_numbers():
    db = opened()
    os.makedirs("shown", exist_ok=True)
    db.query("CREATE VIRTUAL TABLE w USING tessera('shown/w', kind=dense, x INT32 DIMENSION(0, 9, 5), at DATETIME_SEC, clock TIME_MS)")
    db.query("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9) INSERT INTO w SELECT i, datetime('2024-01-01', i || ' hours'), CASE WHEN i % 3 THEN '00:00:0' || i || '.500' END FROM n")
    db.query("CREATE VIRTUAL TABLE z USING tessera('shown/z', at DATETIME_SEC DIMENSION, v INT32)")
    db.query("INSERT INTO z VALUES('2024-01-01 05:06:00', 3), ('2031-01-03', 9), ('1969-12-31 23:59:59', NULL)")
    db.query("CREATE VIRTUAL TABLE wi USING tessera('shown/w', datetimes=integer)")
    db.query("CREATE VIRTUAL TABLE zi USING tessera('shown/z', datetimes=integer)")
    for text in ("SELECT sum(at), avg(at), min(at), max(at), sum(clock), count(clock) FROM wi", "SELECT at/7200 AS k, count(*), max(at % 60 + clock/1000.0) FROM wi WHERE at > 1704067200 GROUP BY 1",
                 "SELECT x, at, at - 1704067200, clock IS NULL FROM wi WHERE at BETWEEN 1704070800 AND 1704090000 AND clock IN (1500, 2500)", "SELECT at/60%24 AS k, sum(v), at < 0 FROM zi GROUP BY 1, 3",
                 "SELECT at, v FROM zi WHERE at >= 0", "SELECT CASE WHEN at > 1704100000 THEN at ELSE -1 END AS k, count(*) FROM zi GROUP BY 1"):
        check(db, text, 0)
    db.close()


def test_instants_that_only_break_ties_are_not_shown():
    """A bare column beside min or max comes from the first of the rows with the extreme, in the order of all dimensions: one of them may have an instant that is no text, as long as no column shows it."""
    db = opened()
    db.query("CREATE VIRTUAL TABLE far USING tessera('far', datetimes=integer, at DATETIME_MS DIMENSION(-900000000000000, 900000000000000, 100000000000), x INT64 DIMENSION(0, 99, 10), v FLOAT64)")
    db.query("INSERT INTO far VALUES (800000000000000, 1, 5), (0, 2, 7), (-800000000000000, 5, 7), (0, 1, 4), (800000000000000, 4, 4), (800000000000000, 2, 7)")
    db.query("CREATE VIRTUAL TABLE shown USING tessera('far')")
    for table in ("far", "shown"):
        for text in (f"SELECT max(v), x FROM {table}", f"SELECT x, max(v) AS most, v FROM {table} GROUP BY x", f"SELECT x % 2 AS odd, min(v) AS least, x FROM {table} GROUP BY 1"):
            db.query("CREATE VIRTUAL TABLE temp.far_query USING tessera_query(" + text + ")")
            same(sorted(db.query("SELECT * FROM far_query")), sorted(db.query(text)), text)
            db.query("DROP TABLE far_query")
    db.close()


def test_numbers_beside_datetimes_mean_what_they_mean_in_the_view():
    """A literal number is a text beside a datetime, and other numbers lie before all texts, but for years."""
    db = opened()
    db.query("CREATE VIRTUAL TABLE y USING tessera(i INT32 DIMENSION, yr DATETIME_YEAR, d DATE, m DATETIME_MONTH)")
    for i in range(12):
        db.query("INSERT INTO y VALUES(?, ?, ?, ?)", (i, str(2018 + i) if i % 5 else None, f"2024-01-{i + 1:02}", f"20{20 + i}-03"))
    for column in ("yr", "d", "m"):
        for value in ("2024", "2024.0", "-2024", "1e3", "2024 + 0", "'2024'", "NULL"):
            for term in (f"{column} = {value}", f"{column} <> {value}", f"{column} < {value}", f"{value} > {column}", f"{column} IN ({value}, '2024-01-03')", f"{column} IN ({value})", f"{column} BETWEEN {value} AND 9999",
                         f"NOT {column} <= {value}", f"CASE WHEN {column} > {value} THEN 1 ELSE i > 5 END", f"{column} IS {value}", f"{column} IS NOT {value}"):
                check(db, f"SELECT i, {column} FROM y WHERE {term}", None)
    db.close()


def test_joins_of_two_units():
    """A joined datetime of another unit is the same instant, as it is for rows; one between two coordinates is none."""
    os.chdir(host.FOLDER)
    db = Database()
    for name, unit in ("days", "DATE"), ("seconds", "DATETIME_SEC"), ("millis", "DATETIME_MS"):
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera(t {unit} DIMENSION, v INTEGER)")
        db.query(f"INSERT INTO {name} VALUES('2024-04-01', 1), ('2024-04-03', 3)")
    db.query("INSERT INTO millis VALUES('2024-04-02 00:00:00.250', 7)")
    db.query("INSERT INTO seconds VALUES('2024-04-01 00:00:01', 9)")
    for cells, joined, expected in (("days", "seconds", 2), ("days", "millis", 2), ("seconds", "millis", 2), ("days", "days", 2)):
        for kind, rows in ("JOIN", expected), ("LEFT JOIN", 3 if cells == "seconds" else 2):
            text = f"SELECT count(*) AS rows, count(b.v) AS joined, sum(b.v) AS total FROM {cells} a {kind} {joined} b ON a.t = b.t"
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
            same(db.query("SELECT * FROM q"), [(rows, expected, 4)], text)
            same(db.query(text), [(rows, expected, 4)], text)
            db.query("DROP TABLE temp.q")
        part = f"(SELECT v AS value, t AS at FROM {cells})"   # its column stands for the dimension
        for text in (f"SELECT a.v, b.v FROM {cells} a, {joined} b WHERE a.t = b.t AND a.v < 9 ORDER BY 1", f"SELECT a.v, b.v FROM {cells} a, {joined} b WHERE b.t = a.t AND a.v < 9 ORDER BY 1",
                     f"SELECT a.value, b.v FROM {part} a JOIN {joined} b ON a.at = b.t WHERE a.value < 9 ORDER BY 1", f"SELECT a.value, b.v FROM {part} a, {joined} b WHERE b.t = a.at AND a.value < 9 ORDER BY 1"):
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
            same(db.query("SELECT * FROM q"), [(1, 1), (3, 3)], text)
            same(db.query(text), [(1, 1), (3, 3)], text)
            db.query("DROP TABLE temp.q")
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
