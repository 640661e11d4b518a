"""The structures of Arrow's C data interface. Their names and fields are Arrow's."""
import ctypes
import errno

from .errors import Busy, Error, Interrupted, Memory, without_functions

__all__ = ["GET", "RELEASE_ARRAY", "RELEASE_SCHEMA", "ArrowArray", "ArrowSchema", "ArrowStream", "formats_of", "run_stream"]
_CLASSES = {errno.ENOMEM: Memory, errno.ECANCELED: Interrupted, errno.EIO: Busy}


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


class ArrowStream(ctypes.Structure):
    pass


GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowStream), ctypes.c_void_p)
RELEASE_SCHEMA, RELEASE_ARRAY = (ctypes.CFUNCTYPE(None, ctypes.POINTER(kind)) for kind in (ArrowSchema, ArrowArray))
ArrowSchema._fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                        ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))), ("dictionary", ctypes.POINTER(ArrowSchema)),
                        ("release", RELEASE_SCHEMA), ("private_data", ctypes.c_void_p)]
ArrowArray._fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                       ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
                       ("dictionary", ctypes.POINTER(ArrowArray)), ("release", RELEASE_ARRAY), ("private_data", ctypes.c_void_p)]
ArrowStream._fields_ = [("get_schema", GET), ("get_next", GET), ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ArrowStream))),
                        ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowStream))), ("private_data", ctypes.c_void_p)]


def run_stream(address):
    """Asks the stream at an address for its schema: a stream of tessera_rows runs its SELECT for that. An error that it reports is raised."""
    stream, schema = ArrowStream.from_address(address), ArrowSchema()
    code = stream.get_schema(ctypes.byref(stream), ctypes.addressof(schema))
    if code:
        raise _CLASSES.get(code, Error)(without_functions(ctypes.string_at(stream.get_last_error(ctypes.byref(stream))).decode()))
    schema.release(ctypes.byref(schema))


def formats_of(stream):
    """Returns Arrow's formats of the columns of a stream, those of the values where there is a dictionary. stream: its address."""
    stream, schema = ArrowStream.from_address(stream), ArrowSchema()
    if stream.get_schema(ctypes.byref(stream), ctypes.addressof(schema)):
        return {}   # the error is that of whoever reads it
    try:
        fields = [schema.children[place].contents for place in range(schema.n_children)]
        return {(field.name or b"").decode(errors="replace"): (field.dictionary.contents if field.dictionary else field).format.decode(errors="replace") for field in fields}
    finally:
        if schema.release:
            schema.release(ctypes.byref(schema))
