"""TileDB and CHECK constraints: it reads and writes an array that has some, and does not test what it writes; tessera_check
names the cells, and writers here go on to be tested. An array of TileDB's takes a constraint, too.

usage: checks.py SHELL EXTENSION      (77: the package `tiledb` is not installed)
"""
import sys

from cases import Cases
from change import Session, equal

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None


def check_ours(s):
    path = s.path("ours")
    table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
    s(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT32 DIMENSION(0, 99, 10), low FLOAT64 NOT NULL, high FLOAT64 NOT NULL, CONSTRAINT band CHECK(low <= high))",
      "INSERT INTO t VALUES(1, 1, 2), (2, 0, 0)")
    with tiledb.open(path) as a:
        equal("what TileDB reads", [int(x) for x in a[:]["x"]], [1, 2])
        equal("what TileDB shows", a.meta["tessera.check.band"], "low <= high")
    with tiledb.open(path, "w") as a:
        a[numpy.array([5, 6, 7], dtype="int32")] = {"low": numpy.array([3.0, 1.0, 9.5]), "high": numpy.array([2.0, 1.0, 9.25])}
    equal("what tessera_check warns of", s(f"SELECT severity, message FROM tessera_check('{path}') WHERE severity <> 'note'"),
          [{"severity": "warning", "message": "2 cells break the CHECK 'band', low <= high, one where low is 3, high is 2 at x=5"}])
    s.fails(f"{table}; UPDATE t SET low = low + 1 WHERE x = 5", "CHECK constraint failed: band", "low is 4, high is 2 at x=5")
    equal("rows after an UPDATE that mends them", s(table, "UPDATE t SET low = high WHERE low > high", "SELECT x, low FROM t ORDER BY x"),
          [{"x": 1, "low": 1.0}, {"x": 2, "low": 0.0}, {"x": 5, "low": 2.0}, {"x": 6, "low": 1.0}, {"x": 7, "low": 9.25}])
    equal("a sound array", s(f"SELECT severity, message FROM tessera_check('{path}') WHERE severity <> 'note'"), [])
    tiledb.consolidate(path)
    tiledb.vacuum(path)
    s.fails(f"{table}; INSERT INTO t VALUES(9, 9, 8)", "CHECK constraint failed: band")


def check_theirs(s):
    """Dense, in column-major order: blocks of cells, too; a constraint that TileDB has written."""
    path = s.path("theirs")
    domain = tiledb.Domain(*[tiledb.Dim(n, domain=(1, 40), tile=7, dtype="int64") for n in "yx"])
    tiledb.Array.create(path, tiledb.ArraySchema(domain, [tiledb.Attr("v", dtype="int16")], cell_order="col-major"))
    with tiledb.open(path, "w") as a:
        a[1:41, 1:41] = numpy.add.outer(numpy.arange(40), numpy.arange(40)).astype("int16")
    s.fails(f"SELECT tessera_add_check('{path}', 'c', 'v < y + x - 2')", "1600 cells break v < y + x - 2", "v is 0 at y=1, x=1")
    s(f"SELECT tessera_add_check('{path}', 'c', 'v = y + x - 2 OR v < 0')")
    table = f"CREATE VIRTUAL TABLE t USING tessera('{path}')"
    s.fails(f"{table}; UPDATE t SET v = v + 1 WHERE y = 3 AND x = 4", "v is 6 at y=3, x=4")
    s.fails(f"{table}; SELECT tessera_write_npy('db:t', 'v', tessera_npy('db:t', 'v', '{{\"y\":[5,9],\"x\":[2,9]}}'), '{{\"y\":5,\"x\":3}}')", "v is 5 at y=5, x=3")
    with tiledb.open(path, "w") as a:
        a.meta["tessera.check.c"] = "v <% y"
    equal("reading", s(table, "SELECT v FROM t WHERE y = 40 AND x = 40"), [{"v": 78}])
    s.fails(f"{table}; UPDATE t SET v = 1 WHERE y = 1 AND x = 1", "the CHECK 'c' cannot be read by this version: '%' (character 4)", "writes are refused")
    equal("a dropped one", s(f"SELECT tessera_drop_check('{path}', 'c')", table, "UPDATE t SET v = 1 WHERE y = 1 AND x = 1", "SELECT v FROM t WHERE y = 1 AND x = 1")[-1:], [{"v": 1}])


def main():
    if tiledb is None:
        print("SKIPPED: the package tiledb is not installed")
        return 77
    tests = Cases("checks")
    for check in (check_ours, check_theirs):
        tests.run(check.__name__, lambda folder, check=check: check(Session(sys.argv[1], sys.argv[2], folder)))
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
