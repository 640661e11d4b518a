/* inject.c: test/fault/inject.c for Windows: a library that counts the calls by which tessera.dll and sqlite3.dll change files. At the
 * call that it is armed for the process dies, or the call fails. Nothing can be preloaded there, so arming replaces these
 * functions in the tables by which the two libraries import them. The libraries are loaded by then.
 */
#include <windows.h>
#include <winternl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef enum fault {
  NOTHING, /* calls are counted only */
  KILL, /* the process dies before the call */
  KILL_WITHIN, /* the process dies in a write when half is written, in all other calls after the call */
  FULL, /* from this call on no call can write or create */
  EIO_ONCE, /* this call fails */
  EIO_ALWAYS /* this call and all later ones fail */
} fault;

/* The kinds of calls: FULL concerns those that need space. */
typedef enum kind { WRITE, MAKE, SYNC, REMOVE, RENAME } kind;

#define KILLED        70
#define STATUS_FULL   ((NTSTATUS)0xC000007F)
#define STATUS_BROKEN ((NTSTATUS)0xC0000185)

static atomic_int armed = -1;
static atomic_long calls, when;

static void die(void) { TerminateProcess(GetCurrentProcess(), KILLED); }

/* Counts a call. Returns 0 if the call shall be made, or the number of the error with which it fails. *dies is set if the
 * process shall die after the call, or within it. */
static DWORD judge(kind what, bool *dies) {
  const int now = atomic_load(&armed);
  *dies = false;
  if (now < 0) return 0;
  const long number = atomic_fetch_add(&calls, 1) + 1, at = atomic_load(&when);
  switch ((fault)now) {
  case NOTHING: return 0;
  case KILL:
    if (number == at) die();
    return 0;
  case KILL_WITHIN: *dies = number == at; return 0;
  case FULL: return number >= at && (what == WRITE || what == MAKE) ? ERROR_DISK_FULL : 0;
  case EIO_ONCE: return number == at ? ERROR_IO_DEVICE : 0;
  case EIO_ALWAYS: return number >= at ? ERROR_IO_DEVICE : 0;
  }
  return 0;
}

static NTSTATUS status_of(DWORD number) { return number == ERROR_DISK_FULL ? STATUS_FULL : STATUS_BROKEN; }

/* ---- The calls --------------------------------------------------------------------------------------------------- */

#define CALL(what, type, failed, call)                                                                                 \
  bool dies;                                                                                                           \
  const DWORD number = judge(what, &dies);                                                                             \
  if (number) return SetLastError(number), failed;                                                                     \
  const type result = (call);                                                                                          \
  if (dies) die();                                                                                                     \
  return result

static BOOL WINAPI write_file(HANDLE file, const void *bytes, DWORD size, DWORD *put, OVERLAPPED *where) {
  bool dies;
  const DWORD number = judge(WRITE, &dies);
  if (number) return SetLastError(number), FALSE;
  const BOOL result = WriteFile(file, bytes, dies ? (size + 1) / 2 : size, put, where);
  if (dies) die();
  return result;
}

static BOOL WINAPI flush_file(HANDLE file) { CALL(SYNC, BOOL, FALSE, FlushFileBuffers(file)); }
static BOOL WINAPI set_end(HANDLE file) { CALL(REMOVE, BOOL, FALSE, SetEndOfFile(file)); }
static BOOL WINAPI delete_file(const wchar_t *path) { CALL(REMOVE, BOOL, FALSE, DeleteFileW(path)); }
static BOOL WINAPI set_info(HANDLE file, FILE_INFO_BY_HANDLE_CLASS class, void *info, DWORD size) {
  CALL(REMOVE, BOOL, FALSE, SetFileInformationByHandle(file, class, info, size));
}

/* Only calls that can create a file are counted. */
static HANDLE WINAPI create_file(const wchar_t *path, DWORD access, DWORD share, SECURITY_ATTRIBUTES *security,
                                 DWORD disposition, DWORD flags, HANDLE like) {
  if (disposition == OPEN_EXISTING || disposition == TRUNCATE_EXISTING)
    return CreateFileW(path, access, share, security, disposition, flags, like);
  CALL(MAKE, HANDLE, INVALID_HANDLE_VALUE, CreateFileW(path, access, share, security, disposition, flags, like));
}

static NTSTATUS NTAPI nt_create_file(HANDLE *file, ACCESS_MASK access, OBJECT_ATTRIBUTES *object, IO_STATUS_BLOCK *done,
                                     LARGE_INTEGER *size, ULONG attributes, ULONG share, ULONG disposition,
                                     ULONG options, void *extra, ULONG extra_size) {
  bool dies = false;
  const DWORD number = disposition == FILE_OPEN ? 0 : judge(MAKE, &dies);
  if (number) return status_of(number);
  const NTSTATUS result =
      NtCreateFile(file, access, object, done, size, attributes, share, disposition, options, extra, extra_size);
  if (dies) die();
  return result;
}

/* Removals and renames. What the file system does not know is tried in another way, and counts again. */
static NTSTATUS NTAPI nt_set_info(HANDLE file, IO_STATUS_BLOCK *done, void *info, ULONG size,
                                  FILE_INFORMATION_CLASS class) {
  bool dies;
  const DWORD number = judge(RENAME, &dies);
  if (number) return status_of(number);
  const NTSTATUS result = NtSetInformationFile(file, done, info, size, class);
  if (dies) die();
  return result;
}

static const struct {
  const char *name;
  void *function;
} replaced[] = {
    {"WriteFile", (void *)write_file},        {"FlushFileBuffers", (void *)flush_file},
    {"SetEndOfFile", (void *)set_end},        {"DeleteFileW", (void *)delete_file},
    {"CreateFileW", (void *)create_file},     {"SetFileInformationByHandle", (void *)set_info},
    {"NtCreateFile", (void *)nt_create_file}, {"NtSetInformationFile", (void *)nt_set_info},
};

/* ---- Tables of imports ------------------------------------------------------------------------------------------- */

static void replace_import(const char *name, void **slot) {
  DWORD before;
  for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
    if (strcmp(name, replaced[i].name) == 0 && VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &before)) {
      *slot = replaced[i].function;
      VirtualProtect(slot, sizeof *slot, before, &before);
    }
}

/* Returns false if the library is not loaded. */
static bool replace_imports(const char *library) {
  char *base = (char *)GetModuleHandleA(library);
  if (!base) return false;
  const IMAGE_NT_HEADERS *header = (const void *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
  const IMAGE_DATA_DIRECTORY *table = &header->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
  const IMAGE_IMPORT_DESCRIPTOR *import = (const void *)(base + table->VirtualAddress);
  for (; import->Name; import++) {
    const IMAGE_THUNK_DATA *names = (const void *)(base + import->OriginalFirstThunk);
    void **slots = (void **)(base + import->FirstThunk);
    for (; names->u1.AddressOfData; names++, slots++)
      if (!IMAGE_SNAP_BY_ORDINAL(names->u1.Ordinal))
        replace_import(((IMAGE_IMPORT_BY_NAME *)(base + names->u1.AddressOfData))->Name, slots);
  }
  return true;
}

/* ---- What the tests call ----------------------------------------------------------------------------------------- */

__declspec(dllexport) void inject_arm(int what, long at) {
  if (!replace_imports("tessera.dll") || !replace_imports("sqlite3.dll")) TerminateProcess(GetCurrentProcess(), 1);
  atomic_store(&calls, 0);
  atomic_store(&when, at);
  atomic_store(&armed, what);
}

/* Returns the number of calls that were counted. */
__declspec(dllexport) long inject_disarm(void) {
  atomic_store(&armed, -1);
  return atomic_load(&calls);
}
