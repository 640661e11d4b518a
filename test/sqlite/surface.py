"""The names that users call, and the rules that hold for all of them: the array comes first and is a path, of two paths the first is the source,
options are JSON and come last, NULL as a value takes away, booleans have the same words everywhere.

usage: surface.py EXTENSION ARRAYS
"""
import json
import os
import struct
import sys

from host import Database, check_contains, folder, literal, main, same
import host

NOT_FOUND, ERROR, MISMATCH = 14, 1, 20


def path(name):
    return os.path.join(host.FOLDER, name).replace(os.sep, "/")


def group(db, where):
    """A group with an array, a group with an array in it, an array elsewhere, and a member that is gone."""
    for part in ("", "/inner"):
        db.query("SELECT tessera_create_group(?)", (where + part,))
    for array in (where + "/a", where + "/inner/b", where + "-far", where + "/gone", where + "/stranger"):
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(array)}, x INT32 DIMENSION(0, 99), v INT32)")
        db.query("DROP TABLE t")
    for of, member in ((where, "/a"), (where, "/inner"), (where + "/inner", "/inner/b"), (where, "-far"), (where, "/gone")):
        db.query("SELECT tessera_add_member(?, ?)", (of, where + member))
    db.query("SELECT tessera_drop(?)", (where + "/gone",))


def test_drop_takes_a_group_with_its_members():
    db = Database()
    where = path("g")
    group(db, where)
    check_contains(db.error("SELECT tessera_drop(?)", (where,)).text, "has members (4)")   # the one that is gone counts, too
    check_contains(db.error("SELECT tessera_drop(?, '{\"members\":false}')", (where,)).text, '"members":true')
    same(db.value("SELECT count(*) FROM tessera_members(?)", (where,)), 4)
    same(db.value("SELECT tessera_drop(?, '{\"members\":true}')", (where,)), 4, "g, a, inner, b")
    same(sorted(os.listdir(where)), ["stranger"], "what was no member stays")
    same(db.query("SELECT kind FROM tessera_objects(?)", (path("."),)), [("array",), ("array",)], "as does what lies elsewhere")
    same(db.error("SELECT tessera_drop(?)", (where,)).code in (None, NOT_FOUND), True)


def test_drop_takes_an_empty_group_and_its_directory():
    db = Database()
    where = path("empty")
    db.query("SELECT tessera_create_group(?)", (where,))
    db.query("SELECT tessera_set_metadata(?, 'k', 1)", (where,))
    same(db.value("SELECT tessera_drop(?)", (where,)), 1)
    same(os.path.exists(where), False)
    db.query("SELECT tessera_create_group(?)", (where,))
    same(db.value("SELECT count(*) FROM tessera_metadata(?)", (where,)), 0, "nothing comes back")


def test_an_interrupted_drop_of_a_group_goes_on():
    db = Database()
    where = path("half")
    db.query("SELECT tessera_create_group(?)", (where,))
    os.remove(where + "/__tiledb_group.tdb")
    os.rename(where + "/__group", where + "/.dropped__group")
    same(db.query("SELECT * FROM tessera_objects(?)", (where,)), [])
    same(db.value("SELECT tessera_drop(?)", (where,)), 1)
    same(os.path.exists(where), False)
    check_contains(db.error("SELECT tessera_drop(?)", (where,)).text, "no such directory")


def test_drop_does_nothing_while_rows_wait():
    db = Database()
    where = path("busy")
    group(db, where)
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(where + '/inner/b')})")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(1, 1)")
    check_contains(db.error("SELECT tessera_drop(?, '{\"members\":true}')", (where,)).text, "commit first")
    db.query("COMMIT")
    same(db.value("SELECT count(*) FROM t"), 1)
    same(os.path.isdir(where + "/a/__schema"), True, "nothing was dropped")


def test_sync_goes_from_anywhere_to_anywhere():
    db = Database(path("sync.db"))
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 99), v TEXT)")
    db.query("INSERT INTO t VALUES(1, 'a')")
    db.query("INSERT INTO t VALUES(2, 'b')")
    rows = db.query("SELECT * FROM t")
    copied = lambda *places: json.loads(db.value("SELECT tessera_sync(?, ?)", places))["copied"]
    same(copied("db:t", path("out")) > 3, True)
    same(copied(path("out"), "db:back") > 3, True)
    same(copied(path("out"), path("again")) > 3, True)
    same(copied("db:t", "DB:copy") > 3, True)
    for where in ("db:back", path("again"), "db:copy"):
        same(db.value("SELECT fragments FROM tessera_array(?)", (where,)), 2, where)
    same(db.query("SELECT * FROM back"), rows)
    for to in (path("out"), path("again"), "db:back"):
        same(copied("db:t", to), 0)
    db.query("CREATE TABLE ordinary(x)")
    check_contains(db.error("SELECT tessera_sync('db:t', 'db:ordinary')").text, "already exists")
    os.mkdir(path("full"))
    with open(path("full/file"), "w"):
        check_contains(db.error("SELECT tessera_sync('db:t', ?)", (path("full"),)).text, "already")
    check_contains(db.error("SELECT tessera_sync('t', ?)", (path("new"),)).text, "the table t is 'db:t'")
    same(db.error("SELECT tessera_sync('db:t', NULL)").code in (None, MISMATCH), True)
    same(db.error("SELECT tessera_sync(NULL, 'db:new')").code in (None, MISMATCH), True)


def test_null_takes_a_key_of_the_metadata_away():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 99), v INT32)")
    db.query("SELECT tessera_create_group(?)", (path("g"),))
    for where in ("db:t", path("g")):
        db.query("SELECT tessera_set_metadata(?, 'k', 1)", (where,))
        same(db.value("SELECT tessera_set_metadata(?, 'k', NULL)", (where,)), 1, where)
        same(db.value("SELECT tessera_set_metadata(?, 'k', NULL, 'INT8')", (where,)), 0, where)
        same(db.query("SELECT key FROM tessera_metadata(?)", (where,)), [])
    same(db.error("SELECT tessera_set_metadata('db:t', NULL, NULL)").code in (None, MISMATCH), True)
    check_contains(db.error("SELECT tessera_set_metadata('db:t', 'k', NULL, 'INTEGERS')").text, "not a datatype")


def test_what_is_an_argument_or_an_option():
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(path('a'))}, x INT32 DIMENSION(0, 99), v INT32)")
    for call in ("('db:t', 'commits')", "('db:t', '{\"what\":\"commits\"}')", "('db:t', NULL, '{\"what\":\"commits\"}')", "('db:t', ' {\"what\":\"commits\",\"memory_mb\":9}')"):
        for x in (1, 2):
            db.query("INSERT INTO t VALUES(?, 1)", (x,))
        same(db.value("SELECT tessera_consolidate" + call) > 1, True, call)
        same(db.value("SELECT tessera_vacuum" + call.replace(',"memory_mb":9', ',"grace_s":0')) > 1, True, call)
        db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    for name in ("consolidate", "vacuum"):
        check_contains(db.error(f"SELECT tessera_{name}('db:t', 'commits', '{{\"what\":\"commits\"}}')").text, "twice")
        check_contains(db.error(f"SELECT tessera_{name}('db:t', '{{\"what\":\"rows\"}}')").text, "expected fragments, commits")
        same(db.error(f"SELECT tessera_{name}('db:t', '{{\"what\":1}}')").code in (None, MISMATCH), True)


def test_ddl_takes_options():
    db = Database()
    key = bytes(range(32)).hex()
    db.query("SELECT tessera_set_key(?, ?)", (path("secret"), key))
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(path('secret'))}, encryption=aes_256_gcm, x INT32 DIMENSION(0, 99), v INT32)")
    time = db.value("SELECT max(0, coalesce(last_write, 0)) + 9999999999999 FROM tessera_array('db:t')")
    db.query("DROP TABLE t")
    other = Database()
    same(other.error("SELECT tessera_ddl(?)", (path("secret"),)).code in (None, 23), True)
    text = other.value("SELECT tessera_ddl(?, ?)", (path("secret"), json.dumps({"array_key": key, "as_of": time})))
    check_contains(text, "v INT32")
    check_contains(other.error("SELECT tessera_ddl(?, ?)", (path("secret"), key)).text, "JSON object")
    same(other.error("SELECT tessera_ddl(?, '{\"array_key\":\"short\"}')", (path("secret"),)).code in (None, 23), True)


def test_hidden_columns_have_the_names_of_their_arguments():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, x INT32 DIMENSION(0, 9, 5), v INT32, e TEXT ENUM('a'))")
    db.query("INSERT INTO t VALUES(3, 4, 'a'), (7, 5, 'a')")
    same(db.query("SELECT sum FROM tessera_aggregate WHERE array_path = 'db:t' AND attribute = 'v' AND slice = '{\"x\":7}'"), [(5,)])
    same(db.query("SELECT key1, sum FROM tessera_aggregate WHERE array_path = 'db:t' AND attribute = 'v' AND by = 'x' AND count > 0"), [(3, 4), (7, 5)])
    same(len(db.query("SELECT slice FROM tessera_partitions WHERE array_path = 'db:t' AND parts = 2 AND within = '{\"x\":[0,9]}'")), 2)
    same(db.query("SELECT label FROM tessera_enumeration WHERE array_path = 'db:t' AND attribute = 'e'"), [("a",)])
    modules = [name for name, in db.query("SELECT name FROM pragma_module_list WHERE name LIKE 'tessera_%'")]
    for module in modules:
        columns = db.query("SELECT name, hidden FROM pragma_table_xinfo(?)", (module,))
        hidden = [name for name, is_hidden in columns if is_hidden]
        if "array_path" in hidden:
            same((hidden[0], hidden[-4:]), ("array_path", ["array_key", "as_of", "since", "array_schema"]), module)


def test_rows_of_tables_without_create_have_numbers():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9), v INT32)")
    db.query("INSERT INTO t VALUES(1, 10), (2, 20), (3, 30)")
    for table, count in (("tessera_select('SELECT x FROM t')", 3), ("tessera_explain('SELECT x FROM t UNION SELECT max(v) FROM t')", 2), ("tessera_schema('db:t')", 2), ("tessera_log('db:t')", 1)):
        numbers = [n for n, in db.query(f"SELECT rowid FROM {table}")]
        same(len(numbers), count, table)
        same(numbers, list(range(numbers[0], numbers[0] + count)), table)
    db.query("CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)")
    same(len({n for n, in db.query("SELECT rowid FROM temp.c(1)")}), 3, "tessera_changes")


def test_a_value_may_be_the_bytes_of_its_datatype():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 3, 4) LABEL lat FLOAT32 LABEL n INT16, v INT32)")
    db.query("SELECT tessera_write_label('db:t', 'lat', '[0.5, 1.5, 2.5, 4]'), tessera_write_label('db:t', 'n', '[-3, 0, 5, 300]')")
    for label, kind, value, y in (("lat", "f", 1.6, 1), ("lat", "f", 3.5, 3), ("n", "h", -300, 0), ("n", "h", 299, 3)):
        same(db.query("SELECT tessera_nearest('db:t', ?, ?), tessera_nearest('db:t', ?, ?)", (label, value, label, struct.pack("<" + kind, value))), [(y, y)], (label, value))
    same(db.value("SELECT tessera_nearest('db:t', 'lat', 3.5, 'nearest', 0.25)"), None, "0.5 away from FLOAT32")
    same(db.value("SELECT tessera_nearest('db:t', 'lat', 3.5, 'nearest', 0.5)"), 3)
    check_contains(db.error("SELECT tessera_nearest('db:t', 'lat', x'00')").text, "label 'lat': expected one value of FLOAT32")


def test_an_array_is_a_path_and_never_a_bare_name():
    """Every function that takes a path takes 'db:t', and says so if it gets the name of a table."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 99), v INT32)")
    for call in ("tessera_add_attribute('t', 'w INT8')", "tessera_drop_attribute('t', 'v')", "tessera_set_metadata('t', 'k', 1)", "tessera_consolidate('t')",
                 "tessera_vacuum('t')", "tessera_copy('t', 'db:u')", "tessera_sync('t', 'db:u')", "tessera_recover('t')", "tessera_lease('t', 1)",
                 "tessera_ddl('t')", "tessera_npy('t', 'v')", "tessera_stream('t')", "tessera_expand_domain('t', '{}')"):
        error = db.error("SELECT " + call)
        same(error.code in (None, NOT_FOUND), True, call)
        check_contains(error.text, "the table t is 'db:t'")


def test_options_are_json_objects():
    """The last argument of every function that takes options: an unknown name lists the names, another form is no option."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, x INT32 DIMENSION(0, 99, 10), y INT32 DIMENSION(0, 99, 10), v INT32)")
    db.query("INSERT INTO t VALUES(1, 1, 1)")
    calls = {"tessera_copy('db:t', 'db:u', %s)", "tessera_regrid('db:t', 'db:u', '{\"x\":2}', 'mean', %s)", "tessera_make_overviews('db:t', %s)",
             "tessera_recover('db:t', %s)", "tessera_drop('nothing', %s)", "tessera_ddl('db:t', %s)", "tessera_npy('db:t', 'v', NULL, %s)",
             "tessera_png('db:t', 'v', NULL, %s)", "tessera_stream('db:t', NULL, %s)", "tessera_rows('SELECT 1', %s)", "tessera_consolidate('db:t', NULL, %s)",
             "tessera_vacuum('db:t', NULL, %s)", "tessera_create_as('db:u', 'SELECT 1 AS x', %s)", "tessera_configure('s3://b', %s)"}
    for call in sorted(calls):
        check_contains(db.error("SELECT " + call % "'{\"nothing\":1}'").text, "no option is called 'nothing'")
        for wrong in ("'disown'", "'[1]'", "7"):
            same(db.error("SELECT " + call % wrong).code in (None, MISMATCH), True, f"{call} with {wrong}")


def test_booleans_have_the_same_words_everywhere():
    db = Database()
    for word in ("yes", "no", "true", "false", "on", "off", "1", "0", "YES", "Off"):
        db.query(f"CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 99), v INT32, duplicates={word})")
        same(db.value("SELECT duplicates FROM tessera_array('db:t')"), int(word.lower() in ("yes", "true", "on", "1")), word)
        db.query("DROP TABLE t")
    check_contains(db.error("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 99), v INT32, duplicates=2)").text, "'duplicates'")


if __name__ == "__main__":
    main(sys.modules[__name__])
