/* no_buckets.c: stands for core/remote and for the store of buckets, which a browser's module does not have: there are
 * no sockets. A path that begins with "s3://", "azure://" or "gcs://" is an error that says so. */
#include <string.h>

#include "base/error.h"
#include "remote/bucket.h"
#include "store/store.h"

static int fail_buckets(tsr_error *error) {
  return tsr__fail(error, TSR_UNSUPPORTED, "object stores need libcurl, which WebAssembly does not have");
}

int tsr__bucket_scopes_open(tsr_memory *memory, tsr_bucket_scopes **scopes, tsr_error *error) {
  return fail_buckets(error);
}

void tsr__bucket_scopes_close(tsr_bucket_scopes *scopes) { /* there are none */
}

int tsr__bucket_scopes_set(tsr_bucket_scopes *scopes, const char *scope, const tsr_scope_options *options,
                           tsr_error *error) {
  return fail_buckets(error);
}

int tsr__bucket_scopes_forget(tsr_bucket_scopes *scopes, const char *scope, tsr_error *error) {
  return fail_buckets(error);
}

int tsr__bucket_scopes_confine(tsr_bucket_scopes *scopes, const char *uri, tsr_error *error) {
  return fail_buckets(error);
}

tsr_bucket_counters *tsr__bucket_scopes_counters(tsr_bucket_scopes *scopes) {
  static tsr_bucket_counters none;
  return &none;
}

int tsr__store_bucket_open(tsr_bucket_scopes *scopes, tsr_memory *memory, const char *uri, tsr_store **store,
                           tsr_error *error) {
  return fail_buckets(error);
}
