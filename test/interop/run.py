"""Runs a test that needs TileDB itself, in a virtual environment that has it; makes that on first use. Exit code 77, which ctest
takes for "skipped", where it cannot be had: no network, no wheel for this Python.

usage: run.py ENVIRONMENT SCRIPT ARGUMENT...
"""
import os
import subprocess
import sys

WANTED = [["tiledb==0.36.1"], ["tiledb"]]  # the first is the one that all was compared with


def has_tiledb(python):
    return subprocess.run([python, "-c", "import tiledb, numpy"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def make(folder):
    """The environment's Python, or None."""
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(python) and has_tiledb(python):
        return python
    if subprocess.run([sys.executable, "-m", "venv", folder], stdout=subprocess.DEVNULL).returncode:
        return None
    for packages in WANTED:
        result = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--timeout", "30",
                                 "--retries", "1"] + packages)
        if result.returncode == 0 and has_tiledb(python):
            return python
    return None


def main():
    folder, script = sys.argv[1:3]
    python = sys.executable if has_tiledb(sys.executable) else make(folder)
    if not python:
        print("skipped: the Python package `tiledb`, which brings the reference library, could not be installed")
        return 77
    return subprocess.run([python, "-X", "faulthandler", script] + sys.argv[3:]).returncode # the reference library has died before: where?


if __name__ == "__main__":
    sys.exit(main())
