"""What holds for every columnar query, with fixed texts: what its nested statements may call, the errors and their words, the
differences from a view that a user can see, interrupts, little memory, damaged arrays, and what happens to the table when its
array changes or goes.

usage: query_rules.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import itertools
import os
import shutil
import sys
import time

import host
from host import Database, Error, check_contains, literal, same
from state import set_heap_limit

INTERRUPT, NOMEM = 9, 7


def absent():
    """Whether this extension has no columnar queries yet."""
    if Database().query("SELECT 1 FROM pragma_module_list WHERE name = 'tessera_query'"):
        return False
    print("  there is no tessera_query")
    return True


def make(db, place=True):
    """Makes t, a cube of 40 days x 6 x 5 cells in 20 tiles, and s, sparse."""
    at = "'t', " if place else ""
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({at}kind=dense, day INT32 DIMENSION(0, 39, 4), lat INT32 DIMENSION(-3, 2, 3), lon INT32 DIMENSION(0, 4, 5), temp FLOAT32, n INT64, name TEXT)")
    db.query("INSERT INTO t WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 1199) SELECT i / 30, i / 5 % 6 - 3, i % 5, 270 + i % 37 / 2.0, i, 'w' || (i % 4) FROM c")
    at = "'s', " if place else ""
    db.query(f"CREATE VIRTUAL TABLE s USING tessera({at}day DATE DIMENSION('2019-01-01', '2021-12-31', 30), x INT64 DIMENSION(0, 99, 10), v FLOAT64, wind TEXT ENUM('calm', 'gale'), capacity=20)")
    db.query("BEGIN")
    for i in range(60):
        db.query("INSERT INTO s VALUES(date('2020-01-01', ?), ?, ?, ?)", (f"{i * 7} days", i % 100, i / 4, "calm" if i % 3 else None))
    db.query("COMMIT")


def opened(place=False):
    os.chdir(host.FOLDER)
    db = Database("a.db" if place else ":memory:")
    make(db, place)
    return db


def trap(db, called, name="trap", result=1):
    """Adds a function that notes its calls."""
    def function(*values):
        called.append(values)
        return result
    if host.binding == "apsw":
        db.raw.create_scalar_function(name, function, -1)
    else:
        db.raw.create_function(name, -1, function)


PLACES = ["SELECT trap() FROM t", "SELECT day, count(*) FROM t WHERE trap(day) GROUP BY 1", "SELECT trap(day/4), count(*) FROM t GROUP BY 1", "SELECT trap(count(*)) FROM t", "SELECT day, count(*) FROM t GROUP BY 1 HAVING trap(day)",
          "SELECT day, count(*) FROM t GROUP BY 1 ORDER BY trap(day)", "SELECT day FROM t LIMIT trap()", "SELECT day FROM t LIMIT 1 OFFSET trap()", "SELECT count(*) FROM t(trap())", "SELECT count(*) FILTER (WHERE trap(temp)) FROM t",
          "SELECT avg(trap(temp)) FROM t", "SELECT coalesce(day, trap()) FROM t", "SELECT CASE WHEN 0 THEN trap() ELSE day END FROM t", "SELECT upper(substr(trap(), 1, 1)) FROM s", "SELECT count(*) FROM t WHERE day IN (1, trap())",
          "SELECT count(*) FROM t WHERE day BETWEEN trap() AND 5", "SELECT \"trap\"(day) FROM t", "SELECT [trap](day) FROM t", "SELECT `trap`(day) FROM t", "SELECT main.trap(day) FROM t", "SELECT trap/**/(day) FROM t", "SELECT TRAP (day) FROM t",
          "SELECT (SELECT trap()) FROM t", "SELECT count(*) FROM t WHERE EXISTS (SELECT trap())", "SELECT count(*) FROM t, (SELECT trap())", "SELECT count(*) FROM t GROUP BY trap()", "SELECT trap(*) FROM t", "SELECT trap(day) OVER () FROM t",
          "SELECT day -> trap() FROM t", "SELECT strftime('%m', trap()) FROM s", "SELECT printf('%s', trap(day)) FROM t GROUP BY 1", "SELECT count(*) FROM t UNION SELECT trap()", "SELECT count(*) FROM t; SELECT trap()",
          "WITH c AS (SELECT trap()) SELECT * FROM c", "VALUES (trap())",
          "SELECT count(*) FROM t JOIN t_config c ON c.key = t.day AND trap()", "SELECT count(*) FROM t LEFT JOIN t_config c ON c.key = trap(t.day)",
          "SELECT count(*) FROM t JOIN s(trap()) ON s.x = t.day", "SELECT count(*) FROM t JOIN s(5, trap()) AS k ON k.x = t.day"]


def test_no_part_of_a_text_reaches_a_function_outside_of_the_list():
    """Neither when the table is made, nor when it is read, nor from the schema of an untrusted database."""
    if absent():
        return
    for trusted in (0, 1):
        for text in PLACES:
            folder = os.path.join(host.FOLDER, f"{trusted}{PLACES.index(text)}")
            os.mkdir(folder)
            os.chdir(folder)
            db, called = Database("a.db"), []
            make(db)
            trap(db, called)
            db.query(f"PRAGMA trusted_schema = {trusted}")
            db.error(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
            same(called, [], text)
            db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT day, count(*) AS n FROM t GROUP BY 1)")
            db.query("PRAGMA writable_schema = ON")
            db.query("UPDATE sqlite_schema SET sql = ? WHERE name = 'q'", (f"CREATE VIRTUAL TABLE q USING tessera_query({text})",))
            db.close()
            db = Database("a.db")
            trap(db, called)
            db.query(f"PRAGMA trusted_schema = {trusted}")
            for sql in ("SELECT * FROM q", "SELECT count(*) FROM q WHERE 1", "EXPLAIN QUERY PLAN SELECT * FROM q", "DROP TABLE q"):
                try:
                    db.query(sql)
                    failed = False
                except Error:
                    failed = True
                assert failed or "FROM q" not in sql or "EXPLAIN" in sql or sql.endswith("1"), f"{text}: {sql} succeeds"
                same(called, [], f"{text}: {sql}")
            db.close()


WORDS = [   # the text, a part of its error
    ("WITH c AS (SELECT 1) SELECT * FROM c", "expected a SELECT, not 'WITH'"), ("VALUES (1)", "expected a SELECT, not 'VALUES'"), ("SELECT day FORM t", "syntax error"), ("SELECT nosuch FROM t", "no such column: nosuch"),
    ("SELECT count(*) FROM nosuch", "no such table: "), ("SELECT nosuch(day) FROM t", "no such function: nosuch"), ("SELECT * FROM ordinary", "'ordinary' is an SQLite table"), ("SELECT * FROM a_view", "'a_view' is a view"), ("SELECT * FROM a_query", "'a_query' is a tessera_query: join it, or select from it in a view"), ("SELECT * FROM found", "'found' is a table of another module"), ("SELECT * FROM pragma_table_info('t')", "no such tessera table: pragma_table_info"),
    ("SELECT rank() OVER (ORDER BY day) FROM t", "rank() is not among the functions"), ("SELECT day, count(*) OVER () FROM t GROUP BY day", "windows beside GROUP BY"), ("SELECT (SELECT 1) FROM t", "not evaluated over columns: "), ("SELECT name COLLATE NOCASE FROM t", "not evaluated over columns: "), ("SELECT group_concat(name) FROM t", "not evaluated over columns: "),
    ("SELECT day FROM t UNION SELECT 1", "not evaluated over columns: "), ("SELECT upper(name) FROM t", "not evaluated over columns: 'upper(name)'"), ("SELECT CAST(temp AS TEXT) FROM t", "not evaluated over columns: "),
    ("SELECT round(temp, 2) FROM t", "not evaluated over columns: "), ("SELECT lon, count(*) FROM t GROUP BY day", "neither a key of GROUP BY nor in an aggregate"), ("SELECT CASE WHEN lat < lon THEN temp ELSE n END FROM t", "in one branch, "),
    ("SELECT count(*) FROM t WHERE temp = name", "compares a number with text: 'temp = name'"), ("SELECT ? FROM t", "parameters are not allowed in tessera_query"), ("SELECT day FROM t WHERE :a", "parameters are not allowed in tessera_query"),
    ("SELECT " + "(" * 40 + "day" + ")" * 40 + " FROM t", None), ("SELECT " + "-" * 0 + "abs(" * 45 + "temp" + ")" * 45 + " FROM t", None), ("SELECT " + " + ".join(["temp"] * 150) + " FROM t", "nested deeper than 100"),
    ("SELECT " + ", ".join(f"sum(temp + {i})" for i in range(65)) + " FROM t", "more than 64 aggregates"), ("SELECT sum(n * 9223372036854775807) FROM t", "'n * 9223372036854775807'"),
    ("SELECT day AS k, count(*) FROM t GROUP BY 3", "GROUP BY term out of range"), ("SELECT count(*) FROM t HAVING 1 ORDER BY 9", None), ("SELECT day FROM t HAVING 1", None), ("SELECT count(*) FROM t('yesterday')", None),
    ("SELECT count(*) FROM t WHERE \"nosuch\" = 'nosuch'", "no such column"), ("SELECT abs(n - 9223372036854775807 - 1 - n) FROM t", None),
]


def test_errors_say_what_the_manual_says():
    if absent():
        return
    db = opened()
    db.query("CREATE TABLE ordinary(a)")
    db.query("CREATE VIEW a_view AS SELECT * FROM t")
    db.query("CREATE VIRTUAL TABLE a_query USING tessera_query(SELECT day FROM t)")
    db.query("CREATE VIRTUAL TABLE found USING fts5(word)")
    faults = []
    for text, words in WORDS:
        try:
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
            found = db.query("SELECT * FROM q")
            what = None
        except Error as e:
            what = e.text
        if words and (not what or words not in what):
            faults.append(f"{text[:90]}: {what or found[:2]} and not {words}")
        if what and ("internal" in what.lower() or len(what) > 1000):
            faults.append(f"{text[:90]}: {what[:300]}")
        try:
            db.query("DROP TABLE IF EXISTS temp.q")
        except Error as e:
            faults.append(f"{text[:90]}: DROP TABLE: {e.text}")
    assert not faults, "\n".join(faults)


READ, SELECT, DENY, IGNORE = 20, 21, 1, 2   # of authorizers

GUARDED = [   # texts that use temp, day or name of t
    "SELECT avg(temp) FROM t", "SELECT temp, lat FROM t LIMIT 3", "SELECT temp + lat AS x FROM t WHERE day = 1", "SELECT lat, count(*) FROM t WHERE temp > 280 GROUP BY 1", "SELECT count(*) FILTER (WHERE temp > 280) FROM t", "SELECT * FROM t", "SELECT t.* FROM t",
    "SELECT temp, count(*) FROM t GROUP BY 1", "SELECT lat, max(n), temp FROM t", "SELECT lat, count(*) FROM t GROUP BY 1 HAVING max(temp) > 0", "SELECT lat, count(*) FROM t GROUP BY 1 ORDER BY max(temp)", "SELECT lat AS temperature FROM t ORDER BY temp, n",
    "SELECT day/4, count(*) FROM t GROUP BY 1", "SELECT count(*) FROM t WHERE day % 3 = 1", "SELECT day, count(*) FROM t WHERE n > 3 GROUP BY day", "SELECT count(*) FROM t WHERE day BETWEEN 3 AND 5", "SELECT sum(day * n) FROM t", "SELECT name FROM t WHERE name LIKE 'w%'",
    "SELECT \"t\".[Temp] FROM main.t", "SELECT a.temp FROM t AS a", "SELECT c.value, count(*) FROM t JOIN c ON c.day = t.day WHERE t.name > '' GROUP BY 1", "SELECT median(temp) FROM t", "SELECT count(name) FROM t"]


def test_what_an_authorizer_denies_or_hides_no_query_shows():
    """DENY of a column fails. IGNORE gives NULLs in a view; a query over columns fails, in any form, or gives the view's rows."""
    if absent():
        return
    db = opened()
    db.query("CREATE TABLE c(day INTEGER PRIMARY KEY, value TEXT)")
    db.query("INSERT INTO c SELECT DISTINCT day, 'v' || day % 3 FROM t")

    def guard(answer, columns):   # statements that the binding keeps are prepared anew
        db.raw.set_authorizer(lambda action, a, b, *others: answer if action == READ and (a, b) in columns else 0)
    shown = 0
    for text in GUARDED:
        db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
        db.query(f"CREATE TEMP VIEW v AS {text.replace('median', 'total')}")
        for columns in [[("t", "temp")], [("t", "day")], [("t", "name")], [("t", "temp"), ("t", "day"), ("t", "name")]]:
            guard(DENY, columns)
            uses = False
            try:
                db.query("SELECT * FROM v")
            except Error:
                uses = True
            try:
                db.query("SELECT * FROM q")
                assert not uses, f"{text}: reads {columns}, which are denied"
            except Error as e:
                assert uses, f"{text}: {e.text} though {columns} is not read"
                check_contains(e.text, "prohibited")
            guard(IGNORE, columns)
            try:
                db.query("SELECT * FROM q")
                shown += 1
                assert not uses, f"{text}: reads {columns}, which are hidden"
            except Error as e:
                assert uses, f"{text}: {e.text} though {columns} is not read"
                check_contains(e.text, "the authorizer hides t.")
        guard(IGNORE, [])
        db.query("DROP TABLE q")
        db.query("DROP VIEW v")
    assert shown > 10
    for function in ("npy", "png", "preview"):
        for answer, words in [(DENY, "access to t.temp is prohibited"), (IGNORE, "the authorizer hides t.temp")]:
            guard(answer, [("t", "temp")])
            check_contains(db.error(f"SELECT tessera_{function}('SELECT avg(temp) FROM t GROUP BY lat, lon')").text, words)
    guard(IGNORE, [])
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT t.day/4 AS k, c.value AS value, max(n) AS most FROM t JOIN c ON c.day = t.day GROUP BY 1, 2 ORDER BY 1, 2)")
    db.query("CREATE TEMP VIEW v AS SELECT t.day/4 AS k, c.value AS value, max(n) AS most FROM t JOIN c ON c.day = t.day GROUP BY 1, 2 ORDER BY 1, 2")
    guard(IGNORE, [("c", "value")])
    same(db.query("SELECT * FROM q"), db.query("SELECT * FROM v"), "a hidden column of a joined table")
    same({row[1] for row in db.query("SELECT * FROM q")}, {None})
    guard(IGNORE, [("_tessera_query_rows", "i0")])
    check_contains(db.error("SELECT * FROM q").text, "the authorizer hides _tessera_query_rows.i0")
    guard(IGNORE, [("t", "temp")])
    e = db.error("SELECT tessera_create_as('hidden', 'SELECT day, lat, lon, n, temp FROM t', '{\"dimensions\":[\"day\",\"lat\",\"lon\"]}')")
    check_contains(e.text, "column 'temp': no value determines its type")   # it is NULL in all rows


def test_an_authorizer_that_ignores_the_select_gives_an_error():
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT day/4 AS k, count(*) AS n FROM t WHERE lat = 1 + 1 GROUP BY 1 ORDER BY 2)")
    for after in range(0, 40):
        seen = 0

        def answer(action, *others):
            nonlocal seen
            seen += action == SELECT
            return IGNORE if action == SELECT and seen > after else 0
        db.raw.set_authorizer(answer)
        try:
            rows = db.query("SELECT * FROM q")
        except Error as e:
            rows = None
        db.raw.set_authorizer(None)
        if rows and seen <= after:
            break
        assert not rows, f"SELECT number {after + 1} is ignored: {rows}"
    assert 3 < after < 39, after


FORMS = [   # forms of the grammar that random texts have seldom
    "SELECT coalesce(f, 1) AS k, count(*), typeof(coalesce(f, 1)) FROM u GROUP BY k HAVING k >= 1", "SELECT round(coalesce(f, 2)) * 2, count(*) FROM u GROUP BY coalesce(f, 2)", "SELECT DISTINCT ifnull(f, 2) FROM u",
    "SELECT ifnull(f, 3) AS k, CASE WHEN a > 0 THEN f WHEN a < 0 THEN 5 END AS l, max(d), e FROM u GROUP BY k, l", "SELECT count(DISTINCT f), count(DISTINCT coalesce(f, 2)), sum(DISTINCT f), avg(DISTINCT f) FROM u", "SELECT a, count(DISTINCT d/4), total(DISTINCT coalesce(f, 2)) FROM u GROUP BY a",
    "SELECT count(*) FROM u WHERE b = '18446744073709551615'", "SELECT count(*) FROM u WHERE b < '18446744073709551615'", "SELECT count(*) FROM u WHERE b IN (1, '18446744073709551615')", "SELECT count(*), min(b), max(b) FROM u WHERE b > '9223372036854775807'",
    "SELECT count(*) FROM u WHERE (f > 1) IS TRUE", "SELECT count(*) FROM u WHERE (f > 1) IS NOT TRUE", "SELECT count(*) FROM u WHERE f IS NOT FALSE", "SELECT count(*) FROM u WHERE a IS FALSE OR a IS TRUE + 1", "SELECT f IS true, d IS NOT False, a IS TRUE = 1 FROM u", "SELECT sum(a IS TRUE), sum(f IS NOT TRUE) FROM u GROUP BY e IS TRUE",
    "SELECT n, a IS (TRUE), a IS NOT ((FALSE)), d IS (true), n IS (f NOT IN ()), a IS NOT (1 IN ()), a IS likely(TRUE), a IS +TRUE FROM u", "SELECT count(*) FROM u WHERE a IS (TRUE) OR f IS (FALSE)", "SELECT count(*) FROM u WHERE d IS (TRUE)",
    "SELECT (d > 1) COLLATE BINARY, ((a + 1)) COLLATE BINARY AS k, count(*) FROM u GROUP BY 1, k HAVING (k) COLLATE BINARY IS NOT 4 ORDER BY 1, (k) COLLATE BINARY", "SELECT m % 2, count(*) FROM (SELECT (d < 2) COLLATE BINARY AS m FROM u WHERE (d) COLLATE BINARY > -3) GROUP BY 1",
    "SELECT likely(N), d, unlikely(likely(N)), likely(n) + 1, likely(n) AS k FROM u", "SELECT e COLLATE BINARY, count(*) FROM u GROUP BY e COLLATE BINARY ORDER BY e COLLATE BINARY DESC", "SELECT n COLLATE BINARY FROM u ORDER BY 1 COLLATE BINARY LIMIT 4", "SELECT (n + 1) COLLATE BINARY AS k FROM u ORDER BY k COLLATE BINARY DESC LIMIT 4",
    "SELECT n FROM u ORDER BY 9223372036854775806, n DESC", "SELECT count(*), max(n) FROM u GROUP BY 2147483648", "SELECT n FROM u ORDER BY 0x100000000, n LIMIT 3", "SELECT a, count(*) FROM u GROUP BY 0x1 ORDER BY 99999999999999999999999999, 2, 1",
    "SELECT n FROM u ORDER BY ~1, n DESC LIMIT 4", "SELECT n FROM u ORDER BY NOT 1, n DESC LIMIT 4", "SELECT count(*), max(n) FROM u GROUP BY ~2", "SELECT count(*) FROM main.\"u\"", "SELECT count(*) FROM [main].[u]",
    "SELECT e COLLATE BINARY = 'y', count(*) FROM u WHERE e COLLATE BINARY > 'w' AND 'a' COLLATE BINARY = 'a' GROUP BY 1 COLLATE BINARY"]


def make_unusual(db):
    db.query("CREATE VIRTUAL TABLE u USING tessera(d FLOAT64 DIMENSION(-10, 10, 5), a INT8, b UINT64, f FLOAT32, e TEXT ENUM('x', 'y', 'z'), n INT64, capacity=7)")
    db.query("BEGIN")
    for i in range(80):
        db.query("INSERT INTO u VALUES(?, ?, ?, ?, ?, ?)", (i / 4 - 10, (1, -3, 7, None, 100, 0)[i % 6], (1, 2, None, "18446744073709551615", "9223372036854775808")[i % 5], (1.5, 0.25, None, 1e30, -8.0)[i * 7 % 11 % 5], ("x", "y", "z", None)[i // 20], i))
    db.query("COMMIT")


def test_forms_of_the_grammar_that_random_texts_have_seldom():
    if absent():
        return
    db = opened()
    make_unusual(db)
    for text in FORMS:
        db.query(f"CREATE TEMP VIEW v AS {text}")
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        shown = (lambda rows: list(map(repr, rows))) if "ORDER" in text else (lambda rows: sorted(map(repr, rows)))
        same(shown(db.query("SELECT * FROM q")), shown(db.query("SELECT * FROM v")), text)
        same([r[1] for r in db.query("PRAGMA table_info(q)")], [r[1] for r in db.query("PRAGMA table_info(v)")], f"columns: {text}")
        db.query("DROP TABLE temp.q")
        db.query("DROP VIEW temp.v")
    middle = lambda values: (sorted(values)[(len(values) - 1) // 2] + sorted(values)[len(values) // 2]) / 2
    for x, condition in [("a", "1"), ("f", "1"), ("n / 5", "1"), ("coalesce(f, 3)", "a > 0"), ("d / 7", "n > 3"), ("e IS NULL", "1"), ("b", "b < '7'")]:   # SQLite has no median everywhere
        values = [v for v, in db.query(f"SELECT DISTINCT {x} FROM u WHERE {condition}") if v is not None]
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT median(DISTINCT {x}), percentile(DISTINCT {x}, 100), count(DISTINCT {x}) FROM u WHERE {condition})")
        same(db.query("SELECT * FROM q"), [(middle(values), float(max(values)), len(values))], x)
        db.query("DROP TABLE temp.q")
    db.close()


OUTER = [   # a text over u (make_unusual), the SELECT around it, whether it must spare cells
    ("SELECT e, count(*) AS c, sum(n) FROM u GROUP BY e", "WHERE e = 'y'", True), ("SELECT e, count(*) AS c FROM u GROUP BY 1", "WHERE e > 'x'", True), ("SELECT e, n FROM u", "WHERE e IN ('x', 'z')", True), ("SELECT e, n FROM u", "WHERE e <= 'y' AND n > 7", True),
    ("SELECT e || 'q' AS k, count(*) FROM u GROUP BY k", "WHERE k = 'yq'", True), ("SELECT coalesce(e, 'none') AS k, count(*) FROM u GROUP BY k", "WHERE k = 'none'", False), ("SELECT coalesce(e, 'none') AS k, count(*) FROM u GROUP BY k", "WHERE k = 'z'", True),
    ("SELECT e, count(*) FROM u GROUP BY 1", "WHERE e IS NULL", False), ("SELECT e, count(*) FROM u GROUP BY 1", "WHERE e IS 'x'", True), ("SELECT e, count(*) FROM u GROUP BY 1", "WHERE e = 5 OR e = 'x'", True), ("SELECT e, count(*) FROM u GROUP BY 1", "WHERE e > 5", True),
    ("SELECT e, count(*) FROM u WHERE a > 0 GROUP BY 1", "WHERE e = 'x'", True), ("SELECT e, d, n FROM u WHERE e < 'z' AND n <> 4", "WHERE e = 'y' AND d BETWEEN -5 AND 5.5", True), ("SELECT e, count(*) FROM u GROUP BY 1", "WHERE e = 'nosuch'", True), ("SELECT length(e) AS l, a, count(*) FROM u GROUP BY 1, 2", "WHERE l = 1 AND a = 7", True),
    ("SELECT d, n FROM u", "WHERE d = 2.5", True), ("SELECT d, max(n) FROM u GROUP BY d", "WHERE d BETWEEN -3 AND 3.1", True), ("SELECT d, n FROM u", "WHERE d > 7 OR d < -9", False), ("SELECT d AS x, n FROM u", "WHERE x > 7 AND x <= 9007199254740993", True), ("SELECT d, n FROM u", "WHERE d = '2.5'", True), ("SELECT d, n FROM u", "WHERE d < 'a'", False),
    ("SELECT d, n FROM u", "JOIN numbers ON d = numbers.value", True), ("SELECT d, e, n FROM u", "JOIN numbers ON d > numbers.value AND e = numbers.label", True), ("SELECT e, count(*) AS c FROM u GROUP BY 1", "JOIN numbers ON e = numbers.label", True), ("SELECT d, n FROM u LIMIT 20", "WHERE d < 0", False), ("SELECT d + 0 AS x, n FROM u", "WHERE x < 0", False),
    ("SELECT k, count(*) FROM w GROUP BY k", "WHERE k = 'b3'", True), ("SELECT k, y FROM w", "WHERE k > 'b3'", False), ("SELECT k, y FROM w", "WHERE k = 5", False), ("SELECT k, y FROM w", "JOIN numbers ON k = numbers.value", False), ("SELECT k, y FROM w", "JOIN numbers ON k >= numbers.label", False)]


def test_constraints_around_a_query_on_labels_reals_and_texts_reach_the_cells():
    """The answers are the view's, and those without the constraint's help; tiles or cells are spared."""
    if absent():
        return
    db = opened()
    make_unusual(db)
    db.query("CREATE TABLE numbers(value NUMERIC, label)")
    db.query("INSERT INTO numbers VALUES(2.5, 'x'), (-3, 'z'), ('5', 'b'), ('abc', NULL), (NULL, 'y')")
    db.query("CREATE VIRTUAL TABLE w USING tessera(k TEXT DIMENSION, y FLOAT64, capacity=3)")
    for i in range(20):
        db.query("INSERT INTO w VALUES(?, ?)", (f"{'ab'[i % 2]}{i}" if i % 5 else str(i), i))

    def counted(sql):
        db.query("SELECT tessera_reset_stats()")
        rows = sorted(map(repr, db.query(sql)))
        return rows, db.value("SELECT sum(value) FROM tessera_stats WHERE name IN ('tiles_read', 'tiles_cached', 'cells_computed')")
    faults = []
    for text, around, spares in OUTER:
        db.query(f"CREATE TEMP VIEW v AS {text}")
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        rows, work = counted(f"SELECT * FROM q {around}")
        same(rows, sorted(map(repr, db.query(f"SELECT * FROM v {around}"))), f"{text}: {around}")
        plain, all_work = counted(f"SELECT * FROM (SELECT * FROM q LIMIT -1 OFFSET 0) {around}")
        same(plain, rows, f"{text}: {around}: without its help")
        if "JOIN" not in around and " FROM u" in text:   # the query is run for each row of another table, or once; w has tiles of a few cells
            faults += [f"{text}: {around}: {work} of {all_work}"] * ((work < all_work) != spares)
        elif spares:
            assert "=?" in db.plan(f"SELECT * FROM q {around}") or ">?" in db.plan(f"SELECT * FROM q {around}"), db.plan(f"SELECT * FROM q {around}")
        db.query("DROP TABLE temp.q")
        db.query("DROP VIEW temp.v")
    same(faults, [], "cells spared")
    db.close()


def test_texts_in_utf16_databases_are_ordered_as_there_or_not_at_all():
    if absent():
        return
    for encoding in ("UTF-16le", "UTF-16be"):
        db = Database(os.path.join(host.FOLDER, encoding + ".db"))
        db.query(f"PRAGMA encoding = '{encoding}'")
        db.query("CREATE VIRTUAL TABLE w USING tessera(x INT32 DIMENSION(0, 99, 10), s TEXT, e TEXT ENUM('\uffff', '\U0001f642', 'é', 'a', 'Ā'))")
        for i, s in enumerate(["a", "b", "é", "Ā", "\uffff", "\U0001f642", "", None, "ab"]):
            db.query("INSERT INTO w VALUES(?, ?, ?)", (i, s, ["\uffff", "\U0001f642", "é", "a", "Ā"][i % 5]))
        for text, refused in [("SELECT s, count(*) FROM w GROUP BY s ORDER BY s", False), ("SELECT s FROM w WHERE s = 'é' OR s IN ('Ā', 'b')", False), ("SELECT count(*) FROM w WHERE s <> 'é'", False), ("SELECT s FROM w WHERE s < 'é'", True), ("SELECT min(s) FROM w", True), ("SELECT x FROM w WHERE s BETWEEN 'a' AND 'é'", True),
                              ("SELECT max(s, 'é') FROM w", True), ("SELECT e, count(*) FROM w WHERE e < 'é' GROUP BY e", False), ("SELECT e FROM w ORDER BY e DESC", False), ("SELECT max(e) FROM w", True), ("SELECT s FROM w WHERE s LIKE 'A%' OR s GLOB '*é'", False), ("SELECT upper(e) AS k, count(DISTINCT s) FROM w GROUP BY 1 ORDER BY 1", False)]:
            db.query(f"CREATE TEMP VIEW v AS {text}")
            try:
                db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
                found = db.query("SELECT * FROM q")
                assert not refused, f"{encoding}: {text} is answered"
                want = db.query("SELECT * FROM v")
                same(found if "ORDER" in text else sorted(found, key=repr), want if "ORDER" in text else sorted(want, key=repr), (encoding, text))
            except Error as e:
                assert refused, f"{encoding}: {text}: {e.text}"
                check_contains(e.text, "the order of texts in a database in UTF-16")
            db.query("DROP TABLE IF EXISTS temp.q")
            db.query("DROP VIEW temp.v")
        for op in ("=", "<", ">=", ">"):
            db.query("CREATE TEMP VIEW v AS SELECT e, count(*) AS n FROM w GROUP BY 1")
            db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT e, count(*) AS n FROM w GROUP BY 1)")
            for right in ("é", "a", "\uffff", "\U0001f642"):
                same(sorted(db.query(f"SELECT * FROM q WHERE e {op} ?", (right,))), sorted(db.query(f"SELECT * FROM v WHERE e {op} ?", (right,))), (encoding, op, right))
            db.query("DROP TABLE temp.q")
            db.query("DROP VIEW temp.v")
        db.close()


LABELLED = {   # array of the corpus: texts over it as a
    "increasing_float": ["SELECT lat, count(*), sum(a) FROM a GROUP BY lat", "SELECT lat, c, a FROM a WHERE lat > 2", "SELECT round(lat) AS band, max(a), lat FROM a GROUP BY band", "SELECT r, c, lat + 1 AS more FROM a WHERE lat BETWEEN 1 AND 5 AND a % 2 = 0", "SELECT sum(a * lat), avg(lat), count(lat), min(lat), max(lat) FROM a",
                         "SELECT count(*) FROM a WHERE lat IS NULL OR lat < c", "SELECT LAT, r FROM a AS b WHERE b.lat <> 3 ORDER BY lat DESC, r LIMIT 7", "SELECT max(a), lat, c FROM a", "SELECT lat, count(*) FROM a WHERE lat = '2.5' OR lat IN (1, 2, 3) GROUP BY 1", "SELECT lat IS NULL, count(*) FROM a WHERE 3 <= lat GROUP BY 1",
                         "SELECT k.v, sum(a) FROM a JOIN known k ON k.lat = a.lat GROUP BY 1", "SELECT lat AS r2, sum(a) AS s FROM a GROUP BY r2 HAVING s > 10 AND lat > 1 ORDER BY 2", "SELECT count(DISTINCT lat) FROM a", "SELECT * FROM a WHERE lat > 2.5 AND c = 1", "SELECT a.*, lat AS l FROM a", "SELECT typeof(lat), printf('%.1f', lat), count(*) FROM a GROUP BY lat"],
    "decreasing_int_and_time": ["SELECT z, t, sum(a) FROM a GROUP BY 1, 2", "SELECT substr(t, 1, 7) AS month, z/2 AS half, count(*) FROM a GROUP BY 1, 2", "SELECT count(*) FROM a WHERE t >= '2020-01-02' AND z < 50", "SELECT min(t), max(t), min(z), max(z) FROM a WHERE t > ''", "SELECT a, t FROM a WHERE strftime('%d', t) > '02' AND z <> 3", "SELECT z * a - c FROM a WHERE t < '2021'", "SELECT * FROM a WHERE z BETWEEN 2 AND 70"],
    "string_label": ["SELECT nm, count(*), sum(a) FROM a GROUP BY nm ORDER BY nm DESC", "SELECT upper(nm) || c, a FROM a WHERE nm > 'b'", "SELECT count(*) FROM a WHERE nm LIKE '%a%' OR nm GLOB 'b*'", "SELECT max(nm), min(nm) FROM a WHERE a > 3", "SELECT nm, max(a), r FROM a GROUP BY substr(nm, 1, 1)", "SELECT nm < 'c', length(nm), a FROM a WHERE nm <> 'x'"]}


def test_labels_of_dimensions_are_columns_that_depend_on_them():
    """In directories and in the database, hidden and shown; comparisons with constants spare tiles and coordinates."""
    if absent():
        return
    for where in ("directory", "database"):
        for name, texts in LABELLED.items():
            db, path = opened(), host.corpus(f"new/labels/{name}")
            if where == "database":
                db.query(f"SELECT tessera_sync({literal(path)}, 'db:a')")
            for options in ("", ", labels=yes") if where == "directory" else ("",):
                if where == "directory":
                    db.table("a", path, options)
                if name == "increasing_float":
                    db.query("CREATE TABLE IF NOT EXISTS known AS SELECT DISTINCT lat, 'v' || (r % 3) AS v FROM a WHERE lat IS NOT NULL AND r % 4 <> 1")
                for text in texts:
                    db.query(f"CREATE TEMP VIEW v AS {text}")
                    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
                    shown = (lambda rows: list(map(repr, rows))) if "ORDER" in text else (lambda rows: sorted(map(repr, rows)))
                    same(shown(db.query("SELECT * FROM q")), shown(db.query("SELECT * FROM v")), f"{name}{options}: {text}")
                    same([r[1] for r in db.query("PRAGMA table_info(q)")], [r[1] for r in db.query("PRAGMA table_info(v)")], f"{name}{options}: columns: {text}")
                    db.query("DROP TABLE temp.q")
                    db.query("DROP VIEW temp.v")
                if where == "directory":
                    db.query("DROP TABLE a")
            db.close()
    db = opened()
    db.table("a", host.corpus("new/labels/increasing_float"))
    low, = db.query("SELECT min(lat) FROM a")[0]
    for text, outer in [(f"SELECT count(*) AS n FROM a WHERE lat <= {low}", ""), ("SELECT lat, count(*) AS n FROM a GROUP BY lat", f"WHERE lat = {low}")]:
        db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
        db.query("SELECT tessera_reset_stats()")
        same(db.query(f"SELECT n FROM q {outer}"), [(db.value("SELECT count(*) FROM a WHERE lat = ?", (low,)),)])
        same(db.value("SELECT value FROM tessera_stats WHERE name = 'coordinates_evaluated'"), 1 if not outer else db.value("SELECT count(DISTINCT r) FROM a"), text)
        db.query("DROP TABLE q")
    db.close()


def test_differences_from_a_view_are_those_of_the_manual():
    """What the random texts leave out, or count as expected."""
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE b USING tessera(i INT32 DIMENSION(0, 99, 10), n INT64, u UINT64)")
    db.query("INSERT INTO b VALUES(0, 9223372036854775807, '18446744073709551615'), (1, 9223372036854775807, 5), (2, -9223372036854775807, NULL)")

    def query(text):
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        try:
            return db.query("SELECT * FROM q")
        finally:
            db.query("DROP TABLE temp.q")
    same(query("SELECT sum(n) FROM b"), [(9223372036854775807,)], "a part of the sum leaves 64 bits, the sum does not")
    for text, words in (("SELECT sum(n) FROM b WHERE i < 2", "integer overflow: the sum passes 64 bits: 'sum(n)' (character 8): total() gives a REAL"),
                        ("SELECT i / 5, 1 + sum(n) AS s FROM b WHERE i < 2 GROUP BY 1", "'sum(n)'"), ("SELECT sum(n + 1) FROM b", "integer overflow past 64 bits: 'n + 1'"), ("SELECT n + 1 FROM b", "integer overflow past 64 bits: 'n + 1'"), ("SELECT u + 1 FROM b", "past the integers of SQL")):
        try:
            raise AssertionError(f"{text}: {query(text)}")
        except Error as e:
            check_contains(e.text, words)
    same(query("SELECT min(u), max(u), count(u), count(DISTINCT u) FROM b"), [(5, "18446744073709551615", 2, 2)], "UINT64")
    for where, places in (("u = '5'", [1]), ("NOT u = '5'", [0]), ("u <> '5'", [0]), ("u = '5' OR i > 90", [1]), ("u IS NOT '5'", [0, 2]), ("u >= '018446744073709551615' OR i > 90", [0]), ("u NOT BETWEEN '4' AND '6'", [0])):
        same(sorted(query(f"SELECT i FROM b WHERE {where}")), [(i,) for i in places], f"text of digits is its number: {where}")
    db.query("CREATE VIRTUAL TABLE huge USING tessera(i INT32 DIMENSION(0, 99, 100), r FLOAT64)")
    db.query("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 63) INSERT INTO huge SELECT i, CASE WHEN i % 2 THEN -1e308 ELSE 1e308 END FROM n")
    same(query("SELECT sum(r), avg(r), total(r), min(r), max(r), count(r) FROM huge"), [(None, None, None, -1e308, 1e308, 64)], "partial sums pass the doubles on both sides")
    same(query("SELECT sum(r), avg(r) FROM huge WHERE i % 2 = 0"), [(float("inf"), float("inf"))], "partial sums pass the doubles on one side")
    same(query("SELECT sum(r), avg(r) FROM huge WHERE i < 1"), [(1e308, 1e308)], "one of them")
    db.query("CREATE TABLE places(label TEXT)")
    db.query("INSERT INTO places VALUES('1')")
    text = "SELECT day/4 AS part, count(*) AS n FROM t GROUP BY 1"
    db.query(f"CREATE TEMP VIEW v AS {text}")
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
    join = "SELECT count(*) FROM {} x JOIN places ON x.part = places.label"
    same((db.value(join.format("v")), db.value(join.format("q"))), (1, 0), "an expression beside a column of TEXT")
    db.close()


def both_ways(db, text, outers):
    """Compares a view and a query of the same text in statements around them, in which TABLE_ stands for either."""
    db.query(f"CREATE TEMP VIEW both_v AS {text}")
    db.query(f"CREATE VIRTUAL TABLE temp.both_q USING tessera_query({text})")
    rows = 0
    for outer in outers:
        view, table = [sorted(db.query(outer.replace("TABLE_", name)), key=repr) for name in ("both_v", "both_q")]
        same(repr(table), repr(view), f"{text}: {outer}")
        rows += bool(view)
    assert rows > len(outers) * 2 / 3, f"{rows} of {len(outers)} statements around {text} have rows"
    db.query("DROP VIEW both_v")
    db.query("DROP TABLE both_q")


def test_text_keys_beside_numbers_and_dates_find_the_rows_of_the_view():
    """SQLite applies the affinity of the other side to the key, which the constraint's value does not show."""
    if absent():
        return
    db = opened()
    db.query("CREATE TABLE o(i INTEGER, r REAL, any, d DATE, x TEXT)")
    for n in range(1, 14):
        db.query("INSERT INTO o VALUES(?, ?, ?, ?, ?)", (n, float(n), f"{n:02}" if n % 2 else n, n if n % 3 else f"2020-{n % 12 + 1:02}-01", f"{n:02}"))
    outers = [f"SELECT * FROM TABLE_ WHERE k {op} (SELECT {column} FROM o WHERE i > 2)" for op in ("IN", "NOT IN") for column in ("i", "r", "any", "CAST(i AS TEXT)", "i + 0", "printf('%02d', i)")]
    outers += ["SELECT * FROM TABLE_ WHERE k IN (SELECT d FROM o)"]   # none of the dates is a month, and all are numbers' columns
    outers += [f"SELECT o.i, t.* FROM o JOIN TABLE_ t ON t.k {op} o.{column}" for op in ("<", "<=", ">", ">=", "=") for column in ("d", "i", "r", "any")]
    outers += ["SELECT * FROM TABLE_ WHERE k IN ('03', '04', NULL, 'x')", "SELECT * FROM TABLE_ WHERE k IN ('03')", "SELECT * FROM TABLE_ WHERE k IN (3, '04')", "SELECT * FROM TABLE_ WHERE k >= '06' AND k < '1'"]
    both_ways(db, "SELECT strftime('%m', day) AS k, count(*) AS n FROM s GROUP BY 1", outers)
    db.query("CREATE VIRTUAL TABLE named USING tessera(name TEXT DIMENSION, v INT32)")
    db.query("INSERT INTO named VALUES('012', 1), ('12', 2), ('5', 3), ('abc', 4), ('2020-05-01', 5)")
    outers = [f"SELECT * FROM TABLE_ WHERE name {op} (SELECT {column} FROM o)" for op in ("IN", "NOT IN") for column in ("i", "r", "any", "d")] + ["SELECT o.i, t.* FROM o JOIN TABLE_ t ON t.name = o.i", "SELECT * FROM TABLE_ WHERE name IN ('5', 'abc', 'zz')"]
    both_ways(db, "SELECT name, v FROM named", outers)
    both_ways(db, "SELECT name, sum(v) FROM named GROUP BY name", outers)
    db.close()


def test_a_list_leaves_out_other_tiles():
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT day/4 AS part, count(*) AS n FROM t WHERE temp > 275 GROUP BY 1)")
    for condition, tiles in (("part IN (1, 3)", 4), ("part IN (SELECT 5)", 2), ("part IN (1.0, 77)", 2)):
        db.query("SELECT tessera_reset_stats()")
        rows = db.query(f"SELECT part, n FROM q WHERE {condition}")
        assert 1 <= len(rows) <= 2, (condition, rows)
        same(db.value("SELECT sum(value) FROM tessera_stats WHERE name IN ('tiles_read', 'tiles_cached')"), tiles, condition)
    db.close()


def test_datetimes_compare_by_instants_where_the_table_does():
    if absent():
        return
    os.chdir(host.FOLDER)
    db = Database()
    db.query("CREATE VIRTUAL TABLE log USING tessera(day DATE DIMENSION, n INT32, at DATETIME_SEC)")
    db.query("CREATE VIRTUAL TABLE held USING tessera(kind=dense, hour DATETIME_HR DIMENSION('2024-01-01 00', '2024-01-04 23', 24), n INT32)")
    for i in range(8):
        db.query("INSERT INTO log VALUES(date('2024-01-01', ?), ?, datetime('2024-01-01', ?))", (f"{i} days", i, None if i == 3 else f"{i * 12} hours"))
    db.query("INSERT INTO held WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 95) SELECT strftime('%Y-%m-%d %H', '2024-01-01', i || ' hours'), i FROM c")
    near = ["'2024-01-03'", "'2024-01-03 00:00:00'", "'2024-01-03T00:00Z'", "'2024-01'", "'2024'", "datetime('2024-01-03')", "'2024-01-0' || '3'", "'nonsense'", "NULL", "'2024-01-03 00'"]
    rows = 0
    for column, source in (("day", "log"), ("at", "log"), ("hour", "held")):
        for value in near:
            for term in host.sampled((f"{column} >= {value}", f"{column} < {value}", f"{value} >= {column}", f"{column} = {value}", f"{column} IS {value}", f"{column} <> {value}", f"{column} IN ({value}, '2024-01-05 00:00')", f"{column} IN ({value})",
                         f"{column} BETWEEN '2024-01-02 00:00' AND {value}", f"{column} NOT BETWEEN {value} AND '2024-01-04 00:00'", f"CASE WHEN {column} >= {value} THEN n > 1 ELSE n < 3 END", f"NOT {column} < {value}", f"n > 1 AND ({column} > {value} AND n < 70)")):
                for text in (f"SELECT {column}, n FROM {source} WHERE {term}", f"SELECT n/4, count(*) FROM {source} WHERE {term} GROUP BY 1"):
                    found, view = sorted(rows_of(db, text), key=repr), sorted(db.query(text), key=repr)
                    same(found, view, text)
                    rows += len(view)
            db.query(f"CREATE TEMP VIEW v AS SELECT {column}, n FROM {source}")
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT {column}, n FROM {source})")
            for term in (f"{column} >= {value}", f"{column} < {value} AND n > 1", f"{column} = {value}", f"{column} IS {value}", f"{column} IN ({value}, '2024-01-05 00:00')", f"{column} BETWEEN '2024-01-02 00:00' AND {value}"):
                view, found = [sorted(db.query(f"SELECT * FROM {name} WHERE {term}"), key=repr) for name in "vq"]
                same(found, view, f"around a query of cells: {term}")
                rows += len(view)
            if "NULL" not in value and "(" not in value:
                for term, bound in ((f"{column} > ?", [value[1:-1]]), (f"{column} IN (?, ?)", [value[1:-1], "2024-01-02"]), (f"{column} = ?", [value[1:-1]])):
                    view, found = [sorted(db.query(f"SELECT * FROM {name} WHERE {term}", bound), key=repr) for name in "vq"]
                    same(found, view, f"around a query of cells: {term}, {bound}")
            db.query("DROP TABLE temp.q")
            db.query("DROP VIEW v")
    assert rows > host.rounds(3000), rows
    db.close()


def plans_of(db):
    return {"keys": "SELECT day/4 AS part, lat, avg(temp) AS mean, count(*) AS n FROM t WHERE temp > 271 GROUP BY 1, 2", "hashed": "SELECT floor(temp/3)*3 AS bin, sum(n) AS s FROM t GROUP BY 1",
            "cells": "SELECT day, lat, temp - 273.15 AS c FROM t WHERE lat < lon", "labels": "SELECT upper(wind) AS w, strftime('%m', day) AS month, max(v) AS most FROM s GROUP BY 1, 2",
            "sets": "SELECT lat, count(DISTINCT name), sum(DISTINCT n % 7) FROM t GROUP BY lat HAVING count(*) > 1 ORDER BY 2, 1", "extremes": "SELECT lat, max(temp), day, name FROM t WHERE lon <> 2 GROUP BY lat",
            "joined": "SELECT a.day AS day, max(a.temp + b.temp) AS most, count(b.n) AS n FROM t a LEFT JOIN t b ON b.day = a.day / 2 AND b.lat = a.lat AND b.lon = a.lon GROUP BY 1",
            "ranged": "SELECT b.name AS name, a.lat AS lat, sum(a.temp * b.n) AS s, max(b.n) AS m FROM t a JOIN t b ON a.day BETWEEN b.day AND b.day + 1 AND a.lat >= b.lat AND b.n % 7 = 0 GROUP BY 1, 2"}


def test_numbers_in_a_list_beside_a_datetime_are_texts():
    """SQLite makes texts of them, by the affinity of the column, so 1970 is the first instant of that year."""
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE d USING tessera(day DATE DIMENSION, k INT32 DIMENSION, week DATETIME_WEEK, year DATETIME_YEAR)")
    db.query("INSERT INTO d VALUES('1970-01-01', 0, '1970-01-01', '1970'), ('1971-01-01', 1, NULL, NULL), ('1972-01-01', 2, '1969-12-25', '1971')")
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, k INT32 DIMENSION(0, 2, 3) LABEL noon DATE, x INT32)")
    db.query("SELECT tessera_write_label('db:g', 'noon', '[\"1970-01-01\",\"1971-01-01\",\"1971-01-02\"]')")
    db.query("INSERT INTO g(k, x) VALUES(0, 5), (1, 6), (2, 7)")
    for column in ("day", "week", "year", "noon"):
        for where in ("{} IN ('A', 1970)", "{} IN (1971, 1970.0)", "{} IN (1969 + 1, 2)", "{} IN (NULL, 1970)", "{} NOT IN ('A', 1970)", "k = 9 OR {} IN ('A', 1970)", "{} IN ('1970', 1971)"):
            text = f"SELECT k FROM {'g' if column == 'noon' else 'd'} WHERE {where.format(column)}"
            same(sorted(rows_of(db, text)), sorted(db.query(text)), text)
    db.close()


def test_a_query_can_be_stopped_at_any_of_its_calls():
    if absent():
        return
    db = opened()
    for name, text in plans_of(db).items():
        db.query(f"CREATE VIRTUAL TABLE temp.{name} USING tessera_query(threads=1, {text})")
        sql = f"SELECT * FROM {name}"
        wanted = sorted(map(repr, db.query(sql)))
        calls, stop = 0, 0

        def handler():
            nonlocal calls
            calls += 1
            return calls == stop
        db.raw.set_progress_handler(handler, 1)
        db.query(sql)
        most = calls
        stopped = 0
        for stop in sorted({*range(1, min(most, 40)), *range(1, most, max(most // 60, 1))}):
            calls = 0
            try:
                same(sorted(map(repr, db.query(sql))), wanted, f"{text}, stopped at {stop}")
            except Error as e:
                assert e.code in (None, INTERRUPT), f"{text}, stopped at {stop}: {e} ({e.code})"
                stopped += 1
        db.raw.set_progress_handler(None, 0)
        assert stopped > most // 2 or stopped > 40, f"{text}: stopped {stopped} times of {most}"
        same(sorted(map(repr, db.query(sql))), wanted, f"{text}, afterwards")
    db.close()


def test_little_memory_is_an_error_and_changes_nothing():
    if absent():
        return
    db = opened()
    failures = worked = 0
    for name, text in plans_of(db).items():
        db.query(f"CREATE VIRTUAL TABLE temp.{name} USING tessera_query({text})")
        wanted = sorted(map(repr, db.query(f"SELECT * FROM {name}")))
        for limit in (2_000, 10_000, 40_000, 100_000, 300_000, 1_000_000, 3_000_000, 30_000_000):
            set_heap_limit(host.memory_used() + limit)
            try:
                found = sorted(map(repr, db.query(f"SELECT * FROM {name}")))
                same(found, wanted, f"{text}, {limit} bytes")
                worked += 1
            except Error as e:
                assert e.code in (None, NOMEM) or "memory" in (e.text or ""), f"{text}, {limit} bytes: {e} ({e.code})"
                failures += 1
            finally:
                set_heap_limit(0)
    same(failures > 3 and worked > 3, True, f"{failures} failures, {worked} successes")
    db.close()


def test_damaged_files_are_errors():
    if absent():
        return
    db = opened(True)
    texts = plans_of(db)
    wanted = {name: sorted(map(repr, db.query(text))) for name, text in texts.items()}
    db.close()
    errors = 0
    for kind in ("cut", "change", "remove"):
        for array in ("t", "s"):
            where = os.path.join(host.FOLDER, array, "__fragments")
            fragment = os.path.join(where, sorted(os.listdir(where))[0])
            for file in sorted(os.listdir(fragment)):
                path = os.path.join(fragment, file)
                with open(path, "rb") as f:
                    bytes_ = f.read()
                if kind == "remove":
                    os.rename(path, path + ".away")
                else:
                    at = len(bytes_) // 2
                    with open(path, "wb") as f:
                        f.write(bytes_[:at] if kind == "cut" else bytes_[:at] + bytes([bytes_[at] ^ 0x55]) + bytes_[at + 1:] if bytes_ else b"x")
                for text in host.sampled(texts.values()):
                    db = Database("a.db")
                    try:
                        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
                        db.query("SELECT * FROM q")
                    except Error as e:
                        errors += 1
                        assert e.text and "internal" not in e.text.lower(), f"{kind} {file}: {e}"
                    db.close()
                if kind == "remove":
                    os.rename(path + ".away", path)
                else:
                    with open(path, "wb") as f:
                        f.write(bytes_)
    assert errors > host.rounds(20), errors
    db = Database("a.db")
    for name, text in texts.items():
        db.query(f"CREATE VIRTUAL TABLE temp.{name} USING tessera_query({text})")
        same(sorted(map(repr, db.query(f"SELECT * FROM {name}"))), wanted[name], f"{text}, restored") if name in ("cells", "labels") else None
    db.close()


def test_a_table_outlives_its_array_and_is_dropped():
    if absent():
        return
    db = opened(True)
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT day/4 AS part, count(*) AS n FROM t GROUP BY 1)")
    db.query("CREATE VIEW over AS SELECT max(n) AS most FROM q")
    same(db.value("SELECT most FROM over"), 120, "through a view")
    db.close()
    db = Database("a.db")
    same(db.value("SELECT sum(n) FROM q"), 1200, "opened again")
    db.query("BEGIN")
    db.query("INSERT INTO t(day, lat, lon, temp) VALUES(0, 0, 0, 1)")
    same(db.value("SELECT sum(n) FROM q"), 1200, "rows of the transaction")
    db.query("ROLLBACK")
    for sql in ("INSERT INTO q VALUES(1, 2)", "DELETE FROM q", "UPDATE q SET n = 1"):
        db.error(sql)
    db.query("ALTER TABLE t RENAME TO other")
    check_contains(db.error("SELECT * FROM q").text, "no such table")
    db.query("ALTER TABLE other RENAME TO t")
    same(db.value("SELECT sum(n) FROM q"), 1200, "renamed back")
    db.query("VACUUM INTO 'b.db'")
    db.query("DROP TABLE t")
    check_contains(db.error("SELECT * FROM q").text, "no such table")
    db.close()
    db = Database("a.db")
    check_contains(db.error("SELECT * FROM q").text, "no such table")
    db.query("DROP VIEW over")
    db.query("DROP TABLE q")
    same(db.query("SELECT name FROM sqlite_schema WHERE name LIKE 'q%'"), [], "what is left")
    db.error("CREATE VIRTUAL TABLE self USING tessera_query(SELECT count(*) FROM self)")
    db.close()
    same(Database("b.db").value("SELECT sum(n) FROM q") if os.path.exists("t") else 1200, 1200, "a copy of the database")
    shutil.rmtree(os.path.join(host.FOLDER, "t"), ignore_errors=True)


def rows_of(db, text):
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
    try:
        return db.query("SELECT * FROM q")
    finally:
        db.query("DROP TABLE temp.q")


def test_columns_beside_one_extreme_are_those_of_its_row():
    """Of equal extremes the row with the least coordinates counts. 36 cells of t have the greatest temp."""
    if absent():
        return
    db = opened()
    order = "temp DESC, day, lat, lon"
    same(rows_of(db, "SELECT day, lat, lon, name, max(temp), count(*) FROM t"), [db.query(f"SELECT day, lat, lon, name, temp, 1200 FROM t ORDER BY {order} LIMIT 1")[0]], "the whole array")
    same(rows_of(db, "SELECT lat, day * 100 + lon AS place, min(temp) FROM t WHERE day > 3 GROUP BY lat ORDER BY lat"),
         [db.query("SELECT lat, day * 100 + lon, temp FROM t WHERE day > 3 AND lat = ? ORDER BY temp, day, lat, lon LIMIT 1", (lat,))[0] for lat in range(-3, 3)], "an expression of two columns, by lat")
    same(rows_of(db, "SELECT upper(name), max(temp) FILTER (WHERE n % 2) AS most FROM t"), [db.query(f"SELECT upper(name), temp FROM t WHERE n % 2 ORDER BY {order} LIMIT 1")[0]], "FILTER")
    same(rows_of(db, "SELECT day, max(temp) AS most, max(temp) - 270 FROM t GROUP BY lat HAVING lon >= 0 ORDER BY day DESC, max(temp) LIMIT 1")[0][1:], (288.0, 18.0), "HAVING and ORDER BY of such columns")
    same(rows_of(db, "SELECT day, wind, max(v) FROM s"), [("2021-02-17", "calm", 14.75)], "a label")
    same(rows_of(db, "SELECT day, x, max(v) FROM s WHERE v > 1000"), [(None, None, None)], "no row")
    same(rows_of(db, "SELECT day, name, max(nullif(temp, temp)) FROM t GROUP BY 1"), db.query("SELECT day, name, max(nullif(temp, temp)) FROM t GROUP BY 1"), "an extreme that is null")
    for text in ("SELECT lon, min(temp), max(temp) FROM t", "SELECT lon, max(temp) FROM t GROUP BY day HAVING max(n) > 3", "SELECT lon, sum(temp) FROM t"):
        check_contains(refusal(db, text), "'lon' is neither a key of GROUP BY nor in an aggregate")
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT lon, lat, max(temp) FROM t GROUP BY lat)")
    same(db.query("SELECT count(*) FROM q WHERE lon = 0 AND lat = 0"), db.query("SELECT count(*) FROM (SELECT * FROM q) WHERE +lon = 0 AND lat = 0"), "a constraint on such a column leaves out no cells")
    db.close()


def test_values_of_a_dimension_may_be_integer_and_real():
    if absent():
        return
    db = opened()
    mixed = "CASE WHEN lat > 0 THEN lat * 2 WHEN lat < -1 THEN NULL ELSE 0.5 END"
    for text in (f"SELECT lon, sum({mixed}), min({mixed}), max({mixed}), count({mixed}), total({mixed}) FROM t GROUP BY 1", f"SELECT day, sum({mixed}) FILTER (WHERE lat <> 0 AND lat <> -1) FROM t GROUP BY 1",
                 f"SELECT lon, avg(temp * ({mixed})) FROM t WHERE {mixed} > 0.5 OR n % 7 = 0 GROUP BY 1", f"SELECT day, lat, lon, {mixed} FROM t WHERE day < 3", f"SELECT max(temp + ({mixed})) FROM t",
                 f"SELECT day, CASE WHEN n % 2 THEN {mixed} ELSE 7.5 END FROM t WHERE lat >= lon"):
        found, view = rows_of(db, text), db.query(text)
        same([[type(v) for v in row] for row in sorted(found, key=str)], [[type(v) for v in row] for row in sorted(view, key=str)], text)
        for row, right in zip(sorted(found, key=str), sorted(view, key=str)):
            assert all(a == b or abs(a - b) <= 1e-12 * abs(b) for a, b in zip(row, right)), f"{text}: {row}, not {right}"
    check_contains(refusal(db, "SELECT sum(CASE WHEN lat > 0 THEN 9007199254740993 ELSE 0.5 END) FROM t"), "INTEGER past 2^53 in one branch")
    check_contains(refusal(db, "SELECT max(CASE WHEN lat > 0 THEN 'a' ELSE 0.5 END) FROM t"), "TEXT in another")
    db.close()


def test_a_star_names_the_column_that_a_query_does_not_show():
    db = opened()
    db.query("CREATE VIRTUAL TABLE several USING tessera(x INT32 DIMENSION, v FLOAT32[3])")
    db.query("INSERT INTO several VALUES(1, '[1, 2, 3]')")
    check_contains(refusal(db, "SELECT * FROM several"), "'*' (character 8): v has several values in a cell, or bytes")
    db.close()


def test_a_text_alone_is_no_condition():
    """SQLite takes the number that the text begins with. The engine has no such numbers, so it must not answer."""
    if absent():
        return
    db = opened()
    for term in ("name", "likely(name)", "max(name, 'w')", "iif(n > 5, name, 'x')"):
        for text in (f"SELECT count(*) FROM t WHERE {term}", f"SELECT day FROM t WHERE {term}", f"SELECT count(*) FILTER (WHERE {term}) FROM t"):
            check_contains(refusal(db, text), "a text is not a condition")
    check_contains(refusal(db, "SELECT count(*) FROM s WHERE wind"), "a text is not a condition")
    same(rows_of(db, "SELECT count(*) FROM t WHERE name > 'w2'"), [(300,)], "a comparison")
    db.close()


def refusal(db, text):
    """Returns the words by which a text is refused, when the table is made or read."""
    try:
        found = rows_of(db, text)
    except Error as e:
        return e.text
    raise AssertionError(f"{text}: {found[:3]}")


def test_expressions_of_datetimes_show_as_the_datetimes_do():
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE d USING tessera(x INT32 DIMENSION(0, 99, 10), a DATE, b DATE, h DATETIME_HR)")
    for x in range(20):
        db.query("INSERT INTO d VALUES(?, date('2020-01-01', ?), date('2021-06-05', ?), ?)", (x, f"{x % 7} days", f"{-x % 3} days", f"2001-01-01 {x:02}"))
    for value in ("+a", "likely(a)", "min(a, b)", "coalesce(a, b)", "iif(x > 9, a, b)", "CASE WHEN h < '2001-01-01 03' THEN a ELSE b END", "CASE WHEN x > 3 THEN h END", "nullif(a, b)"):
        for text in (f"SELECT {value} FROM d", f"SELECT {value}, count(*) FROM d GROUP BY 1", f"SELECT min({value}), max({value}) FROM d", f"SELECT {value}, x FROM d ORDER BY 1 DESC, 2 LIMIT 7"):
            same(sorted(rows_of(db, text), key=repr), sorted(db.query(text), key=repr), text)
    db.close()


def test_a_null_on_either_side_of_is_finds_datetimes_that_are_null():
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE d USING tessera(x INT32 DIMENSION(0, 99, 10), a DATE, t TIME_SEC)")
    db.query("INSERT INTO d VALUES(1, NULL, '05:00:00'), (2, '2024-01-01', NULL), (3, NULL, NULL)")
    for value in ("a", "t"):
        for form in ("NULL IS {}", "NULL IS NOT {}", "{} IS NULL", "(NULL) IS {}", "{} IS NOT DISTINCT FROM nullif(1, 1)", "nullif(1, 1) IS DISTINCT FROM {}", "NOT {} IS NULL"):
            text = "SELECT x FROM d WHERE " + form.format(value)
            try:
                expected = db.query(text)
            except Error:   # this SQLite has no DISTINCT FROM
                continue
            same(sorted(rows_of(db, text)), sorted(expected), text)
    db.close()


def test_kept_groups_show_datetimes_as_the_table_does():
    """Groups that are kept for the scans of an inner loop have the form of the table's option."""
    if absent():
        return
    db, place = Database(), f"{host.FOLDER}/datetimes_{host.binding}"
    db.query(f"CREATE VIRTUAL TABLE made USING tessera('{place}', x INT32 DIMENSION(0, 9, 3), dt DATE, t TIME_SEC)")
    db.query("INSERT INTO made VALUES(0, '2024-01-05', '05:00:00'), (1, NULL, NULL)")
    db.query("CREATE TABLE o(k)")
    db.query("INSERT INTO o WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80) SELECT i % 2 FROM n")
    for option in ("iso", "integer"):
        db.query(f"CREATE VIRTUAL TABLE d USING tessera('{place}', datetimes={option})")
        db.query("CREATE VIRTUAL TABLE m USING tessera_query(SELECT x, max(dt) AS d, min(t) AS t FROM d GROUP BY x)")
        same(db.query("SELECT k, m.d, m.t, count(*) FROM o LEFT JOIN m ON m.x = o.k GROUP BY 1, 2, 3"), db.query("SELECT x, dt, t, 40 FROM d ORDER BY x"), option)
        db.query("DROP TABLE m")
        db.query("DROP TABLE d")
    db.close()


def test_a_dropped_attribute_is_an_error_as_in_the_table():
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE d USING tessera(x INT32 DIMENSION, a INT32, b INT32)")
    db.query("INSERT INTO d VALUES(1, 5, 6)")
    db.query("CREATE VIRTUAL TABLE qa USING tessera_query(SELECT sum(a) FROM d)")
    db.query("CREATE VIRTUAL TABLE qb USING tessera_query(SELECT sum(b) FROM d)")
    same(db.query("SELECT * FROM qa, qb"), [(5, 6)])
    db.query("SELECT tessera_drop_attribute('db:d', 'a')")
    check_contains(db.error("SELECT * FROM qa").text, "the attribute a has been dropped: open the database again")
    check_contains(db.error("SELECT tessera_npy('SELECT x, sum(a) FROM d GROUP BY x')").text, "the attribute a has been dropped")
    same(db.query("SELECT * FROM qb"), [(6,)])
    db.close()


def test_comparisons_of_a_dimension_of_uint64_find_their_cells():
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE u USING tessera(k UINT64 DIMENSION(0, 1000000, 100), a INT32)")
    db.query("INSERT INTO u WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 299) SELECT i * 7, i FROM c")
    for where in ("k >= 600", "k > 600.5", "k BETWEEN 81 AND 610", "k = 70", "k > 5 AND k < 900", "600 < k", "k <= 14", "k <> 7", "k IN (7, 14, 15)", "k > '600'", "k < 'a'"):
        for text in (f"SELECT count(*), max(a) FROM u WHERE {where}", f"SELECT k/100, sum(a) FROM u WHERE {where} GROUP BY 1"):
            same(sorted(rows_of(db, text)), sorted(db.query(text)), text)
    db.close()


def test_cells_whose_code_has_no_label_are_null():
    if absent():
        return
    db = Database()
    db.table("e", host.corpus("new/enums/dense"))   # a_empty is enumerated and not nullable, and its enumeration is empty
    for where in ("a_empty IS NULL", "coalesce(a_empty, 7) = 7", "a_empty IS NULL AND r > 1", "a_empty IS NOT NULL OR n_int IS NULL", "CASE WHEN a_empty IS NULL THEN r ELSE 0 END > 3"):
        for text in (f"SELECT count(*) FROM e WHERE {where}", f"SELECT {where}, count(*) FROM e GROUP BY 1", f"SELECT count(*) FILTER (WHERE {where}) FROM e"):
            same(sorted(rows_of(db, text)), sorted(db.query(text)), text)
    db.close()


def test_what_a_cast_is_compared_with_takes_its_affinity():
    if absent():
        return
    db = opened()
    for text in ("SELECT CAST(lat AS TEXT) AS k, count(*) FROM t GROUP BY 1 HAVING k <> 1", "SELECT CAST(lat AS TEXT) AS k, count(*) FROM t GROUP BY 1 HAVING k = 1", "SELECT CAST(substr(day, 1, 1) AS INTEGER) AS k, count(*) FROM t GROUP BY 1 HAVING k = '3'",
                 "SELECT CAST(substr(day, 1, 1) AS NUMERIC) AS k, count(*) FROM t GROUP BY 1 ORDER BY k IN ('2', '3'), k", "SELECT CAST(temp AS INTEGER) AS k, count(*) FROM t GROUP BY 1 HAVING k > '275'"):
        same(sorted(rows_of(db, text)), sorted(db.query(text)), text)
    make_casts(db)
    for condition, message in CASTS:   # SQLite converts the texts of the column, or compares them with a blob
        if message:
            check_contains(refusal(db, f"SELECT n FROM c WHERE {condition}"), message)
        else:
            same(sorted(rows_of(db, f"SELECT n FROM c WHERE {condition}")), sorted(db.query(f"SELECT n FROM c WHERE {condition}")), condition)
    db.close()


def make_casts(db):
    db.query("CREATE VIRTUAL TABLE c USING tessera(x INT32 DIMENSION(0, 9, 10), name TEXT, n INT32)")
    for n, name in enumerate(("5", "05", "5.0", "A", "10", None)):
        db.query("INSERT INTO c(x, name, n) VALUES (?, ?, ?)", (n, name, n))


NUMBER_AND_TEXT, BLOBS = "compares a number with text", "blobs"
CASTS = [("name = CAST('5' AS INTEGER)", NUMBER_AND_TEXT), ("CAST('9' AS REAL) > name", NUMBER_AND_TEXT), ("name BETWEEN CAST(4 AS NUMERIC) AND CAST(9 AS NUMERIC)", NUMBER_AND_TEXT), ("name IS NOT CAST('5' AS INTEGER)", NUMBER_AND_TEXT),
         ("CASE name WHEN CAST('5' AS INTEGER) THEN 1 ELSE 0 END", NUMBER_AND_TEXT), ("name = CAST('A' AS BLOB)", BLOBS), ("name < coalesce(CAST('A' AS BLOB), 1)", BLOBS), ("name = CAST(5 AS TEXT)", None), ("name = +CAST('5' AS INTEGER)", None),
         ("name > CAST(5 AS TEXT)", None), ("name IN (CAST('5' AS INTEGER))", None), ("name IN (CAST('5' AS INTEGER), 'A')", None), ("name = CAST(NULL AS BLOB)", None), ("n = CAST('5' AS TEXT)", None), ("n < CAST('3.5' AS REAL)", None)]


def test_words_that_begin_like_constants_are_names():
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE c USING tessera(x INT32 DIMENSION(0, 9, 10), current_speed FLOAT64, current_ INT32)")
    db.query("INSERT INTO c(x, current_speed, current_) VALUES (1, 2.5, 3), (2, NULL, 4)")
    for text in ("SELECT x, current_speed FROM c WHERE current_ > 2", "SELECT current_, avg(current_speed) FROM c GROUP BY current_", "SELECT x FROM c WHERE current_timestamp > '2000' AND current_date > current_time", "SELECT x FROM c WHERE Current_Speed IS NOT NULL IS TRUE"):
        same(sorted(rows_of(db, text)), sorted(db.query(text)), text)
    db.close()


def test_the_negative_of_zero_is_zero():
    """SQLite subtracts from 0."""
    if absent():
        return
    db = opened()
    db.query("UPDATE t SET temp = 0.0 WHERE lat > 0")
    for text in ("SELECT atan2(-temp, -1.0), power(-(temp), -1.0) FROM t", "SELECT atan2(-temp, -1.0) AS k, count(*) FROM t GROUP BY 1", "SELECT max(power(-coalesce(temp, 1.0), -3)) FROM t"):
        same(sorted(rows_of(db, text)), sorted(db.query(text)), text)
    db.close()


def test_counters_say_who_evaluated_what():
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT day/4 AS part, lat, count(*) AS n, avg(temp) AS mean FROM t WHERE lat%2 = 0 AND temp + n > 0 GROUP BY 1, 2)")

    def counted(sql):
        db.query("SELECT tessera_reset_stats()")
        db.query(sql)
        stats = dict(db.query("SELECT name, value FROM tessera_stats"))
        return tuple(stats[name] for name in ("coordinates_evaluated", "cells_computed", "groups_made"))
    same(counted("SELECT * FROM q"), (46, 600, 30), "40 days and 6 latitudes; 40 x 3 x 5 cells; 10 x 3 groups")
    same(counted("SELECT * FROM q WHERE part = 2"), (46, 60, 3), "a comparison of the statement around leaves coordinates out")
    same(counted("EXPLAIN QUERY PLAN SELECT * FROM q"), (0, 0, 0), "nothing is evaluated for a plan")
    db.close()


def test_tiles_that_are_taken_whole_count_what_their_cells_say():
    """Statistics decide a tile only if they are certain: not <> of a value between their ends, and not where a null is among the cells."""
    if absent():
        return
    db = Database()
    for name, columns in (("grid", "kind=dense, k INT32 DIMENSION(0, 399, 20)"), ("points", "k INT32 DIMENSION(0, 399), capacity=20")):
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({columns}, v INT32, f FLOAT64, w INT32 NOT NULL)")
        db.query(f"INSERT INTO {name} WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 399) "
                 "SELECT i, CASE WHEN i / 20 % 3 = 0 AND i % 4 = 0 THEN NULL ELSE i * 7 % 40 + i / 20 * 100 END, CASE WHEN i / 20 % 4 = 0 AND i % 5 = 0 THEN NULL ELSE i / 2.0 END, i / 20 * 100 + i % 20 FROM c")
        taken = 0
        for where in ("1", "v <> 105", "105 <> v", "v <> 107", "v <> -1", "w <> 310", "w <> 320", "310 <> w", "f <> 7.0", "f <> 20.5", "f <> 1e9", "v >= 0", "v > 250", "f > -1.0", "v IS NOT NULL", "f IS NOT NULL", "w >= 300 AND v <> 1905",
                      "w <> 310 OR v > 0", "v < 1e6", "f <= 200.0"):
            text = f"SELECT count(*) AS n, count(v) AS nv, count(f) AS nf, min(v) AS low, max(w) AS high, sum(v) AS s FROM {name} WHERE {where}"
            db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
            before = db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_skipped_by_value'")
            same(db.query("SELECT * FROM q"), db.query(text), (name, where))
            taken += db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_skipped_by_value'") - before
            db.query("DROP TABLE q")
        assert taken > 0, "no tile was decided by its statistics"


def test_statistics_of_tiles_compare_integers_with_reals():
    """Each tile has one value, so its statistics decide; the constant may be of the other type."""
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 99, 10), v INT32, r FLOAT64, capacity=10)")
    db.query("INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) SELECT i, i / 10, i / 10 FROM n")
    for operation in ("=", "<", "<=", ">", ">=", "<>"):
        for left, right in (("v", "5.0"), ("r", "5"), ("5.0", "v"), ("5", "r"), ("v", "5.5"), ("v", "0.0"), ("r", "9"), ("v", "-9223372036854775808.0")):
            text = f"SELECT count(*), sum(v) FROM t WHERE {left} {operation} {right}"
            db.query("DROP TABLE IF EXISTS q")
            db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
            same(db.query("SELECT * FROM q"), db.query(text), text)
    db.close()


def test_columns_are_spelled_as_in_the_table():
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(Low INT32 DIMENSION(0, 9, 10), High INT32)")
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT LOW, high, count(*), low AS LoW FROM t GROUP BY 1, 2)")
    same([row[1] for row in db.query("PRAGMA table_info(q)")], ["Low", "High", "count(*)", "LoW:1"])
    db.close()


def test_conditions_with_or_find_each_group():
    """SQLite may answer OR by several scans, and takes rows of equal rowids for one row."""
    if absent():
        return
    db = opened()
    text = "SELECT day/4 AS part, count(*) AS n FROM t GROUP BY 1"
    db.query(f"CREATE TEMP VIEW v AS {text}")
    db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
    for where in ("part > 8.5 OR part BETWEEN 6 AND 6", "part = 1 OR part = 3 OR part = 5", "part < 2 OR n > 100 AND part = 7", "part = 2 OR part IN (4, 6)"):
        same(sorted(db.query(f"SELECT * FROM q WHERE {where}")), sorted(db.query(f"SELECT * FROM v WHERE {where}")), where)
    db.close()


def test_the_groups_are_kept_for_the_scans_of_an_inner_loop():
    """SQLite makes no index on a virtual table: it starts the scan again for each outer row. The array is computed a few times, not once for each of them."""
    if absent():
        return
    db = opened()
    db.query("CREATE TABLE outer_rows(part, other)")
    db.query("INSERT INTO outer_rows WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 599) SELECT CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN i % 12 + 0.0 WHEN 2 THEN CAST(i % 12 AS TEXT) WHEN 3 THEN i % 12 + 0.5 ELSE i % 12 END, i % 9 FROM c")
    for text, key in (("SELECT day/4 AS part, lat, avg(temp) AS mean FROM t GROUP BY 1, 2", "part"), ("SELECT 'n' || day/4 AS part, lat, max(name) AS mean FROM t GROUP BY 1, 2", "part"), ("SELECT CAST(lat AS INT) AS part, day AS lat, sum(n) AS mean FROM t WHERE day < 9 GROUP BY 1, 2", "part")):
        db.query(f"CREATE TEMP VIEW v AS {text}")
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        for on in (f"r.{key} = o.part", f"r.{key} = o.part AND r.lat = o.other", f"r.{key} = 'n' || o.part", f"r.{key} IS o.part", f"r.{key} >= o.part AND r.lat IS o.other", "r.mean > o.part + 265", f"r.{key} = o.part OR r.lat = o.other"):
            sql = f"SELECT o.rowid, o.part, r.part, r.lat, r.mean FROM outer_rows o LEFT JOIN {{}} r ON {on}"
            db.query("SELECT tessera_reset_stats()")
            rows = db.query(sql.format("q"))
            computed = db.value("SELECT value FROM tessera_stats WHERE name = 'groups_made'")
            same(sorted(rows, key=repr), sorted(db.query(sql.format("v")), key=repr), f"{text}: {on}")
            same(computed < 2400, True, f"{text}: {on}: {computed} groups are made")
        db.query("DROP TABLE q")
        db.query("DROP VIEW v")
    db.close()


def test_right_and_full_joins_know_the_rows_that_they_have_matched():
    """SQLite remembers them by their rowids, which must be the same in a scan with constraints and in one without. Equal rows are rows of their own."""
    if absent():
        return
    db = opened()
    db.query("CREATE TABLE o(k, j)")
    db.query("INSERT INTO o VALUES (3, 0), (5, 1), (9, 99), (NULL, 2), (2.0, 1)")
    texts = ["SELECT day/4 AS k, lat AS j, count(*) AS n FROM t GROUP BY 1, 2", "SELECT day/4 AS k, lat%2 AS j, n FROM t WHERE day < 25", "SELECT day%4 AS k, lon/3 AS j FROM t WHERE n%5 = 1 OR lat = 1", "SELECT day/4 AS k, max(lat) AS j FROM t GROUP BY day/4, lon",
             "SELECT wind AS k, x%3 AS j FROM s", "SELECT x%4 AS k, sum(v) AS j FROM s GROUP BY 1", "SELECT day/4 AS k, lat AS j, avg(n) AS m FROM t GROUP BY 1, 2 ORDER BY 3 DESC", "SELECT DISTINCT day/4 AS k, lat%2 AS j FROM t", "SELECT day/4 AS k, lat AS j FROM t ORDER BY n LIMIT 300"]
    for text in texts:
        db.query(f"CREATE TEMP VIEW v AS {text}")
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        outers = ("o", "(SELECT * FROM o UNION ALL SELECT value, value%3 FROM json_each('[0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,2,3,4,5,6]'))")
        conditions = ("r.k = o.k", "r.k = o.k AND r.j >= o.j", "r.j = o.j", "r.k IN (o.k, 1)")
        for kind, on, outer in host.sampled(itertools.product(("RIGHT", "FULL"), conditions, outers)):
            sql = f"SELECT o.k, o.j, r.* FROM {outer} o {kind} JOIN {{}} r ON {on}"
            same(sorted(db.query(sql.format("q")), key=repr), sorted(db.query(sql.format("v")), key=repr), f"{text}: {sql}"[:400])
        db.query("DROP TABLE q")
        db.query("DROP VIEW v")
    db.close()


def test_unqualified_names_mean_what_they_mean_in_a_view():
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE temp.mine USING tessera(x INT32 DIMENSION(0, 9, 5), a INT32)")
    check_contains(db.error("CREATE VIRTUAL TABLE main.q USING tessera_query(SELECT count(*) FROM mine)").text, "no such table")
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT count(*) FROM mine)")
    same(db.query("SELECT * FROM q"), [(0,)], "a table of temp")
    db.query("CREATE VIRTUAL TABLE main.r USING tessera_query(SELECT count(*) AS n FROM t)")
    same(db.query("SELECT * FROM r"), [(1200,)], "a table of main")
    db.query("ATTACH ':memory:' AS more")
    db.query("CREATE VIRTUAL TABLE more.far USING tessera(x INT32 DIMENSION(0, 9, 5), a INT32)")
    db.query("CREATE VIRTUAL TABLE temp.s2 USING tessera_query(SELECT count(*) FROM far)")
    same(db.query("SELECT * FROM s2"), [(0,)], "a table of a database that is attached")
    db.close()


JOINED = [   # texts whose rows are those of the view
    "SELECT c.month, count(*), avg(temp), sum(n) FROM t JOIN months c ON c.day = t.day GROUP BY c.month", "SELECT c.month, count(*), avg(temp), sum(n) FROM t LEFT JOIN months c ON c.day = t.day GROUP BY 1",
    "SELECT season, max(temp - limits.most), count(*) FROM t JOIN months c ON c.day = t.day LEFT JOIN limits ON limits.lat = t.lat GROUP BY season", "SELECT t.day, t.lat, lon, temp - most AS above FROM t JOIN limits l ON l.lat = t.lat WHERE temp > most",
    "SELECT t.day, lon, season FROM t LEFT JOIN months ON months.day = t.day WHERE season IS NULL AND lat = 0", "SELECT count(*) FROM t JOIN months ON months.day = t.day", "SELECT count(*) FROM t LEFT JOIN months ON months.day = t.day",
    "SELECT count(*) FROM t INNER JOIN months c ON t.day = c.day AND c.season = 'winter' WHERE temp > 275", "SELECT * FROM t JOIN months ON t.day/1 = months.day WHERE lat = 1 AND lon < 2", "SELECT c.* FROM t JOIN months c ON c.day = t.day",
    "SELECT c.month, avg(temp) AS mean FROM t JOIN months c ON c.day = t.day GROUP BY 1 HAVING c.month > 3 ORDER BY c.month DESC LIMIT 2", "SELECT DISTINCT season, lat FROM t LEFT JOIN months c ON c.day = t.day",
    "SELECT sum(CASE WHEN season = 'summer' THEN n END), sum(n * most), min(most || season), c.day FROM t JOIN months c ON c.day = t.day JOIN limits m ON m.lat = c.day - 3 GROUP BY c.day", "SELECT t.day, i3, r0 FROM t JOIN slots s ON s.i3 = t.day",
    "SELECT c.month AS m, avg(temp - mean) FROM t LEFT JOIN months c ON c.day = t.day LEFT JOIN daily ON daily.day = t.day GROUP BY m", "SELECT t.day, temp - daily.mean AS anomaly FROM t JOIN daily ON daily.day = t.day WHERE lat = 0",
    "SELECT month + 1, total(temp) FILTER (WHERE temp > most) FROM t JOIN months USES ON USES.day = t.day JOIN limits ON limits.lat = t.lat WHERE month BETWEEN 2 AND 4 GROUP BY 1", "SELECT count(*) FROM t JOIN months c ON c.day = t.day AND c.day > 1000",
    "SELECT wide.v, count(*) FROM t JOIN wide ON wide.k = 'd' || t.day GROUP BY 1", "SELECT wide.v + temp FROM t LEFT JOIN wide ON wide.k = 'd' || t.day WHERE lon = 0 AND lat = 0", "SELECT c.month, count(*) FROM t JOIN months c ON c.day = t.day WHERE 0 GROUP BY 1"]
UNJOINED = [   # the text, a part of its error
    ("SELECT t.day FROM t JOIN months", "a join without ON"), ("SELECT t.day FROM t CROSS JOIN months", "joins other than"), ("SELECT t.day FROM t, months", "a comma join needs table.column = expression among the terms of WHERE"), ("SELECT lon FROM t NATURAL JOIN months", "joins other than"),
    ("SELECT lon FROM t JOIN months ON 1", "binds its table to exactly one dimension"), ("SELECT lon FROM t JOIN months ON months.day = t.day + t.lat", "'months.day = t.day + t.lat' (character 34): a join sets columns of its table equal to expressions of one dimension each"), ("SELECT lon FROM t JOIN months ON months.day = temp", "exactly one dimension"),
    ("SELECT lon FROM t JOIN (SELECT 1 AS k) ON k = day", "joins with a SELECT"), ("SELECT lon FROM t JOIN json_each('[1]') ON key = day", "a table that has arguments"), ("SELECT lon FROM t JOIN nosuch ON k = day", "no such table: "),
    ("SELECT t.lon FROM t JOIN s ON s.x = t.day", "not all dimensions bound: 's.x = t.day' (character 31): day"), ("SELECT t.lon FROM t JOIN f5 ON f5.rowid = t.day", "'f5' is a table of another module"), ("SELECT t.lon FROM t JOIN base ON base.lat = t.lat AND month = t.day AND base.lon <= 2 OR 0", "equal to expressions of one dimension each"),
    ("SELECT t.lon FROM t JOIN base ON base.lat = t.lat AND month = t.day", "not all dimensions bound: 'base.lat = t.lat AND month = t.day' (character 34): lon"), ("SELECT t.lon FROM t JOIN base ON base.lat = t.lat AND month = t.day AND base.lon = n", "of one dimension each"),
    ("SELECT t.lon FROM t JOIN base ON base.lat = t.lat AND month = t.day AND base.lon = t.lon AND t.day > 3", "'t.day > 3' (character 94): a join sets"), ("SELECT t.lon FROM t JOIN base ON base.lat = t.lat AND month = t.day AND base.lon = t.lon AND k > temp", "of one dimension each"),
    ("SELECT t.lon FROM t JOIN base ON base.lat = t.lat AND month = t.day AND base.lon = base.month + t.lon", "of one dimension each"),
    ("SELECT lon FROM t JOIN nocase ON k = day", "COLLATE"), ("SELECT nosuch.day FROM t JOIN months ON months.day = t.day", "no such column: nosuch.day"),
    ("SELECT day FROM t JOIN months ON months.day = t.day", "ambiguous column name: day"), ("SELECT season, count(*) FROM t JOIN months ON months.day = t.day", "'season' is neither a key"), ("SELECT upper(season), count(*) FROM t JOIN months ON months.day = temp", "exactly one"),
    ("SELECT lon FROM t JOIN months ON count(*) = t.day", "misuse of aggregate")]


BOXED = [   # the same of joins by several dimensions, and with arrays
    "SELECT t.day, t.lat, t.lon, temp - mean AS anomaly FROM t JOIN clim c ON c.month = t.day/7 + 1 AND c.lat = t.lat AND c.lon = t.lon", "SELECT t.day, t.lat, t.lon, temp - mean, k, word FROM t JOIN base ON month = t.day/7 + 1 AND base.lat = t.lat AND base.lon = t.lon",
    "SELECT t.lat, count(*), count(mean), avg(temp - mean), sum(k), min(word) FROM t LEFT JOIN base b ON b.lat = t.lat AND t.lon = b.lon AND b.month = t.day/7 + 1 GROUP BY t.lat", "SELECT count(*) FROM t JOIN base ON month = t.day AND base.lat = t.lat AND base.lon = t.lon",
    "SELECT count(*) FROM t LEFT JOIN base ON month = t.day AND base.lat = t.lat AND base.lon = t.lon", "SELECT c.n, count(*), max(temp) FROM t JOIN clim c ON c.month = t.day - 2 AND c.lat = t.lat AND c.lon = 4 - t.lon GROUP BY 1 ORDER BY 1",
    "SELECT word, avg(temp), max(k) FROM t JOIN base ON month = t.day % 6 + 1 AND base.lat = t.lat AND base.lon = t.lon WHERE k > 20 GROUP BY word HAVING word <> 'a3'", "SELECT t.day, base.* FROM t LEFT JOIN base ON month = 3 AND base.lat = t.lat AND base.lon = t.lon WHERE t.day BETWEEN 5 AND 6 AND t.lat > -2",
    "SELECT * FROM t JOIN base ON month = 3 AND base.lat = t.lat AND base.lon = t.lon WHERE t.day = 7", "SELECT w, count(*), sum(n) FROM t JOIN line ON d = t.day GROUP BY w", "SELECT t.day, w FROM t LEFT JOIN line ON d = t.day * 3 WHERE t.lat = 0 AND lon = 1", "SELECT count(*), sum(w) FROM t JOIN line ON d = 'x' || t.day",
    "SELECT count(*), sum(w) FROM t JOIN line ON d = t.day || '0'", "SELECT count(*), sum(w) FROM t JOIN line ON d = t.day / 2.0", "SELECT label, count(*), sum(r * temp) FROM t JOIN pairs p ON p.day = t.day AND p.lat = t.lat GROUP BY label",
    "SELECT label, r * 1.0, count(*), avg(temp) FROM t LEFT JOIN pairs p ON p.day = t.day AND p.lat = t.lat GROUP BY 1, 2", "SELECT t.day, t.lat, lon, coalesce(label, 'none'), r > 1 FROM t LEFT JOIN pairs p ON p.day = t.day AND p.lat = t.lat AND r < 2 AND label LIKE 'p%'",
    "SELECT count(*) FROM t JOIN pairs p ON p.label = 'p' || t.lat AND p.day = t.day", "SELECT season, count(*), avg(temp - mean) FROM t JOIN months m ON m.day = t.day LEFT JOIN clim c ON c.month = m.month AND c.lat = t.lat AND c.lon = t.lon GROUP BY season",
    "SELECT count(*), sum(a.mean - b.mean) FROM t JOIN base a ON a.month = t.day AND a.lat = t.lat AND a.lon = t.lon JOIN base b ON b.month = t.day - 1 AND b.lat = t.lat AND b.lon = t.lon", "SELECT s.day, x, v, hot FROM s LEFT JOIN calendar c ON c.day = s.day",
    "SELECT substr(s.day, 1, 4) AS year, sum(v * hot), count(*) FROM s JOIN calendar c ON c.day = date(s.day, '+1 day') GROUP BY 1", "SELECT t.day, s.v, s.wind FROM t LEFT JOIN s ON s.x = t.day AND s.day = '2020-02-26' WHERE lat = 0 AND lon = 0", "SELECT count(*), sum(s.v) FROM t JOIN s ON s.x = t.day AND s.day = '2020-02-26'",
    "SELECT count(*), sum(v) FROM t JOIN s ON s.x = t.day AND s.day = date('2020-01-01', t.lat * 7 || ' days')", "SELECT c.n - 3 AS part, total(temp) FILTER (WHERE temp > mean) FROM t JOIN clim c ON c.month = t.day/7 + 1 AND c.lat = t.lat AND c.lon = t.lon AND c.n > 5 GROUP BY part",
    "SELECT t.lat, max(temp - mean), t.day FROM t JOIN clim c ON c.month = t.day/7 + 1 AND c.lat = t.lat AND c.lon = t.lon GROUP BY t.lat", "SELECT DISTINCT k, t.lon FROM t LEFT JOIN base ON month = t.day AND base.lat = t.lat AND base.lon = t.lon", "SELECT u, count(*) FROM t JOIN mixed ON mixed.a = t.lat AND mixed.b = t.lon GROUP BY u",
    "SELECT count(*) FROM t JOIN base ON month = t.day AND base.lat = t.lat AND base.lon = t.lon WHERE t.day > 1000", "SELECT k, count(*) FROM t JOIN base ON month = t.day + 1000 AND base.lat = t.lat AND base.lon = t.lon GROUP BY 1"]


def make_joined(db):
    db.query("CREATE TABLE months(day INTEGER PRIMARY KEY, month INT, season VARCHAR(9))")
    db.query("INSERT INTO months WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 32) SELECT i, 1 + i/7, CASE WHEN i < 20 THEN 'winter' WHEN i < 30 THEN 'summer' END FROM c")
    db.query("CREATE TABLE limits(lat, most REAL)")
    db.query("INSERT INTO limits VALUES(-3, 275), (0, 280.5), (1, 3), (2, NULL), (NULL, 4), (NULL, 5), (90, 1), (90, 2)")
    db.query("CREATE TABLE slots(i3 INT UNIQUE, r0 REAL)")
    db.query("INSERT INTO slots VALUES(5, 1.5), (7, 2.5)")
    db.query("CREATE TABLE wide(k TEXT PRIMARY KEY, v) WITHOUT ROWID")
    db.query("INSERT INTO wide VALUES('d3', 1), ('d4', 2), ('d39', NULL)")
    db.query("CREATE VIRTUAL TABLE daily USING tessera_query(SELECT day, avg(temp) AS mean FROM t GROUP BY day)")
    db.query("CREATE VIRTUAL TABLE base USING tessera(kind=dense, month INT32 DIMENSION(1, 9, 2), lat INT32 DIMENSION(-3, 2, 4), lon INT32 DIMENSION(0, 4, 3), mean FLOAT32, k INT16, word TEXT)")
    db.query("INSERT INTO base WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 149) SELECT 2 + i / 30, i / 5 % 6 - 3, i % 5, CASE WHEN i % 11 THEN 270 + i / 4.0 END, i % 50, 'a' || i % 7 FROM c WHERE i % 13")
    db.query("CREATE VIRTUAL TABLE line USING tessera(kind=dense, d INT64 DIMENSION(0, 99, 10), w FLOAT64)")
    db.query("INSERT INTO line WITH RECURSIVE c(i) AS (SELECT 5 UNION ALL SELECT i + 1 FROM c WHERE i < 35) SELECT i, i % 4 / 2.0 FROM c")
    db.query("CREATE VIRTUAL TABLE calendar USING tessera(kind=dense, day DATE DIMENSION('2019-01-01', '2021-12-31', 100), hot INT32)")
    db.query("INSERT INTO calendar WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 300) SELECT date('2020-01-01', i || ' days'), i FROM c")
    db.query("CREATE VIRTUAL TABLE clim USING tessera_query(SELECT day/7 + 1 AS month, lat, lon, avg(temp) AS mean, count(*) AS n FROM t GROUP BY 1, 2, 3)")
    db.query("CREATE TABLE pairs(day INT, lat INT, label TEXT, r)")
    db.query("INSERT INTO pairs WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 99) SELECT i / 4, i % 4 - 2, 'p' || (i % 4 - 2), CASE i % 3 WHEN 0 THEN i WHEN 1 THEN i / 8.0 END FROM c")
    db.query("INSERT INTO pairs VALUES(NULL, 1, 'x', 1), (NULL, 1, 'y', 1), (3, NULL, 'z', 1), (2000, 1, 'far', 1), (2000, 1, 'far', 1), (x'00', 1, 'far', 1)")
    db.query("CREATE TABLE mixed(a, b, u)")
    db.query("INSERT INTO mixed VALUES(1, 1, 'one'), (1.0, 2, 'two'), (1.5, 2, 'three'), ('3x', 4, 'no number'), (-3, '3', 'five'), (-9223372036854775808, 1e300, 'six')")


def test_a_table_that_one_dimension_is_joined_to_gives_the_rows_of_the_view():
    if absent():
        return
    db = opened()
    make_joined(db)
    rows = lambda table: sorted(map(repr, db.query(f"SELECT * FROM {table}")))
    for text in JOINED + BOXED:
        db.query(f"CREATE VIEW v AS {text}")
        db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
        assert rows("v") or "1000" in text or "WHERE 0" in text, text
        same(rows("q"), rows("v"), text)
        same([r[1] for r in db.query("PRAGMA table_info(q)")], [r[1] for r in db.query("PRAGMA table_info(v)")], f"columns: {text}")
        db.query("DROP TABLE q")
        db.query("DROP VIEW v")
    text = JOINED[0]
    db.query(f"CREATE VIEW v AS {text}")
    db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
    for where in ("month = 2", "month > 3", "month IN (1, 5)", "month = '2'"):
        same(sorted(db.query(f"SELECT * FROM q WHERE {where}")), sorted(db.query(f"SELECT * FROM v WHERE {where}")), where)
    check_contains(repr(db.query("EXPLAIN QUERY PLAN SELECT * FROM q")), "t; coordinates JOIN months ON c.day = t.day; by c.month")
    db.query("BEGIN")
    db.query("UPDATE months SET month = 100 WHERE day = 3")
    same(rows("q"), rows("v"), "rows of the open transaction")
    db.query("ROLLBACK")
    same(rows("q"), rows("v"), "and without them")
    db.close()


def test_a_join_that_is_not_by_one_dimension_or_finds_two_rows_is_refused():
    if absent():
        return
    db = opened()
    make_joined(db)
    db.query("CREATE VIEW a_view AS SELECT 1 AS k")
    db.query("CREATE TABLE nocase(k TEXT COLLATE NOCASE)")
    db.query("CREATE VIRTUAL TABLE f5 USING fts5(k)")
    for text, words in UNJOINED:
        check_contains(db.error(f"CREATE VIRTUAL TABLE q USING tessera_query({text})").text, words)
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT count(*) AS n FROM t LEFT JOIN limits l ON l.lat = t.day)")
    same(db.value("SELECT n FROM q"), 1200, "no two rows for one coordinate")
    db.query("INSERT INTO limits VALUES(2, 7)")
    check_contains(db.error("SELECT n FROM q").text, "'l.lat = t.day' (character 51): a joined table has more than one row for a coordinate")
    db.query("DELETE FROM limits WHERE lat = 2")
    db.close()


def test_a_join_may_compare_more_columns_than_it_binds():
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 10), v INT32)")
    for i in range(10):
        db.query("INSERT INTO t VALUES(?, ?)", (i, 2 * i))
    for count in (15, 16, 17, 18, 40):
        columns = [f"c{i}" for i in range(count)]
        db.query(f"CREATE TABLE j{count}({', '.join(columns)})")
        for i in range(6):
            db.query(f"INSERT INTO j{count} VALUES({', '.join('?' * count)})", [i] * (count - 1) + [i if i < 5 else 9])
        text = f"SELECT count(*), sum(v), max(c1) FROM t JOIN j{count} ON {' AND '.join(f'{column} = x' for column in columns)}"
        db.query(f"CREATE VIRTUAL TABLE q{count} USING tessera_query({text})")
        same(db.query(f"SELECT * FROM q{count}"), db.query(text))
        same(db.query(f"SELECT * FROM q{count}"), [(5, 20, 4)])
    db.close()


def test_joined_arrays_of_numbers_are_read_without_rows():
    """Their values are those of the view; rows of SQLite's are read where the engine gives other values, or where only SQLite can hide a column."""
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE near USING tessera(kind=dense, day INT8 DIMENSION(3, 32, 7), lat INT8 DIMENSION(-3, 1, 2), k INT16, r FLOAT32, name TEXT)")
    db.query("CREATE VIRTUAL TABLE far USING tessera(day INT64 DIMENSION(-9, 900, 100), lat FLOAT64 DIMENSION(-90.0, 90.0, 10.0), u UINT8 NOT NULL, w UINT64, r FLOAT64)")
    db.query("INSERT INTO near SELECT DISTINCT day, lat, CASE WHEN (day + lat) % 5 THEN day * lat END, CASE WHEN day % 7 THEN lat / 4.0 ELSE 9e999 END, 'n' || lat FROM t WHERE day BETWEEN 3 AND 32 AND lat < 2 AND day <> 9")
    db.query("INSERT INTO far SELECT DISTINCT day, lat, day + lat + 3, day, day / 3.0 FROM t WHERE lat <> 0 OR day < 20")
    db.query("BEGIN")
    db.query("UPDATE near SET k = 77 WHERE day = 12")
    db.query("DELETE FROM far WHERE day = 13 AND lat = 1")

    def read(text):
        """Compares the rows. Returns how many rows of arrays SQLite has read for the query."""
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        db.query("SELECT tessera_reset_stats()")
        found = sorted(map(repr, db.query("SELECT * FROM q")))
        rows = db.value("SELECT value FROM tessera_stats WHERE name = 'rows_returned'")
        db.query("DROP TABLE temp.q")
        same(found, sorted(map(repr, db.query(text))), text)
        return rows - len(found)
    for kind in ("JOIN", "LEFT JOIN"):
        for table in ("near", "far"):
            on = f"FROM t {kind} {table} o ON o.day = t.day AND o.lat = t.lat"
            same(read(f"SELECT t.day, count(*), count(o.r), max(temp - o.r) {on} GROUP BY 1"), 0, on)
            same(read(f"SELECT t.lat, o.{'k' if table == 'near' else 'u'} AS k, count(*) {on} WHERE o.r > -1 GROUP BY 1, 2"), 0, on)
            same(read(f"SELECT t.day, t.lat, o.r {on} WHERE o.day BETWEEN 11 AND 14"), 0, on)
        same(read(f"SELECT t.day + 0 AS d, count(o.k), min(o.k) FROM t {kind} near o ON o.day = t.day / 2 + 4 AND o.lat = t.lat - 1 GROUP BY 1"), 0, "bound to expressions")
        same(read(f"SELECT o.name AS name, count(*) FROM t {kind} near o ON o.day = t.day AND o.lat = t.lat GROUP BY 1") > 0, True, "texts")
        same(read(f"SELECT t.day, max(o.w) FROM t {kind} far o ON o.day = t.day AND o.lat = t.lat GROUP BY 1") > 0, True, "UINT64")
        same(read(f"SELECT t.day, count(o.k) FROM t {kind} near o ON o.day = t.day AND o.lat = t.lat AND o.k > 5 GROUP BY 1") > 0, True, "a condition of the joined table")
    db.query("ROLLBACK")
    if hasattr(db.raw, "set_authorizer"):
        text = "SELECT t.day AS d, count(o.r) AS n FROM t LEFT JOIN near o ON o.day = t.day AND o.lat = t.lat GROUP BY 1"
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        db.query(f"CREATE TEMP VIEW v AS {text}")
        db.raw.set_authorizer(lambda action, a, b, *others: IGNORE if action == READ and (a, b) == ("near", "r") else 0)
        same((sorted(db.query("SELECT * FROM q")), {row[1] for row in db.query("SELECT * FROM q")}), (sorted(db.query("SELECT * FROM v")), {0}), "a hidden column")
        db.raw.set_authorizer(None)
    db.close()


def steps(db, sql):
    """Returns the rows, and how many tens of steps SQLite's machine takes for them: the same on each machine."""
    calls = []
    handler = lambda: calls.append(1) or False
    set_handler = getattr(db.raw, "set_progress_handler", None) or db.raw.setprogresshandler
    set_handler(handler, 10)
    rows = db.query(sql)
    set_handler(None, 10)
    return rows, len(calls)


def test_a_join_of_a_table_of_one_dimension_takes_time_in_its_rows():
    if absent():
        return
    joins = ("JOIN obs ON obs.id = x.obs", "LEFT JOIN obs ON obs.id = x.obs", "JOIN obs ON obs.id = x.obs + 1", "JOIN obs ON x.obs = obs.id", "JOIN obs ON obs.id = x.obs AND obs.batch = 'a'")
    for kind in ("dense", "sparse"):
        counts = {}
        for n in (500, 2000):
            db = Database()
            db.query("CREATE VIRTUAL TABLE x USING tessera(obs INT64 DIMENSION(0, 99999), var INT64 DIMENSION(0, 999), v FLOAT64)")
            db.query(f"CREATE VIRTUAL TABLE obs USING tessera(kind={kind}, id INT64 DIMENSION(0, {n - 1}{', 50' if kind == 'dense' else ''}), score FLOAT64, batch TEXT)")
            for sql in ("INSERT INTO obs SELECT value, value * 0.5, CASE value % 2 WHEN 0 THEN 'a' ELSE 'b' END", "INSERT INTO x SELECT value, value % 7, value"):
                db.query(f"WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM c WHERE value < {n - 1}) {sql} FROM c")
            for join in joins:
                text = f"SELECT sum(v * obs.score) AS s, count(*) AS n FROM x {join}"
                db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
                rows, counts[join, n] = steps(db, "SELECT * FROM q")
                same(rows, db.query(text), (kind, join, n))
                db.query("DROP TABLE q")
            db.close()
        for join in joins:
            same(counts[join, 2000] < 6 * max(counts[join, 500], 1000), True, (kind, join, counts[join, 500], counts[join, 2000]))


def test_terms_around_a_query_reach_the_array_that_it_joins():
    if absent():
        return
    on = "a AS b ON b.y = a.y - 1 AND b.x = a.x"
    forms = ((f"SELECT a.y AS y, a.x AS x, a.v - b.v AS d FROM a JOIN {on}", "y BETWEEN 0 AND 4"), (f"SELECT a.y AS y, a.x AS x, a.v - b.v AS d FROM a JOIN {on}", "y = 40"),
             (f"SELECT a.y AS y, max(a.v - b.v) AS d FROM a JOIN {on} GROUP BY a.y", "y BETWEEN 0 AND 4"), (f"SELECT a.y AS y, a.x AS x, a.v - b.v AS d FROM a LEFT JOIN {on}", "y BETWEEN 0 AND 4"),
             (f"SELECT a.y AS y, a.x AS x, a.v - b.v AS d FROM a JOIN {on} WHERE a.y BETWEEN 0 AND 4", "1"),
             ("SELECT a.y AS y, a.x AS x, a.v - b.v AS d FROM a JOIN a AS b ON b.y = a.y + 1 AND b.x = a.x - 1", "y BETWEEN 200 AND 204 AND x < 20"),
             ("SELECT a.y AS y, a.x AS x, a.v - b.v AS d FROM a JOIN a AS b ON b.y = a.y AND b.x = a.x", "y BETWEEN 0 AND 4"),
             ("SELECT a.y AS y, a.x AS x, b.v AS d FROM a JOIN a AS b ON b.y = abs(a.y - 3) AND b.x = CASE WHEN a.x > 50 THEN a.x END", "y < 5"))
    for kind in ("dense", "sparse"):
        place = os.path.join(host.FOLDER, f"around_{kind}")
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(place)}, kind={kind}, y INT32 DIMENSION(0, 399, 20), x INT32 DIMENSION(0, 99, 20), v FLOAT64{', capacity=400' if kind == 'sparse' else ''})")
        db.query("WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 39999) INSERT INTO a SELECT i / 100, i % 100, i * 0.5 + i % 7 FROM c")
        for text, where in forms:
            want = db.query(f"SELECT * FROM ({text}) WHERE {where} ORDER BY 1, 2")
            fresh = Database()   # nothing in its cache
            fresh.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(place)})")
            fresh.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
            same(fresh.query(f"SELECT * FROM q WHERE {where} ORDER BY 1, 2"), want, (kind, text, where))
            read = dict(fresh.query("SELECT name, value FROM tessera_stats WHERE name IN ('cells_computed', 'cells_decoded')"))
            same(max(read.values()) <= 10000, True, (kind, text, where, read))   # of 40000
            fresh.close()


def test_chunks_in_which_no_cell_passes_are_not_decoded():
    if absent():
        return
    n, place = 32000, os.path.join(host.FOLDER, "chunks_")
    filters = "FILTERS(chunk(4096), zstd)"
    for kind, tiles in (("dense", "dense, y INT32 DIMENSION(0, 127, 64), x INT32 DIMENSION(0, 249, 250)"), ("sparse", "sparse, capacity=16384, y INT32 DIMENSION(0, 127, 64), x INT32 DIMENSION(0, 249, 250)")):
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(place + kind)}, kind={tiles}, a INT32 {filters}, p INT32 {filters}, v FLOAT64 {filters}, w FLOAT64 {filters}, n INT64 {filters}, name TEXT)")
        db.query(f"WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < {n - 1}) INSERT INTO t SELECT i / 250, i % 250, i, abs(i % 16000 - 8000), sin(i), CASE WHEN i % 7 THEN i * 0.1 END, i * 1000000, 'n' || (i % 5) FROM c")
        sums = "sum(v) AS s, sum(w * 0.5) AS h, count(w) AS c, count(*) AS n, min(name) AS m"
        texts = [f"SELECT y / 8 AS k, {sums} FROM t WHERE {where} GROUP BY 1 ORDER BY 1" for where in (
            "p > 7900", "p < 50 AND v < 0.5", "p > 7950 AND x BETWEEN 3 AND 240", "a BETWEEN 9000 AND 9100", "a < 40 AND w > 1.0", "a > 30000 AND v > 0.5", "a IN (5, 6) AND name = 'n1'", "a BETWEEN 2040 AND 2056", "a > 16000 AND a < 16500 AND x BETWEEN 7 AND 200", "a >= 0", "a < 0", "a > 100 AND a < 3000", "v > 0.999999 AND a > 0",
            "(a > 9000 AND a < 9100) AND (w IS NULL OR v < 0)")]
        texts += ["SELECT y, x, v, w, name FROM t WHERE a BETWEEN 20000 AND 20030 ORDER BY 1, 2", "SELECT name, count(DISTINCT x) AS d, median(w) AS m FROM t WHERE a BETWEEN 8000 AND 8200 GROUP BY 1 ORDER BY 1"]
        for options in ("", ", cache_mb=0, threads=1"):
            every = Database()   # asks all of them in turn, of tiles that earlier ones have decoded in part
            every.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(place + kind)}{options})")
            for i, text in enumerate(texts):
                fresh = Database()
                fresh.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(place + kind)}{options})")
                for each in (fresh, every):
                    each.query(f"CREATE VIRTUAL TABLE q{i} USING tessera_query({text})")
                first = fresh.query(f"SELECT * FROM q{i}")
                same(fresh.query(f"SELECT * FROM q{i}"), first, (kind, options, text, "again"))
                same(every.query(f"SELECT * FROM q{i}"), first, (kind, options, text, "after others"))
                if "median" not in text:
                    rows = [tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in fresh.query(text)]
                    same([tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in first], rows, (kind, options, text, "rows"))
                fresh.close()
            every.close()
        for way in ("SELECT sum(v) AS s FROM t WHERE a BETWEEN {} AND {}", "rows"):
            decoded = []
            for ends in ((9000, 9100), (0, n)):
                fresh = Database()
                fresh.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(place + kind)})")
                if way != "rows":
                    fresh.query(f"CREATE VIRTUAL TABLE q USING tessera_query({way.format(*ends)})")
                    fresh.query("SELECT * FROM q")
                else:
                    fresh.query("SELECT sum(v), sum(w) FROM t WHERE a BETWEEN ? AND ?", ends)
                decoded.append(fresh.value("SELECT value FROM tessera_stats WHERE name = 'bytes_decoded'"))
                fresh.close()
            if way != "rows" or kind == "dense":
                same(decoded[0] < 0.55 * decoded[1], True, (kind, way, decoded))   # a of a tile or two, and a few chunks of v
        for options in ("", ", cache_mb=0"):   # a cell that fails does so whatever the cache has
            fresh = Database()
            fresh.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(place + kind)}{options})")
            fresh.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT count(*) AS c FROM t WHERE n * n > 5 AND a < 10)")
            for _ in range(2):
                check_contains(fresh.error("SELECT * FROM q").text, "integer overflow")
            fresh.close()
        db.close()


def test_a_joined_array_may_have_times():
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE level USING tessera(kind=dense, day INT32 DIMENSION(0, 39, 40), lat INT32 DIMENSION(-3, 2, 6), v FLOAT64)")
    db.query("INSERT INTO level SELECT DISTINCT day, lat, lat + day / 8.0 FROM t")
    time.sleep(0.005)
    middle = int(time.time() * 1000)
    time.sleep(0.005)
    db.query("UPDATE level SET v = v * 2 WHERE day > 5")
    for times in ("", "()", f"({middle})", f"('2090-01-01', {middle})", f"(strftime('%s', 'now') * 0 + {middle})", "('1990-01-01')"):
        for kind in ("JOIN", "LEFT JOIN"):
            text = f"SELECT t.day, count(*), count(v), max(temp - v) FROM t {kind} level{times} AS o ON o.day = t.day AND t.lat = o.lat GROUP BY 1"
            same(sorted(rows_of(db, text)), sorted(db.query(text)), text)
    text = "SELECT t.day, max(b.v - a.v) AS more FROM t JOIN main.level({}) a ON a.day = t.day AND a.lat = t.lat JOIN level b ON b.day = t.day AND b.lat = t.lat GROUP BY 1"
    same([row for row in rows_of(db, text.format(middle)) if row[1] and row[0] < 7], [(6, 2.75)], "only days after 5 have changed")
    for times, words in (("(t.day)", "expected a constant"), ("(1, 2, 3)", "'3' (character 67): a table takes two times, as_of and since"), ("(trap())", "no such function: trap"), ("('a day')", "a day"), ("(count(*))", "")):
        check_contains(refusal(db, text.format("1").replace("(1)", times)), words)
    check_contains(refusal(db, "SELECT max(n) FROM t JOIN json_each('[1]') j ON j.key = t.day"), "a table that has arguments")
    db.close()


def test_queries_that_join_themselves_after_a_rename_are_refused():
    if absent():
        return
    db = opened()
    make_joined(db)
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT t.day, avg(temp - daily.mean) AS mean FROM t JOIN daily ON daily.day = t.day GROUP BY 1)")
    db.query("DROP TABLE daily")
    db.query("ALTER TABLE q RENAME TO daily")
    check_contains(db.error("SELECT * FROM daily").text, "the query reads itself")
    db.query("DROP TABLE daily")
    same(db.query("SELECT count(*) FROM sqlite_schema WHERE name = 'daily'"), [(0,)], "it can be dropped")
    db.close()


def test_a_text_is_compiled_once_until_a_schema_changes():
    """Compiling a text looks its tables up in sqlite_schema, which the authorizer sees; each run asks it for the columns."""
    if absent():
        return
    db = opened(place=True)
    reads, watch = [], getattr(db.raw, "set_authorizer", None)
    db.query("CREATE TABLE c(day INTEGER PRIMARY KEY, value TEXT)")
    db.query("INSERT INTO c SELECT DISTINCT day, 'v' || day % 3 FROM t")

    def seen(sql, *values):
        """Returns the rows, whether a text was compiled, and whether the authorizer was asked for t.temp."""
        if not watch:
            return db.query(sql, values), None, None
        reads.clear()
        rows = db.query(sql, values)
        return rows, any(table in ("sqlite_master", "sqlite_schema", "sqlite_temp_master") for table, column in reads), ("t", "temp") in reads

    if watch:
        watch(lambda action, a, b, *others: reads.append((a, b)) or 0 if action == READ else 0)
    texts = {"main.q": "SELECT day, max(temp) AS m FROM t GROUP BY day", "temp.p": "SELECT day, max(temp) AS m FROM t GROUP BY day",
             "main.j": "SELECT t.day AS day, max(temp) AS m FROM t JOIN c ON c.day = t.day GROUP BY t.day", "temp.f": "SELECT day, max(temp) AS m FROM './t' GROUP BY day"}
    for name, text in texts.items():
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera_query({text})")
        want = dict(db.query("SELECT day, max(temp) FROM t GROUP BY day"))
        path = name == "temp.f"
        seen(f"SELECT m FROM {name} WHERE day = 1")
        for day in range(5):
            sql = f"SELECT m FROM {name} WHERE day = {day}"
            found, compiled, asked = seen(sql)
            same((found, bool(compiled)), ([(want[day],)], False), sql)
            same(asked, None if not watch else not path, "the authorizer is asked each time: for a path, by another name")
        db.query("CREATE TABLE later(x)")
        found, compiled, asked = seen(f"SELECT m FROM {name} WHERE day = 7")
        same((found, compiled), ([(want[7],)], True if watch else None), "after a schema change")
        db.query("DROP TABLE later")
    db.query("BEGIN")
    db.query("DROP TABLE c")
    db.query("CREATE TABLE c(d INTEGER PRIMARY KEY, value TEXT)")
    check_contains(db.error("SELECT m FROM j WHERE day = 1").text, "no such column: c.day")
    db.query("ROLLBACK")
    same(db.query("SELECT m FROM j WHERE day = 1"), [(want[1],)], "the change was rolled back")
    db.query("DROP TABLE c")
    db.query("CREATE TABLE c(d INTEGER PRIMARY KEY, value TEXT)")
    check_contains(db.error("SELECT m FROM j WHERE day = 1").text, "no such column: c.day")
    db.query("CREATE TEMP TABLE t(day, temp)")
    check_contains(db.error("SELECT m FROM temp.p WHERE day = 1").text, "'t' is")
    same(db.query("SELECT m FROM q WHERE day = 1"), [(want[1],)], "a query in main does not see temp")
    db.query("DROP TABLE temp.t")
    same(db.query("SELECT m FROM temp.p WHERE day = 1"), [(want[1],)])
    db.query("SELECT tessera_drop_attribute('t', 'temp')")
    check_contains(db.error("SELECT m FROM temp.f WHERE day = 1").text, "no such column: temp")
    check_contains(db.error("SELECT m FROM temp.p WHERE day = 1").text, "temp has been dropped")
    if watch:
        watch(None)
    db.close()


def test_a_kept_text_does_not_keep_the_table_of_a_path():
    """A connection has at most 512 registered tables. The tables of texts that are kept may go, and come again."""
    if absent():
        return
    db = opened(place=True)
    copies = 520   # more than the registry has room for
    for i in range(copies):
        shutil.copytree("t", f"many/{i}")
        db.query(f"CREATE VIRTUAL TABLE temp.q{i} USING tessera_query(SELECT max(n) AS m FROM 'many/{i}')")
    for i in (0, 1, copies - 1, 0):
        same(db.query(f"SELECT * FROM temp.q{i}"), [(1199,)], i)
    same(db.value("SELECT count(*) FROM pragma_module_list WHERE name GLOB 'tessera:*'") <= 512, True, "the registry is not pinned")
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
