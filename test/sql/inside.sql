-- The tables that look inside arrays: their columns, arguments, times, keys, joins, db: addresses and errors.
.load ./tessera
.headers on
SELECT name, arguments FROM (SELECT m.name, (SELECT group_concat(CASE hidden WHEN 1 THEN '-' ELSE '' END || x.name, ' ') FROM pragma_table_xinfo(m.name) x) AS arguments
  FROM pragma_module_list m WHERE m.name GLOB 'tessera_*') ORDER BY name;
.mode line
SELECT * FROM tessera_array('arrays/new/sparse/mixed_hilbert');
SELECT * FROM tessera_array('arrays/new/timetravel/dense');
.mode list
SELECT * FROM tessera_schema('arrays/new/sparse/mixed_hilbert');
SELECT * FROM tessera_schema('arrays/new/dense/fill_values');
SELECT * FROM tessera_schema('arrays/new/current_domain/sparse_string');
SELECT * FROM tessera_schema('arrays/new/enums/sparse') WHERE enumeration IS NOT NULL;
SELECT name, filters FROM tessera_schema('arrays/new/filter/attr_scale_float_b4') UNION ALL SELECT name, filters FROM tessera_schema('arrays/new/chunks/dense_mc1000_bwr');
SELECT * FROM tessera_enumeration('arrays/new/enums/sparse', 'e_utf');
SELECT code, label, typeof(label) FROM tessera_enumeration('arrays/new/enums/sparse', 'e_u8x2') WHERE code = 1;
SELECT kind, format_version, start_time, end_time, cells, tiles, non_empty_domain FROM tessera_fragments('arrays/new/timetravel/dense');
SELECT tile, field, cells, decoded_bytes, domain, min, max, sum, null_count FROM tessera_tiles('arrays/new/timetravel/dense') WHERE as_of = 100;
SELECT tile, field, cells, domain, min, max, sum, null_count FROM tessera_tiles('arrays/old/lib1.7_py0.5.9/sparse2d') WHERE tile = 0 AND field IN ('__coords', 'a');
-- times: as arguments after the key, and as hidden columns
SELECT fragments, cells, first_write, last_write, non_empty_domain FROM tessera_array('arrays/new/timetravel/dense', NULL, 300);
SELECT fragments, cells, first_write, last_write, non_empty_domain FROM tessera_array('arrays/new/timetravel/dense', NULL, 300, 200);
SELECT fragments, cells, bytes, first_write, non_empty_domain FROM tessera_array('arrays/new/timetravel/dense') WHERE as_of = '1970-01-01';
SELECT as_of, fragments FROM tessera_array('arrays/new/timetravel/dense') WHERE as_of IN (100, 200, '1970-01-01 00:00:00.5');
SELECT key, value, array_key FROM tessera_metadata('arrays/new/timetravel/dense') WHERE as_of = 300 AND since = 250;
SELECT name FROM tessera_schema('arrays/new/evolution/add_drop_sparse') WHERE as_of = 1;
SELECT name FROM tessera_schema('arrays/new/evolution/add_drop_sparse');
-- joins: the arguments come from the table on the left or on the right
SELECT o.path, a.kind, a.cells FROM tessera_objects('arrays/new/groups/top') o, tessera_array(o.path) a WHERE o.kind = 'array';
SELECT o.path, a.cells FROM tessera_array a JOIN tessera_objects('arrays/new/groups/readd') o ON a.path = o.path WHERE o.kind = 'array';
SELECT m.name, t.field, sum(t.bytes) > 0 FROM tessera_members('arrays/new/groups/readd') m LEFT JOIN tessera_tiles(m.path) t GROUP BY 1, 2;
SELECT p.column1, (SELECT cells FROM tessera_array(p.column1)) FROM (VALUES ('arrays/new/groups/outside'), (NULL)) p;
-- db: addresses: the times of the table apply; names may be quoted, and databases are searched in SQL's order
CREATE VIRTUAL TABLE "old one" USING tessera('arrays/new/timetravel/dense', as_of=200);
CREATE VIRTUAL TABLE temp.t USING tessera('arrays/new/timetravel/dense');
CREATE TABLE plain(x);
SELECT path, fragments, last_write FROM tessera_array('db:old one');
SELECT path, fragments, last_write FROM tessera_array('db:"old one"');
SELECT path, fragments, last_write FROM tessera_array('db:main.[old one]') WHERE as_of = 100;
SELECT fragments FROM tessera_array('db:T');
SELECT count(*) FROM tessera_metadata('db:temp.t');
SELECT fragments FROM tessera_array('db:main.t');
SELECT fragments FROM tessera_array('db:plain');
SELECT fragments FROM tessera_array('db:"t');
SELECT * FROM tessera_members('db:t');
ALTER TABLE "old one" RENAME TO newer;
SELECT fragments FROM tessera_array('db:newer');
SELECT fragments FROM tessera_array('db:old one');
-- keys
SELECT count(*) FROM tessera_schema('arrays/new/encrypted/dense');
SELECT encryption, cells FROM tessera_array('arrays/new/encrypted/dense', '0123456789abcdeF0123456789abcdeF');
SELECT encryption, cells FROM tessera_array('arrays/new/encrypted/dense', '3031323334353637383961626364654630313233343536373839616263646546');
SELECT encryption, cells FROM tessera_array('arrays/new/encrypted/dense') WHERE array_key = CAST('0123456789abcdeF0123456789abcdeF' AS BLOB);
SELECT cells FROM tessera_array('arrays/new/encrypted/dense', zeroblob(32));
SELECT cells FROM tessera_array('arrays/new/encrypted/dense', 'short');
SELECT cells FROM tessera_array('arrays/new/groups/outside', zeroblob(32));
CREATE VIRTUAL TABLE e USING tessera('arrays/new/encrypted/dense');
SELECT tessera_set_key('./arrays/new//encrypted/dense/', '0123456789abcdeF0123456789abcdeF');
SELECT encryption, cells FROM tessera_array('arrays/new/encrypted/dense');
CREATE VIRTUAL TABLE e USING tessera('arrays/new/encrypted/dense');
SELECT count(*) FROM e;
SELECT substr(tessera_ddl('db:e'), 1, 60);
SELECT tessera_set_key('arrays/new/encrypted/dense', NULL);
SELECT cells FROM tessera_array('arrays/new/encrypted/dense');
SELECT tessera_set_key('arrays/new/encrypted/dense', 'short');
CREATE VIEW v AS SELECT tessera_set_key('x', zeroblob(32));
SELECT * FROM v;
-- calls that are refused
SELECT * FROM tessera_array;
SELECT * FROM tessera_enumeration('arrays/new/enums/sparse');
SELECT * FROM tessera_enumeration('arrays/new/enums/sparse', 'none');
SELECT * FROM tessera_array('arrays/none');
SELECT * FROM tessera_array(7);
SELECT * FROM tessera_array('arrays/new/groups/top');
SELECT * FROM tessera_members('arrays/new/groups/outside');
SELECT * FROM tessera_metadata('arrays/new');
SELECT * FROM tessera_objects('arrays/none');
SELECT * FROM tessera_tiles('arrays/new/timetravel/dense') WHERE as_of = 'noon';
-- The name of a schema that was seen: an array that lacks it has taken the place of another.
SELECT count(*) FROM tessera_schema('arrays/new/timetravel/dense', NULL, NULL, NULL, (SELECT schema FROM tessera_array('arrays/new/timetravel/dense')));
SELECT count(*) FROM tessera_schema('arrays/new/timetravel/dense') WHERE array_schema = 'other';
SELECT kind FROM tessera_array('arrays/new/timetravel/dense') WHERE array_schema = 'other';
SELECT length(tessera_npy('arrays/new/timetravel/dense', 'a', NULL, '{"array_schema":"other"}'));
SELECT count(*) FROM tessera_array(NULL);
SELECT fragments FROM tessera_array('arrays/new/timetravel/dense') WHERE as_of < 200;
DELETE FROM tessera_array;
-- One attribute, chosen by its name.
SELECT * FROM tessera_enumeration('arrays/new/enums/sparse', 'N_UTF');
