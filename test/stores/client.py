"""Runs the program client.c: sends it lines, and reads its answers."""
import hashlib
import os
import subprocess
import tempfile

from servers import KEY_ID, NO_METADATA, SECRET


def made_bytes(size, seed):
    """The same bytes as make_bytes of client.c."""
    mask, out = (1 << 64) - 1, bytearray()
    x = (seed * 0x9e3779b97f4a7c15 + 1) & mask
    for _ in range(size):
        x ^= (x << 13) & mask
        x ^= x >> 7
        x ^= (x << 17) & mask
        out.append(x >> 32 & 255)
    return bytes(out)


def md5(data):
    return hashlib.md5(data).hexdigest()


class Answer(dict):
    """`rc`, and the other fields of an answer; `words` are those without a name."""

    def __init__(self, line):
        before, message, text = line.partition(" message=")
        parts = before.split()
        super().__init__(part.split("=", 1) for part in parts if "=" in part and "|" not in part)
        self.words = [part for part in parts if "|" in part]
        self["message"] = text if message else ""
        self.line = line

    def __getattr__(self, name):
        return self[name]


class Client:
    def __init__(self, program, environment=None):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_", "GOOGLE_", "GCE_", "IDENTITY_", "CLOUDSDK_"))}
        self.program = program
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1,
                                        env={**clean, **NO_METADATA, "HOME": "/nonexistent", **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        code = self.process.wait(60)
        self.errors.seek(0)
        text = self.errors.read().decode()
        if kind is None:
            assert code == 0 and not text, f"the client ended with {code}\n{text}"
        elif text:
            print(text)

    def ask(self, *words):
        self.process.stdin.write(" ".join("-" if word == "" else str(word).replace(" ", "\x1f") for word in words) + "\n")
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(60)
            self.errors.seek(0)
            raise AssertionError(f"the client died at {words}: {self.errors.read().decode()}")
        return Answer(line.rstrip("\n"))

    def good(self, *words):
        answer = self.ask(*words)
        assert answer.rc in ("OK", "1"), f"{words}: {answer.line}"
        return answer

    def bad(self, rc, *words, says=""):
        answer = self.ask(*words)
        assert answer.rc == rc and says in answer.message, f"{words}: {answer.line}; expected {rc}: {says}"
        assert SECRET not in answer.line
        return answer

    def scope(self, port, name="s3://bucket", open_too=True, **options):
        given = {"endpoint": f"http://127.0.0.1:{port}", "key_id": KEY_ID, "secret": SECRET, "region": "us-east-1"}
        given.update(options)
        self.good("scope", name, *(f"{key}={value}" for key, value in given.items() if value is not None))
        if open_too:
            self.good("open", name)

    def counters(self):
        return {name: int(value) for name, value in self.good("counters").items() if name not in ("rc", "message")}

    def spent(self, *words):
        """The answer of a call, and the counters that it has changed."""
        before = self.counters()
        answer = self.ask(*words)
        after = self.counters()
        return answer, {name: after[name] - before[name] for name in after if after[name] != before[name] and name not in ("bytes_received", "bytes_sent", "blocks")}
