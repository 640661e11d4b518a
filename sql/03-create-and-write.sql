-- 03: arrays of your own, written in SQLite's transactions. Run it in the directory of tessera.so. It leaves the directories weather and variants there: remove them before you run it again. The three errors that it prints are meant.
.load ./tessera
CREATE VIRTUAL TABLE weather USING tessera('weather', kind=dense,
  day INT32 DIMENSION(1, 366, 30), lat INT32 DIMENSION(-90, 89, 30), lon INT32 DIMENSION(-180, 179, 60),
  temp FLOAT32 NOT NULL DEFAULT -9999 FILTERS(byteshuffle, zstd(5)), note TEXT);
CREATE VIRTUAL TABLE variants USING tessera('variants',
  contig TEXT DIMENSION, pos UINT32 DIMENSION, ref TEXT NOT NULL, alt TEXT NOT NULL, qual FLOAT32, dp UINT16[],
  genotype TEXT ENUM('0/0', '0/1', '1/1'));

-- An array and an ordinary table in one transaction: both or neither.
CREATE TABLE log(what TEXT);
BEGIN;
INSERT INTO weather VALUES(1, 47, 8, -3.5, 'snow'), (1, 47, 9, -4, NULL);
INSERT INTO log VALUES('two cells');
COMMIT;
BEGIN;
UPDATE weather SET temp = 0;
INSERT INTO log VALUES('thaw');
ROLLBACK;
SELECT day, lat, lon, temp, note FROM weather ORDER BY lon;
SELECT * FROM log;

-- Sparse cells: replaced, moved, deleted; a savepoint takes a part back.
INSERT INTO variants VALUES('chr1', 1000, 'A', 'T', 50, '[12,30]', '0/1'), ('chr1', 2000, 'G', 'C', 5, '[3]', NULL), ('chr2', 700, 'T', 'TA', 99, '[]', '1/1');
BEGIN;
UPDATE variants SET pos = pos + 1 WHERE contig = 'chr1';
SAVEPOINT mistake;
DELETE FROM variants;
ROLLBACK TO mistake;
DELETE FROM variants WHERE qual < 10;
COMMIT;
SELECT * FROM variants ORDER BY contig, pos;

-- What does not fit says so, and changes nothing.
INSERT INTO variants VALUES('chr1', -1, 'A', 'T', 50, '[1]', '0/1');
INSERT INTO variants VALUES('chr1', 5, 'A', 'T', 50, '[1]', '2/2');
INSERT INTO weather VALUES(400, 0, 0, 1, NULL);
