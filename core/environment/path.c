/* path.c: opens the store that a path names: a directory, written as a path or a file:// URI, a bucket, or a tree of
 * one of the host's stores. A path that the host or a bound forbids is refused before the file system is touched.
 */
#include "base/uri.h"
#include "environment/environment.h"

#include <ctype.h>
#include <string.h>

#include "base/arithmetic.h"
#include "tessera_host.h"
#include "base/system.h"
#include "store/store.h"

static int not_found(const char *noun, const char *path, const char *reason, tsr_error *error) {
  return tsr__fail(error, TSR_NOT_FOUND, "%s not found: %s: %s", noun, path, reason);
}

/* Returns the path in a file: URI, after the host; NULL if the host is not localhost. */
static const char *uri_path(const char *uri) {
  const char *rest = uri + strlen("file:");
  if (strncmp(rest, "//", 2) != 0) return rest;
  rest += 2;
  if (strncmp(rest, "localhost/", 10) == 0) return rest + 9;
  return *rest == '/' ? rest : NULL;
}

static bool has_scheme(const char *text) {
  const char *p = text;
  while (isalnum((unsigned char)*p) || *p == '+' || *p == '-' || *p == '.') p++;
  return p > text && strncmp(p, "://", 3) == 0;
}

static int plain_path(tsr_memory *memory, const char *noun, const char *text, char **path, tsr_error *error) {
  if (*text == '\0') return not_found(noun, "''", "the path is empty", error);
  bool uri = strncmp(text, "file:", 5) == 0 && (text[5] == '/');
  const char *from = uri ? uri_path(text) : text;
  if (!from) return not_found(noun, text, "a file:// URI has no host: file:///directory", error);
  const char *rest, *scheme = tsr__uri_scheme(text, &rest);
  if (scheme && (!*rest || *rest == '/'))
    return tsr__fail(error, TSR_ERROR, "%s %s: the name of the bucket is missing: %s://bucket/path", noun, text,
                     scheme);
  if (scheme) return tsr__uri_copy(memory, text, path, error);
  if (!uri && !tsr__path_root(text) && has_scheme(text))
    return tsr__fail(error, TSR_UNSUPPORTED,
                     "%s %.*s: only directories (paths and file:// URIs), s3://, azure:// and gcs:// can be opened",
                     noun, tsr__uri_shown(text), text);
  char *out;
  TSR_TRY(TSR_ALLOC_RAW(memory, strlen(from) + 1, &out, error));
  char *end = out;
  for (; *from; from++) {
    *end = *from;
    if (uri && *from == '%') {
      int high = tsr_hex_digit(from[1]), low = high < 0 ? -1 : tsr_hex_digit(from[2]);
      if (low < 0 || high + low == 0) {
        tsr__free(out);
        return tsr__fail(error, TSR_ERROR, "%s %s: '%%' begins no character: write %%25 for a percent sign", noun,
                         text);
      }
      *end = (char)(high << 4 | low);
      from += 2;
    }
    end++;
  }
  *end = '\0';
  tsr_path_form(out);
  const size_t root = TSR_MAX(tsr__path_root(out), 1u);
  for (end = out + strlen(out); end > out + root && end[-1] == '/';) *--end = '\0';
  *path = out;
  return TSR_OK;
}

static int host_path(const tsr_environment *environment, const tsr_scheme *scheme, const char *text, char **path,
                     tsr_store **store, tsr_error *error) {
  tsr_memory *memory = (tsr_memory *)&environment->memory;
  char *copy;
  TSR_TRY(TSR_ALLOC_RAW(memory, strlen(text) + 1, &copy, error));
  int rc = tsr__store_host_open(memory, scheme->host, scheme->argument, text, NULL, store, error);
  if (rc < 0) {
    tsr__free(copy);
    return rc;
  }
  memcpy(copy, text, strlen(text) + 1);
  *path = copy;
  return TSR_OK;
}

int tsr_path_permitted(tsr_environment *environment, const char *path, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *directory;
  if (tsr__environment_scheme(environment, path)) return TSR_OK;
  if (!environment->permits && !tsr__bounds_get(&environment->bounds) && !environment->bucket_bound) return TSR_OK;
  TSR_TRY(plain_path(&environment->memory, "directory", path, &directory, error));
  int rc = tsr__environment_permits(environment, directory, error);
  tsr__free(directory);
  return rc;
}

static bool make_room(void *argument) {
  tsr_environment *environment = argument;
  return environment->make_room && environment->make_room(environment);
}

int tsr__directory_open(tsr_environment *environment, const char *directory, tsr_store **store, tsr_error *error) {
  TSR_TRY(tsr__store_directory_open(&environment->memory, directory, store, error));
  (*store)->bounds = &environment->bounds;
  (*store)->make_room = make_room;
  (*store)->room_argument = environment;
  return TSR_OK;
}

static int open_bucket(tsr_environment *environment, const char *uri, tsr_store **store, tsr_error *error) {
  if (!environment->scopes)
    return tsr__fail(error, TSR_NOT_FOUND, "no scope for %s: call tessera_configure first", uri);
  return tsr__store_bucket_open(environment->scopes, &environment->memory, uri, store, error);
}

int tsr__path_open(tsr_environment *environment, const char *noun, const char *text, char **path, tsr_store **store,
                   tsr_error *error) {
  const tsr_scheme *scheme = tsr__environment_scheme(environment, text);
  if (scheme) return host_path(environment, scheme, text, path, store, error);
  char *directory;
  TSR_TRY(plain_path(&environment->memory, noun, text, &directory, error));
  int rc = tsr__environment_permits(environment, directory, error);
  if (rc >= 0)
    rc = tsr__is_remote(directory) ? open_bucket(environment, directory, store, error)
                                   : tsr__directory_open(environment, directory, store, error);
  if (rc < 0) tsr__free(directory);
  else *path = directory;
  return rc;
}

int tsr__store_open_below(tsr_environment *environment, const char *path, const char *below, tsr_buffer *full,
                          tsr_store **store, tsr_error *error) {
  const tsr_scheme *scheme = tsr__environment_scheme(environment, path);
  char *directory = NULL;
  if (!*below || !tsr__store_path_valid(below))
    return tsr__fail(error, TSR_PERM, "array %s: '%s' is not a path within the array", path, below);
  TSR_TRY(tsr__buffer_printf(full, error, "%s/%s%c", path, below, 0));
  if (scheme)
    return tsr__store_host_open(&environment->memory, scheme->host, scheme->argument, path, below, store, error);
  int rc = tsr__path_open(environment, "array", (const char *)full->data, &directory, store, error);
  tsr__free(directory);
  return rc;
}
