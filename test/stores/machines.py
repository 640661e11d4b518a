"""Many machines and one array in a bucket: Dask's scheduler, four workers, the program that asks, and the bucket's server, each in a network
namespace with an address of its own, and with no file system in common that any of them can write. First the flow of cluster.py runs there.
Then the clocks of the workers are set minutes apart, one worker is cut off while it writes and comes back, and a dense cube and a sparse array
with real coordinates have what one process says.

usage: machines.py LIBRARY FOLDER [--dask PYTHON] [--layers N]

It needs Linux, namespaces (root, or a kernel that lets users make them), `ip` and a C compiler; without them it ends with 77. This script runs in
an environment that has moto (test/interop/run.py --moto); PYTHON has `distributed`, and is made beside FOLDER on first use. The cube has 50,000
cells in each of N layers, by default 200: 10^7 cells.

  wire       the process that has all others as children, in namespaces of its own: nothing here reaches the network of the host. A bridge
             connects the machines; it takes a machine off the wire by setting the link down.
  asker      the program of the cluster, which gives the work to Dask. It tells the wire on its standard output whom to cut off.
"""
import array
import json
import os
import shutil
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE) # Dask's workers import this file as a module
import servers

NET = "10.77.0."
WORKERS = ("worker0", "worker1", "worker2", "worker3")
ADDRESSES = {name: f"{NET}{i}" for i, name in enumerate(("server", "scheduler", "asker", *WORKERS), 1)}
CLOCKS = dict(zip(WORKERS, (-4, 0, 3, 7))) # minutes
CUT = "worker2"
BUCKET_PORT, SCHEDULER_PORT, SKIPPED = 5000, 8786, 77
CUBE, REALS = "s3://bucket/cube", "s3://bucket/reals"
SLABS, REAL_SLABS, REALS_EACH = 20, 8, 25000
CUBE_COLUMNS = "kind=dense, t INT32 DIMENSION(0, {last}, {tile}), y INT32 DIMENSION(0, 249, 50), x INT32 DIMENSION(0, 199, 50), value FLOAT64"
REAL_COLUMNS = "x FLOAT64 DIMENSION(0, 1000, 25), y FLOAT64 DIMENSION(0, 1000, 25), value FLOAT64"
REAL_CELLS = """WITH RECURSIVE k(k) AS (SELECT {first} UNION ALL SELECT k + 1 FROM k WHERE k < {last})
  INSERT INTO reals SELECT k * 7919 % 1000003 / 1000.003, k * 104729 % 1000003 / 1000.003, k % 977 / 3.0 + 0.1 FROM k"""
ANSWER = {"cube": "SELECT t, count(*), sum(value), min(value), max(value) FROM cube WHERE {} GROUP BY t", # over columns; the reals by rows
          "reals": "SELECT CAST(x / 100 AS INTEGER), count(*), total(value), min(value), max(value) FROM reals WHERE {} GROUP BY 1"}


# ---- A machine

def mounts():
    """(target, device, options) of each mount that this process can reach: of several at one target, the last."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        words = [line.split() for line in f]
    return list({each[4]: (each[4], each[2], each[5].split(",")) for each in words}.values())


def be_machine(name, place, command):
    """In namespaces of its own: leaves this machine nothing to write but file systems of its own, waits for its link, and runs the command."""
    def mount(*words):
        subprocess.run(["mount", *words], check=True)
    mount("--make-rprivate", "/")
    for target in (place["folder"], "/dev/shm"):
        mount("-t", "tmpfs", name, target)
    for target, _, options in mounts():
        if "rw" in options and target not in (place["folder"], "/dev/shm") and os.path.exists(target):
            mount("-o", ",".join(["remount", "bind", "ro", *(each for each in options if each != "rw")]), target)
    sys.stdin.readline() # the link is there
    for words in (f"addr add {ADDRESSES[name]}/24 dev eth0", "link set dev eth0 up", "link set dev lo up"):
        subprocess.run(["ip", *words.split()], check=True)
    clock = os.path.join(place["folder"], "clock")
    with open(clock, "wb") as f:
        f.write(struct.pack("q", 0))
    os.chdir(place["folder"])
    os.environ.update(HOME=place["folder"], TMPDIR=place["folder"], PYTHONDONTWRITEBYTECODE="1", TESSERA_TEST_CLOCK=clock)
    os.environ.update(LD_PRELOAD=place["clock"], NO_PROXY="*", AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_EC2_METADATA_DISABLED="true")
    os.environ.update(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="30s", DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP="15s",
                      DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="30s", DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="20")
    if name != "server": # moto would take requests.py for the package
        os.environ["PYTHONPATH"] = HERE
    if name not in WORKERS:
        os.execv(command[0], command)
    while True: # a worker of Dask ends when it has lost its scheduler; as services do, the machine starts another one, which finds the scheduler once the link is up
        subprocess.run(command, check=False)
        time.sleep(1)


def set_clock(place, minutes):
    """Sets the clock of the machine, for all its processes; returns by how many minutes this one then differs from the time since it started."""
    before = time.time() - time.monotonic()
    with open(os.path.join(place["folder"], "clock"), "r+b") as f:
        f.write(struct.pack("q", int(minutes * 60e9)))
    return round((time.time() - time.monotonic() - before) / 60)


def identity():
    """The network namespace, and the devices that this machine can write."""
    return os.readlink("/proc/self/ns/net"), [device for _, device, options in mounts() if "rw" in options]


# ---- The work of one worker

def connect(place, uris, as_of=None):
    import cluster
    db = cluster.connect(place)
    for table, uri in uris.items():
        db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera('{uri}'{'' if as_of is None else f', as_of={as_of}'})")
    return db


def write_layers(db, first, last):
    """Writes layers of the cube, as one block."""
    values = array.array("d", ((t * 131 + y * 17 + x * 7) % 4093 / 7.0 for t in range(first, last + 1) for y in range(250) for x in range(200)))
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({last - first + 1}, 250, 200), }}".ljust(117) + "\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + values.tobytes()
    db.execute("SELECT tessera_write_npy('db:cube', 'value', ?, json_object('t', ?))", (npy, first)).fetchall()


def write_reals(db, first, last):
    db.execute(REAL_CELLS.format(first=first, last=last))


WRITE = {"cube": write_layers, "reals": write_reals}


def write(place, table, uri, first, last):
    """Writes a slab in one transaction. If it is done twice, because nobody knows whether the first one was committed, the cells are the same."""
    db = connect(place, {table: uri})
    db.execute("BEGIN")
    WRITE[table](db, first, last)
    db.execute("COMMIT")
    db.close()
    return os.environ["TESSERA_TEST_MACHINE"]


def rows_of(db, table, condition):
    """The groups that the query over a table gives: of the cube over columns, of the reals by rows."""
    text = ANSWER[table].format(condition)
    if table == "reals":
        return db.execute(text).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE temp.groups USING tessera_query({text})")
    rows = db.execute("SELECT * FROM temp.groups").fetchall()
    db.execute("DROP TABLE temp.groups")
    return rows


def answer(place, table, uri, condition, as_of=None):
    db = connect(place, {table: uri}, as_of)
    rows = rows_of(db, table, condition)
    db.close()
    return rows


def newest(place, uri):
    """The time of the newest commit that this machine sees."""
    db = connect(place, {})
    time_ = db.execute("SELECT max(end_time) FROM tessera_fragments(?)", (uri,)).fetchone()[0]
    db.close()
    return time_


def merge(place, uri):
    """Consolidates under the lease; returns whether this machine had it."""
    db = connect(place, {})
    held = db.execute("SELECT tessera_lease(?, 600)", (uri,)).fetchone()[0]
    if held:
        db.execute("SELECT tessera_consolidate(?, 'fragments')", (uri,)).fetchall()
    db.close()
    return held


# ---- The program that gives the work

def joined(parts):
    """The groups of all parts, by key."""
    groups = {}
    for key, count, total, least, most in (row for part in parts for row in part):
        have = groups.get(key, (0, 0.0, least, most))
        groups[key] = (have[0] + count, have[1] + total, min(have[2], least), max(have[3], most))
    return groups


def assert_equal(found, expected):
    """Counts, minima and maxima are equal; sums of reals differ in their last digits by the order of the additions."""
    assert found.keys() == expected.keys(), (len(found), len(expected))
    for key, (count, total, least, most) in expected.items():
        assert (found[key][0], *found[key][2:]) == (count, least, most), (key, found[key], expected[key])
        assert abs(found[key][1] - total) <= 1e-12 * abs(total), (key, found[key], expected[key])


def say(*words):
    print("   ", *words, file=sys.stderr, flush=True)


def link(machine, up):
    """Has the wire set the link of a machine up or down."""
    print(json.dumps([machine, up]), flush=True)
    assert sys.stdin.readline() == "done\n"


def until(true, seconds=300):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.2)


class Asker:
    def __init__(self, place, client):
        self.place, self.client, self.layers = place, client, place["layers"]

    def names(self):
        return {each["name"] for each in self.client.scheduler_info(n_workers=-1)["workers"].values()}

    def submit(self, call, *arguments, worker=None):
        return self.client.submit(call, self.place, *arguments, pure=False, retries=5, **({"workers": [worker]} if worker else {}))

    def each_is_apart(self):
        found = [identity(), self.client.run_on_scheduler(identity), *self.client.run(identity).values()]
        devices = [device for _, own in found for device in set(own)]
        assert len({net for net, _ in found}) == len(found) == 2 + len(WORKERS), found
        assert len(set(devices)) == len(devices) >= len(found), found
        say(f"{len(found)} machines and the server; no network namespace and no writable file system in common")

    def cluster_flow(self):
        import cluster

        def run_all(calls):
            return self.client.gather([self.submit(getattr(cluster, call.__name__), *rest) for call, *rest in calls])
        say("the flow of cluster.py:", cluster.flow(self.place, run_all))

    def set_clocks(self):
        moved = {name: self.submit(set_clock, minutes, worker=name).result() for name, minutes in CLOCKS.items()}
        assert moved == CLOCKS, moved
        say("clocks, in minutes:", *(f"{name} {minutes:+d}" for name, minutes in CLOCKS.items()))

    def write_cube(self, db):
        """Writes the cube, while one worker is cut off. Dask gives its work to others; it comes back when all is written."""
        step = self.layers // SLABS
        db.execute(f"CREATE VIRTUAL TABLE cube USING tessera('{CUBE}', {CUBE_COLUMNS.format(last=self.layers - 1, tile=step)})")
        slabs = [self.submit(write, "cube", CUBE, first, first + step - 1) for first in range(0, self.layers, step)]
        until(lambda: sum(each.done() for each in slabs) >= 3)
        busy = [len(calls) for worker, calls in self.client.processing().items() if ADDRESSES[CUT] in worker]
        link(CUT, False)
        began, done = time.monotonic(), sum(each.done() for each in slabs)
        say(f"{CUT} is cut off, with {busy[0]} slabs given to it and {done} of {SLABS} done by all")
        assert busy[0] > 0 and done < SLABS
        until(lambda: CUT not in self.names())
        writers = self.client.gather(slabs)
        assert CUT not in self.names()
        say(f"all {SLABS} slabs are written, after {time.monotonic() - began:.0f} s without it:", *(f"{name} {writers.count(name)}" for name in sorted(set(writers))))
        link(CUT, True)
        until(lambda: CUT in self.names())
        say(f"{CUT} is back")

    def write_reals(self, db):
        db.execute(f"CREATE VIRTUAL TABLE reals USING tessera('{REALS}', {REAL_COLUMNS})")
        slabs = [self.submit(write, "reals", REALS, i * REALS_EACH, (i + 1) * REALS_EACH - 1, worker=WORKERS[i % len(WORKERS)])
                 for i in range(REAL_SLABS)]
        assert set(self.client.gather(slabs)) == set(WORKERS)

    def one_process(self):
        """The same arrays in a directory, written and read by this process alone."""
        db = connect(self.place, {})
        db.execute(f"CREATE VIRTUAL TABLE cube USING tessera('cube', {CUBE_COLUMNS.format(last=self.layers - 1, tile=self.layers // SLABS)})")
        db.execute(f"CREATE VIRTUAL TABLE reals USING tessera('reals', {REAL_COLUMNS})")
        write_layers(db, 0, self.layers - 1)
        write_reals(db, 0, REAL_SLABS * REALS_EACH - 1)
        return db

    def newest(self, uri):
        """The time for all to read: the machine whose clock is the furthest ahead sees all commits."""
        return self.submit(newest, uri, worker=max(CLOCKS, key=CLOCKS.get)).result()

    def compare(self, db, one, table, uri, as_of):
        """Each worker answers for parts as of one time."""
        conditions = [row[0] for row in db.execute("SELECT condition FROM tessera_partitions(?, ?)", (uri, 2 * len(WORKERS)))]
        assert len(conditions) >= len(WORKERS), conditions
        parts = [self.submit(answer, table, uri, condition, as_of, worker=WORKERS[i % len(WORKERS)]) for i, condition in enumerate(conditions)]
        found, expected = joined(self.client.gather(parts)), joined([rows_of(one, table, "true")])
        assert_equal(found, expected)
        say(f"{table}: {len(conditions)} parts, {sum(group[0] for group in found.values())} cells in {len(found)} groups, equal to one process's")

    def what_clocks_hide(self, as_of):
        """Without as_of a machine sees what is not ahead of its own clock: the one whose clock is the furthest ahead sees all of it."""
        seen = {name: sum(row[1] for row in self.submit(answer, "reals", REALS, "true", worker=name).result()) for name in WORKERS}
        whole = sum(row[1] for row in self.submit(answer, "reals", REALS, "true", as_of, worker=WORKERS[0]).result())
        assert seen[WORKERS[0]] < seen[WORKERS[1]] < seen[WORKERS[2]] < seen[WORKERS[3]] == whole == REAL_SLABS * REALS_EACH, (seen, whole)
        say(f"cells of {whole} that each worker sees without as_of:", *(f"{name} {count}" for name, count in seen.items()))

    def merge_and_compare(self, db, one):
        assert self.submit(merge, REALS, worker=WORKERS[3]).result() == 1
        assert self.submit(merge, REALS, worker=WORKERS[0]).result() == 0 # 4 minutes behind; the server's clock decides
        self.compare(db, one, "reals", REALS, self.newest(REALS))
        for uri in (CUBE, REALS):
            findings = db.execute("SELECT * FROM tessera_check(?) WHERE severity <> 'note'", (uri,)).fetchall()
            assert not findings, findings

    def cells_are_equal(self, one, as_of):
        db = connect(self.place, {"cube": CUBE}, as_of["cube"])
        db.execute(f"CREATE VIRTUAL TABLE reals USING tessera('{REALS}', as_of={as_of['reals']})")
        for sql in ("SELECT * FROM reals ORDER BY x, y", *(f"SELECT * FROM cube WHERE t = {t}" for t in (0, self.layers // 2, self.layers - 1))):
            rows = db.execute(sql).fetchall()
            assert rows == one.execute(sql).fetchall() and len(rows) >= 50000, sql
        say("cells themselves: equal, each of the reals and three layers of the cube")

    def run(self):
        self.each_is_apart()
        self.cluster_flow()
        self.set_clocks()
        db = connect(self.place, {})
        self.write_cube(db)
        self.set_clocks_again()
        self.write_reals(db)
        as_of = {"cube": self.newest(CUBE), "reals": self.newest(REALS)}
        self.what_clocks_hide(as_of["reals"]) # at once: clocks go on
        one = self.one_process()
        for table, uri in (("cube", CUBE), ("reals", REALS)):
            self.compare(db, one, table, uri, as_of[table])
        self.cells_are_equal(one, as_of)
        self.merge_and_compare(db, one)

    def set_clocks_again(self):
        """The machine that came back still has its clock: its processes are new."""
        moved = {name: self.submit(set_clock, minutes, worker=name).result() for name, minutes in CLOCKS.items()}
        assert not any(moved.values()), moved


def ask(place):
    from dask.distributed import Client
    with Client(f"tcp://{ADDRESSES['scheduler']}:{SCHEDULER_PORT}", timeout=180) as client:
        client.wait_for_workers(len(WORKERS), 300)
        import machines # the workers import it by this name, and so do the names of its functions
        machines.Asker(place, client).run()


# ---- The wire

class Wire:
    def __init__(self, place, python):
        self.place, self.machines, self.python = place, {}, python
        for words in ("link add name wire type bridge", "link set dev wire up"):
            self.ip(words)

    @staticmethod
    def ip(words):
        subprocess.run(["ip", *words.split()], check=True)

    def start(self, name, *command, **pipes):
        environment = {variable: value for variable, value in os.environ.items() if variable not in ("LD_PRELOAD", "ASAN_OPTIONS")}
        environment["TESSERA_TEST_MACHINE"] = name
        pipes.setdefault("stdout", open(os.path.join(self.place["logs"], name), "wb"))
        pipes.setdefault("stderr", pipes["stdout"])
        process = subprocess.Popen(["unshare", "--net", "--mount", sys.executable, os.path.abspath(__file__), "--machine", name, json.dumps(self.place),
                                    json.dumps(command)], stdin=subprocess.PIPE, text=True, env=environment, **pipes)
        until(lambda: os.readlink(f"/proc/{process.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 60)
        self.ip(f"link add name {name} type veth peer name eth0 netns {process.pid}")
        self.ip(f"link set dev {name} master wire up")
        process.stdin.write("the link is there\n")
        process.stdin.flush()
        self.machines[name] = process
        return process

    def serve(self):
        """Starts all machines, and sets links up and down as the asker wants. Returns the asker's exit code."""
        python, folder = self.python, self.place["folder"]
        scheduler = f"tcp://{ADDRESSES['scheduler']}:{SCHEDULER_PORT}"
        self.start("server", sys.executable, "-m", "moto.server", "-H", "0.0.0.0", "-p", str(BUCKET_PORT))
        self.start("scheduler", python, "-m", "distributed.cli.dask_scheduler", "--host", ADDRESSES["scheduler"], "--port", str(SCHEDULER_PORT), "--no-dashboard")
        for name in WORKERS:
            self.start(name, python, "-m", "distributed.cli.dask_worker", scheduler, "--host", ADDRESSES[name], "--name", name, "--nthreads", "1",
                       "--no-nanny", "--no-dashboard", "--memory-limit", "0", "--local-directory", folder)
        asker = self.start("asker", sys.executable, os.path.abspath(__file__), "--ask", json.dumps(self.place), python, stdout=subprocess.PIPE, stderr=None)
        for line in asker.stdout:
            machine, up = json.loads(line)
            self.ip(f"link set dev {machine} {'up' if up else 'down'}")
            asker.stdin.write("done\n")
            asker.stdin.flush()
        return asker.wait()


def make_bucket(place):
    """Waits for the server, and makes the bucket."""
    import boto3
    from botocore.config import Config
    end = time.monotonic() + 120
    while True:
        try:
            client = boto3.client("s3", endpoint_url=place["options"]["endpoint"], region_name="us-east-1", config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, connect_timeout=2, proxies={}))
            client.create_bucket(Bucket="bucket")
            return
        except Exception: # not listening yet
            assert time.monotonic() < end
            time.sleep(0.5)


def why_not():
    """Why this cannot run here; None if it can."""
    if not sys.platform.startswith("linux") or not all(map(shutil.which, ("unshare", "ip", "mount", "cc"))):
        return "it needs Linux, unshare, mount, ip and cc"
    tried = subprocess.run([*apart(), "sh", "-c", "ip link add name wire type bridge && ip link add name tried type veth peer name other && unshare --net --mount true"], capture_output=True, text=True)
    return f"namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else None


def apart():
    """The words that run a command in namespaces of its own, with all that it starts; they end with it."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def main():
    library, folder = map(os.path.abspath, sys.argv[1:3])
    layers = int(sys.argv[sys.argv.index("--layers") + 1]) if "--layers" in sys.argv else 200
    if layers < SLABS or layers % SLABS:
        sys.exit(f"the layers are a multiple of {SLABS}")
    if (folder + "/").startswith("/dev/shm/"):
        sys.exit("FOLDER is below /dev/shm, which each machine has for itself")
    reason = why_not()
    if reason:
        print(f"SKIPPED: {reason}")
        return SKIPPED
    python = os.path.abspath(sys.argv[sys.argv.index("--dask") + 1]) if "--dask" in sys.argv else servers.dask(os.path.dirname(folder))
    if not python:
        print("SKIPPED: Dask could not be installed")
        return SKIPPED
    shutil.rmtree(folder, ignore_errors=True)
    place = {"library": library, "folder": os.path.join(folder, "machine"), "logs": os.path.join(folder, "logs"), "clock": os.path.join(folder, "clock.so"),
             "port": BUCKET_PORT, "options": {"endpoint": f"http://{ADDRESSES['server']}:{BUCKET_PORT}", "plain_http": True}, "layers": layers}
    for each in (place["folder"], place["logs"]):
        os.makedirs(each)
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", place["clock"], os.path.join(HERE, "clock.c"), "-ldl"], check=True)
    code = subprocess.run([*apart(), sys.executable, os.path.abspath(__file__), "--wire", json.dumps(place), python], check=False).returncode
    print("passed" if code == 0 else f"failed; the logs are in {place['logs']}")
    return code


if __name__ == "__main__":
    if sys.argv[1] == "--machine":
        be_machine(sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4]))
    elif sys.argv[1] == "--wire":
        sys.exit(Wire(json.loads(sys.argv[2]), sys.argv[3]).serve())
    elif sys.argv[1] == "--ask":
        make_bucket(json.loads(sys.argv[2])) # with boto3, which Dask's Python lacks
        os.execv(sys.argv[3], [sys.argv[3], os.path.abspath(__file__), "--give", sys.argv[2]])
    elif sys.argv[1] == "--give":
        ask(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
