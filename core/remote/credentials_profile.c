/* credentials_profile.c: keys in environment variables, and in the files that the AWS command line tool keeps.
 *
 * The files consist of sections. ~/.aws/credentials names a profile "[name]", ~/.aws/config "[profile name]" or
 * "[default]". A line is "key = value", or a comment that begins with '#' or ';'. Lines that begin with a space belong
 * to the value above, which is never one that tessera uses.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arithmetic.h"
#include "base/system.h"
#include "remote/credentials_sources.h"

#define PROFILE_BYTES_MAX (UINT64_C(1) << 20)
#define PROFILE_MAX       256u /* characters of a profile's name */
#define PATH_ROOM         4096u

static tsr_text_part slice_of_text(const char *text) { return (tsr_text_part){text, text ? strlen(text) : 0}; }

/* ---- Environment variables ------------------------------------------------------------------- */

static void region_of_environment(tsr_credentials *credentials) {
  const char *region = tsr__variable("AWS_REGION");
  if (!region) region = tsr__variable("AWS_DEFAULT_REGION");
  if (region) tsr__credentials_region(credentials, slice_of_text(region));
}

int tsr__keys_from_environment(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *key_id = tsr__variable("AWS_ACCESS_KEY_ID"), *secret = tsr__variable("AWS_SECRET_ACCESS_KEY");
  if (!key_id || !secret)
    return tsr__fail(error, TSR_NOT_FOUND, "environment: %s is not set",
                     key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  if (tsr__credentials_make(provider->memory, slice_of_text(key_id), slice_of_text(secret),
                            slice_of_text(tsr__variable("AWS_SESSION_TOKEN")), INT64_MAX, credentials, error) < 0)
    return tsr__wrap(error, "environment");
  region_of_environment(credentials);
  return TSR_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

void tsr__secret_release(tsr_buffer *buffer) {
  if (buffer->data) tsr__wipe(buffer->data, buffer->capacity);
  tsr__buffer_release(buffer);
}

static int read_descriptor(int file, uint64_t most, tsr_buffer *buffer, tsr_error *error) {
  struct stat about;
  if (fstat(file, &about) != 0) return tsr__fail(error, TSR_IO, "%s", strerror(errno));
  if (!S_ISREG(about.st_mode)) return tsr__fail(error, TSR_PERM, "not an ordinary file");
  if ((uint64_t)about.st_size > most)
    return tsr__fail(error, TSR_TOOBIG, "%lld bytes; at most %llu are read", (long long)about.st_size,
                     (unsigned long long)most);
  TSR_TRY(
      tsr__buffer_reserve_exactly(buffer, (uint64_t)about.st_size + 1, error)); /* it never grows: see credentials.c */
  while (buffer->size < (uint64_t)about.st_size) {
    const ssize_t got = read(file, buffer->data + buffer->size, (size_t)((uint64_t)about.st_size - buffer->size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tsr__fail(error, TSR_IO, "%s", strerror(errno));
    if (got == 0) break;
    buffer->size += (uint64_t)got;
  }
  buffer->data[buffer->size] = 0;
  return TSR_OK;
}

int tsr__secret_file_read(const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error) {
  const int file = tsr_path_read(path, false);
  if (file < 0)
    return tsr__fail(error, errno == ENOENT || errno == ENOTDIR ? TSR_NOT_FOUND : TSR_IO, "%s: %s", path,
                     strerror(errno));
  const int rc = read_descriptor(file, most, buffer, error);
  close(file);
  return rc < 0 ? tsr__wrap(error, "%s", path) : TSR_OK;
}

static tsr_text_part trim(tsr_text_part text) {
  while (text.size > 0 && strchr(" \t\r", text.at[0])) text.at++, text.size--;
  while (text.size > 0 && strchr(" \t\r", text.at[text.size - 1])) text.size--;
  return text;
}

static bool is_text(tsr_text_part slice, const char *text) {
  return slice.size == strlen(text) && memcmp(slice.at, text, slice.size) == 0;
}

/* Takes the next line from *rest. Returns false at the end. */
static bool next_line(tsr_text_part *rest, tsr_text_part *line) {
  if (rest->size == 0) return false;
  const char *end = memchr(rest->at, '\n', rest->size);
  line->at = rest->at;
  line->size = end ? (uint64_t)(end - rest->at) : rest->size;
  const uint64_t used = line->size + (end != NULL);
  rest->at += used;
  rest->size -= used;
  return true;
}

/* Returns true if the line is the head of the profile's section. */
static bool is_section(tsr_text_part line, const char *profile, bool config) {
  line = trim(line);
  if (line.size < 2 || line.at[line.size - 1] != ']') return false;
  tsr_text_part name = trim((tsr_text_part){line.at + 1, line.size - 2});
  if (config && name.size > 8 && memcmp(name.at, "profile", 7) == 0 && strchr(" \t", name.at[7])) {
    name = trim((tsr_text_part){name.at + 8, name.size - 8});
  } else if (config && strcmp(profile, "default") != 0) {
    return false; /* only the default profile has a section without "profile" there */
  }
  return is_text(name, profile);
}

/* Returns the value of a key in a profile's section; its `at` is NULL if there is none. *found: the section exists. */
static tsr_text_part profile_value(const tsr_buffer *file, bool config, const char *profile, const char *key,
                                   bool *found) {
  tsr_text_part rest = {(const char *)file->data, file->size}, line, value = {NULL, 0};
  bool inside = false;
  while (next_line(&rest, &line)) {
    if (line.size == 0 || strchr(" \t#;", line.at[0])) continue;
    if (line.at[0] == '[') {
      inside = is_section(line, profile, config);
      if (inside) *found = true;
      continue;
    }
    const char *equals = inside ? memchr(line.at, '=', line.size) : NULL;
    if (!equals) continue;
    const uint64_t before = (uint64_t)(equals - line.at);
    if (is_text(trim((tsr_text_part){line.at, before}), key))
      value = trim((tsr_text_part){equals + 1, line.size - before - 1}); /* the last one counts */
  }
  return value;
}

/* Reads a file of profiles; one that does not exist is empty. */
static int read_profiles(const char *variable, const char *name, tsr_buffer *file, tsr_error *error) {
  char path[PATH_ROOM];
  const char *given = tsr__variable(variable), *home = tsr__variable(TSR_HOME_VARIABLE);
  const int size = given  ? snprintf(path, sizeof path, "%s", given)
                   : home ? snprintf(path, sizeof path, "%s/.aws/%s", home, name)
                          : -1;
  if (size < 0 || (size_t)size >= sizeof path) return TSR_OK;
  const int rc = tsr__secret_file_read(path, PROFILE_BYTES_MAX, file, error);
  if (rc != TSR_NOT_FOUND) return rc;
  tsr__error_clear(error);
  return TSR_OK;
}

/* What tells of keys that tessera does not fetch, because it runs no programs and opens no browser. */
static int fail_without_keys(const tsr_buffer files[2], const char *profile, bool found, tsr_error *error) {
  static const char *const others[] = {"credential_process", "sso_session", "sso_start_url", "role_arn"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    for (int config = 0; config < 2; config++)
      if (profile_value(&files[config], config, profile, others[i], &found).size > 0)
        return tsr__fail(error, TSR_UNSUPPORTED,
                         "profile '%s' has %s, which tessera does not support: pass the keys themselves", profile,
                         others[i]);
  if (found) return tsr__fail(error, TSR_NOT_FOUND, "profile '%s' has no aws_access_key_id", profile);
  return tsr__fail(error, TSR_NOT_FOUND, "no profile '%s' in ~/.aws", profile);
}

static int find_in_profiles(tsr_memory *memory, const tsr_buffer files[2], const char *profile,
                            tsr_credentials *credentials, tsr_error *error) {
  bool found = false;
  for (int config = 0; config < 2; config++) {
    const tsr_text_part key_id = profile_value(&files[config], config, profile, "aws_access_key_id", &found);
    const tsr_text_part secret = profile_value(&files[config], config, profile, "aws_secret_access_key", &found);
    if (key_id.size == 0 || secret.size == 0) continue;
    const tsr_text_part token = profile_value(&files[config], config, profile, "aws_session_token", &found);
    if (tsr__credentials_make(memory, key_id, secret, token, INT64_MAX, credentials, error) < 0)
      return tsr__wrap(error, "profile '%s'", profile);
    return TSR_OK;
  }
  return fail_without_keys(files, profile, found, error);
}

int tsr__keys_from_profile(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *profile = tsr__variable("AWS_PROFILE");
  if (!profile) profile = "default";
  if (strlen(profile) > PROFILE_MAX) return tsr__fail(error, TSR_DENIED, "the name in AWS_PROFILE is too long");
  tsr_error local = {0};
  tsr_buffer files[2] = {{.memory = provider->memory}, {.memory = provider->memory}};
  int rc = read_profiles("AWS_SHARED_CREDENTIALS_FILE", "credentials", &files[0], &local);
  if (rc >= 0) rc = read_profiles("AWS_CONFIG_FILE", "config", &files[1], &local);
  if (rc >= 0) rc = find_in_profiles(provider->memory, files, profile, credentials, &local);
  if (rc >= 0) {
    bool found;
    region_of_environment(credentials);
    for (int config = 2; config-- > 0 && !credentials->region[0];)
      tsr__credentials_region(credentials, profile_value(&files[config], config, profile, "region", &found));
  }
  tsr__secret_release(&files[0]);
  tsr__secret_release(&files[1]);
  return rc < 0 ? tsr__fail(error, rc, "%s", local.message) : TSR_OK;
}
