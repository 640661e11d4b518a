// client.js: a database whose engine runs in a worker. index.js starts that worker in a browser, node.js in Node.
import { TesseraError } from "./http.js";

/**
 * @param {{ post(message, transfer): void, listen(onmessage, onerror): void, end(): void }} channel to a fresh worker
 */
export async function openIn(channel, location, options = {}) {
  const client = new Client(channel);
  try {
    if (typeof Blob !== "undefined" && location instanceof Blob) location = await location.arrayBuffer();
    const bytes = location instanceof ArrayBuffer || ArrayBuffer.isView(location);
    client.info = await client.call("open", bytes ? location : location && String(location), options);
    return client;
  } catch (error) {
    channel.end();
    throw error;
  }
}

class Client {
  constructor(channel) {
    this.channel = channel;
    this.waiting = new Map();
    this.queue = []; // calls that wait for the worker: it gets one at a time, so that a call can still be taken back
    this.running = false;
    this.last = 0;
    this.closed = null;
    channel.listen((message) => this.answered(message), (error) => this.end(error));
  }

  call(method, ...parameters) {
    return this.callWith({}, method, ...parameters);
  }

  callWith({ signal }, method, ...parameters) {
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(this.closed);
      if (signal?.aborted) return reject(signal.reason);
      const job = { id: ++this.last, method, parameters, resolve, reject };
      signal?.addEventListener("abort", () => {
        const at = this.queue.indexOf(job);
        if (at >= 0) this.queue.splice(at, 1);
        reject(signal.reason); // a call that has begun runs to its end, and its answer is dropped
      }, { once: true });
      this.queue.push(job);
      this.next();
    });
  }

  next() {
    if (this.running || !this.queue.length) return;
    const { id, method, parameters, resolve, reject } = this.queue.shift();
    this.running = true;
    this.waiting.set(id, { resolve, reject });
    try {
      this.channel.post({ id, method, parameters });
    } catch (error) { // a value that cannot be sent, such as a function
      this.answered({ id, error: { code: "BAD_VALUE", message: error.message } });
    }
  }

  answered({ id, result, error }) {
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    this.running = false;
    if (error) reject(Object.assign(new TesseraError(error.code, error.message), error));
    else resolve(result);
    this.next();
  }

  end(error) {
    this.closed = error;
    for (const { reject } of [...this.waiting.values(), ...this.queue]) reject(error);
    this.waiting.clear();
    this.queue = [];
    this.channel.end();
  }

  exec(sql, parameters = [], { signal, ...options } = {}) {
    return this.callWith({ signal }, "exec", sql, parameters, options);
  }

  query(sql, parameters = [], { signal, ...options } = {}) {
    return this.callWith({ signal }, "query", sql, parameters, options);
  }

  /** Runs a SELECT whose parts over arrays run over columns; the rows are those of query(). */
  sql(text, parameters = [], { signal, ...options } = {}) {
    return this.callWith({ signal }, "sql", text, parameters, options);
  }

  async all(sql, parameters = [], options = {}) {
    const { columns, rows } = await this.query(sql, parameters, options);
    return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
  }

  /** Runs a text as the sqlite3 shell would: statements, and commands such as .mode. */
  script(text, options = {}) {
    return this.call("script", text, options);
  }

  serialize(schema = "main") {
    return this.call("serialize", schema);
  }

  /** Requests and bytes since the database was opened. */
  traffic() {
    return this.call("traffic");
  }

  async close() {
    if (this.closed) return;
    await this.call("close");
    this.end(new TesseraError("CLOSED", "the database is closed"));
  }
}
