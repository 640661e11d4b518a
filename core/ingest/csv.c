/* csv.c: reads records of comma-separated values (RFC 4180; tessera_ingest.h).
 *
 * The buffer holds the current record and the bytes after it. First the end of the record is located, respecting
 * quotes, reading more bytes if necessary; only then is the record split into fields, and their quotes are removed in
 * place. */
#include <string.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "base/pool.h"
#include "environment/environment.h"

#define CSV_BLOCK  (UINT64_C(256) << 10) /* bytes read at once */
#define CSV_RECORD (UINT64_C(64) << 20) /* maximum bytes of a record; a longer one must lack a quote */

struct tsr_csv {
  tsr_csv_options options;
  tsr_memory *memory;
  tsr_buffer data; /* bytes from the file */
  uint64_t at; /* in `data`: where the next record begins */
  uint64_t line; /* of the next record, from 1 */
  bool ended; /* the file has no more bytes */
  bool begun; /* the file has been checked for a byte order mark */
  tsr_buffer fields; /* tsr_csv_field */
};

int tsr_csv_open(tsr_environment *environment, const tsr_csv_options *options, tsr_csv **csv, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_csv *c;
  tsr_csv_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_csv_options, skip_empty, options, &own, error));
  options = &own;
  const char d = options->delimiter;
  if (d == '"' || d == '\n' || d == '\r') return tsr__fail(error, TSR_ERROR, "a delimiter that CSV uses itself");
  TSR_TRY(TSR_ALLOC(&environment->memory, &c, error));
  c->options = *options;
  if (!d) c->options.delimiter = ',';
  c->memory = &environment->memory;
  c->data.memory = c->fields.memory = c->memory;
  c->line = 1;
  *csv = c;
  return TSR_OK;
}

void tsr_csv_close(tsr_csv *c) {
  if (!c) return;
  tsr__buffer_release(&c->data);
  tsr__buffer_release(&c->fields);
  tsr__free(c);
}

/* Reads more bytes to the end of the buffer. */
static int read_more(tsr_csv *c, tsr_error *error) {
  uint64_t got = 0;
  TSR_TRY(tsr__cancelled_after(c->memory, CSV_BLOCK, 0, error));
  if (c->at) {
    memmove(c->data.data, c->data.data + c->at, c->data.size - c->at);
    c->data.size -= c->at;
    c->at = 0;
  }
  TSR_TRY(tsr__buffer_reserve(&c->data, CSV_BLOCK, error));
  TSR_TRY(c->options.read(c->options.argument, c->data.data + c->data.size, CSV_BLOCK, &got, error));
  c->ended = got == 0;
  c->data.size += got;
  return TSR_OK;
}

/* Finds the newline that ends the record beginning at `from`. Returns false if the buffer ends first. */
static bool find_end(const tsr_csv *c, uint64_t from, uint64_t *end) {
  const uint8_t *p = c->data.data;
  const uint8_t delimiter = (uint8_t)c->options.delimiter;
  bool quoted = false, fresh = true; /* within quotes; at the beginning of a field */
  for (uint64_t i = from; i < c->data.size; i++) {
    const uint8_t byte = p[i];
    if (quoted) {
      quoted = byte != '"'; /* in a doubled quote, the second one reopens the field: it is not at the beginning */
      fresh = false;
      if (!quoted && i + 1 < c->data.size && p[i + 1] == '"') {
        quoted = true;
        i++;
      }
    } else if (byte == '\n') {
      *end = i;
      return true;
    } else if (byte == '"' && fresh) {
      quoted = true;
    } else {
      fresh = byte == delimiter;
    }
  }
  *end = c->data.size;
  return c->ended && !quoted;
}

/* Splits off the field that begins at *at of a record that ends at `end`. */
static int take_field(tsr_csv *c, uint64_t *at, uint64_t end, tsr_error *error) {
  uint8_t *p = c->data.data;
  const uint8_t delimiter = (uint8_t)c->options.delimiter;
  uint64_t from = *at, to = from;
  tsr_csv_field field = {.quoted = from < end && p[from] == '"'};
  if (field.quoted) {
    uint64_t i = from + 1;
    for (; i < end; i++) {
      if (p[i] == '"') {
        if (i + 1 >= end || p[i + 1] != '"') break;
        i++;
      }
      p[to++] = p[i];
    }
    *at = i + 1;
    if (*at < end && p[*at] != delimiter) return tsr__fail(error, TSR_MISMATCH, "text behind a closing quote");
  } else {
    const uint8_t *found = memchr(p + from, delimiter, end - from);
    to = *at = found ? (uint64_t)(found - p) : end;
    if (memchr(p + from, '"', to - from))
      return tsr__fail(error, TSR_MISMATCH, "a quote within a field that does not begin with one");
  }
  field.offset = from;
  field.size = to - from;
  return tsr__buffer_append(&c->fields, &field, sizeof field, error);
}

static int csv_divide(tsr_csv *c, uint64_t from, uint64_t end, tsr_error *error) {
  uint64_t at = from;
  if (end > from && c->data.data[end - 1] == '\r') end--;
  while (true) {
    TSR_TRY(take_field(c, &at, end, error));
    if (at >= end) return TSR_OK;
    at++; /* skip the delimiter; after the last one, an empty field follows */
  }
}

static uint64_t count_lines(const tsr_csv *c, uint64_t from, uint64_t end) {
  uint64_t lines = 0;
  const uint8_t *p = c->data.data;
  for (const uint8_t *found = p + from; (found = memchr(found, '\n', (uint64_t)(p + end - found))); found++) lines++;
  return lines;
}

/* Skips the line at which an unterminated record begins. */
static int lose_record(tsr_csv *c, tsr_error *error) {
  const uint8_t *from = c->data.data + c->at, *found = memchr(from, '\n', c->data.size - c->at);
  c->at = found ? (uint64_t)(found - c->data.data) + 1 : c->data.size;
  c->line++;
  return tsr__fail(error, TSR_MISMATCH, "a quote that is opened and not closed");
}

/* Finds the next record, reading until it is complete. Returns 1; 0 at the end. */
static int find_record(tsr_csv *c, uint64_t *end, tsr_error *error) {
  static const uint8_t mark[3] = {0xEF, 0xBB, 0xBF};
  if (!c->begun) {
    while (c->data.size < sizeof mark && !c->ended) TSR_TRY(read_more(c, error));
    if (c->data.size >= 2 && (memcmp(c->data.data, "\xFF\xFE", 2) == 0 || memcmp(c->data.data, "\xFE\xFF", 2) == 0))
      return tsr__fail(error, TSR_UNSUPPORTED, "the file is UTF-16, which is not read: convert it to UTF-8");
    if (c->data.size >= sizeof mark && memcmp(c->data.data, mark, sizeof mark) == 0) c->at = sizeof mark;
    c->begun = true;
  }
  while (!c->data.size || !find_end(c, c->at, end)) {
    if (c->ended) return c->at == c->data.size ? 0 : lose_record(c, error);
    if (c->data.size - c->at > CSV_RECORD) return lose_record(c, error);
    TSR_TRY(read_more(c, error));
  }
  return c->at < c->data.size;
}

int tsr_csv_next(tsr_csv *c, const tsr_csv_field **fields, uint32_t *count, uint64_t *line, tsr_error *error) {
  TSR_OWN_ERROR(error);
  uint64_t end = 0;
  int rc;
  do {
    *line = c->line;
    rc = find_record(c, &end, error);
    if (rc <= 0) return rc;
    const uint64_t from = c->at;
    c->at = TSR_MIN(end + 1, c->data.size);
    c->line += count_lines(c, from, c->at);
    c->fields.size = 0;
    rc = csv_divide(c, from, end, error);
    if (rc < 0) return rc;
    *fields = (const tsr_csv_field *)(void *)c->fields.data;
    *count = (uint32_t)(c->fields.size / sizeof(tsr_csv_field));
  } while (*count == 1 && (*fields)->size == 0 && !(*fields)->quoted && c->options.skip_empty);
  for (uint32_t i = 0; i < *count; i++) {
    tsr_csv_field *field = (tsr_csv_field *)(void *)c->fields.data + i;
    field->bytes = (const char *)c->data.data + field->offset;
  }
  return 1;
}
