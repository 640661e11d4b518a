"""tessera_restrict: nothing outside of the directory is read or changed, whatever an array contains: symbolic links in
place of every directory and file, hard links, and links that are swapped in between a check and an open. A connection
that is not restricted follows links.

usage: restrict.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import itertools
import os
import re
import shutil
import sys
import tempfile
import threading

import host
from host import Database, Error, literal, same

NUMBERS = itertools.count()
KEY = "0123456789abcdef0123456789abcdef"
OUTSIDE, INSIDE = b"secret", b"public"      # the values in arrays outside, and in their copies inside


def fresh(name):
    """Makes two directories: one to which a connection is restricted, and one outside of it."""
    folder = os.path.realpath(os.path.join(host.FOLDER, f"{name}{next(NUMBERS)}"))
    inside, outside = os.path.join(folder, "in"), os.path.join(folder, "out")
    os.makedirs(inside)
    os.makedirs(outside)
    return inside, outside


def make(path, kind="sparse"):
    """Makes an array with all kinds of files: several fragments and a merged one, a delete, metadata, an enumeration, consolidated files. The
    texts of `v` stand in its files as they are."""
    db = Database()
    db.table("t", path, f", kind={kind}, x INT DIMENSION(0, 99, 10), n INT, v TEXT FILTERS(none), e TEXT ENUM('a', 'b')")
    for i in range(3):
        db.query("INSERT INTO t VALUES(?, ?, 'secret', 'a')", (i, i))
    if kind == "sparse":
        db.query("DELETE FROM t WHERE x = 0")
    db.query("SELECT tessera_consolidate('db:t'), tessera_vacuum('db:t')")
    for i in range(3, 6):
        db.query("INSERT INTO t VALUES(?, ?, 'secret', 'a')", (i, i))
    db.query("SELECT tessera_set_metadata('db:t', 'k', 1)")
    db.query("SELECT tessera_consolidate('db:t', 'commits'), tessera_consolidate('db:t', 'fragment_meta')")
    db.query("INSERT INTO t VALUES(6, 6, 'secret', 'b')")
    db.close()


def copy_inside(source, path):
    """Makes a copy with other values, so that the array and its copy behind a link can be told apart."""
    shutil.copytree(source, path)
    for folder, _, files in os.walk(path):
        for name in files:
            with open(os.path.join(folder, name), "r+b") as f:
                content = f.read()
                f.seek(0)
                f.write(content.replace(OUTSIDE, INSIDE))


def tree(root):
    found = []
    for folder, directories, files in os.walk(root):
        for name in files + directories:
            path = os.path.join(folder, name)
            found.append((path, open(path, "rb").read() if os.path.isfile(path) else os.stat(path).st_mtime_ns))
    return sorted(found, key=repr)


def parts_of(path):
    """Returns every directory and file of an array below its root."""
    return sorted(os.path.relpath(os.path.join(folder, name), path) for folder, directories, files in os.walk(path) for name in directories + files)


def bound(directory):
    db = Database()
    db.query("SELECT tessera_restrict(?)", (directory,))
    return db


def is_refused(error, *words):
    return (error.code in (3, None)) and any(word in error.text for word in words or ("symbolic link", "hard links", "tessera_restrict"))


def attempt(db, sql, parameters=()):
    """Returns rows, or an Error."""
    try:
        return db.query(sql, parameters)
    except Error as e:
        return e


def refused(db, sql, *words):
    """Checks that a statement is refused with SQLITE_PERM."""
    seen = attempt(db, sql)
    assert isinstance(seen, Error) and is_refused(seen, *words), f"{sql}: {seen.text if isinstance(seen, Error) else seen}"


def statements(path, other):
    """Returns all kinds of statements on an array, as a table `t` and by its path, up to dropping it; `other` is a new directory."""
    p, o, q = literal(path), literal(other), literal(other + "-imported")
    return [f"CREATE VIRTUAL TABLE t USING tessera({p})", "SELECT * FROM t", "SELECT max(v) FROM t", f"SELECT * FROM tessera_array({p})", f"SELECT * FROM tessera_schema({p})",
            f"SELECT * FROM tessera_fragments({p})", f"SELECT * FROM tessera_metadata({p})", f"SELECT * FROM tessera_enumeration({p}, 'e')",
            f"SELECT * FROM tessera_aggregate({p}, 'n')", f"SELECT tessera_ddl({p})", f"SELECT * FROM tessera_advise({p})", f"SELECT * FROM tessera_check({p})",
            f"SELECT tessera_npy({p}, 'n')", f"SELECT tessera_preview({p}, 'n')", f"SELECT tessera_png({p}, 'n')",
            f"SELECT tessera_copy({p}, {o})", f"SELECT tessera_sync({p}, 'db:imported')", f"SELECT tessera_sync('db:imported', {q})",
            "INSERT INTO t(x, v) VALUES(50, 'x')", "UPDATE t SET v = 'y' WHERE x = 50", "DELETE FROM t WHERE x = 50",
            f"SELECT tessera_set_metadata({p}, 'k', 2)", f"SELECT tessera_set_metadata({p}, 'k', NULL)", f"SELECT tessera_add_attribute({p}, 'z INT')",
            f"SELECT tessera_extend_enumeration({p}, 'e', 'c')", f"SELECT tessera_recover({p})", f"SELECT tessera_recover({p}, '{{\"disown\":true}}')",
            f"SELECT tessera_consolidate({p}, 'commits')", f"SELECT tessera_consolidate({p}, 'fragment_meta')", f"SELECT tessera_consolidate({p}, 'array_meta')",
            f"SELECT tessera_consolidate({p})", f"SELECT tessera_vacuum({p})", f"SELECT tessera_upkeep({p}, '{{\"fanout\":4}}')", "DROP TABLE t", f"SELECT tessera_drop({p})"]


def check_nothing_leads_out(source, inside, path, what):
    """Runs all statements on an array in which a link replaces a part of `source`: at least one is refused, and none reads or
    changes anything outside."""
    db, refusals, before = bound(inside), 0, tree(source)
    other = os.path.join(inside, f"other{next(NUMBERS)}")
    for sql in statements(path, other):
        seen = attempt(db, sql)
        if isinstance(seen, Error):
            refusals += is_refused(seen)
        elif sql.startswith(("SELECT * FROM t", "SELECT max")) and "tessera_fragments" not in sql:
            assert "secret" not in str(seen), f"{what}: {sql} gave {seen}"
    db.close()
    for folder, _, files in os.walk(inside):
        for name in files:
            copied = os.path.join(folder, name)
            if not os.path.islink(copied):
                assert OUTSIDE not in open(copied, "rb").read(), f"{what}: {copied} was read outside"
    same(tree(source), before, f"{what}: changed outside")
    assert refusals, f"{what}: nothing was refused"


def sample_of(parts):
    """All parts of an array, or with SAMPLE one of each kind: what several fragments have, of one of them, another one for each kind and each time."""
    kinds = {}
    for part in parts:
        kinds.setdefault(re.sub(r"__\d+_\d+_[0-9a-f]{32}", "__N", part), []).append(part)
    return parts if host.rounds(2) > 1 else [host.CHANCE.choice(same_kind) for same_kind in kinds.values()]


def with_links(source, target):
    """Makes, for each part of an array, a copy in which that part is a link to target(part)."""
    inside, _ = fresh("links")
    for part in sample_of(parts_of(source)):
        path = os.path.join(inside, "a")
        copy_inside(source, path)
        victim = os.path.join(path, part)
        if os.path.isdir(victim):
            shutil.rmtree(victim)
        else:
            os.unlink(victim)
        target(os.path.join(source, part), victim)
        yield inside, path, part
        for left in os.listdir(inside):
            shutil.rmtree(os.path.join(inside, left))


# ---- Symbolic links within an array --------------------------------------------------------------------------------------------------


def test_links_in_every_place_are_refused():
    for kind in ("sparse", "dense"):
        _, outside = fresh("every")
        source = os.path.join(outside, "a")
        make(source, kind)
        for inside, path, part in with_links(source, os.symlink):
            check_nothing_leads_out(source, inside, path, f"{kind}: {part}")


def test_links_in_old_layouts_are_refused():
    """Fragments lie in the array's root and there is no directory of commits; in older versions there is no directory of schemas."""
    for version in ("lib1.7_py0.5.9", "lib2.4_py0.10.5"):
        folder = host.corpus(os.path.join("old", version))
        arrays = sorted(where for where, directories, files in os.walk(folder) if "__schema" in directories or "__array_schema.tdb" in files)
        _, outside = fresh("old")
        source = os.path.join(outside, "a")
        shutil.copytree(arrays[0], source)
        for inside, path, part in with_links(source, os.symlink):
            check_nothing_leads_out(source, inside, path, f"{version}: {part}")


def test_links_that_stay_inside_are_refused():
    """The target of such a link may change at any moment."""
    inside, _ = fresh("stay")
    path = os.path.join(inside, "a")
    make(path)
    os.rename(os.path.join(path, "__fragments"), os.path.join(inside, "elsewhere"))
    os.symlink("../elsewhere", os.path.join(path, "__fragments"))
    db = bound(inside)
    refused(db, f"SELECT * FROM tessera_fragments({literal(path)})", "__fragments")
    db.close()


def test_all_parts_are_links():
    inside, outside = fresh("all")
    source, path = os.path.join(outside, "a"), os.path.join(inside, "a")
    make(source)
    os.makedirs(path)
    for name in os.listdir(source):
        os.symlink(os.path.join(source, name), os.path.join(path, name))
    db = Database()     # not restricted: users link their data
    db.table("t", path)
    same(db.query("SELECT x, v FROM t WHERE x < 3"), [(1, "secret"), (2, "secret")], "not bound")
    db.query("INSERT INTO t(x, v) VALUES(7, 'new')")
    same(db.value("SELECT count(*) FROM t"), 7, "written through a link")
    db.close()
    check_nothing_leads_out(source, inside, path, "all")


def test_an_array_that_is_open_already_is_restricted():
    inside, outside = fresh("open")
    source, path = os.path.join(outside, "a"), os.path.join(inside, "a")
    make(source)
    copy_inside(source, path)
    db = Database()
    db.table("t", path)
    db.table("o", source)
    same(db.query("SELECT DISTINCT v FROM t"), [("public",)], "before")
    same(db.query("SELECT DISTINCT v FROM o"), [("secret",)], "before")
    db.query("SELECT tessera_restrict(?)", (inside,))
    same(db.query("SELECT DISTINCT v FROM t"), [("public",)], "bound")
    refused(db, "SELECT * FROM o", "is not below")
    shutil.rmtree(os.path.join(path, "__fragments"))
    os.symlink(os.path.join(source, "__fragments"), os.path.join(path, "__fragments"))
    open(os.path.join(source, "__fragments", "changed"), "w").close()
    before = tree(source)
    for sql in ("SELECT * FROM t", "INSERT INTO t(x, v) VALUES(8, 'x')", "SELECT tessera_consolidate('db:t')", "SELECT tessera_vacuum('db:t')"):
        refused(db, sql, "symbolic link")
    same(tree(source), before, "outside")
    db.close()


def test_restricting_while_a_statement_reads():
    """The running statement and its worker threads continue."""
    inside, _ = fresh("reading")
    path = os.path.join(inside, "a")
    db = Database()
    db.table("t", path, ", kind=dense, x INT DIMENSION(0, 299999, 1000), v INT NOT NULL")
    for start in range(0, 300000, 100000):
        db.query("WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n LIMIT 100000) INSERT INTO t SELECT i, i FROM n", (start,))
    db.close()
    db = Database()
    db.table("t", path, ", memory_mb=2, cache_mb=0, threads=4")
    reading, sum_ = db.cursor("SELECT v FROM t"), 0
    db.next(reading)
    for directory in (os.path.dirname(inside), inside, path):
        db.query("SELECT tessera_restrict(?)", (directory,))
        sum_ += sum(db.next(reading)[0] for _ in range(70000))
    while (row := db.next(reading)):
        sum_ += row[0]
    same(sum_, 300000 * 299999 // 2, "rows")
    db.close()


def test_new_statements_are_refused_while_an_old_one_reads():
    """What the connection has in memory of an array outside is not shown to statements that begin after the restriction,
    even while an older statement keeps it open. The older statement continues to read, also if a join starts a cursor again."""
    inside, outside = fresh("alive")
    path = os.path.join(outside, "a")
    make(path)
    os.mkdir(os.path.join(inside, "narrow"))
    new = ("SELECT count(*) FROM o", "SELECT v FROM o WHERE x = 1", "SELECT v, written_at FROM o WHERE x IN (1, 2)", "SELECT i FROM n, o WHERE x = i", "SELECT x FROM o(0)",
           "SELECT count(*) FROM tessera_aggregate('db:o', 'n')", "SELECT count(*) FROM tessera_schema('db:o')", "SELECT count(*) FROM tessera_metadata('db:o')", "SELECT tessera_ddl('db:o')",
           "SELECT count(*) FROM tessera_enumeration('db:o', 'e')", "SELECT count(*) FROM tessera_fragments('db:o')", "SELECT tessera_npy('db:o', 'n')", "SELECT count(*) FROM tessera_check('db:o')",
           "INSERT INTO o(x) VALUES(9)", "DELETE FROM o", "UPDATE o SET n = 1", "SELECT tessera_set_metadata('db:o', 'k', 2)")
    for old in ("SELECT x FROM o", "SELECT x FROM o WHERE x > 0", "SELECT i FROM n CROSS JOIN o WHERE x = i", "SELECT 1 FROM n CROSS JOIN o WHERE i = 1"):
        db = Database()
        db.table("o", path)
        db.query("CREATE TABLE n(i)")
        db.query("INSERT INTO n VALUES(1), (2), (3), (4), (5), (6)")
        rows = len(db.query(old))
        for sql in new[:2] + new[6:9]:
            db.query(sql)
        reading = db.cursor(old)
        assert db.next(reading)
        for directory in (inside, os.path.join(inside, "narrow")):
            db.query("SELECT tessera_restrict(?)", (directory,))
            for sql in new:
                refused(db, sql, "is not below")
            assert db.next(reading), old
        seen = 3
        while db.next(reading):
            seen += 1
        same(seen, rows, f"{old}: the rows of the older statement")
        for sql in new:
            refused(db, sql, "is not below")
        db.close()


# ---- Paths ---------------------------------------------------------------------------------------------------------------------------


def test_arrays_within_the_directory_work():
    """All statements succeed within the directory, also through links above an array."""
    inside, outside = fresh("sound")
    os.makedirs(os.path.join(inside, "deep"))
    os.symlink("deep", os.path.join(inside, "link"))
    os.symlink(inside, os.path.join(outside, "back"))
    db = bound(inside)
    path, other = os.path.join(inside, "link", "more", "a"), os.path.join(outside, "back", "deep", "copy")
    db.table("t", path, ", x INT DIMENSION(0, 99, 10), n INT, v TEXT, e TEXT ENUM('a', 'b')")
    db.query("INSERT INTO t VALUES(1, 1, 'one', 'a'), (2, 2, 'two', 'b')")
    db.query("BEGIN")
    db.query("INSERT INTO t VALUES(3, 3, 'three', NULL)")
    db.query("ROLLBACK")
    db.query("SELECT tessera_set_metadata('db:t', 'k', 1)")
    for sql in statements(path, other)[1:-2]:
        if not any(word in sql for word in ("tessera_npy", "tessera_preview", "tessera_png")):     # functions on dense arrays
            db.query(sql)
    same(db.query("SELECT x, v FROM t"), [(1, "one"), (2, "two")], "rows")
    same(db.query("SELECT x, v FROM imported"), [(1, "one"), (2, "two")], "imported")
    group = os.path.join(inside, "g")
    db.query("SELECT tessera_create_group(?)", (group,))
    db.query("SELECT tessera_add_member(?, ?, 'a')", (group, path))
    same(db.query("SELECT name, kind FROM tessera_members(?)", (group,)), [("a", "array")], "members")
    same(sorted(os.path.relpath(row[0], inside) for row in db.query("SELECT path FROM tessera_objects(?)", (inside,))),
         ["deep/copy", "deep/copy-imported", "deep/more/a", "g"], "objects")
    db.query("BEGIN")
    db.table("made", os.path.join(inside, "p", "q", "r"), ", x INT DIMENSION(0, 9), v INT")
    db.query("ROLLBACK")
    assert not os.path.exists(os.path.join(inside, "p")), "what a CREATE has made goes with it"
    db.query("DROP TABLE t")
    db.query("SELECT tessera_drop(?)", (path,))
    assert not os.path.exists(path)
    db.query("SELECT tessera_restrict(?)", (os.path.join(inside, "deep"),))
    refused(db, f"SELECT tessera_create_group({literal(os.path.join(inside, 'h'))})", "is not below")
    db.close()
    same(os.listdir(outside), ["back"], "outside")


def test_links_above_an_array():
    """Links that lead out of the directory, dangling links and ".." are refused, for existing arrays and for new ones."""
    inside, outside = fresh("above")
    make(os.path.join(outside, "a"))
    os.symlink(outside, os.path.join(inside, "away"))
    os.symlink(os.path.join(outside, "a"), os.path.join(inside, "a"))
    os.symlink(os.path.join(outside, "none"), os.path.join(inside, "dangling"))
    before = tree(outside)
    db = bound(inside)
    for way in ("away/a", "a", "../out/a", "none/../../out/a"):
        path = os.path.join(inside, way)
        for sql in statements(path, os.path.join(inside, "other")):
            if literal(path) in sql:
                refused(db, sql, "is not below", "cannot be said")
    for way in ("away/new", "dangling/new", "../out/new"):
        path = os.path.join(inside, way)
        refused(db, f"CREATE VIRTUAL TABLE n USING tessera({literal(path)}, x INT DIMENSION(0, 9), v INT)")
        refused(db, f"SELECT tessera_create_group({literal(path)})")
    path = os.path.join(inside, "dangling")     # the name exists already
    for sql in (f"CREATE VIRTUAL TABLE n USING tessera({literal(path)}, x INT DIMENSION(0, 9), v INT)", f"SELECT tessera_create_group({literal(path)})"):
        db.error(sql)
    make(os.path.join(inside, "own"))
    db.query("CREATE VIRTUAL TABLE i USING tessera(x INT DIMENSION(0, 9), v INT)")
    for way in ("away/new", "dangling/new", "../out/new"):
        path = literal(os.path.join(inside, way))
        refused(db, f"SELECT tessera_copy({literal(os.path.join(inside, 'own'))}, {path})")
        refused(db, f"SELECT tessera_sync('db:i', {path})")
    same(tree(outside), before, "outside")
    db.close()


def test_links_in_groups():
    inside, outside = fresh("groups")
    source = os.path.join(outside, "g")
    db = Database()
    make(os.path.join(source, "a"))
    db.query("SELECT tessera_create_group(?)", (source,))
    db.query("SELECT tessera_add_member(?, ?, 'secret')", (source, os.path.join(source, "a")))
    db.query("SELECT tessera_set_metadata(?, 'k', 'secret')", (source,))
    db.close()
    own = [part for part in parts_of(source) if part.startswith(("__group", "__meta"))]
    assert len(own) >= 4, own
    for part in own:
        path = os.path.join(inside, f"g{next(NUMBERS)}")
        shutil.copytree(source, path)
        victim = os.path.join(path, part)
        shutil.rmtree(victim) if os.path.isdir(victim) else os.unlink(victim)
        os.symlink(os.path.join(source, part), victim)
        before, refusals, db, p = tree(source), 0, bound(inside), literal(path)
        for sql in (f"SELECT * FROM tessera_members({p})", f"SELECT * FROM tessera_metadata({p})", f"SELECT tessera_add_member({p}, {literal(os.path.join(path, 'a'))}, 'b')",
                    f"SELECT tessera_drop_member({p}, 'secret')", f"SELECT tessera_set_metadata({p}, 'k', 1)", f"SELECT tessera_set_metadata({p}, 'k', NULL)",
                    f"SELECT tessera_consolidate({p})", f"SELECT tessera_vacuum({p})"):
            seen = attempt(db, sql)
            refusals += isinstance(seen, Error) and is_refused(seen)
        assert refusals, part
        same(tree(source), before, f"{part}: changed outside")
        db.close()
    path = os.path.join(inside, "linked")     # a member that is a link is not followed, and tessera_objects skips it
    shutil.copytree(source, path)
    shutil.rmtree(os.path.join(path, "a"))
    os.symlink(os.path.join(source, "a"), os.path.join(path, "a"))
    db = bound(inside)
    same(db.query("SELECT name, kind FROM tessera_members(?)", (path,)), [("secret", "array")], "members")
    same(db.query("SELECT path FROM tessera_objects(?)", (path,)), [], "objects")
    refused(db, f"SELECT * FROM tessera_array({literal(os.path.join(path, 'a'))})", "is not below")
    db.close()


def test_key_files_outside_are_refused():
    inside, outside = fresh("keys")
    for folder in (inside, outside):
        with open(os.path.join(folder, "key"), "w", encoding="utf-8") as f:
            f.write(KEY)
    os.symlink("key", os.path.join(inside, "link"))
    os.symlink(os.path.join(outside, "key"), os.path.join(inside, "away"))
    os.link(os.path.join(outside, "key"), os.path.join(inside, "hard"))
    db = bound(inside)
    table = f"CREATE VIRTUAL TABLE %s USING tessera({literal(os.path.join(inside, 'a'))}%s, key_file=%s)"
    db.query(table % ("t", ", x INT DIMENSION(0, 9), v INT, encryption=aes_256_gcm", literal(os.path.join(inside, "key"))))
    db.query("INSERT INTO t VALUES(1, 2)")
    db.query(table % ("u", "", literal(os.path.join(inside, "link"))))
    same(db.query("SELECT * FROM u"), [(1, 2)], "with a key behind a link that stays inside")
    refused(db, table % ("v", "", literal(os.path.join(inside, "away"))), "is not below")
    refused(db, table % ("v", "", literal(os.path.join(inside, "hard"))), "hard links")
    refused(db, table % ("v", "", literal(os.path.join(outside, "key"))), "is not below")
    db.close()


# ---- Hard links ----------------------------------------------------------------------------------------------------------------------


def test_files_with_hard_links_are_refused():
    _, outside = fresh("hard")
    source = os.path.join(outside, "a")
    make(source)
    files = 0
    for inside, path, part in with_links(source, lambda target, victim: os.path.isdir(target) or os.link(target, victim)):
        if os.path.isdir(os.path.join(source, part)):
            continue
        before, refusals, db = tree(source), 0, bound(inside)
        for sql in statements(path, os.path.join(inside, f"other{next(NUMBERS)}")):
            seen = attempt(db, sql)
            if isinstance(seen, Error):
                refusals += is_refused(seen, "hard links")
            elif sql.startswith(("SELECT * FROM t", "SELECT max")) and "tessera_fragments" not in sql:
                assert "secret" not in str(seen), f"{part}: {sql} gave {seen}"
        db.close()
        same(tree(source), before, f"{part}: changed outside")
        files += 1
        if os.path.getsize(os.path.join(source, part)):     # empty files are not read
            assert refusals, part
    assert files > (50 if host.rounds(2) > 1 else 15), files
    backup = os.path.join(outside, "backup")
    shutil.copytree(source, backup, copy_function=os.link)     # like cp -al
    db = Database()
    same(len(db.query("SELECT * FROM tessera_check(?) WHERE severity <> 'note'", (backup,))), 0, "not bound")
    db.close()


# ---- Swaps ---------------------------------------------------------------------------------------------------------------------------


def test_links_that_are_swapped_in_are_never_followed():
    """A thread replaces directories by links to the outside, and back, while statements run: nothing outside is ever read or
    changed."""
    inside, outside = fresh("swap")
    source, path = os.path.join(outside, "a"), os.path.join(inside, "deep", "a")
    make(source)
    os.makedirs(os.path.dirname(path))
    copy_inside(source, path)
    before, stop = tree(source), threading.Event()
    swapped = [("deep", ""), ("deep/a", "a"), ("deep/a/__schema", "a/__schema"), ("deep/a/__fragments", "a/__fragments"), ("deep/a/__commits", "a/__commits")]

    def swap():
        aside = os.path.join(os.path.dirname(inside), "aside")
        for part, target in itertools.cycle(swapped):
            victim = os.path.join(inside, part)
            os.rename(victim, aside)
            for last in (False, True):     # writers create missing directories
                while True:
                    try:
                        os.rename(aside, victim) if last else os.symlink(os.path.join(outside, target), victim)
                        break
                    except OSError:
                        shutil.rmtree(victim, ignore_errors=True)
                if not last:
                    os.unlink(victim)
            if stop.is_set():
                return

    thread = threading.Thread(target=swap)
    thread.start()
    seen = []
    try:
        for _ in range(60):
            db, p = bound(inside), literal(path)
            for sql in (f"CREATE VIRTUAL TABLE t USING tessera({p})", "SELECT DISTINCT v FROM t", "INSERT INTO t(x, v) VALUES(90, 'mine')", f"SELECT * FROM tessera_metadata({p})",
                        f"SELECT tessera_set_metadata({p}, 'k', 'mine')", f"SELECT tessera_vacuum({p})"):
                rows = attempt(db, sql)
                if sql.startswith("SELECT DISTINCT") and not isinstance(rows, Error):
                    seen += [v for v, in rows]
            db.close()
    finally:
        stop.set()
        thread.join()
    assert set(seen) <= {"public", "mine"}, set(seen)
    same(tree(source), before, "outside")


# ---- Outside of the restriction ------------------------------------------------------------------------------------------------------


def test_databases_and_their_arrays():
    """Arrays in databases work wherever the database is, also in one that is attached later; arrays in directories are restricted in each database."""
    inside, outside = fresh("database")
    first, second = os.path.join(outside, "first.db"), os.path.join(outside, "second.db")
    make(os.path.join(outside, "a"))
    db = Database(first)
    db.query("SELECT tessera_restrict(?)", (inside,))
    db.query("ATTACH ? AS other", (second,))
    for schema in ("main", "other"):
        db.query(f"CREATE VIRTUAL TABLE {schema}.t USING tessera(x INT DIMENSION(0, 9), v INT)")
        db.query(f"INSERT INTO {schema}.t VALUES(1, 2)")
        db.query(f"INSERT INTO {schema}.t VALUES(3, 4)")
        db.query(f"SELECT tessera_consolidate('db:{schema}.t'), tessera_vacuum('db:{schema}.t')")
        same(db.query(f"SELECT * FROM {schema}.t"), [(1, 2), (3, 4)], schema)
        refused(db, f"CREATE VIRTUAL TABLE {schema}.o USING tessera({literal(os.path.join(outside, 'a'))})", "is not below")
        db.query(f"CREATE VIRTUAL TABLE {schema}.i USING tessera({literal(os.path.join(inside, schema))}, x INT DIMENSION(0, 9), v INT)")
        db.query("BEGIN")
        db.query(f"INSERT INTO {schema}.i VALUES(1, 2)")
        db.query("COMMIT")
        same(db.query(f"SELECT * FROM {schema}.i"), [(1, 2)], schema)
        db.query(f"SELECT tessera_recover({literal(os.path.join(inside, schema))})")
    db.query("SELECT tessera_sync('db:t', ?)", (os.path.join(inside, "exported"),))
    db.query("SELECT tessera_sync(?, 'db:imported')", (os.path.join(inside, "exported"),))
    same(db.query("SELECT * FROM imported"), [(1, 2), (3, 4)], "exported and imported")
    db.close()


def test_restricting_to_something_else_than_a_directory_fails():
    db = Database()
    db.query("SELECT tessera_restrict('/dev/null')")
    path = os.path.join(host.FOLDER, "x")
    refused(db, f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, x INT DIMENSION(0, 9), v INT)", "is not below")
    db.query("CREATE VIRTUAL TABLE t USING tessera(x INT DIMENSION(0, 9), v INT)")
    db.query("INSERT INTO t VALUES(1, 2)")
    same(db.query("SELECT * FROM t"), [(1, 2)], "in the database")
    db.query("SELECT tessera_restrict('/dev/null')")
    for db in (db, Database()):
        for path in ("/dev/null/x", "/none/such"):
            error = db.error("SELECT tessera_restrict(?)", (path,))
            assert "no such directory" in error.text or is_refused(error, "is not below"), error.text
        db.close()


if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"   # many small files, each of which is synced

if __name__ == "__main__":
    host.main(sys.modules[__name__])
