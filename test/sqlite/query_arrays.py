"""The arrays of queries.py: dense and sparse ones, with every kind of column that an expression of a columnar query may
meet, and with values at the ends of their types. Each array says what its columns are, so that query_texts.py can write
expressions over them.
"""
import math
import os
import random
import time

INT, REAL, TEXT, DATE, UNSIGNED, OPAQUE = "int", "real", "text", "date", "unsigned", "opaque"
WIDTHS = {"INT8": (-2**7, 2**7 - 1), "UINT8": (0, 2**8 - 1), "INT16": (-2**15, 2**15 - 1), "UINT16": (0, 2**16 - 1), "INT32": (-2**31, 2**31 - 1),
          "UINT32": (0, 2**32 - 1), "INT64": (-2**63, 2**63 - 1)}
LABELS = ["calm", "Breeze", "gale", "", "Sturm ü", "10"]
WORDS = ["", "a", "A", "ab", "b", "zz", "10", "9", "é", "Ünö", "a'b", "x,y", "100 %", "_"]


class Column:
    """A column of an array. `known`: its expressions can be evaluated once for each value: an integer or datetime
    dimension, or an attribute with labels."""

    def __init__(self, name, kind, declared, known=False, dimension=False, low=0, high=0, nullable=True):
        self.name, self.kind, self.declared, self.known, self.dimension = name, kind, declared, known, dimension
        self.low, self.high, self.nullable = low, high, nullable
        self.values = []   # samples, for literals
        plain = name.replace("_", "").isalnum()
        self.sql = name if plain else f'"{name}"'

    def ddl(self):
        return f"{self.sql} {self.declared}" + ("" if self.nullable or self.dimension else " NOT NULL")


def integer_dimension(name, type_, low, high, extent):
    return Column(name, INT, f"{type_} DIMENSION({low}, {high}, {extent})", True, True, low, high)


def number(name, type_, nullable=True):
    low, high = WIDTHS[type_]
    return Column(name, INT, type_, low=low, high=high, nullable=nullable)


def labelled(name):
    return Column(name, TEXT, "TEXT ENUM(" + ", ".join("'" + label + "'" for label in LABELS) + ")", True)


def some_integer(r, low, high):
    choice = r.random()
    if choice < 0.75:
        return r.randrange(max(low, -60), min(high, 60) + 1)
    near = [v for v in (low, low + 1, high, high - 1, 0, 2**53, 2**53 + 1, 2**53 - 1, -2**53 - 1) if low <= v <= high]
    return r.choice(near) if choice < 0.85 else r.randrange(low, high + 1) if choice < 0.95 else r.choice([low, 0, 1])


def some_real(r, single):
    choice = r.random()
    if choice < 0.80:
        value = r.gauss(280, 12)
    elif choice < 0.9:
        value = r.choice([0.0, -0.0, 0.5, -0.5, 2.5, 1.0, -1.0, 0.49999999999999994, 273.15])
    elif choice < 0.95:
        value = r.choice([2.0**53, 2.0**53 + 2, 9.3e18, -1e20, 1e-30, 12345678.75])
    else:
        value = r.choice([math.inf, -math.inf, 1e30, None, None, None, None])
    return float(f"{value:.6g}") if single and value is not None else value


def some_value(r, column, extremes):
    if column.nullable and r.random() < 0.12:
        return None
    if column.kind == INT:
        return some_integer(r, column.low, column.high) if extremes or "64" not in column.declared else r.randrange(-1000, 1000)
    if column.kind == REAL:
        value = some_real(r, "32" in column.declared) if extremes else r.gauss(280, 12)
        return 0.25 if value is None and not column.nullable else value
    if column.kind == UNSIGNED:   # one value only that is past the integers of SQL: SQLite orders their texts, not the numbers
        return r.choice([0, 1, 7, 2**63 - 1, 2**53 + 1, "18446744073709551615"]) if extremes else r.randrange(50)
    if column.kind == DATE:
        return f"20{r.randrange(19, 21)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
    if column.kind == OPAQUE:
        return r.choice(["[1,2,3]", "[0,-1,5]"])
    return r.choice(LABELS if column.known else WORDS)


class Array:
    """A table of tessera's with cells. `count` is an upper bound of the number of its cells; `middle` a time between its fragments."""

    def __init__(self, db, name, place, dense, columns, options=""):
        self.db, self.name, self.dense, self.columns, self.count, self.middle = db, name, dense, columns, 0, None
        kind = "kind=dense, " if dense else ""
        path = f"'{place}', " if place else ""
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({path}{kind}{', '.join(c.ddl() for c in columns)}{options})")

    def write(self, r, coordinates, extremes=True):
        """Makes one fragment of cells with these coordinates."""
        count = sum(c.dimension for c in self.columns)
        marks = ", ".join("?" * len(self.columns))
        names = ", ".join(c.sql for c in self.columns)
        self.db.query("SAVEPOINT fragment")
        for at in coordinates:
            row = list(at) + [some_value(r, c, extremes) for c in self.columns[count:]]
            self.db.query(f"INSERT INTO {self.name}({names}) VALUES({marks})", row)
        self.db.query("RELEASE fragment")
        self.count += len(coordinates)

    def sample(self, r):
        """Takes values of the cells for literals."""
        names = ", ".join(c.sql for c in self.columns)
        rows = self.db.query(f"SELECT {names} FROM {self.name}")
        for n, column in enumerate(self.columns):
            found = [row[n] for row in rows if row[n] is not None]
            column.values = r.sample(found, min(len(found), 12))
        self.count = max(self.count, len(rows))


def attributes(r, real=("FLOAT32", "FLOAT64"), whole=tuple(WIDTHS)):
    """Returns a random choice of attributes; one REAL and one INTEGER at least."""
    found = [Column("temp", REAL, real[0], nullable=r.random() < 0.5), Column("rain", REAL, real[-1])]
    for type_ in sorted(r.sample(whole, 3)):
        found.append(number(type_.lower().replace("uint", "u").replace("int", "i"), type_, r.random() < 0.6))
    found += [Column("u", UNSIGNED, "UINT64"), Column("name", TEXT, "TEXT"), labelled("wind"), Column("seen", DATE, "DATE")]
    return found


def box(r, ranges):
    """Returns the coordinates of a random box in row-major order."""
    chosen = []
    for low, high in ranges:
        a, b = sorted((r.randint(low, high), r.randint(low, high)))
        chosen.append((min(a, low + (high - low) // 3), max(b, high - (high - low) // 3)))
    found = [()]
    for low, high in chosen:
        found = [at + (v,) for at in found for v in range(low, high + 1)]
    return found


def later():
    """Returns a time after the fragments that exist, and waits until it is over."""
    time.sleep(0.003)
    now = time.time()
    time.sleep(0.003)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}"


def place_of(folder, r, name):
    return os.path.join(folder, name) if r.random() < 0.6 else None


def dense_plane(db, folder, r, extremes):
    """Two dimensions, tiles that do not divide the domain, cells that were never written, two overlapping fragments."""
    dims = [integer_dimension("y", "INT32", -7, 33, 13), integer_dimension("x", "INT32", -20, 12, 8)]
    array = Array(db, "plane", place_of(folder, r, "plane"), True, dims + attributes(r))
    array.write(r, box(r, [(-7, 20), (-18, 5)]), extremes)
    array.middle = later()
    array.write(r, box(r, [(0, 30), (-9, 12)]), extremes)
    return array


def dense_cube(db, folder, r, extremes):
    dims = [integer_dimension("t", "INT16", -3, 28, 5), integer_dimension("lat", "INT16", -9, 8, 4), integer_dimension("lon", "INT16", 0, 6, 5)]
    array = Array(db, "cube", place_of(folder, r, "cube"), True, dims + attributes(r, real=("FLOAT32",), whole=("INT8", "UINT8", "INT32", "INT16")))
    array.write(r, box(r, [(-3, 28), (-9, 8), (0, 6)]), extremes)
    array.middle = later()
    array.write(r, box(r, [(5, 9), (-4, 3), (2, 5)]), extremes)
    return array


def dense_days(db, folder, r, extremes):
    dims = [Column("day", DATE, "DATE DIMENSION('2019-12-20', '2021-02-10', 30)", True, True)]
    array = Array(db, "days", place_of(folder, r, "days"), True, dims + attributes(r))
    array.write(r, [(f"2020-{m:02}-{d:02}",) for m in range(1, 13) for d in range(1, 29, 1 + m % 3)], extremes)
    array.middle = later()
    array.write(r, [(f"2020-0{m}-{d:02}",) for m in (3, 4) for d in range(1, 20)], extremes)
    return array


def sparse_days(db, folder, r, extremes):
    """Days and latitudes, duplicates, deleted cells."""
    dims = [Column("day", DATE, "DATE DIMENSION('2019-01-01', '2021-12-31', 30)", True, True), integer_dimension("lat", "INT64", -90, 90, 25)]
    array = Array(db, "stations", place_of(folder, r, "stations"), False, dims + attributes(r), ", capacity=64, duplicates=yes")
    coordinates = [(f"2020-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}", r.choice([-33, -1, 0, 1, 47, 48, 52, r.randint(-90, 90)])) for _ in range(700)]
    array.write(r, coordinates, extremes)
    array.middle = later()
    array.write(r, coordinates[:60] + [("2019-12-31", -90), ("2021-12-31", 90)], extremes)
    db.query("DELETE FROM stations WHERE lat = 52 AND day < '2020-06-15'")
    return array


def sparse_hours(db, folder, r, extremes):
    """Hours and names as dimensions; an attribute with a name that needs quotes, and one with several values in each cell."""
    dims = [Column("hour", DATE, "DATETIME_HR DIMENSION('2020-02-28 00', '2020-03-05 00', 24)", True, True), Column("place", TEXT, "TEXT DIMENSION", False, True)]
    more = [Column("my temp", REAL, "FLOAT32"), Column("vector", OPAQUE, "INT32[3]")]
    array = Array(db, "hours", place_of(folder, r, "hours"), False, dims + attributes(r) + more, ", capacity=50")
    pairs = {(f"2020-{m}-{d} {h:02}:00", r.choice(["rome", "oslo", "é", "Rome", "b"])) for m, d in (("02", "28"), ("02", "29"), ("03", "01")) for h in range(24) for _ in range(4)}
    array.write(r, sorted(pairs), extremes)
    array.middle = later()
    array.write(r, sorted(pairs)[:40], extremes)
    return array


MAKERS = [dense_plane, dense_cube, dense_days, sparse_days, sparse_hours]


def own_rows(array, r, extremes):
    """Writes rows of the open transaction."""
    dims = [c for c in array.columns if c.dimension]
    at = array.db.query(f"SELECT {', '.join(c.sql for c in dims)} FROM {array.name}")
    array.write(r, r.sample(at, min(len(at), 7)), extremes)


def make(db, folder, r):
    """Makes the arrays. The values of some have ordinary sizes only, the others' lie also at the ends of their types."""
    arrays = []
    for maker in MAKERS:
        array = maker(db, folder, random.Random(r.random()), r.random() < 0.6)
        array.sample(r)
        arrays.append(array)
    return arrays
