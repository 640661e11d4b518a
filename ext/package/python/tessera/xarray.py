"""The engine "tessera" of xarray: xarray.open_dataset(path, engine="tessera", chunks={}) opens a dense array as a lazy Dataset.

Each attribute is a variable over what has been written of the array. Each dimension has its coordinates. Chunks are the tiles, so
with chunks={} dask reads each tile once. The array's metadata are the attributes of the Dataset.
"""
import json
import os

import numpy
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from .arrays import open as open_array

__all__ = ["Entrypoint"]
_MARKS = ("__schema", "__array_schema.tdb")   # one of them is in the directory of each array


class _Block(BackendArray):
    """An attribute that is read where it is indexed."""

    def __init__(self, array, attribute, dims, low, shape, dtype):
        self.array, self.attribute, self.dims, self.low, self.shape, self.dtype = array, attribute, dims, low, shape, dtype

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key):
        box, inside = {}, []
        for name, low, length, part in zip(self.dims, self.low, self.shape, key):
            if isinstance(part, slice):
                indices = range(*part.indices(length))
                inside.append(slice(None, None, part.step))
            else:
                indices = range(int(part) % length, int(part) % length + 1)
                inside.append(0)
            if not indices:
                return numpy.empty([len(range(*p.indices(n))) for p, n in zip(key, self.shape) if isinstance(p, slice)], self.dtype)
            box[name] = (low + min(indices[0], indices[-1]), low + max(indices[0], indices[-1]))
        return self.array.sel(**box).numpy(self.attribute)[tuple(inside)]


class Entrypoint(BackendEntrypoint):
    """What xarray calls for engine="tessera"."""

    description = "Dense TileDB-format arrays, read by tessera"
    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def guess_can_open(self, filename_or_obj):
        return isinstance(filename_or_obj, (str, os.PathLike)) and any(os.path.exists(os.path.join(filename_or_obj, mark)) for mark in _MARKS)

    def open_dataset(self, filename_or_obj, *, drop_variables=None):
        array = open_array(filename_or_obj)
        if array.kind != "dense":
            raise ValueError(f"array {array.path} is sparse: take its rows as an Arrow stream, as pandas, polars and pyarrow do with tessera.open()")
        left_out = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
        fields = array._rows("SELECT name, role, tile FROM tessera_schema(?)", array.path)
        tiles = {name: int(tile) for name, role, tile in fields if role == "dimension" and tile is not None}
        dims, bounds = array.dims, array.bounds
        if any(not isinstance(end, int) for ends in bounds.values() for end in ends):
            raise NotImplementedError(f"array {array.path} has a dimension that is no whole number")
        if not bounds:
            raise ValueError(f"array {array.path} has no cells yet")
        low, shape = [bounds[name][0] for name in dims], array.shape
        corner = array.sel(**{name: bounds[name][0] for name in dims})
        variables = {}
        for name in array.attributes:
            if name in left_out:
                continue
            cell = corner.numpy(name)
            if cell.ndim != len(dims):
                raise NotImplementedError(f"attribute {name} has several values in a cell: leave it out by drop_variables")
            data = indexing.LazilyIndexedArray(_Block(array, name, dims, low, shape, cell.dtype))
            chunks = {dim: tuple(_chunks(first, length, tiles[dim])) for dim, first, length in zip(dims, self._offsets(array, low), shape)}
            variables[name] = xarray.Variable(dims, data, encoding={"preferred_chunks": chunks, "source": array.path})
        coordinates = {name: numpy.arange(first, first + length) for name, first, length in zip(dims, low, shape) if name not in left_out}
        return xarray.Dataset(variables, coordinates, {name: value for name, value in array.metadata.items() if not name.startswith(("__", "_gdal"))})

    @staticmethod
    def _offsets(array, low):
        """How far each lowest coordinate lies behind the beginning of the domain, where the first tile begins."""
        domains = [json.loads(text) for text, in array._rows("SELECT domain FROM tessera_schema(?) WHERE role = 'dimension'", array.path)]
        return [first - domain[0] for first, domain in zip(low, domains)]


def _chunks(offset, length, tile):
    """The lengths of the parts into which tiles cut a range that begins `offset` behind the beginning of a tile."""
    while length:
        part = min(tile - offset % tile, length)
        yield part
        offset, length = offset + part, length - part
