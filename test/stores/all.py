"""Runs the tests of object stores beside every server that can be had: moto, and versitygw if it is built or can be built with Go.

usage: all.py CLIENT FOLDER LIBRARY CORPUS TILEDB_ENVIRONMENT
"""
import os
import subprocess
import sys

import servers

TESTS = ("calls", "faults")                                            # of the client
ARRAYS = ("surface", "requests", "both_ways", "transactions", "corpus") # of arrays, by SQL


def main():
    client, folder, library, corpus, tiledb = sys.argv[1:6]
    more = {"both_ways": [tiledb], "corpus": [corpus]}
    program = servers.versitygw(os.path.join(folder, "go"))
    if not program:
        print("versitygw could not be built; Go is needed", file=sys.stderr)
    failed = 0
    for kind in ("moto", "versitygw") if program else ("moto",):
        for test in TESTS:
            print(f"==> {test} beside {kind}", flush=True)
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{test}.py")
            arguments = [script, client, os.path.join(folder, f"{kind}-{test}"), kind] + [program] * (kind == "versitygw")
            failed += subprocess.run([sys.executable, *arguments], check=False).returncode != 0
        for test in ARRAYS:
            print(f"==> {test} beside {kind}", flush=True)
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{test}.py")
            environment = dict(os.environ, TESSERA_VERSITYGW=os.path.join(folder, "go"))
            arguments = [script, library, os.path.join(folder, test), *more.get(test, ()), kind] + ["--many"] * (test == "requests")
            failed += subprocess.run([sys.executable, *arguments], check=False, env=environment).returncode not in (0, 77)
    each = len(TESTS) + len(ARRAYS)
    print(f"{each * 2 - failed - (0 if program else each)} passed, {failed + (0 if program else each)} failed")
    return 1 if failed or not program else 0


if __name__ == "__main__":
    sys.exit(main())
