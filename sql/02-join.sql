-- 02: arrays meet each other and ordinary tables.
.load ./tessera
CREATE VIRTUAL TABLE relief USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE airports USING tessera('sql/data/airports');
CREATE TABLE states(code TEXT PRIMARY KEY, name TEXT);
INSERT INTO states VALUES('CO', 'Colorado'), ('WY', 'Wyoming');

-- Each airport looks up the cell of the relief whose centre is nearest.
SELECT s.name, a.iata, a.name, r.elevation
  FROM airports a JOIN states s ON s.code = a.state
  JOIN relief r ON r.y = tessera_nearest('db:relief', 'lat', a.lat) AND r.x = tessera_nearest('db:relief', 'lon', a.lon)
 WHERE r.elevation > 2800 ORDER BY r.elevation DESC;

-- A box of a sparse array: floats as dimensions.
SELECT iata, name, round(lat, 3), round(lon, 3) FROM airports WHERE lat BETWEEN 40.5 AND 40.9 AND lon BETWEEN -74.2 AND -73.7 ORDER BY iata;

-- Places that lie where the sea is deepest.
SELECT round(lat, 1) AS latitude, round(lon, 1) AS longitude, elevation AS depth FROM relief ORDER BY elevation LIMIT 3;
