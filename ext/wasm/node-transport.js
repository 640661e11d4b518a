// node-transport.js: requests in Node. SQLite's reads wait for their answers, and fetch does not: so a thread fetches, and
// the thread of the engine waits for it. Files are read at once.
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MessageChannel, Worker, isMainThread, receiveMessageOnPort, workerData } from "node:worker_threads";
import { TesseraError } from "./http.js";

const FETCHER = "tessera: fetch for another thread";

/** The bytes of the module, which lies beside this file. */
export function readModule() {
  return readFileSync(new URL("./tessera.wasm", import.meta.url));
}

export function transport() {
  let fetcher = null;
  const ask = (url, headers, timeout, whole) => {
    if (url.startsWith("file:")) return readLocal(url, headers, whole);
    fetcher ??= startFetcher();
    const signal = new Int32Array(new SharedArrayBuffer(4));
    fetcher.postMessage({ url, headers, timeout, whole, signal });
    Atomics.wait(signal, 0, 0);
    const { status, headers: got, body, error } = receiveMessageOnPort(fetcher.port).message;
    if (error) throw new TesseraError(error.code, error.message);
    return { status, header: (name) => got[name.toLowerCase()] ?? null, body };
  };
  return {
    get: (url, headers, timeout) => ask(url, headers, timeout, false),
    whole: (url, headers, timeout) => ask(url, headers, timeout, true),
    sleep: (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  };
}

function startFetcher() {
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(new URL(import.meta.url), { workerData: { [FETCHER]: port2 }, transferList: [port2] });
  worker.unref();
  port1.unref();
  return { port: port1, postMessage: (message) => port1.postMessage(message) };
}

/** Answers for a file as a server would. Its version is its size, its identity and the time of its last change. */
function readLocal(url, headers, whole) {
  let file;
  try {
    file = openSync(fileURLToPath(url));
  } catch (error) {
    if (error.code === "ENOENT") return { status: 404, header: () => null, body: new Uint8Array(0) };
    throw new TesseraError("NETWORK", `${url}: ${error.message}`);
  }
  try {
    const { size, ino, mtimeNs } = fstatSync(file, { bigint: true });
    const [first, last] = whole ? [0, Number(size) - 1] : /(\d+)-(\d+)/.exec(headers.Range).slice(1).map(Number);
    if (first >= Number(size)) return { status: 416, header: () => null, body: new Uint8Array(0) };
    const body = new Uint8Array(Math.min(last, Number(size) - 1) - first + 1);
    const got = readSync(file, body, 0, body.length, first);
    const known = { etag: `"${size}-${ino}-${mtimeNs}"`, "content-range": `bytes ${first}-${first + body.length - 1}/${size}` };
    return { status: whole ? 200 : 206, header: (name) => known[name.toLowerCase()] ?? null, body: body.subarray(0, got) };
  } finally {
    closeSync(file);
  }
}

/** The thread that fetches. */
async function fetchFor(port, { url, headers, timeout, whole, signal }) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort("late"), timeout);
  const answer = {};
  try {
    const response = await fetch(url, { headers: { "Accept-Encoding": "identity", ...headers }, signal: controller.signal });
    answer.status = response.status;
    answer.headers = Object.fromEntries(response.headers);
    const wanted = whole || response.status === 206;
    answer.body = new Uint8Array(wanted ? await response.arrayBuffer() : 0);
    if (!wanted) controller.abort("enough"); // the whole file comes, and nobody wants it
  } catch (error) {
    answer.error = controller.signal.reason === "late" ? { code: "TIMEOUT", message: `${url}: no answer within ${timeout / 1000} s` }
      : { code: "NETWORK", message: `${url}: the request failed: ${error.cause?.message || error.message}` };
  }
  clearTimeout(timer);
  port.postMessage(answer, answer.body ? [answer.body.buffer] : []);
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
}

if (!isMainThread && workerData?.[FETCHER]) workerData[FETCHER].on("message", (message) => fetchFor(workerData[FETCHER], message));
