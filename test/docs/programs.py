"""Compiles and runs the C programs of a document, each in a directory that looks like the project's root.

usage: programs.py DOCUMENT LIBRARY SOURCE_DIRECTORY COMPILER [COMPILER FLAGS]
A program is a block of C with a main(); what it prints must be what the document shows in the block behind it.
"""
import os
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


def main():
    document, library, root = sys.argv[1:4]
    with open(document, encoding="utf-8") as f:
        found = examples.examples(f.read(), "c")
    wrong = 0
    for title, source, shown in found:
        printed = run(source, os.path.abspath(library), root, sys.argv[4:])
        if printed != shown:
            print(f"{document}: {title}: the document shows\n{shown}but it prints\n{printed}")
            wrong += 1
    print(f"{len(found)} programs, {wrong} wrong")
    return wrong != 0 or not found


if __name__ == "__main__":
    sys.exit(main())
