"""The npm package's blocks: what tessera_npy gives is read as a typed array with its shape, and what encodeBlock makes is written by tessera_write_npy.
Its sql() prepares what tessera_sql makes of a text and its values.

usage: node_blocks.py EXTENSION
"""
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "npm")
# A database whose statements are answered by what Python has asked of the extension before; it records what is written.
SCRIPT = """
const fs = require('node:fs');
const { readBlock, writeBlocks, decodeBlock, encodeBlock, sql } = require(process.argv[1]);
const calls = [];
const db = { prepare: (sql) => ({ pluck: () => ({ get: (...values) => { calls.push([sql, values]); return fs.readFileSync(`${values[1]}.npy`); } }) }) };
const bare = { prepare: () => ({ get: (...values) => ({ column: new Uint8Array(fs.readFileSync(`${values[1]}.npy`)) }) }) }; // as node:sqlite answers
const show = (key, value) => (typeof value === 'bigint' ? `${value}` : ArrayBuffer.isView(value) ? [value.constructor.name, ...value] : value);
const found = {};
for (const name of JSON.parse(process.argv[2])) {
  const block = readBlock(db, 'db:t', name, { y: [0, 1] });
  found[name] = block;
  require('node:assert').deepStrictEqual(readBlock(bare, 'db:t', name, { y: [0, 1] }), block);
  fs.writeFileSync(`${name}.out`, encodeBlock(block));
}
writeBlocks({ prepare: (sql) => ({ pluck: () => ({ get: (...values) => { calls.push([sql, values.length]); return 1; } }) }) }, 'db:t',
  { a: { data: new Float32Array(2), shape: [2] }, b: found.f }, { y: 1 });
const asked = [];
const answering = { prepare: (text) => { asked.push(text); return { pluck: () => ({ get: (...values) => { asked.push(values); return 'SELECT 2'; } }) }; } };
asked.push(typeof sql(answering, 'SELECT ?, ?', true, undefined, new Date(0), 1n).pluck); // the driver's statement
sql(answering, 'SELECT 1');
sql(answering, 'SELECT ?, ?', [true, 2]);
sql(answering, "SELECT ':x', :b, [@y], @a /* :c */, :b, $d -- :e", { a: 1, b: new Date(0), d: 'x', more: 5 });
const refused = [() => sql(answering, 1), () => sql(answering, 'SELECT :a', { b: 1 }), () => sql(answering, 'SELECT ?', { b: 1 }), () => encodeBlock({ data: new Float32Array(3), shape: [2] }), () => encodeBlock({ data: [1], shape: [1] }), () => encodeBlock({ data: new Float32Array(1) }), () => encodeBlock(), () => decodeBlock(Buffer.from('x')),
  () => decodeBlock(Buffer.from("\\x93NUMPY\\x01\\x00\\x32\\x00{'descr': '|S3', 'fortran_order': False, 'shape': (1,), }\\n", 'latin1'))].map((act) => {
  try { act(); return 'taken'; } catch (error) { return error.constructor.name; }
});
const unloaded = [];
for (const act of [() => sql({ prepare() { throw new Error('no such function: tessera_sql'); } }, 'SELECT 1'), () => sql({ prepare() { throw new Error('no such column: a'); } }, 'SELECT a')]) {
  try { act(); } catch (error) { unloaded.push(error.message); }
}
const boxes = [];
try { readBlock({ prepare: () => ({ pluck: () => ({ get: (...values) => { boxes.push(values[2]); } }) }) }, 'db:t', 'a', { y: 2n ** 60n, x: [1, 5n] }); } catch { boxes.push('no file'); }
console.log(JSON.stringify({ found, refused, asked, unloaded, boxes, calls: [calls[0][0], calls[0][1][2], calls.at(-1)] }, show));
"""


def main():
    node = shutil.which("node")
    if not node:
        print("SKIPPED: there is no node")
        return 77
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    db.load_extension(os.path.abspath(sys.argv[1]))
    types = {"b": "BOOL", "c": "INT8", "i": "INT16", "u": "UINT32", "l": "INT64", "f": "FLOAT32", "d": "FLOAT64", "t": "DATETIME_DAY", "m": "INT16[2]"}
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in types.items())
    db.execute(f"CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 1, 2), x INT32 DIMENSION(0, 2, 3), {columns})")
    for y in range(2):
        for x in range(3):
            v = 3 * y + x
            db.execute("INSERT INTO t VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (y, x, v % 2, -v, v, v, 2**60 + v, v / 2, v / 4, f"2024-01-0{v + 1}", f"[{v},{-v}]"))
    db.commit()
    with tempfile.TemporaryDirectory() as folder:
        for name in types:
            with open(f"{folder}/{name}.npy", "wb") as f:
                f.write(db.execute("SELECT tessera_npy('db:t', ?)", (name,)).fetchone()[0])
        shutil.copyfile(f"{PACKAGE}/index.js", f"{folder}/index.js")   # beside it lies a package.json that is not filled in yet
        done = subprocess.run([node, "-e", SCRIPT, f"{folder}/index.js", json.dumps(list(types))], cwd=folder, stdout=subprocess.PIPE, text=True, check=True,
                              env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"})
        result = json.loads(done.stdout)
        blocks = [part for name in types for part in (name, open(f"{folder}/{name}.out", "rb").read())]
    n = range(6)
    expected = {"b": ["Uint8Array", *(v % 2 for v in n)], "c": ["Int8Array", *(-v for v in n)], "i": ["Int16Array", *n], "u": ["Uint32Array", *n],
                "l": ["BigInt64Array", *(str(2**60 + v) for v in n)], "f": ["Float32Array", *(v / 2 for v in n)], "d": ["Float64Array", *(v / 4 for v in n)],
                "t": ["BigInt64Array", *(str(19723 + v) for v in n)], "m": ["Int16Array", *(w for v in n for w in (v, -v))]}
    assert {name: block["data"] for name, block in result["found"].items()} == expected, result["found"]
    assert all(block["shape"] == ([2, 3, 2] if name == "m" else [2, 3]) for name, block in result["found"].items()), result["found"]
    assert result["found"]["t"]["unit"] == "D"
    assert result["asked"] == ["SELECT tessera_sql(?, ?, ?, ?, ?)", ["SELECT ?, ?", 1, None, "1970-01-01T00:00:00.000", "1"], "SELECT 2", "function",
                               "SELECT tessera_sql(?)", ["SELECT 1"], "SELECT 2", "SELECT tessera_sql(?, ?, ?)", ["SELECT ?, ?", 1, 2], "SELECT 2",
                               "SELECT tessera_sql(?, ?, ?, ?)", ["SELECT ':x', :b, [@y], @a /* :c */, :b, $d -- :e", "1970-01-01T00:00:00.000", 1, "x"], "SELECT 2"], result["asked"]
    assert result["refused"] == ["TypeError", "RangeError", "RangeError", "RangeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError"], result["refused"]
    assert result["unloaded"] == ["no such function: tessera_sql: call db.loadExtension(getLoadablePath()) first", "no such column: a"], result["unloaded"]
    assert result["boxes"] == ['{"y":"1152921504606846976","x":[1,"5"]}', "no file"], result["boxes"]
    assert db.execute("SELECT tessera_npy('db:t', 'i', ?) = tessera_npy('db:t', 'i', '{\"y\":1}')", ('{"y":"1"}',)).fetchone() == (1,), "digits are coordinates"
    assert result["calls"] == ["SELECT tessera_npy(?, ?, ?)", '{"y":[0,1]}', ["SELECT tessera_write_npy(?, ?, ?, ?, ?, ?)", 6]], result["calls"]
    before = db.execute("SELECT * FROM t ORDER BY y, x").fetchall()
    assert db.execute(f"SELECT tessera_write_npy('db:t'{', ?' * len(blocks)})", blocks).fetchone() == (6,)
    assert db.execute("SELECT * FROM t ORDER BY y, x").fetchall() == before
    own = own_driver(node)
    print(f"typed arrays and blocks are the same; {own}")
    return 0


OWN_DRIVER = """
const { DatabaseSync } = require('node:sqlite');
const { readBlock, writeBlocks, sql } = require(process.argv[1]);
const db = new DatabaseSync(':memory:', { allowExtension: true });
db.loadExtension(process.argv[2]);
db.exec('CREATE VIRTUAL TABLE t USING tessera(kind=dense, y INT32 DIMENSION(0, 1, 2), x INT32 DIMENSION(0, 2, 3), f FLOAT32 NOT NULL)');
const cells = writeBlocks(db, 'db:t', { f: { data: Float32Array.of(1, 2, 3, 4, 5, 6), shape: [2, 3] } });
console.log(cells, ...readBlock(db, 'db:t', 'f', { y: 1 }).data, db.prepare('SELECT sum(f) AS sum FROM t').get().sum);
const text = 'SELECT y, sum(f) AS sum FROM t WHERE x > ? GROUP BY y ORDER BY y';
console.log(sql(db, text, 0).all().map(({ y, sum }) => [y, sum]).join(' '), sql(db, text).all(0).length, sql(db, 'SELECT ? AS a', new Date(0)).get().a);
console.log(db.prepare("SELECT sum(value) AS n FROM tessera_stats WHERE name = 'parts_by_columns'").get().n > 0);
"""


def own_driver(node):
    """Writes and reads blocks with node:sqlite, if this Node has it and the extension can be loaded."""
    if "asan" in os.environ.get("LD_PRELOAD", "") or subprocess.run([node, "-e", "require('node:sqlite')"], capture_output=True).returncode:
        return "node:sqlite was not tried"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(f"{PACKAGE}/index.js", f"{folder}/index.js")
        done = subprocess.run([node, "-e", OWN_DRIVER, f"{folder}/index.js", os.path.abspath(sys.argv[1])], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "6 4 5 6 21\n0,5 1,11 2 1970-01-01T00:00:00.000\ntrue\n", done.stdout
    return "node:sqlite writes and reads them"


if __name__ == "__main__":
    sys.exit(main())
