/* tree.c: the memory of trees, their comparison, and messages about their words. */
#include "query/tree.h"

#include <string.h>

#include "connection/errors.h"
#include "text/tokens.h"

typedef struct tsx_arena_block {
  struct tsx_arena_block *next;
  uint64_t room, used;
  uint64_t bytes[];
} tsx_arena_block;

void *tsx_arena_take(tsx_arena *arena, uint64_t size) {
  size = (size + 7) & ~(uint64_t)7;
  tsx_arena_block *block = arena->blocks;
  if (!block || block->room - block->used < size) {
    const uint64_t room = size > 8000 ? size : 8000;
    block = sqlite3_malloc64(sizeof *block + room);
    if (!block) return NULL;
    *block = (tsx_arena_block){.next = arena->blocks, .room = room};
    arena->blocks = block;
  }
  void *memory = (uint8_t *)block->bytes + block->used;
  block->used += size;
  return memset(memory, 0, size);
}

char *tsx_arena_copy(tsx_arena *arena, const char *text, uint64_t size) {
  char *copy = tsx_arena_take(arena, size + 1);
  if (copy) memcpy(copy, text, size);
  return copy;
}

void tsx_arena_free(tsx_arena *arena) {
  for (tsx_arena_block *block = arena->blocks, *next; block; block = next) {
    next = block->next;
    sqlite3_free(block);
  }
  arena->blocks = NULL;
}

void tsx_select_free(tsx_select *select) {
  tsx_arena_free(&select->arena);
  *select = (tsx_select){0};
}

#define WORDS_SHOWN 100

int tsx_expr_fail(const tsx_select *select, const char *begin, const char *end, const char *what, const char *advice,
                  tsr_error *error) {
  uint64_t characters = 1;
  for (const char *p = select->text; p < begin; p++) characters += ((unsigned char)*p & 0xc0) != 0x80;
  int size = (int)(end - begin);
  const bool cut = end - begin > WORDS_SHOWN;
  if (cut) {
    size = WORDS_SHOWN;
    while (size > 1 && ((unsigned char)begin[size] & 0xc0) == 0x80) size--;
  }
  return tsx_fail(error, TSR_ERROR, "%s'%.*s%s' (character %llu)%s%s", what, size, begin, cut ? "..." : "",
                  (unsigned long long)characters, *advice ? ": " : "", advice);
}

const tsx_expr *tsx_expr_likely(const tsx_expr *tree) {
  while (tree->kind == TSX_EXPR_FUNCTION && (!strcmp(tree->name, "likely") || !strcmp(tree->name, "unlikely")))
    tree = tree->operands[0];
  return tree;
}

static bool same_name(const char *a, const char *b) { return a && b ? !sqlite3_stricmp(a, b) : a == b; }

/* Literals are compared as they are written. */
static bool same_words(const tsx_expr *a, const tsx_expr *b) {
  return a->end - a->begin == b->end - b->begin && !memcmp(a->begin, b->begin, (size_t)(a->end - a->begin));
}

static bool same_or_none(const tsx_expr *a, const tsx_expr *b) { return a && b ? tsx_expr_equal(a, b) : a == b; }

bool tsx_expr_equal(const tsx_expr *a, const tsx_expr *b) {
  while (a->kind == TSX_EXPR_NAME && a->alias) a = a->alias;
  while (b->kind == TSX_EXPR_NAME && b->alias) b = b->alias;
  if (a->kind != b->kind || a->count != b->count || a->operation != b->operation || a->negated != b->negated ||
      a->call.distinct != b->call.distinct || a->call.star != b->call.star || a->call.function != b->call.function)
    return false;
  if (a->kind == TSX_EXPR_LITERAL) return same_words(a, b);
  if (a->kind == TSX_EXPR_NAME || a->kind == TSX_EXPR_LABEL) return a->column == b->column;
  if (a->kind == TSX_EXPR_JOINED) return a->column == b->column && a->join == b->join;
  if (!same_name(a->name, b->name) || !same_or_none(a->base, b->base) || !same_or_none(a->call.filter, b->call.filter))
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!tsx_expr_equal(a->operands[i], b->operands[i])) return false;
  return true;
}
