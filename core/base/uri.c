/* uri.c: which paths are URIs of object stores. */
#include "base/uri.h"

#include <stdio.h>
#include <string.h>

#include "tessera_path.h"

const char *tsr__uri_scheme(const char *path, const char **rest) {
  static const struct {
    const char *written, *scheme;
  } schemes[] = {{"s3", "s3"}, {"azure", "azure"}, {"az", "azure"}, {"gcs", "gcs"}, {"gs", "gcs"}};
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    const size_t size = strlen(schemes[i].written);
    if (strncmp(path, schemes[i].written, size) != 0 || strncmp(path + size, "://", 3) != 0) continue;
    if (rest) *rest = path + size + 3;
    return schemes[i].scheme;
  }
  return NULL;
}

int tsr__uri_shown(const char *uri) {
  const char *rest = strstr(uri, "://");
  const size_t size = rest && strchr(rest, '@') ? (size_t)(rest - uri) + 3 : strcspn(uri, "?");
  return size < 200 ? (int)size : 200;
}

int tsr__uri_unsigned(const char *uri, tsr_error *error) {
  const char *query = strchr(uri, '?');
  if (!query || !(strstr(query, "?sig=") || strstr(query, "&sig=") || strstr(query, "Signature="))) return TSR_OK;
  return tsr__fail(error, TSR_ERROR,
                   "%.*s?...: no path has the signature of a URL. Azure's is the option sas of tessera_configure",
                   tsr__uri_shown(uri), uri);
}

int tsr__uri_copy(tsr_memory *memory, const char *uri, char **copy, tsr_error *error) {
  const char *rest, *scheme = tsr__uri_scheme(uri, &rest);
  if (!scheme) return tsr__fail(error, TSR_ERROR, "'%.200s' is not s3://, azure:// or gcs://", uri);
  TSR_TRY(tsr__uri_unsigned(uri, error));
  size_t size = strlen(rest);
  while (size > 0 && rest[size - 1] == '/') size--;
  const size_t room = strlen(scheme) + 3 + size + 1;
  TSR_TRY(TSR_ALLOC_RAW(memory, room, copy, error));
  (void)snprintf(*copy, room, "%s://%.*s", scheme, (int)size, rest);
  return TSR_OK;
}

bool tsr__is_remote(const char *path) { return tsr__uri_scheme(path, NULL) != NULL; }

const char *tsr_path_scheme(const char *path, const char **rest) { return tsr__uri_scheme(path, rest); }
