-- One slice in all functions that take slices: open ends become those of the non-empty domain.
.load ./tessera
.mode list
.headers off
CREATE VIRTUAL TABLE v USING tessera(kind=dense, d INT32 DIMENSION(0, 9, 5), e INT32 DIMENSION(0, 1, 2), a INT8);
CREATE VIRTUAL TABLE none USING tessera(kind=dense, d INT32 DIMENSION(0, 9, 5), e INT32 DIMENSION(0, 1, 2), a INT8);
INSERT INTO v VALUES(5, 0, 1), (5, 1, 2), (6, 0, 3), (6, 1, 4);
CREATE TEMP TABLE slices(s);
INSERT INTO slices VALUES(NULL), ('{}'), ('{"d":[0,9]}'), ('{"d":[null,5]}'), ('{"d":[6,null]}'), ('{"d":[null,3]}'), ('{"d":[8,null]}'), ('{"d":[null,4],"e":[0,1]}'), ('{"d":[7,null],"e":1}');
-- the cells of a block; the values that were written; the partitions
SELECT s, hex(substr(tessera_npy('db:v', 'a', s), 129)), (SELECT count FROM tessera_aggregate('db:v', 'a', s)), (SELECT count(*) FROM tessera_partitions('db:v', 2, s)) FROM slices;
SELECT s, hex(substr(tessera_npy('db:none', 'a', s), 129)), (SELECT count FROM tessera_aggregate('db:none', 'a', s)), (SELECT count(*) FROM tessera_partitions('db:none', 2, s)) FROM slices;
SELECT substr(tessera_npy('db:v', 'a', '{"d":[null,3]}'), 11) = substr(tessera_npy('db:none', 'a'), 11), instr(tessera_npy('db:v', 'a', '{"d":[8,null]}'), CAST('(0, 0)' AS BLOB)) > 0;
-- an empty result
SELECT tessera_png('db:v', 'a', '{"d":[null,3]}');
SELECT tessera_preview('db:v', 'a', '{"d":[8,null]}');
SELECT tessera_preview('db:none', 'a');
SELECT length(tessera_png('db:v', 'a', '{"d":[null,5]}')) > 0;
-- a pair is cut to the domain, as WHERE does it, also past the datatype; a single value must lie in it; ends the wrong way round are an error
SELECT instr(tessera_npy('db:v', 'a', '{"d":[10,null]}'), CAST('(0, 0)' AS BLOB)) > 0, count FROM tessera_aggregate('db:v', 'a', '{"d":[10,null]}');
CREATE TEMP TABLE cut(s);
INSERT INTO cut VALUES('{"d":[-5,5]}'), ('{"d":[6,1000]}'), ('{"d":[-99,99999999999999999999]}'), ('{"d":[-9e99,5]}'), ('{"d":[10,20]}'), ('{"d":[-7,-3]}'), ('{"d":[99999999999,199999999999]}'), ('{"d":[null,-1]}');
SELECT s, (SELECT count FROM tessera_aggregate('db:v', 'a', s)), (SELECT count(*) FROM tessera_partitions('db:v', 1, s)), length(tessera_npy('db:v', 'a', s)) - 128 FROM cut;
SELECT count FROM tessera_aggregate('db:v', 'a', '{"d":10}');
SELECT count FROM tessera_aggregate('db:v', 'a', '{"d":[12,11]}');
SELECT count FROM tessera_aggregate('db:v', 'a', '{"d":[12,-1]}');
SELECT count FROM tessera_aggregate('db:v', 'a', '{"d":[99999999999,5]}');
CREATE VIRTUAL TABLE names USING tessera(name TEXT DIMENSION, day DATE DIMENSION('2024-01-01', '2024-12-31'), a INT8);
INSERT INTO names VALUES('Basel', '2024-01-01', 1), ('Bern', '2024-01-02', 2), ('Zug', '2024-01-03', 4);
SELECT count FROM tessera_aggregate('db:names', 'a', '{"name":["Basel","Bern"],"day":["2023-12-30","2025-06-01"]}');
SELECT count FROM tessera_aggregate('db:names', 'a', '{"name":["Bern","Bern"]}');
SELECT count FROM tessera_aggregate('db:names', 'a', '{"name":["Zug","Basel"]}');
SELECT count FROM tessera_aggregate('db:names', 'a', '{"name":["Bernina","Bern"]}');
SELECT slice FROM tessera_partitions('db:names', 2, '{"name":["Zug","Basel"]}');
-- [] is no coordinate: the slice has no cell.
SELECT length(tessera_npy('arrays/new/timetravel/dense', 'a', '{"r":[]}')) AS block, (SELECT count(*) FROM tessera_partitions('arrays/new/timetravel/dense', 3, '{"r":[],"c":[2,3]}')) AS parts, (SELECT count FROM tessera_aggregate('arrays/new/timetravel/dense', 'a', '{"r":[]}')) AS cells;
SELECT tessera_npy('arrays/new/timetravel/dense', 'a', '{"none":[]}');
