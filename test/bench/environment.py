"""The environment of a bench: a virtual environment in the bench's folder, with the packages of its peers, made on first use."""
import os
import subprocess
import sys


def install(python, packages, needed, record):
    """Installs packages unless an earlier run has done so, and says which are left out."""
    line = " ".join(packages)
    done = open(record, encoding="utf-8").read().splitlines() if os.path.exists(record) else []
    if line in done:
        return
    if subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]).returncode == 0:
        with open(record, "a", encoding="utf-8") as f:
            f.write(line + "\n")
    elif needed:
        sys.exit(f"{line} cannot be installed")
    else:
        print(f"{line} cannot be installed: its ways are left out", flush=True)


def inside(folder, name, packages):
    """Runs the program that calls this in the environment `name`, unless it runs there already. `packages` has lists: those of the first one are
    needed, the others are left out if they cannot be installed, and tried again by the next run."""
    place = os.path.join(folder, name)
    python = os.path.join(place, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(place):
        return
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
    for some in packages:
        install(python, some, some is packages[0], os.path.join(place, "installed"))
    sys.exit(subprocess.run([python, os.path.abspath(sys.argv[0]), *sys.argv[1:]]).returncode)
