"""SQLite's extended result codes: a table of statements that fail, and the code that each returns.

usage: codes.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import sys
import tempfile

import host
from host import Database

ERROR, PERM, NOMEM, READONLY, CANTOPEN, CONSTRAINT, MISMATCH, AUTH, RANGE, TOOBIG, LOCKED = 1, 3, 7, 8, 14, 19, 20, 23, 25, 18, 6
CORRUPT_VTAB, NOTNULL, UNIQUE = 11 | 1 << 8, CONSTRAINT | 5 << 8, CONSTRAINT | 8 << 8

TABLE = [
    (CANTOPEN, "CREATE VIRTUAL TABLE new USING tessera('nowhere')"),
    (CANTOPEN, "SELECT * FROM tessera_array('nowhere')"),
    (CANTOPEN, "CREATE VIRTUAL TABLE new USING tessera('a', key_file='nowhere')"),
    (ERROR, "CREATE VIRTUAL TABLE new USING tessera('a', colour=red)"),
    (ERROR, "INSERT INTO t(as_of, x) VALUES('2020-01-01', 1)"),
    (ERROR, "UPDATE t SET rowid = 5"),
    (ERROR, "INSERT INTO dense VALUES(1, 1, 1)", "DELETE FROM dense"),
    (ERROR, "INSERT INTO dense VALUES(1, 1, 1)", "UPDATE dense SET x = 2"),
    (ERROR, "DELETE FROM t WHERE as_of = '2100-01-01'"),
    (ERROR, "SELECT tessera_drop_attribute('db:t', 'nothing')"),
    (ERROR, "SELECT tessera_extend_enumeration('db:t', 'nothing', '[1]')"),
    (ERROR, "SELECT * FROM tessera_enumeration('db:t', 'a')"),
    (ERROR, "SELECT tessera_copy('db:t', 'copy', '{\"filters\":{\"nothing\":\"zstd\"}}')"),
    (ERROR, "SELECT tessera_create_group('group'), tessera_create_group('group/in'), tessera_add_member('group', 'group/in')", "SELECT tessera_drop('group')"),
    (CANTOPEN, "SELECT tessera_drop('.')"),
    (CANTOPEN, "SELECT tessera_drop('nowhere')"),
    (ERROR, "SELECT tessera_drop('db:t')"),
    (ERROR, "CREATE VIRTUAL TABLE new USING tessera('a', x INT32 DIMENSION(0, 99), a INT8)"),
    (ERROR, "SELECT tessera_vacuum('db:sqlite_schema')"),
    (CANTOPEN, "SELECT tessera_vacuum('db:nothing')"),
    (MISMATCH, "INSERT INTO t(x, a) VALUES('one', 1)"),
    (MISMATCH, "INSERT INTO t(x, a) VALUES(5, x'00')"),
    (MISMATCH, "INSERT INTO t(x, a) VALUES(5, 1.5)"),
    (MISMATCH, "INSERT INTO t(x, a, g) VALUES(5, 1, 'no label')"),
    (MISMATCH, "INSERT INTO t(x, a, d) VALUES(5, 1, 'yesterday')"),
    (MISMATCH, "INSERT INTO t(x, a, v) VALUES(5, 1, '[1,')"),
    (MISMATCH, "SELECT * FROM t WHERE as_of = 'yesterday'"),
    (MISMATCH, "SELECT tessera_png(1, 2)"),
    (RANGE, "INSERT INTO t(x, a) VALUES(100, 1)"),
    (RANGE, "INSERT INTO t(x, a) VALUES(5, 200)"),
    (RANGE, "INSERT INTO t(x, a, v) VALUES(5, 1, '[1e300]')"),
    (RANGE, "UPDATE t SET a = -129"),
    (NOTNULL, "INSERT INTO t(x) VALUES(5)"),
    (NOTNULL, "UPDATE t SET a = NULL"),
    (UNIQUE, "INSERT INTO strict VALUES(1, 1)"),
    (UNIQUE, "UPDATE strict SET x = 2 WHERE x = 1"),
    (READONLY, "INSERT INTO past(x, a) VALUES(5, 1)"),
    (READONLY, "DELETE FROM past"),
    (RANGE, "SELECT tessera_png('db:dense', 'a', NULL, '{\"width\":100000}')"),
    (CORRUPT_VTAB, "SELECT * FROM damaged"),
    (PERM, "SELECT tessera_restrict('.')", "SELECT * FROM tessera_array('/')"),
    (PERM, "SELECT tessera_restrict('.')", "CREATE VIRTUAL TABLE new USING tessera('../outside')"),
    (LOCKED, "BEGIN", "INSERT INTO t(x, a) VALUES(7, 7)", "DROP TABLE t"),
]


def damage(array):
    """Flips one byte in the middle of the only data tile."""
    for folder, _, names in os.walk(array):
        for name in names:
            if name == "a0.tdb":
                with open(os.path.join(folder, name), "r+b") as f:
                    f.seek(os.path.getsize(f.name) // 2)
                    byte = f.read(1)
                    f.seek(-1, os.SEEK_CUR)
                    f.write(bytes([byte[0] ^ 0xFF]))
                return
    raise AssertionError(f"no data in {array}")


def test_each_error_has_its_extended_code():
    wrong = []
    for code, *statements in TABLE:
        folder = tempfile.mkdtemp(dir=host.FOLDER)
        os.chdir(folder)   # the paths of functions are relative to the current directory
        db = Database(os.path.join(folder, "t.db"))
        for sql in ("CREATE VIRTUAL TABLE t USING tessera('a', x INT32 DIMENSION(0, 99), a INT8 NOT NULL, g TEXT ENUM('x'), d DATETIME_DAY, v INT16[])",
                    "INSERT INTO t(x, a) VALUES(1, 1), (2, 2)",
                    "CREATE VIRTUAL TABLE past USING tessera('a', as_of='2100-01-01')",
                    "CREATE VIRTUAL TABLE strict USING tessera('s', x INT32 DIMENSION(0, 99), a INT8, on_conflict=abort)",
                    "INSERT INTO strict VALUES(1, 1), (2, 2)",
                    "CREATE VIRTUAL TABLE dense USING tessera('dense', kind=dense, x INT32 DIMENSION(0, 9, 5), y INT32 DIMENSION(0, 9, 5), a INT8)",
                    "CREATE VIRTUAL TABLE damaged USING tessera('damaged', x INT32 DIMENSION(0, 99), a INT8 FILTERS(zstd, sha256))",
                    "INSERT INTO damaged VALUES(1, 1), (2, 2)"):
            db.query(sql)
        damage(os.path.join(folder, "damaged"))
        db.close()
        db = Database(os.path.join(folder, "t.db"))
        for sql in statements[:-1]:
            db.query(sql)
        try:
            rows = db.query(statements[-1])
            wrong.append(f"{statements[-1]}: {rows}, not code {code}")
        except host.Error as e:
            if e.extended not in (code, None):
                wrong.append(f"{statements[-1]}: code {e.extended}, not {code}: {e.text}")
        db.close()
    if wrong:
        raise AssertionError("\n".join(wrong))


if __name__ == "__main__":
    host.main(sys.modules[__name__])
