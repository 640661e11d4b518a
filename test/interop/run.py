"""Runs a test that needs TileDB, the newest SQLite (the package apsw), libraries of Arrow (with pyarrow or without it), a server of objects (moto) or tools of SQLite (Datasette and others) in a virtual environment, which is made on
first use. If it cannot be made (no network, no wheel for this Python), the exit code is 77, which ctest takes for
"skipped".

usage: run.py [--apsw | --arrow | --bare | --files | --moto | --tools] ENVIRONMENT SCRIPT ARGUMENT...
"""
import fcntl
import glob
import os
import signal
import subprocess
import sys

TILEDB = "tiledb, numpy", [["tiledb==0.36.1"], ["tiledb"]]  # the first one is the version that the corpus was compared with
APSW = "apsw", [["apsw"]]
ARROW = "pyarrow, polars, duckdb, pandas, xarray, dask.array, distributed", [["pyarrow", "polars", "duckdb", "pandas", "xarray", "dask", "distributed", "cftime", *more]
                                                                              for more in (["tiledb-cf", "apsw", "pysqlite3-binary", "nanoarrow", "narwhals", "arro3-core"], [])]   # these may be missing
FILES = "pyarrow, pandas, xarray", [["netCDF4", "zarr", "rioxarray", "geopandas", "laspy", "cyvcf2", "anndata", "scipy"], ["netCDF4", "rioxarray", "anndata", "scipy"], ["xarray"]]   # files.py names what is missing
BARE = "polars, duckdb, nanoarrow, pandas, importlib.util as u; assert not u.find_spec('pyarrow')", [["polars", "duckdb", "nanoarrow", "pandas"]]
TOOLS = "datasette, sqlalchemy, sqlite_utils", [["datasette", "sqlalchemy", "sqlite-utils"]]
MOTO = "moto.server, boto3; assert moto.__version__ == '5.2.5'", [["moto[s3]==5.2.5", "flask", "flask-cors"]]  # 5.2.1 names an answer wrongly; moto[server] brings all services


def has(python, modules):
    return subprocess.run([python, "-c", f"import {modules}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def packages_of(folder):
    return glob.glob(os.path.join(os.path.abspath(folder), "lib", "python*", "site-packages"))


def has_pip(place):
    return any(os.path.exists(os.path.join(packages, "pip", "__main__.py")) for packages in packages_of(place))


def plain():
    """The environment variables without the sanitizer's library, which makes pip slow."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def pip_of(folder):
    """Returns the folder that has pip and nothing else, beside an environment; None if there is no pip. All environments there share it: to install pip takes longer than most packages."""
    place = os.path.join(os.path.dirname(os.path.abspath(folder)), "pip")
    with open(place + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not has_pip(place):
            subprocess.run([sys.executable, "-m", "venv", place], stdout=subprocess.DEVNULL, env=plain())
            subprocess.run([os.path.join(place, "bin", "python"), "-m", "pip", "uninstall", "-q", "-y", "setuptools"], stdout=subprocess.DEVNULL, env=plain())
        return packages_of(place)[0] if has_pip(place) else None


def make(folder, modules, wanted, below=()):
    """Returns the environment's Python, or None. An environment that has been tried and found complete has the file `complete`. It also has the packages of the environments `below`."""
    python, complete = os.path.join(folder, "bin", "python"), os.path.join(folder, "complete")
    if os.path.exists(python) and os.path.exists(complete):
        with open(complete, encoding="utf-8") as f:
            if f.read() == modules:
                return python
    pip = pip_of(folder)
    if not pip or subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], stdout=subprocess.DEVNULL).returncode:
        return None
    if below:
        with open(os.path.join(packages_of(folder)[0], "below.pth"), "w", encoding="utf-8") as f:
            f.writelines(f"{packages_of(place)[0]}\n" for place in below)
    for packages in wanted:   # a package compiles what is imported of it; to compile all takes longer than the download
        result = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--no-compile", "--timeout", "30",
                                 "--retries", "1"] + packages, env=dict(plain(), PYTHONPATH=pip))
        if result.returncode == 0 and has(python, modules):
            with open(complete, "w", encoding="utf-8") as f:
                f.write(modules)
            return python
    return None


def make_alone(folder, modules, wanted, below=()):
    """Calls make() while no other test does. So no test imports a package that another one is still installing."""
    os.makedirs(folder, exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return make(folder, modules, wanted, below)


def main():
    arguments = sys.argv[1:]
    kinds = {"--apsw": APSW, "--arrow": ARROW, "--bare": BARE, "--files": FILES, "--moto": MOTO, "--tools": TOOLS}
    kind = arguments.pop(0) if arguments[0] in kinds else None
    modules, wanted = kinds.get(kind, TILEDB)
    folder, script = arguments[:2]
    python = sys.executable if has(sys.executable, modules) else None
    if not python:   # the environment with pyarrow has the packages of the one without it, which are large, and more; that of files has those of both
        below, base = [], folder.removesuffix("-files")
        if kind in ("--arrow", "--files") and make_alone(f"{base}-bare", *BARE):
            below = [f"{base}-bare"]
        if kind == "--files" and make_alone(base, *ARROW, below):
            below = [base, *below]
        python = make_alone(folder, modules, wanted, below)
    if not python:
        print(f"SKIPPED: the Python package `{wanted[-1][0]}`, which the test needs, could not be installed")
        return 77
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:   # a shell starts what ends in & so, and tests that interrupt themselves would wait for ever
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    os.execv(python, [python, "-X", "faulthandler", script] + arguments[2:]) # the reference library has crashed before: print where


if __name__ == "__main__":
    sys.exit(main())
