"""tessera_create_as: the rows of a SELECT become an array. Each rule of inference has a case that fits and one that does not; a call makes its array
and all of its cells, or nothing.

usage: create_as.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os

import host
from host import Database, check_contains, not_on_windows, same


def database():
    os.chdir(host.FOLDER)
    return Database()


def make(db, path, select, **options):
    return db.value("SELECT tessera_create_as(?, ?, ?)", (path, select, json.dumps(options)))


def message(db, sql, parameters=()):
    return db.error(sql, parameters).text


def cells(db, path):
    """The rows that were written, of an array in a directory or in the database."""
    if path.startswith("db:"):
        return [r for r in db.query(f"SELECT * FROM {path[3:]} ORDER BY 1, 2") if r[-1] is not None]
    return sorted(r for r in rows(db, path) if r[-1] is not None)


def current(db, path):
    """The current domain of each dimension: its ends."""
    return ["{} {}".format(*json.loads(d)) for d, in db.query("SELECT current_domain FROM tessera_schema(?) WHERE role = 'dimension'", (path,))]


def refused(db, part, select, **options):
    """The call fails with this message, and nothing is there."""
    check_contains(message(db, "SELECT tessera_create_as('refused', ?, ?)", (select, json.dumps(options))), part)
    assert not os.path.exists("refused"), os.listdir("refused")


def ddl(db, select, **options):
    return make(db, "explained", select, explain=True, **options)


def shape(db, path):
    """name, role, type and domain of each field."""
    return db.query("SELECT name, role, datatype || CASE WHEN cell_val_num = 1 OR datatype GLOB 'UTF*' OR datatype = 'BLOB' OR datatype = 'ASCII' THEN '' WHEN cell_val_num IS NULL THEN '[]' ELSE '[' || cell_val_num || ']' END, domain FROM tessera_schema(?)", (path,))


def rows(db, path, order="1"):
    db.query("DROP TABLE IF EXISTS shown")
    db.table("shown", path)
    return db.query(f"SELECT * FROM shown ORDER BY {order}")


def sound(db, path):
    same([r for r in db.query("SELECT severity, message FROM tessera_check(?)", (path,)) if r[0] != "note"], [], path)


GRID = "SELECT a.x, b.y, 10 * a.x + b.y AS v FROM (VALUES(1), (2), (3)) AS p, (SELECT column1 AS x FROM (VALUES(1), (2), (3))) AS a, (SELECT column1 AS y FROM (VALUES(5), (6))) AS b WHERE p.column1 = a.x"


def test_types_come_from_all_values():
    db = database()
    same(make(db, "t", "SELECT * FROM (VALUES(1, 1, 'a', x'01', NULL), (NULL, 2.5, 'b', x'', 7))"), 2)
    same([r[2] for r in shape(db, "t")], ["INT64", "INT64", "FLOAT64", "UTF8", "BLOB", "INT64"])
    same(rows(db, "t"), [(0, 1, 1.0, "a", b"\x01", None), (1, None, 2.5, "b", b"", 7)])
    sound(db, "t")
    check_contains(ddl(db, "SELECT 1 AS a, NULL AS b UNION ALL SELECT 2, 3"), "a INT64 FILTERS")


def test_unsigned_columns_stay_unsigned_however_they_show():
    db = database()
    db.query("CREATE VIRTUAL TABLE s USING tessera('s', x INT32 DIMENSION(0, 9, 5), u UINT64, uint64=signed)")
    db.query("INSERT INTO s VALUES(0, 7), (1, 9)")
    same(make(db, "t", "SELECT x, u FROM s"), 2)
    same([r[2] for r in shape(db, "t")], ["INT64", "INT32", "UINT64"])


def test_the_arms_of_a_view_keep_their_types():
    """In a view of a database, and in a temporary one, whose names mean tables of any database."""
    db = database()
    db.query("CREATE VIRTUAL TABLE s USING tessera('arms', x INT32 DIMENSION(0, 9, 5), u UINT8)")
    db.query("INSERT INTO s VALUES(1, 3)")
    for n, temporary in enumerate(("", "TEMP ")):
        db.query(f"CREATE {temporary}VIEW v AS SELECT x, u FROM s UNION ALL SELECT x + 1, u FROM s")
        same(make(db, f"of_view{n}", "SELECT x, u FROM v"), 2)
        same([r[2] for r in shape(db, f"of_view{n}")][2:], ["UINT8"])
        db.query("DROP VIEW v")


def test_columns_of_mixed_types_are_refused():
    db = database()
    refused(db, "row 2: column 'column1': TEXT beside INTEGER, which came first, in row 1", "SELECT * FROM (VALUES(1), ('x'))")
    refused(db, "row 2: column 'column1': REAL beside TEXT", "SELECT * FROM (VALUES('x'), (2.5))")
    refused(db, "column 'b': no value determines its type: give it in types", "SELECT 1 AS a, NULL AS b")
    refused(db, "REAL beside an integer past 2^53 (row 1)", "SELECT * FROM (VALUES(9007199254740993), (0.5))")
    refused(db, "row 2: column 'column1': the integer 9007199254740993 is past 2^53", "SELECT * FROM (VALUES(0.5), (9007199254740993))")
    same(make(db, "exact", "SELECT * FROM (VALUES(9007199254740992), (0.5))"), 2)


def test_types_that_are_given():
    db = database()
    types = {"i": "INT16", "u": "UINT64", "f": "FLOAT32", "d": "DATETIME_DAY", "n": "INT32[]", "b": "BOOL", "p": "FLOAT32[2]", "w": "UTF16"}
    same(make(db, "t", "SELECT -5 AS i, '18446744073709551615' AS u, 0.5 AS f, '2024-02-29' AS d, '[1,2,3]' AS n, 1 AS b, '[1,2]' AS p, 'é' AS w", types=types), 1)
    same([r[2] for r in shape(db, "t")][1:], ["INT16", "UINT64", "FLOAT32", "DATETIME_DAY", "INT32[]", "BOOL", "FLOAT32[2]", "UTF16"])
    same(rows(db, "t")[0][1:], (-5, "18446744073709551615", 0.5, "2024-02-29", "[1,2,3]", 1, "[1.0,2.0]", "é"))
    refused(db, "row 2: column 'a': 128 does not fit INT8", "SELECT 127 AS a UNION ALL SELECT 128", types={"a": "INT8"})
    refused(db, "row 2: column 'a': 3.40282e+39 does not fit FLOAT32", "SELECT 3.4028234e38 AS a UNION ALL SELECT 3.4028234e39", types={"a": "FLOAT32"})
    same(make(db, "wide", "SELECT 3.4028234e39 AS a", types={"a": "FLOAT64"}), 1)
    same(rows(db, "wide")[0][1:], (3.4028234e39,))
    same(make(db, "endless", "SELECT -9e999 AS a", types={"a": "FLOAT32"}), 1)
    refused(db, "TEXT in a column of FLOAT32", "SELECT 'x' AS a", types={"a": "FLOAT32"})
    refused(db, "column 'a'", "SELECT 'no date' AS a", types={"a": "DATETIME_SEC"})
    refused(db, "expected only a type", "SELECT 1 AS a", types={"a": "INT8 NOT NULL"})
    refused(db, "the source has no column 'b'", "SELECT 1 AS a", types={"b": "INT8"})


def test_columns_of_tessera_tables_keep_their_types():
    db = database()
    if not db.query("SELECT 1 FROM pragma_compile_options WHERE compile_options = 'ENABLE_COLUMN_METADATA'"):
        print("left out test_columns_of_tessera_tables_keep_their_types: this SQLite does not tell of which table a column is")
        return
    db.query("CREATE VIRTUAL TABLE s USING tessera('s', x INT16 DIMENSION(0, 99, 10), a UINT8 FILTERS(gzip(3)), e TEXT ENUM('no', 'yes') ORDERED, d DATETIME_SEC)")
    db.query("INSERT INTO s VALUES(3, 200, 'yes', '2024-01-02T03:04:05'), (5, 7, 'no', '2024-01-03')")
    make(db, "t", "SELECT x, a, e, d, a + 1 AS more FROM s", dimensions=["x"])
    same([r[2] for r in shape(db, "t")], ["INT16", "UINT8", "UINT16", "DATETIME_SEC", "INT64"])
    check_contains(db.value("SELECT tessera_ddl('t')"), "FILTERS(gzip(3))")
    check_contains(db.value("SELECT tessera_ddl('t')"), "ENUM('no', 'yes') ORDERED")
    same(rows(db, "t"), [(3, 200, "yes", "2024-01-02 03:04:05", 201), (5, 7, "no", "2024-01-03 00:00:00", 8)])


def test_dense_if_the_rows_fill_their_box():
    db = database()
    same(make(db, "t", GRID, dimensions=["y", "x"]), 6)
    same([(r[0], r[3]) for r in shape(db, "t")[:2]], [("y", "[5,6]"), ("x", "[1,3]")])
    same(db.value("SELECT kind FROM tessera_array('t')"), "dense")
    same(rows(db, "t", "1, 2"), [(5, 1, 15), (5, 2, 25), (5, 3, 35), (6, 1, 16), (6, 2, 26), (6, 3, 36)])
    sound(db, "t")
    for name, select in (("gap", GRID + " AND v <> 16"), ("twice", GRID + " AND v <> 16 UNION ALL SELECT 3, 6, 0"), ("real", GRID.replace("a.x,", "a.x + 0.5 AS x,")), ("text", GRID.replace("a.x,", "'k' || a.x AS x,"))):
        same(make(db, name, select, dimensions=["y", "x"], duplicates=True) >= 5, True)
        same(db.value("SELECT kind FROM tessera_array(?)", (name,)), "sparse", name)
        sound(db, name)
    make(db, "only", "SELECT 1 AS i UNION SELECT 2", dimensions=["i"])
    same(db.value("SELECT kind FROM tessera_array('only')"), "sparse", "a dense array needs an attribute")


def test_dense_that_is_asked_for():
    db = database()
    same(make(db, "t", GRID + " AND v <> 16", dimensions=["y", "x"], kind="dense"), 5)
    same(rows(db, "t", "1, 2")[3], (6, 1, None))
    refused(db, "have the coordinates of an earlier row, the first of them (6, 3)", GRID + " UNION ALL SELECT 3, 6, 0", dimensions=["y", "x"], kind="dense")
    refused(db, "the dimensions are not integers or instants of one datatype", "SELECT 0.5 AS x, 1 AS v", dimensions=["x"], kind="dense")
    refused(db, "the dimensions are not integers or instants of one datatype", "SELECT 1 AS x, '2024-01-01' AS d, 1 AS v", dimensions=["x", "d"], types={"d": "DATETIME_DAY"}, kind="dense")
    refused(db, "the rows leave gaps: say kind sparse", "WITH RECURSIVE c(x) AS (VALUES(0) UNION ALL SELECT x + 2 FROM c WHERE x < 9000) SELECT x, x AS v FROM c", dimensions=["x"], kind="dense")
    refused(db, "say which columns are the dimensions", "SELECT 1 AS x", kind="sparse")
    make(db, "widened", "SELECT 1 AS x, 2 AS y, 3 AS v", dimensions=["x", "y"], types={"x": "INT8", "y": "INT32"})
    same([r[2] for r in shape(db, "widened")[:2]], ["INT32", "INT32"])


def test_sparse_rows_at_one_coordinate():
    db = database()
    points = "SELECT * FROM (VALUES('a', 1.5, 1), ('b', -0.0, 2), ('a', 1.5, 3), ('b', 0.0, 4), ('c', 7, 5))"
    refused(db, "2 of 5 rows have the coordinates of an earlier row, the first of them ('a', 1.5): the option duplicates keeps them", points, dimensions=["column1", "column2"])
    same(make(db, "t", points, dimensions=["column1", "column2"], duplicates=True), 5)
    same(len(rows(db, "t")), 5)


def test_dimensions():
    db = database()
    for select, part in (("SELECT 1 AS x, 5 AS v UNION ALL SELECT NULL, 6", "row 2: column 'x': NULL in a dimension"),
                         ("SELECT x'00' AS x, 5 AS v", "row 1: column 'x': a BLOB cannot be a dimension")):
        refused(db, part, select, dimensions=["x"])
    for type_ in (None, "ASCII", "UTF8", "UTF16"):   # as an INSERT, which takes any text
        path, options = f"cities{type_}", {"types": {"city": type_}} if type_ else {}
        same(make(db, path, "SELECT 'Zürich' AS city, 1 AS v UNION ALL SELECT 'Bern', 2", dimensions=["city"], **options), 2)
        same(make(db, path, "SELECT '日本' AS city, 3 AS v", if_exists="append"), 1)
        same(rows(db, path), [("Bern", 2), ("Zürich", 1), ("日本", 3)], path)
        same(db.query("SELECT v FROM shown WHERE city = 'Zürich'"), [(1,)])
        sound(db, path)
    same(make(db, "ascii", "SELECT 'é' AS x", types={"x": "ASCII"}), 1)
    same(rows(db, "ascii"), [(0, "é")])
    refused(db, "BOOL cannot be a dimension", "SELECT 1 AS x, 2 AS v", dimensions=["x"], types={"x": "BOOL"})
    refused(db, "'dimensions' names 'x' twice", "SELECT 1 AS x, 2 AS v", dimensions=["x", "x"])
    make(db, "order", "SELECT 1 AS a, 2 AS b, 3 AS c", dimensions=["c", "a"])
    same([r[0] for r in shape(db, "order")], ["c", "a", "b"])


def test_domains_and_extents_have_the_type_of_the_column():
    """A number of a domain or an extent becomes what the dimension's values are, or is refused; also in a CSV."""
    db = database()
    reals, integers = "SELECT 1.5 AS a, 2 AS v UNION ALL SELECT 2.25, 3", "SELECT 1 AS a, 2 AS v UNION ALL SELECT 3, 3"
    with open("reals.csv", "w") as f:
        f.write("a,v\n1.5,2\n2.25,3\n")
    with open("integers.csv", "w") as f:
        f.write("a,v\n1,2\n3,3\n")

    def both(select, file, options):
        options = json.dumps({"dimensions": ["a"], "explain": True, **options})
        return [db.value("SELECT tessera_create_as('explained', ?, ?)", (select, options)), db.value("SELECT tessera_create_csv('explained', ?, ?)", (file, options))]

    for options, domain in (({"domains": {"a": [0, 9]}}, "(0, 9)"), ({"domains": {"a": [0, 9]}, "extents": {"a": 0.5}}, "(0, 9, 0.5)"), ({"domains": {"a": [0.5, 9]}, "extents": {"a": 3}}, "(0.5, 9, 3)"),
                            ({"extents": {"a": 1}}, "(-1099511627776, 1099511627776, 1)"), ({"extents": {"a": 1}, "domains": {"a": [0, 1e2]}}, "(0, 100, 1)"), ({"domains": {"a": [-1, 2.25]}}, "(-1, 2.25)")):
        for text in both(reals, "reals.csv", options):
            check_contains(text.replace(".0", ""), "a FLOAT64 DIMENSION" + domain)
    for options, domain in (({"domains": {"a": [0, 9.0]}}, "(0, 9)"), ({"domains": {"a": [1.0, 1e2]}, "extents": {"a": 2.0}}, "(1, 100, 2)")):
        for text in both(integers, "integers.csv", options):
            check_contains(text, "a INT64 DIMENSION" + domain)
    for options, part in (({"extents": {"a": 1.5}}, "column 'a': its values are INTEGER, and the tile extent is 1.5"), ({"domains": {"a": [0.5, 9]}}, "column 'a': its values are INTEGER, and the low end of the domain is 0.5"),
                          ({"domains": {"a": [0, 9.5]}}, "the high end of the domain is 9.5"), ({"domains": {"a": [0, 1e30]}}, "the high end of the domain, 1e+30, does not fit INT64")):
        refused(db, part, integers, dimensions=["a"], **options)
        check_contains(message(db, "SELECT tessera_create_csv('refused', 'integers.csv', ?)", (json.dumps({"dimensions": ["a"], **options}),)), part)
    same(make(db, "reals", reals, dimensions=["a"], domains={"a": [0, 9]}, extents={"a": 2}), 2)
    same(rows(db, "reals"), [(1.5, 2), (2.25, 3)])
    sound(db, "reals")


def test_skipped_rows_at_the_coordinates_of_others():
    """With on_error skip the first row at a coordinate stays, and those after it are skipped: for each kind of key, within a small memory, too."""
    db = database()

    def check(name, select, dimensions, rows_of, names, **options):
        """rows_of: the source's rows; the first of each key stays."""
        kept, lines = {}, []
        for number, row in enumerate(rows_of, 1):
            if row[:dimensions] in kept:
                lines.append(number)
            kept.setdefault(row[:dimensions], row)
        got = json.loads(make(db, name, select, dimensions=names[:dimensions], on_error="skip", **options))
        same((got["rows"], got["skipped"], got["lines"]), (len(kept), len(lines), lines[:20]), name)
        same(sorted(rows(db, name)), sorted(kept.values()), name)
        sound(db, name)
        return got["first"]

    def run(name, count, columns, names, dimensions, **options):
        db.query("DROP TABLE IF EXISTS source")
        db.query(f"CREATE TABLE source AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}) SELECT {columns} FROM n")
        return check(name, "SELECT * FROM source", dimensions, db.query("SELECT * FROM source"), names=names.split(), **options)

    same(run("one", 100, "i % 7 - 3 AS a, i AS v", "a v", 1), "row 8: an earlier row has the coordinates (-3)")
    same(run("two", 100, "i % 7 / 2.0 AS a, i % 3 - 1 AS b, i AS v", "a b v", 2), "row 22: an earlier row has the coordinates (0, -1)")
    same(run("three", 500, "i % 7 AS a, i % 3 AS b, i % 5 AS c, i AS v", "a b c v", 3), "row 106: an earlier row has the coordinates (0, 0, 0)")
    same(run("text", 500, "substr('abcdefghijklmnopqrstuvwxyz', 1, i % 26) AS a, i % 4 AS b, nullif(i % 9, 0) AS v, 'x' || i AS w", "a b v w", 2), "row 53: an earlier row has the coordinates ('', 0)")
    run("long", 400, "substr(hex(zeroblob(300)), 1, 200 + i % 70) AS a, i AS v", "a v", 1)
    run("small", 300000, "i % 100000 * 3 AS a, i % 2 AS b, printf('%d and some more', i) AS v", "a b v", 2, memory_mb=4)
    run("a part of them", 200000, "i % 60000 AS a, nullif(i, 3) AS v", "a v", 1)
    same(run("day", 5, "'2024-01-0' || (i % 3 + 1) AS a, i AS v", "a v", 1, types={"a": "DATE"}), "row 4: an earlier row has the coordinates (2024-01-01)")
    got = json.loads(make(db, "zero", "SELECT 0.0 AS a, 1 AS v UNION ALL SELECT -0.0, 2 UNION ALL SELECT 0.1, 3 UNION ALL SELECT 0.1000000001, 4", dimensions=["a"], types={"a": "FLOAT32"}, on_error="skip"))
    same((got["rows"], got["lines"], got["first"]), (2, [2, 4], "row 2: an earlier row has the coordinates (-0)"))
    check_contains(ddl(db, "SELECT 1 AS a, 1 AS v UNION ALL SELECT 1, 2", dimensions=["a"], on_error="skip"), "kind=dense")
    same(json.loads(make(db, "both", "SELECT 1.5 AS a, 1 AS v UNION ALL SELECT 1.5, 2", dimensions=["a"], duplicates=True, on_error="skip"))["rows"], 2)
    make(db, "more", "SELECT 1 AS a, 1 AS v UNION ALL SELECT 2, 2", dimensions=["a"])
    same(json.loads(make(db, "more", "SELECT 1 AS a, 5 AS v UNION ALL SELECT 1, 6", if_exists="append", on_error="skip")), {"rows": 2, "skipped": 0, "lines": [], "first": None})
    same(rows(db, "more"), [(1, 6), (2, 2)])


def test_rows_outside_of_a_domain():
    """The error names row, value and limits; with on_error skip such rows are left out, of new arrays and of those that exist."""
    db = database()

    def skipped(path, select, **options):
        got = json.loads(make(db, path, select, on_error="skip", **options))
        return got["rows"], got["skipped"], got["lines"], got["first"]

    for name, select, options, text in (("i", "VALUES(1, 1), (12, 2), (3, 3), (-1, 4)", {"domains": {"column1": [0, 9]}}, "12 is outside the domain, 0 to 9"),
                                        ("n", "VALUES(1, 1), (12, 2), (3, 3), (-1, 4)", {"domains": {"column1": [0, 9]}, "types": {"column1": "INT8"}}, "12 is outside the domain, 0 to 9"),
                                        ("r", "VALUES(1, 1), (12.5, 2), (3, 3), (-0.25, 4)", {"domains": {"column1": [0, 9]}}, "12.5 is outside the domain, 0 to 9"),
                                        ("f", "VALUES(1, 1), (12.5, 2), (3, 3), (-0.25, 4)", {"domains": {"column1": [0, 9.5]}, "types": {"column1": "FLOAT32"}}, "12.5 is outside the domain, 0 to 9.5"),
                                        ("d", "VALUES('2024-01-02', 1), ('2025-01-01', 2), ('2024-01-04', 3), ('2023-01-01', 4)", {"types": {"column1": "DATE"}, "domains": {"column1": ["2024-01-01", "2024-12-31"]}},
                                         "2025-01-01 is outside the domain, 2024-01-01 to 2024-12-31")):
        select, options, text = f"SELECT * FROM ({select})", {"dimensions": ["column1"], **options}, f"row 2: dimension 'column1': {text}"
        refused(db, text, select, **options)
        same(skipped(name, select, **options), (2, 2, [2, 4], text), name)
        same([r[1] for r in rows(db, name)], [1, 3], name)
        check_contains(message(db, "SELECT tessera_create_as(?, ?, '{\"if_exists\":\"append\"}')", (name, select)), text)
        same(skipped(name, select, if_exists="append"), (2, 2, [2, 4], text), name)
        sound(db, name)


def test_a_current_domain_grows():
    """Rows behind the current domain make it larger in the same call; those outside of the domain stay errors."""
    db = database()
    for prefix in ("", "db:"):
        dense, sparse = prefix + "grown", prefix + "grown_sparse"
        make(db, dense, "SELECT 1 AS y, 5 AS x, 1 AS v UNION ALL SELECT 1, 6, 2", dimensions=["y", "x"], grow=["x"], extents={"x": 4})
        same(make(db, dense, "SELECT 1 AS y, 20 AS x, 3 AS v UNION ALL SELECT 1, 3, 4", if_exists="append"), 2)
        same(cells(db, dense), [(1, 3, 4), (1, 5, 1), (1, 6, 2), (1, 20, 3)])
        same(current(db, dense), ["1 1", "3 20"])
        check_contains(message(db, "SELECT tessera_create_as(?, 'SELECT 2 AS y, 5 AS x, 1 AS v', '{\"if_exists\":\"append\"}')", (dense,)), "row 1: dimension 'y': 2 is outside the domain, 1 to 1; a domain stays as it was made: the options grow and domains leave room")
        same(json.loads(make(db, dense, "SELECT 2 AS y, 5 AS x, 1 AS v UNION ALL SELECT 1, 21, 9", if_exists="append", on_error="skip"))["lines"], [1])
        same(current(db, dense), ["1 1", "3 21"])
        where = "grown_sparse USING tessera(" if prefix else "apart USING tessera('grown_sparse', "
        db.query(f"CREATE VIRTUAL TABLE {where}x FLOAT32 DIMENSION(-10, 10) CURRENT(1.5, 2), y INT64 DIMENSION(0, 999) CURRENT(7, 9), v INT64)")
        same(make(db, sparse, "SELECT 1.5 AS x, 7 AS y, 1 AS v UNION ALL SELECT 2, 9, 2", if_exists="append"), 2)
        same(make(db, sparse, "SELECT -3.25 AS x, 200 AS y, 3 AS v UNION ALL SELECT 1.75, 8, 4", if_exists="append"), 2)
        same(current(db, sparse), ["-3.25 2.0", "7 200"])
        same([r[2] for r in cells(db, sparse)], [3, 1, 4, 2])
        same(make(db, sparse, "SELECT 1 AS x, 8 AS y, 5 AS v", if_exists="append"), 1)
        same(current(db, sparse), ["-3.25 2.0", "7 200"], "nothing to grow")
        for path in (dense, sparse):
            sound(db, path)
    make(db, "small", "SELECT 0 AS x, 1 AS v UNION ALL SELECT 1, 1 UNION ALL SELECT 2, 1", dimensions=["x"], types={"x": "UINT8"}, extents={"x": 3}, grow=["x"])
    same(make(db, "small", "SELECT 200 AS x, 2 AS v", if_exists="append"), 1)
    same(current(db, "small"), ["0 200"])
    check_contains(message(db, "SELECT tessera_create_as('small', 'SELECT 255 AS x, 1 AS v', '{\"if_exists\":\"append\"}')"), "255 is outside the domain, 0 to 254")
    db.query("CREATE VIRTUAL TABLE words USING tessera('words', name ASCII DIMENSION CURRENT('b', 'm'), v INT64)")
    same(make(db, "words", "SELECT 'c' AS name, 1 AS v UNION ALL SELECT 'a', 2 UNION ALL SELECT 'zz', 4", if_exists="append"), 3)
    same(db.query("SELECT name, v FROM words"), [("a", 2), ("c", 1), ("zz", 4)])
    same(current(db, "words"), ["a zz"])


LATER = {   # the first rows of sparse arrays, and a later row
    "text and day": ("VALUES('Basel', '2024-06-01', 1.5), ('Bern', '2024-06-02', 2.5), ('Basel', '2024-06-02', 3.5)", "VALUES('Zug', '2031-01-01', 9)", {"types": {"column2": "DATE"}}),
    "reals": ("VALUES(46.5, 7.5, 1), (47.5, 8.5, 2)", "VALUES(-60.25, -3.5e9, 9)", {}), "one real": ("VALUES(47.5, 7.5, 1)", "VALUES(-60.25, 1e12, 9)", {}), "no real": ("VALUES(0.0, 0.0, 1)", "VALUES(-60.25, 1e12, 9)", {}),
    "far reals": ("VALUES(1e300, -1e-300, 1), (2e300, -2e-300, 2)", "VALUES(-4e305, 2e-299, 9)", {}), "narrow reals": ("VALUES(46.5, 7.5, 1), (47.5, 8.5, 2)", "VALUES(-9000, 179.5, 9)", {"types": {"column1": "FLOAT32", "column2": "FLOAT32"}}),
    "integers": ("VALUES(1, 1, 1), (200, 2, 2)", "VALUES(-9223372036854775807, 9223372036854775806, 9)", {}),
    "the greatest": ("VALUES(9223372036854775807, 1, 1), (5, 2, 2)", "VALUES(-9223372036854775807, -9223372036854775807, 9)", {}), "the least": ("VALUES(-9223372036854775808, 1, 1), (5, 2, 2)", "VALUES(9223372036854775806, 7, 9)", {}),
    "bytes": ("VALUES(-100, 0, 1), (120, 250, 2)", "VALUES(-128, 9, 9)", {"types": {"column1": "INT8", "column2": "UINT8"}}), "mixed": ("VALUES('2024-06-01', 1, 1), ('2024-06-02', 20, 2)", "VALUES('1724-06-02', -20, 9)", {"types": {"column1": "DATETIME_NS"}}),
    "days": ("VALUES('2024-06-01', '2024-06-01', 1), ('2024-06-02', '2025-06-01', 2)", "VALUES('1724-06-02', '0024-06-01', 9)", {"types": {"column1": "DATE", "column2": "DATE"}}),
    "with a domain": ("VALUES(46.5, 7, 1), (47.5, 8, 2)", "VALUES(-60.25, 99, 9)", {"domains": {"column2": [0, 99]}}), "with an extent": ("VALUES(1, 5, 1), (9, 8, 2)", "VALUES(-700, 1000000, 9)", {"extents": {"column1": 7}}),
    "along a curve": ("VALUES(46.5, 7.5, 1), (47.5, 8.5, 2)", "VALUES(-60.25, -3.5, 9)", {"cell_order": "hilbert"}), "many days": (
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) SELECT i / 100 AS column1, i * 7 % 100 + 0.5 AS column2, i AS column3 FROM n", "VALUES(-5, 1e9, 9)", {}),
    "grows": ("VALUES('a', 1, 1)", "VALUES('b', -7, 9)", {"grow": ["column1", "column2"], "kind": "sparse"})}


def test_sparse_arrays_take_later_rows():
    """By an append and by INSERT: a row beside the first ones, and NULL."""
    db = database()
    for name, (first, later, options) in LATER.items():
        for path, table in ((name, f'"{name}"'), (f'db:"in {name}"', f'"in {name}"')):
            count = make(db, path, first, dimensions=["column1", "column2"], **options)
            same(db.query("SELECT kind, (SELECT count(current_domain) FROM tessera_schema(?)) FROM tessera_array(?)", (path, path)), [("sparse", 0)], name)
            same(make(db, path, later, if_exists="append"), 1, name)
            if not path.startswith("db:"):
                db.query(f"CREATE VIRTUAL TABLE {table} USING tessera('{name}')")
            db.query(f"UPDATE {table} SET column3 = NULL")
            db.query(f"DELETE FROM {table}")
            same(db.value(f"SELECT count(*) FROM {table}"), 0)
            db.query(f"INSERT INTO {table} {later}")
            db.query(f"INSERT INTO {table} {first}")
            same(db.value(f"SELECT count(*) FROM {table}"), count + 1, name)
            sound(db, path)


def test_neighbours_of_a_sparse_array_lie_together():
    """Space tiles, or a Hilbert curve through domains that were given: a box of both dimensions reads few of the tiles."""
    db = database()
    points = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999) SELECT 46 + i * 7919 % 20000 / 20000.0 AS lat, 7 + i * 104729 % 20011 / 20000.0 AS lon, i AS v FROM n"
    for name, options in (("spaces", {}), ("curve", {"domains": {"lat": [-90, 90], "lon": [-180, 180]}})):
        make(db, name, points, dimensions=["lat", "lon"], capacity=200, **options)
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera('{name}')")
        same(db.value(f"SELECT cell_order FROM tessera_array('{name}')"), "hilbert" if options else "row")
        for box in ("lat BETWEEN 46.4 AND 46.5 AND lon BETWEEN 7.4 AND 7.5", "lat BETWEEN 46.7 AND 46.8 AND lon BETWEEN 7.1 AND 7.2"):
            db.value("SELECT tessera_reset_stats()")
            same(db.value(f"SELECT count(v) FROM {name} WHERE {box}"), db.value(f"SELECT count(*) FROM ({points}) WHERE {box}"))
            read = db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'")
            assert read <= 18, (name, read)   # of 100; rows in the order of one dimension take more
    db.close()


def test_no_rows_are_appended():
    """An append of no rows changes nothing, whatever the array is."""
    db = database()
    for path in ("empty", "db:empty"):
        for kind, options in (("dense", {"dimensions": ["id"]}), ("sparse", {"dimensions": ["id"]}), ("dense", {"grow": ["row"]}), ("dense", {"dimensions": ["id"], "grow": ["id"]})):
            select = "SELECT value AS id, 1.5 AS v FROM json_each('[0,1,2]')"
            make(db, path, select, if_exists="replace", kind=kind, **options)
            for again in (options, {}):
                same(make(db, path, select + " WHERE 0", if_exists="append", **again), 0, (path, kind, options))
            same(db.value(f"SELECT count(*) FROM (SELECT * FROM tessera_fragments('{path}'))"), 1)


def test_a_current_domain_stays_if_the_rows_cannot_be_written():
    """In the database both appear or neither. In a directory a failure after the rows were read leaves the larger domain, and all cells."""
    db = database()
    for path in ("db:held", "held"):
        make(db, path, "SELECT 1 AS x, 1 AS v", dimensions=["x"], kind="dense", grow=["x"])
        gaps = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT 2 * i AS x, i AS v FROM n"
        check_contains(message(db, "SELECT tessera_create_as(?, ?, '{\"if_exists\":\"append\"}')", (path, gaps)), "the rows leave gaps")
        same(current(db, path), ["1 1" if path == "db:held" else "1 6000"])
        same(cells(db, path), [(1, 1)])
        same(make(db, path, "SELECT 2 AS x, 2 AS v", if_exists="append"), 1)
        same(cells(db, path), [(1, 1), (2, 2)])
        sound(db, path)


def test_rows_are_numbered_on():
    """Rows without a dimension that are appended get the numbers behind the last row."""
    db = database()
    for prefix in ("", "db:"):
        path = prefix + "numbered"
        same(make(db, path, "VALUES('a', 1), ('b', 2)", grow=["row"]), 2)
        check_contains(ddl(db, "SELECT 'a' AS b", grow=["row"]), "\"row\" INT64 DIMENSION(0, 9223372036854775806, 1) CURRENT(0, 0)")
        same(make(db, path, "SELECT 'c' AS column1, 3 AS column2", if_exists="append"), 1)
        same(make(db, path, "SELECT 5 AS column2, 'd' AS column1 UNION ALL SELECT 6, 'e'", if_exists="append", grow=["row"]), 2)
        same(cells(db, path), [(0, "a", 1), (1, "b", 2), (2, "c", 3), (3, "d", 5), (4, "e", 6)])
        same(current(db, path), ["0 4"])
        sound(db, path)
        fixed = prefix + "fixed"
        make(db, fixed, "VALUES('a', 1), ('b', 2)")
        check_contains(message(db, "SELECT tessera_create_as(?, 'SELECT ''c'' AS column1, 3 AS column2', '{\"if_exists\":\"append\"}')", (fixed,)),
                       "the domain of 'row' has room for 0 more rows, not for 1: an array to which rows are appended is made with \"grow\":[\"row\"]")
    for select, part in (("SELECT 1 AS column2", "the source lacks the column 'column1' of the array"), ("SELECT 1 AS a", "the array lacks the column 'a' of the source: list the others in columns"),
                         ("SELECT 9 AS row, 'x' AS column1", "the source lacks the column 'column2' of the array")):
        check_contains(message(db, "SELECT tessera_create_as('numbered', ?, '{\"if_exists\":\"append\"}')", (select,)), part)
    same(make(db, "numbered", "SELECT 9 AS row, 'x' AS column1, 9 AS column2", if_exists="append"), 1)
    same(make(db, "numbered", "SELECT 'y' AS column1, 10 AS column2", if_exists="append"), 1)
    same(cells(db, "numbered")[-2:], [(9, "x", 9), (10, "y", 10)])
    make(db, "taken", "SELECT 5 AS row", grow=["row_number"])
    same(make(db, "taken", "SELECT 6 AS row", if_exists="append"), 1)
    same(cells(db, "taken"), [(0, 5), (1, 6)])
    refused(db, "'grow': 'row' is not a dimension", "SELECT 1 AS x, 2 AS v", dimensions=["x"], grow=["row"])
    refused(db, "'grow': the source has no column 'nope'", "SELECT 1 AS x, 2 AS v", grow=["nope"])
    db.query("CREATE VIRTUAL TABLE short USING tessera('short', kind=sparse, \"row\" INT8 DIMENSION(-3, 2), v INT64)")
    same(make(db, "short", "SELECT 1 AS v UNION ALL SELECT 2", if_exists="append"), 2)
    same(make(db, "short", "SELECT 3 AS v UNION ALL SELECT 4", if_exists="append"), 2)
    same(db.query('SELECT "row", v FROM short'), [(-3, 1), (-2, 2), (-1, 3), (0, 4)])
    check_contains(message(db, "SELECT tessera_create_as('short', 'SELECT 1 AS v UNION ALL SELECT 2 UNION ALL SELECT 3', '{\"if_exists\":\"append\"}')"), "has room for 2 more rows, not for 3")
    make(db, "two", "SELECT 1 AS x, 2 AS y, 3 AS v", dimensions=["x", "y"])
    check_contains(message(db, "SELECT tessera_create_as('two', 'SELECT 1 AS x', '{\"if_exists\":\"append\"}')"), "the source lacks the columns 'y', 'v' of the array")


def test_domains_extents_and_grow():
    db = database()
    same(make(db, "t", GRID, dimensions=["y", "x"], domains={"y": [0, 99]}, extents={"x": 2}), 6)
    same([r[3] for r in shape(db, "t")[:2]], ["[0,99]", "[1,3]"])
    refused(db, "row 2: dimension 'y': 6 is outside the domain, 0 to 5", GRID, dimensions=["y", "x"], domains={"y": [0, 5]})
    refused(db, "expected [low, high]", GRID, dimensions=["y", "x"], domains={"y": [0]})
    for options in ({"domains": {"v": [0, 99]}}, {"extents": {"v": 5}}, {"grow": ["v"]}):
        refused(db, f"'{list(options)[0]}': column 'v' is not a dimension", GRID, dimensions=["y", "x"], **options)
    text = ddl(db, "WITH RECURSIVE c(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM c WHERE x < 999999) SELECT x / 1000 AS y, x % 1000 AS x, x AS v FROM c", dimensions=["y", "x"])
    check_contains(text, "y INT64 DIMENSION(0, 999, 500)")
    check_contains(text, "x INT64 DIMENSION(0, 999, 500)")
    for k, (select, options) in enumerate((("SELECT 1 AS k, 1 AS v", {}), ("SELECT 1 AS k, 1 AS v", {"kind": "sparse"}), ("SELECT 1 AS k, 1 AS v", {"kind": "sparse", "extents": {"k": 7}}), ("SELECT 1 AS k", {}),
                                           ("SELECT -7 AS k UNION ALL SELECT 5", {"types": {"k": "INT8"}}), ("SELECT 7 AS k UNION ALL SELECT 5", {"types": {"k": "UINT8"}}), ("SELECT 7 AS k UNION ALL SELECT 5", {"types": {"k": "UINT64"}}),
                                           ("SELECT '2024-01-02' AS k, 1 AS v UNION ALL SELECT '2024-03-02', 2", {"types": {"k": "DATETIME_DAY"}}), ("SELECT 0.5 AS k, 1 AS v", {}))):
        count = make(db, f"grows{k}", select, dimensions=["k"], grow=["k"], **options)
        same(len(rows(db, f"grows{k}")), count, select)
        sound(db, f"grows{k}")
    same(make(db, "grown_label", "SELECT 'a' AS name, 0.5 AS d, 1 AS v", dimensions=["d"], labels={"name": "n"}, grow=["n"]), 1)
    make(db, "g", GRID, dimensions=["y", "x"], grow=["y"])
    check_contains(db.value("SELECT tessera_ddl('g')"), "CURRENT(5, 6)")
    db.value("SELECT tessera_expand_domain('g', '{\"y\":[5,60]}')")
    same(make(db, "g", "SELECT x, y + 2 AS y, v FROM (" + GRID + ")", if_exists="append"), 6)
    same(len(db.query("SELECT * FROM tessera_fragments('g')")), 2)
    sound(db, "g")


def test_orders_and_filters():
    db = database()
    text = ddl(db, "SELECT 0.5 AS x, 1.5 AS y, 'a' AS t, 1 AS i", dimensions=["x", "y"], filters={"i": "gzip(2)"})
    check_contains(text, "cell_order=row")
    check_contains(text, "t UTF8 FILTERS(zstd(5))")
    check_contains(text, "i INT64 FILTERS(gzip(2))")
    check_contains(text, "x FLOAT64 DIMENSION(-549755813888, 549755813888, 0.5) FILTERS(byteshuffle, zstd(5))")
    check_contains(text, "validity_filters=(rle)")
    check_contains(ddl(db, "SELECT 0.5 AS x, 'a' AS t", dimensions=["x", "t"]), "cell_order=row")
    check_contains(ddl(db, "SELECT 0.5 AS x, 1 AS t", dimensions=["x"]), "cell_order=row")
    check_contains(ddl(db, "SELECT 0.5 AS x, 1.5 AS y, 1 AS t", dimensions=["x", "y"], cell_order="col", capacity=7), "cell_order=col, tile_order=row, capacity=7")


def test_nulls():
    db = database()
    check_contains(ddl(db, "SELECT 1 AS a"), "a INT64 FILTERS")
    check_contains(ddl(db, "SELECT 1 AS a", not_null=["a"]), "a INT64 NOT NULL")
    refused(db, "row 2: column 'a': NULL in a column of not_null", "SELECT 1 AS a UNION ALL SELECT NULL", not_null=["a"])


def test_enumerations():
    db = database()
    select = "SELECT * FROM (VALUES(1, 'b'), (2, 'a'), (3, NULL), (4, 'b'), (5, ''))"
    make(db, "t", select, dimensions=["column1"], enumerate=["column2"])
    check_contains(db.value("SELECT tessera_ddl('t')"), "ENUM('b', 'a', '')")
    same(rows(db, "t"), [(1, "b"), (2, "a"), (3, None), (4, "b"), (5, "")])
    make(db, "t", "SELECT 2 AS column1, 'new' AS column2 UNION ALL SELECT 3, 'a'", if_exists="append")
    same(rows(db, "t"), [(1, "b"), (2, "new"), (3, "a"), (4, "b"), (5, "")])
    make(db, "many", "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < 66000) SELECT x, 'l' || x AS l FROM c", dimensions=["x"], enumerate=["l"])
    same(shape(db, "many")[1][2], "INT32")
    refused(db, "a dimension has no enumeration", select, dimensions=["column2"], enumerate=["column2"])
    refused(db, "INTEGER in a column of labels", "SELECT 1 AS a", enumerate=["a"])


def test_append():
    db = database()
    make(db, "t", GRID, dimensions=["y", "x"], domains={"y": [0, 9], "x": [0, 9]})
    same(make(db, "t", "SELECT 100 AS v, 9 AS X, 9 AS Y", if_exists="append"), 1)
    same(db.value("SELECT count(*) FROM (SELECT * FROM tessera_fragments('t'))"), 2)
    before = sorted(os.listdir("t/__fragments"))
    for select, part in (("SELECT 100 AS v, 10 AS x, 9 AS y", "row 1: dimension 'x': 10 is outside the domain, 0 to 9"), ("SELECT 'x' AS v, 9 AS x, 9 AS y", "column 'v'"), ("SELECT 9 AS x, 9 AS y", "the source lacks the column 'v' of the array"),
                         ("SELECT 1 AS v, 9 AS x, 9 AS y, 2 AS w", "the array lacks the column 'w' of the source: list the others in columns")):
        check_contains(message(db, "SELECT tessera_create_as('t', ?, '{\"if_exists\":\"append\"}')", (select,)), part)
        same(sorted(os.listdir("t/__fragments")), before, select)
    check_contains(message(db, "SELECT tessera_create_as('t', 'SELECT 1')"), "there is an array already: the option 'if_exists' adds")
    same(make(db, "t", "SELECT 1 AS v, 9 AS x, 9 AS y, 2 AS w", if_exists="append", columns=["x", "y", "v"]), 1)
    same(make(db, "t", "SELECT NULL AS v, 9 AS x, 8 AS y", if_exists="append"), 1)
    make(db, "full", GRID, dimensions=["y", "x"], not_null=["v"])
    for options, part in (({}, "row 1: column 'v': NULL, which this column of the array does not take: name it in 'nullable' when"), ({"not_null": ["v"]}, "row 1: column 'v': NULL in a column of not_null")):
        check_contains(message(db, "SELECT tessera_create_as('full', 'SELECT NULL AS v, 1 AS x, 5 AS y', ?)", (json.dumps({"if_exists": "append", **options}),)), part)


def test_declared_dates():
    db = database()
    db.query("CREATE TABLE plain(day DATE, at TIMESTAMP, v)")
    db.query("INSERT INTO plain VALUES('2024-02-28', '2024-01-02 03:04:05', 1), ('2024-02-29', '2024-01-02 03:04:05.25', 2), ('2024-03-01', NULL, 3)")
    make(db, "t", "SELECT * FROM plain", dimensions=["day"])
    same([r[2] for r in shape(db, "t")], ["DATETIME_DAY", "DATETIME_MS", "INT64"])
    same(db.value("SELECT kind FROM tessera_array('t')"), "dense")
    same(rows(db, "t"), [("2024-02-28", "2024-01-02 03:04:05.000", 1), ("2024-02-29", "2024-01-02 03:04:05.250", 2), ("2024-03-01", None, 3)])
    db.query("INSERT INTO plain VALUES('2024-03', 'noon', 4)")
    make(db, "u", "SELECT * FROM plain")
    same([r[2] for r in shape(db, "u")], ["INT64", "UTF8", "UTF8", "INT64"], "one value that is no date")
    make(db, "w", "SELECT day || '' AS day FROM plain WHERE v < 4")
    same([r[2] for r in shape(db, "w")], ["INT64", "UTF8"], "an expression has no declaration")
    db.query("CREATE TABLE many(at DATETIME)")
    db.query("WITH RECURSIVE c(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM c WHERE x < 149999) INSERT INTO many SELECT CASE WHEN x % 7 THEN datetime(x * 60, 'unixepoch') END FROM c")
    same(make(db, "spilled", "SELECT * FROM many", memory_mb=8), 150000)
    db.table("spilled", "spilled")
    same(db.query("SELECT count(at), min(at), max(at) FROM spilled"), db.query("SELECT count(*), min(at), max(at) FROM many WHERE at IS NOT NULL"))


def replace(db, path, select, **options):
    return make(db, path, select, if_exists="replace", **options)


def not_replaced(db, path, part, select, **options):
    check_contains(message(db, "SELECT tessera_create_as(?, ?, ?)", (path, select, json.dumps({"if_exists": "replace", **options}))), part)


@not_on_windows("it cannot exchange directories")
def test_options_of_an_append():
    """An option that an append cannot honour is refused; the options with which the array was made are none of these."""
    db = database()
    rows = "SELECT value AS x, value + 10 AS y, 1.5 AS v, 'a' AS t, '2024-06-01' AS day FROM json_each('[1,2,3]')"
    made = {"dense": {"dimensions": ["x"], "grow": ["x"], "extents": {"x": 5}, "types": {"x": "INT32", "v": "FLOAT32", "day": "DATE"}, "filters": {"v": "gzip(3)"}, "enumerate": ["t"], "nullable": ["v"], "capacity": 7, "cell_order": "col", "kind": "dense"},
            "sparse": {"dimensions": ["x", "y"], "grow": ["x"], "domains": {"y": [0, 99]}, "types": {"x": "INT8", "y": "INT16"}, "duplicates": True, "kind": "sparse", "tile_order": "col", "format_version": 21, "filters": {"t": "zstd"}},
            "labels": {"labels": {"t": "n"}, "dimensions": ["x"], "domains": {"x": [0, 9]}, "kind": "dense"}, "text": {"dimensions": ["t", "x"], "types": {"t": "TEXT"}, "grow": ["t", "x"]},
            "day": {"dimensions": ["day"], "types": {"day": "DATE"}, "domains": {"day": ["2024-01-01", "2024-12-31"]}, "extents": {"day": 30}, "kind": "sparse", "duplicates": True}, "row": {"grow": ["row"], "not_null": ["v"]}}
    wrong = {"dense": [({"dimensions": ["y"]}, "'dimensions': column 'y': it is not a dimension"), ({"extents": {"x": 6}}, "'extents': column 'x'"), ({"types": {"v": "FLOAT64"}}, "'types': column 'v': FLOAT32"), ({"types": {"x": "UINT8"}}, "'types': column 'x': INT32"),
                       ({"filters": {"v": "gzip(4)"}}, "'filters': column 'v'"), ({"enumerate": ["day"]}, "'enumerate': column 'day': it has no enumeration"), ({"capacity": 8}, "'capacity'"), ({"cell_order": "row"}, "'cell_order'"), ({"kind": "sparse"}, "'kind'"),
                       ({"domains": {"x": [0, 9]}, "dimensions": ["x"]}, "'domains': column 'x': it has another domain"), ({"labels": {"t": "n"}}, "'labels'"), ({"format_version": 21}, "'format_version'"), ({"nothing": 1}, "nothing")],
             "sparse": [({"dimensions": ["x"]}, "'dimensions'"), ({"duplicates": False}, "'duplicates'"), ({"tile_order": "row"}, "'tile_order'"), ({"dimensions": ["x", "y"], "domains": {"y": [0, 100]}}, "'domains': column 'y'")],
             "labels": [({"labels": {"t": "m"}}, "'labels': in the array 't' is a label of 'n'"), ({"dimensions": ["x"], "grow": ["x"]}, "'grow': column 'x': its domain does not grow")], "text": [({"types": {"t": "INT8"}}, "'types': column 't'")],
             "day": [({"dimensions": ["day"], "domains": {"day": ["2024-01-02", "2024-12-31"]}}, "'domains': column 'day'"), ({"dimensions": ["day"], "extents": {"day": 31}}, "'extents': column 'day'")], "row": [({"nullable": ["v"]}, "'nullable': column 'v': it takes no NULL")]}
    for prefix in ("", "db:"):
        for name, options in made.items():
            path, source = prefix + name, rows.replace("'a'", "'a' || value") if name == "labels" else rows
            count = make(db, path, source, **options)
            same(make(db, path, source, if_exists="append", **options), count, path)
            before = db.query("SELECT * FROM tessera_fragments(?)", (path,))
            for option, part in wrong[name]:
                check_contains(message(db, "SELECT tessera_create_as(?, ?, ?)", (path, source, json.dumps({"if_exists": "append", **option}))), part)
            same(db.query("SELECT * FROM tessera_fragments(?)", (path,)), before, path)


def test_replace():
    db = database()
    make(db, "t", GRID, dimensions=["y", "x"])
    db.table("seen", "t")
    same(db.query("SELECT count(*) FROM seen"), [(6,)])
    same(replace(db, "t", "SELECT 'a' AS k, 1 AS v", dimensions=["k"]), 1)
    same(rows(db, "t"), [("a", 1)])
    not_replaced(db, "t", "TEXT beside INTEGER", "SELECT 1 AS a UNION ALL SELECT 'x'")
    not_replaced(db, "t", "integer overflow", "SELECT abs(-9223372036854775808) AS a")
    not_replaced(db, "t", "coordinates of an earlier row", "SELECT 0.5 AS a, 1 AS v UNION ALL SELECT 0.5, 2", dimensions=["a"])
    same(rows(db, "t"), [("a", 1)], "the old array is there")
    same([name for name in os.listdir(".") if name.startswith("t.")], [], "nothing is left beside it")
    same((replace(db, "./t//", "SELECT 'b' AS k, 2 AS v", dimensions=["k"]), rows(db, "t")), (1, [("b", 2)]), "a path with slashes at its end")
    replace(db, "t", "SELECT 'a' AS k, 1 AS v", dimensions=["k"])
    same(rows(db, "t"), [("a", 1)])
    same(replace(db, "new", "SELECT 1 AS v"), 1)
    db.query("SELECT tessera_create_group('g')")
    not_replaced(db, "g", "there is a group already", "SELECT 1 AS v")
    db.query("BEGIN")
    db.query("INSERT INTO shown VALUES('b', 2)")
    not_replaced(db, "t", "commit first", "SELECT 1 AS v")
    db.query("ROLLBACK")
    os.path.islink("link") or os.symlink("t", "link")
    not_replaced(db, "link", "symbolic link", "SELECT 5 AS v")
    check_contains(make(db, "t", "SELECT 'x' AS v", if_exists="replace", explain=True), "v UTF8 FILTERS")
    same((rows(db, "t"), [name for name in os.listdir(".") if name.startswith(("t.", "link."))]), ([("a", 1)], []), "nothing was changed")


def test_replace_in_the_database():
    db = Database(os.path.join(host.FOLDER, f"replace_{host.binding}.db"))
    make(db, "db:t", GRID, dimensions=["y", "x"])
    db.query("BEGIN")
    same(replace(db, "db:t", "SELECT 'a' AS k, 1 AS v", dimensions=["k"]), 1)
    same(db.query("SELECT * FROM t"), [("a", 1)])
    db.query("ROLLBACK")
    same(db.query("SELECT count(*), sum(v) FROM t"), [(6, 153)])
    not_replaced(db, "db:t", "no value determines", "SELECT NULL AS a")
    not_replaced(db, "db:t", "coordinates of an earlier row", "SELECT 0.5 AS a, 1 AS v UNION ALL SELECT 0.5, 2", dimensions=["a"])
    same(db.query("SELECT count(*), sum(v) FROM t"), [(6, 153)], "an error takes the drop back")
    same(replace(db, "db:t", "SELECT x, v FROM t WHERE y = 5", dimensions=["x"]), 3)
    same(db.query("SELECT * FROM t"), [(1, 15), (2, 25), (3, 35)], "the SELECT reads the old array")
    sound(db, "db:t")


def test_encrypted():
    db = Database(os.path.join(host.FOLDER, f"encrypted_{host.binding}.db"))
    os.chdir(host.FOLDER)
    for name, key in (("key", "0123456789abcdef0123456789abcdef"), ("other", "x" * 32)):
        with open(name, "w") as out:
            out.write(key)
    secret = f"secret_{host.binding}"
    same(make(db, secret, GRID, dimensions=["y", "x"], domains={"y": [0, 9]}, key_file="key"), 6)
    check_contains(message(Database(), "SELECT * FROM tessera_schema(?)", (secret,)), "encrypted")
    same(make(db, secret, "SELECT 1 AS x, 7 AS y, 0 AS v", if_exists="append", key_file="key"), 1)
    check_contains(message(db, "SELECT tessera_create_as(?, 'SELECT 1 AS x, 8 AS y, 0 AS v', '{\"if_exists\":\"append\"}')", (secret,)), "encrypted")
    fresh = Database()
    check_contains(message(fresh, "SELECT tessera_create_as(?, 'SELECT 1 AS x, 8 AS y, 0 AS v', ?)", (secret, '{"if_exists":"append","key_file":"other"}')), "key")
    fresh.query(f"CREATE VIRTUAL TABLE t USING tessera('{secret}', key_file='key')")
    same(fresh.query("SELECT count(v), sum(v) FROM t"), [(7, 153)])
    same(make(db, "db:hidden", GRID, dimensions=["y", "x"], key_file="key"), 6)
    same(db.query("SELECT sum(v) FROM hidden"), [(153,)])
    db.close()
    db = Database(os.path.join(host.FOLDER, f"encrypted_{host.binding}.db"))
    same(db.query("SELECT sum(v) FROM hidden"), [(153,)], "the table keeps the path of the key")
    check_contains(db.value("SELECT tessera_ddl('db:hidden')"), "encryption=aes_256_gcm")
    for options, part in (('{"key_file":"nosuch"}', "key file not found"), ('{"key_file":7}', "expected text, not 7"), ('{"key_file":""}', "expected the path"), ('{"key_file":"other.txt"}', "key file not found")):
        check_contains(message(db, "SELECT tessera_create_as('refused', 'SELECT 1 AS a', ?)", (options,)), part)
        assert not os.path.exists("refused")


def test_rows_that_are_skipped():
    db = database()
    select = "SELECT * FROM (VALUES(1, 5), ('x', 6), (NULL, 7), (4, 8.5))"
    got = json.loads(make(db, "t", select, dimensions=["column1"], types={"column2": "INT8"}, on_error="skip"))
    same((got["rows"], got["skipped"], got["lines"]), (1, 3, [2, 3, 4]))
    check_contains(got["first"], "row 2: column 'column1': TEXT beside INTEGER")
    same(rows(db, "t"), [(1, 5)])
    same(json.loads(make(db, "u", "SELECT 1 AS a", on_error="skip")), {"rows": 1, "skipped": 0, "lines": [], "first": None})


def test_statements_that_are_refused():
    db = database()
    db.query("CREATE TABLE plain(a)")
    for sql, part in (("DELETE FROM plain", "expected a SELECT"), ("SELECT 1; SELECT 2", "another follows"), ("SELECT 1; -- c\n; SELECT 2", "another follows at '-- c"), ("SELECT 1; /* c */ nothing", "another follows"), ("SELECT ?", "parameters"), ("SELEC", "syntax error"), ("", "expected a SELECT"), ("-- c", "expected a SELECT"),
                      ("SELECT 1 AS a, 2 AS A", "two columns are called 'A'"), ("SELECT abs(-9223372036854775808)", "integer overflow"), ("SELECT 1 AS a WHERE 0", "no value determines")):
        refused(db, part, sql)
    for options, part in (('{"x":1}', "no option is called 'x': if_exists"), ('{"if_exists":"drop"}', "expected fail, append or replace"), ('{"kind":"dense","kind":"dense"}', "given twice"), ('{"kind":"thin"}', "expected dense or sparse"), ('{"capacity":0}', "from 1 to"),
                          ('{"labels":{"a":"b"}}', "needs an attribute"), ('{"explain":1}', "expected true or false"), ("[]", ""), ('{"filters":{"a":"none, zstd"}}', "none cannot be combined with other filters")):
        check_contains(message(db, "SELECT tessera_create_as('refused', 'SELECT 1 AS a', ?)", (options,)), part)
        assert not os.path.exists("refused")


def test_comments_behind_a_statement():
    db = database()
    for k, comment in enumerate((" -- c", "; -- c", "; -- c\n", " ; /* c */ ; ", ";;/* c */-- d", "; /* c")):
        same(make(db, f"comment{k}", "/* first */ SELECT 1 AS a" + comment), 1, comment)
        same(len(db.value("SELECT tessera_rows(?)", ("SELECT 1 AS a" + comment,))), 32)


def test_in_the_database():
    db = Database(os.path.join(host.FOLDER, "a.db"))
    db.query("BEGIN")
    same(make(db, "db:t", GRID, dimensions=["y", "x"], metadata={"a": 1, "b": "text", "c": 0.5}), 6)
    same(db.query("SELECT sum(v) FROM t"), [(153,)])
    db.query("ROLLBACK")
    same(db.query("SELECT count(*) FROM sqlite_master"), [(0,)])
    check_contains(message(db, "SELECT tessera_create_as('db:t', ?, '{\"dimensions\":[\"y\"]}')", (GRID,)), "have the coordinates of an earlier row")
    same(db.query("SELECT count(*) FROM sqlite_master"), [(0,)])
    make(db, "db:t", GRID, dimensions=["y", "x"], metadata={"a": 1, "b": "text", "c": 0.5})
    same(db.query("SELECT key, value FROM tessera_metadata('db:t') ORDER BY key"), [("a", 1), ("b", "text"), ("c", 0.5)])
    same(make(db, "db:t", "SELECT * FROM t", if_exists="append"), 6)
    sound(db, "db:t")


def quiet(db, function):
    """The result, and how many hundreds of steps SQLite's programs have taken for it."""
    calls = []
    db.raw.set_progress_handler(lambda: calls.append(1), 100)
    result = function()
    db.raw.set_progress_handler(None, 0)
    return result, len(calls)


def test_cells_of_a_query_come_in_blocks():
    """A SELECT of columns of a tessera_query makes what it makes row by row, as it does with a WHERE; but no row comes from SQLite. memory_mb makes
    parts of the ingest that end within blocks."""
    db = database()
    db.query("CREATE VIRTUAL TABLE source USING tessera('source', kind=dense, y INT32 DIMENSION(-7, 92, 50), x INT32 DIMENSION(5, 104, 70) LABEL lon FLOAT64, v FLOAT32, k INT64, at DATETIME_SEC, t TEXT, u UINT64)")
    db.value("SELECT tessera_write_label('source', 'lon', ?)", (json.dumps([x / 4 for x in range(5, 105)]),))
    db.query("INSERT INTO source(y, x, v, k, at, t, u) WITH RECURSIVE c(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM c WHERE i < 9949) SELECT i / 100 - 7, i % 100 + 5, nullif(i % 1000 / 8.0, 1), nullif(i * 3, 300) + (i = 6000) * 9007199254740993, datetime(i * 86400, 'unixepoch'), 'text ' || i % 7, iif(i = 7000, '18446744073709551615', i) FROM c")
    texts = {"numbers": "SELECT y, x, v * 2.0 AS w, k, x * 1000 + y AS n FROM source", "others": "SELECT y, x, lon, v, t, at, u FROM source WHERE v > 3",
             "late": "SELECT y, x, CASE WHEN y < 40 THEN y WHEN y < 45 THEN NULL ELSE y + 0.5 END AS w, nullif(y, y) AS none, iif(y < 60, NULL, x) AS rare FROM source",
             "windows": "SELECT y, x, avg(v) OVER (PARTITION BY x ORDER BY y ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS w FROM source"}
    for name, text in texts.items():
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera_query({text})")
    db.query("CREATE TEMP VIEW seen AS SELECT y, x + 1 AS x, n FROM main.numbers")
    db.query("CREATE TEMP VIEW others AS SELECT y, x + 1 AS x, at FROM main.others")
    grid, cases = {"dimensions": ["y", "x"]}, []
    cases += [(f"SELECT * FROM {name}", grid) for name in ("numbers", "main.others", "windows")]
    cases += [("SELECT n, x, y, w FROM numbers", grid), ("SELECT q.*, n AS twice FROM numbers AS q", grid), ("SELECT w, k FROM numbers", {}), ("SELECT * FROM numbers;", {**grid, "columns": ["y", "x", "n"]}),
              ("SELECT * FROM numbers", {**grid, "types": {"w": "FLOAT32", "k": "FLOAT64"}}), ("SELECT * FROM numbers", {**grid, "types": {"n": "INT16"}, "on_error": "skip"}), ("SELECT * FROM numbers", {**grid, "types": {"n": "INT16"}}),
              ("SELECT * FROM numbers", {**grid, "not_null": ["w"]}), ("SELECT * FROM numbers", {**grid, "memory_mb": 1}), ("SELECT * FROM numbers", {**grid, "domains": {"x": [5, 103]}}), ("SELECT * FROM numbers", {**grid, "domains": {"x": [0, 500]}}),
              ("SELECT y, x, t, at, u FROM main.others", {**grid, "types": {"at": "DATETIME_SEC"}, "enumerate": ["t"]}), ("SELECT lon, y, v FROM main.others", {"labels": {"lon": "x"}, "dimensions": ["y"]}), ("SELECT y, x, w, none FROM late", {**grid, "types": {"none": "INT32"}}),
              ("SELECT y, x, rare FROM late", grid), ("SELECT y, x, w, none FROM late", grid), ("SELECT * FROM seen", grid), ("SELECT * FROM others", grid), ("SELECT rowid, y, x, n FROM numbers", grid)]

    def made(path, text, options):
        try:
            result = make(db, path, text, **options)
        except host.Error as e:
            assert not os.path.exists(path), path
            return e.text
        ddl_of = db.value("SELECT tessera_ddl(?)", (path,)).replace(path, "")
        return result, ddl_of, sorted(rows(db, path), key=repr)
    for number, (text, options) in enumerate(cases):
        by_rows, steps = quiet(db, lambda: made(f"rows{number}", text.rstrip(";") + " WHERE 1", options))
        blocks, few = quiet(db, lambda: made(f"blocks{number}", text, options))
        same(blocks, by_rows, f"{text} {options}")
        named = [part for part in ("seen", "FROM others", "rowid") if part in text]   # views, and what is no column: SQLite gives the rows
        if isinstance(blocks, tuple) and "memory_mb" not in options:   # spilling polls the handler, too
            _, few = quiet(db, lambda: make(db, f"again{number}", text, **options))
            assert (few > 300) == bool(named), f"{text} {options}: {few} hundred steps"
    part = db.value("SELECT tessera_sql(?)", (texts["windows"],))
    same(quiet(db, lambda: made("part", part, grid))[0], made("part_by_rows", part + " WHERE 1", grid), part)
    _, few = quiet(db, lambda: make(db, "part_again", part, **grid))
    assert few < 300, f"{part}: {few} hundred steps"
    for first, then in (("SELECT * FROM numbers", "SELECT * FROM numbers"), ("SELECT y, x, k FROM numbers WHERE y < 5", "SELECT y, x, k FROM numbers")):
        for path, more in (("by_rows", " WHERE 1"), ("by_blocks", "")):
            make(db, path, first, **grid, kind="sparse")
            db.value("SELECT tessera_create_as(?, ?, '{\"if_exists\":\"append\"}')", (path, then + more))
        same(rows(db, "by_blocks", "1, 2"), rows(db, "by_rows", "1, 2"))
        for path in ("by_rows", "by_blocks"):
            db.query("SELECT tessera_drop(?)", (path,))
    db.query("INSERT INTO source(y, x, k) VALUES(0, 7, 9223372036854775807)")
    db.query("CREATE VIRTUAL TABLE over USING tessera_query(SELECT y, x, k * 2 AS k FROM source)")
    for more in ("", " WHERE 1"):
        refused(db, "the SELECT: over: integer overflow past 64 bits: 'k * 2'", "SELECT * FROM over" + more, **grid)


def test_more_rows_than_memory():
    db = database()
    select = "WITH RECURSIVE c(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM c WHERE x < 199999) SELECT x * 7919 % 200003 AS k, CASE WHEN x % 10 THEN x / 4.0 ELSE x END AS v, CASE x % 3 WHEN 0 THEN NULL ELSE 'a text of some length, number ' || x END AS t FROM c"
    same(make(db, "t", select, dimensions=["k"], memory_mb=8), 200000)
    db.table("t", "t")
    same(db.query("SELECT count(*), sum(v), count(t), sum(length(t)) FROM t"), db.query(f"SELECT count(*), sum(v), count(t), sum(length(t)) FROM ({select})"))
    same(db.query("SELECT * FROM t WHERE k IN (0, 7919, 15838) ORDER BY v"), [(0, 0.0, None), (7919, 0.25, "a text of some length, number 1"), (15838, 0.5, "a text of some length, number 2")])
    refused(db, "memory_mb", "SELECT zeroblob(9000000) AS b", memory_mb=1)


if __name__ == "__main__":
    host.main(__import__("__main__"))
