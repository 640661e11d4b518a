"""Arrow streams for libraries that take them: pyarrow, pandas, polars, DuckDB and others. They are made and released in C (tessera_api of
tessera_arrow.h); Python only wraps them into capsules.
"""
from __future__ import annotations

import ctypes
import json
import weakref
from typing import Any

from . import statements as sql
from .connections import functions_of
from .errors import plain_errors
from .values import plain_value

__all__ = ["SCHEMA", "STREAM", "Joined", "Rows", "Stream", "capsule_pointer", "make_capsule", "rows"]

STREAM, SCHEMA = b"arrow_array_stream", b"arrow_schema"   # names of capsules; they borrow them
_RUNS = 1000   # streams of neighbours that one list of coordinates may make
_OF_FRAMES = frozenset("agg apply astype corr describe drop dropna fillna filter groupby head hist iloc info iterrows itertuples join loc melt merge pivot pivot_table plot query rename "
                       "reset_index sample set_index sort_index sort_values tail to_csv to_dict to_excel to_feather to_json to_list to_markdown to_parquet to_sql value_counts values".split())


def make_capsule(pointer, name, destructor):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(pointer, name, destructor)


def capsule_pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


class Stream:
    """An object that exports Arrow streams, each with the same rows: pyarrow.table(stream), polars.DataFrame(stream) and others."""

    def __getattr__(self, name):
        """Python calls it for what is missing: says where that of a DataFrame is."""
        if name in _OF_FRAMES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: a DataFrame has it, which .df() makes; "
                                 'tessera.sql("SELECT ... FROM ...") filters, groups, joins and sorts without one')
        return object.__getattribute__(self, name)   # fails as always, or as a property has failed

    def _stream(self):
        """Returns the functions of the extension, and a new stream."""
        raise NotImplementedError

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Returns a new stream in a capsule, as the Arrow PyCapsule interface wants it.

        requested_schema: a capsule with the types that the caller would like. They are given if the names match and no cast can fail.
        """
        functions, stream = self._stream()
        if not stream:
            raise MemoryError("an Arrow stream")
        made = make_capsule(stream, STREAM, functions.free_capsule)
        if requested_schema is not None:
            functions.request(stream, capsule_pointer(requested_schema, SCHEMA))
        return made

    def df(self) -> Any:
        """The rows as a pandas DataFrame. Times are timedelta64, since they may be longer than a day."""
        from .results import to_pandas
        return to_pandas(self._in_order(), dtypes=self._dtypes())

    def _in_order(self):
        """Returns what has the rows in an order, if a stream's own has none that a table would have."""
        return self

    def _dtypes(self):
        """The names of pandas' types that columns had in a DataFrame, and that Arrow does not know."""
        return {}

    def pl(self) -> Any:
        """The rows as a polars DataFrame."""
        from .results import library
        return library("polars").DataFrame(self._in_order())

    def arrow(self) -> Any:
        """The rows as a pyarrow Table."""
        from .results import library
        return library("pyarrow").table(self._in_order())


class Rows(Stream):
    """The rows of a SELECT that runs once, for all of its streams."""

    def __init__(self, connection, select, options, values=()):
        self._functions = functions_of(connection)   # the rows outlive the connection, once the SELECT has run
        with plain_errors(None):
            token = sql.rows(connection, f"SELECT tessera_rows(?, ?{', ?' * len(values)})", (select, json.dumps(options, default=plain_value), *values))[0][0]
        self._first = self._functions.take_new(token.encode())
        weakref.finalize(self, self._functions.free_stream, self._first)

    def _stream(self):
        return self._functions, self._functions.again(self._first)


class Joined(Stream):
    """The rows of several Arrays, one after the other."""

    def __init__(self, arrays):
        self._arrays = arrays

    def _stream(self):
        if len(self._arrays) > _RUNS:
            raise NotImplementedError(f"the lists of coordinates have {len(self._arrays)} runs of neighbours, more than {_RUNS}: take a range, and choose rows in what comes of it")
        streams = [array._stream()[1] for array in self._arrays]
        functions = functions_of(self._arrays[0].connection)
        return functions, functions.join((ctypes.c_void_p * len(streams))(*streams), len(streams))


def rows(connection: Any, select: str, **options: Any) -> Stream:
    """Returns the rows of any SELECT as Arrow streams: pyarrow.table(tessera.rows(db, "SELECT ...")).

    The SELECT runs once, when a library first asks for types or rows; every stream has the same rows. Options are those of tessera_rows: types,
    enumerate, columns, memory_mb.
    """
    return Rows(connection, select, options)
