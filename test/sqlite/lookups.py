"""Lookups by full coordinates in one statement, in joins and subqueries, with and without a cache. The tiles of the
last lookups are kept for the statement whatever `cache_mb` is, so that a tile is read once for many lookups. Counters
show how many tiles were read; the rows are compared with an ordinary table's.

usage: lookups.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import sys
import tempfile

import host
from host import Database, same

SIDE, TILE = 120, 40
LOOKUPS = 2000


def make(db, options, extra=""):
    """Makes an ordinary table and arrays with the same cells. Lookups go row by row, so that successive ones are in one tile."""
    db.query("CREATE TABLE o(y INT, x INT, v INT, s TEXT, PRIMARY KEY(y, x)) WITHOUT ROWID")
    db.query(f"""WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {SIDE * SIDE - 1})
                 INSERT INTO o SELECT i / {SIDE}, i % {SIDE}, i * 7 % 1000, 's' || i FROM n""")
    db.query("CREATE TABLE q(y INT, x INT)")
    db.query(f"INSERT INTO q SELECT y, x FROM o WHERE x < {TILE} ORDER BY y, x LIMIT {LOOKUPS}")   # the lookups of two tiles
    for name, kind in (("sparse", "capacity=1600"), ("dense", "kind=dense")):
        path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), name)
        columns = f"y INT32 DIMENSION(0, {SIDE - 1}, {TILE}), x INT32 DIMENSION(0, {SIDE - 1}, {TILE}), v INT32, s TEXT"
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera('{path}', {columns}, {kind}{extra})")
        db.query(f"INSERT INTO {name} SELECT * FROM o")
        db.query(f"DROP TABLE {name}")
        db.table(name, path, options)


def tiles_read(db, sql):
    db.query("SELECT tessera_reset_stats()")
    rows = db.query(sql)
    return rows, db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'")


STATEMENTS = (
    "SELECT sum(t.v), max(t.s) FROM q CROSS JOIN {t} t ON t.y = q.y AND t.x = q.x",
    "SELECT sum((SELECT v FROM {t} t WHERE t.y = q.y AND t.x = q.x)), max((SELECT s FROM {t} t WHERE t.x = q.x AND t.y = q.y)) FROM q",
    "SELECT count(*) FROM q WHERE EXISTS (SELECT 1 FROM {t} t WHERE t.y = q.y AND t.x = q.x AND t.v > 500)",
    "SELECT sum(a.v + b.v) FROM q CROSS JOIN {t} a ON a.y = q.y AND a.x = q.x CROSS JOIN {t} b ON b.y = q.x AND b.x = q.y",
)


def test_rows_are_found_in_each_order():
    """A rowid finds its cell, in whichever order tiles and cells are."""
    for tiles in ("row", "col"):
        for cells in ("row", "col"):
            db = Database()
            db.query(f"CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 11, 3), x INT32 DIMENSION(0, 9, 5), v INT32, w INT32, tile_order={tiles}, cell_order={cells})")
            db.query("INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 119) SELECT i / 10, i % 10, i * 7, -i FROM n")
            for row in db.query("SELECT rowid, y, x, v FROM t"):
                same(db.query("SELECT rowid, y, x, v FROM t WHERE rowid = ?", row[:1]), [row], (tiles, cells))
            db.query("UPDATE t SET v = v + 1 WHERE x % 3 = y % 2")
            same(db.query("SELECT v, w FROM t ORDER BY y, x"), [(7 * i + (i % 10 % 3 == i // 10 % 2), -i) for i in range(120)], (tiles, cells))
            db.close()


def test_tiles_are_kept_without_a_cache():
    for filters in ("", ", offsets_filters=(none)"):
        db = Database()
        make(db, ", cache_mb=0", filters)
        for sql in STATEMENTS:
            wanted = db.query(sql.format(t="o"))
            for t in ("sparse", "dense"):
                rows, read = tiles_read(db, sql.format(t=t))
                same(rows, wanted, sql.format(t=t))
                assert read <= 60, f"{sql.format(t=t)}: {read} tiles were read for {LOOKUPS} lookups"
        db.close()


def test_tiles_are_kept_for_lookups_of_writes():
    """OR IGNORE looks up each coordinate, an UPDATE each of its rows."""
    db = Database()
    make(db, ", cache_mb=0")
    for t in ("sparse", "dense"):
        db.query("SELECT tessera_reset_stats()")
        db.query(f"INSERT OR IGNORE INTO {t} SELECT y, x, -1, 'no' FROM q")
        db.query(f"UPDATE {t} SET v = v + 1 WHERE x < {TILE} AND y < {TILE}")
        read = db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'")
        assert read <= 100, f"{t}: {read} tiles were read"
        same(db.value(f"SELECT sum(v) FROM {t}"), db.value("SELECT sum(v) FROM o") + TILE * TILE, t)
    db.close()


def test_kept_tiles_go_with_the_statement():
    """Kept tiles are freed with the statement, apart from some KiB that the table keeps for the next one."""
    db = Database()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=dense, y INT32 DIMENSION(0, 999, 500), x INT32 DIMENSION(0, 999, 500), v INT64)")
    db.query("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 249999) INSERT INTO t SELECT i / 500, i % 500, i FROM n")
    db.query("DROP TABLE t")
    db.table("t", path, ", cache_mb=0")
    db.query("CREATE TABLE q(y INT, x INT)")
    db.query("INSERT INTO q SELECT value / 500, value % 500 FROM json_each('[1, 2, 100000, 200000, 3]')")
    sql = "SELECT sum(v) FROM q CROSS JOIN t ON t.y = q.y AND t.x = q.x"
    db.query(sql)
    before = host.memory_used()
    for _ in range(3):
        same(db.value(sql), 300006, "the sum")
    assert host.memory_used() < before + 300000, f"{host.memory_used() - before} bytes are kept"
    db.close()


def test_kept_tiles_give_way_if_memory_is_short():
    """Every lookup that succeeds without kept tiles succeeds with them."""
    for memory in (1, 2, 3):
        db = Database()
        make(db, f", cache_mb=0, memory_mb={memory}")
        for sql in STATEMENTS:
            for t in ("sparse", "dense"):
                same(db.query(sql.format(t=t)), db.query(sql.format(t="o")), f"{sql.format(t=t)} in {memory} MiB")
        db.close()


def test_single_chunks_of_a_large_tile_are_read():
    side = 400   # 20 chunks of 64 KiB, about as large when stored
    db = Database()
    db.query(f"""CREATE TABLE o AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {side * side - 1})
                 SELECT i / {side} AS y, i % {side} AS x, nullif(i * 2654435761 % 1000003 * 2654435761, 0) * (CASE WHEN i % 997 THEN 1 END) AS v FROM n""")
    db.query("CREATE UNIQUE INDEX oi ON o(y, x)")
    db.query(f"CREATE TABLE q AS SELECT o.y, o.x FROM o WHERE (o.y * {side} + o.x) % 997 < 2 ORDER BY o.v")   # all over the tile
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "large")
    columns = ", ".join(f"{name} INT32 DIMENSION(0, {side - 1}, {side})" for name in "yx")
    db.query(f"CREATE VIRTUAL TABLE w USING tessera('{path}', {columns}, v INT64, kind=dense)")
    db.query("INSERT INTO w SELECT * FROM o")
    db.query("DROP TABLE w")
    places = db.query("SELECT y, x FROM q")
    for options, cells, least, most in ((", cache_mb=0", places[:20], 20, 20), ("", places, 10, 12)):   # with a cache, half of the tile in chunks, then all of it
        db.table("t", path, options)
        db.query("SELECT tessera_reset_stats()")
        for y, x in cells:
            same(db.query(f"SELECT v FROM t WHERE y = {y} AND x = {x}"), db.query(f"SELECT v FROM o WHERE y = {y} AND x = {x}"), f"cell {y}, {x}{options}")
        read, tiles = (db.value(f"SELECT value FROM tessera_stats WHERE name = '{name}'") for name in ("bytes_read", "tiles_read"))
        assert least <= tiles <= most and read < 2_500_000, f"{tiles} loads of the tile read {read} bytes{options}"
        db.query("DROP TABLE t")
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
