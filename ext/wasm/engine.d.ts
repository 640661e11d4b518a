// Types of sqlite-tessera-wasm/engine: the engine without a worker. All calls of a database are synchronous.
import type { Bindable, OpenOptions, Parameters, QueryOptions, Result, Traffic, Value } from "./index.js";
export { TesseraError } from "./index.js";

export interface Answer {
  status: number;
  header(name: string): string | null;
  body: Uint8Array;
}

/** Makes requests, synchronously. sqlite-tessera-wasm/node-transport has one for Node. */
export interface Transport {
  get(url: string, headers: Record<string, string>, timeout: number): Answer;
  sleep(milliseconds: number): void;
  /** The first request for a file; `get` is called if there is no such function. */
  first?(url: string, headers: Record<string, string>, timeout: number): Promise<Answer>;
  /** The whole file, for the option `whole`. */
  whole?(url: string, headers: Record<string, string>, timeout: number): Answer | Promise<Answer>;
}

export function createEngine(parts: {
  wasm: Response | BufferSource | WebAssembly.Module | Promise<Response | BufferSource | WebAssembly.Module>;
  transport?: Transport;
}): Promise<Engine>;

export class Engine {
  readonly version: string;
  readonly traffic: Traffic & { retries: number };
  open(location?: string | URL | Uint8Array | ArrayBuffer, options?: OpenOptions): Promise<Database>;
  complete(sql: string): boolean;
}

export class Database {
  readonly changes: number;
  exec(sql: string, parameters?: Parameters, options?: QueryOptions): Result[];
  query(sql: string, parameters?: Parameters, options?: QueryOptions): Result;
  all(sql: string, parameters?: Parameters, options?: QueryOptions): Record<string, Value>[];
  /** Runs a SELECT whose parts over arrays run over columns; its rows are those of query(). Values of parameters are by position. */
  sql(text: string, parameters?: Bindable[], options?: QueryOptions): Result;
  /** Makes a function of JavaScript callable from SQL. `count` is the number of its arguments, or -1 for any. */
  createFunction(name: string, call: (...values: Value[]) => Bindable, count?: number): void;
  serialize(schema?: string): Uint8Array;
  close(): void;
}
