-- ORDER BY dimensions: the plan, the tiles that a few rows cost, and the same rows as from a sort.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE r USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE a USING tessera('sql/data/airports');
EXPLAIN QUERY PLAN SELECT * FROM r ORDER BY y;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE y >= 5 AND y <= 50 AND elevation > 7 ORDER BY x DESC, y LIMIT 5 OFFSET 2;
EXPLAIN QUERY PLAN SELECT max(x) FROM r;
EXPLAIN QUERY PLAN SELECT x, count(*) FROM r GROUP BY x;
-- A plan for one row needs no order.
EXPLAIN QUERY PLAN SELECT * FROM r WHERE y = 5 AND x = 7 ORDER BY x, y;
-- SQLite sorts by attributes and expressions itself. Then the table does not learn how many rows SQLite takes.
EXPLAIN QUERY PLAN SELECT * FROM r ORDER BY y, elevation LIMIT 1;
EXPLAIN QUERY PLAN SELECT * FROM r ORDER BY -y;
EXPLAIN QUERY PLAN SELECT * FROM r ORDER BY y NULLS LAST;
EXPLAIN QUERY PLAN SELECT * FROM r LIMIT 3;
-- The first rows are read from few tiles.
SELECT tessera_reset_stats();
SELECT * FROM r ORDER BY x DESC, y LIMIT 3;
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_read', 'rows_returned');
SELECT * FROM r ORDER BY +x DESC, y LIMIT 3;
SELECT * FROM r WHERE elevation > 6000 ORDER BY y DESC, x LIMIT 3 OFFSET 1;
SELECT * FROM r WHERE +elevation > 6000 ORDER BY +y DESC, x LIMIT 3 OFFSET 1;
-- The table returns more rows than LIMIT says where SQLite filters them afterwards.
SELECT * FROM r WHERE elevation % 100 = 7 AND elevation > x + 5000 ORDER BY y, x LIMIT 2;
SELECT * FROM r WHERE +elevation % 100 = 7 AND elevation > x + 5000 ORDER BY +y, x LIMIT 2;
-- All rows, in order.
SELECT count(*), sum(a > b OR a = b AND c < d) FROM (SELECT x AS a, lag(x) OVER () AS b, y AS c, lag(y) OVER () AS d FROM (SELECT x, y FROM r ORDER BY x, y DESC LIMIT -1 OFFSET 0));
SELECT count(*), sum(n), max(n), sum(y * n) FROM (SELECT y, count(*) AS n FROM r GROUP BY y);
SELECT count(*), sum(y) FROM (SELECT DISTINCT y FROM r);
SELECT max(x), max(y) FROM r;
SELECT min(x) FROM r;
