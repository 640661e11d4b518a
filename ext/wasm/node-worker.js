// node-worker.js: the worker of node.js.
import { parentPort } from "node:worker_threads";
import { readModule, transport } from "./node-transport.js";
import { serve } from "./server.js";

const handle = serve(() => ({ wasm: readModule(), transport: transport() }), (message, transfer) => parentPort.postMessage(message, transfer));
parentPort.on("message", handle);
