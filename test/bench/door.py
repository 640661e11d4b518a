"""Measures the front door: plain SQL over columns, paths in FROM, groups that open as tables, variants, small commits and DataFrames, each beside the
ways that it replaces: rows, CREATE by hand, DuckDB, tiledbsoma with pandas. The cases of a row take turns in one process, and a ratio is that of their
least times, which are processor time of all threads: other work on the machine changes that little. Ways of libraries that are not installed are left
out. Compares answers where two ways have the same. The targets are those that docs/performance-workloads.md has.

usage: door.py EXTENSION FOLDER [--only TEXT] [--commits N]
"""
import argparse
import math
import os
import random
import shutil
import sqlite3
import sys
import time

import environment

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = [["numpy", "pandas", "pyarrow", "tiledb"], ["duckdb"], ["tiledbsoma"]]   # each line by itself: one that cannot be installed is left out
TURNS = 3
DAYS, SIDE = 365, 100            # of the cube
CELLS, GENES = 20_000, 3_000     # of the single cells, 5 % of whose values are stored
RECORDS = 20_000                 # of the variants

# What an analyst asks of the cube(t, y, x, v, n), and the town(name, y, x) of some places
STATEMENTS = [
    "SELECT t / 30 AS month, avg(v), max(v) FROM cube GROUP BY 1", "SELECT b.name, avg(c.v) FROM cube c JOIN town b ON b.y = c.y AND b.x = c.x GROUP BY 1", "SELECT n % 10 AS k, count(*) FROM cube GROUP BY k ORDER BY 2 DESC",
    "WITH m AS (SELECT t / 30 AS month, avg(v) AS a FROM cube GROUP BY 1) SELECT month, a - lag(a) OVER (ORDER BY month) FROM m", "SELECT name, (SELECT max(v) FROM cube) - (SELECT min(v) FROM cube) FROM town",
    "SELECT name FROM town WHERE y IN (SELECT y FROM cube GROUP BY y HAVING avg(v) > 50)", "SELECT a.t, a.m - b.m FROM (SELECT t, max(v) AS m FROM cube GROUP BY t) a JOIN (SELECT t + 1 AS t, max(v) AS m FROM cube GROUP BY t) b ON a.t = b.t",
    "SELECT x / 10 AS c, sum(n) FROM cube WHERE v > 20 GROUP BY c UNION ALL SELECT -1, count(*) FROM cube WHERE v * 2 > n", "SELECT count(*) FROM cube WHERE v * 2 + n > 80", "SELECT DISTINCT n FROM cube WHERE t < 20",
    "SELECT t, avg(v) FROM cube WHERE y BETWEEN 10 AND 20 GROUP BY t ORDER BY 2 DESC LIMIT 5", "SELECT n, count(*) AS k, rank() OVER (ORDER BY count(*) DESC) FROM cube GROUP BY n", "SELECT y, avg(v) AS a FROM cube GROUP BY y HAVING a > (SELECT avg(v) FROM cube)",
    "SELECT y / 10, x / 10, avg(v) FROM (SELECT y, x, v FROM cube WHERE v > 10) GROUP BY 1, 2"]
RANK, HAVING = STATEMENTS[11], STATEMENTS[12]


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed: its ways are left out")
        return None


def rounded(rows):
    return sorted(tuple(float(f"{v:.5g}") if isinstance(v, float) and math.isfinite(v) else v for v in row) for row in rows)


class Door:
    def __init__(self, extension, folder, only, commits):
        sys.path[:0] = [os.path.join(HERE, "..", "..", "ext", "python"), os.path.join(HERE, "..", "interop")]
        import numpy
        import pandas
        import tessera
        self.numpy, self.pandas, self.tessera = numpy, pandas, tessera
        self.duckdb, self.soma = optional("duckdb"), optional("tiledbsoma")
        tessera.loading.loadable_path = lambda: extension
        self.extension, self.only, self.commits = extension, only, commits
        self.folder = os.path.join(folder, "door-data")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        os.chdir(self.folder)

    def connect(self, path=":memory:"):
        db = sqlite3.connect(path, isolation_level=None)
        db.enable_load_extension(True)
        db.load_extension(self.extension)
        return db

    def answer(self, db, text):
        return db.execute(db.execute("SELECT tessera_sql(?)", (text,)).fetchone()[0]).fetchall()

    def row(self, title, cases, targets=None, most=None):
        """Prints a line for each case but the first. `targets`: {case: how many times as long as the first it should take, at least}; `most`: ms of the first."""
        times, answers = {name: [] for name in cases}, {}
        for _ in range(TURNS):
            for name, case in cases.items():
                if times[name] and min(times[name]) > 20:
                    continue
                start = time.process_time()
                answers[name] = case()
                times[name].append(time.process_time() - start)
        first, *others = cases
        own = min(times[first])
        for name in others or [first]:
            if name != first and rounded(answers[name]) != rounded(answers[first]):
                raise SystemExit(f"{title}: {name} answers {rounded(answers[name])[:3]}, {first} {rounded(answers[first])[:3]}")
            ratio, target = min(times[name]) / own, (targets or {}).get(name)
            goal = "" if target is None else f"at least {target:g}{', missed' if ratio < target else ''}"
            if most and name == (others or [first])[0]:
                goal += f"{'; ' if goal else ''}under {most} ms{', missed' if own * 1000 > most else ''}"
            print(f"| {title} | {own * 1000:.1f} | {name} | {min(times[name]) * 1000:.1f} | {ratio:.2f} | {goal} |", flush=True)

    def figure(self, title, value, goal):
        print(f"| {title} | {value} | | | | {goal} |", flush=True)

    # ---- Plain SQL ----

    def cube(self):
        count = DAYS * SIDE * SIDE
        chance = self.numpy.random.default_rng(7)
        v = chance.random(count, dtype="f4").reshape(DAYS, SIDE, SIDE) * 100
        n = chance.integers(0, 50, count).astype("i4").reshape(DAYS, SIDE, SIDE)
        self.tessera.create("cube", {"v": v, "n": n}, dimensions=["t", "y", "x"], extents={"t": 30, "y": 50, "x": 50})
        db = self.connect()
        db.execute("CREATE VIRTUAL TABLE cube USING tessera('cube')")
        places = [(f"town {i}", i * 37 % SIDE, i * 61 % SIDE) for i in range(20)]
        db.execute("CREATE TABLE town(name TEXT, y INTEGER, x INTEGER)")
        db.executemany("INSERT INTO town VALUES(?, ?, ?)", places)
        ducks = None
        if self.duckdb:
            ducks = self.duckdb.connect()
            t, y, x = (axis.ravel().astype("i4") for axis in self.numpy.indices((DAYS, SIDE, SIDE)))
            frame = self.pandas.DataFrame({"t": t, "y": y, "x": x, "v": v.ravel(), "n": n.ravel()})   # noqa: F841: DuckDB finds it by its name
            ducks.execute("CREATE TABLE cube AS SELECT * FROM frame")
            ducks.execute("CREATE TABLE town(name TEXT, y INTEGER, x INTEGER)")
            ducks.executemany("INSERT INTO town VALUES(?, ?, ?)", places)
            ducks.execute("SET integer_division = true")
        return db, ducks

    def sql(self):
        db, ducks = self.cube()

        def by_path():
            return self.answer(self.connect(), "SELECT t / 30, avg(v) FROM './cube' GROUP BY 1")

        def by_hand():
            own = self.connect()
            own.execute("CREATE VIRTUAL TABLE temp.cube USING tessera('cube')")
            own.execute("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT t / 30, avg(v) FROM cube GROUP BY 1)")
            return own.execute("SELECT * FROM q").fetchall()

        self.row("a grouped SELECT from a path, first call", {"tessera_sql": by_path, "CREATE twice": by_hand}, {"CREATE twice": 0.91})
        blanks = " " * 200
        for title, text, most in (("tessera_sql, 300 bytes, nothing taken", f"SELECT name, y, x,{blanks} y + x FROM town WHERE name LIKE 'town 1%' AND y > 3 ORDER BY name", 0.1),
                                  ("tessera_sql, 300 bytes, one part", f"SELECT t / 30 AS month,{blanks} avg(v) AS a, max(n) FROM cube WHERE v > 3 GROUP BY 1", 0.5)):
            start = time.process_time()
            for _ in range(300):
                db.execute("SELECT tessera_sql(?)", (text,)).fetchone()
            took = (time.process_time() - start) / 300 * 1000
            self.figure(title, f"{took:.3f}", f"under {most}{'' if took < most else ', missed'}")
        totals, worst = {}, 0
        for text in STATEMENTS:
            ways = {"tessera_sql": lambda text=text: self.answer(db, text), "rows": lambda text=text: db.execute(text).fetchall()}
            if ducks:
                ways["DuckDB"] = lambda text=text: ducks.execute(text).fetchall()
            least = {}
            for way, run in ways.items():
                for _ in range(1 if way == "rows" else TURNS):
                    start = time.process_time()
                    run()
                    least[way] = min(least.get(way, 1e9), time.process_time() - start)
            worst = max(worst, least["tessera_sql"] - least["rows"])
            for way, took in least.items():
                totals[way] = totals.get(way, 0) + took
        for way in list(totals)[1:]:
            ratio = totals[way] / totals["tessera_sql"]
            goal = f"at least 40{', missed' if ratio < 40 else ''}" if way == "rows" else ""
            print(f"| {len(STATEMENTS)} statements of an analyst | {totals['tessera_sql'] * 1000:.1f} | {way} | {totals[way] * 1000:.1f} | {ratio:.2f} | {goal} |", flush=True)
        self.figure("the one that loses most to rows, by", f"{worst * 1000:.1f}", f"at most 5{', missed' if worst > 0.005 else ''}")
        for title, text in (("rank() over count(*)", RANK), ("HAVING with a scalar subquery", HAVING)):
            ways = {"tessera_sql": lambda text=text: self.answer(db, text), "rows": lambda text=text: db.execute(text).fetchall()}
            if ducks:
                ways["DuckDB"] = lambda text=text: ducks.execute(text).fetchall()
            self.row(title, ways, {"rows": 20})

    # ---- Groups ----

    def single_cells(self):
        """One gene, and all values, by cell type: TileDB-SOMA's own Python reads them into pandas."""
        if not self.soma:
            return
        import pyarrow as pa
        chance = self.numpy.random.default_rng(3)
        count = CELLS * GENES // 20
        flat = self.numpy.unique(chance.integers(0, CELLS * GENES, count))
        cells, genes = flat // GENES, flat % GENES
        obs = pa.table({"soma_joinid": pa.array(range(CELLS), pa.int64()), "cell_type": [f"type {i * 7 % 12}" for i in range(CELLS)]})
        var = pa.table({"soma_joinid": pa.array(range(GENES), pa.int64()), "var_id": [f"GENE{i}" for i in range(GENES)]})
        soma = self.soma
        with soma.Experiment.create("pbmc") as experiment:
            with experiment.add_new_dataframe("obs", schema=obs.schema, domain=[[0, CELLS - 1]]) as frame:
                frame.write(obs)
            rna = experiment.add_new_collection("ms").add_new_collection("RNA", soma.Measurement)
            with rna.add_new_dataframe("var", schema=var.schema, domain=[[0, GENES - 1]]) as frame:
                frame.write(var)
            with rna.add_new_collection("X").add_new_sparse_ndarray("data", type=pa.float32(), shape=(CELLS, GENES)) as x:
                x.write(pa.table({"soma_dim_0": cells, "soma_dim_1": genes, "soma_data": chance.random(len(flat), dtype="f4")}))
        db = self.connect()
        db.execute("SELECT tessera_attach('pbmc')")
        with soma.Experiment.open("pbmc") as experiment:
            x = experiment.ms["RNA"].X["data"]

            def pandas(gene):
                obs = experiment.obs.read(column_names=["soma_joinid", "cell_type"]).concat().to_pandas()
                if gene:
                    ids = experiment.ms["RNA"].var.read(value_filter=f"var_id == '{gene}'").concat()["soma_joinid"].to_numpy()
                    values = x.read((slice(None), ids)).tables().concat().to_pandas()
                else:
                    values = x.read().tables().concat().to_pandas()
                joined = values.merge(obs, left_on="soma_dim_0", right_on="soma_joinid")
                found = joined.groupby("cell_type")["soma_data"].agg(["count", "mean"])
                return [(name, int(row["count"]), float(row["mean"])) for name, row in found.iterrows()]

            for title, where, gene, least, most in (("SOMA, one gene by cell type", "WHERE var_id = 'GENE42'", "GENE42", 8, 15), ("SOMA, all values by cell type", "", None, 20, 60)):
                text = f"SELECT cell_type, count(*), avg(value) FROM X {where} GROUP BY 1"
                self.row(title, {"tessera_sql": lambda text=text: self.answer(db, text), "tiledbsoma + pandas": lambda gene=gene: pandas(gene)}, {"tiledbsoma + pandas": least}, most)

    def variants(self):
        """A region of a dataset with TileDB-VCF's layout, beside all of it by rows. Overlap is compared."""
        import vcf
        vcf.write("cohort", 4, vcf.records(random.Random(1), RECORDS), ())
        db = self.connect()
        db.execute("SELECT tessera_attach('cohort')")
        low, high = vcf.LENGTH // 2, vcf.LENGTH // 2 + 2000
        contig = vcf.CONTIGS[0]
        window = f"SELECT contig, pos, sample FROM variants('{contig}:{low}-{high}')"
        scan = f"SELECT contig, pos, sample FROM variants WHERE contig = '{contig}' AND pos <= {high} AND \"end\" >= {low}"
        self.row(f"VCF, a region of 2 kb in {RECORDS:,} records", {"variants(region)": lambda: db.execute(window).fetchall(), "comparisons of pos and end": lambda: db.execute(scan).fetchall()}, most=5)

    def attach(self):
        db = self.connect()
        for count, most in ((19, 40), (1000, 2000)):
            root = f"group{count}"
            db.execute("SELECT tessera_create_group(?)", (root,))
            for i in range(count):
                db.execute(f"CREATE VIRTUAL TABLE made USING tessera('{root}/a{i}', x INT32 DIMENSION(0, 9, 10), v FLOAT64)")
                db.execute("DROP TABLE made")
                db.execute("SELECT tessera_add_member(?, ?, ?)", (root, f"{root}/a{i}", f"a{i}"))
            own = self.connect()
            start = time.process_time()
            own.execute("SELECT tessera_attach(?)", (root,)).fetchone()
            took = (time.process_time() - start) * 1000
            self.figure(f"tessera_attach, {count:,} arrays", f"{took:.1f}", f"under {most}{'' if took < most else ', missed'}")

    # ---- Small commits, and data of others ----

    def small_commits(self):
        """With auto_consolidate alone the names of merged fragments stay in the directory, which each commit reads; auto_vacuum_s removes them."""
        for name, options in (("kept", "auto_consolidate=16"), ("vacuumed", "auto_consolidate=16, auto_vacuum_s=0")):
            self.commit_often(name, options)

    def commit_often(self, name, options):
        db = self.connect(f"{name}.db")
        chance, times = random.Random(5), []
        db.execute(f"CREATE VIRTUAL TABLE log USING tessera('{name}', t INT64 DIMENSION(0, 99999999, 100000), sensor INT32 DIMENSION(0, 99, 100), kind=sparse, {options}, v FLOAT64)")
        for commit in range(self.commits):
            rows = [(commit * 10 + i, chance.randrange(100), chance.random()) for i in range(10)]
            start = time.process_time()
            db.execute("BEGIN")
            db.executemany("INSERT INTO log(t, sensor, v) VALUES(?, ?, ?)", rows)
            db.execute("COMMIT")
            times.append(time.process_time() - start)
        fragments = db.execute("SELECT count(*) FROM tessera_fragments(?)", (name,)).fetchone()[0]
        db.close()
        least = 1e9
        for _ in range(TURNS):
            own = self.connect()
            own.execute(f"CREATE VIRTUAL TABLE log USING tessera('{name}')")
            start = time.process_time()
            self.answer(own, "SELECT avg(v), count(*) FROM log")
            least = min(least, (time.process_time() - start) * 1000)
            own.close()
        early, late = sorted(times[50:150]), sorted(times[-100:])
        self.figure(f"{options}: fragments after {self.commits:,} commits", fragments, f"at most 100{'' if fragments <= 100 else ', missed'}")
        self.figure("... avg over all, new connection", f"{least:.1f}", f"under 50{'' if least < 50 else ', missed'}")
        self.figure("... a commit: median of the last 100 to that of 50 to 150", f"{late[50] / early[50]:.2f}", f"at most 1.2{'' if late[50] <= 1.2 * early[50] else ', missed'}")
        self.figure("... a commit: p99 of all", f"{sorted(times)[len(times) * 99 // 100] * 1000:.1f}", "")

    def frame(self):
        count = 300_000
        chance = self.numpy.random.default_rng(4)
        df = self.pandas.DataFrame({"k": chance.integers(0, 100, count), "a": chance.random(count), "b": chance.random(count), "c": chance.integers(0, 9, count)})
        text = "SELECT k, count(*), avg(a) FROM df GROUP BY k"
        ways = {"tessera.sql": lambda: self.tessera.sql(text, df=df).fetchall(),
                "pandas": lambda: [(int(k), int(row["count"]), float(row["mean"])) for k, row in df.groupby("k")["a"].agg(["count", "mean"]).iterrows()]}
        if self.duckdb:
            def ducks(df=df):   # DuckDB looks for the variable here
                return self.duckdb.sql(text).fetchall()
            ways["DuckDB"] = ducks
        self.row(f"a DataFrame of {count:,} x 4 in FROM", ways, most=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("extension")
    parser.add_argument("folder")
    parser.add_argument("--only", default="")
    parser.add_argument("--commits", type=int, default=10_000)
    options = parser.parse_args()
    extension, folder = os.path.abspath(options.extension), os.path.abspath(options.folder)
    environment.inside(folder, "door", PACKAGES)
    door = Door(extension, folder, options.only, options.commits)
    print("Times in ms of processor time.\n\n| what | time | beside | its time | ratio | target |\n|---|---|---|---|---|---|")
    for part in ("sql", "single_cells", "variants", "attach", "frame", "small_commits"):
        if options.only in part:
            getattr(door, part)()
    shutil.rmtree(door.folder)


if __name__ == "__main__":
    main()
