"""Transactions on dense arrays that are larger than `memory_mb`. Their cells are spilled to disk, and the results must
be the same as without spilling: reads within the transaction, cells that are written twice, updates, OR clauses,
savepoints, commits of boxes and over gaps. Random histories are compared with an ordinary table. (bounded.py measures
the memory of such transactions.)

usage: spills.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import sys
import tempfile

import host
from host import Database, Error, same

SEED = int(os.environ.get("SEED", 20251123))
SIDE = 160


def new():
    return os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")


def directories(path):
    """Returns the entries among the fragments: those of the array, and others."""
    names = os.listdir(os.path.join(path, "__fragments")) if os.path.exists(os.path.join(path, "__fragments")) else []
    return sorted(n for n in names if not n.startswith(".")), sorted(n for n in names if n.startswith("."))


class History:
    def __init__(self, rng, filled):
        self.rng, self.path, self.db = rng, new(), Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "x.db"))
        order = f"cell_order={rng.choice(['row', 'col'])}, tile_order={rng.choice(['row', 'col'])}"
        y, x = rng.choice([7, 20, 40]), rng.choice([5, 33, 50])
        self.db.query(f"""CREATE VIRTUAL TABLE t USING tessera('{self.path}', kind=dense, y INT16 DIMENSION(-10, {SIDE - 11}, {y}), x INT16 DIMENSION(5, {SIDE + 4}, {x}),
                          v INT32 NOT NULL, s TEXT, f FLOAT64 FILTERS(zstd), {order}, memory_mb=1, cache_mb={rng.choice([0, 256])})""")
        self.db.query("CREATE TABLE o(y INT, x INT, v INT, s TEXT, f REAL, PRIMARY KEY(y, x)) WITHOUT ROWID")
        self.filled, self.spilled, self.savepoints = filled, False, 0
        if filled:
            self.insert((-10, SIDE - 11, 5, SIDE + 4))

    def on_both(self, sql, parameters=()):
        self.last = sql
        for t in ("o", "t"):
            self.db.query(sql.format(t=t), parameters)
        self.spilled |= bool(directories(self.path)[1])

    def box(self):
        a, b = sorted(self.rng.randrange(-10, SIDE - 10) for _ in range(2))
        c, d = sorted(self.rng.randrange(5, SIDE + 5) for _ in range(2))
        return a, b, c, d

    def insert(self, box=None, clause=None):
        a, b, c, d = box or self.box()
        clause = clause or self.rng.choice(["REPLACE", "REPLACE", "REPLACE", "IGNORE"])
        seed = self.rng.randrange(1000)
        text = "CASE (y * 7 + x + {seed}) % 5 WHEN 0 THEN NULL ELSE substr('abcdefghijklmnopqrstuvwxyz', 1, (y * x + {seed}) % 26) END"
        order = self.rng.choice(["", " ORDER BY x, y", " ORDER BY y DESC, x", " ORDER BY (y * 31 + x * 17) % 97"])
        self.on_both(f"""INSERT OR {clause} INTO {{t}} WITH RECURSIVE ys(y) AS (SELECT {a} UNION ALL SELECT y + 1 FROM ys WHERE y < {b}), xs(x) AS (SELECT {c} UNION ALL SELECT x + 1 FROM xs WHERE x < {d})
                      SELECT y, x, y * 1000 + x + {seed}, {text.format(seed=seed)}, (y + x) * 0.5 + {seed} FROM ys CROSS JOIN xs{order}""")

    def insert_cells(self):
        """Writes single cells at random coordinates: many of them if the domain is filled, else few."""
        n = self.rng.randrange(1, 3000 if self.filled else 6)
        cells = [(self.rng.randrange(-10, SIDE - 10), self.rng.randrange(5, SIDE + 5), self.rng.randrange(10**6)) for _ in range(n)]
        for y, x, v in cells:
            self.db.query("INSERT OR REPLACE INTO o VALUES(?, ?, ?, 'one', NULL)", (y, x, v))
            self.db.query("INSERT INTO t VALUES(?, ?, ?, 'one', NULL)", (y, x, v))

    def update(self):
        a, b, c, d = self.box()
        change = self.rng.choice(["v = v + 1", "s = NULL", "s = 'changed', f = f * 2", "v = v * 2 % 100000, s = y || ' ' || x"])
        where = self.rng.choice([f"y BETWEEN {a} AND {b}", f"x BETWEEN {c} AND {d} AND y > {a}", f"v % 3 = {self.rng.randrange(3)} AND y BETWEEN {a} AND {b}" if self.filled else f"y = {a}"])
        self.on_both(f"UPDATE {{t}} SET {change} WHERE v IS NOT NULL AND {where}")

    def savepoint(self):
        self.savepoints += 1
        self.db.query(f"SAVEPOINT p{self.savepoints}")

    def rollback_to(self):
        if self.savepoints:
            self.savepoints = self.rng.randrange(1, self.savepoints + 1)   # later savepoints are released with it
            self.db.query(f"ROLLBACK TO p{self.savepoints}")
            self.compare()

    def compare(self):
        what = self.rng.randrange(4)
        a, b, c, d = self.box()
        for sql in (("SELECT y, x, v, s, f FROM {t} WHERE v IS NOT NULL ORDER BY y, x",), (f"SELECT * FROM {{t}} WHERE v IS NOT NULL AND y BETWEEN {a} AND {b} AND x > {c} ORDER BY x DESC, y",),
                    (f"SELECT count(*), sum(v), min(s), max(f) FROM {{t}} WHERE v > {a * 1000}", f"SELECT v, s FROM {{t}} WHERE y = {a} AND x = {d} AND v IS NOT NULL"),
                    ("SELECT s, count(*) FROM {t} WHERE s >= 'c' AND v IS NOT NULL GROUP BY s ORDER BY s",))[what]:
            same(self.db.query(sql.format(t="t")), self.db.query(sql.format(t="o")), sql)

    def transaction(self):
        self.db.query("BEGIN")
        self.savepoints = 0
        steps = [self.insert] * 4 + [self.insert_cells] + [self.update] * 2 + [self.savepoint] * 2 + [self.rollback_to, self.compare]
        for _ in range(self.rng.randrange(2, 9)):
            self.rng.choice(steps)()
        self.compare()
        self.db.query(self.rng.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        same(directories(self.path)[1], [], "nothing is left of the transaction")
        same(self.db.query("SELECT * FROM t WHERE v IS NOT NULL ORDER BY y, x"), self.db.query("SELECT * FROM o ORDER BY y, x"), "after the transaction")


def test_random_histories_that_spill():
    rng = random.Random(SEED)
    spilled = 0
    for round_number in range(int(os.environ.get("ROUNDS", 3))):
        h = History(rng, round_number % 2 == 0)
        for _ in range(4):
            h.transaction()
        spilled += h.spilled
        same(h.db.query("SELECT severity, message FROM tessera_check(?) WHERE severity <> 'note'", (h.path,)), [], "the array is sound")
        same(Database().query(f"SELECT count(*) FROM tessera_fragments('{h.path}')")[0][0] > 0, h.db.value("SELECT count(*) FROM o") > 0, "fragments")
        h.db.close()
    assert spilled > 0, "nothing went to disk"


def test_the_number_of_fragments_equals_the_number_of_boxes():
    """A commit makes one fragment for each box, whatever was spilled."""
    for sql, boxes in (("SELECT i / 150, i % 150, i FROM n", 1),   # row by row
                       ("SELECT i % 150, i / 150, i FROM n", 1),
                       ("SELECT i / 150, i % 150, i FROM n ORDER BY i * 7919 % 22501", 1),   # in random order
                       ("SELECT i / 150 * 2, i % 150, i FROM n WHERE i / 150 < 80", 80),   # every other row
                       ("SELECT i / 150, i % 150, i FROM n WHERE i % 150 <> 70", 2)):
        path = new()
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, y INT32 DIMENSION(0, 999, 16), x INT32 DIMENSION(0, 999, 16), v INT64 NOT NULL, memory_mb=1)")
        db.query("BEGIN")
        db.query(f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 22499) INSERT INTO t {sql}")
        assert directories(path)[1], f"{sql}: nothing went to disk"
        counted = db.query("SELECT count(*), sum(v), sum(y * 3 + x) FROM t WHERE v IS NOT NULL")
        db.query("COMMIT")
        same(db.query("SELECT count(*), sum(v), sum(y * 3 + x) FROM t WHERE v IS NOT NULL"), counted, sql)
        fragments, rest = directories(path)
        same((len(fragments), rest), (boxes, []), sql)
        same(db.query("SELECT severity, message FROM tessera_check(?) WHERE severity <> 'note'", (path,)), [], sql)
        db.close()


def test_scattered_cells_over_written_ones_become_one_box():
    """Scattered single cells over cells that were written become one box, and the cells between keep their values. If some cells were never written, the commit is refused and leaves nothing."""
    path = new()
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, y INT32 DIMENSION(0, 199, 16), x INT32 DIMENSION(0, 199, 16), v INT64 NOT NULL, memory_mb=1)")
    fill = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39999) INSERT INTO t SELECT i / 200, i % 200, -1 FROM n"
    some = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39999) INSERT INTO t SELECT i / 200, i % 200, i FROM n WHERE (i / 200 + i) % 2 = 0"
    db.query("BEGIN")
    db.query(some)
    e = db.error("COMMIT")
    same(e.code, 13, f"{e.text}")
    assert "separate boxes" in e.text, e.text
    same(directories(path), ([], []), "nothing is left")
    db.query(fill)
    db.query("BEGIN")
    db.query(some)
    same(db.value("SELECT count(*) FROM t WHERE v >= 0"), 20000, "own rows")
    db.query("COMMIT")
    same(db.query("SELECT count(*), sum(v) FROM t WHERE v >= 0"), [(20000, sum(i for i in range(40000) if (i // 200 + i) % 2 == 0))], "those that were written")
    same(db.value("SELECT count(*) FROM t WHERE v = -1"), 20000, "those between")
    db.close()


def test_space_tiles_that_are_a_good_part_of_the_budget():
    """Space tiles that take a large part of memory_mb, with many attributes, with texts, with nulls: a commit writes them tile by tile. In directories and in the database."""
    kinds = ((150, "v INT64 NOT NULL", "i"), (100, "v INT64", "nullif(i % 3, 0)"),
             (60, ", ".join(f"a{k} INT64" for k in range(20)), ", ".join(f"i + {k}" for k in range(20))),
             (100, "v INT64, s TEXT", "i, substr('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz', 1, i % 50)"))
    places = (lambda: "", lambda: f"'{new()}', ")
    for i, place in enumerate(places):
        for tile, attributes, values in kinds if host.rounds(2) > 1 else kinds[i::2]:   # a sample has each kind in one place
            db = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "x.db"))
            declared = f"kind=dense, y INT32 DIMENSION(0, 999, {tile}), x INT32 DIMENSION(0, 999, {tile}), {attributes}, memory_mb=1"
            tables = ("t", "u") if "s TEXT" in attributes else ("t",)   # two in one transaction
            for t in tables:
                db.query(f"CREATE VIRTUAL TABLE {t} USING tessera({place()}{declared})")
            db.query("CREATE TABLE o(y INT, x INT, %s, PRIMARY KEY(y, x))" % attributes)
            width = tile + 20
            insert = f"INSERT OR REPLACE INTO {{t}} WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {width * width - 1}) SELECT i / {width}, i % {width}, {values} FROM n"
            db.query("BEGIN")
            for t in (*tables, "o"):
                db.query(insert.format(t=t))
            db.query("SAVEPOINT one")
            db.query(insert.format(t="t"))
            db.query("ROLLBACK TO one")
            db.query("COMMIT")
            wanted = db.query("SELECT * FROM o ORDER BY y, x")
            for t in tables:
                same(db.query(f"SELECT * FROM {t} WHERE y < {width} AND x < {width} ORDER BY y, x"), wanted, declared)
            db.close()


def test_a_tile_with_more_fragments_than_memory_has_room_for():
    """Forty fragments have some rows each of a space tile: together they exceed `memory_mb`, one by one they do not."""
    path = new()
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE w USING tessera('{path}', kind=dense, y INT32 DIMENSION(0, 79, 80), x INT32 DIMENSION(0, 39, 40), v INT64 NOT NULL, s TEXT)")
    db.query("CREATE TABLE o(y INT, x INT, v INT, s TEXT, PRIMARY KEY(y, x)) WITHOUT ROWID")
    for k in range(40):   # each covers a part of the earlier ones
        for t in ("w", "o"):
            db.query(f"""INSERT OR REPLACE INTO {t} WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 159)
                         SELECT ?1 * 37 % 77 + i / 40, i % 40, ?1 * 1000 + i, substr('abcdefghijklmnopqrstuvwxyz', 1 + i % 20) || ?1 FROM n""", (k,))
    db.query("DROP TABLE w")
    db.table("t", path, ", memory_mb=1, cache_mb=0")
    for sql in ("SELECT * FROM {t} WHERE v IS NOT NULL ORDER BY y, x", "SELECT x, y, s FROM {t} WHERE v % 2 = 0 ORDER BY x DESC, y", "SELECT * FROM {t} WHERE s > 'm' AND v > 5000 ORDER BY y, x",
                "SELECT count(*), sum(v), max(s), min(y) FROM {t} WHERE v >= 0", "SELECT y, s FROM {t} WHERE x = 7 AND v >= 0 ORDER BY y"):
        same(db.query(sql.format(t="t")), db.query(sql.format(t="o")), sql)
    db.query("BEGIN")
    for t in ("t", "o"):   # single cells all over the tile: the cells between are rewritten
        db.query(f"INSERT OR REPLACE INTO {t} SELECT y, x, -v, NULL FROM o WHERE (y + x) % 2 = 0 AND y BETWEEN 5 AND 70")
    same(db.query("SELECT * FROM t WHERE v <= 5000 ORDER BY y, x"), db.query("SELECT * FROM o WHERE v <= 5000 ORDER BY y, x"), "own rows")
    db.query("COMMIT")
    same(db.query("SELECT * FROM t WHERE v <= 50000 ORDER BY y, x"), db.query("SELECT * FROM o ORDER BY y, x"), "committed")
    db.close()


def test_a_commit_that_fails_because_of_a_reader_can_be_tried_again():
    """A commit fails because of a reader; more cells are written, and the next commit succeeds."""
    path, file = new(), os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "x.db")
    db = Database(file)
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, y INT32 DIMENSION(0, 999, 16), x INT32 DIMENSION(0, 999, 16), v INT64 NOT NULL, memory_mb=1)")
    db.query("CREATE TABLE o(a)")
    db.query("INSERT INTO o VALUES(1), (2), (3)")
    reader = Database(file)
    rows = reader.cursor("SELECT * FROM o, o p")
    reader.next(rows)
    db.query("BEGIN")
    db.query("INSERT INTO o VALUES(4)")
    insert = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) INSERT INTO t SELECT i / 100 + ?, i % 100, i FROM n"
    db.query(insert, (0,))
    same(db.error("COMMIT").code, 5, "busy")
    db.query(insert, (100,))
    same(db.error("COMMIT").code, 5, "busy")
    db.query("UPDATE t SET v = 7 WHERE y = 150 AND v IS NOT NULL")
    del rows
    reader.close()
    db.query("COMMIT")
    same(db.query("SELECT count(*), sum(v) FROM t WHERE v IS NOT NULL"), [(20000, 2 * sum(range(10000)) - sum(range(5000, 5100)) + 700)], "all of it")
    same(directories(path)[1], [], "nothing is left")
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
