"""Cuts off a transaction that writes to arrays and to an ordinary table at a system call: the process dies there, or
the call fails because the disk is full or broken. Then the database is opened again, and the test checks that the
arrays and the table have all of the transaction or nothing of it, through this database and, for each array alone, for
other programs; and that the next transaction succeeds and leaves nothing pending.

usage: crash.py EXTENSION CORPUS [all|SAMPLES [SEED [SCENARIO]]]

inject.c is preloaded as a library. On Windows the variable INJECT names test/windows/inject.c as a library.
"""
import ctypes
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sqlite"))
import host
from host import Database, Error, literal, slashes
from processes import end_with_this_process

NOTHING, KILL, KILL_WITHIN, FULL, EIO_ONCE, EIO_ALWAYS = range(6)
FAULTS = {KILL: "killed before", KILL_WITHIN: "killed within", FULL: "disk full from", EIO_ONCE: "failing", EIO_ALWAYS: "failing from"}
KILLED = 70
inject = ctypes.CDLL(os.environ.get("INJECT"))

# The state before the transaction, the transaction, and the arrays that the database names by table.
ROWS = "WITH RECURSIVE n(i) AS (VALUES(%d) UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
SPARSE = "x INT DIMENSION(0, 1000000), a INT, s TEXT"


class Scenario:
    """`copied`: arrays of the corpus by table, instead of a definition. `row` is written by the next transaction."""

    def __init__(self, tables, first, then, created=(), copied={}, row=(33, 33, 7)):
        self.tables, self.first, self.then, self.created, self.copied, self.row = tables, first, then, created, copied, row


SCENARIOS = {
    "one fragment": Scenario(
        {"t": SPARSE},
        ["INSERT INTO t SELECT i, i, 'first' || i FROM n(1, 40)"],
        ["INSERT INTO o VALUES('then')", "INSERT INTO t SELECT i, i, 'then' || i FROM n(30, 60)"]),
    "version 3": Scenario(
        {"t": "x INT DIMENSION(0, 1000000), a INT NOT NULL, s TEXT NOT NULL, format_version=3"},
        ["INSERT INTO t SELECT i, i, 'first' || i FROM n(1, 40)"],
        ["INSERT INTO t SELECT i, i, 'then' || i FROM n(30, 60)", "INSERT INTO o VALUES('then')"]),
    "version 9": Scenario(
        {"t": "threads=2"}, [],
        ["INSERT INTO t SELECT i, i, i, 'then', 0.5, '[1,2,3]' FROM n(1, 40)", "INSERT INTO o VALUES('then')"],
        copied={"t": "old/lib2.3_py0.9.5/sparse2d"}, row=(33, 33, 7, "next", 1.5, "[4,5,6]")),
    "deletes": Scenario(
        {"t": SPARSE},
        ["INSERT INTO t SELECT i, i, 'first' || i FROM n(1, 40)"],
        ["DELETE FROM t WHERE x < 10", "INSERT INTO o VALUES('then')"]),
    "deletes and cells": Scenario(
        {"t": SPARSE},
        ["INSERT INTO t SELECT i, i, 'first' || i FROM n(1, 40)"],
        ["INSERT INTO o VALUES('then')", "DELETE FROM t WHERE x < 10", "UPDATE t SET x = x + 100 WHERE x < 20",
         "UPDATE t SET a = -a WHERE x > 35", "INSERT INTO t VALUES(5, 5, 'again')"]),
    "boxes": Scenario(
        {"t": "kind=dense, x INT DIMENSION(1, 40, 5), y INT DIMENSION(1, 40, 5), a INT"},
        ["INSERT INTO t SELECT i, i, i FROM n(1, 9)"],
        ["INSERT INTO t VALUES(1, 1, 7), (2, 9, 8), (30, 31, 9), (30, 32, 10)", "INSERT INTO o VALUES('then')",
         "UPDATE t SET a = 11 WHERE x = 3 AND y = 3"]),
    "two arrays": Scenario(
        {"t": SPARSE, "u": SPARSE},
        ["INSERT INTO t SELECT i, i, 'first' || i FROM n(1, 40)"],
        ["INSERT INTO u SELECT x, a, s FROM t WHERE x < 20", "DELETE FROM t WHERE x < 20", "INSERT INTO o VALUES('then')"]),
    "a new array": Scenario(
        {"t": SPARSE},
        ["INSERT INTO t SELECT i, i, 'first' || i FROM n(1, 40)"],
        ["INSERT INTO o VALUES('then')", f"CREATE VIRTUAL TABLE v USING tessera('v', {SPARSE})",
         "INSERT INTO v SELECT x, a, s FROM t WHERE x < 20", "INSERT INTO t VALUES(5, 5, 'again')"], created=("v",)),
}


def with_rows(sql):
    """Replaces n(1, 40) by a table of the numbers from 1 to 40."""
    if "n(" not in sql or "FROM n(" not in sql:
        return sql
    head, tail = sql.split("FROM n(")
    low, high = tail.split(")")[0].split(",")
    return ROWS % (int(low), int(high)) + head + "FROM n" + tail.split(")", 1)[1]


def execute(db, statements):
    for sql in statements:
        db.query(with_rows(sql))


def build(folder, scenario, mode):
    db = Database(os.path.join(folder, "t.db"))
    db.query(f"PRAGMA journal_mode={mode}")
    db.query("CREATE TABLE o(text)")
    for name, definition in scenario.tables.items():
        if name in scenario.copied:
            shutil.copytree(host.corpus(scenario.copied[name]), os.path.join(folder, name))
        db.query(f"CREATE VIRTUAL TABLE {name} USING tessera('{name}', {definition})")
    execute(db, scenario.first)
    db.close()


def rows(db, table):
    return sorted(db.query(f"SELECT * FROM {table}"), key=repr)


def rows_through_database(db, scenario):
    """Returns the rows of each table as the database shows them; None for a table that does not exist."""
    there = {row[0] for row in db.query("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return {name: rows(db, name) if name in there else None for name in ["o", *scenario.tables, *scenario.created]}


def rows_of_others(folder, scenario):
    """Returns the rows of each array as other programs see them; None for an array that does not exist."""
    seen = {}
    db = Database()
    for name in [*scenario.tables, *scenario.created]:
        path = os.path.join(folder, name)
        if db.query("SELECT 1 FROM tessera_objects(?) WHERE path = ?", (folder, slashes(path))):
            db.table(name, path)
            seen[name] = rows(db, name)
        else:
            seen[name] = None
    db.close()
    return seen


def unfinished_files(folder, scenario):
    """Returns the markers that the next transaction should have settled. Left out are markers that were not written to their end and those without
    a final name, which tessera_vacuum removes, and markers in a fragment that its .ok has committed, which no reader opens."""
    left = []
    for d, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(d, name)
            if name.endswith(".pending") and not os.path.exists(d + ".ok") and "/." not in "/" + slashes(os.path.relpath(path, folder))[:-8]:
                with open(path) as f:
                    left += [path] if f.read().endswith("\n") else []
    return left


def creation_times_stay(folder):
    """wine shows the time of a file's last change as that of its creation. Databases are told apart by that time, too, so there a database takes a
    commit that was not completed before its own last change for that of another one, and leaves its marker alone."""
    if os.name != "nt":
        return True
    path = os.path.join(folder, "created")
    created = []
    for text in ("one", "two"):
        time.sleep(0.02)
        with open(path, "a") as f:
            f.write(text)
        created.append(os.stat(path).st_birthtime_ns)
    os.remove(path)
    return created[0] == created[1]


def files(folder):
    return sorted(slashes(os.path.relpath(os.path.join(d, f), folder)) for d, ds, names in os.walk(folder) for f in names + ds if not f.startswith("t.db"))


def check_arrays(folder, scenario):
    db = Database()
    for name in [*scenario.tables, *scenario.created]:
        if os.path.isdir(os.path.join(folder, name, "__schema")) or os.path.exists(os.path.join(folder, name, "__array_schema.tdb")):
            found = db.query("SELECT severity, file, message FROM tessera_check(?) WHERE severity <> 'note'", (os.path.join(folder, name),))
            assert not found, f"tessera_check of {name}: {found[:3]}"
    db.close()


def check_after_fault(folder, scenario, before, after):
    """Examines the arrays and the table after the fault. Returns whether the transaction is there."""
    outside = rows_of_others(folder, scenario)
    db = Database(os.path.join(folder, "t.db"))
    seen = rows_through_database(db, scenario)
    assert seen in (before, after), f"neither before nor after, but {seen}"
    for name, got in outside.items():
        allowed = (before[name],) if seen == before else (before[name], after[name])
        assert got in allowed, f"others see of {name}: {got}, here it is {seen[name]}"
    assert db.query("PRAGMA integrity_check") == [("ok",)]
    check_arrays(folder, scenario)
    assert rows_through_database(db, scenario) == seen, "a second look sees something else"
    # The next transaction
    db.query("BEGIN")
    wanted = dict(seen)
    for name in [n for n in wanted if n != "o" and wanted[n] is not None]:
        db.query(f"INSERT INTO {name} VALUES({', '.join('?' * len(scenario.row))})", scenario.row)
    db.query("INSERT INTO o VALUES('next')")
    during = rows_through_database(db, scenario)
    db.query("COMMIT")
    last = rows_through_database(db, scenario)
    assert last == during, f"the next transaction saw {during}, left {last}"
    assert rows_of_others(folder, scenario) == {n: r for n, r in last.items() if n != "o"}, "others do not see what is here"
    for name in [n for n in wanted if n != "o" and wanted[n] is not None]:
        left = unfinished_files(os.path.join(folder, name), scenario)
        assert not left or (seen == before and not creation_times_stay(folder)), f"left: {left}"
    check_arrays(folder, scenario)
    db.close()
    return seen == after


def run_transaction(db, scenario):
    db.query("BEGIN")
    execute(db, scenario.then)
    db.query("COMMIT")


def in_child(function, *arguments):
    """Runs a function in a process of its own. Returns the exit status and the output."""
    if not hasattr(os, "fork"):
        return in_new_child(function, *arguments)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            text = function(*arguments) or ""
            status = 0
        except BaseException:
            text = traceback.format_exc()
        os.write(writer, text.encode())
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        text = f.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, text


def in_new_child(function, *arguments):
    """The same where processes do not fork: the new one runs this program again, which calls serve_parent()."""
    work = pickle.dumps((host.EXTENSION, host.CORPUS, function, arguments))
    done = subprocess.run([sys.executable, sys.argv[0], "--child"], input=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode()


def serve_parent():
    host.binding = "sqlite3"
    host.EXTENSION, host.CORPUS, function, arguments = pickle.load(sys.stdin.buffer)
    print(function(*arguments))
    return 0


def with_fault(folder, scenario, fault, at, before, after):
    """Runs the transaction with a fault, in the child. If the process lives on, the same connection examines the result."""
    db = Database(os.path.join(folder, "t.db"))
    rows_through_database(db, scenario)
    there = files(folder)
    inject.inject_arm(fault, ctypes.c_long(at))
    error = None
    try:
        run_transaction(db, scenario)
    except Error as e:
        error = e
        if db.raw.in_transaction:
            db.query("ROLLBACK")
    inject.inject_disarm()
    seen = rows_through_database(db, scenario)
    if error is None:
        assert seen == after, f"COMMIT succeeded, but here is {seen}"
    else:
        assert seen in (before, after), f"{error.text}: neither before nor after, but {seen}"
        assert error.text and error.text not in ("SQL logic error", "not an error"), f"no clear error: {error.text}"
        if fault == FULL and seen == before and not any(".pending" in f for f in files(folder)):
            assert files(folder) == there, f"{error.text}: left {sorted(set(files(folder)) - set(there))}, gone {sorted(set(there) - set(files(folder)))}"
    db.close()
    return f"{error.text if error else 'no error'}"


def run(name, scenario, mode, samples, rng):
    failed = cuts = 0
    with tempfile.TemporaryDirectory() as root:
        template = os.path.join(root, "template")
        os.mkdir(template)
        build(template, scenario, mode)
        work = os.path.join(root, "work")

        def fresh():
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(template, work)

        fresh()
        db = Database(os.path.join(work, "t.db"))
        before = rows_through_database(db, scenario)
        inject.inject_arm(NOTHING, ctypes.c_long(0))
        run_transaction(db, scenario)
        calls = inject.inject_disarm()
        after = rows_through_database(db, scenario)
        db.close()
        assert before != after and calls > 10, (calls, before, after)
        assert check_after_fault(work, scenario, before, after)
        points = [(fault, at) for fault in FAULTS for at in range(1, calls + 3)]
        if samples:
            points = sorted(rng.sample(points, min(samples, len(points))))
        there = 0
        for fault, at in points:
            fresh()
            status, text = in_child(with_fault, work, scenario, fault, at, before, after)
            try:
                assert status in (0, KILLED), f"exit status {status}: {text}"
                there += check_after_fault(work, scenario, before, after)
                cuts += 1
            except Exception as e:
                failed += 1
                print(f"FAILED {name}, journal_mode={mode}, {FAULTS[fault]} call {at} of {calls} ({text.strip().splitlines()[-1] if text.strip() else 'killed'})")
                print("  ", "".join(traceback.format_exception_only(type(e), e)).strip()[:1200])
        print(f"{name}, {mode}: {calls} calls, {cuts} faults, after {there} of them the transaction was there", flush=True)
    return failed


def start(samples):
    """Reads the arguments EXTENSION CORPUS [SAMPLES|all [SEED [WORD...]]]. Returns how many points are sampled (None: all), the random numbers, and
    whether a scenario is wanted, by its name; None if the library of inject.c is missing."""
    end_with_this_process()
    host.EXTENSION, host.CORPUS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    host.binding = "sqlite3"
    if not hasattr(inject, "inject_arm"):
        print("the library of inject.c is not there")
        return None
    inject.inject_disarm.restype = ctypes.c_long
    if len(sys.argv) > 3:
        samples = None if sys.argv[3] == "all" else int(sys.argv[3])
    words = sys.argv[5:]
    return samples, random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1), lambda name: not words or any(w in name for w in words)


def main():
    if sys.argv[1:] == ["--child"]:
        return serve_parent()
    started = start(6)
    if not started:
        return 1
    samples, rng, is_wanted = started
    failed = 0
    for mode in ("delete", "wal"):
        for name, scenario in SCENARIOS.items():
            if is_wanted(name):
                failed += run(name, scenario, mode, samples, rng)
    print(f"{failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
