"""Reads and writes stored metadata (docs/format.md): generic tiles, and __fragment_metadata.tdb of versions 16 to 22.
Tests take a file apart, change something, and write it again, without filters, which the format allows."""
import struct
import zlib

SIZES = {"INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "INT32": 4, "UINT32": 4, "FLOAT32": 4}  # others: 8


def u32(value):
    return struct.pack("<I", value)


def u64(*values):
    return struct.pack(f"<{len(values)}Q", *values)


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, size):
        self.at += size
        assert self.at <= len(self.data)
        return self.data[self.at - size:self.at]

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]


def decode_generic(data, at=0):
    """Returns (content, offset of the next byte) of the generic tile at an offset, which has the filter gzip or none."""
    r = Reader(data, at)
    r.u32()
    persisted = r.u64()
    r.take(8 + 1 + 8 + 1)
    pipeline = Reader(r.take(r.u32()))
    pipeline.u32()
    filters = [pipeline.take(0) or (pipeline.u8(), pipeline.take(pipeline.u32()))[0] for _ in range(pipeline.u32())]
    assert filters in ([], [1]), "only gzip is known here"
    end = r.at + persisted
    content = b""
    for _ in range(r.u64()):
        size, filtered, metadata = r.u32(), r.u32(), r.u32()
        r.take(metadata)
        chunk = r.take(filtered)
        content += zlib.decompress(chunk) if filters and size else chunk[:size]
    return content, end


def encode_generic(content, version=22):
    tile = u64(1) + u32(len(content)) + u32(len(content)) + u32(0) + content
    pipeline = u32(65536) + u32(0)
    return u32(version) + u64(len(tile), len(content)) + b"\x04" + u64(1) + b"\x00" + u32(len(pipeline)) + pipeline + tile


def encode_tile(content):
    """Returns a data tile of one chunk without filters."""
    return u64(1) + u32(len(content)) + u32(len(content)) + u32(0) + content


def numbers(content):
    """Returns the bytes of a list in a generic tile: u64 count, then each number as u64."""
    return list(struct.unpack(f"<{len(content) // 8 - 1}Q", content[8:]))


def listed(values):
    return u64(len(values), *values)


class Metadata:
    """A fragment's metadata file. `tiles[kind][slot]` is the content of a generic tile; slots are attributes, one for __coords, dimensions."""
    KINDS = ["offsets", "var_offsets", "var_sizes", "validity_offsets", "min", "max", "sum", "null_count"]

    def __init__(self, path, description):
        self.path = path
        with open(path, "rb") as f:
            data = f.read()
        size = struct.unpack("<Q", data[-8:])[0]
        r = Reader(data, len(data) - 8 - size)
        self.version = r.u32()
        self.schema = r.take(r.u64())
        self.dense, self.empty = r.u8(), r.u8()
        self.box = []  # (low, high) as bytes
        for dimension in description["dims"]:
            if dimension["type"] == "STRING_ASCII":
                total, low = r.u64(), r.u64()
                text = r.take(total)
                self.box.append((text[:low], text[low:]))
            else:
                width = SIZES.get(dimension["type"], 8)
                self.box.append((r.take(width), r.take(width)))
        self.text = [d["type"] == "STRING_ASCII" for d in description["dims"]]
        self.tile_count, self.last_cells = r.u64(), r.u64()
        self.has_times, self.has_deletes = r.u8(), r.u8()
        self.slots = len(description["attrs"]) + 1 + len(description["dims"]) + self.has_times + 2 * self.has_deletes
        self.sizes = [[r.u64() for _ in range(self.slots)] for _ in range(3)]  # fixed, variable, validity
        places = [r.u64()] + [[r.u64() for _ in range(self.slots)] for _ in self.KINDS] + [r.u64(), r.u64()]
        assert r.at == len(data) - 8
        self.rtree = decode_generic(data, places[0])[0]
        self.tiles = {kind: [decode_generic(data, at)[0] for at in row] for kind, row in zip(self.KINDS, places[1:-2])}
        self.statistics = decode_generic(data, places[-2])[0]
        self.processed = decode_generic(data, places[-1])[0]
        self.gap = b""  # unused bytes before the footer
        self.move = {}  # (kind, slot) -> a wrong offset to write
        self.name_version = self.version

    def slot(self, description, field):
        """Returns the slot of an attribute or dimension."""
        attrs = [a["name"] for a in description["attrs"]]
        return attrs.index(field) if field in attrs else len(attrs) + 1 + [d["name"] for d in description["dims"]].index(field)

    def write(self):
        out = b""

        def put(content):
            nonlocal out
            at = len(out)
            out += encode_generic(content, self.name_version)
            return at

        rtree = put(self.rtree)
        rows = [[put(content) for content in self.tiles[kind]] for kind in self.KINDS]
        statistics, processed = put(self.statistics), put(self.processed)
        for (kind, slot), at in self.move.items():
            rows[self.KINDS.index(kind)][slot] = at(rows) if callable(at) else at
        out += self.gap
        footer = u32(self.version) + u64(len(self.schema)) + self.schema + bytes([self.dense, self.empty])
        for (low, high), text in zip(self.box, self.text):
            footer += (u64(len(low) + len(high), len(low)) if text else b"") + low + high
        footer += u64(self.tile_count, self.last_cells) + bytes([self.has_times, self.has_deletes])
        for row in self.sizes:
            footer += u64(*row)
        footer += u64(rtree)
        for row in rows:
            footer += u64(*row)
        footer += u64(statistics, processed)
        with open(self.path, "wb") as f:
            f.write(out + footer + u64(len(footer)))


def change(content, at, value):
    """Returns the content with `value` at byte `at`."""
    return content[:at] + value + content[at + len(value):]


class Tree:
    """An R-tree of fixed-size dimensions: levels[0] is the root's; a box is [[low, high], ...] as bytes."""

    def __init__(self, content, widths):
        r = Reader(content)
        self.fanout = r.u32()
        self.levels = []
        for _ in range(r.u32()):
            self.levels.append([[[r.take(w), r.take(w)] for w in widths] for _ in range(r.u64())])

    def content(self):
        out = u32(self.fanout) + u32(len(self.levels))
        for level in self.levels:
            out += u64(len(level)) + b"".join(low + high for box in level for low, high in box)
        return out
