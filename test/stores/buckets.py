"""What the tests of arrays in buckets share: a server with a bucket, a proxy before it that logs the requests, connections to SQLite with the
extension, and directories that are copied into the bucket.

In the tests "s3://" stands for the scheme of the server at hand: statements and their parameters get its own, and results give it back.

  with Bucket("moto", library, folder) as bucket:
      db = bucket.connect()
      db.execute("CREATE VIRTUAL TABLE t USING tessera('s3://bucket/t', x INT32 DIMENSION(0, 9, 10))")
"""
import concurrent.futures
import json
import os
import re
import shutil
import sqlite3
import sys
import time
import traceback

from fault_proxy import FaultProxy
from servers import ACCOUNT_KEY, NO_METADATA, SCHEMES, SECRET, Server, program_of

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process

NAME = "bucket"
ARGUMENTS = list(sys.argv)
KINDS = ("moto", "versitygw", "minio", "rclone", "azurite", "gcs", "gcs_memory")
COUNTERS = ("store_gets", "store_heads", "store_lists", "store_puts", "store_deletes", "store_retries", "store_round_trips")


class There:
    """The scheme of the server at hand, and its options by port."""
    scheme, options = "s3", None


def be_at(kind):
    """Lets this process, and those that it starts, use a kind of server."""
    os.environ["TESSERA_STORES_KIND"] = kind
    There.scheme, There.options = SCHEMES.get(kind, "s3"), Server(kind, ".").options


def there(text):
    """A text with the scheme of the server at hand."""
    return text.replace("s3://", There.scheme + "://") if isinstance(text, str) else text


def back(_, row):
    """A row of results, in which "s3://" again stands for the scheme of the server at hand."""
    return tuple(value.replace(There.scheme + "://", "s3://") if isinstance(value, str) else value for value in row)


class Connection(sqlite3.Connection):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        if There.scheme != "s3":
            self.row_factory = back

    def execute(self, sql, parameters=()):
        given = {name: there(value) for name, value in parameters.items()} if isinstance(parameters, dict) else [there(value) for value in parameters]
        return super().execute(there(sql), given)

    def executemany(self, sql, parameters):
        return super().executemany(there(sql), parameters)

    def executescript(self, sql):
        return super().executescript(there(sql))


def load(library, database=":memory:", **more):
    """A connection with the extension, outside of transactions unless a statement begins one."""
    db = sqlite3.connect(database, isolation_level=None, timeout=60, factory=Connection, **more)
    db.enable_load_extension(True)
    db.load_extension(os.path.splitext(library)[0])
    return db


def scope(db, port, uri=f"s3://{NAME}", **options):
    given = There.options(port)
    given.update(options)
    given = {name: value for name, value in given.items() if value is not None}
    db.execute("SELECT tessera_configure(?, ?)", (uri, json.dumps(given))).fetchall()


def stats(db):
    """The counters of requests, those that are not 0."""
    return {name[6:]: value for name, value in db.execute("SELECT name, value FROM tessera_stats") if name in COUNTERS and value}


def spent(db, *statements):
    """The counters of requests after some statements. A statement may be a pair of SQL and its parameters."""
    db.execute("SELECT tessera_reset_stats()").fetchall()
    for statement in statements:
        db.execute(*((statement,) if isinstance(statement, str) else statement)).fetchall()
    return stats(db)


def library_is_here(db):
    """Whether libcurl can be loaded."""
    sqlite3.Connection.execute(db, "SELECT tessera_configure('s3://nowhere', ?)", ('{"key_id": "k", "secret": "s", "endpoint": "http://127.0.0.1:1", "retries": 0}',)).fetchall()
    try:
        sqlite3.Connection.execute(db, "SELECT * FROM tessera_schema('s3://nowhere/x')").fetchall()
    except sqlite3.Error as error:
        return "libcurl" not in str(error)
    finally:
        sqlite3.Connection.execute(db, "SELECT tessera_configure('s3://nowhere', NULL)").fetchall()


class Bucket:
    """A server with an empty bucket, and a proxy before it. `names` are more buckets."""

    def __init__(self, kind, library, folder, program=None, names=()):
        self.library, self.folder = library, os.path.abspath(folder)
        self.server = Server(kind, os.path.join(self.folder, kind), program)
        self.names = (NAME, *names)
        be_at(kind)

    def start(self):
        self.server.__enter__()
        self.boto = self.server.client()
        for name in self.names:
            self.boto.create_bucket(Bucket=name)

    def renew(self):
        """Empties the buckets by a new server: emulators look at each name that they have for nearly every answer, so tests with thousands would take hours."""
        self.server.__exit__()
        self.start()
        self.proxy.upstream = self.server.port

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        self.start()
        self.proxy = FaultProxy(self.server.port)
        self.proxy.__enter__()
        return self

    def __exit__(self, *_):
        self.proxy.__exit__()
        self.server.__exit__()

    def connect(self, database=":memory:", direct=False, **options):
        """A connection that reaches the bucket by the proxy, or directly."""
        db = load(self.library, database)
        scope(db, self.server.port if direct else self.proxy.port, **options)
        return db

    def spent(self, db, *statements):
        """The counters of requests of some statements. They agree with what the proxy has seen; its log holds these requests alone."""
        self.proxy.log = []
        found = spent(db, *statements)
        seen = {"gets": self.proxy.count("GET"), "heads": self.proxy.count("HEAD"), "lists": self.proxy.count("LIST") + self.proxy.count("UPLOADS"),
                "puts": self.proxy.count("PUT") + self.proxy.count("PART"), "deletes": self.proxy.count("DELETE") + self.proxy.count("DELETE-MANY")}
        for name, count in seen.items():
            assert found.get(name, 0) == count or found.get("retries"), (name, found, seen)
        return found

    def log(self):
        """The requests that the proxy has seen, as text."""
        lines, start = [], self.proxy.log[0]["time"] if self.proxy.log else 0
        for entry in self.proxy.log:
            query = re.sub(r"&?(list-type=2|delimiter=%2F|x-id=[A-Za-z]+)", "", entry["query"])
            condition = " if-none-match" if {"if-none-match", "x-goog-if-generation-match"} & set(entry["headers"]) else ""
            lines.append(f"{(entry['time'] - start) * 1000:6.0f} ms {entry['kind']:7s} {entry['path']} {query}{condition}"
                         f" {entry['headers'].get('range', '')} -> {entry['status']}")
        return "\n".join(lines)

    def keys(self, prefix="", name=NAME):
        """The keys of objects below a prefix."""
        found = []
        for page in self.boto.get_paginator("list_objects_v2").paginate(Bucket=name, Prefix=prefix):
            found += [each["Key"] for each in page.get("Contents", ())]
        return found

    def read(self, key):
        return self.boto.get_object(Bucket=NAME, Key=key)["Body"].read()

    def upload(self, directory, prefix):
        """Copies the files of a directory into the bucket; returns how many."""
        files = [os.path.join(at, file) for at, _, names in os.walk(directory) for file in names]

        def put(file):
            with open(file, "rb") as f:
                self.boto.put_object(Bucket=NAME, Key=f"{prefix}/{os.path.relpath(file, directory)}", Body=f.read())
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(put, files))
        return len(files)

    def remove(self, prefix):
        for key in self.keys(prefix):
            self.boto.delete_object(Bucket=NAME, Key=key)


be_at(os.environ.get("TESSERA_STORES_KIND", "moto"))


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def raises(db, *statement, code=None, says=""):
    """Asserts that a statement fails with a code of SQLite's and a text in the message; returns the message."""
    try:
        rows = db.execute(*statement).fetchall()
    except sqlite3.Error as error:
        message, name = str(error).replace(There.scheme + "://", "s3://"), getattr(error, "sqlite_errorname", None)
        assert says in message, f"{statement}: {message!r}; expected {says!r}"
        assert code is None or name is None or name == code or name.startswith(code + "_"), f"{statement}: {name}: {message!r}; expected {code}"
        assert SECRET not in message and ACCOUNT_KEY not in message
        return message
    raise AssertionError(f"{statement} returned {rows[:3]}; expected {says!r}")


def preload_sanitizer():
    """Begins anew with AddressSanitizer's library if the extension needs it: neither pip nor the servers run with it."""
    library = os.environ.pop("TESSERA_PRELOAD", "")
    if library:
        environment = dict(os.environ, LD_PRELOAD=library, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0", UBSAN_OPTIONS="print_stacktrace=1")
        os.execve(sys.executable, [sys.executable, "-X", "faulthandler", *ARGUMENTS], environment)


def run(tests, name, s3_alone=()):
    """Runs tests (those in `s3_alone` only beside servers of that protocol) on the servers that the command line names: SCRIPT LIBRARY FOLDER [KIND OF SERVER] ... Returns the exit code."""
    preload_sanitizer()
    end_with_this_process()
    os.environ.update(NO_METADATA)
    library, folder = sys.argv[1:3]
    kinds = [word for word in sys.argv[3:] if word in KINDS] or ["moto"]
    if not library_is_here(load(library)):
        print("SKIPPED: libcurl is not installed here")
        return 77
    failed, words = [], [word for word in sys.argv[3:] if word.startswith("test_")]
    names = {test.__name__ for test in tests}
    forgotten = [each for each in vars(sys.modules["__main__"]) if each.startswith("test_") and each not in names]
    for what, which in (("no such test", set(words) - names), ("not in the list of tests", forgotten)):
        if which:
            print(f"{what}: " + ", ".join(sorted(which)))
            return 1
    tests = [test for test in tests if not words or test.__name__ in words]
    for kind in kinds:
        program = None
        if kind != "moto":
            program = program_of(kind, os.environ.get("TESSERA_VERSITYGW", os.path.join(folder, "go")))
            if not program:
                print(f"SKIPPED: {kind} is not built, or cannot be built without Go")
                return 77
        with Bucket(kind, library, fresh(os.path.join(folder, name + "-" + kind)), program) as bucket:
            for test in tests:
                if There.scheme != "s3" and test in s3_alone:
                    continue
                print(f"{kind}: {test.__name__}", flush=True)
                bucket.proxy.clear()
                began = time.monotonic()
                try:
                    test(bucket)
                except Exception: # the other tests run all the same
                    failed.append(f"{kind}: {test.__name__}")
                    traceback.print_exc(file=sys.stdout)
                print(f"    {time.monotonic() - began:.1f} s", flush=True)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0
