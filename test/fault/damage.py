"""Damages arrays and groups (files are truncated, extended, overwritten and flipped at random), then opens and reads
them. Each statement must return rows or an SQLite error, in bounded time and memory; and the table can still be
dropped.

usage: damage.py EXTENSION CORPUS [ROUNDS_PER_ARRAY [SEED [PATTERN]]]
"""
import os
import random
import resource
import shutil
import sqlite3
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus"))
import arrays
import read

ROWS = 20000   # rows that are read of one array at most: after damage the domain may have any size
STEPS = 20000000   # bytecode instructions, after which the statement is interrupted


def files_of(directory):
    for folder, _, names in os.walk(directory):
        for name in sorted(names):
            yield os.path.join(folder, name)


def damage(directory, rng):
    """Damages one file in one way. Returns a description for messages."""
    paths = sorted(files_of(directory))
    if not paths:
        return "nothing left to damage"
    path = rng.choice(paths)
    with open(path, "rb") as f:
        data = bytearray(f.read())
    kind = rng.randrange(6)
    at = rng.randrange(len(data)) if data else 0
    if not data or kind == 5:
        if rng.random() < 0.3:
            os.remove(path)
            return f"{path} removed"
        data += rng.randbytes(rng.randrange(1, 64))
    elif kind == 0:
        del data[at:]
    elif kind == 1:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 2:
        data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    elif kind == 3:
        width = rng.choice([4, 8])
        value = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(data), rng.getrandbits(width * 8)])
        data[at:at + width] = (value & (2**(8 * width) - 1)).to_bytes(width, "little")
    else:
        del data[at:at + rng.randrange(1, 16)]
    with open(path, "wb") as f:
        f.write(data)
    return f"{path} changed ({kind} at {at})"


def query(db, statement):
    try:
        cursor = db.execute(statement)
        for _ in range(ROWS // 500):
            if not cursor.fetchmany(500):
                return True
        return True
    except sqlite3.Error as e:
        if not str(e).strip():
            raise AssertionError(f"an error without a message from {statement}")
        return False


def check(extension, directory, key, what):
    db = arrays.connect(extension)
    db.set_progress_handler(lambda: 1, STEPS)
    options = f", key_file={read.literal(key)}" if key else ""
    opened = query(db, f"CREATE VIRTUAL TABLE t USING tessera({read.literal(directory)}, memory_mb=64, cache_mb=16{options})")
    if opened:
        names = [row[1].decode() for row in db.execute("PRAGMA table_info(t)")]
        first = read_quote(names[0])
        for statement in ("SELECT * FROM t", f"SELECT count(*) FROM (SELECT {first} FROM t WHERE {first} > 3 LIMIT {ROWS})",
                          f"SELECT * FROM t WHERE {first} IN (1, 2, 'a') LIMIT 100", "SELECT written_at, rowid FROM t(25, 5) LIMIT 100"):
            query(db, statement)
        if not query(db, "DROP TABLE t"):
            raise AssertionError(f"{what}: the table cannot be dropped")
    look_inside(db, directory, key)
    db.close()
    return opened


def look_inside(db, directory, key):
    if key:
        with open(key, "rb") as f:
            db.execute("SELECT tessera_set_key(?, ?)", (directory, f.read()))
    for table in ("array", "schema", "fragments", "tiles", "metadata", "members", "objects"):
        query(db, f"SELECT * FROM tessera_{table}({read.literal(directory)})")
    query(db, f"SELECT e.* FROM tessera_schema({read.literal(directory)}) s, tessera_enumeration({read.literal(directory)}, s.enumeration) e")
    query(db, f"SELECT tessera_ddl({read.literal(directory)})")


def read_quote(name):
    return '"' + name.replace('"', '""') + '"'


def main():
    extension, corpus = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else int(os.environ.get("DAMAGE_ROUNDS", 2))
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    pattern = sys.argv[5] if len(sys.argv) > 5 else ""
    parts = int(os.environ.get("DAMAGE_PARTS", 1))   # one array in about so many
    done = opened = 0
    with tempfile.TemporaryDirectory() as folder:
        key_path = os.path.join(folder, "key")
        for name, directory, description in [*arrays.find(corpus, pattern), *arrays.find(corpus, pattern, "group")]:
            if zlib.crc32(f"{seed} {name}".encode()) % parts:
                continue
            key = description.get("encryption_key")
            if key:
                with open(key_path, "wb") as f:
                    f.write(key.encode())
            for i in range(rounds):
                rng = random.Random(f"{seed} {name} {i}")
                copy = os.path.join(folder, "array")
                shutil.copytree(directory, copy)
                what = [damage(copy, rng) for _ in range(rng.choice([1, 1, 1, 3]))]
                print(f"{name} round {i}: {'; '.join(what)}".replace(copy, ""), file=sys.stderr, flush=True)
                opened += check(extension, copy, key_path if key else None, name)
                done += 1
                shutil.rmtree(copy)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"damage: {done} passed, 0 failed ({opened} could be opened; peak memory {peak} MB)")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
