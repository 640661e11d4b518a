"""Compares tessera_aggregate with SQLite's own aggregates over the same rows, for every array of the corpus, with
random attributes, boxes, groups and times.

usage: aggregate.py EXTENSION CORPUS [QUERIES_PER_ARRAY [SEED [PATTERN]]]
"""
import json
import math
import sqlite3
import sys

import read


def quote(name):
    return '"' + name.replace('"', '""') + '"'


def usable(value):
    """Returns True if the value can stand in a slice and means the same in WHERE."""
    if isinstance(value, bytes):
        try:
            return "\0" not in value.decode("utf-8")
        except UnicodeDecodeError:
            return False
    return value is not None and not (isinstance(value, float) and (math.isinf(value) or value == 0))


def plain(value):
    return value.decode("utf-8") if isinstance(value, bytes) else value


def random_slice(dims, declared, rows, rng):
    """Returns (slice as JSON or None, WHERE clause, parameters)."""
    box, terms, parameters = {}, [], []
    for i, dim in enumerate(dims):
        if rng.random() < 0.5 or not rows:
            continue
        pair = [rng.choice(rows)[i], rng.choice(rows)[i]]
        if not all(map(usable, pair)) or type(pair[0]) is not type(pair[1]):
            continue
        if declared[i] == "INTEGER" and isinstance(pair[0], bytes):
            continue  # UINT64 above the signed range: SQL compares it as text
        if declared[i] == "TEXT" and isinstance(pair[0], int):
            continue  # a time without ISO text
        low, high = map(plain, sorted(pair))
        kind = rng.random()
        if kind < 0.2:
            box[dim] = low
            high = low
        elif kind < 0.3:
            box[dim] = [low, None]
        else:
            box[dim] = [low, high]
        terms.append(f"{quote(dim)} >= ?" + ("" if kind >= 0.2 and kind < 0.3 else f" AND {quote(dim)} <= ?"))
        parameters += [low] if kind >= 0.2 and kind < 0.3 else [low, high]
    return (json.dumps(box) if box else None), (" WHERE " + " AND ".join(terms) if terms else ""), parameters


def run(db, sql, parameters):
    try:
        return db.execute(sql, parameters).fetchall()
    except sqlite3.Error as e:
        return str(e).partition(": the sum passes 64 bits: ")[0]   # as SQLite says it


def near(a, b, size):
    """Compares sums of floats: the tolerance depends on `size`, the sum of their absolute values."""
    if not isinstance(a, float) or not isinstance(b, float):
        return a == b
    return a == b or abs(a - b) <= 1e-12 * (size or 0)


def same(got, want, sizes):
    """Returns rows of (keys, count, sum, min, max, mean, nulls)."""
    if isinstance(got, str) or isinstance(want, str) or len(got) != len(want):
        return got == want
    for g, w, s in zip(got, want, sizes):
        if g[:4] != w[:4] or g[5:7] != w[5:7] or g[8] != w[8]:
            return False
        if not near(g[4], w[4], s[0]) or not near(g[7], w[7], (s[0] or 0) / max(1, w[3])):
            return False
    return True


def exact_sums(db, sql, parameters):
    sums = {}
    for *keys, value in db.execute(sql, parameters):
        if isinstance(value, bytes):
            return None
        sums[tuple(keys)] = sums.get(tuple(keys), 0) + (value or 0)
    return sums


def check_array(db, directory, description, count, rng, keys):
    option, key = "", None
    if description.get("encryption_key"):
        key = description["encryption_key"].encode()
        with open(keys + "/key", "wb") as f:
            f.write(key)
        option = f", key_file={read.literal(keys + '/key')}"
    times = [r.get("timestamp") for r in description["reads"] if isinstance(r.get("timestamp"), int)]
    as_of = rng.choice(times) if times and rng.random() < 0.5 else None
    if as_of is not None:
        option += f", as_of={as_of}"
    db.execute("DROP TABLE IF EXISTS t")
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera({read.literal(directory)}{option})")
    columns = db.execute("PRAGMA table_info(t)").fetchall()
    names, declared = [c[1].decode() for c in columns], [c[2].decode() for c in columns]
    dims = names[:len(description["dims"])]
    if len(names) == len(dims):
        return
    rows = db.execute("SELECT " + ",".join(map(quote, dims)) + " FROM t LIMIT 2000").fetchall()
    rng.shuffle(rows)
    for _ in range(count):
        attribute = rng.choice(names[len(dims):])
        box, where, parameters = random_slice(dims, declared, rows[:50], rng)
        by = rng.sample(dims, min(len(dims), rng.choice([0, 0, 1, 1, 2, 3])))
        a, shown = quote(attribute), ",".join([quote(d) for d in by] + ["NULL"] * (3 - len(by)))
        group = f" GROUP BY {','.join(map(quote, by))} ORDER BY {','.join(map(quote, by))}" if by else ""
        asked = json.dumps(by) if len(by) != 1 or rng.random() < 0.3 else by[0]
        rest = f"FROM t{where}{group}"
        want = run(db, f"SELECT {shown}, count({a}), sum({a}), min({a}), max({a}), avg({a}), count(*) - count({a}) {rest}", parameters)
        got = run(db, "SELECT * FROM tessera_aggregate('db:t', ?, ?, ?)", [attribute, box, asked if by else None])
        if want == "integer overflow" and declared[names.index(attribute)] != "INTEGER":
            continue  # sums of text that looks like numbers
        if want == "integer overflow":  # the sum overflows, or only a partial sum does: then tessera's sum is right
            sums = exact_sums(db, f"SELECT {shown}, {a} FROM t{where}", parameters)
            if sums is None:  # with text among the values SQLite's sum depends on their order
                continue
            if (got == "integer overflow") != any(abs(s) > 2**63 - 1 and s != -2**63 for s in sums.values()):
                yield f"{option} {attribute} {box} {by}: {str(got)[:300]}, exact: {str(sums)[:300]}"
            want = run(db, f"SELECT {shown}, count({a}), NULL, min({a}), max({a}), avg({a}), count(*) - count({a}) {rest}", parameters)
            summed = got != "integer overflow"
            got = run(db, f"SELECT key1, key2, key3, count, {'sum' if summed else 'NULL'}, min, max, mean, nulls FROM "
                      "tessera_aggregate('db:t', ?, ?, ?)", [attribute, box, asked if by else None])
            if summed and not isinstance(want, str):
                want = [w[:4] + (sums.get(w[:3]) if w[3] else None, *w[5:]) for w in want]
        sizes = run(db, f"SELECT total(abs({a})) {rest}", parameters)
        if isinstance(sizes, str):
            sizes = [(math.inf,)] * len(want)
        if not same(got, want, sizes):
            yield f"{option} {attribute} {box} {by}: {str(got)[:300]}, SQL: {str(want)[:300]}"


def main():
    queries = failed = taken = 0
    # Not arrays whose filters have moved coordinates out of the domain.
    for name, asked in read.questions(6, "dims_scale_float"):
        queries += asked[3]
        for problem in check_array(*asked):
            failed += 1
            print(f"FAIL {name}{problem}")
        taken += int(asked[0].execute("SELECT value FROM tessera_stats WHERE name = 'tiles_skipped_by_value'").fetchone()[0])
    print(f"aggregate: {queries - failed} passed, {failed} failed; {taken} tiles by their statistics")
    return 1 if failed or not queries or (len(sys.argv) < 6 and not taken) else 0


if __name__ == "__main__":
    sys.exit(main())
