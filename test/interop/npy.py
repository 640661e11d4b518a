"""tessera_npy gives numpy the same block that TileDB reads, and TileDB reads the blocks that tessera_write_npy writes:
for all datatypes that numpy has, orders of cells and tiles, overlapping fragments with gaps, nulls, several values in a
cell, tiles of many chunks, with and without a cache, Fortran order, big-endian values.

usage: npy.py SHELL EXTENSION [SEED [COUNT]]      (77: the package `tiledb` is not installed)
"""
import io
import os
import random
import sys

from cases import Cases
from change import Session, equal

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None

ORDERS = ["row-major", "col-major"]
TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "datetime64[ns]", "datetime64[D]", "datetime64[Y]", "bool"]


def values(rng, dtype, shape):
    n = int(numpy.prod(shape))
    kind = numpy.dtype(dtype).kind
    if kind == "b":
        flat = numpy.array([rng.random() < 0.5 for _ in range(n)], dtype=dtype)
    elif kind == "M":
        flat = numpy.array([rng.randrange(-1000, 1000) for _ in range(n)], dtype="int64").astype(dtype)
    elif kind == "f":
        flat = numpy.array([rng.choice([rng.random(), -1e30, float("inf"), float("nan")]) for _ in range(n)], dtype=dtype)
    else:
        info = numpy.iinfo(dtype)
        flat = numpy.array([rng.randint(info.min, info.max) for _ in range(n)], dtype=dtype)
    return flat.reshape(shape)


def blob(a, version=None):
    out = io.BytesIO()
    numpy.lib.format.write_array(out, a, version=version, allow_pickle=False)
    return "x'" + out.getvalue().hex() + "'"


def create(rng, path, dtype, ndim, cells):
    dims = []
    for d in range(ndim):
        low, size = rng.randrange(-5, 20), rng.randrange(1, 40)
        dims.append(tiledb.Dim(f"d{d}", domain=(low, low + size), tile=rng.randint(1, size + 1), dtype="int32"))
    kind = numpy.dtype([("", numpy.dtype(dtype))] * cells) if cells > 1 else numpy.dtype(dtype)
    attr = tiledb.Attr("a", dtype=kind, filters=tiledb.FilterList([tiledb.ZstdFilter()], chunksize=rng.choice([64, 1000, 65536])))
    tiledb.Array.create(path, tiledb.ArraySchema(tiledb.Domain(*dims), [attr], cell_order=rng.choice(ORDERS), tile_order=rng.choice(ORDERS)))
    return [(int(d.domain[0]), int(d.domain[1])) for d in dims]


def box(rng, domain):
    ends = [sorted((rng.randint(*d), rng.randint(*d))) for d in domain]
    return [(low, high) for low, high in ends]


def shape_of(b):
    return tuple(high - low + 1 for low, high in b)


def index(b):
    return tuple(slice(low, high + 1) for low, high in b)


def load(s, path, b, options="{}"):
    text = "{" + ",".join(f'"d{d}":[{low},{high}]' for d, (low, high) in enumerate(b)) + "}"
    row = s(f"SELECT hex(tessera_npy('{path}', 'a', '{text}', '{options}')) AS h")[0]
    return numpy.load(io.BytesIO(bytes.fromhex(row["h"])), allow_pickle=False)


def expected(path, b):
    with tiledb.open(path) as a:
        return a.multi_index[tuple(slice(low, high) for low, high in b)]["a"]


def plain(a, cells):
    """Converts a block so that several values in a cell form a last axis."""
    if a.dtype.kind == "c":  # the package shows two floats as a complex number
        a = numpy.stack([a.real, a.imag], axis=-1)
    if cells > 1 and a.dtype.names:
        a = numpy.stack([a[n] for n in a.dtype.names], axis=-1)
    return a.tobytes(), a.dtype.str, a.shape


def check_one(folder, shell, extension, seed):
    s, rng, path = Session(shell, extension, folder), random.Random(seed), os.path.join(folder, "array")
    dtype, ndim, cells = rng.choice(TYPES), rng.randint(1, 3), rng.choice([1, 1, 1, 2])
    if dtype == "bool":
        cells = 1
    domain = create(rng, path, dtype, ndim, cells)
    for _ in range(rng.randint(0, 4)):
        b = box(rng, domain)
        block = values(rng, dtype, shape_of(b) + ((cells,) if cells > 1 else ()))
        if rng.random() < 0.5 and cells == 1 and min(low for low, _ in domain) >= 0:  # the package counts negative coordinates from the end
            with tiledb.open(path, "w") as a:
                a[index(b)] = block
            continue
        sent = numpy.asfortranarray(block) if rng.random() < 0.5 else block
        sent = sent.astype(sent.dtype.newbyteorder(">")) if rng.random() < 0.5 else sent
        origin = "{" + ",".join(f'"d{d}":{low}' for d, (low, _) in enumerate(b)) + "}"
        n = s(f"SELECT tessera_write_npy('{path}', 'a', {blob(sent, rng.choice([None, (2, 0), (3, 0)]))}, '{origin}') AS n")[0]["n"]
        equal("cells", n, int(numpy.prod(shape_of(b))))
    for _ in range(3):
        b = box(rng, domain)
        want = plain(expected(path, b).reshape(shape_of(b)), cells)
        for options in rng.sample(['{}', '{"cache_mb":0}', '{"cache_mb":0,"threads":1}', '{"cache_mb":16}'], 3):  # without a cache chunks go straight to the block
            equal(f"{dtype} x {cells}, {ndim} dimensions, box {b}, {options}", plain(load(s, path, b, options), cells), want)


def check_rules(folder, shell, extension):
    s = Session(shell, extension, folder)
    path = s.path("rules")
    s(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, x INT32 DIMENSION(1, 10, 5), y INT32 DIMENSION(0, 3, 2), a INT16 NOT NULL DEFAULT -7, n FLOAT32, s TEXT)")
    ok, f = blob(numpy.arange(8, dtype="int16").reshape(2, 4)), blob(numpy.ones((2, 4), dtype="float32"))
    s.fails(f"SELECT tessera_write_npy('{path}', 'a', {ok})", "'n' is missing")
    s.fails(f"SELECT tessera_npy('{path}', 's')", "'s'", "variable")
    s.fails(f"SELECT tessera_npy('{path}', 'b')", "no attribute 'b'")
    s.fails(f"SELECT tessera_npy('{path}', 'a', '{{\"x\":0}}')", "x", "domain")
    s.fails(f"SELECT tessera_npy('{path}', 'a', '{{\"z\":1}}')", "'z'")
    equal("empty", s(f"SELECT length(tessera_npy('{path}', 'a')) AS n"), [{"n": 128}])
    two = s.path("two")
    s(f"CREATE VIRTUAL TABLE t USING tessera('{two}', kind=dense, x INT32 DIMENSION(1, 10, 5), y INT32 DIMENSION(0, 3, 2), a INT16 NOT NULL DEFAULT -7, n FLOAT32)")
    s.fails(f"SELECT tessera_write_npy('{two}', 'a', {ok}, 'n', {f}, '{{\"x\":10}}')", "x", "beyond the domain")
    s.fails(f"SELECT tessera_write_npy('{two}', 'a', {f}, 'n', {f})", "'a'", "<i2", "<f4")
    s.fails(f"SELECT tessera_write_npy('{two}', 'a', {ok}, 'n', {blob(numpy.ones((4, 2), dtype='float32'))})", "shape")
    s.fails(f"SELECT tessera_write_npy('{two}', 'a', {ok}, 'n', x'00')", "NPY")
    s.fails(f"SELECT tessera_write_npy('{two}', 'a', substr({ok}, 1, 130), 'n', {f})", "bytes")
    s.fails(f"SELECT tessera_write_npy('{two}', 'a', {ok}, 'a', {ok})", "twice")
    s(f"SELECT tessera_write_npy('{two}', 'a', {ok}, 'n', {f}, '{{\"x\":3}}')")
    got = s(f"SELECT hex(tessera_npy('{two}', 'a', '{{\"x\":[2,3]}}')) AS h")[0]["h"]
    equal("gaps are the fill value", numpy.load(io.BytesIO(bytes.fromhex(got))).tolist(), [[-7] * 4, [0, 1, 2, 3]])
    equal("the non-empty box", numpy.load(io.BytesIO(bytes.fromhex(s(f"SELECT hex(tessera_npy('{two}', 'a')) AS h")[0]["h"]))).shape, (2, 4))
    truth = s.path("truth")
    s(f"CREATE VIRTUAL TABLE b USING tessera('{truth}', kind=dense, x INT32 DIMENSION(0, 3, 4), a BOOL NOT NULL)")
    s.fails(f"SELECT tessera_write_npy('{truth}', 'a', {blob(numpy.array([0, 1, 7, 255], dtype='uint8').view(bool))})", "'a'", "7 is outside BOOL")
    with tiledb.open(two) as a:
        equal("theirs", a[3:5]["a"].tolist(), numpy.arange(8).reshape(2, 4).tolist())


def main():
    if tiledb is None:
        print("SKIPPED: the package tiledb is not installed")
        return 77
    seed, count = int(sys.argv[3]) if len(sys.argv) > 3 else 1, int(sys.argv[4]) if len(sys.argv) > 4 else 40
    tests = Cases("npy")
    tests.run("rules", check_rules, *sys.argv[1:3])
    for i in range(count):
        tests.run(f"seed {seed}, array {i}", check_one, *sys.argv[1:3], seed * 1000003 + i)
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
