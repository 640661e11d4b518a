"""The requests of statements on arrays in buckets are counted and compared with the numbers that docs/performance-data.md promises.

usage: requests.py LIBRARY FOLDER [moto | versitygw | azurite | gcs | gcs_memory] [--few | --many] [--log FILE]      # 20, 100, or 100 and 1,000 fragments
"""
import os
import sys

from buckets import NAME, There, load, run, scope, spent

MANY = "--many" in sys.argv
LOG = open(sys.argv[sys.argv.index("--log") + 1], "w") if "--log" in sys.argv else None
FAILED = []


# What is reached so far where the numbers below are not: none of these may grow. Round trips vary by two with the time
# that answers take.
TODAY = {
    "CREATE of an array": {"total": 14, "round_trips": 12},
    "consolidate commits": {"total": 15, "round_trips": 9},
    "consolidate fragments": {"round_trips": 25},
    "vacuum": {"total": 41, "round_trips": 24},
    "tessera_add_attribute": {"total": 22, "round_trips": 13},
    "tessera_check": {"round_trips": 17},
}

LISTING_COUNTS = 0.1 # seconds: OPENING_MS of core/array/array.c
ONE_BY_ONE = {"vacuum": 28} # DELETE more where a request deletes one object


def today(title, name, bound):
    """The bound of a counter: that of TODAY if it is larger."""
    for start, counts in TODAY.items():
        if title.startswith(start) and name in counts:
            more = ONE_BY_ONE.get(start, 0) if name == "total" and There.scheme != "s3" else 0
            return max(bound, counts[name] + more + (2 if name == "round_trips" else 0))
    return bound


def again(bucket):
    """How many more LIST there may be: two, if the requests of a statement took longer than a listing counts within it, as on a busy machine."""
    times = [entry["time"] for entry in bucket.proxy.log]
    return 2 if times and max(times) - min(times) > LISTING_COUNTS else 0


def total(found):
    return sum(found.get(name, 0) for name in ("gets", "heads", "lists", "puts", "deletes"))


def at_most(bucket, title, found, **bounds):
    """Asserts upper bounds of counters; `total` is that of all requests. With --log, what misses the numbers is written there."""
    found = dict(found, total=total(found))
    assert not found["total"] or found.get("round_trips"), f"{title}: requests without round trips: {found}"
    lists = again(bucket)
    more = {"lists": lists, "total": lists, "round_trips": lists // 2} # made at one time
    wrong = [f"{name} {found.get(name, 0)} > {bound}" for name, bound in bounds.items()
             if found.get(name, 0) > (bound if LOG else today(title, name, bound)) + more.get(name, 0)]
    text = f"{title}: {found}; to reach {bounds}"
    print("  " + text, flush=True)
    if LOG:
        lines = bucket.log().splitlines()
        shown = lines if len(lines) <= 60 else lines[:40] + ["..."] + lines[-15:]
        LOG.write(f"{'NOT REACHED (' + ', '.join(wrong) + ')' if wrong else 'reached'}  {text}\n    " + "\n    ".join(shown) + "\n\n")
        LOG.flush()
    elif wrong:
        FAILED.append(f"{text}: {', '.join(wrong)}\n{bucket.log()}")


def make_fragments(bucket, count):
    """Makes a directory's array of many fragments, and copies it into the bucket: loose and consolidated, sparse and dense."""
    folder = os.path.join(bucket.folder, "arrays")
    os.makedirs(folder, exist_ok=True)
    db = load(bucket.library)
    for kind in ("sparse", "dense"):
        name = f"{kind}{count}"
        db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera('{folder}/{name}', kind={kind}, x INT32 DIMENSION(0, {count * 10 - 1}, 10), a INT32)")
        for i in range(count):
            db.execute(f"WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 9) INSERT INTO {name} SELECT {i} * 10 + i, {i} FROM r")
        bucket.upload(f"{folder}/{name}", f"{name}-loose")
        db.execute(f"SELECT tessera_consolidate('{folder}/{name}', 'commits'), tessera_consolidate('{folder}/{name}', 'fragment_meta')").fetchall()
        db.execute(f"SELECT tessera_vacuum('{folder}/{name}', 'commits'), tessera_vacuum('{folder}/{name}', 'fragment_meta')").fetchall()
        bucket.upload(f"{folder}/{name}", f"{name}-consolidated")


def test_open(bucket):
    for count in (20,) if "--few" in sys.argv else (100, 1000) if MANY else (100,):
        make_fragments(bucket, count)
        for kind in ("sparse", "dense"):
            for state in ("consolidated", "loose"):
                db = bucket.connect()
                uri = f"s3://{NAME}/{kind}{count}-{state}"
                found = bucket.spent(db, f"CREATE VIRTUAL TABLE t USING tessera('{uri}')", "SELECT a FROM t WHERE x = 57")
                assert db.execute("SELECT a FROM t WHERE x = 57").fetchall() == [(5,)]
                title = f"CREATE VIRTUAL TABLE and one tile of {count} {state} fragments, {kind}"
                if state == "consolidated":
                    at_most(bucket, title, found, lists=4, heads=0, gets=6, round_trips=4, puts=0, deletes=0)
                else: # a schema, the footers, and the files of one tile
                    at_most(bucket, title, found, lists=4, heads=0, gets=count + 1 + 3, puts=0, deletes=0)
                if state == "consolidated":
                    file = os.path.join(bucket.folder, f"{kind}{count}.db")
                    bucket.connect(file).execute(f"CREATE VIRTUAL TABLE kept USING tessera('{uri}')")
                    found = bucket.spent(bucket.connect(file), "SELECT a FROM kept WHERE x = 57")
                    title = f"the first SELECT of a connection, one tile of {count} {state} fragments, {kind}"
                    at_most(bucket, title, found, lists=4, heads=0, gets=6, round_trips=4, puts=0, deletes=0)
                found = bucket.spent(db, "SELECT a FROM t WHERE x = 58")
                at_most(bucket, f"the next SELECT, the same tile ({state}, {kind})", found, lists=2, heads=0, gets=0, round_trips=1)
                db.close()
                db = bucket.connect(refresh_ms=60000)
                db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
                db.execute("SELECT a FROM t WHERE x = 57").fetchall()
                found = bucket.spent(db, "SELECT a FROM t WHERE x = 58")
                at_most(bucket, f"the next SELECT with refresh_ms ({state}, {kind})", found, total=0)
                found = bucket.spent(db, "SELECT sum(a) FROM t")
                at_most(bucket, f"a sum over all {count} fragments with refresh_ms ({state}, {kind})", found, lists=0, heads=0, gets=3 * count, round_trips=14 if count > 100 else 8)
                db.close()
                slices(bucket, uri, f"{count} {state} fragments, {kind}", count)


def slices(bucket, uri, title, count):
    """The round trips of a slice and a sum do not grow with the number of fragments: their metadata are fetched together, then their tiles."""
    for what, statement in (("a slice", ("SELECT sum(a) FROM t WHERE x < ?", (200,))), ("a slice of a constant", ("SELECT sum(a) FROM t WHERE x < 200", ())),
                            ("a sum", ("SELECT sum(a) FROM t", ()))):
        db = bucket.connect()
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
        found = bucket.spent(db, statement)
        met = count if what == "a sum" else 20
        gets = 3 * met + (count if "loose" in title else 0)
        at_most(bucket, f"{what} of {title}", found, lists=2, heads=0, gets=gets, round_trips=14 if met > 100 else 8 if what == "a sum" else 6, puts=0, deletes=0)
        db.close()


CELLS = "INSERT INTO t WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 999) SELECT {first} + i, i FROM r"


def test_create_and_commit(bucket):
    db = bucket.connect()
    uri = f"s3://{NAME}/made"
    found = bucket.spent(db, f"CREATE VIRTUAL TABLE t USING tessera('{uri}', kind=sparse, x INT32 DIMENSION(0, 99999, 1000), a INT32)")
    at_most(bucket, "CREATE of an array (with the proof of the scope: 5 requests)", found, total=9 + 5, round_trips=10)
    db.execute(CELLS.format(first=0))
    found = bucket.spent(db, CELLS.format(first=1000))
    at_most(bucket, "commit of 1,000 sparse cells, one dimension, one attribute, array open", found, total=9, round_trips=5, deletes=0)
    found = bucket.spent(db, "SELECT sum(a) FROM t")
    at_most(bucket, "the SELECT after it, of cells that this connection has written", found, lists=2, gets=0, round_trips=1, heads=0)
    db.execute("BEGIN")
    for i in range(10):
        db.execute("INSERT INTO t VALUES (?, ?)", (50000 + i, i))
    found = bucket.spent(db, "COMMIT")
    at_most(bucket, "COMMIT alone, ten statements before it", found, total=8, round_trips=6, deletes=0)
    found = bucket.spent(db, "SELECT sum(a) FROM t")
    found = bucket.spent(db, "BEGIN", "INSERT INTO t VALUES (60000, 1)", "INSERT INTO t VALUES (60001, 1)", "ROLLBACK")
    at_most(bucket, "BEGIN, INSERT, INSERT, ROLLBACK", found, total=3, round_trips=2, puts=0, deletes=0)
    db.execute(f"CREATE VIRTUAL TABLE u USING tessera('s3://{NAME}/wide', kind=sparse, x INT32 DIMENSION(0, 99999, 1000), a INT32 NOT NULL, b INT32 NOT NULL, c TEXT NOT NULL)")
    db.execute("INSERT INTO u VALUES (1, 1, 1, 'a')")
    found = bucket.spent(db, "INSERT INTO u VALUES (2, 1, 1, 'a')")
    at_most(bucket, "commit of one cell, four fields of which one is text", found, total=8 + 3, round_trips=6, deletes=0)
    db.execute(f"CREATE VIRTUAL TABLE v USING tessera('s3://{NAME}/dense', kind=dense, x INT32 DIMENSION(0, 99999, 1000), a INT32 NOT NULL)")
    db.execute("WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 999) INSERT INTO v SELECT i, i FROM r")
    found = bucket.spent(db, "WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 999) INSERT INTO v SELECT i + 1000, i FROM r")
    at_most(bucket, "commit of 1,000 dense cells, one attribute", found, total=7, round_trips=6, deletes=0)
    second = bucket.connect()
    second.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
    found = bucket.spent(second, "INSERT INTO t VALUES (70000, 1)")
    at_most(bucket, "first commit of a connection that has read nothing yet (with the proof: 4 requests, and what opening takes)", found, total=8 + 4 + 8)


def test_constraints_are_listed_with_the_commits(bucket):
    """What a writer lists at its first row is asked for at one time: __meta, for the CHECK constraints, does not wait for __commits."""
    db = bucket.connect()
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/listed', kind=sparse, x INT32 DIMENSION(0, 99999, 1000), a INT32)")
    db.execute(CELLS.format(first=0))
    bucket.proxy.log = []
    bucket.proxy.fault("delay", kind="LIST", times=3, ms=1500)
    db.execute(CELLS.format(first=1000))
    asked = {name: [entry["time"] for entry in bucket.proxy.log if entry["kind"] == "LIST" and name in entry["query"]] for name in ("__commits", "__meta")}
    assert len(asked["__meta"]) == 1 and asked["__meta"][0] - asked["__commits"][0] < 1, bucket.log()
    other = bucket.connect()   # a constraint that another connection has added meanwhile is found
    other.execute(f"SELECT tessera_add_check('s3://{NAME}/listed', 'small', 'a < 2000')").fetchall()
    try:
        db.execute("INSERT INTO t VALUES (5000, 2000)")
    except Exception as error:
        assert "small" in str(error), error
    else:
        raise AssertionError("a cell that breaks a CHECK of another connection was written")


def test_changes(bucket):
    db = bucket.connect()
    uri = f"s3://{NAME}/changed"
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}', kind=sparse, x INT32 DIMENSION(0, 99999, 1000), a INT32)")
    for i in range(4):
        db.execute(CELLS.format(first=i * 1000))
    db.execute("SELECT sum(a) FROM t").fetchall()
    found = bucket.spent(db, "UPDATE t SET a = -1 WHERE x = 57")
    at_most(bucket, "UPDATE of one cell", found, total=14, round_trips=8)
    found = bucket.spent(db, "DELETE FROM t WHERE x = 58")
    at_most(bucket, "DELETE of one cell", found, total=13, round_trips=8)
    found = bucket.spent(db, f"SELECT tessera_set_metadata('{uri}', 'k', 1)")
    at_most(bucket, "tessera_set_metadata", found, total=8, round_trips=6)
    found = bucket.spent(db, f"SELECT tessera_consolidate('{uri}', 'commits')")
    at_most(bucket, "consolidate commits", found, total=14, round_trips=8)
    found = bucket.spent(db, f"SELECT tessera_consolidate('{uri}', 'fragment_meta')")
    at_most(bucket, "consolidate fragment_meta", found, total=14, round_trips=8)
    found = bucket.spent(db, f"SELECT tessera_consolidate('{uri}')")
    at_most(bucket, "consolidate fragments (5 fragments)", found, total=50, round_trips=14)
    found = bucket.spent(db, f"SELECT tessera_vacuum('{uri}')")
    at_most(bucket, "vacuum of 5 fragments", found, total=16, round_trips=12)
    found = bucket.spent(db, "SELECT sum(a) FROM t")
    at_most(bucket, "the SELECT after the vacuum", found, lists=6, gets=8, round_trips=5, heads=0)
    found = bucket.spent(db, f"SELECT tessera_add_attribute('{uri}', 'b INT32')")
    at_most(bucket, "tessera_add_attribute", found, total=8, round_trips=5)
    found = bucket.spent(db, f"SELECT * FROM tessera_check('{uri}')")
    at_most(bucket, "tessera_check", found, round_trips=12, heads=0)


def test_many_fragments_are_merged(bucket):
    """A consolidation takes as many round trips for 20 fragments as for 4: what it reads of them is fetched together. Measured with a new connection."""
    for what in ("commits", "fragment_meta", "fragments"):
        trips = {}
        for count in (4, 20):
            folder, name = os.path.join(bucket.folder, f"merge{count}"), f"merge{count}-{what}"
            if not os.path.exists(folder):
                db = load(bucket.library)
                db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{folder}', kind=sparse, x INT32 DIMENSION(0, 99999, 1000), a INT32)")
                for i in range(count):
                    db.execute(f"INSERT INTO t VALUES ({i}, {i})")
                db.close()
            bucket.upload(folder, name)
            db = bucket.connect()
            db.execute(f"SELECT tessera_create_group('s3://{NAME}/proof-{name}')").fetchall() # proves the scope
            found = bucket.spent(db, f"SELECT tessera_consolidate('s3://{NAME}/{name}', '{what}')")
            trips[count] = found["round_trips"]
            print(f"  consolidate {what} of {count} fragments, a new connection: {dict(found, total=total(found))}", flush=True)
            db.execute(f"CREATE VIRTUAL TABLE merged USING tessera('s3://{NAME}/{name}')")
            assert db.execute("SELECT count(*), sum(a) FROM merged").fetchall() == [(count, count * (count - 1) // 2)]
            db.close()
        assert trips[20] <= trips[4] + 4, (what, trips)


def main():
    code = run((test_create_and_commit, test_constraints_are_listed_with_the_commits, test_changes, test_many_fragments_are_merged, test_open), "requests")
    for text in FAILED:
        print("not reached: " + text)
    return 1 if FAILED else code


if __name__ == "__main__":
    sys.exit(main())
