-- 07: whole blocks, sums without rows, pictures, and work for many. Run it in the directory of tessera.so. It leaves the directory heights there: remove it before you run it again.
.load ./tessera
CREATE VIRTUAL TABLE relief USING tessera('sql/data/relief');

-- Sums from statistics where whole tiles are inside; by a dimension.
SELECT count, sum, min, max, round(mean, 3) FROM tessera_aggregate('db:relief', 'elevation');
SELECT key1 AS y, min, max FROM tessera_aggregate('db:relief', 'elevation', '{"y":[0,2]}', 'y');

-- A block as an NPY file: numpy.load reads it, tessera_write_npy takes it.
SELECT length(tessera_npy('db:relief', 'elevation', '{"y":[-30,30],"x":[0,9]}'));
CREATE VIRTUAL TABLE heights USING tessera('heights', kind=dense, y INT32 DIMENSION(0, 99, 10), x INT32 DIMENSION(0, 99, 10), elevation INT16 NOT NULL);
SELECT tessera_write_npy('db:heights', 'elevation', tessera_npy('db:relief', 'elevation', '{"y":[0,9],"x":[0,9]}'), '{"y":50,"x":50}');
SELECT count(*), sum(elevation) FROM heights;
SELECT sum(elevation) FROM relief WHERE y BETWEEN 0 AND 9 AND x BETWEEN 0 AND 9;

-- Slices of about equal work, one for each worker.
SELECT part, slice, cells FROM tessera_partitions('db:relief', 4);

-- A picture, and the same as text.
SELECT hex(substr(tessera_png('db:relief', 'elevation', NULL, '{"width":120,"colormap":"terrain","flip":true}'), 1, 8));
SELECT tessera_preview('db:relief', 'elevation', NULL, '{"width":60,"height":16,"flip":true}');
