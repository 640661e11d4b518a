"""Every call of remote/s3.h against a server: what it gives, what it costs, and how it fails.

usage: calls.py CLIENT FOLDER moto | versitygw [PROGRAM]
"""
import os
import sys
import time

from client import Client, made_bytes, md5
from fault_proxy import FaultProxy
from servers import KEY_ID, Server

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from memory_of import memory_of
from processes import end_with_this_process

ODD = "odd/a+b &<>\"'%2F=?#~!*().,;:@$[]é日本"


def test_objects(client, boto, strict):
    """PUT, HEAD, the ranges of GET, and DELETE."""
    data = made_bytes(1000, 1)
    etag = client.good("put", "a/one", 1000, 1).etag
    assert etag == f'"{md5(data)}"', etag
    assert boto.get_object(Bucket="bucket", Key="a/one")["Body"].read() == data
    head = client.good("head", "a/one")
    assert head.size == "1000" and head.etag == etag and abs(int(head.modified) / 1000 - time.time()) < 60
    for place in ("into", "buffer"):
        for words, expected in (("whole 0 0 1000", data), ("range 0 1000 0", data), ("range 10 20 0", data[10:30]), ("range 990 100 0", data[990:]),
                                ("suffix 0 7 0", data[-7:]), ("suffix 0 5000 0", data)):
            answer, spent = client.spent("get", "a/one", *words.split(), place)
            assert answer.rc == "OK" and answer.md5 == md5(expected) and answer.received == str(len(expected)), f"{words}: {answer.line}"
            assert answer.size == "1000" and answer.etag == etag and spent == {"gets": 1, "round_trips": 1}, (words, spent)
    client.bad("TOOBIG", "get", "a/one", "whole", 0, 0, 999, "into", says="more than 999 bytes")
    client.bad("TOOBIG", "get", "a/one", "whole", 0, 0, 999, "buffer", says="s3://bucket/a/one: GET")
    client.bad("TOOBIG", "get", "a/one", "range", 0, 100, 99, "buffer", says="room for 99")
    client.bad("CORRUPT", "get", "a/one", "range", 1000, 1, 0, "buffer", says="status 416")
    client.bad("NOT_FOUND", "get", "a/none", "whole", 0, 0, 0, "buffer", says="s3://bucket/a/none: GET: no such object (status 404 NoSuchKey")
    client.bad("NOT_FOUND", "head", "a/none")
    client.good("put", "a/empty", 0, 0)
    assert client.good("get", "a/empty", "whole", 0, 0, 10, "into").received == "0"
    answer = client.good("get", "a/empty", "suffix", 0, 10, 0, "buffer")
    assert answer.received == "0" and answer.size == "0", answer.line
    client.good("put", ODD, 10, 5)
    assert client.good("get", ODD, "whole", 0, 0, 0, "buffer").md5 == md5(made_bytes(10, 5))
    assert boto.head_object(Bucket="bucket", Key=ODD)["ContentLength"] == 10
    assert client.good("list", "odd/a+b &", "/").count == "1"
    assert boto.list_objects_v2(Bucket="bucket", Prefix="odd/")["Contents"][0]["Key"] == ODD
    for key in ("a/one", "a/one", "a/empty", ODD):
        client.good("delete", key)
    client.bad("NOT_FOUND", "head", "a/one")


def test_new_only(client, boto, strict):
    answer, spent = client.spent("put", "n/one", 10, 1, "new")
    assert answer.rc == "OK" and spent == {"puts": 1, "round_trips": 1}, spent
    client.bad("EXISTS", "put", "n/one", 10, 2, "new", says="s3://bucket/n/one: PUT: it exists already")
    client.bad("EXISTS", "put", "n/one", 10, 1, "new") # the same bytes are not the same writer
    assert client.good("get", "n/one", "whole", 0, 0, 0, "buffer").md5 == md5(made_bytes(10, 1))
    client.good("put", "n/empty", 0, 0, "new")
    client.bad("EXISTS", "put", "n/empty", 0, 0, "new")
    answer, spent = client.spent("prove", "n/")
    assert answer.rc == "OK" and spent == {"puts": 2, "heads": 1, "deletes": 1, "round_trips": 4}, spent
    answer, spent = client.spent("prove", "n/")
    assert answer.rc == "OK" and spent == {}, spent
    assert client.good("list", "n/").count == "2" # the proof leaves nothing
    client.good("delete_many", "n/one", "n/empty")


def test_lists(client, boto, strict):
    client.good("many", "put", "l/", 25, 3)
    client.good("put", "l/d/x", 1, 1)
    client.good("put", "l/d/y", 1, 1)
    client.good("put", "l2/z", 1, 1)
    answer, spent = client.spent("list", "l/", "/")
    assert answer.count == "26" and spent == {"lists": 1, "round_trips": 1}, answer.line
    names = [word.split("|")[0] for word in answer.words]
    assert names == sorted(names) and "l/d/" in names and answer.words[names.index("l/d/")] == "l/d/|0|prefix|-", answer.line
    assert answer.words[0] == f'l/00000|3|time|"{md5(made_bytes(3, 0))}"', answer.words[0]
    assert client.good("list", "l/").count == "27"
    assert client.good("list", "none/", "/").count == "0"
    assert client.good("list", "").count == "28"
    client.bad("TOOBIG", "list", "l/", "", "", 5, says="more than 5")
    client.good("delete_many", "l/*25", "l/d/x", "l/d/y", "l2/z")
    assert client.good("list", "").count == "0"


def test_pages(client, boto, strict):
    """1,001 keys are two pages, and are deleted by two requests."""
    client.good("many", "put", "p/", 1001, 1)
    answer, spent = client.spent("list", "p/")
    assert answer.count == "1001" and spent == {"lists": 2, "round_trips": 2}, (answer.count, spent)
    answer, spent = client.spent("delete_many", "p/*1001", "p/absent")
    assert answer.rc == "OK" and spent == {"deletes": 2, "round_trips": 2}, spent
    assert client.good("list", "p/").count == "0"


def test_uploads(client, boto, strict):
    size = 5 << 20
    upload = client.good("create", "u/big").id
    etags = [client.good("part", "u/big", size, 1, upload, 1).etag, client.good("part", "u/big", 100, 2, upload, 2).etag]
    client.bad("NOT_FOUND", "head", "u/big")
    listed = client.good("uploads", "u/")
    assert listed.count == "1" and listed.words[0].split("|")[0] == "u/big" and listed.words[0].split("|")[3] == upload, listed.line
    etag = client.good("complete", "u/big", upload, "", *etags).etag
    assert client.good("head", "u/big").etag == etag and etag.endswith('-2"')
    tail = client.good("get", "u/big", "suffix", 0, 150, 0, "into")
    assert tail.size == str(size + 100) and tail.md5 == md5(made_bytes(size, 1)[-50:] + made_bytes(100, 2))
    other = client.good("create", "u/other").id
    client.good("part", "u/other", 100, 2, other, 1)
    client.good("abort", "u/other", other)
    client.good("abort", "u/other", other)
    if strict: # moto dies of it: 500
        client.bad("NOT_FOUND", "complete", "u/other", other, "", etags[1])
    assert client.good("uploads", "").count == "0"
    client.good("copy", "u/big", "u/copy")
    assert client.good("head", "u/copy").size == str(size + 100)
    client.bad("NOT_FOUND", "copy", "u/none", "u/copy2")
    client.good("delete_many", "u/big", "u/copy")


def test_refusals(client, boto, strict):
    """What is refused without a request."""
    def refused(rc, *words, says):
        answer, spent = client.spent(*words)
        assert answer.rc == rc and says in answer.message and spent == {}, (answer.line, spent)
    refused("PERM", "get", "a/../b", "whole", 0, 0, 0, "buffer", says="'.' or '..'")
    refused("ERROR", "put", "", 1, 1, says="a key of 0 bytes")
    refused("ERROR", "put", "k" * 1025, 1, 1, says="a key of 1025 bytes")
    client.bad("NOT_FOUND", "open", "s3://bucket2/a", says="no scope for s3://bucket2/a: call tessera_configure first")
    client.bad("NOT_FOUND", "open", "s3://bucke")
    for name, says in (("s3://", "not the name of a bucket"), ("s3:/bucket", "is not s3://"), ("s3://bucket/a//c", "part of the path"),
                       ("s3://bucket/../x", "part of the path"), ("s3://bu?ket", "not the name of a bucket")):
        client.bad("ERROR", "scope", name, "provider=anonymous", says=says)
    for option, says in (("provider=other", "is not one of keys"), ("provider=keys", "empty"), ("endpoint=ftp://x", "neither https"), ("region=a/b", "is not a region"),
                         ("endpoint=http://store.example", "in the clear"), ("endpoint=https://", "is not https://host"), ("sse=none", "neither"),
                         ("kms_key_id=x", "aws:kms"), ("parallel=1000", "at most"), ("part_mb=4", "5 to")):
        client.bad("ERROR", "scope", "s3://bucket3", option, says=says)
    client.bad("ERROR", "scope", "s3://bucket3", "provider=env", "key_id=x", says="for \"provider\"")
    client.bad("NOT_FOUND", "open", "s3://bucket3")


def test_scopes(client, boto, strict, port):
    """The longest scope counts; keys outside are refused; a forgotten scope ends its clients."""
    client.scope(port, "s3://bucket/in/side")
    client.good("put", "in/side/x", 1, 1)
    client.good("open", "s3://bucket/in/side/deeper")
    for words in (("get", "in/sidex", "whole", 0, 0, 0, "buffer"), ("head", "in"), ("put", "x", 1, 1), ("list", "in/side"), ("list", ""),
                  ("delete_many", "in/side/x", "y"), ("copy", "y", "in/side/y")):
        answer, spent = client.spent(*words)
        assert answer.rc == "PERM" and "outside the scope s3://bucket/in/side" in answer.message and spent == {}, answer.line
    assert client.good("list", "in/side/").count == "1"
    assert client.good("forget", "s3://bucket/in/side/").rc == "1"
    assert client.good("forget", "s3://bucket/in/side").rc == "OK"
    client.good("head", "in/side/x") # the scope of the whole bucket counts now
    client.good("delete", "in/side/x")
    client.good("forget", "s3://bucket")
    answer, spent = client.spent("head", "in/side/x")
    assert answer.rc == "PERM" and "was forgotten" in answer.message and spent == {}, answer.line
    client.scope(port, "s3://bucket", open_too=False)
    client.bad("NOT_FOUND", "head", "in/side/x")
    client.scope(port, "s3://nobucket")
    client.bad("ERROR", "list", "", says="no such bucket")
    client.bad("ERROR", "put", "x", 1, 1, says="no such bucket")
    client.bad("ERROR", "get", "x", "whole", 0, 0, 0, "buffer", says="s3://nobucket/x: GET: no such bucket")
    client.good("open", "s3://bucket")


def test_parallel(client, boto, strict, port):
    """Of 100 GETs 32 are in flight at one time, and no more. A call that is cancelled waits for no answer."""
    client.good("many", "put", "m/", 100, 2000)
    with FaultProxy(port, latency_ms=300) as proxy:
        client.scope(proxy.port)
        answer, spent = client.spent("many", "get", "m/", 100, 2000)
        assert answer.rc == "OK" and answer.wrong == "0" and spent == {"gets": 100, "round_trips": 1}, (answer.line, spent)
        assert 16 < proxy.most <= 32, proxy.most # the proxy may be slower than the client
        answer, spent = client.spent("many", "ahead", "m/", 40, 2000)
        assert answer.rc == "OK" and answer.wrong == "0" and spent["gets"] == 40, (answer.line, spent)
        answer, spent = client.spent("many", "threads", "m/", 100, 2000)
        assert answer.rc == "OK" and answer.wrong == "0" and spent["gets"] == 100, (answer.line, spent)
        client.good("cancel_after", 200)
        proxy.fault("delay", kind="GET", ms=5000, times=1000)
        started = time.monotonic()
        client.bad("INTERRUPT", "many", "get", "m/", 100, 2000)
        assert time.monotonic() - started < 5
        client.good("cancel_after", 0)
    client.scope(port)
    client.bad("NOT_FOUND", "many", "get", "m/", 101, 2000, says="s3://bucket/m/00100")
    client.good("delete_many", "m/*100")


def test_confined(client, boto, strict, port):
    """After a restriction: scopes below it at endpoints that are known already, and no others."""
    with Client(client.program) as other:
        other.scope(port, "s3://bucket/in")
        other.good("confine", "s3://bucket/in")
        other.scope(port, "s3://bucket/in", secret="another")
        other.scope(port, "s3://bucket/in/side/")
        for name, more in (("s3://bucket", ()), ("s3://bucket/inside", ()), ("s3://other/in", ()), ("s3://bucket/in", ("endpoint=http://127.0.0.1:1",))):
            given = more or (f"endpoint=http://127.0.0.1:{port}",)
            other.bad("PERM", "scope", name, "provider=anonymous", *given, says="restricted")
        other.bad("PERM", "scope", "s3://bucket/in", "provider=auto", says="no other endpoint")
        other.bad("PERM", "confine", "s3://bucket", says="is not below")
        other.good("confine", "s3://bucket/in/side")


def test_failing_allocations(client, boto, strict):
    """Whichever allocation fails, a call fails with NOMEM or succeeds, and its memory is given back."""
    client.good("put", "m/one", 1000, 1)
    for words in (("get", "m/one", "whole", 0, 0, 1000, "into"), ("get", "m/one", "whole", 0, 0, 0, "buffer"), ("head", "m/one"), ("list", "m/", "/"),
                  ("put", "m/one", 1000, 1), ("delete_many", "m/a", "m/b"), ("copy", "m/one", "m/two"), ("many", "get", "x/", 3, 10)):
        results = set()
        for each in range(1, 30):
            blocks = client.counters()["blocks"]
            client.good("fail_each", each)
            results.add(client.ask(*words).rc)
            client.good("fail_each", 0)
            assert client.counters()["blocks"] == blocks, (words, each)
        assert "NOMEM" in results and results <= {"NOMEM", "OK", "NOT_FOUND"}, (words, results)
    client.good("delete_many", "m/one", "m/two")


def memory_has(process, texts):
    """Which of the texts are in the memory of a process."""
    return {text for block in memory_of(process) for text in texts if text.encode() in block}


def test_forgotten_keys(client, boto, strict, port):
    """The secret of a forgotten scope is not in memory, however its requests have ended. Its session token, which is worth nothing without the
    secret, may be: in buffers of libcurl, which sends it."""
    if not os.path.exists("/proc/self/mem"):
        return
    secret, token = "Secret/of+this+test+alone0", "Token/of+this+test+alone0"
    with Client(client.program) as other, FaultProxy(port) as proxy:
        other.scope(proxy.port, key_id="id", secret=secret, session_token=token)
        other.ask("put", "k/one", 1000, 1)
        other.ask("many", "get", "k/", 5, 10)
        proxy.fault("reset", kind="GET")
        other.ask("get", "k/one", "whole", 0, 0, 0, "buffer")
        other.good("scope", "s3://bucket/other", "endpoint=http://127.0.0.1:1", "key_id=id", f"secret={secret}", f"session_token={token}")
        try:
            assert memory_has(other.process.pid, [secret])
        except PermissionError:
            return # this process may not look
        other.good("forget", "s3://bucket")
        other.good("forget", "s3://bucket/other")
        other.ask("x" * 190000) # over the line that has been read
        assert not memory_has(other.process.pid, [secret]), "the secret is still in memory"


def test_signatures(client, boto, strict, port):
    """Only a server that checks them: wrong keys, another region, a clock that differs."""
    if not strict:
        return
    client.scope(port, secret="wrongsecret0")
    client.bad("DENIED", "get", "x", "whole", 0, 0, 0, "buffer", says="status 403 SignatureDoesNotMatch")
    client.bad("DENIED", "head", "x", says="status 403")
    client.scope(port, key_id=None, secret=None, provider="anonymous")
    client.bad("DENIED", "get", "x", "whole", 0, 0, 0, "buffer", says="refused")
    client.scope(port, region="eu-west-1")
    client.bad("ERROR", "get", "x", "whole", 0, 0, 0, "buffer", says="region")
    client.scope(port)


def main():
    end_with_this_process()
    program, folder, kind = sys.argv[1:4]
    strict = kind == "versitygw"
    with Server(kind, folder, *sys.argv[4:5]) as server:
        boto = server.client()
        boto.create_bucket(Bucket="bucket")
        with Client(program) as client:
            client.scope(server.port)
            for test in (test_objects, test_new_only, test_lists, test_pages, test_uploads, test_failing_allocations, test_refusals):
                print(test.__name__, flush=True)
                test(client, boto, strict)
            for test in (test_scopes, test_parallel, test_confined, test_forgotten_keys, test_signatures):
                print(test.__name__, flush=True)
                test(client, boto, strict, server.port)
            assert KEY_ID and client.counters()["blocks"] < 40
    return 0


if __name__ == "__main__":
    sys.exit(main())
