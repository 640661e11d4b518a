/* s3_answer.c: each kind of answer is a table of the elements that matter; all others are skipped. An element that may
 * stand once and stands twice is refused, and so is a value that makes no sense: a listing that is understood in part
 * would be a listing in which files are missing. */
#include "remote/s3_answer.h"

#include <string.h>

#include "base/arithmetic.h"
#include "remote/http_time.h"
#include "remote/s3_xml.h"

/* ---- Fields ---------------------------------------------------------------------------------- */

/* A child that matters: a text, or an element with a reader of its own. */
typedef struct answer_field {
  const char *name;
  const char **text; /* NULL before; set to the element's text */
  int (*read)(tsr_s3_xml *xml, void *into, tsr_error *error); /* used if `text` is NULL; closes the element */
  void *into; /* of `read` */
} answer_field;

/* Reads the children of the innermost open element and closes it. */
static int read_fields(tsr_s3_xml *xml, const answer_field *fields, unsigned count, tsr_error *error) {
  tsr_s3_xml_name name;
  int rc;
  while ((rc = tsr__s3_xml_child(xml, &name, error)) > 0) {
    const answer_field *field = NULL;
    for (unsigned i = 0; i < count && !field; i++)
      if (tsr__s3_xml_is(name, fields[i].name)) field = &fields[i];
    if (!field) TSR_TRY(tsr__s3_xml_skip(xml, error));
    else if (!field->text) TSR_TRY(field->read(xml, field->into, error));
    else if (*field->text) return tsr__s3_xml_fail(xml, "an element stands twice", error);
    else TSR_TRY(tsr__s3_xml_text(xml, field->text, error));
  }
  return rc;
}

static const char *text_or_empty(const char *text) { return text ? text : ""; }

static int parse_size(const tsr_s3_xml *xml, const char *text, uint64_t *size, tsr_error *error) {
  uint64_t sum = 0;
  if (!text || !*text) return tsr__s3_xml_fail(xml, "an object without a size", error);
  for (; *text; text++)
    if (*text < '0' || *text > '9' || !tsr__mul(sum, 10, &sum) || !tsr__add(sum, (uint64_t)(*text - '0'), &sum))
      return tsr__s3_xml_fail(xml, "a size that is no number", error);
  if (sum > INT64_MAX) return tsr__s3_xml_fail(xml, "a size that no object can have", error);
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

static int read_failure(tsr_s3_xml *xml, void *into, tsr_error *error) {
  tsr_s3_failure *failure = into;
  tsr_s3_failure read = {0};
  const answer_field fields[] = {{"Code", &read.code, NULL, NULL},
                                 {"Message", &read.message, NULL, NULL},
                                 {"RequestId", &read.request_id, NULL, NULL},
                                 {"Region", &read.region, NULL, NULL},
                                 {"Endpoint", &read.endpoint, NULL, NULL},
                                 {"Key", &read.key, NULL, NULL}};
  if (failure->code) return tsr__s3_xml_fail(xml, "an element stands twice", error);
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!read.code || !*read.code) return tsr__s3_xml_fail(xml, "an error without a code", error);
  *failure = (tsr_s3_failure){read.code,
                              text_or_empty(read.message),
                              text_or_empty(read.request_id),
                              text_or_empty(read.region),
                              text_or_empty(read.endpoint),
                              text_or_empty(read.key)};
  return TSR_OK;
}

/* STS puts the <Error> into an <ErrorResponse>. */
static int read_wrapped_failure(tsr_s3_xml *xml, tsr_s3_failure *failure, tsr_error *error) {
  const char *request_id = NULL;
  const answer_field fields[] = {{"Error", NULL, read_failure, failure}, {"RequestId", &request_id, NULL, NULL}};
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!failure->code) return tsr__s3_xml_fail(xml, "an error without a code", error);
  if (request_id && !*failure->request_id) failure->request_id = request_id;
  return TSR_OK;
}

/* Opens the answer. Returns 0 if its root is `wanted`, or 1 if it was an error, which has been read. */
static int open_answer(tsr_s3_xml *xml, const void *bytes, uint64_t size, tsr_arena *arena, const char *wanted,
                       tsr_s3_failure *failure, tsr_error *error) {
  tsr_s3_xml_name root;
  *failure = (tsr_s3_failure){0};
  TSR_TRY(tsr__s3_xml_open(xml, bytes, size, arena, &root, error));
  if (wanted && tsr__s3_xml_is(root, wanted)) return 0;
  if (tsr__s3_xml_is(root, "Error")) TSR_TRY(read_failure(xml, failure, error));
  else if (tsr__s3_xml_is(root, "ErrorResponse")) TSR_TRY(read_wrapped_failure(xml, failure, error));
  else return tsr__fail(error, TSR_CORRUPT, "the answer of the object store is no <%s>", wanted ? wanted : "Error");
  TSR_TRY(tsr__s3_xml_close(xml, error));
  return 1;
}

int tsr__s3_answer_failure(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_failure *failure,
                           tsr_error *error) {
  tsr_s3_xml xml;
  TSR_TRY(open_answer(&xml, bytes, size, arena, NULL, failure, error));
  return TSR_OK;
}

/* Opens an answer, reads its fields and closes it. Returns as open_answer. */
static int read_answer(const void *bytes, uint64_t size, tsr_arena *arena, const char *root, tsr_s3_xml *xml,
                       const answer_field *fields, unsigned count, tsr_s3_failure *failure, tsr_error *error) {
  int rc = open_answer(xml, bytes, size, arena, root, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(read_fields(xml, fields, count, error));
  return tsr__s3_xml_close(xml, error);
}

/* ---- Listings -------------------------------------------------------------------------------- */

typedef struct listing_reader {
  tsr_s3_listing *listing;
  uint64_t entry_room, prefix_room;
} listing_reader;

static int read_listing_entry(tsr_s3_xml *xml, void *into, tsr_error *error) {
  listing_reader *reader = into;
  tsr_s3_listing *listing = reader->listing;
  const char *key = NULL, *etag = NULL, *size = NULL, *modified = NULL;
  const answer_field fields[] = {{"Key", &key, NULL, NULL},
                                 {"ETag", &etag, NULL, NULL},
                                 {"Size", &size, NULL, NULL},
                                 {"LastModified", &modified, NULL, NULL}};
  tsr_s3_entry entry;
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!key || !*key) return tsr__s3_xml_fail(xml, "an object without a key", error);
  TSR_TRY(parse_size(xml, size, &entry.size, error));
  entry.key = key;
  entry.etag = text_or_empty(etag);
  entry.modified = parse_answer_time(modified);
  TSR_TRY(GROW_LIST(xml->arena, &listing->entries, listing->entry_count, &reader->entry_room, error));
  listing->entries[listing->entry_count++] = entry;
  return TSR_OK;
}

static int read_listing_prefix(tsr_s3_xml *xml, void *into, tsr_error *error) {
  listing_reader *reader = into;
  tsr_s3_listing *listing = reader->listing;
  const char *prefix = NULL;
  const answer_field fields[] = {{"Prefix", &prefix, NULL, NULL}};
  TSR_TRY(read_fields(xml, fields, 1, error));
  if (!prefix || !*prefix) return tsr__s3_xml_fail(xml, "a common prefix without a text", error);
  TSR_TRY(GROW_LIST(xml->arena, &listing->prefixes, listing->prefix_count, &reader->prefix_room, error));
  listing->prefixes[listing->prefix_count++] = prefix;
  return TSR_OK;
}

/* Reads <IsTruncated>; a missing one is "false". */
static int parse_truncated(const tsr_s3_xml *xml, const char *text, bool *truncated, tsr_error *error) {
  *truncated = text && strcmp(text, "true") == 0;
  if (text && !*truncated && strcmp(text, "false") != 0)
    return tsr__s3_xml_fail(xml, "<IsTruncated> is neither true nor false", error);
  return TSR_OK;
}

int tsr__s3_answer_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_listing *listing,
                           tsr_s3_failure *failure, tsr_error *error) {
  tsr_s3_listing read = {0};
  listing_reader reader = {.listing = &read};
  const char *truncated = NULL, *next = NULL;
  const answer_field fields[] = {{"Contents", NULL, read_listing_entry, &reader},
                                 {"CommonPrefixes", NULL, read_listing_prefix, &reader},
                                 {"IsTruncated", &truncated, NULL, NULL},
                                 {"NextContinuationToken", &next, NULL, NULL}};
  tsr_s3_xml xml;
  bool more;
  const int rc =
      read_answer(bytes, size, arena, "ListBucketResult", &xml, fields, sizeof fields / sizeof *fields, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(parse_truncated(&xml, truncated, &more, error));
  if (more && (!next || !*next)) return tsr__s3_xml_fail(&xml, "a listing goes on, but has no token for it", error);
  read.next = more ? next : NULL;
  *listing = read;
  return TSR_OK;
}

/* ---- Uploads --------------------------------------------------------------------------------- */

int tsr__s3_answer_upload(const void *bytes, uint64_t size, tsr_arena *arena, const char **upload_id,
                          tsr_s3_failure *failure, tsr_error *error) {
  const char *read = NULL;
  const answer_field fields[] = {{"UploadId", &read, NULL, NULL}};
  tsr_s3_xml xml;
  const int rc = read_answer(bytes, size, arena, "InitiateMultipartUploadResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  if (!read || !*read) return tsr__s3_xml_fail(&xml, "an upload without an id", error);
  *upload_id = read;
  return TSR_OK;
}

int tsr__s3_answer_completed(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag,
                             tsr_s3_failure *failure, tsr_error *error) {
  const char *read = NULL;
  const answer_field fields[] = {{"ETag", &read, NULL, NULL}};
  tsr_s3_xml xml;
  const int rc = read_answer(bytes, size, arena, "CompleteMultipartUploadResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  *etag = text_or_empty(read);
  return TSR_OK;
}

int tsr__s3_answer_copied(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag, int64_t *modified,
                          tsr_s3_failure *failure, tsr_error *error) {
  const char *read = NULL, *time = NULL;
  const answer_field fields[] = {{"ETag", &read, NULL, NULL}, {"LastModified", &time, NULL, NULL}};
  tsr_s3_xml xml;
  tsr_s3_xml_name root;
  TSR_TRY(tsr__s3_xml_open(&xml, bytes, size, arena, &root, error));
  const char *kind = tsr__s3_xml_is(root, "CopyPartResult") ? "CopyPartResult" : "CopyObjectResult";
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

static int read_upload(tsr_s3_xml *xml, void *into, tsr_error *error) {
  uploads_reader *reader = into;
  tsr_s3_uploads *uploads = reader->uploads;
  const char *key = NULL, *id = NULL, *initiated = NULL;
  const answer_field fields[] = {
      {"Key", &key, NULL, NULL}, {"UploadId", &id, NULL, NULL}, {"Initiated", &initiated, NULL, NULL}};
  TSR_TRY(read_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!key || !*key || !id || !*id) return tsr__s3_xml_fail(xml, "an upload without a key or an id", error);
  TSR_TRY(GROW_LIST(xml->arena, &uploads->uploads, uploads->upload_count, &reader->room, error));
  uploads->uploads[uploads->upload_count++] = (tsr_s3_upload){key, id, parse_answer_time(initiated)};
  return TSR_OK;
}

int tsr__s3_answer_uploads(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_uploads *uploads,
                           tsr_s3_failure *failure, tsr_error *error) {
  tsr_s3_uploads read = {0};
  uploads_reader reader = {&read, 0};
  const char *truncated = NULL, *key = NULL, *id = NULL;
  const answer_field fields[] = {{"Upload", NULL, read_upload, &reader},
                                 {"IsTruncated", &truncated, NULL, NULL},
                                 {"NextKeyMarker", &key, NULL, NULL},
                                 {"NextUploadIdMarker", &id, NULL, NULL}};
  tsr_s3_xml xml;
  bool more;
  const int rc = read_answer(bytes, size, arena, "ListMultipartUploadsResult", &xml, fields,
                             sizeof fields / sizeof *fields, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(parse_truncated(&xml, truncated, &more, error));
  if (more && (!key || !*key)) return tsr__s3_xml_fail(&xml, "a listing goes on, but has no marker for it", error);
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

static int read_undeleted(tsr_s3_xml *xml, void *into, tsr_error *error) {
  deletion_reader *reader = into;
  tsr_s3_deletion *deletion = reader->deletion;
  tsr_s3_failure failure = {0};
  TSR_TRY(read_failure(xml, &failure, error));
  TSR_TRY(GROW_LIST(xml->arena, &deletion->failures, deletion->failure_count, &reader->room, error));
  deletion->failures[deletion->failure_count++] = failure;
  return TSR_OK;
}

int tsr__s3_answer_deletion(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_deletion *deletion,
                            tsr_s3_failure *failure, tsr_error *error) {
  tsr_s3_deletion read = {0};
  deletion_reader reader = {&read, 0};
  const answer_field fields[] = {{"Error", NULL, read_undeleted, &reader}};
  tsr_s3_xml xml;
  const int rc = read_answer(bytes, size, arena, "DeleteResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  *deletion = read;
  return TSR_OK;
}

/* ---- Identities ------------------------------------------------------------------------------ */

typedef struct identity_texts {
  const char *key_id, *secret, *session_token, *expiration;
} identity_texts;

static int read_credentials(tsr_s3_xml *xml, void *into, tsr_error *error) {
  identity_texts *texts = into;
  const answer_field fields[] = {{"AccessKeyId", &texts->key_id, NULL, NULL},
                                 {"SecretAccessKey", &texts->secret, NULL, NULL},
                                 {"SessionToken", &texts->session_token, NULL, NULL},
                                 {"Expiration", &texts->expiration, NULL, NULL}};
  return read_fields(xml, fields, sizeof fields / sizeof *fields, error);
}

static int read_answer_identity(tsr_s3_xml *xml, void *into, tsr_error *error) {
  const answer_field fields[] = {{"Credentials", NULL, read_credentials, into}};
  return read_fields(xml, fields, 1, error);
}

int tsr__s3_answer_identity(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_identity *identity,
                            tsr_s3_failure *failure, tsr_error *error) {
  identity_texts texts = {0};
  const answer_field fields[] = {{"AssumeRoleWithWebIdentityResult", NULL, read_answer_identity, &texts}};
  tsr_s3_xml xml;
  const int rc = read_answer(bytes, size, arena, "AssumeRoleWithWebIdentityResponse", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  if (!*text_or_empty(texts.key_id) || !*text_or_empty(texts.secret) || !*text_or_empty(texts.session_token))
    return tsr__s3_xml_fail(&xml, "credentials that are not complete", error);
  *identity = (tsr_s3_identity){texts.key_id, texts.secret, texts.session_token, parse_answer_time(texts.expiration)};
  return TSR_OK;
}
