-- Dense arrays in the order of their slowest dimensions: where cells lie in that order, the values of the dimension are read one by
-- one. The rows are the same as from a sort: with one fragment and with several, in row-major and column-major arrays.
.load ./tessera
CREATE VIRTUAL TABLE r USING tessera(kind=dense, y INT32 DIMENSION(0, 39, 7), x INT32 DIMENSION(0, 799, 90), v INT64);
CREATE VIRTUAL TABLE c USING tessera(kind=dense, y INT32 DIMENSION(0, 799, 90), x INT32 DIMENSION(0, 39, 7), v INT64, cell_order=col, tile_order=col);
CREATE VIRTUAL TABLE t USING tessera(kind=dense, z INT32 DIMENSION(1, 9, 2), y INT32 DIMENSION(-20, 19, 16), x INT32 DIMENSION(0, 29, 8), v INT64);
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 31999) INSERT INTO r SELECT i / 800, i % 800, i FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 31999) INSERT INTO c SELECT i % 800, i / 800, i FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 10799) INSERT INTO t SELECT 1 + i / 1200, i / 30 % 40 - 20, i % 30, i FROM n;
-- One fragment.
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY y, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY +y, +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY y DESC, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY -y, +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY y, x DESC LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY +y, -x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM c ORDER BY x, y LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM c ORDER BY +x, +y LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM c ORDER BY y, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM c ORDER BY +y, +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY z, y, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY +z, +y, +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY z DESC, y LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY -z, +y, x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY y, z, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY +y, +z, +x LIMIT -1));
-- A part of the array, and a few rows of that.
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y IN (3, 8, 30) AND x BETWEEN 50 AND 777 ORDER BY y, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y IN (3, 8, 30) AND x BETWEEN 50 AND 777 ORDER BY +y, +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y = 11 ORDER BY x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y = 11 ORDER BY +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y = 11 ORDER BY x DESC LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y = 11 ORDER BY -x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM t WHERE z = 3 ORDER BY y, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM t WHERE z = 3 ORDER BY +y, +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM t WHERE z = 3 AND y = -4 ORDER BY x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM t WHERE z = 3 AND y = -4 ORDER BY +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM t WHERE y = -4 ORDER BY z, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM t WHERE y = -4 ORDER BY +z, +x LIMIT -1));
SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY y, x LIMIT 5 OFFSET 798);
SELECT group_concat(v) FROM (SELECT v FROM c ORDER BY x DESC, y LIMIT 5 OFFSET 798);
SELECT count(*), sum(n = 800), sum(s) FROM (SELECT y, count(*) AS n, sum(v) AS s FROM r GROUP BY y);
SELECT count(*), sum(n = 1200), sum(s) FROM (SELECT z, count(*) AS n, sum(v) AS s FROM t GROUP BY z);
-- Several fragments.
UPDATE r SET v = -v WHERE y BETWEEN 5 AND 9 AND x > 300;
UPDATE t SET v = -v WHERE z = 3 AND y < 4;
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY y, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r ORDER BY +y, +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y = 7 ORDER BY x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM r WHERE y = 7 ORDER BY +x LIMIT -1));
SELECT (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY z, y, x LIMIT -1)) = (SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY +z, +y, +x LIMIT -1));
SELECT count(*), sum(n = 800), sum(s) FROM (SELECT y, count(*) AS n, sum(v) AS s FROM r GROUP BY y);
SELECT sum(v) FROM r;
