-- tessera_restrict: nothing outside of one directory is opened, made or read.
.load ./tessera
.mode list
.headers off
CREATE VIRTUAL TABLE before USING tessera('outside', x INT32 DIMENSION(0, 9), v INT8);
CREATE VIRTUAL TABLE dense_before USING tessera('outside_dense', kind=dense, x INT32 DIMENSION(0, 9, 5), v INT8);
SELECT count(*) FROM before;
INSERT INTO before VALUES(1, 1);
INSERT INTO dense_before VALUES(1, 1);
SELECT tessera_restrict('nowhere');
SELECT tessera_restrict(1);
SELECT tessera_restrict('sql') IS NULL;
-- A table that is open already is restricted, too
SELECT count(*) FROM before;
INSERT INTO before VALUES(2, 2);
INSERT INTO before SELECT 2, 2;
INSERT INTO dense_before VALUES(2, 2);
BEGIN;
INSERT INTO before VALUES(2, 2);
INSERT INTO dense_before VALUES(2, 2);
COMMIT;
UPDATE before SET v = 2;
DELETE FROM before;
SELECT count(*) FROM tessera_array('outside');
CREATE VIRTUAL TABLE made USING tessera('made', x INT32 DIMENSION(0, 9), v INT8);
SELECT count(*) FROM tessera_objects('.');
SELECT tessera_create_group('g');
SELECT tessera_create_group('sql/../g');
SELECT tessera_create_group('sql/none/../../g');
SELECT tessera_drop('made');
SELECT count(*) FROM tessera_check('sql/../t.db');
CREATE VIRTUAL TABLE locked USING tessera('sql/x', key_file='key');
CREATE VIRTUAL TABLE inside USING tessera('sql/inside', x INT32 DIMENSION(0, 9), v INT8);
SELECT count(*) FROM inside;
-- links out of the directory, and a link within it: searches follow no link, a path that is named may lead through the link within
.shell mkdir -p sql/links/within && ln -s ../../outside sql/links/array && ln -s ../.. sql/links/up && ln -s ../inside sql/links/array_within
SELECT count(*) FROM tessera_objects('sql/links/array');
SELECT count(*) FROM tessera_objects('sql/links/up');
SELECT path, kind FROM tessera_objects('sql/links');
SELECT count(*), sum(fragments) FROM tessera_array('sql/links/array_within');
SELECT count(*) FROM tessera_objects('sql') WHERE path LIKE '%/links/up%' OR path LIKE '%outside%';
-- the repository's own data are behind such a link
SELECT count(*) FROM tessera_objects('sql/data') WHERE path = 'sql/data/airports';
-- a narrower directory is accepted, a wider one is not
SELECT tessera_restrict('.');
