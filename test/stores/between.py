"""Arrays in buckets of several protocols at once, on one connection: copies and syncs from each store into each other one, groups whose members are
elsewhere, transactions over all of them, and restriction to one. The other tests of arrays know one server at a time.

usage: between.py LIBRARY FOLDER moto --beside KIND ... [NAME OF TEST ...]      # azurite, gcs, gcs_memory; those that cannot be had are left out, with a note
"""
import contextlib
import json
import os
import sys

from buckets import NAME, fresh, load, raises, run
from servers import SCHEMES, Server, program_of

AT = sys.argv.index("--beside")
BESIDE = [word for word in sys.argv[AT + 1:] if word in SCHEMES]
del sys.argv[AT:AT + 1 + len(BESIDE)] # buckets keeps the arguments as they came
SHAPE = "x INT32 DIMENSION(0, 99, 10), v FLOAT64, note TEXT"
CELLS = [(1, 1.5, "one"), (2, 2.5, None), (50, 3.5, "two")]


def rows(db, *statement):
    return db.execute(*statement).fetchall()


def value(db, *statement):
    return db.execute(*statement).fetchone()[0]


@contextlib.contextmanager
def stores(bucket, name):
    """Starts the servers; gives the scopes with their options by scheme: s3 is that of the bucket, the others are beside it."""
    folder, scopes = fresh(os.path.join(bucket.folder, name)), {"s3": (f"s3://{NAME}", bucket.server.options(bucket.server.port))}
    with contextlib.ExitStack() as stack:
        for kind in BESIDE:
            program = program_of(kind, os.environ.get("TESSERA_VERSITYGW", os.path.join(os.path.dirname(bucket.folder), "go")))
            if not program:
                print(f"    without {kind}, which cannot be had here")
                continue
            server = stack.enter_context(Server(kind, os.path.join(folder, kind), program))
            server.client().create_bucket(Bucket=NAME)
            scopes[SCHEMES[kind]] = f"{SCHEMES[kind]}://{NAME}", server.options(server.port)
        yield folder, scopes


def connect(bucket, scopes, database=":memory:"):
    db = load(bucket.library, database)
    for scope, options in scopes.values():
        db.execute("SELECT tessera_configure(?, ?)", (scope, json.dumps(options))).fetchall()
    return db


def is_whole(db, path, cells):
    """Asserts the cells of an array, and that nothing is wrong with it."""
    inside = path.startswith("db:")
    if not inside:
        db.execute(f"CREATE VIRTUAL TABLE temp.seen USING tessera('{path}')")
    assert rows(db, f"SELECT x, v, note FROM {path[3:] if inside else 'seen'} ORDER BY x") == cells, path
    if not inside:
        db.execute("DROP TABLE temp.seen")
    assert value(db, "SELECT value FROM tessera_metadata(?)", (path,)) == "m", path
    found = [row for row in rows(db, "SELECT * FROM tessera_check(?)", (path,)) if row[0] != "note"]
    assert not found, (path, found)


def make(db, table, path):
    db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera({'' if path.startswith('db:') else repr(path) + ', '}{SHAPE})")
    db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", CELLS)
    db.execute("SELECT tessera_set_metadata(?, 'unit', 'm')", (path,)).fetchall()


def test_copies(bucket):
    """Copies and syncs from each store into each other one, a directory and the database, which then follow: a commit, a merge and a vacuum."""
    with stores(bucket, "copies") as (folder, scopes):
        db = connect(bucket, scopes)
        roots = {scheme: f"{scope}/copies/" for scheme, (scope, _) in scopes.items()} | {"directory": folder + "/", "database": "db:"}
        for origin, root in roots.items():
            source, copies = f"{root}from_{origin}", []
            make(db, f"from_{origin}", source)
            for goal, there in roots.items():
                if {origin, goal} <= {"directory", "database"}: # other tests have these
                    continue
                copy, follows = f"{there}copy_of_{origin}", f"{there}follows_{origin}"
                assert value(db, "SELECT tessera_copy(?, ?)", (source, copy)) == 3, (origin, goal)
                is_whole(db, copy, CELLS)
                raises(db, "SELECT tessera_copy(?, ?)", (source, copy), says="already")
                assert value(db, "SELECT tessera_sync(?, ?) ->> 'copied'", (source, follows)) > 0, (origin, goal)
                is_whole(db, follows, CELLS)
                copies.append(follows)
            db.execute(f"UPDATE from_{origin} SET v = 9 WHERE x = 50")
            changed = CELLS[:2] + [(50, 9.0, "two")]
            for step in ("SELECT 1", f"SELECT tessera_consolidate('{source}'), tessera_vacuum('{source}', '{{\"grace_s\":0}}')"):
                rows(db, step)
                for follows in copies:
                    assert value(db, "SELECT tessera_sync(?, ?) ->> 'copied'", (source, follows)) > 0, (origin, follows)
                    is_whole(db, follows, changed)
                    assert value(db, "SELECT tessera_sync(?, ?, '{\"verify\":true}')", (source, follows)) == '{"copied":0,"removed":0,"bytes":0}', (origin, follows)
            for follows in copies:
                assert value(db, "SELECT fragments FROM tessera_array(?)", (follows,)) == 1, follows


def test_transactions(bucket):
    """One transaction changes arrays in all stores and an ordinary table, or none of them; a join reads all."""
    with stores(bucket, "transactions") as (folder, scopes):
        db = connect(bucket, scopes, os.path.join(folder, "local.db"))
        for scheme, (scope, _) in scopes.items():
            make(db, f"t_{scheme}", f"{scope}/together")
        db.execute("CREATE TABLE notes(x INTEGER)")
        for end, count in (("ROLLBACK", 3), ("COMMIT", 4)):
            db.execute("BEGIN")
            for scheme in scopes:
                db.execute(f"INSERT INTO t_{scheme} VALUES (7, 7, 'seven')")
            db.execute("INSERT INTO notes VALUES (7)")
            db.execute(end)
            other = connect(bucket, scopes)
            for scheme, (scope, _) in scopes.items():
                other.execute(f"CREATE VIRTUAL TABLE t_{scheme} USING tessera('{scope}/together')")
                assert value(other, f"SELECT count(*) FROM t_{scheme}") == count, (end, scheme)
            other.close()
            assert value(db, "SELECT count(*) FROM notes") == count - 3, end
        joined = " JOIN ".join(f"t_{scheme} USING (x)" if i else f"t_{scheme}" for i, scheme in enumerate(scopes))
        assert rows(db, f"SELECT x FROM {joined} JOIN notes USING (x)") == [(7,)]
        assert value(db, f"SELECT count(*) FROM {joined}") == 4


def test_groups(bucket):
    """A group has members in other stores, by their whole paths; a connection that lacks the scope of one sees the others."""
    with stores(bucket, "groups") as (_, scopes):
        db, group = connect(bucket, scopes), f"s3://{NAME}/everywhere"
        rows(db, "SELECT tessera_create_group(?)", (group,))
        members = []
        for scheme, (scope, _) in scopes.items():
            make(db, f"g_{scheme}", f"{scope}/member")
            rows(db, "SELECT tessera_add_member(?, ?, ?)", (group, f"{scope}/member", scheme))
            members.append((scheme, f"{scope}/member", "array"))
        assert rows(db, "SELECT name, path, kind FROM tessera_members(?) ORDER BY name", (group,)) == sorted(members)
        assert value(db, "SELECT count(*) FROM tessera_members(?) m, tessera_array(m.path) a WHERE a.cells = 3", (group,)) == len(scopes)
        alone = connect(bucket, {"s3": scopes["s3"]})
        assert rows(alone, "SELECT name, path FROM tessera_members(?) ORDER BY name", (group,)) == sorted(member[:2] for member in members)
        for scheme, path, _ in members:
            if scheme != "s3":
                raises(alone, "SELECT * FROM tessera_array(?)", (path,), code="SQLITE_CANTOPEN", says=f"no scope for {path}: call tessera_configure first")


def test_restrict(bucket):
    """A connection that is bound to a prefix of one store reaches no other store, nor may it declare one; the options of one store do not fit another."""
    with stores(bucket, "restrict") as (folder, scopes):
        for scheme, (scope, options) in scopes.items():
            db = connect(bucket, scopes)
            make(db, "kept", f"{scope}/inside/kept")
            rows(db, "SELECT tessera_restrict(?)", (f"{scope}/inside",))
            assert rows(db, "SELECT x, v, note FROM kept ORDER BY x") == CELLS
            for other, (there, theirs) in scopes.items():
                if other == scheme:
                    continue
                same = f"{there}/inside/x" # bucket and prefix have the same names there
                for statement in (("SELECT * FROM tessera_array(?)", (same,)), ("SELECT tessera_copy(?, ?)", (f"{scope}/inside/kept", same)),
                                  ("SELECT tessera_configure(?, ?)", (there, json.dumps(theirs)))):
                    raises(db, *statement, code="SQLITE_PERM", says="restrict")
                raises(db, "SELECT tessera_configure(?, ?)", (scope, json.dumps(theirs)))
            raises(db, "SELECT tessera_copy(?, ?)", (f"{scope}/inside/kept", f"{folder}/out"), code="SQLITE_PERM")
            db.close()


if __name__ == "__main__":
    sys.exit(run((test_copies, test_transactions, test_groups, test_restrict), "between"))
