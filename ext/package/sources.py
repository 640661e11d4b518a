"""Brings the C sources of the codecs, of mbedTLS and of SQLite, for builds that cannot use those of the system: other platforms, WebAssembly.

usage: sources.py DIRECTORY [list]

They come from crates of the Rust package registry, which carry them whole. `cargo` brings the crates; each is pinned here by its version and
by the SHA-256 of its file, and the parts that a library needs are unpacked into DIRECTORY/NAME-VERSION. A directory that is there already is
taken as it is, because it was renamed into its place only after it had been checked. With `list` the program prints as JSON, for each
library, its files, folders of headers, definitions and license.

A crate file that lies in DIRECTORY/crates is taken without asking cargo, so that a machine without a network can build, too.
"""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from typing import NamedTuple

import command
from command import Fault

HERE = os.path.dirname(os.path.abspath(__file__))


class Library(NamedTuple):
    crate: str
    version: str
    sha256: str          # of the crate's file
    folders: tuple       # the parts of the crate that are unpacked: folders, and files beside them
    files: tuple         # the sources to compile, patterns of the folder that is unpacked
    includes: tuple      # folders of headers
    definitions: tuple   # preprocessor definitions for the library's own sources
    license: str
    assembly: tuple = () # sources for x86_64 that make the library faster; they are empty where they cannot be used


LIBRARIES = {
    "zstd": Library(
        "zstd-sys", "2.1.3+zstd.1.5.7", "f729a06d0257428fd9d997ac8db7e1407bd0262ab016b085b36bc52957c0052d",
        ("zstd/lib", "zstd/LICENSE"), ("zstd/lib/common/*.c", "zstd/lib/compress/*.c", "zstd/lib/decompress/*.c"), ("zstd/lib",),
        ("NDEBUG", "XXH_PRIVATE_API", "ZSTDLIB_VISIBLE=", "ZSTDERRORLIB_VISIBLE="), "zstd/LICENSE", ("zstd/lib/decompress/*.S",)),
    "lz4": Library(
        "lz4-sys", "1.11.1+lz4-1.10.0", "6bd8c0d6c6ed0cd30b3652886bb8711dc4bb01d637a68105a3d5158039b418e6",
        ("liblz4/lib",), ("liblz4/lib/lz4.c", "liblz4/lib/lz4hc.c"), ("liblz4/lib",), ("NDEBUG", "LZ4LIB_VISIBILITY="), "liblz4/lib/LICENSE"),
    "bzip2": Library( # BZ_NO_STDIO: the library then wants a function from its user, which bzip2_error.c has
        "bzip2-sys", "0.1.13+1.0.8", "225bff33b2141874fe80d71e07d6eec4f85c5c216453dd96388240f96e1acc14",
        ("bzip2-1.0.8",), tuple(f"bzip2-1.0.8/{n}.c" for n in ("blocksort", "bzlib", "compress", "crctable", "decompress", "huffman", "randtable")),
        ("bzip2-1.0.8",), ("NDEBUG", "BZ_NO_STDIO"), "bzip2-1.0.8/LICENSE"),
    "zlib": Library(
        "libz-sys", "1.1.31", "ff20308ecabd635a2dc1dd5834a86c462cca20efba1d5d3ddab1f8aea3455cb2",
        ("src/zlib",), tuple(f"src/zlib/{n}.c" for n in ("adler32", "compress", "crc32", "deflate", "infback", "inffast", "inflate", "inftrees", "trees",
                                                        "uncompr", "zutil")),
        ("src/zlib",), ("NDEBUG",), "src/zlib/LICENSE"),
    "mbedTLS": Library( # mbedtls_config_tessera.h: what core/crypto calls, and nothing else
        "mbedtls-sys-auto", "2.28.15", "2fdbd15978db1dec7592cf8864094bcf6f7a101d7f84af15c2423967079982c1",
        ("vendor/include", "vendor/library", "vendor/LICENSE"),
        tuple(f"vendor/library/{n}.c" for n in ("aes", "aesni", "asn1parse", "base64", "bignum", "cipher", "cipher_wrap", "constant_time", "gcm", "md", "md5",
                                                "oid", "pem", "pk", "pk_wrap", "pkparse", "platform", "platform_util", "rsa", "rsa_internal", "sha256")),
        ("vendor/include",), ("NDEBUG", "MBEDTLS_CONFIG_FILE=<mbedtls_config_tessera.h>"), "vendor/LICENSE"),
    "SQLite": Library( # for programs that contain SQLite; the loadable extension needs its headers alone
        "libsqlite3-sys", "0.40.0", "b06e69070b7e12262b0cd90832f0a7396f142a2b330181255562decf9f0c6215",
        ("sqlite3",), ("sqlite3/sqlite3.c",), ("sqlite3",), ("NDEBUG",), ""),
}
CODECS = tuple(name for name in LIBRARIES if name != "SQLite") # what a loadable extension contains


def folder_of(library):
    return f"{library.crate}-{library.version}"


def sha256_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def fetch_crates(libraries):
    """Lets cargo bring these crates into its own cache, and returns the folders in which it keeps the files of crates."""
    if not shutil.which("cargo"):
        raise Fault("cargo is not installed: it brings the sources of " + ", ".join(libraries) + "; install Rust, or lay their crates into crates/")
    wanted = "".join(f'{lib.crate} = "={lib.version.split("+")[0]}"\n' for lib in libraries.values())
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/src")
        open(f"{folder}/src/lib.rs", "w", encoding="utf-8").close()
        with open(f"{folder}/Cargo.toml", "w", encoding="utf-8") as f:
            f.write(f'[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{wanted}')
        done = subprocess.run(["cargo", "fetch", "--quiet", "--target", "x86_64-unknown-linux-gnu"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Fault(f"cargo did not bring the sources: {done.stdout}")
    home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    return glob.glob(f"{glob.escape(home)}/registry/cache/*")


def unpack(crate, library, place):
    """Unpacks the parts of a crate's file that the library needs. The names in the archive are checked, though its hash is known."""
    prefix = folder_of(library) + "/"
    with tarfile.open(crate) as archive:
        for entry in archive:
            name = entry.name[len(prefix):]
            wanted = any(name == part or name.startswith(part + "/") for part in library.folders)
            if not entry.name.startswith(prefix) or not entry.isfile() or not wanted or ".." in name.split("/"):
                continue
            path = os.path.join(place, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                shutil.copyfileobj(archive.extractfile(entry), f)


def fetch(place, names=tuple(LIBRARIES)):
    """Brings the sources of these libraries into the directory `place`, unless they are there. Raises Fault."""
    place = os.path.abspath(place)
    lacking = {n: LIBRARIES[n] for n in names if not os.path.isdir(f"{place}/{folder_of(LIBRARIES[n])}")}
    if not lacking:
        return
    os.makedirs(f"{place}/crates", exist_ok=True)
    file_name = lambda library: f"{folder_of(library)}.crate"
    if not all(os.path.exists(f"{place}/crates/{file_name(lib)}") for lib in lacking.values()):
        caches = fetch_crates(lacking)
        for library in lacking.values():
            found = [p for p in (f"{cache}/{file_name(library)}" for cache in caches) if os.path.exists(p)]
            if not found:
                raise Fault(f"cargo has not kept {file_name(library)}")
            shutil.copyfile(found[0], f"{place}/crates/{file_name(library)}")
    for library in lacking.values():
        crate = f"{place}/crates/{file_name(library)}"
        got = sha256_of(crate)
        if got != library.sha256:
            raise Fault(f"{crate} has the SHA-256 {got}, not {library.sha256}: remove it, and it is brought anew")
        made = tempfile.mkdtemp(prefix="new-", dir=place)
        unpack(crate, library, made)
        os.chmod(made, 0o755)
        os.rename(made, f"{place}/{folder_of(library)}")


def files(place, name, assembly=False):
    """Returns the sources of a library, in a fixed order; with `assembly` also those for x86_64."""
    library = LIBRARIES[name]
    root = f"{os.path.abspath(place)}/{folder_of(library)}"
    found = [path for pattern in library.files + (library.assembly if assembly else ()) for path in sorted(glob.glob(f"{glob.escape(root)}/{pattern}"))]
    if name == "bzip2":
        found.append(f"{HERE}/bzip2_error.c")
    return found


def includes(place, names=tuple(LIBRARIES)):
    """Returns the folders of headers of these libraries, and of the configuration of mbedTLS."""
    place = os.path.abspath(place)
    return [f"{place}/{folder_of(LIBRARIES[n])}/{folder}" for n in names for folder in LIBRARIES[n].includes] + [f"{HERE}/config"]


def definitions(names=CODECS):
    """Returns the preprocessor definitions that all these libraries have, and that what includes their headers needs, too."""
    return list(dict.fromkeys(d for n in names for d in LIBRARIES[n].definitions))


def notices(place, names=CODECS):
    """Returns the licenses of these libraries as one text."""
    text = ["tessera's extension in this package contains these libraries, each under its own terms.\n"]
    for name in names:
        library = LIBRARIES[name]
        with open(f"{place}/{folder_of(library)}/{library.license}", encoding="utf-8") as f:
            text.append(f"\n==== {name} ({folder_of(library)}) {'=' * 40}\n\n{f.read()}")
    return "".join(text)


def main():
    place = sys.argv[1]
    failed = command.main("sources.py", fetch, place)
    if not failed and sys.argv[2:] == ["list"]:
        print(json.dumps({name: {"files": files(place, name), "assembly": files(place, name, True)[len(files(place, name)):], "includes": includes(place, (name,)),
                                 "definitions": definitions((name,)), "license": library.license and f"{os.path.abspath(place)}/{folder_of(library)}/{library.license}"}
                          for name, library in LIBRARIES.items()}, indent=1))
    return failed


if __name__ == "__main__":
    sys.exit(main())
