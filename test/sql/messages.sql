-- What is said to those who write what SQL or other libraries would take.
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
-- attributes that are not there
SELECT * FROM tessera_aggregate('db:st', 'nope');
SELECT tessera_npy('db:block', 'nope');
SELECT tessera_npy('block', 'x');
SELECT tessera_write_npy('block', 'nope', x'00');
-- blocks that are no blocks
SELECT tessera_write_npy('block', 'v', 'v.npy');
SELECT tessera_write_npy('block', 'v', readfile('nowhere.npy'));
SELECT tessera_write_npy('block', 'v', 7);
-- tables where a path is wanted
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
-- slices of what SQL takes for numbers
SELECT tessera_npy('db:block', 'v', '{"x":[true,1]}');
SELECT tessera_npy('db:block', 'v', '{"x":false}');
SELECT hex(substr(tessera_npy('db:block', 'v', '{"x":[0,1]}'), -8)), length(tessera_npy('db:block', 'v', '{"x":1}'));
