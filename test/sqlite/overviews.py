"""tessera_make_overviews: the pyramid of an array, its pictures, and what becomes of it when the array changes.

usage: overviews.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os
import shutil
import sys

import host
from host import Database, check_contains, not_on_windows, same
from pictures import decode

HEIGHT, WIDTH = 520, 640   # two levels: until a side is under 256
CELLS = HEIGHT // 2 * (WIDTH // 2) + HEIGHT // 4 * (WIDTH // 4)   # of the levels


def make(db, name="a"):
    """Makes a dense array, and tables of the levels."""
    db.query(f"CREATE VIRTUAL TABLE {name} USING tessera('{name}', kind=dense, t INT32 DIMENSION(1, 2, 1), y INT32 DIMENSION(-10, {HEIGHT - 11}, 100), x INT32 DIMENSION(5, {WIDTH + 4}, 128), v INT16, w FLOAT64, s TEXT)")
    db.query(f"INSERT INTO {name}(t, y, x, v, w) WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {WIDTH - 1}), m(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < {HEIGHT - 1}) "
             "SELECT 2, j - 10, i + 5, CASE WHEN (i * j) % 11 = 0 THEN NULL ELSE (i * 3 + j * 5) % 700 END, i + j / 4.0 FROM m, n")


def levels(db, name="a"):
    """Returns the cells of all levels, and checks each against the level below by GROUP BY."""
    found, k = [], 1
    below, origin = name, (-10, 5)
    while os.path.isdir(f"{name}.overviews/{k}"):
        db.query(f"CREATE VIRTUAL TABLE l{k} USING tessera('{name}.overviews/{k}')")
        rows = db.query(f"SELECT t, y, x, v, w FROM l{k} ORDER BY t, y, x")
        expected = db.query(f"SELECT t, (y - {origin[0]}) / 2, (x - {origin[1]}) / 2, avg(v), avg(w) FROM {below} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
        same(len(rows), len(expected), f"cells of level {k}")
        for got, wanted in zip(rows, expected):
            same(got[:3], wanted[:3], f"level {k}")
            for a, b in zip(got[3:], wanted[3:]):
                same((a is None, abs((a or 0) - (b or 0)) <= 1e-4), (b is None, True), f"level {k}: {got} {wanted}")
        found.append(rows)
        below, origin, k = f"l{k}", (0, 0), k + 1
    for j in range(1, k):
        db.query(f"DROP TABLE l{j}")
    return found


def picture(db, options=None, name="a"):
    db.query("SELECT tessera_reset_stats()")
    file = db.value(f"SELECT tessera_png('{name}', 'w', '{{\"t\":2}}', ?)", (json.dumps(options or {}),))
    return decode(file), db.value("SELECT value FROM tessera_stats WHERE name = 'cells_decoded'")


def test_levels_are_means_and_follow_the_array():
    os.chdir(host.FOLDER)
    db = Database()
    make(db)
    same(db.value("SELECT tessera_make_overviews('a')"), CELLS, "cells written")
    same(len(levels(db)), 2, "levels: until a side is under 256 cells")
    same(db.value("SELECT tessera_make_overviews('a')"), 0, "nothing to do")
    db.query("UPDATE a SET v = 9, w = 9 WHERE t = 2 AND y = 100 AND x BETWEEN 40 AND 60")
    changed = db.value("SELECT tessera_make_overviews('a')")
    same(0 < changed < 100, True, f"{changed} cells of the levels are written again")
    brought = levels(db)
    same(db.value("SELECT tessera_make_overviews('a', '{\"rebuild\":true}')"), CELLS)
    same(levels(db), brought, "the same as if they were built anew")


def test_levels_have_the_filters_of_the_array_with_quick_compressors():
    os.chdir(host.FOLDER)
    db = Database()
    db.query("CREATE VIRTUAL TABLE filtered USING tessera('filtered', kind=dense, y INT32 DIMENSION(0, 299, 100), x INT32 DIMENSION(0, 299, 100), v FLOAT32 FILTERS(byteshuffle, zstd(7)), "
             "w INT32 FILTERS(double_delta, gzip(9), md5), u INT8 FILTERS(bzip2(9)), s UINT8 FILTERS(gzip(0)))")
    db.query("INSERT INTO filtered WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299) SELECT a.i, b.i, a.i, b.i, 1, 2 FROM n a, n b")
    same(db.value("SELECT tessera_make_overviews('filtered', '{\"method\":\"max\"}')"), 150 * 150, "cells")
    text = db.value("SELECT tessera_ddl('filtered.overviews/1')")
    for filters in ("v FLOAT32 FILTERS(byteshuffle, zstd(1))", "w INT32 FILTERS(double_delta, gzip(1), md5)", "u INT8 FILTERS(bzip2(1))", "s UINT8 FILTERS(gzip(0))"):
        check_contains(text, filters)


@not_on_windows("wine removes no directory whose files are open")
def test_a_level_that_is_gone():
    """Levels that are made anew have the method and the dimensions that they had, also if one of them was dropped by hand."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE p USING tessera(kind=dense, t INT32 DIMENSION(0, 1, 2), y INT32 DIMENSION(0, 511, 256), x INT32 DIMENSION(0, 511, 256), v INT32)")
    db.query("INSERT INTO p WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 511) SELECT 0, a.i, b.i, a.i * b.i % 100 FROM n a, n b")
    cells = db.value("SELECT tessera_make_overviews('db:p', '{\"method\":\"max\"}')")

    def kept():
        return db.query("SELECT value ->> 'method', value ->> 'dimensions' FROM tessera_metadata('db:p')"), db.value("SELECT max(v) FROM p_overview_2")
    before = kept()
    for options in (None, '{"rebuild":true}'):
        db.query("DROP TABLE p_overview_1")
        same(db.value("SELECT tessera_make_overviews('db:p', ?)", (options,)), cells, f"cells written with {options}")
        same(kept(), before, str(options))
    db.query("DROP TABLE p_overview_1")
    db.query("SELECT tessera_make_overviews('db:p', '{\"drop\":true}')")
    same(db.query("SELECT name FROM sqlite_schema WHERE name LIKE 'p_overview%'"), [], "all levels go")


def test_pictures_take_a_level_of_the_state_that_is_read():
    os.chdir(host.FOLDER)
    db = Database()
    make(db)
    small, options = {"width": 110, "height": 70, "min": 0, "max": 1300}, {"overviews": False}
    plain, all_cells = picture(db, small)
    db.query("SELECT tessera_make_overviews('a')")
    drawn, few = picture(Database(), small)
    same(few * 6 < all_cells, True, f"{few} cells are decoded instead of {all_cells}")
    far = max(abs(a - b) for x, y in zip(plain, drawn) for p, q in zip(x, y) for a, b in zip(p, q))
    same(far <= 3, True, f"colours differ by {far}")
    same(picture(db, {**small, **options})[0], plain, "without overviews")
    same(picture(Database(), {**small, **options})[1] >= HEIGHT * WIDTH, True, "all cells are decoded")
    db.query("UPDATE a SET w = 1500 - w WHERE t = 2 AND y < 100")
    same(picture(db, small)[0] == drawn, False, "overviews that are older than the array are not used")
    db.query("SELECT tessera_make_overviews('a')")
    same(picture(Database(), small)[1] * 4 < all_cells, True, "they are used again")
    picture(db, small)
    drawn, cells = picture(db, small)
    same((cells, picture(db, small)[0]), (0, drawn), "a level stays open, with its tiles")
    other = Database()
    other.query("""SELECT tessera_make_overviews('a', '{"method":"max","rebuild":true}')""")
    rebuilt = picture(Database(), small)[0]
    same((rebuilt == drawn, picture(db, small)[0] == rebuilt), (False, True), "another connection has made it anew")
    db.query("""SELECT tessera_make_overviews('a', '{"method":"min","rebuild":true}')""")
    anew = picture(Database(), small)[0]
    same((anew == rebuilt, picture(db, small)[0] == anew), (False, True), "this connection has made it anew")
    db.query("""SELECT tessera_make_overviews('a', '{"drop":true}')""")
    same(picture(db, small)[0] == anew, False, "it is gone")


def test_they_go_with_the_array_and_stay_out_of_copies():
    os.chdir(host.FOLDER)
    db = Database()
    make(db)
    db.query("SELECT tessera_make_overviews('a', '{\"columns\":[\"w\"],\"method\":\"max\"}')")
    same(db.query("SELECT name FROM tessera_schema('a.overviews/1')"), [("t",), ("y",), ("x",), ("w",)])
    db.query("SELECT tessera_copy('a', 'b')")
    same((os.path.exists("b.overviews"), db.query("SELECT key FROM tessera_metadata('b')")), (False, []), "a copy has none")
    db.query("SELECT tessera_make_overviews('a', '{\"drop\":true}')")
    same((os.path.exists("a.overviews"), db.query("SELECT key FROM tessera_metadata('a')")), (False, []), "dropped")
    db.query("SELECT tessera_make_overviews('a')")
    db.query("DROP TABLE a")
    db.query("SELECT tessera_drop('a')")
    same(sorted(name for name in os.listdir(".") if name.startswith("a")), [], "dropped with the array")


def test_an_array_that_grows_gets_more_levels():
    os.chdir(host.FOLDER)
    for path, prefix in (("grown", "grown.overviews/"), ("db:held", "db:held_overview_")):
        db = Database("grown.db")
        at = "" if path.startswith("db:") else f"'{path}', "
        name = path.split(":")[-1]
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({at}kind=dense, y INT32 DIMENSION(0, 1999, 100), x INT32 DIMENSION(0, 1999, 100), v INT32)")
        fill = lambda height, width: db.query(f"INSERT OR REPLACE INTO {name} WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {width - 1}), m(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM m WHERE j < {height - 1}) SELECT j, i, i * 3 + j FROM m, n")
        present = lambda: sorted(map(int, os.listdir("grown.overviews")))
        fill(300, 280)
        same(db.value("SELECT tessera_make_overviews(?)", (path,)), 150 * 140)
        if path == "grown":
            same(present(), [1])
        fill(300, 700)
        db.query("SELECT tessera_make_overviews(?)", (path,))
        fill(600, 1100)
        db.query("SELECT tessera_make_overviews(?)", (path,))
        if path == "grown":
            same(present(), [1, 2])
        same(json.loads(db.value("SELECT value FROM tessera_metadata(?) WHERE key = 'tessera_overviews'", (path,)))["levels"], 2)
        for k, height, width in ((1, 300, 550), (2, 150, 275)):
            level = f"level{k}" if path == "grown" else f"held_overview_{k}"
            if path == "grown":
                db.query(f"CREATE VIRTUAL TABLE temp.level{k} USING tessera('{prefix}{k}')")
            same(db.query(f"SELECT count(*), count(v), max(y), max(x) FROM {level} WHERE v IS NOT NULL"), [(height * width, height * width, height - 1, width - 1)])
            expected = db.query(f"SELECT y / {2 ** k}, x / {2 ** k}, avg(v) FROM {name} WHERE v IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2")
            same(db.query(f"SELECT y, x, v FROM {level} WHERE v IS NOT NULL ORDER BY 1, 2"), expected, f"level {k}")
            db.query(f"DROP TABLE IF EXISTS temp.level{k}")
        same(db.query("SELECT * FROM tessera_check(?)", (path,)), [])
        same(db.value("SELECT tessera_make_overviews(?)", (path,)), 0, "nothing is left to do")
        db.close()


def test_the_check_looks_at_the_levels():
    os.chdir(host.FOLDER)
    db = Database()
    make(db)
    db.query("SELECT tessera_make_overviews('a')")
    same(db.query("SELECT * FROM tessera_check('a')"), [])
    data = [os.path.join(folder, name) for folder, _, names in os.walk("a.overviews/2/__fragments") for name in names if name.endswith(".tdb") and not name.startswith("__fragment_metadata")]
    largest = max(data, key=os.path.getsize)
    with open(largest, "r+b") as file:
        file.truncate(os.path.getsize(largest) // 2)
    found = db.query("SELECT severity, message FROM tessera_check('a')")
    same({row[0] for row in found}, {"error"}, found)
    check_contains(found[0][1], "level 2 of the overviews: ")
    shutil.rmtree("a.overviews/1")
    found = db.query("SELECT severity, message FROM tessera_check('a')")
    same(found[0], ("note", "level 1 of the overviews is missing: tessera_make_overviews(path) makes them again"))
    db.query("SELECT tessera_make_overviews('a', '{\"rebuild\":true}')")
    same(db.query("SELECT * FROM tessera_check('a')"), [], "made anew")
    db.query("UPDATE a SET w = 9 WHERE t = 2 AND y = 100 AND x = 50")
    same([row[2] for row in db.query("SELECT * FROM tessera_check('a')")], ["the overviews show an older state: tessera_make_overviews(path) brings them up to date"])
    shutil.rmtree("a.overviews")
    same(len(db.query("SELECT * FROM tessera_check('a')")), 3, "stale, and two levels are missing")
    same(db.value("SELECT tessera_make_overviews('a')"), CELLS)
    same(db.query("SELECT * FROM tessera_check('a')"), [])
    db.close()


def tables(db):
    return [row[0] for row in db.query("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%' ORDER BY 1")]


def store(db):
    """Makes the array of make() in the database."""
    make(db, "outside")
    db.query("SELECT tessera_copy('outside', 'db:a')")
    db.query("DROP TABLE outside")


def picture_of(db, name, options=None):
    db.query("SELECT tessera_reset_stats()")
    file = db.value(f"SELECT tessera_png('db:{name}', 'w', '{{\"t\":2}}', ?)", (json.dumps(options or {}),))
    return decode(file), db.value("SELECT value FROM tessera_stats WHERE name = 'cells_decoded'")


def test_levels_of_an_array_in_the_database_are_tables():
    os.chdir(host.FOLDER)
    db = Database("b.db")
    store(db)
    small = {"width": 110, "height": 70, "min": 0, "max": 1300}
    plain, all_cells = picture_of(db, "a", small)
    same(db.value("SELECT tessera_make_overviews('db:a')"), CELLS, "cells written")
    same(tables(db), ["a", "a_overview_1", "a_overview_2"], "tables")
    expected = db.query("SELECT t, (y + 10) / 2, (x - 5) / 2, avg(w) FROM a GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    same(db.query("SELECT t, y, x, w FROM a_overview_1 ORDER BY 1, 2, 3"), expected, "means")
    db.close()
    db = Database("b.db")
    drawn, few = picture_of(db, "a", small)
    same(few * 6 < all_cells, True, f"{few} cells are decoded instead of {all_cells}")
    far = max(abs(p - q) for x, y in zip(plain, drawn) for a, b in zip(x, y) for p, q in zip(a, b))
    same(far <= 3, True, f"colours differ by {far}")
    db.query("UPDATE a SET w = 9 WHERE t = 2 AND y = 100 AND x BETWEEN 40 AND 60")
    same(db.query("SELECT severity, message FROM tessera_check('db:a')"), [("note", "the overviews show an older state: tessera_make_overviews(path) brings them up to date")], "the check")
    same(0 < db.value("SELECT tessera_make_overviews('db:a')") < 100, True, "only what is newer is written again")
    same(db.query("SELECT * FROM tessera_check('db:a')"), [], "the check afterwards")
    same(db.value("SELECT tessera_make_overviews('db:a', '{\"rebuild\":true}')"), CELLS, "anew")
    db.query("ALTER TABLE a RENAME TO b")
    same(tables(db), ["b", "b_overview_1", "b_overview_2"], "renamed")
    same(picture_of(db, "b", small)[1] * 6 < all_cells, True, "and still used")
    same(db.value("SELECT tessera_make_overviews('db:b')"), 0, "and up to date")
    db.close()
    db = Database("b.db")
    db.query("SELECT tessera_make_overviews('db:b', '{\"drop\":true}')")
    same((tables(db), db.query("SELECT key FROM tessera_metadata('db:b')")), (["b"], []), "dropped")
    db.query("SELECT tessera_make_overviews('db:b')")
    db.query("BEGIN")
    db.query("DROP TABLE b")
    same(db.query("SELECT name FROM sqlite_schema WHERE name LIKE 'b%'"), [], "gone with the table")
    db.query("ROLLBACK")
    same(picture_of(db, "b", small)[1] * 6 < all_cells, True, "and back")
    db.query("DROP TABLE b")
    same((db.query("SELECT name FROM sqlite_schema"), db.query("PRAGMA integrity_check")), ([], [("ok",)]), "what is left")
    db.close()


def test_other_tables_with_such_names_stay():
    os.chdir(host.FOLDER)
    db = Database("c.db")
    store(db)
    db.query("CREATE TABLE a_overview_1(x)")
    check_contains(db.error("SELECT tessera_make_overviews('db:a')").text, "a_overview_1")
    same(tables(db), ["a"], "nothing is left of the failure")
    db.query("DROP TABLE a_overview_1")
    db.query("CREATE VIRTUAL TABLE a_overview_1 USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    db.query("ALTER TABLE a RENAME TO b")
    db.query("ALTER TABLE b RENAME TO a")
    db.query("DROP TABLE a")
    same(tables(db), ["a_overview_1"], "no level")
    db.close()


def test_copies_of_an_array_in_the_database_have_no_levels():
    os.chdir(host.FOLDER)
    db = Database("d.db")
    store(db)
    db.query("SELECT tessera_make_overviews('db:a')")
    db.query("SELECT tessera_copy('db:a', 'db:c')")
    db.query("SELECT tessera_copy('db:a', 'e')")
    db.query("SELECT tessera_sync('db:a', 'f')")
    db.query("SELECT tessera_sync('f', 'db:g')")
    same((tables(db), sorted(n for n in os.listdir(".") if "overviews" in n)), (["a", "a_overview_1", "a_overview_2", "c", "g"], []), "copies")
    db.query("DROP TABLE g")
    db.query("DROP TABLE c")
    same(tables(db), ["a", "a_overview_1", "a_overview_2"], "dropping a copy")
    same(db.value("SELECT tessera_make_overviews('f')"), CELLS, "a copy gets levels of its own")
    db.query("BEGIN")
    db.query("SELECT tessera_set_metadata('db:a', 'k', 'v')")
    db.query("SELECT tessera_make_overviews('db:a', '{\"method\":\"max\"}')")
    db.query("UPDATE a SET w = 5 WHERE t = 2 AND y = 5")
    check_contains(db.error("SELECT tessera_make_overviews('db:a')").text, "commit first")
    db.query("ROLLBACK")
    same(db.value("SELECT tessera_make_overviews('db:a')"), 0, "after a rollback they are those from before")
    db.close()


def test_what_is_refused():
    os.chdir(host.FOLDER)
    db = Database()
    db.query("CREATE VIRTUAL TABLE s USING tessera('s', x INT32 DIMENSION(0, 9), v INT32)")
    for arguments, message in (("'s'", "tessera_make_overviews: array s is sparse: only dense ones have overviews"),
                               ("'nosuch'", "tessera_make_overviews: ")):
        check_contains(db.error(f"SELECT tessera_make_overviews({arguments})").text, message)
    make(db)
    for options, message in (({"dimensions": ["y", "x", "Y"]}, "'dimensions': dimension 'y' is given twice"), ({"factor": 3}, "no option is called 'factor': method, dimensions, columns, drop, rebuild, memory_mb, threads"), ({"dimensions": ["q"]}, "'dimensions': no dimension is called 'q'"),
                             ({"drop": 1}, "'drop': expected true or false"), ({"method": "median"}, "no method is called 'median'")):
        check_contains(db.error("SELECT tessera_make_overviews('a', ?)", (json.dumps(options),)).text, message)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
