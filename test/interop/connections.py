"""The Python module with the connections of sqlite3, apsw and pysqlite3, and without one: threads, forks, spawned processes, sub-interpreters, two
copies of the library, connections that close while a stream is read. Rows are counted by pyarrow.

usage: connections.py EXTENSION
"""
import multiprocessing
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading

from package import fails, libraries, library, run, same

if not hasattr(sqlite3.Connection, "enable_load_extension"):   # a Python of pyenv's
    import pysqlite3 as sqlite3

pa = libraries("pyarrow")

ROWS = 3000


def drivers():
    """Functions that connect, by the name of the module."""
    found = {sqlite3.__name__: lambda name: sqlite3.connect(name, check_same_thread=False)}
    for module in ("apsw", "pysqlite3"):
        driver = library(module)
        if driver:
            found[module] = driver.Connection if module == "apsw" else lambda name, driver=driver: driver.connect(name, check_same_thread=False)
    return found


def fill(db, name="t"):
    db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera(i INT64 DIMENSION(0, 9999), v FLOAT64, capacity=100)")
    db.execute(f"INSERT INTO {name} WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < {ROWS - 1}) SELECT i, i * 0.5 FROM c")
    if getattr(db, "in_transaction", False):
        db.commit()


def count(array):
    return pa.table(array).num_rows


def test_several_sqlites():
    """Connections of all modules are open at once, each with the copy of the extension that serves its SQLite."""
    opened = {name: connect(":memory:") for name, connect in drivers().items()}
    for db in opened.values():
        tessera.load(db)
        fill(db)
    for _ in range(2):
        same({name: count(tessera.open("db:t", connection=db)) for name, db in opened.items()}, dict.fromkeys(opened, ROWS))
    libraries = {db.execute("SELECT tessera_library()").fetchone()[0] for db in opened.values()}
    same(len(libraries), len(opened), "copies")
    if "apsw" in opened:
        opened["apsw"].enable_load_extension(True)
        other = type(opened["apsw"])(":memory:")
        other.enable_load_extension(True)
        fails(Exception, "serves another SQLite of this process", lambda: other.load_extension(opened[sqlite3.__name__].execute("SELECT tessera_library()").fetchone()[0]))
        other.close()
    for db in opened.values():
        db.close()


def test_drivers():
    for name, connect in drivers().items():
        for place in (":memory:", f"{name}.db"):
            db = connect(place)
            tessera.load(db)
            fill(db)
            a = tessera.open("db:t", connection=db, batch_rows=100)
            same((a.dims, count(a), count(a.where("v", ">=", 100).sel(i=(0, 999)))), (("i",), ROWS, 800), f"{name} {place}")
            db.execute("ATTACH ':memory:' AS other")
            tessera.create("db:other.made", pa.table({"i": [1, 2], "v": [1, 2]}), connection=db, dimensions=["i"])
            same(count(tessera.open("db:other.made", connection=db)), 2, f"{name} {place}: attached")
            if place == ":memory:":
                fails(TypeError, "has no file that another process could open", lambda: pickle.dumps(a))
            else:
                same(count(pickle.loads(pickle.dumps(a.sel(i=(0, 9))))), 10, f"{name} {place}: pickled")
            for kind, act in ((tessera.NotFound, lambda: tessera.open("nosuch", connection=db)), (tessera.Error, lambda: tessera.open("db:nosuch", connection=db))):
                fails(kind, "nosuch", act)
            lines = tessera.rows(db, "SELECT i, v AS w FROM t WHERE i < 5", types={"w": "FLOAT32"})
            same([(lines_.num_rows, str(lines_.schema.field("w").type)) for lines_ in (pa.table(lines), pa.table(lines))], [(5, "float")] * 2, f"{name} {place}: rows")
            asked = pa.RecordBatchReader.from_stream(lines, schema=pa.schema([("i", pa.int64()), ("w", pa.float64())]))
            same(str(asked.schema.field("w").type), "double", f"{name} {place}: a type that was asked for")
            del asked
            reader = pa.RecordBatchReader.from_stream(a)
            same(reader.read_next_batch().num_rows, 100, f"{name} {place}")
            never = tessera.rows(db, "SELECT 1 AS one")
            db.close()
            fails(Exception, "was closed", reader.read_next_batch)
            same(pa.table(lines).num_rows, 5, f"{name} {place}: the rows of a SELECT that has run outlive the connection")
            fails(Exception, "was closed before the rows were read", lambda: pa.table(never))
            del reader


def test_rows_and_texts_in_forms_of_the_program():
    """What the program makes of rows and texts does not reach the module, and is as it was afterwards."""
    def as_dict(cursor, row):
        return {name[0]: value for name, value in zip(cursor.description, row)}

    for name, connect in drivers().items():
        for form, value in (("row_factory", sqlite3.Row), ("row_factory", as_dict), ("text_factory", bytes)) if name != "apsw" else (("row_trace", lambda cursor, row: {"a": row}),):
            db = connect(":memory:")
            setattr(db, form, value if value is not sqlite3.Row else sys.modules[type(db).__module__.partition(".")[0]].Row)
            tessera.load(db)
            fill(db)
            a = tessera.open("db:t", connection=db)
            same((a.attributes, a.bounds, count(a)), (("v",), {"i": (0, ROWS - 1)}, ROWS), f"{name}, {form}")
            tessera.create("db:made", {"i": [1], "s": ["text"]}, connection=db, dimensions=["i"], grow=["i"])
            tessera.create("db:made", {"i": [2], "s": ["text"]}, connection=db, if_exists="append")
            same(pa.table(tessera.rows(db, "SELECT count(*) AS n FROM made"))["n"].to_pylist(), [2], f"{name}, {form}")
            assert getattr(db, form) is not None, "the program's own form is gone"
            db.close()


def test_a_connection_that_has_not_loaded_it():
    for name, connect in drivers().items():
        tessera.create("plain", {"i": [1, 2, 3], "v": [1, 2, 3]}, if_exists="append" if os.path.exists("plain") else "fail", dimensions=["i"])
        db = connect(":memory:")
        same(count(tessera.open("plain", connection=db)), 3, name)
        db.close()


def test_threads():
    db = sqlite3.connect("threads.db", check_same_thread=False)
    tessera.load(db)
    fill(db)
    tessera.create("threads", pa.table({"i": range(ROWS), "v": range(ROWS)}), dimensions=["i"])
    shared, alone, found = tessera.open("db:t", connection=db, batch_rows=100), tessera.open("threads"), []

    def read(array):
        for _ in range(5):
            found.append(count(array))

    threads = [threading.Thread(target=read, args=(array,)) for array in (shared, alone) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        db.execute("SELECT count(*) FROM t").fetchone()
    for thread in threads:
        thread.join()
    same(found, [ROWS] * 40)
    db.close()


def test_ended_threads():
    """The connections of threads that have ended are used again or closed, except while somebody reads their streams."""
    kept, together, streams = tessera.connections._kept, threading.Barrier(6), []

    def read(stream):
        if stream:
            streams.append(pa.RecordBatchReader.from_stream(tessera.open("threads", batch_rows=100)))
        else:
            count(tessera.open("threads"))
        together.wait()

    def run_threads(stream):
        threads = [threading.Thread(target=read, args=(stream,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    before = len(kept)
    for _ in range(3):
        run_threads(False)
        assert len(kept) <= before + tessera.connections._IDLE, len(kept)
    run_threads(True)
    same([reader.read_all().num_rows for reader in streams], [ROWS] * 6, "streams outlive their threads")
    assert len(kept) > before + tessera.connections._IDLE, len(kept)
    streams.clear()
    run_threads(False)
    assert len(kept) <= before + tessera.connections._IDLE, len(kept)
    db = sqlite3.connect(":memory:", check_same_thread=False)
    tessera.load(db)
    same(db.execute("SELECT tessera_stream()").fetchone(), (0,))
    stream = pa.RecordBatchReader.from_stream(tessera.open("threads", connection=db))
    same(db.execute("SELECT tessera_stream()").fetchone(), (1,))
    del stream
    same(db.execute("SELECT tessera_stream()").fetchone(), (0,))
    db.close()


def test_processes():
    a = tessera.open("threads")
    same(count(a), ROWS)
    child = os.fork()
    if child == 0:
        try:
            os._exit(count(a) != ROWS or count(tessera.open("threads").sel(i=(0, 9))) != 10)
        finally:
            os._exit(9)
    same(os.waitpid(child, 0)[1], 0, "after a fork")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        same(pool.map(count, [a, a.sel(i=(0, 9))]), [ROWS, 10], "spawned")


def test_processes_read_databases():
    """An Array in a database's file pickles: another process reads the file, at the same time of the array."""
    for name, connect in drivers().items():
        db = connect(f"spawned {name}%41.db")
        tessera.load(db)
        for sql in ("PRAGMA journal_mode = WAL", f"ATTACH 'attached {name}.db' AS other"):
            db.execute(sql).fetchall()
        fill(db, '"a ""t"')
        fill(db, "other.t")
        tessera.create(f"beside {name}", {"i": [1, 2], "v": [1, 2]}, dimensions=["i"])
        db.execute(f"CREATE VIRTUAL TABLE d USING tessera('{os.path.abspath('beside ' + name)}')")
        arrays = [tessera.open(path, connection=db) for path in ('db:"a ""t"', "db:other.t", "db:t", "db:d")]
        db.execute("INSERT INTO other.t VALUES (5000, 1)")
        if getattr(db, "in_transaction", False):
            db.commit()
        arrays.append(tessera.open("db:t", connection=db))
        wanted = [ROWS, ROWS, ROWS, 2, ROWS + 1]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            same(pool.map(count, arrays), wanted, f"{name}: spawned")
            same(pool.map(count, arrays[0].partitions(3) + [arrays[1].sel(i=(0, 9))])[-1], 10, f"{name}: spawned parts")
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(arrays[1]))))
        same((count(again), again.dims, again.bounds), (ROWS, ("i",), {"i": (0, ROWS - 1)}), f"{name}: pickled twice")
        fails(tessera.Error, "readonly", lambda: again._rows("DELETE FROM t"))
        db.close()
        same(count(again), ROWS, f"{name}: without the connection")


def test_what_is_not_committed_does_not_pickle():
    for name, connect in drivers().items():
        db = connect(f"open {name}.db")
        tessera.load(db)
        fill(db)
        committed = tessera.open("db:t", connection=db)
        db.execute("ATTACH ':memory:' AS other")
        db.execute("BEGIN")
        fails_to_pickle = lambda a, part, kind=TypeError: fails(kind, part, lambda: pickle.dumps(a))
        same(count(pickle.loads(pickle.dumps(committed))), ROWS, f"{name}: a transaction that wrote nothing")
        db.execute("INSERT INTO t VALUES (5000, 1)")
        fails_to_pickle(committed, "commit first", tessera.Error)
        db.execute("ROLLBACK")
        db.execute("BEGIN")
        for path in ("db:made", "db:t"):
            tessera.create(path, {"i": [6000, 6001], "v": [1.0, 2.0]}, connection=db, dimensions=["i"], if_exists="append" if path == "db:t" else "fail")
        arrays = [tessera.open(path, connection=db) for path in ("db:made", "db:t")]
        same([count(a) for a in arrays], [2, ROWS + 2], f"{name}: in the transaction")
        for a in arrays:
            fails_to_pickle(a, "Commit first")
        db.execute("COMMIT")
        same([count(pickle.loads(pickle.dumps(a))) for a in arrays], [2, ROWS + 2], f"{name}: committed")
        for schema in ("temp", "other"):
            tessera.create(f"db:{schema}.made", {"i": [1], "v": [1.0]}, connection=db, dimensions=["i"])
            fails_to_pickle(tessera.open(f"db:{schema}.made", connection=db), f"its database ({schema}) has no file")
        fails_to_pickle(tessera.open("db:made", connection=db), "its database (temp) has no file")
        with open("secret.key", "wb") as f:
            f.write(bytes(range(32)))
        tessera.create("db:secret", {"i": [1, 2], "v": [1.0, 2.0]}, connection=db, dimensions=["i"], key_file="secret.key")
        same(count(pickle.loads(pickle.dumps(tessera.open("db:secret", connection=db, key_file="secret.key")))), 2, f"{name}: encrypted")
        fails_to_pickle(tessera.open("db:secret", connection=db, key=bytes(range(32))), "key_file=")
        moved = pickle.dumps(tessera.open("db:main.made", connection=db))
        db.execute("DROP TABLE main.made")
        tessera.create("db:main.made", {"i": [7], "v": [1.0]}, connection=db, dimensions=["i"])
        fails(tessera.Error, "was replaced", lambda: count(pickle.loads(moved)))
        db.close()


def test_exits():
    """A process may end while capsules and streams are alive, and in the middle of an import."""
    ends = ("import pyarrow, sys; sys.kept = pyarrow.RecordBatchReader.from_stream(a.sel(i=[1, 5, 9])); sys.kept.read_next_batch()", "kept = a.__arrow_c_stream__()", "import pyarrow; kept = pyarrow.RecordBatchReader.from_stream(a); kept.read_next_batch()",
            "import threading, time; threading.Thread(target=lambda: [pyarrow_free(a) for _ in range(200)], daemon=True).start()")
    for end in ends:
        code = f"import tessera\na = tessera.open('threads', batch_rows=100)\npyarrow_free = lambda a: a.__arrow_c_stream__()\n{end}"
        same(subprocess.run([sys.executable, "-c", code]).returncode, 0, end)


def test_sub_interpreters():
    try:
        import _xxsubinterpreters as interpreters
        create, run = interpreters.create, interpreters.run_string
    except ImportError:   # from Python 3.13 on; apsw does not load into those with a lock of their own
        import _interpreters as interpreters
        create, run = (lambda: interpreters.create("legacy")), interpreters.exec
    code = f"import sys; sys.path.insert(0, {sys.path[0]!r})\nimport tessera\na = tessera.open({os.path.abspath('threads')!r})\nassert a.dims == ('i',)\na.__arrow_c_stream__()"
    for _ in range(2):
        made = create()
        assert not run(made, code)
        interpreters.destroy(made)
    same(count(tessera.open("threads")), ROWS, "afterwards")


def test_two_copies():
    copy = os.path.abspath("copy.so")
    shutil.copyfile(tessera.loadable_path(), copy)
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    db.execute("SELECT load_extension(?, 'sqlite3_tessera_init')", (copy,))
    fill(db)
    a = tessera.open("db:t", connection=db)
    same((a._rows("SELECT tessera_library()")[0][0], count(a), count(tessera.open("threads"))), (copy, ROWS, ROWS))
    db.close()
    fails(tessera.Unsupported, "older tessera", lambda: tessera.open("t", connection=Old()))


class Old:
    """A connection that has loaded a tessera from before streams."""
    total_changes = 0

    def cursor(self):
        return self

    def close(self):
        pass

    def execute(self, sql, values=()):
        raise sqlite3.OperationalError("no such function: tessera_library")

    def enable_load_extension(self, on):
        pass

    def load_extension(self, path):
        pass


if __name__ == "__main__":
    run(globals(), "every connection gives the same rows")
