"""Every library that takes Arrow streams, in an environment with pyarrow and in one without: each gives the rows that SQL gives, of each of some arrays,
and what it has made becomes an array. A CSV file with gaps and a bad line.

usage: consumers.py EXTENSION [CONSUMER ...]; without names all are tried
"""
import datetime
import gc
import json
import os
import sqlite3
import sys
import tempfile

from package import fails, install, same

GAPS = ("", "nan", "NaT", "<NA>", "None")
FIELDS = ("i", "f", "n", "s", "e", "day", "at", "ok", "pair")


def has(name):
    try:
        return __import__(name)
    except ImportError:
        return None


pa, pandas, polars, duckdb, nanoarrow, arro3, narwhals = (has(name) for name in ("pyarrow", "pandas", "polars", "duckdb", "nanoarrow", "arro3.core", "narwhals"))


def plain(value):
    """A value as all libraries can show it: numbers as floats, instants as ISO text to the second, gaps as None."""
    if hasattr(value, "tolist") and not hasattr(value, "isoformat"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or str(value) in GAPS:
        return None
    if isinstance(value, (datetime.date, datetime.datetime)):
        return str(value)[:19].removesuffix(" 00:00:00")
    return value if isinstance(value, str) else float(value)


def rows(columns, lines):
    return sorted(([plain(v) for v in line] for line in lines), key=lambda line: line[0]) if list(columns) == list(FIELDS) else list(columns)


def by_names(lines):
    return rows(FIELDS, [[line[name] for name in FIELDS] for line in lines])


def nanoarrow_rows(array):
    stream = nanoarrow.ArrayStream(array)
    names = [field.name for field in stream.schema.fields]
    found = []
    for batch in stream:
        found += zip(*(batch.child(at).to_pylist() for at in range(len(names))))
    return rows(names, found)


def registered(array):
    connection = duckdb.connect()
    connection.register("given", array)
    relation = connection.sql("SELECT * FROM given")
    return rows(relation.columns, relation.fetchall())


def by_name(opened):
    relation = duckdb.sql("SELECT * FROM opened")
    return rows(relation.columns, relation.fetchall())


# How each library reads an Array: what it needs, and the rows.
CONSUMERS = {
    "pyarrow.table": (pa, lambda a: by_names(pa.table(a).to_pylist())),
    "pyarrow.RecordBatchReader": (pa, lambda a: by_names(pa.RecordBatchReader.from_stream(a).read_all().to_pylist())),
    "pandas.from_arrow": (pandas and pa and hasattr(pandas.DataFrame, "from_arrow"), lambda a: (lambda f: rows(f.columns, f.itertuples(index=False)))(pandas.DataFrame.from_arrow(a))),
    "polars.DataFrame": (polars, lambda a: (lambda f: rows(f.columns, f.rows()))(polars.DataFrame(a))),
    "polars.scan": (polars, lambda a: (lambda f: rows(f.columns, f.rows()))(a.scan_polars().collect())),
    "duckdb.from_arrow": (duckdb, lambda a: (lambda r: rows(r.columns, r.fetchall()))(duckdb.from_arrow(a))),
    "duckdb.register": (duckdb, registered),
    "duckdb by name": (duckdb, by_name),
    "nanoarrow": (nanoarrow, nanoarrow_rows),
    "arro3": (arro3 and pa, lambda a: by_names(pa.table(sys.modules["arro3.core"].Table(a)).to_pylist())),
    "narwhals": (narwhals and polars, lambda a: (lambda f: rows(f.columns, f.rows()))(narwhals.from_arrow(a, backend="polars"))),
}


def arrays(db):
    """Arrays, and what SQL gives of them."""
    n, text = 700, "dim {} INT64 DIMENSION(0, 9999{})"
    fields = ("f FLOAT64, n INT32, s TEXT, e TEXT ENUM('low', 'high', 'unused'), day DATETIME_DAY, at DATETIME_MS, ok BOOL, pair INT16[2]")
    filled = [(i, None if i % 7 == 0 else i / 4, None if i % 5 == 0 else -i, None if i % 3 == 0 else "é" * (i % 20), ("low", "high", None)[i % 3],
               str(datetime.date(2024, 1, 1) + datetime.timedelta(days=i)), None if i % 11 == 0 else f"2024-01-01 00:{i // 60:02}:{i % 60:02}",
               (0, 1, None)[i % 3], f"[{i},{-i}]") for i in range(n)]
    for name, kind, lines in (("sparse", "i INT64 DIMENSION(0, 9999), capacity=50", filled), ("dense", f"kind=dense, i INT64 DIMENSION(0, {n - 1}, 100)", filled),
                              ("empty", "i INT64 DIMENSION(0, 9999)", [])):
        db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera({kind}, {fields})")
        db.executemany(f"INSERT INTO {name} VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", lines)
        db.commit()
        opened = tessera.open(f"db:{name}", connection=db)
        yield name, opened, lines
        yield f"{name}, in many batches", tessera.open(f"db:{name}", connection=db, batch_rows=100), lines
        yield f"{name}, an empty slice", opened.where("n", ">", 5), []
        if lines:
            yield f"{name}, a slice", opened.sel(i=(100, 299)), lines[100:300]


def read_sql(db, table, lines):
    """What SELECT gives, as the lines that were written: SQL is the judge of the others."""
    found = db.execute(f"SELECT {', '.join(FIELDS)} FROM {table} ORDER BY i").fetchall()
    same([(line[0], line[1], line[2], line[3], line[4], line[5][:10], line[6] and line[6][:19], line[7], line[8].replace(" ", "")) for line in found], lines, f"SQL, {table}")


def test_consumers(db, chosen):
    for name, array, lines in arrays(db):
        if name in ("sparse", "dense"):
            read_sql(db, name, lines)
        expected = [[plain(json.loads(v) if at == 8 else v) for at, v in enumerate(line)] for line in lines]
        for consumer, (needed, read) in CONSUMERS.items():
            if needed and (not chosen or consumer in chosen):
                given = tessera.open(array.path, connection=db, enums="label") if consumer == "nanoarrow" else array   # it knows no dictionaries
                if consumer == "nanoarrow":
                    given._box, given._options = array._box, {**array._options, **given._options}
                same(read(given), expected, f"{consumer}, {name}")
    tried = [consumer for consumer, (needed, _) in CONSUMERS.items() if needed]
    print(f"{'with' if pa else 'without'} pyarrow: {', '.join(tried)}")


def test_messages(db, chosen):
    """Without pyarrow pandas says what it lacks."""
    if pandas and not pa and hasattr(pandas.DataFrame, "from_arrow"):
        fails(ImportError, "pyarrow", lambda: pandas.DataFrame.from_arrow(tessera.open("db:sparse", connection=db)))


def test_made(db, chosen):
    """What each library holds becomes an array."""
    columns = {"k": ["b", "a", "c"], "v": [1.5, None, 3.0], "n": [1, 2, 3]}
    given = {"a dict": lambda: columns, "pyarrow": pa and (lambda: pa.table(columns)), "pandas": pandas and (lambda: pandas.DataFrame(columns)),
             "pandas, an index": pandas and (lambda: pandas.DataFrame(columns).set_index("k")), "polars": polars and (lambda: polars.DataFrame(columns)),
             "polars, lazy": polars and (lambda: polars.LazyFrame(columns)), "an Array": lambda: tessera.open("a dict"),
             "duckdb": duckdb and (lambda: duckdb.sql("SELECT * FROM (VALUES ('b', 1.5::DOUBLE, 1), ('a', NULL, 2), ('c', 3.0::DOUBLE, 3)) AS t(k, v, n)")),
             "nanoarrow": nanoarrow and pa and (lambda: nanoarrow.ArrayStream(pa.table(columns))), "arro3": arro3 and pa and (lambda: sys.modules["arro3.core"].Table(pa.table(columns)))}
    for name, make in given.items():
        if make:
            made = tessera.create(name, make(), **({} if name == "pandas, an index" else {"dimensions": ["k"]}))
            same((made.kind, made.dims, made.attributes), ("sparse", ("k",), ("v", "n")), name)
            db.execute(f"CREATE VIRTUAL TABLE \"{name}\" USING tessera('{os.path.abspath(name)}')")
            same(db.execute(f'SELECT k, v, n FROM "{name}" ORDER BY k').fetchall(), [("a", None, 2), ("b", 1.5, 1), ("c", 3.0, 3)], name)
            if polars:
                same(polars.DataFrame(made)["v"].null_count(), 1, f"{name}: a gap is NULL, not NaN")


def test_csv(db, chosen):
    """A CSV file with gaps and one bad line: the line is named; or left out, counted and shown."""
    with open("weather.csv", "w", encoding="utf-8") as f:
        f.write("station,day,celsius,note\nBasel,1,18.5,\nBasel,2,,fog\nBern,1,17,\nBern,2\nChur,1,16.5,\"a, b\"\n")
    fails(tessera.Error, "line 5", lambda: tessera.create_csv("csv", "weather.csv", dimensions=["station", "day"]))
    assert not os.path.exists("csv"), "a failed call leaves nothing"
    made = tessera.create_csv("csv", "weather.csv", dimensions=["station", "day"], on_error="skip")
    same({name: made.skipped[name] for name in ("rows", "skipped", "lines")}, {"rows": 4, "skipped": 1, "lines": [5]})
    assert "line 5" in made.skipped["first"], made.skipped
    db.execute(f"CREATE VIRTUAL TABLE csv USING tessera('{os.path.abspath('csv')}')")
    same(db.execute("SELECT station, day, celsius, note FROM csv ORDER BY station, day").fetchall(),
         [("Basel", 1, 18.5, ""), ("Basel", 2, None, "fog"), ("Bern", 1, 17.0, ""), ("Chur", 1, 16.5, "a, b")])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        install(os.path.join(place, "package"), sys.argv[1])
        import tessera
        os.makedirs(os.path.join(place, "work"))
        os.chdir(os.path.join(place, "work"))
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        tessera.load(connection)
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test(connection, sys.argv[2:])
        gc.collect()
        os.chdir("/")
    print("every consumer gives SQL's rows")
