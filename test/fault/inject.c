/* inject.c: a library for LD_PRELOAD that counts the system calls that change files. At the call that it is armed for the
 * process dies, or the call fails. It exports two functions, which arm it and return the count. Calls of all threads are
 * counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum fault {
  NOTHING, /* calls are counted only */
  KILL, /* the process dies before the call */
  KILL_WITHIN, /* the process dies in a write when half is written, in all other calls after the call */
  FULL, /* from this call on no call can write or create: ENOSPC */
  EIO_ONCE, /* this call fails */
  EIO_ALWAYS /* this call and all later ones fail */
} fault;

/* The kinds of calls: FULL concerns those that need space. */
typedef enum kind { WRITE, MAKE, SYNC, REMOVE, RENAME } kind;

static atomic_int armed = -1;
static atomic_long calls, when;

void inject_arm(int what, long at);
long inject_disarm(void);

void inject_arm(int what, long at) {
  atomic_store(&calls, 0);
  atomic_store(&when, at);
  atomic_store(&armed, what);
}

/* Returns the number of calls that were counted. */
long inject_disarm(void) {
  atomic_store(&armed, -1);
  return atomic_load(&calls);
}

/* Counts a call. Returns 0 if the call shall be made, or the errno with which it fails. *half is set if only half of a write
 * shall be made, *dies if the process shall die after the call. */
static int judge(kind what, bool *dies) {
  int now = atomic_load(&armed);
  *dies = false;
  if (now < 0) return 0;
  long number = atomic_fetch_add(&calls, 1) + 1, at = atomic_load(&when);
  switch ((fault)now) {
  case NOTHING: return 0;
  case KILL:
    if (number == at) _exit(70);
    return 0;
  case KILL_WITHIN: *dies = number == at; return 0;
  case FULL: return number >= at && (what == WRITE || what == MAKE) ? ENOSPC : 0;
  case EIO_ONCE: return number == at ? EIO : 0;
  case EIO_ALWAYS: return number >= at ? EIO : 0;
  }
  return 0;
}

#define REAL(type, name, ...)                                                                                          \
  static type (*real)(__VA_ARGS__);                                                                                    \
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, name)

/* Defines a call that returns -1 on failure. */
#define CALL(what, call)                                                                                               \
  bool dies;                                                                                                           \
  int number = judge(what, &dies);                                                                                     \
  if (number) return errno = number, -1;                                                                               \
  long result = (call);                                                                                                \
  if (dies) _exit(70);                                                                                                 \
  return result

#define PUT(name)                                                                                                      \
  bool dies;                                                                                                           \
  int number = judge(WRITE, &dies);                                                                                    \
  if (number) return errno = number, -1;                                                                               \
  if (dies) size = (size + 1) / 2;

ssize_t write(int file, const void *bytes, size_t size) {
  REAL(ssize_t, "write", int, const void *, size_t);
  if (file <= 2) return real(file, bytes, size);
  PUT("write");
  ssize_t result = real(file, bytes, size);
  if (dies) _exit(70);
  return result;
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
  REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
  PUT("pwrite");
  ssize_t result = real(file, bytes, size, at);
  if (dies) _exit(70);
  return result;
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
  REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
  PUT("pwrite64");
  ssize_t result = real(file, bytes, size, at);
  if (dies) _exit(70);
  return result;
}

int ftruncate(int file, off_t size) {
  REAL(int, "ftruncate", int, off_t);
  CALL(REMOVE, real(file, size));
}
int ftruncate64(int file, off64_t size) {
  REAL(int, "ftruncate64", int, off64_t);
  CALL(REMOVE, real(file, size));
}
int fsync(int file) {
  REAL(int, "fsync", int);
  CALL(SYNC, real(file));
}
int fdatasync(int file) {
  REAL(int, "fdatasync", int);
  CALL(SYNC, real(file));
}
int unlink(const char *path) {
  REAL(int, "unlink", const char *);
  CALL(REMOVE, real(path));
}
int rmdir(const char *path) {
  REAL(int, "rmdir", const char *);
  CALL(REMOVE, real(path));
}
int remove(const char *path) {
  REAL(int, "remove", const char *);
  CALL(REMOVE, real(path));
}
int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *);
  CALL(RENAME, real(from, to));
}
int link(const char *from, const char *to) {
  REAL(int, "link", const char *, const char *);
  CALL(MAKE, real(from, to));
}
int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  CALL(MAKE, real(path, mode));
}
int unlinkat(int directory, const char *path, int flags) {
  REAL(int, "unlinkat", int, const char *, int);
  CALL(REMOVE, real(directory, path, flags));
}
int renameat(int from, const char *old, int to, const char *new) {
  REAL(int, "renameat", int, const char *, int, const char *);
  CALL(RENAME, real(from, old, to, new));
}
int linkat(int from, const char *old, int to, const char *new, int flags) {
  REAL(int, "linkat", int, const char *, int, const char *, int);
  CALL(MAKE, real(from, old, to, new, flags));
}
int mkdirat(int directory, const char *path, mode_t mode) {
  REAL(int, "mkdirat", int, const char *, mode_t);
  CALL(MAKE, real(directory, path, mode));
}

static mode_t mode_of(int flags, va_list arguments) { return flags & O_CREAT ? (mode_t)va_arg(arguments, int) : 0; }

/* Only calls that create a file are counted. */
#define OPEN(name)                                                                                                     \
  int name(const char *path, int flags, ...) {                                                                         \
    REAL(int, #name, const char *, int, ...);                                                                          \
    va_list arguments;                                                                                                 \
    va_start(arguments, flags);                                                                                        \
    mode_t mode = mode_of(flags, arguments);                                                                           \
    va_end(arguments);                                                                                                 \
    if (!(flags & O_CREAT)) return real(path, flags, mode);                                                            \
    CALL(MAKE, real(path, flags, mode));                                                                               \
  }
OPEN(open)
OPEN(open64)

/* renameat2, for which older C libraries have no function. All other system calls are passed on. */
long syscall(long call, ...) {
  REAL(long, "syscall", long, ...);
  long a[6];
  va_list arguments;
  va_start(arguments, call);
  for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
  va_end(arguments);
  if (call != SYS_renameat2) return real(call, a[0], a[1], a[2], a[3], a[4], a[5]);
  CALL(RENAME, real(call, a[0], a[1], a[2], a[3], a[4], a[5]));
}
