"""Copies arrays of the corpus with tessera_copy, as they are and with other tiles: the same rows come out, the same metadata, and
tessera_check finds nothing.

usage: copies.py EXTENSION CORPUS [PATTERN]
Without a pattern one array in five is taken; with '' all are.
"""
import json
import os
import shutil
import sqlite3
import sys
import tempfile

import arrays
import read


def rows_of(db, directory, description, keys):
    """All rows; of dense arrays only what was written."""
    read.open_table(db, directory, description, None, None, keys, False)
    return sorted(db.execute("SELECT * FROM t WHERE written_at IS NOT NULL").fetchall(), key=repr)


def options_of(description):
    """Other tiles: of dense arrays the first extent changes, of sparse ones the capacity."""
    first = description["dims"][0]
    if description["array_type"] == "sparse":
        return {"capacity": 7, "duplicates": True}
    return {"extents": {first["name"]: 3}} if first["name"] else {}


def check(db, directory, description, keys, copy):
    key = description.get("encryption_key")
    before = rows_of(db, directory, description, keys)
    metadata = db.execute("SELECT * FROM tessera_metadata('db:t')").fetchall()
    for options in ({}, options_of(description)):
        try:
            cells = db.execute("SELECT tessera_copy('db:t', ?, ?)", (copy, json.dumps(options))).fetchone()[0]
        except sqlite3.Error as error:
            if os.path.exists(copy):
                return f"{options}: {error}, and something is left", ""
            if options:
                return None, "not retiled: " + str(error).split(": ")[-1]
            return None, "refused: " + str(error).split(": ")[-1]
        after = rows_of(db, copy, description, keys)
        if cells != len(before) or after != before:
            return f"{options}: {cells} cells, {len(after)} rows {str(after)[:300]}, expected {len(before)} {str(before)[:300]}", ""
        if db.execute("SELECT * FROM tessera_metadata('db:t')").fetchall() != metadata:
            return "metadata differ", ""
        faults = db.execute("SELECT * FROM tessera_check(?1) WHERE key = ?2", (copy, key)).fetchall()
        if faults:
            return f"{options}: the check: {faults}", ""
        read.open_table(db, directory, description, None, None, keys, False)
        shutil.rmtree(copy)
    return None, "copied"


def main():
    extension, corpus = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else None
    failed, results = 0, {}
    with tempfile.TemporaryDirectory() as place:
        found = [item for item in arrays.find(corpus, pattern or "") if not read.uses_webp(item[2])]
        for name, directory, description in found[::5] if pattern is None else found:
            db = arrays.connect(extension, None)
            copy = os.path.join(place, "copy")
            try:
                wrong, result = check(db, directory, description, place, copy)
            except (sqlite3.Error, MemoryError) as error:
                wrong, result = repr(error), ""
            results[result] = results.get(result, 0) + 1
            if wrong or result != "copied":
                print(f"{name}: {wrong or result}")
            failed += bool(wrong)
            db.close()
            shutil.rmtree(copy, ignore_errors=True)
    print(f"{sum(results.values())} arrays, {failed} wrong: " + ", ".join(f"{n} {r}" for r, n in sorted(results.items())))
    sys.exit(1 if failed or not results.get("copied") else 0)


main()
