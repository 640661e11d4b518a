/* store_memory.c: a store in memory, for tests and fuzzers.
 *
 * The store is an array of nodes, sorted by path as bytes. The root is the node "". All nodes below a directory "a"
 * follow each other, because their paths begin with "a/". Nodes count their references, so an open file can still be
 * read after its removal. One mutex guards the store. A change of names changes the stamps of the directory and of all
 * directories above it.
 */
#include "store_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "store/store.h"

typedef struct node {
  char *path;
  bool directory;
  uint32_t holders; /* references: from the tree, and from open files */
  const struct memory_file *locker; /* the open file that holds the lock, or NULL */
  uint64_t modified;
  tsr_buffer bytes;
} node;

typedef struct memory_store {
  tsr_store base;
  pthread_mutex_t mutex;
  node **nodes;
  uint64_t count, capacity, changes;
} memory_store;

typedef struct memory_file {
  tsr_file base;
  node *node;
  bool writable;
} memory_file;

/* ---- Nodes ----------------------------------------------------------------------------------- */

static void memory_lock(tsr_store *store) { pthread_mutex_lock(&((memory_store *)store)->mutex); }
static void memory_unlock(tsr_store *store) { pthread_mutex_unlock(&((memory_store *)store)->mutex); }

static uint64_t now(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_REALTIME, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void memory_let_go(node *n) {
  if (--n->holders > 0) return;
  tsr__buffer_release(&n->bytes);
  tsr__free(n->path);
  tsr__free(n);
}

/* Returns the index of the first node whose path is not less than `path`. */
static uint64_t lower_bound(const memory_store *s, const char *path) {
  uint64_t low = 0, high = s->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (strcmp(s->nodes[middle]->path, path) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

static node *memory_find(const memory_store *s, const char *path) {
  uint64_t at = lower_bound(s, path);
  return at < s->count && strcmp(s->nodes[at]->path, path) == 0 ? s->nodes[at] : NULL;
}

/* Returns true if `path` lies below the directory. */
static bool memory_inside(const char *path, const char *directory) {
  size_t length = strlen(directory);
  if (length == 0) return *path != 0;
  return strncmp(path, directory, length) == 0 && path[length] == '/';
}

/* Returns the index of the first node below the directory. */
static uint64_t first_inside(const memory_store *s, const char *directory) {
  uint64_t at = lower_bound(s, directory);
  while (at < s->count && !memory_inside(s->nodes[at]->path, directory) &&
         strncmp(s->nodes[at]->path, directory, strlen(directory)) == 0)
    at++; /* skip the directory itself, and names such as "a-b", which sort before "a/" */
  return at;
}

static bool empty(const memory_store *s, const char *directory) {
  uint64_t at = first_inside(s, directory);
  return at == s->count || !memory_inside(s->nodes[at]->path, directory);
}

static int memory_copy_text(tsr_memory *memory, const char *a, const char *b, char **copy, tsr_error *error) {
  size_t head = strlen(a), tail = strlen(b);
  char *text;
  TSR_TRY(TSR_ALLOC_RAW(memory, head + tail + 1, &text, error));
  memcpy(text, a, head);
  memcpy(text + head, b, tail + 1);
  *copy = text;
  return TSR_OK;
}

/* Returns TSR_OK if the parent of `path` is a directory, so that `path` can be created. */
static int check_parent(const memory_store *s, const char *path, tsr_error *error) {
  const char *slash = strrchr(path, '/');
  char *parent;
  if (!*path) return TSR_OK;
  TSR_TRY(memory_copy_text(s->base.memory, path, "", &parent, error));
  parent[slash ? slash - path : 0] = 0;
  const node *n = memory_find(s, parent);
  tsr__free(parent);
  return n && n->directory ? TSR_OK : tsr__fail(error, TSR_NOT_FOUND, "there is no such directory");
}

static int add_node(memory_store *s, const char *path, bool directory, node **added, tsr_error *error) {
  if (memory_find(s, path)) return tsr__fail(error, TSR_EXISTS, "something is already there");
  TSR_TRY(check_parent(s, path, error));
  if (s->count == s->capacity) {
    uint64_t capacity = TSR_MAX(2 * s->capacity, 16);
    TSR_TRY(TSR_REALLOC_ARRAY(s->base.memory, capacity, &s->nodes, error));
    s->capacity = capacity;
  }
  node *n;
  TSR_TRY(TSR_ALLOC(s->base.memory, &n, error));
  int rc = memory_copy_text(s->base.memory, path, "", &n->path, error);
  if (rc < 0) {
    tsr__free(n);
    return rc;
  }
  n->directory = directory;
  n->holders = 1;
  n->modified = now();
  n->bytes.memory = s->base.memory;
  uint64_t at = lower_bound(s, path);
  memmove(s->nodes + at + 1, s->nodes + at, (s->count - at) * sizeof *s->nodes);
  s->nodes[at] = n;
  s->count++;
  s->changes++;
  *added = n;
  return TSR_OK;
}

static void drop_node(memory_store *s, const char *path) {
  uint64_t at = lower_bound(s, path);
  memory_let_go(s->nodes[at]);
  s->count--;
  memmove(s->nodes + at, s->nodes + at + 1, (s->count - at) * sizeof *s->nodes);
  s->changes++;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int memory_file_new(tsr_store *store, node *n, bool writable, tsr_file **file, tsr_error *error) {
  void *memory;
  TSR_TRY(tsr__file_allocate(store, n->path, sizeof(memory_file), &memory, error));
  memory_file *f = memory;
  f->node = n;
  f->writable = writable;
  f->base.size = n->bytes.size;
  n->holders++;
  *file = &f->base;
  return TSR_OK;
}

static int memory_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  memory_lock(store);
  node *n = memory_find((memory_store *)store, path);
  int rc;
  if (!n) rc = tsr__fail(error, TSR_NOT_FOUND, "there is no such file");
  else if (n->directory) rc = tsr__fail(error, TSR_NOT_FOUND, "is a directory, not a file");
  else rc = memory_file_new(store, n, false, file, error);
  memory_unlock(store);
  return rc;
}

static int memory_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  memory_store *s = (memory_store *)store;
  node *n;
  memory_lock(store);
  int rc = add_node(s, path, false, &n, error);
  if (rc == TSR_OK) {
    rc = memory_file_new(store, n, true, file, error);
    if (rc < 0) drop_node(s, path);
  }
  memory_unlock(store);
  return rc;
}

static int memory_lock_file(tsr_file *file, tsr_error *error) {
  memory_file *f = (memory_file *)file;
  memory_lock(file->store);
  const bool taken = f->node->locker && f->node->locker != f;
  if (!taken) f->node->locker = f;
  memory_unlock(file->store);
  return taken ? tsr__fail(error, TSR_BUSY, "locking: the file is locked") : TSR_OK;
}

static int memory_is_locked(tsr_file *file, bool *locked, tsr_error *error) {
  const memory_file *f = (const memory_file *)file;
  memory_lock(file->store);
  *locked = f->node->locker && f->node->locker != f;
  memory_unlock(file->store);
  return TSR_OK;
}

static void memory_close_file(tsr_file *file) {
  tsr_store *store = file->store;
  memory_file *f = (memory_file *)file;
  memory_lock(store);
  if (f->node->locker == f) f->node->locker = NULL;
  memory_let_go(f->node);
  memory_unlock(store);
  tsr__free(file);
}

static int memory_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  memory_lock(file->store);
  memcpy(buffer, ((memory_file *)file)->node->bytes.data + offset,
         size); /* in range: store.c has checked it, and a file never shrinks */
  memory_unlock(file->store);
  return TSR_OK;
}

static int memory_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  memory_file *f = (memory_file *)file;
  if (!f->writable) return tsr__fail(error, TSR_IO, "writing: the file was opened for reading");
  memory_lock(file->store);
  int rc = tsr__buffer_append(&f->node->bytes, bytes, size, error);
  if (rc == TSR_OK) {
    f->node->modified = now();
    file->size = f->node->bytes.size;
  }
  memory_unlock(file->store);
  return rc;
}

static int memory_sync_file(tsr_file *file, tsr_error *error) { return TSR_OK; }

/* ---- Directories ----------------------------------------------------------------------------- */

static int memory_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  const memory_store *s = (const memory_store *)store;
  size_t skip = *path ? strlen(path) + 1 : 0;
  memory_lock(store);
  const node *n = memory_find(s, path);
  int rc = n && n->directory ? TSR_OK : tsr__fail(error, TSR_NOT_FOUND, "there is no such directory");
  for (uint64_t i = first_inside(s, path); rc == TSR_OK && i < s->count && memory_inside(s->nodes[i]->path, path);
       i++) {
    const char *name = s->nodes[i]->path + skip;
    if (strchr(name, '/')) continue;
    rc = tsr_listing_add(listing, name, s->nodes[i]->directory ? TSR_ENTRY_DIRECTORY : TSR_ENTRY_FILE, error);
  }
  memory_unlock(store);
  return rc;
}

static int memory_stamp_directory(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  const memory_store *s = (const memory_store *)store;
  memory_lock(store);
  const node *n = memory_find(s, path);
  *stamp = (tsr_stamp){.known = true, .a = n && n->directory ? s->changes : 0};
  memory_unlock(store);
  return TSR_OK;
}

static int memory_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  memory_lock(store);
  const node *n = memory_find((const memory_store *)store, path);
  if (n) *milliseconds = n->modified;
  memory_unlock(store);
  return n ? TSR_OK : tsr__fail(error, TSR_NOT_FOUND, "there is no such file");
}

static int memory_sync_directory(tsr_store *store, const char *path, tsr_error *error) {
  memory_lock(store);
  const node *n = memory_find((const memory_store *)store, path);
  bool there = n && n->directory;
  memory_unlock(store);
  return there ? TSR_OK : tsr__fail(error, TSR_NOT_FOUND, "there is no such directory");
}

static int memory_make_directory(tsr_store *store, const char *path, tsr_error *error) {
  node *n;
  memory_lock(store);
  int rc = add_node((memory_store *)store, path, true, &n, error);
  memory_unlock(store);
  return rc;
}

static int memory_remove_path(tsr_store *store, const char *path, tsr_error *error) {
  memory_store *s = (memory_store *)store;
  memory_lock(store);
  const node *n = memory_find(s, path);
  int rc = TSR_OK;
  if (!n) rc = tsr__fail(error, TSR_NOT_FOUND, "there is no such file");
  else if (n->directory && !empty(s, path)) rc = tsr__fail(error, TSR_EXISTS, "the directory is not empty");
  else drop_node(s, path);
  memory_unlock(store);
  return rc;
}

/* ---- Renaming -------------------------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b) {
  return strcmp((*(node *const *)a)->path, (*(node *const *)b)->path);
}

/* Gives the node `from` and all nodes below it new paths, and removes the node `replaced`, or none if that is NULL. All
 * memory is allocated before the first change, so that a failure changes nothing. */
static int move_nodes(memory_store *s, const char *from, const char *to, node *replaced, tsr_error *error) {
  char **paths;
  TSR_TRY(TSR_ALLOC_ARRAY(s->base.memory, s->count, &paths, error));
  int rc = TSR_OK;
  for (uint64_t i = 0; rc == TSR_OK && i < s->count; i++) {
    const char *path = s->nodes[i]->path;
    if (strcmp(path, from) == 0 || memory_inside(path, from))
      rc = memory_copy_text(s->base.memory, to, path + strlen(from), &paths[i], error);
  }
  uint64_t kept = 0;
  for (uint64_t i = 0; i < s->count; i++) {
    node *n = s->nodes[i];
    if (rc < 0) {
      tsr__free(paths[i]);
    } else if (n == replaced) {
      memory_let_go(n);
    } else {
      if (paths[i]) {
        tsr__free(n->path);
        n->path = paths[i];
      }
      s->nodes[kept++] = n;
    }
  }
  tsr__free(paths);
  if (rc < 0) return rc;
  s->count = kept;
  s->changes++;
  qsort(s->nodes, kept, sizeof *s->nodes, compare_nodes);
  return TSR_OK;
}

static int memory_move(tsr_store *store, const char *from, const char *to, bool exclusive, tsr_error *error) {
  memory_store *s = (memory_store *)store;
  int rc = TSR_OK;
  memory_lock(store);
  node *a = memory_find(s, from), *b = memory_find(s, to);
  if (!a) rc = tsr__fail(error, TSR_NOT_FOUND, "there is no such file");
  else if (b && exclusive) rc = tsr__fail(error, TSR_EXISTS, "something is already there");
  else if (b && (a->directory != b->directory || (b->directory && !empty(s, to))))
    rc = tsr__fail(error, TSR_EXISTS, "what is there cannot be replaced");
  else if (a != b && (rc = check_parent(s, to, error)) == TSR_OK) rc = move_nodes(s, from, to, b, error);
  memory_unlock(store);
  return rc;
}

static int memory_rename_path(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return memory_move(store, from, to, false, error);
}

static int memory_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return memory_move(store, from, to, true, error);
}

/* ---- The store ------------------------------------------------------------------------------- */

static void memory_close_store(tsr_store *store) {
  memory_store *s = (memory_store *)store;
  for (uint64_t i = 0; i < s->count; i++) memory_let_go(s->nodes[i]);
  tsr__free(s->nodes);
  pthread_mutex_destroy(&s->mutex);
  tsr__free(s);
}

static const tsr_store_methods memory_methods = {
    .close = memory_close_store,
    .open_file = memory_open_file,
    .close_file = memory_close_file,
    .read_at = memory_read_at,
    .list = memory_list,
    .stamp = memory_stamp_directory,
    .modified = memory_modified,
    .create_exclusive = memory_create_exclusive,
    .append = memory_append,
    .sync = memory_sync_file,
    .sync_directory = memory_sync_directory,
    .rename = memory_rename_path,
    .rename_exclusive = memory_rename_exclusive,
    .remove = memory_remove_path,
    .make_directory = memory_make_directory,
    .lock = memory_lock_file,
    .locked = memory_is_locked,
};

int tsr__store_memory_open(tsr_memory *memory, const char *name, tsr_store **store, tsr_error *error) {
  void *block;
  TSR_TRY(tsr__store_allocate(&memory_methods, memory, name, sizeof(memory_store), &block, error));
  memory_store *s = block;
  s->base.workers_may_read = true;
  pthread_mutex_init(&s->mutex, NULL);
  node *root;
  int rc = add_node(s, "", true, &root, error);
  if (rc < 0) memory_close_store(&s->base);
  else *store = &s->base;
  return rc;
}
