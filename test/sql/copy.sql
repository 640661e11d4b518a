-- tessera_copy: a new array with the same cells and other tiles, filters and orders.
.load ./tessera
.mode list
.headers off
CREATE VIRTUAL TABLE s USING tessera('s', kind=sparse, capacity=2, x INT32 DIMENSION(0, 99, 10), name VARCHAR DIMENSION,
  v INT64, t VARCHAR, e VARCHAR NOT NULL ENUM('a', 'b'));
INSERT INTO s VALUES (1, 'k', 10, 'ten', 'a'), (2, '', NULL, NULL, 'b'), (3, 'z', 30, '', 'a');
INSERT INTO s VALUES (50, 'q', -1, 'late', 'b');
UPDATE s SET v = 21 WHERE x = 2;
DELETE FROM s WHERE x = 1;
SELECT tessera_set_metadata('s', 'unit', 'mm');
SELECT tessera_copy('s', 's2', '{"capacity":1000,"extents":{"x":100},"filters":{"v":"byteshuffle, zstd(5)","x":"none"},"cell_order":"col","duplicates":true}');
CREATE VIRTUAL TABLE s2 USING tessera('s2');
SELECT * FROM s2 ORDER BY x;
SELECT count(*) FROM (SELECT * FROM s EXCEPT SELECT * FROM s2);
SELECT key, value FROM tessera_metadata('s2');
SELECT tessera_ddl('s2');
SELECT count(*) FROM tessera_fragments('s2');
SELECT count(*) FROM tessera_check('s2');

-- Dense arrays: cells that were never written are not written in the copy either.
CREATE VIRTUAL TABLE d USING tessera('d', kind=dense, y INT32 DIMENSION(1, 8, 4), x INT32 DIMENSION(1, 8, 4), v INT32, t VARCHAR);
INSERT INTO d SELECT y.value, x.value, y.value * 10 + x.value, 'n' || x.value FROM generate_series(1, 3) y, generate_series(2, 7) x;
INSERT INTO d VALUES (7, 7, NULL, NULL), (8, 1, 81, '');
SELECT tessera_copy('db:d', 'd2', '{"extents":{"y":2,"x":8},"tile_order":"col","format_version":21}');
CREATE VIRTUAL TABLE d2 USING tessera('d2');
CREATE VIRTUAL TABLE dn USING tessera('d', unwritten=fill);
CREATE VIRTUAL TABLE d2n USING tessera('d2', unwritten=fill);
SELECT count(*), count(v), sum(v) FROM d2;
SELECT count(*), count(v), sum(v) FROM d;
SELECT count(*) FROM (SELECT * FROM dn EXCEPT SELECT * FROM d2n);
SELECT count(*) FROM tessera_check('d2');
SELECT tessera_ddl('d2');
CREATE VIRTUAL TABLE whole USING tessera('whole', kind=dense, y INT64 DIMENSION(-5, 4, 3), v FLOAT64);
INSERT INTO whole SELECT value, value / 2.0 FROM generate_series(-5, 4);
SELECT tessera_copy('whole', 'whole2', '{"extents":{"y":4}}'), count(*) FROM tessera_fragments('whole');
SELECT count(*) FROM tessera_fragments('whole2');
CREATE VIRTUAL TABLE whole2 USING tessera('whole2');
SELECT group_concat(y || ':' || v, ' ') FROM whole2;

-- Empty arrays; a copy from the database; a copy with a key.
CREATE VIRTUAL TABLE inside USING tessera(kind=sparse, x INT32 DIMENSION(0, 99), v INT64);
SELECT tessera_copy('db:inside', 'inside2');
SELECT count(*) FROM tessera_fragments('inside2');
INSERT INTO inside VALUES (1, 10);
SELECT tessera_copy('db:inside', 'inside3', '{}');
SELECT tessera_set_key('locked', '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f');
CREATE VIRTUAL TABLE locked USING tessera('locked', kind=sparse, encryption=aes_256_gcm, x INT32 DIMENSION(0, 99), v INT64);
INSERT INTO locked VALUES (7, 70);
SELECT tessera_copy('locked', 'locked2');
CREATE VIRTUAL TABLE locked2 USING tessera('locked2');
SELECT * FROM locked2;
SELECT tessera_set_key('locked2', NULL);
SELECT count(*) FROM tessera_array('locked2');

-- A copy into the database: a table of that name, made in the open transaction.
SELECT tessera_copy('s', 'db:s3', '{"capacity":1000,"cell_order":"col","filters":{"v":"byteshuffle, zstd(5)"}}');
SELECT * FROM s3 ORDER BY x;
SELECT count(*) FROM (SELECT * FROM s EXCEPT SELECT * FROM s3);
SELECT key, value FROM tessera_metadata('db:s3');
SELECT tessera_ddl('db:s3');
SELECT count(*) FROM tessera_check('db:s3');
INSERT INTO s3 VALUES (70, 'after', 7, '', 'a');
SELECT count(*) FROM s3;
ATTACH ':memory:' AS "o.2";
SELECT tessera_copy('DB:d', 'DB:"o.2"."d ""3"""', '{"extents":{"y":2}}');
SELECT count(*), count(v), sum(v) FROM "o.2"."d ""3""";
BEGIN;
SELECT tessera_copy('db:s3', 'db:gone');
SELECT count(*) FROM gone;
ROLLBACK;
SELECT count(*) FROM sqlite_schema WHERE name LIKE 'gone%';
SELECT tessera_copy('locked', 'db:locked3');
SELECT * FROM locked3;

-- Copies that are refused, and that leave nothing behind.
SELECT tessera_copy('s', 's2');
SELECT tessera_copy('s', 'no', '{"what":1}');
SELECT tessera_copy('s', 'no', '{"extents":{"name":10}}');
SELECT tessera_copy('s', 'no', '{"extents":{"v":10}}');
SELECT tessera_copy('s', 'no', '{"extents":{"x":"10"}}');
SELECT tessera_copy('s', 'no', '{"extents":{"x":1000}}');
SELECT tessera_copy('s', 'no', '{"extents":[1]}');
SELECT tessera_copy('s', 'no', '{"filters":{"v":"nosuch"}}');
SELECT tessera_copy('s', 'no', '{"filters":{"v":"zstd zstd"}}');
SELECT tessera_copy('s', 'no', '{"filters":{"w":"zstd"}}');
SELECT tessera_copy('s', 'no', '{"filters":{"t":"scale_float"}}');
SELECT tessera_copy('s', 'no', '{"capacity":0}');
SELECT tessera_copy('s', 'no', '{"capacity":1e30}');
SELECT tessera_copy('s', 'no', '{"capacity":9223372036854775808}');
SELECT tessera_copy('s', 'no', '{"format_version":"22"}');
SELECT tessera_copy('s', 'no', '{"format_version":23}');
SELECT tessera_copy('s', 'no', '{"format_version":3}');
SELECT tessera_copy('s', 'no', '{"cell_order":"up"}');
SELECT tessera_copy('s', 'no', '{"tile_order":"hilbert"}');
SELECT tessera_copy('s2', 'no', '{"duplicates":false}');
SELECT tessera_copy('s', 'no', '{');
SELECT tessera_copy('s', 'no', '[]');
SELECT tessera_copy('s', 'db:');
SELECT tessera_copy('s', 'db:nosuch.t');
SELECT tessera_copy('s', 'db:t', '{"extents":{"x":1000}}');
SELECT tessera_copy('s', 'db:s2');
SELECT count(*) FROM sqlite_schema WHERE name LIKE 't%';
SELECT tessera_copy('nowhere', 'no');
SELECT tessera_copy(NULL, 'no');
SELECT tessera_copy('s', NULL);
SELECT count(*) FROM tessera_objects('.') WHERE path LIKE '%no';
BEGIN;
INSERT INTO s VALUES (60, 'r', 1, '', 'a');
SELECT tessera_copy('s', 'no');
ROLLBACK;
CREATE VIEW sly AS SELECT tessera_copy('s', 'no');
SELECT * FROM sly;
.system ls
