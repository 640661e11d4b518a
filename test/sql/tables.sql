-- Tables that are dropped, renamed, without their array, with names that are taken, in several databases.
.load ./tessera
.headers on
.shell mkdir box && cp -R sql/data/climate box/climate && cp -R sql/data/relief box/relief
CREATE VIRTUAL TABLE w USING tessera('box/climate');
SELECT name, sql FROM sqlite_schema ORDER BY name;
SELECT count(*) FROM w;
ALTER TABLE w RENAME TO weather;
SELECT count(*) FROM weather WHERE month = 1 AND sst IS NOT NULL;
SELECT name FROM sqlite_schema ORDER BY name;
CREATE VIRTUAL TABLE missing USING tessera('box/nowhere');
CREATE VIRTUAL TABLE missing USING tessera('box');
CREATE VIRTUAL TABLE missing USING tessera('t.db');
CREATE TABLE r_config(x);
CREATE VIRTUAL TABLE r USING tessera('box/relief');
SELECT name FROM sqlite_schema ORDER BY name;
-- The array disappears: columns stay, reads report it, and the table can be renamed and dropped. When the array is back, the table works again.
.shell mv box/climate box/away
.open t.db
.load ./tessera
SELECT group_concat(name) FROM pragma_table_info('weather');
SELECT * FROM weather;
SELECT count(*) FROM weather WHERE month = 3;
ALTER TABLE weather RENAME TO w2;
.shell mv box/away box/climate
SELECT count(*) FROM w2 WHERE month = 3;
.shell rm -r box/climate
.open t.db
.load ./tessera
-- Since 3.44 SQLite asks virtual tables, too, and says that this one's array is away. All else is sound.
SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'
  AND integrity_check NOT LIKE 'main.w2: array not found: %box%climate';
DROP TABLE w2;
SELECT name FROM sqlite_schema ORDER BY name;
-- Writing is refused, with the reason.
CREATE VIRTUAL TABLE rel USING tessera('box/relief');
DELETE FROM rel;
CREATE VIRTUAL TABLE past USING tessera('box/relief', as_of='2100-01-01');
INSERT INTO past(y, x, elevation) VALUES(0, 0, 1);
DROP TABLE past;
-- Rolled back; dropped within a transaction; in temp and in an attached database, whose file's directory relative paths start from
BEGIN;
CREATE VIRTUAL TABLE rolled USING tessera('box/relief');
ROLLBACK;
BEGIN;
DROP TABLE rel;
ROLLBACK;
SELECT count(*) FROM rel WHERE y = 0 AND x = 0;
CREATE VIRTUAL TABLE temp.tt USING tessera('box/relief');
SELECT count(*) FROM tt WHERE y = 0;
.shell mkdir other && cp -R box/relief other/earth
ATTACH 'other/second.db' AS second;
CREATE VIRTUAL TABLE second.earth USING tessera('earth');
SELECT count(*) FROM earth WHERE y = 0;
DETACH second;
VACUUM;
SELECT count(*) FROM rel WHERE y BETWEEN 0 AND 1;
-- In defensive mode users cannot write shadow tables.
.dbconfig defensive on
UPDATE rel_config SET value = 'CREATE TABLE x(a)';
SELECT key, value FROM rel_config WHERE key NOT IN ('id', 'owner');
-- Stored names that differ in case alone
CREATE VIRTUAL TABLE cases USING tessera('arrays/new/odd/names', columns='x,Case,case_2');
SELECT name FROM pragma_table_info('cases');
