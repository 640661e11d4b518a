/* windows_path.h: names of files on Windows, for the sources that only Windows has. The engine's paths are UTF-8 with '/';
 * Windows wants UTF-16 with '\'. A path that comes from the host becomes a full path here, once, by the rules that every
 * program of Windows follows. From then on it is taken literally: the calls of NtCreateFile give no part of it another
 * meaning, and have no limit of 260 characters. */
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

/* Makes UTF-16 of UTF-8, with '\' for '/', from to->text + at on. Returns the number of characters so far, or 0 if the
 * text is too long, empty or no UTF-8. */
size_t tsr__wide_append(tsr_wide_path *to, size_t at, const char *text);

/* Makes the full path "C:\..." or "\\server\share\..." of any path. Returns NULL, or what is wrong with the path: it may
 * name neither a device nor a stream of a file. */
const char *tsr__wide_full(const char *path, tsr_wide_path *full);

/* Makes the engine's form of such a full path, or of one of GetFinalPathNameByHandleW. The caller frees it with free().
 * NULL: no memory, or a path without a drive or a server. */
char *tsr__wide_form(const wchar_t *full);

/* Puts the prefix of the object manager before a full path: "\??\C:\...". Returns the number of characters, or 0 if it is
 * too long. */
size_t tsr__wide_object(const tsr_wide_path *full, tsr_wide_path *object);

/* The path that a handle really has, in the engine's form. NULL as tsr__wide_form. */
char *tsr__windows_final(void *handle);

/* Returns the number of errno that says what a number of GetLastError() says. */
int tsr__windows_errno(unsigned long number);

/* Gives what distinguishes a file from others and from its copies: its volume, its number (two words) and its time of
 * birth. Returns 0 or the number of an error. */
int tsr__windows_identity(const char *file, uint64_t numbers[4]);

/* The id of this installation and the number of its boot, as far as Windows says them. */
tsr_boot tsr__windows_boot(void);

#endif
#endif
