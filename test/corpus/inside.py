"""Compares the tessera_* tables with TileDB's own description of every array and group of the corpus: schemas,
enumerations, fragments, members, and metadata at every time of the description. The sizes of tiles must add up to those
of their fragments and files.

usage: inside.py EXTENSION CORPUS [PATTERN]
"""
import json
import os
import re
import struct
import sys

import arrays
from read import column_names, uses_webp

ORDERS = {"row-major": "row", "col-major": "col", "hilbert": "hilbert"}
MONTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
DAY = 86400
# units in a second, and decimal places
FINE = {"SEC": (1, 0), "MS": (10**3, 3), "US": (10**6, 6), "NS": (10**9, 9), "PS": (10**12, 12), "FS": (10**15, 15), "AS": (10**18, 18)}


REINTERPRETED = {0: "INT32", 1: "INT64"}  # the codes in the corpus


def printable(fill):
    """Returns a fill value as tessera_schema shows it: text that is not valid UTF-8 as a blob literal."""
    try:
        return fill if not isinstance(fill, bytes) or fill.decode() is not None else None
    except UnicodeDecodeError:
        return b"X'" + fill.hex().upper().encode() + b"'"


class Wrong(Exception):
    pass


def same(what, got, want):
    if got != want:
        raise Wrong(f"{what} is {got!r}, expected {want!r}")


# ---- Values, as SQL shows them with default options

def civil(days):
    """Returns (year, month, day) of a day since 1970-01-01, computed in cycles of 400 years."""
    cycles, days = divmod(days + 719528, 146097)  # from 0000-01-01
    year = cycles * 400
    while True:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if days < 365 + leap:
            break
        days -= 365 + leap
        year += 1
    for month, length in enumerate(MONTHS, 1):
        length += month == 2 and leap
        if days < length:
            return year, month, days + 1
        days -= length


def clock(value, unit):
    """Returns text like '05:06:07.123' for a time of day."""
    if unit == "HR":
        return f"{value:02}:00"
    if unit == "MIN":
        return f"{value // 60:02}:{value % 60:02}"
    factor, digits = FINE[unit]
    seconds, rest = divmod(value, factor)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{rest:0{digits}}" if digits else "")


def day_length(unit):
    return {"HR": 24, "MIN": 1440}.get(unit) or FINE[unit][0] * DAY


def time_text(value, datatype):
    """Returns the ISO text of a datetime or time; None for NaT; the integer if there is no text."""
    kind, unit = datatype.split("_")
    if value == -2**63:
        return None
    if kind == "TIME":
        return clock(value, unit) if 0 <= value < day_length(unit) else value
    if unit == "YEAR":
        return f"{1970 + value:04}" if 0 <= 1970 + value <= 9999 else value
    if unit == "MONTH":
        return f"{1970 + value // 12:04}-{value % 12 + 1:02}" if 0 <= 1970 + value // 12 <= 9999 else value
    length = {"DAY": 1, "WEEK": 1}.get(unit) or day_length(unit)
    days, rest = divmod(value * 7 if unit == "WEEK" else value, length)
    if not -719528 <= days <= 2932896:
        return value
    text = "%04d-%02d-%02d" % civil(days)
    return text if unit in ("DAY", "WEEK") else f"{text} {clock(rest, unit)}"


def is_time(datatype):
    return datatype.startswith(("DATETIME_", "TIME_"))


def scalar(value, datatype):
    """Returns one number of the JSON as SQL shows it, within JSON or alone."""
    if value is None:
        return None
    if is_time(datatype):
        return time_text(value, datatype)
    return arrays.number(value, datatype)


def shown(value, datatype, num):
    """Returns one cell of the JSON as SQL shows it: text as bytes, JSON arrays parsed."""
    if value is None:
        return None
    if datatype in arrays.TEXT:
        return arrays.text_of(value, datatype)
    if datatype in arrays.BYTES:
        return arrays.text_of(value, "BLOB")
    if num != 1:
        return [scalar(v, datatype) for v in (value if isinstance(value, list) else [value])]
    value = scalar(value[0] if isinstance(value, list) else value, datatype)
    return value.encode() if isinstance(value, str) else value


def unpacked(raw, datatype, num):
    """Returns a cell from its bytes, in the same form."""
    if datatype in arrays.TEXT | arrays.BYTES:
        return shown({"hex": raw.hex()}, datatype, num)
    size = {"8": 1, "16": 2, "32": 4, "64": 8}.get(datatype.lstrip("UINTFLOAT")) or (1 if datatype == "BOOL" else 8)
    parts = [raw[i:i + size] for i in range(0, len(raw), size)]
    if datatype.startswith("FLOAT"):
        values = [struct.unpack("<f" if size == 4 else "<d", p)[0] for p in parts]
        values = [str(v) if v != v or v in (float("inf"), float("-inf")) else v for v in values]
    else:
        values = [int.from_bytes(p, "little", signed=not datatype.startswith(("U", "BOOL"))) for p in parts]
    return shown(values, datatype, num)


def parsed(value, datatype, num):
    """Returns a cell from SQL, with its JSON parsed."""
    if value is None or datatype in arrays.TEXT | arrays.BYTES or num == 1:
        return value
    return json.loads(value)


def plain(datatype):
    return datatype[7:] if datatype.startswith("STRING_") else datatype


def bounds(pair, datatype):
    """Returns [low, high] of the JSON as it appears in a box."""
    if datatype in arrays.TEXT:
        return list(pair)
    return [scalar(v, datatype) for v in pair]


def filters(description):
    out = []
    if description["max_chunk_size"] != 65536:
        out.append(f"chunk({description['max_chunk_size']})")
    listed = [f for f in description["list"] if f["filter"] != "none"]
    for f in listed:
        name, argument = f["filter"], ""
        if name in ("gzip", "zstd", "lz4", "bzip2") and f["level"] != -1:
            argument = f"({f['level']})"
        elif name in ("delta", "double_delta") and f["reinterpret"] != 17:  # ANY: the datatype of the data
            argument = f"({REINTERPRETED[f['reinterpret']]})"
        elif "window" in f:
            argument = f"({f['window']})"
        elif name == "scale_float":
            argument = "({}, {:.15g}, {:.15g})".format(f["bytewidth"], f["factor"], f["offset"])
        out.append(name + argument)
    return ", ".join(out if listed else out + ["none"])


# ---- Comparisons

class Inspection:
    def __init__(self, db, directory, description):
        self.db, self.directory, self.description = db, directory, description
        key = description.get("encryption_key")
        self.key = key.encode() if key else None

    def rows(self, table, *arguments, where="", columns="*"):
        """Returns rows as dictionaries."""
        marks = ", ".join("?" * (len(arguments) + 1))
        cursor = self.db.execute(f"SELECT {columns} FROM {table}({marks}) {where}", (self.directory,) + arguments)
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row)) for row in cursor]

    def array(self):
        d = self.description
        got = self.rows("tessera_array", self.key)[0]
        for column, want in (("path", self.directory.encode()), ("kind", d["array_type"].encode()), ("format_version", d["schema_version"]),
                             ("cell_order", ORDERS[d["cell_order"]].encode()), ("tile_order", ORDERS[d["tile_order"]].encode()),
                             ("capacity", d["capacity"]), ("duplicates", int(d["allows_dups"])),
                             ("encryption", b"aes_256_gcm" if self.key else b"none"), ("dimensions", len(d["dims"])), ("attributes", len(d["attrs"]))):
            same(column, got[column], want)
        for column in ("coords_filters", "offsets_filters", "validity_filters"):
            same(column, got[column].decode(), filters(d[column]))
        if "fragment_info" in d:
            info = d["fragment_info"]
            same("fragments", got["fragments"], len(info))
            same("first_write", got["first_write"], min([f["timestamps"][0] for f in info] + self.deletes(), default=None))
            same("last_write", got["last_write"], max([f["timestamps"][1] for f in info] + self.deletes(), default=None))
        fragments = self.rows("tessera_fragments", self.key)
        same("cells", got["cells"], sum(f["cells"] for f in fragments))
        same("bytes", got["bytes"], sum(f["bytes"] for f in fragments))
        for read in d["reads"]:
            if read["timestamp"] is None and "error" not in read:
                self.non_empty_domain(got["non_empty_domain"], read["non_empty_domain"])

    def deletes(self):
        """Returns the times of delete conditions, in files of their own or in consolidated commits."""
        folder, found = os.path.join(os.fsdecode(self.directory), "__commits"), []
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            content = b""
            if name.endswith(".con"):
                with open(os.path.join(folder, name), "rb") as f:
                    content = f.read()
            found += [int(t) for t in re.findall(rb"__(\d+)_\d+_[0-9a-f]{32}_\d+\.del\b", content + os.fsencode(name))]
        return found

    def non_empty_domain(self, got, want):
        if want is None:
            same("non_empty_domain", got, None)
            return
        dims = self.description["dims"]
        box = json.loads(got)
        same("names in non_empty_domain", list(box), column_names([dim["name"] for dim in dims], len(dims)))
        for dim, pair, mine in zip(dims, want, box.values()):
            pair = bounds(pair, dim["type"])
            same("non_empty_domain", mine, [pair[0], mine[1]] if mine[1] is None and pair[0] == "" else pair)  # versions 5 to 9 lost this end

    def schema(self):
        d = self.description
        got = self.rows("tessera_schema", self.key)
        names = column_names([f["name"] for f in d["dims"] + d["attrs"]], len(d["dims"]))
        labels = d.get("labels") or []
        got, label_rows = got[:len(names)], got[len(names):]
        same("names", [row["name"].decode() for row in got], names)
        same("labels", [(row["name"].decode(), row["role"], row["datatype"].decode()) for row in label_rows],
             [(label["name"], b"label", plain(label["type"])) for label in labels])
        current = d.get("current_domain")
        for i, (row, field) in enumerate(zip(got, d["dims"] + d["attrs"])):
            what, datatype, is_dimension = row["name"].decode(), field["type"], i < len(d["dims"])
            same(f"{what}: role", row["role"], b"dimension" if is_dimension else b"attribute")
            same(f"{what}: datatype", row["datatype"].decode(), plain(datatype))
            listed = d["coords_filters"] if is_dimension and d["schema_version"] < 5 else field["filters"]  # no lists of their own before
            same(f"{what}: filters", row["filters"].decode(), filters(listed))
            if is_dimension:
                text = datatype in arrays.TEXT
                same(f"{what}: cell_val_num", row["cell_val_num"], None if text else 1)
                same(f"{what}: domain", json.loads(row["domain"] or "null"), bounds(field["domain"], datatype) if field["domain"] else None)
                tile = field["tile"]  # as TileDB says it, in the datatype; integers and times have unsigned extents
                if tile is not None and datatype not in ("FLOAT32", "FLOAT64"):
                    tile %= 1 << 8 * arrays.SIZES.get(datatype, 8)
                same(f"{what}: tile", row["tile"], shown(tile, datatype if datatype.startswith("FLOAT") else "UINT64", 1))
                same(f"{what}: current_domain", json.loads(row["current_domain"] or "null"), bounds(current[i], datatype) if current else None)
                continue
            num = field["cell_val_num"]
            same(f"{what}: cell_val_num", row["cell_val_num"], None if num == "var" else num)
            same(f"{what}: nullable", row["nullable"], int(field["nullable"]))
            same(f"{what}: enumeration", (row["enumeration"] or b"").decode(), field.get("enumeration") or "")
            null = field["nullable"] and not field.get("fill_valid", 0)
            want = None if null else unpacked(bytes.fromhex(field["fill"]["hex"]), datatype, num)
            same(f"{what}: fill", parsed(row["fill"], datatype, num), printable(want) if datatype in arrays.TEXT else want)

    def enumerations(self):
        for e in self.description["enums"]:
            got = self.rows("tessera_enumeration", e["name"], self.key)
            same(f"{e['name']}: codes", [row["code"] for row in got], list(range(len(got))))
            num = e["cell_val_num"]
            same(f"{e['name']}: labels", [parsed(row["label"], e["type"], num) for row in got], [shown(v, e["type"], num) for v in e["values"]])

    def folder(self, name):
        new = os.path.join(self.directory, "__fragments", name)
        return new if os.path.isdir(new) else os.path.join(self.directory, name)

    def fragments(self):
        got = {row["name"].decode(): row for row in self.rows("tessera_fragments", self.key)}
        for f in self.description.get("fragment_info", []):
            row = got.get(f["name"])
            if not row:
                raise Wrong(f"fragment {f['name']} is not listed")
            same("times", [row["start_time"], row["end_time"]], f["timestamps"])
            same("version", row["format_version"], f["version"])
            same("kind", row["kind"], b"dense" if f["dense"] else b"sparse")
            if not f["dense"]:
                same("cells", row["cells"], f["cells"] if row["tiles"] else 0)  # TileDB computes a negative number for fragments without tiles
            elif row["cells"] > f["cells"] or f["cells"] % row["tiles"]:
                raise Wrong(f"{row['cells']} cells in {row['tiles']} tiles of {f['cells']} cells with padding")
        for name, row in got.items():
            folder = self.folder(name)
            same("bytes", row["bytes"], sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder)))
            self.tiles(name, row, folder)

    def tiles(self, name, fragment, folder):
        rows = [row for row in self.rows("tessera_tiles", self.key, where="WHERE fragment = '" + name + "'")]
        fields = {}
        for row in rows:
            fields.setdefault(row["field"], []).append(row)
        if fragment["tiles"] and self.description["attrs"] and not fields:
            raise Wrong(f"fragment {name} shows no tiles")
        outer = json.loads(fragment["non_empty_domain"] or "{}")
        for field, tiles in fields.items():
            same(f"{field}: tiles", [row["tile"] for row in tiles], list(range(fragment["tiles"])))
            same(f"{field}: cells", sum(row["cells"] for row in tiles), fragment["cells"])
            for row in tiles:
                box = json.loads(row["domain"])
                same("names", list(box), list(outer))
                for (low, high), (least, most) in zip(box.values(), outer.values()):
                    ends = [v for v in (least, low, high, most) if v is not None]
                    if not isinstance(low, str) and len({type(v) for v in ends}) == 1 and ends != sorted(ends):
                        raise Wrong(f"tile {row['tile']}: {box} is not within {outer}")
        stored = sum(row["bytes"] for row in rows)
        others = ["__fragment_metadata.tdb"] + (["t.tdb", "dt.tdb", "dci.tdb"] if fragment["format_version"] >= 9 else [])  # before, of fields
        same("bytes of tiles", stored, sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if f not in others))

    def metadata(self, want, times=None):
        where, arguments = "", ()
        if times:
            where = f"WHERE since = {times[0]} AND as_of = {times[1]}"
        got = self.rows("tessera_metadata", self.key, where=where)
        same(f"metadata keys at {times}", [row["key"].decode() for row in got], sorted(want, key=lambda k: k.encode()))
        for row in got:
            entry = want[row["key"].decode()]
            same("datatype", row["datatype"].decode(), plain(entry["type"]))
            if entry["value"] is None:  # a key without a value: TileDB says that it has one
                same("num", row["num"], 0)
                same("value", row["value"], b"" if entry["type"] in arrays.TEXT else None)
                continue
            same("num", row["num"], entry["num"])
            same(row["key"], parsed(row["value"], entry["type"], entry["num"]), shown(entry["value"], entry["type"], entry["num"]))

    def members(self, want, time=None):
        where = f"WHERE as_of = {time}" if time else ""
        got = [(row["name"] and row["name"].decode(), row["kind"].decode(), os.path.basename(row["path"].decode())) for row in
               self.rows("tessera_members", where=where)]
        want = [(m["name"], m["type"], os.path.basename(m["uri"])) for m in want]
        same("members", sorted(got, key=str), sorted(want, key=str))


def check_array(look):
    look.array()
    look.schema()
    look.enumerations()
    look.fragments()
    look.metadata(look.description["metadata"])
    for read in look.description["reads"]:
        if read["timestamp"] and "metadata" in read:
            look.metadata(read["metadata"], read["timestamp"])
    statement = look.db.execute("SELECT tessera_ddl(?1, json_object('array_key', iif(?2 IS NULL, NULL, hex(?2))))", (look.directory, look.key)).fetchone()[0]
    if not statement.startswith(b"CREATE VIRTUAL TABLE "):
        raise Wrong(f"tessera_ddl gives {statement[:80]}")


def check_group(look):
    look.members(look.description["members"])
    look.metadata(look.description["metadata"])
    for state in look.description.get("history", []):
        look.members(state["members"], state["timestamp"])
        look.metadata(state["metadata"], (0, state["timestamp"]))


def main():
    extension, corpus = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    passed = failed = 0
    db = arrays.connect(extension)
    for kind, check in (("array", check_array), ("group", check_group)):
        for name, directory, description in arrays.find(corpus, pattern, kind):
            try:
                check(Inspection(db, directory, description))
                passed += 1
            except Exception as e:  # after any error the next array is tried
                if kind == "array" and uses_webp(description) and "webp" in str(e).lower():  # the error names the filter
                    continue
                failed += 1
                print(f"FAIL {name}: {type(e).__name__}: {str(e)[:400]}")
    db.close()
    print(f"looked inside: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
