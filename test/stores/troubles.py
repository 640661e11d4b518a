"""Each kind of fault of the proxy meets each operation on an array in a bucket: the operation succeeds, or fails with a clear error; nothing is lost,
and the operation can be done again.

usage: troubles.py LIBRARY FOLDER [moto | versitygw | azurite | gcs | gcs_memory] [NAME OF TEST ...] [--every N]      # a sample: every Nth pair
"""
import sqlite3
import sys

from buckets import NAME, run
from servers import SECRET

RENEWED = 50 # pairs, after which a new server takes the place of the one that their objects have made slow
EVERY = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
CELLS = [(1, 1), (2, 2), (3, 30)]
WHOLE = b"<ListBucketResult><garbage"

# The faults, and the kinds of requests that they meet; each is met twice, the second time until the operation has failed.
FAULTS = [({"do": "status", "status": status, "code": code}, kinds) for status, code, kinds in (
    (500, "InternalError", ("LIST", "GET", "PUT", "DELETE")), (503, "SlowDown", ("LIST", "GET", "PUT")), (429, "TooManyRequests", ("LIST", "GET", "PUT")),
    (403, "AccessDenied", ("LIST", "GET", "PUT", "DELETE")))]
FAULTS += [({"do": "reset"}, ("LIST", "GET", "PUT")), ({"do": "lost"}, ("LIST", "GET", "PUT", "DELETE", "DELETE-MANY")), ({"do": "truncate"}, ("LIST", "GET")),
           ({"do": "stall", "ms": 1500}, ("LIST", "GET")), ({"do": "delay", "ms": 300}, ("LIST", "GET", "PUT")), ({"do": "flip", "at": 1}, ("LIST",)),
           ({"do": "replace", "body": WHOLE, "headers": {"Content-Type": "application/xml"}}, ("LIST",)), ({"do": "other-range"}, ("RANGE",))]

# The operations, and whether the cells afterwards are others.
OPERATIONS = {
    "select": ("SELECT x, a FROM t ORDER BY x", None),
    "insert": ("INSERT INTO t VALUES (4, 4)", CELLS + [(4, 4)]),
    "update": ("UPDATE t SET a = 9 WHERE x = 1", [(1, 9)] + CELLS[1:]),
    "delete": ("DELETE FROM t WHERE x = 1", CELLS[1:]),
    "fragments": ("SELECT tessera_consolidate('{uri}')", None),
    "commits": ("SELECT tessera_consolidate('{uri}', 'commits')", None),
    "fragment_meta": ("SELECT tessera_consolidate('{uri}', 'fragment_meta')", None),
    "vacuum": ("SELECT tessera_vacuum('{uri}')", None),
    "metadata": ("SELECT tessera_set_metadata('{uri}', 'k', 2)", None),
    "attribute": ("SELECT tessera_add_attribute('{uri}', 'b INT32')", None),
    "copy": ("SELECT tessera_copy('{uri}', '{uri}-copy')", None),
    "import": ("SELECT tessera_sync('{uri}', 'db:inside')", None),
    "sync": ("SELECT tessera_sync('{uri}', '{uri}-copy')", None),
    "sync again": ("SELECT tessera_sync('{uri}', '{uri}-copy')", None),
    "check": ("SELECT * FROM tessera_check('{uri}')", None),
}


def cells(db):
    return db.execute("SELECT x, a FROM t ORDER BY x").fetchall()


def meet(bucket, name, operation, fault, kind, times):
    """Runs an operation while its requests of a kind meet a fault. Returns its error's text, or "" if it succeeded."""
    statement, changed = OPERATIONS[operation]
    uri = f"s3://{NAME}/{name}"
    db = bucket.connect(direct=True)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 9, 10), a INT32)")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    if operation == "sync again": # the copy follows: one commit is new, three were merged and vacuumed
        db.execute(statement.format(uri=uri)).fetchall()
    db.execute("UPDATE t SET a = 30 WHERE x = 3")
    if operation == "sync again":
        db.execute(f"SELECT tessera_consolidate('{uri}'), tessera_vacuum('{uri}', '{{\"grace_s\":0}}')").fetchall()
    db.close()
    db, message = bucket.connect(retries=2, stall_ms=1000), ""
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
    bucket.proxy.clear()
    # ranges alone have a Content-Range that can be changed; the tails of small objects have one, too
    rule = bucket.proxy.fault(kind="GET" if kind == "RANGE" else kind, path="(fragment_metadata|a0)[.]tdb" if kind == "RANGE" else "", times=times, **fault)
    try:
        found = db.execute(statement.format(uri=uri)).fetchall()
        assert operation != "select" or found == CELLS, found
        assert operation != "check" or times < 9 and not [row for row in found if row[0] == "error"] or times >= 9, found
    except sqlite3.Error as error:
        message = str(error)
        assert SECRET not in message and any(word in message for word in ("s3://", NAME)), message
    met = rule["times"] < times
    bucket.proxy.clear()
    seen = bucket.connect(direct=True)
    seen.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
    columns = [(x, a) for x, a, *_ in cells(db)]
    assert columns in (CELLS, changed or CELLS) and (message or columns == (changed or CELLS)), (columns, message)
    assert cells(seen) == columns, (cells(seen), columns)
    if message and operation != "attribute":
        if operation == "insert" and columns == CELLS or operation not in ("insert", "copy", "import", "sync", "sync again"):
            db.execute(statement.format(uri=uri)).fetchall()
            assert cells(db) == (changed or CELLS)
    errors = [row for row in seen.execute(f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert not errors, errors
    if operation.startswith("sync"):
        follow(seen, uri, statement.format(uri=uri))
    db.close(), seen.close()
    return met, message


def follow(db, uri, statement):
    """Whatever the sync has met, the next one makes the copy the same, byte by byte, and one more has nothing to do."""
    db.execute(statement).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE copied USING tessera('{uri}-copy')")
    assert db.execute("SELECT x, a FROM copied ORDER BY x").fetchall() == CELLS
    again = db.execute(f"SELECT tessera_sync('{uri}', '{uri}-copy', '{{\"verify\":true}}')").fetchall()
    assert again == [('{"copied":0,"removed":0,"bytes":0}',)], again
    errors = [row for row in db.execute(f"SELECT * FROM tessera_check('{uri}-copy')") if row[0] == "error"]
    assert not errors, errors


def test_pairs(bucket):
    n = pairs = met = failed = 0
    wrong = []
    for fault, kinds in FAULTS:
        for kind in kinds:
            for operation in OPERATIONS:
                for times in (1, 99):
                    n += 1
                    if n % EVERY or times > 1 and fault["do"] in ("delay", "stall"):
                        continue
                    if EVERY == 1 and not n % RENEWED:
                        bucket.renew()
                    what = f"{operation}, {fault['do']} {fault.get('status', '')} {kind} {times} times"
                    try:
                        was_met, message = meet(bucket, f"pair{n}", operation, fault, kind, times)
                        # a refusal and a range that is wrong for good are no passing faults
                        if times == 1 and message and fault.get("status") != 403:
                            wrong.append(f"{what}: {message}")
                        pairs, met, failed = pairs + 1, met + was_met, failed + bool(message)
                    except Exception as error:
                        bucket.proxy.clear()
                        wrong.append(f"{what}: {type(error).__name__}: {error}")
    print(f"    {pairs} pairs, {met} met their fault, {failed} failed clearly")
    assert not wrong, "\n".join(wrong)
    assert met and pairs


TESTS = (test_pairs,)

if __name__ == "__main__":
    sys.exit(run(TESTS, "troubles"))
