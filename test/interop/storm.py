"""Storms: processes of tessera and of TileDB write, delete, consolidate, vacuum and evolve the same arrays at the same
time, and are stopped and killed at random. Some of the tessera processes have their databases under one path in mount namespaces of
their own, like hosts that share a store. After each round all processes stop, and the test checks that no acknowledged
row is lost, doubled or resurrected, and that a commit that was not acknowledged is there completely or not at all: for
tessera, for TileDB, and by the databases of the writers. storm_workers.py has the processes.

usage: storm.py [--one-machine] EXTENSION SECONDS [SEED [FOLDER]]        (77: the package `tiledb` is not installed)
Runs storms of six rounds each, with a new seed each, for so many seconds. What went wrong stays in FOLDER (by default a temporary one), with the journals.
"""
import collections
import contextlib
import fcntl
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process
from storm_workers import ARRAYS, EXTRAS, KEYS, LOOKS, ROLES, UNWRITTEN, Journal, Violation

try:
    import tiledb
except ImportError:
    tiledb = None

ROUNDS = 6
OWNERS = 8
LONG = 60       # seconds of the long round that a storm has if there is time: a process that is stopped in it can outlast its lease
STOPS = (0.4, 4)        # seconds for which a process of TileDB's is stopped: a file that it has written in part counts as damaged after 5


# ---- The fork server, so that no process of a storm has to load the library itself

def child(order):
    config = order["config"]
    log = os.open(os.path.join(config["folder"], "logs", f"{order['name']}-{os.getpid()}.log"), os.O_WRONLY | os.O_CREAT, 0o666)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, file in ((0, null), (1, log), (2, log)):
        os.dup2(file, number)
    try:
        if order["role"] in LOOKS:
            answer = LOOKS[order["role"]](config)
            with open(config["answer"], "w", encoding="utf-8") as f:
                json.dump(answer, f)
        else:
            ROLES[order["role"]](config)
        code = 0
    except Violation as error:
        print(f"VIOLATION {error}", flush=True)
        code = 3
    except BaseException:
        import traceback
        traceback.print_exc()
        code = 4
    sys.stdout.flush()
    os._exit(code)


def kill(order, alive):
    if order["signal"] != signal.SIGKILL:  # whoever is stopped loses nothing, and holds all locks
        if order["kill"] in alive:
            os.kill(order["kill"], order["signal"])
        return
    with open(order["lock"], "w") as f:
        with contextlib.suppress(BlockingIOError):  # the process is protected from kills at the moment
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if order["kill"] in alive:
                os.kill(order["kill"], signal.SIGKILL)


def serve_processes():
    """The fork server: reads orders from standard input, one a line, {"name", "role", "config"} or {"kill": pid, "signal", "lock"}. Writes {"name", "pid"} for each
    process that it has started, and {"pid", "status"} when one has ended. Only the parent may kill by number: no other process gets the number before
    the parent has waited for its child."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    text, alive = b"", set()
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            alive.discard(pid)
            os.write(1, (json.dumps({"pid": pid, "status": status}) + "\n").encode())
        if 0 in ready:
            more = os.read(0, 65536)
            if not more:
                return
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                order = json.loads(line)
                if "kill" in order:
                    kill(order, alive)
                    continue
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    child(order)
                alive.add(pid)
                os.write(1, (json.dumps({"name": order["name"], "pid": pid}) + "\n").encode())


class ProcessServer:
    def __init__(self, preload):
        environment = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0", PYTHONDONTWRITEBYTECODE="1")
        if preload:
            environment["LD_PRELOAD"] = preload
        self.process = subprocess.Popen([sys.executable, "-X", "faulthandler", os.path.abspath(__file__), "--server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.text, self.running, self.ended = b"", {}, []

    def order(self, **what):
        self.process.stdin.write((json.dumps(what) + "\n").encode())
        self.process.stdin.flush()

    def start(self, name, role, config):
        self.order(name=name, role=role, config=config)
        self.listen(lambda: name in self.running.values() or any(n == name for n, _ in self.ended), 120)

    def listen(self, enough, seconds):
        end = time.time() + seconds
        while not enough():
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.time()))
            if not ready:
                return False
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise Violation("a process server has died")
            *lines, self.text = (self.text + more).split(b"\n")
            for line in map(json.loads, lines):
                if "name" in line:
                    self.running[line["pid"]] = line["name"]
                else:
                    self.ended.append((self.running.pop(line["pid"]), line["status"]))
        return True

    def take_ended(self):
        self.listen(lambda: False, 0)
        ended, self.ended = self.ended, []
        return ended

    def close(self):
        self.listen(lambda: False, 0)
        for pid in self.running:
            self.order(kill=pid, signal=signal.SIGKILL, lock=os.devnull)
        self.process.stdin.close()
        self.process.wait()


# ---- A storm

def may_have_namespaces():
    pid = os.fork()
    if pid == 0:
        import ctypes
        os._exit(1 if ctypes.CDLL(None).unshare(0x20000) else 0)
    return os.waitpid(pid, 0)[1] == 0


def make_arrays(folder):
    def dimensions(tiles):
        return tiledb.Domain(tiledb.Dim("owner", (0, OWNERS - 1), tiles[0], dtype="int32"), tiledb.Dim("k", (0, KEYS - 1), tiles[1], dtype="int32"))
    v = tiledb.Attr("v", dtype="int64", fill=UNWRITTEN, filters=[tiledb.ZstdFilter(1)])
    tiledb.Array.create(os.path.join(folder, "sparse"), tiledb.ArraySchema(dimensions((1, 10)), [v], sparse=True, capacity=5))
    tiledb.Array.create(os.path.join(folder, "duplicates"), tiledb.ArraySchema(dimensions((1, 10)), [v], sparse=True, capacity=5, allows_duplicates=True))
    tiledb.Array.create(os.path.join(folder, "dense"), tiledb.ArraySchema(dimensions((1, 10)), [v]))
    tiledb.Array.create(os.path.join(folder, "evolving"), tiledb.ArraySchema(dimensions((2, 8)), [v, tiledb.Attr("e0", dtype="int32", nullable=True, filters=[tiledb.ZstdFilter(1)])], sparse=True, capacity=5))


class Storm:
    def __init__(self, extension, folder, seed, seconds, servers, namespaces):
        self.extension, self.folder, self.random, self.seconds = extension, folder, random.Random(seed), seconds
        self.ours, self.theirs = servers
        self.kills = self.deaths = self.started = self.stops = 0
        self.stopped = {}  # (server, pid): when it goes on
        self.commits = self.unknown = 0
        self.checked, self.roles = collections.Counter(), {}
        for name in ("logs", "errors", "databases", "locks", *(f"machine{i}" for i in range(3))):
            os.makedirs(os.path.join(folder, name))
        self.machines = [os.path.join(folder, f"machine{i}") for i in range(3)] if namespaces else [None]

    def config(self, **more):
        return dict(folder=self.folder, extension=self.extension, databases=os.path.join(self.folder, "databases"), seed=self.random.randrange(1 << 30), **more)

    def start(self, role, **more):
        self.started += 1
        name = f"{role}{self.started}"
        config = self.config(lock=os.path.join(self.folder, "locks", name), **more)
        open(config["lock"], "w").close()
        (self.theirs if role in ("tiledb_writer", "tiledb_maintainer", "evolver", "tiledb_look") else self.ours).start(name, role, config)
        self.roles[name] = (role, more, config)
        return name

    # An owner always has the same database and the same host: its commits are in that database's record.
    def home_of(self, owner):
        return {"database": f"d{owner % 2}.db", "namespace": self.machines[owner % len(self.machines)]}

    def begin_round(self):
        """Assigns each owner to tessera or to TileDB for this round."""
        writers = []
        for owner in range(OWNERS):
            if self.random.random() < 0.5:
                writers.append(("tessera_writer", {"owner": owner, **self.home_of(owner)}))
            else:
                writers.append(("tiledb_writer", {"owner": owner}))
        if all(role == writers[0][0] for role, _ in writers):  # both libraries must take part
            writers[0] = ("tiledb_writer", {"owner": 0}) if writers[0][0] == "tessera_writer" else ("tessera_writer", {"owner": 0, **self.home_of(0)})
        upkeep = [("tessera_maintainer", {"database": "upkeep.db", "namespace": None}), ("tiledb_maintainer", {}),
                  self.random.choice([("evolver", {}), ("tessera_evolver", {"database": "evolver.db", "namespace": None})])]
        for role, more in writers + upkeep:
            self.start(role, **more)
        return writers

    def ended(self):
        """Returns the (role, config) of processes that must be started again, because they were killed or have died. A violation that a process has found is raised. A
        death that this script did not cause is a crash of the reference library, or a fault of ours, which is raised, too."""
        again = []
        for server in (self.ours, self.theirs):
            for name, status in server.take_ended():
                if name not in self.roles:
                    raise Violation(f"an unknown process has ended: {name}")
                role, more, _ = self.roles.pop(name)
                code = os.waitstatus_to_exitcode(status)
                if code in (3, 4) or (code and server is self.ours and code != -signal.SIGKILL):
                    raise Violation(f"{name} {more}: exit code {code}: {self.log_of(name)}")
                self.kills += code == -signal.SIGKILL
                self.deaths += code < 0 and code != -signal.SIGKILL
                if code:
                    again.append((role, more))
        return again

    def log_of(self, name):
        texts = []
        for file in sorted(os.listdir(os.path.join(self.folder, "logs"))):
            if file.startswith(name + "-"):
                with open(os.path.join(self.folder, "logs", file), encoding="utf-8", errors="replace") as f:
                    texts.append(f.read()[:6000])
        return "\n".join(texts)

    def choose(self):
        """Returns a process of the storm that is not stopped, as (server, pid, lock), or None."""
        candidates = [(server, pid, name) for server in (self.ours, self.theirs) for pid, name in server.running.items() if name in self.roles and (server, pid) not in self.stopped]
        if not candidates:
            return None
        server, pid, name = self.random.choice(candidates)
        return server, pid, self.roles[name][2]["lock"]

    def kill_one(self):
        chosen = self.choose()
        if chosen:
            chosen[0].order(kill=chosen[1], signal=signal.SIGKILL, lock=chosen[2])

    def stop_one(self, seconds):
        """Stops a process for a while, as a machine does that swaps, or a user who presses Ctrl-Z: wherever it is, and whatever it holds."""
        chosen = self.choose()
        if chosen:
            server, pid, lock = chosen
            longest = STOPS[1] if server is self.theirs else seconds * 2 / 3
            until = time.time() + (self.random.uniform(0.02, STOPS[0]) if self.random.random() < 0.8 else self.random.uniform(STOPS[0], longest))
            self.stopped[server, pid] = until, lock
            self.stops += 1
            server.order(kill=pid, signal=signal.SIGSTOP, lock=lock)

    def go_on(self, now):
        """Lets those whose time has come go on; some are killed where they stand."""
        for (server, pid), (until, lock) in list(self.stopped.items()):
            if until <= now:
                del self.stopped[server, pid]
                if self.random.random() < 0.2:
                    server.order(kill=pid, signal=signal.SIGKILL, lock=lock)
                server.order(kill=pid, signal=signal.SIGCONT, lock=lock)

    def run_round(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            time.sleep(self.random.uniform(0.05, 0.6))
            if self.random.random() < 0.5:
                self.stop_one(seconds)
            self.kill_one()
            self.go_on(time.time())
            for role, more in self.ended():
                self.start(role, **more)
        self.go_on(float("inf"))
        open(os.path.join(self.folder, "stop"), "w").close()
        self.wait()
        os.remove(os.path.join(self.folder, "stop"))

    def wait(self, seconds=300):
        end = time.time() + seconds
        while self.ours.running or self.theirs.running:
            self.ours.listen(lambda: not self.ours.running, 0.2)
            self.theirs.listen(lambda: not self.theirs.running, 0.2)
            if time.time() > end:
                raise Violation(f"these do not come to their end: {list(self.ours.running.values()) + list(self.theirs.running.values())}")
        self.ended()

    def look(self, role):
        answer = os.path.join(self.folder, role + ".json")
        for _ in range(5):  # the reference library may crash
            self.start(role, answer=answer)
            self.wait()
            if os.path.exists(answer):
                with open(answer, encoding="utf-8") as f:
                    found = json.load(f)
                os.remove(answer)
                return found
        raise Violation(f"{role} has no answer")

    def settle(self, writers):
        """Lets each owner find out whether the last commit of its killed process was published; one at a time, with no other process at work."""
        for role, more in writers:
            self.start(role, settle=True, **more)
            self.wait()

    def compare(self):
        ours, theirs = self.look("tessera_look"), self.look("tiledb_look")
        wanted = {array: {} for array in ARRAYS}
        self.commits = self.unknown = 0
        for owner in range(OWNERS):
            journal = Journal(self.folder, owner)
            self.commits += journal.done
            self.unknown += journal.unknown
            for array, cells in journal.state.items():
                wanted[array].update({(owner, k): v for k, v in cells.items()})
        for who, found in (("tessera", ours["rows"]), ("TileDB", theirs["rows"])):
            for array in ARRAYS:
                cells = collections.Counter((o, k) for o, k, *_ in found[array])
                doubled = [at for at, n in cells.items() if n > 1]
                rows = {(o, k): v for o, k, v, *_ in found[array]}
                lost = [(at, v, rows.get(at)) for at, v in sorted(wanted[array].items()) if rows.get(at) != v]
                more = [(at, v) for at, v in sorted(rows.items()) if at not in wanted[array]]
                if doubled or lost or more:
                    raise Violation(f"{who}, {array}: doubled {doubled[:5]}, lost or old (at, wanted, found) {lost[:5]}, resurrected {more[:5]}")
        key = lambda row: tuple(-1 << 40 if c is None else c for c in row)  # noqa: E731
        for array in ARRAYS:
            here, there = (sorted(map(tuple, look["rows"][array]), key=key) for look in (ours, theirs))
            if here != there:
                raise Violation(f"{array}: tessera and TileDB read other values of {EXTRAS}: tessera alone {[r for r in here if r not in there][:5]}, "
                                f"TileDB alone {[r for r in there if r not in here][:5]}")
        for array, severity, file, message in ours["check"]:
            self.checked[severity] += 1
            if severity == "error":
                raise Violation(f"the check of {array}: {file}: {message}")

    def run(self, rounds, until):
        for number in range(rounds):
            if number and time.time() > until:
                break
            writers = self.begin_round()
            self.run_round(LONG if number == 1 and until - time.time() > LONG else self.seconds)
            self.settle(writers)
            self.compare()

    def report(self):
        errors = collections.Counter()
        for name in os.listdir(os.path.join(self.folder, "errors")):
            try:
                with open(os.path.join(self.folder, "errors", name), encoding="utf-8") as f:
                    errors.update(json.load(f))
            except ValueError:  # the process was killed while it wrote this line
                continue
        print(f"  {self.commits} commits ({self.unknown} of them found out after a kill), {self.kills} kills, {self.stops} stops, {self.deaths} deaths of the reference library; the check: {dict(self.checked)}")
        for text, n in errors.most_common(40):
            print(f"  {n:6} x {text}")
        sys.stdout.flush()


def main():
    if sys.argv[1:2] == ["--server"]:
        return serve_processes()
    end_with_this_process()
    if not tiledb:
        print("SKIPPED: the package `tiledb` is not installed")
        return 77
    together = "--one-machine" in sys.argv
    if together:
        sys.argv.remove("--one-machine")
    extension, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
    top = sys.argv[4] if len(sys.argv) > 4 else tempfile.mkdtemp(prefix="storm-")
    namespaces, until, storms = not together and may_have_namespaces(), time.time() + seconds, 0
    print("mount namespaces: " + ("three, with databases of the same paths" if namespaces else "none" if together else "not permitted here: all processes are on one machine"))
    while not storms or time.time() < until:
        folder = os.path.join(top, f"storm{seed}")
        os.makedirs(folder)
        servers = ProcessServer(os.environ.get("TESSERA_PRELOAD")), ProcessServer(None)
        length = max(5, min(20, seconds / ROUNDS))
        storm = Storm(extension, folder, seed, length, servers, namespaces)
        print(f"storm with seed {seed}, rounds of {length:.0f} s", flush=True)
        try:
            pid = os.fork()  # the parent never calls the library
            if pid == 0:
                make_arrays(folder)
                os._exit(0)
            if os.waitpid(pid, 0)[1]:
                raise Violation("the arrays cannot be made")
            storm.run(ROUNDS, until)
        except Violation as violation:
            storm.report()
            print(f"FAILED: seed {seed}: {violation}\nsee {folder}")
            return 1
        finally:
            for server in servers:
                server.close()
        storm.report()
        shutil.rmtree(folder)
        storms, seed = storms + 1, seed + 1
    print(f"{storms} storms, nothing lost, doubled or resurrected")
    if len(sys.argv) <= 4:
        shutil.rmtree(top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
