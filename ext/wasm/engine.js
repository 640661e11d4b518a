// engine.js: SQLite with tessera in the thread that calls it. worker.js and node-worker.js run it in a worker; use it
// directly only where a call may take its time: in a worker of your own, or in Node.
import makeModule from "./tessera-module.js";
import { HttpBackend, RemoteFile, TesseraError } from "./http.js";
import { OpfsBackend } from "./opfs.js";

export { TesseraError };

// SQLite's numbers.
const CODE = { OK: 0, ERROR: 1, IOERR: 10, CANTOPEN: 14, READONLY: 8, ROW: 100, DONE: 101, OPEN_READONLY: 1, OPEN_READWRITE: 2, OPEN_CREATE: 4, OPEN_URI: 0x40, OPEN_MAIN_DB: 0x100 };
const INTEGER = 1, FLOAT = 2, TEXT = 3, BLOB = 4;
const encoder = new TextEncoder(), decoder = new TextDecoder();

/**
 * Starts an engine: one module of WebAssembly with its memory, in which databases can be opened.
 * @param {{ wasm: Promise<Response> | Response | BufferSource | WebAssembly.Module, transport: object, onprint?: Function }} parts
 */
export async function createEngine({ wasm, transport, root = null }) {
  const source = await wasm;
  let failed;
  const starting = makeModule({
    instantiateWasm(imports, done) {
      instantiate(source, imports).then(({ instance, module }) => done(instance, module), (error) => failed(error));
      return {};
    },
    print: () => {},
    printErr: () => {},
  });
  const module = await Promise.race([starting, new Promise((_, reject) => { failed = reject; })]);
  return new Engine(module, transport, root);
}

async function instantiate(source, imports) {
  if (source instanceof WebAssembly.Module) return { instance: await WebAssembly.instantiate(source, imports), module: source };
  if (typeof Response === "undefined" || !(source instanceof Response)) return WebAssembly.instantiate(source, imports);
  if (!source.ok) throw new TesseraError("NO_MODULE", `${source.url}: the module cannot be loaded (status ${source.status})`);
  const copy = source.clone(); // some servers send no application/wasm, and instantiateStreaming insists on it
  try {
    return await WebAssembly.instantiateStreaming(source, imports);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return WebAssembly.instantiate(await copy.arrayBuffer(), imports);
  }
}

export class Engine {
  constructor(module, transport, root) {
    this.module = module;
    this.transport = transport;
    this.traffic = { requests: 0, bytes: 0, retries: 0 };
    this.failure = null; // what a backend threw last
    this.functions = [];
    this.http = new HttpBackend(transport, this.traffic, CODE);
    this.opfs = new OpfsBackend(CODE, root);
    module.backends = [];
    module.callFunction = (...call) => this.callFunction(...call);
    this.must(module._tessera_start());
    this.addBackend("http", this.http);
    this.addBackend("opfs", this.opfs);
  }

  must(code) {
    if (code !== CODE.OK) throw new TesseraError("SQLITE_ERROR", `SQLite does not start: code ${code}`);
  }

  /** Gives host_vfs.c a backend whose methods throw nothing, and take memory of the module. */
  addBackend(name, backend) {
    const { module } = this;
    const guard = (method) => {
      try {
        return method();
      } catch (error) {
        this.failure = error;
        return -CODE.IOERR;
      }
    };
    const at = module.backends.push({
      open: (file, flags) => { const r = guard(() => backend.open(file, flags)); return r === -CODE.IOERR ? -CODE.CANTOPEN : r; },
      read: (handle, to, size, offset) => guard(() => backend.read(handle, module.HEAPU8.subarray(to, to + size), offset)),
      write: (handle, from, size, offset) => guard(() => backend.write(handle, module.HEAPU8.subarray(from, from + size), offset)),
      truncate: (handle, size) => guard(() => backend.truncate(handle, size)),
      sync: (handle) => guard(() => backend.sync(handle)),
      size: (handle) => guard(() => backend.size(handle)),
      close: (handle) => guard(() => backend.close(handle)),
      remove: (file) => guard(() => backend.remove(file)),
      exists: (file) => guard(() => backend.exists(file)),
    }) - 1;
    this.must(module._tessera_backend(this.text(name), at, name === "http" ? 1 : 0)); // SQLite keeps the name
  }

  get version() {
    return this.module.UTF8ToString(this.module._sqlite3_libversion());
  }

  /** Whether a text ends with a whole statement. */
  complete(sql) {
    const text = this.text(sql);
    const answer = this.module._sqlite3_complete(text);
    this.module._free(text);
    return answer === 1;
  }

  /** Copies a text into memory of the module: with a zero at its end, to be freed by the caller. */
  text(text) {
    return this.bytes(encoder.encode(text + "\0"));
  }

  bytes(bytes) {
    const at = this.module._malloc(bytes.length || 1);
    if (!at) throw new TesseraError("SQLITE_NOMEM", `out of memory: ${bytes.length} bytes`);
    this.module.HEAPU8.set(bytes, at);
    return at;
  }

  view(at, size) {
    return this.module.HEAPU8.subarray(at, at + size);
  }

  word(at) {
    return new DataView(this.module.HEAPU8.buffer).getUint32(at, true);
  }

  /**
   * Opens a database.
   * @param {string | URL | Uint8Array | ArrayBuffer | undefined} location ":memory:" or nothing; a URL (http, https, in Node also
   *   file); "opfs:NAME", a file that the browser keeps for this origin; or the bytes of a database
   */
  async open(location = ":memory:", options = {}) {
    if (location instanceof ArrayBuffer) location = new Uint8Array(location);
    if (location instanceof Uint8Array) return this.openBytes(location);
    const name = String(location);
    if (name === ":memory:" || name === "") return this.connect(":memory:", CODE.OPEN_READWRITE | CODE.OPEN_CREATE, "http");
    if (name.startsWith("opfs:")) {
      const path = await this.opfs.prepare(name.slice(5));
      return this.connect(path, CODE.OPEN_READWRITE | CODE.OPEN_CREATE, "opfs", () => this.opfs.release(path));
    }
    if (!/^(https?|file):/.test(name)) throw new TesseraError("BAD_LOCATION", `${name}: a database is ":memory:", a URL, "opfs:NAME", or bytes`);
    const file = new RemoteFile(name, this.transport, this.traffic, options);
    if (options.whole) return this.openBytes(await this.download(file));
    file.start(this.transport.first && (await this.transport.first(name, file.rangeHeaders(0, file.block - 1), file.timeout)));
    const header = new Uint8Array(20);
    refuseWal(header.subarray(0, file.read(header, 0)), name);
    this.http.options = options; // also for databases that this one attaches
    this.http.prepared.set(name, file);
    const database = this.connect(name, CODE.OPEN_READONLY, "http", () => this.http.prepared.delete(name));
    database.size = file.size;
    return database;
  }

  async download(file) {
    const answer = await this.transport.whole(file.url, file.headers, file.timeout);
    file.count(answer);
    if (answer.status !== 200) file.check(answer, 0, 0);
    file.checkPage(answer);
    return answer.body;
  }

  openBytes(bytes) {
    refuseWal(bytes, "the bytes");
    const database = this.connect(":memory:", CODE.OPEN_READWRITE | CODE.OPEN_CREATE, "http");
    if (bytes.length === 0) return database;
    const at = this.module._sqlite3_malloc(bytes.length);
    if (!at) throw new TesseraError("SQLITE_NOMEM", `out of memory: a database of ${bytes.length} bytes`);
    this.module.HEAPU8.set(bytes, at);
    database.check(this.module._tessera_deserialize(database.db, at, bytes.length));
    database.query("PRAGMA schema_version"); // bytes that are no database fail here
    return database;
  }

  connect(name, flags, vfs, release = () => {}) {
    const { module } = this;
    const place = module._malloc(8), path = this.text(name), vfsName = vfs ? this.text(vfs) : 0;
    this.failure = null;
    const code = module._sqlite3_open_v2(path, place, flags, vfsName);
    const database = new Database(this, this.word(place), release);
    module._free(place), module._free(path), vfsName && module._free(vfsName);
    try {
      database.check(code);
      module._sqlite3_extended_result_codes(database.db, 1);
      if (vfs === "http" && name !== ":memory:") database.query("SELECT count(*) FROM sqlite_schema"); // a file that is no database fails here
    } catch (error) {
      database.close();
      throw error;
    }
    return database;
  }

  callFunction(index, context, count, values) {
    const { module } = this;
    try {
      const given = [];
      for (let i = 0; i < count; i++) given.push(this.value(this.word(values + 4 * i)));
      this.setResult(context, this.functions[index](...given));
    } catch (error) {
      const text = this.text(String(error?.message ?? error));
      module._sqlite3_result_error(context, text, -1);
      module._free(text);
    }
  }

  setResult(context, value) {
    const { module } = this, kind = kindOf(value);
    if (kind === null) module._sqlite3_result_null(context);
    else if (kind === FLOAT) module._sqlite3_result_double(context, value);
    else if (kind === INTEGER) module._tessera_result_integer(context, ...halves(value));
    else {
      const bytes = kind === TEXT ? encoder.encode(value) : asBytes(value);
      module._tessera_result_bytes(context, this.bytes(bytes), bytes.length, kind === TEXT ? 1 : 0);
    }
  }

  /** A value of SQLite as JavaScript's: numbers, a BigInt for an integer past 2^53, strings, Uint8Array, null. */
  value(at) {
    const { module } = this;
    switch (module._sqlite3_value_type(at)) {
      case INTEGER:
        if (module._tessera_is_exact(at)) return module._sqlite3_value_double(at);
        return (BigInt(module._tessera_high(at)) << 32n) | BigInt(module._tessera_low(at) >>> 0);
      case FLOAT:
        return module._sqlite3_value_double(at);
      case TEXT:
        return this.textOf(at);
      case BLOB: {
        const bytes = module._sqlite3_value_blob(at); // before the size, as SQLite wants it
        return this.view(bytes, module._sqlite3_value_bytes(at)).slice();
      }
      default:
        return null;
    }
  }

  textOf(at) {
    const text = this.module._sqlite3_value_text(at);
    return decoder.decode(this.view(text, this.module._sqlite3_value_bytes(at)));
  }
}

function kindOf(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "bigint" || typeof value === "boolean") return INTEGER;
  if (typeof value === "number") return Number.isSafeInteger(value) && !Object.is(value, -0) ? INTEGER : FLOAT;
  if (typeof value === "string") return TEXT;
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return BLOB;
  throw new TesseraError("BAD_VALUE", `${typeof value} is no value of SQLite: number, bigint, string, boolean, bytes or null are`);
}

function halves(value) {
  const number = BigInt(value);
  if (number !== BigInt.asIntN(64, number)) throw new TesseraError("BAD_VALUE", `${number} does not fit 64 bits`);
  return [Number(BigInt.asIntN(32, number >> 32n)), Number(BigInt.asUintN(32, number))];
}

function asBytes(value) {
  return value instanceof ArrayBuffer ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

/** A database in WAL mode needs memory that several processes share. Its header says so. */
function refuseWal(bytes, name) {
  if (bytes.length > 19 && bytes[18] === 2 && decoder.decode(bytes.subarray(0, 15)) === "SQLite format 3")
    throw new TesseraError("WAL", `${name}: the database is in WAL mode, which cannot be used here. Publish it after PRAGMA journal_mode = DELETE`);
}

/** One connection. All its methods are synchronous. */
export class Database {
  constructor(engine, db, release) {
    this.engine = engine;
    this.db = db;
    this.release = release;
    this.size = null; // bytes of a file behind a URL
  }

  /** Throws the connection's error, and with it what a backend said. */
  check(code, sql) {
    if (code === CODE.OK || code === CODE.ROW || code === CODE.DONE) return code;
    const { module } = this.engine, { failure } = this.engine;
    const message = this.db ? module.UTF8ToString(module._sqlite3_errmsg(this.db)) : "out of memory";
    this.engine.failure = null;
    const error = new TesseraError(failure?.code ?? nameOf(code), failure ? `${failure.message} (${message})` : message);
    error.sqliteCode = code;
    if (sql !== undefined) error.sql = sql;
    throw error;
  }

  /**
   * Runs one or more statements. Returns a result for each that has columns, or whose `all` is asked for.
   * @param {string} sql
   * @param {Array | object} parameters for the first statement: by position, or by name (":x", "@x", "$x" or "x")
   * @param {{ limit?: number, text?: boolean }} options limit: rows of each result at most; text: each value as SQLite's text
   */
  exec(sql, parameters = [], options = {}) {
    const { engine } = this, { module } = engine;
    if (!this.db) throw new TesseraError("CLOSED", "the database is closed");
    const results = [], place = module._malloc(8), begin = engine.text(String(sql));
    const end = begin + encoder.encode(String(sql)).length;
    let at = begin;
    try {
      while (at < end) {
        engine.failure = null;
        const code = module._sqlite3_prepare_v2(this.db, at, end - at, place, place + 4);
        const statement = engine.word(place), next = engine.word(place + 4);
        const text = decoder.decode(engine.view(at, (next || end) - at).slice()).trim();
        this.check(code, code ? text : undefined);
        at = next;
        if (!statement) continue; // a comment, or spaces
        try {
          const result = this.run(statement, text, parameters, options);
          if (result.columns.length || options.all) results.push(result);
        } finally {
          module._sqlite3_finalize(statement);
        }
        parameters = [];
      }
    } finally {
      module._free(begin);
      module._free(place);
    }
    return results;
  }

  /** Runs statements and returns the result of the last one that has columns: { columns, rows, changes, more }. */
  query(sql, parameters, options) {
    return this.exec(sql, parameters, options).at(-1) ?? { columns: [], rows: [], more: false, sql: String(sql), changes: this.changes };
  }

  /** The rows of a query as objects. */
  all(sql, parameters, options) {
    const { columns, rows } = this.query(sql, parameters, options);
    return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
  }

  /** Runs a SELECT whose parts over arrays run over columns. The parameters are those of query(), by position. */
  sql(text, parameters = [], options = {}) {
    const marks = ", ?".repeat(parameters.length);
    const [[statement]] = this.query(`SELECT tessera_sql(?${marks})`, [text, ...parameters]).rows;
    return this.query(statement, [], options);
  }

  get changes() {
    return this.engine.module._sqlite3_changes(this.db);
  }

  run(statement, sql, parameters, { limit = Infinity, text = false }) {
    const { engine } = this, { module } = engine;
    this.bind(statement, parameters);
    const columns = [], rows = [], types = [];
    const count = module._sqlite3_column_count(statement);
    for (let i = 0; i < count; i++) columns.push(module.UTF8ToString(module._sqlite3_column_name(statement, i)));
    let code, more = false;
    while (this.check((code = module._sqlite3_step(statement)), sql) === CODE.ROW) {
      if (rows.length >= limit) {
        more = true;
        break;
      }
      const row = new Array(count);
      for (let i = 0; i < count; i++) {
        const value = module._sqlite3_column_value(statement, i);
        row[i] = !text ? engine.value(value) : module._sqlite3_value_type(value) === 5 ? null : engine.textOf(value);
      }
      rows.push(row);
    }
    return { columns, rows, more, sql, changes: this.changes };
  }

  bind(statement, parameters) {
    const { engine } = this, { module } = engine;
    const count = module._sqlite3_bind_parameter_count(statement);
    const bind = (index, value) => {
      const kind = kindOf(value);
      if (kind === null) return this.check(module._sqlite3_bind_null(statement, index));
      if (kind === FLOAT) return this.check(module._sqlite3_bind_double(statement, index, value));
      if (kind === INTEGER) return this.check(module._tessera_bind_integer(statement, index, ...halves(value)));
      const bytes = kind === TEXT ? encoder.encode(value) : asBytes(value);
      return this.check(module._tessera_bind_bytes(statement, index, engine.bytes(bytes), bytes.length, kind === TEXT ? 1 : 0));
    };
    if (Array.isArray(parameters)) {
      if (parameters.length > count) throw new TesseraError("BAD_PARAMETERS", `${parameters.length} parameters for a statement that has ${count}`);
      parameters.forEach((value, i) => bind(i + 1, value));
      return;
    }
    for (const [name, value] of Object.entries(parameters ?? {})) {
      let index = 0;
      for (const prefix of /^[:@$]/.test(name) ? [""] : [":", "@", "$"]) {
        const text = engine.text(prefix + name);
        index = index || module._sqlite3_bind_parameter_index(statement, text);
        module._free(text);
      }
      if (!index) throw new TesseraError("BAD_PARAMETERS", `the statement has no parameter ${name}`);
      bind(index, value);
    }
  }

  /** Makes a function of JavaScript callable from SQL. `count` is the number of its arguments, or -1 for any. */
  createFunction(name, call, count = -1) {
    const index = this.engine.functions.push(call) - 1, text = this.engine.text(name);
    const code = this.engine.module._tessera_function(this.db, text, count, index);
    this.engine.module._free(text);
    this.check(code);
  }

  /** The bytes of the database file, with all that is committed. */
  serialize(schema = "main") {
    const { engine } = this, { module } = engine;
    const place = module._malloc(8), name = engine.text(schema);
    const at = module._tessera_serialize(this.db, name, place);
    const size = new DataView(module.HEAPU8.buffer).getFloat64(place, true);
    module._free(place), module._free(name);
    if (!at && size > 0) throw new TesseraError("SQLITE_NOMEM", "out of memory");
    const bytes = at ? engine.view(at, size).slice() : new Uint8Array(0);
    if (at) module._sqlite3_free(at);
    return bytes;
  }

  close() {
    if (!this.db) return;
    this.engine.module._sqlite3_close_v2(this.db);
    this.db = 0;
    this.release();
  }
}

const NAMES = ["OK", "ERROR", "INTERNAL", "PERM", "ABORT", "BUSY", "LOCKED", "NOMEM", "READONLY", "INTERRUPT", "IOERR", "CORRUPT", "NOTFOUND", "FULL",
  "CANTOPEN", "PROTOCOL", "EMPTY", "SCHEMA", "TOOBIG", "CONSTRAINT", "MISMATCH", "MISUSE", "NOLFS", "AUTH", "FORMAT", "RANGE", "NOTADB"];

function nameOf(code) {
  return `SQLITE_${NAMES[code & 255] ?? code}`;
}
