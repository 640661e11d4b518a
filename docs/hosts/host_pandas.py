"""pandas and numpy: blocks by tessera_npy, rows into a DataFrame, a DataFrame into an array. usage: host_pandas.py EXTENSION DATA"""
import io
import sqlite3
import sys

import numpy
import pandas

extension, data = sys.argv[1:3]
db = sqlite3.connect(":memory:")
db.enable_load_extension(True)
db.load_extension(extension)
db.enable_load_extension(False)
for name in ("relief", "airports"):
    db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera('{data}/{name}')")

# A slice as a block: no row is made of it. The path of a function is relative to the working directory, 'db:relief' is the table.
(npy,) = db.execute("""SELECT tessera_npy('db:relief', 'elevation', '{"y": [0, 89], "x": [-20, 69]}')""").fetchone()
block = numpy.load(io.BytesIO(npy))
print(f"slice: {block.size} cells, mean {block.mean():.1f} m")

# The same by rows, with their coordinates.
frame = pandas.read_sql_query("SELECT y, x, elevation FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?", db, params=(0, 89, -20, 69))
assert (frame.pivot(index="y", columns="x", values="elevation").to_numpy() == block).all()

airports = pandas.read_sql_query("""
    SELECT a.iata, a.name, r.elevation FROM airports a
      JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
     WHERE r.elevation > ?""", db, params=(3000,))
for row in airports.sort_values("elevation", ascending=False).itertuples():
    print(row.iata, row.name, row.elevation)

db.execute("CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)")
peaks = pandas.DataFrame({"lat": [27.99, -32.65, -3.08], "lon": [86.93, -70.01, 37.35],
                          "name": ["Everest", "Aconcagua", "Kilimanjaro"], "metres": [8849, 6961, 5895]})
peaks.to_sql("peaks", db, if_exists="append", index=False)
db.commit()
written = pandas.read_sql_query("SELECT * FROM peaks", db)
print(f"written: {len(written)} peaks, highest {written.metres.max()} m")
db.close()
