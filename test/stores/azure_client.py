"""What tests need of boto3's client, for containers of an Azure Blob server: requests signed by Shared Key.

Only the names and shapes that the tests use are here; `Bucket` is a container.
"""
import base64
import datetime
import email.utils
import hashlib
import hmac
import http.client
import urllib.parse
import xml.etree.ElementTree

VERSION = "2021-12-02"


class AzureError(Exception):
    def __init__(self, status, code):
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


def string_to_sign(method, account, path, query, headers, size):
    """What Shared Key signs: `path` is encoded, `query` a list of decoded pairs, `headers` a dict with names in lower case."""
    fields = ["content-encoding", "content-language", None, "content-md5", "content-type", "date", "if-modified-since", "if-match", "if-none-match",
              "if-unmodified-since", "range"]
    lines = [method] + [(str(size) if size else "") if name is None else headers.get(name, "") for name in fields]
    lines += [f"{name}:{headers[name]}" for name in sorted(headers) if name.startswith("x-ms-")]
    return "\n".join(lines) + f"\n/{account}{path}" + "".join(f"\n{name}:{value}" for name, value in sorted(query))


def shared_access_signature(account, key, container, permissions="racwdl", minutes=60):
    """A shared access signature of a container."""
    now = datetime.datetime.now(datetime.timezone.utc)
    end = (now + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    fields = [permissions, "", end, f"/blob/{account}/{container}", "", "", "", VERSION, "c", "", "", "", "", "", "", ""]
    signature = base64.b64encode(hmac.new(base64.b64decode(key), "\n".join(fields).encode(), hashlib.sha256).digest()).decode()
    return urllib.parse.urlencode({"sv": VERSION, "se": end, "sr": "c", "sp": permissions, "sig": signature})


class AzureClient:
    def __init__(self, port, account, key):
        self.port, self.account, self.key = port, account, base64.b64decode(key)

    def ask(self, method, path, query=(), body=b"", **headers):
        """Sends a request to "container/key"; returns status, headers and body."""
        encoded = f"/{self.account}/" + urllib.parse.quote(path, safe="/~")
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers.update({"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": VERSION})
        text = string_to_sign(method, self.account, encoded, query, headers, len(body))
        signature = base64.b64encode(hmac.new(self.key, text.encode(), hashlib.sha256).digest()).decode()
        headers["Authorization"] = f"SharedKey {self.account}:{signature}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, encoded + ("?" + urllib.parse.urlencode(query) if query else ""), body, {"Content-Length": str(len(body)), **headers})
            answer = connection.getresponse()
            data, found = answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()
        if answer.status >= 300:
            raise AzureError(answer.status, found.get("x-ms-error-code", ""))
        return answer.status, found, data

    def list_buckets(self):
        return self.ask("GET", "", [("comp", "list")])

    def create_bucket(self, Bucket):
        self.ask("PUT", Bucket, [("restype", "container")])

    def put_object(self, Bucket, Key, Body=b"", ContentType=None):
        more = {"x_ms_blob_content_type": ContentType} if ContentType else {}
        self.ask("PUT", f"{Bucket}/{Key}", body=Body, x_ms_blob_type="BlockBlob", **more)

    def get_object(self, Bucket, Key):
        import io
        return {"Body": io.BytesIO(self.ask("GET", f"{Bucket}/{Key}")[2])}

    def head_object(self, Bucket, Key):
        _, headers, _ = self.ask("HEAD", f"{Bucket}/{Key}")
        return {"ContentLength": int(headers["content-length"]), "ContentType": headers.get("content-type", "")}

    def delete_object(self, Bucket, Key):
        try:
            self.ask("DELETE", f"{Bucket}/{Key}")
        except AzureError as error:
            if error.status != 404:
                raise

    def list_objects_v2(self, Bucket, Prefix=""):
        found, marker = [], ""
        while True:
            query = [("comp", "list"), ("prefix", Prefix), ("restype", "container")] + [("marker", marker)] * bool(marker)
            root = xml.etree.ElementTree.fromstring(self.ask("GET", Bucket, query)[2].decode("utf-8-sig"))
            found += [{"Key": blob.findtext("Name"), "Size": int(blob.findtext("Properties/Content-Length"))} for blob in root.iter("Blob")]
            marker = root.findtext("NextMarker") or ""
            if not marker:
                return {"Contents": found}

    def get_paginator(self, _):
        client = self

        class Pages:
            def paginate(self, Bucket, Prefix=""):
                return [client.list_objects_v2(Bucket, Prefix)]
        return Pages()
