"""The sources of codecs for other platforms (ext/package/sources.py): a crate with other bytes than the pinned ones is refused, nothing of it is
unpacked, and no name in an archive leads out of its folder. Nothing is downloaded.

usage: crates.py ROOT
"""
import io
import os
import sys
import tarfile
import tempfile

ROOT = os.path.abspath(sys.argv[1])
sys.path.insert(0, f"{ROOT}/ext/package")
import sources


def check(condition, what):
    if not condition:
        raise SystemExit(f"{what} does not hold")


def write_crate(path, prefix, entries):
    with tarfile.open(path, "w:gz") as archive:
        for name, kind in entries:
            entry = tarfile.TarInfo(prefix + name)
            data = b"text"
            if kind == "link":
                entry.type, entry.linkname, data = tarfile.SYMTYPE, "/etc/passwd", b""
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def other_bytes(place):
    library = sources.LIBRARIES["lz4"]
    os.makedirs(f"{place}/crates")
    crate = f"{place}/crates/{sources.folder_of(library)}.crate"
    write_crate(crate, sources.folder_of(library), [("/liblz4/lib/lz4.c", "file")])
    try:
        sources.fetch(place, ("lz4",))
        message = "nothing"
    except sources.Fault as fault:
        message = str(fault)
    check("has the SHA-256" in message and library.sha256 in message and crate in message, f"the refusal of a changed crate ({message})")
    check(sorted(os.listdir(place)) == ["crates"], "nothing is unpacked from a changed crate")


def names_that_lead_out(place):
    library = sources.LIBRARIES["zlib"]
    prefix = sources.folder_of(library)
    crate, inside = f"{place}/hostile.crate", f"{place}/a/b/c"
    write_crate(crate, prefix, [("/src/zlib/good.c", "file"), ("/src/zlib/../../../../out.c", "file"), ("/src/zlib/link.c", "link"), ("/src/zlibx/other.c", "file"),
                                ("/build.rs", "file"), ("x/src/zlib/prefix.c", "file")])
    os.makedirs(inside)
    sources.unpack(crate, library, inside)
    found = sorted(os.path.relpath(os.path.join(folder, name), place) for folder, _, names in os.walk(place) for name in names)
    check(found == ["a/b/c/src/zlib/good.c", "hostile.crate"], f"only what lies in the folders of the library is unpacked ({found})")


def pins():
    for name, library in sources.LIBRARIES.items():
        check(len(library.sha256) == 64 and library.version[0].isdigit(), f"the pin of {name}")
    pinned = [line for line in open(f"{ROOT}/ext/package/zig.txt", encoding="utf-8") if line.startswith("ziglang")]
    check(len(pinned) == 1 and "==" in pinned[0], "one version of zig is pinned")


def main():
    with tempfile.TemporaryDirectory() as place:
        os.mkdir(f"{place}/one")
        os.mkdir(f"{place}/two")
        other_bytes(f"{place}/one")
        names_that_lead_out(f"{place}/two")
    pins()
    return 0


if __name__ == "__main__":
    sys.exit(main())
