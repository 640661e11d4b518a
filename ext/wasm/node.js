// node.js: the package in Node. index.js is the same for a browser.
import { Worker } from "node:worker_threads";
import { pathToFileURL } from "node:url";
import { openIn } from "./client.js";

export { TesseraError } from "./http.js";

/** Opens a database in a thread of its own. A location that is no URL is a path of a file, which is read and never written. */
export function open(location, options) {
  if (typeof location === "string" && location && !/^(:memory:|[a-z][a-z+.-]+:)/i.test(location)) location = pathToFileURL(location);
  const worker = new Worker(new URL("./node-worker.js", import.meta.url));
  worker.unref();
  let calls = 0; // the process stays while a call waits for its answer
  return openIn({
    post(message, transfer) {
      if (calls++ === 0) worker.ref();
      worker.postMessage(message, transfer);
    },
    listen(onmessage, onerror) {
      worker.on("message", (message) => {
        if (--calls === 0) worker.unref();
        onmessage(message);
      });
      worker.on("error", onerror);
    },
    end: () => worker.terminate(),
  }, location, options);
}
