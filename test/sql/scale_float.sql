-- scale_float: a factor that no value survives is refused, and so are values that do not fit its integers.
.load ./tessera
.nullvalue NULL
CREATE VIRTUAL TABLE t USING tessera('t', x INT DIMENSION(0, 9), v FLOAT64 FILTERS(scale_float(8, 0, 0)));
CREATE VIRTUAL TABLE t USING tessera('t', x INT DIMENSION(0, 9), v FLOAT64 FILTERS(scale_float(8, 9e999, 0)));
CREATE VIRTUAL TABLE t USING tessera('t', x INT DIMENSION(0, 9), v FLOAT64 FILTERS(scale_float(8, 1, -9e999)));
CREATE VIRTUAL TABLE t USING tessera('t', x INT DIMENSION(0, 9), v FLOAT32 FILTERS(scale_float(4, 1e-60, 0)));
CREATE VIRTUAL TABLE t USING tessera('t', x INT DIMENSION(0, 9), v FLOAT64 FILTERS(scale_float(1, 0.5, 10)), w FLOAT32[] FILTERS(scale_float(2, 1, 0)));
SELECT tessera_add_attribute('t', 'z FLOAT32 FILTERS(scale_float(2, 0, 0))');
INSERT INTO t VALUES(0, 10.5, '[1,2]'), (1, NULL, NULL), (2, 73.5, '[]'), (3, -54, '[32767.4,-32768.4]');
INSERT INTO t VALUES(4, 74, NULL);
INSERT INTO t VALUES(4, 1e300, NULL);
INSERT INTO t VALUES(4, 10, '[1,32767.5]');
INSERT INTO t VALUES(4, 10, '[9e999]');
BEGIN;
INSERT OR IGNORE INTO t VALUES(5, 1, NULL), (6, -54.3, NULL);
UPDATE t SET v = v * 100 WHERE x = 2;
COMMIT;
SELECT * FROM t ORDER BY x;
CREATE VIRTUAL TABLE d USING tessera('d', kind=dense, x INT DIMENSION(0, 3, 2), v FLOAT32 NOT NULL FILTERS(scale_float(1, 1, 0)));
INSERT INTO d VALUES(0, 5), (3, -128);
INSERT INTO d VALUES(1, 128);
SELECT tessera_write_npy('d', 'v', x'934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028322c292c207d2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a0000803f00000043', '{"x":0}');
SELECT * FROM d;
-- An attribute that is added again must have its old type: fragments keep what was written under its name.
CREATE VIRTUAL TABLE h USING tessera('h', x INT DIMENSION(0, 9), v INT, e INT8);
INSERT INTO h VALUES(1, 2, 3);
SELECT tessera_drop_attribute('h', 'e');
SELECT tessera_add_attribute('h', 'e INT64');
SELECT tessera_add_attribute('h', 'e INT8 NOT NULL');
SELECT tessera_add_attribute('h', 'e INT8');
