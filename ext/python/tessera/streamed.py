"""The rows of an Arrow stream as ndarrays and lists, without an Arrow library."""
from __future__ import annotations

import ctypes

import numpy

from .errors import Error
from .structures import ArrowArray as _Array
from .structures import ArrowSchema as _Schema
from .structures import ArrowStream as _Stream

__all__ = ["batches"]

_TYPES = {"c": "i1", "s": "i2", "i": "i4", "l": "i8", "C": "u1", "S": "u2", "I": "u4", "L": "u8", "f": "f4", "g": "f8",
          **{f"ts{unit[0]}:": f"M8[{unit}]" for unit in ("s", "ms", "us", "ns")}, **{f"tD{unit[0]}": f"m8[{unit}]" for unit in ("s", "ms", "us", "ns")}}


def batches(functions, pointer):
    """Yields the columns of each batch of a stream of the extension, and frees the stream. Numbers and instants are ndarrays. Texts, bytes, and the
    ndarrays of cells with several values are in lists; None is where there is none."""
    stream, schema = _Stream.from_address(pointer), _Schema()
    try:
        _succeeds(stream, stream.get_schema(ctypes.byref(stream), ctypes.addressof(schema)))
        try:
            while True:
                batch = _Array()
                _succeeds(stream, stream.get_next(ctypes.byref(stream), ctypes.addressof(batch)))
                if not batch.release:
                    return
                try:
                    yield [_column(schema.children[i].contents, batch.children[i].contents) for i in range(batch.n_children)]
                finally:
                    batch.release(ctypes.byref(batch))
        finally:
            schema.release(ctypes.byref(schema))
    finally:
        functions.free_stream(pointer)


def _succeeds(stream, code):
    if code:
        words = stream.get_last_error(ctypes.byref(stream))
        raise Error(ctypes.string_at(words).decode() if words else f"the stream ended with {code}")


def _buffer(array, number, dtype, count):
    """Returns a copy of a buffer: batches own their memory."""
    dtype = numpy.dtype(dtype)
    return numpy.frombuffer(ctypes.string_at(array.buffers[number], count * dtype.itemsize), dtype) if count else numpy.empty(0, dtype)


def _column(schema, array):
    form, begin, end = schema.format.decode(), array.offset, array.offset + array.length
    if form == "tdD":   # of 4 bytes
        return _buffer(array, 1, "i4", end)[begin:].astype("M8[D]")
    if form in _TYPES:
        return _buffer(array, 1, _TYPES[form], end)[begin:]
    if form not in ("U", "Z", "+L"):
        raise NotImplementedError(f"values of the Arrow type {form!r} have no Python objects: take the stream")
    offsets = _buffer(array, 1, "i8", end + 1)[begin:].tolist()
    if form == "+L":
        inner = _column(schema.children[0].contents, array.children[0].contents)
        values = [inner[low:high] for low, high in zip(offsets, offsets[1:])]
    else:
        data = ctypes.string_at(array.buffers[2], offsets[-1]) if offsets[-1] else b""
        values = [data[low:high] for low, high in zip(offsets, offsets[1:])]
        values = [value.decode() for value in values] if form == "U" else values
    if not array.buffers[0]:
        return values
    valid = numpy.unpackbits(_buffer(array, 0, "u1", (end + 7) // 8), bitorder="little")[begin:end]
    return [value if good else None for value, good in zip(values, valid)]
