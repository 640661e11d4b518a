"""Runs tessera_check on every array of the corpus. TileDB's arrays are sound, so only notes may come. For arrays that
TileDB itself cannot read the check must say why. No check leaves a file open.

usage: check.py EXTENSION CORPUS [PATTERN]
"""
import os
import sqlite3
import sys

import arrays
import read


def check(db, directory, key):
    """Returns (severity, file, message) of all findings."""
    if key:
        return db.execute("SELECT * FROM tessera_check(?, ?)", (directory, key.encode())).fetchall()
    return db.execute("SELECT * FROM tessera_check(?)", (directory,)).fetchall()


def open_files():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def connect(extension):
    db = arrays.connect(extension)
    db.text_factory = str
    return db


def main():
    extension, corpus = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    passed = failed = notes = 0
    db = connect(extension)
    files = open_files()
    for name, directory, description in arrays.find(corpus, pattern):
        if read.uses_webp(description):
            continue  # it cannot be read, so it cannot be checked
        broken = any("error" in r for r in description["reads"])
        label = os.path.join(directory, "__labels")
        for path in [directory] + ([os.path.join(label, l) for l in sorted(os.listdir(label))] if os.path.isdir(label) else []):
            try:
                findings = check(db, path, description.get("encryption_key"))
            except sqlite3.Error as e:
                findings = [("error", "", str(e))]
            if open_files() > files:
                findings.append(("error", "", f"{open_files() - files} files stay open"))
            faults = [f for f in findings if f[0] != "note"]
            notes += len(findings) - len(faults)
            if broken != bool(faults):
                failed += 1
                print(f"FAIL {name}: " + (f"{len(faults)} findings, first {faults[0]}" if faults else "nothing found"))
            else:
                passed += 1
    db.close()
    print(f"check: {passed} passed, {failed} failed ({notes} notes)")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
