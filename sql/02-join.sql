-- 02: arrays meet each other and ordinary tables.
.load ./tessera
CREATE VIRTUAL TABLE relief USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE airports USING tessera('sql/data/airports');
CREATE TABLE states(code TEXT PRIMARY KEY, name TEXT);
INSERT INTO states VALUES('CO', 'Colorado'), ('WY', 'Wyoming');

-- Each airport looks up its cell of the relief: three cells are a degree.
SELECT s.name, a.iata, a.name, r.elevation
  FROM airports a JOIN states s ON s.code = a.state JOIN relief r ON r.y = floor(a.lat * 3) AND r.x = floor(a.lon * 3)
 WHERE r.elevation > 2800 ORDER BY r.elevation DESC;

-- A box of a sparse array: floats as dimensions.
SELECT iata, name, round(lat, 3), round(lon, 3) FROM airports WHERE lat BETWEEN 40.5 AND 40.9 AND lon BETWEEN -74.2 AND -73.7 ORDER BY iata;

-- Places that lie where the sea is deepest.
WITH deep(y, x, depth) AS (SELECT y, x, elevation FROM relief ORDER BY elevation LIMIT 3)
SELECT round((y + 0.5) / 3, 1) AS latitude, round((x + 0.5) / 3, 1) AS longitude, depth FROM deep;
