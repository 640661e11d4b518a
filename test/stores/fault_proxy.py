"""A proxy between a client and a server of objects (S3's, Azure's or Google's protocol), both on loopback, that counts and logs requests and injects faults. The Host header is passed on
as it came, so that signatures stay valid.

  with FaultProxy(port_of_server) as proxy:
      proxy.fault("status", kind="PUT", status=503, code="SlowDown", times=2)
      ... requests to proxy.port ...
      assert proxy.count("PUT") == 3

A fault applies to requests of a kind (KINDS) whose path matches, after `skip` of them, `times` times:
  status         answers `status` and `code` (503 SlowDown, 403 AccessDenied, 400 ExpiredToken); the server does not see the request
  reset          closes the connection with RST; the server does not see the request
  lost           the server carries the request out, and its answer never arrives (RST)
  truncate       the right headers, the first `bytes` bytes of the body (default: half), then the end
  flip           the byte at `at` of the answer's body is another one
  garble         each byte of the answer's body is another one
  lag            the entries of a listing that match `lacks` are missing in it
  flip-up        the byte at `at` of the request's body is another one
  ignore-range   answers 200 with `body`, the whole object, to a request for a range
  other-range    the server gets the right range, and says in Content-Range that it is the one a byte later
  denied         a 404 of the server becomes a 403 AccessDenied
  expired        a request that is signed with the key `key_id` gets 400 ExpiredToken; others pass
  region         a request that is signed for another region than `region` gets 400 AuthorizationHeaderMalformed, which names it
  skew           the server's clock is `seconds` ahead: its Date says so, and a request whose date differs by 15 minutes or more gets 403:
                 RequestTimeTooSkewed, from Azure AuthenticationFailed
  delay          answers `ms` milliseconds later
  stall          sends the headers and half of the body, and then nothing for `ms` milliseconds
  replace        the server carries the request out, and the answer is 200 with `body` and `headers`
  swallow        answers 200 with `body`, which is XML; the server does not see the request
`latency_ms` delays every request. Bodies are held in memory.
"""
import datetime
import email.utils
import re
import socket
import struct
import threading
import time
import urllib.parse

DATES = ("x-amz-date", "x-ms-date", "x-goog-date")
KINDS = ("GET", "HEAD", "LIST", "PUT", "COPY", "DELETE", "DELETE-MANY", "CREATE", "PART", "COMPLETE", "ABORT", "UPLOADS")


def kind_of(method, query, headers):
    fields = urllib.parse.parse_qs(query, keep_blank_values=True)
    comp = fields.get("comp", [""])[0]
    if comp: # Azure's
        return {"list": "LIST", "block": "PART", "blocklist": "COMPLETE"}.get(comp, method)
    if "uploadId" in fields:
        return {"PUT": "PART", "POST": "COMPLETE", "DELETE": "ABORT"}.get(method, method)
    if "uploads" in fields:
        return "CREATE" if method == "POST" else "UPLOADS"
    if method == "POST" and "delete" in fields:
        return "DELETE-MANY"
    if method == "GET" and "list-type" in fields:
        return "LIST"
    if method == "PUT" and any(f"x-{maker}-copy-source" in headers for maker in ("amz", "ms", "goog")):
        return "COPY"
    return method


class Message:
    """A request or an answer: the first line, the headers as they came, and as a dict, and the body."""

    def __init__(self, stream, answer_to=None):
        self.line = stream.readline(65536).decode("latin1").rstrip("\r\n")
        if not self.line:
            raise ConnectionError("closed")
        self.raw, self.headers = [], {}
        while True:
            text = stream.readline(65536).decode("latin1").rstrip("\r\n")
            if not text:
                break
            name, value = text.split(":", 1)
            self.raw.append((name, value.strip()))
            self.headers[name.lower()] = value.strip()
        self.status = int(self.line.split()[1]) if answer_to else 0
        self.body = b"" if answer_to == "HEAD" or self.status in (204, 304) or self.status == 100 else self.read_body(stream)

    def read_body(self, stream):
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = b""
            while size := int(stream.readline().split(b";")[0], 16):
                body += stream.read(size)
                stream.readline()
            stream.readline()
            return body
        size = int(self.headers.get("content-length", "0"))
        body = stream.read(size)
        if len(body) < size:
            raise ConnectionError("closed within a body")
        return body

    def text(self, drop=(), size=None):
        lines = [self.line] + [f"{name}: {value}" for name, value in self.raw if name.lower() not in ("transfer-encoding", "content-length", *drop)]
        if size is not None:
            lines.append(f"Content-Length: {size}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin1")


class FaultProxy:
    def __init__(self, upstream, latency_ms=0):
        self.upstream, self.latency_ms = upstream, latency_ms
        self.log, self.rules, self.lock, self.open = [], [], threading.Lock(), True
        self.sockets, self.conditional = set(), threading.Lock()
        self.now, self.most = 0, 0 # requests that have come and have no answer yet, and the most of them at one time

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.open = False
        try:
            self.listener.shutdown(socket.SHUT_RDWR) # else its thread would wait on
        except OSError: # not every system lets a listener be shut down
            pass
        self.listener.close()
        with self.lock:
            for each in list(self.sockets):
                each.close()

    def fault(self, do, kind=None, path="", skip=0, times=1, **more):
        assert kind is None or kind in KINDS
        rule = dict(more, do=do, kind=kind, path=path, skip=skip, times=times, used=0)
        with self.lock:
            self.rules.append(rule)
        return rule

    def clear(self):
        """Forgets all faults and the log."""
        with self.lock:
            self.log, self.rules, self.most = [], [], self.now

    def count(self, kind=None, path=""):
        """How many requests of a kind came, those that got a fault among them."""
        with self.lock:
            return sum(1 for entry in self.log if kind in (None, entry["kind"]) and re.search(path, entry["path"]))

    def kinds(self):
        with self.lock:
            return [entry["kind"] for entry in self.log]

    # ---- Connections

    def accept(self):
        while self.open:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.sockets.add(client)
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        server = [None]
        try:
            stream = client.makefile("rb")
            while self.pass_on(client, stream, server):
                pass
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.sockets.discard(client)
            client.close()
            if server[0]:
                server[0].close()

    def choose(self, kind, path):
        for rule in self.rules:
            if rule["times"] > 0 and rule["kind"] in (None, kind) and re.search(rule["path"], path):
                if rule["skip"] > 0:
                    rule["skip"] -= 1
                    continue
                rule["times"] -= 1
                return rule
        return None

    def ask_server(self, server, request):
        """The server's answer. Conditional requests go one by one: moto looks for an object and stores one in two steps."""
        if "if-none-match" in request.headers:
            with self.conditional:
                return self.forward(server, request)
        return self.forward(server, request)

    def forward(self, server, request):
        """The server's answer. A kept connection that the server has closed is opened again."""
        for attempt in range(2):
            try:
                if not server[0]:
                    server[0] = socket.create_connection(("127.0.0.1", self.upstream))
                    server[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                method = request.line.split()[0]
                server[0].sendall(request.text(("expect",), len(request.body) if request.body or method in ("PUT", "POST") else None) + request.body)
                with server[0].makefile("rb") as stream:
                    answer = Message(stream, method)
                    while answer.status == 100:
                        answer = Message(stream, method)
                if answer.headers.get("connection", "").lower() == "close":
                    server[0].close()
                    server[0] = None
                return answer
            except (OSError, ValueError):
                if server[0]:
                    server[0].close()
                server[0] = None
                if attempt:
                    raise

    def pass_on(self, client, stream, server):
        """Serves one request. Returns False if the connection is to end."""
        request = self.read_request(client, stream)
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return self.serve_one(client, request, server)
        finally:
            with self.lock:
                self.now -= 1

    def serve_one(self, client, request, server):
        method, target, _ = request.line.split(" ", 2)
        path, _, query = target.partition("?")
        entry = {"kind": kind_of(method, query, request.headers), "path": urllib.parse.unquote(path), "query": query, "headers": request.headers,
                 "sent": len(request.body), "fault": "", "status": 0, "time": time.monotonic()}
        with self.lock:
            self.log.append(entry)
            rule = self.choose(entry["kind"], entry["path"])
        do = rule["do"] if rule else ""
        entry["fault"] = do
        time.sleep(self.latency_ms / 1000)
        refused = self.refuse(rule, request) if rule else None
        if refused:
            entry["status"] = refused[0]
            if "x-ms-version" in request.headers: # Azure says the code in a header, too
                refused[2].setdefault("x-ms-error-code", refused[1])
            client.sendall(self.refusal(method, *refused))
            return True
        if do == "reset":
            return self.reset(client)
        if do == "swallow":
            entry["status"] = 200
            client.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {len(rule['body'])}\r\n\r\n".encode() + rule["body"])
            return True
        if do == "flip-up" and request.body:
            at = rule.get("at", 0)
            request.body = request.body[:at] + bytes([request.body[at] ^ 1]) + request.body[at + 1:]
        answer = self.ask_server(server, request)
        entry["status"] = answer.status
        if do == "lost":
            return self.reset(client)
        return self.send(client, method, answer, rule or {"do": ""})

    def read_request(self, client, stream):
        # a client that waits for "100 Continue" gets it as soon as its headers are here: Message reads on into the body
        peeked = stream.peek(65536)[:65536].lower() if hasattr(stream, "peek") else b""
        if b"expect: 100-continue" in peeked:
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return Message(stream)

    def reset(self, client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    # ---- Faults

    def refuse(self, rule, request):
        """(status, code, headers) of an answer that the server has no part in, or None."""
        do, now = rule["do"], datetime.datetime.now(datetime.timezone.utc)
        authorization = request.headers.get("authorization", "")
        if do == "status":
            return rule["status"], rule["code"], dict(rule.get("headers", {}))
        if do == "expired" and f"Credential={rule['key_id']}/" in authorization:
            return 400, "ExpiredToken", {}
        if do == "region" and f"/{rule['region']}/s3/" not in authorization:
            return 400, "AuthorizationHeaderMalformed", {"x-amz-bucket-region": rule["region"]}
        if do == "skew":
            there = now + datetime.timedelta(seconds=rule["seconds"])
            azure, date = "x-ms-date" in request.headers, next(request.headers[name] for name in DATES if name in request.headers)
            dated = email.utils.parsedate_to_datetime(date) if azure else datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
            if abs((there - dated).total_seconds()) >= 900:
                return 403, "AuthenticationFailed" if azure else "RequestTimeTooSkewed", {"Date": email.utils.format_datetime(there, usegmt=True)}
        return None

    def refusal(self, method, status, code, headers):
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>injected</Message><RequestId>F0</RequestId></Error>'.encode()
        if code == "AuthorizationHeaderMalformed":
            body = body.replace(b"</Error>", f"<Region>{headers['x-amz-bucket-region']}</Region></Error>".encode())
        lines = [f"HTTP/1.1 {status} Fault", "Content-Type: application/xml", f"Content-Length: {len(body)}", "x-amz-request-id: F0"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if method == "HEAD" else body)

    def send(self, client, method, answer, rule):
        do, body = rule["do"], answer.body
        drop = ["connection"]
        if do == "denied" and answer.status == 404:
            client.sendall(self.refusal(method, 403, "AccessDenied", {}))
            return True
        if do == "replace":
            answer.line, body = "HTTP/1.1 200 OK", rule["body"]
            answer.raw = list(rule.get("headers", {}).items())
        if do == "ignore-range":
            answer.line, body = "HTTP/1.1 200 OK", rule["body"]
            drop.append("content-range")
        if do == "other-range":
            first, last, size = re.match(r"bytes (\d+)-(\d+)/(\d+)", answer.headers["content-range"]).groups()
            answer.raw = [(n, f"bytes {int(first) + 1}-{int(last) + 1}/{int(size) + 2}" if n.lower() == "content-range" else v) for n, v in answer.raw]
        if do == "flip" and body:
            at = rule.get("at", 0)
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]
        if do == "garble":
            body = bytes(byte ^ 0x5A for byte in body)
        if do == "lag":
            body = re.sub(rb"<(Contents|Blob)>.*?</\1>", lambda entry: b"" if re.search(rule["lacks"], entry.group()) else entry.group(), body, flags=re.S)
        if do == "delay":
            time.sleep(rule["ms"] / 1000)
        size = answer.headers.get("content-length") if method == "HEAD" else None if answer.status in (204, 304) else len(body)
        head = answer.text(drop, size)
        if do == "truncate":
            client.sendall(head + body[:rule.get("bytes", len(body) // 2)])
            return False
        if do == "stall":
            client.sendall(head + body[:len(body) // 2])
            time.sleep(rule["ms"] / 1000)
            return False
        client.sendall(head + body)
        return True
