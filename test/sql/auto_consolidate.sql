-- auto_consolidate: commits that merge; its options; tessera_upkeep; the counters.
.load ./tessera
.headers on
CREATE VIRTUAL TABLE log USING tessera('log', auto_consolidate=4, at INTEGER DIMENSION, v INTEGER NOT NULL);
INSERT INTO log VALUES (1, 1); INSERT INTO log VALUES (2, 2); INSERT INTO log VALUES (3, 3);
SELECT count(*) FROM tessera_fragments('log');
INSERT INTO log VALUES (4, 4);
SELECT count(*) FROM tessera_fragments('log');
INSERT INTO log VALUES (5, 5); INSERT INTO log VALUES (6, 6); INSERT INTO log VALUES (7, 7); INSERT INTO log VALUES (8, 8);
INSERT INTO log VALUES (9, 9); INSERT INTO log VALUES (10, 10); INSERT INTO log VALUES (11, 11); INSERT INTO log VALUES (12, 12);
INSERT INTO log VALUES (13, 13); INSERT INTO log VALUES (14, 14); INSERT INTO log VALUES (15, 15);
SELECT count(*) AS fragments, max(cells) AS largest FROM tessera_fragments('log');
-- The last of sixteen completes two tiers; a slow COMMIT leaves the second one to the next.
INSERT INTO log VALUES (16, 16);
SELECT count(*) <= 4 AS few FROM tessera_fragments('log');
SELECT value BETWEEN 4 AND 5 FROM tessera_stats WHERE name = 'auto_merges';
SELECT count(*), sum(v) FROM log;
-- A transaction without rows is no commit; a rolled back one neither.
BEGIN; SELECT count(*) FROM log; COMMIT;
BEGIN; INSERT INTO log VALUES (17, 17); ROLLBACK;
SELECT value BETWEEN 4 AND 5 FROM tessera_stats WHERE name = 'auto_merges';
-- In the database the merge belongs to the transaction.
CREATE VIRTUAL TABLE inside USING tessera(auto_consolidate=4, at INTEGER DIMENSION, v INTEGER NOT NULL);
INSERT INTO inside VALUES (1, 1); INSERT INTO inside VALUES (2, 2); INSERT INTO inside VALUES (3, 3); INSERT INTO inside VALUES (4, 4);
INSERT INTO inside VALUES (5, 5); INSERT INTO inside VALUES (6, 6); INSERT INTO inside VALUES (7, 7); INSERT INTO inside VALUES (8, 8);
SELECT count(*) < 8 AS merged FROM tessera_fragments('db:inside');
SELECT count(*), sum(v) FROM inside;
-- By hand.
CREATE VIRTUAL TABLE hand USING tessera('hand', at INTEGER DIMENSION, v INTEGER NOT NULL);
INSERT INTO hand VALUES (1, 1); INSERT INTO hand VALUES (2, 2); INSERT INTO hand VALUES (3, 3); INSERT INTO hand VALUES (4, 4);
SELECT tessera_upkeep('hand') AS done;
SELECT tessera_upkeep('hand', '{"fanout":4}') AS done;
SELECT tessera_upkeep('hand', '{"fanout":4,"grace_s":0}') AS done;
SELECT tessera_upkeep('hand', '{"fanout":4,"grace_s":0}') AS done;
SELECT count(*), sum(v) FROM hand;
BEGIN; INSERT INTO hand VALUES (5, 5);
SELECT tessera_upkeep('hand');
ROLLBACK;
SELECT tessera_upkeep('nowhere');
SELECT tessera_upkeep('hand', '{"fanout":3}');
SELECT tessera_upkeep('hand', '{"seconds":0}');
SELECT tessera_upkeep('hand', '{"vacuum":"no"}');
SELECT tessera_upkeep('hand', '{"what":1}');
CREATE VIRTUAL TABLE bad USING tessera('bad', auto_consolidate=3, x INTEGER DIMENSION, v INTEGER);
CREATE VIRTUAL TABLE bad USING tessera('bad', auto_vacuum_s=60, x INTEGER DIMENSION, v INTEGER);
CREATE VIRTUAL TABLE bad USING tessera('bad', kind=dense, auto_consolidate=yes, auto_vacuum_s=60, x INTEGER DIMENSION(0, 9, 10), v INTEGER);
CREATE VIRTUAL TABLE good USING tessera('good', auto_consolidate=yes, auto_vacuum_s=60, x INTEGER DIMENSION, v INTEGER);
