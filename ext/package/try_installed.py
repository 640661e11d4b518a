"""Asks the installed package the questions of docs/hosts, and compares its answers with those that the hosts must give.

usage: try_installed.py DATA

Run it by the Python into which the wheel was installed, outside of the project's directory. Where Python's own sqlite3 loads no extensions,
apsw is the host.
"""
import os
import sqlite3
import subprocess
import sys

import tessera

HOSTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "hosts")


def main():
    host = "host_sqlite3.py" if hasattr(sqlite3.Connection, "enable_load_extension") else "host_apsw.py"
    done = subprocess.run([sys.executable, os.path.join(HOSTS, host), tessera.loadable_path(), sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with open(os.path.join(HOSTS, "expected"), encoding="utf-8") as f:
        expected = f.read()
    if done.returncode or done.stdout != expected:
        print(f"{host} ended with {done.returncode} and printed\n{done.stdout}instead of\n{expected}")
        return 1
    print(f"{host} with {tessera.loadable_path()}: as docs/hosts/expected says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
