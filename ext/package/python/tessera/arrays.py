"""Arrays for libraries that take Arrow streams: pyarrow, pandas, polars, DuckDB and others.

An Array reads nothing until a library asks for its stream. Streams are made and released in C (tessera_api of tessera_arrow.h); Python only
wraps them into capsules. numpy is imported where an ndarray is asked for. Without a connection, an Array reads through a connection to an empty
database that each thread of each process has of its own; so it can be shared by threads, pickled, and used after a fork.
"""
import ctypes
import io
import json
import os
import threading

from .errors import plain_errors
from .loading import load

__all__ = ["Array", "configure", "create", "create_as", "create_csv", "open"]


class _Functions(ctypes.Structure):   # tessera_functions of tessera_arrow.h
    _fields_ = [("version", ctypes.c_int),
                ("library_version", ctypes.c_char_p),
                ("take", ctypes.c_void_p),
                ("take_new", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)),
                ("free_stream", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("use_capsules", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("free_capsule", ctypes.c_void_p),
                ("put", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p))]


_NAME = b"arrow_array_stream"   # of capsules; they borrow it
_libraries = {}                 # path of a loaded extension: its functions
_own = {}                       # (process, thread): its connection. None is ever closed: a stream may outlive the thread that made it
_scopes = {}                    # scope of tessera_s3: its options, for all connections of this module
_lock = threading.Lock()


def _after_fork():   # another thread of the parent may have held the lock
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _connect():
    """Returns the connection that this thread of this process has for Arrays without one."""
    name = (os.getpid(), threading.get_ident())
    with _lock:
        if name not in _own:
            try:
                import sqlite3
                connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
                load(connection)
            except (ImportError, RuntimeError):
                import apsw
                connection = apsw.Connection(":memory:")
                load(connection)
            for scope, options in _scopes.items():
                connection.execute("SELECT tessera_s3(?, ?)", (scope, options)).fetchone()
            _own[name] = connection
        return _own[name]


def configure(scope, **options):
    """Declares how Arrays without a connection reach a bucket: configure("s3://climate", provider="anonymous", region="eu-central-1").

    Options are those of tessera_s3. They hold for this process; pickled Arrays take no keys along.
    """
    text = json.dumps(options)
    with plain_errors(scope):
        _connect().execute("SELECT tessera_s3(?, ?)", (scope, text)).fetchone()
        with _lock:
            _scopes[scope] = text
            for (process, _), connection in _own.items():
                if process == os.getpid() and type(connection).__module__ == "sqlite3":
                    connection.execute("SELECT tessera_s3(?, ?)", (scope, text)).fetchone()


def _functions(connection):
    """Returns the functions of the extension that this connection has loaded."""
    path = connection.execute("SELECT tessera_library()").fetchone()[0]
    if path not in _libraries:
        library = ctypes.CDLL(path)
        library.tessera_api.restype = ctypes.POINTER(_Functions)
        library.tessera_api.argtypes = [ctypes.c_int]
        table = library.tessera_api(1)
        if not table:
            raise NotImplementedError(f"{path} is of another version than this module")
        table.contents.use_capsules(ctypes.cast(ctypes.pythonapi.PyCapsule_GetPointer, ctypes.c_void_p))
        _libraries[path] = table.contents
    return _libraries[path]


def _plain(value):
    """Returns a date as ISO text, a number of numpy as Python's."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value.item() if hasattr(value, "item") else str(value)


def _bounds(value):
    if isinstance(value, slice):
        if value.step is not None:
            raise ValueError("a slice of an array has no step")
        value = (value.start, value.stop)
    return list(value) if isinstance(value, (tuple, list)) else value


class Array:
    """A part of an array. Each method returns a new Array and reads nothing.

        a = tessera.open("data/weather")
        pyarrow.table(a.sel(day=("2024-06-01", "2024-06-30")).select("day", "temp"))
    """

    def __init__(self, connection, path, box=None, options=None):
        self._connection, self.path = connection, path
        self._box, self._options = box or {}, options or {}

    @property
    def connection(self):
        """The connection that was given to open(); otherwise that of this thread."""
        return self._connection or _connect()

    def __reduce__(self):
        if self._connection:
            raise TypeError("an Array that was opened with a connection cannot be pickled: open it by its path alone")
        if "key" in self._options:
            raise TypeError("an Array that was opened with a key cannot be pickled: open it again where it is used")
        return Array, (None, self.path, self._box, self._options)

    def _rows(self, sql, *values):
        with plain_errors(self.path):
            return self.connection.execute(sql, values).fetchall()

    def _fields(self, role):
        return tuple(name for name, in self._rows("SELECT name FROM tessera_schema(?) WHERE role = ?", self.path, role))

    @property
    def dims(self):
        """The names of the dimensions."""
        return self._fields("dimension")

    @property
    def attributes(self):
        """The names of the attributes."""
        return self._fields("attribute")

    @property
    def kind(self):
        """"dense" or "sparse"."""
        return self._rows("SELECT kind FROM tessera_array(?)", self.path)[0][0]

    @property
    def metadata(self):
        """The metadata of the array, as a dict."""
        return dict(self._rows("SELECT key, value FROM tessera_metadata(?)", self.path))

    @property
    def bounds(self):
        """The lowest and the highest coordinate of each dimension that was written; empty if nothing was."""
        return {name: tuple(ends) for name, ends in json.loads(self._rows("SELECT non_empty_domain FROM tessera_array(?)", self.path)[0][0] or "{}").items()}

    @property
    def shape(self):
        """The cells along each dimension of whole numbers, from the lowest to the highest that was written; of the box, if sel() gave one."""
        bounds = self._box_bounds()
        return tuple(bounds[name][1] - bounds[name][0] + 1 for name in self.dims)

    def _box_bounds(self):
        bounds = self.bounds or {name: (0, -1) for name in self.dims}
        for name, given in self._box.items():
            low, high = given if isinstance(given, list) else (given, given)
            bounds[name] = (bounds[name][0] if low is None else low, bounds[name][1] if high is None else high)
        return bounds

    def _with(self, **options):
        return Array(self._connection, self.path, self._box, {**self._options, **options})

    def select(self, *columns):
        """These columns only, in this order."""
        return self._with(columns=list(columns))

    def sel(self, **dims):
        """Cells whose coordinates are a value, or lie between two ends, both inclusive: day="2024-06-01", x=(10, 20), y=slice(None, 5)."""
        return Array(self._connection, self.path, {**self._box, **{name: _bounds(value) for name, value in dims.items()}}, self._options)

    def where(self, attribute, operator, value):
        """Cells that satisfy a comparison: = < <= > >=, or "is" and "is not" with None. Several must all hold."""
        return self._with(where=self._options.get("where", []) + [[attribute, operator, value]])

    def order(self, *dims):
        """Rows by these dimensions; (name, "desc") is downward."""
        return self._with(order=[[dim] if isinstance(dim, str) else list(dim) for dim in dims])

    def __arrow_c_stream__(self, requested_schema=None):
        functions = _functions(self.connection)
        box, options = (json.dumps(part, default=_plain) for part in (self._box, self._options))
        token = self._rows("SELECT tessera_stream(?, ?, ?)", self.path, box, options)[0][0]
        stream = functions.take_new(token.encode())
        if not stream:
            raise MemoryError("an Arrow stream")
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(stream, _NAME, functions.free_capsule)

    def numpy(self, attribute=None, out=None):
        """An attribute of the box as an ndarray; dense arrays. Nulls and cells that were never written are the fill value.

        attribute may be left out if there is only one. out: an ndarray of this shape and type that takes the values.
        """
        import numpy
        if set(self._options) - {"columns"}:
            raise NotImplementedError("numpy() knows boxes alone: where, order, keys and times need a stream")
        box = json.dumps(self._box, default=_plain)
        found = numpy.load(io.BytesIO(self._rows("SELECT tessera_npy(?, ?, ?)", self.path, self._only(attribute), box)[0][0]))
        if out is None:
            return found
        if out.shape != found.shape or out.dtype != found.dtype:
            raise ValueError(f"out is {out.dtype}{out.shape}, the block is {found.dtype}{found.shape}")
        out[...] = found
        return out

    def _only(self, attribute):
        """Returns the attribute; if none is named, the only one."""
        names = [attribute] if attribute else [name for name in self._options.get("columns", self.attributes) if name not in self.dims]
        if len(names) != 1:
            raise ValueError(f"array {self.path} has the attributes {', '.join(names)}: name one")
        return names[0]

    def __array__(self, dtype=None, copy=None):
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def write(self, attribute, block, origin=None):
        """Writes an ndarray into a dense array, as one commit; it must have no other attribute. origin: its lowest coordinates, by dimension."""
        return self.write_all({attribute: block}, origin)

    def write_all(self, blocks, origin=None):
        """Writes an ndarray for each attribute, as one commit. Returns the number of cells."""
        import numpy
        values = []
        for name, block in blocks.items():
            file = io.BytesIO()
            numpy.save(file, block, allow_pickle=False)
            values += [name, file.getvalue()]
        marks = ", ".join("?" * (len(values) + 2))
        return self._rows(f"SELECT tessera_write_npy({marks})", self.path, *values, json.dumps(origin or {}, default=_plain))[0][0]

    def __repr__(self):
        return f"<tessera.Array {self.path!r} {json.dumps({**self._box, **self._options}, default=_plain)}>"


def open(path, *, connection=None, as_of=None, since=None, key=None, **options):
    """Returns the Array at a path: a directory, a URL of a bucket, or 'db:NAME', an array in the connection's database.

    connection: of sqlite3 or apsw, with tessera loaded (tessera.load); only 'db:NAME' needs it. as_of, since: what was
    written between these times; without them each read sees what is written then. Further options are those of tessera_stream: strings, enums,
    datetimes, unwritten, batch_rows.
    """
    given = {"as_of": as_of, "since": since, "key": key, **options}
    path = os.fspath(path)
    if connection is None and path.startswith("db:"):
        raise ValueError(f"{path} lies in a database: say connection=")
    array = Array(connection, path, None, {name: value for name, value in given.items() if value is not None})
    array.dims   # fails if there is no array
    return array


def _create(connection, function, path, source, if_exists, options):
    """Calls one of the functions that make an array, and returns the Array."""
    options = {name: value for name, value in {**options, "if_exists": if_exists}.items() if value is not None}
    array = Array(connection, os.fspath(path))
    array._rows(f"SELECT {function}(?, ?, ?)", array.path, source, json.dumps(options, default=_plain))
    return array


def create_as(connection, path, select, *, if_exists="fail", **options):
    """Makes an array of the rows of a SELECT, or appends them (if_exists="append"). Options are those of tessera_create_as."""
    return _create(connection, "tessera_create_as", path, select, if_exists, options)


def create_csv(path, file, *, connection=None, if_exists="fail", **options):
    """Makes an array of the lines of a CSV file. Options are those of tessera_create_csv."""
    return _create(connection, "tessera_create_csv", path, os.fspath(file), if_exists, options)


def create(path, data, *, connection=None, if_exists="fail", **options):
    """Makes an array of anything that has Arrow streams: tables of pyarrow, DataFrames of pandas and polars, relations of DuckDB, Arrays.

    A dict of one-dimensional ndarrays is a table, too; it needs pyarrow. The named levels of a DataFrame's index are the dimensions, unless
    `dimensions` names them. Options are those of tessera_create_stream.
    """
    names = [name for name in getattr(getattr(data, "index", None), "names", None) or () if name is not None]
    if names and not callable(data.index):
        options.setdefault("dimensions", names)
    if isinstance(data, dict):
        import pyarrow
        data = pyarrow.table(data)
    if not hasattr(data, "__arrow_c_stream__"):
        raise TypeError(f"{type(data).__name__} has no Arrow stream (__arrow_c_stream__)")
    capsule = data.__arrow_c_stream__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    token = ctypes.create_string_buffer(33)
    if not _functions(connection or _connect()).put(pointer(capsule, _NAME), token):
        raise MemoryError("an Arrow stream")
    return _create(connection, "tessera_create_stream", path, token.value.decode(), if_exists, options)
