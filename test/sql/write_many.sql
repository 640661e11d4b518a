-- Tens of thousands of cells in any order: full tiles and a last one that is not full, every cell order, equal Hilbert codes.
.load ./tessera
.mode list
CREATE TABLE source(x INTEGER, y INTEGER, s TEXT, v REAL, t TEXT, n INTEGER);
INSERT INTO source SELECT i * 7919 % 10007, i * 104729 % 5003, substr('abcdefghijklmnopqrst', 1 + i % 5, i % 20), i / 8.0, iif(i % 7, 'text ' || i % 1000, NULL), iif(i % 3, i, NULL)
  FROM (SELECT value * 48271 % 65521 AS i FROM generate_series(1, 12345));
-- Row-major with space tiles, column-major, Hilbert; a string dimension; duplicates; a small tile
CREATE VIRTUAL TABLE a USING tessera('a', x INT64 DIMENSION(0, 20000, 3000), y INT32 DIMENSION(0, 9999, 1000), s TEXT NOT NULL, v FLOAT64 NOT NULL, t TEXT, n UINT32, capacity=1500);
CREATE VIRTUAL TABLE b USING tessera('b', x INT16 DIMENSION(0, 20000), y FLOAT64 DIMENSION(0, 1e9), s TEXT NOT NULL, v FLOAT32 NOT NULL, t TEXT, n INT64, cell_order=col, tile_order=col, capacity=4096);
CREATE VIRTUAL TABLE c USING tessera('c', x INT64 DIMENSION(0, 20000, 3000), y INT64 DIMENSION(0, 9999, 1000), s TEXT NOT NULL, v FLOAT64 NOT NULL, t TEXT, n INT32, cell_order=hilbert, capacity=1024);
CREATE VIRTUAL TABLE d USING tessera('d', x FLOAT64 DIMENSION(-1e300, 1e300), y FLOAT64 DIMENSION(-1e300, 1e300), s TEXT NOT NULL, v FLOAT64 NOT NULL, t TEXT, n INT32, cell_order=hilbert, capacity=2000);
CREATE VIRTUAL TABLE e USING tessera('e', x INT64 DIMENSION(0, 20000), y INT64 DIMENSION(0, 9999), s TEXT DIMENSION, v FLOAT64 NOT NULL, t TEXT, n INT32, capacity=3000);
CREATE VIRTUAL TABLE f USING tessera('f', x INT64 DIMENSION(0, 20000), y INT64 DIMENSION(0, 9999), s TEXT NOT NULL, v FLOAT64 NOT NULL, t TEXT, n INT32, capacity=7);
INSERT INTO a SELECT * FROM source;
INSERT INTO b SELECT * FROM source;
INSERT INTO c SELECT * FROM source;
INSERT INTO d SELECT * FROM source;
INSERT INTO e SELECT * FROM source;
INSERT INTO f SELECT * FROM source WHERE n < 3000;
SELECT count(*), count(DISTINCT x * 10000 + y), count(DISTINCT s) FROM source;
SELECT 'a', (SELECT count(*) FROM (SELECT * FROM a EXCEPT SELECT * FROM source)), (SELECT count(*) FROM (SELECT * FROM source EXCEPT SELECT * FROM a)), (SELECT count(*) FROM a);
SELECT 'b', (SELECT count(*) FROM (SELECT * FROM b EXCEPT SELECT * FROM source)), (SELECT count(*) FROM (SELECT * FROM source EXCEPT SELECT * FROM b)), (SELECT count(*) FROM b);
SELECT 'c', (SELECT count(*) FROM (SELECT * FROM c EXCEPT SELECT * FROM source)), (SELECT count(*) FROM (SELECT * FROM source EXCEPT SELECT * FROM c)), (SELECT count(*) FROM c);
SELECT 'd', (SELECT count(*) FROM (SELECT * FROM d EXCEPT SELECT * FROM source)), (SELECT count(*) FROM (SELECT * FROM source EXCEPT SELECT * FROM d)), (SELECT count(*) FROM d);
SELECT 'e', (SELECT count(*) FROM (SELECT * FROM e EXCEPT SELECT * FROM source)), (SELECT count(*) FROM (SELECT * FROM source EXCEPT SELECT * FROM e)), (SELECT count(*) FROM e);
SELECT 'f', (SELECT count(*) FROM (SELECT * FROM f EXCEPT SELECT * FROM source)), (SELECT count(*) FROM f) - (SELECT count(*) FROM source WHERE n < 3000);
SELECT p, (SELECT count(*) FROM tessera_check(p)) FROM (SELECT 'a' AS p UNION SELECT 'b' UNION SELECT 'c' UNION SELECT 'd' UNION SELECT 'e' UNION SELECT 'f');
-- Of equal coordinates in one transaction the last one wins: few of them, where Hilbert codes alone nearly suffice, and many
BEGIN;
INSERT INTO c SELECT x, y, s, -v, t, n FROM source;
INSERT INTO c SELECT x, y, s, -2 * v, t, n FROM source WHERE n % 100 = 1;
INSERT INTO c SELECT x, y, s, -3 * v, t, n FROM source WHERE n % 100 = 1 AND n < 30000;
COMMIT;
SELECT count(*), sum(c.v = -s.v), sum(c.v = -2 * s.v), sum(c.v = -3 * s.v) FROM c JOIN source s USING(x, y);
BEGIN;
INSERT INTO c SELECT x, y, s, v + 1, t, n FROM source;
INSERT INTO c SELECT x, y, s, v + 2, t, n FROM source ORDER BY v DESC;
COMMIT;
SELECT count(*), sum(c.v = s.v + 2) FROM c JOIN source s USING(x, y);
-- INSERT OR IGNORE finds existing cells, one value among many
INSERT OR IGNORE INTO c SELECT x, y, s, 0, t, n FROM source WHERE rowid % 5 = 0;
SELECT changes();
INSERT OR IGNORE INTO c SELECT x + 1, y, s, 0, t, n FROM source WHERE rowid % 5 = 0;
SELECT changes() = (SELECT count(*) FROM c) - 12345, (SELECT count(*) FROM (SELECT x, y FROM c EXCEPT SELECT x, y FROM source)) = changes();
