"""The rules of the house that a machine can check (docs/design.md, "Rules"). The layers are the folders: core/CMakeLists.txt and ext/CMakeLists.txt
add them lowest first, and a folder sees itself and the folders before it.

usage: lint.py ROOT COMPILER EXTENSION CORE_LIBRARY
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "package"))
import amalgamate

PUBLIC = ("tessera.h", "tessera_format.h", "tessera_query.h", "tessera_arrow.h", "tessera_ingest.h", "tessera_host.h", "tessera_path.h")
# The only files of core/ that quote names on disk and compare format versions with numbers.
LAYOUT = ("format/layout.h", "filter/filter_version.h")
# Folders of ext/ that are no layers: products with readers of their own, and the programs that make packages.
PRODUCTS = ("package", "python", "npm", "wasm")
faults = []


def fault(text):
    faults.append(text)


def lines(path):
    with open(path, encoding="utf-8") as f:
        return f.read().split("\n")


def files(root, base, order, endings=(".c", ".h")):
    """(folder, name) of each source and header, sorted."""
    return [(folder, name) for folder in order for name in sorted(os.listdir(f"{root}/{base}/{folder}")) if name.endswith(endings)]


def includes(path):
    for number, line in enumerate(lines(path), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^">]+)', line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def check_tree(root, base, order):
    """Each source is in the CMakeLists.txt of its folder, and each folder is a layer."""
    listed = set(amalgamate.source_paths(root, base))
    there = {f"{base}/{folder}/{name}" for folder, name in files(root, base, order, (".c",))}
    for path in sorted(listed ^ there):
        fault(f"{path}: {'the CMakeLists.txt of its folder does not list it' if path in there else 'a CMakeLists.txt lists it, but there is no such file'}")
    for name in sorted(os.listdir(f"{root}/{base}")):
        if name.endswith((".c", ".h")) and name not in PUBLIC:
            fault(f"{base}/{name}: only the public headers lie beside the folders; put it into a layer")
        elif os.path.isdir(f"{root}/{base}/{name}") and name not in order and name not in PRODUCTS:
            fault(f"{base}/{name}: {base}/CMakeLists.txt does not add this folder, so its layer is unknown")


def check_unit_tests(root, order):
    """Unit tests lie in the folder of the layer that they test: CMake finds them nowhere else."""
    for name in sorted(os.listdir(f"{root}/test/unit")):
        if name not in order:
            fault(f"test/unit/{name} lies in no layer: put it into the folder of what it tests, or into test/support")


def check_core_includes(root, order):
    for folder, name in files(root, "core", order):
        for number, local, seen in includes(f"{root}/core/{folder}/{name}"):
            where = f"core/{folder}/{name}:{number}"
            if not local:
                if re.match(r"(mbedtls|psa)/", seen) and folder != "crypto":
                    fault(f"{where}: only core/crypto includes mbedTLS")
                continue
            above = seen.split("/")[0]
            if seen.startswith("sqlite3"):
                fault(f"{where}: the core knows nothing of SQLite")
            elif seen not in PUBLIC and above not in order:
                fault(f"{where}: {seen} names no folder of the core")
            elif seen not in PUBLIC and order.index(above) > order.index(folder):
                fault(f"{where}: {folder} lies below {above} and may not include {seen}")


def check_extension_includes(root, order):
    for folder, name in files(root, "ext", order):
        for number, local, seen in includes(f"{root}/ext/{folder}/{name}"):
            where = f"ext/{folder}/{name}:{number}"
            above = seen.split("/")[0]
            if not local or seen in ("tessera.h", "tessera_host.h", "tessera_path.h") or (seen.startswith("sqlite3") and name == "sqlite_api.h"):
                continue
            if above not in order:
                fault(f"{where}: the extension sees the core through its public headers and SQLite through connection/sqlite_api.h, not {seen}")
            elif order.index(above) > order.index(folder):
                fault(f"{where}: {folder} lies below {above} and may not include {seen}")


def without_comments(text):
    """The text with each comment replaced by its newlines; string literals stay."""
    return re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*',
                  lambda match: match.group(0) if match.group(0).startswith('"') else "\n" * match.group(0).count("\n"), text, flags=re.S)


def check_layout(root, order):
    """Names on disk and numbers of format versions stand in format/layout.h alone."""
    for folder, name in files(root, "core", order):
        if f"{folder}/{name}" in LAYOUT:
            continue
        text = without_comments("\n".join(lines(f"{root}/core/{folder}/{name}")))
        for number, line in enumerate(text.split("\n"), 1):
            where = f"core/{folder}/{name}:{number}"
            for literal in re.findall(r'"(?:\\.|[^"\\])*"', line):
                if re.search(r'(?<![A-Za-z0-9])__[a-z]|^"\.(wrt|ok|del|upd|con|ign|vac|vac\.new|meta|pending|late|metadata)"$', literal):
                    fault(f"{where}: {literal} is a name on disk: format/layout.h has a constant for it")
            if re.search(r"\bversion\b\)? *(<=|>=|==|!=|<|>) *[1-9]|\b[1-9]\d* *(<=|>=|==|!=|<|>) *[\w>.-]*\bversion\b", line):
                fault(f"{where}: a format version is compared with a number: format/layout.h has a predicate for it")


def check_allocations(root, order):
    """Memory is allocated through the typed macros of base/memory.h, which know the size of an element and need no `void *`."""
    for folder, name in files(root, "core", order):
        if (folder, name[:-2]) == ("base", "memory"):
            continue
        for number, line in enumerate(lines(f"{root}/core/{folder}/{name}"), 1):
            called = re.search(r"\btsr__(alloc|realloc|arena_(?:alloc|array|raw|copy|grow))(\w*)\(", line)
            if called:
                fault(f"core/{folder}/{name}:{number}: {called.group(0)}...) takes a void *; use the macros of base/memory.h (TSR_ALLOC_ARRAY, TSR_ARENA_COPY, ...)")


def check_twice(root, orders):
    """TSR_MIN and TSR_MAX evaluate an argument twice, so it must change nothing."""
    for base, order in orders:
        for folder, name in files(root, base, order):
            for number, line in enumerate(lines(f"{root}/{base}/{folder}/{name}"), 1):
                if re.search(r"\bTSR_(MIN|MAX)\([^;]*(\+\+|--)", line):
                    fault(f"{base}/{folder}/{name}:{number}: TSR_MIN or TSR_MAX evaluates ++ or -- twice")


def check_shared_names(root, orders):
    """A type, an enumerator or a macro of the project has one definition: the amalgamation is one file, and there two headers meet that no
    source includes together."""
    defined = {}
    for base, order in orders:
        for folder, name in files(root, base, order):
            text = without_comments("\n".join(lines(f"{root}/{base}/{folder}/{name}")))
            names = set(re.findall(r"^(?:\} (?=ts\w+;)|(?:typedef )?(?:struct|union|enum) (?=ts\w+ \{))(ts[rx]_\w+)", text, re.M))
            for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
                names.update(re.findall(r"(?:^|,)\s*(TS[RX]_\w+)", body))
            if name.endswith(".h"): # the macros of a source end with it
                names.update(re.findall(r"^#define (TS[RX]_\w+)", text, re.M))
            for found in names:
                defined.setdefault(found, []).append(f"{base}/{folder}/{name}")
    for found, paths in sorted(defined.items()):
        if len(paths) > 1:
            fault(f"{found} is defined in {' and in '.join(paths)}: give one of them another name")


def check_windows_names(root, orders):
    """No name of a function or variable is one of Windows' headers, which the amalgamation includes above all sources: macros and C functions."""
    for base, order in orders:
        for folder, name in files(root, base, order):
            text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', without_comments("\n".join(lines(f"{root}/{base}/{folder}/{name}"))))
            for number, line in enumerate(text.split("\n"), 1):
                found = re.search(r"(?<![.>\w])(?:near|far)\b(?= *[=;,)<>+-])|^static [\w *]*\b(?:connect|eof|bind|listen|send|select|access)(?=\()", line)
                if found:
                    fault(f"{base}/{folder}/{name}:{number}: {found.group(0).split()[-1]} is a name of Windows' headers: choose another")


def check_circles(root, base, order):
    """No file depends on itself: X.c and X.h are one file here, and a header that serves a whole folder is one of its own."""
    needs = {}
    for folder, name in files(root, base, order):
        module = f"{folder}/{name[:-2]}"
        needs.setdefault(module, set()).update(seen[:-2] for _, local, seen in includes(f"{root}/{base}/{folder}/{name}")
                                               if local and seen.split("/")[0] in order and seen[:-2] != module)
    done = set()

    def visit(module, way):
        if module in way:
            fault(f"{base}: {' -> '.join(way[way.index(module):] + [module])}: these files need each other")
        elif module not in done:
            for other in sorted(needs.get(module, ())):
                visit(other, way + [module])
            done.add(module)

    for module in sorted(needs):
        visit(module, [])


def check_design(root, base, order):
    """The table of layers in docs/design.md has the folders in their order, and names each file."""
    text = "\n".join(lines(f"{root}/docs/design.md"))
    rows = re.findall(r"^\| `(\w+)/` \| `([^`]*)` \|", text[text.index(f"| folder of `{base}/` |"):].split("\n\n")[0], re.M)
    if [folder for folder, _ in rows] != order:
        fault(f"docs/design.md: the table of {base}/ has the folders {[folder for folder, _ in rows]}, not {order}")
    for folder, modules in rows:
        if folder in order:
            there = {name[:-2] for _, name in files(root, base, [folder])}
            for name in sorted(there ^ set(modules.split())):
                fault(f"docs/design.md: the row of {base}/{folder} {'lacks' if name in there else 'names, but the folder lacks,'} {name}")


def check_public_names(root):
    """In the public headers each type has one name: its tag, which is declared by one typedef, and names nothing else."""
    typedefs, tags, others = [], set(), set()
    for header in PUBLIC:
        text = without_comments("\n".join(lines(f"{root}/core/{header}")))
        found = re.findall(r"\btypedef\s+(?:struct|enum|union)\s+(\w+)\s+(\w+);", text)
        found += re.findall(r"\btypedef\s+(?:struct|enum|union)\b\s*(\w*)\s*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}\s*(\w+);", text)
        for tag, name in found:
            if tag != name:
                fault(f"core/{header}: the tag of {name} is '{tag}'")
        typedefs += [name for _, name in found]
        tags |= set(re.findall(r"\b(?:struct|enum|union)\s+(ts[rx]_\w+)", text))
        others |= set(re.findall(r"\b(ts[rx]_\w+)\(", text))
    for name in sorted(set(typedefs)):
        if typedefs.count(name) > 1 or name in others:
            fault(f"core/tessera*.h: {name} is declared more than once")
    for name in sorted(tags - set(typedefs)):
        fault(f"core/tessera*.h: the tag {name} has no typedef of its name")


def check_public_options(root):
    """Options and requests of the stable headers may get more fields at their ends (tessera.h, "Options"): each begins with its size."""
    for name in PUBLIC:
        if name in ("tessera_host.h", "tessera_path.h"):
            continue
        for match in re.finditer(r"typedef struct (tsr_\w*_options|tsr_(?:\w+_)?request|tsr_query) \{[^\n]*\n\s*([^\n]*)", "\n".join(lines(f"{root}/core/{name}"))):
            if not match.group(2).startswith("size_t size;"):
                fault(f"core/{name}: {match.group(1)} does not begin with its size, so it could not get more fields")


def check_own_errors(root, order):
    """Each public function that takes an error may be given NULL: its first statement is TSR_OWN_ERROR."""
    declared = set()
    for header in PUBLIC:
        text = without_comments("\n".join(lines(f"{root}/core/{header}")))
        declared |= set(re.findall(r"\b(tsr_[a-z]\w*)\([^;{}]*?tsr_error \*error\)", text))
    for folder, name in files(root, "core", order, (".c",)):
        text = without_comments("\n".join(lines(f"{root}/core/{folder}/{name}")))
        for match in re.finditer(r"^[A-Za-z_][\w \*]*?\b(tsr_[a-z]\w*)\([^;{}]*?tsr_error \*error\) \{\s*(.*)", text, re.M):
            if match.group(1) in declared and not match.group(2).startswith("TSR_OWN_ERROR(error);"):
                fault(f"core/{folder}/{name}: {match.group(1)} is public and takes an error: it begins with TSR_OWN_ERROR(error)")


def check_users(root, orders):
    """What a header of a layer declares, another file calls, or a test. What one file alone uses is static."""
    words = {}
    for folder in ("core", "ext", "test"):
        for directory, _, names in os.walk(f"{root}/{folder}"):
            for name in names:
                if name.endswith((".c", ".h")):
                    text = without_comments("\n".join(lines(f"{directory}/{name}")))
                    words[f"{directory}/{name}"] = set(re.findall(r"\bts[rx]_\w+", text))
    for base, order in orders:
        for folder, name in files(root, base, order, (".h",)):
            header = f"{root}/{base}/{folder}/{name}"
            text = re.sub(r"^static inline .*", "", without_comments("\n".join(lines(header))), flags=re.M)
            declarations = re.findall(r"\b(ts[rx]_\w+)\(", text)
            for declared in sorted(set(declarations)):
                if declarations.count(declared) > 1:  # a macro or an inline function of the header calls it
                    continue
                users = [path for path, used in words.items() if declared in used and path != header]
                if len(users) == 1 and users[0] == f"{header[:-1]}c":
                    fault(f"{base}/{folder}/{name}: only {name[:-1]}c uses {declared}: make it static there")


def check_headers(root, compiler, base, order):
    """Each header compiles alone."""
    headers = [f"{root}/{base}/{folder}/{name}" for folder, name in files(root, base, order, (".h",))]
    if base == "core":
        headers += [f"{root}/core/{name}" for name in ("tessera.h", "tessera_host.h", "tessera_path.h")]
    flags = ["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function", "-Werror", f"-I{root}/core", f"-I{root}/ext"]
    for header in headers:
        result = subprocess.run([compiler, *flags, "-x", "c", header], capture_output=True, text=True)
        if result.returncode:
            fault(f"{os.path.relpath(header, root)} does not compile alone:\n{result.stderr[:800]}")


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return sorted(line.split()[-1] for line in out.splitlines() if line.split()[-2] in "TDBRVW")


def check_exports(extension, core):
    symbols = [s for s in exported(extension) if not s.startswith(("__asan", "__ubsan", "__odr_asan", "__tsan"))]
    if sorted(symbols) != ["sqlite3_tessera_init", "tessera_api"]:
        fault(f"tessera.so exports {symbols[:20]}, not sqlite3_tessera_init and tessera_api alone")
    symbols = [s for s in exported(core) if not s.startswith(("__asan", "__ubsan", "__odr_asan", "__tsan"))]
    wrong = [s for s in symbols if not re.match(r"tsr_[a-z]", s)]
    if wrong or not symbols:
        fault(f"the core library exports {wrong[:20]}; only tsr_* may be seen")


def newer_routines(compiler, least):
    """The routines of sqlite3ext.h that came after the version `least`, each with its version. The header lists routines in the order of releases."""
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
    return newer


def check_sqlite(root, compiler, order):
    """The extension calls no routine that the oldest SQLite lacks, unless the calling function tests the version."""
    texts = {}
    for folder, name in files(root, "ext", order):
        texts[f"ext/{folder}/{name}"] = re.sub(r"/\*.*?\*/", "", "\n".join(lines(f"{root}/ext/{folder}/{name}")), flags=re.S)
    least = int(re.search(r"define TSX_SQLITE_MIN\s+(\d+)", "".join(texts.values())).group(1))
    newer = newer_routines(compiler, least)
    if not newer:
        fault(f"sqlite3ext.h shows no routine newer than {least}")
    for path, text in texts.items():
        for routine in sorted(set(re.findall(r"\bsqlite3_\w+", text)) & set(newer)):
            for body in re.split(r"^}", text, flags=re.M):
                if re.search(rf"\b{routine}\b", body) and "sqlite3_libversion_number" not in body:
                    fault(f"{path} calls {routine}, which came with SQLite {newer[routine]}, after {least}, without a test of the version")


def main():
    root, compiler, extension, library = sys.argv[1:5]
    core, ext = amalgamate.layers(root, "core"), amalgamate.layers(root, "ext")
    for base, order in (("core", core), ("ext", ext)):
        check_tree(root, base, order)
        check_circles(root, base, order)
        check_design(root, base, order)
        check_headers(root, compiler, base, order)
    check_users(root, (("core", core), ("ext", ext)))
    check_windows_names(root, (("core", core), ("ext", ext)))
    check_shared_names(root, (("core", core), ("ext", ext)))
    check_unit_tests(root, core)
    check_public_names(root)
    check_public_options(root)
    check_own_errors(root, core)
    check_core_includes(root, core)
    check_extension_includes(root, ext)
    check_allocations(root, core)
    check_twice(root, (("core", core), ("ext", ext)))
    check_layout(root, core)
    check_sqlite(root, compiler, ext)
    check_exports(extension, library)
    for text in faults:
        print(text)
    print(f"lint: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
