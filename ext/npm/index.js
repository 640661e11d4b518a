// The path of the tessera extension: new (require('better-sqlite3'))(':memory:').loadExtension(getLoadablePath()).
'use strict';
const fs = require('node:fs');
const path = require('node:path');

// The name of the prebuild for this process, such as linux-x64 or linux-x64-musl.
function prebuild() {
  const name = `${process.platform}-${process.arch}`;
  if (process.platform !== 'linux') return name;
  process.report.excludeNetwork = true; // else the report looks names up
  return process.report.getReport().header.glibcVersionRuntime ? name : `${name}-musl`;
}

function getLoadablePath() {
  const folder = path.join(__dirname, 'prebuilds');
  const name = prebuild();
  for (const library of ['tessera.so', 'tessera.dylib', 'tessera.dll']) {
    const file = path.join(folder, name, library);
    if (fs.existsSync(file)) return file;
  }
  const there = fs.existsSync(folder) ? fs.readdirSync(folder).sort().join(', ') : 'nothing';
  throw new Error(`the tessera extension for ${name} is not in ${folder}: there is ${there}; install sqlite-tessera again`);
}

// Copies the arrays of the manual into a folder: relief, climate, airports, airports.csv. What it has already stays as it is.
function demo(folder = 'demo') {
  fs.cpSync(path.join(__dirname, 'demo'), folder, { recursive: true, force: false });
  return folder;
}

// ---- Blocks -----------------------------------------------------------------------------------------------------------

const TYPES = {
  '|b1': Uint8Array, '|i1': Int8Array, '|u1': Uint8Array, '<i2': Int16Array, '<u2': Uint16Array, '<i4': Int32Array,
  '<u4': Uint32Array, '<f4': Float32Array, '<f8': Float64Array, '<i8': BigInt64Array, '<u8': BigUint64Array,
};

// The type of a block that a typed array has.
function typeOf(values) {
  const found = Object.entries(TYPES).find(([type, array]) => type !== '|b1' && values instanceof array);
  if (!found) throw new TypeError('a block is a typed array, such as a Float32Array');
  return found[0];
}

// Reads an NPY file, which tessera_npy returns: a Buffer of better-sqlite3, a Uint8Array of node:sqlite.
function decodeBlock(bytesOfFile) {
  const file = bytesOfFile && Buffer.from(bytesOfFile.buffer, bytesOfFile.byteOffset, bytesOfFile.byteLength);
  if (!file || file.length < 10 || file[0] !== 0x93 || file.toString('latin1', 1, 6) !== 'NUMPY') throw new TypeError('this is no NPY file');
  const major = file[6];
  const head = major > 1 ? 12 : 10;
  const size = major > 1 ? file.readUInt32LE(8) : file.readUInt16LE(8);
  const header = file.toString('latin1', head, head + size);
  const type = /'descr': *'([^']*)'/.exec(header)?.[1];
  const shape = /'shape': *\(([0-9, ]*)\)/.exec(header)?.[1].split(',').filter((n) => n.trim()).map(Number);
  if (!type || !shape || /'fortran_order': *True/.test(header)) throw new TypeError(`this NPY file is of no form that is known: ${header.trim()}`);
  const time = /^<[mM]8\[(.*)\]$/.exec(type);
  const Type = time ? BigInt64Array : TYPES[type];
  if (!Type) throw new TypeError(`a block of ${type} has no typed array`);
  const bytes = new Uint8Array(file.subarray(head + size)); // a copy: the file's bytes may lie at any address
  return { data: new Type(bytes.buffer), shape, type, ...(time && { unit: time[1] }) };
}

function encodeBlock(block) {
  if (!Array.isArray(block?.shape)) throw new TypeError('a block has data and a shape, such as { data: new Float32Array(6), shape: [2, 3] }');
  const { data, shape, type = typeOf(data) } = block;
  if (shape.reduce((product, n) => product * n, 1) !== data.length) throw new RangeError(`${data.length} values have not the shape ${shape.join(' x ')}`);
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`;
  const header = `${text}${' '.repeat((64 - ((11 + text.length) % 64)) % 64)}\n`;
  const begin = Buffer.from(`\x93NUMPY\x01\x00${String.fromCharCode(header.length & 255, header.length >> 8)}${header}`, 'latin1');
  return Buffer.concat([begin, Buffer.from(data.buffer, data.byteOffset, data.byteLength)]);
}

// Coordinates as JSON: integers of 64 bits as their digits.
function coordinates(box) {
  return JSON.stringify(box, (name, value) => (typeof value === 'bigint' ? String(value) : value));
}

// Prepares a SELECT that calls a function of the extension.
function prepare(db, sql) {
  try {
    return db.prepare(sql);
  } catch (error) {
    if (error.message.startsWith('no such function: tessera_')) error.message += ': call db.loadExtension(getLoadablePath()) first';
    throw error;
  }
}

// Returns the only value of a SELECT.
function ask(db, sql, values) {
  const statement = prepare(db, sql);
  return statement.pluck ? statement.pluck().get(...values) : Object.values(statement.get(...values))[0]; // node:sqlite has no pluck
}

// Reads a box of an attribute of a dense array.
function readBlock(db, path, attribute, box = {}) {
  return decodeBlock(ask(db, 'SELECT tessera_npy(?, ?, ?)', [path, attribute, coordinates(box)]));
}

// Writes blocks, one for each attribute of a dense array, as one commit. Returns the number of cells.
function writeBlocks(db, path, blocks, origin = {}) {
  const values = Object.entries(blocks).flatMap(([name, block]) => [name, encodeBlock(block)]);
  return ask(db, `SELECT tessera_write_npy(?${', ?'.repeat(values.length + 1)})`, [path, ...values, coordinates(origin)]);
}

// ---- SELECTs over columns ---------------------------------------------------------------------------------------------

// A value of a parameter as both drivers take it.
function bound(value) {
  if (value === undefined) return null;
  if (typeof value === 'boolean') return value ? 1 : 0;
  return value instanceof Date ? value.toISOString().slice(0, -1) : value; // arrays have no time zones: instants are UTC
}

const PARAMETERS = /'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|\/\*[^]*?(?:\*\/|$)|\?|[:@$][\p{L}_][\p{L}\p{N}_$]*/gu;

// The values of an object in the order of the parameters' numbers: a name has its number from where it first stands.
function valuesByName(text, named) {
  const names = [...new Set(text.match(PARAMETERS))].filter((word) => '?:@$'.includes(word[0]));
  return names.map((name) => {
    if (!Object.hasOwn(named, name.slice(1))) throw new RangeError(`the object has no value for the parameter ${name}`);
    return named[name.slice(1)];
  });
}

// The values of a call: themselves, or those of one array or object, as better-sqlite3 takes them.
function valuesOf(text, values) {
  const [first] = values;
  if (values.length === 1 && Array.isArray(first)) return first;
  const object = values.length === 1 && first !== null && typeof first === 'object' && !(first instanceof Date) && !ArrayBuffer.isView(first);
  return object ? valuesByName(text, first) : values;
}

// Prepares a SELECT whose parts over arrays run over columns. The values stand in its text: there is nothing left to bind.
function sql(db, text, ...given) {
  if (typeof text !== 'string') throw new TypeError(`a SELECT is text, not ${typeof text}: sql(db, text, ...values)`);
  const values = valuesOf(text, given);
  return db.prepare(ask(db, `SELECT tessera_sql(?${', ?'.repeat(values.length)})`, [text, ...values.map(bound)]));
}

module.exports = { getLoadablePath, demo, decodeBlock, encodeBlock, readBlock, writeBlocks, sql };
