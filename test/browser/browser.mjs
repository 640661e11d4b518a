// The package in a page. Each exported function returns a list of what was wrong; all.py calls them one after the other.
import { open } from "../package/index.js";
import { CASES, CROSS_ORIGIN, runCases } from "./cases.mjs";

export async function cases(here, other, expected) {
  const wrong = [];
  for (let k = 0; k < 3; k++) { // the browser's cache keeps ranges of the version before
    const db = await open(`${here}/as/cached/page/demo.db`).catch((error) => ({ query: () => Promise.reject(error), close() {} }));
    const { rows } = await db.query("SELECT sum(elevation) FROM relief").catch((error) => ({ rows: error.message }));
    if (rows?.[0]?.[0] !== expected[0][0]) wrong.push(`opened again, ${k}: ${rows}`);
    await db.close();
  }
  return [...wrong, ...(await runCases(open, here, "/demo.db", CASES, expected, "page")), ...(await runCases(open, other, "/demo.db", CROSS_ORIGIN, expected, "other"))];
}

const check = (wrong, what, condition) => condition || wrong.push(what);
const failure = (promise) => promise.then(() => ({ code: "none" }), (error) => error);

/** A database that the browser keeps. */
export async function opfs() {
  const wrong = [], db = await open("opfs:kept/a.db");
  await db.exec("CREATE VIRTUAL TABLE grid USING tessera(kind=dense, y INT32 DIMENSION(0, 99, 10), x INT32 DIMENSION(0, 99, 10), v INT32); CREATE TABLE t(x)");
  await db.exec("INSERT INTO grid WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) SELECT i / 100, i % 100, i FROM n; INSERT INTO t VALUES('first')");
  await db.exec("BEGIN; UPDATE grid SET v = -1 WHERE y = 0; INSERT INTO t VALUES('never'); ROLLBACK");
  check(wrong, "a second connection is refused", (await failure(open("opfs:kept/a.db"))).code === "IN_USE");
  check(wrong, "no name", (await failure(open("opfs:"))).code === "BAD_LOCATION");
  check(wrong, "a path that leads up", (await failure(open("opfs:../a.db"))).code === "BAD_LOCATION");
  const other = await open("opfs:kept/b.db");
  check(wrong, "another database is empty", (await other.query("SELECT count(*) FROM sqlite_schema")).rows[0][0] === 0);
  await other.exec("CREATE TABLE large(x); BEGIN; INSERT INTO large VALUES(zeroblob(3000000)); SAVEPOINT s; UPDATE large SET x = 'small'; ROLLBACK TO s; COMMIT");
  check(wrong, "a savepoint", (await other.query("SELECT length(x) FROM large")).rows[0][0] === 3000000);
  await other.close();
  // A transaction that is open when the page goes: the journal is there, and a part of the database is written.
  await db.exec("PRAGMA cache_size = 5; BEGIN; UPDATE t SET x = 'half'; CREATE TABLE big(x); INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT zeroblob(3000) FROM n");
  return wrong;
}

/** After the page was loaded again: the browser may take a moment to free the files of the page before. */
export async function opfsLater() {
  const wrong = [];
  let db;
  for (let attempt = 0; !db && attempt < 50; attempt++) {
    db = await open("opfs:kept/a.db").catch(() => new Promise((resolve) => setTimeout(resolve, 100)));
  }
  if (!db) return ["the database cannot be opened again"];
  const { rows } = await db.query("SELECT (SELECT count(*) || ' ' || sum(v) FROM grid), (SELECT group_concat(x) FROM t), (SELECT count(*) FROM sqlite_schema WHERE name = 'big'), (SELECT integrity_check FROM pragma_integrity_check)");
  check(wrong, `what was committed is there, and nothing else: ${JSON.stringify(rows)}`, JSON.stringify(rows) === '[["10000 49995000","first",0,"ok"]]');
  const copy = await open(await db.serialize());
  check(wrong, "a copy in memory", (await copy.query("SELECT count(*) FROM grid")).rows[0][0] === 10000);
  await copy.close();
  await db.close();
  const memory = await open(new Blob([new Uint8Array(0)]));
  check(wrong, "an empty blob is an empty database", (await memory.query("SELECT 1")).rows[0][0] === 1);
  await memory.close();
  return wrong;
}
