/* system_posix.c: implements system.h for POSIX systems and for WebAssembly, which has no libraries to load. The
 * sections are those of system.h. */
#ifndef _WIN32
#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE       /* sched_getaffinity, O_TMPFILE */
#include "base/system.h"

#if !defined(__EMSCRIPTEN__) && !defined(__wasi__)
#include <dlfcn.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arithmetic.h"
#include "base/pool.h"

#define STACK_MIN      (1u << 20) /* bytes; some C libraries give as little as 128 KiB */
#define TEMPORARY_CALL (UINT64_C(1) << 30) /* most bytes per system call */

/* ---- Threads and processes --------------------------------------------------------------------------------------- */

bool tsr__thread_start(void *(*run)(void *argument), void *argument) {
  const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  size_t stack;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < STACK_MIN)
    pthread_attr_setstacksize(&attributes, STACK_MIN);
  sigfillset(&all);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

void tsr__at_fork(void (*before)(void), void (*after)(void), void (*after_in_child)(void)) {
  pthread_atfork(before, after, after_in_child);
}

bool tsr__threads_live_at_exit(void) { return true; }

size_t tsr__open_files_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= SIZE_MAX) return SIZE_MAX;
  return (size_t)limit.rlim_cur;
}

unsigned tsr__cores(void) {
#if defined(__linux__)
  cpu_set_t set; /* what a container or taskset allows, not every processor of the machine */
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return (unsigned)CPU_COUNT(&set);
#endif
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (unsigned)count : 1;
}

#if defined(__linux__) && defined(MADV_HUGEPAGE)
/* The file has the choices, with the present one in brackets. */
static bool read_huge_pages(void) {
  char text[64] = "";
  const int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool known = read(file, text, sizeof text - 1) > 0;
  close(file);
  return known && (strstr(text, "[always]") || strstr(text, "[madvise]"));
}

bool tsr__huge_pages(void) {
  enum { UNKNOWN, YES, NO };
  static _Atomic int state;
  int now = atomic_load_explicit(&state, memory_order_relaxed);
  if (now == UNKNOWN) {
    now = read_huge_pages() ? YES : NO;
    atomic_store_explicit(&state, now, memory_order_relaxed);
  }
  return now == YES;
}
#else
bool tsr__huge_pages(void) { return false; }
#endif

void tsr__advise_huge_pages(void *memory, size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  (void)madvise(memory, size, MADV_HUGEPAGE);
#endif
}

int tsr__host_name(char *name, size_t room) {
  if (gethostname(name, room - 1) != 0) return errno;
  name[room - 1] = 0;
  return 0;
}

/* ---- Libraries --------------------------------------------------------------------------------------------------- */

#if defined(__EMSCRIPTEN__) || defined(__wasi__)
void *tsr__library_open(const char *name) { return NULL; }
void *tsr__library_find(void *library, const char *symbol) { return NULL; }
#else
void *tsr__library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }
void *tsr__library_find(void *library, const char *symbol) { return dlsym(library, symbol); }
#endif

/* ---- Sockets ----------------------------------------------------------------------------------------------------- */

void tsr__socket_no_inherit(tsr_socket socket) { (void)fcntl(socket, F_SETFD, FD_CLOEXEC); }

bool tsr__bell_open(tsr_bell *bell) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; i++) {
    (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[i], F_SETFL, fcntl(ends[i], F_GETFL) | O_NONBLOCK);
  }
  *bell = (tsr_bell){ends[0], ends[1]};
  return true;
}

void tsr__bell_ring(const tsr_bell *bell) {
  const char byte = 0;
  while (write(bell->rings, &byte, 1) < 0 && errno == EINTR) {} /* a full pipe wakes the reader just as well */
}

void tsr__bell_clear(const tsr_bell *bell) {
  char bytes[64];
  while (read(bell->waits, bytes, sizeof bytes) > 0) {}
}

void tsr__bell_close(const tsr_bell *bell) {
  close(bell->waits);
  close(bell->rings);
}

/* ---- Temporary files --------------------------------------------------------------------------------------------- */

/* SQLite looks in these directories, too. */
intptr_t tsr__temporary_open(void) {
  static const char *const directories[] = {"/var/tmp", "/tmp", "."};
  for (int i = 0; i < 3; i++) {
    char name[64];
    int descriptor = -1;
#ifdef O_TMPFILE
    descriptor = open(directories[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor >= 0) return descriptor;
#endif
    snprintf(name, sizeof name, "%s/tessera-XXXXXX", directories[i]);
    descriptor = mkstemp(name);
    if (descriptor < 0) continue;
    (void)unlink(name);
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    return descriptor;
  }
  return TSR_NO_TEMPORARY;
}

int64_t tsr__temporary_write(intptr_t file, const void *bytes, uint64_t size, uint64_t offset) {
  ssize_t n;
  do n = pwrite((int)file, bytes, TSR_MIN(size, TEMPORARY_CALL), (off_t)offset);
  while (n < 0 && errno == EINTR);
  return n;
}

int64_t tsr__temporary_read(intptr_t file, void *bytes, uint64_t size, uint64_t offset) {
  ssize_t n;
  do n = pread((int)file, bytes, TSR_MIN(size, TEMPORARY_CALL), (off_t)offset);
  while (n < 0 && errno == EINTR);
  return n;
}

bool tsr__temporary_empty(intptr_t file) { return ftruncate((int)file, 0) == 0; }
void tsr__temporary_close(intptr_t file) { (void)close((int)file); }

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

void tsr_path_form(char *path) { (void)path; }
bool tsr__path_here(char *path, size_t room) { return getcwd(path, room) != NULL; }
size_t tsr__path_root(const char *path) { return *path == '/'; }

bool tsr_path_absolute(const char *path) { return *path == '/'; }
bool tsr_path_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

bool tsr_path_same(const char *a, const char *b) { return strcmp(a, b) == 0; }
char *tsr_path_real(const char *path) { return realpath(path, NULL); }

int tsr_path_read(const char *path, bool waits) { return open(path, O_RDONLY | O_CLOEXEC | (waits ? 0 : O_NONBLOCK)); }

#endif
