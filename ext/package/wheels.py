"""Makes the packages of every platform on one machine: a wheel for each, and one npm package with a prebuild for each.

usage: wheels.py DIRECTORY [-O0] [PLATFORM ...]

cross.py compiles the extension with its codecs, build.py makes the archives, and check_wheels.py looks into each library, installs each
package and runs what this machine can run. With names of PLATFORMS only those are made. -O0 is for trying: it takes a tenth of
the time. The same sources give the same bytes.
"""
import concurrent.futures
import hashlib
import os
import sys
from typing import NamedTuple

import amalgamate
import build
import check_wheels
import command
import cross
import sources

ROOT = cross.ROOT


class Platform(NamedTuple):
    target: str    # zig's name of it
    library: str   # the extension's file
    wheel: tuple   # platform tags
    npm: str       # the key by which index.js chooses a prebuild


PLATFORMS = {
    "manylinux-x86_64": Platform("x86_64-linux-gnu.2.17", "tessera.so", ("manylinux_2_17_x86_64", "manylinux2014_x86_64"), "linux-x64"),
    "manylinux-aarch64": Platform("aarch64-linux-gnu.2.17", "tessera.so", ("manylinux_2_17_aarch64", "manylinux2014_aarch64"), "linux-arm64"),
    "musllinux-x86_64": Platform("x86_64-linux-musl", "tessera.so", ("musllinux_1_1_x86_64",), "linux-x64-musl"),
    "musllinux-aarch64": Platform("aarch64-linux-musl", "tessera.so", ("musllinux_1_1_aarch64",), "linux-arm64-musl"),
    "macos-arm64": Platform("aarch64-macos.11.0", "tessera.dylib", ("macosx_11_0_arm64",), "darwin-arm64"),
    "macos-x86_64": Platform("x86_64-macos.11.0", "tessera.dylib", ("macosx_11_0_x86_64",), "darwin-x64"),
    "windows-x86_64": Platform("x86_64-windows-gnu", "tessera.dll", ("win_amd64",), "win32-x64"),
}


def make(place, names, optimize):
    """Builds and packs the platforms. Returns {name: (its library, its wheel)}."""
    version = amalgamate.version_of(ROOT)
    sources.fetch(f"{cross.BUILD}/sources")
    info = {"LICENSE": build.read(f"{ROOT}/LICENSE"), "NOTICES": sources.notices(f"{cross.BUILD}/sources").encode()}
    cross.zig() # before threads ask for it
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        built = {name: pool.submit(cross.build, PLATFORMS[name].target, f"{cross.BUILD}/cross/{name}{optimize}/{PLATFORMS[name].library}", optimize) for name in names}
        libraries = {name: future.result() for name, future in built.items()}
    made, prebuilds = {}, {}
    for name, library in libraries.items():
        p = PLATFORMS[name]
        binary = build.read(library)
        made[name] = library, build.write_wheel(place, binary, p.library, info, version, p.wheel)
        prebuilds[p.npm] = binary, p.library
        print(f"{name}: built, {len(binary)} bytes", flush=True)
    build.write_npm(f"{place}/sqlite-tessera-{version}.tgz", prebuilds, info, version)
    return made


def write_sums(place):
    names = sorted(n for n in os.listdir(place) if n != "SHA256SUMS")
    with open(f"{place}/SHA256SUMS", "w", encoding="utf-8") as f:
        f.writelines(f"{hashlib.sha256(build.read(f'{place}/{n}')).hexdigest()}  {n}\n" for n in names)


def pack(place, names, optimize):
    """Makes, packs and checks. Returns whether a check has failed."""
    made = make(place, names, optimize)
    write_sums(place)
    return check_wheels.check_packages(place, {n: PLATFORMS[n] for n in names}, made) > 0


def main():
    place, *names = sys.argv[1:]
    optimize = names.pop(0) if names and names[0].startswith("-O") else "-O2"
    place, names = os.path.abspath(place), names or list(PLATFORMS)
    unknown = [n for n in names if n not in PLATFORMS]
    if unknown:
        print(f"wheels.py: unknown platforms {unknown}; there are {', '.join(PLATFORMS)}", file=sys.stderr)
        return 2
    os.makedirs(place, exist_ok=True)
    for old in os.listdir(place):
        os.remove(f"{place}/{old}")
    return command.main("wheels.py", pack, place, names, optimize)


if __name__ == "__main__":
    sys.exit(main())
