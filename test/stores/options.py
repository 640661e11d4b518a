"""Each option and each kind of credentials of docs/reference/buckets.md, as the server sees them: headers, hosts, proxies, times.

usage: options.py LIBRARY FOLDER [moto | versitygw | azurite | gcs | gcs_memory] [NAME OF TEST ...]
"""
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

from buckets import NAME, There, fresh, load, raises, run, scope, stats, there
from fault_proxy import FaultProxy
from servers import ACCOUNT, ACCOUNT_KEY, KEY_ID, SECRET, TOKEN

COLUMNS = "x INT32 DIMENSION(0, 9, 10), a INT32, b BLOB"


def sent(bucket, name, *statements, **options):
    """The requests of making an array under a scope, filling and reading it."""
    db = bucket.connect(**options)
    bucket.proxy.clear()
    uri = f"s3://{NAME}/{name}"
    for statement in (f"CREATE VIRTUAL TABLE t USING tessera('{uri}', {COLUMNS})", "INSERT INTO t(x, a) VALUES (1, 2)", *statements):
        db.execute(statement).fetchall()
    assert db.execute("SELECT x, a FROM t WHERE x = 1").fetchall() == [(1, 2)]
    return list(bucket.proxy.log)


# Of each cloud: the options that go with a new object, their headers, and the requests that have them. Azure encrypts blocks as they come.
CLOUDS = {"azure": {"storage_class": ("Cool", "x-ms-access-tier", ("PUT", "COMPLETE")),
                    "encryption_scope": ("the-scope", "x-ms-encryption-scope", ("PUT", "PART", "COMPLETE"))},
          "gcs": {"storage_class": ("NEARLINE", "x-goog-storage-class", ("PUT", "CREATE")),
                  "kms_key_id": ("projects/p/the-key", "x-goog-encryption-kms-key-name", ("PUT", "CREATE"))}}


def test_headers_of_clouds(bucket):
    """What an object is to be goes with each request that makes one; who pays on Google goes with each request, and into its signature."""
    large, wanted = "INSERT INTO t(x, b) VALUES (2, randomblob(12000000))", CLOUDS.get(There.scheme)
    if not wanted:
        return
    log = sent(bucket, "headers", large, part_mb=5, **{option: value for option, (value, _, _) in wanted.items()})
    assert {entry["kind"] for entry in log} >= {"PUT", "PART", "COMPLETE", "LIST", "GET"}, {entry["kind"] for entry in log}
    for entry in log:
        for value, header, makes in wanted.values():
            assert entry["headers"].get(header) == (value if entry["kind"] in makes else None), (header, entry)
    if There.scheme == "gcs":
        for payer in ("who-pays", None):
            for entry in sent(bucket, f"payer{bool(payer)}", user_project=payer):
                assert entry["headers"].get("x-goog-user-project") == payer, entry
                signed = re.search("SignedHeaders=([^,]*)", entry["headers"]["authorization"]).group(1).split(";")
                assert ("x-goog-user-project" in signed) == bool(payer), signed


def test_headers(bucket):
    """Encryption and the storage class go with each new object, requester_pays with each request, and the region into each signature."""
    large = "INSERT INTO t(x, b) VALUES (2, randomblob(12000000))"
    makes, given = ("PUT", "CREATE"), {"storage_class": "STANDARD_IA", "sse": "AES256", "part_mb": 5}
    names = {"storage_class": "x-amz-storage-class", "sse": "x-amz-server-side-encryption"}
    log = sent(bucket, "headers", large, **given)
    assert {entry["kind"] for entry in log} >= {"PUT", "CREATE", "PART", "LIST"}
    for entry in log:
        for option, header in names.items():
            assert entry["headers"].get(header) == (given[option] if entry["kind"] in makes else None), (header, entry)
    if bucket.server.kind == "moto": # others have no such keys
        for entry in sent(bucket, "kms", sse="aws:kms", kms_key_id="the-key"):
            key = entry["headers"].get("x-amz-server-side-encryption-aws-kms-key-id"), entry["headers"].get("x-amz-server-side-encryption")
            assert key == (("the-key", "aws:kms") if entry["kind"] == "PUT" else (None, None)), entry
    for pays in (True, False):
        for entry in sent(bucket, f"payer{pays}", requester_pays=pays):
            assert entry["headers"].get("x-amz-request-payer") == ("requester" if pays else None), entry
            signed = re.search("SignedHeaders=([^,]*)", entry["headers"]["authorization"]).group(1).split(";")
            assert ("x-amz-request-payer" in signed) == pays, signed
    if bucket.server.kind == "moto":
        for entry in sent(bucket, "region", region="ap-south-2", session_token="the-token"):
            assert "/ap-south-2/s3/aws4_request" in entry["headers"]["authorization"] and entry["headers"]["x-amz-security-token"] == "the-token", entry


def test_hosts(bucket):
    """url_style decides whether the bucket is a part of the host or of the path."""
    db = bucket.connect(direct=True)
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/hosts', {COLUMNS})")
    for style in ("path", "virtual"):
        db = load(bucket.library)
        scope(db, 0, endpoint=f"http://localhost:{bucket.proxy.port}", url_style=style, plain_http=True, retries=0)
        bucket.proxy.clear()
        try:
            db.execute(f"SELECT * FROM tessera_array('s3://{NAME}/hosts')").fetchall()
        except Exception as error: # a server need not know hosts; libcurl before 7.78 does not know names below localhost
            assert style == "virtual", error
            if not bucket.proxy.log:
                assert "resolve" in str(error), error
                continue
        host, path = bucket.proxy.log[0]["headers"]["host"], bucket.proxy.log[0]["path"]
        assert (host.startswith(NAME + ".localhost:"), path.startswith("/" + NAME)) == (style == "virtual", style == "path"), (style, host, path)


class ForwardProxy:
    """An HTTP proxy, which connects to one port, whatever host a request names."""

    def __init__(self, port):
        self.to, self.lines = port, []

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.close()

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        """Serves one request of each connection: its absolute URL becomes a path, and the answer ends the connection."""
        with client, client.makefile("rb") as stream, socket.create_connection(("127.0.0.1", self.to)) as server:
            line, headers, size = stream.readline().decode(), b"", 0
            self.lines.append(line.strip())
            method, url, version = line.split(" ", 2)
            while (header := stream.readline()).strip():
                name = header.split(b":")[0].lower()
                size = int(header.split(b":")[1]) if name == b"content-length" else size
                headers += b"" if name in (b"connection", b"proxy-connection", b"expect") else header
                if name == b"expect":
                    client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            server.sendall(f"{method} {re.sub('^http://[^/]*', '', url)} {version}".encode() + headers + b"Connection: close\r\n\r\n" + stream.read(size))
            with server.makefile("rb") as answer:
                status = answer.readline()
                head, length = b"", None
                while (header := answer.readline()).strip():
                    length = int(header.split(b":")[1]) if header.lower().startswith(b"content-length") else length
                    head += b"" if header.lower().startswith(b"connection") else header
                client.sendall(status + head + b"Connection: close\r\n\r\n")
                if method != "HEAD":
                    client.sendall(answer.read(length) if length is not None else answer.read())


def test_proxy(bucket):
    """`proxy` is used, those of the environment are not; plain_http allows another host than this machine, which the proxy resolves."""
    with ForwardProxy(bucket.proxy.port) as proxy:
        log = sent(bucket, "proxied", proxy=f"http://127.0.0.1:{proxy.port}")
        assert len(proxy.lines) >= len(log) > 5 and all(" http://127.0.0.1:" in line for line in proxy.lines), proxy.lines[:3]
        count = len(proxy.lines)
        os.environ["http_proxy"] = os.environ["ALL_PROXY"] = f"http://127.0.0.1:{proxy.port}"
        try:
            sent(bucket, "direct")
        finally:
            del os.environ["http_proxy"], os.environ["ALL_PROXY"]
        assert len(proxy.lines) == count
        if bucket.server.kind == "moto": # others check the signed host
            db = load(bucket.library)
            scope(db, 0, endpoint="http://store.example", plain_http=True, proxy=f"http://127.0.0.1:{proxy.port}")
            assert db.execute(f"SELECT cells FROM tessera_array('s3://{NAME}/proxied')").fetchall() == [(1,)]
            assert " http://store.example/" in proxy.lines[-1], proxy.lines[-1]
            scope(db, 0, endpoint="http://storage.googleapis.com", plain_http=True, proxy=f"http://127.0.0.1:{proxy.port}") # no scope of Google's: S3's words
            bucket.proxy.fault("replace", kind="PUT", path="proof", body=b"", headers={"ETag": '"x"'}, times=9)
            assert db.execute(f"SELECT cells FROM tessera_array('s3://{NAME}/proxied')").fetchall() == [(1,)]
            message = raises(db, f"CREATE VIRTUAL TABLE n USING tessera('s3://{NAME}/there', {COLUMNS})", code="SQLITE_READONLY", says="the server ignores If-None-Match")
            assert message.endswith("it can only be read; the paths of Google Cloud Storage that can be written begin with gcs://"), message
            bucket.proxy.clear()
    db = bucket.connect(proxy="http://127.0.0.1:1", retries=0)
    bucket.proxy.clear()
    raises(db, f"SELECT * FROM tessera_array('s3://{NAME}/direct')", code="SQLITE_BUSY")
    assert not bucket.proxy.log, "without its proxy it reaches the server"


def test_numbers(bucket):
    """retries, refresh_ms, stall_ms, connect_ms and parallel have the effects that the manual says."""
    sent(bucket, "numbers", *(f"INSERT INTO t(x, a) VALUES ({x}, 1)" for x in range(2, 9)))
    query = f"SELECT count(*) FROM tessera_fragments('s3://{NAME}/numbers')"
    for retries in (0, 2):
        db = bucket.connect(retries=retries)
        bucket.proxy.clear()
        bucket.proxy.fault("status", kind="LIST", path="", status=503, code="SlowDown", times=999)
        raises(db, query, code="SQLITE_BUSY")
        found = stats(db).get("retries", 0)
        assert found >= retries and found % 2 == 0 and (found > 0) == (retries > 0), (retries, found)
    for refresh, lists in ((60000, False), (0, True)):
        bucket.proxy.clear()
        db = bucket.connect(refresh_ms=refresh)
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera('s3://{NAME}/numbers')")
        db.execute("SELECT count(*) FROM t").fetchall()
        time.sleep(0.2) # what opening listed counts for 100 ms
        bucket.proxy.clear()
        db.execute("SELECT count(*) FROM t").fetchall()
        assert (bucket.proxy.count("LIST") > 0) == lists, refresh
    for milliseconds, slow in ((1000, True), (15000, False)):
        bucket.proxy.clear()
        db = bucket.connect(stall_ms=milliseconds, retries=0)
        bucket.proxy.fault("delay", kind="LIST", ms=4000 if slow else 1500, times=99 if slow else 1) # the engine lists once more if a listing fails
        if slow:
            raises(db, query, code="SQLITE_BUSY")
        else:
            assert db.execute(query).fetchall() == [(8,)]
    with socket.socket() as silent: # connections beyond its backlog get no answer
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            waiting[-1].connect_ex(silent.getsockname())
        for milliseconds in (300, 2500):
            db = load(bucket.library)
            scope(db, silent.getsockname()[1], connect_ms=milliseconds, retries=0)
            started = time.monotonic()
            raises(db, query, code="SQLITE_BUSY")
            assert (time.monotonic() - started >= 2) == (milliseconds > 2000), (milliseconds, time.monotonic() - started)
        for each in waiting:
            each.close()
    for parallel in (1, 16):
        bucket.proxy.clear()
        bucket.proxy.latency_ms = 30
        db, started = bucket.connect(parallel=parallel), time.monotonic()
        db.execute(f"SELECT * FROM tessera_check('s3://{NAME}/numbers')").fetchall()
        moments = sorted(entry["time"] for entry in bucket.proxy.log)
        close = max(sum(1 for other in moments if moment <= other < moment + 0.02) for moment in moments)
        bucket.proxy.latency_ms = 0
        assert (close > 1) == (parallel > 1), (parallel, close, time.monotonic() - started)


# ---- Credentials

class Services(http.server.BaseHTTPRequestHandler):
    """The services of a container, of an instance and for web identities, with the keys `keys`."""

    protocol_version = "HTTP/1.1"
    keys, asked = {}, []

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Metadata-Flavor", "Google")
        self.end_headers()
        self.wfile.write(text.encode())

    def hand_out(self, path):
        """A token, to those who ask as Azure and Google want it."""
        google = path.startswith("/computeMetadata/v1/instance/service-accounts/default/token")
        good = {"google": self.headers.get("Metadata-Flavor") == "Google", "azure": self.headers.get("Metadata") == "true" or self.headers.get("X-IDENTITY-HEADER") == "the pass"}
        if self.command == "GET" and not good["google" if google else "azure"]:
            return self.answer(401, "")
        return self.answer(200, json.dumps({"access_token": self.keys["token"], "expires_in": 3599, "token_type": "Bearer"}))

    def do_GET(self):
        Services.asked.append((self.path, self.headers.get("Authorization"), self.headers.get("X-aws-ec2-metadata-token")))
        if "Metadata-Flavor" in self.headers or "Metadata" in self.headers or "X-IDENTITY-HEADER" in self.headers:
            return self.hand_out(self.path)
        keys = {"AccessKeyId": self.keys["id"], "SecretAccessKey": self.keys["secret"], "Token": self.keys["token"], "Expiration": "2999-01-01T00:00:00Z", "Code": "Success"}
        if self.path == "/container":
            return self.answer(200 if self.headers.get("Authorization") == "the pass" else 401, json.dumps(keys))
        if self.headers.get("X-aws-ec2-metadata-token") != "session":
            return self.answer(401, "")
        role = "/latest/meta-data/iam/security-credentials/"
        return self.answer(*{role: (200, "role"), role + "role": (200, json.dumps(keys))}.get(self.path, (404, "")))

    def do_PUT(self):
        self.answer(200, "session")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        Services.asked.append((self.path, body, None))
        if self.path != "/":
            return self.hand_out(self.path)
        return self.answer(200, "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
                    f"<AccessKeyId>{self.keys['id']}</AccessKeyId><SecretAccessKey>{self.keys['secret']}</SecretAccessKey><SessionToken>{self.keys['token']}</SessionToken>"
                    "<Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")

    def log_message(self, *_):
        pass


READER = """
import json, os, sqlite3, sys
db = sqlite3.connect(":memory:", isolation_level=None); db.enable_load_extension(True); db.load_extension(sys.argv[1])
db.execute("SELECT tessera_configure(?, ?)", (sys.argv[2].rsplit("/", 1)[0], sys.argv[3])).fetchall()
print(db.execute("SELECT cells FROM tessera_array(?)", (sys.argv[2],)).fetchall())
"""


def reads(bucket, name, options, environment):
    """Reads an array in a process with this environment. Returns what it said, and the headers of its requests."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "IDENTITY_"))}
    bucket.proxy.clear()
    done = subprocess.run([sys.executable, "-c", READER, os.path.splitext(bucket.library)[0], there(f"s3://{NAME}/{name}"), json.dumps(options)],
                          env={**clean, **environment}, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert not any(secret in said for secret in (SECRET, ACCOUNT_KEY, TOKEN)), said
    return said, [entry["headers"] for entry in bucket.proxy.log], [entry["query"] for entry in bucket.proxy.log]


class Asked:
    """The services of a machine in a cloud, while a test asks them for tokens."""

    def __enter__(self):
        Services.keys, Services.asked[:] = {"token": TOKEN}, []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Services)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def paths_asked():
    """The paths of the requests to the services, without their queries; there are none then."""
    paths = [path.partition("?")[0] for path, _, _ in Services.asked]
    Services.asked.clear()
    return paths


def test_credentials_of_azure(bucket):
    """Each provider for Azure: keys and signatures as Azurite checks them, tokens as it sees them, since it takes none without TLS."""
    if There.scheme != "azure":
        return
    from azure_client import shared_access_signature
    sent(bucket, "credentials")
    endpoint = {"endpoint": f"http://127.0.0.1:{bucket.proxy.port}/{ACCOUNT}", "retries": 0}
    key, sas = {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": ACCOUNT_KEY}, shared_access_signature(ACCOUNT, ACCOUNT_KEY, NAME)
    connection = f"DefaultEndpointsProtocol=https;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};EndpointSuffix=core.windows.net"
    for environment, form in ((key, "SharedKey "), ({"AZURE_STORAGE_CONNECTION_STRING": connection}, "SharedKey "),
                              ({"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": sas}, None)):
        for provider in ("env", "auto"):
            said, headers, queries = reads(bucket, "credentials", {"provider": provider, **endpoint}, environment)
            assert "[(1,)]" in said and headers, (environment.keys(), said)
            assert all(each.get("authorization", "").startswith(form or "") and ("authorization" in each) == bool(form) for each in headers), headers
            assert all(("sig=" in query) == (form is None) for query in queries), queries
    connection += f";BlobEndpoint={endpoint['endpoint']}"
    said, headers, _ = reads(bucket, "credentials", {"provider": "env", "retries": 0}, {"AZURE_STORAGE_CONNECTION_STRING": connection})
    assert "[(1,)]" in said and headers, said
    said, headers, _ = reads(bucket, "credentials", {"provider": "env", **endpoint}, {"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"})
    assert "status 403" in said and headers[0]["authorization"].startswith(f"SharedKey {ACCOUNT}:"), (said, headers) # the emulator's own key, which is another
    said, headers, _ = reads(bucket, "credentials", {"provider": "env", **endpoint}, {})
    assert "AZURE_STORAGE_ACCOUNT is not set" in said and "AZURE_TENANT_ID" in said and not headers, said
    said, headers, _ = reads(bucket, "credentials", {"provider": "anonymous", **endpoint}, key)
    assert "refused" in said and headers and not any("authorization" in each for each in headers), said
    federated = os.path.join(fresh(os.path.join(bucket.folder, "credentials")), "federated")
    with open(federated, "w", encoding="utf-8") as file:
        file.write("the federated token\n")
    with Asked() as services:
        client = {"AZURE_TENANT_ID": "the-tenant", "AZURE_CLIENT_ID": "the-client", "AZURE_AUTHORITY_HOST": f"http://{services}/"}
        for environment, path in (({**client, "AZURE_CLIENT_SECRET": "s"}, "/the-tenant/oauth2/v2.0/token"),
                                  ({**client, "AZURE_FEDERATED_TOKEN_FILE": federated}, "/the-tenant/oauth2/v2.0/token"),
                                  ({"IDENTITY_ENDPOINT": f"http://{services}/identity", "IDENTITY_HEADER": "the pass"}, "/identity"),
                                  ({"AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{services}"}, "/metadata/identity/oauth2/token")):
            said, headers, _ = reads(bucket, "credentials", {"provider": "auto", **endpoint}, environment)
            assert headers and all(each["authorization"] == f"Bearer {TOKEN}" for each in headers), (said, headers)
            asked = paths_asked()
            assert set(asked) == {path}, (asked, said)


def test_credentials_of_google(bucket):
    """Each provider for Google. The gate takes HMAC keys and one token, and nothing else."""
    if There.scheme != "gcs":
        return
    sent(bucket, "credentials")
    folder, endpoint = fresh(os.path.join(bucket.folder, "credentials")), {"endpoint": f"http://127.0.0.1:{bucket.proxy.port}", "retries": 0}
    key = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], capture_output=True, text=True, check=True).stdout
    with Asked() as services:
        account = {"type": "service_account", "client_email": "a@b", "private_key_id": "k", "private_key": key, "token_uri": f"http://{services}/token"}
        user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r", "token_uri": f"http://{services}/token"}
        for name, credentials in (("account", account), ("application_default_credentials", user)):
            with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
                json.dump(credentials, file)
        file = {"GOOGLE_APPLICATION_CREDENTIALS": f"{folder}/account.json"}
        metadata = {"GCE_METADATA_HOST": services, "NO_GCE_CHECK": "false", "HOME": "/nowhere"}
        for options, environment, path in (({"provider": "env"}, file, "/token"), ({"provider": "auto"}, file, "/token"),
                                           ({"provider": "profile"}, {"CLOUDSDK_CONFIG": folder}, "/token"), ({"provider": "auto"}, {"CLOUDSDK_CONFIG": folder}, "/token"),
                                           ({"service_account_file": f"{folder}/account.json"}, {}, "/token"), ({"service_account": json.dumps(account)}, {}, "/token"),
                                           ({"provider": "auto"}, metadata, "/computeMetadata/v1/instance/service-accounts/default/token")):
            said, headers, _ = reads(bucket, "credentials", {**options, **endpoint}, environment)
            assert "[(1,)]" in said and headers and all(each["authorization"] == f"Bearer {TOKEN}" for each in headers), (options.keys(), said)
            asked = paths_asked()
            assert asked == [path], (asked, said)
        for options, environment, words in (({"provider": "env"}, {}, "GOOGLE_APPLICATION_CREDENTIALS is not set"), ({"provider": "profile"}, {"CLOUDSDK_CONFIG": "/nowhere"}, "no file"),
                                            ({"token": "another"}, {}, "the server does not accept the token"), ({"provider": "anonymous"}, {}, "refused")):
            said, headers, _ = reads(bucket, "credentials", {**options, **endpoint}, environment)
            assert words in said, (options, said)
        assert not paths_asked()


def make_public(bucket):
    """Lets everybody list the bucket and read its objects."""
    if bucket.server.kind == "moto": # it looks at ACLs alone
        bucket.boto.put_bucket_acl(Bucket=NAME, ACL="public-read")
        for key in bucket.keys("credentials"):
            bucket.boto.put_object_acl(Bucket=NAME, Key=key, ACL="public-read")
        return
    allow = {"Effect": "Allow", "Principal": "*"}
    bucket.boto.put_bucket_policy(Bucket=NAME, Policy=json.dumps({"Version": "2012-10-17", "Statement": [
        {**allow, "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{NAME}"}, {**allow, "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{NAME}/*"}]}))


def test_credentials(bucket):
    """Each provider of the manual, as the server sees its keys. versitygw checks the signatures; it knows no session tokens."""
    sent(bucket, "credentials")
    folder = fresh(os.path.join(bucket.folder, "credentials"))
    token = "the-session-token" if bucket.server.kind == "moto" else ""
    Services.keys = {"id": KEY_ID, "secret": SECRET, "token": token}
    for name, text in (("credentials", f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n\n"
                        f"[named]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\naws_session_token = {token or 'none'}\n"), ("web", "the web token")):
        os.makedirs(f"{folder}/.aws", exist_ok=True)
        with open(f"{folder}/.aws/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Services)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    services = f"http://127.0.0.1:{server.server_address[1]}"
    keys = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
    container = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": services + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "the pass"}
    instance = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": services}
    web = {"AWS_WEB_IDENTITY_TOKEN_FILE": f"{folder}/.aws/web", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r", "AWS_ENDPOINT_URL_STS": services}
    none = {"HOME": "/nowhere"}

    def read(options, environment, said="[(1,)]", with_token=False):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        options = {"endpoint": f"http://127.0.0.1:{bucket.proxy.port}", "region": "us-east-1", "retries": 0, **options}
        bucket.proxy.clear()
        done = subprocess.run([sys.executable, "-c", READER, os.path.splitext(bucket.library)[0], f"s3://{NAME}/credentials", json.dumps(options)],
                              env={**clean, "HOME": folder, **environment}, capture_output=True, text=True, timeout=60, check=False)
        assert said in done.stdout + done.stderr, (said, options, environment, done.stdout, done.stderr[-400:])
        assert SECRET not in done.stdout + done.stderr
        for entry in bucket.proxy.log:
            assert ("authorization" in entry["headers"]) == (options.get("provider") != "anonymous"), entry
            assert entry["headers"].get("x-amz-security-token") == (token if with_token else None), entry
        return len(bucket.proxy.log)

    assert read({"provider": "env"}, {**keys, **none})
    assert not read({"provider": "env"}, none, "AWS_ACCESS_KEY_ID")
    assert read({"provider": "profile"}, {})
    assert not read({"provider": "profile"}, {"AWS_PROFILE": "unknown"}, "unknown")
    for options in ({"provider": "auto"}, {}):
        for environment in ({**keys, **none}, {}, {**container, **none}, {**instance, **none}, *([{**web, **none}] if token else [])): # an identity has a token
            assert read(options, environment, with_token=bool(token) and any(name in environment for name in (*container, *instance, *web)))
    if token: # the server checks nothing
        assert read({"provider": "env"}, {**keys, **none, "AWS_SESSION_TOKEN": token}, with_token=True)
        assert read({"provider": "profile"}, {"AWS_PROFILE": "named"}, with_token=True)
        assert read({"key_id": KEY_ID, "secret": SECRET, "session_token": token}, none, with_token=True)
    assert read({"provider": "anonymous"}, none, "refused")
    make_public(bucket)
    assert read({"provider": "anonymous"}, none)
    paths = {path for path, _, _ in Services.asked}
    assert {"/container", "/latest/meta-data/iam/security-credentials/role"} <= paths, paths
    assert not token or any(path == "/" and "WebIdentityToken=the" in body for path, body, _ in Services.asked), Services.asked
    server.shutdown()
    server.server_close()


S3_ALONE = (test_headers, test_hosts, test_credentials)
TESTS = S3_ALONE + (test_headers_of_clouds, test_proxy, test_numbers, test_credentials_of_azure, test_credentials_of_google)

if __name__ == "__main__":
    sys.exit(run(TESTS, "options", S3_ALONE))
