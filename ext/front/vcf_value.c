/* vcf_value.c: values of INFO and FORMAT, as TileDB-VCF stores them.
 *
 *   info, fmt        uint32 count, then for each: the name and a NUL, and a value
 *   info_X, fmt_X    one value
 *   a value          int32 type (0 flag, 1 integer, 2 float, 3 text), int32 n, n values of 4 bytes, of text 1 byte
 *
 * Integers and floats have htslib's bit patterns for "missing" and "end of the list". A genotype is a list of integers,
 * (allele + 1) << 1 | phased. */
#include "front/vcf.h"

#include <math.h>
#include <string.h>

#include "values/value.h"

#define INTEGER_MISSING INT32_MIN
#define INTEGER_END     (INT32_MIN + 1)
#define FLOAT_MISSING   UINT32_C(0x7F800001)
#define FLOAT_END       UINT32_C(0x7F800002)

static bool take_word(const uint8_t **at, uint64_t *left, uint32_t *word) {
  if (*left < 4) return false;
  memcpy(word, *at, 4);
  *at += 4;
  *left -= 4;
  return true;
}

/* Takes type, count and values. */
static int take_value(const uint8_t **at, uint64_t *left, tsx_vcf_value *value) {
  uint32_t type, count;
  if (!take_word(at, left, &type) || !take_word(at, left, &count) || type > 3) return TSR_CORRUPT;
  const uint64_t size = type == TSX_VCF_TEXT ? count : (uint64_t)count * 4;
  if (size > *left && !(type == TSX_VCF_FLAG && *left == 0)) return TSR_CORRUPT;
  value->type = (tsx_vcf_type)type;
  value->count = count;
  value->values = *at;
  const uint64_t taken = size < *left ? size : *left;
  *at += taken;
  *left -= taken;
  return 1;
}

int tsx_vcf_blob_open(const uint8_t *bytes, uint64_t size, tsx_vcf_blob *blob) {
  *blob = (tsx_vcf_blob){.at = bytes, .left = size};
  if (size <= 1) return TSR_OK; /* an empty cell, or one fill byte */
  return take_word(&blob->at, &blob->left, &blob->values) ? TSR_OK : TSR_CORRUPT;
}

int tsx_vcf_blob_next(tsx_vcf_blob *blob, tsx_vcf_value *value) {
  if (blob->values == 0) return 0;
  blob->values--;
  const uint8_t *end = blob->left ? memchr(blob->at, 0, blob->left) : NULL;
  if (!end) return TSR_CORRUPT;
  value->name = (const char *)blob->at;
  blob->left -= (uint64_t)(end - blob->at) + 1;
  blob->at = end + 1;
  return take_value(&blob->at, &blob->left, value);
}

int tsx_vcf_cell(const uint8_t *bytes, uint64_t size, tsx_vcf_value *value) {
  *value = (tsx_vcf_value){0};
  return size <= 1 ? 0 : take_value(&bytes, &size, value);
}

static uint32_t word_at(const tsx_vcf_value *value, uint32_t i) {
  uint32_t word;
  memcpy(&word, value->values + 4 * (uint64_t)i, 4);
  return word;
}

/* Returns true if the list ends before element `i`. */
static bool ends_at(const tsx_vcf_value *value, uint32_t i) {
  if (i >= value->count) return true;
  return value->type == TSX_VCF_INTEGER ? (int32_t)word_at(value, i) == INTEGER_END
                                        : value->type == TSX_VCF_FLOAT && word_at(value, i) == FLOAT_END;
}

static bool is_missing(const tsx_vcf_value *value, uint32_t i) {
  return value->type == TSX_VCF_INTEGER ? (int32_t)word_at(value, i) == INTEGER_MISSING
                                        : word_at(value, i) == FLOAT_MISSING;
}

/* Returns the size of a text without the NULs at its end; 0 if it is missing. */
static uint64_t text_size(const tsx_vcf_value *value) {
  uint64_t size = value->count;
  while (size > 0 && value->values[size - 1] == 0) size--;
  return size == 1 && (value->values[0] == '.' || value->values[0] == 7) ? 0 : size;
}

static float float_at(const tsx_vcf_value *value, uint32_t i) {
  const uint32_t word = word_at(value, i);
  float number;
  memcpy(&number, &word, 4);
  return number;
}

static void append_number(sqlite3_str *out, const tsx_vcf_value *value, uint32_t i) {
  const float number = value->type == TSX_VCF_FLOAT ? float_at(value, i) : 0;
  if (is_missing(value, i) || isnan(number)) sqlite3_str_appendall(out, "null");
  else if (value->type == TSX_VCF_INTEGER) sqlite3_str_appendf(out, "%d", (int32_t)word_at(value, i));
  else if (isinf(number)) sqlite3_str_appendall(out, number < 0 ? "-9e999" : "9e999");
  else sqlite3_str_appendf(out, "%!.9g", (double)number);
}

void tsx_vcf_json(sqlite3_str *out, const tsx_vcf_value *value, bool single) {
  const char *text = (const char *)value->values;
  uint64_t size = value->type == TSX_VCF_TEXT ? text_size(value) : 0;
  if (value->type == TSX_VCF_FLAG) {
    sqlite3_str_appendall(out, "1");
  } else if (value->type == TSX_VCF_TEXT && (single || size == 0)) {
    if (size == 0) sqlite3_str_appendall(out, "null");
    else tsx_json_text(out, text, size);
  } else if (value->type == TSX_VCF_TEXT) {
    sqlite3_str_appendchar(out, 1, '[');
    for (;;) {
      const char *comma = memchr(text, ',', size);
      const uint64_t part = comma ? (uint64_t)(comma - text) : size;
      if (part == 1 && *text == '.') sqlite3_str_appendall(out, "null");
      else tsx_json_text(out, text, part);
      if (!comma) break;
      sqlite3_str_appendchar(out, 1, ',');
      text += part + 1;
      size -= part + 1;
    }
    sqlite3_str_appendchar(out, 1, ']');
  } else if (single) {
    if (ends_at(value, 0)) sqlite3_str_appendall(out, "null");
    else append_number(out, value, 0);
  } else {
    for (uint32_t i = 0; !ends_at(value, i); i++) {
      sqlite3_str_appendchar(out, 1, i ? ',' : '[');
      append_number(out, value, i);
    }
    sqlite3_str_appendall(out, ends_at(value, 0) ? "null" : "]");
  }
}

/* Returns true if nothing of a value is there. Of a `single` value only the first element counts. */
static bool is_null(const tsx_vcf_value *value, bool single) {
  if (value->type == TSX_VCF_FLAG) return false;
  if (value->type == TSX_VCF_TEXT) return text_size(value) == 0;
  return ends_at(value, 0) || (is_missing(value, 0) && (single || ends_at(value, 1)));
}

void tsx_vcf_result(sqlite3_context *context, const tsx_vcf_value *value, bool single) {
  if (is_null(value, single)) return;
  if (value->type == TSX_VCF_FLAG) {
    sqlite3_result_int(context, 1);
  } else if (!single) {
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    tsx_vcf_json(out, value, false);
    tsx_result_string(context, out);
  } else if (value->type == TSX_VCF_INTEGER) {
    sqlite3_result_int(context, (int32_t)word_at(value, 0));
  } else if (value->type == TSX_VCF_FLOAT) {
    sqlite3_result_double(context, (double)float_at(value, 0));
  } else {
    sqlite3_result_text64(context, (const char *)value->values, text_size(value), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
}

bool tsx_vcf_genotype(sqlite3_str *out, const tsx_vcf_value *value) {
  uint32_t phased = 0, i = 0;
  for (; value->type == TSX_VCF_INTEGER && !ends_at(value, i); i++) {
    const int32_t word = (int32_t)word_at(value, i);
    if (i > 0) sqlite3_str_appendchar(out, 1, word & 1 ? '|' : '/');
    phased += i > 0 && word & 1;
    if (word == INTEGER_MISSING || word >> 1 <= 0) sqlite3_str_appendchar(out, 1, '.');
    else sqlite3_str_appendf(out, "%d", (word >> 1) - 1);
  }
  return i > 1 && phased == i - 1;
}
