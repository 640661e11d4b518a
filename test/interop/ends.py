"""What ends before its time: processes that are killed while the Python module makes something, Ctrl-C, streams whose array is vacuumed, streams that
outlive their connection while another SQLite takes the library, work past memory_mb.

usage: ends.py EXTENSION
"""
import gc
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from connections import drivers, fails, fill, same, sqlite3
from package import install, libraries, library
from processes import end_with_this_process

np, pa = libraries("numpy", "pyarrow")

KILLS = 12   # of each way to make something


def dies_at(step, act):
    """Runs act() in a child that kills itself at the step-th call of a function. Returns the number of calls, or None if it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def called(frame, event, argument):
            nonlocal count
            if event == "return" or "tessera" not in frame.f_code.co_filename:
                return
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(called)
            act()
            sys.setprofile(None)
            os.write(writing, f"{count}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as f:
        text = f.read()
    os.waitpid(child, 0)
    return int(text) if text else None


def killed(name, act, read, allowed):
    """act() is killed at calls spread over all that it makes; what is there afterwards must be one of these."""
    act()   # what is done but once in a process
    before(name)
    steps, seen = dies_at(0, act), set()
    assert steps > 20, steps
    for step in sorted({max(1, (steps - 1) * i // KILLS) for i in range(KILLS + 1)}):
        before(name)
        same(dies_at(step, act), None, f"{name}: killed at {step} of {steps}")
        found = read() if os.path.exists(name) else None
        assert found in allowed, f"{name}, killed at {step} of {steps}: {found}"
        seen.add(found)
        act()   # what is left of the killed one does not hinder it
        same(read(), allowed[-1], f"{name}: again, after {step}")
    same(seen, set(allowed), f"{name}: what is there after the kills")


def before(name):
    for place in glob.glob(f"{name}*"):
        shutil.rmtree(place)
    if name.startswith("replaced"):
        tessera.create(name, np.zeros(4))


def test_kills():
    values, table = np.arange(4.0), {"i": [1, 2, 3], "v": [1.0, 2.0, 3.0]}

    def total():
        return float(tessera.open("made").numpy().sum())

    before("made")
    killed("made", lambda: tessera.create("made", values, labels={"lat": ("dim_0", values)}, metadata={"k": 1}, if_exists="replace"), total, [None, 6.0])
    before("replaced")
    killed("replaced", lambda: tessera.create("replaced", values, if_exists="replace"), lambda: float(tessera.open("replaced").numpy().sum()), [0.0, 6.0])
    before("table")
    killed("table", lambda: tessera.create("table", table, dimensions=["i"], if_exists="replace"), lambda: pa.table(tessera.open("table"))["v"].to_pylist().__len__(), [None, 3])
    xr = library("xarray")
    if not xr:
        return
    given = xr.Dataset({"a": ("x", values), "b": ("x", ["p", "q", "r", "s"])}, {"x": [1, 2, 3, 4]})

    def whole():
        opened = xr.open_dataset("set", engine="tessera").load()
        xr.testing.assert_equal(opened, given)
        return opened.sizes["x"]

    killed("set", lambda: tessera.create("set", given, if_exists="replace"), whole, [None, 4])


def test_interrupts():
    """Ctrl-C while SQLite works is a KeyboardInterrupt, and nothing is left; between the batches of a stream it is Python's own."""
    going_on, values = tessera.connections._go_on, np.random.default_rng(1).permutation(300000)
    tessera.connections._go_on = lambda: signal.raise_signal(signal.SIGINT)
    try:
        fails(KeyboardInterrupt, "", lambda: tessera.create("stopped", {"i": values, "v": values}, dimensions=["i"]))
    finally:
        tessera.connections._go_on = going_on
    same(glob.glob("stopped*"), [], "what an interrupted call has left")
    a = tessera.create("stopped", {"i": values, "v": values}, dimensions=["i"])

    def stop():
        for _ in pa.RecordBatchReader.from_stream(tessera.open("stopped", batch_rows=1000)):
            signal.raise_signal(signal.SIGINT)

    fails(KeyboardInterrupt, "", stop)
    same(pa.table(a)["v"].to_numpy().sum(), values.sum(), "afterwards")
    db = sqlite3.connect(":memory:", check_same_thread=False)
    tessera.load(db)
    tessera.create("db:t", np.zeros(600000), connection=db)
    stream = tessera.open("db:t", connection=db)
    reader, calls = pa.RecordBatchReader.from_stream(stream), iter(range(1 << 30))
    db.set_progress_handler(lambda: next(calls) > 150, 1)   # the statements before the block take some steps
    fails(tessera.Interrupted, "interrupted", stream.numpy)
    fails(OSError, "interrupted", reader.read_all)
    del reader
    db.set_progress_handler(None, 1)
    same((pa.table(stream).num_rows, stream.numpy().sum()), (600000, 0), "afterwards")
    db.close()


def test_vacuums():
    """A stream that has begun when its array is consolidated and vacuumed gives its own rows, or says what happened."""
    n = 3000
    for place in ("vacuumed", "db:vacuumed"):
        db = sqlite3.connect("vacuumed.db", check_same_thread=False)
        tessera.load(db)
        rows = [{"i": np.arange(n), "v": np.full(n, k)} for k in range(4)]
        for k, part in enumerate(rows):
            more = {"dimensions": ["i"], "kind": "sparse", "capacity": 100} if k == 0 else {"if_exists": "append"}
            tessera.create(place, part, connection=db, **more)
        db.commit()
        opened = tessera.open(place, connection=db, batch_rows=100)
        reader, later = pa.RecordBatchReader.from_stream(opened), pa.RecordBatchReader.from_stream(opened)
        first = reader.read_next_batch()
        db.execute("SELECT tessera_consolidate(?)", (place,)).fetchall()
        db.execute("SELECT tessera_vacuum(?)", (place,)).fetchall()
        db.commit()
        for stream, expected in ((reader, n - first.num_rows), (later, n)):
            try:
                found = stream.read_all()
            except (OSError, pa.ArrowInvalid) as e:
                assert "vacuum" in str(e), e
                ended.add((place, "an error"))
            else:
                same((found.num_rows, found["v"].unique().to_pylist()), (expected, [3]), f"{place}: rows after the vacuum")
                ended.add((place, "rows"))
        same(pa.table(tessera.open(place, connection=db)).num_rows, n, f"{place}: opened again")
        del reader, later, stream
        db.close()
    print("after a vacuum:", sorted(ended))


ended = set()


def test_other_sqlite():
    """The rows of a SELECT outlive the connection, while the next SQLite of the process loads the same file."""
    code = """
import gc, sys
import pyarrow as pa, tessera
from connections import drivers, fill
found = drivers()
db = found[sys.argv[1]](":memory:")
tessera.load(db)
fill(db)
lines = tessera.rows(db, "SELECT i, v, 'text' || i AS s FROM t")
reader = pa.RecordBatchReader.from_stream(lines)
inside = pa.RecordBatchReader.from_stream(tessera.open("db:t", connection=db, batch_rows=100))
inside.read_next_batch()
db.close()
other = found[sys.argv[2]](":memory:")
tessera.load(other)
fill(other)
try: inside.read_next_batch()
except Exception as e: assert "was closed" in str(e), e
assert pa.table(tessera.open("db:t", connection=other)).num_rows == pa.table(lines).num_rows == reader.read_all().num_rows == 3000
del lines, reader, inside
gc.collect()
other.close()
print("well")
"""
    names = list(drivers())
    for one in names:
        for other in names:
            if one != other:
                done = subprocess.run([sys.executable, "-c", code, one, other], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                assert done.returncode == 0 and "well" in done.stdout, f"{one}, then {other}: {done.returncode}\n{done.stdout}"


def test_memory():
    """Rows past memory_mb go into a file; a tile past it is an error of the class MemoryError, in a stream too."""
    db = sqlite3.connect(":memory:", check_same_thread=False)
    tessera.load(db)
    select = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 400000) SELECT i, i * 0.5 AS v FROM c"
    same(pa.table(tessera.rows(db, select, memory_mb=4))["i"].to_numpy().sum(), 80000200000, "rows")
    same(pa.table(tessera.create_as(db, "spilled", select, dimensions=["i"], memory_mb=4))["v"].to_numpy().sum(), 40000100000, "create_as")
    tessera.create("wide", np.zeros(200000), extents={"dim_0": 200000})
    db.execute(f"CREATE VIRTUAL TABLE narrow USING tessera('{os.path.abspath('wide')}', memory_mb=1)")
    narrow = tessera.open("db:narrow", connection=db)
    fails(MemoryError, "memory_mb allows 1048576", narrow.numpy)
    fails(MemoryError, "memory_mb allows 1048576", lambda: pa.table(narrow))
    db.close()


if __name__ == "__main__":
    end_with_this_process()
    with tempfile.TemporaryDirectory() as place:
        install(os.path.join(place, "package"), sys.argv[1])
        os.environ["PYTHONPATH"] += os.pathsep + os.path.dirname(os.path.abspath(__file__))
        import tessera
        import connections
        connections.tessera = tessera
        os.makedirs(os.path.join(place, "work"))
        os.chdir(os.path.join(place, "work"))
        for name, test in list(globals().items()):
            if name.startswith("test_") and (len(sys.argv) < 3 or any(word in name for word in sys.argv[2:])):
                test()
                gc.collect()
        os.chdir("/")
    print("whatever ended before its time left all or nothing")
