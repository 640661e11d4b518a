"""Random statements on a tessera table and on an ordinary table in the same database: after each statement both must
have the same rows. INSERT, UPDATE and DELETE with all OR clauses, changes of coordinates, savepoints, rollbacks, with
values of every datatype.

The script computes what an ordinary table does differently: an UPDATE moves cells as a set, a plain INSERT replaces if
the option says so, and an UPDATE of a dense array writes cells of its box that were never written.

usage: histories.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
environment: ROUNDS, SEED; KEEP, a directory: the arrays are left there, each with ROWS.json beside it (test/interop/rows.py)
"""
import json
import os
import random
import shutil
import struct
import sys
import tempfile

import host
from host import Database, Error, same

ROUNDS = int(os.environ.get("ROUNDS", 2))
SEED = int(os.environ.get("SEED", 1))
STATEMENTS = 120
SIDE = 6   # the domain is 0 to SIDE - 1 in each dimension
TEXTS = ["", "a", "b", "zz", "é€😀", "a'b", "12", "x" * 300]


def integers(low, high):
    return lambda r: r.choice([low, high, r.randint(low, high), max(low, min(high, r.randint(-9, 9)))])


def unsigned64(r):
    n = r.choice([0, 1, 2**63 - 1, 2**63, 2**64 - 1, r.getrandbits(64)])
    return n if n < 2**63 else f"{n:020}"


def float32(r):
    return struct.unpack("<f", struct.pack("<f", r.choice([0.0, 1.5, -1e30, r.gauss(0, 100), float("inf")])))[0]


def fraction_digits(n):
    """Seconds with a fraction of n digits."""
    return lambda r: f".{r.randrange(10 ** n):0{n}d}"


def time_text(parts, fraction=0):
    def make(r):
        text = ":".join(f"{r.randrange(m):02d}" for m in (24, 60, 60)[:max(2, parts)]) if parts > 1 else f"{r.randrange(24):02d}:00"
        return text + (fraction_digits(fraction)(r) if fraction else "")
    return make


def date(r):
    return f"{r.randrange(1970, 1979)}-{r.randrange(1, 13):02d}-{r.randrange(1, 29):02d}"


def datetime_text(parts, fraction=0):
    return lambda r: ("1970-01-01 " + time_text(parts, fraction)(r)) if fraction > 9 else date(r) + " " + time_text(parts, fraction)(r)


# TYPE, values as the column shows them
TYPES = {
    "INT8": integers(-128, 127), "INT16": integers(-2**15, 2**15 - 1), "INT32": integers(-2**31, 2**31 - 1), "INT64": integers(-2**63, 2**63 - 1),
    "UINT8": integers(0, 255), "UINT16": integers(0, 2**16 - 1), "UINT32": integers(0, 2**32 - 1), "UINT64": unsigned64,
    "FLOAT32": float32, "FLOAT64": lambda r: r.choice([0.0, 0.1, -1e300, r.gauss(0, 1), float("inf"), float("-inf")]), "BOOL": integers(0, 1),
    "UTF8": lambda r: r.choice(TEXTS), "ASCII": lambda r: r.choice(["", "a", "Zz"]), "UTF16": lambda r: r.choice(TEXTS), "UTF32": lambda r: r.choice(TEXTS),
    "UCS2": lambda r: r.choice(["", "é€"]), "UCS4": lambda r: r.choice(TEXTS), "CHAR": lambda r: r.choice("abc"), "CHAR[]": lambda r: r.choice(TEXTS),
    "CHAR[3]": lambda r: r.choice(["abc", "xyz"]), "GEOM_WKT": lambda r: "POINT (1 2)",
    "BLOB": lambda r: bytes(r.randrange(256) for _ in range(r.choice([0, 1, 9, 200]))), "GEOM_WKB": lambda r: r.randbytes(9), "ANY": lambda r: r.randbytes(3), "BLOB[4]": lambda r: r.randbytes(4),
    "DATETIME_YEAR": lambda r: f"{r.randrange(10000):04d}", "DATETIME_MONTH": lambda r: f"{r.randrange(10000):04d}-{r.randrange(1, 13):02d}",
    "DATETIME_WEEK": lambda r: r.choice(["1970-01-01", "1970-01-08", "1969-12-25"]), "DATETIME_DAY": lambda r: r.choice([date(r), 3000000]), "DATETIME_HR": datetime_text(1),
    "DATETIME_MIN": datetime_text(2), "DATETIME_SEC": datetime_text(3), "DATETIME_MS": datetime_text(3, 3), "DATETIME_US": datetime_text(3, 6), "DATETIME_NS": datetime_text(3, 9),
    "DATETIME_PS": lambda r: "1970-01-01 " + time_text(3, 12)(r), "DATETIME_FS": lambda r: "1970-01-01 00:" + time_text(3, 15)(r)[3:], "DATETIME_AS": lambda r: f"1970-01-01 00:00:0{r.randrange(9)}" + fraction_digits(18)(r),
    "TIME_HR": time_text(1), "TIME_MIN": time_text(2), "TIME_SEC": time_text(3), "TIME_MS": time_text(3, 3), "TIME_US": time_text(3, 6), "TIME_NS": time_text(3, 9), "TIME_PS": time_text(3, 12),
    "TIME_FS": lambda r: "00:" + time_text(3, 15)(r)[3:], "TIME_AS": lambda r: f"00:00:0{r.randrange(9)}" + fraction_digits(18)(r),
    "INT16[]": lambda r: "[" + ",".join(str(r.randint(-9, 9)) for _ in range(r.randrange(4))) + "]", "FLOAT64[2]": lambda r: r.choice(["[0.5,null]", "[1.0,9e999]", "[-2.5,0.0]"]),
    "UINT64[]": lambda r: r.choice(["[]", '["18446744073709551615",7]']), "DATETIME_DAY[]": lambda r: r.choice(["[]", '["2024-02-29",null,3000000]']),
    "TEXT ENUM('x','y','')": lambda r: r.choice(["x", "y", ""]), "INT32 ENUM(10,20)": lambda r: r.choice([10, 20]),
}


class TablePair:
    """The tessera table t and the ordinary table o."""

    def __init__(self, r, kind="sparse", options="", types=None, dimensions=("INT32", "INT32"), place="'array'"):
        self.r, self.kind, self.dense, self.abort = r, kind, kind == "dense", "abort" in options
        self.duplicates = "duplicates=yes" in options
        self.file = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "t.db")
        self.db = Database(self.file)
        self.db.query("PRAGMA synchronous = OFF")
        self.types = types or r.sample(sorted(TYPES), 6)
        self.names = ["x", "y"] + [f"a{i}" for i in range(len(self.types))] + ["m"]
        self.nullable = [r.random() < 0.6 for _ in self.types]
        self.strings = dimensions[1] == "TEXT"
        columns = [f"x {dimensions[0]} DIMENSION(0, {SIDE - 1}, 2)", f"y {dimensions[1]} DIMENSION" + ("" if self.strings else f"(0, {SIDE - 1}, 3)")]
        columns += [f"a{i} {t}{'' if n else ' NOT NULL'}" for i, (t, n) in enumerate(zip(self.types, self.nullable))]
        columns += ["m INT32 NOT NULL DEFAULT 7"]
        self.ddl = f"CREATE VIRTUAL TABLE t USING tessera({place + ', ' if place else ''}kind={kind}, {', '.join(columns)}{options})"
        self.db.query(self.ddl)
        key = "" if self.duplicates else ", PRIMARY KEY(x, y)"
        self.db.query(f"CREATE TABLE o({', '.join(n + ' BLOB' for n in self.names)}{key})")
        self.log = []
        self.open = 0   # the number of open savepoints
        self.inside = False

    # ---- Both tables ----

    def run(self, sql, parameters=()):
        """Returns the error's text, or None."""
        self.log.append((sql, parameters))
        try:
            self.db.query(sql, parameters)
        except Error as e:
            return e.text or "out of memory"
        return None

    def rows(self, table, where=""):
        only = f"WHERE m IS NOT NULL {'AND ' + where if where else ''}" if table == "t" and self.dense else f"WHERE {where}" if where else ""
        rows = self.db.query(f"SELECT {', '.join(self.names)} FROM {table} {only}")
        return sorted(rows, key=repr)

    def check(self, what):
        got, wanted = self.rows("t"), self.rows("o")
        if got != wanted:
            extra, missing = [g for g in got if g not in wanted], [w for w in wanted if w not in got]
            tail = "\n".join(map(str, self.log[-12:]))
            raise AssertionError(f"{what}: {len(got)} rows, {len(wanted)} expected; too many: {str(extra)[:600]}; missing: {str(missing)[:600]}\n{self.ddl}\n{tail}")

    def fails_alike(self, a, b, what):
        if (a is None) != (b is None):
            raise AssertionError(f"{what}: tessera says {a}, the ordinary table {b}\n{self.ddl}\n" + "\n".join(map(str, self.log[-6:])))

    def key(self):
        y = self.r.randrange(SIDE)
        return self.r.randrange(SIDE), (TEXTS[y] if self.strings else y)

    def values(self):
        values = [None if n and self.r.random() < 0.2 else TYPES[t](self.r) for t, n in zip(self.types, self.nullable)]
        return values + [self.r.randrange(1000)]

    def condition(self, dimensions_only=False):
        y = self.r.randrange(SIDE)
        choices = [f"x = {self.r.randrange(SIDE)}", f"x > {self.r.randrange(SIDE)}", f"x <= {self.r.randrange(SIDE)} AND y < {literal(TEXTS[y]) if self.strings else y}", "1"]
        if not dimensions_only:
            choices += [f"m < {self.r.randrange(1000)}", f"m % 3 = {self.r.randrange(3)}", f"x = {self.r.randrange(SIDE)} OR m > {self.r.randrange(1000)}"]
        return self.r.choice(choices)

    # ---- Statements ----

    def insert(self):
        clause = self.r.choice(["", "", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT", "OR ROLLBACK"])
        marks = ", ".join("?" * len(self.names))
        several = [self.key() + tuple(self.values()) for _ in range(self.r.choice([1, 1, 1, 3, 8]))]
        sql = f"INSERT {clause} INTO %s VALUES " + ", ".join([f"({marks})"] * len(several))
        flat = [v for row in several for v in row]
        there = clause if clause not in ("", "OR ABORT") else "OR ABORT" if self.abort else "OR REPLACE"
        if self.duplicates:
            there = clause
        before = self.inside
        a = self.run(sql % "t", flat)
        if a and clause == "OR ROLLBACK" and before:
            return self.rolled_back()
        b = self.run(sql.replace(clause, there, 1) % "o" if clause else sql.replace("INSERT ", f"INSERT {there}", 1) % "o", flat)
        self.fails_alike(a, b, "INSERT")

    def insert_select(self):
        if self.duplicates and len(self.rows("o")) > 200:
            return
        shift = self.r.randrange(SIDE)
        columns = ", ".join(self.names[1:])
        condition = self.condition()
        source = f"SELECT (x + {shift}) % {SIDE}, {columns} FROM FROM_HERE WHERE ({condition}) {'AND m IS NOT NULL' if self.dense else ''} ORDER BY x, y, m"
        clause = self.r.choice(["OR REPLACE", "OR IGNORE"])
        a = self.run(f"INSERT {clause} INTO t " + source.replace("FROM_HERE", self.r.choice("to")))
        b = self.run(f"INSERT {clause} INTO o " + source.replace("FROM_HERE", "o"))
        self.fails_alike(a, b, "INSERT ... SELECT")

    def update(self):
        which = self.r.sample(range(2, len(self.names)), self.r.randrange(1, 3))
        values = self.values()
        sets = ", ".join(f"{self.names[i]} = ?" for i in which)
        flat = [values[i - 2] for i in which]
        condition = self.condition(dimensions_only=self.dense)
        if self.dense:
            self.fill_box(condition)
        clause = self.r.choice(["", "OR REPLACE", "OR IGNORE"])
        if self.duplicates and self.partial(condition):
            return
        a = self.run(f"UPDATE {clause} t SET {sets} WHERE {condition}", flat)
        b = self.run(f"UPDATE {clause} o SET {sets} WHERE {condition}", flat)
        self.fails_alike(a, b, "UPDATE")

    def partial(self, condition):
        """Returns True if deleting these cells would also delete a duplicate that is not among them."""
        return self.db.query(f"SELECT 1 FROM o AS p WHERE NOT ({condition}) AND EXISTS (SELECT 1 FROM o WHERE x = p.x AND y = p.y AND ({condition}))")

    def fill_box(self, condition):
        """Returns the cells that an UPDATE makes of cells that were never written."""
        defaults = [None if n else FILLS[t.split("[")[0].split()[0]] for t, n in zip(self.types, self.nullable)]
        marks = ", ".join("?" * len(self.names[2:]))
        self.run("INSERT OR IGNORE INTO o SELECT x, y, " + marks + f""" FROM (WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {SIDE})
            SELECT a.i AS x, b.i AS y FROM n a, n b WHERE a.i BETWEEN (SELECT min(x) FROM o) AND (SELECT max(x) FROM o) AND b.i BETWEEN (SELECT min(y) FROM o) AND (SELECT max(y) FROM o))
            WHERE {condition}""", defaults + [7])

    def move(self):
        """Moves cells as a set."""
        if self.dense:
            error = self.run("UPDATE t SET x = x + 1")
            if self.rows("o") and not error:
                raise AssertionError("a dense cell has moved")
            return
        how, inverse = self.r.choice([(f"x + {self.r.choice([1, -1, 2])}", False), (f"{SIDE - 1} - x", True), (f"(x + 2) % {SIDE}", True)])
        condition = self.condition()
        clause = self.r.choice(["", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT", "OR ROLLBACK"])
        if self.duplicates and self.partial(condition):
            return
        extra = self.r.choice(["", ", m = m + 1"])
        rows = [list(row) for row in self.db.query(f"SELECT {', '.join(self.names)}, {how}, {condition} FROM o")]
        before, inside = self.rows("o"), self.inside
        error = self.run(f"UPDATE {clause} t SET x = {how}{extra} WHERE {condition}")
        touched = [row for row in rows if row[-1]]
        outside = any(not 0 <= row[-2] < SIDE for row in touched)
        replaces = clause == "OR REPLACE" or (clause in ("", "OR ABORT") and not self.abort) or self.duplicates
        stay = {(row[0], row[1]) for row in rows if not row[-1]}
        if outside and not error:
            raise AssertionError("a cell has left the domain\n" + "\n".join(map(str, self.log[-3:])))
        if outside and "outside" in error:   # otherwise a conflict came first
            return
        blocked = True
        conflict = False
        while blocked and not replaces:
            blocked = [row for row in touched if (row[-2], row[1]) in stay]
            conflict |= bool(blocked)
            stay |= {(row[0], row[1]) for row in blocked}
            touched = [row for row in touched if row not in blocked]
        if (conflict or outside) and clause != "OR IGNORE":
            if not error:
                raise AssertionError(f"no conflict\n{self.ddl}\n" + "\n".join(map(str, self.log[-6:])))
            if clause == "OR ROLLBACK" and inside:
                return self.rolled_back()
            if clause == "OR FAIL":   # the rows that OR FAIL keeps depend on their order; none may be lost
                got = self.rows("t")
                same(sorted((row[1:-1] for row in got), key=repr), sorted((row[1:-1] for row in before), key=repr), "rows of UPDATE OR FAIL") if not extra else same(len(got), len(before), "rows of UPDATE OR FAIL")
                self.db.query("DELETE FROM o")
                self.insert_rows(got)
            return
        if error:
            raise AssertionError(f"{error}\n{self.ddl}\n" + "\n".join(map(str, self.log[-6:])))
        self.db.query(f"DELETE FROM o WHERE rowid IN (SELECT rowid FROM o WHERE {condition})") if self.duplicates else [self.db.query("DELETE FROM o WHERE x = ? AND y = ?", row[:2]) for row in touched]
        self.insert_rows([[row[-2]] + row[1:-3] + [row[-3] + bool(extra)] for row in touched])

    def insert_rows(self, rows):
        for row in rows:
            self.db.query(f"INSERT OR REPLACE INTO o VALUES({', '.join('?' * len(self.names))})", list(row))

    def delete(self):
        condition = self.condition()
        if self.duplicates and self.partial(condition):
            return
        a = self.run(f"DELETE FROM t WHERE {condition}")
        if self.dense:
            if a is None and self.rows("o", condition):
                raise AssertionError("a dense cell has been deleted")
            return
        self.fails_alike(a, self.run(f"DELETE FROM o WHERE {condition}"), "DELETE")

    def bad(self):
        """Writes a value that does not fit its column: it fails under every OR clause, and changes nothing."""
        clause = self.r.choice(["", "OR REPLACE", "OR IGNORE", "OR FAIL"])
        values = self.values()
        row = self.r.choice([(SIDE,) + self.key()[1:] + tuple(values), ("x",) + self.key()[1:] + tuple(values), self.key() + tuple(values[:-1]) + (2**31,), self.key() + tuple(values[:-1]) + ("",)])
        good = self.key() + tuple(self.values())
        marks = ", ".join("?" * len(self.names))
        error = self.run(f"INSERT {clause} INTO t VALUES ({marks}), ({marks})", good + row)
        if not error:
            raise AssertionError("a value that does not fit is taken\n" + str(row))

    def bad_update(self):
        """Changes all rows, of which the last one gets a value that does not fit: none changes, under every OR clause."""
        clause = self.r.choice(["", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK"])
        sets = "CASE WHEN {x} = (SELECT max(x) FROM o) AND {y} = (SELECT max(y) FROM o AS p WHERE p.x = {x}) THEN 'no' ELSE 5 END"
        error = self.run(self.r.choice([f"UPDATE {clause} t SET m = s.m FROM (SELECT x AS sx, y AS sy, {sets.format(x='o.x', y='o.y')} AS m FROM o ORDER BY 1, 2) AS s WHERE x = sx AND y = sy",
                                        f"UPDATE {clause} t SET m = {sets.format(x='t.x', y='t.y')} WHERE (x, y) IN (SELECT x, y FROM o)"]))
        if not error and self.rows("o"):
            raise AssertionError("a value that does not fit is taken")

    # ---- Transactions ----

    def rolled_back(self):
        self.inside, self.open = False, 0

    def transaction(self):
        if not self.inside:
            if self.r.random() < 0.5:
                self.run("BEGIN")
            else:
                self.open = 1
                self.run("SAVEPOINT s1")
            self.inside = True
            return
        step = self.r.choice(["COMMIT", "ROLLBACK", "SAVEPOINT", "SAVEPOINT", "ROLLBACK TO", "ROLLBACK TO", "RELEASE"])
        if step in ("ROLLBACK TO", "RELEASE") and not self.open:
            return
        if step == "SAVEPOINT":
            self.open += 1
            self.run(f"SAVEPOINT s{self.open}")
        elif step in ("ROLLBACK TO", "RELEASE"):
            to = self.r.randint(1, self.open)
            error = self.run(f"{step} s{to}")
            if error:
                raise AssertionError(error)
            self.open = to if step == "ROLLBACK TO" else to - 1
            if not self.open and self.log and self.db.run(lambda: self.autocommit()):
                self.inside = False
        else:
            error = self.run(step)
            if error:
                raise AssertionError(f"{step}: {error}\n{self.ddl}\n" + "\n".join(map(str, self.log[-20:])))
            self.rolled_back()

    def autocommit(self):
        return host.autocommit(self.db)

    def history(self):
        steps = [self.insert] * 6 + [self.insert_select] + [self.update] * 4 + [self.move] * 3 + [self.delete] * 2 + [self.bad, self.bad_update] + [self.transaction] * 4
        for _ in range(STATEMENTS):
            step = self.r.choice(steps)
            step()
            self.check(step.__name__)
            if self.r.random() < 0.2:
                condition = self.condition()
                same(self.rows("t", condition), self.rows("o", condition), condition)
        if self.inside:
            self.run("COMMIT")
        self.check("the end")
        self.db.close()
        self.db = Database(self.file)   # as another process sees it
        self.check("opened again")
        path = os.path.join(os.path.dirname(self.file), "array")
        same(self.db.query("SELECT severity, message FROM tessera_check('db:t') WHERE severity <> 'note'"), [], "tessera_check\n" + self.ddl)
        if os.environ.get("KEEP") and os.path.exists(path):
            self.keep(path, os.environ["KEEP"])

    def keep(self, path, folder):
        """Keeps the array and its rows in stored form: raw numbers, codes, the bytes of vectors."""
        self.db.query("CREATE VIRTUAL TABLE raw USING tessera('array', datetimes=integer, enums=code, vectors=blob)")
        only = "WHERE m IS NOT NULL" if self.dense else ""
        rows = self.db.query(f"SELECT {', '.join(self.names)} FROM raw {only}")
        rows = [[{"bytes": v.hex()} if isinstance(v, bytes) else repr(v) if isinstance(v, float) else v for v in row] for row in rows]
        fields = self.db.query(f"SELECT name, role, datatype, cell_val_num, nullable FROM tessera_schema({literal(path)})")
        name = os.path.join(folder, f"{len(os.listdir(folder)):04d}")
        shutil.copytree(path, name)
        with open(name + ".json", "w", encoding="utf-8") as f:
            json.dump({"dense": self.dense, "side": SIDE, "ddl": self.ddl, "fields": fields, "rows": rows}, f)


FILLS = {"INT8": -128, "INT16": -2**15, "INT32": -2**31, "INT64": -2**63, "UINT8": 255, "UINT16": 2**16 - 1, "UINT32": 2**32 - 1, "UINT64": str(2**64 - 1), "FLOAT32": None, "FLOAT64": None, "UTF8": "\0"}


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def histories(name, **options):
    for i in range(ROUNDS):
        seed = f"{name} {SEED} {i}"
        try:
            TablePair(random.Random(seed), **options).history()
        except AssertionError as e:
            raise AssertionError(f"seed {seed!r}: {e}") from None


def test_sparse():
    histories("sparse")


def test_sparse_with_conflicts():
    histories("abort", options=", on_conflict=abort")


def test_strings_as_coordinates():
    histories("strings", options=", capacity=3", dimensions=("INT64", "TEXT"))
    histories("strings abort", options=", on_conflict=abort", dimensions=("INT64", "TEXT"))


def test_orders():
    for order in ("col", "hilbert"):
        histories("order " + order, options=f", cell_order={order}")


def test_duplicates():
    histories("duplicates", options=", duplicates=yes")


def test_dense():
    types = ["INT8", "INT64", "INT32", "UINT16", "UTF8"]
    histories("dense", kind="dense", types=types)


def test_in_the_database():
    histories("inside", place=None, options=", on_conflict=abort")
    histories("inside dense", place=None, kind="dense", types=["INT8", "INT64", "INT32", "UINT16", "UTF8"])


def test_every_datatype():
    kinds = sorted(TYPES)
    for first in range(0, len(kinds), 12):
        histories(f"types {first}", types=kinds[first:first + 12])


if __name__ == "__main__":
    host.main(sys.modules[__name__])
