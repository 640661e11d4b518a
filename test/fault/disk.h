/* disk.h: a disk in memory that fails when it is told to, keeps a log of what was done to it, and forgets in a crash what
 * was not forced to it. It has two faces: the store in which the core finds arrays (disk_store.c), and the file system in
 * which SQLite finds databases (disk_vfs.c); so arrays and database stand in one log.
 *
 * What is durable, as POSIX promises it and no more: the bytes of a file as they were at its last sync; the names in a
 * directory as they were at its last sync. Each change since then may be there or not after a crash, a write in part too.
 * A rename within a directory is one change.
 *
 * Paths begin with DISK_ROOT; other paths lead to the real file system, which the faces leave alone.
 */
#ifndef FAULT_DISK_H
#define FAULT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DISK_ROOT "/disk"

typedef struct disk disk;
extern disk *disk_now; /* the one that both faces show */

disk *disk_new(void); /* DISK_ROOT, an empty directory */
disk *disk_copy(const disk *d); /* nothing is locked in it */
void disk_free(disk *d); /* NULL is fine */
bool disk_is_path(const char *path);
/* Copies a directory of the real file system to `path`, all of it durable. */
int disk_import(disk *d, const char *real, const char *path);
void disk_print(const disk *d, FILE *to); /* names and sizes, for failed tests */

/* ---- What can be done: 0 or more, or -errno ---------------------------------------------------------------------- */

typedef enum disk_act {
  DISK_LOOK, /* open, list, stat */
  DISK_READ, /* of an array's file */
  DISK_READ_DATABASE,
  DISK_MAKE, /* a file or directory */
  DISK_WRITE,
  DISK_CUT,
  DISK_SYNC,
  DISK_RENAME,
  DISK_REMOVE
} disk_act;

int disk_find(disk *d, const char *path, bool *directory); /* its number; -ENOENT */
int disk_make(disk *d, const char *path, bool directory); /* its number; -EEXIST, -ENOENT */
int disk_write(disk *d, int file, uint64_t offset, const void *bytes, uint64_t size);
int disk_cut(disk *d, int file, uint64_t size);
int disk_sync(disk *d, int node); /* a file or a directory */
int disk_rename(disk *d, const char *from, const char *to, bool exclusive);
int disk_remove(disk *d, const char *path); /* -ENOTEMPTY */
uint64_t disk_size(const disk *d, int file);
int disk_read(disk *d, int file, uint64_t offset, void *buffer, uint64_t size,
              bool database); /* -ENODATA past the end */
/* The entries of a directory, by index; false past the last. */
bool disk_entry(const disk *d, int directory, unsigned index, const char **name, bool *is_directory);
uint64_t disk_changes(const disk *d, int directory); /* counts up */
uint64_t disk_digest(const disk *d); /* of all names and bytes */
bool disk_locked(const disk *d); /* is any file? */
int disk_look(void); /* is counted, and may fail: before disk_find and the like */
int disk_anonymous(disk *d); /* a file without a name; nothing of it is counted or logged */

typedef struct disk_lock { /* of SQLite's, on a file */
  int shared;
  const void *reserved, *pending, *exclusive; /* who has it */
} disk_lock;
disk_lock *disk_lock_of(disk *d, int file);

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

typedef enum disk_fault {
  DISK_NO_FAULT, /* counts the calls */
  DISK_EIO, /* any call */
  DISK_FULL, /* a call that needs room */
  DISK_SHORT, /* a read of an array's file ends early: somebody has cut it */
  DISK_LATE, /* any call that changes the disk: it is done, and fails nevertheless */
  DISK_FAULTS
} disk_fault;
extern const char *const disk_fault_names[DISK_FAULTS];

/* The calls that a fault concerns are counted from 1; those from `from` on, and before `to`, fail. */
void disk_arm(disk_fault fault, long from, long to);
long disk_disarm(void); /* how many were counted */
long disk_failed(void); /* how many have failed since it was armed */

/* ---- The log ----------------------------------------------------------------------------------------------------- */

void disk_log_begin(void); /* from now on changes of this disk_now are logged; an old log goes */
unsigned disk_log_end(void); /* how many there are */
unsigned disk_log_size(void);
void disk_log_apply(disk *d, unsigned index); /* does the change again, on a copy of what it was done to */
void disk_log_print(unsigned index, char text[200]);

typedef enum disk_loss {
  DISK_LOSE_ALL, /* nothing is left that was not forced */
  DISK_LOSE_NOTHING, /* only the process has died */
  DISK_LOSE_BYTES, /* names are there, files as they were at their last sync */
  DISK_LOSE_HALF, /* names are there, half of the bytes */
  DISK_ZEROS, /* names and sizes are there, bytes that were not forced are zeros */
  DISK_LOSE_NAMES, /* bytes are there, names are not */
  DISK_LAST_NAME, /* bytes are there, and of the names of each directory that were not forced the last alone */
  DISK_LOSSES /* this and more: by chance, with the number as seed */
} disk_loss;
disk *disk_crash(const disk *d, unsigned loss); /* what is left, all of it durable */

/* ---- The faces, and what else is not left to chance -------------------------------------------------------------- */

int disk_vfs_register(void); /* as SQLite's default */
extern _Atomic int disk_files_open; /* of both faces */

void disk_clock_set(int64_t milliseconds); /* since 1970; from there each look at it is a microsecond later */
void disk_random_seed(uint64_t seed);
void disk_random(void *bytes, size_t size);

#endif
