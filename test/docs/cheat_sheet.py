"""Every statement of docs/cheat-sheet.md runs.

usage: cheat_sheet.py EXTENSION ROOT
A statement is a code span in a table that begins with SELECT, CREATE or DELETE, or a condition that begins with WHERE, and has no `...`. Each one runs in
a folder of its own, with an array `path` that is opened as `t` and has the dimensions and columns that the page uses.
"""
import array
import os
import re
import shutil
import sqlite3
import struct
import sys
import tempfile

SET_UP = """
CREATE VIRTUAL TABLE t USING tessera('path', kind=dense, month INT32 DIMENSION(1, 12, 12), y INT32 DIMENSION(0, 99, 10) LABEL lat FLOAT64,
                                     x INT32 DIMENSION(0, 109, 10), v FLOAT32);
SELECT tessera_write_label('db:t', 'lat', :lat);
INSERT INTO t(month, y, x, v) VALUES (7, 1, 5, 2.5), (7, 46, 100, 3.5);
CREATE VIRTUAL TABLE days USING tessera('days', day DATE DIMENSION, v REAL);
CREATE VIRTUAL TABLE c USING tessera_changes(t);
"""


def npy(kind, shape, values):
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + array.array({"f4": "f", "f8": "d"}[kind], values).tobytes()


LABELS, BLOCK = npy("f8", (100,), [0.5 * i for i in range(100)]), npy("f4", (1, 2, 3), range(6))


def connect(extension):
    db = sqlite3.connect("t.db", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def statements(page):
    for line in page.split("\n"):
        if line.startswith("|"):
            for span in re.findall(r"`([^`]+)`", line):
                if "..." not in span and re.match(r"(SELECT|CREATE|DELETE FROM|WHERE) ", span):
                    yield span


def ready(extension, folder):
    os.makedirs(folder)
    os.chdir(folder)
    db = connect(extension)
    for statement in SET_UP.strip().split(";\n"):
        db.execute(statement, {"lat": LABELS} if ":lat" in statement else {})
    with open("file.csv", "w", encoding="utf-8") as f:
        f.write("x,y,v\n1,2,3.5\n")
    time = db.execute("SELECT last_write FROM tessera_array('db:t')").fetchone()[0]
    db.execute("UPDATE t SET v = 9 WHERE month = 7 AND y = 1 AND x = 5")
    return db, {"time": time, "before": time, "after": "'2100-01-01'"}


def run(db, sql, times):
    """Runs a statement of the page, with what stands there for a time, a path to be made or a block replaced by one."""
    sql = f"SELECT * FROM {'days' if ' day ' in sql else 't'} {sql}" if sql.startswith("WHERE") else sql
    for word, value in times.items():
        sql = re.sub(rf"(?<=[(, ]){word}(?=[,)])", str(value), sql)
    if "CREATE VIRTUAL TABLE" in sql or "tessera_create" in sql:
        sql = sql.replace("'path'", "'other'") if "DIMENSION" in sql or "tessera_create" in sql else sql
        sql = sql.replace("TABLE t ", "TABLE made ").replace("TABLE temp.t ", "TABLE temp.made ").replace("TABLE c ", "TABLE other_c ")
    sql = re.sub(r"(tessera_(?:copy|sync)\('db:t', )'path'", r"\1'elsewhere'", sql)
    db.execute(sql, {"npy": BLOCK} if ":npy" in sql else {}).fetchall()


def main():
    extension, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    with open(os.path.join(root, "docs", "cheat-sheet.md"), encoding="utf-8") as f:
        found = list(statements(f.read()))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, sql in enumerate([*found, "SELECT nothing FROM t"]):
            db, times = ready(extension, os.path.join(folder, str(number)))
            try:
                run(db, sql, times)
                wrong += number == len(found)
            except sqlite3.Error as e:
                if number < len(found):
                    print(f"{sql}\n  {e}")
                    wrong += 1
            db.close()
            os.chdir("/")
            shutil.rmtree(os.path.join(folder, str(number)))
    print(f"{len(found)} statements, {wrong} wrong")
    return wrong != 0 or len(found) < 25


if __name__ == "__main__":
    sys.exit(main())
