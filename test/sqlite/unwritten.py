"""tessera_gaps: its boxes are exactly the cells that no commit has written, for random dense arrays, slices, orders,
times and merges; its intervals are those of a set of coordinates; no tile is read for them.

usage: unwritten.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import itertools
import json
import os
import random
import re
import sys
import tempfile

import host
from host import Database, check_contains, corpus, same

SEED = int(os.environ.get("SEED", 20261128))
LOW, SIZES = (-3, 10, 0), (9, 11, 4)


def make(rng, dimensions, where):
    """Makes table t, and returns the set of cells written so far at each time: [(time, cells)]."""
    db = Database()
    names = "abc"[:dimensions]
    columns = ", ".join(f"{n} INT32 DIMENSION({LOW[d]}, {LOW[d] + SIZES[d] - 1}, {rng.randint(1, SIZES[d])})" for d, n in enumerate(names))
    order = ", cell_order=col, tile_order=col" if rng.random() < 0.5 else ""
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({where}kind=dense, {columns}, v INT32{order})")
    written, states = set(), []
    for number in range(rng.randint(0, 6)):
        ends = []
        for d in range(dimensions):
            low = rng.randrange(SIZES[d])
            ends.append(range(LOW[d] + low, LOW[d] + min(SIZES[d], low + rng.randint(1, 4))))
        cells = [c for c in itertools.product(*ends) if rng.random() < rng.choice([0.5, 1])]
        for cell in cells:   # one commit each, or all in one
            db.query("INSERT OR REPLACE INTO t VALUES(" + "?, " * dimensions + "?)", (*cell, rng.choice([None, number]))) if len(cells) < 4 else None
        if len(cells) >= 4:
            db.query("BEGIN")
            for cell in cells:
                db.query("INSERT OR REPLACE INTO t VALUES(" + "?, " * dimensions + "NULL)", cell)
            db.query("COMMIT")
        written |= set(cells)
        if cells:
            states.append((db.value("SELECT max(end_time) FROM tessera_fragments('db:t')"), set(written)))
    if rng.random() < 0.4:
        db.query("SELECT tessera_consolidate('db:t')")
        states = states[-1:]
    return db, names, states


def cells_of(box, names):
    box = json.loads(box)
    return set(itertools.product(*(range(box[n][0], box[n][1] + 1) for n in names)))


def forms_box(a, b, names):
    """Whether the union of two disjoint boxes is a box."""
    a, b = json.loads(a), json.loads(b)
    differ = [n for n in names if a[n] != b[n]]
    return len(differ) == 1 and (a[differ[0]][1] + 1 == b[differ[0]][0] or b[differ[0]][1] + 1 == a[differ[0]][0])


def intervals(values):
    out = []
    for value in sorted(values):
        if out and out[-1][1] + 1 == value:
            out[-1][1] = value
        else:
            out.append([value, value])
    return [tuple(i) for i in out]


def ask(rng, db, names, written, as_of=None):
    n = len(names)
    ends = [sorted(rng.choices(range(LOW[d] - 1, LOW[d] + SIZES[d] + 1), k=2)) for d in range(n)]
    given = {name: ends[d] for d, name in enumerate(names) if rng.random() < 0.6}
    inside = set(itertools.product(*(range(max(LOW[d], given[name][0]), min(LOW[d] + SIZES[d] - 1, given[name][1]) + 1) if name in given
                                     else range(LOW[d], LOW[d] + SIZES[d]) for d, name in enumerate(names))))
    piece = json.dumps(given) if given else None
    rows = db.query("SELECT low, high, box, cells FROM tessera_gaps('db:t', ?) WHERE as_of IS ?", (piece, as_of))
    found = [cells_of(box, names) for _, _, box, _ in rows]
    same([(low, high, count) for low, high, _, count in rows], [(None, None, len(f)) for f in found], "columns of boxes")
    same(sum(map(len, found)), len(set().union(*found)) if found else 0, "disjoint")
    same(set().union(*found) if found else set(), inside - written, f"gaps of {piece}")
    assert not any(forms_box(a[2], b[2], names) for a, b in itertools.combinations(rows, 2)), rows
    for d, name in enumerate(names):
        expected = intervals({c[d] for c in inside} - {c[d] for c in inside & written})
        got = db.query("SELECT low, high, cells, box FROM tessera_gaps('db:t', ?, ?) WHERE as_of IS ?", (piece, name, as_of))
        same([r[:2] for r in got], expected, f"gaps of {piece} by {name}")
        width = len({c[:d] + c[d + 1:] for c in inside})
        same([r[2:] for r in got], [((high - low + 1) * width, None) for low, high in expected], "cells by")


def test_gaps_are_the_cells_that_were_never_written():
    rng = random.Random(SEED)
    for number in range(host.rounds(30)):
        where = host.literal(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")) + ", " if number % 2 else ""
        db, names, states = make(rng, number % 3 + 1, where)
        for _ in range(4):
            ask(rng, db, names, states[-1][1] if states else set())
        for time, written in states:
            ask(rng, db, names, written, time)
        db.close()


def test_thousand_boxes_without_a_tile():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT64 DIMENSION(0, 999999, 10), x INT64 DIMENSION(0, 999999, 10), v INT32)")
    db.query("BEGIN")
    db.query("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) INSERT INTO t SELECT i * 1000 + i % 7, i * 1000 + 1, i FROM n")
    db.query("COMMIT")
    db.query("SELECT tessera_reset_stats()")
    same(db.value("SELECT sum(cells) FROM tessera_gaps('db:t')"), 10**12 - 1000)
    same(db.query("SELECT count(*), sum(high - low + 1) FROM tessera_gaps('db:t', NULL, 'x')"), [(1001, 10**6 - 1000)])
    same(db.value("SELECT value FROM tessera_stats WHERE name = 'tiles_read'"), 0, "tiles read")


def test_ends_that_slices_leave_open():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, day DATETIME_DAY DIMENSION('2020-01-01', '2020-12-31', 30), v INT32)")
    same(db.query("SELECT box, cells FROM tessera_gaps('db:t', '{\"day\":[null,null]}')"), [], "nothing written: nothing in between")
    for day in ("2020-02-01", "2020-02-05"):
        db.query("INSERT INTO t VALUES(?, 1)", (day,))
    same(db.query("SELECT low, high, cells FROM tessera_gaps('db:t', '{\"day\":[null,null]}', 'day')"), [("2020-02-02", "2020-02-04", 3)])
    same(db.query("SELECT box FROM tessera_gaps('db:t', '{\"day\":[\"2020-02-03\",null]}')"), [('{"day":["2020-02-03","2020-02-04"]}',)])
    same([r[0] for r in db.query("SELECT low FROM tessera_gaps('db:t', NULL, 'DAY')")], ["2020-01-01", "2020-02-02", "2020-02-06"])
    same(db.query("SELECT * FROM tessera_gaps('db:t', '{\"day\":[]}')"), [])


def test_sizes_beyond_integers():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y UINT64 DIMENSION(0, 18446744073709550000, 1000), v INT32)")
    same(db.query("SELECT box, cells FROM tessera_gaps('db:t')"), [('{"y":[0,"18446744073709550000"]}', None)])


def test_gaps_beside_sparse_fragments():
    """Up to format version 10 a dense array may have sparse fragments, whose single cells count as written; before version 5 one file has the coordinates of all dimensions."""
    arrays = ["old/sparse_in_dense/" + n for n in ("lib1.6_d1_alternating", "lib1.6_d3", "lib2.0_d2_row_col", "lib2.4_d2_col_row")]
    for name in arrays + ["mixed/lib1.6_sparse_in_dense", "mixed/lib2.2.9_sparse_in_dense"]:
        db = Database()
        db.table("t", corpus(name))
        declared = re.findall(r"(\w+) INT\w+ DIMENSION\((-?\d+), (-?\d+)", db.value("SELECT tessera_ddl(?)", (corpus(name),)))
        names = [d for d, _, _ in declared]
        written = set(db.query(f"SELECT {', '.join(names)} FROM t WHERE written_at IS NOT NULL"))
        every = set(itertools.product(*(range(int(low), int(high) + 1) for _, low, high in declared)))
        boxes = db.query("SELECT box, cells FROM tessera_gaps(?)", (corpus(name),))
        found = [cell for box, _ in boxes for cell in cells_of(box, names)]
        same(sorted(found), sorted(every - written), name)
        same(sum(cells for _, cells in boxes), len(found), name)
        assert 0 < len(found) < len(every), f"{name}: {len(found)} of {len(every)} cells"
        db.close()


def test_refusals():
    db = Database()
    db.query("CREATE VIRTUAL TABLE s USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    check_contains(db.error("SELECT * FROM tessera_gaps('db:s')").text, "tessera_gaps: db:s is sparse, where")
    check_contains(db.error("SELECT * FROM tessera_gaps('db:s')").text, "SELECT DISTINCT \"x\" FROM s")
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, x INT32 DIMENSION(0, 9, 5), v INT32)")
    check_contains(db.error("SELECT * FROM tessera_gaps('db:t', NULL, 'v')").text, "tessera_gaps: the array has no dimension 'v'")
    check_contains(db.error("SELECT * FROM tessera_gaps('db:t', '{\"z\":1}')").text, "tessera_gaps: the array has no dimension 'z'")
    same(db.query("SELECT * FROM tessera_gaps(NULL)"), [])


if __name__ == "__main__":
    host.main(sys.modules[__name__])
