/* vcf_header.c: the headers of a TileDB-VCF dataset.
 *
 * Each sample has the header of the file it came from, with lines such as
 *   ##INFO=<ID=DP,Number=1,Type=Integer,Description="Depth">
 * INFO, FORMAT and FILTER share one numbering: PASS is 0, then each name in the order of its first line, unless the line
 * has a number of its own, IDX=. Stored records name their filters by these numbers. */
#include "front/vcf.h"

#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"

typedef struct part { /* of a header's text */
  const char *text;
  uint64_t size;
} part;

/* Finds `key=value` in the angle brackets of a line. A value in double quotes may have commas. */
static bool find_key(part line, const char *key, part *value) {
  const uint64_t size = strlen(key);
  bool quoted = false, start = true;
  for (uint64_t i = 0; i < line.size; i++) {
    if (start && line.size - i > size && !memcmp(line.text + i, key, size) && line.text[i + size] == '=') {
      uint64_t end = i += size + 1;
      while (end < line.size && line.text[end] != ',' && line.text[end] != '>') end++;
      *value = (part){line.text + i, end - i};
      return true;
    }
    if (line.text[i] == '"') quoted = !quoted;
    start = !quoted && (line.text[i] == ',' || line.text[i] == '<');
  }
  return false;
}

static bool part_is(part a, const char *text) { return a.size == strlen(text) && !memcmp(a.text, text, a.size); }

/* Makes room for one more element. */
static int grow(void **list, uint32_t count, uint64_t size, tsr_error *error) {
  if (count & (count - 1)) return TSR_OK;
  void *more = sqlite3_realloc64(*list, (count ? 2 * (uint64_t)count : 1) * size);
  if (!more) return tsx_out_of_memory(error);
  *list = more;
  return TSR_OK;
}

static int copy(part text, char **out, tsr_error *error) {
  *out = sqlite3_mprintf("%.*s", (int)(text.size < 10000 ? text.size : 10000), text.text);
  return *out ? TSR_OK : tsx_out_of_memory(error);
}

static int add_text(char ***list, uint32_t *count, part text, tsr_error *error) {
  for (uint32_t i = 0; i < *count; i++)
    if ((*list)[i] && part_is(text, (*list)[i])) return TSR_OK;
  TSX_TRY(grow((void **)list, *count, sizeof(char *), error));
  TSX_TRY(copy(text, &(*list)[*count], error));
  ++*count;
  return TSR_OK;
}

#define NUMBERS_MAX 100000u /* of the names of one header */

/* Gives a name the number that filters call it by. */
static int add_name(tsx_vcf_names *names, part id, part number, tsr_error *error) {
  uint64_t place = 0;
  if (number.size == 0) return add_text(&names->names, &names->count, id, error);
  for (uint64_t i = 0; i < number.size && place < NUMBERS_MAX; i++)
    place =
        number.text[i] >= '0' && number.text[i] <= '9' ? 10 * place + (uint64_t)(number.text[i] - '0') : NUMBERS_MAX;
  if (place >= NUMBERS_MAX) return TSR_OK;
  while (names->count <= place) {
    TSX_TRY(grow((void **)&names->names, names->count, sizeof(char *), error));
    names->names[names->count++] = NULL;
  }
  if (names->names[place]) return TSR_OK;
  return copy(id, &names->names[place], error);
}

/* Copies the value of Description, without its quotes; in it a backslash quotes a quote. */
static int copy_description(part line, char **out, tsr_error *error) {
  part found;
  sqlite3_str *text = sqlite3_str_new(NULL);
  const char *end = line.text + line.size;
  if (find_key(line, "Description", &found)) {
    const bool quoted = found.text < end && *found.text == '"';
    for (const char *at = found.text + quoted; at < end && *at != (quoted ? '"' : ','); at++) {
      if (quoted && *at == '\\' && at + 1 < end) at++;
      sqlite3_str_appendchar(text, 1, *at);
    }
  }
  const bool empty = sqlite3_str_length(text) == 0 && sqlite3_str_errcode(text) == SQLITE_OK;
  *out = sqlite3_str_finish(text);
  return *out || empty ? TSR_OK : tsx_out_of_memory(error);
}

static int add_field(tsx_vcf_headers *headers, bool info, part id, part line, tsr_error *error) {
  part number = {"", 0}, type = {"", 0};
  for (uint32_t i = 0; i < headers->field_count; i++)
    if (headers->fields[i].info == info && part_is(id, headers->fields[i].id)) return TSR_OK;
  TSX_TRY(grow((void **)&headers->fields, headers->field_count, sizeof *headers->fields, error));
  (void)find_key(line, "Number", &number);
  (void)find_key(line, "Type", &type);
  tsx_vcf_field *field = &headers->fields[headers->field_count];
  *field = (tsx_vcf_field){.info = info,
                           .single = part_is(number, "1") || part_is(number, "0"),
                           .type = part_is(type, "Integer") ? TSX_VCF_INTEGER
                                   : part_is(type, "Float") ? TSX_VCF_FLOAT
                                   : part_is(type, "Flag")  ? TSX_VCF_FLAG
                                                            : TSX_VCF_TEXT};
  headers->field_count++;
  TSX_TRY(copy(id, &field->id, error));
  TSX_TRY(copy(number, &field->number, error));
  return copy_description(line, &field->description, error);
}

static int add_line(tsx_vcf_headers *headers, tsx_vcf_names *names, part line, tsr_error *error) {
  static const char *const kinds[] = {"##INFO=<", "##FORMAT=<", "##FILTER=<", "##contig=<"};
  part id, number = {"", 0};
  for (int kind = 0; kind < 4; kind++) {
    const uint64_t size = strlen(kinds[kind]);
    if (line.size < size || memcmp(line.text, kinds[kind], size) != 0) continue;
    const part inside = {line.text + size - 1, line.size - size + 1};
    if (!find_key(inside, "ID", &id) || id.size == 0) return TSR_OK;
    if (kind == 3) return add_text(&headers->contigs, &headers->contig_count, id, error);
    (void)find_key(inside, "IDX", &number);
    const int code = add_name(names, id, number, error);
    return code < 0 || kind == 2 ? code : add_field(headers, kind == 0, id, inside, error);
  }
  return TSR_OK;
}

static void free_texts(char **texts, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) sqlite3_free(texts[i]);
  sqlite3_free(texts);
}

static bool same_names(const tsx_vcf_names *a, const tsx_vcf_names *b) {
  bool same = a->count == b->count;
  for (uint32_t i = 0; i < a->count && same; i++)
    same = a->names[i] && b->names[i] ? !strcmp(a->names[i], b->names[i]) : a->names[i] == b->names[i];
  return same;
}

static int add_lines(tsx_vcf_headers *headers, tsx_vcf_names *names, const char *text, uint64_t size,
                     tsr_error *error) {
  TSX_TRY(add_name(names, (part){"PASS", 4}, (part){"", 0}, error));
  for (uint64_t i = 0; i < size;) {
    const char *end = memchr(text + i, '\n', size - i);
    const uint64_t length = end ? (uint64_t)(end - text) - i : size - i;
    TSX_TRY(add_line(headers, names, (part){text + i, length}, error));
    i += length + 1;
  }
  return TSR_OK;
}

/* Finds the numbering among those of earlier headers, or adds it and empties *names. */
static int number_of_names(tsx_vcf_headers *headers, tsx_vcf_names *names, uint32_t *number, tsr_error *error) {
  for (*number = 0; *number < headers->names_count; ++*number)
    if (same_names(&headers->names[*number], names)) return TSR_OK;
  TSX_TRY(grow((void **)&headers->names, headers->names_count, sizeof *names, error));
  headers->names[headers->names_count++] = *names;
  *names = (tsx_vcf_names){0};
  return TSR_OK;
}

int tsx_vcf_headers_add(tsx_vcf_headers *headers, const char *sample, uint64_t sample_size, const char *text,
                        uint64_t size, tsr_error *error) {
  tsx_vcf_names names = {0};
  uint32_t number = 0;
  int code = add_lines(headers, &names, text, size, error);
  if (code >= 0) code = number_of_names(headers, &names, &number, error);
  free_texts(names.names, names.count);
  if (code < 0) return code;
  TSX_TRY(grow((void **)&headers->samples, headers->sample_count, sizeof *headers->samples, error));
  tsx_vcf_sample *added = &headers->samples[headers->sample_count];
  *added = (tsx_vcf_sample){.names = number};
  TSX_TRY(copy((part){sample, sample_size}, &added->name, error));
  headers->sample_count++;
  return headers->keeps_texts ? copy((part){text, size}, &added->header, error) : TSR_OK;
}

static int compare_samples(const void *a, const void *b) {
  return strcmp(((const tsx_vcf_sample *)a)->name, ((const tsx_vcf_sample *)b)->name);
}

void tsx_vcf_headers_sort(tsx_vcf_headers *headers) {
  if (headers->sample_count > 1)
    qsort(headers->samples, headers->sample_count, sizeof *headers->samples, compare_samples);
}

void tsx_vcf_headers_free(tsx_vcf_headers *headers) {
  for (uint32_t i = 0; i < headers->field_count; i++) {
    sqlite3_free(headers->fields[i].id);
    sqlite3_free(headers->fields[i].number);
    sqlite3_free(headers->fields[i].description);
  }
  for (uint32_t i = 0; i < headers->names_count; i++) free_texts(headers->names[i].names, headers->names[i].count);
  for (uint32_t i = 0; i < headers->sample_count; i++) {
    sqlite3_free(headers->samples[i].name);
    sqlite3_free(headers->samples[i].header);
  }
  free_texts(headers->contigs, headers->contig_count);
  sqlite3_free(headers->fields);
  sqlite3_free(headers->names);
  sqlite3_free(headers->samples);
  *headers = (tsx_vcf_headers){0};
}

const char *tsx_vcf_filter_name(const tsx_vcf_headers *headers, const char *sample, uint64_t size, uint32_t number) {
  uint32_t low = 0, high = headers->sample_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const char *name = headers->samples[middle].name;
    const int order = strncmp(name, sample, size);
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  if (low == headers->sample_count || !part_is((part){sample, size}, headers->samples[low].name)) return NULL;
  const tsx_vcf_names *names = &headers->names[headers->samples[low].names];
  return number < names->count ? names->names[number] : NULL;
}
