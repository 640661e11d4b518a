"""Many machines and one array in a bucket. Worker processes with working directories of their own, and databases that all have the same name,
read partitions of an array at one time, write cells that no other one writes, and one of them consolidates under the lease. What they say is
what one process says. Then eight processes race for the lease, and its holder is killed.

usage: cluster.py LIBRARY FOLDER [moto | versitygw | minio | azurite | gcs | gcs_memory] [--dask PYTHON]

With --dask the workers are those of Dask's `distributed`, in that Python; else they are plain processes.
"""
import concurrent.futures
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE) # Dask's workers import this file as a module
from buckets import NAME, load, run, scope

URI = f"s3://{NAME}/measured"
WORKERS, COMMITS, ROWS = 4, 3, 50
COLUMNS = "station INT32 DIMENSION(0, 999, 10), number INT32 DIMENSION(0, 999999, 1000), value FLOAT64"


# ---- The work of one worker

def connect(place):
    """A connection of a worker, which has a directory of its own, to a database `work.db` there."""
    folder = tempfile.mkdtemp(prefix=f"worker-{os.getpid()}-", dir=place["folder"])
    os.chdir(folder)
    db = load(place["library"], "work.db")
    reach(db, place)
    return db


def reach(db, place):
    """Tells a connection where the bucket is: on this machine, or where the place's options say."""
    scope(db, place["port"], **place.get("options", {}))


def read(place, condition, as_of):
    """The number, the sum and the largest of the values of a partition as of a time."""
    db = connect(place)
    db.execute(f"CREATE VIRTUAL TABLE measured USING tessera('{URI}', as_of={as_of})")
    row = db.execute(f"SELECT count(*), total(value), max(value) FROM measured WHERE {condition}").fetchone()
    db.close()
    return (*row, os.getpid())


def write(place, station):
    """Commits of the cells of one station."""
    db = connect(place)
    db.execute(f"CREATE VIRTUAL TABLE measured USING tessera('{URI}')")
    for commit in range(COMMITS):
        db.execute("BEGIN")
        db.executemany("INSERT INTO measured VALUES (?, ?, ?)", [(station, commit * ROWS + i, station * 1000.0 + i) for i in range(ROWS)])
        db.execute("COMMIT")
    db.close()
    return os.getpid()


def keep_in_order(place):
    """Consolidates and vacuums if this worker gets the lease; tells whether it did."""
    db = connect(place)
    held = db.execute("SELECT tessera_lease(?, 120)", (URI,)).fetchone()[0]
    if held:
        for what in ("commits", "fragment_meta", "fragments"):
            db.execute("SELECT tessera_consolidate(?, ?)", (URI, what)).fetchall()
            assert db.execute("SELECT tessera_lease(?, 120)", (URI,)).fetchone()[0] == 1 # renewed
        db.execute("SELECT tessera_vacuum(?)", (URI,)).fetchall()
        time.sleep(3) # the others ask meanwhile
        db.execute("SELECT tessera_lease(?, 0)", (URI,)).fetchall()
    db.close()
    return held


def ask_for_lease(place, seconds):
    return connect(place).execute("SELECT tessera_lease(?, ?)", (URI, seconds)).fetchone()[0]


# ---- The flow, with any function that runs calls in workers

def flow(place, run_all):
    db = load(place["library"])
    reach(db, place)
    db.execute(f"CREATE VIRTUAL TABLE measured USING tessera('{URI}', {COLUMNS})")
    assert len(set(run_all([(write, station) for station in range(WORKERS)]))) > 1
    as_of = db.execute("SELECT max(end_time) FROM tessera_fragments(?)", (URI,)).fetchone()[0]
    whole = db.execute("SELECT count(*), total(value), max(value) FROM measured").fetchone()
    assert whole[0] == WORKERS * COMMITS * ROWS, whole
    parts = [row[0] for row in db.execute("SELECT condition FROM tessera_partitions(?, ?)", (URI, 2 * WORKERS))]
    calls = [(read, condition, as_of) for condition in parts]
    answers = run_all(calls + [(write, WORKERS)]) # one writes while the others read as of a time before
    assert joined(answers[:-1]) == whole, (answers, whole)
    assert len({answer[3] for answer in answers[:-1]}) > 1
    whole = db.execute("SELECT count(*), total(value), max(value) FROM measured").fetchone()
    assert whole[0] == (WORKERS + 1) * COMMITS * ROWS, whole
    before = db.execute("SELECT count(*) FROM tessera_fragments(?)", (URI,)).fetchone()[0]
    held = run_all([(keep_in_order,)] * WORKERS)
    assert sum(held) == 1, held
    after = db.execute("SELECT count(*) FROM tessera_fragments(?)", (URI,)).fetchone()[0]
    assert before == (WORKERS + 1) * COMMITS and after == 1, (before, after)
    assert db.execute("SELECT count(*), total(value), max(value) FROM measured").fetchone() == whole
    findings = db.execute("SELECT * FROM tessera_check(?) WHERE severity <> 'note'", (URI,)).fetchall()
    assert not findings, findings
    return f"{len(parts)} partitions, {before} commits, {whole[0]} cells, one of {WORKERS} consolidated"


def joined(answers):
    return sum(a[0] for a in answers), sum(a[1] for a in answers), max(a[2] for a in answers if a[2] is not None)


# ---- Tests

def place_of(bucket):
    return {"library": os.path.abspath(bucket.library), "port": bucket.server.port, "folder": bucket.folder}


def test_plain_processes(bucket):
    with concurrent.futures.ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        place = place_of(bucket)
        print("   ", flow(place, lambda calls: [each.result() for each in [pool.submit(call, place, *rest) for call, *rest in calls]]))
    bucket.remove("measured/")


def test_race_for_the_lease(bucket):
    """Of eight processes one gets it, each time anew."""
    db = bucket.connect(direct=True)
    db.execute(f"CREATE VIRTUAL TABLE measured USING tessera('{URI}', {COLUMNS})")
    with concurrent.futures.ProcessPoolExecutor(8, mp_context=multiprocessing.get_context("spawn")) as pool:
        for turn in range(3):
            place = place_of(bucket)
            got = [each.result() for each in [pool.submit(ask_for_lease, place, 60) for _ in range(8)]]
            assert sum(got) == (1 if turn == 0 else 0), (turn, got) # the connection of the first turn has it, though it is closed
    assert bucket.keys("measured/.lease") == ["measured/.lease_1"], bucket.keys("measured/.lease")
    db.execute("DROP TABLE measured")
    bucket.remove("measured/")


def test_killed_holder(bucket):
    """The lease of a process that was killed ends by the server's clock."""
    db = bucket.connect(direct=True)
    db.execute(f"CREATE VIRTUAL TABLE measured USING tessera('{URI}', {COLUMNS})")
    code = ("import sys, json; sys.path.insert(0, sys.argv[1]); import cluster; "
            "print(cluster.ask_for_lease(json.loads(sys.argv[2]), 2), flush=True); sys.stdin.read()")
    child = subprocess.Popen([sys.executable, "-c", code, HERE, json.dumps(place_of(bucket))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "1\n"
    begin = time.monotonic()
    child.send_signal(signal.SIGKILL)
    child.wait()
    lease = "SELECT tessera_lease(?, 60)"
    assert db.execute(lease, (URI,)).fetchone()[0] == 0
    while db.execute(lease, (URI,)).fetchone()[0] == 0:
        assert time.monotonic() < begin + 30
        time.sleep(0.2)
    passed = time.monotonic() - begin
    print(f"    taken over after {passed:.1f} s")
    assert passed > 1
    bucket.proxy.log = []
    one = bucket.connect()
    found = bucket.spent(one, (lease, (URI,)))
    assert found == {"lists": 1, "gets": 1, "round_trips": 2}, found # another one has it
    db.execute("DROP TABLE measured")
    bucket.remove("measured/")


def test_dask(bucket):
    """The same by Dask's `distributed`."""
    if "--dask" not in sys.argv:
        print("    left out: it needs --dask and a Python that has Dask")
        return
    python = sys.argv[sys.argv.index("--dask") + 1]
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "ASAN_OPTIONS")}
    subprocess.run([python, os.path.abspath(__file__), "--flow", json.dumps(place_of(bucket))], check=True, env=environment, timeout=300)
    bucket.remove("measured/")


def dask_flow(place):
    from dask.distributed import Client, LocalCluster
    with LocalCluster(n_workers=WORKERS, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
                      local_directory=place["folder"]) as cluster, Client(cluster) as client:
        client.wait_for_workers(WORKERS)
        import cluster as module # the workers import it by this name

        def run_all(calls):
            return client.gather([client.submit(getattr(module, call.__name__), place, *rest, pure=False) for call, *rest in calls])
        print("    Dask:", flow(place, run_all), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--flow":
        os.environ["PYTHONPATH"] = HERE
        dask_flow(json.loads(sys.argv[2]))
    else:
        TESTS = (test_plain_processes, test_race_for_the_lease, test_killed_holder, test_dask)
        sys.exit(run(TESTS, "cluster"))
