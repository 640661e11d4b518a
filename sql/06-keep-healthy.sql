-- 06: many small commits, and what to do about them. Run it in the directory of tessera.so. It leaves the directory log there: remove it before you run it again.
.load ./tessera
CREATE VIRTUAL TABLE log USING tessera('log', at INT64 DIMENSION(0, 1000000, 1000), level TEXT ENUM('info', 'error'), line TEXT);
CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n;
INSERT INTO log VALUES(1, 'info', 'one');
INSERT INTO log VALUES(2, 'error', 'two');
INSERT INTO log VALUES(3, 'info', 'three');
DELETE FROM log WHERE at = 1;
SELECT count(*) AS fragments FROM tessera_fragments('db:log');

SELECT tessera_consolidate('db:log') AS merged;
SELECT tessera_consolidate('db:log', 'commits') > 0, tessera_consolidate('db:log', 'fragment_meta') > 0;
SELECT tessera_vacuum('db:log') > 0;
SELECT count(*) AS fragments FROM tessera_fragments('db:log');
SELECT * FROM log ORDER BY at;

-- What describes the data changes, too.
SELECT tessera_set_metadata('db:log', 'host', 'zeus'), tessera_set_metadata('db:log', 'ports', '[80,443]', 'UINT16');
SELECT key, datatype, num, value FROM tessera_metadata('db:log');
SELECT tessera_extend_enumeration('db:log', 'level', 'debug');
SELECT code, label FROM tessera_enumeration('db:log', 'level');
INSERT INTO log VALUES(4, 'debug', 'four');
SELECT finding FROM tessera_advise('db:log');
SELECT severity, message FROM tessera_check('db:log') WHERE severity <> 'note';
