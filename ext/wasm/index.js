// index.js: the package in a browser. node.js is the same for Node.
import { openIn } from "./client.js";

export { TesseraError } from "./http.js";

/** Opens a database in a worker of its own. A relative URL begins at the page. */
export function open(location, options) {
  if (typeof location === "string" && location && !/^(:memory:|opfs:|[a-z][a-z+.-]*:)/i.test(location)) location = new URL(location, globalThis.document?.baseURI ?? self.location.href);
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "tessera" });
  return openIn({
    post: (message, transfer) => worker.postMessage(message, transfer),
    listen(onmessage, onerror) {
      worker.onmessage = ({ data }) => onmessage(data);
      worker.onerror = (event) => onerror(new Error(`the worker of tessera has failed: ${event.message ?? "its script cannot be loaded"}`));
    },
    end: () => worker.terminate(),
  }, location, options);
}
