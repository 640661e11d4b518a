"""Cuts off maintenance (consolidation, vacuum, metadata, schema evolution, groups, copies) at a system call: the
process dies there, or the call fails. Then the test checks that the array opens, that tessera_check finds nothing but
notes, and that at each time the array is as before the operation or as after it. The operation is then run again, and
must leave the array as after the operation.

usage: crash_upkeep.py EXTENSION CORPUS [all|SAMPLES [SEED [SCENARIO]]]      (inject.c: as for crash.py)
"""
import collections
import ctypes
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback

import crash
import host
from crash import FAULTS, FULL, KILL, KILL_WITHIN, KILLED, NOTHING, files, in_child, inject, with_rows
from host import Database, Error, literal, slashes

KEY = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
NAME = re.compile(r"__(\d+)_(\d+)_[0-9a-f]{32}")

SPARSE = ["CREATE VIRTUAL TABLE t USING tessera('@a', x INT DIMENSION(0, 100000, 10), a INT, s TEXT, capacity=8)",
          "INSERT INTO t SELECT i, i, 'first' || i FROM n(1, 20)", "INSERT INTO t SELECT i, -i, 'second' || i FROM n(11, 25)",
          "DELETE FROM t WHERE x % 7 = 3", "INSERT INTO t SELECT i, 5 * i, 'third' || i FROM n(22, 40)"]
DENSE = ["CREATE VIRTUAL TABLE t USING tessera('@a', kind=dense, x INT DIMENSION(1, 40, 5), y INT DIMENSION(1, 8, 4), a INT)",
         "INSERT INTO t SELECT i, 1, i FROM n(1, 6)", "INSERT INTO t SELECT i, 1, -i FROM n(4, 9)", "INSERT INTO t SELECT i, 1, i * i FROM n(9, 12)",
         "INSERT INTO t SELECT i, 7, i FROM n(30, 33)", "INSERT INTO t SELECT i, 7, i FROM n(34, 36)"]
ENCRYPTED = [s.replace("s TEXT", "s TEXT, encryption=aes_256_gcm, key_file='@key'") for s in SPARSE]
FIRST, SECOND = (f"(SELECT time FROM tessera_log('@a') ORDER BY time LIMIT 1 OFFSET {n})" for n in range(2))
META = ["SELECT tessera_set_metadata('@a', 'k', 1)", "SELECT tessera_set_metadata('@a', 'other', 'one')", "SELECT tessera_set_metadata('@a', 'k', 2)",
        "SELECT tessera_set_metadata('@a', 'other', NULL)"]
GROUP = ["SELECT tessera_create_group('@g')", "SELECT tessera_set_metadata('@g', 'k', 1)", "SELECT tessera_set_metadata('@g', 'k', 2)",
         "SELECT tessera_set_metadata('@g', 'other', 3)"]
EVOLVING = ["CREATE VIRTUAL TABLE t USING tessera('@a', x INT DIMENSION(0, 99, 10) CURRENT(0, 9), a INT, e TEXT ENUM('one', 'two'))",
            "INSERT INTO t SELECT i, i, 'one' FROM n(1, 5)"]
INSIDE = [s.replace("'@a', ", "") for s in SPARSE]


class Scenario:
    """`twice`: the error of a second run after a successful one; None if a second run succeeds. `adds`: a second run would add a fragment, so
    what was done is not done once more. `tiers`: what an interrupted run has merged makes other tiers, so a second run may
    leave another number of fragments."""

    def __init__(self, first, then, twice=None, copied=None, adds=False, tiers=False):
        self.first, self.then, self.twice, self.copied, self.adds, self.tiers = first, then, twice, copied, adds, tiers


def consolidate(what, options="{}"):
    return f"SELECT tessera_consolidate('@a', '{what}', '{options}')"


def vacuum(what):
    return f"SELECT tessera_vacuum('@a', '{what}')"


def create_as(path, select, **options):
    quoted = select.replace("'", "''")
    return f"SELECT tessera_create_as('{path}', '{quoted}', '{json.dumps({'dimensions': ['x'], 'kind': 'sparse', **options} if options.get('if_exists') != 'append' else options)}')"


MERGE = consolidate("fragments")
SCENARIOS = {
    "merge sparse": Scenario(SPARSE, MERGE),
    "merge duplicates": Scenario([s.replace("capacity=8", "capacity=8, duplicates=yes") for s in SPARSE], MERGE),
    "merge encrypted": Scenario(ENCRYPTED, MERGE),
    "merge dense": Scenario(DENSE, MERGE),
    "merge version 9": Scenario([], MERGE, copied="old/lib2.3_py0.9.5/sparse2d"),
    "purge": Scenario(SPARSE, consolidate("fragments", '{"purge_deleted": true}')),
    "merge inside": Scenario(INSIDE, "SELECT tessera_consolidate('db:t')"),
    "commits": Scenario(SPARSE, consolidate("commits")),
    "footers": Scenario(SPARSE, consolidate("fragment_meta")),
    "footers of commits in one file": Scenario(DENSE + [consolidate("commits"), vacuum("commits")], consolidate("fragment_meta")),
    "commits of footers in one file": Scenario(DENSE + [consolidate("fragment_meta")], consolidate("commits")),
    "metadata": Scenario(SPARSE[:2] + META, consolidate("array_meta")),
    "metadata of a group": Scenario(GROUP, "SELECT tessera_consolidate('@g')"),
    "vacuum sparse": Scenario(SPARSE + [MERGE], vacuum("fragments")),
    "vacuum dense": Scenario(DENSE + [MERGE], vacuum("fragments")),
    "vacuum of commits in one file": Scenario(DENSE + [consolidate("commits"), vacuum("commits"), "INSERT INTO t SELECT i, 7, i FROM n(37, 39)", MERGE], vacuum("fragments")),
    "vacuum version 9": Scenario([MERGE], vacuum("fragments"), copied="old/lib2.3_py0.9.5/sparse2d"),
    "vacuum commits": Scenario(SPARSE + [consolidate("commits"), "INSERT INTO t VALUES(77, 7, '')", consolidate("commits")], vacuum("commits")),
    "vacuum footers": Scenario(SPARSE + [consolidate("fragment_meta"), "INSERT INTO t VALUES(77, 7, '')", consolidate("fragment_meta")], vacuum("fragment_meta")),
    "vacuum of pairs": Scenario(DENSE + [consolidate("commits"), consolidate("fragment_meta"), "INSERT INTO t SELECT i, 7, i FROM n(37, 39)", consolidate("fragment_meta"),
                                         consolidate("commits")], "SELECT tessera_vacuum('@a')"),
    "vacuum metadata": Scenario(SPARSE[:2] + META + [consolidate("array_meta")], vacuum("array_meta")),
    "vacuum of a group": Scenario(GROUP + ["SELECT tessera_consolidate('@g')"], "SELECT tessera_vacuum('@g')"),
    "vacuum all": Scenario(SPARSE + META + [MERGE, consolidate("commits"), consolidate("fragment_meta"), consolidate("array_meta")], "SELECT tessera_vacuum('@a')"),
    "upkeep": Scenario(SPARSE + ["INSERT INTO t SELECT i, i, 'fourth' || i FROM n(41, 50)", "INSERT INTO t SELECT i, i, 'fifth' || i FROM n(45, 60)"],
                       "SELECT tessera_upkeep('@a', '{\"fanout\":4,\"grace_s\":0}')"),
    "upkeep of two runs": Scenario(SPARSE[:1] + [f"INSERT INTO t SELECT i, {n}, 'run' FROM n({5 * n}, {5 * n + 7})" for n in range(8)],   # both are committed together
                                   "SELECT tessera_upkeep('@a', '{\"fanout\":4,\"grace_s\":0}')"),
    "upkeep that joins commits": Scenario(SPARSE[:1] + [f"INSERT INTO t VALUES({n}, {n}, 'one')" for n in range(64)],
                                          "SELECT tessera_upkeep('@a', '{\"fanout\":4,\"vacuum\":false,\"grace_s\":0}')", tiers=True),
    "vacuum inside": Scenario(INSIDE + ["SELECT tessera_consolidate('db:t')"], "SELECT tessera_vacuum('db:t')"),
    "set metadata": Scenario(SPARSE[:2] + META, "SELECT tessera_set_metadata('@a', 'k', 3)"),
    "delete metadata": Scenario(SPARSE[:2] + META, "SELECT tessera_set_metadata('@a', 'k', NULL)"),
    "set metadata of a group": Scenario(GROUP, "SELECT tessera_set_metadata('@g', 'k', 3)"),
    "add an attribute": Scenario(EVOLVING, "SELECT tessera_add_attribute('@a', 'f TEXT ENUM(''a'', ''b'')')", "'f'"),
    "drop an attribute": Scenario(EVOLVING, "SELECT tessera_drop_attribute('@a', 'e')", "no attribute 'e'"),
    "extend an enumeration": Scenario(EVOLVING, "SELECT tessera_extend_enumeration('@a', 'e', 'three')", "three"),
    "expand the domain": Scenario(EVOLVING, "SELECT tessera_expand_domain('@a', '{\"x\": [0, 19]}')"),
    "create a group": Scenario([], "SELECT tessera_create_group('@g')", "already there"),
    "add a member": Scenario(SPARSE[:2] + GROUP, "SELECT tessera_add_member('@g', '@a', 'm')", "already"),
    "remove a member": Scenario(SPARSE[:2] + GROUP + ["SELECT tessera_add_member('@g', '@a', 'm')"], "SELECT tessera_drop_member('@g', 'm')", "no member"),
    "drop": Scenario(SPARSE, "SELECT tessera_drop('@a')", "no such directory"),   # or an empty directory is left
    "export": Scenario(INSIDE, "SELECT tessera_sync('db:t', '@out')"),
    "import": Scenario(SPARSE, "SELECT tessera_sync('@a', 'db:i')"),
    "sync new commits": Scenario(SPARSE[:2] + ["SELECT tessera_sync('@a', '@out')"] + SPARSE[2:], "SELECT tessera_sync('@a', '@out')"),
    "sync a merge": Scenario(SPARSE + ["SELECT tessera_sync('@a', '@out')", MERGE], "SELECT tessera_sync('@a', '@out')"),
    "sync a vacuum": Scenario(SPARSE + ["SELECT tessera_sync('@a', '@out')", MERGE, vacuum("fragments")], "SELECT tessera_sync('@a', '@out')"),
    "sync a dense vacuum": Scenario(DENSE + ["SELECT tessera_sync('@a', '@out')", MERGE, vacuum("fragments")], "SELECT tessera_sync('@a', '@out')"),
    "sync inside": Scenario(INSIDE + ["SELECT tessera_sync('db:t', '@out')", "INSERT INTO t VALUES(77, 7, '')"], "SELECT tessera_sync('db:t', '@out')"),
    "sync within the database": Scenario(INSIDE + ["SELECT tessera_sync('db:t', 'db:i')", "INSERT INTO t VALUES(77, 7, '')", "DELETE FROM t WHERE x = 1"], "SELECT tessera_sync('db:t', 'db:i')"),
    "sync into the database": Scenario(SPARSE + ["SELECT tessera_sync('@a', 'db:i')", MERGE, vacuum("fragments")], "SELECT tessera_sync('@a', 'db:i')"),
    "sync before the first time": Scenario(SPARSE, "SELECT tessera_sync('@a', '@out', '{\"as_of\":1}')"),   # an array without cells, which a first sync with as_of begins with
    "sync up to a time": Scenario(SPARSE + ["SELECT tessera_sync('@a', '@out', '{\"as_of\":1}')"], f"SELECT tessera_sync('@a', '@out', json_object('as_of', {SECOND}))"),
    "sync more up to a time": Scenario(SPARSE + [f"SELECT tessera_sync('@a', '@out', json_object('as_of', {FIRST}))"], f"SELECT tessera_sync('@a', '@out', json_object('as_of', {SECOND}))"),
    "revert": Scenario(SPARSE, f"SELECT tessera_revert('db:t', {FIRST})"),
    "revert dense": Scenario(DENSE, f"SELECT tessera_revert('db:t', {SECOND})"),
    "revert inside": Scenario(INSIDE, "SELECT tessera_revert('db:t', 0)"),
    "copy": Scenario(SPARSE, "SELECT tessera_copy('@a', '@out', '{\"capacity\": 100}')", "already there"),
    "create as": Scenario(SPARSE, create_as("@out", "SELECT x, a, s FROM t", metadata={"k": 1}), "there is an array already"),
    "create as, inside": Scenario(INSIDE, create_as("db:i", "SELECT x, a, s FROM t", metadata={"k": 1}), "there is an array already"),
    "create csv": Scenario([], "SELECT tessera_create_csv('@out', '@rows.csv', '{\"dimensions\":[\"x\"],\"enumerate\":[\"s\"]}')", "there is an array already"),
    "append": Scenario(EVOLVING, create_as("@a", "SELECT 6 AS x, 7 AS a, 'three' AS e UNION ALL SELECT 7, 8, 'one'", if_exists="append"), adds=True),
    "replace": Scenario(SPARSE, create_as("@a", "SELECT 6 AS x, 'six' AS v", if_exists="replace")),
    "replace inside": Scenario(INSIDE, create_as("db:t", "SELECT 6 AS x, 'six' AS v", if_exists="replace")),
}


def execute(db, folder, statements):
    for sql in [statements] if isinstance(statements, str) else statements:
        db.query(with_rows(sql.replace("@", folder + "/")))


def open_database(folder):
    db = Database(os.path.join(folder, "t.db"))
    if os.path.exists(os.path.join(folder, "key")):
        db.query("SELECT tessera_set_key(?, ?)", (os.path.join(folder, "a"), KEY))
    return db


def build(folder, scenario):
    if scenario.copied:
        shutil.copytree(host.corpus(scenario.copied), os.path.join(folder, "a"))
    db = Database(os.path.join(folder, "t.db"))
    if "key_file" in str(scenario.first):
        with open(os.path.join(folder, "key"), "w") as f:
            f.write(KEY)
    if "csv" in scenario.then:
        with open(os.path.join(folder, "rows.csv"), "w") as f:
            f.writelines(["x,s,v\n", *(f"{i},label {i % 3},{i / 4}\n" for i in range(50))])
    execute(db, folder, scenario.first)
    db.close()


def times_of(folder, db):
    """The present, each time in the name of a file, and the millisecond before each."""
    names = "\n".join(files(folder))
    if db.query("SELECT 1 FROM sqlite_schema WHERE name = 't_files'"):
        names += "\n" + "\n".join(row[0] for row in db.query("SELECT name FROM t_files"))
    stamps = {int(t) for found in NAME.findall(names) for t in found}
    return [None, *sorted({t + d for t in stamps for d in (-1, 0)})]


def kind_of(db, folder, path):
    found = db.query("SELECT kind FROM tessera_objects(?) WHERE path = ?", (folder, slashes(path)))
    return found[0][0] if found else None


def rows_at(db, table, t):
    """The rows of a table at a time, or that this past is lost: a purge or a vacuum has taken it away."""
    try:
        return sorted(db.query(f"SELECT * FROM {table} WHERE as_of IS ?", (t,)), key=repr)
    except Error as e:
        assert t is not None and "is lost: cells" in e.text, e.text
        return "lost"


def look(folder, times):
    """Returns {(object, what, time): contents}."""
    db, seen = open_database(folder), {}
    inside = {row[0][:-6] for row in db.query("SELECT name FROM sqlite_schema WHERE name LIKE '%\\_files' ESCAPE '\\'")}
    objects = {name: os.path.join(folder, name) for name in ("a", "g", "out")}
    objects.update({f"db:{name}": f"db:{name}" for name in ("t", "i")})
    for name, path in objects.items():
        kind = kind_of(db, folder, path) if not name.startswith("db:") else "array" if name[3:] in inside else None
        seen[name, "kind", None] = kind
        if not kind:
            continue
        if kind == "array":
            seen[name, "ddl", None] = db.value("SELECT tessera_ddl(?)", (path,)).split("(", 1)[1].split(",", 1)[1]
            seen[name, "check", None] = db.query("SELECT severity, file, message FROM tessera_check(?) WHERE severity <> 'note'", (path,))
            seen[name, "fragments", None] = db.value("SELECT count(*) FROM tessera_fragments(?)", (path,))
            if not name.startswith("db:"):
                db.query(f"CREATE VIRTUAL TABLE temp.look USING tessera({literal(path)})")
        else:
            for t in times:
                seen[name, "members", t] = db.query("SELECT name, kind FROM tessera_members(?) WHERE as_of IS ?", (path, t))
        for t in times:
            if kind == "array":
                table = name[3:] if name.startswith("db:") else "temp.look"
                seen[name, "rows", t] = rows_at(db, table, t)
            seen[name, "metadata", t] = db.query("SELECT key, value FROM tessera_metadata(?) WHERE as_of IS ?", (path, t))
        db.query("DROP TABLE IF EXISTS temp.look")
    db.close()
    return seen


def shape(folder):
    """Counts the files of each kind in each directory, without those that readers ignore."""
    found = collections.Counter()
    for path in files(folder):
        if "/." not in "/" + path:
            found[NAME.sub("N", path)] += 1
    return found


def allowed(key, before, after, old):
    """Files of metadata are removed one by one, the newest first, so that in between an earlier state is visible. The same holds for fragments below version 12."""
    name, what, t = key
    values = [before.get(key), after.get(key)]
    if what == ("rows" if old else "metadata") and t is not None:
        values += [v for (n, w, earlier), v in before.items() if n == name and w == what and earlier is not None and earlier < t]
    return values


def examine(folder, scenario, times, before, after, wanted):
    """Examines the array after the fault."""
    seen = look(folder, times)
    for key, value in seen.items():
        if key[1] == "fragments":
            continue
        if key[1] == "check":
            assert value == [], f"tessera_check of {key[0]}: {value[:3]}"
        elif value not in allowed(key, before, after, scenario.copied):
            raise AssertionError(f"{key}: {str(value)[:400]} is neither {str(before.get(key))[:400]} nor {str(after.get(key))[:400]}")
    for lease in files(folder):   # as if the time of a dead process' lease were over
        if "/.lease_" in lease:
            os.remove(os.path.join(folder, lease))
    if scenario.adds and seen == after:
        return True
    db = open_database(folder)
    try:
        execute(db, folder, scenario.then)
    except Error as e:
        out = os.path.join(folder, "out")
        if "tessera_sync" in scenario.then:   # what a first sync leaves is taken over
            raise
        if os.path.exists(out) and not kind_of(db, folder, out):   # nobody has finished it, and nobody knows whether somebody will
            assert "remove the directory" in e.text or "part of an array is there" in e.text or not os.listdir(out), f"once more: {e.text}"
            shutil.rmtree(out)
            execute(db, folder, scenario.then)
        elif "tessera_drop(" in scenario.then and os.path.exists(os.path.join(folder, "a")) and not os.listdir(os.path.join(folder, "a")):
            os.rmdir(os.path.join(folder, "a"))
        else:
            assert scenario.twice and scenario.twice in e.text, f"once more: {e.text}"
            # it was done; or the dead process had claimed to, and this call has first finished that (evolve.c, "Publishing a schema")
            assert after == (seen if seen == after else look(folder, times)), f"once more: {e.text}, but it was not done"
    db.close()
    last = look(folder, times)
    for key in after:
        if key[1] == "fragments" and scenario.tiers:
            continue
        assert last.get(key) == after[key], f"once more, {key}: {str(last.get(key))[:400]} instead of {str(after[key])[:400]}"
    if "tessera_vacuum(" in scenario.then:
        left = shape(folder)
        for kind in [k for k in {**left, **wanted} if not k.endswith((".con", ".ign"))]:
            assert left[kind] == wanted[kind], f"once more: {left[kind]} files {kind} instead of {wanted[kind]}"
    return seen == after


def with_fault(folder, scenario, fault, at, times, before, after):
    """Runs the operation with a fault, in the child, on a connection that has read the array."""
    db = open_database(folder)
    if os.path.exists(os.path.join(folder, "a")):
        db.query("SELECT tessera_ddl(?)", (os.path.join(folder, "a"),))
    there = files(folder)
    inject.inject_arm(fault, ctypes.c_long(at))
    error = None
    try:
        execute(db, folder, scenario.then)
    except Error as e:
        error = e
    inject.inject_disarm()
    if error:
        assert error.text and error.text not in ("SQL logic error", "not an error"), f"no clear error: {error.text}"
        follows = any("'@out'" in s for s in scenario.first)   # what a sync has copied stays for the next one, and so does a whole copy, whose schema comes last
        follows = follows or "tessera_sync" in scenario.then and os.path.isdir(os.path.join(folder, "out", "__schema"))
        if fault == FULL and "vacuum" not in scenario.then and "upkeep" not in scenario.then and not follows:   # these may have done a part; an enumeration file that no schema names may be left
            ignored = "/__schema/" if "append" in scenario.then else "/__enumerations/"   # labels that an append has added stay
            left = [f for f in files(folder) if ignored not in f and "/.lease_" not in f]   # the last lease of an array stays
            assert left == [f for f in there if ignored not in f], f"{error.text}: left {sorted(set(files(folder)) - set(there))}, gone {sorted(set(there) - set(files(folder)))}"
    db.close()
    return f"{error.text if error else 'no error'}"


def run(name, scenario, samples, rng):
    failed = cuts = done = 0
    with tempfile.TemporaryDirectory() as root:
        template, work = os.path.join(root, "work"), os.path.join(root, "work")   # arrays and groups store absolute paths
        kept = os.path.join(root, "kept")
        os.mkdir(template)
        build(template, scenario)
        shutil.copytree(template, kept, symlinks=True)

        def fresh():
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(kept, work, symlinks=True)

        db = open_database(work)
        times = times_of(work, db)
        db.close()
        before = look(work, times)
        db = open_database(work)
        time.sleep(0.002)
        inject.inject_arm(NOTHING, ctypes.c_long(0))
        execute(db, work, scenario.then)
        calls = inject.inject_disarm()
        db.close()
        after, wanted = look(work, times), shape(work)
        assert calls > 0 and all(v == [] for k, v in after.items() if k[1] == "check"), (name, calls)
        points = [(fault, at) for fault in FAULTS for at in range(1, calls + 3)]
        if samples:
            points = sorted(rng.sample(points, min(samples, len(points))))
        for fault, at in points:
            fresh()
            status, text = in_child(with_fault, work, scenario, fault, at, times, before, after)
            try:
                assert status in (0, KILLED), f"exit status {status}: {text}"
                done += examine(work, scenario, times, before, after, wanted)
                cuts += 1
            except Exception as e:
                failed += 1
                print(f"FAILED {name}, {FAULTS[fault]} call {at} of {calls} ({text.strip().splitlines()[-1] if text.strip() else 'killed'})")
                print("  ", "".join(traceback.format_exception_only(type(e), e)).strip()[:1500], flush=True)
        print(f"{name}: {calls} calls, {cuts} faults, after {done} of them it was done", flush=True)
    return failed


def main():
    if sys.argv[1:] == ["--child"]:
        return crash.serve_parent()
    started = crash.start(3)
    if not started:
        return 1
    samples, rng, is_wanted = started
    failed = 0
    for name, scenario in SCENARIOS.items():
        if name == "replace" and os.name == "nt":
            print("replace: left out, Windows cannot exchange directories")
        elif is_wanted(name):
            failed += run(name, scenario, samples, rng)
    print(f"{failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
