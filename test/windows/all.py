"""Runs on Windows, as wine plays it, what can run there: the SQL scripts with their expected outputs, and tests of what differs.

usage: all.py ARRAYS [NAME ...]

ARRAYS: the corpus. Without names all tests run: the scripts of sql/ and test/sql/, the functions test_* of this file, and, if a Python for
Windows can be had (python.py), the programs of test/sqlite and test/fault that are listed here.
"""
import glob
import os
import re
import shutil
import sys
import tempfile
import time

import node
import python
import wine

sys.path.insert(0, f"{wine.ROOT}/test/sql")
import run as scripts # test/sql/run.py

DENSE = "CREATE VIRTUAL TABLE {0} USING tessera('{1}', kind=dense, y INT32 DIMENSION(0, 99, 10), v INT32);\nINSERT INTO {0} SELECT value, value * 3 FROM generate_series(0, 99);\n"
# Tests in Python that a Python for Windows runs, with their arguments.
PROGRAMS = {
    "test/fault/crash.py": ["3"], "test/fault/crash_upkeep.py": ["2"], # samples of each scenario
    **{f"test/sqlite/{name}.py": [] for name in ("codes", "copies", "create", "create_as", "database", "facts", "labels", "overviews", "spills", "transactions", "upkeep")},
}
faults = []


def expect(what, output, wanted):
    if output != wanted:
        faults.append(what)
        print(f"{what}\n  printed:  {output!r}\n  expected: {wanted!r}", flush=True)


def expect_error(what, output, *words):
    if not all(word in output for word in words):
        faults.append(what)
        print(f"{what}\n  printed: {output!r}\n  expected an error with: {words}", flush=True)


def script(files, arrays, path):
    """A script of sql/ or test/sql/ prints what it prints elsewhere."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with wine.Room(*files, arrays) as room:
        output = room.run(text, "t.db", load=False)
        output = output.replace(wine.windows_path(room.path), ".").replace(room.path, ".").replace("tessera.dll", "tessera.so") # which `ls` shows
    output = re.sub(r"^(?:Runtime error|Parse error|Error:)(?:,? near line|:? near line)? (\d+): (.*?)(?: \(\d+\))?$", r"Error in line \1: \2", output, flags=re.M)
    if not scripts.same(os.path.relpath(path, wine.ROOT), output, os.path.splitext(path)[0] + ".expected"):
        faults.append(os.path.relpath(path, wine.ROOT))


# ---- Paths -------------------------------------------------------------------------------------------------------------------------------------

def test_forms_of_paths(files, arrays):
    """One array by every form of its path: both separators, drives, URIs, other case, '..', the prefix \\\\?\\."""
    with wine.Room(*files) as room:
        whole = wine.windows_path(room.path)
        forms = ["data/a b/ü", r"data\a b\ü", "./data//a b/./ü/", f"{whole}/data/a b/ü", (whole + "/data/a b/ü").replace("/", "\\"),
                 f"file:///{whole}/data/a%20b/%C3%BC", "DATA/A B/Ü", "data/x/../a b/ü", "\\\\?\\" + (whole + "/data/a b/ü").replace("/", "\\"), "data/a b/ü. "]
        room.run(DENSE.format("a", "data/a b/ü"), "t.db")
        for form in forms:
            expect(f"path {form}", room.run(f"SELECT sum, count FROM tessera_aggregate('{form}', 'v');"), "14850|100\n")


def test_long_paths(files, arrays):
    with wine.Room(*files) as room:
        path = "/".join(["x" * 80] * 5)
        expect("long path", room.run(DENSE.format("a", path) + "SELECT count(*) FROM a;\nSELECT tessera_consolidate('db:a') >= 0;\n"), "100\n1\n")


def test_names_that_windows_keeps(files, arrays):
    """Devices and streams are no arrays, to read and to make."""
    with wine.Room(*files) as room:
        room.run(DENSE.format("a", "real"), "t.db")
        for name in ("CON", "nul", "COM1", "lpt9.txt", "aux ", "real/NUL", "C:/CON", "real:stream", "real::$INDEX_ALLOCATION", "\\\\.\\C:", "\\\\?\\GLOBALROOT\\Device", "//./pipe/x"):
            expect_error(f"name {name}", room.run(f"SELECT count(*) FROM tessera_fragments('{name}');"), "rror")
            expect_error(f"make {name}", room.run(DENSE.format("b", name)), "rror")
        expect("the array is whole", room.run("SELECT count(*) FROM a; SELECT count(*) FROM tessera_check('real') WHERE severity = 'error';", "t.db"), "100\n0\n")


# ---- tessera_restrict, keys --------------------------------------------------------------------------------------------------------------------

def test_restrict(files, arrays):
    with wine.Room(*files) as room:
        whole = wine.windows_path(room.path)
        os.makedirs(f"{room.path}/in/deep"), os.makedirs(f"{room.path}/inside")
        for name in ("in/a", "out", "inside/a"):
            room.run(DENSE.format("a", name))
        os.symlink(f"{room.path}/out", f"{room.path}/in/link")
        room.run(DENSE.format("a", "in/linked"))
        os.rename(f"{room.path}/in/linked/__fragments", f"{room.path}/moved")
        os.symlink(f"{room.path}/moved", f"{room.path}/in/linked/__fragments")
        count = "SELECT count(*) FROM tessera_fragments('{}');\n"
        good = ["in/a", "IN/A", r"in\a", f"{whole}/in/a", f"{whole}/IN/a".lower().replace("z:", "Z:"), f"file:///{whole}/in/a", "inside/../in/a", "in/a.", "in/deep/../a"]
        bad = ["out", "inside/a", "IN/../out", r"in\..\out", f"{whole}/out", "in/link", "//server/share/x", r"\\server\share\x", r"\\?\UNC\server\share\x", "C:/", "/", "in/a/../../out",
               "in/../inside/a", "INSIDE/a", "in /../out", "in/a:b", "in/a::$DATA", "in/CON", f"file:///{whole}/out", "\\\\?\\" + whole.replace("/", "\\") + "\\out", r"\\.\Z:\etc"]
        for bound in ("in", "IN", "in\\", f"{whole}/in"):
            some_good, some_bad = (good, bad) if bound == "in" else (good[:1], bad[:2])
            output = room.run(f"SELECT tessera_restrict('{bound}');\n" + "".join(count.format(path) for path in some_good)).split("\n")
            expect(f"bound {bound}, inside", output, [""] + ["1"] * len(some_good) + [""])
            output = room.run(f"SELECT tessera_restrict('{bound}');\n" + "".join(count.format(path) for path in some_bad)).strip().split("\n")
            for path, line in zip(some_bad, output):
                expect_error(f"bound {bound}, {path}", line, "rror")
            expect(f"bound {bound}, outside", len(output), len(some_bad))
        start = "SELECT tessera_restrict('in');\n"
        for path in ("out", "in/link"):
            expect_error(f"write {path}", room.run(start + f"CREATE VIRTUAL TABLE o USING tessera('{path}'); INSERT INTO o VALUES(1, 1);"), "rror")
        expect_error("a directory of the array is a link", room.run(start + "SELECT sum FROM tessera_aggregate('in/linked', 'v');"), "link")
        expect("without a bound links are followed", room.run("SELECT sum FROM tessera_aggregate('in/linked', 'v');"), "14850\n")
        expect_error("a wider bound", room.run(start + "SELECT tessera_restrict('.');"), "rror")
        expect_error("a bound on another server", room.run(start + "SELECT tessera_restrict('//server/share');"), "is not below")
        expect("writes inside", room.run(start + DENSE.format("n", "in/new/er") + "SELECT count(*) FROM n;"), "\n100\n")
        expect("open before", room.run("CREATE VIRTUAL TABLE o USING tessera('out'); SELECT count(*) FROM o;\n" + start).count("100"), 1)


def test_keys(files, arrays):
    """Keys are found by every spelling of a path."""
    with wine.Room(*files) as room:
        key = "00" * 32
        text = f"SELECT tessera_set_key('Secret', '{key}');\n" + DENSE.format("a", "secret").replace("kind=dense", "kind=dense, encryption=aes_256_gcm")
        expect("key before the array", room.run(text + "SELECT count(*) FROM a;"), "\n100\n")
        for path in ("secret", "SECRET", ".\\Secret", wine.windows_path(room.path) + "/sEcret"):
            expect(f"key by {path}", room.run(f"SELECT tessera_set_key('{path}', '{key}');\nSELECT sum FROM tessera_aggregate('secret', 'v');"), "\n14850\n")


# ---- Files that are open, and processes that end -----------------------------------------------------------------------------------------------

def test_vacuum_under_open_handles(files, arrays):
    """Another process reads what a vacuum removes; the names are gone at once, and the array can be dropped."""
    with wine.Room(*files) as room:
        room.run(DENSE.format("a", "a") + "INSERT INTO a VALUES(1, 7);INSERT INTO a VALUES(2, 7);\n", "t.db")
        reader = room.start("t.db")
        reader.stdin.write(b".load ./tessera\nSELECT sum(v) FROM a;\n")
        reader.stdin.flush()
        line = reader.stdout.readline().strip()
        expect("read", line, b"14855")
        expect("consolidate and vacuum", room.run("SELECT tessera_consolidate('a') > 0; SELECT tessera_vacuum('a') > 0; SELECT count(*) FROM tessera_fragments('a'); SELECT sum(v) FROM a;", "t.db"),
               "1\n1\n1\n14855\n")
        reader.stdin.write(b"SELECT sum(v) FROM a;\n")
        reader.stdin.flush()
        expect("read again", reader.stdout.readline().strip(), b"14855")
        expect("one fragment is left", len(os.listdir(f"{room.path}/a/__fragments")), 1)
        reader.communicate(b"")
        room.run("DROP TABLE a; SELECT tessera_drop('a');", "t.db") # wine removes a directory only when nobody has its files open
        expect("nothing is left", os.path.exists(f"{room.path}/a"), False)


def test_drop_under_open_handles(files, arrays):
    """Another process reads an array while it is dropped. The drop says so; the array is gone for everyone, and its directory can be removed when
    the reader ends. By POSIX's rules of deletion, which wine lacks, the directory would go at once."""
    with wine.Room(*files) as room:
        room.run(DENSE.format("a", "a"), "t.db")
        reader = room.start()
        reader.stdin.write(b".load ./tessera\nCREATE VIRTUAL TABLE a USING tessera('a');\nSELECT sum(v) FROM a;\n")
        reader.stdin.flush()
        expect("read", reader.stdout.readline().strip(), b"14850")
        output = room.run("SELECT tessera_drop('a');")
        if output != "\n":
            expect_error("drop", output, "some are open in this or another program")
        expect_error("the array", room.run("SELECT count(*) FROM tessera_array('a');"), "not found")
        reader.communicate(b"")
        if os.path.exists(f"{room.path}/a"):
            os.rmdir(f"{room.path}/a") # fails if anything is left
        expect("the path is free", room.run(DENSE.format("b", "a") + "SELECT sum(v) FROM b;"), "14850\n")


def test_two_writers(files, arrays):
    """Two processes insert at one time; all rows are there. Each then consolidates, and one may find that the other has done it."""
    with wine.Room(*files) as room:
        room.run("CREATE VIRTUAL TABLE s USING tessera('s', x INT64 DIMENSION, w INT32);", "t.db")
        writers = []
        for w in range(2):
            database = f"w{w}.db"
            text = ".load ./tessera\nCREATE VIRTUAL TABLE s USING tessera('s');\n" + "".join(f"INSERT INTO s VALUES({w * 1000 + i}, {w});\n" for i in range(20)) + "SELECT tessera_consolidate('s') >= 0;\n"
            writers.append(room.start(database))
            writers[-1].stdin.write(text.encode())
            writers[-1].stdin.flush()
        printed = sorted(w.communicate()[0].replace(b"\r", b"") for w in writers)
        expect("a writer", printed[0], b"1\n")
        if printed[1] != b"1\n":
            expect_error("the other writer", printed[1].decode(), "was merged or vacuumed by another process meanwhile")
        expect("all rows", room.run("SELECT count(*), sum(w) FROM s; SELECT count(*) FROM tessera_check('s') WHERE severity = 'error';", "t.db"), "40|20\n0\n")


def test_rollback_and_killed_writers(files, arrays):
    """A transaction is rolled back; processes are killed within transactions, at many moments: every row or none, and the array is sound."""
    with wine.Room(*files) as room:
        room.run("CREATE TABLE plain(x); CREATE VIRTUAL TABLE s USING tessera('s', x INT64 DIMENSION, w INT32);", "t.db")
        expect("rollback", room.run("BEGIN; INSERT INTO s VALUES(1, 1); ROLLBACK; SELECT count(*) FROM s;", "t.db"), "0\n")
        for i in range(12):
            process = room.start("t.db")
            process.stdin.write((".load ./tessera\n.timeout 10000\nSELECT 'ready';\n" + "".join(
                f"BEGIN; INSERT INTO plain VALUES({i * 100 + k}); INSERT INTO s VALUES({i * 100 + k}, {i}); COMMIT;\n" for k in range(50))).encode())
            process.stdin.flush()
            process.stdout.readline()
            time.sleep(0.02 * i)
            process.kill()
            process.wait()
            state = room.run("SELECT (SELECT count(*) FROM s) = (SELECT count(*) FROM plain), (SELECT count(*) FROM (SELECT x FROM plain EXCEPT SELECT x FROM s)); "
                             "SELECT count(*) FROM tessera_check('s') WHERE severity = 'error';", "t.db")
            expect(f"killed after {0.02 * i:.2f} s", state, "1|0\n0\n")


# ---- A Python for Windows ----------------------------------------------------------------------------------------------------------------------

def test_wheel(files, arrays):
    """pip of a Python for Windows installs the wheel, and its module answers as the other hosts do."""
    with tempfile.TemporaryDirectory(dir=wine.PLACE) as folder:
        wheel = wine.wheel(files[0], folder)
        code, printed = python.run(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", "--target", "installed", os.path.basename(wheel)], folder)
        expect("pip", (code, printed), (0, ""))
        code, printed = python.run([wine.windows_path(f"{wine.ROOT}/ext/package/try_installed.py"), wine.windows_path(f"{wine.ROOT}/sql/data")], folder,
                                   PYTHONPATH=wine.windows_path(f"{folder}/installed"))
        expect_error("the module", printed, "host_sqlite3.py with Z:", "as docs/hosts/expected says")
        expect("the module", code, 0)


def test_npm(files, arrays):
    """The npm package, with the prebuild for Windows, in a Node for Windows and its own SQLite."""
    with tempfile.TemporaryDirectory(dir=wine.PLACE) as folder:
        wine.npm(files[0], folder)
        shutil.copy(f"{wine.ROOT}/test/windows/host.js", folder) # node looks for packages beside a program
        code, printed = node.run(["--no-warnings", "host.js", wine.windows_path(f"{wine.ROOT}/sql/data").replace("\\", "/")], folder)
        with open(f"{wine.ROOT}/docs/hosts/expected", encoding="utf-8") as f:
            wanted = f.read() + "25,36,100,121\n"
        expect("the package", printed, wanted)
        expect("the package", code, 0)


def program(files, arrays, path, arguments):
    """A test in Python passes on Windows, too."""
    with wine.Room(*files) as room:
        code, printed = python.run([wine.windows_path(f"{wine.ROOT}/{path}"), wine.windows_path(f"{room.path}/tessera.dll"), wine.windows_path(arrays), *arguments], room.path,
                                   INJECT=wine.windows_path(wine.inject()), TEMP=wine.windows_path(room.path), TMP=wine.windows_path(room.path), MANY="20") # fragments, of test/sqlite/upkeep.py
        if code or not re.search(r"^0 failed$", printed, re.M):
            faults.append(path)
            print(f"{path} ended with {code}\n{printed}")


def main():
    arrays, names = sys.argv[1], sys.argv[2:]
    wine.wine()
    files = wine.build()
    if not python.bring():
        print("mvn, which brings a Python for Windows, is not installed: what it would run is skipped")
    tests = {os.path.relpath(p, wine.ROOT): (lambda f, a, p=p: script(f, a, p)) for p in sorted(glob.glob(f"{wine.ROOT}/sql/*.sql") + glob.glob(f"{wine.ROOT}/test/sql/*.sql"))
             if os.path.exists(p[:-4] + ".expected")}
    tests.update({n: f for n, f in globals().items() if n.startswith("test_") and (n != "test_wheel" or python.is_there())})
    tests.update({p: (lambda f, a, p=p, w=w: program(f, a, p, w)) for p, w in PROGRAMS.items() if python.is_there()})
    ran = 0
    for name, test in tests.items():
        if not names or any(n in name for n in names):
            before = len(faults)
            test(files, arrays)
            ran += 1
            print(f"{name}: {'FAILED' if len(faults) > before else 'good'}", flush=True)
    print(f"{ran} tests, {len(faults)} faults: {', '.join(faults)}" if faults else f"{ran} tests, no fault")
    return 1 if faults or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
