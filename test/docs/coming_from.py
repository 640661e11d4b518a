"""Every statement of the pages under docs/coming-from runs.

usage: coming_from.py EXTENSION CORPUS ROOT
The statements are the code spans in the last column of the tables that begin with a word of SQL, and the SELECT within `tessera.sql("...")`. Those of a page run in
their order, on tables as the tutorial leaves them; a SELECT also runs over columns. What is left out: text with `...`, paths in buckets, and the cohort of
TileDB-VCF, which interop/vcf makes. xarray's own side is compared by docs/hosts/xarray_page.py.
"""
import csv
import glob
import os
import re
import shutil
import sqlite3
import sys
import tempfile

sys.dont_write_bytecode = True
WORD = re.compile(r"(SELECT|CREATE|INSERT|UPDATE|DELETE|DROP|EXPLAIN)\b")
LEVELS = [("Basel", "2024-06-01", "5.93", ""), ("Basel", "2024-06-02", "6.41", "rain"), ("Basel", "2024-06-03", "8.05", "flood"),
          ("Bern", "2024-06-01", "1.62", ""), ("Bern", "2024-06-02", "1.73", "rain"), ("Bern", "2024-06-03", "", "gauge broken")]
SET_UP = """
CREATE VIRTUAL TABLE relief USING tessera('demo/relief');
CREATE VIRTUAL TABLE climate USING tessera('demo/climate');
CREATE VIRTUAL TABLE airports USING tessera('demo/airports');
CREATE TABLE towns(name TEXT PRIMARY KEY, lat REAL, lon REAL);
INSERT INTO towns VALUES('Bern', 46.95, 7.45), ('Denver', 39.74, -104.99);
CREATE TABLE incoming(station TEXT, day TEXT, meters TEXT, note TEXT);
CREATE VIRTUAL TABLE levels USING tessera('levels', station TEXT DIMENSION, day DATE DIMENSION('2000-01-01', '2099-12-31', 365), meters REAL, note TEXT);
CREATE VIRTUAL TABLE alps USING tessera(kind=dense, y INT32 DIMENSION(132, 143, 12), x INT32 DIMENSION(15, 50, 36), elevation INT16);
INSERT INTO alps SELECT y, x, elevation FROM relief WHERE y BETWEEN 132 AND 143 AND x BETWEEN 15 AND 50;
"""


def statements(text):
    """The statements of a page, in their order."""
    text = text.split("\n## A TileDB-VCF cohort")[0]
    for row in re.findall(r"^\|(.*)\|$", text, re.M):
        for span in re.findall(r"`` (.+?) ``|`([^`]+)`", row.split(" | ")[-1]):
            sql = "".join(span).replace("\\|", "|")
            inner = re.search(r"""tessera\.sql\("(SELECT .*?)"\)""", sql)
            sql = inner.group(1) if inner else sql
            if WORD.match(sql) and "..." not in sql and "s3://" not in sql:
                yield sql


def connect(extension, corpus, root):
    """A database as the tutorial leaves it, in the present folder."""
    os.symlink(os.path.join(root, "sql", "data"), "demo")
    with open("levels.csv", "w", encoding="utf-8", newline="") as f:
        csv.writer(f).writerows([("station", "day", "meters", "note"), *LEVELS])
    db = sqlite3.connect("tutorial.db", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    db.executescript(SET_UP)
    db.executemany("INSERT INTO incoming VALUES(?, ?, ?, ?)", LEVELS)
    db.execute("INSERT INTO levels SELECT station, day, nullif(meters, ''), nullif(note, '') FROM incoming")
    time = db.execute("SELECT last_write FROM tessera_array('db:levels')").fetchone()[0]
    db.execute("UPDATE levels SET meters = 9 WHERE station = 'Basel'")
    db.execute("SELECT tessera_attach(?)", (os.path.join(corpus, "soma", "one"),))
    return db, time


def run(db, sql, time):
    """Runs a statement, with a time and a component's name that fit; a SELECT also as tessera.sql runs it."""
    sql = re.sub(r"(?<=, )time(?=\))|(?<=\()before(?=\))", str(time), sql).replace("obsm_X_pca", "obsm_pca")
    made = re.match(r"CREATE VIRTUAL TABLE (relief|climate) ", sql)
    if made:
        db.execute(f"DROP TABLE {made.group(1)}")
    if not re.search(r"FROM 'demo/", sql):
        db.execute(sql).fetchall()
    if sql.startswith("SELECT") and not re.search(r"tessera_(?!aggregate|nearest|cover)", sql):
        db.execute(db.execute("SELECT tessera_sql(?)", (sql,)).fetchone()[0]).fetchall()


def main():
    extension, corpus, root = (os.path.abspath(p) for p in sys.argv[1:4])
    wrong, count, least = 0, 0, {"duckdb": 16, "mytile": 12, "postgis-raster": 18, "scanpy-and-bcftools": 4, "tiledb-py": 22, "xarray": 20}
    pages = sorted(glob.glob(os.path.join(root, "docs", "coming-from", "*.md")))
    for page in pages:
        with open(page, encoding="utf-8") as f:
            found = list(statements(f.read()))
        name = os.path.basename(page)[:-3]
        if len(found) < least.get(name, 1):
            print(f"{name}: only {len(found)} statements were found")
            wrong += 1
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        db, time = connect(extension, corpus, root)
        for sql in [*found, "SELECT nothing FROM relief"]:
            try:
                run(db, sql, time)
                wrong += sql == "SELECT nothing FROM relief"
            except sqlite3.Error as e:
                if sql != "SELECT nothing FROM relief":
                    print(f"{name}: {sql}\n  {e}")
                    wrong += 1
        db.close()
        os.chdir("/")
        shutil.rmtree(folder)
        count += len(found)
    print(f"{len(pages)} pages, {count} statements, {wrong} wrong")
    return wrong != 0 or len(pages) < len(least)


if __name__ == "__main__":
    sys.exit(main())
