"""Maintenance of arrays while others use them: how many files are opened for many fragments; consolidations and vacuums
beside each other, beside writers and readers (in processes of their own); progress handlers; tables that are open while
the schema changes.

usage: upkeep.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import shutil
import sys
import tempfile
import time
import traceback

if os.name != "nt":
    import resource

import host
from host import Database, Error, check_contains, literal, not_on_windows, same

KEY = "00112233445566778899aabbccddeeff" * 2
ABORT = 4   # SQLITE_ABORT
MANY = int(os.environ.get("MANY", 300))
RACE_SECONDS = float(os.environ.get("RACE_SECONDS", 2))   # that processes run beside each other, in each test of them


def database(*statements):
    """Makes a new database in a directory of its own, and executes statements in it."""
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "t.db")
    db = Database(path)
    db.query("PRAGMA synchronous = OFF")
    for sql in statements:
        db.query(sql)
    return db, path


def again(path):
    db = Database(path)
    db.query("PRAGMA synchronous = OFF")
    return db


def sound(db, name="db:t"):
    same(db.query(f"SELECT severity, file, message FROM tessera_check({literal(name)}) WHERE severity <> 'note'"), [], "tessera_check")


# ---- Many fragments --------------------------------------------------------------------------------------------------

def counted(path, sql):
    """Returns the rows of a new connection, and its counters."""
    time.sleep(0.1)   # a directory that has just changed is listed again by each statement
    db = again(path)
    answer = db.query(sql)
    stats = dict(db.query("SELECT name, value FROM tessera_stats"))
    db.close()
    return answer, stats


def test_many_fragments():
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 100000, 100), a INT NOT NULL)", "PRAGMA journal_mode = MEMORY")
    for i in range(MANY):
        db.query("INSERT INTO t SELECT ?1 * 10 + value, ?1 FROM json_each('[1,2,3]')", (i,))
    middle = MANY // 2
    nothing, slice, all = "SELECT count(*) FROM t WHERE x = -1", f"SELECT sum(a) FROM t WHERE x BETWEEN {10 * middle + 1} AND {10 * middle + 12}", "SELECT sum(a) FROM t"
    answers = [[(0,)], [(middle * 3 + (middle + 1) * 2,)], [(3 * sum(range(MANY)),)]]

    def costs(opening, listed, metadata):
        """Checks the number of files that are opened: to open the array; then for each tile the file of the coordinates (only if the slice cuts the tile) and that of the values."""
        for sql, answer, files in zip((nothing, slice, all), answers, (0, 4 + 2 * metadata, MANY * (1 + metadata))):
            got, stats = counted(path, sql)
            same(got, answer, sql)
            assert stats["files_opened"] <= opening + files, f"{sql}: {stats['files_opened']} files opened, {opening} and {files} are enough"
            assert stats["commits_listed"] <= 2 * listed, f"{sql}: {stats['commits_listed']} commits listed of {listed}"
            same(stats["fragments_considered"], MANY)
    costs(MANY + 1, MANY, 0)   # the schema
    same(db.query("SELECT tessera_consolidate('db:t', 'commits')"), [(MANY,)])
    costs(MANY + 2, MANY + 1, 0)   # and the .con
    db.query("SELECT tessera_vacuum('db:t', 'commits')")
    costs(MANY + 2, 1, 0)
    same(db.query("SELECT tessera_consolidate('db:t', 'fragment_meta')"), [(MANY,)])
    costs(2, 1, 1)   # schema, .meta; the metadata of the fragments whose tiles are read
    same(db.query("SELECT tessera_consolidate('db:t')"), [(MANY,)])
    db.query("SELECT tessera_vacuum('db:t')")
    got, stats = counted(path, slice)
    same(got, answers[1])
    assert stats["files_opened"] <= 6, stats
    sound(db)


def test_a_transaction_looks_once():
    """A transaction costs what has changed since the last one: it reads one directory, __commits, once; and none if it begins on the state of the statement before it."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 100000, 100), a INT NOT NULL)", "PRAGMA journal_mode = MEMORY")
    for i in range(MANY):
        if i == MANY - 1:   # a state that begins with so many fragments has room for more than are added below (test_a_state_grows_in_proportion)
            db.close()
            db = again(path)
            db.query("PRAGMA journal_mode = MEMORY")
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
    other = again(path)
    other.query("SELECT count(*) FROM t")

    def transaction(first, readings, listed, added):
        time.sleep(0.1)   # where the file system's clock is coarse, a directory that has just changed is read again
        db.query("SELECT tessera_reset_stats()")
        db.query("BEGIN")
        for i in range(100):
            db.query("INSERT INTO t VALUES(?1, ?1)", (first + i,))
        db.query("COMMIT")
        stats = dict(db.query("SELECT name, value FROM tessera_stats"))
        same((stats["directories_listed"], stats["commits_listed"]), (readings, listed), f"directories and names that the transaction at {first} has read")
        same(stats["fragments_listed"], added, f"fragments that the transaction at {first} has put into a snapshot")
    transaction(1000, 1, MANY, 1)   # its own last commit has changed the directory
    transaction(2000, 1, MANY + 1, 1)
    time.sleep(0.1)
    db.query("SELECT count(*) FROM t")
    transaction(3000, 0, 0, 0)
    other.query("INSERT INTO t VALUES(1000, -1)")   # what others commit is seen all the same
    transaction(4000, 1, MANY + 4, 2)
    same(db.query("SELECT count(*), sum(a < 0) FROM t"), [(MANY + 400, 1)])
    same(other.query("SELECT count(*), sum(a < 0) FROM t"), [(MANY + 400, 1)])
    other.query("DELETE FROM t WHERE x = 1000")
    time.sleep(0.1)
    same(db.query("SELECT count(*), sum(a < 0) FROM t"), [(MANY + 399, 0)])
    transaction(5000, 0, 0, 0)
    sound(db)
    other.close()
    db.close()


def test_a_state_grows_in_proportion():
    """Where the list of a state has no room for one more fragment, the state is made anew, with room for a quarter more: what is put into snapshots stays in proportion to the commits. At
    which commits that is depends on where the state began, and it begins anew while the directories are so young that their times tell nothing."""
    db, _ = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 100000, 100), a INT NOT NULL)")
    time.sleep(0.1)
    commits, anew = 4 * MANY, []
    db.query("SELECT tessera_reset_stats()")
    before = 0
    for i in range(commits):
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        listed = db.value("SELECT value FROM tessera_stats WHERE name = 'fragments_listed'")
        anew += [i] if listed - before > 1 else []
        before = listed
    db.close()
    assert anew and before < 6 * commits, f"{before} fragments put into snapshots by {commits} commits; anew at {anew}"


@not_on_windows("it does not limit open files")
def test_few_files_may_be_open():
    """Connections work where the process may open few files: they keep few that they do not use, give them back when an open fails, and use few at one time."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 100000, 1000), a INT, b TEXT)")
    for i in range(80):
        db.query("INSERT INTO t VALUES(?1 * 7, ?1, 'text')", (i,))
    db.close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/dev/fd"))
    try:
        for count, least in ((3, 120), (1, 36)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (before + least, limits[1]))
            connections = [again(path) for _ in range(count)]
            for c in connections * 2:
                same(c.query("SELECT count(*), sum(a), count(b) FROM t WHERE a >= 0"), [(80, 3160, 80)])
            for i, c in enumerate(connections):
                c.query("INSERT INTO t VALUES(?1, -1, 'more')", (50000 + i,))
                same(c.query("SELECT b FROM t WHERE x = 7"), [("text",)])
                c.query("DELETE FROM t WHERE a < 0")
            kept = len(os.listdir("/dev/fd")) - before
            assert kept <= count * (4 + (before + least) // 16), f"{count} connections keep {kept} files open"
            for c in connections:
                c.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@not_on_windows("it does not count open files")
def test_small_merges_list_the_array_once_each():
    """A consolidation that makes many small fragments looks at the directory of commits once for each of them, to see what others have done; and one that merges two
    fragments three times at most: before, to be sure of the sources, and for a vacuum of others."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 100000, 100), a INT NOT NULL)")
    for i in range(60):
        db.query("INSERT INTO t VALUES(?, ?)", (i, i))
    names = [name for name, in db.query("SELECT name FROM tessera_fragments('db:t') ORDER BY name")]
    db.close()
    _, stats = counted(path, f"SELECT tessera_consolidate('db:t', 'fragments', '{{\"fragments\": [\"{names[20]}\", \"{names[21]}\"]}}')")
    assert stats["commits_listed"] <= 3 * 65, f"two fragments: {stats['commits_listed']} commits listed"
    assert stats["tiles_read"] <= 4, f"two fragments: {stats['tiles_read']} tiles read"
    _, stats = counted(path, "SELECT tessera_consolidate('db:t', 'fragments', '{\"max_fragment_mb\": 0.001}')")
    db = again(path)
    merges = len([n for n in os.listdir(os.path.join(os.path.dirname(path), "a", "__commits")) if n.endswith(".vac")])
    assert merges > 5, merges
    assert stats["commits_listed"] <= (merges + 4) * (60 + 2 * merges), f"{merges} merges: {stats['commits_listed']} commits listed"
    same(db.query("SELECT count(*), sum(a) FROM t"), [(60, 60 * 59 // 2)])
    sound(db)


def test_open_files_of_many_arrays():
    """All arrays of a connection share one pool of open files. If the process may open no more files, files that are not in use are closed."""
    db, path = database("CREATE VIRTUAL TABLE t0 USING tessera('a0', x INT DIMENSION(0, 100000, 100), a INT, b TEXT)")
    for i in range(50):
        db.query("INSERT INTO t0 VALUES(?1 * 10, ?1, 'text'), (?1 * 10 + 1, ?1, 'more')", (i,))
    folder, count = os.path.dirname(path), 6
    for i in range(1, count):
        shutil.copytree(os.path.join(folder, "a0"), os.path.join(folder, f"a{i}"))
        db.query(f"CREATE VIRTUAL TABLE t{i} USING tessera('a{i}')")

    def look():
        for i in range(count):
            same(db.query(f"SELECT count(*), sum(a), count(b) FROM t{i}"), [(100, 2450, 100)])
        return len(os.listdir("/dev/fd"))
    before = len(os.listdir("/dev/fd"))
    most = look()
    assert before + 16 < most <= before + 64 + 8, f"{most - before} files are open"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most + 12, limits[1]))
        db.query("VACUUM")   # all tables are connected anew
        look()
        db.query("SELECT tessera_consolidate('db:t1')")
        look()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    db.close()


def test_files_are_opened_once():
    """With consolidated commits and footers a connection opens the schema and the .meta once, however many fragments there are; later only new files."""
    writer, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 100000, 100), a INT NOT NULL)")

    def write(*numbers):
        for i in numbers:
            writer.query("INSERT INTO t SELECT ?1 * 10 + value, ?1 FROM json_each('[1,2,3]')", (i,))
    write(*range(30))
    for sql in ("SELECT tessera_consolidate('db:t', 'commits')", "SELECT tessera_vacuum('db:t', 'commits')", "SELECT tessera_consolidate('db:t', 'fragment_meta')"):
        writer.query(sql)
    reader = Database()
    array = os.path.join(os.path.dirname(path), "a")

    def opens(files, sql, answer=[]):
        reader.query("SELECT tessera_reset_stats()")
        same(reader.query(sql), answer, sql)
        same(reader.query("SELECT value FROM tessera_stats WHERE name = 'files_opened'"), [(files,)], f"files opened by {sql}")
    nothing, some = "SELECT count(*) FROM t WHERE x = -1", "SELECT sum(a) FROM t WHERE x BETWEEN 101 AND 112"
    opens(1, f"CREATE VIRTUAL TABLE t USING tessera({literal(array)})")   # the schema
    opens(1, nothing, [(0,)])                                  # the .meta
    opens(0, nothing, [(0,)])
    opens(0, f"CREATE VIRTUAL TABLE u USING tessera({literal(array)}, since=1)")
    opens(0, nothing.replace("FROM t", "FROM u"), [(0,)])
    opens(0, nothing.replace("FROM t", "FROM t(1000)"), [(0,)])
    opens(5, some, [(52,)])                                    # two fragments: their metadata, a tile of a, and of x where the slice cuts its box
    opens(0, some, [(52,)])
    write(30)
    opens(1, nothing, [(0,)])                                  # the metadata of the new fragment
    opens(0, nothing, [(0,)])
    write(31, 32)
    writer.query("SELECT tessera_consolidate('db:t', 'commits')")
    opens(3, nothing, [(0,)])                                  # the metadata of two fragments, the new .con
    write(33, 34, 35)
    writer.query("SELECT tessera_vacuum('db:t', 'commits')")
    writer.query("SELECT tessera_consolidate('db:t', 'fragment_meta')")
    opens(1, nothing, [(0,)])                                  # the new .meta, since three fragments were not known
    opens(0, some, [(52,)])
    writer.query("SELECT tessera_consolidate('db:t', 'commits')")
    opens(0, nothing, [(0,)])                                  # the .con has the fragments of the .meta
    writer.query("SELECT tessera_vacuum('db:t')")
    opens(0, some, [(52,)])
    writer.query("DELETE FROM t WHERE x = 101")
    same(reader.query(some), [(42,)])                          # the condition; and the metadata of each fragment, which has the conditions that were applied to its cells
    writer.query("SELECT tessera_consolidate('db:t', 'commits')")
    opens(1, some, [(42,)])                                    # the condition is in the .con, too
    reader.close()

    reader = Database()
    opens(1, f"CREATE VIRTUAL TABLE t USING tessera({literal(array)})")
    opens(2 + 36, nothing, [(0,)])                             # the .con, which has a condition; the .meta; metadata of fragments, as above
    reader.close()
    writer.close()


def test_consolidated_commits_and_footers_of_an_encrypted_array():
    """The consolidated commits are not encrypted, the consolidated footers of the same name are."""
    key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
    for order in (("commits", "fragment_meta"), ("fragment_meta", "commits")):
        db, path = database()
        with open(os.path.join(os.path.dirname(path), "key"), "w") as f:
            f.write(key)
        db.query("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 99), a INT, encryption=aes_256_gcm, key_file='key')")
        for i in range(9):
            db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
        for what in order:
            db.query("SELECT tessera_consolidate('db:t', ?)", (what,))
        db.query("SELECT tessera_vacuum('db:t', 'commits')")
        array = os.path.join(os.path.dirname(path), "a")
        db.close()
        db = Database()
        db.query("SELECT tessera_set_key(?, ?)", (array, key))
        db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(array)})")
        db.query("SELECT tessera_reset_stats()")
        same(db.query("SELECT count(*) FROM t WHERE x = -1"), [(0,)])
        same(db.query("SELECT value FROM tessera_stats WHERE name = 'files_opened'"), [(1,)])
        same(db.query("SELECT sum(a) FROM t"), [(36,)])
        same(db.query("SELECT * FROM tessera_check('db:t')"), [])
        db.close()


def test_first_and_last_write():
    """first_write and last_write cover all commits, also deletes: reading at the last one's time shows the present."""
    for where in ("'a', ", ""):
        db, _ = database(f"CREATE VIRTUAL TABLE t USING tessera({where}x INT DIMENSION(0, 99), a INT)")
        times = "SELECT first_write, last_write FROM tessera_array('db:t')"
        same(db.query(times), [(None, None)])
        moments = []
        for sql in ("INSERT INTO t VALUES(1, 1), (2, 2), (3, 3)", "DELETE FROM t WHERE x = 1", "INSERT INTO t VALUES(4, 4)", "DELETE FROM t WHERE x > 2"):
            time.sleep(0.005)
            db.query(sql)
            first, last = db.query(times)[0]
            assert not moments or last > moments[-1][0], (sql, last, moments)
            moments.append((last, db.query("SELECT * FROM t ORDER BY x")))
            same(db.query("SELECT last_write FROM tessera_array('db:t', NULL, ?)", (last - 1,)), [(moments[-2][0] if moments[1:] else None,)])
        same(first, moments[0][0])
        for what in ("", "SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'commits')", "SELECT tessera_vacuum('db:t')"):
            if what:
                db.query(what)
            same(db.query(times), [(first, last)], what)
            for moment, rows in moments:
                same(db.query("SELECT * FROM t(?) ORDER BY x", (moment,)), rows, what)
        db.close()


def test_times_of_consolidation():
    """An as_of before all times consolidates nothing; it does not mean the present."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 99), a INT)")
    for i in range(3):
        db.query("INSERT INTO t VALUES(?, 1)", (i,))
        db.query("SELECT tessera_set_metadata('db:t', 'k', ?)", (i,))
    for options in ('{"as_of": 0}', '{"as_of": "1970-01-01"}', '{"as_of": -5}', '{"as_of": 1}', '{"since": "2200-01-01"}', '{"since": 9, "as_of": 8}'):
        for what in ("fragments", "fragment_meta", "array_meta"):
            same(db.query("SELECT tessera_consolidate('db:t', ?, ?)", (what, options)), [(0,)], f"{what} {options}")
    names = [row[0] for row in db.query("SELECT name FROM tessera_fragments('db:t')")]
    error = db.error("SELECT tessera_consolidate('db:t', 'fragments', ?)", ('{"as_of": 0, "fragments": ["%s", "%s"]}' % tuple(names[:2]),))
    check_contains(error.text, "is not within the times given")
    for wrong, says in (("3", "'3': expected fragments, commits"), ("x'636f6d6d697473'", "'commits': expected fragments, commits")):
        check_contains(db.error(f"SELECT tessera_vacuum('db:t', {wrong})").text, says)
    same(db.query("SELECT tessera_consolidate('db:t', 'fragments', '{\"as_of\": null}')"), [(3,)])
    db.close()


# ---- Processes beside each other -------------------------------------------------------------------------------------

def in_processes(*functions):
    """Runs all functions at once, each in a process of its own. Returns the errors."""
    children = []
    for function in functions:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                function()
                text = ""
            except BaseException:
                text = traceback.format_exc()
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        children.append((child, reader))
    said = []
    for child, reader in children:
        with os.fdopen(reader, "rb") as f:
            said.append(f.read().decode())
        assert os.waitpid(child, 0)[1] == 0
    assert not any(said), "\n".join(said)


def until(seconds, step):
    """Runs a statement again and again. SQLITE_ABORT, which says that another process was faster, is allowed."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            step(count)
        except Error as e:
            assert e.code in (None, ABORT) and ("meanwhile" in e.text or "at the same time" in e.text or "vacuumed during" in e.text), e.text
        count += 1


TABLES = {
    "sparse": "x INT DIMENSION(0, 100000, 100), a INT NOT NULL, capacity=50",
    "duplicates": "x INT DIMENSION(0, 100000, 100), a INT NOT NULL, capacity=50, duplicates=yes",
    "dense": "kind=dense, x INT DIMENSION(0, 100000, 100), a INT NOT NULL",
    "old": "kind=dense, x INT DIMENSION(0, 100000, 100), a INT NOT NULL, format_version=12",
}


def beside(kind, processes, rows, seconds=RACE_SECONDS):
    """Runs `processes`, functions of (a connection of their own, number of the turn), and checks that no row is lost or doubled."""
    db, path = database(f"CREATE VIRTUAL TABLE t USING tessera('a', {TABLES[kind]})")
    for i in range(20):
        db.query("INSERT INTO t SELECT ?1 * 5 + value, ?1 FROM json_each('[0,1,2,3,4]')", (i,))
    array = os.path.join(os.path.dirname(path), "a")
    db.close()

    def run(step):
        own = Database()
        own.query("PRAGMA synchronous = OFF")
        own.table("t", array)
        until(seconds, lambda n: step(own, n))
        own.close()
    in_processes(*(lambda s=step: run(s) for step in processes))
    db = again(path)
    found = db.query("SELECT x, a FROM t WHERE a IS NOT NULL ORDER BY x, a")
    wanted = sorted([(i, i // 5) for i in range(100)] + rows(found))
    same(found, wanted, f"rows of the {kind} array")
    sound(db)
    db.query("SELECT tessera_consolidate('db:t')")
    db.query("SELECT tessera_vacuum('db:t')")
    same(db.query("SELECT x, a FROM t WHERE a IS NOT NULL ORDER BY x, a"), wanted, f"rows of the {kind} array, merged")
    db.close()


def merge(db, turn):
    db.query("SELECT tessera_consolidate('db:t')")


def write(base):
    return lambda db, turn: db.query("INSERT INTO t VALUES(?, ?)", (base + turn, turn))


def no_rows(found):
    return []


def written(*bases):
    """Checks that each writer's rows are there up to its last one, without gaps."""
    def rows(found):
        last = {base: max([x for x, _ in found if base <= x < base + 10000], default=base - 1) for base in bases}
        return [(x, x - base) for base in bases for x in range(base, last[base] + 1)]
    return rows


@not_on_windows("it has no fork()")
def test_two_consolidations_at_once():
    """Both find the same fragments: one of them consolidates, or none."""
    for kind in TABLES:
        db, path = database(f"CREATE VIRTUAL TABLE t USING tessera('a', {TABLES[kind]})")
        array = os.path.join(os.path.dirname(path), "a")
        rows = []
        for turn in range(12):
            for i in range(4):
                x = 10 * (4 * turn + i)
                db.query("INSERT INTO t VALUES(?, ?)", (x, turn))
                rows.append((x, turn))
            at = time.monotonic() + 0.05

            def run():
                own = Database()
                own.table("t", array)
                time.sleep(max(0, at - time.monotonic()))
                try:
                    own.query("SELECT tessera_consolidate('db:t')")
                except Error as e:
                    assert "meanwhile" in e.text or "at the same time" in e.text, e.text
                own.close()
            in_processes(run, run, run)
            same(db.query("SELECT x, a FROM t WHERE a IS NOT NULL ORDER BY x, a"), rows, f"{kind}, turn {turn}")
            same(db.query("SELECT count(*) FROM tessera_check('db:t') WHERE severity <> 'note'"), [(0,)])
        db.query("SELECT tessera_consolidate('db:t')")
        same(db.query("SELECT x, a FROM t WHERE a IS NOT NULL ORDER BY x, a"), rows, kind)
        db.close()


@not_on_windows("it has no fork()")
def test_consolidation_beside_writers():
    for kind in TABLES:
        beside(kind, [merge, write(1000), write(20000)], written(1000, 20000))


@not_on_windows("it has no fork()")
def test_consolidation_beside_vacuum():
    for kind in ("duplicates", "dense"):
        def maintain(db, turn):
            db.query("SELECT tessera_consolidate('db:t', ?)", (["fragments", "commits", "fragment_meta"][turn % 3],))

        beside(kind, [maintain, lambda db, turn: db.query("SELECT tessera_vacuum('db:t')"), write(1000)], written(1000))


@not_on_windows("it has no fork()")
def test_readers_beside_writers_and_maintenance():
    """A reader sees no gaps: each of the rows that were always there once, and the writer's rows up to one of them."""
    def read(db, turn):
        found = db.query("SELECT x, a FROM t WHERE a IS NOT NULL ORDER BY x, a")
        wanted = sorted([(i, i // 5) for i in range(100)] + written(1000)(found))
        same(found, wanted, f"turn {turn}")

    def maintain(db, turn):
        db.query("SELECT tessera_consolidate('db:t')")
        db.query("SELECT tessera_vacuum('db:t')")
    for kind in ("duplicates", "dense"):
        beside(kind, [maintain, read, read, write(1000)], written(1000))


def test_no_merge_spans_an_uncommitted_fragment():
    """A fragment's directory whose time lies within the merge may be committed yet. The directory of a merge that was interrupted may not."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 99), a INT)")
    for i in range(4):
        db.query("INSERT INTO t VALUES(?, 1)", (i,))
    folder = os.path.join(os.path.dirname(path), "a")
    names = sorted(os.listdir(os.path.join(folder, "__fragments")))
    commit = os.path.join(folder, "__commits", names[1] + ".wrt")
    os.rename(commit, path + ".away")
    same(db.query("SELECT tessera_consolidate('db:t')"), [(2,)])
    os.rename(path + ".away", commit)
    same(db.query("SELECT x FROM t ORDER BY x"), [(0,), (1,), (2,), (3,)])
    # A merge that dies before its commit leaves its fragment and its vacuum file.
    left = "__%s_%s_%s_22" % (names[0].split("_")[2], names[3].split("_")[3], "0" * 32)
    os.mkdir(os.path.join(folder, "__fragments", left))
    for name, text in ((f".{left}", ""), (f".{left}.vac.new", "".join(f"/__fragments/{n}\n" for n in names[:2]))):
        with open(os.path.join(folder, "__commits", name), "w", newline="\n") as f:
            f.write(text)
    sound(db)
    same(db.query("SELECT tessera_consolidate('db:t')"), [(3,)])
    same(db.query("SELECT x FROM t ORDER BY x"), [(0,), (1,), (2,), (3,)])
    same([n for n in os.listdir(os.path.join(folder, "__commits")) + os.listdir(os.path.join(folder, "__fragments")) if left in n], [], "left of the other merge")
    same(db.query("SELECT count(*) FROM tessera_fragments('db:t')"), [(1,)])


def test_a_vacuum_with_grace_keeps_what_was_replaced_lately():
    """Fragments, commits, footers and metadata stay until the files that replace them are as old as grace_s says."""
    for place in ("'a', ", ""): # a directory, the database
        db, path = database(f"CREATE VIRTUAL TABLE t USING tessera({place}x INT DIMENSION(0, 99), a INT)")
        uri = "db:t"
        for i in range(3):
            db.query("INSERT INTO t VALUES(?, 1)", (i,))
            db.query(f"SELECT tessera_set_metadata('{uri}', 'k', ?)", (i,))
        for what in ("commits", "fragment_meta", "array_meta", "fragments"):
            db.query(f"SELECT tessera_consolidate('{uri}', '{what}')")
        for what in ("NULL", "'commits'", "'fragments'", "'array_meta'", "'fragment_meta'"):
            same(db.query(f"SELECT tessera_vacuum('{uri}', {what}, '{{\"grace_s\": 600}}')"), [(0,)], f"{place} {what} with a grace")
        if place:
            folder = os.path.join(os.path.dirname(path), "a")
            for name in ("__commits", "__meta", "__fragment_meta"):
                for file in os.listdir(os.path.join(folder, name)):
                    os.utime(os.path.join(folder, name, file), (time.time() - 500,) * 2)
            same(db.query(f"SELECT tessera_vacuum('{uri}', NULL, '{{\"grace_s\": 600}}')"), [(0,)], "500 of 600 seconds")
            removed = db.query(f"SELECT tessera_vacuum('{uri}', NULL, '{{\"grace_s\": 400.5}}')")[0][0]
        else:
            removed = db.query(f"SELECT tessera_vacuum('{uri}', NULL, '{{\"grace_s\": 0}}')")[0][0]
        # What the vacuum itself has just replaced is young: with a grace it stays for the next vacuum.
        same(removed, 8 if place else 10, f"{place} removed")
        same(db.query(f"SELECT tessera_vacuum('{uri}')"), [(2 if place else 0,)], f"{place} left for a vacuum without a grace")
        same(db.query("SELECT count(*) FROM t"), [(3,)])
        sound(db)
        for options, says in (('{"grace_s": -1}', "grace_s"), ('{"grace_s": "x"}', "grace_s"), ('{"grace": 1}', "no option"), ("1", "tessera_vacuum")):
            try:
                db.query(f"SELECT tessera_vacuum('{uri}', NULL, ?)", (options,))
                raise AssertionError(options)
            except Error as error:
                check_contains(str(error), says)


def test_a_copy_of_the_array_of_an_interrupted_merge():
    """A merge dies between its commit and the rename of its vacuum file: the vacuum file counts under its first name, also in a copy of the array."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 99), a INT, duplicates=yes)")
    for i in range(3):
        db.query("INSERT INTO t VALUES(?, 1)", (i,))
    folder = os.path.dirname(path)
    db.query("SELECT tessera_consolidate('db:t')")
    commits = os.path.join(folder, "a", "__commits")
    vacuum, = [n for n in os.listdir(commits) if n.endswith(".vac")]
    os.rename(os.path.join(commits, vacuum), os.path.join(commits, f".{vacuum}.new"))
    rows = [(0, 1), (1, 1), (2, 1)]
    other = again(path)
    same(other.query("SELECT * FROM t ORDER BY x"), rows)
    other.query("SELECT tessera_sync(?, 'db:inside')", (os.path.join(folder, "a"),))
    same(other.query("SELECT * FROM inside ORDER BY x"), rows)
    other.query("SELECT tessera_sync('db:inside', ?)", (os.path.join(folder, "b"),))
    other.query("CREATE VIRTUAL TABLE b USING tessera('b')")
    same(other.query("SELECT * FROM b ORDER BY x"), rows)


def test_an_incomplete_copy_is_no_array():
    """Also the copy of an old array that has evolved, whose schemas are in two places."""
    source = host.corpus("mixed/lib1.7_sparse_evolved")
    db, path = database("CREATE TABLE n(x)")
    target = os.path.join(os.path.dirname(path), "copy")
    db.query("SELECT tessera_sync(?, 'db:inside')", (source,))
    rows = db.query("SELECT * FROM inside")
    seen = []

    def look():
        there = set(os.listdir(target)) if os.path.isdir(target) else set()
        seen.append((len(there), sorted(there & {"__schema", "__array_schema.tdb"})))
        return 0
    db.raw.set_progress_handler(look, 1)
    db.query("SELECT tessera_sync('db:inside', ?)", (target,))
    db.raw.set_progress_handler(None, 0)
    same([names for _, names in seen if len(names) == 1], [], "what makes it an array")
    assert [] in [names for _, names in seen], seen
    assert max(count for count, _ in seen) > 3, seen
    assert {"__schema", "__array_schema.tdb"} <= set(os.listdir(target)), os.listdir(target)
    db.query("CREATE VIRTUAL TABLE copied USING tessera('copy')")
    same(db.query("SELECT * FROM copied"), rows)


def files_of(path, suffix):
    folder = os.path.join(path, "__commits")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(suffix))


def set_age(file, seconds):
    os.utime(file, (time.time() - seconds,) * 2)


def make_deleted(path):
    """Makes an array of three rows, of which one is deleted. Returns the database and the path of the .del file."""
    db, _ = database(f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, x INT32 DIMENSION(0, 9), v INT32)", "INSERT INTO t VALUES(1, 1), (2, 2), (3, 3)",
                     "DELETE FROM t WHERE v = 2")
    (deleted,) = files_of(path, ".del")
    return db, deleted


def test_consolidated_commits_have_no_copy_of_an_unfinished_delete():
    """TileDB writes a .del file in place. A consolidation of commits that meets one without its bytes waits, then fails, and writes no
    .con: its copy would make the array unreadable for good."""
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db, deleted = make_deleted(path)
    with open(deleted, "rb") as f:
        content = f.read()
    for size, age, code in ((0, 0, 5), (len(content) // 2, 0, 5), (0, 60, 11)):
        os.truncate(deleted, size)
        set_age(deleted, age)
        same(db.error("SELECT tessera_consolidate('db:t', 'commits')").code, code, f"a .del of {size} bytes, {age} s old")
        same(files_of(path, ".con"), [], "consolidated commits")
    with open(deleted, "wb") as f:
        f.write(content)
    db.query("SELECT tessera_consolidate('db:t', 'commits')")
    same(db.query("SELECT x FROM t ORDER BY x"), [(1,), (3,)], "rows")


def test_a_bad_copy_of_a_delete_in_consolidated_commits():
    """A .con of TileDB may have a copy of a .del file that was not complete yet. Readers take the file then, and a consolidation of
    commits writes a sound copy. Without the file it is damage."""
    path = os.path.join(tempfile.mkdtemp(dir=host.FOLDER), "a")
    db, deleted = make_deleted(path)
    db.query("SELECT tessera_consolidate('db:t', 'commits')")
    db.query("SELECT tessera_vacuum('db:t', 'commits')")
    db.close()
    (bad,) = files_of(path, ".con")
    with open(bad, "rb") as f:
        content = f.read()
    line = b"__commits/" + os.path.basename(deleted).encode() + b"\n"
    at = content.index(line) + len(line)
    size = int.from_bytes(content[at:at + 8], "little")
    with open(deleted, "rb") as f:
        same(content[at + 8:at + 8 + size], f.read(), "the copy")
    with open(bad, "wb") as f:
        f.write(content[:at] + bytes(8) + content[at + 8 + size:])
    set_age(bad, 60)
    table = f"CREATE VIRTUAL TABLE t USING tessera({literal(path)})"
    db, _ = database(table)
    same(db.query("SELECT x FROM t ORDER BY x"), [(1,), (3,)], "rows beside a bad copy")
    ((severity, _, text),) = db.query("SELECT severity, file, message FROM tessera_check('db:t')")
    same(severity, "note", "severity")
    check_contains(text, "its copy of __commits/" + os.path.basename(deleted) + " cannot be decoded")
    os.rename(deleted, deleted + "away")
    other, _ = database(table)
    same(other.error("SELECT x FROM t").code, 11, "without the file")
    other.close()
    os.rename(deleted + "away", deleted)
    db.query("SELECT tessera_consolidate('db:t', 'commits')")
    db.query("SELECT tessera_vacuum('db:t', 'commits')")
    db.close()
    same(len(files_of(path, ".con")), 1, "consolidated commits")
    os.unlink(deleted)
    db, _ = database(table)
    same(db.query("SELECT x FROM t ORDER BY x"), [(1,), (3,)], "rows with a sound copy alone")
    same(db.query("SELECT * FROM tessera_check('db:t')"), [], "check")


def test_a_con_that_was_written_beside_a_vacuum():
    """A .con that another program writes in place names fragments that were vacuumed meanwhile (errata 111). The error and the check say what cancels them, and it does; a fragment
    that is gone without a merged one is missing."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INTEGER DIMENSION, a INTEGER)")
    for i in range(4):
        db.query("INSERT INTO t VALUES(?1, ?1)", (i,))
    folder = os.path.join(os.path.dirname(path), "a")
    names = sorted(os.listdir(os.path.join(folder, "__fragments")))
    db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    [merged] = os.listdir(os.path.join(folder, "__fragments"))
    db.query("INSERT INTO t VALUES(4, 4)")
    con = f"{'_'.join(names[0].split('_')[:3])}_{names[3].split('_')[3]}_{'ab' * 16}_22.con"
    with open(os.path.join(folder, "__commits", con), "w", encoding="utf-8") as f:
        f.writelines(f"__commits/{name}.wrt\n" for name in [*names, merged])
    fresh = again(path)
    error = fresh.error("SELECT count(*) FROM t").text
    for part in f"fragment {names[0]} is committed, but gone", f"{merged} has its cells", "tessera_consolidate(path, 'commits') cancels it":
        check_contains(error, part)
    findings = fresh.query("SELECT severity, file, message FROM tessera_check('db:t') WHERE severity <> 'note'")
    same([(severity, file) for severity, file, _ in findings], [("error", f"__commits/{con}")] * 4)
    for name, (_, _, message) in zip(names, findings):
        for part in f"fragment {name} is committed, but gone", f"{merged} has its cells", "tessera_consolidate(path, 'commits') cancels it":
            check_contains(message, part)
    fresh.query("SELECT tessera_consolidate('db:t', 'commits')")
    same(fresh.query("SELECT x, a FROM t ORDER BY x"), [(i, i) for i in range(5)])
    sound(fresh)
    fresh.close()
    [last] = set(os.listdir(os.path.join(folder, "__fragments"))) - {merged}
    shutil.rmtree(os.path.join(folder, "__fragments", last))
    fresh = again(path)
    error = fresh.error("SELECT count(*) FROM t").text
    check_contains(error, last)
    assert "has its cells" not in error, error
    fresh.close()
    db.close()


def test_unencrypted_files_of_an_encrypted_array_are_not_believed():
    """Someone without the key adds metadata or a commit of deletes: reads, merges and the check say that it is not encrypted."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    key = os.path.join(folder, "key")
    with open(key, "w") as f:
        f.write(KEY)
    for name, others in (("__meta", "SELECT tessera_set_metadata('{0}', 'forged', 1)"), ("__commits", "DELETE FROM o")):
        array, plain = os.path.join(folder, name, "a"), os.path.join(folder, name, "o")
        os.mkdir(os.path.dirname(array))
        columns = "x INT DIMENSION(0, 99), a INT"
        db, _ = database(f"CREATE VIRTUAL TABLE t USING tessera({literal(array)}, {columns}, encryption=aes_256_gcm, key_file={literal(key)})",
                         f"CREATE VIRTUAL TABLE o USING tessera({literal(plain)}, {columns})", "INSERT INTO t VALUES(1, 1)", "INSERT INTO o VALUES(1, 1)",
                         "SELECT tessera_set_metadata('db:t', 'mine', 1)", "SELECT tessera_set_metadata('db:t', 'mine', 2)")
        before = set(os.listdir(os.path.join(plain, name))) if os.path.isdir(os.path.join(plain, name)) else set()
        db.query(others.format(plain))
        new, = set(os.listdir(os.path.join(plain, name))) - before
        shutil.copy(os.path.join(plain, name, new), os.path.join(array, name, new))
        db.close()
        db, _ = database(f"CREATE VIRTUAL TABLE t USING tessera({literal(array)}, key_file={literal(key)})")
        if name == "__meta":
            check_contains(db.error("SELECT tessera_consolidate('db:t', 'array_meta')").text, "is not encrypted")
            check_contains(db.error("SELECT * FROM tessera_metadata('db:t')").text, "is not encrypted")
        else:
            check_contains(db.error("SELECT * FROM t").text, "is not encrypted")
        check_contains(str(db.query("SELECT message FROM tessera_check('db:t') WHERE severity = 'error'")), "is not encrypted")


# ---- Vacuums beside open statements -----------------------------------------------------------------------------------

def test_a_vacuum_beside_an_open_cursor():
    """The cursor's rows are right, up to the end or to an error that says what happened."""
    answered = aborted = 0
    for kind in ("sparse", "dense"):
        for stepped in (0, 1, 700, 4000):
            for options in ("", ", cache_mb=0, memory_mb=2"):
                db, path = database(f"CREATE VIRTUAL TABLE t USING tessera('a', {'kind=dense, ' if kind == 'dense' else ''}x INT DIMENSION(0, 1000000, 500), a INT NOT NULL, s BLOB[200] NOT NULL FILTERS(none){'' if kind == 'dense' else ', capacity=500'})")
                numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1499) "
                for i in range(5):
                    db.query(f"{numbers}INSERT INTO t SELECT i + {1000 * i}, i + {i}, zeroblob(200) FROM n")
                array = os.path.join(os.path.dirname(path), "a")
                reader = Database()
                reader.table("t", array, options)
                sql = "SELECT x, a, length(s) FROM t ORDER BY x"
                wanted = reader.query(sql)
                reader.close()
                reader = Database()
                reader.table("t", array, options)
                cursor = reader.cursor(sql)
                got = [reader.next(cursor) for _ in range(stepped)]
                db.query("SELECT tessera_consolidate('db:t')")
                same(db.query("SELECT tessera_vacuum('db:t') > 5"), [(1,)])
                try:
                    while (row := reader.next(cursor)) is not None:
                        got.append(row)
                    same(got, wanted, (kind, stepped, options))
                    answered += 1
                except Error as e:
                    same(got, wanted[:len(got)], (kind, stepped, options))
                    check_contains(e.text, "was vacuumed during this statement")
                    assert e.code in (None, ABORT), e.code
                    aborted += 1
                cursor = None
                same(reader.query(sql), wanted, "the next statement")
                reader.close()
                db.close()
    assert answered > 2 and aborted > 2, (answered, aborted)


def test_a_vacuum_beside_a_transaction():
    """The fragments with which the transaction began are gone: each of its statements fails until it is rolled back, and none returns too few rows."""
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', kind=dense, x INT DIMENSION(0, 99, 10), a INT)")
    for i in range(3):
        db.query(f"INSERT INTO t(x, a) VALUES ({i}, {i})")
    other = Database()
    other.table("t", os.path.join(os.path.dirname(path), "a"))
    other.query("BEGIN")
    other.query("INSERT INTO t(x, a) VALUES (50, 50)")
    time.sleep(0.005)
    db.query("INSERT INTO t(x, a) VALUES (3, 3)")
    same(db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t') > 4"), [(4, 1)])
    count = "SELECT count(a) FROM t"
    for sql in (count, count, "UPDATE t SET a = 7 WHERE x = 1", count):
        try:
            fail = other.query(sql)
        except Error as e:
            assert e.code in (None, ABORT) and "vacuumed" in e.text, e.text
        else:
            raise AssertionError((sql, fail))
    other.query("COMMIT")
    same(other.query(count), [(5,)])
    other.close()
    db.close()


# ---- Interrupts ------------------------------------------------------------------------------------------------------

def tree(folder):
    return sorted(os.path.relpath(os.path.join(d, f), folder) for d, ds, names in os.walk(folder) for f in names + ds)


def handled(db, sql, stop_at=None):
    """Counts the calls of the progress handler, about one for each poll, and stops at one of them."""
    calls = [0]

    def handler():
        calls[0] += 1
        return calls[0] == stop_at
    db.raw.set_progress_handler(handler, 1)
    try:
        db.query(sql)
        error = None
    except Error as e:
        error = e
    db.raw.set_progress_handler(None, 0)
    return calls[0], error


def test_progress_handlers_of_upkeep():
    """The handler is called at least once for each 65,536 rows and each 4 MiB. A stop leaves the array as it was."""
    statement = 4   # the maximum number of calls for one poll, which is a statement of SQLite
    for kind, rows, width in (("sparse", 200000, 4), ("sparse", 10000, 2000), ("dense", 200000, 4), ("dense", 10000, 2000)):
        db, path = database(f"CREATE VIRTUAL TABLE t USING tessera('a', kind={kind}, x INT DIMENSION(0, 1000000, 20000), s BLOB[{width}] NOT NULL FILTERS(none))")
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows // 2 - 1}) "
        for i in range(2):
            db.query(f"{numbers}INSERT INTO t SELECT i + {i * rows // 2}, zeroblob({width}) FROM n")
        folder = os.path.join(os.path.dirname(path), "a")
        there = tree(folder)
        shutil.copytree(folder, folder + ".kept")
        db.close()
        db = again(path)   # as below, so that the number of calls is the same
        db.query("SELECT 1 FROM t LIMIT 1")
        count, error = handled(db, "SELECT tessera_consolidate('db:t')")
        assert error is None, error.text
        need = max(rows // 65536, rows * width // (4 << 20))
        assert count >= need * statement, f"{kind}: {count} calls for {rows} rows of {width} bytes"
        vacuum, error = handled(db, "SELECT tessera_vacuum('db:t')")
        assert error is None and vacuum > statement, (vacuum, error)
        want = db.query("SELECT count(*), sum(x) FROM t")
        db.close()
        stopped = 0
        for stop in {count // 7, count // 3, count // 2, count * 4 // 5}:
            shutil.rmtree(folder)
            shutil.copytree(folder + ".kept", folder)
            db = again(path)
            db.query("SELECT 1 FROM t LIMIT 1")
            _, error = handled(db, "SELECT tessera_consolidate('db:t')", stop)
            stopped += error is not None
            if error:
                check_contains(error.text, "interrupt")
                same(tree(folder), there, f"{kind}, stopped at call {stop} of {count}")
            same(db.query("SELECT count(*), sum(x) FROM t"), want)
            sound(db)
            db.close()
        assert stopped > 1, stopped


# ---- Tables that are open while the schema changes --------------------------------------------------------------------

def test_open_tables_when_the_schema_changes():
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 99), a INT, b TEXT NOT NULL DEFAULT 'd')", "INSERT INTO t VALUES(1, 1, 'one')")
    columns = [row[1] for row in db.query("PRAGMA table_info(t)")]
    cursor = db.raw.cursor()
    db.query("SELECT tessera_add_attribute('db:t', 'n INT')")
    db.query("SELECT tessera_add_attribute('db:t', 'f INT NOT NULL DEFAULT 7')")
    same([row[1] for row in db.query("PRAGMA table_info(t)")], columns)
    same(db.query("SELECT * FROM t"), [(1, 1, "one")])
    db.query("INSERT INTO t VALUES(2, 2, 'two')")
    db.query("UPDATE t SET a = 11 WHERE x = 1")
    same(db.query("SELECT * FROM t ORDER BY x"), [(1, 11, "one"), (2, 2, "two")])
    other = again(path)   # the new connection sees all columns
    same(other.query("SELECT x, a, b, n, f FROM t WHERE x = 2"), [(2, 2, "two", None, 7)], "NULL, and the DEFAULT")
    other.close()
    # An attribute without a default: the open table cannot write a value for it.
    db.query("SELECT tessera_add_attribute('db:t', 'must INT NOT NULL')")
    e = db.error("INSERT INTO t VALUES(3, 3, 'three')")
    check_contains(e.text, "must")
    same(db.query("SELECT count(*) FROM t"), [(2,)])
    db.query("SELECT tessera_drop_attribute('db:t', 'must')")
    # An attribute that was dropped
    db.query("SELECT tessera_drop_attribute('db:t', 'b')")
    e = db.error("SELECT b FROM t")
    check_contains(e.text, "b")
    same(db.query("SELECT x, a FROM t ORDER BY x"), [(1, 11), (2, 2)])
    check_contains(db.error("INSERT INTO t VALUES(3, 3, 'three')").text, "b")
    # An attribute of another kind under the same name would read the old bytes, so it is refused; one of the same kind finds the old values again.
    check_contains(db.error("SELECT tessera_add_attribute('db:t', 'b INT')").text, "was here before")
    db.query("SELECT tessera_add_attribute('db:t', 'b TEXT NOT NULL')")
    check_contains(db.error("SELECT b FROM t").text, "open the database again")   # it may be NULL now, and the table has declared it NOT NULL
    db.close()
    db = again(path)
    same(db.query("SELECT x, a, b FROM t ORDER BY x"), [(1, 11, "one"), (2, 2, "two")])
    db.query("INSERT INTO t(x, a, b) VALUES(4, 4, '4')")
    db.query("DELETE FROM t WHERE b = '4'")
    db.query("SELECT tessera_drop_attribute('db:t', 'b')")
    db.close()
    db = again(path)
    same(db.query("SELECT x, a, n, f FROM t ORDER BY x"), [(1, 11, None, 7), (2, 2, None, 7)])
    sound(db)


def test_open_tables_see_labels_and_the_larger_domain():
    db, path = database("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 99) CURRENT(0, 9), e TEXT ENUM('one'))", "INSERT INTO t VALUES(1, 'one')")
    other = again(path)
    same(other.query("SELECT * FROM t"), [(1, "one")])
    check_contains(other.error("INSERT INTO t VALUES(12, 'one')").text, "12")
    check_contains(other.error("INSERT INTO t VALUES(1, 'two')").text, "two")
    db.query("SELECT tessera_extend_enumeration('db:t', 'e', 'two'), tessera_expand_domain('db:t', '{\"x\": [0, 19]}')")
    other.query("INSERT INTO t VALUES(12, 'two')")
    same(other.query("SELECT * FROM t WHERE e = 'two'"), [(12, "two")])
    same(db.query("SELECT * FROM t ORDER BY x"), [(1, "one"), (12, "two")])
    sound(db)


# ---- Keys ------------------------------------------------------------------------------------------------------------

def test_tables_bring_their_keys():
    db, path = database()
    with open(os.path.join(os.path.dirname(path), "key"), "w") as f:
        f.write(KEY)
    db.query("CREATE VIRTUAL TABLE t USING tessera('a', x INT DIMENSION(0, 99), a INT, encryption=aes_256_gcm, key_file='key')")
    for i in range(20):
        db.query("INSERT INTO t VALUES(?, 1)", (i,))
    sound(db)
    same(db.query("SELECT finding, statement FROM tessera_advise('db:t')"), [("too many fragments", "SELECT tessera_consolidate('db:t')")])
    db.query("SELECT tessera_consolidate('db:t')")
    same(db.query("SELECT finding FROM tessera_advise('db:t')"), [("debris",)])
    db.query("SELECT tessera_vacuum('db:t')")
    same(db.query("SELECT finding FROM tessera_advise('db:t')"), [])


if __name__ == "__main__":
    host.main(sys.modules[__name__])
