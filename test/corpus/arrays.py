"""The corpus: arrays that TileDB wrote, with their expected contents.

Beside each array is a NAME.json with the contents (see "Corpus" in test/README.md). This module finds the arrays, and
converts expected values to the form in which SQL shows them with the options datetimes=integer, enums=code,
vectors=json, under which different stored bytes look different.
"""
import json
import math
import os
import sqlite3
import zlib

OPTIONS = "datetimes=integer, enums=code, unwritten=fill"
WIDE = {"STRING_UTF16": "utf-16-le", "STRING_UCS2": "utf-16-le", "STRING_UTF32": "utf-32-le", "STRING_UCS4": "utf-32-le"}


def connect(extension, isolation_level=""):
    """Returns a connection with the extension, which returns text as bytes."""
    db = sqlite3.connect(":memory:", isolation_level=isolation_level)
    db.text_factory = bytes
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def find(root, pattern="", kind="array"):
    """Yields (name, directory, description) of every array or group below root whose name contains the pattern."""
    for folder, _, files in sorted(os.walk(root)):
        for file in sorted(files):
            if not file.endswith(".json") or file.startswith("_") or file == "not_produced.json":
                continue
            path = os.path.join(folder, file)
            name = os.path.relpath(path, root)[:-5]
            if pattern not in name or not os.path.isdir(path[:-5]):
                continue
            with open(path, encoding="utf-8") as f:
                description = json.load(f)
            if description.get("kind") == kind:
                yield name, path[:-5], description


def sampled(name):
    """Returns true if a test takes this array: one in $ARRAYS, about, and the same ones in each run. Without that variable, all."""
    return zlib.crc32(name.encode()) % int(os.environ.get("ARRAYS", "1")) == 0


def float_text(value):
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value] if isinstance(value, str) else float(value)


def number(value, datatype):
    """Returns a number of the JSON as SQL shows it: NaN as None, UINT64 above the signed range as text of 20 digits."""
    if datatype.startswith("FLOAT"):
        value = float_text(value)
        return None if math.isnan(value) else value
    return f"{value:020}" if value > 2**63 - 1 else value


def text_of(value, datatype):
    """Returns text as SQL shows it, as bytes: an invalid unit of UTF-16 or UTF-32 becomes U+FFFD."""
    raw = bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode("utf-8", "surrogateescape")
    if datatype in WIDE:
        return wide_text(raw, 2 if WIDE[datatype] == "utf-16-le" else 4)
    return raw


def wide_text(raw, unit):
    units = [int.from_bytes(raw[i:i + unit], "little") for i in range(0, len(raw) // unit * unit, unit)]
    out, i = [], 0
    while i < len(units):
        c = units[i]
        if unit == 2 and 0xD800 <= c < 0xDC00 and i + 1 < len(units) and 0xDC00 <= units[i + 1] < 0xE000:
            c = 0x10000 + ((c - 0xD800) << 10) + (units[i + 1] - 0xDC00)
            i += 1
        out.append(0xFFFD if 0xD800 <= c < 0xE000 or c > 0x10FFFF else c)
        i += 1
    if len(raw) % unit:
        out.append(0xFFFD)
    return "".join(map(chr, out)).encode("utf-8")


SIZES = {"INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "INT32": 4, "UINT32": 4, "FLOAT32": 4, "INT64": 8, "UINT64": 8, "FLOAT64": 8}
TEXT = {"CHAR", "STRING_ASCII", "STRING_UTF8", "GEOM_WKT"} | set(WIDE)
BYTES = {"BLOB", "ANY", "GEOM_WKB"}


def expected(value, field):
    """Returns one cell of the JSON as (kind, value), comparable with `actual`."""
    datatype = field["type"]
    if value is None:
        return None
    if isinstance(value, dict) and "code" in value:
        value = value["code"]
    if datatype in TEXT:
        return ("text", text_of(value, datatype))
    if datatype in BYTES:
        return ("blob", text_of(value, "BLOB"))
    if field.get("cell_val_num", 1) != 1:
        values = value if isinstance(value, list) else [value]
        return ("json", [number(v, datatype) for v in values])
    if isinstance(value, list):
        value = value[0]
    value = number(value, datatype)
    return None if value is None else ("number", value)


def actual(value, field):
    """Returns one cell from sqlite3 (text as bytes) in the form of `expected`."""
    datatype = field["type"]
    if value is None:
        return None
    if datatype in TEXT:
        return ("text", value)
    if datatype in BYTES:
        return ("blob", value)
    if field.get("cell_val_num", 1) != 1:
        parsed = json.loads(value.decode(), parse_constant=None, parse_float=float)
        return ("json", parsed)
    if isinstance(value, bytes):
        value = value.decode()
    return ("number", value)


def canonical(value, field):
    """Returns one cell as the canonical text for the JSON's sha256."""
    datatype = field["type"]
    if value is None:
        return b"nan" if datatype.startswith("FLOAT") and not field.get("nullable") else b"null"
    kind, v = value
    if kind in ("text", "blob"):
        return b"x" + v.hex().encode()
    if kind == "json":
        return b"[" + b";".join(scalar(x, datatype) for x in v) + b"]"
    return scalar(v, datatype)


def scalar(v, datatype):
    if v is None:
        return b"nan"
    if datatype.startswith("FLOAT"):
        if math.isinf(v):
            return b"inf" if v > 0 else b"-inf"
        return b"%.17g" % v
    return str(v).encode()


def order(row, dims):
    """Returns a sort key: by dimensions, then by the other columns."""
    head = [v[1] if v else b"" for v in row[:dims]]
    return [int(h) if isinstance(h, str) else h for h in head], [repr(v) for v in row[dims:]]
