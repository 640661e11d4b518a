"""The processes of a storm (storm.py): writers, maintainers and readers of tessera and of TileDB. Each is a function
role(config) that runs in a process of its own until the file `stop` appears or the process is killed.

An *owner* is a number that one writer at a time has. This writer alone writes the cells whose first coordinate is that
number, so the journal of the owner says what these cells must contain. The writer adds a line to the journal before
each commit ("set": the new values by key) and after it ("done": true, or false if the commit was rolled back). After a
process was killed in a commit, its result is unknown: the owner's next process looks, and writes down whether the
commit is there ("seen": true or false). The commit must be there completely or not at all, and stay so.

A kill does not lose bytes that were written to a file, so the journal is not synced.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import random
import sqlite3
import time

from cases import TILEDB_MEMORY

KEYS = 40                      # the number of keys of each owner
UNWRITTEN = -1                 # the fill value of the dense array
ARRAYS = ["sparse", "dense", "evolving", "duplicates"]
EXTRAS = ["e0", "e1", "e2"]    # attributes of the evolving array that come and go, always the same: TileDB reads what older fragments have of a name by the newest
                               # schema's datatype and filters, so that a name that comes again with others makes its reads fail, or gives other values
BUSY, LOCKED, ABORT, INTERRUPT = 5, 6, 4, 9
KINDS = ["fragments", "commits", "fragment_meta", "array_meta"]


class Violation(Exception):
    """A violated invariant."""


# ---- Journals

def fold(state, change):
    """Adds a commit {array: {key: value, or None: removed}} to a state {array: {key: value}}."""
    for array, cells in change.items():
        kept = state.setdefault(array, {})
        for key, value in cells.items():
            if value is None:
                kept.pop(int(key), None)
            else:
                kept[int(key)] = value
    return state


def copy_of(state):
    return {array: dict(cells) for array, cells in state.items()}


class Journal:
    def __init__(self, folder, owner):
        self.path, self.owner, self.state, self.open, self.next = os.path.join(folder, f"owner{owner}.journal"), owner, {a: {} for a in ARRAYS}, None, 1
        self.done, self.unknown = 0, 0
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                for line in f:
                    self.take(json.loads(line))
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def take(self, entry):
        if "set" in entry:
            self.open, self.next = entry, entry["seq"] + 1
            return
        self.unknown += "seen" in entry
        if entry.get("done", entry.get("seen")):
            fold(self.state, self.open["set"])
            self.done += 1
        self.open = None

    def add(self, **entry):
        os.write(self.file, (json.dumps(entry) + "\n").encode())
        self.take(json.loads(json.dumps(entry)))

    def intend(self, change, what):
        self.add(seq=self.next, set=change, what=what)

    def settle(self, found, logged=None):
        """Finds out what became of the open commit. `found`: the owner's cells now. `logged`: whether the database has the commit, or None if that is not known."""
        without, with_it = self.state, fold(copy_of(self.state), self.open["set"])
        if found not in (without, with_it):
            raise Violation(f"owner {self.owner}, commit {self.open['seq']} ({self.open['what']}): neither there nor absent: {differences(found, without, 'without it')}; "
                            f"{differences(found, with_it, 'with it')}")
        there = found == with_it
        if logged is not None and with_it != without and there != logged:
            raise Violation(f"owner {self.owner}, commit {self.open['seq']} ({self.open['what']}): the array {'has' if there else 'lacks'} it, the database {'has' if logged else 'lacks'} it")
        self.add(seen=there if logged is None else logged)


def differences(found, wanted, what):
    parts = []
    for array in ARRAYS:
        here, there = found.get(array, {}), wanted.get(array, {})
        keys = sorted(k for k in set(here) | set(there) if here.get(k) != there.get(k))
        if keys:
            parts.append(f"{array} {[(k, there.get(k), here.get(k)) for k in keys[:6]]}{'...' if len(keys) > 6 else ''}")
    return f"against what it should be {what}, (key, wanted, found): {', '.join(parts) or 'nothing'}"


# ---- Shared by all processes

def own_files(config):
    """Gives the process a mount namespace with its own directory at the path of the databases, so that it stands for a machine whose databases have the same names as others'."""
    hidden = config.get("namespace")
    if not hidden:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_BIND = 0x20000, 0x4000, 0x40000, 0x1000
    for code in (libc.unshare(CLONE_NEWNS), libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None),
                 libc.mount(hidden.encode(), config["databases"].encode(), None, MS_BIND, None)):
        if code:
            raise OSError(ctypes.get_errno(), "no mount namespace")


def stopped(config):
    return os.path.exists(os.path.join(config["folder"], "stop"))


def values(r, journal, array):
    """Chooses the cells of one commit: new, changed and removed ones."""
    cells, at = {}, r.randrange(KEYS)
    for i in range(r.choice([1, 1, 3, 10])):
        key = (at + i) % KEYS if r.random() < 0.7 else r.randrange(KEYS)
        removed = array != "dense" and key in journal.state[array] and r.random() < 0.4
        cells[key] = None if removed else journal.next * 1000 + key
    return cells


class Errors:
    """Counts the errors that are allowed while other processes work."""

    def __init__(self, config, role):
        self.path, self.counts = os.path.join(config["folder"], "errors", f"{role}-{os.getpid()}.json"), {}

    def count(self, text):
        text = "".join("#" if c.isdigit() else c for c in str(text)).split("\n")[0]
        text = text[:60] + " ... " + text[-80:] if len(text) > 150 else text
        self.counts[text] = self.counts.get(text, 0) + 1
        with open(self.path, "w", encoding="utf-8") as f:
            json.dump(self.counts, f)


@contextlib.contextmanager
def not_to_be_killed(config):
    """The lock to hold during work after whose interruption TileDB cannot open the array: the storm kills no process that holds it."""
    with open(config["lock"], "w") as f:
        fcntl.flock(f, fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def one_merge(config, array, kind, ours=False):
    """For merges of the evolving array: they are not killed, and there is one at a time. A merge that is killed between the commit of its merged fragment and its .vac
    leaves both the merged fragment and its sources; two merges of the same fragments leave two merged ones. Then a cell is there twice, with one time. Where one of the
    two merges dropped an attribute that came back since, TileDB takes the value of either, cell by cell (errata 107).
    In the array with duplicates everybody sees both cells (errata 110). So nobody works on it beside a merge of TileDB's, which is not killed either. Ours run beside
    everything else, and are killed: wherever one dies, each cell is there once."""
    name = os.path.basename(array)
    if kind != "fragments" or name not in ("evolving", "duplicates"):
        yield
    elif name == "duplicates" and ours:
        with beside_our_merges(config):
            yield
    elif name == "duplicates":
        with locked(config, "gate.lock", fcntl.LOCK_EX), locked(config, "duplicates.lock", fcntl.LOCK_EX), not_to_be_killed(config):
            yield
    else:
        with locked(config, "merge.lock", fcntl.LOCK_EX), not_to_be_killed(config):
            yield


@contextlib.contextmanager
def locked(config, name, how):
    with open(os.path.join(config["folder"], name), "w") as f:
        fcntl.flock(f, how)
        yield


@contextlib.contextmanager
def beside_our_merges(config):
    """For work on the array with duplicates: not beside a merge of TileDB's. Such a merge waits at the gate, so that it gets its turn."""
    with open(os.path.join(config["folder"], "duplicates.lock"), "w") as f:
        with locked(config, "gate.lock", fcntl.LOCK_SH):
            fcntl.flock(f, fcntl.LOCK_SH)
        yield


# ---- tessera

class Tessera:
    """A connection that is opened again if the columns of a table have changed; statements that fail because of other processes are tried again."""

    def __init__(self, config, path, errors):
        self.config, self.path, self.errors, self.db = config, path, errors, None

    def connect(self):
        if not self.db:
            self.db = sqlite3.connect(self.path, isolation_level=None, timeout=0)
            self.db.enable_load_extension(True)
            self.db.load_extension(self.config["extension"])
        return self.db

    def close(self):
        if self.db:
            self.db.close()
        self.db = None

    def allowed(self, error):
        """Returns True for errors after which a host tries again: another process holds a lock, or has vacuumed the fragments that the statement reads."""
        code = getattr(error, "sqlite_errorcode", None)
        text = str(error)
        if code is None:  # older versions of Python do not have the code
            code = BUSY if "locked" in text or "busy" in text else ABORT if "vacuumed" in text else 1
        # "columns ... have changed": the table was opened while a schema was being written, so it has the columns that the database remembers
        return code & 0xFF in (BUSY, LOCKED, ABORT) or any(part in text for part in ("schema has changed", "no such column", "has no column", "have changed: open the database again"))

    def again(self, function, seconds=120):
        end = time.time() + seconds
        while True:
            try:
                return function(self.connect())
            except sqlite3.Error as error:
                if not self.allowed(error) or time.time() > end:
                    raise Violation(f"tessera: {type(error).__name__}: {error}") from None
                self.errors.count("tessera: " + str(error))
                if self.db and self.db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self.db.execute("ROLLBACK")
                if "column" in str(error):
                    self.close()
                time.sleep(0.005)

    def prepare(self):
        def make(db):
            db.execute("CREATE TABLE IF NOT EXISTS log(owner INTEGER, seq INTEGER, PRIMARY KEY(owner, seq))")
            for array in ARRAYS:
                merges = 0 if array == "evolving" else random.choice([0, 4])   # one_merge tells why
                db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS {array} USING tessera('{self.config['folder']}/{array}', auto_consolidate={merges})")
        self.again(make)

    def rows(self, owner):
        """The owner's cells in one statement each, within one transaction."""
        def read(db):
            with beside_our_merges(self.config):
                return read_all(db)

        def read_all(db):
            db.execute("BEGIN")
            try:
                found = {array: db.execute(f"SELECT k, v FROM {array} WHERE owner = ? AND v <> {UNWRITTEN}", (owner,)).fetchall() for array in ARRAYS}
                for array, cells in found.items():
                    if len(cells) != len(dict(cells)):
                        raise Violation(f"owner {owner}, {array}: tessera reads {len(cells)} cells of {len(dict(cells))} keys")
                return {array: dict(cells) for array, cells in found.items()}
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
        return self.again(read)

    def logged(self, owner, seq):
        return self.again(lambda db: db.execute("SELECT count(*) FROM log WHERE owner = ? AND seq = ?", (owner, seq)).fetchone()[0]) == 1


def change_cells(db, r, owner, array, cells, present):
    for key, value in cells.items():
        if value is None:
            db.execute(f"DELETE FROM {array} WHERE owner = ? AND k = ?", (owner, key))
        elif key in present and r.random() < 0.5:
            db.execute(f"UPDATE {array} SET v = ? WHERE owner = ? AND k = ?", (value, owner, key))
        else:
            if array == "duplicates":  # where INSERT replaces nothing
                db.execute(f"DELETE FROM {array} WHERE owner = ? AND k = ?", (owner, key))
            db.execute(f"INSERT OR REPLACE INTO {array}(owner, k, v) VALUES(?, ?, ?)", (owner, key, value))


def tessera_commit(t, r, journal):
    """Makes one commit. Returns True if it is still to be found out whether the commit is there."""
    arrays = [a for a in ARRAYS if r.random() < 0.5] or [r.choice(ARRAYS)]
    change = {array: values(r, journal, array) for array in arrays}
    owner, seq = journal.owner, journal.next
    before = copy_of(journal.state)
    journal.intend(change, "tessera")
    db = t.connect()
    try:
        db.execute(r.choice(["BEGIN", "BEGIN IMMEDIATE"]))
        if r.random() < 0.2:  # these rows are rolled back to a savepoint
            db.execute("SAVEPOINT s")
            change_cells(db, r, owner, arrays[0], {k: 7 for k in range(3)}, {})
            db.execute("ROLLBACK TO s")
        for array in arrays:
            change_cells(db, r, owner, array, change[array], before[array])
        db.execute("INSERT INTO log VALUES(?, ?)", (owner, seq))
        for _ in range(50):
            try:
                db.execute("COMMIT")
                journal.add(done=True)
                return False
            except sqlite3.OperationalError as error:
                if not t.allowed(error) or not db.in_transaction:
                    raise
                t.errors.count("tessera, COMMIT: " + str(error))
                time.sleep(0.005)
        db.execute("ROLLBACK")
    except sqlite3.Error as error:
        if not t.allowed(error):
            raise Violation(f"tessera: {type(error).__name__}: {error}") from None
        t.errors.count("tessera, change: " + str(error))
        if db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        if "column" in str(error):
            t.close()
    return True


def check_own(journal, found, who):
    if found != journal.state:
        raise Violation(f"owner {journal.owner}, {who}: {differences(found, journal.state, 'after its last commit')}")


def tessera_writer(config):
    own_files(config)
    r, journal, errors = random.Random(config["seed"]), Journal(config["folder"], config["owner"]), Errors(config, "tessera")
    t = Tessera(config, os.path.join(config["databases"], config["database"]), errors)
    t.prepare()
    if journal.open:
        journal.settle(t.rows(journal.owner), t.logged(journal.owner, journal.open["seq"]))
    check_own(journal, t.rows(journal.owner), "tessera, at its beginning")
    if config.get("settle"):  # a commit that was killed between its COMMIT and its publication is published here
        for array in ARRAYS:
            t.again(lambda db: db.execute("SELECT tessera_recover(?)", (os.path.join(config["folder"], array),)).fetchall())
    while not stopped(config) and not config.get("settle"):
        with beside_our_merges(config):
            open_ended = tessera_commit(t, r, journal)
        if open_ended:
            journal.settle(t.rows(journal.owner), t.logged(journal.owner, journal.open["seq"]))
        if r.random() < 0.2:
            check_own(journal, t.rows(journal.owner), "tessera")
        if r.random() < 0.05:
            t.close()
            t.prepare()
        time.sleep(r.choice([0, 0, 0.01, 0.05]))
    t.close()


def tessera_maintainer(config):
    own_files(config)
    r, errors = random.Random(config["seed"]), Errors(config, "tessera-maintainer")
    t = Tessera(config, os.path.join(config["databases"], config["database"]), errors)
    while not stopped(config):
        array = os.path.join(config["folder"], r.choice(ARRAYS))
        kind, act = r.choice(KINDS), r.random()
        if act < 0.55:
            options = r.choice(["{}", "{}", '{"memory_mb":4}', '{"max_fragment_mb":1}'])
            with one_merge(config, array, kind, ours=True):
                t.again(lambda db: db.execute("SELECT tessera_consolidate(?, ?, ?)", (array, kind, options)).fetchall())
        elif act < 0.85:
            with locked(config, "commits.lock", fcntl.LOCK_SH):
                t.again(lambda db: db.execute("SELECT tessera_vacuum(?)", (array,)).fetchall())
        elif act < 0.95:
            key = f"m{r.randrange(4)}"
            t.again(lambda db: db.execute("SELECT tessera_set_metadata(?, ?, ?)", (array, key, r.randrange(1000))).fetchall())
        else:
            t.again(lambda db: db.execute("SELECT tessera_recover(?)", (array,)).fetchall())
        time.sleep(r.choice([0.01, 0.05, 0.2]))
    t.close()


# ---- TileDB

def tiledb_again(errors, function, seconds=120):
    """Calls TileDB again after failures: it fails if others vacuum, or have written half of a file, while it opens an array."""
    import tiledb
    end = time.time() + seconds
    while True:
        try:
            return function()
        except tiledb.TileDBError as error:
            if time.time() > end:
                raise Violation(f"TileDB: {error}") from None
            errors.count("TileDB: " + str(error))
            time.sleep(0.01)


def tiledb_rows(config, owner):
    with beside_our_merges(config):
        return tiledb_rows_now(config, owner)


def tiledb_rows_now(config, owner):
    import tiledb
    found = {}
    for array in ARRAYS:
        with tiledb.open(os.path.join(config["folder"], array)) as a:
            if array == "dense":
                row = a[owner, :]["v"] if a.nonempty_domain() else []
                found[array] = {k: int(v) for k, v in enumerate(row) if v != UNWRITTEN}
            else:
                cells = a.query(attrs=["v"], dims=["k"], order="C").multi_index[owner:owner, :]
                found[array] = {int(k): int(v) for k, v in zip(cells["k"], cells["v"])}
                if len(cells["k"]) != len(found[array]):
                    raise Violation(f"owner {owner}, {array}: TileDB reads {len(cells['k'])} cells of {len(found[array])} keys")
    return found


def tiledb_write(config, owner, array, cells):
    import numpy as np
    import tiledb
    path = os.path.join(config["folder"], array)
    with tiledb.open(path, "w") as a:
        if array == "dense":
            low, high = min(cells), max(cells)
            a[owner:owner + 1, low:high + 1] = np.array([[cells[k] for k in range(low, high + 1)]], "i8")
            return
        v = np.array(list(cells.values()), "i8")
        names = [a.schema.attr(i).name for i in range(a.schema.nattr)]
        a[np.full(len(cells), owner, "i4"), np.array(list(cells), "i4")] = {n: v if n == "v" else v.astype("i4") for n in names}


def tiledb_delete(config, owner, array, keys):
    import tiledb
    with not_to_be_killed(config):  # TileDB writes a .del in place, and cannot open an array with a .del that is cut
        with tiledb.open(os.path.join(config["folder"], array), "d") as a:
            a.query(cond=f"owner == {owner} and k in [{', '.join(map(str, keys))}]").submit()
    time.sleep(0.005)  # a delete is for all cells of its own millisecond, also for those that are written after it


def tiledb_commit(config, r, journal, errors):
    array = r.choice(ARRAYS)
    removed = array != "dense" and journal.state[array] and r.random() < 0.3
    if removed:
        cells = {k: None for k in r.sample(sorted(journal.state[array]), min(len(journal.state[array]), r.choice([1, 3, 10])))}
    elif array == "dense":
        low = r.randrange(KEYS)
        cells = {k: journal.next * 1000 + k for k in range(low, min(KEYS, low + r.choice([1, 3, 10])))}
    else:
        cells = {k: v for k, v in values(r, journal, array).items() if v is not None and (array != "duplicates" or k not in journal.state[array])}
        if not cells:
            return
    import tiledb
    journal.intend({array: cells}, "TileDB")
    try:
        if removed:
            tiledb_delete(config, journal.owner, array, list(cells))
        else:
            tiledb_write(config, journal.owner, array, cells)
        journal.add(done=True)
    except tiledb.TileDBError as error:
        errors.count("TileDB, change: " + str(error))
        journal.settle(tiledb_again(errors, lambda: tiledb_rows(config, journal.owner)))
    time.sleep(0.002)  # the order of two commits of the same millisecond is undefined


def tiledb_writer(config):
    r, journal, errors = random.Random(config["seed"]), Journal(config["folder"], config["owner"]), Errors(config, "tiledb")
    rows = lambda: tiledb_again(errors, lambda: tiledb_rows(config, journal.owner))  # noqa: E731
    if journal.open:
        journal.settle(rows())
    check_own(journal, rows(), "TileDB, at its beginning")
    while not stopped(config) and not config.get("settle"):
        tiledb_commit(config, r, journal, errors)
        if r.random() < 0.1:
            check_own(journal, rows(), "TileDB")
        time.sleep(r.choice([0, 0.01, 0.05]))


def tiledb_maintainer(config):
    import tiledb
    r, errors = random.Random(config["seed"]), Errors(config, "tiledb-maintainer")
    while not stopped(config):
        array, kind = r.choice(ARRAYS), r.choice(KINDS + ["fragments"])
        path, settings = os.path.join(config["folder"], array), tiledb.Config({"sm.consolidation.mode": kind, "sm.vacuum.mode": kind, **TILEDB_MEMORY})
        try:
            if r.random() < 0.6:
                # TileDB's second consolidation of commits fails if a .del was consolidated and vacuumed. That is its own error, and nothing is lost.
                # TileDB writes consolidated footers and metadata in place: if it is killed meanwhile, it cannot open the array any more.
                # Its .con names what a vacuum removes while it is written, and then no reader can open the array (errata 111).
                with locked(config, "commits.lock", fcntl.LOCK_EX) if kind == "commits" else not_to_be_killed(config) if kind in ("fragment_meta", "array_meta") else \
                        one_merge(config, array, kind):
                    tiledb.consolidate(path, config=settings)
            else:
                with locked(config, "commits.lock", fcntl.LOCK_SH), not_to_be_killed(config):  # killed between a fragment and its commit file, a vacuum leaves an array that TileDB does not open
                    tiledb.vacuum(path, config=settings)
        except tiledb.TileDBError as error:
            errors.count("TileDB, upkeep: " + str(error))
        time.sleep(r.choice([0.02, 0.1, 0.3]))


def evolver(config):
    """Changes the schema, by turns with tessera and with TileDB. Only one process does so: TileDB's evolutions take no lock, so the last one would win."""
    import tiledb
    own_files(config)
    r, errors = random.Random(config["seed"]), Errors(config, "evolver")
    path = os.path.join(config["folder"], "evolving")
    while not stopped(config):
        present = tiledb_again(errors, lambda: [a.name for a in tiledb.ArraySchema.load(path)])
        name = r.choice(EXTRAS)
        with not_to_be_killed(config):  # after a truncated schema file every open fails
            change = tiledb.ArraySchemaEvolution()
            if name in present:
                change.drop_attribute(name)
            else:
                change.add_attribute(tiledb.Attr(name, dtype="int32", nullable=True, filters=[tiledb.ZstdFilter(1)]))
            try:
                change.array_evolve(path)
            except tiledb.TileDBError as error:
                errors.count("TileDB, evolution: " + str(error))
        time.sleep(r.choice([0.1, 0.5, 1]))


def tessera_evolver(config):
    own_files(config)
    r, errors = random.Random(config["seed"]), Errors(config, "tessera-evolver")
    t, path = Tessera(config, os.path.join(config["databases"], config["database"]), errors), os.path.join(config["folder"], "evolving")
    while not stopped(config):
        present = t.again(lambda db: [n for n, in db.execute("SELECT name FROM tessera_schema(?)", (path,))])
        name = r.choice(EXTRAS)
        if name in present:
            t.again(lambda db: db.execute("SELECT tessera_drop_attribute(?, ?)", (path, name)).fetchall())
        else:
            t.again(lambda db: db.execute("SELECT tessera_add_attribute(?, ?)", (path, name + " INT32 FILTERS(zstd(1))")).fetchall())
        time.sleep(r.choice([0.1, 0.5, 1]))
    t.close()


# ---- Reading everything while no process writes

def tessera_look(config):
    """Returns {array: [[owner, k, v, extras...]]}, and the findings of the check."""
    t = Tessera(config, ":memory:", Errors(config, "tessera-look"))
    t.prepare()
    found = {"rows": {}, "check": []}
    for array in ARRAYS:
        extras = [n for n, in t.again(lambda db: db.execute(f"SELECT name FROM pragma_table_info('{array}') ORDER BY name").fetchall()) if n in EXTRAS]
        columns = ", ".join(["owner", "k", "v", *extras])
        found["rows"][array] = t.again(lambda db: db.execute(f"SELECT {columns} FROM {array} WHERE v <> {UNWRITTEN}").fetchall())
        found["check"] += t.again(lambda db: db.execute("SELECT ?, severity, file, message FROM tessera_check(?)", (array, os.path.join(config["folder"], array))).fetchall())
    return found


def tiledb_look(config):
    import tiledb
    found = {}
    for array in ARRAYS:
        with tiledb.open(os.path.join(config["folder"], array)) as a:
            extras = sorted(n for n in (a.schema.attr(i).name for i in range(a.schema.nattr)) if n in EXTRAS)
            if array == "dense":
                cells = a[:]["v"] if a.nonempty_domain() else []
                found[array] = [[o, k, int(v)] for o, row in enumerate(cells) for k, v in enumerate(row) if v != UNWRITTEN]
                continue
            cells = a.query(order="C")[:]   # in other orders TileDB fails where all cells of a tile that it merged are deleted
            columns = []
            for n in extras:
                c = cells[n]
                mask = getattr(c, "mask", None)  # a masked array, if some values are null
                columns.append([None if mask is not None and mask is not False and bool(mask[i] if getattr(mask, "ndim", 0) else mask) else int(c[i]) for i in range(len(c))])
            found[array] = [list(row) for row in zip(cells["owner"].tolist(), cells["k"].tolist(), cells["v"].tolist(), *columns)]
    return {"rows": found}


ROLES = {f.__name__: f for f in (tessera_writer, tessera_maintainer, tessera_evolver, tiledb_writer, tiledb_maintainer, evolver)}
LOOKS = {f.__name__: f for f in (tessera_look, tiledb_look)}
