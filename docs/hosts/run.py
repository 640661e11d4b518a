"""Runs the example programs of docs/hosts, each in its host, and compares what they print with NAME.expected, or with `expected`, which is
the same for all programs that ask the same.

usage: run.py EXTENSION DIRECTORY [HOST ...]

What a host needs is installed into DIRECTORY, by its own package manager. Where that cannot be, the host is skipped, and the reason
shown; a program that fails or prints something else is a failure.
"""
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(ROOT, "sql", "data")


class Skip(Exception):
    pass


class Failure(Exception):
    pass


class Hosts:
    def __init__(self, extension, place):
        self.extension, self.place = os.path.abspath(extension), os.path.abspath(place)
        os.makedirs(self.place, exist_ok=True)

    # ---- Helpers

    def folder(self, name, *copied):
        """A directory for a host, with copies of what is written down here."""
        folder = os.path.join(self.place, name)
        os.makedirs(folder, exist_ok=True)
        for item in copied:
            source, target = os.path.join(HERE, item), os.path.join(folder, os.path.relpath(item, item.split("/")[0]))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, folder, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, target)
        return folder

    def tool(self, name):
        path = shutil.which(name)
        if not path:
            raise Skip(f"{name} is not installed")
        return path

    def install(self, what, command, folder, **environment):
        """What a package manager does; where it fails, the host is skipped with its words."""
        log = os.path.join(self.place, f"{os.path.basename(folder)}.log")
        with open(log, "a", encoding="utf-8") as f:
            result = subprocess.run(command, cwd=folder, env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            f.write(result.stdout)
        if result.returncode:
            lines = [line for line in result.stdout.splitlines() if line.strip()]
            raise Skip(f"{what} cannot be installed: {' | '.join(lines[-2:]) or 'no reason given'} (more in {os.path.relpath(log)})")

    def run(self, command, folder=ROOT, **more):
        result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        if result.returncode:
            raise Failure(f"{' '.join(command)} ended with {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def python(self, name, *packages):
        """An environment's Python, with these packages: of a Python whose sqlite3 module loads extensions."""
        for base in ("/usr/bin/python3", sys.executable):
            if os.path.exists(base) and not subprocess.run(
                    [base, "-c", "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)"], capture_output=True).returncode:
                break
        else:
            raise Skip("no Python whose sqlite3 module loads extensions was found")
        folder = self.folder(name)
        python = os.path.join(folder, "env", "bin", "python")
        if not os.path.exists(python):
            self.install("an environment of Python", [base, "-m", "venv", "env"], folder)
        self.install(", ".join(packages), [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], folder)
        return python

    # ---- Hosts: each gives what its program printed

    def shell(self):
        folder = self.folder("shell")
        for target, link in ((self.extension, "tessera" + os.path.splitext(self.extension)[1]), (os.path.join(ROOT, "sql"), "sql")):
            link = os.path.join(folder, link)
            if os.path.lexists(link):
                os.remove(link)
            os.symlink(target, link)
        with open(os.path.join(HERE, "shell.sql"), encoding="utf-8") as script:
            return self.run([self.tool("sqlite3"), "-batch", "-init", os.devnull, ":memory:"], folder, stdin=script)

    def sqlite3(self):
        return self.run([sys.executable, os.path.join(HERE, "host_sqlite3.py"), self.extension, DATA])

    def c(self):
        program = os.environ.get("TESSERA_HOST_C") # ctest has built it
        if not program:
            compiler, program = self.tool("cc"), os.path.join(self.folder("c"), "host")
            library = os.path.dirname(self.extension)
            if not os.path.exists(os.path.join(library, "libtessera_sqlite.a")):
                raise Skip("libtessera_sqlite.a is not beside the extension")
            self.run([compiler, os.path.join(HERE, "host.c"), f"-L{library}", "-ltessera_sqlite", "-ltessera_core", "-lsqlite3", "-lzstd", "-llz4",
                      "-lbz2", "-lz", "-lmbedcrypto", "-lm", "-ldl", "-pthread", "-o", program])
        return self.run([program, DATA])

    def apsw(self):
        return self.run([self.python("apsw", "apsw"), os.path.join(HERE, "host_apsw.py"), self.extension, DATA])

    def pandas(self):
        return self.run([self.python("pandas", "numpy", "pandas"), os.path.join(HERE, "host_pandas.py"), self.extension, DATA])

    def node(self):
        node, npm = self.tool("node"), self.tool("npm")
        folder = self.folder("node", "node/package.json", "node/host.js")
        if not os.path.isdir(os.path.join(folder, "node_modules", "better-sqlite3")):
            self.install("better-sqlite3", [npm, "install", "--no-audit", "--no-fund"], folder)
        return self.run([node, "host.js", self.extension, DATA], folder)

    def go(self):
        go = self.tool("go")
        folder = self.folder("go", "go/main.go", "go/go.mod", "go/go.sum")
        self.install("github.com/mattn/go-sqlite3", [go, "mod", "download"], folder)
        self.run([go, "build", "-o", "host", "."], folder)
        return self.run([os.path.join(folder, "host"), self.extension, DATA], folder)

    def rust(self):
        cargo = self.tool("cargo")
        folder = self.folder("rust", "rust/Cargo.toml", "rust/src/main.rs")
        self.install("rusqlite", [cargo, "fetch", "--quiet"], folder)
        self.run([cargo, "build", "--quiet"], folder)
        return self.run([os.path.join(folder, "target", "debug", "host"), self.extension, DATA], folder)

    def java(self):
        java, maven = self.tool("java"), self.tool("mvn")
        folder = self.folder("java", "java/pom.xml", "java/Host.java")
        self.install("sqlite-jdbc", [maven, "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=jars"], folder)
        return self.run([java, "-cp", os.path.join("jars", "*"), "Host.java", self.extension, DATA], folder)

    def datasette(self):
        browser = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
        if not browser:
            raise Skip("there is no chromium (Debian's package chromium)")
        python = self.python("datasette", "datasette")
        return self.run([python, os.path.join(HERE, "datasette_page.py"), self.extension, DATA, browser, self.folder("datasette")])

    def cluster(self):
        return self.run([self.python("cluster", "dask", "distributed"), os.path.join(HERE, "cluster.py"), self.extension, DATA])

    def xarray(self):
        python = self.python("xarray", "xarray", "pandas", "netcdf4", "dask")
        return self.run([python, os.path.join(HERE, "xarray_page.py"), self.extension, os.path.join(self.folder("xarray"), "work")])

    def litestream(self):
        folder = self.folder("litestream")
        program = shutil.which("litestream") or os.path.join(folder, "litestream")
        if not os.path.exists(program):
            self.install("litestream", [self.tool("go"), "install", "github.com/benbjohnson/litestream/cmd/litestream@v0.3.13"], folder,
                         GOBIN=folder)
        return self.run([sys.executable, os.path.join(HERE, "litestream.py"), self.extension, program])


# Those that need nothing but the system, the first three, are also in ./run test.
ALL = ["shell", "sqlite3", "c", "apsw", "pandas", "node", "go", "rust", "java", "datasette", "cluster", "xarray", "litestream"]


def expected_of(name):
    own = os.path.join(HERE, f"{name}.expected")
    with open(own if os.path.exists(own) else os.path.join(HERE, "expected"), encoding="utf-8") as f:
        return f.read()


def main():
    hosts, failures, skipped = Hosts(*sys.argv[1:3]), 0, 0
    unknown = [name for name in sys.argv[3:] if name not in ALL]
    if unknown:
        print(f"no host {unknown[0]}; ./run hosts [host ...]; hosts are {', '.join(ALL)}")
        return 2
    for name in sys.argv[3:] or ALL:
        begin, expected = time.monotonic(), expected_of(name)
        try:
            printed = getattr(hosts, name)()
            if printed == expected:
                print(f"{name}: as expected ({time.monotonic() - begin:.1f} s)", flush=True)
            else:
                failures += 1
                print(f"{name}: FAILED: printed\n{printed}instead of\n{expected}", flush=True)
        except Skip as reason:
            skipped += 1
            print(f"{name}: skipped: {reason}", flush=True)
        except Failure as reason:
            failures += 1
            print(f"{name}: FAILED: {reason}", flush=True)
    print(f"{failures} failed, {skipped} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
