"""Datasets of xarray are written in the layout of TileDB-CF: a group, with an array for each variable, whose dimensions begin at 0. The array of a
coordinate has the attribute `lat_` over the dimension `lat`; what describes a variable is metadata `__tiledb_attr.NAME.KEY` of its array. An
array without cells has metadata that tells its lengths, since no dimension of an array has the length 0."""
from __future__ import annotations

import os

import numpy
import xarray

from .arrays import Array, _connect, exists, need_connection, secret
from .errors import Exists, Unsupported
from .grids import already, create_at, make_grid, new_place, remove_place, set_metadata, take_place

__all__ = ["ATTRIBUTE", "EMPTY", "SCALAR", "create_dataset"]

ATTRIBUTE, EMPTY = "__tiledb_attr.", "__tessera_lengths"
SCALAR = "__scalar"   # the dimension of variables that have none
_OPTIONS = {"labels", "domains", "extents", "filters", "cell_order", "tile_order", "format_version", "key_file"}


def _is_monotonic(values):
    if values.dtype.kind not in "iufM" or len(values) < 1:
        return False
    steps = numpy.diff(values.view("i8") if values.dtype.kind == "M" else values)
    missing = numpy.isnat(values).any() if values.dtype.kind == "M" else values.dtype.kind == "f" and not numpy.isfinite(values).all()
    return not missing and bool((steps > 0).all() or (steps < 0).all())


def _labels(data, asked):
    """Returns by dimension its label and the values, and the dimensions that have another name in the arrays."""
    if asked is True:
        return {dim: (f"{dim}_label", data[dim].values) for dim in data.dims if dim in data.indexes and _is_monotonic(data[dim].values)}, {}
    found, renamed = {}, {}
    for label, name in (asked or {}).items():
        if label not in data.coords or data[label].ndim != 1:
            raise KeyError(f"'labels': the Dataset has no coordinate {label!r} with one dimension")
        if not _is_monotonic(data[label].values) and data[label].dtype.kind not in "OU":
            raise ValueError(f"'labels': coordinate {label!r} does not rise or fall strictly")
        found[data[label].dims[0]] = label, data[label].values
        renamed[data[label].dims[0]] = name
    return found, renamed


def _extents(variable, lengths, options):
    """The chunks of a chunked source, if they are of a size for tiles; what the options say goes before them."""
    chunks = variable.chunks and [max(part) for part in variable.chunks] or variable.encoding.get("chunks") or variable.encoding.get("chunksizes")
    asked = {name: extent for name, extent in options.get("extents", {}).items() if name in lengths}
    if chunks and len(chunks) == len(lengths) and 1000 <= numpy.prod(chunks, dtype=float) <= 1 << 24:
        return {**{name: int(chunk) for name, chunk in zip(lengths, chunks)}, **asked}
    return asked


def _one(name, variable, labels, renamed, options):
    """Returns what create_grid needs of a variable: blocks, lengths, labels, options; and the metadata."""
    if variable.dtype.kind == "O" and variable.size and type(variable.values.flat[0]).__module__.startswith("cftime"):
        variable = xarray.conventions.encode_cf_variable(variable)   # numbers, whose units xarray decodes again
    dims = variable.dims or (SCALAR,)
    block = variable if variable.dims else variable.values.reshape(1)
    block = block.data if variable.dims and variable.chunks is None and isinstance(block.data, numpy.ndarray) else block
    lengths = {renamed.get(dim, dim): length for dim, length in zip(dims, variable.shape or (1,))}
    attribute = f"{name}_" if name in lengths else name
    made = {renamed.get(dim, dim): labels[dim] for dim in dims if dim in labels}
    mine = {key: value for key, value in options.items() if key not in ("labels", "filters")}
    mine["extents"] = _extents(variable, lengths, options)
    mine["domains"] = {name: ends for name, ends in options.get("domains", {}).items() if name in lengths}
    mine["filters"] = {attribute: options["filters"][name]} if name in options.get("filters", {}) else {}
    mine["metadata"] = {f"{ATTRIBUTE}{attribute}.{key}": value for key, value in variable.attrs.items() if value is not None}
    if not all(lengths.values()):
        mine["metadata"][EMPTY] = list(lengths.values())
    return {attribute: block}, lengths, {label: (dim, values) for dim, (label, values) in made.items() if label not in (*lengths, attribute)}, mine


def create_dataset(path, data, connection, if_exists, options):
    """Makes a group of arrays of a Dataset or DataArray; in a database one array, which the variables must fit. Returns the Arrays by variable."""
    path = os.fspath(path)
    unknown = set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"a Dataset has no option {', '.join(sorted(unknown))}")
    data = data.to_dataset(name=data.name or "value") if isinstance(data, xarray.DataArray) else data
    need_connection(connection, path)
    for option in ("domains", "extents"):
        unknown = set(options.get(option, {})) - set(data.dims) - set((options.get("labels") or {}).values() if options.get("labels") is not True else ())
        if unknown:
            raise KeyError(f"{option!r}: the Dataset has no dimension {', '.join(sorted(map(str, unknown)))}")
    several = [str(name) for name, index in data.xindexes.items() if type(index).__name__ == "PandasMultiIndex"]
    if several:
        raise NotImplementedError(f"coordinates {', '.join(several)} are a MultiIndex: reset_index() makes arrays of them")
    labels, renamed = _labels(data, options.get("labels"))
    if path.startswith("db:"):
        return _in_database(path, data, labels, renamed, connection, if_exists, options)
    there = exists(connection, path)
    if if_exists not in ("fail", "replace"):
        raise NotImplementedError(f"if_exists {if_exists!r}: a Dataset is made whole; append to the arrays in it")
    if there and if_exists == "fail":
        raise Exists(already(path, there, "replace"))
    variables, attributes = xarray.conventions.encode_dataset_coordinates(data)
    for name in map(str, variables):
        if name in ("", ".", "..", "__group", "__meta") or "/" in name or os.sep in name:
            raise ValueError(f"variable {name!r}: its array would have the directory {path}/{name}, which is not its own: rename it")
    connection, place = connection or _connect(), new_place(path)
    if there and place == path:
        raise Unsupported(f"{path}: in a bucket a group is not replaced")
    group, members = Array(connection, place), {str(name): f"{place}/{name}" for name in variables}
    try:
        if place != path:
            os.makedirs(place)
        for name, variable in variables.items():
            blocks, lengths, its_labels, mine = _one(str(name), variable, labels, renamed, options)
            make_grid(members[str(name)], None, blocks, lengths, its_labels, mine, connection)
        group._rows("SELECT tessera_create_group(?)", place)   # last: in a bucket it makes a Dataset of the arrays
        for key, value in attributes.items():
            if value is not None:
                set_metadata(group, key, value)
        for name, member in members.items():
            group._rows("SELECT tessera_add_member(?, ?, ?)", place, member, name)
        take_place(place, path, if_exists)
    except BaseException:
        remove_place(connection, place, *members.values())
        raise
    return {name: Array(connection, f"{path}/{name}", state=secret(options))._now() for name in members}


def _in_database(path, data, labels, renamed, connection, if_exists, options):
    blocks, lengths = {}, {}
    mine = {key: value for key, value in options.items() if key not in ("labels", "extents")}
    metadata = dict(data.attrs)
    for name, variable in data.data_vars.items():
        if lengths and variable.dims != tuple(lengths):
            raise ValueError(f"a database takes a Dataset as one array, but {name!r} has other dimensions than {next(iter(blocks))!r}")
        lengths = {dim: length for dim, length in zip(variable.dims, variable.shape)}
        mine.setdefault("extents", _extents(variable.variable, lengths, options))
        blocks[str(name)] = variable.variable
        metadata.update({f"{ATTRIBUTE}{name}.{key}": value for key, value in variable.attrs.items()})
    if not lengths:
        raise ValueError("the Dataset has no variable with a dimension")
    lengths = {renamed.get(dim, dim): length for dim, length in lengths.items()}
    mine["metadata"] = metadata
    create_at(path, blocks, lengths, {label: (renamed.get(dim, dim), values) for dim, (label, values) in labels.items()}, connection, if_exists, mine)
    array = Array(connection, path, state=secret(options))._now()
    return {name: array.select(name) for name in blocks}
