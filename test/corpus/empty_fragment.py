"""Fragments without cells, as TileDB 1.6 and 1.7 wrote them for sparse arrays (`one_cell` of the corpus). Such a
fragment is put before, between and after the fragments of every sparse array with the same schema: the rows must stay
the same, and tessera_check must find nothing.

usage: empty_fragment.py EXTENSION CORPUS
"""
import os
import re
import shutil
import sqlite3
import sys
import tempfile

LIBRARIES = ["old/lib1.6.3_py0.4.4", "old/lib1.7_py0.5.9"]


def content(path):
    with open(path, "rb") as f:
        return f.read()


def fragments(folder):
    return sorted(name for name in os.listdir(folder) if re.fullmatch(r"__\d+_\d+_[0-9a-f]+(_\d+)?", name))


def rows(db, folder):
    db.execute("DROP TABLE IF EXISTS t")
    db.execute("CREATE VIRTUAL TABLE t USING tessera('" + folder + "')")
    return sorted(map(repr, db.execute("SELECT *, written_at FROM t")))


def check(db, array, empty, work):
    """Returns the number of places that were tried for the empty fragment."""
    expected, times = rows(db, array), {int(name.split("_")[2]) for name in fragments(array)}
    places = sorted({time + by for time in times for by in (-1, 1)} - times)
    for time in places:
        copy = os.path.join(work, f"copy{time}")
        shutil.copytree(array, copy)
        shutil.copytree(empty, os.path.join(copy, f"__{time}_{time}_{'e' * 32}"))
        assert rows(db, copy) == expected, (array, time)
        found = db.execute("SELECT message FROM tessera_check(?) WHERE severity <> 'note'", (copy,)).fetchall()
        assert not found, (array, time, found)
        shutil.rmtree(copy)
    assert expected
    return len(places)


def main():
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    db.load_extension(sys.argv[1])
    tried = 0
    with tempfile.TemporaryDirectory() as work:
        for library in LIBRARIES:
            folder = os.path.join(sys.argv[2], library)
            one = os.path.join(folder, "one_cell")
            schema, (empty,) = content(os.path.join(one, "__array_schema.tdb")), fragments(one)
            for name in sorted(os.listdir(folder)):
                array = os.path.join(folder, name)
                path = os.path.join(array, "__array_schema.tdb")
                if name != "one_cell" and os.path.exists(path) and content(path) == schema and fragments(array):
                    tried += check(db, array, os.path.join(one, empty), work)
    print(f"{tried} arrays")
    assert tried >= 4


main()
