"""Consolidates and vacuums a copy of every array of the corpus that has several fragments. After the consolidation
every range of times must read as before. After the vacuum the same holds, except for times within merged fragments that
have no times of cells.

usage: consolidate.py EXTENSION CORPUS [PATTERN]
Without a pattern one array in three is taken; with '' all are.
"""
import itertools
import os
import random
import shutil
import sqlite3
import sys
import tempfile

import arrays
import read

MOST_TIMES = 3  # of more times a sample is taken


def fragments(db):
    """Returns {name: (start, end)} of the visible fragments."""
    rows = db.execute("SELECT name, start_time, end_time FROM tessera_fragments('db:t')").fetchall()
    return {name.decode(): (start, end) for name, start, end in rows}


def rows_at(db, directory, description, keys, span):
    """Returns all rows without rowids, or the error."""
    try:
        read.open_table(db, directory, description, span[0], span[1], keys, False)
        return sorted(db.execute("SELECT * FROM t").fetchall(), key=repr)
    except sqlite3.Error as error:
        return str(error).replace(directory, "")


def times_of(seen, chance):
    times = sorted({t for span in seen.values() for t in span})
    if len(times) > MOST_TIMES:
        times = [times[0], *sorted(chance.sample(times[1:-1], MOST_TIMES - 2)), times[-1]]
    near = sorted({max(t + d, 0) for t in times for d in (-1, 0)})
    spans = [(None, None)] + [(None, t) for t in near]
    spans += [(a, b) for a, b in itertools.combinations(times, 2)] + [(t, None) for t in near]
    return spans


def inside(span, merged):
    """Returns True if a range of times cuts one of these ranges."""
    low, high = span[0] or 0, span[1] if span[1] is not None else 2**63 - 1
    return any((a < low or b > high) and a <= high and b >= low for a, b in merged)


def untimed(directory, description):
    """Returns the time ranges of merged fragments without times of cells."""
    names = [n for place in (directory, directory + "/__fragments") if os.path.isdir(place) for n in os.listdir(place)]
    parts = [n.split("_")[2:] for n in names if n.startswith("__") and "." not in n]
    parts = [p for p in parts if len(p) >= 3 and p[0].isdigit() and p[1].isdigit()]
    dense = description["array_type"] == "dense"
    return [(int(p[0]), int(p[1])) for p in parts if p[0] != p[1] and (dense or len(p) < 4 or int(p[3]) < 15)]


def faults_of(db, directory, description):
    rows = db.execute("SELECT * FROM tessera_check(?1) WHERE array_key = ?2", (directory, description.get("encryption_key"))).fetchall()
    return {row for row in rows if row[0] != b"note"}


def check(db, directory, description, keys, chance):
    read.open_table(db, directory, description, None, None, keys, False)
    before = fragments(db)
    if len(before) < 2:
        return None, "alone"
    spans = times_of(before, chance)
    faults = faults_of(db, directory, description)
    expected = {span: rows_at(db, directory, description, keys, span) for span in spans}
    read.open_table(db, directory, description, None, None, keys, False)
    try:
        merged = db.execute("SELECT tessera_consolidate('db:t')").fetchone()[0]
    except sqlite3.Error as error:
        return None, f"refused: {error}".split(": ")[-1]
    after = fragments(db)

    def compare(when, spared):
        for span in spans:
            found = rows_at(db, directory, description, keys, span)
            if found != expected[span] and not (spared and inside(span, made)):
                return f"{when}, since and as of {span}: {len(found)} rows {str(found)[:300]}, expected {len(expected[span])} {str(expected[span])[:300]}"
        return None

    new = set(after) - set(before)
    made = untimed(directory, description)
    if bool(merged) != bool(new):
        return f"{merged} merged, {len(new)} new fragments", ""
    wrong = compare("consolidated", False)
    for what in ("commits", "fragment_meta", "array_meta"):
        read.open_table(db, directory, description, None, None, keys, False)
        try:
            db.execute("SELECT tessera_consolidate('db:t', ?)", (what,))
        except sqlite3.Error as error:
            if "no consolidated commits" not in str(error):
                return f"{what}: {error}", ""
        wrong = wrong or compare(f"{what} consolidated", False)
    read.open_table(db, directory, description, None, None, keys, False)
    db.execute("SELECT tessera_vacuum('db:t')")
    wrong = wrong or compare("vacuumed", True)
    found = faults_of(db, directory, description)
    if not wrong and found - faults:
        wrong = f"the check: {found - faults}"
    return wrong, f"{len(before)} to {len(after)}" if merged else "as it was"


def main():
    extension, corpus = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else None
    failed, results, chance = 0, {}, random.Random(1)
    with tempfile.TemporaryDirectory() as place:
        several = [item for item in arrays.find(corpus, pattern or "") if item[2].get("fragments", 2) > 1 and not read.uses_webp(item[2])
                   and arrays.sampled(item[0])]
        for name, directory, description in several:
            db = arrays.connect(extension, None)
            copy = os.path.join(place, "copy")
            shutil.copytree(directory, copy)
            try:
                wrong, result = check(db, copy, description, place, chance)
            except sqlite3.Error as error:
                wrong, result = f"{error}", ""
            results[result] = results.get(result, 0) + 1
            if pattern:
                print(f"{name}: {result}")
            if wrong:
                failed += 1
                print(f"{name}: {wrong}")
            db.close()
            shutil.rmtree(copy)
    print(f"{sum(results.values())} arrays, {failed} wrong: " + ", ".join(f"{n} {r}" for r, n in sorted(results.items())))
    sys.exit(1 if failed else 0)


main()
