"""What programs do that have not loaded tessera: each row of the table in docs/other-tools.md is tried, on a file with tessera tables in main, and on one
whose tables are hidden or attached in temp.

usage: tools.py SHELL EXTENSION DOCUMENT
A program that is not installed is left out, and the output says so.
"""
import contextlib
import glob
import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

SHELL, EXTENSION, DOCUMENT = (os.path.abspath(path) if os.path.exists(path) else path for path in sys.argv[1:4])
ROWS = [(1, 10, "a"), (2, 20, "b")]


class Missing(Exception):
    """The program is not installed."""


def connect(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(EXTENSION)
    return db


def make(path, hidden):
    """A file with an array inside, a table over a directory, a query, and an ordinary table."""
    with contextlib.closing(connect(path)) as db:
        directory, schema = os.path.join(os.path.dirname(path), "array-" + os.path.basename(path)), "temp" if hidden else "main"
        db.execute("CREATE TABLE ordinary(id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("INSERT INTO ordinary VALUES(1, 'one')")
        db.execute("CREATE VIRTUAL TABLE inside USING tessera(x INT32 DIMENSION(0, 99, 10), v INT32, e TEXT ENUM('a', 'b'))")
        db.executemany("INSERT INTO inside VALUES(?, ?, ?)", ROWS)
        db.execute(f"CREATE VIRTUAL TABLE {schema}.outside USING tessera('{directory}', x INT32 DIMENSION(0, 99, 10), v INT32)")
        db.execute("CREATE VIRTUAL TABLE counts USING tessera_query(SELECT e, count(*) AS n FROM inside GROUP BY e)")
        if hidden:
            for name in ("counts", "inside"):
                assert db.execute(f"SELECT tessera_hide('db:{name}')").fetchone() == (1,)


def plain():
    """The environment variables without the sanitizer's library."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def shell(path, *commands):
    """Runs commands of the sqlite3 shell, without tessera. Returns what it prints; fails if it reports an error."""
    result = subprocess.run([SHELL, "-batch", "-bail", "-init", os.devnull, path], input="\n".join(commands).encode(), capture_output=True, env=plain())
    assert result.returncode == 0 and not result.stderr, result.stderr.decode()
    return result.stdout.decode()


def check_copy(path):
    """The copy has all rows, for those who load tessera."""
    with contextlib.closing(connect(path)) as db:
        db.execute("SELECT tessera_attach()")
        assert db.execute("SELECT * FROM inside ORDER BY x").fetchall() == ROWS
        assert db.execute("SELECT * FROM ordinary").fetchall() == [(1, "one")]


def tables_and_schema(path, copy):
    assert "ordinary" in shell(path, ".tables") and "CREATE TABLE ordinary" in shell(path, ".schema")


def dump(path, copy):
    shell(copy, shell(path, ".dump"))
    check_copy(copy)


def backup(path, copy):
    shell(path, f".backup '{copy}'", f"VACUUM INTO '{copy}2'")
    check_copy(copy)
    check_copy(copy + "2")


def integrity(path, copy):
    assert shell(path, "PRAGMA integrity_check;").strip() == "ok"


def clone(path, copy):
    shell(path, f".clone '{copy}'")
    check_copy(copy)


def iterdump(path, copy):
    with contextlib.closing(sqlite3.connect(path)) as db, contextlib.closing(sqlite3.connect(copy)) as to:
        to.executescript("\n".join(db.iterdump()))
    check_copy(copy)


def needs(module):
    if not importlib.util.find_spec(module):
        raise Missing(f"the package {module} is not installed")


def reflect(path, copy):
    needs("sqlalchemy")
    import sqlalchemy
    engine = sqlalchemy.create_engine("sqlite:///" + path)
    try:
        metadata = sqlalchemy.MetaData()
        metadata.reflect(engine)
        assert "ordinary" in metadata.tables
    finally:
        engine.dispose()


def run_module(*command):
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, env=plain())


def sqlite_utils(path, copy):
    needs("sqlite_utils")
    result = run_module("sqlite_utils", "tables", path, "--counts")
    assert result.returncode == 0, result.stderr
    assert {"table": "ordinary", "count": 1} in json.loads(result.stdout)


def datasette(path, copy):
    needs("datasette")
    result = run_module("datasette", path, "--get", f"/{os.path.splitext(os.path.basename(path))[0]}/ordinary.json?_shape=array")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [{"id": 1, "name": "one"}], result.stdout


def jdbc(path, copy):
    """getTables, and getColumns for all tables. The driver is what `./run hosts java` has brought, or one in Maven's folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    folders = os.path.join(here, "..", "..", "build", "hosts", "java", "jars"), os.path.expanduser("~/.m2/repository/org/xerial/sqlite-jdbc/*")
    jars = [jar for folder in folders for jar in glob.glob(os.path.join(folder, "sqlite-jdbc-*.jar"))]
    if not jars or not shutil.which("java"):
        raise Missing("there is no Java, or no sqlite-jdbc: ./run hosts java brings it")
    result = subprocess.run(["java", "-cp", os.path.join(os.path.dirname(jars[0]), "*"), os.path.join(here, "Tables.java"), path], capture_output=True, text=True, env=plain())
    assert "columns of ordinary 2\nrows 1 one\n" in result.stdout, result.stderr
    assert result.returncode == 0, result.stderr


TOOLS = {"sqlite3 `.tables`, `.schema`": tables_and_schema, "sqlite3 `.dump`, and its replay": dump, "sqlite3 `.backup`, `VACUUM INTO`": backup, "`PRAGMA integrity_check`": integrity,
         "sqlite3 `.clone`": clone, "Python `iterdump`": iterdump, "SQLAlchemy `reflect()`": reflect, "sqlite-utils `tables --counts`": sqlite_utils, "Datasette": datasette, "JDBC `getColumns` of all tables": jdbc}


def tried(tool, path, copy):
    """What the page should say, and why it fails if it does."""
    try:
        TOOLS[tool](path, copy)
    except Missing:
        raise
    except Exception as error:
        return "fails", f"{type(error).__name__}: {error}"
    return "works", ""


def main():
    with open(DOCUMENT, encoding="utf-8") as f:
        page = f.read()
    rows = re.findall(r"^\| ([^|]+) \| (works|fails) \| (works|fails) \|$", page, re.M)
    assert [row[0] for row in rows] == list(TOOLS), "the table of the page, and the tools that this test knows"
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        make(os.path.join(folder, "main.db"), False)
        make(os.path.join(folder, "hidden.db"), True)
        for number, (tool, *says) in enumerate(rows):
            for name, expected in zip(("main", "hidden"), says):
                try:
                    found, why = tried(tool, os.path.join(folder, name + ".db"), os.path.join(folder, f"copy{number}-{name}.db"))
                except Missing as missing:
                    print(f"SKIPPED: {tool}: {missing}")
                    break
                print(f"{tool}, {name}: {found} {why[:200]!r}" if why else f"{tool}, {name}: {found}")
                if found != expected:
                    print(f"  but the page says that it {expected}")
                    faults += 1
    print(f"{len(rows)} tools, {faults} faults")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
