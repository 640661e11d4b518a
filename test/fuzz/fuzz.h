/* fuzz.h: what the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput; libFuzzer calls it (./run fuzz), or
 * replay.c with stored inputs (under ctest). Inputs hold the bytes *under* compression, checksums and encryption: the target
 * wraps them with the project's own encoders.
 *
 * A CHECK that fails aborts the program: an input that causes it is a finding, like one that crashes.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/input.h"
#include "crypto/crypto.h"
#include "store/store.h"

#define FUZZ_MEMORY ((uint64_t)16 << 20) /* the memory budget for one input, in bytes */
#define FUZZ_INPUT  ((size_t)64 << 10) /* larger inputs are truncated to this size */

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
/* libFuzzer's mutation, which the targets' mutators call. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                        \
      abort();                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* Checks a result code: an error must have the same code, and a message. */
static inline void check_told(int code, const tsr_error *error) {
  if (code >= 0) return;
  CHECK(error->code == code);
  CHECK(error->message[0] && memchr(error->message, 0, sizeof error->message));
}

/* ---- Memory: room_close checks that all of it was freed ---- */
typedef struct room {
  tsr_memory root, memory;
  tsr_arena arena;
} room;
static inline void room_open(room *r) {
  *r = (room){0};
  tsr__memory_init_root(&r->root, NULL, NULL);
  tsr__memory_init(&r->memory, &r->root, FUZZ_MEMORY, "memory_mb");
  tsr__arena_init(&r->arena, &r->memory);
}
static inline void room_close(room *r) {
  tsr__arena_release(&r->arena);
  CHECK(r->memory.used == 0);
}

/* ---- Numbers for mutations ---- */
static inline uint64_t fuzz_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state * 0x2545f4914f6cdd1du >> 16;
}

/* Returns a copy in a block of exactly its size, so that AddressSanitizer sees a read beyond its end. */
static inline uint8_t *fuzz_exact(const void *data, uint64_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  CHECK(copy);
  if (size) memcpy(copy, data, size);
  return copy;
}

/* Reads bytes, so that AddressSanitizer checks each of them. It uses memcpy, since a loop would be instrumented for every byte. */
static inline void fuzz_touch(const void *bytes, uint64_t size) {
  static uint8_t sink[4096];
  static volatile uint8_t touched; /* keeps the compiler from removing the reads */
  for (uint64_t at = 0; at < size; at += sizeof sink) {
    memcpy(sink, (const uint8_t *)bytes + at, TSR_MIN(size - at, sizeof sink));
    touched = (uint8_t)(touched + sink[0]);
  }
}

/* Takes at most so many bytes from the rest of the input; *size is their number. */
static inline const uint8_t *fuzz_take(tsr_input *in, uint64_t most, uint64_t *size) {
  *size = in->failed ? 0 : TSR_MIN(most, tsr__input_left(in));
  return tsr__input_take(in, *size);
}

/* ---- pieces.c: the bytes of one stored file in an input -------------------------------------------------------------
 *
 *   u8 number of pieces (0: one raw piece, the rest of the input), then for each
 *     u8 kind    0 raw bytes; 1 a generic tile
 *     u32 size   limited to the rest of the input
 *     of a tile: u8 version, u32 its offset in the file from which the input was made
 *     bytes      the content of the tile
 *
 * When the pieces are joined, generic tiles get their headers and, depending on `style`, filters and encryption. If a tile's
 * offset changes, each u64 of the last raw piece (the footer of fragment metadata) that equals the old offset is replaced by
 * the new one: so contents may grow and shrink, and are still found.
 */
#define PIECES_MAX 64
typedef struct piece {
  uint8_t kind, version;
  uint32_t place;
  const uint8_t *bytes;
  uint32_t size;
} piece;
typedef struct pieces {
  uint32_t count;
  piece items[PIECES_MAX];
} pieces;
typedef struct style {
  bool filtered; /* tiles have the filter gzip, as TileDB writes them; otherwise no filters */
  const uint8_t *key; /* if filtered, tiles are also encrypted with this key; or NULL */
} style;
void pieces_read(tsr_input *in, pieces *p);
void pieces_write(const pieces *p, tsr_buffer *out);
void pieces_join(const pieces *p, const style *how, tsr_buffer *out);
/* Divides a file into pieces. The contents of tiles are allocated from `arena`. */
void pieces_cut(const uint8_t *bytes, uint64_t size, const uint8_t *key, tsr_arena *arena, pieces *p);
/* Changes one of the pieces. New contents are allocated from `arena`. */
void pieces_mutate(pieces *p, uint64_t *state, uint64_t growth, tsr_arena *arena);
void pieces_generic_tile(const uint8_t *content, uint64_t size, uint8_t version, const style *how, tsr_buffer *out);

/* ---- tree.c: an array -----------------------------------------------------------------------------------------------
 *
 *   u8 flags      bit 0: metadata is filtered; bit 1: metadata is also encrypted, with the key that follows (32 bytes);
 *                 the other bits are flags of the target
 *   then files    u8 size of the path, path, pieces
 */
#define FILES_MAX 96
typedef struct tree_file {
  const uint8_t *path;
  uint8_t path_size;
  pieces content;
} tree_file;
typedef struct tree {
  uint8_t flags;
  uint8_t key[TSR_KEY_SIZE];
  uint32_t count;
  tree_file *files; /* room for FILES_MAX; static memory of tree.c */
} tree;
#define TREE_FILTERED  1
#define TREE_ENCRYPTED 2
void tree_read(tsr_input *in, tree *t); /* overwrites the files of the tree that was read before */
void tree_write(const tree *t, tsr_buffer *out);
static inline const uint8_t *tree_key(const tree *t) { return t->flags & TREE_ENCRYPTED ? t->key : NULL; }
/* Calls fn for each file with its stored bytes. Paths may hold any bytes. */
typedef void (*tree_visitor)(void *argument, const char *path, const uint8_t *bytes, uint64_t size);
void tree_visit(const tree *t, tsr_memory *memory, tree_visitor fn, void *argument);
/* Writes the files to a store, except those with invalid paths. */
void tree_store(const tree *t, tsr_store *store);
size_t tree_mutate(uint8_t *data, size_t size, size_t most, uint64_t *state);

#endif
