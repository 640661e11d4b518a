// opfs.js: databases in the browser's private file system (OPFS), which keeps files for the origin of the page.
import { TesseraError } from "./http.js";

const JOURNAL = "-journal";

/**
 * Backend "opfs" of host_vfs.c. The browser opens files asynchronously, and SQLite opens them synchronously. So
 * prepare() opens the two files that a database has, itself and its journal, before SQLite asks for them. The browser
 * gives a file to one worker at a time, so nobody else writes it.
 *
 * A journal without bytes is one that does not exist: removing it empties it. SQLite looks at a journal that is there
 * when a database is opened, and undoes with it what a closed page has left half done.
 */
export class OpfsBackend {
  constructor(code, root) {
    this.code = code;
    this.root = root; // a directory instead of the origin's, for tests
    this.paths = new Map(); // path -> { handle, open: number of SQLite's files }
    this.files = [];
  }

  async prepare(path) {
    const parts = path.split("/").filter(Boolean), name = parts.pop();
    if (!name || parts.includes("..") || name === "..") throw new TesseraError("BAD_LOCATION", `opfs:${path}: no name of a file`);
    const full = "/" + [...parts, name].join("/");
    if (this.paths.has(full)) throw new TesseraError("IN_USE", `opfs:${path}: it is open already`);
    const storage = this.root ?? globalThis.navigator?.storage;
    if (!storage?.getDirectory) throw new TesseraError("NO_OPFS", "opfs: this browser keeps no files here. It does so for pages from https or localhost");
    const taken = [];
    try {
      let directory = await storage.getDirectory();
      for (const part of parts) directory = await directory.getDirectoryHandle(part, { create: true });
      for (const suffix of ["", JOURNAL]) {
        const file = await directory.getFileHandle(name + suffix, { create: true });
        if (!file.createSyncAccessHandle) throw new TesseraError("NO_OPFS", "opfs: this browser writes no files here; workers of newer browsers do");
        taken.push([full + suffix, await file.createSyncAccessHandle()]);
      }
    } catch (error) {
      for (const [, handle] of taken) handle.close();
      if (error.name === "NoModificationAllowedError")
        throw new TesseraError("IN_USE", `opfs:${path}: another page or worker has this database open`);
      throw error instanceof TesseraError ? error : new TesseraError("OPFS", `opfs:${path}: ${error.message}`);
    }
    for (const [file, handle] of taken) this.paths.set(file, handle);
    return full;
  }

  release(path) {
    for (const file of [path, path + JOURNAL]) {
      this.paths.get(file)?.close();
      this.paths.delete(file);
    }
  }

  open(name, flags) {
    const handle = this.paths.get(name);
    if (!handle) throw new TesseraError("BAD_LOCATION", `opfs:${name}: a database of OPFS is opened by open("opfs:NAME"), not by ATTACH`);
    return this.files.push(handle) - 1;
  }

  read(handle, to, at) {
    return this.files[handle].read(to, { at });
  }

  write(handle, from, at) {
    let written;
    try {
      written = this.files[handle].write(from, { at });
    } catch (error) {
      if (error.name === "QuotaExceededError") return -13; // SQLITE_FULL
      throw error;
    }
    return written === from.length ? 0 : -13;
  }

  truncate(handle, size) {
    this.files[handle].truncate(size);
    return 0;
  }

  sync(handle) {
    this.files[handle].flush();
    return 0;
  }

  size(handle) {
    return this.files[handle].getSize();
  }

  close(handle) {
    delete this.files[handle]; // the browser's handle stays until release()
    return 0;
  }

  exists(name) {
    return (this.paths.get(name)?.getSize() ?? 0) > 0 ? 1 : 0;
  }

  remove(name) {
    const handle = this.paths.get(name);
    if (!handle) return 0;
    handle.truncate(0);
    handle.flush();
    return 0;
  }
}
