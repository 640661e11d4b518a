-- tessera_ddl: the CREATE VIRTUAL TABLE statement that would make such an array.
.load ./tessera
SELECT tessera_ddl('arrays/new/timetravel/dense');
SELECT tessera_ddl('arrays/new/sparse/mixed_hilbert');
SELECT tessera_ddl('arrays/new/enums/sparse');
SELECT tessera_ddl('arrays/new/dense/fill_values');
SELECT tessera_ddl('arrays/new/current_domain/sparse_2d');
SELECT tessera_ddl('arrays/new/current_domain/sparse_string');
SELECT tessera_ddl('arrays/new/sparse/var_numeric_attrs');
SELECT tessera_ddl('arrays/new/dtype/dense_char');
SELECT tessera_ddl('arrays/new/dimtype/sparse_datetime_day');
SELECT tessera_ddl('arrays/new/filter/attr_scale_float_b4');
SELECT tessera_ddl('arrays/new/chunks/dense_mc1000_dd');
SELECT tessera_ddl('arrays/old/lib1.7_py0.5.9/sparse2d');
SELECT tessera_ddl('arrays/old/lib2.12_py0.18.3/sparse2d');
SELECT tessera_ddl('arrays/new/encrypted/sparse', json_object('array_key', '0123456789abcdeF0123456789abcdeF'));
.system printf 0123456789abcdeF0123456789abcdeF >key
CREATE VIRTUAL TABLE e USING tessera('arrays/new/encrypted/sparse', key_file='key');
SELECT tessera_ddl('db:e');
SELECT tessera_ddl(NULL) IS NULL;
SELECT tessera_ddl('arrays/none');
SELECT tessera_ddl('arrays/new/groups/top');
