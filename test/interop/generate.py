"""Random schemas and cells from a seed, with every datatype, order and filter, small enough to compare cell by cell."""
import random

import numpy as np

from tessera_c import DATATYPES, NUMPY, SIZE, VARIABLE

COMPRESSORS = [("gzip", 9), ("zstd", 22), ("lz4", 12), ("bzip2", 9), ("rle", 0)]
TEXTS = ("CHAR", "ASCII", "UTF8", "UTF16", "UTF32", "UCS2", "UCS4", "GEOM_WKT")
TIMES = [name for name in DATATYPES if name.startswith(("DATETIME", "TIME_"))]
NUMBERS = ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FLOAT32", "FLOAT64"]


def one_filter(r, datatype, constant, values):
    kind = r.choice(["compressor"] * 9 + ["shuffle"] * 4 + ["checksum", "delta", "double_delta", "bit_width", "xor", "dictionary", "positive"])
    if kind == "compressor":
        name, most = r.choice(COMPRESSORS)
        return name, {"level": r.choice([-1, 1, min(5, most)])}
    if kind == "shuffle":
        return r.choice(["bitshuffle", "byteshuffle"]), {}
    if kind == "checksum":
        return r.choice(["md5", "sha256"]), {}
    if kind in ("delta", "double_delta"):
        return kind, {"level": -1}
    if kind == "bit_width":
        return "bit_width_reduction", {"window": r.choice([8, 64, 256, 1000])}
    if kind == "dictionary" and datatype in ("ASCII", "UTF8") and values == VARIABLE:
        return "dictionary", {"level": -1}
    if kind == "positive" and constant:
        return "positive_delta", {"window": r.choice([64, 1024])}
    return ("xor", {}) if kind == "xor" else ("zstd", {"level": 3})


def filters(r, datatype, constant=False, values=1):
    return [one_filter(r, datatype, constant, values) for _ in range(r.choice([0, 1, 1, 1, 2, 2, 3]))]


def small_type(datatype):
    return NUMPY.get(datatype, "u1")


def dimension(r, name, datatype, dense):
    if datatype == "ASCII":
        return {"name": name, "type": "ASCII"}
    kind = small_type(datatype)
    if kind in ("f4", "f8"):
        low = r.choice([-100.0, 0.0, -0.5])
        width = r.choice([1.0, 10.0, 1000.0])
        extent = r.choice([None, width / 4, width, 0.3])
        return {"name": name, "type": datatype, "domain": (low, low + width), "extent": extent}
    signed = kind.startswith("i")
    low = r.choice([0, 1, 3] + ([-20, -128] if signed else []))
    width = r.randint(1, 30) if dense else r.choice([1, 7, 100, 120])
    extent = r.randint(1, min(width, 12))
    if not dense:
        extent = r.choice([None, extent, width])
    return {"name": name, "type": datatype, "domain": (low, low + width - 1), "extent": extent}


def attribute(r, index):
    datatype = r.choice(DATATYPES)
    nullable = r.random() < 0.4
    if datatype == "ANY":
        values = VARIABLE
    elif datatype in TEXTS or datatype in ("BLOB", "GEOM_WKB"):
        values = r.choice([VARIABLE, VARIABLE, VARIABLE, 1, 5])
    else:
        values = r.choice([1, 1, 1, 1, 3, VARIABLE])
    made = {"name": f"a{index}", "type": datatype, "values": values, "nullable": nullable, "constant": r.random() < 0.15}
    made["filters"] = filters(r, datatype, made["constant"], values)
    if not nullable and r.random() < 0.3:
        made["fill"] = bytes(r.randrange(1, 120) for _ in range(SIZE[datatype] * (values if values != VARIABLE else r.randint(1, 3))))
        if datatype == "BOOL":
            made["fill"] = bytes(1 for _ in made["fill"])
    return made


def schema(r):
    dense = r.random() < 0.45
    count = r.choice([1, 1, 2, 2, 3])
    if dense:
        datatype = r.choice(["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"] + TIMES)
        types = [datatype] * count
    else:
        types = [r.choice(NUMBERS + ["ASCII", "ASCII", "ASCII", "INT32", "FLOAT32", r.choice(TIMES)]) for _ in range(count)]
    made = {"dense": dense, "capacity": r.choice([1, 2, 7, 50, 1000]), "tile_order": r.choice(["row", "col"]),
            "cell_order": r.choice(["row", "col"] + ([] if dense else ["hilbert"])),
            "duplicates": not dense and r.random() < 0.3, "key": bytes(range(65, 97)) if r.random() < 0.2 else None,
            "dims": [dimension(r, f"d{i}", t, dense) for i, t in enumerate(types)],
            "attrs": [attribute(r, i) for i in range(r.choice([1, 1, 2, 4] if dense else [0, 1, 2, 4]))]}
    for d in made["dims"]:
        if r.random() < 0.3:
            d["filters"] = filters(r, d["type"], False, VARIABLE if d["type"] == "ASCII" else 1)
    made["coords_filters"] = r.choice([[], [("zstd", {"level": -1})], [("gzip", {"level": 2})], [("bitshuffle", {}), ("lz4", {"level": -1})]])
    made["offsets_filters"] = r.choice([[], [("zstd", {"level": -1})], [("double_delta", {"level": -1}), ("bzip2", {"level": -1})],
                                        [("positive_delta", {"window": 1024}), ("bit_width_reduction", {"window": 256})]])
    made["validity_filters"] = r.choice([[], [("rle", {"level": -1})], [("gzip", {"level": -1})]])
    made["version"] = r.choice([22] * 6 + [3, 3] + list(range(12, 22)))
    if made["version"] == 3:
        make_plain(made)
    return made


def make_plain(s):
    """Restricts a schema to the features of the first versions: numeric dimensions of one datatype, in one file; no nulls, fill values or duplicates."""
    s["duplicates"] = False
    s["dims"] = [dict(d, filters=[]) for d in s["dims"] if d["type"] == s["dims"][0]["type"]]
    if s["dims"][0]["type"] == "ASCII":
        s["dims"] = [{"name": "d0", "type": "INT32", "domain": (0, 99), "extent": 10}]
    s["cell_order"] = "row" if s["cell_order"] == "hilbert" else s["cell_order"]
    for a in s["attrs"]:
        a["nullable"] = False
        a.pop("fill", None)
        a["filters"] = [f for f in a["filters"] if f[0] not in ("md5", "sha256", "xor", "delta", "dictionary")]


# ---- Cells

def text(r, size, most):
    alphabet = r.choice([b"ab", b"abcdefgh0123", bytes(range(256))])
    return bytes(r.choice(alphabet) for _ in range(size * r.randint(0, most)))


def number(r, datatype):
    kind = small_type(datatype)
    if datatype == "BOOL":
        return r.randrange(2)
    if kind.startswith("f"):
        return r.choice([0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), r.uniform(-1e3, 1e3), 1e30])
    info = np.iinfo(kind)
    return r.choice([0, 1, info.min, info.max, r.randint(info.min, info.max), r.randrange(100)])


def cell(r, f):
    values = f["values"]
    if f["type"] in NUMPY:
        count = r.randint(0, 4) if values == VARIABLE else values
        return np.array([number(r, f["type"]) for _ in range(count)], NUMPY[f["type"]]).tobytes()
    if values == VARIABLE:
        return text(r, SIZE[f["type"]], r.choice([0, 3, 12]))
    return (text(r, 1, 20) + bytes(values * SIZE[f["type"]]))[:values * SIZE[f["type"]]]


def column(r, f, count):
    """Returns a list of bytes, None for null."""
    if f.get("constant"):
        value = cell(r, f)
        return [value] * count
    share = r.choice([0.0, 0.3, 0.3, 1.0]) if f["nullable"] else 0.0
    pool = [cell(r, f) for _ in range(r.choice([1, 5, 200]))]
    return [None if r.random() < share else r.choice(pool) for _ in range(count)]


def coordinate(r, d):
    if d["type"] == "ASCII":
        return text(r, 1, r.choice([1, 3, 10, 30]))
    kind = small_type(d["type"])
    low, high = d["domain"]
    value = r.uniform(low, high) if kind.startswith("f") else r.randint(low, high)
    return np.array(r.choice([value, value, value, low, high]), kind).tobytes()


def sparse_cells(r, s, count):
    """Returns rows as tuples of bytes or None, dimensions first."""
    pools = [[coordinate(r, d) for _ in range(r.choice([3, 20, 300]))] for d in s["dims"]]
    columns = [[r.choice(pool) for _ in range(count)] for pool in pools] + [column(r, f, count) for f in s["attrs"]]
    return list(zip(*columns)) if columns else []


def box(r, s):
    ends = []
    for d in s["dims"]:
        a, b = (r.randint(*d["domain"]) for _ in range(2))
        ends.append((min(a, b), max(a, b)) if r.random() < 0.7 else tuple(d["domain"]))
    return ends


def packed(field, cells):
    """Returns a column in the form that the libraries take."""
    nulls = [c is None for c in cells]
    size = 0 if field.get("values", 1) == VARIABLE or field["type"] == "ASCII" and "values" not in field else SIZE[field["type"]] * field.get("values", 1)
    stored = [bytes(size) if c is None else c for c in cells]
    offsets = None if size else np.cumsum([0] + [len(c) for c in stored]).astype("u8")
    validity = np.array([not n for n in nulls], "u1") if field.get("nullable") else None
    return b"".join(stored), offsets, validity


def unpacked(field, column_data, size=None):
    values, offsets, validity = column_data
    if offsets is None:
        size = SIZE[field["type"]] * field.get("values", 1)
        cells = [values[i:i + size] for i in range(0, len(values), size)]
    else:
        cells = [values[int(a):int(b)] for a, b in zip(offsets, offsets[1:])]
    if validity is not None:
        cells = [c if v else None for c, v in zip(cells, validity)]
    return cells
