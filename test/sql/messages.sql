-- The messages for statements that SQL or other libraries would accept, and tessera does not.
.load ./tessera
CREATE VIRTUAL TABLE st USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32, w TEXT);
CREATE VIRTUAL TABLE block USING tessera('block', kind=dense, x INT32 DIMENSION(0, 9, 5), v INT32);
-- paths without quotes
CREATE VIRTUAL TABLE t USING tessera(data/st);
CREATE VIRTUAL TABLE t USING tessera(./st, x INT32);
CREATE VIRTUAL TABLE t USING tessera(/* 1/2 */ x INT32 DIMENSION(0, 9, 5), /* a/b */ v INT32);
DROP TABLE t;
CREATE VIRTUAL TABLE t USING tessera(/*a/b*/ );
-- keys, types, filters
CREATE VIRTUAL TABLE t USING tessera(x INT32 PRIMARY KEY, v INT32);
CREATE VIRTUAL TABLE t USING tessera(x INT32, v INT32, PRIMARY KEY(x));
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v STRING);
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32 FILTERS(zlib));
-- attributes that do not exist
SELECT * FROM tessera_aggregate('db:st', 'nope');
SELECT tessera_npy('db:block', 'nope');
SELECT tessera_npy('block', 'x');
SELECT tessera_write_npy('block', 'nope', x'00');
-- values that are not .npy blocks
SELECT tessera_write_npy('block', 'v', 'v.npy');
SELECT tessera_write_npy('block', 'v', readfile('nowhere.npy'));
SELECT tessera_write_npy('block', 'v', 7);
-- names of tables in place of paths
SELECT * FROM tessera_array('st');
SELECT * FROM tessera_metadata('st');
SELECT * FROM tessera_check('st');
SELECT * FROM tessera_aggregate('st', 'v');
SELECT tessera_npy('st', 'v');
SELECT tessera_consolidate('st');
SELECT tessera_set_metadata('st', 'a', 1);
SELECT tessera_ddl('st');
SELECT * FROM tessera_array('other');
SELECT cells FROM tessera_array('block');
-- times that are not UTC
CREATE VIRTUAL TABLE d USING tessera("when" TIMESTAMP DIMENSION, v INT32);
INSERT INTO d VALUES('2024-01-01 00:00:00+02:00', 1);
INSERT INTO d VALUES('2024-01-01T00:00-05:00', 1);
INSERT INTO d VALUES('2024-01-01T00:00Z', 1), ('2024-01-02 noon', 1);
INSERT INTO d VALUES('2024-01-01T00:00Z', 1);
SELECT "when" FROM d;
-- slices with values that SQL takes for numbers
SELECT tessera_npy('db:block', 'v', '{"x":[true,1]}');
SELECT tessera_npy('db:block', 'v', '{"x":false}');
SELECT hex(substr(tessera_npy('db:block', 'v', '{"x":[0,1]}'), -8)), length(tessera_npy('db:block', 'v', '{"x":1}'));
-- slices, origins and domains that are not JSON objects of the right form
SELECT tessera_npy('db:block', 'v', 5);
SELECT tessera_npy('db:block', 'v', '[1,2]');
SELECT tessera_png('db:block', 'v', '"x"');
SELECT * FROM tessera_aggregate('db:block', 'v', '');
SELECT * FROM tessera_partitions('db:block', 2, '{"x":{}}');
SELECT tessera_write_npy('db:block', 'v', tessera_npy('db:block', 'v', '{"x":[0,1]}'), '{"x":[1]}');
SELECT tessera_write_npy('db:block', 'v', tessera_npy('db:block', 'v', '{"x":[0,1]}'), '');
SELECT tessera_write_npy('db:block', 'v', tessera_npy('db:block', 'v', '{"x":[0,1]}'), '{"x"');
CREATE VIRTUAL TABLE c USING tessera(x INT32 DIMENSION(0, 99, 5) CURRENT(0, 9), v INT32);
SELECT tessera_expand_domain('db:c', '{"x":40}');
SELECT tessera_expand_domain('db:c', '{}');
SELECT tessera_expand_domain('db:c', 40);
-- attributes that exist already, and two changes at once
SELECT tessera_add_attribute('db:st', 'v FLOAT32');
SELECT tessera_add_attribute('db:st', 'V FLOAT32');
SELECT tessera_add_attribute('db:st', 'X FLOAT32');
SELECT tessera_add_attribute('db:st', 'y FLOAT32, z FLOAT32');
SELECT tessera_add_attribute('db:st', 'y FLOAT32(');
SELECT group_concat(name) FROM tessera_schema('db:st');
-- names of tables
CREATE TABLE ordinary(x);
SELECT tessera_sync('db:my table', 'x');
SELECT tessera_sync('block', 'db:bad name');
SELECT tessera_sync('db:ordinary', 'x');
SELECT cells FROM tessera_array('db:ordinary');
CREATE VIRTUAL TABLE "my table" USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32);
SELECT tessera_sync('db:"my table"', 'exported') > 0;
SELECT tessera_sync('exported', 'db:"bad name"') > 0;
-- groups and their members
SELECT tessera_create_group('g'), tessera_create_group('g/below');
SELECT tessera_add_member('g', 'db:st', 'st');
SELECT tessera_add_member('g', 'block'), tessera_add_member('g', 'g/below');
SELECT tessera_drop('g');
SELECT name, kind FROM tessera_members('g');
SELECT tessera_drop_member('g', 'below');
SELECT name, kind FROM tessera_members('g');
SELECT tessera_drop_member('g', 'file:///' || ltrim(replace(rtrim(file, 't.db'), '\', '/'), '/') || 'block') FROM pragma_database_list WHERE name = 'main';
SELECT count(*) FROM tessera_members('g');
-- times
SELECT * FROM st('2024-06-31');
SELECT * FROM st('2090-01-01T00:00:00+02:00');
SELECT * FROM st('1795349925408');
SELECT * FROM tessera_array('db:st', NULL, '2024-06-31');
CREATE VIRTUAL TABLE t USING tessera('block', as_of='1795349925408');
SELECT count(*) FROM st(1795349925408);
-- broken JSON in a cell
CREATE VIRTUAL TABLE l USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32[]);
INSERT INTO l VALUES(1, '[1, 2');
-- filters that do not go together, and levels that a codec does not have; -1 stands for the default level
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32 FILTERS(none, zstd));
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32 FILTERS(zstd, chunk(100)));
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32 FILTERS(zstd(99)));
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32 FILTERS(zstd(-8)));
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32, offsets_filters=(gzip(10)));
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5) FILTERS(gzip(-5)), v INT32);
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), v INT32 FILTERS(bzip2(0)));
SELECT tessera_add_attribute('db:st', 'y FLOAT32 FILTERS(bzip2(10))');
SELECT tessera_copy('block', 'copied', '{"filters":{"v":"zstd(23)"}}');
CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(0, 9, 5), a INT32 FILTERS(zstd(-7)), b INT32 FILTERS(zstd(22)), c INT32 FILTERS(gzip(0), gzip(-1), bzip2(-1), lz4(-9)), d FLOAT32 FILTERS(scale_float));
INSERT INTO t VALUES(1, 2, 3, 4, 1000);
SELECT * FROM t;
SELECT name, filters FROM tessera_schema('db:t');
-- types by the names that other systems give them
CREATE VIRTUAL TABLE u USING tessera(x INT32 DIMENSION(0, 9, 5), v NUMERIC);
CREATE VIRTUAL TABLE u USING tessera(x INT32 DIMENSION(0, 9, 5), v DATETIME_S);
CREATE VIRTUAL TABLE u USING tessera(x INT32 DIMENSION(0, 9, 5), v time_minutes);
CREATE VIRTUAL TABLE u USING tessera(x INT32 DIMENSION(0, 9, 5), v VARCAHR);
SELECT tessera_set_metadata('messages', 'k', 1, 'INT46');
CREATE VIRTUAL TABLE u USING tessera(x INT32 DIMENSION(0, 9, 5), v TEXT(20), w VARCHAR(20));
SELECT name, datatype FROM tessera_schema('db:u');
-- colours
SELECT tessera_png('db:block', 'v', NULL, '{"nodata":"red"}');
-- a database that cannot be written
PRAGMA query_only = 1;
SELECT tessera_set_metadata('db:st', 'a', 1);
SELECT tessera_add_attribute('db:st', 'z INT32');
PRAGMA query_only = 0;
-- tessera_check removes the array's path from its messages, and not every occurrence of the path's letters
CREATE VIRTUAL TABLE e USING tessera('e', x INT32 DIMENSION(0, 9, 1), v INT32);
INSERT INTO e VALUES(1, 1);
.shell for f in e/__fragments/*/a0.tdb; do printf x >> $f; done
SELECT message FROM tessera_check('e');
SELECT message FROM tessera_check('./e');
.shell mv e data
SELECT message FROM tessera_check('data');
-- a text that a message shortens ends with a whole character
SELECT * FROM tessera_aggregate('db:st', 'n' || replace(hex(zeroblob(33)), '00', 'ä'));
