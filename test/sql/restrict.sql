-- tessera_restrict: nothing outside of one directory is opened, made or read.
.load ./tessera
.mode list
.headers off
CREATE VIRTUAL TABLE before USING tessera('outside', x INT32 DIMENSION(0, 9), v INT8);
SELECT count(*) FROM before;
SELECT tessera_restrict('nowhere');
SELECT tessera_restrict(1);
SELECT tessera_restrict('sql') IS NULL;
-- a table that is open already is bound, too
SELECT count(*) FROM before;
SELECT count(*) FROM tessera_array('outside');
CREATE VIRTUAL TABLE made USING tessera('made', x INT32 DIMENSION(0, 9), v INT8);
SELECT count(*) FROM tessera_objects('.');
SELECT tessera_create_group('g');
SELECT tessera_create_group('sql/../g');
SELECT tessera_create_group('sql/none/../../g');
SELECT tessera_drop_array('made');
SELECT count(*) FROM tessera_check('sql/../t.db');
CREATE VIRTUAL TABLE locked USING tessera('sql/x', key_file='key');
CREATE VIRTUAL TABLE inside USING tessera('sql/inside', x INT32 DIMENSION(0, 9), v INT8);
SELECT count(*) FROM inside;
-- a link that leads out
SELECT count(*) FROM tessera_objects('sql/data') WHERE path = 'sql/data/airports';
-- narrower, not wider
SELECT tessera_restrict('.');
