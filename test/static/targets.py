"""Compiles the amalgamation for platforms that this machine is not, with the compiler and the headers of zig: Linux with musl and macOS
entirely, as an extension and as the core alone, without warnings. For Windows, which `./run wheels` compiles, names are compared: no name in
the sources may be a macro of windows.h, which would replace it in the amalgamation. Sources that include windows.h themselves mean its macros.

usage: targets.py AMALGAMATION DIRECTORY

AMALGAMATION: the script ext/package/amalgamate.py. Needs zig, `python3 -m ziglang`, or the one in build/zig that `./run cross` brings, and the headers of the codecs and SQLite; without
them the exit code is 77, which ctest takes for "skipped". Nothing is downloaded.
"""
import os
import re
import shutil
import subprocess
import sys

TARGETS = ("x86_64-linux-musl", "aarch64-macos")
HEADERS = ("bzlib.h", "lz4.h", "zlib.h", "zconf.h", "zstd.h", "zstd_errors.h", "sqlite3.h", "sqlite3ext.h", "mbedtls", "psa")
WHERE = ("/usr/local/include", "/usr/include", "/opt/homebrew/include")
C_HEADERS = ("assert.h", "ctype.h", "errno.h", "fcntl.h", "float.h", "inttypes.h", "limits.h", "locale.h", "math.h", "signal.h", "stdarg.h",
             "stdatomic.h", "stdbool.h", "stdio.h", "stdlib.h", "string.h", "sys/stat.h", "time.h", "unistd.h")


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def find_zig(root):
    """Returns the command of zig, or calls skip."""
    for command in ([f"{root}/build/zig/venv/bin/python", "-m", "ziglang"], [sys.executable, "-m", "ziglang"], ["python3", "-m", "ziglang"], ["zig"]):
        if shutil.which(command[0]) and subprocess.run(command + ["version"], capture_output=True).returncode == 0:
            return command
    return skip("neither zig nor the Python package ziglang is installed")


def link_headers(folder):
    """Fills a folder with links to the headers of the libraries alone: the other headers of this machine are another platform's."""
    os.makedirs(folder, exist_ok=True)
    for name in HEADERS:
        found = next((f"{place}/{name}" for place in WHERE if os.path.exists(f"{place}/{name}")), None)
        if not found:
            skip(f"{name} is not installed")
        if not os.path.lexists(f"{folder}/{name}"):
            os.symlink(found, f"{folder}/{name}")


def macros(zig, folder, headers):
    """Returns {name: whether it takes arguments} of the macros that these headers define for Windows."""
    text = "".join(f"#include <{header}>\n" for header in headers)
    out = subprocess.run(zig + ["cc", "-target", "x86_64-windows-gnu", "-E", "-dM", "-x", "c", "-"], input=text, cwd=folder, capture_output=True, text=True, check=True)
    return {name: bool(arguments) for name, arguments in re.findall(r"^#define (\w+)(\(?)", out.stdout, re.M)}


def names_taken(amalgamate, root, taken):
    """Yields (path, name) of each name in the sources that a macro would replace. Directives are not looked at: the lists of X(NAME, ...) in
    the public headers only paste their names to longer ones."""
    folders = [f"{base}/{folder}" for base in ("core", "ext") for folder in sorted(os.listdir(f"{root}/{base}")) if os.path.isdir(f"{root}/{base}/{folder}")]
    for path in [f"{folder}/{name}" for folder in folders for name in sorted(os.listdir(f"{root}/{folder}")) if name.endswith((".c", ".h"))]:
        source = amalgamate.Source(root, path)
        with open(f"{root}/{path}") as f:
            if re.search(r"^#\s*include <windows.h>", f.read(), re.MULTILINE):
                continue
        code = [source.tokens[i] for i in source.code]
        for at, (kind, text, directive) in enumerate(code):
            called = at + 1 < len(code) and code[at + 1][1] == "("
            if kind == "name" and not directive and text in taken and (called or not taken[text]):
                yield path, text


def main():
    script, folder = sys.argv[1:3]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(script))))
    zig = find_zig(root)
    os.makedirs(folder, exist_ok=True)
    os.environ.update(ZIG_GLOBAL_CACHE_DIR=f"{folder}/cache", ZIG_LOCAL_CACHE_DIR=f"{folder}/cache")
    link_headers(f"{folder}/include")
    subprocess.run([sys.executable, script, root, folder], check=True)
    for target in TARGETS:
        for options in ([], ["-DTESSERA_OMIT_SQLITE"]):
            flags = ["-target", target, "-c", "-O0", "-g0", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", f"-I{folder}", f"-I{folder}/include"]
            subprocess.run(zig + ["cc", *flags, *options, f"{folder}/tessera.c", "-o", f"{folder}/tessera.o"], check=True)
        print(f"{target}: the extension, the core alone")
    sys.path.insert(0, os.path.dirname(script))
    import amalgamate
    taken = macros(zig, folder, ("winsock2.h", "ws2tcpip.h", "windows.h", "io.h"))
    for name in macros(zig, folder, C_HEADERS):
        taken.pop(name, None)
    wrong = sorted(set(names_taken(amalgamate, root, taken)))
    for path, name in wrong:
        print(f"{path}: {name} is a macro of windows.h")
    print(f"windows: {len(taken)} macros of windows.h, {len(wrong)} names that one would replace")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
