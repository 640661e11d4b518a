/* tiny_array.h: writes the files of tiny arrays byte by byte, for tests of modules above the decoders. An array has one
 * int32 dimension "x" from 0 to 99 with extent 10, capacity 5, and any attributes; its fragments are footers without
 * data. */
#ifndef TINY_ARRAY_H
#define TINY_ARRAY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "format/condition.h"
#include "counted_memory.h"

typedef struct tiny_attribute {
  const char *name;
  tsr_datatype datatype;
  bool nullable;
  const char *enumeration; /* the enumeration's name, or NULL; its file is called so with _0 appended */
} tiny_attribute;

static inline void tiny_put(tsr_store *store, const char *path, const void *bytes, uint64_t size) {
  tsr_file *file;
  char directory[256];
  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    memcpy(directory, path, (size_t)(slash - path));
    directory[slash - path] = '\0';
    (void)tsr__store_make_directory(store, directory, NULL);
  }
  (void)tsr__store_remove(store, path, NULL);
  assert_int_equal(tsr__store_create_exclusive(store, path, &file, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, bytes, size, NULL), TSR_OK);
  tsr__store_close_file(file);
}

static inline void tiny_text(tsr_store *store, const char *path, const char *text) {
  tiny_put(store, path, text, strlen(text));
}

static inline void tiny_u8(tsr_buffer *out, uint8_t v) { assert_int_equal(tsr__buffer_append_u8(out, v, NULL), 0); }
static inline void tiny_u32(tsr_buffer *out, uint32_t v) { assert_int_equal(tsr__buffer_append_u32(out, v, NULL), 0); }
static inline void tiny_u64(tsr_buffer *out, uint64_t v) { assert_int_equal(tsr__buffer_append_u64(out, v, NULL), 0); }
static inline void tiny_bytes(tsr_buffer *out, const void *bytes, uint64_t size) {
  assert_int_equal(tsr__buffer_append(out, bytes, size, NULL), 0);
}
static inline void tiny_name(tsr_buffer *out, const char *name) {
  tiny_u32(out, (uint32_t)strlen(name));
  tiny_bytes(out, name, strlen(name));
}
static inline void tiny_no_filters(tsr_buffer *out) {
  tiny_u32(out, 65536);
  tiny_u32(out, 0);
}

/* Appends a generic tile of one chunk without filters. */
static inline void tiny_generic(tsr_buffer *out, const tsr_buffer *content) {
  tiny_u32(out, 22);
  tiny_u64(out, 20 + content->size);
  tiny_u64(out, content->size);
  tiny_u8(out, TSR_CHAR);
  tiny_u64(out, 1);
  tiny_u8(out, 0);
  tiny_u32(out, 8);
  tiny_no_filters(out);
  tiny_u64(out, 1);
  tiny_u32(out, (uint32_t)content->size);
  tiny_u32(out, (uint32_t)content->size);
  tiny_u32(out, 0);
  tiny_bytes(out, content->data, content->size);
}

static inline void tiny_put_generic(tsr_store *store, const char *path, tsr_buffer *content) {
  tsr_buffer stored = {.memory = content->memory};
  tiny_generic(&stored, content);
  tiny_put(store, path, stored.data, stored.size);
  tsr__buffer_release(&stored);
}

static inline void tiny_schema(tsr_store *store, const char *path, bool dense, uint32_t count,
                               const tiny_attribute *attributes) {
  static const uint8_t zeros[16];
  const int32_t domain[2] = {0, 99}, extent = 10;
  tsr_buffer b = {.memory = store->memory};
  tiny_u32(&b, 22);
  tiny_u8(&b, 0);
  tiny_u8(&b, dense ? 0 : 1);
  tiny_u8(&b, TSR_ORDER_ROW);
  tiny_u8(&b, TSR_ORDER_ROW);
  tiny_u64(&b, 5);
  for (int i = 0; i < 3; i++) tiny_no_filters(&b);
  tiny_u32(&b, 1);
  tiny_name(&b, "x");
  tiny_u8(&b, TSR_INT32);
  tiny_u32(&b, 1);
  tiny_no_filters(&b);
  tiny_u64(&b, sizeof domain);
  tiny_bytes(&b, domain, sizeof domain);
  tiny_u8(&b, 0);
  tiny_bytes(&b, &extent, sizeof extent);
  tiny_u32(&b, count);
  for (uint32_t i = 0; i < count; i++) {
    tiny_name(&b, attributes[i].name);
    tiny_u8(&b, (uint8_t)attributes[i].datatype);
    tiny_u32(&b, 1);
    tiny_no_filters(&b);
    tiny_u64(&b, tsr_datatype_size(attributes[i].datatype));
    tiny_bytes(&b, zeros, tsr_datatype_size(attributes[i].datatype));
    tiny_u8(&b, attributes[i].nullable);
    tiny_u8(&b, 0);
    tiny_u8(&b, 0);
    tiny_name(&b, attributes[i].enumeration ? attributes[i].enumeration : "");
  }
  tiny_u32(&b, 0); /* labels */
  uint32_t enumerations = 0;
  for (uint32_t i = 0; i < count; i++) enumerations += attributes[i].enumeration != NULL;
  tiny_u32(&b, enumerations);
  for (uint32_t i = 0; i < count; i++) {
    char file[64];
    if (!attributes[i].enumeration) continue;
    snprintf(file, sizeof file, "%s_0", attributes[i].enumeration);
    tiny_name(&b, attributes[i].enumeration);
    tiny_name(&b, file);
  }
  tiny_u32(&b, 1); /* current domain */
  tiny_u8(&b, 1);
  tiny_put_generic(store, path, &b);
  tsr__buffer_release(&b);
}

typedef struct tiny_fragment { /* its format version, 22 or 14, is the one in its name */
  const char *name,
      *schema; /* the names of the fragment and of its schema; a leading slash: the layout before version 12 */
  uint32_t attributes;
  bool dense, times;
  int32_t low, high;
  uint64_t tiles, last_cells; /* sparse */
  const char *processed; /* the name of one delete condition that has been applied to its cells, or NULL */
} tiny_fragment;

static inline void tiny_footer(tsr_buffer *out, const tiny_fragment *f) {
  uint32_t slots = f->attributes + 2 + (f->times ? 1 : 0);
  uint32_t version = strcmp(f->name + strlen(f->name) - 3, "_14") == 0 ? 14 : 22;
  tiny_u32(out, version);
  tiny_u64(out, strlen(f->schema));
  tiny_bytes(out, f->schema, strlen(f->schema));
  tiny_u8(out, f->dense);
  tiny_u8(out, 0);
  tiny_bytes(out, &f->low, 4);
  tiny_bytes(out, &f->high, 4);
  tiny_u64(out, f->tiles);
  tiny_u64(out, f->last_cells);
  tiny_u8(out, f->times);
  if (version >= 15) tiny_u8(out, 0); /* delete metadata */
  for (uint32_t row = 0; row < 3; row++)
    for (uint32_t s = 0; s < slots; s++) tiny_u64(out, 1000); /* file sizes */
  tiny_u64(out, 0); /* R-tree */
  for (uint32_t i = 0; i < 8 * slots; i++) tiny_u64(out, 0);
  tiny_u64(out, 0); /* fragment statistics */
  if (version >= 16) tiny_u64(out, f->processed ? 8 : 0);
}

/* Writes the fragment's metadata file; the fragment is not committed. */
static inline void tiny_put_fragment(tsr_store *store, const tiny_fragment *f) {
  tsr_buffer b = {.memory = store->memory}, content = {.memory = store->memory};
  char path[256];
  tiny_u64(&b, 0); /* the footer's offsets of 0 must lie before the footer */
  if (f->processed) {
    char entry[128];
    uint64_t size = (uint64_t)snprintf(entry, sizeof entry, "__commits/%s.del", f->processed);
    tiny_u64(&content, 1);
    tiny_u64(&content, size);
    tiny_bytes(&content, entry, size);
    tiny_generic(&b, &content);
  }
  uint64_t before = b.size;
  tiny_footer(&b, f);
  tiny_u64(&b, b.size - before);
  bool old_layout = f->name[0] == '/';
  snprintf(path, sizeof path, "%s%s/__fragment_metadata.tdb", old_layout ? "" : "__fragments/", f->name + old_layout);
  tiny_put(store, path, b.data, b.size);
  tsr__buffer_release(&b);
  tsr__buffer_release(&content);
}

/* Appends the delete condition that keeps the cells with field > 5. */
static inline void tiny_condition(tsr_buffer *out, const char *field) {
  int32_t five = 5;
  tsr_buffer content = {.memory = out->memory};
  tiny_u8(&content, 1);
  tiny_u8(&content, TSR_GT);
  tiny_name(&content, field);
  tiny_u64(&content, sizeof five);
  tiny_bytes(&content, &five, sizeof five);
  tiny_generic(out, &content);
  tsr__buffer_release(&content);
}

static inline void tiny_put_delete(tsr_store *store, const char *path, const char *field) {
  tsr_buffer b = {.memory = store->memory};
  tiny_condition(&b, field);
  tiny_put(store, path, b.data, b.size);
  tsr__buffer_release(&b);
}

#endif
