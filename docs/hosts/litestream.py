"""Litestream backs up a database with an array inside while it is written. usage: litestream.py EXTENSION LITESTREAM

The array's files are rows of shadow tables, so that it is replicated as pages, like every other table. The copy that is restored
must pass tessera_check and hold what the source holds.
"""
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

COMMITS, ROWS = 20, 100
QUESTION = "SELECT count(*), sum(value), max(number) FROM measured"


def connect(extension, path):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    db.enable_load_extension(False)
    return db


def write(extension, path):
    db = connect(extension, path)
    db.execute("PRAGMA busy_timeout = 30000")
    for commit in range(COMMITS):
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO measured VALUES(?, ?)", [(commit * ROWS + i, i / 4) for i in range(ROWS)])
        db.execute("INSERT INTO log VALUES(?)", (f"commit {commit}",))
        db.execute("COMMIT")
        time.sleep(0.1) # so that some are written while others are on their way
    db.close()


def replicated(litestream, url, wanted, extension, folder):
    """Restores until the copy holds the source's last commit: the replica follows within a second or so."""
    end = time.monotonic() + 60
    for attempt in range(1000):
        copy = os.path.join(folder, f"copy{attempt}.db")
        result = subprocess.run([litestream, "restore", "-o", copy, url], capture_output=True, text=True)
        if result.returncode == 0:
            db = connect(extension, copy)
            got = db.execute(QUESTION).fetchone() + db.execute("SELECT count(*) FROM log").fetchone()
            if got == wanted:
                return db
            db.close()
        if time.monotonic() > end:
            sys.exit(f"the copy has not become equal to the source: {result.stderr or got}")
        time.sleep(0.5)


def main():
    extension, litestream = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        source, url = os.path.join(folder, "source.db"), f"file://{folder}/replica"
        db = connect(extension, source)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE log(what TEXT)")
        db.execute("CREATE VIRTUAL TABLE measured USING tessera(number INT32 DIMENSION(0, 999999, 1000), value FLOAT64)") # no path: inside
        with open(os.path.join(folder, "litestream.log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([litestream, "replicate", source, url], stdout=log, stderr=log)
        try:
            write(extension, source)
            wanted = db.execute(QUESTION).fetchone() + db.execute("SELECT count(*) FROM log").fetchone()
            copy = replicated(litestream, url, wanted, extension, folder)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        faults = copy.execute("SELECT severity, file, message FROM tessera_check('db:measured') WHERE severity <> 'note'").fetchall()
        assert not faults, faults
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert copy.execute("SELECT * FROM measured ORDER BY number").fetchall() == db.execute("SELECT * FROM measured ORDER BY number").fetchall()
        print(f"replicated while it was written: {wanted[0]} rows in {wanted[3]} commits; the copy is equal, and the check finds nothing")


if __name__ == "__main__":
    main()
