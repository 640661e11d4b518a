/* vcf_header.c: the headers of a TileDB-VCF dataset.
 *
 * Each sample has the header of the file it came from, with lines such as
 *   ##INFO=<ID=DP,Number=1,Type=Integer,Description="Depth">
 * INFO, FORMAT and FILTER share one numbering: PASS is 0, then each name in the order of its first line, unless the
 * line has a number of its own, IDX=. Stored records name their filters by these numbers.
 *
 * Sections: texts; indexes; lines; headers. */
#include "front/vcf.h"

#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

typedef struct part { /* of a header's text */
  const char *text;
  uint64_t size;
} part;

/* Finds `key=value` in the angle brackets of a line. A value in double quotes may have commas, and quotes after
 * backslashes. */
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
    if (quoted && line.text[i] == '\\') i++;
    else if (line.text[i] == '"') quoted = !quoted;
    start = !quoted && i < line.size && (line.text[i] == ',' || line.text[i] == '<');
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
  *out = sqlite3_malloc64(text.size + 1);
  if (!*out) return tsx_out_of_memory(error);
  if (text.size) memcpy(*out, text.text, text.size);
  (*out)[text.size] = 0;
  return TSR_OK;
}

/* ---- Indexes ----------------------------------------------------------------------------------------------------- */

/* A header of the human genome has thousands of contigs, and a dataset thousands of headers: each text is looked up. */

typedef struct tsx_vcf_slot {
  uint64_t hash;
  uint32_t item; /* + 1; 0: the slot is free */
} tsx_vcf_slot;

/* Moves to the next item with this hash. *step: 0 for the first one. Returns false if there is none. */
static bool index_next(const tsx_vcf_index *index, uint64_t hash, uint32_t *step, uint32_t *item) {
  while (*step < index->slot_count) {
    const tsx_vcf_slot *slot = &index->slots[(hash + (*step)++) & (index->slot_count - 1)];
    *item = slot->item - 1;
    if (!slot->item) return false;
    if (slot->hash == hash) return true;
  }
  return false;
}

static void index_put(tsx_vcf_index *index, uint64_t hash, uint32_t item) {
  uint64_t at = hash & (index->slot_count - 1);
  while (index->slots[at].item) at = (at + 1) & (index->slot_count - 1);
  index->slots[at] = (tsx_vcf_slot){hash, item + 1};
  index->count++;
}

static int index_add(tsx_vcf_index *index, uint64_t hash, uint32_t item, tsr_error *error) {
  if (2 * (index->count + UINT64_C(1)) > index->slot_count) {
    tsx_vcf_index more = {.slot_count = index->slot_count ? 2 * index->slot_count : 64};
    if (index->slot_count > UINT32_MAX / 4) return tsx_fail(error, TSR_TOOBIG, "the headers have too many names");
    more.slots = sqlite3_malloc64(more.slot_count * sizeof *more.slots);
    if (!more.slots) return tsx_out_of_memory(error);
    memset(more.slots, 0, more.slot_count * sizeof *more.slots);
    for (uint32_t i = 0; i < index->slot_count; i++)
      if (index->slots[i].item) index_put(&more, index->slots[i].hash, index->slots[i].item - 1);
    sqlite3_free(index->slots);
    *index = more;
  }
  index_put(index, hash, item);
  return TSR_OK;
}

/* Adds a text to a list with an index, unless it is there. */
static int add_text(tsx_vcf_index *index, uint64_t seed, char ***list, uint32_t *count, part text, tsr_error *error) {
  const uint64_t hash = tsr_hash(seed, text.text, text.size);
  uint32_t item;
  for (uint32_t step = 0; index_next(index, hash, &step, &item);)
    if (part_is(text, (*list)[item])) return TSR_OK;
  TSX_TRY(grow((void **)list, *count, sizeof(char *), error));
  TSX_TRY(copy(text, &(*list)[*count], error));
  return index_add(index, hash, (*count)++, error);
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

typedef struct numbering { /* of the header that is being read */
  tsx_vcf_names names;
  tsx_vcf_index index;
} numbering;

#define NUMBERS_MAX 100000u /* of the names of one header */
#define HOLES_MAX   (UINT64_C(1) << 22) /* numbers without a name, of all headers: a short line may leave out many */

/* Gives a name the number that filters call it by. */
static int add_name(numbering *n, uint64_t seed, part id, part number, tsr_error *error) {
  tsx_vcf_names *names = &n->names;
  uint64_t place = 0;
  if (number.size == 0) return add_text(&n->index, seed, &names->names, &names->count, id, error);
  for (uint64_t i = 0; i < number.size && place < NUMBERS_MAX; i++)
    place =
        number.text[i] >= '0' && number.text[i] <= '9' ? 10 * place + (uint64_t)(number.text[i] - '0') : NUMBERS_MAX;
  if (place >= NUMBERS_MAX) return TSR_OK;
  while (names->count <= place) {
    TSX_TRY(grow((void **)&names->names, names->count, sizeof(char *), error));
    names->names[names->count++] = NULL;
  }
  if (names->names[place]) return TSR_OK;
  TSX_TRY(copy(id, &names->names[place], error));
  return index_add(&n->index, tsr_hash(seed, id.text, id.size), (uint32_t)place, error);
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
  const uint64_t hash = tsr_hash(headers->seed ^ info, id.text, id.size);
  part number = {"", 0}, type = {"", 0};
  uint32_t item;
  for (uint32_t step = 0; index_next(&headers->field_index, hash, &step, &item);)
    if (headers->fields[item].info == info && part_is(id, headers->fields[item].id)) return TSR_OK;
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
  TSX_TRY(index_add(&headers->field_index, hash, headers->field_count - 1, error));
  TSX_TRY(copy(number, &field->number, error));
  return copy_description(line, &field->description, error);
}

static int add_line(tsx_vcf_headers *headers, numbering *n, part line, tsr_error *error) {
  static const char *const kinds[] = {"##INFO=<", "##FORMAT=<", "##FILTER=<", "##contig=<"};
  part id, number = {"", 0};
  for (int kind = 0; kind < 4; kind++) {
    const uint64_t size = strlen(kinds[kind]);
    if (line.size < size || memcmp(line.text, kinds[kind], size) != 0) continue;
    const part inside = {line.text + size - 1, line.size - size + 1};
    if (!find_key(inside, "ID", &id) || id.size == 0) return TSR_OK;
    if (kind == 3)
      return add_text(&headers->contig_index, headers->seed, &headers->contigs, &headers->contig_count, id, error);
    (void)find_key(inside, "IDX", &number);
    const int code = add_name(n, headers->seed, id, number, error);
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

static int add_lines(tsx_vcf_headers *headers, numbering *n, part text, tsr_error *error) {
  TSX_TRY(add_name(n, headers->seed, (part){"PASS", 4}, (part){"", 0}, error));
  for (uint64_t i = 0; i < text.size;) {
    const char *end = memchr(text.text + i, '\n', text.size - i);
    const uint64_t length = end ? (uint64_t)(end - text.text) - i : text.size - i;
    TSX_TRY(add_line(headers, n, (part){text.text + i, length}, error));
    i += length + 1;
  }
  return TSR_OK;
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

static uint64_t hash_names(uint64_t seed, const tsx_vcf_names *names) {
  for (uint32_t i = 0; i < names->count; i++) {
    const char *name = names->names[i];
    seed = tsr_hash(seed, name ? name : "", name ? strlen(name) : 0);
  }
  return seed;
}

/* Finds the numbering among those of earlier headers, or adds it and empties *names. */
static int number_of_names(tsx_vcf_headers *headers, tsx_vcf_names *names, uint32_t *number, tsr_error *error) {
  const uint64_t hash = hash_names(headers->seed, names);
  for (uint32_t step = 0; index_next(&headers->names_index, hash, &step, number);)
    if (same_names(&headers->names[*number], names)) return TSR_OK;
  *number = headers->names_count;
  for (uint32_t i = 0; i < names->count; i++) headers->holes += !names->names[i];
  if (headers->holes > HOLES_MAX) return tsx_fail(error, TSR_TOOBIG, "the headers have too many names");
  TSX_TRY(grow((void **)&headers->names, headers->names_count, sizeof *names, error));
  TSX_TRY(index_add(&headers->names_index, hash, *number, error));
  headers->names[headers->names_count++] = *names;
  *names = (tsx_vcf_names){0};
  return TSR_OK;
}

/* Reads the lines of a header. *number: that of its numbering. */
static int read_lines(tsx_vcf_headers *headers, part lines, uint32_t *number, tsr_error *error) {
  numbering n = {0};
  int code = add_lines(headers, &n, lines, error);
  if (code >= 0) code = number_of_names(headers, &n.names, number, error);
  free_texts(n.names.names, n.names.count);
  sqlite3_free(n.index.slots);
  return code;
}

/* Returns what precedes the line #CHROM, which names the samples: files of one source agree in it. */
static part shared_lines(part text) {
  static const char line[] = "\n#CHROM";
  const uint64_t size = sizeof line - 1;
  for (const char *at = text.text, *end = text.text + text.size; (uint64_t)(end - at) >= size; at++) {
    at = memchr(at, '\n', (uint64_t)(end - at) - size + 1);
    if (!at) break;
    if (!memcmp(at, line, size)) return (part){text.text, (uint64_t)(at - text.text)};
  }
  return text;
}

/* Finds the numbering of a header, whose lines are read unless they are those of the header before it. */
static int number_of_lines(tsx_vcf_headers *headers, part lines, uint32_t *number, tsr_error *error) {
  *number = headers->last_names;
  if (headers->last && headers->last_size == lines.size && !memcmp(headers->last, lines.text, lines.size))
    return TSR_OK;
  sqlite3_free(headers->last);
  headers->last = NULL;
  TSX_TRY(read_lines(headers, lines, number, error));
  headers->last_names = *number;
  headers->last_size = lines.size;
  return copy(lines, &headers->last, error);
}

int tsx_vcf_headers_add(tsx_vcf_headers *headers, const char *sample, uint64_t sample_size, const char *text,
                        uint64_t size, tsr_error *error) {
  uint32_t number;
  if (!headers->seed) sqlite3_randomness(sizeof headers->seed, &headers->seed);
  TSX_TRY(number_of_lines(headers, shared_lines((part){text, size}), &number, error));
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
  sqlite3_free(headers->field_index.slots);
  sqlite3_free(headers->contig_index.slots);
  sqlite3_free(headers->names_index.slots);
  sqlite3_free(headers->last);
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
