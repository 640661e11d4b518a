-- UINT64 past the signed range: text of 20 digits in a column without affinity, so that comparisons are exact.
.load ./tessera
.nullvalue NULL
CREATE VIRTUAL TABLE s USING tessera('s', id UINT64 DIMENSION, v INT32, u UINT64);
INSERT INTO s VALUES('9223372036854775900', 0, '9223372036854775900'), ('9223372036854776000', 1, 5), ('0018446744073709551614', 2, '018446744073709551615'), (7, 3, NULL),
  ('0000000000000000000000000000000000008', 4, '09223372036854775808'), (9223372036854775807, 5, '9223372036854775807');
SELECT id, typeof(id), v, u, typeof(u) FROM s ORDER BY id;
SELECT group_concat(name || ' ' || type, ', ') FROM pragma_table_info('s');
-- Comparisons with numbers are exact, however many zeros a text of digits begins with.
SELECT v FROM s WHERE id = '9223372036854775900';
SELECT v FROM s WHERE id = '0000009223372036854775900';
SELECT v FROM s WHERE id = 7;
SELECT v FROM s WHERE id = '7';
SELECT v FROM s WHERE id <> 7 ORDER BY v;
SELECT v FROM s WHERE id IS NOT 8 AND u IS NOT 5 ORDER BY v;
SELECT v FROM s WHERE id IN ('7', '9223372036854776000', 8, 1e19) ORDER BY v;
SELECT v FROM s WHERE id BETWEEN '8' AND '9223372036854775900' ORDER BY v;
SELECT v FROM s WHERE id > '9223372036854775900' ORDER BY v;
SELECT v FROM s WHERE id < '9223372036854776000' ORDER BY v;
SELECT v FROM s WHERE u >= '09223372036854775808' ORDER BY v;
SELECT v FROM s WHERE u < 6 ORDER BY v;
.param init
.param set $p "'9223372036854775900'"
SELECT v FROM s WHERE id = $p;
SELECT v FROM s WHERE id > $p ORDER BY v;
-- A text with more digits than any value has; a text that is not a number, which is greater than all integers; a BLOB, which is greater than all texts; a REAL, which is less than all texts.
SELECT count(*) FROM s WHERE id < '18446744073709551616';
SELECT count(*) FROM s WHERE id < '100000000000000000000000000000000000000000000';
SELECT v FROM s WHERE id > '' ORDER BY v;
SELECT v FROM s WHERE id > '1e3' ORDER BY v;
SELECT v FROM s WHERE id < '1e3' ORDER BY v;
SELECT count(*) FROM s WHERE id < x'';
SELECT v FROM s WHERE id > 9223372036854775807 ORDER BY v;
SELECT v FROM s WHERE id > 9223372036854775900 ORDER BY v;
SELECT v FROM s WHERE id = 18446744073709551614;
SELECT v FROM s WHERE id > 7.5 AND id <= 9.2e18 ORDER BY v;
-- max, min, GROUP BY, joins with the array itself and with a column of text, UPDATE and DELETE.
SELECT min(id), max(id), min(u), max(u) FROM s;
SELECT u, count(*) FROM s GROUP BY u ORDER BY u DESC;
SELECT a.v, b.v FROM s AS a JOIN s AS b ON a.id = b.u ORDER BY 1, 2;
CREATE TABLE o(id TEXT);
INSERT INTO o VALUES('9223372036854775900'), ('7'), ('18446744073709551614');
SELECT s.v FROM o CROSS JOIN s ON s.id = o.id ORDER BY 1;
UPDATE s SET v = 10 WHERE id = '9223372036854775900';
UPDATE s SET id = '9223372036854775901' WHERE v = 10;
DELETE FROM s WHERE id = '9223372036854776000';
DELETE FROM s WHERE u = '9223372036854775807';
SELECT id, v, u FROM s ORDER BY id DESC;
EXPLAIN QUERY PLAN SELECT * FROM s WHERE id > '9' ORDER BY id LIMIT 2;
-- From the seventeenth constraint on SQLite tests constraints itself, by its own rules.
SELECT count(*) FROM s WHERE v > -1 AND v > -2 AND v > -3 AND v > -4 AND v > -5 AND v > -6 AND v > -7 AND v > -8 AND v > -9 AND v > -10 AND v > -11 AND v > -12 AND v > -13 AND v > -14 AND v > -15 AND v > -16
  AND id = '9223372036854775901';
SELECT count(*) FROM s WHERE v > -1 AND v > -2 AND v > -3 AND v > -4 AND v > -5 AND v > -6 AND v > -7 AND v > -8 AND v > -9 AND v > -10 AND v > -11 AND v > -12 AND v > -13 AND v > -14 AND v > -15 AND v > -16
  AND id = '09223372036854775901';
SELECT count(*) FROM s WHERE v > -1 AND v > -2 AND v > -3 AND v > -4 AND v > -5 AND v > -6 AND v > -7 AND v > -8 AND v > -9 AND v > -10 AND v > -11 AND v > -12 AND v > -13 AND v > -14 AND v > -15 AND v > -16
  AND id > '7';
-- Labels, cells of several values, defaults, the tables that look inside arrays.
CREATE VIRTUAL TABLE e USING tessera('e', x INT32 DIMENSION, l UINT64 ENUM('9223372036854775809', 3, '18446744073709551615'), w UINT64[], d UINT64 NOT NULL DEFAULT '9223372036854775809');
INSERT INTO e VALUES(1, '9223372036854775809', '[1,"9223372036854775809"]', NULL), (2, '00018446744073709551615', '[18446744073709551615]', 4), (3, 3, '[]', '00000000000000000009');
SELECT x, l, w, d FROM e;
SELECT x FROM e WHERE l > '9223372036854775808';
SELECT x FROM e WHERE l = '3';
SELECT x FROM e WHERE l <> '09223372036854775809';
SELECT code, label FROM tessera_enumeration('e', 'l');
SELECT name, fill FROM tessera_schema('e') WHERE name = 'd';
SELECT non_empty_domain FROM tessera_array('s');
SELECT field, min, max FROM tessera_tiles('s') WHERE field <> 'v' ORDER BY fragment, field LIMIT 2;
SELECT * FROM tessera_aggregate('s', 'v', '{"id":["9223372036854775808",null]}', 'id');
SELECT min, max, count FROM tessera_aggregate('s', 'u');
CREATE VIRTUAL TABLE p USING tessera('p', id UINT64 DIMENSION(0, '18446744073709551614'), v INT32, capacity=2);
INSERT INTO p VALUES(1, 1), (2, 2), (3, 3), (4, 4), ('9223372036854775809', 5), ('9223372036854775810', 6), ('9223372036854775811', 7), ('18446744073709551614', 8);
SELECT condition, slice FROM tessera_partitions('p', 3);
-- A dimension whose domain ends within the signed range has an INTEGER column.
CREATE VIRTUAL TABLE small USING tessera('small', id UINT64 DIMENSION(0, 9223372036854775807, 1000), v INT32);
INSERT INTO small VALUES('0012', 1);
SELECT typeof(id) FROM small WHERE id = '12' OR +id = '12.0';
-- JSON keeps all digits of an integer; a REAL past the signed range is no integer.
SELECT count, sum FROM tessera_aggregate('p', 'v', '{"id":9223372036854775809}');
SELECT count, sum FROM tessera_aggregate('p', 'v', '{"id":[9223372036854775810,18446744073709551614]}');
SELECT count, sum FROM tessera_aggregate('p', 'v', '{"id":[0,9223372036854775810]}');
SELECT count FROM tessera_aggregate('p', 'v', '{"id":[0,18446744073709551616]}');
SELECT count FROM tessera_aggregate('p', 'v', '{"id":[0,18446744073709551615]}');
SELECT count FROM tessera_aggregate('p', 'v', '{"id":[0,1.8e19]}');
SELECT count FROM tessera_aggregate('p', 'v', '{"id":[0,"1.8e19"]}');
SELECT tessera_extend_enumeration('e', 'l', 9223372036854775811);
SELECT tessera_set_metadata('e', 'm', 9223372036854775811, 'UINT64');
SELECT tessera_set_metadata('e', 'm', 9223372036854774784.0, 'UINT64');
SELECT key, value FROM tessera_metadata('e');
-- uint64=signed: the 64 bits appear as INTEGER, and sort so.
CREATE VIRTUAL TABLE n USING tessera('p', uint64=signed);
SELECT id, typeof(id), v FROM n ORDER BY id;
SELECT id FROM n WHERE id < 2 ORDER BY id;
SELECT id FROM n WHERE id >= -9223372036854775806 AND id <= 3 ORDER BY id DESC;
SELECT id FROM n WHERE id IN (-2, '4', 5, -9223372036854775807) ORDER BY id;
SELECT min(id), max(id) FROM n;
EXPLAIN QUERY PLAN SELECT * FROM n WHERE id > -5 ORDER BY id;
INSERT INTO n VALUES(-3, 9), ('-9223372036854775808', 10);
INSERT INTO n VALUES('18446744073709551612', 11);
DELETE FROM n WHERE id = -2;
SELECT id, v FROM p WHERE id > 4 ORDER BY id;
SELECT non_empty_domain FROM tessera_array('db:n');
SELECT key1, sum FROM tessera_aggregate('db:n', 'v', '{"id":[3,-3]}', 'id');
SELECT key1, sum FROM tessera_aggregate('db:n', 'v', '{"id":[-5,3]}', 'id');
SELECT condition, slice FROM tessera_partitions('db:n', 3);
SELECT condition, slice FROM tessera_partitions('db:n', 1, '{"id":[4,-9223372036854775807]}');
CREATE VIRTUAL TABLE f USING tessera('e', uint64=signed);
SELECT x, l, w, d, typeof(d) FROM f WHERE l < 3;
SELECT min, max FROM tessera_aggregate('db:f', 'd');
SELECT l FROM f WHERE l IN (3, -1) ORDER BY l;
INSERT INTO f VALUES(4, -1, '[-1,2]', -7);
SELECT * FROM e WHERE x = 4;
CREATE VIRTUAL TABLE wrong USING tessera('e', uint64=number);
