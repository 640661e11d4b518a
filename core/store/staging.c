/* staging.c: staged files in one unnamed temporary file. Each staged file is a list of segments of it. The temporary
 * file only grows; when no staged file is left, it is truncated to nothing.
 */
#include "store/staging.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/map.h"
#include "base/system.h"

typedef struct segment {
  uint64_t offset; /* in the temporary file */
  uint64_t start; /* in the staged file: the sum of the sizes of the segments before */
  uint64_t size; /* in bytes */
} segment;

struct tsr_staged {
  tsr_staging *staging; /* borrowed */
  tsr_buffer segments; /* segment */
  uint64_t size; /* in bytes */
  uint64_t holders; /* callers that hold the file, plus one for the map while the file has its path */
  bool grows; /* its creator may append to it */
  char *path; /* owned */
};

struct tsr_staging {
  tsr_memory *memory; /* borrowed */
  pthread_mutex_t mutex; /* guards the fields below, and the holders of all files */
  tsr_map files; /* path -> tsr_staged */
  uint64_t alive; /* files that have not been freed */
  uint64_t end; /* size of the temporary file, in bytes */
  intptr_t file; /* the temporary file; TSR_NO_TEMPORARY: none yet */
};

int tsr__staging_open(tsr_memory *memory, tsr_staging **staging, tsr_error *error) {
  tsr_staging *s;
  TSR_TRY(TSR_ALLOC(memory, &s, error));
  s->memory = s->files.memory = memory;
  s->file = TSR_NO_TEMPORARY;
  pthread_mutex_init(&s->mutex, NULL);
  *staging = s;
  return TSR_OK;
}

static void free_staged(tsr_staged *file) {
  tsr_staging *s = file->staging;
  tsr__buffer_release(&file->segments);
  tsr__free(file->path);
  tsr__free(file);
  if (--s->alive == 0 && s->file != TSR_NO_TEMPORARY && tsr__temporary_empty(s->file)) s->end = 0;
}

static void staging_drop(tsr_staged *file) {
  if (--file->holders == 0) free_staged(file);
}

void tsr__staging_close(tsr_staging *staging) {
  if (!staging) return;
  for (uint64_t i = 0; i < staging->files.count; i++) staging_drop(staging->files.entries[i].value);
  tsr__map_release(&staging->files);
  if (staging->file != TSR_NO_TEMPORARY) tsr__temporary_close(staging->file);
  pthread_mutex_destroy(&staging->mutex);
  tsr__free(staging);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

int tsr__staging_create(tsr_staging *staging, const char *path, tsr_staged **file, tsr_error *error) {
  const size_t length = strlen(path) + 1;
  tsr_staged *made;
  TSR_TRY(TSR_ALLOC(staging->memory, &made, error));
  made->staging = staging;
  made->segments.memory = staging->memory;
  made->holders = 2;
  made->grows = true;
  int rc = TSR_ALLOC_RAW(staging->memory, length, &made->path, error);
  if (rc >= 0) memcpy(made->path, path, length);
  pthread_mutex_lock(&staging->mutex);
  if (rc >= 0 && tsr__map_get(&staging->files, path)) rc = tsr__fail(error, TSR_EXISTS, "exists already");
  if (rc >= 0) rc = tsr__map_put(&staging->files, made->path, made, error);
  if (rc >= 0) staging->alive++;
  pthread_mutex_unlock(&staging->mutex);
  if (rc >= 0) return *file = made, TSR_OK;
  tsr__free(made->path);
  tsr__free(made);
  return rc;
}

tsr_staged *tsr__staging_find(tsr_staging *staging, const char *path) {
  pthread_mutex_lock(&staging->mutex);
  tsr_staged *file = tsr__map_get(&staging->files, path);
  if (file) file->holders++;
  pthread_mutex_unlock(&staging->mutex);
  return file;
}

void tsr__staged_release(tsr_staged *file) {
  tsr_staging *s = file->staging;
  pthread_mutex_lock(&s->mutex);
  staging_drop(file);
  pthread_mutex_unlock(&s->mutex);
}

bool tsr__staging_remove(tsr_staging *staging, const char *path) {
  pthread_mutex_lock(&staging->mutex);
  tsr_staged *file = tsr__map_remove(&staging->files, path);
  if (file) staging_drop(file);
  pthread_mutex_unlock(&staging->mutex);
  return file != NULL;
}

static bool lies_below(const char *path, const char *directory) {
  const size_t length = strlen(directory);
  return length == 0 || (strncmp(path, directory, length) == 0 && path[length] == '/');
}

/* Renames one file, which is `from` or lies below it. */
static int rename_one(tsr_staging *s, tsr_staged *file, const char *from, const char *to, tsr_error *error) {
  const size_t head = strlen(to), tail = strlen(file->path) - strlen(from);
  char *path;
  TSR_TRY(TSR_ALLOC_RAW(s->memory, head + tail + 1, &path, error));
  memcpy(path, to, head);
  memcpy(path + head, file->path + strlen(from), tail + 1);
  const int rc = tsr__map_put(&s->files, path, file, error);
  if (rc < 0) return tsr__free(path), rc;
  tsr__map_remove(&s->files, file->path);
  tsr__free(file->path);
  file->path = path;
  return TSR_OK;
}

int tsr__staging_rename(tsr_staging *staging, const char *from, const char *to, tsr_error *error) {
  int rc = TSR_OK;
  pthread_mutex_lock(&staging->mutex);
  for (uint64_t i = 0; rc >= 0 && i < staging->files.count;) {
    const tsr_map_entry *entry = &staging->files.entries[i];
    if (strcmp(entry->key, from) != 0 && !lies_below(entry->key, from)) {
      i++;
      continue;
    }
    rc = rename_one(staging, entry->value, from, to, error);
    i = 0; /* the table has changed */
  }
  pthread_mutex_unlock(&staging->mutex);
  return rc;
}

tsr_staged *tsr__staging_next(tsr_staging *staging, const char *directory, uint64_t *at) {
  tsr_staged *found = NULL;
  pthread_mutex_lock(&staging->mutex);
  while (!found && *at < staging->files.count) {
    const tsr_map_entry *entry = &staging->files.entries[(*at)++];
    if (lies_below(entry->key, directory)) found = entry->value;
  }
  pthread_mutex_unlock(&staging->mutex);
  return found;
}

const char *tsr__staged_path(const tsr_staged *file) { return file->path; }
uint64_t tsr__staged_size(const tsr_staged *file) { return file->size; }

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

void tsr__staged_clear(tsr_staged *file) {
  tsr_staging *s = file->staging;
  pthread_mutex_lock(&s->mutex);
  file->segments.size = 0;
  file->size = 0;
  if (s->alive == 1 && s->file != TSR_NO_TEMPORARY && tsr__temporary_empty(s->file)) s->end = 0;
  pthread_mutex_unlock(&s->mutex);
}

void tsr__staged_complete(tsr_staged *file) { file->grows = false; }
bool tsr__staged_grows(const tsr_staged *file) { return file->grows; }

static int fail_staging(const char *what, tsr_error *error) {
#ifdef EDQUOT
  const bool full = errno == ENOSPC || errno == EDQUOT;
#else
  const bool full = errno == ENOSPC;
#endif
  return tsr__fail(error, full ? TSR_FULL : TSR_IO, "%s a temporary file failed with error %d%s", what, errno,
                   full ? ": the disk is full" : "");
}

/* Reserves `size` bytes at the end of the temporary file. */
static int take_room(tsr_staging *s, uint64_t size, uint64_t *offset, tsr_error *error) {
  int rc = TSR_OK;
  pthread_mutex_lock(&s->mutex);
  if (s->file == TSR_NO_TEMPORARY && (s->file = tsr__temporary_open()) == TSR_NO_TEMPORARY)
    rc = fail_staging("creating", error);
  *offset = s->end;
  if (rc >= 0 && (!tsr__add(s->end, size, &s->end) || s->end > INT64_MAX)) {
    s->end = *offset;
    rc = tsr__fail(error, TSR_FULL, "the temporary file would pass 2^63 bytes");
  }
  pthread_mutex_unlock(&s->mutex);
  return rc;
}

/* Records new bytes: extends the file's last segment if they follow it, else adds a segment. */
static int add_segment(tsr_staged *file, uint64_t offset, uint64_t size, tsr_error *error) {
  const uint64_t count = file->segments.size / sizeof(segment);
  segment *last = count ? (segment *)(void *)file->segments.data + count - 1 : NULL;
  if (last && last->offset + last->size == offset) {
    last->size += size;
  } else {
    const segment added = {offset, file->size, size};
    TSR_TRY(tsr__buffer_append(&file->segments, &added, sizeof added, error));
  }
  file->size += size;
  return TSR_OK;
}

int tsr__staged_append(tsr_staged *file, const void *bytes, uint64_t size, tsr_error *error) {
  const uint8_t *from = bytes;
  uint64_t offset;
  if (size == 0) return TSR_OK;
  TSR_TRY(take_room(file->staging, size, &offset, error));
  for (uint64_t done = 0; done < size;) {
    const int64_t n = tsr__temporary_write(file->staging->file, from + done, size - done, offset + done);
    if (n < 0) return fail_staging("writing", error);
    done += (uint64_t)n;
  }
  return add_segment(file, offset, size, error);
}

/* Finds the segment that holds a byte of the file. */
static const segment *segment_of(const tsr_staged *file, uint64_t offset) {
  const segment *all = (const segment *)(const void *)file->segments.data;
  uint64_t a = 0, b = file->segments.size / sizeof *all;
  while (b - a > 1) {
    const uint64_t middle = a + (b - a) / 2;
    if (all[middle].start <= offset) a = middle;
    else b = middle;
  }
  return &all[a];
}

int tsr__staged_read(tsr_staged *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  uint8_t *to = buffer;
  uint64_t end;
  if (!tsr__add(offset, size, &end) || end > file->size)
    return tsr__fail(error, TSR_CORRUPT, "the file ends before byte %llu",
                     (unsigned long long)tsr__add_sat(offset, size));
  while (size > 0) {
    const segment *s = segment_of(file, offset);
    const uint64_t within = offset - s->start, part = TSR_MIN(size, s->size - within);
    const int64_t n = tsr__temporary_read(file->staging->file, to, part, s->offset + within);
    if (n <= 0) return fail_staging("reading", error);
    to += n;
    offset += (uint64_t)n;
    size -= (uint64_t)n;
  }
  return TSR_OK;
}
