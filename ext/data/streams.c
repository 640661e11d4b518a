/* streams.c: Arrow streams that pass between SQL and C, and the library's C interface for them (tessera_api).
 *
 * tessera_stream(path) opens a stream over an array and returns a token. No address ever passes through SQL:
 * tessera_api()->take redeems the token for the stream, once. In the other direction C puts a stream in and gets a
 * token, which tessera_create_stream redeems. A lent stream reads through the connection that made it, so restrictions,
 * keys and scopes hold, and arrays in the database can be streamed. Consumers may call get_next on any thread: each
 * call holds the connection's mutex, so it waits while a statement is running.
 *
 * There are three locks, taken in this order: the connection's mutex, the lock of its link (tsx_stream_link), the mutex
 * of the waiting streams.
 * - The link tells a stream whether its connection is still open. Closing the connection locks the link while it holds
 *   the connection's mutex. A stream must lock the link first, to learn whether there is a connection at all. So with
 *   the link locked, it only tries the connection's mutex; on failure it unlocks the link, and retries later.
 * - release never waits: a host's garbage collector may call it while it holds locks that the running statement waits
 *   for. If the connection is busy, the stream is only marked as released, and whoever holds the connection next frees
 *   it (stream_sweep).
 *
 * Sections: joining streams, waiting streams, links, the arguments of tessera_stream (columns and order, conditions,
 * options), lent streams, the C interface, SQL functions, tessera_create_stream. */
#define _GNU_SOURCE /* dladdr */

#include "data/data.h"

#include <string.h>
#include <pthread.h>
#include <time.h>

#include "connection/sqlite_api.h"
#include "connection/errors.h"
#include "call/lend.h"
#include "sql/json.h"
#include "sql/options.h"
#include "sql/names.h"
#include "values/compare.h"
#include "values/slice.h"
#include "table/table.h"
#include "data/ingest.h"

/* ---- Joining streams --------------------------------------------------------------------------------------------- */

#define JOIN_MAX 1000000u /* streams; Python joins at most a thousand */

typedef struct joined_stream { /* private_data */
  uint64_t count, at; /* `at`: the current stream */
  struct ArrowArrayStream *streams[]; /* owned */
} joined_stream;

static struct ArrowArrayStream *join_current(struct ArrowArrayStream *stream) {
  const joined_stream *joined = stream->private_data;
  return joined->streams[joined->at];
}

static int join_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  struct ArrowArrayStream *one = join_current(stream);
  return one->get_schema(one, out);
}

static int join_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  joined_stream *joined = stream->private_data;
  while (true) {
    struct ArrowArrayStream *one = join_current(stream);
    const int code = one->get_next(one, out);
    if (code != 0 || out->release || joined->at + 1 == joined->count) return code;
    joined->at++;
  }
}

static const char *join_last_error(struct ArrowArrayStream *stream) {
  struct ArrowArrayStream *one = join_current(stream);
  return one->get_last_error(one);
}

static void join_release(struct ArrowArrayStream *stream) {
  joined_stream *joined = stream->private_data;
  for (uint64_t i = 0; i < joined->count; i++) {
    if (joined->streams[i]->release) joined->streams[i]->release(joined->streams[i]);
    sqlite3_free(joined->streams[i]);
  }
  sqlite3_free(joined);
  stream->private_data = NULL;
  stream->release = NULL;
}

/* tessera_functions.join: makes *out the concatenation of `count` streams, at least one, which are on the heap
 * (take_new) and have the same schema; for example the parts of an array that a list of coordinates selects. *out owns
 * the streams and frees them when it is released. Returns false if memory is exhausted; the streams stay the
 * caller's. */
static bool streams_join(struct ArrowArrayStream *const *streams, uint64_t count, struct ArrowArrayStream *out) {
  joined_stream *joined =
      count > 0 && count <= JOIN_MAX ? sqlite3_malloc64(sizeof *joined + count * sizeof *streams) : NULL;
  if (!joined) return false;
  joined->count = count;
  joined->at = 0;
  memcpy(joined->streams, streams, count * sizeof *streams);
  *out = (struct ArrowArrayStream){.get_schema = join_get_schema,
                                   .get_next = join_get_next,
                                   .get_last_error = join_last_error,
                                   .release = join_release,
                                   .private_data = joined};
  return true;
}

/* ---- Waiting streams --------------------------------------------------------------------------------------------- */

/* Streams whose tokens were not redeemed yet, in both directions: from SQL to C, and from C to SQL. */

typedef struct waiting_stream {
  struct waiting_stream *next;
  struct ArrowArrayStream stream;
  const void *owner;
  char token[TESSERA_TOKEN_SIZE];
} waiting_stream;

static pthread_mutex_t waiting_mutex = PTHREAD_MUTEX_INITIALIZER;
static waiting_stream *waiting_streams;

int tsx_tokens_put(struct ArrowArrayStream *stream, const void *owner, char token[TESSERA_TOKEN_SIZE],
                   tsr_error *error) {
  unsigned count = 0;
  waiting_stream *made = sqlite3_malloc64(sizeof *made);
  if (!made) return tsx_out_of_memory(error);
  tsx_token_make(token);
  *made = (waiting_stream){.stream = *stream, .owner = owner};
  memcpy(made->token, token, sizeof made->token);
  pthread_mutex_lock(&waiting_mutex);
  for (const waiting_stream *s = waiting_streams; s; s = s->next) count += s->owner == owner;
  const bool room = count < TSX_STREAM_TOKENS_MAX;
  if (room) {
    made->next = waiting_streams;
    waiting_streams = made;
    stream->release = NULL; /* the stream has moved */
  }
  pthread_mutex_unlock(&waiting_mutex);
  if (room) return TSR_OK;
  sqlite3_free(made);
  return tsx_fail(error, TSR_TOOBIG, "%d streams of this connection have not been read yet", TSX_STREAM_TOKENS_MAX);
}

/* Removes and returns the stream of a token, or if `token` is NULL any stream of the owner. */
static bool waiting_take(const char *token, const void *owner, struct ArrowArrayStream *stream) {
  waiting_stream *found = NULL;
  pthread_mutex_lock(&waiting_mutex);
  for (waiting_stream **at = &waiting_streams; *at && !found;) {
    if (token ? strcmp((*at)->token, token) == 0 : (*at)->owner == owner) {
      found = *at;
      *at = found->next;
    } else {
      at = &(*at)->next;
    }
  }
  pthread_mutex_unlock(&waiting_mutex);
  if (found) *stream = found->stream;
  sqlite3_free(found);
  return found != NULL;
}

/* Moves the stream of a token to *stream. Returns false if there is none. */
static bool tokens_take(const char *token, struct ArrowArrayStream *stream) {
  return token && waiting_take(token, NULL, stream);
}

/* Moves any stream of an owner to *stream. Returns false if there is none. */
static bool tokens_take_owned(const void *owner, struct ArrowArrayStream *stream) {
  return waiting_take(NULL, owner, stream);
}

/* ---- Links ------------------------------------------------------------------------------------------------------- */

#define LINK_WAIT_NS 50000 /* between two attempts to lock the connection's mutex */

tsx_stream_link *tsx_stream_link_make(tsx_connection *connection) {
  tsx_stream_link *link = sqlite3_malloc64(sizeof *link);
  if (!link) return NULL;
  memset(link, 0, sizeof *link);
  atomic_init(&link->references, 1);
  link->connection = connection;
  if (pthread_mutex_init(&link->lock, NULL) == 0) return link;
  sqlite3_free(link);
  return NULL;
}

void tsx_stream_link_drop(tsx_stream_link *link) {
  if (atomic_fetch_sub(&link->references, 1) > 1) return;
  pthread_mutex_destroy(&link->lock);
  sqlite3_free(link);
}

int tsx_stream_link_enter(tsx_stream_link *link, bool wait) {
  while (true) {
    if (wait) pthread_mutex_lock(&link->lock);
    else if (pthread_mutex_trylock(&link->lock) != 0) return -1;
    if (!link->connection) return 0;
    if (sqlite3_mutex_try(sqlite3_db_mutex(link->connection->db)) == SQLITE_OK) return 1;
    pthread_mutex_unlock(&link->lock);
    if (!wait) return -1;
    nanosleep(&(struct timespec){.tv_nsec = LINK_WAIT_NS}, NULL);
  }
}

/* ---- The arguments of tessera_stream ----------------------------------------------------------------------------- */

static uint32_t stream_field_count(const tsx_stream_request *r) {
  return r->schema->dimension_count + r->schema->attribute_count;
}

/* Finds a field by name among first..end - 1. */
static int stream_find(const tsx_stream_request *r, uint32_t first, uint32_t end, sqlite3_value *name, const char *what,
                       uint32_t *field, tsr_error *error) {
  const char *text = (const char *)sqlite3_value_text(name);
  for (*field = first; text && *field < end; ++*field)
    if (sqlite3_stricmp(r->names[*field], text) == 0) return TSR_OK;
  return tsx_names_fail(r->names, first, end, error, "array %.200s has no %s '%.64s'", r->array, what,
                        text ? text : "");
}

/* ---- Columns and order ------------------------------------------------------------------------------------------- */

static void stream_labels_free(tsx_stream_labels *labels) {
  for (uint32_t i = 0; i < labels->count; i++) tsr_label_close((tsr_label_index *)(uintptr_t)labels->list[i].argument);
  sqlite3_free(labels->list);
  *labels = (tsx_stream_labels){0};
}

static bool find_label_cell(const void *index, const void *coordinate, uint64_t *cell) {
  return tsr_label_cell(index, coordinate, cell);
}

/* Reads label `number` of the schema, and adds it to the columns. */
static int stream_add_label(tsx_stream_request *r, uint32_t number, tsr_error *error) {
  tsx_stream_labels *labels = &r->labels;
  const tsr_label *label = &r->schema->labels[number];
  tsr_label_index *index;
  for (uint32_t i = 0; i < labels->count; i++)
    if (labels->list[i].name == label->name)
      return tsx_fail(error, TSR_ERROR, "'columns' names '%.64s' twice", label->name);
  TSX_TRY(tsr_label_open(r->source.array, r->schema, number, r->source.memory_bytes, &index, error));
  const int code = tsr_label_read(index, r->source.since, r->source.as_of, error);
  if (code < 0) {
    tsr_label_close(index);
    return code;
  }
  labels->list[labels->count++] = (tsr_arrow_label){.name = label->name,
                                                    .dimension = label->dimension,
                                                    .field = tsr_label_field(index),
                                                    .cells = tsr_label_cells(index),
                                                    .find = find_label_cell,
                                                    .argument = index};
  return TSR_OK;
}

/* Finds a label by name. */
static bool stream_find_label(const tsx_stream_request *r, sqlite3_value *name, uint32_t *number) {
  const char *text = (const char *)sqlite3_value_text(name);
  for (*number = 0; text && *number < r->schema->label_count; ++*number)
    if (sqlite3_stricmp(r->schema->labels[*number].name, text) == 0) return true;
  return false;
}

static int read_column(void *argument, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = argument;
  const uint32_t all = stream_field_count(r);
  uint32_t field, label;
  tsr_error unknown = {0};
  if (r->options.field_count == all + r->schema->label_count)
    return tsx_fail(error, TSR_ERROR, "'columns' names a column twice: the array has %u", r->options.field_count);
  if (stream_find(r, 0, all, o->value, "column", &field, &unknown) < 0) {
    if (!stream_find_label(r, o->value, &label)) return *error = unknown, unknown.code;
    TSX_TRY(stream_add_label(r, label, error));
    field = all + r->labels.count - 1;
    r->options.label_count = r->labels.count;
  }
  for (uint32_t i = 0; i < r->options.field_count; i++)
    if (r->fields[i] == field) return tsx_fail(error, TSR_ERROR, "'columns' names '%.64s' twice", r->names[field]);
  r->fields[r->options.field_count++] = field;
  return TSR_OK;
}

typedef struct stream_entry { /* the elements of one [column, ...] */
  tsx_stream_request *request;
  int count;
  uint32_t field;
  tsx_op operation;
} stream_entry;

static int read_order_part(void *argument, const tsx_json_option *o, tsr_error *error) {
  stream_entry *list = argument;
  tsx_stream_request *r = list->request;
  const char *text = (const char *)sqlite3_value_text(o->value);
  tsr_sort *sort = &r->order[r->request.order_count];
  if (list->count++ == 0) {
    const int code = stream_find(r, 0, r->schema->dimension_count, o->value, "dimension", &sort->dimension, error);
    sort->descending = false;
    return code;
  }
  sort->descending = text && sqlite3_stricmp(text, "desc") == 0;
  if (list->count == 2 && text && (sort->descending || sqlite3_stricmp(text, "asc") == 0)) return TSR_OK;
  return tsx_fail(error, TSR_MISMATCH, "'order': expected [[dimension, \"asc\" or \"desc\"], ...]");
}

static int read_order(void *argument, const tsx_json_option *o, tsr_error *error) {
  stream_entry list = {.request = argument};
  tsx_stream_request *r = argument;
  if (r->request.order_count == r->schema->dimension_count)
    return tsx_fail(error, TSR_ERROR, "'order' has more entries than the array has dimensions");
  if (strcmp(o->type, "text") == 0) TSX_TRY(read_order_part(&list, o, error));
  else
    TSX_TRY(tsx_elements_each(r->db, o->value, "'order': expected [[dimension, direction], ...]", read_order_part,
                              &list, error));
  if (list.count == 0) return tsx_fail(error, TSR_MISMATCH, "'order': an entry is empty");
  r->request.order_count++;
  return TSR_OK;
}

/* ---- Conditions -------------------------------------------------------------------------------------------------- */

/* Adds a range to a condition. Takes ownership of `bytes`, also on failure. */
static int add_range(tsx_stream_condition *c, tsr_range range, uint8_t *bytes, tsr_error *error) {
  if (c->count == c->room) {
    const uint64_t room = c->room ? 2 * c->room : 1;
    tsr_range *ranges = sqlite3_realloc64(c->ranges, room * sizeof *ranges);
    if (ranges) c->ranges = ranges;
    uint8_t **values = ranges ? sqlite3_realloc64(c->values, room * sizeof *values) : NULL;
    if (values) c->values = values;
    if (!values) {
      sqlite3_free(bytes);
      return tsx_out_of_memory(error);
    }
    c->room = room;
  }
  c->ranges[c->count] = range;
  c->values[c->count++] = bytes;
  return TSR_OK;
}

/* Returns the range of the values that satisfy a comparison. */
static tsr_range range_of(tsx_op op, const uint8_t *bytes, uint64_t size) {
  return (tsr_range){.low = op == TSX_EQ || op == TSX_GT || op == TSX_GE ? bytes : NULL,
                     .high = op == TSX_EQ || op == TSX_LT || op == TSX_LE ? bytes : NULL,
                     .low_size = size,
                     .high_size = size,
                     .low_exclusive = op == TSX_GT,
                     .high_exclusive = op == TSX_LT};
}

/* Finds the codes whose UINT64 labels satisfy a comparison with an integer, which may exceed INT64. Returns 1; 0 if the
 * labels are not UINT64 or `o` is not such a value. */
static int find_unsigned(const tsx_column *column, tsx_op op, const tsx_json_option *o, tsx_codes *codes,
                         tsr_error *error) {
  const bool integer = strcmp(o->type, "integer") == 0 && *o->text != '-', text = strcmp(o->type, "text") == 0;
  uint8_t *bytes;
  uint64_t size;
  if (column->enumeration->datatype != TSR_UINT64 || op == TSX_NOTNULL || (!integer && !text)) return 0;
  TSX_TRY(tsx_option_convert(o, TSR_UINT64, &bytes, &size, error));
  const tsr_range range = range_of(op, bytes, size);
  const int result = tsx_codes_within(column, &range, codes);
  sqlite3_free(bytes);
  return result == SQLITE_OK ? 1 : tsx_out_of_memory(error);
}

/* Finds the codes of the labels that satisfy a comparison. */
static int find_codes(const tsx_column *column, tsx_op op, const tsx_json_option *o, tsx_codes *codes,
                      tsr_error *error) {
  const int found = find_unsigned(column, op, o, codes, error);
  if (found < 0) return found;
  if (op != TSX_NOTNULL && !found) {
    if (!tsx_codes_possible(column))
      return tsx_fail(error, TSR_UNSUPPORTED, "'where': the labels of '%.64s' are neither text nor numbers",
                      column->name);
    const bool text = sqlite3_value_type(o->value) == SQLITE_TEXT;
    if (text != (column->value_form == TSX_TEXT))
      return tsx_fail(error, TSR_MISMATCH, "'where': the labels of '%.64s' are %s, and it is compared with %s",
                      column->name, text ? "numbers" : "text", text ? "text" : "a number");
  }
  if (!found && tsx_codes_add(column, op, false, false, o->value, 0, codes) != SQLITE_OK)
    return tsx_out_of_memory(error);
  if (codes->everything)
    return tsx_fail(error, TSR_RANGE, "'where': no label of '%.64s' can be compared with this value", column->name);
  return TSR_OK;
}

static int add_codes(tsx_stream_condition *c, const tsx_codes *codes, tsr_error *error) {
  for (uint64_t i = 0; i < codes->count; i++) {
    uint8_t *bytes = sqlite3_malloc(sizeof codes->ranges[i]);
    if (!bytes) return tsx_out_of_memory(error);
    memcpy(bytes, codes->ranges[i], sizeof codes->ranges[i]); /* little-endian: the code is in the low bytes */
    TSX_TRY(add_range(c, (tsr_range){.low = bytes, .high = bytes + sizeof codes->ranges[i][0]}, bytes, error));
  }
  return TSR_OK;
}

/* Adds the codes whose labels satisfy a comparison; with TSX_NOTNULL, the codes of all labels, and `o` is unused. */
static int add_labels(stream_entry *list, tsx_op op, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = list->request;
  tsx_column column = {.name = r->names[list->field], .field = list->field};
  const tsr_enumeration *enumeration;
  tsx_codes codes = {0};
  const tsr_field *field = &r->schema->fields[list->field];
  TSX_TRY(tsr_array_enumeration(r->core, r->schema, field->enumeration, &enumeration, error));
  tsx_column_choose(field, enumeration, &(tsx_option_shows){0}, &column);
  int code = find_codes(&column, op, o, &codes, error);
  if (code >= 0) code = add_codes(&r->conditions[r->request.predicate_count], &codes, error);
  sqlite3_free(codes.ranges);
  return code;
}

/* Returns true if a condition on the field compares labels; false if the stream shows codes. */
static bool stream_compares_labels(const tsx_stream_request *r, uint32_t field) {
  return r->schema->fields[field].enumeration && !r->shows_codes;
}

/* Adds the values that satisfy a comparison with `o` to the current condition. */
static int stream_compare(stream_entry *list, tsx_op op, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = list->request;
  const tsr_field *field = &r->schema->fields[list->field];
  uint8_t *bytes;
  uint64_t size;
  if (strcmp(o->type, "null") == 0)
    return tsx_fail(error, TSR_MISMATCH, "'where': NULL goes with \"is\" and \"is not\", values with the others");
  if (stream_compares_labels(r, list->field)) {
    if (field->values_per_cell == 1) return add_labels(list, op, o, error);
    return tsx_fail(error, TSR_UNSUPPORTED, "'where': '%.64s' has several labels in a cell", r->names[list->field]);
  }
  TSX_TRY(tsx_option_convert(o, field->datatype, &bytes, &size, error));
  if (field->values_per_cell != TSR_VARIABLE && size != field->cell_size) {
    sqlite3_free(bytes);
    return tsx_fail(error, TSR_MISMATCH, "'where': '%.64s' is compared with one value", r->names[list->field]);
  }
  return add_range(&r->conditions[r->request.predicate_count], range_of(op, bytes, size), bytes, error);
}

static int read_member(void *argument, const tsx_json_option *o, tsr_error *error) {
  return stream_compare(argument, TSX_EQ, o, error);
}

/* Makes the predicate of one condition. The value must be NULL for "is" and "is not", and a list for "in". */
static int stream_condition(stream_entry *list, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = list->request;
  tsr_predicate *p = &r->predicates[r->request.predicate_count];
  tsx_stream_condition *c = &r->conditions[r->request.predicate_count];
  const bool is = list->operation == TSX_ISNULL || list->operation == TSX_NOTNULL;
  int code;
  *p = (tsr_predicate){.field = list->field, .nat_is_null = true};
  if (is != (strcmp(o->type, "null") == 0))
    return tsx_fail(error, TSR_MISMATCH, "'where': NULL goes with \"is\" and \"is not\", values with the others");
  if (is && stream_compares_labels(r, list->field)) { /* a code outside the enumeration is NULL, too */
    p->negated = list->operation == TSX_ISNULL;
    code = add_labels(list, TSX_NOTNULL, o, error);
  } else if (is) {
    p->kind = list->operation == TSX_ISNULL ? TSR_PREDICATE_IS_NULL : TSR_PREDICATE_NOT_NULL;
    return TSR_OK;
  } else if (list->operation == TSX_IN) {
    code = tsx_elements_each(r->db, o->value, "'where': \"in\" needs a list of values", read_member, list, error);
  } else {
    code = stream_compare(list, list->operation, o, error);
  }
  p->ranges = (tsr_ranges){.ranges = c->ranges, .count = c->count};
  return code;
}

static int read_where_part(void *argument, const tsx_json_option *o, tsr_error *error) {
  static const struct {
    const char *text;
    tsx_op op;
  } operations[] = {{"=", TSX_EQ},  {"<", TSX_LT},      {"<=", TSX_LE},          {">", TSX_GT},
                    {">=", TSX_GE}, {"is", TSX_ISNULL}, {"is not", TSX_NOTNULL}, {"in", TSX_IN}};
  stream_entry *list = argument;
  tsx_stream_request *r = list->request;
  const char *text = (const char *)sqlite3_value_text(o->value);
  switch (list->count++) {
  case 0:
    return stream_find(r, r->schema->dimension_count, stream_field_count(r), o->value, "attribute", &list->field,
                       error);
  case 1:
    for (size_t i = 0; text && i < sizeof operations / sizeof *operations; i++)
      if (sqlite3_stricmp(text, operations[i].text) == 0) {
        list->operation = operations[i].op;
        return TSR_OK;
      }
    return tsx_fail(error, TSR_MISMATCH, "'where': '%.20s' is not one of = < <= > >= in, is, is not", text ? text : "");
  case 2: return stream_condition(list, o, error);
  default: return tsx_fail(error, TSR_MISMATCH, "'where': expected [[attribute, operator, value], ...]");
  }
}

static int read_where(void *argument, const tsx_json_option *o, tsr_error *error) {
  static const char expected[] = "'where': expected [[attribute, operator, value], ...]";
  stream_entry list = {.request = argument};
  tsx_stream_request *r = argument;
  if (r->request.predicate_count == TSX_STREAM_CONDITIONS)
    return tsx_fail(error, TSR_ERROR, "'where' has more than %d conditions", TSX_STREAM_CONDITIONS);
  TSX_TRY(tsx_elements_each(r->db, o->value, expected, read_where_part, &list, error));
  if (list.count != 3) return tsx_fail(error, TSR_MISMATCH, "%s", expected);
  r->request.predicate_count++;
  return TSR_OK;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

enum {
  STREAM_OPTION_columns,
  STREAM_OPTION_where,
  STREAM_OPTION_order,
  STREAM_OPTION_since,
  STREAM_OPTION_as_of,
  STREAM_OPTION_key,
  STREAM_OPTION_schema,
  STREAM_OPTION_unwritten,
  STREAM_OPTION_strings,
  STREAM_OPTION_enums,
  STREAM_OPTION_datetimes,
  STREAM_OPTION_batch_rows,
  STREAM_OPTION_limits, /* the first of three */
  STREAM_OPTION_COUNT = STREAM_OPTION_limits + 3
};

static const tsx_option_spec stream_specs[STREAM_OPTION_COUNT] = {
    [STREAM_OPTION_columns] = {.name = "columns"},
    [STREAM_OPTION_where] = {.name = "where"},
    [STREAM_OPTION_order] = {.name = "order"},
    [STREAM_OPTION_since] = {.name = "since"},
    [STREAM_OPTION_as_of] = {.name = "as_of"},
    [STREAM_OPTION_key] = {.name = "array_key"},
    [STREAM_OPTION_schema] = {.name = "array_schema"},
    [STREAM_OPTION_unwritten] = {"unwritten", TSX_TAKES_WORD, 0, 0, TSX_WORDS("null", "fill")},
    [STREAM_OPTION_strings] = {"strings", TSX_TAKES_WORD, 0, 0, TSX_WORDS("large", "small", "binary", "view")},
    [STREAM_OPTION_enums] = {"enums", TSX_TAKES_WORD, 0, 0, TSX_WORDS("dictionary", "label", "code")},
    [STREAM_OPTION_datetimes] = {"datetimes", TSX_TAKES_WORD, 0, 0, TSX_WORDS("timestamp", "integer", "duration")},
    [STREAM_OPTION_batch_rows] = {"batch_rows", TSX_TAKES_WHOLE, 1, INT64_MAX, NULL},
    TSX_READ_LIMIT_SPECS};
static const tsx_option_list stream_list_of_options = TSX_OPTION_LIST(stream_specs);

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsx_stream_request *r = argument;
  sqlite3_value *json = value->json->value;
  switch (option) {
  case STREAM_OPTION_columns:
    r->options.fields = r->fields;
    return tsx_elements_each(r->db, json, "'columns': expected an array of names", read_column, r, error);
  case STREAM_OPTION_where: return tsx_elements_each(r->db, json, "'where': expected an array", read_where, r, error);
  case STREAM_OPTION_order: return tsx_elements_each(r->db, json, "'order': expected an array", read_order, r, error);
  case STREAM_OPTION_since:
  case STREAM_OPTION_as_of:
  case STREAM_OPTION_key:
  case STREAM_OPTION_schema: break; /* read by take_place */
  case STREAM_OPTION_unwritten: r->options.fill = value->whole; break;
  case STREAM_OPTION_strings: r->options.strings = (tsr_arrow_strings)value->whole; break;
  case STREAM_OPTION_enums: r->options.enums = (tsr_arrow_enums)value->whole; break;
  case STREAM_OPTION_datetimes: r->options.datetimes = (tsr_arrow_datetimes)value->whole; break;
  case STREAM_OPTION_batch_rows: r->options.batch_rows = (uint64_t)value->whole; break;
  default:
    tsx_read_limits_take(&r->limits, (tsx_read_option)(option - STREAM_OPTION_limits), value);
    r->request.memory_bytes = r->limits.memory_bytes;
    r->request.threads = r->limits.threads;
  }
  return TSR_OK;
}

/* Takes the options that are needed to open the array: key, times and schema. */
static int take_place(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsx_stream_request *r = argument;
  sqlite3_value **to = option == STREAM_OPTION_key      ? &r->key
                       : option == STREAM_OPTION_since  ? &r->since
                       : option == STREAM_OPTION_as_of  ? &r->as_of
                       : option == STREAM_OPTION_schema ? &r->seen
                                                        : NULL;
  if (option == STREAM_OPTION_enums) r->shows_codes = value->whole == TSR_ARROW_ENUMS_CODE;
  if (!to) return TSR_OK;
  *to = sqlite3_value_dup(value->json->value);
  return *to ? TSR_OK : tsx_out_of_memory(error);
}

/* First pass over the options: those that are needed to open the array. `json` may be NULL or an SQL NULL. */
static int stream_request_begin(sqlite3 *db, sqlite3_value *json, tsx_stream_request *r, tsr_error *error) {
  r->db = db;
  return tsx_options_read(db, json, &stream_list_of_options, take_place, r, error);
}

/* Fails if the stream would have to know which of its columns are durations, and damaged metadata do not say. */
static int stream_times_known(const tsx_stream_request *r, tsr_error *error) {
  const uint32_t all = stream_field_count(r), count = r->options.fields ? r->options.field_count : all;
  const tsx_option_shows shows = {.datetimes_integer = r->options.datetimes != TSR_ARROW_DATETIMES_TIMESTAMP};
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t number = r->options.fields ? r->fields[i] : i;
    const tsr_field *field = number < all ? &r->schema->fields[number] : r->labels.list[number - all].field;
    TSX_TRY(tsx_times_known(r->schema, field->datatype, field->name, &shows, error));
  }
  return TSR_OK;
}

/* Second pass, once the array is open and its schema known: reads the slice and all other options. Completes
 * r->options. */
static int stream_request_read(sqlite3_value *slice, sqlite3_value *json, const tsx_address *address,
                               const tsr_schema *schema, tsx_stream_request *r, tsr_error *error) {
  const uint32_t d = schema->dimension_count, n = d + schema->attribute_count;
  const tsx_label_source labels = tsx_address_labels(address);
  r->array = address->given;
  r->core = address->array->core;
  r->schema = schema;
  TSX_TRY(tsx_slice_parse(r->db, slice, schema, &labels, address->uint64_signed, &r->slice, error));
  r->names = tsx_names_make(schema);
  r->ranges = sqlite3_malloc64(d * sizeof *r->ranges);
  r->dimensions = sqlite3_malloc64(d * sizeof *r->dimensions);
  r->order = sqlite3_malloc64(d * sizeof *r->order);
  r->fields = sqlite3_malloc64((n + schema->label_count) * sizeof *r->fields);
  r->labels.list = sqlite3_malloc64((schema->label_count + UINT64_C(1)) * sizeof *r->labels.list);
  r->source = labels;
  r->predicates = sqlite3_malloc64(TSX_STREAM_CONDITIONS * sizeof *r->predicates);
  r->conditions = sqlite3_malloc64(TSX_STREAM_CONDITIONS * sizeof *r->conditions);
  if (r->conditions) memset(r->conditions, 0, TSX_STREAM_CONDITIONS * sizeof *r->conditions);
  if (!r->names || !r->ranges || !r->dimensions || !r->order || !r->fields || !r->labels.list || !r->predicates ||
      !r->conditions)
    return tsx_out_of_memory(error);
  tsx_slice_ranges(&r->slice, schema, r->ranges, r->dimensions);
  r->request.dimensions = r->dimensions;
  r->request.order = r->order;
  r->request.predicates = r->predicates;
  r->options.request = &r->request;
  r->options.labels = r->labels.list;
  TSX_TRY(tsx_options_read(r->db, json, &stream_list_of_options, take_option, r, error));
  return stream_times_known(r, error);
}

static void stream_request_release(tsx_stream_request *r) {
  for (uint32_t i = 0; r->conditions && i < TSX_STREAM_CONDITIONS; i++) {
    tsx_stream_condition *c = &r->conditions[i];
    for (uint64_t k = 0; k < c->count; k++) sqlite3_free(c->values[k]);
    sqlite3_free(c->values);
    sqlite3_free(c->ranges);
  }
  sqlite3_free(r->conditions);
  sqlite3_free(r->predicates);
  sqlite3_free(r->fields);
  sqlite3_free(r->order);
  sqlite3_free(r->dimensions);
  sqlite3_free(r->ranges);
  if (r->names) tsx_names_free(r->names, r->schema);
  tsx_slice_release(&r->slice);
  sqlite3_value_free(r->key);
  sqlite3_value_free(r->since);
  sqlite3_value_free(r->as_of);
  sqlite3_value_free(r->seen);
  stream_labels_free(&r->labels);
  *r = (tsx_stream_request){0};
}

/* ---- Lent streams ------------------------------------------------------------------------------------------------ */

#ifndef _WIN32
#include <dlfcn.h>
#endif
#include <errno.h>
#include <string.h>

#include "call/function.h"

#ifdef _WIN32
#define TSX_API_EXPORT __declspec(dllexport) __attribute__((visibility("default")))
#else
#define TSX_API_EXPORT __attribute__((visibility("default")))
#endif

typedef struct lent_stream { /* private_data of a lent ArrowArrayStream */
  struct lent_stream *next; /* in the link's list; guarded by the link's lock */
  tsx_stream_link *link; /* owns a reference */
  struct ArrowArrayStream core; /* guarded by the connection's mutex; `release` is NULL once the connection is closed */
  tsx_address address;
  tsx_stream_labels labels; /* that `core` reads */
  _Atomic bool released; /* no longer in use: whoever holds the connection next closes and frees it */
  char message[TSR_MESSAGE_SIZE]; /* for get_last_error; "": none */
} lent_stream;

/* Closes what a stream reads from. The caller holds the connection's mutex. */
static void stream_end(lent_stream *s) {
  if (s->core.release) s->core.release(&s->core);
  s->core.release = NULL;
  stream_labels_free(&s->labels);
  tsx_address_close(&s->address);
}

/* Frees the released streams of a link. The caller holds the link's lock, and if `connected` the connection's mutex. */
static void stream_sweep(tsx_stream_link *link, bool connected) {
  for (lent_stream **at = &link->streams; *at;) {
    lent_stream *s = *at;
    if (!atomic_load(&s->released)) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    if (connected) stream_end(s);
    sqlite3_free(s);
    tsx_stream_link_drop(link); /* never the last one: the caller has a reference, too */
  }
}

/* Begins a call that reads: locks the connection's mutex, and counts a table and a cursor as functions do, so that
 * nothing stays open on the connection between calls. Returns false if the connection was closed; else stream_done ends
 * the call. */
static bool stream_begin(lent_stream *s) {
  tsx_stream_link *link = s->link;
  const bool open = tsx_stream_link_enter(link, true) == 1 && s->core.release;
  if (open) {
    stream_sweep(link, true);
    tsx_connection_add_table(link->connection);
    tsx_connection_add_cursor(link->connection);
  }
  pthread_mutex_unlock(&link->lock); /* the connection's mutex keeps the connection */
  s->message[0] = 0;
  if (!open) sqlite3_snprintf(sizeof s->message, s->message, "the connection of this stream was closed");
  return open;
}

static void stream_done(lent_stream *s, int code) {
  tsx_connection *connection = s->link->connection;
  const char *message = code != 0 ? s->core.get_last_error(&s->core) : NULL;
  if (message) sqlite3_snprintf(sizeof s->message, s->message, "%s", message);
  tsx_connection_remove_cursor(connection);
  tsx_connection_remove_table(connection);
  sqlite3_mutex_leave(sqlite3_db_mutex(connection->db));
}

static int stream_get_schema(struct ArrowArrayStream *lent, struct ArrowSchema *out) {
  lent_stream *s = lent->private_data;
  if (!stream_begin(s)) return EINVAL;
  const int code = s->core.get_schema(&s->core, out);
  stream_done(s, code);
  return code;
}

static int stream_get_next(struct ArrowArrayStream *lent, struct ArrowArray *out) {
  lent_stream *s = lent->private_data;
  if (!stream_begin(s)) return EINVAL;
  const int code = s->core.get_next(&s->core, out);
  stream_done(s, code);
  return code;
}

static const char *stream_last_error(struct ArrowArrayStream *lent) {
  const lent_stream *s = lent->private_data;
  return s->message[0] ? s->message : NULL;
}

static void stream_release(struct ArrowArrayStream *lent) {
  lent_stream *s = lent->private_data;
  tsx_stream_link *link = s->link;
  atomic_fetch_add(&link->references, 1); /* after the next line another thread may free the stream */
  atomic_store(&s->released, true);
  const int entered = tsx_stream_link_enter(link, false);
  if (entered >= 0) {
    sqlite3 *db = entered ? link->connection->db : NULL;
    stream_sweep(link, entered == 1);
    pthread_mutex_unlock(&link->lock);
    if (db) sqlite3_mutex_leave(sqlite3_db_mutex(db));
  }
  tsx_stream_link_drop(link);
  lent->private_data = NULL;
  lent->release = NULL;
}

/* ---- The C interface --------------------------------------------------------------------------------------------- */

/* For Python, `take_new` and `free_capsule` move streams in and out of capsules. capsule_pointer is
 * PyCapsule_GetPointer. */

static void *(*capsule_pointer)(void *capsule, const char *name);

static void api_use_capsules(void *(*get_pointer)(void *capsule, const char *name)) { capsule_pointer = get_pointer; }

static int api_take(const char *token, struct ArrowArrayStream *out) { return tokens_take(token, out); }

static int api_put(struct ArrowArrayStream *stream, char token[TESSERA_TOKEN_SIZE]) {
  tsr_error ignored = {0};
  return stream && stream->release && tsx_tokens_put(stream, NULL, token, &ignored) == TSR_OK;
}

static struct ArrowArrayStream *api_take_new(const char *token) {
  struct ArrowArrayStream *lent = sqlite3_malloc64(sizeof *lent);
  if (lent && tokens_take(token, lent)) return lent;
  sqlite3_free(lent);
  return NULL;
}

static void api_free(struct ArrowArrayStream *lent) {
  if (!lent) return;
  if (lent->release) lent->release(lent);
  sqlite3_free(lent);
}

static void api_free_capsule(void *capsule) { api_free(capsule_pointer(capsule, "arrow_array_stream")); }

static struct ArrowSchema *api_take_schema(const char *token) {
  struct ArrowArrayStream *lent = api_take_new(token);
  struct ArrowSchema *schema = lent ? sqlite3_malloc64(sizeof *schema) : NULL;
  if (schema && lent->get_schema(lent, schema) != 0) {
    sqlite3_free(schema);
    schema = NULL;
  }
  api_free(lent);
  return schema;
}

static void api_free_schema_capsule(void *capsule) {
  struct ArrowSchema *schema = capsule_pointer(capsule, "arrow_schema");
  if (schema && schema->release) schema->release(schema);
  sqlite3_free(schema);
}

static struct ArrowArrayStream *api_again(const struct ArrowArrayStream *stream) {
  struct ArrowArrayStream *lent = sqlite3_malloc64(sizeof *lent);
  if (lent && stream && tsx_rows_again(stream, lent)) return lent;
  sqlite3_free(lent);
  return NULL;
}

static struct ArrowArrayStream *api_join(struct ArrowArrayStream *const *streams, uint64_t count) {
  struct ArrowArrayStream *lent = sqlite3_malloc64(sizeof *lent);
  if (lent && streams_join(streams, count, lent)) return lent;
  sqlite3_free(lent);
  return NULL;
}

/* Requests a schema of a lent stream of an array. */
static bool stream_request_types(struct ArrowArrayStream *lent, const struct ArrowSchema *requested) {
  lent_stream *s = lent->private_data;
  if (!stream_begin(s)) return false;
  const bool honoured = tsr_arrow_request(&s->core, requested);
  stream_done(s, 0);
  return honoured;
}

static int api_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested) {
  if (!stream || !stream->release || !requested) return 0;
  if (stream->release == join_release) { /* all have the same schema, so they honour it all, or none does */
    const joined_stream *joined = stream->private_data;
    int honoured = 1;
    for (uint64_t i = 0; i < joined->count && honoured; i++) honoured = api_request(joined->streams[i], requested);
    return honoured;
  }
  return stream->release == stream_release ? stream_request_types(stream, requested)
                                           : tsx_rows_request(stream, requested);
}

TSX_API_EXPORT const tessera_functions *tessera_api(int version);

const tessera_functions *tessera_api(int version) {
  static const tessera_functions functions_1 = {.version = 1,
                                                .library_version = TSR_VERSION,
                                                .take = api_take,
                                                .take_new = api_take_new,
                                                .free_stream = api_free,
                                                .use_capsules = api_use_capsules,
                                                .free_capsule = api_free_capsule,
                                                .put = api_put,
                                                .lend = tsx_lend,
                                                .take_back = tsx_take_back,
                                                .take_schema = api_take_schema,
                                                .free_schema_capsule = api_free_schema_capsule,
                                                .again = api_again,
                                                .request = api_request,
                                                .join = api_join};
  return version == 1 ? &functions_1 : NULL;
}

/* ---- SQL functions ----------------------------------------------------------------------------------------------- */

/* Reads the request, and takes the snapshot that it asks for. */
static int stream_plan(lent_stream *s, int count, sqlite3_value **values, tsx_stream_request *request,
                       tsx_snapshot **snapshot, tsr_error *error) {
  tsx_connection *connection = s->link->connection;
  const tsr_schema *schema;
  sqlite3_value *slice = count > 1 ? values[1] : NULL, *json = count > 2 ? values[2] : NULL;
  tsx_address *address = &s->address;
  TSX_TRY(stream_request_begin(connection->db, json, request, error));
  TSX_TRY(tsx_address_open(connection, values[0], request->key, request->as_of, request->since, address, error));
  TSX_TRY(tsx_address_expect(address, request->seen, error));
  TSX_TRY(tsx_address_array(address, error));
  TSX_TRY(tsx_address_schema(address, &schema, error));
  TSX_TRY(stream_request_read(slice, json, address, schema, request, error));
  TSX_TRY(
      tsx_array_snapshot(connection, address->array, schema, address->since, address->as_of, false, snapshot, error));
  tsx_read_limits_apply(&request->limits, address->array->core);
  if (request->request.memory_bytes == 0) request->request.memory_bytes = address->memory_bytes;
  return TSR_OK;
}

/* Opens the stream that the function's arguments describe. */
static int stream_open(lent_stream *s, int count, sqlite3_value **values, tsr_error *error) {
  tsx_stream_request request = {0};
  tsx_snapshot *snapshot = NULL;
  int code = stream_plan(s, count, values, &request, &snapshot, error);
  if (code >= 0) code = tsr_arrow_open(snapshot->core, &request.options, &s->core, error);
  if (code >= 0) {
    s->labels = request.labels;
    request.labels = (tsx_stream_labels){0};
  }
  tsx_snapshot_release(snapshot);
  stream_request_release(&request);
  return code;
}

/* Keeps an open stream until its token is redeemed. The token is the function's result. */
static int stream_lend(lent_stream *s, sqlite3_context *context, tsr_error *error) {
  tsx_stream_link *link = s->link;
  char token[TESSERA_TOKEN_SIZE];
  struct ArrowArrayStream lent = {.get_schema = stream_get_schema,
                                  .get_next = stream_get_next,
                                  .get_last_error = stream_last_error,
                                  .release = stream_release,
                                  .private_data = s};
  pthread_mutex_lock(&link->lock);
  stream_sweep(link, true);
  const int code = tsx_tokens_put(&lent, link, token, error);
  if (code >= 0) {
    s->next = link->streams;
    link->streams = s;
    atomic_fetch_add(&link->references, 1);
    sqlite3_result_text(context, token, -1, SQLITE_TRANSIENT);
  }
  pthread_mutex_unlock(&link->lock);
  return code;
}

static int stream_call_lend(lent_stream *s, sqlite3_context *context, int count, sqlite3_value **values,
                            tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  if (!sqlite3_db_mutex(s->link->connection->db))
    return tsx_fail(error, TSR_UNSUPPORTED, "this connection has no mutex: open it with SQLITE_OPEN_FULLMUTEX");
  TSX_TRY(stream_open(s, count, values, error));
  return stream_lend(s, context, error);
}

/* tessera_stream(path[, slice[, options]]) */
static void stream_function(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_stream_link *link = sqlite3_user_data(context);
  tsx_connection *connection = link->connection;
  tsr_error error = {0};
  lent_stream *s = sqlite3_malloc64(sizeof *s);
  if (!s) {
    sqlite3_result_error_nomem(context);
    return;
  }
  memset(s, 0, sizeof *s);
  s->link = link;
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  tsx_connection_add_cursor(connection);
  if (stream_call_lend(s, context, count, values, &error) < 0) {
    tsx_result_error_of(context, "tessera_stream", &error);
    stream_end(s);
    sqlite3_free(s);
  }
  tsx_connection_remove_cursor(connection);
  tsx_connection_remove_table(connection);
}

/* tessera_stream(): the number of open streams of the connection. */
static void stream_count(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_stream_link *link = sqlite3_user_data(context);
  int open = 0;
  (void)count;
  (void)values;
  pthread_mutex_lock(&link->lock);
  stream_sweep(link, true);
  for (const lent_stream *s = link->streams; s; s = s->next) open++;
  pthread_mutex_unlock(&link->lock);
  sqlite3_result_int(context, open);
}

/* tessera_library(): the path of the shared library that contains this code; NULL on Windows. */
static void library_function(sqlite3_context *context, int count, sqlite3_value **values) {
  (void)count;
  (void)values;
#ifndef _WIN32
  Dl_info self;
  if (dladdr((const void *)(uintptr_t)library_function, &self)) /* tessera_api may resolve to another copy */
    sqlite3_result_text(context, self.dli_fname, -1, SQLITE_TRANSIENT);
#endif
}

/* The destructor of the functions, which SQLite calls while the connection is still open: ends all streams. */
static void stream_connection_closes(void *argument) {
  tsx_stream_link *link = argument;
  tsx_connection *connection = link->connection;
  struct ArrowArrayStream untaken;
  while (tokens_take_owned(link, &untaken)) untaken.release(&untaken);
  pthread_mutex_lock(&link->lock);
  for (lent_stream *s = link->streams; s; s = s->next) stream_end(s);
  stream_sweep(link, false);
  link->connection = NULL;
  pthread_mutex_unlock(&link->lock);
  tsx_connection_drop(connection);
  tsx_stream_link_drop(link);
}

int tsx_register_streams(tsx_connection *connection) {
  const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
  tsx_stream_link *link = tsx_stream_link_make(connection);
  if (!link) return SQLITE_NOMEM;
  tsx_connection_hold(connection);
  /* The first function owns the link: SQLite calls its destructor even if this call fails. The others borrow the
   * link. */
  int code = sqlite3_create_function_v2(connection->db, "tessera_library", 0, flags, link, library_function, NULL, NULL,
                                        stream_connection_closes);
  if (code == SQLITE_OK)
    code = sqlite3_create_function_v2(connection->db, "tessera_stream", 0, flags, link, stream_count, NULL, NULL, NULL);
  for (int arguments = 1; arguments <= 3 && code == SQLITE_OK; arguments++)
    code = sqlite3_create_function_v2(connection->db, "tessera_stream", arguments, flags, link, stream_function, NULL,
                                      NULL, NULL);
  if (code == SQLITE_OK)
    code =
        sqlite3_create_function_v2(connection->db, "tessera_rows", -1, flags, link, tsx_rows_stream, NULL, NULL, NULL);
  return code;
}

/* ---- tessera_create_stream --------------------------------------------------------------------------------------- */

typedef struct stream_call {
  tsx_ingest_call call;
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
} stream_call;

/* Fails with the stream's own message about its last error. */
static int stream_call_fail(stream_call *c, int number, tsr_error *error) {
  const char *why = c->stream.get_last_error ? c->stream.get_last_error(&c->stream) : NULL;
  return tsx_fail(error, TSR_ERROR, "the stream: %.400s (%d)", why ? why : "without a reason", number);
}

static int stream_call_columns(stream_call *c, const char *path, tsr_error *error) {
  const int number = c->stream.get_schema(&c->stream, &c->schema);
  if (number != 0) return stream_call_fail(c, number, error);
  if (!c->schema.release || c->schema.n_children < 1 || c->schema.n_children > UINT32_MAX)
    return tsx_fail(error, TSR_MISMATCH, "the stream has no columns");
  const uint32_t count = (uint32_t)c->schema.n_children;
  TSX_TRY(tsx_ingest_begin(&c->call, path, count, error));
  TSX_TRY(tsr_arrow_columns(&c->schema, c->call.columns, error));
  for (uint32_t i = 0; i < count; i++) TSX_TRY(tsx_ingest_name_column(&c->call, i, c->call.columns[i].name, error));
  return TSR_OK;
}

/* Gets the next batch. The producer may run statements on this connection, whose functions open savepoints of their
 * own, so the current one is set aside. */
static int stream_call_next(stream_call *c, struct ArrowArray *batch) {
  const tsx_function_savepoint savepoint = tsx_savepoint_leave(c->call.connection);
  const int number = c->stream.get_next(&c->stream, batch);
  tsx_savepoint_return(c->call.connection, &savepoint);
  return number;
}

static int stream_call_rows(stream_call *c, tsr_error *error) {
  while (true) {
    struct ArrowArray batch = {0};
    const int number = stream_call_next(c, &batch);
    if (number != 0) return stream_call_fail(c, number, error);
    if (!batch.release) return TSR_OK;
    const int code = tsr_ingest_arrow(c->call.ingest, &c->schema, &batch, c->call.source.kept, error);
    batch.release(&batch);
    if (code < 0) return code;
    if (tsx_connection_cancelled(c->call.connection)) return tsx_fail_cancelled(error);
  }
}

static int stream_call_make(stream_call *c, sqlite3_context *context, int count, sqlite3_value **values,
                            tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  const char *path = (const char *)sqlite3_value_text(values[0]), *token = (const char *)sqlite3_value_text(values[1]);
  if (!path || !token) return tsx_out_of_memory(error);
  if (!tokens_take(token, &c->stream))
    return tsx_fail(error, TSR_NOT_FOUND,
                    "unknown token; the token of a stream can be used only once, even if that call failed");
  TSX_TRY(stream_call_columns(c, path, error));
  TSX_TRY(tsx_ingest_options(&c->call, values[0], count > 2 ? values[2] : NULL, error));
  TSX_TRY(tsx_ingest_open(&c->call, error));
  TSX_TRY(stream_call_rows(c, error));
  return tsx_ingest_finish(&c->call, context, error);
}

void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values) {
  stream_call c = {.call = {.connection = sqlite3_user_data(context)}};
  tsr_error error = {0};
  tsx_connection_add_table(c.call.connection); /* cancellation works only while a table is counted */
  const int code = stream_call_make(&c, context, count, values, &error);
  tsx_ingest_end(&c.call, code, &error);
  if (c.schema.release) c.schema.release(&c.schema);
  if (c.stream.release) c.stream.release(&c.stream);
  tsx_connection_remove_table(c.call.connection);
  tsx_function_end(context, "tessera_create_stream", code, &error);
}
