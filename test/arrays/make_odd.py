"""Makes the arrays of test/arrays/new-odd.tar.xz: what the corpus lacks and a SQL table must cope with.

usage: make_odd.py DIRECTORY      (needs TileDB-Py; then: tar -C DIRECTORY --sort=name --owner=0 --group=0 -cf - new | xz -9e > new-odd.tar.xz)
"""
import ctypes
import glob
import os
import sys

import numpy as np
import tiledb

NAMES = [b'a "quoted" name', b"two words", b"select", "größe".encode(), b"bad\xff", b"Case", b"case", b"as_of", b"_as_of", b"since",
         b"written_at", b"rowid", b"it's", b"a,b", b" blank ", b"x=?", b"[b]", b"%s", b"a\nb", b"x_2", b"X"]


def check(code):
    if code:
        raise RuntimeError("TileDB's C API failed")


def odd_names(path):
    """One dimension x, and attributes that TileDB-Py cannot name: bytes that are no UTF-8. One cell of 1, 2, 3..."""
    library = glob.glob(os.path.join(os.path.dirname(tiledb.__file__), "..", "tiledb.libs", "libtiledb*"))[0]
    c = ctypes.CDLL(library)
    pointer = ctypes.c_void_p

    def make(function, *arguments):
        out = pointer()
        check(getattr(c, function)(*arguments, ctypes.byref(out)))
        return out

    context = make("tiledb_ctx_alloc", None)
    bounds, extent = (ctypes.c_int32 * 2)(0, 99), ctypes.c_int32(10)
    int32 = 0
    dimension = make("tiledb_dimension_alloc", context, b"x", int32, bounds, ctypes.byref(extent))
    domain = make("tiledb_domain_alloc", context)
    check(c.tiledb_domain_add_dimension(context, domain, dimension))
    schema = make("tiledb_array_schema_alloc", context, 1)
    check(c.tiledb_array_schema_set_domain(context, schema, domain))
    for name in NAMES:
        check(c.tiledb_array_schema_add_attribute(context, schema, make("tiledb_attribute_alloc", context, name, int32)))
    check(c.tiledb_array_create(context, path.encode(), schema))
    array = make("tiledb_array_alloc", context, path.encode())
    check(c.tiledb_array_open(context, array, 1))
    query = make("tiledb_query_alloc", context, array, 1)
    check(c.tiledb_query_set_layout(context, query, 3))
    size, cells = ctypes.c_uint64(4), []
    for i, name in enumerate([b"x"] + NAMES):
        cells.append(ctypes.c_int32(i))
        check(c.tiledb_query_set_data_buffer(context, query, name, ctypes.byref(cells[-1]), ctypes.byref(size)))
    check(c.tiledb_query_submit(context, query))
    check(c.tiledb_array_close(context, array))


def sparse(path, dimensions, attributes, **options):
    tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(*dimensions), attrs=attributes, sparse=True, **options))


def wide(path):
    """2,100 attributes."""
    names = [f"a{i}" for i in range(2100)]
    sparse(path, [tiledb.Dim("x", (0, 99), 10, dtype=np.int32)], [tiledb.Attr(n, dtype=np.uint8) for n in names])
    with tiledb.open(path, "w") as array:
        array[np.array([1, 2], np.int32)] = {n: np.array([i % 250, 250], np.uint8) for i, n in enumerate(names)}


def nan(path):
    """Coordinates that are NaN."""
    limit = np.finfo(np.float64).max
    sparse(path, [tiledb.Dim("f", (-limit, limit), None, dtype=np.float64), tiledb.Dim("x", (0, 99), 10, dtype=np.int32)],
           [tiledb.Attr("v", dtype=np.int32)], capacity=2)
    with tiledb.open(path, "w") as array:
        f = np.array([1.5, np.nan, -2.0, np.nan, 7.0])
        array[f, np.array([1, 2, 3, 4, 5], np.int32)] = np.arange(5, dtype=np.int32)


if __name__ == "__main__":
    root = os.path.join(sys.argv[1], "new", "odd")
    os.makedirs(root)
    odd_names(os.path.join(root, "names"))
    wide(os.path.join(root, "wide"))
    nan(os.path.join(root, "nan"))
