"""Random Datasets of xarray go in and come back identical, or are refused with words, and then nothing is left. xarray itself compares.

usage: round_trips.py EXTENSION [COUNT [SEED]]
"""
import importlib
import os
import random
import sqlite3
import sys
import tempfile
import warnings

from package import fails, install, libraries, library

np, pd, xr = libraries("numpy", "pandas", "xarray")
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
        connection.close()
        os.chdir("/")
    print(f"{count} Datasets came back as they were (seed {seed})")
