"""Runs each case of a test against the reference library in a process of its own, with a directory of its own.

libtiledb sometimes corrupts its own heap and dies on sound arrays. A process that dies of a signal or hangs says
nothing about the array, so the case is tried again from its beginning; the number of retries is printed at the end. A
case is wrong if it raises an exception: if libtiledb's answer differs from the expected one, or if tessera fails, which
runs in processes of its own (the sqlite3 shell, tessera_c.Remote). A case that dies in every try has no result; the
test fails if more than one case in ten has none.

usage: cases.py      tries itself: deaths are tried again and counted, wrong answers are not
"""
import collections
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process

TRIES = 5
SECONDS = 300  # after which a case counts as hanging
UNDECIDED_MOST = 0.1
TILEDB_MEMORY = {"sm.mem.total_budget": "200000000"}  # of 10 GB, its default, TileDB clears more than a gigabyte in each consolidation, which takes a second


def answer(connection, function, folder, arguments):
    try:
        said = "value", function(folder, *arguments)
    except BaseException as error:  # after any error the next case is run
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = "wrong", f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
    sys.stdout.flush()
    connection.send(said)
    connection.close()
    os._exit(0)  # skips the library's destructors, which may crash


def attempt(function, arguments):
    """Returns the result of a case: ("value" or "wrong", ...), or ("died", how)."""
    sys.stdout.flush()
    context = multiprocessing.get_context("fork")  # the parent never calls the library, so it has no threads
    ours, theirs = context.Pipe(duplex=False)
    folder = tempfile.mkdtemp()
    process = context.Process(target=answer, args=(theirs, function, folder, arguments))
    try:
        process.start()
        theirs.close()
        try:
            if ours.poll(SECONDS):
                return ours.recv()
        except EOFError:  # it ended without a result
            process.join()
            code = process.exitcode
            return "died", signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return "died", f"did not come back in {SECONDS} s"
    finally:
        if process.is_alive() and process.exitcode is None:
            process.kill()
        process.join()
        ours.close()
        shutil.rmtree(folder, ignore_errors=True)


class Cases:
    def __init__(self, what, after_death=None):
        """`after_death` is called before a case is tried again, because a process that it shared with others may be in the middle of a request."""
        end_with_this_process()
        self.what, self.after_death, self.count, self.wrong = what, after_death, 0, []
        self.deaths, self.undecided, self.tally = [], [], collections.Counter()

    def run(self, name, function, *arguments):
        """Calls function(folder, *arguments) in a process. What it returns, which must be a dict of numbers or None, is added to the tally; what it raises
        is printed, and counts as wrong."""
        self.count += 1
        for _ in range(TRIES):
            kind, said = attempt(function, arguments)
            if kind != "died":
                break
            self.deaths.append(f"{name}: {said}")
            if self.after_death:
                self.after_death()
        if kind == "died":
            self.undecided.append(name)
        elif kind == "wrong":
            self.wrong.append(name)
            print(f"FAIL {name}: {said[:2000]}", flush=True)
        else:
            self.tally.update(said or {})

    def end(self, tally=""):
        """Prints the result. Returns the exit code."""
        print(f"{self.what}: {self.count} cases{tally and ', '}{tally}; {len(self.wrong)} wrong")
        if self.deaths:
            counted = collections.Counter(self.deaths)
            print(f"the reference library died {len(self.deaths)} times, and was asked again: " + "; ".join(f"{text} ({n} times)" for text, n in counted.items()))
        if self.undecided:
            print(f"without an answer in {TRIES} tries: {', '.join(self.undecided)}")
        return 1 if self.wrong or not self.count or len(self.undecided) > UNDECIDED_MOST * self.count else 0


# ---- Self-test

def die_until(folder, path, times):
    """A case that dies so many times, each time after it has written a file. Each try must get a new folder."""
    assert os.listdir(folder) == []
    open(os.path.join(folder, "begun"), "w").close()
    with open(path, "a+") as f:
        f.write(".")
        f.seek(0)
        if len(f.read()) <= times:
            f.flush()
            os.kill(os.getpid(), signal.SIGSEGV if times == 1 else signal.SIGABRT)
    return {"done": 1}


def fail(folder):
    raise ValueError("another answer")


def leave(folder):
    os._exit(3)


def main():
    with tempfile.TemporaryDirectory() as work:
        again = []
        cases = Cases("itself", lambda: again.append(1))
        for times in (0, 1, 3):
            cases.run(f"dies {times} times", die_until, os.path.join(work, str(times)), times)
        assert cases.tally == {"done": 3} and len(again) == len(cases.deaths) == 4 and cases.end("") == 0
        assert cases.deaths[0] == "dies 1 times: SIGSEGV"
        cases.run("leaves", leave)
        assert cases.undecided == ["leaves"] and cases.deaths[-1] == "leaves: exit code 3" and cases.end() == 1
        for i in range(7):
            cases.run(f"good {i}", die_until, os.path.join(work, f"good{i}"), 0)
        assert cases.end() == 0  # one in eleven
        cases.run("wrong", fail)
        assert cases.wrong == ["wrong"] and cases.end("") == 1
    assert Cases("nothing").end() == 1


if __name__ == "__main__":
    main()
