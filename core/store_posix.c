/* store_posix.c: a store that is a directory of the file system.
 *
 * The root's path is made absolute once, so that a host's chdir changes nothing. Symbolic links are followed when files
 * are read and directories listed (users link their data), never when something is created or removed.
 */
#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE       /* F_OFD_SETLK */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include "store.h"

#ifdef __APPLE__
#define MTIME(s) ((s)->st_mtimespec)
#define CTIME(s) ((s)->st_ctimespec)
#else
#define MTIME(s) ((s)->st_mtim)
#define CTIME(s) ((s)->st_ctim)
#endif

/* The system's words for an error: POSIX's strerror_r returns 0 and writes them, GNU's returns them. */
#define WORDS(number, room)                                                                                            \
  _Generic(strerror_r(number, room, sizeof room),                                                                      \
      int: strerror_r(number, room, sizeof room) == 0 ? room : NULL,                                                   \
      char *: strerror_r(number, room, sizeof room))

#define PIECE (UINT64_C(1) << 30) /* of one system call: some systems refuse more than INT_MAX */

typedef struct posix_store {
  tsr_store base;
  char *root; /* absolute, without a slash at its end: "" is "/" */
  size_t root_length;
} posix_store;

typedef struct posix_file {
  tsr_file base;
  int descriptor;
  pid_t locker; /* the process that has locked it; 0: it is not locked */
} posix_file;

typedef struct full_path {
  char text[4096];
} full_path;

/* ---- Errors and paths ------------------------------------------------------------------------------------------ */

static int fail_system(int number, const char *what, tsr_error *error) {
  int code = TSR_IO;
  switch (number) {
  case ENOSPC:
  case EDQUOT: code = TSR_FULL; break;
  case ENOENT:
  case ENOTDIR:
  case ELOOP:
  case ENAMETOOLONG: code = TSR_NOT_FOUND; break;
  case EACCES:
  case EPERM: code = TSR_PERM; break;
  case EROFS: code = TSR_READONLY; break;
  case EEXIST:
#if ENOTEMPTY != EEXIST
  case ENOTEMPTY:
#endif
    code = TSR_EXISTS;
    break;
  case ENOMEM: code = TSR_NOMEM; break;
  default: break;
  }
  char room[256];
  const char *words = WORDS(number, room);
  return words ? tsr__fail(error, code, "%s: %s", what, words) : tsr__fail(error, code, "%s: error %d", what, number);
}

static int join(tsr_store *store, const char *path, full_path *full, tsr_error *error) {
  const posix_store *s = (const posix_store *)store;
  const size_t root = s->root_length, size = strlen(path);
  if (root >= sizeof full->text - 1 || size >= sizeof full->text - 1 - root)
    return fail_system(ENAMETOOLONG, "path", error);
  memcpy(full->text, s->root, root);
  full->text[root] = '/';
  memcpy(full->text + root + 1, path, size + 1);
  if (size == 0 && root > 0) full->text[root] = 0;
  return TSR_OK;
}

static const char *kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

/* ---- Files ----------------------------------------------------------------------------------------------------- */

static int open_retry(const char *path, int flags) {
  int descriptor;
  do descriptor = open(path, flags | O_CLOEXEC | O_NOCTTY, 0666);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

static int file_new(tsr_store *store, const char *path, int descriptor, uint64_t size, tsr_file **file,
                    tsr_error *error) {
  void *memory;
  TSR_TRY(tsr__file_allocate(store, path, sizeof(posix_file), &memory, error));
  posix_file *f = memory;
  f->descriptor = descriptor;
  f->base.size = size;
  *file = &f->base;
  return TSR_OK;
}

static int open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  int descriptor = open_retry(full.text, O_RDONLY | O_NONBLOCK); /* a pipe without a writer would wait for one */
  struct stat status;
  int rc;
  if (descriptor < 0 && errno == ENXIO) return tsr__fail(error, TSR_NOT_FOUND, "is a socket or a device, not a file");
  if (descriptor < 0) return fail_system(errno, "opening", error);
  if (fstat(descriptor, &status) != 0) rc = fail_system(errno, "opening", error);
  else if (!S_ISREG(status.st_mode))
    rc = tsr__fail(error, TSR_NOT_FOUND, "is %s, not a file", kind_name(status.st_mode));
  else rc = file_new(store, path, descriptor, (uint64_t)status.st_size, file, error);
  if (rc < 0) close(descriptor);
  return rc;
}

static int create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  int descriptor = open_retry(full.text, O_RDWR | O_CREAT | O_EXCL);
  if (descriptor < 0) return fail_system(errno, "creating", error);
  int rc = file_new(store, path, descriptor, 0, file, error);
  if (rc < 0) {
    close(descriptor);
    unlink(full.text);
  }
  return rc;
}

/* ---- Locks -----------------------------------------------------------------------------------------------------
 *
 * A lock belongs to the open file description, not to the process: POSIX's record locks would go when any descriptor of
 * the file is closed in the process, and would not tell two connections of one process apart. Where there are such
 * record locks (F_OFD_SETLK), one byte far behind the file's end is locked: SMB forbids reads of bytes that are locked,
 * NFS hands record locks to its server, where they meet those of the server's own processes. Elsewhere it is flock().
 *
 * A child that a fork makes shares the description, and keeps the lock until it closes the file or ends: the file then
 * looks locked for too long, which does no harm. The process that has locked the file unlocks it when it closes it; a
 * child that closes its copy does not. */

#define LOCK_BYTE     (INT64_C(1) << 40)
#define LOCK_ATTEMPTS 1000 /* of a millisecond: without F_OFD_GETLK who looks at a lock has it for a moment */

static bool has_no_locks(int number) {
  return number == ENOLCK || number == ENOSYS || number == EINVAL || number == EOPNOTSUPP || number == ENOTSUP;
}

static int fail_lock(int number, tsr_error *error) {
  if (has_no_locks(number)) return tsr__fail(error, TSR_UNSUPPORTED, "this file system has no locks");
  return fail_system(number, "locking", error);
}

#ifdef F_OFD_SETLK
static int change_lock(int descriptor, int command, short type, struct flock *lock) {
  int result;
  *lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1};
  do result = fcntl(descriptor, command, lock);
  while (result != 0 && errno == EINTR);
  return result;
}

static int try_lock(int descriptor) {
  struct flock lock;
  return change_lock(descriptor, F_OFD_SETLK, F_WRLCK, &lock);
}

static void unlock(int descriptor) {
  struct flock lock;
  (void)change_lock(descriptor, F_OFD_SETLK, F_UNLCK, &lock);
}

/* Looks, and takes nothing. */
static int look_at_lock(int descriptor, bool *locked) {
  struct flock lock;
  if (change_lock(descriptor, F_OFD_GETLK, F_WRLCK, &lock) != 0) return -1;
  *locked = lock.l_type != F_UNLCK;
  return 0;
}
#else
static int try_lock(int descriptor) {
  int result;
  do result = flock(descriptor, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result;
}

static void unlock(int descriptor) { (void)flock(descriptor, LOCK_UN); }

static int look_at_lock(int descriptor, bool *locked) {
  *locked = flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  if (*locked) return errno == EWOULDBLOCK ? 0 : -1;
  unlock(descriptor);
  return 0;
}
#endif

static int lock_file(tsr_file *file, tsr_error *error) {
  posix_file *f = (posix_file *)file;
  const struct timespec moment = {.tv_nsec = 1000000};
  int result = try_lock(f->descriptor);
  for (int i = 0; i < LOCK_ATTEMPTS && result != 0 && (errno == EAGAIN || errno == EACCES); i++) {
    nanosleep(&moment, NULL);
    result = try_lock(f->descriptor);
  }
  if (result != 0) return fail_lock(errno, error);
  f->locker = getpid();
  return TSR_OK;
}

static int is_locked(tsr_file *file, bool *locked, tsr_error *error) {
  if (look_at_lock(((posix_file *)file)->descriptor, locked) == 0) return TSR_OK;
  return fail_lock(errno, error);
}

static void close_file(tsr_file *file) {
  const posix_file *f = (posix_file *)file;
  if (f->locker && f->locker == getpid()) unlock(f->descriptor);
  close(f->descriptor);
  tsr__free(file);
}

static int read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  int descriptor = ((posix_file *)file)->descriptor;
  uint8_t *at = buffer;
  for (uint64_t done = 0; done < size;) {
    ssize_t got = pread(descriptor, at + done, TSR_MIN(size - done, PIECE), (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_system(errno, "reading", error);
    if (got == 0)
      return tsr__fail(error, TSR_CORRUPT, "the file ends at byte %llu, it had %llu bytes when it was opened",
                       (unsigned long long)(offset + done), (unsigned long long)file->size);
    done += (uint64_t)got;
  }
  return TSR_OK;
}

static int append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  int descriptor = ((posix_file *)file)->descriptor;
  const uint8_t *from = bytes;
  for (uint64_t done = 0; done < size;) {
    ssize_t put = pwrite(descriptor, from + done, TSR_MIN(size - done, PIECE), (off_t)(file->size + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      int rc = fail_system(put == 0 ? EIO : errno, "writing", error);
      if (ftruncate(descriptor, (off_t)file->size) != 0) return rc; /* the first error is the one to tell */
      return rc;
    }
    done += (uint64_t)put;
  }
  file->size += size;
  return TSR_OK;
}

static int sync_retry(int descriptor) {
  int result;
#ifdef F_FULLFSYNC /* fsync alone leaves the bytes in the drive's cache */
  do result = fcntl(descriptor, F_FULLFSYNC);
  while (result != 0 && errno == EINTR);
  if (result == 0) return 0;
#endif
  do result = fsync(descriptor);
  while (result != 0 && errno == EINTR);
  return result;
}

static int sync_file(tsr_file *file, tsr_error *error) {
  if (sync_retry(((posix_file *)file)->descriptor) == 0) return TSR_OK;
  return fail_system(errno, "syncing", error);
}

/* ---- Directories ----------------------------------------------------------------------------------------------- */

static int sync_path(const char *text, tsr_error *error) {
  int descriptor = open_retry(text, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0 && errno == EACCES) return TSR_OK; /* what cannot be opened cannot be synced */
  if (descriptor < 0) return fail_system(errno, "syncing the directory", error);
  int rc = TSR_OK;
  if (sync_retry(descriptor) != 0 && errno != EINVAL) /* EINVAL: this file system has no syncing of directories */
    rc = fail_system(errno, "syncing the directory", error);
  close(descriptor);
  return rc;
}

static int sync_directory(tsr_store *store, const char *path, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  return sync_path(full.text, error);
}

/* Makes the directory and its missing parents, each durable in its parent: no later sync_directory reaches above the
 * root. */
static int make_root(full_path *full, tsr_error *error) {
  char *text = full->text, *slash = text, *next;
  do {
    next = strchr(slash + 1, '/');
    if (next) *next = 0;
    struct stat status;
    if (!next || stat(text, &status) != 0) {
      if (mkdir(text, 0777) == 0) {
        char kept = slash[slash == text]; /* the parent is what stands before the slash, or "/" */
        slash[slash == text] = 0;
        int rc = sync_path(text, error);
        slash[slash == text] = kept;
        TSR_TRY(rc);
      } else if (!next || errno != EEXIST) {
        return fail_system(errno, "making the directory", error);
      }
    }
    if (next) *next = '/';
    slash = next;
  } while (next);
  return TSR_OK;
}

static int make_directory(tsr_store *store, const char *path, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  if (!*path) return make_root(&full, error);
  if (mkdir(full.text, 0777) == 0) return TSR_OK;
  return fail_system(errno, "making the directory", error);
}

static bool is_link(tsr_store *store, const char *path) {
  full_path full;
  struct stat status;
  return join(store, path, &full, NULL) == TSR_OK && lstat(full.text, &status) == 0 && S_ISLNK(status.st_mode);
}

static int remove_path(tsr_store *store, const char *path, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  if (remove(full.text) == 0) return TSR_OK;
  return fail_system(errno, "removing", error);
}

/* What an entry is, links followed; false if it is gone by now. */
static bool find_kind(DIR *directory, const struct dirent *entry, tsr_entry_kind *kind) {
#ifdef DT_REG
  switch (entry->d_type) {
  case DT_REG: *kind = TSR_ENTRY_FILE; return true;
  case DT_DIR: *kind = TSR_ENTRY_DIRECTORY; return true;
  case DT_LNK:
  case DT_UNKNOWN: break; /* some file systems do not say */
  default: *kind = TSR_ENTRY_OTHER; return true;
  }
#endif
  struct stat status;
  *kind = TSR_ENTRY_OTHER;
  if (fstatat(dirfd(directory), entry->d_name, &status, 0) != 0) /* a link that leads nowhere is there nevertheless */
    return fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (S_ISREG(status.st_mode)) *kind = TSR_ENTRY_FILE;
  else if (S_ISDIR(status.st_mode)) *kind = TSR_ENTRY_DIRECTORY;
  return true;
}

static int list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  DIR *directory = opendir(full.text);
  if (!directory) return fail_system(errno, "listing", error);
  int rc = TSR_OK;
  while (rc == TSR_OK) {
    errno = 0;
    const struct dirent *entry = readdir(directory);
    if (!entry) {
      if (errno != 0) rc = fail_system(errno, "listing", error);
      break;
    }
    tsr_entry_kind kind;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (find_kind(directory, entry, &kind)) rc = tsr_listing_add(listing, entry->d_name, kind, error);
  }
  closedir(directory);
  return rc;
}

static int64_t nanoseconds(struct timespec t) {
  return (int64_t)((uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec); /* may wrap in a forged time */
}

/* A directory's times move when an entry comes or goes, but only as finely as the clock behind them ticks: a change
 * within the tick in which we look would leave the same stamp. So a stamp counts only once its time has surely passed.
 * Kernels take times of files from a clock that ticks every 1 to 10 ms: 50 ms are enough. File systems that keep whole
 * seconds (FAT: even ones) show them as such, hence 2 s where there is no fraction. The later of both times is judged,
 * since programs that restore mtime cannot set ctime. A time of the future says nothing. */
static bool settled(const struct stat *status) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
  int64_t latest = TSR_MAX(nanoseconds(MTIME(status)), nanoseconds(CTIME(status)));
  int64_t patience = latest % 1000000000 != 0 ? 50000000 : 2000000000;
  int64_t present = nanoseconds(now);
  return latest <= present && present - patience >= latest;
}

static int stamp_directory(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  struct stat status;
  bool there = stat(full.text, &status) == 0;
  if (!there && errno != ENOENT && errno != ENOTDIR) return fail_system(errno, "looking at the directory", error);
  if (!there || !S_ISDIR(status.st_mode)) {
    *stamp = (tsr_stamp){.known = true};
    return TSR_OK;
  }
  *stamp = (tsr_stamp){settled(&status), (uint64_t)nanoseconds(MTIME(&status)), (uint64_t)nanoseconds(CTIME(&status)),
                       (uint64_t)status.st_ino + (uint64_t)status.st_dev * UINT64_C(0x9e3779b97f4a7c15)};
  return TSR_OK;
}

static int modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  struct stat status;
  if (stat(full.text, &status) != 0) return fail_system(errno, "looking at the file", error);
  struct timespec time = MTIME(&status);
  *milliseconds = time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
  return TSR_OK;
}

static int look_at(tsr_store *store, const char *path, tsr_look *look, tsr_error *error) {
  full_path full;
  TSR_TRY(join(store, path, &full, error));
  struct stat status;
  if (stat(full.text, &status) != 0) return fail_system(errno, "looking at the file", error);
  *look = (tsr_look){(uint64_t)status.st_size, nanoseconds(MTIME(&status))};
  return TSR_OK;
}

/* ---- Renaming -------------------------------------------------------------------------------------------------- */

static int rename_path(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  full_path a, b;
  TSR_TRY(join(store, from, &a, error));
  TSR_TRY(join(store, to, &b, error));
  if (rename(a.text, b.text) == 0) return TSR_OK;
  int number = errno;
  struct stat status; /* a directory over a file, or a file over a directory: what is in the way is there */
  if (number == EISDIR || (number == ENOTDIR && lstat(a.text, &status) == 0 && lstat(b.text, &status) == 0))
    number = EEXIST;
  return fail_system(number, "renaming", error);
}

/* Where the system has no exclusive rename: a file is linked, then loses its old name; for a directory an empty one is
 * made, which fails if anything is there, and replaced. 0, or -1 with errno. */
static int rename_exclusive_by_steps(const char *from, const char *to) {
  struct stat status;
  if (lstat(from, &status) != 0) return -1;
  bool directory = S_ISDIR(status.st_mode);
  if ((directory ? mkdir(to, 0777) : link(from, to)) != 0) return -1;
  if ((directory ? rename(from, to) : unlink(from)) == 0) return 0;
  int number = errno;
  if (directory) rmdir(to);
  else unlink(to);
  errno = number;
  return -1;
}

static int rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  full_path a, b;
  TSR_TRY(join(store, from, &a, error));
  TSR_TRY(join(store, to, &b, error));
  int result = -1;
  errno = ENOSYS;
#if defined(SYS_renameat2)
  result = (int)syscall(SYS_renameat2, AT_FDCWD, a.text, AT_FDCWD, b.text, 1u /* RENAME_NOREPLACE */);
#elif defined(__APPLE__)
  result = renamex_np(a.text, b.text, RENAME_EXCL);
#endif
  if (result != 0 && (errno == ENOSYS || errno == EINVAL || errno == ENOTSUP || errno == EPERM))
    result = rename_exclusive_by_steps(a.text, b.text);
  return result == 0 ? TSR_OK : fail_system(errno, "renaming", error);
}

/* ---- The store ------------------------------------------------------------------------------------------------- */

static void close_store(tsr_store *store) { tsr__free(store); }

static const tsr_store_methods posix_methods = {
    .close = close_store,
    .open_file = open_file,
    .close_file = close_file,
    .read_at = read_at,
    .list = list,
    .stamp = stamp_directory,
    .modified = modified,
    .create_exclusive = create_exclusive,
    .append = append,
    .sync = sync_file,
    .sync_directory = sync_directory,
    .rename = rename_path,
    .rename_exclusive = rename_exclusive,
    .remove = remove_path,
    .make_directory = make_directory,
    .is_link = is_link,
    .look = look_at,
    .lock = lock_file,
    .locked = is_locked,
};

int tsr__store_posix_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error) {
  full_path here;
  if (!*path) return tsr__fail(error, TSR_ERROR, "the path of a directory is empty");
  if (*path == '/') here.text[0] = 0;
  else if (!getcwd(here.text, sizeof here.text)) return fail_system(errno, "the present directory", error);

  const size_t root_size = strlen(here.text) + strlen(path) + 2;
  void *block;
  TSR_TRY(tsr__store_allocate(&posix_methods, memory, path, sizeof(posix_store) + root_size, &block, error));
  posix_store *s = block;
  s->base.workers_may_read = s->base.workers_may_sync = true;
  s->root = (char *)(s + 1);
  int length = snprintf(s->root, root_size, "%s%s%s", here.text, *path == '/' ? "" : "/", path);
  while (length > 0 && s->root[length - 1] == '/') s->root[--length] = 0;
  s->root_length = (size_t)length;
  *store = &s->base;
  return TSR_OK;
}
