"""tessera.sql(), and what an Array tells of itself: the rows are those of SQLite by rows, Python's variables and DataFrames are tables, and nothing is
read before it is asked for.

usage: results.py EXTENSION
"""
import contextlib
import datetime
import decimal
import gc
import io
import os
import pathlib
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

from package import fails, libraries, library, run, same

np, pd, pl, pa = libraries("numpy", "pandas", "polars", "pyarrow")
xr = library("xarray")

values = np.arange(60.0).reshape(3, 4, 5)
values[0, 0, 0] = np.nan
whole = np.arange(60, dtype="i4").reshape(3, 4, 5)


def cube():
    return tessera.create("cube", {"v": values, "n": whole}, dimensions=["t", "y", "x"], labels={"y": ("y", [10.0, 20.0, 30.0, 40.0])}, if_exists="replace")


def test_slices():
    a = cube()
    same([len(part) for part in (a, a[0:2], a[0, ..., 1:3], a[2], a[1:1], a[:, :, 4], a.where("v", ">", 30), a.sel(x=[0, 3]), a.sel(y=(15, 35)))],
         [60, 40, 8, 20, 0, 12, 29, 24, 30], "len")
    for key in (np.s_[0:2], np.s_[1], np.s_[:, 1:3], np.s_[0, ..., 1:3], np.s_[..., -0], np.s_[np.int64(1):np.int64(3)]):
        expected = whole[key]
        assert np.array_equal(a[key].numpy("n").reshape(expected.shape), expected), key
        same(len(pa.table(a[key])), len(a[key]), f"{key}: len is the rows of the stream")
    same(a["v"].select("v")._options["columns"], ["v"], "a column")
    same(pa.table(a["n", "x"]).column_names, ["n", "x"], "columns")
    fails(IndexError, "none is counted from the end", lambda: a[-1])
    fails(IndexError, "none is counted from the end", lambda: a[:-1])
    fails(IndexError, "3 dimensions, t, y_index, x, and 4", lambda: a[0, 0, 0, 0])
    fails(IndexError, "no step", lambda: a[::2])
    same((a[["v", "n"]].numpy("n").tolist(), len(a[["v", "n"]])), (whole.tolist(), 60))
    for key in ("w", ("v", "w"), ["v", "w"], slice("a", "w")):   # no column, and no coordinate of a dimension of numbers
        fails(KeyError, "has no column '" + ("a" if isinstance(key, slice) else "w"), lambda: a[key])
    for box in ({"t": "w"}, {"t": ("0", "w")}, {"x": ["0", "w"]}):
        for calculated in (len, lambda part: part.mean("v"), lambda part: part.sum("v", by="x").df(), lambda part: tessera.sql("SELECT count(*) FROM p", p=part)):
            fails(TypeError, "'w' is not a valid INT64", lambda: calculated(a.sel(**box)))
    same((a["1"].numpy("n").tolist(), len(a.sel(t="1"))), (whole[1:2].tolist(), 20))
    fails(TypeError, "not iterable", lambda: list(a))
    assert a and a[1:1], "an Array is true, also without cells"
    days = tessera.create("days", pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]), "v": [1, 2, 3]}).set_index("day"))
    same(len(days["2024-01-01":"2024-01-02"]), 2, "ends of instants are inclusive")


def test_rows_in_order():
    """The rows of a dense array are in the order of its dimensions, whatever was written later; without the columns of the dimensions, too."""
    chosen, db = random.Random(11), sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    for number in range(12):
        inside, columns = number % 2, chosen.random() < 0.5
        path, lengths = (f"db:ordered{number}" if inside else f"ordered{number}"), [chosen.randint(4, 30) for _ in range(chosen.choice([1, 1, 2, 3]))]
        dims = [f"d{axis}" for axis in range(len(lengths))]
        v = np.arange(np.prod(lengths)).reshape(lengths)
        a = tessera.create(path, {"v": v, "s": np.char.add("t", v.astype(str)).astype(object)}, dimensions=dims, extents={dim: chosen.randint(2, 9) for dim in dims}, cell_order=chosen.choice(["row", "col"]), connection=db if inside else None)
        v = v.copy()
        for _ in range(3):
            low = [chosen.randrange(length) for length in lengths]
            size = [chosen.randint(1, length - first) for first, length in zip(low, lengths)]
            part = np.array([chosen.randrange(1000) for _ in range(np.prod(size))]).reshape(size)
            box = tuple(slice(first, first + count) for first, count in zip(low, size))
            if inside and columns:
                db.execute(f"UPDATE ordered{number} SET v = v + 1000 WHERE " + " AND ".join(f"{dim} >= {first} AND {dim} < {first + count}" for dim, first, count in zip(dims, low, size)))
                v[box] += 1000
            else:
                a.write_all({"v": part, "s": np.char.add("u", part.astype(str)).astype(object)}, dict(zip(dims, low)))
                v[box] = part
        a = tessera.open(path, connection=db if inside else None)
        cut = tuple(slice(chosen.randrange(length), None) for length in lengths)
        for array, block, first in ((a, v, [0] * len(lengths)), (a.sel(**{dim: slice(part.start, None) for dim, part in zip(dims, cut)}), v[cut], [part.start for part in cut])):
            places = [axis + low for axis, low in zip(np.indices(block.shape).reshape(len(dims), -1), first)]
            for frame in (array.to_pandas(), array.df(), array.pl().to_pandas(), array.arrow().to_pandas()):
                same([frame[name].tolist() for name in (*dims, "v")], [*(place.tolist() for place in places), block.ravel().tolist()], path)
            for frame in (array["v"].to_pandas(), array.select("v", "s").pl().to_pandas()):
                same(frame["v"].tolist(), block.ravel().tolist(), f"{path}: without its dimensions")
            same(array.numpy("v").tolist(), block.tolist(), path)
            same(array.numpy("s").ravel().tolist(), array.df()["s"].tolist(), path)
        some = sorted(chosen.sample(range(lengths[0]), 3))
        same(a.sel(d0=some).df()["v"].tolist(), v[some].ravel().tolist(), "a list of coordinates")
        same(a.order(("d0", "desc")).df()["d0"].is_monotonic_decreasing, True, "another order that was asked for")


def test_calculations():
    a = cube()
    same((a.sum("n"), a.mean("v"), a["v"].max(), a["v"].min(), a["v"].median(), a.count("v"), a["n"][1].sum()), (1770, 30.0, 59.0, 1.0, 30.0, 59, int(whole[1].sum())), "aggregates")
    assert abs(a.std("n") - whole.std(ddof=1)) < 1e-9
    same(a.sel(y=(15, 35)).sum("n"), int(whole[:, 1:3].sum()), "by labels")
    same((a.sel(x=[0, 3]).sum("n"), a.where("n", "in", [1, 2, 70]).sum("n"), a.where("n", "<", 0).sum("n")), (int(whole[:, :, [0, 3]].sum()), 3, None), "lists, and no cells")
    fails(ValueError, "name one", lambda: a.mean())
    groups = a.where("n", ">", 3)["n"].sum(by="y")
    same((groups.columns, groups.fetchall()), (["y", "n"], [(10.0 * (y + 1), int(sum(v for v in whole[:, y].ravel() if v > 3))) for y in range(4)]), "groups")
    same(parts(groups)[0], "columns", "groups run over columns")
    same(a.mean("v", by=["t", "x"]).fetchall()[:2], [(0, 0, (5 + 10 + 15) / 3), (0, 1, 8.5)], "by two")
    fails(tessera.Error, "no such column: cells.nothing", lambda: a.mean("v", by="nothing"))
    fails(KeyError, "has no column 'nothing' (it has v, n as attributes; t, y_index, x as dimensions; y as label)", lambda: a.mean("nothing"))
    del groups
    gc.collect()
    before = tessera.open("cube")
    a.write_all({"v": values * 0, "n": whole * 0})
    same((before.sum("n"), a.sum("n")), (1770, 0), "each shows its own time")
    same(a.connection.execute("SELECT count(*) FROM temp.sqlite_schema").fetchone()[0], 0, "no table stays behind")


def test_cards():
    a = cube()
    text = repr(a)
    for words in ("'cube': dense, 60 cells", "dimension  y_index  INT64", "label      y ", "attribute  v ", "tiles of", 'tessera.sql("SELECT ... FROM a")'):
        assert words in text, text
    twice = tessera.create("twice", np.arange(4.0))
    twice.write("value", np.zeros(2))
    assert "at most 6 cells" in repr(twice) and len(twice) == 4, "overwritten cells are in a fragment still"
    tessera.drop("twice")
    assert ".where('n', '>', 3)" in repr(a.sel(t=1).where("n", ">", 3)) and "sel(t=1)" in repr(a.sel(t=1).where("n", ">", 3))
    assert "<svg" in a._repr_html_() and "y_index" in a._repr_html_()
    hostile = tessera.create("<script>", {"<b>&": np.arange(4).reshape(2, 2)}, dimensions=["<i>", "x"])
    assert "<script>" not in hostile._repr_html_() and "<b>" not in hostile._repr_html_().replace("<b>&lt;script", ""), hostile._repr_html_()
    tessera.drop("<script>")
    fails(tessera.NotFound, "", lambda: tessera.open("<script>"))
    assert "<script>" in repr(hostile), "an Array that is gone still says its path"
    for made in (tessera.create("empty", pd.DataFrame({"k": np.arange(2), "v": [1, 2]}).set_index("k")), tessera.create("text", pd.DataFrame({"k": ["a"], "v": [1]}).set_index("k"))):
        assert "attribute" in repr(made) and made._repr_html_()


def test_large_integers():
    """UINT64 past the signed range: rows, columns, streams and methods have the same numbers, and none is rounded."""
    values = [0, 2**63 - 1, 2**63, 2**64 - 1]
    shown = [v if v < 2**63 else f"{v:020}" for v in values]
    db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    tessera.load(db)
    frame = pd.DataFrame({"k": range(4), "g": list("aabb"), "u": np.array(values, "u8")})
    for path in ("large", "db:large"):
        array = tessera.create(path, frame, connection=db if path[0] == "d" else None, dimensions=["k"])
        table = "'./large'" if path == "large" else "large"
        for columnar in ("auto", "never") if path != "large" else ("auto",):
            def found(text):
                return tessera.sql(text.replace("FROM t", f"FROM {table}"), connection=db, columnar=columnar)
            for text, expected in (("SELECT u FROM t ORDER BY u", values), ("SELECT u FROM t ORDER BY u DESC", values[::-1]), ("SELECT DISTINCT u FROM t ORDER BY u", values),
                                   ("SELECT u FROM t GROUP BY u ORDER BY u", values), ("SELECT u FROM t WHERE u >= '9223372036854775808' ORDER BY u", values[2:]),
                                   ("SELECT u FROM t WHERE u > 9223372036854775806 ORDER BY u", values[1:]), ("SELECT u FROM t WHERE u IN (0, '18446744073709551615') ORDER BY u", [0, 2**64 - 1])):
                same([v for v, in found(text).fetchall()], [shown[values.index(v)] for v in expected], f"{columnar}: {text}")
                same((str(found(text).df()["u"].dtype), found(text).df()["u"].tolist()), ("uint64", expected), f"{columnar}: {text}")
            same(found("SELECT g, min(u), max(u) FROM t GROUP BY g ORDER BY g").fetchall(), [("a", *shown[:2]), ("b", *shown[2:])], f"{columnar}: groups")
            same(found("SELECT min(u), max(u), count(DISTINCT u) FROM t").fetchall(), [(0, shown[3], 4)], f"{columnar}: ends")
        ends = tessera.sql(f"SELECT g, min(u) AS low, max(u) AS high FROM {table} GROUP BY g ORDER BY g", connection=db).df()
        same((ends["low"].tolist(), ends["high"].tolist(), str(ends["high"].dtype)), (values[::2], values[1::2], "uint64"), "groups over columns")
        same((array["u"].min(), array["u"].max(), array["u"].sum(), array["u"].count()), (0, 2**64 - 1, sum(values), 4), "methods")
        same(array.max("u", by="g").df()["u"].tolist(), values[1::2], "a method by group")
        same((array["u"].median(), array["u"].std(), array.sum("u", by="g").df()["u"].tolist()), (float(2**63), float(frame["u"].astype(object).astype(float).std()), [float(2**63 - 1), float(3 * 2**63 - 1)]), "methods that round")
        same((array.where("k", "<", 2)["u"].median(), array.where("k", "<", 1).sum("u", by="g").fetchall()), ((2**63 - 1) / 2, [("a", 0)]), "below 2^63")
        fails(tessera.Range, "median('u', by=...): values are past 2^63 - 1", lambda: array.median("u", by="g"))
        same((array.where("u", ">=", 2**63)["u"].sum(), array.where("u", "<", 2**63)["u"].sum(), array.where("k", ">", 9)["u"].max()), (sum(values[2:]), 2**63 - 1, None), "parts")
        same((array.df()["u"].tolist(), pa.table(array)["u"].to_pylist()), (values, values), "Arrow")
    moment = db.execute("SELECT last_write FROM tessera_array('db:large')").fetchone()[0]
    db.execute("UPDATE large SET u = '18446744073709551614' WHERE k < 3")
    changed = tessera.changes(db, "large", moment).df().sort_values("k")
    same((changed["old_u"].tolist(), changed["new_u"].tolist()), (values[:3], [2**64 - 2] * 3), "changes")
    db.execute("CREATE VIRTUAL TABLE bits USING tessera(k INT32 DIMENSION, u UINT64, uint64=signed)")
    db.execute("INSERT INTO bits VALUES(1, 1), (2, -1)")
    moment = db.execute("SELECT last_write FROM tessera_array('db:bits')").fetchone()[0]
    db.execute("UPDATE bits SET u = -2")
    same(tessera.changes(db, "bits", moment).df().sort_values("k")["old_u"].tolist(), [1, -1], "changes of a table with uint64=signed")
    keys = tessera.create("large-keys", pd.DataFrame({"u": np.array([1, 2**63 - 1, 2**63, 2**64 - 2], "u8"), "v": range(4)}), dimensions=["u"], kind="sparse")
    same(keys.bounds, {"u": (1, 2**64 - 2)}, "bounds")
    same([keys.sel(u=part).df()["v"].tolist() for part in (2**63, (2**63, None), [2**64 - 2, 1])], [[2], [2, 3], [0, 3]], "coordinates")


def test_sources():
    a, towns = cube(), pd.DataFrame({"y": [10.0, 20.0], "town": ["A", "B"]})
    part = a.sel(t=1).select("y", "n")
    expected = [("A", int(whole[1, 0].sum())), ("B", int(whole[1, 1].sum()))]
    text = "SELECT town, sum(n) FROM part JOIN towns USING (y) GROUP BY 1 ORDER BY 1"
    same(tessera.sql(text).fetchall(), expected, "variables of the caller")
    same(tessera.sql(text, towns=pl.from_pandas(towns)).fetchall(), expected, "by keyword, of polars")
    same(tessera.sql(text, towns=pa.table(towns)).fetchall(), expected, "a table of pyarrow")
    same(tessera.sql(f"WITH w AS (SELECT 1 AS one) {text}").fetchall(), expected, "beside a CTE")
    same(tessera.sql(f"-- says what\n/* and why */ WITH RECURSIVE w(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM w WHERE i < 3) {text}").fetchall(), expected, "a recursive one")
    copied = tessera.sql("SELECT sum(y) FROM towns")
    towns.loc[0, "y"] = 1000.0
    same(copied.fetchall(), [(30.0,)], "a copy, made when sql() is called")
    inner = tessera.sql("SELECT y, sum(n) AS s FROM a GROUP BY y")
    same(tessera.sql("SELECT max(s) FROM inner").fetchone(), (555,), "a Result")
    place = pathlib.Path("cube")
    same(tessera.sql("SELECT count(*) FROM place").fetchone(), (60,), "a path")
    same(tessera.sql("SELECT count(*) FROM './cube'").fetchone(), (60,), "a path in the text")
    for name in ("class", "a b", "query'", 'x"y\'--', "é", "select"):   # no words of Python or SQL
        quoted = '"' + name.replace('"', '""') + '"'
        same(tessera.sql(f"SELECT count(*) FROM {quoted}", **{name: towns}).fetchone(), (2,), name)
    number = 3
    fails(TypeError, "number is a int, not a table", lambda: tessera.sql("SELECT * FROM number", number=number))
    fails(tessera.Error, "nothing_here", lambda: tessera.sql("SELECT * FROM nothing_here"))
    db = sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    db.execute("CREATE TABLE towns(y, town)")
    same(tessera.sql("SELECT count(*) FROM towns", connection=db).fetchone(), (0,), "a table of the connection goes first")
    same(tessera.sql("SELECT count(*) FROM towns", connection=db, towns=towns).fetchone(), (2,), "a keyword before it")
    inside = tessera.create("db:inside", towns, connection=db)
    same(tessera.sql("SELECT count(*) FROM inside", connection=db).fetchone(), (2,), "an array in the database")
    del inside
    gc.collect()
    same(db.execute("SELECT count(*) FROM temp.sqlite_schema").fetchone()[0], 0, "sources end with their results")


def test_datasets():
    """A Dataset is a table if its variables have the same dimensions."""
    try:
        import xarray as xr
    except ImportError:
        return
    ds = xr.Dataset({"v": (("y", "x"), np.arange(6.0).reshape(2, 3)), "w": (("x", "y"), np.arange(6).reshape(3, 2))}, {"y": [10.0, 20.0]})
    expected = [(10.0 + 10 * y, x, 3.0 * y + x, 2 * x + y) for y in range(2) for x in range(3)]
    same(sorted(tessera.sql("SELECT y, x, v, w FROM ds").fetchall()), expected, "a variable of the caller")
    same(sorted(tessera.sql("SELECT * FROM ds").columns), ["v", "w", "x", "y"], "its columns")
    same((tessera.sql("SELECT y, sum(w) FROM t GROUP BY y ORDER BY y", t=ds).fetchall(), parts(tessera.sql("SELECT y, sum(w) FROM ds GROUP BY y"))[0]), ([(10.0, 6), (20.0, 9)], "columns"), "by keyword")
    unsorted = ds.assign_coords(x=("x", ["b", "a", "c"]), area=(("x", "y"), np.arange(6.0).reshape(3, 2)), zone=("y", ["n", "n"]), height=2.0)   # labels rise or fall, and these do not
    for array, columns in ((unsorted, ["area", "v", "w", "x", "y", "zone"]), (unsorted["v"], ["area", "v", "x", "y", "zone"])):
        same(sorted(tessera.sql("SELECT * FROM t", t=array).columns), columns, "coordinates in any order are columns")
        same(sorted(tessera.sql("SELECT y, x, v, area, zone FROM t", t=array).fetchall()),
             sorted((10.0 + 10 * y, "bac"[x], 3.0 * y + x, 2.0 * x + y, "n") for y in range(2) for x in range(3)), "the rows of to_dataframe()")
        same(tessera.sql("SELECT x, sum(v) FROM t WHERE y > 10 GROUP BY x ORDER BY x", t=array).fetchall(), [("a", 4.0), ("b", 3.0), ("c", 5.0)], "groups")
    for other in (ds.assign(s=5), ds.assign(z=("y", [1, 2])), xr.Dataset({}, {"y": [1]}), xr.Dataset({"s": 5})):
        fails(TypeError, "name one of them, t=dataset[...]", lambda other=other: tessera.sql("SELECT * FROM t", t=other))


def parts(result):
    return [evaluated for evaluated, in result._ask("SELECT evaluated FROM tessera_explain(?) ORDER BY part")]


def test_sources_by_columns():
    """A SELECT from a variable is one from a table: it runs over columns wherever a table does."""
    a, frame = cube(), pd.DataFrame({"k": [1, 2, 3], "g": ["x", "y", "x"]})
    part = a.sel(t=1).where("n", ">", 25).select("y", "n")
    for text in ("SELECT y, sum(n) FROM a GROUP BY y", "SELECT g, sum(k) FROM frame GROUP BY 1", "SELECT y, sum(n) FROM part GROUP BY y", "SELECT p.y, sum(p.n) FROM part AS p GROUP BY 1",
                 "SELECT count(*) FROM a b WHERE b.n > 3", "SELECT y, sum(n) FROM (SELECT * FROM a WHERE x > 1) GROUP BY y", "SELECT (SELECT max(n) FROM a), y, sum(n) FROM a GROUP BY y"):
        result = tessera.sql(text)
        same(parts(result)[0], "columns", text)
        same(sorted(result.fetchall()), sorted(tessera.sql(text, columnar="never").fetchall()), text)
    same(parts(tessera.sql("WITH w AS (SELECT * FROM a) SELECT y, sum(n) FROM w GROUP BY y"))[-1], "columns", "in a CTE")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        tessera.sql("SELECT y, sum(n) FROM a GROUP BY y").explain()
    assert said.getvalue().startswith("1. columns: a@"), said.getvalue()


def test_names():
    """Names are found where SQL has tables, and nowhere else."""
    a, k, frame = cube(), pd.DataFrame({"k": [1, 2, 3]}), pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=["u", "u"])
    for text, expected in (('SELECT count(*) FROM "a"', (60,)), ("SELECT a.n FROM './cube' a WHERE n = 3", (3,)), ("SELECT a.n, b.n FROM './cube' AS b, a WHERE b.n = 3 AND a.n = 4", (4, 3)),
                           ("SELECT 3 IN k, 7 NOT IN k", (1, 1)), ("SELECT count(*) FROM (a JOIN k ON k.k = a.n)", (3,)), ("SELECT count(*) FROM a x, k f WHERE f.k = x.n", (3,)),
                           ("SELECT count(*) FROM a WHERE v IS DISTINCT FROM n", (1,)), ("WITH a AS (SELECT 1 AS q) SELECT * FROM a", (1,)), ("SELECT max(k) FROM k;  -- no more\n", (3,)),
                           ("SELECT 'FROM a', k FROM k /* FROM a */ LIMIT 1", ("FROM a", 1)), ("SELECT a.k FROM k AS a WHERE k = 2", (2,)), ("SELECT * FROM k WHERE k = 2", (2,))):
        same(tessera.sql(text).fetchone(), expected, text)
    same(tessera.sql("SELECT * FROM frame").fetchall(), [("u", 1, "x"), ("u", 2, "y")], "an index may say things twice")
    same(tessera.sql("SELECT * FROM frame").columns, ["index", "a", "b"], "the number of the row is no column of the DataFrame's")
    same(tessera.sql("SELECT count(*) FROM K", k=k).fetchone(), (3,), "names of keywords have no case")
    same(tessera.sql('SELECT 1 AS "x:1", 2 AS a, 3 AS a, 4 AS a').columns, ["x:1", "a", "a", "a"], "two columns of one name")
    fails(tessera.Error, "duplicate WITH table name: a", lambda: tessera.sql("WITH a AS (SELECT 1) SELECT * FROM a", a=a))
    tessera.create("lone", k)
    fails(tessera.Error, "a path in FROM is in quotes: 'lone'", lambda: tessera.sql("SELECT * FROM lone"))
    fails(tessera.Error, "leaves the text to SQLite, which knows no paths", lambda: tessera.sql("SELECT * FROM './lone'", columnar="never"))
    fails(tessera.Error, "say k=k", lambda: tessera.sql("SELECT * FROM k"))
    fails(TypeError, "unexpected keyword argument 'memory'", lambda: tessera.sql("SELECT 1", memory=3))
    fails(TypeError, "make a DataFrame of it", lambda: tessera.sql("SELECT * FROM t", t=[1, 2]))
    fails(TypeError, "t=t.collect()", lambda: tessera.sql("SELECT * FROM t", t=pl.DataFrame({"a": [1]}).lazy()))
    db = sqlite3.connect(":memory:")
    inside = tessera.create("db:inside", k, connection=db)
    fails(tessera.Unsupported, "the Array t is db:inside of another connection", lambda: tessera.sql("SELECT * FROM t", t=inside))
    hostile = tessera.create("it's \"here\";--", k)
    same(tessera.sql("SELECT count(*) FROM hostile").fetchone(), (3,), "a path with quotes in it")
    same(tessera.sql("SELECT count(*) FROM './it''s \"here\";--'").fetchone(), (3,), "the same in the text")
    same(hostile.max("k"), 3, "and for one number")


def test_parameters():
    for value, expected in ((datetime.date(2024, 1, 2), "2024-01-02"), (datetime.datetime(2024, 1, 2), "2024-01-02T00:00:00"), (pd.Timestamp("2024-01-02", tz="Europe/Zurich"), "2024-01-01T23:00:00"),
                            (np.datetime64("2024-01-02"), "2024-01-02"), (pd.NA, None), (pd.NaT, None), (np.float32(2), 2.0), (np.int64(2), 2), (np.bool_(True), 1), (np.str_("x"), "x"),
                            (decimal.Decimal("1.5"), 1.5), (bytearray(b"x"), b"x"), (2 ** 63 - 1, 2 ** 63 - 1)):
        for columnar in ("auto", "never"):
            same(tessera.sql("SELECT ?", [value], columnar=columnar).fetchone(), (expected,), f"{value!r}, {columnar}")
            same(tessera.sql("SELECT :v, ':w' -- :x", {"v": value}, columnar=columnar).fetchone(), (expected, ":w"), f"{value!r} by name, {columnar}")
    same(tessera.sql("SELECT ?1 AS a", [5], columnar="never").arrow().to_pylist(), [{"a": 5}], "a stream with parameters")
    for values in ([[1, 2]], [np.array([1, 2])], [{}]):
        fails(TypeError, "a parameter is one value", lambda: tessera.sql("SELECT ?", values))
    fails(TypeError, "say params=['abc']", lambda: tessera.sql("SELECT ?", "abc"))
    fails(ValueError, "params has no values", lambda: tessera.sql("SELECT ?"))
    fails(ValueError, "params is a dict", lambda: tessera.sql("SELECT ?", {"a": 1}))
    fails(tessera.Error, "2 parameters, 1 value", lambda: tessera.sql("SELECT ?, ?", [1]))
    fails(OverflowError, "compare a UINT64 with its digits, '9223372036854775808'", lambda: tessera.sql("SELECT ?", [2 ** 63]))
    for value in (1j, np.complex64(1)):
        fails(TypeError, "a parameter is one value", lambda: tessera.sql("SELECT ?", [value]))
    days = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02"]), "v": [1, 2]})
    same(tessera.sql("SELECT v FROM days WHERE day > ?", [pd.Timestamp("2024-01-01")]).fetchall(), [(2,)], "a date beside a column of dates")


def test_limits():
    """memory_mb bounds a part, which then runs by rows; threads is that of the part."""
    grid = tessera.create("grid", np.arange(400_000, dtype="i4").reshape(400, 1000), dimensions=["y", "x"])
    db = sqlite3.connect(":memory:")
    tessera.load(db)

    def counted(**limits):
        db.execute("SELECT tessera_reset_stats()")
        same(tessera.sql("SELECT value, count(*) FROM './grid' WHERE value % 10 < 5 GROUP BY value", connection=db, **limits).fetchall()[:2], [(0, 1), (1, 1)], str(limits))
        return dict(db.execute("SELECT name, value FROM tessera_stats WHERE name LIKE 'parts_by%'"))
    same([counted(), counted(memory_mb=1, threads=1), counted(memory_mb=1000)], [{"parts_by_columns": 1, "parts_by_rows": 0}, {"parts_by_columns": 0, "parts_by_rows": 1}, {"parts_by_columns": 1, "parts_by_rows": 0}], "parts")
    for limits, kind, says in (({"memory_mb": 0}, tessera.Range, "'memory_mb'"), ({"threads": -1}, tessera.Range, "'threads'"), ({"threads": 1.5}, TypeError, "float")):
        fails(kind, says, lambda: tessera.sql("SELECT 1", **limits))
        same("tessera_" in str(error_of(lambda: tessera.sql("SELECT 1", **limits))), False, "a message names no function that the caller has not called")
    same(grid.max("value"), 399_999, "max")
    tile = tessera.create("one-tile", np.arange(400_000, dtype="i8"), dimensions=["x"], extents={"x": 400_000})
    for source in ("tile", "'./one-tile'"):   # by rows, too
        text = f"SELECT value FROM {source} WHERE x + 1 = 7 LIMIT 5"
        same(tessera.sql(text, memory_mb=64, tile=tile).fetchall(), [(6,)], source)
        fails(tessera.TooBig, "memory_mb allows 1048576 bytes", lambda: tessera.sql(text, memory_mb=1, tile=tile).fetchall())


ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c"


def test_interrupts():
    """Ctrl-C ends whatever runs on a connection of the module's."""
    for get in (lambda r: r.fetchall(), lambda r: r.df(), lambda r: r.pl(), repr):
        result, timer = tessera.sql(ENDLESS), threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        fails(KeyboardInterrupt, "", lambda: get(result))
        timer.join()


def test_threads():
    """Threads may share a Result, and it outlives the thread that made it."""
    a = cube()
    result, made, wrong = tessera.sql("SELECT x, sum(n) FROM a GROUP BY x"), [], []
    expected = result.fetchall()

    def read():
        for _ in range(20):
            if result.fetchall() != expected or len(result.df()) != len(expected):
                wrong.append(1)

    def make():
        made.append(tessera.sql("SELECT x, sum(n) FROM a GROUP BY x", a=a))
    threads = [threading.Thread(target=read) for _ in range(3)] + [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    read()
    for thread in threads:
        thread.join()
    gc.collect()
    same(([r.fetchall() for r in made], wrong), ([expected] * 6, []), "threads")
    one, other = iter(result), iter(result)
    same([next(one) == next(other) for _ in expected], [True] * len(expected), "two loops at once")
    rows = iter(tessera.sql("SELECT n FROM a", a=a))
    next(rows)
    gc.collect()
    same(len(list(rows)), 59, "a loop keeps its Result")


def test_without_libraries():
    """df() needs no pyarrow, and what needs a library says its name."""
    code = ("import sys; sys.modules['pyarrow'] = sys.modules['polars'] = None\n"
            "import tessera; r = tessera.sql('SELECT 1 AS a, NULL AS b UNION ALL SELECT NULL, 2')\n"
            "print(r.df()['a'].tolist(), list(r.df().columns))\n"
            "for get in (r.arrow, r.pl):\n    try: get()\n    except ImportError as e: print(e)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    same(done.stdout, "[1.0, nan] ['a', 'b']\nthis needs pyarrow: pip install pyarrow\nthis needs polars: pip install polars\n", done.stderr)
    code = ("import sys; sys.modules['numpy'] = sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
            "import tessera; open('bare.csv', 'w').write('k,v\\na,1.5\\nb,2\\n')\n"
            "print(len(tessera.create('bare', 'bare.csv', dimensions=['k'])), tessera.create_csv('bare2', 'bare.csv')['v'].sum(), tessera.sql(\"SELECT sum(v) FROM 'bare'\").fetchall())\n"
            "try: tessera.sql('SELECT 1 AS a').df()\nexcept ImportError as e: print(e)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    same(done.stdout, "2 3.5 [(3.5,)]\nthis needs pandas: pip install pandas\n", done.stderr)


def test_show():
    many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100000) SELECT i FROM c"
    same(len(tessera.sql(many)._table(100000).splitlines()), 100002, "many rows")
    text = tessera.sql("SELECT 'a\nb' AS x, ? AS y, x'0011' AS b, 123456789.5 AS e", ["z" * 500])._table(1).splitlines()
    assert len(text) == 3 and len(text[2]) < 120 and "a b" in text[2] and "<2 bytes>" in text[2] and "123456789.5" in text[2], text
    same(tessera.sql("SELECT 1 AS a").columns, tessera.sql("SELECT 1 AS a WHERE 0")._table(3).splitlines()[:1], "no rows")


def test_results():
    a = cube()
    text = "SELECT y, sum(n) AS s, avg(v) FROM a WHERE n > ? GROUP BY y ORDER BY y"
    before = _reads(a)
    same((tessera.sql("SELECT x, sum(n) AS s, avg(v) FROM a GROUP BY x").columns, _reads(a) - before), (["x", "s", "avg(v)"], 0), "names without a read")
    result = tessera.sql(text, (10,))
    rows = tessera.sql(text, (10,), columnar="never").fetchall()
    same((result.fetchall(), result.fetchone(), result.fetchmany(2), [tuple(r) for r in result]), (rows, rows[0], rows[:2], rows), "tuples")
    same(tessera.sql(text.replace("?", ":least"), {"least": 10, "more": 1}).fetchall(), rows, "a parameter by name")
    fails(KeyError, ":least", lambda: tessera.sql(text.replace("?", ":least"), {"most": 1}))
    same((result.df()["s"].tolist(), result.pl()["s"].to_list(), result.arrow()["s"].to_pylist(), result.numpy("s").tolist()), ([row[1] for row in rows],) * 4, "frames")
    same(sorted(result.numpy()), sorted(result.columns), "all columns")
    fails(KeyError, "no column 'S'; it has y, s, avg(v)", lambda: result.numpy("S"))
    same((result.fetchmany(0), result.fetchmany(10 ** 6)), ([], rows), "none, and more than there are")
    for method in "fetchmany", "show":
        fails(ValueError, f"{method}: expected 0 rows or more, not -1", lambda method=method: getattr(result, method)(-1))
        fails(TypeError, "integer", lambda method=method: getattr(result, method)("3"))
    assert "s" in repr(result) and "<table>" in result._repr_html_()
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        result.explain()
        tessera.sql("SELECT n FROM a").show(3)
    assert "columns:" in shown.getvalue() and shown.getvalue().rstrip().endswith("..."), shown.getvalue()
    same(tessera.sql("SELECT avg(n) FROM a", columnar="require").fetchone(), (29.5,), "columnar")
    fails(tessera.Unsupported, "no part of this runs over columns", lambda: tessera.sql("SELECT n FROM a LIMIT 1", columnar="require", a=a))
    fails(tessera.Denied, "run this with connection.execute: 'DELETE FROM x'", lambda: tessera.sql("DELETE FROM x"))
    fails(tessera.Error, "one statement only", lambda: tessera.sql("SELECT 1; SELECT 2"))
    fails(TypeError, "not int", lambda: tessera.sql(3))
    fails(ValueError, "expected a SELECT, WITH or VALUES, not 'SELEC 1'", lambda: tessera.sql("SELEC 1"))
    fails(ValueError, "columnar", lambda: tessera.sql("SELECT 1", columnar="maybe"))
    same(tessera.sql("SELECT 1 AS a, 2 AS a, x'00', NULL, 1.5").fetchall(), [(1, 2, b"\0", None, 1.5)], "values of each type")
    same(tessera.sql("VALUES (1), (2)").fetchall(), [(1,), (2,)], "VALUES")


def _reads(array):
    return array.connection.execute("SELECT value FROM tessera_stats WHERE name = 'tiles_read'").fetchone()[0]


def test_methods_of_frames():
    """An Array and a Result say where the methods of a DataFrame are; other names, and properties that fail, fail as in any object."""
    array, result = cube(), tessera.sql("SELECT 1 AS a")
    for thing in (array, result):
        for name in ("groupby", "to_csv", "head"):
            fails(AttributeError, ".df() makes", lambda: getattr(thing, name))
        same(hasattr(thing, "nosuch"), False, "another name")
        fails(AttributeError, f"'{type(thing).__name__}' object has no attribute 'nosuch'", lambda: thing.nosuch)


def test_tables_whose_names_go_on():
    """A variable that is no table hides no hint: an experiment with layers has X_data, and no X."""
    db = sqlite3.connect(":memory:")
    tessera.load(db)
    db.execute("CREATE VIRTUAL TABLE X_data USING tessera(k INT32 DIMENSION, v REAL)")
    X = object()
    fails(TypeError, "X is a object, not a table: the connection has tables X_data", lambda X=X: tessera.sql("SELECT * FROM X", connection=db))
    X = pd.DataFrame({"a": [1]})
    same(tessera.sql("SELECT a FROM X", connection=db).fetchall(), [(1,)], "a variable of that name is found")


def test_frames_keep_digits():
    """Beside gaps pandas makes FLOAT64 of integers, but not of those that it would round."""
    large = pd.DataFrame({"u": pd.array([2 ** 64 - 1, None], "UInt64"), "i": pd.array([-2 ** 53 - 1, None], "Int64"), "small": pd.array([5, None], "Int64")})
    found = tessera.create("digits", large, if_exists="replace").to_pandas()
    same(({name: str(dtype) for name, dtype in found.dtypes.items() if name != "row"}, found["u"].tolist()[0], found["i"].tolist()[0], found["u"].isna().tolist()), ({"u": "UInt64", "i": "Int64", "small": "Int64"}, 2 ** 64 - 1, -2 ** 53 - 1, [False, True]), "an Array")
    days = tessera.create("midnights", pd.DataFrame({"t": pd.to_datetime(["2024-01-31", None, "1600-01-01"], format="%Y-%m-%d", errors="coerce")}), if_exists="replace").to_pandas()
    same((days["t"].dt.month.tolist()[0], days["t"].isna().tolist()[1]), (1.0, True), "midnights are days in the array, and instants of pandas")
    twice = tessera.sql("SELECT 9007199254740993 AS a, 1 AS a UNION ALL SELECT NULL, NULL").df()
    same((twice.iloc[0, 0], twice.iloc[0, 1]), (9007199254740993, 1), "a Result, with two columns of one name")


def test_what_cannot_be():
    """Errors say what to do instead."""
    result = tessera.sql("SELECT 1 AS a UNION ALL SELECT 'x'")
    same(result.fetchall(), [(1,), ("x",)], "rows of two types")
    fails(tessera.Error, "CAST them to one type", result.df)
    fails(TypeError, "a Result cannot be pickled", lambda: pickle.dumps(result))
    tessera.create("aside", np.arange(3))
    for source, says in (("aside", "no such table: aside; a path in FROM is in quotes: 'aside'"), ("./aside", "a path in FROM is in quotes: './aside'"), ("s3://b/x", "in quotes: 's3://b/x'")):
        fails(tessera.Error, says, lambda: tessera.sql(f"SELECT * FROM {source}"))
    for given in (5, "my.db", pathlib.Path("my.db")):
        for call in (lambda: tessera.sql("SELECT 1", connection=given), lambda: tessera.open("db:t", connection=given), lambda: tessera.create("db:t", pd.DataFrame({"a": [1]}), connection=given)):
            fails(TypeError, "a connection is one of sqlite3, apsw or pysqlite3", call)


def test_parameters_are_values():
    """What is no value is an error. Its text, as Python prints it, finds nothing in silence."""
    import datetime
    import decimal
    import uuid
    for given, expected in ((np.int64(4), 4), (np.float32(0.5), 0.5), (np.longdouble(0.5), 0.5), (np.array(np.datetime64("2024-01-02")), "2024-01-02"), (bytearray(b"a"), b"a"), (datetime.date(2024, 1, 2), "2024-01-02"), (pd.Timestamp("2024-01-02"), "2024-01-02T00:00:00"),
                            (np.datetime64("2024-01-02"), "2024-01-02"), (datetime.time(1), "01:00:00"), (decimal.Decimal("1.5"), 1.5), (uuid.UUID(int=1), str(uuid.UUID(int=1))), (None, None)):
        same(tessera.sql("SELECT ?", [given]).fetchall(), [(expected,)], repr(given))
        same(tessera.sql("SELECT :a", {"a": given}).fetchall(), [(expected,)], repr(given))
    for given in (datetime.timedelta(hours=1), pd.Timedelta("1h"), np.timedelta64(1, "h")):
        fails(TypeError, "a parameter is the duration", lambda given=given: tessera.sql("SELECT ?", [given]))
    for given in (object(), [1, 2], {"a": 1}, {1}, pd.DataFrame({"a": [1]}), len, int):
        fails(TypeError, "a parameter is one value", lambda given=given: tessera.sql("SELECT ?", [given]))
        fails(TypeError, "a parameter is one value", lambda given=given: tessera.sql("SELECT :a", {"a": given}))


def test_apsw():
    try:
        import apsw
    except ImportError:
        return
    a, connection = cube(), apsw.Connection(":memory:")
    same(tessera.sql("SELECT y, sum(n) FROM a WHERE n < ? GROUP BY y", (20,), connection=connection).fetchall(), tessera.sql("SELECT y, sum(n) FROM a WHERE n < 20 GROUP BY y").fetchall(), "apsw")
    same(tessera.sql("SELECT sum(n) AS s FROM a", connection=connection).columns, ["s"], "names")


def test_without_extensions():
    """A sqlite3 that loads no extensions, and no apsw: the error tells what to install."""
    from tessera import connections

    def refuse(_):
        raise RuntimeError("pip install apsw")

    kept = connections.load, sys.modules.get("apsw")
    connections.load, sys.modules["apsw"] = refuse, None
    try:
        fails(RuntimeError, "pip install apsw", lambda: connections._new_connection(None))
    finally:
        connections.load = kept[0]
        sys.modules.pop("apsw") if kept[1] is None else sys.modules.update(apsw=kept[1])


def command(*words, status=0, **options):
    done = subprocess.run([sys.executable, "-m", "tessera", *words], capture_output=True, text=True, **options)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if status != 2 else done.stderr


def no_room():
    raise OSError("no room")


def test_command():
    cube()
    tessera.create("below/deep", whole, dimensions=["t", "y", "x"])
    same(command("--csv", "ls", ".").splitlines()[0], "path,kind,cells,bytes", "ls")
    assert "./cube,dense array,60," in command("ls", ".") and "deep" not in command("ls", ".") and "deep" in command("ls", "-r", "."), command("ls", ".")
    assert "attribute  v" in command("info", "cube") and "format 22" in command("info", "cube"), command("info", "cube")
    assert command("info", "--ddl", "cube").startswith("CREATE VIRTUAL TABLE"), "ddl"
    same(command("sql", "SELECT y, sum(n) AS s FROM './cube' WHERE n < :m GROUP BY y", "-p", "m=7"), "y,s\n10.0,10\n20.0,11\n", "sql")
    same(command("--json", "sql", "-", input="SELECT 1 AS a, NULL AS b, 'x|y' AS c"), '[{"a": 1, "b": null, "c": "x|y"}]\n', "json, of standard input")
    same(command("--markdown", "sql", "SELECT 'x|y' AS c"), "| c |\n|---|\n| x\\|y |\n", "markdown")
    assert "│ s    │" in command("--box", "sql", "SELECT sum(n) AS s FROM './cube'"), command("--box", "sql", "SELECT sum(n) AS s FROM './cube'")
    assert "columns" in command("sql", "--explain", "SELECT sum(n) FROM './cube'")
    command("sql", "--arrow", "out.arrow", "SELECT sum(n) AS s FROM './cube'")
    same(pa.ipc.open_file("out.arrow").read_all().to_pylist(), [{"s": 1770}], "an Arrow file")
    same(len(command("head", "cube", "-n", "3").splitlines()), 4, "head")
    same(command("--limit", "1", "head", "cube", "--where", "n = 7").splitlines()[1].split(",")[-1], "7", "head --where")
    same(command("copy", "cube", "smaller", "--set", 'extents={"t":1}'), "60 cells\n", "copy")
    assert command("demo", "here").startswith("here: relief, climate, airports."), "demo"
    command("demo", "here")
    same((sorted(os.listdir("here")), tessera.open("here/climate").shape), (["airports", "airports.csv", "climate", "relief"], (12, 90, 180)), "demo, twice")
    shutil.rmtree("here/relief")
    os.remove("here/airports.csv")
    copied, shutil.copyfile = shutil.copyfile, lambda source, target: (copied(source, target), no_room())
    try:
        fails(OSError, "no room", lambda: tessera.demo("here"))
    finally:
        shutil.copyfile = copied
    same(sorted(os.listdir("here")), ["airports", "climate"], "a copy that failed leaves nothing")
    same((tessera.demo("here"), tessera.open("here/relief").shape), ("here", (540, 1080)), "what was removed comes back")
    if shutil.which("sqlite3"):
        command("shell", "shell.db", input="CREATE TABLE t AS SELECT tessera_version() AS v;")
        same(command("shell", "-d", "shell.db", input="SELECT v = tessera_version() FROM t;"), "1\n", "shell, with its file in both forms")
        same(command("shell", "shell.db", "SELECT count(*) FROM t", "SELECT v = tessera_version() FROM t"), "1\n1\n", "shell, with statements")
    assert "one database" in command("shell", "a.db", "-d", "b.db", status=2), "shell"
    command("check", "cube")
    with open("smaller/__fragments/" + os.listdir("smaller/__fragments")[0] + "/a1.tdb", "r+b") as file:
        file.truncate(3)
    assert "error," in command("check", "smaller", status=1), "errors are status 1"
    for words, says in ((("info", "nowhere"), "nowhere"), (("ls", "nowhere"), "nowhere"), (("sql", "SELECT"), ""), (("sql", "DELETE FROM x"), "reads"), (("sql", "SELECT 1", "-p", "x"), "NAME=VALUE")):
        told = command(*words, status=2)
        assert told.count("\n") == 1 and told.startswith("tessera: ") and says in told, told
    same(command("head", "cube", "-n", "2", "--json", "--limit", "1").count("\n"), 1, "options behind the verb")
    with contextlib.closing(sqlite3.connect("kept.db", isolation_level=None)) as db:
        tessera.load(db)
        db.execute("CREATE VIRTUAL TABLE inside USING tessera(k INT32 DIMENSION, v INT32)")
        db.execute("INSERT INTO inside VALUES(1, 2)")
        db.execute("SELECT tessera_hide('db:inside'), tessera_attach('cube', '{\"keep\":true}')")
    same((command("sql", "-d", "kept.db", "SELECT v FROM inside"), command("sql", "-d", "kept.db", "SELECT count(*) FROM cube")), ("v\n2\n", "count(*)\n60\n"), "tables that a file remembers")
    assert "no such table: outside" in command("sql", "-d", "kept.db", "SELECT * FROM outside", status=2)
    if shutil.which("sqlite3"):
        same(command("shell", "kept.db", "SELECT v FROM inside"), "2\n", "in the shell, too")
    tessera.sql("SELECT tessera_create_group('group')").fetchall()
    tessera.create("group/one", whole, dimensions=["t", "y", "x"])
    tessera.sql("SELECT tessera_add_member('group', 'group/one')").fetchall()
    assert "group/one,dense array,60," in command("info", "group") and command("--version").startswith("tessera "), command("info", "group")
    tessera.create("group/torn", whole, dimensions=["t", "y", "x"])
    same(([line.split(": ")[0] for line in command("upkeep", "group").splitlines()], command("upkeep", "group/", "--seconds", "5").count("left")), (["group/one", "group/torn"], 2), "upkeep of a group")
    same((command("check", "group"), command("upkeep", "group/one")), ("severity,file,message\n", '{"merged":0,"removed":0,"left":0}\n'), "a sound group")
    with open("group/torn/__fragments/" + os.listdir("group/torn/__fragments")[0] + "/a0.tdb", "r+b") as file:
        file.truncate(3)
    assert "error,group/torn/__fragments/" in command("check", "group", status=1), command("check", "group", status=1)
    same(command("sql", "DELETE FROM x", status=2), "tessera: sql reads: tessera shell FILE changes tables, which CREATE VIRTUAL TABLE t USING tessera('PATH') makes: 'DELETE FROM x'\n", "a statement that writes")
    same(command("sql", "SELECT :a", "-p", "b=1", status=2), "tessera: there is no value for :a\n", "a value that is missing")
    assert "ls, info, sql" in command("cube", status=2), "a path before a verb is an error with the list"
    assert tessera.sql("SELECT 1", connection=sqlite3.connect(":memory:")) is not None


def test_command_with_odd_input():
    """Names of strangers, values that only look like numbers, closed pipes, Ctrl-C: nothing is lost or renamed in silence, and no traceback is shown."""
    cube()
    same(command("--json", "sql", "SELECT 1 AS a, 2 AS a, 3 AS a_2, 9e999 AS b, -9e999 AS c, x'00ff' AS d, 2 AS a"), '[{"a": 1, "a_3": 2, "a_2": 3, "b": 9e999, "c": -9e999, "d": "00ff", "a_4": 2}]\n', "json")
    same(command("--markdown", "sql", "SELECT 1 AS \"a|b\", 'c' || char(10) || '|' || char(27) AS e"), "| a\\|b | e |\n|---|---|\n| 1 | c \\|\\x1b |\n", "markdown")
    assert "\x1b" not in command("--box", "sql", "SELECT char(27) || '[31m' AS \"a\x1b\""), "control characters reach no terminal"
    for given, kind, value in (("007", "text", "007"), ("nan", "text", "nan"), ("1_000", "text", "1_000"), ("-0.5", "real", "-0.5"), ("1e3", "real", "1000.0"), ("9223372036854775807", "integer", "9223372036854775807"), ("9223372036854775808", "text", "9223372036854775808"), ("", "text", "")):
        same(command("sql", "SELECT typeof(:v), :v", "-p", f"v={given}").splitlines()[1], f"{kind},{value}", given)
    same(command("sql", "-d", "typo.db", "SELECT 1", status=2), "tessera: typo.db: there is no such database\n", "a database that is missing is not made")
    assert not os.path.exists("typo.db")
    same(len(command("head", "cube", "--where", "n > 7 -- all", "-n", "2").splitlines()), 3, "a comment does not hide the limit")
    for words, says in ((("head", "cube", "-n", "-3"), "no number of rows"), (("--limit", "x", "head", "cube"), "no number of rows"), (("sql", "--arrow", "a.arrow", "--limit", "3", "SELECT 1"), "--arrow writes all rows"), (("sql", "SELECT 1; SELECT 2"), "one statement only"),
                        (("head", "."), "tessera ls"), (("copy", "cube", "cube/inside"), "lies within"), (("sql", ""), "a SELECT"), ((), "expected a verb")):
        assert says in command(*words, status=2), (words, command(*words, status=2))
    for words, says in ((("heads", "cube"), "did you mean head?"), (("describe", "cube"), "did you mean info?"), (("cube",), "`tessera info cube`"), (("SELECT 1",), "say sql before a SELECT"), (("zzz",), "tessera --help"), (("help",), "say --help"),
                        (("sql", "SELECT 1", "--explian"), "tessera: sql has no option --explian: did you mean --explain?"), (("head", "cube", "--limt=3"), "--limit"), (("head", "cube", "--lim=3"), "head has no option --lim: did you mean --limit?"), (("sql", "SELECT 1", "--expl"), "did you mean --explain?"), (("--js", "sql", "SELECT 1"), "--js"), (("ls", ".", "--zzz"), "it has --box, "), (("sql", "my.db", "SELECT 1"), "'SELECT 1' is one argument too many"),
                        (("copy", "cube"), "tessera copy: the following arguments are required: TO"), ((), "expected a verb: ls, info")):
        said = command(*words, status=2)
        assert says in said and said.count("\n") == 1, (words, said)
    command("sql", "--arrow", "failed.arrow", "SELECT abs(-9223372036854775808)", status=2)
    same([name for name in os.listdir(".") if "failed" in name], [], "a file that failed leaves nothing")
    assert command("ls", "cube").startswith("path,kind,cells,bytes\ncube,dense array,60,"), "of an array, the array"
    for verb in ("ls", "info", "sql", "head", "upkeep", "check", "copy", "demo", "shell"):
        assert f"usage: tessera {verb}" in command(verb, "--help"), verb
    os.makedirs("it's \"x\n")
    command("copy", "cube", "it's \"x\n/arr")
    assert '"it\'s ""x\n/arr",dense array,60,' in command("ls", "it's \"x\n") and command("head", "it's \"x\n/arr", "-n", "1").count("\n") == 2, command("ls", "it's \"x\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    start = [sys.executable, "-m", "tessera"]
    if os.name == "posix":
        done = subprocess.run([*start, "info", b"b\xff"], capture_output=True, env=env)
        same((done.returncode, done.stderr.count(b"\n"), b"is no UTF-8" in done.stderr), (2, 1, True), done.stderr)
        done = subprocess.run(["sh", "-c", '"$0" -m tessera sql "$1" | head -n 1; "$0" -m tessera sql "SELECT 1" >&-', sys.executable, "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 300000) SELECT i FROM c"], capture_output=True, text=True, env=env)
        same((done.stdout, done.stderr, done.returncode), ("i\n", "", 0), "a pipe that closes, and one that is closed")
        long = subprocess.Popen([*start, "--csv", "sql", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**env, "PYTHONUNBUFFERED": "1"})
        same(long.stdout.readline(), b"count(*)\n", "the statement runs")
        long.send_signal(signal.SIGINT)
        told = long.communicate(timeout=60)
        same((long.returncode, told), (130, (b"", b"")), "Ctrl-C")


def test_mistakes():
    """A typo, a home directory, another separator, a directory of somebody else's: an error that says what to do, or what Python's tools do."""
    a = tessera.create("mistaken", pd.DataFrame({"v": [1, 2, 3], "name": list("abc")}, index=pd.Index(["p", "q", "r"], name="k")))
    for key in ("vv", ["v", "vv"], ("v", "vv")):
        fails(tessera.Unknown, "has no column 'vv' (it has v, name as attributes; k as dimension); sel(k='vv') takes coordinates", lambda: a[key])
    pairs = tessera.create("pairs", pd.DataFrame({"v": [1, 2]}, index=pd.MultiIndex.from_tuples([("a", "x"), ("b", "y")], names=["k", "l"])))
    same((pairs["a", "x"].df().v.tolist(), pairs["a", "y"].df().v.tolist()), ([1], []), "two coordinates")
    same((a["q":"r"].df().v.tolist(), a.sel(k="q").df().v.tolist(), a["v", "k"].df().columns.tolist()), ([2, 3], [2], ["v", "k"]), "names and coordinates")
    same((a["k"].min(), a["k"].count(), a["k"].max()), ("p", 3, "r"), "a dimension that was chosen")
    home = os.path.abspath("home")
    os.makedirs(home)
    before, os.environ["HOME"] = os.environ.get("HOME"), home
    try:
        tessera.create("~/grid", np.arange(3.0))
        tessera.create("~/rows", pd.DataFrame({"v": [1]}))
        tessera.create_as(tessera.open("mistaken").connection, "~/select", "SELECT 1 AS v")
        with open(os.path.join(home, "c.csv"), "w") as f:
            f.write("v\n1\n")
        tessera.create("~/file", "~/c.csv")
        tessera.create_csv("~/csv", "~/c.csv")
        same(sorted(os.listdir(home)), ["c.csv", "csv", "file", "grid", "rows", "select"])
        same([len(tessera.open(f"~/{name}")) for name in ("csv", "file", "grid", "rows", "select")], [1, 1, 3, 1, 1])
        tessera.drop("~/grid")
        fails(tessera.NotFound, "grid", lambda: tessera.open("~/grid"))
        same(os.path.exists("~"), False, "a directory named ~")
    finally:
        os.environ.update({"HOME": before} if before else {})
    for text, mark in (("a;b;c\n1;2,5;x\n", ";"), ("a\tb\n1\t2\n", "\t")):
        with open("other.csv", "w") as f:
            f.write(text)
        for make in (tessera.create, tessera.create_csv):
            fails(tessera.Mismatch, f"its first line has {mark!r} and no comma: say sep={mark!r}", lambda: make("other", "other.csv"))
        for given in ({"sep": mark}, {"delimiter": mark}):
            same(tessera.create("other", "other.csv", if_exists="replace", **given).attributes[:2], ("a", "b"), given)
    os.makedirs("theirs/deep")
    for data in (np.zeros(3), *([xr.Dataset({"v": ("x", [1, 2])})] if xr else []), pd.DataFrame({"v": [1]})):
        for how in ("fail", "append", "replace"):
            fails((tessera.Error, FileNotFoundError), "theirs", lambda: tessera.create("theirs", data, if_exists=how))
            same(os.listdir("theirs"), ["deep"], (type(data), how))
    db = sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    db.execute("CREATE VIRTUAL TABLE stations USING tessera('stations', id INT32 DIMENSION, town TEXT)")
    db.execute("CREATE VIRTUAL TABLE rain USING tessera('rain', station INT32 DIMENSION, mm FLOAT32)")
    db.execute("CREATE VIRTUAL TABLE rainfall USING tessera('rain', labels='station=../stations')")
    rainfall = tessera.open("db:rainfall", connection=db)
    fails(tessera.Unknown, 'by its option labels: tessera.sql("SELECT town FROM rainfall", connection=...) reads it', lambda: rainfall.select("town").df())
    fails(tessera.Unknown, "has no column 'nothing' (it has station as dimension; mm as attribute)", lambda: rainfall.select("nothing").df())
    if hasattr(sqlite3.Connection, "setconfig"):
        fails(tessera.Error, "no such column", lambda: tessera.sql('SELECT * FROM a WHERE name = "zz"', a=a).df())
    same((len(tessera.open("mistaken", as_of="1999-01-01")), tessera.sql("SELECT * FROM a", a=tessera.open("mistaken", as_of="1999-01-01")).fetchall()), (0, []), "before its first commit an array is empty")


def error_of(act):
    try:
        act()
    except Exception as e:
        return e
    raise AssertionError("it raised no error")


def test_ways_out():
    """Messages say in Python's words what to do, and name no function of SQL that a method has called."""
    a = tessera.create("ways", pd.DataFrame({"n": [2 ** 62, 2 ** 62], "m": [1, 2]}, index=pd.Index(["p", "q"], name="k")))

    def circular():
        a = tessera.open("ways")
        tessera.sql("WITH a AS (SELECT * FROM a) SELECT * FROM a")
        return a

    for act, kind, says in ((circular, tessera.Error, "circular reference: a: in WITH a AS (...), a is that table itself: give it another name"), (lambda: tessera.sql("WITH a AS (SELECT * FROM a) SELECT * FROM a", a=a), tessera.Error, "duplicate WITH table name: a: give one of them another name"),
                            (lambda: a.order("-k"), tessera.Unknown, "order('-k'): write order(('k', 'desc'))"), (lambda: a.order("+k"), tessera.Unknown, "order(('k', 'asc'))"),
                            (lambda: a.order(("k", "down")), tessera.Mismatch, "expected the name of a dimension, or (name, 'desc')"), (lambda: a.order("n").df(), tessera.Unknown, "no dimension 'n'"),
                            (lambda: tessera.create("other ways", pd.DataFrame({"v": [1]}), dimension="v"), tessera.Error, "no option is called 'dimension': dimensions is; all are if_exists, "),
                            (lambda: tessera.create("other ways", pd.DataFrame({"v": [1]}), dimesnions="v"), tessera.Error, "'dimesnions': dimensions is; all"),
                            (lambda: tessera.create("other ways", pd.DataFrame({"v": [1]}), colour="v"), tessera.Error, "no option is called 'colour': if_exists, "),
                            (lambda: tessera.sql("SELECT m > 0, sum(n) FROM a GROUP BY 1", a=a).df(), tessera.Error, "the sum passes 64 bits: 'sum(n)'"),
                            (lambda: tessera.open("nowhere"), tessera.NotFound, "array not found: nowhere; a relative path begins at the program's current directory"),
                            (lambda: tessera.open(os.path.abspath("nowhere")), tessera.NotFound, "nowhere"), (lambda: tessera.drop("nowhere"), tessera.NotFound, "nowhere")):
        error = error_of(act)
        same((isinstance(error, kind), says in str(error), str(error).startswith("tessera_")), (True, True, False), f"{type(error)} {error}")
    same(a.order("k").df().k.tolist() + a.order(("k", "desc")).df().k.tolist() + a.order(["k", "DESC"]).df().k.tolist(), ["p", "q", "q", "p", "q", "p"], "order")
    same((a["n"].sum(), a.sum("n", by="k").fetchall()), (2 ** 63, [("p", 2 ** 62), ("q", 2 ** 62)]), "a sum past 64 bits")
    negative = tessera.create("ways down", pd.DataFrame({"n": [-2 ** 63, -1, -2 ** 62]}))
    same(negative.sum("n"), -2 ** 63 - 1 - 2 ** 62, "a sum below 64 bits")
    two = tessera.create("two ways", {"a": np.zeros((2, 3)), "b": np.zeros((2, 3))})
    fails(tessera.Mismatch, "write('a', ...): array two ways has other attributes, too: write_all({'a': block, 'b': block}) writes all of them as one commit", lambda: two.write("a", np.ones((2, 3))))
    fails(tessera.Mismatch, "origin: expected a dict such as {'dim_0': 0}, not (1, 1)", lambda: two.write_all({"a": np.ones((1, 1)), "b": np.ones((1, 1))}, (1, 1)))
    fails(tessera.Error, "has no attribute 'c'", lambda: two.write("c", np.ones((2, 3))))
    two.connection.execute("SELECT tessera_create_group('ways of g')")
    two.connection.execute("SELECT tessera_add_member('ways of g', 'two ways')")
    fails(tessera.Error, "group ways of g has members (1): members=True drops them, too", lambda: tessera.drop("ways of g"))


def test_booleans():
    """A boolean column is one in every result: bare, a key, an extreme, a neighbour in a window; nullable where there are gaps."""
    for part, frame in enumerate((pd.DataFrame({"k": list("abcd"), "g": [1, 1, 2, 2], "b": [True, False, True, True]}), pd.DataFrame({"k": list("abcd"), "g": [1, 1, 2, 2], "b": pd.array([True, None, True, None], "boolean")}))):
        a, dtypes, rows = tessera.create(f"booleans{part}", frame, dimensions=["k"]), set(), {}
        for text in ("SELECT b FROM a", "SELECT b AS x FROM a WHERE g > 0 ORDER BY k", "SELECT DISTINCT b FROM a ORDER BY b", "SELECT b FROM a GROUP BY b ORDER BY b", "SELECT min(b) AS b FROM a", "SELECT g, max(b) AS b FROM a GROUP BY g",
                     "SELECT b, count(*) FROM a GROUP BY b", "SELECT first_value(b) OVER (ORDER BY k) AS b FROM a", "SELECT lag(b) OVER (ORDER BY k) AS b FROM a", "SELECT b FROM (SELECT b FROM a UNION ALL SELECT b FROM a)",
                     "WITH w AS (SELECT b, g FROM a) SELECT b FROM w GROUP BY b", "SELECT b FROM frame", "SELECT f.b FROM a JOIN frame AS f USING (k)", "SELECT a.b FROM a LEFT JOIN frame AS f ON f.k = 'z' AND f.k = a.k"):
            found = tessera.sql(text, a=a, frame=frame).df()
            column = found["b" if "AS x" not in text else "x"]
            same(str(column.dtype), "boolean" if column.isna().any() else "bool", text)
            same(str(tessera.sql(text, a=a, frame=frame).arrow().schema.field(column.name).type), "bool", text)
        same((a.max("b"), a.min("b")), (True, False) if part == 0 else (True, True), "extremes")
        same([str(a.max("b", by="g").df().b.dtype), str(a.min("b", by="g").df().b.dtype)], ["bool", "bool"], "by")
        same((tessera.sql("SELECT max(b), sum(b), NOT b AS n FROM a", a=a).df().dtypes.astype(str).tolist()), ["bool", "int64", "int64"], "numbers of SQL")


def told(act):
    """Returns what a call returns, or its error."""
    try:
        return act()
    except Exception as e:
        return type(e).__name__, str(e)


def test_comparisons():
    """len(), aggregates and the stream of where() and sel() agree about every value: rows, or an error; texts with offsets are instants in UTC."""
    frame = pd.DataFrame({"k": range(4), "i8": np.array([1, -2, 3, 127], "i1"), "u64": np.array([1, 2, 3, 2**64 - 1], "u8"), "f": [1.5, 2.5, 3, 4.0], "name": ["a", "5", "c", "10"],
                          "b": [True, False, True, True], "c": pd.Categorical(["x", "y", "x", "y"]), "n": pd.Categorical([10, 20, 10, 20]), "clock": [datetime.time(5), datetime.time(6, 30), datetime.time(7), datetime.time(23, 59, 59)],
                          "d": pd.date_range("2020-01-01", periods=4), "t": pd.date_range("2020-01-01", periods=4, freq="h")})
    a = tessera.create("compared", frame, dimensions=["k"])
    texts = ["2020-01-01T02:30+02:00", "2020-01-01T02:30Z", "2020-01-01 01", "2020-01-01T01:00:00.0000001", "2020", "monday", "2020-1-1", "2020-01-01 25:00", "01/02/2020", "2020-01-01+02:00", "2020-01-01T00+25:00", "", 5, 2.5]
    values = {"i8": [2.5, 300, -300, "2", "x", np.inf, -np.inf, True, np.int8(3), np.float32(2.5)], "u64": [2.5, -1, 2**64 - 1, 2**64, "18446744073709551615", 1e30], "f": ["x", 2, "2.5", np.inf],
              "name": [5, 5.0, "5", b"5", True], "b": [True, 0, 2, "x", "true"], "c": ["x", 5, "zz"], "n": [10, 15, "10", "x"], "clock": ["06:00", "6", "x", datetime.time(6, 0, 0, 1), 6, "06:00:00.5", "25:00"], "d": texts, "t": texts}
    for column, operator, value in ((column, operator, value) for column in values for value in values[column] for operator in ("=", "<", "<=", ">", ">=", "in")):
        part = told(lambda: a.where(column, operator, [value] if operator == "in" else value))
        if not isinstance(part, tuple):
            wanted = told(lambda: part.arrow().num_rows)
            same((told(lambda: len(part)), told(lambda: part.count("k")), told(lambda: len(part.df()))), (wanted,) * 3, (column, operator, value))
    for several in (np.array([1, 3]), pd.Series([1, 3]), pd.Index([1, 3]), [np.int64(1), 3], np.array([1.0, 3.0])):
        same((a.sel(k=several).df().k.tolist(), len(a.where("k", "in", several))), ([1, 3], 2), repr(several))
    at = tessera.create("compared_at", frame, dimensions=["t"])
    for text, found in (("2020-01-01T02:30+02:00", 3), ("2020-01-01T02:30Z", 1), (pd.Timestamp("2020-01-01T02:30", tz="Europe/Berlin"), 2), ("0000-01-01T00:00", 4), ("9999-12-31T23:00-00:30", 0)):
        same((len(a.where("t", ">", text)), len(at.sel(t=(text, None)).df()), len(at.sel(t=(text, None)))), (found,) * 3, text)
    for strange in ("monday", "2020-1-1", "2020-01-01 25:00", "", "2020-01-01+02:00", "0000-01-01T00:00+01:00", "9999-12-31T23:59-02:00"):
        fails(tessera.Mismatch, f"t: {strange!r} is not a valid DATETIME_US" if "59" not in strange and "0000" not in strange else "in UTC it is outside of the years", lambda: a.where("t", ">", strange))
        for read in (lambda: len(at.sel(t=strange)), lambda: at.sel(t=strange).df(), lambda: len(at.sel(t=(strange, None)))):
            fails(tessera.Mismatch, repr(strange), read)
    same([len(a.where("d", operator, "2020-01-02T05:00")) for operator in ("<", "<=", "=", ">=", ">")], [2, 2, 0, 2, 2], "finer than days")
    same([len(a.where("d", operator, "2020-01")) for operator in ("<", "<=", "=", ">=", ">")], [0, 1, 1, 4, 3], "a month is its first day")
    fails(tessera.Mismatch, "t is DATETIME_US, and this is a number", lambda: a.where("t", ">", 5))
    same(len(tessera.open("compared", datetimes="integer").where("t", ">", 5)), 4, "numbers of units")


def test_zones():
    """Text without an offset is of the zone that the column had in a DataFrame, as in pandas; instants without a zone are refused."""
    hours = pd.date_range("2020-01-01", periods=6, freq="h", tz="Europe/Berlin", name="t")
    frame = pd.DataFrame({"v": range(6), "w": hours + pd.Timedelta("1min")}, index=hours)
    for zone, kind in ((None, "zoned"), ("UTC+05:30", "fixed"), ("arrow", "arrow")):
        frame = frame if zone is None else frame.tz_convert(datetime.timezone(datetime.timedelta(hours=5.5))) if kind == "fixed" else frame.astype({"w": pd.ArrowDtype(pa.timestamp("us", "Asia/Tokyo"))})
        a = tessera.create(kind, frame)
        for text in ("2020-01-01T02:00", "2020-01-01 05:30", "2020-01-01", "2020-01", "2020-01-01T02:00+01:00", "2020-01-01T00:30Z"):
            at = pd.Timestamp(text) if pd.Timestamp(text).tz is not None else pd.Timestamp(text).tz_localize(frame.index.tz)
            expected = frame.v[frame.index >= at].tolist()
            same((a.sel(t=(text, None)).df().v.tolist(), a.sel(t=slice(text, None)).df().v.tolist(), a[text:].df().v.tolist(), len(a.sel(t=(text, None))), a.sel(t=[text]).df().v.tolist()),
                 (expected, expected, expected, len(expected), frame.v[frame.index == at].tolist()), (kind, text))
            stamp = pd.Timestamp(text)
            stamp = stamp if stamp.tz is not None else stamp.tz_localize(frame.w.dt.tz)
            same((a.where("w", ">", text).df().v.tolist(), len(a.where("w", ">", text))), (frame.v[frame.w > stamp].tolist(), int((frame.w > stamp).sum())), (kind, text))
        same(a.sel(t=frame.index[2]).df().v.tolist(), [2], kind)
        for several in (frame.index[1:3], frame.index[1:3].to_series(), list(frame.index[1:3])):
            same(a.sel(t=several).df().v.tolist(), [1, 2], "an index")
        same(a.sel(t=a.bounds["t"]).df().v.tolist(), list(range(6)), "bounds are in UTC")
        same(pd.Timestamp(a.min("w")), frame.w.min() if kind != "arrow" else pd.Timestamp(frame.w.min()), "min")
        for naive in (pd.Timestamp("2020-01-01"), datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 1), np.datetime64("2020-01-01")):
            for act in (lambda: a.sel(t=naive), lambda: a.sel(t=(naive, None)), lambda: a.where("w", "<", naive), lambda: a[naive:]):
                fails(TypeError, "has the time zone", act)
    clocks = tessera.create("clocks", pd.DataFrame({"t": pd.date_range("2020-10-25", periods=5, freq="h", tz="Europe/Berlin")}))
    fails(tessera.Mismatch, "is there twice", lambda: clocks.where("t", ">", "2020-10-25T02:30"))
    fails(tessera.Mismatch, "not at all", lambda: clocks.where("t", ">", "2020-03-29T02:30"))
    same([len(clocks.where("t", ">=", f"2020-10-25T02:00{offset}")) for offset in ("+02:00", "+01:00")], [3, 2], "the offset tells which")


run(globals(), "SELECTs over arrays and DataFrames give SQLite's rows")
