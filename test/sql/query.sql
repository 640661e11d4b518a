-- tessera_query: what its text may hold, the words of its errors, plans, constraints of the statement around, and its life.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(-4, 7, 5), x INT32 DIMENSION(0, 9, 4), temp FLOAT32, n INT32, name TEXT);
WITH RECURSIVE a(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM a WHERE i < 119)
  INSERT INTO t SELECT i/10 - 4, i%10, (i/10 - 4)*10 + i%10/2.0, (i/10 - 4)*(i%10), 'n' || (i%10) FROM a;
-- The same text gives the same rows as a view.
CREATE VIRTUAL TABLE q USING tessera_query(SELECT y/4 AS b, avg(temp - 273.15) AS mean, count(*) AS c FROM t WHERE temp > -20 AND x%2 = 0 GROUP BY 1);
SELECT b, round(mean, 6), c FROM q;
SELECT y/4 AS b, round(avg(temp - 273.15), 6), count(*) AS c FROM t WHERE temp > -20 AND x%2 = 0 GROUP BY 1;
-- HAVING, ORDER BY and LIMIT, over groups and over cells; what is around aggregates; comments and commas in the text.
CREATE VIRTUAL TABLE r USING tessera_query(memory_mb=4, threads=2, SELECT x, /* a comment, here */ round(sum(n)*1.0/count(*),1) m, max(temp) -- and here, too
  FROM t WHERE y BETWEEN 0 AND 4 GROUP BY x HAVING max(temp) > 41 ORDER BY m DESC LIMIT 3);
SELECT * FROM r;
CREATE VIRTUAL TABLE s USING tessera_query(SELECT *, temp*2 AS d FROM t WHERE y = 3 ORDER BY -x LIMIT 2 OFFSET 1);
SELECT * FROM s;
CREATE VIRTUAL TABLE u USING tessera_query(SELECT DISTINCT y/5, x/5 FROM t);
SELECT * FROM u ORDER BY 1, 2;
CREATE VIRTUAL TABLE lk USING tessera_query(SELECT count(*) FROM t WHERE name LIKE 'N_' AND name NOT GLOB '*3' AND temp > '2');
SELECT * FROM lk;
SELECT count(*) FROM t WHERE name LIKE 'N_' AND name NOT GLOB '*3' AND temp > '2';
-- Aggregates that SQLite may lack; names of columns are the words of the text.
CREATE VIRTUAL TABLE m USING tessera_query(SELECT y, percentile(temp, 10), median(n) FILTER (WHERE x > 1) AS med FROM t GROUP BY y ORDER BY stddev(n), y);
SELECT * FROM m LIMIT 2;
-- No cell, with and without GROUP BY.
CREATE VIRTUAL TABLE e1 USING tessera_query(SELECT min(temp), count(*), sum(n), total(n) FROM t WHERE 0);
SELECT * FROM e1;
CREATE VIRTUAL TABLE e2 USING tessera_query(SELECT y, substr(y, 1, 1), count(*) FROM t WHERE y > 100 GROUP BY 1, 2);
SELECT count(*) FROM e2;
CREATE VIRTUAL TABLE e3 USING tessera_query(SELECT count(*) FROM t WHERE y > 100);
SELECT * FROM e3;
-- The rows of the open transaction are seen.
BEGIN;
UPDATE t SET n = 1000 WHERE y = 0 AND x = 0;
CREATE VIRTUAL TABLE own USING tessera_query(SELECT max(n) FROM t);
SELECT * FROM own;
ROLLBACK;
-- Plans, and constraints of the statement around: they narrow the coordinates, and SQLite tests them again.
EXPLAIN QUERY PLAN SELECT * FROM q WHERE b > 0 AND c = 1;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE x = 1;
EXPLAIN QUERY PLAN SELECT * FROM s;
SELECT b, c FROM q WHERE b >= 1;
SELECT b, c FROM q WHERE b = '1';
SELECT b, c FROM q WHERE b IN (0, 7);
SELECT count(*) FROM (SELECT 1 AS k UNION ALL SELECT 5) k JOIN q ON q.b = k.k;
-- What is refused.
CREATE TABLE places(a);
CREATE VIEW v AS SELECT 1 AS a;
CREATE VIRTUAL TABLE z USING tessera_query();
CREATE VIRTUAL TABLE z USING tessera_query(WITH a AS (SELECT 1) SELECT * FROM a);
CREATE VIRTUAL TABLE z USING tessera_query((SELECT 1));
CREATE VIRTUAL TABLE z USING tessera_query(VALUES (1));
CREATE VIRTUAL TABLE z USING tessera_query(memory_mb=x, SELECT y FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y FORM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT nosuch FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT "nosuch" FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y FROM nosuch);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT nosuch(y) FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT a FROM places);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT a FROM v);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT group_concat(x) OVER (ORDER BY y) FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT (SELECT 1) FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y FROM (SELECT 1 AS y));
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y FROM t JOIN places);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y FROM t UNION SELECT x FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y COLLATE NOCASE FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT group_concat(y) FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT x'00' FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y FROM t WHERE y = ?);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT y, count(*) FROM t GROUP BY 3);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT upper(name) FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT name || 'x' FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT load_extension('x') FROM t);
CREATE VIRTUAL TABLE z USING tessera_query(SELECT CAST(temp AS TEXT) FROM t);
-- Types are checked when the coordinates have been evaluated.
CREATE VIRTUAL TABLE mixed USING tessera_query(SELECT sum(CASE WHEN x > 1 THEN temp ELSE n END) FROM t);
SELECT * FROM mixed;
CREATE VIRTUAL TABLE compared USING tessera_query(SELECT count(*) FROM t WHERE temp = name);
SELECT * FROM compared;
-- The nested statements have a table of their own, which has no rows for others.
SELECT count(*) FROM _tessera_query_rows;
SELECT count(*) FROM _tessera_query_rows(1);
-- Rename and drop, also when the array is gone or another table has its name.
ALTER TABLE e3 RENAME TO e4;
SELECT * FROM e4;
SELECT group_concat(name, ' ') AS names FROM (SELECT name FROM sqlite_schema WHERE name LIKE 'e%' ORDER BY name);
DROP TABLE t;
SELECT * FROM e4;
DROP TABLE e4;
CREATE TABLE t(y);
SELECT * FROM e2;
DROP TABLE t;
CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 1, 1), z INT32);
CREATE VIRTUAL TABLE stars USING tessera_query(SELECT * FROM t);
DROP TABLE t;
CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 1, 1), w INT32);
SELECT * FROM stars;
-- A value between two neighbours whose difference passes the greatest double, and between infinities.
CREATE VIRTUAL TABLE far USING tessera(kind=dense, g INT32 DIMENSION(0, 9, 10), f FLOAT64);
INSERT INTO far VALUES(0, -1e308), (1, 1e308), (2, 9e999), (3, 9e999), (4, -9e999), (5, 9e999);
CREATE VIRTUAL TABLE middles USING tessera_query(
  SELECT g/2 AS k, median(f) AS middle, percentile(f, 25) AS quarter FROM far WHERE g < 6 GROUP BY 1);
SELECT * FROM middles;
-- More terms than a plan takes: SQLite tests the others itself.
CREATE VIRTUAL TABLE squares USING tessera(k INT32 DIMENSION(0, 99), v INT32);
INSERT INTO squares SELECT value, value*value FROM generate_series(0, 9);
CREATE VIRTUAL TABLE many USING tessera_query(SELECT k, v FROM squares);
SELECT k, v FROM many
 WHERE k >= 0 AND k >= 1 AND k >= 2 AND k >= 1 AND k >= 0 AND k >= 1 AND k <= 9 AND k <= 8 AND k <= 7 AND k <= 8 AND k <= 9 AND
       k <= 8 AND v >= 0 AND v >= 1 AND v >= 2 AND v >= 3 AND v <= 50 AND v <= 49 AND v <= 36 AND v <> 25 AND v <> 16 ORDER BY k;
SELECT k, v FROM many
 WHERE k > -1 AND k > -2 AND k > -3 AND k > -4 AND k > -5 AND k > -6 AND k > -7 AND k > -8 AND k > -9 AND k > -10 AND k > -11 AND k > -12 AND
       k > -13 AND k > -14 AND k > -15 AND k > -16 AND k > -17 AND k > -18 AND k > -19 AND k > -20 AND k > -21 AND k > -22 AND k > -23 AND
       k > -24 AND k > -25 AND k > -26 AND k > -27 AND k > -28 AND k > -29 AND k > -30 AND k > -31 AND k > -32 AND k > -33 AND k > -34 AND
       k > -35 AND k > -36 AND k > -37 AND k > -38 AND k > -39 AND k > -40 AND k > -41 AND k > -42 AND k > -43 AND k > -44 AND k > -45 AND
       k > -46 AND k > -47 AND k > -48 AND k > -49 AND k > -50 AND k >= 3 AND k < 5 ORDER BY k;
