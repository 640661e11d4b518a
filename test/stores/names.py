"""Hostile names in buckets: names that servers, URLs and answers could take for others, paths that are none, keys that are too long, and objects of
strangers. Each is the array that it names, or a clear error without a request.

usage: names.py LIBRARY FOLDER [moto | versitygw | azurite | gcs | gcs_memory] [NAME OF TEST ...] [--every N]      # a sample: every Nth name is copied
"""
import os
import sqlite3
import sys

from buckets import NAME, There, fresh, load, raises, run

# Each is another array, whatever a server or a proxy decodes, normalizes, folds or trims.
NAMES = ("plain", "PLAIN", "a b", "a%20b", "a+b", "a%2Bb", "a%2bb", " a b", "a b ", "%", "100%", "%2e%2e", "%2F", "%00", "a#b", "a?b", "a?c=d&e", "a&b", "a&amp;b",
         "<a>", "'", '"', "a;b=c,d", "a:b", "a@b", "*", "~", "..a", "a..b", "$root", "[x]", "a|b", "^`{}", "\u00e9", "e\u0301", "\u65e5\u672c\u8a9e", "\U0001f600",
         "\u2028", "\u202ea", "db:main.t", "file:", "x" * 200)
PATHS = ("s3://", "s3:///", "s3:///x", "s3://b/x", "s3://-bucket/x", "s3://buck et/x", "s3://buck%20et/x", "s3://buck+et/x", "s3://b\u00fccket/x", "s3://buck..et/x",
         "s3://bucket:80/x", "s3://user@bucket/x", "s3://bucket?x/y", "s3://bucket#x/y", "s3://" + "b" * 300 + "/x", f"s3://{NAME}//x", f"s3://{NAME}/x//y",
         f"s3://{NAME}/./x", f"s3://{NAME}/x/.", f"s3://{NAME}/../x", f"s3://{NAME}/x/../y", f"s3://{NAME}/x/..", f"s3://{NAME}/x\x01y", f"s3://{NAME}/x\x7fy",
         f"s3://{NAME}/" + "k" * 2000)
NO_CONTAINERS = ("s3://Bucket/x", "s3://buck_et/x", "s3://buck.et/x", "s3://buck--et/x", "s3://bucket-/x", "s3://" + "b" * 64 + "/x") # of Azure
EVERY = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
COLUMNS = "x INT32 DIMENSION(0, 9, 10), a INT32"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def rows(db, *statement):
    return db.execute(*statement).fetchall()


def there_is(db, path):
    """What the one cell of the array at a path holds."""
    rows(db, f"CREATE VIRTUAL TABLE temp.there USING tessera({quoted(path)})")
    try:
        return rows(db, "SELECT a FROM there")
    finally:
        rows(db, "DROP TABLE temp.there")


def make(bucket, names, base):
    """Puts an array for each name into the bucket, whose cell is the number of the name."""
    for i, name in enumerate(names):
        source, db = os.path.join(fresh(os.path.join(bucket.folder, "named")), "a"), load(bucket.library)
        rows(db, f"CREATE VIRTUAL TABLE t USING tessera({quoted(source)}, {COLUMNS})")
        rows(db, "INSERT INTO t VALUES (1, ?)", (i,))
        db.close()
        bucket.upload(source, f"{base}/{name}")


def test_names(bucket):
    """Each name is one array alone: for reads, in listings, as a member of a group, and as the bound of a restriction."""
    make(bucket, NAMES, "names")
    db, base = bucket.connect(), f"s3://{NAME}/names"
    found = sorted(path for path, kind in rows(db, "SELECT path, kind FROM tessera_objects(?)", (base,)) if kind == "array")
    assert found == sorted(f"{base}/{name}" for name in NAMES), set(found) ^ {f"{base}/{name}" for name in NAMES}
    rows(db, "SELECT tessera_create_group(?)", (base,))
    for i, name in enumerate(NAMES):
        assert there_is(db, f"{base}/{name}") == [(i,)], name
        rows(db, "SELECT tessera_add_member(?, ?, ?)", (base, f"{base}/{name}", name))
    members = rows(db, "SELECT m.name, m.path, a.cells FROM tessera_members(?) m, tessera_array(m.path) a", (base,))
    assert sorted(members) == sorted((name, f"{base}/{name}", 1) for name in NAMES), members
    db.close()
    for i, name in enumerate(NAMES):
        db = bucket.connect()
        rows(db, "SELECT tessera_restrict(?)", (f"{base}/{name}",))
        assert there_is(db, f"{base}/{name}") == [(i,)], name
        bucket.proxy.clear()
        for other in NAMES:
            if other != name:
                raises(db, "SELECT * FROM tessera_array(?)", (f"{base}/{other}",), code="SQLITE_PERM")
        assert not bucket.proxy.log, (name, bucket.log())
        db.close()


def test_copies(bucket):
    """An array under an odd name is a copy that follows its source, is copied in turn, and is dropped alone."""
    names = [name for i, name in enumerate(NAMES) if name != "plain" and i % EVERY == EVERY - 1]
    make(bucket, ("plain",), "copies")
    db, base = bucket.connect(), f"s3://{NAME}/copies"
    rows(db, f"CREATE VIRTUAL TABLE t USING tessera('{base}/plain')")
    for name in names:
        rows(db, "SELECT tessera_sync(?, ?)", (f"{base}/plain", f"{base}/{name}"))
    rows(db, "INSERT INTO t VALUES (2, 7)")
    for name in names:
        rows(db, "SELECT tessera_sync(?, ?)", (f"{base}/plain", f"{base}/{name}"))
        assert there_is(db, f"{base}/{name}") == [(0,), (7,)], name
        assert rows(db, "SELECT tessera_sync(?, ?)", (f"{base}/{name}", f"{base}/plain")) == [('{"copied":0,"removed":0,"bytes":0}',)], name
        rows(db, "SELECT tessera_copy(?, ?)", (f"{base}/{name}", f"{base}/{name}-copy"))
        assert there_is(db, f"{base}/{name}-copy") == [(0,), (7,)], name
        rows(db, "SELECT tessera_drop(?)", (f"{base}/{name}-copy",))
    for i, name in enumerate(names):
        rows(db, "SELECT tessera_drop(?)", (f"{base}/{name}",))
        left = {key.split("/")[1] for key in bucket.keys("copies/")}
        assert left == {"plain", *names[i + 1:]}, (name, left)


def test_paths_that_are_none(bucket):
    """Every function refuses a path that names nothing, says what is wrong, and sends nothing."""
    db, good, inside = bucket.connect(), f"s3://{NAME}/good", os.path.join(fresh(os.path.join(bucket.folder, "none")), "a")
    rows(db, f"CREATE VIRTUAL TABLE g USING tessera('{good}', {COLUMNS})")
    rows(db, f"CREATE VIRTUAL TABLE i USING tessera('{inside}', {COLUMNS})")
    rows(db, f"SELECT tessera_create_group('{good}-group')")
    statements = ("SELECT * FROM tessera_array(?)", "SELECT * FROM tessera_schema(?)", "SELECT * FROM tessera_objects(?)", "SELECT * FROM tessera_check(?)",
                  "SELECT * FROM tessera_members(?)", "SELECT tessera_drop(?)", "SELECT tessera_create_group(?)", "SELECT tessera_restrict(?)",
                  f"SELECT tessera_copy('{good}', ?)", f"SELECT tessera_copy(?, '{good}-copy')", f"SELECT tessera_sync('{inside}', ?)", f"SELECT tessera_sync(?, '{good}-copy')",
                  f"SELECT tessera_add_member('{good}-group', ?, 'm')", "SELECT tessera_set_metadata(?, 'k', 1)")
    for path in PATHS + (NO_CONTAINERS if There.scheme == "azure" else ()):
        bucket.proxy.clear()
        for statement in statements:
            message = raises(db, statement, (path,))
            asked = [entry for entry in bucket.proxy.log if not entry["path"].split(NAME, 1)[1].startswith("/good") and "prefix=good" not in entry["query"]]
            assert not asked, (statement, path[:60], message, bucket.log())
            assert any(words in message for words in ("is not the name of a", "a part of the path is empty", "is not s3://bucket", "at most 1100 are possible",
                                                      "name of the bucket is missing", "lies within s3://")), (statement, path[:60], message)
        raises(db, f"CREATE VIRTUAL TABLE n USING tessera({quoted(path)}, {COLUMNS})")
    assert rows(db, "SELECT cells FROM tessera_array(?)", (good + "///",)) == [(0,)] # an end of '/' is no part
    assert bucket.keys("good-copy") == []


def test_long_names(bucket):
    """A path whose keys would be longer than servers take is refused, and nothing of it is left behind."""
    made = []
    for size in (*range(800, 1024, 16), 1024, 1025, 1060):
        db, path = bucket.connect(), f"long/{'y' * 200}/{'z' * 200}/{'z' * 200}/" + "/".join(("x" * 190, "x" * 190))
        path = path[:size] if size < len(path) else path + "/" + "w" * (size - len(path) - 1)
        uri = f"s3://{NAME}/{path.rstrip('/')}"
        try:
            rows(db, f"CREATE VIRTUAL TABLE t USING tessera('{uri}', {COLUMNS})")
        except sqlite3.Error as error:
            assert "the key has more than 1024 bytes" in str(error) or "the key is too long" in str(error), (size, str(error)[-300:])
            assert bucket.keys("long/") == [], (size, bucket.keys("long/"))
            continue
        try:
            rows(db, "INSERT INTO t VALUES (1, 2)")
            made.append(size)
            assert there_is(db, uri) == [(2,)]
        except sqlite3.Error as error:
            assert "the key has more than 1024 bytes" in str(error), (size, str(error)[-300:])
            assert not [key for key in bucket.keys("long/") if "/__fragments/" in key or "/__commits/" in key], (size, bucket.keys("long/"))
        rows(db, "SELECT tessera_drop(?)", (uri,))
        assert bucket.keys("long/") == [], (size, bucket.keys("long/"))
    print(f"    keys of arrays that can be written: {made}")
    assert made


def test_keys_of_strangers(bucket):
    """Objects whose keys no path can name lie beside an array: listings show the array, and nothing of the others."""
    make(bucket, ("mine",), "strange")
    odd = ["strange//__schema/s", "strange/mine//__schema/s", "strange/", "strange/mine/", "strange/a\u0085b/__schema/s"]
    odd += ["strange/end./__schema/s"] if There.scheme != "s3" else ["strange/back\\slash/__schema/s"]
    if bucket.server.kind == "gcs_memory": # others normalize these, or their clients do
        odd += ["strange/../__schema/s", "strange/./__schema/s", "strange/a\tb/__schema/s", "strange/a\nb/__schema/s"]
    for key in odd:
        try:
            bucket.boto.put_object(Bucket=NAME, Key=key, Body=b"")
        except Exception as error:
            print(f"    {key!r}: {error}")
    db = bucket.connect()
    found = rows(db, "SELECT path FROM tessera_objects(?)", (f"s3://{NAME}/strange",))
    print(f"    {found}")
    assert (f"s3://{NAME}/strange/mine",) in found
    assert there_is(db, f"s3://{NAME}/strange/mine") == [(0,)]
    assert not any(path.endswith(("/..", "/.", "/")) or "//" in path[6:] for path, in found), found
    assert not [row for row in rows(db, "SELECT * FROM tessera_check(?)", (f"s3://{NAME}/strange/mine",)) if row[0] == "error"]
    rows(db, "SELECT tessera_drop(?)", (f"s3://{NAME}/strange/mine",))
    assert "strange//__schema/s" in bucket.keys("strange/") or "strange//__schema/s" not in odd


TESTS = (test_names, test_copies, test_paths_that_are_none, test_long_names, test_keys_of_strangers)

if __name__ == "__main__":
    sys.exit(run(TESTS, "names"))
