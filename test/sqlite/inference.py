"""The rules by which rows become an array (docs/reference/functions/from-rows.md, "What the options leave open"): one test for each rule, with cases that fit it and
cases that do not. `fits` gives parts of the CREATE that tessera_create_as and its kin explain; `refuses` gives the error, after which nothing is there.

usage: inference.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import ctypes
import json
import os
import sys
import tempfile

import host
from create_stream import Given, packed, put
from host import Database, check_contains


def database():
    os.chdir(tempfile.mkdtemp(dir=host.FOLDER))
    db = Database()
    db.query("CREATE TABLE plain(day DATE, at DATETIME, n INTEGER, t TEXT)")
    db.query("INSERT INTO plain VALUES('2024-02-28', '2024-01-02 03:04:05', 1, '1'), ('2024-02-29', '2024-01-02 03:04:05.25', 2, '2')")
    db.query("CREATE VIRTUAL TABLE own USING tessera('own', x INT16 DIMENSION(0, 99, 10), a UINT8 FILTERS(gzip(3)), e TEXT ENUM('no', 'yes') ORDERED, s DATETIME_SEC)")
    db.query("INSERT INTO own VALUES(3, 200, 'yes', '2024-01-02 03:04:05'), (5, 7, 'no', '2024-01-03')")
    db.query("CREATE VIRTUAL TABLE grouped USING tessera_query(SELECT sum(a) AS total, x % 2 AS odd, x FROM own GROUP BY x, odd)")
    db.query("CREATE VIRTUAL TABLE whole USING tessera_query(SELECT sum(a) AS total FROM own)")
    return db


def rule(call, fits, refuses):
    """Checks the cases of a rule: `call(db, path, source, options)` makes an array."""
    db = database()
    for source, options, *parts in fits:
        text = call(db, "explained", source, {**options, "explain": True})
        for part in parts:
            if part.startswith("not "):
                assert part[4:] not in text, f"{source}: '{part[4:]}' in {text}"
            else:
                check_contains(text, part)
        assert not os.path.exists("explained")
    for source, options, part in refuses:
        try:
            call(db, "refused", source, options)
        except host.Error as e:
            check_contains(e.text, part)
        else:
            raise AssertionError(f"{source}: no error, but expected: {part}")
        assert not os.path.exists("refused"), source
    db.close()


def select(db, path, source, options):
    return db.value("SELECT tessera_create_as(?, ?, ?)", (path, source, json.dumps(options)))


def csv(db, path, source, options):
    with open("given.csv", "w") as file:
        file.write(source)
    return db.value("SELECT tessera_create_csv(?, 'given.csv', ?)", (path, json.dumps(options)))


def arrow(db, path, source, options):
    columns, length = source
    given = Given(columns, length)
    return db.value("SELECT tessera_create_stream(?, ?, ?)", (path, put(db, ctypes.addressof(given.stream)), json.dumps(options)))


def values(*rows, names="x"):
    """A SELECT of rows, whose columns have these names."""
    text = ", ".join("(" + ", ".join("NULL" if v is None else repr(v) for v in (row if isinstance(row, tuple) else (row,))) + ")" for row in rows)
    return f"WITH given({', '.join(names.split())}) AS (VALUES{text}) SELECT * FROM given"


def count(n, *expressions):
    return f"WITH RECURSIVE c(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM c WHERE i < {n - 1}) SELECT {', '.join(expressions)} FROM c"


INTEGERS, WORDS = ("v", "l", 2, [None, packed("q", 4, 5)]), ("u", 2, [None, packed("i", 0, 1, 2), b"ab"])
GRID = values(*[(y, x, 10 * y + x) for y in range(2) for x in range(3)], names="y x v")


def test_1_type_of_a_column_of_a_select():
    rule(select,
         [(values(1, 2), {}, "x INT64"), (values(1, 2.5), {}, "x FLOAT64"), (values("a", "b"), {}, "x UTF8"), ("SELECT x'00' AS x", {}, "x BLOB"),
          (values("1", "2"), {}, "x UTF8"), (values("2024-01-01"), {}, "x UTF8"), (values(1), {"types": {"x": "INT16"}}, "x INT16"),
          ("SELECT x, a, e, s FROM own", {}, "x INT16", "a UINT8 FILTERS(gzip(3))", "ENUM('no', 'yes') ORDERED", "s DATETIME_SEC"), ("SELECT a + 0 AS a FROM own", {}, "a INT64"),
          ("SELECT day, at FROM plain", {}, "day DATETIME_DAY", "at DATETIME_MS"), ("SELECT day || '' AS day FROM plain", {}, "day UTF8"), ("SELECT t FROM plain", {}, "t UTF8"),
          ("SELECT day FROM plain UNION ALL SELECT 'noon'", {}, "day UTF8")],
         [(values(1, "a"), {}, "row 2: column 'x': TEXT beside INTEGER, which came first, in row 1"), (values(2**53 + 1, 0.5), {}, "REAL beside an integer past 2^53 (row 1)"),
          (values(None, None), {}, "no value determines its type: give it in types"), (values(200), {"types": {"x": "INT8"}}, "200 does not fit INT8"),
          (values("noon"), {"types": {"x": "DATETIME_SEC"}}, "column 'x'"), ("SELECT x'00' AS x UNION ALL SELECT 5", {}, "INTEGER beside BLOB")])


def test_2_type_of_a_column_of_csv():
    rule(csv,
         [("x\n1\n-20\n0\n", {}, "x INT64"), ("x\n1\n2.5\n1e3\nnan\n", {}, "x FLOAT64"), ("x\n1\n007\n", {}, "x UTF8"), ('x\n1\n"2"\n', {}, "x UTF8"), ("x\n9223372036854775807\n", {}, "x INT64"),
          ("x\n9223372036854775808\n", {}, "x UINT64"), ("x,y\n1,\n,b\n", {}, "x INT64 FILTERS", "y UTF8"), ("x\n+1\n", {}, "x UTF8"), ("x\n1\n", {"types": {"x": "UINT8"}}, "x UINT8"),
          ("x\n2024-01-01\n", {}, "x UTF8"), ("x\n.5\n", {}, "x UTF8")],
         [("x\n1\n007x\n", {"types": {"x": "INT32"}}, "line 3: column 'x'"), ("x\n1e3\nabc\n", {"types": {"x": "FLOAT32"}}, "line 3: column 'x': 'abc' is not a number"),
          ("x,y\n1\n", {}, "line 2: 1 fields, but 2 columns are named"), ("x,x\n1,2\n", {}, "two columns are called 'x'")])


def test_3_type_of_an_arrow_column():
    rule(arrow,
         [(([INTEGERS, ("s", "c", 2, [None, packed("b", 1, 2)])], 2), {}, "v INT64", "s INT8"), (([("h", "e", 2, [None, packed("e", 1, 2)])], 2), {}, "h FLOAT32"),
          (([("t", "tsu:UTC", 2, [None, packed("q", 1, 2)])], 2), {}, "t DATETIME_US"), (([("m", "tdm", 2, [None, packed("q", 0, 86400000)])], 2), {}, "m DATETIME_MS"),
          (([("k", "C", 2, [None, packed("B", 0, 1)], None, WORDS)], 2), {}, "k UTF8 FILTERS(byteshuffle, zstd(5)) ENUM('a', 'b')"),
          (([("p", "+w:2", 1, [None], None, None, 2, ("f", 2, [None, packed("f", 1, 2)]))], 1), {}, "p FLOAT32[2]"), (([INTEGERS], 2), {"types": {"v": "UINT8"}}, "v UINT8")],
         [(([("n", "n", 2, [])], 2), {}, "column 'n'"), (([("d", "d:10,2", 2, [None, bytes(32)])], 2), {}, "column 'd'"), (([("s", "+s", 2, [None])], 2), {}, "column 's'"),
          (([("m", "+m", 2, [None, packed("i", 0, 0, 0)])], 2), {}, "column 'm'"), (([INTEGERS], 2), {"types": {"v": "BOOL"}}, "column 'v'"),
          (([("l", "+l", 1, [None, packed("i", 0, 2)], None, None, 2, WORDS)], 1), {}, "column 'l'")])


def test_4_dimensions():
    rule(select,
         [(values((1, 2), names="a b"), {}, "\"row\" INT64 DIMENSION(0, 0, 1)", "a INT64"), (GRID, {"dimensions": ["x", "y"]}, "x INT64 DIMENSION(0, 2, 3)", "y INT64 DIMENSION(0, 1, 2)"),
          (values(("a", 1), names="k v"), {"dimensions": ["k"]}, "k ASCII DIMENSION"), ("SELECT * FROM grouped", {}, "kind=sparse,\n  x INT64 DIMENSION", "odd INT64 DIMENSION", "total INT64"),
          ("SELECT x, total FROM grouped", {}, "\"row\" INT64 DIMENSION"), ("SELECT total, odd, x FROM grouped ORDER BY x", {}, "x INT64 DIMENSION", "odd INT64 DIMENSION"),
          ("SELECT * FROM grouped", {"dimensions": ["x"]}, "x INT64 DIMENSION", "odd INT64"), ("SELECT * FROM grouped", {"columns": ["total", "x", "odd"]}, "x INT64 DIMENSION", "odd INT64 DIMENSION"),
          ("SELECT * FROM grouped", {"columns": ["total", "x"]}, "\"row\" INT64 DIMENSION"), ("SELECT * FROM whole", {}, "\"row\" INT64 DIMENSION(0, 0, 1)"),
          ("SELECT grouped.*, plain.n FROM grouped JOIN plain ON n = odd", {}, "\"row\" INT64 DIMENSION")],
         [(values((1, 1), (None, 2), names="x v"), {"dimensions": ["x"]}, "row 2: column 'x': NULL in a dimension"), (values((1, 1), names="x v"), {"dimensions": ["y"]}, "'dimensions': the source has no column 'y'"),
          ("SELECT x'00' AS x, 1 AS v", {"dimensions": ["x"]}, "row 1: column 'x': a BLOB cannot be a dimension"), (values((1, 1), names="x v"), {"dimensions": ["x"], "types": {"x": "BOOL"}}, "BOOL cannot be a dimension"),
          ("SELECT CASE WHEN odd THEN NULL END AS odd, x, total FROM grouped", {"dimensions": ["odd"]}, "NULL in a dimension")])


def test_5_kind():
    rule(select,
         [(GRID, {"dimensions": ["y", "x"]}, "kind=dense"), (GRID + " WHERE v <> 11", {"dimensions": ["y", "x"]}, "kind=sparse"), (values((0.5, 1), names="x v"), {"dimensions": ["x"]}, "kind=sparse"),
          (GRID + " WHERE v <> 11", {"dimensions": ["y", "x"], "kind": "dense"}, "kind=dense"), (GRID, {"dimensions": ["y", "x"], "kind": "sparse"}, "kind=sparse"),
          (GRID, {"dimensions": ["y", "x"], "types": {"y": "INT8", "x": "INT32"}}, "y INT32 DIMENSION", "x INT32 DIMENSION"),
          ("SELECT day, n FROM plain", {"dimensions": ["day"]}, "kind=dense"), (GRID + " UNION ALL SELECT 0, 0, 5", {"dimensions": ["y", "x"], "duplicates": True}, "kind=sparse", "duplicates=yes")],
         [(GRID + " UNION ALL SELECT 0, 0, 5", {"dimensions": ["y", "x"], "kind": "dense"}, "the first of them (0, 0)"), (values((0.5, 1), names="x v"), {"dimensions": ["x"], "kind": "dense"}, "not integers or instants of one datatype"),
          (count(1002, "2 * i AS x", "i AS v"), {"dimensions": ["x"], "kind": "dense"}, "the rows leave gaps: say kind sparse"), ("SELECT day, n, t FROM plain", {"dimensions": ["day", "n"], "kind": "dense"}, "of one datatype")])
    db = database()   # duplicates are found when the rows are written
    check_contains(db.error("SELECT tessera_create_as('refused', ?, '{\"dimensions\":[\"x\"]}')", (values((1, 1), (1, 2), (1, 3), names="x v"),)).text, "2 of 3 rows have the coordinates of an earlier row")
    assert not os.path.exists("refused")
    db.close()


def test_6_domain():
    rule(select,
         [(values((-5, 1), (-4, 2), names="x v"), {"dimensions": ["x"]}, "x INT64 DIMENSION(-5, -4, 2)"), (values((0.5, 1), (-2.5, 2), names="x v"), {"dimensions": ["x"]}, "x FLOAT64 DIMENSION(-4.4942328371557893e+307, 4.4942328371557893e+307) FILTERS"), (values((1, 1), (3, 2), names="x v"), {"dimensions": ["x"]}, "x INT64 DIMENSION(-9223372036854775808, 9223372036854775806) FILTERS"),
          (values(("k", 1), names="x v"), {"dimensions": ["x"]}, "x ASCII DIMENSION FILTERS"), (values((1, 1), (2, 2), names="x v"), {"dimensions": ["x"], "grow": ["x"]}, "CURRENT(1, 2)"),
          (values((1, 1), names="x v"), {"dimensions": ["x"], "domains": {"x": [0, 9]}}, "x INT64 DIMENSION(0, 9"), (values((1, 1), (-2, 2), names="x y"), {"dimensions": ["x", "y"], "types": {"x": "INT8", "y": "INT32"}, "domains": {"x": [-5, 5], "y": [0, 9]}, "kind": "sparse"}, "x INT8 DIMENSION(-5, 5)"),
          (GRID, {"dimensions": ["y", "x"], "types": {"y": "INT8", "x": "INT32"}, "domains": {"y": [-5, 5]}}, "y INT32 DIMENSION(-5, 5, 11)")],
         [(values((1, 1), names="x v"), {"dimensions": ["x"], "domains": {"x": [2, 9]}}, "row 1: dimension 'x': 1 is outside the domain, 2 to 9"), (values((1, 1), names="x v"), {"dimensions": ["x"], "domains": {"x": [9, 2]}}, "column 'x'"),
          (values((1, 1), names="x v"), {"dimensions": ["x"], "grow": ["v"]}, "column 'v' is not a dimension")])


def test_7_extent():
    rule(select,
         [(count(300, "i AS x", "i AS v"), {"dimensions": ["x"]}, "DIMENSION(0, 299, 300)"), (count(300000, "i AS x", "i AS v"), {"dimensions": ["x"]}, "DIMENSION(0, 299999, 150000)"),
          (count(600000, "i / 1000 AS y", "i % 1000 AS x", "i AS v"), {"dimensions": ["y", "x"]}, "y INT64 DIMENSION(0, 599,", "x INT64 DIMENSION(0, 999,"),
          (GRID, {"dimensions": ["y", "x"], "extents": {"x": 2}}, "x INT64 DIMENSION(0, 2, 2)"), (values((5, 1), (23, 2), names="k v"), {"dimensions": ["k"], "kind": "sparse", "types": {"k": "INT16"}, "extents": {"k": 10}}, "k INT16 DIMENSION(-32765, 32764, 10)"),
          (values((0.5, 1.5, 1), names="y x v"), {"dimensions": ["y", "x"]}, "cell_order=row", "capacity=10000", "y FLOAT64 DIMENSION(-549755813888, 549755813888, 0.5) FILTERS"), (values((0.5, 1.5, 1), names="y x v"), {"dimensions": ["y", "x"], "domains": {"y": [0, 1], "x": [0, 2]}}, "cell_order=hilbert", "y FLOAT64 DIMENSION(0, 1) FILTERS"),
          (GRID, {"dimensions": ["y", "x"], "domains": {"y": [0, 511], "x": [0, 511]}}, "x INT64 DIMENSION(0, 511, 512)", "y INT64 DIMENSION(0, 511, 512)"),
          (GRID, {"dimensions": ["y", "x"], "domains": {"y": [0, 9], "x": [0, 99]}}, "x INT64 DIMENSION(0, 99, 100)", "y INT64 DIMENSION(0, 9, 10)"), (GRID, {"dimensions": ["y", "x"], "domains": {"x": [0, 999999]}}, "x INT64 DIMENSION(0, 999999, 125000)", "y INT64 DIMENSION(0, 1, 2)"),
          (GRID, {"dimensions": ["y", "x"], "grow": ["y"]}, "y INT64 DIMENSION(-9223372036854775808, 9223372036854775805, 2) CURRENT(0, 1)", "x INT64 DIMENSION(0, 2, 3)"),
          (values(tuple(n + 0.5 for n in range(18)), names=" ".join(f"d{n}" for n in range(18))), {"dimensions": [f"d{n}" for n in range(17)]}, "cell_order=row"), (values((0.5, "k", 1), names="y x v"), {"dimensions": ["y", "x"]}, "cell_order=row"), (values((0.5, 1), names="x v"), {"dimensions": ["x"]}, "cell_order=row")],
         [(GRID, {"dimensions": ["y", "x"], "extents": {"v": 2}}, "column 'v' is not a dimension"), (GRID, {"dimensions": ["y", "x"], "extents": {"x": 0}}, "dimension 'x': its tile extent must be above 0"), (GRID, {"dimensions": ["y", "x"], "extents": {"x": "many"}}, "column 'x'")])


def test_8_filters():
    rule(select,
         [(values((1, 0.5, "a"), names="i r t"), {}, "i INT64 FILTERS(byteshuffle, zstd(5))", "r FLOAT64 FILTERS(byteshuffle, zstd(5))", "t UTF8 FILTERS(zstd(5))", "offsets_filters=(zstd(5))", "validity_filters=(rle)"),
          (values((1, 1), names="s b"), {"types": {"s": "INT8", "b": "BOOL"}}, "s INT8 FILTERS(zstd(5))", "b BOOL FILTERS(zstd(5))"), ("SELECT day FROM plain", {}, "day DATETIME_DAY FILTERS(byteshuffle, zstd(5))"),
          ("SELECT x'00' AS b", {}, "b BLOB FILTERS(zstd(5))"), (values(1), {"filters": {"x": "gzip(2)"}}, "x INT64 FILTERS(gzip(2))")],
         [(values(1), {"filters": {"x": "shrink"}}, "shrink"), (values(1), {"filters": {"y": "zstd"}}, "the source has no column 'y'"), (values(1), {"filters": {"x": "zstd zstd"}}, "filters of x")])


def test_9_null():
    rule(select,
         [(values(1, None), {}, "x INT64 FILTERS", "not NOT NULL"), (values(1, 2), {}, "x INT64 FILTERS", "not NOT NULL"), (values(1, 2), {"not_null": ["x"]}, "x INT64 NOT NULL"), ("SELECT 9e999 - 9e999 AS x UNION ALL SELECT 0.5", {}, "x FLOAT64 FILTERS")],
         [(values(1, None), {"not_null": ["x"]}, "row 2: column 'x': NULL in a column of not_null"), (values(1, 2), {"not_null": ["x"], "nullable": ["x"]}, "column 'x' is in both not_null and nullable")])
    rule(arrow, [(([INTEGERS], 2), {}, "v INT64"), (([("v", "l", 2, [b"\x01", packed("q", 4, 5)])], 2), {}, "v INT64 FILTERS"), (([("g", "g", 2, [None, packed("d", 1, float("nan"))])], 2), {}, "g FLOAT64")],
         [(([("v", "l", 2, [b"\x01", packed("q", 4, 5)])], 2), {"not_null": ["v"]}, "column 'v'")])


def test_10_enumerations():
    rule(select,
         [(values("b", "a", "b"), {"enumerate": ["x"]}, "ENUM('b', 'a')"), (values("b", None), {"enumerate": ["x"]}, "ENUM('b')"), ("SELECT e FROM own", {}, "ENUM('no', 'yes') ORDERED"), (values("b"), {}, "not ENUM")],
         [(values(1, 2), {"enumerate": ["x"]}, "INTEGER in a column of labels"), (values(("a", 1), names="x v"), {"dimensions": ["x"], "enumerate": ["x"]}, "a dimension has no enumeration")])
    rule(arrow, [(([("k", "C", 2, [None, packed("B", 1, 1)], None, WORDS)], 2), {}, "ENUM('a', 'b')"), (([("k", "C", 2, [None, packed("B", 1, 1)], None, WORDS, 3)], 2), {}, "ENUM('a', 'b') ORDERED"),
                 (([("k", "C", 2, [None, packed("B", 1, 0)], None, WORDS), INTEGERS], 2), {"dimensions": ["k"]}, "k ASCII DIMENSION")],
         [(([("k", "C", 2, [None, packed("B", 1, 2)], None, WORDS)], 2), {}, "column 'k'")])
    db = database()
    for labels, datatype in ((65000, "UINT16"), (65001, "INT32")):
        db.value("SELECT tessera_create_as(?, ?, '{\"enumerate\":[\"l\"]}')", (f"many{labels}", count(labels, "'l' || i AS l")))
        host.same(db.value("SELECT datatype FROM tessera_schema(?) WHERE name = 'l'", (f"many{labels}",)), datatype)
    db.close()


def test_11_labels():
    grid, labels = values((47.5, 7, 1), (47.5, 8, 2), (47, 7, 3), (47, 8, 4), names="lat lon v"), {"labels": {"lat": "y", "lon": "x"}}
    rule(select,
         [(grid, labels, "y INT64 DIMENSION(0, 1, 2)", "LABEL lat FLOAT64 DECREASING", "LABEL lon INT64", "kind=dense"), (grid + " ORDER BY lat", labels, "LABEL lat FLOAT64 ", "not DECREASING"),
          (values(("a", 1), ("b", 2), names="k v"), {"labels": {"k": "i"}}, "LABEL k"), (grid, {**labels, "dimensions": ["x", "y"]}, "x INT64 DIMENSION")],
         [(values((1.5, 1), (None, 2), names="lat v"), {"labels": {"lat": "y"}}, "column 'lat'"), (grid, {"labels": {"lat": "lon"}}, "'lon' is a column: choose another name"), (grid, {"labels": {"lat": "y", "lon": "y"}}, "has two labels"),
          (grid, {"labels": {"lat": ""}}, "expected the name of a dimension"), ("SELECT 9e999 - 9e999 AS lat, 1 AS v", {"labels": {"lat": "y"}}, "lat")])


if __name__ == "__main__":
    host.main(sys.modules[__name__])
