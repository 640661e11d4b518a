"""tessera_rows: the rows of any SELECT as Arrow streams. The SELECT is run once, when a stream is first asked; its types come from all rows; the streams
need no connection from then on. Also the schemas that consumers request. Streams are read by ctypes, so no Arrow library is needed.

usage: rows.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import ctypes as C
import errno
import json
import os
import struct
import sys
import threading

import host
import streams
from host import Database, check_contains, same
from streams import Array, Failed, Reader, Schema, Stream


class Functions(C.Structure):   # tessera_functions, whole
    _fields_ = [("version", C.c_int), ("library_version", C.c_char_p), ("take", C.c_void_p), ("take_new", C.CFUNCTYPE(C.c_void_p, C.c_char_p)), ("free_stream", C.CFUNCTYPE(None, C.c_void_p)),
                ("use_capsules", C.c_void_p), ("free_capsule", C.c_void_p), ("put", C.c_void_p), *[(name, C.c_void_p) for name in ("lend", "take_back", "take_schema", "free_schema_capsule")], ("again", C.CFUNCTYPE(C.c_void_p, C.c_void_p)), ("request", C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)), ("join", C.c_void_p)]


def functions(db):
    library = C.CDLL(db.value("SELECT tessera_library()"))
    library.tessera_api.restype = C.POINTER(Functions)
    return library.tessera_api(1).contents


class Rows(Reader):
    """A stream of tessera_rows, of which nothing was asked yet."""

    def __init__(self, db, select=None, address=None, api=None, function="tessera_rows", **options):
        self.functions, self.schema = api or functions(db), None
        if not address:
            text = (json.dumps(options),) if options else ()
            self.token = db.value(f"SELECT {function}(?{', ?' * len(text)})", (select, *text))
            address = self.functions.take_new(self.token.encode())
        self.address, self.stream = address, Stream.from_address(address)

    def ask(self):
        schema = Schema()
        self.check(self.stream.get_schema(self.address, C.addressof(schema)))
        self.schema = schema
        fields = [self.schema.children[i].contents for i in range(self.schema.n_children)]
        self.names, self.formats = [f.name.decode() for f in fields], [f.format.decode() for f in fields]
        return self

    def batch(self):
        if not self.schema:
            self.ask()
        return super().batch()

    def again(self):
        return Rows(None, address=self.functions.again(self.address), api=self.functions)

    def request(self, *columns, **schema):
        """Requests a schema of columns (name, format, format of the dictionary's values or None)."""
        kept, children = [], []
        release = C.cast(C.CFUNCTYPE(None, C.c_void_p)(lambda _: None), dict(Schema._fields_)["release"])
        for name, form, *labels in columns:
            children.append(Schema(format=form.encode(), name=name.encode(), release=release))
            if labels:
                kept.append(Schema(format=labels[0].encode(), name=b"", release=release))
                children[-1].dictionary = C.pointer(kept[-1])
        pointers = (C.POINTER(Schema) * max(1, len(children)))(*[C.pointer(c) for c in children])
        whole = Schema(**{"format": b"+s", "name": b"", "n_children": len(children), "children": C.cast(pointers, C.POINTER(C.POINTER(Schema))), "release": release, **schema})
        return self.functions.request(self.address, C.addressof(whole))

    def close(self):
        if self.address and not self.schema:
            self.functions.free_stream(self.address)
            self.address = None
        super().close()


def column(schema, array):
    """As streams.column, for more types."""
    form = schema.format.decode()
    if form == "n":
        assert array.n_buffers == 0 and array.null_count == array.length
        return [None] * array.length
    if form in ("u", "z"):
        n = array.length
        valid = C.string_at(array.buffers[0], (n + 7) // 8) if array.buffers[0] else b"\xff" * n
        offsets = struct.unpack(f"<{n + 1}i", C.string_at(array.buffers[1], 4 * (n + 1)))
        data = C.string_at(array.buffers[2], offsets[-1])
        return [(data[a:b].decode() if form == "u" else data[a:b]) if valid[i // 8] >> i % 8 & 1 else None for i, (a, b) in enumerate(zip(offsets, offsets[1:]))]
    return plain_column(schema, array)


plain_column, streams.column = streams.column, column


def database():
    os.chdir(host.FOLDER)
    return Database()


def numbers(count):
    return f"WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < {count})"


def failed(rows, part):
    try:
        rows.ask()
        raise AssertionError("no error")
    except Failed as e:
        check_contains(str(e), part)
    rows.close()


def test_types_come_from_all_rows():
    db = database()
    rows = Rows(db, "SELECT * FROM (VALUES(1, 1, 'a', x'01', NULL, NULL), (NULL, 2.5, 'é', x'', 7, NULL))").ask()
    same(rows.formats, ["l", "g", "U", "Z", "l", "n"])
    same(rows.rows(), [(1, 1.0, "a", b"\x01", None, None), (None, 2.5, "é", b"", 7, None)])
    failed(Rows(db, "SELECT * FROM (VALUES(1), ('x'))"), "tessera_rows: row 2: column 'column1': TEXT beside INTEGER, which came first, in row 1")
    failed(Rows(db, "SELECT * FROM (VALUES(9007199254740993), (0.5))"), "REAL beside an integer past 2^53 (row 1)")
    db.query("CREATE TABLE plain(i INTEGER, t VARCHAR(9), r DOUBLE, b BLOB, n NUMERIC)")
    rows = Rows(db, "SELECT *, i + 1 FROM plain").ask()
    same((rows.formats, rows.rows()), (["l", "U", "g", "Z", "n", "n"], []), "no rows: types as they are declared")
    same(Rows(db, "SELECT 1 AS a, 2 AS a, 3 AS A").ask().names, ["a", "a", "A"], "columns of one name")


def test_declared_dates():
    db = database()
    db.query("CREATE TABLE t(d DATE, s TIMESTAMP, m DATETIME, n DATETIME(6), bad DATE, number DATE, text TEXT)")
    db.query("INSERT INTO t VALUES('2024-02-29', '2024-01-02 03:04:05', '2024-01-02T03:04:05.5', '1999-12-31 23:59:59.000001', '2024-02-30', 7, '2024-01-01'), (NULL, '1969-12-31', NULL, '2000-01-01', '2024-01-01', 8, '2024-01-02')")
    rows = Rows(db, "SELECT * FROM t").ask()
    same(rows.formats, ["tdD", "tss:", "tsm:", "tsu:", "U", "l", "U"])
    same(rows.rows(), [(19782, 1704164645, 1704164645500, 946684799000001, "2024-02-30", 7, "2024-01-01"), (None, -86400, None, 946684800000000, "2024-01-01", 8, "2024-01-02")])


def test_columns_of_arrays_keep_their_types():
    db = database()
    db.query("CREATE VIRTUAL TABLE s USING tessera(x INT16 DIMENSION(0, 99, 10), a UINT8, e TEXT ENUM('no', 'yes'), d DATETIME_SEC, f FLOAT32[2], u UINT64, b BOOL)")
    db.query("INSERT INTO s VALUES(3, 200, 'yes', '2024-01-02T03:04:05', '[1,2]', '18446744073709551615', 1), (5, 7, 'no', '2024-01-03', '[3,4.5]', '0', 0)")
    rows = Rows(db, "SELECT x, a, e, d, u, a + 1 AS more FROM s ORDER BY x DESC").ask()
    same(rows.formats, ["s", "C", "S", "tss:", "L", "l"])
    same(rows.rows(), [(5, 7, "no", 1704240000, 0, 8), (3, 200, "yes", 1704164645, 2**64 - 1, 201)])
    same(Rows(db, "SELECT b, f, written_at, rowid FROM s").ask().formats[:2], ["b", "+w:2"])


def test_the_select_is_run_once():
    db = database()
    db.query("CREATE TABLE t(a)")
    db.query("INSERT INTO t VALUES(1), (2)")
    first = Rows(db, "SELECT a, random() AS r FROM t")
    db.query("INSERT INTO t VALUES(3)")
    second = first.again()
    same(second.ask().names, ["a", "r"])
    db.query("DROP TABLE t")
    got = second.rows()
    same(len(got), 3, "it is run when a stream is first asked")
    same(first.again().rows(), got, "a third stream")
    same(first.functions.again(None), None, "of no stream")
    db.query("BEGIN")
    db.query("CREATE TABLE t(b)")
    db.query("ROLLBACK")
    db.close()
    same(first.again().rows(), got, "after the connection was closed")
    same(first.rows(), got)
    db = database()
    late = Rows(db, "SELECT 1")
    untaken = db.value("SELECT tessera_rows('SELECT 2')")
    db.close()
    failed(late, "the connection was closed before the rows were read")
    assert not late.functions.take_new(untaken.encode()), "the token of a closed connection"


def test_parameters():
    db = database()
    select = "SELECT ?1 AS a, :b AS b, ? AS c, ?1 + 1 AS d"
    values = (5, None, "é")
    token = db.value("SELECT tessera_rows(?, NULL, ?, ?, ?)", (select,) + values)
    db.query("CREATE TABLE between_(a)")
    api = functions(db)
    same(Rows(None, address=api.take_new(token.encode()), api=api).ask().rows(), db.query(select, values))
    for values, part in (((), "the SELECT has parameters"), ((1, 2), "tessera_rows: 3 parameters, 2 values"), ((1, 2, 3, 4), "tessera_rows: 3 parameters, 4 values")):
        check_contains(db.error(f"SELECT tessera_rows(?, NULL{', ?' * len(values)})", (select,) + values).text, part)
    check_contains(db.error("SELECT tessera_rows('SELECT 1', NULL, 1)").text, "tessera_rows: 0 parameters, 1 value")


def test_errors():
    db = database()
    for arguments, part in ((("SELEC 1",), "syntax error"), (("DELETE FROM t",), "no such table: t"), (("SELECT ?",), "parameters"), (("SELECT 1; SELECT 2",), "another follows"), (("",), "expected a SELECT"),
                            (("SELECT 1 AS a", '{"kind":"dense"}'), "no option is called 'kind': types, enumerate, columns, memory_mb"), (("SELECT 1 AS a", '{"types":{"b":"INT8"}}'), "has no column 'b'"),
                            (("SELECT nosuch()",), "no such function"), ((None,), ""), (("SELECT 1", "{"), "")):
        text = db.error(f"SELECT tessera_rows({', '.join('?' * len(arguments))})", arguments).text
        check_contains(text, "tessera_rows: ")
        check_contains(text, part)
    failed(Rows(db, "SELECT abs(-9223372036854775808)"), "integer overflow")
    rows = Rows(db, numbers(300000) + " SELECT x, 'some text that takes its room ' || x FROM c", memory_mb=1)
    same((len(rows.rows())), 300000, "more rows than memory")
    failed(Rows(db, "SELECT zeroblob(9000000) AS b", memory_mb=1), "memory_mb")
    db.query("CREATE TABLE later(a)")
    rows = Rows(db, "SELECT a FROM later")
    db.query("DROP TABLE later")
    other = rows.again()
    failed(rows, "no such table: later")
    db.query("CREATE TABLE later AS SELECT 5 AS a")
    same(other.rows(), [(5,)], "a run that failed is tried again")


def test_options():
    db = database()
    rows = Rows(db, "SELECT * FROM (VALUES(1, 'b', 3, 'z'), (2, 'a', NULL, 'z'), (3, 'b', 1, 'z'))", types={"column1": "INT8", "column3": "FLOAT32"}, enumerate=["column2"], columns=["column2", "column1", "column3"])
    same(rows.ask().formats, ["S", "c", "f"])
    same(rows.rows(), [("b", 1, 3.0), ("a", 2, None), ("b", 3, 1.0)])
    failed(Rows(db, "SELECT 128 AS a", types={"a": "INT8"}), "128 does not fit INT8")


def test_a_million_rows_in_batches():
    db = database()
    rows = Rows(db, numbers(300000) + " SELECT x, x / 2.0 AS h FROM c").ask()
    sizes, total = [], 0
    while batch := rows.batch():
        sizes.append(len(batch))
        total += sum(x for x, _ in batch)
    same((sizes, total), ([131072, 131072, 37856], 300000 * 300001 // 2))
    rows.close()


def test_threads_read_side_by_side():
    db = database()
    first, found = Rows(db, numbers(100000) + " SELECT x FROM c"), []

    def read(rows):
        found.append(sum(x for x, in rows.rows()))

    threads = [threading.Thread(target=read, args=(first.again(),)) for _ in range(6)]
    if host.binding == "apsw":
        first.ask()   # its connections are of one thread each
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(found, [100000 * 100001 // 2] * 6)


def test_a_stream_becomes_an_array():
    db = database()
    same(db.value("SELECT tessera_create_stream('made', tessera_rows(?), '{\"dimensions\":[\"x\"]}')", (numbers(10) + " SELECT x, x * x AS y FROM c",)), 10)
    db.table("made", "made")
    same(db.query("SELECT count(*), sum(y) FROM made"), [(10, 385)])


def test_requested_schemas():
    db = database()
    db.query("CREATE VIRTUAL TABLE r USING tessera(x INT16 DIMENSION(0, 99, 10), c INT8, u UINT8, l UINT32, f FLOAT32, s UTF8[], z BLOB, e TEXT ENUM('p', 'q') NULL, t DATETIME_SEC, m DATETIME_MIN)")
    db.query("INSERT INTO r VALUES(3, -128, 255, 4294967295, 0.5, 'é', x'00ff', 'q', '2024-01-01', '1970-01-01 00:01:00'), (4, 127, 0, 0, -1.5, '', x'', NULL, '1969-12-31', '1970-01-01')")
    whole = [("x", "s"), ("c", "c"), ("u", "C"), ("l", "I"), ("f", "f"), ("s", "U"), ("z", "Z"), ("e", "S", "U"), ("t", "tss:"), ("m", "tss:")]
    wider = [("x", "l"), ("c", "f"), ("u", "s"), ("l", "g"), ("f", "g"), ("s", "u"), ("z", "z"), ("e", "u"), ("t", "tsn:"), ("m", "tsu:")]
    for function, source in (("tessera_stream", "db:r"), ("tessera_rows", "SELECT * FROM r")):
        rows = Rows(db, source, function=function)
        same(rows.request(*wider), 1, function)
        same(rows.ask().formats, [form for _, form, *_ in wider])
        same(rows.rows(), [(3, -128.0, 255, 4294967295.0, 0.5, "é", b"\0\xff", "q", 1704067200 * 10**9, 60000000), (4, 127.0, 0, 0.0, -1.5, "", b"", None, -86400 * 10**9, 0)], function)
        rows = Rows(db, source, function=function)
        same(rows.request(*whole), 1, "the schema that it has")
        same(rows.ask().formats, [form for _, form, *_ in whole])
        same(rows.request(*wider), 0, "too late")
        for at, other in ((0, ("y", "s")), (0, ("x", "c")), (0, ("x", "S")), (3, ("l", "i")), (3, ("l", "f")), (4, ("f", "l")), (5, ("s", "Z")), (5, ("s", "vz")), (6, ("z", "vu")), (7, ("e", "S", "u")), (7, ("e", "C", "U")), (8, ("t", "tsn:UTC")), (8, ("t", "tdm")), (8, ("t", "l")), (2, ("u", "b"))):
            rows = Rows(db, source, function=function)
            same(rows.request(*whole[:at], other, *whole[at + 1:]), 0, f"{function}, {other}")
            same(rows.ask().formats, [form for _, form, *_ in whole], "the stream stays as it is")
            rows.close()
        rows = Rows(db, source, function=function)
        same((rows.request(*whole[:-1]), rows.request(*whole, format=b"+l"), rows.request(*whole, children=None)), (0, 0, 0), "schemas of another form")
        same(rows.request(*whole[:7], ("e", "l", "U"), *whole[8:]), 1, "wider codes")
        same([row[7] for row in rows.rows()], ["q", None])
        rows = Rows(db, source, function=function)
        same(rows.request(*whole[:5], ("s", "vu"), *whole[6:]), 1, "views")
        same([row[5] for row in rows.rows()], ["é", ""])
    db.query("UPDATE r SET t = '9999-12-31'")
    rows = Rows(db, "db:r", function="tessera_stream")
    same(rows.request(*whole[:8], ("t", "tsn:"), whole[9]), 1)
    try:
        rows.rows()
        raise AssertionError("an instant past the ends of nanoseconds was read")
    except Failed as e:
        check_contains(str(e), "past the ends of its Arrow type")
    rows.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
