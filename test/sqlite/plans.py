"""What a plan may take over from SQLite, and what it must not: arguments, outer joins, OFFSET, min(), DISTINCT.
Counters show how many rows the table has given to SQLite.

usage: plans.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import shutil
import sys
import tempfile

import host
from host import Database, Error, check_contains, same

OUTER_TRUE = (3, 51, 0)      # the first version that applies terms of ON to their join only
DISTINCT_SAFE = (3, 46, 0)   # the first version that says that a rowid is used beside DISTINCT
ORDERED_DISTINCT = (3, 53, 0)
HIDE = "(SELECT * FROM t LIMIT -1 OFFSET 0)"


def counted(db, sql, parameters=()):
    """Returns the rows, and the number of rows that the array has given to SQLite for them."""
    db.query("SELECT tessera_reset_stats()")
    rows = db.query(sql, parameters)
    return rows, db.value("SELECT value FROM tessera_stats WHERE name = 'rows_returned'")


def small(**options):
    db = Database()
    db.query("CREATE VIRTUAL TABLE v USING tessera(x INT32 DIMENSION(0, 99, 10), u INT64)")
    db.query("CREATE TABLE n(x INTEGER PRIMARY KEY, u)")
    for t in "vn":
        db.query(f"INSERT INTO {t} VALUES(1, 1), (2, NULL), (3, 3), (4, 4), (5, 5)")
    return db


# ---- Arguments -----------------------------------------------------------------------------------------------------------

def test_null_arguments_with_an_or():
    db = Database()
    db.query("CREATE VIRTUAL TABLE w USING tessera(x INT32 DIMENSION(0, 9999, 100), u INT64)")
    db.query("WITH s(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM s WHERE i < 9999) INSERT INTO w SELECT i, i FROM s")
    db.query("CREATE TABLE p(v, z)")
    db.query("INSERT INTO p VALUES(1, 2), (5, 6), (7, 7)")
    db.query("CREATE TABLE m(at)")
    db.query("INSERT INTO m VALUES(NULL), ('2090-01-01')")
    for call, parameters in (("w", ()), ("w(NULL)", ()), ("w(NULL, 0)", ()), ("w(?)", (None,)), ("w('2090-01-01', ?)", (None,))):
        for where in ("x = 1 OR u = 5", "x = 1 OR (u = 5 AND x < 9)", "x >= 0 AND (x = 1 OR u = 5)", "x = 1 OR u = 5 OR x IN (1, 5)", "(x = 1 OR u = 5) AND (x = 5 OR x = 1)"):
            same(sorted(db.query(f"SELECT u FROM {call} WHERE {where}", parameters)), [(1,), (5,)], (call, where))
            same(sorted(db.query(f"SELECT u, z FROM {call}, p WHERE ({where}) AND v = u", parameters)), [(1, 2), (5, 6)], (call, where))
    for sql in ("SELECT u FROM m JOIN w ON w.as_of = m.at WHERE x = 1 OR u = 5", "SELECT u FROM m, w(m.at) WHERE x = 1 OR u = 5",
                "SELECT u FROM m, w WHERE w.as_of = m.at AND (x = 1 OR u = 5)"):
        same(sorted(db.query(sql)), [(1,), (1,), (5,), (5,)], sql)
    check_contains(db.plan("SELECT u FROM w WHERE x = 1 OR u = 5"), "MULTI-INDEX OR")   # without an argument that may be NULL the OR is optimized
    db.query("ANALYZE")
    for call in ("w", "w(NULL)", "w('2090-01-01')"):   # a lookup is one with any argument
        check_contains(db.plan(f"SELECT p.z FROM p, {call} WHERE {call[0]}.x = p.v").split("\n")[1], "x=?")


# ---- Joins ---------------------------------------------------------------------------------------------------------------

def test_outer_joins_keep_their_rows():
    db = small()
    outer = ["LEFT JOIN"] + (["FULL JOIN"] if db.version() >= OUTER_TRUE else [])
    for test in ("{}.u IS NOT NULL", "{}.u <> 3", "{}.u IS NOT 3", "{}.u = 3", "{}.u > 2", "{}.u IS NULL", "{}.u IS 3", "{}.x IS NOT NULL", "{}.x <> 2", "({0}.x, {0}.u) > (3, 3)",
                 "{}.u IN (1, NULL)"):
        for how in outer:
            for left, right in ("vn", "vv", "nv"):
                for sql in (f"SELECT a.x, b.x FROM {{0}} a {how} {{1}} b ON a.x = b.x {where} {test.format(name)}" for where in ("AND", "WHERE") for name in "ab"):
                    got, want = (sorted(db.query(sql.format(a, b)), key=repr) for a, b in ((left, right), "nn"))
                    same(got, want, sql.format(left, right))


def test_operators_of_on_are_taken_from_the_release_that_keeps_them():
    db = small()
    taken = db.version() >= OUTER_TRUE
    for where, plan in (("u <> 3", "u<>?"), ("u IS NOT 3", "u IS NOT ?"), ("u IS NOT NULL", "u IS NOT NULL")):
        same(plan in db.plan(f"SELECT * FROM v WHERE {where}"), taken, where)
        same(sorted(db.query(f"SELECT x FROM v WHERE {where}")), sorted(db.query(f"SELECT x FROM n WHERE {where}")), where)


def test_uint64_is_unequal_to_text_from_the_release_that_keeps_on():
    db = Database()
    db.query("CREATE VIRTUAL TABLE s USING tessera(id UINT64 DIMENSION, u UINT64)")
    db.query("INSERT INTO s VALUES(7, '9223372036854775809'), (8, 9)")
    for where, own in (("id <> {}", ("7", "'7'")), ("id IS NOT {}", ("7", "'007'")), ("u <> {}", ("'09223372036854775809'", "'9223372036854775809'"))):
        same(db.query(f"SELECT id FROM s WHERE {where.format(own[0])}"), [(8,)], where)
        if db.version() >= OUTER_TRUE:
            same(db.query(f"SELECT id FROM s WHERE {where.format(own[1])}"), [(8,)], where)


# ---- OFFSET --------------------------------------------------------------------------------------------------------------

def test_offset_after_row_values():
    db = small()
    for where in ("(x, u) > (1, 1)", "(x, u) >= (1, 1)", "(u, x) >= (2, 2)", "(x, u) < (5, 5)", "(x, u) BETWEEN (1, 2) AND (4, 3)", "(x, u) > (SELECT 1, 1)", "x >= 2", "x > 1",
                  "x BETWEEN 2 AND 4", "x IN (1, 3, 5)", "(x, u) IN (SELECT x, u FROM n)"):
        for order in ("x", "x DESC"):
            for offset in range(4):
                got, want = (db.query(f"SELECT x FROM {t} WHERE {where} ORDER BY {order} LIMIT 2 OFFSET {offset}") for t in "vn")
                same(got, want, (where, order, offset))
    for end in ("LIMIT 2", "LIMIT 2 OFFSET 1"):   # also where the LIMIT is all that the plan is told
        check_contains(db.plan(f"SELECT x FROM v {end}"), end.replace(" 2", "").replace(" 1", ""))
    skipped = db.version() >= OUTER_TRUE
    for where, known in (("x >= 2", True), ("x > ?", True), ("x BETWEEN 2 AND 4", True), ("x >= ?", False), ("(x, u) > (1, 1)", False)):
        plan = db.plan(f"SELECT x FROM v WHERE {where} ORDER BY x LIMIT 2 OFFSET 1", (2,) if "?" in where else ())
        same("OFFSET SKIPPED" in plan, skipped and known, where)


# ---- min() ---------------------------------------------------------------------------------------------------------------

def test_min_of_a_dimension_takes_a_row():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 99, 10), x INT32 DIMENSION(0, 99, 10), v INT32)")
    db.query("WITH s(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM s WHERE i < 9999) INSERT INTO t SELECT i / 100, i % 100, i FROM s")
    for sql, want in (("SELECT min(y) FROM t", 0), ("SELECT min(x) FROM t WHERE y > 50 AND x > 3", 4), ("SELECT max(x) FROM t", 99)):
        rows, given = counted(db, sql)
        same((rows, given), ([(want,)], 1), sql)
    same(db.query("SELECT min(y), max(y) FROM t"), [(0, 99)])   # SQLite requests no order for these two together
    same(counted(db, "SELECT (SELECT min(y) FROM t), (SELECT max(y) FROM t)"), ([(0, 99)], 2))
    same(db.query("SELECT min(y), max(x) FROM t WHERE y > 1000"), [(None, None)])


def test_dimensions_that_are_never_null():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(a INT8 DIMENSION(0, 9), b TEXT DIMENSION, c FLOAT64 DIMENSION(0, 9), d DATE DIMENSION('2000-01-01', '2030-01-01'), "
             "v INT32 NOT NULL DEFAULT 1)")
    same([row[3] for row in db.query("PRAGMA table_info(t)")], [1, 1, 0, 1, 1])   # a float may be NaN
    db.query("INSERT INTO t VALUES(1, 'b', 2.5, '2024-01-01', 3)")
    db.query("CREATE TABLE o(k)")
    db.query("INSERT INTO o VALUES(1), (2)")
    same(db.query("SELECT k, a IS NULL, b IS NULL FROM o LEFT JOIN t ON a = k ORDER BY k"), [(1, 0, 0), (2, 1, 1)])
    same(db.query("SELECT k FROM o LEFT JOIN t ON a = k WHERE a IS NULL"), [(2,)])
    same(db.query("SELECT k FROM o LEFT JOIN t ON a = k WHERE b IS NOT NULL"), [(1,)])


def test_a_declaration_from_before_not_null():
    """The shadow table keeps the declaration for a table whose array is missing. If the array comes back, an old declaration without NOT NULL counts as the same columns."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    path, file = os.path.join(folder, "array"), os.path.join(folder, "t.db")
    db = Database(file)
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT32 DIMENSION(0, 9), v INT32)")
    db.query("INSERT INTO t VALUES(1, 2)")
    db.query("UPDATE t_config SET value = replace(value, ' NOT NULL', '') WHERE key = 'declaration'")
    db.close()
    shutil.move(path, path + "-away")
    db = Database(file)
    check_contains(db.error("SELECT * FROM t").text, "array not found")
    shutil.move(path + "-away", path)
    same(db.query("SELECT x, v FROM t WHERE x IS NOT NULL"), [(1, 2)])
    db.close()
    db = Database(file)
    same(db.query("PRAGMA table_info(t)")[0][3], 1)
    db.close()


# ---- DISTINCT ------------------------------------------------------------------------------------------------------------

def distinct(db, sql, most):
    """Checks that the rows are the same as without pushdown, and that the array gives no more than `most` rows for them."""
    rows, given = counted(db, sql)
    want = db.query(sql.replace("FROM t", f"FROM {HIDE}"))
    if "ORDER BY" not in sql:
        rows, want = sorted(rows, key=repr), sorted(want, key=repr)
    same(rows, want, sql)
    reduced = db.version() >= (ORDERED_DISTINCT if "ORDER BY" in sql else DISTINCT_SAFE)
    assert not reduced or most is None or given <= most, f"{sql}: {given} rows for {len(rows)}"


def test_distinct_of_a_dense_array():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 99, 10), x INT32 DIMENSION(0, 49, 7), z INT32 DIMENSION(0, 3, 4), v INT32)")
    db.query("INSERT INTO t VALUES(3, 2, 1, 1), (90, 40, 2, 2)")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(50, 3, 3, 3), (51, 3, 3, NULL)")
    db.query("COMMIT")
    everything = db.value("SELECT count(*) FROM t")
    for sql, most in (("SELECT DISTINCT y FROM t", 88), ("SELECT DISTINCT x FROM t", 39), ("SELECT DISTINCT z FROM t WHERE z > 1", 2), ("SELECT DISTINCT y, z FROM t", 88 * 3),
                      ("SELECT DISTINCT z, y FROM t WHERE y > 50 ORDER BY y DESC, z", 40 * 3), ("SELECT DISTINCT y FROM t ORDER BY y DESC", 88),
                      ("SELECT DISTINCT x FROM t WHERE x IN (3, 7, 9, 40, 41)", 4), ("SELECT DISTINCT y FROM t WHERE x = 3", 88), ("SELECT DISTINCT y FROM t WHERE y % 7 = 1", 88),
                      ("SELECT DISTINCT y FROM t WHERE v IS NULL", None), ("SELECT DISTINCT y, v FROM t", None), ("SELECT DISTINCT y FROM t WHERE v > 1", None),
                      ("SELECT DISTINCT x, y, z FROM t", everything), ("SELECT DISTINCT z, x FROM t ORDER BY z", 39 * 3)):
        if sql.endswith("ORDER BY z"):
            sql += ", x"
        distinct(db, sql, most)
    db.query("BEGIN")   # uncommitted rows widen the non-empty domain
    db.query("INSERT INTO t VALUES(99, 49, 0, 5)")
    distinct(db, "SELECT DISTINCT y FROM t", 97)
    distinct(db, "SELECT DISTINCT z FROM t ORDER BY z DESC", 4)
    db.query("ROLLBACK")


def test_distinct_of_a_sparse_array():
    for options in ("", ", cell_order=hilbert", ", cell_order=col", ", duplicates=yes", ", memory_mb=1"):
        db = Database()
        first = "contig INT32 DIMENSION(0, 99, 10)" if "hilbert" in options else "contig TEXT DIMENSION"
        db.query(f"CREATE VIRTUAL TABLE t USING tessera(capacity=50, {first}, pos INT32 DIMENSION(0, 999, 10), day DATE DIMENSION('2024-01-01', '2024-12-31', 30), v INT32{options})")
        for commit in range(3):   # several fragments that overlap
            db.query("WITH s(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM s WHERE i < 1499) INSERT INTO t "
                     f"SELECT i * 7 % {5 + commit}, (i * 31 + {commit}) % 1000, date('2024-01-01', (i % 3) || ' days'), i FROM s")
        db.query("DELETE FROM t WHERE contig = '2'" if "hilbert" not in options else "DELETE FROM t WHERE contig = 2")
        for sql, most in (("SELECT DISTINCT contig FROM t", 6), ("SELECT DISTINCT contig FROM t ORDER BY contig DESC", 6), ("SELECT DISTINCT day FROM t", 3),
                          ("SELECT DISTINCT contig, day FROM t", 18), ("SELECT DISTINCT day, contig FROM t ORDER BY contig, day DESC", 18), ("SELECT DISTINCT contig FROM t WHERE contig > '3'", 6),
                          ("SELECT DISTINCT pos FROM t WHERE pos BETWEEN 100 AND 200", 101), ("SELECT DISTINCT contig FROM t WHERE day = '2024-01-02'", 6),
                          ("SELECT DISTINCT contig FROM t WHERE pos > 990", 60), ("SELECT DISTINCT contig FROM t WHERE v > 1490", None), ("SELECT DISTINCT day, pos FROM t", 3000),
                          ("SELECT DISTINCT contig, pos, day FROM t", None), ("SELECT DISTINCT day FROM t WHERE contig IN ('1', '3', '9')", 9)):
            distinct(db, sql, most)
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES('9', 1, '2024-02-01', 1), ('9', 2, '2024-02-01', 1)")
        db.query("DELETE FROM t WHERE contig = 1" if "hilbert" in options else "DELETE FROM t WHERE contig = '1'")
        distinct(db, "SELECT DISTINCT contig FROM t", 6)
        distinct(db, "SELECT DISTINCT day FROM t ORDER BY day DESC", 4)
        db.query("ROLLBACK")
        distinct(db, "SELECT DISTINCT contig FROM t", 6)


def test_distinct_beside_other_things():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(a INT32 DIMENSION(0, 9), b INT32 DIMENSION(0, 9), v INT32)")
    db.query("WITH s(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM s WHERE i < 99) INSERT INTO t SELECT i / 10, i % 10, i FROM s")
    db.query("CREATE TABLE o AS SELECT rowid AS id, * FROM t")
    db.query("CREATE TABLE p(k, w)")
    db.query("INSERT INTO p VALUES(1, 1), (1, 2), (3, 1)")
    for sql in ("SELECT DISTINCT a FROM {t} AS t JOIN p ON p.k = t.a", "SELECT DISTINCT t.a, p.w FROM p, {t} AS t WHERE t.a > p.k", "SELECT DISTINCT a FROM {t} AS t WHERE a = 1 OR a = 5",
                "SELECT DISTINCT a FROM {t} AS t WHERE a = 1 OR b = 5", "SELECT DISTINCT a FROM {t} AS t WHERE EXISTS (SELECT 1 FROM p WHERE k = t.a)",
                "SELECT DISTINCT a FROM {t} AS t WHERE EXISTS (SELECT 1 FROM p WHERE k = t.b)", "SELECT count(DISTINCT a), count(*) FROM {t}", "SELECT count(DISTINCT a) FROM {t}",
                "SELECT a FROM {t} UNION SELECT b FROM {t}", "SELECT a FROM {t} INTERSECT SELECT b + 5 FROM {t}", "SELECT DISTINCT a + b FROM {t}", "SELECT DISTINCT a, count(*) FROM {t} GROUP BY b, a",
                "SELECT DISTINCT a, row_number() OVER (PARTITION BY a ORDER BY b) FROM {t}", "SELECT a, count(*) FROM {t} GROUP BY a", "SELECT DISTINCT max(b) FROM {t} GROUP BY a",
                "SELECT DISTINCT t.a, y.a FROM {t} AS t JOIN {t} AS y ON t.a = y.b", "SELECT DISTINCT a FROM {t} LIMIT 3 OFFSET 2", "SELECT DISTINCT a FROM {t} ORDER BY a DESC LIMIT 3 OFFSET 2",
                "SELECT DISTINCT 1, a FROM {t}", "SELECT DISTINCT a FROM {t} ORDER BY b", "SELECT DISTINCT a, b FROM {t} ORDER BY b DESC"):
        got, want = (sorted(db.query(sql.replace("{t}", t)), key=repr) for t in ("t", "o"))
        if "LIMIT" in sql or sql.endswith("ORDER BY b"):
            got, want = len(got), len(want)
        same(got, want, sql)
    db.query("CREATE TABLE m(at)")
    db.query("INSERT INTO m VALUES('2090-01-01'), (NULL)")
    same(db.query("SELECT at, (SELECT count(*) FROM (SELECT DISTINCT a FROM t(at))) FROM m"), [("2090-01-01", 10), (None, 10)])
    # So does a label in a condition that SQLite tests.
    db.query("CREATE VIRTUAL TABLE g USING tessera(kind=dense, a INT32 DIMENSION(0, 2, 3), b INT32 DIMENSION(0, 3, 4) LABEL lat FLOAT64, v INT32)")
    db.query("INSERT INTO g(a, b, v) SELECT i.value, k.value, 1 FROM json_each('[0,1,2]') AS i, json_each('[0,1,2,3]') AS k")
    db.query("SELECT tessera_write_label('db:g', 'lat', '[10, 20, 30, 40]')")
    for where in ("abs(lat) = 30", "lat + a = 31", "abs(b) = 2"):
        same(db.query(f"SELECT DISTINCT a FROM g WHERE {where} ORDER BY a"), [(1,)] if "a =" in where else [(0,), (1,), (2,)], where)
    # A rowid distinguishes equal rows. If SQLite does not say that the rowid is used, the result is an error, never a missing row.
    for where in ("rowid % 2 = 0", "rowid > 5", "rowid IN (SELECT rowid FROM t WHERE b = 3)", "a > 3 AND rowid % 2 = 0"):
        for order in ("", " ORDER BY a"):
            want = [(a,) for a, in db.query(f"SELECT DISTINCT a FROM o WHERE {where.replace('FROM t', 'FROM o').replace('rowid', 'id')} ORDER BY a")]
            sql = f"SELECT DISTINCT a FROM t WHERE {where}{order}"
            try:
                same(sorted(db.query(sql)), want, sql)
            except Error as error:
                assert db.version() >= ORDERED_DISTINCT, sql
                check_contains(error.text, "SELECT DISTINCT with a rowid in its WHERE")
    same(sorted(db.query("SELECT DISTINCT a FROM (SELECT a FROM t WHERE rowid % 2 = 0 LIMIT -1)")), sorted(db.query("SELECT DISTINCT a FROM o WHERE id % 2 = 0")))


if __name__ == "__main__":
    host.main(sys.modules[__name__])
