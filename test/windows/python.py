"""A Python for Windows, run by wine: Maven's registry has CPython as Python's own installer leaves it, packed for Java programs.

wine.py says where things lie. The package is pinned by version and hash, and `mvn` brings it. wine gives a program standard streams that it can
use if they are pipes, so output is always read through one.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

import wine

ARTIFACT = "org.bytedeco:cpython:3.14.3-1.5.13:jar:windows-x86_64"
SHA256 = "3291bf3d8f405335ac21dbe55780521fdfd295b0f9f43f7e6e8c55bedd709cb3"
PREFIX = "org/bytedeco/cpython/windows-x86_64/"
UNUSED = ("lib/test/", "lib/idlelib/", "include/", "share/", "jnipython") # a third of it, and the bridge to Java
PLACE = f"{wine.PLACE}/python"


def is_there():
    return os.path.exists(f"{PLACE}/python.exe")


def bring():
    """Unpacks the package into PLACE the first time. Returns whether it is there: without mvn it cannot be had."""
    if is_there():
        return True
    if not shutil.which("mvn"):
        return False
    os.makedirs(wine.PLACE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wine.PLACE) as folder:
        subprocess.run(["mvn", "--quiet", "--batch-mode", "-Dstyle.color=never", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/{os.listdir(folder)[0]}", "rb") as f:
            got = hashlib.sha256(f.read()).hexdigest()
            if got != SHA256:
                sys.exit(f"{ARTIFACT} has the SHA-256 {got}, not {SHA256}")
            with zipfile.ZipFile(f) as archive:
                wanted = [n for n in archive.namelist() if n.startswith(PREFIX) and not n[len(PREFIX):].startswith(UNUSED)]
                archive.extractall(folder, wanted)
        with open(f"{folder}/{PREFIX}lib/sitecustomize.py", "w", encoding="utf-8") as f:
            f.write("import sys\nimport _winapi\n# wine lacks what these call; shutil and platform have other ways\ndel _winapi.CopyFile2\nsys.modules['_wmi'] = None\n")
        os.rename(f"{folder}/{PREFIX}", PLACE)
    return True


def start(arguments, cwd, **more):
    """Starts a program of Python. Its standard output is a pipe, its errors come there, too."""
    return subprocess.Popen([wine.wine(), f"{PLACE}/python.exe", *arguments], cwd=cwd, env=wine.environment(PYTHONDONTWRITEBYTECODE="1", PYTHONUTF8="1", **more),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(arguments, cwd, **more):
    """Returns (the exit status, what was printed)."""
    process = start(arguments, cwd, **more)
    out, _ = process.communicate()
    return process.returncode, out.decode("utf-8", "replace").replace("\r\n", "\n")
