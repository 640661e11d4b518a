"""Runs a test that needs TileDB, the newest SQLite (the package apsw), libraries of Arrow (with pyarrow or without it) or a server of objects (moto) in a virtual environment, which is made on
first use. If it cannot be made (no network, no wheel for this Python), the exit code is 77, which ctest takes for
"skipped".

usage: run.py [--apsw | --arrow | --bare | --moto] ENVIRONMENT SCRIPT ARGUMENT...
"""
import fcntl
import os
import subprocess
import sys

TILEDB = "tiledb, numpy", [["tiledb==0.36.1"], ["tiledb"]]  # the first one is the version that the corpus was compared with
APSW = "apsw", [["apsw"]]
ARROW = "pyarrow, polars, duckdb, pandas, xarray, dask.array, distributed", [["pyarrow", "polars", "duckdb", "pandas", "xarray", "dask", "distributed", *more]
                                                                              for more in (["tiledb-cf", "apsw", "pysqlite3-binary", "nanoarrow", "narwhals", "arro3-core"], [])]   # these may be missing
BARE = "polars, duckdb, nanoarrow, pandas, importlib.util as u; assert not u.find_spec('pyarrow')", [["polars", "duckdb", "nanoarrow", "pandas"]]
MOTO = "moto.server, boto3; assert moto.__version__ == '5.2.5'", [["moto[s3]==5.2.5", "flask", "flask-cors"]]  # 5.2.1 names an answer wrongly; moto[server] brings all services


def has(python, modules):
    return subprocess.run([python, "-c", f"import {modules}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def make(folder, modules, wanted):
    """Returns the environment's Python, or None."""
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(python) and has(python, modules):
        return python
    if subprocess.run([sys.executable, "-m", "venv", folder], stdout=subprocess.DEVNULL).returncode:
        return None
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}   # the sanitizer's library makes pip slow
    for packages in wanted:   # a package compiles what is imported of it; to compile all takes longer than the download
        result = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--no-compile", "--timeout", "30",
                                 "--retries", "1"] + packages, env=environment)
        if result.returncode == 0 and has(python, modules):
            return python
    return None


def make_alone(folder, modules, wanted):
    """Calls make() while no other test does. So no test imports a package that another one is still installing."""
    os.makedirs(folder, exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return make(folder, modules, wanted)


def main():
    arguments = sys.argv[1:]
    modules, wanted = TILEDB
    if arguments[0] == "--apsw":
        modules, wanted = APSW
        del arguments[0]
    elif arguments[0] == "--arrow":
        modules, wanted = ARROW
        del arguments[0]
    elif arguments[0] == "--bare":
        modules, wanted = BARE
        del arguments[0]
    elif arguments[0] == "--moto":
        modules, wanted = MOTO
        del arguments[0]
    folder, script = arguments[:2]
    python = sys.executable if has(sys.executable, modules) else make_alone(folder, modules, wanted)
    if not python:
        print(f"skipped: the Python package `{wanted[-1][0]}`, which the test needs, could not be installed")
        return 77
    return subprocess.run([python, "-X", "faulthandler", script] + arguments[2:]).returncode # the reference library has crashed before: print where


if __name__ == "__main__":
    sys.exit(main())
