-- The options of a table: each value, and the errors that each option has.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE a USING tessera('arrays/new/dtype/sparse_datetime_sec');
SELECT * FROM a ORDER BY 1, 2 LIMIT 3;
CREATE VIRTUAL TABLE b USING tessera("arrays/new/dtype/sparse_datetime_sec", DATETIMES = 'integer', cache_mb=1 , memory_mb=16, threads=1);
SELECT * FROM b ORDER BY 1, 2 LIMIT 3;
CREATE VIRTUAL TABLE c USING tessera('arrays/new/dtype/dense_uint16', columns='v, r');
SELECT * FROM c ORDER BY r LIMIT 2;
SELECT name, type, hidden FROM pragma_table_xinfo('c');
CREATE VIRTUAL TABLE e1 USING tessera('arrays/new/enums/sparse');
SELECT r, a_str, a_utf, a_int, a_f64, a_u8x2, a_dt, a_bool, a_vari, hex(a_blob), typeof(a_int), typeof(a_f64), typeof(a_str) FROM e1 ORDER BY r LIMIT 4;
CREATE VIRTUAL TABLE e2 USING tessera('arrays/new/enums/sparse', enums=code);
SELECT r, a_str, a_utf, a_int, a_f64, a_u8x2, typeof(a_str) FROM e2 ORDER BY r LIMIT 4;
CREATE VIRTUAL TABLE v1 USING tessera('arrays/new/sparse/var_numeric_attrs');
SELECT * FROM v1 LIMIT 3;
CREATE VIRTUAL TABLE v2 USING tessera('file://arrays/new/sparse/var_numeric_attrs', vectors=blob);
CREATE VIRTUAL TABLE v2 USING tessera('arrays/new/sparse/var_numeric_attrs', vectors=blob);
SELECT x, hex(vi), hex(vf), hex(f3), typeof(f3) FROM v2 LIMIT 3;
CREATE VIRTUAL TABLE u1 USING tessera('arrays/new/dense/fill_values');
SELECT * FROM u1 LIMIT 3;
CREATE VIRTUAL TABLE u2 USING tessera('arrays/new/dense/fill_values', unwritten=fill);
SELECT * FROM u2 LIMIT 3;

-- Each of these is refused
CREATE VIRTUAL TABLE x USING tessera;
CREATE VIRTUAL TABLE x USING tessera();
CREATE VIRTUAL TABLE x USING tessera('');
CREATE VIRTUAL TABLE x USING tessera(arrays);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', colour=red);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', threads=2, THREADS=3);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', threads=0);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', threads=257);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', cache_mb=many);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', memory_mb=0);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', unwritten=zero);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', as_of='yesterday');
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', as_of='2024-02-30');
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', as_of=);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', as_of=99999999999999999999);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', cache_mb=' ');
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', cache_mb=1e3);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', columns='y,z');
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', columns='');
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', 'again');
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', datetimes='iso' x);
CREATE VIRTUAL TABLE x USING tessera('sql/data/relief', key_file='nowhere');
SELECT count(*) FROM sqlite_schema WHERE name LIKE 'x%';
SELECT tessera_version();
