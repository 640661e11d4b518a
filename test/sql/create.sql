-- Arrays made by CREATE VIRTUAL TABLE: every word of the definitions; which definitions are refused and why; that a failure leaves nothing behind.
.load ./tessera
.mode list
-- The examples of the manual
CREATE VIRTUAL TABLE weather USING tessera('data/weather', kind=dense,
  day  INT32 DIMENSION(1, 366, 30),                    -- TileDB: all dimensions of a dense array have one datatype
  lat  INT32 DIMENSION(-90, 89, 30),
  lon  INT32 DIMENSION(-180, 179, 60),
  temp FLOAT32 NOT NULL DEFAULT -9999 FILTERS(byteshuffle, zstd(5)),
  note TEXT);
CREATE VIRTUAL TABLE variants USING tessera('data/variants',           -- sparse is the default
  contig TEXT DIMENSION, pos UINT32 DIMENSION(0, 4000000000, 10000), day DATE DIMENSION('2000-01-01', '2099-12-31', 365),
  ref TEXT NOT NULL, alt TEXT NOT NULL, qual FLOAT32, dp UINT16[] , genotype TEXT ENUM('0/0','0/1','1/1'),
  cell_order=row, tile_order=row, capacity=10000, duplicates=yes);
SELECT tessera_ddl('db:weather');
SELECT tessera_ddl('db:variants');
SELECT count(*) FROM weather;
SELECT * FROM variants;
SELECT code, label FROM tessera_enumeration('data/variants', 'genotype');
-- Every datatype of an attribute, by its own name
CREATE VIRTUAL TABLE types USING tessera('types', d INT32 DIMENSION,
  a1 INT8, a2 INT16, a3 INT32, a4 INT64, a5 UINT8, a6 UINT16, a7 UINT32, a8 UINT64, a9 FLOAT32, a10 FLOAT64,
  b1 CHAR, b2 CHAR[], b3 CHAR[3], b4 ASCII, b5 UTF8, b6 UTF16, b7 UTF32, b8 UCS2, b9 UCS4, b10 UTF8[5], b11 UTF16[2], b12 ASCII[],
  c1 BLOB, c2 BOOL, c3 GEOM_WKB, c4 GEOM_WKT, c5 ANY, c6 BLOB[4], c7 INT32[3], c8 FLOAT64[],
  d1 DATETIME_YEAR, d2 DATETIME_MONTH, d3 DATETIME_WEEK, d4 DATETIME_DAY, d5 DATETIME_HR, d6 DATETIME_MIN, d7 DATETIME_SEC,
  d8 DATETIME_MS, d9 DATETIME_US, d10 DATETIME_NS, d11 DATETIME_PS, d12 DATETIME_FS, d13 DATETIME_AS,
  e1 TIME_HR, e2 TIME_MIN, e3 TIME_SEC, e4 TIME_MS, e5 TIME_US, e6 TIME_NS, e7 TIME_PS, e8 TIME_FS, e9 TIME_AS);
SELECT name, datatype, cell_val_num, nullable, fill FROM tessera_schema('types') WHERE role = 'attribute';
-- Names of types that SQL uses
CREATE VIRTUAL TABLE names USING tessera('names', d int dimension, a text, b varchar(20), c VarChar, e integer, f INT, g bigint, h smallint,
  i tinyint, j real, k double, l float, m boolean, n date, o datetime, p timestamp);
SELECT group_concat(name || ' ' || datatype, ', ') FROM tessera_schema('names');
-- Every datatype of a dimension, without bounds: it gets the widest domain
CREATE VIRTUAL TABLE wide USING tessera('wide', a INT8 DIMENSION, b INT16 DIMENSION, c INT32 DIMENSION, d INT64 DIMENSION, e UINT8 DIMENSION,
  f UINT16 DIMENSION, g UINT32 DIMENSION, h UINT64 DIMENSION, i FLOAT32 DIMENSION, j FLOAT64 DIMENSION, k DATETIME_DAY DIMENSION,
  l TIME_NS DIMENSION, m ASCII DIMENSION, n UTF8 DIMENSION, o UTF16 DIMENSION);
SELECT name, datatype, domain, tile FROM tessera_schema('wide');
-- All forms of bounds, tile extents and current domains
CREATE VIRTUAL TABLE bounds USING tessera('bounds', a INT64 DIMENSION(-9223372036854775808, 9223372036854775806), b UINT64 DIMENSION(0, '18446744073709551614'),
  c FLOAT32 DIMENSION(-1.5, 1e3, 0.25), d DATETIME_MS DIMENSION('2024-01', '2024-12-31T23:59:59.999', 86400000), e DATETIME_YEAR DIMENSION(-5000, 20000, 100) CURRENT('1000', '2024'),
  f TIME_MIN DIMENSION('00:00', '23:59', 60), g TEXT DIMENSION CURRENT('a', 'zz'), h INT32 DIMENSION( + 1 , 1e2 , 10 ) CURRENT(1, 50));
SELECT name, domain, current_domain, tile FROM tessera_schema('bounds');
-- Fill values
CREATE VIRTUAL TABLE fills USING tessera('fills', d INT32 DIMENSION, a INT8 NOT NULL DEFAULT -128, b UINT64 NOT NULL DEFAULT 18446744073709551615, c FLOAT64 DEFAULT 0.1,
  e FLOAT32 DEFAULT -9e999, f BOOL DEFAULT TRUE, g TEXT NOT NULL DEFAULT 'it''s', h BLOB DEFAULT x'00ff', i INT32[3] DEFAULT '[1, -2, 3]', j FLOAT64[] DEFAULT '[0.5, null, 9e999]',
  k DATE DEFAULT '2024-02-29', l TIME_SEC DEFAULT '05:06:07', m UTF8[5] DEFAULT 'abc', n UTF16 DEFAULT 'é€😀', o UINT64[2] DEFAULT '[1,"18446744073709551615"]', p TEXT DEFAULT NULL,
  q DATETIME_DAY[2] DEFAULT '["2024-01-01",5]', r INT16[2] DEFAULT x'01000200', s TEXT DEFAULT 5, t GEOM_WKB NOT NULL DEFAULT 'bytes', u DATE DEFAULT 7, v TEXT ENUM('a','b') DEFAULT 'b');
SELECT name, nullable, fill, typeof(fill) FROM tessera_schema('fills') WHERE role = 'attribute';
SELECT tessera_ddl('fills');
-- Enumerations
CREATE VIRTUAL TABLE enums USING tessera('enums', d INT32 DIMENSION, a TEXT NOT NULL ENUM('x', '', 'é''') ORDERED, b INT32 ENUM(10, -20, 30), c FLOAT64 ENUM(0.5), e TEXT ENUM(),
  f DATE ENUM('2024-01-01', '2024-01-02'), g BLOB ENUM(x'00', 'A'), h UINT8[2] ENUM('[1,2]', '[3,4]'));
SELECT tessera_ddl('enums');
SELECT name, datatype, enumeration FROM tessera_schema('enums');
-- Filters
CREATE VIRTUAL TABLE filters USING tessera('filters', d INT32 DIMENSION(0, 99, 10) FILTERS(double_delta, bit_width_reduction(128), zstd), e INT32 DIMENSION(0, 99, 10) FILTERS(none),
  a INT32 FILTERS(chunk(1000), gzip(9), md5), b INT32 FILTERS(delta(INT32), lz4, sha256), c FLOAT32 FILTERS(scale_float(2, 0.5, -1), bzip2(1)), f INT64 FILTERS(positive_delta(64)),
  g TEXT FILTERS(rle), h TEXT FILTERS(dictionary, zstd(22)), i UINT16 FILTERS(bitshuffle, xor), j INT8 FILTERS(none), k INT8 FILTERS(chunk(5), none),
  coords_filters=(gzip, rle), offsets_filters='positive_delta, bit_width_reduction', validity_filters = none);
SELECT name, filters FROM tessera_schema('filters');
SELECT coords_filters, offsets_filters, validity_filters FROM tessera_array('filters');
-- Orders, capacity, format versions; options of reading beside those of creating; columns in any order, quoted names, comments
CREATE VIRTUAL TABLE options USING tessera('options', kind = SPARSE, "a ""b"" c" INT32 /* not null */ NOT NULL, CAPACITY='7', [x y] FLOAT64 dimension(0, 1), -- here
  `z` uint8 DiMeNsIoN, cell_order=hilbert, tile_order=col, datetimes=integer, format_version=12);
SELECT tessera_ddl('options');
SELECT * FROM options;
CREATE VIRTUAL TABLE old USING tessera('old', x INT32 DIMENSION(1, 10, 5), a INT32 NOT NULL, format_version=3, kind=dense, tile_order=col, cell_order=col);
SELECT tessera_ddl('old');
.shell ls old
-- Encryption
.shell printf 0123456789abcdefghijklmnopqrstuv >key
CREATE VIRTUAL TABLE secret USING tessera('secret', x INT32 DIMENSION, a TEXT, encryption=aes_256_gcm, key_file='key');
SELECT encryption FROM tessera_array('db:secret');
SELECT encryption FROM tessera_array('secret');
CREATE VIRTUAL TABLE nokey USING tessera('nokey', x INT32 DIMENSION, encryption=aes_256_gcm);
CREATE VIRTUAL TABLE nokey USING tessera('nokey', x INT32 DIMENSION, key_file='key');
CREATE VIRTUAL TABLE nokey USING tessera('nokey', x INT32 DIMENSION, encryption=rot13);
SELECT tessera_set_key('nokey', x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f') IS NULL;
CREATE VIRTUAL TABLE nokey USING tessera('nokey', x INT32 DIMENSION, encryption=aes_256_gcm);
SELECT encryption FROM tessera_array('nokey');

-- Each of these definitions is refused, and the message says why
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense);
CREATE VIRTUAL TABLE x USING tessera('x', capacity=5, datetimes=iso);
CREATE VIRTUAL TABLE x USING tessera('x', a);
CREATE VIRTUAL TABLE x USING tessera('x', 'a' INT32);
CREATE VIRTUAL TABLE x USING tessera('x', 5 INT32);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32);
CREATE VIRTUAL TABLE x USING tessera('x', a INT33 DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a CHAR(5), x INT DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION, A INT8);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION PRIMARY KEY);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION(1));
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION(1, 10, 5, 2));
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION(one, 10));
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION(1, 10, 2.5));
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION(1, 10, -5));
CREATE VIRTUAL TABLE x USING tessera('x', a INT8 DIMENSION(0, 128));
CREATE VIRTUAL TABLE x USING tessera('x', a INT8 DIMENSION(-128, 127));
CREATE VIRTUAL TABLE x USING tessera('x', a UINT64 DIMENSION(-1, 5));
CREATE VIRTUAL TABLE x USING tessera('x', a UINT64 DIMENSION(0, 18446744073709551616));
CREATE VIRTUAL TABLE x USING tessera('x', a INT64 DIMENSION(0, 9223372036854775806, 1000));
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION(10, 1));
CREATE VIRTUAL TABLE x USING tessera('x', a FLOAT32 DIMENSION(0, 1e39));
CREATE VIRTUAL TABLE x USING tessera('x', a FLOAT64 DIMENSION(0, 9e999));
CREATE VIRTUAL TABLE x USING tessera('x', a FLOAT64 DIMENSION(0, '1,5'));
CREATE VIRTUAL TABLE x USING tessera('x', a DATE DIMENSION('2024-01-01', '2024-02-30'));
CREATE VIRTUAL TABLE x USING tessera('x', a DATE DIMENSION('2024-01-01', '2024-01-02 05:00'));
CREATE VIRTUAL TABLE x USING tessera('x', a TEXT DIMENSION('a', 'z'));
CREATE VIRTUAL TABLE x USING tessera('x', a BLOB DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a CHAR DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a BOOL DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a GEOM_WKT DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32[2] DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a ASCII[2] DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION DEFAULT 5);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION NULL);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION CURRENT(1, 2), b TEXT DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 DIMENSION(1, 10) CURRENT(5, 11));
CREATE VIRTUAL TABLE x USING tessera('x', a INT32 CURRENT(5, 11), x INT DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, a INT32 DIMENSION(1, 10, 5));
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x INT32 DIMENSION(1, 10), a INT32);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x INT32 DIMENSION, a INT32);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x INT32 DIMENSION(1, 10, 11), a INT32);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x FLOAT32 DIMENSION(1, 10, 5), a INT32);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x TEXT DIMENSION, a INT32);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x INT32 DIMENSION(1, 10, 5), y INT64 DIMENSION(1, 10, 5), a INT32);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x INT32 DIMENSION(1, 10, 5), a INT32, cell_order=hilbert);
CREATE VIRTUAL TABLE x USING tessera('x', kind=dense, x INT32 DIMENSION(1, 10, 5), a INT32, duplicates=yes);
CREATE VIRTUAL TABLE x USING tessera('x', x FLOAT64 DIMENSION, cell_order=hilbert);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, cell_order=spiral);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, tile_order=hilbert);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, duplicates=perhaps);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, capacity=0);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, capacity=many);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, capacity=5, Capacity=6);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 DEFAULT 128);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 DEFAULT 'ten');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a BOOL DEFAULT 2);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 DEFAULT x'05');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 NOT NULL DEFAULT NULL);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 NULL NOT NULL);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 DEFAULT);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 DEFAULT 5 DEFAULT 6);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2] DEFAULT '[1]');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2] DEFAULT '[1, 2, 3]');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2] DEFAULT '[1, 200]');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2] DEFAULT '[1, 2');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2] DEFAULT '[1, 2,]');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2] DEFAULT '[1, 2] 3');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2] DEFAULT 12);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT16[2] DEFAULT x'010203');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a UTF8[2] DEFAULT 'abc');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a UCS2 DEFAULT '😀');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a BLOB DEFAULT x'0');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[0]);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[2 3]);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8[99999999999]);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT64[4000000000]);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a ANY[3]);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, __a INT8);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT ENUM('a', 'a'));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT ENUM('a', NULL));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8 ENUM(1, 1000));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT ENUM('a') DEFAULT 'b');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION ENUM(1), a TEXT);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS());
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(zip));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(zstd(high)));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(zstd(1, 2)));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(md5(1)));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(zstd, none));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(webp));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(aes_256_gcm));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a FLOAT32 FILTERS(scale_float(3, 1, 0)));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(scale_float(2)));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a FLOAT32 FILTERS(double_delta));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a FLOAT32 FILTERS(delta(FOO)));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(dictionary));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(chunk(-1), zstd));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT32 FILTERS(zstd) FILTERS(gzip));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT, offsets_filters=(zstd);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT, offsets_filters='zstd)');
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT, offsets_filters=(zip));
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, format_version=11);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, format_version=23);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, format_version=new);
CREATE VIRTUAL TABLE x USING tessera('x', x TEXT DIMENSION, a INT32 NOT NULL, format_version=3);
CREATE VIRTUAL TABLE x USING tessera('x', x INT32 DIMENSION, y INT64 DIMENSION, format_version=3);
CREATE VIRTUAL TABLE x USING tessera('x', x INT32 DIMENSION, a INT32, format_version=3);
CREATE VIRTUAL TABLE x USING tessera('x', x INT32 DIMENSION, duplicates=yes, format_version=3);
CREATE VIRTUAL TABLE x USING tessera('x', x INT32 DIMENSION FILTERS(gzip), format_version=3);
CREATE VIRTUAL TABLE x USING tessera('x', x INT32 DIMENSION, a TEXT ENUM('a'), format_version=19);
CREATE VIRTUAL TABLE x USING tessera('x', x INT32 DIMENSION(1, 10) CURRENT(1, 2), format_version=21);
CREATE VIRTUAL TABLE x USING tessera('weather', x INT DIMENSION, 'again');
.shell test ! -e x || echo something is left
SELECT count(*) FROM sqlite_schema WHERE name LIKE 'x%';

-- Something exists at the path already
CREATE VIRTUAL TABLE x USING tessera('data/weather', x INT DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('data', x INT DIMENSION);
CREATE VIRTUAL TABLE x USING tessera('key', x INT DIMENSION);
CREATE TABLE x_config(a);
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION);
DROP TABLE x_config;
.shell test ! -e x || echo something is left
-- Rolled back, dropped, released: the array appears when the transaction commits, or not at all
BEGIN;
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT ENUM('a'));
SELECT count(*) FROM x;
SELECT label FROM tessera_enumeration('db:x', 'a');
SELECT * FROM tessera_objects('.') WHERE path GLOB '*/x';
SELECT count(*) FROM tessera_array('x');
CREATE VIRTUAL TABLE y USING tessera('x', x INT DIMENSION);
ROLLBACK;
.shell test ! -e x || echo something is left
BEGIN;
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a TEXT ENUM('a'));
DROP TABLE x;
COMMIT;
.shell test ! -e x || echo something is left
BEGIN;
SAVEPOINT s;
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, format_version=3);
ROLLBACK TO s;
COMMIT;
.shell test ! -e x || echo something is left
BEGIN;
CREATE VIRTUAL TABLE x USING tessera('x', x INT DIMENSION, a INT8);
SAVEPOINT s;
ALTER TABLE x RENAME TO y;
SELECT count(*) FROM y;
ROLLBACK TO s;
SELECT count(*) FROM x;
COMMIT;
SELECT count(*) FROM x;
SELECT count(*) FROM tessera_array('x');
DROP TABLE x;
SELECT name FROM tessera_schema('x');
BEGIN;
SAVEPOINT s;
CREATE VIRTUAL TABLE again USING tessera('again', x INT DIMENSION);
CREATE VIRTUAL TABLE again2 USING tessera('again', x INT DIMENSION);
ROLLBACK TO s;
CREATE VIRTUAL TABLE again USING tessera('again', y INT DIMENSION);
COMMIT;
SELECT name FROM tessera_schema('again');
-- After the array is made, definitions have no effect any more; options still have
CREATE VIRTUAL TABLE kept USING tessera('kept', x INT DIMENSION(1, 100), d DATE, datetimes=integer);
PRAGMA table_info(kept);
VACUUM;
PRAGMA table_info(kept);
-- A process died between the commit and the publication: the next connection to the table publishes the array
.shell cd kept && mv __schema .pending$(cd __schema && ls -d __[0-9]*)
SELECT count(*) FROM tessera_array('kept');
.open t.db
.load ./tessera
SELECT kind FROM tessera_array('kept');
SELECT count(*) FROM kept;
SELECT kind FROM tessera_array('kept');
.shell cd old && mv __array_schema.tdb .pending__array_schema.tdb
.open t.db
.load ./tessera
SELECT tessera_ddl('db:old');
.shell rm -r kept
.open t.db
.load ./tessera
SELECT count(*) FROM kept;
DROP TABLE kept;
