"""tessera_regrid: arrays of blocks of cells.

usage: regrid.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import math
import os
import random
import struct
import sys

import host
from host import Database, check_contains, same

KINDS = {"b": ("INT8", -128, 127), "u": ("UINT16", 0, 65535), "i": ("INT32", -2**31, 2**31 - 1), "q": ("INT64", -2**40, 2**40), "f": ("FLOAT32", None, None), "d": ("FLOAT64", None, None)}
OTHERS = {"b": ("UINT8", 0, 255), "h": ("INT16", -2**15, 2**15 - 1), "w": ("UINT32", 0, 2**32 - 1), "z": ("UINT64", 0, 2**40)}


def fill(db, name, seed, kinds=KINDS):
    """Makes a dense array of two dimensions and attributes of these kinds, whose written cells have a value of b, with tiles that do not divide it, unwritten cells, nulls, NaN, and overlapping fragments."""
    source = random.Random(seed)
    columns = ", ".join(f"{column} {kind[0]}{' NOT NULL' if column in 'bd' else ''}" for column, kind in kinds.items())
    db.query(f"CREATE VIRTUAL TABLE {name} USING tessera(kind=dense, y INT32 DIMENSION(-5, 40, 7), x INT32 DIMENSION(3, 63, 10), {columns})")
    for _ in range(4):
        y, x = source.randint(-5, 30), source.randint(3, 40)
        rows = []
        for row in range(y, y + source.randint(1, 11)):
            for column in range(x, x + source.randint(1, 24)):
                values = []
                for key, (_, low, high) in kinds.items():
                    value = struct.unpack("<f", struct.pack("<f", source.uniform(-9, 9)))[0] if low is None else source.randint(low, high) if source.random() < 0.7 else 3
                    values.append(None if key not in "bd" and source.random() < 0.2 else value)
                rows.append((row, column, *values))
        db.query("BEGIN")
        for row in rows:
            db.query(f"INSERT OR REPLACE INTO {name} VALUES (?, ?{', ?' * len(kinds)})", row)
        db.query("COMMIT")


def rows_of(db, sql):
    return sorted(db.query(sql), key=lambda row: row[:2])


def close(got, expected, what, tolerance=0):
    same(len(got), len(expected), f"{what}: rows")
    for a, b in zip(got, expected):
        for x, y in zip(a, b):
            if isinstance(y, float) and x is not None:
                assert math.isclose(x, y, rel_tol=tolerance or 1e-12, abs_tol=tolerance or 1e-9), (what, a, b)
            else:
                same(x, y, f"{what}: {a} {b}")


def test_sums_and_ends_are_those_of_group_by():
    db = Database()
    for seed, kinds in enumerate((KINDS, KINDS, KINDS, OTHERS)):
        fill(db, f"a{seed}", seed, kinds)
        for fy, fx in ((2, 2), (1, 3), (5, 1), (7, 20), (100, 100), (7, 2)) if kinds is KINDS else ((2, 2), (5, 3)):
            shown = [("mean", "avg"), ("sum", "sum"), ("min", "min"), ("max", "max"), ("count", "count")]
            block = f"{'y' if fy == 1 else f'(y + 5) / {fy}'}, {'x' if fx == 1 else f'(x - 3) / {fx}'}"
            for method, function in shown:
                db.query(f"DROP TABLE IF EXISTS r")
                factors = json.dumps({k: v for k, v in (("y", fy), ("x", fx)) if v > 1})
                cells = db.value(f"SELECT tessera_regrid('db:a{seed}', 'db:r', ?, ?)", (factors, method))
                expected = rows_of(db, f"SELECT {block}, {', '.join(f'{function}({column})' for column in kinds)} FROM a{seed} WHERE b IS NOT NULL GROUP BY 1, 2")
                got = rows_of(db, "SELECT y, x, " + ", ".join(kinds) + " FROM r WHERE b IS NOT NULL")
                close(got, expected, f"{method} {factors} of {seed}", 2e-7 if method == "mean" else 0)
                same(cells, len(expected), "cells written")
                same(db.query("SELECT severity, message FROM tessera_check('db:r') WHERE severity <> 'note'"), [])


def npy_of(values, kind):
    """Returns a file of numpy's of rows of floats."""
    header = f"{{'descr': '<{kind}{struct.calcsize(kind)}', 'fortran_order': False, 'shape': ({len(values)}, {len(values[0])}), }}".replace("<d", "<f").encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"".join(struct.pack(f"<{len(row)}{kind}", *row) for row in values)


def test_blocks_that_lie_in_whole_tiles():
    """All cells are written, by one fragment; some are NaN or infinite. The last tiles and blocks are cut off."""
    db, source = Database(), random.Random(1)
    db.query("CREATE VIRTUAL TABLE w USING tessera(kind=dense, y INT32 DIMENSION(-5, 31, 8), x INT32 DIMENSION(3, 55, 10), f FLOAT32, d FLOAT64 NOT NULL, i INT16)")
    rows = [[source.choice((math.nan, math.inf, -math.inf)) if y in (8, 20) and source.random() < 0.3 else source.randint(-5000, 5000) / 8 for _ in range(53)] for y in range(37)]
    db.query("BEGIN")
    db.query("INSERT INTO w(y, x, d, i) WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n WHERE k < 36), m(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < 52) SELECT k - 5, j + 3, 0, k * j FROM n, m")
    db.query("COMMIT")
    db.query("SELECT tessera_write_npy('db:w', 'f', ?, 'd', ?, 'i', tessera_npy('db:w', 'i'))", (npy_of(rows, "f"), npy_of(rows, "d")))
    for fy, fx in ((2, 2), (1, 2), (8, 10), (2, 5)):
        block = f"{'y' if fy == 1 else f'(y + 5) / {fy}'}, {'x' if fx == 1 else f'(x - 3) / {fx}'}"
        for method, function in (("mean", "avg"), ("sum", "sum"), ("min", "min"), ("max", "max"), ("count", "count")):
            db.query("DROP TABLE IF EXISTS r")
            db.query("SELECT tessera_regrid('db:w', 'db:r', ?, ?)", (json.dumps({k: v for k, v in (("y", fy), ("x", fx)) if v > 1}), method))
            expected = rows_of(db, f"SELECT {block}, {', '.join(f'{function}({column})' for column in 'fdi')} FROM w GROUP BY 1, 2")
            close(rows_of(db, "SELECT y, x, f, d, i FROM r"), expected, f"{method} of blocks of {fy} x {fx}", 2e-7 if method == "mean" else 0)


def test_halves_of_every_kind_without_nulls():
    """Sums and means of pairs of cells that all have values: each kind of numbers has loops of its own for them. The last blocks have one cell."""
    db, source = Database(), random.Random(2)
    kinds = {**{f"k{n}": kind for n, kind in enumerate([*KINDS.values(), *OTHERS.values()])}, "t": ("DATETIME_DAY", -2**30, 2**30)}
    where = os.path.join(host.FOLDER, "halves").replace(os.sep, "/")
    db.query(f"CREATE VIRTUAL TABLE w USING tessera('{where}', kind=dense, y INT32 DIMENSION(0, 6, 4), x INT32 DIMENSION(0, 8, 4), " + ", ".join(f"{n} {k} NOT NULL" for n, (k, _, _) in kinds.items()) + ")")
    db.query(f"CREATE VIRTUAL TABLE i USING tessera('{where}', datetimes=integer)")
    db.query("BEGIN")
    for y, x in ((y, x) for y in range(7) for x in range(9)):
        db.query(f"INSERT INTO i VALUES (?, ?{', ?' * len(kinds)})", (y, x, *(source.randint(-80, 80) / 8 if low is None else source.randint(low, high) for _, low, high in kinds.values())))
    db.query("COMMIT")
    for method, function in (("mean", "avg"), ("sum", "sum"), ("min", "min"), ("max", "max"), ("count", "count")):
        names = [n for n in kinds if n != "t" or function in ("min", "max", "count")]
        for shape in ('{"y":2,"x":2}', '{"x":2}'):
            to = f"{where}-{method}-{len(shape)}"
            db.query("SELECT tessera_regrid(?, ?, ?, ?, ?)", (where, to, shape, method, json.dumps({"columns": names})))
            db.query(f"CREATE VIRTUAL TABLE r USING tessera('{to}', datetimes=integer)")
            expected = rows_of(db, f"SELECT {'y / 2' if 'y' in shape else 'y'}, x / 2, {', '.join(f'{function}({n})' for n in names)} FROM i GROUP BY 1, 2")
            close(rows_of(db, f"SELECT y, x, {', '.join(names)} FROM r"), expected, f"{method} of {shape}", 2e-7 if method == "mean" else 0)
            db.query("DROP TABLE r")


def test_nearest_and_mode():
    db = Database()
    for seed, kinds in enumerate((KINDS, KINDS, KINDS, KINDS, OTHERS)):
        fill(db, f"a{seed}", seed, kinds)
        for fy, fx in ((2, 2), (3, 4), (7, 5), (80, 1000), (46, 70)) if kinds is KINDS else ((3, 4),):
            factors = json.dumps({"y": fy, "x": fx})
            cells = {(row[0] + 5, row[1] - 3): row[2:] for row in db.query(f"SELECT y, x, {', '.join(kinds)} FROM a{seed} WHERE b IS NOT NULL")}
            blocks = {}
            for (y, x), values in cells.items():
                blocks.setdefault((y // fy, x // fx), []).append(values)
            nearest, mode = [], []
            for (y, x), members in sorted(blocks.items()):
                at = min(y * fy + fy // 2, 45), min(x * fx + fx // 2, 60)
                if at in cells:
                    nearest.append((y, x, *cells[at]))
                modes = []
                for values in zip(*members):
                    values = [value for value in values if value is not None]
                    modes.append(min(values, key=lambda value: (-values.count(value), value)) if values else None)
                mode.append((y, x, *modes))
            for method, expected in (("nearest", nearest), ("mode", mode)):
                db.query("DROP TABLE IF EXISTS r")
                db.query(f"SELECT tessera_regrid('db:a{seed}', 'db:r', ?, ?)", (factors, method))
                same(rows_of(db, "SELECT y, x, " + ", ".join(kinds) + " FROM r WHERE b IS NOT NULL"), expected, f"{method} of {seed}")


def test_little_memory_is_enough_for_tiles_of_half_of_it():
    """The tiles take 256 and 512 KB; the parts of the new array are smaller than its tiles, so several fragments meet in one."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(kind=dense, y INT32 DIMENSION(0, 767, 256), x INT32 DIMENSION(0, 767, 256), v FLOAT32, w INT64)")
    db.query("INSERT INTO a WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 589823) SELECT i / 768, i % 768, i % 37, i * 7 FROM c")
    for factors in ('{"y":2,"x":2}', '{"y":3,"x":3}'):
        found = set()
        for memory in (2.5, 3, 4, 1024):
            options = json.dumps({"memory_mb": int(memory), "columns": ["w"]} if memory < 3 else {"memory_mb": memory})
            db.query("DROP TABLE IF EXISTS r")
            db.query("SELECT tessera_regrid('db:a', 'db:r', ?, 'max', ?)", (factors, options))
            found.add(tuple(db.query("SELECT count(*), sum(w), sum(y * x * w) FROM r")))
        same(len(found), 1, factors)
    for memory in (3, 4, 1024):
        db.query("SELECT tessera_make_overviews('db:a', ?)", (json.dumps({"memory_mb": memory, "rebuild": True, "method": "max"}),))
        levels = [tuple(db.query(f"SELECT count(*), sum(v), sum(w), sum(y * x * w) FROM a_overview_{k}")) for k in (1, 2)]
        same(levels[0][0][0], 384 * 384)
        same(levels[1][0][0], 192 * 192)
        same(levels, same_levels if memory > 3 else levels, f"memory_mb {memory}")
        same_levels = levels
    check_contains(db.error("SELECT tessera_regrid('db:a', 'db:s', '{\"y\":2}', 'mean', '{\"memory_mb\":1}')").text, "raise memory_mb")
    db.close()


def test_many_fragments_of_one_tile_are_read_one_after_the_other():
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(kind=dense, y INT32 DIMENSION(0, 255, 256), x INT32 DIMENSION(0, 255, 256), w INT64)")
    for k in range(8):
        db.query("INSERT OR REPLACE INTO a WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 6399) SELECT ? + i / 160, ? + i % 160, ? + i FROM c", (25 * k, 11 * k, 100000 * k))
    whole = db.value("SELECT tessera_npy('db:a', 'w')")
    same(db.value("SELECT tessera_npy('db:a', 'w', NULL, '{\"memory_mb\":1,\"cache_mb\":0}')"), whole)
    expected = rows_of(db, "SELECT y / 2, x / 2, sum(w) FROM a WHERE w IS NOT NULL GROUP BY 1, 2")
    db.query("SELECT tessera_regrid('db:a', 'db:r', '{\"y\":2,\"x\":2}', 'sum', '{\"memory_mb\":3}')")
    same(rows_of(db, "SELECT y, x, w FROM r WHERE w IS NOT NULL"), expected)
    db.close()


def test_threads_and_memory_change_no_bit():
    db = Database()
    fill(db, "a", 11)
    db.query("CREATE VIRTUAL TABLE big USING tessera(kind=dense, y INT32 DIMENSION(0, 1999, 300), x INT32 DIMENSION(0, 999, 128), f FLOAT32)")
    db.query("SELECT tessera_write_npy('db:big', 'f', ?)", (npy(2000, 1000),))
    for name, factors in (("a", '{"y":3,"x":2}'), ("big", '{"y":2,"x":2}'), ("big", '{"y":33,"x":9}')):
        results = set()
        for threads, memory in ((1, 1024), (2, 1024), (16, 1024), (3, 4), (1, 3)):
            db.query("DROP TABLE IF EXISTS r")
            db.query(f"SELECT tessera_regrid('db:{name}', 'db:r', ?, 'mean', ?)", (factors, json.dumps({"threads": threads, "memory_mb": memory, "columns": ["f"]})))
            results.add(tuple(struct.pack("<d", f) for f, in db.query("SELECT f FROM r WHERE f IS NOT NULL ORDER BY y, x")))
        same(len(results), 1, f"{name} {factors}")


def npy(height, width):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({height}, {width}), }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{height * width}f", *(random.Random(k).random() if k % 997 == 0 else k % 1009 / 7 for k in range(height * width)))


def test_directories_metadata_and_the_schema():
    os.chdir(host.FOLDER)
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera('source', kind=dense, t DATETIME_DAY DIMENSION('2020-01-01', '2020-12-31', 30), y DATETIME_DAY DIMENSION('2020-01-01', '2020-01-20', 4), v INT16 FILTERS(delta, zstd(5)), s TEXT, e TEXT ENUM('x', 'y'), k DATETIME_DAY)")
    db.query("INSERT INTO a VALUES ('2020-03-01', '2020-01-03', 7, 'text', 'y', '2021-01-01'), ('2020-03-01', '2020-01-04', 8, 'text', 'x', NULL)")
    db.query("SELECT tessera_set_metadata('source', 'units', 'K')")
    check_contains(db.error("SELECT tessera_regrid('source', 'made', '{\"y\":2}', 'mean')").text, "tessera_regrid: attribute 's' is of variable length, UTF8: it has no mean")
    same(os.path.exists("made"), False, "a failure leaves nothing")
    check_contains(db.error("SELECT tessera_regrid('source', 'made', '{\"y\":2}', 'min', '{\"columns\":[\"e\"]}')").text, "attribute 'e' is enumerated, UINT16: it has no min")
    same(db.value("SELECT tessera_regrid('source', 'made', '{\"y\":2}', 'mean', '{\"columns\":[\"v\"]}')"), 1)
    db.query("CREATE VIRTUAL TABLE m USING tessera('made')")
    same(db.query("SELECT t, y, v FROM m"), [("2020-03-01", "1970-01-02", 7.5)], "a dimension without a factor keeps its coordinates")
    same(db.query("SELECT key, value FROM tessera_metadata('made')"), [("tessera_regrid", '{"from":"source","factors":{"y":2},"method":"mean"}'), ("units", "K")])
    same(db.value("SELECT tessera_regrid('source', 'modes', '{\"y\":4}', 'mode', '{\"columns\":[\"e\",\"k\"]}')"), 1)
    db.query("CREATE VIRTUAL TABLE o USING tessera('modes')")
    same(db.query("SELECT y, e, k FROM o"), [("1970-01-01", "x", "2021-01-01")])


def test_labels_of_dimensions_without_a_factor_stay():
    os.chdir(host.FOLDER)
    db = Database()
    db.query("CREATE VIRTUAL TABLE l USING tessera(kind=dense, t INT32 DIMENSION(0, 7, 4) LABEL day DATE, y INT32 DIMENSION(2, 4, 2) LABEL lat FLOAT64 DECREASING LABEL name TEXT, v FLOAT32)")
    db.query("SELECT tessera_write_label('db:l', 'day', '[\"2024-01-01\",\"2024-01-02\",\"2024-01-05\"]'), tessera_write_label('db:l', 'lat', '[47.5, 47.25]'), tessera_write_label('db:l', 'name', '[\"a\",\"b\",\"c\"]')")
    db.query("INSERT INTO l(t, y, v) VALUES (0, 2, 1), (1, 2, 3), (2, 2, 5), (0, 3, 7), (2, 4, 9)")
    for to, opened in (("db:means", "means"), ("means", "m2")):
        same(db.value(f"SELECT tessera_regrid('db:l', '{to}', '{{\"t\":2}}', 'mean')"), 4)
        if to == "means":
            db.query("CREATE VIRTUAL TABLE m2 USING tessera('means')")
        same(db.query(f"SELECT t, y, lat, name, v FROM {opened} WHERE lat <= 47.5 ORDER BY t, y"), [(0, 2, 47.5, "a", 2.0), (0, 3, 47.25, "b", 7.0), (1, 2, 47.5, "a", 5.0), (1, 3, 47.25, "b", None)], "labels decide what is read")
        same(db.query(f"SELECT y, lat, name FROM {opened} WHERE name = 'c' AND t = 1"), [(4, None, "c")])
        check_contains(db.error(f"SELECT day FROM {opened}").text, "no such column: day")
        same(db.query(f"SELECT * FROM tessera_check('{to}')"), [])
    same(db.value("SELECT tessera_regrid('db:l', 'db:days', '{\"y\":3}', 'max')"), 3)
    same(db.query("SELECT day, v FROM days WHERE day > '2024-01-01' ORDER BY day"), [("2024-01-02", 3.0), ("2024-01-05", 9.0)])
    same(db.value("SELECT tessera_regrid('db:l', 'db:none', '{\"t\":2,\"y\":2}', 'max')"), 3)
    same(db.value("SELECT count(*) FROM tessera_schema('db:none') WHERE role = 'label'"), 0)


def test_what_is_refused():
    db = Database()
    db.query("CREATE VIRTUAL TABLE s USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    db.query("CREATE VIRTUAL TABLE a USING tessera(kind=dense, x INT32 DIMENSION(0, 9, 10), v INT64)")
    db.query("INSERT INTO a VALUES (0, 9223372036854775807), (1, 1)")
    for arguments, message in (("'db:s', 'db:r', '{\"x\":2}', 'mean'", "array db:main.s is sparse: only dense ones have blocks"),
                               ("'db:a', 'db:r', '{\"z\":2}', 'mean'", "the factors: no dimension is called 'z' (it has x)"),
                               ("'db:a', 'db:r', '{\"x\":0}', 'mean'", "the factors: dimension 'x': 0 is below 1"),
                               ("'db:a', 'db:r', '{\"x\":2.5}', 'mean'", "the factors: dimension 'x': expected an integer from 1"),
                               ("'db:a', 'db:r', '{\"x\":2}', 'median'", "no method is called 'median': mean, sum, min, max, count, nearest, mode"),
                               ("'db:a', 'db:r', '{\"x\":2}', 'sum'", "attribute 'v': integer overflow: a block's sum passes 64 bits"),
                               ("'db:a', 'db:r', '{\"x\":2,\"X\":3}', 'sum'", "the factors: dimension 'x' is given twice"), ("'db:a', 'db:r', '{\"x\":2,\"x\":2}', 'sum'", "the factors: dimension 'x' is given twice"), ("'db:a', 'db:r', '{\"x\":2}', 'sum', '{\"columns\":[\"v\",\"V\"]}'", "'columns': attribute 'v' is given twice"),
                               ("'db:a', 'db:r', '{\"x\":2}', 'sum', '{\"column\":1}'", "no option is called 'column': columns is; all are columns, memory_mb, threads"),
                               ("'db:a', 'db:r', '{\"x\":2}', 'sum', '{\"columns\":[\"w\"]}'", "'columns': no attribute is called 'w' (it has v)"),
                               ("'db:a', 'db:r', '{\"x\":2}', 'sum', '{\"columns\":[]}'", "no attribute is left"),
                               ("'db:a', 'db:a', '{\"x\":2}', 'count'", 'table "a" already exists')):
        check_contains(db.error(f"SELECT tessera_regrid({arguments})").text, message)
        same(db.query("SELECT name FROM sqlite_master WHERE name LIKE 'r%'"), [], "a failure leaves nothing")
    same(db.value("SELECT tessera_regrid('db:a', 'db:r', '{\"x\":9223372036854775807}', 'mean')"), 1)
    same(db.query("SELECT * FROM r"), [(0, 2.0**62)], "the mean of integers does not overflow")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
