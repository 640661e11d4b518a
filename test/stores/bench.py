"""Measures tessera beside TileDB-Py on one array in one bucket, with and without latency: requests and seconds of opening, a slice, a scan, a
commit and a consolidation, each with a new connection that opens the array first. Answers are compared. The time to start the process and to
load the library does not count.

Beside the server of Google's protocol the two speak different ones, as they do to Google: tessera XML to the gate (gcs_server.py), TileDB JSON to
fake-gcs-server behind it, each through a proxy of its own. So their requests can be compared, and their times only where the latency makes them.

usage: bench.py LIBRARY FOLDER PYTHON_WITH_TILEDB [moto | versitygw | minio | azurite | gcs] ... [--turns N]
"""
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fault_proxy import FaultProxy
TURNS = int(sys.argv[sys.argv.index("--turns") + 1]) if "--turns" in sys.argv else 3
FRAGMENTS, CELLS, FEW = 100, 100, 20
OPERATIONS = ("open and one cell, loose", "open and one cell, consolidated", "slice of a tenth", "scan", "commit of 1,000 cells", "consolidation of 20 fragments")


# ---- TileDB's side: one operation in a process

def theirs(order):
    import numpy as np
    import tiledb
    from tiledb_side import context
    ctx, uri, what = context(order), order["uri"], order["what"]
    begin, answer = time.monotonic(), None
    if what.startswith("open"):
        with tiledb.open(uri, ctx=ctx) as array:
            answer = int(array[57]["a"][0])
    elif what == "slice of a tenth":
        with tiledb.open(uri, ctx=ctx) as array:
            answer = int(array[0:FRAGMENTS * CELLS // 10]["a"].sum())
    elif what == "scan":
        with tiledb.open(uri, ctx=ctx) as array:
            answer = int(array[:]["a"].sum())
    elif what.startswith("commit"):
        with tiledb.open(uri, "w", ctx=ctx) as array:
            array[np.arange(1000, dtype=np.int32)] = {"a": np.arange(1000, dtype=np.int32)}
    else:
        tiledb.consolidate(uri, ctx=ctx)
    print(json.dumps({"seconds": time.monotonic() - begin, "answer": answer}))


# ---- Ours

def ours(db, uri, what):
    begin = time.monotonic()
    db.execute(f"CREATE VIRTUAL TABLE warm USING tessera('{uri}')")
    if what.startswith("open"):
        rows = db.execute("SELECT a FROM warm WHERE x = 57").fetchall()
    elif what == "slice of a tenth":
        rows = db.execute("SELECT sum(a) FROM warm WHERE x < ?", (FRAGMENTS * CELLS // 10,)).fetchall()
    elif what == "scan":
        rows = db.execute("SELECT sum(a) FROM warm").fetchall()
    elif what.startswith("commit"):
        rows = db.execute("WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < 999) INSERT OR REPLACE INTO warm SELECT i, i FROM r").fetchall()
    else:
        db.execute("SELECT tessera_consolidate(?)", (uri,)).fetchall()
        rows = []
    return time.monotonic() - begin, rows[0][0] if rows else None


# ---- The measurement

def make(bucket, name, fragments):
    """An array of a directory, copied into the bucket: loose, and with commits and footers consolidated."""
    from buckets import load
    path, db = os.path.join(bucket.folder, name), load(bucket.library)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{path}', kind=sparse, x INT32 DIMENSION(0, 99999, 1000), a INT32 NOT NULL)")
    for i in range(fragments):
        db.execute(f"WITH r(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM r WHERE i < {CELLS - 1}) INSERT INTO t SELECT {i * CELLS} + i, i FROM r")
    bucket.upload(path, name + "-loose")
    for what in ("commits", "fragment_meta"):
        db.execute(f"SELECT tessera_consolidate('{path}', '{what}'), tessera_vacuum('{path}', '{what}')").fetchall()
    bucket.upload(path, name + "-consolidated")
    return path


class JsonProxy(FaultProxy):
    """A proxy before fake-gcs-server, which knows itself by its own port alone, and names it in the place where an upload goes on."""

    def ask_server(self, server, request):
        request.raw = [(name, f"127.0.0.1:{self.upstream}" if name.lower() == "host" else value) for name, value in request.raw]
        answer = super().ask_server(server, request)
        answer.raw = [(name, value.replace(f":{self.upstream}", f":{self.port}") if name.lower() == "location" else value) for name, value in answer.raw]
        return answer


def measure(bucket, python, what, latency, few, there_proxy):
    from buckets import there
    from servers import ACCOUNT, ACCOUNT_KEY, KEY_ID, SECRET
    seconds, requests = {"tessera": [], "TileDB": []}, {}
    proxies = {"tessera": bucket.proxy, "TileDB": there_proxy}
    for turn in range(TURNS):
        answers = []
        for system, proxy in proxies.items():
            changed = what.startswith(("commit", "consolidation"))
            name = f"{what.split()[0]}-{latency}-{turn}-{system}" if changed else "many-loose" if what.endswith("loose") else "many-consolidated"
            if changed:
                bucket.upload(few, name)
            proxy.latency_ms, proxy.log = latency, []
            if system == "tessera":
                db = bucket.connect()
                took, answer = ours(db, f"s3://bucket/{name}", what)
                db.close()
            else:
                order = {"port": proxy.port, "json_port": proxy.port, "key_id": KEY_ID, "secret": SECRET, "account": ACCOUNT, "account_key": ACCOUNT_KEY,
                         "uri": there(f"s3://bucket/{name}"), "what": what}
                result = subprocess.run([python, os.path.abspath(__file__), "--theirs", json.dumps(order)], check=True, capture_output=True, text=True, timeout=600)
                took, answer = json.loads(result.stdout)["seconds"], json.loads(result.stdout)["answer"]
            requests[system] = len(proxy.log)
            proxy.latency_ms = 0
            seconds[system].append(took)
            answers.append(answer)
        assert answers[0] == answers[1], (what, answers)
    return {system: (statistics.median(seconds[system]), requests[system]) for system in seconds}


def test_bench(bucket):
    make(bucket, "many", FRAGMENTS)
    few = make(bucket, "few", FEW)
    print("| operation | latency | tessera | requests | TileDB | requests | times faster |\n|---|---|---|---|---|---|---|", flush=True)
    with JsonProxy(bucket.server.port + 1) if bucket.server.kind == "gcs" else FaultProxy(bucket.server.port) as proxy:
        for what in OPERATIONS:
            for latency in (0, 30):
                found = measure(bucket, PYTHON, what, latency, few, proxy)
                (own, own_requests), (other, other_requests) = found["tessera"], found["TileDB"]
                print(f"| {what} | {latency} ms | {own * 1000:.0f} ms | {own_requests} | {other * 1000:.0f} ms | {other_requests} | {other / own:.1f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--theirs":
        theirs(json.loads(sys.argv[2]))
    else:
        PYTHON = sys.argv.pop(3)
        from buckets import run
        sys.exit(run((test_bench,), "bench"))
