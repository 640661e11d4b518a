/* xml.c: reads XML.
 *
 * The reader keeps the names of the open elements, at most 16. Its time and its allocations are bounded by the size of
 * the input. */
#include "remote/xml.h"

#include <string.h>

int tsr__xml_fail(const tsr_xml *xml, const char *what, tsr_error *error) {
  return tsr__fail(error, TSR_CORRUPT, "the answer of the object store is wrong at byte %llu of %llu: %s",
                   (unsigned long long)(xml->at - xml->start), (unsigned long long)(xml->end - xml->start), what);
}

bool tsr__xml_is(tsr_xml_name name, const char *wanted) {
  return name.size == strlen(wanted) && memcmp(name.text, wanted, name.size) == 0;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static bool xml_has(const tsr_xml *xml, const char *prefix) {
  const uint64_t size = strlen(prefix);
  return (uint64_t)(xml->end - xml->at) >= size && memcmp(xml->at, prefix, size) == 0;
}

/* Advances past the next occurrence of `mark`. */
static int pass_mark(tsr_xml *xml, const char *mark, tsr_error *error) {
  for (; xml->at < xml->end; xml->at++) {
    if (!xml_has(xml, mark)) continue;
    xml->at += strlen(mark);
    return TSR_OK;
  }
  return tsr__xml_fail(xml, "it ends early", error);
}

/* Skips a comment or a processing instruction. Returns 1, or 0 if there is neither. */
static int pass_remark(tsr_xml *xml, tsr_error *error) {
  if (xml_has(xml, "<!--")) {
    xml->at += 4;
    TSR_TRY(pass_mark(xml, "-->", error));
    return 1;
  }
  if (xml_has(xml, "<?")) {
    TSR_TRY(pass_mark(xml, "?>", error));
    return 1;
  }
  return 0;
}

static void pass_space(tsr_xml *xml) {
  while (xml->at < xml->end && is_space(*xml->at)) xml->at++;
}

/* Reads a name, which ends at a space, '/', '>' or '='. */
static int take_name(tsr_xml *xml, tsr_xml_name *name, tsr_error *error) {
  const char *first = xml->at;
  while (xml->at < xml->end && !is_space(*xml->at) && !strchr("/>=<&\"'", *xml->at)) xml->at++;
  *name = (tsr_xml_name){first, (uint64_t)(xml->at - first)};
  if (xml->at == xml->end) return tsr__xml_fail(xml, "it ends early", error);
  if (name->size == 0 || name->size > TSR_XML_NAME_MAX) return tsr__xml_fail(xml, "a tag without a name", error);
  return TSR_OK;
}

static tsr_xml_name without_prefix(tsr_xml_name name) {
  const char *colon = memchr(name.text, ':', name.size);
  if (!colon) return name;
  return (tsr_xml_name){colon + 1, name.size - (uint64_t)(colon + 1 - name.text)};
}

/* Skips name="value" or name='value', and notes Encoded="true". */
static int pass_attribute(tsr_xml *xml, tsr_error *error) {
  tsr_xml_name name;
  TSR_TRY(take_name(xml, &name, error));
  pass_space(xml);
  if (!xml_has(xml, "=")) return tsr__xml_fail(xml, "an attribute without a value", error);
  xml->at++;
  pass_space(xml);
  if (!xml_has(xml, "\"") && !xml_has(xml, "'")) return tsr__xml_fail(xml, "a value without quotes", error);
  const char quote[2] = {*xml->at++, 0};
  const char *value = xml->at;
  TSR_TRY(pass_mark(xml, quote, error));
  if (tsr__xml_is(name, "Encoded"))
    xml->encoded = tsr__xml_is((tsr_xml_name){value, (uint64_t)(xml->at - value) - 1}, "true");
  return TSR_OK;
}

/* Reads a start tag after its '<'. */
static int open_element(tsr_xml *xml, tsr_xml_name *name, tsr_error *error) {
  tsr_xml_name whole;
  if (xml->depth == TSR_XML_DEPTH_MAX) return tsr__xml_fail(xml, "elements are nested too deeply", error);
  TSR_TRY(take_name(xml, &whole, error));
  xml->encoded = false;
  for (;;) {
    pass_space(xml);
    if (xml->at == xml->end) return tsr__xml_fail(xml, "it ends early", error);
    if (*xml->at == '>' || *xml->at == '/') break;
    TSR_TRY(pass_attribute(xml, error));
  }
  xml->empty = *xml->at == '/';
  if (xml->empty) xml->at++;
  if (!xml_has(xml, ">")) return tsr__xml_fail(xml, "a start tag without its end", error);
  xml->at++;
  xml->names[xml->depth++] = whole;
  *name = without_prefix(whole);
  return TSR_OK;
}

/* Reads an end tag after its "</". */
static int close_element(tsr_xml *xml, tsr_error *error) {
  tsr_xml_name name;
  const tsr_xml_name wanted = xml->names[xml->depth - 1];
  TSR_TRY(take_name(xml, &name, error));
  if (name.size != wanted.size || memcmp(name.text, wanted.text, name.size) != 0)
    return tsr__xml_fail(xml, "an end tag that does not belong to its start tag", error);
  pass_space(xml);
  if (!xml_has(xml, ">")) return tsr__xml_fail(xml, "an end tag without its end", error);
  xml->at++;
  xml->depth--;
  return TSR_OK;
}

int tsr__xml_open(tsr_xml *xml, const void *bytes, uint64_t size, tsr_arena *arena, tsr_xml_name *name,
                  tsr_error *error) {
  const char *text = size > 0 ? bytes : "";
  *xml = (tsr_xml){.start = text, .at = text, .end = text + size, .arena = arena};
  if (xml_has(xml, "\xef\xbb\xbf")) xml->at += 3;
  int rc;
  do {
    pass_space(xml);
    TSR_TRY(rc = pass_remark(xml, error));
  } while (rc > 0);
  if (!xml_has(xml, "<")) return tsr__xml_fail(xml, "it is not XML", error);
  if (xml_has(xml, "<!")) return tsr__xml_fail(xml, "a document type is not allowed", error);
  xml->at++;
  return open_element(xml, name, error);
}

int tsr__xml_child(tsr_xml *xml, tsr_xml_name *name, tsr_error *error) {
  if (xml->empty) {
    xml->empty = false;
    xml->depth--;
    return 0;
  }
  for (;;) {
    const char *tag = memchr(xml->at, '<', (uint64_t)(xml->end - xml->at));
    xml->at = tag ? tag : xml->end;
    if (!tag) return tsr__xml_fail(xml, "it ends early", error);
    if (xml_has(xml, "</")) {
      xml->at += 2;
      TSR_TRY(close_element(xml, error));
      return 0;
    }
    if (xml_has(xml, "<![CDATA[")) {
      TSR_TRY(pass_mark(xml, "]]>", error));
      continue;
    }
    const int rc = pass_remark(xml, error);
    if (rc < 0) return rc;
    if (rc > 0) continue;
    if (xml_has(xml, "<!")) return tsr__xml_fail(xml, "a declaration is not allowed", error);
    xml->at++;
    TSR_TRY(open_element(xml, name, error));
    return 1;
  }
}

int tsr__xml_skip(tsr_xml *xml, tsr_error *error) {
  tsr_xml_name name;
  const uint32_t outside = xml->depth - 1;
  while (xml->depth > outside) TSR_TRY(tsr__xml_child(xml, &name, error));
  return TSR_OK;
}

int tsr__xml_close(tsr_xml *xml, tsr_error *error) {
  int rc;
  do {
    pass_space(xml);
    TSR_TRY(rc = pass_remark(xml, error));
  } while (rc > 0);
  return xml->at == xml->end ? TSR_OK : tsr__xml_fail(xml, "something follows its end", error);
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* A text that is being decoded. */
typedef struct xml_writer {
  char *out; /* NULL: count only */
  uint64_t size;
} xml_writer;

static void put_byte(xml_writer *w, uint32_t byte) {
  if (w->out) w->out[w->size] = (char)(uint8_t)byte;
  w->size++;
}

static void put_character(xml_writer *w, uint32_t c) {
  if (c < 0x80) {
    put_byte(w, c);
    return;
  }
  if (c < 0x800) {
    put_byte(w, 0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put_byte(w, 0xe0 | c >> 12);
    } else {
      put_byte(w, 0xf0 | c >> 18);
      put_byte(w, 0x80 | (c >> 12 & 0x3f));
    }
    put_byte(w, 0x80 | (c >> 6 & 0x3f));
  }
  put_byte(w, 0x80 | (c & 0x3f));
}

/* Reads the digits of a character reference after its "&#". */
static int take_reference(tsr_xml *xml, xml_writer *w, tsr_error *error) {
  const bool hex = xml_has(xml, "x");
  uint32_t value = 0, digits = 0;
  if (hex) xml->at++;
  for (; xml->at < xml->end && *xml->at != ';' && value <= 0x10ffff; xml->at++, digits++) {
    const char c = *xml->at;
    uint32_t digit = 99;
    if (c >= '0' && c <= '9') digit = (uint32_t)(c - '0');
    else if (hex && c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a') + 10;
    else if (hex && c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A') + 10;
    if (digit == 99) return tsr__xml_fail(xml, "a character reference without digits", error);
    value = value * (hex ? 16 : 10) + digit;
  }
  if (digits == 0 || value == 0 || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff) || !xml_has(xml, ";"))
    return tsr__xml_fail(xml, "a character reference to no character", error);
  xml->at++;
  put_character(w, value);
  return TSR_OK;
}

/* Reads an entity after its '&'. */
static int take_entity(tsr_xml *xml, xml_writer *w, tsr_error *error) {
  static const struct {
    const char *name;
    char value;
  } entities[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
  if (xml_has(xml, "#")) {
    xml->at++;
    return take_reference(xml, w, error);
  }
  for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
    if (!xml_has(xml, entities[i].name)) continue;
    xml->at += strlen(entities[i].name);
    put_byte(w, (uint8_t)entities[i].value);
    return TSR_OK;
  }
  return tsr__xml_fail(xml, "an unknown entity", error);
}

static int take_cdata(tsr_xml *xml, xml_writer *w, tsr_error *error) {
  xml->at += strlen("<![CDATA[");
  for (; !xml_has(xml, "]]>"); xml->at++) {
    if (xml->at == xml->end) return tsr__xml_fail(xml, "it ends early", error);
    if (*xml->at == 0) return tsr__xml_fail(xml, "a NUL byte", error);
    put_byte(w, (uint8_t)*xml->at);
  }
  xml->at += 3;
  return TSR_OK;
}

/* Decodes text up to the end tag, and stops before it. */
static int decode_text(tsr_xml *xml, xml_writer *w, tsr_error *error) {
  while (!xml_has(xml, "</")) {
    if (xml->at == xml->end) return tsr__xml_fail(xml, "it ends early", error);
    if (w->size > TSR_XML_TEXT_MAX) return tsr__xml_fail(xml, "a text is too long", error);
    const char c = *xml->at;
    if (c == '&') {
      xml->at++;
      TSR_TRY(take_entity(xml, w, error));
    } else if (c == '<') {
      int rc = TSR_OK;
      if (xml_has(xml, "<![CDATA[")) rc = take_cdata(xml, w, error);
      else if ((rc = pass_remark(xml, error)) == 0)
        rc = tsr__xml_fail(xml, "an element where there should be a text", error);
      if (rc < 0) return rc;
    } else if (c == 0) {
      return tsr__xml_fail(xml, "a NUL byte", error);
    } else {
      put_byte(w, (uint8_t)c);
      xml->at++;
    }
  }
  if (w->size > TSR_XML_TEXT_MAX) return tsr__xml_fail(xml, "a text is too long", error);
  return TSR_OK;
}

int tsr__xml_text(tsr_xml *xml, const char **text, tsr_error *error) {
  xml_writer counter = {0}, writer = {0};
  if (xml->empty) {
    xml->empty = false;
    xml->depth--;
    *text = "";
    return TSR_OK;
  }
  const char *first = xml->at;
  TSR_TRY(decode_text(xml, &counter, error));
  TSR_TRY(TSR_ARENA_RAW(xml->arena, counter.size + 1, &writer.out, error));
  xml->at = first;
  TSR_TRY(decode_text(xml, &writer, error));
  writer.out[writer.size] = 0;
  xml->at += 2;
  TSR_TRY(close_element(xml, error));
  *text = writer.out;
  return TSR_OK;
}
