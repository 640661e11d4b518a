/* s3_response.c: parses the XML answers of S3.
 *
 * First comes the XML reader (xml.h), which keeps the names of the open elements, at most 16. Its time and its
 * allocations are bounded by the size of the input. Its functions pull: xml_open opens the root, xml_child the
 * next child of the innermost open element, xml_text reads an element's text and closes it, xml_skip skips to its
 * end, xml_close checks what follows the root. They fail with TSR_CORRUPT for anything that is not XML of this kind,
 * with the position in the message.
 *
 * Then come the answers. Each kind is a table of the elements that matter; all others are skipped.
 */
#include "remote/s3_response.h"

#include <string.h>

#include "remote/xml.h"
#include "base/arithmetic.h"
#include "remote/http_response.h"

/* Fails with TSR_CORRUPT; also for callers that find a value invalid. */
static int xml_fail(const tsr_xml *xml, const char *what, tsr_error *error) {
  return tsr__fail(error, TSR_CORRUPT, "the answer of the object store is wrong at byte %llu of %llu: %s",
                   (unsigned long long)(xml->at - xml->start), (unsigned long long)(xml->end - xml->start), what);
}

static bool xml_is(tsr_xml_name name, const char *wanted) {
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
  return xml_fail(xml, "it ends early", error);
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
  if (xml->at == xml->end) return xml_fail(xml, "it ends early", error);
  if (name->size == 0 || name->size > TSR_XML_NAME_MAX) return xml_fail(xml, "a tag without a name", error);
  return TSR_OK;
}

static tsr_xml_name without_prefix(tsr_xml_name name) {
  const char *colon = memchr(name.text, ':', name.size);
  if (!colon) return name;
  return (tsr_xml_name){colon + 1, name.size - (uint64_t)(colon + 1 - name.text)};
}

/* Skips name="value" or name='value'. */
static int pass_attribute(tsr_xml *xml, tsr_error *error) {
  tsr_xml_name name;
  TSR_TRY(take_name(xml, &name, error));
  pass_space(xml);
  if (!xml_has(xml, "=")) return xml_fail(xml, "an attribute without a value", error);
  xml->at++;
  pass_space(xml);
  if (!xml_has(xml, "\"") && !xml_has(xml, "'")) return xml_fail(xml, "a value without quotes", error);
  const char quote[2] = {*xml->at++, 0};
  return pass_mark(xml, quote, error);
}

/* Reads a start tag after its '<'. */
static int open_element(tsr_xml *xml, tsr_xml_name *name, tsr_error *error) {
  tsr_xml_name whole;
  if (xml->depth == TSR_XML_DEPTH_MAX) return xml_fail(xml, "elements are nested too deeply", error);
  TSR_TRY(take_name(xml, &whole, error));
  for (;;) {
    pass_space(xml);
    if (xml->at == xml->end) return xml_fail(xml, "it ends early", error);
    if (*xml->at == '>' || *xml->at == '/') break;
    TSR_TRY(pass_attribute(xml, error));
  }
  xml->empty = *xml->at == '/';
  if (xml->empty) xml->at++;
  if (!xml_has(xml, ">")) return xml_fail(xml, "a start tag without its end", error);
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
    return xml_fail(xml, "an end tag that does not belong to its start tag", error);
  pass_space(xml);
  if (!xml_has(xml, ">")) return xml_fail(xml, "an end tag without its end", error);
  xml->at++;
  xml->depth--;
  return TSR_OK;
}

/* Starts reading and opens the root element. *name: its name without a prefix. */
static int xml_open(tsr_xml *xml, const void *bytes, uint64_t size, tsr_arena *arena, tsr_xml_name *name,
                    tsr_error *error) {
  const char *text = size > 0 ? bytes : "";
  *xml = (tsr_xml){.start = text, .at = text, .end = text + size, .arena = arena};
  if (xml_has(xml, "\xef\xbb\xbf")) xml->at += 3;
  int rc;
  do {
    pass_space(xml);
    TSR_TRY(rc = pass_remark(xml, error));
  } while (rc > 0);
  if (!xml_has(xml, "<")) return xml_fail(xml, "it is not XML", error);
  if (xml_has(xml, "<!")) return xml_fail(xml, "a document type is not allowed", error);
  xml->at++;
  return open_element(xml, name, error);
}

/* Opens the next child of the innermost open element, skipping text before it, and returns 1. If there is none, closes
 * the innermost element and returns 0. */
static int xml_child(tsr_xml *xml, tsr_xml_name *name, tsr_error *error) {
  if (xml->empty) {
    xml->empty = false;
    xml->depth--;
    return 0;
  }
  for (;;) {
    const char *tag = memchr(xml->at, '<', (uint64_t)(xml->end - xml->at));
    xml->at = tag ? tag : xml->end;
    if (!tag) return xml_fail(xml, "it ends early", error);
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
    if (xml_has(xml, "<!")) return xml_fail(xml, "a declaration is not allowed", error);
    xml->at++;
    TSR_TRY(open_element(xml, name, error));
    return 1;
  }
}

/* Skips the rest of the innermost open element and closes it. */
static int xml_skip(tsr_xml *xml, tsr_error *error) {
  tsr_xml_name name;
  const uint32_t outside = xml->depth - 1;
  while (xml->depth > outside) TSR_TRY(xml_child(xml, &name, error));
  return TSR_OK;
}

/* Checks that only space, comments and processing instructions follow the root element, which is closed. */
static int xml_close(tsr_xml *xml, tsr_error *error) {
  int rc;
  do {
    pass_space(xml);
    TSR_TRY(rc = pass_remark(xml, error));
  } while (rc > 0);
  return xml->at == xml->end ? TSR_OK : xml_fail(xml, "something follows its end", error);
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
    if (digit == 99) return xml_fail(xml, "a character reference without digits", error);
    value = value * (hex ? 16 : 10) + digit;
  }
  if (digits == 0 || value == 0 || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff) || !xml_has(xml, ";"))
    return xml_fail(xml, "a character reference to no character", error);
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
  return xml_fail(xml, "an unknown entity", error);
}

static int take_cdata(tsr_xml *xml, xml_writer *w, tsr_error *error) {
  xml->at += strlen("<![CDATA[");
  for (; !xml_has(xml, "]]>"); xml->at++) {
    if (xml->at == xml->end) return xml_fail(xml, "it ends early", error);
    if (*xml->at == 0) return xml_fail(xml, "a NUL byte", error);
    put_byte(w, (uint8_t)*xml->at);
  }
  xml->at += 3;
  return TSR_OK;
}

/* Decodes text up to the end tag, and stops before it. */
static int decode_text(tsr_xml *xml, xml_writer *w, tsr_error *error) {
  while (!xml_has(xml, "</")) {
    if (xml->at == xml->end) return xml_fail(xml, "it ends early", error);
    if (w->size > TSR_XML_TEXT_MAX) return xml_fail(xml, "a text is too long", error);
    const char c = *xml->at;
    if (c == '&') {
      xml->at++;
      TSR_TRY(take_entity(xml, w, error));
    } else if (c == '<') {
      int rc = TSR_OK;
      if (xml_has(xml, "<![CDATA[")) rc = take_cdata(xml, w, error);
      else if ((rc = pass_remark(xml, error)) == 0)
        rc = xml_fail(xml, "an element where there should be a text", error);
      if (rc < 0) return rc;
    } else if (c == 0) {
      return xml_fail(xml, "a NUL byte", error);
    } else {
      put_byte(w, (uint8_t)c);
      xml->at++;
    }
  }
  if (w->size > TSR_XML_TEXT_MAX) return xml_fail(xml, "a text is too long", error);
  return TSR_OK;
}

/* Reads the text of the innermost open element, which must have no children, and closes it. *text: decoded, in the
 * arena, NUL-terminated, without NUL bytes inside. Errors: also TSR_BUDGET, TSR_NOMEM. */
static int xml_text(tsr_xml *xml, const char **text, tsr_error *error) {
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

/* ---- Fields ----------------------------------------------------------------------------------
 *
 * Each kind of answer is a table of the elements that matter; all others are skipped. A repeated element that may occur
 * only once is rejected, and so is a malformed value: a partly understood listing would be a listing with missing
 * files. */

/* A child element that matters: a text, or an element with its own reader. */
typedef struct answer_field {
  const char *name;
  const char **text; /* initially NULL; set to the element's text */
  int (*read)(tsr_xml *xml, void *into, tsr_error *error); /* used if `text` is NULL; closes the element */
  void *into; /* passed to `read` */
} answer_field;

/* Reads the children of the innermost open element and closes it. */
static int read_fields(tsr_xml *xml, const answer_field *fields, unsigned count, tsr_error *error) {
  tsr_xml_name name;
  int rc;
  while ((rc = xml_child(xml, &name, error)) > 0) {
    const answer_field *field = NULL;
    for (unsigned i = 0; i < count && !field; i++)
      if (xml_is(name, fields[i].name)) field = &fields[i];
    if (!field) TSR_TRY(xml_skip(xml, error));
    else if (!field->text) TSR_TRY(field->read(xml, field->into, error));
    else if (*field->text) return xml_fail(xml, "duplicate element", error);
    else TSR_TRY(xml_text(xml, field->text, error));
  }
  return rc;
}

static const char *text_or_empty(const char *text) { return text ? text : ""; }

static int parse_size(const tsr_xml *xml, const char *text, uint64_t *size, tsr_error *error) {
  uint64_t sum = 0;
  if (!text || !*text) return xml_fail(xml, "an object without a size", error);
  for (; *text; text++)
    if (*text < '0' || *text > '9' || !tsr__mul(sum, 10, &sum) || !tsr__add(sum, (uint64_t)(*text - '0'), &sum))
      return xml_fail(xml, "a size that is not a number", error);
  if (sum > INT64_MAX) return xml_fail(xml, "a size that no object can have", error);
  *size = sum;
  return TSR_OK;
}

static int64_t parse_answer_time(const char *text) {
  int64_t ms;
  return text && tsr__http_time_parse(text, &ms) ? ms : INT64_MIN;
}

/* A list in an arena. Each time that it is full, it is copied to twice the room; the arena keeps the old copies. */
#define GROW_LIST(arena, list, count, room, error)                                                                     \
  grow_list(arena, sizeof **(list), (uint8_t **)(void *)(list), count, room, error)

static int grow_list(tsr_arena *arena, uint64_t element, uint8_t **list, uint64_t count, uint64_t *room,
                     tsr_error *error) {
  uint8_t *larger;
  if (count < *room) return TSR_OK;
  const uint64_t wanted = TSR_MAX(16, *room * 2);
  TSR_TRY(TSR_ARENA_RAW_BYTES(arena, wanted * element, &larger, error));
  if (count > 0) memcpy(larger, *list, count * element);
  *list = larger;
  *room = wanted;
  return TSR_OK;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static int read_failure(tsr_xml *xml, void *into, tsr_error *error) {
  tsr_s3_failure *failure = into;
  tsr_s3_failure read = {0};
  const answer_field fields[] = {{"Code", &read.code, NULL, NULL},
                                 {"Message", &read.message, NULL, NULL},
                                 {"RequestId", &read.request_id, NULL, NULL},
                                 {"Region", &read.region, NULL, NULL},
                                 {"Endpoint", &read.endpoint, NULL, NULL},
                                 {"Key", &read.key, NULL, NULL}};
  if (failure->code) return xml_fail(xml, "duplicate element", error);
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!read.code || !*read.code) return xml_fail(xml, "an error without a code", error);
  *failure = (tsr_s3_failure){read.code,
                              text_or_empty(read.message),
                              text_or_empty(read.request_id),
                              text_or_empty(read.region),
                              text_or_empty(read.endpoint),
                              text_or_empty(read.key)};
  return TSR_OK;
}

/* STS wraps the <Error> in an <ErrorResponse>. */
static int read_wrapped_failure(tsr_xml *xml, tsr_s3_failure *failure, tsr_error *error) {
  const char *request_id = NULL;
  const answer_field fields[] = {{"Error", NULL, read_failure, failure}, {"RequestId", &request_id, NULL, NULL}};
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!failure->code) return xml_fail(xml, "an error without a code", error);
  if (request_id && !*failure->request_id) failure->request_id = request_id;
  return TSR_OK;
}

/* Opens the answer. Returns 0 if its root is `wanted`, or 1 if it was an error, which has then been read. */
static int open_answer(tsr_xml *xml, const void *bytes, uint64_t size, tsr_arena *arena, const char *wanted,
                       tsr_s3_failure *failure, tsr_error *error) {
  tsr_xml_name root;
  *failure = (tsr_s3_failure){0};
  TSR_TRY(xml_open(xml, bytes, size, arena, &root, error));
  if (wanted && xml_is(root, wanted)) return 0;
  if (xml_is(root, "Error")) TSR_TRY(read_failure(xml, failure, error));
  else if (xml_is(root, "ErrorResponse")) TSR_TRY(read_wrapped_failure(xml, failure, error));
  else return tsr__fail(error, TSR_CORRUPT, "the answer of the object store is not a <%s>", wanted ? wanted : "Error");
  TSR_TRY(xml_close(xml, error));
  return 1;
}

int tsr__s3_response_failure(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_failure *failure,
                             tsr_error *error) {
  tsr_xml xml;
  TSR_TRY(open_answer(&xml, bytes, size, arena, NULL, failure, error));
  return TSR_OK;
}

/* Opens an answer, reads its fields and closes it. Returns as open_answer. */
static int read_answer(const void *bytes, uint64_t size, tsr_arena *arena, const char *root, tsr_xml *xml,
                       const answer_field *fields, unsigned count, tsr_s3_failure *failure, tsr_error *error) {
  int rc = open_answer(xml, bytes, size, arena, root, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(read_fields(xml, fields, count, error));
  return xml_close(xml, error);
}

/* ---- Listings -------------------------------------------------------------------------------- */

typedef struct listing_reader {
  tsr_s3_listing *listing;
  uint64_t entry_room, prefix_room;
} listing_reader;

static int read_listing_entry(tsr_xml *xml, void *into, tsr_error *error) {
  listing_reader *reader = into;
  tsr_s3_listing *listing = reader->listing;
  const char *key = NULL, *etag = NULL, *size = NULL, *modified = NULL;
  const answer_field fields[] = {{"Key", &key, NULL, NULL},
                                 {"ETag", &etag, NULL, NULL},
                                 {"Size", &size, NULL, NULL},
                                 {"LastModified", &modified, NULL, NULL}};
  tsr_s3_entry entry;
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!key || !*key) return xml_fail(xml, "an object without a key", error);
  TSR_TRY(parse_size(xml, size, &entry.size, error));
  entry.key = key;
  entry.etag = text_or_empty(etag);
  entry.modified = parse_answer_time(modified);
  TSR_TRY(GROW_LIST(xml->arena, &listing->entries, listing->entry_count, &reader->entry_room, error));
  listing->entries[listing->entry_count++] = entry;
  return TSR_OK;
}

static int read_listing_prefix(tsr_xml *xml, void *into, tsr_error *error) {
  listing_reader *reader = into;
  tsr_s3_listing *listing = reader->listing;
  const char *prefix = NULL;
  const answer_field fields[] = {{"Prefix", &prefix, NULL, NULL}};
  TSR_TRY(read_fields(xml, fields, 1, error));
  if (!prefix || !*prefix) return xml_fail(xml, "a common prefix without a text", error);
  TSR_TRY(GROW_LIST(xml->arena, &listing->prefixes, listing->prefix_count, &reader->prefix_room, error));
  listing->prefixes[listing->prefix_count++] = prefix;
  return TSR_OK;
}

/* Parses <IsTruncated>; a missing one means "false". */
static int parse_truncated(const tsr_xml *xml, const char *text, bool *truncated, tsr_error *error) {
  *truncated = text && strcmp(text, "true") == 0;
  if (text && !*truncated && strcmp(text, "false") != 0)
    return xml_fail(xml, "<IsTruncated> is neither true nor false", error);
  return TSR_OK;
}

int tsr__s3_response_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_listing *listing,
                             tsr_s3_failure *failure, tsr_error *error) {
  tsr_s3_listing read = {0};
  listing_reader reader = {.listing = &read};
  const char *truncated = NULL, *next = NULL;
  const answer_field fields[] = {{"Contents", NULL, read_listing_entry, &reader},
                                 {"CommonPrefixes", NULL, read_listing_prefix, &reader},
                                 {"IsTruncated", &truncated, NULL, NULL},
                                 {"NextContinuationToken", &next, NULL, NULL}};
  tsr_xml xml;
  bool more;
  const int rc =
      read_answer(bytes, size, arena, "ListBucketResult", &xml, fields, sizeof fields / sizeof *fields, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(parse_truncated(&xml, truncated, &more, error));
  if (more && (!next || !*next)) return xml_fail(&xml, "a listing goes on, but has no token for it", error);
  read.next = more ? next : NULL;
  *listing = read;
  return TSR_OK;
}

/* ---- Uploads --------------------------------------------------------------------------------- */

int tsr__s3_response_upload(const void *bytes, uint64_t size, tsr_arena *arena, const char **upload_id,
                            tsr_s3_failure *failure, tsr_error *error) {
  const char *read = NULL;
  const answer_field fields[] = {{"UploadId", &read, NULL, NULL}};
  tsr_xml xml;
  const int rc = read_answer(bytes, size, arena, "InitiateMultipartUploadResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  if (!read || !*read) return xml_fail(&xml, "an upload without an id", error);
  *upload_id = read;
  return TSR_OK;
}

int tsr__s3_response_completed(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag,
                               tsr_s3_failure *failure, tsr_error *error) {
  const char *read = NULL;
  const answer_field fields[] = {{"ETag", &read, NULL, NULL}};
  tsr_xml xml;
  const int rc = read_answer(bytes, size, arena, "CompleteMultipartUploadResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  *etag = text_or_empty(read);
  return TSR_OK;
}

int tsr__s3_response_copied(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag, int64_t *modified,
                            tsr_s3_failure *failure, tsr_error *error) {
  const char *read = NULL, *time = NULL;
  const answer_field fields[] = {{"ETag", &read, NULL, NULL}, {"LastModified", &time, NULL, NULL}};
  tsr_xml xml;
  tsr_xml_name root;
  TSR_TRY(xml_open(&xml, bytes, size, arena, &root, error));
  const char *kind = xml_is(root, "CopyPartResult") ? "CopyPartResult" : "CopyObjectResult";
  const int rc = read_answer(bytes, size, arena, kind, &xml, fields, 2, failure, error);
  if (rc != 0) return rc;
  *etag = text_or_empty(read);
  *modified = parse_answer_time(time);
  return TSR_OK;
}

typedef struct uploads_reader {
  tsr_s3_uploads *uploads;
  uint64_t room;
} uploads_reader;

static int read_upload(tsr_xml *xml, void *into, tsr_error *error) {
  uploads_reader *reader = into;
  tsr_s3_uploads *uploads = reader->uploads;
  const char *key = NULL, *id = NULL, *initiated = NULL;
  const answer_field fields[] = {
      {"Key", &key, NULL, NULL}, {"UploadId", &id, NULL, NULL}, {"Initiated", &initiated, NULL, NULL}};
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!key || !*key || !id || !*id) return xml_fail(xml, "an upload without a key or an id", error);
  TSR_TRY(GROW_LIST(xml->arena, &uploads->uploads, uploads->upload_count, &reader->room, error));
  uploads->uploads[uploads->upload_count++] = (tsr_s3_upload){key, id, parse_answer_time(initiated)};
  return TSR_OK;
}

int tsr__s3_response_uploads(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_uploads *uploads,
                             tsr_s3_failure *failure, tsr_error *error) {
  tsr_s3_uploads read = {0};
  uploads_reader reader = {&read, 0};
  const char *truncated = NULL, *key = NULL, *id = NULL;
  const answer_field fields[] = {{"Upload", NULL, read_upload, &reader},
                                 {"IsTruncated", &truncated, NULL, NULL},
                                 {"NextKeyMarker", &key, NULL, NULL},
                                 {"NextUploadIdMarker", &id, NULL, NULL}};
  tsr_xml xml;
  bool more;
  const int rc = read_answer(bytes, size, arena, "ListMultipartUploadsResult", &xml, fields,
                             sizeof fields / sizeof *fields, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(parse_truncated(&xml, truncated, &more, error));
  if (more && (!key || !*key)) return xml_fail(&xml, "a listing goes on, but has no marker for it", error);
  read.next_key = more ? key : NULL;
  read.next_upload_id = more ? text_or_empty(id) : NULL;
  *uploads = read;
  return TSR_OK;
}

/* ---- Deletions ------------------------------------------------------------------------------- */

typedef struct deletion_reader {
  tsr_s3_deletion *deletion;
  uint64_t room;
} deletion_reader;

static int read_undeleted(tsr_xml *xml, void *into, tsr_error *error) {
  deletion_reader *reader = into;
  tsr_s3_deletion *deletion = reader->deletion;
  tsr_s3_failure failure = {0};
  TSR_TRY(read_failure(xml, &failure, error));
  TSR_TRY(GROW_LIST(xml->arena, &deletion->failures, deletion->failure_count, &reader->room, error));
  deletion->failures[deletion->failure_count++] = failure;
  return TSR_OK;
}

int tsr__s3_response_deletion(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_deletion *deletion,
                              tsr_s3_failure *failure, tsr_error *error) {
  tsr_s3_deletion read = {0};
  deletion_reader reader = {&read, 0};
  const answer_field fields[] = {{"Error", NULL, read_undeleted, &reader}};
  tsr_xml xml;
  const int rc = read_answer(bytes, size, arena, "DeleteResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  *deletion = read;
  return TSR_OK;
}

/* ---- Identities ------------------------------------------------------------------------------ */

typedef struct identity_texts {
  const char *key_id, *secret, *session_token, *expiration;
} identity_texts;

static int read_credentials(tsr_xml *xml, void *into, tsr_error *error) {
  identity_texts *texts = into;
  const answer_field fields[] = {{"AccessKeyId", &texts->key_id, NULL, NULL},
                                 {"SecretAccessKey", &texts->secret, NULL, NULL},
                                 {"SessionToken", &texts->session_token, NULL, NULL},
                                 {"Expiration", &texts->expiration, NULL, NULL}};
  return read_fields(xml, fields, sizeof fields / sizeof *fields, error);
}

static int read_answer_identity(tsr_xml *xml, void *into, tsr_error *error) {
  const answer_field fields[] = {{"Credentials", NULL, read_credentials, into}};
  return read_fields(xml, fields, 1, error);
}

int tsr__s3_response_identity(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_identity *identity,
                              tsr_s3_failure *failure, tsr_error *error) {
  identity_texts texts = {0};
  const answer_field fields[] = {{"AssumeRoleWithWebIdentityResult", NULL, read_answer_identity, &texts}};
  tsr_xml xml;
  const int rc = read_answer(bytes, size, arena, "AssumeRoleWithWebIdentityResponse", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  if (!*text_or_empty(texts.key_id) || !*text_or_empty(texts.secret) || !*text_or_empty(texts.session_token))
    return xml_fail(&xml, "credentials that are not complete", error);
  *identity = (tsr_s3_identity){texts.key_id, texts.secret, texts.session_token, parse_answer_time(texts.expiration)};
  return TSR_OK;
}
