// http.js: a file behind a URL that does not change while it is open. It checks each answer of the server, and says what
// is wrong with it. Requests are made by a transport: XMLHttpRequest in a browser's worker (worker.js), fetch in a
// thread of Node (node-transport.js).
import { Ranges } from "./ranges.js";

/** An error of this package. `code` tells the cases apart: see the README. */
export class TesseraError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "TesseraError";
    this.code = code;
  }
}

const TRIES = 3;
const MAGIC = new TextEncoder().encode("SQLite format 3\0");
const AGAIN = new Set([408, 425, 429, 500, 502, 503, 504]); // statuses after which the same request may succeed

/**
 * One file. The first answer gives its size and pins its version: the ETag, or without one Last-Modified. An answer of
 * another version is an error, and so is every later read, so bytes of two versions are never mixed.
 */
export class RemoteFile {
  /**
   * @param {string} url
   * @param {{ get(url: string, headers: object, timeout: number): Answer, sleep(ms: number): void }} transport
   *   get returns { status, header(name) -> string | null, body: Uint8Array }, or throws a TesseraError NETWORK or TIMEOUT
   */
  constructor(url, transport, traffic, { headers = {}, timeout = 30000, pin = true, ...limits } = {}) {
    this.url = url;
    this.transport = transport;
    this.traffic = traffic;
    this.headers = headers;
    this.timeout = timeout;
    this.pin = pin;
    this.limits = limits;
    this.block = limits.block ?? 65536;
    this.changed = null; // the error of a file that has changed
  }

  /** Opens the file with an answer to the request for its first block, which the caller may have made in another way. */
  start(answer) {
    if (!answer) answer = this.ask(0, this.block - 1);
    else this.count(answer), this.check(answer, 0, this.block - 1);
    this.ranges = new Ranges(this.size, (first, count) => this.ask(first, first + count - 1).body, this.limits);
    this.ranges.seed(answer.body);
    return this;
  }

  /** The headers of a request for a range. */
  rangeHeaders(first, last) {
    return { ...this.headers, Range: `bytes=${first}-${last}` };
  }

  count(answer) {
    this.traffic.requests++;
    this.traffic.bytes += answer.body.length;
  }

  fail(code, message) {
    return new TesseraError(code, `${this.url}: ${message}`);
  }

  /** Requests a range until an answer is right, at most three times if only the connection or the server's state is at fault. */
  ask(first, last) {
    for (let attempt = 1; ; attempt++) {
      if (this.changed) throw this.changed;
      try {
        const answer = this.transport.get(this.url, this.rangeHeaders(first, last), this.timeout);
        this.count(answer);
        this.check(answer, first, last);
        return answer;
      } catch (error) {
        if (!(error instanceof TesseraError)) throw error;
        const again = error.code === "NETWORK" || error.code === "CUT" || error.code === "BUSY";
        if (!error.message.startsWith(this.url)) error.message = `${this.url}: ${error.message}`;
        if (!again || attempt === TRIES) throw error;
        this.traffic.retries++;
        this.transport.sleep(100 * 4 ** (attempt - 1));
      }
    }
  }

  /** Checks an answer to a request for bytes `first` to `last`. Throws what is wrong with it. */
  check(answer, first, last) {
    const { status } = answer;
    if (AGAIN.has(status)) throw this.fail("BUSY", `the server answers ${status}`);
    if (status === 404 || status === 410) throw this.fail("NOT_FOUND", `not found (status ${status})`);
    if (status === 401 || status === 403) throw this.fail("REFUSED", `the server refuses access (status ${status})`);
    if (status === 416 && this.size === undefined) throw this.fail("NOT_A_DATABASE", "the file is empty");
    if (status === 412 || status === 416) throw this.change(`it ended before byte ${first} (status ${status})`);
    if (this.size === undefined) this.checkPage(answer);
    if (status === 200)
      throw this.fail("NO_RANGES", "the server ignores Range requests: it answers 200 with the whole file. Put the file on a server " +
        "that knows ranges, or open it with { whole: true }, which reads all of it into memory");
    if (status !== 206) throw this.fail("STATUS", `the server answers ${status}`);
    const coding = answer.header("Content-Encoding");
    if (coding && coding.toLowerCase() !== "identity")
      throw this.fail("COMPRESSED", `the server compresses the answer (Content-Encoding: ${coding}), so its ranges are not those of the file: ` +
        "turn compression off for this file");
    const text = answer.header("Content-Range");
    if (text === null)
      throw this.fail("NO_CONTENT_RANGE", "the answer has no Content-Range that this page may read. A server of another origin must send " +
        "Access-Control-Expose-Headers: Content-Range, ETag");
    const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(text.trim());
    if (!range) throw this.fail("WRONG_RANGE", `the server answers with "Content-Range: ${text}", which does not say where its bytes lie`);
    const [from, to, size] = range.slice(1).map(Number);
    this.checkVersion(answer, size);
    if (from !== first || to !== Math.min(last, size - 1))
      throw this.fail("WRONG_RANGE", `bytes ${first} to ${last} were asked for, but the server answers with "Content-Range: ${text}"`);
    const wanted = to - from + 1;
    if (answer.body.length < wanted) throw this.fail("CUT", `the connection was cut: ${answer.body.length} of ${wanted} bytes came`);
    if (answer.body.length > wanted) throw this.fail("WRONG_RANGE", `the server sent ${answer.body.length} bytes instead of ${wanted}`);
  }

  /** Servers for development answer with their first page for a path that they do not have. */
  checkPage({ status, header, body }) {
    if (status !== 200 && status !== 206 || !/^text\/html\b/i.test(header("Content-Type") ?? "") || MAGIC.every((byte, i) => body[i] === byte)) return;
    throw this.fail("NOT_FOUND", "the server answers with a web page (Content-Type: text/html), not with a database: it probably has no such file");
  }

  change(what) {
    this.changed = this.fail("CHANGED", `the file has changed since it was opened: ${what}. Open it again`);
    return this.changed;
  }

  /** The first answer pins the version, all others must have the same. */
  checkVersion(answer, size) {
    const version = { etag: answer.header("ETag")?.replace(/^W\//, "") ?? null, modified: answer.header("Last-Modified") };
    if (this.size === undefined) {
      if (this.pin && version.etag === null && version.modified === null)
        throw this.fail("NO_VERSION", "the server sends neither ETag nor Last-Modified, so a change of the file would go unnoticed. " +
          "Let it send one of them (and expose ETag to other origins), or open the file with { pin: false }");
      this.size = size;
      this.version = version;
      return;
    }
    if (size !== this.size) throw this.change(`it had ${this.size} bytes, it has ${size}`);
    if (!this.pin) return;
    for (const [header, name] of [["ETag", "etag"], ["Last-Modified", "modified"]])
      if (version[name] !== this.version[name]) throw this.change(`${header} was ${this.version[name]}, it is ${version[name]}`);
  }

  read(to, at) {
    if (this.changed) throw this.changed;
    return this.ranges.read(to, at);
  }
}

/** Backend "http" of host_vfs.c: databases behind URLs, read-only. */
export class HttpBackend {
  constructor(transport, traffic, code) {
    this.transport = transport;
    this.traffic = traffic;
    this.code = code; // SQLite's codes
    this.files = [];
    this.prepared = new Map(); // url -> RemoteFile that was started
    this.options = {};
  }

  open(name, flags) {
    const { CANTOPEN, OPEN_MAIN_DB } = this.code;
    if (!(flags & OPEN_MAIN_DB)) return -CANTOPEN;
    let file = this.prepared.get(name);
    this.prepared.delete(name);
    if (!file) file = new RemoteFile(name, this.transport, this.traffic, this.options).start(); // ATTACH
    return this.files.push(file) - 1;
  }

  read(handle, to, at) {
    return this.files[handle].read(to, at);
  }

  size(handle) {
    return this.files[handle].size;
  }

  close(handle) {
    delete this.files[handle];
    return 0;
  }

  exists() {
    return 0; // no journal lies beside a file behind a URL
  }

  write() {
    return -this.code.READONLY;
  }

  truncate() {
    return -this.code.READONLY;
  }

  remove() {
    return -this.code.READONLY;
  }

  sync() {
    return 0;
  }
}
