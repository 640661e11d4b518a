"""The calls of remote/s3.h while a proxy between them and the server injects faults (fault_proxy.py): each fault is invisible or a clear error,
nothing is done twice, and the number of requests is what it has to be.

usage: faults.py CLIENT FOLDER moto | versitygw [PROGRAM]
"""
import os
import sys
import time

from client import Client, made_bytes, md5
from fault_proxy import FaultProxy
from servers import KEY_ID, SECRET, Server

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process

SIZE = 200000
DATA = made_bytes(SIZE, 1)
WHOLE = ("get", "f/data", "whole", 0, 0, SIZE, "into")

# Each kind of call once, as words, and the kind of its request; it succeeds whenever it is run again.
CALLS = [(WHOLE, "GET"), (("get", "f/data", "range", 1000, 5000, 0, "buffer"), "GET"), (("head", "f/data"), "HEAD"), (("list", "f/"), "LIST"),
         (("put", "f/put", 3000, 2), "PUT"), (("delete", "f/put"), "DELETE"), (("delete_many", "f/a", "f/b"), "DELETE-MANY"),
         (("copy", "f/data", "f/copy"), "COPY"), (("uploads", "f/"), "UPLOADS")]


class Bench:
    """A client that reaches the server through the proxy."""

    def __init__(self, client, proxy, boto, strict):
        self.client, self.proxy, self.boto, self.strict = client, proxy, boto, strict

    def run(self, *words, rc="OK", says="", requests=None, retries=None):
        """Runs a call and compares its result and the kinds of its requests. `retries` are those of our client: after a reset of a connection that
        was used before, libcurl sends a request once more by itself."""
        answer, spent = self.client.spent(*words)
        assert answer.rc == rc and says in answer.message, f"{words}: {answer.line}; expected {rc} {says}"
        if requests is not None:
            assert self.proxy.kinds() == requests.split(), f"{words}: requests {self.proxy.kinds()}, expected {requests}"
        if retries is not None:
            assert spent.get("retries", 0) == retries, f"{words}: {spent}"
        if words[0] == "get" and rc == "OK" and words[1] == "f/data":
            data = {"whole": DATA, "range": DATA[words[3]:words[3] + words[4]], "suffix": DATA[-words[4]:]}[words[2]] if words[4] or words[2] == "whole" else b""
            assert answer.md5 == md5(data), f"{words}: other bytes"
        self.proxy.clear()
        return answer

    def body(self, key):
        return self.boto.get_object(Bucket="bucket", Key=key)["Body"].read()


def test_busy_servers_and_resets_are_invisible(b):
    for words, kind in CALLS:
        for fault in ({"do": "status", "status": 503, "code": "SlowDown"}, {"do": "status", "status": 500, "code": "InternalError"}, {"do": "reset"}):
            b.proxy.fault(kind=kind, times=2, **fault)
            b.run(*words, requests=" ".join([kind] * 3), retries=None if fault["do"] == "reset" else 2)
    for words, kind in CALLS: # a server that stays so: the error names it, after one try and two more
        b.proxy.fault("status", kind=kind, times=9, status=503, code="SlowDown")
        says = "s3://bucket/f/" if words[0] != "delete_many" else "s3://bucket"
        answer = b.run(*words, rc="UNREACHABLE", says=says, requests=" ".join([kind] * 3))
        assert "503" in answer.message and ("SlowDown" in answer.message or kind == "HEAD"), answer.message
    b.proxy.fault("reset", times=9)
    b.run(*WHOLE, rc="UNREACHABLE", says="s3://bucket/f/data: GET: ")


def test_a_cut_body_is_read_on(b):
    b.proxy.fault("truncate", kind="GET", times=2)
    answer = b.run(*WHOLE, requests="GET GET GET", retries=2)
    assert answer.received == str(SIZE)
    for words in (("range", 100, 100000, 0), ("suffix", 0, 100000, 0), ("whole", 0, 0, SIZE)):
        for place in ("into", "buffer"):
            b.proxy.fault("truncate", kind="GET", bytes=777)
            b.client.ask("get", "f/data", *words, place)
            log = b.proxy.log
            first = {"range": 100, "suffix": SIZE - 100000, "whole": 0}[words[0]]
            last = {"range": 100099, "suffix": SIZE - 1, "whole": SIZE - 1}[words[0]]
            assert log[1]["headers"]["range"] == f"bytes={first + 777}-{last}" and log[1]["headers"]["if-match"] == f'"{md5(DATA)}"', log[1]
            b.proxy.clear()
            b.proxy.fault("truncate", kind="GET", bytes=777)
            b.run("get", "f/data", *words, place, requests="GET GET", retries=1)
    b.proxy.fault("truncate", kind="GET", times=9, bytes=10)
    b.run(*WHOLE, rc="UNREACHABLE", says="s3://bucket/f/data: GET: ", requests="GET GET GET")
    b.proxy.fault("truncate", kind="LIST")
    b.run("list", "f/", requests="LIST LIST", retries=1)
    b.proxy.fault("stall", kind="GET", ms=3000)
    b.run(*WHOLE, requests="GET GET", retries=1)


def test_an_object_that_changes_within_a_read_is_read_anew(b):
    b.client.good("put", "f/changing", 5000, 1)
    b.proxy.clear()
    rule = b.proxy.fault("truncate", kind="GET", bytes=1000)
    send = b.proxy.send

    def change(*arguments):
        going_on = send(*arguments)
        if arguments[3] is rule:
            b.boto.put_object(Bucket="bucket", Key="f/changing", Body=made_bytes(6000, 2))
        return going_on

    b.proxy.send = change
    try:
        answer = b.run("get", "f/changing", "whole", 0, 0, 0, "buffer", requests="GET GET GET", retries=2)
    finally:
        b.proxy.send = send
    assert answer.md5 == md5(made_bytes(6000, 2)), answer.line
    b.client.good("delete", "f/changing")


def test_changed_bytes_in_answers(b):
    """A changed byte of an object itself is for TLS and for the checksums of its format to see."""
    for kind, words in (("LIST", ("list", "f/")), ("COPY", ("copy", "f/data", "f/copy")), ("UPLOADS", ("uploads", "f/"))):
        b.proxy.fault("flip", kind=kind, at=1) # in the declaration of XML
        b.run(*words, requests=f"{kind} {kind}", retries=1)
        b.proxy.fault("flip", kind=kind, at=1, times=9)
        b.run(*words, rc="UNREACHABLE", says="cannot be read")
    if b.strict: # a server that compares the body with its signed digest
        b.proxy.fault("flip-up", kind="PUT", at=5)
        b.run("put", "f/put", 3000, 2, requests="PUT PUT", retries=1)
        assert b.body("f/put") == made_bytes(3000, 2)
        b.proxy.fault("flip-up", kind="PUT", at=5, times=9)
        b.run("put", "f/flipped", 3000, 2, rc="UNREACHABLE")
        b.run("head", "f/flipped", rc="NOT_FOUND")
        b.client.good("delete", "f/put")


def test_wrong_ranges(b):
    part = ("get", "f/data", "range", 1000, 5000, 0, "into")
    for words in (part, ("get", "f/data", "suffix", 0, 5000, 0, "buffer")):
        for fault in ({"do": "ignore-range", "body": DATA}, {"do": "other-range"}):
            b.proxy.fault(kind="GET", **fault)
            b.run(*words, requests="GET GET", retries=1)
            b.proxy.fault(kind="GET", times=9, **fault)
            b.run(*words, rc="UNREACHABLE", says="other bytes than the range", requests="GET GET GET")
    b.proxy.fault("ignore-range", kind="GET", body=DATA) # it asks for everything, so nothing is ignored
    b.run("get", "f/data", "range", 0, SIZE, 0, "into", requests="GET", retries=0)
    b.proxy.fault("truncate", kind="GET", bytes=5000)
    b.proxy.fault("ignore-range", kind="GET", body=DATA, path="data") # to the request for the rest
    b.run(*WHOLE, requests="GET GET GET", retries=2)


def test_lost_answers_of_puts(b):
    b.proxy.fault("lost", kind="PUT")
    b.run("put", "f/lost", 100, 1, "new", requests="PUT PUT HEAD")
    b.run("put", "f/lost", 100, 1, "new", rc="EXISTS", requests="PUT HEAD", retries=0)
    assert b.body("f/lost") == made_bytes(100, 1)
    b.proxy.fault("lost", kind="PUT", times=2)
    b.run("put", "f/empty", 0, 0, "new", requests="PUT PUT PUT HEAD")
    b.proxy.fault("reset", kind="PUT") # somebody else is there, and our first try never arrived
    b.run("put", "f/empty", 0, 0, "new", rc="EXISTS", says="it exists already", requests="PUT PUT HEAD")
    b.proxy.fault("status", kind="PUT", status=409, code="ConditionalRequestConflict")
    b.run("put", "f/conflict", 5, 0, "new", requests="PUT PUT", retries=1)
    b.proxy.fault("status", kind="HEAD", status=503, code="SlowDown")
    b.run("put", "f/conflict", 5, 1, "new", rc="EXISTS", says="it exists already (status 412", requests="PUT HEAD HEAD", retries=1)
    b.boto.put_object(Bucket="bucket", Key="f/foreign", Body=made_bytes(100, 1), ContentType="binary/octet-stream")
    b.proxy.fault("lost", kind="PUT") # a server that forgets the type of a body: the bytes decide
    b.run("put", "f/foreign", 100, 1, "new", requests="PUT PUT HEAD GET")
    b.proxy.fault("lost", kind="PUT")
    b.run("put", "f/foreign", 100, 2, "new", rc="EXISTS", requests="PUT PUT HEAD GET")
    b.proxy.fault("lost", kind="PUT")
    b.run("put", "f/lost", 50, 9, requests="PUT PUT")
    assert b.body("f/lost") == made_bytes(50, 9)
    for kind, words in (("DELETE", ("delete", "f/lost")), ("DELETE-MANY", ("delete_many", "f/empty", "f/conflict", "f/foreign")), ("COPY", ("copy", "f/data", "f/copy"))):
        b.proxy.fault("lost", kind=kind)
        b.run(*words, requests=f"{kind} {kind}")
    assert sorted(o["Key"] for o in b.boto.list_objects_v2(Bucket="bucket", Prefix="f/")["Contents"]) == ["f/copy", "f/data"]


def test_lost_answers_of_uploads(b):
    for new in ("", "new"):
        upload = b.run("create", "f/big").id
        b.proxy.fault("lost", kind="PART")
        etag = b.run("part", "f/big", 1000, 3, upload, 1, requests="PART PART").etag
        b.proxy.fault("lost", kind="COMPLETE")
        answer = b.run("complete", "f/big", upload, new, etag)
        assert b.body("f/big") == made_bytes(1000, 3) and answer.etag.endswith('-1"'), answer.line
        b.proxy.fault("lost", kind="ABORT")
        b.run("abort", "f/big", upload, requests="ABORT ABORT")
        b.run("delete", "f/big")
    # what minio answers to the second completion, and S3 itself behind status 200
    upload = b.run("create", "f/big").id
    etag = b.run("part", "f/big", 1000, 3, upload, 1).etag
    b.proxy.fault("lost", kind="COMPLETE")
    b.proxy.fault("status", kind="COMPLETE", status=404, code="NoSuchUpload")
    b.run("complete", "f/big", upload, "", etag, requests="COMPLETE COMPLETE HEAD")
    b.run("delete", "f/big")
    b.proxy.fault("status", kind="COMPLETE", status=404, code="NoSuchUpload") # now it is true
    b.run("complete", "f/big", upload, "", etag, rc="NOT_FOUND", says="no such upload", requests="COMPLETE HEAD", retries=0)
    b.boto.put_object(Bucket="bucket", Key="f/big", Body=made_bytes(1000, 3)) # the same bytes, made in another way
    b.proxy.fault("status", kind="COMPLETE", status=412, code="PreconditionFailed")
    b.run("complete", "f/big", upload, "new", etag, rc="EXISTS", says="exists", requests="COMPLETE HEAD", retries=0)
    b.run("delete", "f/big")
    upload = b.run("create", "f/big").id
    etag = b.run("part", "f/big", 1000, 3, upload, 1).etag
    b.proxy.fault("replace", kind="COMPLETE", body=b"<Error><Code>InternalError</Code><Message>x</Message></Error>")
    b.run("complete", "f/big", upload, "", etag, requests="COMPLETE COMPLETE", retries=1)
    b.run("delete", "f/big")


def test_refusals_are_never_absence(b):
    b.proxy.fault("denied", times=9)
    b.run("get", "f/none", "whole", 0, 0, 0, "buffer", rc="DENIED", says="s3://bucket/f/none: GET: refused (status 403 AccessDenied, request F0)", requests="GET")
    b.proxy.fault("denied", times=9)
    b.run("head", "f/none", rc="DENIED", requests="HEAD")
    for kind, words in (("LIST", ("list", "f/")), ("PUT", ("put", "f/x", 1, 1)), ("DELETE", ("delete", "f/x")), ("DELETE-MANY", ("delete_many", "f/x", "f/y"))):
        b.proxy.fault("status", kind=kind, status=403, code="AccessDenied")
        b.run(*words, rc="DENIED", says="refused", requests=kind)
    b.proxy.fault("status", kind="GET", status=301, code="PermanentRedirect", headers={"Location": "http://127.0.0.1:1/"})
    b.run(*WHOLE, rc="ERROR", says="elsewhere", requests="GET")
    b.proxy.fault("region", times=9, region="eu-west-1")
    b.run(*WHOLE, rc="ERROR", says="the bucket is in the region 'eu-west-1', the request was for 'us-east-1'", requests="GET")
    b.proxy.fault("status", kind="DELETE-MANY", status=501, code="NotImplemented")
    b.run("delete_many", "f/x", "f/y", requests="DELETE-MANY DELETE DELETE", retries=0)


def test_clocks(b):
    b.proxy.fault("skew", times=99, seconds=7200)
    if b.strict: # it refuses what the corrected clock has signed
        return
    b.run(*WHOLE, requests="GET GET", retries=1)
    b.proxy.fault("skew", times=99, seconds=7200)
    b.run(*WHOLE, requests="GET", retries=0) # the correction is kept
    b.client.scope(b.proxy.port, retries=2, stall_ms=1000)
    b.proxy.fault("skew", times=99, seconds=-7200)
    b.run("head", "f/data", requests="HEAD HEAD", retries=1)
    b.client.scope(b.proxy.port, retries=2, stall_ms=1000)


def test_hostile_answers(b):
    """Lists that never end, lists of other keys, and answers that are too long."""
    page = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>{}</ListBucketResult>"
    entry = "<Contents><Key>{}</Key><Size>1</Size></Contents>"
    for text, says in ((page.format(entry.format("f/a")), "repeated a key"), (page.format(""), "empty page"), (page.format(entry.format("g/a")), "outside the prefix")):
        b.proxy.fault("replace", kind="LIST", times=99, body=text.encode(), headers={"Content-Type": "application/xml"})
        b.run("list", "f/", rc="UNREACHABLE", says=says)
    b.proxy.fault("replace", kind="LIST", times=9, body=b"<ListBucketResult>" + b" " * (49 << 20) + b"</ListBucketResult>")
    b.run("list", "f/", rc="TOOBIG")
    b.proxy.fault("replace", kind="GET", times=9, body=b"x" * (SIZE + 1), headers={"ETag": '"x"'})
    b.run(*WHOLE, rc="TOOBIG", says=f"more than {SIZE} bytes", requests="GET")
    b.proxy.fault("status", kind="GET", times=9, status=500, code="A" * 3000 + "\x01")
    b.run(*WHOLE, rc="UNREACHABLE")


def test_expired_keys(program, server, boto):
    """Keys of a profile expire: the file is read once more. Keys of a scope's options cannot be refreshed."""
    folder = os.path.join(server.folder, "home", ".aws")
    os.makedirs(folder)

    def write(key_id, token):
        with open(os.path.join(folder, "credentials"), "w") as f:
            f.write(f"# keys\n[other]\naws_access_key_id = x\n\n[default]\naws_access_key_id = {key_id}\naws_secret_access_key={SECRET}\n{token}")

    write("oldkey", "aws_session_token = oldtoken\n")
    with FaultProxy(server.port) as proxy, Client(program, {"HOME": os.path.dirname(folder)}) as client:
        client.scope(proxy.port, key_id=None, secret=None, provider="profile", retries=2)
        b = Bench(client, proxy, boto, True)
        proxy.fault("expired", times=9, key_id="oldkey")
        b.run(*WHOLE, rc="DENIED", says="have expired", requests="GET") # the file still has the old ones
        write(KEY_ID, "")
        for words, kind in ((("head", "f/data"), "HEAD"), (WHOLE, "GET")):
            proxy.fault("expired", times=9, key_id="oldkey")
            b.run(*words, requests=f"{kind} {kind}" if kind == "HEAD" else kind)
        client.scope(proxy.port, key_id="oldkey", retries=2)
        proxy.fault("expired", times=9, key_id="oldkey")
        b.run(*WHOLE, rc="DENIED", says="the keys have expired, and there are no newer ones (status 400 ExpiredToken", requests="GET")


def test_no_server(program):
    with Client(program) as client:
        client.scope(1, retries=2)
        started = time.monotonic()
        client.bad("UNREACHABLE", "head", "f/data", says="127.0.0.1")
        assert client.counters()["retries"] == 2 and time.monotonic() - started < 5
        client.scope(1, retries=4294967295)
        client.bad("UNREACHABLE", "head", "f/data")
        assert client.counters()["retries"] == 2


def main():
    end_with_this_process()
    program, folder, kind = sys.argv[1:4]
    tests = [test for name, test in globals().items() if name.startswith("test_") and test not in (test_expired_keys, test_no_server)]
    with Server(kind, folder, *sys.argv[4:5]) as server:
        boto = server.client()
        boto.create_bucket(Bucket="bucket")
        boto.put_object(Bucket="bucket", Key="f/data", Body=DATA)
        with FaultProxy(server.port) as proxy, Client(program) as client:
            client.scope(proxy.port, retries=2, stall_ms=1000)
            for test in tests:
                print(test.__name__, flush=True)
                proxy.clear()
                test(Bench(client, proxy, boto, kind == "versitygw"))
        print("test_expired_keys, test_no_server", flush=True)
        test_expired_keys(program, server, boto)
        test_no_server(program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
