"""Random histories of one array: INSERT, UPDATE, DELETE, attributes that are dropped and added and added again, labels
that are added, a current domain that grows, consolidations and vacuums of each kind, rollbacks, tables that are opened
again or stay open. A dict in Python has the cells at each commit's time, and the schema of each time. After each step
the array must equal it: now and at earlier times, with the columns of now and of then.

Cells that were written before an attribute was added read NULL, or the fill value with unwritten=fill. An attribute
with a dropped one's name and datatype finds the old values again. A table that stays open keeps its columns; reading a
dropped one is an error that says so.

usage: evolutions.py EXTENSION CORPUS [ROUNDS [SEED]]      (rounds of each kind of array)
environment: KEEP, a directory: the arrays are left there, each with ROWS.json beside it (test/interop/rows.py)
"""
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback

import host
from host import Database, Error, literal, same

STEPS = 30
TAIL = 20     # the last statements of a history, which are printed if it fails
SIDE = 8      # the domain is 0 to SIDE - 1 in each dimension
CURRENT = 4   # the same for the current domain, at first
KEY = "0123456789abcdef" * 4
NAMES = ["a", "b", "c", "d"]

# TYPE: values, the fill value as SQL shows it. Enumerations are stored as codes.
TYPES = {
    "INT32": (lambda r: r.randint(-99, 99), -2**31),
    "INT64": (lambda r: r.choice([2**63 - 1, -5, 0, r.getrandbits(40)]), -2**63),
    "FLOAT64": (lambda r: r.choice([0.5, -1e300, float("inf")]), None),
    "TEXT": (lambda r: r.choice(["", "one", "é€😀", "x" * 50]), "\0"),
    "BLOB": (lambda r: r.randbytes(r.choice([0, 1, 5])), b"\0"),
    "INT16[]": (lambda r: r.choice(["[]", "[1]", "[-3,7]"]), "[-32768]"),
    "ENUM": (None, 65535),
}
LABELS = ["red", "green", "blue", "x", "y", "z", "ä", "none"]
KINDS = {
    "sparse": "", "duplicates": ", duplicates=yes", "hilbert": ", cell_order=hilbert", "small tiles": ", capacity=2", "dense": ", kind=dense",
    "encrypted": ", encryption=aes_256_gcm, key_file='key'", "encrypted dense": ", kind=dense, encryption=aes_256_gcm, key_file='key'",
    "inside": "", "inside dense": ", kind=dense", "inside duplicates": ", duplicates=yes",
}


class Field:
    """An attribute in one schema."""

    def __init__(self, name, kind, nullable=True, default=None, labels=None):
        self.name, self.kind, self.nullable, self.default, self.labels = name, kind, nullable, default, labels

    def ddl(self):
        text = f"{self.name} " + ("TEXT ENUM(" + ", ".join(map(literal, self.labels)) + ")" if self.labels else self.kind)
        default = self.labels[self.default] if self.labels and self.default is not None else self.default
        if isinstance(default, bytes):
            default = f"x'{default.hex()}'"
        elif isinstance(default, float):
            default = "9e999" if default == float("inf") else repr(default)
        elif isinstance(default, str):
            default = literal(default)
        return text + ("" if self.nullable else " NOT NULL") + ("" if self.default is None else f" DEFAULT {default}")

    def is_same(self, other):
        """Returns True if stored values of one attribute are valid for the other."""
        return self.name == other.name and self.kind == other.kind

    def fill(self):
        return self.default if self.default is not None else None if self.nullable else TYPES[self.kind][1]

    def show(self, stored):
        if self.labels:
            return self.labels[stored] if stored is not None and stored < len(self.labels) else None
        return stored

    def value(self, r):
        """Returns the stored form of a value."""
        return r.randrange(len(self.labels)) if self.labels else TYPES[self.kind][0](r)


def find(schema, name):
    return next((f for f in schema if f.name == name), None)


def read(cell, schema, unwritten):
    """Returns a cell (coordinates, {name: (field, stored)}) as a row."""
    at, values = cell
    row = list(at)
    for f in schema:
        field, stored = values.get(f.name, (None, None))
        row.append(f.show(stored) if field and f.is_same(field) else f.show(f.fill()) if unwritten == "fill" else None)
    return tuple(row)


class Open:
    """A table in a connection of its own, which keeps the schema with which it was opened."""

    def __init__(self, history, options="", schema=None):
        self.unwritten = history.r.choice(["null", "fill"])
        self.schema = list(schema if schema is not None else history.schema)
        if history.inside:
            self.unwritten = "null"
            self.db = Database(history.file)
            self.db.query("PRAGMA synchronous = OFF")
            self.db.query("SELECT 1 FROM t LIMIT 0")   # a table is opened at its first use
        else:
            self.db = Database()
            self.db.table("t", history.path, history.key + f", unwritten={self.unwritten}" + options)
        self.not_null = {row[1] for row in self.db.query("PRAGMA table_info(t)") if row[3]}


class History:
    def __init__(self, r, kind, folder):
        self.r, self.kind, self.log = r, kind, []
        self.inside, self.dense, self.duplicates = kind.startswith("inside"), "dense" in kind, "duplicates" in kind
        self.file, self.path = os.path.join(folder, "t.db"), os.path.join(folder, "array")
        self.key = f", key_file={literal(os.path.join(folder, 'key'))}" if "encrypted" in kind else ""
        with open(os.path.join(folder, "key"), "w") as f:
            f.write(KEY)
        self.current = [CURRENT, CURRENT] if r.random() < 0.5 else None
        self.schema = [Field("m", "INT32", False, -1)]   # never dropped: it is not negative in cells that were written
        self.schema += [self.new_field(name) for name in r.sample(NAMES, 2)]
        current = f" CURRENT(0, {CURRENT - 1})" if self.current else ""
        columns = [f"x INT32 DIMENSION(0, {SIDE - 1}, 2){current}", f"y INT32 DIMENSION(0, {SIDE - 1}, 3){current}"] + [f.ddl() for f in self.schema]
        self.ddl = f"CREATE VIRTUAL TABLE t USING tessera({'' if self.inside else chr(39) + 'array' + chr(39) + ', '}{', '.join(columns)}{KINDS[kind]})"
        db = Database(self.file)
        db.query("PRAGMA journal_mode = WAL")
        db.query(self.ddl)
        db.close()
        self.fields = list(self.schema)   # all fields of all schemas
        self.cells = []      # the dict is replaced by each change, so `states` can refer to it
        self.states = []     # (time, schema, cells)
        self.emptied = []    # time ranges [first, last) in which a vacuum has removed the states of a dense array
        self.tables = [Open(self), Open(self)]

    def run(self, db, sql, parameters=()):
        self.log.append((sql, parameters))
        return db.query(sql, parameters)

    def attempt(self, db, sql, parameters=()):
        """Returns the error's text, or None."""
        try:
            self.run(db, sql, parameters)
        except Error as e:
            return e.text
        return None

    # ---- Cells ----

    def coordinates(self):
        return tuple(self.r.randrange(n) for n in self.current or (SIDE, SIDE))

    def insert(self):
        self.insert_through(self.r.choice(self.tables))

    def insert_through(self, table):
        rows = []
        for _ in range(self.r.choice([1, 1, 3, 10])):
            at, values, given = self.coordinates(), {}, []
            for f in table.schema:
                v = self.r.randrange(1000) if f.name == "m" else None if (f.nullable or f.default is not None) and self.r.random() < 0.3 else f.value(self.r)
                given.append(f.show(v))
                values[f.name] = v
            rows.append((at, values, given))
        error = self.attempt(table.db, "INSERT INTO t VALUES " + ", ".join(["(" + ", ".join("?" * (2 + len(table.schema))) + ")"] * len(rows)),
                             [v for at, _, given in rows for v in list(at) + given])
        dropped = {f.name for f in table.schema if not self.has_now(f)}
        wanted = [n for n in dropped if any(values[n] is not None for _, values, _ in rows)]
        missing = [f.name for f in self.schema if not f.nullable and f.default is None and (not self.shows(table, f) or any(values[f.name] is None for _, values, _ in rows))]
        if wanted or missing:
            assert error and (any(f"{n}: the attribute has been dropped" in error for n in wanted) or any(n in error for n in missing)), f"{wanted} are gone, {missing} missing: {error}"
            return
        labels = {f.name: find(self.schema, f.name) for f in table.schema if f.labels and f.name not in dropped}
        unknown = [n for n, f in labels.items() for _, values, _ in rows if values[n] is not None and find(table.schema, n).labels[values[n]] not in f.labels]
        if unknown:
            assert error and any(n in error for n in unknown), f"labels of {unknown} are gone: {error}"
            return
        assert error is None, error
        for at, values, _ in rows:
            stored = {}
            for f in self.schema:
                v = values[f.name] if f.name in values and f.name not in dropped else None
                if v is not None and f.labels:
                    v = f.labels.index(find(table.schema, f.name).labels[v])
                stored[f.name] = (f, f.default if v is None and not f.nullable else v)
            self.put_cell((at, stored))

    def put_cell(self, cell):
        self.cells = [c for c in self.cells if self.duplicates or c[0] != cell[0]] + [cell]

    def has_now(self, field):
        now = find(self.schema, field.name)
        return now is not None and now.is_same(field)

    def shows(self, table, field):
        shown = find(table.schema, field.name)
        return shown is not None and shown.is_same(field)

    def condition(self):
        """Returns a WHERE condition and the cells that it selects. Duplicates are selected together."""
        if not self.cells:
            return "x = 0 AND m >= 0", []
        (x, y), values = self.r.choice(self.cells)
        m = values["m"][1]
        text, chosen = self.r.choice([
            (f"x = {x}", lambda c: c[0][0] == x), (f"x = {x} AND y = {y}", lambda c: c[0] == (x, y)), (f"y >= {y}", lambda c: c[0][1] >= y),
        ] + ([] if self.duplicates else [(f"m = {m}", lambda c: c[1]["m"][1] == m), (f"m % 2 = {m % 2} AND x < {x}", lambda c: c[1]["m"][1] % 2 == m % 2 and c[0][0] < x)]))
        return text + " AND m >= 0", [c for c in self.cells if chosen(c)]

    def update(self):
        table = self.r.choice(self.tables)
        condition, chosen = self.condition()
        f = self.r.choice(table.schema)
        value = self.r.randrange(1000) if f.name == "m" else f.value(self.r)
        now = find(self.schema, f.name) if self.has_now(f) else None
        error = self.attempt(table.db, f"UPDATE t SET {f.name} = ? WHERE {condition}", (f.show(value),))
        if chosen and not now:
            assert error and "has been dropped" in error, f"{f.name} is gone: {error}"
            return
        if chosen and f.labels and f.labels[value] not in now.labels:
            assert error and f.name in error, f"the label is gone: {error}"
            return
        assert error is None, error
        for cell in chosen:
            # Attributes that the cell lacked are written now, with the fill value.
            stored = {g.name: cell[1][g.name] if g.name in cell[1] and g.is_same(cell[1][g.name][0]) else (g, g.fill()) for g in self.schema}
            stored[f.name] = (now, now.labels.index(f.labels[value]) if f.labels else value)
            self.cells = [c for c in self.cells if c is not cell] + [(cell[0], stored)]

    def delete(self):
        if self.dense:
            return self.insert()
        condition, chosen = self.condition()
        self.run(self.r.choice(self.tables).db, f"DELETE FROM t WHERE {condition}")
        gone = {id(c) for c in chosen}
        self.cells = [c for c in self.cells if id(c) not in gone]

    def rolled_back(self):
        """Writes rows and rolls them back; in the database a change of the schema, too."""
        db, before = self.r.choice(self.tables).db, (self.schema, self.cells)
        self.run(db, "BEGIN")
        if self.inside and self.r.random() < 0.5:
            self.run(db, "SELECT tessera_add_attribute('db:t', 'never INT')")
        else:
            self.attempt(db, "DELETE FROM t" if not self.dense else "UPDATE t SET m = 1000 WHERE m >= 0")
        self.run(db, "ROLLBACK")
        self.schema, self.cells = before

    # ---- The schema ----

    def new_field(self, name):
        kind, nullable = self.r.choice(sorted(TYPES)), self.r.random() < 0.6
        labels = self.r.sample(LABELS, 3) if kind == "ENUM" else None
        field = Field(name, kind, nullable, None, labels)
        if self.r.random() < 0.5:
            field.default = field.value(self.r)
            if field.default in ("", b"", "[]"):   # a fill value cannot be empty
                field.default = None
        return field

    def change_schema(self, sql, *parameters):
        self.run(self.r.choice(self.tables).db, "SELECT " + sql, parameters)

    def add(self):
        free = [n for n in NAMES if not find(self.schema, n)]
        if not free:
            return self.drop()
        name = self.r.choice(free)
        olds = [f for f in self.fields if f.name == name]
        field = self.new_field(name)
        if olds and (field.kind, field.nullable) != (olds[0].kind, olds[0].nullable):   # TileDB would read the old attribute's bytes as the new one's
            error = self.attempt(self.r.choice(self.tables).db, "SELECT tessera_add_attribute('db:t', ?)", (field.ddl(),))
            assert error and "was here before" in error, error
        if olds:
            old = self.r.choice(olds)
            field = Field(name, old.kind, old.nullable, old.default if self.r.random() < 0.5 else field.default if field.kind == old.kind and not old.labels else None, old.labels)
        self.change_schema("tessera_add_attribute('db:t', ?)", field.ddl())
        self.schema = self.schema + [field]
        self.fields.append(field)
        for i, table in enumerate(self.tables):
            if name in table.not_null:   # it was, as long as every cell had a value: the table must be opened again
                error = self.attempt(table.db, f"SELECT {name} FROM t")
                assert error and f"the attribute {name} has been dropped: open the database again" in error, error
                table.db.close()
                self.tables[i] = Open(self)

    def drop(self):
        if len(self.schema) < 2:
            return self.add()
        name = self.r.choice(self.schema[1:]).name
        self.change_schema("tessera_drop_attribute('db:t', ?)", name)
        self.schema = [f for f in self.schema if f.name != name]

    def extend(self):
        fields = [f for f in self.schema if f.labels and len(f.labels) < len(LABELS)]
        if not fields:
            return self.add()
        f = self.r.choice(fields)
        more = self.r.sample([n for n in LABELS if n not in f.labels], 1)
        self.change_schema(f"tessera_extend_enumeration('db:t', ?, {', '.join(map(literal, more))})", f.name)
        self.schema = [Field(g.name, g.kind, g.nullable, g.default, g.labels + more) if g is f else g for g in self.schema]
        self.fields.append(find(self.schema, f.name))

    def expand(self):
        if not self.current:
            return self.insert()
        table = self.r.choice(self.tables)
        if self.current[0] < SIDE:
            outside = [self.current[0], 0] + [f.show(f.value(self.r)) for f in table.schema]
            assert self.attempt(table.db, f"INSERT INTO t VALUES ({', '.join('?' * len(outside))})", outside), "a cell outside of the current domain was taken"
        self.current = [self.r.randint(n, SIDE) for n in self.current]
        self.change_schema("tessera_expand_domain('db:t', ?)", json.dumps({"x": [0, self.current[0] - 1], "y": [0, self.current[1] - 1]}))

    # ---- Maintenance ----

    def consolidate(self):
        what = self.r.choice(["fragments", "fragments", "fragments", "commits", "fragment_meta", "array_meta"])
        options = {}
        if what == "fragments" and self.r.random() < 0.3 and self.states:
            options[self.r.choice(["as_of", "since"])] = self.r.choice(self.states)[0]
        self.change_schema("tessera_consolidate('db:t', ?, ?)", what, json.dumps(options)) if options else self.change_schema("tessera_consolidate('db:t', ?)", what)

    def vacuum(self):
        self.change_schema("tessera_vacuum('db:t')" if self.r.random() < 0.7 else f"tessera_vacuum('db:t', '{self.r.choice(['fragments', 'commits', 'fragment_meta'])}')")
        if self.dense:
            self.emptied = self.run(self.tables[0].db, "SELECT start_time, end_time FROM tessera_fragments('db:t') WHERE start_time < end_time")

    def reopen(self):
        i = self.r.randrange(len(self.tables))
        if not self.inside and self.r.random() < 0.5:   # the same connection
            old = self.tables[i]
            self.run(old.db, "DROP TABLE t")
            old.db.table("t", self.path, self.key + f", unwritten={old.unwritten}")
            old.schema = list(self.schema)
            old.not_null = {row[1] for row in old.db.query("PRAGMA table_info(t)") if row[3]}
        else:
            self.tables[i].db.close()
            self.tables[i] = Open(self)

    # ---- Comparing ----

    def compare(self, db, columns, cells, schema, unwritten, what, source="t", shown=None):
        rows = sorted(self.run(db, f"SELECT x, y, {', '.join(columns)} FROM {source} WHERE m >= 0"), key=repr)
        wanted = sorted((read(c, schema, unwritten) for c in cells), key=repr)
        if rows != wanted:
            raise AssertionError(f"{what}, {columns}: {len(rows)} rows, {len(wanted)} expected\n  too many: {str([r for r in rows if r not in wanted])[:500]}\n  missing: {str([w for w in wanted if w not in rows])[:500]}")

    def check_open(self, table):
        """Checks that remaining columns have their values, and that dropped ones are an error."""
        there = [f for f in table.schema if self.has_now(f)]
        labelled = [Field(f.name, f.kind, f.nullable, f.default, find(self.schema, f.name).labels) for f in there]
        self.compare(table.db, [f.name for f in there], self.cells, labelled, table.unwritten, "a table that stayed open")
        for f in table.schema:
            if f not in there and self.cells:
                error = self.attempt(table.db, f"SELECT {f.name} FROM t")
                assert error and f"the attribute {f.name} has been dropped" in error, f"{f.name} is gone: {error}"

    def check(self):
        for table in self.tables:
            self.check_open(table)
        now = Open(self)
        names = [f.name for f in self.schema]
        same([row[1] for row in self.run(now.db, "PRAGMA table_info(t)")], ["x", "y"] + names, "columns")
        self.compare(now.db, names, self.cells, self.schema, now.unwritten, "now")
        for at, schema, cells in self.r.sample(self.states, min(3, len(self.states))):
            if any(start <= at < end for start, end in self.emptied):
                continue
            self.compare(now.db, names, cells, self.schema, now.unwritten, f"as of {at}, with the columns of now", f"t({at})")
            if not self.inside:
                then = Open(self, f", as_of={at}", schema)
                same([row[1] for row in self.run(then.db, "PRAGMA table_info(t)")], ["x", "y"] + [f.name for f in schema], f"columns as of {at}")
                self.compare(then.db, [f.name for f in schema], cells, schema, then.unwritten, f"as of {at}, with the columns of then")
                then.db.close()
        now.db.close()

    def play(self):
        """Runs random steps, and compares the array after each."""
        steps = [self.insert] * 6 + [self.update] * 4 + [self.delete] * 2 + [self.rolled_back] + [self.add] * 4 + [self.drop] * 3 + [self.extend, self.expand]
        steps += [self.consolidate] * 3 + [self.vacuum] * 2 + [self.reopen] * 2
        for _ in range(STEPS):
            self.r.choice(steps)()
            now = int(time.time() * 1000) + 1
            time.sleep(0.004)   # so that the next commit is later
            self.states.append((now, self.schema, self.cells))
            self.check()
        self.check_all_states()

    def check_all_states(self):
        """Checks the array with all states, and after a vacuum with the last one only."""
        db = Open(self).db
        same(db.query("SELECT severity, message FROM tessera_check('db:t') WHERE severity <> 'note'"), [], "tessera_check")
        if self.inside:   # exported to a directory, its earlier times can be opened
            self.run(db, "SELECT tessera_sync('db:t', ?)", (self.path,))
            self.inside = False
            for at, schema, cells in self.states:
                if not any(start <= at < end for start, end in self.emptied):
                    then = Open(self, f", as_of={at}", schema)
                    self.compare(then.db, [f.name for f in schema], cells, schema, then.unwritten, f"exported, as of {at}")
                    then.db.close()
        if os.environ.get("KEEP") and not self.key:
            self.tables.insert(0, Open(self))
            self.insert_through(self.tables[0])   # a fragment with all attributes (docs/errata.md)
            self.keep(os.environ["KEEP"])
        last = Open(self)
        self.run(last.db, "SELECT tessera_consolidate('db:t', 'fragments', '{\"purge_deleted\": true}')")
        self.run(last.db, "SELECT tessera_vacuum('db:t')")
        self.compare(last.db, [f.name for f in self.schema], self.cells, self.schema, last.unwritten, "deleted cells purged")
        same(last.db.query("SELECT severity, message FROM tessera_check('db:t') WHERE severity <> 'note'"), [], "tessera_check of what was purged")
        for table in self.tables + [last]:
            table.db.close()
        db.close()

    def cells_with_older_values(self):
        """Returns the coordinates of cells that lack an attribute which an earlier version of the cell has."""
        lacking = {(at, f) for at, values in self.cells for f in self.schema if f.name not in values or not f.is_same(values[f.name][0])}
        return {at for _, _, cells in self.states for at, values in cells for f in self.schema if (at, f) in lacking and f.name in values and f.is_same(values[f.name][0])}

    def keep(self, folder):
        """Keeps the array and its rows in stored form (histories.py)."""
        db = Database()
        db.table("t", self.path, ", enums=code, vectors=blob, unwritten=fill")
        if self.current:   # TileDB reads no box that reaches beyond the current domain
            db.query("SELECT tessera_expand_domain('db:t', ?)", (json.dumps({"x": [0, SIDE - 1], "y": [0, SIDE - 1]}),))
        rows = db.query(f"SELECT x, y, {', '.join(f.name for f in self.schema)} FROM t WHERE m >= 0")
        if self.dense:   # where the newest fragment lacks an attribute, TileDB shows what an older one has (docs/errata.md)
            through = self.cells_with_older_values()
            rows = [row for row in rows if row[:2] not in through]
        rows = [[{"bytes": v.hex()} if isinstance(v, bytes) else repr(v) if isinstance(v, float) else v for v in row] for row in rows]
        fields = db.query("SELECT name, role, datatype, cell_val_num, nullable FROM tessera_schema('db:t')")
        db.close()
        name = os.path.join(folder, f"{len(os.listdir(folder)):04d}")
        shutil.copytree(self.path, name)
        with open(name + ".json", "w", encoding="utf-8") as f:
            json.dump({"dense": self.dense, "side": SIDE, "ddl": self.ddl, "fields": fields, "rows": rows}, f)


def main():
    host.EXTENSION = os.path.abspath(sys.argv[1])
    host.binding = "sqlite3" if hasattr(sqlite3.Connection, "enable_load_extension") else "apsw"
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else int(os.environ.get("ROUNDS", 1))
    seed = sys.argv[4] if len(sys.argv) > 4 else os.environ.get("SEED", "1")
    failed = 0
    for i in range(rounds):
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                name, history = f"{kind} {seed} {i}", None
                try:
                    history = History(random.Random(name), kind, folder)
                    history.play()
                except Exception:
                    failed += 1
                    print(f"FAILED {name!r}")
                    traceback.print_exc(limit=-3, file=sys.stdout)
                    if history:
                        changes = [line for line in history.log if not line[0].startswith(("SELECT x", "PRAGMA"))]
                        print(history.ddl, *(str(line)[:300] for line in changes[-TAIL:]), sep="\n  ")
    print(f"{rounds * len(KINDS)} histories, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
