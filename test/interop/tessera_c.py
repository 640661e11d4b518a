"""Calls libtessera.so from Python through its C interface (core/tessera.h): creates arrays and writes cells.

A schema is a dict: dense, cell_order and tile_order ('row', 'col', 'hilbert'), capacity, duplicates, version, key (32
bytes or None), coords_filters, offsets_filters, validity_filters, dims, attrs, enums, current (a box); generate.py
makes such dicts. A column is (bytes of the values, offsets or None, validity or None), offsets and validity as numpy
arrays.

As a program it serves another process, so that only this one is loaded with the sanitizers that the library may need:
requests are pickled (method, arguments) on standard input, answers (error or None, result) on standard output.
"""
import ctypes as C
import os
import pickle
import subprocess
import sys

import numpy as np

DATATYPES = ("INT32 INT64 FLOAT32 FLOAT64 CHAR INT8 UINT8 INT16 UINT16 UINT32 UINT64 ASCII UTF8 UTF16 UTF32 UCS2 UCS4 ANY "
             "DATETIME_YEAR DATETIME_MONTH DATETIME_WEEK DATETIME_DAY DATETIME_HR DATETIME_MIN DATETIME_SEC DATETIME_MS "
             "DATETIME_US DATETIME_NS DATETIME_PS DATETIME_FS DATETIME_AS TIME_HR TIME_MIN TIME_SEC TIME_MS TIME_US TIME_NS "
             "TIME_PS TIME_FS TIME_AS BLOB BOOL GEOM_WKB GEOM_WKT").split()
CODE = {name: code for code, name in enumerate(DATATYPES)}
NUMPY = {"INT32": "i4", "INT64": "i8", "FLOAT32": "f4", "FLOAT64": "f8", "INT8": "i1", "UINT8": "u1", "INT16": "i2",
         "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "BOOL": "u1"}
NUMPY.update({name: "i8" for name in DATATYPES if name.startswith(("DATETIME", "TIME"))})
SIZE = {name: np.dtype(NUMPY[name]).itemsize if name in NUMPY else {"UTF16": 2, "UCS2": 2, "UTF32": 4, "UCS4": 4}.get(name, 1)
        for name in DATATYPES}
FILTERS = {"none": 0, "gzip": 1, "zstd": 2, "lz4": 3, "rle": 4, "bzip2": 5, "double_delta": 6, "bit_width_reduction": 7,
           "bitshuffle": 8, "byteshuffle": 9, "positive_delta": 10, "md5": 12, "sha256": 13, "dictionary": 14,
           "scale_float": 15, "xor": 16, "delta": 19}
ORDERS = {"row": 0, "col": 1, "hilbert": 4}
VARIABLE = 0xFFFFFFFF


class Error(C.Structure):
    _fields_ = [("code", C.c_int), ("message", C.c_char * 1020), ("subject", C.c_uint32)]


class Filter(C.Structure):
    _fields_ = [("type", C.c_int), ("level", C.c_int32), ("reinterpret", C.c_uint8), ("window", C.c_uint32), ("scale", C.c_double),
                ("offset", C.c_double), ("byte_width", C.c_uint64)]


class Pipeline(C.Structure):
    _fields_ = [("max_chunk_size", C.c_uint32), ("count", C.c_uint32), ("filters", C.POINTER(Filter)), ("uncut", C.c_bool)]


class Enumeration(C.Structure):
    _fields_ = [("name", C.c_char_p), ("file", C.c_char_p), ("loaded", C.c_bool), ("datatype", C.c_int),
                ("values_per_label", C.c_uint32), ("ordered", C.c_bool), ("count", C.c_uint64), ("data", C.c_char_p),
                ("data_size", C.c_uint64), ("offsets", C.c_void_p)]


class Field(C.Structure):
    _fields_ = [("name", C.c_char_p), ("is_dimension", C.c_bool), ("datatype", C.c_int), ("values_per_cell", C.c_uint32),
                ("cell_size", C.c_uint64), ("filters", Pipeline), ("has_domain", C.c_bool), ("has_extent", C.c_bool),
                ("low", C.c_uint8 * 8), ("high", C.c_uint8 * 8), ("extent", C.c_uint8 * 8), ("nullable", C.c_bool),
                ("fill_validity", C.c_uint8), ("data_order", C.c_uint8), ("fill", C.c_char_p), ("fill_size", C.c_uint64),
                ("enumeration", C.c_char_p), ("duration", C.c_bool)]


class Interval(C.Structure):
    _fields_ = [("low", C.c_uint8 * 8), ("high", C.c_uint8 * 8), ("low_text", C.c_char_p), ("high_text", C.c_char_p),
                ("low_size", C.c_uint64), ("high_size", C.c_uint64)]


class Schema(C.Structure):
    _fields_ = [("name", C.c_char_p), ("time", C.c_uint64), ("version", C.c_uint32), ("dense", C.c_bool),
                ("allows_duplicates", C.c_bool), ("key_value", C.c_bool), ("tile_order", C.c_int), ("cell_order", C.c_int),
                ("capacity", C.c_uint64), ("coords_filters", Pipeline), ("offsets_filters", Pipeline),
                ("validity_filters", Pipeline), ("dimension_count", C.c_uint32), ("attribute_count", C.c_uint32),
                ("fields", C.POINTER(Field)), ("label_count", C.c_uint32), ("labels", C.c_void_p),
                ("enumeration_count", C.c_uint32), ("enumerations", C.POINTER(Enumeration)),
                ("current_domain", C.POINTER(Interval)), ("durations_unknown", C.c_char_p)]


class CreateOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("key", C.c_char_p), ("time", C.c_uint64), ("unsynced", C.c_bool), ("owner", C.c_char_p)]


class ArrayOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("key", C.c_char_p), ("cache_bytes", C.c_uint64), ("threads", C.c_uint),
                ("creation", C.c_void_p), ("host", C.c_void_p)]


class WriterOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("time", C.c_uint64), ("memory_bytes", C.c_uint64), ("threads", C.c_uint),
                ("unsynced", C.c_bool), ("schema", C.POINTER(Schema)), ("host", C.c_void_p)]


class Column(C.Structure):
    _fields_ = [("values", C.c_void_p), ("offsets", C.c_void_p), ("validity", C.c_void_p), ("cell_size", C.c_uint64),
                ("constant", C.c_bool), ("unwritten", C.c_bool)]


class Batch(C.Structure):
    _fields_ = [("count", C.c_uint64), ("selection", C.POINTER(C.c_uint32)), ("first", C.c_uint64), ("row_base", C.c_int64),
                ("rowids", C.POINTER(C.c_int64)), ("written", C.c_bool), ("time", C.c_uint64), ("times", C.POINTER(C.c_uint64)),
                ("fragment", C.c_uint64)]


class Refused(Exception):
    pass


def value_bytes(value, datatype):
    return value if isinstance(value, bytes) else np.array(value, dtype=NUMPY[datatype]).tobytes()


def eight(value, datatype):
    return (C.c_uint8 * 8)(*value_bytes(value, datatype))


def pipeline(filters):
    made = (Filter * max(len(filters), 1))()
    for slot, (name, options) in zip(made, filters):
        slot.type, slot.level, slot.reinterpret = FILTERS[name], options.get("level", -1), CODE[options.get("reinterpret", "ANY")]
        slot.window = options.get("window", 256)
        slot.scale, slot.offset = options.get("factor", 1.0), options.get("offset", 0.0)
        slot.byte_width = options.get("bytewidth", 8)
    return Pipeline(0, len(filters), made)


def interval(ends, datatype):
    if datatype == "ASCII":
        return Interval(low_text=ends[0], high_text=ends[1], low_size=len(ends[0]), high_size=len(ends[1]))
    return Interval(low=eight(ends[0], datatype), high=eight(ends[1], datatype))


def make_field(field, is_dimension):
    made = Field(name=field["name"].encode(), datatype=CODE[field["type"]], filters=pipeline(field.get("filters", [])))
    if is_dimension:
        made.values_per_cell = VARIABLE if field["type"] == "ASCII" else 1
        if field.get("domain"):
            made.has_domain = True
            made.low, made.high = (eight(v, field["type"]) for v in field["domain"])
        if field.get("extent") is not None:
            made.has_extent, made.extent = True, eight(field["extent"], field["type"])
        return made
    made.values_per_cell = field.get("values", 1)
    made.nullable = field.get("nullable", False)
    if "fill" in field:
        made.fill, made.fill_size = field["fill"], len(field["fill"])
        made.fill_validity = field.get("fill_valid", int(made.nullable))
    if field.get("enum"):
        made.enumeration = field["enum"].encode()
    return made


def make_enumeration(e, kept):
    data = b"".join(e["labels"])
    offsets = np.cumsum([0] + [len(label) for label in e["labels"]]).astype("u8")
    kept.append(offsets)
    return Enumeration(name=e["name"].encode(), loaded=True, datatype=CODE[e["type"]], values_per_label=e.get("values", VARIABLE),
                       ordered=e.get("ordered", False), count=len(e["labels"]), data=data, data_size=len(data),
                       offsets=offsets.ctypes.data)


def make_schema(s, kept):
    fields = [make_field(f, True) for f in s["dims"]] + [make_field(f, False) for f in s["attrs"]]
    enums = [make_enumeration(e, kept) for e in s.get("enums", [])]
    made = Schema(version=s.get("version", 0), dense=s["dense"], allows_duplicates=s.get("duplicates", False),
                  tile_order=ORDERS[s.get("tile_order", "row")], cell_order=ORDERS[s.get("cell_order", "row")],
                  capacity=s.get("capacity", 10000), coords_filters=pipeline(s.get("coords_filters", [])),
                  offsets_filters=pipeline(s.get("offsets_filters", [])), validity_filters=pipeline(s.get("validity_filters", [])),
                  dimension_count=len(s["dims"]), attribute_count=len(s["attrs"]), fields=(Field * len(fields))(*fields),
                  enumeration_count=len(enums), enumerations=(Enumeration * max(len(enums), 1))(*enums))
    if s.get("current"):
        box = [interval(ends, d["type"]) for ends, d in zip(s["current"], s["dims"])]
        made.current_domain = (Interval * len(box))(*box)
    return made


def make_columns(fields, columns, kept):
    made = (Column * len(fields))()
    for slot, field in zip(made, fields):
        if field["name"] not in columns:
            continue
        values, offsets, validity = columns[field["name"]]
        values = np.frombuffer(values or b"\0", "u1")
        kept += [values, offsets, validity]
        slot.values = values.ctypes.data
        slot.offsets = offsets.ctypes.data if offsets is not None else None
        slot.validity = validity.ctypes.data if validity is not None else None
    return made


class Tessera:
    """An environment of libtessera, with methods that write and read arrays."""

    def __init__(self, library):
        self.library = C.CDLL(library)
        for name in ("tsr_writer_fragment_count", "tsr_writer_time"):
            getattr(self.library, name).restype = C.c_uint64
        self.library.tsr_writer_fragment.restype = C.c_char_p
        self.environment = C.c_void_p()
        self.call("tsr_environment_open", None, C.byref(self.environment))

    def call(self, name, *arguments):
        error = Error()
        code = getattr(self.library, name)(*arguments, C.byref(error))
        if code < 0:
            raise Refused(f"{name}: {code} {error.message.decode(errors='replace')}")
        return code

    def create(self, path, schema, time=0):
        kept = []
        options = CreateOptions(key=schema.get("key"), time=time, unsynced=True)
        made = make_schema(schema, kept)
        self.call("tsr_array_create", self.environment, path.encode(), C.byref(made), C.byref(options))

    def check(self, schema):
        kept = []
        made = make_schema(schema, kept)
        self.call("tsr_schema_check", self.environment, C.byref(made))

    def write(self, path, schema, batches, time=0, threads=0):
        """Writes one commit: batches of (columns, count) of a sparse array, of (columns, box, array's order) of a dense one."""
        array, writer, kept = C.c_void_p(), C.c_void_p(), []
        options = ArrayOptions(key=schema.get("key"))
        fields = schema["dims"] + schema["attrs"]
        self.call("tsr_array_open", self.environment, path.encode(), C.byref(options), C.byref(array))
        try:
            options = WriterOptions(time=time, threads=threads, unsynced=True)
            self.call("tsr_writer_open", array, C.byref(options), C.byref(writer))
            for batch in batches:
                columns = make_columns(fields, batch[0], kept)
                if schema["dense"]:
                    box = [interval(ends, d["type"]) for ends, d in zip(batch[1], schema["dims"])]
                    self.call("tsr_writer_append_box", writer, (Interval * len(box))(*box), C.c_bool(batch[2]), columns)
                else:
                    self.call("tsr_writer_append", writer, columns, None, C.c_uint64(batch[1]))
            self.call("tsr_writer_prepare", writer)
            count = self.library.tsr_writer_fragment_count(writer)
            names = [self.library.tsr_writer_fragment(writer, C.c_uint64(i)).decode() for i in range(count)]
            self.call("tsr_writer_publish", writer)
            return names
        finally:
            self.library.tsr_writer_close(writer)
            self.library.tsr_array_close(array)

    def change(self, path, schema, removed, columns, count, time=0, threads=0):
        """Writes one commit of single cells: removes rows, (rowid, coordinates) each, then appends cells."""
        array, writer, kept = C.c_void_p(), C.c_void_p(), []
        options = ArrayOptions(key=schema.get("key"))
        self.call("tsr_array_open", self.environment, path.encode(), C.byref(options), C.byref(array))
        try:
            options = WriterOptions(time=time, threads=threads, unsynced=True)
            self.call("tsr_writer_open", array, C.byref(options), C.byref(writer))
            places = make_columns(schema["dims"], removed[1], kept) if removed else None
            for i, row in enumerate(removed[0] if removed else []):
                self.call("tsr_writer_remove", writer, C.c_int64(row), places, C.c_uint64(i))
            if count:
                made = make_columns(schema["dims"] + schema["attrs"], columns, kept)
                self.call("tsr_writer_append", writer, made, None, C.c_uint64(count))
            self.call("tsr_writer_prepare", writer)
            fragments = self.library.tsr_writer_fragment_count(writer)
            self.call("tsr_writer_publish", writer)
            return fragments
        finally:
            self.library.tsr_writer_close(writer)
            self.library.tsr_array_close(array)

    def read(self, path, schema, as_of=2**64 - 1):
        """Returns all rows: a list of (rowid, whether it was written, cells as bytes, None for null)."""
        array, snapshot, reader, rows = C.c_void_p(), C.c_void_p(), C.c_void_p(), []
        options = ArrayOptions(key=schema.get("key"))
        self.call("tsr_array_open", self.environment, path.encode(), C.byref(options), C.byref(array))
        try:
            self.call("tsr_snapshot_open", array, None, C.c_uint64(0), C.c_uint64(as_of), C.byref(snapshot))
            self.call("tsr_reader_open", snapshot, C.byref(reader))
            self.call("tsr_reader_start", reader, (C.c_uint64 * 16)())
            batch = C.POINTER(Batch)()
            while self.call("tsr_reader_next", reader, C.byref(batch)):
                rows += self.rows_of(reader, schema, batch.contents)
            return rows
        finally:
            self.library.tsr_reader_close(reader)
            self.library.tsr_snapshot_close(snapshot)
            self.library.tsr_array_close(array)

    def rows_of(self, reader, schema, batch):
        index = [batch.selection[r] if batch.selection else batch.first + r for r in range(batch.count)]
        columns, fields = [], schema["dims"] + schema["attrs"]
        for f, field in enumerate(fields):
            pointer = C.POINTER(Column)()
            self.call("tsr_reader_column", reader, C.c_uint32(f), C.byref(pointer))
            column = pointer.contents
            at = [0 if column.constant else i for i in index]
            if column.cell_size:
                cells = [C.string_at(column.values + i * column.cell_size, column.cell_size) for i in at]
            else:
                offsets = C.cast(column.offsets, C.POINTER(C.c_uint64))
                cells = [C.string_at(column.values + offsets[i], offsets[i + 1] - offsets[i]) if offsets[i + 1] > offsets[i] else b"" for i in at]
            if column.validity:
                valid = C.cast(column.validity, C.POINTER(C.c_uint8))
                cells = [c if valid[i] else None for c, i in zip(cells, at)]
            columns.append(cells)
        rowids = [batch.rowids[i] if batch.rowids else batch.row_base + i for i in index]
        return [(row, batch.written, cells) for row, cells in zip(rowids, zip(*columns))]


class Remote:
    """A Tessera in a process of its own, with TESSERA_PRELOAD as its LD_PRELOAD."""

    def __init__(self, library):
        self.library, self.process = library, None
        self.restart()

    def restart(self):
        """Closes the process, even if a client has died during a request."""
        if self.process:
            self.process.kill()
            self.process.wait()
        environment = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        if os.environ.get("TESSERA_PRELOAD"):
            environment["LD_PRELOAD"] = os.environ["TESSERA_PRELOAD"]
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.library], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment)

    def ask(self, *request):
        pickle.dump(request, self.process.stdin)
        self.process.stdin.flush()
        error, result = pickle.load(self.process.stdout)
        if error:
            raise Refused(error)
        return result

    def create(self, *arguments, **named):
        return self.ask("create", arguments, named)

    def check(self, *arguments, **named):
        return self.ask("check", arguments, named)

    def write(self, *arguments, **named):
        return self.ask("write", arguments, named)

    def change(self, *arguments, **named):
        return self.ask("change", arguments, named)

    def read(self, *arguments, **named):
        return self.ask("read", arguments, named)


def serve(library):
    tessera = Tessera(library)
    while True:
        try:
            method, arguments, named = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = None, getattr(tessera, method)(*arguments, **named)
        except Refused as e:
            answer = str(e), None
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
