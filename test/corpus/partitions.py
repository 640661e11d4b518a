"""tessera_partitions for every array of the corpus: each row must be in exactly one part, by the part's condition and
by its slice.

usage: partitions.py EXTENSION CORPUS [QUERIES_PER_ARRAY [SEED [PATTERN]]]
"""
import sys

import aggregate
import read


def check_array(db, directory, description, count, rng, keys):
    option = ""
    if description.get("encryption_key"):
        with open(keys + "/key", "wb") as f:
            f.write(description["encryption_key"].encode())
        option = f", key_file={read.literal(keys + '/key')}"
    db.execute("DROP TABLE IF EXISTS t")
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera({read.literal(directory)}{option})")
    columns = db.execute("PRAGMA table_info(t)").fetchall()
    names, declared = [c[1].decode() for c in columns], [c[2].decode() for c in columns]
    dims = names[:len(description["dims"])]
    attribute = names[len(dims)] if len(names) > len(dims) else None
    rows = db.execute("SELECT " + ",".join(map(aggregate.quote, dims)) + " FROM t LIMIT 2000").fetchall()
    for _ in range(count):
        box, where, parameters = aggregate.random_slice(dims, declared, rows[:50], rng)
        n = rng.choice([1, 2, 3, 7, 20])
        parts = db.execute("SELECT part, slice, condition, tiles, cells, bytes FROM tessera_partitions('db:t', ?, ?)", (n, box)).fetchall()
        total = db.execute(f"SELECT count(*) FROM t{where}", parameters).fetchone()[0]
        found = 0
        if len(parts) > n or [p[0] for p in parts] != list(range(len(parts))) or (total and not parts):
            yield f" {box} {n}: {len(parts)} parts"
        for part, slice_, condition, tiles, cells, stored in parts:
            rows_of = db.execute(f"SELECT count(*) FROM t WHERE {condition.decode()}").fetchone()[0]
            found += rows_of
            if attribute and rows_of:
                same = db.execute("SELECT count + nulls FROM tessera_aggregate('db:t', ?, ?)", (attribute, slice_)).fetchone()[0]
                if same != rows_of:
                    yield f" {box} {n}: {rows_of} rows in {condition}, {same} in {slice_}"
            if description.get("array_type") == "dense" and not where and cells != rows_of:
                yield f" {n}: {cells} cells, {rows_of} rows in {condition}"
        if found != total:
            yield f" {box} {n}: {found} rows in parts, {total} in all: {[p[2] for p in parts]}"


def main():
    queries = failed = 0
    # Not arrays whose filters have moved coordinates out of the domain.
    for name, asked in read.questions(3, "dims_scale_float"):
        queries += asked[3]
        for problem in check_array(*asked):
            failed += 1
            print(f"FAIL {name}{problem}")
    print(f"partitions: {queries} asked for, {failed} failed")
    return 1 if failed or not queries else 0


if __name__ == "__main__":
    sys.exit(main())
