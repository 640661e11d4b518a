"""AnnData and scipy's sparse matrices. An AnnData becomes a group in the layout of TileDB-SOMA, which tessera_attach shows as tables with names in the
place of join ids: obs, ms/RNA/var, ms/RNA/X/data and so on. Matrices are read row block by row block, so memory stays bounded.

What has no place in that layout is named in a warning, or is JSON in the metadata of the group `uns`.
"""
from __future__ import annotations

import json
import os
import re
import warnings

import numpy

from .arrays import Array, exists
from .connections import own_connection
from .paths import need_connection, secret
from .errors import Constraint, Exists, NotFound, Unsupported
from .grids import already, check_place, new_place, remove_place, set_metadata, take_place

__all__ = ["create_anndata", "create_matrix", "read_anndata", "read_matrix"]

_CELLS = 4 << 20   # of a matrix that are read at once
_OPTIONS = {"measurement", "filters", "capacity", "format_version", "key_file", "memory_mb"}
_DIMS, _VALUE, _ID = ("soma_dim_0", "soma_dim_1"), "soma_data", "soma_joinid"
_INDEX = "index_name"   # a key of the metadata: what the DataFrame called its index
_SHAPE = "shape"        # another: of a matrix with a length of 0, which no domain has


# ---- Matrices ------------------------------------------------------------------------------------------------------------

def _blocks(matrix):
    """Yields (first row, rows first.. as a sparse or dense matrix) of a matrix in memory or in a file."""
    step = max(1, _CELLS // max(matrix.shape[1], 1))
    for start in range(0, matrix.shape[0], step):
        yield start, matrix[start:start + step]


def _coordinates(matrix, names):
    """Yields Arrow batches of the cells that a sparse matrix stores, or that are not 0 in a dense one."""
    import pyarrow
    import scipy.sparse
    if scipy.sparse.issparse(matrix) and matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    for start, block in _blocks(matrix):
        cells = scipy.sparse.coo_array(block) if not scipy.sparse.issparse(block) else block.tocoo()
        cells.sum_duplicates()
        order = numpy.lexsort((cells.col, cells.row))
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(cells.row[order].astype("i8") + start), pyarrow.array(cells.col[order].astype("i8")),
                                               pyarrow.array(cells.data[order])], names)


def create_matrix(path, matrix, connection, if_exists, options):
    """Makes a sparse array of a matrix of scipy: integers `row` and `col`, unless `dimensions` names them, and the attribute `value`."""
    import pyarrow

    from .making import create
    names = [*options.pop("dimensions", ("row", "col")), options.pop("attribute", "value")]
    if len(matrix.shape) != 2 or len(names) != 3:
        raise Constraint(f"a sparse array with two dimensions is made of a matrix, not of one with the shape {matrix.shape}")
    try:
        types = (pyarrow.int64(), pyarrow.int64(), pyarrow.from_numpy_dtype(matrix.dtype))
    except pyarrow.ArrowException:
        raise TypeError(f"a matrix of {matrix.dtype}, for which there is no type of cells: convert it") from None
    made = {"kind": "sparse", "dimensions": names[:2], "not_null": [names[2]], "domains": {name: [0, max(length, 1) - 1] for name, length in zip(names, matrix.shape)}}
    batches = pyarrow.RecordBatchReader.from_batches(pyarrow.schema(list(zip(names, types))), _coordinates(matrix, names))
    array = create(path, batches, connection=connection, if_exists=if_exists, **{**(made if if_exists != "append" else {}), **options})
    if 0 in matrix.shape and if_exists != "append" and isinstance(array, Array):
        set_metadata(array, _SHAPE, json.dumps(matrix.shape))
        array._now()
    return array


def read_matrix(array, attribute):
    """Returns the cells of an Array with two dimensions of integers as a scipy coo_array, whose shape is that of the domain, or of what was written if
    the domain has no end in practice."""
    import pyarrow
    import scipy.sparse
    dims = array.dims
    domains = {name: json.loads(current or domain) for name, domain, current in array._about("name, domain, current_domain", "tessera_schema", "role = 'dimension'") if domain}
    if len(dims) != 2 or any(not isinstance(end, (int, str)) for ends in domains.values() for end in ends) or len(domains) != 2:
        raise Unsupported(f"array {array.path} is not a matrix: a matrix has two dimensions of integers, and this has {', '.join(dims)}")
    table = pyarrow.table(array.select(*dims, attribute))
    row, col = (table[name].to_numpy() for name in dims)
    box, ends = array._resolved(), []
    for name, found in zip(dims, (row, col)):
        low, high = (int(end) for end in domains[name])
        if name in array._box or high - low >= 1 << 40:
            low, high = box.get(name, (0, -1)) if name in array._box else (min(0, int(found.min(initial=0))), int(found.max(initial=-1)))
        ends.append((low, high))
    shape = tuple(high - low + 1 for low, high in ends)
    if not len(row) and not array._box:
        shape = tuple(json.loads(array.metadata.get(_SHAPE, "null")) or shape)
    return scipy.sparse.coo_array((table[attribute].to_numpy(), (row - ends[0][0], col - ends[1][0])), shape)


# ---- AnnData into a group ------------------------------------------------------------------------------------------------

class _Group:
    """A group that is being made at a place: its members are made first, then the groups, from inside outward."""

    def __init__(self, place, connection, options):
        self.place, self.connection, self.options, self.arrays = place, connection, options, []

    def _mark(self, path, kind):
        for key, value in (("soma_object_type", kind), ("soma_encoding_version", "1.1.0")):
            set_metadata(Array(self.connection, path, state=secret(self.options)), key, value)

    def array(self, name, data, soma_type, **options):
        from .making import create
        path = f"{self.place}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True) if "://" not in path else None
        self.arrays.append(path)
        create(path, data, connection=self.connection, **{**self.options, **options})
        self._mark(path, soma_type)

    def group(self, name, kind, members):
        path = f"{self.place}/{name}" if name else self.place
        here = Array(self.connection, path)
        here._rows("SELECT tessera_create_group(?)", path)
        for member in members:
            here._rows("SELECT tessera_add_member(?, ?, ?)", path, f"{path}/{member}", member)
        self._mark(path, kind)

    def frame(self, name, frame, index):
        frame, named = frame.copy(), frame.index.name
        ids = frame.index.astype(str)
        if index in frame.columns or _ID in frame.columns:
            raise Constraint(f"{name}: a column is called {index!r} or {_ID!r}, as the layout calls its own: rename it")
        frame.index = numpy.arange(len(frame), dtype="i8")
        frame.index.name = _ID
        frame.insert(0, index, numpy.asarray(ids, object))
        untyped = {str(column): "TEXT" for column in frame.columns if frame[column].dtype.kind == "O" and not hasattr(frame[column].dtype, "categories") and frame[column].isna().all()}
        self.array(name, frame, "SOMADataFrame", kind="sparse", dimensions=[_ID], domains={_ID: [0, max(len(frame), 1) - 1]}, types=untyped)
        if named is not None:
            set_metadata(Array(self.connection, f"{self.place}/{name}", state=secret(self.options)), _INDEX, str(named))

    def matrix(self, name, matrix):
        """A sparse or dense matrix, as coordinates of what it stores."""
        create_matrix(f"{self.place}/{name}", matrix, self.connection, "fail", {"dimensions": list(_DIMS), "attribute": _VALUE, **self.options})
        self.arrays.append(f"{self.place}/{name}")
        self._mark(self.arrays[-1], "SOMASparseNDArray")

    def block(self, name, block):
        self.array(name, {_VALUE: numpy.asarray(block)}, "SOMADenseNDArray", dimensions=[f"soma_dim_{i}" for i in range(block.ndim)])


def _names(keys, where):
    for key in keys:
        if not re.fullmatch(r"[^/\\\x00]+", str(key)) or str(key) in (".", "..") or str(key).startswith("__"):
            raise Constraint(f"{where}[{key!r}]: its array would have this name, which no directory can have here: rename it")
    return [str(key) for key in keys]


def create_anndata(path, data, connection, if_exists, options):
    """Makes a group of an AnnData. measurement: its name in the group, RNA. Returns the Arrays by the names of their members."""
    path, unknown = os.fspath(path), set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"an AnnData has no option {', '.join(sorted(unknown))}; there are {', '.join(sorted(_OPTIONS))}")
    need_connection(connection, path)
    if path.startswith("db:"):
        raise Unsupported(f"{path}: an AnnData becomes a group, and groups are in directories and buckets")
    if if_exists not in ("fail", "replace"):
        raise NotImplementedError(f"if_exists {if_exists!r}: an AnnData is made whole; append to the arrays in it")
    there = exists(connection, path)
    check_place(path, there)
    if there and if_exists == "fail":
        raise Exists(already(path, there, "replace"))
    connection, place = connection or own_connection(), new_place(path)
    if there and place == path:
        raise Unsupported(f"{path}: in a bucket a group is not replaced")
    options = dict(options)
    measurement = options.pop("measurement", "RNA")
    made = _Group(place, connection, options)
    try:
        _fill(made, data, measurement)
        take_place(place, path, if_exists)
    except BaseException:
        remove_place(connection, place, *made.arrays)
        raise
    return {array[len(place) + 1:]: Array(connection, path + array[len(place):], state=secret(options))._now() for array in made.arrays}


def _fill(made, data, measurement):
    _names([measurement], "measurement")
    ms = f"ms/{measurement}"
    made.frame("obs", data.obs, "obs_id")
    made.frame(f"{ms}/var", data.var, "var_id")
    parts = {"var": None}
    layers = {**({"data": data.X} if data.X is not None else {}), **{name: data.layers[name] for name in data.layers}}
    if data.X is not None and "data" in data.layers:
        raise Constraint("a layer is called 'data', as X is here: rename it")
    for kind, matrices in (("X", layers), ("obsm", data.obsm), ("varm", data.varm), ("obsp", data.obsp), ("varp", data.varp)):
        names = _names(matrices, kind if kind != "X" else "layers")
        for name in names:
            matrix = matrices[name]
            if hasattr(matrix, "columns"):   # a DataFrame in obsm
                if matrix.to_numpy().dtype.kind not in "biuf":
                    raise TypeError(f"{kind}[{name!r}]: a DataFrame with columns that are not all numbers: put them into {'obs' if kind == 'obsm' else 'var'}")
                warnings.warn(f"AnnData.{kind}[{name!r}]: the names of its columns are not kept: {', '.join(map(str, matrix.columns))}", stacklevel=5)
                matrix = matrix.to_numpy()
            (made.block if kind in ("obsm", "varm") and isinstance(matrix, numpy.ndarray) else made.matrix)(f"{ms}/{kind}/{name}", matrix)
        if names:
            made.group(f"{ms}/{kind}", "SOMACollection", names)
            parts[kind] = None
    made.group(ms, "SOMAMeasurement", parts)
    made.group("ms", "SOMACollection", [measurement])
    members = ["obs", "ms"]
    if data.uns:
        made.group("uns", "SOMACollection", ())
        _unstructured(Array(made.connection, f"{made.place}/uns"), data.uns)
        members.append("uns")
    if getattr(data, "raw", None) is not None:
        warnings.warn("AnnData.raw is not kept: make a group of data.raw.to_adata(), too", stacklevel=5)
    made.group("", "SOMAExperiment", members)
    set_metadata(Array(made.connection, made.place), "dataset_type", "soma")


def _unstructured(group, entries):
    """Keeps what JSON can hold, ndarrays as lists with their dtype; the rest is named."""
    lost = []
    for key, value in entries.items():
        try:
            set_metadata(group, f"json.{key}", json.dumps(_jsonable(value)))
        except TypeError:
            lost.append(key)
    if lost:
        warnings.warn(f"AnnData.uns: {', '.join(map(repr, lost))} is not kept: only numbers, texts, ndarrays of one of them, lists, and dicts whose keys are texts are", stacklevel=6)


def _jsonable(value):
    texts = isinstance(value, numpy.ndarray) and (value.dtype.kind in "US" or value.dtype.kind == "O" and all(isinstance(each, str) for each in value.ravel()))
    if texts or isinstance(value, numpy.ndarray) and value.dtype.kind in "biuf":
        return {"__ndarray__": value.astype(str).tolist() if value.dtype.kind in "SO" else value.tolist(), "dtype": "str" if value.dtype.kind in "SUO" else value.dtype.str}
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):   # of 1 and "1" JSON would make one key
        return {key: _jsonable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(type(value).__name__)


# ---- AnnData out of a group ----------------------------------------------------------------------------------------------

def read_anndata(path, connection, measurement, layer):
    """Returns the AnnData of a SOMA experiment: of one that this module has made, or TileDB-SOMA."""
    import anndata
    import pandas
    import pyarrow

    from .arrays import open as open_array
    from .results import to_pandas
    root = Array(connection, os.fspath(path))

    def members(path):
        return {name: uri for name, uri in root._rows("SELECT name, path FROM tessera_members(?)", path)} if exists(connection, path) == "a group" else {}

    def frame(path, index):
        array = open_array(path, connection=connection)
        columns = to_pandas(array, gaps=True).sort_values(_ID).drop(columns=_ID).reset_index(drop=True)
        names = columns.pop(index).astype(str) if index in columns else pandas.RangeIndex(len(columns)).astype(str)
        columns.index = pandas.Index(numpy.asarray(names, object), name=array.metadata.get(_INDEX))
        return columns

    top = members(root.path)
    if "obs" not in top or "ms" not in top:
        raise NotFound(f"{path}: it is no SOMA experiment: it has no members obs and ms")
    found = members(top["ms"])
    name = measurement or next(iter(found), None)
    if name not in found:
        raise NotFound(f"{path} has no measurement {name!r}; it has {', '.join(found) or 'none'}")
    parts = members(found[name])
    obs, var = frame(top["obs"], "obs_id"), frame(parts["var"], "var_id")
    sizes = {"X": (len(obs), len(var)), "obsp": (len(obs), len(obs)), "varp": (len(var), len(var))}

    def matrix(path, kind):
        array = open_array(path, connection=connection)
        if array.kind == "dense":
            block = array.numpy(_VALUE)
            return block if block.size else numpy.empty((len(obs) if kind == "obsm" else len(var), 0), block.dtype)
        cells = read_matrix(array, _VALUE).tocsr()
        cells.resize(sizes.get(kind, (len(obs) if kind == "obsm" else len(var), cells.shape[1])))
        return cells if kind in sizes else cells.toarray()

    layers = {each: matrix(where, "X") for each, where in members(parts["X"]).items()} if "X" in parts else {}
    x = layers.pop(layer if layer in layers else "data" if "data" in layers else next(iter(layers), None), None)
    given = {kind: {each: matrix(where, kind) for each, where in members(parts[kind]).items()} for kind in ("obsm", "varm", "obsp", "varp") if kind in parts}
    uns = {key[5:]: _of_json(json.loads(value)) for key, value in Array(connection, top["uns"]).metadata.items() if key.startswith("json.")} if "uns" in top else {}
    return anndata.AnnData(X=x, obs=obs, var=var, uns=uns, layers=layers, **given)


def _of_json(value):
    if isinstance(value, dict):
        if set(value) == {"__ndarray__", "dtype"}:
            return numpy.array(value["__ndarray__"], value["dtype"] if value["dtype"] != "str" else None)
        return {key: _of_json(each) for key, each in value.items()}
    return [_of_json(each) for each in value] if isinstance(value, list) else value
