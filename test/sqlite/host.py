"""What the tests of this directory share: connections through Python's sqlite3 module, and through apsw (which contains
a newer SQLite) if it is installed; copies of the corpus' arrays; running all functions of a module whose names begin
with test_.
"""
import contextlib
import ctypes
import ctypes.util
import gc
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process

try:
    import apsw
except ImportError:
    apsw = None

def rounds(every):
    """How many of `every` random rounds a test runs: all of them, or one in n with the environment variable SAMPLE=n, as `./run test` sets it."""
    return -(-every // int(os.environ.get("SAMPLE", "1")))


def sampled(cases):
    """All cases of a loop, or one in n with SAMPLE=n, in their order. The choice differs from call to call, so an inner loop tries each of its cases for some
    case of the outer one, and it is the same in each run."""
    cases = list(cases)
    return [cases[i] for i in sorted(CHANCE.sample(range(len(cases)), rounds(len(cases))))]


CHANCE = random.Random(1)
EXTENSION = CORPUS = FOLDER = None   # the extension, the unpacked corpus, a directory of this run's own
BINDINGS = []                        # "sqlite3", "apsw"
binding = None                       # the binding that connect() uses now


class Error(Exception):
    """An SQLite error: its text, and its primary and extended result codes, which are None if the binding does not have them."""

    def __init__(self, text, code):
        super().__init__(text)
        self.text, self.code, self.extended = text, code if code is None else code & 0xFF, code


class Database:
    """A connection. Rows are lists of tuples; errors of either binding are raised as Error."""

    def __init__(self, path=":memory:", load=True):
        if binding == "apsw":
            self.raw = apsw.Connection(path)
            self.raw.enable_load_extension(True)
        else:
            self.raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self.raw.enable_load_extension(True)
        if load:
            self.run(lambda: self.raw.load_extension(EXTENSION))

    def run(self, function):
        try:
            return function()
        except sqlite3.Error as e:
            raise Error(str(e), getattr(e, "sqlite_errorcode", None)) from None
        except MemoryError:   # the sqlite3 module discards the text of SQLITE_NOMEM
            raise Error(None, 7) from None
        except Exception as e:
            if apsw and isinstance(e, apsw.Error):
                raise Error(str(e), e.extendedresult) from None
            raise

    def query(self, sql, parameters=()):
        return self.run(lambda: list(self.raw.cursor().execute(sql, parameters)))

    def value(self, sql, parameters=()):
        return self.query(sql, parameters)[0][0]

    def cursor(self, sql, parameters=()):
        """Returns an open statement, whose rows next() returns."""
        return self.run(lambda: iter(self.raw.cursor().execute(sql, parameters)))

    def next(self, cursor):
        return self.run(lambda: next(cursor, None))

    def error(self, sql, parameters=()):
        try:
            rows = self.query(sql, parameters)
        except Error as e:
            return e
        raise AssertionError(f"{sql}: no error but {str(rows[:3])[:600]}")

    def plan(self, sql, parameters=()):
        return "\n".join(row[3] for row in self.query("EXPLAIN QUERY PLAN " + sql, parameters))

    def table(self, name, path, options=""):
        self.query(f"CREATE VIRTUAL TABLE {name} USING tessera({literal(path)}{options})")

    def version(self):
        return tuple(int(n) for n in self.value("SELECT sqlite_version()").split("."))

    def limit_length(self, bytes_):
        """Sets SQLITE_LIMIT_LENGTH, and returns the limit before."""
        return (self.raw.limit if hasattr(self.raw, "limit") else self.raw.setlimit)(0, bytes_)

    def defend(self):
        """Sets SQLITE_DBCONFIG_DEFENSIVE. Returns False where the binding cannot: the sqlite3 module before Python 3.12."""
        if binding == "apsw":
            self.raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        elif hasattr(self.raw, "setconfig"):
            self.raw.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        else:
            return False
        return True

    def close(self):
        self.run(self.raw.close)


def autocommit(db):
    """Returns True if no transaction is open on the connection."""
    return not db.raw.in_transaction if hasattr(db.raw, "in_transaction") else db.raw.getautocommit()


def memory_used():
    """Returns the bytes in use in SQLite's allocator, which the extension uses, too."""
    if binding == "apsw":
        return apsw.memory_used()
    library = ctypes.CDLL(ctypes.util.find_library("sqlite3") or "sqlite3")   # the library that is loaded already
    library.sqlite3_memory_used.restype = ctypes.c_int64
    return library.sqlite3_memory_used()


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def corpus(name):
    return os.path.join(CORPUS, name)


def copy(name, to):
    """Makes a copy of an array of the corpus that the test may change; `to` is a new path in this run's directory."""
    path = os.path.join(tempfile.mkdtemp(dir=FOLDER), to)
    shutil.copytree(name if os.path.isabs(name) else corpus(name), path, symlinks=True)
    return path


def commits(path):
    return sorted(n for n in os.listdir(os.path.join(path, "__commits")) if n.endswith(".wrt"))


def uncommit(path, names):
    """Removes commits. Returns a function that restores them."""
    away = tempfile.mkdtemp(dir=FOLDER)
    for name in names:
        os.rename(os.path.join(path, "__commits", name), os.path.join(away, name))

    def restore():
        for name in names:
            os.rename(os.path.join(away, name), os.path.join(path, "__commits", name))
    return restore


def multiply(path, count):
    """Makes `count` copies of each fragment of an array. (The times of fragments are in their names only.)"""
    folder = os.path.join(path, "__fragments")
    for name in sorted(os.listdir(folder)):
        _, _, start, _, uuid, version = name.split("_")
        for i in range(1, count):
            time = int(start) + 1000 * i
            new = f"__{time}_{time}_{i:08x}{uuid[8:]}_{version}"
            shutil.copytree(os.path.join(folder, name), os.path.join(folder, new))
            open(os.path.join(path, "__commits", new + ".wrt"), "w").close()


def same(got, expected, what=""):
    if got != expected:
        raise AssertionError(f"{what}\n  got:      {str(got)[:600]}\n  expected: {str(expected)[:600]}")


def check_contains(text, part):
    """Checks that a text contains a part. `text` is None if the binding does not give it; then nothing is checked."""
    if text is not None and part not in text:
        raise AssertionError(f"{part!r} is not in {text!r}")


def slashes(path):
    """Returns a path in the form that tessera gives it."""
    return path.replace(os.sep, "/")


def not_on_windows(why):
    """Marks a test that needs what Windows, or wine, does not have. There main() leaves it out and says why."""
    def mark(function):
        function.not_on_windows = why
        return function
    return mark


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=os.name == "nt") # Windows removes no file that a test has left open


def main(module):
    """Runs a module's tests with each binding, or with the one that the variable BINDING names. Words after the two paths select the tests whose
    names contain one of them. With the variable TIMES, the longest are named, with the processor time of each."""
    global EXTENSION, CORPUS, FOLDER, binding
    end_with_this_process()
    EXTENSION, CORPUS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    words, only = sys.argv[3:], os.environ.get("BINDING")
    tests = [(n, f) for n, f in vars(module).items() if n.startswith("test_") and callable(f) and (not words or any(w in n for w in words))]
    if hasattr(sqlite3.Connection, "enable_load_extension") and only != "apsw":
        BINDINGS.append("sqlite3")
    if apsw and only != "sqlite3":
        BINDINGS.append("apsw")
    elif not apsw:
        print("apsw is not installed: only the sqlite3 module's SQLite is tested")
    if not BINDINGS or not tests:
        sys.exit("no test has run: " + ("this Python's sqlite3 loads no extensions, and apsw is missing or not wanted" if tests else f"no test is called {words}"))
    failed, times = 0, []
    for binding in BINDINGS:
        gc.collect()   # of the other binding: cursors within the traces of caught errors keep their connection open
        version = ".".join(map(str, Database(load=False).version()))
        for name, function in tests:
            if os.name == "nt" and hasattr(function, "not_on_windows"):
                print(f"left out {name}: {function.not_on_windows}")
                continue
            with folder() as FOLDER:
                before = sum(os.times()[:4])
                try:
                    function()
                except Exception:
                    failed += 1
                    print(f"FAILED {name} ({binding}, SQLite {version})")
                    traceback.print_exc(limit=-2, file=sys.stdout)
                times.append((sum(os.times()[:4]) - before, name))
        print(f"{len(tests)} tests with {binding}, SQLite {version}")
    if os.environ.get("TIMES"):
        for seconds, name in sorted(times, reverse=True)[:20]:
            print(f"{seconds:6.1f} s {name}")
    print(f"{failed} failed")
    sys.exit(failed > 0)
