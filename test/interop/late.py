"""A commit that a crash has cut off between the database's commit and the array's, and that TileDB, which does not know
of it, has merged over. When the commit's database publishes it, newer cells must stay, cells that no other fragment has
must appear, and TileDB must read the same as tessera.

The cells and boxes are random: first some cells, then the commit that is cut off, then the writes of others, TileDB's
consolidation (and vacuum), and more writes of others.

usage: late.py SHELL EXTENSION [CASES [SEED]]      (77: the package `tiledb` is not installed)
"""
import json
import os
import random
import sqlite3
import sys
import time

from cases import TILEDB_MEMORY, Cases
from create import Failed, sql

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None

SIDE, FILL = 6, -2**31
KINDS = {
    "dense": f"kind=dense, x INT32 DIMENSION(0, {SIDE - 1}, 4), y INT32 DIMENSION(0, {SIDE - 1}, 3), v INT32 NOT NULL",
    "dense 12": f"kind=dense, x INT32 DIMENSION(0, {SIDE - 1}, 4), y INT32 DIMENSION(0, {SIDE - 1}, 3), v INT32 NOT NULL, format_version=12",
    "dense 3": f"kind=dense, x INT32 DIMENSION(0, {SIDE - 1}, 4), y INT32 DIMENSION(0, {SIDE - 1}, 3), v INT32 NOT NULL, format_version=3",
    "sparse": f"x INT32 DIMENSION(0, {SIDE - 1}), y INT32 DIMENSION(0, {SIDE - 1}), v INT32 NOT NULL",
    "sparse 12": f"x INT32 DIMENSION(0, {SIDE - 1}), y INT32 DIMENSION(0, {SIDE - 1}), v INT32 NOT NULL, format_version=12",
    "sparse 3": f"x INT32 DIMENSION(0, {SIDE - 1}), y INT32 DIMENSION(0, {SIDE - 1}), v INT32 NOT NULL, format_version=3",
    "duplicates": f"x INT32 DIMENSION(0, {SIDE - 1}), y INT32 DIMENSION(0, {SIDE - 1}), v INT32 NOT NULL, duplicates=yes",
}


class Session:
    def __init__(self, shell, extension, folder, definition):
        self.shell, self.extension, self.folder, self.array = shell, extension, folder, os.path.join(folder, "a")
        self.path = "'" + self.array + "'"
        self("ours", f"CREATE VIRTUAL TABLE d.t USING tessera({self.path}, {definition})")
        self("theirs", f"CREATE VIRTUAL TABLE d.t USING tessera({self.path})")

    def __call__(self, database, *statements):
        time.sleep(0.003)  # so that two commits do not have the same millisecond
        return sql(self.shell, self.extension, [f"ATTACH '{os.path.join(self.folder, database)}' AS d", *statements])

    def rows(self, database):
        return sorted((row["x"], row["y"], row["v"]) for row in self(database, "SELECT x, y, v FROM d.t"))

    def write(self, database, cells, value):
        self(database, "INSERT INTO d.t VALUES" + ", ".join(f"({x}, {y}, {value})" for x, y in sorted(cells)))

    def cut_off(self):
        """Restores the state that a crash between the database's commit and the array's leaves."""
        db = sqlite3.connect(os.path.join(self.folder, "ours"))
        (commit,), = db.execute("SELECT name FROM t_commits")
        db.close()
        new, file = commit.startswith("__commits/"), os.path.join(self.array, commit)
        stem = commit.split("/")[1 if new else 0].split(".")[0]
        marker = os.path.join(self.array, f"__commits/{stem}.pending" if new else f"{stem}/.pending")
        fragments = [stem]
        if commit.endswith(".con"):
            with open(file, "rb") as f:
                fragments = [os.path.basename(line)[:-4].decode() for line in f.read().split(b"\n") if line.endswith(b".wrt")]
            os.rename(file, os.path.join(self.array, "__commits", "." + stem))
        elif commit.endswith(".tdb"):
            os.rename(file, os.path.join(self.array, stem, ".metadata"))
        else:
            os.remove(file)
        with open(marker, "w") as f:
            f.write("".join(line + "\n" for line in [commit, *fragments, "", os.path.join(self.folder, "ours")]))

    def merged_boxes(self):
        rows = self("theirs", f"SELECT start_time AS s, end_time AS e, non_empty_domain AS n FROM tessera_fragments({self.path})")
        return [json.loads(row["n"]) for row in rows if row["s"] < row["e"]]

    def tiledb_rows(self):
        with tiledb.open(self.array) as a:
            if a.schema.sparse:
                read = a[:]
                return sorted((int(x), int(y), int(v)) for x, y, v in zip(read["x"], read["y"], read["v"]))
            values = a[:, :]
            values = values["v"] if isinstance(values, dict) else values
            return {(x, y): int(values[x, y]) for x in range(SIDE) for y in range(SIDE)}


def box(r, most=SIDE):
    (x0, x1), (y0, y1) = (sorted((r.randrange(SIDE), r.randrange(SIDE))) for _ in range(2))
    cells = [(x, y) for x in range(x0, x1 + 1) for y in range(y0, y1 + 1)]
    return set(cells if r.random() < 0.6 else r.sample(cells, max(1, min(len(cells), r.randrange(1, 9)))))


def written(rows):
    """Returns the cells with values. In a dense array others were never written, or hold the fill value because TileDB's merges fill the gaps in their boxes."""
    return [row for row in rows if row[2] not in (None, FILL)]


def equal(what, got, wanted):
    if got != wanted:
        raise Failed(f"{what}\n  got    {got}\n  wanted {wanted}")


def run(folder, shell, extension, kind, seed):
    r = random.Random(seed)
    s = Session(shell, extension, folder, KINDS[kind])
    dense, duplicates, timed = "dense" in kind, kind == "duplicates", kind in ("sparse", "sparse 3")
    old, newer = set(), set()
    for value in range(r.randrange(1, 3)):
        cells = box(r)
        old |= cells
        s.write("theirs", cells, value)
    mine = box(r)
    if "3" in kind and dense:  # a commit of version 3 has one box
        mine = {(x, y) for x, y in mine if x == min(mine)[0]}
        mine = {(min(mine)[0], y) for y in range(min(mine)[1], max(y for _, y in mine) + 1)}
    s.write("ours", mine, 100)
    s.cut_off()
    for value in range(200, 200 + r.randrange(1, 3)):
        cells = box(r)
        newer |= cells
        s.write("theirs", cells, value)
    config = tiledb.Config({"sm.compute_concurrency_level": "2", "sm.io_concurrency_level": "2", **TILEDB_MEMORY})
    tiledb.consolidate(s.array, config=config)
    merged = s.merged_boxes()
    vacuumed = bool(r.randrange(2))
    if vacuumed:
        tiledb.vacuum(s.array, config=config)
    if r.randrange(2):
        cells = box(r)
        newer |= cells
        s.write("theirs", cells, 300)
    others = s.rows("theirs")
    covered = {(x, y) for b in merged for x in range(b["x"][0], b["x"][1] + 1) for y in range(b["y"][0], b["y"][1] + 1)}
    hidden = newer | ((covered if dense else old) if vacuumed and merged and not timed else set())
    kept = mine if duplicates else mine - hidden
    wanted = sorted([row for row in others if duplicates or row[:2] not in kept] + [(x, y, 100) for x, y in kept])
    before = s.rows("ours")
    if dense:
        wanted, before = written(wanted), written(before)
    equal(f"{kind}, {seed}: before recovery", before, wanted)
    equal("recovered", s("ours", "SELECT tessera_recover('db:d.t') AS n"), [{"n": 1}])
    for who in ("ours", "theirs"):
        equal(f"{kind}, {seed}: {who}", written(s.rows(who)), wanted)
    read = s.tiledb_rows()
    equal(f"{kind}, {seed}: TileDB", {key: read[key] for key in ((x, y) for x, y, _ in wanted)} if dense else read,
          {(x, y): v for x, y, v in wanted} if dense else wanted)
    found = s("theirs", f"SELECT severity, file, message FROM tessera_check({s.path})")
    equal(f"{kind}, {seed}: the check", [row for row in found if row["severity"] != "note"], [])
    late = [row["message"] for row in found if row["file"].endswith(".late")]
    spanned = bool(merged) and not timed and not duplicates
    equal(f"{kind}, {seed}: notes {late}", len(late), spanned)
    if spanned and f": {len(mine - kept)} of its {len(mine)} cells" not in late[0]:
        raise Failed(f"{kind}, {seed}: {late[0]}, where {len(mine - kept)} of {len(mine)} cells were dropped")
    equal(f"{kind}, {seed}: what is left", [row["file"] for row in found if "pending" in row["file"]], [])
    equal("recovered again", s("ours", "SELECT tessera_recover('db:d.t') AS n"), [{"n": 0}])
    return {"late": spanned, "dropped": len(mine - kept), "kept": len(kept)}


def main():
    shell, extension = sys.argv[1:3]
    count, seed = (int(text) for text in (sys.argv[3:] + ["2", "1"][len(sys.argv) - 3:])[:2])
    if not tiledb:
        print("SKIPPED: the package tiledb is not installed")
        sys.exit(77)
    tests = Cases("late")
    for i in range(count):
        for kind in KINDS:
            tests.run(f"{kind} {seed + i}", run, shell, extension, kind, seed + i)
    sys.exit(tests.end(", ".join(f"{n} {what}" for what, n in sorted(tests.tally.items()))))


if __name__ == "__main__":
    main()
