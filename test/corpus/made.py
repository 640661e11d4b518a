"""Takes tiles and generic tiles apart and makes new ones, for tests that derive arrays of one format version from
arrays of another."""
import ctypes
import struct
import zlib


def pipeline(data, at):
    """Returns (types of the filters, offset of their end) of the pipeline at this offset."""
    count, = struct.unpack_from("<I", data, at + 4)
    types, at = [], at + 8
    for _ in range(count):
        kind, size = struct.unpack_from("<BI", data, at)
        types.append(kind)
        at += 5 + size
    return types, at


def unzstd(data, size):
    out = ctypes.create_string_buffer(size)
    n = ctypes.CDLL("libzstd.so.1").ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    assert n == size
    return out.raw


DECODERS = {(): lambda data, size: data, (1,): lambda data, size: zlib.decompress(data), (2,): unzstd}   # by the types of the filters: none, gzip, zstd


def tile_content(data, filters):
    """Returns the content of a tile with one of these pipelines."""
    chunks, = struct.unpack_from("<Q", data)
    at, out = 8, b""
    for _ in range(chunks):
        original, filtered, metadata = struct.unpack_from("<III", data, at)
        at += 12 + metadata
        out += DECODERS[tuple(filters)](data[at:at + filtered], original)
        at += filtered
    assert at == len(data)
    return out


def generic_content(data):
    """Returns the content of a generic tile that is not encrypted."""
    version, persisted, size, datatype, cell_size, encryption, pipeline_size = struct.unpack_from("<IQQBQBI", data)
    filters, end = pipeline(data, 34)
    assert encryption == 0 and end == 34 + pipeline_size and end + persisted == len(data)
    content = tile_content(data[end:], filters)
    assert len(content) == size
    return content


def generic_tile(content, version):
    """Returns a generic tile without filters."""
    pipeline = struct.pack("<II", 65536, 0)
    tile = struct.pack("<QIII", 1, len(content), len(content), 0) + content
    return struct.pack("<IQQBQBI", version, len(tile), len(content), 4, 1, 0, len(pipeline)) + pipeline + tile


def rewrite(path, change):
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "wb") as f:
        f.write(change(data))
