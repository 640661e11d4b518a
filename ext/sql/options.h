/* options.h: the options that a table or a function accepts, as a list of names with types and limits. All options are
 * read here, from JSON or from CREATE VIRTUAL TABLE: so an unknown name, a repeated one and a bad value have the same
 * wording everywhere, and an option that several places share has the same limits. */
#ifndef TSX_OPTIONS_H
#define TSX_OPTIONS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "sql/json.h"

typedef enum tsx_option_kind {
  TSX_TAKES_ANY, /* the taker checks the value itself: a time, a list, an object */
  TSX_TAKES_WHOLE, /* an integer from `least` to `most` */
  TSX_TAKES_ABOVE, /* a number above `least`, up to `most` */
  TSX_TAKES_NUMBER, /* a number from `least` to `most` */
  TSX_TAKES_FLAG, /* true or false */
  TSX_TAKES_WORD, /* one of `words`, in any case */
  TSX_TAKES_TEXT
} tsx_option_kind;

typedef struct tsx_option_spec {
  const char *name;
  tsx_option_kind kind;
  int64_t least, most;
  const char *const *words; /* ends with NULL */
} tsx_option_spec;

/* Words of a list; use at file scope, where they last. */
#define TSX_WORDS(...)    ((const char *const[]){__VA_ARGS__, NULL})
#define TSX_MEGABYTES_MAX ((int64_t)1 << 40)
#define TSX_THREADS_MAX   256
#define TSX_SPEC_MEMORY_MB                                                                                             \
  { "memory_mb", TSX_TAKES_WHOLE, 1, TSX_MEGABYTES_MAX, NULL }
#define TSX_SPEC_CACHE_MB                                                                                              \
  { "cache_mb", TSX_TAKES_WHOLE, 0, TSX_MEGABYTES_MAX, NULL }
#define TSX_SPEC_THREADS                                                                                               \
  { "threads", TSX_TAKES_WHOLE, 1, TSX_THREADS_MAX, NULL }

typedef struct tsx_option_list {
  const tsx_option_spec *specs;
  unsigned count; /* at most 64 */
  uint64_t without; /* bit i: option i does not exist in this call */
} tsx_option_list;

#define TSX_OPTION_LIST(specs)                                                                                         \
  { (specs), sizeof(specs) / sizeof *(specs), 0 }

typedef struct tsx_option_value { /* valid during the call that receives it */
  int64_t whole; /* of a WHOLE; of a FLAG: 0 or 1; of a WORD: its index in `words` */
  double number; /* of a NUMBER, an ABOVE, a WHOLE */
  const char *text; /* of a TEXT, without NULs */
  const tsx_json_option *json; /* the member of a JSON object, or NULL */
} tsx_option_value;

/* Finds an option by its name, in any case if `any_case`. Bit i of *seen: option i was found before; sets it. TSR_ERROR
 * if there is no such option (the message lists the existing ones, or names the one that has `name` among its words),
 * or if it was found before. */
int tsx_option_find(const tsx_option_list *list, const char *name, size_t size, bool any_case, uint64_t *seen,
                    unsigned *option, tsr_error *error);

/* Returns the name of the only option that takes `name` as one of its words, in any case; NULL if none does, or
 * several. */
const char *tsx_option_of_word(const tsx_option_list *list, const char *name, size_t size);

/* Read a value: tsx_option_of_flat a member of an object that may hold secrets, which no message quotes;
 * tsx_option_of_text unquoted text of CREATE VIRTUAL TABLE (TSR_ERROR if it is wrong). TSR_MISMATCH: a value of another
 * kind; TSR_RANGE: a number outside of the limits. */
int tsx_option_of_flat(const tsx_option_spec *spec, const tsx_flat_member *member, tsx_option_value *value,
                       tsr_error *error);
int tsx_option_of_text(const tsx_option_spec *spec, const char *text, tsx_option_value *value, tsr_error *error);

/* Receives an option by its index in the list. Any code but TSR_OK ends the reading. */
typedef int (*tsx_option_taker)(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error);

/* Reads all members of a JSON object. `json` NULL or an SQL NULL means no options. A member that is null counts as
 * absent. */
int tsx_options_read(sqlite3 *db, sqlite3_value *json, const tsx_option_list *list, tsx_option_taker take,
                     void *argument, tsr_error *error);

#endif
