/* system.h: operating-system services that several modules need: threads, libraries, sockets, temporary files, paths.
 * system_posix.c implements it for POSIX, system_windows.c for Windows. Paths are UTF-8 everywhere, and the engine
 * separates their parts by '/'. */
#ifndef TSR_SYSTEM_H
#define TSR_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera_path.h"

#ifdef _WIN32
typedef uintptr_t tsr_socket;
#define TSR_HOME_VARIABLE "USERPROFILE" /* the environment variable with the user's home directory */
#else
typedef int tsr_socket;
#define TSR_HOME_VARIABLE "HOME"
#endif

/* ---- Threads and processes --------------------------------------------------------------------------------------- */

/* Starts a detached thread with a stack of at least 1 MiB. Signals are blocked in it, so that the host's handlers run
 * on the host's threads, and so that a write to a closed connection is an error and not a SIGPIPE. Signals of the
 * thread's own faults stay unblocked: otherwise they would end the process without the report that a host or a
 * sanitizer makes. Returns false if the system has no resources for another thread. */
bool tsr__thread_start(void *(*run)(void *argument), void *argument);

/* Registers functions to be called before a fork, and after it in the parent and in the child; does nothing on systems
 * without fork. */
void tsr__at_fork(void (*before)(void), void (*after)(void), void (*after_in_child)(void));

/* Returns true if atexit() handlers run while the process's other threads are still alive. */
bool tsr__threads_live_at_exit(void);

/* Returns how many files this process may have open at a time; SIZE_MAX if there is no limit. */
size_t tsr__open_files_limit(void);

/* Returns true if the system gives huge pages to memory that asks for them. */
bool tsr__huge_pages(void);

/* Asks for huge pages for memory that no thread has touched yet: a whole number of them. */
void tsr__advise_huge_pages(void *memory, size_t size);

/* Writes the name of this machine. Returns 0 or an errno. */
int tsr__host_name(char *name, size_t room);

/* ---- Libraries --------------------------------------------------------------------------------------------------- */

/* Loads a library, which stays loaded. Returns NULL if there is no library of that name. */
void *tsr__library_open(const char *name);
void *tsr__library_find(void *library, const char *symbol); /* NULL: it has no such function */

/* ---- Sockets ----------------------------------------------------------------------------------------------------- */

/* Keeps a socket from being inherited by programs that the host starts. */
void tsr__socket_no_inherit(tsr_socket socket);

/* A bell wakes a thread that waits for sockets: another thread rings it. */
typedef struct tsr_bell {
  tsr_socket waits, rings; /* `waits` is readable once the bell was rung; internal */
} tsr_bell;

bool tsr__bell_open(tsr_bell *bell);
void tsr__bell_ring(const tsr_bell *bell);
void tsr__bell_clear(const tsr_bell *bell); /* discards all rings so far */
void tsr__bell_close(const tsr_bell *bell);

/* ---- Temporary files --------------------------------------------------------------------------------------------- */

/* Temporary files have no name and vanish when their handle is closed. */
#define TSR_NO_TEMPORARY ((intptr_t)-1)

intptr_t tsr__temporary_open(void); /* TSR_NO_TEMPORARY, with errno, if no directory for temporary files can hold it */

/* Writes or reads up to `size` bytes at an offset. Returns how many, or -1 with errno. */
int64_t tsr__temporary_write(intptr_t file, const void *bytes, uint64_t size, uint64_t offset);
int64_t tsr__temporary_read(intptr_t file, void *bytes, uint64_t size, uint64_t offset);
bool tsr__temporary_empty(intptr_t file); /* truncates it to 0 bytes */
void tsr__temporary_close(intptr_t file);

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

/* Writes the current directory, in the form of tsr_path_form. Returns false if it is unknown or longer than `room`. */
bool tsr__path_here(char *path, size_t room);

/* Returns the number of bytes of an absolute path's root: "/", on Windows "C:/" or "//server/share/". 0: the path is
 * relative. */
size_t tsr__path_root(const char *path);

#endif
