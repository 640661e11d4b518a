/* predicate.h: predicates on attributes. */
#ifndef TSR_PREDICATE_H
#define TSR_PREDICATE_H

#include "array/fragment.h"

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_test { /* a predicate, made ready */
  uint32_t field;
  tsr_predicate_kind kind;
  bool nan, nat; /* NaN, NaT are nulls of this field */
  bool negated; /* TSR_PREDICATE_WITHIN */
  bool never; /* nothing passes */
  tsr_spans spans; /* TSR_PREDICATE_WITHIN */
} tsr_test;

int tsr__tests_make(tsr_reader *reader, const tsr_request *request, tsr_error *error);

/* May minimum, maximum and null count of a field of the fragment's schema be believed? Floats: the sum decides. */
bool tsr__statistics_believed(const tsr_fragment_metadata *metadata, uint32_t field);

/* Of floats: are these bounds of a tile without NaN, infinity, or a sum that stuck? */
bool tsr__statistics_plain(const tsr_field *field, const uint8_t *min, const uint8_t *max, const uint64_t *sum);

/* Of a slot's tiles, or of all of them together (`own`). No file may be in use. */
int tsr__statistics_load(tsr_array *array, tsr_fragment *fragment, uint32_t slot, bool own, tsr_statistics *statistics,
                         tsr_error *error);

/* Do believable statistics of a tile say that none of its cells pass? */
bool tsr__test_excludes(const tsr_test *test, const tsr_field *field, const tsr_statistics *statistics, uint64_t tile,
                        uint64_t cells);

/* The same of all tests of the reader: 1, 0, or < 0. Loads statistics; no file may be in use. */
int tsr__tests_exclude(tsr_reader *reader, uint32_t fragment, uint64_t tile, tsr_error *error);

/* The same of a whole fragment, by its own statistics. */
int tsr__tests_exclude_fragment(tsr_reader *reader, uint32_t fragment, tsr_error *error);

/* Keeps the cells that pass: of the selection, or of 0..count-1 where it is NULL. `out` may be the selection. */
uint64_t tsr__test_select(const tsr_reader *reader, const tsr_test *test, const tsr_column *column,
                          const uint32_t *selection, uint64_t count, uint32_t *out);

/* The same by all tests, for a pinned tile whose cells count from `first` (NULL: cells that were never written). */
int tsr__tests_select(tsr_reader *reader, tsr_pinned_tile *pinned, uint64_t first, const uint32_t *selection,
                      uint64_t *count, uint32_t *out, tsr_error *error);
int tsr__tests_any(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error); /* 1: some cell of the tile passes */
int tsr__tests_request(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error); /* the fields of the tests */
bool tsr__tests_pass_unwritten(const tsr_reader *reader); /* do all of them hold of a cell that was never written? */

#endif
