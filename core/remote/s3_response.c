/* s3_response.c: the XML answers of S3. Each kind is a table of the elements that matter; all others are skipped. */
#include "remote/s3_response.h"

#include <string.h>

/* ---- Listings -------------------------------------------------------------------------------- */

static int read_listing_entry(tsr_xml *xml, void *into, tsr_error *error) {
  const char *key = NULL, *etag = NULL, *size = NULL, *modified = NULL;
  const tsr_answer_field fields[] = {{"Key", &key, NULL, NULL},
                                     {"ETag", &etag, NULL, NULL},
                                     {"Size", &size, NULL, NULL},
                                     {"LastModified", &modified, NULL, NULL}};
  TSR_TRY(tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error));
  return tsr__answer_entry(xml, into, key, size, etag, modified, error);
}

static int read_listing_prefix(tsr_xml *xml, void *into, tsr_error *error) {
  const char *prefix = NULL;
  const tsr_answer_field fields[] = {{"Prefix", &prefix, NULL, NULL}};
  TSR_TRY(tsr__answer_fields(xml, fields, 1, error));
  return tsr__answer_prefix(xml, into, prefix, error);
}

/* Parses <IsTruncated>; a missing one means "false". */
static int parse_truncated(const tsr_xml *xml, const char *text, bool *truncated, tsr_error *error) {
  *truncated = text && strcmp(text, "true") == 0;
  if (text && !*truncated && strcmp(text, "false") != 0)
    return tsr__xml_fail(xml, "<IsTruncated> is neither true nor false", error);
  return TSR_OK;
}

int tsr__s3_response_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_listing *listing,
                             tsr_answer_failure *failure, tsr_error *error) {
  tsr_answer_reader reader = {0};
  const char *truncated = NULL, *next = NULL;
  const tsr_answer_field fields[] = {{"Contents", NULL, read_listing_entry, &reader},
                                     {"CommonPrefixes", NULL, read_listing_prefix, &reader},
                                     {"IsTruncated", &truncated, NULL, NULL},
                                     {"NextContinuationToken", &next, NULL, NULL}};
  tsr_xml xml;
  bool more;
  const int rc = tsr__answer_read(bytes, size, arena, "ListBucketResult", &xml, fields, sizeof fields / sizeof *fields,
                                  failure, error);
  if (rc != 0) return rc;
  TSR_TRY(parse_truncated(&xml, truncated, &more, error));
  if (more && (!next || !*next)) return tsr__xml_fail(&xml, "a listing goes on, but has no token for it", error);
  reader.listing.next = more ? next : NULL;
  *listing = reader.listing;
  return TSR_OK;
}

/* ---- Uploads --------------------------------------------------------------------------------- */

int tsr__s3_response_upload(const void *bytes, uint64_t size, tsr_arena *arena, const char **upload_id,
                            tsr_answer_failure *failure, tsr_error *error) {
  const char *read = NULL;
  const tsr_answer_field fields[] = {{"UploadId", &read, NULL, NULL}};
  tsr_xml xml;
  const int rc = tsr__answer_read(bytes, size, arena, "InitiateMultipartUploadResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  if (!read || !*read) return tsr__xml_fail(&xml, "an upload without an id", error);
  *upload_id = read;
  return TSR_OK;
}

int tsr__s3_response_completed(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag,
                               tsr_answer_failure *failure, tsr_error *error) {
  const char *read = NULL;
  const tsr_answer_field fields[] = {{"ETag", &read, NULL, NULL}};
  tsr_xml xml;
  const int rc = tsr__answer_read(bytes, size, arena, "CompleteMultipartUploadResult", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  *etag = tsr__answer_text(read);
  return TSR_OK;
}

int tsr__s3_response_copied(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag, int64_t *modified,
                            tsr_answer_failure *failure, tsr_error *error) {
  const char *read = NULL, *time = NULL;
  const tsr_answer_field fields[] = {{"ETag", &read, NULL, NULL}, {"LastModified", &time, NULL, NULL}};
  tsr_xml xml;
  tsr_xml_name root;
  TSR_TRY(tsr__xml_open(&xml, bytes, size, arena, &root, error));
  const char *kind = tsr__xml_is(root, "CopyPartResult") ? "CopyPartResult" : "CopyObjectResult";
  const int rc = tsr__answer_read(bytes, size, arena, kind, &xml, fields, 2, failure, error);
  if (rc != 0) return rc;
  *etag = tsr__answer_text(read);
  *modified = tsr__answer_time(time);
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
  const tsr_answer_field fields[] = {
      {"Key", &key, NULL, NULL}, {"UploadId", &id, NULL, NULL}, {"Initiated", &initiated, NULL, NULL}};
  TSR_TRY(tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (!key || !*key || !id || !*id) return tsr__xml_fail(xml, "an upload without a key or an id", error);
  TSR_TRY(TSR_ARENA_GROW(xml->arena, &uploads->uploads, uploads->upload_count, &reader->room, 16, error));
  uploads->uploads[uploads->upload_count++] = (tsr_s3_upload){key, id, tsr__answer_time(initiated)};
  return TSR_OK;
}

int tsr__s3_response_uploads(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_uploads *uploads,
                             tsr_answer_failure *failure, tsr_error *error) {
  tsr_s3_uploads read = {0};
  uploads_reader reader = {&read, 0};
  const char *truncated = NULL, *key = NULL, *id = NULL;
  const tsr_answer_field fields[] = {{"Upload", NULL, read_upload, &reader},
                                     {"IsTruncated", &truncated, NULL, NULL},
                                     {"NextKeyMarker", &key, NULL, NULL},
                                     {"NextUploadIdMarker", &id, NULL, NULL}};
  tsr_xml xml;
  bool more;
  const int rc = tsr__answer_read(bytes, size, arena, "ListMultipartUploadsResult", &xml, fields,
                                  sizeof fields / sizeof *fields, failure, error);
  if (rc != 0) return rc;
  TSR_TRY(parse_truncated(&xml, truncated, &more, error));
  if (more && (!key || !*key)) return tsr__xml_fail(&xml, "a listing goes on, but has no marker for it", error);
  read.next_key = more ? key : NULL;
  read.next_upload_id = more ? tsr__answer_text(id) : NULL;
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
  tsr_answer_failure failure = {0};
  TSR_TRY(tsr__answer_error(xml, &failure, error));
  TSR_TRY(TSR_ARENA_GROW(xml->arena, &deletion->failures, deletion->failure_count, &reader->room, 16, error));
  deletion->failures[deletion->failure_count++] = failure;
  return TSR_OK;
}

int tsr__s3_response_deletion(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_deletion *deletion,
                              tsr_answer_failure *failure, tsr_error *error) {
  tsr_s3_deletion read = {0};
  deletion_reader reader = {&read, 0};
  const tsr_answer_field fields[] = {{"Error", NULL, read_undeleted, &reader}};
  tsr_xml xml;
  const int rc = tsr__answer_read(bytes, size, arena, "DeleteResult", &xml, fields, 1, failure, error);
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
  const tsr_answer_field fields[] = {{"AccessKeyId", &texts->key_id, NULL, NULL},
                                     {"SecretAccessKey", &texts->secret, NULL, NULL},
                                     {"SessionToken", &texts->session_token, NULL, NULL},
                                     {"Expiration", &texts->expiration, NULL, NULL}};
  return tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error);
}

static int read_answer_identity(tsr_xml *xml, void *into, tsr_error *error) {
  const tsr_answer_field fields[] = {{"Credentials", NULL, read_credentials, into}};
  return tsr__answer_fields(xml, fields, 1, error);
}

int tsr__s3_response_identity(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_identity *identity,
                              tsr_answer_failure *failure, tsr_error *error) {
  identity_texts texts = {0};
  const tsr_answer_field fields[] = {{"AssumeRoleWithWebIdentityResult", NULL, read_answer_identity, &texts}};
  tsr_xml xml;
  const int rc =
      tsr__answer_read(bytes, size, arena, "AssumeRoleWithWebIdentityResponse", &xml, fields, 1, failure, error);
  if (rc != 0) return rc;
  if (!*tsr__answer_text(texts.key_id) || !*tsr__answer_text(texts.secret) || !*tsr__answer_text(texts.session_token))
    return tsr__xml_fail(&xml, "credentials that are not complete", error);
  *identity = (tsr_s3_identity){texts.key_id, texts.secret, texts.session_token, tsr__answer_time(texts.expiration)};
  return TSR_OK;
}
