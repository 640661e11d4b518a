"""The sqlite3 shell of Windows under wine: builds tessera.dll and sqlite3.exe with zig, and runs SQL in them.

The DLL comes from the amalgamation (ext/package/cross.py), the shell from the sources that the npm package sqlite3 carries, which is pinned
here by version and hash. wine keeps its files in a prefix below build/windows; it opens no window and prints nothing of its own.
"""
import atexit
import concurrent.futures
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACE = f"{ROOT}/build/windows"
TARGET = "x86_64-windows-gnu"
SHELL_PACKAGE, SHELL_SHA256 = "sqlite3@5.1.7", "44cc9bdee02705a7b636f76968d745e21c1d0b2f1c62810c678bc3b0ececab1b"
SHELL_FLAGS = ("-DSQLITE_ENABLE_MATH_FUNCTIONS", "-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE", "-DSQLITE_ENABLE_BYTECODE_VTAB")
sys.path.insert(0, f"{ROOT}/ext/package")


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def shell_sources():
    """Returns the folder with shell.c and sqlite3.c. Brings the package the first time."""
    found = [name for name in sorted(os.listdir(PLACE)) if name.startswith("sqlite-autoconf-")] if os.path.isdir(PLACE) else []
    if found:
        return f"{PLACE}/{found[-1]}"
    if not shutil.which("npm"):
        skip("npm, which brings the sources of the sqlite3 shell, is not installed")
    os.makedirs(PLACE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        subprocess.run(["npm", "pack", "--silent", SHELL_PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        package = f"{folder}/{os.listdir(folder)[0]}"
        with open(package, "rb") as f:
            got = hashlib.sha256(f.read()).hexdigest()
        if got != SHELL_SHA256:
            sys.exit(f"{SHELL_PACKAGE} has the SHA-256 {got}, not {SHELL_SHA256}")
        with tarfile.open(package) as outer:
            inner = next(m for m in outer if re.search(r"/sqlite-autoconf-\d+\.tar\.gz$", m.name))
            with tarfile.open(fileobj=outer.extractfile(inner)) as sources:
                name = next(iter(sources)).name.split("/")[0]
                sources.extractall(folder, [m for m in sources.getmembers() if re.fullmatch(r"[\w-]+/[\w]+\.[ch]", m.name)])
        os.rename(f"{folder}/{name}", f"{PLACE}/{name}")
    return f"{PLACE}/{name}"


def build(optimize="-O1"):
    """Builds tessera.dll and sqlite3.exe in PLACE, and returns their paths. TESSERA_DLL and SQLITE3_EXE name others instead."""
    import cross
    library, shell = os.environ.get("TESSERA_DLL", f"{PLACE}/tessera.dll"), os.environ.get("SQLITE3_EXE", f"{PLACE}/sqlite3.exe")
    if "TESSERA_DLL" not in os.environ:
        cross.build(TARGET, library, optimize)
    if not os.path.exists(shell):
        folder = shell_sources()
        cross.run([*cross.zig(), "cc", "-target", TARGET, optimize, *SHELL_FLAGS, f"-I{folder}", f"{folder}/shell.c", f"{folder}/sqlite3.c", "-o", shell])
    return library, shell


def wheel(library, folder):
    """Makes the wheel for Windows with this library, as wheels.py does, and returns its path."""
    import amalgamate, build, cross, sources
    info = {"LICENSE": build.read(f"{ROOT}/LICENSE"), "NOTICES": sources.notices(f"{cross.BUILD}/sources").encode()}
    build.write_wheel(folder, build.read(library), "tessera.dll", info, amalgamate.version_of(ROOT), ("win_amd64",))
    return f"{folder}/{next(name for name in os.listdir(folder) if name.endswith('.whl'))}"


def npm(library, folder):
    """Installs the npm package with this library in a folder."""
    import amalgamate, build
    package = f"{folder}/package.tgz"
    build.write_npm(package, {"win32-x64": (build.read(library), "tessera.dll")}, {}, amalgamate.version_of(ROOT))
    with tarfile.open(package) as archive:
        archive.extractall(f"{folder}/node_modules")
    os.rename(f"{folder}/node_modules/package", f"{folder}/node_modules/sqlite-tessera")


def inject():
    """Builds inject.c as a library, and returns its path."""
    import cross
    source, made = f"{ROOT}/test/windows/inject.c", f"{PLACE}/inject.dll"
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(source):
        cross.run([*cross.zig(), "cc", "-target", TARGET, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", source, "-lntdll", "-s", "-o", made])
    return made


def environment(**more):
    """Returns the environment of wine: without a display, quiet, with a prefix of its own."""
    return dict(os.environ, WINEPREFIX=f"{PLACE}/wine", WINEDEBUG="-all", WINEDLLOVERRIDES="mscoree,mshtml=", DISPLAY="", **more)


@functools.cache
def wine():
    """Returns the command of wine, and makes its prefix the first time. Windows' services run until this program ends: otherwise each program
    would start them anew, and its output would have no end as long as they have it open."""
    if not shutil.which("wine"):
        skip("wine is not installed")
    if not os.path.exists(f"{PLACE}/wine/whole"):
        os.makedirs(PLACE, exist_ok=True) # wine makes the prefix, but not what it lies in
        subprocess.run(["wine", "wineboot", "-i"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        open(f"{PLACE}/wine/whole", "w", encoding="utf-8").close() # wine writes system.reg at once, and may be cut off after that
    quiet = {"env": environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["wineserver", "--persistent"], **quiet)
    atexit.register(subprocess.run, ["wineserver", "--kill"], **quiet)
    subprocess.run(["wine", "cmd", "/c", "exit"], **quiet, check=True)
    return "wine"


def windows_path(path):
    """Returns the name that wine gives a path of this machine."""
    return "Z:" + os.path.abspath(path)


class Room:
    """A directory that looks like the project's root, in which the shell runs."""

    def __init__(self, library, shell, arrays=None):
        self.path, self.shell = tempfile.mkdtemp(prefix="room-", dir=PLACE), shell
        shutil.copy(library, f"{self.path}/tessera.dll")
        os.mkdir(f"{self.path}/sql")
        os.symlink(f"{ROOT}/sql/data", f"{self.path}/sql/data")
        if arrays:
            os.symlink(os.path.abspath(arrays), f"{self.path}/arrays")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def start(self, database=":memory:", **more):
        return subprocess.Popen([wine(), self.shell, "-batch", database], cwd=self.path, env=environment(**more),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, text, database=":memory:", load=True):
        """Returns what the shell prints, errors included, with '/' and the ends of lines of this machine. The shell of Windows has no commands of
        POSIX: this machine carries out lines such as `.shell ls`, when the shell has printed all that comes before."""
        process = self.start(database)
        printed, ask = [], "---- a command of this machine ----"
        with concurrent.futures.ThreadPoolExecutor(1) as feeder: # the shell may print more than a pipe holds while it is fed
            def feed(part):
                process.stdin.write(part.encode())
                process.stdin.flush()
            for part, command in re.findall(r"(.*?)(?:^\.(?:shell|system) ([^\n]*)\n|\Z)", (".load ./tessera\n" if load else "") + text, re.M | re.S):
                fed = feeder.submit(feed, part + (f".print {ask}\n" if command else ""))
                if command:
                    for line in iter(process.stdout.readline, b""):
                        if line.rstrip() == ask.encode():
                            break
                        printed.append(line)
                    fed.result()
                    printed.append(subprocess.run(["/bin/sh", "-c", command], cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout)
            feeder.submit(process.stdin.close)
            printed.append(process.stdout.read())
        process.wait()
        return b"".join(printed).decode("utf-8", "replace").replace("\r\n", "\n")
