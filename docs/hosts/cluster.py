"""Several processes, one array: Dask's workers on this machine, of which each has an SQLite of its own. usage: cluster.py EXTENSION DATA

Reading: each worker answers for one of the slices that tessera_partitions cuts, and what they say is added up. Writing: workers
write into one array at the same time, each transaction a commit of its own.
"""
import math
import os
import sqlite3
import sys
import tempfile

from dask.distributed import Client, LocalCluster

WORKERS, COMMITS, ROWS = 4, 5, 200


def connect(extension):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    db.enable_load_extension(False)
    return db


def months(extension, path, condition):
    """{month: (cells, sum of temperatures, highest)} of a part: what can be added up, so no means."""
    db = connect(extension)
    db.execute(f"CREATE VIRTUAL TABLE climate USING tessera('{path}')")
    rows = db.execute(f"SELECT month, count(sst), total(sst), max(sst) FROM climate WHERE {condition} GROUP BY month").fetchall()
    return {month: tuple(rest) for month, *rest in rows}


def months_by_slice(extension, path, box):
    """The same without rows: the part as JSON, for tessera_aggregate."""
    rows = connect(extension).execute("SELECT key1, count, sum, max FROM tessera_aggregate(?, 'sst', ?, 'month')", (path, box)).fetchall()
    return {month: tuple(rest) for month, *rest in rows}


def add_up(parts):
    total = {}
    for part in parts:
        for month, (cells, temperatures, highest) in part.items():
            before = total.get(month, (0, 0.0, -math.inf))
            total[month] = (before[0] + cells, before[1] + (temperatures or 0), max(before[2], -math.inf if highest is None else highest))
    return total


def check_equal(got, wanted):
    assert got.keys() == wanted.keys(), (got, wanted)
    for month, (cells, temperatures, highest) in wanted.items():
        assert got[month][0] == cells and got[month][2] == highest, (month, got[month], wanted[month])
        assert math.isclose(got[month][1], temperatures, rel_tol=1e-12), (month, got[month], wanted[month])


def write(extension, path, worker):
    """Each transaction is one commit: nothing of it is seen before its COMMIT, and no writer waits for another's."""
    db = connect(extension)
    db.execute(f"CREATE VIRTUAL TABLE measured USING tessera('{path}')")
    for commit in range(COMMITS):
        db.execute("BEGIN")
        db.executemany("INSERT INTO measured VALUES(?, ?, ?)", [(worker, commit * ROWS + i, worker * 1000.0 + i) for i in range(ROWS)])
        db.execute("COMMIT")
    return os.getpid()


def read(client, extension, path):
    db = connect(extension)
    parts = db.execute("SELECT slice, condition FROM tessera_partitions(?, ?)", (path, 2 * WORKERS)).fetchall()
    wanted = months(extension, path, "1")
    check_equal(add_up(client.gather([client.submit(months, extension, path, condition) for _, condition in parts])), wanted)
    check_equal(add_up(client.gather([client.submit(months_by_slice, extension, path, box) for box, _ in parts])), wanted)
    print(f"GROUP BY month: {len(wanted)} groups of {sum(cells for cells, _, _ in wanted.values())} cells, as one process says")


def write_together(client, extension, folder):
    path = os.path.join(folder, "measured")
    db = connect(extension)
    db.execute(f"CREATE VIRTUAL TABLE measured USING tessera('{path}', station INT32 DIMENSION(0, 999, 10), number INT32 DIMENSION(0, 999999, 1000), value FLOAT64)")
    pids = client.gather([client.submit(write, extension, path, worker, workers=[address], allow_other_workers=False)
                          for worker, address in enumerate(client.scheduler_info(n_workers=-1)["workers"])])
    assert len(set(pids)) == WORKERS, pids
    rows, total = db.execute("SELECT count(*), sum(value) FROM measured").fetchone()
    assert rows == WORKERS * COMMITS * ROWS and total == sum(w * 1000.0 + i for w in range(WORKERS) for i in range(ROWS)) * COMMITS, (rows, total)
    fragments, = db.execute("SELECT fragments FROM tessera_array(?)", (path,)).fetchone()
    faults = db.execute("SELECT severity, file, message FROM tessera_check(?) WHERE severity <> 'note'", (path,)).fetchall()
    assert fragments == WORKERS * COMMITS and not faults, (fragments, faults)
    print(f"written at once: {rows} rows in {fragments} commits by {WORKERS} processes; the check finds nothing")


def main():
    extension, data = (os.path.abspath(argument) for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder, \
         LocalCluster(n_workers=WORKERS, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None, local_directory=folder) as cluster, \
         Client(cluster) as client:
        client.wait_for_workers(WORKERS)
        read(client, extension, os.path.join(data, "climate"))
        write_together(client, extension, folder)


if __name__ == "__main__":
    main()
