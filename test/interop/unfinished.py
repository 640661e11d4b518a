"""Arrays in the states that TileDB leaves when it is killed, fails, or is in the middle of a write: tessera reads what
TileDB reads, and repairs the arrays so that TileDB can go on.

usage: unfinished.py SHELL EXTENSION      (77: the package `tiledb` is not installed)
"""
import os
import shutil
import subprocess
import sys
import time

from cases import TILEDB_MEMORY, Cases
from create import Failed, literal, sql

try:
    import numpy as np
    import tiledb
except ImportError:
    tiledb = None

SHELL, EXTENSION = sys.argv[1:3]
STATEMENTS = 12  # statements of a reader beside writers


def make(path, sparse=True, duplicates=False):
    x = tiledb.Dim("x", domain=(0, 999), tile=10, dtype="i8")
    tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(x), attrs=[tiledb.Attr("v", dtype="i8")], sparse=sparse, allows_duplicates=duplicates))


def write(path, *xs):
    for x in xs:
        with tiledb.open(path, "w") as array:
            array[np.array([x])] = np.array([x])


def delete(path, x):
    with tiledb.open(path, "d") as array:
        array.query(cond=f"x=={x}").submit()


def config(mode):
    return tiledb.Config({"sm.consolidation.mode": mode, "sm.vacuum.mode": mode, "sm.compute_concurrency_level": "1", "sm.io_concurrency_level": "1", **TILEDB_MEMORY})


def consolidate(path, mode):
    tiledb.consolidate(path, config=config(mode))


def vacuum(path, mode):
    tiledb.vacuum(path, config=config(mode))


def tiledb_rows(path):
    with tiledb.open(path) as array:
        return sorted(array[:]["x"].tolist())


def run_sql(path, *statements):
    table = f"CREATE VIRTUAL TABLE t USING tessera({literal(path)})"
    return sql(SHELL, EXTENSION, [table, *(s.replace("PATH", literal(path)) for s in statements)])


def in_a_database(path, *statements):
    """Statements on the table f of a database file of its own: only such a table recovers arrays."""
    return run_sql(path, f"ATTACH {literal(path + '_database.db')} AS d", f"CREATE VIRTUAL TABLE d.f USING tessera({literal(path)})", *statements)


def tessera_rows(path):
    return [row["x"] for row in run_sql(path, "SELECT x FROM t ORDER BY x")]


def files(path, suffix, directory="__commits"):
    return sorted(f"{path}/{directory}/{name}" for name in os.listdir(f"{path}/{directory}") if name.endswith(suffix))


def expect(what, found, wanted):
    if found != wanted:
        raise Failed(f"{what}: {str(found)[:600]}; expected {str(wanted)[:300]}")


def expect_rows(what, path, wanted):
    expect(what + ", TileDB", tiledb_rows(path), wanted)
    expect(what + ", tessera", tessera_rows(path), wanted)


def expect_sound(what, path, *notes):
    found = run_sql(path, "SELECT severity, message FROM tessera_check(PATH)")
    wrong = [f for f in found if f["severity"] != "note"] or [n for n in notes if not any(n in f["message"] for f in found)]
    expect(what + ", the check", wrong and (wrong, found), [])


def killed_while_it_wrote_commits(path):
    """A .con file cut at several bytes: readers see all rows, each way of repairing the array works, and TileDB's own maintenance works afterwards."""
    make(path)
    write(path, 1, 2, 3)
    delete(path, 2)
    consolidate(path, "commits")
    con = files(path, ".con")[0]
    whole = open(con, "rb").read()
    for i, size in enumerate((0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 100, len(whole) - 1)):
        copy = f"{path}_{i}"
        shutil.copytree(path, copy)
        os.truncate(con.replace(path, copy), size)
        expect(f"cut to {size}", tessera_rows(copy), [1, 3])
        expect_sound(f"cut to {size}", copy, "the file is cut")
        mend = "SELECT tessera_vacuum(PATH)" if i % 2 else "SELECT tessera_consolidate(PATH, 'commits')"
        run_sql(copy, mend)
        expect_sound(f"cut to {size}, mended", copy)
        expect_rows(f"cut to {size}, mended", copy, [1, 3])
        write(copy, 4)
        consolidate(copy, "commits")
        vacuum(copy, "commits")
        expect_rows(f"cut to {size}, TileDB goes on", copy, [1, 3, 4])


def its_second_consolidation_of_commits(path):
    """TileDB's second consolidation fails if a .del was consolidated and vacuumed before. After a consolidation by tessera it succeeds; after one of
    its own, once tessera has restored the files."""
    make(path)
    write(path, 1, 2, 3)
    delete(path, 1)
    run_sql(path, "SELECT tessera_consolidate(PATH, 'commits')", "SELECT tessera_vacuum(PATH)")
    expect(".del files", len(files(path, ".del")), 1)
    write(path, 4)
    delete(path, 2)
    consolidate(path, "commits")
    expect_rows("TileDB's consolidation after tessera's", path, [3, 4])
    vacuum(path, "commits")
    expect(".del files that TileDB leaves", len(files(path, ".del")), 0)
    write(path, 5)
    try:
        consolidate(path, "commits")
        print("TileDB consolidates commits without .del files: it has learned that")
    except tiledb.TileDBError as error:
        if "Cannot get file size" not in str(error):
            raise
    run_sql(path, "SELECT tessera_consolidate(PATH, 'commits')", "SELECT tessera_vacuum(PATH)")
    expect(".del files that are back", len(files(path, ".del")), 2)
    expect_sound("put back", path)
    write(path, 6)
    consolidate(path, "commits")
    expect_rows("TileDB goes on", path, [3, 4, 5, 6])


def killed_while_it_vacuumed(path):
    """A commit without its fragment: the check has a note, a vacuum removes the commit. Merged cells of sparse arrays have times, so the past stays; in
    a dense array what the fragment had is lost, and reads of the past say so."""
    for sparse in (True, False):
        array = f"{path}_{sparse}"
        make(array, sparse)
        for i, x in enumerate((1, 2, 3)):
            with tiledb.open(array, "w", timestamp=10 * (i + 1)) as a:
                a[np.array([x]) if sparse else slice(x, x + 1)] = np.array([x])
        consolidate(array, "fragments")
        shutil.rmtree(next(f for f in files(array, "", "__fragments") if "/__10_10_" in f))
        rows = "SELECT group_concat(v) AS v FROM t WHERE v > 0 ORDER BY x"
        expect("now", run_sql(array, rows)[0]["v"], "1,2,3")
        for moment in (20, 10):
            try:
                run_sql(array, f"SELECT sum(v) FROM t({moment})")
                expect("a past that is whole", sparse, True)
            except Failed as e:
                expect("a lost past", (sparse, "is lost" in str(e)), (False, True))
        expect_sound("killed", array, "a vacuum was cut off")
        run_sql(array, "SELECT tessera_vacuum(PATH)")
        expect_sound("mended", array)
        expect("mended", run_sql(array, rows)[0]["v"], "1,2,3")
        with tiledb.open(array) as a:
            expect("mended, TileDB", (a[:]["v"] if sparse else a[1:4]["v"]).tolist(), [1, 2, 3])


def staged_names(path):
    """Later versions write files under names that end in .tmp: every function ignores them, whatever they contain."""
    make(path)
    write(path, 1, 2)
    with tiledb.open(path, "w") as array:
        array.meta["k"] = "value"
    consolidate(path, "commits")
    consolidate(path, "fragment_meta")
    for directory in ("__commits", "__fragment_meta", "__meta", "__schema", "__fragments"):
        for name in os.listdir(f"{path}/{directory}"):
            if not os.path.isdir(f"{path}/{directory}/{name}"):
                open(f"{path}/{directory}/{name}.tmp", "wb").write(b"half")
            elif directory == "__fragments":
                os.mkdir(f"{path}/{directory}/{name}.tmp")
                open(f"{path}/{directory}/{name}.tmp/__fragment_metadata.tdb", "wb").close()
                open(f"{path}/{directory}/{name}/a0.tdb.tmp", "wb").write(b"half")
    os.makedirs(f"{path}/__schema/__enumerations", exist_ok=True)
    for name in ("__schema/__enumerations/__1_1_a0000000000000000000000000000000_0.tmp", "__1_1_a0000000000000000000000000000000_7.ok.tmp", "__array_schema.tdb.tmp"):
        open(f"{path}/{name}", "wb").write(b"half")
    expect("rows", tessera_rows(path), [1, 2])
    expect("metadata", [r["value"] for r in run_sql(path, "SELECT value FROM tessera_metadata(PATH)")], ["value"])
    expect_sound("staged names", path)
    for statement in ("SELECT tessera_consolidate(PATH)", "SELECT tessera_consolidate(PATH, 'array_meta')", "SELECT tessera_consolidate(PATH, 'commits')",
                      "SELECT tessera_consolidate(PATH, 'fragment_meta')", "SELECT tessera_vacuum(PATH)", "SELECT tessera_add_attribute(PATH, 'n INT32')"):
        run_sql(path, statement)
        expect(statement, tessera_rows(path), [1, 2])
        expect_sound(statement, path)


def staged_names_of_groups(path):
    group = path + "_group"
    tiledb.Group.create(group)
    make(group + "/a")
    with tiledb.Group(group, "w") as g:
        g.add("a", name="a", relative=True)
        g.meta["k"] = 1
    for directory in ("__group", "__meta"):
        for name in os.listdir(f"{group}/{directory}"):
            open(f"{group}/{directory}/{name}.tmp", "wb").write(b"half")
    found = sql(SHELL, EXTENSION, [f"SELECT name FROM tessera_members({literal(group)})"])
    expect("members", [r["name"] for r in found], ["a"])
    found = sql(SHELL, EXTENSION, [f"SELECT key FROM tessera_metadata({literal(group)})"])
    expect("metadata", [r["key"] for r in found], ["k"])


def writer(path, seed):
    """Writes, deletes, consolidates and vacuums until the array's directory has a file "end"."""
    step = 0
    while not os.path.exists(path + "_end"):
        step += 1
        try:
            if seed == 0:
                mode = ("commits", "fragments")[step % 2]
                consolidate(path, mode)
                vacuum(path, mode)
                time.sleep(0.05)
            elif step % 4:
                delete(path, step * seed % 900 + 50)
            else:
                write(path, step * seed % 900 + 50)
        except tiledb.TileDBError:
            pass  # TileDB's own write may fail while the vacuum runs


def beside_writers(path):
    """Files that TileDB is writing are never reported as damaged: at worst the error is BUSY, after which the statement is tried again."""
    make(path)
    write(path, 1, 2)
    others = [subprocess.Popen([sys.executable, sys.argv[0], SHELL, EXTENSION, "writer", path, str(seed)], stderr=subprocess.DEVNULL) for seed in range(3)]
    try:
        for i in range(STATEMENTS):
            counts = [f"SELECT count(*) AS n FROM t WHERE x < 3 AND {k} = {k}" for k in range(20)]
            try:
                expect("beside writers", run_sql(path, *counts)[0]["n"], 2)
            except Failed as error:
                if "malformed" in str(error) or "damaged" in str(error) or "locked" not in str(error) and "try again" not in str(error) and "vacuumed" not in str(error):
                    raise
    finally:
        open(path + "_end", "w").close()
        for p in others:
            p.wait()


def cut_merge(path, *state):
    """Takes a finished merge of duplicates back to a state in which it may have died: the suffixes of its files in __commits. Returns the merge's name."""
    vacuum, = files(path, ".vac")
    stem = vacuum[:-len(".vac")]
    name = os.path.basename(stem)
    hidden = f"{path}/__commits/.{name}"
    content = {"commit": f"__commits/{name}.wrt\n", "sources": "".join(line for line in open(vacuum) if "__fragments" in line)}
    for suffix in (".con", ".wrt", ".vac"):
        os.remove(stem + suffix)
    every = {".staged": (hidden, "commit"), ".vac.new": (hidden + ".vac.new", "sources"), ".vac.ign": (stem + ".vac.ign", "both"), ".vac": (stem + ".vac", "both"), ".con": (stem + ".con", "commit"),
             ".wrt": (stem + ".wrt", "")}
    for suffix in state:
        file, lines = every[suffix]
        with open(file, "w") as f:
            f.write(content["sources"] + content["commit"] if lines == "both" else content.get(lines, ""))
    return name


def merges_of_duplicates_that_died(path):
    """Whenever tessera's merge dies, TileDB reads each row once, also after its own consolidations and vacuums; the next write finishes the merge."""
    make(path, duplicates=True)
    write(path, 1, 2, 3, 4)
    run_sql(path, "SELECT tessera_consolidate(PATH)")
    states = [(".staged", ".vac.new"), (".staged", ".vac.new", ".vac.ign"), (".con", ".vac.new", ".vac.ign"), (".con", ".vac.new", ".vac"), (".con", ".wrt", ".vac.new", ".vac")]
    for i, state in enumerate(states):
        copy = f"{path}_{i}"
        shutil.copytree(path, copy)
        name = cut_merge(copy, *state)
        expect_rows(f"{state}", copy, [1, 2, 3, 4])
        expect_sound(f"{state}", copy)
        for mode in ("commits", "fragments", "write", "rollback"):
            other = f"{copy}_{mode}"
            shutil.copytree(copy, other)
            if mode == "rollback":
                in_a_database(other, "BEGIN", "INSERT INTO f VALUES(6, 6)", "ROLLBACK")
                expect(f"{state}, a transaction, the staged files", [f for f in files(other, ".ign") + files(other, ".vac.new") if ".con" in state], [])
                write(other, 5)
            elif mode == "write":
                run_sql(other, "INSERT INTO t VALUES(5, 5)")
                expect(f"{state}, a write, the staged files", [f for f in files(other, ".ign") + files(other, ".vac.new") if ".con" in state], [])
            else:
                consolidate(other, mode)
                expect_rows(f"{state}, {mode} consolidated", other, [1, 2, 3, 4])
                vacuum(other, mode)
                write(other, 5)
            expect_rows(f"{state}, {mode}", other, [1, 2, 3, 4, 5])
            run_sql(other, "SELECT tessera_consolidate(PATH)", "SELECT tessera_vacuum(PATH)")
            expect_rows(f"{state}, {mode}, tessera goes on", other, [1, 2, 3, 4, 5])
            expect_sound(f"{state}, {mode}, at the end", other)


def merges_of_duplicates_that_doubled(path):
    """The state that other releases, and merges in a bucket, may leave: TileDB sees the merged fragment beside its sources, and may merge both."""
    make(path, duplicates=True)
    write(path, 1, 2, 3, 4)
    run_sql(path, "SELECT tessera_consolidate(PATH)")
    cut_merge(path, ".wrt", ".vac.new")
    expect("the check", [f["severity"] for f in run_sql(path, "SELECT severity FROM tessera_check(PATH) WHERE severity <> 'note'")], ["warning"])
    finished = path + "_finished"
    shutil.copytree(path, finished)
    expect("two of each, TileDB", tiledb_rows(finished), [1, 1, 2, 2, 3, 3, 4, 4])
    expect("two of each, tessera", tessera_rows(finished), [1, 2, 3, 4])
    run_sql(finished, "INSERT INTO t VALUES(5, 5)")
    expect_rows("finished by a write", finished, [1, 2, 3, 4, 5])
    expect_sound("finished by a write", finished)
    consolidate(path, "fragments")
    write(path, 5)
    expect("doubled, TileDB", tiledb_rows(path), [1, 1, 2, 2, 3, 3, 4, 4, 5])
    found = run_sql(path, "SELECT message FROM tessera_check(PATH) WHERE severity = 'error'")
    expect("doubled, the check", [" twice: a source of its merge had them, too" in f["message"] for f in found], [True])
    for i, repair in enumerate(("SELECT tessera_recover(PATH)", "SELECT tessera_consolidate(PATH)", "SELECT tessera_vacuum(PATH)", "DELETE FROM f WHERE x = 99")):
        copy = f"{path}_{i}"
        shutil.copytree(path, copy)
        (in_a_database if " f " in repair else run_sql)(copy, repair)
        expect_rows(repair, copy, [1, 2, 3, 4, 5])
        expect_sound(repair, copy)
        run_sql(copy, "SELECT tessera_consolidate(PATH)", "SELECT tessera_vacuum(PATH)")
        expect_rows(repair + ", and maintenance", copy, [1, 2, 3, 4, 5])
        expect_sound(repair + ", and maintenance", copy)


def two_merges_of_the_same_duplicates(path):
    """Two processes of TileDB that consolidate at one time may both commit: one of the two merges is taken back."""
    make(path, duplicates=True)
    write(path, 1, 2, 3)
    second = path + "_second"
    shutil.copytree(path, second)
    consolidate(path, "fragments")
    consolidate(second, "fragments")
    for kind in ("__fragments", "__commits"):
        for name in os.listdir(f"{second}/{kind}"):
            if not os.path.exists(f"{path}/{kind}/{name}"):
                os.rename(f"{second}/{kind}/{name}", f"{path}/{kind}/{name}")
    expect("TileDB", tiledb_rows(path), [1, 1, 2, 2, 3, 3])
    found = run_sql(path, "SELECT message FROM tessera_check(PATH) WHERE severity = 'error'")
    expect("the check", ["both have the cells of" in f["message"] for f in found], [True])
    inserted = path + "_inserted"
    shutil.copytree(path, inserted)
    in_a_database(inserted, "INSERT INTO f VALUES(4, 4)")
    expect_rows("taken back by an INSERT", inserted, [1, 2, 3, 4])
    expect_sound("taken back by an INSERT", inserted)
    run_sql(path, "SELECT tessera_recover(PATH)")
    expect_rows("taken back", path, [1, 2, 3])
    expect_sound("taken back", path)
    run_sql(path, "SELECT tessera_consolidate(PATH)", "SELECT tessera_vacuum(PATH)")
    expect_rows("and maintenance", path, [1, 2, 3])


def within(folder, case):
    case(os.path.join(folder, "array"))


CASES = [killed_while_it_wrote_commits, its_second_consolidation_of_commits, killed_while_it_vacuumed, staged_names, staged_names_of_groups, merges_of_duplicates_that_died, merges_of_duplicates_that_doubled,
         two_merges_of_the_same_duplicates, beside_writers]


def main():
    if not tiledb:
        print("SKIPPED: the package tiledb is not installed")
        sys.exit(77)
    if len(sys.argv) > 4:
        return writer(sys.argv[4], int(sys.argv[5]))
    cases = Cases("unfinished")
    for case in CASES:
        cases.run(case.__name__, within, case)
    sys.exit(cases.end())


if __name__ == "__main__":
    main()
