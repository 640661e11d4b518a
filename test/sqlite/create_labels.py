"""The option `labels` of tessera_create_as, tessera_create_csv and tessera_create_stream: a column becomes the label of a new dimension.

usage: create_labels.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os
import random

import host
from host import Database, check_contains, same


def database():
    os.chdir(host.FOLDER)
    return Database()


def make(db, path, select, **options):
    return db.value("SELECT tessera_create_as(?, ?, ?)", (path, select, json.dumps(options)))


def refused(db, part, select, **options):
    """The call fails with this message, and nothing is there."""
    check_contains(db.error("SELECT tessera_create_as('refused', ?, ?)", (select, json.dumps(options))).text, part)
    assert not os.path.exists("refused"), os.listdir("refused")


def shown(db, path):
    db.query("DROP TABLE IF EXISTS shown")
    db.table("shown", path, ", labels=yes")
    return "shown"


def labels(db, path):
    return db.query("SELECT name, datatype FROM tessera_schema(?) WHERE role = 'label'", (path,))


def sound(db, path):
    same([r for r in db.query("SELECT severity, file, message FROM tessera_check(?)", (path,)) if r[0] != "note"], [], path)


GRID = "SELECT a.lat, b.lon, 100 * a.lat + b.lon AS v FROM (SELECT 47.5 - 0.25 * value AS lat FROM json_each('[0,1,2,3]')) AS a, (SELECT 6.0 + value AS lon FROM json_each('[0,1,2]')) AS b"
BOTH = {"lat": "y", "lon": "x"}


def test_a_grid():
    """Rows of a grid become a dense array: one label falls as the rows do, one rises. In directories and in the database."""
    for path in ("grid", "db:grid"):
        db = database()
        same(make(db, path, GRID, labels=BOTH), 12)
        same(db.query("SELECT name, role, datatype, domain FROM tessera_schema(?)", (path,)),
             [("y", "dimension", "INT64", "[0,3]"), ("x", "dimension", "INT64", "[0,2]"), ("v", "attribute", "FLOAT64", None), ("lat", "label", "FLOAT64", '"y"'), ("lon", "label", "FLOAT64", '"x"')])
        table = "grid" if path.startswith("db:") else shown(db, path)
        same(db.query(f"SELECT DISTINCT y, lat FROM {table} ORDER BY y"), [(0, 47.5), (1, 47.25), (2, 47.0), (3, 46.75)])
        same(db.query(f"SELECT DISTINCT x, lon FROM {table} ORDER BY x"), [(0, 6.0), (1, 7.0), (2, 8.0)])
        same(db.query(f"SELECT lat, lon, v FROM {table} ORDER BY y, x"), db.query(GRID + " ORDER BY 1 DESC, 2"))
        same(db.query(f"SELECT y, x, v FROM {table} WHERE lat = 47 AND lon BETWEEN 6.5 AND 9"), [(2, 1, 4707.0), (2, 2, 4708.0)])
        ddl = db.value("SELECT tessera_ddl(?)", (path,))
        for part in ("kind=dense", "LABEL lat FLOAT64 DECREASING FILTERS(byteshuffle, zstd(5))", "LABEL lon FLOAT64 FILTERS(byteshuffle, zstd(5))"):
            check_contains(ddl, part)
        explained = make(db, path + "2", GRID, labels=BOTH, explain=True)
        same(explained[explained.index("("):].replace(path + "2", path), ddl[ddl.index("("):])
        sound(db, path)
        db.close()


def test_order():
    """A label falls if its values come falling, whatever rows stand between; else it rises."""
    db = database()
    for number, (values, falls) in enumerate((([3, 2, 1], True), ([1, 2, 3], False), ([3, 3, 2, 3, 1], True), ([2, 3, 1], False), ([3, 1, 2], False), ([7], False), ([7, 7], False), ([1, 3, 2], False))):
        path = f"order{number}"
        make(db, path, f"SELECT value AS a, id AS k, 1 AS v FROM json_each('{values}')", labels={"a": "i"}, dimensions=["k", "i"])
        check_contains(db.value("SELECT tessera_ddl(?)", (path,)), "LABEL a INT64 DECREASING" if falls else "LABEL a INT64 FILTERS")
        same(db.query(f"SELECT DISTINCT a FROM {shown(db, path)} WHERE a IS NOT NULL ORDER BY i"), [(v,) for v in sorted(set(values), reverse=falls)])
        sound(db, path)
    db.close()


def test_types():
    """Numbers, texts and instants become labels; of dense and sparse arrays."""
    db = database()
    day, name = ["2024-02-28", "2024-02-29", "2024-03-01"], ["a", "bé", "c"]
    select = "SELECT column1 AS day, column2 AS name, column3 AS u, column4 AS f, column5 AS v FROM (VALUES('2024-02-28', 'a', 5, 0.5, 1), ('2024-02-29', 'bé', 200, -0.0, 2), ('2024-03-01', 'c', 7, -3, 3))"
    for column, type_, expected in (("day", "DATE", day), ("name", None, name), ("u", "UINT8", [5, 200, 7]), ("f", "FLOAT32", [0.5, 0.0, -3.0]), ("u", None, [5, 200, 7])):
        for kind in ("dense", "sparse"):
            path = f"{column}{type_}{kind}"
            same(make(db, path, select, labels={column: "i"}, columns=[column, "v"], kind=kind, types={column: type_} if type_ else {}), 3)
            same(dict(db.query(f"SELECT v, {column} FROM {shown(db, path)}")), dict(zip((1, 2, 3), expected)), path)
            same(db.query(f"SELECT v FROM shown WHERE {column} = ?", (expected[1],)), [(2,)])
            sound(db, path)
    same(labels(db, "dayDATEdense"), [("day", "DATETIME_DAY")])
    same(labels(db, "nameNonesparse"), [("name", "ASCII")])
    db.table("source", "uUINT8dense")
    make(db, "again", "SELECT u, v FROM source", labels={"u": "j"})   # the label's column has its datatype there
    same(db.query(f"SELECT j, u, v FROM {shown(db, 'again')} ORDER BY j"), [(0, 5, 1), (1, 7, 3), (2, 200, 2)])
    db.close()


def test_other_options():
    """The other options name the column or the dimension."""
    db = database()
    times = "SELECT t.value AS t, g.lat, g.lon, g.v FROM json_each('[1,2]') AS t, (" + GRID + ") AS g"
    same(make(db, "a", times, labels=BOTH, dimensions=["x", "t", "lat"], extents={"y": 3, "t": 1}, domains={"x": [0, 9]}, types={"lon": "FLOAT32"}, filters={"lat": "zstd(1)"}), 24)
    same(db.query("SELECT tile FROM tessera_schema('a') WHERE role = 'dimension'"), [(10,), (1,), (3,)])
    same([r[0] for r in db.query("SELECT name FROM tessera_schema('a') WHERE role = 'dimension'")], ["x", "t", "y"])
    same(db.query("SELECT domain FROM tessera_schema('a') WHERE name = 'x'"), [("[0,9]",)])
    same(labels(db, "a"), [("lon", "FLOAT32"), ("lat", "FLOAT64")])
    check_contains(db.value("SELECT tessera_ddl('a')"), "LABEL lat FLOAT64 DECREASING FILTERS(zstd(1))")
    same(db.query(f"SELECT t, lat, lon, v FROM {shown(db, 'a')} WHERE v IS NOT NULL ORDER BY t, y, x"), db.query(times + " ORDER BY 1, 2 DESC, 3"))
    make(db, "b", times, labels={"lat": "y"}, dimensions=["t"], columns=["t", "lat", "lon"], duplicates=True, kind="sparse")
    same(db.query("SELECT name, role FROM tessera_schema('b')"), [("t", "dimension"), ("y", "dimension"), ("lon", "attribute"), ("lat", "label")])
    make(db, "c", GRID, labels=BOTH, grow=["y"])
    same(db.query(f"SELECT lat, lon, v FROM {shown(db, 'c')} WHERE lat > 47.2 AND lon < 7 ORDER BY y"), [(47.5, 6.0, 4756.0), (47.25, 6.0, 4731.0)])
    for path in "abc":
        sound(db, path)
    make(db, "encoded", "SELECT value AS s, id AS v FROM json_each('[\"x\",\"y\"]')", labels={"s": "i"}, memory_mb=1)
    same(db.query(f"SELECT i, s FROM {shown(db, 'encoded')}"), [(0, "x"), (1, "y")])
    db.close()


def test_refused():
    """What cannot be a label is an error, and nothing is made."""
    db = database()
    for select, part in (("SELECT 1.5 AS a UNION ALL SELECT NULL", "row 2: column 'a': NULL in a label"), ("SELECT x'01' AS a", "a BLOB cannot be a dimension")):
        refused(db, part, select, labels={"a": "i"})
    db.query("CREATE TABLE numbers(a REAL)")
    for options, part in (({"labels": {"nope": "i"}}, "'labels': the source has no column 'nope'"), ({"labels": {"lat": "lon"}}, "'lon' is a column: choose another name"), ({"labels": {"lat": "lat"}}, "'lat' is a column"),
                          ({"labels": {"lat": "y", "lon": "Y"}}, "the dimension 'Y' has two labels"), ({"labels": {"lat": 1}}, "'labels': column 'lat': expected text"), ({"labels": {"lat": ""}}, "expected the name of a dimension"),
                          ({"labels": ["lat"]}, ""), ({"labels": {"lat": "y"}, "columns": ["lon", "v"]}, "'columns' leaves column 'lat' out"), ({"labels": BOTH, "enumerate": ["lat"]}, "has no enumeration"),
                          ({"labels": BOTH, "types": {"lat": "BOOL"}}, ""), ({"labels": BOTH, "types": {"lat": "FLOAT64[]"}}, ""), ({"labels": BOTH, "domains": {"y": [0, 2]}}, "dimension 'y': the labels of column 'lat' take 0 to 3, not all of which are in its domain"),
                          ({"labels": BOTH, "domains": {"y": [0.5, 9]}}, ""), ({"labels": BOTH, "extents": {"y": 0}}, ""), ({"labels": BOTH, "format_version": 17}, "need format version 18"),
                          ({"labels": BOTH, "kind": "dense", "dimensions": ["y", "lat"]}, "names 'lat' twice")):
        refused(db, part, GRID, **options)
    refused(db, "the coordinates of an earlier row", GRID + " UNION ALL SELECT 47.5, 6.0, 0", labels=BOTH)
    refused(db, "1 of 13 rows have the coordinates of an earlier row, the first of them (47.5, 6)", GRID + " UNION ALL SELECT 47.5, 6.0, 0", labels=BOTH)
    with open("nan.csv", "w") as file:
        file.write("a,v\n1.5,1\nnan,2\n")
    check_contains(db.error("SELECT tessera_create_csv('refused', 'nan.csv', '{\"labels\":{\"a\":\"i\"}}')").text, "line 3: column 'a': NaN in a label")
    same(json.loads(db.value("SELECT tessera_create_csv('skipped', 'nan.csv', '{\"labels\":{\"a\":\"i\"},\"on_error\":\"skip\"}')"))["lines"], [3])
    same(db.query(f"SELECT i, a, v FROM {shown(db, 'skipped')}"), [(0, 1.5, 1)])
    db.query("BEGIN")
    check_contains(db.error("SELECT tessera_create_as('db:gone', 'SELECT 1 AS a UNION ALL SELECT NULL', '{\"labels\":{\"a\":\"i\"}}')").text, "NULL in a label")
    db.query("COMMIT")
    same(db.query("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'gone%'"), [(0,)])
    db.close()


def test_csv():
    """The columns of a CSV file become labels, too: dates with `types`."""
    db = database()
    with open("weather.csv", "w") as file:
        file.write("day,station,temp\n" + "".join(f"2024-01-{day:02},{name},{day + len(name)}.5\n" for day in (1, 2, 3) for name in ("Bern", "Chur", "Genf")))
    same(db.value("""SELECT tessera_create_csv('weather', 'weather.csv', '{"labels":{"day":"t","station":"s"},"types":{"day":"DATE"}}')"""), 9)
    same(db.query(f"SELECT t, s, temp FROM {shown(db, 'weather')} WHERE day >= '2024-01-02' AND station = 'Chur'"), [(1, 1, 6.5), (2, 1, 7.5)])
    check_contains(db.value("SELECT tessera_ddl('weather')"), "kind=dense")
    sound(db, "weather")
    db.close()


def test_append():
    """Rows are appended at the coordinates that have their labels."""
    db = database()
    for path in ("grown", "db:grown"):
        make(db, path, GRID + " WHERE a.lat <> 47", labels=BOTH, kind="sparse")
        rest = "SELECT 47.25 AS lat, 8.0 AS lon, -1.0 AS v UNION ALL SELECT 46.75, 6.0, -2.0"
        same(make(db, path, rest, if_exists="append"), 2)
        table = "grown" if path.startswith("db:") else shown(db, path)
        same(db.query(f"SELECT lat, lon FROM {table} WHERE v < 0 ORDER BY y"), [(47.25, 8.0), (46.75, 6.0)])
        same(make(db, path, "SELECT 2 AS y, 6.0 AS lon, -3.0 AS v", if_exists="append"), 1)
        same(make(db, path, "SELECT 47.5 AS lat, 7.0 AS lon, -4.0 AS v", if_exists="append", labels=BOTH), 1)
        same(db.query(f"SELECT lat, lon FROM {table} WHERE v < -2 ORDER BY y"), [(47.5, 7.0), (46.75, 6.0)])
        for select, part in (("SELECT 47.0 AS lat, 8.0 AS lon, 1.0 AS v", "row 1: column 'lat': value not found in dimension label"), ("SELECT 47.5 AS lat, 1 AS y, 8.0 AS lon, 1.0 AS v", "another column"),
                             ("SELECT 1 AS y, 47.5 AS lat, 8.0 AS lon, 1.0 AS v", "another column gives the dimension 'y'"), ("SELECT 'x' AS lat, 8.0 AS lon, 1.0 AS v", "column 'lat'"), ("SELECT 47.5 AS lat, 1.0 AS v, 2.0 AS w", "")):
            db.error("SELECT tessera_create_as(?, ?, '{\"if_exists\":\"append\"}')", (path, select))
            check_contains(db.error("SELECT tessera_create_as(?, ?, '{\"if_exists\":\"append\"}')", (path, select)).text, part)
        check_contains(db.error("SELECT tessera_create_as(?, ?, ?)", (path, "SELECT 47.5 AS lat, 8.0 AS lon, 1.0 AS v", '{"if_exists":"append","labels":{"lat":"x"}}')).text, "'lat' is a label of 'y'")
        same(db.value(f"SELECT count(*) FROM {table}"), 9)
        sound(db, path)
    db.close()


def test_many():
    """Many labels in rows without order, of which parts go to a temporary file."""
    db, chance = database(), random.Random(3)
    db.query("CREATE TABLE points(a, s, v)")
    values = chance.sample(range(10**6), 3000)
    rows = [(a / 4, f"n{b:04}", k) for k, (a, b) in enumerate((a, chance.randrange(5000)) for a in values for _ in range(40))]
    db.raw.cursor().executemany("INSERT INTO points VALUES(?, ?, ?)", rows)
    same(make(db, "many", "SELECT * FROM points", labels={"a": "i", "s": "j"}, memory_mb=8, duplicates=True), len(rows))
    table = shown(db, "many")
    same(sorted(db.query(f"SELECT a, s, v FROM {table}")), sorted(rows))
    same(db.query(f"SELECT DISTINCT a FROM {table} ORDER BY i"), [(a / 4,) for a in sorted(values)])
    same(db.value(f"SELECT count(*) FROM {table} WHERE a BETWEEN 1000 AND 2000 AND s >= 'n3'"), sum(1000 <= a <= 2000 and s >= "n3" for a, s, _ in rows))
    db.close()


if __name__ == "__main__":
    import sys
    host.main(sys.modules[__name__])
