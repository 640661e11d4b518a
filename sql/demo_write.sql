-- ./run demo, second part: arrays of our own. Everything is made in the directory where this runs.
.load ./tessera
.mode box
.headers on

.print
.print A new array, filled from a CSV file with the shell's own .import
CREATE VIRTUAL TABLE airports USING tessera('airports', iata TEXT DIMENSION, name TEXT, city TEXT, state TEXT,
  country TEXT NOT NULL, lat FLOAT64 NOT NULL, lon FLOAT64 NOT NULL, coords_filters=(dictionary, zstd));
.import --csv --skip 1 sql/data/airports.csv airports
SELECT count(*) AS airports, count(DISTINCT state) AS states, min(lat) AS southernmost, max(lat) AS northernmost FROM airports;
SELECT kind, cells, fragments, attributes FROM tessera_array('airports');

-- What a moment was, for later.
CREATE TABLE moments(what TEXT, at INTEGER);
INSERT INTO moments SELECT 'imported', last_write FROM tessera_array('airports');

.print
.print One transaction, an array and an ordinary table: both or neither
CREATE TABLE visits(iata TEXT PRIMARY KEY, visitor TEXT);
BEGIN;
INSERT INTO visits VALUES('DEN', 'Ada'), ('LXV', 'Grace');
UPDATE airports SET name = name || ' (visited)' WHERE iata IN (SELECT iata FROM visits);
DELETE FROM airports WHERE state = 'AK';
INSERT INTO airports VALUES('XYZ', 'Nowhere Intl', 'Nowhere', NULL, 'USA', 0.5, -150);
SELECT count(*) AS airports_seen_inside FROM airports;
COMMIT;
INSERT INTO moments SELECT 'visited', last_write FROM tessera_array('airports');
SELECT a.iata, a.name, v.visitor FROM airports a JOIN visits v USING (iata) ORDER BY 1;

.print
.print Another one, taken back: first a part of it, then all
BEGIN;
UPDATE airports SET state = 'CALIFORNIA' WHERE state = 'CA';
SAVEPOINT all_gone;
DELETE FROM airports;
DELETE FROM visits;
SELECT (SELECT count(*) FROM airports) AS airports, (SELECT count(*) FROM visits) AS visits;
ROLLBACK TO all_gone;
SELECT (SELECT count(*) FROM airports) AS airports, (SELECT count(*) FROM visits) AS visits, state, count(*) AS there
  FROM airports WHERE state LIKE 'CA%' GROUP BY state;
ROLLBACK;

.print
.print Time travel: how many there were, and what one was called, at each moment
SELECT m.what, count(*) AS airports, count(*) FILTER (WHERE a.state = 'AK') AS in_alaska,
       max(a.name) FILTER (WHERE a.iata = 'DEN') AS denver
  FROM moments m, airports(m.at) a GROUP BY m.at;

.print
.print What is on disk: two commits, and nothing of what was taken back
SELECT kind, cells, tiles, format_version FROM tessera_fragments('airports');
SELECT count(*) AS faults FROM tessera_check('airports') WHERE severity <> 'note';

.print
.print A picture of Asia, relief.png, and the whole Earth as text
SELECT writefile('relief.png', tessera_png('sql/data/relief', 'elevation', '{"y":[0,179],"x":[60,419]}',
                                           '{"colormap":"terrain","flip":true,"width":720}')) > 0 AS written;
.mode list
.headers off
SELECT tessera_preview('sql/data/relief', 'elevation', NULL, '{"flip":true,"min":-500,"max":2500}');
.mode box
.headers on
