"""Keys of encrypted arrays: after a connection is closed they are nowhere in the memory of its process; and at no time
in a file, a schema or a message.

A separate process uses each way of giving a key; this one reads its memory. That process makes the keys byte by byte,
in buffers that it overwrites, so a key that is found was left by the extension.

usage: keys.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import ast
import ctypes
import gc
import os
import subprocess
import sys
import tempfile

import host
from host import Database, Error, same

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from memory_of import memory_of

RIGHT, WRONG = 11, 112
DIGITS = b"0123456789abcdef"


def byte_of(key, i):
    return (i * 37 + key) & 0xff


def write_key_file(path, key, hexadecimal):
    size = 64 if hexadecimal else 32
    buffer = ctypes.create_string_buffer(size)
    for i in range(32):
        if hexadecimal:
            buffer[2 * i], buffer[2 * i + 1] = DIGITS[byte_of(key, i) >> 4], DIGITS[byte_of(key, i) & 15]
        else:
            buffer[i] = byte_of(key, i)
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    same(ctypes.CDLL(None).write(file, buffer, ctypes.c_size_t(size)), size)
    os.close(file)
    ctypes.memset(buffer, 0, size)


def forms():
    """Returns the forms in which both keys could be found: complete, in halves, as hex digits."""
    keys = [bytes(byte_of(key, i) for i in range(32)) for key in (RIGHT, WRONG)]
    return [form for raw in keys for form in (raw[:16], raw[16:], raw.hex().encode(), raw.hex().upper().encode())]


# ---- In the process that has the keys -------------------------------------------------------------------------------

def set_key(db, path, key):
    """Sets a key by tessera_set_key from a buffer. SQLite's own copies of the argument are not the extension's."""
    buffer = bytearray(byte_of(key, i) for i in range(32))
    db.query("SELECT tessera_set_key(?, ?)", (path, memoryview(buffer)))


def use(way):
    """Uses the right key in all ways, and a wrong one. Returns the error messages and the text of the schema."""
    messages = []

    def attempt(sql):
        messages.append(db.error(sql).text or "")
    for name, key in (("right", RIGHT), ("wrong", WRONG)):
        write_key_file(name, key, way == "hex")
    db = Database("a.db")
    option = "" if way == "set" else ", key_file='right'"
    if way == "set":
        set_key(db, "array", RIGHT)
        set_key(db, "db:inside", RIGHT)
    columns = "x INT32 DIMENSION(0, 99, 10), a FLOAT64, s TEXT, encryption=aes_256_gcm"
    db.query(f"CREATE VIRTUAL TABLE outside USING tessera('array', {columns}{option})")
    db.query(f"CREATE VIRTUAL TABLE inside USING tessera({columns}{option})")
    for table in ("outside", "inside"):
        for k in range(3):
            db.query(f"INSERT INTO {table} VALUES({k}, 1, 'x'), ({k + 50}, 2, 'y')")
        db.query(f"DELETE FROM {table} WHERE x = 51")
        same(db.query(f"SELECT count(*), sum(a), max(s) FROM {table}"), [(5, 7.0, "y")])
        same(db.query(f"SELECT * FROM tessera_check('db:{table}') WHERE severity <> 'note'"), [])
        db.query(f"SELECT tessera_set_metadata('db:{table}', 'k', 1), tessera_consolidate('db:{table}'), tessera_vacuum('db:{table}')")
        db.query(f"SELECT * FROM tessera_array('db:{table}'), tessera_fragments('db:{table}'), tessera_metadata('db:{table}')")
        db.query(f"SELECT tessera_ddl('db:{table}'), tessera_copy('db:{table}', 'copy-{table}')")
        db.query(f"INSERT INTO {table} VALUES(90, 1, 'z')")
    db.query("ALTER TABLE inside RENAME TO inner")
    attempt("CREATE VIRTUAL TABLE bad USING tessera('array', key_file='wrong')")
    attempt("CREATE VIRTUAL TABLE bad USING tessera('array', key_file='a.db')")
    attempt("CREATE VIRTUAL TABLE bad USING tessera('array', key_file='nothing')")
    attempt("SELECT tessera_set_key('array', 'short')")
    if way == "set":
        set_key(db, "array", WRONG)
        attempt("SELECT * FROM tessera_metadata('array')")
        db.query("SELECT tessera_set_key('array', NULL)")
        attempt("SELECT * FROM tessera_metadata('array')")
    schema = [text or "" for text, in db.query("SELECT sql FROM sqlite_master")]
    db.close()
    return messages + schema


def child(extension, folder, way):
    """Uses the keys, prints all texts that were shown, and waits while its memory is read."""
    host.EXTENSION, host.FOLDER, host.binding = extension, folder, "sqlite3"
    os.chdir(folder)
    texts = use(way)
    gc.collect()
    for name in ("right", "wrong"):
        os.remove(name)
    print(repr(texts), flush=True)
    sys.stdin.readline()


# ---- In the process that reads---------------------------------------------------------------------------------------

def check(way, memory):
    folder, needles = tempfile.mkdtemp(dir=host.FOLDER), forms()
    command = [sys.executable, os.path.abspath(__file__), "--child", host.EXTENSION, folder, way]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.readline()
        assert said.startswith("["), "the process has failed"
        texts, size = ast.literal_eval(said), 0
        assert len(texts) >= 4
        for text in texts:
            same([needle for needle in needles if needle in text.encode()], [], text)
        for block in memory_of(process.pid) if memory else ():
            size += len(block)
            same([needle.hex() for needle in needles if needle in block], [], f"{way}: in memory after the connection was closed")
        assert size > 1 << 20 or not memory, f"only {size} bytes of memory could be read"
        process.stdin.close()
        same(process.wait(), 0)
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                content = file.read()
            same([needle.hex() for needle in needles if needle in content], [], f"{way}: in the file {name}")


def test_raw_key_files_leave_no_key():
    check("raw", True)


def test_hex_key_files_leave_no_key():
    check("hex", True)


def test_tessera_set_key_leaves_no_copy():
    """The argument of tessera_set_key is also in SQLite's memory, which is not overwritten; the manual says so."""
    check("set", False)


def test_keys_are_found_while_an_array_is_open():
    """Shows that the tests above can find a key."""
    before = os.getcwd()
    os.chdir(tempfile.mkdtemp(dir=host.FOLDER))
    try:
        write_key_file("right", RIGHT, False)
        db = Database("a.db")
        db.query("CREATE VIRTUAL TABLE t USING tessera('array', x INT32 DIMENSION(0, 99, 10), a FLOAT64, encryption=aes_256_gcm, key_file='right')")
        open_now = sum(block.count(forms()[0]) for block in memory_of(os.getpid()))
        db.close()
        gc.collect()
        assert open_now > sum(block.count(forms()[0]) for block in memory_of(os.getpid()))
    finally:
        os.chdir(before)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(*sys.argv[2:])
    else:
        host.main(sys.modules[__name__])
