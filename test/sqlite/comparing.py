"""Comparisons that mean more to the table than to SQLite: datetimes with ISO text of any precision, UINT64 with text of
digits. The expected rows are computed here, with Python's integers. Comparisons that SQLite makes itself have SQLite's
own results.

usage: comparing.py EXTENSION CORPUS
"""
import datetime
import math
import operator
import os
import random
import sys

import host
from host import Database, same

OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "<>": operator.ne, "IS": operator.eq, "IS NOT": operator.ne}
ATTO = 10**18
UNITS = {"YEAR": None, "MONTH": None, "WEEK": 604800 * ATTO, "DAY": 86400 * ATTO, "HR": 3600 * ATTO, "MIN": 60 * ATTO, "SEC": ATTO, "MS": 10**15, "US": 10**12, "NS": 10**9,
         "PS": 10**6, "FS": 1000, "AS": 1}


def operators(db):
    """Before SQLite 3.51 the table does not handle <> and IS NOT: SQLite offers such terms from the ON of an outer join to the wrong table."""
    return {name: f for name, f in OPERATORS.items() if db.version() >= (3, 51) or f is not operator.ne}


def instant(unit, value):
    """Returns a time as half attoseconds since 1970."""
    if UNITS[unit]:
        return 2 * value * UNITS[unit]
    months = value * (12 if unit == "YEAR" else 1)
    year, month = 1970 + months // 12, months % 12 + 1
    era = year // 400 - 4   # the calendar repeats every 400 years
    return (datetime.date(year - era * 400, month, 1).toordinal() + era * 146097 - datetime.date(1970, 1, 1).toordinal()) * 86400 * ATTO * 2


def some_text(r):
    """Returns ISO text of a random precision, and the first instant that it means."""
    year = r.choice([1969, 1970, 1971, 2024, 1900, 2400])
    day = datetime.date(year, r.choice([1, 1, 2, 12]), r.choice([1, 1, 2, 28]))
    hour, minute, second = r.choice([(0, 0, 0), (0, 0, 0), (5, 0, 0), (5, 6, 0), (23, 59, 59)])
    digits = "".join(r.choice("059") for _ in range(r.choice([3, 6, 9, 12, 18, 20])))
    forms = [(f"{year:04}", 0), (f"{year:04}-{day.month:02}", 1), (day.isoformat(), 2), (f"{day}T{hour:02}", 3), (f"{day} {hour:02}:{minute:02}", 4),
             (f"{day}T{hour:02}:{minute:02}:{second:02}", 5), (f"{day} {hour:02}:{minute:02}:{second:02}.{digits}", 6)]
    text, precision = r.choice(forms)
    first = day if precision >= 2 else datetime.date(year, day.month if precision else 1, 1)
    at = (first.toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86400
    at += (hour * 3600 if precision >= 3 else 0) + (minute * 60 if precision >= 4 else 0) + (second if precision >= 5 else 0)
    # Digits after the 18th are fractions of an attosecond: it only matters whether they are zero.
    fraction = 2 * int(digits[:18].ljust(18, "0")) + (int(digits[18:] or 0) > 0) if precision == 6 else 0
    zone, east = r.choice([("", 0), ("Z", 0), *([("+02:00", 2), (" -1130", -11.5), ("+05", 5)] if precision >= 3 else [])])
    return text + zone, 2 * (at - int(east * 3600)) * ATTO + fraction


def near(unit, at, r):
    """Returns a value of the unit near an instant."""
    at //= 2
    if UNITS[unit]:
        value = at // UNITS[unit]
    else:
        months = at // (ATTO * 86400 * 365 // 12)
        value = months // 12 if unit == "YEAR" else months
    value += r.choice([-1, 0, 0, 1, 2])
    return value if -2**63 < value < 2**63 - 1 else r.choice([-2**63 + 1, 2**63 - 2, 0, 1])


def ask(db, unit, texts, r, dimension):
    rows = dict(db.query("SELECT k, t FROM raw"))
    instants = {k: None if t is None or t == -2**63 else instant(unit, t) for k, t in rows.items()}
    for text, at in texts:
        low, low_at = r.choice(texts)
        for name, compare in operators(db).items():
            want = sorted(k for k, v in instants.items() if (compare(v, at) if v is not None else name == "IS NOT"))
            for sql, parameters in ((f"t {name} ?", (text,)), (f"t {name} '{text}'", ()), (f"t {name} substr(?, 1)", (text,))):
                same([k for k, in db.query(f"SELECT k FROM a WHERE {sql} ORDER BY k", parameters)], want, (unit, dimension, sql, text))
        want = sorted(k for k, v in instants.items() if v is not None and v in (at, low_at))
        same([k for k, in db.query("SELECT k FROM a WHERE t IN (?, ?, 'x') ORDER BY k", (text, low))], want, (unit, "IN", text, low))
        same([k for k, in db.query("SELECT k FROM a WHERE t IN (SELECT x FROM o WHERE x IN (?, ?)) ORDER BY k", (text, low))], want, (unit, "IN SELECT", text, low))
        want = sorted(k for k, v in instants.items() if v is not None and low_at <= v < at)
        same([k for k, in db.query("SELECT k FROM a WHERE t >= ? AND t < ? ORDER BY k", (low, text))], want, (unit, "between", low, text))
        # Beside IS no constant takes the column's place: the table is given both.
        for name, compare in operators(db).items():
            if name == "=":
                continue
            want = sorted(k for k, v in instants.items() if v is not None and v == at and compare(v, low_at))
            for sql, parameters in ((f"t IS ? AND t {name} ?", (text, low)), (f"t {name} '{low}' AND t IS '{text}'", ())):
                same([k for k, in db.query(f"SELECT k FROM a WHERE {sql} ORDER BY k", parameters)], want, (unit, dimension, sql, text, low))
        want = sorted(k for k, v in instants.items() if v is not None and v <= at)
        same([k for k, in db.query("SELECT k FROM o CROSS JOIN a ON a.t <= o.x WHERE o.x = ? ORDER BY k", (text,))], want, (unit, "joined", text))


def test_iso_text_compares_with_datetimes_as_an_instant():
    r = random.Random("datetimes")
    for unit in UNITS:
        for dimension in (False, True):
            db = Database()
            texts = sorted(dict(some_text(r) for _ in range(12)).items())
            type_ = f"DATETIME_{unit}"
            columns = f"t {type_} DIMENSION, k INT64" if dimension else f"k INT64 DIMENSION, t {type_}"
            folder = os.path.join(host.FOLDER, f"{unit}{dimension}")
            db.query(f"CREATE VIRTUAL TABLE raw USING tessera('{folder}', datetimes=integer, {columns})")
            values = sorted({near(unit, at, r) for _, at in texts} | {r.randrange(-2**62, 2**62) if UNITS[unit] and UNITS[unit] < ATTO else 0, 5})
            for k, value in enumerate(values):
                db.query("INSERT INTO raw(k, t) VALUES(?, ?)", (k, value))
            if not dimension:
                db.query("INSERT INTO raw(k, t) VALUES(-1, NULL), (-2, -9223372036854775808)")
            db.query("CREATE TABLE o(x TEXT)")
            for text, _ in texts:
                db.query("INSERT INTO o VALUES(?)", (text,))
            db.table("a", folder)
            ask(db, unit, texts, r, dimension)
            db.close()


def test_years_after_9999_are_later_than_all_text():
    """Years past 9999 are shown as integers, and are later than any ISO text."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(k INT DIMENSION, t DATE)")
    db.query("INSERT INTO a VALUES(1, '2024-01-03'), (2, 3000000), (3, -800000), (4, NULL), (5, '2024-01-04')")
    for right in ("'2024-01-03'", "datetime('2024-01-03')", "'2024-01-03T00'"):
        same([k for k, in db.query(f"SELECT k FROM a WHERE t >= {right} ORDER BY k")], [1, 2, 5], right)
        same([k for k, in db.query(f"SELECT k FROM a WHERE t < {right} ORDER BY k")], [3], right)
        if "<>" in operators(db):
            same([k for k, in db.query(f"SELECT k FROM a WHERE t <> {right} ORDER BY k")], [2, 3, 5], right)
            same([k for k, in db.query(f"SELECT k FROM a WHERE t IS NOT {right} ORDER BY k")], [2, 3, 4, 5], right)


def test_which_comparisons_the_table_takes():
    """Checks by the plan which comparisons the table takes, and which it leaves to SQLite."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(day DATE DIMENSION, v INT)")
    for i in range(1, 32):
        db.query("INSERT INTO a VALUES(?, ?)", (f"2024-01-{i:02}", i))
    many = " AND ".join(f"v > -{i}" for i in range(1, 18))
    for where, want in (("day >= '2024-01-30 00:00:00'", [30, 31]), ("day <= '2024-01'", [1]), ("day < '2024-01'", []), ("day >= '2024-01' AND day < '2024-01-03T00:00:00.000Z'", [1, 2]),
                        ("day BETWEEN '2024-01-30 12:00' AND '2024'", []), ("day BETWEEN '2024-01-30 12:00' AND '2025'", [31]), ("day = '2024-01-05 00:00'", [5]),
                        ("day = '2024-01-05 00:01'", []), ("day > datetime('2024-01-30', '-1 second')", [30, 31]), ("day IN ('2024-01-05T00:00', '2024')", [1, 5]),
                        ("day GLOB '2024-01-3*'", [30, 31]), ("day LIKE '2024-01-3%'", [30, 31]), ("day GLOB '2024-01-1*' AND day < '2024-01-12T00'", [10, 11]),
                        # SQLite compares these as text.
                        ("+day >= '2024-01-30 00:00:00'", [31]), ("day || '' = '2024-01-05 00:00'", []), ("day >= '2024-01-30 00:00:00' COLLATE NOCASE", [31]),
                        (many + " AND day >= '2024-01-30 00:00:00'", [31]), (many + " AND day >= '2024-01-30'", [30, 31])):
        same([v for v, in db.query(f"SELECT v FROM a WHERE {where} ORDER BY v")], want, where)
    same(db.query("SELECT max(day) FROM a WHERE day < datetime('2024-01-10')"), [("2024-01-09",)])
    db.query("UPDATE a SET v = v + 100 WHERE day = '2024-01-05 00:00:00'")
    db.query("DELETE FROM a WHERE day >= '2024-01-06T00:00:00Z'")
    same(db.query("SELECT v FROM a ORDER BY v"), [(1,), (2,), (3,), (4,), (105,)])
    same("PLAINLY" in db.plan(f"SELECT * FROM a WHERE {many} AND day >= '2024-01-30 00:00:00'"), True)


def test_forms_that_are_right_everywhere():
    """The forms that the manual recommends where SQLite compares by itself: beside an equality, and if the array is the outer table of a join."""
    db = Database()
    for name, columns in (("a", "day DATE DIMENSION, v INT"), ("b", "day DATE DIMENSION('2024-01-01', '2024-12-31'), v INT"), ("c", "v INT DIMENSION, day DATE")):
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({columns})")
        for i in range(1, 10):
            db.query(f"INSERT INTO {name}(day, v) VALUES(?, ?)", (f"2024-01-0{i}", i))
        midnight = "2024-01-03 00:00"
        for where in (f"day IS '{midnight}' AND day <= '2024-01-03'", f"day IS '{midnight}' AND day IS '2024-01-03'", f"day <= '2024-01-03' AND '{midnight}' IS day",
                      f"day IS '{midnight}' AND (day <= '2024-01-03' OR v = 17)", "day = '2024-01-03' AND day <= '2024-01-03'",
                      f"day BETWEEN '{midnight}' AND '{midnight}' AND day <= '2024-01-03'", f"day IN (SELECT '{midnight}') AND day <= '2024-01-03'"):
            same(db.query(f"SELECT v FROM {name} WHERE {where}"), [(3,)], (name, where))
        same(db.query(f"SELECT v FROM {name} WHERE day IS ? AND day <= ?", (midnight, "2024-01-03")), [(3,)])
        same(db.query(f"SELECT v FROM (SELECT * FROM {name} WHERE day <= '2024-01-03') WHERE day IS ?", (midnight,)), [(3,)])
    db.query("CREATE TABLE j(x TEXT)")
    db.query("INSERT INTO j VALUES('2024-01-03 00:00'), ('2024-01-04'), ('2024-01-05T00:00:00Z')")
    for tables in ("a CROSS JOIN j", "j CROSS JOIN a", "a JOIN j", "j LEFT JOIN a"):
        for on in ("a.day = date(j.x)", "date(j.x) = a.day", "a.day IS date(j.x)"):
            same(db.query(f"SELECT v FROM {tables} ON {on} ORDER BY v"), [(3,), (4,), (5,)], (tables, on))


def test_integers_past_the_reals_compare_exactly():
    """An INTEGER between two REALs, such as 2^53 + 1, compares by its value with a column of FLOAT64, as in an ordinary table."""
    db = Database()
    reals = [sign * (float(2**power) + step) for sign in (1, -1) for power in (24, 53, 54, 62, 63) for step in (-1024.0, -2.0, -1.0, 0.0, 1.0, 2.0, 1024.0)]
    integers = [sign * (2**power + step) for sign in (1, -1) for power in (24, 53, 54, 62) for step in (-3, -1, 0, 1, 2, 3)] + [2**63 - 1, -2**63]
    db.query("CREATE TABLE o(f REAL)")
    for datatype in ("FLOAT64", "FLOAT32"):
        db.query(f"CREATE VIRTUAL TABLE a USING tessera(f {datatype} DIMENSION, v {datatype}, duplicates=yes)")
        db.query("DELETE FROM o")
        for real in reals:
            db.query("INSERT INTO a VALUES(?, ?)", (real, real))
        db.query("INSERT INTO o SELECT f FROM a")
        for integer in integers:
            for name in OPERATORS:
                want = db.query(f"SELECT f FROM o WHERE f {name} ? ORDER BY f", (integer,))
                for column in ("f", "v"):
                    for right, parameters in (("?", (integer,)), (f"({integer})", ())):
                        same(db.query(f"SELECT f FROM a WHERE {column} {name} {right} ORDER BY f", parameters), want, (datatype, column, name, integer))
        db.query("DROP TABLE a")


def test_days_without_text_compare_with_fractions():
    """Days before the year 0 and after 9999 are shown as integers, and compare with a number as numbers do: also with one between two days."""
    days = [-800001, -800000, -799999, 3000000, 3000001, 3000002]
    db = Database()
    for columns in ("k INT DIMENSION, t DATE", "t DATE DIMENSION, k INT"):
        db.query(f"CREATE VIRTUAL TABLE a USING tessera({columns})")
        for k, day in enumerate(days):
            db.query("INSERT INTO a(k, t) VALUES(?, ?)", (k, day))
        for number in (3000000.5, 3000001.0, 3000001, 3000001.25, -800000.5, -800000.0, -800000, -799999.75, 1e18, -1e300):
            for name, compare in operators(db).items():
                want = [k for k, day in enumerate(days) if compare(day, number)]
                same([k for k, in db.query(f"SELECT k FROM a WHERE t {name} ? ORDER BY k", (number,))], want, (columns, name, number))
        db.query("DROP TABLE a")


def test_functions_return_the_form_of_the_column():
    """The functions in the manual's table return exactly the text that the column shows."""
    db = Database()
    iso = "'2024-05-02T07:08:09.123Z'"
    for type_, function in (("DATETIME_YEAR", "strftime('%Y', x)"), ("DATETIME_MONTH", "strftime('%Y-%m', x)"), ("DATETIME_WEEK", "date(x)"), ("DATETIME_DAY", "date(x)"),
                            ("DATETIME_HR", "strftime('%Y-%m-%d %H:00', x)"), ("DATETIME_MIN", "strftime('%Y-%m-%d %H:%M', x)"), ("DATETIME_SEC", "datetime(x)"),
                            ("DATETIME_MS", "strftime('%Y-%m-%d %H:%M:%f', x)"), ("TIME_MIN", "strftime('%H:%M', x)"), ("TIME_SEC", "time(x)")):
        db.query(f"CREATE VIRTUAL TABLE a USING tessera(k INT DIMENSION, t {type_})")
        db.query(f"INSERT INTO a SELECT 1, {function} FROM (SELECT {iso} AS x)")
        for t in ("t", "+t", "t || ''"):
            same(db.query(f"SELECT k FROM a, (SELECT {iso} AS x) WHERE {t} = {function}"), [(1,)], (type_, t))
        db.query("DROP TABLE a")


def test_digits_in_the_form_of_the_column():
    numbers = [0, 7, 10**17, 10**18, 2**63 - 1, 2**63, 9999999999999999999, 10**19, 2**64 - 2]
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(u UINT64 DIMENSION, k INT)")
    db.query("CREATE TABLE j(x TEXT, k INT)")
    for k, n in enumerate(numbers):
        db.query("INSERT INTO a VALUES(?, ?)", (str(n), k))
        for text in (str(n), "0" + str(n), "000000000000000000000" + str(n)):
            db.query("INSERT INTO j VALUES(?, ?)", (text, k))
    own = "CASE WHEN length(x) < 19 OR substr('0' || x, -20) < '09223372036854775808' THEN CAST(x AS INTEGER) ELSE substr('0' || x, -20) END"
    same(db.query(f"SELECT DISTINCT {own} FROM j ORDER BY 1"), db.query("SELECT u FROM a ORDER BY u"))
    for tables in ("a CROSS JOIN j", "j CROSS JOIN a"):
        same(db.query(f"SELECT a.k, j.k FROM {tables} ON a.u = {own} ORDER BY 1"), [(k, k) for k in range(len(numbers)) for _ in range(3)], tables)
    for where in ("u IS '7' AND u IS '07'", "u IS '07' AND u < '10'", "u = 7 AND u < 10", "u IS '7' AND u > 6"):
        same(db.query(f"SELECT k FROM a WHERE {where}"), [(1,)], where)


def test_joins_use_the_other_tables_indexes():
    """With either column on the left, and beside an equality. SQLite uses an index only if the comparison has the index's collation."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(day DATE DIMENSION, u UINT64 DIMENSION, k INT)")
    db.query("INSERT INTO a VALUES('2024-01-03', 7, 1)")
    db.query("CREATE TABLE j(day TEXT, u INT)")
    db.query("INSERT INTO j VALUES('2024-01-03', 7)")
    db.query("CREATE INDEX j_day ON j(day)")
    db.query("CREATE INDEX j_u ON j(u)")
    for column, value in (("day", "'2024-01-03'"), ("u", "7")):
        for on in (f"a.{column} = j.{column}", f"j.{column} = a.{column}"):
            for sql in (f"SELECT count(*) FROM a CROSS JOIN j ON {on}", f"SELECT count(*) FROM a JOIN j ON {on} WHERE a.{column} = {value}", f"SELECT count(*) FROM a LEFT JOIN j ON {on}",
                        f"SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM j WHERE {on})"):
                same(f"INDEX j_{column} ({column}=?)" in db.plan(sql), True, (sql, db.plan(sql)))
                same(db.query(sql), [(1,)], sql)


def test_a_join_that_was_prepared_while_the_arrays_were_empty():
    """The binding keeps its prepared statements, so a plan that leaves the comparison to SQLite would stay after the INSERTs."""
    joins = ("d, s WHERE d.t = s.t", "s, d WHERE d.t = s.t", "d JOIN s ON s.t = d.t", "d JOIN s USING(t)", "d LEFT JOIN s ON s.t >= d.t AND s.t <= d.t WHERE s.w",
             "(SELECT * FROM d ORDER BY t) d, s WHERE d.t = s.t", "d, s, d e WHERE d.t = s.t AND e.t = s.t")
    for columns in ("t {} DIMENSION, {} INTEGER", "k INT32 DIMENSION, t {}, {} INTEGER"):
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE d USING tessera({columns.format('DATE', 'v')})")
        db.query(f"CREATE VIRTUAL TABLE s USING tessera({columns.format('DATETIME_SEC', 'w')})")
        for join in joins:
            same(db.query(f"SELECT d.v, w FROM {join}"), [])
        k = 0
        for day in ("2024-01-01", "2024-01-02"):   # one cell has no range of values to estimate by
            k += 1
            db.query("BEGIN")
            more = (k,) if "k INT32" in columns else ()
            db.query(f"INSERT INTO d VALUES({'?, ' * len(more)}?, ?)", more + (day, k))
            db.query(f"INSERT INTO s VALUES({'?, ' * len(more)}?, ?)", more + (day + " 00:00:00", 10 * k))
            for end in ("SELECT 1", "COMMIT"):
                for join in joins:
                    same(sorted(db.query(f"SELECT d.v, w FROM {join}")), [(i, 10 * i) for i in range(1, k + 1)], (join, columns, end))
                db.query(end)
        db.close()


def test_times_of_day_compare_with_text():
    db = Database()
    db.query("CREATE VIRTUAL TABLE a USING tessera(k INT DIMENSION, t TIME_SEC, m TIME_MIN)")
    db.query("INSERT INTO a VALUES(1, '05:06:00', '05:06'), (2, '05:06:07', '05:07'), (3, '05:07:00', '00:00')")
    same(db.query("SELECT k FROM a WHERE t = '05:06' ORDER BY k"), [(1,)])
    same(db.query("SELECT k FROM a WHERE t > '05:06' ORDER BY k"), [(2,), (3,)])
    same(db.query("SELECT k FROM a WHERE m >= '05:06:00.5' ORDER BY k"), [(2,)])
    same(db.query("SELECT k FROM a WHERE m >= time('05:06:00') ORDER BY k"), [(1,), (2,)])
    same(db.query("SELECT k FROM a WHERE t < '2024-01-01' ORDER BY k"), [(1,), (2,), (3,)])   # no time of day: text


def test_text_of_digits_compares_with_uint64_as_a_number():
    r = random.Random("unsigned")
    numbers = sorted({0, 1, 7, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2} | {r.getrandbits(64) for _ in range(20)} | {2**63 + 1000 + i for i in range(5)})
    for columns in ("u UINT64 DIMENSION, k INT", "k INT DIMENSION, u UINT64"):
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE a USING tessera({columns})")
        for k, n in enumerate(numbers):
            db.query("INSERT INTO a(k, u) VALUES(?, ?)", (k, str(n)))
        same([int(u) for u, in db.query("SELECT u FROM a ORDER BY u")], [n for n in numbers])
        same([type(u) for u, in db.query("SELECT u FROM a ORDER BY u DESC")], [int if n < 2**63 else str for n in reversed(numbers)])
        for n in numbers + [2**64, 10**30, 5]:
            text = r.choice(["", "0", "000000000000"]) + str(n)
            rights = [text] + ([n] if n < 2**63 else []) + ([f"{n:020}"] if 2**63 <= n < 2**64 else [])
            for right in rights:
                for name, compare in operators(db).items():
                    want = [k for k, v in enumerate(numbers) if compare(v, n)]
                    same([k for k, in db.query(f"SELECT k FROM a WHERE u {name} ? ORDER BY k", (right,))], want, (columns, name, right))
                same(db.query("SELECT k FROM a WHERE u IN (?, 'x') ORDER BY k", (right,)), [(k,) for k, v in enumerate(numbers) if v == n], (columns, right))
        for n in numbers[::3]:
            db.query("DELETE FROM a WHERE u = ?", (str(n),))
        same([int(u) for u, in db.query("SELECT u FROM a ORDER BY u")], [n for i, n in enumerate(numbers) if i % 3])
        db.close()


def test_minus_zero_is_zero_in_a_coordinate():
    db = Database()
    for datatype in ("FLOAT64", "FLOAT32"):
        db.query(f"CREATE VIRTUAL TABLE a USING tessera(f {datatype} DIMENSION(-10, 10), v {datatype})")
        db.query("INSERT INTO a VALUES(?, ?)", (0.0, 1.0))
        db.query("INSERT INTO a VALUES(?, ?)", (-0.0, -0.0))
        db.query("INSERT INTO a VALUES('-0.0', '-0.0')")
        (f, v), = db.query("SELECT f, v FROM a")
        same((math.copysign(1, f), math.copysign(1, v)), (1, -1))
        db.query("UPDATE a SET f = -f, v = 3")
        same([(math.copysign(1, f), v) for f, v in db.query("SELECT f, v FROM a WHERE f = ?", (-0.0,))], [(1, 3)])
        db.query("DELETE FROM a WHERE f >= ? AND f <= ?", (0.0, -0.0))
        same(db.query("SELECT * FROM a"), [])
        db.query("DROP TABLE a")


def test_ends_of_the_reals_compare_as_in_an_ordinary_table():
    """Values and constants at infinity, at the greatest and least numbers of either width, and between those of FLOAT32."""
    inf, most, single = math.inf, sys.float_info.max, float.fromhex("0x1.fffffep127")
    wide = [0.0, 5e-324, 1e-45, 1.0, math.nextafter(1.0, 2.0), single, math.nextafter(single, inf), most, inf]
    constants = [sign * value for value in wide for sign in (-1, 1)] + [1, -1, None]
    db = Database()
    for datatype, values in (("FLOAT64", wide), ("FLOAT32", [0.0, 2.0**-149, 1.0, single, inf])):
        cells = [sign * value for value in values for sign in (-1, 1)] + [None]
        db.query(f"CREATE VIRTUAL TABLE a USING tessera(k INT32 DIMENSION(0, 99, 3), v {datatype}, capacity=2)")
        db.query("CREATE TABLE o(k INTEGER PRIMARY KEY, v REAL)")
        for table in "ao":
            for row in enumerate(cells):
                db.query(f"INSERT INTO {table} VALUES(?, ?)", row)
        for constant in constants:
            for name in OPERATORS:
                for right in ("?1", "(SELECT ?1)"):
                    found, want = (db.query(f"SELECT k, v FROM {table} WHERE v {name} {right} ORDER BY k", (constant,)) for table in "ao")
                    same(found, want, (datatype, name, constant))
        for table in "ao":
            db.query(f"DROP TABLE {table}")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
