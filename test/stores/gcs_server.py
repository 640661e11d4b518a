"""A server of Google's XML API for tests: a gate before an object store, which is fake-gcs-server or the memory of this process.

The gate answers requests of objects by XML as the documents of Google say (no emulator does): create only if absent by
x-goog-if-generation-match, uploads in parts, copies, listings by pages. fake-gcs-server speaks Google's JSON API alone to writers: with it
behind the gate, a client of that API (TileDB's) sees the same objects. Memory needs nothing to be built. The gate checks signatures by
GOOG4-HMAC-SHA256, or a token. It proves the client, not Google.

usage: gcs_server.py PROGRAM | memory FOLDER PORT KEY_ID SECRET TOKEN        # PORT is the gate's; PORT + 1 the one of fake-gcs-server
"""
import datetime
import email.utils
import hashlib
import hmac
import http.client
import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
import uuid
import xml.sax.saxutils

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import with_this_process

PAGE = 1000
MEMORY = "memory"


class Http:
    """Requests to a port of this machine, over one connection of each thread."""

    def __init__(self, port):
        self.port, self.local = port, threading.local()

    def ask(self, method, path, body=b"", headers=()):
        status, data, _ = self.ask_whole(method, path, body, headers)
        return status, data

    def ask_whole(self, method, path, body=b"", headers=()):
        """Returns the status, the body and the headers."""
        for attempt in range(2):
            connection = getattr(self.local, "connection", None) or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                connection.request(method, path, body, dict(headers))
                answer = connection.getresponse()
                data = answer.read()
                self.local.connection = connection
                return answer.status, data, answer.headers
            except (OSError, http.client.HTTPException):
                connection.close()
                self.local.connection = None
                if attempt:
                    raise


class FakeGcs(Http):
    """Objects in fake-gcs-server, by its JSON API."""

    def is_ready(self):
        return self.ask("GET", "/storage/v1/b?project=p")[0] == 200

    def create(self, bucket):
        return self.ask("POST", "/storage/v1/b?project=p", json.dumps({"name": bucket}).encode(), {"Content-Type": "application/json"})[0] == 200

    def object(self, bucket, key, more=""):
        return f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(key, safe='')}{more}"

    def find(self, bucket, key):
        """Returns what the JSON API says of an object, and its bytes: both are in one answer. (None, None) if there is none."""
        status, data, headers = self.ask_whole("GET", self.object(bucket, key, "?alt=media"))
        if status != 200:
            return None, None
        updated = email.utils.parsedate_to_datetime(headers["Last-Modified"]).isoformat()
        return {"size": str(len(data)), "contentType": headers["Content-Type"], "generation": headers["X-Goog-Generation"], "etag": headers["ETag"], "updated": updated}, data

    def put(self, bucket, key, data, kind, absent):
        """Returns the status, and what the JSON API says of the object if that is 200."""
        mark = uuid.uuid4().hex
        meta = json.dumps({"name": key, "contentType": kind})
        body = (f"--{mark}\r\nContent-Type: application/json\r\n\r\n{meta}\r\n--{mark}\r\nContent-Type: {kind}\r\n\r\n".encode() + data +
                f"\r\n--{mark}--\r\n".encode())
        condition = "&ifGenerationMatch=0" if absent else ""
        status, answer = self.ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart{condition}", body,
                                  {"Content-Type": f"multipart/related; boundary={mark}"})
        return status, json.loads(answer) if status == 200 else None

    def delete(self, bucket, key):
        return self.ask("DELETE", self.object(bucket, key))[0] in (200, 204)

    def list(self, bucket, prefix, delimiter):
        query = urllib.parse.urlencode({"prefix": prefix, **({"delimiter": delimiter} if delimiter else {})})
        status, data = self.ask("GET", f"/storage/v1/b/{bucket}/o?{query}")
        if status != 200:
            return None
        found = json.loads(data)
        return [("object", item["name"], item) for item in found.get("items", [])] + [("prefix", name, None) for name in found.get("prefixes", [])]


class Memory:
    """Objects in this process, with the calls of FakeGcs."""

    def __init__(self):
        self.buckets, self.lock, self.generation = {}, threading.Lock(), 0 # name of the bucket: {key: (item, bytes)}

    def is_ready(self):
        return True

    def create(self, bucket):
        with self.lock:
            self.buckets.setdefault(bucket, {})
        return True

    def find(self, bucket, key):
        with self.lock:
            return self.buckets.get(bucket, {}).get(key, (None, None))

    def put(self, bucket, key, data, kind, absent):
        with self.lock:
            objects = self.buckets.get(bucket)
            if objects is None:
                return 404, None
            if absent and key in objects:
                return 412, None
            self.generation += 1
            item = {"name": key, "size": str(len(data)), "contentType": kind, "generation": str(self.generation), "etag": hashlib.md5(data).hexdigest(),
                    "updated": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
            objects[key] = item, data
            return 200, item

    def delete(self, bucket, key):
        with self.lock:
            return self.buckets.get(bucket, {}).pop(key, None) is not None

    def list(self, bucket, prefix, delimiter):
        with self.lock:
            if bucket not in self.buckets:
                return None
            found = {name: item for name, (item, _) in self.buckets[bucket].items() if name.startswith(prefix)}
        if not delimiter:
            return [("object", name, item) for name, item in found.items()]
        below = {name: name.find(delimiter, len(prefix)) for name in found}
        prefixes = {name[:end + len(delimiter)] for name, end in below.items() if end >= 0}
        return [("object", name, found[name]) for name, end in below.items() if end < 0] + [("prefix", name, None) for name in prefixes]


class GcsClient:
    """What tests need of boto3's client: requests to the gate at `port`, which a token allows."""

    def __init__(self, port, token):
        self.gate, self.headers = Http(port), {"Authorization": f"Bearer {token}"}

    def ask(self, method, path, body=b"", **headers):
        status, data = self.gate.ask(method, path, body, {**self.headers, **headers})
        assert status in (200, 204), (method, path, status, data)
        return data

    def path(self, bucket, key):
        return f"/{bucket}/{urllib.parse.quote(key)}"

    def list_buckets(self):
        self.ask("GET", "/")

    def create_bucket(self, Bucket):
        self.ask("PUT", f"/{Bucket}")

    def put_object(self, Bucket, Key, Body=b"", ContentType="application/octet-stream"):
        self.ask("PUT", self.path(Bucket, Key), Body, **{"Content-Type": ContentType})

    def get_object(self, Bucket, Key):
        return {"Body": io.BytesIO(self.ask("GET", self.path(Bucket, Key)))}

    def head_object(self, Bucket, Key):
        return {"ContentLength": len(self.ask("GET", self.path(Bucket, Key)))}

    def delete_object(self, Bucket, Key):
        self.gate.ask("DELETE", self.path(Bucket, Key), headers=self.headers) # 404 is as good

    def list_objects_v2(self, Bucket, Prefix=""):
        found, more = [], {}
        while True:
            text = self.ask("GET", f"/{Bucket}?{urllib.parse.urlencode({'prefix': Prefix, **more})}").decode()
            found += [{"Key": xml.sax.saxutils.unescape(key), "Size": int(size)}
                      for key, size in re.findall(r"<Contents><Key>([^<]*)</Key>.*?<Size>(\d+)</Size></Contents>", text)]
            after = re.search(r"<NextContinuationToken>([^<]*)<", text)
            if not after:
                return {"Contents": found}
            more = {"continuation-token": xml.sax.saxutils.unescape(after[1])}

    def list_multipart_uploads(self, Bucket, Prefix=""):
        text = self.ask("GET", f"/{Bucket}?{urllib.parse.urlencode({'prefix': Prefix, 'uploads': ''})}").decode()
        return {"Uploads": [{"Key": xml.sax.saxutils.unescape(key)} for key in re.findall(r"<Upload><Key>([^<]*)<", text)]}

    def get_paginator(self, _):
        client = self

        class Pages:
            def paginate(self, Bucket, Prefix=""):
                return [client.list_objects_v2(Bucket, Prefix)]
        return Pages()


class Gate(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize, disable_nagle_algorithm = -1, True # head and body in one packet: apart, the second one waits 40 ms for the client's ACK
    backend = key_id = secret = token = None
    uploads, lock = {}, threading.Lock() # id: bucket, key, type, {part: bytes}, when it began

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204 and "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.answer(status, f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode(),
                    Content_Type="application/xml")

    # ---- Who asks

    def is_signed(self, path, query, body):
        authorization = self.headers.get("Authorization", "")
        if authorization == f"Bearer {self.token}":
            return True
        found = re.fullmatch(r"GOOG4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/storage/goog4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]+)",
                             authorization)
        if not found or found[1] != self.key_id or any(name.lower().startswith("x-amz-") for name in self.headers):
            return False
        names = found[4].split(";")
        digest = self.headers["x-goog-content-sha256"]
        if digest not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
            return False
        pairs = sorted(tuple(part.partition("=")[::2]) for part in query.split("&")) if query else []
        canonical = "\n".join([self.command, path, "&".join(f"{name}={value}" for name, value in pairs),
                               *(f"{name}:{' '.join(self.headers[name].split())}" for name in names), "", found[4], digest])
        scope = f"{found[2]}/{found[3]}/storage/goog4_request"
        text = f"GOOG4-HMAC-SHA256\n{self.headers['x-goog-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = ("GOOG4" + self.secret).encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return hmac.compare_digest(hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), found[5])

    # ---- Requests

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        fields = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        bucket, _, key = urllib.parse.unquote(path).lstrip("/").partition("/")
        if not self.is_signed(path, query, body):
            known = self.headers.get("Authorization", "").startswith("GOOG4")
            return self.refuse(403, "SignatureDoesNotMatch") if known else self.refuse(401, "AuthenticationRequired")
        if not key:
            return self.bucket(bucket, fields)
        if "uploads" in fields or "uploadId" in fields:
            return self.parts(bucket, key, fields, body)
        return {"GET": self.get, "HEAD": self.get, "PUT": self.put, "DELETE": self.delete}[self.command](bucket, key, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

    def bucket(self, bucket, fields):
        if not bucket: # is the server ready?
            return self.answer(200) if self.backend.is_ready() else self.refuse(503, "ServiceUnavailable")
        if self.command == "PUT":
            return self.answer(200) if self.backend.create(bucket) else self.refuse(500, "InternalError")
        if "uploads" in fields:
            with self.lock:
                found = sorted((key, name, begun) for name, (b, key, _, _, begun) in self.uploads.items() if b == bucket and key.startswith(fields.get("prefix", "")))
            listed = "".join(f"<Upload><Key>{xml.sax.saxutils.escape(key)}</Key><UploadId>{name}</UploadId><Initiated>{begun}</Initiated></Upload>"
                             for key, name, begun in found)
            return self.answer(200, f"<ListMultipartUploadsResult>{listed}<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>".encode())
        found = self.backend.list(bucket, fields.get("prefix", ""), fields.get("delimiter", ""))
        if found is None:
            return self.refuse(404, "NoSuchBucket")
        found.sort(key=lambda entry: entry[1].encode())
        after = fields.get("continuation-token", "")
        found = [entry for entry in found if entry[1].encode() > after.encode()]
        page, more = found[:PAGE], len(found) > PAGE
        text = "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"
        text += f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        if more:
            text += f"<NextContinuationToken>{xml.sax.saxutils.escape(page[-1][1])}</NextContinuationToken>"
        for kind, name, item in page:
            name = xml.sax.saxutils.escape(name)
            text += (f"<Contents><Key>{name}</Key><Generation>{item['generation']}</Generation><LastModified>{item['updated'][:23].rstrip('Z')}Z</LastModified>"
                     f"<ETag>\"{item.get('etag', '').strip(chr(34))}\"</ETag><Size>{item['size']}</Size></Contents>" if kind == "object" else
                     f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>")
        self.answer(200, (text + "</ListBucketResult>").encode(), Content_Type="application/xml")

    def get(self, bucket, key, _):
        item, data = self.backend.find(bucket, key)
        if not item:
            return self.refuse(404, "NoSuchKey")
        etag = f'"{item.get("etag", "").strip(chr(34))}"'
        if self.headers.get("If-Match") not in (None, etag):
            return self.refuse(412, "PreconditionFailed")
        modified = email.utils.format_datetime(datetime.datetime.fromisoformat(item["updated"][:19] + "+00:00"), usegmt=True)
        headers = {"ETag": etag, "Last_Modified": modified, "Content_Type": item.get("contentType", ""), "x_goog_generation": item["generation"]}
        size = int(item["size"])
        if self.command == "HEAD":
            return self.answer(200, Content_Length=str(size), **headers)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not asked:
            return self.answer(200, data, **headers)
        first = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
        last = min(size - 1, int(asked[2]) if asked[1] and asked[2] else size - 1)
        if first >= size:
            return self.answer(416, b"<Error><Code>InvalidRange</Code></Error>", Content_Range=f"bytes */{size}")
        self.answer(206, data[first:last + 1], Content_Range=f"bytes {first}-{last}/{size}", **headers)

    def store(self, bucket, key, data, kind):
        condition = self.headers.get("x-goog-if-generation-match")
        status, item = self.backend.put(bucket, key, data, kind, condition == "0")
        if status == 412:
            return self.refuse(412, "PreconditionFailed")
        if status != 200:
            return self.refuse(404 if status == 404 else 500, "NoSuchBucket" if status == 404 else "InternalError")
        return f'"{item.get("etag", "").strip(chr(34))}"'

    def put(self, bucket, key, body):
        source = self.headers.get("x-goog-copy-source")
        kind = self.headers.get("Content-Type") or "application/octet-stream"
        if source:
            there, _, name = urllib.parse.unquote(source).lstrip("/").partition("/")
            found, body = self.backend.find(there, name)
            if not found:
                return self.refuse(404, "NoSuchKey")
        etag = self.store(bucket, key, body, kind)
        if etag and source:
            self.answer(200, f"<CopyObjectResult><ETag>{xml.sax.saxutils.escape(etag)}</ETag></CopyObjectResult>".encode())
        elif etag:
            self.answer(200, ETag=etag)

    def delete(self, bucket, key, _):
        return self.answer(204) if self.backend.delete(bucket, key) else self.refuse(404, "NoSuchKey")

    def parts(self, bucket, key, fields, body):
        if "uploads" in fields:
            name, begun = uuid.uuid4().hex * 2, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") # as long as Google's
            with self.lock:
                self.uploads[name] = (bucket, key, self.headers.get("Content-Type") or "application/octet-stream", {}, begun)
            return self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode())
        with self.lock:
            upload = self.uploads.get(fields["uploadId"])
        if not upload or upload[:2] != (bucket, key):
            return self.refuse(404, "NoSuchUpload")
        if self.command == "PUT":
            upload[3][int(fields["partNumber"])] = body
            return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        if self.command == "POST": # which takes no condition
            if any("if-generation-match" in name.lower() for name in self.headers):
                return self.refuse(400, "InvalidArgument")
            etag = self.store(bucket, key, b"".join(upload[3][part] for part in sorted(upload[3])), upload[2])
            if not etag:
                return None
            etag = xml.sax.saxutils.escape(etag)
            self.answer(200, f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>".encode())
        else:
            self.answer(204)
        with self.lock:
            self.uploads.pop(fields["uploadId"], None)
        return None


def serve(port):
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", port), Gate)
    listener.daemon_threads = True
    listener.serve_forever()


def main():
    program, folder, port, Gate.key_id, Gate.secret, Gate.token = sys.argv[1:7]
    if program == MEMORY:
        Gate.backend = Memory()
        return serve(int(port))
    behind = int(port) + 1
    words = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(behind), "-backend", "memory", "-public-host", f"127.0.0.1:{behind}"]
    server = subprocess.Popen(with_this_process(words), stdin=subprocess.DEVNULL, stdout=open(os.path.join(folder, "behind.txt"), "ab"), stderr=subprocess.STDOUT)
    try:
        Gate.backend = FakeGcs(behind)
        threading.Thread(target=lambda: (server.wait(), os._exit(1)), daemon=True).start()
        return serve(int(port))
    finally:
        server.terminate()


if __name__ == "__main__":
    import signal
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main()
