-- The mistakes that new users are most likely to make. Each message says what to do instead.
.load ./tessera
.mode list
.headers off
CREATE VIRTUAL TABLE relief USING tessera('sql/data/relief');
CREATE VIRTUAL TABLE weather USING tessera('weather', kind=dense, day INT32 DIMENSION(1, 366, 30), lat INT32 DIMENSION(-90, 89, 30), temp FLOAT32 NOT NULL, note TEXT);
CREATE VIRTUAL TABLE variants USING tessera('variants', contig TEXT DIMENSION, pos UINT32 DIMENSION, day DATE, qual FLOAT32, dp UINT8, gt TEXT ENUM('0/0', '0/1'));
-- opening
CREATE VIRTUAL TABLE t USING tessera('nowhere/at/all');
CREATE VIRTUAL TABLE t USING tessera('sql');
CREATE VIRTUAL TABLE t USING tessera('sql/data/airports.csv');
CREATE VIRTUAL TABLE t USING tessera('s3://bucket/array');
CREATE VIRTUAL TABLE t USING tessera();
CREATE VIRTUAL TABLE t USING tessera('sql/data/relief', 'weather');
CREATE VIRTUAL TABLE t USING tessera('sql/data/relief', asof='2024-01-01');
CREATE VIRTUAL TABLE t USING tessera('sql/data/relief', as_of='last week');
CREATE VIRTUAL TABLE t USING tessera('sql/data/relief', cache_mb=lots);
CREATE VIRTUAL TABLE t USING tessera('sql/data/relief', columns='x,y,height');
CREATE VIRTUAL TABLE t USING tessera('sql/data/relief', columns=(x, elevation));
CREATE VIRTUAL TABLE t USING tessera('sql/data/relief' cache_mb=1);
SELECT * FROM tessera_schema('elevation', 'sql/data/relief');
CREATE VIRTUAL TABLE relief USING tessera('sql/data/relief');
CREATE TABLE t(x) USING tessera('sql/data/relief');
-- creating
CREATE VIRTUAL TABLE t USING tessera('new', kind=dense, x INT32, v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', kind=dense, x INT32 DIMENSION, v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', kind=dense, x INT32 DIMENSION(0, 99, 1000), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', kind=dense, x INT32 DIMENSION(99, 0, 10), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', kind=dense, name TEXT DIMENSION, v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', kind=dense, day DATE DIMENSION('2024-01-01', '2024-12-31', 30), lat INT32 DIMENSION(-90, 89, 30), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', x INT32 DIMENSION(0, 99), x FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('weather', x INT32 DIMENSION(0, 99), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', kind=dence, x INT32 DIMENSION(0, 99), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', x INT32 DIMENSION(0, 99), v FLOAT32 FILTERS(zstd 5));
CREATE VIRTUAL TABLE t USING tessera('new', encryption=aes_256_gcm, x INT32 DIMENSION(0, 99), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', dense, x INT32 DIMENSION(0, 99, 10), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', dense=1, x INT32 DIMENSION(0, 99, 10), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', Hilbert, x INT32 DIMENSION(0, 99), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', duplicates, x INT32 DIMENSION(0, 99), v FLOAT32);
CREATE VIRTUAL TABLE t USING tessera('new', row, x INT32 DIMENSION(0, 99), v FLOAT32);
-- reading
SELECT * FROM weather('soon');
SELECT elevatoin FROM relief;
SELECT * FROM tessera_fragments(relief);
SELECT * FROM tessera_fragments('relief');
SELECT * FROM tessera_array('db:nosuch');
SELECT * FROM tessera_aggregate('db:relief', 'elevation', '{"latitude":[0,1]}');
SELECT * FROM tessera_aggregate('db:relief', 'elevation', '{"y":[0,1}', 'y');
SELECT * FROM tessera_aggregate('db:relief', 'elevation', 'y BETWEEN 0 AND 1');
SELECT * FROM tessera_aggregate('db:relief', 'elevation', NULL, 'latitude');
SELECT length(tessera_npy('db:relief', 'elevation', '{"y":1000}'));
SELECT length(tessera_npy('db:variants', 'qual'));
SELECT tessera_npy('db:relief');
-- writing
INSERT INTO weather VALUES(0, 0, 1, NULL);
INSERT INTO weather VALUES(1, 'north', 1, NULL);
INSERT INTO weather VALUES(1, 1.5, 1, NULL);
INSERT INTO weather VALUES(1, 1, NULL, NULL);
INSERT INTO weather VALUES(1, 1);
INSERT INTO weather(lat, temp) VALUES(1, 1);
INSERT INTO weather VALUES(1, 1, 'warm', NULL);
INSERT INTO variants VALUES('chr1', -1, '2024-01-02', 1, 1, '0/0');
INSERT INTO variants VALUES('chr1', 1, '2024-02-30', 1, 1, '0/0');
INSERT INTO variants VALUES('chr1', 1, '2024-02-20 10:00', 1, 1, '0/0');
INSERT INTO variants VALUES('chr1', 1, '2024-02-20', 1, 256, '0/0');
INSERT INTO variants VALUES('chr1', 1, '2024-02-20', 1, 1, '1/1');
INSERT INTO variants VALUES('chr1', 1, '2024-02-20', 1, 1, '0/0') ON CONFLICT DO NOTHING;
INSERT INTO weather VALUES(1, 1, 1, NULL);
DELETE FROM weather WHERE day = 1;
UPDATE weather SET day = 2 WHERE day = 1;
UPDATE relief('2024-01-01') SET elevation = 0;
CREATE VIRTUAL TABLE old USING tessera('weather', as_of='2024-01-01');
INSERT INTO old VALUES(1, 1, 1, NULL);
ALTER TABLE weather ADD COLUMN gust FLOAT32;
CREATE INDEX i ON weather(temp);
-- keeping
BEGIN;
INSERT INTO weather VALUES(1, 2, 1, NULL);
SELECT tessera_consolidate('db:weather');
ROLLBACK;
SELECT tessera_consolidate('db:weather', 'everything');
SELECT tessera_consolidate('db:weather', 'fragments', '{"max_mb":3}');
SELECT tessera_consolidate('db:weather', 'fragments', 'max_fragment_mb=3');
SELECT tessera_vacuum('weather', 'all');
SELECT tessera_add_attribute('db:weather', 'gust');
SELECT tessera_add_attribute('db:weather', 'temp FLOAT32');
SELECT tessera_drop_attribute('db:weather', 'day');
SELECT tessera_extend_enumeration('db:variants', 'gt', '0/1');
SELECT tessera_extend_enumeration('db:variants', 'qual', 'x');
SELECT tessera_drop('sql');
SELECT tessera_sync('db:weather', 'out') ->> 'copied';
SELECT tessera_sync('weather', 'db:weather');
SELECT tessera_set_key('weather', 'secret');
SELECT tessera_nosuch('weather');
-- A cell that exists is named as SQL would write its coordinates.
CREATE VIRTUAL TABLE levels USING tessera(station TEXT DIMENSION, day DATE DIMENSION, metres REAL);
INSERT INTO levels VALUES('Bern', '2024-06-05', '');
INSERT INTO levels VALUES('Bern', '2024-06-05', 3);
INSERT OR FAIL INTO levels VALUES('Bern', '2024-06-05', 4);
-- Clauses of ordinary tables that arrays lack.
CREATE VIRTUAL TABLE lacking USING tessera(id INT DIMENSION, name TEXT UNIQUE);
CREATE VIRTUAL TABLE lacking USING tessera(id INT DIMENSION, name TEXT NOT NULL CHECK (nome <> ''));
CREATE VIRTUAL TABLE lacking USING tessera(id INT DIMENSION, name TEXT COLLATE NOCASE);
