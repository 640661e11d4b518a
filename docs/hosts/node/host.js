// better-sqlite3, which compiles an SQLite of its own. usage: node host.js EXTENSION DATA
// With the npm package: db.loadExtension(require('sqlite-tessera').getLoadablePath()).
const Database = require('better-sqlite3');

const [extension, data] = process.argv.slice(2);
const db = new Database(':memory:');
db.loadExtension(extension);
for (const name of ['relief', 'airports']) db.exec(`CREATE VIRTUAL TABLE ${name} USING tessera('${data}/${name}')`);

const slice = db.prepare('SELECT count(*) AS cells, avg(elevation) AS mean FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?').get(0, 89, -20, 69);
console.log(`slice: ${slice.cells} cells, mean ${slice.mean.toFixed(1)} m`);

const airports = db.prepare(`
  SELECT a.iata, a.name, r.elevation FROM airports a
    JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
   WHERE r.elevation > ? ORDER BY r.elevation DESC`);
for (const row of airports.iterate(3000)) console.log(row.iata, row.name, row.elevation);

db.exec('CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)');
const insert = db.prepare('INSERT INTO peaks VALUES(?, ?, ?, ?)');
db.transaction((rows) => rows.forEach((row) => insert.run(...row)))([
  [27.99, 86.93, 'Everest', 8849], [-32.65, -70.01, 'Aconcagua', 6961], [-3.08, 37.35, 'Kilimanjaro', 5895],
]);
try {
  db.transaction(() => {
    db.exec('DELETE FROM peaks');
    throw new Error('thought better of it');
  })();
} catch (error) {
  if (error.message !== 'thought better of it') throw error;
}
// better-sqlite3 binds every number as a REAL; times take it.
if (db.prepare('SELECT count(*) FROM peaks(?)').pluck().get(Date.now()) !== 3) throw new Error('a time that is a number');
const written = db.prepare('SELECT count(*) AS count, max(metres) AS highest FROM peaks').get();
console.log(`written: ${written.count} peaks, highest ${written.highest} m`);
db.close();
