"""Creates, for every array of the corpus, an array from the statement that tessera_ddl gives. The statement and the
schema of the new array must equal those of the old one.

usage: create.py EXTENSION CORPUS [PATTERN]
"""
import os
import shutil
import sqlite3
import sys
import tempfile

import arrays
from read import uses_webp

def literal(text):
    return "'" + text.replace("'", "''") + "'"


def statement(db, path):
    return db.execute("SELECT tessera_ddl(?)", (path,)).fetchone()[0]


def renamed(text, path, new):
    """Returns the statement for another path, with a table called t."""
    head, body = text.split(literal(path), 1)
    assert head.startswith("CREATE VIRTUAL TABLE ")
    return f"CREATE VIRTUAL TABLE t USING tessera({literal(new)}{body}"


def schema(db, path):
    """Returns the rows of tessera_schema as the new array has them: codes of enumerations become UINT16, and enumerations get the name of their attribute."""
    rows = []
    for row in db.execute("SELECT name, role, datatype, cell_val_num, nullable, domain, current_domain, tile, fill, filters, "
                          "enumeration FROM tessera_schema(?)", (path,)):
        row = list(row)
        if row[10] is not None:
            row[2], row[8], row[10] = "code", None, db.execute("SELECT json_group_array(CAST(label AS BLOB) || '') FROM tessera_enumeration(?, ?)", (path, row[10])).fetchone()[0]
        rows.append(row)
    return rows


def check(db, directory, description, folder):
    """Returns None, or the problem."""
    new = os.path.join(folder, "new")
    key = description.get("encryption_key")
    for path in (directory, new):
        if key:
            db.execute("SELECT tessera_set_key(?, ?)", (path, key.encode()))
    text = statement(db, directory)
    try:
        db.execute(renamed(text, directory, new))
    except sqlite3.Error as e:
        if os.path.exists(new):
            return f"refused, and something is left: {e}"
        return f"refused: {e}"
    again = statement(db, new)
    if renamed(again, new, "") != renamed(text, directory, ""):
        return f"the statement was\n{text}\nand now is\n{again}"
    before, after = schema(db, directory), schema(db, new)
    if "/kv/" in directory.replace(os.sep, "/"):  # the names of a key-value store begin with "__", and lose an underscore
        before = [[row[0][1:] if row[0].startswith("__") else row[0]] + row[1:] for row in before]
    for a, b in zip(before, after):
        if a != b:
            return f"the schema had {a}, now {b}"
    if db.execute("SELECT count(*) FROM t").fetchone()[0] and not description.get("dense", True):
        return "it holds cells"
    return None


def main():
    extension, corpus = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, directory, description in arrays.find(corpus, pattern):
            db = arrays.connect(extension)
            db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            if uses_webp(description):
                continue
            try:
                wrong = check(db, directory, description, folder)
            except Exception as e:  # after any error the next array is tried
                wrong = f"{type(e).__name__}: {e}"
            db.close()
            shutil.rmtree(os.path.join(folder, "new"), ignore_errors=True)
            if wrong:
                failed += 1
                print(f"FAIL {name}: {wrong[:2000]}")
            else:
                passed += 1
    print(f"create: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
