/* owner.c: the identity of a database file, the owner of prepared commits.
 *
 * A marker names its owner, a database file, by an id that copies of the file do not share. It derives from the file's
 * place: a digest of device, inode, birth time, absolute path, host name and the boot id of the machine. No two files
 * have all of these in common at the same time. The birth time tells a file from a later one that reuses its device and
 * inode. A virtual machine cannot be told from its clone if it was cloned while running.
 *
 * The file is examined by its path and never opened: closing it would release SQLite's own locks on it. */
#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE       /* syscall */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "tessera_host.h"
#include "base/error.h"
#include "base/system.h"
#include "crypto/crypto.h"

#ifdef _WIN32
#include "base/windows_path.h"
#else
#include <sys/stat.h>
#include <unistd.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#elif defined(__linux__)
#include <sys/syscall.h>
#endif

#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

static void print_digits(const uint8_t digest[TSR_SHA256_SIZE], char text[TSR_OWNER_SIZE]) {
  tsr_hex_write(digest, (TSR_OWNER_SIZE - 1) / 2, text);
}

/* Prints the properties that distinguish the file from its copies. Returns 1, or 0 if the file cannot be examined. */
#ifdef _WIN32
static int describe(const char *file, char text[512], tsr_error *error) {
  char host[256] = "";
  uint64_t numbers[4];
  const int number = tsr__windows_identity(file, numbers);
  if (number == ENOENT || number == EACCES) return 0;
  if (number) return tsr__fail(error, TSR_IO, "%s cannot be looked at: error %d", file, number);
  if (tsr__host_name(host, sizeof host) != 0) return tsr__fail(error, TSR_IO, "the name of this machine is not known");
  snprintf(text, 512, "%llx %llx %llx %llx %s %s", (unsigned long long)numbers[0], (unsigned long long)numbers[1],
           (unsigned long long)numbers[2], (unsigned long long)numbers[3], tsr__windows_boot().text, host);
  return 1;
}
#else

/* Gives the id of this boot; empty if the system has none. Any other failure is an error, since an empty id would make
 * the machine look like another one. */
#ifdef __APPLE__
static int find_boot(char boot[64], tsr_error *error) {
  size_t size = 63;
  memset(boot, 0, 64);
  if (sysctlbyname("kern.bootsessionuuid", boot, &size, NULL, 0) == 0 || errno == ENOENT) return TSR_OK;
  return tsr__fail(error, TSR_IO, "the id of the system's boot cannot be read: error %d", errno);
}
#else
static int find_boot(char boot[64], tsr_error *error) {
  memset(boot, 0, 64);
  const int descriptor = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EPERM)) return TSR_OK;
  const ssize_t got = descriptor < 0 ? -1 : read(descriptor, boot, 63);
  const int number = errno;
  if (descriptor >= 0) close(descriptor);
  if (got > 0) return TSR_OK;
  return tsr__fail(error, TSR_IO, "%s cannot be read: error %d", BOOT_FILE, number);
}
#endif

/* The result of Linux's statx: glibc before 2.28 and musl before 1.2.4 have neither the function nor its struct. */
typedef struct linux_statx {
  uint32_t mask; /* has STATX_HAS_BIRTH if birth_* are valid */
  uint8_t before[76];
  int64_t birth_seconds;
  uint32_t birth_nanoseconds;
  uint8_t after[164];
} linux_statx;
_Static_assert(sizeof(linux_statx) == 256 && offsetof(linux_statx, birth_seconds) == 80, "the kernel's struct statx");
#define STATX_HAS_BIRTH 0x800u

/* Gives the file's birth time in nanoseconds; 0 if the file system or the operating system does not record it. */
static int find_birth(const char *file, const struct stat *status, long long *birth, tsr_error *error) {
  *birth = 0;
#if defined(__APPLE__)
  *birth = (long long)status->st_birthtimespec.tv_sec * 1000000000 + status->st_birthtimespec.tv_nsec;
#elif defined(SYS_statx)
  linux_statx more;
  const long result = syscall(SYS_statx, AT_FDCWD, file, 0, STATX_HAS_BIRTH, &more);
  if (result != 0 && errno != ENOSYS && errno != EPERM && errno != EINVAL)
    return tsr__fail(error, TSR_IO, "%s cannot be looked at: error %d", file, errno);
  if (result == 0 && (more.mask & STATX_HAS_BIRTH))
    *birth = (long long)more.birth_seconds * 1000000000 + more.birth_nanoseconds;
#endif
  return TSR_OK;
}

static int describe(const char *file, char text[512], tsr_error *error) {
  struct stat status;
  long long birth;
  char boot[64], host[256] = "";
  if (stat(file, &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG || errno == ELOOP) return 0;
    return tsr__fail(error, TSR_IO, "%s cannot be looked at: error %d", file, errno);
  }
  const int number = tsr__host_name(host, sizeof host);
  if (number) return tsr__fail(error, TSR_IO, "the host's name: error %d", number);
  TSR_TRY(find_boot(boot, error));
  TSR_TRY(find_birth(file, &status, &birth, error));
  snprintf(text, 512, "%llu %llu %lld %s %s", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
           birth, boot, host);
  return 1;
}
#endif

int tsr_file_identity(const char *file, char place[TSR_OWNER_SIZE], tsr_error *error) {
  TSR_OWN_ERROR(error);
  char text[512];
  uint8_t parts[2 * TSR_SHA256_SIZE];
  if (!tsr__path_root(file)) return 0;
  const int found = describe(file, text, error);
  if (found <= 0) return found;
  TSR_TRY(tsr__sha256(text, strlen(text), parts, error));
  TSR_TRY(tsr__sha256(file, strlen(file), parts + TSR_SHA256_SIZE, error));
  TSR_TRY(tsr__sha256(parts, sizeof parts, parts, error));
  print_digits(parts, place);
  return 1;
}

int tsr_owner_next(const char *owner, const char *place, char next[TSR_OWNER_SIZE], tsr_error *error) {
  TSR_OWN_ERROR(error);
  uint8_t parts[2 * TSR_SHA256_SIZE];
  TSR_TRY(tsr__sha256(owner, strlen(owner), parts, error));
  TSR_TRY(tsr__sha256(place, strlen(place), parts + TSR_SHA256_SIZE, error));
  TSR_TRY(tsr__sha256(parts, sizeof parts, parts, error));
  print_digits(parts, next);
  return TSR_OK;
}
