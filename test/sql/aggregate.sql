-- tessera_aggregate: its answers, what they are computed from, and the requests that it refuses.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE r USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE a USING tessera('sql/data/airports');
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation');
SELECT count(elevation), sum(elevation), min(elevation), max(elevation), avg(elevation) FROM r;
-- Tiles that lie completely in the slice are answered from their statistics: none is read.
SELECT tessera_reset_stats();
SELECT sum, count FROM tessera_aggregate('sql/data/relief', 'elevation');
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_skipped_by_value', 'tiles_read', 'tiles_cached');
-- A slice cuts some tiles. Both ends are inclusive, null is an open end, a scalar is one value.
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', '{"y":[100,119],"x":[null,49]}');
SELECT count(*), sum(elevation), min(elevation), max(elevation), avg(elevation) FROM r WHERE y BETWEEN 100 AND 119 AND x <= 49;
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', '{"y":100,"x":7}');
-- Groups come in the order of their keys.
SELECT key1, key2, count, min, max, round(mean, 6) AS mean, nulls FROM tessera_aggregate('sql/data/relief', 'elevation', '{"y":[0,3]}', 'y');
SELECT y, count(elevation), min(elevation), max(elevation), round(avg(elevation), 6) FROM r WHERE y BETWEEN 0 AND 3 GROUP BY y;
SELECT key1, key2, key3, sum FROM tessera_aggregate('sql/data/relief', 'elevation', '{"y":[0,1],"x":[10,12]}', '["x","y"]');
SELECT key1, key2, key3, sum FROM tessera_aggregate('sql/data/relief', 'elevation', '{"y":[0,1],"x":[10,10]}', '["X","y","x"]');
-- Any attribute can be aggregated, with the same results as SQL's functions.
SELECT * FROM tessera_aggregate('sql/data/airports', 'name');
SELECT count(name), sum(name), min(name), max(name), avg(name) FROM a;
SELECT * FROM tessera_aggregate('arrays/new/enums/sparse', 'n_utf');
-- Null cells, NaN and cells that were never written count as nulls.
CREATE VIRTUAL TABLE nan USING tessera('arrays/new/dense/float_specials');
SELECT * FROM tessera_aggregate('db:nan', (SELECT name FROM tessera_schema('db:nan') WHERE role = 'attribute' LIMIT 1));
SELECT count(*), nulls FROM tessera_aggregate('arrays/new/consolidated/dense_fragments', 'n');
-- Integers past 64 bits: the sum is an error, the other columns are not. Unsigned integers past the signed range are text.
SELECT count, min, max, mean FROM tessera_aggregate('arrays/new/dtype/dense_int64', 'f1');
SELECT sum FROM tessera_aggregate('arrays/new/dtype/dense_int64', 'f1');
SELECT count, typeof(sum), min, max, typeof(max) FROM tessera_aggregate('arrays/new/dtype/dense_uint64', 'f1');
-- Datetimes are text.
SELECT count, sum, min, max, nulls FROM tessera_aggregate('arrays/new/dtype/dense_datetime_day', 'n1');
-- Times, tables, and arrays without cells.
CREATE VIRTUAL TABLE old USING tessera('arrays/new/timetravel/dense', as_of=200);
SELECT count, sum, nulls FROM tessera_aggregate('db:old', 'a');
SELECT count(a), sum(a), count(*) - count(a) FROM old;
SELECT count, sum, nulls FROM tessera_aggregate('arrays/new/timetravel/dense', 'a') WHERE as_of = 100;
SELECT count, sum, min, max, mean, nulls FROM tessera_aggregate('arrays/new/timetravel/dense', 'a') WHERE as_of = 1;
SELECT count(*) FROM tessera_aggregate('arrays/new/timetravel/dense', 'a', NULL, 'r') WHERE as_of = 1;
SELECT count, sum FROM tessera_aggregate(NULL, 'a');
SELECT p.column1 AS edge, g.sum FROM (VALUES (0), (10)) p, tessera_aggregate('sql/data/relief', 'elevation', json_object('y', p.column1)) g;
-- Requests that are refused.
SELECT * FROM tessera_aggregate('sql/data/relief');
SELECT * FROM tessera_aggregate('sql/data/relief', 'height');
SELECT * FROM tessera_aggregate('sql/data/relief', 'y');
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', '{"z":1}');
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', '{"y":[0,100000]}');
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', NULL, 'z');
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', NULL, '["y","x","y","x"]');
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', NULL, '["y"');
SELECT * FROM tessera_aggregate('nowhere', 'a');
-- More groups than memory_mb has room for: the error says what helps, and that does help.
CREATE VIRTUAL TABLE small USING tessera('sql/data/relief', memory_mb=1);
SELECT count(*) FROM tessera_aggregate('db:small', 'elevation', '{}', '["y","x"]');
SELECT count(*), sum(sum) FROM tessera_aggregate('db:small', 'elevation', '{"y":[0,1]}', '["y","x"]');
SELECT sum(elevation) FROM small WHERE y BETWEEN 0 AND 1;
-- A second dimension belongs into the JSON array: the argument behind the last one would be a key.
SELECT * FROM tessera_aggregate('sql/data/relief', 'elevation', NULL, 'y', 'x');
