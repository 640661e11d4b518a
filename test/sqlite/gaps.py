"""Dense arrays whose fragments lie far apart. Tiles that no fragment meets are answered as one box, skipped if a
comparison with an attribute cannot hold for cells that were never written, and aggregated at once by tessera_aggregate.
The number of calls of the progress handler shows how many tiles are visited. The rows are compared with those of SQLite
without pushdown.

usage: gaps.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import re
import sys
import tempfile

import host
from host import Database, same

PUSHED = (3, 51, 0)   # the first version with which <>, IS NOT and IS NOT NULL are pushed down; before, ranges are used instead
CALLS = 3000   # calls of the progress handler, one in 1000 steps: visiting 10^6 tiles takes some 30,000 calls
SEED = int(os.environ.get("SEED", 20251122))


def new():
    return os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")


class Counted:
    """Statements that are stopped if they take too long."""

    def __init__(self, db):
        self.db, self.calls = db, 0
        if host.binding == "apsw":
            db.raw.set_progress_handler(self.tick, 1000)
        else:
            db.raw.set_progress_handler(self.tick, 1000)

    def tick(self):
        self.calls += 1
        return self.calls > CALLS

    def query(self, sql, parameters=()):
        self.calls = 0
        if self.db.version() < PUSHED:
            sql = re.sub(r"\b([vn]) IS NOT NULL", r"\1 >= -9e999", sql).replace("v <> 1 AND v >= -5", "v > 1")
        try:
            return self.db.query(sql, parameters)
        except host.Error as e:
            raise AssertionError(f"{sql}: {e} after {self.calls} calls") from None


def corners(options="", orders=""):
    """Makes an array of 10^12 cells with two fragments of one cell each, at opposite corners."""
    path = new()
    db = Database()
    db.query(f"""CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, y INT64 DIMENSION(0, 999999, 1000), x INT64 DIMENSION(0, 999999, 1000),
                 v INT32, s TEXT, n INT32 NOT NULL DEFAULT 7 {orders})""")
    db.query("INSERT INTO t VALUES(0, 0, 1, 'one', 1)")
    db.query("INSERT INTO t VALUES(999999, 999999, 2, NULL, 2)")
    db.query("DROP TABLE t")
    db.table("t", path, options)
    return db


FIRST, LAST = (0, 0, 1, "one", 1), (999999, 999999, 2, None, 2)
FEW = (   # statements and their results
    ("SELECT * FROM t WHERE v = 2", [LAST]),
    ("SELECT count(*) FROM t WHERE v IS NOT NULL", [(2,)]),
    ("SELECT count(*), sum(v) FROM t WHERE v > 0 AND y > 10", [(1, 2)]),
    ("SELECT y FROM t WHERE v <> 1 AND v >= -5", [(999999,)]),
    ("SELECT y FROM t WHERE v IN (1, 5)", [(0,)]),
    ("SELECT y FROM t WHERE v IS NOT NULL AND s IS NULL", [(999999,)]),
    ("SELECT y FROM t WHERE s = 'one'", [(0,)]),
    ("SELECT y, x FROM t WHERE v IS NOT NULL ORDER BY y", [(0, 0), (999999, 999999)]),
    ("SELECT y, x FROM t WHERE v IS NOT NULL ORDER BY x DESC, y", [(999999, 999999), (0, 0)]),
    ("SELECT y, x FROM t WHERE v IS NOT NULL ORDER BY y DESC LIMIT 1", [(999999, 999999)]),
    ("SELECT y, x FROM t WHERE v IS NOT NULL AND y BETWEEN 5 AND 999999 ORDER BY y, x", [(999999, 999999)]),
    ("SELECT y, count(v) FROM t WHERE v IS NOT NULL GROUP BY y", [(0, 1), (999999, 1)]),
    ("SELECT DISTINCT x FROM t WHERE v > 0 ORDER BY x", [(0,), (999999,)]),
    ("SELECT * FROM t WHERE v = 2 LIMIT 1", [LAST]),
    ("SELECT y, x FROM t WHERE v IS NULL LIMIT 2", [(0, 1), (0, 2)]),
    ("SELECT count(*) FROM (SELECT 1 FROM t WHERE v IS NULL LIMIT 5000)", [(5000,)]),
    ("SELECT y, x FROM t WHERE v IS NULL ORDER BY y DESC, x DESC LIMIT 2", [(999999, 999998), (999999, 999997)]),
    ("SELECT y FROM t WHERE v IS NULL AND s = 'one'", []),
    ("SELECT count, nulls, sum, min, max FROM tessera_aggregate('db:t', 'v')", [(2, 10**12 - 2, 3, 1, 2)]),
    ("""SELECT count, nulls, sum FROM tessera_aggregate('db:t', 'v', '{"y":[500, 999999]}')""", [(1, (10**6 - 500) * 10**6 - 1, 2)]),
    ("""SELECT count, nulls FROM tessera_aggregate('db:t', 'v', '{"y":[5, 999998],"x":[5, 999998]}')""", [(0, 999994**2)]),
    ("SELECT count(*), sum(count), sum(nulls), max(sum) FROM tessera_aggregate('db:t', 'v', NULL, 'y')", [(10**6, 2, 10**12 - 2, 2)]),
    ("""SELECT key1, count, nulls, sum FROM tessera_aggregate('db:t', 'v', '{"x":[990000, 999999]}', 'x') WHERE count > 0""", [(999999, 1, 999999, 2)]),
)


def test_two_cells_at_opposite_corners():
    for orders in ("", ", cell_order=col, tile_order=col", ", tile_order=col"):
        db = corners("", orders)
        counted = Counted(db)
        for sql, rows in FEW:
            if "count(*), sum(count)" in sql or "GROUP" in sql and "aggregate" in sql or "'x')" in sql:
                continue   # SQLite itself would process a million rows
            if orders and "LIMIT 2" in sql and "ORDER" not in sql:
                continue
            same(counted.query(sql), rows, sql + orders)
        db.close()
    db = corners()
    for sql, rows in FEW:
        if "tessera_aggregate" in sql:
            same(db.query(sql), rows, sql)
    db.close()


def test_fill_values_decide_whether_tiles_are_skipped():
    """If cells that were never written read as the fill value, a comparison with the fill value decides."""
    counted = Counted(corners(", unwritten=fill"))
    same(counted.query("SELECT y, n FROM t WHERE n = 2"), [(999999, 2)], "it is 7")
    same(counted.query("SELECT count(*) FROM t WHERE n < 7"), [(2,)], "it is 7")
    same(counted.query("SELECT y, x, n FROM t WHERE n = 7 LIMIT 2"), [(0, 1, 7), (0, 2, 7)], "it is 7")
    same(counted.query("SELECT y, x, n FROM t WHERE n IS NOT NULL ORDER BY y DESC, x DESC LIMIT 2"), [(999999, 999999, 2), (999999, 999998, 7)], "it is no null")
    counted = Counted(corners())
    same(counted.query("SELECT count(*) FROM t WHERE n = 7"), [(0,)], "it is null")


def test_pictures_of_distant_cells():
    counted = Counted(corners())
    text = counted.query("SELECT tessera_preview('db:t', 'v')")[0][0]
    assert "2" in text, text


def test_distant_cells_of_a_transaction():
    """Uncommitted cells that lie far apart are in one sorted run, whose box covers everything."""
    db = corners()
    counted = Counted(db)
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(5, 999999, 3, 'three', 3), (999999, 5, 4, 'four', 4), (500000, 500000, 5, 'five', 5), (500000, 500001, 5, 'five', 5)")
    same(counted.query("SELECT y, x FROM t WHERE v >= 3 ORDER BY 1, 2"), [(5, 999999), (500000, 500000), (500000, 500001), (999999, 5)], "by tiles")
    same(counted.query("SELECT y, x FROM t WHERE v IS NOT NULL ORDER BY x DESC, y"),
         [(5, 999999), (999999, 999999), (500000, 500001), (500000, 500000), (999999, 5), (0, 0)], "in order")
    db.query("UPDATE t SET v = 9 WHERE v = 5")
    same(counted.query("SELECT y, x FROM t WHERE v = 5"), [], "changed")
    db.query("COMMIT")
    same(counted.query("SELECT count(*), sum(v) FROM t WHERE v IS NOT NULL"), [(6, 28)], "committed")
    same(counted.query("SELECT count, nulls, sum FROM tessera_aggregate('db:t', 'v')"), [(6, 10**12 - 6, 28)], "together")
    db.close()


def test_each_of_a_thousand_fragments_is_met_once():
    """The array has 10^10 tiles and a thousand fragments along its diagonal."""
    path = new()
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, y INT64 DIMENSION(0, 999999, 10), x INT64 DIMENSION(0, 999999, 10), v INT32)")
    db.query("BEGIN")
    for i in range(300):
        db.query("INSERT INTO t VALUES(?1, ?1, ?2)", (i * 3000 + 7, i))
    db.query("COMMIT")
    counted = Counted(db)
    same(counted.query("SELECT count(*), sum(v), sum(y - x) FROM t WHERE v >= 0"), [(300, 300 * 299 // 2, 0)], "a scan")
    same(counted.query("SELECT v FROM t WHERE v >= 0 ORDER BY x DESC LIMIT 3"), [(299,), (298,), (297,)], "an order")
    rows = 299 * 3000 + 1
    same(counted.query("SELECT count, nulls FROM tessera_aggregate('db:t', 'v')"), [(300, rows * rows - 300)], "together")
    db.close()


def make(rng, path):
    """Makes a small array with fragments at random places."""
    db = Database()
    n = rng.randrange(1, 4)
    sizes = [rng.randrange(5, (400, 60, 16)[n - 1]) for _ in range(n)]
    names = ["x", "y", "z"][:n]
    dims = ", ".join(f"{d} INT16 DIMENSION({low}, {low + s - 1}, {rng.randrange(1, s // 2 + 1)})" for d, s, low in ((d, s, rng.randrange(-5, 6)) for d, s in zip(names, sizes)))
    order = f", cell_order={rng.choice(['row', 'col'])}, tile_order={rng.choice(['row', 'col'])}"
    db.query(f"CREATE VIRTUAL TABLE w USING tessera('{path}', kind=dense, {dims}, v INT32, s TEXT, f FLOAT64 NOT NULL DEFAULT 5{order})")
    lows = [int(part.split("(")[1].split(",")[0]) for part in dims.split(", ") if "DIMENSION" in part]
    return db, names, sizes, lows


def write(rng, db, names, sizes, lows, box):
    low = [rng.randrange(l, l + s) for l, s in zip(lows, sizes)]
    high = [min(a + (rng.randrange(0, 6) if box else 0), l + s - 1) for a, l, s in zip(low, lows, sizes)]
    ranges = ", ".join(f"{d}s({d}) AS (SELECT {a} UNION ALL SELECT {d} + 1 FROM {d}s WHERE {d} < {b})" for d, a, b in zip(names, low, high))
    values = f"CASE abs(random()) % 5 WHEN 0 THEN NULL ELSE abs(random()) % 10 END, CASE abs(random()) % 3 WHEN 0 THEN NULL ELSE char(97 + abs(random()) % 5) END, abs(random()) % 10"
    db.query(f"WITH RECURSIVE {ranges} INSERT INTO w SELECT {', '.join(names)}, {values} FROM {', '.join(d + 's' for d in names)}")


CONDITIONS = ("{v} = 3", "{v} IS NOT NULL", "{v} <> 4", "{v} > 6", "{v} IN (1, 2)", "{v} IS NULL", "{s} = 'b'", "{s} IS NULL", "{f} = 5", "{f} < 5", "{f} IS NOT NULL",
              "{v} IS NOT NULL AND {s} IS NULL", "{v} < 5 AND {f} > 2", "{v} IS NOT 3")


def ask(rng, db, table, names, lows, sizes):
    condition = rng.choice(CONDITIONS)
    where = ""
    for d, l, s in zip(names, lows, sizes):
        a, b = sorted((rng.randrange(l - 2, l + s + 2), rng.randrange(l - 2, l + s + 2)))
        where += rng.choice(["", "", f" AND {d} BETWEEN {a} AND {b}", f" AND {d} IN ({a}, {b}, {(a + b) // 2})", f" AND {d} > {a}"])
    order = ", ".join(d + rng.choice(["", " DESC"]) for d in rng.sample(names, len(names)))
    pushed, plain = (condition.format(**{c: sign + c for c in "vsf"}) for sign in ("", "+"))
    columns = ", ".join(names) + ", v, s, f"
    wanted = db.query(f"SELECT {columns} FROM {table} WHERE {plain}{where} ORDER BY {order}")
    sql = f"SELECT {columns} FROM {table} WHERE {pushed}{where} ORDER BY {order}"
    same(db.query(sql), wanted, sql)
    sql = f"SELECT {columns} FROM {table} WHERE {pushed}{where}"
    same(sorted(db.query(sql), key=repr), sorted(wanted, key=repr), sql)
    limit = rng.randrange(1, 5)
    sql = f"SELECT {columns} FROM {table} WHERE {pushed}{where} ORDER BY {order} LIMIT {limit}"
    same(db.query(sql), wanted[:limit], sql)
    if not host.autocommit(db):
        return   # functions read committed cells only
    by = rng.sample(names, rng.randrange(0, len(names) + 1))
    box = {d: sorted((rng.randrange(l, l + s), rng.randrange(l, l + s))) for d, l, s in zip(names, lows, sizes) if rng.random() < 0.5}
    inside = " AND ".join(f"{d} BETWEEN {a} AND {b}" for d, (a, b) in box.items()) or "1"
    keys = "".join(f"{d}, " for d in by)
    rows = db.query(f"SELECT {keys}count(v), count(*) - count(v), sum(v) FROM {table} WHERE {inside} {'GROUP BY ' + ', '.join(by) + ' ORDER BY ' + ', '.join(by) if by else ''}")
    shown = "".join(f"key{i + 1}, " for i in range(len(by)))
    json = "{" + ", ".join(f'"{d}":[{a},{b}]' for d, (a, b) in box.items()) + "}"
    got = db.query(f"SELECT {shown}count, nulls, sum FROM tessera_aggregate('db:{table}', 'v', ?{', ?' if by else ''})", (json, str(by).replace("'", '"'))[:1 + bool(by)])
    same(got, rows, f"{table}: by {by} in {json}")


def test_gaps_end_at_the_current_domain():
    """Also those of a slice that reaches beyond it, or lies beside it."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 99, 10) CURRENT(0, 9), x INT32 DIMENSION(-50, 49, 10) CURRENT(-5, 4), v REAL)")
    db.query("INSERT INTO t VALUES(0, 0, 1)")
    for box in ("NULL", """'{"x":[-50,49]}'""", """'{"y":[0,50]}'""", """'{"y":[0,99],"x":[-50,49]}'"""):
        same(db.value(f"SELECT sum(cells) FROM tessera_gaps('db:t', {box})"), 99, box)
        same(db.query(f"SELECT low, high FROM tessera_gaps('db:t', {box}, 'y')"), [(1, 9)], box)
    same(db.query("""SELECT * FROM tessera_gaps('db:t', '{"y":[10,20]}')"""), [])


def test_random_gaps_against_sqlite():
    rng = random.Random(SEED)
    for round_number in range(int(os.environ.get("ROUNDS", 12))):
        path = new()
        db, names, sizes, lows = make(rng, path)
        for _ in range(rng.randrange(1, 5)):
            write(rng, db, names, sizes, lows, True)
        db.table("filled", path, f", unwritten=fill, memory_mb={rng.choice([1, 1024])}, cache_mb=0")
        for _ in range(8):
            ask(rng, db, rng.choice(["w", "filled"]), names, lows, sizes)
        db.query("BEGIN")
        for _ in range(rng.randrange(1, 4)):
            write(rng, db, names, sizes, lows, rng.random() < 0.5)
            for _ in range(3):
                ask(rng, db, rng.choice(["w", "filled"]), names, lows, sizes)
        db.query("ROLLBACK" if round_number % 2 else "COMMIT")
        ask(rng, db, "w", names, lows, sizes)
        db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
