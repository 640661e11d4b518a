-- The sqlite3 shell, in the project's directory: `./run build`, then `sqlite3 :memory: <docs/hosts/shell.sql`.
.load ./tessera
.mode list
.separator ' '
CREATE VIRTUAL TABLE relief   USING tessera('sql/data/relief');     -- elevation by y, x: three cells a degree
CREATE VIRTUAL TABLE airports USING tessera('sql/data/airports');   -- lat, lon, iata, name, ...

SELECT 'slice:', count(*), 'cells, mean', printf('%.1f', avg(elevation)), 'm' FROM relief WHERE y BETWEEN 0 AND 89 AND x BETWEEN -20 AND 69;

.parameter set :above 3000
SELECT a.iata, a.name, r.elevation FROM airports a
  JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
 WHERE r.elevation > :above ORDER BY r.elevation DESC;

CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32);
BEGIN;
INSERT INTO peaks VALUES(27.99, 86.93, 'Everest', 8849), (-32.65, -70.01, 'Aconcagua', 6961), (-3.08, 37.35, 'Kilimanjaro', 5895);
COMMIT;
BEGIN;
DELETE FROM peaks;
ROLLBACK;
SELECT 'written:', count(*), 'peaks, highest', max(metres), 'm' FROM peaks;
