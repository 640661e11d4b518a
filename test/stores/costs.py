"""The table of docs/bucket-requests.md that says what each operation costs: the requests and round trips of each row are counted anew.

usage: costs.py LIBRARY FOLDER [moto | versitygw | azurite | gcs] [--print]      # --print shows the table as it should be
"""
import os
import re
import sys

from buckets import NAME, There, load, run

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "bucket-requests.md")
COLUMNS = ("lists", "heads", "gets", "puts", "deletes", "round_trips")
ONE_BY_ONE = {"tessera_vacuum after it": 25, "tessera_drop": 23} # DELETE where a request deletes one object, as the page says
TRIPS_MAY_DIFFER = 2  # answers that come at one time make one trip, or two
LISTS_MAY_DIFFER = 2  # a listing that is older than 100 ms on a slow machine is made again
SHAPE = "kind=sparse, x INT32 DIMENSION(0, 99999, 1000), a INT32"
CELLS = "INSERT INTO t WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 999) SELECT {first} + i, i FROM r"
WRITE = CELLS.format(first=50000)
SLICE = "SELECT sum(a) FROM t WHERE x BETWEEN 500 AND 600"
OPEN = "CREATE VIRTUAL TABLE t USING tessera('{uri}')"
CONSOLIDATED = ("SELECT tessera_consolidate('{uri}', 'commits'), tessera_consolidate('{uri}', 'fragment_meta')",
                "SELECT tessera_vacuum('{uri}', 'commits'), tessera_vacuum('{uri}', 'fragment_meta')")
BEFORE = (OPEN, "SELECT sum(a) FROM t")

# The row of the table, the statements before, and those that are counted. Each row has an array of its own at {uri}, of four
# fragments, and a connection whose scope is proven.
ROWS = [
    ("open, and a slice", (), (OPEN, SLICE)),
    ("open, and a slice, consolidated", CONSOLIDATED, (OPEN, SLICE)),
    ("the next SELECT, nothing changed", BEFORE + (SLICE,), (SLICE,)),
    ("CREATE of an array", (), ("CREATE VIRTUAL TABLE made USING tessera('{uri}-new', " + SHAPE + ")",)),
    ("COMMIT of 1,000 cells", BEFORE, (WRITE,)),
    ("UPDATE of a cell", BEFORE, ("UPDATE t SET a = -1 WHERE x = 57",)),
    ("DELETE of a cell", BEFORE, ("DELETE FROM t WHERE x = 58",)),
    ("tessera_set_metadata", BEFORE, ("SELECT tessera_set_metadata('{uri}', 'unit', 'K')",)),
    ("tessera_add_attribute", BEFORE, ("SELECT tessera_add_attribute('{uri}', 'b INT32')",)),
    ("tessera_consolidate, commits", BEFORE, ("SELECT tessera_consolidate('{uri}', 'commits')",)),
    ("tessera_consolidate, fragment_meta", BEFORE, ("SELECT tessera_consolidate('{uri}', 'fragment_meta')",)),
    ("tessera_consolidate, fragments", BEFORE, ("SELECT tessera_consolidate('{uri}')",)),
    ("tessera_vacuum after it", BEFORE + ("SELECT tessera_consolidate('{uri}')",), ("SELECT tessera_vacuum('{uri}')",)),
    ("tessera_copy within the bucket", BEFORE, ("SELECT tessera_copy('{uri}', '{uri}-copy')",)),
    ("tessera_copy to a directory", BEFORE, ("SELECT tessera_copy('{uri}', '{local}')",)),
    ("tessera_check", BEFORE, ("SELECT * FROM tessera_check('{uri}')",)),
    ("tessera_objects, one array below", (), ("SELECT * FROM tessera_objects('{parent}')",)),
    ("tessera_create_group", (), ("SELECT tessera_create_group('{uri}-group')",)),
    ("tessera_lease", BEFORE, ("SELECT tessera_lease('{uri}', 60)",)),
    ("tessera_drop", BEFORE + ("DROP TABLE t",), ("SELECT tessera_drop('{uri}')",)),
]


def make(bucket):
    """A directory with the array that each row copies into the bucket."""
    source = os.path.join(bucket.folder, "source")
    db = load(bucket.library)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{source}', {SHAPE})")
    for i in range(4):
        db.execute(CELLS.format(first=i * 1000))
    db.close()
    return source


def measure(bucket, source):
    """Returns {row: its counts in the order of COLUMNS}."""
    found = {}
    for i, (title, before, statements) in enumerate(ROWS):
        names = {"uri": f"s3://{NAME}/cost{i}/a", "parent": f"s3://{NAME}/cost{i}", "local": os.path.join(bucket.folder, f"local{i}")}
        bucket.upload(source, f"cost{i}/a")
        db = bucket.connect()
        db.execute(f"SELECT tessera_create_group('s3://{NAME}/proof{i}')").fetchall()  # proves the scope
        for statement in before:
            db.execute(statement.format(**names)).fetchall()
        if OPEN in statements:  # on a connection that has read nothing
            db.close()
            db = bucket.connect()
        counts = bucket.spent(db, *(statement.format(**names) for statement in statements))
        found[title] = [counts.get(column, 0) for column in COLUMNS]
        db.close()
    return found


def promised():
    """Returns what the page says, in the form of measure()."""
    with open(PAGE, encoding="utf-8") as page:
        rows = re.findall(r"^\| ([^|]+?) \|" + r" (\d+) \|" * len(COLUMNS) + "$", page.read(), re.MULTILINE)
    return {title.replace("`", ""): [int(count) for count in counts] for title, *counts in rows}


def test_the_page_says_what_operations_cost(bucket):
    found = measure(bucket, make(bucket))
    for title, counts in found.items():
        print(f"| {title} | " + " | ".join(str(count) for count in counts) + " |", flush=True)
    if "--print" in sys.argv:
        return
    page = promised()
    if There.scheme != "s3":
        for title, count in ONE_BY_ONE.items():
            page[title][COLUMNS.index("deletes")] = count
    assert set(page) == set(found), f"rows of the page alone: {set(page) - set(found)}; of this test alone: {set(found) - set(page)}"
    may_differ = dict.fromkeys(COLUMNS, 0)
    may_differ.update(round_trips=TRIPS_MAY_DIFFER, lists=LISTS_MAY_DIFFER)
    wrong = [f"{title}: {column} {count}, the page says {said}" for title, counts in found.items()
             for column, count, said in zip(COLUMNS, counts, page[title]) if abs(count - said) > may_differ[column]]
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    sys.exit(run((test_the_page_says_what_operations_cost,), "costs"))
