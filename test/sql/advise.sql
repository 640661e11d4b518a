-- tessera_advise: its findings, and that the statements which it proposes mend them.
.load ./tessera
.headers on
SELECT * FROM tessera_advise('sql/data/relief');
SELECT * FROM tessera_advise('arrays/new/consolidated/sparse_fragments');
SELECT finding, statement FROM tessera_advise('arrays/old/lib1.7_py0.5.9/sparse2d');
-- Many small commits, and deletes: merging mends both; then the merged fragments can be vacuumed.
CREATE VIRTUAL TABLE m USING tessera('many', x INT32 DIMENSION(0, 1000000, 1000), a INT64 NOT NULL);
INSERT INTO m VALUES (1, 1); INSERT INTO m VALUES (2, 2); INSERT INTO m VALUES (3, 3); INSERT INTO m VALUES (4, 4); INSERT INTO m VALUES (5, 5); INSERT INTO m VALUES (6, 6);
INSERT INTO m VALUES (7, 1); INSERT INTO m VALUES (8, 2); INSERT INTO m VALUES (9, 3); INSERT INTO m VALUES (10, 4); INSERT INTO m VALUES (11, 5); INSERT INTO m VALUES (12, 6);
INSERT INTO m VALUES (13, 1); INSERT INTO m VALUES (14, 2); INSERT INTO m VALUES (15, 3); INSERT INTO m VALUES (16, 4); INSERT INTO m VALUES (17, 5); INSERT INTO m VALUES (18, 6);
DELETE FROM m WHERE x = 1; DELETE FROM m WHERE x = 3; DELETE FROM m WHERE x = 5; DELETE FROM m WHERE x = 7; DELETE FROM m WHERE x = 9;
DELETE FROM m WHERE x = 11; DELETE FROM m WHERE x = 13; DELETE FROM m WHERE x = 15; DELETE FROM m WHERE x = 17;
SELECT * FROM tessera_advise('many');
SELECT tessera_consolidate('many');
SELECT finding, statement FROM tessera_advise('many');
SELECT tessera_vacuum('many') > 0;
SELECT * FROM tessera_advise('db:m');
SELECT count(*), sum(a) FROM m;
-- Filters: a codec that does not shrink numbers, and no filter at all.
CREATE VIRTUAL TABLE f USING tessera('filters', x INT32 DIMENSION(0, 1000000, 1000), noise INT64 NOT NULL FILTERS(zstd), plain INT64 NOT NULL FILTERS(none), good INT64 NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) INSERT INTO f SELECT i, random(), i, i FROM n;
SELECT finding, statement FROM tessera_advise('filters') ORDER BY 1;
SELECT * FROM tessera_advise('nowhere');
SELECT * FROM tessera_advise(NULL);
-- Merging is not proposed where it does not help: cells that are scattered in a dense array, and format version 3, which a copy mends.
CREATE VIRTUAL TABLE d USING tessera(kind=dense, x INT32 DIMENSION(0, 99999, 1000), v FLOAT64);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO d SELECT i * 2, i FROM n;
SELECT fragments FROM tessera_array('db:d');
SELECT finding FROM tessera_advise('db:d');
SELECT tessera_consolidate('db:d');
CREATE VIRTUAL TABLE "old one" USING tessera(x INT32 DIMENSION(0, 99999, 1000), v FLOAT64 NOT NULL, format_version=3);
INSERT INTO "old one" VALUES (1, 1); INSERT INTO "old one" VALUES (2, 1); INSERT INTO "old one" VALUES (3, 1); INSERT INTO "old one" VALUES (4, 1); INSERT INTO "old one" VALUES (5, 1);
INSERT INTO "old one" VALUES (6, 1); INSERT INTO "old one" VALUES (7, 1); INSERT INTO "old one" VALUES (8, 1); INSERT INTO "old one" VALUES (9, 1); INSERT INTO "old one" VALUES (10, 1);
INSERT INTO "old one" VALUES (11, 1); INSERT INTO "old one" VALUES (12, 1); INSERT INTO "old one" VALUES (13, 1); INSERT INTO "old one" VALUES (14, 1); INSERT INTO "old one" VALUES (15, 1);
INSERT INTO "old one" VALUES (16, 1); INSERT INTO "old one" VALUES (17, 1);
SELECT finding, statement FROM tessera_advise('db:"old one"');
SELECT tessera_consolidate('db:"old one"');
SELECT tessera_copy('db:"old one"', 'db:"main"."old one_new"', '{"format_version":22}');
SELECT * FROM tessera_advise('db:"old one_new"');
-- A copy is made beside the array: in the same directory for a table over a directory, as a table in the database for an array in the database.
ATTACH 'other.db' AS other;
CREATE VIRTUAL TABLE other.t USING tessera(x INT32 DIMENSION(0, 99999, 5), v FLOAT64, capacity=2);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO t SELECT i, i / 7.0 FROM n;
SELECT finding, statement FROM tessera_advise('db:t');
SELECT tessera_copy('db:t', 'db:other.t_new', '{"capacity":10000}');
CREATE VIRTUAL TABLE p USING tessera('below/p', x INT32 DIMENSION(0, 99999, 5), v FLOAT64, capacity=2);
INSERT INTO p SELECT * FROM t;
SELECT finding, replace(statement, rtrim(file, 't.db'), './') FROM tessera_advise('db:p'), pragma_database_list WHERE name = 'main';
SELECT finding, statement FROM tessera_advise('below/p/');
