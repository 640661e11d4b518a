/* answer.c: what the XML answers of all object stores have in common. */
#include "remote/answer.h"

#include <string.h>

#include "base/arithmetic.h"
#include "remote/http_response.h"

int tsr__answer_fields(tsr_xml *xml, const tsr_answer_field *fields, unsigned count, tsr_error *error) {
  tsr_xml_name name;
  int rc;
  while ((rc = tsr__xml_child(xml, &name, error)) > 0) {
    const tsr_answer_field *field = NULL;
    for (unsigned i = 0; i < count && !field; i++)
      if (tsr__xml_is(name, fields[i].name)) field = &fields[i];
    if (!field) TSR_TRY(tsr__xml_skip(xml, error));
    else if (!field->text) TSR_TRY(field->read(xml, field->into, error));
    else if (*field->text) return tsr__xml_fail(xml, "duplicate element", error);
    else TSR_TRY(tsr__xml_text(xml, field->text, error));
  }
  return rc;
}

const char *tsr__answer_text(const char *text) { return text ? text : ""; }

static int answer_size(const tsr_xml *xml, const char *text, uint64_t *size, tsr_error *error) {
  uint64_t sum = 0;
  if (!text || !*text) return tsr__xml_fail(xml, "an object without a size", error);
  for (; *text; text++)
    if (*text < '0' || *text > '9' || !tsr__mul(sum, 10, &sum) || !tsr__add(sum, (uint64_t)(*text - '0'), &sum))
      return tsr__xml_fail(xml, "a size that is not a number", error);
  if (sum > INT64_MAX) return tsr__xml_fail(xml, "a size that no object can have", error);
  *size = sum;
  return TSR_OK;
}

int64_t tsr__answer_time(const char *text) {
  int64_t ms;
  return text && tsr__http_time_parse(text, &ms) ? ms : INT64_MIN;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

int tsr__answer_error(tsr_xml *xml, void *into, tsr_error *error) {
  tsr_answer_failure *failure = into;
  tsr_answer_failure read = {0};
  const tsr_answer_field fields[] = {{"Code", &read.code, NULL, NULL},
                                     {"Message", &read.message, NULL, NULL},
                                     {"RequestId", &read.request_id, NULL, NULL},
                                     {"Region", &read.region, NULL, NULL},
                                     {"Endpoint", &read.endpoint, NULL, NULL},
                                     {"Key", &read.key, NULL, NULL}};
  if (failure->code) return tsr__xml_fail(xml, "duplicate element", error);
  TSR_TRY(tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!read.code || !*read.code) return tsr__xml_fail(xml, "an error without a code", error);
  *failure = (tsr_answer_failure){read.code,
                                  tsr__answer_text(read.message),
                                  tsr__answer_text(read.request_id),
                                  tsr__answer_text(read.region),
                                  tsr__answer_text(read.endpoint),
                                  tsr__answer_text(read.key)};
  return TSR_OK;
}

/* STS wraps the <Error> in an <ErrorResponse>. */
static int read_wrapped_failure(tsr_xml *xml, tsr_answer_failure *failure, tsr_error *error) {
  const char *request_id = NULL;
  const tsr_answer_field fields[] = {{"Error", NULL, tsr__answer_error, failure},
                                     {"RequestId", &request_id, NULL, NULL}};
  TSR_TRY(tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!failure->code) return tsr__xml_fail(xml, "an error without a code", error);
  if (request_id && !*failure->request_id) failure->request_id = request_id;
  return TSR_OK;
}

/* Opens the answer. Returns 0 if its root is `wanted`, or 1 if it was an error, which has then been read. */
static int open_answer(tsr_xml *xml, const void *bytes, uint64_t size, tsr_arena *arena, const char *wanted,
                       tsr_answer_failure *failure, tsr_error *error) {
  tsr_xml_name root;
  *failure = (tsr_answer_failure){0};
  TSR_TRY(tsr__xml_open(xml, bytes, size, arena, &root, error));
  if (wanted && tsr__xml_is(root, wanted)) return 0;
  if (tsr__xml_is(root, "Error")) TSR_TRY(tsr__answer_error(xml, failure, error));
  else if (tsr__xml_is(root, "ErrorResponse")) TSR_TRY(read_wrapped_failure(xml, failure, error));
  else return tsr__fail(error, TSR_CORRUPT, "the answer of the object store is not a <%s>", wanted ? wanted : "Error");
  TSR_TRY(tsr__xml_close(xml, error));
  return 1;
}

int tsr__answer_failure(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_failure *failure,
                        tsr_error *error) {
  tsr_xml xml;
  TSR_TRY(open_answer(&xml, bytes, size, arena, NULL, failure, error));
  return TSR_OK;
}

int tsr__answer_read(const void *bytes, uint64_t size, tsr_arena *arena, const char *root, tsr_xml *xml,
                     const tsr_answer_field *fields, unsigned count, tsr_answer_failure *failure, tsr_error *error) {
  int rc = open_answer(xml, bytes, size, arena, root, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(tsr__answer_fields(xml, fields, count, error));
  return tsr__xml_close(xml, error);
}

/* ---- Listings -------------------------------------------------------------------------------- */

int tsr__answer_entry(tsr_xml *xml, tsr_answer_reader *reader, const char *key, const char *size, const char *etag,
                      const char *modified, tsr_error *error) {
  tsr_answer_listing *listing = &reader->listing;
  tsr_answer_entry entry = {.key = key, .etag = tsr__answer_text(etag), .modified = tsr__answer_time(modified)};
  if (!key || !*key) return tsr__xml_fail(xml, "an object without a key", error);
  TSR_TRY(answer_size(xml, size, &entry.size, error));
  TSR_TRY(TSR_ARENA_GROW(xml->arena, &listing->entries, listing->entry_count, &reader->entry_room, 16, error));
  listing->entries[listing->entry_count++] = entry;
  return TSR_OK;
}

int tsr__answer_prefix(tsr_xml *xml, tsr_answer_reader *reader, const char *prefix, tsr_error *error) {
  tsr_answer_listing *listing = &reader->listing;
  if (!prefix || !*prefix) return tsr__xml_fail(xml, "a common prefix without a text", error);
  TSR_TRY(TSR_ARENA_GROW(xml->arena, &listing->prefixes, listing->prefix_count, &reader->prefix_room, 16, error));
  listing->prefixes[listing->prefix_count++] = prefix;
  return TSR_OK;
}
