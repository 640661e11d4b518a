"""tessera_create_stream: the rows of an Arrow stream become an array. Our own streams come back as they were; structures that contradict each other are
refused; a token is taken once. No Arrow library is needed: streams are made here by ctypes.

usage: create_stream.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import ctypes as C
import json
import os
import struct

import host
import streams
from host import Database, check_contains, same
from streams import Array, Schema, Stream, connections, tessera

SCHEMA_RELEASE, ARRAY_RELEASE = C.CFUNCTYPE(None, C.POINTER(Schema)), C.CFUNCTYPE(None, C.POINTER(Array))


@SCHEMA_RELEASE
def release_schema(schema):
    schema.contents.release = type(schema.contents.release)(0)


@ARRAY_RELEASE
def release_array(array):
    array.contents.release = type(array.contents.release)(0)


class Given:
    """A stream of one batch. Each column is (name, format, values, buffers, and what differs in its ArrowArray); buffers are bytes or None."""

    def __init__(self, columns, length, failing=None, **batch):
        self.kept, self.batches, self.failing = [], 1, failing
        children = [self.column(*column) for column in columns]
        self.schema = self.make(Schema, format=b"+s", n_children=len(children), children=self.list(Schema, [s for s, _ in children]))
        self.array = self.make(Array, **{"length": length, "n_buffers": 1, "buffers": self.pointers([None]), "n_children": len(children), "children": self.list(Array, [a for _, a in children]), **batch})
        kinds = dict(Stream._fields_)
        self.last = C.CFUNCTYPE(C.c_void_p, C.c_void_p)(self.get_last_error)   # ctypes would leak what a callback returns as bytes
        self.calls = [kinds["get_schema"](self.get_schema), kinds["get_next"](self.get_next), C.cast(self.last, kinds["get_last_error"]), kinds["release"](self.release)]
        self.stream = Stream(*self.calls, None)

    def make(self, kind, **fields):
        made = kind(**fields)
        made.release = C.cast(release_schema if kind is Schema else release_array, type(made.release))
        self.kept.append(made)
        return made

    def list(self, kind, items):
        made = (C.POINTER(kind) * max(1, len(items)))(*[C.pointer(item) for item in items])
        self.kept.append(made)
        return C.cast(made, C.POINTER(C.POINTER(kind)))

    def pointers(self, buffers):
        kept = [b and C.create_string_buffer(b, len(b)) for b in buffers]
        made = (C.c_void_p * len(buffers))(*[b and C.addressof(b) for b in kept])
        self.kept += [kept, made]
        return C.cast(made, C.POINTER(C.c_void_p))

    def column(self, name, form, length, buffers, other=None, dictionary=None, flags=2, items=None):
        schema = self.make(Schema, format=form.encode(), name=name.encode(), flags=flags)
        if items:   # of a list: a column of its values
            inner = self.column("item", *items)
            schema.n_children, schema.children = 1, self.list(Schema, [inner[0]])
            other = {"n_children": 1, "children": self.list(Array, [inner[1]]), **(other or {})}
        array = self.make(Array, **{"length": length, "null_count": -1, "n_buffers": len(buffers), "buffers": self.pointers(buffers), **(other or {})})
        if dictionary:
            labels, values = self.column("", *dictionary)
            schema.dictionary, array.dictionary = C.pointer(labels), C.pointer(values)
        return schema, array

    def get_schema(self, _, out):
        C.memmove(out, C.addressof(self.schema), C.sizeof(Schema))
        return 0

    def get_next(self, _, out):
        if self.failing:
            return 5
        empty = Array()
        C.memmove(out, C.addressof(self.array if self.batches else empty), C.sizeof(Array))
        self.batches = 0
        return 0

    def get_last_error(self, _):
        return C.cast(C.c_char_p(self.failing), C.c_void_p).value

    def release(self, _):
        pass


def put(db, address):
    token = C.create_string_buffer(33)
    assert connections.functions_of(db.raw).put(address, token) == 1
    return token.value.decode()


def give(db, columns, length, path="t", given=None, **options):
    given = given or Given(columns, length)
    return db.value("SELECT tessera_create_stream(?, ?, ?)", (path, put(db, C.addressof(given.stream)), json.dumps(options)))


def refused(db, part, columns, length, given=None, **options):
    try:
        give(db, columns, length, "refused", given, **options)
    except host.Error as e:
        check_contains(e.text, part)
    else:
        raise AssertionError(f"no error, but expected: {part}")
    assert not os.path.exists("refused"), os.listdir("refused")


def database():
    os.chdir(host.FOLDER)
    return Database()


def rows(db, path="t"):
    db.query("DROP TABLE IF EXISTS shown")
    db.table("shown", path)
    return db.query("SELECT * FROM shown ORDER BY 1")


def packed(letter, *values):
    return struct.pack(f"<{len(values)}{letter}", *values)


def view(text, buffer=None, offset=0):
    data = text.encode()
    return packed("i", len(data)) + (data.ljust(12, b"\0") if len(data) <= 12 else data[:4] + packed("i", buffer, offset))


def test_types():
    db = database()
    long = "a text of more than twelve bytes"
    columns = [("x", "l", 3, [None, packed("q", 4, 5, 6)]), ("b", "b", 3, [b"\x05", b"\x01"]), ("c", "c", 3, [None, packed("b", -128, 0, 127)]), ("uc", "C", 3, [None, packed("B", 0, 1, 255)]),
               ("L", "L", 3, [None, packed("Q", 0, 1, 2**64 - 1)]), ("e", "e", 3, [None, packed("e", 1.5, -2, 6e-8)]), ("f", "f", 3, [b"\x03", packed("f", 1, 2.5, 9)]), ("g", "g", 3, [None, packed("d", 1, 2, 3)]),
               ("us", "u", 3, [b"\x05", packed("i", 0, 1, 1, 3), b"abc"]), ("ul", "U", 3, [None, packed("q", 0, 2, 2, 3), "éx".encode()]), ("z", "Z", 3, [None, packed("q", 0, 1, 2, 3), b"\0\1\2"]),
               ("vu", "vu", 3, [None, view("short") + view(long, 0, 1) + view(""), b"!" + long.encode(), packed("q", 1 + len(long))]),
               ("d", "tdD", 3, [None, packed("i", 0, 1, -1)]), ("s", "tsm:UTC", 3, [None, packed("q", 0, 1, 2)]), ("t", "ttu", 3, [None, packed("q", 0, 1000000, 2)]),
               ("k", "c", 3, [b"\x03", packed("b", 1, 0, 9)], None, ("u", 3, [None, packed("i", 0, 1, 2, 3), b"pqr"]), 3)]
    same(give(db, columns, 3, dimensions=["x"]), 3)
    same([r[0] for r in db.query("SELECT datatype FROM tessera_schema('t')")],
         ["INT64", "BOOL", "INT8", "UINT8", "UINT64", "FLOAT32", "FLOAT32", "FLOAT64", "UTF8", "UTF8", "BLOB", "UTF8", "DATETIME_DAY", "DATETIME_MS", "TIME_US", "UINT16"])
    got = rows(db)
    same(got[0][:5] + got[0][6:], (4, 1, -128, 0, 0, 1.0, 1.0, "a", "é", b"\0", "short", "1970-01-01", "1970-01-01 00:00:00.000", "00:00:00.000000", "q"))
    same(got[1][1:9], (None, 0, 1, 1, -2.0, 2.5, 2.0, None))
    same(got[2][4:12] + got[2][15:], ("18446744073709551615", got[2][5], None, 3.0, "bc", "x", b"\2", "", None))
    same(got[1][11], long)
    check_contains(db.value("SELECT tessera_ddl('t')"), "ENUM('p', 'q', 'r') ORDERED")


def test_lists():
    db = database()
    ints = ("s", 6, [None, packed("h", 1, 2, 3, 4, 5, 6)])

    def two(validity=None):
        return "i", 2, [validity, packed("i", 1, 2)]

    def column(form, length, buffers, items, other=None, name="a"):
        return name, form, length, buffers, other, None, 2, items

    columns = [column("+w:2", 3, [b"\x05"], ints, name="f"), column("+l", 3, [None, packed("i", 0, 2, 2, 6)], ints, name="l"), column("+L", 3, [b"\x06", packed("q", 1, 3, 4, 4)], ("f", 4, [None, packed("f", 9, .5, 1.5, 2)]), name="L"),
               column("+l", 3, [None, packed("i", 0, 1, 3, 3)], ("b", 3, [None, b"\x05"]), name="b"), column("+w:1", 3, [None], ("l", 3, [None, packed("q", 7, 8, 9)]), name="one"),
               column("+l", 3, [None, packed("i", 0, 1, 1, 1)], ("tsm:", 1, [None, packed("q", 1000)]), name="t")]
    columns[2] = ("large", *columns[2][1:])
    same(give(db, columns, 3), 3)
    same(db.query("SELECT datatype, cell_val_num FROM tessera_schema('t')")[1:], [("INT16", 2), ("INT16", None), ("FLOAT32", None), ("BOOL", None), ("INT64", None), ("DATETIME_MS", None)])
    same([r[1:6] for r in rows(db)], [("[1,2]", "[1,2]", None, "[1]", "[7]"), (None, "[]", "[2.0]", "[0,1]", "[8]"), ("[5,6]", "[3,4,5,6]", "[]", "[]", "[9]")])
    same(give(db, [column("+w:2", 2, [None], ("i", 6, [None, packed("i", 0, 1, 2, 3, 4, 5)]), {"offset": 1, "length": 2})], 2, "offset"), 2)
    same(rows(db, "offset"), [(0, "[2,3]"), (1, "[4,5]")])
    for part, given in (("a null in a list", column("+l", 1, [None, packed("i", 0, 2)], two(b"\x01"))), ("shorter than the batch", column("+l", 1, [None, packed("i", 0, 3)], two())), ("shorter than the batch", column("+w:3", 1, [None], two())),
                        ("offsets are not in order", column("+l", 1, [None, packed("i", 2, 0)], two())), ("its lists", column("+l", 1, [None, packed("i", 0, 2)], two(), {"n_children": 0})),
                        ("cast it first", column("+l", 1, [None, packed("i", 0, 1)], ("u", 1, [None, packed("i", 0, 1), b"x"]))), ("cast it first", column("+w:0", 1, [None], two())), ("cast it first", column("+w:2x", 1, [None], two())),
                        ("cast it first", column("+w:99999999999999", 1, [None], two()))):
        refused(db, part, [given], 1)
    refused(db, "cannot be a dimension", [columns[1]], 3, dimensions=["l"])
    for table, value, type_ in (("floats", "[1.5]", "FLOAT32[]"), ("one", 1, "INT32")):   # what a list cannot be appended to
        db.query(f"SELECT tessera_create_as('{table}', ?, ?)", (f"SELECT 1 AS k, '{value}' AS a", json.dumps({"types": {"a": type_}, "dimensions": ["k"], "kind": "sparse", "domains": {"k": [0, 9]}})))
        try:
            give(db, [("k", "l", 1, [None, packed("q", 2)]), column("+l", 1, [None, packed("i", 0, 1)], two())], 1, table, if_exists="append")
            raise AssertionError(f"a list of INT32 was taken for {type_}")
        except host.Error as e:
            check_contains(e.text, f"lists of INT32 in a column of {type_.strip('[]')}")


def test_dictionaries_of_numbers():
    db = database()
    columns = [("k", "c", 4, [b"\x0b", packed("b", 1, 0, 9, 1)], None, ("i", 3, [None, packed("i", 70, -5, 8)])), ("r", "c", 4, [None, packed("b", 0, 1, 1, 0)], None, ("g", 2, [None, packed("d", .5, 2)])), ("v", "i", 4, [None, packed("i", 1, 2, 3, 4)])]
    same(give(db, columns, 4), 4)
    same([r[1:3] for r in rows(db)], [(-5, .5), (70, 2.0), (None, 2.0), (-5, .5)])
    same(db.query("SELECT datatype FROM tessera_schema('t') WHERE name IN ('k', 'r')"), [("UINT16",), ("UINT16",)])
    same(give(db, columns, 4, "points", dimensions=["v"], domains={"v": [1, 99]}, kind="sparse"), 4)
    more = [("k", "i", 2, [None, packed("i", 8, 1000)]), ("r", "f", 2, [None, packed("f", .5, .25)]), ("v", "i", 2, [None, packed("i", 11, 12)])]
    same(give(db, more, 2, "points", if_exists="append"), 2)
    same([r for r in rows(db, "points") if r[0] > 10], [(11, 8, .5), (12, 1000, .25)])
    same(db.value("SELECT tessera_create_as('points', 'SELECT 21 AS v, -5 AS k, 9.5 AS r', ?)", ('{"if_exists":"append"}',)), 1)
    same(rows(db, "points")[-1], (21, -5, 9.5))
    same(give(db, columns, 4, "dimension", dimensions=["r", "v"]), 4)
    same([r[0] for r in rows(db, "dimension")], [.5, .5, 2.0, 2.0])


def test_units_of_instants():
    db = database()
    same(give(db, [("x", "l", 2, [None, packed("q", 1, 2)]), ("t", "tsm:Europe/Berlin", 2, [b"\x01", packed("q", 86400000, 0)])], 2, dimensions=["x"], domains={"x": [0, 99]}, kind="sparse"), 2)
    same(db.query("SELECT key, value FROM tessera_metadata('t')"), [("__tiledb_attr.t.time_zone", "Europe/Berlin")])
    for x, (form, letter, value) in enumerate((("tdD", "i", 3), ("tss:", "q", 259200), ("tsn:", "q", 259200 * 10**9), ("tsu:", "q", 259200 * 10**6), ("tdm", "q", 259200000)), 5):
        same(give(db, [("x", "l", 1, [None, packed("q", x)]), ("t", form, 1, [None, packed(letter, value)])], 1, if_exists="append"), 1)
        same(rows(db)[-1], (x, "1970-01-04 00:00:00.000"), form)
    for form, value, says in (("tsn:", 259200 * 10**9 + 1, "column 't': 1970-01-04 00:00:00.000000001 is finer than DATETIME_MS, which the column is: make the array with \"types\":{\"t\":\"DATETIME_NS\"}"),
                              ("tsu:", 1, "is finer than DATETIME_MS"), ("tss:", 2**62, "of DATETIME_SEC is not a valid DATETIME_MS")):
        try:
            give(db, [("x", "l", 1, [None, packed("q", 60)]), ("t", form, 1, [None, packed("q", value)])], 1, if_exists="append")
            raise AssertionError(f"{form} {value} was taken")
        except host.Error as e:
            check_contains(e.text, says)
    same(give(db, [("d", "tDs", 1, [None, packed("q", 7)])], 1, "times", types={"d": "TIME_MS"}), 1)
    same(rows(db, "times"), [(0, 7000)])   # a duration, in the unit that was asked for


def test_offsets_of_batches_and_columns():
    db = database()
    columns = [("x", "i", 2, [None, packed("i", 9, 9, 7, 8, 9)], {"offset": 1, "length": 4}), ("s", "u", 2, [b"\x08", packed("i", 0, 1, 2, 3, 4), b"abcd"], {"length": 4})]
    same(give(db, None, None, given=Given(columns, 2, offset=1)), 2)
    same(rows(db), [(0, 7, None), (1, 8, None)])


def plain(count, validity, nan_at=None):
    """Columns of `count` rows without nulls, behind three values that belong to no row. With validity they are taken row by row, without column by column."""
    bits, n = b"\xff" * (count // 8 + 2) if validity else None, count + 3
    x = [(i * 7919) % 1000 / 8 - 60 for i in range(n)]
    if nan_at is not None:
        x[3 + nan_at] = float("nan")
    texts = [b"t" * (i % 23) + str(i % 77).encode() for i in range(n)]
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    here = {"offset": 3, "length": count}
    return [("x", "g", n, [bits, packed("d", *x)], here), ("id", "i", n, [bits, packed("i", *[i - 500 for i in range(n)])], here), ("f", "f", n, [bits, packed("f", *[i / 4 - 9 for i in range(n)])], here),
            ("b", "c", n, [bits, packed("b", *[i % 256 - 128 for i in range(n)])], here), ("us", "S", n, [bits, packed("H", *[i % 65536 for i in range(n)])], here),
            ("q", "L", n, [bits, packed("Q", *[2**64 - 1 - i for i in range(n)])], here), ("d", "tdD", n, [bits, packed("i", *[i % 900 - 400 for i in range(n)])], here),
            ("s", "u", n, [bits, packed("i", *ends), b"".join(texts)], here)]


def test_many_rows_without_nulls():
    """Columns of plain values are taken many rows at once, which gives what rows one by one give: at the ends of parts, too, which a small memory makes short, and the same errors."""
    db, count = database(), 66_000
    for number, options in enumerate(({}, {"memory_mb": 16})):
        shown = []
        for validity in (False, True):
            path = f"plain{number}{validity}"
            same(give(db, plain(count, validity), count, path, dimensions=["x", "id"], **options), count)
            shown.append(rows(db, path))
        assert shown[0] == shown[1], "rows taken together differ from rows taken one by one"
    first = next(row for row in shown[0] if row[1] == -497)
    same(first[1:], (-497, -8.25, -125, 3, "18446744073709551612", "1968-11-30", "ttt3"))
    refused(db, "row 65801: column 'x': NaN in a dimension", plain(count, False, 65_800), count, dimensions=["x", "id"])


def test_dictionaries_as_dimensions():
    db = database()
    columns = [("k", "i", 2, [None, packed("i", 1, 0)], None, ("u", 2, [None, packed("i", 0, 1, 2), b"pq"])), ("v", "i", 2, [None, packed("i", 5, 6)])]
    same(give(db, columns, 2, dimensions=["k"]), 2)
    same(rows(db), [("p", 6), ("q", 5)])


def test_rows_that_do_not_fit():
    """With on_error skip, rows of a new array outside of the domain, with a null coordinate, or at the place of an earlier row are left out."""
    db = database()
    columns = [("a", "l", 6, [bytes([0b110111]), packed("q", 2, 9, 3, 7, 2, 5)]), ("v", "l", 6, [None, packed("q", 1, 2, 3, 4, 5, 6)])]
    taken = json.loads(give(db, columns, 6, dimensions=["a"], domains={"a": [0, 8]}, on_error="skip"))
    same((taken["rows"], taken["skipped"], taken["lines"]), (3, 3, [2, 4, 5]))
    check_contains(taken["first"], "row 2: ")
    same([tuple(row) for row in rows(db) if row[1] is not None], [(2, 1), (3, 3), (5, 6)])


def test_structures_that_contradict_each_other():
    db = database()
    good = [None, packed("i", 1, 2)]
    text = [None, packed("i", 0, 1, 2), b"ab"]
    for part, columns in (("shorter than the batch", [("a", "i", 1, good)]), ("its length", [("a", "i", -1, good)]), ("its length", [("a", "i", 2, good, {"offset": -1})]),
                          ("its length", [("a", "i", 2**62, good)]), ("number of buffers", [("a", "i", 2, good[:1])]), ("a buffer is missing", [("a", "i", 2, [None, None])]),
                          ("nulls without validity", [("a", "i", 2, good, {"null_count": 1})]), ("offsets are not in order", [("a", "u", 2, [None, packed("i", 0, 2, 1), b"ab"])]),
                          ("offsets are not in order", [("a", "u", 2, [None, packed("i", -1, 0, 1), b"ab"])]), ("it has no bytes", [("a", "u", 2, text[:2] + [None])]),
                          ("an index past its dictionary", [("a", "i", 2, good, None, ("u", 1, [None, packed("i", 0, 1), b"p"]))]),
                          ("an index past its dictionary", [("a", "i", 2, [None, packed("i", -1, 0)], None, ("u", 1, [None, packed("i", 0, 1), b"p"]))]),
                          ("the length of its dictionary", [("a", "i", 2, good, None, ("u", -5, text))]), ("outside of all buffers", [("a", "vu", 1, [None, packed("i", 20, 0, 3, 0), b"x", packed("q", 1)])]),
                          ("past the end of its buffer", [("a", "vu", 1, [None, packed("i", 20, 0, 0, 0), b"x", packed("q", 1)])]), ("the length of a string", [("a", "vu", 1, [None, packed("i", -20, 0, 0, 0), b"x", packed("q", 1)])])):
        refused(db, part, columns, 1 if columns[0][1] == "vu" else 2)
    refused(db, "other columns", None, None, Given([("a", "i", 2, good)], 2, n_children=0))
    refused(db, "rows that are null", None, None, Given([("a", "i", 2, good)], 2, null_count=1))
    refused(db, "the length of the batch", None, None, Given([("a", "i", 2, good)], -2))
    refused(db, "the stream: it broke (5)", None, None, Given([("a", "i", 2, good)], 2, b"it broke"))
    for form, name in (("+l", "list '+l'"), ("+s", "struct '+s'"), ("d:10,2", "decimal 'd:10,2'"), ("+us:1", "union '+us:1'"), ("w:4", "fixed_size_binary 'w:4'"), ("x", "'x'"), ("", "''")):
        refused(db, f"Arrow type {name}: cast it first", [("a", form, 2, good)], 2)
    refused(db, "column 'a': no value determines its type: give it in types", [("a", "n", 2, [])], 2)
    refused(db, "shorter than the batch", [("a", "n", 1, [])], 2)
    refused(db, "row 1: column 'a': NULL in a dimension", [("a", "n", 2, [])], 2, dimensions=["a"], types={"a": "INT32"})
    refused(db, "row 1: column 'a': NULL", [("a", "n", 2, [])], 2, types={"a": "INT32"}, not_null=["a"])
    refused(db, "cast it first", [("a", "+l", 2, [None, packed("i", 0, 1, 2)], None, None, 2, ("n", 2, []))], 2)
    refused(db, "two columns are called 'A'", [("a", "i", 2, good), ("A", "i", 2, good)], 2)
    refused(db, "row 2: column 'a': NULL in a dimension", [("a", "i", 2, [b"\x01", good[1]])], 2, dimensions=["a"])


def test_tokens():
    db = database()
    given = Given([("a", "i", 2, [None, packed("i", 1, 2)])], 2)
    token = put(db, C.addressof(given.stream))
    assert not given.stream.release, "the stream has moved"
    check_contains(db.error("SELECT tessera_create_stream('t', ?, '{\"x\":1}')", (token,)).text, "no option is called 'x'")
    check_contains(db.error("SELECT tessera_create_stream('t', ?)", (token,)).text, "unknown token")
    assert connections.functions_of(db.raw).put(C.addressof(given.stream), C.create_string_buffer(33)) == 0


def test_our_own_streams_come_back():
    db = database()
    streams.make(db)
    array = tessera.open("db:d", connection=db.raw)
    if host.binding == "sqlite3":
        made = tessera.create("copy", array, connection=db.raw, dimensions=["y", "x"])
        same(made.dims, ("y", "x"))
        db.table("copied", "copy")
        same(db.query("SELECT * FROM copied ORDER BY y, x"), db.query("SELECT * FROM d ORDER BY y, x"))
        tessera.create("copy", array.sel(y=3), connection=db.raw, if_exists="append")
        same(len(tessera.create_as(db.raw, "few", "SELECT 1 AS a").dims), 1)


if __name__ == "__main__":
    host.main(__import__("__main__"))
