"""Makes the arrays of old-sparse_in_dense.tar.xz: sparse fragments in dense arrays, which TileDB 1.5 to 2.4 wrote.

usage: make_sparse_in_dense.py NEWLIB OUTDIR NAME=OLDLIB...      with the tools of the corpus, ctdb.py and dump.py, on PYTHONPATH

NEWLIB (libtiledb 2.30) describes what each OLDLIB wrote. It does not always take the newest cell (see errata.md), so the cells of
the descriptions are corrected by what was put in; no others may differ. One process for each array: old libraries may crash.
"""
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time

from ctdb import LAYOUT, VAR, Lib, pack
import dump

KEY = "0123456789abcdeF0123456789abcdeF"


def dim(name, low, high, tile, t="INT32"):
    return dict(name=name, type=t, domain=[low, high], tile=tile)


A = dict(name="a", type="INT32", filters=["zstd"])
S = dict(name="s", type="CHAR", cvn=VAR, filters=["gzip"])
F = dict(name="f", type="FLOAT64", filters=["byteshuffle", "lz4"])
V3 = dict(name="v3", type="INT16", cvn=3)
NULL = [dict(name="a", type="INT32", nullable=True, filters=["zstd"]), dict(name="s", type="CHAR", cvn=VAR, nullable=True)]
D1 = [dim("d", 1, 40, 7)]
D2 = [dim("r", 1, 10, 4), dim("c", 1, 8, 3)]
WHOLE = [dim("r", 1, 12, 4), dim("c", 1, 9, 3)]   # what TileDB 1.6 can consolidate
D3 = [dim(n, -3, 4, 2 + i, "INT32") for i, n in enumerate("xyz")]


class Box(tuple):
    """What a dense write covers: low and high of each dimension."""


def box(*sides):
    return Box(sides)


def schema(dims, attrs, **more):
    return dict(array_type="dense", dims=dims, attrs=attrs, capacity=3, offsets_filters=["zstd"], coords_filters=["zstd"], **more)


# name -> (schema, steps): a box is a dense write, a number so many cells anywhere, a list just these cells
CASES = {
    "d1_dense_sparse": (schema(D1, [A, S]), [box((1, 30)), 12]),
    "d1_sparse_dense": (schema(D1, [A, S]), [12, box((5, 20))]),
    "d1_alternating": (schema(D1, [A, S, F]), [box((3, 25)), 9, box((10, 18)), 9, box((30, 33)), 5]),
    "d1_filled": (schema(D1, [A, S]), [box((1, 40)), [(i,) for i in range(1, 41)]]),
    "d1_covered": (schema(D1, [A, S]), [[(i,) for i in range(5, 20)], box((1, 40)), [(17,)]]),
    "d1_only_sparse": (schema(D1, [A, S]), [15]),
    "d1_one_cell": (schema(D1, [A]), [[(17,)]]),
    "d1_several_sparse": (schema(D1, [A, S]), [15, 15, 3, 20]),
    "d1_i64": (schema([dim("d", -2**62, 2**62, 1000, "INT64")], [A]),
               [box((-5, 5)), [(-6,), (0,), (6,)], box((-7, -6)), [(-7,), (5,)]]),
    "d2_row_row": (schema(D2, [A, S, F, V3]), [box((1, 10), (1, 7)), 15, box((3, 6), (2, 8)), 15]),
    "d2_col_col": (schema(D2, [A, S, F, V3], cell_order="col-major", tile_order="col-major"),
                   [box((1, 10), (1, 7)), 15, box((3, 6), (2, 8)), 15]),
    "d2_row_col": (schema(D2, [A, S], cell_order="row-major", tile_order="col-major"), [15, box((2, 9), (2, 5)), 15]),
    "d2_col_row": (schema(D2, [A, S], cell_order="col-major", tile_order="row-major"), [15, box((2, 9), (2, 5)), 15]),
    "d2_apart": (schema(D2, [A, S]), [box((1, 2), (1, 2)), [(9, 7), (10, 8), (10, 7)], box((5, 5), (5, 5))]),
    "d2_double_delta": (dict(schema(D2, [A, V3]), coords_filters=["double_delta", "bit_width_reduction", "zstd"]),
                        [box((1, 6), (1, 6)), 20]),
    "d2_unfiltered": (dict(schema(D2, [A, V3]), coords_filters=[]), [box((1, 6), (1, 6)), 20]),
    "d3": (schema(D3, [A, S]), [60, box((-2, 3), (-3, 4), (0, 2)), 60]),
    "d2_consolidated": (schema(WHOLE, [A, S]), [box((1, 9), (1, 7)), box((3, 6), (2, 8)), 12, "consolidate"]),
    "d2_consolidated_more": (schema(WHOLE, [A, S]), [box((2, 7), (2, 3)), 5, 5, "consolidate", 12, box((8, 10), (1, 2))]),
    "d2_vacuumed": (schema(WHOLE, [A, S]), [box((1, 9), (1, 7)), 12, "consolidate", "vacuum", 12, box((8, 10), (1, 2))]),
    "d2_sparse_consolidated": (schema(WHOLE, [A, S]), [12, 12, 5, "consolidate", 4]),
    "d2_encrypted": (schema(D2, [A, S]), [box((1, 10), (1, 7)), 15, box((3, 6), (2, 8))]),
    "d2_nullable": (schema(D2, NULL), [box((1, 8), (1, 7)), 15, box((3, 6), (2, 8)), 15]),
    "d1_fill": (schema(D1, [dict(A, fill=42), dict(S, fill="FILL")]), [7, box((10, 12))]),
    "d1_datetime": (schema([dim("d", 0, 99, 10, "DATETIME_DAY")], [A]), [box((5, 30)), [(3,), (40,), (10,)]]),
}


class Writer:
    def __init__(self, case, lib, out):
        self.schema, self.steps = CASES[case]
        self.uri = f"{out}_{case}"
        self.lib = Lib(lib, None, KEY if "encrypted" in case else None)
        self.random = random.Random(f"{case} {self.lib.version}")
        self.history = []   # what was put in: start, end, cells; the times as the fragments' names have them
        self.time = 0
        shutil.rmtree(self.uri, ignore_errors=True)
        self.lib.create(self.uri, self.schema)

    def value(self, a):
        r = self.random
        if a.get("nullable") and r.random() < .3:
            return None
        if a["type"] == "CHAR":
            return "".join(r.choice("abcxyz") for _ in range(r.choice([1, 2, 3, 7])))
        if a["type"] == "FLOAT64":
            return r.randint(-400, 400) / 8
        return r.randint(-1000, 1000) if a.get("cvn", 1) == 1 else [r.randint(-1000, 1000) for _ in range(a["cvn"])]

    def cells(self, step):
        if isinstance(step, Box):
            return list(itertools.product(*(range(a, b + 1) for a, b in step)))
        if isinstance(step, list):
            return step
        chosen = set()
        while len(chosen) < step:
            chosen.add(tuple(self.random.randint(*d["domain"]) for d in self.schema["dims"]))
        return self.random.sample(sorted(chosen), step)

    def write(self, step):
        coordinates = self.cells(step)
        columns = {a["name"]: [self.value(a) for _ in coordinates] for a in self.schema["attrs"]}
        cells = [[c, v] for c, v in zip(coordinates, zip(*columns.values()))]
        schema, box = self.schema, list(step) if isinstance(step, Box) else None
        if box is None:
            schema = dict(schema, array_type="sparse")   # how the tools tell that cells are written
            columns |= {d["name"]: [c[i] for c in coordinates] for i, d in enumerate(schema["dims"])}
        before = set(os.listdir(self.uri))
        self.time += 10
        time.sleep(.003)
        if self.lib.version < (2, 0, 0) and box is None:
            self.write_zipped(columns, coordinates)
        else:   # before 2.2, and with a key, at the present time only
            times = self.lib.version >= (2, 2, 0) and not self.lib.key
            self.lib.write(self.uri, schema, columns, ts=self.time if times else None, subarray=box)
        made, = (n for n in set(os.listdir(self.uri)) - before if os.path.isdir(f"{self.uri}/{n}"))
        parts = made.split("_")
        start, end = (int(parts[-1]),) * 2 if len(parts) == 4 else (int(x) for x in parts[2:4])
        self.history.append([start, end, cells])

    def write_zipped(self, columns, coordinates):
        """Below 2.0 there is one buffer with the coordinates of all dimensions, cell by cell."""
        array = self.lib.open(self.uri, 1)
        query = self.lib.h("tiledb_query_alloc", array, 1)
        self.lib.c("tiledb_query_set_layout", query, LAYOUT["unordered"])
        keep = []
        for a in self.schema["attrs"]:
            data, offsets, size = pack(columns[a["name"]], a["type"], a.get("cvn", 1))
            self.lib.set_buffers(query, a["name"], data, size, offsets, None, keep)
        data, _, size = pack([x for c in coordinates for x in c], self.schema["dims"][0]["type"], 1)
        self.lib.set_buffers(query, "__coords", data, size, None, None, keep)
        self.lib.c("tiledb_query_submit", query)
        self.lib.c("tiledb_query_finalize", query)
        self.lib.close(array)

    def run(self):
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)   # some old libraries take all there is
        for step in self.steps:
            if step == "consolidate" and self.lib.version < (1, 6, 0):
                raise NotImplementedError("its consolidation puts cells of sparse fragments into wrong places")
            if step == "consolidate":
                self.lib.consolidate(self.uri, sm__consolidation__amplification=100)
            if step == "vacuum" and self.lib.version >= (2, 0, 0):
                self.lib.vacuum(self.uri)
            if step == "vacuum" or (step == "consolidate" and self.lib.version < (2, 0, 0)):   # which had no vacuum
                whole = min(h[0] for h in self.history), max(h[1] for h in self.history)
                self.history = [[*whole, h[2]] for h in self.history]
            if not isinstance(step, str):
                self.write(step)
        with open(self.uri + ".history", "w") as f:
            json.dump(self.history, f)


def describe(new, old, out, case):
    uri = f"{out}_{case}"
    reader = Lib(new, None, KEY if "encrypted" in case else None)
    times = sorted({tuple(f["timestamps"]) for f in dump.fragments(reader, uri)[0]})
    d = dump.dump_array(reader, uri, [None] + [(0, t[1]) for t in times] + ([(times[1][0], times[-1][1])] if len(times) > 1 else []))
    d["fragment_versions"] = sorted({f["version"] for f in d["fragment_info"]})
    d["path"] = f"sparse_in_dense/{os.path.basename(out)}_{case}"
    d["writer"] = "libtiledb " + ".".join(map(str, Lib(old).version))
    d["notes"] = "newest wins; libtiledb 2.30 gives older cells of sparse fragments where a newer dense one covers only some of their tile"
    with open(uri + ".history") as f:
        history = json.load(f)
    n, corrected = len(d["dims"]), 0
    for r in d["reads"]:
        if "cells" not in r:
            print("  ERROR", uri, r)
            continue
        start, end = r["timestamp"] or (0, 2**64)
        newest, all_values = {}, {}
        for first, last, cells in history:
            if start <= first and last <= end:
                for c, v in cells:
                    newest[tuple(c)] = v
                    all_values.setdefault(tuple(c), []).append(v)
        for row in r["cells"]:
            c = tuple(row[:n])
            want = newest.pop(c, None)
            if want and want != row[n:]:
                if row[n:] not in all_values[c]:
                    print("  DIFFERS", uri, r["timestamp"], row, want)
                row[n:] = want
                corrected += 1
        if newest:
            print("  MISSING", uri, r["timestamp"], list(newest.items())[:3])
    dump.save(d, uri + ".json")
    os.remove(uri + ".history")
    print(f"{os.path.basename(uri)}: {[r.get('count') for r in d['reads']]} rows, {corrected} corrected")


def run(*arguments):
    """This script in a process of its own."""
    p = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
    print(p.stdout, end="")
    if p.returncode:
        print(*arguments[:2], "failed:", p.returncode, *p.stderr.strip().splitlines()[-1:])
    return p.returncode == 0


def main():
    if sys.argv[1] == "--write":
        Writer(*sys.argv[2:]).run()
    elif sys.argv[1] == "--describe":
        describe(*sys.argv[2:])
    else:
        new, out = sys.argv[1], os.path.abspath(sys.argv[2])
        os.makedirs(out, exist_ok=True)
        for name, lib in (x.split("=", 1) for x in sys.argv[3:]):
            for case in CASES:
                if not (run("--write", case, lib, f"{out}/{name}") and run("--describe", new, lib, f"{out}/{name}", case)):
                    shutil.rmtree(f"{out}/{name}_{case}", ignore_errors=True)


if __name__ == "__main__":
    main()
