/* store_posix.c: a store in a directory of the file system, on POSIX.
 *
 * The root's path is made absolute once, so that a chdir of the host changes nothing. Reads and listings follow
 * symbolic links, because users link their data; creations and removals never do. If the environment has a bound
 * (store_bounds.h), no link is followed: each system call starts from a descriptor of the bound's directory. Then a
 * file with several names (hard links) cannot be read, because another of its names may lie outside the bound.
 *
 * Order: errors and paths; places, which are what openat() and its like take; files and their locks; directories and
 * their stamps; renames; opening and closing a store; and last the walk down from a bound's directory.
 */
#ifndef _WIN32
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
#include <sys/vfs.h>
#endif

#include <stdatomic.h>
#include <string.h>
#include "store/store.h"

#include "base/arithmetic.h"

#ifdef __APPLE__
#define MTIME(s) ((s)->st_mtimespec)
#define CTIME(s) ((s)->st_ctimespec)
#else
#define MTIME(s) ((s)->st_mtim)
#define CTIME(s) ((s)->st_ctim)
#endif

/* The system's description of an error. POSIX's strerror_r writes it to `room` and returns 0, GNU's returns it. */
#define ERROR_TEXT(number, room)                                                                                       \
  _Generic(strerror_r(number, room, sizeof room),                                                                      \
      int: strerror_r(number, room, sizeof room) == 0 ? room : NULL,                                                   \
      char *: strerror_r(number, room, sizeof room))

#define LINKS_ATTEMPTS 20 /* looks at a file with several names, a millisecond apart (see open_and_look) */
#define LINKS_LOOKS    4 /* at the count of a file's names, before it is opened and again after */
#define SMALL_ROOM     8448 /* bytes on the stack for a small file */
#define CALL_MAX       (UINT64_C(1) << 30) /* most bytes per system call: some systems refuse more than INT_MAX */

typedef struct bound_root { /* where the store's root lies within a bound */
  const tsr_bound *bound;
  struct bound_root *earlier; /* for the previous bound, kept because workers may be using it; owned */
  char *path; /* relative to the bound's directory, resolved */
  size_t length;
} bound_root;

typedef struct
    posix_ticks { /* whether the store's file system takes its timestamps from this kernel's clock (tick_is_over) */
  bool looked, local, fine; /* look_at_file_system */
  dev_t device; /* if `local`: of the file system that holds the root */
} posix_ticks;

typedef struct posix_store {
  tsr_store base;
  posix_ticks ticks;
  char *root; /* absolute, without a trailing slash: "" stands for "/" */
  size_t root_length;
  _Atomic(bound_root *) bound_root; /* for the newest bound seen so far, or NULL; owned */
} posix_store;

typedef struct posix_file {
  tsr_file base;
  int descriptor;
  pid_t locker; /* the process that locked the file through this structure; 0: none */
} posix_file;

typedef struct full_path {
  char text[4096];
} full_path;

/* ---- Errors and paths ------------------------------------------------------------------------ */

static int posix_fail_system(int number, const char *what, tsr_error *error) {
  int rc = TSR_IO;
  switch (number) {
  case ENOSPC:
  case EDQUOT: rc = TSR_FULL; break;
  case ENOENT:
  case ENOTDIR:
  case ELOOP:
  case ENAMETOOLONG: rc = TSR_NOT_FOUND; break;
  case EACCES:
  case EPERM: rc = TSR_PERM; break;
  case EROFS: rc = TSR_READONLY; break;
  case EEXIST:
#if ENOTEMPTY != EEXIST
  case ENOTEMPTY:
#endif
    rc = TSR_EXISTS;
    break;
  case ENOMEM: rc = TSR_NOMEM; break;
  default: break;
  }
  char room[256];
  const char *words = ERROR_TEXT(number, room);
  return words ? tsr__fail(error, rc, "%s: %s", what, words) : tsr__fail(error, rc, "%s: error %d", what, number);
}

static int posix_join(const char *root, size_t length, const char *path, full_path *full, tsr_error *error) {
  const size_t size = strlen(path);
  if (length >= sizeof full->text - 1 || size >= sizeof full->text - 1 - length)
    return posix_fail_system(ENAMETOOLONG, "path", error);
  memcpy(full->text, root, length);
  full->text[length] = '/';
  memcpy(full->text + length + 1, path, size + 1);
  if (size == 0 && length > 0) full->text[length] = 0;
  return TSR_OK;
}

/* ---- Places -----------------------------------------------------------------------------------------------------
 *
 * A place is the pair that system calls such as openat() take: a directory and a name in it. Without a bound these are
 * the current directory and the full path. With a bound they are the directory that holds the path's last part, found
 * without following links, and that last part.
 */

typedef struct posix_place {
  const tsr_store *store;
  const tsr_bound *bound; /* borrowed, or NULL */
  int directory; /* AT_FDCWD, or a descriptor that leave() closes */
  const char *name; /* within `path` */
  full_path path; /* with a bound: relative to the bound's directory */
} posix_place;

static int fail_place(const posix_place *p, int number, const char *what, tsr_error *error) {
  if (!p->bound || number != ELOOP) return posix_fail_system(number, what, error);
  return tsr__fail(error, TSR_PERM,
                   "is a symbolic link or is reached through one; tessera_restrict has bound this connection, and it "
                   "follows none within arrays");
}

/* Finds where the store's root lies within the bound. */
static int find_root(posix_store *s, const tsr_bound *bound, const bound_root **found, tsr_error *error) {
  bound_root *known = atomic_load_explicit(&s->bound_root, memory_order_acquire);
  char *path = NULL;
  bound_root *block;
  *found = known;
  if (known && known->bound == bound) return TSR_OK;
  TSR_TRY(tsr__bound_permits(bound, s->base.memory, s->root_length ? s->root : "/", &path, error));
  const int rc = TSR_ALLOC_RAW(s->base.memory, 1, &block, error);
  if (rc < 0) return tsr__free(path), rc;
  bound_root *made = block;
  *made = (bound_root){bound, known, path, strlen(path)};
  while (!atomic_compare_exchange_weak(&s->bound_root, &made->earlier, made)) {
  } /* another thread may add one at the same time */
  *found = made;
  return TSR_OK;
}

/* Returns true if the last call failed because the process, or the system, has too many open files, and some could be
 * closed: then the caller tries again. Keeps errno. */
static bool made_room(const posix_place *p) {
  const int number = errno;
  if (number != EMFILE && number != ENFILE) return false;
  const bool made = p->store->make_room && p->store->make_room(p->store->room_argument);
  errno = number;
  return made;
}

static int bound_enter(const tsr_bound *bound, const char *path, const char **name);

/* Opens the place's directory if there is a bound. Returns 0 or an errno. */
static int enter_bound(posix_place *p) {
  if (!p->bound) return 0;
  do p->directory = bound_enter(p->bound, p->path.text, &p->name);
  while (p->directory < 0 && made_room(p));
  return p->directory < 0 ? errno : 0;
}

static int posix_enter(posix_place *p, const char *what, tsr_error *error) {
  const int number = enter_bound(p);
  return number != 0 ? fail_place(p, number, what, error) : TSR_OK;
}

static void bound_leave(const tsr_bound *bound, int directory);

/* Closes the place's directory. Keeps errno. */
static void leave(const posix_place *p) {
  if (p->bound) bound_leave(p->bound, p->directory);
}

/* Sets a place's path without opening its directory. */
static int find_path(tsr_store *store, const char *path, posix_place *p, tsr_error *error) {
  posix_store *s = (posix_store *)store;
  const bound_root *root;
  p->store = store;
  p->bound = tsr__bounds_get(store->bounds);
  p->directory = AT_FDCWD;
  p->name = p->path.text;
  if (!p->bound) return posix_join(s->root, s->root_length, path, &p->path, error);
  TSR_TRY(find_root(s, p->bound, &root, error));
  return posix_join(root->path, root->length, path, &p->path, error);
}

static int posix_find_place(tsr_store *store, const char *path, posix_place *p, const char *what, tsr_error *error) {
  TSR_TRY(find_path(store, path, p, error));
  return posix_enter(p, what, error);
}

static int bound_open(int directory, const char *name, int flags);

static int open_at(const posix_place *p, int flags) {
  int descriptor;
  flags |= O_CLOEXEC | O_NOCTTY;
  do descriptor = p->bound ? bound_open(p->directory, p->name, flags) : open(p->name, flags, 0666);
  while (descriptor < 0 && (errno == EINTR || made_room(p)));
  return descriptor;
}

/* Reads the status of a file or directory. Returns 0, or -1 with errno: ELOOP for a symbolic link that we may not
 * follow. */
static int posix_look(const posix_place *p, struct stat *status) {
  if (fstatat(p->directory, p->name, status, p->bound ? AT_SYMLINK_NOFOLLOW : 0) != 0) return -1;
  if (!p->bound || !S_ISLNK(status->st_mode)) return 0;
  errno = ELOOP;
  return -1;
}

static const char *posix_kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int posix_file_new(tsr_store *store, const char *path, int descriptor, uint64_t size, tsr_file **file,
                          tsr_error *error) {
  void *memory;
  TSR_TRY(tsr__file_allocate(store, path, sizeof(posix_file), &memory, error));
  posix_file *f = memory;
  f->descriptor = descriptor;
  f->base.size = size;
  *file = &f->base;
  return TSR_OK;
}

static bool has_one_name(const posix_place *p, struct stat *status) {
  bool one = true;
  for (int i = 0; i < LINKS_LOOKS && one; i++)
    one = fstatat(p->directory, p->name, status, AT_SYMLINK_NOFOLLOW) == 0 && status->st_nlink == 1;
  return one;
}

/* Opens a file or directory and reads its status. With a bound a file must have exactly one name, because others may
 * lie outside the bound; otherwise fails with EMLINK. A rename by steps (rename_exclusive_by_steps) gives a file two
 * names for a moment, so a file with two names is retried for a while. While the kernel is removing a name, the name is
 * still visible but no longer counted. The count is therefore read several times before and after the open: a program
 * that makes and removes a name all the time has it removed in a sixth of the looks, so one look on each side would let
 * one name in thirty pass for the only one. This matters only on systems where a user may link another user's
 * file. */
static int open_and_look(const posix_place *p, struct stat *status) {
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int i = 0;; i++) {
    struct stat named;
    const bool before = !p->bound || has_one_name(p, &named);
    const int descriptor = open_at(p, O_RDONLY | O_NONBLOCK); /* non-blocking: opening a pipe would wait for a writer */
    if (descriptor < 0) return -1;
    int number = fstat(descriptor, status) == 0 ? 0 : errno;
    if (!number && (!p->bound || !S_ISREG(status->st_mode))) return descriptor;
    if (!number && before && has_one_name(p, &named) && named.st_ino == status->st_ino &&
        named.st_dev == status->st_dev)
      return descriptor;
    close(descriptor);
    if (!number && i == LINKS_ATTEMPTS) number = EMLINK;
    if (number) return errno = number, -1;
    nanosleep(&moment, NULL);
  }
}

static int posix_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  posix_place p;
  struct stat status;
  int rc;
  TSR_TRY(posix_find_place(store, path, &p, "opening", error));
  const int descriptor = open_and_look(&p, &status), number = errno;
  leave(&p);
  if (descriptor < 0 && number == ENXIO) return tsr__fail(error, TSR_NOT_FOUND, "is a socket or a device, not a file");
  if (descriptor < 0 && number == EMLINK && p.bound)
    return tsr__fail(error, TSR_PERM,
                     "the file has other names (hard links), which may be outside of the directory to which "
                     "tessera_restrict has bound this connection: copy it");
  if (descriptor < 0) return fail_place(&p, number, "opening", error);
  if (S_ISREG(status.st_mode)) rc = posix_file_new(store, path, descriptor, (uint64_t)status.st_size, file, error);
  else rc = tsr__fail(error, TSR_NOT_FOUND, "is %s, not a file", posix_kind_name(status.st_mode));
  if (rc < 0) close(descriptor);
  return rc;
}

/* Reads a small file with three system calls and no stat: a read that returns fewer bytes than requested has reached
 * the end of the file. Everything else (a larger file, a directory, a pipe, an error, or a bound, which requires
 * counting the file's names) is left to posix_open_file. */
static int posix_read_small(tsr_store *store, const char *path, uint64_t most, tsr_arena *arena, tsr_file **kept,
                            tsr_error *error) {
  uint8_t bytes[SMALL_ROOM], *to;
  posix_place p;
  ssize_t got;
  if (most >= sizeof bytes || tsr__bounds_get(store->bounds)) return TSR_OK;
  TSR_TRY(find_path(store, path, &p, error));
  if (p.bound) return TSR_OK; /* another thread has just set it */
  const int descriptor = open_at(&p, O_RDONLY | O_NONBLOCK);
  if (descriptor < 0) return TSR_OK;
  do got = pread(descriptor, bytes, most + 1, 0);
  while (got < 0 && errno == EINTR);
  close(descriptor);
  if (got <= 0 || (uint64_t)got > most) return TSR_OK;
  TSR_TRY(tsr__file_allocate_kept(store, path, (uint64_t)got, arena, kept, &to, error));
  memcpy(to, bytes, (size_t)got);
  return TSR_OK;
}

static int posix_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  posix_place p;
  TSR_TRY(posix_find_place(store, path, &p, "creating", error));
  int descriptor = open_at(&p, O_RDWR | O_CREAT | O_EXCL);
  int rc = descriptor < 0 ? fail_place(&p, errno, "creating", error)
                          : posix_file_new(store, path, descriptor, 0, file, error);
  if (rc < 0 && descriptor >= 0) {
    close(descriptor);
    unlinkat(p.directory, p.name, 0);
  }
  leave(&p);
  return rc;
}

/* ---- Locks -----------------------------------------------------------------------------------------------------
 *
 * A lock must belong to the open file description. POSIX record locks belong to the process: they end when the process
 * closes any descriptor of the file, and they do not exclude two connections within one process. Systems that have
 * record locks of open file descriptions (F_OFD_SETLK) lock one byte far beyond the file's end, because SMB forbids
 * reads of locked bytes. NFS passes such locks to its server, where they also exclude the server's own processes. Other
 * systems use flock().
 *
 * After a fork the child shares the description and thereby holds the lock until it closes the file or ends. So the
 * file may stay locked longer than necessary, which does no harm. The process that locked the file unlocks it
 * explicitly on close; a child that closes its copy does not. */

#define LOCK_BYTE     (INT64_C(1) << 40)
#define LOCK_ATTEMPTS 1000 /* a millisecond apart: without F_OFD_GETLK, testing a lock takes it for a moment */

static bool has_no_locks(int number) {
  return number == ENOLCK || number == ENOSYS || number == EINVAL || number == EOPNOTSUPP || number == ENOTSUP;
}

static int fail_lock(int number, tsr_error *error) {
  if (has_no_locks(number)) return tsr__fail(error, TSR_UNSUPPORTED, "this file system has no locks");
  return posix_fail_system(number, "locking", error);
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

static void posix_unlock(int descriptor) {
  struct flock lock;
  (void)change_lock(descriptor, F_OFD_SETLK, F_UNLCK, &lock);
}

/* Tests the lock without taking it. */
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

static void posix_unlock(int descriptor) { (void)flock(descriptor, LOCK_UN); }

static int look_at_lock(int descriptor, bool *locked) {
  *locked = flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  if (*locked) return errno == EWOULDBLOCK ? 0 : -1;
  posix_unlock(descriptor);
  return 0;
}
#endif

static int posix_lock_file(tsr_file *file, tsr_error *error) {
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

static int posix_is_locked(tsr_file *file, bool *locked, tsr_error *error) {
  if (look_at_lock(((posix_file *)file)->descriptor, locked) == 0) return TSR_OK;
  return fail_lock(errno, error);
}

static void posix_close_file(tsr_file *file) {
  const posix_file *f = (posix_file *)file;
  if (f->locker && f->locker == getpid()) posix_unlock(f->descriptor);
  close(f->descriptor);
  tsr__free(file);
}

static int posix_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  int descriptor = ((posix_file *)file)->descriptor;
  uint8_t *at = buffer;
  for (uint64_t done = 0; done < size;) {
    ssize_t got = pread(descriptor, at + done, TSR_MIN(size - done, CALL_MAX), (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return posix_fail_system(errno, "reading", error);
    if (got == 0)
      return tsr__fail(error, TSR_CORRUPT, "the file ends at byte %llu, it had %llu bytes when it was opened",
                       (unsigned long long)(offset + done), (unsigned long long)file->size);
    done += (uint64_t)got;
  }
  return TSR_OK;
}

static int posix_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  int descriptor = ((posix_file *)file)->descriptor;
  const uint8_t *from = bytes;
  for (uint64_t done = 0; done < size;) {
    ssize_t put = pwrite(descriptor, from + done, TSR_MIN(size - done, CALL_MAX), (off_t)(file->size + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      int rc = posix_fail_system(put == 0 ? EIO : errno, "writing", error);
      if (ftruncate(descriptor, (off_t)file->size) != 0) return rc; /* the failed write is the error to report */
      return rc;
    }
    done += (uint64_t)put;
  }
  file->size += size;
  return TSR_OK;
}

static int sync_retry(int descriptor) {
  int result;
#ifdef F_FULLFSYNC /* on macOS fsync() leaves the bytes in the drive's cache */
  do result = fcntl(descriptor, F_FULLFSYNC);
  while (result != 0 && errno == EINTR);
  if (result == 0) return 0;
#endif
  do result = fsync(descriptor);
  while (result != 0 && errno == EINTR);
  return result;
}

static int posix_sync_file(tsr_file *file, tsr_error *error) {
  if (sync_retry(((posix_file *)file)->descriptor) == 0) return TSR_OK;
  return posix_fail_system(errno, "syncing", error);
}

/* ---- Directories ----------------------------------------------------------------------------- */

static int sync_opened(const posix_place *p, int descriptor, tsr_error *error) {
  if (descriptor < 0 && errno == EACCES) return TSR_OK; /* a directory that we cannot read cannot be synced */
  if (descriptor < 0) return fail_place(p, errno, "syncing the directory", error);
  int rc = TSR_OK;
  if (sync_retry(descriptor) != 0 && errno != EINVAL) /* EINVAL: this file system cannot sync directories */
    rc = posix_fail_system(errno, "syncing the directory", error);
  close(descriptor);
  return rc;
}

static int posix_sync_directory(tsr_store *store, const char *path, tsr_error *error) {
  posix_place p;
  TSR_TRY(posix_find_place(store, path, &p, "syncing the directory", error));
  const int rc = sync_opened(&p, open_at(&p, O_RDONLY | O_DIRECTORY), error);
  leave(&p);
  return rc;
}

static int sync_above(const posix_place *p, tsr_error *error) {
  posix_place above = *p;
  above.name = ".";
  if (!p->bound) { /* the parent is the part before the last slash, or "/" */
    char *slash = strrchr(above.path.text, '/');
    slash[slash == above.path.text] = 0;
    above.name = above.path.text;
  }
  return sync_opened(&above, open_at(&above, O_RDONLY | O_DIRECTORY), error);
}

/* Makes the directory at the end of the place's path, and syncs its parent. */
static int make_part(posix_place *p, bool last, tsr_error *error) {
  struct stat status;
  int rc = TSR_OK;
  TSR_TRY(posix_enter(p, "making the directory", error));
  if (last || posix_look(p, &status) != 0) {
    if (mkdirat(p->directory, p->name, 0777) == 0) rc = sync_above(p, error);
    else if (last || errno != EEXIST) rc = fail_place(p, errno, "making the directory", error);
  }
  leave(p);
  return rc;
}

/* Makes the store's root and its missing parents. Each is made durable at once, because later calls of sync_directory
 * never reach above the root. */
static int make_root(posix_place *p, tsr_error *error) {
  char *next = p->path.text;
  do {
    next = strchr(next + 1, '/');
    if (next) *next = 0;
    const int rc = make_part(p, !next, error);
    if (next) *next = '/';
    TSR_TRY(rc);
  } while (next);
  return TSR_OK;
}

static int posix_make_directory(tsr_store *store, const char *path, tsr_error *error) {
  posix_place p;
  if (!*path) {
    TSR_TRY(find_path(store, path, &p, error));
    return make_root(&p, error);
  }
  TSR_TRY(posix_find_place(store, path, &p, "making the directory", error));
  const int rc =
      mkdirat(p.directory, p.name, 0777) == 0 ? TSR_OK : fail_place(&p, errno, "making the directory", error);
  leave(&p);
  return rc;
}

static bool is_link(tsr_store *store, const char *path) {
  posix_place p;
  struct stat status;
  if (posix_find_place(store, path, &p, "looking", NULL) < 0) return false;
  const bool link = fstatat(p.directory, p.name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  leave(&p);
  return link;
}

static int posix_remove_path(tsr_store *store, const char *path, tsr_error *error) {
  posix_place p;
  TSR_TRY(posix_find_place(store, path, &p, "removing", error));
  int result = unlinkat(p.directory, p.name, 0);
  const int number = errno;
  if (result != 0 && (number == EISDIR || number == EPERM)) { /* POSIX: unlink() of a directory fails with EPERM */
    result = unlinkat(p.directory, p.name, AT_REMOVEDIR);
    if (errno == ENOTDIR) errno = number;
  }
  const int rc = result == 0 ? TSR_OK : fail_place(&p, errno, "removing", error);
  leave(&p);
  return rc;
}

/* Determines the kind of an entry. Returns false if the entry no longer exists. Sets *link for a symbolic link that we
 * may not follow. */
static bool posix_find_kind(DIR *directory, const struct dirent *entry, bool follow, tsr_entry_kind *kind, bool *link) {
#ifdef DT_REG
  switch (entry->d_type) {
  case DT_REG: *kind = TSR_ENTRY_FILE; return true;
  case DT_DIR: *kind = TSR_ENTRY_DIRECTORY; return true;
  case DT_LNK:
  case DT_UNKNOWN: break; /* some file systems do not know it */
  default: *kind = TSR_ENTRY_OTHER; return true;
  }
#endif
  struct stat status;
  *kind = TSR_ENTRY_OTHER;
  const int flags =
      follow ? 0 : AT_SYMLINK_NOFOLLOW; /* for a broken link, the second call below shows that the link itself exists */
  if (fstatat(dirfd(directory), entry->d_name, &status, flags) != 0)
    return fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (S_ISREG(status.st_mode)) *kind = TSR_ENTRY_FILE;
  else if (S_ISDIR(status.st_mode)) *kind = TSR_ENTRY_DIRECTORY;
  *link = S_ISLNK(status.st_mode);
  return true;
}

static DIR *open_list(const posix_place *p) {
  const int descriptor = open_at(p, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  DIR *directory = descriptor < 0 ? NULL : fdopendir(descriptor);
  const int number = errno;
  if (!directory && descriptor >= 0) close(descriptor);
  errno = number;
  return directory;
}

static int posix_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  posix_place p;
  TSR_TRY(posix_find_place(store, path, &p, "listing", error));
  DIR *directory = open_list(&p);
  int rc = directory ? TSR_OK : fail_place(&p, errno, "listing", error);
  leave(&p);
  while (rc == TSR_OK) {
    errno = 0;
    const struct dirent *entry = readdir(directory);
    if (!entry) {
      if (errno != 0) rc = posix_fail_system(errno, "listing", error);
      break;
    }
    tsr_entry_kind kind;
    bool link = false;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (!posix_find_kind(directory, entry, !p.bound, &kind, &link)) continue;
    rc = tsr_listing_add(listing, entry->d_name, kind, error);
    if (rc == TSR_OK && link && !listing->link) listing->link = listing->entries[listing->count - 1].name;
  }
  if (directory) closedir(directory);
  return rc;
}

static int64_t nanoseconds(struct timespec t) {
  return (int64_t)((uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec); /* wraps only for a forged time */
}

/* Returns true if any later change of the directory is certain to change its times. They change when an entry is added
 * or removed, but only with the resolution of the file system's clock: two changes within one tick leave the same
 * times. So a stamp is known only once the tick of the last change has surely passed. Kernels take file times from a
 * clock that ticks every 1 to 10 ms, so 50 ms are enough. Some file systems store whole seconds (FAT: even ones), so a
 * time without a fraction needs 2 s. The later of mtime and ctime counts, because programs that restore mtime cannot
 * set ctime. A time in the future never settles. */
static bool settled(const struct stat *status) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
  int64_t latest = TSR_MAX(nanoseconds(MTIME(status)), nanoseconds(CTIME(status)));
  int64_t patience = latest % 1000000000 != 0 ? 50000000 : 2000000000;
  int64_t present = nanoseconds(now);
  return latest <= present && present - patience >= latest;
}

#if defined(__linux__) && defined(CLOCK_REALTIME_COARSE)
#define TICK_MAX 20000000 /* nanoseconds; upper bound of the time between two ticks of the kernel's clock */

/* Looks at the root's file system. `local`: it takes its times from the kernel's clock. `fine`: since Linux 6.13, a
 * change of a directory whose times somebody has read gets a fine-grained time. tmpfs gives a directory the new time of
 * the file that is unlinked, linked or replaced in it, or of the directory that is removed from it, which nobody has
 * read: it may be the time that the directory has already. */
static void look_at_file_system(posix_store *s) {
  static const struct {
    uint32_t kind;
    bool fine;
  } known[] = {{0xef53 /* ext2 to ext4 */, true},
               {0x58465342 /* XFS */, true},
               {0x9123683e /* Btrfs */, true},
               {0x01021994 /* tmpfs */, false}};
  posix_ticks *t = &s->ticks;
  const char *root = s->root_length ? s->root : "/";
  struct statfs system;
  struct stat status;
  if (t->looked || statfs(root, &system) != 0 || stat(root, &status) != 0) return;
  t->looked = true;
  t->device = status.st_dev;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if ((uint32_t)system.f_type == known[i].kind) {
      t->local = true;
      t->fine = known[i].fine;
    }
}

static int64_t tick_now(void) {
  struct timespec now;
  return clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 ? nanoseconds(now) : 0;
}

/* Returns true if any change of the directory after `status` was read is certain to get another time, even though the
 * last change was only a moment ago. Linux takes file times from a ticking clock, and shows that clock: if it had
 * already ticked since the last change when we began to look, at `before`, then a later change has a later tick. A time
 * that is later than the last tick must be fine-grained. Since we have read it, the next one differs if `fine`. */
static bool tick_is_over(posix_store *s, const struct stat *status, int64_t before) {
  const int64_t latest = TSR_MAX(nanoseconds(MTIME(status)), nanoseconds(CTIME(status)));
  const posix_ticks *t = &s->ticks;
  if (before == 0 || latest % 1000000000 == 0) return false;
  look_at_file_system(s);
  if (!t->local || t->device != status->st_dev) return false;
  if (latest < before) return true;
  const int64_t after = tick_now();
  return t->fine && latest > after && latest - after < TICK_MAX;
}
#else
static int64_t tick_now(void) { return 0; }
static bool tick_is_over(posix_store *s, const struct stat *status, int64_t before) {
  (void)s, (void)status, (void)before;
  return false;
}
#endif

/* Reads the status of a file or directory. Returns 0 or an errno. */
static int find_status(posix_place *p, struct stat *status) {
  int number = enter_bound(p);
  if (number) return number;
  number = posix_look(p, status) == 0 ? 0 : errno;
  leave(p);
  return number;
}

static int posix_stamp_directory(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  posix_place p;
  struct stat status;
  TSR_TRY(find_path(store, path, &p, error));
  const int64_t before = tick_now();
  const int number = find_status(&p, &status);
  if (number && number != ENOENT && number != ENOTDIR) return fail_place(&p, number, "looking at the directory", error);
  if (number || !S_ISDIR(status.st_mode)) {
    *stamp = (tsr_stamp){.known = true};
    return TSR_OK;
  }
  const bool known = settled(&status) || tick_is_over((posix_store *)store, &status, before);
  *stamp = (tsr_stamp){known, (uint64_t)nanoseconds(MTIME(&status)), (uint64_t)nanoseconds(CTIME(&status)),
                       (uint64_t)status.st_ino + (uint64_t)status.st_dev * UINT64_C(0x9e3779b97f4a7c15)};
  return TSR_OK;
}

static int find_file_status(tsr_store *store, const char *path, struct stat *status, tsr_error *error) {
  posix_place p;
  TSR_TRY(find_path(store, path, &p, error));
  const int number = find_status(&p, status);
  return number ? fail_place(&p, number, "looking at the file", error) : TSR_OK;
}

static int posix_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  struct stat status;
  TSR_TRY(find_file_status(store, path, &status, error));
  struct timespec time = MTIME(&status);
  *milliseconds = time.tv_sec < 0 ? 0 : (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
  return TSR_OK;
}

static int posix_look_at(tsr_store *store, const char *path, tsr_look *look, tsr_error *error) {
  struct stat status;
  TSR_TRY(find_file_status(store, path, &status, error));
  *look = (tsr_look){(uint64_t)status.st_size, nanoseconds(MTIME(&status))};
  return TSR_OK;
}

/* ---- Renaming -------------------------------------------------------------------------------- */

/* Finds the two places of a rename. The caller calls leave() for each. */
static int find_both(tsr_store *store, const char *from, const char *to, posix_place *a, posix_place *b,
                     tsr_error *error) {
  TSR_TRY(posix_find_place(store, from, a, "renaming", error));
  const int rc = posix_find_place(store, to, b, "renaming", error);
  if (rc < 0) leave(a);
  return rc;
}

static int posix_rename_path(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  posix_place a, b;
  int rc = TSR_OK;
  TSR_TRY(find_both(store, from, to, &a, &b, error));
  if (renameat(a.directory, a.name, b.directory, b.name) != 0) {
    int number = errno;
    struct stat status; /* a directory and a file in each other's way: these codes also mean that `to` exists */
    if (number == EISDIR || (number == ENOTDIR && fstatat(a.directory, a.name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                             fstatat(b.directory, b.name, &status, AT_SYMLINK_NOFOLLOW) == 0))
      number = EEXIST;
    rc = fail_place(&a, number, "renaming", error);
  }
  leave(&a);
  leave(&b);
  return rc;
}

/* An exclusive rename on systems without a call for it. A file is linked under the new name and then unlinked from the
 * old one. For a directory, an empty one is made, which fails if the path is taken, and then replaced by the rename.
 * Returns 0, or -1 with errno. */
static int rename_exclusive_by_steps(const posix_place *from, const posix_place *to) {
  struct stat status;
  if (fstatat(from->directory, from->name, &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  bool directory = S_ISDIR(status.st_mode);
  if ((directory ? mkdirat(to->directory, to->name, 0777)
                 : linkat(from->directory, from->name, to->directory, to->name, 0)) != 0)
    return -1;
  if ((directory ? renameat(from->directory, from->name, to->directory, to->name)
                 : unlinkat(from->directory, from->name, 0)) == 0)
    return 0;
  int number = errno;
  unlinkat(to->directory, to->name, directory ? AT_REMOVEDIR : 0);
  errno = number;
  return -1;
}

static int posix_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  posix_place a, b;
  TSR_TRY(find_both(store, from, to, &a, &b, error));
  int result = -1;
  errno = ENOSYS;
#if defined(SYS_renameat2)
  result = (int)syscall(SYS_renameat2, a.directory, a.name, b.directory, b.name, 1u /* RENAME_NOREPLACE */);
#elif defined(__APPLE__)
  result = renameatx_np(a.directory, a.name, b.directory, b.name, RENAME_EXCL);
#elif defined(__EMSCRIPTEN__) /* files have one name each and live in memory that no other process sees */
  struct stat status;
  errno = EEXIST;
  if (fstatat(b.directory, b.name, &status, AT_SYMLINK_NOFOLLOW) != 0)
    result = renameat(a.directory, a.name, b.directory, b.name);
#endif
  if (result != 0 && (errno == ENOSYS || errno == EINVAL || errno == ENOTSUP || errno == EPERM))
    result = rename_exclusive_by_steps(&a, &b);
  const int rc = result == 0 ? TSR_OK : fail_place(&a, errno, "renaming", error);
  leave(&a);
  leave(&b);
  return rc;
}

static int posix_exchange(tsr_store *store, const char *one, const char *other, tsr_error *error) {
  posix_place a, b;
  TSR_TRY(find_both(store, one, other, &a, &b, error));
  int result = -1;
  errno = ENOSYS;
#if defined(SYS_renameat2)
  result = (int)syscall(SYS_renameat2, a.directory, a.name, b.directory, b.name, 2u /* RENAME_EXCHANGE */);
#elif defined(__APPLE__)
  result = renameatx_np(a.directory, a.name, b.directory, b.name, RENAME_SWAP);
#endif
  int rc = TSR_OK;
  if (result != 0 && (errno == ENOSYS || errno == EINVAL || errno == ENOTSUP))
    rc = tsr__fail(error, TSR_UNSUPPORTED, "the file system cannot exchange two directories");
  else if (result != 0) rc = fail_place(&a, errno, "exchanging", error);
  leave(&a);
  leave(&b);
  return rc;
}

/* ---- The store ------------------------------------------------------------------------------- */

static void posix_close_store(tsr_store *store) {
  bound_root *root = atomic_load_explicit(&((posix_store *)store)->bound_root, memory_order_acquire);
  while (root) {
    bound_root *earlier = root->earlier;
    tsr__free(root->path);
    tsr__free(root);
    root = earlier;
  }
  tsr__free(store);
}

static const tsr_store_methods posix_methods = {
    .close = posix_close_store,
    .open_file = posix_open_file,
    .read_small = posix_read_small,
    .close_file = posix_close_file,
    .read_at = posix_read_at,
    .list = posix_list,
    .stamp = posix_stamp_directory,
    .modified = posix_modified,
    .create_exclusive = posix_create_exclusive,
    .append = posix_append,
    .sync = posix_sync_file,
    .sync_directory = posix_sync_directory,
    .rename = posix_rename_path,
    .rename_exclusive = posix_rename_exclusive,
    .exchange = posix_exchange,
    .remove = posix_remove_path,
    .make_directory = posix_make_directory,
    .is_link = is_link,
    .look = posix_look_at,
    .lock = posix_lock_file,
    .locked = posix_is_locked,
};

bool tsr__path_is_link(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

int tsr__store_directory_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error) {
  full_path here;
  if (!*path) return tsr__fail(error, TSR_ERROR, "the path of a directory is empty");
  if (*path == '/') here.text[0] = 0;
  else if (!getcwd(here.text, sizeof here.text)) return posix_fail_system(errno, "the present directory", error);

  const size_t root_size = strlen(here.text) + strlen(path) + 2;
  void *block;
  TSR_TRY(tsr__store_allocate(&posix_methods, memory, path, sizeof(posix_store) + root_size, &block, error));
  posix_store *s = block;
  s->base.workers_may_read = s->base.workers_may_sync = s->base.uses_descriptors = true;
  s->root = (char *)(s + 1);
  int length = snprintf(s->root, root_size, "%s%s%s", here.text, *path == '/' ? "" : "/", path);
  while (length > 0 && s->root[length - 1] == '/') s->root[--length] = 0;
  s->root_length = (size_t)length;
  *store = &s->base;
  return TSR_OK;
}
#endif

/* ---- Bounds ----------------------------------------------------------------------------------
 *
 * How POSIX stores are kept within a bound. The path of a store's root is resolved once, including symbolic links and
 * "..", and must lie below the bound's directory. But a directory on that path may be replaced by a link between the
 * check and a later open. So every system call starts from a descriptor of the bound's directory, which was opened when
 * the bound was set, and walks down part by part. A symbolic link on the way is an error, both in the root's resolved
 * path and below the root.
 */

#ifndef _WIN32
#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE       /* O_PATH */
#include "store/store_bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How a directory on the way is opened: with O_PATH or O_SEARCH it need not be readable. */
#if defined(O_PATH)
#define BOUNDS_STEP (O_PATH | O_DIRECTORY)
#elif defined(O_SEARCH)
#define BOUNDS_STEP (O_SEARCH | O_DIRECTORY)
#else
#define BOUNDS_STEP (O_RDONLY | O_DIRECTORY)
#endif

/* ---- Paths ---------------------------------------------------------------------------------- */

/* Cuts the last part off an absolute path. Returns false if that part was "..", or if nothing was left to cut. */
static bool bounds_cut(char *head, size_t *size) {
  while (*size > 1 && head[*size - 1] == '/') --*size;
  const size_t end = *size;
  while (*size > 0 && head[*size - 1] != '/') --*size;
  const bool up = end - *size == 2 && memcmp(head + *size, "..", 2) == 0;
  head[*size] = 0;
  return end > 1 && !up;
}

int tsr__path_resolve(tsr_memory *memory, const char *path, char **resolved, tsr_error *error) {
  char *whole = NULL, *head = NULL, *real = NULL, *here = NULL;
  if (*path != '/' && !(here = realpath(".", NULL)))
    return tsr__fail(error, TSR_IO, "the current directory is not known");
  while (path[0] == '/' && path[1] == '/') path++; /* musl's realpath would keep two of them */
  int rc = tsr__bounds_text(memory, here ? here : "", here && strcmp(here, "/") != 0 ? "/" : "", path, &whole, error);
  if (rc >= 0) rc = tsr__bounds_text(memory, whole, "", "", &head, error);
  if (rc >= 0) {
    size_t size = strlen(head);
    bool clear = true; /* cut parts off the end until the rest of the path exists and can be resolved */
    while (clear && !(real = realpath(head, NULL))) clear = bounds_cut(head, &size);
    const char *rest = whole + size;
    rest += strspn(rest, "/");
    if (!real) rc = tsr__fail(error, TSR_PERM, "the path %s cannot be resolved", path);
    else
      rc = tsr__bounds_text(memory, *rest && strcmp(real, "/") == 0 ? "" : real, *rest ? "/" : "", rest, resolved,
                            error);
  }
  free(here);
  free(real);
  tsr__free(head);
  tsr__free(whole);
  return rc;
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* Like openat(), but fails with ELOOP if `name` is a symbolic link. */
static int bound_open(int directory, const char *name, int flags) {
  int descriptor;
  struct stat status;
  do descriptor = openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC, 0666);
  while (descriptor < 0 && errno == EINTR);
  if (descriptor >= 0 || errno == ENOENT || errno == EEXIST) return descriptor;
  const int number = errno; /* for a link it depends on the system, and with O_DIRECTORY it may be ENOTDIR */
  const bool link = fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  errno = link ? ELOOP : number;
  return -1;
}

/* Opens the directory `part` in `directory`, and closes `directory` unless it is `keep`. Returns -1 with errno on
 * failure. */
static int bounds_step(int directory, int keep, const char *part, size_t size) {
  char name[256]; /* no file system has longer names */
  int next = -1;
  errno = ENAMETOOLONG;
  if (size < sizeof name) {
    memcpy(name, part, size);
    name[size] = 0;
    next = bound_open(directory, name, BOUNDS_STEP);
  }
  const int number = errno;
  if (directory != keep) close(directory);
  errno = number;
  return next;
}

/* Like bound_enter, but starting at `directory`, which stays open. */
static int bounds_enter(int directory, const char *path, const char **name) {
  int at = directory;
  for (;;) {
    path += strspn(path, "/");
    const size_t size = strcspn(path, "/");
    *name = *path ? path : ".";
    if (!path[size]) return at;
    if ((at = bounds_step(at, directory, path, size)) < 0) return -1;
    path += size;
  }
}

/* Walks down `path` from the bound's directory and returns a descriptor of the directory that holds the last part. Sets
 * *name to that part of `path`, or to "." for the bound's own directory. Returns -1 with errno on failure: ELOOP if a
 * directory on the way is a symbolic link. Pass the descriptor to bound_leave, which closes it and keeps errno. */
static int bound_enter(const tsr_bound *bound, const char *path, const char **name) {
  if (bound->directory >= 0) return bounds_enter(bound->directory, path, name);
  errno = ENOTDIR;
  return -1;
}

static void bound_leave(const tsr_bound *bound, int directory) {
  const int number = errno;
  if (directory >= 0 && directory != bound->directory) close(directory);
  errno = number;
}

int tsr__bound_directory_open(const tsr_bound *wider, const char *path) {
  const char *name;
  if (wider && wider->directory < 0) return errno = *path ? ENOENT : ENOTDIR, -1;
  const int top = wider ? wider->directory : open("/", BOUNDS_STEP | O_CLOEXEC);
  const int above = top < 0 ? -1 : bounds_enter(top, path, &name);
  const int directory = above < 0 ? -1 : bound_open(above, name, BOUNDS_STEP);
  const int number =
      above < 0 && errno == ENOTDIR ? ENOENT : errno; /* an ancestor is not a directory: `path` does not exist */
  if (above >= 0 && above != top) close(above);
  if (top >= 0 && !wider) close(top);
  errno = number;
  return directory;
}

int tsr__bound_may_ask(const tsr_bound *bound, const char *path, tsr_error *error) { return TSR_OK; }

void tsr__bound_directory_close(int directory) {
  if (directory >= 0) close(directory);
}
#endif
