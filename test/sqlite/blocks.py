"""tessera_write_npy: the tiles of a block, which are made of its rows, have the bytes of tiles that are made cell by cell.

usage: blocks.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import array
import glob
import json
import os
import struct
import sys
import tempfile

import host
from host import Database, same

LOW_Y, LOW_X = -5, 3


def npy_of(values, kind, shape):
    """Returns a file of numpy's with these values: floats of 4 bytes, "f", or integers of 2, "h"."""
    header = f"{{'descr': '{'<f4' if kind == 'f' else '<i2'}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + array.array(kind, values).tobytes()


def stored(folder):
    """Returns the bytes of the files of the only fragment, by name, without its metadata."""
    files = {os.path.basename(path): open(path, "rb").read() for path in glob.glob(os.path.join(folder, "__fragments", "*", "*.tdb"))}
    files.pop("__fragment_metadata.tdb")
    return files



def test_rows_give_the_tiles_that_cells_give():
    """Boxes at the edges of tiles and within one, rows as wide as the array, both orders of cells, two attributes, one of which may be null."""
    folder = tempfile.mkdtemp()
    boxes = [(0, 0, 100, 130), (0, 0, 40, 64), (1, 5, 30, 20), (38, 60, 5, 8), (3, 64, 60, 66), (70, 0, 30, 130), (40, 0, 40, 64)]
    for number, (y, x, height, width) in enumerate(boxes):
        for order in ("row", "col"):
            db = Database()
            declared = (f"kind=dense, cell_order={order}, y INT32 DIMENSION({LOW_Y}, {LOW_Y + 99}, 40), x INT32 DIMENSION({LOW_X}, {LOW_X + 129}, 64), "
                        "v FLOAT32 NOT NULL FILTERS(byteshuffle, zstd(1)), w INT16")
            v = [row * 100.0 + column * 0.5 for row in range(height) for column in range(width)]
            w = [(row * 7 + column) % 300 - 90 for row in range(height) for column in range(width)]
            paths = [os.path.join(folder, f"{way}{number}{order}") for way in ("rows", "cells")]
            for table, path in zip("rc", paths):
                db.query(f"CREATE VIRTUAL TABLE {table} USING tessera('{path}', {declared})")
            origin = json.dumps({"y": LOW_Y + y, "x": LOW_X + x})
            db.query("SELECT tessera_write_npy('db:r', 'v', ?, 'w', ?, ?)", (npy_of(v, "f", (height, width)), npy_of(w, "h", (height, width)), origin))
            db.query("BEGIN")
            db.query("INSERT INTO c(y, x, v, w) SELECT y, x, v, w FROM r ORDER BY y DESC, x DESC")
            db.query("COMMIT")
            same(stored(paths[0]), stored(paths[1]), f"the files of box {number}, {order}")
            cells = db.query("SELECT v, w FROM r WHERE w IS NOT NULL ORDER BY y, x")
            same(cells, list(zip(v, w)), f"the cells of box {number}, {order}")
            same(db.query("SELECT message FROM tessera_check('db:r') WHERE severity <> 'note'"), [], f"the check of box {number}, {order}")


def test_small_memory_and_one_tile_larger_than_a_window():
    db = Database()
    height, width = 300, 700
    db.query(f"CREATE VIRTUAL TABLE t USING tessera(kind=dense, memory_mb=2, y INT32 DIMENSION(0, {height - 1}, {height}), x INT32 DIMENSION(0, {width - 1}, {width}), v FLOAT32 NOT NULL, w INT16)")
    v, w = [float(i % 1000) for i in range(height * width)], [i % 77 for i in range(height * width)]
    same(db.value("SELECT tessera_write_npy('db:t', 'v', ?, 'w', ?)", (npy_of(v, "f", (height, width)), npy_of(w, "h", (height, width)))), height * width)
    same(db.query("SELECT sum(v), sum(w) FROM t"), [(sum(v), sum(w))])
    same(db.query("SELECT message FROM tessera_check('db:t') WHERE severity <> 'note'"), [])


if __name__ == "__main__":
    host.main(sys.modules[__name__])
