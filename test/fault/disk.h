/* disk.h: a disk in memory that fails on request, keeps a log of its changes, and loses unsynced changes in a simulated
 * crash. It has two interfaces: a store, through which the core accesses arrays (disk_store.c), and a VFS, through which
 * SQLite accesses databases (disk_vfs.c). So the changes of arrays and databases are in one log.
 *
 * Durable is what POSIX guarantees and no more: the bytes of a file as they were at the file's last sync, and the names in a
 * directory as they were at the directory's last sync. After a crash each later change may be there or not; a write may be
 * there in part. A rename within a directory is one change.
 *
 * The paths of this disk begin with DISK_ROOT. All other paths lead to the real file system.
 */
#ifndef FAULT_DISK_H
#define FAULT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DISK_ROOT "/disk"

typedef struct disk disk;
extern disk *disk_now; /* the disk that both interfaces use */

disk *disk_new(void); /* has the empty directory DISK_ROOT */
disk *disk_copy(const disk *d); /* without the locks */
void disk_free(disk *d); /* NULL is fine */
bool disk_is_path(const char *path);
/* Copies a directory of the real file system to `path`, all of it durable. */
int disk_import(disk *d, const char *real, const char *path);
void disk_print(const disk *d, FILE *to); /* names and sizes, for failed tests */

/* ---- Calls: they return 0 or more, or -errno --------------------------------------------------------------------- */

typedef enum disk_act {
  DISK_LOOK, /* open, list, stat */
  DISK_READ, /* of an array's file */
  DISK_READ_DATABASE,
  DISK_MAKE, /* a file or directory */
  DISK_WRITE,
  DISK_CUT,
  DISK_SYNC,
  DISK_RENAME,
  DISK_EXCHANGE,
  DISK_REMOVE
} disk_act;

int disk_find(disk *d, const char *path, bool *directory); /* returns the node's number, or -ENOENT */
int disk_make(disk *d, const char *path, bool directory); /* returns the node's number, or -EEXIST, -ENOENT */
int disk_write(disk *d, int file, uint64_t offset, const void *bytes, uint64_t size);
int disk_cut(disk *d, int file, uint64_t size);
int disk_sync(disk *d, int node); /* a file or a directory */
int disk_rename(disk *d, const char *from, const char *to, bool exclusive);
int disk_exchange(disk *d, const char *one, const char *other); /* of one directory; it is one change */
int disk_remove(disk *d, const char *path); /* -ENOTEMPTY */
uint64_t disk_size(const disk *d, int file);
int disk_read(disk *d, int file, uint64_t offset, void *buffer, uint64_t size,
              bool database); /* -ENODATA past the end */
/* Gives the entry of a directory at an index. Returns false past the last one. */
bool disk_entry(const disk *d, int directory, unsigned index, const char **name, bool *is_directory);
uint64_t disk_changes(const disk *d, int directory); /* a number that each change of the directory raises */
uint64_t disk_digest(const disk *d); /* a hash of all names and bytes */
uint64_t disk_digest_under(const disk *d, const char *path); /* of those below a path; 0 if it is not there */
bool disk_has(const disk *d, const char *suffix); /* true if the name of any file or directory ends so */
bool disk_locked(const disk *d); /* true if any file is locked */
int disk_look(void); /* counts a call of kind DISK_LOOK, which may fail: call it before disk_find and the like */
int disk_anonymous(disk *d); /* makes a file without a name; calls on it are neither counted nor logged */

typedef struct disk_lock { /* of SQLite's on a file, and of the store's */
  int shared;
  const void *reserved, *pending, *exclusive; /* the holders */
  const void *array; /* the holder of a lock of the store's */
} disk_lock;
disk_lock *disk_lock_of(disk *d, int file);

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

typedef enum disk_fault {
  DISK_NO_FAULT, /* calls are counted, none fails */
  DISK_EIO, /* any call fails with EIO */
  DISK_FULL, /* a call that needs space fails with ENOSPC */
  DISK_SHORT, /* a read of an array's file ends early, as if the file had been truncated */
  DISK_LATE, /* a call that changes the disk makes its change and returns an error nevertheless */
  DISK_FAULTS
} disk_fault;
extern const char *const disk_fault_names[DISK_FAULTS];

/* Arms a fault. The calls that the fault concerns are counted from 1; calls `from` to `to` - 1 fail. */
void disk_arm(disk_fault fault, long from, long to);
long disk_disarm(void); /* returns the number of calls that were counted */
long disk_failed(void); /* returns the number of calls that have failed since the fault was armed */

/* ---- Several machines -------------------------------------------------------------------------------------------- */

/* A program that simulates several machines on one disk (test/simulate) says here what differs between them. */
typedef struct disk_machines {
  /* Called before each call of the disk, and with `late` after each change. It may let other machines go on meanwhile.
   * Returns the errno with which the call fails, or 0. */
  int (*turn)(disk_act act, bool late);
  void (*sleep)(int64_t nanoseconds);
  int64_t (*clock)(bool steady); /* nanoseconds since 1970; steady: the clock that nobody sets */
  uint64_t (*written)(void); /* the disk's own time, in milliseconds since 1970, which becomes that of a changed file */
  bool locks; /* the disk can lock files of arrays */
} disk_machines;
extern const disk_machines *disk_machines_now; /* NULL: a single one */
uint64_t disk_modified(const disk *d, int node); /* in milliseconds; 0 if there is a single machine */

/* ---- The log ----------------------------------------------------------------------------------------------------- */

void disk_log_begin(void); /* logs the changes of the present disk_now from now on; discards an older log */
unsigned disk_log_end(void); /* returns the number of logged changes */
unsigned disk_log_size(void);
void disk_log_apply(disk *d, unsigned index); /* repeats the change on a copy of the disk as it was before the change */
void disk_log_print(unsigned index, char text[200]);

typedef enum disk_loss {
  DISK_LOSE_ALL, /* all unsynced changes are lost */
  DISK_LOSE_NOTHING, /* nothing is lost: only the process has died */
  DISK_LOSE_BYTES, /* unsynced names are kept, unsynced writes are lost */
  DISK_LOSE_HALF, /* unsynced names are kept, and half of the unsynced writes */
  DISK_ZEROS, /* unsynced names and file sizes are kept, unsynced bytes are zeros */
  DISK_LOSE_NAMES, /* unsynced writes are kept, unsynced names are lost */
  DISK_LAST_NAME, /* unsynced writes are kept, and the last unsynced name of each directory */
  DISK_LOSSES /* this and higher numbers: each change is lost or kept at random, with the number as seed */
} disk_loss;
disk *disk_crash(const disk *d, unsigned loss); /* returns the disk after a crash, all of it durable */

/* ---- The two interfaces, and the clock --------------------------------------------------------------------------- */

int disk_vfs_register(void); /* as SQLite's default */
extern _Atomic int disk_files_open; /* through both interfaces */

void disk_clock_set(int64_t milliseconds); /* since 1970; each call that reads the clock advances it by a microsecond */
void disk_random_seed(uint64_t seed);
void disk_random(void *bytes, size_t size);

#endif
