"""Each finding of tessera_advise: an array that has it, the statement that solves it, and the same array without the
finding.

usage: advise.py EXTENSION
"""
import os
import sqlite3
import sys
import tempfile


def many_fragments(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32)")
    for i in range(17):
        db.execute("INSERT INTO t VALUES(?, 1)", (i,))


def enough_fragments(db):
    """As many as need no merge for their number. Their tiles hold a tenth of what they have room for."""
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32, capacity=10)")
    for i in range(16):
        db.execute("INSERT INTO t VALUES(?, 1)", (i,))


def few_tiles(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32, capacity=100)")
    for i in range(4):
        db.execute("INSERT INTO t VALUES(?, 1)", (i,))


def empty_tiles(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32, capacity=100)")
    for i in range(5):
        db.execute("INSERT INTO t VALUES(?, 1)", (i,))


def deletes(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32)")
    db.execute("INSERT INTO t SELECT value, 1 FROM generate(100)")
    for i in range(9):
        db.execute("DELETE FROM t WHERE x = ?", (3 * i,))


def few_deletes(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32)")
    db.execute("INSERT INTO t SELECT value, 1 FROM generate(100)")
    for i in range(8):
        db.execute("DELETE FROM t WHERE x = ?", (3 * i,))


def deletes_of_many(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32, capacity=100)")
    for i in range(4):
        db.execute("INSERT INTO t SELECT value * 4 + ?, 1 FROM generate(100)", (i,))
    for i in range(9):
        db.execute("DELETE FROM t WHERE x = ?", (3 * i,))


def delete_of_thousands(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 9999999, 1000), y INT32 DIMENSION(0, 9999999, 1000), v INT32)")
    db.execute("INSERT INTO t SELECT value * 7919 % 1000003, value * 104729 % 1000033, value FROM generate(60000)")
    db.execute("DELETE FROM t WHERE v % 2 = 1")


def debris(db):
    many_fragments(db)
    db.execute("SELECT tessera_consolidate('db:t')").fetchall()


def debris_of_two_kinds(db):
    """One merge whose sources are still there, and one fragment that was not committed."""
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999, 10), v INT32)")
    for i in range(2):
        db.execute("INSERT INTO t VALUES(?, 1)", (i,))
    db.execute("SELECT tessera_consolidate('db:t')").fetchall()
    os.mkdir(f"a/__fragments/__1_1_{7:032x}_22")
    os.utime(f"a/__fragments/__1_1_{7:032x}_22", (0, 0))


def statistics(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', format_version=3, x INT32 DIMENSION(0, 999, 10), v INT32 NOT NULL, capacity=100)")
    db.execute("INSERT INTO t SELECT value, 1 FROM generate(100)")


def small_sparse(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 99999, 10), v INT32, capacity=5)")
    db.execute("INSERT INTO t SELECT value, 1 FROM generate(10000)")


def small_dense(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', kind=dense, y INT32 DIMENSION(0, 9, 10), x INT32 DIMENSION(0, 9999, 5), v INT32)")
    db.execute("INSERT INTO t SELECT value % 10, value / 10, 1 FROM generate(100000)")


def large_sparse(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 99999, 10), v BLOB NOT NULL, capacity=100000)")
    db.execute("INSERT INTO t SELECT value, zeroblob(70000) FROM generate(1000)")


def large_dense(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', kind=dense, y INT32 DIMENSION(0, 9999, 3000), x INT32 DIMENSION(0, 9999, 3000), v FLOAT64)")
    db.execute("INSERT INTO t VALUES(0, 0, 1)")


def noise(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999999, 10), v INT64 NOT NULL FILTERS(zstd))")
    db.execute("INSERT INTO t SELECT value, random() FROM generate(140000)")


def plain(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999999, 10), v INT64 NOT NULL FILTERS(none))")
    db.execute("INSERT INTO t SELECT value, value FROM generate(140000)")


def plain_blobs(db):
    db.execute("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 999999, 10), v BLOB NOT NULL FILTERS(none))")
    db.execute("INSERT INTO t SELECT value, randomblob(100) FROM generate(20000)")


CASES = {
    many_fragments: "too many fragments",
    enough_fragments: None,
    few_tiles: None,
    empty_tiles: "tiles that are mostly empty",
    deletes: "deletes that cost",
    few_deletes: None,
    deletes_of_many: "deletes that cost",
    delete_of_thousands: "deletes that cost",
    debris: "debris",
    debris_of_two_kinds: "debris",
    statistics: "statistics missing",
    small_sparse: "tiles too small",
    small_dense: "tiles too small",
    large_sparse: "tiles too large",
    large_dense: "tiles too large",
    noise: "filters that do not pay",
    plain: "no compression",
    plain_blobs: None,
}
# A merge keeps its sources, so that earlier times stay readable until the vacuum.
AFTER = {many_fragments: ["debris"], empty_tiles: ["debris"], deletes_of_many: ["debris"]}


def advice(db, path):
    return db.execute("SELECT finding, statement FROM tessera_advise(?) ORDER BY finding", (path,)).fetchall()


def check(extension, make, finding):
    db = sqlite3.connect("t.db", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    db.execute("CREATE VIEW numbers AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999) SELECT i AS value FROM n")
    execute = db.execute

    class Database:
        def execute(self, sql, arguments=()):
            begin, _, rest = sql.partition("generate(")
            if rest:
                count, _, end = rest.partition(")")
                sql = f"{begin}(SELECT value FROM numbers LIMIT {count}){end}"
            return execute(sql, arguments)

    make(Database())
    path = "a"
    rows = execute("SELECT count(*), count(v), min(x), max(x) FROM t").fetchone()
    found = advice(db, path)
    if finding is None:
        db.close()
        return f"nothing is expected, it says {found}" if found else None
    statements = [statement for name, statement in found if name == finding]
    if len(found) != 1 or not statements:
        return f"just '{finding}' is expected, it says {found}"
    execute(statements[0]).fetchall()
    if "tessera_copy" in statements[0]:
        path = "a-new"
        execute("DROP TABLE t")
        execute("CREATE VIRTUAL TABLE t USING tessera('a-new')")
    left = [name for name, _ in advice(db, path)]
    after = execute("SELECT count(*), count(v), min(x), max(x) FROM t").fetchone()
    faults = execute("SELECT count(*) FROM tessera_check(?) WHERE severity <> 'note'", (path,)).fetchone()[0]
    db.close()
    if left != AFTER.get(make, []):
        return f"after {statements[0]} it says {left}"
    if after != rows or faults:
        return f"after {statements[0]} rows are {after}, not {rows}, with {faults} faults"
    return None


def main():
    extension = os.path.abspath(sys.argv[1])
    wrong = 0
    for make, finding in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            said = check(extension, make, finding)
            os.chdir("/")
        if said:
            print(f"{make.__name__}: {said}")
            wrong += 1
    print(f"{len(CASES)} arrays, {wrong} wrong")
    sys.exit(wrong != 0)


main()
