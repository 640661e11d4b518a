"""TileDB reads the histories that libtessera writes: commits that delete, replace and add cells of sparse arrays, and
write cells in any shape in dense ones. Both read each state, at the present and at its own time.

usage: history.py LIBRARY [COUNT [FIRST]]
"""
import os
import random
import sys

import numpy as np

import generate
from cases import Cases
from tessera_c import NUMPY, Refused, Remote
from tiledb_c import TileDB, library
from write import compare_dense, coordinates, fields_of, pack_rows, read_rows, same_rows

MOST_CELLS = 4000  # of a sparse array in this test


def rows_at(tiledb, path, s, time):
    result = tiledb.read(path, s, MOST_CELLS, times=(0, time))
    columns = [generate.unpacked(f, result[f["name"]]) for f in fields_of(s)]
    return list(zip(*columns))


# ---- Sparse

def plain_zero(row, s):
    """-0.0 and 0.0 are one coordinate."""
    return tuple(np.array(np.frombuffer(c, NUMPY[d["type"]])[0] + 0).tobytes() if NUMPY.get(d["type"], "").startswith("f") else c
                 for c, d in zip(row, s["dims"]))


def choose_removed(r, s, rows):
    """Chooses some rows, none or all; rows with equal coordinates mostly together (in arrays with duplicates)."""
    share = r.choice([0, 0.02, 0.3, 0.7, 1])
    side = r.randrange(len(s["dims"]))
    if rows and r.random() < 0.4:  # rows that form a range or a slice
        ends = sorted([r.choice(rows)[2][side], r.choice(rows)[2][side]])
        chosen = [row for row in rows if ends[0] <= row[2][side] <= ends[1]]
    else:
        chosen = [row for row in rows if r.random() < share]
    if s["duplicates"] and r.random() < 0.8:
        places = {plain_zero(row[2], s) for row in chosen}
        chosen = [row for row in rows if plain_zero(row[2], s) in places]
    r.shuffle(chosen)
    return chosen


def new_rows(r, s, removed):
    rows = generate.sparse_cells(r, s, r.choice([0, 1, 20, 150])) or []
    n = len(s["dims"])
    moved = [row[2] for row in removed if r.random() < 0.3]
    fresh = generate.sparse_cells(r, s, len(moved)) if moved else []
    return rows + [old[:n] + new[n:] for old, new in zip(moved, fresh)]


def run_sparse(r, s, tessera, tiledb, path):
    n, states, rows = len(s["dims"]), [], []
    for i in range(r.choice([2, 3, 5])):
        time = 10 * (i + 1)
        before = tessera.read(path, s)
        removed = choose_removed(r, s, before) if i else []
        added = new_rows(r, s, removed)
        if i == 0 and not added:
            added = generate.sparse_cells(r, s, 200)
        gone = {row[0] for row in removed}
        places = {plain_zero(row[2], s) for row in removed}
        kept = [row[2] for row in before if row[0] not in gone]
        packed = [row[0] for row in removed], {d["name"]: generate.packed(d, [row[2][k] for row in removed]) for k, d in enumerate(s["dims"])}
        try:
            tessera.change(path, s, packed if removed else None, pack_rows(s, added), len(added), time=time)
        except Refused as e:
            if s["duplicates"] and "another one has the same" in str(e) and any(plain_zero(row, s) in places for row in kept):
                continue
            return f"refused: {e}"
        if s["duplicates"]:
            if any(plain_zero(row, s) in places for row in kept):
                return "a duplicate that was not chosen is deleted"
            rows = kept + added
        else:
            rows = list({plain_zero(row, s): row for row in kept + added}.values())
        states.append((time + 1, rows))
        wrong = wrong_now(tessera, tiledb, path, s, rows)
        if wrong:
            return f"commit {i}, {len(removed)} of {len(before)} removed, {len(added)} added: {wrong}"
    for time, rows in states:
        wrong = same_rows(rows, rows_at(tiledb, path, s, time)) or same_rows(rows, [row[2] for row in tessera.read(path, s, as_of=time)])
        if wrong:
            return f"at time {time}: {wrong}"
    return None


def wrong_now(tessera, tiledb, path, s, rows):
    found = read_rows(tiledb, path, s)
    wrong = found if isinstance(found, str) else same_rows(rows, found)
    if wrong:
        return wrong
    wrong = same_rows(rows, [row[2] for row in tessera.read(path, s)])
    return wrong and "our own reader: " + wrong


# ---- Dense

def points_of(r, s):
    """Returns the points of one box, of several boxes, of single cells, or of a box with holes."""
    points = set()
    for _ in range(r.choice([1, 1, 2, 4])):
        ends = generate.box(r, s)
        share = r.choice([1, 1, 0.97, 0.1])
        points |= {p for p in coordinates(ends) if r.random() < share}
    return points if len(points) < 1500 else set(r.sample(sorted(points), 1500))


def run_dense(r, s, tessera, tiledb, path):
    state, states = {}, []
    for i in range(r.choice([1, 2, 3, 5])):
        points = list(points_of(r, s)) or [tuple(d["domain"][0] for d in s["dims"])]
        r.shuffle(points)
        cells = [generate.column(r, f, len(points)) for f in s["attrs"]]
        columns = {f["name"]: generate.packed(f, c) for f, c in zip(s["attrs"], cells)}
        for k, d in enumerate(s["dims"]):
            columns[d["name"]] = np.array([p[k] for p in points], NUMPY[d["type"]]).tobytes(), None, None
        try:
            tessera.change(path, s, None, columns, len(points), time=10 * (i + 1), threads=r.choice([1, 2]))
        except Refused as e:
            if "separate boxes" in str(e):
                continue
            return f"refused: {e}"
        state.update(zip(points, zip(*cells)))
        states.append((10 * (i + 1), dict(state)))
        wrong = compare_dense(tiledb, path, s, [d["domain"] for d in s["dims"]], state) or wrong_dense(tessera, path, s, state)
        if wrong:
            return f"commit {i}: {wrong}"
    return next((wrong for wrong in (wrong_dense(tessera, path, s, then, time) for time, then in states) if wrong), None)


def wrong_dense(tessera, path, s, state, time=2**64 - 1):
    n, met = len(s["dims"]), 0
    for _, written, row in tessera.read(path, s, as_of=time):
        point = tuple(int(np.frombuffer(c, NUMPY[d["type"]])[0]) for c, d in zip(row, s["dims"]))
        if written != (point in state) or written and state[point] != row[n:]:
            return f"our own reader: point {point}: expected {state.get(point)}, found {row[n:] if written else None}"
        met += written
    return None if met == len(state) else f"our own reader: {met} cells of {len(state)}"


# ---- Running the cases

class Wrong(Exception):
    pass


def one(folder, seed, tessera, path):
    r = random.Random(seed)
    s = generate.schema(r)
    if not s["dense"]:
        s["version"] = r.choice([22] * 4 + list(range(16, 22)))
    tiledb, array = TileDB(path, s["key"]), os.path.join(folder, "array")
    try:
        tessera.create(array, s)
    except Refused as e:
        if "tsr_array_create" not in str(e):
            raise
        return {"refused": 1}
    wrong = (run_dense if s["dense"] else run_sparse)(r, s, tessera, tiledb, array)
    if wrong:
        raise Wrong(wrong)
    return {}


def main():
    tessera_library, count, first = sys.argv[1], int((sys.argv + [0, 100])[2] or 100), int((sys.argv + [0, 0, 1])[3] if len(sys.argv) > 3 else 1)
    path = library()
    if not path:
        print("SKIPPED: the package `tiledb` is not installed")
        return 77
    tessera = Remote(tessera_library)
    tests = Cases("history", tessera.restart)
    for seed in range(first, first + count):
        tests.run(f"seed {seed}", one, seed, tessera, path)
    return tests.end(f"{tests.tally['refused']} schemas refused")


if __name__ == "__main__":
    sys.exit(main())
