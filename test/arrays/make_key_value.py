"""Makes the arrays of old-kv.tar.xz: key-value stores, which TileDB had until 1.6.

usage: make_key_value.py NEWLIB OUTDIR NAME=OLDLIB...      with the tools of the corpus, ctdb.py and dump.py, on PYTHONPATH

No library from 1.7 on opens them. They are sparse arrays under another file's name: NEWLIB describes a copy in which the schema has
the name that it looks for, and what it reads must be what was put in. One process for each: old libraries may crash.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from ctdb import DT, VAR, Lib, cell_bytes, u32, u64
import dump

KEY = "0123456789abcdeF0123456789abcdeF"
A = dict(name="a", type="INT32", filters=["zstd"])
S = dict(name="s", type="CHAR", cvn=VAR, filters=["gzip"])
F = dict(name="f", type="FLOAT64", cvn=2, filters=["byteshuffle", "lz4"])

# name -> (attributes, steps): so many new items and so many old ones in a fragment, or "consolidate"
CASES = {
    "items": ([A, S, F], [(20, 0)]),
    "several": ([A, S], [(20, 0), (5, 7), (9, 9)]),
    "one": ([S], [(1, 0)]),
    "empty": ([A], []),
    "consolidated": ([A, F], [(15, 0), (5, 5), "consolidate", (3, 4)]),
    "encrypted": ([A, S], [(9, 0), (3, 3)]),
}


class Writer:
    def __init__(self, case, lib, path):
        attributes, self.steps = CASES[case]
        self.attributes, self.path = attributes, path
        self.lib = Lib(lib, None, None)
        self.key = KEY.encode() if case == "encrypted" else None
        self.random = random.Random(f"{case} {self.lib.version}")
        self.items = {}   # (datatype, key) -> values as bytes
        shutil.rmtree(path, ignore_errors=True)
        schema = self.lib.h("tiledb_kv_schema_alloc")
        for a in attributes:
            self.lib.c("tiledb_kv_schema_add_attribute", schema, self.lib.mkattr(a))
        self.lib.c("tiledb_kv_schema_set_capacity", schema, u64(4))
        self.call("tiledb_kv_create", path, schema)

    def call(self, function, *arguments):
        key = [1, self.key, u32(len(self.key))] if self.key else []
        self.lib.c(function + "_with_key" * bool(key), *arguments, *key)

    def new_key(self):
        r = self.random
        datatype = r.choice(["INT32", "CHAR", "UINT64", "FLOAT64"])
        if datatype == "CHAR":
            return datatype, bytes(r.choice(b"abcdef/.") for _ in range(r.randint(1, 12)))
        return datatype, cell_bytes(r.randint(0, 1000) / (4 if datatype == "FLOAT64" else 1), datatype)

    def value(self, a):
        r = self.random
        if a["type"] == "CHAR":
            return bytes(r.choice(b"xyz") for _ in range(r.choice([1, 2, 3, 7])))
        return b"".join(cell_bytes(r.randint(-999, 999), a["type"]) for _ in range(a.get("cvn", 1)))

    def flush(self, new, old):
        chosen = self.random.sample(sorted(self.items), old)
        while len(chosen) < new + old:
            key = self.new_key()
            if key not in self.items and key not in chosen:
                chosen.append(key)
        store = self.lib.h("tiledb_kv_alloc", self.path)
        self.call("tiledb_kv_open", store, 1)
        for datatype, key in chosen:
            item = self.lib.h("tiledb_kv_item_alloc")
            self.lib.c("tiledb_kv_item_set_key", item, key, DT[datatype], u64(len(key)))
            values = [self.value(a) for a in self.attributes]
            for a, value in zip(self.attributes, values):
                self.lib.c("tiledb_kv_item_set_value", item, a["name"], value, DT[a["type"]], u64(len(value)))
            self.lib.c("tiledb_kv_add_item", store, item)
            self.items[datatype, key] = values
        self.lib.c("tiledb_kv_flush", store)
        self.lib.c("tiledb_kv_close", store)
        time.sleep(.005)

    def run(self):
        for step in self.steps:
            if step == "consolidate":
                self.call("tiledb_kv_consolidate", self.path, *([] if self.key else [None]))
            else:
                self.flush(*step)
        with open(self.path + ".items", "w") as f:
            for (datatype, key), values in sorted(self.items.items()):
                print((struct.pack("<B", DT[datatype]) + key).hex(), *(v.hex() for v in values), file=f)


def as_bytes(value, field):
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    if field["cell_val_num"] != "var" and field["cell_val_num"] > 1:
        return b"".join(cell_bytes(v, field["type"]) for v in value)
    return cell_bytes(value, field["type"])


def describe(new, old, path, case):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, os.path.basename(path))
        shutil.copytree(path, copy)
        os.rename(copy + "/__kv_schema.tdb", copy + "/__array_schema.tdb")
        reader = Lib(new, None, KEY if case == "encrypted" else None)
        times = sorted({tuple(f["timestamps"]) for f in dump.fragments(reader, copy)[0]})
        d = dump.dump_array(reader, copy, [None] + [(0, t[1]) for t in times])
    d["fragment_versions"] = sorted({f["version"] for f in d["fragment_info"]})
    d["path"] = f"kv/{os.path.basename(path)}"
    d["writer"] = "libtiledb " + ".".join(map(str, Lib(old).version))
    d["notes"] = "key-value store: read from a copy whose __kv_schema.tdb was renamed to __array_schema.tdb"
    got = sorted([as_bytes(v, f).hex() for v, f in zip(row[2:], d["attrs"])] for row in d["reads"][0]["cells"])
    with open(path + ".items") as f:
        want = sorted(line.split() for line in f)
    os.remove(path + ".items")
    if got != want:
        sys.exit(f"{len(got)} items read, {len(want)} put in: {got[:2]} {want[:2]}")
    dump.save(d, path + ".json")
    print(f"{os.path.basename(path)}: {[r['count'] for r in d['reads']]} items, versions {d['fragment_versions']}")


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
                path = f"{out}/{name}_{case}"
                for arguments in (["--write", case, lib, path], ["--describe", new, lib, path, case]):
                    p = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
                    print(p.stdout, end="")
                    if p.returncode:
                        print(path, arguments[0], p.returncode, *p.stderr.strip().splitlines()[-1:])
                        shutil.rmtree(path, ignore_errors=True)
                        break


if __name__ == "__main__":
    main()
