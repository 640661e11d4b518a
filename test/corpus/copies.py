"""Passes arrays of the corpus through tessera_copy and tessera_sync: rows and metadata must stay
the same, and the export must equal the array byte by byte. One in three of them is also copied with other tiles.
tessera_check must find nothing in the copies. (corpus/create.py tests tessera_ddl.)

usage: copies.py EXTENSION CORPUS [PATTERN]
With a pattern, '' for example, each array is also copied with other tiles. ARRAYS=n in the environment: one array in n.
"""
import json
import os
import shutil
import sqlite3
import sys
import tempfile

import arrays
import read

# Arrays that cannot be copied, and the error.
REFUSED = {"new/labels/": "can only be copied as a directory",
           "new/filter/dims_scale_float_b8": "is outside the domain",  # the filter has moved coordinates out of it
           "nullable_sparse": "its chunks hold",  # TileDB 2.2.2 lost values; errata.md, 32
           "lib2.2.2_d2_nullable": "its chunks hold"}
# Arrays that cannot have other tiles: the domain has one cell, or ends at the datatype's maximum.
NOT_RETILED = {"new/dense/one_cell_domain", "new/dimtype/extreme_hi_dense_int64", "new/dimtype/extreme_hi_dense_uint64"}


def rows_of(db, path, keys, key, unwritten="fill"):
    """Returns all rows; of dense arrays the written cells only."""
    key = f", key_file={read.literal(keys)}" if key else ""
    db.execute("DROP TABLE IF EXISTS t")
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera({read.literal(path)}, {arrays.OPTIONS.replace('unwritten=fill', 'unwritten=' + unwritten)}{key})")
    return sorted(db.execute("SELECT * FROM t WHERE written_at IS NOT NULL").fetchall(), key=repr)


def has_schemas(db):
    """Returns True if the fragments of table t have several schemas: some may lack an attribute then."""
    return db.execute("SELECT count(DISTINCT schema) > 1 FROM tessera_fragments('db:t')").fetchone()[0]


def views(db, path, keys, key, evolved):
    """Returns the rows and the metadata; for an array that has evolved also the rows with NULL for values that were never written."""
    filled = rows_of(db, path, keys, key)
    metadata = db.execute("SELECT * FROM tessera_metadata('db:t')").fetchall()
    return filled, rows_of(db, path, keys, key, "null") if evolved else None, metadata


def difference(what, before, after):
    if after == before:
        return None
    return f"{what}: {len(after[0])} rows, expected {len(before[0])}: {str(after)[:300]} instead of {str(before)[:300]}"


def files_of(root):
    """Returns every file of the array. Names that begin with '.' do not belong to it."""
    found = {}
    for folder, directories, files in os.walk(root):
        directories[:] = [d for d in directories if not d.startswith(".")]
        for name in files:
            if not name.startswith("."):
                with open(os.path.join(folder, name), "rb") as f:
                    found[os.path.relpath(os.path.join(folder, name), root)] = f.read()
    return found


def check_database(db, path, keys, key, before, copy):
    """Imports the array into the database and exports it again."""
    db.execute("SELECT tessera_sync(?, 'db:inside')", (path,)).fetchall()
    if key:
        db.execute("SELECT tessera_set_key('db:inside', ?)", (key.encode(),)).fetchall()
    filled = sorted(db.execute("SELECT * FROM inside WHERE written_at IS NOT NULL").fetchall(), key=repr)
    count, = db.execute("SELECT tessera_sync('db:inside', ?) ->> 'copied'", (copy,)).fetchone()
    db.execute("DROP TABLE inside")
    after = views(db, copy, keys, key, before[1] is not None)
    if len(filled) != len(before[0]):
        return f"imported: {len(filled)} rows, expected {len(before[0])}"
    if files_of(copy) != files_of(path) or count != len(files_of(copy)):
        return "exported: the files differ"
    shutil.rmtree(copy)
    return difference("imported and exported", before, after)


def retiled(description):
    """Returns options for other tiles: another first extent for dense arrays, another capacity for sparse ones."""
    first = description["dims"][0]
    if description["array_type"] != "dense":
        return {"capacity": 7, "duplicates": True}
    return {"extents": {first["name"]: 3}} if first["name"] else {}


def check_copy(db, path, keys, key, before, copy, options, checked):
    cells, = db.execute("SELECT tessera_copy(?, ?, ?)", (path, copy, json.dumps(options))).fetchone()
    after = views(db, copy, keys, key, before[1] is not None)
    faults = db.execute("SELECT * FROM tessera_check(?1) WHERE array_key IS ?2", (copy, key)).fetchall() if checked else []
    shutil.rmtree(copy)
    if cells != len(before[0]):
        return f"{options}: {cells} cells, expected {len(before[0])}"
    return difference(str(options), before, after) or (f"{options}: the check: {faults}" if faults else None)


def check(db, name, path, description, keys, copy, more):
    """Returns (problem or None, a word for what was done)."""
    key = description.get("encryption_key")
    if key:
        with open(keys, "w", encoding="utf-8") as f:
            f.write(key)
        for place in (path, copy):
            db.execute("SELECT tessera_set_key(?, ?)", (place, key.encode())).fetchall()
    refused = [text for part, text in REFUSED.items() if part in name]
    try:
        rows_of(db, path, keys, key)
        before = views(db, path, keys, key, has_schemas(db))
        wrong = check_copy(db, path, keys, key, before, copy, {}, more)
    except sqlite3.Error as error:
        if not refused or refused[0] not in str(error):
            return repr(error), ""
        return "something is left" if os.path.exists(copy) else None, "refused: " + refused[0]
    wrong = wrong or check_database(db, path, keys, key, before, copy)
    if wrong or not more:
        return wrong, "copied"
    try:
        return check_copy(db, path, keys, key, before, copy, retiled(description), True), "copied and retiled"
    except sqlite3.Error as error:
        return None if name in NOT_RETILED else repr(error), "copied, not retiled"


def main():
    extension, corpus = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else None
    failed, results = 0, {}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of small files, each of which is synced
    with tempfile.TemporaryDirectory(dir=memory) as place:
        found = [item for item in arrays.find(corpus, pattern or "") if not read.uses_webp(item[2]) and arrays.sampled(item[0])]
        for number, (name, directory, description) in enumerate(found):
            db = arrays.connect(extension, None)
            copy = os.path.join(place, "copy")
            try:
                wrong, result = check(db, name, directory, description, os.path.join(place, "key"), copy, pattern is not None or number % 3 == 0)
            except (sqlite3.Error, MemoryError) as error:
                wrong, result = repr(error), ""
            results[result] = results.get(result, 0) + 1
            if wrong:
                print(f"{name}: {wrong}")
            failed += bool(wrong)
            db.close()
            shutil.rmtree(copy, ignore_errors=True)
    print(f"{sum(results.values())} arrays, {failed} wrong: " + ", ".join(f"{n} {r}" for r, n in sorted(results.items())))
    sys.exit(1 if failed or not results.get("copied and retiled") else 0)


main()
