"""Tables and DataFrames become arrays and come back as they were: pyarrow, pandas, polars, DuckDB, as far as they are installed.

usage: dataframes.py EXTENSION
"""
import os
import sqlite3
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "package", "python"))
import tessera

try:
    import pyarrow as pa
except ImportError:
    print("pyarrow is not installed")
    sys.exit(77)

EXTENSION = os.path.abspath(sys.argv[1])


def installed(name):
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed: not tried")


def database():
    db = sqlite3.connect(":memory:", check_same_thread=False)   # DuckDB opens streams on threads of its own
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)
    return db


def same(got, expected, what):
    if got != expected:
        raise AssertionError(f"{what}\n  got:      {got}\n  expected: {expected}")


def arrow(db):
    table = pa.table({"x": pa.array([1, 2, 3], pa.int16()), "u64": pa.array([1, None, 2**64 - 1], pa.uint64()), "f32": pa.array([1.5, None, -2], pa.float32()), "bool": [True, None, False],
                      "s": ["a", None, "a long string of more than twelve bytes"], "view": pa.array(["a", None, "a long string of more than twelve bytes"], pa.string_view()),
                      "large": pa.array(["é", "", None], pa.large_string()), "bytes": [b"1", None, b""], "date": pa.array([1, None, 3], pa.date32()), "time": pa.array([1, None, 3], pa.time64("us")),
                      "labels": pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int8()), ["zero", "one", "unused"])}
                     | {f"ts_{unit}": pa.array([1, None, -3], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")}
                     | {f"{kind()}": pa.array([0, None, 7], kind()) for kind in (pa.int8, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.float64)})
    for name, given in (("all", table), ("slice", table.slice(1, 2)), ("batches", pa.concat_tables([table.slice(0, 1), table.slice(1)]))):
        back = pa.table(tessera.create(name, given, connection=db, dimensions=["x"]))
        for column in table.column_names:
            same(back[column].to_pylist(), given[column].to_pylist(), f"{name}, {column}")
        same(back["labels"].chunk(0).dictionary.to_pylist(), ["zero", "one", "unused"], name)
    tessera.create("all", pa.table({**{name: table[name] for name in table.column_names}, "x": pa.array([1, 2, 3], pa.int8())}), connection=db, if_exists="append")
    same(db.execute("SELECT count(*) FROM tessera_fragments('all')").fetchone(), (2,), "append")


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


def polars(db):
    pl = installed("polars")
    if not pl:
        return
    frame = pl.DataFrame({"k": ["b", "a", "c"], "v": [1, None, 3], "e": pl.Series(["x", "y", "x"], dtype=pl.Enum(["y", "x", "unused"]))})
    array = tessera.create("polars", frame, connection=db, dimensions=["k"])
    same(pl.DataFrame(array).sort("k").select(pl.col("k"), pl.col("v"), pl.col("e").cast(pl.String)).rows(), [("a", None, "y"), ("b", 1, "x"), ("c", 3, "x")], "polars")


def duckdb(db):
    engine = installed("duckdb")
    if not engine:
        return
    relation = engine.sql("SELECT i AS i, i * 0.5::DOUBLE AS v, 'n' || i AS n FROM range(100000) t(i)")
    made = tessera.create("duck", relation, connection=db, dimensions=["i"])
    same(engine.sql("SELECT count(*), sum(v), max(n) FROM made").fetchall(), [(100000, 2499975000.0, "n99999")], "duckdb")


def blocks(db):
    np = installed("numpy")
    if not np:
        return
    tessera.loading.loadable_path = lambda: EXTENSION
    y, x = np.divmod(np.arange(12), 4)
    array = tessera.create("blocks", pa.table({"y": y, "x": x, "v": np.arange(12) * 0.5}), dimensions=["y", "x"])
    same((array.kind, array.shape, array.bounds), ("dense", (3, 4), {"y": (0, 2), "x": (0, 3)}), "what was made without a connection")
    same(array.numpy().tolist(), (np.arange(12) * 0.5).reshape(3, 4).tolist(), "numpy")
    same(np.asarray(array.sel(y=1)).tolist(), [[2, 2.5, 3, 3.5]], "__array__")
    same(array.write("v", np.array([[7.0, 8.0]]), {"y": 2, "x": 2}), 2, "cells written")
    out = np.empty((1, 4))
    assert array.sel(y=2).numpy("v", out) is out
    same(out.tolist(), [[4, 4.5, 7, 8]], "out")
    for wrong in (np.empty((4, 1)), np.empty((1, 4), "f4")):
        try:
            array.sel(y=2).numpy("v", wrong)
            raise AssertionError(f"{wrong.dtype}{wrong.shape} was taken")
        except ValueError as e:
            assert "the block is float64(1, 4)" in str(e), e


def xarray(db):
    xr, np = installed("xarray"), installed("numpy")
    if not xr:
        return
    from tessera.xarray import Entrypoint
    tessera.loading.loadable_path = lambda: EXTENSION
    y, x = np.divmod(np.arange(70), 10)
    v, day = (y * 10 + x).astype("f4"), np.arange(70).astype("M8[D]")
    tessera.create("grid", pa.table({"y": y + 3, "x": x, "v": v, "n": y * x, "day": day}), dimensions=["y", "x"], domains={"y": [0, 19]}, extents={"y": 5, "x": 4},
                   metadata={"title": "a grid"})
    assert Entrypoint().guess_can_open("grid") and not Entrypoint().guess_can_open(".")
    grid = xr.open_dataset("grid", engine=Entrypoint)
    same((dict(grid.sizes), grid.y.values.tolist(), grid.attrs, str(grid.day.dtype)[:10]), ({"y": 7, "x": 10}, list(range(3, 10)), {"title": "a grid"}, "datetime64"), "the Dataset")
    same(grid.v.encoding["preferred_chunks"], {"y": (2, 5), "x": (4, 4, 2)}, "chunks that are tiles")
    whole = v.reshape(7, 10)
    for key in ((slice(None), slice(None)), (slice(5, 1, -2), 3), (-1, slice(None, None, 3)), ([4, 0, 6], slice(2, 2)), ([1, 1, 5], [9, 0]), (slice(None, None, -1), slice(None, None, -3))):
        expected = whole[key[0]][..., key[1]]
        got = xr.open_dataset("grid", engine=Entrypoint).v[key].values
        same((got.shape, got.tolist()), (expected.shape, expected.tolist()), f"{key}")
    same(float(grid.v.sel(y=4, x=6)), 16.0, "sel")
    if installed("dask"):
        lazy = xr.open_dataset("grid", engine=Entrypoint, chunks={})
        same(lazy.v.chunks, ((2, 5), (4, 4, 2)), "dask's chunks")
        for scheduler in ("threads", "synchronous"):
            same(float(lazy.v.sum().compute(scheduler=scheduler)), float(v.sum()), scheduler)
    tessera.create("points", pa.table({"a": [1.5, 2], "v": [1, 2]}), dimensions=["a"])
    try:
        xr.open_dataset("points", engine=Entrypoint)
        raise AssertionError("a sparse array was opened as a Dataset")
    except ValueError as e:
        assert "sparse" in str(e), e


def refused(db):
    for table, part in ((pa.table({"a": [[1]]}), "cast it first"), (pa.table({"a": pa.nulls(2)}), "cast it first"), (pa.table({"a": [{"b": 1}]}), "cast it first"), (pa.table({"a": [1, None]}), "NULL in a dimension")):
        try:
            tessera.create("refused", table, connection=db, dimensions=["a"])
        except sqlite3.Error as e:
            assert part in str(e), e
        else:
            raise AssertionError(table.schema)
    assert not os.path.exists("refused")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for test in (arrow, pandas, polars, duckdb, blocks, xarray, refused):
        test(database())
    os.chdir("/")
print("tables and DataFrames come back as they were")
