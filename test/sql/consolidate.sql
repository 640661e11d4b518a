-- tessera_consolidate and tessera_vacuum, on an array in a directory and on one in the database.
.load ./tessera
.mode list
.headers off
CREATE VIRTUAL TABLE kept USING tessera('kept', kind=sparse, x INT32 DIMENSION(0, 99), v INT64);
CREATE VIRTUAL TABLE inside USING tessera(kind=sparse, x INT32 DIMENSION(0, 99), v INT64);
INSERT INTO kept VALUES (1, 10), (2, 20);
INSERT INTO kept VALUES (3, 30);
UPDATE kept SET v = 21 WHERE x = 2;
DELETE FROM kept WHERE x = 1;
INSERT INTO inside VALUES (1, 10), (2, 20);
INSERT INTO inside VALUES (3, 30);
DELETE FROM inside WHERE x = 1;

SELECT tessera_consolidate('kept'), tessera_consolidate('db:inside');
SELECT count(*) FROM tessera_fragments('db:kept');
SELECT * FROM kept;
SELECT * FROM inside;
SELECT tessera_consolidate('db:kept');
SELECT tessera_consolidate('db:kept', 'commits') > 1, tessera_consolidate('db:kept', 'fragment_meta');
SELECT tessera_vacuum('db:kept') > 3, tessera_vacuum('db:kept'), tessera_vacuum('db:inside') > 2;
SELECT * FROM kept;
SELECT * FROM inside;
SELECT count(*) FROM tessera_check('db:kept') WHERE severity <> 'note';

-- They are refused while the transaction has changed the array.
BEGIN;
INSERT INTO kept VALUES (7, 70);
SELECT tessera_consolidate('db:kept');
SELECT tessera_vacuum('kept');
COMMIT;
-- In the database a rollback takes them back.
INSERT INTO inside VALUES (8, 80);
BEGIN;
SELECT tessera_consolidate('db:inside'), tessera_vacuum('db:inside') > 0;
SELECT count(*) FROM tessera_fragments('db:inside');
ROLLBACK;
SELECT count(*) FROM tessera_fragments('db:inside');
SELECT * FROM inside;

-- With purge_deleted the deleted cells are gone.
SELECT tessera_consolidate('db:kept', 'fragments', '{"purge_deleted": true, "memory_mb": 64}');
SELECT * FROM kept;

SELECT tessera_consolidate('db:kept', 'everything');
SELECT tessera_consolidate('db:kept', 'fragments', '{"fragment": []}');
SELECT tessera_consolidate('db:kept', 'fragments', '[1]');
SELECT tessera_consolidate('db:kept', 'fragments', 'x');
SELECT tessera_consolidate('db:kept', 'fragments', '{"as_of": "soon"}');
SELECT tessera_consolidate('db:kept', 'fragments', '{"fragments": ["__1_1_0"]}');
SELECT tessera_consolidate('db:kept', 'fragments', '{"fragments": ["__1_1_0", 5]}');
SELECT tessera_consolidate('db:kept', 'fragments', '{"memory_mb": -1}');
SELECT tessera_consolidate('nothing');
CREATE VIEW later AS SELECT tessera_vacuum('kept') AS n;
SELECT * FROM later;

-- A fragment alone is written again only if something in it is to be purged.
CREATE VIRTUAL TABLE purged USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32);
INSERT INTO purged VALUES(1, 1);
SELECT tessera_consolidate('db:purged', 'fragments', '{"purge_deleted": true}') AS one;
INSERT INTO purged VALUES(2, 1);
SELECT tessera_consolidate('db:purged') AS two;
SELECT tessera_consolidate('db:purged', 'fragments', '{"purge_deleted": true}') AS merged;
DELETE FROM purged WHERE x = 1;
SELECT tessera_consolidate('db:purged', 'fragments', '{"purge_deleted": true}') AS deleted;
SELECT tessera_consolidate('db:purged', 'fragments', '{"purge_deleted": true}') AS again;
