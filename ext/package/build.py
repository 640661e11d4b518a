"""Makes the packages that are archives: a Python wheel, an npm package, a tarball with its checksums, and the amalgamation.

usage: build.py BUNDLED_EXTENSION DIRECTORY

It needs no build tools of Python or Node. The archives are reproducible: the same source gives the same bytes.
"""
import base64
import gzip
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile

import amalgamate
import command
from command import Fault

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MOMENT = 1767225600 # 2026-01-01, the modification time of all files in the archives
NPM = ("package.json", "index.js", "index.d.ts", "README.md")
MODULE = sorted(n for n in os.listdir(os.path.join(ROOT, "ext", "python", "tessera")) if n.endswith(".py") and n != "__init__.py" or n == "py.typed")
# The codecs in the bundled extension, and the Debian packages that have their licenses.
CODECS = {"zstd": "libzstd-dev", "lz4": "liblz4-dev", "bzip2": "libbz2-dev", "zlib": "zlib1g-dev", "mbedTLS": "libmbedtls-dev"}


def read(path):
    with open(path, "rb") as f:
        return f.read()


def text_of(path, **values):
    text = read(path).decode()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text.encode()


def demo_arrays(folder):
    """The files of the demo arrays as {path below `folder`: bytes}."""
    data = os.path.join(ROOT, "sql", "data")
    paths = sorted(os.path.join(place, n) for place, _, names in os.walk(data) for n in names)
    return {f"{folder}/{os.path.relpath(p, data).replace(os.sep, '/')}": read(p) for p in paths}


def notices():
    text = ["tessera's extension in this package contains these libraries, each under its own terms.\n"]
    for name, package in CODECS.items():
        path = f"/usr/share/doc/{package}/copyright"
        if not os.path.exists(path):
            raise Fault(f"the license of {name}, which would be inside the packages, is not at {path}")
        text.append(f"\n==== {name} {'=' * 60}\n\n{read(path).decode()}")
    return "".join(text).encode()


def stripped(library):
    if sys.platform == "darwin":
        return read(library)
    copy = library + ".stripped"
    subprocess.run(["strip", "--strip-unneeded", "-o", copy, library], check=True)
    return read(copy)


def wheel_platform(library):
    """Returns the wheel's platform tag. For manylinux it names the oldest glibc that has all functions which the library calls."""
    machine = platform.machine()
    if sys.platform == "darwin":
        return f"macosx_11_0_{machine}"
    symbols = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", symbols)]
    return f"manylinux_{'_'.join(map(str, max(versions)))}_{machine}" if versions else f"linux_{machine}"


def write_wheel(place, binary, name, info, version, platforms):
    """Writes the wheel for these platform tags, with the extension `binary` as the file `name`. Returns the wheel's path."""
    files = {"tessera/__init__.py": text_of(f"{ROOT}/ext/python/tessera/__init__.py", VERSION=version),
             **{f"tessera/{n}": read(f"{ROOT}/ext/python/tessera/{n}") for n in MODULE}, f"tessera/{name}": binary,
             **demo_arrays("tessera/data")}
    info = {"README.md": read(f"{ROOT}/ext/python/README.md"), **info}
    path = f"{place}/sqlite_tessera-{version}-py3-none-{'.'.join(platforms)}.whl"
    tags = "".join(f"Tag: py3-none-{p}\n" for p in platforms)
    folder = f"sqlite_tessera-{version}.dist-info"
    metadata = (f"Metadata-Version: 2.1\nName: sqlite-tessera\nVersion: {version}\nSummary: SQLite extension: TileDB-format arrays as SQL tables\n"
                "License: MIT\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n").encode() + info["README.md"]
    files[f"{folder}/METADATA"] = metadata
    files[f"{folder}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tessera\nRoot-Is-Purelib: false\n{tags}".encode()
    files[f"{folder}/entry_points.txt"] = b"[console_scripts]\ntessera = tessera.cli:main\n[xarray.backends]\ntessera = tessera.xarray:Entrypoint\n"
    for name in ("LICENSE", "NOTICES"):
        files[f"{folder}/{name}"] = info[name]
    record = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}" for name, data in files.items()]
    files[f"{folder}/RECORD"] = "\n".join(record + [f"{folder}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if name.endswith((".so", ".dylib", ".dll")) else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def write_npm(path, prebuilds, info, version):
    """Writes the npm package with prebuilds: {the key by which index.js chooses one, such as linux-x64-musl: (the extension, its file's name)}."""
    parts = [key.split("-") for key in prebuilds]
    lists = {"OS": sorted({p[0] for p in parts}), "CPU": sorted({p[1] for p in parts})}
    values = {name: ", ".join(f'"{v}"' for v in found) for name, found in lists.items()}
    files = {n: text_of(f"{ROOT}/ext/npm/{n}", VERSION=version, **values) for n in NPM}
    write_tar(path, "package", {**files, **{f"prebuilds/{key}/{name}": binary for key, (binary, name) in prebuilds.items()},
                               **demo_arrays("demo"), **info})


def write_tar(path, folder, files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), MOMENT, 0o755 if name.endswith((".so", ".dylib", ".dll")) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    with open(path, "wb") as f:
        f.write(gzip.compress(packed.getvalue(), 6, mtime=MOMENT)) # 9 takes twice the time or more, and saves 4 bytes in 1,000


def sums(files):
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())).encode()


def build(library, place):
    source, header = amalgamate.amalgamate(ROOT)
    version = amalgamate.version_of(ROOT)
    binary, name = stripped(library), os.path.basename(library)
    license_text, foreign = read(f"{ROOT}/LICENSE"), notices()
    machine = platform.machine()
    system = "darwin" if sys.platform == "darwin" else "linux"
    os.makedirs(place, exist_ok=True)

    info = {"LICENSE": license_text, "NOTICES": foreign}
    write_wheel(place, binary, name, info, version, [wheel_platform(library)])
    cpu = {"x86_64": "x64", "aarch64": "arm64"}.get(machine, machine)
    musl = "-musl" if wheel_platform(library).startswith("linux_") else "" # it calls no glibc
    write_npm(f"{place}/sqlite-tessera-{version}-{system}-{cpu}.tgz", {f"{system}-{cpu}{musl}": (binary, name)}, info, version)

    files = {name: binary, "tessera.h": header.encode(), **info}
    files["SHA256SUMS"] = sums(files)
    write_tar(f"{place}/tessera-{version}-{system}-{machine}.tar.gz", f"tessera-{version}", files)

    files = {"tessera.c": source.encode(), "tessera.h": header.encode(), "LICENSE": license_text}
    write_tar(f"{place}/tessera-amalgamation-{version}.tar.gz", f"tessera-amalgamation-{version}", files)


def main():
    library, place = sys.argv[1:3]
    return command.main("build.py", build, os.path.abspath(library), place)


if __name__ == "__main__":
    sys.exit(main())
