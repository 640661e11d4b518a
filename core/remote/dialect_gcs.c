/* dialect_gcs.c: Google Cloud Storage by its XML API, which has the forms and answers of S3 with other names, and which
 * creates an object only if none has been there (generation 0). The completion of a large object takes no condition, so
 * a HEAD comes before it: names of large objects have 128 random bits, for which nobody competes. */
#include <string.h>

#include "remote/bucket.h"
#include "remote/s3_response.h"

static tsr_meaning gcs_judge(const tsr_bucket_state *state, const char *code) {
  if (state->http.response.status == 401)
    return state->made.form == TSR_KEYS_BEARER ? TSR_MEANS_EXPIRED : TSR_MEANS_DENIED;
  return tsr__s3_judge(state, code);
}

static int gcs_configure(tsr_bucket_scope *scope, tsr_error *error) {
  const char *endpoint = scope->options.endpoint;
  scope->endpoint.path_style = true;
  return tsr__bucket_scope_endpoint(scope, endpoint ? endpoint : "https://storage.googleapis.com", error);
}

static int gcs_keys_of(const tsr_bucket_scope *scope, const tsr_scope_options *given, tsr_provider_options *options,
                       tsr_error *error) {
  const bool pair = tsr__bucket_is_set(given->key_id) || tsr__bucket_is_set(given->secret);
  if (pair + tsr__bucket_is_set(given->token) + tsr__bucket_is_set(given->service_account) +
          tsr__bucket_is_set(given->service_account_file) !=
      1)
    return tsr__fail(error, TSR_ERROR,
                     "the keys are one of: key_id and secret; token; service_account; service_account_file");
  if (pair && !(tsr__bucket_is_set(given->key_id) && tsr__bucket_is_set(given->secret)))
    return tsr__fail(error, TSR_ERROR, "the key id or the secret is empty");
  options->key_id = given->key_id;
  options->secret = given->secret;
  options->token = tsr__bucket_is_set(given->token) ? given->token : NULL;
  options->form = TSR_KEYS_BEARER;
  options->service_account = given->service_account;
  options->service_account_file = given->service_account_file;
  return TSR_OK;
}

static const tsr_s3_words words = {.condition = "x-goog-if-generation-match",
                                   .absent = "0",
                                   .copy_source = "x-goog-copy-source",
                                   .kms_key = "x-goog-encryption-kms-key-name",
                                   .storage_class = "x-goog-storage-class",
                                   .signature = &tsr__sigv4_google,
                                   .service = "storage",
                                   .region = "auto"};

const tsr_dialect tsr__dialect_gcs = {.scheme = "gcs",
                                      .noun = "bucket",
                                      .condition = "x-goog-if-generation-match",
                                      .suffixes = true,
                                      .begins_uploads = true,
                                      .marks_uploads = true,
                                      .deletion_keys = 1,
                                      .words = &words,
                                      .keys = "key_id and secret, token, service_account, service_account_file",
                                      .configure = gcs_configure,
                                      .keys_of = gcs_keys_of,
                                      .find_keys = tsr__keys_gcs,
                                      .draft = tsr__s3_draft,
                                      .sign = tsr__s3_sign,
                                      .listing = tsr__s3_response_listing,
                                      .judge = gcs_judge,
                                      .read_answer = tsr__s3_read_answer};
