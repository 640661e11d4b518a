"""Random texts of columnar queries: `CREATE VIRTUAL TABLE q USING tessera_query(TEXT)` must give the rows of `CREATE VIEW v AS TEXT`.

Texts of the "supported" kind must be taken. Keys, counts, minima, maxima, sums of integers and expressions of cells are equal, in value
and type; sums and averages of REAL agree as well as the order of additions allows; libm's functions but for their last digits; what
surrounds aggregates is computed again, from the table's own aggregates. The same holds for comparisons of the result's columns in outer
queries, and for joins with them. Other numbers of threads give the same bits. "Wild" texts are wrong on purpose in many ways: what a
view refuses, the table refuses; what the table refuses, it refuses in words that the manual knows; and all else it answers as the view.

The expected differences, and no more: integers that leave 64 bits are an error; sums of integers of which only a part leaves 64 bits
fit; an expression compared with a TEXT column (outer queries here have none); "text" in double quotes is a name; and functions that
this SQLite lacks.

usage: queries.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
environment: ROUNDS (sets of arrays), TEXTS (of each kind and array), SEED; SECOND=view puts views in the place of the tables
"""
import copy
import math
import os
import random
import re
import sys
import tempfile

import host
import query_arrays
import query_joins
from host import Database, Error, same
from query_arrays import DATE, INT, REAL, TEXT
from query_texts import Writer, dressed, quoted, spoil

ROUNDS = int(os.environ.get("ROUNDS", 1))
TEXTS = int(os.environ.get("TEXTS", 60))
SEED = int(os.environ.get("SEED", 1))
SECOND = os.environ.get("SECOND", "table")
MOST = 6   # failures that a test collects before it gives up

OVERFLOW = re.compile(r"integer overflow|INTEGER (past 2\^53 )?in one branch|past the integers of SQL|a year outside")
JOIN_REFUSED = re.compile(r"more than one row for a coordinate|compares a number with text|in one branch, |INTEGER in one row, REAL or TEXT in another|many coordinates|more than \d+ coordinates|the combinations of the values by which .* do not fit into memory_mb")
REFUSED = re.compile(r"not evaluated over columns: |neither a key of GROUP BY nor in an aggregate|compares a number with text|in one branch, |not a tessera table|no such tessera table|"
                     r"expected a SELECT|has values that cannot be compared|parameters are not allowed in tessera_query|nested deeper than|more than \d+ |too many |no such column: |no such function: ")


def attempt(db, sql):
    """Returns the rows and the names of their columns, or the error."""
    try:
        cursor = db.raw.cursor()
        rows = db.run(lambda: cursor.execute(sql).fetchall())
        return rows, names_of(cursor, rows)
    except Error as e:
        return e


def names_of(cursor, rows):
    try:
        return [d[0] for d in cursor.description or ()]
    except Exception:   # apsw gives none for a statement that has ended
        return None


def second(db, text, options=""):
    """Makes q: the table under test. Returns the error, or None."""
    if SECOND == "view":
        found = attempt(db, f"CREATE TEMP VIEW q AS {text}")
        return found if isinstance(found, Error) else None
    found = attempt(db, f"CREATE VIRTUAL TABLE temp.q USING tessera_query({options}{text}\n)")
    return found if isinstance(found, Error) else None


def drop(db):
    attempt(db, "DROP VIEW IF EXISTS temp.v")
    if SECOND == "view":
        attempt(db, "DROP VIEW IF EXISTS temp.q")
    else:
        attempt(db, "DROP TABLE IF EXISTS temp.q")


# ---- Comparing -------------------------------------------------------------------------------------------------------------


def plain(value):
    """-0.0 and 0.0 are one group, and equal for min and max."""
    return 0.0 if isinstance(value, float) and value == 0 else value


def mark(value):
    """Returns what makes a value equal to another one: its type and its bits."""
    return type(value).__name__, repr(plain(value))


def close(a, b, most):
    return a is None and b is None or (a is not None and b is not None and type(a) is type(b) and (a == b or abs(a - b) <= most))


def sums_agree(wanted, got, count, size, largest, average, version):
    """Whether two sums of REAL are equal but for the order of their additions. `count`, `size`, `largest`: how many values, the sum of their absolute values, the greatest."""
    if wanted is None or got is None or not isinstance(wanted, float):
        return mark(wanted) == mark(got) or (largest is not None and size > 1e300)
    if type(got) is not float:
        return False
    if size > 1e300:   # a part of the sum may be infinite in one order and finite in another
        return largest is None or not math.isinf(largest) or mark(wanted) == mark(got)
    if math.isinf(wanted) or math.isinf(got):
        return wanted == got
    most = count * size * (2.0**-100 if version >= (3, 43) else 2.0**-52) / (count if average else 1)
    return abs(wanted - got) <= 2 * math.ulp(wanted) + most


def differs(db, item, n, wanted, got, extra, row):
    """Returns what is wrong with a value of an item, or None. `row`: the whole row of the table."""
    version = db.version()
    if item.how == "sum":
        fine = sums_agree(wanted, got, *extra, item.sql.lower().startswith("avg"), version)
    elif item.how == "libm":
        fine = mark(wanted) == mark(got) or wanted is not None and got is not None and close(wanted, got, 8 * math.ulp(wanted))
    elif item.how == "number":
        fine = wanted == got
    elif item.how == "after":
        again = db.value(f"SELECT {item.template}", (row[item.argument],))
        fine = mark(again) == mark(got)
        wanted = again
    else:
        fine = mark(wanted) == mark(got)
    return None if fine else f"column {n}, {item.sql}: {got!r}, the view has {wanted!r}"


def compare(db, q, rows, view, extras):
    """Returns what is wrong with the rows of the table, or None. `view`: the view's rows; `extras`: of each row the companions of its sums."""
    if len(rows) != len(view):
        return f"{len(rows)} rows, the view has {len(view)}: {rows[:3]} against {view[:3]}"
    pairs = list(zip(view, extras))
    exact = [n for n, i in enumerate(q.items) if i.how == "exact"]
    if not q.ordered:
        def order(row):
            return [mark(row[n]) for n in exact]
        rows, pairs = sorted(rows, key=order), sorted(pairs, key=lambda p: order(p[0]))
        if any(i.how == "libm" for i in q.items) and not q.groups:   # rows without a key
            libm = [n for n, i in enumerate(q.items) if i.how == "libm"]

            def order_all(row):
                return order(row), [(row[n] is None, row[n] or 0.0) for n in libm]
            rows, pairs = sorted(rows, key=order_all), sorted(pairs, key=lambda p: order_all(p[0]))
    for got, (wanted, extra) in zip(rows, pairs):
        at = 0
        for n, item in enumerate(q.items):
            of = extra[at:at + 3] if item.how == "sum" else None
            at += 3 if of else 0
            wrong = differs(db, item, n, wanted[n], got[n], of, got)
            if wrong:
                return f"{wrong}\n  row   {got}\n  view  {wanted}"
    return None


class Tally:
    def __init__(self):
        self.texts = self.refused = self.overflow = self.empty = self.poor = 0
        self.failures = []


class Check:
    """One text: the view, the table, and what is wrong with it."""

    def __init__(self, db, q, r, tally, planted=None):
        self.db, self.q, self.r, self.tally, self.planted = db, q, r, tally, planted

    def wrong(self):
        """Returns what is wrong, or None."""
        db, q = self.db, self.q
        text = q.text() if self.planted else dressed(self.r, q.text())
        drop(db)
        try:
            full = attempt(db, q.text(q.companions()))
            view = attempt(db, f"CREATE TEMP VIEW v AS {text}")
            view = view if isinstance(view, Error) else attempt(db, "SELECT * FROM v")
            error = second(db, self.planted.text() if self.planted else text)
            table = error or attempt(db, "SELECT * FROM q")
            if isinstance(view, Error) or isinstance(full, Error):
                return self.view_failed(view if isinstance(view, Error) else full, table)
            if isinstance(table, Error):
                if q.risky and OVERFLOW.search(table.text or ""):
                    self.tally.overflow += 1
                    return None
                return f"refused: {table.text}"
            self.tally.empty += not view[0]
            if view[1] is not None and view[1] != table[1]:
                return f"its columns are {table[1]}, the view's {view[1]}"
            count = len(q.items)
            wrong = compare(db, q, table[0], [row[:count] for row in full[0]], [row[count:] for row in full[0]])
            if wrong and SECOND == "view" and q.risky:   # REAL and INTEGER in one group: either may stand for it
                return None
            return wrong or (None if self.planted else self.asked(view[0]) or self.again(table[0]))
        finally:
            drop(db)

    def view_failed(self, view, table):
        if self.q.risky and OVERFLOW.search(view.text or ""):
            self.tally.overflow += 1
            return None
        if isinstance(table, Error) and "overflow" not in (view.text or ""):
            return f"a supported text fails in the view, too: {view.text}"
        return f"the view fails ({view.text}), the table does not" if not isinstance(table, Error) else None

    def names(self):
        names = [row[1] for row in self.db.query("PRAGMA temp.table_info(v)")]
        return ['"' + name.replace('"', '""') + '"' for name in names]

    def asked(self, rows):
        """Outer queries, which may reach the dimensions of the array."""
        q, r = self.q, self.r
        columns = [n for n, i in enumerate(q.items) if i.how == "exact" and i.kind in (INT, REAL, TEXT, DATE)]   # the view compares UINT64 as the array does
        if not columns or not rows or r.random() < 0.5:
            return None
        names = self.names()
        terms = []
        for _ in range(r.randrange(1, 4)):
            n = r.choice(columns)
            terms.append(self.term(names[n], [row[n] for row in rows]))
        where = " AND ".join(terms) if r.random() < 0.8 else " OR ".join(terms)
        chosen = ", ".join(names[n] for n in columns)
        for sql in (f"SELECT {chosen} FROM TABLE_ WHERE {where}", f"SELECT o.label, {chosen} FROM ordinary o JOIN TABLE_ t ON {names[columns[0]]} {r.choice(['=', '=', '<', '>='])} o.{r.choice(['i', 'any', 'd'])} WHERE {terms[-1]}",
                    f"SELECT count(*) FROM TABLE_ WHERE {where}"):
            wanted, got = attempt(self.db, sql.replace("TABLE_", "v")), attempt(self.db, sql.replace("TABLE_", "q"))
            plainly = attempt(self.db, sql.replace("TABLE_", "(SELECT * FROM q LIMIT -1)"))
            if isinstance(got, Error) or isinstance(wanted, Error) or isinstance(plainly, Error):
                texts = [found.text if isinstance(found, Error) else "rows" for found in (wanted, got, plainly)]
                if not (q.risky and any(OVERFLOW.search(t) for t in texts)):
                    return f"{sql}: {texts}"
                continue
            wanted, got, plainly = [sorted([mark(v) for v in row] for row in found[0]) for found in (wanted, got, plainly)]
            if wanted != got or plainly != got:
                return f"{sql}: {len(got)} rows {got[:3]}, the view has {len(wanted)} {wanted[:3]}, without pushdown {len(plainly)} {plainly[:3]}"
        return None

    def term(self, name, values):
        r = self.r
        value = r.choice(values)
        if value is None or r.random() < 0.08:
            return f"{name} {r.choice(['IS NULL', 'IS NOT NULL', '= 3', 'IN (1, 2)'])}"
        texts = [literal_of(v) for v in [value] + r.sample(values, min(len(values), 2)) if v is not None]
        choice = r.randrange(9)
        if choice == 0:
            return f"{name} IN ({', '.join(texts)})"
        if choice == 8:
            return f"{name} {r.choice(['IN', 'IN', 'NOT IN'])} (SELECT {r.choice(['i', 'any', 'd', 'CAST(i AS REAL)', 'any AS x'])} FROM ordinary WHERE i {r.choice(['>= 0', '< 13', 'IN (1, 2, 5)'])})"
        if choice == 1:
            return f"{name} BETWEEN {min(texts, key=len)} AND {texts[-1]}"
        if choice == 2:
            return f"{name} {r.choice(['=', '<', '>='])} {quoted(value)}"
        if choice == 3 and isinstance(value, (int, float)):
            return f"{name} {r.choice(['<', '>', '<='])} {texts[0]} + 0.5"
        if choice == 4:
            return f"{texts[0]} {r.choice(['=', '<', '>='])} {name}"
        if choice == 5:
            return f"{name} {r.choice(['= 6', '> 0', '< 100.5', 'LIKE 1', '<> 2'])}"
        return f"{name} {r.choice(['=', '<', '>', '<=', '>=', '<>', 'IS'])} {texts[0]}"

    def again(self, rows):
        """Another number of threads, and less memory, change no bit."""
        if SECOND == "view" or self.r.random() < 0.7:
            return None
        wanted = sorted([repr(v) for v in row] for row in rows)
        for options in self.r.sample(["threads=1, ", "threads=2, ", "threads=7, memory_mb=64, ", "threads=16, "], 2):
            attempt(self.db, "DROP TABLE temp.q")
            error = second(self.db, self.q.text(), options)
            found = error or attempt(self.db, "SELECT * FROM q")
            if isinstance(found, Error):
                return f"with {options}: {found.text}"
            got = sorted([repr(v) for v in row] for row in found[0])
            if got != wanted:
                row = next((a, b) for a, b in zip(got + [None], wanted + [None]) if a != b)
                return f"with {options}: {row[0]}, before {row[1]}"
        return None


def literal_of(value):
    if isinstance(value, float):
        return "9e999" if value == math.inf else "-9e999" if value == -math.inf else repr(value)
    return quoted(value) if isinstance(value, str) else str(value)


def smaller(check):
    """Returns a query as wrong as this one, with less in it."""
    best = check.q
    changed = True
    while changed:
        changed = False
        for change in ("where", "having", "order", "item"):
            q = copy.deepcopy(best)
            if change == "item":
                if len(q.items) < 2 or q.items[-1].known or q.star:
                    continue
                q.items.pop()
            elif getattr(q, change):
                setattr(q, change, [] if change == "order" else None)
                if change == "order":
                    q.limit, q.ordered = "", False
            else:
                continue
            try:
                wrong = Check(check.db, q, random.Random(1), Tally(), check.planted).wrong()
            except Exception:
                continue
            if wrong and "in the view, too" not in wrong:
                best, changed = q, True
                break
    return best


# ---- Tests -----------------------------------------------------------------------------------------------------------------


def absent():
    """Whether this extension has no columnar queries yet."""
    if SECOND == "view" or Database().query("SELECT 1 FROM pragma_module_list WHERE name = 'tessera_query'"):
        return False
    print("  there is no tessera_query")
    return True


def arrays(seed):
    """Makes the arrays and a database in a folder of their own."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    os.chdir(folder)
    db = Database(os.path.join(folder, "a.db"))
    made = query_arrays.make(db, folder, random.Random(seed))
    db.query("CREATE TABLE ordinary(i INTEGER, any, label TEXT, d DATE)")
    for n in range(-12, 40):
        db.query("INSERT INTO ordinary VALUES(?, ?, ?, ?)", (n, n if n % 3 else f"{n:02}", f"row {n}", n if n % 2 else f"2020-{n % 12 + 1:02}-05"))
    db.query("CREATE VIEW a_view AS SELECT * FROM plane")
    return db, made


def failed(tally, seed, text, what, least=None):
    tally.failures.append(f"seed {seed}: {text}\n  {what}" + (f"\n  smaller: {least}" if least and least != text else ""))
    return len(tally.failures) >= MOST


def finish(tally, name):
    share = 100 / max(tally.texts, 1)
    print(f"  {name}: {tally.texts} texts with SEED={SEED}; {share * tally.refused:.0f} % refused, {share * tally.overflow:.1f} % left 64 bits, {share * tally.empty:.0f} % without rows")
    if tally.failures:
        raise AssertionError(f"{len(tally.failures)} failures\n" + "\n".join(tally.failures))


def supported(name, transaction=False):
    if absent():
        return
    tally = Tally()
    for round_ in range(ROUNDS):
        seed = f"{name} {SEED} {round_}"
        db, made = arrays(seed)
        for array in made:
            if transaction:
                db.query("BEGIN")
                query_arrays.own_rows(array, random.Random(seed), False)
            for n in range(TEXTS):
                r = random.Random(f"{seed} {array.name} {n}")
                check = Check(db, Writer(r, array, db.version()).query(), r, tally)
                tally.texts += 1
                wrong = check.wrong()
                if wrong and failed(tally, f"{seed} {array.name} {n}", check.q.text(), wrong, smaller(check).text()):
                    finish(tally, name)
            if transaction:
                db.query("ROLLBACK")
        db.close()
    finish(tally, name)


def test_supported_texts_give_the_rows_of_a_view():
    supported("supported")


def test_rows_of_the_open_transaction_are_seen():
    supported("transaction", True)


# ---- Aggregates that no view has -------------------------------------------------------------------------------------------


def statistic(name, values, percent):
    """Returns what an aggregate gives for values that are not null, and how far it may be off."""
    if name in ("median", "percentile"):
        if not values:
            return None, 0
        values = sorted(values)
        place = (len(values) - 1) * (0.5 if name == "median" else percent / 100)
        low, high = values[math.floor(place)], values[math.ceil(place)]
        off = 4 * math.ulp(max(abs(low), abs(high))) + 4 * (high - low) * math.ulp(place)
        return (float(low) if low == high else low + (high - low) * (place - math.floor(place))), off
    if len(values) < 2:
        return None, 0
    mean = math.fsum(values) / len(values)
    variance = math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)
    off = 1e-12 * max(v * v for v in values) + 1e-300
    return (math.sqrt(variance), math.sqrt(off)) if name == "stddev" else (variance, off)


def groups_of(rows, key_count):
    found = {}
    for row in rows:
        found.setdefault(tuple(mark(v) for v in row[:key_count]), []).append(row[key_count:])
    return found


def cut_down(writer, r):
    """Returns keys, a condition, and a source for a text whose groups are computed here from its cells."""
    source = writer.source()
    keys = [k for k in (writer.key() for _ in range(r.randrange(3))) if not k.risky]
    where = writer.truth(2)
    where = "" if where.risky or r.random() < 0.3 else f" WHERE {where.sql}"
    return source, [k.sql for k in keys], where


def grouped_text(keys, values, source, where):
    return f"SELECT {', '.join(keys + values)} FROM {source}{where}" + (" GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys))) if keys else "")


def on_each_array(name, function):
    """Calls the function, which returns a text and what is wrong, with texts of each array."""
    if absent() or SECOND == "view":
        return
    tally = Tally()
    for round_ in range(ROUNDS):
        seed = f"{name} {SEED} {round_}"
        db, made = arrays(seed)
        for array in made:
            for n in range(TEXTS // 2):
                r = random.Random(f"{seed} {array.name} {n}")
                tally.texts += 1
                text, wrong = function(db, array, Writer(r, array, db.version()), r)
                if wrong and failed(tally, f"{seed} {array.name} {n}", text, wrong):
                    finish(tally, name)
        db.close()
    finish(tally, name)


def statistics(db, array, writer, r):
    source, keys, where = cut_down(writer, r)
    value = writer.float(1) if r.random() < 0.7 else writer.leaf(r.choice(writer.of(INT)))
    chosen = [(name, r.choice([0, 10, 25, 33.3, 50, 90, 99.5, 100])) for name in r.sample(["median", "percentile", "stddev", "variance"], r.randrange(1, 5))]
    values = [f"percentile({value.sql}, {percent})" if name == "percentile" else f"{name}({value.sql})" for name, percent in chosen]
    text = grouped_text(keys, values, source, where)
    cells = db.query(f"SELECT {', '.join(keys + [value.sql])} FROM {source}{where}")
    groups = groups_of(cells, len(keys)) if keys else {(): [row for row in cells]}
    drop(db)
    found = second(db, text) or attempt(db, "SELECT * FROM q")
    drop(db)
    if isinstance(found, Error):
        return text, f"refused: {found.text}"
    if len(found[0]) != len(groups):
        return text, f"{len(found[0])} groups, and not {len(groups)}"
    for row in found[0]:
        inside = groups.get(tuple(mark(v) for v in row[:len(keys)]))
        if inside is None:
            return text, f"a group that no cell has: {row}"
        numbers = [v for v, in inside if v is not None]
        if any(math.isinf(v) or abs(v) > 1e18 for v in numbers):
            continue
        for (name, percent), got in zip(chosen, row[len(keys):]):
            wanted, off = statistic(name, numbers, percent)
            if not close(wanted, got, off) and wanted != got:
                return text, f"{name} {percent}: {got!r} and not {wanted!r}, in {row}"
    return text, None


def test_medians_percentiles_and_deviations():
    on_each_array("statistics", statistics)


def test_zeros_and_advice_of_medians_in_little_memory():
    """A median that is zero is 0.0 however its values were sorted, as SQL's zeros are; a median that lacks memory names an amount that suffices."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE z USING tessera(kind=dense, x INT32 DIMENSION(0, 149999, 1000), g INT32, v FLOAT64)")
    db.query("WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 149999) INSERT INTO z SELECT i, i % 20, iif(i * 7919 % 150000 < 75010, ?, 0.0) FROM n", (-0.0,))
    text = "SELECT g, median(v), percentile(v, 20), percentile(v, 45), percentile(v, 70) FROM z GROUP BY g"
    signs = {}
    for memory, threads in ((1024, 1), (1024, 2), (8, 1), (6, 1), (5, 1), (5, 2)):
        assert not second(db, text, f"memory_mb={memory}, threads={threads}, ")
        found = attempt(db, "SELECT * FROM q ORDER BY 1")
        drop(db)
        if not isinstance(found, Error):
            signs[memory, threads] = [tuple(math.copysign(1, v) for v in row[1:]) for row in found[0]]
    assert len(signs) > 3 and set(sum(sum(signs.values(), []), ())) == {1.0}, {key: value[:2] for key, value in signs.items()}
    for memory in (1, 2):
        text = "SELECT median(x) FROM z"
        refused = second(db, text, f"memory_mb={memory}, ") or attempt(db, "SELECT * FROM q")
        drop(db)
        advised = int(re.search(r"or memory_mb=(\d+)", refused.text)[1])
        second(db, text, f"memory_mb={advised}, ")
        same(db.query("SELECT * FROM q"), [(74999.5,)], refused.text)
        drop(db)


def extremes(db, array, writer, r):
    """Columns beside one min or max have the values of its row; of equal extremes that of the least coordinates."""
    if array.name == "stations":   # several cells have the same coordinates
        return "", None
    source, keys, where = cut_down(writer, r)
    value = writer.leaf(r.choice(writer.of(REAL, INT)))
    dims = [c.sql for c in array.columns if c.dimension]
    beside = dims + [r.choice([c for c in writer.columns if c.kind in (INT, REAL, TEXT)]).sql]
    which = r.choice(["min", "max"])
    text = grouped_text(keys, [f"{which}({value.sql})"] + beside, source, where)
    cells = db.query(f"SELECT {', '.join(keys + [value.sql] + beside)} FROM {source}{where}")
    groups = groups_of(cells, len(keys)) if keys else {(): cells}
    drop(db)
    found = second(db, text) or attempt(db, "SELECT * FROM q")
    drop(db)
    if isinstance(found, Error):
        return text, f"refused: {found.text}"
    if len(found[0]) != len(groups):
        return text, f"{len(found[0])} groups, and not {len(groups)}"
    for row in found[0]:
        inside = groups.get(tuple(mark(v) for v in row[:len(keys)]), [])
        best = [v[0] for v in inside if v[0] is not None]
        if not best:
            continue
        best = min(best) if which == "min" else max(best)
        wanted = min((v for v in inside if v[0] == best), key=lambda v: v[1:1 + len(dims)])
        if [mark(v) for v in row[len(keys):]] != [mark(v) for v in wanted]:
            return text, f"{row[len(keys):]} and not {wanted}"
    return text, None


def test_columns_beside_an_extreme_are_of_its_row():
    on_each_array("extremes", extremes)


def alike(a, b, reals=True):
    """Whether rows are equal but for the last digits of REAL values, in any order. Without `reals` these may differ."""
    def key(row):
        return [(v is None, isinstance(v, str), f"{plain(v):.6e}" if isinstance(v, float) else str(v)) for v in row]
    if len(a) != len(b):
        return False
    for one, other in zip(sorted(a, key=key), sorted(b, key=key)):
        for x, y in zip(one, other):
            if type(x) is not type(y) or (isinstance(x, float) and reals and not (x == y or abs(x - y) <= 1e-9 * max(abs(x), abs(y), 1e-3))) or (not isinstance(x, float) and x != y):
                return False
    return True


def joined(db, array, writer, r):
    """A text with a join. What has several rows for a cell is an error here, and several rows in the view."""
    side = query_joins.Side(db, array, writer, r)
    text, risky = query_joins.text_of(side, array, writer, r)
    drop(db)
    view, error = attempt(db, text), second(db, text)
    table = error or attempt(db, "SELECT * FROM q")
    drop(db)
    if isinstance(table, Error):
        words = table.text or ""
        fine = JOIN_REFUSED.search(words) or isinstance(view, Error) or risky and OVERFLOW.search(words)
        return text, None if fine else f"refused: {words}", bool(JOIN_REFUSED.search(words))
    if isinstance(view, Error):
        return text, None if risky and OVERFLOW.search(view.text or "") else f"the view fails ({view.text}), the table does not", False
    wanted, got = [sorted([mark(v) for v in row] for row in found[0]) for found in (view, table)]
    return text, None if wanted == got else f"{side.kind}: {len(got)} rows {got[:3]}, the view has {len(wanted)} {wanted[:3]}", False


def test_joins_give_the_rows_of_a_view():
    if absent() or SECOND == "view":
        return
    tally = Tally()
    for round_ in range(ROUNDS):
        seed = f"joins {SEED} {round_}"
        db, made = arrays(seed)
        for array in made:
            for n in range(TEXTS // 4):
                r = random.Random(f"{seed} {array.name} {n}")
                tally.texts += 1
                text, wrong, refused = joined(db, array, Writer(r, array, db.version()), r)
                tally.refused += refused
                if wrong and failed(tally, f"{seed} {array.name} {n}", text, wrong):
                    finish(tally, "joins")
        db.close()
    finish(tally, "joins")
    assert tally.refused <= 0.3 * tally.texts, f"{tally.refused} of {tally.texts} are refused"


def same_somewhere(a, b):
    """Whether one column at least has equal values."""
    return any(sorted(map(mark, x)) == sorted(map(mark, y)) for x, y in zip(zip(*a), zip(*b)))


def wild_wrong(db, text, tally, risky):
    drop(db)
    bare = re.sub(r"--[^\n]*|/\*.*?\*/|'[^']*'", "", text, flags=re.S)
    several = ";" in bare
    if re.search(r",\s*,|,\s*$", bare) and SECOND != "view":   # SQLite drops empty arguments of CREATE VIRTUAL TABLE
        return None
    view = Error("several statements", 1) if several else attempt(db, f"CREATE TEMP VIEW v AS {text}")
    view = view if isinstance(view, Error) else attempt(db, "SELECT * FROM v")
    error = second(db, text)
    table = error or attempt(db, "SELECT * FROM q")
    drop(db)
    if isinstance(table, Error):
        tally.refused += 1
        words = table.text or ""
        if "internal" in words.lower():
            return f"refused: {words}"
        if not isinstance(view, Error) and re.search("syntax error|incomplete input", words):   # what SQLite takes and few people write: sum(ALL x), CAST(x AS 'text')
            tally.poor += 1
            return None
        if not isinstance(view, Error) and not REFUSED.search(words) and not OVERFLOW.search(words):
            return f"refused in words that the manual does not know: {words}"
        named = re.search(r"no such column: (\S+)", words)
        if not isinstance(view, Error) and named and '"' not in text and "rowid" not in text:
            return f"no such column, although the view has it: {words}"
        return None
    if isinstance(view, Error):
        if re.search(r"overflow|no such function: (median|percentile|stddev|variance)|Inf input to (median|percentile)", view.text or "", re.I):
            return None   # these functions are part of the grammar although this SQLite lacks them, and take infinite values
        return f"the view refuses it ({view.text}), the table does not"
    tally.empty += not view[0]
    if "LIMIT" in text.upper() or "ORDER" in text.upper() and len(view[0]) == len(table[0]) or alike(view[0], table[0]):
        return None
    if db.version() < (3, 43) and re.search(r"(avg|total|sum) *\(", text, re.I) and alike(view[0], table[0], False):   # SQLite's sums have few digits, where numbers are large
        return None
    if len(re.findall(r"\b(?:min|max)\s*\(", text, re.I)) and len(table[0]) == len(view[0]) and same_somewhere(view[0], table[0]):   # columns beside one min or max: of equal extremes the view takes another row
        return None
    return f"{len(table[0])} rows {table[0][:3]}, the view has {len(view[0])} {view[0][:3]}"


def test_wrong_texts_are_refused_as_views_are_or_in_known_words():
    if absent():
        return
    tally = Tally()
    for round_ in range(ROUNDS):
        seed = f"wild {SEED} {round_}"
        db, made = arrays(seed)
        for array in made:
            for n in range(TEXTS * 2):
                r = random.Random(f"{seed} {array.name} {n}")
                q = Writer(r, array, db.version()).query()
                q.limit = ""
                text = spoil(r, q)
                tally.texts += 1
                wrong = wild_wrong(db, text, tally, q.risky)
                if wrong and failed(tally, f"{seed} {array.name} {n}", text, wrong):
                    finish(tally, "wild")
        assert tally.poor <= 3 + tally.texts // 30, f"{tally.poor} texts that SQLite takes are said to be no SQL"
        same(db.value("SELECT count(*) FROM sqlite_schema WHERE name IN ('plane', 'ordinary', 'a_view')"), 3, "a text that was to be refused has run")
        db.close()
    finish(tally, "wild")


# ---- The test itself is tested ---------------------------------------------------------------------------------------------


def plant(q, kind):
    """Returns the query with an error in it, or None where it has no place for one."""
    q = copy.deepcopy(q)
    if kind == "where":
        q.where = f"NOT ({q.where})" if q.where else "0"
    elif kind == "limit" and q.limit.startswith("LIMIT ") and q.limit[6:].isdigit():
        q.limit = f"LIMIT {int(q.limit[6:]) + 1}"
    elif kind == "order" and q.order and " DESC" not in q.order[0] and " NULLS" not in q.order[0]:
        q.order[0] = q.order[0].replace(" ASC", "") + " DESC"
    elif kind == "sum" and any(i.how == "sum" for i in q.items):
        item = next(i for i in q.items if i.how == "sum")
        item.sql = f"{item.sql} * (1 + 1e-10)"
    elif kind == "type" and any(i.kind == INT and i.how == "exact" and not i.known for i in q.items):
        item = next(i for i in q.items if i.kind == INT and i.how == "exact" and not i.known)
        item.sql = f"CAST({item.sql} AS REAL)"
    elif kind == "value" and any(i.kind == REAL and i.how == "exact" for i in q.items) and not q.keys:
        item = next(i for i in q.items if i.kind == REAL and i.how == "exact")
        item.sql = f"({item.sql}) * (1 + 3e-16)"
    elif kind == "key" and any(i.known and i.kind == INT for i in q.items) and q.groups and not q.order and not q.having:
        item = next(i for i in q.items if i.known and i.kind == INT)
        q.keys = [str(n + 1) for n in range(len(q.keys))]
        item.sql = f"({item.sql}) | 1"
    else:
        return None
    if not q.star and q.text() != "":
        for item in q.items:
            item.alias = item.alias or None
    return None if q.star and kind in ("sum", "type", "value", "key") else q


def test_planted_errors_are_found():
    """A view with an error in the place of the table: nearly each that changes rows must be found."""
    global SECOND
    before, SECOND = SECOND, "view"
    try:
        db, made = arrays(f"planted {SEED}")
        found, planted = {}, {}
        for array in made:
            for n in range(max(TEXTS, 30)):   # with fewer texts, some kind of error has no room
                r = random.Random(f"planted {SEED} {array.name} {n}")
                q = Writer(r, array, db.version()).query()
                for item_number, item in enumerate(q.items):   # names of columns would tell
                    item.alias = item.alias or f"n{item_number}"
                if q.star or q.risky:
                    continue
                tally = Tally()
                wrong = Check(db, q, r, tally).wrong()
                assert not wrong, f"{q.text()}: a view differs from itself: {wrong}"
                rows = attempt(db, q.text())
                if isinstance(rows, Error) or not rows[0]:
                    continue
                for kind in ("where", "limit", "order", "sum", "type", "value", "key"):
                    bad = plant(q, kind)
                    other = attempt(db, bad.text()) if bad else None
                    if not bad or isinstance(other, Error) or repr(other[0]) == repr(rows[0]):   # 1 and 1.0 differ
                        continue
                    planted[kind] = planted.get(kind, 0) + 1
                    found[kind] = found.get(kind, 0) + bool(Check(db, q, r, tally, bad).wrong())
        print("  planted errors found: " + ", ".join(f"{k} {found[k]} of {planted[k]}" for k in sorted(planted)))
        for kind in ("where", "order", "sum", "type", "value", "key", "limit"):
            assert planted.get(kind, 0) >= 2 or SEED != 1, f"no text has room for a planted error in {kind}"
            assert found.get(kind, 0) >= 0.9 * planted.get(kind, 0), f"{kind}: {found[kind]} of {planted[kind]} are found"
        db.close()
    finally:
        SECOND = before


if __name__ == "__main__":
    host.main(sys.modules[__name__])
