/* windows_path.h: file names on Windows, for the sources that only Windows builds. The engine's paths are UTF-8 with
 * '/'; Windows takes UTF-16 with '\'. A path that comes from the host is made a full path here, once, by the rules that
 * all Windows programs follow. From then on it is taken literally: NtCreateFile reinterprets no part of it and has no
 * limit of 260 characters.
 *
 * The implementation is in system_windows.c. */
#ifndef TSR_WINDOWS_PATH_H
#define TSR_WINDOWS_PATH_H
#ifdef _WIN32

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define TSR_WIDE_MAX 4096 /* characters of a path */

typedef struct tsr_wide_path {
  wchar_t text[TSR_WIDE_MAX];
} tsr_wide_path;

typedef struct tsr_boot {
  char text[96];
} tsr_boot;

/* Converts UTF-8 to UTF-16 and '/' to '\', and writes it at to->text + at. Returns the number of characters in `to`, or
 * 0 if the text is too long, empty or invalid UTF-8. */
size_t tsr__wide_append(tsr_wide_path *to, size_t at, const char *text);

/* Makes any path a full path: "C:\..." or "\\server\share\...". Returns NULL, or says what is wrong with the path; it
 * may name neither a device nor an alternate data stream. */
const char *tsr__wide_full(const char *path, tsr_wide_path *full);

/* Converts such a full path, or a result of GetFinalPathNameByHandleW, to the engine's form. The caller frees it with
 * free(). NULL: out of memory, or the path has neither a drive nor a server. */
char *tsr__wide_form(const wchar_t *full);

/* Prefixes a full path for the object manager: "\??\C:\...". Returns the number of characters, or 0 if that is too
 * long. */
size_t tsr__wide_object(const tsr_wide_path *full, tsr_wide_path *object);

/* Returns the path to which a handle really leads, in the engine's form. NULL as for tsr__wide_form. */
char *tsr__windows_final(void *handle);

/* Maps a code of GetLastError() to the matching errno. */
int tsr__windows_errno(unsigned long number);

/* Reads the identity of a file, which not even a copy of it shares: volume serial number, file id (two words) and
 * creation time. Returns 0 or an errno. */
int tsr__windows_identity(const char *file, uint64_t numbers[4]);

/* Returns the machine's id and its boot number, as far as Windows knows them. */
tsr_boot tsr__windows_boot(void);

#endif
#endif
