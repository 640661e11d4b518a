/* predicate.h: predicates on attributes, tested against tile statistics and against the cells of a column.
 *
 * tsr__tests_make turns the predicates of a request into the tests of its reader. Readers ask tsr__tests_exclude which
 * tiles need not be read, and tsr__tests_select which cells of a loaded tile pass.
 */
#ifndef TSR_PREDICATE_H
#define TSR_PREDICATE_H

#include "array/fragment.h"

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_test { /* a predicate, prepared for its attribute's datatype */
  uint32_t field;
  tsr_predicate_kind kind;
  bool nan, nat; /* NaN, or NaT, counts as null in this attribute */
  bool negated; /* TSR_PREDICATE_WITHIN: cells outside of the spans pass, null ones included */
  bool never; /* no cell passes */
  tsr_spans spans; /* TSR_PREDICATE_WITHIN */
} tsr_test;

/* Sets reader->tests from the request's predicates; the tests live in the reader's arena until its next start. Fails if
 * a predicate is not on an attribute, or compares an attribute with ranges that has no order. */
int tsr__tests_make(tsr_reader *reader, const tsr_request *request, tsr_error *error);

/* Returns true if the minimum, maximum and null count of a field of the fragment's schema can be trusted. For floats,
 * tsr__statistics_plain must be asked for each tile, too. */
bool tsr__statistics_believed(const tsr_fragment_metadata *metadata, uint32_t field);

/* Returns true if the bounds of a tile of floats can be trusted: neither NaN nor infinity nor an overflow of the sum
 * went into them. min and max point to values of the field; sum may be NULL, then the answer is false. */
bool tsr__statistics_plain(const tsr_field *field, const uint8_t *min, const uint8_t *max, const uint64_t *sum);

/* Loads the statistics of a slot: of its tiles, or, with `of_fragment`, of the whole fragment. The statistics belong
 * to the fragment. The function may close the array's open files, so no borrowed file may be in use. */
int tsr__statistics_load(tsr_array *array, tsr_fragment *fragment, uint32_t slot, bool of_fragment,
                         tsr_statistics *statistics, tsr_error *error);

/* Returns true if the statistics of a tile, which must be trustworthy, say that none of its cells passes the test.
 * `cells` is the number of cells in the tile; UINT64_MAX if unknown. */
bool tsr__test_excludes(const tsr_test *test, const tsr_field *field, const tsr_statistics *statistics, uint64_t tile,
                        uint64_t cells);

/* Returns 1 if statistics say that no cell of a tile passes all of the reader's tests, else 0; < 0: error. Loads
 * statistics: no borrowed file may be in use. */
int tsr__tests_exclude(tsr_reader *reader, uint32_t fragment, uint64_t tile, tsr_error *error);

/* Returns 1 if the statistics of the whole fragment say that none of its cells passes all tests, else 0; < 0: error.
 * Loads statistics: no borrowed file may be in use. */
int tsr__tests_exclude_fragment(tsr_reader *reader, uint32_t fragment, tsr_error *error);

/* Writes the indices of the cells that pass to `out`, and returns their number. `selection` has the `count` indices to
 * be tested; NULL: 0..count-1. `out` has room for `count` and may be the selection itself. */
uint64_t tsr__test_select(const tsr_reader *reader, const tsr_test *test, const tsr_column *column,
                          const uint32_t *selection, uint64_t count, uint32_t *out);

/* Writes the indices of the cells that pass all tests to `out`, and their number to *count, which is the number of
 * tested cells before. Index 0 is the pinned tile's cell `first`. pinned NULL: cells that were never written. Loads the
 * tested fields if they are not there. */
int tsr__tests_select(tsr_reader *reader, tsr_pinned_tile *pinned, uint64_t first, const uint32_t *selection,
                      uint64_t *count, uint32_t *out, tsr_error *error);

/* Returns 1 if some cell of the pinned tile passes all tests, else 0; < 0: error. */
int tsr__tests_any(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error);

/* Requests the fields that the tests read. */
int tsr__tests_request(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error);

/* Returns true if a cell that was never written passes all tests. */
bool tsr__tests_pass_unwritten(const tsr_reader *reader);

#endif
