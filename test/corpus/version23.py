"""Arrays of format version 23, as its document describes it; no available library writes it. They are derived from
arrays of version 22: the version numbers in schema, footers and names are changed, and optional sections, known and
unknown ones, are appended to each footer. The arrays must read as before.

usage: version23.py EXTENSION CORPUS
"""
import os
import shutil
import sqlite3
import struct
import sys
import tempfile

import arrays
import read
from made import generic_content, generic_tile, rewrite

SOURCES = ["new/sparse/i2_row_row_nodups", "new/sparse/mixed_hilbert", "new/dense/d2_row_row", "new/dtype/sparse_string_utf8",
           "new/consolidated/sparse_fragments", "new/deletes/consolidated_fragments"]


def schema_23(data):
    content = generic_content(data)
    assert struct.unpack_from("<I", content)[0] == 22
    return generic_tile(struct.pack("<I", 23) + content[4:], 23)


def footer_23(dimensions):
    def change(data):
        length, = struct.unpack_from("<Q", data, len(data) - 8)
        footer = bytearray(data[len(data) - 8 - length:len(data) - 8])
        assert struct.unpack_from("<I", footer)[0] == 22
        footer[0:4] = struct.pack("<I", 23)
        offsets = struct.pack(f"<{2 * dimensions}Q", *([0] * 2 * dimensions))   # of tiles that nobody needs in order to read
        footer += struct.pack("<I", 3)
        footer += struct.pack("<QI", 0, len(offsets)) + offsets
        footer += struct.pack("<QI", 12345, 0)
        footer += struct.pack("<QI", 2**64 - 1, 5) + b"later"
        return data[:len(data) - 8 - length] + bytes(footer) + struct.pack("<Q", len(footer))
    return change


def make(source, target, dimensions):
    shutil.copytree(source, target)
    for folder, folders, files in os.walk(target, topdown=False):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.basename(folder) == "__schema":
                rewrite(path, schema_23)
            elif name == "__fragment_metadata.tdb":
                rewrite(path, footer_23(dimensions))
            elif name.endswith((".vac", ".con", ".ign")):
                rewrite(path, lambda data: data.replace(b"_22\n", b"_23\n").replace(b"_22.wrt\n", b"_23.wrt\n"))
        for name in files + folders:
            stem, dot, suffix = name.partition(".")
            if stem.endswith("_22"):
                os.rename(os.path.join(folder, name), os.path.join(folder, stem[:-3] + "_23" + dot + suffix))


def main():
    extension, corpus = sys.argv[1:3]
    passed, failures = 0, []
    for source in SOURCES:
        (name, directory, description), = [a for a in arrays.find(corpus, source) if a[0] == source]
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "array")
            make(directory, target, len(description["dims"]))
            db = arrays.connect(extension)
            for one in description["reads"]:
                try:
                    wrong = read.check_read(db, target, description, one, folder, False)
                except sqlite3.Error as e:
                    wrong = str(e)
                passed += not wrong
                if wrong:
                    failures.append(f"FAIL {name} at {one['timestamp']}: {wrong[:300]}")
            db.close()
    print("\n".join(failures))
    print(f"version 23: {passed} passed, {len(failures)} failed")
    return 1 if failures or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
