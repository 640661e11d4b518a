"""Arrays of format version 1, as its document describes it; no available library writes it. They are derived from
arrays of version 2 (TileDB 1.5): the version numbers in schema and fragments are changed; and if the filters of the
coordinates have no compressor, the dimensions of each cell are put together in __coords.tdb. The arrays must read as
before, and tessera_check must find nothing.

usage: version1.py EXTENSION CORPUS
"""
import os
import shutil
import sqlite3
import struct
import sys
import tempfile

import arrays
import read
from made import DECODERS, generic_content, generic_tile, pipeline, rewrite, tile_content

COORDS_FILTERS = 4 + 3 + 8   # their offset in a schema of version 1 to 4: after version, kind, orders and capacity
SHUFFLE = 9


def number_1(content):
    assert struct.unpack_from("<I", content)[0] == 2
    return struct.pack("<I", 1) + content[4:]


class Metadata:
    """Fragment metadata of versions 1 and 2, parsed as far as __coords.tdb needs it."""

    def __init__(self, content, attributes, width):
        self.content, self.at = content, 4
        size = self.u64()
        assert size in (0, 2 * width)
        self.at += size
        self.tiles = self.u64()
        self.at += 2 * width * self.tiles
        self.at += 8 + 2 * width * self.u64_here()
        for _ in range(attributes):
            self.at += 8 + 8 * self.u64_here()
        self.offsets_at = self.at + 8
        assert not self.tiles or self.u64_here() == self.tiles   # dense fragments have none
        self.at += 8 + 8 * self.u64_here()
        for _ in range(2 * attributes):
            self.at += 8 + 8 * self.u64_here()
        self.at += 8   # cells of the last tile
        self.size_at = self.at + 8 * attributes
        self.at += 8 * (2 * attributes + 1)
        assert self.at == len(content)

    def u64_here(self):
        return struct.unpack_from("<Q", self.content, self.at)[0]

    def u64(self):
        value = self.u64_here()
        self.at += 8
        return value

    def offsets(self):
        return struct.unpack_from(f"<{self.tiles}Q", self.content, self.offsets_at)

    def with_tiles(self, tiles):
        """Returns the content for these tiles in __coords.tdb."""
        out = bytearray(self.content)
        offset = 0
        for i, tile in enumerate(tiles):
            struct.pack_into("<Q", out, self.offsets_at + 8 * i, offset)
            offset += len(tile)
        struct.pack_into("<Q", out, self.size_at, offset)
        return bytes(out)


def interleaved(content, dimensions, size, shuffle):
    """Converts a tile of coordinates from one dimension after the other to one cell after the other, optionally with shuffled bytes."""
    n = len(content) // size // dimensions
    values = [content[i:i + size] for i in range(0, len(content), size)]
    content = b"".join(values[d * n + cell] for cell in range(n) for d in range(dimensions))
    metadata = struct.pack("<II", 1, len(content)) if shuffle else b""
    data = b"".join(content[i::size] for i in range(size)) if shuffle else content
    return struct.pack("<QIII", 1, len(content), len(data), len(metadata)) + metadata + data


def interleave_fragment(folder, filters, dimensions, size, attributes, shuffle):
    metadata_path, coords_path = os.path.join(folder, "__fragment_metadata.tdb"), os.path.join(folder, "__coords.tdb")
    with open(metadata_path, "rb") as f:
        metadata = Metadata(generic_content(f.read()), attributes, dimensions * size)
    if not metadata.tiles:
        return
    with open(coords_path, "rb") as f:
        data = f.read()
    ends = [*metadata.offsets()[1:], len(data)]
    tiles = [interleaved(tile_content(data[a:b], filters), dimensions, size, shuffle) for a, b in zip(metadata.offsets(), ends)]
    with open(coords_path, "wb") as f:
        f.write(b"".join(tiles))
    rewrite(metadata_path, lambda data: generic_tile(metadata.with_tiles(tiles), 2))


def make(source, target, description, kind):
    """Converts an array. kind "split" keeps the dimensions of coordinates apart. Returns False if this array has no such form."""
    shutil.copytree(source, target)
    schema_path, = (os.path.join(target, n) for n in ("__array_schema.tdb", "__kv_schema.tdb") if os.path.exists(os.path.join(target, n)))
    with open(schema_path, "rb") as f:
        schema = generic_content(f.read())
    filters, end = pipeline(schema, COORDS_FILTERS)
    fragments = [e.path for e in os.scandir(target) if e.is_dir()]
    if kind == "split" and not filters:
        return False   # coordinates are kept apart only with a compressor
    if kind != "split":
        if tuple(filters) not in DECODERS or len(description["dims"]) == 1:
            return False
        size = arrays.SIZES[description["dims"][0]["type"]]
        for folder in fragments:
            interleave_fragment(folder, filters, len(description["dims"]), size, len(description["attrs"]), kind == "shuffled")
        empty = struct.pack("<II", 65536, 0) if kind == "plain" else struct.pack("<IIBI", 65536, 1, SHUFFLE, 0)
        schema = schema[:COORDS_FILTERS] + empty + schema[end:]
    with open(schema_path, "wb") as f:
        f.write(generic_tile(number_1(schema), 1))
    for folder in fragments:
        rewrite(os.path.join(folder, "__fragment_metadata.tdb"), lambda data: generic_tile(number_1(generic_content(data)), 1))
    return True


def check(db, directory, description, folder):
    """Returns the problems of all reads and of the check."""
    for one in description["reads"]:
        try:
            yield read.check_read(db, directory, description, one, folder, False)
        except sqlite3.Error as e:
            yield str(e)
    findings = db.execute("SELECT file, message FROM tessera_check(?) WHERE severity <> 'note'", (directory,)).fetchall()
    yield b"; ".join(b": ".join(finding) for finding in findings).decode()


def main():
    extension, corpus = sys.argv[1:3]
    passed, failures, made = 0, [], {"split": 0, "plain": 0, "shuffled": 0}
    for name, directory, description in arrays.find(corpus, "lib1.5"):
        if description.get("encryption_key"):
            continue
        for kind in made:
            with tempfile.TemporaryDirectory() as folder:
                target = os.path.join(folder, "array")
                if not make(directory, target, description, kind):
                    continue
                made[kind] += 1
                db = arrays.connect(extension)
                for wrong in check(db, target, description, folder):
                    passed += not wrong
                    if wrong:
                        failures.append(f"FAIL {name}, {kind}: {wrong[:300]}")
                db.close()
    print("\n".join(failures))
    print(f"version 1: {passed} passed, {len(failures)} failed; {made}")
    return 1 if failures or not all(made.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
