"""Servers of object stores for tests, on loopback with free ports:

  moto       in memory, from the Python package moto; checks neither signatures nor clocks. This script runs in an environment that has it
             (test/interop/run.py --moto).
  versitygw  a gateway over a directory, from the Go module github.com/versity/versitygw; checks signatures, regions, clocks. It is built into
             a folder on first use, which takes some minutes: versitygw(folder) returns the program, or None where there is no Go.

  azurite    Azure Blob Storage in memory, from the npm package azurite, which is installed into a folder on first use; checks signatures. On a
             disk it would write the descriptions of all blobs anew every five seconds.

  gcs        Google's XML API: a gate of ours (gcs_server.py) before fake-gcs-server, which is built from its Go module; checks signatures.
  gcs_memory the same gate before objects in its own memory: nothing is built, and there is no JSON API.

  minio      in one folder, from the Go module github.com/minio/minio; checks signatures.
  rclone     `rclone serve s3` over a directory, from the Go module github.com/rclone/rclone.

minio and rclone take ten minutes to build: `./run stores` builds them if the environment variable TESSERA_STORES says `all`, and uses them if
they are there.

  with Server("moto", folder) as server:
      server.client().create_bucket(Bucket="b")     # boto3
"""
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time

from gcs_server import MEMORY, GcsClient

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import with_this_process

KEY_ID, SECRET, REGION = "tesseratestkey", "tesseratestsecret", "us-east-1"
ACCOUNT, ACCOUNT_KEY = "tesseratest", base64.b64encode(b"the key of the storage account that only tests have").decode()
AZURITE = "3.37.0" # its version at npm
NOT_OF_AZURITE = ("applicationinsights", "mysql2", "tedious") # telemetry, and databases that it can keep its metadata in: five sixths of 340 MB
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.53.0"
TOKEN = "ya29.a-token-that-only-tests-have"
NO_METADATA = {"AWS_EC2_METADATA_DISABLED": "true", "AZURE_POD_IDENTITY_AUTHORITY_HOST": "http://127.0.0.1:9", "NO_GCE_CHECK": "true"} # no test asks the machine
SCHEMES = {"azurite": "azure", "gcs": "gcs", "gcs_memory": "gcs"} # of the URIs of a server; others: s3
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c" # its releases have no versions that Go knows: this is the commit of one
RCLONE = "github.com/rclone/rclone@v1.71.2"


# moto looks for the service of each request among the folders of its package, and reads each time of a listing anew from its text. That is two
# fifths of a request and a third of a listing: it is to remember what it found.
MOTO = """
import functools
from moto.core import serialize
from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Dispatcher
from moto.server import main
Dispatcher.get_backend_for_host = functools.lru_cache(Dispatcher.get_backend_for_host)
serialize.parse_to_aware_datetime = functools.lru_cache(maxsize=65536)(serialize.parse_to_aware_datetime)
main()
"""


def built(folder, name, module, may_build=True):
    """A program of a Go module, built into the folder if it is not there yet; None if it cannot be built."""
    folder = os.path.abspath(folder) # Go refuses relative ones
    program = os.path.join(folder, "bin", name)
    if os.path.exists(program):
        return program
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if not go or not may_build:
        return None
    os.makedirs(folder, exist_ok=True)
    environment = dict(os.environ, GOBIN=os.path.join(folder, "bin"), GOCACHE=os.path.join(folder, "cache"),
                       GOMODCACHE=os.path.join(folder, "mod"), GOFLAGS="-modcacherw")
    for variable in ("LD_PRELOAD", "ASAN_OPTIONS"):
        environment.pop(variable, None)
    print(f"building {name}; this takes some minutes", flush=True)
    subprocess.run([go, "install", module], env=environment, check=False)
    if not os.path.exists(program):
        return None
    for cache in ("cache", "mod"): # most of a gigabyte that is not needed any more
        shutil.rmtree(os.path.join(folder, cache), ignore_errors=True)
    return program


def azurite(folder):
    """The command that starts Azurite, installed into the folder if it is not there yet; None if it cannot be had. An empty package takes the place
    of those that it never calls here: without them npm has a fourth of the work."""
    node, npm = shutil.which("node"), shutil.which("npm")
    home = os.path.join(os.path.abspath(folder), "npm")
    main = os.path.join(home, "node_modules", "azurite", "dist", "src", "blob", "main.js")
    if node and npm and not os.path.exists(main):
        os.makedirs(os.path.join(home, "none"), exist_ok=True)
        packages = {"package.json": {"private": True, "dependencies": {"azurite": AZURITE}, "overrides": dict.fromkeys(NOT_OF_AZURITE, "file:none")},
                    "none/package.json": {"name": "none", "version": "1.0.0"}}
        for name, package in packages.items():
            with open(os.path.join(home, name), "w", encoding="utf-8") as f:
                json.dump(package, f)
        with open(os.path.join(home, "none", "index.js"), "w", encoding="utf-8"):
            pass
        environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "ASAN_OPTIONS")}
        print("installing azurite", flush=True)
        subprocess.run([npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", home], env=environment, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [node, main] if node and os.path.exists(main) else None


def versitygw(folder):
    return built(folder, "versitygw", VERSITYGW)


def program_of(kind, folder):
    """The program of a server other than moto, or None if it cannot be had."""
    if kind == "azurite":
        return azurite(folder)
    if kind == "gcs":
        return built(folder, "fake-gcs-server", FAKE_GCS)
    if kind == "gcs_memory":
        return MEMORY
    modules = {"versitygw": VERSITYGW, "minio": MINIO, "rclone": RCLONE}
    return built(folder, kind, modules[kind], kind == "versitygw" or os.environ.get("TESSERA_STORES") == "all")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def dask(folder):
    """The Python of an environment that has Dask, made on first use; None if Dask cannot be installed."""
    python = os.path.join(folder, "dask", "bin", "python")
    if not os.path.exists(python) and subprocess.run([sys.executable, "-m", "venv", os.path.join(folder, "dask")], check=False).returncode:
        return None
    installed = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "dask", "distributed"], check=False).returncode == 0
    return os.path.abspath(python) if installed else None


class Server:
    def __init__(self, kind, folder, program=None):
        self.kind, self.folder, self.program = kind, os.path.abspath(folder), program

    def command(self):
        if self.kind == "moto":
            return [sys.executable, "-c", MOTO, "-H", "127.0.0.1", "-p", str(self.port)]
        if self.kind == "azurite":
            return [*self.program, "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--inMemoryPersistence", "--silent", "--loose",
                    "--disableTelemetry", "--skipApiVersionCheck"]
        if SCHEMES.get(self.kind) == "gcs":
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gcs_server.py")
            return [sys.executable, script, self.program, self.folder, str(self.port), KEY_ID, SECRET, TOKEN]
        if self.kind == "minio":
            return [self.program, "server", "--quiet", "--address", f"127.0.0.1:{self.port}", "--console-address", "127.0.0.1:0", f"{self.folder}/data"]
        if self.kind == "rclone":
            return [self.program, "serve", "s3", "--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY_ID},{SECRET}", "--vfs-cache-mode", "off",
                    f"{self.folder}/data"]
        return [self.program, "--port", f"127.0.0.1:{self.port}", "--region", REGION, "posix", "--sidecar", f"{self.folder}/meta", f"{self.folder}/data"]

    def __enter__(self):
        for attempt in range(3): # another program may take the port before the server does
            self.port = free_port()
            shutil.rmtree(self.folder, ignore_errors=True)
            for name in ("data", "meta"):
                os.makedirs(os.path.join(self.folder, name))
            environment = dict(os.environ, ROOT_ACCESS_KEY=KEY_ID, ROOT_SECRET_KEY=SECRET, MINIO_ROOT_USER=KEY_ID,
                               MINIO_ROOT_PASSWORD=SECRET, HOME=self.folder, NO_PROXY="127.0.0.1",
                               S3_IGNORE_SUBDOMAIN_BUCKETNAME="true", AZURITE_ACCOUNTS=f"{ACCOUNT}:{ACCOUNT_KEY}")
            for name in ("LD_PRELOAD", "ASAN_OPTIONS"):
                environment.pop(name, None)
            self.log = open(os.path.join(self.folder, "log.txt"), "ab")
            self.process = subprocess.Popen(with_this_process(self.command()), env=environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
            if self.is_ready():
                return self
            self.__exit__()
        raise RuntimeError(f"{self.kind} does not start: see {self.folder}/log.txt")

    def is_ready(self):
        if self.kind not in SCHEMES:
            import boto3  # noqa: F401; a missing package is told at once: below, every error means "not yet"
        end = time.monotonic() + 300 # moto and Azurite need two seconds of processor time, of which a busy machine may give a hundredth
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.client().list_buckets()
                return True
            except Exception: # not listening, or not ready yet
                time.sleep(0.1)
        return False

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def options(self, port):
        """The options of tessera_configure that reach the server by this port."""
        if self.kind == "azurite":
            return {"endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}", "key": ACCOUNT_KEY}
        options = {"endpoint": f"http://127.0.0.1:{port}", "key_id": KEY_ID, "secret": SECRET}
        return options if SCHEMES.get(self.kind) == "gcs" else dict(options, region=REGION, url_style="path")

    def client(self):
        if self.kind == "azurite":
            from azure_client import AzureClient
            return AzureClient(self.port, ACCOUNT, ACCOUNT_KEY)
        if SCHEMES.get(self.kind) == "gcs":
            return GcsClient(self.port, TOKEN)
        import boto3
        from botocore.config import Config
        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", aws_access_key_id=KEY_ID, aws_secret_access_key=SECRET, region_name=REGION,
                            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, connect_timeout=2, read_timeout=20, proxies={}))
