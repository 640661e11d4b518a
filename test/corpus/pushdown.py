"""Runs generated queries over the arrays of the corpus with pushdown and without, and compares the rows: comparisons of
dimensions and attributes, and orders, groups and distinct values of dimensions.

A subquery that SQLite cannot flatten keeps comparisons away from the table; its rows are the expected ones. The values
in comparisons are taken from the cells of the array and changed: to neighbours, other types, numbers as text, extremes,
NULL. They appear as literals, parameters, or columns of a table with each affinity, in lists, in subqueries and in
joins.

Not generated are comparisons that mean more to the table than to SQLite (docs/reference/types.md, "Comparing"): UINT64 columns,
which have no affinity, with text of digits in another form than theirs, or with columns whose affinity would apply to
them; datetimes with ISO text of another precision than the column's, or with any text if some values of the column have
no text. sqlite/comparing.py tests these.

usage: pushdown.py EXTENSION CORPUS [QUERIES_PER_ARRAY [SEED [PATTERN]]]
"""
import re
import sqlite3
import sys

import read

OPERATORS = ["=", "<", "<=", ">", ">=", "IS", "<>", "IS NOT"]
OPTIONS = ["", ", datetimes=integer", ", unwritten=fill", ", unwritten=fill, enums=code, vectors=blob"]


def vary(value, rng):
    """Returns a value near this one, or an unrelated one."""
    odd = [None, 0, -1, 0.5, "", "7", "abc", b"", b"abc", 2**63 - 1, -2**63, 1e300, -1e300, 9.3e18, 1.5, "2024-01", "1e3", " 5 ", "0x10"]
    if value is None or rng.random() < 0.25:
        return rng.choice(odd)
    if isinstance(value, int):
        return rng.choice([value, value + 1, value - 1, value + 0.5, value - 0.5, float(value), str(value), f"{value}.0", f"{value}.5", value * 2])
    if isinstance(value, float):
        return rng.choice([value, value * (1 + 1e-9), value * (1 - 1e-9), int(value) if abs(value) < 1e18 else 0, repr(value), -value, value + 1])
    text = value.decode("utf-8", "replace")
    half = text[:rng.randrange(len(text) + 1)]
    return rng.choice([text, half, text + "\0", text + "a", half + "~", text.upper(), value])


def bindable(value):
    """Returns the value in a form that the Python module can bind: integers of more than 64 bits become floats."""
    return float(value) if isinstance(value, int) and not -2**63 <= value < 2**63 else value


def literal(value):
    """Returns the value as a literal, or None if it has none. Half of the queries use literals, which SQLite plans differently from parameters."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        return None if "\0" in value else "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        return None if value != value or value in (float("inf"), float("-inf")) else repr(value)
    return str(value)


def quote(name):
    return '"' + name.replace('"', '""') + '"'


AFFINITIES = {"integer": "INTEGER", "real": "REAL", "numeric": "NUMERIC", "text": "TEXT", "none": "", "nocase": "TEXT COLLATE NOCASE"}
ISO = re.compile(r"(\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?)?|\d\d:\d\d(:\d\d(\.\d+)?)?)Z?")


def is_digits(value):
    """Returns True for text of digits in a form that no UINT64 column shows."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        return False
    return len(value) != 20 or not 2**63 <= int(value) < 2**64


def is_iso(value):
    """Returns True if the value may be ISO text, as it is or after SQLite has converted it to text."""
    return isinstance(value, (str, int)) and ISO.fullmatch(str(value)) is not None


class Column:
    """A column of the table, with the values that it may be compared with."""

    def __init__(self, name, declared, datatype, values):
        self.name, self.values = name, values
        self.unsigned = not declared
        self.times = declared == "TEXT" and datatype.startswith(("DATETIME", "TIME_"))
        self.integers = self.times and any(isinstance(v, int) for v in values)
        self.shapes = set() if self.integers else {re.sub(rb"\d", b"0", v) for v in values if isinstance(v, bytes)}
        if self.unsigned:
            self.others = ["no_digits_none"]
        elif self.times:
            some = ["text", "nocase"] if datatype == "DATETIME_YEAR" else AFFINITIES
            self.others = [f"no_iso_{affinity}" for affinity in some]
        else:
            self.others = [f"all_{affinity}" for affinity in AFFINITIES]

    def takes(self, value):
        if self.unsigned:
            return not is_digits(value)
        if self.integers and isinstance(value, float):   # depending on SQLite's version it compares with integers as text or as a number
            return False
        return not self.times or not is_iso(value) or re.sub(r"\d", "0", str(value)).encode() in self.shapes


def fill_other(db, rows, rng):
    """The table `other`: ten odd values and varied values of cells, each in a column of every affinity, all of them and without some."""
    db.execute("DROP TABLE IF EXISTS other")
    kinds = ("all", "no_digits", "no_iso")
    db.execute(f"CREATE TABLE other({', '.join(f'{kind}_{affinity} {declared}' for kind in kinds for affinity, declared in AFFINITIES.items())})")
    places = ", ".join(f"?{1 + k}" for k in range(len(kinds)) for _ in AFFINITIES)
    cells = [value for row in rows[:20] for value in row] or [None]
    for value in [None, 7, 1.5, "", "!", "7", "12a", "~", b"abc", 1e300] + [vary(rng.choice(cells), rng) for _ in range(20)]:
        value = bindable(value)
        db.execute(f"INSERT INTO other VALUES({places})", [value, None if is_digits(value) else value, None if is_iso(value) else value])


def comparison(column, rng, joined):
    """Returns (a comparison with {c} for the column, parameters)."""
    samples, others = column.values[:20] or [None], column.others

    def right():
        value = bindable(vary(rng.choice(samples), rng))
        while not column.takes(value):
            value = bindable(vary(rng.choice(samples), rng))
        text = literal(value) if rng.random() < 0.5 else None
        return (text, []) if text is not None else ("?", [value])
    kind = rng.random()
    if joined:
        return "{c} " + rng.choice(OPERATORS) + " " + rng.choice(others), []
    if kind > 0.92 and not column.integers:
        return "{c} " + rng.choice(["IN", "IN", "NOT IN"]) + f" (SELECT {rng.choice(others)} FROM other)", []
    if kind > 0.84:
        return "{c} " + rng.choice(OPERATORS) + f" (SELECT {rng.choice(others)} FROM other WHERE rowid = {rng.randrange(1, 31)})", []
    if kind < 0.15:
        values = [right() for _ in range(rng.randrange(0, 6))]
        return "{c} IN (" + ",".join(v[0] for v in values) + ")", sum((v[1] for v in values), [])
    if kind < 0.25:
        return "{c} " + rng.choice(["IS NULL", "IS NOT NULL", "ISNULL", "NOTNULL"]), []
    if kind < 0.4:
        low, high = right(), right()
        return "{c} BETWEEN " + low[0] + " AND " + high[0], low[1] + high[1]
    value = right()
    return "{c} " + rng.choice(OPERATORS) + " " + value[0], value[1]


def run(db, sql, parameters):
    try:
        return db.execute(sql, parameters).fetchall()
    except sqlite3.Error as e:
        return str(e)


def order(dims, rng):
    """Returns (ORDER BY and perhaps LIMIT, the columns in that order, whether all rows are returned)."""
    columns = [rng.randrange(len(dims)) for _ in range(rng.randrange(1, len(dims) + 2))][:8]
    text = " ORDER BY " + ", ".join(quote(dims[i]) + rng.choice(["", " DESC", " ASC"]) for i in columns)
    if rng.random() < 0.5:
        return text, columns, True
    return text + f" LIMIT {rng.choice([0, 1, 2, 10, 100])}" + rng.choice(["", " OFFSET 3"]), columns, False


def as_ordered(rows, columns, whole):
    """Returns the parts of a result that must be equal: the ordered columns in their order, and the set of rows."""
    if isinstance(rows, str):
        return rows
    return [[row[1 + i] for i in columns] for row in rows], sorted(rows, key=repr) if whole else len(rows)


def check_array(db, directory, description, count, rng, keys):
    """Returns problems as text; None for a query that fails with and without pushdown."""
    option = rng.choice(OPTIONS)
    key = description.get("encryption_key")
    if key:
        with open(keys + "/key", "wb") as f:
            f.write(key.encode())
        option += f", key_file={read.literal(keys + '/key')}"
    db.execute("DROP TABLE IF EXISTS t")
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera({read.literal(directory)}{option})")
    info = db.execute("PRAGMA table_info(t)").fetchall()
    names = [row[1].decode() for row in info]
    dims = len(description["dims"])
    rows = db.execute("SELECT " + ",".join(map(quote, names)) + " FROM t LIMIT 3000").fetchall()
    rng.shuffle(rows)
    fill_other(db, rows, rng)
    datatypes = {field["name"]: field["type"] for field in description["dims"] + description["attrs"]}
    all_columns = [Column(row[1].decode(), row[2].decode(), datatypes.get(row[1].decode(), "DATETIME"), [r[i] for r in rows]) for i, row in enumerate(info)]
    for _ in range(count):
        terms = []
        joined = rng.random() < 0.15
        for _ in range(rng.choice([1, 1, 2, 3])):
            i = rng.randrange(dims) if len(names) == dims or rng.random() < 0.3 else rng.randrange(dims, len(names))
            text, parameters = comparison(all_columns[i], rng, joined)
            terms.append((quote(names[i]), text, parameters))
        parameters = sum((t[2] for t in terms), [])
        shown = ",".join(map(quote, names))
        head = "" if rng.random() < 0.5 else "SELECT count(*), min(rowid_), max(rowid_) FROM "
        where = " AND ".join(t[1].replace("{c}", t[0]) for t in terms)
        pushed = f"SELECT rowid AS rowid_,{shown} FROM t WHERE {where}"
        plain = f"SELECT * FROM (SELECT rowid AS rowid_,{shown} FROM t LIMIT -1 OFFSET 0) WHERE {where}"
        kind = rng.random()
        columns, whole = [], True
        if joined:
            how, on = rng.choice([("CROSS", "WHERE"), ("LEFT", "ON")])
            what = f"SELECT other.rowid, count(*), min(t.rowid), max(t.rowid) FROM other {how} JOIN t {on} "
            tail = f" {'AND' if on == 'WHERE' else 'WHERE'} other.rowid % 5 = {rng.randrange(5)} GROUP BY other.rowid"
            # The CASE keeps the comparison from the table. A subquery would, too, but SQLite gives its rows the affinity of their columns, which changes integers beside ISO texts.
            pushed, plain = f"{what}{where}{tail}", f"{what}CASE WHEN {where} THEN 1 END{tail}"
        elif head:
            pushed, plain = f"{head}({pushed})", f"{head}({plain})"
        elif kind < 0.5:
            text, columns, whole = order(names[:dims], rng)
            pushed, plain = pushed + text, plain + text
        elif kind < 0.7:
            some = ",".join(quote(names[rng.randrange(dims)]) for _ in range(rng.randrange(1, 4)))
            what = rng.choice([f"SELECT DISTINCT {some}", f"SELECT count(*), max(rowid_), {some}"])
            text = "" if "DISTINCT" in what else f" GROUP BY {some}"
            pushed = f"{what} FROM (SELECT rowid AS rowid_,{shown} FROM t WHERE {where}){text}"
            plain = f"{what} FROM ({plain}){text}"
        elif kind < 0.8:
            what = f"SELECT {rng.choice(['min', 'max'])}({quote(names[rng.randrange(dims)])})"
            pushed, plain = f"{what} FROM t WHERE {where}", f"{what} FROM ({plain})"
        got, want = as_ordered(run(db, pushed, parameters), columns, whole), as_ordered(run(db, plain, parameters), columns, whole)
        if isinstance(got, str) and got == want:
            yield None
        elif got != want:
            yield f"{option} {pushed} {parameters}: {str(got)[:200]} with pushdown, {str(want)[:200]} without"


def main():
    queries = failed = unanswered = 0
    for name, asked in read.questions(12):
        queries += asked[3]
        for problem in check_array(*asked):
            if problem is None:
                unanswered += 1
                continue
            failed += 1
            print(f"FAIL {name}{problem}")
    print(f"pushdown: {queries - failed - unanswered} passed, {failed} failed, {unanswered} without an answer both ways")
    return 1 if failed or not queries or unanswered > queries // 100 else 0


if __name__ == "__main__":
    sys.exit(main())
