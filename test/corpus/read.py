"""Reads every array of the corpus at every time that its description has, and compares every cell. With --database each
array is first brought into the database by tessera_sync and read from there.

usage: read.py [--database] EXTENSION CORPUS [PATTERN]
"""
import hashlib
import os
import random
import re
import sys
import tempfile

import arrays


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def import_table(db, directory, options):
    """An imported table has default options; other options are written into the text of its schema."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'kept'").fetchone():
        db.execute("SELECT tessera_sync(?, 'db:kept')", (directory,)).fetchall()
        db.execute("CREATE TABLE usual AS SELECT sql FROM sqlite_schema WHERE name = 'kept'")
        db.commit()
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = replace((SELECT sql FROM usual), 'USING tessera(', 'USING tessera(' || ? || ', ') "
               "WHERE name = 'kept'", (options,))
    db.commit()
    db.execute("PRAGMA writable_schema = RESET")


def open_table(db, directory, description, start, end, keys, inside):
    options = arrays.OPTIONS
    if start:
        options += f", since={start}"
    if end is not None:
        options += f", as_of={end}"
    key = description.get("encryption_key")
    if key:
        path = os.path.join(keys, "key")
        with open(path, "wb") as f:
            f.write(key.encode())
        options += f", key_file={literal(path)}"
        if inside:
            db.execute("SELECT tessera_set_key(?, ?)", (directory, key.encode())).fetchall()
    if inside:
        import_table(db, directory, options)
        return "kept"
    db.execute("DROP TABLE IF EXISTS t")
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera({literal(directory)}, {options})")
    return "t"


def column_names(description_columns, dims):
    """Returns the SQL names of these columns: anonymous fields are numbered, names that collide (ignoring case) get _2."""
    names, seen = [], set()
    for i, name in enumerate(description_columns):
        sql = name or (f"dim{i}" if i < dims else f"attr{i - dims}")
        base, n = sql, 2
        while sql.lower() in seen:
            sql, n = f"{base}_{n}", n + 1
        seen.add(sql.lower())
        names.append(sql)
    return names


def field_of(description, name, position, dims, declared):
    """Returns the description of a column. An attribute that was dropped later has no description; all such attributes are plain ones."""
    for field in description["dims"] if position < dims else description["attrs"]:
        if field["name"] == name:
            return dict(field, cell_val_num=1) if position < dims else field
    return {"name": name, "type": {"INTEGER": "INT64", "REAL": "FLOAT64", "TEXT": "STRING_UTF8"}[declared], "cell_val_num": 1}


def check_read(db, directory, description, read, keys, inside):
    """Returns None, or the problem."""
    start, end = read["timestamp"] or (0, None)
    table = open_table(db, directory, description, start, end, keys, inside)
    dims = len(description["dims"])
    columns = read["columns"]
    shown = [(row[1].decode(), row[2].decode()) for row in db.execute(f"PRAGMA table_info({table})")]
    wanted = column_names(columns, dims)
    if [name for name, _ in shown] != wanted:
        return f"columns {[name for name, _ in shown]}, expected {wanted}"
    fields = [field_of(description, name, i, dims, shown[i][1]) for i, name in enumerate(columns)]
    rows = [tuple(arrays.actual(v, f) for v, f in zip(row, fields)) for row in db.execute(f"SELECT * FROM {table}")]
    rows.sort(key=lambda row: arrays.order(row, dims))
    if len(rows) != read["count"]:
        return f"{len(rows)} rows, expected {read['count']}"
    if "cells" in read:
        cells = [tuple(arrays.expected(v, f) for v, f in zip(row, fields)) for row in read["cells"]]
        cells.sort(key=lambda row: arrays.order(row, dims))
        for got, want in zip(rows, cells):
            if got != want:
                return f"row {got}, expected {want}"
        return None
    digest = hashlib.sha256()
    for row in rows:
        digest.update(b",".join(arrays.canonical(v, f) for v, f in zip(row, fields)) + b"\n")
    return None if digest.hexdigest() == read["sha256"] else "the contents' digest differs"


def uses_webp(description):
    """Arrays with the filter WebP must be refused with an error that names it."""
    return any(f["filter"] == "webp" for a in description["attrs"] for f in a["filters"]["list"])


def askable(name, description, but=None):
    """Whether generated queries can be answered: TileDB reads the array, too, and its name has no `but`. (With scale_float on dimensions, named
    dims_scale_float, TileDB moves coordinates out of the domain: there a query of the whole domain finds fewer cells than a scan.)"""
    return not (uses_webp(description) or any("error" in r for r in description["reads"]) or (but and but in name))


def questions(count, but=None):
    """For tests with the arguments EXTENSION CORPUS [COUNT [SEED [PATTERN]]] that run generated queries on every array that TileDB can read, except those with
    `but` in their names: (name, the arguments of the check: db, directory, description, count, random, directory for keys)."""
    extension, corpus = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else count
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    pattern = sys.argv[5] if len(sys.argv) > 5 else ""
    with tempfile.TemporaryDirectory() as keys:
        for name, directory, description in arrays.find(corpus, pattern):
            if not askable(name, description, but) or not arrays.sampled(name):
                continue
            db = arrays.connect(extension)
            yield name, (db, directory, description, count, random.Random(f"{seed} {name}"), keys)
            db.close()


def splits_a_merge(directory, timestamp):
    """Returns True if a read between these times sees a part of a merged fragment's time range. TileDB then shows none of a dense fragment's cells;
    tessera says that they are lost, if the sources are vacuumed."""
    start, end = timestamp or (0, None)
    names = [name for place in ("", "__fragments") if os.path.isdir(os.path.join(directory, place)) for name in os.listdir(os.path.join(directory, place))]
    for low, high in (map(int, found.groups()) for found in map(re.compile(r"__(\d+)_(\d+)_").match, names) if found):
        if low < high and end is not None and low <= end and high >= start and not start <= low <= high <= end:
            return True
    return False


def wrong_with(error, directory, description, timestamp):
    """What is wrong with a read that failed; None if it is right to fail: webp is not built in everywhere, and a past may be lost."""
    expected = uses_webp(description) and "webp" in str(error).lower() or "is lost" in str(error) and splits_a_merge(directory, timestamp)
    return None if expected else f"{type(error).__name__}: {error}"


def main():
    inside = "--database" in sys.argv
    extension, corpus, pattern = ([a for a in sys.argv[1:] if a != "--database"] + [""])[:3]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as keys:
        for name, directory, description in arrays.find(corpus, pattern):
            if not arrays.sampled(name):
                continue
            db = arrays.connect(extension)
            for read in description["reads"]:
                try:
                    wrong = check_read(db, directory, description, read, keys, inside)
                except Exception as e:  # after any error the next array is tried
                    wrong = wrong_with(e, directory, description, read["timestamp"])
                if "error" in read:
                    continue  # TileDB itself cannot read the array: it only must not crash
                if wrong:
                    failed += 1
                    print(f"FAIL {name} at {read['timestamp']}: {wrong[:400]}")
                else:
                    passed += 1
            db.close()
    print(f"corpus: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
