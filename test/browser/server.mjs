// A server of static files that misbehaves when it is told to.
//
// usage: node server.mjs FOLDER[=PREFIX] ...
// It prints its address and listens until its input ends. /DATA is the file DATA below the folders. /as/MODE/ID/DATA is the same file,
// served as MODE says (below); ID is any text, which keeps the state of one test apart. A second port serves the same for another origin.
// /-/log has what was requested since the last /-/log: paths, ranges, and bytes of bodies.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import zlib from "node:zlib";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".png": "image/png", ".svg": "image/svg+xml",
  ".json": "application/json" };
const DATE = "Wed, 25 Nov 2026 20:00:00 GMT", LATER = "Wed, 25 Nov 2026 21:00:00 GMT";
const PAGE = Buffer.from("<!doctype html><title>the first page</title>");
const folders = process.argv.slice(2).map((text) => text.split("=")).map(([folder, prefix = "/"]) => ({ folder, prefix }));
const seen = new Map(); // MODE/ID -> number of requests so far
let log = [];

// What a mode changes of a right answer { status, headers, body }. `n` counts the requests of one test from 1.
const MODES = {
  good: () => {},
  "no-ranges": (a, q) => Object.assign(a, { status: 200, headers: { ETag: '"a"' }, body: q.whole }),
  "ignores-later": (a, q) => q.n > 1 && Object.assign(a, { status: 200, headers: { ETag: '"a"' }, body: q.whole }),
  "shifted": (a, q) => q.n > 1 && (a.headers["Content-Range"] = `bytes ${q.first + 1}-${q.last + 1}/${q.whole.length}`),
  "shorter-range": (a, q) => {
    if (q.n < 2) return;
    a.body = a.body.subarray(0, 100);
    a.headers["Content-Range"] = `bytes ${q.first}-${q.first + 99}/${q.whole.length}`;
  },
  "says-less": (a, q) => q.n > 1 && (a.body = a.body.subarray(0, 100)),
  "says-more": (a, q) => q.n > 1 && (a.body = Buffer.concat([a.body, a.body])),
  "no-content-range": (a) => delete a.headers["Content-Range"],
  "size-unknown": (a, q) => (a.headers["Content-Range"] = `bytes ${q.first}-${q.last}/*`),
  "nonsense-range": (a) => (a.headers["Content-Range"] = "bytes all of them"),
  "changes-etag": (a, q) => q.n > 1 && (a.headers.ETag = '"b"'),
  "changes-modified": (a, q) => (delete a.headers.ETag, (a.headers["Last-Modified"] = q.n > 1 ? LATER : DATE)),
  "changes-size": (a, q) => q.n > 1 && (a.headers["Content-Range"] = a.headers["Content-Range"].replace(/\d+$/, (s) => Number(s) + 4096)),
  "shrinks": (a, q) => q.n > 1 && Object.assign(a, { status: 416, headers: { "Content-Range": "bytes */4096" }, body: Buffer.alloc(0) }),
  "vanishes": (a, q) => q.n > 1 && Object.assign(a, { status: 404, headers: {}, body: Buffer.from("gone") }),
  "modified-only": (a) => (delete a.headers.ETag, (a.headers["Last-Modified"] = DATE)),
  "weak-etag": (a, q) => (a.headers.ETag = q.n % 2 ? 'W/"a"' : '"a"'),
  "no-version": (a) => delete a.headers.ETag,
  "gzip": (a) => ((a.headers["Content-Encoding"] = "gzip"), (a.body = zlib.gzipSync(a.body))),
  "gzip-if-allowed": (a, q) => {
    if (!/gzip/.test(q.headers["accept-encoding"] ?? "")) return;
    Object.assign(a, { status: 200, headers: { "Content-Encoding": "gzip", ETag: '"a"' }, body: zlib.gzipSync(q.whole) });
  },
  "busy-twice": (a, q) => q.n % 3 !== 0 && Object.assign(a, { status: 503, headers: { "Retry-After": "0" }, body: Buffer.from("busy") }),
  "busy": (a) => Object.assign(a, { status: 503, headers: {}, body: Buffer.from("busy") }),
  "busy-later": (a, q) => q.n > 1 && Object.assign(a, { status: 502, headers: {}, body: Buffer.from("busy") }),
  "forbidden": (a) => Object.assign(a, { status: 403, headers: {}, body: Buffer.from("no") }),
  "teapot": (a) => Object.assign(a, { status: 418, headers: {}, body: Buffer.from("tea") }),
  "cut-twice": (a, q) => (a.cut = q.n % 3 !== 1),
  "cut": (a, q) => (a.cut = q.n > 1),
  "cut-at-once": (a) => (a.cut = true),
  "slow": (a) => (a.delay = 150),
  "drips": (a) => (a.drip = true),
  "stalls": (a, q) => (a.delay = q.n > 1 ? 60000 : 0),
  "stalls-at-once": (a) => (a.delay = 60000),
  "redirect": (a, q) => q.n === 1 && Object.assign(a, { status: 302, headers: { Location: q.url.replace("/redirect/", "/good/") }, body: Buffer.alloc(0) }),
  "empty": (a) => Object.assign(a, { status: 416, headers: { "Content-Range": "bytes */0" }, body: Buffer.alloc(0) }),
  "page": (a) => Object.assign(a, { status: 200, headers: { "Content-Type": "text/html; charset=utf-8", ETag: '"a"' }, body: PAGE }),
  "page-in-ranges": (a, q) => {
    a.body = PAGE.subarray(q.first, q.last + 1);
    Object.assign(a.headers, { "Content-Type": "text/html", "Content-Range": `bytes ${q.first}-${q.first + a.body.length - 1}/${PAGE.length}` });
  },
  "typed-as-page": (a) => (a.headers["Content-Type"] = "text/html"),
  "garbage": (a) => a.body.fill(7),
  "garbage-later": (a, q) => q.n > 1 && a.body.fill(7),
  // A server whose answers may be cached, with a new version whenever the file is opened.
  "cached": (a, q) => {
    const key = `version ${q.url}`;
    if (q.first === 0) seen.set(key, (seen.get(key) ?? 0) + 1);
    a.headers.ETag = `"${seen.get(key)}"`;
    a.headers["Cache-Control"] = "max-age=3600";
  },
  // Of another origin:
  "cors-none": (a) => (a.cors = false),
  "cors-hidden": (a) => (a.expose = null),
  "cors-no-etag": (a) => ((a.expose = "Content-Range"), (a.headers["Last-Modified"] = DATE)),
};

function find(name) {
  for (const { folder, prefix } of folders) {
    if (!name.startsWith(prefix)) continue;
    const file = path.join(folder, path.normalize("/" + name.slice(prefix.length)));
    if (fs.existsSync(file) && fs.statSync(file).isFile()) return file;
    if (fs.existsSync(path.join(file, "index.html"))) return path.join(file, "index.html");
  }
  return null;
}

function answer(request, response) {
  const url = new URL(request.url, "http://x"), name = decodeURIComponent(url.pathname);
  if (name === "/-/log") {
    response.end(JSON.stringify(log));
    log = [];
    return;
  }
  const special = /^\/as\/([^/]+)\/([^/]+)(\/.*)$/.exec(name), mode = special ? special[1] : "good";
  const file = find(special ? special[3] : name);
  const other = request.socket.localPort !== ports[0];
  const a = { status: 404, headers: {}, body: Buffer.from("not found\n"), cors: other, expose: "Content-Range, ETag" };
  if (name === "/favicon.ico") Object.assign(a, { status: 204, body: Buffer.alloc(0) });
  else if (request.method === "OPTIONS") Object.assign(a, { status: 204, body: Buffer.alloc(0) });
  else if (file) {
    const whole = fs.readFileSync(file), range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const key = special ? special[1] + special[2] : "", n = (seen.get(key) ?? 0) + 1;
    seen.set(key, n);
    const first = range ? Number(range[1]) : 0, last = range ? Math.min(Number(range[2] || Infinity), whole.length - 1) : whole.length - 1;
    Object.assign(a, { status: 200, headers: { ETag: '"a"', "Content-Type": TYPES[path.extname(file)] ?? "application/octet-stream" }, body: Buffer.from(whole.subarray(first, last + 1)) });
    if (range && first >= whole.length) Object.assign(a, { status: 416, headers: { "Content-Range": `bytes */${whole.length}` }, body: Buffer.alloc(0) });
    else if (range) Object.assign(a, { status: 206 }), (a.headers["Content-Range"] = `bytes ${first}-${last}/${whole.length}`);
    MODES[mode](a, { n, first, last, whole, url: request.url, headers: request.headers });
  }
  log.push({ path: name, range: request.headers.range ?? null, status: a.status, bytes: a.body.length });
  const headers = { "Cache-Control": "no-store", ...a.headers, "Content-Length": a.body.length };
  if (a.cors) Object.assign(headers, { "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*" });
  if (a.cors && a.expose) headers["Access-Control-Expose-Headers"] = a.expose;
  setTimeout(() => {
    response.writeHead(a.status, headers);
    if (a.cut) response.write(a.body.subarray(0, a.body.length >> 1), () => request.socket.destroy());
    else if (a.drip) drip(response, a.body, 0);
    else response.end(request.method === "HEAD" ? undefined : a.body);
  }, a.delay ?? 0);
}

function drip(response, body, at) {
  if (at >= body.length) return response.end();
  response.write(body.subarray(at, at + 16384));
  setTimeout(() => drip(response, body, at + 16384), 10);
}

const servers = [http.createServer(answer), http.createServer(answer)];
await Promise.all(servers.map((server) => new Promise((done) => server.listen(0, "127.0.0.1", done))));
const ports = servers.map((server) => server.address().port);
console.log(JSON.stringify({ here: `http://127.0.0.1:${ports[0]}`, other: `http://127.0.0.1:${ports[1]}` }));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
