"""Runs tests of test/sqlite with the newest SQLite, which the package apsw contains, in one process for each.

usage: newest.py EXTENSION CORPUS SCRIPT[:WORD,...]...      the words choose tests by their names
"""
import os
import subprocess
import sys


def main():
    extension, corpus, *scripts = sys.argv[1:]
    environment = dict(os.environ, BINDING="apsw", ROUNDS=os.environ.get("ROUNDS", "8"), LD_PRELOAD=os.environ.get("TESSERA_PRELOAD", ""), ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    failed = 0
    for script in scripts:
        script, _, words = script.partition(".py:")
        script = script.removesuffix(".py") + ".py"
        print(f"{os.path.basename(script)}: {words}", flush=True)
        failed += subprocess.run([sys.executable, script, extension, corpus, *filter(None, words.split(","))], env=environment).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
