// Types of sqlite-tessera-wasm.

/** A value of SQLite. Integers past 2^53 are BigInts. */
export type Value = number | bigint | string | Uint8Array | null;
/** What can be bound to a parameter. Whole numbers are bound as INTEGER, others as REAL. */
export type Bindable = Value | boolean | undefined | ArrayBuffer | ArrayBufferView;
/** Parameters by position, or by name: `{ x: 1 }` binds `:x`, `@x` or `$x`. */
export type Parameters = Bindable[] | Record<string, Bindable>;

export interface OpenOptions {
  /** Headers of each request, for example Authorization. A server of another origin must allow them. */
  headers?: Record<string, string>;
  /** Milliseconds for which one request may take. Default: 30000. */
  timeout?: number;
  /** false: accept a server that sends neither ETag nor Last-Modified. Then nobody notices that the file changes. */
  pin?: boolean;
  /** true: read the whole file into memory at once. For servers that know no ranges, and for small files. */
  whole?: boolean;
  /** Bytes of a block, the smallest piece that is requested. Default: 65536. */
  block?: number;
  /** Bytes of the cache of blocks. Default: 64 MiB. */
  capacity?: number;
  /** Bytes of the longest request for a sequence of reads. Default: 1 MiB. */
  ahead?: number;
}

export interface QueryOptions {
  /** Rows of each result at most; `more` says that there were more. */
  limit?: number;
  /** true: each value as SQLite's text of it. */
  text?: boolean;
  /** Takes back a call that has not begun. */
  signal?: AbortSignal;
}

export interface Traffic {
  requests: number;
  bytes: number;
}

export interface Result {
  columns: string[];
  rows: Value[][];
  /** There were more rows than `limit`. */
  more: boolean;
  /** The statement. */
  sql: string;
  /** Rows that the last INSERT, UPDATE or DELETE has changed. */
  changes: number;
}

export interface Measured {
  /** What the call has requested from servers, and the milliseconds that it took in the worker. */
  traffic: Traffic & { ms: number };
}

/** What a script prints, in order. */
export type Printed =
  | { text: string }
  | (Result & { mode: string; headers: boolean; plan: boolean })
  | { error: string; line: number; code?: string };

/** A database in a worker. Calls run one after the other, in the order in which they are made. */
export interface Database {
  /** `size`: bytes of a file behind a URL, else null. `traffic`: what opening took. */
  readonly info: { sqlite: string; size: number | null; traffic: Traffic & { retries: number; ms: number } };
  /** Runs statements. Returns a result for each that has columns. The parameters are those of the first statement. */
  exec(sql: string, parameters?: Parameters, options?: QueryOptions): Promise<{ results: Result[] } & Measured>;
  /** Runs statements, and returns the result of the last one that has columns. */
  query(sql: string, parameters?: Parameters, options?: QueryOptions): Promise<Result & Measured>;
  /**
   * Runs a SELECT whose parts over arrays run over columns: sums, means and groups take a twentieth of the time or less. The rows are those of
   * query(). Values of parameters are by position.
   */
  sql(text: string, parameters?: Bindable[], options?: QueryOptions): Promise<Result & Measured>;
  /** The rows of a query as objects. */
  all(sql: string, parameters?: Parameters, options?: QueryOptions): Promise<Record<string, Value>[]>;
  /** Runs a text as the sqlite3 shell does: statements, .mode, .print and some more. Errors are part of the output. */
  script(text: string, options?: QueryOptions & { stop?: boolean }): Promise<{ output: Printed[] } & Measured>;
  /** The bytes of the database file. */
  serialize(schema?: string): Promise<Uint8Array>;
  /** Requests and bytes since the database was opened. */
  traffic(): Promise<Traffic & { retries: number }>;
  /** Closes the database and ends its worker. */
  close(): Promise<void>;
}

/**
 * Opens a database in a worker of its own.
 * @param location nothing or ":memory:"; a URL, read by ranges and never written; "opfs:NAME", a file that the browser keeps
 *   for this origin; in Node the path of a file, which is read and never written; or the bytes of a database
 */
export function open(location?: string | URL | Uint8Array | ArrayBuffer | Blob, options?: OpenOptions): Promise<Database>;

/** `code` is one of those in the README, or SQLite's name of the error, such as "SQLITE_CONSTRAINT". */
export class TesseraError extends Error {
  code: string;
  sqliteCode?: number;
  /** The statement that failed. */
  sql?: string;
}
