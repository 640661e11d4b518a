"""The environment of a bench: a virtual environment in the bench's folder, with the packages of its peers, made on first use."""
import os
import subprocess
import sys


def inside(folder, name, packages):
    """Runs the program that calls this in the environment `name`, unless it runs there already. `packages` has lists: those of the first one are
    needed, the others are left out if they cannot be installed."""
    place = os.path.join(folder, name)
    python = os.path.join(place, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(place):
        return
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        for some in packages:
            subprocess.run([python, "-m", "pip", "install", "-q", *some], check=some is packages[0])
    sys.exit(subprocess.run([python, os.path.abspath(sys.argv[0]), *sys.argv[1:]]).returncode)
