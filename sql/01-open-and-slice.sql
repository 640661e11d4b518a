-- 01: open an array that is there, look at it, take a slice.
.load ./tessera
CREATE VIRTUAL TABLE relief USING tessera('sql/data/relief');

-- What is in it: its schema as columns, as a table, and as the statement that would make such an array.
SELECT name, role, datatype, domain, tile FROM tessera_schema('db:relief');
SELECT kind, cells, fragments, non_empty_domain FROM tessera_array('db:relief');
SELECT tessera_ddl('db:relief');

-- A slice reads only the tiles that it needs; the plan says what is pushed down, the counters what was read.
EXPLAIN QUERY PLAN SELECT avg(elevation) FROM relief WHERE y BETWEEN 90 AND 149 AND x BETWEEN 0 AND 59;
SELECT count(*), round(avg(elevation), 1) FROM relief WHERE y BETWEEN 90 AND 149 AND x BETWEEN 0 AND 59;
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_considered', 'tiles_skipped_by_domain', 'tiles_read');

-- Comparisons on attributes skip tiles by their statistics; ORDER BY on dimensions takes no sort.
SELECT y, x, elevation FROM relief WHERE elevation > 5950 ORDER BY elevation DESC;
SELECT y, x, elevation FROM relief ORDER BY y DESC, x LIMIT 3;
