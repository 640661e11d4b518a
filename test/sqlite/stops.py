"""Every function is stopped at its polls, in each way in which a host stops statements. Afterwards no transaction is open that the
function has begun, another connection can write at once, and sees all of the function's changes or none.

The ways: a progress handler that stops one statement, every statement from one on, or every second one, and sqlite3_interrupt. Each
function is called by itself, within a transaction of the host's, and within a statement that writes. The variable STOPS says at how
many polls, besides the first two and the last STOPS_LAST (ten); 0 means all.

usage: stops.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import shutil
import sqlite3
import struct
import sys
import tempfile

import host
from host import Database, Error, autocommit, check_contains, same

INTERRUPT = 9
STOPS = int(os.environ.get("STOPS", "3"))
LAST = int(os.environ.get("STOPS_LAST", "10"))
WAYS = ("once", "from then on", "in turns", "interrupt")

T, G, LABELLED = "k INT32 DIMENSION(0, 99, 10) CURRENT(0, 49), v INT64, e TEXT ENUM('p', 'q')", "kind=dense, y INT32 DIMENSION(0, 7, 4), x INT32 DIMENSION(0, 7, 4), a FLOAT64", "kind=dense, y INT32 DIMENSION(0, 7, 4) LABEL lat FLOAT64, a INT32"
MADE = '\'{"dimensions":["k"],"kind":"sparse","domains":{"k":[0,99]}}\''
REPLACED = MADE.replace("}}", '},"if_exists":"replace"}')
CHANGES = [
    "tessera_consolidate('db:t')", "tessera_consolidate('db:t', 'commits')", "tessera_vacuum('db:u')", "tessera_upkeep('db:f', '{\"fanout\":4,\"grace_s\":0}')",
    "tessera_set_metadata('db:t', 'm', 1)", "tessera_set_metadata('db:t', 'n', NULL)", "tessera_add_attribute('db:t', 'b FLOAT32')", "tessera_drop_attribute('db:t', 'v')",
    "tessera_extend_enumeration('db:t', 'e', 'r')", "tessera_expand_domain('db:t', '{\"k\":[0,79]}')", "tessera_lease('db:t', 5)",
    "tessera_write_npy('db:g', 'a', x'%s')", "tessera_write_label('db:l', 'lat', '[1, 2, 3]')", "tessera_sync('d', 'db:n')", "tessera_copy('db:t', 'db:n')",
    "tessera_copy('db:t', 'db:b.n', '{\"capacity\":2}')", "tessera_create_as('db:n', 'SELECT k, v FROM t', %s)" % MADE,
    "tessera_create_as('db:t', 'SELECT k + 30 AS k, v, e FROM t', '{\"if_exists\":\"append\"}')", "tessera_create_as('db:temp.n', 'SELECT k, v FROM t', %s)" % MADE,
    "tessera_create_csv('db:n', 'rows.csv', %s)" % MADE, "tessera_make_overviews('db:g')",
    "tessera_regrid('db:g', 'db:n', '{\"y\":2,\"x\":2}', 'mean')", "tessera_consolidate('db:b.t')", "tessera_revert('db:t', 1)", "tessera_revert('db:b.t', 1)",
]
DROPS = ["tessera_create_as('db:u', 'SELECT k, v FROM t', %s)" % REPLACED, "tessera_make_overviews('db:o')"]   # they drop tables: SQLite refuses that while another statement reads
READS = ["tessera_sync('db:t', 'new')", "tessera_recover('db:d')", "tessera_recover('db:d', '{\"disown\":true}')", "tessera_ddl('db:t')", "tessera_png('db:g', 'a')", "tessera_preview('db:g', 'a')", "tessera_npy('db:g', 'a')", "tessera_nearest('db:l', 'lat', 2)", "tessera_sample('db:g', 'a', '{\"y\":1.5,\"x\":2.5}')"]


def npy():
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (8, 8), }"
    head += " " * (117 - len(head)) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<64d", *range(64))


def make():
    db = Database("a.db")
    db.query("ATTACH 'b.db' AS b")
    db.query("CREATE TABLE log(x)")
    for name, where in (("t", ""), ("b.t", ""), ("u", ""), ("d", "'d', ")):
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({where}{T})")
        for k in range(3):
            db.query(f"INSERT INTO {name} VALUES({k}, {k}, 'p'), ({k + 7}, {k}, 'q')")
    db.query("SELECT tessera_set_metadata('db:t', 'n', 1), tessera_consolidate('db:u')")
    db.query(f"CREATE VIRTUAL TABLE f USING tessera({T})")
    for k in range(4):
        db.query(f"INSERT INTO f VALUES({k}, {k}, 'p')")
    for name in ("g", "o"):
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({G})")
        db.query(f"SELECT tessera_write_npy('db:{name}', 'a', ?)", (npy(),))
    db.query("SELECT tessera_make_overviews('db:o')")
    db.query(f"CREATE VIRTUAL TABLE l USING tessera({LABELLED})")
    db.query("INSERT INTO l(y, a) VALUES(0, 10), (1, 11), (2, 12)")
    db.query("SELECT tessera_write_label('db:l', 'lat', '[1, 2]')")
    with open("rows.csv", "w") as f:
        f.write("k,v\n1,2\n3,4\n")
    db.close()


class Place:
    """A fresh copy of the two databases for a connection, whose state others see through a connection without tessera."""

    def __init__(self, folder):
        self.folder = folder
        self.db = None
        self.renew()

    def renew(self):
        if self.db:
            self.close()
        for name in ("a.db", "b.db"):
            shutil.copyfile(os.path.join(self.folder, name), name)
        self.db = Database("a.db")
        self.db.query("ATTACH 'b.db' AS b")
        self.db.query("SELECT count(*) FROM t, d, l LIMIT 1")   # the tables are connected
        self.others = [sqlite3.connect(name, timeout=0, isolation_level=None) for name in ("a.db", "b.db")]

    def close(self):
        self.db.close()
        for other in self.others:
            other.close()

    def state(self):
        """Takes the write lock, and returns what the two databases contain."""
        found = []
        for other in self.others:
            other.execute("BEGIN IMMEDIATE")
            names = sorted(n for n, in other.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'"))
            found.append([(n, other.execute(f'SELECT * FROM "{n}" ORDER BY 1').fetchall()) for n in names if n != "log"])
            other.execute("ROLLBACK")
        return found

    def logged(self):
        return self.others[0].execute("SELECT count(*) FROM log").fetchone()[0]


def shape(state):
    """What of a state does not depend on random names and on times: how many rows each table has, and which files and directories."""
    def of(table, rows):
        return sorted((size is None, name.split("_")[0] if parent else "root") for _, parent, name, size, *_ in rows) if table.endswith("_files") else len(rows)
    return [{table: of(table, rows) for table, rows in database} for database in state]


def stopped(db, sql, k, way):
    """Runs a statement that is stopped at the k-th poll (0: never). Returns the number of polls and the error, or None."""
    calls = 0

    def handler():
        nonlocal calls
        calls += 1
        if way == "interrupt":
            if calls == k:
                db.raw.interrupt()
            return 0
        return calls == k or k and calls > k and (way == "from then on" or way == "in turns" and (calls - k) % 2 == 0)
    error = None
    db.raw.set_progress_handler(handler, 1)
    try:
        db.query(sql)
    except Error as e:
        error = e
    db.raw.set_progress_handler(None, 0)
    return calls, error


def points(calls, seed):
    if not STOPS:
        return range(1, calls + 1)
    chance = random.Random(seed)
    return sorted({1, 2} | set(range(max(1, calls - LAST + 1), calls + 1)) | {chance.randrange(1, calls + 1) for _ in range(STOPS)})


def check_stop(place, sql, k, way, before, after, outside):
    """Runs `sql`, stopped at a poll. `outside`: no transaction is open before it."""
    db, what = place.db, f"{sql}, stopped at {k} ({way})"
    _, error = stopped(db, sql, k, way)
    if error:
        assert error.code in (None, INTERRUPT), f"{what}: {error} ({error.code})"
        check_contains(error.text.lower(), "interrupt")
    if outside:
        assert autocommit(db), f"{what}: a transaction was left open: {error}"
    elif not autocommit(db):
        db.query("COMMIT")
        same(place.logged(), 1, f"{what}: the host's own row")
    else:
        same(place.logged(), 0, f"{what}: the host's transaction was rolled back")
    try:
        now = place.state()
    except sqlite3.Error as e:
        raise AssertionError(f"{what}: another connection: {e}") from None
    if now != before:
        for got, expected in zip(shape(now), after):
            for table in got.keys() | expected.keys():
                same(got.get(table), expected.get(table), f"{what}: {error}: {table}")
    return error, now == before


def sweep(functions, seed, form="SELECT {}", begin=None, ways=WAYS, choose=points):
    home, folder = os.getcwd(), tempfile.mkdtemp(dir=host.FOLDER)
    try:
        os.chdir(folder)
        make()
        work = os.path.join(folder, "work")
        os.mkdir(work)
        shutil.copytree("d", "work/d")
        shutil.copyfile("rows.csv", "work/rows.csv")
        os.chdir(work)
        place, failures, wrong = Place(folder), 0, []
        for number, function in enumerate(functions):
            sql = form.format(function.replace("%s", npy().hex()))
            place.renew()
            before = place.state()
            for statement in begin or ():
                place.db.query(statement)
            calls, error = stopped(place.db, sql, 0, "once")
            assert not error, f"{sql}: {error}"
            if begin:
                place.db.query("COMMIT")
            after = shape(place.state())
            for k in choose(calls, seed + number):
                at_the_end = k > calls - LAST or not STOPS   # there the function's transaction ends; before, each poll is stopped in one way
                for way in host.sampled(ways) if at_the_end else (ways[k % len(ways)],):
                    place.renew()
                    shutil.rmtree("new", ignore_errors=True)
                    for statement in begin or ():
                        place.db.query(statement)
                    try:
                        error, undone = check_stop(place, sql, k, way, before, after, not begin)
                        failures += error is not None
                        if undone:   # nothing of the stop is left in the connection
                            place.db.query("INSERT INTO t VALUES(40, 1, 'p')")
                            same(place.db.query("SELECT v FROM t WHERE k = 40"), [(1,)], f"{sql}, stopped at {k} ({way})")
                    except (AssertionError, Error) as e:
                        wrong.append(f"{sql}, {k} ({way}): {str(e)[:500]}")
        place.close()
        assert not wrong, f"{len(wrong)} of {failures}: " + "\n".join(wrong[:10])
        assert failures > len(functions), failures
    finally:
        os.chdir(home)


def test_functions_that_are_stopped():
    sweep(CHANGES + DROPS, 1)


def test_a_stop_is_not_swallowed():
    """The core removes files that have no meaning any more, and goes on without if that fails. A function that is stopped there fails."""
    sweep(["tessera_extend_enumeration('db:t', 'e', 'r')"], 6, ways=("once",), choose=lambda calls, seed: range(calls // 2, calls, 4))


def test_functions_that_change_no_database():
    sweep(READS, 2)


def test_functions_that_are_stopped_within_a_transaction():
    sweep(CHANGES + DROPS, 3, begin=("BEGIN", "INSERT INTO log VALUES(1)"))


def test_functions_that_are_stopped_within_a_statement_that_writes():
    sweep(CHANGES, 4, form="INSERT INTO log VALUES(NULL), ({})", ways=("once", "interrupt"))


def test_functions_that_are_stopped_within_both():
    sweep(CHANGES, 5, form="UPDATE log SET x = {}", begin=("BEGIN", "INSERT INTO log VALUES(1)"), ways=("once", "interrupt"))


def each_stop(setup, sql, check, seed):
    """Stops a statement at each of its polls, or some, in all ways; each time in a connection of its own that setup() makes. check(db, error) says what it must find."""
    db = setup()
    calls, error = stopped(db, sql, 0, "once")
    assert not error, error
    check(db, None)
    db.close()
    failures, chosen = 0, list(points(calls, seed))
    for k in sorted(random.Random(seed).sample(chosen, min(len(chosen), 300))):   # thousands of polls are alike
        for way in host.sampled(WAYS):
            db = setup()
            _, error = stopped(db, sql, k, way)
            if error:
                failures += 1
                assert error.code in (None, INTERRUPT), f"{sql}, stopped at {k} ({way}): {error} ({error.code})"
            assert autocommit(db), f"{sql}, stopped at {k} ({way}): a transaction was left open"
            check(db, error)
            db.close()
    assert failures, sql


def test_attach_that_is_stopped():
    """A stop leaves all tables of the group as they were, or as they are to be; a further call gives the latter."""
    place = tempfile.mkdtemp(dir=host.FOLDER)
    db, root = Database(), os.path.join(place, "group")
    db.query("SELECT tessera_create_group(?)", (root,))
    for name in ("a", "b", "c"):
        db.query(f"CREATE VIRTUAL TABLE making USING tessera('{root}/{name}', k INT32 DIMENSION, v INT32)")
        db.query("DROP TABLE making")
        db.query("SELECT tessera_add_member(?, ?, ?)", (root, f"{root}/{name}", name))
    db.close()

    def names(db):
        return [name for name, in db.query("SELECT name FROM tessera_attached ORDER BY 1")], [name for name, in db.query("SELECT name FROM temp.sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL%' ORDER BY 1")]

    def attached(prefix):
        db = Database()
        same(db.value(f"SELECT tessera_attach('{root}', '{{\"prefix\":\"{prefix}\"}}')"), 3)
        return db
    def checker(sql, before, after):
        def check(db, error):
            found = names(db)
            assert found in ((before, before), (after, after)), f"{sql}: {error}: {found}"
            db.query(sql)
            same(names(db), (after, after), sql)
        return check
    old, new = ["x_a", "x_b", "x_c"], ["a", "b", "c"]
    attach, detach = f"SELECT tessera_attach('{root}')", f"SELECT tessera_detach('{root}')"
    each_stop(Database, attach, checker(attach, [], new), 7)
    each_stop(lambda: attached("x_"), attach, checker(attach, old, new), 8)
    each_stop(lambda: attached(""), detach, checker(detach, new, []), 9)


def test_texts_that_are_stopped():
    """A call of tessera_sql or tessera_select that was stopped leaves nothing behind: the next one gives SQLite's rows."""
    place = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "array")

    def setup():
        db = Database()
        if not os.path.exists(place):
            db.query(f"CREATE VIRTUAL TABLE making USING tessera('{place}', {T})")
            db.query("INSERT INTO making VALUES(1, 5, 'p'), (2, 6, 'q'), (3, 7, 'q')")
            db.query("DROP TABLE making")
        db.query(f"CREATE VIRTUAL TABLE t USING tessera('{place}')")
        return db
    text = f"WITH c AS (SELECT e, sum(v) AS s FROM t GROUP BY e) SELECT c.e, c.s, (SELECT max(v) FROM '{place}') FROM c JOIN '{place}' AS p ON p.k = c.s - 3"
    quoted = text.replace("'", "''")

    def check(db, error):
        same(db.query(db.value("SELECT tessera_sql(?)", (text,))), [("p", 5, 7)], error)
    each_stop(setup, f"SELECT tessera_sql('{quoted}')", check, 10)
    each_stop(setup, f"SELECT row FROM tessera_select('{quoted}')", check, 11)
    each_stop(setup, f"SELECT * FROM tessera_explain('{quoted}')", check, 12)


if __name__ == "__main__":
    host.main(sys.modules[__name__])
