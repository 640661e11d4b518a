"""What a columnar query refuses, in which words, and the limits up to which it works.

usage: query_refusals.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import sys

import host
from host import Database, Error, check_contains, same
from query_rules import absent, opened

WHOLE_WORDS = [   # the text, all of its error behind the name; None: the rows are those of the view
    ("SELECT median(*) FROM t", "not evaluated over columns: 'median(*)' (character 8): * is for count alone"), ("SELECT stddev(temp, 1) FROM t", "not evaluated over columns: 'stddev(temp, 1)' (character 8): stddev() takes one argument"),
    ("SELECT percentile(temp,50,3) FROM t", "not evaluated over columns: 'percentile(temp,50,3)' (character 8): percentile() takes a value, and a constant from 0 to 100"), ("SELECT count(*) FROM t GROUP BY median(temp)", "misuse of aggregate: 'median(temp)' (character 33): GROUP BY takes no aggregates"),
    ("SELECT count(*) FROM t WHERE 1 + median(temp)", "misuse of aggregate: 'median(temp)' (character 34): WHERE takes no aggregates: HAVING does"), ("SELECT sum(abs(median(temp))) FROM t", "misuse of aggregate: 'median(temp)' (character 16): an aggregate takes no aggregates"),
    ("SELECT lat FROM t GROUP BY 1 HAVING max(variance(temp))", "misuse of aggregate: 'variance(temp)' (character 41): an aggregate takes no aggregates"), ("SELECT lat FROM t GROUP BY 1 ORDER BY count(*) FILTER (WHERE median(temp))", "misuse of aggregate: 'median(temp)' (character 62): an aggregate takes no aggregates"),
    ("SELECT lat FROM t LIMIT median(1)", "misuse of aggregate: 'median(1)' (character 25): expected a constant"), ("SELECT count(*) FROM t JOIN ordinary ON ordinary.a = median(t.lat)", "misuse of aggregate: 'median(t.lat)' (character 54): ON takes no aggregates"),
    ("SELECT like('a', name) FROM t", "not evaluated over columns: 'like('a', name)' (character 8): write the operator: text LIKE pattern"), ("SELECT glob('a', name) FROM t", "not evaluated over columns: 'glob('a', name)' (character 8): write the operator: text GLOB pattern"),
    ("SELECT CAST(temp AS VARCHAR(10)) FROM t", "not evaluated over columns: 'CAST(temp AS VARCHAR(10))' (character 8): of cells only CAST AS INTEGER and AS REAL are"), ("SELECT CAST(lat AS) FROM t", "not evaluated over columns: ')' (character 19): tessera_query lacks this part of SQLite's grammar"),
    ("SELECT count(*) FROM left", "not evaluated over columns: 'left' (character 22): put it in double quotes to use it as a name"), ("SELECT CAST(lat AS TEXT(1, x)) FROM t", 'near "x": syntax error'), ("SELECT abs(DISTINCT temp) FROM t", "not evaluated over columns: 'abs(DISTINCT temp)' (character 8): DISTINCT is for aggregates alone"),
    ("SELECT 1", "not evaluated over columns: 'SELECT 1' (character 1): a SELECT without FROM"), ("SELECT oid FROM t", "not evaluated over columns: 'oid' (character 8): hidden columns; write a time as in FROM t('2024-06-01')"), ("SELECT main.t.temp FROM t", "not evaluated over columns: 'main.t.temp' (character 8): write table.column"),
    ("SELECT ifnull(dt, 'x') FROM u", "a datetime in one branch, TEXT in another: 'ifnull(dt, 'x')' (character 8): all branches must be numbers, texts, or datetimes of one unit"), ("SELECT coalesce(dt, hours) FROM u", "datetimes of two units in branches: 'coalesce(dt, hours)' (character 8): use one unit"),
    ("SELECT CASE WHEN lat < lon THEN name ELSE n END FROM t", "TEXT in one branch, INTEGER in another: 'CASE WHEN lat < lon THEN name ELSE n END' (character 8): all branches must be numbers, texts, or datetimes of one unit"),
    ("SELECT ifnull(big, -1) FROM u", "UINT64 in one branch, INTEGER in another: 'ifnull(big, -1)' (character 8): CAST one of them"), ("SELECT CASE WHEN lat < lon THEN n ELSE temp END FROM t", "INTEGER in one branch, REAL in another: 'CASE WHEN lat < lon THEN n ELSE temp END' (character 8): CAST one of them"),
    ("SELECT nullif(dt, 'x') FROM u", "not evaluated over columns: 'nullif(dt, 'x')' (character 8): compares a datetime with TEXT"), ("SELECT nullif(dt, hours) FROM u", "not evaluated over columns: 'nullif(dt, hours)' (character 8): compares datetimes of two units"), ("SELECT bytes = 'x' FROM u", "not evaluated over columns: 'bytes = 'x'' (character 8): compares a cell of several values or bytes with TEXT"),
    ("SELECT ifnull(bytes, 1) FROM u", "not evaluated over columns: 'ifnull(bytes, 1)' (character 8): a cell of several values or bytes in a branch"), ("SELECT -name FROM t", "not evaluated over columns: '-name' (character 8): TEXT, but expected a number"), ("SELECT 1 << name FROM t", "not evaluated over columns: '1 << name' (character 8): TEXT, but expected a number"),
    ("SELECT sqrt(dt) FROM u", "not evaluated over columns: 'sqrt(dt)' (character 8): a datetime, but expected a number"), ("SELECT name AND 1 FROM t", "not evaluated over columns: 'name AND 1' (character 8): TEXT is not a condition: compare it"), ("SELECT CASE WHEN n THEN name WHEN name THEN 'x' END FROM t", "not evaluated over columns: 'CASE WHEN n THEN name WHEN name THEN 'x' END' (character 8): TEXT is not a condition: compare it"),
    ("SELECT temp LIKE 'a' FROM t", "not evaluated over columns: 'temp LIKE 'a'' (character 8): LIKE of REAL, which is not text"), ("SELECT n NOT GLOB 'a' FROM t", "not evaluated over columns: 'n NOT GLOB 'a'' (character 8): GLOB of INTEGER, which is not text"), ("SELECT sum(name) FROM t", "not evaluated over columns: 'sum(name)' (character 8): expected numbers, not texts"),
    ("SELECT median(dt) FROM u", "not evaluated over columns: 'median(dt)' (character 8): expected numbers, not datetimes"), ("SELECT upper(key) FROM u", "not evaluated over columns: 'upper(key)' (character 8): upper() of a dimension of texts or reals; others, labels and results may have it"),
    ("SELECT upper(name) FROM t", "not evaluated over columns: 'upper(name)' (character 8): upper() of an attribute; dimensions, labels and results may have it"), ("SELECT lat || lon FROM t", "not evaluated over columns: 'lat || lon' (character 8): || of several columns; one dimension, labels and results may have it"),
    ("SELECT CAST(lat AS VARCHAR(10)) AS k, count(*) FROM t GROUP BY 1", None), ("SELECT CAST(lat AS DECIMAL( 10 , -2 )), CAST(lat AS 'a' \"TEXT\"), CAST(avg(temp) AS CHARACTER VARYING(+8)) FROM t GROUP BY lat", None),
    ("SELECT CAST(temp AS FLOAT(5)), CAST(temp AS BIGINT(20)) FROM t", None), ("SELECT CAST(lat AS a_type_with_a_long_name_that_ends_with_TEXT) AS k FROM t GROUP BY 1", None), ("SELECT count(*) FROM t NOT INDEXED WHERE lat > 0", None), ("SELECT k.lat, count(*) FROM t AS k NOT INDEXED JOIN ordinary NOT INDEXED ON ordinary.a = k.lat GROUP BY 1", None),
]


def test_refusals_show_the_words_and_say_why_or_the_text_is_evaluated():
    if absent():
        return
    db = opened()
    db.query("CREATE TABLE ordinary(a)")
    db.query("INSERT INTO ordinary VALUES(1), (-2)")
    db.query("CREATE TABLE \"left\"(a)")
    db.query("CREATE VIRTUAL TABLE u USING tessera(key TEXT DIMENSION, dt DATETIME, hours DATETIME_HR, big UINT64, bytes BLOB)")
    db.query("INSERT INTO u VALUES('a', '2020-01-01', '2020-01-01 05:00', 5, x'00')")
    faults = []
    for text, words in WHOLE_WORDS:
        found = None
        try:
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
            found = sorted(map(repr, db.query("SELECT * FROM q") + db.query("SELECT name, type FROM pragma_table_info('q')")))
        except Error as e:
            found = e.text
        if not words:
            db.query(f"CREATE TEMP VIEW v AS {text}")
            words = sorted(map(repr, db.query("SELECT * FROM v") + db.query("SELECT name, type FROM pragma_table_info('q')")))
            db.query("DROP VIEW temp.v")
        else:
            words = "q: " + words
        if found != words:
            faults.append(f"{text}: {found} and not {words}")
        db.query("DROP TABLE IF EXISTS temp.q")
    assert not faults, "\n".join(faults)


def test_a_megabyte_is_enough_for_few_groups():
    """However many parts of a batch could be computed at once. The rows are those of a view."""
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE big USING tessera(kind=dense, y INT32 DIMENSION(0, 399, 100), x INT32 DIMENSION(0, 399, 100), v FLOAT32, w INT64, e TEXT ENUM('a', 'b', 'c'))")
    db.query("INSERT INTO big WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 159999) SELECT i / 400, i % 400, i % 37, i, char(97 + i % 3) FROM c")
    for text in ("SELECT hex(e) AS k, count(*) FROM big GROUP BY 1", "SELECT e, count(*) FROM big GROUP BY 1", "SELECT w % 5 AS k, count(*), sum(w) FROM big GROUP BY 1", "SELECT y / 100 AS k, " + ", ".join(f"sum(w + {i})" for i in range(6)) + " FROM big GROUP BY 1",
                 "SELECT w % 7 AS k, e, min(v), max(w) FROM big WHERE v > 3 GROUP BY 1, 2", "SELECT " + ", ".join(f"sum(w + {i})" for i in range(6)) + " FROM big", "SELECT w % 1000 AS k, count(v), sum(w) FROM big GROUP BY 1"):
        db.query(f"CREATE TEMP VIEW v AS {text}")
        expected = sorted(db.query("SELECT * FROM v"))
        for threads in (1, 2, 16):
            db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query(threads={threads}, memory_mb=1, {text})")
            same(sorted(db.query("SELECT * FROM q")), expected, f"{text[:60]} on {threads} threads")
            db.query("DROP TABLE temp.q")
        db.query("DROP VIEW v")
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(memory_mb=1, SELECT " + ", ".join(f"sum(w + {i})" for i in range(60)) + " FROM big)")
    check_contains(db.error("SELECT * FROM q").text, "too many expressions and aggregates for memory_mb (1): several queries, or memory_mb=2")
    db.close()


def test_a_join_by_many_columns_says_what_does_not_fit():
    if absent():
        return
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 599, 100), x INT32 DIMENSION(0, 1, 2), v INT32)")
    db.query("INSERT INTO t WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 1199) SELECT i / 2, i % 2, i % 7 FROM c")
    db.query("CREATE TABLE side(a, b, c, d)")
    db.query("INSERT INTO side SELECT y, y * 2, y * 3, x FROM t")
    text = "SELECT count(*), sum(v + a) FROM t JOIN side ON a = y AND b = y * 2 AND c = y * 3 AND d = x"
    db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
    db.query(f"CREATE VIRTUAL TABLE part USING tessera_query({text} WHERE y < 100)")
    same(db.error("SELECT * FROM q").text, "q: the combinations of the values by which 'side' is joined do not fit into memory_mb (1024): bind fewer columns in ON, a WHERE for a part of the dimensions, or more memory_mb")
    same(db.query("SELECT * FROM part"), db.query(text + " WHERE y < 100"))
    db.close()


def test_options_say_their_limits():
    if absent():
        return
    db = opened()
    limits = {"threads": "'threads': expected an integer from 1 to 256, not ", "memory_mb": "'memory_mb': expected an integer from 1 to 1099511627776, not "}
    for option, words in (("threads=257", limits["threads"] + "257"), ("threads = 0", limits["threads"] + "0"), ("threads=99999999999999999999999", limits["threads"] + "9999"), ("memory_mb=1099511627777", limits["memory_mb"] + "1099511627777"),
                          ("memory_mb=0", limits["memory_mb"] + "0"), ("memory_mb=-1", limits["memory_mb"] + "-1"), ("memory_mb=1 MB", limits["memory_mb"] + "1 MB"), ("memory_mb=", limits["memory_mb"] + "nothing"), ("speed=5", "no option is called 'speed': memory_mb, threads"),
                          ("threads=1, THREADS=2", "the option 'threads' is given twice")):
        check_contains(db.error(f"CREATE VIRTUAL TABLE q USING tessera_query({option}, SELECT count(*) FROM t)").text, words)
    for option in ("threads=256", "THREADS = 1 , memory_mb = 1099511627776", "memory_mb=2,threads=2"):
        db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({option}, SELECT count(*) FROM t)")
        same(db.value("SELECT * FROM q"), 1200)
        db.query("DROP TABLE q")


def test_a_query_reaches_other_databases_as_a_view_does():
    if absent():
        return
    db = opened()
    db.query("ATTACH ':memory:' AS other")
    db.query("CREATE VIRTUAL TABLE other.far USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    db.query("CREATE TABLE other.names(id)")
    db.query("CREATE VIRTUAL TABLE temp.near USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    for schema, table, database in (("main", "temp.near", "temp"), ("main", "other.far", "other"), ("other", "main.t", "main"), ("other", "temp.near", "temp"), ("main", "t JOIN other.names ON names.id = t.lat", "other"), ("other", "far JOIN temp.near ON near.x = far.x", "temp")):
        view = db.error(f"CREATE VIEW {schema}.v AS SELECT count(*) FROM {table}").text
        check_contains(view, f"view v cannot reference objects in database {database}")
        check_contains(db.error(f"CREATE VIRTUAL TABLE {schema}.q USING tessera_query(SELECT count(*) FROM {table})").text, f"q: cannot reference objects in database {database}: '{table.split(' ON')[0].split()[-1]}' (character ")
    for schema, table in (("temp", "main.t"), ("temp", "other.far"), ("main", "main.t"), ("main", "MAIN.t"), ("other", "other.far JOIN names ON names.id = far.x"), ("temp", "main.t JOIN other.names ON names.id = t.lat")):
        db.query(f"CREATE VIRTUAL TABLE {schema}.q USING tessera_query(SELECT count(*) FROM {table})")
        same(len(db.query(f"SELECT * FROM {schema}.q")), 1)
        db.query(f"DROP TABLE {schema}.q")


def test_a_list_of_literals_may_be_as_long_as_the_manual_says():
    if absent():
        return
    db = opened()
    db.query("CREATE VIRTUAL TABLE u USING tessera(x INT32 DIMENSION(0, 9), dt DATETIME)")
    db.query("INSERT INTO u VALUES(1, '2020-01-01 00:00:05')")
    of = lambda n: ", ".join(map(str, range(n)))
    times = lambda n: ", ".join(f"'2020-01-01 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}'" for i in range(n))
    for condition, table, result in ((f"n IN ({of(4000)})", "t", 1200), (f"n NOT IN ({of(4000)})", "t", 0), (f"dt IN ({times(1300)})", "u", 1), (f"lat IN ({of(20000)})", "t", 600), (f"n IN ({of(5000)})", "t", None), (f"dt IN ({times(3000)})", "u", None)):
        create = f"CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT count(*) FROM {table} WHERE {condition})"
        if result is None:
            check_contains(db.error(create).text, "the expression is too long: '")
            continue
        db.query(create)
        same(db.value("SELECT * FROM q"), result)
        db.query("DROP TABLE temp.q")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
