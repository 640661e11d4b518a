-- Arrays that only old libraries wrote: key-value stores, sparse fragments in dense arrays, arrays that a newer library went on writing.
.load ./tessera
.headers on
-- A key-value store is a sparse array: two halves of a hash, the key (its datatype, then its bytes), the values
SELECT path, kind FROM tessera_objects('arrays/old/kv') WHERE path GLOB '*lib1.5*' ORDER BY path;
SELECT kind, format_version, dimensions, attributes, fragments, cells FROM tessera_array('arrays/old/kv/lib1.6_several');
SELECT name, role, datatype, cell_val_num FROM tessera_schema('arrays/old/kv/lib1.6_items');
CREATE VIRTUAL TABLE kv USING tessera('arrays/old/kv/lib1.6_several');
SELECT count(*), count(DISTINCT __key), min(length(__key)), count(DISTINCT substr(__key, 1, 1)) FROM kv;
SELECT count(*) FROM kv WHERE __key_dim_1 = (SELECT __key_dim_1 FROM kv LIMIT 1);
SELECT count(*) FROM kv('1970-01-01');
SELECT severity, message FROM tessera_check('arrays/old/kv/lib1.5_consolidated');
-- the newest fragment wins for each cell: dense, sparse, dense, sparse
SELECT kind, cells FROM tessera_fragments('arrays/old/sparse_in_dense/lib1.6_d1_alternating') ORDER BY start_time;
SELECT kind, cells FROM tessera_fragments('arrays/old/sparse_in_dense/lib2.4_d1_alternating') ORDER BY start_time;
CREATE VIRTUAL TABLE sd USING tessera('arrays/old/sparse_in_dense/lib2.4_d1_covered');
SELECT written_at, count(*), min(d), max(d) FROM sd GROUP BY written_at;
SELECT d, written_at FROM sd WHERE d BETWEEN 16 AND 18 ORDER BY d DESC;
SELECT count(*), min(d), max(d) FROM sd(10);
