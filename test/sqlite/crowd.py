"""Many processes and threads write, read, consolidate and vacuum one array for some seconds, and each checks that what
it reads is possible.

Writer w commits its rows number 0, 1, 2, ... in groups: (w, n, group, checksum). A reader must see of each writer a
prefix of its rows without a gap, complete groups only, right checksums, never fewer rows than before, and in the end
all of them. The ordinary table `log` gets the same rows in the same transactions; if the array is in the database, each
statement sees equally many rows in both.

usage: crowd.py EXTENSION CORPUS [SECONDS | WORDS IN TESTS' NAMES]
"""
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
import traceback

import host
from host import Database, Error, check_contains, same

SECONDS = 2.5
WRITERS = 3
GROUP = 5   # rows of a commit, at most
BUSY = ("locked", "busy", "was vacuumed during this statement", "vacuumed during this transaction", "another connection", "changed meanwhile")


def check_of(writer, number):
    return (writer * 2654435761 + number * 40503) % 1000003


class Reader:
    """The rows that one connection has seen of each writer, which must not become fewer."""

    def __init__(self, db):
        self.db, self.seen = db, [0] * WRITERS

    def check_snapshot(self, chance):
        columns = "w, n, g, c"
        order = chance.choice(("", " ORDER BY w, n", " ORDER BY n DESC, w"))
        rows = self.db.query(f"SELECT {columns} FROM t{order}")
        by_writer = [[] for _ in range(WRITERS)]
        for w, n, g, c in rows:
            same(c, check_of(w, n), f"row {n} of writer {w}")
            by_writer[w].append((n, g))
        for w, found in enumerate(by_writer):
            found.sort()
            same([n for n, _ in found], list(range(len(found))), f"rows of writer {w} without a gap")
            if found:
                last = found[-1][1]
                size = 1 + (w * 31 + last * 7) % GROUP
                same(sum(g == last for _, g in found), size, f"group {last} of writer {w} is whole")
            assert len(found) >= self.seen[w], f"writer {w} had {self.seen[w]} rows, now {len(found)}"
            self.seen[w] = len(found)


def retried(function):
    """Runs a statement, and tries it again if another's lock or vacuum has stopped it. Returns None if it gives up."""
    for _ in range(2000):
        try:
            return function() or True
        except Error as e:
            if not any(word in (e.text or "") for word in BUSY):
                raise
            time.sleep(0.002)
    return None


def write(db, w, chance, until):
    number = group = 0
    while time.time() < until:
        size = 1 + (w * 31 + group * 7) % GROUP
        rows = [(w, number + i, group, check_of(w, number + i)) for i in range(size)]

        def commit():
            db.query("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    db.query("INSERT INTO t VALUES(?, ?, ?, ?)", row)
                    db.query("INSERT INTO log VALUES(?, ?, ?, ?)", row)
                if chance.random() < 0.2:
                    same(db.value("SELECT count(*) FROM t WHERE w = ?", (w,)), number + size, "the writer's own rows")
                db.query("COMMIT")
            except Error:
                try:
                    db.query("ROLLBACK")
                except Error:
                    pass
                raise
        if not retried(commit):
            continue
        number, group = number + size, group + 1
        time.sleep(chance.random() * 0.01)
    return number


def read_outside(db, w, chance, until):
    reader, count = Reader(db), 0
    while time.time() < until:
        count += retried(lambda: reader.check_snapshot(chance)) or 0
    return count


def read_inside(db, w, chance, until):
    reader, count = Reader(db), 0
    while time.time() < until:
        count += retried(lambda: reader.check_snapshot(chance)) or 0
        both = []
        if retried(lambda: both.extend(db.query("SELECT (SELECT count(*) FROM log), (SELECT count(*) FROM t)")[0])):
            same(both[0], both[1], "rows of the log and of the array, in one statement")
    return count


def maintain(path):
    def work(db, w, chance, until):
        count = 0
        while time.time() < until:
            time.sleep(0.2 * chance.random())
            what = chance.choice(("tessera_consolidate(?)", "tessera_consolidate(?, 'commits')", "tessera_consolidate(?, 'fragment_meta')", "tessera_vacuum(?)"))
            count += retried(lambda: db.query(f"SELECT {what}", (path,))) is not None
        return count
    return work


def open_crowd(folder):
    db = Database(os.path.join(folder, "a.db"))
    db.query("PRAGMA busy_timeout = 20000")
    return db


def run_one(folder, role, w, seed, until, results):
    try:
        db = open_crowd(folder)
        result = role(db, w, random.Random(seed), until)
        db.close()
        results.append((role.__name__, w, result))
    except BaseException:
        results.append(("failed", w, traceback.format_exc()))


def in_process(folder, jobs, until, queue):
    """Runs each job in a thread of this process, with a connection of its own."""
    results = []
    threads = [threading.Thread(target=run_one, args=(folder, role, w, seed, until, results)) for role, w, seed in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put(results)


def crowd(inside, mode, processes):
    """`processes`: lists of jobs, each list a process, each job a thread of it."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db = open_crowd(folder)
    db.query(f"PRAGMA journal_mode = {mode}")
    db.query("PRAGMA synchronous = OFF")
    columns = "w INT32 DIMENSION(0, 99, 10), n INT64 DIMENSION(0, 999999999, 1000), g INT64, c INT64, capacity=100"
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({'' if inside else repr('array') + ', '}{columns})")
    db.query("CREATE TABLE log(w, n, g, c)")
    db.query("SELECT count(*) FROM t")   # the extension is loaded and its worker threads exist before the process forks
    until, queue = time.time() + SECONDS, multiprocessing.get_context("fork").Queue()
    children = [multiprocessing.get_context("fork").Process(target=in_process, args=(folder, jobs, until, queue)) for jobs in processes]
    for process in children:
        process.start()
    results = [result for _ in children for result in queue.get(timeout=SECONDS * 10 + 300)]
    for process in children:
        process.join()
        same(process.exitcode, 0, "a process of the crowd")
    for name, w, result in results:
        assert name != "failed", f"{w}: {result}"
    written = {w: result for name, w, result in results if name == "write"}
    reader = Reader(db)
    reader.check_snapshot(random.Random(1))
    same([reader.seen[w] for w in sorted(written)], [written[w] for w in sorted(written)], "all that was written")
    same(db.query("SELECT * FROM t ORDER BY w, n"), db.query("SELECT * FROM log ORDER BY w, n"), "the array and the log")
    path = "db:t" if inside else os.path.join(folder, "array")
    same(db.query("SELECT * FROM tessera_check(?) WHERE severity = 'error'", (path,)), [])
    db.close()
    total = {}
    for name, _, result in results:
        total[name] = total.get(name, 0) + result
    print(f"  {'inside' if inside else 'outside'}, {mode}: {len(processes)} processes, {len(results)} threads: {total}", flush=True)


def jobs_of(inside):
    keep, read = maintain("db:t"), read_inside if inside else read_outside
    writers = [(write, w, 10 + w) for w in range(WRITERS)]
    return writers, [(read, 0, 20), (read, 1, 21)], [(keep, 0, 30)]


def test_processes_see_complete_commits():
    for inside in (False, True):
        for mode in ("WAL", "DELETE"):
            writers, readers, keepers = jobs_of(inside)
            crowd(inside, mode, [[job] for job in writers + readers + keepers])


def test_threads_see_complete_commits():
    for inside in (False, True):
        writers, readers, keepers = jobs_of(inside)
        crowd(inside, "WAL", [writers[:2] + readers[:1], writers[2:] + readers[1:] + keepers])


def extend(folder, w, outside, queue):
    """Adds labels of this process, one after the other, and writes and reads each at once."""
    try:
        db = Database(os.path.join(folder, f"{w}.db" if outside else "a.db"))
        db.query("PRAGMA busy_timeout = 20000")
        if outside:
            db.table("t", os.path.join(folder, "array"))
        for i in range(10):
            label = f"{w}.{i}"
            assert retried(lambda: db.query("SELECT tessera_extend_enumeration('db:t', 'e', ?)", (label,)))
            assert retried(lambda: db.query("INSERT INTO t VALUES(?, ?, ?)", (100 * w + i, label, label)))
            same(db.query("SELECT e FROM t WHERE x = ?", (100 * w + i,)), [(label,)])
        db.close()
        queue.put("")
    except BaseException:
        queue.put(traceback.format_exc())


def test_processes_extend_one_enumeration():
    """Several processes extend one enumeration at once, through databases of their own and through a common one."""
    for outside in (True, False):
        folder = tempfile.mkdtemp(dir=host.FOLDER)
        db = Database(os.path.join(folder, "a.db"))
        where = repr(os.path.join(folder, "array")) + ", " if outside else ""
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({where}x INT32 DIMENSION(0, 9999, 100), e TEXT ENUM('first'), s TEXT)")
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        children = [context.Process(target=extend, args=(folder, w, outside, queue)) for w in range(WRITERS)]
        for process in children:
            process.start()
        same("".join(queue.get(timeout=300) for _ in children), "")
        for process in children:
            process.join()
        labels = [label for label, in db.query("SELECT label FROM tessera_enumeration('db:t', 'e')")]
        same(sorted(labels), sorted(["first"] + [f"{w}.{i}" for w in range(WRITERS) for i in range(10)]))
        same(db.query("SELECT count(*), sum(e = s) FROM t"), [(10 * WRITERS, 10 * WRITERS)])
        same(db.query("SELECT * FROM tessera_check('db:t')"), [])
        db.close()


def test_one_connection_in_many_threads():
    """In serialized mode SQLite allows calls from any thread; each statement is complete."""
    db = Database()
    db.query("CREATE VIRTUAL TABLE t USING tessera(w INT32 DIMENSION(0, 99, 10), n INT64 DIMENSION(0, 999999999, 1000), g INT64, c INT64, capacity=100, threads=4)")
    failures, until = [], time.time() + SECONDS

    def work(w):
        try:
            number = 0
            while time.time() < until:
                db.query("INSERT INTO t VALUES(?, ?, 0, ?), (?, ?, 0, ?)", (w, number, check_of(w, number), w, number + 1, check_of(w, number + 1)))
                number += 2
                rows = db.query("SELECT n, c FROM t WHERE w = ? ORDER BY n", (w,))
                same(rows, [(n, check_of(w, n)) for n in range(number)])
                if number % 40 == 0:
                    db.query("SELECT tessera_consolidate('db:t')")
        except BaseException as e:
            failures.append(e)
    threads = [threading.Thread(target=work, args=(w,)) for w in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    same(db.query("SELECT * FROM tessera_check('db:t') WHERE severity = 'error'"), [])
    db.close()


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[3].replace(".", "").isdigit():
        SECONDS = float(sys.argv.pop(3))
    host.main(sys.modules[__name__])
