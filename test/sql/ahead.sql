-- Read-ahead of tiles: not after the first window, not past a LIMIT, and not with one thread.
.load ./tessera
CREATE VIRTUAL TABLE one USING tessera('sql/data/relief', threads=1, cache_mb=0);
CREATE VIRTUAL TABLE two USING tessera('sql/data/relief', threads=2, cache_mb=0);
CREATE VIRTUAL TABLE four USING tessera('sql/data/relief', threads=4, cache_mb=0);
CREATE VIRTUAL TABLE small USING tessera('sql/data/relief', threads=4, cache_mb=0, memory_mb=16);
CREATE TEMP VIEW counted AS SELECT group_concat(name || ' ' || value, ', ') FROM tessera_stats WHERE name IN ('tiles_read', 'tiles_cached', 'tiles_ahead');
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM one;
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM two;
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM four;
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM small;
SELECT * FROM counted;
-- The columns of the predicate are read first, other columns only of tiles in which cells satisfy the predicate.
SELECT tessera_reset_stats();
SELECT count(*), min(y), max(x) FROM two WHERE elevation > 5000;
SELECT * FROM counted;
-- A tile has 8,100 cells.
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM (SELECT elevation FROM two LIMIT 1);
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM (SELECT elevation FROM two LIMIT 24000);
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM (SELECT elevation FROM two LIMIT 40000);
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM (SELECT elevation FROM two LIMIT 200000);
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM (SELECT elevation FROM two ORDER BY y, x LIMIT 400);
SELECT * FROM counted;
CREATE VIRTUAL TABLE kept USING tessera('./sql/data/relief', threads=2);
SELECT tessera_reset_stats();
SELECT sum(elevation) FROM (SELECT elevation FROM kept ORDER BY y, x LIMIT 400);
SELECT * FROM counted;
SELECT tessera_reset_stats();
SELECT elevation FROM two WHERE y = 5 AND x = 7;
SELECT * FROM counted;
