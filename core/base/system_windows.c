/* system_windows.c: implements system.h and windows_path.h for Windows. The sections are those of system.h, with three
 * more for windows_path.h: errors, text (path conversion) and identities. */
#ifdef _WIN32
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-W#warnings" /* pthread.h may have included windows.h already, which does no harm */
#include <winsock2.h>
#pragma GCC diagnostic pop
#include <windows.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "base/system.h"
#include "base/windows_path.h"

#define WINDOWS_STACK (1u << 20) /* bytes */
#define WINDOWS_CALL  (UINT64_C(1) << 30) /* most bytes per system call */
#define WINDOWS_SHARE (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

/* ---- Threads and processes --------------------------------------------------------------------------------------- */

bool tsr__thread_start(void *(*run)(void *argument), void *argument) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, WINDOWS_STACK);
  const bool started = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

void tsr__at_fork(void (*before)(void), void (*after)(void), void (*after_in_child)(void)) {
  (void)before, (void)after, (void)after_in_child; /* no process forks */
}

bool tsr__threads_live_at_exit(void) { return false; } /* Windows ends them before a library's exit handlers run */

size_t tsr__open_files_limit(void) { return SIZE_MAX; }

/* On a machine with several processor groups a process starts in one of them, and its threads stay there. */
unsigned tsr__cores(void) {
  DWORD_PTR mine = 0, all = 0;
  unsigned count = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &mine, &all))
    for (; mine; mine &= mine - 1) count++;
  return TSR_MAX(count, 1u);
}

/* Large pages want a privilege that few programs have. */
bool tsr__huge_pages(void) { return false; }

void tsr__advise_huge_pages(void *memory, size_t size) {}

int tsr__host_name(char *name, size_t room) {
  wchar_t wide[256];
  DWORD size = 256;
  if (!GetComputerNameExW(ComputerNameDnsHostname, wide, &size)) return EIO;
  return WideCharToMultiByte(CP_UTF8, 0, wide, -1, name, (int)room, NULL, NULL) > 0 ? 0 : ENAMETOOLONG;
}

/* ---- Libraries --------------------------------------------------------------------------------------------------- */

void *tsr__library_open(const char *name) { return (void *)LoadLibraryA(name); }

void *tsr__library_find(void *library, const char *symbol) {
  return (void *)(uintptr_t)GetProcAddress((HMODULE)library, symbol);
}

/* ---- Sockets ----------------------------------------------------------------------------------------------------- */

void tsr__socket_no_inherit(tsr_socket socket) { (void)SetHandleInformation((HANDLE)socket, HANDLE_FLAG_INHERIT, 0); }

/* A datagram socket connected to itself, because libcurl can wait only for sockets. */
bool tsr__bell_open(tsr_bell *bell) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int size = sizeof address;
  u_long not_waiting = 1;
  WSADATA data;
  if (WSAStartup(MAKEWORD(2, 2), &data) != 0) return false;
  const SOCKET made = WSASocketW(AF_INET, SOCK_DGRAM, IPPROTO_UDP, NULL, 0, WSA_FLAG_OVERLAPPED);
  if (made != INVALID_SOCKET && bind(made, (struct sockaddr *)&address, size) == 0 &&
      getsockname(made, (struct sockaddr *)&address, &size) == 0 &&
      connect(made, (struct sockaddr *)&address, size) == 0 && ioctlsocket(made, (long)FIONBIO, &not_waiting) == 0) {
    tsr__socket_no_inherit(made);
    *bell = (tsr_bell){made, made};
    return true;
  }
  if (made != INVALID_SOCKET) closesocket(made);
  WSACleanup();
  return false;
}

void tsr__bell_ring(const tsr_bell *bell) { (void)send(bell->rings, "", 1, 0); } /* a full buffer wakes just as well */

void tsr__bell_clear(const tsr_bell *bell) {
  char bytes[64];
  while (recv(bell->waits, bytes, sizeof bytes, 0) > 0) {}
}

void tsr__bell_close(const tsr_bell *bell) {
  closesocket(bell->waits);
  WSACleanup();
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

int tsr__windows_errno(unsigned long number) {
  switch (number) {
  case ERROR_SUCCESS: return 0;
  case ERROR_FILE_NOT_FOUND:
  case ERROR_PATH_NOT_FOUND:
  case ERROR_INVALID_NAME:
  case ERROR_BAD_PATHNAME:
  case ERROR_INVALID_DRIVE:
  case ERROR_DIRECTORY:
  case ERROR_FILENAME_EXCED_RANGE:
  case ERROR_BAD_NETPATH:
  case ERROR_BAD_NET_NAME: return ENOENT;
  case ERROR_ACCESS_DENIED:
  case ERROR_SHARING_VIOLATION: return EACCES;
  case ERROR_DISK_FULL:
  case ERROR_HANDLE_DISK_FULL: return ENOSPC;
  case ERROR_NOT_ENOUGH_MEMORY:
  case ERROR_OUTOFMEMORY: return ENOMEM;
  default: return EIO;
  }
}

/* ---- Temporary files --------------------------------------------------------------------------------------------- */

/* The file is deleted when its handle is closed, even if the process dies. Windows keeps its bytes in memory as long as
 * it can. */
intptr_t tsr__temporary_open(void) {
  wchar_t directory[MAX_PATH + 1], name[MAX_PATH + 64];
  const DWORD size = GetTempPathW(MAX_PATH + 1, directory);
  if (size == 0 || size > MAX_PATH) return errno = ENOENT, TSR_NO_TEMPORARY;
  for (unsigned i = 0; i < 100; i++) {
    LARGE_INTEGER now;
    QueryPerformanceCounter(&now);
    (void)swprintf(name, MAX_PATH + 64, L"%ls\\tessera-%lx-%llx-%x.tmp", directory, GetCurrentProcessId(),
                   (unsigned long long)now.QuadPart, i);
    const HANDLE made = CreateFileW(name, GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_NEW,
                                    FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    if (made != INVALID_HANDLE_VALUE) return (intptr_t)made;
    if (GetLastError() != ERROR_FILE_EXISTS) break;
  }
  return errno = tsr__windows_errno(GetLastError()), TSR_NO_TEMPORARY;
}

static OVERLAPPED windows_at(uint64_t offset) {
  return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
}

int64_t tsr__temporary_write(intptr_t file, const void *bytes, uint64_t size, uint64_t offset) {
  OVERLAPPED where = windows_at(offset);
  DWORD done = 0;
  if (WriteFile((HANDLE)file, bytes, (DWORD)TSR_MIN(size, WINDOWS_CALL), &done, &where)) return done;
  return errno = tsr__windows_errno(GetLastError()), -1;
}

int64_t tsr__temporary_read(intptr_t file, void *bytes, uint64_t size, uint64_t offset) {
  OVERLAPPED where = windows_at(offset);
  DWORD done = 0;
  if (ReadFile((HANDLE)file, bytes, (DWORD)TSR_MIN(size, WINDOWS_CALL), &done, &where)) return done;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  return errno = tsr__windows_errno(GetLastError()), -1;
}

bool tsr__temporary_empty(intptr_t file) {
  FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = 0};
  return SetFileInformationByHandle((HANDLE)file, FileEndOfFileInfo, &end, sizeof end);
}

void tsr__temporary_close(intptr_t file) { CloseHandle((HANDLE)file); }

/* ---- Text -------------------------------------------------------------------------------------------------------- */

size_t tsr__wide_append(tsr_wide_path *to, size_t at, const char *text) {
  const int room = at < TSR_WIDE_MAX ? (int)(TSR_WIDE_MAX - at) : 0;
  const int size = room ? MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, to->text + at, room) : 0;
  if (size <= 0) return 0;
  for (wchar_t *c = to->text + at; *c; c++)
    if (*c == L'/') *c = L'\\';
  return at + (size_t)size - 1;
}

static bool wide_is_letter(wchar_t c) { return (c >= L'A' && c <= L'Z') || (c >= L'a' && c <= L'z'); }

/* Returns true for a path component that Windows takes for a device in any directory: CON, NUL, COM1, also with
 * trailing blanks or any extension. */
static bool wide_is_device(const wchar_t *part, size_t size) {
  static const wchar_t *const devices[] = {L"CON", L"PRN", L"AUX", L"NUL", L"CONIN$", L"CONOUT$", L"CLOCK$"};
  size_t stem = 0;
  while (stem < size && part[stem] != L'.' && part[stem] != L':') stem++;
  while (stem > 0 && part[stem - 1] == L' ') stem--;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    if (wcslen(devices[i]) == stem && _wcsnicmp(part, devices[i], stem) == 0) return true;
  const bool port = stem == 4 && (_wcsnicmp(part, L"COM", 3) == 0 || _wcsnicmp(part, L"LPT", 3) == 0);
  return port && wcschr(L"0123456789\u00b9\u00b2\u00b3", part[3]);
}

/* Checks the components of a full path after its root. */
static const char *wide_check(const wchar_t *rest) {
  while (*rest) {
    const size_t size = wcscspn(rest, L"\\");
    if (wmemchr(rest, L':', size)) return "a name has no ':' on Windows; behind it a stream of the file would be named";
    if (wide_is_device(rest, size)) return "a part of it is the name of a device";
    rest += size + (rest[size] == L'\\');
  }
  return NULL;
}

/* Returns the part after "C:\" or "\\server\share\", or NULL if the full path begins otherwise. */
static const wchar_t *wide_behind_root(const wchar_t *full) {
  if (wide_is_letter(full[0]) && full[1] == L':' && full[2] == L'\\') return full + 3;
  if (full[0] != L'\\' || full[1] != L'\\' || wcschr(L"\\.?", full[2])) return NULL;
  const wchar_t *share = wcschr(full + 2, L'\\');
  if (!share || !share[1] || share[1] == L'\\') return NULL;
  const wchar_t *rest = wcschr(share + 1, L'\\');
  return rest ? rest + 1 : share + wcslen(share);
}

/* Removes the prefix "\\?\" or "\\?\UNC\" from a full path, in place. */
static void wide_strip(wchar_t *full) {
  if (wcsncmp(full, L"\\\\?\\", 4) != 0) return;
  const bool server = _wcsnicmp(full + 4, L"UNC\\", 4) == 0;
  const wchar_t *from = full + (server ? 8 : 4);
  wmemmove(full + (server ? 2 : 0), from, wcslen(from) + 1);
}

const char *tsr__wide_full(const char *path, tsr_wide_path *full) {
  tsr_wide_path given;
  const char *wrong = NULL;
  if (!tsr__wide_append(&given, 0, path)) return *path ? "it is too long, or no UTF-8" : "it is empty";
  const wchar_t *name = wcsrchr(given.text, L'\\'); /* GetFullPathNameW: on older systems a device, on newer a file */
  name = name ? name + 1 : given.text + (wide_is_letter(given.text[0]) && given.text[1] == L':' ? 2 : 0);
  wrong = wide_check(name);
  if (wrong) return wrong;
  const DWORD size = GetFullPathNameW(given.text, TSR_WIDE_MAX, full->text, NULL);
  if (size == 0 || size >= TSR_WIDE_MAX) return "it is too long";
  wide_strip(full->text);
  const wchar_t *rest = wide_behind_root(full->text);
  if (!rest) return "it names a device, or neither a drive nor a share of a server";
  if (wide_is_letter(full->text[0])) full->text[0] &= (wchar_t)~0x20;
  return wide_check(rest);
}

char *tsr__wide_form(const wchar_t *full) {
  tsr_wide_path copy;
  if (wcslen(full) >= TSR_WIDE_MAX) return NULL;
  wcscpy(copy.text, full);
  wide_strip(copy.text);
  if (!wide_behind_root(copy.text)) return NULL;
  const int size = WideCharToMultiByte(CP_UTF8, 0, copy.text, -1, NULL, 0, NULL, NULL);
  char *text = size > 0 ? malloc((size_t)size) : NULL;
  if (!text) return NULL;
  WideCharToMultiByte(CP_UTF8, 0, copy.text, -1, text, size, NULL, NULL);
  for (char *c = text; *c; c++)
    if (*c == '\\') *c = '/';
  for (size_t n = strlen(text), root = tsr__path_root(text); n > root && text[n - 1] == '/'; n--) text[n - 1] = 0;
  return text;
}

size_t tsr__wide_object(const tsr_wide_path *full, tsr_wide_path *object) {
  const bool server = full->text[0] == L'\\';
  const wchar_t *prefix = server ? L"\\??\\UNC\\" : L"\\??\\", *rest = full->text + (server ? 2 : 0);
  const size_t size = wcslen(prefix), more = wcslen(rest);
  if (size + more >= TSR_WIDE_MAX) return 0;
  wmemcpy(object->text, prefix, size);
  wmemcpy(object->text + size, rest, more + 1);
  return size + more;
}

char *tsr__windows_final(void *handle) {
  tsr_wide_path final;
  const DWORD size =
      GetFinalPathNameByHandleW(handle, final.text, TSR_WIDE_MAX, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
  return size > 0 && size < TSR_WIDE_MAX ? tsr__wide_form(final.text) : NULL;
}

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

static bool path_is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
static bool path_is_slash(char c) { return c == '/' || c == '\\'; }

void tsr_path_form(char *path) {
  for (char *c = path; *c; c++)
    if (*c == '\\') *c = '/';
  if (path[0] == '/' && path_is_letter(path[1]) && path[2] == ':') memmove(path, path + 1, strlen(path));
}

bool tsr__path_here(char *path, size_t room) {
  tsr_wide_path full;
  char *text = tsr__wide_full(".", &full) ? NULL : tsr__wide_form(full.text);
  const bool fits = text && strlen(text) < room;
  if (fits) strcpy(path, text);
  free(text);
  return fits;
}

size_t tsr__path_root(const char *path) {
  if (path_is_letter(path[0]) && path[1] == ':' && path_is_slash(path[2])) return 3;
  if (!path_is_slash(path[0]) || !path_is_slash(path[1])) return 0;
  size_t size = 2 + strcspn(path + 2, "/\\");
  if (!path[size]) return size;
  size += 1 + strcspn(path + size + 1, "/\\");
  return size + (path[size] != 0);
}

bool tsr_path_absolute(const char *path) {
  return path_is_slash(path[0]) || (path_is_letter(path[0]) && path[1] == ':');
}

bool tsr_path_same(const char *a, const char *b) {
  tsr_wide_path x, y;
  const size_t m = tsr__wide_append(&x, 0, a), n = tsr__wide_append(&y, 0, b);
  if (!m || !n) return strcmp(a, b) == 0;
  return CompareStringOrdinal(x.text, (int)m, y.text, (int)n, TRUE) == CSTR_EQUAL;
}

static HANDLE windows_open_any(const char *path) {
  tsr_wide_path full, object;
  if (tsr__wide_full(path, &full) || !tsr__wide_object(&full, &object)) {
    SetLastError(ERROR_INVALID_NAME);
    return INVALID_HANDLE_VALUE;
  }
  object.text[1] = L'\\'; /* CreateFileW spells the prefix "\\?\" */
  return CreateFileW(object.text, FILE_READ_ATTRIBUTES, WINDOWS_SHARE, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS,
                     NULL);
}

bool tsr_path_exists(const char *path) {
  const HANDLE handle = windows_open_any(path);
  if (handle == INVALID_HANDLE_VALUE) return false;
  CloseHandle(handle);
  return true;
}

char *tsr_path_real(const char *path) {
  const HANDLE handle = windows_open_any(path);
  if (handle == INVALID_HANDLE_VALUE) return errno = tsr__windows_errno(GetLastError()), NULL;
  char *text = tsr__windows_final(handle);
  if (!text) errno = ENOENT;
  CloseHandle(handle);
  return text;
}

int tsr_path_read(const char *path, bool waits) {
  tsr_wide_path full, object;
  (void)waits;
  if (tsr__wide_full(path, &full) || !tsr__wide_object(&full, &object)) return errno = ENOENT, -1;
  object.text[1] = L'\\';
  const HANDLE handle =
      CreateFileW(object.text, GENERIC_READ, WINDOWS_SHARE, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
  if (handle == INVALID_HANDLE_VALUE) return errno = tsr__windows_errno(GetLastError()), -1;
  const int descriptor = _open_osfhandle((intptr_t)handle, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
  if (descriptor < 0) CloseHandle(handle);
  return descriptor;
}

/* ---- Identities -------------------------------------------------------------------------------------------------- */

int tsr__windows_identity(const char *file, uint64_t numbers[4]) {
  FILE_ID_INFO id;
  FILE_BASIC_INFO basic;
  const HANDLE handle = windows_open_any(file);
  if (handle == INVALID_HANDLE_VALUE) return tsr__windows_errno(GetLastError());
  int number = 0;
  if (!GetFileInformationByHandleEx(handle, FileIdInfo, &id, sizeof id) ||
      !GetFileInformationByHandleEx(handle, FileBasicInfo, &basic, sizeof basic))
    number = tsr__windows_errno(GetLastError());
  CloseHandle(handle);
  if (number) return number;
  numbers[0] = id.VolumeSerialNumber;
  memcpy(numbers + 1, &id.FileId, 2 * sizeof *numbers);
  numbers[3] = (uint64_t)basic.CreationTime.QuadPart;
  return 0;
}

tsr_boot tsr__windows_boot(void) {
  tsr_boot boot;
  char machine[64] = "-";
  DWORD number = 0, size = sizeof number;
  (void)RegGetValueW(HKEY_LOCAL_MACHINE,
                     L"SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Memory Management\\PrefetchParameters",
                     L"BootId", RRF_RT_REG_DWORD, NULL, &number, &size);
  size = sizeof machine;
  (void)RegGetValueA(HKEY_LOCAL_MACHINE, "SOFTWARE\\Microsoft\\Cryptography", "MachineGuid",
                     RRF_RT_REG_SZ | RRF_SUBKEY_WOW6464KEY, NULL, machine, &size);
  snprintf(boot.text, sizeof boot.text, "%s %lu", machine, number);
  return boot;
}

#endif
