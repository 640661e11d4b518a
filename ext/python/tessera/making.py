"""Arrays are made: of rows, which SQL functions take as Arrow streams, and of blocks, which grids.py writes."""
from __future__ import annotations

import ctypes
import json
import os
import re
from typing import Any

from .arrays import ATTRS, DTYPES, Array, exists
from .connections import functions_of, own_connection
from .paths import need_connection, place_of, secret
from .streams import STREAM, capsule_pointer
from .values import plain_value
from .errors import Error, Exists, Mismatch

__all__ = ["create", "create_as", "create_csv", "to_anndata", "without_index"]
_LISTS = ("dimensions", "grow", "nullable", "not_null", "enumerate", "columns")   # options that take names


def _listed_names(options):
    """Returns the options with one name as a list of one."""
    return {option: [value] if option in _LISTS and isinstance(value, str) else value for option, value in options.items()}


def _create(connection, function, path, source, if_exists, options):
    """Calls one of the functions that make an array, and returns the Array; with explain the CREATE that it would be."""
    need_connection(connection, path)
    options = {name: value for name, value in {**_listed_names(options), "if_exists": if_exists}.items() if value is not None}
    array = Array(connection, place_of(path), state=secret(options))
    options.update(array._state)
    try:
        result = array._rows(f"SELECT {function}(?, ?, ?)", array.path, source, json.dumps(options, default=plain_value))[0][0]
    except Error as e:
        there = exists(connection, array.path) if e.code == 1 and if_exists == "fail" else None   # SQLite has no code for it
        if there == "an array":
            raise Exists(f"{array.path}: there is an array already: if_exists='append' adds the rows to it, if_exists='replace' puts a new one in its place") from e
        if there:
            raise Exists(*e.args) from e
        raise
    if options.get("explain"):
        return result
    if options.get("on_error") == "skip":
        array.skipped = json.loads(result)
    return array._now()


def create_as(connection: Any, path: str | os.PathLike, select: str, *, if_exists: str = "fail", **options: Any) -> Array:
    """Makes an array from the rows of a SELECT, or appends them (if_exists="append"). Options are those of tessera_create_as.

    With on_error="skip" the Array has `skipped`, a dict that tells you which rows were left out.
    """
    functions_of(connection)
    return _create(connection, "tessera_create_as", path, select, if_exists, options)


def create_csv(path: str | os.PathLike, file: str | os.PathLike, *, connection: Any = None, if_exists: str = "fail", **options: Any) -> Array:
    """Makes an array from a CSV file. Options are those of tessera_create_csv."""
    from .files import csv_options
    file = place_of(file)
    return _create(connection, "tessera_create_csv", path, file, if_exists, csv_options(file, options))


def create(path: str | os.PathLike, data: Any, *, connection: Any = None, if_exists: str = "fail", **options: Any) -> Any:
    """Makes an array from data. If it fails, it leaves no array behind.

    data is one of these:

    - a pandas DataFrame: the levels of its index become the dimensions, unless `dimensions` names columns. A level without a name is `index`; a
      RangeIndex without a name that counts from 0 is ignored. A column of midnights becomes DATETIME_DAY, unless `types` sets another type
    - anything that exports Arrow streams: a polars DataFrame, a pyarrow table, a DuckDB relation, an Array
    - an ndarray, or a dict of ndarrays with the same shape: a dense array, with an attribute for each. `dimensions` names the axes. In a dict of
      ndarrays with one axis, these names may be those of columns, as in a DataFrame; a name that no column has is the axis
    - a scipy sparse matrix: a sparse array of `row`, `col` and `value`
    - an AnnData: a group in TileDB-SOMA's layout, which to_anndata() reads. The result is a dict of Arrays
    - the path of a file, which a library reads block by block: NetCDF and Zarr (xarray), GeoTIFF (rioxarray), Parquet (pyarrow), CSV, LAS and LAZ
      (laspy), VCF and BCF (cyvcf2), h5ad (anndata). progress: True or False, whether to show a bar; by default on a terminal
    - an xarray Dataset: a group at `path`, with an array for each variable. The result is a dict of Arrays. Coordinates that rise or fall become
      dimension labels: `lat` is the latitude, and the dimension is `lat_index`. With labels=False there are no labels, and the dimension is `lat`

    if_exists: "fail", "append" or "replace". Further options are those of tessera_create_stream.
    """
    path = place_of(path)
    if connection is not None:
        functions_of(connection)
    if if_exists not in ("fail", "append", "replace"):
        raise ValueError(f"if_exists={if_exists!r}: expected 'fail', 'append' or 'replace'")
    module, options = type(data).__module__.partition(".")[0], _listed_names(options)
    if isinstance(data, (str, os.PathLike)):
        from .files import create_file
        return create_file(path, data, connection, if_exists, options)
    if type(data).__name__ == "DataTree" and module == "xarray":
        raise TypeError("a DataTree is a tree of Datasets: for node in tree.subtree: tessera.create(path + node.path, node.to_dataset())")
    if module == "anndata":
        from .annotated import create_anndata
        return create_anndata(path, data, connection, if_exists, options)
    if module == "scipy" and hasattr(data, "tocoo"):
        from .annotated import create_matrix
        return create_matrix(path, data, connection, if_exists, options)
    if module == "xarray":
        from .datasets import create_dataset
        return create_dataset(path, data, connection, if_exists, options)
    if module == "numpy" and getattr(data.dtype, "names", None):
        data = {name: data[name] for name in data.dtype.names}
    labels = options.get("labels")
    placed = isinstance(labels, dict) and any(isinstance(given, tuple) for given in labels.values())   # values of labels, as blocks have them
    if module == "numpy" or isinstance(data, dict) and (placed or any(getattr(values, "ndim", 1) != 1 for values in data.values()) or _names_axis(data, options)):
        from .grids import create_grid
        return create_grid(path, data if isinstance(data, dict) else {"value": data}, connection, if_exists, options)
    if placed:
        raise TypeError("labels with values are for ndarrays: say labels={column: dimension}")
    if labels is True:
        raise TypeError("labels=True is for a Dataset: say labels={label: dimension}")
    if module == "pandas" and not hasattr(data, "columns"):   # a Series
        data = data.to_frame(data.name if data.name is not None else "value")
    if module == "pandas" and hasattr(data, "columns"):
        appends = if_exists == "append" and exists(connection, os.fspath(path))
        numbered = "dimensions" in options or "row" in options.get("grow", ())
        data, names = without_index(data, options, "index" in Array(connection, os.fspath(path), state=secret(options)).dims if appends else not numbered)
        if names and not appends:
            options.setdefault("dimensions", names)
        options = options if appends else _with_dtypes(data, options)
    elif module == "pyarrow" and hasattr(data, "schema") and hasattr(data, "num_rows") and not (if_exists == "append" and exists(connection, os.fspath(path))):
        from .described import taken_table
        data, options = taken_table(data, options)
    elif isinstance(data, Array):
        options = _with_notes_of(data, options)
    gaps = {str(name) for place, name in enumerate(data.columns) if data.iloc[:, place].isna().all()} if module == "pandas" else set()   # floats to pandas, for want of values
    stream = _taken(data, module)
    options = _with_zones(ctypes.addressof(stream) if isinstance(stream, ctypes.Structure) else stream[1], gaps, path, connection, if_exists, options)
    token = ctypes.create_string_buffer(33)
    if not functions_of(connection or own_connection()).put(ctypes.addressof(stream) if isinstance(stream, ctypes.Structure) else stream[1], token):
        raise MemoryError("an Arrow stream")
    return _create(connection, "tessera_create_stream", path, token.value.decode(), if_exists, options)


def _names_axis(data, options):
    """Whether `dimensions` names the axis of the ndarrays in a dict, and no column: their positions are the coordinates. An error if it names a column that
    is missing beside one that is there, or an axis of lists."""
    names = options.get("dimensions", ())
    lacking = [name for name in names if name not in data]
    if lacking and len(names) == 1 and all(type(values).__module__.partition(".")[0] == "numpy" for values in data.values()):
        return True
    if lacking and data:
        raise Error(f"'dimensions': the source has no column {lacking[0]!r}; it has {', '.join(map(str, data))}: give the coordinates as a column, or make "
                    "ndarrays of all columns and name one dimension, whose coordinates are the positions")
    return False


def to_anndata(path: str | os.PathLike, *, connection: Any = None, measurement: str | None = None, layer: str = "data") -> Any:
    """Returns a SOMA experiment that create() or TileDB-SOMA made, as an AnnData. measurement: by default the first one. layer: the one for X."""
    from .annotated import read_anndata
    return read_anndata(place_of(path), connection or own_connection(), measurement, layer)


def _with_dtypes(frame, options):
    """Returns the options for a new array with metadata that note the dtypes which only pandas has."""
    from .columns import whole_days
    from .dtypes import note
    days = {place for place, name in enumerate(frame.columns) if str(name) not in (options.get("types") or {}) and whole_days(frame.iloc[:, place]) is not None}
    dtypes, attrs = note(frame, days, options.get("dimensions") or ()), _attrs(frame)
    noted = {key: json.dumps(value) for key, value in ((DTYPES, dtypes), (ATTRS, attrs)) if value}
    return {**options, "metadata": {**noted, **(options.get("metadata") or {})}} if noted else options


def _with_notes_of(array, options):
    """Returns the options for a new array with what is noted of a DataFrame of which another array was made."""
    columns = array._options.get("columns", (*array.dims, *array.attributes))
    noted = {DTYPES: {name: dtype for name, dtype in array._dtypes().items() if name in columns}, ATTRS: array._noted(ATTRS)}
    return {**options, "metadata": {**{key: json.dumps(value) for key, value in noted.items() if value}, **(options.get("metadata") or {})}}


_UNITS = {"ts" + unit[0]: unit for unit in ("s", "ms", "us", "ns")}   # of Arrow's formats


def _with_zones(stream, gaps, path, connection, if_exists, options):
    """Returns the options for a new array with metadata that note the time zones of an Arrow stream. Checks what is appended to one that is there.
    gaps: the columns that have no value."""
    from .dtypes import is_noted
    from .structures import formats_of
    formats = {name: form for name, form in formats_of(stream).items() if name not in gaps}
    if if_exists == "append" and exists(connection, os.fspath(path)):
        _check_kinds(formats, Array(connection, os.fspath(path), state=secret(options)))
        return options
    found = {name: f"datetime64[{_UNITS[form[:3]]}, {form[4:]}]" for name, form in formats.items() if form[:3] in _UNITS and form[4:]}
    metadata = options.get("metadata") or {}
    noted = json.loads(metadata.get(DTYPES, "{}"))
    lacking = {name: dtype for name, dtype in found.items() if name not in noted and is_noted(dtype)}
    return {**options, "metadata": {**metadata, DTYPES: json.dumps({**noted, **lacking})}} if lacking else options


def _check_kinds(formats, array):
    """Fails if numbers would become instants or durations of an array, or these numbers, whose units nobody has said; and if instants without a time zone would
    be appended to a column that has one: an array keeps instants in UTC, and these may be of any zone."""
    kinds = dict(array._about("name, datatype", "tessera_schema", "role <> 'label' AND enumeration IS NULL AND (cell_val_num = 1 OR role = 'dimension')"))
    zones = array._zones() if any(form[:2] in ("ts", "td") for form in formats.values()) else {}
    durations = array._durations() if any(kind.startswith("TIME_") for kind in kinds.values()) else ()
    for name, form in formats.items():
        kind, number = kinds.get(name, ""), form in tuple("bcCsSiIlLefg")
        timed = "instants" if form[:2] in ("ts", "td") else "durations" if form[:2] == "tD" else "times of day" if form[:2] == "tt" else ""
        has = "instants" if kind.startswith("DATETIME_") else "" if not kind.startswith("TIME_") else "durations" if name in durations else "times of day"
        if number and has and not kind.endswith(("_PS", "_FS", "_AS")):   # which Arrow does not have
            make = {"instants": "pandas.to_datetime", "durations": "pandas.to_timedelta"}.get(has)
            raise Mismatch(f"column {name!r} has {has}, {kind}, and numbers would be appended: " + (f"{make}(frame[{name!r}], unit=...) makes {has} of them" if make else "make times of day of them"))
        if timed and re.match("U?INT|FLOAT|BOOL", kind):
            raise Mismatch(f"column {name!r} has numbers, {kind}, and {timed} would be appended: make numbers of them, in the unit that the column means")
        if timed == "instants" and name in zones and not form[4:]:
            raise TypeError(f"column {name!r} has the time zone {zones[name]}, and the instants to append have none: give them one, in pandas by "
                            f"frame[{name!r}].dt.tz_localize({zones[name]!r})")


def _attrs(frame):
    """Returns the attrs of a DataFrame, which metadata keep as JSON. Fails if they would come back as something else."""
    for name, value in frame.attrs.items():
        try:
            kept = json.loads(json.dumps({name: value}, allow_nan=False)) == {name: value}
        except (TypeError, ValueError):
            kept = False
        if not kept:
            raise TypeError(f"frame.attrs[{name!r}] is a {type(value).__name__}, and attrs are kept as JSON: make it numbers, texts, lists or dicts, or leave it out: del frame.attrs[{name!r}]")
    return frame.attrs


def without_index(frame, options, kept=True):
    """Returns a DataFrame whose index has become columns, and the names of the levels that are dimensions if nobody says others. A level without a name is
    `index`, or `level_0` and so on, as reset_index() of pandas names it; if it has a column of its own instead, it is none of the dimensions. A RangeIndex
    without a name says nothing if it counts the rows from 0: then they are numbered anyway. kept: another one, of a slice, says which rows these were."""
    index = frame.index
    if type(index).__name__ == "RangeIndex" and index.name is None and (not kept or not len(index) or index[0] == 0 and index[-1] == len(index) - 1):
        return frame, []
    unnamed = [f"level_{i}" if index.nlevels > 1 or "index" in frame.columns else "index" for i in range(index.nlevels)]
    kept, names = options.get("columns"), []
    for level, name in enumerate(index.names):
        new = unnamed[level] if name is None else name
        if name is not None or kept is None or new in kept:
            names.append((level, new))
    gone = [level for level in range(index.nlevels) if level not in dict(names)]
    if gone:   # `columns` does not name them
        frame = frame.reset_index(level=gone, drop=True) if len(gone) < index.nlevels else frame.reset_index(drop=True)
    twice = next((name for _, name in names if name in frame.columns), None)
    if twice is not None:
        raise ValueError(f"the index is called {twice!r}, and a column is, too: frame.rename_axis(...) gives the index another name, frame.reset_index(drop=True) leaves it out")
    if names:
        frame = frame.set_axis(frame.index.set_names([name for _, name in names]), axis=0).reset_index()
    numbered = index.names == [None] and "row" in options.get("grow", ()) and "row" not in frame.columns
    return frame, [] if numbered else [str(name) for _, name in names]


def _check_objects(frame, table, pyarrow):
    """Fails if a column of objects has instants beside days, of which pyarrow makes days; some with a time zone beside others without one, which pyarrow
    takes for UTC; or sets, of which it makes lists."""
    from .columns import object_type
    for place, name in enumerate(table.column_names):
        kind = table.column(place).type if frame.dtypes.iloc[place].kind == "O" else pyarrow.null()
        if pyarrow.types.is_timestamp(kind) or pyarrow.types.is_date(kind):
            object_type(name, [None if v is None or v != v else v for v in frame.iloc[:, place]])
        elif pyarrow.types.is_list(kind) and any(isinstance(value, (set, frozenset)) for value in frame.iloc[:, place]):
            raise TypeError(f"column {name!r} has sets, which have no order: frame[{name!r}].map(sorted) makes lists of them")


def _taken(data, module):
    """Returns the Arrow stream of data: a structure of ctypes, or a capsule and the pointer in it."""
    if isinstance(data, dict):
        from .columns import given_stream
        return given_stream(data)
    if module == "pandas" and hasattr(data, "columns"):
        from .columns import check_frame, given_stream, native, of_frame, whole_days
        check_frame(data)
        data = native(data)
        try:
            import pyarrow
        except ImportError:
            return given_stream(of_frame(data))
        days = [place for place in range(data.shape[1]) if whole_days(data.iloc[:, place]) is not None]
        try:
            table = pyarrow.Table.from_pandas(data, preserve_index=False)
        except (pyarrow.ArrowException, OverflowError, TypeError, UnicodeEncodeError):   # integers past INT64, mixed objects: they are taken, or the error says why not
            return given_stream(of_frame(data))
        _check_objects(data, table, pyarrow)
        data = table
        for place in days:
            data = data.set_column(place, data.column_names[place], data.column(place).cast(pyarrow.date32()))
        if not data.num_rows:   # a stream of a table has no batch then, and so no categories
            empty = [column.chunk(0) if column.num_chunks else pyarrow.array([], column.type) for column in data.columns]
            data = pyarrow.RecordBatchReader.from_batches(data.schema, [pyarrow.RecordBatch.from_arrays(empty, schema=data.schema)])
    if module == "polars" and hasattr(data, "collect"):
        data = data.collect()
    names = getattr(data, "column_names", getattr(data, "columns", None))
    if isinstance(names, list):   # of pyarrow, polars and DuckDB
        from .columns import check_names
        check_names(names)
    if not hasattr(data, "__arrow_c_stream__"):
        raise TypeError(f"{type(data).__name__} has no Arrow stream (__arrow_c_stream__): create() takes DataFrames, tables, ndarrays, Datasets and dicts "
                        "of columns; create_csv() a CSV file, create_as() a SELECT")
    capsule = data.__arrow_c_stream__()
    return capsule, capsule_pointer(capsule, STREAM)
