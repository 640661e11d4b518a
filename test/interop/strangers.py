"""Arrays of strangers: every name of an array is hostile (its path, table, dimensions, attributes, labels of dimensions and of enumerations, keys of
metadata, members of a group), and each function of SQL and of the Python module that meets a name gives what it gives for plain names. Nothing of a
name runs. Groups name members outside of themselves.

usage: strangers.py EXTENSION
"""
import importlib
import json
import os
import pickle
import sqlite3
import sys

from package import fails, libraries, library, run, same

np, pa = libraries("numpy", "pyarrow")
xr, polars = library("xarray"), library("polars")

WORDS = ["plain", 's", tessera_drop(\'mine\'), "y', '");DROP TABLE canary;--', "');DROP TABLE canary;--", "`", "[x]]", '"', "'", "%s%n{}{0}{x!r}", "a new\r\nline\t\x01\x7f",
         "größe Ω 漢字 🦉", "select", "main.t", "/* :p ?1 $x @x \\u0000 */ --", " a, b ) ", "x" * 180]


def name(word):
    return '"' + word.replace('"', '""') + '"'


def literal(word):
    return "'" + word.replace("'", "''") + "'"


class Named:
    """An array whose names are made of one word, in a directory or in the database."""

    def __init__(self, db, number, word, inside):
        self.db, self.word, self.table = db, word, f"{word}t"
        self.y, self.x, self.lat, self.key = f"{word}y", f"{word}x", f"{word}lat", f"{word}key"
        self.v, self.s, self.e, self.b = word, f"{word}s", f"{word}e", f"{word}b"
        self.labels = [f"{word}a", word or "empty", "c"]
        place = "".join(c for c in word if c not in "/")
        self.path = f"db:{name(self.table)}" if inside else f"strangers/{number}{place}"[:200]
        given = "" if inside else f"{literal(self.path)}, "
        db.execute(f"CREATE VIRTUAL TABLE {name(self.table)} USING tessera({given}kind=dense, {name(self.y)} INT32 DIMENSION(0, 3, 2) LABEL {name(self.lat)} FLOAT64, "
                   f"{name(self.x)} INT32 DIMENSION(0, 1, 2), {name(self.v)} FLOAT64, {name(self.s)} TEXT, {name(self.e)} TEXT ENUM({', '.join(map(literal, self.labels))}), {name(self.b)} INT32[])")
        self.rows = [(y, x, y + x / 2, f"{word}{y}{x}", self.labels[(y + x) % 3], f"[{y},{x}]") for y in range(4) for x in range(2)]
        db.execute("SELECT tessera_write_label(?, ?, ?)", (self.path, self.lat, "[1.5, 2.5, 3.5, 4.5]")).fetchall()
        columns = ", ".join(map(name, (self.y, self.x, self.v, self.s, self.e, self.b)))
        db.executemany(f"INSERT INTO {name(self.table)}({columns}) VALUES(?, ?, ?, ?, ?, ?)", self.rows)
        db.commit()

    def sql(self):
        """The functions and tables of SQL."""
        def ask(statement, *values):
            return self.db.execute(statement, values).fetchall()
        path, quoted = self.path, name(self.table)
        box = json.dumps({self.y: [1, 2], self.x: 0})
        same(ask(f"SELECT {name(self.s)} FROM {quoted} WHERE {name(self.lat)} BETWEEN 2 AND 4 AND {name(self.e)} = ? AND {name(self.x)} = 0", self.labels[1]), [(f"{self.word}10",)], "a SELECT")
        same({field for field, in ask("SELECT name FROM tessera_schema(?)", path)} >= {self.y, self.x, self.v, self.s, self.e, self.lat}, True, "tessera_schema")
        same([label for label, in ask("SELECT label FROM tessera_enumeration(?, ?) ORDER BY code", path, self.e)], self.labels, "tessera_enumeration")
        same(ask("SELECT count, sum FROM tessera_aggregate(?, ?, ?)", path, self.v, box), [(2, 3.0)], "tessera_aggregate")
        same(ask("SELECT count FROM tessera_aggregate(?, ?, ?)", path, self.v, json.dumps({self.lat: [2, 4]})), [(4,)], "a slice by labels")
        for condition, cells in ask("SELECT condition, cells FROM tessera_partitions(?, 2)", path):
            same(ask(f"SELECT count(*) FROM {quoted} WHERE {condition}"), [(cells,)], "the condition of a part")
        same(ask("SELECT sum(cells) FROM tessera_partitions(?, 2)", path), [(8,)], "tessera_partitions")
        same(ask("SELECT tessera_nearest(?, ?, 2.6)", path, self.lat), [(1,)], "tessera_nearest")
        same(len(ask("SELECT tessera_npy(?, ?, ?)", path, self.v, box)[0][0]) > 64, True, "tessera_npy")
        same(ask("SELECT tessera_png(?, ?) IS NULL, tessera_preview(?, ?) IS NULL", path, self.v, path, self.v), [(0, 0)], "pictures")
        ask("SELECT tessera_set_metadata(?, ?, ?)", path, self.key, self.word)
        same(ask("SELECT key, value FROM tessera_metadata(?)", path), [(self.key, self.word)], "tessera_metadata")
        same([found for found in ask("SELECT * FROM tessera_check(?)", path) if found[0] == "error"], [], "tessera_check")
        ask("SELECT * FROM tessera_array(?)", path), ask("SELECT * FROM tessera_fragments(?)", path), ask("SELECT * FROM tessera_advise(?)", path)
        # what tessera writes as SQL makes the same array again
        ddl, = ask("SELECT tessera_ddl(?)", path)[0]
        assert self.word in ddl or any(c in self.word for c in "'\""), ddl
        copy = f"strangers/copy{len(os.listdir('strangers'))}"
        ask("SELECT tessera_copy(?, ?)", path, copy)
        same(ask("SELECT sum FROM tessera_aggregate(?, ?)", copy, self.v), ask("SELECT sum FROM tessera_aggregate(?, ?)", path, self.v), "tessera_copy")
        ask("SELECT tessera_regrid(?, ?, ?, 'mean', ?)", path, f"{copy}-coarse", json.dumps({self.y: 2, self.x: 2}), json.dumps({"columns": [self.v]}))
        ask("SELECT tessera_create_as(?, ?, ?)", f"{copy}-as", f"SELECT {name(self.y)}, {name(self.x)}, {name(self.v)} FROM {quoted}", json.dumps({"dimensions": [self.y, self.x]}))
        same(ask("SELECT sum FROM tessera_aggregate(?, ?)", f"{copy}-as", self.v), [(14.0,)], "tessera_create_as")
        self.db.execute(f"CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT {name(self.e)}, sum({name(self.v)}) AS total FROM {quoted} WHERE {name(self.lat)} > 2 GROUP BY {name(self.e)})")
        same(sum(total for _, total in ask("SELECT * FROM temp.q")), 13.5, "tessera_query")
        self.db.execute("DROP TABLE temp.q")
        same(len(ask("SELECT tessera_npy(?)", f"SELECT {name(self.v)} FROM {quoted}")[0][0]) > 64, True, "a query as a block")
        ask("SELECT tessera_make_overviews(?)", path)
        ask("SELECT tessera_consolidate(?), tessera_vacuum(?)", path, path)

    def module(self):
        """The Python module."""
        inside = self.path.startswith("db:")
        a = tessera.open(self.path, connection=self.db if inside else None)
        same((a.dims, a.attributes, a.labels), ((self.y, self.x), (self.v, self.s, self.e, self.b), {self.lat: self.y}), "names")
        same((a.categories(self.e), a.metadata), (self.labels, {self.key: self.word}), "labels and metadata")
        same((a.bounds, a.shape), ({self.y: (0, 3), self.x: (0, 1)}, (4, 2)), "bounds")
        same(a.numpy(self.s).ravel().tolist(), [row[3] for row in self.rows], "numpy() of texts")
        same(a.numpy(self.v).ravel().tolist(), [row[2] for row in self.rows], "numpy() of numbers")
        same(a.numpy(self.b).ravel().tolist(), [row[5] for row in self.rows], "numpy() of lists")
        part = a.sel(**{self.lat: (2.0, 4.0), self.x: 1}).where(self.e, "=", self.labels[2]).select(self.s, self.y).order((self.y, "desc"))
        same(pa.table(part).to_pydict(), {self.s: [f"{self.word}11"], self.y: [1]}, "a stream")
        same(a.sel(**{self.lat: (2.0, 4.0)}).numpy(self.s).tolist(), [[f"{self.word}{y}{x}" for x in range(2)] for y in (1, 2)], "texts by labels")
        same(a.nearest(**{self.lat: 3.3}), {self.y: 2}, "nearest()")
        same(a.sel(**{self.lat: 3.3}, method="nearest").numpy(self.v).tolist(), [[2, 2.5]], "sel() with a method")
        same(sum(pa.table(p).num_rows for p in a.partitions(2)), 8, "partitions()")
        assert a.__arrow_c_schema__() and repr(a) and a.nbytes >= 0
        if not inside:
            same(pickle.loads(pickle.dumps(a)).numpy(self.s).tolist(), a.numpy(self.s).tolist(), "pickled")
        if polars:
            same(a.scan_polars().filter(polars.col(self.v) > 3).select(self.s).collect().rows(), [(f"{self.word}31",)], "scan_polars()")
        made = tessera.create(f"{self.path[:-1]}-made\"" if inside else f"{self.path}-made", {self.s: np.array([["a", None], ["c", "d"]], object), self.v: np.ones((2, 2))}, connection=a._connection,
                              dimensions=[self.y, self.x], labels={self.lat: (self.y, [1.0, 2.0])}, metadata={self.key: 1})
        same((made.numpy(self.s).tolist(), made.sel(**{self.lat: 2.0}).numpy(self.v).tolist(), made.metadata[self.key]), ([["a", None], ["c", "d"]], [[1, 1]], 1), "create() of texts")
        made = tessera.create(made.path, {self.v: np.ones((2, 2))}, connection=a._connection, dimensions=[self.y, self.x], labels={self.lat: (self.y, [1.0, 2.0])}, if_exists="replace")
        same(made.write(self.v, np.zeros((1, 2)), {self.y: 1}), 2, "write()")
        assert name(self.v) in tessera.create(made.path, {self.v: np.ones((2, 2))}, dimensions=[self.y, self.x], connection=a._connection, explain=True)
        rows = tessera.create(f"{self.path[:-1]}-rows\"" if inside else f"{self.path}-rows", pa.table({self.y: [1, 2], self.s: ["p", "q"]}), connection=a._connection, dimensions=[self.y])
        rows = tessera.create(rows.path, pa.table({self.y: [2], self.s: ["r"]}), connection=a._connection, if_exists="append")
        same(pa.table(rows.order(self.y))[self.s].to_pylist(), ["p", "r"], "create() of a table")
        if xr:
            opened = xr.open_dataset(self.path, engine="tessera", connection=a._connection, decode_enums=True)
            same(opened[self.s].values.ravel().tolist(), [row[3] for row in self.rows], "open_dataset()")
            same((opened[self.lat].values.tolist(), opened[self.e].values.ravel().tolist(), opened.attrs), ([1.5, 2.5, 3.5, 4.5], [row[4] for row in self.rows], {self.key: self.word}), "a Dataset")


def test_names():
    db = sqlite3.connect("strangers.db", check_same_thread=False)   # polars reads on threads of its own
    tessera.load(db)
    db.execute("CREATE TABLE canary(x)")
    tessera.create("mine", np.arange(4.0))
    os.mkdir("strangers")
    for number, word in enumerate(WORDS):
        for inside in (False, True):
            try:
                made = Named(db, number, word, inside)
                made.sql()
                made.module()
                db.execute(f"DROP TABLE {name(made.table)}")
                db.commit()
            except Exception as e:
                raise AssertionError(f"names of {word!r}{' in the database' if inside else ''}: {e}") from e
            same((os.path.exists("mine/__schema"), db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'canary'").fetchone()), (True, (1,)), word)
    db.close()


def test_groups():
    """Members that lead out of the directory of a group are listed, and nothing is read there."""
    if not xr:
        return
    for place in ("outside", "far", "group/inside", "group/absolute"):
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        tessera.create(place, {os.path.basename(place): np.ones((3, 1))}, dimensions=["x", "z"])
    db = sqlite3.connect(":memory:")
    tessera.load(db)
    db.execute("SELECT tessera_create_group('group')")
    given = {"near": "group/inside", "absolute": os.path.abspath("group/absolute")}
    for member, place in given.items():
        db.execute("SELECT tessera_add_member('group', ?, ?)", (place, member))
    same(sorted(xr.open_dataset("group", engine="tessera").data_vars), ["absolute", "inside"], "members in the directory")
    os.makedirs("groupx")
    tessera.create("groupx/near", np.arange(3.0))
    for member, place in (("up", "outside"), ("away", "far"), ("beside", "groupx/near")):
        db.execute("SELECT tessera_add_member('group', ?, ?)", (place, member))
        fails(tessera.Denied, f"member {member!r} is outside", lambda: xr.open_dataset("group", engine="tessera"))
        same(sorted(xr.open_dataset("group", engine="tessera", drop_variables=[member]).data_vars), ["absolute", "inside"], "without it")
        db.execute("SELECT tessera_drop_member('group', ?)", (member,))
    db.execute("SELECT tessera_add_member('group', 'far', 'x')")   # the coordinates of the dimension x
    fails(sqlite3.Error, "member 'x' is outside the group's directory", lambda: db.execute("CREATE VIRTUAL TABLE t USING tessera('group/inside', labels='group')"))
    rule = importlib.import_module("tessera.xarray")._lies_below
    same([rule(place, "group") for place in ("group/inside", "./group/../group/inside", "group/../outside", "groupx", "group", "/")], [True, True, False, False, False, False])
    same([rule(place, "s3://b/group/") for place in ("s3://b/group/a", "s3://b/group/../a", "s3://b/groupx", "/b/group/a")], [True, False, False, False])
    db.close()
    for word in ("../escaped", "a/b", "..", "__group"):
        fails(ValueError, "rename it", lambda: tessera.create("set", xr.Dataset({"fine": ("x", [1.0]), word: ("x", [1.0])})))
    same([os.path.exists(place) for place in ("set", "escaped", "set/__group")], [False, False, False])


if __name__ == "__main__":
    run(globals(), "names of strangers are names")
