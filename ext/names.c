/* names.c: the names of dimensions, attributes and enumerations in SQL. Stored names are any bytes, may be empty, and
 * differ by case alone; columns need distinct names in UTF-8.
 */
#include "extension.h"

unsigned tsx_utf8_size(const uint8_t *p, uint64_t left) {
  unsigned size = p[0] < 0x80                   ? 1
                  : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
                  : p[0] >= 0xE0 && p[0] < 0xF0 ? 3
                  : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                                : 0;
  if (!size || size > left) return 0;
  for (unsigned i = 1; i < size; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if (size == 3 && ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] >= 0xA0))) return 0;
  if (size == 4 && ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] >= 0x90))) return 0;
  return size;
}

char *tsx_name_text(const char *name) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  const uint8_t *p = (const uint8_t *)name;
  for (uint64_t left = strlen(name); left;) {
    unsigned size = tsx_utf8_size(p, left);
    if (size) sqlite3_str_append(out, (const char *)p, (int)size);
    else sqlite3_str_appendf(out, "%%%02X", *p);
    p += size ? size : 1;
    left -= size ? size : 1;
  }
  bool empty = !sqlite3_str_length(out);
  char *text = sqlite3_str_finish(out);
  return text || !empty ? text : sqlite3_mprintf("");
}

static bool is_taken(char *const *names, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (!sqlite3_stricmp(names[i], name)) return true;
  return false;
}

static char *name_of(const tsr_schema *schema, uint32_t field, char *const *names) {
  const tsr_field *f = &schema->fields[field];
  uint32_t number = f->is_dimension ? field : field - schema->dimension_count;
  char *base = *f->name ? tsx_name_text(f->name) : sqlite3_mprintf("%s%u", f->is_dimension ? "dim" : "attr", number);
  if (!base || !is_taken(names, field, base)) return base;
  char *name = NULL;
  for (unsigned n = 2;; n++) {
    name = sqlite3_mprintf("%s_%u", base, n);
    if (!name || !is_taken(names, field, name)) break;
    sqlite3_free(name);
  }
  sqlite3_free(base);
  return name;
}

char **tsx_names_make(const tsr_schema *schema) {
  uint32_t count = schema->dimension_count + schema->attribute_count;
  char **names = sqlite3_malloc64((count + (uint64_t)1) * sizeof *names);
  if (!names) return NULL;
  memset(names, 0, (count + (uint64_t)1) * sizeof *names);
  for (uint32_t i = 0; i < count; i++)
    if (!(names[i] = name_of(schema, i, names))) {
      tsx_names_free(names, schema);
      return NULL;
    }
  return names;
}

void tsx_names_free(char **names, const tsr_schema *schema) {
  for (uint32_t i = 0; names && i < schema->dimension_count + schema->attribute_count; i++) sqlite3_free(names[i]);
  sqlite3_free(names);
}
