"""The rules of the house that a machine can check (docs/design.md): what includes what, how large files are, that each header stands
alone, what the libraries export, and that nothing needs a newer SQLite than the oldest.

usage: rules.py ROOT COMPILER EXTENSION CORE_LIBRARY
"""
import os
import re
import subprocess
import sys

# The layers of the core, lowest first; a header sees those before it in this list, and base.h, tessera.h always.
# tessera_format.h is the part of tessera.h that is vocabulary: it is seen through tessera.h alone.
LAYERS = ["base", "store", "crypto", "model", "filter", "format", "array", "ops"]
SEES = {"base": [], "store": ["base"], "crypto": ["base"], "model": ["base"],
        "filter": ["base", "model", "crypto"], "format": ["base", "model", "crypto", "filter", "store"],
        "array": ["base", "model", "crypto", "filter", "store", "format"],
        "ops": ["base", "model", "crypto", "filter", "store", "format", "array"]}
# The room of each file of the core, by its header; a name's longest prefix counts.
ROOMS = {"mix": "ops", "replace": "ops", "merge": "ops", "consolidate": "ops", "vacuum": "ops", "ops_maintain": "ops", "aggregate": "ops", "raster": "ops", "partition": "ops", "check": "ops", "ops_check": "ops", "error": "base", "memory": "base", "bytes": "base", "pool": "base", "store": "store", "crypto": "crypto",
         "datatype": "model", "datetime": "model", "domain": "model", "order": "model", "name": "model",
         "filter": "filter", "generic_tile": "format", "schema": "format", "enumeration": "format", "fragment_metadata": "format",
         "fragment_slot": "format", "fragment_statistics": "format", "rtree": "format", "metadata": "format", "commits": "format",
         "condition": "format", "group": "format", "tile": "format", "environment": "array", "progress": "array", "array": "array",
         "snapshot": "array", "listing": "array", "cache": "array", "fragment": "array", "map": "array", "objects": "array",
         "timed_files": "array", "tree_copy": "array", "pending": "array", "patience": "array", "unfinished": "array", "recover": "ops", "group_open": "array", "group_write": "array", "metadata_write": "array", "committed": "array", "owner": "array",
         "timed_write": "array", "evolve": "array", "metadata_open": "array", "inspect": "array", "plan": "ops", "predicate": "ops",
         "reader": "ops", "read": "ops", "gather": "ops", "corners": "ops", "writer": "ops", "overlay": "ops", "write": "ops", "fragment_writer": "ops", "load": "ops", "sweep": "ops", "sort": "ops", "piece": "ops"}
# The headers of the extension, likewise; its sources see what they need.
EXTENSION = ["tessera.h", "connection.h", "definition.h", "values.h", "table.h", "functions.h", "copy.h"]
PUBLIC = ("tessera.h", "tessera_format.h")
MOST_LINES = 1200
faults = []


def fault(text):
    faults.append(text)


def lines(path):
    with open(path, encoding="utf-8") as f:
        return f.read().split("\n")


def private(header):
    """The room of a header that only a few files of one room share: filter_compress.h belongs to filter."""
    room_name = header.split("_")[0]
    return room_name if room_name in LAYERS and header[:-2] not in LAYERS else None


def room(name):
    stem = name[:-2]
    for prefix in sorted(ROOMS, key=len, reverse=True):
        if stem == prefix or stem.startswith(prefix + "_"):
            return ROOMS[prefix]
    return None


def check_includes(root):
    for name in sorted(os.listdir(f"{root}/core")):
        if not name.endswith((".c", ".h")):
            continue
        own = name[:-2] if name.endswith(".h") and name[:-2] in LAYERS else room(name) or private(name)
        if own is None and name not in PUBLIC:
            fault(f"core/{name}: belongs to no room; name its room in test/rules/rules.py")
            continue
        for number, line in enumerate(lines(f"{root}/core/{name}"), 1):
            where = f"core/{name}:{number}"
            if re.match(r"\s*#\s*include\s*[<\"]sqlite3", line):
                fault(f"{where}: the core knows nothing of SQLite")
            if re.match(r"\s*#\s*include\s*<(mbedtls|psa)/", line) and name != "crypto.c":
                fault(f"{where}: only crypto.c includes mbedTLS")
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not match:
                continue
            seen = match.group(1)
            if name in PUBLIC:
                if (name, seen) != PUBLIC:
                    fault(f"{where}: {name} may not see {seen}")
                continue
            if seen == "tessera.h" or private(seen) == own:
                continue
            if seen[:-2] not in LAYERS or (seen[:-2] != own and seen[:-2] not in SEES[own]):
                fault(f"{where}: {own} may not see {seen}")
    for name in sorted(os.listdir(f"{root}/ext")):
        if not name.endswith((".c", ".h")):
            continue
        for number, line in enumerate(lines(f"{root}/ext/{name}"), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not match or match.group(1) in ("sqlite3.h", "sqlite3ext.h"):
                continue
            seen = match.group(1)
            if seen not in EXTENSION + ["store_sqlite.h"]:
                fault(f"ext/{name}:{number}: the extension sees the core through tessera.h only, not {seen}")
            elif name in EXTENSION and EXTENSION.index(name) <= (EXTENSION + ["store_sqlite.h"]).index(seen):
                fault(f"ext/{name}:{number}: {name} may not see {seen}")


def check_sizes(root):
    for folder in ("core", "ext", "test"):
        for directory, _, names in os.walk(f"{root}/{folder}"):
            for name in names:
                if name.endswith((".c", ".h", ".py")):
                    count = len(lines(f"{directory}/{name}")) - 1
                    if count > MOST_LINES:
                        fault(f"{directory}/{name}: {count} lines; over {MOST_LINES} there are two nouns in it")


def check_headers(root, compiler):
    for folder in ("core", "ext"):
        for name in sorted(os.listdir(f"{root}/{folder}")):
            if not name.endswith(".h"):
                continue
            result = subprocess.run([compiler, "-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", f"-I{root}/core",
                                     f"-I{root}/ext", "-x", "c", f"{root}/{folder}/{name}"], capture_output=True, text=True)
            if result.returncode:
                fault(f"{folder}/{name} does not compile alone:\n{result.stderr[:800]}")


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return sorted(line.split()[-1] for line in out.splitlines() if line.split()[-2] in "TDBRVW")


def check_exports(extension, core):
    symbols = [s for s in exported(extension) if not s.startswith(("__asan", "__ubsan", "__odr_asan", "__tsan"))]
    if symbols != ["sqlite3_tessera_init"]:
        fault(f"tessera.so exports {symbols[:20]}, not sqlite3_tessera_init alone")
    symbols = [s for s in exported(core) if not s.startswith(("__asan", "__ubsan", "__odr_asan", "__tsan"))]
    wrong = [s for s in symbols if not re.match(r"tsr_[a-z]", s)]
    if wrong or not symbols:
        fault(f"the core library exports {wrong[:20]}; only tsr_* may be seen")


def check_sqlite(root, compiler):
    """No routine that the oldest SQLite does not have: those that came later stand last in sqlite3ext.h, and behind the end of its table."""
    texts = {}
    for name in sorted(os.listdir(f"{root}/ext")):
        if name.endswith((".c", ".h")):
            with open(f"{root}/ext/{name}", encoding="utf-8") as f:
                texts[name] = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    least = int(re.search(r"define TSX_SQLITE_MIN\s+(\d+)", "".join(texts.values())).group(1))
    header = subprocess.run([compiler, "-E", "-C", "-include", "sqlite3ext.h", "-x", "c", os.devnull], capture_output=True, text=True, check=True).stdout
    version, newer = 0, {}
    for line in header[header.index("struct sqlite3_api_routines {"):].splitlines():
        came = re.search(r"Version 3\.(\d+)\.(\d+) and later", line)
        if came:
            version = 3000000 + int(came.group(1)) * 1000 + int(came.group(2))
        named = re.search(r"\(\*(\w+)\)\(", line)
        if named and version > least:
            newer[f"sqlite3_{named.group(1)}"] = version
        if line.startswith("};"):
            break
    if not newer:
        fault(f"sqlite3ext.h shows no routine newer than {least}")
    for name, text in texts.items():
        for routine in sorted(set(re.findall(r"\bsqlite3_\w+", text)) & set(newer)):
            # Where the version is tested within the same function, it is the caller's to know what it does.
            for body in re.split(r"^}", text, flags=re.M):
                if re.search(rf"\b{routine}\b", body) and "sqlite3_libversion_number" not in body:
                    fault(f"ext/{name} calls {routine}, which came with SQLite {newer[routine]}, after {least}, without a test of the version")


def main():
    root, compiler, extension, core = sys.argv[1:5]
    check_includes(root)
    check_sizes(root)
    check_headers(root, compiler)
    check_sqlite(root, compiler)
    check_exports(extension, core)
    for text in faults:
        print(text)
    print(f"rules: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
