// worker.js: the worker of a browser's page. It reads URLs by XMLHttpRequest, which may wait for its answer in a worker.
import { TesseraError } from "./http.js";
import { serve } from "./server.js";

const sleeper = makeSleeper();

/** Memory on which a worker can wait. Pages without cross-origin isolation get it from WebAssembly alone. */
function makeSleeper() {
  try {
    return new Int32Array(new WebAssembly.Memory({ shared: true, initial: 1, maximum: 1 }).buffer);
  } catch {
    return null;
  }
}

function asAnswer(status, header, body) {
  return { status, header, body: new Uint8Array(body) };
}

const unreachable = (url) => new TesseraError("NETWORK", `${url}: the request failed: the server cannot be reached, the connection was cut, the ` +
  "server does not allow this page's origin (CORS: Access-Control-Allow-Origin), or it compresses the file, and no browser reads a range of a compressed file");
const late = (url, timeout) => new TesseraError("TIMEOUT", `${url}: no answer within ${timeout / 1000} s`);

export const transport = {
  get(url, headers, timeout) {
    const request = new XMLHttpRequest();
    request.open("GET", url, false);
    request.responseType = "arraybuffer";
    request.timeout = timeout;
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    const began = performance.now();
    try {
      request.send();
    } catch (error) {
      throw error.name === "TimeoutError" || performance.now() - began >= timeout ? late(url, timeout) : unreachable(url);
    }
    // Asking by name for a header that another origin does not expose would be an error on the browser's console.
    const known = new Headers(request.getAllResponseHeaders().trim().split(/\r?\n/).filter(Boolean).map((line) => line.split(/:\s*(.*)/s, 2)));
    return asAnswer(request.status, (name) => known.get(name), request.response ?? new ArrayBuffer(0));
  },

  /** The first request: it does not wait for the body of an answer that has the whole file. Tried three times, as all others are. */
  async first(url, headers, timeout) {
    for (let attempt = 1; ; attempt++) {
      try {
        // "reload": the browser's cache forgets what it kept of an older version, and does not mix it into later ranges.
        const answer = await fetchAnswer(url, headers, timeout, (response) => response.status === 206, "reload");
        if (attempt === 3 || !(answer.status === 429 || answer.status >= 500)) return answer;
      } catch (error) {
        if (attempt === 3 || error.code !== "NETWORK") throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 100 * 4 ** (attempt - 1)));
    }
  },

  whole: (url, headers, timeout) => fetchAnswer(url, headers, timeout, () => true, "no-cache"),

  sleep(ms) {
    if (sleeper) Atomics.wait(sleeper, 0, 0, ms);
    else for (const end = performance.now() + ms; performance.now() < end; ); // an old browser: it waits without a rest
  },
};

async function fetchAnswer(url, headers, timeout, wantsBody, cache) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort("late"), timeout);
  try {
    const response = await fetch(url, { headers, cache, signal: controller.signal });
    const body = wantsBody(response) ? await response.arrayBuffer() : new ArrayBuffer(0);
    if (!wantsBody(response)) controller.abort("enough");
    return asAnswer(response.status, (name) => response.headers.get(name), body);
  } catch (error) {
    throw controller.signal.reason === "late" ? late(url, timeout) : unreachable(url);
  } finally {
    clearTimeout(timer);
  }
}

const handle = serve(() => ({ wasm: fetch(new URL("./tessera.wasm", import.meta.url)), transport }), (message, transfer) => self.postMessage(message, transfer));
self.onmessage = ({ data }) => handle(data);
