"""Random Datasets of xarray and DataFrames of pandas go in and come back identical, or are refused with words, and then nothing is left. xarray and
pandas themselves compare.

usage: round_trips.py EXTENSION [COUNT [SEED]]
"""
import datetime
import decimal
import importlib
import os
import random
import sqlite3
import sys
import tempfile
import uuid
import warnings

from package import fails, install, libraries, library

np, pd, pa, xr = libraries("numpy", "pandas", "pyarrow", "xarray")
cftime, dask = library("cftime"), library("dask")

NAMES = ["x", "y", "lat", "time", "a b", "é", "v", "v.units", "v.data", "x_", "lat_index", "say \"hi\"", "it's", "%", "x;y", "select", "T2", "value", "[0]", "a\nb", "data.index", "🌍", " lead"]
TYPES = ["i1", "u1", "i2", "<i4", ">i4", "u4", "i8", "u8", "f4", ">f4", "f8", "?", "M8[ns]", "M8[s]", "m8[ns]", "m8[s]", "U", "O", "S", "f2", "cf"]


def values(choose, dtype, shape):
    """Returns an ndarray with the edges of its type among its values."""
    count = int(np.prod(shape, dtype=int))
    if dtype == "cf":
        start, calendar = choose.randint(-400, 400), choose.choice(["noleap", "360_day", "julian", "all_leap"])
        made = [cftime.num2date(start + choose.randint(0, 3000) / choose.choice([1, 4]), "days since 2000-01-01", calendar) for _ in range(count)]
        return np.array(made, object).reshape(shape)
    if dtype in "UOS":
        made = ["".join(choose.choice("aé \"'z🌍\n") for _ in range(choose.randint(0, 5))) for _ in range(count)]
        made = [text.encode() for text in made] if dtype == "S" else [None if dtype == "O" and choose.random() < 0.2 else text for text in made]
        return np.array(made, {"U": "U", "S": "S"}.get(dtype, object)).reshape(shape)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([choose.random() < 0.5 for _ in range(count)], bool).reshape(shape)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return np.array([choose.choice([ends.min, ends.max, 0, 1, choose.randint(ends.min, ends.max)]) for _ in range(count)], dtype).reshape(shape)
    if dtype.kind == "f":
        return np.array([choose.choice([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, 1e-7, choose.gauss(0, 10)]) for _ in range(count)], dtype).reshape(shape)
    made = np.array([choose.randint(-10**9, 10**9) for _ in range(count)], "i8").view(dtype.str.replace(">", "<")).reshape(shape)
    made[np.array([choose.random() < 0.1 for _ in range(count)], bool).reshape(shape)] = "NaT"
    return made


def coordinate(choose, length):
    """Returns the values of a coordinate with one dimension: they rise, fall, are unsorted, are twice there, or have gaps."""
    made = choose.choice([np.arange(length), np.arange(length)[::-1].copy(), np.arange(length) * 0.25 - 3, np.linspace(90, -90, max(length, 1))[:length], np.arange(length).astype("f4"),
                          np.array("2000-01-01", "M8[ns]") + np.arange(length).astype("m8[D]"), np.arange(length).astype("m8[h]").astype("m8[ns]"), np.array([f"n{i}" for i in range(length)], object),
                          np.array([f"n{i}" for i in range(length)], "U"), np.arange(length, dtype="u1"), np.arange(length) % 2 == 0, np.zeros(length), values(choose, "f8", (length,)),
                          np.array([choose.randint(0, 9) for _ in range(length)]), np.array([choose.choice("abc") for _ in range(length)], object)])
    return xr.date_range("2001-02-26", periods=max(length, 1), calendar="noleap", use_cftime=True)[:length] if cftime and choose.random() < 0.1 and length else made


def attributes(choose):
    offers = {"units": choose.choice(["K", "m s-1", "é", ""]), "n": 7, "x": 0.1, "f4": np.float32(0.1), "i2": np.int16(-3), "u8": np.uint64(2**63 + 1), "on": np.bool_(True), "true": True, "list": [1, 2, 3],
              "reals": np.array([1.5, np.nan]), "texts": ["a", "b c"], "one": ["a"], "empty": np.array([], "f4"), "a.b": 1, "day": np.datetime64("2001-01-01", "D"), "é \"": "x", "text": np.str_("y"), "nan": np.nan}
    return {name: offers[name] for name in choose.sample(sorted(offers), choose.choice([0, 0, 1, 4]))}


def make(choose):
    """Returns a random Dataset, with what a newcomer's may have."""
    names = choose.sample(NAMES, len(NAMES)) if choose.random() < 0.5 else [name for name in NAMES if name.isidentifier()]
    names += ["__x"] if choose.random() < 0.03 else []
    dims = {names.pop(): choose.choice([0, 1, 2, 3, 5, 5]) if choose.random() < 0.3 else choose.randint(1, 6) for _ in range(choose.randint(1, 3))}
    types, variables, coordinates = [kind for kind in TYPES if kind != "cf" or cftime], {}, {}
    for dim, length in dims.items():
        if choose.random() < 0.7:
            coordinates[dim] = (dim, coordinate(choose, length), attributes(choose))
    for _ in range(choose.randint(1, 4)):
        chosen = choose.sample(sorted(dims), choose.randint(0, len(dims)))
        variables[names.pop()] = (chosen, values(choose, choose.choice(types), tuple(dims[dim] for dim in chosen)), attributes(choose))
    for _ in range(choose.randint(0, 3)):
        chosen = choose.sample(sorted(dims), choose.randint(0, len(dims)))
        kind = choose.choice(types)
        made = coordinate(choose, dims[chosen[0]]) if len(chosen) == 1 and choose.random() < 0.5 else values(choose, kind, tuple(dims[dim] for dim in chosen))
        coordinates[names.pop()] = (chosen, made, attributes(choose))
    made = xr.Dataset(variables, coordinates, attributes(choose))
    for variable in made.variables.values():   # those of dates are their encoding
        if variable.dtype.kind == "O" and any(hasattr(value, "calendar") for value in variable.values.flat):
            variable.attrs.pop("units", None)
    if choose.random() < 0.3 and "units" not in str(made.attrs):
        made.attrs["history"] = "made"
    for name in list(made.variables):   # as a file had packed it: the values are what counts
        if choose.random() < 0.1 and made[name].dtype.kind == "f":
            made[name].encoding.update(scale_factor=0.5, add_offset=1.0, _FillValue=-9, dtype="i2")
    return made.chunk() if dask and choose.random() < 0.2 else made


def known(made, options):
    """Returns the words with which a Dataset must be refused; None if it is kept."""
    if options.get("labels", True) and any(f"{dim}_index" in made.dims and f"{dim}_index" not in made.coords for dim in made.dims if dim in made.coords):
        return "rename one, or say labels="
    for name in (*made.variables, *made.dims):
        if name.startswith("__") or name in ("", ".", "..") or "/" in name:
            return "rename it"
    return None


def identical(back, made):
    """Compares as xarray does. A label gets an index if its dimension has no coordinate of its own."""
    made = made.compute()
    more = [name for name in back.xindexes if name not in made.xindexes and back[name].dims[0] not in made.coords]
    xr.testing.assert_identical(back.drop_indexes(more), made)


def check(number, seed, db):
    choose = random.Random(seed * 1000003 + number)
    made = make(choose)
    options = choose.choice([{}, {}, {"labels": False}, {"grow": [dim for dim in made.dims][:1]}])
    path, told = f"trip{number}", f"round_trips.py EXTENSION {number + 1} {seed}, number {number}, {options}\n{made}"
    words = known(made, options)
    if words:
        fails(Exception, words, lambda: tessera.create(path, made, **options))
        assert not os.path.exists(path), told
        return
    try:
        tessera.create(path, made, **options)
        back = xr.open_dataset(path, engine="tessera").load()
        identical(back, made)
        for name in made.variables:
            kinds = (made[name].dtype.kind, back[name].dtype.kind)
            assert kinds[0] == kinds[1] or set(kinds) <= set("OUST"), f"{name!r}: {kinds}"
        if any(variable.dtype.kind == "O" and any(hasattr(value, "calendar") for value in variable.values.flat) for variable in made.variables.values()):
            return   # xarray cannot decode a part without dates
        sizes = {dim: choose.choice([slice(None), slice(1, None), slice(None, None, -1), [0] if length else []]) for dim, length in made.sizes.items()}
        identical(xr.open_dataset(path, engine="tessera").isel(sizes).load(), made.isel(sizes))
    except Exception as e:
        raise AssertionError(told) from e
    first = next((variable.dims for variable in made.data_vars.values() if variable.dims), None)
    try:
        tessera.create(f'db:"{path}"', made, connection=db)
    except (ValueError, TypeError) as e:   # it takes fewer kinds; what it takes is kept
        assert any(part in str(e) for part in ("has other dimensions", "cannot be a label", "variable with a dimension", "rename", "is not kept in a database")), f"{told}\n{e}"
        assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE ?", (f"{path}%",)).fetchone() == (0,), told
        return
    except Exception as e:
        raise AssertionError(told) from e
    try:
        back = xr.open_dataset(f'db:"{path}"', engine="tessera", connection=db).load()
        identical(back, made.transpose(*first, ...))   # one array has one order of axes
    except Exception as e:
        raise AssertionError(f"in a database, {told}\n{back}") from e


# ---- DataFrames ----------------------------------------------------------------------------------------------------------

REFUSED = {   # what has no place in an array: a value, and the words
    "complex": (1j, "complex128, which no array holds"), "period": (pd.Period("2024-05"), "has periods"), "interval": (pd.Interval(0, 1), "has intervals"), "decimal": (decimal.Decimal("1.5"), "cast it first"),
    "dict": ({"a": 1}, "cast it first"), "nested": ([[1], [2]], "cast it first"), "set": ({1}, "has sets"), "texts": (["a", "b"], "cast it first"), "uuid": (uuid.UUID(int=7), "cast it first"), "none": (None, "no value determines its type"),
    "surrogate": ("\ud800", "is not Unicode")}
PLAIN = ["int8", "uint8", "int16", "uint16", "int32", ">i4", "uint32", "int64", "uint64", "float16", "float32", "float64", ">f8", "bool", "Int8", "UInt16", "Int32", "Int64", "UInt64", "Float32", "Float64", "boolean", "string[python]", "string[pyarrow]", "str",
         *(f"datetime64[{unit}]" for unit in ("s", "ms", "us", "ns")), *(f"timedelta64[{unit}]" for unit in ("s", "ms", "us", "ns")), *(f"datetime64[{unit}, {zone}]" for unit, zone in (("s", "UTC"), ("ns", "Europe/Zurich"), ("us", "Asia/Kolkata"))),
         "int16[pyarrow]", "uint64[pyarrow]", "double[pyarrow]", "bool[pyarrow]", "string[pyarrow_]", "binary[pyarrow]", "timestamp[us][pyarrow]", "timestamp[ns, tz=Europe/Zurich][pyarrow]", "date32[pyarrow]", "duration[ms][pyarrow]", "time64[us][pyarrow]",
         "Sparse[int64]", "Sparse[float64]", "category", "ordered", "days", "bytes", "lists", "dates", "numbers", "objects", "instants"]


def column(choose, kind, length):
    """Returns a Series with edges and gaps, and as what it comes back if that is another one."""
    def some(*values):
        return [choose.choice(values) for _ in range(length)]
    instants = pd.to_datetime(some("2024-06-01 00:00:00", "2024-06-02 12:34:56", "1969-12-31 23:59:59", None)).to_series().reset_index(drop=True)
    gaps = choose.choice([(None,), ()])
    if kind in ("bytes", "lists", "dates", "numbers", "objects", "instants"):
        values = {"bytes": some(b"", b"a\0", b"\xff", *gaps), "lists": some([1, 2], [], [-5], *gaps), "dates": some(datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), *gaps), "numbers": some(1, 2.5, -3, *gaps),
                  "objects": some(1, -2, 2**60 + 1, *gaps), "instants": some(datetime.datetime(2024, 1, 1, 5), datetime.datetime(1969, 12, 31, 23), *gaps)}[kind]
        made = pd.Series(values, dtype=object)
        wide = made.isna().any() and made.dropna().map(abs).max() >= 2**53 if kind == "objects" else False
        backs = {"dates": "datetime64[ms]", "numbers": "float64" if any(isinstance(v, float) or v is None for v in values) else "int64", "objects": "Int64" if wide else "float64" if made.isna().any() else "int64", "instants": "datetime64[us]"}
        return made, made.astype(backs[kind]) if kind in backs and not made.isna().all() else None
    if kind in ("category", "ordered"):
        labels = choose.choice([["b", "a", "é"], [3, 1, 2], [1.5, -2.0], [True, False], list(instants.dropna().unique()) or ["x"]])
        return pd.Series(pd.Categorical(some(*labels, *gaps), labels, ordered=kind == "ordered")), None
    if kind == "days":
        return pd.to_datetime(pd.Series(some("2024-06-01", "1969-12-31", *gaps))).astype(f"datetime64[{choose.choice(['s', 'ms', 'us', 'ns'])}]"), None
    if kind == "string[pyarrow_]":
        return pd.Series(some("a", "", "🌍\n", *gaps), dtype=pd.ArrowDtype(pa.string())), None
    lower = kind.lower()
    if "int" in lower and not kind.startswith("Sparse") or kind == ">i4":
        ends = np.iinfo(np.dtype("int32" if kind == ">i4" else lower.partition("[")[0]))
        nullable = kind[0] in "IU" or kind.endswith("]")
        return pd.Series(pd.array(some(0, 1, ends.min, ends.max, *(gaps if nullable else ())), kind if kind != ">i4" else "int32")).astype(kind), None
    if kind.startswith("Sparse"):
        return pd.Series(some(0, 0, 7) if "int" in kind else some(np.nan, 0.5, np.nan)).astype(kind), None
    if kind in ("bool", "boolean", "bool[pyarrow]"):
        return pd.Series(some(True, False, *(gaps if kind != "bool" else ())), dtype=kind), None
    if "float" in lower or kind in ("double[pyarrow]", ">f8"):
        return pd.Series(some(0.0, 1.5, -2.25, *((np.inf, -0.0, np.nan) if kind[0] in "f>" else (None,))), dtype=kind), None
    if kind.startswith(("string", "str")):
        return pd.Series(some("a", "", "a long text", "🌍\n\0", *gaps), dtype=kind), None
    if kind.startswith("binary"):
        return pd.Series(some(b"", b"\0", *gaps), dtype=pd.ArrowDtype(pa.binary())), None
    if kind.startswith("time64"):
        return pd.Series(some(datetime.time(1), datetime.time(23, 59, 59, 999999), *gaps), dtype=pd.ArrowDtype(pa.time64("us"))), None
    if kind.startswith(("timedelta", "duration")):
        made = pd.Series(some(0, 1, -1, 86400 * 10**3, *gaps), dtype="Int64")
        return made.astype(kind) if kind.startswith("duration") else pd.Series(made.astype(object).map(lambda n: np.timedelta64(n, kind[12:-1]) if n is not pd.NA else np.timedelta64("NaT", kind[12:-1])), dtype=kind), None
    if kind.startswith("date32"):
        return pd.Series(some(datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), *gaps), dtype=pd.ArrowDtype(pa.date32())), None
    zone = kind.partition("tz=")[2].partition("]")[0] or kind[:-1].partition(", ")[2]
    if kind.endswith("[pyarrow]"):
        unit = kind[10:12]
        return instants.dt.tz_localize("UTC").astype(pd.ArrowDtype(pa.timestamp(unit, zone))) if "tz" in kind else instants.astype(pd.ArrowDtype(pa.timestamp(unit))), None
    return (instants.dt.tz_localize("UTC") if zone else instants).astype(kind), None


def make_frame(choose):
    """Returns a DataFrame whose columns and levels have any dtype, what comes back, its dimensions, and a column that must be refused."""
    length, names = choose.choice([0, 1, 2, 5, 9]), choose.sample([name for name in NAMES if name not in ("[0]", "T2")], len(NAMES) - 2)
    given, back = {}, {}
    for _ in range(choose.randint(1, 5)):
        name = names.pop()
        given[name], other = column(choose, choose.choice(PLAIN), length)
        back[name] = given[name] if other is None else other
    wrong = None
    if choose.random() < 0.15 and length:
        wrong = choose.choice(sorted(REFUSED))
        given[names.pop()] = pd.Series([REFUSED[wrong][0]] * length, dtype=None if wrong in ("complex", "period", "interval") else object)
    frame, back = pd.DataFrame(given), pd.DataFrame(back)
    level = {"numbers": lambda: choose.sample(range(-50, 50), length), "texts": lambda: choose.sample([f"n{i}" for i in range(20)], length), "days": lambda: pd.Timestamp("2024-01-01") + pd.to_timedelta(choose.sample(range(50), length), "D"),
             "instants": lambda: (pd.Timestamp("2024-01-01 00:00:01") + pd.to_timedelta(choose.sample(range(50), length), "s")).tz_localize(choose.choice([None, "Europe/Zurich"])), "reals": lambda: [n / 4 for n in choose.sample(range(50), length)]}
    kinds = choose.choice([[], [], ["numbers"], ["texts"], ["days"], ["instants"], ["reals"], ["texts", "numbers"], ["instants", "texts"]])
    dims = [names.pop() if choose.random() < 0.8 else None for _ in kinds]
    if kinds and length:
        made = [pd.Index(level[kind]()) for kind in kinds]
        frame.index = back.index = made[0].rename(dims[0]) if len(made) == 1 else pd.MultiIndex.from_arrays(made, names=dims)
    named = [name or (f"level_{i}" if len(dims) > 1 else "index") for i, name in enumerate(dims)] if kinds and length else []
    back = back.set_axis(back.index.set_names(named), axis=0).reset_index() if named else back
    return frame, back, named, wrong


def equal(array, back, dims, told):
    """Compares as pandas does; rows of a sparse array have no order."""
    got = array.to_pandas()
    if not dims:
        assert got.pop("row").tolist() == list(range(len(back))), told
    native = {name: series.astype(series.dtype.newbyteorder("=")) for name, series in back.items() if getattr(series.dtype, "byteorder", "=") == ">"}
    got, back = (frame.sort_values(dims, ignore_index=True) if dims else frame for frame in (got, back.assign(**native)))
    pd.testing.assert_frame_equal(got[list(back.columns)], back)


def bare(frame):
    """Whether a column of objects has no value, or empty lists alone, which have no type."""
    return any(series.dtype == object and not any(one is not None and one != [] for one in series) for _, series in frame.items())


def check_frame(number, seed, db):
    choose = random.Random(seed * 1000033 + number)
    frame, back, dims, wrong = make_frame(choose)
    told = f"frame {number} of seed {seed}, refused: {wrong}\n{frame.index}\n{frame.to_dict('list')}\n{frame.dtypes}"
    kind = {"kind": "sparse"} if dims else {"grow": ["row"]}
    for path in (f"frame{number}", f"db:frame{number}"):
        options = {**kind, "connection": db if path.startswith("db") else None}
        if wrong:
            fails(Exception, REFUSED[wrong][1], lambda: tessera.create(path, frame, **options))
            try:
                tessera.create(path, frame, **options)
            except Exception as e:
                assert repr(frame.columns[-1]) in str(e) or f"'{frame.columns[-1]}'".replace("\n", " ") in str(e), f"{e}\n{told}"   # core messages are one line
            fails(tessera.NotFound if not options["connection"] else Exception, "", lambda: tessera.open(path, connection=options["connection"]))
            continue
        try:
            if bare(frame):
                fails(tessera.Error, "column '", lambda: tessera.create(path, frame, **options))
                continue
            array = tessera.create(path, frame, **options)
            equal(array, back, dims, told)
            name = choose.choice(list(back.columns))
            table = tessera.sql(f'SELECT count(*), count("{name.replace(chr(34), chr(34) * 2)}") FROM t', t=frame if choose.random() < 0.5 else array, connection=options["connection"]).fetchone()
            assert table == (len(frame), int(back[name].notna().sum())), f"{name!r}: {table}"
            if dims:   # again, and in two parts
                equal(tessera.create(path, frame.iloc[::-1], if_exists="append", connection=options["connection"]), back, dims, told)
            half = choose.randint(0, len(frame))
            if half and half < len(frame) and not bare(frame.iloc[:half]):
                array = tessera.create(path, frame.iloc[:half], if_exists="replace", **options)
                try:
                    array = tessera.create(path, frame.iloc[half:], if_exists="append", connection=options["connection"])
                except tessera.Error as e:   # the first values were all midnights, or integers
                    assert any(words in str(e) for words in ("is finer than DATETIME_DAY", "REAL in a column of INT64")), e
                    continue
                equal(array, back, dims, told)
        except Exception as e:
            raise AssertionError(told) from e


if __name__ == "__main__":
    count, seed = (int(word) for word in [*sys.argv[2:], "25", "1"][:2]) if len(sys.argv) != 3 else (int(sys.argv[2]), random.randrange(10**6))
    with tempfile.TemporaryDirectory() as place:
        install(os.path.join(place, "package"), sys.argv[1])
        tessera = importlib.import_module("tessera")
        os.makedirs(os.path.join(place, "work"))
        os.chdir(os.path.join(place, "work"))
        connection = sqlite3.connect(":memory:", isolation_level=None)
        tessera.load(connection)
        for number in range(count):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", category=FutureWarning)
                warnings.filterwarnings("ignore", category=UserWarning, message=".*(nanosecond|chunk).*")
                check(number, seed, connection)
                if hasattr(pd.DataFrame, "from_arrow"):   # before pandas 3, texts were objects
                    check_frame(number, seed, connection)
        connection.close()
        os.chdir("/")
    print(f"{count} Datasets and DataFrames came back as they were (seed {seed})")
