"""SQL on arrays in buckets: tessera_configure and its scopes, each table and function on an s3:// path, groups, restrictions, errors, secrets.

usage: surface.py LIBRARY FOLDER [moto | versitygw | azurite | gcs | gcs_memory] [NAME OF TEST ...]
"""
import base64
import json
import os
import re
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading

from azure_client import shared_access_signature
from buckets import NAME, There, fresh, load, raises, run, scope, stats, there
from fault_proxy import FaultProxy
from servers import ACCOUNT, ACCOUNT_KEY, KEY_ID, SECRET, TOKEN

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from memory_of import memory_of

COLUMNS = "y INT32 DIMENSION(0, 99, 10), x INT32 DIMENSION(0, 99, 10), v FLOAT64, s TEXT ENUM('a', 'b'), note TEXT"
FILL = "INSERT INTO {} VALUES (1, 1, 1.5, 'a', 'one'), (1, 2, 2.5, 'b', NULL), (50, 60, 3.5, NULL, 'two')"
ALL = {
    "provider": "keys", "key_id": "k", "secret": "s", "session_token": "t", "region": "eu-west-1", "requester_pays": True,
    "endpoint": "http://127.0.0.1:1", "plain_http": False, "url_style": "virtual", "ca_file": "/etc/ssl/certs/ca-certificates.crt", "proxy": "http://127.0.0.1:2",
    "sse": "aws:kms", "kms_key_id": "key", "storage_class": "STANDARD_IA", "connect_ms": 1000, "stall_ms": 1000, "retries": 3, "parallel": 8, "part_mb": 8,
    "refresh_ms": 1000}


class Listener:
    """A port that counts connections and answers none."""

    def __enter__(self):
        self.count, self.socket = 0, socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.count += 1
            client.close()

    def __exit__(self, *_):
        self.socket.close()


def value(db, *statement):
    return db.execute(*statement).fetchone()[0]


def rows(db, *statement):
    return db.execute(*statement).fetchall()


def set_scope(db, uri, options):
    return rows(db, "SELECT tessera_configure(?, ?)", (uri, json.dumps(options) if options is not None else None))


def test_walk(bucket):
    """A short walk: an array is made, written, read and healed, in a transaction with a local table, in a group, and copied there and back. It is
    what the suite has time for beside the servers of Azure's and Google's protocols."""
    folder = fresh(os.path.join(bucket.folder, "walk"))
    db = bucket.connect(os.path.join(folder, "walk.db"))
    uri = make(bucket, db, "walk")
    db.execute("CREATE TABLE notes(x INTEGER)")
    for end, cells in (("ROLLBACK", 3), ("COMMIT", 4)):
        db.execute("BEGIN")
        db.execute("INSERT INTO walk(y, x, v) VALUES (2, 2, 5.5)")
        db.execute("INSERT INTO notes VALUES (2)")
        db.execute(end)
        other = reopen(bucket, uri, "t")
        assert rows(other, "SELECT count(*), (SELECT count(*) FROM tessera_fragments(?)) FROM t", (uri,)) == [(cells, cells - 2)], end
        assert rows(db, "SELECT count(*) FROM notes") == [(cells - 3,)], end
    db.execute("UPDATE walk SET v = 9 WHERE y = 50")
    db.execute("DELETE FROM walk WHERE y = 1 AND x = 2")
    cells = [(1, 1, 1.5), (2, 2, 5.5), (50, 60, 9.0)]
    assert rows(reopen(bucket, uri, "t"), "SELECT y, x, v FROM t ORDER BY y") == cells
    assert value(db, "SELECT tessera_consolidate(?)", (uri,)) > 1 and value(db, "SELECT tessera_vacuum(?)", (uri,)) > 0
    group = f"s3://{NAME}/walks"
    db.execute("SELECT tessera_create_group(?)", (group,)).fetchall()
    db.execute("SELECT tessera_add_member(?, ?, 'walk')", (group, uri)).fetchall()
    assert rows(db, "SELECT m.name, m.path, a.fragments FROM tessera_members(?) m, tessera_array(m.path) a", (group,)) == [("walk", uri, 1)]
    assert value(db, "SELECT tessera_copy(?, ?)", (uri, f"{folder}/walk")) == 3
    assert value(db, "SELECT tessera_copy(?, ?)", (f"{folder}/walk", uri + "_back")) == 3
    assert rows(reopen(bucket, uri + "_back", "t"), "SELECT y, x, v FROM t ORDER BY y") == cells
    assert not [row for row in rows(db, "SELECT * FROM tessera_check(?)", (uri + "_back",)) if row[0] != "note"]
    assert value(db, "SELECT tessera_drop(?)", (uri + "_back",)) == 1 and bucket.keys("walk_back/") == []


# ---- Scopes

def test_options(bucket):
    db = load(bucket.library)
    assert set_scope(db, "s3://bkt/p", ALL) == [(None,)]
    for name in ALL:
        if name not in ("kms_key_id", "key_id", "secret", "sse"): # these go in pairs
            assert set_scope(db, "s3://bkt/p", {"key_id": "k", "secret": "s", name: ALL[name]}) == [(None,)], name
    for options in ({"provider": "env"}, {"provider": "profile"}, {"provider": "auto"}, {"provider": "anonymous"}, {"key_id": "k", "secret": "s", "sse": "AES256"},
                    {"key_id": "k", "secret": "s", "url_style": "path"}, {"key_id": "k", "secret": "s", "retries": 0, "refresh_ms": 0}):
        set_scope(db, "s3://bkt/p", options)
    for options, says in (({"provider": "magic"}, "magic"), ({"bogus": 1}, "bogus"), ({"parallel": "many"}, "parallel"), ({"parallel": -1}, "parallel"),
                          ({"retries": 1000}, "retries"), ({"requester_pays": 1}, "requester_pays"), ({"url_style": "odd"}, "url_style"), ({"endpoint": 5}, "endpoint"),
                          ({"key_id": "k"}, "secret"), ({"provider": "keys"}, "key id"), ({"provider": "env", "key_id": "k", "secret": "s"}, "provider"),
                          ({"key_id": "k", "secret": "s", "sse": "rot13"}, "rot13"), ({"key_id": "k", "secret": "s", "kms_key_id": "k"}, "aws:kms"),
                          ({"key_id": "k", "secret": "s", "part_mb": 1}, "part_mb"), ({"key_id": "k", "secret": "s", "endpoint": "ftp://h"}, "ftp://h"),
                          ({"key_id": "k", "secret": "s", "endpoint": "http://example.com"}, "plain_http")):
        message = raises(db, "SELECT tessera_configure('s3://bkt/p', ?)", (json.dumps(options),), says=says)
        assert message.startswith("tessera_configure"), message
    for uri, says in (("b", "s3://"), ("s3:/b", "s3://"), ("s3://", "bucket"), ("s3://b/../c", ".."), ("s3://B_/x?y", "bucket"), ("http://b/c", "s3://")):
        raises(db, "SELECT tessera_configure(?, ?)", (uri, '{"provider": "anonymous"}'), says=says)
    raises(db, "SELECT tessera_configure('s3://bkt')")
    raises(db, "SELECT tessera_configure('s3://bkt', 'no JSON')", says="tessera_configure")
    raises(db, "SELECT tessera_configure('s3://bkt', '')", code="SQLITE_MISMATCH", says="expected '{'")
    raises(db, "SELECT tessera_configure(NULL, NULL)")
    assert [rows(db, "SELECT tessera_configure('s3://bkt/p', NULL)"), rows(db, "SELECT tessera_configure('s3://bkt/p', NULL)")] == [[(1,)], [(0,)]]
    db.execute("CREATE VIEW foreign_view AS SELECT tessera_configure('s3://bkt', '{}')")
    raises(db, "SELECT * FROM foreign_view", says="unsafe")
    assert stats(db) == {}


def test_no_scope_no_request(bucket):
    """Neither paths nor tables of a foreign database cause a connection, also when the environment has keys and an endpoint."""
    with Listener() as listener:
        database = os.path.join(bucket.folder, "foreign.db")
        made = bucket.connect(database)
        made.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/foreign', {COLUMNS})")
        made.execute(FILL.format("t"))
        made.close()
        program = there("import sqlite3, sys; db = sqlite3.connect(sys.argv[2], isolation_level=None); db.enable_load_extension(True); db.load_extension(sys.argv[1])\n"
                   "for sql in ('SELECT * FROM t', 'INSERT INTO t VALUES (5, 5, 1, NULL, NULL)', \"SELECT * FROM tessera_array('s3://bucket/foreign')\", "
                   "\"CREATE VIRTUAL TABLE u USING tessera('s3://bucket/u', x INT32 DIMENSION(0, 9, 10))\", \"SELECT tessera_vacuum('s3://bucket/foreign')\", "
                   "\"SELECT * FROM tessera_objects('s3://bucket')\", \"SELECT tessera_copy('s3://bucket/foreign', 's3://bucket/copy')\", "
                   "\"SELECT tessera_create_group('s3://bucket/group')\", 'DROP TABLE t'):\n"
                   "  try: print('NO ERROR', sql, db.execute(sql).fetchall())\n"
                   "  except sqlite3.Error as e: print(e)\n")
        url = f"http://127.0.0.1:{listener.port}"
        environment = dict(os.environ, AWS_ENDPOINT_URL=url, AWS_ENDPOINT_URL_S3=url, AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="s", http_proxy=url, https_proxy=url,
                           HTTPS_PROXY=url, ALL_PROXY=url, AWS_EC2_METADATA_SERVICE_ENDPOINT=url, AWS_CONTAINER_CREDENTIALS_FULL_URI=url)
        bucket.proxy.clear()
        text = subprocess.run([sys.executable, "-c", program, os.path.splitext(bucket.library)[0], database], env=environment, capture_output=True, text=True, timeout=60)
        lines = text.stdout.splitlines()
        assert listener.count == 0 and not bucket.proxy.log, (listener.count, text)
        assert len(lines) == 9, text
        for line in lines[:-1]:
            assert there("no scope for s3://bucket/") in line or there("no scope for s3://bucket:") in line, line
            assert "call tessera_configure first" in line, line
        print(f"    DROP TABLE without a scope: {lines[-1]}")
    db = load(bucket.library)
    raises(db, f"SELECT * FROM tessera_array('s3://{NAME}/foreign')", code="SQLITE_CANTOPEN", says=f"no scope for s3://{NAME}/foreign: call tessera_configure first")


def test_longest_scope(bucket):
    """The longest scope counts, by whole parts of paths; a scope set again is replaced; a forgotten one ends."""
    db = bucket.connect()
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/long/est/t', x INT32 DIMENSION(0, 9, 10), a INT32)")
    db.execute("INSERT INTO t VALUES (1, 1)")
    with FaultProxy(bucket.server.port) as inner:
        def reads(*through):
            bucket.proxy.clear(), inner.clear()
            assert value(db, f"SELECT cells FROM tessera_array('s3://{NAME}/long/est/t')") == 1
            assert (len(bucket.proxy.log) > 0, len(inner.log) > 0) == through, (len(bucket.proxy.log), len(inner.log))
        reads(True, False)
        scope(db, inner.port, f"s3://{NAME}/long/es")
        reads(True, False)
        scope(db, inner.port, f"s3://{NAME}/long")
        reads(False, True)
        scope(db, bucket.proxy.port, f"s3://{NAME}/long/est/t")
        reads(True, False)
        scope(db, inner.port, f"s3://{NAME}/long/est/t") # replaced
        reads(False, True)
        for uri in ("/long/est/t", "/long", "/long/es"):
            set_scope(db, f"s3://{NAME}{uri}", None)
        reads(True, False)
        assert rows(db, "SELECT * FROM t") == [(1, 1)]
        set_scope(db, f"s3://{NAME}", None)
        bucket.proxy.clear(), inner.clear()
        raises(db, f"SELECT * FROM tessera_array('s3://{NAME}/long/est/t')", says="call tessera_configure")
        raises(db, f"SELECT * FROM tessera_array('s3://{NAME}/long/est/never')", code="SQLITE_CANTOPEN", says="no scope")
        raises(db, "SELECT * FROM t")
        raises(db, "INSERT INTO t VALUES (2, 2)")
        assert not bucket.proxy.log and not inner.log
        scope(db, inner.port)
        assert rows(db, "SELECT * FROM t") == [(1, 1)]
        db.execute("INSERT INTO t VALUES (2, 2)")
    assert rows(load_again(bucket), f"SELECT cells FROM tessera_array('s3://{NAME}/long/est/t')") == [(2,)]


def load_again(bucket):
    return bucket.connect(direct=True)


# ---- Tables and functions

def make(bucket, db, name, kind="sparse", fill=True):
    uri = f"s3://{NAME}/{name}"
    table = re.sub(r"\W", "_", name)
    db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera('{uri}', {COLUMNS}, kind={kind})")
    if fill:
        db.execute(FILL.format(table))
    return uri


def test_tables(bucket):
    """Each table about arrays says the same of a bucket as of a directory with the same files."""
    db = bucket.connect()
    folder = fresh(os.path.join(bucket.folder, "tables"))
    for kind in ("sparse", "dense"):
        local, uri = f"{folder}/{kind}", f"s3://{NAME}/tables/{kind}"
        db.execute(f"CREATE VIRTUAL TABLE l_{kind} USING tessera('{local}', {COLUMNS}, kind={kind})")
        db.execute(FILL.format(f"l_{kind}"))
        db.execute(f"UPDATE l_{kind} SET v = 9 WHERE y = 1 AND x = 2")
        db.execute("SELECT tessera_set_metadata(?, 'unit', 'm')", (local,)).fetchall()
        bucket.upload(local, f"tables/{kind}")
        db.execute(f"CREATE VIRTUAL TABLE r_{kind} USING tessera('{uri}')")
        assert rows(db, f"SELECT * FROM r_{kind} WHERE note IS NOT NULL ORDER BY y, x") == rows(db, f"SELECT * FROM l_{kind} WHERE note IS NOT NULL ORDER BY y, x")
        for query in ("SELECT * FROM tessera_array('{}')", "SELECT * FROM tessera_schema('{}')", "SELECT * FROM tessera_enumeration('{}', 's')",
                      "SELECT * FROM tessera_fragments('{}')", "SELECT * FROM tessera_tiles('{}')", "SELECT * FROM tessera_metadata('{}')",
                      "SELECT * FROM tessera_aggregate('{}', 'v')", "SELECT * FROM tessera_partitions('{}', 2)", "SELECT * FROM tessera_check('{}')",
                      "SELECT tessera_npy('{}', 'v', '{{\"y\":[0,9],\"x\":[0,9]}}')", "SELECT tessera_png('{}', 'v', '{{\"y\":[0,9],\"x\":[0,9]}}')"):
            try:
                want = rows(db, query.format(local))
            except sqlite3.Error as error:
                raises(db, query.format(uri), says=str(error).replace(local, uri)[-40:])
                continue
            got = rows(db, query.format(uri))
            plain = [[w for w in row if w not in (local, uri)] for row in want]
            assert [[g for g in row if g not in (local, uri)] for row in got] == plain, (query, got, want)
        for text in ("SELECT y / 2 AS k, count(*), sum(v), max(v) FROM {0} GROUP BY 1", "SELECT y, x, v + 0.5 AS w FROM {0} WHERE v > 3", "SELECT s AS s, count(*), avg(v) FROM {0} GROUP BY 1",
                     "SELECT a.y AS y, max(a.v - b.v) AS most, count(b.v) FROM {0} a LEFT JOIN {0} b ON b.y = a.y AND b.x = a.x / 2 GROUP BY 1"):
            db.execute(f"CREATE VIRTUAL TABLE temp.q USING tessera_query({text.format(f'r_{kind}')})")
            got, want = (sorted(map(repr, rows(db, query))) for query in ("SELECT * FROM q", text.format(f"l_{kind}")))
            assert got == want and got, (text, got, want)
            db.execute("DROP TABLE temp.q")
        for text in ("SELECT median(v), percentile(v, 90), stddev(v), count(DISTINCT s) FROM {0}", "SELECT s AS s, x / 3 AS k, variance(v), max(note) FROM {0} GROUP BY 1, 2", "SELECT y, x, max(v) FROM {0}", "SELECT a.x AS x, count(*), max(a.v - m.mean) FROM {0} a JOIN m_{0} m ON m.y = a.y GROUP BY 1",
                     "SELECT count(*), min(words.word) FROM {0} t LEFT JOIN words ON words.id = t.y"):
            found = []
            db.execute("CREATE TABLE IF NOT EXISTS words AS SELECT 1 AS id, 'one' AS word UNION ALL SELECT 3, 'three'")
            for table in (f"r_{kind}", f"l_{kind}"):
                db.execute(f"CREATE VIRTUAL TABLE m_{table} USING tessera_query(SELECT y, avg(v) AS mean FROM {table} GROUP BY y)")
                db.execute(f"CREATE VIRTUAL TABLE q USING tessera_query({text.format(table)})")
                found.append(sorted(map(repr, rows(db, "SELECT * FROM q") + rows(db, f"SELECT id, mean FROM words LEFT JOIN m_{table} m ON m.y = id"))))
                db.execute("DROP TABLE q")
                db.execute(f"DROP TABLE m_{table}")
            assert found[0] == found[1] and len(found[0]) > 2, (text, found)
        assert value(db, f"SELECT tessera_ddl('{uri}')").replace(uri, local) == value(db, f"SELECT tessera_ddl('{local}')")
        assert value(db, f"SELECT count(*) FROM tessera_advise('{uri}')") >= 0
        preview = value(db, f"SELECT tessera_preview('{uri}', 'v')") if kind == "dense" else "x"
        assert preview
    assert rows(db, f"SELECT path, kind FROM tessera_objects('s3://{NAME}/tables')") == [(f"s3://{NAME}/tables/dense", "array"), (f"s3://{NAME}/tables/sparse", "array")]
    assert rows(db, "SELECT * FROM tessera_progress") == []
    plan = " ".join(str(row) for row in rows(db, "EXPLAIN QUERY PLAN SELECT v FROM r_sparse WHERE y = 1"))
    assert "VIRTUAL TABLE" in plan and SECRET not in plan and KEY_ID not in plan
    text = " ".join(str(row) for row in rows(db, "EXPLAIN SELECT v FROM r_sparse WHERE y = 1"))
    assert SECRET not in text and KEY_ID not in text


def test_functions(bucket):
    """Each function that changes or makes something, on s3:// paths."""
    db = bucket.connect()
    uri = make(bucket, db, "functions")
    db.execute(f"SELECT tessera_set_metadata('{uri}', 'k', 1), tessera_set_metadata('{uri}', 'l', 'x')").fetchall()
    assert rows(db, f"SELECT key, value FROM tessera_metadata('{uri}') ORDER BY key") == [("k", 1), ("l", "x")]
    db.execute(f"SELECT tessera_set_metadata('{uri}', 'k', NULL)").fetchall()
    db.execute(f"SELECT tessera_consolidate('{uri}', 'array_meta')").fetchall()
    assert rows(db, f"SELECT key, value FROM tessera_metadata('{uri}')") == [("l", "x")]
    db.execute(f"SELECT tessera_vacuum('{uri}', 'array_meta')").fetchall()
    db.execute(f"SELECT tessera_add_attribute('{uri}', 'added INT32')").fetchall()
    db = reopen(bucket, uri, "functions")
    db.execute("INSERT INTO functions(y, x, v, added) VALUES (2, 2, 5.5, 7)")
    assert rows(db, "SELECT added FROM functions WHERE y = 2 OR y = 50 ORDER BY y") == [(7,), (None,)]
    db.execute(f"SELECT tessera_extend_enumeration('{uri}', 's', 'c')").fetchall()
    db.execute("INSERT INTO functions(y, x, s) VALUES (3, 3, 'c')")
    assert rows(db, "SELECT s FROM functions WHERE y = 3") == [("c",)]
    db.execute(f"SELECT tessera_drop_attribute('{uri}', 'added')").fetchall()
    db = reopen(bucket, uri, "functions")
    assert "added" not in [row[1] for row in rows(db, "PRAGMA table_info(functions)")]
    assert value(db, f"SELECT tessera_consolidate('{uri}')") == 2 # the first one has another schema
    assert value(db, f"SELECT tessera_vacuum('{uri}', NULL, '{{\"grace_s\": 600}}')") == 0 # by the server's clock
    assert value(db, f"SELECT tessera_vacuum('{uri}')") > 0
    left = {key.split("/")[2] for key in bucket.keys("functions/__fragments/")}
    assert left == {row[0] for row in rows(db, f"SELECT name FROM tessera_fragments('{uri}')")}, f"the vacuum leaves {left}"
    assert rows(db, f"SELECT count(*) FROM functions") == [(5,)]
    found = rows(db, f"SELECT * FROM tessera_check('{uri}')")
    assert not [row for row in found if row[0] != "note"], found
    assert value(db, f"SELECT tessera_recover('{uri}')") in (0, None)
    growing = f"s3://{NAME}/growing"
    db.execute(f"CREATE VIRTUAL TABLE growing USING tessera('{growing}', x INT32 DIMENSION(0, 999, 10) CURRENT(0, 9), a INT32)")
    raises(db, "INSERT INTO growing VALUES (50, 1)", code="SQLITE_RANGE")
    db.execute(f"SELECT tessera_expand_domain('{growing}', '{{\"x\":[0,99]}}')").fetchall()
    db.execute("INSERT INTO growing VALUES (50, 1)")
    assert rows(db, "SELECT * FROM growing WHERE a IS NOT NULL") == [(50, 1)]
    raises(db, f"CREATE VIRTUAL TABLE again USING tessera('{growing}', x INT32 DIMENSION(0, 9, 10))")
    secret = f"s3://{NAME}/secret"
    db.execute(f"SELECT tessera_set_key('{secret}', ?)", (bytes(range(32)),)).fetchall()
    db.execute(f"CREATE VIRTUAL TABLE secret USING tessera('{secret}', x INT32 DIMENSION(0, 9, 10), a TEXT, encryption=aes_256_gcm)")
    db.execute("INSERT INTO secret VALUES (1, 'treasure')")
    assert rows(db, "SELECT a FROM secret WHERE x = 1") == [("treasure",)]
    assert not [key for key in bucket.keys("secret") if b"treasure" in bucket.read(key)]
    raises(load_again(bucket), f"SELECT * FROM tessera_schema('{secret}')", code="SQLITE_AUTH")
    assert value(db, f"SELECT tessera_drop('{growing}')") == 1
    assert bucket.keys("growing/") == [], bucket.keys("growing/")
    db.execute("DROP TABLE IF EXISTS secret")
    assert bucket.keys("secret/"), "DROP TABLE removes the table, not the array"


def load_open(bucket, uri):
    return reopen(bucket, uri, "t", direct=True)


def reopen(bucket, uri, table, direct=False):
    db = bucket.connect(direct=direct)
    db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera('{uri}')")
    return db


def follow_bucket(db, folder, columns):
    """A copy follows an array in a bucket, and one in a bucket follows an array in a directory: merges and vacuums, too."""
    uri, away = f"s3://{NAME}/follow/a", f"{folder}/follow"
    for place, table, copy in ((uri, "leads", away), (away + "_a", "walks", uri + "_copy")):
        db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera('{place}', {columns})")
        for x in range(3):
            db.execute(f"INSERT INTO {table} VALUES (?, 1, 'a')", (x,))
            value(db, "SELECT tessera_sync(?, ?)", (place, copy))
        value(db, "SELECT tessera_consolidate(?) + tessera_vacuum(?, '{\"grace_s\":0}')", (place, place))
        assert value(db, "SELECT tessera_sync(?, ?) ->> 'removed'", (place, copy)) >= 3
        assert value(db, "SELECT tessera_sync(?, ?)", (place, copy)) == '{"copied":0,"removed":0,"bytes":0}'
        for array in (place, copy):
            assert rows(db, "SELECT fragments, cells FROM tessera_array(?)", (array,)) == [(1, 3)], array
            assert not [row for row in rows(db, "SELECT * FROM tessera_check(?)", (array,)) if row[0] != "note"], array


def test_copies(bucket):
    """tessera_copy and tessera_sync between directory, database and bucket."""
    db = bucket.connect()
    folder = fresh(os.path.join(bucket.folder, "copies"))
    columns = "x INT32 DIMENSION(0, 99, 10), v FLOAT64, note TEXT"
    cells = [(1, 1.5, "one"), (2, 2.5, None), (50, 3.5, "two")]
    places = {"bucket": f"s3://{NAME}/copies/from", "directory": f"{folder}/from", "database": "db:inside"}
    for place, path in places.items():
        table = "inside" if place == "database" else place + "_table"
        db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera({columns})" if place == "database" else f"CREATE VIRTUAL TABLE {table} USING tessera('{path}', {columns})")
        db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", cells)
    for origin, path in places.items():
        for goal in places:
            target = {"bucket": f"s3://{NAME}/copies/{origin}", "directory": f"{folder}/{origin}", "database": f"db:from_{origin}"}[goal]
            assert value(db, "SELECT tessera_copy(?, ?)", (path, target)) == 3, (origin, goal)
            if goal != "database":
                db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{target}')")
                assert rows(db, "SELECT * FROM t ORDER BY x") == cells, (origin, goal)
                db.execute("DROP TABLE t")
                raises(db, "SELECT tessera_copy(?, ?)", (path, target))
            else:
                assert rows(db, f"SELECT * FROM from_{origin} ORDER BY x") == cells
            found = [row for row in rows(db, "SELECT * FROM tessera_check(?)", (target,)) if row[0] == "error"]
            assert not found, (origin, goal, found)
    for table, name in (("inside", "database"), ("directory_table", "directory"), ("bucket_table", "bucket")):
        assert value(db, "SELECT tessera_sync(?, ?) ->> 'copied'", (f"db:{table}", f"s3://{NAME}/exported/{name}")) > 0, name
        assert rows(load_open(bucket, f"s3://{NAME}/exported/{name}"), "SELECT * FROM t ORDER BY x") == cells, name
        assert value(db, "SELECT tessera_sync(?, ?) ->> 'copied'", (f"db:{table}", f"s3://{NAME}/exported/{name}")) == 0, name
    assert value(db, "SELECT tessera_sync('db:bucket_table', ?) ->> 'copied'", (f"{folder}/exported",)) > 0
    follow_bucket(db, folder, columns)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{folder}/exported')")
    assert rows(db, "SELECT * FROM t ORDER BY x") == cells
    db.execute("SELECT tessera_sync(?, 'db:imported')", (places["bucket"],)).fetchall()
    assert rows(db, "SELECT * FROM imported ORDER BY x") == cells
    bucket.proxy.clear()
    assert rows(db, "SELECT * FROM imported ORDER BY x") == cells and not bucket.proxy.log
    db.execute("BEGIN")
    db.execute("SELECT tessera_copy(?, 'db:gone')", (places["bucket"],)).fetchall()
    db.execute("ROLLBACK")
    raises(db, "SELECT * FROM gone", says="no such table")
    raises(db, "SELECT tessera_copy(?, ?)", (f"s3://{NAME}/copies/none", f"s3://{NAME}/copies/none2"), says="none")
    assert bucket.keys("copies/none2") == []


def unfinished(bucket, prefix):
    """The uploads that were begun and neither completed nor ended. Azure has none."""
    return [] if There.scheme == "azure" else bucket.boto.list_multipart_uploads(Bucket=NAME, Prefix=prefix).get("Uploads", [])


def test_parts(bucket):
    """A large file is sent and read in parts of part_mb. A part that fails for a moment is sent again; an upload that fails is ended and shows nothing."""
    db = bucket.connect(part_mb=5)
    uri = f"s3://{NAME}/parts"
    db.execute(f"CREATE VIRTUAL TABLE parts USING tessera('{uri}', x INT32 DIMENSION(0, 9, 10), b BLOB)")
    large = os.urandom(12 << 20)
    bucket.proxy.clear()
    bucket.proxy.fault("status", kind="COMPLETE", status=403, code="AccessDenied", times=99)
    raises(db, "INSERT INTO parts VALUES (1, ?)", (large,), code="SQLITE_AUTH", says="AccessDenied")
    assert bucket.proxy.count("ABORT") == (There.scheme != "azure") and not unfinished(bucket, "parts/")
    bucket.proxy.clear()
    other = load_open(bucket, uri)
    assert rows(db, "SELECT x FROM parts") == rows(other, "SELECT x FROM t") == []
    rule = bucket.proxy.fault("status", kind="PART", skip=1, status=503, code="SlowDown", times=1)
    db.execute("INSERT INTO parts VALUES (2, ?)", (large,))
    assert rule["times"] == 0 and bucket.proxy.count("PART") == 4 and bucket.proxy.count("COMPLETE") == 1, bucket.log()
    assert [size for size in sorted(entry["sent"] for entry in bucket.proxy.log if entry["kind"] == "PART")][-2:] == [5 << 20] * 2
    second = bucket.connect(part_mb=5)
    second.execute(f"CREATE VIRTUAL TABLE parts USING tessera('{uri}')")
    assert rows(db, "SELECT b FROM parts") == rows(second, "SELECT b FROM parts") == rows(other, "SELECT b FROM t") == [(large,)]


class Room:
    """The most bytes that files without a name took while something ran."""

    def __enter__(self):
        self.most, self.ended = 0, threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.ended.wait(0.01): # it takes longer to send a part
            for name in os.listdir("/proc/self/fd"):
                try:
                    if "(deleted)" in os.readlink(f"/proc/self/fd/{name}"):
                        self.most = max(self.most, os.stat(f"/proc/self/fd/{name}").st_blocks * 512)
                except OSError:
                    pass

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def test_room(bucket):
    """An export into a bucket sends parts of a file that it still writes, so that it needs little room on this machine; one that fails leaves nothing."""
    if sys.platform != "linux":
        return
    db, mib = bucket.connect(part_mb=5, stall_ms=120000), 1 << 20 # a busy machine takes long for 5 MiB: that is no stall
    db.execute("CREATE VIRTUAL TABLE large USING tessera(x INT32 DIMENSION(0, 15, 1), b BLOB)")
    db.execute("BEGIN")
    for x in range(16):
        db.execute("INSERT INTO large VALUES (?, randomblob(?))", (x, 5 * mib - 1000 * x))
    db.execute("COMMIT")
    cells = "SELECT group_concat(length(b) || hex(substr(b, 1, 9)) || hex(substr(b, -9)), ',') FROM (SELECT b FROM {} ORDER BY x)"
    bucket.proxy.clear()
    with Room() as room:
        db.execute("SELECT tessera_sync('db:large', ?)", (f"s3://{NAME}/room/whole",)).fetchall()
    assert bucket.proxy.count("PART") == 16 and 0 < room.most < 72 * mib, (bucket.proxy.count("PART"), room.most) # the file has 80 MiB
    assert [size for size in sorted(entry["sent"] for entry in bucket.proxy.log if entry["kind"] == "PART")][1:] == [5 * mib] * 15
    other = load_open(bucket, f"s3://{NAME}/room/whole")
    scope(other, bucket.server.port, stall_ms=120000)
    assert value(other, cells.format("t")) == value(db, cells.format("large"))
    scope(db, bucket.proxy.port, retries=0, part_mb=5, stall_ms=120000)
    db.execute("CREATE VIRTUAL TABLE small USING tessera(x INT32 DIMENSION(0, 9, 10), b BLOB)")
    db.execute("INSERT INTO small VALUES (1, 'one')")
    for table, kind, skip in (("large", "PART", 3), ("large", "COMPLETE", 0), ("small", "PUT", 5)):
        bucket.proxy.clear()
        rule = bucket.proxy.fault("status", kind=kind, skip=skip, status=403, code="AccessDenied", times=1)
        raises(db, f"SELECT tessera_sync('db:{table}', ?)", (f"s3://{NAME}/room/failed",), says="AccessDenied")
        assert rule["times"] == 0 and bucket.keys("room/failed") == [], (kind, bucket.keys("room/failed"))
        assert not unfinished(bucket, "room/"), kind
    bucket.proxy.clear()


class Encrypted:
    """A port with TLS and a certificate that nobody has signed; it passes what it gets on to another port."""

    def __init__(self, port, folder):
        self.to, self.count, self.certificate = port, 0, os.path.join(folder, "certificate.pem")
        key = os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", self.certificate], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, key)

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            with client, socket.create_connection(("127.0.0.1", self.to)) as server:
                client.settimeout(10)
                secure = self.context.wrap_socket(client, server_side=True)
                self.count += 1
                secure.settimeout(None)
                threading.Thread(target=self.pump, args=(server, secure), daemon=True).start()
                self.pump(secure, server)
        except OSError:
            pass # the other side does not trust the certificate

    def pump(self, source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def __exit__(self, *_):
        self.socket.close()


def test_certificates(bucket):
    """A server is trusted by ca_file, and not without it; nothing is sent to one that is not trusted."""
    if not shutil.which("openssl"):
        print("    skipped: there is no openssl")
        return
    uri = f"s3://{NAME}/encrypted"
    create = f"CREATE VIRTUAL TABLE t USING tessera('{uri}', x INT32 DIMENSION(0, 9, 10), a INT32)"
    with Encrypted(bucket.proxy.port, bucket.folder) as server:
        url = There.options(server.port)["endpoint"].replace("http://", "https://")
        bucket.proxy.clear()
        db = load(bucket.library)
        scope(db, 0, endpoint=url, retries=0)
        message = raises(db, create, says="certificate")
        assert server.count == 0 and not bucket.proxy.log and SECRET not in message, (message, server.count)
        scope(db, 0, endpoint=url, ca_file=server.certificate)
        db.execute(create)
        db.execute("INSERT INTO t VALUES (1, 2)")
        assert server.count > 0 and rows(db, "SELECT x, a FROM t") == rows(load_open(bucket, uri), "SELECT x, a FROM t") == [(1, 2)]
        other = load(bucket.library)
        scope(other, 0, endpoint=url, ca_file="/nowhere.pem", retries=0)
        raises(other, f"SELECT * FROM tessera_array('{uri}')")


def test_old_uploads(bucket):
    """A vacuum ends uploads below the array that were begun a day ago, and no others."""
    db = bucket.connect()
    uri = make(bucket, db, "uploads")
    begun = {key: bucket.boto.create_multipart_upload(Bucket=NAME, Key=key)["UploadId"] for key in ("uploads/__fragments/old", "uploads/__fragments/new", "uploads2/old")}
    def left():
        return {upload["Key"] for upload in bucket.boto.list_multipart_uploads(Bucket=NAME).get("Uploads", ())}
    entries = "".join(f"<Upload><Key>{key}</Key><UploadId>{begun[key]}</UploadId><Initiated>{time}</Initiated></Upload>"
                      for key, time in (("uploads/__fragments/new", "2999-01-01T00:00:00.000Z"), ("uploads/__fragments/old", "2020-01-01T00:00:00.000Z")))
    body = f"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{entries}</ListMultipartUploadsResult>".encode()
    # moto says that all uploads were begun in 2010
    rule = bucket.proxy.fault("replace", kind="UPLOADS", body=body, times=9)
    db.execute(f"SELECT tessera_vacuum('{uri}', NULL, '{{\"grace_s\": 1e10}}')").fetchall()
    assert rule["times"] == 8 and left() == set(begun), left()
    db.execute(f"SELECT tessera_vacuum('{uri}', 'commits')").fetchall()
    assert rule["times"] == 8 and left() == set(begun), left()
    db.execute(f"SELECT tessera_vacuum('{uri}')").fetchall()
    assert left() == set(begun) - {"uploads/__fragments/old"}, left()
    bucket.proxy.clear()
    bucket.proxy.fault("status", kind="UPLOADS", status=403, code="AccessDenied", times=9)
    db.execute(f"SELECT tessera_vacuum('{uri}')").fetchall() # who may not list uploads may vacuum all the same


def test_kept_commits(bucket):
    """A server says that commits are removed, or that there were none, and keeps them: so a vacuum keeps their fragments, and the array opens."""
    for name, layout in (("sparse", ""), ("dense", ", kind=dense")):
        uri, cells = f"s3://{NAME}/kept-{name}", [(1, 1), (2, 2), (3, 3)]
        db = bucket.connect()
        db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera('{uri}', x INT32 DIMENSION(0, 9, 10), a INT32{layout})")
        for cell in cells:
            db.execute(f"INSERT INTO {name} VALUES (?, ?)", cell)
        db.execute(f"SELECT tessera_consolidate('{uri}', 'fragments')").fetchall()
        vacuum = f"SELECT tessera_vacuum('{uri}', '{{\"grace_s\":0}}')"
        bucket.proxy.fault("status", kind="DELETE", path="[.]wrt", status=404, code="BlobNotFound" if There.scheme == "azure" else "NoSuchKey", times=99)
        bucket.proxy.fault("swallow", kind="DELETE-MANY", body=b"<DeleteResult></DeleteResult>")
        message = raises(db, vacuum, code="SQLITE_ERROR", says=".wrt is still there after its removal")
        assert message.startswith(f"tessera_vacuum: array {uri}: __commits/") or message.startswith(f"array {uri}: __commits/"), message
        for times in range(2):
            assert reopen(bucket, uri, name).execute(f"SELECT x, a FROM {name} WHERE a IS NOT NULL ORDER BY x").fetchall() == cells
            assert not [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
            bucket.proxy.clear()
            db.execute(vacuum).fetchall() # now the server does as it says
        assert not [key for key in bucket.keys(f"kept-{name}/__fragments/") if key.endswith(".vac")]


def test_trials(bucket):
    """What a program leaves that is killed while it tries the server is a note of tessera_check, and a vacuum removes it after a day."""
    db = bucket.connect()
    uri, key = make(bucket, db, "trials"), "trials/.tessera_proof_0123456789abcdef"
    bucket.boto.put_object(Bucket=NAME, Key=key, Body=b"1")
    assert [row[:2] for row in rows(db, "SELECT * FROM tessera_check(?)", (uri,))] == [("note", os.path.basename(key))]
    rows(db, "SELECT tessera_vacuum(?)", (uri,))
    assert bucket.keys(key) == [key], "it is not a day old"
    bucket.proxy.fault("replace", kind="HEAD", path="proof", body=b"", headers={"Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}, times=9)
    rows(db, "SELECT tessera_vacuum(?)", (uri,))
    bucket.proxy.clear()
    assert bucket.keys(key) == [] and rows(db, "SELECT * FROM tessera_check(?)", (uri,)) == []


def test_empty_bucket(bucket):
    """A bucket without objects is a place like any other: it has no arrays, and a first one can be made in it."""
    bucket.boto.create_bucket(Bucket="empty-one")
    db = bucket.connect(uri="s3://empty-one")
    for uri in ("s3://empty-one", "s3://empty-one/"):
        assert rows(db, "SELECT * FROM tessera_objects(?)", (uri,)) == [], uri
    raises(db, "SELECT * FROM tessera_array('s3://empty-one')", code="SQLITE_CANTOPEN", says="not found")
    raises(db, "SELECT * FROM tessera_objects('s3://empty-one/prefix')", code="SQLITE_CANTOPEN", says="not found")
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://empty-one', {COLUMNS})")
    db.execute(FILL.format("t"))
    assert value(db, "SELECT count(*) FROM t") == 3


def test_groups(bucket):
    """Groups with relative and absolute members, members in buckets and directories, and metadata."""
    db = bucket.connect()
    folder = fresh(os.path.join(bucket.folder, "groups"))
    group = f"s3://{NAME}/group"
    db.execute("SELECT tessera_create_group(?)", (group,)).fetchall()
    make(bucket, db, "group/inner")
    make(bucket, db, "outer")
    db.execute(f"CREATE VIRTUAL TABLE here USING tessera('{folder}/here', {COLUMNS})")
    db.execute("SELECT tessera_add_member(?, ?, 'in')", (group, group + "/inner")).fetchall()
    db.execute("SELECT tessera_add_member(?, ?, 'out')", (group, f"s3://{NAME}/outer")).fetchall()
    db.execute("SELECT tessera_add_member(?, ?, 'here')", (group, f"{folder}/here")).fetchall()
    db.execute("SELECT tessera_set_metadata(?, 'k', 'v')", (group,)).fetchall()
    members = {row[0]: row for row in rows(db, "SELECT name, path, kind FROM tessera_members(?)", (group,))}
    assert members["in"][1].endswith(f"s3://{NAME}/group/inner") and members["in"][2] == "array", members
    assert members["out"][1] == f"s3://{NAME}/outer" and members["out"][2] == "array", members
    assert members["here"][1].endswith(f"{folder}/here"), members
    assert rows(db, "SELECT key, value FROM tessera_metadata(?)", (group,)) == [("k", "v")]
    assert rows(db, "SELECT m.name, a.cells FROM tessera_members(?) m, tessera_array(m.path) a WHERE m.name <> 'here' ORDER BY 1", (group,)) == [("in", 3), ("out", 3)]
    db.execute("SELECT tessera_drop_member(?, 'here')", (group,)).fetchall()
    assert sorted(row[0] for row in rows(db, "SELECT name FROM tessera_members(?)", (group,))) == ["in", "out"]
    db.execute("SELECT tessera_consolidate(?), tessera_vacuum(?)", (group, group)).fetchall()
    assert rows(db, "SELECT key, value FROM tessera_metadata(?)", (group,)) == [("k", "v")]
    objects = rows(db, f"SELECT path, kind FROM tessera_objects('s3://{NAME}/group')")
    assert (f"s3://{NAME}/group/inner", "array") in objects, objects
    raises(db, "SELECT tessera_create_group(?)", (group,))
    raises(db, "SELECT * FROM tessera_members(?)", (f"s3://{NAME}/outer",))
    local = f"{folder}/group"
    db.execute("SELECT tessera_create_group(?)", (local,)).fetchall()
    db.execute("SELECT tessera_add_member(?, ?, 'far')", (local, f"s3://{NAME}/outer")).fetchall()
    assert rows(db, "SELECT m.path, a.cells FROM tessera_members(?) m, tessera_array(m.path) a", (local,)) == [(f"s3://{NAME}/outer", 3)]
    other = load(bucket.library) # without a scope the members are named, and not opened
    try:
        print("    members without a scope:", rows(other, "SELECT name, path, kind FROM tessera_members(?)", (local,)))
    except sqlite3.Error as error:
        print("    members without a scope:", error)
    raises(db, "SELECT tessera_drop(?)", (group,), says="has members (2)")
    assert value(db, "SELECT tessera_drop(?, '{\"members\":true}')", (group,)) == 2
    assert bucket.keys("group/") == [], bucket.keys("group/")
    assert bucket.keys("outer/"), "a member that lies elsewhere stays"
    assert value(db, "SELECT tessera_drop(?, '{\"members\":true}')", (local,)) == 1
    assert not os.path.exists(local) and bucket.keys("outer/")


def test_restrict(bucket):
    folder = fresh(os.path.join(bucket.folder, "restrict"))
    setup = bucket.connect()
    for name in ("bound/a", "boundary", "other"):
        make(bucket, setup, name)
    setup.execute(f"CREATE VIRTUAL TABLE here USING tessera('{folder}/here', {COLUMNS})")

    def cells(db, path):
        return value(db, "SELECT cells FROM tessera_array(?)", (path,))

    def refused(db, path):
        bucket.proxy.clear()
        message = raises(db, "SELECT cells FROM tessera_array(?)", (path,), code="SQLITE_PERM")
        assert not bucket.proxy.log, message

    db = bucket.connect()
    db.execute(f"CREATE VIRTUAL TABLE o USING tessera('s3://{NAME}/other')")
    db.execute("SELECT tessera_restrict(?)", (f"s3://{NAME}/bound",)).fetchall()
    assert cells(db, f"s3://{NAME}/bound/a") == 3
    for path in (f"s3://{NAME}/boundary", f"s3://{NAME}/other", f"s3://{NAME}", f"{folder}/here", "s3://elsewhere/bound/a"):
        refused(db, path)
    for path in (f"s3://{NAME}/bound/../other", f"s3://{NAME}/bound/a/../../other"):
        raises(db, "SELECT cells FROM tessera_array(?)", (path,))
    bucket.proxy.clear()
    raises(db, "SELECT * FROM o", code="SQLITE_PERM")
    assert not bucket.proxy.log
    raises(db, "SELECT tessera_copy(?, ?)", (f"s3://{NAME}/bound/a", f"s3://{NAME}/copied"), code="SQLITE_PERM")
    raises(db, "SELECT tessera_copy(?, ?)", (f"s3://{NAME}/bound/a", f"{folder}/copied"), code="SQLITE_PERM")
    raises(db, f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/n', {COLUMNS})", code="SQLITE_PERM")
    raises(db, f"CREATE VIRTUAL TABLE n USING tessera('{folder}/n', {COLUMNS})", code="SQLITE_PERM")
    db.execute(f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/bound/n', {COLUMNS})")
    with Listener() as listener:
        raises(db, "SELECT tessera_configure(?, ?)", (f"s3://{NAME}/bound", json.dumps(There.options(listener.port))),
               code="SQLITE_PERM")
        raises(db, "SELECT tessera_configure(?, ?)", ("s3://elsewhere", json.dumps(There.options(listener.port))), code="SQLITE_PERM")
        raises(db, "SELECT tessera_configure(?, ?)", (f"s3://{NAME}/bound", json.dumps({"provider": "auto", **({"account": "acc"} if There.scheme == "azure" else {})})),
               code="SQLITE_PERM")
        assert listener.count == 0
    scope(db, bucket.proxy.port, f"s3://{NAME}/bound") # new keys for the same endpoint
    assert cells(db, f"s3://{NAME}/bound/a") == 3
    db.execute("SELECT tessera_restrict(?)", (f"s3://{NAME}/bound/a",)).fetchall()
    refused(db, f"s3://{NAME}/bound/n")
    for wider in (f"s3://{NAME}/bound", f"s3://{NAME}", folder, "/"):
        raises(db, "SELECT tessera_restrict(?)", (wider,), code="SQLITE_PERM")
    assert cells(db, f"s3://{NAME}/bound/a") == 3
    db = bucket.connect()
    db.execute("SELECT tessera_restrict(?)", (folder,)).fetchall()
    assert cells(db, f"{folder}/here") == 0
    refused(db, f"s3://{NAME}/bound/a")
    raises(db, "SELECT tessera_restrict(?)", (f"s3://{NAME}/bound",), code="SQLITE_PERM")


# ---- Errors

QUERY = f"SELECT cells FROM tessera_array('s3://{NAME}/errors')"


def connect_anew(bucket, **options):
    """A connection whose array is not cached, and a proxy without faults."""
    bucket.proxy.clear()
    return bucket.connect(**options)


def test_spellings(bucket):
    """az:// and gs:// name what azure:// and gcs:// name: as arrays, members of groups, scopes and restrictions. What is told and stored has one spelling."""
    short = {"azure": "az", "gcs": "gs", "s3": "s3"}[There.scheme]
    db = bucket.connect()
    uri, other = f"s3://{NAME}/spelled", f"{short}://{NAME}/spelled"
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('{other}/a', {COLUMNS})")
    db.execute(FILL.format("t"))
    assert value(db, "SELECT cells FROM tessera_array(?)", (f"{uri}/a",)) == value(db, "SELECT cells FROM tessera_array(?)", (f"{other}/a/",)) == 3
    db.execute("SELECT tessera_create_group(?)", (f"{other}/g",)).fetchall()
    db.execute("SELECT tessera_add_member(?, ?, 'out')", (f"{uri}/g", f"{other}/a")).fetchall()
    assert rows(db, "SELECT name, path FROM tessera_members(?)", (f"{other}/g",)) == [("out", f"{uri}/a")]
    assert rows(db, "SELECT path FROM tessera_objects(?) ORDER BY 1", (other,)) == [(f"{uri}/a",), (f"{uri}/g",)]
    db.execute("SELECT tessera_restrict(?)", (f"{other}/a",)).fetchall()
    assert value(db, "SELECT cells FROM tessera_array(?)", (f"{uri}/a",)) == 3
    raises(db, "SELECT name FROM tessera_members(?)", (f"{other}/g",), code="SQLITE_PERM", says=uri)
    assert set_scope(db, f"{short}://{NAME}", None) == [(1,)] # the scope of the whole bucket, by its other name
    raises(db, "SELECT cells FROM tessera_array(?)", (f"{uri}/a",), says="scope")
    bucket.remove("spelled")


def test_changed_bytes(bucket):
    """Bytes that were changed on their way are asked for again, once; and no connection keeps them."""
    w = bucket.connect(direct=True)
    w.execute(f"CREATE VIRTUAL TABLE w USING tessera('s3://{NAME}/changed', k INT32 DIMENSION(0, 9999, 100), v INT64, s TEXT)")
    for i in range(4):
        w.execute("WITH RECURSIVE g(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM g WHERE value < 60) INSERT INTO w SELECT value * 4 + ?, value, 'x' || value FROM g", (i,))
        if i == 1:
            rows(w, f"SELECT tessera_consolidate('s3://{NAME}/changed')") # a merged fragment with its .vac; the others have footers of their own
    w.execute("DELETE FROM w WHERE k = 5")
    expected = rows(w, "SELECT count(*), sum(v), count(s), max(s) FROM w WHERE v > 0")
    met = 0
    for path in ("__fragment_metadata", "__schema", r"\.tdb", r"\.(con|vac|del)"):
        for skip in range(3):
            db = connect_anew(bucket)
            rule = bucket.proxy.fault("garble", kind="GET", path=path, skip=skip, times=1)
            db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/changed')")
            assert rows(db, "SELECT count(*), sum(v), count(s), max(s) FROM t WHERE v > 0") == expected, (path, skip)
            met += rule["times"] == 0
            bucket.proxy.clear()
    assert met >= 8, met
    db = connect_anew(bucket) # a server that changes them each time is an error, and nothing of it stays
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/changed')")
    bucket.proxy.fault("garble", kind="GET", times=99)
    raises(db, "SELECT count(*), sum(v), count(s), max(s) FROM t WHERE v > 0", code="SQLITE_CORRUPT")
    bucket.proxy.clear()
    assert rows(db, "SELECT count(*), sum(v), count(s), max(s) FROM t WHERE v > 0") == expected


def test_late_listings(bucket):
    """A server must list at once what was written. A connection notices that its own commit is not listed."""
    db = connect_anew(bucket)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/late', k INT32 DIMENSION(0, 999, 10), v INT64)")
    db.execute("INSERT INTO t VALUES(1, 1)")
    rule = bucket.proxy.fault("lag", kind="LIST", lacks=rb"__commits/[^<]*\.wrt", times=6)
    assert rows(db, "SELECT k, v FROM t") == [(1, 1)] and rule["times"] == 0, rule
    db.execute("INSERT INTO t VALUES(2, 2)")
    bucket.proxy.fault("lag", kind="LIST", lacks=rb"__commits/[^<]*\.wrt", times=10 ** 6)
    raises(db, "SELECT k, v FROM t", code="SQLITE_BUSY", says="listing lacks it")
    bucket.proxy.clear()
    assert rows(db, "SELECT k, v FROM t ORDER BY k") == [(1, 1), (2, 2)]
    db.execute("DELETE FROM t WHERE k = 1")
    assert rows(db, "SELECT k, v FROM t") == [(2, 2)]


def test_retries(bucket):
    """What passes is tried again, and nobody sees it; without retries it is an error that says what it was."""
    make(bucket, bucket.connect(direct=True), "errors")

    def invisible(do, kind, least=1, **more):
        db = connect_anew(bucket)
        rule = bucket.proxy.fault(do, kind=kind, **more)
        assert value(db, QUERY) == 3, do
        assert rule["times"] == 0, (do, kind, "was not met")
        assert stats(db).get("retries", 0) >= least, (do, stats(db))

    for code, status in (("ServerBusy", 503), ("InternalError", 500), ("OperationTimedOut", 500)) if There.scheme == "azure" else (
            ("SlowDown", 503), ("InternalError", 500), ("RequestTimeout", 400)):
        invisible("status", "GET", status=status, code=code, times=2)
        invisible("status", "LIST", status=status, code=code)
    invisible("reset", "GET", least=0) # libcurl itself sends again what a kept connection has lost
    invisible("reset", "LIST", least=0)
    invisible("truncate", "GET", least=0) # a body that was cut goes on where it stopped
    invisible("truncate", "LIST")
    if bucket.server.kind in ("moto", "azurite", "gcs_memory"): # others look at the time themselves
        invisible("skew", None, seconds=3600, times=1)
    db = connect_anew(bucket, retries=0)
    bucket.proxy.fault("status", kind="LIST", status=503, code="SlowDown", times=9)
    message = raises(db, QUERY, code="SQLITE_BUSY", says="SlowDown")
    assert f"s3://{NAME}" in message and "503" in message, message
    db = bucket.connect()
    scope(db, 1, f"s3://{NAME}/nobody", retries=0)
    raises(db, f"SELECT * FROM tessera_array('s3://{NAME}/nobody/x')", code="SQLITE_BUSY", says="127.0.0.1")


def test_refused(bucket):
    """A 403 is SQLITE_AUTH with bucket, key and request id, and is not taken for "absent", nor for a missing key of encryption."""
    make(bucket, bucket.connect(direct=True), "refused")
    query = QUERY.replace("errors", "refused")
    db = connect_anew(bucket)
    bucket.proxy.fault("status", kind="LIST", status=403, code="AccessDenied", times=99)
    message = raises(db, query, code="SQLITE_AUTH", says="AccessDenied")
    assert f"s3://{NAME}" in message and "F0" in message, message
    raises(db, f"CREATE VIRTUAL TABLE again USING tessera('s3://{NAME}/refused', {COLUMNS})", code="SQLITE_AUTH", says="AccessDenied")
    db = connect_anew(bucket)
    bucket.proxy.fault("status", kind="GET", path="fragment_metadata", status=403, code="AccessDenied", times=99)
    message = raises(db, query, code="SQLITE_AUTH", says="AccessDenied")
    assert "F0" in message and "refused/__" in message, message
    db = connect_anew(bucket)
    status, code = {"azure": (401, "InvalidAuthenticationInfo"), "gcs": (401, "AuthenticationRequired")}.get(There.scheme, (400, "ExpiredToken"))
    bucket.proxy.fault("status", kind="LIST", status=status, code=code, times=99)
    raises(db, query, code="SQLITE_AUTH", says=code)
    message = raises(db, f"SELECT * FROM tessera_check('s3://{NAME}/refused')", code="SQLITE_AUTH", says=code)
    assert message.startswith(f"array s3://{NAME}/refused: "), message # it may well be there
    db = connect_anew(bucket)
    bucket.proxy.fault("status", kind="GET", path="__schema", status=403, code="AccessDenied", times=99)
    message = raises(db, query, code="SQLITE_AUTH", says="AccessDenied")
    assert "F0" in message and "refused/__schema" in message, message
    if bucket.server.kind != "moto": # moto takes any keys
        db = load(bucket.library)
        scope(db, bucket.server.port, **({"key": "QUJD"} if There.scheme == "azure" else {"key_id": "NOBODYHASTHISKEY1234"}))
        raises(db, query, code="SQLITE_AUTH", says="refused")


def test_absent(bucket):
    """What does not exist: a bucket, an array, a file of a fragment; and another region."""
    uri = make(bucket, bucket.connect(direct=True), "absent")
    db = connect_anew(bucket)
    bucket.proxy.fault("region", region="eu-north-1", times=99)
    raises(db, QUERY.replace("errors", "absent"), says="eu-north-1")
    db = connect_anew(bucket)
    scope(db, bucket.proxy.port, "s3://no-such-bucket")
    message = raises(db, "SELECT * FROM tessera_array('s3://no-such-bucket/x')", says="no such container" if There.scheme == "azure" else "no such bucket")
    assert message.startswith("array s3://no-such-bucket/x: s3://no-such-bucket/x/"), message # what was asked, then the request; no name twice
    raises(db, f"SELECT * FROM tessera_array('s3://{NAME}/none')", code="SQLITE_CANTOPEN", says="none")
    raises(db, f"SELECT tessera_vacuum('s3://{NAME}/none')", code="SQLITE_CANTOPEN", says="none")
    for path in ("s3://", "s3:///x"):
        raises(db, f"SELECT * FROM tessera_schema('{path}')", says="the name of the bucket is missing: s3://bucket/path")
    raises(db, f"SELECT * FROM tessera_schema('s3://{NAME}')", says="the bucket holds no schema; tessera_objects lists the arrays below one")
    for call in ("SELECT * FROM tessera_schema({})", "SELECT * FROM tessera_check({})"):
        raises(db, call.format(f"'{uri}/__fragments'"), says="the prefix holds no schema")
    raises(db, f"SELECT tessera_drop('s3://{NAME}/none')", says="no such prefix")
    raises(db, f"SELECT tessera_drop('{uri}/__fragments')", says="the prefix is not an array")
    for key in bucket.keys("absent/__fragments/"):
        if key.endswith("a0.tdb"):
            bucket.boto.delete_object(Bucket=NAME, Key=key)
    db = reopen(bucket, uri, "t")
    raises(db, "SELECT v FROM t", code="SQLITE_CORRUPT", says="a0.tdb")
    assert [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error" and "a0.tdb" in str(row)]


def test_failed_writes(bucket):
    """A write that fails leaves nothing behind that is seen, and works afterwards."""
    db = connect_anew(bucket, retries=0)
    for n in range(9):
        bucket.proxy.clear()
        bucket.proxy.fault("status", kind="PUT", skip=n, status=403, code="AccessDenied", times=999)
        if rows_changed(db, f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/made', {COLUMNS})"):
            break
        bucket.proxy.clear()
        raises(load_again(bucket), f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/made')", code="SQLITE_CANTOPEN")
    assert n > 1
    # The CREATE whose last request failed has succeeded all the same: its connection reads the array, and each statement that writes tries to complete it.
    assert rows(db, "SELECT count(*) FROM n") == [(0,)]
    raises(db, FILL.format("n"), says="AccessDenied")
    raises(db, "DROP TABLE n")
    bucket.proxy.clear()
    raises(load_again(bucket), f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/made')", code="SQLITE_CANTOPEN")
    assert rows(db, "SELECT count(*) FROM n") == [(0,)]
    raises(load_again(bucket), f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/made')", code="SQLITE_CANTOPEN") # a SELECT publishes nothing
    db.execute(f"SELECT tessera_recover('s3://{NAME}/made')").fetchall()
    other = load_open(bucket, f"s3://{NAME}/made")
    db.execute(FILL.format("n"))
    for n in range(24): # on a slow machine a writer asks for its turn more than once
        bucket.proxy.clear()
        rule = bucket.proxy.fault("status", kind="PUT", skip=n, status=403, code="AccessDenied", times=999)
        if rows_changed(db, "INSERT INTO n VALUES (7, 7, 7, NULL, NULL)"):
            break
        assert rule["times"] < 999 or n == 0
        bucket.proxy.clear()
        assert rows(db, "SELECT count(*) FROM n") == rows(other, "SELECT count(*) FROM t") == [(3,)], n
    assert 2 < n < 23
    # The last request failed after SQLite's commit. A database in memory has no record of it, so the connection keeps the commit until the server is back.
    assert rows(db, "SELECT count(*) FROM n") == [(4,)]
    raises(db, "INSERT INTO n VALUES (8, 8, 8, NULL, NULL)", says="AccessDenied")
    assert rows(other, "SELECT count(*) FROM t") == [(3,)]
    bucket.proxy.clear()
    assert rows(db, "SELECT count(*) FROM n") == [(4,)] and rows(other, "SELECT count(*) FROM t") == [(3,)] # a SELECT publishes nothing
    db.execute(f"SELECT tessera_recover('s3://{NAME}/made')").fetchall()
    assert rows(db, "SELECT count(*) FROM n") == rows(other, "SELECT count(*) FROM t") == [(4,)]


def fail_last_put(bucket, database, name, *statements):
    """A connection whose COMMIT of a CREATE and some rows, or of rows alone, has failed at the last request, and the array's URI."""
    uri = f"s3://{NAME}/{name}"
    db = bucket.connect(database, retries=0)
    for statement in statements[:-1]:
        db.execute(statement.format(uri))
    db.execute("BEGIN")
    for statement in statements[-1].split(";"):
        db.execute(statement.format(uri))
    bucket.proxy.fault("status", kind="PUT", path=r"\.wrt|made-.*/__schema/", status=403, code="AccessDenied", times=999)
    db.execute("COMMIT")
    return db, uri


def test_postponed(bucket):
    """What xCommit could not publish is read as committed, and published by a statement or function that writes, or when the connection closes; 'disown' gives it up."""
    create, fill = "CREATE VIRTUAL TABLE n USING tessera('{}', x INT32 DIMENSION(0, 9, 10), a INT32)", "INSERT INTO n VALUES (1, 10)"

    def outside(uri):
        return rows(load_open(bucket, uri), "SELECT x, a FROM t")

    for database in (":memory:", os.path.join(bucket.folder, "postponed.db")):
        kind = "memory" if database == ":memory:" else "file"
        db, uri = fail_last_put(bucket, database, f"made-both-{kind}", f"{create}; {fill}")
        assert bucket.keys(f"made-both-{kind}/__schema/") == []
        bucket.proxy.clear()
        assert rows(db, "SELECT x, a FROM n") == [(1, 10)] and bucket.keys(f"made-both-{kind}/__schema/") == [], kind
        db.execute("INSERT INTO n VALUES (2, 20)")
        assert rows(db, "SELECT x, a FROM n") == outside(uri) == [(1, 10), (2, 20)], kind
        db.execute("DROP TABLE n")
    db, uri = fail_last_put(bucket, ":memory:", "made-function", f"{create}; {fill}")
    bucket.proxy.clear()
    assert value(db, f"SELECT count(*) FROM tessera_fragments('{uri}')") == 1 and bucket.keys("made-function/__schema/") == []
    db.execute("SELECT tessera_consolidate(?)", (uri,)).fetchall()
    assert outside(uri) == [(1, 10)]
    db, uri = fail_last_put(bucket, ":memory:", "closed", create, fill)
    bucket.proxy.clear()
    assert outside(uri) == []
    db.close()
    assert outside(uri) == [(1, 10)]
    db, uri = fail_last_put(bucket, ":memory:", "disowned", create, fill)
    assert len(bucket.keys("disowned/__fragments/")) > 0
    assert rows(db, "SELECT * FROM n") == [(1, 10)]
    raises(db, "INSERT INTO n VALUES (2, 20)", says="AccessDenied")
    db.execute("SELECT tessera_recover(?, '{\"disown\":true}')", (uri,)).fetchall()
    bucket.proxy.clear()
    assert rows(db, "SELECT * FROM n") == outside(uri) == [] == bucket.keys("disowned/__fragments/")
    db, uri = fail_last_put(bucket, ":memory:", "removed", create, fill)
    for key in bucket.keys("removed/__fragments/"):
        bucket.boto.delete_object(Bucket=NAME, Key=key)
    bucket.proxy.clear()
    raises(db, "SELECT tessera_recover('db:n')", code="SQLITE_CORRUPT", says="lost")   # the store has the files' ends in memory, so reading need not notice
    assert rows(db, "SELECT * FROM n") == outside(uri) == []


def rows_changed(db, statement):
    """Whether a statement succeeds; if it fails, it does so with SQLITE_AUTH."""
    try:
        db.execute(statement)
        return True
    except sqlite3.Error as error:
        assert "AccessDenied" in str(error), error
        return False


def test_server_without_conditions(bucket):
    """A server that ignores If-None-Match is found out before anything is written."""
    db = bucket.connect()
    bucket.proxy.fault("replace", kind="PUT", path="proof", body=b"", headers={"ETag": '"x"'}, times=9)
    condition = "x-goog-if-generation-match" if There.scheme == "gcs" else "If-None-Match"
    message = raises(db, f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/unsafe', {COLUMNS})", code="SQLITE_READONLY",
                     says=f"the server ignores {condition}, so two writers would overwrite each other: it can only be read")
    assert message.endswith("read"), message
    assert bucket.keys("unsafe") == []


# ---- Secrets

CHILD = r"""
import ctypes, gc, os, sys
library, folder, scope, uri, given = sys.argv[1:6]
lite = ctypes.CDLL("libsqlite3.so.0")
lite.sqlite3_column_text.restype = lite.sqlite3_errmsg.restype = ctypes.c_char_p
db = ctypes.c_void_p()
assert lite.sqlite3_open(os.path.join(folder, "secrets.db").encode(), ctypes.byref(db)) == 0
lite.sqlite3_enable_load_extension(db, 1)
why = ctypes.c_char_p()
assert lite.sqlite3_load_extension(db, library.encode(), None, ctypes.byref(why)) == 0, why.value
texts = []
def run(sql, buffer=None): # a buffer is bound without a copy
    statement, found = ctypes.c_void_p(), []
    code = lite.sqlite3_prepare_v2(db, sql.encode(), -1, ctypes.byref(statement), None)
    if buffer is not None: lite.sqlite3_bind_text(statement, 1, buffer, len(buffer) - 1, None)
    while code in (0, 100):
        code = lite.sqlite3_step(statement)
        if code == 100: found.append([lite.sqlite3_column_text(statement, i) for i in range(lite.sqlite3_column_count(statement))])
    if code != 101: texts.append(lite.sqlite3_errmsg(db).decode(errors="replace"))
    lite.sqlite3_finalize(statement)
    texts.append(repr(found))
    return found, code
buffer = ctypes.create_string_buffer(len(given) // 2 + 1) # the options, which nothing but this buffer has in clear
for i in range(len(given) // 2): buffer[i] = int(given[2 * i:2 * i + 2], 16) ^ 255
assert run("SELECT tessera_configure('%s', ?)" % scope, buffer)[1] == 101, texts
ctypes.memset(buffer, 0, len(buffer))
for sql in ("CREATE VIRTUAL TABLE t USING tessera('%s', x INT32 DIMENSION(0, 9, 10), a TEXT)" % uri, "INSERT INTO t VALUES (1, 'x')", "SELECT * FROM t", "BEGIN",
            "INSERT INTO t VALUES (2, 'y')", "COMMIT", "SELECT * FROM tessera_check('%s')" % uri, "SELECT * FROM tessera_array('%s/none')" % scope,
            "SELECT tessera_ddl('%s')" % uri, "SELECT tessera_consolidate('%s')" % uri, "SELECT tessera_vacuum('%s')" % uri, "EXPLAIN SELECT * FROM t",
            "SELECT * FROM tessera_stats", "SELECT * FROM tessera_progress", "SELECT * FROM tessera_objects('%s')" % scope, "SELECT * FROM sqlite_schema"): run(sql)
for name, in run("SELECT name FROM sqlite_schema WHERE type = 'table'")[0]: run('SELECT * FROM "%s"' % name.decode())
print("\n".join(texts)); print("SET", flush=True); sys.stdin.readline()
run("SELECT tessera_configure('%s', NULL)" % scope); gc.collect()
print("FORGOTTEN", flush=True); sys.stdin.readline()
lite.sqlite3_close(db)
print("CLOSED", flush=True); sys.stdin.readline()
"""


def pattern(seed, size):
    return bytes(97 + (seed * 31 + i * i * i + 5 * i + (i >> 2) * 7 + (i * i >> 3)) % 26 for i in range(size))


def secrets_in(process, secrets):
    """The places of the pieces of secrets in the memory of a process, with what surrounds them."""
    pieces = [secret[at:at + 16] for secret in secrets for at in range(0, len(secret) - 15, 16)]
    found = []
    for block in memory_of(process):
        for piece in pieces:
            at = block.find(piece)
            while at >= 0:
                found.append(bytes(block[max(0, at - 30):at + 30]))
                at = block.find(piece, at + 1)
    return found


def test_signed_paths(bucket):
    """A URL with a signature in place of a path is refused, and the signature is in no message."""
    db = bucket.connect()
    make(bucket, db, "signed")
    rows(db, "SELECT tessera_create_group(?)", (f"s3://{NAME}/signers",))
    for query in ("sv=1&sig=HIDDEN", "sig=HIDDEN&sv=1", "X-Amz-Signature=HIDDEN", "X-Goog-Algorithm=a&X-Goog-Signature=HIDDEN"):
        for uri in (f"s3://{NAME}?{query}", f"s3://{NAME}/signed?{query}", f"s3://elsewhere/signed?{query}"):
            for sql in ("SELECT * FROM tessera_array(?)", "SELECT * FROM tessera_objects(?)", "SELECT * FROM tessera_check(?)", "SELECT tessera_copy(?, 'nowhere')",
                        "SELECT tessera_copy('db:signed', ?)", "SELECT tessera_sync(?, 'nowhere')", "SELECT tessera_restrict(?)", "SELECT tessera_configure(?, '{}')",
                        "SELECT tessera_add_member('s3://bucket/signers', ?, 'm')", "SELECT tessera_create_group(?)", "SELECT tessera_drop(?)", "SELECT tessera_vacuum(?)"):
                assert "HIDDEN" not in raises(db, sql, (uri,), says="?...: no path has the signature of a URL"), (sql, uri)
            assert "HIDDEN" not in raises(db, f"CREATE VIRTUAL TABLE t USING tessera('{uri}')", says="no path has the signature of a URL")
    fine = make(bucket, db, "signed?design=1&resig=2") # a name like any other
    assert rows(db, "SELECT cells FROM tessera_array(?)", (fine,)) == [(3,)]
    for bound in (bucket.folder, f"s3://{NAME}/signed"):
        bounded = bucket.connect()
        rows(bounded, "SELECT tessera_restrict(?)", (bound,))
        for sql in ("SELECT tessera_restrict(?)", "SELECT tessera_configure(?, '{}')", "SELECT * FROM tessera_array(?)"):
            assert "HIDDEN" not in raises(bounded, sql, (f"s3://{NAME}/other?sig=HIDDEN",)), (bound, sql)


def test_secrets(bucket):
    """Keys are in no message, schema, table or file; and not in memory once the scope is forgotten."""
    if sys.platform != "linux":
        return
    options = bucket.server.options(bucket.proxy.port)
    if There.scheme == "azure":
        signature = shared_access_signature(ACCOUNT, ACCOUNT_KEY, NAME)
        keep_secrets(bucket, options, [ACCOUNT_KEY.encode(), base64.b64decode(ACCOUNT_KEY)])
        keep_secrets(bucket, dict(options, key=None, sas=signature), [signature.partition("sig=")[2].encode()])
    elif There.scheme == "gcs":
        keep_secrets(bucket, options, [SECRET.encode()])
        keep_secrets(bucket, dict(options, key_id=None, secret=None, token=TOKEN), [TOKEN.encode()])
    elif bucket.server.kind == "moto": # others would refuse the key
        secret, token = pattern(3, 40), pattern(11, 60)
        keep_secrets(bucket, dict(options, secret=secret.decode(), session_token=token.decode()), [secret, token])


def keep_secrets(bucket, options, secrets):
    """Runs a process that uses a scope with secrets, forgets it and closes the database."""
    folder, given = fresh(os.path.join(bucket.folder, "secrets")), json.dumps({name: value for name, value in options.items() if value is not None})
    bucket.remove("secrets/")
    child = subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", CHILD, os.path.splitext(bucket.library)[0], folder, there(f"s3://{NAME}"),
                              there(f"s3://{NAME}/secrets"), bytes(byte ^ 255 for byte in given.encode()).hex()],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONMALLOC="malloc"))
    pieces = [secret[:16] for secret in secrets]

    def until(word):
        lines = []
        while True:
            line = child.stdout.readline()
            assert line, f"the child died before {word}: {lines}"
            if line.strip() == word:
                return "".join(lines)
            lines.append(line)
    try:
        text = until("SET").encode()
        assert there("s3://bucket/none").encode() in text and not any(piece in text for piece in pieces)
        assert secrets_in(child.pid, secrets), "the test finds a secret that is there"
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                content = f.read()
                assert not any(piece in content for piece in pieces), name
        keys = bucket.keys("secrets/")
        assert keys
        for key in keys:
            content = bucket.read(key)
            assert not any(piece in content for piece in pieces), key
        if options.get("secret") or options.get("key"): # a signature, and all tokens, are sent
            assert pieces[0].decode() not in str(bucket.proxy.log)
        for step in ("FORGOTTEN", "CLOSED"):
            child.stdin.write("\n"), child.stdin.flush()
            until(step)
            found = secrets_in(child.pid, secrets)
            assert not found, f"{step}: {len(found)} places: {found[:6]}"
        child.stdin.write("\n"), child.stdin.flush()
        assert child.wait(60) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def test_counters(bucket):
    """tessera_stats counts what the proxy has seen; nothing where there is no bucket."""
    db = bucket.connect()
    db.execute("CREATE VIRTUAL TABLE inside USING tessera(x INT32 DIMENSION(0, 9, 10), a INT32)")
    db.execute("INSERT INTO inside VALUES (1, 1)")
    assert stats(db) == {}
    found = bucket.spent(db, f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/counted', x INT32 DIMENSION(0, 9, 10), a INT32)", "INSERT INTO t VALUES (1, 1)",
                         "SELECT * FROM t", f"SELECT tessera_consolidate('s3://{NAME}/counted')", f"SELECT tessera_vacuum('s3://{NAME}/counted')")
    sent = value(db, "SELECT value FROM tessera_stats WHERE name = 'store_bytes_sent'")
    bodies = sum(entry["sent"] for entry in bucket.proxy.log)
    assert sent == bodies, (sent, bodies)
    assert found["round_trips"] <= len(bucket.proxy.log)
    bucket.proxy.fault("status", kind="LIST", status=503, code="SlowDown", times=2)
    db.execute("SELECT tessera_reset_stats()").fetchall()
    bucket.proxy.log = []
    db.execute("SELECT * FROM t").fetchall()
    assert stats(db)["retries"] == 2 and stats(db)["lists"] == bucket.proxy.count("LIST") - 2, (stats(db), bucket.proxy.count("LIST"))


def test_labels(bucket):
    """An array with labels appears whole or not at all, whichever of its requests fails; its labels are written and used in the bucket."""
    uri = f"s3://{NAME}/labelled"
    create = "CREATE VIRTUAL TABLE t USING tessera('{}', kind=dense, y INT32 DIMENSION(1, 6, 4) LABEL lat FLOAT64 DECREASING LABEL name TEXT, v INT32)"
    db = bucket.connect()
    db.execute("BEGIN")
    db.execute(create.format(uri))
    db.execute("ROLLBACK")
    assert not bucket.keys("labelled/")
    db.execute(create.format(uri))
    assert rows(db, f"SELECT tessera_write_label('{uri}', 'lat', '[6, 5, 4, 3, 2, 1]')") == [(6,)]
    db.execute("INSERT INTO t(lat, v) VALUES (5, 50), (2, 20)")
    assert rows(db, f"SELECT * FROM tessera_check('{uri}')") == []
    other = bucket.connect()
    other.execute(f"CREATE VIRTUAL TABLE t USING tessera('{uri}')")
    assert rows(other, "SELECT y, lat, v FROM t WHERE lat BETWEEN 1.5 AND 2.5") == [(5, 2.0, 20)]
    rows(other, f"SELECT tessera_copy('{uri}', 'db:inside'), tessera_copy('db:inside', '{uri}copy', '{{\"extents\":{{\"y\":3}}}}')")
    other.execute(f"CREATE VIRTUAL TABLE c USING tessera('{uri}copy')")
    each = "SELECT y, lat, name, v FROM {} ORDER BY y"
    assert rows(other, each.format("c")) == rows(db, each.format("t")) == rows(other, each.format("inside"))
    rows(db, f"SELECT tessera_drop('{uri}copy')")
    rows(db, f"SELECT tessera_drop('{uri}')")
    assert not bucket.keys("labelled/")
    for skip in range(40):
        uri = f"s3://{NAME}/labelled{skip}"
        db = bucket.connect(retries=0)
        bucket.proxy.clear()
        rule = bucket.proxy.fault("status", kind="PUT", status=403, code="AccessDenied", skip=skip)
        try:
            db.execute(create.format(uri))
        except sqlite3.Error as error:
            assert "AccessDenied" in str(error), error
            bucket.proxy.clear()
            assert not bucket.keys(f"labelled{skip}/"), skip
            bucket.connect().execute(create.format(uri))
        else:
            bucket.proxy.clear() # the last request comes after SQLite's commit: what fails there, the next statement does
            assert rows(db, "SELECT count(*) FROM t") == [(0,)], skip
            assert len([key for key in bucket.keys(f"labelled{skip}/") if "/__schema/" in key]) == 3, skip
            if rule["times"]:
                assert skip > 5, skip
                break


def test_arrays_from_data(bucket):
    """An array of rows appears whole or not at all, whichever of its requests fails; rows are appended whole; what exists is not replaced."""
    uri, select = f"s3://{NAME}/from_rows", "SELECT value AS x, value * 0.5 AS v, 'note ' || value AS note FROM json_each('[1,2,3,4]')"
    db = bucket.connect()
    make = "SELECT tessera_create_as(?, ?, ?)"
    options = '{"dimensions":["x"],"kind":"sparse","domains":{"x":[0,99]},"metadata":{"source":"rows"}}'
    assert rows(db, make, (uri, select, options)) == [(4,)]
    assert rows(db, make, (uri, select.replace("value AS x", "value + 10 AS x"), '{"if_exists":"append"}')) == [(4,)]
    raises(db, make, (uri, select, options), says="there is an array already")
    raises(db, make, (uri, select, options.replace("{", '{"if_exists":"replace",', 1)), code="SQLITE_ERROR", says="in a bucket no call exchanges two arrays")
    other = load_open(bucket, uri)
    assert rows(other, "SELECT count(*), sum(x), sum(v), max(note) FROM t") == [(8, 60, 10.0, "note 4")]
    assert rows(db, f"SELECT key, value FROM tessera_metadata('{uri}')") == [("source", "rows")]
    assert not [row for row in rows(db, f"SELECT * FROM tessera_check('{uri}')") if row[0] == "error"]
    assert rows(db, make, (uri + "_log", "SELECT 'a' AS v", '{"grow":["row"]}')) == [(1,)]
    assert rows(db, make, (uri + "_log", "SELECT 'b' AS v UNION ALL SELECT 'c'", '{"if_exists":"append"}')) == [(2,)]
    assert rows(load_open(bucket, uri + "_log"), 'SELECT "row", v FROM t') == [(0, "a"), (1, "b"), (2, "c")]
    csv = os.path.join(fresh(os.path.join(bucket.folder, "from_rows")), "rows.csv")
    with open(csv, "w", encoding="utf-8") as out:
        out.write("x,v\n1,0.5\n2,oops\n3,1.5\n")
    assert value(db, "SELECT tessera_create_csv(?, ?, ?)", (uri + "_csv", csv, '{"types":{"v":"FLOAT32"},"on_error":"skip"}')).startswith('{"rows":2,"skipped":1,"lines":[3]')
    assert rows(load_open(bucket, uri + "_csv"), "SELECT v FROM t ORDER BY x") == [(0.5,), (1.5,)]
    cut, path = bucket.connect(retries=0), uri + "_cut"
    cut.execute(f"SELECT tessera_create_group('s3://{NAME}/from_rows_proof')").fetchall() # proves the scope: the PUT that fail are the array's
    for skip in range(40): # what is left of the last one does not hinder the next one
        bucket.proxy.clear()
        rule = bucket.proxy.fault("status", kind="PUT", status=403, code="AccessDenied", skip=skip)
        try:
            found = rows(cut, make, (path, select, options))
        except sqlite3.Error as error:
            assert "AccessDenied" in str(error), error
            bucket.proxy.clear()
            assert not bucket.keys("from_rows_cut/"), (skip, bucket.keys("from_rows_cut/"))
        else:
            bucket.proxy.clear()
            assert found == rows(load_open(bucket, path), "SELECT count(*) FROM t") == [(4,)] and rule["times"] and skip > 3, (found, skip)
            break
    for skip in range(40):
        bucket.proxy.clear()
        rule = bucket.proxy.fault("status", kind="PUT", status=403, code="AccessDenied", skip=skip)
        try:
            rows(cut, make, (uri, select.replace("value AS x", f"value + {20 + skip * 5} AS x").replace("[1,2,3,4]", "[1,2]"), '{"if_exists":"append"}'))
        except sqlite3.Error as error:
            assert "AccessDenied" in str(error), error
            bucket.proxy.clear()
            assert rows(other, "SELECT count(*) FROM t") == [(8,)], skip
        else:
            bucket.proxy.clear()
            assert rule["times"] and skip > 2 and rows(other, "SELECT count(*) FROM t") == [(10,)], skip
            break


def test_odd_prefixes(bucket):
    """Names with characters that URIs, requests and answers must escape."""
    db = bucket.connect()
    for i, name in enumerate(("a b+c/100%20%2F'<x>&amp;\"", "\u00fc/\u00f6\u00df \U0001f600/q?a&b=c#d;,", "\\/..dots~(*)$@.")):
        uri, table = f"s3://{NAME}/odd{i}/{name}", f"odd{i}"
        quoted = uri.replace("'", "''")
        if There.scheme == "azure" and name.endswith("."):
            raises(db, "SELECT * FROM tessera_schema(?)", (uri,), says="the server would")
            continue
        db.execute(f"CREATE VIRTUAL TABLE {table} USING tessera('{quoted}', kind=sparse, x INT32 DIMENSION(0, 9, 10), a INT32)")
        db.execute(f"INSERT INTO {table} VALUES (1, {i}), (2, 3)")
        db.execute(f"UPDATE {table} SET a = 7 WHERE x = 2")
        other = bucket.connect()
        other.execute(f"CREATE VIRTUAL TABLE t USING tessera('{quoted}')")
        assert rows(other, "SELECT x, a FROM t ORDER BY x") == [(1, i), (2, 7)], name
        assert len(bucket.keys(f"odd{i}/{name}/__schema/")) == 1, bucket.keys(f"odd{i}")
        assert (uri, "array") in rows(db, "SELECT * FROM tessera_objects(?)", (f"s3://{NAME}/odd{i}",)), name
        assert rows(db, "SELECT tessera_consolidate(?)", (uri,)) and rows(db, "SELECT tessera_vacuum(?)", (uri,))
        assert rows(db, "SELECT * FROM tessera_check(?)", (uri,)) == [], name
        db.execute(f"DROP TABLE {table}")
        rows(other, "SELECT tessera_drop(?)", (uri,))
        assert bucket.keys(f"odd{i}/") == [], name
    for name in ("tab\tx", "line\nx"):
        raises(db, "SELECT * FROM tessera_schema(?)", (f"s3://{NAME}/{name}",), says="control characters")


TESTS = (test_walk, test_odd_prefixes, test_arrays_from_data, test_options, test_no_scope_no_request, test_longest_scope, test_tables, test_functions, test_copies, test_labels, test_parts, test_room, test_certificates, test_old_uploads, test_kept_commits, test_trials, test_empty_bucket, test_groups, test_restrict, test_spellings, test_changed_bytes, test_late_listings, test_retries, test_refused, test_absent, test_failed_writes, test_postponed,
         test_server_without_conditions, test_signed_paths, test_secrets, test_counters)

# What they say of options and of uploads is S3's; the unit tests have the same of the others.
S3_ALONE = (test_options, test_old_uploads)

if __name__ == "__main__":
    sys.exit(run(TESTS, "surface", S3_ALONE))
