-- Time travel: options, arguments, hidden columns; the rows of each table at each time, and the statements that are refused.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE t USING tessera('arrays/new/timetravel/sparse');
SELECT count(*), min(written_at), max(written_at) FROM t;
SELECT count(*) FROM t(200);
SELECT count(*) FROM t WHERE as_of = 200;
SELECT count(*) FROM t WHERE as_of IS 200;
SELECT as_of, count(*) FROM t WHERE as_of IN (99, 100, 200, 300) GROUP BY as_of;
SELECT count(*) FROM t(300, 150);
SELECT count(*) FROM t(100, 200);
SELECT count(*) FROM t(NULL);
SELECT count(*) FROM t(NULL, NULL);
SELECT count(*) FROM t('1970-01-01 00:00:00.200');
SELECT count(*) FROM t('1970');
SELECT count(*) FROM t('1971');
SELECT count(*) FROM t(-5);
WITH w(at) AS (VALUES (99), (100), (150), (300), (500)) SELECT at, (SELECT count(*) FROM t(at)) FROM w;
WITH w(at) AS (VALUES (99), (100), (150), (300), (500)) SELECT at, count(r) FROM w LEFT JOIN t ON t.as_of = at GROUP BY at;
WITH w(at) AS (VALUES (99), (100), (150)) SELECT at, count(*) FROM t, w WHERE t.as_of = w.at GROUP BY at;
SELECT count(*) FROM t WHERE as_of > 200;
SELECT count(*) FROM t('soon');
SELECT count(*) FROM t(1.5);
SELECT count(*) FROM t(x'00');
CREATE VIRTUAL TABLE o USING tessera('arrays/new/timetravel/sparse', as_of=200, since='1970-01-01T00:00:00.150Z');
SELECT count(*), min(written_at), max(written_at) FROM o;
SELECT count(*) FROM o(NULL, 0);
SELECT count(*) FROM o(300);
-- The columns are those of the option's time, else of the latest schema; a time in the query changes the cells only.
CREATE VIRTUAL TABLE e USING tessera('arrays/new/evolution/add_drop_sparse');
SELECT group_concat(name) FROM pragma_table_info('e');
SELECT count(*), count(b), count(c), count(a2) FROM e;
SELECT count(*), count(b), count(c), count(a2) FROM e(12);
CREATE VIRTUAL TABLE e12 USING tessera('arrays/new/evolution/add_drop_sparse', as_of=12);
SELECT group_concat(name) FROM pragma_table_info('e12');
SELECT count(*), count(a), count(b) FROM e12;
-- Dense arrays: the box around all cells that had been written by then
CREATE VIRTUAL TABLE d USING tessera('arrays/new/timetravel/dense');
SELECT min(r), max(r), min(c), max(c), count(*), count(a), count(written_at) FROM d(200);
SELECT min(r), max(r), min(c), max(c), count(*), count(a), count(written_at) FROM d;
-- A REAL without a fraction, as JavaScript binds all numbers, is an integer
SELECT (SELECT count(*) FROM t(100)) = (SELECT count(*) FROM t(100.0)) AS same, (SELECT count(*) FROM t(-1e15)) AS none;
SELECT count(*) FROM tessera_fragments('arrays/new/timetravel/sparse') WHERE as_of = 99.0;
SELECT count(*) FROM t(1e300);
SELECT count(*) FROM tessera_fragments('arrays/new/timetravel/sparse') WHERE as_of = 99.5;
-- Instants that are shown as integers, beside texts of other columns
CREATE VIRTUAL TABLE far USING tessera(year DATETIME_YEAR DIMENSION, at DATETIME_MS, name TEXT);
INSERT INTO far VALUES('1970', '2020-01-01', 'near'), (9000000, 9000000000000000, 'far'), (-9000000, -9000000000000000, 'past');
CREATE TABLE known(t TEXT);
INSERT INTO known VALUES('9000000'), ('-9000000000000000'), ('09000000'), ('+9000000'), ('1970');
SELECT name FROM far WHERE year IN (SELECT t FROM known) ORDER BY name;
SELECT name FROM far WHERE at IN (SELECT t FROM known) ORDER BY name;
