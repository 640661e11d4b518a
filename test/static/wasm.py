"""The lists of ext/wasm/build.py against the sources: each entry names a source, once, and without the sources that it leaves out nothing is missing but
what no_buckets.c and no_streams.c have. It needs no emscripten: it looks at the objects of this build.

usage: wasm.py ROOT BUILD COMPILER
"""
import glob
import os
import subprocess
import sys
import tempfile


def symbols(objects):
    """Returns the names of tessera that objects define, and those that they want."""
    defined, wanted = set(), {}
    for path in objects:
        for line in subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines():
            kind, name = line.split()[-2:]
            if name.startswith(("tsr_", "tsx_", "tessera_", "sqlite3_tessera")):
                if kind == "U":
                    wanted.setdefault(name, path)
                elif kind.isupper():
                    defined.add(name)
    return defined, wanted


def main():
    root, build, compiler = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    sys.path[:0] = [f"{root}/ext/wasm", f"{root}/ext/package"]   # both have a build.py
    sys.dont_write_bytecode = True
    import amalgamate
    import build as wasm
    sources = [path for base in ("core", "ext") for path in amalgamate.source_paths(root, base)]
    faults = []
    for name in ("FAST", "LEFT_OUT"):
        entries = getattr(wasm, name)
        faults += [f"{name}: {entry!r} is there twice" for entry in sorted(set(entries)) if entries.count(entry) > 1]
        faults += [f"{name}: {entry!r} is no source" for entry in entries if not any(path.startswith(entry) for path in sources)]
    listed = set(sources)
    for base in ("core", "ext"):
        for folder in amalgamate.layers(root, base):
            for path in sorted(glob.glob(f"{glob.escape(root)}/{base}/{folder}/*.c")):
                if os.path.relpath(path, root) not in listed:
                    faults.append(f"{os.path.relpath(path, root)} is in no list of CMake's, so that no package has it")
    places = {path: glob.glob(f"{glob.escape(build)}/CMakeFiles/*/{path}.o") for path in sources}
    objects = [found[0] for path, found in places.items() if found and not path.startswith(wasm.LEFT_OUT)]
    if len([path for path, found in places.items() if not found]) > len(sources) // 4:
        faults.append(f"{build} has objects of {len(objects)} of {len(sources)} sources: build the targets tessera and tessera_core")
    with tempfile.TemporaryDirectory() as folder:
        for name in wasm.GLUE[2:]:
            objects.append(f"{folder}/{name}.o")
            subprocess.run([compiler, "-w", "-DSQLITE_CORE", f"-I{root}/core", f"-I{root}/ext", "-c", f"{root}/ext/wasm/{name}.c", "-o", objects[-1]], check=True)
        defined, wanted = symbols(objects)
    faults += [f"{os.path.basename(path)[:-2]} wants {name}, which LEFT_OUT takes away" for name, path in sorted(wanted.items()) if name not in defined]
    print("\n".join(faults) or f"the WebAssembly module has what it needs of {len(sources)} sources")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
