/* store_host.c: a store whose files the host keeps. Each method calls the host's callback (tsr_host_store in
 * tessera_host.h). Only the environment's thread may call them, so workers neither read nor sync in such a store.
 */
#include "store/store.h"

typedef struct host_store {
  tsr_store base;
  const tsr_host_store *host;
  void *tree;
  tsr_path below; /* the store's root within the tree; "": the tree's root */
} host_store;

typedef struct host_file {
  tsr_file base;
  void *file; /* the host's handle, owned */
} host_file;

static const tsr_host_store *host_of(const tsr_store *store) { return ((const host_store *)store)->host; }
static void *tree_of(const tsr_store *store) { return ((const host_store *)store)->tree; }

/* Converts a path of the store to a path of the tree. */
static tsr_path in_tree(const tsr_store *store, const char *path) {
  const char *below = ((const host_store *)store)->below.text;
  return !*path ? ((const host_store *)store)->below : tsr__path_of(below, path, "");
}

/* Returns the host's code if it is an error, and TSR_OK for every other value. */
static int code_of(int rc) { return rc < 0 ? rc : TSR_OK; }

static void host_close_store(tsr_store *store) {
  host_of(store)->close(tree_of(store));
  tsr__free(store);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int open_either(tsr_store *store, const char *path, bool create, tsr_file **file, tsr_error *error) {
  void *memory;
  TSR_TRY(tsr__file_allocate(store, path, sizeof(host_file), &memory, error));
  host_file *f = memory;
  int rc = create
               ? host_of(store)->create_exclusive(tree_of(store), in_tree(store, path).text, &f->file, error)
               : host_of(store)->open_file(tree_of(store), in_tree(store, path).text, &f->file, &f->base.size, error);
  if (rc < 0) {
    tsr__free(f);
    return rc;
  }
  *file = &f->base;
  return TSR_OK;
}

static int host_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  return open_either(store, path, false, file, error);
}

static int host_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  return open_either(store, path, true, file, error);
}

static void host_close_file(tsr_file *file) {
  host_of(file->store)->close_file(((host_file *)file)->file);
  tsr__free(file);
}

static int host_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  return code_of(host_of(file->store)->read_at(((host_file *)file)->file, offset, buffer, size, error));
}

static int host_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  TSR_TRY(host_of(file->store)->append(((host_file *)file)->file, bytes, size, error));
  file->size += size;
  return TSR_OK;
}

static int host_sync_file(tsr_file *file, tsr_error *error) {
  return code_of(host_of(file->store)->sync(((host_file *)file)->file, error));
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int host_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  return code_of(host_of(store)->list(tree_of(store), in_tree(store, path).text, listing, error));
}

static int host_stamp_directory(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  uint64_t number;
  TSR_TRY(host_of(store)->stamp(tree_of(store), in_tree(store, path).text, &number, error));
  *stamp = (tsr_stamp){.known = true, .a = number};
  return TSR_OK;
}

static int host_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  return code_of(host_of(store)->modified(tree_of(store), in_tree(store, path).text, milliseconds, error));
}

static int host_sync_directory(tsr_store *store, const char *path, tsr_error *error) { return TSR_OK; }

static int host_rename_path(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return code_of(
      host_of(store)->rename(tree_of(store), in_tree(store, from).text, in_tree(store, to).text, false, error));
}

static int host_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return code_of(
      host_of(store)->rename(tree_of(store), in_tree(store, from).text, in_tree(store, to).text, true, error));
}

static int host_remove_path(tsr_store *store, const char *path, tsr_error *error) {
  return code_of(host_of(store)->remove(tree_of(store), in_tree(store, path).text, error));
}

static int host_make_directory(tsr_store *store, const char *path, tsr_error *error) {
  return code_of(host_of(store)->make_directory(tree_of(store), in_tree(store, path).text, error));
}

/* ---- The store ------------------------------------------------------------------------------- */

static const tsr_store_methods host_methods = {
    .close = host_close_store,
    .open_file = host_open_file,
    .close_file = host_close_file,
    .read_at = host_read_at,
    .list = host_list,
    .stamp = host_stamp_directory,
    .modified = host_modified,
    .create_exclusive = host_create_exclusive,
    .append = host_append,
    .sync = host_sync_file,
    .sync_directory = host_sync_directory,
    .rename = host_rename_path,
    .rename_exclusive = host_rename_exclusive,
    .remove = host_remove_path,
    .make_directory = host_make_directory,
};

int tsr__store_host_open(tsr_memory *memory, const tsr_host_store *host, void *argument, const char *path,
                         const char *below, tsr_store **store, tsr_error *error) {
  void *block;
  TSR_TRY(tsr__store_allocate(&host_methods, memory, path, sizeof(host_store), &block, error));
  host_store *s = block; /* workers_may_read stays false */
  s->base.is_one_file = true;
  s->host = host;
  if (below) s->below = tsr__path_of("", below, "");
  int rc = host->open(argument, path, &s->tree, error);
  if (rc < 0) {
    tsr__free(s);
    return rc;
  }
  *store = &s->base;
  return TSR_OK;
}
