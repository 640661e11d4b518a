"""xarray: runs the Python of docs/coming-from/xarray.md and docs/datasets.md, and each SELECT of the former's table, and compares the results with xarray's.
usage: xarray_page.py EXTENSION DIRECTORY"""
import datetime
import os
import re
import shutil
import sys

import numpy as np
import pandas as pd
import xarray as xr

extension, place = (os.path.abspath(name) for name in sys.argv[1:])
docs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
text = ""
for page in ("coming-from/xarray.md", "datasets.md"):
    with open(os.path.join(docs, page), encoding="utf-8") as f:
        text += f.read()


shutil.rmtree(place, ignore_errors=True)
os.makedirs(place)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "interop"))
from package import install  # noqa: E402  what the wheel installs

install(os.path.join(place, "package"), extension)
os.chdir(place)

# The files that the page speaks of.
random = np.random.default_rng(1)
shape, axes = (365, 72, 144), ("time", "lat", "lon")
xr.Dataset({name: (axes, random.random(shape, dtype="f4")) for name in ("tas", "pr")},
           {"time": pd.date_range("2001-01-01", periods=365), "lat": np.arange(-88.75, 90, 2.5), "lon": np.arange(0, 360, 2.5)}).to_netcdf("model.nc")
with open("measured.csv", "w", encoding="utf-8") as f:
    f.write("station,time,celsius\nZurich,2024-06-01 06:00,11.5\nZurich,2024-06-01 12:00,\n")

names = {}
blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
for block in blocks:
    exec(block, names)
assert len(blocks) > 4
given = xr.open_dataset("model.nc")
xr.testing.assert_equal(xr.open_dataset("model-set", engine="tessera"), given)
xr.testing.assert_equal(names["near"].load(), given.tas.sel(lat=47.4, lon=8.5, method="nearest").sel(time=slice("2001-03-01", "2001-03-31")))

db, model = names["db"], names["ds"]
assert xr.open_dataset("growing", engine="tessera").equals(given)
climate = pd.read_sql_query("SELECT * FROM climate", db).set_index(["month", "j", "i"]).to_xarray()
selects = [sql for sql in re.findall(r"`(SELECT [^`]*)`", text) if "..." not in sql]
for sql in selects:
    db.execute(sql).fetchall()
assert len(selects) > 15

july = climate.sst.sel(month=7)
assert names["july"].sst.equals(july.sel(j=slice(60, 69)).drop_vars("month"))
place = model.tas.sel(lat=47.4, lon=8.5, method="nearest").sel(time=slice("2001-03-01", "2001-03-31"))
assert np.array_equal(names["march"].tas.astype("f4"), place) and np.array_equal(names["march"].time.astype("M8[ns]"), place.time)
assert np.allclose(names["months"].tas, model.tas.sel(lat=slice(45, 48)).resample(time="MS").mean(...))
db.execute("CREATE VIRTUAL TABLE measured USING tessera('measured')")
assert db.execute("SELECT count(*), count(celsius) FROM measured WHERE time < '2024-06-02'").fetchone() == (2, 1)
(std,) = db.execute("SELECT sqrt(avg(sst * sst) - avg(sst) * avg(sst)) FROM climate WHERE month = 7").fetchone()
assert np.isclose(std, july.std())

# What the page says of numpy's scalars and of pandas.
july = db.execute("SELECT count(*) FROM climate WHERE month = 7").fetchone()
assert july[0] and db.execute("SELECT count(*) FROM climate WHERE month = ?", (np.int64(7),)).fetchone() == july
days = "SELECT count(*) FROM measured WHERE time >= ?"
noon = datetime.datetime(2024, 6, 1, 12)
assert db.execute(days, (noon,)).fetchone() == (1,) != db.execute(days, (noon.replace(tzinfo=datetime.timezone.utc),)).fetchone()
names["frame"].to_sql("measured", db, if_exists="replace", index=False)
assert "VIRTUAL" not in db.execute("SELECT sql FROM sqlite_schema WHERE name = 'measured'").fetchone()[0]
print("as with xarray")
