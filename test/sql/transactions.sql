-- Transactions: the effect of a statement, a savepoint, a rollback and a commit on arrays and ordinary tables together.
.load ./tessera
.mode list
CREATE TABLE o(x);
CREATE VIRTUAL TABLE t USING tessera('t', x INT DIMENSION(0, 1000), a INT, s TEXT);
CREATE VIRTUAL TABLE u USING tessera('./t');
CREATE VIRTUAL TABLE d USING tessera('d', kind=dense, x INT DIMENSION(1, 8, 2), y INT DIMENSION(1, 8, 2), a INT);
-- A transaction sees its uncommitted rows, in any order and through any table on the array; they have no time yet
BEGIN;
INSERT INTO t VALUES(3, 30, 'c'), (1, 10, 'a'), (2, 20, 'b');
INSERT INTO o VALUES(1);
SELECT * FROM t ORDER BY x DESC;
SELECT x, written_at FROM u WHERE x BETWEEN 2 AND 3 ORDER BY x;
SELECT count(*) FROM t('2024-01-01');
INSERT INTO d VALUES(2, 2, 22), (7, 3, 73);
SELECT count(*), count(a), sum(a) FROM d;
COMMIT;
SELECT count(*), count(written_at) FROM t;
SELECT count(*), (SELECT count(*) FROM o) FROM tessera_fragments('t');
SELECT count(*), count(a), sum(a) FROM d;
-- ROLLBACK
BEGIN;
INSERT INTO t VALUES(4, 40, 'd');
UPDATE t SET a = 0;
DELETE FROM u WHERE x = 1;
INSERT INTO o VALUES(2);
SELECT x, a, s FROM t ORDER BY x;
ROLLBACK;
SELECT x, a, s FROM t ORDER BY x;
SELECT * FROM o;
-- Savepoints: nested, rolled back to twice, released
BEGIN;
INSERT INTO t VALUES(10, 1, 'before');
SAVEPOINT one;
INSERT INTO u VALUES(11, 1, 'one');
SAVEPOINT two;
INSERT INTO t VALUES(12, 1, 'two');
UPDATE t SET s = 'changed' WHERE x >= 10;
DELETE FROM t WHERE x = 1;
SELECT x, s FROM t ORDER BY x;
ROLLBACK TO two;
SELECT x, s FROM t ORDER BY x;
INSERT INTO t VALUES(13, 1, 'two again');
RELEASE two;
SELECT x, s FROM t WHERE x >= 10 ORDER BY x;
ROLLBACK TO one;
SELECT x, s FROM t WHERE x >= 10 ORDER BY x;
INSERT INTO t VALUES(14, 1, 'one again');
ROLLBACK TO one;
COMMIT;
SELECT x, s FROM t ORDER BY x;
-- An outermost SAVEPOINT is a transaction; rolling back to it leaves it open
SAVEPOINT outer;
INSERT INTO t VALUES(20, 2, 'gone');
ROLLBACK TO outer;
INSERT INTO t VALUES(21, 2, 'stays');
RELEASE outer;
SELECT x, s FROM t WHERE x >= 20;
-- A table that is first written within two savepoints
BEGIN;
SAVEPOINT p; SAVEPOINT q;
INSERT INTO t VALUES(22, 2, 'gone');
ROLLBACK TO p;
SELECT count(*) FROM t WHERE x = 22;
INSERT INTO t VALUES(23, 2, 'stays');
COMMIT;
SELECT x, s FROM t WHERE x >= 20 ORDER BY x;
-- A statement that fails takes all of its own changes back, and no others
BEGIN;
INSERT INTO t VALUES(30, 3, 'kept');
INSERT INTO t SELECT 31 + value, value, 'gone' FROM (SELECT 1 AS value UNION ALL SELECT 2 UNION ALL SELECT 3000);
INSERT INTO t VALUES(32, 3, 'gone'), (33, 'no number', 'gone');
UPDATE t SET x = x * 100 WHERE x >= 10;
SELECT x, s FROM t WHERE x >= 30;
COMMIT;
INSERT INTO t VALUES(34, 3, 'gone'), (-1, 3, 'gone');
SELECT x, s FROM t WHERE x >= 30;
-- INSERT ... SELECT from the same array, through either table: it does not see the rows that it adds
BEGIN;
INSERT INTO t SELECT x + 500, a, s FROM u;
SELECT count(*) FROM t;
INSERT INTO u SELECT t.x + 200, t.a, t.s FROM t JOIN t AS other ON other.x = t.x + 500;
SELECT count(*) FROM t;
ROLLBACK;
SELECT count(*) FROM t;
-- Triggers of ordinary tables write arrays in the same transaction, if the schema is trusted; newer shells start with a schema that is not
PRAGMA trusted_schema = ON; CREATE TRIGGER copy AFTER INSERT ON o BEGIN INSERT INTO t VALUES(new.x, new.x, 'by a trigger'); END;
BEGIN;
INSERT INTO o VALUES(900), (901);
SAVEPOINT s;
INSERT INTO o VALUES(902), (903);
ROLLBACK TO s;
COMMIT;
INSERT INTO o VALUES(904), (5000);
SELECT x, s FROM t WHERE x >= 900 ORDER BY x;
SELECT * FROM o;
DROP TRIGGER copy;
-- An array is made and filled in one transaction
BEGIN;
CREATE VIRTUAL TABLE n USING tessera('n', x INT DIMENSION(0, 9), a INT);
INSERT INTO n VALUES(1, 1), (2, 2);
SAVEPOINT s;
INSERT INTO n VALUES(3, 3);
ROLLBACK TO s;
SELECT * FROM n;
SELECT * FROM tessera_objects('.') WHERE path LIKE '%/n';
COMMIT;
SELECT * FROM n;
SELECT path, kind FROM tessera_objects('.') WHERE path LIKE '%/n';
BEGIN;
CREATE VIRTUAL TABLE m USING tessera('m', x INT DIMENSION(0, 9), a INT);
INSERT INTO m VALUES(1, 1);
INSERT INTO n VALUES(9, 9);
ROLLBACK;
SELECT * FROM n;
SELECT path FROM tessera_objects('.') WHERE path LIKE '%/m';
-- CREATE within a savepoint that is rolled back: the rows of that table go, those of other tables on the array stay
BEGIN;
SAVEPOINT s;
CREATE VIRTUAL TABLE w USING tessera('n');
INSERT INTO w VALUES(5, 5);
SELECT x FROM n ORDER BY x;
ROLLBACK TO s;
SELECT x FROM n ORDER BY x;
INSERT INTO n VALUES(6, 6);
COMMIT;
SELECT x FROM n ORDER BY x;
-- The table is renamed within the transaction, and the rename is rolled back
BEGIN;
INSERT INTO n VALUES(7, 7);
SAVEPOINT s;
ALTER TABLE n RENAME TO k;
INSERT INTO k VALUES(8, 8);
ROLLBACK TO s;
SELECT x FROM n ORDER BY x;
ALTER TABLE n RENAME TO k;
INSERT INTO k VALUES(4, 4);
COMMIT;
SELECT x FROM k ORDER BY x;
-- Statements that are refused
BEGIN;
INSERT INTO k VALUES(0, 0);
DROP TABLE k;
SELECT count(*) FROM tessera_fragments('n');
SELECT tessera_recover('n');
ROLLBACK;
CREATE VIRTUAL TABLE past USING tessera('n', as_of='2024-01-01');
INSERT INTO past VALUES(1, 1);
DROP TABLE k;
CREATE VIRTUAL TABLE k USING tessera('n');
SELECT count(*) FROM k;
-- No commit is pending at the end
SELECT tessera_recover('n'), tessera_recover('db:t');
SELECT severity, file, message FROM tessera_check('t') UNION ALL SELECT severity, file, message FROM tessera_check('n');
PRAGMA integrity_check;
