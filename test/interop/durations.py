"""Durations are numbers, whatever their length: what pandas calls timedelta64 comes back as such, and SQL sums, compares and orders integers of its
unit. Random values lie around 0 and around a day, and pandas and Python's integers are the oracle.

usage: durations.py EXTENSION [WORD ...]
"""
import datetime
import itertools
import os
import random
import sqlite3
import statistics
import sys
import warnings

from package import fails, libraries, library, run, same

np, pd, pa = libraries("numpy", "pandas", "pyarrow")
pl, xr = library("polars"), library("xarray")

SEED = 20240601
NUMBERS = itertools.count()   # each array in a directory has a name of its own
OPERATORS = {"=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
PER_DAY = {"s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}


def drawn(source, count, unit):
    """Returns durations as integers of their unit, some None."""
    day = PER_DAY[unit]
    near = [0, 1, -1, day - 1, day, day + 1, -day, day // 2, 9 * day, -3 * day]
    return [None if source.random() < 0.15 else source.choice(near) + (source.randrange(-day, day) if source.random() < 0.5 else 0) for _ in range(count)]


def made(source, unit, count=60):
    """Returns a frame with a key, a group, an instant and a duration, and the durations as integers."""
    numbers = drawn(source, count, unit)
    return pd.DataFrame({"k": range(count), "g": [source.choice("ab") for _ in range(count)],
                         "t": pd.to_datetime([source.choice(["2024-06-01 05:00:00", "2024-06-02 00:00:00", "1960-01-01 23:59:59"]) for _ in range(count)]),
                         "d": np.array(numbers, f"m8[{unit}]")}), numbers


def is_there(numbers):
    return [n for n in numbers if n is not None]


def connected():
    db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    tessera.load(db)
    return db


def places(unit):
    """An array in a directory, and one in a database: the keyword arguments of create(), and how FROM names it."""
    db = connected()
    path = f"durations_{next(NUMBERS)}"
    return ((path, None, f"'./{path}'"), (f"db:d_{unit}", db, f"d_{unit}"))


def test_frames():
    source = random.Random(SEED)
    for unit in PER_DAY:
        frame, numbers = made(source, unit)
        for path, db, _ in places(unit):
            array = tessera.create(path, frame, connection=db, dimensions=["k"])
            table = pa.table(array)
            same((table["d"].type, table["d"].cast(pa.int64()).to_pylist()), (pa.duration(unit), numbers), f"{path}: Arrow")
            for back in (array.df(), array.to_pandas(), array.sel(k=list(range(60))).df()):
                pd.testing.assert_series_equal(back["d"], frame["d"])
            if hasattr(pd.DataFrame, "from_arrow"):
                pd.testing.assert_series_equal(pd.DataFrame.from_arrow(array)["d"], frame["d"])
            if pl:
                found = array.pl()["d"]
                same((found.dtype, found.cast(pl.Int64).to_list()), (pl.Duration("ms" if unit == "s" else unit), [n if n is None or unit != "s" else n * 1000 for n in numbers]), "polars")


def test_sql():
    """The rows of SQLite, and the same over columns: one storage class, sums, order, comparisons."""
    source = random.Random(SEED + 1)
    for unit in PER_DAY:
        frame, numbers = made(source, unit)
        known = is_there(numbers)
        for path, db, name in places(unit):
            array = tessera.create(path, frame, connection=db, dimensions=["k"])

            def rows(text, *values, **options):
                return tessera.sql(text.replace("FROM t", f"FROM {name}"), values, connection=db, **options).fetchall()
            for columnar in ("never", "auto"):
                if columnar == "never" and db is None:   # SQLite knows no path
                    continue
                same(rows("SELECT DISTINCT typeof(d) FROM t ORDER BY 1", columnar=columnar), [("integer",), ("null",)], "storage classes")
                same(rows("SELECT count(d), sum(d), min(d), max(d), count(*) FROM t", columnar=columnar), [(len(known), sum(known), min(known), max(known), 60)], "aggregates")
                same(rows("SELECT d FROM t WHERE d IS NOT NULL ORDER BY d", columnar=columnar), [(n,) for n in sorted(known)], "order")
                same(rows("SELECT g, sum(d), max(d) FROM t GROUP BY g ORDER BY g", columnar=columnar),
                     [(g, sum(of), max(of)) for g in "ab" for of in [is_there([n for n, h in zip(numbers, frame["g"]) if h == g])]], "groups")
                for _ in range(6):
                    limit = source.choice(known) + source.choice((-1, 0, 1))
                    for operator, holds in OPERATORS.items():
                        same(rows(f"SELECT k FROM t WHERE d {operator} ? ORDER BY k", limit, columnar=columnar), [(k,) for k, n in enumerate(numbers) if n is not None and holds(n, limit)], f"d {operator} {limit}")
                        same(rows(f"SELECT count(*) FROM t WHERE d {operator} {limit}", columnar=columnar), [(sum(n is not None and holds(n, limit) for n in numbers),)], f"d {operator} {limit}, counted")
                    same(rows("SELECT count(*) FROM t WHERE d IS NULL OR d <> ?", limit, columnar=columnar), [(sum(n is None or n != limit for n in numbers),)], "unequal")
            back = tessera.sql(f"SELECT d, t, k FROM {name} ORDER BY k", connection=db).df()
            pd.testing.assert_series_equal(back["d"], frame["d"])
            pd.testing.assert_series_equal(back["t"].astype("M8[us]"), frame["t"].astype("M8[us]"))
            grouped = tessera.sql(f"SELECT t, min(d) AS low, max(d) AS high, count(*) AS n FROM {name} GROUP BY t ORDER BY t", connection=db).df()
            expected = frame.groupby("t")["d"].agg(["min", "max"]).reset_index()
            same((grouped["t"].dtype.kind, grouped["low"].dtype.kind), ("M", "m"), "the types of groups")
            same((grouped["t"].tolist(), grouped["low"].tolist(), grouped["high"].tolist()), (expected["t"].tolist(), expected["min"].tolist(), expected["max"].tolist()), "groups of instants")


def test_methods():
    source = random.Random(SEED + 2)
    for unit in PER_DAY:
        frame, numbers = made(source, unit)
        known, values = is_there(numbers), frame["d"]
        for path, db, _ in places(unit):
            array = tessera.create(path, frame, connection=db, dimensions=["k"])
            same((array["d"].sum(), array["d"].min(), array["d"].max(), array["d"].count()), (values.sum().to_timedelta64(), values.min().to_timedelta64(), values.max().to_timedelta64(), len(known)), "methods")
            same(array["d"].mean(), np.timedelta64(round(statistics.mean(known)), unit), "mean")
            same(array["d"].median(), np.timedelta64(round(statistics.median(known)), unit), "median")
            assert abs(array["d"].std() - np.timedelta64(round(statistics.stdev(known)), unit)) <= np.timedelta64(max(1, PER_DAY[unit] // 10**12), unit), "std"
            for function in ("sum", "min", "max"):
                found, expected = getattr(array, function)("d", by="g").df(), getattr(frame.groupby("g")["d"], function)().reset_index()
                pd.testing.assert_frame_equal(found.astype({"g": object}), expected.astype({"g": object}), check_dtype=False)
                same(found["d"].dtype, expected["d"].dtype, f"{function} by group")
            found = array.mean("d", by="g").df()["d"]
            same(found.tolist(), [pd.Timedelta(np.timedelta64(round(statistics.mean(is_there([n for n, h in zip(numbers, frame["g"]) if h == g]))), unit)) for g in "ab"], "mean by group")
            for _ in range(6):
                limit = source.choice(known) + source.choice((-1, 0, 1))
                for operator, holds in OPERATORS.items():
                    chosen = [k for k, n in enumerate(numbers) if n is not None and holds(n, limit)]
                    for given in (np.timedelta64(limit, unit), pd.Timedelta(np.timedelta64(limit, unit))):
                        part = array.where("d", operator, given)
                        same((pa.table(part)["k"].to_pylist(), len(part)), (chosen, len(chosen)), f"d {operator} {given}")
            same(pa.table(array.where("d", "in", [np.timedelta64(known[0], unit), np.timedelta64(known[1], unit)]))["k"].to_pylist(), [k for k, n in enumerate(numbers) if n in known[:2]], "in")
            if unit == "s":
                same(pa.table(array.where("d", ">", np.timedelta64(known[0] * 1000 + 500, "ms")))["k"].to_pylist(), [k for k, n in enumerate(numbers) if n is not None and n > known[0]], "between two")


def test_instants():
    instants = pd.Series(pd.to_datetime(["2020-01-01", "2024-06-01 12:30:00.25", None, "1969-12-31 23:00"], format="ISO8601"))
    for path, db in (("instants", None), ("db:instants", connected())):
        array = tessera.create(path, pd.DataFrame({"k": range(4), "g": list("aabb"), "t": instants}), connection=db, dimensions=["k"])
        unit = np.datetime_data(instants.dtype)[0]
        numbers = sorted(instants.dropna().astype("i8").tolist())   # exactly: pandas' own mean goes through a float
        same([np.datetime64(getattr(array["t"], name)()) for name in ("min", "max", "mean", "median")],
             [np.datetime64(number, unit) for number in (numbers[0], numbers[-1], sum(numbers) // len(numbers), numbers[1])], "instants")
        for name in ("sum", "std"):
            fails(TypeError, f"instants have no {name}", lambda: getattr(array["t"], name)())
        fails(TypeError, "datetimes='integer'", lambda: array.mean("t", by="g"))
        same([np.datetime64(v) for _, v in array.max("t", by="g")], [instants[1].to_datetime64(), instants[3].to_datetime64()], "by group")
        raw = tessera.open(path, connection=db, datetimes="integer").mean("t", by="g").fetchall()
        same(raw[0][1], float(instants[:2].astype("i8").mean()), "as integers")
    days = tessera.create("days", pd.DataFrame({"k": [1, 2], "t": pd.to_datetime(["2024-06-01", "2024-06-02"])}), dimensions=["k"])
    same((days["t"].mean(), days["t"].max()), ("2024-06-01 12:00:00", "2024-06-02"), "days")


def test_times_of_day():
    """They stay texts in SQL, and the array does not take them for durations."""
    clock = [datetime.time(5), None, datetime.time(23, 59, 59)]
    array = tessera.create("clock", pa.table({"k": [1, 2, 3], "c": pa.array(clock, pa.time32("s"))}), dimensions=["k"])
    same(tessera.sql("SELECT c FROM './clock' ORDER BY k").fetchall(), [("05:00:00",), (None,), ("23:59:59",)], "SQL")
    same((pa.table(array)["c"].to_pylist(), array["c"].min(), array["c"].max(), array["c"].mean()), (clock, "05:00:00", "23:59:59", "14:30:00"), "times of day")   # rounded to the even second
    same(pa.table(array.where("c", ">", datetime.timedelta(hours=6)))["k"].to_pylist(), [3], "a comparison")
    same(array["c"].sum(), np.timedelta64(104399, "s"), "a sum")


def test_blocks():
    """NaT of an ndarray is a value of the array, and NULL of SQL."""
    values = np.array([[90000, -1], ["NaT", 3600]], "m8[s]")
    for path, db, name in (("blocks", None, "'./blocks'"), ("db:blocks", connected(), "blocks")):
        array = tessera.create(path, {"d": values}, connection=db, dimensions=["y", "x"])
        np.testing.assert_array_equal(array.numpy("d"), values)
        same(tessera.sql(f"SELECT d FROM {name} ORDER BY y, x", connection=db).fetchall(), [(90000,), (-1,), (None,), (3600,)], "rows")
        same(tessera.sql(f"SELECT sum(d), min(d), count(d) FROM {name}", connection=db).fetchall(), [(93599, -1, 3)], "over columns")
        same(tessera.sql(f"SELECT count(*) FROM {name} WHERE d < 5", connection=db).fetchall(), [(1,)], "a comparison")
        same(tessera.sql(f"SELECT count(*) FROM {name} WHERE d IS NULL", connection=db).fetchall(), [(1,)], "NULL")
        same((array["d"].sum(), array["d"].min()), (np.timedelta64(93599, "s"), np.timedelta64(-1, "s")), "methods")


def test_changes():
    source, db = random.Random(SEED + 3), connected()
    frame, numbers = made(source, "us")
    tessera.create("db:c", frame, connection=db, dimensions=["k"], kind="sparse")
    moment = db.execute("SELECT last_write FROM tessera_array('db:c')").fetchone()[0]
    db.execute("UPDATE c SET d = d + 86400000000, t = '2024-01-01' WHERE d IS NOT NULL")
    found = tessera.changes(db, "c", moment).df().sort_values("k")
    same((found["old_d"].dtype, found["new_d"].dtype, found["new_t"].dtype.kind), (frame["d"].dtype, frame["d"].dtype, "M"), "the types")
    same(((found["new_d"] - found["old_d"]).unique().tolist(), found["old_d"].tolist()), ([pd.Timedelta("1D")], frame["d"].dropna().tolist()), "the values")
    mixed = connected()   # times that nobody declared
    mixed.execute("CREATE VIRTUAL TABLE m USING tessera(k INT32 DIMENSION, d TIME_SEC)")
    mixed.execute("INSERT INTO m VALUES(1, '05:00'), (2, 90000)")
    moment = mixed.execute("SELECT last_write FROM tessera_array('db:m')").fetchone()[0]
    mixed.execute("UPDATE m SET d = '06:00'")
    same(tessera.changes(mixed, "m", moment).df().sort_values("k")["old_d"].tolist(), [pd.Timedelta("5h"), pd.Timedelta("25h")], "times that nobody declared")


def test_declared():
    """What SQL declares is the same, and statements and copies keep it."""
    db = connected()
    db.execute("CREATE VIRTUAL TABLE s USING tessera('declared', k INT32 DIMENSION, d TIME_MIN DURATION, c TIME_MIN)")
    db.execute("INSERT INTO s VALUES(1, 1500, '05:06'), (2, '05:06', NULL), (3, -7, '00:00')")
    same(db.execute("SELECT d, c FROM s ORDER BY k").fetchall(), [(1500, "05:06"), (306, None), (-7, "00:00")], "SQL")
    assert "TIME_MIN DURATION" in db.execute("SELECT tessera_ddl('declared')").fetchone()[0]
    db.execute("SELECT tessera_copy('declared', 'copied')").fetchall()
    db.execute("SELECT tessera_create_as('chosen', 'SELECT k, d FROM s', '{\"dimensions\":[\"k\"]}')").fetchall()
    for path in ("declared", "copied", "chosen"):
        same(tessera.open(path).df()["d"].tolist(), [pd.Timedelta(minutes=m) for m in (1500, 306, -7)], path)
    for words, expected in (("datetimes=iso", [1500, "05:06", -7]), ("datetimes=integer", [1500, 306, -7]), ("datetimes=duration", [1500, 306, -7])):
        db.execute(f"CREATE VIRTUAL TABLE temp.other USING tessera('declared', {words})")
        same([d for d, in db.execute("SELECT d FROM other ORDER BY k")], expected, words)
        db.execute("DROP TABLE temp.other")
    db.execute("SELECT tessera_add_attribute('declared', 'e TIME_SEC DURATION')").fetchall()
    db.execute("CREATE VIRTUAL TABLE again USING tessera('declared')")
    db.execute("UPDATE again SET e = 90061")
    same(db.execute("SELECT sum(e), sum(c IS NULL) FROM again").fetchall(), [(270183, 1)], "an attribute that was added")
    db.execute("SELECT tessera_drop_attribute('declared', 'e')").fetchall()
    same(db.execute("SELECT count(*) FROM tessera_metadata('declared')").fetchone(), (2,), "and dropped: earlier states still have it")
    fails(sqlite3.Error, "DURATION is for TIME_HR to TIME_AS", lambda: db.execute("CREATE VIRTUAL TABLE bad USING tessera(k INT32 DIMENSION, d INT64 DURATION)"))


def test_appends():
    """A duration of another unit is converted, whatever its length; one that lies between two units is refused."""
    array = tessera.create("appended", pd.DataFrame({"k": [1], "d": np.array([90000], "m8[s]")}), dimensions=["k"], kind="sparse")
    tessera.create("appended", pd.DataFrame({"k": [2, 3], "d": np.array([-90000000, 5000], "m8[ms]")}), if_exists="append")
    same(tessera.open("appended").df()["d"].tolist(), [pd.Timedelta(seconds=s) for s in (90000, -90000, 5)], "appended")
    fails(tessera.Error, "no whole number of TIME_SEC", lambda: tessera.create("appended", pd.DataFrame({"k": [4], "d": np.array([1], "m8[ms]")}), if_exists="append"))
    same(len(array), 1, "the Array before")


def test_nullable():
    """pandas' nullable types come back whether they have gaps or not, and other types stay what they are."""
    for gap in (None, 7):
        frame = pd.DataFrame({"k": [1, 2], "i": pd.array([1, gap], "Int64"), "u": pd.array([1, gap], "UInt8"), "b": pd.array([True, gap and False], "boolean"), "f": pd.array([0.5, gap], "Float64"),
                              "plain": [1, 2], "truth": [True, False]})
        array = tessera.create("nullable", frame, dimensions=["k"], if_exists="replace")
        for back in (array.to_pandas(), array.sel(k=(1, 2)).df()):
            pd.testing.assert_frame_equal(back, frame)
    mixed = tessera.create("truths", pa.table({"k": [1, 2], "b": [True, None]}), dimensions=["k"]).to_pandas()
    same(str(mixed["b"].dtype), "boolean", "booleans with gaps are no objects")


def test_given():
    """What cannot be is an error when it is given, and the message says what there is."""
    array = tessera.create("given", pd.DataFrame({"k": [1, 2], "v": [1.5, 2.5]}), dimensions=["k"])
    fails(tessera.Error, "has no column 'w' (it has v as attribute; k as dimension)", lambda: array.where("w", "=", 1))
    fails(tessera.Error, "has no dimension or label 'w'", lambda: array.sel(w=1))
    fails(TypeError, "expected one of =, ==, <", lambda: array.where("v", "~", 1))
    fails(TypeError, "needs a list of values", lambda: array.where("v", "in", 1))
    fails(FileExistsError, "if_exists='append' adds the rows to it, if_exists='replace' puts a new one in its place", lambda: tessera.create("given", pd.DataFrame({"k": [1]}), dimensions=["k"]))
    fails(ValueError, "expected 'fail', 'append' or 'replace'", lambda: tessera.create("given", pd.DataFrame({"k": [1]}), if_exists="overwrite"))
    part = tessera.create("slice", pd.DataFrame({"v": range(10)})[4:7])
    same((part.dims, pa.table(part).to_pydict()), (("index",), {"index": [4, 5, 6], "v": [4, 5, 6]}), "a slice keeps its index")
    begun = tessera.create("begun", pd.DataFrame({"v": range(10)})[:4], grow=["row"])
    same(pa.table(tessera.create("begun", pd.DataFrame({"v": range(10)})[4:], if_exists="append"))["row"].to_pylist(), list(range(10)), "rows that are numbered go on")
    same(len(begun), 4, "the Array before")


def test_unions():
    """Each SELECT of a UNION has a say: what only the first one shows as durations of this unit, or as instants, is a number or a text."""
    df = pd.DataFrame({"d": np.array([108000, -5], "m8[s]"), "day": np.array(["2024-01-05T10", "2024-01-06"], "M8[us]"), "x": [1, 2]}, index=pd.Index([1, 2], name="k"))
    tessera.create("unions", df)
    tessera.create("unions-ms", df.assign(d=df["d"].astype("m8[ms]"), x=df["x"].astype("i1")))

    def types(text):
        found = tessera.sql(text.replace("FROM s", "FROM 'unions'").replace("FROM ms", "FROM 'unions-ms'")).df()
        return [str(kind).partition("[")[0] for kind in found.dtypes], found
    same(types("SELECT d, day FROM s UNION ALL SELECT d, day FROM s ORDER BY 2")[0], ["timedelta64", "datetime64"])
    same(types("WITH a AS (SELECT d, day FROM s) SELECT d, day FROM a UNION SELECT d, day FROM s LIMIT 1")[0], ["timedelta64", "datetime64"])
    same(types("SELECT d, day FROM s EXCEPT SELECT x, 'none' FROM s")[0], ["timedelta64", "datetime64"])
    kinds, found = types("SELECT d FROM s UNION ALL SELECT d FROM ms")
    same((kinds, sorted(found["d"])), (["int64"], [-5000, -5, 108000, 108000000]))
    kinds, found = types("SELECT d FROM s UNION ALL SELECT x FROM s")
    same((kinds, sorted(found["d"])), (["int64"], [-5, 1, 2, 108000]))
    kinds, found = types("SELECT day, x FROM s UNION ALL SELECT 'total', sum(x) FROM s ORDER BY x")
    same((found["day"].tolist()[-1], found["x"].tolist()), ("total", [1, 2, 3]))
    kinds, found = types("SELECT x FROM ms UNION ALL SELECT 1000 * x FROM s")
    same(sorted(found["x"]), [1, 2, 1000, 2000])
    same(types("SELECT d FROM (SELECT d FROM s UNION ALL SELECT x FROM s)")[0], ["int64"])


def test_unions_within():
    """A UNION in parentheses, in WITH, also a recursive one, and in a view keeps the types that all of its SELECTs have, and loses others."""
    df = pd.DataFrame({"d": np.array([108000, -5], "m8[s]"), "day": np.array(["2024-01-05T10", "2024-01-06"], "M8[us]"), "ok": [True, False], "x": [1, 2]}, index=pd.Index([1, 2], name="k"))
    db = connected()
    tessera.create("db:s", df, connection=db)
    tessera.create("db:ms", df.assign(d=df["d"].astype("m8[ms]")), connection=db)
    db.executescript("""
        CREATE VIEW same AS SELECT k, d, day, ok FROM s UNION ALL SELECT k + 2, d, day, ok FROM s;
        CREATE VIEW named(i, wait, "the day") AS SELECT k, d, day FROM s UNION ALL SELECT k + 2, d, day FROM s ORDER BY 1;
        CREATE VIEW above AS SELECT * FROM same JOIN (SELECT 1 AS one);
        CREATE VIEW plain AS SELECT k, d FROM s;
        CREATE VIEW units AS SELECT d FROM s UNION ALL SELECT d FROM ms;
        CREATE VIEW "first" AS SELECT d FROM s UNION ALL SELECT x FROM s;
        CREATE VIEW last AS SELECT x AS d FROM s UNION ALL SELECT d FROM s;
        CREATE VIEW commented AS SELECT d FROM s UNION ALL SELECT d FROM s -- both
        ;
        CREATE VIEW later AS SELECT d FROM s EXCEPT SELECT x FROM s""")

    def types(text):
        return [str(kind).partition("[")[0] for kind in tessera.sql(text, connection=db).df().dtypes]
    three = ["timedelta64", "datetime64", "bool"]
    arm = "SELECT d, day, ok FROM s"
    for text in (f"SELECT * FROM ({arm} UNION ALL {arm})", f"SELECT * FROM ({arm} UNION ALL {arm} ORDER BY d LIMIT 3) AS u WHERE ok", f"SELECT u.d, u.day, u.ok FROM ({arm} UNION {arm}) u JOIN s USING (day)",
                 f"SELECT * FROM ({arm} UNION ALL SELECT * FROM ({arm} UNION ALL {arm}))", f"WITH c AS ({arm} UNION ALL {arm}) SELECT * FROM c", f"WITH c(a, b, e) AS MATERIALIZED ({arm} UNION ALL {arm}) SELECT a, b, e FROM c",
                 "WITH RECURSIVE c(n, d, day, ok) AS (SELECT 1, d, day, ok FROM s UNION ALL SELECT n + 1, d, day, ok FROM c WHERE n < 3) SELECT d, day, ok FROM c",
                 "SELECT d, day, ok FROM same", "SELECT v.d, v.day, v.ok FROM main.same AS v", "SELECT d, day, ok FROM above WHERE k > 1", "SELECT d, day, ok FROM same UNION ALL SELECT d, day, ok FROM s",
                 f"SELECT d, day, ok FROM 'same' v, (SELECT 1) UNION ALL SELECT * FROM ({arm} EXCEPT {arm})"):
        same(types(text), three, text)
    same(types('SELECT wait, "the day" FROM named'), three[:2], "names of a view")
    same(types("SELECT d FROM plain WHERE k IN (SELECT 1 UNION SELECT 2)"), three[:1], "a UNION elsewhere")
    same(types("WITH same(d) AS (SELECT x FROM s UNION ALL SELECT x FROM s) SELECT d FROM same"), ["int64"], "WITH hides a view")
    for text in ("SELECT d FROM (SELECT d FROM s UNION ALL SELECT d FROM ms)", "SELECT d FROM (SELECT x AS d FROM s UNION ALL SELECT d FROM s)", "SELECT * FROM units", 'SELECT * FROM "first"', "SELECT * FROM last",
                 "SELECT d FROM (SELECT * FROM units)", "WITH RECURSIVE c(n, d) AS (SELECT 1, d FROM s UNION ALL SELECT n + 1, d + 1 FROM c WHERE n < 3) SELECT d FROM c",
                 "WITH RECURSIVE c(n, d) AS (SELECT 1, x FROM s UNION ALL SELECT 5, d FROM s UNION ALL SELECT n + 1, d FROM c WHERE n < 3) SELECT d FROM c"):
        same(types(text), ["int64"], text)
    same(tessera.sql("SELECT d FROM units ORDER BY 1", connection=db).df()["d"].tolist(), [-5000, -5, 108000, 108000000], "the numbers")
    db.execute("CREATE VIEW open AS SELECT d FROM s UNION ALL SELECT d FROM s /* both")
    for view in ("commented", "open"):
        same(types(f"SELECT d FROM {view}"), three[:1], f"a comment at the end of a view: {view}")
    same(types("SELECT d FROM later"), three[:1], "EXCEPT in a view has values of its first SELECT")
    many = " UNION ALL ".join([arm] * 300)
    same((types(f"SELECT * FROM ({many})"), types(many)), (three, three), "many")


def test_ends_within():
    """min, max and windows that return a value of a column have its type, through views, WITH, UNION and subqueries, by rows and over columns; what they are part of has not."""
    df = pd.DataFrame({"k": range(4), "g": list("aabb"), "t": np.array(["2024-01-05T10", "2024-01-06", "2024-01-07", "2024-01-08"], "M8[us]"), "d": np.array([108000, -5, 7, "NaT"], "m8[s]"),
                       "u": np.array([0, 2**63 - 1, 2**63, 2**64 - 1], "u8")})
    db = connected()
    tessera.create("db:s", df, connection=db, dimensions=["k"])
    db.execute("ATTACH 'ends.db' AS other")
    tessera.create("db:other.r", df, connection=db, dimensions=["k"])
    db.execute("CREATE TEMP TABLE r AS SELECT 1 AS t, 2 AS d, 3 AS u, 4 AS k")   # of another database than the views of `other` mean
    db.executescript("""
        CREATE VIEW plain AS SELECT * FROM s;
        CREATE VIEW ends AS SELECT max(t), max(d) AS d, max(u) AS u FROM s;
        CREATE VIEW named(a, b, c) AS SELECT min(t), min(d), min(u) FROM s GROUP BY g;
        CREATE VIEW both AS SELECT * FROM s UNION ALL SELECT * FROM plain;
        CREATE VIEW t AS SELECT k, t FROM s;
        CREATE VIEW other.v AS SELECT t, d, u FROM r UNION ALL SELECT t, d, u FROM r;
        CREATE VIEW other.w AS WITH c AS (SELECT * FROM r) SELECT max(t), max(d), max(u) FROM c WHERE k IN (SELECT k FROM r) UNION SELECT t, d, u FROM v""")

    def types(text, columnar):
        return [str(kind) for kind in tessera.sql(text, connection=db, columnar=columnar).df().dtypes]
    three, call = ["datetime64[us]", "timedelta64[s]", "uint64"], "SELECT max(t), max(d), max(u) FROM"
    for text in (f"{call} plain", "SELECT * FROM ends", "SELECT * FROM named", f"{call} both", "SELECT g, min(t), max(d), min(u) FROM plain GROUP BY g", f"{call} s UNION ALL SELECT min(t), min(d), min(u) FROM s",
                 "SELECT t, d, u FROM s UNION SELECT max(t), max(d), max(u) FROM both", f"SELECT * FROM ({call} s)", "SELECT a AS x, b, c FROM (SELECT g, max(t) AS a, max(d) AS b, max(u) AS c FROM s GROUP BY g) JOIN (SELECT 1)",
                 f"WITH c AS ({call} s) SELECT * FROM c", "WITH c(a, b, e) AS (SELECT t, d, u FROM both) SELECT max(a), max(b), max(e) FROM c", "SELECT max(t) AS m, max(d), max(u) FROM s HAVING max(u) > ''",
                 "SELECT (SELECT max(t) FROM s), (SELECT max(d) FROM s), (SELECT max(u) FROM plain)", f"{call} (SELECT * FROM s LIMIT 3)", "SELECT x.t, y.d, y.u FROM (SELECT g, max(t) AS t FROM s GROUP BY g) x JOIN (SELECT g, max(d) AS d, max(u) AS u FROM s GROUP BY g) y USING (g)",
                 "SELECT first_value(t) OVER w, lag(d) OVER (PARTITION BY g ORDER BY k), max(u) FILTER (WHERE k > 1) OVER w AS z FROM s WINDOW w AS (ORDER BY k)", "SELECT nth_value(t, 2) OVER (ORDER BY k), lead(d, 1) OVER (ORDER BY k), last_value(u) OVER (ORDER BY k) FROM both",
                 "SELECT max(t) OVER (ORDER BY k), min(d) OVER (), lag(u) OVER (ORDER BY k) FROM s", "SELECT first_value(t) OVER (ORDER BY k), lead(d, 2) OVER (ORDER BY k), nth_value(u, 1) OVER (ORDER BY k) FROM s",
                 "SELECT * FROM other.v", "SELECT * FROM other.w", f"{call} other.v"):
        for columnar in ("auto", "never"):
            if columnar == "auto" or "HAVING" not in text:
                found = types(text, columnar)
                same([kind.lower() for kind in found if kind != "str"], three, f"{columnar}: {text}")   # UInt64, if there are gaps
    same(types("SELECT t.t, s.d FROM t JOIN s USING (k)", "auto"), three[:2], "a view with the name of a column")
    for text, expected in (("SELECT max(t, t) FROM s", "str"), ("SELECT max(t) || '' FROM s", "str"), ("SELECT -max(d) FROM s", "int64"), ("SELECT max(d) IS NULL FROM s", "int64"), ("SELECT count(max(d)) OVER () FROM s GROUP BY g", "int64"),
                           ("SELECT max(d + 1) FROM s", "int64"), ("SELECT max(d) FROM (SELECT d FROM s UNION ALL SELECT k FROM s)", "int64"), ("SELECT max(d) FROM s UNION ALL SELECT max(k) FROM s", "int64"), ("SELECT lag(d, 1, 0) OVER (ORDER BY k) FROM s", "int64"),
                           ("SELECT max(k) FROM both", "int64"), ("SELECT \"max(g)\" FROM (SELECT max(g) FROM plain)", "str")):
        same(types(text, "never"), [expected], text)
    highest = tessera.sql("SELECT g, min(u) AS low, max(u) AS high FROM both GROUP BY g ORDER BY g", connection=db, columnar="never").df()
    same((highest["low"].tolist(), highest["high"].tolist()), ([0, 2**63], [2**63 - 1, 2**64 - 1]), "on both sides of 2^63, by rows")
    db.execute("SELECT tessera_create_as('db:kept', 'SELECT g, max(t) AS t, max(d) AS d, max(u) AS u FROM both GROUP BY g', '{\"dimensions\":[\"g\"]}')").fetchall()
    same([str(kind) for kind in tessera.open("db:kept", connection=db).df()[["t", "d", "u"]].dtypes], three, "an array of them")
    db.execute("CREATE VIRTUAL TABLE bits USING tessera(k INT32 DIMENSION, u UINT64, uint64=signed)")
    db.execute("INSERT INTO bits VALUES(1, 1), (2, -1)")
    same([tessera.sql(f"SELECT {of} FROM bits ORDER BY 1", connection=db).df().iloc[:, 0].tolist() for of in ("u", "min(u)")], [[-1, 1], [-1]], "uint64=signed")


def test_unions_in_unions():
    """SELECTs within each other, to either side, and views of views: their number of ways to choose does not multiply."""
    db = connected()
    tessera.create("db:s", pd.DataFrame({"d": np.array([5], "m8[s]"), "x": [1]}), connection=db)
    left = right = "SELECT d FROM s"
    for number in range(10):
        left, right = f"SELECT * FROM ({left}) UNION ALL SELECT d FROM s", f"SELECT d FROM s UNION ALL SELECT * FROM ({right})"
    db.execute("CREATE VIEW v0 AS SELECT d FROM s")
    for number in range(10):
        db.execute(f"CREATE VIEW v{number + 1} AS SELECT * FROM v{number} UNION ALL SELECT d FROM s")
    for text in (left, right, "SELECT * FROM v10", "SELECT max(d) FROM v10"):
        same([str(kind) for kind in tessera.sql(text, connection=db).df().dtypes], ["timedelta64[s]"], text)
    same([str(kind) for kind in tessera.sql(left.replace("(SELECT d FROM s)", "(SELECT x AS d FROM s)", 1), connection=db).df().dtypes], ["int64"], "the innermost has a say")


def test_kinds_that_differ():
    """Instants do not become durations in an append, nor these instants; an error tells what was given, and in the caller's words."""
    frame = pd.DataFrame({"k": [1], "d": pd.to_timedelta(["1h"]), "t": pd.to_datetime(["2024-01-01 01:00"])})
    swapped = frame.assign(k=2).rename(columns={"d": "t", "t": "d"})
    for path, db in (("kinds", None), ("db:kinds", connected())):
        array = tessera.create(path, frame, connection=db, dimensions=["k"], kind="sparse")
        for given, words in ((swapped, "column 't': these are durations or times of day, and the column has instants, DATETIME_US"), (swapped.assign(t=frame["t"]), "column 'd': these are instants, and the column has durations"),
                             (pa.table({"k": [2], "t": frame["t"], "d": pa.array([1], pa.timestamp("s"))}), "column 'd': these are instants")):
            fails(tessera.Mismatch, words, lambda: tessera.create(path, given, connection=db, if_exists="append"))
        same(len(array), 1, "nothing was written")
    coded = tessera.create("coded", pa.table({"k": [1, 2, 3], "d": pa.array([5, 6, 5], pa.duration("s")).dictionary_encode()}))
    same((coded.arrow()["d"].type, coded.arrow()["d"].cast(pa.int64()).to_pylist(), tessera.sql("SELECT d FROM './coded' ORDER BY k").fetchall()), (pa.duration("s"), [5, 6, 5], [(5,), (6,), (5,)]), "a dictionary of durations")
    db = connected()
    db.execute("CREATE VIRTUAL TABLE s USING tessera('axis-of-steps', kind=dense, n INT32 DIMENSION(0, 2, 3) LABEL step TIME_SEC DURATION, v REAL)")
    db.execute("INSERT INTO s(n, v) VALUES(0, 0), (1, 1), (2, 2)")
    steps = tessera.open("axis-of-steps")
    hour = pd.Timedelta("1h")
    for given in ([hour, 2 * hour, 3 * hour], (hour, 2 * hour, 30 * hour), [datetime.timedelta(hours=n) for n in (1, 2, 30)], [np.timedelta64(n, "h") for n in (1, 2, 30)], [hour, datetime.timedelta(hours=2), np.timedelta64(30, "h")], np.array([1, 2, 30], "m8[h]")):
        same(steps.write_label("step", given), 3, repr(given))
    same(tessera.sql("SELECT step FROM './axis-of-steps' ORDER BY 1").fetchall(), [(3600,), (7200,), (108000,)], "labels")
    for method in (None, "nearest"):
        fails(TypeError, "step='6h': step has durations: give pandas.Timedelta('6h')", lambda: steps.sel(step="6h", method=method))
    fails(TypeError, "step='6h': step has durations", lambda: steps.sel(step=("6h", None)))
    same([steps.sel(step=given).numpy("v").tolist() for given in ("02:00", 7200)], [[1.0]] * 2, "a time of day as text, and units")
    fails(KeyError, "no label step is near Timedelta('0 days 04:00:00')", lambda: steps.sel(step=4 * hour, method="nearest", tolerance=hour))
    for days, found in ((2**60, 2.0), (-2**60, 0.0)):   # past 64 bits of seconds
        same(steps.sel(step=np.timedelta64(days, "D"), method="nearest").numpy("v").tolist(), [found], "far away")
        same((len(steps.sel(step=np.timedelta64(days, "D"))), len(steps.sel(step=(np.timedelta64(-abs(days), "D"), np.timedelta64(abs(days), "D")))), len(steps.where("step", "<", np.timedelta64(days, "D")))), (0, 3, 3 if days > 0 else 0), "nothing")
    if xr:
        data = xr.Dataset({"v": ("step", np.arange(3.0))}, coords={"step": np.array([0, 6, 12], "m8[h]").astype("m8[s]")})
        tessera.create("kinds-set", data, grow=["step"])
        fails(tessera.Mismatch, "coordinate 'step' is datetime64[s], and in the group timedelta64[s]", lambda: tessera.create("kinds-set", data.assign_coords(step=np.array([5, 6, 7], "M8[s]")), if_exists="append"))


def test_nearest_far_away():
    """What is nearest to an instant, exactly: also where numpy's integers overflow."""
    for unit in ("D", "s", "ms", "us", "ns", "h", "M", "Y", "W"):
        name = {"D": "DAY", "s": "SEC", "h": "HR", "M": "MONTH", "Y": "YEAR", "W": "WEEK"}.get(unit, unit.upper())
        db = connected()
        first = np.datetime64("2020-01-02", "D").astype(f"M8[{unit}]")
        days = first + np.arange(4)
        db.execute(f"CREATE VIRTUAL TABLE a USING tessera('near-{unit}', kind=dense, t DATETIME_{name} DIMENSION('{str(days[0]).replace('T', ' ')}', '{str(days[3]).replace('T', ' ')}', 4), v REAL)" if unit != "W" else
                   f"CREATE VIRTUAL TABLE a USING tessera('near-{unit}', kind=dense, t DATETIME_{name} DIMENSION('{days[0].astype('M8[D]')}', '{days[3].astype('M8[D]')}', 4), v REAL)")
        db.executemany("INSERT INTO a VALUES(?, ?)", [(str(day.astype("M8[D]") if unit == "W" else day).replace("T", " "), number) for number, day in enumerate(days)])
        array = tessera.open(f"near-{unit}")
        for far, found in ((np.datetime64(2**60, "D"), 3.0), (np.datetime64(-2**60, "D"), 0.0), (np.datetime64(2**61, "Y"), 3.0), (np.datetime64(2**40, "M"), 3.0), (days[2], 2.0), (str(days[1].astype("M8[D]") if unit == "W" else days[1]), 1.0)):
            same(array.sel(t=far, method="nearest").numpy("v").tolist(), [found], f"{unit}: {far!r}")
        fails(KeyError, "no coordinate of t is near", lambda: array.sel(t=np.datetime64(2**60, "D"), method="nearest", tolerance=1))
        for strange in ("x", 3, 1.5):
            fails(tessera.Mismatch, f"t={strange!r}: the dimension has instants" if isinstance(strange, str) else f"t={strange!r}: t is DATETIME_", lambda: array.sel(t=strange, method="nearest"))


def test_far_instants():
    """Years outside 0000 to 9999 are integers: comparisons with text are right, order and ends with datetimes=integer, and types.md says what SQL makes of the others."""
    days = {1: "2024-01-01", 2: 3000000, 3: "1960-01-01", 4: -800000, 5: "9999-12-31"}
    numbers = {k: d if isinstance(d, int) else int(np.datetime64(d).astype("i8")) for k, d in days.items()}
    rising = sorted(days, key=numbers.get)
    db = connected()
    db.execute("CREATE VIRTUAL TABLE far USING tessera('years', k INT32 DIMENSION, d DATE)")
    db.executemany("INSERT INTO far VALUES(?, ?)", days.items())
    db.execute("CREATE VIRTUAL TABLE numbers USING tessera('years', datetimes=integer)")
    for columnar in ("never", "auto"):
        def found(text):
            return tessera.sql(text, connection=db, columnar=columnar).fetchall()
        for text in ("2024-06-01", "1970-01-01", "0000-01-01", "9999-12-31", "2024"):
            limit = int(np.datetime64(text).astype("M8[D]").astype("i8"))
            for operator, holds in OPERATORS.items():
                same(found(f"SELECT k FROM far WHERE d {operator} '{text}' ORDER BY k"), [(k,) for k in days if holds(numbers[k], limit)], f"{columnar}: {operator} {text}")
                same(found(f"SELECT k FROM numbers WHERE d {operator} {limit} ORDER BY k"), [(k,) for k in days if holds(numbers[k], limit)], f"{columnar}: {operator} {limit}")
        same(found("SELECT k FROM numbers ORDER BY d"), [(k,) for k in rising], "order of integers")
        same(found("SELECT min(d), max(d) FROM numbers"), [(-800000, 3000000)], "ends of integers")
        same(found("SELECT k FROM far ORDER BY d"), [(4,), (2,), (3,), (1,), (5,)], "integers are less than texts")
        same(found("SELECT max(d) FROM far WHERE d < '9999-12-31'"), [("2024-01-01",)], "the greatest text")
    array = tessera.open("years")
    same((np.datetime64(array["d"].min()), np.datetime64(array["d"].max())), (np.datetime64(-800000, "D"), np.datetime64(3000000, "D")), "methods")


def test_forms():
    """What SQL shows as integers of units are integers in conditions, in text files, in domains and in statements, too."""
    db = connected()
    with open("waits.csv", "w", encoding="utf-8") as f:
        f.write("k,wait,clock\n1,90000,05:00\n2,05:00:00,05:01\n3,-7,\n4,,06:00\n")
    db.execute("""SELECT tessera_create_csv('csv', 'waits.csv', '{"dimensions":["k"],"types":{"wait":"TIME_SEC DURATION","clock":"TIME_MIN"}}')""").fetchall()
    db.execute("CREATE TABLE texts(k INTEGER, wait TEXT)")
    db.executemany("INSERT INTO texts VALUES(?, ?)", [(1, "90000"), (2, "05:00:00"), (3, "-7"), (4, None)])
    db.execute("""SELECT tessera_create_as('texts', 'SELECT * FROM texts', '{"dimensions":["k"],"types":{"wait":"TIME_SEC DURATION"}}')""").fetchall()
    for path in ("csv", "texts"):
        same(tessera.sql(f"SELECT wait FROM './{path}' ORDER BY k").fetchall(), [(90000,), (18000,), (-7,), (None,)], path)
    for text in ("1e3", "12.5", "-", "5 "):
        fails(tessera.Error, "wait", lambda: tessera.sql("SELECT tessera_create_as('no', ?, ?)", (f"SELECT 1 AS k, '{text}' AS wait", '{"types":{"wait":"TIME_SEC DURATION"}}')).fetchall())
    for number, (check, given) in enumerate((("d >= 3600", [3600, 90000, 3599, -5, None]), ("d BETWEEN 0 AND 100000", [0, 100000, 100001, -1, None]), ("d IN (60, 90000)", [60, 90000, 61]), ("d % 60 = 0", [120, 121, -60]),
                                             ("d <> 5", [5, 6, None]), ("d < e", [1, 100, 99]), ("d IS NOT NULL", [1, None]), ("coalesce(d, 0) + 5 > 10", [5, 6, None]))):
        db.execute(f"CREATE VIRTUAL TABLE checked{number} USING tessera(k INT32 DIMENSION, d TIME_SEC DURATION, e TIME_SEC DURATION, CHECK({check}))")
        db.execute(f"CREATE TABLE ordinary{number}(k INTEGER, d INTEGER, e INTEGER, CHECK({check}))")
        for value in given:
            told = []
            for table in ("checked", "ordinary"):
                try:
                    db.execute(f"INSERT INTO {table}{number} VALUES(1, ?, 100)", (value,))
                    told.append("")
                except sqlite3.IntegrityError as e:
                    told.append(str(e))
            same(bool(told[0]), bool(told[1]), f"CHECK({check}) of {value}")
            assert not told[0] or f"d is {'NULL' if value is None else value}" in told[0], told[0]
    fails(sqlite3.OperationalError, "compares a number with a text", lambda: db.execute("CREATE VIRTUAL TABLE no USING tessera(k INT32 DIMENSION, d TIME_SEC DURATION CHECK(d > '01:00:00'))"))
    db.execute("CREATE VIRTUAL TABLE axis USING tessera('axis', kind=dense, step TIME_SEC DIMENSION(0, 200000, 1000) DURATION CURRENT(0, 199999), v REAL NOT NULL, w TIME_SEC DURATION NOT NULL DEFAULT 3600)")
    db.executemany("INSERT INTO axis(step, v) VALUES(?, ?)", [(step, step) for step in range(3600, 3611)])
    db.execute("CREATE VIRTUAL TABLE points USING tessera('points', step TIME_SEC DIMENSION DURATION, v REAL, on_conflict=abort)")
    db.executemany("INSERT INTO points VALUES(?, ?)", [(3600 * hour, hour) for hour in range(40)])
    same(db.execute("SELECT domain, current_domain FROM tessera_schema('axis') WHERE name = 'step'").fetchone(), ("[0,200000]", "[0,199999]"), "domains")
    same([tessera.open(path).bounds["step"] for path in ("axis", "points")], [(3600, 3610), (0, 140400)], "bounds")
    statement = db.execute("SELECT tessera_ddl('axis')").fetchone()[0]
    assert "DIMENSION(0, 200000, 1000) CURRENT(0, 199999)" in statement and "DEFAULT 3600" in statement, statement
    fails(sqlite3.IntegrityError, "step=3600", lambda: db.execute("INSERT INTO points VALUES(3600, 1)"))
    parts = db.execute("SELECT slice, condition FROM tessera_partitions('points', 4)").fetchall()
    counts = [db.execute(f"SELECT count(*) FROM points WHERE {condition}").fetchone()[0] for _, condition in parts]
    same((sum(counts), ":" in "".join(condition for _, condition in parts), len(parts) > 1), (40, False, True), f"partitions: {parts}")
    axis = tessera.open("axis")
    millisecond = pd.Timedelta("1ms")
    for method, given, found in (("nearest", pd.Timedelta("1h") + 400 * millisecond, 3600.0), ("nearest", pd.Timedelta("1h") + 600 * millisecond, 3601.0), ("pad", pd.Timedelta("1h") + 900 * millisecond, 3600.0),
                                 ("backfill", pd.Timedelta("1h") + millisecond, 3601.0), ("nearest", pd.Timedelta("2D"), 3610.0), ("nearest", 3605, 3605.0), ("pad", np.timedelta64(61, "m"), 3610.0)):
        same(axis.sel(step=given, method=method).numpy("v").tolist(), [found], f"{method} {given}")
    fails(KeyError, "no coordinate", lambda: axis.sel(step=pd.Timedelta("2D"), method="nearest", tolerance=pd.Timedelta("1h")))
    same(axis.sel(step=pd.Timedelta("3612s"), method="nearest", tolerance=pd.Timedelta("2s")).numpy("v").tolist(), [3610.0], "tolerance")


def test_damaged_metadata():
    """A damaged file of metadata may have said which columns are durations. It costs what only it could tell, and not the data."""
    db = connected()
    db.execute("CREATE VIRTUAL TABLE a USING tessera('damaged', kind=dense, k INT32 DIMENSION(0, 9, 10) LABEL step TIME_SEC DURATION, d TIME_SEC DURATION, v INT)")
    db.execute("INSERT INTO a(k, d, v) VALUES(1, 90000, 7)")
    db.execute("SELECT tessera_write_label('damaged', 'step', '[90001]', 1)").fetchall()
    db.execute("SELECT tessera_set_metadata('damaged', 'note', 'a text')").fetchall()
    db.close()
    last = sorted(os.listdir("damaged/__meta"))[-1]
    place = os.path.join("damaged", "__meta", last)
    with open(place, "rb") as f:
        sound = f.read()
    for damage in (b"", sound[:-3], bytes(len(sound)), sound[:20] + b"x" + sound[21:]):
        with open(place, "wb") as f:
            f.write(damage)
        os.utime(place, (1, 1))   # no writer is at work
        db = connected()
        fails(sqlite3.DatabaseError, f"column 'd' has durations or times of day, and damaged metadata do not say which (__meta/{last}", lambda: db.execute("CREATE VIRTUAL TABLE x USING tessera('damaged')"))
        for words, columns, expected in (("datetimes=duration", "d, v, step", (90000, 7, 90001)), ("datetimes=integer", "d, v, step", (90000, 7, 90001)), ("datetimes=iso", "v, d", (7, 90000)), ("columns='k,v', labels=no", "v", (7,))):
            db.execute(f"CREATE VIRTUAL TABLE x USING tessera('damaged', {words})")
            same(db.execute(f"SELECT {columns} FROM x").fetchall(), [expected], words)
            db.execute("DROP TABLE x")
        fails(sqlite3.DatabaseError, "column 'step'", lambda: db.execute("CREATE VIRTUAL TABLE x USING tessera('damaged', columns='k,v')"))
        fails(sqlite3.DatabaseError, "column 'd'", lambda: db.execute("SELECT tessera_stream('damaged')").fetchall())
        db.execute("""SELECT tessera_stream('damaged', NULL, '{"columns":["v"]}'), tessera_stream('damaged', NULL, '{"datetimes":"duration"}')""").fetchall()
        fails(sqlite3.DatabaseError, "column 'd'", lambda: db.execute("SELECT * FROM tessera_aggregate('damaged', 'd')").fetchall())
        same(db.execute("SELECT max FROM tessera_aggregate('damaged', 'v')").fetchall(), [(7,)], "an aggregate of another column")
        assert (last in str(db.execute("SELECT * FROM tessera_check('damaged')").fetchall())), "the check names the file"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            frame = tessera.open("damaged", datetimes="duration").to_pandas()
        same((frame["d"].tolist(), frame["v"].tolist()), ([pd.Timedelta("25h")], [7]), "a DataFrame")
        assert any(last in str(warning.message) for warning in said), said
    os.remove(place)
    db = connected()
    db.execute("CREATE VIRTUAL TABLE x USING tessera('damaged')")
    same(db.execute("SELECT d, v, step FROM x").fetchall(), [(90000, 7, 90001)], "without the file")


def test_labels():
    """A label of durations is declared as such, whoever makes it: a Dataset, columns, SQL; and SQL, streams, methods and copies keep to that."""
    hours = [0, 6, 23, 30, 100]   # below and above one day
    steps = np.array(hours, "m8[h]").astype("m8[s]")
    seconds = steps.astype("i8").tolist()
    db = connected()
    tessera.create("labels-columns", pd.DataFrame({"step": steps, "v": np.arange(5.0)}), labels={"step": "n"}, kind="dense")
    tessera.create("labels-blocks", {"v": np.arange(5.0)}, dimensions=["n"], labels={"step": ("n", steps)})
    db.execute("CREATE VIRTUAL TABLE made USING tessera('labels-sql', kind=dense, n INT64 DIMENSION(0, 4, 5) LABEL step TIME_SEC DURATION, v REAL)")
    db.execute("INSERT INTO made(n, v) VALUES(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)")
    db.execute("SELECT tessera_write_label('labels-sql', 'step', ?)", (str(seconds),)).fetchall()
    db.execute("SELECT tessera_copy('labels-blocks', 'labels-copied')").fetchall()
    db.execute("SELECT tessera_sync('labels-blocks', 'labels-synced')").fetchall()
    db.execute(db.execute("SELECT tessera_ddl('labels-sql')").fetchone()[0].replace("labels-sql", "labels-again"))
    db.execute('INSERT INTO "labels-again"(n, v) SELECT n, v FROM made')
    db.execute("SELECT tessera_write_label('labels-again', 'step', ?)", (str(seconds),)).fetchall()
    kinds = ["columns", "blocks", "sql", "copied", "synced", "again"]
    if xr:
        made = xr.Dataset({"v": ("step", np.arange(5.0))}, coords={"step": steps})
        tessera.create("labels-set", made)
        tessera.create("labels-tree/a", made.isel(step=slice(0, 2)), grow=["step"])
        tessera.create("labels-tree/a", made.isel(step=slice(2, 5)), if_exists="append")
        kinds += ["set", "tree/a"]
    for kind in kinds:
        path = f"labels-{kind}"
        path = path if "v" not in os.listdir(path) else f"{path}/v"
        name = f"'./{path}'"

        def rows(text, columnar):
            if columnar == "never":   # SQLite knows no path
                db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.here USING tessera({name})")
                return db.execute(text.replace("FROM t", "FROM here")).fetchall()
            return tessera.sql(text.replace("FROM t", f"FROM {name}")).fetchall()
        for columnar in ("never", "auto"):
            same(rows("SELECT sum(step), min(step), max(step) FROM t", columnar), [(sum(seconds), 0, 360000)], f"{kind}: aggregates")
            same(rows("SELECT step FROM t ORDER BY step DESC", columnar), [(n,) for n in seconds[::-1]], f"{kind}: order")
            same(rows("SELECT v FROM t WHERE step > 86400 ORDER BY v", columnar), [(3.0,), (4.0,)], f"{kind}: a comparison")
            same(rows("SELECT v FROM t WHERE step BETWEEN 21600 AND 108000 ORDER BY v", columnar), [(1.0,), (2.0,), (3.0,)], f"{kind}: a range")
            same(rows("SELECT step / 43200, count(*) FROM t GROUP BY 1 ORDER BY 1", columnar), [(0, 2), (1, 1), (2, 1), (8, 1)], f"{kind}: groups")
        db.execute("DROP TABLE temp.here")
        array = tessera.open(path)
        same(pa.table(array.select("v", "step"))["step"].type, pa.duration("s"), f"{kind}: Arrow")
        same(tessera.sql(f"SELECT step FROM {name} ORDER BY step").df()["step"].tolist(), [pd.Timedelta(n, "s") for n in seconds], f"{kind}: pandas")
        durations = [pd.Timedelta(n, "s") for n in seconds]
        for text in ("SELECT step, avg(v) FROM t GROUP BY step ORDER BY step", "SELECT DISTINCT step FROM t ORDER BY step",
                     "WITH x AS (SELECT step, sum(v) FROM t GROUP BY step) SELECT * FROM x ORDER BY step"):
            same(tessera.sql(text.replace("FROM t", f"FROM {name}")).df()["step"].tolist(), durations, f"{kind}: {text}")
        same(tessera.sql(f"SELECT max(step) AS far FROM {name}").df()["far"].tolist(), durations[-1:], f"{kind}: the greatest")
        same(array.mean("v", by="step").df()["step"].tolist(), durations, f"{kind}: a mean by the label")
        same((array["step"].max(), array["step"].sum()), (np.timedelta64(360000, "s"), np.timedelta64(sum(seconds), "s")), f"{kind}: methods")
        hour = pd.Timedelta("1h")
        for given, found in ((hour * 30, [3.0]), (np.timedelta64(100, "h"), [4.0]), (slice(hour * 6, hour * 30), [1.0, 2.0, 3.0]), (slice(hour * 24, None), [3.0, 4.0]), ([hour * 100, hour * 6], [4.0, 1.0]), (steps[[1, 3]], [1.0, 3.0]), (pd.Series(steps[[1, 3]]), [1.0, 3.0]), (pd.to_timedelta(steps[[3, 1]]), [3.0, 1.0]), (pa.array(steps[:2]), [0.0, 1.0]),
                             (pd.Timedelta("30h") + pd.Timedelta("1ms"), [])):
            same(array.sel(step=given).numpy("v").ravel().tolist(), found, f"{kind}: sel {given}")
        for method, given, found in (("nearest", hour * 24, 2), ("pad", hour * 29, 2), ("backfill", hour * 24, 3), ("nearest", hour * 1000, 4), ("nearest", pd.Timedelta("26.5h"), 2),
                                     ("nearest", pd.Timedelta("26.5h") + pd.Timedelta("1ms"), 3), ("pad", hour * 30 - pd.Timedelta("1ms"), 2), ("backfill", hour * 30 + pd.Timedelta("1ms"), 4)):
            same(array.sel(step=given, method=method).numpy("v").ravel().tolist(), [float(found)], f"{kind}: {method} {given}")
        fails(KeyError, "no label", lambda: array.sel(step=hour * 50, method="nearest", tolerance=hour))
        same(array.sel(step=hour * 31, method="nearest", tolerance=hour).numpy("v").ravel().tolist(), [3.0], f"{kind}: tolerance")
        assert "TIME_SEC DURATION" in db.execute("SELECT tessera_ddl(?)", (path,)).fetchone()[0], kind
    if xr:
        days = pd.date_range("2024-05-01", periods=3)
        tessera.create("labels-days", xr.Dataset({"v": (("day", "x"), np.arange(6.0).reshape(3, 2))}, coords={"day": days}))
        of = "FROM 'labels-days'" if "v" not in os.listdir("labels-days") else "FROM 'labels-days/v'"
        same(tessera.sql(f"SELECT day, avg(v) {of} GROUP BY day ORDER BY day").df()["day"].tolist(), list(days), "days as a key")
        same(tessera.sql(f"SELECT min(day) AS d {of}").df()["d"].tolist(), [days[0]], "the first day")
        np.testing.assert_array_equal(xr.open_dataset("labels-set", engine="tessera")["step"].values.astype("m8[s]"), steps)
    for words in ("TEXT DURATION", "INT64 DURATION", "DATE DURATION"):
        fails(sqlite3.OperationalError, "DURATION is for TIME_HR to TIME_AS", lambda: db.execute(f"CREATE VIRTUAL TABLE no USING tessera(n INT32 DIMENSION(0, 9, 5) LABEL l {words}, v INT)"))


def test_names_that_are_dropped():
    """An attribute that is dropped stays a duration in earlier states; another one of its name is what it was declared as."""
    db = connected()
    db.execute("CREATE VIRTUAL TABLE t USING tessera('dropped', k INT DIMENSION, a TIME_SEC DURATION, b INT)")
    db.execute("INSERT INTO t VALUES(1, 60, 1), (2, 90000, 1)")
    last = db.execute("SELECT last_write FROM tessera_array('dropped')").fetchone()[0]
    db.execute("SELECT tessera_drop_attribute('dropped', 'a')").fetchall()
    past = connected()
    past.execute(f"CREATE VIRTUAL TABLE p USING tessera('dropped', as_of={last})")
    same(past.execute("SELECT a FROM p ORDER BY k").fetchall(), [(60,), (90000,)])
    db.execute("SELECT tessera_add_attribute('dropped', 'a TIME_SEC')").fetchall()
    later = connected()
    later.execute("CREATE VIRTUAL TABLE t USING tessera('dropped')")
    later.execute("INSERT INTO t(k, a) VALUES(3, '01:00:00')")
    same(later.execute("SELECT a FROM t WHERE k = 3").fetchall(), [("01:00:00",)])


def test_beyond_64_bits():
    """Values that the unit of an array cannot have are refused, and means need no sum that fits."""
    array = tessera.create("fine", pd.DataFrame({"k": [1], "d": np.array([1], "m8[ns]")}), dimensions=["k"])
    for number in (2**62, 2**63 - 1, -2**62, 10**10):
        fails(tessera.Error, "column 'd'", lambda: tessera.create("fine", pa.table({"k": [2], "d": pa.array([number], pa.duration("s"))}), if_exists="append"))
    same(len(array), 1)
    days = np.array(["1700-01-01", "2024-01-01", "2200-01-01"] * 3, "M8[ns]")
    far = tessera.create("far", pd.DataFrame({"k": range(9), "t": days, "s": list("abc") * 3, "c": pd.Categorical(["1", "2", "3"] * 3)}), dimensions=["k"])
    same(np.datetime64(far["t"].mean()).astype("M8[D]"), np.datetime64(int(days.astype("M8[D]").astype("i8").sum()) // 9, "D"))
    for name in ("s", "c"):
        for act in (lambda: far[name].mean(), lambda: far[name].sum(), lambda: far.mean(name, by="k")):
            fails(TypeError, "has texts", act)


def test_several_values():
    """NaT is null in the JSON of a cell with several durations, so that json_each sums what is there."""
    db = connected()
    db.execute("CREATE VIRTUAL TABLE v USING tessera(k INT DIMENSION, d TIME_MIN[2] DURATION, t TIME_MIN[2])")
    db.execute("""INSERT INTO v VALUES(1, '[1500,null]', '["00:01",null]')""")
    same(db.execute("SELECT d, t, (SELECT sum(value) FROM json_each(d)) FROM v").fetchall(), [("[1500,null]", '["00:01",null]', 1500)])


run(globals(), "durations are durations")
