-- 04: every commit stays readable. Run it in the directory of tessera.so. It leaves the directory prices there: remove it before you run it again.
.load ./tessera
CREATE VIRTUAL TABLE prices USING tessera('prices', item TEXT DIMENSION, price INTEGER);
CREATE TABLE moments(what TEXT, at INTEGER);
INSERT INTO prices VALUES('bread', 3), ('milk', 2);
INSERT INTO moments SELECT 'first', last_write FROM tessera_array('db:prices');
UPDATE prices SET price = price + 1 WHERE item = 'bread';
INSERT INTO moments SELECT 'dearer', last_write FROM tessera_array('db:prices');
BEGIN;
DELETE FROM prices WHERE item = 'milk';
INSERT INTO prices VALUES('tea', 5);
COMMIT;
INSERT INTO moments SELECT 'tea for milk', last_write FROM tessera_array('db:prices');

SELECT m.what, p.item, p.price FROM moments m, prices(m.at) p ORDER BY m.at, p.item;

-- A table may stand at a time; what came between two times.
SELECT m.what, count(p.item) AS written_since FROM moments m LEFT JOIN prices(NULL, m.at + 1) p ON 1 GROUP BY m.what ORDER BY m.at;

-- Merging keeps each cell's time, so the past stays where it was.
SELECT tessera_consolidate('db:prices');
SELECT tessera_vacuum('db:prices') > 0;
SELECT m.what, p.item, p.price FROM moments m, prices(m.at) p ORDER BY m.at, p.item;
