// The npm package with node:sqlite. usage: node host.js DATA, where node_modules has sqlite-tessera. It prints what docs/hosts/expected has,
// and then a block that is read, written and read again.
const { DatabaseSync } = require('node:sqlite');
const { getLoadablePath, readBlock, writeBlocks } = require('sqlite-tessera');

const data = process.argv[2];
const db = new DatabaseSync(':memory:', { allowExtension: true });
db.loadExtension(getLoadablePath());
for (const name of ['relief', 'airports']) db.exec(`CREATE VIRTUAL TABLE ${name} USING tessera('${data}/${name}')`);

const slice = db.prepare('SELECT count(*) AS cells, avg(elevation) AS mean FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?').get(0, 89, -20, 69);
console.log(`slice: ${slice.cells} cells, mean ${slice.mean.toFixed(1)} m`);
const airports = db.prepare(`
  SELECT a.iata, a.name, r.elevation FROM airports a
    JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
   WHERE r.elevation > ? ORDER BY r.elevation DESC`);
for (const row of airports.all(3000)) console.log(row.iata, row.name, row.elevation);

db.exec('CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)');
const insert = db.prepare('INSERT INTO peaks VALUES(?, ?, ?, ?)');
db.exec('BEGIN');
for (const row of [[27.99, 86.93, 'Everest', 8849], [-32.65, -70.01, 'Aconcagua', 6961], [-3.08, 37.35, 'Kilimanjaro', 5895]]) insert.run(...row);
db.exec('COMMIT; BEGIN; DELETE FROM peaks; ROLLBACK');
const written = db.prepare('SELECT count(*) AS count, max(metres) AS highest FROM peaks').get();
console.log(`written: ${written.count} peaks, highest ${written.highest} m`);

db.exec("CREATE VIRTUAL TABLE grid USING tessera('grid', kind=dense, y INT32 DIMENSION(0, 3, 2), x INT32 DIMENSION(0, 4, 5), v INT16)");
writeBlocks(db, 'db:grid', { v: { data: Int16Array.from({ length: 20 }, (_, i) => i * i), shape: [4, 5] } }, { y: 0, x: 0 });
console.log(readBlock(db, 'db:grid', 'v', { y: [1, 2], x: [0, 1] }).data.join());
db.close();
