/* scenarios.c: the scenarios that faults.c and crashes.c run. The array of a table NAME is in DISK_ROOT/NAME or in the
 * database. No statement shows anything random, like the names of fragments.
 */
#include "scenario.h"

#define ROWS(low, high) "WITH RECURSIVE n(i) AS (VALUES(" #low ") UNION ALL SELECT i + 1 FROM n WHERE i < " #high ") "

/* ---- Commits ----------------------------------------------------------------------------------------------------- */

static const scenario sparse = {
    .name = "sparse",
    .setup =
        {"CREATE TABLE o(x)",
         "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000, 10), a INT, s TEXT, capacity=8)",
         "INSERT INTO t " ROWS(1, 20) "SELECT i, i, 's' || i FROM n"},
    .steps = {"INSERT INTO t " ROWS(15, 25) "SELECT i, -i, 'new' || i FROM n",
              "SELECT x, a, s FROM t WHERE x BETWEEN 10 AND 17 AND a <> 12 ORDER BY x"},
    .again = {"INSERT INTO t VALUES(7, 77, 'again'), (500, 5, NULL)"}};

static const scenario transaction = {
    .name = "transaction",
    .setup = {"CREATE TABLE o(x)",
              "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT, s TEXT)",
              "INSERT INTO t " ROWS(1, 20) "SELECT i, i, 's' || i FROM n"},
    .steps = {"BEGIN", "INSERT INTO o VALUES(1)", "INSERT INTO t VALUES(5, 50, 'five'), (100, 1, 'hundred')",
              "SAVEPOINT s", "DELETE FROM t WHERE x > 3", "ROLLBACK TO s", "DELETE FROM t WHERE x = 2",
              "UPDATE t SET x = x + 500 WHERE x > 18", "SELECT * FROM t ORDER BY x", "COMMIT",
              "SELECT count(*), sum(a) FROM t"},
    .again = {"BEGIN", "INSERT INTO t VALUES(7, 77, 'again')", "INSERT INTO o VALUES(2)", "COMMIT"},
    .also = {"SELECT * FROM o"}};

static const scenario deletes = {
    .name = "deletes",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT, s TEXT)",
              "INSERT INTO t " ROWS(1, 20) "SELECT i, i, 's' || i FROM n"},
    .steps = {"DELETE FROM t WHERE x < 4 OR a = 11", "DELETE FROM t WHERE s > 's5'"},
    .again = {"INSERT INTO t VALUES(7, 77, 'again')", "DELETE FROM t WHERE x = 8"}};

static const scenario dense = {
    .name = "dense",
    .setup =
        {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, x INT DIMENSION(1, 8, 2), y INT DIMENSION(1, 8, "
         "4), a INT, s TEXT)",
         "INSERT INTO t VALUES(1, 1, 11, 'a'), (1, 2, 12, 'b'), (2, 1, 21, 'c')"},
    .steps = {"INSERT INTO t VALUES(2, 2, 22, 'd'), (3, 3, 33, NULL), (3, 4, 34, 'e'), (8, 8, 88, 'f')",
              "UPDATE t SET a = a + 1 WHERE x = 3 AND a IS NOT NULL",
              "SELECT x, y, a FROM t WHERE x = 3 AND y > 2 ORDER BY y"},
    .again = {"INSERT INTO t VALUES(4, 4, 44, 'again'), (4, 5, 45, 'again')"}};

static const scenario version_3 = {
    .name = "version 3",
    .setup =
        {"CREATE TABLE o(x)",
         "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT NOT NULL, s TEXT NOT NULL, "
         "format_version=3)",
         "INSERT INTO t " ROWS(1, 9) "SELECT i, i, 's' || i FROM n"},
    .steps = {"BEGIN", "INSERT INTO t VALUES(5, 50, 'five'), (100, 1, 'hundred')", "INSERT INTO o VALUES(1)", "COMMIT",
              "SELECT * FROM t WHERE x > 4 ORDER BY x"},
    .again = {"INSERT INTO t VALUES(7, 77, 'again')"},
    .also = {"SELECT * FROM o"}};

static const scenario version_12 = {
    .name = "version 12",
    .setup =
        {"CREATE TABLE o(x)",
         "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT, s TEXT, format_version=12)",
         "CREATE VIRTUAL TABLE d USING tessera('/disk/d', kind=dense, x INT DIMENSION(0, 9, 5), a INT, "
         "format_version=12)",
         "INSERT INTO t " ROWS(1, 9) "SELECT i, i, 's' || i FROM n"},
    .steps = {"BEGIN", "INSERT INTO t VALUES(5, 50, 'five'), (100, 1, 'hundred')", "INSERT INTO o VALUES(1)",
              "INSERT INTO d VALUES(1, 1), (2, 2), (7, 7)", "COMMIT"},
    .again = {"INSERT INTO t VALUES(7, 77, 'again')", "INSERT INTO d VALUES(3, 3)"},
    .also = {"SELECT * FROM o"}};

static const scenario version_9 = {
    .name = "version 9",
    .copies = {"old/lib2.3_py0.9.5/sparse2d", "/disk/t"},
    .setup = {"CREATE TABLE o(x)", "CREATE VIRTUAL TABLE t USING tessera('/disk/t', threads=2)"},
    .steps = {"BEGIN", "INSERT INTO t VALUES(5, 50, 5, 'five', 0.5, '[1,2,3]'), (6, 1, 6, 'six', 1.5, '[4,5,6]')",
              "INSERT INTO o VALUES(1)", "COMMIT"},
    .again = {"INSERT INTO t VALUES(7, 7, 77, 'again', 1, '[7,8,9]')"},
    .also = {"SELECT * FROM o"}};

static const scenario two_arrays = {
    .name = "two arrays",
    .setup = {"CREATE TABLE o(x)", "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT)",
              "CREATE VIRTUAL TABLE u USING tessera('/disk/u', x TEXT DIMENSION, a INT, duplicates=yes)",
              "CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 1000), a INT)",
              "INSERT INTO t " ROWS(1, 9) "SELECT i, i FROM n"},
    .steps = {"BEGIN", "INSERT INTO u SELECT 'x' || x, a FROM t WHERE x < 5", "DELETE FROM t WHERE x < 5",
              "INSERT INTO w SELECT x, a FROM t", "INSERT INTO o VALUES(1)", "COMMIT"},
    .again = {"BEGIN", "INSERT INTO t VALUES(3, 3)", "INSERT INTO u VALUES('x', 7)", "INSERT INTO w VALUES(700, 7)",
              "COMMIT"},
    .also = {"SELECT * FROM o"}};

/* A COMMIT fails with SQLITE_BUSY after all arrays are prepared, and is tried again: the commit has the time of the last
 * try. */
static const scenario busy = {
    .name = "busy",
    .setup = {"CREATE TABLE o(x)", "INSERT INTO o VALUES(1), (2)",
              "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT)",
              "CREATE VIRTUAL TABLE d USING tessera('/disk/d', kind=dense, x INT DIMENSION(0, 9, 5), a INT)",
              "CREATE VIRTUAL TABLE u USING tessera('/disk/u', x TEXT DIMENSION, a INT, duplicates=yes)",
              "CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 1000), a INT)",
              "INSERT INTO t " ROWS(1, 9) "SELECT i, i FROM n", "INSERT INTO u VALUES('x', 1), ('y', 2)"},
    .steps = {"BEGIN", "INSERT INTO o VALUES(3)", "UPDATE t SET x = x + 500 WHERE x > 7",
              "INSERT INTO d VALUES(1, 1), (2, 2), (7, 7)", "UPDATE u SET a = 3 WHERE x = 'y'",
              "INSERT INTO w VALUES(1, 1)", BUSY_COMMIT, "COMMIT", "SELECT count(*), sum(a) FROM t"},
    .again = {"BEGIN", "INSERT INTO t VALUES(3, 3)", "INSERT INTO d VALUES(3, 3)", "INSERT INTO u VALUES('x', 7)",
              "COMMIT"},
    .also = {"SELECT * FROM o"}};

static const scenario busy_old = {
    .name = "busy, old",
    .copies = {"old/lib2.3_py0.9.5/sparse2d", "/disk/t"},
    .setup =
        {"CREATE TABLE o(x)", "INSERT INTO o VALUES(1), (2)", "CREATE VIRTUAL TABLE t USING tessera('/disk/t')",
         "CREATE VIRTUAL TABLE u USING tessera('/disk/u', x INT DIMENSION(0, 1000), a INT NOT NULL, format_version=3)"},
    .steps = {"BEGIN", "INSERT INTO t VALUES(5, 50, 5, 'five', 0.5, '[1,2,3]'), (6, 1, 6, 'six', 1.5, '[4,5,6]')",
              "INSERT INTO u VALUES(1, 1)", "INSERT INTO o VALUES(3)", BUSY_COMMIT, "COMMIT", "SELECT count(*) FROM t"},
    .again = {"INSERT INTO t VALUES(7, 7, 77, 'again', 1, '[7,8,9]')", "INSERT INTO u VALUES(2, 2)"},
    .also = {"SELECT * FROM o"}};

/* After a crash a commit is prepared and not published. Others write some of its cells later, and a program that does not
 * know of it merges all fragments. The commit cannot keep its time then: its cells that are still the newest become another
 * commit. */
static const scenario late_dense = {
    .name = "late, dense",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, x INT DIMENSION(0, 19, 5), a INT, s TEXT)",
              "INSERT INTO t " ROWS(0, 9) "SELECT i, i, 'old' FROM n",
              "INSERT INTO t VALUES(3, 33, 'mine'), (4, 44, 'mine'), (8, 88, 'mine'), (9, 99, 'mine'), (10, 0, "
              "'mine'), (11, 1, 'mine')",
              CUT_OFF("t"), ASIDE("t", "INSERT INTO t VALUES(3, 3, 'theirs'), (4, 4, 'theirs')"),
              UNAWARE("t", "SELECT tessera_consolidate('/disk/t')"),
              UNAWARE("t", "SELECT tessera_vacuum('/disk/t') > 0"), ASIDE("t", "INSERT INTO t VALUES(11, 5, 'later')")},
    .steps = {"SELECT x, a, s FROM t WHERE x BETWEEN 2 AND 12 ORDER BY x", "SELECT tessera_recover('db:t') > 0",
              "SELECT x, a, s FROM t WHERE x BETWEEN 2 AND 12 ORDER BY x"},
    .again = {"INSERT INTO t VALUES(3, 1, 'again'), (10, 1, 'again')"}};

static const scenario late_sources = {
    .name = "late, sources",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, x INT DIMENSION(0, 19, 5), a INT)",
              "INSERT INTO t " ROWS(0, 9) "SELECT i, i FROM n", "INSERT INTO t VALUES(3, 33), (4, 44), (8, 88)",
              CUT_OFF("t"), ASIDE("t", "INSERT INTO t VALUES(3, 3)"),
              UNAWARE("t", "SELECT tessera_consolidate('/disk/t')")},
    .steps = {"SELECT x, a FROM t WHERE x BETWEEN 2 AND 9 ORDER BY x", "SELECT tessera_recover('db:t') > 0",
              "INSERT INTO t VALUES(12, 12)", "SELECT x, a FROM t WHERE x BETWEEN 2 AND 12 ORDER BY x"},
    .again = {"INSERT INTO t VALUES(3, 1), (10, 1)"}};

/* Merged fragments of versions below 15 have no times of cells. */
static const scenario late_sparse = {
    .name = "late, sparse",
    .setup =
        {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 99, 5), a INT, s TEXT, format_version=14)",
         "INSERT INTO t " ROWS(0, 9) "SELECT i, i, 'old' FROM n",
         "INSERT INTO t VALUES(3, 33, 'mine'), (4, 44, 'mine'), (50, 55, 'mine'), (51, 51, 'mine')", CUT_OFF("t"),
         ASIDE("t", "INSERT INTO t VALUES(3, 3, 'theirs')"), UNAWARE("t", "SELECT tessera_consolidate('/disk/t')"),
         UNAWARE("t", "SELECT tessera_vacuum('/disk/t') > 0"), ASIDE("t", "INSERT INTO t VALUES(51, 5, 'later')")},
    .steps = {"SELECT * FROM t ORDER BY x", "SELECT tessera_recover('db:t') > 0", "SELECT * FROM t ORDER BY x"},
    .again = {"INSERT INTO t VALUES(3, 1, 'again')"}};

static const scenario late_old = {
    .name = "late, old",
    .copies = {"old/lib2.3_py0.9.5/dense2d", "/disk/t"},
    .setup =
        {"CREATE VIRTUAL TABLE t USING tessera('/disk/t')",
         "INSERT INTO t SELECT r, c, -1, 'mine', 0, '[1,2,3]' FROM t WHERE r BETWEEN 2 AND 5 AND c BETWEEN 2 AND 4",
         CUT_OFF("t"),
         ASIDE("t", "INSERT INTO t SELECT r, c, -2, 'theirs', 0, '[1,2,3]' FROM t WHERE r = 3 AND c BETWEEN 3 AND 6"),
         ASIDE("t", "INSERT INTO t " ROWS(1, 10) "SELECT i, 8, -2, 'theirs', 0, '[1,2,3]' FROM n"),
         UNAWARE("t", "SELECT tessera_consolidate('/disk/t')"),
         ASIDE("t", "INSERT INTO t SELECT r, c, -3, 'later', 0, '[1,2,3]' FROM t WHERE r = 5 AND c = 2")},
    .steps = {"SELECT r, c, a FROM t WHERE a < 0 ORDER BY 1, 2", "SELECT tessera_recover('db:t') > 0",
              "SELECT r, c, a FROM t WHERE a < 0 ORDER BY 1, 2"},
    .again = {"INSERT INTO t SELECT r, c, -4, 'again', 0, '[1,2,3]' FROM t WHERE r = 2 AND c = 2"}};

/* An array with encryption, many filters and enumerations. */
static const scenario filters = {
    .name = "filters",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000, 10) FILTERS(double_delta, "
              "bit_width_reduction, bzip2), k TEXT DIMENSION FILTERS(rle), a INT FILTERS(positive_delta, lz4, sha256), "
              "d DATE "
              "FILTERS(byteshuffle, gzip(3)), f FLOAT32 FILTERS(xor, bitshuffle, zstd(2), md5), e TEXT ENUM('p', 'q'), "
              "s TEXT "
              "FILTERS(dictionary), v INT16[], cell_order=hilbert, capacity=8)",
              "INSERT INTO t " ROWS(
                  1, 20) "SELECT i, 'k' || i % 3, i, '2024-01-01', i / 2.0, 'p', 's' || i % 4, '[1, 2]' FROM n"},
    .steps = {"INSERT INTO t " ROWS(18, 30) "SELECT i, 'k' || i % 3, i, NULL, NULL, 'q', NULL, '[]' FROM n",
              "SELECT * FROM t WHERE k = 'k1' AND e = 'q' ORDER BY x"},
    .again = {"INSERT INTO t VALUES(7, 'again', 1, NULL, 1, 'q', 's', '[7]')"}};

/* A transaction that exceeds its memory: sorted runs are spilled to disk, and the commit merges them in passes. The rows are
 * few and long, because all of them are compared after each fault. */
static const scenario spill = {
    .name = "spill",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), s TEXT, capacity=8, "
              "memory_mb=1, cache_mb=1)",
              "INSERT INTO t VALUES(1, 'one')"},
    .steps = {"INSERT INTO t " ROWS(1, 30) "SELECT i * 79 % 101, printf('%.*c', 16000 + i, 'a') FROM n",
              "SELECT count(*), sum(length(s)) FROM t"},
    .again = {"INSERT INTO t VALUES(7, 'seven')"}};

/* The same for a dense array: every other cell in random order, over cells that were written before. In this format version
 * a commit has one box. */
static const scenario spill_dense = {
    .name = "spill, dense",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, x INT DIMENSION(0, 99, 8), s TEXT NOT NULL, "
              "format_version=3, memory_mb=1, cache_mb=1)",
              "INSERT INTO t " ROWS(0, 64) "SELECT i, 'old' FROM n"},
    .steps = {"INSERT INTO t " ROWS(1, 30) "SELECT i * 7 % 31 * 2, printf('%.*c', 16000 + i, 'a') FROM n",
              "SELECT count(*), sum(length(s)) FROM t"},
    .again = {"INSERT INTO t VALUES(7, 'seven')"}};

/* ---- Creating and dropping arrays -------------------------------------------------------------------------------- */

static const scenario create = {
    .name = "create",
    .setup = {"CREATE TABLE o(x)"},
    .steps = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, x INT32 DIMENSION(1, 10, 5), a TEXT "
              "ENUM('p', 'q') "
              "DEFAULT 'q', b INT32[2] DEFAULT '[1, 2]')",
              "BEGIN", "INSERT INTO o VALUES(1)",
              "CREATE VIRTUAL TABLE v USING tessera('/disk/above/v', x INT DIMENSION(0, 100), a INT)",
              "INSERT INTO v VALUES(1, 1), (2, 2)", "SAVEPOINT s",
              "CREATE VIRTUAL TABLE u USING tessera('/disk/u', x INT DIMENSION, a FLOAT NOT NULL, format_version=3)",
              "ROLLBACK TO s",
              "CREATE VIRTUAL TABLE u USING tessera('/disk/u', x INT DIMENSION, a INT NOT NULL, format_version=3)",
              "INSERT INTO u VALUES(5, 5)", "COMMIT"},
    .again = {"INSERT INTO o VALUES(2)", "CREATE VIRTUAL TABLE z USING tessera('/disk/z', x INT DIMENSION, a INT)",
              "INSERT INTO z VALUES(1, 1)"},
    .also = {"SELECT * FROM o", "SELECT tessera_ddl('db:t')"}};

static const scenario definitions = {
    .name = "definitions",
    .setup = {"CREATE TABLE o(x)"},
    .steps =
        {"CREATE VIRTUAL TABLE w USING tessera('/disk/w', kind=dense, x INT32 DIMENSION(1, 10, 5) "
         "FILTERS(double_delta, "
         "zstd(3)), a TEXT ENUM('p', 'q') DEFAULT 'q', b INT32[2] DEFAULT '[1, 2]', c UTF16 NOT NULL DEFAULT 'e')",
         "CREATE VIRTUAL TABLE v USING tessera('/disk/v', x TEXT DIMENSION CURRENT('a', 'z'), duplicates=yes, "
         "y DATE DIMENSION('2024-01-01', '2024-12-31', 7), offsets_filters=(chunk(1000), gzip(2)), format_version=22)",
         "CREATE VIRTUAL TABLE u USING tessera('/disk/u', x INT DIMENSION, format_version=12)",
         "SELECT tessera_ddl('db:v')", "ALTER TABLE v RENAME TO y", "DROP TABLE u"},
    .again = {"INSERT INTO o VALUES(2)"},
    .extra = true};

static const scenario drop = {
    .name = "drop",
    .setup =
        {"CREATE TABLE o(x)", "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 100), a INT)",
         "CREATE VIRTUAL TABLE u USING tessera('/disk/u', x INT DIMENSION(0, 100), a INT NOT NULL, format_version=3)",
         "CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 100), a INT)", "INSERT INTO t VALUES(1, 1)",
         "INSERT INTO u VALUES(1, 1)", "INSERT INTO w VALUES(1, 1)", "DROP TABLE t", "DROP TABLE u",
         "SELECT tessera_create_group('/disk/g')", "CREATE VIRTUAL TABLE v USING tessera('/disk/g/v', x INT DIMENSION)",
         "SELECT tessera_add_member('/disk/g', '/disk/g/v')", "DROP TABLE v"},
    .steps = {"DROP TABLE w", "SELECT tessera_drop('/disk/t')", "SELECT tessera_drop('/disk/u')",
              "SELECT tessera_drop('/disk/g/v')", "SELECT tessera_drop('/disk/g', '{\"members\":true}')"},
    .again = {"CREATE VIRTUAL TABLE z USING tessera('/disk/z', x INT DIMENSION, a INT)", "INSERT INTO z VALUES(1, 1)"},
    .also = {"SELECT path, kind FROM tessera_objects('/disk')"},
    .extra = true};

static const scenario copies = {
    .name = "copies",
    .setup = {"CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 100), a INT)",
              "INSERT INTO w VALUES(1, 1), (50, 5)",
              "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 100), a INT, s TEXT)",
              "INSERT INTO t VALUES(1, 1, 'one'), (2, 2, 'two')", "DELETE FROM t WHERE x = 2"},
    .steps = {"SELECT tessera_sync('db:w', '/disk/e') > 0", "SELECT tessera_sync('/disk/t', 'db:i') > 0",
              "SELECT tessera_copy('/disk/t', '/disk/c', '{\"capacity\": 2}')"},
    .again = {"INSERT INTO w VALUES(3, 3)", "INSERT INTO t VALUES(3, 3, 'three')"},
    .also = {"SELECT o.path, a.* FROM tessera_objects('/disk') o, tessera_aggregate(o.path, 'a') a"},
    .extra = true};

#define CREATE_AS(path, select, options) "SELECT tessera_create_as('" path "', '" select "', '{" options "}')"
#define POINTS                           "\"dimensions\":[\"x\"],\"kind\":\"sparse\",\"domains\":{\"x\":[0,99]}"

static const scenario create_as = {
    .name = "rows that become arrays",
    .setup = {"CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 100), a INT, s TEXT)",
              "INSERT INTO w " ROWS(1, 20) "SELECT i, i, 's' || i FROM n"},
    .steps = {CREATE_AS("/disk/c", "SELECT * FROM w",
                        POINTS ",\"enumerate\":[\"s\"],\"capacity\":8,\"metadata\":{\"k\":1}"),
              CREATE_AS("/disk/c", "SELECT x + 30 AS x, -a AS a, s FROM w WHERE x < 9", "\"if_exists\":\"append\""),
              CREATE_AS("/disk/d", "SELECT a FROM w", "\"memory_mb\":1"), CREATE_AS("db:i", "SELECT * FROM w", POINTS),
              CREATE_AS("db:i", "SELECT x + 30 AS x, -a AS a, s FROM w", "\"if_exists\":\"append\""),
              CREATE_AS("db:i", "SELECT x, 2 * a AS a FROM i", POINTS ",\"if_exists\":\"replace\"")},
    .again = {"INSERT INTO w VALUES(33, 3, 'three')", CREATE_AS("/disk/z", "SELECT x, a FROM w", POINTS)},
    .also = {"SELECT o.path, a.* FROM tessera_objects('/disk') o, tessera_aggregate(o.path, 'a') a"},
    .extra = true};

/* A new array takes the place of an old one: whatever happens, one of them is there. A crash may leave the other one beside
 * it, under a name of its own. */
static const scenario exchange = {
    .name = "exchange",
    .setup = {"CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 100), a INT)",
              "INSERT INTO w " ROWS(1, 9) "SELECT i, i FROM n", CREATE_AS("/disk/c", "SELECT x, a FROM w", POINTS)},
    .steps = {CREATE_AS("/disk/c", "SELECT x + 30 AS x, -a AS a FROM w WHERE x < 5",
                        POINTS ",\"if_exists\":\"replace\""),
              "SELECT sum, count FROM tessera_aggregate('/disk/c', 'a')",
              CREATE_AS("/disk/c", "SELECT x, 2 * a AS a FROM w", POINTS ",\"if_exists\":\"replace\"")},
    .again = {CREATE_AS("/disk/c", "SELECT x, 7 AS a FROM w", POINTS ",\"if_exists\":\"replace\"")},
    .also = {"SELECT * FROM tessera_aggregate('/disk/c', 'a')",
             "SELECT severity, message FROM tessera_check('/disk/c')"},
    .extra = true};

/* Values of dimension labels have commits of their own, in the label's array. */
static const scenario labels = {
    .name = "labels",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, y INT DIMENSION(0, 7, 4) LABEL lat FLOAT64 "
              "LABEL name TEXT, a INT)",
              "INSERT INTO t(y, a) VALUES(0, 10), (1, 11), (2, 12)",
              "SELECT tessera_write_label('db:t', 'lat', '[1, 2]')",
              "SELECT tessera_write_label('db:t', 'lat', '[3]', 2)", "INSERT INTO t(lat, a) VALUES(3, 13)"},
    .steps = {"SELECT tessera_write_label('db:t', 'lat', '[4, 5.5]', 3)",
              "SELECT tessera_write_label('db:t', 'name', '[\"a\", \"b\", \"c\", \"d\"]')",
              "INSERT INTO t(lat, a) VALUES(4, 14), (5.5, 15)",
              "SELECT y, name FROM t WHERE lat BETWEEN 2 AND 5 ORDER BY y", "SELECT tessera_consolidate('db:t') > 0",
              "SELECT tessera_vacuum('db:t') > 0", "SELECT tessera_nearest('db:t', 'lat', 5)",
              "SELECT tessera_sample('db:t', 'a', '{\"lat\":4.5}')"},
    .again = {"INSERT INTO t(lat, a) VALUES(2, 77)", "SELECT tessera_consolidate('db:t') >= 0"},
    .also = {"SELECT y, lat, name FROM t WHERE lat > 0 ORDER BY y"},
    .interleaved = true};

/* ---- Schemas, metadata and groups -------------------------------------------------------------------------------- */

static const scenario evolve = {
    .name = "evolve",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000) CURRENT(0, 99), a INT, e TEXT "
              "ENUM('p', 'q'))",
              "INSERT INTO t VALUES(1, 10, 'p'), (2, 20, 'q')"},
    .steps = {"SELECT tessera_add_attribute('/disk/t', 'b FLOAT32 DEFAULT 2.5')",
              "SELECT tessera_extend_enumeration('/disk/t', 'e', 'r', 's')",
              "SELECT tessera_expand_domain('/disk/t', '{\"x\":[0,199]}')",
              "SELECT tessera_drop_attribute('/disk/t', 'a')"},
    .again = {"SELECT tessera_add_attribute('/disk/t', 'z INT')"},
    .also = {"SELECT * FROM tessera_schema('/disk/t')", "SELECT * FROM tessera_enumeration('/disk/t', 'e')"}};

static const scenario metadata = {
    .name = "metadata",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT)",
              "INSERT INTO t VALUES(1, 10)", "SELECT tessera_set_metadata('/disk/t', 'k', 'first')",
              "SELECT tessera_set_metadata('/disk/t', 'gone', 1)"},
    .steps = {"SELECT tessera_set_metadata('/disk/t', 'k', 'second')",
              "SELECT tessera_set_metadata('/disk/t', 'gone', NULL)",
              "SELECT tessera_set_metadata('/disk/t', 'l', '[1,2,3]', 'UINT16')",
              "SELECT tessera_consolidate('/disk/t', 'array_meta') > 0",
              "SELECT tessera_vacuum('/disk/t', 'array_meta') > 0"},
    .again = {"SELECT tessera_set_metadata('/disk/t', 'again', 7)"},
    .also = {"SELECT key, datatype, num, value FROM tessera_metadata('/disk/t')"}};

static const scenario groups = {
    .name = "groups",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT)",
              "SELECT tessera_create_group('/disk/g')",
              "CREATE VIRTUAL TABLE u USING tessera('/disk/g/u', x INT DIMENSION(0, 1000), a INT)"},
    .steps = {"SELECT tessera_add_member('/disk/g', '/disk/g/u', 'u')",
              "SELECT tessera_add_member('/disk/g', '/disk/t', 't')",
              "SELECT tessera_set_metadata('/disk/g', 'k', 'v')", "SELECT tessera_set_metadata('/disk/g', 'k', 'w')",
              "SELECT tessera_drop_member('/disk/g', 'u')", "SELECT tessera_create_group('/disk/more/h')",
              "SELECT tessera_consolidate('/disk/g') > 0", "SELECT tessera_vacuum('/disk/g') > 0"},
    .again = {"SELECT tessera_set_metadata('/disk/g', 'again', 7)",
              "SELECT tessera_add_member('/disk/g', '/disk/g/u', 'z')"},
    .also = {"SELECT * FROM tessera_members('/disk/g')", "SELECT key, value FROM tessera_metadata('/disk/g')",
             "SELECT path, kind FROM tessera_objects('/disk')"}};

/* ---- Maintenance ------------------------------------------------------------------------------------------------- */

static const scenario merge_sparse = {
    .name = "merge sparse",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT, s TEXT, capacity=8)",
              "INSERT INTO t " ROWS(1, 12) "SELECT i, i, 's' || i FROM n",
              "INSERT INTO t " ROWS(8, 14) "SELECT i, -i, 'n' || i FROM n", "DELETE FROM t WHERE x = 3",
              "INSERT INTO t VALUES(3, 33, 'back'), (100, 1, 'far')"},
    .steps = {"SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'commits') > 0",
              "SELECT tessera_consolidate('db:t', 'fragment_meta') > 0", "SELECT tessera_vacuum('db:t') > 0"},
    .again = {"INSERT INTO t VALUES(7, 77, 'again')", "SELECT tessera_vacuum('db:t')"}};

static const scenario merge_dense = {
    .name = "merge dense",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, x INT DIMENSION(1, 8, 2), y INT "
              "DIMENSION(1, 8, 4), a INT)",
              "INSERT INTO t VALUES(1, 1, 11), (1, 2, 12)", "INSERT INTO t VALUES(1, 2, 0), (1, 3, 13)",
              "INSERT INTO t VALUES(7, 7, 77)", "INSERT INTO t VALUES(7, 7, 78), (7, 8, 79)"},
    .steps = {"SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'commits') > 0",
              "SELECT tessera_consolidate('db:t', 'fragment_meta') > 0", "SELECT tessera_vacuum('db:t') > 0"},
    .again = {"INSERT INTO t VALUES(4, 4, 44)", "SELECT tessera_vacuum('db:t')"},
    .interleaved = true};

static const scenario merge_duplicates = {
    .name = "merge duplicates",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x TEXT DIMENSION, a INT, duplicates=yes)",
              "INSERT INTO t VALUES('a', 1), ('a', 2), ('b', 3)", "INSERT INTO t VALUES('a', 1)",
              "DELETE FROM t WHERE x = 'b'"},
    .steps = {"SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'commits') > 0",
              "SELECT tessera_vacuum('db:t') > 0"},
    .again = {"INSERT INTO t VALUES('c', 4)", "SELECT tessera_consolidate('db:t') >= 0",
              "SELECT tessera_vacuum('db:t') >= 0"},
    .interleaved = true};

static const scenario merge_12 = {
    .name = "merge version 12",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT, format_version=12)",
              "INSERT INTO t VALUES(1, 1), (2, 2)", "INSERT INTO t VALUES(2, 22), (3, 3)",
              "INSERT INTO t VALUES(9, 9)"},
    .steps = {"SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'commits') > 0",
              "SELECT tessera_consolidate('db:t', 'fragment_meta') > 0", "SELECT tessera_vacuum('db:t') > 0"},
    .again = {"INSERT INTO t VALUES(7, 77)", "SELECT tessera_vacuum('db:t')"},
    .interleaved = true};

static const scenario merge_9 = {
    .name = "merge version 9",
    .copies = {"old/lib2.3_py0.9.5/sparse2d", "/disk/t"},
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t')",
              "INSERT INTO t VALUES(5, 50, 5, 'five', 0.5, '[1,2,3]')"},
    .steps = {"SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'fragment_meta') > 0",
              "SELECT tessera_vacuum('db:t') > 0"},
    .again = {"INSERT INTO t VALUES(7, 7, 77, 'again', 1, '[7,8,9]')", "SELECT tessera_vacuum('db:t')"},
    .partial = true};

/* A consolidation with purge_deleted removes deleted cells. */
static const scenario purge = {
    .name = "purge",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT, s TEXT)",
              "INSERT INTO t " ROWS(1, 9) "SELECT i, i, 's' || i FROM n", "INSERT INTO t VALUES(20, 20, 'more')",
              "DELETE FROM t WHERE x BETWEEN 3 AND 5"},
    .steps = {"SELECT tessera_consolidate('db:t', 'fragments', '{\"purge_deleted\": true}')",
              "SELECT tessera_vacuum('db:t') > 0"},
    .again = {"INSERT INTO t VALUES(7, 77, 'again')"},
    .interleaved = true};

/* ---- Arrays in the database -------------------------------------------------------------------------------------- */

static const scenario inside = {
    .name = "inside the database",
    .setup = {"CREATE TABLE o(x)", "CREATE VIRTUAL TABLE t USING tessera(x INT DIMENSION(0, 1000), a INT, s TEXT)",
              "INSERT INTO t " ROWS(1, 20) "SELECT i, i, 's' || i FROM n"},
    .steps = {"CREATE VIRTUAL TABLE d USING tessera(kind=dense, x INT DIMENSION(1, 8, 2), a INT)", "BEGIN",
              "INSERT INTO d VALUES(1, 1), (5, 5)", "INSERT INTO t VALUES(5, 50, 'five'), (100, 1, 'hundred')",
              "SAVEPOINT s", "DELETE FROM t WHERE x > 3", "SELECT count(*) FROM t", "ROLLBACK TO s",
              "UPDATE t SET a = -a WHERE x > 18", "DELETE FROM t WHERE x = 4", "INSERT INTO o VALUES(1)", "COMMIT",
              "SELECT * FROM t WHERE x < 7 ORDER BY x", "DROP TABLE d"},
    .again = {"INSERT INTO t VALUES(7, 77, 'again')", "INSERT INTO o VALUES(2)"},
    .also = {"SELECT * FROM o", "PRAGMA integrity_check"},
    .extra = true};

static const scenario inside_upkeep = {
    .name = "upkeep inside the database",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera(x INT DIMENSION(0, 1000), a INT, s TEXT)",
              "INSERT INTO t " ROWS(1, 9) "SELECT i, i, 's' || i FROM n",
              "INSERT INTO t VALUES(2, 2, 'two'), (100, 1, 'far')", "DELETE FROM t WHERE x = 3"},
    .steps = {"SELECT tessera_consolidate('db:t')", "SELECT tessera_vacuum('db:t') > 0",
              "SELECT tessera_set_metadata('db:t', 'k', 1)", "ALTER TABLE t RENAME TO u"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"},
    .also = {"PRAGMA integrity_check"},
    .extra = true};

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static const scenario reading = {
    .name = "reading",
    .copies = {"new/timetravel/sparse", "/disk/t", "new/timetravel/dense", "/disk/d"},
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', threads=3)",
              "CREATE VIRTUAL TABLE d USING tessera('/disk/d', threads=1)", "CREATE TABLE p(r, c)",
              "INSERT INTO p VALUES(1, 2), (3, 3), (8, 8)"},
    .steps = {"SELECT count(*), sum(r), max(a), min(written_at) FROM t",
              "SELECT r, c, a FROM t WHERE r IN (1, 3, '5', NULL, 7) AND c > 2 ORDER BY 2, 1",
              "SELECT p.r, a FROM p LEFT JOIN t ON t.r = p.r AND t.c = p.c",
              "SELECT (SELECT count(*) FROM t(p.r * 100)) FROM p",
              "SELECT r, c, a FROM d WHERE (r = 3 AND c = 3) OR c = 4 ORDER BY 1, 2",
              "SELECT x.r, y.a FROM d x JOIN d y ON x.r = y.c WHERE x.c = 4 ORDER BY 1, 2 LIMIT 9",
              "SELECT * FROM tessera_aggregate('/disk/t', 'a', NULL, 'r')",
              "SELECT * FROM tessera_aggregate('/disk/d', 'a')", "SELECT hex(tessera_npy('/disk/d', 'a'))",
              "SELECT slice FROM tessera_partitions('db:t', 3)", "SELECT * FROM tessera_check('/disk/t')",
              "SELECT * FROM tessera_check('/disk/d')"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"}};

static const scenario queries = {
    .name = "queries",
    .copies = {"new/timetravel/sparse", "/disk/t", "new/enums/sparse", "/disk/e", "new/labels/increasing_float",
               "/disk/l"},
    .setup =
        {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', threads=2)",
         "CREATE VIRTUAL TABLE e USING tessera('/disk/e')", "CREATE VIRTUAL TABLE l USING tessera('/disk/l')",
         "CREATE TABLE p(k PRIMARY KEY, v)", "INSERT INTO p VALUES(1, 'one'), (3, 'three'), (4, NULL)",
         "CREATE VIRTUAL TABLE grid USING tessera_query(SELECT r/2 AS k, c, count(*), sum(a), min(s) FROM t GROUP BY "
         "1, 2)",
         "CREATE VIRTUAL TABLE hashed USING tessera_query(SELECT s, a % 3 AS m, count(DISTINCT a), median(c), max(a), "
         "stddev(c) FROM t GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 3, 1, 2)",
         "CREATE VIRTUAL TABLE cells USING tessera_query(SELECT r, c + 0.5 AS x, s FROM t WHERE a % 2 = 1 OR s LIKE "
         "'%a%')",
         "CREATE VIRTUAL TABLE names USING tessera_query(SELECT a_str || '+' AS n, max(plain), r, count(*) FROM e "
         "WHERE upper(a_str) <> 'RED' GROUP BY 1)",
         "CREATE VIRTUAL TABLE joined USING tessera_query(SELECT p.v, sum(a), count(*) FROM t LEFT JOIN p ON p.k = t.r "
         "GROUP BY 1)",
         "CREATE VIRTUAL TABLE labelled USING tessera_query(SELECT round(lat) AS b, sum(a) FROM l WHERE lat > 1.5 "
         "GROUP "
         "BY 1)"},
    .steps = {"SELECT * FROM grid", "SELECT * FROM grid WHERE k BETWEEN 1 AND 2", "SELECT * FROM hashed",
              "SELECT * FROM cells LIMIT 7", "SELECT * FROM names WHERE n > 'b'", "SELECT * FROM joined",
              "SELECT * FROM labelled",
              "CREATE VIRTUAL TABLE q USING tessera_query(SELECT r, max(a), c FROM t(1700000000000) GROUP BY r)",
              "SELECT * FROM q", "SELECT hex(tessera_npy('SELECT avg(a) FROM l GROUP BY r, c'))",
              "SELECT tessera_preview('SELECT max(a) FROM l GROUP BY r, c')", "DROP TABLE q"},
    .extra = true, /* queries are kept in the database alone */
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)", "SELECT * FROM grid"}};

static const scenario texts = {.name = "texts",
                               .copies = {"new/sparse/string_2d", "/disk/s", "new/sparse/var_numeric_attrs", "/disk/v",
                                          "new/evolution/add_drop_sparse", "/disk/d"},
                               .setup = {"CREATE VIRTUAL TABLE s USING tessera('/disk/s')",
                                         "CREATE VIRTUAL TABLE v USING tessera('/disk/v')",
                                         "CREATE VIRTUAL TABLE d USING tessera('/disk/d', as_of=12)"},
                               .steps = {"SELECT * FROM s WHERE k >= 'a' AND l GLOB 'b*' OR k IN ('x', 'alpha', '')",
                                         "SELECT * FROM v WHERE x < 20", "SELECT count(*) FROM d"},
                               .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"}};

static const scenario looking = {
    .name = "looking inside",
    .copies = {"new/timetravel/sparse", "/disk/t", "new/enums/sparse", "/disk/e", "new/groups", "/disk/g"},
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t')", "CREATE VIRTUAL TABLE e USING tessera('/disk/e')"},
    .steps = {"SELECT * FROM e", "SELECT * FROM tessera_array('/disk/t')", "SELECT * FROM tessera_schema('/disk/e')",
              "SELECT * FROM tessera_fragments('/disk/t')", "SELECT * FROM tessera_tiles('/disk/t') LIMIT 20",
              "SELECT * FROM tessera_objects('/disk/g') LIMIT 10", "SELECT tessera_ddl('/disk/e')",
              "SELECT * FROM tessera_advise('/disk/t')"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"}};

static const scenario blocks = {.name = "blocks",
                                .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, y INT32 "
                                          "DIMENSION(0, 9, 5), x INT32 DIMENSION(0, 9, 4), a "
                                          "INT16)",
                                          "INSERT INTO t VALUES(0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 1, 4)"},
                                .steps = {"SELECT tessera_write_npy('db:t', 'a', tessera_npy('db:t', 'a', "
                                          "'{\"y\":[0,1],\"x\":[0,1]}'), '{\"y\":4,\"x\":3}')"},
                                .again = {"INSERT INTO t VALUES(9, 9, 99)"}};

static const scenario hidden = {
    .name = "hidden",
    .setup = {"CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 100), a INT)", "INSERT INTO w VALUES(1, 1)",
              "CREATE VIRTUAL TABLE q USING tessera_query(SELECT count(*) AS n FROM w)"},
    .steps = {"SELECT tessera_hide('db:q')", "SELECT tessera_hide('db:w')", "SELECT tessera_attach()",
              "INSERT INTO w VALUES(2, 2)", "SELECT tessera_show('db:w')", "SELECT tessera_show('db:q')"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"},
    .extra = true};

#define FIRST(table) "(SELECT min(time) FROM tessera_log('db:" table "'))"

static const scenario revert = {
    .name = "revert",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 100), a INT, s TEXT)",
              "CREATE VIRTUAL TABLE d USING tessera('/disk/d', kind=dense, x INT DIMENSION(0, 19, 5), a INT)",
              "INSERT INTO t VALUES(1, 1, 'one'), (2, 2, 'two'), (50, 5, 'five')",
              "INSERT INTO d VALUES(1, 1), (2, 2), (11, 3)", "DELETE FROM t WHERE x = 2",
              "UPDATE t SET a = 9 WHERE x = 50", "INSERT OR REPLACE INTO d VALUES(2, 22), (3, 33)"},
    .steps = {"SELECT tessera_revert('db:t', " FIRST("t") ", '{\"x\":[0,10]}')", "BEGIN",
              "SELECT tessera_revert('db:t', " FIRST("t") ")", "SELECT tessera_revert('db:d', " FIRST("d") ")",
              "INSERT INTO t VALUES(77, 7, 'seven')", "COMMIT"},
    .again = {"INSERT INTO t VALUES(33, 3, 'three')", "SELECT tessera_revert('db:d', 0) >= 0"}};

/* Tables in temp that a function makes, replaces and drops, which makes SQLite prepare all statements again. */
static const scenario attached = {
    .name = "attached",
    .setup = {"SELECT tessera_create_group('/disk/g')",
              "CREATE VIRTUAL TABLE t USING tessera('/disk/g/t', x INT DIMENSION(0, 100), a INT)",
              "INSERT INTO t VALUES(1, 1)", "SELECT tessera_add_member('/disk/g', '/disk/g/t')"},
    .steps = {"SELECT tessera_attach('/disk/g', '{\"prefix\":\"p_\"}')", "SELECT count(*) FROM p_t",
              "SELECT tessera_attach('/disk/g', '{\"prefix\":\"p_\"}')",
              "SELECT tessera_attach('/disk/g', '{\"prefix\":\"q_\"}')",
              "SELECT tessera_attach('/disk/g', '{\"prefix\":\"q_\",\"threads\":1}')",
              "SELECT tessera_detach('/disk/g')"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"},
    .extra = true};

/* ---- What else reads and writes arrays --------------------------------------------------------------------------- */

static const scenario grids = {
    .name = "grids",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, y INT32 DIMENSION(0, 7, 4) LABEL lat "
              "FLOAT64, x INT32 DIMENSION(0, 7, 4) LABEL lon FLOAT64, a INT16, f FLOAT32 NOT NULL)",
              "SELECT tessera_write_label('db:t', 'lat', '[10,20,30,40,50,60,70,80]')",
              "SELECT tessera_write_label('db:t', 'lon', '[10,20,30,40,50,60,70,80]')",
              "INSERT INTO t(y, x, a, f) " ROWS(0, 59) "SELECT i / 8, i % 8, nullif(i, 9), i / 2.0 FROM n"},
    .steps =
        {"SELECT * FROM tessera_cover('db:t', 'POLYGON((15 15, 45 15, 45 60, 15 15), (20 18, 40 18, 40 30, 20 18))')",
         "SELECT * FROM tessera_cover('db:t', '{\"type\":\"Polygon\",\"coordinates\":[[[15,15],[45,15],[45,60],"
         "[15,15]]]}', 'centre')",
         "SELECT tessera_sample('db:t', 'f', '{\"lat\":33,\"lon\":44.5}', 'cubic')",
         "SELECT tessera_sample('db:t', 'a', '{\"y\":3,\"x\":4.5}')", "SELECT * FROM tessera_gaps('db:t')",
         "SELECT low, high, cells FROM tessera_gaps('db:t', NULL, 'x')", "SELECT hex(tessera_png('db:t', 'a'))",
         "SELECT tessera_preview('db:t', 'f', '{\"y\":[1,4]}')",
         "SELECT length(tessera_png('db:t', 'f', NULL, '{\"tile\":[1,1,0],\"min\":0,\"max\":30,\"width\":32}'))",
         "SELECT hex(tessera_npy('SELECT y / 2, avg(f) FROM t WHERE f >= 0 GROUP BY 1'))",
         "SELECT tessera_regrid('db:t', '/disk/r', '{\"y\":2,\"x\":2}', 'mean')",
         "SELECT tessera_regrid('db:t', '/disk/m', '{\"y\":3,\"x\":2}', 'mode', '{\"columns\":[\"a\"]}')",
         "SELECT tessera_regrid('db:t', 'db:i', '{\"x\":4}', 'sum')"},
    .again = {"INSERT INTO t(y, x, a, f) VALUES(7, 7, 1, 1)"},
    .also = {"SELECT path, kind FROM tessera_objects('/disk')"},
    .extra = true};

static const scenario streams = {
    .name = "streams",
    .setup =
        {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 100), k TEXT DIMENSION, a INT, s TEXT, "
         "e TEXT ENUM('p', 'q'), d DATE, v INT16[], f FLOAT32, b BOOL, z BLOB NOT NULL)",
         "INSERT INTO t " ROWS(1, 9) "SELECT i, 'k' || i % 3, nullif(i, 4), 's' || i, char(112 + i % 2), "
                                     "'2024-01-0' || i, '[1,2]', i / 2.0, i % 2, x'01' FROM n",
         "CREATE VIRTUAL TABLE d USING tessera('/disk/d', kind=dense, y INT DIMENSION(0, 7, 4) LABEL l FLOAT64, x "
         "INT DIMENSION(0, 3, 4), a INT)",
         "SELECT tessera_write_label('db:d', 'l', '[1,2,3,4,5,6,7,8]')",
         "INSERT INTO d(y, x, a) VALUES(1, 1, 1), (6, 2, 5)"},
    .steps = {STREAM("SELECT tessera_stream('db:t')"),
              STREAM("SELECT tessera_stream('db:t', '{\"x\":[2,8]}', '{\"columns\":[\"s\",\"x\",\"e\",\"z\"],\"where\":"
                     "[[\"a\",\">\",2],[\"e\",\"in\",[\"p\",\"q\"]],[\"s\",\"is not\",null]],\"order\":[\"x\","
                     "[\"k\",\"desc\"]],\"strings\":\"view\",\"batch_rows\":2}')"),
              STREAM("SELECT tessera_stream('db:t', NULL, '{\"enums\":\"label\",\"strings\":\"small\",\"datetimes\":"
                     "\"integer\"}')"),
              STREAM("SELECT tessera_stream('db:d', NULL, '{\"columns\":[\"l\",\"a\",\"x\"]}')"),
              STREAM("SELECT tessera_rows('SELECT * FROM t ORDER BY x')"),
              STREAM("SELECT tessera_rows('SELECT e, count(*), max(f), min(d) FROM t GROUP BY 1')"),
              STREAM("SELECT tessera_rows('SELECT x, s, a FROM t WHERE a > 2')"),
              "SELECT tessera_create_stream('/disk/n', tessera_stream('db:t'))",
              "SELECT tessera_create_stream('/disk/o', tessera_rows('SELECT a, f, s FROM t WHERE a > 0'), "
              "'{\"dimensions\":[\"a\"],\"kind\":\"sparse\"}')"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"},
    .also = {"SELECT path, kind FROM tessera_objects('/disk')"},
    .extra = true};

static const scenario plain = {
    .name = "plain SQL",
    .copies = {"new/timetravel/sparse", "/disk/t", "new/enums/sparse", "/disk/e"},
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t')", "CREATE TABLE p(k, v)",
              "INSERT INTO p VALUES(1, 'one'), (3, 'three')"},
    .steps =
        {"SELECT row FROM tessera_select('SELECT max(r), ? AS z FROM t', zeroblob(3))",
         "SELECT row FROM tessera_select('SELECT r / 2 AS k, count(*), sum(a) FROM t WHERE c > ? GROUP BY 1', 2)",
         "SELECT row FROM tessera_select('SELECT a_str, count(*) AS n FROM ''/disk/e'' GROUP BY 1 ORDER BY 2, 1')",
         "SELECT row FROM tessera_select('WITH w AS (SELECT r, max(a) AS m FROM t GROUP BY r) SELECT p.v, w.m FROM "
         "w JOIN p ON p.k = w.r UNION ALL SELECT ''all'', max(a) FROM t')",
         "SELECT row FROM tessera_select('SELECT r, c, a, sum(a) OVER (PARTITION BY r ORDER BY c) FROM t WHERE r < "
         "4 ORDER BY 1, 2')",
         "SELECT * FROM tessera_explain('SELECT r, sum(a) FROM t GROUP BY r UNION SELECT c, count(*) FROM t')",
         "SELECT length(tessera_sql('SELECT r, sum(a) FROM t GROUP BY r')) > 9",
         "SELECT length(tessera_sql_within('{\"memory_mb\":4}', 'SELECT sum(a) FROM ''/disk/t'' WHERE r > 1')) > 9"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"},
    .extra = true};

static const scenario windows = {
    .name = "windows",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', kind=dense, y INT32 DIMENSION(0, 7, 4), x INT32 "
              "DIMENSION(0, 7, 4), v FLOAT64, k TEXT)",
              "INSERT INTO t " ROWS(0, 60) "SELECT i / 8, i % 8, nullif(i * 7 % 23, 5) / 2.0, 'k' || i % 3 FROM n",
              "CREATE TABLE w(dy, dx, f)", "INSERT INTO w VALUES(-1, 0, 1), (0, 0, -2.5), (1, 1, 1)",
              "CREATE TABLE b(name, low, high)",
              "INSERT INTO b VALUES('south', 0, 3), ('north', 4, 9), ('none', 90, 99)"},
#define QUERY(name, select) "CREATE VIRTUAL TABLE " name " USING tessera_query(" select ")", "SELECT * FROM " name
    .steps =
        {QUERY("a", "SELECT y, x, avg(v) OVER (PARTITION BY x ORDER BY y ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING), "
                    "v - lag(v) OVER (PARTITION BY x ORDER BY y), median(v) OVER (PARTITION BY y) FROM t"),
         QUERY("c",
               "SELECT x, max(s) AS m FROM (SELECT x, y, sum(v) OVER (PARTITION BY x ORDER BY y) AS s FROM t) GROUP "
               "BY x"),
         QUERY("d",
               "SELECT p.y, p.x, avg(q.v) FROM t p JOIN t q ON q.y BETWEEN p.y - 1 AND p.y + 1 AND q.x BETWEEN p.x "
               "- 1 AND p.x + 1 GROUP BY p.y, p.x"),
         QUERY("e", "SELECT p.y, p.x, sum(q.v * w.f) FROM t p JOIN w JOIN t q ON q.y = p.y + w.dy AND q.x = p.x + w.dx "
                    "GROUP BY p.y, p.x"),
         QUERY("f",
               "SELECT b.name, avg(v), percentile(v, 40) FROM t JOIN b ON t.y BETWEEN b.low AND b.high GROUP BY 1"),
         QUERY("g", "SELECT y / 2 AS r, count(DISTINCT k), max(v) FILTER (WHERE x > 2) FROM t WHERE k IN ('k1', 'k2') "
                    "GROUP BY 1"),
         "DROP TABLE a", "DROP TABLE c", "DROP TABLE d"},
#undef QUERY
    .extra = true,
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"}};

static const scenario checking = {
    .name = "checking",
    .copies = {"new/enums/sparse", "/disk/e", "new/labels/increasing_float", "/disk/l"},
    .setup =
        {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), k TEXT DIMENSION, a INT CHECK(a > "
         "0), s TEXT, capacity=8)",
         "INSERT INTO t " ROWS(1, 20) "SELECT i, 'k' || i % 3, i, 's' || i FROM n", "DELETE FROM t WHERE x = 3",
         "INSERT INTO t VALUES(3, 'k', 33, 'back')", "SELECT tessera_consolidate('db:t')",
         "SELECT tessera_set_metadata('db:t', 'm', '[1,2]', 'UINT16')", "SELECT tessera_create_group('/disk/g')",
         "SELECT tessera_add_member('/disk/g', '/disk/e', 'e')",
         "CREATE VIRTUAL TABLE d USING tessera(kind=dense, y INT DIMENSION(0, 7, 4), x INT DIMENSION(0, 7, 4), v "
         "FLOAT32 "
         "FILTERS(byteshuffle, zstd(2), md5))",
         "INSERT INTO d " ROWS(0, 40) "SELECT i / 8, i % 8, i FROM n"},
    .steps = {"SELECT severity, message FROM tessera_check('db:t')",
              "SELECT severity, message FROM tessera_check('db:d')",
              "SELECT severity, message FROM tessera_check('/disk/e')",
              "SELECT severity, message FROM tessera_check('/disk/l')", "SELECT count(*) FROM tessera_tiles('db:d')",
              "SELECT count(*) FROM tessera_fragments('db:t')", "SELECT key, num FROM tessera_metadata('db:t')",
              "SELECT count(*) FROM tessera_members('/disk/g')",
              "SELECT * FROM tessera_enumeration('/disk/e', 'e_str')", "SELECT count(*) FROM tessera_advise('db:t')",
              "SELECT tessera_ddl('/disk/l')"},
    .again = {"INSERT INTO t VALUES(7, 'z', 77, 'again')"}};

static const scenario changes = {
    .name = "changes",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 100), a INT, s TEXT)",
              "INSERT INTO t VALUES(1, 1, 'one'), (2, 2, 'two'), (50, 5, 'five')", "DELETE FROM t WHERE x = 2",
              "UPDATE t SET a = 9 WHERE x = 50"},
    .steps = {"SELECT length(tessera_token('db:t')) > 9", "CREATE VIRTUAL TABLE temp.c USING tessera_changes(t)",
              "SELECT change, x, old_a, new_a, new_s FROM temp.c(" FIRST("t") ") ORDER BY x",
              "SELECT change, x, new_a FROM temp.c(" FIRST("t") ") WHERE x > 1 AND change = 'update'",
              "SELECT count(*) FROM tessera_log('db:t')", "DROP TABLE temp.c",
              "SELECT tessera_add_check('db:t', 'positive', 'a > 0 AND s <> ''no''')",
              "INSERT INTO t VALUES(9, 4, 'nine')", "SELECT tessera_drop_check('db:t', 'positive')"},
    .again = {"INSERT INTO t VALUES(33, 3, 'three')"}};

/* Each call finds one commit that is new, so that a copy which fails is as before it or as after it. */
#define SYNC(from, to, options) "SELECT tessera_sync('/disk/" from "', '/disk/" to "', '{" options "}') IS NOT NULL"

static const scenario syncs = {
    .name = "syncs",
    .setup = {"CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 100), a INT, s TEXT)",
              "INSERT INTO t VALUES(1, 1, 'one'), (2, 2, 'two'), (50, 5, 'five')",
              "SELECT tessera_set_metadata('/disk/t', 'k', 'first')", SYNC("t", "c", ""),
              "CREATE VIRTUAL TABLE c USING tessera('/disk/c')", "INSERT INTO t VALUES(2, 22, 'new')"},
    .steps = {SYNC("t", "c", ""), "DELETE FROM t WHERE x = 1", SYNC("t", "c", "\"verify\":true"),
              "INSERT INTO c VALUES(70, 7, 'theirs')", SYNC("c", "t", ""),
              "SELECT tessera_set_metadata('/disk/t', 'k', 'second')", SYNC("t", "c", "\"merge\":true"),
              "SELECT tessera_consolidate('db:t') > 0", SYNC("t", "c", ""), "SELECT tessera_vacuum('db:t') > 0",
              SYNC("t", "c", ""), "SELECT tessera_upkeep('/disk/c') IS NOT NULL"},
    .again = {"INSERT INTO t VALUES(33, 3, 'three')"},
    .also = {"SELECT key, value FROM tessera_metadata('/disk/c')"},
    .interleaved = true};

/* A dataset in TileDB-VCF's layout. `info` has DP=7, `fmt` has GT=0/1. */
static const scenario variants = {
    .name = "variants",
    .setup =
        {"CREATE VIRTUAL TABLE t USING tessera('/disk/v/t', contig TEXT DIMENSION, start_pos UINT32 DIMENSION(0, "
         "4294967294), sample TEXT DIMENSION, real_start_pos UINT32 NOT NULL, end_pos UINT32 NOT NULL, alleles ASCII, "
         "filter_ids INT32[], info BLOB, fmt BLOB, duplicates=yes)",
         "CREATE VIRTUAL TABLE h USING tessera('/disk/v/metadata/vcf_headers', sample TEXT DIMENSION, header ASCII)",
         "SELECT tessera_set_metadata('/disk/v/t', 'anchor_gap', 1000, 'UINT32')",
         "INSERT INTO h VALUES('s', '##INFO=<ID=DP,Number=1,Type=Integer,Description=\"d\">' || char(10) || "
         "'##FORMAT=<ID=GT,Number=1,Type=String>' || char(10) || '##FILTER=<ID=q10>' || char(10) || '##contig=<ID=1>')",
         "INSERT INTO t VALUES('1', 4, 's', 4, 4, 'A,C', '[1,3]', "
         "x'01000000445000010000000100000007000000', x'0100000047540001000000020000000200000004000000'), "
         "('1', 9, 's', 9, 9, 'A', '[1,0]', NULL, NULL)",
         "DROP TABLE h"},
    .steps = {"CREATE VIRTUAL TABLE temp.v USING tessera_vcf('/disk/v/t')", "SELECT * FROM temp.v('1:1-100')",
              "SELECT pos, info_DP, gt FROM temp.v WHERE sample = 's' AND contig = '1'",
              "CREATE VIRTUAL TABLE temp.f USING tessera_vcf_fields('/disk/v/t')", "SELECT * FROM temp.f",
              "CREATE VIRTUAL TABLE temp.s USING tessera_vcf_samples('/disk/v/t')", "SELECT sample FROM temp.s"},
    .again = {"CREATE TABLE z(x)", "INSERT INTO z VALUES(1)"},
    .extra = true};

const scenario *const scenarios[] = {
    &sparse,  &transaction, &deletes,       &dense,        &version_3,    &version_9,   &version_12,       &two_arrays,
    &filters, &create,      &definitions,   &drop,         &copies,       &create_as,   &labels,           &exchange,
    &evolve,  &metadata,    &groups,        &merge_sparse, &merge_dense,  &merge_9,     &merge_duplicates, &merge_12,
    &purge,   &inside,      &inside_upkeep, &reading,      &queries,      &texts,       &looking,          &blocks,
    &spill,   &busy,        &busy_old,      &late_dense,   &late_sources, &late_sparse, &late_old,         &spill_dense,
    &hidden,  &attached,    &revert,        &grids,        &streams,      &plain,       &changes,          &variants,
    &syncs,   &windows,     &checking,      NULL};
