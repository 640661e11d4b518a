"""The calls of remote/bucket.h beside Azurite and beside Google's XML API: what they give, what they cost, and what becomes of them while a proxy
injects faults in the words of these servers. calls.py and faults.py have what is the same on S3.

usage: dialects.py CLIENT FOLDER azurite | gcs | gcs_memory ... [--few]      # --few: no thousands of objects; servers that cannot be had are skipped: 77 if that holds for all
"""
import base64
import os
import shutil
import struct
import subprocess
import sys
import time

from client import Client, made_bytes, md5
from fault_proxy import FaultProxy
from servers import ACCOUNT, ACCOUNT_KEY, KEY_ID, SECRET, TOKEN, SCHEMES, Server, program_of

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from memory_of import memory_of
from processes import end_with_this_process

ODD = "odd/a+b &<>\"'%2F=?#~!*().,;:@$[]é日本"
SIZE = 100000
DATA = made_bytes(SIZE, 7)
WHOLE = ("get", "f/data", "whole", 0, 0, SIZE, "into")


class Side:
    """A server, the proxy before it, and the client that reaches it by the proxy."""

    def __init__(self, kind, server, proxy, client):
        self.kind, self.server, self.proxy, self.client = kind, server, proxy, client
        self.azure, self.scheme, self.boto = kind == "azurite", SCHEMES[kind], server.client()

    def options(self, **more):
        return {**self.server.options(self.proxy.port), "retries": 2, "stall_ms": 15000, **more} # a busy machine takes seconds for 5 MiB

    def scope(self, name="bucket", **more):
        self.client.good("scope", f"{self.scheme}://{name}", *(f"{key}={value}" for key, value in self.options(**more).items() if value is not None))
        self.client.good("open", f"{self.scheme}://{name}")

    def run(self, *words, rc="OK", says="", requests=None):
        """One call with the faults set before; then there are none."""
        answer = self.client.ask(*words)
        kinds = " ".join(self.proxy.kinds())
        assert answer.rc == rc and says in answer.message, f"{words}: {answer.line}; expected {rc} {says}; requests {kinds}"
        assert requests is None or kinds == requests, f"{words}: requests {kinds}, expected {requests}"
        assert not any(secret in answer.line for secret in (SECRET, ACCOUNT_KEY, TOKEN, "sig=")), answer.line
        self.proxy.clear()
        return answer

    def fault(self, kind, status, code, times=1, **more):
        self.proxy.fault("status", kind=kind, status=status, code=code, times=times, **more)


def test_objects(s):
    """PUT, HEAD, GET of each kind of range, LIST, DELETE, COPY; a tail costs two requests on Azure if the object is longer."""
    s.run("put", "a/one", 1000, 1, "new", requests="PUT")
    s.run("put", "a/one", 1000, 1, "new", rc="EXISTS", says=f"{s.scheme}://bucket/a/one: PUT: it exists already", requests="PUT HEAD")
    data = made_bytes(1000, 1)
    for words, expected in (("whole 0 0 1000", data), ("range 10 20 0", data[10:30]), ("range 990 100 0", data[990:]), ("suffix 0 7 0", data[-7:]),
                            ("suffix 0 5000 0", data)):
        two = s.azure and words == "suffix 0 7 0"
        answer = s.run("get", "a/one", *words.split(), "into" if "whole" in words else "buffer", requests="GET GET" if two else "GET")
        assert answer.md5 == md5(expected) and answer.size == "1000", answer.line
    s.run("get", "a/one", "range", 1001, 1, 0, "buffer", rc="CORRUPT", says="outside the object")
    s.run("get", "a/none", "whole", 0, 0, 0, "buffer", rc="NOT_FOUND", says="no such object (status 404")
    s.run("head", "a/none", rc="NOT_FOUND")
    s.run("put", "a/empty", 0, 0)
    assert s.run("get", "a/empty", "suffix", 0, 10, 0, "buffer", requests="GET").size == "0"
    s.run("put", ODD, 10, 5)
    assert s.run("get", ODD, "whole", 0, 0, 0, "buffer").md5 == md5(made_bytes(10, 5))
    assert s.boto.head_object(Bucket="bucket", Key=ODD)["ContentLength"] == 10
    assert s.run("list", "", "/").words[0].split("|")[0] == "a/"
    s.run("copy", "a/one", "a/copy")
    assert s.run("head", "a/copy").size == "1000"
    s.run("copy", "a/none", "a/copy2", rc="NOT_FOUND")
    if s.azure:
        s.run("put", "a/b\\c", 1, 1, rc="ERROR", says="for another character", requests="")
        for name in ("a/b.", "a./b", "a.../b"):
            s.run("put", name, 1, 1, rc="ERROR", says="would drop the '.' at the end", requests="")
        s.run("put", "a/.b.c", 1, 1, requests="PUT")
        s.run("delete", "a/.b.c")
    s.run("delete", ODD)
    s.run("delete_many", "a/one", "a/copy", "a/empty", "a/absent", requests="DELETE DELETE DELETE DELETE")
    assert s.run("list", "a/").count == "0"


def test_pages(s):
    """Listings of more than a page. Azurite thinks about 5,000 names for seconds if the machine is busy: that is no stall."""
    s.scope(stall_ms=30000)
    count = 1201 if s.scheme == "gcs" else 5003
    for i in range(0, count, 600):
        s.client.good("many", "put", f"p/{i // 600}-", min(600, count - i), 1)
    s.proxy.clear()
    assert s.run("list", "p/", requests="LIST LIST").count == str(count)
    left = 4800 if s.azure else 0 # to delete one of 5,000 names takes Azurite 8 ms of a quiet processor
    s.client.good("delete_many", *(f"p/{i // 600}-*{min(600, count - i)}" for i in range(left, count, 600)))
    s.proxy.clear()
    assert s.run("list", "p/", requests="LIST").count == str(left)
    s.scope()


def test_the_largest_page(s):
    """A page of a listing that is as large as it may be: 5,000 names of 1,024 bytes, nearly all of them entities, and long properties. A byte more is
    too much."""
    if not s.azure:
        return
    names = [f"f/{i:05d}{'&quot;' * 1017}" for i in range(5000)]
    body = "".join(f"<Blob><Name>{name}</Name><Properties><Content-Length>{i}</Content-Length><Etag>0x8D{i:013X}</Etag>@</Properties></Blob>" for i, name in enumerate(names))
    body = f'\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{body}</Blobs><NextMarker/></EnumerationResults>'
    long = "<Content-Language>" + "x" * (((48 << 20) - len(body.encode())) // 5000 - 36) + "</Content-Language>"
    body = body.replace("@", long)
    body = body.encode() + b" " * ((48 << 20) - len(body.encode()))
    assert len(body) == 48 << 20 and len(long) > 1000
    for more in (b"", b" "):
        s.proxy.fault("replace", kind="LIST", body=body + more, headers={"Content-Type": "application/xml"})
        answer = s.run("list", "f/", rc="TOOBIG" if more else "OK", requests="LIST")
        assert more or (answer.count == "5000" and answer.words[39].split("|")[:2] == [f"f/00039{chr(34) * 1017}", "39"]), answer.line[:200]


def test_uploads(s):
    """Large objects in parts: on Azure no request begins, ends or lists them."""
    began = s.run("create", "u/big", requests="" if s.azure else "CREATE").id
    etags = [s.run("part", "u/big", 5 << 20, 1, began, 1, requests="PART").etag, s.run("part", "u/big", 100, 2, began, 2).etag]
    s.run("head", "u/big", rc="NOT_FOUND")
    s.run("complete", "u/big", began, "new", *etags, requests="COMPLETE" if s.azure else "HEAD COMPLETE")
    tail = s.run("get", "u/big", "suffix", 0, 150, 0, "into")
    assert tail.md5 == md5(made_bytes(5 << 20, 1)[-50:] + made_bytes(100, 2))
    other = s.run("create", "u/big").id
    part = s.run("part", "u/big", 100, 3, other, 1).etag
    s.run("complete", "u/big", other, "new", part, rc="EXISTS", says="it exists already")
    s.run("abort", "u/big", other, requests="" if s.azure else "ABORT")
    assert s.run("uploads", "u/").count == "0"
    if not s.azure: # a vacuum ends uploads that it finds in a listing
        s.run("create", "u/left")
        key, _, time, listed = s.run("uploads", "u/").words[0].split("|")
        assert (key, time) == ("u/left", "time"), (key, time)
        s.run("abort", key, listed, requests="ABORT")
        assert s.run("uploads", "u/").count == "0"
    s.run("delete", "u/big")


def test_two_uploads_of_one_name(s):
    """Two writers of one name: the first completion wins, and the second one is told so, also if its blocks are gone."""
    ids = [s.run("create", "u/two").id for _ in range(2)]
    etags = [s.run("part", "u/two", 100, i, ids[i], 1).etag for i in range(2)]
    s.run("complete", "u/two", ids[1], "new", etags[1])
    s.run("complete", "u/two", ids[0], "new", etags[0], rc="EXISTS")
    if s.azure:
        s.run("complete", "u/two", ids[0], "", etags[0], rc="NOT_FOUND", says="no such upload", requests="COMPLETE HEAD")
    assert s.run("get", "u/two", "whole", 0, 0, 0, "buffer").md5 == md5(made_bytes(100, 1))
    s.run("delete", "u/two")


def test_lost_answers(s):
    """A request whose answer is lost was carried out, and its repetition finds its own object."""
    s.proxy.fault("lost", kind="PUT")
    s.run("put", "f/lost", 100, 1, "new", requests="PUT PUT HEAD")
    s.proxy.fault("lost", kind="PUT", times=2)
    s.run("put", "f/empty", 0, 0, "new", requests="PUT PUT PUT HEAD")
    s.proxy.fault("reset", kind="PUT") # somebody else is there
    s.run("put", "f/empty", 0, 0, "new", rc="EXISTS", requests="PUT PUT HEAD")
    began = s.run("create", "f/big").id
    etag = s.run("part", "f/big", 1000, 3, began, 1).etag
    s.proxy.fault("lost", kind="COMPLETE")
    s.run("complete", "f/big", began, "new", etag)
    assert s.run("get", "f/big", "whole", 0, 0, 0, "buffer").md5 == md5(made_bytes(1000, 3))
    for kind, words in (("DELETE", ("delete", "f/lost")), ("COPY", ("copy", "f/data", "f/copy"))):
        s.proxy.fault("lost", kind=kind)
        s.run(*words, requests=f"{kind} {kind}")
    s.run("delete_many", "f/empty", "f/big", "f/copy")


def test_busy_servers(s):
    busy = ((503, "ServerBusy"), (500, "InternalError"), (500, "OperationTimedOut"), (429, "TooManyRequests"), (408, "RequestTimeout")) if s.azure else (
        (503, "SlowDown"), (500, "InternalError"), (429, "RateLimitExceeded"), (408, "RequestTimeout"))
    for status, code in busy:
        for kind, words in (("GET", WHOLE), ("PUT", ("put", "f/put", 10, 1)), ("LIST", ("list", "f/")), ("HEAD", ("head", "f/data"))):
            s.fault(kind, status, code, times=2)
            s.run(*words, requests=" ".join([kind] * 3))
    s.fault("GET", 503, "ServerBusy", times=9)
    s.run(*WHOLE, rc="UNREACHABLE", says="503", requests="GET GET GET")
    s.proxy.fault("truncate", kind="GET", times=2)
    s.run(*WHOLE, requests="GET GET GET")
    s.proxy.fault("truncate", kind="GET", bytes=10, times=1)
    assert s.run("get", "f/data", "suffix", 0, 5000, 0, "buffer").md5 == md5(DATA[-5000:])
    s.run("delete", "f/put")


def test_refusals(s):
    """What is refused is never absent, and never retried."""
    cases = (("GET", 403, "AuthorizationPermissionMismatch", "DENIED"), ("LIST", 403, "AuthorizationFailure", "DENIED"), ("PUT", 409, "LeaseIdMissing", "ERROR"),
             ("PUT", 412, "LeaseIdMissing", "ERROR"), ("DELETE", 409, "SnapshotsPresent", "ERROR"), ("LIST", 404, "ContainerNotFound", "ERROR"),
             ("PUT", 404, "ContainerNotFound", "ERROR"), ("GET", 401, "InvalidAuthenticationInfo", "DENIED"), ("GET", 404, "AccountIsDisabled", "ERROR")) if s.azure else (
        ("GET", 403, "AccessDenied", "DENIED"), ("LIST", 404, "NoSuchBucket", "ERROR"), ("PUT", 403, "AccessDenied", "DENIED"), ("GET", 401, "Unauthorized", "DENIED"))
    words = {"GET": WHOLE, "LIST": ("list", "f/"), "PUT": ("put", "f/x", 1, 1), "DELETE": ("delete", "f/x")}
    for kind, status, code, rc in cases:
        s.fault(kind, status, code)
        s.run(*words[kind], rc=rc, says=code, requests=kind)
    for status in (301, 307, 308): # no redirection is followed
        s.fault("GET", status, "Elsewhere", headers={"Location": "http://127.0.0.1:9/"})
        s.run(*WHOLE, rc="ERROR", says=f"the server sends this request elsewhere: look at the option endpoint (status {status}", requests="GET")
    s.fault("HEAD", 403, "AuthorizationFailure", times=9)
    s.run("head", "f/data", rc="DENIED", requests="HEAD")
    s.scope("nobucket")
    s.run("list", "", rc="ERROR", says=f"no such {'container' if s.azure else 'bucket'}")
    s.scope()


def test_other_keys(s):
    """Tokens, shared access signatures, wrong keys."""
    if s.azure:
        from azure_client import shared_access_signature
        s.scope(key=None, sas=shared_access_signature(ACCOUNT, ACCOUNT_KEY, "bucket"))
        s.run(*WHOLE)
        s.run("put", "f/sas", 10, 1, "new")
        s.run("copy", "f/sas", "f/sas2")
        assert s.run("list", "f/").count == "3"
        s.run("delete_many", "f/sas", "f/sas2")
        assert any("sig=" in entry["query"] for entry in s.proxy.log) or not s.proxy.log
        s.scope(key=None, sas=shared_access_signature(ACCOUNT, ACCOUNT_KEY, "bucket", minutes=-60))
        s.run(*WHOLE, rc="DENIED", says="the keys have expired, and there are no newer ones (status 403", requests="GET")
        s.scope(key="QUJD")
        s.run(*WHOLE, rc="DENIED", says="403")
    else:
        s.scope(key_id=None, secret=None, token=TOKEN)
        s.run(*WHOLE)
        s.run("put", "f/token", 10, 1, "new")
        s.run("delete", "f/token")
        s.scope(key_id=None, secret=None, token="another")
        s.run(*WHOLE, rc="DENIED", says="the server does not accept the token: it has expired, or is wrong (status 401", requests="GET")
        s.scope(secret="wrong")
        s.run(*WHOLE, rc="DENIED", says="SignatureDoesNotMatch")
    s.scope()


def test_forgotten_secrets(s):
    """The secrets of a forgotten scope are not in memory, however its requests have ended."""
    if not os.path.exists("/proc/self/mem"):
        return
    if s.azure:
        from azure_client import shared_access_signature
        sas = shared_access_signature(ACCOUNT, ACCOUNT_KEY, "bucket", minutes=59)
        cases = (({}, [ACCOUNT_KEY[:-4], base64.b64decode(ACCOUNT_KEY).decode()]), ({"key": None, "sas": sas}, [sas.split("sig=")[1]]))
    else:
        cases = (({}, [SECRET]), ({"key_id": None, "secret": None, "token": TOKEN}, [TOKEN]))
    for more, secrets in cases:
        with Client(s.client.program) as other:
            other.good("scope", f"{s.scheme}://bucket", *(f"{name}={value}" for name, value in s.options(**more).items() if value is not None))
            other.good("open", f"{s.scheme}://bucket")
            other.good("get", "f/data", "whole", 0, 0, 0, "buffer")
            s.proxy.fault("reset", kind="GET")
            other.ask("get", "f/data", "range", 0, 10, 0, "buffer")
            other.ask("copy", "f/data", "f/forgotten")
            other.ask("delete", "f/forgotten")
            other.good("forget", f"{s.scheme}://bucket")
            other.ask("x" * 190000) # over the line that has been read
            try:
                blocks = list(memory_of(other.process.pid))
            except PermissionError:
                return # this process may not look
            left = [text for text in secrets for block in blocks if text.encode() in block]
            assert not left, f"{len(left)} secrets of {sorted(more)} are still in memory"
    s.proxy.clear()


def test_hostile_answers(s):
    """Listings that never end, have keys elsewhere, or are none; pages without an entry, of which servers send some."""
    page = ("<EnumerationResults><Blobs>{}</Blobs><NextMarker>t</NextMarker></EnumerationResults>" if s.azure else
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>{}</ListBucketResult>")
    entry = ("<Blob><Name>{}</Name><Properties><Content-Length>1</Content-Length></Properties></Blob>" if s.azure else
             "<Contents><Key>{}</Key><Size>1</Size></Contents>")
    for text, says in ((page.format(entry.format("f/a")), "repeated a key"), (page.format(""), "empty page"), (page.format(entry.format("g/a")), "outside the prefix"),
                       ("<html/>", "cannot be read"), (page.format(entry.format("")), "cannot be read")):
        s.proxy.fault("replace", kind="LIST", times=99, body=text.encode(), headers={"Content-Type": "application/xml"})
        s.run("list", "f/", rc="UNREACHABLE", says=says)
    s.proxy.fault("replace", kind="LIST", body=page.format("").encode(), headers={"Content-Type": "application/xml"})
    if s.azure: # the marker of the page is none of this server's, which lists what comes after it
        s.run("list", "f/", requests="LIST LIST")
        s.proxy.fault("replace", kind="COPY", body=b"", headers={"x-ms-copy-status": "pending"})
        s.run("copy", "f/data", "f/pending", requests="COPY HEAD")
        s.proxy.fault("replace", kind="COPY", body=b"", headers={"x-ms-copy-status": "failed"})
        s.run("copy", "f/data", "f/failed", rc="ERROR", says="not completed the copy")
        s.run("delete_many", "f/pending", "f/failed")
    s.proxy.clear()


def test_clocks(s):
    """A date that differs too much is why Azure refuses without saying so: corrected once."""
    if s.azure:
        s.proxy.fault("status", kind="GET", status=403, code="AuthenticationFailed", headers={"Date": "Sun, 06 Nov 1994 08:49:37 GMT"}, times=9)
        s.run(*WHOLE, rc="DENIED", says="refused", requests="GET GET") # the second one has that date
        s.scope()


def test_set_clocks(s):
    """The calendar of this machine is hours off, and is set while the client runs: requests are dated as the server wants it, the server's time stays
    known between two answers, also while the machine sleeps, and no wait is stretched or cut."""
    if sys.platform != "linux" or not shutil.which("cc"):
        return
    library, moved = os.path.join(s.server.folder, "clock.so"), os.path.join(s.server.folder, "moved")
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", library, os.path.join(os.path.dirname(os.path.abspath(__file__)), "clock.c"), "-ldl"], check=True)

    with open(moved, "wb") as file:
        file.write(bytes(16))

    def move(hours, slept=0):
        with open(moved, "r+b") as file: # in place: the client has mapped it, and would die of SIGBUS while the file is empty
            file.write(struct.pack("qq", hours * 3600 * 10**9, slept * 3600 * 10**9))

    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    with Client(s.client.program, {"LD_PRELOAD": library, "TESSERA_TEST_CLOCK": moved, "ASAN_OPTIONS": sanitizer}) as other:
        for hours in (-2, 0, 2):
            move(hours)
            other.good("scope", f"{s.scheme}://bucket", *(f"{name}={value}" for name, value in s.options().items()))
            other.good("open", f"{s.scheme}://bucket")
            s.proxy.fault("skew", seconds=0, times=999)
            for later in (0, 3, -3):
                move(hours + later)
                other.good(*WHOLE)
                move(hours - later)
                now = int(other.ask("now").now) / 1000
                assert abs(now - time.time()) < 100, (hours, later, now - time.time())
            s.proxy.clear()
        other.good(*WHOLE)
        move(2, slept=7)
        now = int(other.ask("now").now) / 1000 - 7 * 3600
        assert abs(now - time.time()) < 100, now - time.time()
        move(5)
        other.good("scope", f"{s.scheme}://bucket", *(f"{name}={value}" for name, value in s.options(stall_ms=60000).items()))
        s.proxy.fault("stall", kind="GET", ms=60000) # the host ends the wait for an answer that does not come
        other.good("cancel_after", 300)
        began = time.monotonic()
        answer = other.ask(*WHOLE)
        assert answer.rc == "INTERRUPT" and time.monotonic() - began < 40, (answer.line, time.monotonic() - began)
        other.good("cancel_after", 0)
        s.proxy.clear()


def main():
    end_with_this_process()
    program, folder, *kinds = [word for word in sys.argv[1:] if word != "--few"]
    tests, done = [test for name, test in globals().items() if name.startswith("test_") and not ("--few" in sys.argv and test in (test_pages, test_the_largest_page))], 0
    for kind in kinds:
        command = program_of(kind, os.environ.get("TESSERA_VERSITYGW", os.path.join(folder, "go")))
        if not command:
            print(f"SKIPPED: {kind} cannot be had here")
            continue
        with Server(kind, os.path.join(folder, kind), command) as server:
            boto = server.client()
            boto.create_bucket(Bucket="bucket")
            boto.put_object(Bucket="bucket", Key="f/data", Body=DATA)
            with FaultProxy(server.port) as proxy, Client(program) as client:
                side = Side(kind, server, proxy, client)
                side.scope()
                for test in tests:
                    print(f"{kind}: {test.__name__}", flush=True)
                    proxy.clear()
                    test(side)
                assert KEY_ID and client.counters()["blocks"] < 40
        done += 1
    return 0 if done else 77


if __name__ == "__main__":
    sys.exit(main())
