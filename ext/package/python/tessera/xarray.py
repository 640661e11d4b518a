"""The engine "tessera" of xarray: xarray.open_dataset(path, engine="tessera", chunks={}) opens a dense array, or a group of them, as a lazy Dataset.

Each attribute is a variable over what has been written. Chunks are the tiles, so with chunks={} dask reads each tile once. Coordinates are the
1-D arrays of a group that have the name of a dimension, dimension labels, or else the numbers of the cells. Metadata `__tiledb_attr.NAME.KEY`
describe variables, as TileDB-CF writes them; the others describe the Dataset.
"""
from __future__ import annotations

import os

import numpy
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from .arrays import Array, open as open_array
from .blocks import Block, Booleans, Labelled
from .datasets import ATTRIBUTE, EMPTY, SCALAR
from .errors import Denied

__all__ = ["Entrypoint"]
_FLAGS = 1000   # labels of an enumeration that attributes describe
_MARKS = ("__schema", "__array_schema.tdb", "__group", "__tiledb_group.tdb")   # one of them is in the directory of each array or group


class _Lazy(BackendArray):
    """A Block in the form that xarray wants."""

    def __init__(self, block):
        self.block, self.shape, self.dtype = block, block.shape, block.dtype

    def __getitem__(self, key):
        if not isinstance(key, indexing.VectorizedIndexer):   # slices, integers and lists by axis, as a Block takes them
            return self.block[key.tuple]
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.block.__getitem__)


class Entrypoint(BackendEntrypoint):
    """What xarray calls for engine="tessera"."""

    description = "Dense TileDB-format arrays and groups of them, read by tessera"
    open_dataset_parameters = ("filename_or_obj", "connection", "as_of", "group", "key_file", "decode_enums", "drop_variables", "mask_and_scale", "decode_times", "concat_characters",
                               "decode_coords", "use_cftime", "decode_timedelta")

    def guess_can_open(self, filename_or_obj):
        return isinstance(filename_or_obj, (str, os.PathLike)) and any(os.path.exists(os.path.join(filename_or_obj, mark)) for mark in _MARKS)

    def open_dataset(self, filename_or_obj, *, connection=None, as_of=None, group=None, key_file=None, decode_enums=False, drop_variables=None, **decode):
        """connection: for 'db:NAME'. as_of: the time of which the Dataset shows the state. group: the name of a group within the group. key_file: of
        encrypted arrays. decode_enums: variables have the labels of enumerations; without it the codes, which the attributes flag_values and
        flag_meanings explain."""
        path = os.fspath(filename_or_obj) + (f"/{group}" if group else "")
        left_out = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        given = {"connection": connection, "as_of": as_of, "key_file": key_file}
        try:
            arrays, attributes = {None: open_array(path, **given)}, {}
        except FileNotFoundError:
            arrays, attributes = _members(path, given, left_out)
        dataset = _dataset(path, arrays, attributes, left_out, decode_enums)
        decode = {name: value for name, value in decode.items() if value is not None}
        return xarray.decode_cf(dataset, **decode) if decode.get("decode_cf", True) else dataset


def _members(path, given, left_out):
    """Returns the dense arrays of a group, by name, and its metadata. What lies outside of its directory is not opened: a group of a stranger may name
    any path."""
    group, found = Array(given["connection"], path), {}
    for name, kind, place in group._rows("SELECT name, kind, path FROM tessera_members(?)", path):
        name = name or os.path.basename(place.rstrip("/"))
        if kind != "array" or name in left_out:
            continue
        if not _lies_below(place, path):
            raise Denied(f"{path}: member {name!r} lies outside of the group's directory, at {place}: leave it out by drop_variables=[{name!r}], and open it by its own path")
        found[name] = open_array(place, **given)
    return {name: array for name, array in found.items() if array.kind == "dense"}, group.metadata


def _lies_below(path, directory):
    """The rule of tsr_path_lies_below: links and ".." are resolved."""
    if "://" in path or "://" in directory:
        return path.startswith(directory.rstrip("/") + "/") and ".." not in path.split("/")
    path, directory = os.path.realpath(path), os.path.realpath(directory)
    return os.path.normcase(path).startswith(os.path.join(os.path.normcase(directory), ""))


def _variable_name(attribute, dims, member, alone):
    """The name of a variable: that of its attribute, without the ending by which TileDB-CF tells attributes from dimensions."""
    for ending in ("_", ".data", ".index"):
        if attribute.endswith(ending) and attribute[:-len(ending)]:
            attribute = attribute[:-len(ending)]
    return attribute if attribute or not alone else (member or "value")


def _dataset(path, arrays, attributes, left_out, decode_enums):
    bounds = {}
    for member, array in arrays.items():
        if array.kind != "dense":
            raise ValueError(f"array {path} is sparse: take its rows as an Arrow stream, as pandas, polars and pyarrow do with tessera.open()")
        found = array.bounds
        if not found and member is None:
            raise ValueError(f"array {path} has no cells yet")
        if not found and EMPTY in array.metadata:
            found = dict(zip(array.dims, ((0, length - 1) for length in numpy.atleast_1d(array.metadata[EMPTY]).tolist())))
        for name, (low, high) in found.items():
            known = bounds.get(name, (low, high))
            bounds[name] = min(known[0], low), max(known[1], high)
    variables, labels, numbers = {}, {}, {}
    for member, array in arrays.items():
        if any(name not in bounds for name in array.dims):   # it has no cells, and nobody knows its lengths
            continue
        known = array.attributes
        for attribute in known:
            name = _variable_name(attribute, array.dims, member, len(known) == 1)
            name = name if name not in variables else f"{member}.{name}"
            if name in left_out or attribute in left_out:
                continue
            variables[name] = _variable(array, attribute, bounds, numbers, member is not None and len(known) == 1, decode_enums)
        if member is None:
            attributes = {key: value for key, value in array.metadata.items() if not key.startswith(("__", "_gdal"))}
        for index, (label, dim) in enumerate(array.labels.items()):
            labels.setdefault(label, (dim, array, index))
    dataset = xarray.Dataset(variables, attrs={key: value for key, value in attributes.items() if not key.startswith(("__", "_gdal"))})
    return _with_coordinates(dataset, labels, numbers, None in arrays, left_out)


def _flags(labels, dtype):
    """The attributes by which the CF conventions explain codes; blanks within a label are underscores there."""
    words = ["_".join(label.split()) for label in labels if isinstance(label, str)]
    if len(labels) > _FLAGS or len(set(words)) != len(labels) or not all(words):
        return {}
    return {"flag_values": numpy.arange(len(words), dtype=dtype), "flag_meanings": " ".join(words)}


def _variable(array, attribute, bounds, numbers, own_metadata, decode_enums):
    datatype, nullable, fill, enumeration = {name: about for name, *about in array._about("name, datatype, nullable, fill, enumeration", "tessera_schema",
                                                                                          "role = 'attribute'")}[attribute]
    decoded = decode_enums and enumeration is not None
    block = (Labelled if decoded else Booleans if nullable and datatype == "BOOL" else Block)(array, attribute, bounds)
    dims = block.dims + tuple(f"{attribute}_{axis}" for axis in range(len(block.dims), block.ndim))
    numbers.update(zip(block.dims, block.coordinates))
    prefix = f"{ATTRIBUTE}{attribute}."
    described = {key[len(prefix):]: value for key, value in array.metadata.items() if key.startswith(prefix)}
    if own_metadata:   # GDAL describes a variable by the metadata of its array
        described.update({key: value for key, value in array.metadata.items() if not key.startswith("_")})
    encoding = {"preferred_chunks": dict(zip(dims, block.chunks)), "chunks": tuple(max(chunk) for chunk in block.chunks), "source": array.path}
    data, dims = (block, dims) if SCALAR not in dims else (block[0], ())
    described = {key: value if not isinstance(value, list) else numpy.asarray(value) for key, value in described.items()}
    if enumeration is not None and not decoded:
        described = {**_flags(array.categories(attribute), block.dtype), **described}
    if nullable and block.dtype.kind in "iu":   # xarray makes NaN of it; it has no nulls of integers
        limits = numpy.iinfo(block.dtype)
        missing = -1 if datatype == "BOOL" else int(fill) if fill is not None else limits.min if block.dtype.kind == "i" else limits.max
        described.setdefault("_FillValue", block.dtype.type(missing))
    return xarray.Variable(dims, indexing.LazilyIndexedArray(_Lazy(data)) if dims else data, described, encoding if dims else {})


def _with_coordinates(dataset, labels, numbers, alone, left_out):
    indexed = []
    for label, (dim, array, index) in labels.items():
        name = dim if label == f"{dim}_label" else label   # GDAL's name of what TileDB cannot call as the dimension
        if name in dataset.data_vars and dataset[name].dims == (dim,) and name != dim:   # a coordinate whose dimension has another name
            dataset = dataset.set_coords(name)
            indexed.append(name)
        if name in dataset.variables or name in left_out or not dataset.sizes.get(dim):
            continue
        values = array._label_values(index)
        low = numbers[dim][0]
        dataset = dataset.assign_coords({name: (dim, values(low, dataset.sizes[dim]))})
        if name != dim:
            indexed.append(name)
    for dim, coordinates in numbers.items():
        if dim in dataset.dims and dim not in dataset.variables and dim not in left_out and dim != SCALAR and (alone or len(coordinates) and coordinates[0] != 0):
            dataset = dataset.assign_coords({dim: coordinates})
    for name in indexed:
        dataset = dataset.set_xindex(name)
    return dataset
