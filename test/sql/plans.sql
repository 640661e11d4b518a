-- Constraints that are pushed down: idxStr in EXPLAIN QUERY PLAN, and the counters.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE r USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE a USING tessera('sql/data/airports');
CREATE TABLE places(name TEXT, y INT, x INT);
INSERT INTO places VALUES('Greenwich', 154, 0), ('Quito', -1, -236), ('Everest', 83, 260), ('nowhere', 9999, 9999);
EXPLAIN QUERY PLAN SELECT * FROM r;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE y = 5;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE y > 5 AND x <= 7.5;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE y IN (1, 2, 3) AND x IS 7;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE elevation > 5;
EXPLAIN QUERY PLAN SELECT * FROM r('2024') WHERE y = 1;
EXPLAIN QUERY PLAN SELECT * FROM places p JOIN r ON r.y = p.y AND r.x = p.x;
EXPLAIN QUERY PLAN SELECT * FROM r JOIN places p ON r.y = p.y AND r.x = p.x;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE y = 1 OR x = 2;
EXPLAIN QUERY PLAN SELECT * FROM a WHERE lat BETWEEN 40 AND 41 AND lon < -100;
-- A slice of one tile reads one tile.
SELECT tessera_reset_stats();
SELECT count(*), sum(elevation) FROM r WHERE y BETWEEN 0 AND 89 AND x BETWEEN 0 AND 89;
SELECT name, value FROM tessera_stats WHERE name NOT IN ('bytes_read', 'commits_listed', 'directories_listed', 'fragments_listed');
-- A join reads each tile once, then finds it in the cache.
SELECT tessera_reset_stats();
SELECT p.name, r.elevation FROM places p JOIN r ON r.y = p.y AND r.x = p.x;
SELECT p.name, r.elevation FROM places p JOIN r ON r.y = p.y AND r.x = p.x;
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_read', 'tiles_cached', 'rows_returned', 'fragments_considered');
-- Only columns that the statement uses are read.
SELECT tessera_reset_stats();
SELECT count(*) FROM r;
SELECT value FROM tessera_stats WHERE name = 'tiles_read';
-- Sparse arrays: the R-tree chooses the tiles.
SELECT tessera_reset_stats();
SELECT count(*), min(iata), max(iata) FROM a WHERE lat BETWEEN 40 AND 41 AND lon BETWEEN -105 AND -104;
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_considered', 'tiles_skipped_by_domain', 'tiles_read', 'rows_returned');
