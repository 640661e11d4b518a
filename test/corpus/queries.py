"""Runs generated columnar queries (tessera_query) over every array of the corpus, and compares their rows with those of a view
of the same text: arrays of each version of the format, sparse and dense, encrypted, in the database, with duplicates, enumerations and labels, at
times of their history.

Keys, counts, minima, maxima, sums of integers and cells must be equal in value and type; sums of reals agree but for the order of
additions. A query that is refused is a failure, except for what the manual names: integers that leave 64 bits, and expressions
of a dimension that has more coordinates than SQLite is asked about; datetimes without a text, and text that is no UTF-8.

usage: queries.py EXTENSION CORPUS [QUERIES_PER_ARRAY [SEED [PATTERN]]]
"""
import math
import re
import sqlite3
import sys

import read

OVERFLOW = re.compile(r"integer overflow|past the integers of SQL")
REFUSED = re.compile(r"has more than 1048576 values here|a year outside 0000-9999|a time outside one day")
MIXED = re.compile("INTEGER in one branch, REAL or TEXT in another")   # of a dimension whose values have a text in part
WHOLE, REAL, TEXT, TIME, OPAQUE = "whole", "real", "text", "time", "opaque"


def quote(name):
    return '"' + name.replace('"', '""') + '"'


class Column:
    """A column of the table. `known`: SQLite evaluates its expressions, once for each coordinate or label."""

    def __init__(self, name, declared, field, values, dimension):
        self.sql, self.dimension, self.kind, self.known = quote(name), dimension, OPAQUE, False
        self.values = [v for v in values if v is not None]
        datatype = field["type"] if field else ""
        several = field is not None and field.get("cell_val_num", 1) != 1 and datatype not in read.arrays.TEXT
        times = datatype.startswith(("DATETIME", "TIME_"))
        labels = field is not None and field.get("enumeration")
        self.known = bool(labels)
        if several or field is None or datatype in read.arrays.BYTES or datatype in read.arrays.WIDE:
            return
        if labels:
            self.kind = TEXT if declared == "TEXT" else OPAQUE
        elif times:
            self.kind = TIME
        elif datatype in read.arrays.TEXT:
            self.kind = TEXT
        elif datatype.startswith("FLOAT"):
            self.kind = REAL
        elif declared == "INTEGER":
            self.kind = WHOLE
        self.known |= dimension and self.kind in (WHOLE, TIME)
        self.iso = all(isinstance(v, bytes) for v in self.values)
        if self.kind in (TEXT, TIME):   # literals of text must be text
            self.values = [v for v in self.values if isinstance(v, bytes) and b"\0" not in v and is_text(v)]
        self.small = all(isinstance(v, int) and abs(v) < 2**62 for v in values if v is not None)   # else REAL -2^63 and INTEGER -2^63 are one group
        if self.kind == REAL:
            self.values = [v for v in self.values if not math.isinf(v)]

    def literal(self, rng):
        if not self.values:
            return "'a'" if self.kind in (TEXT, TIME) else "7"
        value = rng.choice(self.values)
        if isinstance(value, bytes):
            return "'" + value.decode().replace("'", "''") + "'"
        if isinstance(value, int) and rng.random() < 0.3 and -2**62 < value < 2**62:
            value += rng.choice([-1, 1, 10])
        return repr(value)


def is_text(value):
    try:
        return bool(value.decode() or True)
    except UnicodeDecodeError:
        return False


class Writer:
    def __init__(self, rng, columns):
        self.rng, self.columns = rng, columns

    def some(self, *kinds, known=None):
        found = [c for c in self.columns if c.kind in kinds and (known is None or c.known == known)]
        return self.rng.choice(found) if found else None

    def key(self):
        c = self.some(WHOLE, REAL, TEXT, TIME)
        if not c:
            return "1"
        forms = ["{}"]
        if c.kind == WHOLE:
            forms += ["{}/3", "{}%5"] + (["{} - 1"] if c.small else []) + ["CASE WHEN {} > 2 THEN 'high' ELSE 'low' END" if c.known else "{} > 2"]
        elif c.kind == REAL:
            forms += ["floor({}/4)", "CAST({} AS INTEGER)", "{} > 1"]
        elif c.known:
            forms += ["substr({}, 1, 4)", "length({})", "{} || 'x'", "lower({})"]
        else:
            forms += ["{} IS NULL"]
        return self.rng.choice(forms).format(c.sql)

    def term(self, depth=2):
        rng = self.rng
        if depth and rng.random() < 0.35:
            return f"({self.term(depth - 1)} {rng.choice(['AND', 'OR'])} {self.term(depth - 1)})"
        if depth and rng.random() < 0.1:
            return f"NOT {self.term(0)}"
        c = rng.choice(self.columns)
        if c.kind == OPAQUE or rng.random() < 0.12:
            return f"{c.sql} IS {rng.choice(['', 'NOT '])}NULL"
        choice = rng.random()
        if choice < 0.2:
            return f"{c.sql} BETWEEN {c.literal(rng)} AND {c.literal(rng)}"
        if choice < 0.35:
            return f"{c.sql} {rng.choice(['', 'NOT '])}IN ({', '.join(c.literal(rng) for _ in range(3))})"
        if choice < 0.45 and c.kind == TEXT and c.values:
            return f"{c.sql} {rng.choice(['LIKE', 'GLOB'])} {rng.choice(['%a%', '_b%', '*a*', '[a-c]*']).join(chr(39) * 2)}"
        if choice < 0.55 and c.kind in (WHOLE, REAL):
            other = self.some(c.kind)
            return f"{c.sql} {rng.choice(['<', '>=', '='])} {other.sql}"
        return f"{c.sql} {rng.choice(['=', '<', '<=', '>', '>=', '<>', 'IS', 'IS NOT'])} {c.literal(rng)}"

    def aggregate(self):
        """Returns an aggregate, and for a sum of reals the text of the sum of its absolute values."""
        rng = self.rng
        where = f" FILTER (WHERE {self.term(0)})" if rng.random() < 0.2 else ""
        c = rng.choice(self.columns)
        if rng.random() < 0.2:
            return f"count(*){where}", None
        if c.kind == OPAQUE:
            return f"count({'*' if c.known else c.sql}){where}", None
        argument = c.sql
        if c.kind == REAL and rng.random() < 0.4:
            argument = rng.choice(["{} * 2", "{} - 273.15", "abs({})", "coalesce({}, 0.5)"]).format(c.sql)
        name = rng.choice(["min", "max", "count"] + (["sum", "avg", "total"] * 2 if c.kind in (WHOLE, REAL) else []))
        if name in ("sum", "avg", "total"):
            return f"{name}({argument}){where}", f"total(abs({argument})){where}"
        distinct = "DISTINCT " if name == "count" and c.kind in (WHOLE, TEXT) and rng.random() < 0.3 else ""
        return f"{name}({distinct}{argument}){where}", None

    def query(self, source):
        """Returns (text, a text with further columns by which sums are judged, for each column the number of its further one or None)."""
        rng = self.rng
        where = f" WHERE {self.term()}" if rng.random() < 0.6 else ""
        if rng.random() < 0.3:
            items = [c.sql for c in rng.sample(self.columns, rng.randrange(1, len(self.columns) + 1)) if c.kind != OPAQUE or rng.random() < 0.2]
            items = [i for i in items if self.kind_of(i) != OPAQUE] or ["1"]
            text = f"SELECT {', '.join(items)} FROM {source}{where}"
            return text, text, [None] * len(items)
        keys = [self.key() for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        aggregates = [self.aggregate() for _ in range(rng.randrange(0 if keys else 1, 5))]
        tail = f" FROM {source}{where}" + (" GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys))) if keys else "")
        items, further, judged = keys + [a for a, _ in aggregates], [], [None] * len(keys)
        for _, size in aggregates:
            judged.append(len(items) + len(further) if size else None)
            further += [size] if size else []
        return f"SELECT {', '.join(items)}{tail}", f"SELECT {', '.join(items + further)}{tail}", judged

    def kind_of(self, sql):
        return next(c.kind for c in self.columns if c.sql == sql)


def run(db, sql):
    try:
        return db.execute(sql).fetchall()
    except sqlite3.Error as e:
        return str(e)


def plain(value):
    return 0.0 if isinstance(value, float) and value == 0 else value


def agree(got, wanted, size):
    """Whether two values are equal; of a sum, as well as the order of additions allows."""
    if type(got) is type(wanted) and plain(got) == plain(wanted):
        return True
    if size is None or not isinstance(wanted, (float, type(None))) or not isinstance(got, (float, type(None))):
        return False
    if size > 1e300 or got is None or wanted is None:   # a part of the sum may be infinite in one order and finite in another
        return size > 1e300
    return abs(got - wanted) <= 1e-11 * size


def wrong(db, text, full, judged, mixed):
    """Returns what is wrong with a query, None, or the text of an error that may be. `mixed`: a column has datetimes without a text."""
    db.execute("DROP TABLE IF EXISTS temp.q")
    wanted = run(db, full)
    made = run(db, f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
    got = made if isinstance(made, str) else run(db, "SELECT * FROM q")
    if isinstance(wanted, str) or isinstance(got, str):
        either = f"{wanted if isinstance(wanted, str) else ''}\n{got if isinstance(got, str) else ''}"
        if OVERFLOW.search(either) or REFUSED.search(either) or mixed and MIXED.search(either):
            return either
        return f"FAIL {str(got)[:300]}, the view has {str(wanted)[:300]}"
    exact = [n for n, j in enumerate(judged) if j is None]

    def order(row):
        return [(type(row[n]).__name__, repr(plain(row[n]))) for n in exact]
    got, wanted = sorted(got, key=order), sorted(wanted, key=order)
    if len(got) != len(wanted):
        return f"FAIL {len(got)} rows, the view has {len(wanted)}: {str(got[:3])[:300]}, {str(wanted[:3])[:300]}"
    for g, w in zip(got, wanted):
        for n, j in enumerate(judged):
            if not agree(g[n], w[n], None if j is None else w[j] or 0):
                return f"FAIL column {n + 1}: {g}, the view has {w}"
    return None


def check_array(db, directory, description, count, rng, keys):
    """Yields problems; None for a query that had a result, the text of an error that may be for one without."""
    option = rng.choice(["", "", ", unwritten=fill"])
    key = description.get("encryption_key")
    if key:
        with open(keys + "/key", "wb") as f:
            f.write(key.encode())
        option += f", key_file={read.literal(keys + '/key')}"
    if not key and rng.random() < 0.15:
        db.execute("SELECT tessera_sync(?, 'db:t')", (directory,))
        option = " in the database"
    else:
        db.execute(f"CREATE VIRTUAL TABLE temp.t USING tessera({read.literal(directory)}{option})")
    info = db.execute("PRAGMA table_info(t)").fetchall()
    dims = len(description["dims"])
    rows = db.execute("SELECT " + ",".join(quote(row[1].decode()) for row in info) + " FROM t LIMIT 2000").fetchall()
    rng.shuffle(rows)
    fields = {field["name"]: field for field in description["dims"] + description["attrs"]}
    columns = [Column(row[1].decode(), row[2].decode(), fields.get(row[1].decode()), [r[i] for r in rows[:20]], i < dims) for i, row in enumerate(info)]
    times = [r.get("timestamp") for r in description["reads"] if isinstance(r.get("timestamp"), int)]
    writer = Writer(rng, columns)
    for _ in range(count):
        source = f"t({rng.choice(times)})" if times and rng.random() < 0.3 else "t"
        text, full, judged = writer.query(source)
        found = wrong(db, text, full, judged, any(c.kind == TIME and not c.iso for c in columns))
        yield f"{option} {text}: {found[5:]}" if found and found.startswith("FAIL") else None if found is None else (text, found)


def main():
    queries = failed = refused = 0
    for name, asked in read.questions(4, "dims_scale_float"):
        try:
            for problem in check_array(*asked):
                queries += 1
                if isinstance(problem, tuple):
                    refused += 1
                elif problem:
                    failed += 1
                    print(f"FAIL {name}{problem}")
        except sqlite3.Error as e:
            failed += 1
            print(f"FAIL {name}: {e}")
    print(f"queries: {queries - failed - refused} passed, {failed} failed, {refused} refused as the manual says")
    return 1 if failed or not queries or refused > queries // 10 else 0


if __name__ == "__main__":
    sys.exit(main())
