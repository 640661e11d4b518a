/* store_windows.c: a store in a directory of the file system, on Windows.
 *
 * The root's path is made a full path once, so that a chdir of the host changes nothing, and is taken literally from
 * then on: NtCreateFile has neither devices (CON, NUL) nor a limit of 260 characters, and strips no dots or blanks.
 * Names within an array may contain neither ':' nor '\', which would lead to an alternate data stream or into another
 * directory.
 *
 * Reads and listings follow links (symbolic links and junctions), because users link their data; creations and removals
 * never do. If the environment has a bound, no link is followed: each call opens the directory that holds the path's
 * last part, asks the handle for its path, and continues from the handle only if that is the intended path. So
 * replacing a directory by a link between two calls has no effect.
 *
 * Other programs may delete and rename files that we have open, and so may we (FILE_SHARE_DELETE). A removed file loses
 * its name at once even if others have it open: with POSIX semantics where the file system supports them (NTFS since
 * Windows 10), elsewhere by a rename to a staged name in the root, which vanishes with the last handle.
 *
 * Order: errors; places; files; locks; directories; removing and renaming; listing; times; the store; and last the
 * functions of store_bounds.h.
 */
#ifdef _WIN32
#include <windows.h>
#include <winternl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/system.h"
#include "base/windows_path.h"
#include "crypto/crypto.h"
#include "store/store_bounds.h"
#include "store/store.h"
#include "tessera_host.h"

#define WINDOWS_SHARES    (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define WINDOWS_PIECE     (UINT64_C(1) << 30) /* most bytes per system call */
#define WINDOWS_LOCK_BYTE (UINT64_C(1) << 40) /* beyond the end of every file: others may not read locked bytes */
#define WINDOWS_STAGED    34 /* of a staged name: '.', 32 hex digits, NUL */
#define WINDOWS_ATTEMPTS  10 /* for a file that another program holds for a moment, such as a virus scanner */
#define LOCKED_ATTEMPTS   1000 /* a millisecond apart: testing a lock takes it for a moment */
#define SURROGATE         0x20000000u /* bit of a reparse tag: the object stands for another one, as links do */
#define DELETE_PENDING    ((NTSTATUS)0xC0000056)
#define IS_A_DIRECTORY    ((NTSTATUS)0xC00000BA)
#define SHARED_BADLY      ((NTSTATUS)0xC0000043)
#define UNKNOWN_CLASS     ((NTSTATUS)0xC0000003)
#define REFUSED           ((NTSTATUS)0xC0000022)
#define NOT_EMPTY         ((NTSTATUS)0xC0000101)
#define EPOCH_1601        INT64_C(116444736000000000) /* 100 ns units from 1601, Windows' epoch, to 1970 */

enum { INFO_RENAME = 10, INFO_DISPOSITION_EX = 64, INFO_RENAME_EX = 65 }; /* FILE_INFORMATION_CLASS */

typedef struct windows_bound_root { /* where the store's root lies within a bound */
  const tsr_bound *bound;
  struct windows_bound_root *earlier; /* for the previous bound, kept because workers may be using it; owned */
  char *path; /* resolved */
} windows_bound_root;

typedef struct windows_store {
  tsr_store base;
  char *root; /* full, in the engine's form */
  _Atomic(windows_bound_root *) bound_root; /* for the newest bound seen so far, or NULL; owned */
  _Atomic int keeps_times; /* 0: unknown; 1: changing a directory's entries changes its times; 2: it does not */
} windows_store;

typedef struct windows_file {
  tsr_file base;
  HANDLE handle;
  bool locked; /* through this structure */
} windows_file;

/* What NtCreateFile takes: a directory and a name in it. Without a bound these are NULL and the full path. */
typedef struct windows_place {
  const tsr_bound *bound; /* borrowed, or NULL */
  HANDLE directory; /* NULL, or a handle that windows_leave() closes */
  const wchar_t *name; /* within `path` */
  tsr_wide_path path; /* "\??\C:\..." */
  char *text; /* with a bound: the same in the engine's form; owned */
} windows_place;

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static int windows_code(DWORD number) {
  switch (number) {
  case ERROR_DISK_FULL:
  case ERROR_HANDLE_DISK_FULL: return TSR_FULL;
  case ERROR_FILE_NOT_FOUND:
  case ERROR_PATH_NOT_FOUND:
  case ERROR_INVALID_NAME:
  case ERROR_DIRECTORY:
  case ERROR_BAD_PATHNAME:
  case ERROR_BAD_NETPATH:
  case ERROR_BAD_NET_NAME:
  case ERROR_INVALID_DRIVE:
  case ERROR_DELETE_PENDING:
  case ERROR_CANT_RESOLVE_FILENAME: /* circular links */
  case ERROR_FILENAME_EXCED_RANGE: return TSR_NOT_FOUND;
  case ERROR_ACCESS_DENIED: return TSR_PERM;
  case ERROR_WRITE_PROTECT: return TSR_READONLY;
  case ERROR_FILE_EXISTS:
  case ERROR_ALREADY_EXISTS:
  case ERROR_DIR_NOT_EMPTY: return TSR_EXISTS;
  case ERROR_SHARING_VIOLATION:
  case ERROR_LOCK_VIOLATION: return TSR_BUSY;
  case ERROR_NOT_ENOUGH_MEMORY:
  case ERROR_OUTOFMEMORY: return TSR_NOMEM;
  default: return TSR_IO;
  }
}

static int windows_fail(DWORD number, const char *what, tsr_error *error) {
  const int rc = windows_code(number);
  wchar_t wide[256];
  char words[512];
  DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK,
                           NULL, number, MAKELANGID(LANG_ENGLISH, SUBLANG_ENGLISH_US), wide, 256, NULL);
  if (n == 0)
    n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK, NULL,
                       number, 0, wide, 256, NULL);
  int size = n ? WideCharToMultiByte(CP_UTF8, 0, wide, (int)n, words, sizeof words - 1, NULL, NULL) : 0;
  while (size > 0 && (words[size - 1] <= ' ' || words[size - 1] == '.')) size--;
  words[size] = 0;
  return size ? tsr__fail(error, rc, "%s: %s", what, words)
              : tsr__fail(error, rc, "%s: error %lu", what, (unsigned long)number);
}

static DWORD windows_number(NTSTATUS status) {
  return status == DELETE_PENDING ? ERROR_DELETE_PENDING : RtlNtStatusToDosError(status);
}

static int windows_fail_link(tsr_error *error) {
  return tsr__fail(error, TSR_PERM,
                   "is a symbolic link or is reached through one; tessera_restrict has bound this connection, and it "
                   "follows none within arrays");
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

/* Finds where the store's root lies within the bound. */
static int windows_find_root(windows_store *s, const tsr_bound *bound, const char **path, tsr_error *error) {
  windows_bound_root *known = atomic_load_explicit(&s->bound_root, memory_order_acquire), *made;
  char *resolved = NULL;
  if (!known || known->bound != bound) {
    TSR_TRY(tsr__bound_permits(bound, s->base.memory, s->root, NULL, error));
    TSR_TRY(tsr__path_resolve(s->base.memory, s->root, &resolved, error));
    int rc = tsr__path_is_below(resolved, bound->path) ? TSR_OK : windows_fail_link(error);
    if (rc >= 0) rc = TSR_ALLOC_RAW(s->base.memory, 1, &made, error);
    if (rc < 0) return tsr__free(resolved), rc;
    *made = (windows_bound_root){bound, known, resolved};
    while (!atomic_compare_exchange_weak(&s->bound_root, &made->earlier, made)) {
    } /* another thread may add one at the same time */
    known = made;
  }
  *path = known->path;
  return TSR_OK;
}

/* Sets a place's path without opening its directory. windows_leave() must follow, even after an error. */
static int windows_find(tsr_store *store, const char *path, windows_place *p, tsr_error *error) {
  windows_store *s = (windows_store *)store;
  const char *root = s->root;
  tsr_wide_path full;
  *p = (windows_place){.bound = tsr__bounds_get(store->bounds)};
  if (strpbrk(path, "\\:"))
    return tsr__fail(error, TSR_PERM, "'%s' is not a path within an array: no name has '\\' or ':' on Windows", path);
  if (p->bound) TSR_TRY(windows_find_root(s, p->bound, &root, error));
  const bool slash = *path && root[strlen(root) - 1] != '/';
  size_t size = tsr__wide_append(&full, 0, root);
  if (size && slash) size = tsr__wide_append(&full, size, "/");
  if (size && *path) size = tsr__wide_append(&full, size, path);
  if (!size || !tsr__wide_object(&full, &p->path)) return windows_fail(ERROR_FILENAME_EXCED_RANGE, "path", error);
  p->name = p->path.text;
  if (p->bound) TSR_TRY(tsr__bounds_text(store->memory, root, slash ? "/" : "", path, &p->text, error));
  return TSR_OK;
}

static void windows_leave(windows_place *p) {
  if (p->directory) CloseHandle(p->directory);
  tsr__free(p->text);
  p->directory = NULL;
  p->text = NULL;
}

/* Opens or creates a place. `access` is the handle's access in addition to reading attributes. */
static NTSTATUS windows_call(const windows_place *p, ACCESS_MASK access, ULONG disposition, ULONG options,
                             HANDLE *handle) {
  UNICODE_STRING name = {.Buffer = (wchar_t *)(uintptr_t)p->name};
  OBJECT_ATTRIBUTES attributes;
  IO_STATUS_BLOCK done;
  NTSTATUS status;
  name.Length = name.MaximumLength = (USHORT)(wcslen(p->name) * sizeof(wchar_t));
  InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE, p->directory, NULL);
  for (DWORD i = 0;; i++) {
    status = NtCreateFile(handle, access | FILE_READ_ATTRIBUTES | SYNCHRONIZE, &attributes, &done, NULL,
                          FILE_ATTRIBUTE_NORMAL, WINDOWS_SHARES, disposition, options | FILE_SYNCHRONOUS_IO_NONALERT,
                          NULL, 0);
    if (status != SHARED_BADLY || i == WINDOWS_ATTEMPTS) return status;
    Sleep(i * 5);
  }
}

/* Returns true if a handle that was opened with FILE_OPEN_REPARSE_POINT is a link. */
static bool windows_handle_is_link(HANDLE handle) {
  FILE_ATTRIBUTE_TAG_INFO tag;
  return GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
         tag.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT && tag.ReparseTag & SURROGATE;
}

/* Returns true if such a handle is a file whose bytes are elsewhere, such as in the cloud: it must be opened without
 * that flag. */
static bool windows_handle_is_stored_elsewhere(HANDLE handle) {
  FILE_ATTRIBUTE_TAG_INFO tag;
  return GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
         tag.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT;
}

/* Returns true if a handle leads where the place says, judging by its path. `size`: bytes of p->text that name it. */
static bool windows_is_meant(const windows_place *p, HANDLE handle, size_t size) {
  char *real = tsr__windows_final(handle), *meant = real ? strdup(p->text) : NULL;
  if (meant) meant[size] = 0;
  const bool same = meant && tsr_path_same(real, meant) && tsr__path_is_below(real, p->bound->path);
  free(real);
  free(meant);
  return same;
}

/* Descends from the place's directory into one of its subdirectories. Sets *link if that is a link. */
static NTSTATUS windows_step(windows_place *p, wchar_t *part, size_t size, bool *link) {
  const wchar_t behind = part[size];
  HANDLE next;
  part[size] = 0;
  p->name = part;
  const NTSTATUS status =
      windows_call(p, FILE_TRAVERSE, FILE_OPEN, FILE_DIRECTORY_FILE | FILE_OPEN_REPARSE_POINT, &next);
  part[size] = behind;
  if (status < 0) return status;
  CloseHandle(p->directory);
  p->directory = next;
  *link = windows_handle_is_link(next);
  return status;
}

/* With a bound, opens the directory that holds the place's last part. For the bound's own directory p->directory stays
 * NULL, and its name is the full path. */
static int windows_enter(windows_place *p, const char *what, tsr_error *error) {
  if (!p->bound || strlen(p->text) <= strlen(p->bound->path)) return TSR_OK;
  if (p->bound->directory < 0) return windows_fail(ERROR_DIRECTORY, what, error);
  tsr_wide_path full;
  windows_place top = {.name = top.path.text};
  bool link = false;
  const size_t size = tsr__wide_append(&full, 0, p->bound->path);
  const size_t whole = size ? tsr__wide_object(&full, &top.path) : 0;
  if (!whole) return windows_fail(ERROR_FILENAME_EXCED_RANGE, what, error);
  NTSTATUS status = windows_call(&top, FILE_TRAVERSE, FILE_OPEN, FILE_DIRECTORY_FILE, &p->directory);
  if (status < 0) return p->directory = NULL, windows_fail(windows_number(status), what, error);
  wchar_t *at = p->path.text + whole;
  while (*at == L'\\') at++;
  for (size_t n = wcscspn(at, L"\\"); at[n] && status >= 0 && !link; n = wcscspn(at, L"\\")) {
    status = windows_step(p, at, n, &link);
    at += n + 1;
  }
  if (status < 0) return windows_fail(windows_number(status), what, error);
  p->name = at;
  const char *slash = strrchr(p->text, '/');
  const size_t above = TSR_MAX((size_t)(slash - p->text), tsr__path_root(p->text));
  return !link && windows_is_meant(p, p->directory, above) ? TSR_OK : windows_fail_link(error);
}

static int windows_find_and_enter(tsr_store *store, const char *path, windows_place *p, const char *what,
                                  tsr_error *error) {
  TSR_TRY(windows_find(store, path, p, error));
  TSR_TRY(windows_enter(p, what, error));
  return p->bound && !p->directory ? windows_fail(ERROR_ACCESS_DENIED, what, error) : TSR_OK;
}

/* Opens a place to read it or to look at it. With a bound, checks that the handle leads where the place says. */
static int windows_open_self(windows_place *p, ACCESS_MASK access, ULONG options, const char *what, HANDLE *handle,
                             tsr_error *error) {
  TSR_TRY(windows_enter(p, what, error));
  const ULONG no_link = p->directory ? FILE_OPEN_REPARSE_POINT : 0;
  NTSTATUS status = windows_call(p, access, FILE_OPEN, options | no_link, handle);
  if (status == IS_A_DIRECTORY) return tsr__fail(error, TSR_NOT_FOUND, "is a directory, not a file");
  if (status < 0) return windows_fail(windows_number(status), what, error);
  if (!p->bound) return TSR_OK;
  const bool good = !windows_handle_is_link(*handle);
  if (good && no_link && windows_handle_is_stored_elsewhere(*handle)) {
    CloseHandle(*handle);
    status = windows_call(p, access, FILE_OPEN, options, handle);
    if (status < 0) return windows_fail(windows_number(status), what, error);
  }
  if (good && windows_is_meant(p, *handle, strlen(p->text))) return TSR_OK;
  CloseHandle(*handle);
  return windows_fail_link(error);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static int windows_file_new(tsr_store *store, const char *path, HANDLE handle, uint64_t size, tsr_file **file,
                            tsr_error *error) {
  void *memory;
  TSR_TRY(tsr__file_allocate(store, path, sizeof(windows_file), &memory, error));
  windows_file *f = memory;
  f->handle = handle;
  f->base.size = size;
  *file = &f->base;
  return TSR_OK;
}

static int windows_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  windows_place p;
  HANDLE handle;
  FILE_STANDARD_INFO about;
  int rc = windows_find(store, path, &p, error);
  if (rc >= 0) rc = windows_open_self(&p, FILE_READ_DATA, FILE_NON_DIRECTORY_FILE, "opening", &handle, error);
  if (rc >= 0) {
    if (!GetFileInformationByHandleEx(handle, FileStandardInfo, &about, sizeof about))
      rc = windows_fail(GetLastError(), "opening", error);
    else if (p.bound && about.NumberOfLinks > 1)
      rc = tsr__fail(error, TSR_PERM,
                     "the file has other names (hard links), which may be outside of the directory to which "
                     "tessera_restrict has bound this connection: copy it");
    else rc = windows_file_new(store, path, handle, (uint64_t)about.EndOfFile.QuadPart, file, error);
    if (rc < 0) CloseHandle(handle);
  }
  windows_leave(&p);
  return rc;
}

static void windows_delete_handle(HANDLE handle) {
  FILE_DISPOSITION_INFO gone = {.DeleteFile = TRUE};
  (void)SetFileInformationByHandle(handle, FileDispositionInfo, &gone, sizeof gone);
}

static int windows_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  windows_place p;
  HANDLE handle;
  int rc = windows_find_and_enter(store, path, &p, "creating", error);
  if (rc >= 0) {
    const NTSTATUS status = windows_call(&p, FILE_READ_DATA | FILE_WRITE_DATA, FILE_CREATE,
                                         FILE_NON_DIRECTORY_FILE | FILE_OPEN_REPARSE_POINT, &handle);
    rc = status < 0 ? windows_fail(windows_number(status), "creating", error)
                    : windows_file_new(store, path, handle, 0, file, error);
    if (rc < 0 && status >= 0) {
      CloseHandle(handle);
      if (windows_call(&p, DELETE, FILE_OPEN, FILE_OPEN_REPARSE_POINT, &handle) >= 0) {
        windows_delete_handle(handle);
        CloseHandle(handle);
      }
    }
  }
  windows_leave(&p);
  return rc;
}

static OVERLAPPED windows_offset(uint64_t offset) {
  return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
}

static int windows_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  const HANDLE handle = ((windows_file *)file)->handle;
  for (uint64_t done = 0; done < size;) {
    OVERLAPPED where = windows_offset(offset + done);
    DWORD got = 0;
    if (!ReadFile(handle, (uint8_t *)buffer + done, (DWORD)TSR_MIN(size - done, WINDOWS_PIECE), &got, &where) &&
        GetLastError() != ERROR_HANDLE_EOF)
      return windows_fail(GetLastError(), "reading", error);
    if (got == 0)
      return tsr__fail(error, TSR_CORRUPT, "the file ends at byte %llu, it had %llu bytes when it was opened",
                       (unsigned long long)(offset + done), (unsigned long long)file->size);
    done += got;
  }
  return TSR_OK;
}

static int windows_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  const HANDLE handle = ((windows_file *)file)->handle;
  for (uint64_t done = 0; done < size;) {
    OVERLAPPED where = windows_offset(file->size + done);
    DWORD put = 0;
    const BOOL written =
        WriteFile(handle, (const uint8_t *)bytes + done, (DWORD)TSR_MIN(size - done, WINDOWS_PIECE), &put, &where);
    if (!written || put == 0) { /* undo a partial write; the failed write is the error to report */
      const int rc = windows_fail(written ? ERROR_WRITE_FAULT : GetLastError(), "writing", error);
      FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = (LONGLONG)file->size};
      (void)SetFileInformationByHandle(handle, FileEndOfFileInfo, &end, sizeof end);
      return rc;
    }
    done += put;
  }
  file->size += size;
  return TSR_OK;
}

static int windows_sync_file(tsr_file *file, tsr_error *error) {
  if (FlushFileBuffers(((windows_file *)file)->handle)) return TSR_OK;
  return windows_fail(GetLastError(), "syncing", error);
}

/* ---- Locks -------------------------------------------------------------------------------------------------------
 *
 * A lock of LockFileEx belongs to the handle, as we need: it excludes other handles of the process, too, and ends with
 * the handle or the process. There is no way to test a lock without taking it. */

static bool windows_try_lock(HANDLE handle, DWORD kind) {
  OVERLAPPED where = windows_offset(WINDOWS_LOCK_BYTE);
  return LockFileEx(handle, kind | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &where);
}

static void windows_unlock(HANDLE handle) {
  OVERLAPPED where = windows_offset(WINDOWS_LOCK_BYTE);
  (void)UnlockFileEx(handle, 0, 1, 0, &where);
}

static bool windows_lock_is_taken(DWORD number) { return number == ERROR_LOCK_VIOLATION || number == ERROR_IO_PENDING; }

static int windows_fail_lock(DWORD number, tsr_error *error) {
  if (number == ERROR_INVALID_FUNCTION || number == ERROR_NOT_SUPPORTED || number == ERROR_CALL_NOT_IMPLEMENTED)
    return tsr__fail(error, TSR_UNSUPPORTED, "this file system has no locks");
  return windows_fail(number, "locking", error);
}

static int windows_lock_file(tsr_file *file, tsr_error *error) {
  windows_file *f = (windows_file *)file;
  f->locked = windows_try_lock(f->handle, LOCKFILE_EXCLUSIVE_LOCK);
  for (int i = 0; i < LOCKED_ATTEMPTS && !f->locked && windows_lock_is_taken(GetLastError()); i++) {
    Sleep(1);
    f->locked = windows_try_lock(f->handle, LOCKFILE_EXCLUSIVE_LOCK);
  }
  return f->locked ? TSR_OK : windows_fail_lock(GetLastError(), error);
}

static int windows_is_locked(tsr_file *file, bool *locked, tsr_error *error) {
  const HANDLE handle = ((windows_file *)file)->handle;
  *locked = !windows_try_lock(handle, 0);
  if (*locked) return windows_lock_is_taken(GetLastError()) ? TSR_OK : windows_fail_lock(GetLastError(), error);
  windows_unlock(handle);
  return TSR_OK;
}

/* Unlocks explicitly, because Windows does not say when it releases the locks of a closed handle. */
static void windows_close_file(tsr_file *file) {
  const windows_file *f = (windows_file *)file;
  if (f->locked) windows_unlock(f->handle);
  CloseHandle(f->handle);
  tsr__free(file);
}

/* ---- Directories ------------------------------------------------------------------------------------------------- */

/* NTFS logs changes of names in order, and flushing a directory writes the log to disk. A file system that cannot flush
 * directories fails, which does no harm. */
static int windows_sync_directory(tsr_store *store, const char *path, tsr_error *error) {
  windows_place p;
  HANDLE handle;
  int rc = windows_find(store, path, &p, error);
  if (rc >= 0) rc = windows_open_self(&p, FILE_ADD_FILE, FILE_DIRECTORY_FILE, "syncing the directory", &handle, error);
  windows_leave(&p);
  if (rc == TSR_PERM) return TSR_OK; /* a directory that we may not write cannot be synced */
  if (rc < 0) return rc;
  if (!FlushFileBuffers(handle)) {
    const DWORD number = GetLastError();
    if (number == ERROR_DISK_FULL || number == ERROR_IO_DEVICE || number == ERROR_CRC || number == ERROR_WRITE_FAULT)
      rc = windows_fail(number, "syncing the directory", error);
  }
  CloseHandle(handle);
  return rc;
}

static int windows_make_entered(const windows_place *p, bool may_exist, tsr_error *error) {
  HANDLE handle;
  const NTSTATUS status = windows_call(p, 0, FILE_CREATE, FILE_DIRECTORY_FILE | FILE_OPEN_REPARSE_POINT, &handle);
  if (status >= 0) return CloseHandle(handle), TSR_OK;
  if (may_exist && windows_call(p, 0, FILE_OPEN, FILE_DIRECTORY_FILE, &handle) >= 0) return CloseHandle(handle), TSR_OK;
  return windows_fail(windows_number(status), "making the directory", error);
}

/* Makes the store's root and its missing parents; with a bound, only those below it. */
static int windows_make_root(tsr_store *store, tsr_error *error) {
  windows_store *s = (windows_store *)store;
  windows_place p;
  const char *root = s->root;
  int rc = TSR_OK;
  const tsr_bound *bound = tsr__bounds_get(store->bounds);
  if (bound) TSR_TRY(windows_find_root(s, bound, &root, error));
  char *head = strdup(root);
  if (!head) return tsr__fail(error, TSR_NOMEM, "no memory for a path");
  size_t size = TSR_MAX(tsr__path_root(root), bound ? strlen(bound->path) : 0);
  for (bool last = false; rc >= 0 && !last;) {
    size += strspn(root + size, "/");
    size += strcspn(root + size, "/");
    last = !root[size];
    memcpy(head, root, size);
    head[size] = 0;
    windows_store part = {.base = *store, .root = head, .bound_root = NULL};
    part.base.bounds = NULL;
    rc = windows_find(&part.base, "", &p, error);
    if (rc >= 0 && bound) {
      p.bound = bound;
      rc = tsr__bounds_text(store->memory, head, "", "", &p.text, error);
    }
    if (rc >= 0) rc = windows_enter(&p, "making the directory", error);
    if (rc >= 0) rc = windows_make_entered(&p, !last, error);
    windows_leave(&p);
  }
  free(head);
  return rc;
}

static int windows_make_directory(tsr_store *store, const char *path, tsr_error *error) {
  windows_place p;
  if (!*path) return windows_make_root(store, error);
  int rc = windows_find_and_enter(store, path, &p, "making the directory", error);
  if (rc >= 0) rc = windows_make_entered(&p, false, error);
  windows_leave(&p);
  return rc;
}

static bool windows_is_link(tsr_store *store, const char *path) {
  windows_place p;
  HANDLE handle;
  bool link = false;
  if (windows_find_and_enter(store, path, &p, "looking", NULL) >= 0 &&
      windows_call(&p, 0, FILE_OPEN, FILE_OPEN_REPARSE_POINT, &handle) >= 0) {
    link = windows_handle_is_link(handle);
    CloseHandle(handle);
  }
  windows_leave(&p);
  return link;
}

/* ---- Removing and renaming --------------------------------------------------------------------------------------- */

/* Returns true if the system, or the file system, does not support a class of information. */
static bool windows_is_unknown(NTSTATUS status) {
  return status == (NTSTATUS)0xC0000002 || status == UNKNOWN_CLASS || status == (NTSTATUS)0xC000000D ||
         status == (NTSTATUS)0xC0000010 || status == (NTSTATUS)0xC00000BB;
}

static NTSTATUS windows_set(HANDLE handle, int class, void *info, ULONG size) {
  IO_STATUS_BLOCK done;
  return NtSetInformationFile(handle, &done, info, size, (FILE_INFORMATION_CLASS) class);
}

/* Renames the file or directory of a handle, which must have DELETE access. */
static NTSTATUS windows_rename_handle(HANDLE handle, const windows_place *to, bool replace) {
  struct {
    ULONG flags; /* a BOOLEAN in FileRenameInformation */
    HANDLE directory;
    ULONG size;
    wchar_t name[TSR_WIDE_MAX];
  } info = {.directory = to->directory};
  const size_t size = wcslen(to->name);
  info.size = (ULONG)(size * sizeof(wchar_t));
  wmemcpy(info.name, to->name, size + 1);
  const ULONG all = (ULONG)(offsetof(__typeof__(info), name) + info.size);
  NTSTATUS status = UNKNOWN_CLASS;
  if (replace) {
    info.flags = 3; /* FILE_RENAME_REPLACE_IF_EXISTS, FILE_RENAME_POSIX_SEMANTICS */
    status = windows_set(handle, INFO_RENAME_EX, &info, all);
  }
  if (!windows_is_unknown(status)) return status;
  info.flags = replace;
  return windows_set(handle, INFO_RENAME, &info, all);
}

/* Frees the name of an open file at once, by renaming it to a staged name in the root. */
static void windows_free_name(tsr_store *store, HANDLE handle) {
  uint8_t random[16];
  char staged[WINDOWS_STAGED] = ".";
  windows_place p;
  if (tsr__random(random, sizeof random, NULL) < 0) return;
  tsr_hex_write(random, sizeof random, staged + 1);
  if (windows_find_and_enter(store, staged, &p, "renaming", NULL) >= 0) (void)windows_rename_handle(handle, &p, false);
  windows_leave(&p);
}

static NTSTATUS windows_remove_handle(tsr_store *store, HANDLE handle) {
  struct {
    ULONG flags;
  } ex = {1 | 2 | 16}; /* delete, with POSIX semantics, even if read-only */
  FILE_DISPOSITION_INFO gone = {.DeleteFile = TRUE};
  FILE_STANDARD_INFO about;
  NTSTATUS status = windows_set(handle, INFO_DISPOSITION_EX, &ex, sizeof ex);
  if (!windows_is_unknown(status)) return status;
  if (GetFileInformationByHandleEx(handle, FileStandardInfo, &about, sizeof about) && !about.Directory)
    windows_free_name(store, handle);
  return windows_set(handle, 13 /* FileDispositionInformation */, &gone, sizeof gone);
}

/* Returns true if the root holds nothing but staged names of removed files that somebody still has open. */
static bool windows_waits_for_readers(tsr_store *store) {
  tsr_listing entries = {0};
  bool waits = tsr__store_list_any(store, "", &entries, NULL) >= 0 && entries.count > 0;
  for (uint64_t i = 0; i < entries.count && waits; i++) {
    const char *name = entries.entries[i].name;
    waits = name[0] == '.' && strlen(name) == WINDOWS_STAGED - 1 &&
            strspn(name + 1, "0123456789abcdef") == WINDOWS_STAGED - 2;
  }
  tsr__listing_release(&entries);
  return waits;
}

static int windows_remove_path(tsr_store *store, const char *path, tsr_error *error) {
  windows_place p;
  HANDLE handle;
  NTSTATUS status = 0;
  int rc = windows_find_and_enter(store, path, &p, "removing", error);
  for (DWORD i = 0; rc >= 0 && i <= WINDOWS_ATTEMPTS; i++) {
    status = windows_call(&p, DELETE, FILE_OPEN, FILE_OPEN_REPARSE_POINT, &handle);
    if (status >= 0) {
      status = windows_remove_handle(store, handle);
      CloseHandle(handle);
    }
    if (status != REFUSED) break;
    Sleep(i * 5);
  }
  windows_leave(&p);
  if (rc >= 0 && status == NOT_EMPTY && !*path && windows_waits_for_readers(store))
    return tsr__fail(error, TSR_BUSY,
                     "its files are removed, but some are open in this or another program: the directory can be "
                     "removed when they are closed");
  return rc < 0 || status >= 0 ? rc : windows_fail(windows_number(status), "removing", error);
}

static int windows_rename(tsr_store *store, const char *from, const char *to, bool replace, tsr_error *error) {
  windows_place a, b = {0};
  HANDLE handle, other;
  NTSTATUS status = 0;
  int rc = windows_find_and_enter(store, from, &a, "renaming", error);
  if (rc >= 0) rc = windows_find_and_enter(store, to, &b, "renaming", error);
  for (DWORD i = 0; rc >= 0 && i <= WINDOWS_ATTEMPTS; i++) {
    status = windows_call(&a, DELETE, FILE_OPEN, FILE_OPEN_REPARSE_POINT | FILE_WRITE_THROUGH, &handle);
    if (status >= 0) {
      status = windows_rename_handle(handle, &b, replace);
      CloseHandle(handle);
    }
    if (status != REFUSED) break;
    Sleep(i * 5);
  }
  if (rc >= 0 && status < 0) {
    DWORD number = windows_number(status);
    if (status == REFUSED && windows_call(&b, 0, FILE_OPEN, FILE_OPEN_REPARSE_POINT, &other) >= 0) {
      number = ERROR_ALREADY_EXISTS; /* a rename never replaces a directory */
      CloseHandle(other);
    }
    rc = windows_fail(number, "renaming", error);
  }
  windows_leave(&a);
  windows_leave(&b);
  return rc;
}

static int windows_rename_path(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return windows_rename(store, from, to, true, error);
}

static int windows_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return windows_rename(store, from, to, false, error);
}

/* ---- Listing ----------------------------------------------------------------------------------------------------- */

/* Determines the kind of an entry by following its link. */
static tsr_entry_kind windows_behind(const windows_place *directory, const wchar_t *name) {
  windows_place p = *directory;
  const size_t size = wcslen(p.path.text), more = wcslen(name);
  FILE_STANDARD_INFO about = {0};
  HANDLE handle;
  if (size + more + 2 > TSR_WIDE_MAX) return TSR_ENTRY_OTHER;
  p.path.text[size] = L'\\';
  wmemcpy(p.path.text + size + 1, name, more + 1);
  p.name = p.path.text;
  if (windows_call(&p, 0, FILE_OPEN, 0, &handle) < 0) return TSR_ENTRY_OTHER;
  const bool known = GetFileInformationByHandleEx(handle, FileStandardInfo, &about, sizeof about);
  CloseHandle(handle);
  return !known ? TSR_ENTRY_OTHER : about.Directory ? TSR_ENTRY_DIRECTORY : TSR_ENTRY_FILE;
}

static int windows_add_entry(const windows_place *p, const FILE_FULL_DIR_INFO *entry, tsr_listing *listing,
                             tsr_error *error) {
  wchar_t wide[512];
  char name[1600];
  const size_t size = entry->FileNameLength / sizeof(wchar_t);
  if (size >= 512) return windows_fail(ERROR_FILENAME_EXCED_RANGE, "listing", error);
  memcpy(wide, entry->FileName, size * sizeof(wchar_t));
  wide[size] = 0;
  if (wcscmp(wide, L".") == 0 || wcscmp(wide, L"..") == 0) return TSR_OK;
  if (WideCharToMultiByte(CP_UTF8, 0, wide, -1, name, sizeof name, NULL, NULL) <= 0)
    return windows_fail(GetLastError(), "listing", error);
  /* For a link EaSize is the reparse tag; an unknown tag is treated as a link. */
  const bool link =
      entry->FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT && (!entry->EaSize || entry->EaSize & SURROGATE);
  tsr_entry_kind kind = entry->FileAttributes & FILE_ATTRIBUTE_DIRECTORY ? TSR_ENTRY_DIRECTORY : TSR_ENTRY_FILE;
  if (entry->FileAttributes & FILE_ATTRIBUTE_DEVICE || (link && p->bound)) kind = TSR_ENTRY_OTHER;
  else if (link) kind = windows_behind(p, wide);
  TSR_TRY(tsr_listing_add(listing, name, kind, error));
  if (link && p->bound && !listing->link) listing->link = listing->entries[listing->count - 1].name;
  return TSR_OK;
}

static int windows_list_handle(const windows_place *p, HANDLE handle, tsr_listing *listing, tsr_error *error) {
  _Alignas(8) uint8_t room[16384];
  while (GetFileInformationByHandleEx(handle, FileFullDirectoryInfo, room, sizeof room)) {
    for (const uint8_t *at = room;;) {
      const FILE_FULL_DIR_INFO *entry = (const void *)at;
      TSR_TRY(windows_add_entry(p, entry, listing, error));
      if (!entry->NextEntryOffset) break;
      at += entry->NextEntryOffset;
    }
  }
  const DWORD number = GetLastError();
  return number == ERROR_NO_MORE_FILES || number == ERROR_FILE_NOT_FOUND ? TSR_OK
                                                                         : windows_fail(number, "listing", error);
}

static int windows_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  windows_place p;
  HANDLE handle;
  int rc = windows_find(store, path, &p, error);
  if (rc >= 0) rc = windows_open_self(&p, FILE_LIST_DIRECTORY, FILE_DIRECTORY_FILE, "listing", &handle, error);
  if (rc >= 0) {
    rc = windows_list_handle(&p, handle, listing, error);
    CloseHandle(handle);
  }
  windows_leave(&p);
  return rc;
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/* Returns true if the file system changes a directory's times when an entry is added or removed. FAT does not. */
static bool windows_keeps_times(windows_store *s, HANDLE handle) {
  int known = atomic_load_explicit(&s->keeps_times, memory_order_relaxed);
  if (!known) {
    wchar_t name[64] = L"";
    (void)GetVolumeInformationByHandleW(handle, NULL, 0, NULL, NULL, NULL, name, 64);
    known = wcscmp(name, L"NTFS") == 0 || wcscmp(name, L"ReFS") == 0 ? 1 : 2;
    atomic_store_explicit(&s->keeps_times, known, memory_order_relaxed);
  }
  return known == 1;
}

/* Returns true if any later change of the directory is certain to change its times. Windows takes them from a clock
 * that ticks every 1 to 16 ms, so 50 ms are enough; see settled() in store_posix.c. */
static bool windows_settled(const FILE_BASIC_INFO *about) {
  FILETIME now;
  GetSystemTimeAsFileTime(&now);
  const int64_t present = (int64_t)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime);
  const int64_t latest = TSR_MAX(about->LastWriteTime.QuadPart, about->ChangeTime.QuadPart);
  const int64_t patience = latest % 10000000 != 0 ? 500000 : 20000000;
  return latest <= present && present - patience >= latest;
}

static int windows_stamp(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  windows_place p;
  HANDLE handle;
  FILE_BASIC_INFO about;
  FILE_ID_INFO id;
  uint64_t number[2];
  int rc = windows_find(store, path, &p, error);
  if (rc >= 0) rc = windows_open_self(&p, 0, FILE_DIRECTORY_FILE, "looking at the directory", &handle, error);
  windows_leave(&p);
  if (rc == TSR_NOT_FOUND) {
    *stamp = (tsr_stamp){.known = true};
    return TSR_OK;
  }
  if (rc < 0) return rc;
  const bool times = windows_keeps_times((windows_store *)store, handle);
  if (GetFileInformationByHandleEx(handle, FileBasicInfo, &about, sizeof about) &&
      GetFileInformationByHandleEx(handle, FileIdInfo, &id, sizeof id)) {
    memcpy(number, &id.FileId, sizeof number);
    *stamp = (tsr_stamp){times && windows_settled(&about), (uint64_t)about.LastWriteTime.QuadPart,
                         (uint64_t)about.ChangeTime.QuadPart,
                         number[0] + (number[1] ^ id.VolumeSerialNumber) * UINT64_C(0x9e3779b97f4a7c15)};
  } else if (GetLastError() == ERROR_INVALID_PARAMETER || GetLastError() == ERROR_NOT_SUPPORTED) {
    *stamp = (tsr_stamp){.known = false, .a = 1}; /* the file system has no file ids */
  } else rc = windows_fail(GetLastError(), "looking at the directory", error);
  CloseHandle(handle);
  return rc;
}

static int windows_look_at(tsr_store *store, const char *path, tsr_look *look, tsr_error *error) {
  windows_place p;
  HANDLE handle;
  FILE_BASIC_INFO about;
  FILE_STANDARD_INFO more;
  int rc = windows_find(store, path, &p, error);
  if (rc >= 0) rc = windows_open_self(&p, 0, 0, "looking at the file", &handle, error);
  windows_leave(&p);
  if (rc < 0) return rc;
  if (!GetFileInformationByHandleEx(handle, FileBasicInfo, &about, sizeof about) ||
      !GetFileInformationByHandleEx(handle, FileStandardInfo, &more, sizeof more))
    rc = windows_fail(GetLastError(), "looking at the file", error);
  else
    *look = (tsr_look){(uint64_t)more.EndOfFile.QuadPart,
                       (int64_t)((uint64_t)(about.LastWriteTime.QuadPart - EPOCH_1601) * 100)};
  CloseHandle(handle);
  return rc;
}

static int windows_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  tsr_look look;
  TSR_TRY(windows_look_at(store, path, &look, error));
  *milliseconds = look.modified < 0 ? 0 : (uint64_t)look.modified / 1000000;
  return TSR_OK;
}

/* ---- The store --------------------------------------------------------------------------------------------------- */

static void windows_close_store(tsr_store *store) {
  windows_bound_root *root = atomic_load_explicit(&((windows_store *)store)->bound_root, memory_order_acquire);
  while (root) {
    windows_bound_root *earlier = root->earlier;
    tsr__free(root->path);
    tsr__free(root);
    root = earlier;
  }
  tsr__free(store);
}

static const tsr_store_methods windows_methods = {
    .close = windows_close_store,
    .open_file = windows_open_file,
    .close_file = windows_close_file,
    .read_at = windows_read_at,
    .list = windows_list,
    .stamp = windows_stamp,
    .modified = windows_modified,
    .create_exclusive = windows_create_exclusive,
    .append = windows_append,
    .sync = windows_sync_file,
    .sync_directory = windows_sync_directory,
    .rename = windows_rename_path,
    .rename_exclusive = windows_rename_exclusive,
    .remove = windows_remove_path,
    .make_directory = windows_make_directory,
    .is_link = windows_is_link,
    .look = windows_look_at,
    .lock = windows_lock_file,
    .locked = windows_is_locked,
};

bool tsr__path_is_link(const char *path) {
  tsr_wide_path full;
  windows_place p = {.directory = NULL};
  HANDLE handle;
  if (tsr__wide_full(path, &full) || !tsr__wide_object(&full, &p.path)) return false;
  p.name = p.path.text;
  if (windows_call(&p, 0, FILE_OPEN, FILE_OPEN_REPARSE_POINT, &handle) < 0) return false;
  const bool link = windows_handle_is_link(handle);
  CloseHandle(handle);
  return link;
}

int tsr__store_directory_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error) {
  tsr_wide_path full;
  void *block;
  if (!*path) return tsr__fail(error, TSR_ERROR, "the path of a directory is empty");
  const char *wrong = tsr__wide_full(path, &full);
  if (wrong) return tsr__fail(error, TSR_NOT_FOUND, "%s is not the path of a directory: %s", path, wrong);
  char *root = tsr__wide_form(full.text);
  if (!root) return tsr__fail(error, TSR_NOMEM, "no memory for a path");
  const size_t size = strlen(root) + 1;
  const int rc = tsr__store_allocate(&windows_methods, memory, path, sizeof(windows_store) + size, &block, error);
  if (rc >= 0) {
    windows_store *s = block;
    s->base.workers_may_read = s->base.workers_may_sync = true;
    s->root = memcpy(s + 1, root, size);
    *store = &s->base;
  }
  free(root);
  return rc;
}
#endif

/* ---- Bounds ------------------------------------------------------------------------------------------------------
 *
 * How Windows stores are kept within a bound. A bound is a path as GetFinalPathNameByHandle returns it: without links,
 * and with the directories' real names (no short names, and in the original case). A path from the host is converted to
 * this form before it is compared, so the comparison is exact; even a directory with case-sensitive names cannot be
 * escaped by another spelling. Each handle that is opened under a bound is asked for its path, and rejected if that is
 * not the intended one (windows_is_meant).
 */

#ifdef _WIN32
#include <windows.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int tsr__path_resolve(tsr_memory *memory, const char *path, char **resolved, tsr_error *error) {
  tsr_wide_path full;
  const char *wrong = tsr__wide_full(path, &full);
  if (wrong) return tsr__fail(error, TSR_PERM, "the path '%s' cannot be resolved: %s", path, wrong);
  char *whole = tsr__wide_form(full.text), *head = whole ? strdup(whole) : NULL, *real = NULL;
  int rc = head ? TSR_OK : tsr__fail(error, TSR_NOMEM, "no memory for a path");
  size_t root = head ? tsr__path_root(head) : 0, size = head ? strlen(head) : 0;
  while (rc >= 0 && !(real = tsr_path_real(head)) && size > root) { /* cut parts off until the rest exists */
    while (size > root && head[size - 1] != '/') size--;
    while (size > root && head[size - 1] == '/') size--;
    head[size] = 0;
  }
  if (rc >= 0 && !real) rc = tsr__fail(error, TSR_PERM, "the path %s cannot be resolved", path);
  if (rc >= 0) {
    const char *rest = whole + size;
    while (*rest == '/') rest++;
    const size_t length = strlen(real);
    const bool slash = *rest && real[length - 1] != '/';
    rc = tsr__bounds_text(memory, real, slash ? "/" : "", rest, resolved, error);
  }
  free(whole);
  free(head);
  free(real);
  return rc;
}

int tsr__bound_directory_open(const tsr_bound *wider, const char *path) {
  char *whole = NULL;
  tsr_wide_path full, object;
  if (wider && wider->directory < 0) return errno = *path ? ENOENT : ENOTDIR, -1;
  if (wider) {
    const size_t size = strlen(wider->path), more = strlen(path) + 1;
    if (!(whole = malloc(size + more + 1))) return errno = ENOMEM, -1;
    memcpy(whole, wider->path, size);
    memcpy(whole + size, path, more);
  }
  const bool good = !tsr__wide_full(whole ? whole : path, &full) && tsr__wide_object(&full, &object);
  free(whole);
  if (!good) return errno = ENOENT, -1;
  object.text[1] = L'\\';
  const DWORD attributes = GetFileAttributesW(object.text);
  if (attributes == INVALID_FILE_ATTRIBUTES) return errno = tsr__windows_errno(GetLastError()), -1;
  return attributes & FILE_ATTRIBUTE_DIRECTORY ? 0 : (errno = ENOTDIR, -1);
}

void tsr__bound_directory_close(int directory) { (void)directory; }

int tsr__bound_may_ask(const tsr_bound *bound, const char *path, tsr_error *error) {
  tsr_wide_path full;
  char *form = tsr__wide_full(path, &full) ? NULL : tsr__wide_form(full.text);
  const size_t root = form ? tsr__path_root(form) : 0;
  bool other = form && form[0] == '/';
  if (other && tsr__path_root(bound->path) == root) {
    form[root] = 0;
    char *server = strdup(bound->path);
    if (server) server[root] = 0;
    other = !server || !tsr_path_same(form, server);
    free(server);
  }
  free(form);
  if (!other) return TSR_OK;
  return tsr__fail(error, TSR_PERM, "%s is not below %s, to which tessera_restrict has bound this connection", path,
                   bound->path);
}
#endif
