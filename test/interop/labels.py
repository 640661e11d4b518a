"""Dimension labels that tessera_create_as, tessera_copy and tessera_write_label have made: TileDB sees the same labels and slices by them.

usage: labels.py SHELL EXTENSION      (77: the package `tiledb` is not installed)
"""
import os
import sys

from cases import Cases
from change import Session, equal

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None

ROWS = "SELECT 47.5 - 0.25 * lat.value AS lat, 6.0 + lon.value AS lon, 10 * lat.value + lon.value AS v FROM json_each(''[0,1,2,3]'') lat, json_each(''[0,1,2]'') lon"
DAYS = "SELECT ''2024-02-'' || (27 + value) AS day, ''n'' || value AS name, value AS v FROM json_each(''[0,1,2]'')"


def check_sliced(path):
    """The label falls along y and rises along x; TileDB takes the low value first in both."""
    with tiledb.open(path) as a:
        equal("labels", sorted((a.schema.dim_label(n).name, str(a.schema.dim_label(n).dtype)) for n in ("lat", "lon")), [("lat", "float64"), ("lon", "float64")])
        got = a.label_index(["lat", "lon"])[46.9:47.3, 6.5:8.5]
        equal("values", numpy.asarray(got["v"]).tolist(), [[11, 12], [21, 22]])
        equal("latitudes", numpy.asarray(got["lat"]).tolist(), [47.25, 47.0])
        equal("longitudes", numpy.asarray(got["lon"]).tolist(), [7.0, 8.0])


def check_grid(folder, shell, extension):
    s = Session(shell, extension, folder)
    path, copy = s.path("grid"), s.path("copy")
    s(f"SELECT tessera_create_as('{path}', '{ROWS}', '{{\"labels\":{{\"lat\":\"y\",\"lon\":\"x\"}}}}')")
    check_sliced(path)
    s(f"SELECT tessera_copy('{path}', '{copy}', '{{\"extents\":{{\"y\":2}}}}')")
    check_sliced(copy)
    s(f"SELECT tessera_write_label('{copy}', 'lat', '[50]')")
    with tiledb.open(copy) as a:
        equal("written", numpy.asarray(a.label_index(["lat"])[47.25:60.0]["lat"]).tolist(), [50.0, 47.25])


def check_other_types(folder, shell, extension):
    s = Session(shell, extension, folder)
    for kind in ("dense", "sparse"):
        path = s.path(kind)
        s(f"SELECT tessera_create_as('{path}', '{DAYS}', '{{\"labels\":{{\"day\":\"t\"}},\"types\":{{\"day\":\"DATE\"}},\"kind\":\"{kind}\",\"columns\":[\"day\",\"v\"]}}')")
        with tiledb.open(path) as a:
            label = a.schema.dim_label("day")
            equal("label", (str(label.dtype), label.dim_index, label.order if hasattr(label, "order") else None)[:2], ("datetime64[D]", 0))
            values = tiledb.open(label.uri)[:]
            equal("days", numpy.asarray(values["label"] if isinstance(values, dict) else values).astype(str).tolist(), ["2024-02-27", "2024-02-28", "2024-02-29"])
    path = s.path("names")
    s(f"SELECT tessera_create_as('{path}', '{DAYS}', '{{\"labels\":{{\"name\":\"t\"}},\"columns\":[\"name\",\"v\"]}}')")
    with tiledb.open(path) as a:
        label = a.schema.dim_label("name")
        values = tiledb.open(label.uri)[:]
        equal("names", [bytes(v) if isinstance(v, bytes) else str(v).encode() for v in numpy.asarray(values["label"] if isinstance(values, dict) else values).tolist()], [b"n0", b"n1", b"n2"])


def main():
    if tiledb is None:
        print("SKIPPED: the package tiledb is not installed")
        return 77
    tests = Cases("labels")
    tests.run("a grid", check_grid, *sys.argv[1:3])
    tests.run("other types", check_other_types, *sys.argv[1:3])
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
