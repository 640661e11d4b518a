"""Tables and DataFrames become arrays and come back as they were: pyarrow, pandas, polars, DuckDB, as far as they are installed.

usage: dataframes.py EXTENSION
"""
import datetime
import json
import os
import sqlite3
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "python"))
import tessera
import tessera.columns
import tessera.dtypes
from package import fails, libraries, same
from package import library as installed

pa = libraries("pyarrow")

EXTENSION = os.path.abspath(sys.argv[1])


def database():
    db = sqlite3.connect(":memory:", check_same_thread=False)   # DuckDB opens streams on threads of its own
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)
    return db


def arrow(db):
    table = pa.table({"x": pa.array([1, 2, 3], pa.int16()), "u64": pa.array([1, None, 2**64 - 1], pa.uint64()), "f32": pa.array([1.5, None, -2], pa.float32()), "bool": [True, None, False],
                      "s": ["a", None, "a long string of more than twelve bytes"], "view": pa.array(["a", None, "a long string of more than twelve bytes"], pa.string_view()),
                      "large": pa.array(["é", "", None], pa.large_string()), "bytes": [b"1", None, b""], "date": pa.array([1, None, 3], pa.date32()), "time": pa.array([1, None, 3], pa.time64("us")),
                      "labels": pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int8()), ["zero", "one", "unused"]), "numbers": pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array([7, -9], pa.int32())),
                      "list": pa.array([[1, 2], None, []], pa.large_list(pa.int16())), "narrow": pa.array([[1.5], [], None], pa.list_(pa.float32())), "pair": pa.array([[1, 2], None, [5, 6]], pa.list_(pa.int64(), 2)), "flags": pa.array([[True], [False, True], None], pa.list_(pa.bool_()))}
                     | {f"ts_{unit}": pa.array([1, None, -3], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")}
                     | {f"{kind()}": pa.array([0, None, 7], kind()) for kind in (pa.int8, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.float64)})
    for name, given in (("all", table), ("slice", table.slice(1, 2)), ("batches", pa.concat_tables([table.slice(0, 1), table.slice(1)]))):
        back = pa.table(tessera.create(name, given, connection=db, dimensions=["x"]))
        for column in table.column_names:
            same(back[column].to_pylist(), given[column].to_pylist(), f"{name}, {column}")
        same(back["labels"].chunk(0).dictionary.to_pylist(), ["zero", "one", "unused"], name)
    tessera.create("all", pa.table({**{name: table[name] for name in table.column_names}, "x": pa.array([1, 2, 3], pa.int8())}), connection=db, if_exists="append")
    same(db.execute("SELECT count(*) FROM tessera_fragments('all')").fetchone(), (2,), "append")


def attrs(db):
    """What a DataFrame says of itself, and the fill values of Sparse columns, come back."""
    pd = installed("pandas")
    if not pd or not hasattr(pd.DataFrame, "__arrow_c_stream__"):
        return
    frame = pd.DataFrame({"k": [1, 2, 3]})
    frame.attrs = {"title": "x", "numbers": [1, 2.5], "deep": {"a": None}}
    same(tessera.create("attrs", frame, connection=db, grow=["row"]).to_pandas().attrs, frame.attrs, "attrs")
    same(tessera.create("attrs", frame.assign(k=4), connection=db, if_exists="append").to_pandas().attrs, frame.attrs, "attrs after an append")
    same(tessera.create("attrs", frame.iloc[:0], connection=db, if_exists="replace").to_pandas().attrs, frame.attrs, "attrs without rows")
    for value in (object(), {1, 2}, (1, 2), {1: 2}, float("nan"), datetime.date(2024, 1, 1)):
        frame.attrs = {"odd": value}
        fails(TypeError, "frame.attrs['odd'] is a", lambda: tessera.create("none", frame, connection=db))
    for values, fill in (([1, -1, -1], -1), ([1.5, 2.5, 2.5], 2.5), ([True, False, True], True), ([float("inf"), 1, 1], float("inf")), ([1e-300, 1, 1], 1e-300), ([1, 0, 0], 0)):
        given = pd.DataFrame({"s": pd.arrays.SparseArray(values, fill_value=fill)})
        back = tessera.create("fill", given, connection=db, if_exists="replace").to_pandas()["s"]
        same((str(back.dtype), back.tolist()), (str(given["s"].dtype), values), f"Sparse with {fill}")


def pandas(db):
    pd = installed("pandas")
    if not pd or not hasattr(pd.DataFrame, "__arrow_c_stream__"):
        return
    frame = pd.DataFrame({"v": [1.0, 2, 3, 4], "c": pd.Categorical(["a", "b", "a", None], ["b", "a", "z"], ordered=True), "t": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04"])},
                         index=pd.MultiIndex.from_tuples([(1, 1), (1, 2), (2, 1), (2, 2)], names=["y", "x"]))
    array = tessera.create("frame", frame, connection=db)
    same(array.dims, ("y", "x"), "the index")
    same(db.execute("SELECT kind FROM tessera_array('frame')").fetchone(), ("dense",), "the kind")
    back = pa.table(array).to_pandas().set_index(["y", "x"])
    same(back.v.tolist(), frame.v.tolist(), "v")
    same([None if c is None or c != c else c for c in back.c.tolist()], ["a", "b", "a", None], "categories")
    same(list(back.c.cat.categories), ["b", "a", "z"], "categories")
    same(back.t.isna().tolist(), [False, True, False, False], "NaT")
    part = tessera.create("part", frame.reset_index()[["v", "c"]][frame.reset_index().v != 2], connection=db)
    same((part.dims, part.attributes, pa.table(part)["index"].to_pylist()), (("index",), ("v", "c"), [0, 2, 3]), "an index without a name")
    same(pa.table(tessera.create("series", frame.v, connection=db))["v"].to_pylist(), [1, 2, 3, 4], "a Series")
    try:
        tessera.create("frame", frame, connection=db)
        raise AssertionError("an array was made twice")
    except tessera.Exists as e:
        assert isinstance(e, FileExistsError), e
    with open("key", "wb") as f:
        f.write(os.urandom(32))
    tessera.loading.loadable_path = lambda: EXTENSION
    same(pa.table(tessera.create("secret", frame, key_file=os.path.abspath("key")))["v"].to_pylist(), [1, 2, 3, 4], "encrypted")
    without = tessera.columns.of_frame(frame.reset_index())
    bare = pa.table(tessera.create("bare", without, connection=db, dimensions=["y", "x"]))
    for name in ("v", "c", "t"):
        same(bare[name].to_pylist(), pa.table(array)[name].to_pylist(), f"without pyarrow: {name}")


def indexes(db):
    """Each level of an index is kept, whether it has a name or not; a RangeIndex without a name only counts if it begins with 0."""
    pd = installed("pandas")
    if not pd:
        return
    days, pairs, value = pd.to_datetime(["2024-01-01", "2024-01-02"]), [("a", 1), ("b", 2)], pd.DataFrame({"v": [1, 2]})
    cases = {"texts": (["é", "b"], ("index",)), "days": (days, ("index",)), "reals": ([0.5, 1.5], ("index",)), "years": ([1990, 1991], ("index",)), "categories": (pd.CategoricalIndex(["x", "y"]), ("index",)), "range": (pd.RangeIndex(5, 7), ("index",)), "counted": (pd.RangeIndex(2), ("row",)),
             "named range": (pd.RangeIndex(5, 7, name="i"), ("i",)), "pairs": (pd.MultiIndex.from_tuples(pairs), ("level_0", "level_1")), "half named": (pd.MultiIndex.from_tuples(pairs, names=["s", None]), ("s", "level_1"))}
    for name, (index, dims) in cases.items():
        frame = value.set_axis(index, axis=0)
        a = tessera.create(f"index {name}", frame, connection=db)
        same((a.dims, a.attributes), (dims, ("v",)), name)
        table = pa.table(a).to_pydict()
        for level, dim in enumerate(dims if dims != ("row",) else ()):
            same({str(key)[:10]: v for key, v in zip(table[dim], table["v"])}, {str(key)[:10]: v for key, v in zip(frame.index.get_level_values(level), frame.v)}, (name, dim))
        again = tessera.create(f"index {name}", frame, connection=db, **({"if_exists": "append"} if dims != ("row",) else {"if_exists": "replace"}))
        same(pa.table(again).to_pydict(), table, f"{name}, again")
    frame = value.set_axis(["a", "b"], axis=0)
    same(pa.table(tessera.create("index series", frame.v, connection=db)).to_pydict(), {"index": ["a", "b"], "v": [1, 2]}, "a Series")
    same((tessera.create("index taken", frame.assign(index=[7, 8]), connection=db).dims), ("level_0",), "a column has the name")
    same(pa.table(tessera.create("index column", frame, connection=db, dimensions=["v"])).to_pydict(), {"v": [1, 2], "index": ["a", "b"]}, "beside other dimensions")
    same(tessera.create("index numbered", frame, connection=db, grow=["row"]).attributes, ("index", "v"), "numbered rows")
    same(tessera.create("index left", frame, connection=db, columns=["v"]).attributes, ("v",), "columns leave it out")
    tessera.create("index none", value, connection=db, grow=["row"])
    fails(Exception, "the array lacks the column 'index'", lambda: tessera.create("index none", frame, connection=db, if_exists="append"))


def tables(db):
    """What pandas says of a DataFrame in a table of Arrow, or in a Parquet file, comes back as from the DataFrame itself: index, dtypes, zones, attrs."""
    pd = installed("pandas")
    if not pd or not hasattr(pd.DataFrame, "__arrow_c_stream__"):
        return
    frame = pd.DataFrame({"i": pd.array([1, None, 3], "Int32"), "s": pd.array(["a", None, "b"], "string"), "h": pd.array([1, 2, 3], "float16"), "z": pd.date_range("2020-01-01 01:00", periods=3, tz="Europe/Berlin"),
                          "c": pd.Categorical(["x", "y", None]), "b": pd.array([True, None, False], "boolean"), "w": pd.array([1, 2, None], "int64[pyarrow]")})
    frame.attrs = {"title": "x"}
    zoned = pd.date_range("2020-01-01 05:00", periods=3, tz="Asia/Tokyo", name="at")
    for name, index in (("counted", pd.RangeIndex(3)), ("range", pd.RangeIndex(5, 11, 2)), ("named range", pd.RangeIndex(3, name="n")), ("names", pd.Index(["p", "q", "r"], name="k")), ("no name", pd.Index(["p", "q", "r"])), ("zone", zoned),
                        ("levels", pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["g", None])), ("nullable", pd.Index(pd.array([1, 2, 3], "Int16"), name="k")), ("category", pd.CategoricalIndex(["p", "q", "r"], ["r", "z", "q", "p"], ordered=True, name="k"))):
        given = frame.set_axis(index, axis=0)
        given.attrs = frame.attrs
        wanted = tessera.create(f"frame {name}", given, connection=db)
        expected = wanted.to_pandas()
        table = pa.Table.from_pandas(given)
        given.to_parquet("described.parquet")
        sources = {"table": table, "batch": table.to_batches()[0], "file": "described.parquet", "array": wanted}
        for source, what in sources.items():
            made = tessera.create(f"{source} {name}", what, connection=db)
            back = made.to_pandas()
            if source != "array":   # whose coordinates are columns
                same((made.dims, made.attributes), (wanted.dims, wanted.attributes), (name, source))
            columns = [column for column in expected.columns if not (name == "category" and source == "file" and column == "k" or source == "array" and column == "row")]   # a file tells how many categories there are
            pd.testing.assert_frame_equal(back[columns].sort_values(columns[0], ignore_index=True) if source == "array" else back[columns], expected[columns].sort_values(columns[0], ignore_index=True) if source == "array" else expected[columns], check_exact=True)
            same(back.attrs, frame.attrs, (name, source))
            same(made.arrow().schema.field("z").type, pa.timestamp("us", "Europe/Berlin"), (name, source))
    for name, given in (("table", pa.table({"z": frame["z"].tolist(), "v": [1, 2, 3]})), ("polars", (installed("polars") or pd).DataFrame({"z": frame["z"], "v": [1, 2, 3]}))):
        a = tessera.create(f"zone of {name}", given, connection=db, grow=["row"])
        same(str(a.to_pandas()["z"].dtype), "datetime64[us, Europe/Berlin]", name)
        fails(TypeError, "has the time zone Europe/Berlin, and the instants to append have none", lambda: tessera.create(f"zone of {name}", pa.table({"z": [datetime.datetime(2020, 1, 1)], "v": [4]}), connection=db, if_exists="append"))
        if name == "polars" and installed("polars"):
            pl = installed("polars")
            same((a.pl()["z"].to_list(), a.pl().schema["z"]), (given["z"].to_list(), given.schema["z"]), "polars")
            late = a.scan_polars().filter(pl.col("z") >= given["z"][1])
            same((late.collect()["z"].to_list(), late.collect_schema()["z"]), (given["z"].to_list()[1:], given.schema["z"]), "a scan")


def objects(db):
    """Instants with a zone in a column of objects keep it; several zones are UTC. A dimension keeps its categories as long as its values are some of them."""
    pd = installed("pandas")
    if not pd or not hasattr(pd.DataFrame, "__arrow_c_stream__"):
        return
    berlin, tokyo = (pd.Timestamp("2020-01-01", tz=zone) for zone in ("Europe/Berlin", "Asia/Tokyo"))
    frame = pd.DataFrame({"one": pd.Series([berlin, berlin], dtype=object), "two": pd.Series([berlin, tokyo], dtype=object), "gap": pd.Series([None, tokyo], dtype=object)})
    back = tessera.create("objects", frame, connection=db).to_pandas()
    same([str(back[name].dtype) for name in frame], ["datetime64[us, Europe/Berlin]", "datetime64[us, UTC]", "datetime64[us, Asia/Tokyo]"])
    same([[None if v is pd.NaT else v for v in back[name]] for name in frame], [[None if v is None else v for v in frame[name]] for name in frame])
    letters = pd.CategoricalIndex(["p", "q"], ["z", "q", "p"], ordered=True, name="k")
    a = tessera.create("letters", pd.DataFrame({"v": [1, 2]}, index=letters), connection=db)
    pd.testing.assert_index_equal(a.to_pandas().set_index("k").index, letters)
    a = tessera.create("letters", pd.DataFrame({"v": [3]}, index=pd.Index(["new"], name="k")), connection=db, if_exists="append")
    same((str(a.to_pandas()["k"].dtype), sorted(a.to_pandas()["k"])), ("str", ["new", "p", "q"]), "another value")
    twice = pd.DataFrame({"k": [1]}, index=pd.Index([5], name="k"))
    for act in (lambda: tessera.create("twice", twice, connection=db), lambda: tessera.sql("SELECT * FROM twice", connection=db, twice=twice)):
        fails(ValueError, "the index is called 'k', and a column is, too: frame.rename_axis", act)
    for index, columns in ((pd.RangeIndex(2), ["v"]), (pd.RangeIndex(3, 5), ["index", "v"]), (pd.Index([7, 9]), ["index", "v"]), (pd.Index([7, 9], name="n"), ["n", "v"])):
        same(tessera.sql("SELECT * FROM indexed", connection=db, indexed=pd.DataFrame({"v": [1, 2]}, index=index)).columns, columns, repr(index))


def kinds(db):
    """Numbers are appended to numbers, instants to instants, durations to durations; a column without values is of all kinds."""
    pd = installed("pandas")
    if not pd or not hasattr(pd.DataFrame, "__arrow_c_stream__"):
        return
    values = {"durations": pd.to_timedelta([90], unit="s"), "instants": pd.to_datetime(["2020-01-01 05:00"]), "numbers": [5], "times of day": [datetime.time(5)]}
    for name, there in values.items():
        for other, given in values.items():
            path = f"kind {name}"
            tessera.create(path, pd.DataFrame({"k": [1], "v": there}), connection=db, dimensions=["k"], domains={"k": [0, 9]}, kind="sparse", if_exists="replace")
            append = lambda given=given: tessera.create(path, pd.DataFrame({"k": [2], "v": given}), connection=db, if_exists="append")
            if name == other or {name, other} == {"durations", "times of day"}:
                same(len(append()), 2, (name, other))
            else:
                fails(tessera.Mismatch, other, append)
                same(len(tessera.open(path, connection=db)), 1, (name, other))
        same(len(tessera.create(path, pd.DataFrame({"k": [3], "v": [None]}), connection=db, if_exists="append").where("v", "is", None)), 1, name)
        same(len(tessera.create(path, pd.DataFrame({"k": [4], "v": [float("nan")]}), connection=db, if_exists="append").where("v", "is", None)), 2, name)


def days(db):
    """Midnights alone are days, since pandas has no type for them; `types` says otherwise."""
    pd = installed("pandas")
    if not pd:
        return
    whole, noon = pd.to_datetime(["2024-06-01", None, "2024-06-02"]), pd.to_datetime(["2024-06-01 00:00", None, "2024-06-02 12:00"])
    for unit, fine in (("s", "DATETIME_SEC"), ("ms", "DATETIME_MS"), ("us", "DATETIME_US"), ("ns", "DATETIME_NS")):
        frame = pd.DataFrame({"id": [1, 2, 3], "day": whole.astype(f"datetime64[{unit}]"), "noon": noon.astype(f"datetime64[{unit}]"), "none": pd.to_datetime([None] * 3).astype(f"datetime64[{unit}]"),
                              "zone": whole.astype(f"datetime64[{unit}]").tz_localize("UTC"), "said": whole.astype(f"datetime64[{unit}]")})
        for name, data in (("arrow", frame), ("lists", {c: frame[c] for c in frame})):
            a = tessera.create(f"days {unit} {name}", data, connection=db, dimensions=["id"], types={"said": fine})
            kinds = dict(db.execute("SELECT name, datatype FROM tessera_schema(?) WHERE role = 'attribute'", (a.path,)))
            same(kinds, {"day": "DATETIME_DAY", "noon": fine, "none": fine, "zone": fine, "said": fine}, (unit, name))
            same(pa.table(a)["day"].to_pylist(), [datetime.date(2024, 6, 1), None, datetime.date(2024, 6, 2)], (unit, name))
        tessera.create(f"days {unit} arrow", frame, connection=db, if_exists="append")
    a = tessera.create("days index", pd.Series([1.0, 2.0], index=whole[[0, 2]], name="v"), connection=db, dimensions=["index"])
    same(a.bounds, {"index": ("2024-06-01", "2024-06-02")}, "an index")
    tessera.create("instants", pd.DataFrame({"id": [1], "t": noon[2:]}), connection=db, dimensions=["id"], kind="sparse")
    tessera.create("instants", pd.DataFrame({"id": [2], "t": whole[2:]}), connection=db, if_exists="append")
    same(db.execute("SELECT count(*) FROM tessera_fragments('instants')").fetchone(), (2,), "days beside instants")
    exact = pa.table({"id": [1], "t": pa.array([0], pa.timestamp("us"))})
    same(pa.table(tessera.create("exact", exact, connection=db, dimensions=["id"])).schema.field("t").type, pa.timestamp("us"), "other tables have types for days")


def finer(db):
    """Instants that lie between two values of a column are refused in words that name it, its unit, and how to make it; the array made so takes them."""
    pd = installed("pandas")
    if not pd:
        return
    day, noon = (pd.DataFrame({"id": [number], "t": pd.to_datetime([text]).astype("M8[us]")}) for number, text in ((1, "2024-06-01 00:00"), (2, "2024-06-02 12:00")))
    for path in ("finer", "db:finer"):
        for options in ({"dimensions": ["id"], "kind": "sparse"}, {"dimensions": ["t"], "kind": "sparse"}):
            tessera.create(path, day, connection=db, if_exists="replace", **options)
            fails(tessera.Range, "column 't': 2024-06-02 12:00:00.000000 is finer than DATETIME_DAY, which the column is: make the array with \"types\":{\"t\":\"DATETIME_US\"}",
                  lambda: tessera.create(path, noon, connection=db, if_exists="append"))
            same(len(tessera.open(path, connection=db)), 1, "nothing was added")
            again = tessera.create(path, tessera.open(path, connection=db).to_pandas(), connection=db, if_exists="replace", types={"t": "DATETIME_US"}, **options)   # as the manual says
            pd.testing.assert_frame_equal(again.to_pandas()[["id", "t"]], day)
            tessera.create(path, noon, connection=db, if_exists="append")
            pd.testing.assert_frame_equal(tessera.open(path, connection=db).to_pandas()[["id", "t"]].sort_values("t", ignore_index=True), pd.concat([day, noon], ignore_index=True))


def dtypes(db):
    """What only pandas tells apart comes back: dtypes are noted with the first rows, as of the last write, too. A note that does not fit changes nothing."""
    pd, numpy = installed("pandas"), installed("numpy")
    if not pd or not hasattr(pd.DataFrame, "from_arrow"):   # before pandas 3, texts were objects
        return
    zoned = pd.to_datetime(["2024-01-01 01:00", None, "2024-07-02 00:00"]).tz_localize("Europe/Zurich")
    arrow = {"i": pa.int16(), "f": pa.float64(), "b": pa.bool_(), "s": pa.string(), "l": pa.large_string(), "t": pa.timestamp("us"), "z": pa.timestamp("us", "Europe/Zurich"), "d": pa.date32(), "n": pa.binary(),
             "w": pa.duration("ms"), "o": pa.time64("us"), "p": pa.time32("s")}
    values = {"i": [1, None, 2], "f": [1.5, None, 2], "b": [True, None, False], "s": ["a", None, "b"], "l": ["a", None, "b"], "t": [zoned[0].tz_localize(None), None, zoned[2].tz_localize(None)], "z": [zoned[0], None, zoned[2]],
              "d": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 2)], "n": [b"a", None, b""], "w": [datetime.timedelta(1), None, datetime.timedelta(0)], "o": [datetime.time(1), None, datetime.time(2, 3, 4, 5)], "p": [datetime.time(1), None, datetime.time(2)]}
    frame = pd.DataFrame({"k": numpy.arange(3), **{kind: pd.array([0, None, 1], kind) for kind in sorted(tessera.dtypes.NULLABLE)}, "python": pd.array(["a", None, "b"], pd.StringDtype("python")), "pyarrow": pd.array(["a", None, "b"], pd.StringDtype("pyarrow")), "plain": ["a", None, "b"],
                          **{f"arrow {kind}": pd.Series(values[kind], dtype=pd.ArrowDtype(arrow[kind])) for kind in arrow},
                          "half": numpy.array([1, numpy.nan, 2], "f2"), "sparse": pd.arrays.SparseArray([0, 0, 1]), "gaps": pd.arrays.SparseArray([numpy.nan, 1.5, 0]), "zone": zoned, "utc": zoned.tz_convert("UTC"), "offset": pd.to_datetime(["2024-01-01 01:00+02:00"] * 3),
                          **{f"days {unit}": pd.to_datetime(["2024-06-01", None, "2024-06-02"]).astype(f"M8[{unit}]") for unit in ("s", "ms", "us", "ns")},
                          "zones": pd.Categorical(zoned, ordered=True), "numbers": pd.Categorical(pd.array([1, None, 2], "Int64")), "texts": pd.Categorical(["b", None, "a"], ["b", "a", "c"]), "instants": pd.Categorical(zoned.tz_localize(None))})
    for path in ("dtypes", "db:dtypes"):
        made = tessera.create(path, frame, connection=db, metadata={"mine": 1})
        db.commit()
        last, = db.execute("SELECT last_write FROM tessera_array(?)", (path,)).fetchone()
        opened = tessera.open(path, connection=db)
        for array in (made, opened, tessera.open(path, connection=db, as_of=last), opened.order("row")):
            pd.testing.assert_frame_equal(array.to_pandas().drop(columns="row"), frame)
        same(tessera.open(path, connection=db, as_of=last).metadata["mine"], 1, "metadata are there as of the last write")
        pd.testing.assert_frame_equal(opened.select("zone", "Int8").to_pandas(), frame[["zone", "Int8"]])
    beside = frame.drop(columns=["arrow o", "arrow p"]).assign(wide=pd.Series([2**63, 1, 0], dtype=object))   # which pyarrow does not take
    pd.testing.assert_frame_equal(tessera.create("dtypes beside", beside, connection=db).to_pandas().drop(columns=["row", "wide"]), beside.drop(columns="wide"))
    index = frame.set_index(["zone"])[["Int8"]].iloc[[0, 2]]
    pd.testing.assert_frame_equal(tessera.create("dtypes index", index, connection=db).to_pandas().set_index("zone"), index)
    plain = pd.DataFrame({"k": [1, 2], "v": ["1", "2"], "w": [1.5, 2.5], "t": pd.to_datetime(["2024-01-01 01:00"] * 2)})
    made = tessera.create("dtypes changed", plain, connection=db, dimensions=["k"])
    same(made.metadata, {}, "nothing is noted that the array has")
    for note in ("Int64", "int64[pyarrow]", "float16", "datetime64[ns]", "Sparse[int64, 0]", "datetime64[ns, Nowhere/None]", "datetime64[ns, dateutil//etc/passwd]", "category[Int64]", "V9999999999", "nonsense", "[pyarrow]", "list<x>[pyarrow]", ""):
        db.execute("SELECT tessera_set_metadata('dtypes changed', '__tessera_pandas_dtypes', ?)", (json.dumps({name: note for name in plain}),))
        back = tessera.open("dtypes changed", connection=db).to_pandas()
        pd.testing.assert_frame_equal(back, plain, check_dtype=False)
        assert back["v"].tolist() == ["1", "2"] and back["t"].tolist() == plain["t"].tolist(), (note, back)
    db.commit()


def appends(db):
    """Appended rows make the current domain of an array with `grow` larger; without dimensions they are numbered on."""
    for path in ("more", "db:more"):
        tessera.create(path, pa.table({"day": [1, 2], "v": [1.5, 2.5]}), connection=db, dimensions=["day"], grow=["day"])
        again = tessera.create(path, pa.table({"v": [3.5, 4.5], "day": [4, 3]}), connection=db, if_exists="append")
        same(pa.table(again).to_pydict(), {"day": [1, 2, 3, 4], "v": [1.5, 2.5, 4.5, 3.5]}, path)
    for path in ("log", "db:log"):
        tessera.create(path, pa.table({"v": ["a", "b"]}), connection=db, grow=["row"])
        pd = installed("pandas")
        for k in range(2):
            again = tessera.create(path, pd.DataFrame({"v": ["c", "d"]}) if pd else pa.table({"v": ["c", "d"]}), connection=db, if_exists="append")
        same(pa.table(again).to_pydict(), {"row": [0, 1, 2, 3, 4, 5], "v": ["a", "b", "c", "d", "c", "d"]}, path)
    tessera.create("fixed", pa.table({"v": [1]}), connection=db)
    fails(Exception, 'made with "grow":["row"]', lambda: tessera.create("fixed", pa.table({"v": [2]}), connection=db, if_exists="append"))
    np = installed("numpy")
    if np:
        db.execute("SELECT tessera_create_as('blocks', 'SELECT 5 AS y, 1 AS x, 0 AS v UNION ALL SELECT 5, 2, 1', '{\"dimensions\":[\"y\",\"x\"],\"grow\":[\"y\"]}')")
        again = tessera.create("blocks", {"v": np.array([[7, 8], [9, 10]])}, connection=db, if_exists="append", origin={"y": 6})
        same(pa.table(again)["v"].to_pylist(), [0, 1, 7, 8, 9, 10], "blocks")


def far(db):
    """Days past the year 9999, which Python's dates do not reach."""
    pd, numpy = installed("pandas"), installed("numpy")
    if not pd or not hasattr(pd.DataFrame, "from_arrow"):
        return
    frame = pd.DataFrame({"v": numpy.array(["9999-12-31", "0001-01-01", "12000-01-01", "NaT"], "M8[s]")})
    pd.testing.assert_frame_equal(tessera.create("far", frame, connection=db).to_pandas()[["v"]], frame)


def zones(db):
    """Instants without a time zone do not become some of a column with one, which would take them for UTC."""
    pd = installed("pandas")
    if not pd or not hasattr(pd.DataFrame, "from_arrow"):
        return
    instants = pd.Series(pd.to_datetime(["2024-01-01 01:00"]))
    for path, kind in (("zoned", "datetime64[us, Europe/Zurich]"), ("zoned-arrow", pd.ArrowDtype(pa.timestamp("us", "Europe/Zurich")))):
        def rows(k, at):
            return pd.DataFrame({"k": [k], "at": at})
        tessera.create(path, rows(1, instants.dt.tz_localize("Europe/Zurich").astype(kind)), connection=db, dimensions=["k"], kind="sparse")
        for naive in (instants, instants.astype(pd.ArrowDtype(pa.timestamp("us")))):
            fails(TypeError, "column 'at' has the time zone Europe/Zurich", lambda: tessera.create(path, rows(2, naive), connection=db, if_exists="append"))
        tessera.create(path, rows(2, instants.dt.tz_localize("UTC")), connection=db, if_exists="append")
        same([str(at) for at in tessera.open(path, connection=db).to_pandas()["at"]], ["2024-01-01 01:00:00+01:00", "2024-01-01 02:00:00+01:00"], path)


def durations(db):
    """A timedelta64 comes back as it was, by the option datetimes or because the consumer asks for durations; as times of day only within a day."""
    days = {unit: pa.array([1, None, -3, 5 * 86400 * 1000**power], pa.duration(unit)) for power, unit in enumerate(("s", "ms", "us", "ns"))}
    given = pa.table({"k": pa.array([0, 1, 2, 3]), **days, "t": pa.array([0, 1, None, 86399], pa.time32("s"))})
    array = tessera.create("durations", given, connection=db, dimensions=["k"], kind="sparse")
    back = pa.table(tessera.open("durations", connection=db, datetimes="duration"))
    for name in days:
        same((back[name].type, back[name].to_pylist()), (given[name].type, given[name].to_pylist()), name)
    same(back["t"].to_pylist()[1:3], [datetime.timedelta(seconds=1), None], "a time of day as a duration")
    same(pa.table(array.select("k", *days)).to_pydict(), given.select(["k", *days]).to_pydict(), "durations without the option")
    db.execute("CREATE VIRTUAL TABLE undeclared USING tessera(k INT32 DIMENSION, t TIME_SEC)")
    db.execute("INSERT INTO undeclared VALUES(1, 90000)")
    db.commit()
    fails(Exception, "is not a time of day: take durations (datetimes: duration)", lambda: pa.table(tessera.open("db:undeclared", connection=db)))
    same(pa.table(array.select("k", "t"))["t"].to_pylist()[3], datetime.time(23, 59, 59), "a time of day")
    asked = pa.schema([("k", pa.int64()), ("us", pa.duration("us"))])
    same(pa.RecordBatchReader.from_stream(array.select("k", "us"), schema=asked).read_all()["us"].to_pylist(), given["us"].to_pylist(), "durations that are asked for")
    pd = installed("pandas")
    if pd:
        frame = pd.DataFrame({"k": [1, 2, 3], "d": pd.to_timedelta(["36h", None, "-1s"])})
        tessera.create("timedeltas", frame, connection=db, dimensions=["k"])
        opened = tessera.open("timedeltas", connection=db)
        for back in (opened.to_pandas(), opened.sel(k=[1, 2, 3]).to_pandas(), tessera.sql("SELECT * FROM 'timedeltas'", connection=db).df()):
            pd.testing.assert_frame_equal(back, frame)
        if hasattr(pd.DataFrame, "from_arrow"):
            pd.testing.assert_frame_equal(pd.DataFrame.from_arrow(tessera.open("timedeltas", connection=db, datetimes="duration")), frame)
        same(tessera.open("timedeltas", connection=db, datetimes="integer").to_pandas()["d"].tolist()[0], pd.Timedelta("36h") / pd.Timedelta(1, frame["d"].dt.unit), "as integers")


def polars(db):
    pl = installed("polars")
    if not pl:
        return
    frame = pl.DataFrame({"k": ["b", "a", "c"], "v": [1, None, 3], "e": pl.Series(["x", "y", "x"], dtype=pl.Enum(["y", "x", "unused"]))})
    array = tessera.create("polars", frame, connection=db, dimensions=["k"])
    same(pl.DataFrame(array).sort("k").select(pl.col("k"), pl.col("v"), pl.col("e").cast(pl.String)).rows(), [("a", None, "y"), ("b", 1, "x"), ("c", 3, "x")], "polars")
    lazy = array.scan_polars()
    same(lazy.filter(pl.col("v") > 1).select("k").collect().rows(), [("c",)], "scan_polars")
    same(lazy.filter((pl.col("k") >= "b") & pl.col("v").is_null().not_()).select(pl.len()).collect().item(), 2, "scan_polars")
    same((lazy.head(2).collect().height, lazy.filter(pl.col("k") > "z").collect().shape), (2, (0, 3)), "scan_polars")


def duckdb(db):
    engine = installed("duckdb")
    if not engine:
        return
    relation = engine.sql("SELECT i AS i, i * 0.5::DOUBLE AS v, 'n' || i AS n FROM range(100000) t(i)")
    made = tessera.create("duck", relation, connection=db, dimensions=["i"])
    same(engine.sql("SELECT count(*), sum(v), max(n) FROM made").fetchall(), [(100000, 2499975000.0, "n99999")], "duckdb")


def lazy(db):
    """A consumer that stops early has read little; two scans of one Array agree though somebody commits between them."""
    engine = installed("duckdb")
    n = 400000
    tessera.create("lazy", {"i": range(n), "v": range(n)}, connection=db, dimensions=["i"], extents={"i": 10000})
    opened = tessera.open("lazy", connection=db, batch_rows=10000)

    def tiles():
        return db.execute("SELECT value FROM tessera_stats WHERE name = 'tiles_read'").fetchone()[0]

    reader, before = pa.RecordBatchReader.from_stream(opened), tiles()
    same(reader.read_next_batch().num_rows, 10000, "a batch")
    assert tiles() - before < 20, "a batch is not the array"
    del reader
    if engine:
        before = tiles()
        same(engine.sql("SELECT v FROM opened WHERE v >= 0 LIMIT 3").fetchall().__len__(), 3, "duckdb's LIMIT")
        assert tiles() - before < 40, "duckdb's LIMIT"
    first = pa.table(opened)
    tessera.create("lazy", {"i": [0], "v": [-5]}, connection=db, if_exists="append")
    same((pa.table(opened).equals(first), pa.table(tessera.open("lazy", connection=db))["v"].to_pylist()[0]), (True, -5), "two scans")


def damaged(db):
    """The message of a damaged tile comes whole through each consumer."""
    made = tessera.create("damaged", {"i": range(50000), "v": range(50000)}, connection=db, dimensions=["i"])
    fragment, = os.listdir("damaged/__fragments")
    os.truncate(f"damaged/__fragments/{fragment}/a0.tdb", 10)
    pd, pl = installed("pandas"), installed("polars")
    engine = installed("duckdb") if "asan" not in os.environ.get("LD_PRELOAD", "") else None   # its exceptions end a process with that library
    consumers = [lambda: pa.table(made)]
    consumers += [lambda: pd.DataFrame.from_arrow(made)] if pd and hasattr(pd.DataFrame, "from_arrow") else []
    consumers += [lambda: pl.DataFrame(made)] if pl else []
    consumers += [lambda: engine.from_arrow(made).fetchall()] if engine else []
    for consumer in consumers:
        try:
            consumer()
        except Exception as e:
            assert "a0.tdb" in str(e), e
        else:
            raise AssertionError("a damaged array was read")


def refused(db):
    for table, part in ((pa.table({"a": [[1]]}), "cannot be a dimension"), (pa.table({"a": [["x"]]}), "cast it first"), (pa.table({"a": pa.nulls(2)}), "NULL in a dimension"), (pa.table({"a": [{"b": 1}]}), "cast it first"), (pa.table({"a": [1, None]}), "NULL in a dimension")):
        try:
            tessera.create("refused", table, connection=db, dimensions=["a"])
        except sqlite3.Error as e:
            assert part in str(e), e
        else:
            raise AssertionError(table.schema)
    assert not os.path.exists("refused")


def nulls(db):
    """A column without a value has the type that `types` says, or that of the array to which it comes."""
    made = tessera.create("nulls", pa.table({"k": [1, 2], "v": pa.nulls(2), "s": ["a", None]}), dimensions=["k"], domains={"k": [1, 9]}, types={"v": "INT16"})
    same((pa.table(made)["v"].type, pa.table(made)["v"].to_pylist()), (pa.int16(), [None, None]))
    tessera.create("nulls", pa.table({"k": [3, 4], "v": [5, 6], "s": pa.nulls(2)}), if_exists="append")
    tessera.create("nulls", pa.table({"k": [5], "v": pa.nulls(1), "s": pa.nulls(1)}), if_exists="append")
    same([(r["k"], r["v"], r["s"]) for r in pa.table(tessera.open("nulls").order("k")).to_pylist()], [(1, None, "a"), (2, None, None), (3, 5, None), (4, 6, None), (5, None, None)])
    fails(tessera.Error, "list '+l' of 'u': cast it first", lambda: tessera.create("refused", pa.table({"a": [["x"]]})))
    db.execute("CREATE TEMP TABLE gaps(k INTEGER, v)")
    db.execute("INSERT INTO gaps VALUES(1, NULL)")
    same(pa.table(tessera.create("gaps", tessera.rows(db, "SELECT k, v FROM gaps"), types={"v": "FLOAT32"})).to_pylist(), [{"row": 0, "k": 1, "v": None}])


def conditions(db):
    """Values of conditions and of ranges may be infinite, durations, or instants with a time zone."""
    table = pa.table({"k": pa.array([1, 2, 3, 4]), "f": [1.5, float("inf"), float("-inf"), None], "t": pa.array([3600 * 10**6, 7200 * 10**6, 0, 1], pa.time64("us")),
                      "u": pa.array([1, 2**64 - 1, 2**63, 5], pa.uint64())})
    made = tessera.create("conditions", table, dimensions=["k"])

    def found(*condition):
        return pa.table(made.where(*condition)).column("k").to_pylist()
    same([found("f", "=", float("inf")), found("f", "<=", float("-inf")), found("f", "in", (1.5, float("inf")))], [[2], [3], [1, 2]], "infinity")
    fails(ValueError, "a comparison with NaN finds nothing", lambda: found("f", "=", float("nan")))
    pd, np = installed("pandas"), installed("numpy")
    for missing in ([pd.NA, pd.NaT] if pd else []) + ([np.datetime64("NaT"), np.ma.masked] if np else []):
        same((found("f", "is", missing), found("f", "is not", missing)), ([4], [1, 2, 3]), "a missing value is NULL")
        fails(tessera.Error, "NULL goes with", lambda: found("f", "=", missing))
        fails(ValueError, "cannot be compared", lambda: found("f", "in", [1.5, missing]))
        fails(ValueError, "is not a coordinate", lambda: made.sel(k=missing))
        fails(ValueError, "is not a coordinate", lambda: made.sel(k=(missing, 3)))
        fails(ValueError, "no coordinate is nearest to", lambda: made.nearest(k=missing))
    same(found("t", ">", datetime.timedelta(minutes=90)), [2], "a duration")
    same(found("t", "<", datetime.timedelta(microseconds=3)), [3, 4], "a short one")
    fails(ValueError, "not a time of day", lambda: found("t", ">", datetime.timedelta(days=1)))
    dated = tessera.create("dated", pa.table({"day": pa.array([0, 3600, 7200], pa.timestamp("s")), "v": [1, 2, 3]}), dimensions=["day"])
    zoned = datetime.datetime(1970, 1, 1, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    same(pa.table(dated.sel(day=(zoned, None))).column("v").to_pylist(), [2, 3], "an instant of a time zone")
    polars = installed("polars")
    if polars and hasattr(made, "scan_polars"):
        wide = tessera.create("wide", table.select(["u", "f"]), dimensions=["u"], kind="sparse")
        same(wide.scan_polars().filter(polars.col("u") < 6).collect()["u"].to_list(), [1, 5], "a dimension with values past 2^63")


def changes(db):
    """What changed between two times, between two tokens and within a transaction, as streams."""
    db.execute("CREATE VIRTUAL TABLE weather USING tessera(day INT32 DIMENSION(1, 366, 30), temp FLOAT64, sky TEXT ENUM('clear', 'rain'), n INT32)")
    db.execute("INSERT INTO weather VALUES(1, 1.5, 'clear', 1), (2, 2.5, 'rain', 1), (3, 3.5, NULL, 1)")
    db.commit()
    first, token = db.execute("SELECT last_write, tessera_token('db:weather') FROM tessera_array('db:weather')").fetchone()
    time.sleep(0.003)
    db.execute("UPDATE weather SET temp = 9 WHERE day = 1")
    db.execute("UPDATE weather SET n = 2 WHERE day = 3")
    db.execute("DELETE FROM weather WHERE day = 2")
    db.commit()
    names = ["change", "day", "old_temp", "new_temp", "old_sky", "new_sky", "old_n", "new_n", "changed_at"]
    table = pa.table(tessera.changes(db, "weather", first)).sort_by("day")
    same(table.column_names, names, "the columns")
    same(table.select(names[:6]).to_pylist(), [dict(zip(names, row)) for row in (("update", 1, 1.5, 9, "clear", "clear"), ("delete", 2, 2.5, None, "rain", None), ("update", 3, 3.5, 3.5, None, None))], "net")
    same(pa.table(tessera.changes(db, "db:weather", first, columns=["temp"], where="day < 3 AND change = 'update'"))["new_temp"].to_pylist(), [9], "columns and where")
    same(pa.table(tessera.changes(db, "main.weather", datetime.datetime.fromtimestamp(first / 1000 - 1, datetime.timezone.utc), first))["change"].to_pylist(), ["insert"] * 3, "a datetime")
    same(pa.table(tessera.changes(db, "weather", first - 1, None, "every")).num_rows, 6, "every")
    changed, every = tessera.changes(db, "weather", first), tessera.rows(db, "SELECT day FROM weather")
    same((list(changed.df().columns), sorted(changed.pl()["day"].to_list()), changed.arrow().num_rows, len(every.df())), (names, [1, 2, 3], 3, 2), "as results of sql()")
    feed = pa.table(tessera.changes(db, "weather", token)).sort_by("day")
    same((feed["change"].to_pylist(), feed["new_temp"].to_pylist()), (["write", "delete", "write"], [9, None, 3.5]), "a feed")
    db.execute("UPDATE weather SET temp = 0 WHERE day = 1")
    own = tessera.changes(db, "weather", "committed")
    same(pa.table(own).select(["old_temp", "new_temp", "changed_at"]).to_pylist(), [{"old_temp": 9, "new_temp": 0, "changed_at": None}], "the transaction's own")
    db.rollback()
    fails(pa.ArrowInvalid, "before is missing", lambda: pa.table(tessera.changes(db, "weather", None)))
    fails(tessera.Error, "is not a table of tessera", lambda: tessera.changes(db, "nowhere", 1))
    fails(ValueError, "names no table", lambda: tessera.changes(db, "a b", 1))
    pd = installed("pandas")
    if pd and hasattr(pd.DataFrame, "from_arrow"):
        frame = pd.DataFrame.from_arrow(tessera.changes(db, "weather", first)).set_index("day").sort_index()
        same((frame["new_temp"] - frame["old_temp"]).dropna().to_dict(), {1: 7.5, 3: 0}, "pandas")
    polars = installed("polars")
    if polars:
        same(polars.DataFrame(tessera.changes(db, "weather", first)).filter(polars.col("change") == "delete")["day"].to_list(), [2], "polars")


def databases(db):
    """An array in a database needs the connection; without it nothing would be kept."""
    table = pa.table({"k": [1], "v": [2]})
    with open("some.csv", "w", encoding="utf-8") as f:
        f.write("k\n1\n")
    for call in (lambda: tessera.create("db:t", table), lambda: tessera.create_csv("db:t", "some.csv"), lambda: tessera.open("db:t"), lambda: tessera.create("db:t", {"k": [1]})):
        fails(ValueError, "is in a database: pass connection=", call)
    numpy, pd = installed("numpy"), installed("pandas")
    if numpy:
        fails(ValueError, "pass connection=", lambda: tessera.create("db:t", numpy.zeros((2, 2))))
    if pd:
        fails(TypeError, "column 'm' has periods", lambda: tessera.create("periods", pd.DataFrame({"m": pd.period_range("2024-05", periods=2, freq="M")})))


def odd(db):
    """What newcomers bring: nothing of it is lost, rounded or renamed in silence."""
    numpy, pd = installed("numpy"), installed("pandas")
    if not numpy or not pd:
        return
    big, day, noon = 2**60 + 1, datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 12)
    aware = noon.replace(tzinfo=datetime.timezone.utc)

    def series(*values):
        return pd.Series(values, dtype=object)
    for what, data, kind, says in (("twice", {1: [1], "1": [2]}, ValueError, "two columns are called '1'"), ("frame twice", pd.DataFrame([[1, 2]], columns=[1, "1"]), ValueError, "two columns are called '1'"),
                                   ("blocks twice", {1: numpy.zeros((2, 2)), "1": numpy.ones((2, 2))}, ValueError, "two columns are called '1'"), ("table twice", pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), ValueError, "two columns are called 'a'"),
                                   ("NUL", {"a\0b": [1]}, ValueError, "NUL in its name"), ("NUL in a frame", pd.DataFrame({"a\0b": [1]}), ValueError, "NUL in its name"), ("NUL in a table", pa.table({"a\0b": [1]}), ValueError, "NUL in its name"),
                                   ("rounded", {"v": [big, 0.5]}, ValueError, f"'v' has fractions, and the integer {big}"), ("rounded frame", pd.DataFrame({"v": series(big, 0.5)}), ValueError, f"the integer {big}"),
                                   ("rounded block", numpy.array([[big, 0.5]], object), ValueError, f"the integer {big}"), ("past 64 bits", pd.DataFrame({"v": series(2**64, 0)}), ValueError, "neither INT64 nor UINT64"),
                                   ("days and instants", {"v": [day, noon]}, TypeError, "objects of date, datetime"), ("the same in a frame", pd.DataFrame({"v": series(day, noon)}), TypeError, "objects of date, datetime"),
                                   ("zones", pd.DataFrame({"v": series(aware, noon)}), TypeError, "with and without a time zone"), ("zones in a list", {"v": [aware, noon]}, TypeError, "with and without a time zone"),
                                   ("mixed", pd.DataFrame({"v": [1, "a"]}), TypeError, "column 'v' has objects of int, str"), ("mixed categories", pd.DataFrame({"v": pd.Categorical([1, "a"])}), TypeError, "has categories of int, str"), ("intervals", pd.DataFrame({"v": pd.cut([1, 5, 9], 2)}), TypeError, "frame['v'].cat.rename_categories(str)"),
                                   ("categories of periods", pd.DataFrame({"v": pd.Categorical(pd.period_range("2024-01", periods=2, freq="M"))}), TypeError, "has categories of Period"), ("categories of days", pd.DataFrame({"v": pd.Categorical([datetime.date(2024, 1, 1)])}), TypeError, "has categories of date"),
                                   ("complex", pd.DataFrame({"v": [1j]}), TypeError, "'v' is complex128"), ("whole intervals", pd.DataFrame({"v": pd.interval_range(0, 3)}), TypeError, "column 'v' has intervals"),
                                   ("categories of durations", pd.DataFrame({"v": pd.Categorical(pd.to_timedelta(["1h"]))}), TypeError, "frame['v'].cat.rename_categories(str)"), ("sets", pd.DataFrame({"v": [{1}, None]}), TypeError, "frame['v'].map(sorted)"),
                                   ("half a pair", pd.DataFrame({"v": pd.Series(["\ud800"], dtype=object)}), ValueError, "column 'v' has the text '\\ud800', which is not Unicode"), ("levels of columns", pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", 1)])), TypeError, "the columns are a MultiIndex"), ("complex block", numpy.array([[1j]]), TypeError, "complex128"), ("a scalar", numpy.array(3.0), ValueError, "an axis at least")):
        fails(kind, says, lambda: tessera.create(f"odd {what}", data, connection=db))
        assert not os.path.exists(f"odd {what}"), what
    xarray = installed("xarray")
    if xarray:
        fails(ValueError, "two columns are called '1'", lambda: tessera.create("odd dataset", xarray.Dataset({1: ("x", [1]), "1": ("x", [2])})))
    for what, data, expected in (("gaps", {"v": [big, None, float("nan")]}, [big, None, None]), ("unsigned", pd.DataFrame({"v": series(2**64 - 1, 0)}), [2**64 - 1, 0]), ("another byte order", pd.DataFrame({"v": numpy.arange(3, dtype=">i4")}), [0, 1, 2]),
                                 ("sparse", pd.DataFrame({"v": pd.arrays.SparseArray([0, 0, 1])}), [0, 0, 1]), ("bytes", pd.DataFrame({"v": [b"a\0", None]}), [b"a\0", None]), ("UTC", pd.DataFrame({"v": series(aware, None)}), [noon, None]),
                                 ("days", {"v": [day, None]}, [day, None]), ("small", {"v": [2**53, 0.5]}, [2.0**53, 0.5])):
        same(pa.table(tessera.create(f"odd {what}", data, connection=db))["v"].to_pylist(), expected, what)
    for shape in ((3, 0), (0, 3), (0,)):
        made = tessera.create(f"odd {shape}", numpy.zeros(shape), connection=db)
        same((made.numpy().size, len(made), made.dims), (0, 0, tuple(f"dim_{i}" for i in range(len(shape)))), shape)
    block = numpy.asfortranarray(numpy.arange(6, dtype=">f8").reshape(2, 3))
    array = tessera.create("odd block", block, connection=db)
    same((array.numpy().tolist(), array.numpy(out=numpy.empty((2, 3))).tolist()), (block.tolist(), block.tolist()), "Fortran's order, another byte order")
    for out in ([], [[0.0] * 3] * 2, "x", object()):
        fails(TypeError, "the memory of an ndarray", lambda: array.numpy(out=out))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for test in (odd, arrow, attrs, pandas, indexes, tables, objects, kinds, days, finer, dtypes, zones, far, appends, durations, polars, duckdb, lazy, damaged, refused, nulls, conditions, changes, databases):
        test(database())
    os.chdir("/")
print("tables and DataFrames come back as they were")
