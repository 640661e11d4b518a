// The package in Node: servers that misbehave, values, files, errors.
//
// usage: node node.mjs PACKAGE ADDRESS DATABASE EXPECTED
// ADDRESS is a server of server.mjs, which has the file DATABASE as /demo.db.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { CASES, runCases } from "./cases.mjs";

const [place, address, file, expected] = process.argv.slice(2); // expected: the native answer to the query of cases.mjs
const { open, TesseraError } = await import(pathToFileURL(path.resolve(place, "node.js")));
const { createEngine } = await import(pathToFileURL(path.resolve(place, "engine.js")));
const { readModule, transport } = await import(pathToFileURL(path.resolve(place, "node-transport.js")));

const tests = {
  async "servers that misbehave are invisible, or clear errors"() {
    assert.deepEqual(await runCases(open, address, "/demo.db", CASES, JSON.parse(expected), "node"), []);
  },

  async "a slice reads a part of the file, a second time nothing"() {
    const db = await open(`${address}/demo.db`), size = fs.statSync(file).size;
    const sql = "SELECT count(*), sum(elevation) FROM relief WHERE y BETWEEN 100 AND 149 AND x BETWEEN 0 AND 99";
    const first = await db.query(sql), second = await db.query(sql), all = await db.traffic();
    assert.deepEqual(first.rows, second.rows);
    assert.equal(first.rows[0][0], 5000);
    assert.equal(second.traffic.requests, 0);
    assert(first.traffic.requests <= 8, `${first.traffic.requests} requests`);
    assert(all.bytes < size / 4, `${all.bytes} of ${size} bytes`);
    console.log(`    a slice of 50 x 100 cells: ${first.traffic.requests} requests, ${first.traffic.bytes} bytes; with opening ${all.requests} and ${all.bytes}`);
    await db.close();
  },

  async "a cache of two blocks gives the same answers"() {
    const db = await open(`${address}/demo.db`, { capacity: 1, block: 4096, ahead: 4096 });
    assert.deepEqual((await db.query("SELECT count(*), sum(elevation) FROM relief")).rows, [[583200, -1105737616]]);
    await db.close();
  },

  async "all kinds of values go in and come back"() {
    const db = await open();
    const values = [null, 0, -1, 1.5, -0, 2 ** 53, 9007199254740993n, -9223372036854775808n, "", "ä𝄞\0b", new Uint8Array([0, 255]), new Uint8Array(0)];
    for (const value of values) {
      const { rows } = await db.query("SELECT ?1, typeof(?1)", [value]);
      if (typeof value === "number" || value === null) assert.equal(rows[0][0], value);
      else assert.deepEqual(rows[0][0], value);
    }
    assert.deepEqual((await db.query("SELECT typeof(?), typeof(?), typeof(?), typeof(?)", [1, 1.5, true, new ArrayBuffer(1)])).rows, [["integer", "real", "integer", "blob"]]);
    assert.deepEqual(await db.all("SELECT :a AS a, @b AS b, $c AS c", { a: 1, "@b": 2, c: 3 }), [{ a: 1, b: 2, c: 3 }]);
    assert.deepEqual(Number((await db.query("SELECT 9223372036854775807")).rows[0][0] - 9223372036854775807n), 0);
    for (const [sql, parameters] of [["SELECT ?", [1, 2]], ["SELECT :a", { b: 1 }], ["SELECT ?", [2n ** 63n]], ["SELECT ?", [Symbol.iterator]], ["SELECT ?", [() => 1]]])
      await assert.rejects(db.query(sql, parameters), (e) => /^BAD_/.test(e.code));
    await db.close();
    await db.close();
    await assert.rejects(db.query("SELECT 1"), (e) => e.code === "CLOSED");
  },

  async "several statements, limits, errors with their statement"() {
    const db = await open();
    const { results } = await db.exec("CREATE TABLE t(x); INSERT INTO t VALUES(1), (2), (3); -- three\nSELECT x FROM t; SELECT count(*) AS n FROM t; /* end */");
    assert.deepEqual(results.map((r) => [r.columns, r.rows]), [[["x"], [[1], [2], [3]]], [["n"], [[3]]]]);
    assert.deepEqual((({ rows, more }) => ({ rows, more }))(await db.query("SELECT x FROM t", [], { limit: 2 })), { rows: [[1], [2]], more: true });
    assert.equal((await db.query("DELETE FROM t WHERE x > 1")).changes, 2);
    await assert.rejects(db.exec("SELECT 1; SELECT * FROM nowhere; SELECT 2"), (e) => e instanceof TesseraError && e.code === "SQLITE_ERROR" && /nowhere/.test(e.message) && /nowhere/.test(e.sql));
    for (const sql of ["tessera_stream('a')", "tessera_rows('SELECT 1')", "tessera_create_stream('a', 'b')"])
      await assert.rejects(db.exec("SELECT " + sql), /WebAssembly has no Arrow streams/);
    await assert.rejects(db.exec("CREATE TABLE u(x UNIQUE); INSERT INTO u VALUES(1), (1)"), (e) => e.code === "SQLITE_CONSTRAINT");
    await assert.rejects(db.query("SELECT tessera_configure('s3://bucket', '{}')"), (e) => /WebAssembly/.test(e.message));
    await assert.rejects(db.query("SELECT * FROM tessera_array('s3://bucket/a')"), (e) => /tessera_configure/.test(e.message));
    await db.close();
  },

  async "a SELECT over columns has the rows of SQLite"() {
    const db = await open(`${address}/demo.db`), counter = "SELECT value FROM tessera_stats WHERE name = 'parts_by_columns'";
    for (const [text, values] of [["SELECT y / 60 AS band, sum(elevation) AS sum FROM relief WHERE x < ? GROUP BY 1 ORDER BY 1", [100]], ["SELECT max(elevation) FROM relief", []], ["SELECT ?", ["x"]]]) {
      const [columns, rows] = [await db.sql(text, values), await db.query(text, values)];
      assert.deepEqual([columns.columns, columns.rows], [rows.columns, rows.rows]);
    }
    assert((await db.query(counter)).rows[0][0] > 0);
    assert.deepEqual((await db.sql("SELECT y FROM relief", [], { limit: 2 })).rows.length, 2);
    await assert.rejects(db.sql("DELETE FROM relief"), (e) => e instanceof TesseraError && /SELECT/.test(e.message));
    await db.close();
  },

  async "a call that has not begun can be taken back"() {
    const db = await open(), controller = new AbortController();
    const long = db.query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT count(*) FROM n");
    const dropped = db.query("CREATE TABLE dropped(x)", [], { signal: controller.signal });
    controller.abort(new Error("no more"));
    await assert.rejects(dropped, /no more/);
    assert.deepEqual((await long).rows, [[300000]]);
    assert.deepEqual((await db.query("SELECT count(*) FROM sqlite_schema")).rows, [[0]]);
    await db.close();
  },

  async "bytes become a database that can be written, and a database becomes bytes"() {
    const bytes = fs.readFileSync(file), db = await open(bytes);
    await db.exec("INSERT INTO states VALUES('XX', 'Nowhere'); UPDATE relief SET elevation = 9999 WHERE y = 0 AND x = 0");
    const copy = await open(await db.serialize());
    assert.deepEqual((await copy.query("SELECT (SELECT state FROM states WHERE code = 'XX'), elevation FROM relief WHERE y = 0 AND x = 0")).rows, [["Nowhere", 9999]]);
    await db.close();
    await copy.close();
    await assert.rejects(open(new Uint8Array(5000).fill(65)), (e) => e.code === "SQLITE_NOTADB");
  },

  async "files: a path, a file URL, none, one that changes"() {
    const copy = `${file}.copy`;
    fs.copyFileSync(file, copy);
    const db = await open(copy, { block: 4096, ahead: 4096 });
    assert.equal((await db.query("SELECT count(*) FROM states")).rows[0][0], 8);
    await assert.rejects(db.query("INSERT INTO states VALUES('YY', 'Elsewhere')"), (e) => e.code === "SQLITE_READONLY");
    fs.appendFileSync(copy, "x");
    await assert.rejects(db.query("SELECT sum(elevation) FROM relief"), (e) => e.code === "CHANGED");
    await db.close();
    const again = await open(pathToFileURL(file).href);
    assert.equal((await again.query("SELECT count(*) FROM moments")).rows[0][0], 12);
    await again.close();
    fs.unlinkSync(copy);
    await assert.rejects(open(copy), (e) => e.code === "NOT_FOUND" && e.message.includes(".copy"));
    await assert.rejects(open("ftp://x/y.db"), (e) => e.code === "BAD_LOCATION");
    await assert.rejects(open("opfs:x.db"), (e) => e.code === "NO_OPFS");
    await assert.rejects(open("http://127.0.0.1:1/x.db"), (e) => e.code === "NETWORK");
  },

  async "time travel, aggregates, pictures, FTS5 and R*Tree behind a URL"() {
    const db = await open(`${address}/demo.db`);
    const months = await db.all("SELECT m.month, (SELECT round(avg(sst), 1) FROM sea(m.at) WHERE j BETWEEN 62 AND 65 AND i BETWEEN 52 AND 56) AS sst FROM moments m");
    assert.equal(months.length, 12);
    assert(new Set(months.map((m) => m.sst)).size > 8, JSON.stringify(months));
    const png = (await db.query("SELECT tessera_png('db:relief', 'elevation', NULL, '{\"width\":270}')")).rows[0][0];
    assert.deepEqual([...png.subarray(1, 4)], [80, 78, 71]);
    await db.close();
    const memory = await open();
    await memory.exec("CREATE VIRTUAL TABLE f USING fts5(t); INSERT INTO f VALUES('an array in a page'); CREATE VIRTUAL TABLE r USING rtree(id, a, b); INSERT INTO r VALUES(1, 2, 3)");
    assert.deepEqual((await memory.query("SELECT (SELECT count(*) FROM f('array')), (SELECT count(*) FROM r WHERE a <= 2), sqrt(4)")).rows, [[1, 1, 2]]);
    await memory.close();
  },

  async "databases in WAL mode, deep and long statements, traps"() {
    const bytes = new Uint8Array(fs.readFileSync(file)), wal = `${file}.wal.db`;
    bytes[18] = bytes[19] = 2;
    fs.writeFileSync(wal, bytes);
    await assert.rejects(open(wal), (e) => e.code === "WAL" && /journal_mode/.test(e.message));
    await assert.rejects(open(bytes), (e) => e.code === "WAL");
    fs.unlinkSync(wal);
    const db = await open();
    assert.deepEqual((await db.query("SELECT " + "1+".repeat(900) + "1")).rows, [[901]]);
    assert.deepEqual((await db.query("SELECT ".padEnd(900000) + "1")).rows, [[1]]);
    assert.equal((await db.query("SELECT * FROM " + "(SELECT * FROM ".repeat(60) + "(SELECT 7 AS x)" + ")".repeat(60))).rows[0][0], 7);
    await assert.rejects(db.query("SELECT " + "(".repeat(3000) + "1" + ")".repeat(3000)), (e) => /^SQLITE_/.test(e.code));
    await assert.rejects(db.query("SELECT zeroblob(2000000000)"), (e) => /^SQLITE_(NOMEM|TOOBIG)/.test(e.code));
    assert.equal((await db.query("SELECT json_extract(?, '$.a')", ['{"a":' + "[".repeat(800) + "]".repeat(800) + "}"])).rows[0][0].length, 1600);
    await db.close();
  },

  async "two databases, one attached to the other"() {
    const db = await open(`${address}/demo.db`);
    await db.exec(`ATTACH '${address}/demo.db' AS other`);
    assert.deepEqual((await db.query("SELECT count(*) FROM other.states a JOIN main.states b USING (code)")).rows, [[8]]);
    await assert.rejects(db.exec(`ATTACH '${address}/none.db' AS none`), (e) => e.code === "NOT_FOUND");
    await db.exec("DETACH other; ATTACH ':memory:' AS memory; CREATE TEMP TABLE t AS SELECT * FROM moments");
    assert.deepEqual((await db.query("SELECT count(*) FROM t")).rows, [[12]]);
    await db.close();
    const memory = await open();
    await memory.exec(`ATTACH '${address}/demo.db' AS demo; ATTACH 'mine.db' AS mine; CREATE TABLE mine.s AS SELECT * FROM demo.states`);
    assert.deepEqual((await memory.query("SELECT count(*) FROM s")).rows, [[8]]);
    await assert.rejects(memory.exec("INSERT INTO demo.states VALUES('a', 'b')"), (e) => e.code === "SQLITE_READONLY");
    assert.deepEqual((await memory.query("SELECT tessera_sync('db:demo.relief_overview_2', 'small') > 0, (SELECT cells FROM tessera_array('small'))")).rows, [[1, 36450]]);
    await memory.close();
  },

  async "functions in JavaScript, in the engine"() {
    const engine = await createEngine({ wasm: readModule(), transport: transport() }), db = await engine.open();
    db.createFunction("twice", (x) => (typeof x === "string" ? x + x : 2 * x), 1);
    db.createFunction("bad", () => { throw new Error("not today"); });
    assert.deepEqual(db.query("SELECT twice(21), twice('ab'), twice(1.5)").rows, [[42, "abab", 3]]);
    assert.throws(() => db.query("SELECT bad(1)"), /not today/);
    const large = db.query("SELECT zeroblob(40000000)").rows[0][0]; // memory grows while it is read
    assert.equal(large.length, 40000000);
    db.close();
  },

  async "many rows do not take a minute"() {
    const db = await open(`${address}/demo.db`);
    const { rows } = await db.query("SELECT y, x, elevation FROM relief WHERE y >= 0");
    assert.equal(rows.length, 270 * 1080);
    await db.close();
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  const began = performance.now();
  try {
    await test();
    console.log(`ok    ${name} (${(performance.now() - began).toFixed(0)} ms)`);
  } catch (error) {
    failed++;
    console.log(`WRONG ${name}: ${error.stack}`);
  }
}
console.log(`${Object.keys(tests).length} tests, ${failed} failed`);
process.exit(failed ? 1 : 0);
