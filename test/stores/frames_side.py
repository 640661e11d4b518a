"""What the Python module does with arrays in a bucket, in a process that has pandas, pyarrow, xarray and dask (frames.py starts it).

usage: frames_side.py EXTENSION FOLDER SCHEME OPTIONS      # JSON: the options of tessera_configure for SCHEME://bucket
"""
import json
import os
import pickle
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
from package import fails, install, same

import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr

BUCKET = f"{sys.argv[3]}://bucket"
URI = f"{BUCKET}/frames"
SHORT = URI.replace("azure://", "az://").replace("gcs://", "gs://") # the other spelling of the scheme
OPTIONS = json.loads(sys.argv[4])
SECRETS = [OPTIONS[name] for name in ("key_id", "secret", "key") if name in OPTIONS]


def test_storage():
    """open() takes the options of a bucket, with and without a connection; without them an array in a bucket cannot be reached."""
    frame = pd.DataFrame({"x": [3, 1, 2], "v": [0.5, 1.5, None], "name": ["c", "a", None]})
    fails(tessera.NotFound, "call tessera_configure first", lambda: tessera.open(f"{URI}/points"))
    tessera.configure(f"{URI}/points", **OPTIONS)
    tessera.create(f"{URI}/points", frame, dimensions=["x"], kind="sparse", domains={"x": [0, 99]})
    db = sqlite3.connect(":memory:")
    tessera.load(db)
    for array in (tessera.open(f"{URI}/points", storage=OPTIONS), tessera.open(f"{URI}/points", connection=db, storage=OPTIONS, threads=1)):
        got = pd.DataFrame.from_arrow(array.order("x"))
        same((got.x.tolist(), got.name.fillna("none").tolist()), ([1, 2, 3], ["a", "none", "c"]), "rows")
        assert np.array_equal(got.v.to_numpy(), [1.5, np.nan, 0.5], equal_nan=True), got
        same(pa.table(array.where("v", ">", 1).select("x")).column("x").to_pylist(), [1], "a condition")
    same(db.execute("SELECT count(*) FROM tessera_array(?)", (f"{URI}/points",)).fetchone(), (1,), "the scope holds for the connection's SQL")
    fails(tessera.NotFound, "call tessera_configure first", lambda: tessera.open(f"{URI}/elsewhere"))
    fails(tessera.Error, "no option is called 'bucket'", lambda: tessera.open(f"{URI}/points", storage={"bucket": "b"}))


def test_blocks():
    tessera.configure(BUCKET, **OPTIONS)
    values = np.arange(10000, dtype="f4").reshape(100, 100)
    array = tessera.create(f"{URI}/block", values, extents={"dim_0": 25, "dim_1": 50})
    assert np.array_equal(array.numpy(), values) and np.array_equal(tessera.open(f"{URI}/block").sel(dim_0=(10, 30)).numpy(), values[10:31])
    array.write("value", np.full((2, 2), -1, "f4"), {"dim_0": 5, "dim_1": 6})
    values[5:7, 6:8] = -1
    assert np.array_equal(tessera.open(f"{URI}/block").numpy(), values)
    for each in (array, tessera.open(f"{URI}/block")):
        same(each.dask("value").astype("f8").sum().compute(), values.sum(dtype="f8"), "the sum by dask")


def test_pickles():
    """A pickled Array has no keys in it: the process that reads it declares the bucket itself."""
    kept = pickle.dumps(tessera.open(f"{URI}/block"))
    assert SECRETS and not any(secret.encode() in kept for secret in SECRETS)
    program = ("import json, pickle, sys, tessera\nfor options in (None, json.loads(sys.argv[1])):\n  if options: tessera.configure(sys.argv[3], **options)\n"
               "  try: print(pickle.loads(bytes.fromhex(sys.argv[2])).numpy().shape)\n  except tessera.NotFound as e: print('call tessera_configure first' in str(e))")
    out = subprocess.run([sys.executable, "-c", program, json.dumps(OPTIONS), kept.hex(), BUCKET], capture_output=True, text=True, check=True).stdout
    same(out.split("\n")[:2], ["True", "(100, 100)"], "another process")


def test_datasets():
    day = np.array(["2024-03-01", "2024-03-02", "2024-03-03"], "datetime64[ns]")
    temp = xr.DataArray(np.arange(24.0).reshape(3, 4, 2), dims=("day", "lat", "lon"), attrs={"units": "K"})
    made = xr.Dataset({"temp": temp, "mask": (("lat", "lon"), np.arange(8, dtype="i2").reshape(4, 2))}, {"day": day, "lat": [48.0, 47.5, 47.0, 46.5], "lon": [7.0, 7.5]},
                      {"title": "in a bucket"})
    tessera.create(f"{URI}/climate", made)
    read = xr.open_dataset(f"{URI}/climate", engine="tessera", chunks={})
    xr.testing.assert_identical(read.compute(), made)
    xr.testing.assert_identical(xr.open_dataset(f"{SHORT}/climate", engine="tessera").compute(), made)
    assert read.temp.chunks is not None
    same(read.temp.sel(lat=slice(47.6, 46.9), day="2024-03-02").values.tolist(), made.temp.sel(lat=slice(47.6, 46.9), day="2024-03-02").values.tolist(), "a slice")
    fails(tessera.Exists, "already", lambda: tessera.create(f"{URI}/climate", made))
    fails(tessera.Unsupported, "in a bucket a group is not replaced", lambda: tessera.create(f"{URI}/climate", made, if_exists="replace"))


def command(*words, status=0, given=True, **environment):
    """What the command `tessera` prints, or its error. `given`: with the bucket's options."""
    options = [word for name, value in OPTIONS.items() for word in ("--storage", f"{name}={value}")] if given else []
    done = subprocess.run([sys.executable, "-m", "tessera", *words, *options], capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    assert not any(secret in done.stdout + done.stderr for secret in SECRETS), words
    return done.stderr if status == 2 else done.stdout


def test_command():
    """The command line reaches the buckets that its words name, by --storage, or with the keys that the environment has."""
    uri = f"{URI}/points"
    same(command("ls", URI).splitlines()[0], "path,kind,cells,bytes", "ls")
    assert f"{uri},sparse array,3," in command("ls", URI), command("ls", URI)
    same(command("ls", SHORT + "/"), command("ls", URI), "ls of the short name of a scheme")
    assert "attribute  v" in command("info", uri) and command("info", uri, "--ddl").startswith("CREATE VIRTUAL TABLE"), "info"
    same(command("head", uri, "-n", "1", "--where", "x = 2").splitlines()[1].split(",")[0], "2", "head")
    for text in (f"SELECT count(*) AS n FROM '{uri}'", f'SELECT count(*) AS n FROM "{uri}"'):
        same(command("sql", text), "n\n3\n", text)
    same(command("copy", uri, f"{URI}/copied", "--set", "capacity=10"), "3 cells\n", "copy")
    same(command("copy", f"{URI}/copied", os.path.join(sys.argv[2], "copied")), "3 cells\n", "copy into a directory")
    same(command("check", f"{URI}/copied"), "severity,file,message\n", "check")
    same(json.loads(command("upkeep", f"{URI}/copied"))["merged"], 0, "upkeep")
    assert "capacity 10" in command("info", f"{URI}/copied"), "the copy"
    same(command("ls", uri, "--storage", "nothing", status=2, given=False), "tessera: --storage: expected NAME=VALUE\n", "no value")
    assert "no option is called 'nothing'" in command("ls", uri, "--storage", "nothing=1", status=2), "an option that there is not"
    if "key_id" in OPTIONS and "region" in OPTIONS: # S3's environment; those of the other clouds have endpoints of their own
        found = command("ls", URI, *(word for name in ("endpoint", "region", "url_style") for word in ("--storage", f"{name}={OPTIONS[name]}")), given=False,
                        AWS_ACCESS_KEY_ID=OPTIONS["key_id"], AWS_SECRET_ACCESS_KEY=OPTIONS["secret"], AWS_SESSION_TOKEN="")
        assert f"{uri},sparse array,3," in found, found


if __name__ == "__main__":
    os.makedirs(sys.argv[2])
    install(os.path.join(sys.argv[2], "package"), sys.argv[1])
    import tessera
    for test in (test_storage, test_blocks, test_pickles, test_datasets, test_command):
        print(f"    {test.__name__}", flush=True)
        test()
