// server.js: the worker's side of client.js: it has one engine and one database.
import { createEngine } from "./engine.js";
import { Script } from "./script.js";

/**
 * @param {() => object} parts what createEngine needs
 * @param {(message, transfer) => void} post
 * @returns {(message) => Promise<void>} the handler of messages
 */
export function serve(parts, post) {
  let engine, database, script;
  let broken = null; // after a trap the module's memory is in no known state
  const measured = (work) => {
    const before = { ...engine.traffic }, began = performance.now();
    const result = work();
    const { requests, bytes } = engine.traffic;
    return { ...result, traffic: { requests: requests - before.requests, bytes: bytes - before.bytes, ms: performance.now() - began } };
  };
  const methods = {
    async open(location, options) {
      const began = performance.now();
      engine = await createEngine(parts());
      database = await engine.open(location, options);
      return { sqlite: engine.version, size: database.size, traffic: { ...engine.traffic, ms: performance.now() - began } };
    },
    exec: (sql, parameters, options) => measured(() => ({ results: database.exec(sql, parameters, options) })),
    query: (sql, parameters, options) => measured(() => database.query(sql, parameters, options)),
    sql: (text, parameters, options) => measured(() => database.sql(text, parameters, options)),
    script(text, options) {
      script ??= new Script(engine, database);
      return measured(() => ({ output: script.run(text, options) }));
    },
    serialize: (schema) => database.serialize(schema),
    traffic: () => ({ ...engine.traffic }),
    close: () => database.close(),
  };
  return async ({ id, method, parameters }) => {
    try {
      if (broken) throw broken;
      const result = await methods[method](...parameters);
      post({ id, result }, buffersOf(result));
    } catch (error) {
      if (error instanceof WebAssembly.RuntimeError) broken = Object.assign(new Error(`the engine has failed, open the database again: ${error.message}`), { code: "FAILED" });
      const { code = "ERROR", sqliteCode, sql } = error;
      post({ id, error: { code, message: String(error?.message ?? error), sqliteCode, sql } }, []);
    }
  };
}

/** The buffers of all blobs in results, which are moved instead of copied. */
function buffersOf(result) {
  const found = new Set();
  if (result instanceof Uint8Array) found.add(result.buffer);
  for (const { rows } of result?.results ?? result?.output ?? [result ?? {}])
    for (const row of rows ?? []) for (const value of row) if (value instanceof Uint8Array) found.add(value.buffer);
  return [...found];
}
