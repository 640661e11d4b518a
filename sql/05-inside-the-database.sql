-- 05: an array that lives in the database file, and the way out and in. Run it in the directory of tessera.so. It leaves the directory exported there: remove it before you run it again.
.load ./tessera
CREATE VIRTUAL TABLE stations USING tessera(id INT32 DIMENSION(0, 99999, 1000), name TEXT, height FLOAT32);
INSERT INTO stations VALUES(1, 'Zermatt', 1638), (2, 'Sion', 482), (3, 'Bern', NULL);
SELECT kind, cells, fragments FROM tessera_array('db:stations');

-- All of it is in the transaction: also what changes its schema.
BEGIN;
SELECT tessera_add_attribute('db:stations', 'canton TEXT');
ROLLBACK;
SELECT name FROM tessera_schema('db:stations');

-- A directory that TileDB opens; a table that was made of one; a copy with other tiles.
SELECT tessera_sync('db:stations', 'exported') > 0;
SELECT tessera_sync('exported', 'db:imported') > 0;
SELECT tessera_copy('exported', 'db:retiled', '{"extents":{"id":100},"filters":{"name":"zstd(9)"}}');
SELECT (SELECT count(*) FROM stations), (SELECT count(*) FROM imported), (SELECT count(*) FROM retiled);
SELECT * FROM tessera_check('exported');
DROP TABLE imported;
SELECT count(*) FROM sqlite_schema WHERE name LIKE 'imported%';
