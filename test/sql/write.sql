-- INSERT, UPDATE and DELETE: every form of a value, every refusal with its message, OR clauses, moved cells.
.load ./tessera
.mode list
.nullvalue NULL
-- All forms of values
CREATE VIRTUAL TABLE t USING tessera('t', d INT32 DIMENSION(0, 999, 10), i8 INT8, u8 UINT8, i64 INT64, u64 UINT64, f32 FLOAT32, f64 FLOAT64, b BOOL, s TEXT, s16 UTF16,
  s2 UCS2, s4 UTF8[4], c CHAR, bl BLOB, b2 BLOB[2], y DATETIME_YEAR, dt DATE, ts TIMESTAMP, w DATETIME_WEEK, tm TIME_SEC, v INT16[], v3 FLOAT64[3], vd DATE[], vb BOOL[], e TEXT ENUM('x','y'), en INT32 ENUM(10, 20));
INSERT INTO t(d, i8, u8, i64, u64, f32, f64, b) VALUES(1, -128, 255, -9223372036854775808, '18446744073709551615', 1.5, 0.1, 1), (' 2 ', ' 7 ', '7.0', '1e3', '+12', '1.5', ' .5e1 ', '0'), (3.0, 7.0, -0.0, 1e15, 9223372036854775807, 9e999, -9e999, 1.0);
INSERT INTO t(d, s, s16, s2, s4, c, bl, b2) VALUES(4, 'héllo', 'é😀', 'é', 'ab', 'x', x'0001', x'0102'), (5, 12, 1.5, '', '', '', '', 'ab'), (6, '', '', NULL, 'abcd', 'y', 'text', x'ffff');
INSERT INTO t(d, y, dt, ts, w, tm) VALUES(7, '2024', '2024-02-29', '2024-01-01 10:11:12.123', '1970-01-08', '05:06:07'), (8, 2024, '2024', '2024-01', '1969-12-25', '05:06'), (9, '1900-01', 3000000, '2024-01-01T05Z', -104300, 86400), (10, -5000, '2024-01-31T00:00', '2024-01-01 05:06', '1970-01-01', -1);
INSERT INTO t(d, v, v3, vd, vb, e, en) VALUES(11, '[1,2,-3]', '[1,null,9e999]', '["2024-02-29",null,3000000,2024]', '[0,1,true,false]', 'y', 10), (12, x'01000200', ' [ 1 , 2e0 , -9e999 ] ', '[]', x'0100', 'x', '20'), (13, x'', x'000000000000f03f000000000000004000000000000008c0', '["2024"]', '[]', NULL, 10.0);
SELECT d, i8, u8, i64, u64, f32, f64, b FROM t WHERE d < 4 ORDER BY d;
SELECT d, s, s16, s2, length(CAST(s4 AS BLOB)), hex(c), quote(bl), quote(b2) FROM t WHERE d BETWEEN 4 AND 6 ORDER BY d;
SELECT d, y, dt, ts, w, tm, typeof(dt), typeof(tm) FROM t WHERE d BETWEEN 7 AND 10 ORDER BY d;
SELECT d, v, v3, vd, vb, e, en FROM t WHERE d > 10 ORDER BY d;
-- Values that do not fit: of the wrong kind (SQLITE_MISMATCH, 20) or out of range (SQLITE_RANGE, 25), under every OR clause
.mode quote
CREATE TABLE bad(name, value);
INSERT INTO t(d) VALUES(1000);
INSERT INTO t(d) VALUES(-1);
INSERT INTO t(d) VALUES(4294967296);
INSERT INTO t(d) VALUES('x');
INSERT OR IGNORE INTO t(d, i8) VALUES(50, 128);
INSERT OR REPLACE INTO t(d, i8) VALUES(50, 1.5);
INSERT OR IGNORE INTO t(d, i8) VALUES(50, '');
INSERT INTO t(d, i8) VALUES(50, 'abc');
INSERT INTO t(d, i8) VALUES(50, '1e400');
INSERT INTO t(d, i8) VALUES(50, x'07');
INSERT INTO t(d, u8) VALUES(50, -1);
INSERT INTO t(d, i64) VALUES(50, 1e19);
INSERT INTO t(d, i64) VALUES(50, '9223372036854775808');
INSERT INTO t(d, u64) VALUES(50, 18446744073709551615);
INSERT INTO t(d, u64) VALUES(50, 9223372036854775809);
INSERT INTO t(d, u64) VALUES(50, '18446744073709551616');
INSERT INTO t(d, f32) VALUES(50, 1e39);
INSERT INTO t(d, f64) VALUES(50, '1x');
INSERT INTO t(d, f64) VALUES(50, '');
INSERT INTO t(d, b) VALUES(50, 2);
INSERT INTO t(d, b) VALUES(50, 'true');
INSERT INTO t(d, s) VALUES(50, x'00');
INSERT INTO t(d, s16) VALUES(50, CAST(x'ff' AS TEXT));
INSERT INTO t(d, s2) VALUES(50, '😀');
INSERT INTO t(d, s4) VALUES(50, 'abcde');
INSERT INTO t(d, bl) VALUES(50, 5);
INSERT INTO t(d, b2) VALUES(50, x'01');
INSERT INTO t(d, y) VALUES(50, '2024-02');
INSERT INTO t(d, y) VALUES(50, 9000);
INSERT INTO t(d, dt) VALUES(50, '2024-13-01');
INSERT INTO t(d, dt) VALUES(50, '2024-01-01 05:00');
INSERT INTO t(d, dt) VALUES(50, 19000);
INSERT INTO t(d, dt) VALUES(50, 1.5);
INSERT INTO t(d, dt) VALUES(50, x'00');
INSERT INTO t(d, w) VALUES(50, '2024-01-03');
INSERT INTO t(d, tm) VALUES(50, '24:00');
INSERT INTO t(d, tm) VALUES(50, 5);
INSERT INTO t(d, v) VALUES(50, '[1,2');
INSERT INTO t(d, v) VALUES(50, '[1,]');
INSERT INTO t(d, v) VALUES(50, '1');
INSERT INTO t(d, v) VALUES(50, 1);
INSERT INTO t(d, v) VALUES(50, '[40000]');
INSERT INTO t(d, v) VALUES(50, '[null]');
INSERT INTO t(d, v) VALUES(50, '["a"]');
INSERT INTO t(d, v) VALUES(50, x'010203');
INSERT INTO t(d, v3) VALUES(50, '[1]');
INSERT INTO t(d, vd) VALUES(50, '[19000]');
INSERT INTO t(d, vb) VALUES(50, x'02');
INSERT INTO t(d, e) VALUES(50, 'z');
INSERT INTO t(d, en) VALUES(50, 15);
INSERT INTO t(d, en) VALUES(50, 'abc');
-- A value that does not fit takes back the rows before it, under every OR clause
INSERT OR FAIL INTO t(d, i8) VALUES(51, 1), (52, 300);
SELECT count(*) FROM t WHERE d >= 50;
-- Hidden columns and rowids cannot be set
INSERT INTO t(d, as_of) VALUES(50, 1);
INSERT INTO t(d, since) VALUES(50, 1);
INSERT INTO t(d, written_at) VALUES(50, 1);
INSERT INTO t(d, rowid) VALUES(50, 1);
UPDATE t SET written_at = 5 WHERE d = 1;
UPDATE t SET rowid = 5 WHERE d = 1;
UPDATE t SET i8 = 1 WHERE as_of = '2100-01-01';
DELETE FROM t WHERE as_of = '2100-01-01';
DELETE FROM t WHERE since = 0 AND d = 1;
INSERT INTO t(d) VALUES(60) RETURNING d, i8, rowid;
INSERT INTO t(d) VALUES(60) ON CONFLICT DO NOTHING;
UPDATE t SET i8 = 1 RETURNING d;
-- NULL and DEFAULT
CREATE VIRTUAL TABLE n USING tessera('n', d INT32 DIMENSION(0, 9, 10), a INT32, b INT32 NOT NULL, c INT32 NOT NULL DEFAULT 7, e TEXT NOT NULL DEFAULT 'e', f TEXT DEFAULT 'x', g TEXT NOT NULL ENUM('p', 'q') DEFAULT 'q', h FLOAT64 NOT NULL);
INSERT INTO n(d, b, h) VALUES(1, 1, 1);
INSERT INTO n VALUES(2, NULL, 1, NULL, NULL, NULL, NULL, 1);
INSERT INTO n(d) VALUES(3);
INSERT INTO n(b, h) VALUES(3, 1);
INSERT INTO n(d, b) VALUES(3, 1);
INSERT OR IGNORE INTO n(d, b) VALUES(3, 1), (4, NULL);
INSERT OR IGNORE INTO n(d, b, h) VALUES(3, 1, 1), (4, NULL, 1), (5, 5, 5);
INSERT OR FAIL INTO n(d, b, h) VALUES(6, 1, 1), (7, NULL, 1), (8, 5, 5);
UPDATE n SET c = NULL WHERE d = 1;
UPDATE n SET b = NULL WHERE d = 1;
UPDATE OR IGNORE n SET b = NULL, a = 5;
UPDATE n SET d = NULL WHERE d = 1;
SELECT * FROM n ORDER BY d;
-- In an array that is opened again, a fill value other than the datatype's own counts as a DEFAULT
CREATE VIRTUAL TABLE n2 USING tessera('n');
INSERT INTO n2(d, b, h) VALUES(9, 1, 1);
INSERT INTO n2(d, h) VALUES(9, 1);
SELECT * FROM n2 WHERE d = 9;
-- Other options
CREATE VIRTUAL TABLE p USING tessera('t', datetimes=integer, enums=code, vectors=blob);
INSERT INTO p(d, y, dt, tm, v, vd, e, en) VALUES(100, 2024, '-5', '2024-01-01', '[1]', '[19000,"2024"]', 1, 0);
INSERT INTO p(d, y, dt, tm, v, vd, e, en) VALUES(100, 2024, '-5', 7, '[1]', '[19000,"2024"]', 1, 65534);
SELECT d, y, dt, tm, v, vd, e, en FROM p WHERE d = 100;
SELECT d, y, dt, tm, v, vd, e, en FROM t WHERE d = 100;
CREATE VIRTUAL TABLE q USING tessera('t', columns='i8,d');
INSERT INTO q VALUES(101, 5);
INSERT INTO q VALUES(5, 101), (6, 100);
UPDATE q SET i8 = 8 WHERE d = 100;
SELECT d, i8, y, dt, v FROM t WHERE d >= 100 ORDER BY d;
CREATE VIRTUAL TABLE q2 USING tessera('t', columns='i8');
INSERT INTO q2 VALUES(5);
UPDATE q2 SET i8 = 9 WHERE i8 = 8;
SELECT d, i8, y, dt, v FROM t WHERE d >= 100 ORDER BY d;
CREATE VIRTUAL TABLE past USING tessera('t', as_of='2100-01-01');
INSERT INTO past(d) VALUES(1);
UPDATE past SET i8 = 1;
DELETE FROM past;
-- OR clauses
CREATE VIRTUAL TABLE r USING tessera('r', x INT32 DIMENSION(0, 99, 10), y TEXT DIMENSION, a INT32);
CREATE VIRTUAL TABLE ra USING tessera('r', on_conflict=abort);
INSERT INTO r VALUES(1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
INSERT INTO r VALUES(1, 'a', 10);
INSERT INTO ra VALUES(4, 'd', 4), (1, 'a', 11);
INSERT OR ABORT INTO ra VALUES(1, 'a', 11);
INSERT OR REPLACE INTO ra VALUES(1, 'a', 12);
INSERT OR IGNORE INTO r VALUES(1, 'a', 13), (5, 'e', 5);
INSERT OR FAIL INTO r VALUES(6, 'f', 6), (1, 'a', 13), (7, 'g', 7);
BEGIN;
INSERT INTO r VALUES(8, 'h', 8);
INSERT OR FAIL INTO r VALUES(9, 'i', 9), (8, 'h', 9);
INSERT INTO ra VALUES(10, 'j', 10), (8, 'h', 10);
SELECT * FROM r WHERE x > 7 ORDER BY x;
INSERT OR ROLLBACK INTO r VALUES(9, 'i', 9);
COMMIT;
SELECT * FROM r ORDER BY x, y;
-- Moved cells: they move as a set, and only to places where no other cell is
DELETE FROM r;
INSERT INTO r VALUES(1, 'a', 1), (2, 'a', 2), (3, 'a', 3), (9, 'a', 9);
UPDATE ra SET x = x + 1 WHERE x < 9;
SELECT * FROM r ORDER BY x, y;
UPDATE ra SET x = x + 5 WHERE a < 9;
SELECT * FROM r ORDER BY x, y;
UPDATE OR IGNORE r SET x = x + 5 WHERE a < 9;
SELECT * FROM r ORDER BY x, y;
UPDATE OR IGNORE r SET x = x + 2 WHERE a IN (1, 3);
SELECT * FROM r ORDER BY x, y;
UPDATE r SET x = 9 WHERE a = 1;
SELECT * FROM r ORDER BY x, y;
UPDATE ra SET y = 'b', a = a * 10;
SELECT * FROM r ORDER BY x, y;
UPDATE r SET x = x + 95;
UPDATE r SET y = x'00';
UPDATE r SET a = 2 FROM (SELECT 'b' AS z) WHERE z = y;
SELECT * FROM r ORDER BY x, y;
-- Bytes that SQL does not show stay as they are: NaN, a code without a label, half a character
CREATE VIRTUAL TABLE odd USING tessera('odd', d INT32 DIMENSION(0, 9, 10), f FLOAT64[], g FLOAT64 NOT NULL DEFAULT NULL, e TEXT NOT NULL ENUM('a'), s TEXT, z INT32);
CREATE VIRTUAL TABLE codes USING tessera('odd', enums=code, vectors=blob);
INSERT INTO codes VALUES(1, x'010000000000f87f', 0, 77, CAST(x'ff00' AS TEXT), 1);
UPDATE odd SET z = 2;
DROP TABLE odd;
CREATE VIRTUAL TABLE odd USING tessera('odd');
UPDATE odd SET z = 2;
SELECT *, CAST(s AS BLOB) FROM odd;
SELECT *, CAST(s AS BLOB) FROM codes;
-- Dense arrays
CREATE VIRTUAL TABLE g USING tessera('g', kind=dense, x INT32 DIMENSION(0, 9, 5), y INT32 DIMENSION(0, 9, 5), a INT32 NOT NULL DEFAULT 5, b TEXT);
INSERT INTO g VALUES(1, 1, 1, 'a'), (3, 2, 2, 'b');
SELECT * FROM g ORDER BY x, y;
INSERT OR IGNORE INTO g VALUES(1, 1, 9, 'z'), (2, 1, 3, 'c');
INSERT OR FAIL INTO g VALUES(1, 1, 9, 'z');
INSERT INTO g VALUES(1, 1, 10, 'A');
UPDATE g SET b = 'B' WHERE y = 2;
UPDATE g SET x = x WHERE x = 1;
UPDATE g SET x = 5 WHERE x = 1;
DELETE FROM g WHERE x = 1;
DELETE FROM g;
SELECT * FROM g ORDER BY x, y;
-- Arrays with duplicates
CREATE VIRTUAL TABLE u USING tessera('u', x INT32 DIMENSION(0, 9, 5), a INT32, duplicates=yes);
INSERT OR IGNORE INTO u VALUES(1, 1), (1, 2), (2, 3);
INSERT OR FAIL INTO u VALUES(1, 3);
UPDATE u SET a = a * 10 WHERE x = 1;
SELECT * FROM u ORDER BY x, a;
DELETE FROM u WHERE a = 20;
UPDATE u SET a = 1 WHERE a = 20;
BEGIN;
INSERT INTO u VALUES(5, 1), (5, 2);
DELETE FROM u WHERE a = 20;
UPDATE u SET a = 1 WHERE a = 20;
DELETE FROM u WHERE a = 2;
UPDATE u SET x = 6, a = a + 1 WHERE x = 1;
COMMIT;
SELECT * FROM u ORDER BY x, a;
DELETE FROM u WHERE x = 6;
SELECT * FROM u ORDER BY x, a;
-- Operations that an old format does not have
CREATE VIRTUAL TABLE o3 USING tessera('o3', x INT32 DIMENSION(0, 9, 5), a INT32 NOT NULL, format_version=3);
CREATE VIRTUAL TABLE o12 USING tessera('o12', x INT32 DIMENSION(0, 9, 5), a INT32, format_version=12);
INSERT INTO o3 VALUES(1, 1), (2, 2);
INSERT INTO o12 VALUES(1, 1), (2, 2);
UPDATE o3 SET a = 10 WHERE x = 1;
UPDATE o12 SET a = 10 WHERE x = 1;
DELETE FROM o3 WHERE x = 1;
DELETE FROM o12 WHERE x = 1;
UPDATE o12 SET x = 3 WHERE x = 1;
SELECT * FROM o3, o12 USING (x) ORDER BY x;
-- The shell's .import: all fields are text, and an empty text is not a number
.shell echo 1,a,10 > rows.csv
.shell echo 2,b,20 >> rows.csv
.shell echo 3,c, > empty.csv
DELETE FROM r;
.import --csv rows.csv r
.import --csv empty.csv r
SELECT * FROM r ORDER BY x, y;
-- tessera_check finds no error in any of these arrays
SELECT path, severity, message FROM (SELECT 't' AS path UNION ALL SELECT 'n' UNION ALL SELECT 'r' UNION ALL SELECT 'odd' UNION ALL SELECT 'g' UNION ALL SELECT 'u' UNION ALL SELECT 'o3' UNION ALL SELECT 'o12'), tessera_check(path) WHERE severity <> 'note';
-- Labels that are added to an enumeration appear in tables that are open already
CREATE VIRTUAL TABLE grows USING tessera('grows', x INT32 DIMENSION(0, 9), g TEXT ENUM('a', 'b'), h INT8 ENUM(1) NOT NULL);
INSERT INTO grows VALUES(1, 'a', 1), (2, NULL, 1);
SELECT tessera_extend_enumeration('grows', 'g', 'c'), tessera_extend_enumeration('grows', 'h', 7);
INSERT INTO grows VALUES(3, 'c', 7);
SELECT * FROM grows;
SELECT x FROM grows WHERE g = 'c' OR h = 7;
UPDATE grows SET g = g || '' WHERE x = 3;
SELECT x, g FROM grows WHERE g IS NOT NULL;
-- UPDATE ... FROM: a NULL for a column that cannot be NULL is an error, also where SQLite (before 3.41) does not say which columns are unchanged; a value that reads as NULL stays
CREATE VIRTUAL TABLE strict USING tessera('strict', x INT32 DIMENSION(0, 3, 4), a INT32 NOT NULL, f FLOAT64 NOT NULL, g TEXT ENUM('a', 'b') NOT NULL, d DATETIME_SEC NOT NULL, kind=dense);
CREATE VIRTUAL TABLE raw USING tessera('strict', datetimes=integer, enums=code);
INSERT INTO raw VALUES(1, 10, 1.5, 0, -9223372036854775808), (2, 20, 2.5, 7, 0);
CREATE TABLE source(x, v);
INSERT INTO source VALUES(0, NULL), (1, NULL), (2, NULL);
UPDATE strict SET a = v FROM source WHERE source.x = strict.x AND strict.x = 1;
UPDATE strict SET g = v FROM source WHERE source.x = strict.x AND strict.x = 1;
UPDATE strict SET f = v FROM source WHERE source.x = strict.x AND strict.x = 2;
UPDATE strict SET a = 11 FROM source WHERE source.x = strict.x AND strict.x < 2;
UPDATE strict SET a = 21 FROM source WHERE source.x = strict.x AND strict.x = 2;
SELECT * FROM raw WHERE x IN (1, 2) ORDER BY x;
-- A plain UPDATE: what reads as NULL stays what it is where the new value is NULL, too; a value does not become NULL, and cells that were never written stay so
UPDATE strict SET d = d || '', a = a + 1 WHERE x = 1;
UPDATE strict SET g = g || '', a = a + 1 WHERE x = 2;
UPDATE strict SET f = NULL WHERE x = 1;
UPDATE strict SET d = NULL WHERE x = 2;
SELECT * FROM raw WHERE x IN (1, 2) ORDER BY x;
CREATE VIRTUAL TABLE unwritten USING tessera('unwritten', x INT32 DIMENSION(0, 3, 4), a INT32 NOT NULL, f FLOAT64 NOT NULL, kind=dense);
INSERT INTO unwritten VALUES(0, 1, 0.5), (3, 2, 1.5);
UPDATE unwritten SET a = a + 1 WHERE x = 1;
UPDATE unwritten SET f = f + 1;
UPDATE unwritten SET f = f + 1 WHERE f IS NOT NULL;
SELECT x, a, f FROM unwritten ORDER BY x;
-- A table whose array is missing and whose declaration is gone can be dropped
CREATE VIRTUAL TABLE gone USING tessera('gone', x INT32 DIMENSION(0, 9), a INT32);
.dbconfig defensive off
UPDATE gone_config SET value = 'nothing' WHERE key = 'declaration';
.shell rm -r gone
.open t.db
.load ./tessera
SELECT * FROM gone;
DROP TABLE gone;
SELECT count(*) FROM sqlite_schema WHERE name LIKE 'gone%';
-- The greatest capacity, 2^64 - 1: all cells are in one tile
CREATE VIRTUAL TABLE whole USING tessera('whole', x INT32 DIMENSION(0, 99), a INT32, capacity='18446744073709551615');
INSERT INTO whole VALUES(1, 10), (2, 20);
SELECT *, (SELECT cells FROM tessera_fragments('whole')) AS cells FROM whole;
UPDATE whole SET a = a + 1;
SELECT tessera_consolidate('whole');
SELECT * FROM whole WHERE x > 1;
SELECT count(*) FROM tessera_check('whole') WHERE severity <> 'note';
-- The operands of an OR are one scan: cells move as a set, and duplicates are deleted together
CREATE VIRTUAL TABLE parts USING tessera('parts', kind=sparse, x INT32 DIMENSION(0, 5, 2), y INT32 DIMENSION(0, 5, 3), m INT32 NOT NULL, on_conflict=abort);
INSERT INTO parts VALUES(1, 1, 1), (2, 1, 2), (3, 1, 3), (0, 5, 4), (5, 0, 5);
EXPLAIN QUERY PLAN UPDATE parts SET x = x + 1 WHERE (x BETWEEN 1 AND 3 AND y = 1) OR m = 4;
UPDATE parts SET x = x + 1 WHERE (x BETWEEN 1 AND 3 AND y = 1) OR m = 4;
SELECT * FROM parts ORDER BY m;
CREATE VIRTUAL TABLE twins USING tessera('twins', kind=sparse, x INT32 DIMENSION(0, 5, 2), y INT32 DIMENSION(0, 5, 3), m INT32 NOT NULL, duplicates=yes);
INSERT INTO twins SELECT value % 6, value / 6 % 6, value FROM generate_series(0, 71);
BEGIN;
EXPLAIN QUERY PLAN UPDATE twins SET m = m + 100 WHERE x = 3 OR y = 2;
UPDATE twins SET m = m + 100 WHERE x = 3 OR y = 2;
COMMIT;
SELECT count(*), count(*) FILTER (WHERE m >= 100), count(*) FILTER (WHERE x = 3 OR y = 2), sum(m) FROM twins;
-- 'nan' is NaN in one FLOAT, which reads as NULL; in a dense array it stands for a cell without a value
CREATE VIRTUAL TABLE field USING tessera(kind=dense, y INT32 DIMENSION(0, 1, 2), x INT32 DIMENSION(0, 1, 2), r FLOAT32 NOT NULL, d REAL NOT NULL, n FLOAT64, i INT32 NOT NULL);
INSERT INTO field VALUES(0, 0, 1, 2, 3, 4), (0, 1, 'nan', ' NaN ', 'NAN', 4);
UPDATE field SET r = 'nan', d = 'NaN' WHERE y = 0 AND x = 0;
SELECT *, r IS NULL, d IS NULL, n IS NULL FROM field;
SELECT hex(substr(tessera_npy('db:field', 'd', '{"y":0,"x":0}'), -8)) AS bits;
UPDATE field SET r = NULL WHERE n = 3;
UPDATE field SET i = 'nan';
UPDATE field SET i = NULL;
UPDATE field SET r = 'nano';
DELETE FROM field;
CREATE VIRTUAL TABLE reals USING tessera(kind=dense, x INT32 DIMENSION(0, 1, 2), r FLOAT32 NOT NULL);
INSERT INTO reals VALUES(0, 1);
INSERT INTO reals VALUES(1, NULL);
UPDATE reals SET r = NULL;
DELETE FROM reals;
CREATE VIRTUAL TABLE ints USING tessera(kind=dense, x INT32 DIMENSION(0, 1, 2), i INT32 NOT NULL);
INSERT INTO ints VALUES(0, 1);
DELETE FROM ints;
CREATE VIRTUAL TABLE at USING tessera(x FLOAT64 DIMENSION(0, 9, 1), v FLOAT64 CHECK(v > 0));
INSERT INTO at VALUES('nan', 1);
INSERT INTO at VALUES(1, 'nan');
SELECT * FROM at WHERE v IS NULL;
-- Times with an offset from UTC, in whatever is written, compared or given
CREATE VIRTUAL TABLE seen USING tessera(t DATETIME_MIN DIMENSION('2024-01-01T00:00+02:00', '2024-12-31T23:00-01:00', 1000), d DATE CHECK(d < '2025-01-01T01:00+01:00'), c TIME_MIN);
INSERT INTO seen VALUES('2024-06-01T12:00+02:00', '2024-06-01T02:00+0200', '05:06'), ('2024-06-01T00:30-11:30', NULL, NULL);
INSERT INTO seen VALUES('2024-06-01T12:00:30+02:00', NULL, NULL);
INSERT INTO seen VALUES('2024-06-01T12:01Z', '2024-06-01T00:00+02:00', NULL);
INSERT INTO seen VALUES('2024-06-01T12:01Z', NULL, '05:06+01:00');
INSERT INTO seen VALUES('2024-01-01T00:00+03:00', NULL, NULL);
INSERT INTO seen VALUES('2024-06-01T12:02Z', '2025-01-01T02:00+02:00', NULL);
SELECT * FROM seen WHERE t = '2024-06-01T05:00-05:00';
SELECT count(*), count(*) FILTER (WHERE d > '2024') FROM seen WHERE t < '2024-06-01T14:00:01 +0200';
SELECT t FROM seen WHERE t BETWEEN '2024-06-01T12:00+02:00' AND '2024-06-01T13:59+02:00' AND d IN ('2024-06-01T00:00Z', '2024-05-31T22:00-02:00');
SELECT count(*) FROM seen WHERE t IN ('2024-06-01T12:00+02:00', '2024-06-01T13:00+02:00');
SELECT name, domain FROM tessera_schema('db:seen') WHERE role = 'dimension';
SELECT count(*) FROM seen('2024-01-01T00:00+02:00');
