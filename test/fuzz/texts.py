"""Makes inputs for the fuzz target `create` from the SQL in tests and documents: the arguments of tessera(...), and
texts that functions take; for the target `query` from the texts of test/sqlite/query_texts.py; and for the target `front`
statements around those.

usage: texts.py ROOT OUT QUERIES FRONTS
"""
import glob
import os
import random
import re
import struct
import sys

# First bytes of fuzz_create.c's inputs
CREATE, DEFINE, OPTIONS, SLICES, NPY, METADATA, LABELS, VALUES, COMPARE, TIMES, DATETIMES, PICTURES = 0, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14
COLUMNS = 34


def arguments(text):
    """Returns the text between the parentheses of each tessera(...)."""
    for match in re.finditer(r"USING\s+tessera\s*\(", text, re.I):
        depth, at, quote = 1, match.end(), None
        while at < len(text) and depth:
            c = text[at]
            if quote:
                quote = None if c == quote else quote
            elif c in "'\"":
                quote = c
            else:
                depth += (c == "(") - (c == ")")
            at += 1
        yield text[match.end():at - 1]


def npy(description, shape, data, version=1):
    header = "{'descr': %r, 'fortran_order': False, 'shape': %r, }" % (description, shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header.encode() + data


def inputs(root):
    for path in glob.glob(f"{root}/sql/*.sql") + glob.glob(f"{root}/test/sql/*.sql") + glob.glob(f"{root}/docs/*.md") + [f"{root}/README.md"]:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for found in arguments(text):
            found = re.sub(r"^\s*'[^']*'\s*,", "", found).encode()  # the path
            if b"DIMENSION" in found.upper():
                yield bytes([CREATE]) + found
        for found in re.findall(r"tessera_add_attribute\([^,]*,\s*'((?:[^']|'')*)'", text):
            yield bytes([DEFINE, 0]) + found.replace("''", "'").encode()
        for n, found in enumerate(re.findall(r"'(\{[^']*\})'", text)):
            yield bytes([OPTIONS, n % 6]) + found.encode()
            yield bytes([SLICES, n % 12]) + found.encode()
    for n in range(12):
        yield bytes([SLICES, n]) + b'{"y":[1,5],"x":0}'
        yield bytes([SLICES, n]) + b'{"x":[null,7]}'
        yield bytes([SLICES, n]) + b'["x","y"]'
    for n in range(6):
        yield bytes([PICTURES, n]) + b'{"width":9,"height":7,"colormap":"viridis","min":0,"max":10,"nodata":-1,"flip":true}'
        yield bytes([PICTURES, n]) + b'{"y":[0,9]}'
    yield bytes([SLICES, 2]) + b'{"day":["2020-01-02","2020-01-03 05:00"]}'
    for n, (kind, size) in enumerate([("<i2", 2), ("<f4", 4), ("<f8", 16), ("|b1", 1), ("|S3", 3), ("<M8[ms]", 8)]):
        shape = (3, 2) if n == 2 else (3,)
        yield bytes([NPY, n]) + npy(kind, shape, bytes(range(size * 3)))
        yield bytes([NPY, n]) + npy(kind.replace("<", ">"), shape, bytes(range(size * 3)))
    for n in range(36):
        yield bytes([METADATA, n // 9, n % 9]) + b"[1, 2.5, null]"
    for n in range(4):
        yield bytes([LABELS, n]) + b"label"
    texts = [b"2020-01-02T03:04:05.678Z", b"05:06:07", b"[1,2,3]", b"a", b"", b"18446744073709551615", b"-1.5e3", "\U0001f642e".encode()]
    for column in range(COLUMNS):
        for n, text in enumerate(texts):
            value = bytes([4, len(text)]) + text
            yield bytes([VALUES, 1, column]) + value + value
            yield bytes([COMPARE, column, n]) + value + value
        yield bytes([VALUES, 1, column]) + b"\0" + struct.pack("<q", column - 5)
        yield bytes([COMPARE, column, 1]) + b"\0" + struct.pack("<q", 7) + b"\1" + struct.pack("<d", 6.5)
    for n in range(12):
        yield bytes([VALUES, 0, n]) + b"\0" + struct.pack("<q", 20000)
        yield bytes([VALUES, 0, n]) + b"\3\4\1\2\3\4"
    for n in range(8):
        yield bytes([TIMES, n]) + b"2024-06-01 12:00:00.5"
    for n in range(22):
        yield bytes([DATETIMES, n, 1]) + b"2024-02-29 05:06:07.123456789"
        yield bytes([DATETIMES, n, 1]) + b"2024-02"
        yield bytes([DATETIMES, n, 0]) + struct.pack("<q", 86400000 * n)


class Place:
    """The tables of fuzz_query.c, as query_texts.py sees arrays."""

    def __init__(self, name, dimensions, columns):
        self.name, self.columns, self.middle = name, dimensions + columns, "2020-01-01"


def queries(root):
    """Returns texts of columnar queries, right ones and wrong ones."""
    sys.path.insert(0, os.path.join(root, "test", "sqlite"))
    import query_arrays as arrays
    import query_joins as joins
    import query_texts as texts
    column = arrays.Column
    attributes = [column("temp", arrays.REAL, ""), column("rain", arrays.REAL, "")] + [arrays.number(n, t) for n, t in (("i8", "INT8"), ("u16", "UINT16"), ("i64", "INT64"))]
    attributes += [column("u", arrays.UNSIGNED, ""), column("name", arrays.TEXT, ""), arrays.labelled("wind"), column("seen", arrays.DATE, ""), column("vector", arrays.OPAQUE, "")]
    places = [Place("plane", [arrays.integer_dimension("y", "INT32", -7, 33, 13), arrays.integer_dimension("x", "INT32", -20, 12, 8)], attributes),
              Place("stations", [column("day", arrays.DATE, "", True, True), arrays.integer_dimension("lat", "INT64", -90, 90, 25)], attributes)]
    for n in range(400):
        r = random.Random(n)
        query = texts.Writer(r, places[n % 2], (3, 40)).query()
        yield texts.dressed(r, texts.spoil(r, query) if n % 4 == 0 else query.text())
    for item in texts.WRONG_ITEMS + ["trap()", "upper(trap())"]:
        yield f"SELECT {item} FROM plane"
        yield f"SELECT y, count(*) FROM plane WHERE {item} GROUP BY 1"
    for tail in texts.WRONG_TAILS:
        yield "SELECT day, avg(temp) FROM stations " + tail
    yield from joins.TEXTS
    for source in texts.WRONG_SOURCES:
        yield "SELECT count(*) FROM " + source


# Statements around a text {q} whose first column is a, and texts of their own
AROUND = ["SELECT * FROM ({q}) AS s", "WITH c(a) AS ({q}) SELECT a, count(*) OVER () FROM c", "WITH c AS ({q}), d AS (SELECT * FROM c) SELECT count(*) FROM d", "SELECT label FROM towns WHERE x IN ({q})", "SELECT (SELECT count(*) FROM ({q})), label FROM towns",
          "{q} UNION ALL SELECT x FROM towns", "EXPLAIN QUERY PLAN {q}", "CREATE TABLE t AS {q}", "INSERT INTO towns SELECT 1, * FROM ({q})", "SELECT x FROM towns WHERE EXISTS ({q})", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n, ({q}) FROM r"]
FRONTS = ["SELECT y, count(*) AS k, rank() OVER (ORDER BY count(*) DESC, y) FROM plane GROUP BY y ORDER BY k LIMIT 3", "SELECT y % 3 AS b, sum(sum(n)) OVER (PARTITION BY y % 3 ORDER BY x ROWS 2 PRECEDING EXCLUDE TIES) FROM plane GROUP BY 1, x",
          "SELECT wind, lag(max(lat), 1, 'a') OVER w, ntile(2) OVER (w) FROM stations GROUP BY wind WINDOW w AS (ORDER BY wind NULLS LAST), v AS ()", "SELECT day, sum(count(*) FILTER (WHERE lat > 1)) FILTER (WHERE 1) OVER () FROM stations GROUP BY day HAVING count(*) > (SELECT 0)",
          "WITH c(k, w) AS (SELECT y / 2, n FROM plane), d AS (SELECT k + 1 AS k, w FROM c WHERE w > 0) SELECT k, max(w) FROM d GROUP BY k", "SELECT sum(a) FROM (SELECT b + 1 AS a FROM (SELECT x AS b FROM plane WHERE x > 0) WHERE b < 9)", "SELECT count(*) FROM plane, towns WHERE towns.x = plane.x",
          "SELECT DISTINCT CASE WHEN count(*) > avg(count(*)) OVER () THEN CAST(y AS TEXT) ELSE 'b' END c FROM plane GROUP BY y", "SELECT y AS row, sum(x) OVER (ORDER BY row ROWS CURRENT ROW) FROM plane GROUP BY row", "SELECT max(n) FROM 'no/such/path'", "VALUES((SELECT max(n) FROM plane)), (2)"]


def fronts(root):
    """Returns statements: the texts of columnar queries, and such texts within others."""
    found = list(queries(root))
    yield from FRONTS
    for n, text in enumerate(found[::2]):
        yield text
        yield AROUND[n % len(AROUND)].replace("{q}", text)
    for n, text in enumerate(FRONTS):
        yield AROUND[n % len(AROUND)].replace("{q}", text)


def main():
    root, out, out_queries, out_fronts = sys.argv[1:5]
    for n, text in enumerate(sorted(set(fronts(root)))):
        with open(os.path.join(out_fronts, f"text-{n}"), "wb") as f:
            f.write(text.encode())
    for n, text in enumerate(sorted(set(queries(root)))):
        with open(os.path.join(out_queries, f"text-{n}"), "wb") as f:
            f.write(text.encode())
    made = sorted(set(inputs(root)))
    for n, data in enumerate(made):
        with open(os.path.join(out, f"text-{n}"), "wb") as f:
            f.write(data)
    print(f"{len(made)} inputs")


if __name__ == "__main__":
    main()
