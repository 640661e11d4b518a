"""The engine "tessera" of xarray: xarray.open_dataset(path, engine="tessera", chunks={}) opens a dense array, or a group of them, as a lazy Dataset.

Each attribute is a variable over what has been written. Chunks are the tiles, so with chunks={} dask reads each tile once. Coordinates are the
1-D arrays of a group that have the name of a dimension, dimension labels, or else the numbers of the cells. A dimension `lat_index` whose label, or
coordinate, is `lat` is the dimension `lat`. Metadata `__tiledb_attr.NAME.KEY` describe variables, as TileDB-CF writes them; the others describe the
Dataset.
"""
from __future__ import annotations

import json
import os

import numpy
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from .arrays import LENGTHS, Array, open as open_array
from .paths import place_of, spelled
from .blocks import Block, Booleans, Labelled
from .datasets import COORDINATES, DATASET, PLACE, SCALAR, SCALARS, described_by, variable_of
from .errors import Denied
from .grids import POSITIONS, typed_metadata

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
        """connection: for 'db:NAME'. as_of: the Dataset shows the state as of this time. group: the name of a nested group. key_file: for
        encrypted arrays. decode_enums: variables have the values of enumerations; without it, their codes, which the attributes flag_values and
        flag_meanings explain."""
        path = place_of(filename_or_obj) + (f"/{group}" if group else "")
        left_out = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        given = {"connection": connection, "as_of": as_of, "key_file": key_file}
        try:
            arrays, attributes = {None: open_array(path, **given)}, {}
        except FileNotFoundError:
            arrays, attributes = _members(path, given, left_out)
        dataset, indexed, metadata = _dataset(path, arrays, attributes, left_out, decode_enums)
        decode = {name: value for name, value in decode.items() if value is not None}
        dataset = xarray.decode_cf(dataset, **decode) if decode.get("decode_cf", True) else dataset
        if COORDINATES in metadata:
            known = set(json.loads(metadata[COORDINATES]))
            dataset = dataset.set_coords(known & set(dataset.data_vars)).reset_coords(set(dataset.coords) - set(dataset.indexes) - known)
        for name in indexed:   # xarray decodes no coordinate that has an index already and is not named as its dimension
            dataset = dataset.set_xindex(name)
        return dataset

    def open_datatree(self, filename_or_obj, **_):
        """Says what works; xarray would refuse without a word."""
        path = os.fspath(filename_or_obj)
        raise NotImplementedError(f"tessera opens one group at a time: xarray.open_dataset({path!r}, engine='tessera'), and a group within it by group='NAME'; "
                                  "xarray.DataTree.from_dict() makes a tree of them")

    open_groups_as_dict = open_datatree


def _members(path, given, left_out):
    """Returns the dense arrays of a group, by name, and its metadata. What lies outside of its directory is not opened: a group of a stranger may name
    any path."""
    group, found = Array(given["connection"], path), {}
    for name, kind, place in group._rows("SELECT name, kind, path FROM tessera_members(?)", path):
        name = name or os.path.basename(place.rstrip("/"))
        if kind != "array" or name in left_out:
            continue
        if not _lies_below(place, path):
            raise Denied(f"{path}: member {name!r} is outside the group's directory, at {place}: leave it out by drop_variables=[{name!r}], and open it by its own path")
        found[name] = open_array(place, **given)
    return {name: array for name, array in sorted(found.items(), key=_place) if array.kind == "dense"}, typed_metadata(group)


def _place(item):
    """What members of a group sort by: their places in the Dataset that the group was made of; the others come behind, as the group has them."""
    place = item[1].metadata.get(PLACE)
    return place if isinstance(place, int) else 2 ** 63


def _lies_below(path, directory):
    """The rule of tsr_path_lies_below: links and ".." are resolved."""
    if "://" in path or "://" in directory:
        return spelled(path).startswith(spelled(directory).rstrip("/") + "/") and ".." not in path.split("/")
    path, directory = os.path.realpath(path), os.path.realpath(directory)
    return os.path.normcase(path).startswith(os.path.join(os.path.normcase(directory), ""))


def _variable_name(attribute, dims, member):
    """The name of a variable: that of its attribute, or of the member whose attribute it is."""
    return attribute if attribute and attribute == member else variable_of(attribute, dims) or member or "value"


def _dataset(path, arrays, attributes, left_out, decode_enums):
    bounds = {}
    for member, array in arrays.items():
        if array.kind != "dense":
            raise ValueError(f"array {path} is sparse: take its rows as an Arrow stream, as pandas, polars and pyarrow do with tessera.open()")
        found = array.bounds
        if not found and member is None and LENGTHS not in array.metadata:
            raise ValueError(f"array {path} has no cells yet")
        if not found and LENGTHS in array.metadata:
            found = dict(zip(array.dims, ((0, length - 1) for length in numpy.atleast_1d(array.metadata[LENGTHS]).tolist())))
        for name, (low, high) in found.items():
            known = bounds.get(name, (low, high))
            bounds[name] = min(known[0], low), max(known[1], high)
    arrays = {member: array for member, array in arrays.items() if all(name in bounds for name in array.dims)}   # of one without cells nobody may know the lengths
    renamed, labels = _names(arrays)
    variables, numbers, alone = {}, {}, arrays.get(None)
    for member, array in arrays.items():
        known, metadata = array.attributes, typed_metadata(array)
        for attribute in known:
            name = _variable_name(attribute, array.dims, member)
            name = name if name not in variables else f"{member}.{name}"
            if name in left_out or attribute in left_out:
                continue
            variables[name] = _variable(array, attribute, bounds, numbers, renamed, metadata, member is not None and len(known) == 1, decode_enums)
        attributes = metadata if member is None else attributes
    dataset = xarray.Dataset(variables, attrs={key: value for key, value in attributes.items() if not key.startswith(("__", "_gdal"))})
    for key in attributes if alone else ():
        if key.startswith(SCALARS) and key[len(SCALARS):] not in left_out:
            name = key[len(SCALARS):]
            dataset = dataset.assign_coords({name: ((), attributes[key], described_by(name, attributes))})
    return _with_coordinates(dataset, labels, numbers, alone and DATASET not in attributes, left_out, attributes)


def _names(arrays):
    """Returns the dimensions that have another name in the Dataset, that of their coordinate, and the labels: by name their dimension and Array."""
    renamed, labels, dims = {}, {}, {dim for array in arrays.values() for dim in array.dims}
    for member, array in arrays.items():
        coordinates = {label: dim for label, dim in array.labels.items()}
        for label, dim in coordinates.items():
            labels.setdefault(label, (dim, array))
        if len(array.dims) == 1:
            coordinates.update({_variable_name(attribute, array.dims, member): array.dims[0] for attribute in array.attributes})
        renamed.update({dim: name for name, dim in coordinates.items() if dim == f"{name}{POSITIONS}"})
    while any(name in dims and name not in renamed for name in renamed.values()):   # a dimension has that name, and keeps it
        renamed = {dim: name for dim, name in renamed.items() if name not in dims or name in renamed}
    return renamed, {label: (renamed.get(dim, dim), array) for label, (dim, array) in labels.items()}


def _flags(labels, dtype):
    """The attributes by which the CF conventions explain codes; blanks within a label are underscores there."""
    words = ["_".join(label.split()) for label in labels if isinstance(label, str)]
    if len(labels) > _FLAGS or len(set(words)) != len(labels) or not all(words):
        return {}
    return {"flag_values": numpy.arange(len(words), dtype=dtype), "flag_meanings": " ".join(words)}


def _variable(array, attribute, bounds, numbers, renamed, metadata, own_metadata, decode_enums):
    datatype, nullable, fill, enumeration = {name: about for name, *about in array._about("name, datatype, nullable, fill, enumeration", "tessera_schema",
                                                                                          "role = 'attribute'")}[attribute]
    decoded = decode_enums and enumeration is not None
    block = (Labelled if decoded else Booleans if nullable and datatype == "BOOL" else Block)(array, attribute, bounds)
    own = tuple(renamed.get(dim, dim) for dim in block.dims)
    dims = own + tuple(f"{attribute}_{axis}" for axis in range(len(own), block.ndim))
    numbers.update(zip(own, block.coordinates))
    described = described_by(attribute, metadata)
    if own_metadata:   # GDAL describes a variable by the metadata of its array
        described.update({key: value for key, value in metadata.items() if not key.startswith("_")})
    encoding = {"preferred_chunks": dict(zip(dims, block.chunks)), "chunks": tuple(max(chunk) for chunk in block.chunks), "source": array.path}
    data, dims = (block, dims) if SCALAR not in dims else (block[0], ())
    if enumeration is not None and not decoded:
        described = {**_flags(array.categories(attribute), block.dtype), **described}
    if nullable and block.dtype.kind in "iu":   # xarray makes NaN of it; it has no nulls of integers
        limits = numpy.iinfo(block.dtype)
        missing = -1 if datatype == "BOOL" else int(fill) if fill is not None else limits.min if block.dtype.kind == "i" else limits.max
        described.setdefault("_FillValue", block.dtype.type(missing))
    return xarray.Variable(dims, indexing.LazilyIndexedArray(_Lazy(data)) if dims else data, described, encoding if dims else {})


def _with_coordinates(dataset, labels, numbers, alone, left_out, metadata):
    """Returns the Dataset, and its coordinates that want an index although their dimension has another name: it has no coordinate of its own."""
    indexed = []
    for label, (dim, array) in labels.items():
        name = dim if label == f"{dim}_label" else label   # GDAL's name of what TileDB cannot call as the dimension
        if name in dataset.data_vars and dataset[name].dims == (dim,) and name != dim:
            dataset = dataset.set_coords(name)
            indexed.append(name)
        if name in dataset.variables or name in left_out or not dataset.sizes.get(dim):
            continue
        values = array._label_values(label)(numbers[dim][0], dataset.sizes[dim])
        dataset = dataset.assign_coords({name: (dim, values, described_by(name, metadata))})
        if name != dim:
            indexed.append(name)
    indexed = [name for name in indexed if dataset.sizes[dataset[name].dims[0]] and dataset[name].dims[0] not in dataset.coords]
    for dim, coordinates in numbers.items():
        if dim in dataset.dims and dim not in dataset.variables and dim not in left_out and dim != SCALAR and (alone or len(coordinates) and coordinates[0] != 0):
            dataset = dataset.assign_coords({dim: coordinates})
    return dataset, indexed, metadata
