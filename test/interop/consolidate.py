"""Consolidates and vacuums arrays of many fragments that TileDB wrote, with deletes, gaps and new attributes. TileDB
must read every range of times as before; then TileDB consolidates and vacuums the arrays itself.

usage: consolidate.py SHELL EXTENSION [PATTERN]      (77: the package `tiledb` is not installed)
Without a pattern one case in seven runs; with '' all do.
"""
import itertools
import os
import random
import sys

from cases import TILEDB_MEMORY, Cases
from create import Failed, literal, sql

try:
    import numpy as np
    import tiledb
except ImportError:
    tiledb = None

KEY = "0123456789abcdeF0123456789abcdeF"
TIMES = [10, 20, 30, 40, 50, 60]


def dimensions(kind):
    number = [tiledb.Dim("x", (0, 99), 10, dtype=np.int32), tiledb.Dim("y", (-20, 79), 25, dtype=np.int32)]
    return {
        "numbers": number,
        "floats": [tiledb.Dim("x", (0.0, 100.0), 7.0, dtype=np.float32), tiledb.Dim("y", (-1e3, 1e3), None, dtype=np.float64)],
        "strings": [tiledb.Dim("x", (None, None), None, dtype="ascii"), number[1]],
        "times": [tiledb.Dim("x", (np.datetime64("2000-01-01"), np.datetime64("2000-06-01")), np.timedelta64(10, "D"), dtype="datetime64[D]")],
        "one": number[:1],
        "boxes": [number[0], tiledb.Dim("y", (1, 100), 25, dtype=np.int32)],
    }[kind]


def attributes(sparse):
    """The package cannot write strings into boxes of two dimensions; the corpus has such arrays."""
    text = [tiledb.Attr("s", dtype="U0", var=True)] if sparse else []
    return [tiledb.Attr("a", dtype=np.int32, filters=[tiledb.ZstdFilter()]), *text, tiledb.Attr("n", dtype=np.float64)]


def coordinates(r, dims, count):
    columns = []
    for d in dims:
        if d.dtype.kind == "S" or d.domain[0] is None or d.domain[0] == "":
            columns.append(np.array(["".join(r.choice("abc") for _ in range(r.choice([0, 1, 3, 9]))).encode() for _ in range(count)]))
        elif d.dtype.kind == "f":
            columns.append(np.array([round(r.uniform(float(d.domain[0]), float(d.domain[1])), 0) for _ in range(count)], dtype=d.dtype))
        elif d.dtype.kind == "M":
            columns.append(np.array([d.domain[0] + np.timedelta64(r.randrange(60), "D") for _ in range(count)], dtype=d.dtype))
        else:
            columns.append(np.array([r.randrange(int(d.domain[0]), int(d.domain[0]) + 30) for _ in range(count)], dtype=d.dtype))
    return columns


def values(r, count, shape=None):
    a = np.array([r.randrange(50) for _ in range(count)], dtype=np.int32)
    s = np.array(["w" * r.randrange(5) + str(r.randrange(10)) for _ in range(count)], dtype="O")
    n = np.array([r.random() for _ in range(count)])
    if shape is not None:
        a, s, n = a.reshape(shape), s.reshape(shape), n.reshape(shape)
    return a, s, n


def write_sparse(r, path, config, duplicates, deletes):
    with tiledb.open(path, "r", config=config) as array:
        dims = [array.schema.domain.dim(i) for i in range(array.schema.domain.ndim)]
    for i, time in enumerate(TIMES):
        count = r.choice([1, 20, 150])
        cells = coordinates(r, dims, count)
        if not duplicates:
            seen, kept = set(), []
            for k in range(count):
                at = tuple(bytes(c[k]) if c.dtype.kind == "S" else c[k].item() for c in cells)
                if at not in seen:
                    seen.add(at)
                    kept.append(k)
            cells, count = [c[kept] for c in cells], len(kept)
        a, s, n = values(r, count)
        with tiledb.open(path, "w", timestamp=time, config=config) as array:
            array[tuple(cells) if len(cells) > 1 else cells[0]] = {"a": a, "s": s, "n": n}
        if deletes and i in (1, 3, 4):
            with tiledb.open(path, "d", timestamp=time + 5, config=config) as array:
                array.query(cond=f"a >= {r.randrange(20, 45)}").submit()


def write_dense(r, path, config, boxes):
    for time, box in zip(TIMES, boxes):
        shape = [high - low + 1 for low, high in box]
        a, s, n = values(r, int(np.prod(shape)), shape)
        with tiledb.open(path, "w", timestamp=time, config=config) as array:
            array[tuple(slice(low, high + 1) for low, high in box)] = {"a": a, "n": n}


def spans():
    near = sorted({t + d for t in [*TIMES, 25, 45, 55] for d in (-1, 0)})
    return [(0, 100)] + [(0, t) for t in near] + [(t, 100) for t in near] + list(itertools.combinations(TIMES, 2))


def rows(path, context, span):
    """Returns what TileDB reads, in the order of coordinates."""
    with tiledb.open(path, "r", timestamp=span, ctx=context) as array:
        if array.schema.sparse:
            found = array[:]
            columns = [found[name] for name in sorted(found)]
            return sorted(repr(tuple(row)) for row in zip(*(c.tolist() for c in columns)))
        found = array[:]
        return [(name, repr(found[name].tolist())) for name in sorted(found)]


def cases(r):
    for kind, duplicates, order, deletes, key in itertools.product(["numbers", "floats", "strings", "times", "one"], [False, True], ["row-major", "col-major", "hilbert"], [False, True], [False, True]):
        if order == "hilbert" and kind == "floats":
            continue
        if key and (kind != "numbers" or order == "col-major"):
            continue
        name = f"sparse {kind} {order}" + (" duplicates" if duplicates else "") + (" deletes" if deletes else "") + (" encrypted" if key else "")
        yield name, dict(kind=kind, duplicates=duplicates, order=order, deletes=deletes, key=key, sparse=True)
    layers = {
        "slabs": [[(0, 9), (1, 100)], [(10, 19), (1, 100)], [(20, 29), (1, 100)], [(30, 30), (1, 100)], [(31, 55), (1, 100)], [(0, 3), (1, 100)]],
        "gaps": [[(0, 9), (1, 10)], [(0, 9), (11, 30)], [(50, 62), (21, 30)], [(63, 70), (21, 30)], [(2, 5), (3, 24)], [(60, 65), (24, 25)]],
        "corners": [[(0, 40), (1, 41)], [(30, 60), (31, 71)], [(3, 3), (24, 24)], [(5, 7), (26, 91)], [(0, 99), (1, 100)], [(98, 99), (99, 100)]],
    }
    for shape, order, key in itertools.product(layers, ["row-major", "col-major"], [False, True]):
        yield f"dense {shape} {order}" + (" encrypted" if key else ""), dict(kind="boxes", order=order, key=key, sparse=False, boxes=layers[shape])


def make(r, path, c):
    config = tiledb.Config({"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": KEY} if c["key"] else {})
    schema = dict(domain=tiledb.Domain(*dimensions(c["kind"])), attrs=attributes(c["sparse"]), sparse=c["sparse"],
                  cell_order=c["order"])
    if c["order"] != "hilbert":
        schema["tile_order"] = r.choice(["row-major", "col-major"])
    if c["sparse"]:
        schema.update(capacity=r.choice([3, 16, 1000]), allows_duplicates=c["duplicates"])
    tiledb.Array.create(path, tiledb.ArraySchema(ctx=tiledb.Ctx(config), **schema), ctx=tiledb.Ctx(config))
    if c["sparse"]:
        write_sparse(r, path, config, c["duplicates"], c["deletes"])
    else:
        write_dense(r, path, config, c["boxes"])
    return config


def run(folder, shell, extension, c, seed):
    path, r = os.path.join(folder, "array"), random.Random(seed)
    config = make(r, path, c)
    context = tiledb.Ctx(config)   # of all reads: to make one takes as long as a read
    before = {span: rows(path, context, span) for span in spans()}

    def compare(when, whole, share=1):
        """Compares what TileDB reads between all times; or in one in `share` of the ranges, others each time."""
        for span in spans()[r.randrange(share)::share]:
            if whole and span[0] > 0 or whole and span[1] < TIMES[-1]:
                continue
            found = rows(path, context, span)
            if found != before[span]:
                raise Failed(f"{when}, between {span}: {str(found)[:400]}; expected {str(before[span])[:400]}")

    def call(*statements):
        given = [f"SELECT tessera_set_key({literal(path)}, {literal(KEY)})"] if c["key"] else []
        return list(sql(shell, extension, given + list(statements))[0].values())[0]

    here = literal(path)
    merged = call(f"SELECT tessera_consolidate({here})")
    if not merged:
        raise Failed("nothing was merged")
    compare("consolidated", False)
    for what in ("commits", "fragment_meta", "array_meta"):
        call(f"SELECT tessera_consolidate({here}, '{what}')")
        compare(f"{what} consolidated", False, share=4)
    call(f"SELECT tessera_vacuum({here})")
    compare("vacuumed", not c["sparse"])
    if call(f"SELECT count(*) FROM tessera_check({here}) WHERE severity <> 'note'"):
        raise Failed("the check: " + str(sql(shell, extension, [f"SELECT * FROM tessera_check({here})"])))
    for mode in ("fragments", "commits", "fragment_meta"):
        own = tiledb.Config({**config.dict(), **TILEDB_MEMORY, "sm.consolidation.mode": mode, "sm.vacuum.mode": mode})
        tiledb.consolidate(path, config=own)
        tiledb.vacuum(path, config=own)
        compare(f"{mode} consolidated and vacuumed by TileDB", not c["sparse"], share=1 if mode == "fragments" else 4)
    call(f"SELECT tessera_vacuum({here})")
    compare("vacuumed once more", not c["sparse"])


def main():
    shell, extension = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else None
    if not tiledb:
        print("SKIPPED: the package tiledb is not installed")
        sys.exit(77)
    tests = Cases("consolidate")
    for i, (name, c) in enumerate(cases(random.Random(1))):
        if not i % 19 if pattern is None else pattern in name:
            tests.run(name, run, shell, extension, c, i)
    sys.exit(tests.end())


if __name__ == "__main__":
    main()
