-- ./run demo: real arrays (NOAA grids, airports of the United States), asked in SQL.
.load ./tessera
.mode box
.headers on

CREATE VIRTUAL TABLE relief   USING tessera('sql/data/relief');     -- dense: elevation by y, x, which lat and lon label
CREATE VIRTUAL TABLE climate  USING tessera('sql/data/climate');    -- dense: the sea by month, j, i; labels day, lat, lon
CREATE VIRTUAL TABLE airports USING tessera('sql/data/airports');   -- sparse: lat and lon, as floats

.print
.print The highest and the deepest cells of the Earth
SELECT * FROM (SELECT 'highest' AS what, elevation, lat AS latitude, lon AS longitude
                 FROM relief ORDER BY elevation DESC LIMIT 3)
UNION ALL
SELECT * FROM (SELECT 'deepest', elevation, lat, lon FROM relief ORDER BY elevation LIMIT 3);

.print
.print Mean elevation by band of latitude, land and sea
SELECT CAST(floor(lat / 30) * 30 AS INTEGER) || ' to ' || CAST(floor(lat / 30) * 30 + 30 AS INTEGER) AS latitudes,
       round(avg(elevation)) AS mean, round(avg(elevation) FILTER (WHERE elevation > 0)) AS land,
       round(avg(elevation) FILTER (WHERE elevation <= 0)) AS sea
  FROM relief GROUP BY floor(lat / 30) ORDER BY max(lat) DESC;

.print
.print The Gulf Stream off Cape Hatteras: sea surface temperature by month, in a box of 35 to 41 N, 74 to 66 W
SELECT month, round(avg(sst), 1) AS sst, round(avg(wind_speed), 1) AS wind, count(sst) AS cells
  FROM climate WHERE lat BETWEEN 35 AND 41 AND lon BETWEEN -74 AND -66 GROUP BY month;

.print
.print The sea by zones of 30 degrees: a SELECT that tessera_query evaluates over columns
CREATE VIRTUAL TABLE zones USING tessera_query(
  SELECT CAST(floor(lat / 30) * 30 AS INTEGER) AS south, CAST(floor(lat / 30) * 30 + 30 AS INTEGER) AS north, round(avg(sst) FILTER (WHERE month IN (1, 2, 3)), 1) AS jan_to_mar,
         round(avg(sst) FILTER (WHERE month IN (7, 8, 9)), 1) AS jul_to_sep, round(avg(wind_speed), 1) AS wind
    FROM climate GROUP BY floor(lat / 30) HAVING count(sst) > 0);
SELECT * FROM zones ORDER BY south DESC;

.print
.print Airports above 2,000 m: each looks up its cell of the relief
SELECT a.iata, a.name, a.state, r.elevation
  FROM airports a JOIN relief r ON r.y = tessera_nearest('db:relief', 'lat', a.lat)
                               AND r.x = tessera_nearest('db:relief', 'lon', a.lon)
 WHERE r.elevation > 2000 ORDER BY r.elevation DESC LIMIT 8;

.print
.print The same, joined with an ordinary table
CREATE TABLE states(code TEXT PRIMARY KEY, state TEXT);
INSERT INTO states VALUES('CO', 'Colorado'), ('NM', 'New Mexico'), ('WY', 'Wyoming'), ('UT', 'Utah'), ('CA', 'California');
SELECT s.state, count(*) AS airports, round(avg(r.elevation)) AS mean, max(r.elevation) AS highest
  FROM airports a JOIN states s ON s.code = a.state
  JOIN relief r ON r.y = tessera_nearest('db:relief', 'lat', a.lat) AND r.x = tessera_nearest('db:relief', 'lon', a.lon)
 WHERE r.elevation > 2000 GROUP BY s.state ORDER BY airports DESC;

.print
.print What a slice costs: the plan, and the tiles that a new connection reads of the 72 that there are, and of the labels
.open :memory:
.load ./tessera
CREATE VIRTUAL TABLE relief USING tessera('sql/data/relief');
EXPLAIN QUERY PLAN SELECT avg(elevation) FROM relief WHERE lat BETWEEN 30 AND 50 AND lon BETWEEN 0 AND 20;
SELECT count(*) AS cells, round(avg(elevation)) AS mean FROM relief WHERE lat BETWEEN 30 AND 50 AND lon BETWEEN 0 AND 20;
SELECT name, value FROM tessera_stats
 WHERE name IN ('tiles_considered', 'tiles_skipped_by_domain', 'tiles_read', 'bytes_read', 'rows_returned');
