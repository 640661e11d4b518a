"""Measures tessera against other systems on the same data, in one run: for each query the systems take turns, several times, and the median
counts. Prints a table with tessera's time, and with how many times faster or slower it is than each other system, beside the goals.
Compares all answers: one that differs is a failure.

usage: bench.py EXTENSION FOLDER [smoke|quick|full] [--only TEXT] [--turns N] [--processor] [--json FILE]

FOLDER keeps the virtual environment with the other systems (one that cannot be installed is left out) and the data, from run to run.
--only takes the rows whose workload, colon, blank and title ("raster: point lookup") contain the text. --processor measures queries in
processor time of all threads, which other work on the machine changes little. --json writes what was measured as well.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

PACKAGES = [["apsw"], ["numpy"], ["tiledb==0.36.1"], ["duckdb"], ["pyarrow"], ["zarr"]]  # apsw: a SQLite that loads extensions
OWN = ("tessera", "function", "query")  # tessera's ways
ENOUGH = 0.05  # seconds of repetitions in one turn

TOO_LONG = 30  # seconds of one system with one write: two turns of it will do
SLOW = 2  # seconds of one system with one query: it takes one turn more, and no other
CLOSE = 1.005  # times and goals that are no further apart count as equal

COLUMNS = {"sqlite": 1 / 20, "duckdb": 1 / 1.5}  # of columnar queries
# The query, its workload, which of tessera's ways answers it, and the goals: tessera's time as a multiple of the other's, at most. The
# table prints a goal of 1 / 90 as "90 times faster". Of TileDB's arrays of points the goals name the faster one.
ROWS = [
    ("point", "raster", "tessera", "point lookup", {"tiledb": 1 / 90, "duckdb": 1 / 45, "sqlite": 1.5}),
    ("tile", "raster", "tessera", "box of one tile, by rows", {"sqlite": 1 / 15, "tiledb": 2}),
    ("tile", "raster", "function", "box of one tile, tessera_npy", {"tiledb": 1 / 7, "duckdb": 1 / 7}),
    ("tenth", "raster", "tessera", "sum of a tenth, by rows", {"sqlite": 1 / 3.8}),
    ("tenth", "raster", "function", "sum of a tenth, tessera_aggregate", {"tiledb": 1 / 2.8, "duckdb": 1 / 1.2}),
    ("total", "raster", "tessera", "sum of all, by rows", {"sqlite": 1}),
    ("total", "raster", "function", "sum of all, tessera_aggregate", {"tiledb_aggregates": 1 / 3.5, "duckdb": 1 / 50}),
    ("group", "raster", "tessera", "GROUP BY a dimension, by rows", {"sqlite": 1}),
    ("group", "raster", "function", "GROUP BY a dimension, tessera_aggregate", {"tiledb": 1 / 2.5, "duckdb": 1}),
    ("join", "raster", "tessera", "join of 10,000 pairs", {"sqlite": 1 / 2.9, "tiledb": 1 / 13, "duckdb": 1 / 15}),
    ("rare", "raster", "tessera", "predicate of 0.1 %, raster", {"sqlite": 1 / 270, "tiledb": 1 / 52, "duckdb": 1.6}),
    ("rare", "cube", "tessera", "predicate of 0.1 %, cube", {"sqlite": 1 / 40, "tiledb": 1 / 6, "duckdb": 1.6}),
    ("column_parts", "cube", "query", "tessera_query: means of 30 days", COLUMNS),
    ("column_months", "cube", "query", "tessera_query: month and lat/4, avg(v - 273.15), WHERE v > 200", COLUMNS),
    ("column_climatology", "cube", "query", "tessera_query: climatology by month, lat, lon", COLUMNS),
    ("column_case", "cube", "query", "tessera_query: avg(CASE ...), max - min by lat", COLUMNS),
    ("column_coarsen", "cube", "query", "tessera_query: coarsen to t, lat/4, lon/4", COLUMNS),
    ("column_histogram", "cube", "query", "tessera_query: histogram of floor(v/5)*5", COLUMNS),
    ("column_moments", "cube", "query", "tessera_query: sum(v*v), sum(v) of a slice", {"sqlite": 1 / 7, "duckdb": 1 / 1.5}),
    ("column_anomaly", "cube", "query", "tessera_query: anomalies, by a join with the climatology", {"duckdb": 1 / 1.5}),
    ("first", "raster", "tessera", "ORDER BY y, x LIMIT 100, raster", {"sqlite": 1}),
    ("first", "points", "tessera", "ORDER BY x, y LIMIT 100, points", {"tiledb_rows": 1 / 140}),
    ("small", "points", "tessera", "points: box of 1,000", {"rtree": 1 / 2.8, "tiledb": 1 / 8, "tiledb_rows": 1 / 8}),
    ("large", "points", "tessera", "points: box of 200,000", {"rtree": 1 / 40, "tiledb": 1 / 7, "tiledb_rows": 1 / 1.5}),
    ("rare", "points", "tessera", "predicate of 0.1 %, points", {}),
    ("total", "points", "tessera", "sum of all, points", {}),
    ("small", "genes", "tessera", "string dimension: box of 1,000", {}),
    ("group", "genes", "tessera", "string dimension: GROUP BY", {}),
]
LABELS, LABEL_COUNT, LABEL_GOAL = "a range of a twentieth of {:,} labels", {"smoke": 100_000, "quick": 1_000_000, "full": 1_000_000}, 1.2
WRITTEN = {"million": ("INSERT ... SELECT of {:,} cells", {"sqlite": 1 / 3.5, "tiledb": 1 / 3, "rtree": 1 / 24}),
           "columns": ("... TileDB-Py's from numpy columns", {"tiledb": 1 / 1.3}),
           "dense": ("tessera_write_npy of {0:,} x {0:,}", {"tiledb": 1}),
           "opening": ("opening {:,} fragments", {"tiledb": 1 / 3.4}),
           "boxed": ("opening {:,} fragments, and a box of them", {}),
           "consolidating": ("consolidating {:,} fragments", {"tiledb": 1 / 4}),
           "memory": ("... memory of that process", {"tiledb": 1 / 14})}


def prepare(folder):
    """The Python of the environment, made on first use; packages that cannot be had are named and left out."""
    python = os.path.join(folder, "venv", "bin", "python")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", os.path.join(folder, "venv")], check=True)
    for package in PACKAGES:
        name = package[0].split("==")[0]
        if subprocess.run([python, "-c", f"import {name}"], stderr=subprocess.DEVNULL).returncode == 0:
            continue
        for wanted in dict.fromkeys([package[0], name]):
            if subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--timeout", "30",
                               "--retries", "1", wanted], stderr=subprocess.DEVNULL).returncode == 0:
                break
        else:
            print(f"{name} could not be installed: it is left out", file=sys.stderr)
    return python


def size_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, names in os.walk(path) for f in names)


def same(answer, reference):
    """Whether two answers agree: so many rows, and the sums of their last columns, which systems add up in different orders."""
    def digest(rows):
        if hasattr(rows, "dtype"):  # a block, against count and sum
            return [rows.size, float(rows.sum(dtype="f8"))]
        if len(rows) == 1:
            return [float(value) for value in rows[0]]
        return [len(rows), float(sum(row[-1] for row in rows))]
    one, other = digest(answer), digest(reference)
    return len(one) == len(other) and all(abs(a - b) <= 1e-5 * abs(b) + 1e-6 for a, b in zip(one, other))


def turn(ask, clock):
    """The median time of as many repetitions as fit into a moment."""
    times = []
    while not times or (sum(times) < ENOUGH and len(times) < 25):
        start = clock()
        answer = ask()
        times.append(clock() - start)
    return statistics.median(times), answer


class Bench:
    def __init__(self, arguments):
        import systems
        self.arguments, self.faults = arguments, 0
        self.clock = time.process_time if arguments.processor else time.perf_counter
        systems.Tessera.library = arguments.extension
        self.folder = os.path.join(arguments.folder, arguments.size)
        os.makedirs(self.folder, exist_ok=True)
        self.systems = []
        for system in systems.SYSTEMS:
            try:
                for module in system.needs:
                    __import__(module)
                self.systems.append(system())
            except ImportError as lacking:
                print(f"{system.title} is left out: {lacking}", file=sys.stderr)
        self.measured = []  # (title, way, {system: seconds}, goals)
        self.sizes = {}
        self.ranges = []  # (title, seconds by label, seconds by index)

    def build(self, workload, values):
        """The copies of a workload; what an earlier run has made is kept, tessera's while the extension is not newer."""
        for system in self.systems:
            path = os.path.join(self.folder, workload + system.suffix)
            done = path + ".done"
            if not system.has(workload) or system.borrows:
                continue
            if not os.path.exists(done) or (system.name == "tessera" and os.path.getmtime(done) < os.path.getmtime(self.arguments.extension)):
                shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)
                print(f"  {workload} for {system.title}", file=sys.stderr)
                system.build(workload, values, path)
                open(done, "w").close()
            self.sizes.setdefault(workload, {})[system.name] = size_of(path)

    def read(self, workload):
        import data
        wanted = [row for row in ROWS if row[1] == workload and self.arguments.only in f"{workload}: {row[3]}"]
        if not wanted:
            return
        values = data.make(workload, self.arguments.size)
        p = data.parameters(workload, values)
        self.build(workload, values)
        del values
        used = [s for s in self.systems if s.has(workload)]
        handles = {s.name: s.open(workload, os.path.join(self.folder, workload + s.suffix), p) for s in used}
        queries = {s.name: s.queries(workload, p) for s in used}
        for query in dict.fromkeys(row[0] for row in wanted):
            asked = {name: (lambda name=name: queries[name][query](handles[name])) for name in handles if query in queries[name]}
            seconds = self.take_turns(f"{workload} {query}", asked)
            for _, _, way, title, goals in (row for row in wanted if row[0] == query):
                if way in seconds:
                    self.measured.append((title, {"tessera": seconds[way], **{n: s for n, s in seconds.items() if n not in OWN}}, goals))
        for system in used:
            system.close(handles[system.name])

    def take_turns(self, title, asked):
        answers = {name: ask() for name, ask in asked.items()}  # also warms up
        own = answers[next(name for name in OWN if name in answers)]
        for name in answers:
            if not same(answers[name], own):
                self.faults += 1
                print(f"{title}: {name} answers otherwise than tessera: {str(answers[name])[:200]} against {str(own)[:200]}", file=sys.stderr)
        times = {name: [] for name in asked}
        for _ in range(self.arguments.turns):
            for name, ask in asked.items():
                if not times[name] or times[name][0] < SLOW:
                    times[name].append(turn(ask, self.clock)[0])
        return {name: statistics.median(t) for name, t in times.items()}

    def write(self):
        import writes
        title = {part: WRITTEN[part][0] for part in WRITTEN}
        if not any(self.arguments.only in t for t in title.values()):
            return
        w = writes.Writes(self.arguments.size, self.folder, self.arguments.extension, {s.name for s in self.systems})
        count = dict.fromkeys(WRITTEN, w.fragments) | {"million": w.count, "columns": w.count, "dense": w.side}

        def add(part, seconds):
            self.measured.append((title[part].format(count[part]), seconds, WRITTEN[part][1]))

        path = None
        for part in ("million", "dense", "opening", "boxed"):
            if self.arguments.only not in title[part]:
                continue
            if part in ("opening", "boxed"):
                path = path or w.many_fragments()
                cases = w.opening(path, part == "boxed")
            else:
                cases = getattr(w, part)()
            times, answers = {name: [] for name in cases}, {}
            for _ in range(self.arguments.turns):
                for name, case in cases.items():
                    if len(times[name]) >= 2 and sum(times[name]) > TOO_LONG:
                        continue
                    made = w.path("made")
                    start = time.perf_counter()
                    answers[name] = case(made)
                    times[name].append(time.perf_counter() - start)
            if len(set(answers.values())) > 1:
                self.faults += 1
                print(f"{title[part]}: different counts: {answers}", file=sys.stderr)
            seconds = {name: statistics.median(t) for name, t in times.items()}
            columns = seconds.pop("columns", None)
            add(part, seconds)
            if columns:
                add("columns", {"tessera": seconds["tessera"], "tiledb": columns})
        if path and self.arguments.only in title["consolidating"]:
            turns = [w.consolidating(path) for _ in range(min(3, self.arguments.turns))]
            if "tessera" in turns[0]:
                for part, which in (("consolidating", 0), ("memory", 1)):
                    add(part, {name: statistics.median(t[name][which] for t in turns) for name in turns[0]})
        shutil.rmtree(w.folder)

    def labels(self):
        """A range of a dimension label beside the same range of its dimension: the least of several turns, in new connections and in one that stays."""
        import numpy
        import systems
        if self.arguments.only not in LABELS:
            return
        path, count = os.path.join(self.folder, "labels"), LABEL_COUNT[self.arguments.size]
        shutil.rmtree(path, ignore_errors=True)
        system = next(s for s in self.systems if s.name == "tessera")
        connection = system.connect(":memory:")
        connection.execute(f"CREATE VIRTUAL TABLE r USING tessera('{path}', kind=dense, y INT64 DIMENSION(0, {count - 1}, 10000) LABEL q FLOAT64, v FLOAT32)")
        connection.execute("SELECT tessera_write_label(?, 'q', ?)", (path, systems.npy(numpy.arange(count) / 8))).fetchall()
        connection.execute("SELECT tessera_write_npy(?, 'v', ?)", (path, systems.npy(numpy.arange(count, dtype="f4")))).fetchall()
        connection.close()
        low, high = count // 3, count // 3 + count // 20
        asked = {"label": f"SELECT count(*), sum(v) FROM r WHERE q BETWEEN {low / 8} AND {high / 8}", "index": f"SELECT count(*), sum(v) FROM r WHERE y BETWEEN {low} AND {high}"}

        def open_one():
            one = system.connect(":memory:")
            one.execute(f"CREATE VIRTUAL TABLE r USING tessera('{path}')")
            return one

        kept = open_one()
        for what in ("the first in a connection", "the next ones"):
            times, answers = {name: [] for name in asked}, {}
            for _ in range(4 * self.arguments.turns):
                for name, sql in asked.items():
                    one = kept if what == "the next ones" else open_one()
                    start = time.perf_counter()
                    answers[name] = one.execute(sql).fetchall()
                    times[name].append(time.perf_counter() - start)
                    if one is not kept:
                        one.close()
            if answers["label"] != answers["index"]:
                self.faults += 1
                print(f"{LABELS}: {answers}", file=sys.stderr)
            self.ranges.append((f"{LABELS.format(count)}, {what}", min(times["label"]), min(times["index"])))
        kept.close()

    def run(self):
        busy = max(0.0, os.getloadavg()[0] - 0.5)
        for workload in ("raster", "cube", "points", "genes"):
            self.read(workload)
        self.write()
        self.labels()
        for workload, sizes in self.sizes.items():
            if self.arguments.only in "size on disk":
                self.measured.append((f"size on disk, {workload}", sizes, {"tiledb": 1}))
        self.report()
        if busy > 0:
            print(f"\nThe machine was busy with other work (load {busy:.1f} of {os.cpu_count()} cores when this began): what uses several "
                  "threads or waits for the disk took longer than it need. Ratios of an idle machine are the ones to keep.")
        return 1 if self.faults else 0

    def report(self):
        others = [s for s in self.systems if s.name not in OWN]
        print("\n| query | tessera | " + " | ".join(s.title for s in others) + " |\n|---|---|" + "---|" * len(others))
        for title, values, goals in self.measured:
            own = values["tessera"]
            cells = [compared(title, own / values[s.name], goals.get(s.name)) if s.name in values else "" for s in others]
            print(f"| {title} | {amount(title, own)} | " + " | ".join(cells) + " |")
        for title, by_label, by_index in self.ranges:
            print(f"\n{title}: {amount(title, by_label)}, by index {amount(title, by_index)}: {told(title, by_label / by_index)} (goal: {told(title, LABEL_GOAL)})")
        names = {s.name: s.title for s in others}
        missed = [(values["tessera"] / values[n] / goal, title, n, values["tessera"] / values[n], goal)
                  for title, values, goals in self.measured for n, goal in goals.items() if n in values]
        missed = sorted((m for m in missed if m[0] > CLOSE), reverse=True)
        goals = sum(n in values for _, values, goals in self.measured for n in goals)
        print(f"\n{goals - len(missed)} of {goals} goals reached." + (" Missed, the farthest first:" if missed else ""))
        for _, title, name, value, goal in missed:
            print(f"- {title}, beside {names[name]}: {told(title, value)}; the goal is {told(title, goal)}")
        if self.arguments.json:
            with open(self.arguments.json, "w", encoding="utf-8") as file:
                json.dump([{"query": t, "values": v, "goals": g} for t, v, g in self.measured], file, indent=1)


def amount(title, value):
    if title.startswith("size"):
        return f"{value / 1e6:.1f} MB"
    if "memory" in title:
        return f"{value:.0f} MiB"
    if value < 1e-4:
        return f"{value * 1e6:.3g} µs"
    return f"{value * 1e3:.3g} ms" if value < 0.9995 else f"{value:.3g} s"


def told(title, value):
    """Tells tessera's time, size or memory as a multiple of the other's in words: 1 / 24 is "24 times faster"."""
    less, more, same_as = ("smaller", "larger", "as large") if title.startswith("size") or "memory" in title else ("faster", "slower", "as fast")
    factor = max(value, 1 / value)
    if factor <= CLOSE:
        return same_as
    digits = f"{factor:,.0f}" if factor >= 99.5 else f"{factor:.3g}" if factor < 1.095 else f"{factor:.2g}"
    return f"{digits} times {less if value < 1 else more}"


def compared(title, value, goal):
    """The cell of the table: the comparison and its goal, bold where the goal is missed."""
    text = told(title, value)
    if goal is None:
        return text
    return f"{text} (goal: {told(title, goal)})" if value <= goal * CLOSE else f"**{text}** (goal: {told(title, goal)})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("extension", type=os.path.abspath)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("size", nargs="?", default="quick", choices=["smoke", "quick", "full"])
    parser.add_argument("--only", default="")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    inside = os.path.join(arguments.folder, "venv")
    if os.path.realpath(sys.prefix) != os.path.realpath(inside):
        return subprocess.run([prepare(arguments.folder), os.path.abspath(__file__)] + sys.argv[1:]).returncode
    try:
        import apsw, numpy  # noqa: F401, E401
    except ImportError as lacking:
        print(f"SKIPPED: {lacking}: without it nothing can be measured")
        return 77
    return Bench(arguments).run()


if __name__ == "__main__":
    sys.exit(main())
