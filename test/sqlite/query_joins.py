"""Writes random texts of columnar queries with joins, over the arrays of query_arrays.py. The joined table is a table of
SQLite's, a tessera_query or a dense array, which holds a random part of the values that expressions of the dimensions have.
"""
from query_arrays import DATE, INT, TEXT
from query_texts import LESS

# For the fuzzer, whose tables are `plane` and `stations`.
TEXTS = ["SELECT p.y, a.temp - p.temp FROM plane p JOIN plane a ON a.y = p.y AND a.x = -p.x", "SELECT count(*), sum(s.i8) FROM plane p LEFT JOIN stations s ON s.lat = p.y AND s.day = '2020-01-05' AND s.u > 0",
         "SELECT s.name, count(*) FROM stations JOIN stations s ON s.day = date(stations.day, '+1 month') AND stations.lat = s.lat GROUP BY 1", "SELECT * FROM plane p JOIN plane q ON q.y = p.y AND q.x = p.y WHERE q.temp > p.rain",
         "SELECT a.wind, b.seen, max(a.i64) FROM plane JOIN plane a ON a.x = plane.x AND a.y = 0 LEFT JOIN plane b ON b.x = a.i8 AND b.y = plane.y GROUP BY 1", "SELECT count(p.vector) FROM plane JOIN plane p ON p.y = plane.y AND p.x = trap()",
         "SELECT count(*) FROM plane JOIN plane_config c ON c.key = plane.y AND c.value = plane.x", "SELECT count(*) FROM plane JOIN plane p ON p.y = plane.y AND p.x = plane.x AND trap(p.temp)", "SELECT 1 FROM plane p JOIN plane q ON q.y = q.x AND q.x = p.x"]


class Side:
    """A joined table: keys k0, k1, ... and columns a (INTEGER), b (REAL), c (TEXT), d (any)."""

    def __init__(self, db, array, writer, r):
        self.db, self.array, self.r = db, array, r
        known = [c for c in array.columns if c.known and c.dimension]
        chosen = [r.choice(known) for _ in range(r.randrange(1, 4))]
        writer.prefix = "l."
        self.keys = [self.key(writer, c) for c in chosen]
        self.where = ", ".join(e.sql for e in self.keys)
        self.kind = r.choice(["table", "table", "query", "array"])
        if self.kind == "array" and any(e.kind != INT for e in self.keys):
            self.kind = "query"
        db.query("DROP TABLE IF EXISTS side")
        db.query("BEGIN")   # each commit would wait for the disk
        getattr(self, "make_" + self.kind)()
        db.query("COMMIT")

    def key(self, writer, column):
        if self.r.random() < 0.4:
            e = writer.leaf(column)
            e.kind = TEXT if e.kind == DATE else e.kind
        else:
            e = writer.known(column)
        return e

    def combinations(self):
        rows = self.db.query(f"SELECT DISTINCT {self.where} FROM {self.array.name} l")
        return self.r.sample(rows, max(1, len(rows) * self.r.choice([2, 9, 10]) // 10)) if rows else []

    def values(self, n):
        r = self.r
        return [r.choice([None, n, -n, 2**40 + n]), r.choice([None, n / 4, 1e300, -0.0]), r.choice([None, "", f"w{n % 5}", "é"]), r.choice([None, n, n + 0.5])]

    def make_table(self):
        types = [self.r.choice(["", "", "TEXT" if e.kind == TEXT else "INTEGER", "TEXT" if e.kind == TEXT else "NUMERIC", "REAL" if e.kind == INT else ""]) for e in self.keys]
        self.db.query(f"CREATE TABLE side({', '.join(f'k{n} {t}' for n, t in enumerate(types))}, a INTEGER, b REAL, c TEXT, d)")
        for n, key in enumerate(self.combinations()):
            self.insert(list(key) + self.values(n))
        for n in range(3):   # values that nothing equals
            self.insert([None] * len(self.keys) + self.values(n))

    def insert(self, row):
        self.db.query(f"INSERT INTO side VALUES({', '.join('?' * len(row))})", row)

    def make_query(self):
        keys = ", ".join(f"{e.sql} AS k{n}" for n, e in enumerate(self.keys))
        groups = ", ".join(str(n + 1) for n in range(len(self.keys)))
        whole = next((c.sql for c in self.array.columns if c.kind == INT and not c.dimension and "64" not in c.declared), "1")
        self.db.query(f"CREATE VIRTUAL TABLE side USING tessera_query(SELECT {keys}, sum({whole}) AS a, min(temp) AS b, max(name) AS c, count(*) AS d FROM {self.array.name} l GROUP BY {groups})")

    def make_array(self):
        rows = self.combinations()
        dimensions = []
        for n in range(len(self.keys)):
            found = [row[n] for row in rows if isinstance(row[n], int)] or [0]
            low, high = min(found) - self.r.randrange(2), max(found) + self.r.randrange(3)
            dimensions.append(f"k{n} INT64 DIMENSION({low}, {high}, {self.r.randrange(1, high - low + 2)})")
        self.db.query(f"CREATE VIRTUAL TABLE side USING tessera(kind=dense, {', '.join(dimensions)}, a INT64, b FLOAT64, c TEXT, d INT16)")
        for n, key in enumerate(rows):
            if all(isinstance(v, int) for v in key):
                self.insert(list(key) + self.values(n)[:3] + [n % 300])

    def on(self):
        """Returns the words after JOIN."""
        r = self.r
        wrapped = [f"({e.sql})" if e.strength <= LESS or r.random() < 0.2 else e.sql for e in self.keys]
        terms = [f"s.k{n} = {sql}" if r.random() < 0.5 else f"{sql} = s.k{n}" for n, sql in enumerate(wrapped)]
        if r.random() < 0.3:
            terms.append(r.choice(["s.a > 3", "s.c IS NOT NULL", "s.c LIKE 'w%'", "(s.b < 10 OR s.a < 0)", "1"]))
        r.shuffle(terms)
        return f"side s ON {' AND '.join(terms)}"


def text_of(side, array, writer, r):
    """Returns a text whose values are exact in both."""
    left = r.random() < 0.5
    source = f"{array.name} l {'LEFT ' if left else r.choice(['', 'INNER '])}JOIN {side.on()}"
    risky = False
    where = ""
    if r.random() < 0.5:
        e = writer.truth(1)
        where, risky = e.sql, e.risky
    if r.random() < 0.3:
        term = r.choice(["s.a IS NULL", "s.c > 'a'", "s.b < temp", "s.c = name", "s.a + 1 > 2", "temp - s.b IS NOT NULL", "s.c = '4'", "s.a <> '3'", "s.d > 1"])
        where = f"({where}) AND {term}" if where else term
    where = f" WHERE {where}" if where else ""
    if r.random() < 0.4:
        plain = [f"l.{c.sql}" for c in array.columns if c.kind in (INT, TEXT, DATE)]
        items = r.sample(["s.a", "s.b", "s.c", "s.d", "s.k0", "s.b - temp", "coalesce(s.c, 'none')", "s.*", "s.a / 2", "s.a IS NULL"], 3) + r.sample(plain, 2)
        return f"SELECT {', '.join(items)} FROM {source}{where}", risky
    keys = r.sample(["s.c", "s.a % 3", "s.d", "s.b > 2", "s.k0", side.keys[0].sql, "s.c IS NULL"], r.randrange(3))
    values = r.sample(["count(*)", "count(s.a)", "min(s.b)", "max(s.a)", "max(temp - s.b)", "min(s.c)", "count(DISTINCT s.c)", "max(s.a) - min(s.a)", "count(*) FILTER (WHERE s.b > temp)", "max(CASE WHEN s.a > 2 THEN temp END)",
                       "sum(s.c = name)", "min(s.d)", "sum(s.a > 4)", "max(s.k0)"], r.randrange(2, 5))
    having = r.choice(["", "", " HAVING count(*) > 2"]) if keys else ""
    return f"SELECT {', '.join(keys + values)} FROM {source}{where}" + (" GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys))) if keys else "") + having, risky
