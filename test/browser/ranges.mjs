// The cache of ranges, without WebAssembly: it runs in every Node. usage: node ranges.mjs ROOT
import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(path.resolve(process.argv[2], "ext/wasm", name)));
const { Ranges } = await load("ranges.js"), { RemoteFile } = await load("http.js");

const SIZE = 100_003, file = Uint8Array.from({ length: SIZE }, (_, i) => (i * 7919) >> 3);
const fetches = [];
const make = (limits) => new Ranges(SIZE, (first, count) => {
  assert(first >= 0 && count > 0 && first + count <= SIZE, `${first} + ${count}`);
  fetches.push([first, count]);
  return file.slice(first, first + count);
}, limits);
const right = (ranges, at, count) => {
  const to = new Uint8Array(count), got = ranges.read(to, at);
  assert.equal(got, Math.max(0, Math.min(count, SIZE - at)));
  assert.deepEqual(to.subarray(0, got), file.subarray(at, at + got));
};

// One read that lacks several blocks is one fetch; what is there is not fetched again.
let r = make({ block: 1024 });
right(r, 3000, 3000);
assert.deepEqual(fetches.splice(0), [[2048, 4096]]);
right(r, 2048, 4096);
assert.deepEqual(fetches.splice(0), []);

// A sequence of reads is fetched in pieces that double, up to the limit; the end of the file ends it.
r = make({ block: 1024, ahead: 8192 });
for (let at = 0; at < SIZE; at += 512) right(r, at, 512);
assert.deepEqual(fetches.splice(0).map(([, count]) => count / 1024).slice(0, 6), [1, 2, 4, 8, 8, 8]);

// Two sequences that take turns are both found.
r = make({ block: 1024, ahead: 8192 });
for (let k = 0; k < 30; k++) right(r, k * 1024, 1024), right(r, 50_000 + k * 1024, 1024);
assert(fetches.splice(0).length < 14);

// Reads of a little in each block do not make fetches longer.
r = make({ block: 1024, ahead: 8192 });
for (let at = 0; at < 20_000; at += 1024) right(r, at, 100);
assert(fetches.splice(0).every(([, count]) => count === 1024));

// A fetch ends before a block that is there.
r = make({ block: 1024 });
right(r, 4096, 10);
right(r, 0, 5000);
assert.deepEqual(fetches.splice(0), [[4096, 1024], [0, 4096]]);

// The cache is bounded, and drops what was not used for the longest time.
r = make({ block: 1024, capacity: 4096, ahead: 1024 });
for (const at of [0, 10_240, 20_480, 30_720]) right(r, at, 1);
right(r, 0, 1);
right(r, 40_960, 1);
fetches.splice(0);
right(r, 0, 1);
assert.deepEqual(fetches.splice(0), []);
right(r, 10_240, 1);
assert.equal(fetches.splice(0).length, 1);
assert(r.cached <= 4096);

// At and past the end of the file; the last block is short.
right(r, SIZE - 5, 100);
right(r, SIZE, 10);
right(r, SIZE + 1e9, 10);

// Bytes that came with the first answer are not fetched again; those of a block that is not whole are.
r = make({ block: 1024 });
fetches.splice(0);
r.seed(file.slice(0, 2500));
right(r, 0, 2048);
assert.deepEqual(fetches.splice(0), []);
right(r, 2048, 10);
assert.equal(fetches.splice(0)[0][0], 2048);

// Random reads, with small caches: always the bytes of the file.
let seed = 1;
const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
for (const limits of [{ block: 512, capacity: 1 }, { block: 4096, capacity: 16384, ahead: 65536 }, { block: 777, ahead: 10_000 }]) {
  r = make(limits);
  for (let k = 0; k < 400; k++) right(r, random(SIZE + 100), 1 + random(9000));
}
assert.throws(() => make({ block: 0 }), RangeError);

// A file is checked answer by answer; errors that may pass are tried again, with pauses in between.
const answers = [], pauses = [];
const transport = {
  get: (url, headers) => {
    const [, first, last] = /bytes=(\d+)-(\d+)/.exec(headers.Range).map(Number), change = answers.shift() ?? {};
    const end = Math.min(last, SIZE - 1);
    const known = { etag: '"1"', "content-range": `bytes ${first}-${end}/${SIZE}`, ...change.headers };
    return { status: change.status ?? 206, header: (name) => known[name.toLowerCase()] ?? null, body: file.slice(first, end + 1 - (change.less ?? 0)) };
  },
  sleep: (ms) => pauses.push(ms),
};
const traffic = { requests: 0, bytes: 0, retries: 0 };
const remote = new RemoteFile("http://x/y", transport, traffic, { block: 1024 }).start();
answers.push({ status: 503 }, { less: 1 });
const to = new Uint8Array(10);
remote.read(to, 50_000);
assert.deepEqual(to, file.slice(50_000, 50_010));
assert.deepEqual([pauses, traffic.retries, traffic.requests], [[100, 400], 2, 4]);
answers.push({ headers: { etag: '"2"' } });
assert.throws(() => remote.read(to, 80_000), (e) => e.code === "CHANGED");
assert.throws(() => remote.read(to, 0), (e) => e.code === "CHANGED"); // also what is in the cache is no longer given

// A web page is no database; the type of the answer alone does not make it one.
const page = { headers: { "content-type": "text/html" } };
for (const status of [200, 206]) {
  answers.push({ ...page, status });
  assert.throws(() => new RemoteFile("http://x/y", transport, traffic, {}).start(), (e) => e.code === "NOT_FOUND" && e.message.includes("web page"));
}
file.set(new TextEncoder().encode("SQLite format 3\0"));
answers.push(page);
new RemoteFile("http://x/y", transport, traffic, {}).start();
console.log("ranges: all right");
