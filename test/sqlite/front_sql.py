"""tessera_sql, tessera_select and tessera_explain: the rows are SQLite's, whatever runs over columns; what is taken, what is not, and
why; texts that are hostile; fallback to rows; tables that are registered while the program runs.

usage: front_sql.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
environment: ROUNDS, TEXTS (of each array), SEED of the differential tests
"""
import json
import os
import random

import host
from host import Database, Error, check_contains, same
from queries import OVERFLOW, arrays, attempt
from query_arrays import DATE, INT, REAL, own_rows
from query_texts import EQUAL, Expr, Writer, bare_number, dressed

ROUNDS = int(os.environ.get("ROUNDS", 1))
TEXTS = int(os.environ.get("TEXTS", 25))
SEED = int(os.environ.get("SEED", 1))
HUGE = 1e12   # sums of values whose size hides the order of additions


def sql(db, text, *values):
    return db.value("SELECT tessera_sql(" + ", ".join("?" * (1 + len(values))) + ")", (text,) + values)


def explain(db, text, *values):
    return db.query("SELECT text, evaluated, detail FROM tessera_explain(" + ", ".join("?" * (1 + len(values))) + ")", (text,) + values)


def taken(db, text, *values):
    """Returns the texts of the SELECTs that run over columns, and are within no other."""
    return [row[0] for row in explain(db, text, *values) if row[1] == "columns" and row[2] != "within the SELECT around"]


def parts(db):
    found = dict(db.query("SELECT name, value FROM tessera_stats WHERE name LIKE 'parts_by_%'"))
    db.query("SELECT tessera_reset_stats()")
    return found["parts_by_columns"], found["parts_by_rows"]


# ---- Comparing -------------------------------------------------------------------------------------------------------------


def plain(value):
    return 0.0 if isinstance(value, float) and value == 0 else value


def key(row):
    """Orders rows by what is exact in them, then by the rest."""
    return ([("float", "") if isinstance(v, float) else (type(v).__name__, repr(v)) for v in row],
            [float(f"{v:.6g}") for v in row if isinstance(v, float)], [v for v in row if isinstance(v, float)])


def close(a, b):
    if type(a) is not type(b):   # a sum of large values may be NULL, or infinite
        return (isinstance(a, float) and abs(a) > HUGE) or (isinstance(b, float) and abs(b) > HUGE)
    if not isinstance(a, float) or a == b:
        return a == b
    return abs(a) > HUGE or abs(b) > HUGE or abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1)


def differ(wanted, got, ordered):
    """Returns what differs between two lists of rows, or None."""
    if len(wanted) != len(got):
        return f"{len(got)} rows {got[:3]}, SQLite has {len(wanted)} {wanted[:3]}"
    wanted, got = [[tuple(plain(v) for v in row) for row in rows] for rows in (wanted, got)]
    if not ordered:
        wanted, got = sorted(wanted, key=key), sorted(got, key=key)
    for a, b in zip(wanted, got):
        if len(a) != len(b) or not all(close(x, y) for x, y in zip(a, b)):
            return f"{b}, SQLite has {a}"
    return None


def of_json(text):
    """Returns the values of a row of tessera_select, but for what JSON cannot tell from text."""
    return tuple(json.loads(text.replace("9e999", "Infinity"), parse_float=float).values())


# ---- Texts -----------------------------------------------------------------------------------------------------------------


def windowed(r, q):
    """Returns the grouped query with window functions, and whether its rows have an order; None if it has too little for them. What they order by is exact, and a
    window in which rows are counted is ordered by all keys: ties and the last digits of sums must not decide."""
    keys = [i.sql for i in q.items[:len(q.keys)]]
    exact = [i.sql for i in q.items if i.how == "exact" and not bare_number(i.sql)] + ["count(*)"]
    numbers = [i.sql for i in q.items if i.how == "exact" and i.kind in (INT, REAL)] + ["count(*)"]
    if not (q.groups and keys) or any(bare_number(k) for k in keys) or any(i.how == "libm" for i in q.items):
        return None
    total = ", ".join(r.sample(keys, len(keys)))
    terms = ", ".join(r.choice(exact) + r.choice(["", " DESC", " ASC"]) for _ in range(r.randrange(1, 3)))
    part = r.choice(["", f"PARTITION BY {r.choice(keys)} ", f"PARTITION BY {r.choice(exact)}, {r.choice(keys)} "])
    frame = r.choice(["", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING", " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES"])
    number = r.choice(numbers)
    windows = [f"{r.choice(['rank()', 'dense_rank()', 'percent_rank()', 'cume_dist()'])} OVER ({part}ORDER BY {terms})", f"count(*) OVER ({part.strip()})", f"max({number}) OVER ({part}ORDER BY {terms})",
               f"row_number() OVER ({part}ORDER BY {total}{frame})", f"{r.choice(['lag', 'lead', 'first_value', 'last_value'])}({r.choice(exact)}) OVER ({part}ORDER BY {total}{frame})", f"min({number}) FILTER (WHERE {r.choice(exact)} IS NOT NULL) OVER ({part}ORDER BY {total}{frame})",
               f"ntile({r.randrange(1, 5)}) OVER w", f"CASE WHEN count(*) > avg(count(*)) OVER ({part.strip()}) THEN 1 ELSE {number} END", f"sum(count(*)) OVER (w{r.choice(['', ' ROWS 3 PRECEDING', ' GROUPS CURRENT ROW'])}) * 2"]
    chosen = [window + r.choice(["", f" AS w{n}"]) for n, window in enumerate(r.sample(windows, r.randrange(1, 4)))]
    items = [i.text() for i in q.items] + chosen
    if r.random() < 0.3 and all(not k.strip().isdigit() for k in q.keys):   # between the items
        r.shuffle(items)
        q.order, q.limit, q.ordered = [], "", False
    parts = ["SELECT " + ", ".join(items)] + [part for part in q.parts()[2:] if not part.startswith(("ORDER BY", "LIMIT"))]
    if "w" in "".join(chosen):
        parts.append(f"WINDOW w AS (ORDER BY {total})")
    if q.order:
        parts.append("ORDER BY " + ", ".join(q.order))
    return " ".join(parts + ([q.limit] if q.limit else [])), q.ordered


def shaped(r, q, text):
    """Returns a statement around the text of a query, and whether its rows have an order."""
    n = len(q.items)
    around = windowed(r, q) if r.random() < 0.3 else None
    q.windows = around is not None
    if around:
        return (dressed(r, around[0]), around[1]) if r.random() < 0.7 else (f"WITH c AS ({dressed(r, around[0])}\n) SELECT * FROM c", False)
    names = ", ".join(f"a{i}" for i in range(n))
    first = f"a{r.randrange(n)}"
    shapes = [
        (text, q.ordered),
        (f"SELECT * FROM ({text}\n) AS s", False),
        (f"WITH c({names}) AS ({text}\n) SELECT {names}, count(*) OVER (), row_number() OVER (ORDER BY {names}) > 0 FROM c", False),
        (f"WITH c({names}) AS MATERIALIZED ({text}\n), d AS (SELECT * FROM c) SELECT x.*, y.{first} IS NULL FROM c x LEFT JOIN d y ON 0", False),
        (f"SELECT label, (SELECT count(*) FROM ({text}\n)) FROM ordinary WHERE i < 2", False),
        (f"WITH c({names}) AS ({text}\n) SELECT label, {first} FROM ordinary JOIN c ON {first} = i", False),
        (f"WITH c({names}) AS ({text}\n) SELECT label FROM ordinary WHERE any IN (SELECT {first} FROM c) OR d IN (SELECT {first} FROM c)", False),
        (f"WITH c({names}) AS ({text}\n) SELECT {names}, label, i FROM c LEFT JOIN ordinary ON {first} = label", False),
        (f"WITH c({names}) AS ({text}\n) SELECT o.i, {first} FROM ordinary o LEFT JOIN c ON {first} = any", False),
        (f"WITH c({names}) AS ({text}\n) SELECT {names} FROM c UNION ALL SELECT {names} FROM c WHERE {first} IS NOT NULL", False),
        (f"WITH c({names}) AS ({text}\n) SELECT {names} FROM c WHERE {first} > 3 OR {first} = '5' OR {first} BETWEEN '2020' AND '2021'", False),
        (f"WITH c({names}) AS ({text}\n) SELECT * FROM c WHERE {first} = CAST(7 AS TEXT) OR CAST('7' AS INTEGER) = {first}", False)]
    if not (q.groups or q.star or q.distinct or q.order) and all(i.how == "exact" for i in q.items):   # a subquery that only renames, computes and filters
        renamed = "SELECT " + ", ".join(f"{i.sql} AS a{m}" for m, i in enumerate(q.items)) + f" FROM {q.source}" + (f" WHERE {q.where}" if q.where else "")
        other = f"a{r.randrange(n)}"
        q.groups = True
        choice = r.random()
        if choice < 0.2:
            renamed = f"SELECT {other} AS {first}, {first} AS {other} FROM ({renamed}) AS i WHERE i.{other} IS NOT NULL OR {first} > 1" if first != other else f"SELECT * FROM ({renamed}) WHERE {first} IS NOT NULL"
        elif choice < 0.35:
            bare = "SELECT " + ", ".join(i.text() for i in q.items) + f" FROM {q.source}" + (f" WHERE {q.where}" if q.where else "")
            return f"WITH c({', '.join(f'a{m}' for m in range(n))}) AS ({bare}), d AS (SELECT *, {first} AS z FROM c WHERE {other} <> 7) SELECT {first}, count(*), max(z) FROM d GROUP BY {first}", False
        if r.random() < 0.3:
            return f"WITH c AS ({renamed}) SELECT s.{first}, count(*), min({other}) FROM c AS s WHERE {other} IS NOT NULL GROUP BY 1", False
        return r.choice([f"SELECT {first}, count(*), min({other}), max({other}) FROM ({renamed}) GROUP BY 1",
                         f"SELECT DISTINCT s.{other}, {first} FROM ({renamed}) AS s WHERE {first} >= '2020-02' OR {other} IS NULL",
                         f"SELECT count({first}), count(*) FROM ({renamed}) WHERE {other} > '2020-02-03' AND {first} IS NOT NULL",
                         f"SELECT count(*), {first} AS b FROM ({renamed}) WHERE {other} <= 3 GROUP BY {first} HAVING count(*) > 1 ORDER BY {first} IS NULL"]), False
    if n == 1 and not q.order:
        shapes.append((f"SELECT label FROM ordinary WHERE any IN ({text}\n)", False))
        shapes.append((f"{text}\nUNION ALL SELECT i FROM ordinary", False))
        shapes.append((f"SELECT i, ({text}\n) IS NULL FROM ordinary WHERE i = 1", False))
    return r.choice(shapes[:1] * 4 + shapes[1:])


class Beside(Writer):
    """Writes datetimes beside numbers, too, which compare as texts or as numbers: tessera_sql leaves them to SQLite where that matters, tessera_query does not."""

    def date_condition(self):
        found = super().date_condition()
        if found is None or not self.chance(0.15):
            return found
        column = self.name(self.r.choice([c for c in self.of(DATE) if c.values]))
        number = self.pick("2000", "-5", "20.5", "20200101", "1e3", "NULL") + self.pick("", "", " COLLATE BINARY", " + 0")
        ends = [column + self.pick("", "", " COLLATE BINARY"), self.pick(number, f"({number})", f"CAST({number} AS {self.pick('TEXT', 'INTEGER')})")]
        self.r.shuffle(ends)
        return Expr(f"{ends[0]} {self.pick('=', '<', '>', '<=', '>=', '<>', 'IS', 'IS NOT')} {ends[1]}", INT, EQUAL, 0, 1)


class Tally:
    def __init__(self):
        self.texts = self.grouped = self.taken = self.windows = self.split = self.errors = 0
        self.failures = []


def wrong_with(db, q, text, ordered, tally):
    """Returns what is wrong with a statement, or None."""
    wanted = attempt(db, text)
    rewritten = attempt(db, "SELECT tessera_sql(" + host.literal(text) + ")")
    if isinstance(rewritten, Error):
        return None if isinstance(wanted, Error) else f"refused: {rewritten.text}"
    rewritten = rewritten[0][0][0]
    tally.grouped += q.groups
    tally.taken += q.groups and "tessera:" in rewritten
    tally.windows += q.windows
    tally.split += q.windows and "tessera:" in rewritten
    got = attempt(db, rewritten)
    if isinstance(wanted, Error):
        tally.errors += 1
        return None   # a sum of integers of which only a part leaves 64 bits fits
    if isinstance(got, Error):   # SQLite fails, too, if it evaluates a value that the plan of the whole statement leaves out
        return None if q.risky and OVERFLOW.search(got.text or "") else f"fails: {got.text}\n  {rewritten}"
    if wanted[1] is not None and got[1] is not None and wanted[1] != got[1]:
        return f"its columns are {got[1]}, SQLite's {wanted[1]}"
    found = differ(wanted[0], got[0], ordered)
    if found and not cancels(db, q):
        return f"{found}\n  {rewritten}"
    if tally.texts % 4 == 0 and len(wanted[0]) < 200:
        return selected(db, q, text, wanted[0], ordered)
    return None


def cancels(db, q):
    """Whether a sum of REAL has values so large that the order of additions decides the digits of what is left."""
    for item in q.items:
        if item.how == "sum":
            found = attempt(db, f"SELECT max(abs({item.argument})) FROM {q.source}")
            if isinstance(found, Error) or (found[0][0][0] or 0) > HUGE:
                return True
    return False


def selected(db, q, text, wanted, ordered):
    """tessera_select gives the same rows."""
    got = attempt(db, "SELECT row FROM tessera_select(" + host.literal(text) + ")")
    if isinstance(got, Error):
        return f"tessera_select fails: {got.text}"
    rows = [of_json(row[0]) for row in got[0]]
    found = differ([tuple(row) for row in wanted], rows, ordered)
    return f"tessera_select: {found}" if found and not cancels(db, q) else None


def differential(name, transaction=False, read_only=False):
    tally = Tally()
    for round_ in range(ROUNDS):
        seed = f"{name} {SEED} {round_}"
        db, made = arrays(seed)
        for array in made:
            if transaction:
                db.query("BEGIN")
                own_rows(array, random.Random(seed), False)
            if read_only:
                db.query("PRAGMA query_only = 1")
            for n in range(TEXTS):
                r = random.Random(f"{seed} {array.name} {n}")
                q = Beside(r, array, db.version()).query()
                text, ordered = shaped(r, q, dressed(r, q.text()))
                tally.texts += 1
                wrong = wrong_with(db, q, text, ordered, tally)
                if wrong:
                    tally.failures.append(f"seed {seed} {array.name} {n}: {text}\n  {wrong}")
            if read_only:
                db.query("PRAGMA query_only = 0")
            if transaction:
                db.query("ROLLBACK")
        db.close()
    print(f"  {name}: {tally.texts} texts with SEED={SEED}; {100 * tally.taken // max(tally.grouped, 1)} % of {tally.grouped} grouped ones run over columns, {tally.split} of {tally.windows} with windows, {tally.errors} errors of SQLite")
    if tally.failures:
        raise AssertionError(f"{len(tally.failures)} failures\n" + "\n".join(tally.failures[:6]))
    if tally.taken * 100 < tally.grouped * 60 or tally.split * 100 < tally.windows * 45:
        raise AssertionError("less than 60 % of the grouped texts, or 45 % of those with windows, run over columns")


def test_differential():
    differential("plain")


def test_differential_with_uncommitted_rows():
    differential("transaction", transaction=True)


def test_differential_in_a_read_only_connection():
    differential("query_only", read_only=True)



# ---- What is taken ---------------------------------------------------------------------------------------------------------


def cube(db, name="cube", days=12, options=""):
    """Makes a dense array with INT64 n and FLOAT32 v, and an ordinary table."""
    db.query(f"CREATE VIRTUAL TABLE {name} USING tessera(day INT32 DIMENSION(0, {days - 1}, 4), x INT32 DIMENSION(0, 9, 5), kind=dense, n INT64, v FLOAT64{options})")
    db.query(f"INSERT INTO {name} WITH d(d) AS (VALUES(0) UNION ALL SELECT d + 1 FROM d WHERE d < {days - 1}), x(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM x WHERE x < 9) "
             "SELECT d, x, d * 10 + x, (d * 7 + x * 3) % 11 / 4.0 FROM d, x")
    db.query("CREATE TABLE IF NOT EXISTS towns(x INTEGER, label TEXT)")
    db.query("INSERT INTO towns VALUES(1, 'one'), (2, '2'), (3, NULL)")


def same_rows(db, text, *values):
    """Checks that a rewritten statement has the rows of the text, and returns it."""
    rewritten = sql(db, text, *values)
    same(sorted(map(repr, db.query(rewritten))), sorted(map(repr, db.query(text, values))), text)
    return rewritten


def test_parts_run_over_columns():
    """Each place where a SELECT may stand: whole, in FROM, a CTE, a scalar, of IN, an arm."""
    db = Database()
    cube(db)
    grouped = "SELECT day / 3 AS third, count(*) AS n FROM cube GROUP BY 1"
    for text, parts_wanted in [
            (grouped, [grouped]),
            (f"SELECT * FROM ({grouped}) WHERE n > 3", [grouped]),
            (f"WITH c AS ({grouped}) SELECT third, lag(n) OVER (ORDER BY third) FROM c", [grouped]),
            (f"WITH c(a, b) AS NOT MATERIALIZED ({grouped}), d AS (SELECT a FROM c) SELECT count(*) FROM d", [grouped]),
            ("SELECT label, (SELECT max(n) FROM cube) FROM towns", ["SELECT max(n) FROM cube"]),
            ("SELECT label FROM towns WHERE x IN (SELECT max(n) / 40 FROM cube GROUP BY day)", ["SELECT max(n) / 40 FROM cube GROUP BY day"]),
            ("SELECT label FROM towns WHERE EXISTS (SELECT day FROM cube GROUP BY day HAVING sum(v) > 3)", ["SELECT day FROM cube GROUP BY day HAVING sum(v) > 3"]),
            ("SELECT sum(n) FROM cube UNION ALL SELECT x FROM towns ORDER BY 1 LIMIT 2", ["SELECT sum(n) FROM cube"]),
            ("SELECT sum(n) FROM cube EXCEPT SELECT max(n) FROM cube", ["SELECT sum(n) FROM cube", "SELECT max(n) FROM cube"]),
            (f"SELECT label, c.n FROM towns LEFT JOIN ({grouped}) AS c ON c.n = label", [grouped]),
            ("SELECT day, x FROM cube WHERE v * 2 + n > 80", ["SELECT day, x FROM cube WHERE v * 2 + n > 80"]),
            ("VALUES(1, (SELECT count(*) FROM cube))", ["SELECT count(*) FROM cube"]),
            ("SELECT max(n) FROM/**/main . [CUBE]", ["SELECT max(n) FROM/**/main . [CUBE]"]), ("SELECT count(*) FROM towns, (SELECT max(n) AS n FROM`cube`)", ["SELECT max(n) AS n FROM`cube`"]),
            ("SELECT DISTINCT day / 5 FROM cube", ["SELECT DISTINCT day / 5 FROM cube"])]:
        same(taken(db, text), parts_wanted, text)
        rewritten = same_rows(db, text)
        same(rewritten.count('"tessera:'), len(parts_wanted), rewritten)


def test_what_stays_with_rows():
    db = Database()
    cube(db)
    db.query("CREATE VIRTUAL TABLE big USING tessera(x INT32 DIMENSION(0, 9, 5), u UINT64, n INT32)")
    for text, why in [
            ("SELECT * FROM cube", "no aggregate, and the array itself tests WHERE"),
            ("SELECT v FROM cube WHERE day = 3 AND n > 5", "no aggregate, and the array itself tests WHERE"),
            ("SELECT count(*) FROM cube WHERE day = 3 AND x = 5", "all dimensions are bound by ="),
            ("SELECT day FROM cube WHERE v * 2 > n LIMIT 3", "LIMIT without an aggregate"),
            ("SELECT day, count(*) FROM cube GROUP BY 1 LIMIT 3", "LIMIT without ORDER BY"),
            ("SELECT day, max(v) FROM cube", "a column beside min or max: SQLite may take it from another row"),
            ("SELECT count(*) FROM big WHERE u > '5'", "a UINT64 in WHERE may compare with text as a number"),
            ("SELECT group_concat(n) FROM cube", "group_concat() is not among the functions of tessera_query"),
            ("SELECT count(*) FROM towns", "not a tessera table: 'towns' is an SQLite table"),
            ("SELECT max(n) FROM cube WHERE day = :d", "has parameters, and no values were given")]:
        found = explain(db, text)
        same(len(found), 1, text)
        same(found[0][:2], (text, "rows"), text)
        check_contains(found[0][2], why)
        same(sql(db, text), text)
    db.query("INSERT INTO big VALUES(1, 5, 1), (2, 7, 1), (3, 7, 2), (4, '18446744073709551615', 3)")
    for term in ("u > '5'", "u < 1e19", "9e999 BETWEEN 1 AND u", "u IN ('7', 5.0)", "nullif(u, '7')", "max(u, 1e300) > 2", "CASE u WHEN '7' THEN 1 END", "u IS '7'", "coalesce(u, 3) > 9e999"):   # SQLite sees text past 64 bits with a sign, which comes after all numbers
        for text in (f"SELECT n, count(*) FILTER (WHERE {term}) FROM big GROUP BY n", f"SELECT sum({term}), count(*) FROM big", f"SELECT {term}, count(*) FROM big GROUP BY 1", f"SELECT u, count(*) FROM big GROUP BY u HAVING {term} ORDER BY {term}, u"):
            same(explain(db, text)[0][2], "a UINT64 compares with REAL or text as a number", text)
            same_rows(db, text)
    for text in ("SELECT u, max(u), count(DISTINCT u) FROM big GROUP BY u HAVING max(u) > '5'", "SELECT count(*) FILTER (WHERE u IS NOT NULL) FROM big"):   # nothing is compared, or SQLite compares
        same(explain(db, text)[0][1], "columns", text)
        same_rows(db, text)
    db.query("CREATE TABLE digits(t)")
    db.query("INSERT INTO digits VALUES('5'), (7), (NULL)")
    for text in ("SELECT * FROM digits LEFT JOIN (SELECT u FROM big WHERE n + 1 > 1) s ON s.u = t", "SELECT * FROM (SELECT u, count(*) FROM big GROUP BY u) WHERE u = '5'"):   # the array, which SQLite may ask, compares a UINT64 with digits
        same(explain(db, "SELECT n, rank() OVER (ORDER BY n) FROM big WHERE u > '5' GROUP BY n")[0][2], "a UINT64 in WHERE may compare with text as a number")
        check_contains(explain(db, text)[1][2], "a UINT64 may compare with text as a number in the statement around")
        same_rows(db, text)
    text = "SELECT 'é', (SELECT count(*) FROM cube c WHERE c.x = towns.x), (SELECT day FROM cube GROUP BY day) FROM towns"
    same([row[1] for row in explain(db, text)], ["rows"] * 3)
    check_contains(explain(db, text)[1][2], "no such column: towns.x")
    check_contains(explain(db, "SELECT 'é', (SELECT group_concat(n) FROM cube)")[1][2], "'group_concat(n)' (character 21)")
    same(explain(db, text)[2][2], "a scalar is the first of several rows")
    same(sql(db, text), text)


def test_functions_of_the_program():
    """Where the program has put a function of its own in the place of SQLite's, SQLite calls it: of the text, only what SQLite evaluates anyway runs over columns."""
    class Count:
        def __init__(self):
            self.n = 0

        def step(self, *values):
            self.n -= 1

        def finalize(self):
            return self.n

        def final(self):
            return self.n

    text = "SELECT day / 3 AS third, {}, count(*) FROM words {} GROUP BY third"
    cases = [("abs", 1, lambda x: 7, "sum(abs(v))", "", "abs(sum(v))"), ("like", 2, lambda pattern, text: 1, "count(*) FILTER (WHERE s LIKE 'A%')", "", "max(s) LIKE 'A%'"),
             ("glob", 2, lambda pattern, text: 0, "max(n)", "WHERE s GLOB 'a*'", "max(s) GLOB 'a*'"), ("round", -1, lambda *values: 3.5, "max(round(v))", "", "round(max(v), 1)"), ("nullif", 2, lambda a, b: 9, "max(nullif(n, 3))", "", "nullif(max(n), 3)")]
    for name, count, function, taken_over, where, around in cases:
        db = Database()
        cube(db)
        db.query("CREATE VIRTUAL TABLE words USING tessera(day INT32 DIMENSION(0, 11, 4), x INT32 DIMENSION(0, 9, 5), n INT64, v FLOAT32, s TEXT)")
        db.query("INSERT INTO words SELECT *, CASE WHEN n % 2 THEN 'abc' ELSE 'xyz' END FROM cube")
        own, other = text.format(taken_over, where), text.format(around, "")
        for sentence in (own, other):
            same(explain(db, sentence)[0][1], "columns", sentence)
        if host.binding == "apsw":
            db.raw.create_scalar_function(name, function, count)
        else:
            db.raw.create_function(name, count, function)
        for sentence in (own, other):
            same_rows(db, sentence)
        same(explain(db, own)[0][1:], ("rows", f"{name}() is the program's own here, not SQLite's"), own)
        same(explain(db, other)[0][1], "columns", other)
        same(explain(db, f"SELECT count(*) FROM words WHERE n > (SELECT {taken_over} FROM words)" if name == "abs" else own)[0][1], "rows", own)
    db = Database()
    cube(db)
    if host.binding == "apsw":
        db.raw.create_aggregate_function("sum", Count, 1)
        db.raw.create_scalar_function("abs", lambda a, b: 1, 2)   # of another number of arguments
    else:
        db.raw.create_aggregate("sum", 1, Count)
        db.raw.create_function("abs", 2, lambda a, b: 1)
    for sentence in ("SELECT sum(n) FROM cube", "SELECT x, max(n) FROM cube GROUP BY x HAVING sum(v) < 3", "SELECT count(*) FROM cube WHERE n > (SELECT sum(n) FROM cube)"):
        same(explain(db, sentence)[0][1:], ("rows", "sum() is the program's own here, not SQLite's"), sentence)
        same_rows(db, sentence)
    same(explain(db, "SELECT max(abs(n)), total(v) FROM cube")[0][1], "columns")


def test_datetimes_beside_numbers():
    """A number that is compared with a datetime of cells is text or not by its affinity, and by whether SQLite hands the comparison to the array."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE log USING tessera(x INT32 DIMENSION, at DATETIME_DAY, y DATETIME_YEAR NOT NULL)")
    db.query("INSERT INTO log VALUES(1, '2024-01-01', '2024'), (2, '1999-01-02', '1999'), (3, NULL, '2024')")
    for column in ("at", "y"):
        for term in ("CAST(7 AS INTEGER) BETWEEN {} AND 9", "'2024' BETWEEN {} AND {}", "CAST(3000 AS NUMERIC) BETWEEN 9 AND {}", "{} BETWEEN 7 AND CAST(9 AS REAL)", "CAST(7 AS INTEGER) < {}", "+2000 < {}", "1 + 1 BETWEEN {} AND x", "{} IN (CAST(2024 AS INTEGER), '1999')", "2000 COLLATE BINARY < {}", "{} >= (20.5) COLLATE BINARY", "CASE {} WHEN CAST(2024 AS REAL) THEN 1 END"):
            term = term.replace("{}", column)
            for text in (f"SELECT x, {term}, count(*) FROM log GROUP BY 1, 2", f"SELECT count(*), sum(x) FROM log WHERE {term}", f"SELECT count(*) FILTER (WHERE {term}) FROM log"):
                same(explain(db, text)[0][2], "a datetime is compared with a number, or is an end of BETWEEN", text)
                same_rows(db, text)
        for term in ("{} BETWEEN '1999' AND 2025", "{} > date('2000-01-01')", "{} < CAST('2024' AS TEXT)", "{} = '20' || '24'", "2000 < {}", "'2000' COLLATE BINARY < {}"):
            text = f"SELECT sum(x), count(*) FILTER (WHERE {term.replace('{}', column)}) FROM log"
            same(explain(db, text)[0][1], "columns", text)
            same_rows(db, text)


def test_distinct_from():
    """The FROM of IS DISTINCT FROM has no tables: what follows it is no path and no source."""
    db = Database()
    if db.version() < (3, 39, 0):
        return
    cube(db)
    for operator in ("IS DISTINCT FROM", "IS NOT DISTINCT\nFROM"):
        for text in (f"SELECT n {operator} 5, count(*) FROM cube GROUP BY 1", f"SELECT n {operator} (SELECT max(n) FROM cube), sum(v) FROM cube GROUP BY 1", f"SELECT sum(v) FILTER (WHERE n {operator} '5') FROM cube", f"SELECT 'a/b' {operator} 'a/c', count(*) FROM cube"):
            check_contains(same_rows(db, text), '"tessera:')
        for text in (f"SELECT CASE WHEN label {operator} 'a/b' THEN 1 END, (SELECT max(n) FROM cube) FROM towns", f"SELECT label FROM towns JOIN cube ON label {operator} 'nosuch/array' AND cube.x = towns.x", f"SELECT label {operator} 'one', label {operator} \"label\" FROM towns"):
            same_rows(db, text)


def test_names_of_columns_stay():
    db = Database()
    cube(db)
    for text in ("SELECT max(n), max(n), DAY FROM (SELECT 3 AS day, n FROM cube GROUP BY n)", "SELECT count(*), count( * ) FROM cube", "SELECT day, DAY AS d, \"Day\", day FROM cube GROUP BY day",
                 "SELECT (SELECT max(n) FROM cube), (SELECT  min(n)  FROM cube) + 1, (SELECT 1 FROM cube GROUP BY 1) AS y, (SELECT count(*) FROM cube) z",
                 "SELECT * FROM (SELECT n, max(v), n FROM cube GROUP BY n)", "SELECT CASE WHEN (SELECT max(n) FROM cube) THEN 1 END, (SELECT max(n) FROM cube) IS NULL, x'00' FROM towns",
                 "WITH c AS (SELECT (SELECT max(n) FROM cube) FROM towns) SELECT * FROM c", "SELECT 1 IN (SELECT max(n) FROM cube) COLLATE nocase"):
        wanted, got = attempt(db, text), attempt(db, sql(db, text))
        same((got[1], got[0]), (wanted[1], wanted[0]), sql(db, text))
        same("tessera:" in sql(db, text), True, sql(db, text))


def described(db, text, values=()):
    """The names of the columns of a statement that has rows, and its first row."""
    cursor = db.raw.cursor()
    found = cursor.execute(text, values)
    names = [column[0] for column in cursor.description]
    return names, next(iter(found), None)


def test_names_of_columns_with_parameters_stay():
    db = Database()
    cube(db)
    for text, count in [("SELECT ?", 1), ("SELECT ? /* \"c\" */ , ?2 + 1 -- x\n FROM cube", 2), ("SELECT ALL :a||'\"', 1, :b AS b, :a c, :a 'd'", 2), ("SELECT DISTINCT ? COLLATE nocase, ?2 -- e", 2), ("SELECT ? WHERE ? ORDER BY 1 LIMIT 1", 2),
                        ("SELECT * FROM (SELECT ?, ?, day FROM cube)", 2), ("WITH c AS (SELECT ? AS b, ?+1) SELECT * FROM c", 2), ("WITH c(x, y) AS (SELECT ?, ?) SELECT *, (SELECT ?1) FROM c", 2), ("SELECT ? FROM cube UNION SELECT ? ORDER BY 1", 2),
                        ("SELECT sum(n - ?), max(n - ?), day FROM cube GROUP BY day ORDER BY sum(n - ?1)", 2), ("SELECT n + ? FROM cube GROUP BY n + ?1 HAVING ?2 IS NOT NULL", 2), ("SELECT rank() OVER (ORDER BY count(*) + ?), ? FROM cube GROUP BY day", 2),
                        ("SELECT (SELECT max(n) - ? FROM cube), (SELECT max(n)\n- ?2 FROM cube /* c */ ) /* d */ FROM towns", 2), ("VALUES(?, ?)", 2), ("SELECT 1 IN (SELECT ?), EXISTS (SELECT ?)", 2),
                        ("SELECT ? x, ?1\"y\", ? 'z', (?)w", 3), ("SELECT ?1 IS NULL x, ? v FROM cube", 2), ("SELECT ? ISNULL i, ?1 IS TRUE t, CASE ?1 WHEN 2 THEN 3 END e, ?1 NOTNULL", 1), ("SELECT (SELECT ? q) r, (SELECT ? q)", 2)]:
        for values in ((2, 3, 4), ("it's", "b", 1.5), (None, b"x", -1)):
            same(described(db, sql(db, text, *values[:count])), described(db, text, values[:count]), sql(db, text, *values[:count]))
    same(db.query("SELECT row FROM tessera_select('SELECT ?, ?2+1, count(*) AS n FROM cube', 'x', 2)"), [('{"?":"x","?2+1":3,"n":%d}' % db.value("SELECT count(*) FROM cube"),)])
    db.query(sql(db, "CREATE TABLE made AS SELECT ?, day + ? FROM cube", 1, 2))
    same([row[0] for row in db.query("SELECT name FROM pragma_table_info('made')")], ["?", "day + ?"])


def test_affinities_stay():
    """A column that is an expression has no affinity; a column of the part would have that of a BLOB."""
    db = Database()
    cube(db)
    db.query("CREATE TABLE numbers(t TEXT, i INTEGER)")
    db.query("INSERT INTO numbers VALUES('10', 10), ('20', 20), ('abc', 0)")
    for text in ("SELECT * FROM numbers LEFT JOIN (SELECT day, count(*) AS n FROM cube GROUP BY day) ON n = t", "SELECT t FROM numbers WHERE t IN (SELECT count(*) FROM cube GROUP BY day)",
                 "WITH c AS (SELECT day, count(*) AS n FROM cube GROUP BY 1) SELECT * FROM c WHERE n = CAST(10 AS TEXT)", "SELECT * FROM (SELECT count(*) AS n, CAST(day AS TEXT) AS t FROM cube GROUP BY t) WHERE n = t OR n < t",
                 "SELECT t = (SELECT count(*) FROM cube WHERE day = 1 AND v > -1) FROM numbers",
                 "SELECT * FROM (SELECT day, count(*) AS n FROM cube GROUP BY 1) WHERE n = (SELECT t FROM numbers WHERE i = 10)"):
        check_contains(same_rows(db, text), '"tessera:')


def test_as_many_joins_as_a_query_takes():
    db = Database()
    cube(db)
    for count in (8, 9):
        text = "SELECT sum(n), max(t0.label) FROM cube " + " ".join(f"JOIN towns AS t{i} ON t{i}.x = cube.x" for i in range(count))
        same(taken(db, text), [text] if count == 8 else [], text)
        same_rows(db, text)


def test_using_and_comma_joins():
    db = Database()
    cube(db)
    db.query("CREATE TABLE days(day INTEGER, x INTEGER, w)")
    db.query("INSERT INTO days SELECT day, x, n * 2 FROM cube WHERE n % 3 = 1")
    for text in ("SELECT label, sum(n) FROM cube JOIN towns USING(x) GROUP BY label", "SELECT label, sum(n), X FROM cube LEFT JOIN towns AS t USING(\"X\") GROUP BY label, x", "SELECT * FROM cube JOIN towns USING(x) WHERE n * 2 + v > 50",
                 "SELECT towns.*, v FROM cube JOIN towns USING(x) WHERE n * 2 + v > 50", "SELECT sum(n), sum(w) FROM cube JOIN days USING(day, x)", "SELECT x, sum(w) FROM cube LEFT JOIN days USING(day, x) GROUP BY x",
                 "SELECT label, sum(w) FROM cube JOIN days USING(day, x) JOIN towns USING(x) GROUP BY 1", "SELECT label, sum(n) FROM cube, towns t WHERE t.x = cube.x AND n > 5 GROUP BY label",
                 "SELECT label, sum(n) FROM cube, towns WHERE towns.x = cube.x AND (towns.label = 'one' OR n > 50) GROUP BY 1", "SELECT sum(w) FROM cube c, days d WHERE c.day = d.day AND c.x = d.x AND d.w > 10 AND v > 1",
                 "SELECT * FROM cube, towns t WHERE t.x = cube.x AND n * 2 > v", "SELECT sum(w * n) FROM cube, towns t, days AS d WHERE t.x = cube.x AND d.day = cube.day AND d.x = cube.x"):
        same(taken(db, text), [text], text)
        same_rows(db, text)
        db.query(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text})")
        same(sorted(map(repr, db.query("SELECT * FROM q"))), sorted(map(repr, db.query(text))), text)
        db.query("DROP TABLE q")
    db.query("INSERT INTO towns VALUES(3, 'three')")
    same_rows(db, "SELECT label, sum(n) FROM cube JOIN towns USING(x) GROUP BY label")   # a coordinate with two rows: by rows
    for text, why in [("SELECT sum(n) FROM cube, towns WHERE label = 'one'", "a comma join needs table.column = expression among the terms of WHERE"), ("SELECT sum(n) FROM cube, towns", "', towns' (character 24): a comma join needs"),
                      ("SELECT sum(n) FROM cube, towns WHERE towns.x = n", "a join binds its table to exactly one dimension"), ("SELECT sum(n) FROM cube NATURAL JOIN towns", "joins other than")]:
        check_contains(explain(db, text)[0][2], why)
        same_rows(db, text)
    for text, message in [("SELECT sum(n) FROM cube JOIN towns USING(label)", "cannot join using column label"), ("SELECT sum(n) FROM cube JOIN towns USING()", "syntax error"), ("SELECT sum(n) FROM cube JOIN towns USING(x", "incomplete input"),
                          ("SELECT sum(n) FROM cube, WHERE x", "syntax error")]:
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, message)


def test_scalar_subqueries():
    """A scalar subquery that is not correlated is evaluated once, within the query around it."""
    db = Database()
    cube(db)
    for text in ("SELECT day, avg(v) FROM cube GROUP BY day HAVING avg(v) > (SELECT avg(v) FROM cube)", "SELECT count(*) FROM cube WHERE n > (SELECT avg(n) FROM cube WHERE day > (SELECT min(day) + 2 FROM cube)) + 1",
                 "SELECT day, sum(n) * 100.0 / (SELECT sum(n) FROM cube) AS share FROM cube GROUP BY day ORDER BY sum(n) - (SELECT max(n) FROM cube) DESC", "SELECT (SELECT max(n) FROM cube), (SELECT  MIN(v) FROM cube) AS m, count(*) FROM cube GROUP BY day",
                 "SELECT count(*) FROM cube WHERE n > (SELECT max(n) FROM cube HAVING count(*) < 2) OR v > 1", "SELECT count(*) FROM cube WHERE (SELECT count(*) FROM cube WHERE v > 1) BETWEEN n AND n * 2",
                 "SELECT day + (SELECT min(x) FROM cube), sum(n) FROM cube GROUP BY 1", "SELECT CASE WHEN v > (SELECT avg(v) FROM cube) THEN 'high' ELSE 'low' END AS k, count(*) FROM cube GROUP BY k",
                 "SELECT sum(n) FROM cube WHERE day = (SELECT max(day) FROM cube) AND v * 1 >= 0", "SELECT day, count(*) FROM cube WHERE v IN ((SELECT max(v) FROM cube), (SELECT min(v) FROM cube), 1.5) GROUP BY day"):
        found = explain(db, text)
        same([row[1] for row in found], ["columns"] + ["once"] * (len(found) - 1), text)
        wanted, got = attempt(db, text), attempt(db, sql(db, text))
        same((sorted(map(repr, got[0])), got[1]), (sorted(map(repr, wanted[0])), wanted[1]), text)
        db.query(f"CREATE VIRTUAL TABLE q USING tessera_query({text})")
        same(sorted(map(repr, db.query("SELECT * FROM q"))), sorted(map(repr, wanted[0])), text)
        db.query("BEGIN")
        db.query("UPDATE cube SET v = v + 3, n = n * 2 WHERE day > 5")
        same(sorted(map(repr, db.query("SELECT * FROM q"))), sorted(map(repr, db.query(text))), f"uncommitted rows: {text}")
        db.query("ROLLBACK")
        db.query("DROP TABLE q")
    parts(db)
    same_rows(db, "SELECT sum(n) FROM cube WHERE n * 2 > (SELECT max(n * 9223372036854775807) FROM cube)")
    same(parts(db), (0, 1), "the subquery leaves 64 bits")
    for text, why in [("SELECT sum(n) FROM cube c WHERE n = (SELECT max(n) FROM cube WHERE day = c.day)", "no such column: c.day"), ("SELECT sum(n) FROM cube WHERE n < (SELECT x FROM towns)", "not a tessera table"),
                      ("SELECT sum(n) FROM cube WHERE n > (SELECT CAST(max(n) / 2 AS TEXT) FROM cube)", "a scalar subquery with CAST"), ("SELECT sum(n) FROM cube WHERE n > (SELECT n FROM cube)", "a scalar subquery is an aggregate without GROUP BY"),
                      ("SELECT sum(n) FROM cube WHERE n > (SELECT max(n) FROM cube GROUP BY day)", "a scalar subquery is an aggregate without GROUP BY"), ("SELECT sum(n) FROM cube WHERE n > (SELECT x + 0 * max(v) FROM cube)", "a scalar subquery is an aggregate without GROUP BY"),
                      ("SELECT sum(n) FILTER (WHERE n > (SELECT 1 FROM cube)) FROM cube", "subqueries"), ("WITH c AS (SELECT 5 AS n) SELECT sum(n) FROM cube WHERE n > (SELECT max(n) FROM c)", "no such table: c"),
                      ("WITH cube AS (SELECT 5 AS n) SELECT max(n) FROM cube WHERE n > (SELECT min(n) FROM cube)", "a name in FROM is that of a CTE"), ("SELECT sum(n) FROM cube WHERE n > (SELECT max(random()) FROM cube)", "random() is not among the functions")]:
        found = explain(db, text)
        row = next(r for r in found if "sum(" in r[0] or "max(n) FROM cube WHERE n > (SELECT min" in r[0])
        same(row[1], "rows", text)
        check_contains(row[2], why)
        if "random" not in text:
            same_rows(db, text)
    check_contains(db.error("CREATE VIRTUAL TABLE q USING tessera_query(SELECT sum(n) FROM cube WHERE n > (SELECT max(load_extension('x')) FROM cube))").text, "load_extension() is not among the functions")


def test_subqueries_that_only_rename():
    """A subquery in FROM that renames, computes or filters is a part of the query around it."""
    db = Database()
    cube(db)
    for text in ("SELECT k, sum(w) FROM (SELECT day / 3 AS k, n * 2 AS w FROM cube WHERE v > 1) GROUP BY k", "SELECT s.k, count(*), max(s.n) FROM (SELECT day % 4 AS k, n FROM cube c WHERE c.x > 2) AS s WHERE s.n > 30 AND k < 3 GROUP BY s.k ORDER BY 1 DESC",
                 "SELECT * FROM (SELECT day AS d, v * 2 AS w FROM cube) WHERE w + d > 8", "SELECT sum(n) FROM (SELECT * FROM cube) WHERE v > 1", "SELECT day, sum(n) FROM (SELECT *, n AS m FROM cube WHERE x < 5) q WHERE m > 7 GROUP BY day",
                 "SELECT label, sum(w) FROM (SELECT x AS place, n + 1 AS w FROM cube) s JOIN towns ON towns.x = s.place GROUP BY label", "SELECT k, sum(n) FROM (SELECT 5 AS k, n, day FROM cube) GROUP BY k, day",
                 "SELECT sum(n) FROM (SELECT n FROM cube WHERE n > (SELECT avg(n) FROM cube)) WHERE n < 100", "SELECT max(n) AS n FROM (SELECT v AS n, n AS v FROM cube) WHERE v > 3", "SELECT day FROM (SELECT day / 2 AS day, n FROM cube) WHERE day = 3 AND n % 2 = 0",
                 "SELECT sum(n) FROM (SELECT n FROM (SELECT n FROM cube))", "SELECT k, sum(w), max(q.w) FROM (SELECT a + 1 AS k, b * 2 AS w FROM (SELECT day / 2 AS a, n + x AS b FROM (SELECT * FROM cube WHERE v > 1) WHERE n < 100) AS i WHERE i.a > 0) AS q WHERE w > 30 GROUP BY k",
                 "SELECT label, sum(s.n) FROM (SELECT * FROM cube) s JOIN towns ON towns.x = s.x GROUP BY label", "SELECT n, count(*) FROM (SELECT v AS n, n AS v FROM (SELECT n AS v, v AS n FROM cube c WHERE c.n > 3 AND c.v < 90) WHERE n > 1) WHERE v > 2 GROUP BY n",
                 "SELECT label, sum(s.n) FROM (SELECT * FROM cube WHERE n > (SELECT avg(n) FROM cube)) s JOIN towns ON towns.x = s.x WHERE n < (SELECT max(n) FROM cube) GROUP BY label", "SELECT label, count(*) FROM (SELECT x FROM (SELECT x, n FROM cube WHERE v > (SELECT avg(v) FROM cube)) WHERE n > (SELECT avg(n) FROM cube)) s LEFT JOIN towns USING(x) GROUP BY label",
                 "SELECT k + 1, count(*) FROM (SELECT day / 3 AS k, n * 2 FROM cube) GROUP BY k + 1", "SELECT s.*, count(*) FROM (SELECT day, x AS \"a b\" FROM cube) AS s GROUP BY 1, \"a b\""):
        same(explain(db, text)[0][1], "columns", text)
        wanted, got = attempt(db, text), attempt(db, sql(db, text))
        same((sorted(map(repr, got[0])), got[1]), (sorted(map(repr, wanted[0])), wanted[1]), text)
        db.query(f"CREATE VIRTUAL TABLE main.q USING tessera_query({text})")
        same(sorted(map(repr, db.query("SELECT * FROM q"))), sorted(map(repr, wanted[0])), text)
        same([row[1] for row in db.query("PRAGMA table_info(q)")], wanted[1] or [row[1] for row in db.query("PRAGMA table_info(q)")], text)
        db.query("DROP TABLE q")
    for text, why in [("SELECT sum(n) FROM (SELECT n FROM cube LIMIT 5)", "'(SELECT n FROM cube LIMIT 5)' (character 20): subqueries"), ("SELECT sum(n) FROM (SELECT DISTINCT n FROM cube)", "subqueries"), ("SELECT sum(m) FROM (SELECT max(n) AS m FROM cube)", "do more than rename, compute and filter"),
                      ("SELECT sum(n) FROM (SELECT n FROM (SELECT DISTINCT n FROM cube))", "subqueries"), ("SELECT sum(a) FROM " + "(SELECT a + 1 AS a FROM " * 9 + "(SELECT n AS a FROM cube)" + ")" * 9, "subqueries"),
                      ("SELECT sum(a) FROM " + "(SELECT a = a AND a = a AND a = a AND a = a AS a FROM " * 5 + "(SELECT n % 2 AS a FROM cube)" + ")" * 5, "with its names replaced by their expressions, it is too large"), ("SELECT sum(n) FROM (SELECT n FROM cube UNION ALL SELECT n FROM cube)", "subqueries"), ("SELECT sum(n) FROM (SELECT n FROM cube ORDER BY n)", "subqueries"),
                      ("SELECT k, n, max(v) FROM (SELECT day k, n, v FROM cube) GROUP BY k", "a column beside min or max"), ("SELECT sum(n) FROM (SELECT n FROM cube JOIN towns USING(x))", "subqueries")]:
        row = explain(db, text)[0]
        same(row[1], "rows", text)
        check_contains(row[2], why)
        same_rows(db, text)
    for text in ("SELECT \"?\", count(*) FROM (SELECT * FROM (SELECT n + 1 FROM cube)) GROUP BY 1", "SELECT \"n + 1\", count(*) FROM (SELECT * FROM (SELECT n + 1 FROM cube)) GROUP BY 1"):   # a string, and a column named after its words
        same_rows(db, text)
    for text, message in [("SELECT v FROM (SELECT n FROM cube) GROUP BY 1", "no such column: v"), ("SELECT cube.n, count(*) FROM (SELECT n FROM cube) GROUP BY 1", "no such column: cube.n"), ("SELECT sum(n) FROM (SELECT n FROM cube", "incomplete input"),
                          ("SELECT rowid FROM (SELECT n FROM cube) GROUP BY 1", "")]:
        if message:
            check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, message)


def test_ctes_that_only_rename():
    """So is a CTE of the statement, wherever it stands in FROM, also in another CTE; names that hide it and recursion stay."""
    db = Database()
    cube(db)
    for text, count in [("WITH c AS (SELECT day / 3 AS k, n * 2 AS w FROM cube WHERE v > 1) SELECT k, sum(w) FROM c GROUP BY k", 1), ("WITH c AS (SELECT * FROM cube), d AS (SELECT max(n) AS m FROM c) SELECT c.day, count(*) FROM c WHERE c.n > 3 GROUP BY 1 UNION ALL SELECT m, 1 FROM d", 2),
                        ("WITH c AS (SELECT n FROM cube) SELECT sum(n) FROM c AS z WHERE z.n > 5", 1), ("WITH c AS MATERIALIZED (SELECT x, n FROM cube) SELECT label, sum(n) FROM \"C\" JOIN towns USING(x) GROUP BY 1", 1),
                        ("WITH c AS (SELECT n FROM cube WHERE x > 2) SELECT (SELECT max(n) FROM c), n FROM c WHERE n * 2 > 190", 1), ("WITH c AS (SELECT n FROM cube), e AS (SELECT n + 1 AS n FROM c) SELECT sum(n) FROM e", 1), ("WITH a AS (SELECT * FROM cube WHERE v > 1), b AS (SELECT day / 3 AS k, n * 2 AS w FROM a AS i WHERE i.x > 2), c AS (SELECT k, w - 1 AS w FROM b) SELECT k, count(*), rank() OVER (ORDER BY sum(w)) FROM c GROUP BY k", 1),
                        ("WITH c(k, \"a b\") AS (SELECT day / 2, n AS m FROM cube WHERE n > 5), d(q) AS (SELECT \"a b\" + k FROM c) SELECT (SELECT max(q) FROM d), k, sum(\"a b\") FROM c GROUP BY k", 1), ("WITH c(a, b) AS (SELECT n AS b, v AS a FROM cube WHERE a > 1) SELECT sum(a), sum(b) FROM c", 0), ("WITH c(a, b) AS (SELECT * FROM towns) SELECT max(a) FROM c", 0), ("WITH c(a, b, c, d) AS (SELECT * FROM cube) SELECT max(d) FROM c", 0),
                        ("WITH c(a, b) AS (SELECT max(n, x), coalesce(v, 1.5) FROM cube) SELECT sum(b) FROM c WHERE a > 4", 1), ("WITH a(n) AS (SELECT x FROM cube), b(x) AS (SELECT n FROM a) SELECT x, count(*) FROM b GROUP BY x", 1), ("WITH a AS (SELECT n FROM b), b AS (SELECT n FROM cube) SELECT sum(n) FROM a", None),
                        ("WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT sum(n) FROM c", 0), ("WITH c AS (SELECT n FROM cube) SELECT max(n) FROM (WITH c AS (SELECT 3 AS n) SELECT n FROM c)", 0), ("WITH c(q) AS (SELECT n FROM cube) SELECT max(q) FROM c", 1), ("WITH c(q) AS (SELECT DISTINCT n FROM cube) SELECT max(q) FROM c", 1),
                        ("WITH c AS (SELECT day, n FROM cube) SELECT a.day, sum(a.n) FROM c a JOIN c b ON a.day = b.day GROUP BY 1", 0), ("WITH cube2 AS (SELECT n FROM cube), cube AS (SELECT 5 AS n) SELECT sum(n) FROM cube2", 0)]:
        wanted, got = attempt(db, text), attempt(db, sql(db, text))
        same((sorted(map(repr, got[0])), got[1]), (sorted(map(repr, wanted[0])), wanted[1]), text)
        same(sql(db, text).count('"tessera:') if count is not None else None, count, sql(db, text))
    for text, message in [("WITH c(a, b) AS (SELECT n FROM cube) SELECT max(a) FROM c", "table c has 1 values for 2 columns"), ("WITH c(a) AS (SELECT n, v FROM cube) SELECT max(a) FROM c", "table c has 2 values for 1 columns"), ("WITH a AS (SELECT n FROM b), b AS (SELECT n FROM a) SELECT max(n) FROM a", "circular reference")]:
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, message)


def test_windows_around_groups():
    """Window functions of a grouped SELECT: the groups run over columns, the windows are SQLite's."""
    db = Database()
    cube(db)
    for text in ("SELECT day, count(*) AS k, rank() OVER (ORDER BY count(*)) FROM cube GROUP BY day", "SELECT day, sum(n), rank() OVER (ORDER BY sum(n) DESC) AS r FROM cube GROUP BY day ORDER BY r LIMIT 3",
                 "SELECT day / 3, x % 2 AS odd, sum(n) AS s, dense_rank() OVER (PARTITION BY x % 2 ORDER BY sum(n), day / 3) FROM cube GROUP BY 1, odd", "SELECT day, sum(sum(n)) OVER (ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM cube GROUP BY day",
                 "SELECT day, lag(max(v), 1, -1) OVER w AS before, lead(min(v)) OVER w, first_value(day) OVER (w ROWS UNBOUNDED PRECEDING) FROM cube GROUP BY day WINDOW w AS (ORDER BY day)",
                 "SELECT day, count(*) FILTER (WHERE v > 2) AS c, sum(count(*) FILTER (WHERE v > 2)) FILTER (WHERE day % 2) OVER (ORDER BY day) AS run FROM cube GROUP BY day HAVING count(*) > 3 ORDER BY run DESC, day",
                 "SELECT DISTINCT ntile(3) OVER (ORDER BY day) AS t FROM cube GROUP BY day ORDER BY t", "SELECT row_number() OVER () FROM cube GROUP BY day, x", "SELECT rank() OVER (ORDER BY sum(n)) FROM cube", "SELECT max(n), sum(max(n)) OVER () + 1 FROM cube WHERE v > 1",
                 "SELECT c.day AS d, round(100.0 * sum(c.n) / sum(sum(c.n)) OVER (), 2) AS share FROM cube AS c WHERE c.x > 2 GROUP BY c.day ORDER BY share DESC, d", "SELECT label, sum(n), row_number() OVER (ORDER BY sum(n) DESC) FROM cube JOIN towns USING(x) GROUP BY label",
                 "SELECT day % 4 k, avg(v) a, percent_rank() OVER (PARTITION BY day % 4 ORDER BY x) p FROM cube GROUP BY day % 4, x ORDER BY k, x", "SELECT * FROM (SELECT day, rank() OVER (ORDER BY sum(n)) AS r, sum(n) FROM cube GROUP BY day) WHERE r < 4",
                 "WITH w AS (SELECT day AS d, cume_dist() OVER (ORDER BY count(*), day DESC) AS c FROM cube WHERE n > 20 GROUP BY day) SELECT d, c FROM w WHERE c > 0.5 UNION ALL SELECT 1, 2", "SELECT day, sum(v) - lag(sum(v)) OVER (ORDER BY day) FROM cube GROUP BY day ORDER BY 2",
                 "WITH c AS (SELECT day / 2 AS k, n * 2 AS w FROM cube WHERE v > 1) SELECT k, sum(w), rank() OVER (ORDER BY sum(w) DESC) FROM c GROUP BY k", "SELECT day, count(*) AS k, sum(n) OVER (ORDER BY day) FROM (SELECT day, n FROM cube) GROUP BY day, n",
                 "SELECT day, CASE WHEN sum(n) > avg(sum(n)) OVER () THEN 'high' ELSE 'low' END, CAST(count(*) AS TEXT) || rank() OVER (ORDER BY day) FROM cube GROUP BY day", "SELECT n, v, count(*) OVER (PARTITION BY day) FROM cube GROUP BY n, v, day",
                 "SELECT day, sum(n), sum(max(sum(n), 500)) OVER (ORDER BY day) FROM cube GROUP BY day HAVING avg(v) > (SELECT avg(v) FROM cube)", "SELECT day AS \"a b\", max(n) AS m, max(max(n)) OVER (PARTITION BY day > 5 ORDER BY \"day\" RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM cube GROUP BY \"a b\" ORDER BY m DESC"):
        check_contains(same_rows(db, text), '"tessera:')
        wanted, got = attempt(db, text), attempt(db, sql(db, text))
        same(got[1], wanted[1], sql(db, text))
        if "ORDER BY" in text.rsplit(")", 1)[-1]:
            same(got[0], wanted[0], text)
    for text in ("SELECT n, rank() OVER (ORDER BY n) FROM cube", "SELECT day, max(x), n, rank() OVER (ORDER BY n) FROM cube GROUP BY day", "SELECT day, group_concat(day) AS g, rank() OVER (ORDER BY group_concat(day)) FROM cube GROUP BY day",
                 "SELECT day, rank() OVER (ORDER BY (SELECT max(n) FROM cube)) FROM cube GROUP BY day", "SELECT *, rank() OVER (ORDER BY day) FROM cube GROUP BY day, x", "SELECT day, rank() OVER (ORDER BY sum(n)) FROM cube GROUP BY day LIMIT 2", "SELECT day, rank() OVER (ORDER BY x) FROM cube GROUP BY day",
                 "SELECT label, (SELECT rank() OVER (ORDER BY count(*)) FROM cube GROUP BY day) FROM towns", "SELECT day AS row, sum(n), rank() OVER (ORDER BY sum(n) ROWS CURRENT ROW) FROM cube GROUP BY day", "SELECT n AS day, sum(v), rank() OVER (ORDER BY day) FROM cube GROUP BY n, cube.day"):
        wanted, got = attempt(db, text), attempt(db, sql(db, text))
        same((sorted(map(repr, got[0])), got[1]), (sorted(map(repr, wanted[0])), wanted[1]), text)
        same("rank() OVER (ORDER BY" in sql(db, text), True, text)
    found = explain(db, "SELECT day, count(*) AS k, rank() OVER (ORDER BY count(*)) FROM cube GROUP BY day")
    same([found[0][1], "windows" in found[0][2]], ["columns", True], found)
    for text, message in [("SELECT day, rank() OVER (ORDER BY nosuch) FROM cube GROUP BY day", "no such column: nosuch"), ("SELECT day, rank() OVER w FROM cube GROUP BY day", "no such window: w"), ("SELECT day, rank() OVER () AS r FROM cube GROUP BY r", "misuse of aliased window function r"),
                          ("SELECT rank() OVER (ORDER BY day", "incomplete input"), ("SELECT day, nosuch() OVER () FROM cube GROUP BY 1", "no such function: nosuch")]:
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, message)


# ---- Paths -----------------------------------------------------------------------------------------------------------------


def test_windows_that_read_nothing():
    """A window function beside constants alone sees all cells, not one group of them."""
    db = Database()
    cube(db)
    for text in ("SELECT row_number() OVER () FROM cube WHERE n + v > 50", "SELECT 5, total(1) OVER (ORDER BY 4) FROM cube WHERE n + v > 5000", "SELECT count(*) FROM (SELECT 7 AS c, ntile(3) OVER () AS t FROM cube WHERE n * 2 > v)",
                 "SELECT rank() OVER (ORDER BY c) FROM (SELECT 2 AS c, n FROM cube) WHERE n + 1 > 40", "SELECT row_number() OVER () FROM cube GROUP BY day", "SELECT row_number() OVER (), count(*) FROM cube"):
        same_rows(db, text)


def test_paths_in_from():
    """A path stands for the table that CREATE would make of it, in parts over columns and by rows."""
    db = Database(os.path.join(host.FOLDER, "a.db"))
    os.chdir(host.FOLDER)
    for path in ("sub/cube", "bare"):
        db.query(f"CREATE VIRTUAL TABLE made USING tessera('{path}', day INT32 DIMENSION(0, 11, 4), x INT32 DIMENSION(0, 9, 5), kind=dense, n INT64, v FLOAT64)")
        db.query("INSERT INTO made(day, x, n, v) VALUES(1, 2, 3, 0.5), (1, 3, 7, 1.5), (2, 2, 9, 2.5)")
        db.query("DROP TABLE made")
    db.query("CREATE VIRTUAL TABLE cube USING tessera('sub/cube')")
    db.query("CREATE VIRTUAL TABLE other USING tessera('bare')")
    absolute = os.path.join(host.FOLDER, "sub", "cube")
    for text, plain, tables in [
            ("SELECT day, sum(n) FROM 'sub/cube' GROUP BY 1", "SELECT day, sum(n) FROM cube GROUP BY 1", 1), ("SELECT day, n FROM \"sub/cube\" WHERE n > 3", "SELECT day, n FROM cube WHERE n > 3", 1),
            (f"SELECT c.day, sum(n) AS s FROM '{absolute}' AS c GROUP BY c.day", "SELECT c.day, sum(n) AS s FROM cube AS c GROUP BY c.day", 1), ("SELECT max(n) FROM 'bare'", "SELECT max(n) FROM other", 1),
            ("SELECT max(\"sub/cube\".n) FROM 'sub/cube'", "SELECT max(cube.n) FROM cube", 1), ("SELECT * FROM 'sub/cube' a, [bare] b WHERE a.n = b.n AND a.n > 0", "SELECT * FROM cube a, other b WHERE a.n = b.n AND a.n > 0", 2),
            ("SELECT count(*) FROM 'sub/cube' JOIN 'bare' b ON b.day = \"sub/cube\".day AND b.x = \"sub/cube\".x WHERE b.n > 0", "SELECT count(*) FROM cube JOIN other b ON b.day = cube.day AND b.x = cube.x WHERE b.n > 0", 1),
            ("SELECT (SELECT max(n) FROM 'sub/cube'), n FROM (SELECT n FROM ('bare') WHERE n > 0)", "SELECT (SELECT max(n) FROM cube), n FROM (SELECT n FROM (other) WHERE n > 0)", 2),
            ("SELECT max(n) FROM 'sub/cube'('2000-01-01')", "SELECT max(n) FROM cube('2000-01-01')", 1), ("SELECT n FROM 'sub/cube'('2000-01-01') c WHERE n", "SELECT n FROM cube('2000-01-01') c WHERE n", 1),
            ("WITH \"bare\" AS (SELECT 5 AS n) SELECT max(n) FROM 'bare'", "SELECT 5 AS \"max(n)\"", 0), ("SELECT max(n) FROM 'bare' UNION ALL SELECT max(n) FROM 'sub/cube' ORDER BY max(n)", "SELECT max(n) FROM other UNION ALL SELECT max(n) FROM cube ORDER BY max(n)", 2),
            ("SELECT 'sub/cube', x IN ('sub/cube', 2) FROM 'bare' WHERE n > 0 AND \"x\" <> 'sub/cube'", "SELECT 'sub/cube', x IN ('sub/cube', 2) FROM other WHERE n > 0 AND \"x\" <> 'sub/cube'", 1)]:
        statement = sql(db, text)
        wanted, got = attempt(db, plain), attempt(db, statement)
        if isinstance(got, Error):
            raise AssertionError(f"{statement}: {got.text}")
        same(sorted(map(repr, got[0])), sorted(map(repr, wanted[0])), statement)
        same(statement.count('"tessera:'), tables, statement)
    db.query("BEGIN")
    db.query("INSERT INTO cube(day, x, n, v) VALUES(5, 5, 100, 1)")
    same(db.query(sql(db, "SELECT max(n), count(n) FROM 'sub/cube' WHERE n > -1000")), db.query("SELECT max(n), count(n) FROM cube WHERE n > -1000"), "uncommitted rows")
    db.query("ROLLBACK")
    db.query("CREATE TABLE \"bare\"(n)")
    same(sql(db, "SELECT max(n) FROM 'bare'"), "SELECT max(n) FROM 'bare'", "a table goes before a path")
    statement = sql(db, "SELECT n FROM 'sub/cube' WHERE n > 0")
    check_contains(db.error(statement.replace("SELECT n FROM", "DELETE FROM", 1).split(" AS ")[0]).text, "may not be modified")
    for text, message in [("SELECT max(n) FROM 'sub/cub'", "no table and no array is called 'sub/cub'"), ("SELECT * FROM 'sub/cub' WHERE n", "no table and no array is called 'sub/cub'"), ("SELECT max(n) FROM 'cub'", "no such table: cub"),
                          ("SELECT nosuch FROM 'sub/cube'", "no such column: nosuch")]:
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, message)
    db.query("SELECT tessera_create_group('group')")
    check_contains(db.error("SELECT tessera_sql('SELECT * FROM ''group''')").text, "'group' is a group: attach it")
    db.query("SELECT tessera_create_group('group/inside'), tessera_add_member('group', 'group/inside', 'deep'), tessera_add_member('group/inside', 'sub/cube', 'c'), tessera_add_member('group/inside', 'group', 'around')")
    db.query("SELECT tessera_add_member('group', 'bare', 'bé')")
    same(db.error("SELECT tessera_sql('SELECT * FROM ''group''')").text, "tessera_sql: 'group' is a group: attach it, or name one of its arrays: bé, deep/c")
    for n in range(12):
        db.query("SELECT tessera_add_member('group/inside', 'sub/cube', ?)", (f"d{n:02}",))
    check_contains(db.error("SELECT tessera_npy('SELECT sum(n) FROM ''group''')").text, "'group' is a group: attach it, or name one of its arrays: bé, deep/c, " + ", ".join(f"deep/d{n:02}" for n in range(8)) + ", ...")
    db.query(f"SELECT tessera_restrict('{os.path.join(host.FOLDER, 'group')}')")
    check_contains(db.error("SELECT tessera_sql('SELECT max(n) FROM ''sub/cube''')").text, "group")
    os.chdir("/")
    db.close()


def test_paths_in_columnar_queries():
    """A stored query takes its path from the database's directory, tessera_npy and its kin from the working directory."""
    os.makedirs(os.path.join(host.FOLDER, "sub"))
    file = os.path.join(host.FOLDER, "sub", "a.db")
    db = Database(file)
    db.query("CREATE VIRTUAL TABLE made USING tessera('d/cube', y INT32 DIMENSION(0, 3, 4), x INT32 DIMENSION(0, 3, 4), kind=dense, n INT64)")
    db.query("INSERT INTO made VALUES(1, 2, 3)")
    os.chdir("/")
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT y, sum(n) AS s FROM 'd/cube' WHERE n > 0 GROUP BY y)")
    same(db.query("SELECT * FROM q"), [(1, 3)])
    check_contains(db.error("SELECT tessera_npy('SELECT sum(n) FROM ''d/cube'' GROUP BY y')").text, "no table and no array is called 'd/cube'")
    os.chdir(os.path.join(host.FOLDER, "sub"))
    for function in ("npy", "png", "preview"):
        check_contains(repr(db.value(f"SELECT length(tessera_{function}('SELECT sum(n) FROM ''d/cube'' GROUP BY y, x'))") > 0), "True")
    same(db.query(sql(db, "SELECT sum(n) FROM 'd/cube' WHERE n > 0")), [(3,)])
    db.query("SELECT tessera_add_attribute('d/cube', 'm INT32')")
    same(db.query(sql(db, "SELECT sum(n), count(m) FROM 'd/cube' WHERE n > 0")), [(3, 0)], "the schema is looked at again")
    os.chdir("/")
    db.close()
    db = Database(file)
    same(db.query("SELECT * FROM q"), [(1, 3)])
    db.close()


# ---- Texts that are refused, and hostile ones ------------------------------------------------------------------------------


def test_texts_that_are_refused():
    db = Database()
    cube(db)
    db.query("CREATE TABLE t(a)")
    for text, message in [
            ("DELETE FROM t", "tessera_sql: expected a SELECT, not 'DELETE'"), ("", "tessera_sql: expected a SELECT"), (" -- x\n;", "tessera_sql: expected a SELECT"),
            ("WITH c AS (SELECT 1) DELETE FROM t", "tessera_sql: expected a SELECT, not 'DELETE'"), ("PRAGMA x", "tessera_sql: expected a SELECT, not 'PRAGMA'"),
            ("SELECT 1; SELECT 2", "tessera_sql: one statement only: 'SELECT 2'"), ("SELECT count(*) FROM cube;;DROP TABLE t", "tessera_sql: one statement only: 'DROP TABLE t'"),
            ("SELECT * FROM nosuch", "no such table: nosuch"), ("SELECT nosuch(n) FROM cube", "no such function: nosuch"), ("SELECT (1", "incomplete input"),
            ("SELECT 'a", "unrecognized token: \"'a\""), ("SELECT n::int FROM cube", "; a cast is CAST(value AS INTEGER), not value::integer"), ("SELECT ':' || ':', a: FROM t", "unrecognized token: \":\""), ("SELECT count(*) FROM cube GROUP BY", "incomplete input"), ("CREATE TABLE t2(a)", "expected a SELECT, not 'CREATE'"),
            ("INSERT INTO t VALUES(1)", None), ("INSERT INTO cube SELECT 1, 1, 1, 1", "expected a SELECT, not 'INSERT' into the array cube"), ("EXPLAIN DELETE FROM t", "expected a SELECT, not 'DELETE'"),
            ("(SELECT 1)", "expected a SELECT, not '('"), ("WITH c(a) AS (JELECT -(1 SELECT (2)) SELECT a FROM c", "near"), ("WITH c AS (SELECT (1)))) SELECT ((1)", "near"), ("SELECT (((1) + (2)", "incomplete input")]:
        if message:
            check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, message)
    for value, message in [(None, "expected a text: a SELECT"), (5, "expected a text: a SELECT"), (b"SELECT 1", "expected a text"), ("SELECT 1\0; DROP TABLE t", "the text has a NUL after 8 bytes")]:
        check_contains(db.error("SELECT tessera_sql(?)", (value,)).text, message)
    check_contains(db.error("SELECT tessera_sql()").text, "expected a text")
    db.query("CREATE VIEW w AS SELECT tessera_sql('SELECT 1')")
    check_contains(db.error("SELECT * FROM w").text, "unsafe use of tessera_sql")
    db.query("CREATE VIEW w2 AS SELECT * FROM tessera_select('SELECT 1')")
    check_contains(db.error("SELECT * FROM w2").text, "unsafe use of")


def test_missing_tables_that_go_on():
    """A table that is missing may be one of those whose names go on behind it: an experiment with layers has X_data and X_counts, and no X."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE X_data USING tessera(k INT32 DIMENSION, v REAL)")
    check_contains(db.error("SELECT tessera_sql('SELECT v FROM x')").text, "no such table: x; there are X_data")
    same(db.error("SELECT tessera_sql('SELECT v FROM X_d')").text, "tessera_sql: no such table: X_d")


def test_missing_columns():
    """The columns of an array are told where one is missing; of a long list, the first."""
    db = Database()
    os.chdir(host.FOLDER)
    db.query("CREATE VIRTUAL TABLE dem USING tessera('dem', kind=dense, y_index INT32 DIMENSION(0, 3, 4) LABEL y FLOAT64, x_index INT32 DIMENSION(0, 3, 4) LABEL x FLOAT64, elevation REAL)")
    db.query("CREATE TABLE zones(name TEXT)")
    columns = "y_index, x_index, elevation, and the labels y, x"
    for source, name in (("dem", "dem"), ('"dem"', "dem"), ("dem AS d", "dem"), ("zones JOIN dem", "dem"), ("'./dem'", "./dem"), ("zones JOIN './dem' d", "./dem")):
        same(db.error(f"SELECT tessera_sql('SELECT avg(value) FROM {source.replace(chr(39), chr(39) * 2)}')").text, f"tessera_sql: no such column: value; {name} has {columns}", source)
    same(db.error("SELECT tessera_sql('SELECT d.value FROM dem d')").text, f"tessera_sql: no such column: d.value; dem has {columns}")
    same(db.error("SELECT tessera_sql('SELECT value FROM zones')").text, "tessera_sql: no such column: value")
    db.query("CREATE VIRTUAL TABLE wide USING tessera(k INT32 DIMENSION, " + ", ".join(f"attribute_{i} REAL" for i in range(200)) + ")")
    text = db.error("SELECT tessera_sql('SELECT v FROM wide')").text
    assert text.startswith("tessera_sql: no such column: v; wide has k, attribute_0, ") and text.endswith(", ...") and len(text) < 400, text
    os.chdir("/")


LIMITS, PATTERNS, MOMENTS, PARTS, LISTS, STAR = "write LIMIT n", "LIKE 'a%' and GLOB", "date(day, '+1 month')", "strftime('%Y-%m', day)", "json_each('[1, 2]')", "name those that you want"
DIALECTS = [
    ("SELECT n::int FROM cube", "CAST(value AS INTEGER)"), ("SELECT TRY_CAST(n AS INT) FROM cube", "CAST(text AS INTEGER) never fails"), ("SELECT n FROM cube WHERE s ILIKE 'a'", "write LIKE for ILIKE"),
    ("SELECT s ILIKE 'a' FROM cube", "write LIKE for ILIKE"), ("SELECT s NOT ILIKE 'a' FROM cube", "write LIKE for ILIKE"), ("SELECT n FROM cube WHERE s SIMILAR TO 'a'", PATTERNS), ("SELECT n FROM cube WHERE s RLIKE 'a'", PATTERNS),
    ("SELECT s ~ 'a' FROM cube", PATTERNS), ("SELECT n FROM cube WHERE s !~ 'a'", PATTERNS), ("SELECT n FROM cube WHERE s ~* 'a'", PATTERNS), ("SELECT regexp_matches(s, 'a') FROM cube", PATTERNS),
    ("SELECT n FROM cube QUALIFY row_number() OVER () = 1", "AS n FROM t) WHERE n = 1"), ("SELECT day + INTERVAL '1 day' FROM cube", MOMENTS), ("SELECT n FROM cube WHERE day > INTERVAL '1 day'", MOMENTS), ("SELECT day - INTERVAL 1 DAY FROM cube", MOMENTS),
    ("SELECT date_add(day, 1) FROM cube", MOMENTS), ("SELECT DATE_TRUNC('month', day), count(*) FROM cube GROUP BY 1", PARTS), ("SELECT EXTRACT(year FROM day) FROM cube", PARTS), ("SELECT year(day) FROM cube", PARTS),
    ("SELECT n FROM cube WHERE day > DATE '2024-01-01'", "without a word before it"), ("SELECT TIMESTAMP '2024-01-01' FROM cube", "without a word before it"), ("SELECT * EXCLUDE (n) FROM cube", STAR), ("SELECT * EXCEPT (n) FROM cube", STAR),
    ("SELECT * REPLACE (n + 1 AS n) FROM cube", STAR), ("SELECT TOP 5 n FROM cube", LIMITS), ("SELECT TOP(5) n FROM cube", LIMITS), ("SELECT n FROM cube FETCH FIRST 5 ROWS ONLY", LIMITS), ("SELECT n FROM cube ORDER BY n OFFSET 5 ROWS FETCH NEXT 5 ROWS ONLY", LIMITS),
    ("SELECT n FROM cube LIMIT ALL", "get all rows"), ("SELECT day, count(*) FROM cube GROUP BY ALL", "GROUP BY 1, 2"), ("SELECT n FROM cube ORDER BY ALL", "ORDER BY 1, 2"), ("SELECT count(*) FROM cube GROUP BY GROUPING SETS ((day))", "UNION ALL"),
    ("SELECT count(*) FROM cube GROUP BY ROLLUP(day)", "UNION ALL"), ("SELECT ARRAY[1, 2] FROM cube", LISTS), ("SELECT n FROM cube WHERE n = ANY(ARRAY[1, 2])", LISTS), ("SELECT unnest(n) FROM cube", LISTS), ("SELECT n FROM cube, unnest(ARRAY[1])", LISTS),
    ("SELECT DISTINCT ON (day) n FROM cube", "those of its row"), ("SELECT arg_max(day, n) FROM cube", "those of its row"), ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM cube", "percentile(v, 90)"), ("SELECT n FROM cube TABLESAMPLE (10)", "ORDER BY random()"),
    ("SELECT n FROM cube USING SAMPLE 10", "ORDER BY random()"), ("SELECT 1 FROM cube, LATERAL (SELECT 1)", "sees no columns"), ("SELECT substring(s FROM 1) FROM cube", "substr(text, 1, n)"), ("SELECT left(s, 1) FROM cube", "substr(text, 1, n)"),
    ("SELECT n // 2 FROM cube", "write / for //"), ("SELECT n ** 2 FROM cube", "pow(x, y)"), ("SELECT n ^ 2 FROM cube", "pow(x, y)"), ("SELECT now() FROM cube", "datetime('now')"), ("SELECT array_agg(n) FROM cube", "json_group_array(v)"),
    ("SELECT len(s) FROM cube", "length(text)"), ("SELECT nvl(n, 0) FROM cube", "coalesce(a, b)"), ("SELECT greatest(n, 1) FROM cube", "max(a, b)"), ("SELECT datediff('day', day, day) FROM cube", "julianday(b) - julianday(a)"), ("SELECT strpos(s, 'a') FROM cube", "instr(text, part)")]


def test_words_of_other_dialects():
    """An error about words of another dialect says what to write instead, from tessera_sql and from tessera_query; other errors stay as they are. SQLite hands no
    tessera_query a text that it cannot split into tokens."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE cube USING tessera(day DATETIME_DAY DIMENSION, n INTEGER, s TEXT)")
    for text, advice in DIALECTS:
        plain = db.error(text).text
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, advice)
        refused = db.error(f"CREATE VIRTUAL TABLE q USING tessera_query({text})").text
        if "unrecognized token" not in plain and "not evaluated over columns" not in refused:
            check_contains(refused, advice)
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, plain)
    for text, advice in (("DESCRIBE cube", "tessera_schema('db:t')"), ("SHOW TABLES", "sqlite_schema"), ("FROM cube SELECT n", "SELECT * FROM t"), ("PIVOT cube ON n", "FILTER (WHERE")):
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, f"expected a SELECT, not '{text.split()[0]}'; ")
        check_contains(db.error("SELECT tessera_sql(?)", (text,)).text, advice)
    check_contains(db.error("CREATE VIRTUAL TABLE q USING tessera_query(SELECT n FROM cube WHERE s = \"Oslo\")").text, "single quotes" if host.binding == "sqlite3" else "single-quotes")
    same(db.query(sql(db, "SELECT `n`, [s] FROM cube")), [])   # SQLite takes these quotes, too
    db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT `n`, [s] FROM \"cube\")")
    for text in ("SELECT interval FROM cube", "SELECT array, n FROM cube", "SELECT n FROM cube WHERE ORDER BY ilike(n)", "SELECT 'a ILIKE b' FROM", "SELECT 'ILIKE', -- n ILIKE\n n n n FROM cube", "SELECT x.offset FROM cube", "SELECT n FROM top", "SELECT nosuch(n) FROM cube"):
        plain = db.error(text).text
        same(db.error("SELECT tessera_sql(?)", (text,)).text, f"tessera_sql: {plain}" + ("; cube has day, n, s" if "no such column" in plain else ""))


def test_hostile_texts():
    """Whatever the text is, the statement is equivalent, or SQLite's error is given."""
    db = Database()
    cube(db)
    db.query('CREATE TABLE "sel""ect"("from" INTEGER, "group" TEXT)')
    db.query("""INSERT INTO "sel""ect" VALUES(1, 'a'), (2, 'b')""")
    deep = "(" * 40 + "n" + ")" * 40
    for text in ["WITH cube AS (SELECT 1 AS n) SELECT count(*), max(n) FROM cube", "WITH c AS (SELECT max(n) AS n FROM cube) SELECT * FROM (WITH cube AS (SELECT 2 AS n) SELECT max(n) FROM cube), c",
                 "WITH RECURSIVE cube(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM cube WHERE n < 5) SELECT sum(n) FROM cube",
                 "WITH RECURSIVE r(n) AS (SELECT min(n) FROM cube UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r",
                 "SELECT max(n) /* FROM nosuch; */ FROM cube -- ;\n;", "SELECT ';', max(n), '--' FROM cube;", "SELECT [max(n)] FROM (SELECT max(n) FROM cube)", "SELECT `n` FROM (SELECT \"n\" FROM cube GROUP BY [n])",
                 'SELECT "from", "group", (SELECT max(n) FROM cube) FROM "sel""ect"', "SELECT 'it''s', max(n) FROM cube", "SELECT max(n) AS \"a\"\"b\", min(n) AS 'c' FROM cube", "select MAX(N)from CUBE",
                 f"SELECT max({deep}) FROM cube", "SELECT " + "(SELECT " * 60 + "max(n)" + " FROM cube)" * 60, "SELECT " + "(" * 200 + "1" + ")" * 200, "SELECT * FROM " + "(" * 50 + "SELECT max(n) FROM cube" + ")" * 50,
                 "SELECT max(n) FROM cube UNION SELECT 1 FROM cube WHERE day > 4 * v ORDER BY max(n)", "SELECT max(n) FROM cube UNION ALL SELECT with FROM (SELECT 5 AS with)", "SELECT count(*) FROM cube, cube AS b WHERE cube.day = b.x",
                 "SELECT count(*) FROM (cube)", "SELECT max(n) FROM main.cube WHERE \"cube\".n > 3", "SELECT values_.n FROM (SELECT max(n) AS n FROM cube) AS values_", "EXPLAIN QUERY PLAN SELECT 1", "VALUES(1), (2)",
                 "SELECT max(n) FILTER (WHERE x IN (SELECT x FROM towns)) FROM cube", "SELECT n FROM cube GROUP BY n HAVING count(*) > (SELECT 0) ORDER BY (SELECT 1)", "SELECT sum(n) OVER () FROM cube WINDOW w AS ()",
                 "SELECT * FROM cube AS a JOIN (SELECT day, max(v) AS m FROM cube GROUP BY day) AS b ON a.day = b.day AND a.v = b.m", "SELECT tessera_sql('SELECT max(n) FROM cube') IS NULL", "\ufeffSELECT max(n) FROM cube", "SELECT\u00a0max(n) FROM cube",
                 "SELECT max(n)\x0bFROM cube", "SELECT count(*) FROM cube NOT INDEXED", "SELECT (SELECT max(n) FROM cube WHERE day = t.x) FROM towns t", "SELECT total(n) FROM cube WHERE day = (SELECT min(x) FROM towns)"]:
        wanted = attempt(db, text)
        rewritten = attempt(db, "SELECT tessera_sql(" + host.literal(text) + ")")
        if isinstance(wanted, Error):
            same(isinstance(rewritten, Error), True, text)
            continue
        if isinstance(rewritten, Error):
            raise AssertionError(f"{text}: {rewritten.text}")
        got = attempt(db, rewritten[0][0][0])
        same(sorted(map(repr, got[0])), sorted(map(repr, wanted[0])), text)


def test_statements_that_write_a_table():
    db = Database()
    cube(db)
    db.query(sql(db, "CREATE TABLE a AS SELECT day, count(*), max(v) AS m FROM cube GROUP BY day"))
    db.query("CREATE TABLE b AS SELECT day, count(*), max(v) AS m FROM cube GROUP BY day")
    same(db.query("SELECT * FROM a"), db.query("SELECT * FROM b"))
    same([row[1] for row in db.query("PRAGMA table_info(a)")], [row[1] for row in db.query("PRAGMA table_info(b)")])
    text = "INSERT OR IGNORE INTO main.a(day, m) SELECT day + 100, avg(v) FROM cube GROUP BY day"
    check_contains(sql(db, text), "tessera:")
    db.query(sql(db, text))
    same(db.value("SELECT count(*) FROM a"), 24)


# ---- Parameters ------------------------------------------------------------------------------------------------------------


def test_parameters():
    db = Database()
    cube(db)
    for value in (3, -3, 0, 2**63 - 1, -2**63, 1.5, -2.25, 1e300, 5e-324, 0.1, float("inf"), -float("inf"), None, "a", "", "it's", "a\0b", "\0", "é\n\"", b"", b"\x00\xff", 1e15, 123456789012345.67):
        same(db.query(sql(db, "SELECT ?, typeof(?1), quote(?1), count(*) FROM cube WHERE n <> 3", value)), db.query("SELECT ?, typeof(?1), quote(?1), count(*) FROM cube WHERE n <> 3", (value,)), repr(value))
        same_rows(db, "SELECT day, count(*) FROM cube WHERE v > ? OR n = ?1 GROUP BY day", value)
    for text, values in [("SELECT sum(n) FROM cube WHERE day BETWEEN ? AND ?", (2, 5)), ("SELECT sum(n) FROM cube WHERE day BETWEEN ?2 AND ?1", (5, 2)), ("SELECT sum(n - ?), '?', [?] FROM (SELECT n, 1 AS '?' FROM cube)", (-1,)),
                         ("SELECT max(n)-?FROM cube", (-5,)), ("SELECT day, x FROM cube WHERE v * 2 > ? ORDER BY ?, 1, 2", (3, 1)), ("SELECT day, count(*) FROM cube GROUP BY day, ?", (1,)), ("SELECT max(n) FROM cube WHERE day IN (1, ?) -- ?", (3,)),
                         ("SELECT day, max(v) FROM cube GROUP BY day ORDER BY day LIMIT ? OFFSET ?", (3, 1)), ("SELECT round(max(v), ?) FROM cube", (1,)), ("SELECT ?3, ?1, ? FROM cube GROUP BY 1", ("c", "b", "a", "d"))]:
        same_rows(db, text, *values)
    same(db.query(sql(db, "SELECT count(*), :a, @a, $b, :a FROM cube WHERE day = :a", 3, "x", "y")), [(10, 3, "x", "y", 3)])
    same(taken(db, "SELECT sum(n) FROM cube WHERE day = ?", 2), ["SELECT sum(n) FROM cube WHERE day = 2"])
    for text, values, message in [("SELECT ?, ?", (1,), "tessera_sql: 2 parameters, 1 value"), ("SELECT 1", (1, 2), "tessera_sql: 0 parameters, 2 values"), ("SELECT :a, :a", (1, 2), "tessera_sql: 1 parameter, 2 values"),
                                  ("SELECT ?999", (1,), "tessera_sql: 999 parameters, 1 value")]:
        check_contains(db.error("SELECT tessera_sql(" + ", ".join("?" * (1 + len(values))) + ")", (text,) + values).text, message)
    text = "SELECT (SELECT max(n) FROM cube), count(*) FROM towns WHERE x > ?"
    same(db.query(sql(db, text), (1,)), db.query(text, (1,)))
    check_contains(sql(db, text), "tessera:")


def test_parts_within_limits():
    """tessera_sql_within bounds a part: one that needs more memory is evaluated by rows, also over a path. Limits tell parts of one text apart."""
    db = Database()
    path = os.path.join(host.FOLDER, "wide")
    db.query(f"CREATE VIRTUAL TABLE wide USING tessera({host.literal(path)}, x INT32 DIMENSION(0, 99999, 10000), kind=dense, n INT64)")
    db.query("INSERT INTO wide WITH x(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM x WHERE x < 99999) SELECT x, x FROM x")
    for source in ("wide", f"'{path}'", f"'{path}' AS w", f"'{path}'('2100-01-01')", f"'{path}'('2100-01-01') w JOIN towns ON w.x = towns.x"):
        db.query("CREATE TABLE IF NOT EXISTS towns(x INTEGER PRIMARY KEY, label)")
        db.query("REPLACE INTO towns VALUES(7, 'seven'), (8, 'eight')")
        text = f"SELECT n, count(*) AS k FROM {source} WHERE n % 10 > ? GROUP BY n"
        made = [db.value("SELECT tessera_sql_within(?, ?, 5)", (options, text)) for options in (None, "{}", '{"threads":1}', '{"memory_mb":1}', '{"memory_mb":1000}')]
        same((made[0] == made[1], len(set(made))), (True, 4))
        same(made[0], sql(db, text, 5))
        parts(db)
        rows, found = [], []
        for statement in made:
            rows.append(sorted(db.query(statement)))
            found.append(parts(db))
        few = "towns" in source
        same((found, all(given == rows[0] for given in rows), len(rows[0])), ([(1, 0)] * 3 + [(1, 0) if few else (0, 1), (1, 0)], True, 2 if few else 40000), source)
    for arguments, says in (("'{\"memory\":1}', 'SELECT 1'", "'memory'"), ("'{\"threads\":0}', 'SELECT 1'", "'threads'"), ("7, 'SELECT 1'", "tessera_sql_within: "), ("'{}'", "expected options and a text"), ("", "expected options and a text"),
                            ("'{}', 'DELETE FROM wide'", "tessera_sql_within: expected a SELECT, not 'DELETE'"), ("'{}', 'SELECT ?', 1, 2", "1 parameter, 2 values")):
        check_contains(db.error(f"SELECT tessera_sql_within({arguments})").text, says)


def test_rows_of_a_path_within_limits():
    """What runs by rows over a path keeps to the same bounds, whether it is not taken or falls back. A table keeps to its own."""
    db = Database()
    path = os.path.join(host.FOLDER, "one-tile")
    db.query(f"CREATE VIRTUAL TABLE tile USING tessera({host.literal(path)}, x INT32 DIMENSION(0, 199999, 200000), kind=dense, n INT64)")
    db.query("INSERT INTO tile WITH x(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM x WHERE x < 199999) SELECT x, x FROM x")
    for text in ("SELECT count(*) FROM (SELECT x, n FROM {} WHERE n > 5)", "SELECT a.n FROM {} a, (SELECT 7 AS x) b WHERE a.x = b.x", "SELECT n, group_concat(x) FROM {} GROUP BY n % 2", "SELECT n, count(*) FROM {} GROUP BY n"):
        within = [db.value("SELECT tessera_sql_within(?, ?)", ('{"memory_mb":1}', text.format(source))) for source in (f"'{path}'", "tile")]
        check_contains(db.error(within[0]).text, "memory_mb allows 1048576 bytes")
        same(sorted(db.query(within[1])), sorted(db.query(sql(db, text.format(f"'{path}'")))), text)


# ---- Fallback, and the life of the tables ----------------------------------------------------------------------------------


def test_fallback_to_rows():
    db = Database()
    cube(db)
    db.query("CREATE TABLE large AS SELECT 4611686018427387904 AS k, 0 AS day UNION ALL SELECT 1, 1")
    parts(db)
    for text in ("SELECT l.day, s FROM large l JOIN (SELECT day, max(n * 9223372036854775807) AS s FROM cube GROUP BY day) c ON c.day = l.day",   # SQLite goes on with a REAL
                 "SELECT CASE WHEN day % 2 THEN 1 ELSE 1.0 END AS k, count(*) FROM cube GROUP BY k", "SELECT CASE WHEN n % 2 THEN x ELSE x * 1.0 END AS k, count(*) FROM cube GROUP BY k"):
        check_contains(same_rows(db, text), "tessera:")
        columns, rows = parts(db)
        same((columns, rows > 0), (0, True), text)
    same_rows(db, "SELECT day, sum(n) FROM cube GROUP BY day")
    same(parts(db), (1, 0))
    db.query("CREATE VIRTUAL TABLE wide USING tessera(x INT64 DIMENSION(0, 999999, 1000), memory_mb=1, a INT64)")
    db.query("INSERT INTO wide WITH x(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM x WHERE x < 30000) SELECT x, x * 7919 % 1000003 FROM x")
    parts(db)
    check_contains(same_rows(db, "SELECT a, count(*) FROM wide GROUP BY a"), "tessera:")
    same(parts(db), (0, 1), "groups that need more than memory_mb")


def test_fallback_with_a_condition_that_the_part_decides():
    """SQLite leaves the comparison of a datetime of cells to the part, and the rows that replace it must satisfy it, too."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE log USING tessera(x INT32 DIMENSION, at DATETIME_DAY, n INT64, t TEXT)")
    db.query("INSERT INTO log VALUES(1, '2024-01-01', 3, '3'), (2, '2024-01-02', 9223372036854775807, 'x'), (3, '2024-02-01', 5, NULL), (4, NULL, 6, '06'), (5, '2024-01-02', 7, '8')")
    db.query("CREATE TABLE days(day TEXT)")
    db.query("INSERT INTO days VALUES('2024-01-01'), ('2024-01-02'), (NULL)")
    parts(db)
    for term in ("at = '2024-01-02'", "at IS '2024-01-02T00:00'", "at >= '2024-01' AND at < '2024-02'", "at IN ('2024-01-01', '2024-02', 'no time')", "at BETWEEN '2024-01-02' AND '2025'", "at > '2024-01-01' AND m > 1", "at <= '1.1.2024'", "at <> '2024-01-02'", "at IS NOT '2024-01-01'"):
        for inner in ("SELECT at, n AS m, t FROM log WHERE n * 2 > 0", "SELECT at, n + 0 AS m, t FROM log WHERE n >= t -- text and a number\n"):
            text = f"SELECT count(*) OVER (ORDER BY m), m FROM ({inner}) WHERE {term}"
            check_contains(same_rows(db, text), "tessera:")
            same(parts(db)[1] > 0, True, text)
    same_rows(db, "SELECT day, m FROM days LEFT JOIN (SELECT at, n + 0 AS m FROM log WHERE n >= t) ON at = day")


def test_errors_of_the_data_are_errors():
    db = Database()
    path = os.path.join(host.FOLDER, "d")
    db.query(f"CREATE VIRTUAL TABLE d USING tessera('{path}', x INT32 DIMENSION(0, 99, 10), a INT32)")
    db.query("INSERT INTO d WITH x(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM x WHERE x < 99) SELECT x, x % 7 FROM x")
    rewritten = sql(db, "SELECT sum(a) FROM d WHERE a % 3 = 1")
    db.close()
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE d USING tessera('{path}')")
    for folder, _, files in os.walk(os.path.join(path, "__fragments")):
        for name in files:
            if name.startswith("a0"):
                with open(os.path.join(folder, name), "r+b") as f:
                    f.write(b"\xff" * 40)
    rewritten = sql(db, "SELECT sum(a) FROM d WHERE a % 3 = 1")
    parts(db)
    same(db.error(rewritten).code, 11, "SQLITE_CORRUPT")
    same(parts(db), (0, 0))


def steps(db, text):
    """Runs a statement row by row. Returns the number of rows before its error, and the code of the error, or None."""
    def all_rows():
        nonlocal count
        for _ in db.raw.cursor().execute(text):
            count += 1
    count = 0
    try:
        db.run(all_rows)
    except Error as e:
        return count, e.code
    return count, None


def test_errors_after_the_first_row():
    """A part that fails after it has given rows ends the statement with an error: it is neither shorter in silence, nor evaluated again. All that SQLite makes of the rows fails, too."""
    cells = 200000
    db = Database()
    path = os.path.join(host.FOLDER, "late")
    db.query(f"CREATE VIRTUAL TABLE d USING tessera('{path}', x INT32 DIMENSION(0, 999999, 1000), a INT64, t TEXT)")
    db.query(f"INSERT INTO d WITH x(x) AS (VALUES(0) UNION ALL SELECT x + 1 FROM x WHERE x < {cells - 2}) SELECT x, x % 7, 'a' FROM x")
    db.query(f"INSERT INTO d VALUES({cells - 1}, 9223372036854775807, replace(hex(zeroblob(15000000)), '00', 'ab'))")
    db.query("DROP TABLE d")
    db.query(f"CREATE VIRTUAL TABLE d USING tessera('{path}', memory_mb=8)")
    db.query("CREATE TABLE copy(x)")
    code_of = {"RANGE": 1, "TOOBIG": 18, "CORRUPT": 11, "INTERRUPT": 9}
    for name, what in (("RANGE", "a * 2"), ("TOOBIG", "a, t")):
        text = f"SELECT x, {what} FROM d WHERE a % 7 + x >= 0"
        rewritten = sql(db, text)
        check_contains(rewritten, "tessera:")
        for statement in (rewritten, f"SELECT row FROM tessera_select({host.literal(text)})"):
            parts(db)
            count, code = steps(db, statement)
            same((code, 0 < count < cells, parts(db)), (code_of[name], True, (1, 0)), statement)
        for around in ("SELECT count(*) FROM ({}) WHERE likely(x >= 0)", "SELECT max(x) OVER (ROWS 1 PRECEDING) FROM ({})", "SELECT 1 FROM ({}) UNION SELECT 2", "SELECT x FROM ({}) ORDER BY -x", "INSERT INTO copy SELECT x FROM ({})", "CREATE TABLE another AS SELECT x FROM ({})"):
            same(db.error(around.format(rewritten)).code, code_of[name], around)
        same(db.query("SELECT (SELECT count(*) FROM copy), (SELECT count(*) FROM sqlite_master WHERE name = 'another')"), [(0, 0)], "the statement is undone")
    text = sql(db, "SELECT x, a FROM d WHERE a % 7 + x >= 0")
    calls = 0

    def stop():
        nonlocal calls
        calls += 1
        return calls > 500
    db.raw.set_progress_handler(stop, 100)
    count, code = steps(db, text)
    db.raw.set_progress_handler(None, 0)
    same((code, 0 < count < cells), (9, True), "an interrupt")
    same(steps(db, text), (cells, None))
    db.close()
    for folder, _, files in os.walk(os.path.join(path, "__fragments")):
        for name in files:
            file = os.path.join(folder, name)
            if name == "a0.tdb" and os.path.getsize(file) > 1000:   # the last tiles of the first fragment
                with open(file, "r+b") as f:
                    f.seek(-60, os.SEEK_END)
                    f.write(b"\xff" * 60)
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE d USING tessera('{path}')")
    text = "SELECT x, a FROM d WHERE a % 7 + x >= 0"
    for statement in (sql(db, text), f"SELECT row FROM tessera_select({host.literal(text)})"):
        parts(db)
        count, code = steps(db, statement)
        same((code, 0 < count < cells, parts(db)), (11, True, (1, 0)), statement)


def test_life_of_the_tables():
    """The connection keeps 512 tables, and removes none that is in use."""
    db, other = Database(), Database()
    cube(db)
    cube(other)
    texts = [f"SELECT day, sum(n) + {i} AS s FROM cube GROUP BY day" for i in range(2000)]
    open_ = []
    for i, text in enumerate(texts):
        statement = sql(db, text)
        if i % 2 == 0 and i < 400:
            cursor = db.cursor(statement)
            open_.append((i, cursor, db.next(cursor)))
        elif i % 40 == 1:
            same(len(db.query(statement)), 12)
        if i % 400 == 0:
            same(len(other.query(sql(other, text))), 12)
    same(db.value("SELECT count(*) FROM pragma_module_list WHERE name LIKE 'tessera:%'"), 512)
    for i, cursor, first in open_:
        rows = [first]
        while (row := db.next(cursor)) is not None:
            rows.append(row)
        same(sorted(rows), sorted(db.query(texts[i])), texts[i])
    same(sql(db, texts[5]), sql(db, texts[5]), "equal texts share a table")
    parts = "SELECT " + ", ".join(f"(SELECT max(n) + {i} FROM cube)" for i in range(600))   # more than there can be tables
    same(db.query(sql(db, parts)), db.query(parts))
    check_contains(other.error(sql(db, texts[5])).text, "no such table: tessera:")
    db.query("BEGIN")
    statement = sql(db, texts[7])
    db.query("ROLLBACK")
    same(len(db.query(statement)), 12)
    db.close()
    other.close()


def test_a_schema_that_changes_before_the_run():
    db = Database()
    cube(db)
    db.query("CREATE TABLE spare(day, n)")
    whole, star = sql(db, "SELECT count(*) AS c FROM cube"), sql(db, "SELECT * FROM cube WHERE v * 2 > n")
    db.query("DROP TABLE cube")
    check_contains(db.error(whole).text, "no such table: ")
    db.query("CREATE VIRTUAL TABLE cube USING tessera(day INT32 DIMENSION(0, 9, 5), v FLOAT64, n INT64, m INT64)")
    same(db.query(whole), [(0,)], "the same columns of the result")
    check_contains(db.error(star).text, "the columns of cube have changed: rewrite the statement again")
    same(db.query(sql(db, "SELECT * FROM cube WHERE v * 2 > n")), [])
    db.query("DROP TABLE cube")
    db.query("ALTER TABLE spare RENAME TO cube")
    check_contains(db.error(star).text, "no such column: v")
    same(db.query(sql(db, "SELECT count(*) AS c FROM cube")), [(0,)])


# ---- tessera_select --------------------------------------------------------------------------------------------------------


def test_a_dropped_table_is_read_no_more():
    """SQLite disconnects a table only when no statement is left that was prepared with it, whose name may be another table's by then."""
    db = Database()
    for number, again in enumerate(("CREATE TABLE t(x, v)", "CREATE VIEW t AS SELECT 7 AS x, 7 AS v", "CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION, v INT32)")):
        db.query(f"CREATE VIRTUAL TABLE t USING tessera('{host.FOLDER}/dropped_{host.binding}_{number}', x INT32 DIMENSION(0, 99), v INT8)")
        db.query("INSERT INTO t VALUES(1, 2), (4, 5)")
        db.query("CREATE VIRTUAL TABLE q USING tessera_query(SELECT sum(v) FROM t)")
        text = sql(db, "SELECT sum(v) FROM t")
        same((db.value(text), db.value("SELECT * FROM q")), (7, 7))
        reading = db.cursor("SELECT x FROM t")
        same(db.next(reading), (1,))
        db.query("CREATE TABLE renamed(x)")
        db.query("ALTER TABLE renamed RENAME TO again")   # the schema is read anew, and the tables are connected again
        same(db.query("SELECT count(*) FROM t"), [(2,)])
        same(db.next(reading), (4,))
        del reading
        db.query("DROP TABLE again")
        db.query("DROP TABLE t")
        db.query(again)
        if "VIRTUAL" in again:
            same([db.query(statement) for statement in (text, "SELECT * FROM q")], [[(None,)], [(None,)]])
        else:
            for statement in (text, "SELECT * FROM q"):
                check_contains(db.error(statement).text, "not a tessera table")
            for statement in ("SELECT * FROM tessera_fragments('db:t')", "SELECT tessera_set_metadata('db:t', 'a', 1)", "SELECT tessera_hide('db:t')"):
                check_contains(db.error(statement).text, "t is not a tessera table" if "hide" not in statement else "no table of tessera")
        if again.startswith("CREATE TABLE"):
            same(sql(db, "INSERT INTO t SELECT 7, 700"), "INSERT INTO t SELECT 7, 700")
            db.query("INSERT INTO t VALUES(7, 700)")   # more than v INT8 of the dropped table held
            new = f"{host.FOLDER}/created_{host.binding}"
            db.query("SELECT tessera_create_as(?, 'SELECT x, v FROM t', '{\"dimensions\":[\"x\"]}')", (new,))
            same(db.query("SELECT name, datatype FROM tessera_schema(?)", (new,)), [("x", "INT64"), ("v", "INT64")])
        db.query("DROP TABLE q")
        db.query("DROP VIEW t" if "VIEW" in again else "DROP TABLE t")


def test_select():
    db = Database()
    cube(db)
    same(db.query("SELECT row FROM tessera_select('SELECT day, count(*) AS n, sum(n) FROM cube WHERE day < ? GROUP BY 1 ORDER BY 1', 2)"),
         [('{"day":0,"n":10,"sum(n)":45}',), ('{"day":1,"n":10,"sum(n)":145}',)])
    same(db.query("SELECT c1, c2 FROM tessera_select('SELECT day, sum(n) FROM cube GROUP BY 1') WHERE c1 > 9 ORDER BY c1 DESC"), [(11, 1145), (10, 1045)])
    text = "SELECT 9223372036854775807 AS a, 0.1 AS a, NULL AS \"b\"\"\", 9e999, x'00ff10' AS x, 'é\"\n\x01' AS t, 2.0 AS r"
    same(db.value("SELECT row FROM tessera_select(?)", (text,)), '{"a":9223372036854775807,"a_2":0.10000000000000001,"b\\"":null,"9e999":9e999,"x":"AP8Q","t":"é\\"\\u000a\\u0001","r":2.0}')
    same(db.value("SELECT row FROM tessera_select('SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a, 5 AS a_2')"), '{"a":1,"a_3":2,"a_2":3,"a_4":4,"a_2_2":5}', "no key stands twice")
    same(db.value("SELECT count(*) FROM tessera_select('SELECT day FROM cube WHERE v * 3 > n UNION ALL VALUES(1)')") > 0, True)
    same(db.query("SELECT c1 FROM tessera_select('WITH RECURSIVE n(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM n) SELECT n FROM n') LIMIT 3"), [(1,), (2,), (3,)], "LIMIT stops it")
    same(db.query("SELECT t.label, s.c1 FROM towns t, tessera_select('SELECT max(n) FROM cube WHERE x = ?', t.x) s ORDER BY 2"), [("one", 111), ("2", 112), (None, 113)])
    for text, message in [("INSERT INTO towns SELECT 1, 2", "tessera_select: 'INSERT' writes"), ("CREATE TABLE a AS SELECT 1", "tessera_select: 'CREATE' writes"), ("SELECT ?", "tessera_select: 1 parameters, 0 values"),
                          ("DROP TABLE towns", "tessera_select: expected a SELECT, not 'DROP'"), ("SELECT 1; SELECT 2", "tessera_select: one statement only"), ("SELECT * FROM nosuch", "tessera_select: no such table: nosuch")]:
        check_contains(db.error("SELECT row FROM tessera_select(?)", (text,)).text, message)
    check_contains(db.error("SELECT c2 FROM tessera_select('SELECT 1')").text, "tessera_select: no column c2: the text has 1")
    check_contains(db.error("SELECT c65 FROM tessera_select('SELECT 1')").text, "no such column: c65")
    check_contains(db.error("SELECT * FROM tessera_select").text, "tessera_select: expected a text")
    nested = "SELECT 1"
    for _ in range(8):
        nested = "SELECT c1 FROM tessera_select(" + host.literal(nested) + ")"
    same(db.query(nested), [(1,)])
    check_contains(db.error("SELECT c1 FROM tessera_select(" + host.literal(nested) + ")").text, "tessera_select calls itself")


if __name__ == "__main__":
    import sys
    host.main(sys.modules[__name__])
