/* names.c: names in SQL: of fields, of tables in a path, of filters and orders. */
#include "sql/names.h"

#include <stdarg.h>
#include <string.h>
#include <ctype.h>
#include <stddef.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "tessera_host.h"

int tsx_text_whole(sqlite3_value *value, const char *what, tsr_error *error) {
  if (sqlite3_value_type(value) != SQLITE_TEXT) return TSR_OK;
  const char *text = (const char *)sqlite3_value_text(value);
  if (!text) return tsx_out_of_memory(error);
  if (!memchr(text, 0, (size_t)sqlite3_value_bytes(value))) return TSR_OK;
  return tsx_fail(error, TSR_MISMATCH, "%s has a NUL character behind '%.100s': leave it out", what, text);
}

/* ---- Names of fields --------------------------------------------------------------------------------------------- */
/* A stored name may contain any bytes, may be empty, and may differ from another one only in case. The columns of a
 * table need distinct names in UTF-8. tsx_names_make takes the fields in order and looks each name up in a hash set of
 * the names that are taken. */

char *tsx_name_text(const char *name) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  const uint8_t *p = (const uint8_t *)name;
  for (uint64_t left = strlen(name); left;) {
    unsigned size = tsr_utf8_size(p, left);
    if (size) sqlite3_str_append(out, (const char *)p, (int)size);
    else sqlite3_str_appendf(out, "%%%02X", *p);
    p += size ? size : 1;
    left -= size ? size : 1;
  }
  bool failed = sqlite3_str_errcode(out) != SQLITE_OK;
  char *text = sqlite3_str_finish(out);
  return text || failed ? text : sqlite3_mprintf("");
}

void tsx_name_append(sqlite3_str *list, const char *name) {
  char *text = tsx_name_text(name);
  sqlite3_str_appendf(list, "%s%s", sqlite3_str_length(list) ? ", " : "", text ? text : "");
  sqlite3_free(text);
}

typedef struct name_set { /* a hash set of the names that are taken, compared without regard to case */
  char **names; /* by field */
  uint32_t *slots; /* a field's number + 1; 0: the slot is free */
  uint32_t *numbers; /* by field: how many suffixes have been tried on its name */
  uint32_t mask; /* the number of slots, a power of two, minus 1 */
} name_set;

/* Returns the slot that holds a name, or the free slot where it belongs. The hash is seeded with an address, which
 * differs between calls, so the author of an array cannot choose names that all collide. */
static uint32_t find_slot(const name_set *set, const char *name) {
  uint64_t hash = 14695981039346656037u ^ (uintptr_t)set->names;
  for (const char *p = name; *p; p++) {
    uint8_t c = (uint8_t)*p;
    hash = (hash ^ (c >= 'A' && c <= 'Z' ? c + 32 : c)) * 1099511628211u;
  }
  uint32_t slot = (uint32_t)(hash ^ hash >> 32) & set->mask;
  while (set->slots[slot] && sqlite3_stricmp(set->names[set->slots[slot] - 1], name)) slot = (slot + 1) & set->mask;
  return slot;
}

static char *make_name(const tsr_schema *schema, uint32_t field, const name_set *set) {
  const tsr_field *f = &schema->fields[field];
  uint32_t number = f->is_dimension ? field : field - schema->dimension_count;
  char *base = *f->name ? tsx_name_text(f->name) : sqlite3_mprintf("%s%u", f->is_dimension ? "dim" : "attr", number);
  uint32_t holder = base ? set->slots[find_slot(set, base)] : 0;
  if (!holder) return base;
  char *name = NULL;
  for (uint32_t *n = &set->numbers[holder - 1];; sqlite3_free(name)) {
    name = sqlite3_mprintf("%s_%u", base, ++*n + 1);
    if (!name || !set->slots[find_slot(set, name)]) break;
  }
  sqlite3_free(base);
  return name;
}

char **tsx_names_make(const tsr_schema *schema) {
  uint64_t count = (uint64_t)schema->dimension_count + schema->attribute_count, slots = 4;
  while (slots < count * 2) slots *= 2;
  name_set set = {.mask = (uint32_t)(slots - 1)};
  set.names = sqlite3_malloc64((count + 1) * sizeof *set.names);
  set.slots = sqlite3_malloc64((slots + count) * sizeof *set.slots);
  bool failed = !set.names || !set.slots;
  if (set.names) memset(set.names, 0, (count + 1) * sizeof *set.names);
  if (set.slots) memset(set.slots, 0, (slots + count) * sizeof *set.slots);
  if (set.slots) set.numbers = set.slots + slots;
  for (uint32_t i = 0; i < count && !failed; i++) {
    set.names[i] = make_name(schema, i, &set);
    failed = !set.names[i];
    if (!failed) set.slots[find_slot(&set, set.names[i])] = i + 1;
  }
  sqlite3_free(set.slots);
  if (!failed) return set.names;
  tsx_names_free(set.names, schema);
  return NULL;
}

void tsx_names_free(char **names, const tsr_schema *schema) {
  for (uint32_t i = 0; names && i < schema->dimension_count + schema->attribute_count; i++) sqlite3_free(names[i]);
  sqlite3_free(names);
}

int tsx_names_fail(char *const *names, uint32_t first, uint32_t end, tsr_error *error, const char *format, ...) {
  char all[400] = "";
  tsr_error what;
  va_list arguments;
  va_start(arguments, format);
  (void)tsr_error_set(&what, TSR_ERROR, format, arguments);
  va_end(arguments);
  uint32_t f = first;
  for (size_t size = 0; f < end && size + strlen(names[f]) + 8 < sizeof all; f++) {
    sqlite3_snprintf((int)(sizeof all - size), all + size, "%s%s", size ? ", " : "", names[f]);
    size = strlen(all);
  }
  return tsx_fail(error, TSR_ERROR, "%s (it has %s%s)", what.message, all, f < end ? ", ..." : "");
}

/* ---- Names of tables --------------------------------------------------------------------------------------------- */

/* Parses one identifier, quoted as in SQL or not. Returns it, from sqlite3_malloc, and sets *end to the text after it.
 * Returns NULL if there is none or its quote is not closed; also if memory is lacking, and then *end is NULL. */
static char *parse_identifier(const char *p, const char **end) {
  char close = *p == '"' || *p == '`' || *p == '\'' ? *p : *p == '[' ? ']' : 0;
  char *name = sqlite3_malloc64(strlen(p) + 1), *to = name;
  *end = NULL;
  if (!name) return NULL;
  if (close) {
    for (p++; *p && (*p != close || (close != ']' && p[1] == close)); p++) {
      *to++ = *p;
      if (*p == close) p++;
    }
    if (*p++ != close) to = name; /* not closed */
  } else {
    while (*p && *p != '.' && !isspace((unsigned char)*p)) *to++ = *p++;
  }
  *to = 0;
  *end = p;
  if (to > name) return name;
  sqlite3_free(name);
  return NULL;
}

int tsx_table_name_parse(const char *text, char **schema, char **name, tsr_error *error) {
  const char *end = text;
  *schema = NULL;
  *name = parse_identifier(text, &end);
  if (*name && *end == '.') {
    *schema = *name;
    *name = parse_identifier(end + 1, &end);
  }
  if (*name && !*end) return TSR_OK;
  sqlite3_free(*schema);
  sqlite3_free(*name);
  *schema = *name = NULL;
  if (!end) return tsx_fail(error, TSR_NOMEM, "out of memory");
  return tsx_fail(error, TSR_ERROR,
                  "'%.100s' names no table: expected TABLE or SCHEMA.TABLE, a name with blanks in double quotes", text);
}

/* ---- Names of filters and orders --------------------------------------------------------------------------------- */

static const char *const filter_names[] = {
    [TSR_FILTER_GZIP] = "gzip",
    [TSR_FILTER_ZSTD] = "zstd",
    [TSR_FILTER_LZ4] = "lz4",
    [TSR_FILTER_RLE] = "rle",
    [TSR_FILTER_BZIP2] = "bzip2",
    [TSR_FILTER_DOUBLE_DELTA] = "double_delta",
    [TSR_FILTER_BIT_WIDTH_REDUCTION] = "bit_width_reduction",
    [TSR_FILTER_BITSHUFFLE] = "bitshuffle",
    [TSR_FILTER_BYTESHUFFLE] = "byteshuffle",
    [TSR_FILTER_POSITIVE_DELTA] = "positive_delta",
    [TSR_FILTER_AES_256_GCM] = "aes_256_gcm",
    [TSR_FILTER_MD5] = "md5",
    [TSR_FILTER_SHA256] = "sha256",
    [TSR_FILTER_DICTIONARY] = "dictionary",
    [TSR_FILTER_SCALE_FLOAT] = "scale_float",
    [TSR_FILTER_XOR] = "xor",
    [TSR_FILTER_WEBP] = "webp",
    [TSR_FILTER_DELTA] = "delta",
};

const char *tsx_filter_name(tsr_filter_type type) {
  return (unsigned)type < sizeof filter_names / sizeof *filter_names ? filter_names[type] : NULL;
}

const char *tsx_order_name(tsr_order order) {
  switch (order) {
  case TSR_ORDER_ROW: return "row";
  case TSR_ORDER_COL: return "col";
  case TSR_ORDER_GLOBAL: return "global";
  case TSR_ORDER_HILBERT: return "hilbert";
  default: return "unordered";
  }
}
