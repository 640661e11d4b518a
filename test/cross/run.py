"""Compiles the core and its unit tests for another machine, and runs them here: i386 on the processor itself.

usage: run.py MACHINE [WORD ...]

MACHINE is a name of MACHINES below. With words only the tests run whose names have one of them. The compiler is zig's, the codecs are those
of ext/package/sources.py, and cmocka.h of this folder stands for cmocka, so nothing of the other machine need be installed. The core stops at undefined behaviour, as clang's sanitizer sees it.

A big-endian machine is refused by the compiler with a sentence (docs/decisions/006): then that sentence is what is tested.
"""
import concurrent.futures
import glob
import os
import platform
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/ext/package")
import amalgamate
import command
import cross
import sources

MACHINES = {"i386": "x86-linux-musl", "s390x": "s390x-linux-musl"} # zig's targets: programs of musl are static and need no loader
REFUSED = ("s390x",)
REFUSAL = "only little-endian machines are supported"
# At -O1 clang cannot compile what looks for overflows of pointers of 32 bits.
FLAGS = ("-fsanitize=undefined", "-fsanitize-trap=undefined", "-fno-sanitize=pointer-overflow", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-pointer-sign",
         "-Wno-unterminated-string-initialization", "-Werror")
# Tests of what a statically linked program does not have, and why.
LEFT_OUT = {
    "test_curl": "replaces dlopen, which a static program lacks",
    "test_credentials": "needs libcurl", "test_http": "needs libcurl", "test_http_tls": "needs libcurl",
}
SECONDS = 600 # for one test, on a busy machine


class Cross:
    def __init__(self, name):
        self.name = name
        self.target = MACHINES[name]
        self.command = [*cross.compiler(self.target, "-O1"), "-static", f"-I{ROOT}/core", f"-I{ROOT}/test/support", f"-I{ROOT}/test/cross"]
        self.place = f"{ROOT}/build/cross/unit-{name}"
        os.makedirs(self.place, exist_ok=True)

    def compile(self, source, flags=FLAGS):
        relative = os.path.relpath(source, ROOT) if source.startswith(ROOT) else source
        output = f"{self.place}/{re.sub('[^A-Za-z0-9_.]', '-', relative)}.o"
        command.run([*self.command, *flags, "-c", source, "-o", output])
        return output

    def compile_all(self, paths, flags=FLAGS):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda path: self.compile(path, flags), paths))

    def archive(self, name, objects):
        path = f"{self.place}/lib{name}.a"
        if os.path.exists(path):
            os.remove(path)
        command.run([*cross.zig(), "ar", "rcs", path, *objects])
        return path

    def libraries(self):
        core = [f"{ROOT}/{path}" for path in amalgamate.source_paths(ROOT, "core")]
        codecs = [path for path in cross.codec_files(self.target) if path.endswith(".c")]
        return [self.archive("core", self.compile_all([*core, f"{ROOT}/test/support/store_memory.c"])), self.archive("codecs", self.compile_all(codecs, ("-w",)))]

    def test(self, source, libraries):
        """Builds and runs one test. Returns (its name, None or why it failed, what it printed)."""
        name = os.path.splitext(os.path.basename(source))[0]
        if name in LEFT_OUT:
            return name, None, f"left out: it {LEFT_OUT[name]}"
        program = f"{self.place}/{name}"
        if "sqlite3.h" in open(source, encoding="utf-8").read():
            libraries = [*libraries, self.sqlite()]
        try:
            command.run([*self.command, *FLAGS, source, *libraries, "-lm", "-pthread", "-o", program])
        except command.Fault as fault:
            return name, "does not compile", str(fault)
        try:
            done = subprocess.run([program], cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return name, f"did not end in {SECONDS} seconds", ""
        return name, f"ended with {done.returncode}" if done.returncode else None, done.stdout

    def sqlite(self):
        return self.archive("sqlite3", self.compile_all(sources.files(f"{ROOT}/build/sources", "SQLite"), ("-w", "-O0", "-fno-sanitize=undefined", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DSQLITE_ENABLE_MATH_FUNCTIONS")))


def refuses(machine):
    """Tests that the core says in one sentence why it cannot be compiled for this machine."""
    try:
        machine.compile(f"{ROOT}/core/base/memory.c")
    except command.Fault as fault:
        if REFUSAL in str(fault):
            print(f"{machine.name}: refused: {REFUSAL}")
            return 0
        raise
    print(f"{machine.name}: the core compiles, though its byte order is not supported")
    return 1


def left_out(name, printed):
    """What of a test was not run, and why, as `./run test` lists it at its end: all of it, or the parts that say so."""
    reasons = [f"it {LEFT_OUT[name]}"] if name in LEFT_OUT else re.findall(r"^SKIPPED: (.+)$", printed, re.MULTILINE)
    return [f"skipped: {name}: {reason}" for reason in reasons]


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in MACHINES:
        print(f"usage: run.py {'|'.join(MACHINES)} [WORD ...]", file=sys.stderr)
        return 2
    try:
        machine = Cross(sys.argv[1])
        if machine.name in REFUSED:
            return refuses(machine)
        if platform.machine() not in ("x86_64", "i686"):
            print(f"SKIPPED: this processor runs no programs of {machine.name}")
            return 77
        libraries = machine.libraries()
        print(f"{machine.name}: the core is built for {machine.target}", flush=True)
        tests = [path for path in sorted(glob.glob(f"{ROOT}/test/unit/*/test_*.c")) if not sys.argv[2:] or any(word in path for word in sys.argv[2:])]
        failures, passed, skipped = 0, 0, []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, why, printed in pool.map(lambda path: machine.test(path, libraries), tests):
                print(f"{name}: {why or (printed if name in LEFT_OUT else 'passed')}", flush=True)
                if why:
                    print(printed, flush=True)
                failures += why is not None
                passed += why is None and name not in LEFT_OUT
                skipped += left_out(name, printed)
    except command.Fault as fault:
        print(fault, file=sys.stderr)
        return 1
    print(f"{machine.name}: {passed} passed, {failures} failed")
    for line in skipped:
        print(line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
