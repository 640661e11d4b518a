"""Prints how fast one thread encodes and decodes with each filter, in millions of bytes a second of unfiltered data: tessera's filters as bench_codecs
measures them, numcodecs' filter of the same kind on the same values, blosc2 with the filter and lz4, and TileDB, whose figures include writing and
reading an array of 16 MiB in memory. Ways of libraries that are not installed are left out.

usage: filters.py BENCH_CODECS FOLDER [ROUNDS]
"""
import os
import subprocess
import sys
import time

from cold import PACKAGES, optional
from environment import inside

CHUNK, TILE, TILEDB_TILE = 65536, 1 << 20, 16 << 20   # bytes
TYPES = {"INT16": "i2", "INT32": "i4", "INT64": "i8", "FLOAT32": "f4", "FLOAT64": "f8"}


def values_of(datatype, size):
    import numpy
    i = numpy.arange(size // numpy.dtype(TYPES[datatype]).itemsize)
    return (1000 + 200 * numpy.sin(i / 3000) + numpy.random.default_rng(1).integers(0, 16, len(i))).astype(TYPES[datatype])


def best(rounds, act):
    least = float("inf")
    for _ in range(rounds):
        began = time.thread_time()
        act()
        least = min(least, time.thread_time() - began)
    return least


def of_numcodecs(name, datatype, ratio):
    import numcodecs
    dtype = TYPES[datatype]
    if name == "byteshuffle":
        return numcodecs.Shuffle(int(dtype[1]))
    if name == "delta":
        return numcodecs.Delta(dtype)
    if name == "scale_float" and ratio <= 1:
        return numcodecs.FixedScaleOffset(1000, 2, dtype, f"i{round(float(ratio) * int(dtype[1]))}")
    return {"zstd": lambda: numcodecs.Zstd(5), "lz4": numcodecs.LZ4}.get(name, lambda: None)()


def with_numcodecs(name, datatype, ratio, rounds):
    codec = of_numcodecs(name, datatype, ratio)
    if not codec:
        return None
    values = values_of(datatype, TILE)
    cells = CHUNK // values.itemsize
    chunks = [values[at:at + cells] for at in range(0, len(values), cells)]
    encoded = [codec.encode(chunk) for chunk in chunks]
    return [TILE / best(rounds, lambda: [way(part) for part in parts]) / 1e6 for way, parts in ((codec.encode, chunks), (codec.decode, encoded))]


def with_blosc2(name, datatype, rounds):
    import blosc2
    kind = {"byteshuffle": blosc2.Filter.SHUFFLE, "bitshuffle": blosc2.Filter.BITSHUFFLE, "delta": blosc2.Filter.DELTA}.get(name)
    if kind is None:
        return None
    values = values_of(datatype, TILE)
    parameters = {"codec": blosc2.Codec.LZ4, "clevel": 1, "filters": [kind], "typesize": values.dtype.itemsize, "nthreads": 1}
    encoded = blosc2.compress2(values, **parameters)
    return [TILE / best(rounds, way) / 1e6 for way in (lambda: blosc2.compress2(values, **parameters), lambda: blosc2.decompress2(encoded, nthreads=1))]


def with_tiledb(name, datatype, width):
    import tiledb
    kinds = {"none": lambda: [], "byteshuffle": lambda: [tiledb.ByteShuffleFilter()], "bitshuffle": lambda: [tiledb.BitShuffleFilter()], "xor": lambda: [tiledb.XORFilter()],
             "delta": lambda: [tiledb.DeltaFilter()], "double_delta": lambda: [tiledb.DoubleDeltaFilter()], "positive_delta": lambda: [tiledb.PositiveDeltaFilter(1024)],
             "bit_width_reduction": lambda: [tiledb.BitWidthReductionFilter(1024)], "scale_float": lambda: [tiledb.FloatScaleFilter(0.5, 1000, width)],
             "zstd": lambda: [tiledb.ZstdFilter(5)], "lz4": lambda: [tiledb.LZ4Filter()], "md5": lambda: [tiledb.ChecksumMD5Filter()]}
    values = values_of(datatype, TILEDB_TILE)
    context = tiledb.Ctx({"sm.compute_concurrency_level": 1, "sm.io_concurrency_level": 1})
    domain = tiledb.Domain(tiledb.Dim("i", domain=(0, len(values) - 1), tile=TILE // values.itemsize, dtype="int64", ctx=context), ctx=context)
    schema = tiledb.ArraySchema(domain, [tiledb.Attr("v", dtype=values.dtype, filters=tiledb.FilterList(kinds[name](), ctx=context), ctx=context)], ctx=context)
    tiledb.Array.create("mem://codecs", schema, ctx=context)
    try:
        with tiledb.open("mem://codecs", "w", ctx=context) as array:
            began = time.process_time()
            array[:] = values
            write = time.process_time() - began
        read = float("inf")
        for _ in range(3):
            with tiledb.open("mem://codecs", ctx=context) as array:
                began = time.process_time()
                array.query(attrs=["v"])[:]
                read = min(read, time.process_time() - began)
    except tiledb.TileDBError:
        return None   # a filter that TileDB does not take for this datatype
    finally:
        tiledb.remove("mem://codecs", ctx=context)
    return TILEDB_TILE / write / 1e6, TILEDB_TILE / read / 1e6


def main():
    bench, folder = (os.path.abspath(name) for name in sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    inside(folder, "cold", PACKAGES)
    print("Millions of bytes a second: encoding / decoding.\n\n| filter | datatype | tessera | numcodecs | blosc2 with lz4 | TileDB |\n|---|---|---|---|---|---|")
    found = subprocess.run([bench, str(rounds)], stdout=subprocess.PIPE, text=True, check=True).stdout
    for name, datatype, encode, decode, ratio in (text.split() for text in found.splitlines()):
        width = round(float(ratio) * int(TYPES[datatype][1]))
        ways = {"numcodecs": lambda name=name, datatype=datatype, ratio=float(ratio): with_numcodecs(name, datatype, ratio, rounds),
                "blosc2": lambda name=name, datatype=datatype: with_blosc2(name, datatype, rounds), "tiledb": lambda name=name, datatype=datatype, width=width: with_tiledb(name, datatype, width)}
        cells = [f"{int(encode):,} / {int(decode):,}"]
        for library, way in ways.items():
            got = way() if optional(library) else None
            cells.append(f"{got[0]:,.0f} / {got[1]:,.0f}" if got else "")
        title = f"{name}, {width} bytes" if name == "scale_float" else name
        print(f"| {title} | {datatype} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
