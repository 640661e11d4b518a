"""Python's own sqlite3 module. usage: host_sqlite3.py EXTENSION DATA

It needs a Python whose sqlite3 was built with extension loading: Debian's is; python.org's for macOS and many pyenv builds are not.
With the wheel: `import tessera; tessera.load(connection)` instead of the three lines that load.
"""
import sqlite3
import sys

extension, data = sys.argv[1:3]
db = sqlite3.connect(":memory:", isolation_level=None)
db.enable_load_extension(True)
db.load_extension(extension)
db.enable_load_extension(False)
for name in ("relief", "airports"):
    db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera('{data}/{name}')")

cells, mean = db.execute("SELECT count(*), avg(elevation) FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?", (0, 89, -20, 69)).fetchone()
print(f"slice: {cells} cells, mean {mean:.1f} m")

for iata, name, elevation in db.execute("""
        SELECT a.iata, a.name, r.elevation FROM airports a
          JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
         WHERE r.elevation > ? ORDER BY r.elevation DESC""", (3000,)):
    print(iata, name, elevation)

db.execute("CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)")
db.execute("BEGIN")
db.executemany("INSERT INTO peaks VALUES(?, ?, ?, ?)",
               [(27.99, 86.93, "Everest", 8849), (-32.65, -70.01, "Aconcagua", 6961), (-3.08, 37.35, "Kilimanjaro", 5895)])
db.execute("COMMIT")
db.execute("BEGIN")
db.execute("DELETE FROM peaks")
db.execute("ROLLBACK")
count, highest = db.execute("SELECT count(*), max(metres) FROM peaks").fetchone()
print(f"written: {count} peaks, highest {highest} m")
db.close()
