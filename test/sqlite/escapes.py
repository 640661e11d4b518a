"""Escapes of JSON in slices and in options: each character comes out as it went in, at both ends of each range of UTF-16 and UTF-8; halves of surrogate
pairs are no characters.

usage: escapes.py EXTENSION [ignored]
"""
import sqlite3
import sys

ENDS = [0x21, 0x7e, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x103ff, 0x10400, 0x10fc00, 0x10ffff]
HALVES = ["\\ud800", "\\udbff", "\\udc00", "\\udfff", "\\ud800\\ud800", "\\ud800\\udbff", "\\ud800\\ue000", "\\ud800x", "\\udc00\\ud800", "\\ud80", "\\uxxxx", "\\u0000"]


def escaped(character):
    units = character.encode("utf-16-be").hex()
    return "".join("\\u" + units[i:i + 4] for i in range(0, len(units), 4))


def told(db, sql, *arguments):
    try:
        return db.execute(sql, arguments).fetchall()
    except sqlite3.Error as error:
        return str(error)


def main():
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(sys.argv[1])
    db.execute("CREATE VIRTUAL TABLE t USING tessera(s TEXT DIMENSION, v INT32)")
    db.executemany("INSERT INTO t VALUES(?, ?)", [(chr(point), point) for point in ENDS])
    wrong = []
    for point in ENDS:
        text = escaped(chr(point))
        found = told(db, "SELECT count, sum FROM tessera_aggregate('db:t', 'v', ?)", f'{{"s":["{text}","{text}"]}}')
        if found != [(1, point)]:
            wrong.append(f"a slice with {text}: {found}")
        found = told(db, "SELECT tessera_configure('s3://abc', ?)", f'{{"region":"{text}"}}')  # refuses a region, and quotes it
        shown = chr(point) if point != 0x80 else "?" * len(chr(point).encode())  # a control character
        if f"'{shown}' is not a region" not in found:
            wrong.append(f"a region with {text}: {found}")
    for text in HALVES:
        found = told(db, "SELECT tessera_configure('s3://abc', ?)", f'{{"region":"{text}"}}')
        if "not a JSON object" not in found:
            wrong.append(f"a region with {text}: {found}")
    print("\n".join([*wrong, f"{len(wrong)} wrong"]))
    sys.exit(bool(wrong))


main()
