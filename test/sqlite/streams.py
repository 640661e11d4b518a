"""Arrow streams of tessera_stream: their rows are those of SQL; tokens are taken once; a stream shows one state; closing the connection ends its
streams; errors keep their message; threads share a connection. The streams are read here by ctypes, so no Arrow library is needed.

usage: streams.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import ctypes as C
import json
import os
import pickle
import struct
import sys
import tempfile
import threading

import host
from host import Database, Error, check_contains, same

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "python"))
import tessera
from tessera import connections


class Schema(C.Structure):
    pass


class Array(C.Structure):
    pass


Schema._fields_ = [("format", C.c_char_p), ("name", C.c_char_p), ("metadata", C.c_void_p), ("flags", C.c_int64), ("n_children", C.c_int64),
                   ("children", C.POINTER(C.POINTER(Schema))), ("dictionary", C.POINTER(Schema)), ("release", C.CFUNCTYPE(None, C.c_void_p)), ("private", C.c_void_p)]
Array._fields_ = [("length", C.c_int64), ("null_count", C.c_int64), ("offset", C.c_int64), ("n_buffers", C.c_int64), ("n_children", C.c_int64),
                  ("buffers", C.POINTER(C.c_void_p)), ("children", C.POINTER(C.POINTER(Array))), ("dictionary", C.POINTER(Array)),
                  ("release", C.CFUNCTYPE(None, C.c_void_p)), ("private", C.c_void_p)]


class Stream(C.Structure):
    _fields_ = [("get_schema", C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)), ("get_next", C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)),
                ("get_last_error", C.CFUNCTYPE(C.c_char_p, C.c_void_p)), ("release", C.CFUNCTYPE(None, C.c_void_p)), ("private", C.c_void_p)]


class Failed(Exception):
    pass


def column(schema, array):
    """The values of a column of one batch."""
    n, form = array.length, schema.format.decode()
    valid = C.string_at(array.buffers[0], (n + 7) // 8) if array.buffers[0] else b"\xff" * n
    if schema.dictionary:
        labels = column(schema.dictionary.contents, array.dictionary.contents)
    if form in "UZ":
        offsets = struct.unpack(f"<{n + 1}q", C.string_at(array.buffers[1], 8 * (n + 1)))
        data = C.string_at(array.buffers[2], offsets[-1])
        values = [data[a:b].decode() if form == "U" else data[a:b] for a, b in zip(offsets, offsets[1:])]
    elif form == "vu":
        views = [C.string_at(array.buffers[1] + 16 * i, 16) for i in range(n)]
        sizes = [struct.unpack("<i", view[:4])[0] for view in views]
        values = [(view[4:4 + size] if size <= 12 else C.string_at(array.buffers[2] + struct.unpack("<i", view[12:])[0], size)).decode() for view, size in zip(views, sizes)]
    else:
        letter, size = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "f": "f", "g": "d", "tdD": "i"}.get(form, "q"), 0
        size = struct.calcsize("<" + letter)
        values = list(struct.unpack(f"<{n}{letter}", C.string_at(array.buffers[1], size * n)))
    if schema.dictionary:
        values = [labels[v] if 0 <= v < len(labels) else None for v in values]
    return [v if valid[i // 8] >> i % 8 & 1 else None for i, v in enumerate(values)]


class Reader:
    """A stream that was taken with a token."""

    def __init__(self, db, *arguments):
        self.functions = connections.functions_of(db.raw)
        self.token = db.value(f"SELECT tessera_stream({', '.join('?' * len(arguments))})", arguments)
        self.address = self.functions.take_new(self.token.encode())
        assert self.address, "the token is known"
        self.stream = Stream.from_address(self.address)
        self.schema = Schema()
        self.check(self.stream.get_schema(self.address, C.addressof(self.schema)))
        self.names = [self.schema.children[i].contents.name.decode() for i in range(self.schema.n_children)]

    def check(self, code):
        if code:
            raise Failed(f"{os.strerror(code)}: {self.stream.get_last_error(self.address).decode()}")

    def batch(self):
        """The next batch as rows; None at the end."""
        array = Array()
        self.check(self.stream.get_next(self.address, C.addressof(array)))
        if not array.release:
            return None
        columns = [column(self.schema.children[i].contents, array.children[i].contents) for i in range(array.n_children)]
        array.release(C.addressof(array))
        return list(zip(*columns))

    def rows(self):
        found = []
        while (batch := self.batch()) is not None:
            assert batch, "no batch is empty"
            found += batch
        self.close()
        return found

    def close(self):
        if self.address:
            self.schema.release(C.addressof(self.schema))
            self.functions.free_stream(self.address)
        self.address = None


def make(db, where=""):
    db.query(f"CREATE VIRTUAL TABLE d USING tessera({where and repr(where) + ', '}y INT32 DIMENSION(-5, 94, 10), x INT64 DIMENSION(0, 49, 10), v FLOAT64, s UTF8[] NULL)")
    db.query("INSERT INTO d SELECT y.value, x.value, y.value * 50 + x.value, CASE WHEN x.value % 3 THEN 'é' || x.value END FROM generate(60) AS y, generate(50) AS x"
             .replace("generate(60)", "(WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM c WHERE value < 59) SELECT value FROM c)")
             .replace("generate(50)", "(WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM c WHERE value < 49) SELECT value FROM c)"))


def test_rows_are_those_of_sql():
    db = Database()
    make(db)
    reader = Reader(db, "db:d")
    same(reader.names, ["y", "x", "v", "s"])
    same(sorted(reader.rows()), sorted(db.query("SELECT * FROM d")), "all rows")
    same(sorted(Reader(db, "db:d", '{"y":[10,12],"x":7}').rows()), db.query("SELECT * FROM d WHERE y BETWEEN 10 AND 12 AND x = 7 ORDER BY 1"), "a box")
    options = '{"columns":["s","y"],"where":[["v",">",100],["v","<=",300.5],["s","is not",null]],"order":[["y","desc"],"x"],"batch_rows":10}'
    same(Reader(db, "db:d", None, options).rows(), db.query("SELECT s, y FROM d WHERE v > 100 AND v <= 300.5 AND s IS NOT NULL ORDER BY y DESC, x"), "where, order, columns")
    same(Reader(db, "db:d", '{"y":[70,80]}').rows(), [], "nothing")
    db.close()


def test_labels_are_columns():
    """Labels that 'columns' names are those of SQL: of dense and sparse arrays, numbers, texts and days, with coordinates that have none, in any order."""
    db = Database()
    for kind in ("kind=dense", "capacity=7"):
        path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "labelled")
        db.query(f"CREATE VIRTUAL TABLE l USING tessera({host.literal(path)}, {kind}, y INT32 DIMENSION(-5, 44, 10) LABEL lat FLOAT64 LABEL name TEXT, x INT32 DIMENSION(0, 29, 10) LABEL day DATE DECREASING, v INT32)")
        db.query("INSERT INTO l WITH RECURSIVE y(y) AS (VALUES(-5) UNION ALL SELECT y + 1 FROM y WHERE y < 44), x(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM x WHERE x < 29) SELECT y, x, y * 100 + x FROM y, x WHERE (y + x) % 3 <> 1")
        db.query("SELECT tessera_write_label(?, 'lat', ?, -3)", (path, json.dumps([i / 2 for i in range(40)])))   # some have none
        db.query("SELECT tessera_write_label(?, 'name', ?)", (path, json.dumps([f"n{i:02}" for i in range(50)])))
        db.query("SELECT tessera_write_label(?, 'day', ?)", (path, json.dumps([f"2024-03-{31 - i:02}" for i in range(30)])))
        written = "" if kind.startswith("capacity") else " WHERE written_at IS NOT NULL"
        days = {text: number for number, text in db.query("WITH RECURSIVE d(n) AS (VALUES(0) UNION ALL SELECT n + 1 FROM d WHERE n < 29) SELECT julianday('2024-03-31') - 2440587.5 - n, date('2024-03-31', '-' || n || ' days') FROM d")}

        def plain(rows):
            return sorted([tuple(int(days[v]) if isinstance(v, str) and v in days else v for v in row) for row in rows], key=repr)
        for box, where in ((None, ""), ('{"y":[-4,3],"x":7}', "y BETWEEN -4 AND 3 AND x = 7"), ('{"lat":[1,4.5]}', "lat BETWEEN 1 AND 4.5")):
            for columns in (["lat", "v"], ["v", "NAME", "lat", "day", "y", "x"], ["day"]):
                reader = Reader(db, path, box, json.dumps({"columns": columns, "batch_rows": 100, **({"where": [["v", "is not", None]]} if written else {})}))
                same(reader.names, [name.lower() for name in columns], "names")
                said = " AND ".join(filter(None, [where, written.partition("WHERE ")[2]]))
                same(plain(reader.rows()), plain(db.query(f"SELECT {', '.join(columns)} FROM l" + (f" WHERE {said}" if said else ""))), (kind, box, columns))
        for columns, says in ((["lat", "v", "lat"], "'columns' names 'lat' twice"), (["lot"], "has no column 'lot'"), (["lat", "name", "day", "v", "y", "x", "v"], "names a column twice")):
            check_contains(db.error("SELECT tessera_stream(?, NULL, ?)", (path, json.dumps({"columns": columns}))).text, says)
        a = tessera.open(path, connection=db.raw)
        reader = Reader(db, path, None, '{"columns":["lat","v"]}')
        db.query("DROP TABLE l")
        db.query("SELECT tessera_drop(?)", (path,))   # the stream has read its labels
        reader.close()
        same(a.select("lat", "v").path, path, "an Array")
    same(db.value("SELECT tessera_stream()"), 0, "no stream is left")
    db.close()


def test_enumerations_and_capacities():
    for name in ("new/enums/dense", "new/enums/sparse", "new/sparse/capacity1"):
        db = Database()
        path = f"{host.CORPUS}/{name}"
        db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}')")
        reader = Reader(db, path)
        known = [i for i, field in enumerate(reader.schema.children[k].contents for k in range(len(reader.names)))
                 if (field.dictionary.contents.format if field.dictionary else field.format).decode() in "UZcCsSiIlLfg"]
        assert len(known) >= 3, name
        kept = [[tuple(None if row[i] != row[i] else row[i] for i in known) for row in rows]   # SQL shows NaN as NULL
                for rows in (reader.rows(), db.query("SELECT * FROM t"))]
        same(sorted(kept[0], key=repr), sorted(kept[1], key=repr), name)
        db.close()


def test_tokens_are_taken_once():
    db = Database()
    make(db)
    reader = Reader(db, "db:d")
    assert not reader.functions.take_new(reader.token.encode()), "a second time"
    assert not reader.functions.take_new(b"0" * 32), "a token that nobody gave"
    reader.close()
    tokens = [db.value("SELECT tessera_stream('db:d')") for _ in range(256)]
    check_contains(db.error("SELECT tessera_stream('db:d')").text, "256 streams of this connection have not been read")
    for token in tokens:
        reader.functions.free_stream(reader.functions.take_new(token.encode()))
    db.close()


def test_a_stream_shows_one_state():
    db = Database()
    make(db)
    reader = Reader(db, "db:d", None, '{"batch_rows":100}')
    first = reader.batch()
    db.query("UPDATE d SET v = -1")
    db.query("BEGIN")
    db.query("DELETE FROM d WHERE y < 10")
    check_contains(db.error("SELECT tessera_stream('db:d')").text, "transaction")
    db.query("ROLLBACK")
    assert all(row[2] >= 0 for row in first + reader.rows()), "later commits are not seen"
    assert all(row[2] == -1 for row in Reader(db, "db:d").rows())
    db.close()


def test_closing_ends_streams():
    db = Database()
    make(db)
    reader, untouched = Reader(db, "db:d", None, '{"batch_rows":100}'), Reader(db, "db:d")
    token = db.value("SELECT tessera_stream('db:d')")
    reader.batch()
    db.close()
    try:
        reader.batch()
        raise AssertionError("a stream of a closed connection gave a batch")
    except Failed as e:
        check_contains(str(e), "the connection of this stream was closed")
    assert not reader.functions.take_new(token.encode()), "the token of a closed connection"
    reader.close()
    untouched.close()


def test_conditions_on_labels_give_the_rows_of_sql():
    """As texts and as numbers; codes without a label, of which the array has some, read as NULL."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE g USING tessera(x INT32 DIMENSION(0, 999), filter TEXT NULL ENUM('PASS', 'q10', 'é', ''), depth INT32 NOT NULL ENUM(30, 10, 20), code INT8 NULL)")
    db.query("WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 299) "
             "INSERT INTO g SELECT i, CASE i % 5 WHEN 0 THEN 'PASS' WHEN 1 THEN 'q10' WHEN 2 THEN 'é' WHEN 3 THEN '' END, 10 + i % 3 * 10, nullif(i % 7, 6) FROM c")
    for name, operator, value in (("filter", "=", "PASS"), ("filter", "=", "é"), ("filter", "=", ""), ("filter", "=", "pass"), ("filter", "=", "absent"), ("filter", ">", "PASS"), ("filter", "<=", "q"),
                                  ("filter", "in", ["q10", "PASS", "absent"]), ("filter", "in", []), ("filter", "is", None), ("filter", "is not", None), ("depth", "=", 20), ("depth", ">=", 20),
                                  ("depth", "<", 10.5), ("depth", "in", [30, 10]), ("depth", "is", None), ("code", "in", [1, 5]), ("code", "in", [])):
        values = "(SELECT value FROM json_each(%s))" % host.literal(json.dumps(value)) if operator == "in" else "NULL" if value is None else repr(value)
        for columns in ("x, filter", "x"):
            options = json.dumps({"where": [[name, operator, value], ["code", "<", 5]], "columns": columns.split(", "), "order": ["x"]})
            same(Reader(db, "db:g", None, options).rows(), db.query(f"SELECT {columns} FROM g WHERE {name} {operator} {values} AND code < 5 ORDER BY x"), options)
    same(Reader(db, "db:g", None, '{"where":[["filter","=",1]],"columns":["x"],"enums":"code","order":["x"]}').rows(), db.query("SELECT x FROM g WHERE filter = 'q10' ORDER BY x"), "codes")
    for condition, words in (('["filter","=",1]', "text, and it is compared with a number"), ('["depth","in",["a"]]', "numbers, and it is compared with text"),
                             ('["filter","in",["PASS",null]]', "NULL"), ('["filter","in","PASS"]', "a list of values"), ('["filter","=",null]', "NULL")):
        check_contains(db.error("SELECT tessera_stream('db:g', NULL, ?)", (f'{{"where":[{condition}]}}',)).text, words)
    opened = tessera.open("db:g", connection=db.raw, memory_mb=8, threads=2).where("filter", "in", ("q10", "PASS")).select("x").order("x")
    check_contains(repr(opened.__arrow_c_stream__()), "arrow_array_stream")
    db.close()


def test_conditions_on_text_with_nul():
    """All bytes of a text are compared, also behind a NUL and behind other escapes of JSON."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE n USING tessera(k INT32 DIMENSION(1, 9), s UTF8)")
    texts = ["x", "x\0", "x\0y", "y", "é\n\0😀", "é\n"]
    for k, text in enumerate(texts, 1):
        db.query("INSERT INTO n VALUES(?, CAST(? AS TEXT))", (k, text.encode()))
    for ascii in (True, False):
        for value in texts:
            for operator, holds in (("=", lambda a, b: a == b), ("<", lambda a, b: a < b), ("<=", lambda a, b: a <= b), (">", lambda a, b: a > b), (">=", lambda a, b: a >= b), ("in", lambda a, b: a == b)):
                options = json.dumps({"where": [["s", operator, [value] if operator == "in" else value]], "columns": ["k"]}, ensure_ascii=ascii)
                same(sorted(Reader(db, "db:n", None, options).rows()), [(k,) for k, text in enumerate(texts, 1) if holds(text.encode(), value.encode())], options)
    db.close()


def test_conditions_on_numbers_have_all_digits():
    """With and without quotes: json_each makes a REAL of an integer past INT64."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE u USING tessera(k INT32 DIMENSION(1, 9), u UINT64, i INT64, f FLOAT64, d DATETIME_SEC)")
    numbers = [0, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
    for k, number in enumerate(numbers, 1):
        db.query("INSERT INTO u VALUES(?, ?, ?, ?, '2024-01-02')", (k, str(number), number >> 1, k / 10))
    for value in numbers:
        for text in (value, str(value)):
            for operator, holds in (("=", lambda a, b: a == b), ("<", lambda a, b: a < b), (">=", lambda a, b: a >= b), ("in", lambda a, b: a == b)):
                options = json.dumps({"where": [["u", operator, [text] if operator == "in" else text]], "columns": ["k"], "order": ["k"]})
                same(Reader(db, "db:u", None, options).rows(), [(k,) for k, number in enumerate(numbers, 1) if holds(number, value)], options)
    for condition, rows in (('["i","=",9223372036854775807]', [(6,)]), ('["i","=",9007199254740992.0]', []), ('["f","=",0.3]', [(3,)]), ('["f","<",2]', [(k,) for k in range(1, 7)]), ('["d","=","2024-01-02"]', [(k,) for k in range(1, 7)])):
        same(Reader(db, "db:u", None, f'{{"where":[{condition}],"columns":["k"],"order":["k"]}}').rows(), rows, condition)
    db.query(f"CREATE VIRTUAL TABLE w USING tessera(k INT32 DIMENSION(1, 9), e UINT64 ENUM({', '.join(map(str, numbers))}))")
    for k, number in enumerate(numbers, 1):
        db.query("INSERT INTO w VALUES(?, ?)", (k, number if number < 2**63 else str(number)))
    for value in numbers:
        for text in (value, str(value)):
            for operator, holds in (("=", lambda a, b: a == b), ("<", lambda a, b: a < b), (">", lambda a, b: a > b), (">=", lambda a, b: a >= b), ("in", lambda a, b: a == b)):
                options = json.dumps({"where": [["e", operator, [text] if operator == "in" else text]], "columns": ["k"], "order": ["k"]})
                same(Reader(db, "db:w", None, options).rows(), [(k,) for k, number in enumerate(numbers, 1) if holds(number, value)], options)
    same(Reader(db, "db:w", None, '{"where":[["e",">",-1.5]],"columns":["k"],"order":["k"]}').rows(), [(k,) for k in range(1, 7)])
    same(Reader(db, "db:w", None, '{"where":[["e","is not",null]],"columns":["k"],"order":["k"]}').rows(), [(k,) for k in range(1, 7)])
    for value in ("18446744073709551616", "-1", "1.5"):
        check_contains(db.error("SELECT tessera_stream('db:u', NULL, ?)", (f'{{"where":[["u","=",{value}]]}}',)).text, value)
    db.close()


def test_errors():
    db, array = Database(), f"{host.FOLDER}/array_{host.binding}"
    make(db, array)
    for arguments, words in ((("db:nosuch",), ["no such table"]), (("nosuch",), ["not found"]), (("db:d", '{"q":1}'), ["'q'", "y, x"]),
                             (("db:d", None, '{"columns":["q"]}'), ["no column 'q'"]), (("db:d", None, '{"columns":["v","v"]}'), ["twice"]),
                             (("db:d", None, '{"where":[["y",">",1]]}'), ["no attribute 'y'"]), (("db:d", None, '{"where":[["v","like",1]]}'), ["'like'"]),
                             (("db:d", None, '{"where":[["v","is",1]]}'), ["NULL"]), (("db:d", None, '{"where":[["v","="]]}'), ["expected"]),
                             (("db:d", None, '{"order":[["v"]]}'), ["no dimension 'v'"]), (("db:d", None, '{"order":[["y","up"]]}'), ["asc"]),
                             (("db:d", None, '{"strings":"tiny"}'), ["expected large, small, binary or view"]), (("db:d", None, '{"rows":1}'), ["no option is called 'rows'"]),
                             (("db:d", None, '{"batch_rows":0}'), ["'batch_rows'", "from 1 to"]), (("db:d", None, '{"memory_mb":0.5}'), ["'memory_mb'", "an integer from 1", "not 0.5"]), (("db:d", None, '{"threads":257}'), ["'threads'", "from 1 to 256"]), ((7,), ["expected text"])):
        text = db.error(f"SELECT tessera_stream({', '.join('?' * len(arguments))})", arguments).text
        for word in ["tessera_stream: ", *words]:
            check_contains(text, word)
    reader = Reader(db, array)
    fragment = os.listdir(f"{array}/__fragments")[0]
    for name in os.listdir(f"{array}/__fragments/{fragment}"):
        if name.startswith("a"):
            os.truncate(f"{array}/__fragments/{fragment}/{name}", 10)
    try:
        reader.batch()
        raise AssertionError("a damaged array was read")
    except Failed as e:
        check_contains(str(e), "a0")
    reader.close()
    db.close()


def test_restriction_holds():
    db, array = Database(), f"{host.FOLDER}/outside_{host.binding}"
    make(db, array)
    os.makedirs(f"{host.FOLDER}/inside", exist_ok=True)
    db.query("SELECT tessera_restrict(?)", (f"{host.FOLDER}/inside",))
    check_contains(db.error("SELECT tessera_stream(?)", (array,)).text, "outside")
    db.close()


def test_threads_share_a_connection():
    if host.binding == "apsw":
        return   # its connections are of one thread each
    db = Database()
    make(db)
    failures, stop = [], threading.Event()

    def read():
        try:
            for _ in range(15):
                reader = Reader(db, "db:d", None, '{"batch_rows":200}')
                if len(reader.batch() + reader.rows()) != 3000:
                    failures.append("a stream has lost rows")
        except Exception as e:
            failures.append(repr(e))

    def ask():
        while not stop.is_set():
            db.query("SELECT count(*), sum(v) FROM d")

    asking = threading.Thread(target=ask)
    reading = [threading.Thread(target=read) for _ in range(3)]
    for thread in [asking, *reading]:
        thread.start()
    for thread in reading:
        thread.join()
    stop.set()
    asking.join()
    same(failures, [])
    db.close()


def test_module():
    db = Database()
    make(db)
    a = tessera.open("db:d", connection=db.raw)
    same(a.dims, ("y", "x"))
    same(a.attributes, ("v", "s"))
    part = a.sel(y=(10, 12), x=slice(40, None)).where("v", ">", 560).select("v").order(("y", "desc"), "x")
    assert "560" in repr(part)
    capsule = part.__arrow_c_stream__()
    assert "arrow_array_stream" in repr(capsule)
    del capsule
    try:
        tessera.open("nosuch", connection=db.raw)
        raise AssertionError("an array that does not exist was opened")
    except Exception as e:
        check_contains(str(e), "nosuch")
    db.close()


def test_lent_memory():
    db = Database()
    db.query("CREATE VIRTUAL TABLE b USING tessera(kind=dense, y INT32 DIMENSION(0, 9, 5), x INT32 DIMENSION(0, 3, 4), v INT16 NOT NULL)")
    functions, token = connections.functions_of(db.raw), C.create_string_buffer(33)

    def lend(values, header):
        assert functions.lend(C.addressof(values), C.sizeof(values), header.encode(), token)
        return token.value.decode()

    given, header = (C.c_int16 * 8)(*range(8)), "{'descr': '<i2', 'fortran_order': %s, 'shape': (2, 4), }"
    same(db.value("SELECT tessera_write_npy('db:b', 'v', ?, '{\"y\":3}')", (lend(given, header % "False"),)), 8)
    same(db.query("SELECT v FROM b ORDER BY y, x"), [(v,) for v in range(8)])
    same(db.value("SELECT tessera_write_npy('db:b', 'v', ?, '{\"y\":3}')", (lend(given, header % "True"),)), 8)
    same(db.query("SELECT v FROM b ORDER BY y, x"), [(v,) for v in (0, 2, 4, 6, 1, 3, 5, 7)], "Fortran's order")
    text = db.value("SELECT tessera_npy('db:b', 'v', '{\"x\":[1,2]}', '{\"header\":true}')")
    check_contains(text, "'shape': (2, 2)")
    out, ask = (C.c_int16 * 4)(), "SELECT tessera_npy('db:b', 'v', '{\"x\":[1,2]}', json_object('into', ?))"
    same(db.value(ask, (lend(out, text),)), text)
    same(list(out), [2, 4, 3, 5])
    check_contains(db.error(ask, (token.value.decode(),)).text, "unknown token")
    check_contains(db.error(ask, (lend((C.c_int16 * 5)(), text),)).text, "the memory has 10 bytes")
    check_contains(db.error(ask, (lend(out, text.replace("2, 2", "4, 1")),)).text, "the block is")
    check_contains(db.error("SELECT tessera_npy('db:b', 'q', NULL, json_object('into', ?))", (lend(out, text),)).text, "no attribute 'q'")
    check_contains(db.error(ask, (token.value.decode(),)).text, "unknown token")
    check_contains(db.error("SELECT tessera_write_npy('db:b', 'v', ?)", (lend(given, "(8,)"),)).text, "header of lent memory")
    for options, words in (('{"x":1}', "no option is called 'x'"), ('{"header":1}', "true or false"), ('{"into":7}', "expected text, not 7"), ('{"as_of":1,"as_of":2}', "twice")):
        check_contains(db.error("SELECT tessera_npy('db:b', 'v', NULL, ?)", (options,)).text, words)
    same(db.value("SELECT tessera_npy('db:b', 'v', NULL, '{\"as_of\":\"2000-01-01\",\"header\":true}') LIKE '%(0, 0)%'"), 1, "before the first commit")
    tokens = []
    while functions.lend(C.addressof(out), 8, b"", token):
        tokens.append(token.value)
    same(len(tokens), 256)
    for one in tokens:
        functions.take_back(one)
    db.close()


def count_rows(array):
    """The rows of an Array's stream, read by ctypes."""
    functions = connections.functions_of(array.connection)
    address = functions.take_new(array._rows("SELECT tessera_stream(?)", array.path)[0][0].encode())
    stream, rows = Stream.from_address(address), 0
    while True:
        batch = Array()
        assert stream.get_next(address, C.addressof(batch)) == 0
        if not batch.release:
            functions.free_stream(address)
            return rows
        rows += batch.length
        batch.release(C.addressof(batch))


def test_without_a_connection():
    db, path = Database(), f"{host.FOLDER}/alone_{host.binding}"
    make(db, path)
    db.close()
    tessera.loading.loadable_path = lambda: host.EXTENSION
    a = tessera.open(path)
    same((a.dims, a.attributes, a.kind, a.shape, a.sel(y=(0, 9)).shape), (("y", "x"), ("v", "s"), "sparse", (60, 50), (10, 50)))
    same(count_rows(pickle.loads(pickle.dumps(a.sel(y=(0, 9))))), 3000, "a pickled Array")
    found, mine, together = [], a.connection, threading.Barrier(8)

    def read():
        together.wait()   # all eight run at once: a thread that ended leaves its number, and its connection, to the next
        found.append((count_rows(a), id(a.connection)))
        together.wait()

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same([rows for rows, _ in found], [3000] * 8, "eight threads")
    same(len({connection for _, connection in found} | {id(mine)}), 9, "the connections of nine threads")
    child = os.fork()
    if child == 0:
        os._exit(count_rows(a) != 3000 or a.connection is mine)
    same(os.waitpid(child, 0)[1], 0, "after a fork")


def test_errors_are_those_of_python():
    tessera.loading.loadable_path = lambda: host.EXTENSION
    for kind, also, act in ((tessera.NotFound, FileNotFoundError, lambda: tessera.open("nosuch")), (ValueError, ValueError, lambda: tessera.open("db:t"))):
        try:
            act()
            raise AssertionError(f"{kind} was expected")
        except kind as e:
            assert isinstance(e, also), e
            if kind is tessera.NotFound:
                check_contains(str(e), "nosuch")
                copy = pickle.loads(pickle.dumps(e))
                same((type(copy), copy.code & 255, copy.path, str(copy)), (tessera.NotFound, 14, "nosuch", str(e)))
    db = Database()
    make(db)
    for kind, act in ((tessera.Range, lambda a: a.sel(y=5000).__arrow_c_stream__()), (tessera.Error, lambda a: a.select("q").__arrow_c_stream__()), (TypeError, pickle.dumps)):
        try:
            act(tessera.open("db:d", connection=db.raw))
            raise AssertionError(f"{kind} was expected")
        except kind:
            pass
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
