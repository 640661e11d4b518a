"""Columnar queries over encrypted arrays give the rows of the same queries over plain arrays with the same cells: keys of GROUP BY, labels, joins, medians,
kept groups, own uncommitted rows, blocks and pictures, in directories and in the database.

usage: query_encrypted.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import sys

import host
from host import Database, check_contains, same

CUBE = "kind=dense, day INT32 DIMENSION(0, 39, 4), lat INT32 DIMENSION(-3, 2, 3), lon INT32 DIMENSION(0, 4, 5), temp FLOAT32, n INT64, name TEXT, wind TEXT ENUM('calm', 'gale')"
FILL = "INSERT INTO {}_t WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 1199) SELECT i / 30, i / 5 % 6 - 3, i % 5, CASE WHEN i % 11 THEN 270 + i % 37 / 2.0 END, i, 'w' || (i % 4), CASE WHEN i % 3 THEN 'calm' WHEN i % 2 THEN 'gale' END FROM c"
SPARSE = "day DATE DIMENSION('2019-01-01', '2021-12-31', 30), x INT64 DIMENSION(0, 99, 10), v FLOAT64, wind TEXT ENUM('calm', 'gale'), dt DATETIME, capacity=20"

TEXTS = [   # over {0}_t, dense, and {0}_s, sparse
    "SELECT * FROM {0}_t", "SELECT * FROM {0}_s", "SELECT day / 7 AS k, count(*), avg(temp), sum(n) FROM {0}_t WHERE temp > 275 GROUP BY 1", "SELECT lat, lon, min(temp), max(temp), count(temp) FROM {0}_t GROUP BY 1, 2", "SELECT wind, count(*), max(name) FROM {0}_t GROUP BY wind",
    "SELECT name, n % 5 AS k, total(temp) FROM {0}_t GROUP BY 1, 2 HAVING count(*) > 3 ORDER BY 1, 2", "SELECT median(temp), percentile(n, 90), stddev(temp), variance(n), count(DISTINCT name) FROM {0}_t", "SELECT wind, median(v) FROM {0}_s GROUP BY 1", "SELECT day, lat, lon, max(temp) FROM {0}_t",
    "SELECT strftime('%m', day) AS month, avg(v), count(*) FROM {0}_s GROUP BY 1", "SELECT day, x, v * 2 AS w FROM {0}_s WHERE wind = 'calm' AND day >= '2020-02-01'", "SELECT count(*), min(dt), max(dt) FROM {0}_s WHERE dt > '2020-01-03'", "SELECT DISTINCT wind, name FROM {0}_t", "SELECT n FROM {0}_t ORDER BY temp DESC, n LIMIT 7",
    "SELECT a.day AS d, count(b.n), max(a.temp - b.temp) FROM {0}_t a LEFT JOIN {0}_t b ON b.day = a.day / 2 AND b.lat = a.lat AND b.lon = a.lon GROUP BY 1", "SELECT t.day / 10 AS k, max(t.temp - m.mean), count(*) FROM {0}_t t JOIN {0}_means m ON m.day = t.day GROUP BY 1",
    "SELECT words.word AS word, count(*) FROM {0}_t t LEFT JOIN words ON words.id = t.lat GROUP BY 1", "SELECT count(*), sum(n) FROM {0}_t WHERE day BETWEEN 3 AND 9 AND lat % 2 = 0"]
AROUND = ["SELECT words.id, m.mean FROM words LEFT JOIN {0}_means m ON m.day = words.id", "SELECT a.day, b.mean FROM {0}_means a JOIN {0}_means b ON b.day = a.day + 1", "SELECT day, mean FROM {0}_means WHERE day IN (1, 5, 39)",
          "SELECT count(*), sum((SELECT mean FROM {0}_means m WHERE m.day = numbers.value)) FROM numbers"]


def opened(place):
    """Makes the arrays plain, as p_t and p_s, and encrypted, as e_t and e_s."""
    os.chdir(host.FOLDER)
    with open("key", "wb") as file:
        file.write(bytes(range(32)))
    db = Database(":memory:" if place == "directory" else "held.db")
    for prefix, option in (("p", ""), ("e", "key_file='key', encryption=aes_256_gcm, ")):
        for name, columns in (("t", CUBE), ("s", SPARSE)):
            at = f"'{prefix}_{name}', " if place == "directory" else ""
            db.query(f"CREATE VIRTUAL TABLE {prefix}_{name} USING tessera({at}{option}{columns})")
        db.query(FILL.format(prefix))
        db.query("BEGIN")
        for i in range(60):
            db.query(f"INSERT INTO {prefix}_s VALUES(date('2020-01-01', ?), ?, ?, ?, datetime('2020-01-01', ?))", (f"{i * 7} days", i % 100, i / 4, "calm" if i % 3 else None, f"{i * 5} hours"))
        db.query("COMMIT")
        db.query(f"UPDATE {prefix}_t SET temp = 300, name = 'é' WHERE day % 9 = 2 AND lon = 3")
        db.query(f"CREATE VIRTUAL TABLE {prefix}_means USING tessera_query(SELECT day, avg(temp) AS mean FROM {prefix}_t GROUP BY day)")
    db.query("CREATE TABLE words(id INTEGER PRIMARY KEY, word)")
    db.query("INSERT INTO words VALUES(-2, 'b'), (0, 'zero'), (1, NULL), (39, 'last')")
    db.query("CREATE TABLE numbers(value)")
    db.query("INSERT INTO numbers WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 99) SELECT i % 45 FROM c")
    return db


def compare(db, what):
    for options in ("", "threads=3, memory_mb=2, "):
        for text in TEXTS:
            found = {}
            for prefix in "pe":
                db.query(f"CREATE VIRTUAL TABLE {prefix}_q USING tessera_query({options}{text.format(prefix)})")
                found[prefix] = db.query(f"SELECT * FROM {prefix}_q")
                db.query(f"DROP TABLE {prefix}_q")
            assert found["p"], text
            same(found["e"], found["p"], f"{what}: {text}")
    for text in AROUND:
        same(db.query(text.format("e")), db.query(text.format("p")), f"{what}: {text}")


def test_encrypted_arrays_give_the_rows_of_plain_ones():
    for place in ("directory", "database"):
        db = opened(place)
        compare(db, place)
        db.query("BEGIN")
        for prefix in "pe":
            db.query(f"UPDATE {prefix}_t SET n = -n WHERE lat = 1")
            db.query(f"DELETE FROM {prefix}_s WHERE x < 10")
            db.query(f"INSERT INTO {prefix}_s VALUES('2021-05-05', 7, 1.5, 'gale', NULL)")
        compare(db, f"{place}, in a transaction")
        db.query("COMMIT")
        compare(db, f"{place}, afterwards")
        db.close()


def test_blocks_and_pictures_of_encrypted_arrays():
    for place in ("directory", "database"):
        db = opened(place)
        for function in ("npy", "png", "preview"):
            text = "SELECT avg(temp) FROM {0}_t GROUP BY lat, lon"
            same(db.value(f"SELECT tessera_{function}(?)", (text.format("e"),)), db.value(f"SELECT tessera_{function}(?)", (text.format("p"),)), f"{place}: {function}")
        db.close()


def test_without_the_key_nothing_is_read():
    db = opened("directory")
    db.query("CREATE VIRTUAL TABLE e_q USING tessera_query(SELECT lat, max(n) FROM e_t GROUP BY 1)")
    same(len(db.query("SELECT * FROM e_q")), 6)
    with open("key", "wb") as file:
        file.write(bytes(32))
    other = Database()
    e = other.error("CREATE VIRTUAL TABLE e_t USING tessera('e_t', key_file='key')")
    check_contains(e.text, "key")
    check_contains(other.error("CREATE VIRTUAL TABLE e_q USING tessera_query(SELECT lat, max(n) FROM e_t GROUP BY 1)").text, "no such table: main.e_t")
    other.close()
    db.close()


if __name__ == "__main__":
    host.main(sys.modules[__name__])
