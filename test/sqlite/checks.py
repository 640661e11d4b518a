"""CHECK constraints: random conditions give what an ordinary table with the same CHECK gives, by rows and by blocks; every
way in tests them; tessera_check, tessera_ddl, copies and changes of the schema know them; texts of strangers do no harm.

usage: checks.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os
import random
import shutil
import struct
import sys
import tempfile

import create_stream
import host
from host import Database, check_contains, same

SEED = int(os.environ.get("SEED", 20261128))
ROUNDS = int(os.environ.get("ROUNDS", 60))
CHECK_FAILED = 275   # SQLITE_CONSTRAINT_CHECK
TEXTS = ["", "a", "A", "ab", "aB%", "b_", "é", "zé€", "[x]", "5", "-7", "a-c"]


def number(rng, depth):
    """A random expression that is a number."""
    if depth == 0:
        return rng.choice(["x", "y", "a", "a", "r", "r", "NULL", "-3", "0", "2", "7", "2.5", "-0.5", "1e2", ".5"])
    kind = rng.randrange(9)
    one, other = number(rng, depth - 1), number(rng, depth - 1)
    if kind < 3:
        return f"{one} {rng.choice('+-*/%')} {other}"
    return [f"({one})", f"abs({one})", f"-({one})", f"coalesce({one}, 1.0 * ({other}))", f"CASE WHEN {condition(rng, depth - 1)} THEN {one} + 0.0 ELSE 0.0 + {other} END",
            f"CAST({one} AS INTEGER) & 7"][kind - 3]


def condition(rng, depth):
    """A random condition."""
    if depth > 0 and rng.random() < 0.5:
        one, other = condition(rng, depth - 1), condition(rng, depth - 1)
        return rng.choice([f"{one} AND {other}", f"{one} OR {other}", f"NOT {one}", f"({one})", f"({one} OR {other})", f"({one}) IS NOT TRUE", f"({one}) IS FALSE"])
    if rng.random() < 0.05:
        return f"({number(rng, depth)}) IS {rng.choice(['', 'NOT '])}{rng.choice(['(TRUE)', '((FALSE))', '(x NOT IN ())', '(a IN ())', '+TRUE', 'likely(FALSE)'])}"
    one, other = number(rng, max(0, depth - 1)), number(rng, max(0, depth - 1))
    text, pattern = rng.choice(TEXTS), "".join(rng.choices(["a", "B", "%", "_", "*", "?", "[a-c]", "[^b]", "é", "[]]", "x"], k=rng.randrange(5)))
    return rng.choice([
        f"{one} {rng.choice(['<', '<=', '>', '>=', '=', '==', '<>', '!='])} {other}", f"{one} BETWEEN {other} AND 5", f"a {rng.choice(['', 'NOT '])}BETWEEN -2 AND 4",
        f"{one} IS {rng.choice(['', 'NOT '])}{other}", f"{rng.choice('xyars')} {rng.choice(['ISNULL', 'NOTNULL', 'NOT NULL', 'IS NULL', 'IS NOT NULL'])}",
        f"{rng.choice('xya')} {rng.choice(['', 'NOT '])}IN (1, 2, 3, {other})", "a IN ()", f"s {rng.choice(['<', '>=', '=', '<>', 'IS', 'IS NOT'])} '{text}'",
        f"s {rng.choice(['', 'NOT '])}LIKE '{pattern}'", f"s {rng.choice(['', 'NOT '])}GLOB '{pattern}'", f"s LIKE '{pattern}x%' ESCAPE 'x'", f"s IN ('a', 'AB', {rng.randrange(9)})",
        f"a = '{rng.choice(['5', '2.5', '-3'])}'", f"s = {rng.randrange(9)}", "a", "r", "x - 2"])


def value(rng):
    return rng.choice([None, -5, -1, 0, 1, 3, 4, 5, 9]), rng.choice([None, -2.5, 0.0, 0.5, 2.5, 7.0, 100.0]), rng.choice([None, *TEXTS])


def both(db, statement, parameters=()):
    """Runs a statement on both tables; both fail by a CHECK, both by another constraint, or none."""
    outcomes = []
    for table in ("t", "o"):
        try:
            db.query(statement.replace("TABLE", table), parameters)
            outcomes.append(None)
        except host.Error as e:
            outcomes.append("CHECK constraint failed" in e.text)
            assert e.extended is None or outcomes[-1] == (e.extended == CHECK_FAILED), e.text
    same(outcomes[0], outcomes[1], f"{statement} {parameters}")
    return outcomes[0]


def rows_of(db, table):
    return sorted(db.query(f"SELECT x, y, a, r, s FROM {table}"), key=repr)


def change(rng, db):
    clause = rng.choice(["", "OR IGNORE", "OR FAIL", "OR ABORT", "OR REPLACE"])
    if rng.random() < 0.7:
        rows = [(rng.randrange(8), rng.randrange(8), *value(rng)) for _ in range(rng.randint(1, 4))]
        rows = list({row[:2]: row for row in rows}.values())   # a statement that meets its own rows is another test
        return both(db, f"INSERT {clause or 'OR REPLACE'} INTO TABLE VALUES" + ", ".join(["(?, ?, ?, ?, ?)"] * len(rows)), sum(rows, ()))
    clause = "" if clause == "OR FAIL" else clause   # the order of rows in a scan decides what it keeps
    a, r, _ = value(rng)
    return both(db, f"UPDATE {clause} TABLE SET a = ?1, {rng.choice(['r = r', 'r = ?2', 's = ?2 || s'])} WHERE x % 3 = ?3", (a, r, rng.randrange(3)))


def test_random():
    """Random conditions and statements, beside an ordinary table."""
    rng = random.Random(SEED)
    refused = failed = 0
    for n in range(ROUNDS):
        db = Database()
        text = condition(rng, rng.randint(0, 3))
        db.query(f"CREATE TABLE o(x INTEGER, y INTEGER, a INTEGER, r REAL, s TEXT, CONSTRAINT c CHECK({text}), PRIMARY KEY(x, y)) WITHOUT ROWID")
        try:
            db.query(f"CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 7, 3), y INT32 DIMENSION(0, 7, 3), a INT32, r FLOAT64, s TEXT, CONSTRAINT c CHECK({text}), on_conflict=abort)")
        except host.Error as e:
            refused += 1
            check_contains(e.text, "CHECK c")
            continue
        for _ in range(12):
            failed += change(rng, db) is True
            same(rows_of(db, "t"), rows_of(db, "o"), f"round {n}: {text}")
        db.close()
    assert refused < ROUNDS / 2 and failed > ROUNDS / 2, (refused, failed)


def npy(values, form):
    """An NPY file of a list of rows of numbers."""
    shape = (len(values), len(values[0]))
    header = f"{{'descr': '{form[0]}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"".join(struct.pack("<" + form[1], v) for row in values for v in row)


def failure(db, sql, parameters, *parts):
    """The statement fails by a CHECK, says these words, and changes nothing."""
    before = db.query("SELECT * FROM t")
    error = db.error(sql, parameters)
    check_contains(error.text, "CHECK constraint failed")
    for part in parts:
        check_contains(error.text, part)
    if error.extended is not None:
        same(error.extended, CHECK_FAILED)
    same(db.query("SELECT * FROM t"), before)


PATHS = ("", "'plane', ")


def test_blocks():
    """NPY blocks: the check sees coordinates and values, in both orders of cells, also beyond the first block of cells."""
    for path in PATHS:
        for order in ("row", "col"):
            os.chdir(host.FOLDER)
            db = Database()
            db.query(f"CREATE VIRTUAL TABLE t USING tessera({path}kind=dense, cell_order={order}, y INT32 DIMENSION(-60, 59, 20), x INT32 DIMENSION(5, 84, 30), v FLOAT32, "
                     "CONSTRAINT slope CHECK(v <> y * 100 + x))")
            block = [[0.0 + (y == 41 and x == 83) * 4183 for x in range(5, 85)] for y in range(-60, 60)]
            failure(db, "SELECT tessera_write_npy('db:t', 'v', ?)", (npy(block, ("<f4", "f")),), "slope: v <> y * 100 + x", "v is 4183", "y=41, x=83")
            block[101][78] = 1.0
            same(db.value("SELECT tessera_write_npy('db:t', 'v', ?)", (npy(block, ("<f4", "f")),)), 9600)
            failure(db, "SELECT tessera_write_npy('db:t', 'v', ?, '{\"y\":10,\"x\":20}')", (npy([[1, 2, 1022], [7, 1121, 9]], ("<f4", "f")),), "v is 1022", "y=10, x=22")
            failure(db, "UPDATE t SET v = y * 100 + x WHERE y = 3 AND x = 7", (), "v is 307 at y=3, x=7")
            db.close()
            if path:
                shutil.rmtree("plane")


def test_ways_in():
    """Rows, create_as, CSV and Arrow append to an array with a CHECK: a row that breaks it fails the call as a whole."""
    for path in PATHS:
        os.chdir(host.FOLDER)
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({path}id INT64 DIMENSION, v INT64 CHECK(v > 0), s TEXT)")
        db.query("INSERT INTO t VALUES(1, 5, 'x'), (2, NULL, 'y')")
        failure(db, "INSERT INTO t VALUES(3, 1, 'x'), (4, 0, 'z')", (), "v > 0", "v is 0 at id=4")
        failure(db, "UPDATE t SET v = -id WHERE id = 2", (), "v is -2 at id=2")
        failure(db, "SELECT tessera_create_as('db:t', 'SELECT 10 + value AS id, 7 - value AS v, ''a'' AS s FROM generate_series(1, 9)', '{\"if_exists\":\"append\"}')"
                .replace("generate_series(1, 9)", "(WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 9) SELECT value FROM n)"), (), "v is 0 at id=17")
        with open("f.csv", "w") as f:
            f.write("id,v,s\n20,1,a\n21,-4,b\n")
        failure(db, "SELECT tessera_create_csv('db:t', 'f.csv', '{\"if_exists\":\"append\"}')", (), "v is -4 at id=21")
        packed = create_stream.packed
        columns = [("id", "l", 2, [None, packed("q", 30, 31)]), ("v", "l", 2, [None, packed("q", 3, -3)]), ("s", "u", 2, [None, packed("i", 0, 1, 2), b"ab"])]
        before = db.query("SELECT * FROM t")
        try:
            create_stream.give(db, columns, 2, "db:t", if_exists="append")
        except host.Error as e:
            check_contains(e.text, "v is -3 at id=31")
        else:
            raise AssertionError("a stream was taken whose second row breaks a CHECK")
        same(db.query("SELECT * FROM t"), before)
        db.query("INSERT INTO t VALUES(40, 4, NULL)")
        same(db.query("SELECT id, v FROM t ORDER BY id"), [(1, 5), (2, None), (40, 4)])
        db.close()
        if path:
            shutil.rmtree("plane")


def test_skipped_rows():
    """With on_error skip, rows that break a CHECK are left out and counted as others that do not fit, in files of more rows than a block has, too."""
    for path in PATHS:
        os.chdir(host.FOLDER)
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({path}id INT64 DIMENSION(0, 99999999), v INT64 CHECK(v > 0), w INT64 CHECK(w IS NULL OR w <> v))")
        options = '{"if_exists":"append","on_error":"skip"}'
        with open("f.csv", "w") as f:
            f.write("id,v,w\n1,5,\n2,-1,\n-7,3,\n3,7,7\n4,x,\n5,8,9\n")
        taken = json.loads(db.value("SELECT tessera_create_csv('db:t', 'f.csv', ?1)", (options,)))
        same((taken["rows"], taken["skipped"], taken["lines"]), (2, 4, [3, 4, 5, 6]))
        check_contains(taken["first"], "line 3: CHECK constraint failed: v: v > 0: v is -1 at id=2")
        same(db.query("SELECT * FROM t ORDER BY id"), [(1, 5, None), (5, 8, 9)])
        sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 69999) SELECT 100 + i AS id, iif(i % 1000 = 999, -1, i + 1) AS v, iif(i = 65000, 65001, 0) AS w FROM n"
        taken = json.loads(db.value("SELECT tessera_create_as('db:t', ?1, ?2)", (sql, options)))
        same((taken["rows"], taken["skipped"], taken["lines"][:3]), (69929, 71, [1000, 2000, 3000]))
        check_contains(taken["first"], "row 1000: CHECK constraint failed: v: v > 0: v is -1 at id=1099")
        same(db.query("SELECT count(*), min(v), count(nullif(id, 65100)) FROM t WHERE id >= 100"), [(69929, 1, 69929)])
        taken = json.loads(db.value("SELECT tessera_create_as('db:t', 'SELECT 9 AS id, -9 AS v, 0 AS w', ?1)", (options,)))
        same((taken["rows"], taken["skipped"]), (0, 1))
        for count in (3, 70000):   # many rows are taken column by column
            packed, first = create_stream.packed, 1000000 + count
            ids = [first + i for i in range(count)]
            ids[1] = -7   # outside of the domain
            columns = [("id", "l", count, [None, packed("q", *ids)]), ("v", "l", count, [None, packed("q", *[-1 if i in (2, 65999) else 1 for i in range(count)])]), ("w", "l", count, [None, packed("q", *[0] * count)])]
            taken = json.loads(create_stream.give(db, columns, count, "db:t", if_exists="append", on_error="skip"))
            bad = [i + 1 for i in (1, 2, 65999) if i < count]
            same((taken["rows"], taken["skipped"], taken["lines"]), (count - len(bad), len(bad), bad))
            check_contains(taken["first"], "row 2: ")
            same(db.query("SELECT count(*), min(v) FROM t WHERE id >= ? AND id < ?", (first, first + count)), [(count - len(bad), 1)])
            before = db.value("SELECT count(*) FROM t")
            try:
                create_stream.give(db, columns, count, "db:t", if_exists="append")
            except host.Error:
                same(db.value("SELECT count(*) FROM t"), before)
            else:
                raise AssertionError("without on_error, a row that does not fit was left out")
        db.close()
        if path:
            shutil.rmtree("plane")


def test_or():
    """The OR clauses of SQLite: IGNORE leaves the row out, FAIL keeps earlier rows, REPLACE fails as ABORT does."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(id INT64 DIMENSION, v INT64 CHECK(v > 0))")
    db.query("INSERT OR IGNORE INTO t VALUES(1, 1), (2, -1), (3, 3)")
    same(db.query("SELECT * FROM t"), [(1, 1), (3, 3)])
    check_contains(db.error("INSERT OR FAIL INTO t VALUES(4, 4), (5, -5), (6, 6)").text, "v is -5 at id=5")
    same(db.query("SELECT * FROM t"), [(1, 1), (3, 3), (4, 4)])
    failure(db, "INSERT OR REPLACE INTO t VALUES(1, 9), (3, -3)", (), "v is -3 at id=3")
    db.query("UPDATE OR IGNORE t SET v = v - 1, id = id + 1")   # 1 stays: rows that move past it do not
    same(db.query("SELECT * FROM t ORDER BY id"), [(1, 1), (4, 2), (5, 3)])
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(7, 7)")
    check_contains(db.error("INSERT OR ROLLBACK INTO t VALUES(8, -8)").text, "CHECK constraint failed")
    same(db.query("SELECT id FROM t ORDER BY id"), [(1,), (4,), (5,)])


def test_columns_of_an_update():
    """As in SQLite an UPDATE tests the constraints of the columns that it sets: a cell that breaks another one stays."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(id INT64 DIMENSION, v INT64, w INT64)")
    db.query("INSERT INTO t VALUES(1, -1, 0), (2, 2, 0)")
    check_contains(db.error("SELECT tessera_add_check('db:t', 'positive', 'v > 0')").text, "1 cells break v > 0, one where v is -1 at id=1")
    check_contains(db.error("SELECT tessera_add_check('db:t', 'few', 'id > 1')").text, "1 cells break id > 1, one at id=1")
    db.query("SELECT tessera_add_check('db:t', 'positive', ' v > 0 ', '{\"existing\":\"keep\"}')")
    db.query("UPDATE t SET w = 5")
    failure(db, "UPDATE t SET v = v", (), "v is -1 at id=1")
    found = [tuple(row) for row in db.query("SELECT severity, message FROM tessera_check('db:t')")]
    assert any(s == "warning" and "1 cells break the CHECK 'positive', v > 0, one where v is -1 at id=1" in m for s, m in found), found


def test_unwritten_columns_of_an_update():
    """An UPDATE gives the cells of an attribute that was added later its DEFAULT, and those of a dense array that were never written: a CHECK holds for these, too."""
    for kind in ("sparse", "dense"):
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera(kind={kind}, id INT64 DIMENSION(0, 9, 10), v INT64)")
        db.query("INSERT INTO t VALUES(1, 1), (4, 4)")
        db.query("SELECT tessera_add_attribute('db:t', 'w INT64 DEFAULT 3')")
        db.query("SELECT tessera_add_check('db:t', 'order', 'w > id + 2', '{\"existing\":\"keep\"}')")
        failure(db, "UPDATE t SET v = 2 WHERE id = 1", (), "w is 3 at id=1")
        same(sorted(db.query("SELECT id, v FROM t WHERE v IS NOT NULL")), [(1, 1), (4, 4)])
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, id INT64 DIMENSION(0, 9, 10), v INT64, w INT64 CHECK(w IS NOT NULL))")
    db.query("INSERT INTO t VALUES(1, 1, 1), (4, 4, 4)")
    failure(db, "UPDATE t SET v = 2 WHERE id = 2", (), "w is NULL at id=2")
    db.query("UPDATE t SET v = 2, w = 2 WHERE id = 2")


def test_defaults():
    """A DEFAULT that breaks a CHECK is refused, and so is a CHECK that cells without the attribute would break once an UPDATE writes it."""
    for path in PATHS:
        db = Database(os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "t.db"))
        make = f"CREATE VIRTUAL TABLE t USING tessera({path}id INT64 DIMENSION(0, 9, 10), v INT64"
        for columns, why in (("w INT64 DEFAULT -1 CHECK(w > 0)", "the DEFAULT of 'w' breaks w > 0"), ("w INT64 NOT NULL DEFAULT -1, CHECK(w > 0)", "the DEFAULT of 'w' breaks w > 0"),
                             ("w TEXT DEFAULT 'no' CHECK(w IN ('yes', 'maybe'))", "the DEFAULT of 'w' breaks w IN"), ("w TEXT ENUM('a', 'b') NOT NULL DEFAULT 'b' CHECK(w = 'a')", "the DEFAULT of 'w' breaks w = 'a'"),
                             ("w INT64 DEFAULT 5, y INT64 DEFAULT 4, CHECK(w <= y)", "the DEFAULTs of its columns break w <= y")):
            error = db.error(f"{make}, {columns})")
            check_contains(error.text, why)
            assert error.extended in (None, CHECK_FAILED), error.extended
        db.query(f"{make}, a INT64 NOT NULL CHECK(a > 0), b INT64 DEFAULT 5 CHECK(b > 0), c INT64 DEFAULT 1 CHECK(c >= v AND c < 9), d TEXT CHECK(d IS NOT NULL))")
        check_contains(db.error("SELECT tessera_add_attribute('db:t', 'w INT64 DEFAULT -1 CHECK(w > 0)')").text, "the DEFAULT of 'w' breaks w > 0")
        check_contains(db.error("SELECT tessera_add_check('db:t', 'c5', 'b <> 5')").text, "the DEFAULT of 'b' breaks b <> 5")
        db.query("INSERT INTO t VALUES(1, 1, 1, 1, 1, 'd')")
        check_contains(db.error("SELECT tessera_add_attribute('db:t', 'y INT64 NOT NULL CHECK(y > 0)')").text, "1 cells break y > 0, one where y is -9223372036854775808 at id=1")
        check_contains(db.error("SELECT tessera_add_attribute('db:t', 'z INT64 DEFAULT 2 CHECK(z < id)')").text, "1 cells break z < id, one where z is 2 at id=1")
        check_contains(db.error("SELECT tessera_add_attribute('db:t', 'x INT64 CHECK(x > nothing)')").text, "nothing")
        # a cell that lacks the attribute is NULL until an UPDATE writes it: neither may break the CHECK
        check_contains(db.error("SELECT tessera_add_attribute('db:t', 'z INT64 DEFAULT 2 CHECK(z IS NOT NULL)')").text, "1 cells break z IS NOT NULL, one where z is NULL at id=1")
        db.query("UPDATE t SET v = 0")
        same([row[1] for row in db.query("PRAGMA table_info(t)")], ["id", "v", "a", "b", "c", "d"])
        # what was refused is in no schema: the names are free for attributes of other types, which need not be compatible with it
        for definition in ("w TEXT", "y TEXT", "z FLOAT64 CHECK(z > 1)", "x TEXT ENUM('a')"):
            db.query("SELECT tessera_add_attribute('db:t', ?)", (definition,))
        # an enumeration that only the schema has that is tried, beside one of the array
        for definition in ("e TEXT ENUM('a', 'b') CHECK(e = 'a')", "f TEXT ENUM('a', 'b') CHECK(id >= 0 AND x IS NULL)", "g INT64 ENUM(1, 2) CHECK(id >= 0)"):
            db.query("SELECT tessera_add_attribute('db:t', ?)", (definition,))
        check_contains(db.error("SELECT tessera_add_attribute('db:t', 'h TEXT ENUM(''a'') NOT NULL DEFAULT ''a'' CHECK(h <> ''a'')')").text, "the DEFAULT of 'h' breaks h <> 'a'")
        db.close()


def test_long_names():
    """A name as long as a message leaves room for the value and the place of the cell that breaks a CHECK."""
    db = Database()
    long, wide = "v" * 500 + "é" * 250, "x" * 1000
    db.query(f'CREATE VIRTUAL TABLE t USING tessera("{wide}" INT64 DIMENSION, "{long}" INT64, CONSTRAINT "{long[420:560]}" CHECK("{long}" > 0))')
    failure(db, "INSERT INTO t VALUES(7, -1)", (), "CHECK constraint failed: vvv", "é is -1 at xxx", "xxx=7")
    assert "?" not in db.error("INSERT INTO t VALUES(7, -1)").text, "characters are whole"


def test_schema():
    """DDL, copies, consolidation, attributes, enumerations, datetimes."""
    os.chdir(host.FOLDER)
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(day DATE DIMENSION('2020-01-01', '2030-12-31', 30), kind TEXT ENUM('rain', 'snow') CHECK(kind <> 'snow' OR cold), cold BOOL, "
             "at DATETIME CHECK(at >= '2020-01-01' AND at NOT BETWEEN '2021-01-01' AND '2021-12-31T23:59:59.999'), CONSTRAINT \"the day\" CHECK(day <> '2020-02-02'), "
             "CHECK(at IS NULL OR day IS NOT NULL), name TEXT CHECK(name NOT LIKE '%''%'))")
    good = ("2020-03-01", "snow", 1, "2020-05-05", "a")
    db.query("INSERT INTO t VALUES(?, ?, ?, ?, ?)", good)
    for column, bad in ((0, "2020-02-02"), (2, 0), (3, "2019-12-31T23:59:59.999"), (3, "2021-06-01"), (4, "O'Neil")):
        row = [*good]
        row[column] = bad
        failure(db, "INSERT INTO t VALUES(?, ?, ?, ?, ?)", row)
    ddl = db.value("SELECT tessera_ddl('db:t')")
    for part in ("CONSTRAINT kind CHECK(kind <> 'snow' OR cold)", "CONSTRAINT \"the day\" CHECK(day <> '2020-02-02')", "CONSTRAINT check1 CHECK(at IS NULL OR day IS NOT NULL)"):
        check_contains(ddl, part)
    other = Database()
    other.query(ddl)
    same(other.value("SELECT tessera_ddl('db:t')"), ddl)
    db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t'), tessera_copy('db:t', 'db:copied'), tessera_sync('db:t', 'synced')")
    db.table("synced", "synced")
    for table in ("copied", "synced"):
        check_contains(db.error(f"INSERT INTO {table} VALUES('2020-02-02', 'rain', 1, NULL, '')").text, "the day")
        same(db.query(f"SELECT key, value FROM tessera_metadata('db:{table}')"), db.query("SELECT key, value FROM tessera_metadata('db:t')"))
    check_contains(db.error("SELECT tessera_drop_attribute('db:t', 'cold')").text, "the CHECK 'kind' reads 'cold': drop the CHECK first")
    db.query("SELECT tessera_drop_check('db:t', 'kind'), tessera_drop_attribute('db:t', 'cold')")
    db.query("SELECT tessera_add_attribute('db:t', 'even INT32 CHECK(even % 2 = 0)')")
    check_contains(db.error("SELECT tessera_add_attribute('db:t', 'odd INT32 CHECK(odd %% 2)')").text, "CHECK odd: '%' (character 6)")
    check_contains(db.error("SELECT tessera_add_attribute('db:t', ?)", ("odd INT32 CHECK(odd > 'a)",)).text, "expected ')' of CHECK, found 'a)")
    same(db.value("SELECT count(*) FROM tessera_schema('db:t') WHERE name = 'odd'"), 0)
    db.query("CREATE VIRTUAL TABLE again USING tessera('synced')")
    check_contains(db.error("SELECT tessera_drop_check('db:t', 'nothing')").text, "has no CHECK 'nothing'")
    shutil.rmtree("synced")


def test_transactions():
    """A constraint that is added in a transaction holds in it, and is gone after ROLLBACK TO."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(id INT64 DIMENSION, v INT64)")
    db.query("BEGIN")
    db.query("UPDATE t SET v = 1")
    db.query("SAVEPOINT s")
    db.query("SELECT tessera_add_check('db:t', 'c', 'v < 10')")
    failure(db, "INSERT INTO t VALUES(1, 10)", (), "v < 10")
    db.query("ROLLBACK TO s")
    db.query("INSERT INTO t VALUES(1, 10)")
    db.query("COMMIT")
    same(db.query("SELECT * FROM t"), [(1, 10)])
    os.chdir(host.FOLDER)
    db.query("BEGIN")
    db.query("CREATE VIRTUAL TABLE made USING tessera('made', id INT64 DIMENSION, v INT64 CHECK(v < 10))")
    db.query("INSERT INTO made VALUES(1, 1)")
    check_contains(db.error("INSERT INTO made VALUES(2, 20)").text, "v is 20 at id=2")
    db.query("ROLLBACK")
    assert not os.path.exists("made")
    check_contains(db.error("CREATE VIRTUAL TABLE made USING tessera('made', id INT64 DIMENSION, v INT64 CHECK(w < 10))").text, "CHECK v: 'w' (character 1): no column of the array")
    assert not os.path.exists("made")
    check_contains(db.error("CREATE VIRTUAL TABLE made USING tessera(id INT64 DIMENSION, v INT64 CHECK(w < 10))").text, "no column of the array")
    same(db.query("SELECT name FROM sqlite_schema WHERE name LIKE 'made%'"), [])


def test_gaps():
    """Cells of a dense array that were never written break nothing."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(kind=dense, x INT32 DIMENSION(0, 9, 5), v INT32)")
    db.query("INSERT INTO t VALUES(1, 1), (7, NULL)")
    check_contains(db.error("SELECT tessera_add_check('db:t', 'there', 'v IS NOT NULL')").text, "1 cells break v IS NOT NULL, one where v is NULL at x=7")
    db.query("UPDATE t SET v = 7 WHERE x = 7")
    db.query("SELECT tessera_add_check('db:t', 'there', 'v IS NOT NULL')")
    failure(db, "UPDATE t SET v = NULL WHERE x = 1", (), "v is NULL at x=1")


def metadata_files(path):
    """Returns the files of an array's metadata, oldest first."""
    return sorted(os.path.join(path, "__meta", name) for name in os.listdir(os.path.join(path, "__meta")))


def findings(db, path):
    return db.query("SELECT severity, file, message FROM tessera_check(?)", (path,))


def test_damaged_metadata():
    """They may have held a CHECK: INSERT is refused and says which file, and what to do. The cells can be read, and the check names the file."""
    path = os.path.join(host.FOLDER, "damaged_checks")
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', id INT64 DIMENSION, v INT64 CHECK(v > 0))")
    db.query("INSERT INTO t VALUES(1, 1)")
    [file] = metadata_files(path)
    with open(file, "rb") as f:
        sound = f.read()
    with open(file, "wb") as f:
        f.write(sound[:20] + b"x" + sound[21:])
    os.utime(file, (1e9, 1e9))   # else its writer may still be at work
    db = Database()
    db.table("t", path)
    same(db.query("SELECT * FROM t"), [(1, 1)])
    error = db.error("INSERT INTO t VALUES(2, -1)")
    check_contains(error.text, f"CHECK constraints hold (__meta/{os.path.basename(file)}: ")
    check_contains(error.text, "restore that file, or remove it, whose metadata are then lost")
    same([(severity, os.path.basename(name)) for severity, name, _ in findings(db, path)], [("error", os.path.basename(file))])
    with open(file, "wb") as f:
        f.write(sound)
    os.utime(file, (1e9, 1e9))
    check_contains(db.error("INSERT INTO t VALUES(2, -1)").text, "CHECK constraint failed")
    os.remove(file)
    db = Database()
    db.table("t", path)
    db.query("INSERT INTO t VALUES(2, -1)")


def test_lost_marks_of_durations():
    """Without the metadata that say so, a column of durations has times of day. The check notes it if there are values that are none."""
    path = os.path.join(host.FOLDER, "lost_marks")
    db = Database()
    db.query(f"CREATE VIRTUAL TABLE t USING tessera('{path}', id INT64 DIMENSION, took TIME_MIN DURATION, brief TIME_MIN DURATION, at TIME_MIN)")
    db.query("INSERT INTO t VALUES(1, 1500, 5, '23:59'), (2, 7, 1439, NULL)")
    same(findings(db, path), [])
    for file in metadata_files(path):
        os.remove(file)
    db = Database()
    db.table("t", path)
    same(db.query("SELECT * FROM t"), [(1, 1500, "00:05", "23:59"), (2, "00:07", "23:59", None)])
    [(severity, file, message)] = findings(db, path)
    same((severity, file), ("note", "__meta"))
    check_contains(message, "field 'took' has values past a day, and no metadatum \"__tessera_duration.took\"")
    db.query("SELECT tessera_set_metadata(?, '__tessera_duration.took', 1)", (path,))
    same(findings(db, path), [])


REFUSED = ["", "v >", "(v", "v)", "v -- comment", "v /* comment */ > 1", "v = 'x", "v = x'00'", "random() > 1", "v > (SELECT 1)", "sum(v) > 1", "v || 's' = 'a'", "t.v > 1", "v > 1; DROP",
           "v LIKE v", "v > ?", "v > 0x10000000000000000", "v COLLATE NOCASE = 'a'", "nothing = 1", "v > 12abc", "s > 1.5", "s", "CASE v WHEN 1 THEN 's' ELSE 2 END", "v MATCH 'a'",
           "load_extension('x')", "v IN (SELECT 1)", "EXISTS(SELECT 1)", "(" * 200 + "v" + ")" * 200, "NOT " * 5 + "-" * 2 + "v", "v > 1" + " + 1" * 2000, "\xff", "v\0 > 1"]


def test_strangers():
    """What no CHECK can be is refused; found in the metadata of an array it leaves readers alone, and stops writers."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(id INT64 DIMENSION, v INT64, s TEXT)")
    db.query("INSERT INTO t VALUES(1, 1, 'a')")
    for text in REFUSED:
        check_contains(db.error("SELECT tessera_add_check('db:t', 'c', ?)", (text,)).text, "CHECK c: ") if "\0" not in text else None
        db.query("SELECT tessera_set_metadata('db:t', 'tessera.check.c', ?)", (text,))
        same(db.query("SELECT id FROM t WHERE v = 1"), [(1,)])
        check_contains(db.error("INSERT INTO t VALUES(2, 2, '')").text, "the CHECK 'c' cannot be read by this version")
        assert any("writes are refused" in m for m, in db.query("SELECT message FROM tessera_check('db:t')")), text
        assert "CHECK" not in db.value("SELECT tessera_ddl('db:t')")
        db.query("SELECT tessera_drop_check('db:t', 'c')")
    check_contains(db.error("SELECT tessera_add_check('db:t', 'c', 'v > (SELECT 1)')").text, "'SELECT' (character 6): a CHECK has no subqueries")
    db.query("INSERT INTO t VALUES(2, 2, '')")
    for n in range(65):
        db.query("SELECT tessera_set_metadata('db:t', ?, 'v > 0')", (f"tessera.check.c{n}",))
    check_contains(db.error("INSERT INTO t VALUES(3, 3, '')").text, "more than 64 CHECK constraints")
    db.query("SELECT tessera_set_metadata('db:t', 'tessera.check.c1', NULL), tessera_set_metadata('db:t', 'tessera.check.c2', x'00')")
    check_contains(db.error("INSERT INTO t VALUES(3, 3, '')").text, "the CHECK 'c2' cannot be read")


def test_overflow():
    """SQLite goes on with a REAL where integers overflow; a CHECK here says that it cannot be evaluated."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(id INT64 DIMENSION, v INT64 CHECK(v + v > 0))")
    check_contains(db.error("INSERT INTO t VALUES(1, 9223372036854775807)").text, "the CHECK 'v' cannot be evaluated: integer overflow")
    db.query("INSERT INTO t VALUES(1, 1)")


def test_numbers_past_int64():
    """A number from 2^63 on compares exactly with a column, also in quotes; it is a REAL in front of everything else."""
    last, before = str(2**64 - 1), str(2**64 - 2)
    for text, good, bad in ((f"v = {before}", [before], [last]), (f"v = '{before}'", [before], [last]), (f"{before} > v", ["1"], [before]), (f"v IN (1, {before})", ["1", before], ["2", last]),
                            (f"v BETWEEN {2**63 - 1} AND {before}", [str(2**63)], [last, str(2**63 - 2)]), (f"v IS NOT {before}", [last], [before]),
                            (f"CASE v WHEN {before} THEN 1 ELSE 0 END", [before], [last]), (f"nullif(v, {before}) IS NOT NULL", [last], [before]),
                            (f"v <= {2**64}", [last], []), (f"v > -{before}", ["0", last], []), (f"i < {before} AND r < {before}", ["0"], []), (f"i + {before} > r * {before}", ["0"], []), (before, ["0"], [])):
        db = Database()
        db.query(f"CREATE VIRTUAL TABLE t USING tessera(id INT64 DIMENSION, v UINT64 CHECK({text}), i INT64, r FLOAT64)")
        for n, value in enumerate(good):
            db.query("INSERT INTO t VALUES(?, ?, 5, 0.5)", (n, value))
        for value in bad:
            failure(db, "INSERT INTO t VALUES(9, ?, 5, 0.5)", (value,), f"v is {value} at id=9")
        db.close()


def test_infinity_in_a_message():
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION, v REAL CHECK(abs(v) < 10), w REAL CHECK(w * 1e308 < 1e308))")
    failure(db, "INSERT INTO t VALUES(1, 9e999, 0)", (), "v is inf at x=1")
    failure(db, "INSERT INTO t VALUES(1, -9e999, 0)", (), "v is -inf at x=1")


def test_texts_beside_columns():
    """A text beside a column of numbers is a number where it is spelled as one, and a message shows the text that breaks a CHECK."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(id INT64 DIMENSION, v INT64 CHECK(v < '5'), w INT64 CHECK(w <> '-2.50e1'), s TEXT CHECK(s <> 'wrong'))")
    db.query("INSERT INTO t VALUES(1, 4, 2, 'right')")
    failure(db, "INSERT INTO t VALUES(2, 5, 2, 'right')", (), "v is 5 at id=2")
    failure(db, "INSERT INTO t VALUES(2, 4, -25, 'right')", (), "w is -25 at id=2")
    failure(db, "INSERT INTO t VALUES(2, 4, 2, 'right'), (3, 4, 2, 'wrong')", (), "s is 'wrong' at id=3")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
