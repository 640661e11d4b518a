"""Runs the tests of object stores beside every server that can be had: moto, and versitygw if it is built or can be built with Go.

usage: all.py CLIENT FOLDER
"""
import os
import subprocess
import sys

import servers

TESTS = ("calls", "faults")


def main():
    client, folder = sys.argv[1:3]
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
    count = len(TESTS) * 2
    print(f"{count - failed - (0 if program else len(TESTS))} passed, {failed + (0 if program else len(TESTS))} failed")
    return 1 if failed or not program else 0


if __name__ == "__main__":
    sys.exit(main())
