"""Makes the arrays of mixed-versions.tar.xz: arrays that an old library began and a new one went on with, so that fragments, commits,
schemas and consolidated footers of several versions stand side by side.

usage: make_mixed.py NEWLIB OUTDIR NAME=OLDLIB...      with the tools of the corpus, ctdb.py and dump.py, on PYTHONPATH

NEWLIB describes them; its cells must be those that were put in, of which this script keeps count (but where old sparse fragments lie
in dense arrays, see errata.md). What it cannot read itself is described by that count. A process for each library and array.
"""
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time

from ctdb import LAYOUT, VAR, Lib, TileDBError, pack
import dump

KEY = "0123456789abcdeF0123456789abcdeF"
ATTRIBUTES = [dict(name="a", type="INT32", filters=["zstd"]), dict(name="s", type="CHAR", cvn=VAR, filters=["gzip"])]
MORE = [dict(name="n", type="INT64", filters=["lz4"]), dict(name="o", type="FLOAT64", nullable=True)]
DIMS = [dict(name="x", type="INT32", domain=[1, 12], tile=4), dict(name="y", type="INT32", domain=[1, 9], tile=3)]

# name -> (kind, what the old library does, what the new one does): writes of n cells (in a dense array of a box), and by name
CASES = {
    "sparse": ("sparse", [30, 10], [10, 10]),
    "sparse_upgraded": ("sparse", [30, 10], ["upgrade", 10, 10]),
    "sparse_evolved": ("sparse", [30, 10], ["evolve", 10, "evolve_more", 10]),
    "sparse_consolidated": ("sparse", [30, 10], [10, "consolidate", 10]),
    "sparse_vacuumed": ("sparse", [30, 10], [10, "consolidate", "vacuum", 10]),
    "sparse_twice": ("sparse", [30, 10, "consolidate", 10], [10, "consolidate", 10]),
    "sparse_footers": ("sparse", [30, 10, "footers", 10], [10, 10]),
    "sparse_footers_anew": ("sparse", [30, 10, "footers", 10], ["upgrade", 10, "footers", 10]),
    "sparse_metadata": ("sparse", [5, "metadata", "metadata"], ["metadata", "consolidate_metadata", "metadata"]),
    "sparse_encrypted": ("sparse", [30, 10], ["upgrade", 10, 10]),
    "sparse_all": ("sparse", [30, 10, "footers"], ["upgrade", 10, "evolve", 10, "consolidate", "vacuum", 10, "footers", "evolve_more", 10]),
    "dense": ("dense", [((1, 8), (1, 7)), ((3, 6), (2, 8))], [((2, 9), (5, 6)), ((12, 12), (9, 9))]),
    "dense_upgraded": ("dense", [((1, 8), (1, 7)), ((3, 6), (2, 8))], ["upgrade", ((2, 9), (5, 6)), ((12, 12), (9, 9))]),
    "dense_evolved": ("dense", [((1, 8), (1, 7)), ((3, 6), (2, 8))], ["evolve", ((2, 9), (5, 6)), "evolve_more", ((1, 2), (1, 9))]),
    "dense_consolidated": ("dense", [((1, 8), (1, 7)), ((3, 6), (2, 8))], [((2, 9), (5, 6)), "consolidate", ((1, 2), (1, 9))]),
    "dense_vacuumed": ("dense", [((1, 8), (1, 7)), ((3, 6), (2, 8))], [((2, 9), (5, 6)), "consolidate", "vacuum", ((1, 2), (1, 9))]),
    "dense_footers": ("dense", [((1, 8), (1, 7)), ((3, 6), (2, 8)), "footers"], ["upgrade", ((2, 9), (5, 6)), "footers"]),
    "sparse_in_dense": ("dense", [((1, 8), (1, 7)), 9], [((10, 12), (5, 6)), "upgrade", ((9, 9), (1, 9))]),
}


def fragments(path):
    """The times of all; of names __T1_T2_UUID, __T1_T2_UUID_V, __UUID_T and __UUID_T1_T2."""
    found = set()
    for name in sum((os.listdir(p) for p in (path, path + "/__fragments") if os.path.isdir(p)), []):
        parts = name.split("_")
        if "." not in name and len(parts) > 3 and parts[0] == parts[1] == "":
            times = [int(p) for p in parts[2:5] if p.isdigit() and len(p) < 32][:2]
            found.update([(times[0], times[-1])] if times else [])
    return found


class Writer:
    def __init__(self, case, lib, path, stage):
        self.kind, *stages = CASES[case]
        self.steps, self.path = stages[stage], path
        self.lib = Lib(lib, None, KEY if "encrypted" in case else None)
        self.random = random.Random(f"{case} {self.lib.version}")
        self.schema = dict(array_type=self.kind, dims=DIMS, attrs=ATTRIBUTES, capacity=4, coords_filters=["zstd"], offsets_filters=["zstd"])
        self.writes, self.schemas = [], [[0, ATTRIBUTES]]   # start, end, attributes, cells; time, attributes
        if stage == 1:
            with open(path + ".history") as f:
                self.writes, self.schemas = json.load(f)
        else:
            shutil.rmtree(path, ignore_errors=True)
            self.lib.create(path, self.schema)

    def save(self):
        with open(self.path + ".history", "w") as f:
            json.dump([self.writes, self.schemas], f)

    def value(self, a):
        r = self.random
        if a.get("nullable") and r.random() < .3:
            return None
        return "".join(r.choice("abcxyz") for _ in range(r.choice([1, 2, 3, 7]))) if a["type"] == "CHAR" else r.randint(-1000, 1000)

    def write(self, step):
        cells = list(itertools.product(*(range(d["domain"][0], d["domain"][1] + 1) for d in DIMS)))
        box = step if isinstance(step, tuple) else None
        chosen = [c for c in cells if all(a <= v <= b for v, (a, b) in zip(c, box))] if box else self.random.sample(cells, step)
        columns = {a["name"]: [self.value(a) for _ in chosen] for a in self.schema["attrs"]}
        before = fragments(self.path)
        cells = list(zip(chosen, zip(*columns.values())))
        names = list(columns)
        if box:
            self.lib.write(self.path, self.schema, columns, subarray=list(box))
        elif self.lib.version < (2, 0, 0):   # one buffer with all coordinates
            array = self.lib.open(self.path, 1)
            query = self.lib.h("tiledb_query_alloc", array, 1)
            self.lib.c("tiledb_query_set_layout", query, LAYOUT["unordered"])
            keep = []
            for a in self.schema["attrs"]:
                data, offsets, size = pack(columns[a["name"]], a["type"], a.get("cvn", 1))
                self.lib.set_buffers(query, a["name"], data, size, offsets, None, keep)
            data, _, size = pack([x for c in chosen for x in c], "INT32", 1)
            self.lib.set_buffers(query, "__coords", data, size, None, None, keep)
            self.lib.c("tiledb_query_submit", query)
            self.lib.c("tiledb_query_finalize", query)
            self.lib.close(array)
        else:
            columns |= {d["name"]: [c[i] for c in chosen] for i, d in enumerate(DIMS)}
            self.lib.write(self.path, dict(self.schema, array_type="sparse"), columns)
        (start, end), = fragments(self.path) - before
        self.writes.append([start, end, names, cells])

    def change(self, add, drop):
        self.lib.evolve(self.path, add=add, drop=drop)
        time.sleep(.005)
        self.schema["attrs"] = [a for a in self.schema["attrs"] if a["name"] not in drop] + add
        self.schemas.append([max(int(n.split("_")[2]) for n in os.listdir(self.path + "/__schema") if n.count("_") >= 4), self.schema["attrs"]])

    def replaced(self):
        whole = min(w[0] for w in self.writes), max(w[1] for w in self.writes)
        self.writes = [[*whole, *w[2:]] for w in self.writes]

    def do(self, step):
        if not isinstance(step, str):
            self.write(step)
        elif step == "consolidate":
            self.lib.consolidate(self.path, sm__consolidation__amplification=100)
            if self.lib.version < (2, 0, 0):   # which had no vacuum
                self.replaced()
        elif step == "vacuum":
            self.lib.vacuum(self.path)
            self.replaced()
        elif step == "footers" and self.lib.version >= (2, 0, 0):
            self.lib.consolidate(self.path, "fragment_meta")
        elif step == "consolidate_metadata":
            self.lib.consolidate(self.path, "array_meta")
            self.lib.vacuum(self.path, "array_meta")
        elif step == "metadata":
            r = self.random
            self.lib.put_meta(self.path, {f"k{r.randint(0, 4)}": ("INT32", [r.randint(0, 99)] * r.randint(1, 3)), f"v{r.randint(0, 9)}": ("STRING_UTF8", "vé")})
        elif step == "upgrade":
            self.lib.c("tiledb_array_upgrade_version", self.path, self.lib.mkconfig(
                {"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": KEY} if self.lib.key else {}))
        elif step == "evolve":
            self.change(MORE[:1], [])
        elif step == "evolve_more":
            self.change(MORE[1:], ["a"])
        time.sleep(.005)


FILLS = {"a": -2**31, "s": {"hex": "80"}, "n": -2**63, "o": None}


def put_in(kind, writes, schemas, timestamps, corners):
    """Returns the expected result of a read between these times; None if the non-empty domain is not `corners`."""
    start, end = timestamps or (0, 2**64)
    attributes = [a["name"] for time, attributes in schemas for a in attributes if time <= end and
                  attributes is max((s for s in schemas if s[0] <= end), key=lambda s: s[0])[1]]
    cells, boxes = {}, []
    for first, last, names, written in writes:
        if start <= first and last <= end:
            for c, values in written:
                cells[tuple(c)] = [dict(zip(names, values)).get(a, FILLS[a]) for a in attributes]
                boxes.append(c)
    box = [[min(v), max(v)] for v in zip(*boxes)] or None
    if kind == "dense" and (corners or box):
        for c in itertools.product(*(range(a, b + 1) for a, b in (corners or box))):
            cells.setdefault(c, [FILLS[a] for a in attributes])
    return {"timestamp": timestamps and list(timestamps), "columns": [d["name"] for d in DIMS] + attributes, "non_empty_domain": box,
            "count": len(cells), "cells": [[*c, *cells[c]] for c in sorted(cells)]}


def describe(new, old, path, case):
    reader = Lib(new, None, KEY if "encrypted" in case else None)
    with open(path + ".history") as f:
        writes, schemas = json.load(f)
    times = sorted(fragments(path))
    ranges = [None] + sorted({(0, t[1]) for t in times}) + ([(times[1][0], times[-1][1])] if len(times) > 1 else [])
    try:
        d = dump.dump_array(reader, path, ranges)
        d["fragment_versions"] = sorted({f["version"] for f in d["fragment_info"]})
    except TileDBError as e:
        d = {"path": "", "kind": "array", **dump.schema_info(reader, reader.h("tiledb_array_schema_load", path)), "enums": [], "encryption_key": None}
        d["notes"] = f"what was put in; TileDB cannot read it: {e}"
        d["metadata"] = {}
        d["reads"] = [put_in(CASES[case][0], writes, schemas, r, None) for r in ranges]
    d["path"] = f"mixed/{os.path.basename(path)}"
    d["writer"] = "libtiledb " + ".".join(map(str, Lib(old).version)) + ", then " + reader.vstr
    for i, r in enumerate(d["reads"]):
        want = put_in(CASES[case][0], writes, schemas, r["timestamp"], r.get("non_empty_domain"))
        if "error" in r:
            print("  ERROR", path, r["timestamp"], r["error"])
            d["reads"][i] = want
        elif r["columns"] != want["columns"]:
            print("  COLUMNS", path, r["timestamp"], r["columns"], want["columns"])
        elif r["cells"] != want["cells"]:
            differ = [(x, y) for x, y in zip(r["cells"], want["cells"]) if x != y]
            print("  DIFFERS", path, r["timestamp"], len(r["cells"]), len(want["cells"]), len(differ), *differ[:2])
            if "sparse_in_dense" in case:
                r["cells"] = want["cells"]
    os.remove(path + ".history")
    dump.save(d, path + ".json")
    print(f"{os.path.basename(path)}: {[r.get('count') for r in d['reads']]} rows, {'by TileDB' if 'notes' not in d else d['notes'][-60:]}")


def main():
    if sys.argv[1] == "--write":
        writer = Writer(*sys.argv[2:5], int(sys.argv[5]))
        for step in writer.steps:
            writer.do(step)
        writer.save()
    elif sys.argv[1] == "--describe":
        describe(*sys.argv[2:])
    else:
        new, out = sys.argv[1], os.path.abspath(sys.argv[2])
        os.makedirs(out, exist_ok=True)
        for name, lib in (x.split("=", 1) for x in sys.argv[3:]):
            for case in CASES:
                path = f"{out}/{name}_{case}"
                for arguments in (["--write", case, lib, path, "0"], ["--write", case, new, path, "1"], ["--describe", new, lib, path, case]):
                    p = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
                    print(p.stdout, end="")
                    if p.returncode:
                        print(os.path.basename(path), arguments[0], arguments[4], p.returncode, *p.stderr.strip().splitlines()[-1:])
                        shutil.rmtree(path, ignore_errors=True)
                        break


if __name__ == "__main__":
    main()
