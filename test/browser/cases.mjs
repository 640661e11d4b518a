// What http_vfs must do with the servers of server.mjs: each case is invisible (the answer is right) or a clear error. It runs in Node and,
// in a page of a browser, unchanged.

/** [mode, the code of the error or null, words of its message, options] */
export const CASES = [
  ["good", null],
  ["no-ranges", "NO_RANGES", "ignores Range requests"],
  ["no-ranges", null, "", { whole: true }],
  ["ignores-later", "NO_RANGES", "ignores Range requests"],
  ["shifted", "WRONG_RANGE", "were asked for"],
  ["shorter-range", "WRONG_RANGE", "were asked for"],
  ["says-less", "CUT", "cut: 100 of"],
  ["says-more", "WRONG_RANGE", "instead of"],
  ["no-content-range", "NO_CONTENT_RANGE", "Access-Control-Expose-Headers"],
  ["size-unknown", "WRONG_RANGE", "does not say where"],
  ["nonsense-range", "WRONG_RANGE", "does not say where"],
  ["changes-etag", "CHANGED", 'ETag was "a", it is "b"'],
  ["changes-modified", "CHANGED", "Last-Modified was"],
  ["changes-size", "CHANGED", "bytes, it has"],
  ["shrinks", "CHANGED", "status 416"],
  ["page", "NOT_FOUND", "answers with a web page"],
  ["page", "NOT_FOUND", "answers with a web page", { whole: true }],
  ["page-in-ranges", "NOT_FOUND", "answers with a web page"],
  ["typed-as-page", null],
  ["typed-as-page", null, "", { whole: true }],
  ["vanishes", "NOT_FOUND", "404"],
  ["modified-only", null],
  ["weak-etag", null],
  ["no-version", "NO_VERSION", "neither ETag nor Last-Modified"],
  ["no-version", null, "", { pin: false }],
  ["gzip", "COMPRESSED|NETWORK", "compresses"], // Chromium itself fails, and tells no reason
  ["gzip-if-allowed", null],
  ["busy-twice", null],
  ["busy", "BUSY", "503"],
  ["busy-later", "BUSY", "502"],
  ["forbidden", "REFUSED", "403"],
  ["teapot", "STATUS", "418"],
  ["cut-twice", null],
  ["cut", "NETWORK", "the request failed"],
  ["cut-at-once", "NETWORK", "the request failed"],
  ["slow", null],
  ["drips", null],
  ["stalls", "TIMEOUT", "no answer within 1 s", { timeout: 1000 }],
  ["stalls-at-once", "TIMEOUT", "no answer within 1 s", { timeout: 1000 }],
  ["redirect", null],
  ["empty", "NOT_A_DATABASE", "empty"],
  ["garbage", "SQLITE_NOTADB", "not a database"],
  ["garbage-later", "SQLITE_CORRUPT", "malformed"],
];
/** The same for a server of another origin, in a browser. */
export const CROSS_ORIGIN = [
  ["good", null],
  ["cors-none", "NETWORK", "CORS"],
  ["cors-hidden", "NO_CONTENT_RANGE", "Access-Control-Expose-Headers"],
  ["cors-no-etag", null],
  ["gzip", "NETWORK|COMPRESSED", "compresses"],
];
const QUERY = "SELECT (SELECT sum(elevation) FROM relief) AS land, (SELECT count(*) FROM airports WHERE state = 'CO') AS airports";

/** Runs cases. Returns a list of texts: what was wrong, each with its case. */
export async function runCases(open, address, data, cases, expected, id) {
  const faults = [];
  for (const [i, [mode, code, words = "", options = {}]] of cases.entries()) {
    const url = `${address}/as/${mode}/${id}${i}${data}`;
    let database, found = null, rows = null;
    try {
      database = await open(url, options);
      rows = (await database.query(QUERY)).rows;
    } catch (error) {
      found = error;
    }
    const what = `${mode}${options.whole ? " whole" : ""}`;
    if (!code && found) faults.push(`${what}: ${found.code}: ${found.message}`);
    else if (!code && JSON.stringify(rows) !== JSON.stringify(expected)) faults.push(`${what}: ${JSON.stringify(rows)} instead of ${JSON.stringify(expected)}`);
    else if (code && !found) faults.push(`${what}: no error, but ${JSON.stringify(rows)}`);
    else if (code && !(code.split("|").includes(found.code) && found.message.includes(words))) faults.push(`${what}: ${found.code}: ${found.message}`);
    else if (code && database && ["CHANGED"].includes(code)) { // the database stays unreadable
      const again = await database.query("SELECT count(*) FROM climate").then((r) => r, (error) => error);
      if (again.code !== code) faults.push(`${what}: a later query says ${again.code ?? JSON.stringify(again.rows)}`);
    }
    await database?.close().catch(() => {});
  }
  return faults;
}
