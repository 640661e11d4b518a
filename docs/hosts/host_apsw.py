"""apsw, which brings an SQLite of its own and always loads extensions. usage: host_apsw.py EXTENSION DATA"""
import sys

import apsw

extension, data = sys.argv[1:3]
db = apsw.Connection(":memory:")
db.enable_load_extension(True)
db.load_extension(extension)
db.enable_load_extension(False)
for name in ("relief", "airports"):
    db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera('{data}/{name}')")

cells, mean = db.execute("SELECT count(*), avg(elevation) FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?", (0, 89, -20, 69)).get
print(f"slice: {cells} cells, mean {mean:.1f} m")

for iata, name, elevation in db.execute("""
        SELECT a.iata, a.name, r.elevation FROM airports a
          JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
         WHERE r.elevation > ? ORDER BY r.elevation DESC""", (3000,)):
    print(iata, name, elevation)

db.execute("CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)")
with db: # a savepoint: committed at its end, rolled back by an exception
    db.executemany("INSERT INTO peaks VALUES(?, ?, ?, ?)",
                   [(27.99, 86.93, "Everest", 8849), (-32.65, -70.01, "Aconcagua", 6961), (-3.08, 37.35, "Kilimanjaro", 5895)])
try:
    with db:
        db.execute("DELETE FROM peaks")
        raise InterruptedError
except InterruptedError:
    pass
count, highest = db.execute("SELECT count(*), max(metres) FROM peaks").get
print(f"written: {count} peaks, highest {highest} m")
db.close()
