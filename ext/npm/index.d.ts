/** The extension's file, for `database.loadExtension(...)`. */
export function getLoadablePath(): string;

/** Copies the arrays of the manual into `folder` ("demo"): relief, climate, airports. What it has already stays. Returns the folder. */
export function demo(folder?: string): string;

/** The values of a block: one of them for each cell, the last dimension varies fastest. */
export type BlockData =
  | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | Float32Array | Float64Array | BigInt64Array | BigUint64Array;

export interface Block<T extends BlockData = BlockData> {
  data: T;
  /** The cells along each dimension; several values in a cell are a last axis. */
  shape: number[];
  /** The type as NPY has it: '<f4', '|b1', '<M8[D]'. encodeBlock finds it by the typed array, if it is left out. */
  type?: string;
  /** Of datetimes and times: what the integers count, such as 'D', 'ms'. */
  unit?: string;
}

/** What better-sqlite3's Database and the DatabaseSync of node:sqlite have, as far as it is needed. */
export interface BlockDatabase {
  prepare(sql: string): { get(...values: any[]): unknown };
}

/** A value, or the two ends of a range (both belong to it; null is open), by dimension or dimension label. */
type Coordinate = number | bigint | string | Date;
export type Box = Record<string, Coordinate | [Coordinate | null, Coordinate | null]>;

/** Reads a box of an attribute of a dense array. Nulls and cells that were never written are the fill value, NaN in floats. */
export function readBlock<T extends BlockData = BlockData>(db: BlockDatabase, path: string, attribute: string, box?: Box): Block<T>;

/** Writes a block for each attribute of a dense array, as one commit. `origin`: the lowest coordinates. Returns the number of cells. */
export function writeBlocks(db: BlockDatabase, path: string, blocks: Record<string, Block>, origin?: Record<string, Coordinate>): number;

/** Reads an NPY file, the result of tessera_npy. */
export function decodeBlock<T extends BlockData = BlockData>(file: Uint8Array): Block<T>;

/** Makes an NPY file, the argument of tessera_write_npy. */
export function encodeBlock(block: Block): Buffer;

/** What is bound to a parameter. A Date becomes its UTC text, undefined NULL. */
export type Parameter = number | bigint | string | boolean | Uint8Array | Date | null | undefined;

/**
 * Prepares a SELECT, WITH or VALUES whose parts over arrays run over columns: `sql(db, text, ...).all()`. Its rows are SQLite's. A path in quotes is
 * a table. The values of its parameters stand in the statement, so there is nothing to bind; without values you bind them yourself, and parts that
 * have parameters run by rows. Prepare it for each use: it belongs to this connection, and is not to be stored.
 */
export function sql<S = unknown>(db: { prepare(sql: string): S }, text: string, ...values: Parameter[]): S;
export function sql<S = unknown>(db: { prepare(sql: string): S }, text: string, values: Parameter[] | Record<string, Parameter>): S;
