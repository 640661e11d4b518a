"""The table option auto_consolidate, and tessera_upkeep: commits that merge fragments keep their number small; every state
of the past stays; writers beside each other, killed at any moment, lose and double nothing; a COMMIT never fails because of a merge.

usage: auto_upkeep.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import host
from host import Database, Error, check_contains, not_on_windows, same

KILLS = int(os.environ.get("KILLS", 8))   # of writers, and ten times as many commits
SECONDS = 300   # in which they must have come
WRITER = """
import sqlite3, sys, time
extension, array, own, number = sys.argv[1:]
db = sqlite3.connect(f"{own}.db", isolation_level=None, timeout=30)
db.enable_load_extension(True)
db.load_extension(extension)
db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS t USING tessera('{array}', auto_consolidate=4, auto_vacuum_s=1)")
with open(f"{own}.log", "a+") as log:
    log.seek(0)
    key = max([int(line.split()[1]) for line in log] or [int(number) * 1000000])
    while True:
        key += 1
        print("begin", key, file=log, flush=True)
        db.execute("INSERT INTO t VALUES(?, 1)", (key,))
        print("done", key, file=log, flush=True)
"""


def database(declaration, *options):
    """A new database with a table `t` in a directory of its own, its array in the directory `a` or, with the path '', in the database."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    db = Database(os.path.join(folder, "t.db"))
    db.query("PRAGMA synchronous = OFF")
    db.query(f"CREATE VIRTUAL TABLE t USING tessera({', '.join([declaration, *options])})")
    return db, folder


def again(folder):
    return Database(os.path.join(folder, "t.db"))


def fragments(db):
    return db.value("SELECT count(*) FROM tessera_fragments('db:t')")


def counters(db):
    return dict(db.query("SELECT name, value FROM tessera_stats WHERE name LIKE 'auto%'"))


def sound(db):
    same(db.query("SELECT severity, file, message FROM tessera_check('db:t') WHERE severity <> 'note'"), [])


PLACES = "'a', ", ""


def test_few_fragments_stay():
    """With a fanout of 4, 300 commits leave at most 3 fragments in each of five tiers, in a directory and in the database."""
    for place in PLACES:
        db, folder = database(place + "auto_consolidate=4", "x INTEGER DIMENSION", "a INTEGER")
        for i in range(300):
            db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        assert fragments(db) <= 30, fragments(db)   # 16, if no COMMIT has left a tier to the next one because it was slow
        done = counters(db)
        assert 60 <= done["auto_merges"] <= 110, done
        same(db.query("SELECT count(*), sum(a), count(DISTINCT x) FROM t"), [(300, sum(range(300)), 300)])
        sound(db)
        fresh = again(folder)
        same(fresh.query("SELECT count(*), sum(a) FROM t"), [(300, sum(range(300)))])
        fresh.close()
        db.close()


def test_merges_list_the_array_once_for_many():
    """64 commits make 16 merges, then 4, then 1: each step lists the array in the database some times, not each merge. In a directory the number depends
    on how busy the machine is: unit/maintain/test_upkeep counts there, with a clock that stands still."""
    db, folder = database("kind=sparse", "x INTEGER DIMENSION", "a INTEGER")
    for i in range(64):
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
    listed = "SELECT (SELECT value FROM tessera_stats WHERE name = 'directories_listed'), (SELECT value FROM tessera_stats WHERE name = 'commits_listed')"
    before = db.query(listed)[0]
    done = json.loads(db.value('''SELECT tessera_upkeep('db:t', '{"fanout":4,"vacuum":false}')'''))
    same(done["merged"], 84)
    directories, commits = (after - old for after, old in zip(db.query(listed)[0], before))
    assert directories <= 60 and commits <= 1300, (directories, commits)   # 250 and 2,559 with a listing for each merge
    same((fragments(db), db.value("SELECT sum(a) FROM t")), (1, sum(range(64))))
    sound(db)
    db.close()


def test_connections_that_commit_once():
    """A program that commits once and ends never counts to n: what it finds counts, too."""
    db, folder = database("'a', auto_consolidate=8", "x INTEGER DIMENSION", "a INTEGER")
    for i in range(40):
        one = again(folder)
        one.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        one.close()
    assert fragments(db) < 16, fragments(db)
    same(db.value("SELECT sum(a) FROM t"), sum(range(40)))
    db.close()


def test_every_state_of_the_past_stays():
    """After merges and vacuums, a reader of any time sees what was committed then: inserts, updates, deletes, of several sizes."""
    for place in PLACES:
        chance = random.Random(5)
        db, folder = database(place + "auto_consolidate=4, auto_vacuum_s=0", "x INTEGER DIMENSION", "a INTEGER")
        state, past = {}, []
        for i in range(90):
            db.query("BEGIN")
            for _ in range(chance.choice([1, 1, 2, 30])):
                x = chance.randrange(60)
                state[x] = i
                db.query("INSERT INTO t VALUES(?1, ?2)", (x, i))
            if i % 7 == 6:
                x = chance.choice(list(state))
                del state[x]
                db.query("DELETE FROM t WHERE x = ?1", (x,))
            db.query("COMMIT")
            past.append((int(time.time() * 1000), sorted(state.items())))
            time.sleep(0.004)
        assert counters(db)["auto_merges"] > 10
        for moment, rows in past[::3] + past[-1:]:
            same(db.query("SELECT x, a FROM t WHERE as_of = ?1 ORDER BY x", (moment,)), rows, f"as of {moment}")
        sound(db)
        db.close()


def test_what_was_replaced_goes():
    """auto_vacuum_s removes what was replaced longer ago; without it everything stays."""
    for option, kept in ("auto_vacuum_s=0", 40), ("auto_vacuum_s=1000", 100), ("threads=1", 100):
        db, folder = database("'a', auto_consolidate=4", option, "x INTEGER DIMENSION", "a INTEGER")
        for i in range(100):
            db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        there = len(os.listdir(os.path.join(folder, "a", "__fragments")))
        assert there <= kept if kept < 100 else there >= kept, (option, there)
        same(db.value("SELECT count(*) FROM t"), 100)
        db.close()


def age_lists(folder, seen=(), seconds=60):
    """Makes the .con files of the array that are not in `seen` so old, as if time had passed. Returns the .con files."""
    commits = os.path.join(folder, "a", "__commits")
    lists = {name for name in os.listdir(commits) if name.endswith(".con")}
    for name in lists - set(seen):
        old = time.time() - seconds
        os.utime(os.path.join(commits, name), (old, old))
    return lists


def test_commits_stay_cheap():
    """A commit that merges nothing does no work that grows with the number of commits: the median opens as many files, lists as many names and reads as many bytes as in the first
    hundred, and all commits together, merges included, little more. Without auto_vacuum_s, the names of what merges made become more, one for four commits here, and a .con for 64.
    Two or three files more or less depend on how old a directory is when it is listed."""
    for option, grows in (("auto_vacuum_s=0", False), ("threads=1", True)):
        db, folder = database("'a', auto_consolidate=4", option, "x INTEGER DIMENSION", "a INTEGER")
        before, costs, lists = {}, [], set()
        for i in range(320):
            db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
            lists = age_lists(folder, lists)
            now = dict(db.query("SELECT name, value FROM tessera_stats"))
            costs.append({name: now[name] - before.get(name, 0) for name in ("files_opened", "directories_listed", "fragments_listed", "commits_listed", "bytes_read", "auto_merges")})
            before = now
        for name in costs[0]:
            parts = [[cost[name] for cost in part if not cost["auto_merges"]] for part in (costs[64:192], costs[-128:])]
            (early, late), together = (sorted(part)[len(part) // 2] for part in parts), [sum(cost[name] for cost in part) for part in (costs[64:192], costs[-128:])]
            if grows and name == "commits_listed":
                assert early + 20 <= late <= early + 100, (name, early, late)   # 192 commits and 60 merges later
            else:
                assert late <= early * 1.2 + 3 and (grows or together[1] <= together[0] * 1.5), (option, name, early, late, together)
        db.close()


def commits_of(folder):
    """How many files of each kind there are in __commits, and the names of fragments in .con files."""
    commits = os.path.join(folder, "a", "__commits")
    kinds = {kind: [name[:-4] for name in os.listdir(commits) if name.endswith(kind)] for kind in (".wrt", ".con", ".vac")}
    joined = [os.path.basename(line)[:-5] for name in kinds[".con"] for line in open(os.path.join(commits, name + ".con"))]
    return kinds[".wrt"], kinds[".con"], kinds[".vac"], joined


def test_files_of_commits_are_joined():
    """Without a vacuum nothing but the .wrt files of joined commits goes, and only once the .con is some seconds old: each fragment stays and is committed exactly as before,
    for a connection that has read the array before, for a new one, and as of every time; and no .con repeats another."""
    db, folder = database("'a', auto_consolidate=4", "x INTEGER DIMENSION", "a INTEGER")
    old, lists, past = again(folder), set(), []
    same(old.value("SELECT count(*) FROM t"), 0)
    for i in range(200):
        db.query("INSERT INTO t VALUES(?1 % 50, ?1)", (i,))
        if i == 100:
            written, cons, _, joined = commits_of(folder)
            same((len(cons) > 0, set(joined) - set(written)), (True, set()))   # the .con is too young
            lists = set()
        lists = age_lists(folder, lists, 60 if i >= 100 else -3600)
        if i % 10 == 9:
            past.append((int(time.time() * 1000), sum(range(max(0, i - 49), i + 1))))
            time.sleep(0.004)
    written, cons, vacs, joined = commits_of(folder)
    there = set(os.listdir(os.path.join(folder, "a", "__fragments")))
    assert len(written) < 100 and 2 <= len(cons) <= 5, (len(written), len(cons))
    same(len(joined), len(set(joined)))
    same(set(written) | set(joined), there)
    assert len(there) >= 200 + 50 and len(vacs) >= 60, (len(there), len(vacs))
    for reader in old, again(folder):
        same(reader.query("SELECT count(*), sum(a) FROM t"), [(50, sum(range(150, 200)))])
        for moment, total in past:
            same(reader.value("SELECT sum(a) FROM t WHERE as_of = ?1", (moment,)), total, f"as of {moment}")
        reader.close()
    sound(db)
    assert json.loads(db.value("SELECT tessera_upkeep('db:t', '{\"fanout\":4,\"grace_s\":0}')"))["removed"] > 200   # the entries of .con files are cancelled
    written, cons, vacs, joined = commits_of(folder)
    assert len(written) + len(cons) < 30 and not vacs, (written, cons, vacs)
    same(db.query("SELECT count(*), sum(a) FROM t"), [(50, sum(range(150, 200)))])
    sound(db)
    db.close()


def test_files_of_commits_are_joined_by_hand():
    """tessera_upkeep without a vacuum joins commits, too, of dense arrays as well, and removes their files at once if it is asked for no grace."""
    for kind in "dense", "sparse":
        db, folder = database(f"'a', kind={kind}", "x INTEGER DIMENSION(0, 99, 10)", "a INTEGER")
        moments = []
        for i in range(70):
            db.query("INSERT INTO t VALUES(?1 % 7, ?1)", (i,))
            moments.append(int(time.time() * 1000))
            time.sleep(0.002)
        same(json.loads(db.value("SELECT tessera_upkeep('db:t', '{\"fanout\":4,\"vacuum\":false,\"grace_s\":0}')"))["removed"], 0)
        written, cons, _, joined = commits_of(folder)
        same((written, len(cons) < 10, len(joined)), ([], True, len(set(joined))))   # merges that are committed together have a .con, too
        same(set(joined), set(os.listdir(os.path.join(folder, "a", "__fragments"))))
        for i, moment in list(enumerate(moments))[::9]:
            same(db.value("SELECT max(a) FROM t WHERE as_of = ?1", (moment,)), i)
        sound(db)
        db.close()


def test_a_commit_that_is_repeated_in_the_database():
    """A transaction merges as it begins, and sees the merged fragments. A COMMIT that fails and is repeated commits its own changes once; ROLLBACK takes the merge back, and so do a
    statement that fails and ROLLBACK TO."""
    for end in "COMMIT", "ROLLBACK":
        db, folder = database("auto_consolidate=4, duplicates=yes", "x INTEGER DIMENSION", "a INTEGER")
        for i in range(4):
            db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        before = fragments(db)
        reader = again(folder)
        db.query("BEGIN")
        check_contains(db.error("INSERT INTO t VALUES(4, 4), (5, abs(-9223372036854775807 - 1))").text, "integer overflow")
        same(fragments(db), before)
        same(db.query("SELECT x, a FROM t ORDER BY x"), [(i, i) for i in range(4)])
        db.query("ROLLBACK")
        for i in range(4):
            db.query("INSERT INTO t VALUES(?1, ?1)", (i + 4,))
        reader.query("BEGIN")
        reader.query("SELECT count(*) FROM sqlite_schema")
        db.query("BEGIN")
        db.query("SAVEPOINT s")
        db.query("DELETE FROM t WHERE x IN (0, 6)")
        assert counters(db)["auto_merges"] > 1
        same(db.error("COMMIT").code, 5)
        same(db.query("SELECT x FROM t ORDER BY x"), [(1,), (2,), (3,), (4,), (5,), (7,)])
        db.query("ROLLBACK TO s")
        same(db.query("SELECT x FROM t ORDER BY x"), [(i,) for i in range(8)])
        db.query("INSERT INTO t VALUES(8, 8)")
        db.query("DELETE FROM t WHERE x IN (1, 7)")
        same(db.error("COMMIT").code, 5)
        same(db.query("SELECT x FROM t ORDER BY x"), [(0,), (2,), (3,), (4,), (5,), (6,), (8,)])
        reader.query("COMMIT")
        db.query(end)
        same(db.query("SELECT count(*), sum(x) FROM t"), [(7, 28)] if end == "COMMIT" else [(8, 28)])
        for i in range(10, 30):
            db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        same(db.query("SELECT count(*), count(DISTINCT x) FROM t"), [(27, 27)] if end == "COMMIT" else [(28, 28)])
        sound(db)
        reader.close()
        db.close()


def test_joins_in_commits_that_are_repeated_in_the_database():
    """A COMMIT that merges fragments, and joins the files of commits, fails and is repeated: neither the merge nor the .con must have the transaction's own fragment, which gets
    another name. In an array with duplicates its rows would be there twice. Merges come with every fourth attempt, so a COMMIT that does not fail makes the next ones come with
    those that fail."""
    db, folder = database("auto_consolidate=4, duplicates=yes", "x INTEGER DIMENSION", "a INTEGER")
    reader = again(folder)
    db.query("PRAGMA busy_timeout = 0")
    for i in range(150):
        reader.query("BEGIN")
        reader.query("SELECT count(*) FROM sqlite_schema")
        db.query("BEGIN")
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        if i != 75:
            same(db.error("COMMIT").code, 5)
        reader.query("COMMIT")
        db.query("COMMIT")
        same(db.query("SELECT count(*), sum(a) FROM t"), [(i + 1, sum(range(i + 1)))])
    names = [name for name, in db.query("SELECT name FROM tessera_fragments('db:t')")]
    assert len(names) <= 24, names
    same(reader.query("SELECT count(*), sum(a) FROM t"), [(150, sum(range(150)))])
    sound(db)
    reader.close()
    db.close()


def test_the_lease_is_not_waited_for():
    """While another connection holds the lease, commits merge nothing."""
    db, folder = database("'a', auto_consolidate=4", "x INTEGER DIMENSION", "a INTEGER")
    other = again(folder)
    same(other.value("SELECT tessera_lease('db:t', 600)"), 1)
    for i in range(20):
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
    same(fragments(db), 20)
    same(json.loads(db.value("SELECT tessera_upkeep('db:t', '{\"fanout\":4}')")), {"merged": 0, "removed": 0, "left": 5})
    same(other.value("SELECT tessera_lease('db:t', 0)"), 0)
    host.check_contains(other.error("SELECT tessera_lease('db:none', 600)").text, "no such table: db:none")
    for i in range(20, 24):
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
    assert fragments(db) < 24, fragments(db)
    same(db.value("SELECT count(*) FROM t"), 24)
    other.close()
    db.close()


def test_a_failure_is_kept():
    """A merge that is impossible fails no COMMIT; tessera_advise tells why."""
    db, folder = database("'a', auto_consolidate=4", "x FLOAT64 DIMENSION(0, 100, 10) FILTERS(scale_float(8, 0.01, 0))", "a INTEGER")
    for i in range(9):
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
    [(detail, statement)] = db.query("SELECT detail, statement FROM tessera_advise('db:t') WHERE finding = 'auto_consolidate failed'")
    check_contains(detail, "scale_float")
    same(statement, "SELECT tessera_upkeep('db:t')")
    same(db.value("SELECT count(*) FROM t"), 9)
    db.close()


def test_by_hand():
    """tessera_upkeep does the same at once: all tiers; what is left behind by a bound; a dense array keeps its past unless it is asked to vacuum."""
    db, folder = database("'a'", "x INTEGER DIMENSION", "a INTEGER")
    for i in range(100):
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
    same(json.loads(db.value("SELECT tessera_upkeep('db:t', '{\"fanout\":4,\"seconds\":1e-9}')"))["left"] > 0, True)
    done = json.loads(db.value("SELECT tessera_upkeep('db:t', '{\"fanout\":4,\"grace_s\":0}')"))
    same(done["left"], 0)
    assert done["removed"] > 100, done
    assert fragments(db) <= 12, fragments(db)
    same(db.query("SELECT count(*), sum(a) FROM t"), [(100, sum(range(100)))])
    check_contains(db.error("SELECT tessera_upkeep('db:t', '{\"fanout\":3}')").text, "from 4 to 256")
    sound(db)
    db.close()
    db, folder = database("'a', kind=dense", "x INTEGER DIMENSION(0, 99, 10)", "a INTEGER")
    moments = []
    for i in range(16):
        db.query("INSERT INTO t VALUES(0, ?1)", (i,))
        moments.append(int(time.time() * 1000))
        time.sleep(0.004)
    same(json.loads(db.value("SELECT tessera_upkeep('db:t', '{\"grace_s\":0}')")), {"merged": 16, "removed": 0, "left": 0})
    for i, moment in enumerate(moments):
        same(db.value("SELECT a FROM t WHERE x = 0 AND as_of = ?1", (moment,)), i)
    assert json.loads(db.value("SELECT tessera_upkeep('db:t', '{\"grace_s\":0,\"vacuum\":true}')"))["removed"] > 16
    same(db.value("SELECT a FROM t WHERE x = 0"), 15)
    db.close()


def test_refusals():
    db = Database(os.path.join(host.FOLDER, "refusals.db"))
    for options, text in (
        ("auto_consolidate=3", "'auto_consolidate': expected yes, no or an integer from 4 to 256, not 3"),
        ("auto_consolidate=257", "not 257"),
        ("auto_consolidate=often", "not often"),
        ("auto_vacuum_s=5", "the option auto_consolidate is needed, too"),
        ("auto_consolidate=no, auto_vacuum_s=5", "the option auto_consolidate is needed, too"),
        ("auto_consolidate=yes, auto_vacuum_s=-1", "'auto_vacuum_s': expected an integer from 0"),
        ("auto_consolidate=yes, auto_vacuum_s=5, kind=dense", "ends time travel"),
        ("auto_consolidate=yes, auto_vacuum_s=5, format_version=12", "ends time travel"),
    ):
        check_contains(db.error(f"CREATE VIRTUAL TABLE t USING tessera('refused', {options}, x INTEGER DIMENSION(0, 9, 10), a INTEGER)").text, text)
        assert not os.path.exists(os.path.join(host.FOLDER, "refused", "__schema")), options
    db.query("CREATE VIRTUAL TABLE t USING tessera('dense', auto_consolidate=YES, kind=dense, x INTEGER DIMENSION(0, 9, 10), a INTEGER)")
    for i in range(40):
        db.query("INSERT INTO t VALUES(?1, ?2)", (i % 10, i))
    assert fragments(db) <= 16, fragments(db)
    same(db.value("SELECT sum(a) FROM t"), sum(range(30, 40)))
    db.close()


@not_on_windows("it kills processes")
def test_writers_that_are_killed():
    """Four writers with merges and vacuums, killed at any moment: what a COMMIT has confirmed is there once, what it has not at most once."""
    db, folder = database("'a', auto_consolidate=4, duplicates=yes", "x INTEGER DIMENSION", "a INTEGER")
    array, chance = os.path.join(folder, "a"), random.Random(7)

    def start(number):
        return subprocess.Popen([sys.executable, "-c", WRITER, host.EXTENSION, array, os.path.join(folder, f"w{number}"), str(number)], stderr=subprocess.PIPE)
    def confirmed():
        logs = [os.path.join(folder, f"w{n}.log") for n in range(4)]
        return sum(open(log).read().count("done") for log in logs if os.path.exists(log))
    writers, kills, end = [start(n) for n in range(4)], 0, time.monotonic() + SECONDS
    while kills < KILLS or confirmed() < 10 * KILLS:
        assert time.monotonic() < end, f"{kills} kills, {confirmed()} commits"
        time.sleep(chance.uniform(0.1, 1))
        n = chance.randrange(4)
        assert writers[n].poll() is None, writers[n].stderr.read().decode()
        writers[n].kill()
        writers[n].communicate()
        writers[n] = start(n)
        kills += 1
    for writer in writers:
        writer.kill()
        writer.communicate()
    begun, done = set(), set()
    for n in range(4):
        if not os.path.exists(os.path.join(folder, f"w{n}.log")):
            continue
        with open(os.path.join(folder, f"w{n}.log")) as log:
            for word, key in map(str.split, log):
                (begun if word == "begin" else done).add(int(key))
        again_ = Database(os.path.join(folder, f"w{n}.db"))   # settles what was prepared
        if again_.value("SELECT count(*) FROM sqlite_schema WHERE name = 't'"):
            again_.query("SELECT tessera_recover('db:t')")
        again_.close()
    rows = [x for x, in db.query("SELECT x FROM t ORDER BY x")]
    same(len(rows), len(set(rows)), "rows that are there twice")
    same(sorted(done - set(rows)), [], "confirmed rows that are lost")
    same(sorted(set(rows) - begun), [], "rows that nobody has written")
    sound(db)
    db.query("SELECT tessera_upkeep('db:t', '{\"grace_s\":0}')")
    same([x for x, in db.query("SELECT x FROM t ORDER BY x")], rows)
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
