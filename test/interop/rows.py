"""TileDB reads the rows that INSERT, UPDATE and DELETE have written: the arrays of test/sqlite/histories.py, row by
row, before and after TileDB consolidates and vacuums them.

usage: rows.py HISTORIES EXTENSION [ROUNDS [SEED]]
"""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import generate
from cases import Cases
from tessera_c import NUMPY, VARIABLE
from tiledb_c import TileDB, library

CELLS = 20000  # cells that the buffers have room for
TEXT = {"UTF16": "utf-16-le", "UCS2": "utf-16-le", "UTF32": "utf-32-le", "UCS4": "utf-32-le"}
BYTES = ("BLOB", "ANY", "GEOM_WKB")


def shown(field, cell):
    """Converts a cell's bytes to the form of histories.py."""
    if cell is None:
        return None
    if field["type"] in NUMPY and field["values"] == 1:
        v = np.frombuffer(cell, NUMPY[field["type"]])[0]
        if field["type"].startswith("FLOAT"):
            return None if math.isnan(v) else repr(float(v))
        return int(v) if v < 2**63 else f"{int(v):020}"
    if field["type"] in NUMPY or field["type"] in BYTES:
        return {"bytes": cell.hex()}
    return cell.decode(TEXT.get(field["type"], "utf-8"))


def schema_of(told):
    fields = [{"name": n, "type": t, "values": VARIABLE if v is None else v, "nullable": bool(nullable) and role == "attribute"} for n, role, t, v, nullable in told["fields"]]
    return {"dense": told["dense"], "dims": fields[:2], "attrs": fields[2:]}


def read(tiledb, path, told):
    s = schema_of(told)
    box = [(0, told["side"] - 1)] * 2 if told["dense"] else None
    result = tiledb.read(path, s, CELLS, box=box)
    fields = s["dims"] + s["attrs"]
    columns = [[shown(f, cell) for cell in generate.unpacked(f, result[f["name"]])] for f in fields]
    return [list(row) for row in zip(*columns)]


def differ(told, found):
    wanted = sorted(told["rows"], key=repr)
    found = sorted(found, key=repr)
    if told["dense"]:  # TileDB also shows cells that were never written
        keys = {tuple(row[:2]) for row in wanted}
        found = [row for row in found if tuple(row[:2]) in keys]
    if wanted == found:
        return None
    return f"{len(found)} rows, {len(wanted)} expected\n  too many: {[r for r in found if r not in wanted][:3]}\n  missing: {[r for r in wanted if r not in found][:3]}"


class Wrong(Exception):
    pass


def check(folder, name):
    array = os.path.join(folder, "array")
    shutil.copytree(name, array)
    with open(name + ".json", encoding="utf-8") as f:
        told = json.load(f)
    tiledb = TileDB(library())
    wrong = differ(told, read(tiledb, array, told))
    if wrong:
        raise Wrong(f"{wrong}\n  {told['ddl']}")
    tiledb.consolidate(array)
    tiledb.vacuum(array)
    wrong = differ(told, read(tiledb, array, told))
    if wrong:
        raise Wrong(f"consolidated: {wrong}\n  {told['ddl']}")


def main():
    histories, extension = sys.argv[1:3]
    rounds, seed = (sys.argv[3:] + ["2", "1"][len(sys.argv) - 3:])[:2]
    tests = Cases("rows")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, KEEP=folder, ROUNDS=rounds, SEED=seed, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        if os.environ.get("TESSERA_PRELOAD"):
            environment["LD_PRELOAD"] = os.environ["TESSERA_PRELOAD"]
        result = subprocess.run([sys.executable, histories, extension, folder], env=environment)
        if result.returncode:
            return 1
        for name in sorted(n[:-5] for n in os.listdir(folder) if n.endswith(".json")):
            tests.run(name, check, os.path.join(folder, name))
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
