/* tree.c: arrays as inputs: a list of files, each divided into pieces (fuzz.h has the bytes). */

#include <string.h>

#include "base/input.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "fuzz.h"

#define PATH_SIZE_MAX 255

void tree_read(tsr_input *in, tree *t) {
  static tree_file files[FILES_MAX]; /* there is only one tree at a time */
  *t = (tree){.flags = tsr__input_u8(in), .files = files};
  if (t->flags & TREE_ENCRYPTED) {
    const uint8_t *key = tsr__input_take(in, TSR_KEY_SIZE);
    if (key) memcpy(t->key, key, TSR_KEY_SIZE);
    t->flags |= TREE_FILTERED;
  }
  while (t->count < FILES_MAX && tsr__input_left(in) > 0 && !in->failed) {
    tree_file *file = &t->files[t->count];
    uint64_t size;
    file->path = fuzz_take(in, tsr__input_u8(in), &size);
    file->path_size = (uint8_t)size;
    pieces_read(in, &file->content);
    t->count++;
  }
}

void tree_write(const tree *t, tsr_buffer *out) {
  CHECK(tsr__buffer_append_u8(out, t->flags, NULL) == TSR_OK);
  if (t->flags & TREE_ENCRYPTED) CHECK(tsr__buffer_append(out, t->key, TSR_KEY_SIZE, NULL) == TSR_OK);
  for (uint32_t i = 0; i < t->count; i++) {
    CHECK(tsr__buffer_append_u8(out, t->files[i].path_size, NULL) == TSR_OK);
    CHECK(tsr__buffer_append(out, t->files[i].path, t->files[i].path_size, NULL) == TSR_OK);
    pieces_write(&t->files[i].content, out);
  }
}

void tree_visit(const tree *t, tsr_memory *memory, tree_visitor fn, void *argument) {
  tsr_buffer bytes = {.memory = memory};
  const style how = {t->flags & TREE_FILTERED, tree_key(t)};
  for (uint32_t i = 0; i < t->count; i++) {
    char path[PATH_SIZE_MAX + 1];
    memcpy(path, t->files[i].path ? (const char *)t->files[i].path : "", t->files[i].path_size);
    path[t->files[i].path_size] = 0;
    bytes.size = 0;
    pieces_join(&t->files[i].content, &how, &bytes);
    fn(argument, path, bytes.data, bytes.size);
  }
  tsr__buffer_release(&bytes);
}

static void store_file(void *argument, const char *path, const uint8_t *bytes, uint64_t size) {
  tsr_store *store = argument;
  tsr_file *file;
  char parent[PATH_SIZE_MAX + 1];
  size_t length = strlen(path);
  if (length > 0 && path[length - 1] == '/') { /* an empty directory */
    memcpy(parent, path, length);
    parent[length - 1] = 0;
    tsr__store_make_directory(store, parent, NULL);
    return;
  }
  for (size_t i = 1; i < length; i++) {
    if (path[i] != '/') continue;
    memcpy(parent, path, i);
    parent[i] = 0;
    tsr__store_make_directory(store, parent, NULL);
  }
  if (tsr__store_create_exclusive(store, path, &file, NULL) < 0) return;
  CHECK(tsr__store_append(file, bytes, size, NULL) == TSR_OK);
  tsr__store_close_file(file);
}

void tree_store(const tree *t, tsr_store *store) { tree_visit(t, store->memory, store_file, store); }

/* ---- Mutation --------------------------------------------------------------------------------------------------- */

static void mutate_path(tree_file *file, uint64_t *state, tsr_arena *arena) {
  void *copy;
  CHECK(tsr__arena_alloc(arena, PATH_SIZE_MAX, &copy, NULL) == TSR_OK);
  if (file->path_size) memcpy(copy, file->path, file->path_size);
  uint8_t *bytes = copy;
  if (fuzz_random(state) % 2 && file->path_size > 0) { /* changes a digit: names hold times, versions and numbers */
    uint64_t at = fuzz_random(state) % file->path_size;
    bytes[at] = (uint8_t)('0' + fuzz_random(state) % 10);
  } else {
    file->path_size = (uint8_t)LLVMFuzzerMutate(bytes, file->path_size, PATH_SIZE_MAX);
  }
  file->path = bytes;
}

static void change(tree *t, uint64_t *state, uint64_t growth, tsr_arena *arena) {
  uint64_t kind = fuzz_random(state) % 64;
  if (kind == 0) {
    t->flags ^= (uint8_t)(1 << fuzz_random(state) % 2);
    return;
  }
  if (t->count == 0) return;
  uint64_t at = fuzz_random(state) % t->count, other = fuzz_random(state) % t->count;
  if (kind == 1 && t->count > 1) { /* removes a file */
    t->files[at] = t->files[--t->count];
  } else if (kind == 2) { /* takes the content of another file */
    t->files[at].content = t->files[other].content;
  } else if (kind == 3 && t->count < FILES_MAX) { /* adds a copy under another name */
    t->files[t->count] = t->files[at];
    mutate_path(&t->files[t->count++], state, arena);
  } else if (kind == 4) {
    mutate_path(&t->files[at], state, arena);
  } else {
    pieces_mutate(&t->files[at].content, state, growth, arena);
  }
}

size_t tree_mutate(uint8_t *data, size_t size, size_t most, uint64_t *state) {
  tsr_memory memory;
  tsr_arena arena;
  tree t;
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr__arena_init(&arena, &memory);
  tsr_buffer out = {.memory = &memory};
  tsr_input in = tsr__input(data, size);
  tree_read(&in, &t);
  for (uint64_t n = 1 + fuzz_random(state) % 3; n > 0; n--) change(&t, state, most - size, &arena);
  tree_write(&t, &out);
  size_t written = out.size;
  if (written > 0 && written <= most) memcpy(data, out.data, written);
  else written = LLVMFuzzerMutate(data, size, most);
  tsr__buffer_release(&out);
  tsr__arena_release(&arena);
  return written;
}
