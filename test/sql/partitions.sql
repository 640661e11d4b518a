-- tessera_partitions: slices of about equal work, the conditions that select them, and the calls that are refused.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE r USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE s USING tessera('arrays/new/sparse/mixed_hilbert');
SELECT part, slice, condition, tiles, cells FROM tessera_partitions('sql/data/relief', 4);
SELECT part, slice, condition, tiles, cells FROM tessera_partitions('sql/data/relief', 3, '{"y":[-100,119],"x":[0,null]}');
SELECT part, slice, condition, tiles, cells FROM tessera_partitions('sql/data/relief', 1);
SELECT count(*), sum(cells) FROM tessera_partitions('sql/data/relief', 100000);
-- The answers of the parts add up to the answer of the whole array.
SELECT sum(a.sum), sum(a.count) FROM tessera_partitions('sql/data/relief', 5) p, tessera_aggregate('sql/data/relief', 'elevation', p.slice) a;
SELECT sum(elevation), count(*) FROM r;
-- Sparse arrays and strings: a slice begins after the end of the one before.
SELECT count(*), sum(cells) FROM tessera_partitions('sql/data/airports', 6);
SELECT part, slice, condition FROM tessera_partitions('arrays/new/dimtype/sparse_string_ascii', 3);
SELECT sum(a.count + a.nulls) FROM tessera_partitions('arrays/new/dimtype/sparse_string_ascii', 3) p, tessera_aggregate('arrays/new/dimtype/sparse_string_ascii', 'a', p.slice) a;
SELECT count(*) FROM tessera_partitions('db:s', 4, '{"y":"nobody"}');
SELECT * FROM tessera_partitions('arrays/new/timetravel/dense', 3) WHERE as_of = 1;
SELECT * FROM tessera_partitions('sql/data/relief', 0);
SELECT * FROM tessera_partitions('sql/data/relief', 'many');
SELECT * FROM tessera_partitions('sql/data/relief', 2, '{"z":1}');
SELECT * FROM tessera_partitions('sql/data/relief');
SELECT count(*) FROM tessera_partitions('sql/data/relief', 2.0);                    -- as JavaScript binds 2
SELECT count(*) FROM tessera_partitions('sql/data/relief', 2.5);
SELECT count(*) FROM tessera_partitions('nowhere', 2);

-- No cut lies within texts that are equal up to a NUL, which SQL cannot write in a text.
CREATE VIRTUAL TABLE nul USING tessera(s TEXT DIMENSION, v INT32, capacity=2);
INSERT INTO nul WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19) SELECT CAST(CAST(iif(i < 15, 'a', 'b') AS BLOB) || x'00' || char(65 + i) AS TEXT), i FROM n;
SELECT slice, condition, cells FROM tessera_partitions('db:nul', 4);
