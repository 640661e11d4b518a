"""What tessera_copy and tessera_ddl keep (attributes that cells lack, tiles and chunks as TileDB makes them), and what
they, CREATE and INSERT refuse. The histories of the arrays are random; cells that were never written are compared as
NULL and as the fill value.

usage: copies.py EXTENSION CORPUS [PATTERN...]
"""
import itertools
import json
import os
import random
import sys
import tempfile

import host
from host import Database, Error, literal

SEED = 1
if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"  # many small files, each of which is synced
NAMES = itertools.count()
DEFINITIONS = {"a": "INT32", "b": "FLOAT32 NOT NULL DEFAULT 7.5", "c": "TEXT DEFAULT 'none'", "d": "TEXT NOT NULL DEFAULT 'd'",
               "e": "TEXT ENUM('x', 'y', 'z') DEFAULT 'y'", "f": "UINT8[] DEFAULT '[1,2]'", "g": "DATE NOT NULL DEFAULT '2024-02-29'"}
VALUES = {"a": lambda r: r.choice([None, r.randrange(100)]), "b": lambda r: r.randrange(100) / 4, "c": lambda r: r.choice([None, "", "text"]),
          "d": lambda r: "d" * r.randrange(4), "e": lambda r: r.choice([None, "x", "z"]), "f": lambda r: json.dumps([r.randrange(256)] * r.randrange(3), separators=(",", ":")),
          "g": lambda r: f"2024-01-{r.randrange(1, 29):02}"}


def fresh():
    return os.path.join(host.FOLDER, f"copies{next(NAMES)}")


def same(got, want, what):
    assert got == want, f"{what}: {str(got)[:700]}\nand not {str(want)[:700]}"


def views(path, dense):
    """Returns the rows with NULL and with fill values for values that were never written, read by a connection of its own."""
    db = Database()
    seen = []
    for unwritten in ("null", "fill"):
        db.table("t" + unwritten, path, f", unwritten={unwritten}")
        where = " WHERE written_at IS NOT NULL" if dense else ""
        seen.append(sorted(db.query(f"SELECT * FROM t{unwritten}{where}"), key=repr))
    columns = [row[:2] for row in db.query("SELECT name, datatype FROM tessera_schema(?)", (path,))]
    faults = [row for row in db.query("SELECT * FROM tessera_check(?)", (path,)) if row[0] != "note"]
    db.close()
    same(faults, [], "the check of " + path)
    return seen, columns


def write(db, random_, path, dense, duplicates):
    table = f"w{next(NAMES)}"
    db.table(table, path)
    columns = [row[0] for row in db.query("SELECT name FROM tessera_schema(?)", (path,))]
    db.query("BEGIN")
    if dense and random_.random() < 0.5:   # a box whose tiles have cells of several fragments
        x, y = random_.randrange(6), random_.randrange(14)
        places = [(i, j) for i in range(x, random_.randrange(x, 16) + 1) for j in range(y, random_.randrange(y, 16) + 1)]
    else:
        places = [(random_.randrange(16), random_.randrange(16)) for _ in range(random_.randrange(1, 30))]
    for place in places:
        values = place + tuple(VALUES[c](random_) for c in columns[2:])
        db.query(f"INSERT INTO {table} VALUES({', '.join('?' * len(values))})", values)
    db.query("COMMIT")
    if not dense and random_.random() < 0.3:
        db.query(f"DELETE FROM {table} WHERE x = {random_.randrange(16)}")
    db.query(f"DROP TABLE {table}")


def evolved(random_, dense):
    """Makes an array by random writes, deletes and consolidations, and by adding and dropping attributes."""
    path, db = fresh(), Database()
    duplicates = not dense and random_.random() < 0.3
    kind = "kind=dense" if dense else "capacity=5" + (", duplicates=yes" if duplicates else "")
    first = random_.choice("abc")
    db.table("t", path, f", x INT32 DIMENSION(0, 16, 5), y INT32 DIMENSION(0, 16, 4), {first} {DEFINITIONS[first]}, {kind}")
    present = [first]
    for _ in range(random_.randrange(2, 9)):
        action = random_.random()
        if action < 0.5:
            write(db, random_, path, dense, duplicates)
        elif action < 0.75:
            name = random_.choice([n for n in DEFINITIONS if n not in present] or [""])
            if name:
                db.query("SELECT tessera_add_attribute(?, ?)", (path, f"{name} {DEFINITIONS[name]}"))
                present.append(name)
        elif action < 0.9 and len(present) > 1:
            db.query("SELECT tessera_drop_attribute(?, ?)", (path, present.pop(random_.randrange(len(present)))))
        else:
            db.query("SELECT tessera_consolidate(?)", (path,))
    db.close()
    return path


def check_copies(path, dense, what):
    before, columns = views(path, dense)
    db = Database(os.path.join(host.FOLDER, f"copies{next(NAMES)}.db"))
    one, two = fresh(), fresh()
    same(db.value("SELECT tessera_copy(?, ?)", (path, one)), len(before[0]), what + ": cells")
    same(views(one, dense), (before, columns), what)
    db.query("SELECT tessera_copy(?, 'db:inside')", (one,))
    same(sorted(db.query("SELECT * FROM inside WHERE written_at IS NOT NULL"), key=repr), before[0], what + ", inside")
    options = {"extents": {"x": 3}} if dense else {"capacity": 3, "cell_order": "col"}
    db.query("SELECT tessera_copy('db:inside', ?, ?)", (two, json.dumps(options)))
    same(views(two, dense), (before, columns), what + ", retiled")
    db.query("SELECT tessera_consolidate(?)", (two,))
    db.query("SELECT tessera_vacuum(?)", (two,))
    same(views(two, dense), (before, columns), what + ", consolidated")
    again, table = fresh(), f"d{next(NAMES)}"
    text = db.value("SELECT tessera_ddl(?)", (two,))
    db.query(text.replace(text.split("USING")[0], f"CREATE VIRTUAL TABLE {table} ", 1).replace(literal(two), literal(again)))
    same(db.value("SELECT tessera_ddl(?)", (again,)).split(literal(again))[1], text.split(literal(two))[1], what + ", made again")
    db.close()


def test_copies_of_random_evolutions_are_equal():
    for i in range(14):
        random_ = random.Random(SEED * 1000 + i)
        dense = i % 2 == 1
        check_copies(evolved(random_, dense), dense, f"seed {SEED * 1000 + i}")


def test_cells_that_have_none_of_the_attributes():
    """The attribute of the cells was dropped, and they lack the one that was added."""
    for kind in ("dense", "sparse"):
        path, db = fresh(), Database()
        db.table("t", path, f", x INT DIMENSION(0, 99, 10), a INT, kind={kind}")
        db.query("INSERT INTO t VALUES(3, 1), (4, 2), (50, 3)")
        db.query("SELECT tessera_add_attribute(?, 'without_attributes TEXT DEFAULT ''never''')", (path,))
        db.query("SELECT tessera_drop_attribute(?, 'a')", (path,))
        db.close()
        check_copies(path, kind == "dense", kind)
        same(views(path, kind == "dense")[0], [[(3, None), (4, None), (50, None)], [(3, "never"), (4, "never"), (50, "never")]], kind)


def test_cells_that_lack_different_attributes():
    path, copy, db = fresh(), fresh(), Database()
    db.table("t", path, ", x INT DIMENSION(0, 99, 10), a INT NOT NULL")
    db.query("INSERT INTO t VALUES(3, 1)")
    db.query("SELECT tessera_add_attribute(?, 'b INT NOT NULL')", (path,))
    error = db.error("SELECT tessera_copy(?, ?, '{\"format_version\": 3, \"filters\": {\"x\": \"none\"}}')", (path, copy))
    assert "version" in error.text, error.text
    assert not os.path.exists(copy)
    db.close()


def test_a_new_table_has_cells_that_lack_an_attribute():
    """The connection that made the table reads it at once, and finds NULL in a column that is NOT NULL."""
    path, db = fresh(), Database()
    db.table("t", path, ", x INT DIMENSION(0, 99, 10), a INT NOT NULL")
    db.query("INSERT INTO t VALUES(3, 1)")
    db.query("SELECT tessera_add_attribute(?, 'b TEXT NOT NULL')", (path,))
    db.query("DROP TABLE t")
    db.table("t", path)
    db.query("INSERT INTO t VALUES(4, 2, 'two')")
    for options in ("{}", '{"filters": {"b": "gzip"}}'):
        db.query("SELECT tessera_copy(?, 'db:copied', ?)", (path, options))
        same(sorted(db.query("SELECT * FROM copied")), [(3, 1, None), (4, 2, "two")], options)
        same(db.query("SELECT x FROM copied WHERE b IS NULL"), [(3,)], options)
        same(db.query("SELECT x FROM copied WHERE a IS NULL"), [], options)
        db.query("DROP TABLE copied")
    db.close()


def test_an_interrupted_copy_leaves_nothing():
    path, copy, db = fresh(), fresh(), Database()
    db.table("t", path, ", x INT DIMENSION(0, 99, 10), a INT")
    db.query("INSERT INTO t VALUES(3, 1)")
    db.query("SELECT tessera_add_attribute(?, 'b TEXT ENUM(''u'')')", (path,))
    broken = os.path.join(path, "__fragments", os.listdir(os.path.join(path, "__fragments"))[0], "a0.tdb")
    os.truncate(broken, 3)
    db.error("SELECT tessera_copy(?, ?)", (path, copy))
    assert not os.path.exists(copy)
    db.close()


def test_scattered_cells_of_a_dense_array_are_copied_in_several_commits():
    """The cells form more boxes than one commit may have, with attributes and without."""
    path, copy, db = fresh(), fresh(), Database()
    db.table("t", path, ", x INT DIMENSION(0, 99, 50), y INT DIMENSION(0, 99, 50), a INT, kind=dense")
    for first in range(0, 1200, 600):
        db.query("WITH n(v) AS (VALUES(?1) UNION ALL SELECT v + 1 FROM n WHERE v < ?1 + 599) INSERT INTO t SELECT v / 50 * 2, v % 50 * 2, v FROM n", (first,))
    same(db.value("SELECT tessera_copy('db:t', ?)", (copy,)), 1200, "cells")
    same(views(copy, True), views(path, True), "scattered")
    db.close()


def test_an_insert_gives_no_cell_what_it_never_had():
    """With more than a thousand boxes a commit rewrites the cells between its own, but not cells that would get an attribute by that."""
    path, db = fresh(), Database()
    db.table("t", path, ", x INT DIMENSION(0, 99, 10), y INT DIMENSION(0, 99, 10), a INT, kind=dense")
    db.query("WITH n(v) AS (VALUES(0) UNION ALL SELECT v + 1 FROM n WHERE v < 9999) INSERT INTO t SELECT v / 100, v % 100, v FROM n")
    db.query("SELECT tessera_add_attribute(?, 'b INT NOT NULL DEFAULT 5')", (path,))
    db.close()
    db = Database()
    db.table("t", path)
    scattered = "WITH n(v) AS (VALUES(0) UNION ALL SELECT v + 1 FROM n WHERE v < 2499) INSERT INTO t SELECT v / 50 * 2, v % 50 * 2, v, 1 FROM n"
    try:
        db.query(scattered)
    except Error as e:
        assert e.code == 13 and "separate boxes" in e.text, e.text
    lacking = db.query("SELECT x, y FROM t WHERE b IS NULL")
    given = db.value("SELECT count(*) FROM t WHERE b = 1")
    assert given in (0, 2500) and len(lacking) == 10000 - given, f"{given} cells have b, {len(lacking)} never had it"
    same(db.value("SELECT count(*) FROM t WHERE b = 5"), 0, "cells that got the fill value")
    db.close()


def test_extents_and_chunks_are_kept():
    for datatype, high in (("INT8", 126), ("INT16", 32766), ("INT32", 2**31 - 2), ("INT64", 2**63 - 2)):
        path, copy, db = fresh(), fresh(), Database()
        extent = high * 2 + 3
        db.table("t", path, f", d {datatype} DIMENSION({-high - 2}, {high}, {extent}), v INT FILTERS(chunk(0), byteshuffle, zstd(3)), "
                            "coords_filters=(chunk(0), gzip), offsets_filters=(chunk(0), zstd), validity_filters=(chunk(0), rle)")
        db.query(f"INSERT INTO t VALUES({-high - 2}, 1), (0, NULL), ({high}, 3)")
        same(db.value("SELECT tessera_copy('db:t', ?, ?)", (copy, json.dumps({"extents": {"d": extent}} if extent < 2**63 else {}))), 3, "cells")
        same(views(copy, False), views(path, False), datatype)
        same(db.query("SELECT tile, filters FROM tessera_schema(?)", (copy,)),
             [(str(extent) if extent > 2**63 - 1 else extent, "zstd"), (None, "chunk(0), byteshuffle, zstd(3)")], "the schema")
        text = db.value("SELECT tessera_ddl(?)", (copy,))
        db.query("DROP TABLE t")
        db.query("CREATE VIRTUAL TABLE t USING tessera(" + text.split(literal(copy) + ",")[1])
        same(db.value("SELECT tessera_ddl('db:t')").split("kind")[1], text.split("kind")[1].replace(",\n  if_exists=open", ""), "in the database")
        assert "must be above 0" in db.error(f"CREATE VIRTUAL TABLE u USING tessera(d {datatype} DIMENSION(0, 9, 0), v INT)").text
        assert "larger than its domain" in db.error(f"CREATE VIRTUAL TABLE u USING tessera(d {datatype} DIMENSION(0, 9, 11), v INT)").text
        db.close()


def test_nothing_is_made_within_an_array():
    """A copy, a new array or a group within an array is refused, however its place is spelled, and so is a copy to where the source lies."""
    db, root = Database(), fresh()
    os.makedirs(root + "/g")
    db.table("s", root + "/g/src", ", x INT32 DIMENSION(0, 9, 5), v INT32")
    db.query("INSERT INTO s VALUES(1, 7)")
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32)")
    before, links = sorted(os.listdir(root + "/g/src")), os.name == "posix"
    if links:
        for target, name in (("g/src", "link"), ("g", "above"), ("g/src/__fragments", "inner")):
            os.symlink(target, f"{root}/{name}")
    inside = ["g/src/new", "g/./src/../src/__fragments/new", "g/src/__labels/new"] + (["link/new", "inner/new", "above/src/deep/new"] if links else [])
    for place in [f"{root}/{name}" for name in inside] + [f"file://{os.path.realpath(root)}/g/src/new"] * links:
        for text in ("SELECT tessera_copy({}, {})", "SELECT tessera_sync({}, {})"):
            for source in (root + "/g/src", "db:s", f"{root}/link" if links else "db:main.S"):
                assert "lies within" in db.error(text.format(literal(source), literal(place))).text, (text, source, place)
        for text in ("CREATE VIRTUAL TABLE n USING tessera({}, x INT32 DIMENSION(0, 9, 5), v INT32)", "SELECT tessera_create_group({})", "SELECT tessera_copy('db:t', {})", "SELECT tessera_sync('db:t', {})",
                     "SELECT tessera_create_as({}, 'SELECT 1 AS x, 2 AS v')"):
            error = db.error(text.format(literal(place))).text
            assert "lies within the array" in error and "choose a place outside" in error, (text, place, error)
    for place in [root, root + "/g", root + "/g/"] + ([root + "/above"] if links else []):
        for function in ("tessera_copy", "tessera_sync"):
            assert "which is copied, lies within" in db.error(f"SELECT {function}('db:s', {literal(place)})").text, (function, place)
    same(sorted(os.listdir(root + "/g/src")), before, "nothing was left")
    same(db.query("SELECT * FROM tessera_check('db:s')"), [], "the check")
    for function in ("tessera_copy", "tessera_sync"):   # beside it all is well, also with a name that begins like its own
        db.value(f"SELECT {function}('db:s', {literal(root + '/g/src2' + function)})")
    db.close()


def test_uncut_tiles_are_read_cell_by_cell():
    path, db = fresh(), Database()
    db.table("t", path, ", d INT DIMENSION(0, 99999, 100000), v INT FILTERS(chunk(0), zstd), kind=dense")
    db.query("WITH n(v) AS (VALUES(0) UNION ALL SELECT v + 1 FROM n WHERE v < 99999) INSERT INTO t SELECT v, v * 7 FROM n")
    db.close()
    db = Database()
    db.table("t", path)
    same(db.query("SELECT v FROM t WHERE d = 77777"), [(77777 * 7,)], "one cell")
    same(db.value("SELECT sum(v) FROM t"), sum(range(100000)) * 7, "all")
    db.close()


def test_lossy_filters_on_offsets_are_refused():
    db = Database()
    for option in ("offsets_filters=(scale_float(2, 0.25, 0), zstd)", "offsets_filters=(bitshuffle, scale_float(8, 2, 0))"):
        path = fresh()
        error = db.error(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, x INT DIMENSION(0, 9, 5), s TEXT, {option})")
        assert "filters of offsets: filter scale_float rounds" in error.text, error.text
        assert not os.path.exists(path)
    db.error("CREATE VIRTUAL TABLE t USING tessera(x INT DIMENSION(0, 9, 5), s INT, validity_filters=(scale_float(1, 1, 0)))")
    db.close()


def test_fill_values_are_kept_as_text():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT DIMENSION(0, 9, 5), a CHAR NOT NULL, b CHAR NOT NULL DEFAULT 'q', c TEXT NOT NULL DEFAULT X'C328', "
             "d CHAR[] NOT NULL DEFAULT X'410042', e BLOB NOT NULL DEFAULT X'FF00', f TEXT NOT NULL DEFAULT 'Zürich', g CHAR)")
    same(db.query("SELECT name, fill FROM tessera_schema('db:t') WHERE role = 'attribute'"),
         [("a", "X'80'"), ("b", "q"), ("c", "X'C328'"), ("d", "A\0B"), ("e", b"\xff\x00"), ("f", "Zürich"), ("g", None)], "fills")
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
