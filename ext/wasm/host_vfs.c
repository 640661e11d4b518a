/* host_vfs.c: VFSes of SQLite whose files belong to JavaScript.
 *
 * JavaScript has a list of backends, Module.backends (engine.js makes it). Each backend is an object with the methods
 * open, read, write, truncate, sync, size, close, remove and exists, and each one is registered here as a VFS under its
 * own name: "http" reads databases behind URLs by ranges, "opfs" keeps databases in the browser's private file system.
 *
 * A backend's method returns a number: a handle, a size, a flag or 0, or -1 times an error code of SQLite. It never
 * throws through this file: engine.js catches what a backend throws, keeps its message for the error of the statement,
 * and returns the code. Offsets and sizes are doubles, which are exact up to 2^53.
 *
 * Files without a name, which SQLite makes for large sorts and savepoints, go to the default VFS, that is, to memory.
 * So do files of the VFS "http" whose names are no URLs: a connection with this VFS attaches both kinds. There are no
 * locks: a backend lets one connection open a file for writing, and files behind URLs never change while they are open
 * (a change that is noticed is an error of the read). So there is no shared memory either, and no WAL.
 */
#include <emscripten.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite3.h"

#define PATH_MAX_BYTES 4096 /* of a URL or a path */
#define BACKENDS_MAX   4

/* clang-format off */
EM_JS(double, backend_open, (int backend, const char *name, int flags), { return Module.backends[backend].open(UTF8ToString(name), flags); });
EM_JS(int, backend_read, (int backend, int handle, void *to, int size, double at), { return Module.backends[backend].read(handle, to, size, at); });
EM_JS(int, backend_write, (int backend, int handle, const void *from, int size, double at), { return Module.backends[backend].write(handle, from, size, at); });
EM_JS(int, backend_truncate, (int backend, int handle, double size), { return Module.backends[backend].truncate(handle, size); });
EM_JS(int, backend_sync, (int backend, int handle), { return Module.backends[backend].sync(handle); });
EM_JS(double, backend_size, (int backend, int handle), { return Module.backends[backend].size(handle); });
EM_JS(int, backend_close, (int backend, int handle), { return Module.backends[backend].close(handle); });
EM_JS(int, backend_remove, (int backend, const char *name), { return Module.backends[backend].remove(UTF8ToString(name)); });
EM_JS(int, backend_exists, (int backend, const char *name), { return Module.backends[backend].exists(UTF8ToString(name)); });
/* clang-format on */

typedef struct host_file {
  sqlite3_file base;
  int backend, handle;
  int read_only;
} host_file;

typedef struct host_vfs {
  sqlite3_vfs base;
  sqlite3_vfs *standard; /* the default VFS, for files without a name, random bytes and times */
  int backend; /* its place in Module.backends */
  int is_remote; /* its files have URLs as names, and are read-only */
} host_vfs;

static int is_elsewhere(const host_vfs *v, const char *name) { return !name || (v->is_remote && !strstr(name, "://")); }

/* A backend's negative result as SQLite's code; `code` if it is no code of SQLite. */
static int host_code(double result, int code) { return result > -65536 && result < 0 ? -(int)result : code; }

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static int host_close(sqlite3_file *file) {
  host_file *f = (host_file *)file;
  const int result = backend_close(f->backend, f->handle);
  return result < 0 ? host_code(result, SQLITE_IOERR_CLOSE) : SQLITE_OK;
}

/* Past the end of a file SQLite expects zeros and SQLITE_IOERR_SHORT_READ. The backend returns how much it has read. */
static int host_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at) {
  host_file *f = (host_file *)file;
  const int got = backend_read(f->backend, f->handle, to, size, (double)at);
  if (got < 0) return host_code(got, SQLITE_IOERR_READ);
  if (got >= size) return SQLITE_OK;
  memset((char *)to + got, 0, size - got);
  return SQLITE_IOERR_SHORT_READ;
}

static int host_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at) {
  host_file *f = (host_file *)file;
  if (f->read_only) return SQLITE_READONLY;
  const int result = backend_write(f->backend, f->handle, from, size, (double)at);
  return result < 0 ? host_code(result, SQLITE_IOERR_WRITE) : SQLITE_OK;
}

static int host_truncate(sqlite3_file *file, sqlite3_int64 size) {
  host_file *f = (host_file *)file;
  if (f->read_only) return SQLITE_READONLY;
  const int result = backend_truncate(f->backend, f->handle, (double)size);
  return result < 0 ? host_code(result, SQLITE_IOERR_TRUNCATE) : SQLITE_OK;
}

static int host_sync(sqlite3_file *file, int flags) {
  host_file *f = (host_file *)file;
  if (f->read_only) return SQLITE_OK;
  const int result = backend_sync(f->backend, f->handle);
  return result < 0 ? host_code(result, SQLITE_IOERR_FSYNC) : SQLITE_OK;
}

static int host_file_size(sqlite3_file *file, sqlite3_int64 *size) {
  host_file *f = (host_file *)file;
  const double result = backend_size(f->backend, f->handle);
  if (result < 0) return host_code(result, SQLITE_IOERR_FSTAT);
  *size = (sqlite3_int64)result;
  return SQLITE_OK;
}

static int host_lock(sqlite3_file *file, int lock) { return SQLITE_OK; }

static int host_reserved(sqlite3_file *file, int *reserved) {
  *reserved = 0;
  return SQLITE_OK;
}

static int host_control(sqlite3_file *file, int operation, void *argument) { return SQLITE_NOTFOUND; }

static int host_sector(sqlite3_file *file) { return 4096; }

static int host_device(sqlite3_file *file) {
  return ((host_file *)file)->read_only ? SQLITE_IOCAP_IMMUTABLE : SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN;
}

static const sqlite3_io_methods host_methods = {
    1,         host_close, host_read,     host_write,   host_truncate, host_sync,   host_file_size,
    host_lock, host_lock,  host_reserved, host_control, host_sector,   host_device,
};

/* ---- The file system --------------------------------------------------------------------------------------------- */

static int host_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
  host_vfs *v = (host_vfs *)vfs;
  host_file *f = (host_file *)file;
  if (is_elsewhere(v, name)) return v->standard->xOpen(v->standard, name, file, flags, out_flags);
  memset(f, 0, sizeof *f);
  const double handle = backend_open(v->backend, name, flags);
  if (handle < 0) return host_code(handle, SQLITE_CANTOPEN);
  f->backend = v->backend;
  f->handle = (int)handle;
  if (v->is_remote) flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
  f->read_only = (flags & SQLITE_OPEN_READONLY) != 0;
  f->base.pMethods = &host_methods;
  if (out_flags) *out_flags = flags;
  return SQLITE_OK;
}

static int host_delete(sqlite3_vfs *vfs, const char *name, int sync_directory) {
  host_vfs *v = (host_vfs *)vfs;
  if (is_elsewhere(v, name)) return v->standard->xDelete(v->standard, name, sync_directory);
  const int result = backend_remove(v->backend, name);
  return result < 0 ? host_code(result, SQLITE_IOERR_DELETE) : SQLITE_OK;
}

static int host_access(sqlite3_vfs *vfs, const char *name, int flags, int *there) {
  host_vfs *v = (host_vfs *)vfs;
  if (is_elsewhere(v, name)) return v->standard->xAccess(v->standard, name, flags, there);
  const int result = backend_exists(v->backend, name);
  if (result < 0) return host_code(result, SQLITE_IOERR_ACCESS);
  *there = result;
  return SQLITE_OK;
}

static int host_full_path(sqlite3_vfs *vfs, const char *name, int size, char *out) {
  host_vfs *v = (host_vfs *)vfs;
  if (is_elsewhere(v, name)) return v->standard->xFullPathname(v->standard, name, size, out);
  if (strlen(name) >= (size_t)size) return SQLITE_CANTOPEN;
  strcpy(out, name);
  return SQLITE_OK;
}

static int host_random(sqlite3_vfs *vfs, int size, char *out) {
  sqlite3_vfs *standard = ((host_vfs *)vfs)->standard;
  return standard->xRandomness(standard, size, out);
}

static int host_sleep(sqlite3_vfs *vfs, int microseconds) { return 0; }

static int host_time(sqlite3_vfs *vfs, double *time) {
  sqlite3_vfs *standard = ((host_vfs *)vfs)->standard;
  return standard->xCurrentTime(standard, time);
}

static int host_time64(sqlite3_vfs *vfs, sqlite3_int64 *time) {
  sqlite3_vfs *standard = ((host_vfs *)vfs)->standard;
  return standard->xCurrentTimeInt64(standard, time);
}

static int host_last_error(sqlite3_vfs *vfs, int size, char *out) { return 0; }

/* Registers Module.backends[backend] as the VFS `name`, a string that stays. Called by engine.js, once for each. */
EMSCRIPTEN_KEEPALIVE int tessera_backend(const char *name, int backend, int is_remote) {
  static host_vfs all[BACKENDS_MAX];
  sqlite3_vfs *standard = sqlite3_vfs_find(NULL);
  if (backend < 0 || backend >= BACKENDS_MAX || !standard) return SQLITE_MISUSE;
  host_vfs *v = &all[backend];
  v->standard = standard;
  v->backend = backend;
  v->is_remote = is_remote;
  v->base = (sqlite3_vfs){
      .iVersion = 2,
      .szOsFile = standard->szOsFile > (int)sizeof(host_file) ? standard->szOsFile : (int)sizeof(host_file),
      .mxPathname = PATH_MAX_BYTES,
      .zName = name,
      .xOpen = host_open,
      .xDelete = host_delete,
      .xAccess = host_access,
      .xFullPathname = host_full_path,
      .xRandomness = host_random,
      .xSleep = host_sleep,
      .xCurrentTime = host_time,
      .xGetLastError = host_last_error,
      .xCurrentTimeInt64 = host_time64,
  };
  return sqlite3_vfs_register(&v->base, 0);
}
