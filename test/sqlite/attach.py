"""tessera_attach, tessera_detach, tessera_attached: the arrays of groups as tables, by their layout.

usage: attach.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os
import shutil
import sys
import tempfile
import threading
import time

import host
from host import Database, autocommit, check_contains, corpus, literal, not_on_windows, same, slashes


def group(db, path, members=()):
    """Makes a group; members are (name, path, kind)."""
    db.query(f"SELECT tessera_create_group({literal(path)})")
    for name, member in members:
        db.query(f"SELECT tessera_add_member({literal(path)}, {literal(member)}, {literal(name)})")


def array(db, path, value=1, definition="i INT32 DIMENSION(0, 9, 5), v INT32"):
    db.query(f"CREATE VIRTUAL TABLE making USING tessera({literal(path)}, {definition})")
    if value is not None:
        db.query(f"INSERT INTO making VALUES(1, {value})")
    db.query("DROP TABLE making")


def made():
    """A connection, and a group with the arrays a, sub/b and sub/c d."""
    db, root = Database(), os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "root")
    group(db, root)
    group(db, root + "/sub")
    for value, (name, within) in enumerate((("a", root), ("b", root + "/sub"), ("c d", root + "/sub"))):
        array(db, f"{within}/{name}", value)
        db.query(f"SELECT tessera_add_member({literal(within)}, {literal(within + '/' + name)}, {literal(name)})")
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/sub')}, 'sub')")
    return db, root


def names(db):
    return [n for n, in db.query("SELECT name FROM tessera_attached WHERE kind = 'array' ORDER BY 1")]


def attach(db, path, **options):
    return db.value("SELECT tessera_attach(?, ?)", (path, json.dumps(options)))


def test_plain():
    """Every array of a group is a table in temp, under the names that lead to it; detach drops them all."""
    db, root = made()
    same(db.query("SELECT * FROM tessera_attached"), [])
    same(db.value("SELECT tessera_attach(?)", (root,)), 3)
    real = slashes(os.path.realpath(root))
    same(db.query("SELECT name, schema, kind, path, member, root, semantics FROM tessera_attached ORDER BY 1"),
         [(n, "temp", "array", f"{real}/{m}", m, real, "plain") for n, m in (("a", "a"), ("sub_b", "sub/b"), ("sub_c d", "sub/c d"))])
    same([db.value(f'SELECT v FROM "{n}"') for n in names(db)], [0, 1, 2])
    same(db.query("SELECT name FROM main.sqlite_schema"), [])
    same(db.value("SELECT tessera_detach(?)", (root,)), 3)
    same((names(db), db.value("SELECT tessera_detach(?)", (root,))), ([], 0))
    same(attach(db, root + "/a", prefix="one_"), 1)   # an array alone
    same(db.query("SELECT v FROM one_a"), [(0,)])
    db.close()


def test_options():
    """Each option, and what is wrong with one."""
    db, root = made()
    same(attach(db, root, prefix="p_", datetimes="integer", memory_mb=64, threads=1), 3)
    same(names(db), ["p_a", "p_sub_b", "p_sub_c d"])
    db.value("SELECT tessera_detach(?)", (root,))
    same(attach(db, root, schema="main"), 3)
    same(db.query("SELECT DISTINCT schema FROM tessera_attached"), [("main",)])
    db.value("SELECT tessera_detach(?)", (root,))
    time = db.value(f"SELECT last_write FROM tessera_array({literal(root + '/a')})")
    attach(db, root, as_of=time - 1, prefix="then_")
    for options, part in (({"tables": 2}, "more than 2 arrays: raise the option 'tables'"), ({"depth": 1, "tables": 9}, None), ({"as": "zarr"}, "'as': expected auto, plain"),
                          ({"deep": 1}, "no option is called 'deep'"), ({"measurement": "RNA"}, "is not an experiment"), ({"depth": 0}, "'depth'")):
        if part:
            check_contains(db.error("SELECT tessera_attach(?, ?)", (root, json.dumps(options))).text, "tessera_attach: ")
            check_contains(db.error("SELECT tessera_attach(?, ?)", (root, json.dumps(options))).text, part)
    check_contains(db.error("SELECT tessera_attach('nothing')").text, "/nothing")
    check_contains(db.error("SELECT tessera_attach(?)", (os.path.dirname(root),)).text, f": FROM tessera_objects('{slashes(os.path.dirname(os.path.realpath(root)))}') has those")
    same([path for path, kind in db.query("SELECT path, kind FROM tessera_objects(?) WHERE kind = 'group'", (os.path.dirname(root),))][:1], [slashes(root)])
    check_contains(db.error("SELECT tessera_attach('db:a')").text, "is a table already")
    db.close()


def test_collisions():
    """Equal names within one attach get numbers; a name that the connection has already, in any database, is an error, and nothing is made."""
    db, root = made()
    array(db, root + "/other", 5)
    group(db, root + "/x", [("A", root + "/other")])
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/other')}, 'SUB_B')")
    same(attach(db, root), 4)
    same(names(db), ["SUB_B", "a", "sub_b_2", "sub_c d"])
    db.value("SELECT tessera_detach(?)", (root,))
    db.query("CREATE VIEW \"Sub_C d\" AS SELECT 1")
    check_contains(db.error("SELECT tessera_attach(?)", (root,)).text, "a table sub_c d exists in main: say a prefix")
    same((names(db), db.query("SELECT name FROM temp.sqlite_schema WHERE name <> 'tessera_attachments'"), autocommit(db)), ([], [], True))
    db.close()


def test_members_named_like_shadow_tables():
    """A table t has the shadow tables t_config and t_commits, so a member t_config cannot have that name beside it."""
    db = Database()
    root = os.path.join(host.FOLDER, "shadows")
    db.query("SELECT tessera_create_group(?)", (root,))
    for number, name in enumerate(("t", "t_config", "u_commits", "u")):
        path = os.path.join(host.FOLDER, f"member{number}")
        db.query(f"CREATE VIRTUAL TABLE x USING tessera({host.literal(path)}, id INT32 DIMENSION, v TEXT)")
        db.query(f"INSERT INTO x VALUES({number}, {host.literal(name)})")
        db.query("DROP TABLE x")
        db.query("SELECT tessera_add_member(?, ?, ?)", (root, path, name))
    same(db.value("SELECT tessera_attach(?)", (root,)), 4)
    found = dict(db.query("SELECT member, name FROM tessera_attached"))
    same(sorted(db.value(f'SELECT v FROM "{name}"') for name in found.values()), ["t", "t_config", "u", "u_commits"])
    assert all(db.value(f'SELECT v FROM "{name}"') == member for member, name in found.items()), found


def test_refresh():
    """A second call adds, drops and renames; tables that stay the same are left alone, so statements on them go on; what is in use is BUSY."""
    db, root = made()
    attach(db, root)
    array(db, root + "/new", 7)
    open_ = db.cursor("SELECT v FROM a UNION ALL SELECT 9")
    same((db.next(open_), attach(db, root)), ((0,), 3))
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/new')}, 'new')")
    same(attach(db, root), 4)
    same((db.next(open_), db.next(open_)), ((9,), None))
    db.query(f"SELECT tessera_drop_member({literal(root)}, 'new')")
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/new')}, 'newer')")
    same((attach(db, root), db.value("SELECT v FROM newer")), (4, 7))
    assert db.error("SELECT * FROM new")
    db.query("INSERT INTO sub_b VALUES(2, 2)")
    db.query(f"SELECT tessera_drop_member({literal(root)}, 'sub')")
    busy = db.cursor("SELECT v FROM sub_b")
    db.next(busy)
    check_contains(db.error("SELECT tessera_attach(?)", (root,)).text, "in use")
    same(len(names(db)), 4)
    del busy
    db.close()
    db = Database()
    same(attach(db, root), 2)
    db.query("DROP TABLE a")
    same((names(db), attach(db, root), names(db)), (["newer"], 2, ["a", "newer"]))
    db.close()


def test_transactions():
    """ROLLBACK takes an attachment back; a call within a transaction is part of it; the writes of an attached table are ordinary."""
    db, root = made()
    db.query("BEGIN")
    attach(db, root)
    db.query("INSERT INTO a VALUES(2, 20)")
    db.query("ROLLBACK")
    same((names(db), db.value("SELECT tessera_attach(?)", (root,))), ([], 3))
    same(db.query("SELECT * FROM a"), [(1, 0)])
    db.query("BEGIN")
    db.value("SELECT tessera_detach(?)", (root,))
    db.query("ROLLBACK")
    same(len(names(db)), 3)
    db.query("CREATE VIEW v AS SELECT tessera_attach('x')")
    assert db.error("SELECT * FROM v")   # direct only
    db.close()


def test_what_is_dropped():
    """A table that is dropped takes its shadow tables along, or the next call does if a statement reads; one with other options takes them over."""
    db, root = made()
    shadows = "SELECT count(*) FROM temp.sqlite_schema WHERE name GLOB '*_config' OR name GLOB '*_commits'"
    attach(db, root)
    attach(db, root, threads=1)
    same((db.value(shadows), db.value("SELECT count(*) FROM (SELECT DISTINCT value FROM a_config WHERE key = 'id')")), (6, 1))
    db.query("CREATE TABLE other(x)")
    db.query("INSERT INTO other VALUES(1), (2)")
    reading = db.cursor("SELECT x FROM other")
    db.next(reading)
    same((db.value("SELECT tessera_detach(?)", (root,)), names(db), db.value(shadows)), (3, [], 6))
    same((attach(db, root, prefix="x_"), db.value(shadows)), (3, 12))
    same((attach(db, root), db.value("SELECT v FROM a")), (3, 0))   # while it reads, the old ones serve again
    del reading
    same((attach(db, root), db.value(shadows)), (3, 6))
    db.query("CREATE TABLE temp.x_a_config(mine)")
    db.value("SELECT tessera_detach(?)", (root,))
    same(db.query("SELECT name FROM temp.sqlite_schema WHERE name GLOB '*_config'"), [("x_a_config",)])
    db.close()


def test_keep():
    """keep writes a row of main, an ordinary table; tessera_attach() attaches it in another connection; detach forgets it."""
    db, root = made()
    db.close()
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "kept.db")
    db = Database(path)
    same((attach(db, root, keep=True, prefix="k_"), db.value("SELECT tessera_attach()")), (3, 3))
    db.close()
    plain = Database(path, load=False)   # any tool opens the file
    same(plain.query("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"), [("table", "tessera_kept")])
    same(plain.query("SELECT path FROM tessera_kept"), [(slashes(os.path.realpath(root)),)])
    plain.close()
    db = Database(path)
    same((names(db), db.value("SELECT tessera_attach()"), names(db)), ([], 3, ["k_a", "k_sub_b", "k_sub_c d"]))
    version = db.value("PRAGMA main.data_version"), db.value("SELECT total_changes()")
    same(attach(db, root, keep=True, prefix="k_"), 3)   # remembered already: main is not written
    same((db.value("PRAGMA main.data_version"), db.value("SELECT total_changes()")), version)
    os.rename(root, root + "-gone")
    check_contains(db.error("SELECT tessera_attach()").text, "which this database remembers: no group or array at ")
    same(len(names(db)), 3)
    same((db.value("SELECT tessera_detach(?)", (root,)), db.value("SELECT tessera_attach()"), db.query("SELECT * FROM tessera_kept")), (3, 0, []))
    db.close()


def test_odd_groups():
    """Groups in a circle, members that are missing, groups without members, and a member that two groups have."""
    db, root = made()
    db.query(f"SELECT tessera_add_member({literal(root + '/sub')}, {literal(root)}, 'up')")
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/sub/b')}, 'again')")
    array(db, root + "/gone")
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/gone')}, 'gone')")
    shutil.rmtree(root + "/gone")
    same(attach(db, root), 3)
    same(db.query("SELECT name, kind FROM tessera_attached ORDER BY 1"), [("a", "array"), ("again", "array"), ("gone", "missing"), ("sub_c d", "array")])
    bare = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "bare")
    group(db, bare)
    array(db, bare + "/data", 3)
    array(db, bare + "/metadata/headers", 4)
    same(attach(db, bare, prefix="b_"), 2)
    same([n for n in names(db) if n.startswith("b_")], ["b_data", "b_metadata_headers"])
    deep = inner = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "deep")
    group(db, deep)
    for i in range(5):
        group(db, f"{inner}/g")
        db.query(f"SELECT tessera_add_member({literal(inner)}, {literal(inner + '/g')}, 'g')")
        inner += "/g"
    array(db, inner + "/end")
    db.query(f"SELECT tessera_add_member({literal(inner)}, {literal(inner + '/end')}, 'end')")
    check_contains(db.error("SELECT tessera_attach(?, '{\"depth\":4}')", (deep,)).text, "more than 4 deep: raise the option 'depth'")
    same((attach(db, deep, depth=5), "g_g_g_g_g_end" in names(db)), (1, True))
    db.close()


@not_on_windows("groups with absolute paths")
def break_schema(path):
    """Damages an array so that it cannot be opened."""
    for name in os.listdir(path + "/__schema"):
        if os.path.isfile(f"{path}/__schema/{name}"):
            with open(f"{path}/__schema/{name}", "r+b") as file:
                file.truncate(3)
            os.utime(f"{path}/__schema/{name}", (1, 1))   # nobody is writing it


def test_members_that_changed_a_moment_ago():
    """A file that cannot be read, and is young, may still be written: attach waits until it is whole, or old enough to be damaged."""
    db, root = made()
    db.close()
    schemas = root + "/sub/b/__schema"
    path = next(os.path.join(schemas, name) for name in os.listdir(schemas) if os.path.isfile(os.path.join(schemas, name)))
    with open(path, "rb") as file:
        whole = file.read()
    with open(path, "r+b") as file:
        file.truncate(3)

    def finish():
        with open(path, "wb") as file:
            file.write(whole)
    writer = threading.Timer(0.4, finish)
    db = Database()
    writer.start()
    same((attach(db, root), db.value("SELECT v FROM sub_b")), (3, 1))
    writer.join()
    db.close()
    with open(path, "r+b") as file:
        file.truncate(3)
    young = time.time() - 4.5
    os.utime(path, (young, young))
    db = Database()
    check_contains(db.error("SELECT tessera_attach(?)", (root,)).text, "1 member of ")
    same((names(db), autocommit(db)), (["a", "sub_c d"], True))
    db.value("SELECT tessera_detach(?)", (root,))
    os.utime(path)
    ended = threading.Event()

    def stop():
        while not ended.wait(0.1):
            db.raw.interrupt()
    stopper = threading.Thread(target=stop)   # while it waits
    stopper.start()
    error = db.error("SELECT tessera_attach(?)", (root,))
    ended.set()
    stopper.join()
    check_contains(error.text, "interrupted")
    same((names(db), autocommit(db)), ([], True))
    db.close()


def test_members_that_fail():
    """The error names each member that cannot be opened, with the reason; the others are attached, also by what the file remembers, and tessera_attached tells."""
    db, root = made()
    array(db, root + "/bad one")
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/bad one')}, 'bad one')")
    group(db, root + "/torn")
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/torn')}, 'torn')")
    other = root + "-other"
    group(db, other, [("z", root + "/a"), ("lost", root + "/sub/b")])
    db.close()
    broken = [root + "/bad one", root + "/sub/b"]
    for path in broken:
        break_schema(path)
    torn = root + "/torn/__group/__1_1_0123456789abcdef0123456789abcdef_2"
    with open(torn, "wb") as file:
        file.write(b"torn")
    os.utime(torn, (1, 1))   # nobody is writing it
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "failing.db")
    for layout in ("auto", "plain"):
        db = Database(path)
        for _ in range(2):   # the second call finds the same
            text = db.error("SELECT tessera_attach(?, ?)", (root, json.dumps({"keep": True, "as": layout}))).text
            for part in ("tessera_attach: 3 members of ", " cannot be opened, the others are attached: ", "bad one: array ", "; sub/b: array ", "; torn: "):
                check_contains(text, part)
            same((names(db), db.value("SELECT v FROM a"), autocommit(db)), (["a", "sub_c d"], 0, True))
            same([(row[0], row[1], row[2] is not None) for row in db.query("SELECT name, kind, problem FROM tessera_attached ORDER BY 1")],
                 [("a", "array", False), ("bad one", "failed", True), ("sub_b", "failed", True), ("sub_c d", "array", False), ("torn", "failed", True)])
        db.close()
    db = Database(path)
    check_contains(db.error("SELECT tessera_attach(?, '{\"keep\":true,\"prefix\":\"o_\"}')", (other,)).text, "1 member of ")
    db.close()
    db = Database(path)
    text = db.error("SELECT tessera_attach()").text
    for part in ("2 rows of tessera_kept failed, the others are attached", "bad one: ", "sub/b: ", "torn: ", "lost: "):
        check_contains(text, part)
    same(names(db), ["a", "o_z", "sub_c d"])
    for way in broken:   # what is mended comes in at the next call
        shutil.rmtree(way)
        array(db, way, 9)
    shutil.rmtree(root + "/torn")
    same((attach(db, root), attach(db, other, prefix="o_"), db.value("SELECT v FROM sub_b"), db.value("SELECT count(*) FROM tessera_attached WHERE kind = 'failed'")), (4, 2, 9, 0))
    db.query("SELECT tessera_detach(?)", (root,))
    for way in (root + "/a", root + "/sub/b"):   # none is left of this group
        break_schema(way)
    db.close()
    db = Database()
    text = db.error("SELECT tessera_attach(?)", (other,)).text
    check_contains(text, "2 members of ")
    same(("the others" in text, db.query("SELECT * FROM tessera_attached"), db.query("SELECT * FROM temp.sqlite_schema")), (False, [], []))


def test_a_single_array_that_fails():
    db, root = made()
    db.close()
    break_schema(root + "/a")
    db = Database()
    text = db.error("SELECT tessera_attach(?)", (root + "/a",)).text
    same(("member" in text, text.startswith("tessera_attach: array ")), (False, True), text)


def test_tables_of_other_people():
    """A table of the user's that has the name of one in which attach remembers is not taken for it, and the error says what to do."""
    for make in ("CREATE TABLE tessera_kept(a)", "CREATE TABLE tessera_kept(path TEXT)", "CREATE VIRTUAL TABLE tessera_kept USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32)", "CREATE VIEW tessera_kept AS SELECT 1 AS path, 2 AS options"):
        db, root = made()
        db.query(make)
        before = db.query("SELECT * FROM main.sqlite_schema")
        for call in ("SELECT tessera_attach()", f"SELECT tessera_attach({literal(root)}, '{{\"keep\":true}}')", f"SELECT tessera_detach({literal(root)})"):
            text = db.error(call).text
            check_contains(text, "main.tessera_kept is not the table that tessera makes")
            check_contains(text, "rename it")
        same((attach(db, root), db.query("SELECT * FROM main.sqlite_schema")), (3, before))
        db.close()
    for make in ("CREATE TABLE temp.tessera_attachments(a)", "CREATE VIEW temp.tessera_attachments AS SELECT 1"):
        db, root = made()
        db.query(make)
        for call in (f"SELECT tessera_attach({literal(root)})", "SELECT * FROM tessera_attached"):
            check_contains(db.error(call).text, "temp.tessera_attachments is not the table that tessera makes")
        db.close()


def test_restrict():
    """What tessera_restrict keeps out is missing."""
    db, root = made()
    outside = tempfile.mkdtemp(dir=host.FOLDER)
    array(db, outside + "/far", 9)
    db.query(f"SELECT tessera_add_member({literal(root)}, {literal(outside + '/far')}, 'far')")
    same(attach(db, root), 4)
    db.value("SELECT tessera_detach(?)", (root,))
    db.query(f"SELECT tessera_restrict({literal(root)})")
    same((attach(db, root), db.query("SELECT name FROM tessera_attached WHERE kind = 'missing'")), (3, [("far",)]))
    assert db.error("SELECT tessera_attach(?)", (outside,))
    db.close()


def test_cf():
    """Variables with coordinates beside them show these as labels in the place of their dimensions; packed values are marked."""
    db, root = Database(), os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "cf")
    group(db, root)
    array(db, root + "/lat", None, "kind=dense, lat INT32 DIMENSION(0, 3, 4), lat_2 FLOAT64")
    array(db, root + "/t2m", None, "kind=dense, lat INT32 DIMENSION(0, 3, 4), day INT32 DIMENSION(0, 1, 2), kelvin FLOAT32")
    array(db, root + "/rain", None, "kind=dense, lat INT32 DIMENSION(0, 3, 4), mm INT16")
    for name in ("lat", "t2m", "rain"):
        db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/' + name)}, {literal(name)})")
    db.query(f"SELECT tessera_set_metadata({literal(root + '/rain')}, '__tiledb_attr.mm.scale_factor', 0.1)")
    same(attach(db, root), 3)
    same(db.query("SELECT name, semantics FROM tessera_attached ORDER BY 1"), [("lat", "cf"), ("rain", "packed"), ("t2m", "cf")])
    db.query("INSERT INTO lat(lat_index, lat) VALUES(0, 47.5), (1, 47.0), (2, 46.5), (3, 46.0)")
    db.query("INSERT INTO t2m(lat_index, day, kelvin) VALUES(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 4), (3, 1, 5)")
    same(db.query("SELECT * FROM t2m WHERE lat < 47 AND kelvin IS NOT NULL ORDER BY lat DESC, day"), [(46.5, 0, 3.0), (46.0, 0, 4.0), (46.0, 1, 5.0)])
    same([c[1] for c in db.query("PRAGMA table_info(t2m)")], ["lat", "day", "kelvin"])
    same(db.query("SELECT * FROM lat WHERE lat > 47"), [(0, 47.5)])
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT lat, sum(kelvin) AS k FROM t2m WHERE lat <= 46.5 GROUP BY lat)")
    same(db.query("SELECT * FROM q ORDER BY 1"), [(46.0, 9.0), (46.5, 3.0)])
    db.value("SELECT tessera_detach(?)", (root,))
    same((attach(db, root, **{"as": "plain"}), [c[1] for c in db.query("PRAGMA table_info(t2m)")]), (3, ["lat", "day", "kelvin"]))
    same(db.query("SELECT lat FROM t2m WHERE kelvin = 3"), [(2,)])
    db.close()


def test_cf_of_labels():
    """Variables that declare labels themselves need no layout; those that are packed are marked, too."""
    db, root = Database(), os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "cf")
    group(db, root)
    for name in ("t2m", "rain"):
        array(db, f"{root}/{name}", None, "kind=dense, lat_index INT32 DIMENSION(0, 3, 4) LABEL lat FLOAT64, v INT16")
        db.query(f"SELECT tessera_add_member({literal(root)}, {literal(root + '/' + name)}, {literal(name)})")
    db.query(f"SELECT tessera_set_metadata({literal(root + '/rain')}, '__tiledb_attr.v.add_offset', 5)")
    same(attach(db, root), 2)
    same(db.query("SELECT name, semantics FROM tessera_attached ORDER BY 1"), [("rain", "packed"), ("t2m", "plain")])
    db.close()


def grouped(rows):
    return sorted((t, n, round(s, 3)) for t, n, s in rows)


def test_soma():
    """Experiments that tiledbsoma wrote: values by cell type, for all genes and for one, are what pandas says; by rows and by columns."""
    with open(corpus("soma/said.json"), encoding="utf-8") as f:
        said = json.load(f)
    tables = {"one": ["X", "X_data", "obs", "obsm_pca", "obsp_distances", "var"], "zero": ["X", "X_data", "obs", "obsm_pca", "obsp_distances", "var"],
              "three": sorted(["obs", *(f"{m}_{t}" for m in ("RNA", "ADT", "HTO") for t in ("X_data", "X_raw", "obsm_pca", "obsp_distances", "var"))])}
    for name, expected in tables.items():
        db = Database()
        same((attach(db, corpus(f"soma/{name}")), names(db)), (len(expected), expected))
        for key, values in said[name].items():
            measurement, layer = key.split("/")
            x = f"X_{layer}" if name != "three" else f"{measurement}_X_{layer}"
            for turn, (which, where) in enumerate((("all", "1"), ("one", f"var_id = '{measurement}-g3'"))):
                sql = f"SELECT cell_type, count(*) AS n, sum(value) AS s FROM {x} WHERE {where} GROUP BY cell_type"
                same(grouped(db.query(f"{sql} ORDER BY 1")), grouped(values[which]), f"{name} {key} {which}")
                db.query(f"CREATE VIRTUAL TABLE temp.q{turn} USING tessera_query({sql})")
                same(grouped(db.query(f"SELECT * FROM q{turn} ORDER BY 1")), grouped(values[which]), f"{name} {key} {which} over columns")
                db.query(f"DROP TABLE q{turn}")
        db.close()


def test_soma_columns():
    """Columns have names that say what they count, and labels of obs and var."""
    db, path = Database(), corpus("soma/one")
    attach(db, path)
    same([c[1] for c in db.query("PRAGMA table_info(X)")], ["obs_joinid", "var_joinid", "value"])
    same([c[1] for c in db.query("PRAGMA table_info(obsm_pca)")], ["obs_joinid", "component", "value"])
    same([c[1] for c in db.query("PRAGMA table_info(obsp_distances)")], ["obs_joinid", "obs_joinid_2", "value"])
    same(db.query("SELECT obs_joinid, var_joinid, obs_id, cell_type, batch, obs_mean, var_id, var_mean FROM X ORDER BY 1, 2"),
         db.query("SELECT x.obs_joinid, x.var_joinid, o.obs_id, o.cell_type, o.batch, o.mean, v.var_id, v.mean FROM X x JOIN obs o ON o.soma_joinid = x.obs_joinid "
                  "JOIN var v ON v.soma_joinid = x.var_joinid ORDER BY 1, 2"))
    same(db.query("SELECT DISTINCT component, batch FROM obsm_pca WHERE batch = 'b1' ORDER BY 1"), [(0, "b1"), (1, "b1")])
    same(db.value("SELECT count(*) FROM obsp_distances WHERE batch <> 'b1'"), db.value("SELECT count(*) FROM obsp_distances WHERE obs_joinid % 3 <> 1"))
    db.value("SELECT tessera_detach(?)", (path,))
    three = corpus("soma/three")
    same((attach(db, three, measurement="ADT"), names(db)), (7, ["X", "X_data", "X_raw", "obs", "obsm_pca", "obsp_distances", "var"]))
    same(db.query("SELECT obs_id, var_id, value FROM X ORDER BY 1, 2"), db.query("SELECT obs_id, var_id, value FROM X_data ORDER BY 1, 2"))
    assert db.query("SELECT value FROM X ORDER BY 1") != db.query("SELECT value FROM X_raw ORDER BY 1")
    check_contains(db.error("SELECT tessera_attach(?, '{\"measurement\":\"nothing\"}')", (three,)).text, "has no measurement nothing (it has ADT, HTO, RNA)")
    db.value("SELECT tessera_detach(?)", (three,))
    same((attach(db, path + "/ms/RNA", prefix="m_"), names(db)), (5, ["m_X", "m_X_data", "m_obsm_pca", "m_obsp_distances", "m_var"]))   # without obs
    same(db.value("SELECT count(*) FROM m_X WHERE var_id = 'RNA-g3'"), db.value("SELECT count(*) FROM m_X WHERE var_joinid = 3"))
    db.close()


def test_soma_by_other_indexes():
    """The joinid may be an attribute, when obs is indexed by names; a frame with several indexes, and an array of three dimensions, have no labels."""
    db, root = Database(), os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "exp")
    def member(within, name, definition=None, rows=""):
        path = f"{within}/{name}"
        if definition:
            db.query(f"CREATE VIRTUAL TABLE making USING tessera({literal(path)}, {definition})")
            db.query(f"INSERT INTO making VALUES {rows}")
            db.query("DROP TABLE making")
        else:
            group(db, path)
        db.query(f"SELECT tessera_add_member({literal(within)}, {literal(path)}, {literal(name)})")
        return path
    group(db, root)
    db.query(f"SELECT tessera_set_metadata({literal(root)}, 'soma_object_type', 'SOMAExperiment')")
    member(root, "obs", "obs_id TEXT DIMENSION, soma_joinid INT64, batch TEXT", "('c0', 2, 'a'), ('c1', 0, 'b'), ('c2', 1, 'a')")
    rna = member(member(root, "ms"), "RNA")
    member(rna, "var", "soma_joinid INT64 DIMENSION, var_id TEXT DIMENSION, size INT32", "(0, 'g0', 5), (1, 'g1', 6)")
    x = member(rna, "X")
    member(x, "data", "soma_dim_0 INT64 DIMENSION, soma_dim_1 INT64 DIMENSION, soma_data FLOAT32", "(0, 0, 1.5), (1, 1, 2.5), (2, 0, 4)")
    member(x, "cube", "soma_dim_0 INT64 DIMENSION, soma_dim_1 INT64 DIMENSION, soma_dim_2 INT64 DIMENSION, soma_data FLOAT32", "(0, 0, 0, 1.5)")
    same((attach(db, root), names(db)), (5, ["X", "X_cube", "X_data", "obs", "var"]))
    same(db.query("SELECT obs_joinid, obs_id, batch, value FROM X_data ORDER BY 1"), [(0, "c1", "b", 1.5), (1, "c2", "a", 2.5), (2, "c0", "a", 4.0)])
    same(db.query("SELECT value FROM X_data WHERE obs_id = 'c0'"), [(4.0,)])
    assert "no such column" in db.error("SELECT var_id FROM X_data").text
    same([c[1] for c in db.query("PRAGMA table_info(X_cube)")], ["soma_dim_0", "soma_dim_1", "soma_dim_2", "soma_data"])
    db.value("SELECT tessera_detach(?)", (root,))
    db.query(f"SELECT tessera_drop_member({literal(x)}, 'data')")
    member(x, "raw", "soma_dim_0 INT64 DIMENSION, soma_dim_1 INT64 DIMENSION, soma_data FLOAT32", "(0, 0, 2)")
    same((attach(db, root), names(db)), (4, ["X_cube", "X_raw", "obs", "var"]))   # none of two layers is AnnData's X
    db.close()


if __name__ == "__main__":
    sys.exit(host.main(sys.modules[__name__]))
