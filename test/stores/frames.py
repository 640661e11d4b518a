"""The Python module with arrays in buckets: DataFrames, ndarrays, Datasets, Dask, pickled Arrays in other processes, and the command
`tessera`. pandas, pyarrow and xarray have an environment of their own, and a process (frames_side.py).

usage: frames.py LIBRARY FOLDER ARROW_ENVIRONMENT [moto | versitygw | azurite | gcs | gcs_memory]
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "interop"))
import run as environments

from buckets import There, run

ENVIRONMENT = sys.argv.pop(3) # buckets keeps the arguments as they came


def python():
    """The Python that has pandas and the others, or None."""
    modules, wanted = environments.ARROW
    preload = os.environ.pop("LD_PRELOAD", None)
    try:
        return environments.make_alone(ENVIRONMENT, modules, wanted)
    finally:
        if preload:
            os.environ["LD_PRELOAD"] = preload


def test_module(bucket):
    options = bucket.server.options(bucket.server.port)
    words = [os.path.join(HERE, "frames_side.py"), bucket.library, os.path.join(bucket.folder, "module-" + bucket.server.kind), There.scheme, json.dumps(options)]
    subprocess.run([python(), "-X", "faulthandler", *words], check=True, timeout=600)


if __name__ == "__main__":
    if not os.environ.get("TESSERA_PRELOAD") and not python():
        print("SKIPPED: the Python packages could not be installed")
        sys.exit(77)
    sys.exit(run((test_module,), "frames"))
