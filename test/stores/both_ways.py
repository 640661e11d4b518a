"""Arrays that TileDB writes into a bucket are read and changed by tessera, and the reverse; both read equal contents. TileDB runs in processes
of its own (tiledb_side.py).

usage: both_ways.py LIBRARY FOLDER TILEDB_ENVIRONMENT [moto | versitygw | azurite | gcs] [NAME OF TEST ...]
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "interop"))
import run as environments

from buckets import NAME, There, preload_sanitizer, raises, run, there
from servers import ACCOUNT, ACCOUNT_KEY, KEY_ID, SECRET

ENVIRONMENT = sys.argv.pop(3) # buckets keeps the arguments as they came
KEY = "0123456789abcdeF0123456789abcdeF"
PYTHON = None
ARRAY = f"s3://{NAME}/"


def python():
    """The Python that has TileDB, or None."""
    modules, wanted = environments.TILEDB
    preload = os.environ.pop("LD_PRELOAD", None)
    try:
        return sys.executable if environments.has(sys.executable, modules) else environments.make_alone(ENVIRONMENT, modules, wanted)
    finally:
        if preload:
            os.environ["LD_PRELOAD"] = preload


def theirs(bucket, do, uri, **order):
    """Lets TileDB do something. It may die of itself: then it is tried again."""
    order = dict(order, do=do, uri=uri, port=bucket.server.port, key_id=KEY_ID, secret=SECRET, account=ACCOUNT, account_key=ACCOUNT_KEY)
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and name not in ("LD_PRELOAD", "ASAN_OPTIONS")}
    for _ in range(3):
        done = subprocess.run([PYTHON, os.path.join(HERE, "tiledb_side.py"), there(json.dumps(order))], capture_output=True, text=True, timeout=300, env=environment)
        if done.returncode >= 0:
            break
    assert done.returncode == 0, f"TileDB: {do} {uri}: {done.stderr[-1500:]}"
    return json.loads(done.stdout.replace(There.scheme + "://", "s3://"))


def ours(bucket, uri, options=""):
    """The contents as TileDB's side tells them."""
    db = bucket.connect(direct=True)
    if options == "key":
        db.execute("SELECT tessera_set_key(?, ?)", (uri, KEY.encode())).fetchall()
        options = ""
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}'{options})")
    cursor = db.execute("SELECT * FROM t")
    rows = [list(row) for row in cursor.fetchall()]
    names = [each[0] for each in cursor.description]
    dims = db.execute(f"SELECT count(*) FROM tessera_schema('{uri}') WHERE role = 'dimension'").fetchone()[0]
    meta = dict(db.execute(f"SELECT key, value FROM tessera_metadata('{uri}')").fetchall())
    db.close()
    return {"columns": names, "rows": sorted(rows, key=lambda row: json.dumps(row[:dims]).zfill(40)), "meta": meta}


def equal(bucket, uri, count, options="", key=None):
    """Asserts that both sides read the same, and so many rows; returns the contents."""
    mine, other = ours(bucket, uri, options), theirs(bucket, "read", uri, key=key)
    assert mine["columns"] == other["columns"], (mine["columns"], other["columns"])
    assert len(mine["rows"]) == len(other["rows"]) == count, (uri, len(mine["rows"]), len(other["rows"]), count)
    for a, b in zip(mine["rows"], other["rows"]):
        assert a == b, (uri, a, b)
    assert mine["meta"] == other["meta"], (mine["meta"], other["meta"])
    return mine


def sql(bucket, uri, *statements, key=None):
    db = bucket.connect()
    if key:
        db.execute("SELECT tessera_set_key(?, ?)", (uri, key.encode())).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
    for statement in statements:
        db.execute(statement).fetchall()
    found = [row for row in db.execute(f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not found, found
    db.close()


def test_theirs_dense(bucket):
    uri = ARRAY + "theirs/dense"
    theirs(bucket, "make", uri, case="dense")
    equal(bucket, uri, 200)
    theirs(bucket, "write_dense", uri, case="dense", shift=5)
    equal(bucket, uri, 200)
    sql(bucket, uri, "UPDATE t SET v = -1, n = NULL, s = 'ours' WHERE y BETWEEN 3 AND 7 AND x = 2")
    contents = equal(bucket, uri, 200)
    assert [3, 2, -1.0, None, "ours"] in contents["rows"]
    theirs(bucket, "consolidate", uri, modes=["commits", "fragment_meta", "fragments"], vacuum=True)
    assert equal(bucket, uri, 200)["rows"] == contents["rows"]
    sql(bucket, uri, "UPDATE t SET v = -2 WHERE y = 0", f"SELECT tessera_consolidate('{uri}'), tessera_vacuum('{uri}')")
    equal(bucket, uri, 200)


def test_theirs_sparse(bucket):
    for case in ("plain", "text", "enumeration"):
        uri = f"{ARRAY}theirs/{case}"
        theirs(bucket, "make", uri, case=case)
        theirs(bucket, "metadata", uri, values={"unit": "m", "n": 5})
        equal(bucket, uri, 20)
        x = "'key 99'" if case == "text" else 99
        extra = ", 'blue'" if case == "enumeration" else ""
        sql(bucket, uri, f"INSERT INTO t VALUES ({x}, 0.5, 'ours'{extra})", "UPDATE t SET s = NULL WHERE v = 3", "DELETE FROM t WHERE v = 1",
            f"SELECT tessera_set_metadata('{uri}', 'ours', 'x')")
        contents = equal(bucket, uri, 20)
        assert contents["meta"] == {"unit": "m", "n": 5, "ours": "x"}
        theirs(bucket, "write_sparse", uri, case=case, first=200)
        theirs(bucket, "delete", uri, condition="v >= 104")
        equal(bucket, uri, 28)
        sql(bucket, uri, f"SELECT tessera_consolidate('{uri}', 'commits'), tessera_consolidate('{uri}', 'fragment_meta')")
        equal(bucket, uri, 28)
        theirs(bucket, "write_sparse", uri, case=case, first=300)
        equal(bucket, uri, 38)
        sql(bucket, uri, f"SELECT tessera_consolidate('{uri}')", f"SELECT tessera_vacuum('{uri}')", f"SELECT tessera_consolidate('{uri}', 'array_meta')")
        equal(bucket, uri, 38)


def test_theirs_evolved(bucket):
    uri = ARRAY + "theirs/evolved"
    theirs(bucket, "make", uri, case="plain")
    theirs(bucket, "evolve", uri, case="plain")
    contents = equal(bucket, uri, 40, ", unwritten=fill")
    assert contents["columns"] == ["x", "s", "b"]
    sql(bucket, uri, f"SELECT tessera_add_attribute('{uri}', 'c FLOAT64')")
    sql(bucket, uri, "INSERT INTO t VALUES (900, 'x', 1, 2.5)")
    equal(bucket, uri, 41, ", unwritten=fill")


def test_theirs_encrypted(bucket):
    uri = ARRAY + "theirs/encrypted"
    theirs(bucket, "make", uri, case="plain", key=KEY)
    equal(bucket, uri, 20, "key", key=KEY)
    db = bucket.connect()
    raises(db, f"CREATE VIRTUAL TABLE t USING tessera('{uri}')", code="SQLITE_AUTH")
    db.execute("SELECT tessera_set_key(?, ?)", (uri, KEY.encode())).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
    db.execute("INSERT INTO t VALUES (77, 7, 'seven')")
    equal(bucket, uri, 21, "key", key=KEY)


OURS = {
    "dense": ("kind=dense, y INT32 DIMENSION(0, 9, 5), x INT32 DIMENSION(0, 9, 5), v FLOAT64, s TEXT",
              "WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 99) INSERT INTO t SELECT i / 10, i % 10, i * 1.5, CASE WHEN i % 3 THEN 'r' || i END FROM r", 100),
    "sparse": ("kind=sparse, x INT64 DIMENSION(0, 999, 10), v FLOAT32, s TEXT, e TEXT ENUM('p', 'q'), n INT8 NOT NULL",
               "WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 99) INSERT INTO t SELECT i, i / 2.0, CASE WHEN i % 3 THEN 'r' || i END, "
               "CASE i % 3 WHEN 0 THEN 'p' WHEN 1 THEN 'q' END, i % 100 FROM r", 100),
    "text": ("kind=sparse, k TEXT DIMENSION, x INT32 DIMENSION(0, 99, 10), v FLOAT64 FILTERS(byteshuffle, zstd(5))",
             "WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 99) INSERT INTO t SELECT 'k' || i % 7, i, i FROM r", 100)}


def test_ours(bucket):
    for case, (columns, fill, count) in OURS.items():
        uri = f"{ARRAY}ours/{case}"
        db = bucket.connect()
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', {columns})")
        db.execute(fill)
        db.execute(f"SELECT tessera_set_metadata('{uri}', 'k', 'v')").fetchall()
        equal(bucket, uri, count)
        db.execute("UPDATE t SET v = v + 100 WHERE x < 3")
        if case != "dense":
            db.execute("DELETE FROM t WHERE v BETWEEN 5 AND 9")
        count = db.execute("SELECT count(*) FROM t").fetchone()[0]
        equal(bucket, uri, count)
        theirs(bucket, "consolidate", uri, modes=["commits", "fragment_meta"], vacuum=True)
        equal(bucket, uri, count)
        theirs(bucket, "consolidate", uri, modes=["fragments"], vacuum=True)
        equal(bucket, uri, count)
        db.execute("UPDATE t SET v = 0 WHERE x = 1")
        db.execute(f"SELECT tessera_consolidate('{uri}')").fetchall()
        equal(bucket, uri, count)
        db.execute(f"SELECT tessera_vacuum('{uri}')").fetchall()
        equal(bucket, uri, count)
        if case == "sparse":
            db.execute(f"SELECT tessera_add_attribute('{uri}', 'added INT32'), tessera_extend_enumeration('{uri}', 'e', 'r')").fetchall()
            sql(bucket, uri, "INSERT INTO t(x, e, n, added) VALUES (500, 'r', 1, 2)")
            equal(bucket, uri, count + 1)
            theirs(bucket, "delete", uri, condition="x < 50")
            left = sum(row[0] >= 50 for row in ours(bucket, uri)["rows"])
            equal(bucket, uri, left)


def test_ours_encrypted(bucket):
    uri = ARRAY + "ours/encrypted"
    db = bucket.connect()
    db.execute("SELECT tessera_set_key(?, ?)", (uri, KEY.encode())).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', kind=sparse, x INT64 DIMENSION(0, 999, 10), s TEXT, encryption=aes_256_gcm)")
    db.execute("INSERT INTO t VALUES (1, 'one'), (2, NULL)")
    equal(bucket, uri, 2, "key", key=KEY)


def test_groups(bucket):
    for name in ("inner", "outer"):
        db = bucket.connect()
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{ARRAY}{'their-group/' if name == 'inner' else ''}{name}', x INT32 DIMENSION(0, 9, 10), a INT32)")
    uri = ARRAY + "their-group"
    theirs(bucket, "group", uri, members=[["in", "inner", True], ["out", ARRAY + "outer", False]])
    db = bucket.connect()
    assert db.execute("SELECT name, path, kind FROM tessera_members(?) ORDER BY name", (uri,)).fetchall() == [("in", uri + "/inner", "array"), ("out", ARRAY + "outer", "array")]
    assert db.execute("SELECT key, value FROM tessera_metadata(?)", (uri,)).fetchall() == [("k", "v")]
    uri = ARRAY + "our-group"
    db.execute("SELECT tessera_create_group(?)", (uri,)).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE i USING tessera('{uri}/inner', x INT32 DIMENSION(0, 9, 10), a INT32)")
    db.execute("SELECT tessera_set_metadata(?, 'k', 'v')", (uri,)).fetchall()
    assert theirs(bucket, "members", uri) == {"members": [], "meta": {"k": "v"}}
    db.execute("SELECT tessera_add_member(?, ?, 'in'), tessera_add_member(?, ?, 'out')", (uri, uri + "/inner", uri, ARRAY + "outer")).fetchall()
    assert theirs(bucket, "members", uri) == {"members": [["in", uri + "/inner"], ["out", ARRAY + "outer"]], "meta": {"k": "v"}}


TESTS = (test_theirs_dense, test_theirs_sparse, test_theirs_evolved, test_theirs_encrypted, test_ours, test_ours_encrypted, test_groups)


def main():
    global PYTHON
    preload_sanitizer()
    PYTHON = python()
    if not PYTHON:
        print("SKIPPED: the Python package `tiledb` could not be installed")
        return 77
    return run(TESTS, "both_ways")


if __name__ == "__main__":
    sys.exit(main())
