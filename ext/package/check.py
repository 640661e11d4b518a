"""Installs each package into an empty directory, and queries a real array with it.

usage: check.py DIRECTORY [wheel npm deb tarball amalgamation]

If a tool is missing (npm, dpkg), the check that needs it is skipped with a message.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from command import Fault, run

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(ROOT, "sql", "data")
HOSTS = os.path.join(ROOT, "docs", "hosts")
# The libraries that every host has. A bundled extension may need no others.
SYSTEM = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "ld-linux", "libasan.so", "libubsan.so")


class Skip(Exception):
    pass


def tool(command):
    """Runs a program that does not load the library: without the sanitizer's library, which the tests of a build with sanitizers load into each process, and which makes pip slow."""
    return run(command, env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"})


def one(place, pattern):
    found = glob.glob(os.path.join(place, pattern), recursive=True)
    if len(found) != 1:
        raise Fault(f"{len(found)} files are called {pattern}, not one")
    return found[0]


def check_library(path, bundled=True):
    """Checks that the library exports its entry point and tessera_api only, and, if bundled, needs no libraries but the system's."""
    if sys.platform == "darwin":
        return
    symbols = [line.split()[-1] for line in tool(["nm", "-D", "--defined-only", path]).splitlines() if line.split()[-2] in "TDBRVW"]
    symbols = [s for s in symbols if not s.startswith(("__asan", "__ubsan", "__odr_asan"))]
    if sorted(symbols) != ["sqlite3_tessera_init", "tessera_api"]:
        raise Fault(f"{path} exports {symbols[:10]}")
    needed = [line.split("[")[1].rstrip("]") for line in tool(["readelf", "-d", path]).splitlines() if "(NEEDED)" in line]
    foreign = [n for n in needed if not n.startswith(SYSTEM)]
    if bundled and foreign:
        raise Fault(f"{path} needs {foreign}")
    listed = run(["ldd", path])
    if "not found" in listed:
        raise Fault(f"ldd {path}:\n{listed}")


def check_shell(library, folder):
    """Checks the answers of docs/hosts/shell.sql in the sqlite3 shell with this library."""
    shell = shutil.which("sqlite3")
    if not shell:
        raise Skip("there is no sqlite3 shell")
    os.symlink(library, os.path.join(folder, "tessera" + os.path.splitext(library)[1]))
    os.symlink(os.path.join(ROOT, "sql"), os.path.join(folder, "sql"))
    with open(os.path.join(HOSTS, "shell.sql"), encoding="utf-8") as script:
        printed = run([shell, "-batch", "-init", os.devnull, ":memory:"], cwd=folder, stdin=script)
    compare(printed)


def compare(printed):
    with open(os.path.join(HOSTS, "expected"), encoding="utf-8") as f:
        expected = f.read()
    if printed != expected:
        raise Fault(f"printed\n{printed}instead of\n{expected}")


def loads_extensions(python):
    code = "import sqlite3, sys; sys.exit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def wheel(place, folder):
    path = one(place, "sqlite_tessera-*.whl")
    python = sys.executable if loads_extensions(sys.executable) else "/usr/bin/python3"
    tool([python, "-m", "venv", f"{folder}/env"])
    inside = f"{folder}/env/bin/python"
    tool([inside, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", path])
    library = run([inside, "-c", "import tessera; print(tessera.loadable_path())"], cwd=folder).strip()
    check_library(library)
    compare(run([inside, os.path.join(HOSTS, "host_sqlite3.py"), library, DATA], cwd=folder))
    ask = ("import sqlite3, tessera; db = sqlite3.connect(':memory:'); tessera.load(db)\n"
           f"db.execute(\"CREATE VIRTUAL TABLE relief USING tessera('{DATA}/relief')\")\n"
           "print(db.execute('SELECT count(*) FROM relief').fetchone()[0])\n"
           "try: db.load_extension(tessera.loadable_path()); print('loading is still allowed')\n"
           "except sqlite3.OperationalError: pass")
    if run([inside, "-c", ask], cwd=folder) != "583200\n":
        raise Fault("tessera.load: the relief has another number of cells, or loading is still allowed")
    found = ("import importlib.metadata, os, tessera; folder = os.path.dirname(tessera.__file__)\n"
             "print([e.value for e in importlib.metadata.entry_points(group='xarray.backends')], os.path.exists(os.path.join(folder, 'py.typed')))\n"
             f"print(tessera.open('{DATA}/relief').sel(y=(0, 89)).shape, [name for name in tessera.__all__ if not hasattr(tessera, name)])")
    if run([inside, "-c", found], cwd=folder) != "['tessera.xarray:Entrypoint'] True\n(90, 1080) []\n":
        raise Fault("the wheel lacks its entry point for xarray, its types, or a name of the module")
    # tessera.sql with a path and with a parameter, and the command, as pip installs it.
    asked = f"import tessera; r = tessera.sql(\"SELECT max(elevation) FROM '{DATA}/relief' WHERE y < ?\", [90], columnar='require'); print(r.columns, r.fetchall())"
    if run([inside, "-c", asked], cwd=folder) != "['max(elevation)'] [(6229,)]\n":
        raise Fault("tessera.sql gives another answer")
    told = run([inside, "-c", "import tessera; a = tessera.demo(); b = tessera.demo(); print(a == b, tessera.open('demo/climate').shape)"], cwd=folder)
    if told != "True (12, 90, 180)\n" or not os.path.exists(f"{folder}/demo/airports.csv"):
        raise Fault(f"tessera.demo gives {told}")
    for command in ([f"{folder}/env/bin/tessera"], [inside, "-m", "tessera"]):
        verbs = ("ls", "info", "sql", "head", "upkeep", "check", "copy", "demo", "shell")
        told = run([*command, "--help"], cwd=folder)
        if any(f"    {verb} " not in told for verb in verbs):
            raise Fault(f"tessera --help does not tell of all verbs:\n{told}")
        if run([*command, "--csv", "sql", f"SELECT count(*) AS n FROM '{DATA}/relief'"], cwd=folder) != "n\n583200\n":
            raise Fault("tessera sql: the relief has another number of cells")
    # The error message without extension loading: for an object that lacks it, and for a Python that lacks it, if one is installed.
    refuse = "import sqlite3, tessera\ntry: tessera.load({})\nexcept RuntimeError as e: print('was built without loadable extensions' in str(e))"
    if run([inside, "-c", refuse.format("object()")], cwd=folder) != "True\n":
        raise Fault("tessera.load does not say that extension loading is missing")
    others = [p for p in (shutil.which("python3"), sys.executable) if p and not loads_extensions(p)]
    if others:
        environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(library)))
        if run([others[0], "-c", refuse.format("sqlite3.connect(':memory:')")], cwd=folder, env=environment) != "True\n":
            raise Fault(f"tessera.load does not say what {others[0]} lacks")
        return f"in an environment of {python}; the message in {others[0]}, which loads no extensions"
    return f"in an environment of {python}"


def npm(place, folder):
    node, tool = shutil.which("node"), shutil.which("npm")
    if not node or not tool:
        raise Skip("there is no node or no npm")
    path = one(place, "sqlite-tessera-*.tgz")
    with open(f"{folder}/package.json", "w", encoding="utf-8") as f:
        f.write('{"private": true}')
    run([tool, "install", "--offline", "--no-audit", "--no-fund", path], cwd=folder)
    library = run([node, "-e", "console.log(require('sqlite-tessera').getLoadablePath())"], cwd=folder).strip()
    check_library(library)
    lent = run([node, "-e", "console.log(Object.keys(require('sqlite-tessera')).sort().join())"], cwd=folder).strip()
    if lent != "decodeBlock,demo,encodeBlock,getLoadablePath,readBlock,sql,writeBlocks":
        raise Fault(f"the package exports {lent}")
    run([node, "-e", "const { demo } = require('sqlite-tessera'); demo(); console.log(demo())"], cwd=folder)
    if sorted(os.listdir(f"{folder}/demo")) != sorted(os.listdir(DATA)):
        raise Fault("demo() of the npm package copies other files")
    drivers = os.path.join(ROOT, "build", "hosts", "node", "node_modules")
    if not os.path.isdir(os.path.join(drivers, "better-sqlite3", "build")):
        check_shell(library, folder)
        return "installed, loaded by the sqlite3 shell (`./run hosts` installs better-sqlite3, which was not there)"
    shutil.copyfile(os.path.join(HOSTS, "node", "host.js"), f"{folder}/host.js")
    compare(run([node, "host.js", library, DATA], cwd=folder, env=dict(os.environ, NODE_PATH=drivers)))
    return "installed, loaded by better-sqlite3"


def deb(place, folder):
    if not shutil.which("dpkg"):
        raise Skip("there is no dpkg")
    path = one(place, "libsqlite3-mod-tessera_*.deb")
    run(["dpkg", "-x", path, f"{folder}/root"])
    library = one(folder, "root/usr/lib/**/tessera.so")
    check_library(library, bundled=False)
    check_shell(library, folder)
    depends = run(["dpkg", "-f", path, "Depends"]).strip()
    if "libzstd1" not in depends:
        raise Fault(f"it depends on {depends}")
    return f"unpacked, loaded by the sqlite3 shell; depends on {depends}"


def tarball(place, folder):
    run(["tar", "-xzf", one(place, "tessera-[0-9]*.tar.gz"), "-C", folder])
    inside = one(folder, "tessera-*")
    run(["sha256sum", "-c", "SHA256SUMS"], cwd=inside)
    library = one(inside, "tessera.[ds][yo]*") # tessera.so, or tessera.dylib
    check_library(library)
    check_shell(library, folder)
    return "checksums are right; loaded by the sqlite3 shell"


def amalgamation(place, folder):
    run(["tar", "-xzf", one(place, "tessera-amalgamation-*.tar.gz"), "-C", folder])
    inside = one(folder, "tessera-amalgamation-*")
    compiler = shutil.which("cc")
    if not compiler:
        raise Skip("there is no cc")
    run([compiler, "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "tessera.c", "-o", "tessera.so", "-lzstd", "-llz4", "-lbz2", "-lz",
         "-lmbedcrypto", "-lm", "-ldl", "-pthread"], cwd=inside)
    check_library(f"{inside}/tessera.so", bundled=False)
    check_shell(f"{inside}/tessera.so", folder)
    return "compiled without a warning, loaded by the sqlite3 shell"


def main():
    place, failures = os.path.abspath(sys.argv[1]), 0
    for name in sys.argv[2:] or ["wheel", "npm", "deb", "tarball", "amalgamation"]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{name}: {globals()[name](place, folder)}", flush=True)
            except Skip as reason:
                print(f"{name}: skipped: {reason}", flush=True)
            except Fault as reason:
                failures += 1
                print(f"{name}: FAILED: {reason}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
