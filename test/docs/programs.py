"""Compiles and runs the C programs of a document, each in a directory that looks like the project's root, and compares its tables with
the stable headers: a table names each function, and no table names one that the public headers do not declare.

usage: programs.py DOCUMENT LIBRARY SOURCE_DIRECTORY COMPILER [COMPILER FLAGS]
A program is a block of C with a main(); what it prints must be what the document shows in the block behind it.
"""
import os
import re
import subprocess
import sys
import tempfile

import examples


def run(source, library, root, compiler):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "sql"))
        os.symlink(os.path.join(root, "sql", "data"), os.path.join(folder, "sql", "data"))
        with open(os.path.join(folder, "program.c"), "w", encoding="utf-8") as f:
            f.write(source)
        program = os.path.join(folder, "program")
        flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(root, "core")]
        subprocess.run([*compiler, *flags, program + ".c", library, "-Wl,-rpath," + os.path.dirname(library), "-o", program], check=True)
        result = subprocess.run([program], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return result.stdout + (f"ended with {result.returncode}\n" if result.returncode else "")


STABLE = ("tessera.h", "tessera_format.h", "tessera_query.h", "tessera_arrow.h", "tessera_ingest.h")


def functions(root, headers):
    """The functions that the headers declare."""
    found = set()
    for header in headers:
        with open(os.path.join(root, "core", header), encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        found.update(re.findall(r"^TSR_API\b[^;(]*?\b(tsr_\w+)\(", text, re.M))
    return found


def missing_and_unknown(text, root):
    """Faults of the tables under "Functions by subject"."""
    tables = text.split("\n## Functions by subject\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(tsr_\w+)`", "\n".join(line for line in tables.split("\n") if line.startswith("|"))))
    stable, host = functions(root, STABLE), functions(root, ("tessera_host.h",))
    assert len(stable) > 100 and len(host) > 20, (stable, host)
    return ([f"no table names {name}" for name in sorted(stable - named)]
            + [f"a table names {name}, which no header declares" for name in sorted(named - stable - host - {"tsr_host_store"})])


def main():
    document, library, root = sys.argv[1:4]
    with open(document, encoding="utf-8") as f:
        text = f.read()
    found = examples.examples(text, "c")
    faults = missing_and_unknown(text, root)
    for fault in faults:
        print(f"{document}: {fault}")
    wrong = 0
    for title, source, shown in found:
        printed = run(source, os.path.abspath(library), root, sys.argv[4:])
        if printed != shown:
            print(f"{document}: {title}: the document shows\n{shown}but it prints\n{printed}")
            wrong += 1
    print(f"{len(found)} programs, {wrong} wrong")
    return wrong != 0 or bool(faults) or not found


if __name__ == "__main__":
    sys.exit(main())
