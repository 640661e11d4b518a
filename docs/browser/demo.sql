-- The database of the page: `sqlite3 demo.db < docs/browser/demo.sql` in the directory of tessera.so.
-- A page of 4096 bytes is small enough for single cells; what belongs together lies together after VACUUM.
.load ./tessera
PRAGMA page_size = 4096;

-- The three arrays of the demo, moved into the database, and coarser copies of the relief for maps.
SELECT tessera_sync('sql/data/relief', 'db:relief') AS relief;
SELECT tessera_make_overviews('db:relief') AS overviews;
SELECT tessera_sync('sql/data/climate', 'db:climate') AS climate;
SELECT tessera_sync('sql/data/airports', 'db:airports') AS airports;

-- The sea as twelve commits: each month was written over the one before. `moments` says when.
CREATE VIRTUAL TABLE sea USING tessera(kind=dense, j INT32 DIMENSION(0, 89, 45), i INT32 DIMENSION(0, 179, 90),
  sst FLOAT32 FILTERS(byteshuffle, zstd(9)), wind_speed FLOAT32 FILTERS(byteshuffle, zstd(9)));
CREATE TABLE moments(month INTEGER PRIMARY KEY, name TEXT, at INTEGER);
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 1;
INSERT INTO moments SELECT 1, 'January', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 2;
INSERT INTO moments SELECT 2, 'February', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 3;
INSERT INTO moments SELECT 3, 'March', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 4;
INSERT INTO moments SELECT 4, 'April', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 5;
INSERT INTO moments SELECT 5, 'May', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 6;
INSERT INTO moments SELECT 6, 'June', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 7;
INSERT INTO moments SELECT 7, 'July', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 8;
INSERT INTO moments SELECT 8, 'August', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 9;
INSERT INTO moments SELECT 9, 'September', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 10;
INSERT INTO moments SELECT 10, 'October', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 11;
INSERT INTO moments SELECT 11, 'November', last_write FROM tessera_array('db:sea');
INSERT INTO sea SELECT j, i, sst, wind_speed FROM climate WHERE month = 12;
INSERT INTO moments SELECT 12, 'December', last_write FROM tessera_array('db:sea');
-- What all commits need to be found lies in one file now, instead of twelve: less to read for who opens the array.
SELECT tessera_consolidate('db:sea', 'fragment_meta') AS footers, tessera_consolidate('db:sea', 'commits') AS commits;
SELECT tessera_vacuum('db:sea', 'fragment_meta') AS old_footers, tessera_vacuum('db:sea', 'commits') AS old_commits;

-- Ordinary tables beside the arrays: names of states, and places to look at.
CREATE TABLE states(code TEXT PRIMARY KEY, state TEXT);
INSERT INTO states VALUES('CO', 'Colorado'), ('NM', 'New Mexico'), ('WY', 'Wyoming'), ('UT', 'Utah'), ('CA', 'California'), ('AK', 'Alaska'), ('AZ', 'Arizona'), ('NV', 'Nevada');
VACUUM;
