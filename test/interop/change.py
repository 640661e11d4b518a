"""The functions that change metadata, schemas and groups: TileDB reads what they have written, and they work on what
TileDB has changed.

usage: change.py SHELL EXTENSION      (77: the package `tiledb` is not installed)
"""
import os
import sys
import time

from cases import Cases
from create import Failed, sql

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None

def equal(what, got, wanted):
    if repr(got) != repr(wanted):
        raise Failed(f"{what}\n  got    {got!r}\n  wanted {wanted!r}")


class Session:
    def __init__(self, shell, extension, folder):
        self.shell, self.extension, self.folder = shell, extension, folder

    def __call__(self, *statements):
        return sql(self.shell, self.extension, list(statements))

    def path(self, name):
        return os.path.join(self.folder, name)

    def fails(self, statement, *words):
        try:
            self(statement)
        except Failed as e:
            if not all(word in str(e) for word in words):
                raise Failed(f"{statement}: fails with {e}, wanted are the words {words}") from None
            return
        raise Failed(f"{statement}: did not fail")


def create_sparse(path, **options):
    domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 99), tile=10, dtype="int32"))
    attributes = [tiledb.Attr("v", dtype="float64"), tiledb.Attr("w", dtype="int32", nullable=True)]
    tiledb.Array.create(path, tiledb.ArraySchema(domain, attributes, sparse=True, **options))
    with tiledb.open(path, "w") as a:
        a[[1, 5]] = {"v": numpy.array([1.5, 2.5]), "w": numpy.array([7, 8], dtype="int32")}


def check_metadata(s):
    path = s.path("meta")
    create_sparse(path)
    with tiledb.open(path, "w") as a:
        a.meta["theirs"] = 42
        a.meta["gone"] = "x"
    s(f"SELECT tessera_set_metadata('{path}', 'i', 9223372036854775807)", f"SELECT tessera_set_metadata('{path}', 'f', 0.1)",
      f"SELECT tessera_set_metadata('{path}', 't', 'größe')", f"SELECT tessera_set_metadata('{path}', 'b', x'00ff')",
      f"SELECT tessera_set_metadata('{path}', 'list', '[1,2,3]', 'uint16')", f"SELECT tessera_set_metadata('{path}', 'f32', 1.5, 'FLOAT32')",
      f"SELECT tessera_set_metadata('{path}', '', '')", f"SELECT tessera_set_metadata('{path}', 'i', 5)")
    equal("deleted", s(f"SELECT tessera_set_metadata('{path}', 'gone', NULL) AS n"), [{"n": 1}])
    equal("deleted again", s(f"SELECT tessera_set_metadata('{path}', 'gone', NULL) AS n"), [{"n": 0}])
    with tiledb.open(path) as a:
        meta = {k: a.meta[k] for k in a.meta}
    equal("keys", sorted(meta), ["", "b", "f", "f32", "i", "list", "t", "theirs"])
    equal("values", [meta[k] for k in ("b", "f", "f32", "i", "t", "theirs")], [b"\x00\xff", 0.1, 1.5, 5, "größe", 42])
    equal("list", tuple(meta["list"]), (1, 2, 3))
    with tiledb.open(path, "w") as a:
        a.meta["i"] = 6
    equal("theirs is newer", s(f"SELECT value FROM tessera_metadata('{path}') WHERE key = 'i'"), [{"value": 6}])
    s.fails(f"SELECT tessera_set_metadata('{path}', 'n', 1, 'INTEGERS')", "INTEGERS", "datatype")
    s.fails(f"SELECT tessera_set_metadata('{path}', 'n', 300, 'INT8')", "300", "INT8")
    s.fails(f"SELECT tessera_set_metadata('{s.path('nothing')}', 'n', 1)", "not found")


def attributes(path):
    schema = tiledb.ArraySchema.load(path)
    return [(schema.attr(i).name, str(schema.attr(i).dtype), schema.attr(i).isnullable) for i in range(schema.nattr)]


def check_evolution(s):
    path = s.path("evolve")
    create_sparse(path)
    s(f"SELECT tessera_add_attribute('{path}', 'note TEXT')", f"SELECT tessera_add_attribute('{path}', 'q INT16 NOT NULL DEFAULT -3 FILTERS(lz4)')",
      f"SELECT tessera_add_attribute('{path}', 'g TEXT ENUM(''a'',''b'')')", f"SELECT tessera_drop_attribute('{path}', 'w')")
    equal("attributes", attributes(path), [("v", "float64", False), ("note", "<U0", True), ("q", "int16", False), ("g", "uint16", True)])
    with tiledb.open(path) as a:
        equal("old cells", a.query(attrs=["q"])[:]["q"].tolist(), [-3, -3])
        equal("labels", list(a.enum("g").values()), ["a", "b"])
    equal("rows", s(f"CREATE VIRTUAL TABLE t USING tessera('{path}', unwritten=fill)", "SELECT x, v, note, q, g FROM t"),
          [{"x": 1, "v": 1.5, "note": None, "q": -3, "g": None}, {"x": 5, "v": 2.5, "note": None, "q": -3, "g": None}])
    equal("extended", s(f"SELECT tessera_extend_enumeration('{path}', 'g', 'c', 'größer') AS n"), [{"n": 2}])
    with tiledb.open(path) as a:
        equal("more labels", list(a.enum("g").values()), ["a", "b", "c", "größer"])
    change = tiledb.ArraySchemaEvolution()
    change.add_attribute(tiledb.Attr("theirs", dtype="int64"))
    change.timestamp(int(time.time() * 1000) + 1)
    change.array_evolve(path)
    time.sleep(0.01)
    s(f"SELECT tessera_drop_attribute('{path}', 'g')")
    equal("after both", [a[0] for a in attributes(path)], ["v", "note", "q", "theirs"])
    s.fails(f"SELECT tessera_add_attribute('{path}', 'w FLOAT32')", "w", "was here before")  # not the datatype that the name had before
    change = tiledb.ArraySchemaEvolution()   # TileDB does not check that
    change.add_attribute(tiledb.Attr("w", dtype="float32", nullable=True))
    change.timestamp(int(time.time() * 1000) + 1)
    change.array_evolve(path)
    time.sleep(0.01)
    s(f"SELECT tessera_add_attribute('{path}', 'deep INT32')")
    with tiledb.open(path, "w") as a:
        a[[7]] = {"v": numpy.array([3.5]), "note": numpy.array(["n"], dtype="O"), "q": numpy.array([1], dtype="int16"), "theirs": numpy.array([2]),
                  "w": numpy.array([0.5], dtype="float32"), "deep": numpy.array([4], dtype="int32")}
    rows = s(f"CREATE VIRTUAL TABLE t USING tessera('{path}')", "SELECT x, w, deep, theirs FROM t")
    equal("rows of all", rows, [{"x": 1, "w": None, "deep": None, "theirs": None}, {"x": 5, "w": None, "deep": None, "theirs": None},
                                {"x": 7, "w": 0.5, "deep": 4, "theirs": 2}])
    s(f"SELECT tessera_add_attribute('{path}', 'scaled FLOAT32 FILTERS(scale_float(2, 0.5, -1), bzip2(9))')")
    scale = tiledb.ArraySchema.load(path).attr("scaled").filters[0]
    equal("scale_float", [scale.bytewidth, scale.factor, scale.offset], [2, 0.5, -1.0])
    s.fails(f"SELECT tessera_add_attribute('{path}', 'v INT8')", "v")
    s.fails(f"SELECT tessera_add_attribute('{path}', 'd INT8 DIMENSION')", "dimension")
    s.fails(f"SELECT tessera_add_attribute('{path}', 'd INT8 FILTERS(scale_float)')", "d", "scale_float")
    s.fails(f"SELECT tessera_drop_attribute('{path}', 'x')", "x")
    s.fails(f"SELECT tessera_drop_attribute('{path}', 'nothing')", "nothing")
    s.fails(f"SELECT tessera_extend_enumeration('{path}', 'nothing', 'a')", "nothing")
    only = s.path("only")
    domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 9), tile=10, dtype="int32"))
    tiledb.Array.create(only, tiledb.ArraySchema(domain, [tiledb.Attr("v", dtype="int8")]))
    s.fails(f"SELECT tessera_drop_attribute('{only}', 'v')", "only attribute")
    s.fails(f"SELECT tessera_expand_domain('{only}', '{{\"x\":[0,9]}}')", "no current domain")


def check_enumerations(s):
    path = s.path("enum")
    s(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT32 DIMENSION(0, 9), small INT64 ENUM(1, 2), e TEXT ENUM('a') ORDERED)")
    s(f"SELECT tessera_extend_enumeration('{path}', 'small', 3, 4)", f"SELECT tessera_extend_enumeration('{path}', 'e', 'b')")
    with tiledb.open(path) as a:
        equal("numbers", [int(v) for v in a.enum("small").values()], [1, 2, 3, 4])
        equal("ordered", (list(a.enum("e").values()), a.enum("e").ordered), (["a", "b"], True))
    s.fails(f"SELECT tessera_extend_enumeration('{path}', 'e', 'c', 'b')", "b")
    s.fails(f"SELECT tessera_extend_enumeration('{path}', 'small', 'x')", "x")
    s.fails(f"SELECT tessera_extend_enumeration('{path}', 'e', NULL)", "NULL")
    equal("as before", s(f"SELECT label FROM tessera_enumeration('{path}', 'e')"), [{"label": "a"}, {"label": "b"}])


def check_codes_without_labels(s):
    """A code without a label reads as NULL, and IS NULL finds it. TileDB writes such codes, negative ones too, into attributes that are not nullable."""
    def write(path, xs, codes, dtype, sparse):
        with tiledb.open(path, "w") as a:
            a[numpy.array(xs, dtype="int32") if sparse else slice(xs[0], xs[-1] + 1)] = numpy.array(codes, dtype=dtype)

    for dtype, stray, sparse in (("int32", -1, True), ("int8", -128, True), ("uint8", 2, True), ("int64", 2 ** 40, True), ("int32", -1, False), ("uint8", 2, False)):
        path = s.path(f"codes_{dtype}_{stray}_{sparse}")
        labels = tiledb.Enumeration("labels", False, numpy.array(["a", "b"]))
        domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 9), tile=5, dtype="int32"))
        tiledb.Array.create(path, tiledb.ArraySchema(domain, [tiledb.Attr("e", dtype=dtype, enum_label="labels")], sparse=sparse, **{"enums": [labels]}))
        write(path, [0, 1], [0, 1], dtype, sparse)
        table, not_null = f"CREATE VIRTUAL TABLE t USING tessera('{path}')", "SELECT \"notnull\" AS n FROM pragma_table_info('t') WHERE name = 'e'"
        equal("proven", s(table, not_null), [{"n": int(sparse)}])
        write(path, [2, 3], [stray, 0], dtype, sparse)
        equal("not proven", s(table, not_null), [{"n": 0}])
        equal("labels", s(table, "SELECT x, e FROM t WHERE x < 4 ORDER BY x"), [{"x": 0, "e": "a"}, {"x": 1, "e": "b"}, {"x": 2, "e": None}, {"x": 3, "e": "a"}])
        equal("found", s(table, "SELECT x FROM t WHERE e IS NULL AND x < 4"), [{"x": 2}])


def check_domain(s):
    path = s.path("domain")
    s(f"CREATE VIRTUAL TABLE t USING tessera('{path}', x INT32 DIMENSION(0, 99, 10) CURRENT(0, 9), s TEXT DIMENSION CURRENT('a','z'), v INT8)")
    s(f"SELECT tessera_expand_domain('{path}', '{{\"x\":[0,19],\"s\":[\"a\",\"zz\"]}}')")
    equal("larger", s(f"SELECT current_domain AS d FROM tessera_schema('{path}') WHERE name = 'x'"), [{"d": "[0,19]"}])
    equal("theirs", tiledb.ArraySchema.load(path).current_domain.ndrectangle.range("x"), (0, 19))
    for box, words in (('{"x":[1,19]}', ("shrinks",)), ('{"x":[0,100]}', ("x",)), ('{"y":[0,1]}', ("y",)), ('{"x":[0,20],"x":[0,21]}', ("twice",)),
                       ('{"x":[20]}', ("[low, high]",)), ('{"x"', ("JSON",)), ('{"x":[0,"z"]}', ("z",))):
        s.fails(f"SELECT tessera_expand_domain('{path}', '{box}')", *words)


def members(path):
    with tiledb.Group(path) as g:
        return sorted((m.name or "", m.type.__name__, os.path.relpath(m.uri.replace("file://", ""), os.path.realpath(path))) for m in g)


def check_groups(s):
    path, inner = s.path("g"), s.path("g/inner")
    s(f"SELECT tessera_create_group('{path}')", f"SELECT tessera_create_group('{inner}')")
    create_sparse(s.path("g/a"))
    create_sparse(s.path("outside"))
    s(f"SELECT tessera_add_member('{path}', '{s.path('g/a')}', 'one')", f"SELECT tessera_add_member('{path}', '{inner}')",
      f"SELECT tessera_add_member('{path}', '{s.path('outside')}', 'far')", f"SELECT tessera_set_metadata('{path}', 'k', 'v')")
    equal("members", members(path), [("", "Group", "inner"), ("far", "Array", "../outside"), ("one", "Array", "a")])
    with tiledb.Group(path) as g:
        equal("metadata", g.meta["k"], "v")
    s(f"SELECT tessera_drop_member('{path}', 'one')", f"SELECT tessera_drop_member('{path}', 'inner')")
    equal("fewer", members(path), [("far", "Array", "../outside")])
    with tiledb.Group(path, "w") as g:
        g.add(s.path("g/a"), "theirs")
    equal("both", s(f"SELECT name, kind FROM tessera_members('{path}')"), [{"name": "far", "kind": "array"}, {"name": "theirs", "kind": "array"}])
    s.fails(f"SELECT tessera_add_member('{path}', '{s.path('g/a')}', 'theirs')", "theirs", "already")
    s.fails(f"SELECT tessera_add_member('{path}', '{s.path('nothing')}')", "not found")
    s.fails(f"SELECT tessera_add_member('{path}', '{path}')", "itself")
    s.fails(f"SELECT tessera_drop_member('{path}', 'nothing')", "nothing")
    s.fails(f"SELECT tessera_create_group('{path}')", "already there")
    s.fails(f"SELECT tessera_add_member('{s.path('outside')}', '{path}')", "not a group")
    s.fails(f"SELECT tessera_drop('{path}')", "group", "has members")


def check_group_metadata(s):
    """tessera consolidates and vacuums, TileDB reads; and the other way round."""
    path = s.path("gm")
    s(f"SELECT tessera_create_group('{path}')")
    for key, value in (("k", 1), ("l", 2), ("k", 3)):
        s(f"SELECT tessera_set_metadata('{path}', '{key}', {value})")
    s(f"SELECT tessera_set_metadata('{path}', 'l', NULL)")
    with tiledb.Group(path, "w") as g:
        g.meta["theirs"] = 4
    wanted = {"k": 3, "theirs": 4}

    def check(what, files):
        with tiledb.Group(path) as g:
            equal(what, dict(sorted(g.meta.items())), wanted)
        equal(what + ", here", s(f"SELECT key, value FROM tessera_metadata('{path}')"), [{"key": k, "value": v} for k, v in wanted.items()])
        equal(what + ", files", len(os.listdir(os.path.join(path, "__meta"))), files)
    check("five files", 5)
    equal("merged", s(f"SELECT tessera_consolidate('{path}') AS n"), [{"n": 5}])
    check("merged", 7)
    equal("vacuumed", s(f"SELECT tessera_vacuum('{path}') AS n"), [{"n": 6}])
    check("vacuumed", 1)
    s(f"SELECT tessera_set_metadata('{path}', 'k', 5)")
    wanted["k"] = 5
    tiledb.Group.consolidate_metadata(path)
    check("merged there", 4)
    tiledb.Group.vacuum_metadata(path)
    check("vacuumed there", 1)
    s.fails(f"SELECT tessera_consolidate('{path}', 'fragments')", "group")


def check_drop(s):
    path = s.path("drop")
    create_sparse(path)
    kept = s.path("kept")
    os.mkdir(kept)
    open(os.path.join(kept, "file"), "w").close()
    os.symlink(kept, os.path.join(path, "link"))
    s(f"SELECT tessera_drop('{path}')")
    equal("gone", (os.path.exists(path), os.listdir(kept)), (False, ["file"]))
    s.fails(f"SELECT tessera_drop('{path}')", "no such directory")
    s.fails(f"SELECT tessera_drop('{kept}')", "not an array")


def main():
    if tiledb is None:
        print("SKIPPED: the package tiledb is not installed")
        return 77
    tests = Cases("change")
    for check in (check_metadata, check_evolution, check_enumerations, check_codes_without_labels, check_domain, check_groups, check_group_metadata, check_drop):
        tests.run(check.__name__, lambda folder, check=check: check(Session(sys.argv[1], sys.argv[2], folder)))
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
