"""Random SELECTs on tessera tables, and the same on ordinary tables with the same rows: joins, subqueries, windows, row values, compound
SELECTs, DISTINCT, aggregates, LIMIT and OFFSET, the arguments as_of and since. The rows must be equal, and equal to those of the
tessera tables behind a subquery through which no comparison, order or limit is pushed down.

Each statement is made of pieces that have a text for each of the three. A statement has one right result only: LIMIT comes with an
order of all columns, and sums are of numbers that add up exactly.

The grammar leaves out cases in which SQLite's own results are wrong or undefined:
- RIGHT and FULL JOIN before SQLite 3.51, and with a called table: SQLite tests an argument of the call like a filter, also for rows
  without a partner, and NULL equals nothing.
- (text, number) IN (SELECT number, ...): SQLite compares such pairs of a virtual table without the affinity that it applies to those
  of an ordinary one. Both sides have columns of one kind here.
- A called table with sixteen other comparisons: SQLite tests a NULL argument again after them.
- Times other than NULL in a transaction that has written: they show the committed state.
- A rowid, which differs between the tables. Of LIMIT without an order, only the number of rows is compared.

usage: statements.py EXTENSION CORPUS
environment: ROUNDS (sets of tables), STATEMENTS (of each), SEED
"""
import os
import random
import re
import sys

import host
from host import Database, Error, same

ROUNDS = int(os.environ.get("ROUNDS", 20))
STATEMENTS = int(os.environ.get("STATEMENTS", 160))
SEED = int(os.environ.get("SEED", 1))
OUTER_TRUE = (3, 51, 0)
FUTURE = "2090-01-01"

# ---- The three texts -----------------------------------------------------------------------------------------------------


def either(tessera, ordinary, plain):
    return f"\x01{tessera}\x02{ordinary}\x03{plain}\x04"


def text_of(sql, which):
    """Returns the text for 0: the tessera tables, 1: the ordinary tables, 2: the tessera tables without pushdown."""
    while "\x01" in sql:
        sql = re.sub("\x01([^\x01\x04]*)\x02([^\x01\x04]*)\x03([^\x01\x04]*)\x04", lambda m: m.group(which + 1), sql)
    return sql


# ---- Tables --------------------------------------------------------------------------------------------------------------

TEXTS = ["", "a", "A", "ab", "abc", "b", "B", "ba", "zz", "10", "9", "é", "a'b"]
AFFINITY = {"int": "INTEGER", "real": "REAL", "text": "TEXT", "date": "TEXT"}


def date(r):
    return f"2024-{r.randrange(1, 3):02d}-{r.randrange(1, 6):02d}"


def any_value(r, kind, side=8):
    if kind == "int":
        return r.randrange(-2, side + 2)
    if kind == "real":
        return r.randrange(-6, 4 * side) / 4
    return r.choice(TEXTS) if kind == "text" else date(r)


class Table:
    """Makes v1 and n1, and so on: a tessera table, and an ordinary one with the same rows."""

    def __init__(self, db, r, number):
        self.db, self.r, self.v, self.n = db, r, f"v{number}", f"n{number}"
        self.dense = r.random() < 0.4
        self.side = r.choice([4, 7, 12])
        count = r.choice([1, 2, 2, 2, 3])
        kinds = ["int"] * count if self.dense else [r.choice(["int", "int", "int", "text", "date"]) for _ in range(count)]
        self.columns = [(name, kind) for name, kind in zip("xyz", kinds)]
        self.keys = count
        self.columns += [("u", "int"), ("s", "text"), ("f", "real")][:r.randrange(1, 4)]
        self.write()

    def write(self):
        db, r = self.db, self.r
        types = {"int": r.choice(["INT32", "INT64", "UINT8"]), "date": "DATE", "text": "TEXT", "real": "FLOAT64"}
        texts = []
        for i, (name, kind) in enumerate(self.columns):
            if i >= self.keys:
                texts.append(f"{name} {types['int'].replace('UINT8', 'INT64') if kind == 'int' else types[kind]}")
            elif kind == "text":
                texts.append(f"{name} TEXT DIMENSION")
            elif kind == "date":
                texts.append(f"{name} DATE DIMENSION('2024-01-01', '2024-12-31', {r.choice([1, 30])})")
            else:
                texts.append(f"{name} {types['int']} DIMENSION(0, {self.side - 1}, {r.choice([1, 3, self.side])})")
        self.duplicates = not self.dense and r.random() < 0.15
        options = "kind=dense" if self.dense else f"capacity={r.choice([2, 5, 1000])}, cell_order={r.choice(['row', 'col', 'hilbert'])}"
        if not self.dense and any(kind == "text" for _, kind in self.columns[:self.keys]):
            options = options.replace("hilbert", "row")
        if self.duplicates:
            options += ", duplicates=yes"
        db.query(f"CREATE VIRTUAL TABLE {self.v} USING tessera({options}, {', '.join(texts)})")
        for _ in range(r.choice([1, 1, 3])):
            self.commit()
        db.query(f"CREATE TABLE {self.n}({', '.join(f'{name} {AFFINITY[kind]}' for name, kind in self.columns)})")
        self.copy()
        for name, _ in self.columns:
            if r.random() < 0.25:
                db.query(f"CREATE INDEX {self.n}{name} ON {self.n}({name})")

    def commit(self):
        db, r = self.db, self.r
        rows = []
        for _ in range(r.choice([1, 4, 20, 60])):
            key = [r.randrange(self.side) if kind == "int" else any_value(r, kind) for _, kind in self.columns[:self.keys]]
            rows.append(key + [None if r.random() < 0.2 else any_value(r, kind, self.side) for _, kind in self.columns[self.keys:]])
        db.query("BEGIN")
        for row in rows:
            db.query(f"INSERT INTO {self.v} VALUES({', '.join('?' for _ in row)})", tuple(row))
        if not self.dense and r.random() < 0.5:
            db.query(f"DELETE FROM {self.v} WHERE {self.columns[0][0]} = ?", (rows[0][0],))
        db.query("COMMIT")

    def copy(self):
        self.db.query(f"DELETE FROM {self.n}")
        self.db.query(f"INSERT INTO {self.n} SELECT * FROM {self.v}")


# ---- The grammar ---------------------------------------------------------------------------------------------------------


class Source:
    """A source in FROM with a name, and its columns (name, kind). `unique`: columns in which no two of its rows are equal."""

    def __init__(self, text, name, columns, unique, called=False):
        self.text, self.name, self.columns, self.unique, self.called = text, name, columns, unique, called

    def all(self):
        return [(f"{self.name}.{name}", kind) for name, kind in self.columns]


class Maker:
    def __init__(self, db, tables, r, inside):
        self.db, self.tables, self.r, self.version, self.inside = db, tables, r, db.version(), inside
        self.names = self.depth = 0
        self.parameters = {}

    def chance(self, part):
        return self.r.random() < part

    def name(self):
        self.names += 1
        return f"t{self.names}"

    # ---- Values

    def value(self, kind):
        r = self.r
        value = None if self.chance(0.05) else any_value(r, kind)
        if kind in ("int", "real") and self.chance(0.15):
            value = r.choice([2.5, "3", "x", -1e300, 2**40, "2.0", 4.0, b"a"])
        elif kind == "text" and self.chance(0.1):
            value = r.choice([10, 9.0, b"b"])
        if self.chance(0.3):
            key = f"p{len(self.parameters)}"
            self.parameters[key] = value
            return f":{key}"
        if value is None:
            return "NULL"
        if isinstance(value, bytes):
            return f"x'{value.hex()}'"
        return host.literal(value) if isinstance(value, str) else repr(value)

    def some(self, columns, kind=None):
        fits = [c for c in columns if kind is None or c[1] == kind]
        return self.r.choice(fits) if fits else None

    # ---- Comparisons

    def comparison(self, columns, outer=()):
        r = self.r
        column, kind = self.some(columns)
        operator = r.choice(["=", "=", "<", "<=", ">", ">=", "<>", "IS", "IS NOT"])
        what = r.random()
        if what < 0.08:
            return f"{column} IS {r.choice(['', 'NOT '])}NULL"
        if what < 0.2:
            other = self.some(list(columns) + list(outer), kind)
            return f"{column} {operator} {other[0]}"
        if what < 0.28:
            return f"{column} {r.choice(['', '', 'NOT '])}IN ({', '.join(self.value(kind) for _ in range(r.randrange(0, 5)))})"
        if what < 0.34:
            return f"{column} {r.choice(['', 'NOT '])}BETWEEN {self.value(kind)} AND {self.value(kind)}"
        if what < 0.46:
            return self.row_value(columns)
        if what < 0.52 and self.depth < 2:
            source = self.source(plain=True)
            inner = self.some(source.all(), kind)
            if inner:
                test = self.where(source.all(), outer=columns)
                if self.chance(0.4):
                    return f"{'NOT ' if self.chance(0.3) else ''}EXISTS (SELECT 1 FROM {source.text} WHERE {inner[0]} = {column} AND {test})"
                if self.chance(0.5):
                    return f"{column} {r.choice(['', 'NOT '])}IN (SELECT {inner[0]} FROM {source.text} WHERE {test})"
                return f"{column} {operator} (SELECT {r.choice(['min', 'max'])}({inner[0]}) FROM {source.text} WHERE {test})"
        if what < 0.58 and kind == "text":
            return f"{column} {r.choice(['LIKE', 'GLOB', 'NOT LIKE'])} {r.choice(['a', 'A%', 'a*', 'b%', '%b', ''])!r}"
        if what < 0.62 and kind == "text":
            return f"{column} {operator} {self.value(kind)} COLLATE NOCASE"
        if what < 0.68 and kind == "int":
            return f"{column} % {r.choice([2, 3])} {operator} {r.randrange(3)}"
        if what < 0.70:
            return f"CASE WHEN {column} {operator} {self.value(kind)} THEN 1 ELSE 0 END"
        return f"{column} {operator} {self.value(kind)}"

    def row_value(self, columns):
        r = self.r
        chosen = [self.some(columns) for _ in range(r.choice([2, 2, 3]))]
        left = f"({', '.join(c for c, _ in chosen)})"
        what = r.random()
        if what < 0.2:
            rows = ", ".join(f"({', '.join(self.value(kind) for _, kind in chosen)})" for _ in range(r.randrange(1, 4)))
            return f"{left} {r.choice(['', '', 'NOT '])}IN (VALUES {rows})"
        if what < 0.4 and self.depth < 2:
            source = self.source(plain=True)
            fits = [self.some(source.all(), kind) for _, kind in chosen]
            if all(fits):
                return f"{left} {r.choice(['', '', 'NOT '])}IN (SELECT {', '.join(c for c, _ in fits)} FROM {source.text} WHERE {self.where(source.all())})"
        if what < 0.5:
            low, high = (f"({', '.join(self.value(kind) for _, kind in chosen)})" for _ in "12")
            return f"{left} BETWEEN {low} AND {high}"
        return f"{left} {r.choice(['<', '<=', '>', '>=', '=', '<>', 'IS'])} ({', '.join(self.value(kind) for _, kind in chosen)})"

    def where(self, columns, outer=(), most=3):
        r = self.r
        self.depth += 1
        terms = []
        for _ in range(r.choice([1, 1, 1, 2, 2, most])):
            term = self.comparison(columns, outer)
            if self.chance(0.3):
                term = "(" + " OR ".join([term] + [self.comparison(columns, outer) for _ in range(r.choice([1, 1, 2]))]) + ")"
            elif self.chance(0.06):
                term = f"NOT ({term})"
            terms.append(term)
        self.depth -= 1
        return " AND ".join(terms)

    # ---- Sources

    def table(self, plain=False):
        table, name, r = self.r.choice(self.tables), self.name(), self.r
        call = "" if plain or self.chance(0.7) else r.choice(["(NULL)", "(NULL, 0)", "(NULL, NULL)"] + ([] if self.inside else [f"('{FUTURE}')", f"('{FUTURE}', NULL)"]))
        if call and self.chance(0.2):
            self.parameters["null"] = None
            call = "(:null)"
        unique = [] if not table else [f"{name}.{c}" for c, _ in table.columns[:table.keys]]
        return Source(either(f"{table.v}{call} AS {name}", f"{table.n} AS {name}", f"(SELECT * FROM {table.v}{call} LIMIT -1 OFFSET 0) AS {name}"), name,
                      table.columns, unique, bool(call))

    def source(self, plain=False):
        if self.depth >= 2 or self.chance(0.75):
            return self.table(plain)
        self.depth += 1
        inner, name = self.table(plain), self.name()
        chosen = self.r.sample(inner.columns, self.r.randrange(1, len(inner.columns) + 1))
        shown = ", ".join(f"{inner.name}.{c}" for c, _ in chosen)
        sql = f"SELECT {self.r.choice(['', 'DISTINCT '])}{shown} FROM {inner.text}"
        if self.chance(0.6):
            sql += f" WHERE {self.where(inner.all())}"
        if self.chance(0.3):
            sql += self.order(len(chosen)) + self.limit()
        self.depth -= 1
        return Source(f"({sql}) AS {name}", name, chosen, [])

    def order(self, count):
        """Returns all columns of the result in random order."""
        places = self.r.sample(range(1, count + 1), count)
        return " ORDER BY " + ", ".join(f"{p}{self.r.choice(['', '', ' DESC'])}" for p in places)

    def limit(self):
        return f" LIMIT {self.r.choice([0, 1, 2, 3, 5, 20, -1])}" + (f" OFFSET {self.r.choice([0, 1, 2, 7])}" if self.chance(0.6) else "")

    def joined(self):
        """Returns FROM, all of its columns, and a condition for WHERE."""
        sources, r = [self.source()], self.r
        text, tests = sources[0].text, []
        if self.chance(0.06) and not self.inside: # each time of a table, NULL among them, as an argument
            table, name = r.choice(self.tables), self.name()
            test = f"{name}.as_of = moments.at"
            present = "(moments.at IS NULL OR moments.at <> 5)"
            text = "moments " + either(f"JOIN {table.v} AS {name} ON {test}", f"JOIN {table.n} AS {name} ON {present}",
                                       f"JOIN (SELECT * FROM {table.v} LIMIT -1 OFFSET 0) AS {name} ON {present}")
            sources = [Source(text, name, table.columns, [])]
        while len(sources) < 3 and self.chance(0.45):
            source = self.source()
            here = [c for s in sources for c in s.all()]
            column, kind = self.some(here)
            other = self.some(source.all(), kind)
            on = f"{column} {r.choice(['=', '=', '=', '<', 'IS'])} {other[0]}" if other else self.comparison(source.all(), here)
            if self.chance(0.4):
                on += f" AND {self.where(here + source.all(), most=1)}"
            kinds = ["JOIN", "JOIN", "CROSS JOIN", "LEFT JOIN", "LEFT JOIN", ","]
            if self.version >= OUTER_TRUE and not any(s.called for s in sources + [source]) and len(sources) == 1:
                kinds += ["RIGHT JOIN", "FULL JOIN"]
            how = r.choice(kinds)
            if how == ",":
                text += f", {source.text}"
                tests.append(on)
            else:
                text += f" {how} {source.text} ON {on}"
            sources.append(source)
        return text, sources, tests

    # ---- Statements

    def select(self):
        """Returns (SQL, number of columns, the columns in whose order its rows certainly are)."""
        r = self.r
        text, sources, tests = self.joined()
        columns = [c for s in sources for c in s.all()]
        if self.chance(0.75):
            tests = tests + [self.where(columns)]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        chosen = [self.some(columns) for _ in range(r.randrange(1, 5))]
        shown = ", ".join(c for c, _ in chosen)
        what = r.random()
        if what < 0.2:
            keys = chosen[:r.randrange(0, len(chosen))]
            sums = [self.aggregate(columns) for _ in range(r.randrange(1, 4))]
            group = f" GROUP BY {', '.join(c for c, _ in keys)}" if keys else ""
            having = f" HAVING count(*) {r.choice(['>', '<'])} {r.randrange(1, 5)}" if keys and self.chance(0.3) else ""
            return f"SELECT {', '.join([c for c, _ in keys] + sums)} FROM {text}{where}{group}{having}", len(keys) + len(sums)
        if what < 0.28 and len(sources) == 1 and sources[0].unique:
            over = f"OVER ({'PARTITION BY ' + chosen[0][0] + ' ' if self.chance(0.5) else ''}ORDER BY {', '.join(sources[0].unique)}, {shown})"
            peers = f"OVER (ORDER BY {chosen[-1][0]}{r.choice(['', ' DESC'])})"
            functions = [f"rank() {peers}", f"count(*) {peers}", f"max({columns[0][0]}) {peers}", f"dense_rank() {peers}"]
            if len(set(sources[0].unique)) and self.unique_rows(sources[0]):
                functions += [f"row_number() {over}", f"lag({columns[0][0]}) {over}", f"count({columns[-1][0]}) {over}"]
            return f"SELECT {shown}, {r.choice(functions)} FROM {text}{where}", len(chosen) + 1
        return f"SELECT {'DISTINCT ' if self.chance(0.35) else ''}{shown} FROM {text}{where}", len(chosen)

    def unique_rows(self, source):
        """Rows of tables with duplicates may have equal coordinates; the order of such rows is undefined."""
        table = next(t for t in self.tables if source.text.startswith(f"\x01{t.v}(") or source.text.startswith(f"\x01{t.v} "))
        keys = ", ".join(c for c, _ in table.columns[:table.keys])
        return not self.db.query(f"SELECT 1 FROM {table.n} GROUP BY {keys} HAVING count(*) > 1")

    def aggregate(self, columns):
        column, kind = self.some(columns)
        if kind in ("int", "real") and self.chance(0.3):
            return f"sum({column})"
        return self.r.choice([f"min({column})", f"max({column})", f"count({column})", "count(*)", f"count(DISTINCT {column})",
                              f"count(*) FILTER (WHERE {column} > {self.value(kind)})"])

    def statement(self):
        """Returns (SQL, whether its rows have a defined order)."""
        r = self.r
        sql, count = self.select()
        if self.chance(0.15):
            for _ in range(r.choice([1, 1, 2])):
                for _ in range(20):
                    other, width = self.select()
                    if width == count:
                        sql += f" {r.choice(['UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'])} {other}"
                        break
        elif self.chance(0.08):
            sql = f"WITH w AS ({sql}) SELECT count(*) FROM w"
            count = 1
        if self.chance(0.5):
            return sql + self.order(count) + (self.limit() if self.chance(0.6) else ""), True
        return sql, False


# ---- Comparing -----------------------------------------------------------------------------------------------------------


def answer(db, sql, parameters):
    try:
        return db.query(sql, parameters)
    except Error as e:
        return "error: " + str(e.text)


def key(value):
    """Returns a form in which 1 and 1.0 are equal."""
    return (0, "") if value is None else (1, float(value)) if isinstance(value, (int, float)) else (2, repr(value))


def compare(db, sql, ordered, parameters):
    """Returns None; "error" if the statement fails on the ordinary tables; or the difference."""
    used = {name: value for name, value in parameters.items() if re.search(rf":{name}\b", sql)}
    rows = [answer(db, text_of(sql, which), used) for which in range(3)]
    if isinstance(rows[1], str):
        return "error"
    for which in (0, 2):
        got, want = rows[which], rows[1]
        if not isinstance(got, str) and not ordered:
            got, want = (sorted(some, key=lambda row: [key(v) for v in row]) for some in (got, want))
        if got != want:
            return f"{text_of(sql, which)}\n  {used}\n  ordinary: {str(want)[:300]}\n  tessera:  {str(got)[:300]}"
    return None


def check(r, statements):
    """Returns the number of statements that returned rows, and the problems."""
    db = Database()
    db.query("CREATE TABLE moments(at)")
    db.query(f"INSERT INTO moments VALUES(NULL), ('{FUTURE}'), (5)")
    tables = [Table(db, r, number) for number in range(1, 4)]
    answered, problems = 0, []
    for i in range(statements):
        if i == statements * 3 // 4: # the transaction's own rows
            db.query("BEGIN")
            for table in tables:
                table_rows = r.choice([1, 5])
                for _ in range(table_rows):
                    row = [r.randrange(table.side) if kind == "int" else any_value(r, kind) for _, kind in table.columns[:table.keys]]
                    row += [any_value(r, kind) for _, kind in table.columns[table.keys:]]
                    db.query(f"INSERT INTO {table.v} VALUES({', '.join('?' for _ in row)})", tuple(row))
                if not table.duplicates and r.random() < 0.5: # some of the cells at one coordinate cannot be changed
                    db.query(f"UPDATE {table.v} SET u = 3 WHERE u > 4")
                table.copy()
        maker = Maker(db, tables, r, i >= statements * 3 // 4)
        sql, ordered = maker.statement()
        problem = compare(db, sql, ordered, maker.parameters)
        answered += problem != "error"
        if problem and problem != "error":
            problems.append(problem)
    db.close()
    return answered, problems


def test_random_statements_agree_with_ordinary_tables():
    answered = 0
    for number in range(ROUNDS):
        some, problems = check(random.Random(f"{SEED} {number}"), STATEMENTS)
        answered += some
        assert not problems, f"round {number} of SEED={SEED}: {len(problems)} of {STATEMENTS}\n" + "\n".join(problems[:3])
    assert answered > ROUNDS * STATEMENTS * 0.9, f"{answered} statements of {ROUNDS * STATEMENTS} had an answer"


if __name__ == "__main__":
    host.main(sys.modules[__name__])
