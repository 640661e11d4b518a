"""ndarrays and Datasets become arrays and come back: numpy, xarray and dask, as far as they are installed. Random indexers give what numpy gives;
groups of TileDB-CF are read with their coordinates, and TileDB-CF reads ours.

usage: datasets.py EXTENSION
"""
import concurrent.futures
import contextlib
import datetime
import io
import multiprocessing
import os
import pickle
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import warnings

from package import fails, libraries, library, run, same

np, pa, xr = libraries("numpy", "pyarrow", "xarray")
dask = library("dask")
has_cftime = bool(library("cftime"))


def test_blocks():
    values = np.arange(12.0).reshape(3, 4)
    a = tessera.create("blocks", values)
    same((a.kind, a.shape, a.dims, a.attributes, a.bounds), ("dense", (3, 4), ("dim_0", "dim_1"), ("value",), {"dim_0": (0, 2), "dim_1": (0, 3)}))
    assert np.array_equal(a.numpy(), values) and np.array_equal(np.asarray(a.sel(dim_0=1)), values[1:2])
    same(a.write("value", np.array([[70.0, 80.0]]), {"dim_0": 2, "dim_1": 2}), 2, "cells written")
    out = np.empty((1, 4))
    assert a.sel(dim_0=2).numpy(out=out) is out
    same(out.tolist(), [[8, 9, 70, 80]], "out")
    strided = np.zeros((4, 4), "f8")[:, ::-1][:1]
    same(a.sel(dim_0=2).numpy("value", strided).tolist(), [[8, 9, 70, 80]], "an ndarray whose memory is not in a row")
    for wrong in (np.empty((4, 1)), np.empty((1, 4), "f4")):
        fails(ValueError, "the block is float64(1, 4)", lambda: a.sel(dim_0=2).numpy("value", wrong))
    fails(NotImplementedError, "a stream", lambda: a.where("value", ">", 1).numpy())
    before = tessera.open("blocks")
    a.write("value", np.full((3, 4), 5.0))
    same((before.numpy().max(), a.numpy().max(), tessera.open("blocks", as_of=before._state["as_of"]).numpy().max()), (80, 5, 80), "each shows its own time")
    same(pickle.loads(pickle.dumps(before)).numpy().max(), 80, "a pickled Array shows the same time")


def test_streams_of_dense_arrays():
    """A stream has the cells with their coordinates, of each type and in both orders of cells; a batch ends before it would pass the rows that are asked for."""
    chosen = random.Random(7)
    for number, (kind, order) in enumerate((k, o) for k in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64") for o in ("row", "col")):
        low, high = (-20, 19) if kind.startswith("I") else (3, 42)
        values = np.arange(40 * 30, dtype="i4").reshape(40, 30)
        made = tessera.create(f"stream{number}", {"v": values}, dimensions=["y", "x"], types={"y": kind, "x": kind}, domains={"y": [low, high]}, cell_order=order,
                              extents={"y": chosen.randint(1, 20), "x": chosen.randint(1, 20)})
        boxes = [{}, {"y": (low + 5, low + 5)}, {"y": (low + chosen.randint(0, 9), low + chosen.randint(10, 39)), "x": (chosen.randint(0, 9), chosen.randint(10, 29))}]
        for box in boxes:
            for rows in (1 << 20, 50):
                part = tessera.open(f"stream{number}", batch_rows=rows).sel(**box)
                read = pa.table(part).to_pydict()
                (y0, y1), (x0, x1) = box.get("y", (low, high)), box.get("x", (0, 29))
                expected = {(y, x, int(values[y - low, x])) for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)}
                same(set(zip(read["y"], read["x"], read["v"])), expected, f"{kind}, {order}, {box}")
                same(len(read["v"]), len(expected), f"{kind}, {order}, {box}")
    made = tessera.create("stream-batches", np.zeros((100, 100)), extents={"dim_0": 20, "dim_1": 20})
    for rows, batches in ((1000, [800] * 12 + [400]), (400, [400] * 25), (300, [400] * 25), (3000, [2800] * 3 + [1600])):
        same([batch.num_rows for batch in pa.RecordBatchReader.from_stream(tessera.open("stream-batches", batch_rows=rows))], batches, f"{rows} rows")


def test_limits():
    """open() takes the limits of reads. What the cache keeps is not decoded again; without a cache it is."""
    tessera.create("limits", np.arange(4 << 20, dtype="f8").reshape(1024, 4096), extents={"dim_0": 512, "dim_1": 512})

    def decoded(read, **limits):
        a = tessera.open("limits", **limits)
        a._rows("SELECT tessera_reset_stats()")
        read(a), read(a)
        return a._rows("SELECT value FROM tessera_stats WHERE name = 'tiles_read'")[0][0]
    for read in (lambda a: a.numpy(), lambda a: pa.table(a)):
        same([decoded(read, cache_mb=mb) for mb in (0, 64, 0)], [32, 16, 32])
    same(tessera.open("limits", memory_mb=1, cache_mb=0, threads=1).numpy()[1000, 4000], 1000 * 4096 + 4000.0, "no tile is in memory")
    for read, mb in ((lambda a: a.numpy(), 64), (lambda a: pa.table(a), 0)):
        fails(Exception, "memory_mb allows", lambda: read(tessera.open("limits", memory_mb=1, cache_mb=mb, threads=1)))
        fails(Exception, "'cache_mb': expected an integer from 0 to 1099511627776, not -1", lambda: read(tessera.open("limits", cache_mb=-1)))
        fails(TypeError, "unexpected keyword argument 'foo'", lambda: tessera.open("limits", foo=1))


def test_nulls_without_a_cache():
    """Chunks go straight to the ndarray and the mask; a box of few cells decodes a part of its tile."""
    values = np.ma.MaskedArray(np.arange(90_000.0).reshape(300, 300), np.arange(90_000).reshape(300, 300) % 7 == 0)
    tessera.create("nulls-uncached", {"v": values}, dimensions=["y", "x"], extents={"y": 150, "x": 200})
    for box in ((0, 299, 0, 299), (140, 160, 190, 210), (149, 149, 0, 299), (70, 72, 5, 7)):
        inside = (slice(box[0], box[1] + 1), slice(box[2], box[3] + 1))
        for limits in ({"cache_mb": 0}, {"cache_mb": 0, "threads": 1}, {}):
            part = tessera.open("nulls-uncached", **limits).sel(y=box[:2], x=box[2:])
            got = part.numpy("v", masked=True)
            same((got.mask.tolist(), got.filled(-1).tolist()), (values.mask[inside].tolist(), values[inside].filled(-1).tolist()), f"{box}, {limits}")
            same(np.isnan(part.numpy("v")).tolist(), values.mask[inside].tolist(), f"{box}, {limits}: the fill value")


def test_large_blocks():
    """More than 16 MiB are written past the processor's caches, in whole lines of 64 bytes where the rows of tiles have them."""
    values = (np.arange(2900)[:, None] % 7 * 2000 + np.arange(1501)).astype("i4")
    memory = np.empty(values.size + 16, "i4")
    for width, cases in ((1000, ((1, {"cache_mb": 0}), (5, {}))), (50, ((0, {"cache_mb": 0}),))):   # rows of many lines, and of too few
        a = tessera.create(f"large{width}", {"v": values}, dimensions=["y", "x"], extents={"y": 1000, "x": width})
        for first, limits in cases:
            out = memory[first:first + values.size].reshape(values.shape)
            memory[:] = -1
            tessera.open(a.path, **limits).numpy("v", out)
            assert np.array_equal(out, values) and (memory[:first] == -1).all() and (memory[first + values.size:] == -1).all(), f"{width}, {limits}"
    a.write("v", -values[990:1010], {"y": 990})
    values[990:1010] *= -1
    assert np.array_equal(tessera.open(a.path).numpy(), values), "two fragments"


def test_order():
    """The variables of a Dataset come back in its order; what is no list in metadata, which anybody may write, is none."""
    data = xr.Dataset({"zeta": ("x", [1, 2]), "alpha": ("x", [3, 4]), "Mid": ("x", [5, 6])}, coords={"x": [10, 20], "b": ("x", [1.5, 2.5]), "a": ("x", [2.5, 3.5])})
    tessera.create("ordered", data)
    same(list(xr.open_dataset("ordered", engine="tessera").variables), list(data.variables))
    tessera.create("ordered2", (deep := xr.Dataset({"v": ("z", [1.0, 2.0])}, coords={"x": [1, 2, 3], "z": (("z", "x"), np.arange(6.0).reshape(2, 3))})))
    xr.testing.assert_identical(xr.open_dataset("ordered2", engine="tessera").load(), deep)
    fails(TypeError, "variable 'v' has the dtype Int64 of pandas", lambda: tessera.create("ordered3", xr.Dataset({"v": ("x", tessera.results.library("pandas").array([1, None], "Int64"))})))
    zeta = tessera.open("ordered/zeta")
    for strange in ("5", "[1,2]", "9e999", b"x"):
        zeta._rows("SELECT tessera_set_metadata('ordered/zeta', '__tessera_place', ?)", strange)
        back = xr.open_dataset("ordered", engine="tessera")
        same((set(back.variables), [name for name in back.data_vars if name != "zeta"]), (set(data.variables), ["alpha", "Mid"]), strange)


def test_parts():
    """A part of a part has no cell that the part leaves out."""
    a = tessera.create("parts", np.arange(200.0).reshape(20, 10), dimensions=["y", "x"], extents={"y": 5, "x": 5}, labels={"lat": ("y", np.arange(20) * 0.5)})
    same(a.sel(y=(0, 9)).sel(y=(4, 15), x=3).numpy().tolist(), np.arange(200.0).reshape(20, 10)[4:10, 3:4].tolist(), "two ranges")
    same(a.sel(y=slice(None, 9)).sel(y=slice(4, None)).shape, (6, 10), "open ends")
    same(a.sel(y=7).sel(y=(2, 9)).shape, (1, 10), "a value and a range")
    rows = tessera.create("parts-rows", {"k": np.arange(100000) * 2, "v": np.ones(100000, "i4")}, dimensions=["k"])
    parts = rows.partitions(3)
    same((len(parts), sum(pa.table(part).num_rows for part in parts), sum(pa.table(part.sel(k=(0, 150000))).num_rows for part in parts)), (3, 100000, 75001), "parts of parts")
    none = rows.sel(k=(0, 8)).sel(k=(20, 30))
    same((pa.table(none).num_rows, pa.table(none.sel(k=(0, 30))).num_rows, none.partitions(3), none.shape), (0, 0, [], (0,)), "nothing lies in both")
    for empty in (a.sel(y=(0, 3)).sel(y=(10, 12), x=(2, 4)), a.sel(lat=(0.0, 1.0)).sel(lat=(5.0, 6.0), x=(2, 4)), a.sel(y=3, x=(2, 4)).sel(y=4)):
        same((empty.numpy().shape, empty.shape, empty.numpy(masked=True).shape, empty.dask().shape if dask else (0, 3), pa.table(empty).num_rows), ((0, 3), (0, 3), (0, 3), (0, 3), 0), f"{empty}")
        fails(ValueError, "the block is float64(0, 3)", lambda: empty.numpy(out=np.empty((1, 3))))
    both = a.sel(y=(0, 3), x=5).sel(y=(4, 5)).sel(x=4)
    same((both.numpy().shape, both.sel(y=(0, 3)).shape), ((0, 0), (0, 0)))
    alone = tessera.create("parts-alone", {"k": [1, 5, 9]}, dimensions=["k"])
    same(pa.table(alone.sel(k=(1, 2)).sel(k=(3, 9))).num_rows, 0, "an array without attributes")
    same(a.sel(y=(np.int64(2), np.int32(5)), x=np.int8(3)).numpy().tolist(), np.arange(200.0).reshape(20, 10)[2:6, 3:4].tolist(), "numbers of numpy")
    same(sum(pa.table(part).num_rows for part in a.sel(lat=(1.0, 8.0)).partitions(2)), 150, "parts of a range of labels")
    days = tessera.create("parts-days", {"day": np.arange("2024-01-01", "2024-03-01", dtype="datetime64[h]"), "v": np.arange(1440.0)}, dimensions=["day"], kind="sparse")
    same(pa.table(days.sel(day=("2024-01-10", None)).sel(day=(None, np.datetime64("2024-01-10T05"))).sel(day=("2024-01-10 02:00", "2024-02"))).num_rows, 4, "instants")
    for array, given, says in ((a, {"lat": "x"}, "label 'lat': 'x' is not a valid FLOAT64"), (a, {"lat": ("x", None)}, "label 'lat': 'x' is not a valid FLOAT64"), (a, {"x": "x"}, "dimension 'x': 'x' is not a valid INT64"),
                               (days, {"day": "x"}, "dimension 'day': 'x' is not a valid DATETIME_SEC"), (days, {"day": ("2024-01-01", "2024-13-01")}, "the month is not 01 to 12"), (days, {"day": ["2024-01-01", "noon"]}, "dimension 'day': 'noon'")):
        part = array.sel(**given)
        for read in (lambda: len(part), lambda: part.mean("v" if array is days else None), lambda: tessera.sql("SELECT count(*) FROM part", part=part).fetchall(), lambda: pa.table(part)):
            fails(tessera.Mismatch, says, read)
    fails(tessera.Mismatch, "label 'lat': 'x' is not a valid FLOAT64", lambda: a.sel(lat=["x"]))
    same((len(days.sel(day=["2024-01-10", "2024-01-10T05:00"])), len(days.sel(day="1999-01-01")), len(a.sel(lat="3"))), (2, 0, 10), "texts that are coordinates")
    for reversed_ in (("2024-02", "2024-01-10"), ("2024-01-15", "2024-01"), (np.datetime64("2024-02"), np.datetime64("2024-01"))):
        fails(tessera.Range, "its low end is above its high end", lambda: days.sel(day=("2024-01-01", None)).sel(day=reversed_))
        part = days.sel(day=("2024-01-01", None)).sel(day=slice(*reversed_))
        same((len(part), pa.table(part).num_rows), (0, 0), f"{reversed_}, as a slice")
    same(pa.table(days.sel(day=("2023", None)).sel(day=("2024-01-01", "2024-01"))).num_rows >= 0, True, "one instant in two forms")
    fails(ValueError, "one is text, one a number", lambda: tessera.open("parts-days", datetimes="integer").sel(day=("2024-01-10", None)).sel(day=(5, None)))
    fails(tessera.Mismatch, "day is DATETIME_SEC, and this is a number", lambda: days.sel(day=(5, None)))


def test_lists_of_coordinates():
    """sel() of lists gives blocks, masks and shapes as xarray does, in the order of the lists, as often as they name a cell; streams have each cell once."""
    chosen = random.Random(3)
    values, texts = np.arange(120.0).reshape(12, 10), np.array([[f"{y},{x}" for x in range(10)] for y in range(12)], object)
    a = tessera.create("lists", {"v": values, "s": texts}, dimensions=["y", "x"], extents={"y": 5, "x": 4}, labels={"lat": ("y", np.arange(12) * -0.5)})
    wanted = xr.Dataset({"v": (("y", "x"), values), "s": (("y", "x"), texts)}, {"y": range(12), "x": range(10), "lat": ("y", np.arange(12) * -0.5)})
    for _ in range(20):
        ys, xs = sorted(chosen.sample(range(12), chosen.randint(1, 6))), sorted(chosen.sample(range(10), chosen.randint(1, 6)))
        listed = chosen.sample(ys, len(ys))
        falling = xs[::-1]
        for box in ({"y": listed, "x": np.array(falling)}, {"lat": [y * -0.5 for y in listed], "x": xs}, {"y": listed + listed[::-1], "x": (xs[0], xs[-1])}, {"y": [99, *listed, -7], "x": falling + xs}):
            asked = {name: slice(*given) if isinstance(given, tuple) else [value for value in given if value in (*wanted.x.values, *wanted.y.values, *wanted.lat.values)] for name, given in box.items()}
            expected = wanted.swap_dims(y="lat").sel(asked) if "lat" in box else wanted.sel(asked)
            part = a.sel(**box)
            same((part.numpy("v").tolist(), part.numpy("s").tolist(), part.shape), (expected.v.values.tolist(), expected.s.values.tolist(), expected.v.shape), f"{box}")
            rows, expected = pa.table(part.where("v", ">", 30).select("v"))["v"].to_pylist(), expected.v.values
            same(sorted(rows), sorted({v for v in expected.ravel().tolist() if v > 30}), f"{box}, a stream")
            masked = part.numpy("v", masked=True)
            same((masked.tolist(), pickle.loads(pickle.dumps(part)).shape), (expected.tolist(), expected.shape), f"{box}, masked and pickled")
    part = a.sel(y=[1, 2, 3, 9], x=0)
    same([part.sel(y=(2, 9)).numpy("v").ravel().tolist(), part.sel(y=[9, 3, 4]).numpy("v").ravel().tolist(), part.sel(lat=(-1.5, -0.5)).numpy("v").ravel().tolist()],
         [[20, 30, 90], [90, 30], [10, 20, 30]], "parts of parts")
    same([a.sel(y=[9, 1, 3]).sel(y=slice(1, 3), x=0).numpy("v").ravel().tolist(), a.sel(y=[3, 1]).sel(y=[1, 3, 1], x=0).numpy("v").ravel().tolist()], [[10, 30], [10, 30, 10]], "the order of the last list")
    same([len(part.partitions(2)), sum(pa.table(one).num_rows for one in part.partitions(2)), pa.table(part.sel(y=[5])).num_rows, pa.table(a.sel(y=[])).num_rows, a.sel(y=[], x=[1, 2]).numpy("v").shape], [2, 4, 0, 0, (0, 2)])
    same((pa.table(a.sel(y=[3, 99])).num_rows, pa.table(a.sel(lat=[-0.5, 7])).num_rows), (10, 10), "values that are not there")
    alone = wanted.v.swap_dims(y="lat").drop_vars("y")
    for given in ([-1.1, -4.9, -1.0], np.array([-3.3]), xr.DataArray([-9.0, 2.0], dims="q")):   # the nearest one of each
        same(a.sel(lat=given, x=3, method="nearest").numpy("v").ravel().tolist(), alone.sel(lat=np.asarray(given), x=3, method="nearest").values.tolist(), f"{given}")
    fails(KeyError, "no label lat is near -1.1", lambda: a.sel(lat=[-1.0, -1.1], method="nearest", tolerance=0.01))
    out = np.empty((4, 1))
    assert part.numpy("v", out=out) is out and out.ravel().tolist() == [10, 20, 30, 90]
    assert a.sel(y=[9, 1, 1, 2], x=0).numpy("v", out=out) is out and out.ravel().tolist() == [90, 10, 10, 20]
    reader = pa.RecordBatchReader.from_stream(part.select("v"))
    same(reader.read_next_batch().num_rows, 3, "a batch")
    del reader
    days = tessera.create("lists-days", {"s": ["a", "b", "c"] * 3, "day": np.arange("2024-01-01", "2024-01-10", dtype="M8[D]"), "v": np.arange(9)}, dimensions=["s", "day"])
    for box, found in (({"s": ["c", "a"]}, [0, 2, 3, 5, 6, 8]), ({"day": np.array(["2024-01-02", "2024-01-05"], "M8[D]")}, [1, 4]), ({"day": [datetime.date(2024, 1, 3), "2024-01-09"], "s": ["c"]}, [2, 8])):
        same(sorted(pa.table(days.sel(**box))["v"].to_pylist()), found, f"{box}")
    fails(NotImplementedError, "leave order() out", lambda: pa.table(part.order("y")))
    fails(NotImplementedError, "least number of parts", lambda: part.partitions(1))
    fails(TypeError, "one axis", lambda: a.sel(y=np.zeros((2, 2))))
    fails(KeyError, "no dimension or label", lambda: a.sel(z=[1]))
    fails(tessera.Unknown, "array lists has no dimension or label 'z'", lambda: a.sel(z=1))
    fails(ValueError, "is not a coordinate", lambda: a.sel(y=[1, np.datetime64("NaT")]))


def test_names_that_are_not_there():
    """A name that the array does not have is an error everywhere, which lists the labels, too; it is never a text in SQL."""
    a = tessera.create("names", {"v": np.arange(20.0).reshape(4, 5)}, dimensions=["y", "x"], labels={"lat": ("y", [50.0, 48, 46, 44])})
    says = "array names has no {} (it has y, x as dimensions; lat as label{})"
    wrong = says.format("dimension or label 'latitud'", "")
    for place in (50, (40, 50), [50], slice(40, None)):
        fails(tessera.Error, wrong, lambda: a.sel(latitud=place))
        fails(KeyError, wrong, lambda: a.sel(latitud=place))
    for act in (lambda: pa.table(a.select("lati")), lambda: tessera.sql("SELECT * FROM part", part=a.select("lati")), lambda: len(a.select("lati"))):
        fails(tessera.Error, says.format("column 'lati'", "; v as attribute"), act)
    for act in (lambda: pa.table(a.where("vv", ">", 3)), lambda: len(a.where("vv", ">", 3))):
        fails(tessera.Error, "has no column 'vv' (it has v as attribute; y, x as dimensions; lat as label)", act)
    fails(tessera.Error, says.format("dimension 'lati'", ""), lambda: pa.table(a.order("lati")))
    fails(tessera.Error, "'lat' is a label: order('y')", lambda: pa.table(a.order("lat")))
    fails(tessera.Error, "'lat' is a label: sel(lat=...)", lambda: pa.table(a.where("lat", ">", 45)))
    same((len(a.where("lat", ">", 45)), len(a.select("LAT", "V"))), (15, 20), "SQL compares all columns, and takes names in any case")
    same(a.connection.execute("SELECT count(*) FROM temp.sqlite_schema").fetchone()[0], 0, "no table stays behind")


def test_slices_that_fall():
    """Along a label that falls a range may go downward, as in xarray. Along all others a slice has no cells, however it is read, and a pair is an error."""
    values = np.arange(20.0).reshape(4, 5)
    days = np.arange("2024-01-04", "2023-12-31", -1, dtype="M8[D]")
    a = tessera.create("falls", {"v": values}, dimensions=["y", "x"], labels={"lat": ("y", [50.0, 48, 46, 44]), "lon": ("x", np.arange(5.0))})
    dated = tessera.create("falls-days", {"v": values}, dimensions=["y", "x"], labels={"day": ("y", days)})
    expected = xr.DataArray(values, dims=["lat", "x"], coords={"lat": [50.0, 48, 46, 44]})
    for first, last in ((50, 45), (49.0, 44), (48, 48), (60, 40), (47.5, 47), (np.float32(50), np.array(46))):
        wanted, part = expected.sel(lat=slice(first, last)), a.sel(lat=slice(first, last))
        same((part.numpy().tolist(), len(part)), (wanted.values.tolist(), wanted.size), f"{first} to {last}")
    same([len(a.sel(lat=slice(45, 50))), len(a.sel(lat=slice(50, None))), len(a.sel(lat=slice(50, 45)).sel(lat=slice(47, 40)))], [15, 5, 5], "upward, open, and twice")
    same([len(dated.sel(day=slice(first, last))) for first, last in ((days[0], days[1]), ("2024-01-03", "2024-01-02"), ("2024-01-02", "2024-01-03"))], [10, 10, 10], "instants")
    same([len(a.sel(lat=(50, 45))), len(pa.table(a.sel(lat=(50, 45))))], [15, 15], "a pair is a slice")
    for part, shape in ((a.sel(lon=slice(3, 1)), (4, 0)), (a.sel(y=slice(3, 1)), (0, 5)), (a.sel(y=slice(3, -1)), (0, 5)), (a.sel(x=slice(np.int64(3), 1.5)), (4, 0))):
        same((len(part), part.shape, part.numpy().shape, len(pa.table(part)), part.mean()), (0, shape, shape, 0, None), f"{part._box}")
    texts = tessera.create("falls-texts", {"k": ["10", "9", "b", "c"], "v": [1, 2, 3, 4]}, dimensions=["k"], kind="sparse")
    large = tessera.create("falls-large", {"k": np.array([1, 2**63, 2**64 - 1], "u8"), "v": [1, 2, 3]}, dimensions=["k"], kind="sparse")
    for array, ends, count in ((texts, ("10", "9"), 2), (texts, ("9", "10"), 0), (texts, ("c", "b"), 0), (texts, ("bb", "b"), 0), (large, (5, 2**64 - 1), 2), (large, ("5", str(2**63)), 1), (large, (2**64 - 1, 5), 0), (large, (2**63, 2**63), 1)):
        part = array.sel(k=slice(*ends))
        same((len(part), len(pa.table(part))), (count, count), f"{array.path}, {ends}")
        if count == 0:
            fails(tessera.Range, "its low end is above its high end", lambda: array.sel(k=ends))
    same([len(part) for part in (large.sel(k=[1, 2**63]), large.sel(k=2**64 - 1))], [2, 1], "lists and values past INT64")


def test_one_axis():
    """ndarrays with one axis: a name in `dimensions` is a column, or, if there is none of that name, the axis."""
    series = tessera.create("one-axis", {"v": np.arange(3.0), "n": np.arange(3)}, dimensions=["t"], grow=["t"])
    same((series.kind, series.dims, series.numpy("v").tolist(), series.attributes), ("dense", ("t",), [0, 1, 2], ("v", "n")), "an axis")
    more = tessera.create("one-axis", {"v": np.full(2, 9.0), "n": np.arange(2)}, dimensions=["t"], if_exists="append", origin={"t": 3})
    same(more.numpy("v").tolist(), [0, 1, 2, 9, 9], "more of it")
    same(tessera.create("one-axis-name", {"v": np.array(["a", "b"])}, dimensions="t").numpy("v").tolist(), ["a", "b"], "texts, and one name that is no list")
    column = tessera.create("one-axis-column", {"t": np.array([5, 7]), "v": np.arange(2)}, dimensions=["t"])
    same(pa.table(column)["t"].to_pylist(), [5, 7], "a column")
    for data, names in (({"v": [1, 2]}, ["t"]), ({"t": np.arange(2), "v": np.arange(2)}, ["t", "x"]), ({"v": np.arange(2)}, ["t", "x"])):
        fails(tessera.Error, "give the coordinates as a column, or make ndarrays", lambda: tessera.create("one-axis-none", data, dimensions=names))
    assert not os.path.exists("one-axis-none")


def test_scalars_as_coordinates():
    """A coordinate may be a scalar of numpy, an ndarray or a DataArray without axes, whatever its type and unit; so may the ends of a range."""
    days = np.arange("2024-01-01", "2024-01-11", dtype="M8[D]")
    label = tessera.create("coordinates", xr.Dataset({"v": (("time", "x"), np.arange(20.0).reshape(10, 2))}, {"time": days.astype("M8[ns]")}))["v"]
    dense, sparse = (tessera.create(f"coordinates-{kind}", {"time": days, "v": np.arange(10.0)}, dimensions=["time"], kind=kind) for kind in ("dense", "sparse"))
    found = xr.DataArray(days.astype("M8[ns]"), dims="time")
    for at in (3, 9):
        instants = [days[at].astype(f"M8[{unit}]") for unit in ("D", "h", "s", "ms", "us", "ns")]
        for value in (*instants, np.array(instants[-1]), found[at], found[at].variable, (found[at], instants[-1]), slice(np.array(instants[2]), None if at == 9 else found[at]), [found[at]]):
            for array, cells in ((label, 2), (dense, 1), (sparse, 1)):
                part = array.sel(time=value)
                part = part.sel(time=value)
                mean = at * 2 + 0.5 if array is label else at
                same((len(part), part.mean("v"), tessera.sql("SELECT count(*) FROM part").fetchone(), pa.table(part).num_rows), (cells, mean, (cells,), cells), f"{value!r}, {array.path}")
                if array is not sparse:
                    same((part.numpy("v").size, part.shape[0]), (cells, 1), f"{value!r}, {array.path}")
                if dask and array is not sparse and not isinstance(value, list):
                    same(part.dask("v").compute().shape, part.shape, f"{value!r}")
                if array is not label and not isinstance(value, (tuple, list)):
                    same(len(array[value]), 1, f"[{value!r}]")
    same(dense.nearest(time=found[3]), {"time": "2024-01-04"}, "nearest")
    same(len(sparse.sel(time=[days[3], days[3].astype("M8[ns]")])), 1, "one instant in two units")
    same([len(dense.sel(time=[days[3], days[5]]).sel(time=[found[5]])), len(dense.sel(time=np.datetime64("2024-01", "M"))), *[len(array.sel(time=np.datetime64("2024", "Y"))) for array in (dense, sparse, label)],
          pa.table(sparse.sel(time=np.datetime64("2024", "Y"))).num_rows, *dense.sel(time=(None, np.datetime64("2024", "Y"))).shape], [1, 1, 1, 1, 2, 1, 1], "instants of other units")
    numbers = tessera.create("coordinates-numbers", {"k": np.array([1.5, 2.5]), "v": np.arange(2)}, dimensions=["k"])
    texts = tessera.create("coordinates-texts", {"k": np.array(["a", "b"]), "v": np.arange(2)}, dimensions=["k"])
    for array, value in [(numbers, make(2.5)) for make in (np.float32, np.float64, np.longdouble, np.array, xr.DataArray)] + [(texts, make("b")) for make in (np.str_, np.array, xr.DataArray)] + [
            (texts, np.bytes_(b"b")), (label, np.uint8(1)), (label, np.array(1)), (label, xr.DataArray(1))]:
        name = array.dims[0]
        for part in (array.sel(**{name: value}), array[value], array.sel(**{name: [value]}), array.sel(**{name: (value, value)})):
            same((len(part), pa.table(part).num_rows, tessera.sql("SELECT count(*) FROM part").fetchone()), (2, 2, (2,)) if array is label else (1, 1, (1,)), f"{value!r}")
    for value in (np.float64(0), np.longdouble(0), np.array(0.0), xr.DataArray(0)):
        same((len(dense.where("v", ">", value)), pa.table(dense.where("v", ">", value)).num_rows), (9, 9), f"where {value!r}")
    for missing in (np.datetime64("NaT"), np.array("NaT", "M8[s]"), xr.DataArray(np.datetime64("NaT", "ns"))):
        fails(ValueError, "is not a coordinate", lambda: dense.sel(time=missing))


def test_boxes_beyond_the_domain():
    """A box is cut to the domain, as WHERE does; what lies outside is empty, and the other axes keep their lengths."""
    texts = np.array([[f"{y}{x}" for x in range(3)] for y in range(4)], object)
    a = tessera.create("beyond", {"v": np.arange(12.0).reshape(4, 3), "s": texts}, dimensions=["y", "x"], domains={"y": [-2, 1], "x": [0, 2]})
    for low, high, rows in ((0, 90, slice(2, 4)), (-500, 300, slice(0, 4)), (-90, -2, slice(0, 1)), (10**12, 10**13, slice(0, 0)), (-9, -5, slice(0, 0)), (None, 10**12, slice(0, 4)), (-10**12, None, slice(0, 4))):
        part = a.sel(y=(low, high), x=(1, 9))
        same((part.numpy("s").tolist(), part.numpy("v").tolist(), part.shape, pa.table(part).num_rows),
             (texts[rows, 1:].tolist(), np.arange(12.0).reshape(4, 3)[rows, 1:].tolist(), (len(texts[rows]), 2), 2 * len(texts[rows])), f"{low} to {high}")
        if dask:
            same(part.dask("v").shape, part.shape, f"{low} to {high}")
    days = tessera.create("beyond-days", {"day": np.arange("2024-01-01", "2024-01-11", dtype="M8[D]"), "s": [f"{day}" for day in range(10)]}, dimensions=["day"], kind="dense")
    same([days.sel(day=ends).numpy("s").tolist() for ends in (("2024-01-09", "2030-01-01"), ("2023-01-01", "2024-01-02"), ("2030-01-01", None))], [["8", "9"], ["0", "1"], []], "days")


def test_nearest_on_dimensions():
    """Where a dimension has no label, a method finds the nearest of its numbers or instants."""
    a = tessera.create("near", np.arange(20.0).reshape(4, 5), dimensions=["y", "x"], domains={"y": [10, 99]}, labels={"lon": ("x", [0.0, 10, 20, 30, 40])})
    found = [(a.nearest(y=value, method=method)["y"]) for method in ("nearest", "pad", "backfill") for value in (11, 11.4, 11.6)]
    same(found, [11, 11, 12, 11, 11, 11, 11, 12, 12])
    same([a.nearest(y=value, method=method)["y"] for value, method in ((11.5, "nearest"), (-5, "nearest"), (50, "nearest"), (50, "pad"), (1, "bfill"))], [11, 10, 13, 13, 10], "ends")
    same(a.sel(y=11.7, lon=21, method="nearest").numpy().tolist(), [[12.0]])
    for wrong in (dict(y=5, method="pad"), dict(y=20, method="bfill"), dict(y=11.4, method="nearest", tolerance=0.3), dict(z=1, method="nearest")):
        fails(KeyError, "", lambda: a.sel(**wrong))
    days = tessera.create("near-days", {"day": np.arange("2024-01-01", "2024-01-11", dtype="M8[D]"), "v": np.arange(10)}, dimensions=["day"], kind="dense")
    same([days.sel(day=day, method=method).numpy("v").tolist() for day, method in (("2024-01-03T13", "nearest"), (np.datetime64("2024-01-03T11"), "nearest"),
                                                                                 (datetime.datetime(2024, 1, 3, 1), "bfill"), ("2025", "pad"))], [[3], [2], [3], [9]])
    fails(KeyError, "near", lambda: days.sel(day="2024-01-20", method="nearest", tolerance=np.timedelta64(2, "D")))
    fails(ValueError, "the coordinates of its cells alone", lambda: tessera.create("near-points", {"k": [1.5], "v": [1]}, dimensions=["k"]).sel(k=1, method="nearest"))


def test_nulls_of_integers_are_missing_in_a_dataset():
    table = pa.table({"k": pa.array([0, 1, 2]), "i": pa.array([None, 5, 7], pa.int16()), "u": pa.array([1, None, 3], pa.uint8()), "c": pa.array([None, "x", "y"]).dictionary_encode()})
    tessera.create("missing", table, dimensions=["k"])
    read = xr.open_dataset("missing", engine="tessera")
    same([float(read[name].mean()) for name in ("i", "u", "c")], [6.0, 2.0, 0.5], "means without the nulls")
    same(int(read.i.isnull().sum()), 1)


def test_enumerations_in_a_dataset():
    """Codes have the attributes of CF; with decode_enums variables have the labels."""
    table = pa.table({"k": pa.array([0, 1, 2, 3]), "sky": pa.array(["clear", None, "light rain", "clear"]).dictionary_encode(), "n": pa.array([5, 7, None, 5]).dictionary_encode(),
                      "same": pa.array(["a b", "a_b", "a b", None]).dictionary_encode()})
    a = tessera.create("sky", table, dimensions=["k"])
    same((a.categories("sky"), a.categories("n")), (["clear", "light rain"], [5, 7]))
    codes = xr.open_dataset("sky", engine="tessera")
    same((codes.sky.attrs["flag_meanings"], codes.sky.attrs["flag_values"].tolist(), codes.sky.attrs["flag_values"].dtype), ("clear light_rain", [0, 1], np.dtype("u2")))
    assert "flag_meanings" not in codes.n.attrs and "flag_meanings" not in codes.same.attrs, "numbers, and labels that underscores make one"
    same(np.nan_to_num(codes.sky.values, nan=-1).tolist(), [0, -1, 1, 0], "codes")
    read = xr.open_dataset("sky", engine="tessera", decode_enums=True)
    same((read.sky.values.tolist(), read.sky[::-2].values.tolist(), read.sky[0].item(), read.sky.attrs), (["clear", None, "light rain", "clear"], ["clear", None], "clear", {}))
    same(np.nan_to_num(read.n.values, nan=-1).tolist(), [5, 7, -1, 5])
    part = table.select(["k", "sky"])
    tessera.create("sky2", part.slice(0, 1), dimensions=["k"], domains={"k": [0, 9]})
    tessera.create("sky2", part.slice(3, 1), if_exists="append")
    same(xr.open_dataset("sky2", engine="tessera", decode_enums=True).sky.values.tolist(), ["clear", None, None, "clear"], "cells that were never written")


def test_texts():
    """Texts and lists come with any type of dimension, from any part, and whatever columns a table of the array shows."""
    db = sqlite3.connect("texts.db", isolation_level=None)
    tessera.load(db)
    units = {"YEAR": "2024 2025 2026", "MONTH": "2024-01 2024-02 2024-03", "DAY": "2024-02-28 2024-02-29 2024-03-01", "HR": "2024-01-01T22 2024-01-01T23 2024-01-02",
             "MIN": "2024-01-01T00:59 2024-01-01T01:00 2024-01-01T01:01", "SEC": "1969-12-31T23:59:59 1970-01-01 1970-01-01T00:00:01", "MS": "1970-01-01T00:00:00.001 1970-01-01T00:00:00.002 1970-01-01T00:00:00.003",
             "US": "1970-01-01T00:00:00.000001 1970-01-01T00:00:00.000002 1970-01-01T00:00:00.000003", "NS": "1970-01-01T00:00:00.000000001 1970-01-01T00:00:00.000000002 1970-01-01T00:00:00.000000003"}
    kinds = [(f"DATETIME_{unit}", [f"'{end}'" for end in ends.split()]) for unit, ends in units.items()]
    kinds += [(kind, [5, 6, 7]) for kind in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64")]
    kinds += [("INT64", [-2**63 + 5, -2**63 + 6, -2**63 + 7])]
    for number, (kind, (low, middle, high)) in enumerate(kinds):
        db.execute(f"CREATE VIRTUAL TABLE d{number} USING tessera('texts{number}', kind=dense, t {kind} DIMENSION({low}, {high}, 1), s TEXT, b BLOB, l FLOAT64[], w DATETIME_DAY[])")
        db.execute(f"INSERT INTO d{number} VALUES({low}, 'a', x'00ff', '[1.5,2]', '[\"2024-01-01\"]'), ({middle}, '', x'', '[]', NULL), ({high}, NULL, NULL, NULL, NULL)")
        for place, connection in ((f"texts{number}", None), (f"db:d{number}", db)):
            a = tessera.open(place, connection=connection)
            for attribute, values in {"s": ["a", "", None], "b": [b"\0\xff", b"", None], "l": ["[1.5,2.0]", "[]", None], "w": ['["2024-01-01"]', None, None]}.items():
                same(a.numpy(attribute).tolist(), values, f"{place}, {kind}: {attribute}")
            same(a.sel(t=(middle if isinstance(middle, int) else middle.strip("'"), None)).numpy("s").tolist(), ["", None], f"{place}, {kind}: a part")
    for number, options in enumerate(("cache_mb=8", "datetimes=integer", "columns='t,b'", "labels=no", "enums=code")):
        db.execute(f"CREATE VIRTUAL TABLE o{number} USING tessera('texts2', {options})")
        same(tessera.open(f"db:o{number}", connection=db).numpy("s").tolist(), ["a", "", None], options)
    db.close()


def test_masks():
    """A MaskedArray masks nulls and cells that were never written. In a Dataset BOOL with nulls is masked as integers are."""
    table = pa.table({"k": pa.array([0, 1, 2, 5]), "ok": [True, None, False, True], "v": pa.array([1.5, 2, None, 4]), "pair": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.int16(), 2)),
                      "s": ["a", None, "c", "d"]})
    a = tessera.create("masks", table, dimensions=["k"], kind="dense")
    none = [False, False, False, True, True, False]
    for name, mask in (("ok", [False, True, False, True, True, False]), ("v", [False, False, True, True, True, False]), ("s", [False, True, False, True, True, False]),
                       ("pair", [[n, n] for n in none])):
        read = a.numpy(name, masked=True)
        same(np.ma.getmaskarray(read).tolist(), mask, name)
        same(read.compressed().tolist(), np.ma.array(a.numpy(name), mask=mask).compressed().tolist(), name)
    out = np.zeros(6)
    assert np.shares_memory(a.numpy("v", out=out, masked=True).data, out)
    same(a.sel(k=(1, 2)).numpy("ok", masked=True).tolist(), [None, False])
    ok = xr.open_dataset("masks", engine="tessera").ok
    same((np.nan_to_num(ok.values, nan=9).tolist(), round(float(ok.mean()), 6), ok[4:0:-3].isnull().values.tolist()), ([1, 9, 0, 9, 9, 1], 0.666667, [True, True]))
    plain = tessera.create("plain", np.array([True, False]))
    same((xr.open_dataset("plain", engine="tessera").value.dtype, plain.numpy(masked=True).mask.tolist()), (np.dtype("?"), [False, False]))


def test_writes_of_masks_and_texts():
    """write() keeps what a mask hides as NULL, or refuses; texts go in as well."""
    for place, kind in (("db:mask", "INT32"), ("mask", "UINT64"), ("mask-days", "DATETIME_DAY")):
        db = sqlite3.connect(":memory:", isolation_level=None)
        tessera.load(db)
        given, ends = ("" if place.startswith("db:") else f"'{place}', "), "'2024-01-01', '2024-01-09'" if kind.startswith("D") else f"0, {2**64 - 9}" if kind == "UINT64" else "0, 8"
        db.execute(f"CREATE VIRTUAL TABLE mask USING tessera({given}kind=dense, t {kind} DIMENSION({ends}, 3), v FLOAT64, s TEXT, n INT32 NOT NULL)")
        a = tessera.open(place, connection=db)
        values, numbers = np.ma.array([1.0, 999.0, 3.0], mask=[False, True, False]), np.arange(3, dtype="i4")
        origin = {"t": "2024-01-03"} if kind.startswith("D") else {"t": 2}
        same(a.write_all({"v": values, "s": np.array(["a", None, "c"], object), "n": numbers}, origin), 3, place)
        same((a.numpy("v", masked=True).tolist(), a.numpy("s").tolist(), a.numpy("n").tolist()), ([1.0, None, 3.0], ["a", None, "c"], [0, 1, 2]), f"{place}: this Array shows it")
        fails(tessera.Error, "n", lambda: a.write_all({"v": values, "s": ["a", "b", "c"], "n": np.ma.array(numbers, mask=values.mask)}, origin))
        fails(tessera.Constraint, "n has no block", lambda: a.write_all({"v": values, "s": ["a", "b", "c"]}))
        fails(tessera.Mismatch, "shapes", lambda: a.write_all({"v": values, "s": ["a"], "n": numbers}))
        fails(KeyError, "no dimension z", lambda: a.write_all({"v": values, "s": ["a", "b", "c"], "n": numbers}, {"z": 1}))
        if kind != "UINT64":
            fails(tessera.Range, "reach beyond", lambda: a.write_all({"v": values, "s": ["a", "b", "c"], "n": numbers}, {"t": "2024-01-08" if kind.startswith("D") else 7}))
        same(a.numpy("n").tolist(), [0, 1, 2], f"{place}: nothing of what was refused")
        db.close()
    plain = tessera.create("mask-plain", np.zeros(4))
    plain.write("value", np.ma.array([1.0, 2.0], mask=False))
    same(plain.numpy().tolist(), [1, 2, 0, 0], "a mask that hides nothing")


def test_the_past_is_read_only():
    a = tessera.create("past", np.zeros(3), domains={"dim_0": [0, 5]})
    day = datetime.datetime(2020, 1, 2, 3, 4, 5, 678901)
    for options in ({"as_of": "2020-01-01"}, {"as_of": day}, {"as_of": np.datetime64(day, "ns")}, {"since": day}, {"since": day.replace(tzinfo=datetime.timezone.utc)}):
        old = tessera.open("past", **options)
        for act in (lambda: old.write("value", np.ones(3)), lambda: old.sel(dim_0=1).write("value", np.ones(3)), lambda: old.expand_domain(dim_0=(0, 5)), lambda: pickle.loads(pickle.dumps(old)).write("value", np.ones(3))):
            fails(tessera.Denied, "the past is read-only", act)
        same(old.shape, (3,) if "since" in options else (0,), f"{options}")
    same((a.numpy().tolist(), len(os.listdir("past/__commits"))), ([0, 0, 0], 1))
    db = sqlite3.connect("past.db", isolation_level=None)
    tessera.load(db)
    then, = db.execute("SELECT last_write FROM tessera_array('past')").fetchone()
    a.write("value", np.ones(3))
    db.execute(f"CREATE VIRTUAL TABLE old USING tessera('past', as_of={then})")
    db.execute("CREATE VIRTUAL TABLE new USING tessera('past')")
    old, new = (tessera.open(f"db:{name}", connection=db) for name in ("old", "new"))
    same((old.numpy().tolist(), pa.table(old)["value"].to_pylist(), new.numpy().tolist()), ([0, 0, 0], [0, 0, 0], [1, 1, 1]), "a table with as_of")
    same((pickle.loads(pickle.dumps(old)).numpy().tolist(), xr.open_dataset("db:old", engine="tessera", connection=db).value.values.tolist()), ([0, 0, 0], [0, 0, 0]))
    fails(tessera.Denied, "the past is read-only", lambda: old.write("value", np.ones(3)))
    same(tessera.open("db:old", connection=db, as_of=then + 10**6).numpy().tolist(), [1, 1, 1], "another time")
    same(db.execute("SELECT shown_as_of FROM tessera_array('db:old') UNION ALL SELECT shown_as_of FROM tessera_array('db:new') UNION ALL SELECT shown_as_of FROM tessera_array('past', NULL, 9)").fetchall(),
         [(then,), (None,), (9,)])
    db.close()


def test_trees():
    """A DataTree is refused with the words that say what works, and that works."""
    if not hasattr(xr, "DataTree"):
        return
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"a": ("x", [1.0, 2.0])}), "/sub": xr.Dataset({"b": ("x", [3.0, 4.0])})})
    fails(TypeError, "for node in tree.subtree", lambda: tessera.create("tree", tree))
    same(os.path.exists("tree"), False)
    for node in tree.subtree:
        tessera.create("tree" + node.path, node.to_dataset(inherit=False))
    for act in (lambda: xr.open_datatree("tree", engine="tessera"), lambda: xr.open_groups("tree", engine="tessera")):
        fails(NotImplementedError, "one group at a time", act)
    back = xr.DataTree.from_dict({"/": xr.open_dataset("tree", engine="tessera"), "/sub": xr.open_dataset("tree", engine="tessera", group="sub")})
    assert back.equals(tree), back


def test_one_name_for_a_list():
    """Where an option takes names, one name is a list of one."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    with open("lines.csv", "w", encoding="utf-8") as f:
        f.write("day,c,sky\n1,1.5,x\n2,2.5,y\n")
    table, select = {"day": [1, 2], "c": [1.0, 2.0], "sky": ["x", "y"]}, "SELECT 1 AS day, 1.5 AS c, 'x' AS sky UNION ALL SELECT 2, 2.5, 'y'"
    makers = {"table": lambda path, **options: tessera.create(path, table, connection=db, **options), "csv": lambda path, **options: tessera.create_csv(path, "lines.csv", connection=db, **options),
              "select": lambda path, **options: tessera.create_as(db, path, select, **options)}
    for number, (name, make) in enumerate(makers.items()):
        for place in (f"there{number}", f"db:there{number}"):
            for option in ({}, {"grow": "day"}, {"nullable": "c"}, {"not_null": "c"}, {"enumerate": "sky"}):
                made = make(place, dimensions="day", if_exists="replace", **option)
                same((made.dims, made.attributes), (("day",), ("c", "sky")), f"{name} {place} {option}")
    same(tessera.create("axis-named", np.ones(3), dimensions="time", grow="time").dims, ("time",))
    fails(ValueError, "1 dimensions are named", lambda: tessera.create("axes-named", np.ones((2, 3)), dimensions="yx"))
    db.close()


def test_scalars_as_parameters():
    """numpy's scalars are numbers, texts and NULL in SQL after load(); adapters of the program's own stay."""
    sqlite3.register_adapter(np.uint16, lambda value: int(value) + 100)
    db = sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    numbers = [kind(2) for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64, np.intc, np.longlong, np.float16, np.float32, np.float64, np.longdouble)]
    db.execute("CREATE VIRTUAL TABLE t USING tessera('scalars', y INT32 DIMENSION, day DATE DIMENSION, f FLOAT64, b BOOL, s TEXT, k TIME_SEC)")
    db.execute("INSERT INTO t VALUES(1, '2024-01-01', 1.0, 1, 'a', '01:00:00'), (2, '2024-01-02', 2.0, 0, 'b', '02:00:00')")
    cases = [(column, number) for column in "yf" for number in numbers]
    for column, value in cases + [("b", np.bool_(False)), ("s", np.str_("b")), ("day", np.datetime64("2024-01-02")), ("day", np.datetime64("2024-01-02", "ns"))]:
        same(db.execute(f"SELECT y FROM t WHERE {column} = ?", (value,)).fetchall(), [(2,)], f"{column} = {value!r}")
    same(db.execute("SELECT ?, ?, ?", (np.uint16(2), np.datetime64("NaT"), np.uint64(2**63 - 1))).fetchone(), (102, None, 2**63 - 1))
    fails(OverflowError, "", lambda: db.execute("SELECT ?", (np.uint64(2**63),)))
    for number, unit in ((2, "D"), (2, "h"), (-1, "s"), (0, "ns")):   # SQL does not know the unit of a column of durations
        fails(TypeError, "a parameter is the duration", lambda: db.execute("SELECT ?", (np.timedelta64(number, unit),)))
    same(db.execute("SELECT ?", (np.timedelta64("NaT", "s"),)).fetchone(), (None,))
    db.execute("INSERT INTO t(y, day, f) VALUES(?, ?, ?)", (np.int64(3), np.datetime64("2024-01-03"), np.float32(0.5)))
    same(db.execute("SELECT day, f FROM t WHERE y = 3").fetchall(), [("2024-01-03", 0.5)])
    db.close()


def test_dimensions_of_length_0():
    tessera.create("length0", xr.Dataset({"q": (("x", "y"), np.ones((0, 3)))}))
    same(dict(xr.open_dataset("length0", engine="tessera").sizes), {"x": 0, "y": 3})
    fails(KeyError, "no dimension z", lambda: tessera.create("length0b", xr.Dataset({"q": ("x", np.ones(3))}), extents={"z": 2}))


def test_ndarrays_without_cells_keep_their_shape():
    """No dimension of an array has the length 0, so the lengths are among the metadata until there are cells."""
    for shape in ((3, 0), (0, 3), (0, 0), (0,), (3, 0, 2)):
        a = tessera.create(f"shape {shape}", np.empty(shape, "f4"))
        same((a.shape, a.numpy().shape, tessera.open(a.path).numpy(masked=True).shape, a.numpy().dtype), (shape, shape, shape, np.dtype("f4")), "numbers")
        same(tessera.create(a.path, np.empty(shape, object), if_exists="replace").shape, shape, "texts")
    a = tessera.create("shape labels", np.empty((3, 0)), dimensions=["y", "x"], labels={"lat": ("y", [1.0, 2, 3])}, metadata={"k": 1})
    same((a.shape, a.metadata["k"], [a.sel(**box).numpy().size for box in ({"lat": 2}, {"lat": (0, 9)}, {"y": 1}, {"x": 0})]), ((3, 0), 1, [0] * 4), "labels")
    fails(tessera.Error, "latt", lambda: a.sel(latt=2).numpy())


def test_appends_without_a_place():
    """An append without labels and origin goes behind what is there along the dimension that grows; else nothing tells where, and it must not lie over cells."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    rows = np.arange(6.0).reshape(2, 3)
    for path, given in (("behind", {}), ("db:behind", {"connection": db})):
        tessera.create(path, rows[:0], grow=["dim_0"], **given)
        for part in (rows, rows[:1] + 10):
            tessera.create(path, part, if_exists="append", **given)
        same(tessera.open(path, **given).numpy().tolist(), [[0, 1, 2], [3, 4, 5], [10, 11, 12]], path)
        tessera.create(path, rows[:1] + 20, if_exists="append", origin={"dim_0": 1}, **given)
        same(tessera.open(path, **given).numpy().tolist(), [[0, 1, 2], [20, 21, 22], [10, 11, 12]], f"{path}, with a place")
    given = {"dimensions": ["t", "lat"], "labels": {"lat": ("lat", [3.0, 2, 1])}}
    for part in (rows, rows + 10):
        labelled = tessera.create("behind-labelled", part, if_exists="append", grow=["t"], **given)
    same((labelled.shape, labelled.numpy()[2:].tolist()), ((4, 3), (rows + 10).tolist()), "a label of another dimension")
    for name, options in (("fixed", {"domains": {"dim_0": [0, 99]}}), ("grown", {"grow": ["dim_0", "dim_1"]})):
        tessera.create(name, rows, **options)
        fails(tessera.Constraint, "has cells from 0 to 1 along 'dim_0', from 0 to 2 along 'dim_1', and nothing tells where the blocks go: say origin={'dim_0': ...}", lambda: tessera.create(name, rows, if_exists="append"))
        same(tessera.create(name, rows, if_exists="append", origin={"dim_0": 2}).shape, (4, 3), name)
    db.close()


def test_appends():
    """An append is one commit, or none, however large the block is."""
    from tessera import grids
    limit, grids._WRITE_BYTES = grids._WRITE_BYTES, 1000
    try:
        tessera.create("grows", np.zeros((10, 10)), extents={"dim_0": 5}, domains={"dim_0": [0, 59]})
        fails(tessera.Range, "beyond the domain", lambda: tessera.create("grows", np.ones((55, 10)), if_exists="append", origin={"dim_0": 10}))
        same(tessera.open("grows").numpy().sum(), 0, "cells of an append that failed")
        tessera.create("grows", np.ones((50, 10)), if_exists="append", origin={"dim_0": 10})
        same((tessera.open("grows").numpy().sum(), len(os.listdir("grows/__commits"))), (500, 2), "commits")
    finally:
        grids._WRITE_BYTES = limit


def test_growth():
    """What `grow` names has no end but that of its type: each append makes the array larger."""
    rows = np.arange(12.0).reshape(3, 4)
    a = tessera.create("growing", {"v": rows}, dimensions=["t", "x"], grow=["t"], extents={"t": 2})
    same((a.shape, a.dask().shape if dask else (3, 4)), ((3, 4), (3, 4)))
    for at in (3, 6):
        tessera.create("growing", {"v": rows + at}, if_exists="append", origin={"t": at})
    grown = tessera.open("growing")
    grown.expand_domain(t=(None, 9))
    same((grown.write("v", rows[:1], {"t": 9}), grown.sel(t=9).numpy().tolist(), a.numpy().tolist()), (4, rows[:1].tolist(), rows.tolist()), "Arrays of before show what they showed")
    grown = grown.sel(t=(0, 8))
    same((grown.bounds, grown.numpy().tolist()), ({"t": (0, 9), "x": (0, 3)}, np.concatenate([rows, rows + 3, rows + 6]).tolist()))
    same(xr.open_dataset("growing", engine="tessera").v.shape, (10, 4))
    small = tessera.create("growing8", {"v": rows}, dimensions=["t", "x"], types={"t": "UINT8", "x": "UINT8"}, grow=["t"], labels={"lat": ("x", [1.0, 2, 3, 4])})
    tessera.create("growing8", {"v": rows}, if_exists="append", origin={"t": 240})
    same((tessera.open("growing8").bounds["t"], small.nearest(lat=2.1)), ((0, 242), {"x": 1}))
    fails(tessera.Range, "", lambda: tessera.create("growing8", {"v": rows}, if_exists="append", origin={"t": 253}))
    texts = np.array([["a"], [None], ["c"]], object)
    tessera.create("growing-texts", {"s": texts}, grow=["dim_0"])
    tessera.create("growing-texts", {"s": texts}, if_exists="append", origin={"dim_0": 3})
    same(tessera.open("growing-texts").numpy().tolist(), [["a"], [None], ["c"], ["a"], [None], ["c"]])
    def tiles(name, **options):
        tessera.create(name, {"v": rows}, dimensions=["t", "x"], **options)
        return [tile for tile, in tessera.open(name)._about("tile", "tessera_schema", "role = 'dimension'")]
    same([tiles("tiles-grow", grow=["t"]), tiles("tiles-domain", domains={"t": [0, 999999]}), tiles("tiles-given", domains={"t": [0, 999999]}, extents={"t": 9}), tiles("tiles-both", grow=["t"], extents={"t": 9}),
          tiles("tiles-small", grow=["t"], types={"t": "INT16", "x": "INT16"})], [[3, 4], [62500, 4], [9, 4], [9, 4], [3, 4]], "extents come from domains, not from the first block")
    fails(TypeError, "not of integers", lambda: tessera.create("refused", rows, types={"dim_0": "DATETIME_DAY", "dim_1": "DATETIME_DAY"}, grow=["dim_0"], domains={"dim_0": [0, 9]}))
    fails(KeyError, "no dimension 'z'", lambda: tessera.create("refused", rows, grow=["z"]))


def test_types():
    for dtype in ("?", "i1", "u1", "<i2", ">i4", "<u8", "<f2", ">f4", "<f8", "M8[D]", "M8[ns]", "m8[s]", "m8[D]"):
        values = (np.arange(24) % 2 if dtype == "?" else np.arange(24)).astype(dtype).reshape(2, 3, 4)
        for given in (values, np.asfortranarray(values), values[:, ::-1]):
            assert np.array_equal(tessera.create("typed", given, if_exists="replace").numpy(), given), dtype
    for values, words in ((np.zeros(2, "c8"), "complex64"), (np.array(3), "an axis"), (np.zeros((2, 2), "M8[2D]"), "datetime64[2D]")):
        fails((TypeError, ValueError), words, lambda: tessera.create("refused", values))
    assert not [name for name in os.listdir() if name.startswith("refused")], "a failed call leaves nothing"


def test_values_between_labels():
    """Labels of integers and of days take what lies between them and beyond their type, as labels of reals do. A tolerance may be a duration."""
    for kind in ("u1", "f8"):
        a = tessera.create(f"between {kind}", np.arange(8).reshape(4, 2), dimensions=["y", "x"], labels={"lat": ("y", np.array([10, 20, 30, 40], kind))})
        for ends, rows in (((14.5, 30.5), [1, 2]), (24.6, []), ((14.5, 14.6), []), ((-5, 1e9), [0, 1, 2, 3]), ((1000, 2000), []), ((float("-inf"), 25.5), [0, 1]), ((None, -5), [])):
            part = a.sel(lat=ends)
            same((part.numpy().tolist(), part.shape, part.numpy().shape), ([[2 * y, 2 * y + 1] for y in rows], *[(len(rows), 2)] * 2), f"{kind}: {ends}")
            same(part.dask().shape if dask else (len(rows), 2), (len(rows), 2), f"{kind}: {ends} as blocks")
        same([a.nearest(lat=value, method=method)["y"] for value, method in ((24.6, "nearest"), (26, "nearest"), (24.6, "backfill"), (24.6, "pad"), (1000, "nearest"), (-7, "nearest"))],
             [1, 2, 2, 1, 3, 0], kind)
        same(a.sel(lat=24.6, x=1, method="nearest").numpy().tolist(), [[3]], kind)
        fails(KeyError, "near", lambda: a.nearest(lat=1000, method="backfill"))
        fails(ValueError, "no duration measures", lambda: a.nearest(lat=12, tolerance=np.timedelta64(1, "D")))
    noon = datetime.datetime(2024, 1, 1, 12)
    a = tessera.create("between days", np.arange(3), dimensions=["t"], labels={"day": ("t", np.array(["2024-01-01", "2024-01-02", "2024-01-05"], "M8[D]"))})
    same((a.sel(day=(noon, "2024-01-05T01:00")).numpy().tolist(), a.nearest(day=datetime.datetime(2024, 1, 3, 11)), a.nearest(day=noon)), ([1, 2], {"t": 1}, {"t": 0}))
    for unit in (np.timedelta64, lambda n, _: datetime.timedelta(hours=n)):
        same(a.nearest(day=noon, tolerance=unit(12, "h")), {"t": 0})
        fails(KeyError, "near", lambda: a.nearest(day=noon, tolerance=unit(11, "h")))


def test_made_in_one_step():
    values = {"v": np.arange(60, dtype="f4").reshape(10, 6), "n": np.arange(60).reshape(10, 6)}
    asked = dict(dimensions=["y", "x"], domains={"y": [5, 24]}, extents={"y": 5}, filters={"v": "zstd(3)"}, metadata={"k": 1, "levels": [1, 2]},
                 labels={"lat": ("y", np.linspace(50, 41, 10))})
    text = tessera.create("made", values, explain=True, **asked)
    for part in ("CREATE VIRTUAL TABLE", "INT64 DIMENSION(5, 24, 5) LABEL \"lat\" FLOAT64 DECREASING", "\"v\" FLOAT32 NOT NULL FILTERS(zstd(3))"):
        assert part in text, text
    assert not os.path.exists("made")
    a = tessera.create("made", values, **asked)
    same((a.bounds, a.metadata, a.labels), ({"y": (5, 14), "x": (0, 5)}, {"k": 1, "levels": [1, 2]}, {"lat": "y"}))
    for box, rows in ((dict(lat=47.0), [3]), (dict(lat=(45.5, 48)), [2, 3, 4]), (dict(lat=(None, 43)), [7, 8, 9]), (dict(lat=(47.5, None)), [0, 1, 2])):
        part = a.sel(**box)
        same((part.shape, part.numpy("v").tolist()), ((len(rows), 6), values["v"][rows].tolist()), f"{box}")
        same(part._resolved()["y"], (rows[0] + 5, rows[-1] + 5), f"{box}")
    same([a.nearest(lat=46.6, method=m) for m in ("nearest", "pad", "backfill")], [{"y": 8}, {"y": 9}, {"y": 8}])
    same(a.sel(lat=46.6, x=2, method="nearest").numpy("n").tolist(), [[20]])
    fails(KeyError, "near", lambda: a.nearest(lat=46.6, tolerance=0.1))
    fails(KeyError, "no label 'lon'", lambda: a.nearest(lon=1))
    fails(FileExistsError, "already", lambda: tessera.create("made", values, **asked))
    tessera.create("made", {"v": -values["v"], "n": values["n"]}, if_exists="append", origin={"y": 15})
    same(tessera.open("made").sel(y=(14, 15), x=1).numpy("v").ravel().tolist(), [55, -1])
    tessera.create("made", values["v"][:2], if_exists="replace")
    same((tessera.open("made").shape, [n for n in os.listdir() if n.startswith("made")]), ((2, 6), ["made"]))
    fails(TypeError, "no option capacity", lambda: tessera.create("refused", values, capacity=1))
    fails(ValueError, "2 values, and dimension 'dim_0' 3", lambda: tessera.create("refused", np.zeros((3, 2)), labels={"lat": ("dim_0", [1.0, 5])}))
    fails(ValueError, "NaN", lambda: tessera.create("refused", np.zeros((3, 2)), labels={"lat": ("dim_0", [1.0, np.nan, 3])}))
    fails(ValueError, "one name", lambda: tessera.create("refused", np.zeros((3, 2)), dimensions=["y", "y"]))
    os.makedirs("empty")
    same(tessera.create("empty", values["v"]).shape, (10, 6), "an empty directory may be there")
    fails(ValueError, "one, with an axis", lambda: tessera.create("refused", {"a": np.zeros((2, 2)), "b": np.zeros((3, 2))}))
    texts = tessera.create("texts", {"s": np.array([["a", None], ["é", ""]], object)})
    same(texts.numpy().tolist(), [["a", None], ["é", ""]])
    same(tessera.create("masked", np.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])).numpy().tolist()[1], [3, 4])
    db = sqlite3.connect("made.db")
    inside = tessera.create("db:inside", values, connection=db, dimensions=["y", "x"])
    assert np.array_equal(inside.numpy("v"), values["v"])
    same(db.execute("SELECT sum(n) FROM inside").fetchone(), (int(values["n"].sum()),))
    db.close()


def test_appended_blocks_are_placed_by_name():
    """Dimensions have names, labels have values: an append honours both, and refuses what the array is not."""
    block, days = np.arange(4, dtype="i4").reshape(2, 2), np.array(["2024-01-01", "2024-01-02"], "M8[D]")
    db = sqlite3.connect("placed.db", isolation_level=None)
    tessera.load(db)
    for path in ("placed", "db:placed"):
        given = {"dimensions": ["t", "n"], "labels": {"name": ("n", ["a", "b"]), "day": ("t", days)}, "grow": ["t"], "extents": {"t": 2}, "types": {"v": "INT32"}, "connection": db}
        tessera.create(path, {"v": block}, **given)
        a = tessera.create(path, {"v": block + 100}, if_exists="append", origin={"t": 2}, **{**given, "dimensions": ["n", "t"], "labels": {"name": ("n", ["b", "a"]), "day": ("t", days + 2)}})
        same((a.numpy("v").tolist(), a.nearest(day="2024-01-04")), ([[0, 1], [2, 3], [102, 100], [103, 101]], {"t": 3}), path)
        a = tessera.create(path, {"v": block[::-1] + 50}, if_exists="append", dimensions=["t", "n"], labels={"day": ("t", days[::-1] + 2)}, metadata={"k": 1}, connection=db)
        same((a.numpy("v").tolist()[2:], a.metadata.get("k")), ([[50, 51], [52, 53]], 1), path)
        for error, part, wrong in ((ValueError, "has no 'x', and no room for it", {"labels": {"name": ("n", ["a", "x"])}}), (ValueError, "has no 'x', and no room for it", {"labels": {"name": ("n", ["x", "y"])}}),
                                   (ValueError, "no such label", {"labels": {"lat": ("n", [1, 2])}}), (ValueError, "origin 1", {"labels": {"day": ("t", days)}, "origin": {"t": 1}}), (ValueError, "is there twice", {"labels": {"day": ("t", days[:1].repeat(2))}}),
                                   (ValueError, "has t, n", {"dimensions": ["t", "q"]}), (ValueError, "extents", {"extents": {"t": 5}}), (ValueError, "kind", {"kind": "sparse"}), (ValueError, "types", {"types": {"v": "INT8"}}),
                                   (ValueError, "domains", {"domains": {"n": [0, 9]}}), (ValueError, "'n' does not grow", {"grow": ["n"]}), (KeyError, "no 'q'", {"origin": {"q": 1}}), (ValueError, "cell_order", {"cell_order": "col"}),
                                   (TypeError, "no option wrong", {"wrong": 1})):
            fails(error, part, lambda: tessera.create(path, {"v": block}, if_exists="append", **{"dimensions": ["t", "n"], "connection": db, **wrong}))
        same(tessera.open(path, connection=db).numpy("v").tolist(), [[0, 1], [2, 3], [50, 51], [52, 53]], "after the errors")
    db.close()


def test_ranges_of_a_label_and_of_its_dimension():
    values = np.arange(24).reshape(4, 6)
    a = tessera.create("both", values, dimensions=["y", "x"], domains={"y": [1, 9]}, labels={"lat": ("y", [40.0, 30, 20, 10]), "name": ("y", ["a", "b", "c", "d"])})
    for boxes, rows in (([{"lat": (20, 40), "y": (2, 9)}], [1, 2]), ([{"lat": (20, 40)}, {"y": (2, 9)}], [1, 2]), ([{"y": (2, 9)}, {"lat": (20, 40)}], [1, 2]), ([{"lat": 30, "y": 2}], [1]),
                        ([{"lat": (20, None)}, {"name": (None, "b")}], [0, 1]), ([{"lat": (20, 40)}, {"name": ("b", None)}, {"y": (3, None)}], [2]),
                        ([{"lat": (31, 39), "y": (1, 9)}], []), ([{"lat": (50, 60), "y": (1, 9)}], []), ([{"lat": (20, 40)}, {"y": 4}], []), ([{"lat": (20, 40)}, {"lat": 10}, {"y": 4}], []),
                        ([{"y": (1, 2)}, {"y": (3, 4)}, {"lat": 10}], [])):
        part = a
        for box in boxes:
            part = part.sel(**box)
        same(part.numpy().tolist(), values[rows].tolist(), f"{boxes}")
        same(pa.table(part.select("value"))["value"].to_pylist(), values[rows].ravel().tolist(), f"{boxes}")
    same(sum(pa.table(part.sel(lat=(20, 40))).num_rows for part in a.partitions(4)), 18)


def test_labels_with_values_make_a_block_of_one_axis():
    a = tessera.create("axis", {"v": np.arange(4)}, dimensions=["y"], labels={"lat": ("y", [10, 20, 30, 40])})
    same((a.dims, a.attributes, a.labels, a.sel(lat=(15, 30)).numpy().tolist()), (("y",), ("v",), {"lat": "y"}, [1, 2]))
    a = tessera.create("axes", np.arange(8).reshape(4, 2), dimensions=["lat", "x"], labels={"lat": ("lat", [10, 20, 30, 40])}, domains={"lat": [5, 20]}, extents={"lat": 2}, grow=["x"])
    same((a.dims, a.bounds["lat_index"], a.labels, a.sel(lat=(15, 30), x=0).numpy().tolist()), (("lat_index", "x"), (5, 8), {"lat": "lat_index"}, [[2], [4]]))
    same(xr.open_dataset("axes", engine="tessera").sel(lat=20).value.values.tolist(), [2, 3])
    fails(TypeError, "for ndarrays", lambda: tessera.create("refused", pa.table({"v": [1]}), labels={"lat": ("y", [1])}))


def test_times_of_any_type():
    """as_of and since take datetimes as numpy, pandas and Python have them."""
    tessera.create("times", np.arange(3))
    before = datetime.datetime(2020, 1, 1)
    for time in (before, before.date(), np.datetime64(before), np.datetime64("2020-01-01"), before.replace(tzinfo=datetime.timezone.utc), np.int64(1577836800000), "2020-01-01", 1577836800000):
        same((pa.table(tessera.open("times", as_of=time)).num_rows, pa.table(tessera.open("times", since=time)).num_rows), (0, 3), f"{time!r}")
        same(tessera.open("times", since=time).bounds, {"dim_0": (0, 2)}, f"{time!r}")


def test_names_of_tables_in_quotes():
    db = sqlite3.connect(":memory:", isolation_level=None)
    for path in 'db:"two words"', 'db:main."a.b"', 'db:order', 'db:"say ""x"""':
        for block in np.ones((2, 2)), np.array([["a", "b"], ["c", "d"]]):
            made = tessera.create(path, {"v": block}, connection=db, if_exists="replace", dimensions=["y", "x"], labels={"lat": ("y", [5.0, 3.0])})
            same((made.numpy().tolist(), made.sel(lat=3)._resolved()["y"]), (block.tolist(), (1, 1)), path)
            fails(FileExistsError, "already", lambda: tessera.create(path, {"v": block}, connection=db))
    same([name for name, in db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%' ORDER BY 1")], ["a.b", "order", 'say "x"', "two words"])


def test_integers_of_columns_keep_their_digits():
    """Columns of a dict keep all digits of integers, beside gaps too, whatever library they come from."""
    pd, big = __import__("pandas"), 2 ** 53 + 1
    for given, back in (([2 ** 64 - 1, 1], [2 ** 64 - 1, 1]), ([2 ** 64 - 1, None], [2 ** 64 - 1, None]), ((1, 2), [1, 2]), (pa.array([big, None]), [big, None]),
                        (pa.chunked_array([[big], [None]]), [big, None]), (pa.array([1.5, None]), [1.5, None]), (pd.array([big, None], dtype="Int64"), [big, None]),
                        (pd.Series([big, None], dtype="Int64"), [big, None]), (pd.array([True, None], dtype="boolean"), [True, None]), (pd.Series(["a", None]), ["a", None]),
                        (pd.Series(["x", None], dtype="category"), ["x", None]), (pd.Series(["a", None], dtype="string"), ["a", None])):
        made = tessera.create("digits", {"v": given}, if_exists="replace")
        same(pa.table(made)["v"].to_pylist(), back, repr(given))
    for wrong in [-1, 2 ** 63], [2 ** 70]:
        fails(ValueError, "neither INT64 nor UINT64", lambda: tessera.create("refused", {"v": wrong}))


def test_texts_and_masked_ndarrays_lie_where_numbers_do():
    """Options of ndarrays mean the same for blocks that go in as rows: origins, domains, labels, appends, metadata."""
    numbers, texts = np.array([[1, 2], [3, 4]]), np.array([["a", "b"], ["c", "é"]])
    db = sqlite3.connect(":memory:", isolation_level=None)
    for name, block in {"n": numbers, "t": texts, "m": np.ma.array(numbers, mask=[[0, 1], [0, 0]]), "o": np.array([[1, None], [2, 3]], object)}.items():
        shown = [[None if v is np.ma.masked else v for v in row] for row in block.tolist()]
        a = tessera.create(f"low_{name}", {"v": block}, dimensions=["y", "x"], domains={"y": [-5, 4]}, metadata={"levels": [1, 2]})
        same((a.bounds, a.metadata), ({"y": (-5, -4), "x": (0, 1)}, {"levels": [1, 2]}), name)
        a = tessera.create(f"low_{name}", {"v": block}, if_exists="append", origin={"y": 3})
        same(a.bounds["y"], (-5, 4), name)
        same(a.sel(y=(3, 4)).numpy(masked=True).tolist(), shown, name)
        a = tessera.create("db:labelled", {"v": block}, dimensions=["y", "x"], labels={"lat": ("y", [5.0, 3.0])}, connection=db, if_exists="replace")
        same(a.sel(lat=3).numpy().tolist(), [shown[1]], name)
        same(db.execute("SELECT DISTINCT y, lat FROM labelled ORDER BY y").fetchall(), [(0, 5.0), (1, 3.0)], name)
        fails(ValueError, "must rise", lambda: tessera.create(f"wrong_{name}", {"v": block}, dimensions=["y", "x"], labels={"lat": ("x", [3.0, 3.0])}))
        a = tessera.create(f"days_{name}", {"v": block}, dimensions=["t", "u"], types={"t": "DATETIME_DAY", "u": "DATETIME_DAY"},
                           domains={"t": ["2024-01-01", np.datetime64("2024-12-31")]}, origin={"t": datetime.date(2024, 2, 1)})
        same(a.bounds["t"], ("2024-02-01", "2024-02-02"), name)
        a = tessera.create(f"days_{name}", {"v": block}, if_exists="append", origin={"t": "2024-03-01"})
        same(a.bounds, {"t": ("2024-02-01", "2024-03-02"), "u": ("1970-01-01", "1970-01-02")}, name)
        same(tessera.create(f"none_{name}", {"v": block[:0]}).numpy().shape, block[:0].shape, name)
        assert not os.path.exists(f"wrong_{name}")


def test_datasets_of_texts():
    """Variables of texts have attributes that are ndarrays, labels, places and a database, as others have."""
    made = xr.Dataset({"v": (("y", "x"), np.arange(4.0).reshape(2, 2)), "s": (("y", "x"), np.array([["a", "b"], ["c", "é"]], object),
                                                                            {"flag_values": np.array([1, 2]), "unit": "m"})}, {"y": [10.0, 20.0]})
    for options, low in ({"labels": False}, 0), ({"domains": {"y": [5, 10]}}, 5), ({}, 0):
        tessera.create("texts_set", made, if_exists="replace", **options)
        back = xr.open_dataset("texts_set", engine="tessera")
        xr.testing.assert_equal(back.load(), made)
        same(next(iter(tessera.open("texts_set/s").bounds.values()))[0], low)
    same(tessera.open("texts_set/s").labels, {"y": "y_index"})
    same((back.s.attrs["flag_values"].tolist(), back.s.attrs["unit"]), ([1, 2], "m"))
    tessera.create("texts_renamed", made, labels={"y": "j"})
    back = xr.open_dataset("texts_renamed", engine="tessera")
    same((back.y.dims, "y" in back.coords, back.sel(y=20).s.values.tolist()), (("j",), True, ["c", "é"]))
    same(tessera.open("texts_renamed/s").labels, {"y": "j"})
    db = sqlite3.connect(":memory:", isolation_level=None)
    tessera.create("db:texts", made, connection=db)
    same(db.execute("SELECT y, s, v FROM texts ORDER BY y, x").fetchall(), [(10, "a", 0.0), (10, "b", 1.0), (20, "c", 2.0), (20, "é", 3.0)])


def dataset():
    random_ = np.random.default_rng(1)
    made = xr.Dataset({"t2m": (("time", "lat", "lon"), random_.random((5, 6, 8), dtype="f4"), {"units": "K", "valid_range": np.array([0.0, 1.0])}),
                       "flag": (("lat", "lon"), np.arange(48, dtype="i2").reshape(6, 8)), "crs": ((), 7, {"epsg": 4326}),
                       "name": (("lat",), np.array(list("abcdef"), object)), "ok": (("time",), np.array([True, False, True, False, True]))},
                      {"time": np.arange("2024-01-01", "2024-01-06", dtype="M8[D]").astype("M8[ns]"), "lat": ("lat", np.linspace(50, 40, 6), {"units": "degrees_north"}),
                       "lon": np.arange(8) * 0.5, "area": (("lat", "lon"), np.ones((6, 8))), "height": 2.0}, {"title": "a set", "n": 3})
    made.t2m[0, 0, 0] = np.nan
    return made


def test_xarray_and_back():
    given = dataset()
    made = tessera.create("set", given)
    same((made["t2m"].dims, made["t2m"].labels), (("time_index", "lat_index", "lon_index"), {"time": "time_index", "lat": "lat_index", "lon": "lon_index"}))
    same(made["t2m"].sel(lat=(43, 47), time="2024-01-02").shape, (1, 2, 8))
    back = xr.open_dataset("set", engine="tessera")
    assert back.t2m.variable._data is not None and not back.t2m._in_memory, "lazy"
    xr.testing.assert_equal(back, given)
    same((back.attrs, back.lat.attrs, back.crs.attrs, back.t2m.attrs["units"], back.t2m.attrs["valid_range"].tolist()),
         ({"title": "a set", "n": 3}, {"units": "degrees_north"}, {"epsg": 4326}, "K", [0, 1]))
    same(set(back.coords), {"time", "lat", "lon", "area", "height"})
    same(set(xr.open_dataset("set", drop_variables=["t2m", "area"]).variables) & {"t2m", "area"}, set(), "guessed, and without variables")
    one = xr.open_dataset("set/t2m", engine="tessera")
    same((one.t2m.sel(lat=slice(47, 43)).shape, one.t2m.sel(lon=1.2, method="nearest").shape), ((5, 2, 8), (5, 6)), "labels are coordinates")
    fails(FileExistsError, "already", lambda: tessera.create("set", given))
    tessera.create("set", given[["flag"]], if_exists="replace", labels={"lat": "y"})
    named = xr.open_dataset("set", engine="tessera")
    same((named.flag.dims, named.lat.dims, tessera.open("set/flag").labels), (("y", "lon"), ("y",), {"lat": "y", "lon": "lon_index"}))
    tessera.create("unlabelled", given, labels=False)
    same((tessera.open("unlabelled/t2m").dims, tessera.open("unlabelled/t2m").labels, tessera.open("unlabelled/lat").attributes), (("time", "lat", "lon"), {}, ("lat_",)), "as TileDB-CF has it")
    xr.testing.assert_equal(xr.open_dataset("unlabelled", engine="tessera"), given)
    fails(ValueError, "two dimensions would be called lat_index", lambda: tessera.create("refused", given[["flag"]].rename_dims(lon="lat_index")))
    fails(ValueError, "strictly", lambda: tessera.create("refused", given.assign_coords(lat=[1, 2, 2, 3, 4, 5.0]), labels={"lat": "y"}))
    fails(NotImplementedError, "MultiIndex", lambda: tessera.create("refused", given.stack(p=["lat", "lon"])))
    fails(TypeError, "complex", lambda: tessera.create("refused", given.assign(c=given.t2m * 1j)))
    assert not [name for name in os.listdir() if name.startswith("refused")], "a failed call leaves nothing"


def test_names_of_coordinates_in_sql():
    """lat is the latitude, in SQL, in slices and in sel(); the position is lat_index. So the answers are those of the Dataset."""
    given, db = dataset(), sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    tessera.create("named", given)
    fails(ValueError, "drop_vars", lambda: tessera.create("db:named", given[["t2m"]], connection=db))
    tessera.create("db:named", given[["t2m"]].drop_vars("area"), connection=db)
    db.execute(f"CREATE VIRTUAL TABLE beside USING tessera('{os.path.abspath('named/t2m')}')")
    same([[name for name, *_ in db.execute(f"SELECT * FROM {table}").description] for table in ("named", "beside")], [["time", "lat", "lon", "t2m"]] * 2)
    part = given.t2m.sel(lat=slice(47, 41), lon=slice(1, 2), time="2024-01-03")
    for table in ("named", "beside"):
        where = "WHERE lat BETWEEN 41 AND 47 AND lon BETWEEN 1 AND 2 AND time = '2024-01-03'"
        count, mean = db.execute(f"SELECT count(*), avg(t2m) FROM {table} {where}").fetchone()
        same((count, round(mean, 6)), (part.size, round(float(part.mean(dtype="f8")), 6)), table)
        same(db.execute(f"SELECT lat_index, lat FROM {table} WHERE lat_index = 2 LIMIT 1").fetchone(), (2, 46.0))
    same(db.execute("SELECT count, round(mean, 6) FROM tessera_aggregate('named/t2m', 't2m', ?)", ('{"lat":[41,47],"lon":[1,2],"time":"2024-01-03"}',)).fetchone(), (count, round(mean, 6)))
    assert np.array_equal(tessera.open("named/t2m").sel(lat=(41, 47), lon=(1, 2), time="2024-01-03").numpy("t2m")[0], part)


def test_coordinates_in_a_database():
    """A Dataset in a database comes back with its coordinates, or is refused and leaves nothing."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    grid = xr.Dataset({"tas": (("time", "lat"), np.arange(6.0).reshape(2, 3), {"units": "K"}), "pr": (("time", "lat"), np.arange(6, dtype="i2").reshape(2, 3))},
                      {"time": np.array(["2024-01-01", "2024-01-02"], "M8[ns]"), "lat": ("lat", [10.0, 15.0, 20.0], {"units": "degrees_north"})}, {"title": "a grid"})
    plain = grid.drop_vars(["time", "lat"])
    cases = [grid, grid.drop_vars("time"), plain, grid.tas.to_dataset(), grid.assign_coords(lat=["a", "b", "é"]), grid.isel(lat=slice(None, None, -1)), plain.assign_coords(height=2.0),
             grid.assign_coords(height=np.float32(2.5), born=np.datetime64("2024-05-06", "ns"), site="here", wait=np.timedelta64(90, "m"), on=True),
             grid.assign_coords(name=("lat", ["a", "b", "c"]), day=("time", [7, 3])), grid.assign_coords(area=(("time", "lat"), np.ones((2, 3)), {"units": "m2"})),
             grid.assign_coords(step=("time", np.array([1, 2], "m8[h]").astype("m8[ns]"))),
             xr.Dataset({"v": ("t", [1.0, 2, 3])}, {"t": [3, 1, 2]}), xr.Dataset({"v": ("t", [1.0, 2, 3])}, {"t": ["b", "c", "a"]}), grid.rename(tas="tas_index")]
    for number, given in enumerate(cases):
        made = tessera.create("db:t", given, connection=db, if_exists="replace")
        same(sorted(made), sorted(given.data_vars))
        back = xr.open_dataset("db:t", engine="tessera", connection=db)
        xr.testing.assert_identical(back.drop_attrs() if number == 7 else back, given.drop_attrs() if number == 7 else given)   # a duration's unit is an encoding
    for given, why in ((grid.assign_coords(lat=[1.0, 3, 2]), "sortby('lat')"), (grid.assign_coords(name=("lat", ["a", "b", "a"])), "a directory"),
                       (grid.assign_coords(lat=[1.0, 1, 2]), "labels rise or fall strictly")):
        fails(ValueError, why, lambda: tessera.create("db:none", given, connection=db))
        same(db.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'none%'").fetchone(), (0,))
        tessera.create("kept", given, if_exists="replace")
        xr.testing.assert_identical(xr.open_dataset("kept", engine="tessera"), given)


def test_labels_keep_their_types():
    """Labels of an array in a database have the dtypes that they have in a directory, whatever the table shows; zones are UTC, durations stay durations."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[D]")
    zone = datetime.timezone(datetime.timedelta(hours=2))
    labels = {"f": np.array([3, 2, 1], "f4"), "i": np.array([-1, 2, 100], "i1"), "u": np.array([1, 2, 2 ** 63 + 5], "u8"), "d": days, "n": days.astype("M8[ns]"), "s": np.array(["a", "b", "é"]),
              "m": np.array([1, 2, 3], "m8[s]"), "z": [datetime.datetime(2020, 1, day, tzinfo=zone) for day in (1, 2, 3)], "h": np.array([1, 2, 3], "f2"), "o": ["x", "yy", "zzz"]}
    made = {name: ("y", values) for name, values in labels.items()}
    tessera.create("typed_labels", np.arange(3), dimensions=["y"], labels=made)
    tessera.create("db:typed_labels", np.arange(3), dimensions=["y"], labels=made, connection=db)
    for options in ("", "datetimes=integer, uint64=signed, labels=no"):
        if options:
            db.execute("SELECT tessera_sync('db:typed_labels', 'typed_out')")
            db.execute(f"CREATE VIRTUAL TABLE shown USING tessera('{os.path.abspath('typed_out')}', {options})")
        read = [xr.open_dataset(path, engine="tessera", connection=c) for path, c in (("typed_labels", None), ("db:shown" if options else "db:typed_labels", db))]
        for name, values in labels.items():
            wanted = np.asarray(values) if name not in "zh" else np.array(["2019-12-31T22", "2020-01-01T22", "2020-01-02T22"], "M8[us]") if name == "z" else np.array([1, 2, 3], "f4")
            for back in read:
                same((back[name].dtype.kind.replace("T", "O").replace("U", "O"), back[name].values.tolist()), (wanted.dtype.kind.replace("U", "O"), wanted.astype(back[name].dtype).tolist()), name)
        same([back.d.dtype for back in read], [read[0].d.dtype] * 2)
    opened = xr.open_dataset("typed_labels", engine="tessera")
    same(opened.value.sel(d="2020-01-02").item() if "d" in opened.indexes else None, 1, "a datetime label of another name")
    a = tessera.open("typed_labels")
    same((a.write_label("f", [9.5, 9.25], 0), a.write_label("d", [datetime.date(2020, 2, 1)], {"y": 2}), a.write_label("s", ["zz"], 2)), (2, 1, 1))
    same((xr.open_dataset("typed_labels", engine="tessera").f.values.tolist(), tessera.open("typed_labels").sel(d="2020-02-01", s="zz").numpy().tolist()), ([9.5, 9.25, 1], [2]))
    fails(ValueError, "which not all of these are", lambda: a.write_label("d", ["2020-03-01T05"], 2))


def test_attributes_of_datasets():
    """Attributes come back with the types that they had, as through NetCDF."""
    values = {"nan": np.nan, "nan32": np.float32("nan"), "gap": np.array([1, np.nan]), "inf": np.array([1, np.inf, -np.inf]), "u8": np.uint64(2 ** 63 + 1), "u8s": np.array([2 ** 63, 1], "u8"),
              "texts": ["a", "[b", 'c"é'], "none": np.array([], "i4"), "f4": np.float32(0.1), "i1": np.int8(5), "i1s": np.array([1, 2], "i1"), "on": True, "flags": np.array([True, False]),
              "n": 7, "x": 0.1, "text": "é", "like": '["a"]', "empty": "", "when": np.datetime64("2024-01-02", "D")}
    tessera.create("attributes", xr.Dataset({"v": ("t", [1.0, 2.0], values)}, attrs=values), if_exists="replace")
    back = xr.open_dataset("attributes", engine="tessera", decode_cf=False)
    for attrs in (back.attrs, back.v.attrs):
        same(sorted(attrs), sorted(values))
        for name, value in values.items():
            if isinstance(value, (str, list)):
                same(attrs[name], value, name)
            else:
                same((np.asarray(attrs[name]).dtype, np.asarray(attrs[name]).tolist().__repr__()), (np.asarray(value).dtype, np.asarray(value).tolist().__repr__()), name)
    packed = xr.Dataset({"v": ("t", np.array([255, 1, 128], "u1"), {"_Unsigned": "false", "_FillValue": np.uint8(255)}), "s": ("t", np.array([1, 2, 3], "i2"), {"scale_factor": np.float32(0.1)})})
    tessera.create("packed_set", packed)
    back = xr.open_dataset("packed_set", engine="tessera")
    same((np.nan_to_num(back.v.values, nan=9).tolist(), back.s.dtype), ([9, 1, -128], np.dtype("f4")))


def test_what_is_refused_of_a_dataset():
    """What has no form in an array or in metadata is an error that names it, and nothing is left."""
    plain = xr.Dataset({"v": ("x", [1.0, 2])})
    for value in (None, {"a": 1}, [1, "a"], [[1], [1, 2]], np.ones((2, 2)), 1j, datetime.date(2001, 1, 1), 2**70, np.timedelta64(1, "s"), object()):
        for given, owner in ((plain.assign_attrs(k=value), "the Dataset has the attribute 'k'"), (plain.assign(v=plain.v.assign_attrs(k=value)), "variable 'v' has the attribute 'k'")):
            fails(TypeError, owner, lambda: tessera.create("refused", given))
    for given, words in ((plain.rename(v=5), "rename({5: '5'})"), (plain.rename(x="__x"), "'__x' begins with '__'"), (plain.assign_attrs({3: 1}), "names of attributes are texts"),
                         (plain.assign(o=("x", np.array([1, "a"], object))), "objects of int, str")):
        fails((TypeError, ValueError), words, lambda: tessera.create("refused", given))
    db = sqlite3.connect(":memory:", isolation_level=None)
    fails(ValueError, "variables 'v' and 'v.units'", lambda: tessera.create("db:refused", plain.assign({"v.units": plain.v}), connection=db))
    assert not os.path.exists("refused") and not db.execute("SELECT 1 FROM sqlite_schema").fetchall()


def test_without_cells():
    """A Dataset whose variables have a length of 0 comes back whole."""
    given = xr.Dataset({"a": (("t", "x"), np.zeros((0, 3))), "b": (("x",), np.arange(3)), "text": (("t",), np.array([], object)), "n": (("t", "q"), np.zeros((0, 4), "f4"))},
                       {"t": np.array([], "M8[ns]")})
    tessera.create("none", given)
    back = xr.open_dataset("none", engine="tessera")
    xr.testing.assert_equal(back, given)
    same((dict(back.sizes), back.n.dtype, float(xr.open_dataset("none", engine="tessera", chunks={}).a.sum())), ({"t": 0, "x": 3, "q": 4}, np.dtype("f4"), 0.0))


def test_replaced_in_one_step():
    """The new array or group takes the old one's place by one call, where the system has it; elsewhere by three renames."""
    given = dataset()
    for name, data in (("replaced", np.zeros(3)), ("replaced_set", given)):
        tessera.create(name, data)
        rename, os.rename = os.rename, None   # nothing is renamed
        try:
            tessera.create(name, data, if_exists="replace")
        finally:
            os.rename = rename
        known, tessera.grids.exchange = tessera.grids.exchange, lambda *paths: False
        try:
            tessera.create(name, data, if_exists="replace")
        finally:
            tessera.grids.exchange = known
    same(([name for name in os.listdir() if name.startswith("replaced")].__len__(), tessera.open("replaced").shape), (2, (3,)), "nothing lies beside them")
    xr.testing.assert_equal(xr.open_dataset("replaced_set", engine="tessera"), given)
    check_replaced()
    os.symlink("replaced", "link")
    fails(PermissionError, "symbolic link", lambda: tessera.create("link", np.zeros(2), if_exists="replace"))
    same((tessera.open("link").shape, [name for name in os.listdir() if ".new-" in name]), ((3,), []))


def check_replaced():
    """An Array whose array another one has replaced says so, in place of no rows; also one dropped and made again, and one in a database."""
    db = sqlite3.connect(":memory:")
    for path, connection in (("again", None), ("db:again", db)):
        table = {"k": [0, 1, 2], "v": [1, 2, 3]}
        tessera.create(path, table, connection=connection, dimensions=["k"])
        at = (None, "2999-01-01")
        for replace in (True, False):
            old = [tessera.open(path, connection=connection, as_of=as_of) for as_of in at]
            parts = [old[0].sel(k=1), old[0].select("v"), *old[0].partitions(2)]
            tessera.create(path, {"k": [0, 1, 2], "v": [4, 5, 6]}, connection=connection, dimensions=["k"], if_exists="append")
            same([pa.table(part.select("v"))["v"].to_pylist() for part in old], [[1, 2, 3], [4, 5, 6]], "an append is no other array")
            if not replace:
                (connection or old[0].connection).execute("DROP TABLE again" if connection else "SELECT tessera_drop('again')")
            tessera.create(path, table, connection=connection, dimensions=["k"], if_exists="replace" if replace else "fail")
            for stale in old + parts:
                for read in (pa.table, lambda a: a.numpy(), lambda a: a.dims, lambda a: a.shape, lambda a: a.bounds, lambda a: a.metadata, lambda a: a.partitions(2),
                             lambda a: a.write("v", np.ones(3, "i8")), lambda a: a.nearest(lat=1), lambda a: a.__arrow_c_schema__()):
                    fails(tessera.Error, f"array {path} was replaced since it was opened: open it again", lambda: read(stale))
            same(pa.table(tessera.open(path, connection=connection))["v"].to_pylist(), [1, 2, 3], "opened again")
    db.close()


def test_what_a_killed_creation_left():
    """The next creation at the same path warns of it, and leaves it: the process may run on another machine. That of a process that runs is no such thing."""
    for data in (np.zeros((2, 3)), xr.Dataset({"v": ("x", [1, 2])}) if xr else np.zeros(2)):
        text = f"""if True:
            import os, signal, sys, tessera, tessera.grids, numpy
            tessera.grids.fill_grid = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            tessera.create("cut off", numpy.zeros(3))"""
        ended = subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, check=False)
        left = [name for name in os.listdir() if name.startswith("cut off.new-")]
        same((ended.returncode, len(left)), (-9, 1), ended.stderr.decode())
        os.makedirs(f"cut off.new-{os.getpid()}-0123456789ab")
        os.makedirs("cut off.new-0123456789ab")   # not one of ours
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            tessera.create("cut off", data)
        same([str(one.message) for one in told], [f"{os.path.abspath(left[0])}: a create() that was cut off has left it: remove it"], "warnings")
        same(sorted(name for name in os.listdir() if name.startswith("cut off")), sorted(["cut off", "cut off.new-0123456789ab", f"cut off.new-{os.getpid()}-0123456789ab", *left]), "all are there")
        for name in [name for name in os.listdir() if name.startswith("cut off")]:
            shutil.rmtree(name)


def test_keys():
    """Arrays and Datasets are encrypted from their first cell on; with the path of a key they pickle, with the key itself they do not."""
    secret = os.urandom(32)
    for name, text in (("key", secret), ("hexkey", secret.hex().encode() + b"\n")):
        with open(name, "wb") as f:
            f.write(text)
        a = tessera.create("secret", np.arange(6.0).reshape(2, 3), key_file=name, if_exists="replace", labels={"lat": ("dim_0", [1.0, 2])}, metadata={"k": 3})
        same((a.numpy().sum(), a.metadata, a.nearest(lat=1.9), a.sel(lat=2).numpy().tolist()), (15, {"k": 3}, {"dim_0": 1}, [[3, 4, 5]]))
        a.write("value", np.ones((1, 3)), {"dim_0": 1})
        same((a.numpy().sum(), pickle.loads(pickle.dumps(a)).numpy().sum(), [part.numpy().sum() for part in a.partitions(1)]), (6, 6, [6]))
        fails(tessera.Denied, "a key is needed", lambda: tessera.open("secret"))
        fails(FileExistsError, "an array already", lambda: tessera.create("secret", np.zeros(2)))
        for folder, _, files in os.walk("secret"):
            for file in files:
                with open(os.path.join(folder, file), "rb") as f:
                    assert b"value" not in f.read(), "an attribute's name is readable"
    tessera.create("secret", np.full((1, 3), 7.0), key_file="key", if_exists="append", origin={"dim_0": 0})
    for key in (secret, secret.hex()):
        opened = tessera.open("secret", key=key)
        same(opened.numpy()[0].tolist(), [7, 7, 7])
        fails(TypeError, "key_file=", lambda: pickle.dumps(opened))
    given = dataset()
    tessera.create("secrets", given, key_file="key")
    xr.testing.assert_equal(xr.open_dataset("secrets", engine="tessera", key_file="hexkey"), given)
    fails(tessera.Denied, "a key is needed", lambda: xr.open_dataset("secrets", engine="tessera"))
    db = sqlite3.connect(":memory:")
    tessera.load(db)
    db.execute("ATTACH ':memory:' AS other")
    for name in ("inside", "other.inside"):
        for values in (np.arange(4), np.arange(5)):
            same(tessera.create(f"db:{name}", values, connection=db, key_file="key", if_exists="replace").numpy().tolist(), values.tolist())
        same(db.execute(f"SELECT sum(value) FROM {name}").fetchone(), (10,), name)
        fails(FileExistsError, "a table already", lambda: tessera.create(f"db:{name}", np.arange(4), connection=db))
    db.close()


def test_newcomers():
    """What a climate scientist and a geneticist tried first, and what they are told where it is not so."""
    given = dataset()[["t2m"]].drop_vars(["area", "height"])
    tessera.create("years", given, domains={"time": [0, 999]})
    later = given.assign_coords(time=given.time + np.timedelta64(5, "D"))
    t2m = tessera.open("years/t2m")
    t2m.write("t2m", later.t2m.values, {"time_index": 5})
    t2m.write_label("time", later.time.values, 5)
    tessera.open("years/time").write("time", later.time.values, {"time_index": 5})
    assert np.array_equal(t2m.sel(time=("2024-01-05", "2024-01-06")).numpy("t2m"), np.concatenate([given.t2m[-1:], later.t2m[:1]]), equal_nan=True)
    xr.testing.assert_equal(xr.open_dataset("years/t2m", engine="tessera"), xr.concat([given, later], "time"))
    xr.testing.assert_equal(xr.open_dataset("years", engine="tessera"), xr.concat([given, later], "time"))
    fails(FileNotFoundError, "it is a group, not an array; its members are lat, lon, t2m, time: open one of its arrays, or all of them with xarray.open_dataset('years', engine='tessera')", lambda: tessera.open("years"))
    genotypes, names = np.arange(600, dtype="i1").reshape(30, 20), [f"S{i:03}" for i in range(20)]
    a = tessera.create("genotypes", {"gt": genotypes}, dimensions=["variant", "sample"], labels={"name": ("sample", names)})
    same((a.sel(name=("S007", "S009")).shape, a.sel(name="S007").numpy()[:, 0].tolist(), a.sel(name="nosuch").numpy().size), ((30, 3), genotypes[:, 7].tolist(), 0))
    opened = xr.open_dataset("genotypes", engine="tessera")
    same((opened.name.values.tolist(), opened.gt.sel(name=["S001", "S005"]).values.tolist()), (names, genotypes[:, [1, 5]].tolist()), "labels that are texts")
    fails(TypeError, "expected (dimension, values), as in labels={'name': ('sample', [...])}", lambda: tessera.create(
        "refused", {"gt": genotypes}, dimensions=["variant", "sample"], labels={"name": names}))
    fails(TypeError, "create_csv() a CSV file", lambda: tessera.create("refused", [{"a": 1}]))
    fails(tessera.NotFound, "file.csv: no such file", lambda: tessera.create("refused", "file.csv"))


def test_indexers():
    values = np.arange(5 * 11 * 7, dtype="i4").reshape(5, 11, 7)
    tessera.create("indexed", {"v": values}, dimensions=["a", "b", "c"], domains={"b": [-4, 20]}, extents={"a": 2, "b": 4, "c": 3})
    opened = xr.open_dataset("indexed", engine="tessera", cache=False)
    same(opened.v.encoding["preferred_chunks"], {"a": (2, 2, 1), "b": (4, 4, 3), "c": (3, 3, 1)}, "chunks that are tiles")
    same(opened.b.values.tolist(), list(range(-4, 7)), "coordinates")
    seed = random.randrange(1 << 30)
    choose = np.random.default_rng(seed)
    for _ in range(80):
        key, expected, axis = {}, values, 0
        for name, length in zip("abc", values.shape):
            kind = choose.integers(4)
            part = int(choose.integers(-length, length)) if kind == 0 else choose.integers(-length, length, choose.integers(0, 5)) if kind == 1 else \
                choose.random(length) < 0.4 if kind == 2 else slice(*sorted(choose.integers(0, length + 2, 2).tolist()), [None, 1, 3][choose.integers(3)])
            if kind == 3 and choose.integers(2):   # xarray itself loses empty slices that go down
                part = slice(length - 1 - int(choose.integers(length)), None, -int(choose.integers(1, 4)))
            key[name] = part
            expected = expected[(slice(None),) * axis + (part,)]
            axis += kind != 0
        got = opened.v.isel(key).values
        assert got.shape == expected.shape and np.array_equal(got, expected), f"seed {seed}: {key}"
    points = {"a": xr.DataArray([0, 4, 2], dims="p"), "c": xr.DataArray([6, 0, 0], dims="p")}
    same(opened.v.isel(points).values.tolist(), values[[0, 4, 2], :, [6, 0, 0]].tolist(), "points")
    fails(IndexError, "", lambda: opened.v.isel(a=9).values)
    tessera.create("points", {"a": [1.5, 2], "v": [1, 2]}, dimensions=["a"])
    fails(ValueError, "sparse", lambda: xr.open_dataset("points", engine="tessera"))
    fails(TypeError, "sparse", lambda: tessera.open("points").numpy("v"))


def test_dask():
    try:
        import dask
        import dask.array
    except ImportError:
        print("SKIPPED: dask is not installed")
        return
    values = np.arange(10000, dtype="f8").reshape(100, 100)
    a = tessera.create("chunked", values, extents={"dim_0": 40, "dim_1": 50})
    lazy = a.dask()
    same(lazy.chunks, ((40, 40, 20), (50, 50)))
    opened = xr.open_dataset("chunked", engine="tessera", chunks={})
    same(opened.value.chunks, lazy.chunks)
    pool = concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))   # one for all: each process imports much
    for scheduler in ("synchronous", "threads", "processes"):
        how = {"scheduler": scheduler, **({"pool": pool} if scheduler == "processes" else {})}
        same((float(lazy[::3, 4:].sum().compute(**how)), float(opened.value.mean().compute(**how))),
             (float(values[::3, 4:].sum()), float(values.mean())), scheduler)
    tessera.create("twice", opened.rename(value="twice") * 2)
    same(tessera.open("twice/twice").numpy().tolist(), (values * 2).tolist(), "a chunked Dataset is written")
    same([int(row[0]) for row in tessera.open("twice/twice")._rows("SELECT tile FROM tessera_schema('twice/twice') WHERE role = 'dimension'")], [40, 50], "its chunks are tiles")
    db = sqlite3.connect("chunked.db", check_same_thread=False)
    inside = tessera.create("db:chunked", values, extents={"dim_0": 40, "dim_1": 50}, connection=db)
    dataset_inside = xr.open_dataset("db:chunked", engine="tessera", connection=db, chunks={})
    same([float(part.compute(scheduler="processes", pool=pool)) for part in (inside.dask().sum(), dataset_inside.value.mean())], [float(values.sum()), float(values.mean())], "processes")
    pool.shutdown()
    db.close()
    parts = a.partitions(4)
    same(sum(part.numpy().size for part in parts), 10000)
    try:
        import dask.dataframe as dd
        import pyarrow
    except ImportError:
        print("SKIPPED: dask.dataframe is not installed")
        return
    frame = dd.from_map(lambda part: pyarrow.table(part).to_pandas(), parts)
    same(float(frame.value.sum().compute(scheduler="threads")), float(values.sum()))
    try:
        import distributed
    except ImportError:
        print("SKIPPED: distributed is not installed")
        return
    with open("key", "wb") as f:
        f.write(os.urandom(32))
    secret = tessera.create("chunked_secret", values, extents={"dim_0": 40, "dim_1": 50}, key_file="key")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        same(len(set(client.run(os.getpid).values()) - {os.getpid()}), 2, "workers that are processes")
        frame = dd.from_map(lambda part: pyarrow.table(part).to_pandas(), secret.partitions(4))
        found = client.gather([client.compute(part) for part in (lazy[::3, 4:].sum(), opened.value.mean(), secret.dask().sum(), frame.value.sum())])
        same([float(part) for part in found], [float(part) for part in (values[::3, 4:].sum(), values.mean(), values.sum(), values.sum())], "across workers")


def with_tiledb(*lines):
    """Runs Python with TileDB in a process of its own, without the sanitizer's library, which TileDB's exceptions do not get on with."""
    code = "import sys, os, numpy as np, xarray as xr\ntry: import tiledb, tiledb.cf\nexcept ImportError: sys.exit(77)\n" + "\n".join(lines)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 77):
        raise AssertionError(f"TileDB's part failed:\n{code}")
    return None if done.returncode else done.stdout


def test_tiledb_cf():
    given = dataset()[["t2m", "flag"]].drop_vars(["area", "height"])
    given = given.assign_coords(time=("time", np.arange(5) * 6, {"units": "hours since 2000-01-01"}))
    with open("given.pickle", "wb") as f:
        pickle.dump(given, f)
    # The second is what GDAL's multidimensional driver writes: an array for each variable, whose labels are called DIM_label.
    if with_tiledb("import pickle", "tiledb.cf.from_xarray(pickle.load(open('given.pickle', 'rb')), 'cf')", "tiledb.Group.create('gdal')",
                   "domain = tiledb.Domain(tiledb.Dim('lat', domain=(0, 5), tile=3, dtype='uint64'))",
                   "labels = {0: {'lat_label': tiledb.DimLabelSchema('decreasing', 'f8')}}",
                   "tiledb.Array.create('gdal/depth', tiledb.ArraySchema(domain, [tiledb.Attr('depth', dtype='f4')], dim_labels=labels))",
                   "with tiledb.open('gdal/depth', 'w') as array:",
                   "    array[:] = {'depth': np.arange(6, dtype='f4'), 'lat_label': np.linspace(50, 40, 6)}", "    array.meta['unit'] = 'm'",
                   "with tiledb.Group('gdal', 'w') as group: group.add(os.path.abspath('gdal/depth'), 'depth')") is None:
        print("SKIPPED: tiledb-cf is not installed")
        return
    xr.testing.assert_equal(xr.open_dataset("cf", engine="tessera", decode_times=False), given)
    same(str(xr.open_dataset("cf", engine="tessera").time.values[1])[:13], "2000-01-01T06", "CF decoding")
    read = xr.open_dataset("gdal", engine="tessera")
    same((read.depth.values.tolist(), read.lat.values.tolist(), read.depth.attrs), ([0, 1, 2, 3, 4, 5], [50, 48, 46, 44, 42, 40], {"unit": "m"}))
    tessera.create("ours", given, labels=True)
    seen = with_tiledb("with tiledb.Group('ours') as group: print(sorted(member.name for member in group), sorted(dict(group.meta).items()))",
                       "with tiledb.open('ours/t2m') as array: print(float(np.nansum(array[:]['t2m'])), array.meta['__tiledb_attr.t2m.units'])")
    same(seen, f"{sorted(given.variables)} {sorted(given.attrs.items())}\n{float(np.nansum(given.t2m.values))} K\n")


def test_append():
    """A Dataset goes on behind another one, array by array; a call that is made twice changes nothing; what does not fit leaves all as it was."""
    n = 20
    whole = xr.Dataset({"t": (("time", "lat", "lon"), np.arange(n * 12, dtype="f4").reshape(n, 3, 4), {"units": "K"}), "land": (("lat", "lon"), np.ones((3, 4), "i1")),
                        "total": (("time",), np.arange(n) * 1.5)},
                       {"time": np.arange("2024-01-01", "2024-01-21", dtype="M8[D]").astype("M8[ns]"), "lat": [3.0, 2.0, 1.0], "lon": [1.0, 2.0, 3.0, 4.0], "step": (("time",), np.arange(n) % 3)})
    part = lambda begin, end: whole.isel(time=slice(begin, end))
    shapes = lambda: [tessera.open(f"goes-on/{name}").shape for name in ("t", "total", "time")]
    tessera.create("goes-on", part(0, 7), grow=["time"])
    tessera.create("goes-on", part(7, 8), if_exists="append")
    tessera.create("goes-on", part(8, n), if_exists="append")
    tessera.create("goes-on", part(12, n), if_exists="append")
    tessera.create("goes-on", part(5, 9).assign(t=part(5, 9).t * 1), if_exists="append")
    xr.testing.assert_equal(xr.open_dataset("goes-on", engine="tessera").load()[list(whole.variables)], whole[list(whole.variables)])
    before = shapes()
    moved = lambda *days: part(0, len(days)).assign_coords(time=np.array(days, "M8[ns]"))
    stepless = whole.assign_coords(time=whole.time.where(whole.step > 0))
    for words, data in (("at {'lat_index': 0, 'lon_index': 0} it is 2, and there 1. An append leaves such a variable as it is", whole.assign(land=whole.land * 2)), ("no variable total", whole.drop_vars("total")),
                        ("no variable 'more'", whole.assign(more=whole.total)), ("2020-01-20 00:00:00 is new, and does not continue the group's, whose last value is 2024-01-20", moved("2020-01-20", "2020-01-25")),
                        ("2023-12-31 00:00:00 is new", moved("2024-03-02", "2023-12-31", "2024-01-02")), ("no variable time", whole.drop_vars("time")),
                        ("has 2024-01-03 00:00:00 twice", moved("2024-01-03", "2024-02-01", "2024-01-03")), ("has no value at some places", stepless)):
        fails(tessera.Constraint, words, lambda: tessera.create("goes-on", data, if_exists="append"))
    same(shapes(), before, "an append that fails makes nothing longer")
    falling = whole.drop_vars("step")[["t"]].isel(time=slice(None, None, -1))
    tessera.create("falling", falling.isel(time=slice(0, 9)), grow=["time"])
    tessera.create("falling", falling.isel(time=slice(9, n)), if_exists="append")
    same(float(xr.open_dataset("falling", engine="tessera").t.sel(time="2024-01-03").sum()), float(whole.t.sel(time="2024-01-03").sum()), "labels that fall")
    lazy = whole.chunk({"time": 5})   # read part by part; and axes in another order
    tessera.create("lazy", lazy.isel(time=slice(0, 7)), grow=["time"])
    tessera.create("lazy", lazy.isel(time=slice(7, n)).transpose("lat", "lon", "time"), if_exists="append")
    xr.testing.assert_equal(xr.open_dataset("lazy", engine="tessera").load()[list(whole.variables)], whole[list(whole.variables)])
    db = sqlite3.connect(":memory:")
    tessera.load(db)
    tessera.create("db:model", falling.isel(time=slice(0, 9)), grow=["time"], connection=db)
    tessera.create("db:model", falling.isel(time=slice(9, n)), if_exists="append", connection=db)
    same(xr.open_dataset("db:model", engine="tessera", connection=db).t.shape, (n, 3, 4), "in a database")
    fails(KeyError, "'grow'", lambda: tessera.create("other", whole, grow=["level"]))


def appended(old, new, dim, falls=False):
    """What xarray makes of a Dataset and of one that goes behind it, and replaces the steps that are there."""
    together = xr.concat([old, new], dim, data_vars="minimal", coords="minimal", compat="equals", join="exact").drop_duplicates(dim, keep="last").sortby(dim, ascending=not falls)
    return together.transpose(*old.sizes)


def test_append_of_steps_that_are_there_and_later_ones():
    """Steps that exist are replaced, later ones go behind them, whatever their order and gaps are, and whatever the coordinate is."""
    db, n = sqlite3.connect(":memory:", isolation_level=None), 12
    tessera.load(db)
    times = {"instants": np.arange("2024-01-01", "2024-01-13", dtype="M8[D]").astype("M8[ns]"), "reals": np.arange(n) * 0.5 - 2, "texts": np.array([f"é{step:02}" for step in range(n)]), "integers": np.arange(n) * 7 - 9,
             "durations": (np.arange(n) * 6).astype("m8[h]").astype("m8[ns]")}
    choose = random.Random(5)
    for kind, steps in times.items():
        for falls in (False, True):
            whole = xr.Dataset({"t": (("time", "lat"), np.arange(n * 3, dtype="f4").reshape(n, 3), {"units": "K"}), "name": ("time", np.array([f"s{step}" for step in range(n)], object))},
                               {"time": steps[::-1] if falls else steps, "lat": [3.0, 2, 1]})
            chunked = [whole.chunk({"time": 2})] if dask and kind == "reals" else []
            for both in [whole, *chunked]:
                path = f"mixed-{kind}-{falls}-{len(both.chunks)}"
                for place, given, options in ((path, both, {}), (f'db:"{path}"', both[["t"]], {"connection": db})):
                    known = given.isel(time=slice(0, 6))
                    tessera.create(place, known, grow=["time"], **options)
                    for some in ([4, 5, 6, 7], [1, 3, 8], [8, 7, 2, 9], choose.sample(range(n), 7)):
                        new = given.isel(time=some)
                        new = new.assign(t=new.t + 100)
                        for _ in range(2):   # the same again changes nothing
                            tessera.create(place, new, if_exists="append", **options)
                        known = appended(known.compute(), new.compute(), "time", falls)
                        back = xr.open_dataset(place, engine="tessera", decode_timedelta=False, **options).load()
                        xr.testing.assert_equal(back[list(known.variables)], known)
                if both is whole:   # one commit for each run of neighbours
                    before = len(os.listdir(f"{path}/t/__commits"))
                    tessera.create(path, whole.isel(time=[1, 2, 3, 7, 9, 8]), if_exists="append")
                    same(len(os.listdir(f"{path}/t/__commits")) - before, 2, "commits")
    db.close()


def test_append_of_other_units():
    """What tells the meaning of a number must be the same, or is converted without loss: units, epochs, calendars, scales, the precision of instants."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    days = xr.date_range("2001-02-26", periods=6, calendar="noleap", use_cftime=True) if has_cftime else None
    whole = xr.Dataset({"t": (("time", "x"), np.arange(12.0).reshape(6, 2), {"units": "K"})}, {"time": days, "x": ("x", [1.0, 2], {"units": "degrees_east"})}) if has_cftime else None
    plain = xr.Dataset({"t": (("time", "x"), np.arange(12.0).reshape(6, 2), {"units": "K"})}, {"time": np.arange("2001-02-26", "2001-03-04", dtype="M8[D]").astype("M8[ns]"), "x": ("x", [1.0, 2], {"units": "degrees_east"})})
    raw = plain.assign_coords(time=("time", np.arange(6), {"units": "days since 2001-02-26", "calendar": "noleap"}))
    for place, options in (("units", {}), ("db:units", {"connection": db})):
        read = lambda **more: xr.open_dataset(place, engine="tessera", **options, **more).load()
        for given in filter(lambda one: one is not None, (whole, plain)):
            tessera.create(place, given.isel(time=slice(0, 3)), grow=["time"], if_exists="replace", **options)
            celsius = given.isel(time=slice(3, 6)).assign(t=(given.t[3:] - 273.15).assign_attrs(units="degC"))
            for wrong, words in ((celsius, "variable 't' has the attribute units='degC', and in the group 'K'"), (given.assign(t=given.t.assign_attrs(scale_factor=0.5)), "scale_factor=0.5, and in the group none"),
                                 (given.assign(t=given.t.assign_attrs(flag_values=[1, 2])), "flag_values=[1, 2]"), (given.assign_coords(x=given.x.assign_attrs(units="m")), "variable 'x' has the attribute units='m', and in the group 'degrees_east'")):
                fails(tessera.Constraint, words, lambda: tessera.create(place, wrong, if_exists="append", **options))
            tessera.create(place, given.isel(time=slice(2, 6)).drop_attrs(), if_exists="append", **options)   # attributes that a computation lost
            xr.testing.assert_identical(read(), given)
        if whole is not None:   # the epoch of later steps is another one as long as nobody says which
            later = whole.assign_coords(time=xr.date_range("2001-03-04", periods=6, calendar="360_day", use_cftime=True))
            tessera.create(place, whole, grow=["time"], if_exists="replace", **options)
            fails(tessera.Constraint, "'time' has the calendar '360_day', and in the group 'noleap': convert_calendar('noleap')", lambda: tessera.create(place, later, if_exists="append", **options))
            fails(tessera.Mismatch, "no whole numbers of", lambda: tessera.create(place, whole.assign_coords(time=days + datetime.timedelta(days=9, hours=6)), if_exists="append", **options))
            tessera.create(place, plain, grow=["time"], if_exists="replace", **options)
            fails(tessera.Mismatch, "dates of the calendar 'noleap', and in the group datetime64[ns]", lambda: tessera.create(place, whole, if_exists="append", **options))
        tessera.create(place, raw, grow=["time"], if_exists="replace", **options)
        fails(tessera.Constraint, "units='days since 2001-03-01', and in the group 'days since 2001-02-26'", lambda: tessera.create(place, raw.assign_coords(time=raw.time.assign_attrs(units="days since 2001-03-01")), if_exists="append", **options))
        fails(tessera.Constraint, "units=none", lambda: tessera.create(place, raw.drop_attrs(), if_exists="append", **options))
        tessera.create(place, plain.isel(time=slice(0, 4)), grow=["time"], if_exists="replace", **options)
        for unit in ("s", "us"):
            tessera.create(place, plain.assign_coords(time=plain.time.astype(f"M8[{unit}]")), if_exists="append", **options)
        xr.testing.assert_identical(read(), plain)
        tessera.create(place, plain.assign_coords(time=plain.time.astype("M8[s]")).isel(time=slice(0, 3)), grow=["time"], if_exists="replace", **options)
        fails(tessera.Mismatch, "'time' is datetime64[ns], and the group has datetime64[s], which would cut its values", lambda: tessera.create(place, plain.assign_coords(time=plain.time + np.timedelta64(1, "ms")), if_exists="append", **options))
    db.close()


def test_append_is_aligned():
    """As xarray aligns by coordinates, so does an append: axes in another order, coordinates in another order. What does not fit is told."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    tessera.load(db)
    whole = xr.Dataset({"t": (("time", "lat", "name"), np.arange(60.0).reshape(5, 3, 4))}, {"time": np.arange(5), "lat": [50.0, 45, 40], "name": ["a", "d", "e", "z"]})
    kept = whole.assign(land=(("lat", "name"), np.arange(12).reshape(3, 4)), area=(("time", "name"), np.arange(20).reshape(5, 4)), mixed=(("row",), [1, 2]))
    unsorted = kept.assign_coords(name=["d", "a", "z", "e"], row=[7, 3])   # these are no labels, but coordinates they are
    for number, given in enumerate((whole, kept, unsorted)):
        for place, options in ((f"aligned{number}", {}), *([(f"db:aligned{number}", {"connection": db})] if given is whole else [])):
            tessera.create(place, given.isel(time=slice(0, 2)), grow=["time"], **options)
            for time, change in ((slice(1, 3), lambda part: part.isel(lat=slice(None, None, -1))), (slice(3, 4), lambda part: part.transpose("name", "time", "lat", ...).isel(name=[3, 1, 0, 2])),
                                 (slice(2, 5), lambda part: part.sortby(["name", "lat"]).transpose(..., "time"))):
                tessera.create(place, change(given.isel(time=time)), if_exists="append", **options)
            back = xr.open_dataset(place, engine="tessera", **options).load()
            xr.testing.assert_identical(back[list(given.variables)], given)
            for wrong, words in ((given.isel(lat=[0, 1]), "coordinate 'lat': the Dataset lacks 40.0, which the group has, and 'lat' does not grow: select from the Dataset, or reindex it"),
                                 (given.assign_coords(lat=[50.0, 45, 41]), "coordinate 'lat': the Dataset lacks 40.0"), (given.assign_coords(name=["a", "d", "e", "é"]), "the Dataset lacks 'z'"),
                                 (given.pad(lat=(0, 1), constant_values=0).assign_coords(lat=[50.0, 45, 40, 35]), "the Dataset has 35.0, which the group lacks"), (given.isel(lat=[0, 1, 1, 2]), "coordinate 'lat' has a value twice")):
                fails(tessera.Constraint, words, lambda: tessera.create(place, wrong, if_exists="append", **options))
    bare = whole.drop_vars(["lat", "name"])
    tessera.create("aligned-bare", bare.isel(time=[0]), grow=["time"])
    fails(tessera.Constraint, "the Dataset has 1 cells along 'lat', and the group 3: it does not grow along 'lat'", lambda: tessera.create("aligned-bare", bare.isel(lat=[0]), if_exists="append"))
    for options in ({"labels": False}, {"labels": {"lat": "y"}}):
        tessera.create("aligned-names", whole.isel(time=slice(0, 3)), grow=["time"], if_exists="replace", **options)
        tessera.create("aligned-names", whole.isel(time=slice(3, 5)), if_exists="append")   # the names are those of the group
        back = xr.open_dataset("aligned-names", engine="tessera").load()
        same(back.t.values.tolist(), whole.t.values.tolist(), f"{options}")
    months = whole.assign_coords(month=("time", [1, 2, 1, 2, 3]), height=2.0)   # it rises in the first call alone
    tessera.create("aligned-months", months.isel(time=slice(0, 2)), grow=["time"])
    tessera.create("aligned-months", months.isel(time=slice(1, 5)), if_exists="append")
    xr.testing.assert_identical(xr.open_dataset("aligned-months", engine="tessera").load()[list(months.variables)], months)
    tessera.create("db:heights", months.drop_vars("month").isel(time=slice(0, 2)), grow=["time"], connection=db)
    for path, options in (("aligned-months", {}), ("db:heights", {"connection": db})):
        higher = months.assign_coords(height=10.0) if not options else months.drop_vars("month").assign_coords(height=10.0)
        fails(tessera.Constraint, "'height'", lambda: tessera.create(path, higher, if_exists="append", **options))
    stations = xr.Dataset({"v": ("obs", np.arange(6.0))}, {"when": ("obs", np.arange(6) * 10)})   # a label of a dimension that has no coordinate of its own
    tessera.create("aligned-obs", stations.isel(obs=slice(0, 3)), grow=["obs"])
    for part in (slice(3, 5), slice(2, 6)):
        tessera.create("aligned-obs", stations.isel(obs=part), if_exists="append")
    same(xr.open_dataset("aligned-obs", engine="tessera").v.values.tolist(), stations.v.values.tolist())
    db.close()


def test_append_that_fails():
    """An append that ends in the middle is ended by the same call again, also along a dimension without labels; one that does not fit begins nothing."""
    from tessera import grids
    first = xr.Dataset({name: (("obs", "x"), np.arange(12.0).reshape(4, 3) + i) for i, name in enumerate("abc")})
    more, fill, filled = first + 100, grids.fill_grid, []
    ends = lambda path: [tessera.open(f"{path}/{name}").shape[0] for name in first.variables]

    def fill_some(array, blocks, lengths, origin):   # all of some arrays, and a part of the next one
        if len(filled) < arrays:
            filled.append(array)
            return fill(array, blocks, lengths, origin)
        fill(array, {name: block[:2] for name, block in blocks.items()}, {**lengths, "obs": 2}, origin)
        raise KeyboardInterrupt

    for arrays in range(3):
        path = f"fails{arrays}"
        tessera.create(path, first, grow=["obs"])
        filled.clear()
        grids.fill_grid = fill_some
        try:
            tessera.create(path, more, if_exists="append")
        except KeyboardInterrupt:
            grids.fill_grid = fill
        fails(tessera.Constraint, "an append of 4 cells along 'obs' has begun", lambda: tessera.create(path, more.isel(obs=[0]), if_exists="append"))
        tessera.create(path, more, if_exists="append")
        xr.testing.assert_equal(xr.open_dataset(path, engine="tessera").load(), xr.concat([first, more], "obs"))
        tessera.create(path, first.isel(obs=slice(0, 0)), if_exists="append")   # nothing to add
        same(ends(path), [8, 8, 8], "what was begun is ended, once")
        fails(tessera.Mismatch, "'c' is float32, and the cells of array", lambda: tessera.create(path, more.assign(c=more.c.astype("f4")), if_exists="append"))
        same(ends(path), [8, 8, 8], "a Dataset of other types begins nothing")
        tessera.create(path, more, if_exists="append")
        same(ends(path), [12, 12, 12], "the next append goes on behind")
    whole = first.rename(obs="time").assign_coords(time=[1, 2, 3, 4])   # with labels
    for arrays in range(4):
        path, later = f"fails-labelled{arrays}", (whole + 100).assign_coords(time=[4, 5, 6, 7])
        tessera.create(path, whole, grow=["time"])
        filled.clear()
        grids.fill_grid = lambda array, blocks, lengths, origin: fill_some(array, blocks, {("obs" if dim == "time_index" else dim): length for dim, length in lengths.items()}, origin) if len(filled) >= arrays else \
            (filled.append(array), fill(array, blocks, lengths, origin))
        try:
            tessera.create(path, later, if_exists="append")
        except (KeyboardInterrupt, KeyError):
            pass
        grids.fill_grid = fill
        fails(tessera.Constraint, "an append along 'time' has begun and not ended", lambda: tessera.create(path, later.assign_coords(time=[4, 8, 9, 10]), if_exists="append"))
        tessera.create(path, later, if_exists="append")
        xr.testing.assert_equal(xr.open_dataset(path, engine="tessera").load(), appended(whole, later, "time"))
    days = xr.Dataset({"v": ("t", [0.0, 1.0, 2.0])}, {"t": [3, 1, 2]})   # the values of t are no labels, since they neither rise nor fall
    tessera.create("days", days, grow=["t"])
    for _ in range(2):
        tessera.create("days", days.assign_coords(t=[7, 5, 6]) + 10, if_exists="append")
    same([tessera.open(f"days/{name}").numpy().tolist() for name in "vt"], [[0, 1, 2, 10, 11, 12], [3, 1, 2, 7, 5, 6]], "coordinates that are there already are replaced in all arrays")


def test_pages():
    """The Python of docs/dataframes.md and docs/arrays-in-python.md runs, and what it says of its results holds."""
    try:
        import pandas
        import polars
    except ImportError as e:
        print(f"SKIPPED: {e.name} is not installed")
        return
    if not hasattr(pandas.DataFrame, "from_arrow"):
        print("SKIPPED: this pandas is older than the page")
        return
    blocks = []
    for page in ("dataframes.md", "arrays-in-python.md"):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", page), encoding="utf-8") as f:
            blocks += re.findall(r"^```python\n(.*?)^```", f.read(), re.M | re.S)
    os.makedirs("page")
    os.chdir("page")
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for block in blocks:
            exec(block, names)
    assert len(blocks) > 12, f"the pages have {len(blocks)} examples"
    same((names["weather"].dims, len(names["back"]), names["relief"].shape), (("station", "day"), 4, (6, 4)))
    same(float(names["total"]), 66.0 * 3)
    fails(FileExistsError, "already", lambda: names["tessera"].create("weather", names["frame"]))
    moved = pickle.dumps(names["relief"])
    os.chdir("..")
    same(pickle.loads(moved).shape, (6, 4), "a pickled Array finds its place from elsewhere")
    for part in ("CREATE VIRTUAL TABLE", "18.5", "Basel"):
        assert part in printed.getvalue(), printed.getvalue()
    names["db"].close()


def test_without_numpy():
    """`import tessera` needs nothing, and arrays open without numpy and pyarrow."""
    code = ("import sys\nfor name in ('numpy', 'pyarrow', 'pandas', 'xarray'): sys.modules[name] = None\n"
            "import tessera\na = tessera.open('blocks')\nprint(a.dims, a.shape, 'arrow_array_stream' in repr(a.__arrow_c_stream__()))")
    same(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout, "('dim_0', 'dim_1') (3, 4) True\n")


if __name__ == "__main__":
    run(globals(), "ndarrays and Datasets come back as they were")
