"""tessera_sync: copies that follow an array, copies that diverged and are merged, and what it refuses. Both sides are
compared row by row, at each time at which either has a commit.

usage: sync.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os
import random
import re
import shutil
import sys

import host
from host import Database, check_contains, literal, same

HISTORIES = int(os.environ.get("HISTORIES", 6))
STEPS = 14
NOTHING = {"copied": 0, "removed": 0, "bytes": 0}
COLUMNS = {
    "sparse": "x INT32 DIMENSION(0, 99, 10), v INT32, s TEXT",
    "dense": "kind=dense, x INT32 DIMENSION(0, 39, 10), v INT32, s TEXT",
    "duplicates": "x INT32 DIMENSION(0, 99, 10), v INT32, s TEXT, duplicates=yes",
}


def path(name):
    return os.path.join(host.FOLDER, name)


def sync(db, source, target, **options):
    return json.loads(db.value("SELECT tessera_sync(?, ?, ?)", (source, target, json.dumps(options))))


def commits(db, place):
    """The names of committed fragments and deletes, with their times."""
    names = {name for name, in db.query("SELECT name FROM tessera_fragments(?)", (place,))}
    times = {int(t) for name in names for t in re.findall(r"__(\d+)_(\d+)_", name)[0]}
    return names, times


def rows_at(db, table, t):
    """The rows of a table at a time, or that a vacuum or a purge has taken this past away."""
    try:
        return sorted(db.query(f"SELECT *, written_at FROM {table} WHERE as_of IS ? AND written_at IS NOT NULL", (t,)), key=repr)
    except host.Error as e:
        assert t is not None and "is lost: cells" in e.text, e.text
        return "lost"


def state(db, place, times):
    """Everything that readers see, at each time."""
    table = place[3:] if place.startswith("db:") else "temp.look"
    if table == "temp.look":
        db.query("DROP TABLE IF EXISTS temp.look")
        db.query(f"CREATE VIRTUAL TABLE temp.look USING tessera({literal(place)})")
    seen = {t: rows_at(db, table, t) for t in (None, *sorted(times))}
    seen["metadata"] = db.query("SELECT key, value FROM tessera_metadata(?)", (place,))
    seen["check"] = db.query("SELECT severity, message FROM tessera_check(?) WHERE severity <> 'note'", (place,))
    return seen


def same_arrays(db, one, other, what=""):
    (names, times), (others, more) = commits(db, one), commits(db, other)
    same(names, others, what)
    same(state(db, other, times | more), state(db, one, times | more), what)


def place_of(kind, name):
    return f"db:{name}" if kind == "db" else path(name)


def make(db, kind, name, columns):
    where = place_of(kind, name)
    db.query(f"CREATE VIRTUAL TABLE {name} USING tessera({columns if kind == 'db' else literal(where) + ', ' + columns})")
    return where


def look_at(db, name, where):
    """Gives the copy a table of its name, so that rows can be written to it."""
    if not where.startswith("db:"):
        db.query(f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING tessera({literal(where)})")


def write(db, rng, name, columns):
    """One commit: rows, or a delete, or both."""
    cells = 40 if "dense" in columns else 100
    for _ in range(rng.randint(1, 3)):
        x = rng.randrange(cells)
        db.query(f"INSERT OR REPLACE INTO {name}(x, v, s) VALUES(?, ?, ?)", (x, rng.randrange(1000), rng.choice("abc")))
    if "dense" not in columns and rng.random() < .3:
        low = rng.randrange(cells)
        db.query(f"DELETE FROM {name} WHERE x BETWEEN {low} AND {low + 5}")


def maintain(db, rng, where):
    """What housekeeping does, vacuums included."""
    db.query("SELECT tessera_consolidate(?, ?)", (where, rng.choice(("fragments", "commits", "fragment_meta", "array_meta"))))
    if rng.random() < .6:
        db.query("SELECT tessera_vacuum(?, '{\"grace_s\":0}')", (where,))


def step(db, rng, name, where, columns):
    action = rng.random()
    if action < .6:
        write(db, rng, name, columns)
    elif action < .75:
        db.query("SELECT tessera_set_metadata(?, ?, ?)", (where, rng.choice("kl"), rng.randrange(99)))
    else:
        maintain(db, rng, where)


def pairs():
    return [(a, b) for a in ("directory", "db") for b in ("directory", "db")]


def cut_off(place):
    """Makes a copy what a first sync leaves that was killed just before its copy became an array. Returns the claim's path."""
    record, = [name for name in os.listdir(place) if re.fullmatch(r"\.synced_[0-9a-f]+", name)]
    os.rename(os.path.join(place, record), os.path.join(place, record + ".new"))
    os.rename(os.path.join(place, "__schema"), os.path.join(place, ".copying2"))
    claim = os.path.join(place, record + ".claim_3")
    with open(claim, "w") as f:
        f.write("locked\n")
    return claim


def test_a_killed_first_sync_is_taken_over():
    """The next sync of the same array takes the place over, also a vacuum later, and leaves no claim; another array's does not, and nothing is lost that is not of the array."""
    db = Database(path("over.db"))
    a, other, b = make(db, "directory", "t0", COLUMNS["sparse"]), make(db, "directory", "t1", COLUMNS["sparse"]), path("over")
    db.query("INSERT INTO t0 VALUES(1, 1, 'a')")
    db.query("INSERT INTO t0 VALUES(2, 2, 'b')")
    sync(db, a, b)
    claim = cut_off(b)
    db.query("SELECT tessera_consolidate(?), tessera_vacuum(?, '{\"grace_s\":0}')", (a, a))
    with open(os.path.join(b, "__commits", "notes.txt"), "w") as f:
        f.write("mine")
    check_contains(db.error(f"SELECT tessera_sync('{a}', '{b}')").text, 'now there is also "__commits/notes.txt", which is not of this array: remove it')
    same(open(os.path.join(b, "__commits", "notes.txt")).read(), "mine")
    os.remove(os.path.join(b, "__commits", "notes.txt"))
    check_contains(db.error(f"SELECT tessera_sync('{other}', '{b}')").text, "remove the directory, if nothing else is in it")
    check_contains(db.error(f"SELECT tessera_copy('{a}', '{b}')").text, "remove the directory, if nothing else is in it")
    same(sync(db, a, b)["copied"] > 2, True)
    same_arrays(db, a, b)
    same([name for name in os.listdir(b) if "claim" in name], [])
    os.remove(claim) if os.path.exists(claim) else None
    same(sync(db, a, b), NOTHING)
    with open(claim, "w") as f:   # of a sync that was killed when its copy was an array already
        f.write("locked\n")
    record = claim.partition(".claim")[0]
    shutil.copy(record, record + ".new")
    sync(db, a, b)
    same(os.path.exists(claim), False)


def test_a_first_sync_into_an_empty_directory():
    """An empty directory is a place like one that is not there; one with anything in it is none."""
    db = Database(path("empty.db"))
    a = make(db, "directory", "t2", COLUMNS["dense"])
    db.query("INSERT INTO t2(x, v) VALUES(1, 1)")
    os.mkdir(path("hollow"))
    sync(db, a, path("hollow"))   # waits for the directory to be older than two seconds
    same_arrays(db, a, path("hollow"))
    os.mkdir(path("full"))
    with open(path("full/x"), "w"):
        pass
    check_contains(db.error(f"SELECT tessera_sync('{a}', '{path('full')}')").text, "something is already there")
    os.makedirs(path("part/__fragments"))
    check_contains(db.error(f"SELECT tessera_sync('{a}', '{path('part')}')").text, 'part of an array is there ("__fragments"), without a schema')


def test_a_copy_follows():
    """Whatever happens to the array, a sync makes the copy the same, and the next one copies nothing."""
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        what = list(COLUMNS)[seed % len(COLUMNS)]
        source, target = pairs()[seed % 4]
        db = Database(path(f"f{seed}.db"))
        db.query("PRAGMA synchronous = OFF")
        a = make(db, source, f"a{seed}", COLUMNS[what])
        b = place_of(target, f"b{seed}")
        write(db, rng, f"a{seed}", COLUMNS[what])
        same(sync(db, a, b)["copied"] > 2, True)
        for number in range(STEPS):
            step(db, rng, f"a{seed}", a, COLUMNS[what])
            if rng.random() < .6:
                sync(db, a, b)
                same_arrays(db, a, b, f"{what} {source} {target}, seed {seed}, step {number}")
        sync(db, a, b)
        same_arrays(db, a, b, f"{what}, seed {seed}")
        same(sync(db, a, b), NOTHING)
        db.close()


def test_copies_that_diverged_become_equal():
    """Each side is written on its own, and housekept while both are equal; two syncs make them equal again."""
    for seed in range(HISTORIES):
        rng = random.Random(100 + seed)
        what = list(COLUMNS)[seed % len(COLUMNS)]
        kinds = pairs()[seed % 4]
        db = Database(path(f"d{seed}.db"))
        db.query("PRAGMA synchronous = OFF")
        names = f"a{seed}", f"b{seed}"
        places = make(db, kinds[0], names[0], COLUMNS[what]), place_of(kinds[1], names[1])
        write(db, rng, names[0], COLUMNS[what])
        sync(db, *places)
        look_at(db, names[1], places[1])
        for number in range(5):
            for _ in range(4):
                side = rng.randrange(2)
                write(db, rng, names[side], COLUMNS[what])
            sync(db, *places, merge=True)
            sync(db, *places[::-1], merge=True)
            same_arrays(db, *places, f"{what} {kinds}, seed {seed}, round {number}")
            same(sync(db, *places), NOTHING)
            if rng.random() < .6: # both ways again: what was vacuumed on one side goes on the other
                side = rng.randrange(2)
                maintain(db, rng, places[side])
                sync(db, places[side], places[1 - side], merge=True)
                sync(db, places[1 - side], places[side], merge=True)
                same_arrays(db, *places, f"{what}, seed {seed}, merged in round {number}")
        db.close()


def test_only_what_is_new_travels():
    db = Database(path("new.db"))
    a = make(db, "directory", "a", COLUMNS["sparse"])
    for x in range(5):
        db.query("INSERT INTO a VALUES(?, 1, 'a')", (x,))
    first = sync(db, a, path("b"))
    db.query("INSERT INTO a VALUES(7, 1, 'a')")
    one = sync(db, a, path("b"))
    same(one["copied"] < first["copied"] / 3 and one["bytes"] < first["bytes"] / 3 and one["removed"] == 0, True, (first, one))
    db.query("SELECT tessera_consolidate(?), tessera_vacuum(?, '{\"grace_s\":0}')", (a, a))
    same(sync(db, a, path("b"))["removed"] >= 6, True)
    same(len(os.listdir(path("b/__fragments"))), 1)


def test_what_is_refused_changes_nothing():
    db = Database(path("refused.db"))
    a = make(db, "directory", "a", COLUMNS["duplicates"])
    db.query("INSERT INTO a VALUES(1, 1, 'a')")
    b = path("b")
    sync(db, a, b)
    look_at(db, "b", b)
    db.query("INSERT INTO b VALUES(2, 2, 'b')")
    before = tree_of(b)
    check_contains(db.error("SELECT tessera_sync(?, ?)", (a, b)).text, "has 1 commits that")
    db.query("INSERT INTO a VALUES(3, 3, 'c')")
    db.query("SELECT tessera_consolidate(?), tessera_vacuum(?, '{\"grace_s\":0}')", (a, a))
    check_contains(db.error("SELECT tessera_sync(?, ?, '{\"merge\":true}')", (a, b)).text, "has merged over times in which")
    other = make(db, "directory", "other", COLUMNS["duplicates"])
    check_contains(db.error("SELECT tessera_sync(?, ?)", (other, b)).text, "is another array")
    check_contains(db.error("SELECT tessera_sync(?, ?)", (b, b)).text, "the same array")
    group = path("group")
    db.query("SELECT tessera_create_group(?)", (group,))
    check_contains(db.error("SELECT tessera_sync(?, ?)", (group, path("none"))).text, "it is a group, not an array")
    check_contains(db.error("SELECT tessera_sync(?, ?, '{\"mirror\":true}')", (a, b)).text, "mirror")
    db.query("BEGIN")
    db.query("INSERT INTO b VALUES(5, 5, 'e')")
    check_contains(db.error("SELECT tessera_sync(?, ?, '{\"merge\":true}')", (a, b)).text, "commit first")
    db.query("ROLLBACK")
    same(tree_of(b), before)


def tree_of(root):
    return {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}


def test_a_sync_into_the_database_belongs_to_the_transaction():
    db = Database(path("inside.db"))
    a = make(db, "directory", "a", COLUMNS["sparse"])
    db.query("INSERT INTO a VALUES(1, 1, 'a')")
    sync(db, a, "db:b")
    db.query("INSERT INTO a VALUES(2, 2, 'b')")
    db.query("BEGIN")
    sync(db, a, "db:b")
    same(db.value("SELECT count(*) FROM b"), 2)
    db.query("ROLLBACK")
    same(db.value("SELECT count(*) FROM b"), 1)
    sync(db, a, "db:b")
    same_arrays(db, a, "db:b")


def test_schemas_and_labels_follow():
    db = Database(path("evolved.db"))
    a = make(db, "directory", "a", "x INT32 DIMENSION(0, 9, 5), v INT32, e TEXT ENUM('a', 'b')")
    db.query("INSERT INTO a VALUES(1, 1, 'a')")
    sync(db, a, path("b"))
    db.query("SELECT tessera_add_attribute(?, 'w INT32')", (a,))
    db.query("SELECT tessera_extend_enumeration(?, 'e', 'c')", (a,))
    db.query("DROP TABLE a")
    db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(a)})")
    db.query("INSERT INTO a(x, v, e, w) VALUES(2, 2, 'c', 3)")
    sync(db, a, path("b"))
    same_arrays(db, a, path("b"))
    same(db.query("SELECT e, w FROM temp.look WHERE x = 2"), [("c", 3)])


def test_small_files_travel_whole():
    """What is copied is counted, small files too; one that is being written stops the sync."""
    db = Database(path("small.db"))
    a, b = make(db, "directory", "a", COLUMNS["sparse"]), path("b")
    db.query("INSERT INTO a VALUES(1, 1, 'a')")
    sync(db, a, b)
    db.query("SELECT tessera_add_attribute(?, 'w INT32')", (a,))
    done = sync(db, a, b)
    same((done["copied"], done["bytes"]), (1, max(os.path.getsize(os.path.join(a, "__schema", name)) for name in os.listdir(os.path.join(a, "__schema")) if name.startswith("__1") or name.startswith("__2"))))
    name = "__1000_1000_" + "0" * 31 + "1"
    open(os.path.join(a, "__meta", name), "w").close()
    check_contains(db.error("SELECT tessera_sync(?, ?)", (a, b)).text, name + " is being written")
    os.remove(os.path.join(a, "__meta", name))
    same(sync(db, a, b), NOTHING)


def test_an_encrypted_array_needs_no_key():
    db = Database(path("secret.db"))
    key = bytes(range(32))
    a, b = path("a"), path("b")
    db.query("SELECT tessera_set_key(?, ?)", (a, key))
    db.query(f"CREATE VIRTUAL TABLE a USING tessera({literal(a)}, x INT32 DIMENSION(0, 99, 10), v INT32, encryption=aes_256_gcm)")
    blind = Database(path("blind.db"))
    for x in range(4):
        db.query("INSERT INTO a VALUES(?, ?)", (x, x))
        if x == 2:
            db.query("DELETE FROM a WHERE x = 0")
            db.query("SELECT tessera_consolidate(?), tessera_vacuum(?, '{\"grace_s\":0}')", (a, a))
        sync(blind, a, b)
        other = Database(path(f"reader{x}.db"))
        other.query("SELECT tessera_set_key(?, ?)", (b, key))
        other.query(f"CREATE VIRTUAL TABLE b USING tessera({literal(b)})")
        same(other.query("SELECT x, v FROM b ORDER BY x"), db.query("SELECT x, v FROM a ORDER BY x"))
        other.close()


def test_a_sync_that_was_cut_off_goes_on():
    """Files that a cut-off sync has left are taken if they are whole, and replaced if they are not."""
    db = Database(path("cut.db"))
    a, b = make(db, "directory", "a", COLUMNS["sparse"]), path("b")
    db.query("INSERT INTO a VALUES(1, 1, 'a')")
    sync(db, a, b)
    for x in range(3, 6):
        db.query("INSERT INTO a VALUES(?, 3, 'c')", (x,))
    new = sorted(set(os.listdir(a + "/__fragments")) - set(os.listdir(b + "/__fragments")))
    for name in new[:2]:
        shutil.copytree(f"{a}/__fragments/{name}", f"{b}/__fragments/{name}")
    torn = f"{b}/__fragments/{new[1]}"
    with open(os.path.join(torn, sorted(os.listdir(torn))[-1]), "ab") as f:
        f.truncate(1)
    whole, = {len(os.listdir(f"{a}/__fragments/{name}")) for name in new}
    same(sync(db, a, b)["copied"], 2 * whole + 1, "one fragment was whole; three commits are one file")
    same_arrays(db, a, b)


def test_as_of_copies_what_was_committed_by_then():
    """At each time, into an empty place and into one that an earlier sync has filled; a sync without as_of goes on."""
    for seed in range(HISTORIES):
        rng = random.Random(200 + seed)
        what = list(COLUMNS)[seed % len(COLUMNS)]
        source, target = pairs()[seed % 4]
        db = Database(path(f"t{seed}.db"))
        db.query("PRAGMA synchronous = OFF")
        a = make(db, source, f"a{seed}", COLUMNS[what])
        for number in range(6):
            write(db, rng, f"a{seed}", COLUMNS[what])
            if rng.random() < .4:
                db.query("SELECT tessera_set_metadata(?, 'k', ?)", (a, number))
        _, times = commits(db, a)
        if rng.random() < .5:
            db.query("SELECT tessera_consolidate(?), tessera_consolidate(?, 'array_meta')", (a, a))
        follows = place_of(target, f"f{seed}")
        for number, t in enumerate(sorted(times)):
            for b in (place_of(target, f"b{seed}_{number}"), follows):
                sync(db, a, b, as_of=t)
                names, _ = commits(db, b)
                same([n for n in names if int(re.findall(r"__\d+_(\d+)_", n)[0]) > t], [], f"{what}, seed {seed}: later than {t}")
                wanted = state(db, a, {u for u in times if u <= t})
                seen = state(db, b, {u for u in times if u <= t})
                same({u: seen[u] for u in seen if isinstance(u, int)}, {u: wanted[u] for u in wanted if isinstance(u, int)}, f"{what}, seed {seed}, as of {t}")
                same(seen[None], wanted[t], f"{what}, seed {seed}: the present of the copy as of {t}")
                same(seen["check"], [])
                same(sync(db, a, b, as_of=t), NOTHING, "again")
        sync(db, a, follows)
        same_arrays(db, a, follows, f"{what}, seed {seed}: all")
        same(sync(db, a, follows, as_of=min(times)), NOTHING, "an earlier time takes nothing back")
        same_arrays(db, a, follows)
        db.close()


def test_as_of_needs_commits_that_are_apart():
    db = Database(path("apart.db"))
    a = make(db, "directory", "a", COLUMNS["dense"])
    for x in range(3):
        db.query("INSERT INTO a VALUES(?, 1, 'a'), (?, 1, 'a')", (x, x + 10))
    times = sorted(commits(db, a)[1])
    sync(db, a, path("early"), as_of=times[0])
    db.query("SELECT tessera_consolidate(?), tessera_vacuum(?, '{\"grace_s\":0}')", (a, a))
    for to in (path("late"), path("early")):
        check_contains(db.error("SELECT tessera_sync(?, ?, ?)", (a, to, json.dumps({"as_of": times[1]}))).text, "has merged commits of up to")
    same(len(os.listdir(path("early/__fragments"))), 2, "nothing was removed")
    sync(db, a, path("late"), as_of=times[2])
    same_arrays(db, a, path("late"))
    check_contains(db.error("SELECT tessera_sync(?, ?, '{\"as_of\":0}')", (a, path("late"))).text, "'as_of': expected a time after 1970")
    check_contains(db.error("SELECT tessera_sync(?, ?, '{\"as_of\":\"noon\"}')", (a, path("late"))).text, "as_of")


def test_merges_of_one_time():
    """A purge of what one commit has written makes a fragment of the same time. The copy has it beside its source, or instead of it."""
    for between in (False, True):
        for copies in ("", ", duplicates=yes"):
            name = f"one_{between}_{'duplicates' if copies else 'single'}"
            db = Database()
            a, b = make(db, "directory", name, COLUMNS["sparse"] + copies), path(f"copy_{name}")
            db.query(f"INSERT INTO {name} VALUES(1, 1, 'a'), (50, 5, 'b'), (90, 9, 'c')")
            db.query(f"DELETE FROM {name} WHERE x = 50")
            sync(db, a, b)
            db.query("SELECT tessera_consolidate(?, 'fragments', '{\"purge_deleted\":true}')", (a,))
            if between:
                sync(db, a, b)
                same(rows_at(db, name, None), state(db, b, ())[None], f"{name}: beside its source")
                same(sync(db, a, b), NOTHING, name)
            db.query("SELECT tessera_vacuum(?)", (a,))
            sync(db, a, b)
            same_arrays(db, a, b, name)
            same(sync(db, a, b), NOTHING, name)


def test_as_of_forgets_nothing_that_later_was_merged():
    """The copy has all commits. The source merges and vacuums the later ones; after a sync as of the first, one without as_of removes them."""
    for kind, columns in COLUMNS.items():
        db = Database()
        a, b = make(db, kind, f"forgets_{kind}", columns), path(f"forgotten_{kind}")
        times = []
        for x in range(4):
            db.query(f"INSERT INTO forgets_{kind} VALUES({x}, {x}, 'a')")
            times.append(db.value("SELECT last_write FROM tessera_array(?)", (a,)))
        sync(db, a, b)
        db.query("SELECT tessera_consolidate(?, 'fragments', ?)", (a, json.dumps({"since": times[1]})))
        db.query("SELECT tessera_vacuum(?)", (a,))
        for t in (times[0], times[0]):
            same(sync(db, a, b, as_of=t), NOTHING, kind)
        assert sync(db, a, b)["removed"] > 0, kind
        same_arrays(db, a, b, kind)
        same(sync(db, a, b), NOTHING, kind)


def test_verify_compares_contents():
    db = Database(path("verify.db"))
    a, b = make(db, "directory", "a", COLUMNS["sparse"]), path("b")
    for x in range(3):
        db.query("INSERT INTO a VALUES(?, 1, 'a')", (x,))
    db.query("DELETE FROM a WHERE x = 1")
    db.query("SELECT tessera_set_metadata(?, 'k', 1)", (a,))
    sync(db, a, b)
    same(sync(db, a, b, verify=True), NOTHING)
    files = [f for f in sorted(tree_of(b)) if not os.path.basename(f).startswith(".") and os.path.getsize(os.path.join(b, f))]
    same({f.split("/")[0] for f in files}, {"__commits", "__fragments", "__meta", "__schema"})
    for file in files:
        where = os.path.join(b, file)
        with open(where, "rb") as f:
            before = f.read()
        with open(where, "wb") as f:
            f.write(before[:-1] + bytes([before[-1] ^ 1]))
        try:
            text = db.error("SELECT tessera_sync(?, ?, '{\"verify\":true}')", (a, b)).text
            check_contains(text, "differ in" if not file.startswith("__commits") else "")
            if not file.startswith("__commits"):
                check_contains(text, file)
            same(sync(db, a, b) if not file.startswith("__commits") else NOTHING, NOTHING, "without the option sizes are enough")
        finally:
            with open(where, "wb") as f:
                f.write(before)
    db.query("INSERT INTO a VALUES(50, 1, 'a')")
    same(sync(db, a, b, verify=True)["copied"] > 1, True, "and what is new travels")
    same_arrays(db, a, b)


def test_a_source_without_its_fragments_is_not_copied():
    """Neither by a first sync nor by a later one, nor if a label lacks them: the copy would be as damaged."""
    db = Database()
    rows = "SELECT column1 AS city, column2 AS t, column3 AS v FROM (VALUES('Bern', 1, 1.5), ('Chur', 2, 2.5))"
    for below in ("", "__labels"):
        source, first, later = (path(f"{name}{len(below)}") for name in ("damaged", "first", "later"))
        db.query("SELECT tessera_create_as(?, ?, '{\"dimensions\":[\"t\"],\"labels\":{\"city\":\"place\"}}')", (source, rows))
        sync(db, source, later)
        db.query("SELECT tessera_create_as(?, ?, '{\"if_exists\":\"append\"}')", (source, rows.replace("1.5", "9.5")))
        fragments = os.path.join(source, below, *(os.listdir(os.path.join(source, below))[:1] if below else ()), "__fragments")
        for name in os.listdir(fragments) if below else [max(os.listdir(fragments))]:
            shutil.rmtree(os.path.join(fragments, name))
        for target in (first,) if below else (first, later):
            error = db.error("SELECT tessera_sync(?, ?)", (source, target))
            check_contains(error.text, "is damaged: fragment __")
            check_contains(error.text, "so it cannot be copied")
        assert not os.path.exists(first), "nothing was copied"
        db.query(f"CREATE VIRTUAL TABLE b USING tessera({literal(later)})")
        same(db.query("SELECT city, t, v FROM b ORDER BY t"), [("Bern", 1, 1.5), ("Chur", 2, 2.5)], "the copy reads as before")
        db.query("DROP TABLE b")


def test_labels_follow():
    """Between directories and the database; also those of the time of the first commit."""
    for source, target in pairs():
        db = Database(path(f"labels_{source}_{target}.db"))
        db.query("PRAGMA synchronous = OFF")
        a, b = place_of(source, f"a_{source}_{target}"), place_of(target, f"b_{source}_{target}")
        rows = "SELECT column1 AS city, column2 AS t, column3 AS v FROM (VALUES('Bern', 1, 1.5), ('Chur', 1, 2.5), ('Bern', 2, 3.5))"
        db.query("SELECT tessera_create_as(?, ?, '{\"dimensions\":[\"t\"],\"labels\":{\"city\":\"place\"}}')", (a, rows))
        first = db.value("SELECT max(time) FROM tessera_log(?)", (a,))
        sync(db, a, b)
        where = b if not b.startswith("db:") else None
        if where:
            db.query(f"CREATE VIRTUAL TABLE b USING tessera({literal(where)})")
        name = "b" if where else b[3:]
        same(db.query(f"SELECT t, v FROM {name} WHERE city = 'Bern' ORDER BY t"), [(1, 1.5), (2, 3.5)])
        same(sync(db, a, b, verify=True), NOTHING)
        c = place_of(target, f"c_{source}_{target}")
        more = "SELECT 'Chur' AS city, 3 AS t, 4.5 AS v"
        db.query("SELECT tessera_create_as(?, ?, '{\"if_exists\":\"append\"}')", (a, more))
        sync(db, a, c, as_of=first)
        if where:
            db.query(f"CREATE VIRTUAL TABLE c USING tessera({literal(c)})")
        table = "c" if where else c[3:]
        same(db.query(f"SELECT city, t, v FROM {table} WHERE v IS NOT NULL ORDER BY t, city"), [("Bern", 1, 1.5), ("Chur", 1, 2.5), ("Bern", 2, 3.5)])
        for copy, of in ((b, name), (c, table)):
            same(sync(db, a, copy)["copied"] > 2, True)
            same(db.query(f"SELECT t, v FROM {of} WHERE city = 'Chur' AND t = 3"), [(3, 4.5)])
            same(sync(db, a, copy, verify=True), NOTHING)
        db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
