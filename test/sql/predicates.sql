-- Predicates on attributes: the plan, the tiles that are skipped by their statistics, and the same answers as without predicates.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE r USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE a USING tessera('sql/data/airports');
EXPLAIN QUERY PLAN SELECT * FROM r WHERE elevation > 5;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE y = 5 AND elevation BETWEEN 5 AND 7;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE elevation IN (1, 2, 3);
EXPLAIN QUERY PLAN SELECT * FROM r WHERE elevation IS NULL;
EXPLAIN QUERY PLAN SELECT * FROM a WHERE iata >= 'X';
-- No predicate for another collation, nor for anything that is not a plain comparison.
EXPLAIN QUERY PLAN SELECT * FROM a WHERE iata = 'zrh' COLLATE NOCASE;
EXPLAIN QUERY PLAN SELECT * FROM r WHERE +elevation > 5;
-- Only tiles whose maximum reaches the value are read.
SELECT tessera_reset_stats();
SELECT count(*), max(elevation) FROM r WHERE elevation > 5000;
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_skipped_by_value', 'tiles_read', 'rows_returned');
SELECT count(*), max(elevation) FROM r WHERE +elevation > 5000;
-- No tile is read.
SELECT tessera_reset_stats();
SELECT count(*) FROM r WHERE elevation > 20000;
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_skipped_by_value', 'tiles_read', 'rows_returned');
SELECT count(*) FROM r WHERE elevation IS NULL;
SELECT count(*) FROM r WHERE elevation IS NOT NULL AND elevation <> 0;
SELECT count(*) FROM r WHERE +elevation <> 0;
SELECT count(*) FROM a WHERE iata BETWEEN 'X' AND 'Z';
SELECT count(*) FROM a WHERE +iata BETWEEN 'X' AND 'Z';
-- IS NOT accepts nulls, <> does not.
SELECT count(*), count(iata) FROM a WHERE iata IS NOT 'ZRH';
SELECT count(*), count(iata) FROM a WHERE +iata IS NOT 'ZRH';
SELECT count(*), count(iata) FROM a WHERE iata <> 'ZRH';
-- The right table of a LEFT JOIN.
CREATE TABLE n(e INT);
INSERT INTO n SELECT -20000 UNION ALL SELECT NULL UNION ALL SELECT elevation FROM r WHERE y = 5 AND x = 5;
SELECT n.e, count(r.y) FROM n LEFT JOIN r ON r.elevation = n.e AND r.y = 5 GROUP BY n.e ORDER BY n.e;
SELECT count(*) FROM n LEFT JOIN r ON r.elevation = n.e AND r.y = 5 WHERE r.elevation IS NULL;
SELECT count(*) FROM n LEFT JOIN r ON r.elevation = n.e AND r.y = 5 WHERE r.elevation <> 1;
SELECT count(*) FROM n LEFT JOIN r ON r.elevation = n.e AND r.y = 5 WHERE r.elevation IS NOT NULL;
SELECT count(*) FROM n LEFT JOIN r ON r.elevation = n.e AND r.y = 5 WHERE r.elevation IS NOT -4509;
SELECT count(*) FROM n LEFT JOIN r ON r.elevation = n.e AND r.y = 5 WHERE r.elevation IS NOT NULL AND r.elevation IS NOT -4509;
SELECT n.e, count(*), count(r.y) FROM n LEFT JOIN r ON r.elevation IS NOT -4509 AND r.y = 5 AND r.x = 5 GROUP BY n.e ORDER BY n.e;
-- SQLite compares with the members of a subquery of numbers as numbers: rows that are not members are not found, changed or removed.
CREATE TABLE m(i INTEGER, r REAL, b, t TEXT);
INSERT INTO m VALUES(1, 1.5, 1, '1'), (20, 20, '20', '20'), (2001, 2001, 'x', 'x');
CREATE VIRTUAL TABLE days USING tessera(day DATE DIMENSION('2000-01-01', '2010-01-01', 100), v INT32);
CREATE VIRTUAL TABLE words USING tessera(word TEXT DIMENSION, text TEXT, label TEXT ENUM('1', '20', 'x'));
INSERT INTO days VALUES ('2001-01-01', 1), ('2002-01-01', 2);
INSERT INTO words VALUES ('1', '1', '1'), ('20', '20', '20'), ('020', '020', '20'), ('a', 'b', NULL), ('x', 'x', 'x');
SELECT count(*) FROM days WHERE day IN (SELECT i FROM m);
SELECT count(*) FROM days WHERE day IN (SELECT b FROM m);
SELECT word FROM words WHERE word IN (SELECT i FROM m) ORDER BY word;
SELECT word FROM words WHERE word IN (SELECT b FROM m) ORDER BY word;
SELECT word FROM words WHERE word IN (SELECT t FROM m) ORDER BY word;
SELECT word FROM words WHERE text IN (SELECT r FROM m) ORDER BY word;
SELECT word FROM words WHERE label IN (SELECT i FROM m) ORDER BY word;
UPDATE days SET v = 5 WHERE day IN (SELECT i FROM m);
DELETE FROM days WHERE day IN (SELECT r FROM m);
DELETE FROM words WHERE text IN (SELECT i FROM m WHERE i = 1) OR label IN (SELECT i FROM m WHERE i = 7);
SELECT * FROM days ORDER BY day;
SELECT word FROM words ORDER BY word;
-- Comparisons with a numeric column that holds texts: a text that looks like a number is compared as a number, which is less than all texts.
CREATE TABLE odd(i INTEGER, c TEXT COLLATE NOCASE);
INSERT INTO odd VALUES('', ''), ('!', '!'), ('12a', '12a'), ('a', 'a');
CREATE VIRTUAL TABLE numbers USING tessera(k TEXT DIMENSION, v TEXT, label TEXT ENUM('5', ' 7', 'z'), year DATETIME_YEAR);
INSERT INTO numbers VALUES ('5', '5', '5', '2001'), (' 7', ' 7', ' 7', '1999'), ('z', 'z', 'z', NULL);
SELECT i, group_concat(k) FROM odd CROSS JOIN numbers ON k < i GROUP BY i;
SELECT i, group_concat(k) FROM odd CROSS JOIN numbers ON +k < i GROUP BY i;
SELECT i, group_concat(v) FROM odd CROSS JOIN numbers ON v <= i GROUP BY i;
SELECT i, group_concat(v) FROM odd CROSS JOIN numbers ON +v <= i GROUP BY i;
SELECT i, group_concat(label) FROM odd CROSS JOIN numbers ON label < i GROUP BY i;
SELECT i, group_concat(label) FROM odd CROSS JOIN numbers ON +label < i GROUP BY i;
-- (A datetime compares with a text that is not a date as its own ISO text, whatever column that text comes from.)
SELECT i, group_concat(year) FROM odd CROSS JOIN numbers ON year < i GROUP BY i;
SELECT i, group_concat(year) FROM odd CROSS JOIN numbers ON +year < i GROUP BY i;
SELECT i, group_concat(k) FROM odd CROSS JOIN numbers ON k COLLATE NOCASE < i GROUP BY i;
SELECT i, group_concat(k) FROM odd CROSS JOIN numbers ON +k COLLATE NOCASE < i GROUP BY i;
EXPLAIN QUERY PLAN SELECT * FROM odd CROSS JOIN numbers ON k < i AND v >= i AND label COLLATE NOCASE <= c;
EXPLAIN QUERY PLAN SELECT * FROM numbers WHERE k < 'b' AND v <= ?;
