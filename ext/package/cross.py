"""Builds the extension, with its codecs inside, for one platform, by the C compiler of zig and from the amalgamation.

usage: cross.py TARGET OUTPUT [-O2] [more flags of the compiler]

TARGET is zig's name of the platform, such as x86_64-linux-gnu.2.17, aarch64-linux-musl, aarch64-macos.11.0 or x86_64-windows-gnu; OUTPUT the
file to make. Everything else lies in build/: the sources (sources.py), zig in an environment of its own (zig.txt), its cache, and the
amalgamation. zig keeps what it has compiled, so a second build compiles what has changed alone.
"""
import glob
import os
import sys

import amalgamate
import command
import sources
from command import run

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build")
# Loops over columns of doubles make vectors only if nothing looks at the flags of exceptions; a product and a sum are rounded one after the
# other on every machine.
FLAGS = ("-std=gnu11", "-fno-strict-aliasing", "-fno-trapping-math", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden")


def zig():
    """Returns the command of zig. Installs it into build/zig the first time, and anew when zig.txt has changed."""
    place, python = f"{BUILD}/zig", f"{BUILD}/zig/venv/{'Scripts' if os.name == 'nt' else 'bin'}/python"
    wanted = open(f"{HERE}/zig.txt", "rb").read()
    stamp = f"{place}/installed.txt"
    if not os.path.exists(stamp) or open(stamp, "rb").read() != wanted:
        run([sys.executable, "-m", "venv", "--clear", f"{place}/venv"])
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--require-hashes", "-r", f"{HERE}/zig.txt"])
        with open(stamp, "wb") as f:
            f.write(wanted)
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", f"{place}/cache")
    os.environ.setdefault("ZIG_LOCAL_CACHE_DIR", f"{place}/cache")
    return glob.glob(f"{glob.escape(place)}/venv/**/ziglang/zig{'.exe' if os.name == 'nt' else ''}", recursive=True)[:1]


def write_amalgamation():
    """Writes tessera.c and tessera.h into build/amalgamation, unless they are there with the same text. Returns that directory."""
    place = f"{BUILD}/amalgamation"
    os.makedirs(place, exist_ok=True)
    for name, text in zip(("tessera.c", "tessera.h"), amalgamate.amalgamate(ROOT)):
        path = f"{place}/{name}"
        if not os.path.exists(path) or amalgamate.read(path) != text:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return place


def compiler(target, optimize="-O2"):
    """Returns a command of zig that compiles and links for the target, with the headers and definitions of all libraries."""
    place = f"{BUILD}/sources"
    sources.fetch(place)
    flags = [f"-D{d}" for d in sources.definitions()] + [f"-I{folder}" for folder in sources.includes(place)]
    if optimize == "-O0":
        flags.append("-fno-sanitize=undefined") # which zig adds there
    return [*zig(), "cc", "-target", target, optimize, "-g0", *FLAGS, *flags]


def codec_files(target):
    return [path for name in sources.CODECS for path in sources.files(f"{BUILD}/sources", name, target.startswith("x86_64"))]


def link_flags(target):
    """Returns the flags that make a loadable extension which exports its entry points alone."""
    if "macos" in target: # undefined symbols are those of nothing: the extension calls SQLite through the table that it is given
        return ["-dynamiclib", "-Wl,-install_name,@rpath/tessera.dylib", "-Wl,-dead_strip"]
    if "windows" in target:
        return ["-shared", "-lbcrypt", "-lws2_32", "-lntdll"]
    return ["-shared", "-fPIC", "-Wl,-z,nodelete", "-Wl,--no-undefined", f"-Wl,--version-script={ROOT}/ext/exports.map"]


def build(target, output, optimize="-O2", more=()):
    """Builds the extension for the target as the file `output`, without symbols for debuggers. Raises Fault."""
    place = write_amalgamation()
    output = os.path.abspath(output)
    os.makedirs(os.path.dirname(output), exist_ok=True)
    run([*compiler(target, optimize), f"-I{place}", *more, f"{place}/tessera.c", *codec_files(target), *link_flags(target), "-s", "-o", output], cwd=place)
    return output


def main():
    if len(sys.argv) < 3:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    target, output, *more = sys.argv[1:]
    optimize = more.pop(0) if more and more[0].startswith("-O") else "-O2"
    return command.main("cross.py", lambda: print(build(target, output, optimize, more)))


if __name__ == "__main__":
    sys.exit(main())
