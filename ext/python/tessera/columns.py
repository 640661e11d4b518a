"""Columns of numpy as an Arrow stream, for tessera_create_stream, without an Arrow library. The stream borrows the ndarrays' memory."""
from __future__ import annotations

import ctypes
import datetime
import itertools

import numpy

from .structures import GET as _GET
from .structures import RELEASE_ARRAY as _RELEASE_ARRAY
from .structures import RELEASE_SCHEMA as _RELEASE_SCHEMA
from .structures import ArrowArray as _Array
from .structures import ArrowSchema as _Schema
from .structures import ArrowStream as _Stream

__all__ = ["check_frame", "check_names", "given_stream", "native", "object_type", "of_frame", "whole_days"]


_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}   # as SQLite compares names
_numbers = itertools.count(1)
_alive = {}   # what the streams that nobody has released hold, by private_data
_INTEGERS = {"i": "csil", "u": "CSIL"}   # Arrow's letters for 1, 2, 4 and 8 bytes


def _release(kind):
    def release(pointer):
        pointer.contents.release = type(pointer.contents.release)()
    return kind(release)


_release_schema, _release_array = _release(_RELEASE_SCHEMA), _release(_RELEASE_ARRAY)


@_GET
def _end(stream, out):
    ctypes.memset(out, 0, ctypes.sizeof(_Array))   # an array without `release`: the end
    return 0


@_GET
def _get_schema(stream, out):
    ctypes.memmove(out, ctypes.byref(_alive[stream.contents.private_data][0]), ctypes.sizeof(_Schema))
    return 0


@_GET
def _get_next(stream, out):
    ctypes.memmove(out, ctypes.byref(_alive[stream.contents.private_data][1]), ctypes.sizeof(_Array))
    stream.contents.get_next = _end
    return 0


@type(_Stream().get_last_error)
def _no_error(stream):
    return None


@type(_Stream().release)
def _release_stream(stream):
    _alive.pop(stream.contents.private_data, None)
    stream.contents.release = type(stream.contents.release)()


def _nodes(name, form, length, buffers, *, nulls=0, flags=2, dictionary=None, children=()):
    """Returns a schema and an array, and what they point to."""
    held = [buffers, dictionary, children]
    pointers = (ctypes.c_void_p * max(len(buffers), 1))(*(None if b is None else b.ctypes.data for b in buffers))
    schema = _Schema(form.encode(), name.encode(), None, flags, len(children), release=_release_schema)
    array = _Array(length, nulls, 0, len(buffers), len(children), pointers, release=_release_array)
    held.append(pointers)
    if dictionary:
        schema.dictionary, array.dictionary = ctypes.pointer(dictionary[0]), ctypes.pointer(dictionary[1])
    if children:
        schemas = (ctypes.POINTER(_Schema) * len(children))(*(ctypes.pointer(child[0]) for child in children))
        arrays = (ctypes.POINTER(_Array) * len(children))(*(ctypes.pointer(child[1]) for child in children))
        schema.children, array.children = schemas, arrays
        held += [schemas, arrays]
    return schema, array, held


def _bits(valid):
    return None if valid is None or valid.all() else numpy.packbits(valid, bitorder="little")


def _bytes_column(name, values, valid, text):
    try:
        encoded = [b"" if not good else v.encode() if isinstance(v, str) else bytes(v) for v, good in zip(values, valid)]
    except UnicodeEncodeError as e:
        raise ValueError(f"column {name!r} has the text {e.object[:40]!r}, which is not Unicode: half of a surrogate pair has no character") from None
    offsets = numpy.zeros(len(encoded) + 1, "i8")
    numpy.cumsum([len(v) for v in encoded], out=offsets[1:])
    data = numpy.frombuffer(b"".join(encoded) or b"\0", "u1")
    return _nodes(name, "U" if text else "Z", len(encoded), [_bits(valid), offsets, data], nulls=int((~valid).sum()))


def _integer_type(name, values):
    """Returns the type of 8 bytes that has all of these integers."""
    low, high = min(values, default=0), max(values, default=0)
    if low < -2**63 or high >= 2**64 or low < 0 and high >= 2**63:
        raise ValueError(f"column {name!r} has integers from {low} to {high}, which neither INT64 nor UINT64 holds")
    return "u8" if high >= 2**63 else "i8"


def _is_exact(value):
    """Whether an integer keeps its digits as a FLOAT64."""
    return -2**53 <= value <= 2**53 or -2**1023 < value < 2**1023 and int(float(value)) == value


def _one_clock(name, values):
    """Fails if some instants have a time zone and others do not: those would be taken for UTC in silence."""
    zones = {v.tzinfo is None for v in values}
    if len(zones) > 1:
        raise TypeError(f"column {name!r} has instants with and without a time zone: give all of them one, or none")


def check_names(names):
    """Fails if two columns become one, or if a name would be cut: Arrow ends it at a NUL."""
    seen = set()
    for name in map(str, names):
        if "\0" in name:
            raise ValueError(f"column {name!r} has a NUL in its name: rename it")
        if name in seen:
            raise ValueError(f"two columns are called {name!r}: rename one")
        seen.add(name)
    cases = {}
    for name in seen:
        same = cases.setdefault(name.translate(_LOWER), name)
        if same != name:
            first, second = sorted((same, name))
            raise ValueError(f"columns {first!r} and {second!r} differ in the case of letters alone, which SQL does not tell apart: rename one")


def object_type(name, values):
    """Returns the dtype that a column of Python's objects has, with None and NaN between them: "U" for texts, "S" for bytes; and which are there."""
    valid = numpy.fromiter((v is not None and v == v for v in values), bool, len(values))
    kinds = {type(v) for v, good in zip(values, valid) if good}
    if all(issubclass(kind, str) for kind in kinds):
        return "U", valid
    if all(issubclass(kind, (bytes, bytearray, memoryview)) for kind in kinds):
        return "S", valid
    types = [(bool, "?"), (int, "i8"), ((int, float), "f8"), (datetime.datetime, "M8[us]"), (datetime.date, "M8[D]"), (datetime.timedelta, "m8[us]")]
    for kind, dtype in types:
        if kind is datetime.date and any(issubclass(k, datetime.datetime) for k in kinds):
            break   # beside days, instants would lose their time of day
        if all(issubclass(k, kind) and (kind is int or k is not bool or kind is bool) for k in kinds):
            given = [v for v, good in zip(values, valid) if good]
            rounded = next((v for v in given if isinstance(v, int) and not _is_exact(v)), None) if dtype == "f8" else None
            if rounded is not None:
                raise ValueError(f"column {name!r} has fractions, and the integer {rounded}, which FLOAT64 would round: make it one or the other")
            if kind is datetime.datetime:
                _one_clock(name, given)
            return _integer_type(name, given) if kind is int else dtype, valid
    raise TypeError(f"column {name!r} has objects of {', '.join(sorted(k.__name__ for k in kinds))}: make them numbers, texts, days or instants first")


def _objects(name, values):
    """A column of Python's objects: texts, bytes, or what numpy has a type for, with None and NaN between them."""
    dtype, valid = object_type(name, values)
    if dtype in ("U", "S"):
        return _bytes_column(name, values, valid, dtype == "U")
    filled = numpy.zeros(len(values), dtype)
    filled[valid] = [v for v, good in zip(values, valid) if good]
    return _column(name, numpy.ma.array(filled, mask=~valid))


def _column(name, values):
    """Returns the nodes of one column: of an ndarray, a masked one, or of (codes, labels, ordered)."""
    if isinstance(values, tuple):
        codes, labels, ordered = values
        labels = numpy.asarray(labels)
        labels = _column(name, labels if labels.dtype.kind in "Mm" else labels.astype(object))   # as objects, instants would be integers
        schema, array, held = _column(name, numpy.ma.array(codes, mask=codes < 0))
        joined = _nodes(name, schema.format.decode(), array.length, held[0], nulls=array.null_count, flags=2 | bool(ordered), dictionary=labels)
        return joined
    mask = numpy.ma.getmaskarray(values) if isinstance(values, numpy.ma.MaskedArray) else None
    values = numpy.asarray(values if mask is None else values.data)
    if values.ndim != 1:
        raise ValueError(f"column {name!r} has {values.ndim} dimensions, not one")
    kind, size, length = values.dtype.kind, values.dtype.itemsize, len(values)
    if kind in "OT":
        return _objects(name, values.tolist() if mask is None else [None if m else v for v, m in zip(values.tolist(), mask)])
    valid = None if mask is None else ~mask
    if kind in "US":
        return _bytes_column(name, values.tolist(), numpy.ones(len(values), bool) if valid is None else valid, kind == "U")
    if kind in "Mm":
        isnat = numpy.isnat(values)
        if isnat.any():
            valid = ~isnat if valid is None else valid & ~isnat
        unit = numpy.datetime_data(values.dtype)[0]
        wanted = unit if unit in ("s", "ms", "us", "ns") else "D" if kind == "M" and unit in ("Y", "M", "W", "D") else "s"
        values = values.astype(f"{kind}8[{wanted}]").view("i8")
        form = ("tdD" if wanted == "D" else f"ts{wanted[0]}:") if kind == "M" else f"tD{wanted[0]}"
        if wanted == "D":
            valid_ = values[valid] if valid is not None else values
            if valid_.size and abs(valid_).max() > 2**31 - 1:
                raise ValueError(f"column {name!r}: a day is past what Arrow's date32 holds")
            values = values.astype("i4")
    elif kind == "b":
        form, values = "b", numpy.packbits(values, bitorder="little")
    elif kind in "iu":
        form = _INTEGERS[kind]["1248".index(str(size))]
    elif kind == "f" and size in (2, 4, 8):
        form = {2: "e", 4: "f", 8: "g"}[size]
    else:
        raise TypeError(f"column {name!r} is {values.dtype}, which no array holds")
    data = numpy.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return _nodes(name, form, length, [_bits(valid), data], nulls=0 if valid is None else int((~valid).sum()))


def _has_codes(values):
    """Whether a column is (codes, labels, ordered), as of_frame() gives it: another tuple is a list."""
    return isinstance(values, tuple) and len(values) == 3 and hasattr(values[0], "dtype") and values[0].ndim == 1


def given_stream(columns):
    """Returns an ArrowArrayStream over columns of one length, for tessera_functions.put. What it borrows stays until the stream is released."""
    check_names(columns)
    columns = {str(name): values if isinstance(values, numpy.ndarray) or _has_codes(values) else _listed(values) for name, values in columns.items()}
    lengths = {len(values[0]) if _has_codes(values) else len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"columns have {' and '.join(map(str, sorted(lengths)))} rows" if lengths else "there are no columns")
    length, children = lengths.pop(), [_column(name, values) for name, values in columns.items()]
    for _, array, _ in children:
        array.length = length
    schema, array, held = _nodes("", "+s", length, [None], flags=0, children=children)
    number = next(_numbers)
    _alive[number] = schema, array, held
    return _Stream(_get_schema, _get_next, _no_error, _release_stream, number)


def _listed(values):
    """Returns a list, or a column of another library, as a column that given_stream takes. Integers keep their digits beside gaps."""
    if type(values).__module__.partition(".")[0] == "pandas":
        import pandas
        return of_frame({"": pandas.Series(values)})[""]
    if hasattr(values, "is_null") and hasattr(values, "fill_null"):   # of pyarrow or polars
        if numpy.asarray(values[:0]).dtype.kind in "iuf":
            return numpy.ma.array(numpy.asarray(values.fill_null(0)), mask=numpy.asarray(values.is_null()))
        return numpy.asarray(values)
    made = numpy.asarray(values)
    whole = [isinstance(v, int) for v in values] if made.dtype.kind == "f" else []
    rounded = whole and (all(whole) or any(integer and not _is_exact(v) for v, integer in zip(values, whole)))   # object_type() says what becomes of them
    return made if made.dtype.kind not in "USO" and not rounded else numpy.array(list(values), object)


def check_frame(frame):
    """Fails if a DataFrame has names or dtypes that no array has, and which pyarrow would rename, count or cut in silence."""
    if frame.columns.nlevels > 1:
        raise TypeError("the columns are a MultiIndex, and a column has one name: frame.columns = ['_'.join(map(str, name)) for name in frame.columns]")
    check_names(frame.columns)
    for name, dtype in zip(frame.columns, frame.dtypes):
        if hasattr(dtype, "categories"):
            _check_categories(name, dtype.categories)
        elif str(dtype).startswith("period"):   # pandas hands out bare numbers, counted in months or the like
            raise TypeError(f"column {name!r} has periods: frame[{name!r}].dt.to_timestamp() makes instants of them")
        elif str(dtype).startswith("interval"):
            raise TypeError(f"column {name!r} has intervals: make two columns of their ends, or texts of them: frame[{name!r}].astype(str)")


def _check_categories(name, categories):
    """Fails if a categorical column has categories that no enumeration has: days, bytes, durations, intervals, periods, or a mixture."""
    kinds = {type(label) for label in categories} if categories.dtype.kind in "Om" else set()
    if not all(issubclass(kind, str) for kind in kinds) and (len(kinds) > 1 or kinds & {bytes, datetime.date} or next(iter(kinds)).__name__ in ("Interval", "Period", "Timedelta")):
        raise TypeError(f"column {name!r} has categories of {', '.join(sorted(kind.__name__ for kind in kinds))}: frame[{name!r}].cat.rename_categories(str) makes texts of them")


def native(frame):
    """Returns a DataFrame with ndarrays in the place of sparse columns, and numbers in this machine's order of bytes: pyarrow takes no others."""
    given = {place: series.sparse.to_dense() if type(series.dtype).__name__ == "SparseDtype" else series.astype(series.dtype.newbyteorder("="))
             for place, (_, series) in enumerate(frame.items()) if type(series.dtype).__name__ == "SparseDtype" or getattr(series.dtype, "isnative", True) is False}
    frame = frame.copy(deep=False) if given else frame
    for place, series in given.items():
        frame.isetitem(place, series)
    return frame


def whole_days(series):
    """Returns a column of pandas whose instants are all midnights, without a zone, as datetime64[D]; else None. pandas has no type for days."""
    instants = series.to_numpy() if series.dtype.kind == "M" and getattr(series.dtype, "tz", None) is None else numpy.empty(0)
    if instants.dtype.kind != "M" or numpy.isnat(instants).all():
        return None
    days, given = instants.astype("M8[D]"), ~numpy.isnat(instants)
    whole = (days.astype(instants.dtype) == instants)[given].all() and abs(days[given].view("i8")).max() < 2**31   # of Arrow's date32
    return days if whole else None


def of_frame(frame):
    """Returns the columns of a pandas DataFrame, or of a dict of Series, for machines without pyarrow, and for what pyarrow does not take."""
    columns = {}
    check_names(frame)
    for name, series in frame.items():
        dtype = series.dtype
        if hasattr(dtype, "categories"):
            labels = dtype.categories
            labels = labels.tz_convert("UTC").tz_localize(None) if getattr(labels, "tz", None) is not None else labels
            columns[name] = (series.cat.codes.to_numpy(), labels.to_numpy(), dtype.ordered)
        elif type(dtype).__name__ == "ArrowDtype" and dtype.kind in "Mm":   # in numpy they would be objects
            import pyarrow
            columns[name] = pyarrow.array(series.array).to_numpy(zero_copy_only=False)
        elif getattr(dtype, "tz", None) is not None:
            columns[name] = series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        elif hasattr(dtype, "numpy_dtype") and dtype.kind in "biuf":   # nullable numbers
            missing = series.isna().to_numpy()
            columns[name] = numpy.ma.array(series.fillna(dtype.kind != "b" and 0).to_numpy(dtype.numpy_dtype), mask=missing)
        elif dtype.kind == "f":   # NaN is pandas' gap, as pyarrow has it
            columns[name] = numpy.ma.array(series.to_numpy(), mask=series.isna().to_numpy())
        elif dtype.kind in "OUT":
            columns[name] = numpy.where(series.isna(), None, series.to_numpy(object))
        else:
            days = whole_days(series)
            columns[name] = series.to_numpy() if days is None else days
    return columns
