"""Arrays for libraries that take Arrow streams: pyarrow, pandas, polars, DuckDB and others.

An Array reads nothing until a library asks for its stream. Streams are made and released in C (tessera_api of tessera_arrow.h); Python only
wraps them into capsules. numpy is imported where an ndarray is asked for.
"""
import ctypes
import io
import json
import os

__all__ = ["Array", "create", "create_as", "create_csv", "open"]


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
    """A part of an array, seen through a connection. Each method returns a new Array and reads nothing.

        a = tessera.open("data/weather", connection=db)
        pyarrow.table(a.sel(day=("2024-06-01", "2024-06-30")).select("day", "temp"))
    """

    def __init__(self, connection, path, box=None, options=None):
        self.connection, self.path = connection, path
        self._box, self._options = box or {}, options or {}

    def _fields(self, role):
        return tuple(name for name, in self.connection.execute("SELECT name FROM tessera_schema(?) WHERE role = ?", (self.path, role)))

    @property
    def dims(self):
        """The names of the dimensions."""
        return self._fields("dimension")

    @property
    def attributes(self):
        """The names of the attributes."""
        return self._fields("attribute")

    def _with(self, **options):
        return Array(self.connection, self.path, self._box, {**self._options, **options})

    def select(self, *columns):
        """These columns only, in this order."""
        return self._with(columns=list(columns))

    def sel(self, **dims):
        """Cells whose coordinates are a value, or lie between two ends, both inclusive: day="2024-06-01", x=(10, 20), y=slice(None, 5)."""
        return Array(self.connection, self.path, {**self._box, **{name: _bounds(value) for name, value in dims.items()}}, self._options)

    def where(self, attribute, operator, value):
        """Cells that satisfy a comparison: = < <= > >=, or "is" and "is not" with None. Several must all hold."""
        return self._with(where=self._options.get("where", []) + [[attribute, operator, value]])

    def order(self, *dims):
        """Rows by these dimensions; (name, "desc") is downward."""
        return self._with(order=[[dim] if isinstance(dim, str) else list(dim) for dim in dims])

    def __arrow_c_stream__(self, requested_schema=None):
        functions = _functions(self.connection)
        box, options = (json.dumps(part, default=_plain) for part in (self._box, self._options))
        token = self.connection.execute("SELECT tessera_stream(?, ?, ?)", (self.path, box, options)).fetchone()[0]
        stream = functions.take_new(token.encode())
        if not stream:
            raise MemoryError("an Arrow stream")
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(stream, _NAME, functions.free_capsule)

    def numpy(self, attribute):
        """An attribute of the box as an ndarray; dense arrays. Nulls and cells that were never written are the fill value."""
        import numpy
        if set(self._options) - {"columns"}:
            raise NotImplementedError("numpy() knows boxes alone: where, order and times need a stream")
        box = json.dumps(self._box, default=_plain)
        return numpy.load(io.BytesIO(self.connection.execute("SELECT tessera_npy(?, ?, ?)", (self.path, attribute, box)).fetchone()[0]))

    def __repr__(self):
        return f"<tessera.Array {self.path!r} {json.dumps({**self._box, **self._options}, default=_plain)}>"


def open(path, *, connection, as_of=None, since=None, key=None, **options):
    """Returns the Array at a path: a directory, a URL of a bucket, or 'db:NAME', an array in the connection's database.

    connection: of sqlite3 or apsw, with tessera loaded (tessera.load). as_of, since: what was written between these times. Further options are
    those of tessera_stream: strings, enums, datetimes, unwritten, batch_rows.
    """
    given = {"as_of": as_of, "since": since, "key": key, **options}
    array = Array(connection, path, None, {name: value for name, value in given.items() if value is not None})
    if not array.dims:
        raise FileNotFoundError(path)
    return array


def _create(connection, function, path, source, if_exists, options):
    """Calls one of the functions that make an array, and returns the Array."""
    options = {name: value for name, value in {**options, "if_exists": if_exists}.items() if value is not None}
    connection.execute(f"SELECT {function}(?, ?, ?)", (path, source, json.dumps(options, default=_plain))).fetchone()
    return Array(connection, path)


def create_as(connection, path, select, *, if_exists="fail", **options):
    """Makes an array of the rows of a SELECT, or appends them (if_exists="append"). Options are those of tessera_create_as."""
    return _create(connection, "tessera_create_as", path, select, if_exists, options)


def create_csv(path, file, *, connection, if_exists="fail", **options):
    """Makes an array of the lines of a CSV file. Options are those of tessera_create_csv."""
    return _create(connection, "tessera_create_csv", path, os.fspath(file), if_exists, options)


def create(path, data, *, connection, if_exists="fail", **options):
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
    if not _functions(connection).put(pointer(capsule, _NAME), token):
        raise MemoryError("an Arrow stream")
    return _create(connection, "tessera_create_stream", path, token.value.decode(), if_exists, options)
