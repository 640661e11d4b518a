/* disk_vfs.c: the VFS of the disk in memory, which is the program's default VFS. It syncs as SQLite's own VFS for Unix: the
 * first sync of a journal syncs its directory, too, and so does a removal with syncDir. Files without a name never fail.
 * Locks are real, but calls that lock never fail.
 */

#include <stdio.h>

#include "disk.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>
#include <time.h>

typedef struct vfs_file {
  sqlite3_file base;
  int node, level; /* SQLITE_LOCK_... */
  bool unforced; /* a journal whose directory has to be synced with it */
  bool temporary; /* removed when it is closed */
  char path[300];
} vfs_file;

static int code_of(int code, int other) { return code >= 0 ? SQLITE_OK : code == -ENOSPC ? SQLITE_FULL : other; }

/* Syncs the directory that a file is in. */
static int sync_parent(const char *path) {
  char directory[300];
  snprintf(directory, sizeof directory, "%s", path);
  *strrchr(directory, '/') = 0;
  return disk_sync(disk_now, disk_find(disk_now, directory, NULL));
}

/* ---- Locks ------------------------------------------------------------------------------------------------------- */

static int unlock(sqlite3_file *it, int level) {
  vfs_file *f = (vfs_file *)it;
  disk_lock *lock = disk_lock_of(disk_now, f->node);
  if (f->level <= level) return SQLITE_OK;
  if (lock->exclusive == f) lock->exclusive = NULL;
  if (lock->pending == f) lock->pending = NULL;
  if (lock->reserved == f) lock->reserved = NULL;
  if (level == SQLITE_LOCK_NONE) lock->shared--;
  f->level = level;
  return SQLITE_OK;
}

static int lock_file(sqlite3_file *it, int level) {
  vfs_file *f = (vfs_file *)it;
  disk_lock *lock = disk_lock_of(disk_now, f->node);
  if (f->level >= level) return SQLITE_OK;
  if (f->level == SQLITE_LOCK_NONE) {
    if (lock->pending || lock->exclusive) return SQLITE_BUSY;
    lock->shared++;
    f->level = SQLITE_LOCK_SHARED;
  }
  if (level >= SQLITE_LOCK_RESERVED) {
    if (lock->reserved && lock->reserved != f) return SQLITE_BUSY;
    if (level == SQLITE_LOCK_RESERVED) lock->reserved = f;
  }
  if (level == SQLITE_LOCK_EXCLUSIVE) {
    if (lock->pending && lock->pending != f) return SQLITE_BUSY;
    lock->pending = f;
    if (f->level < SQLITE_LOCK_PENDING) f->level = SQLITE_LOCK_PENDING;
    if (lock->shared > 1) return SQLITE_BUSY;
    lock->exclusive = f;
  }
  f->level = level;
  return SQLITE_OK;
}

static int check_reserved(sqlite3_file *it, int *result) {
  const disk_lock *lock = disk_lock_of(disk_now, ((vfs_file *)it)->node);
  *result = lock->reserved || lock->pending || lock->exclusive;
  return SQLITE_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static int close_file(sqlite3_file *it) {
  vfs_file *f = (vfs_file *)it;
  unlock(it, SQLITE_LOCK_NONE);
  if (f->temporary && *f->path) disk_remove(disk_now, f->path);
  disk_files_open--;
  return SQLITE_OK;
}

static int read_file(sqlite3_file *it, void *buffer, int size, sqlite3_int64 offset) {
  int code = disk_read(disk_now, ((vfs_file *)it)->node, (uint64_t)offset, buffer, (uint64_t)size, true);
  return code == -ENODATA ? SQLITE_IOERR_SHORT_READ : code_of(code, SQLITE_IOERR_READ);
}

static int write_file(sqlite3_file *it, const void *bytes, int size, sqlite3_int64 offset) {
  return code_of(disk_write(disk_now, ((vfs_file *)it)->node, (uint64_t)offset, bytes, (uint64_t)size),
                 SQLITE_IOERR_WRITE);
}

static int truncate_file(sqlite3_file *it, sqlite3_int64 size) {
  return code_of(disk_cut(disk_now, ((vfs_file *)it)->node, (uint64_t)size), SQLITE_IOERR_TRUNCATE);
}

static int sync_file(sqlite3_file *it, int flags) {
  vfs_file *f = (vfs_file *)it;
  int code = disk_sync(disk_now, f->node);
  if (code < 0) return SQLITE_IOERR_FSYNC;
  if (f->unforced) code = sync_parent(f->path);
  f->unforced = false;
  return code_of(code, SQLITE_IOERR_DIR_FSYNC);
}

static int file_size(sqlite3_file *it, sqlite3_int64 *size) {
  *size = (sqlite3_int64)disk_size(disk_now, ((vfs_file *)it)->node);
  return SQLITE_OK;
}

static int control(sqlite3_file *it, int what, void *argument) { return SQLITE_NOTFOUND; }
static int sector_size(sqlite3_file *it) { return 4096; }
static int characteristics(sqlite3_file *it) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = unlock,
    .xCheckReservedLock = check_reserved,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
};

/* ---- The file system --------------------------------------------------------------------------------------------- */

static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *it, int flags, int *out) {
  vfs_file *f = (vfs_file *)it;
  *f = (vfs_file){0};
  int code;
  if (!path) {
    code = disk_anonymous(disk_now);
  } else {
    bool directory = false;
    code = disk_look();
    if (code == 0) code = disk_find(disk_now, path, &directory);
    if (code >= 0 && directory) code = -EISDIR;
    if (code == -ENOENT && (flags & SQLITE_OPEN_CREATE)) {
      code = disk_make(disk_now, path, false);
      if (code == -EEXIST) code = disk_find(disk_now, path, NULL); /* another process was faster */
    }
    /* A journal that is there already may be one that a process has made and not synced before it died. */
    f->unforced = flags & SQLITE_OPEN_CREATE && flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL);
    snprintf(f->path, sizeof f->path, "%s", path);
  }
  if (code < 0) return SQLITE_CANTOPEN;
  f->node = code;
  f->temporary = flags & SQLITE_OPEN_DELETEONCLOSE;
  f->base.pMethods = &methods;
  disk_files_open++;
  if (out) *out = flags;
  return SQLITE_OK;
}

static int delete_file(sqlite3_vfs *vfs, const char *path, int durable) {
  int code = disk_remove(disk_now, path);
  if (code == -ENOENT) return SQLITE_IOERR_DELETE_NOENT;
  if (code >= 0 && durable) return code_of(sync_parent(path), SQLITE_IOERR_DIR_FSYNC);
  return code_of(code, SQLITE_IOERR_DELETE);
}

static int access_file(sqlite3_vfs *vfs, const char *path, int flags, int *result) {
  int found = disk_look();
  if (found < 0) return SQLITE_IOERR_ACCESS;
  found = disk_find(disk_now, path, NULL);
  *result = found >= 0 && (flags != SQLITE_ACCESS_EXISTS || disk_size(disk_now, found) > 0);
  return SQLITE_OK;
}

static int full_name(sqlite3_vfs *vfs, const char *path, int size, char *full) {
  sqlite3_snprintf(size, full, "%s%s", *path == '/' ? "" : DISK_ROOT "/", path);
  return SQLITE_OK;
}

static int randomness(sqlite3_vfs *vfs, int size, char *bytes) {
  disk_random(bytes, (size_t)size);
  return size;
}

static int sleep_for(sqlite3_vfs *vfs, int microseconds) {
  if (disk_machines_now) disk_machines_now->sleep(microseconds * INT64_C(1000));
  return microseconds;
}

static int time_now(sqlite3_vfs *vfs, sqlite3_int64 *time) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *time = INT64_C(210866760000000) + now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
  return SQLITE_OK;
}

static int last_error(sqlite3_vfs *vfs, int size, char *text) { return 0; }

int disk_vfs_register(void) {
  static sqlite3_vfs vfs = {
      .iVersion = 2,
      .szOsFile = sizeof(vfs_file),
      .mxPathname = 250,
      .zName = "disk",
      .xOpen = open_file,
      .xDelete = delete_file,
      .xAccess = access_file,
      .xFullPathname = full_name,
      .xRandomness = randomness,
      .xSleep = sleep_for,
      .xGetLastError = last_error,
      .xCurrentTimeInt64 = time_now,
  };
  return sqlite3_vfs_register(&vfs, 1);
}
