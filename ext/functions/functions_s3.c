/* functions_s3.c: the SQL function tessera_s3(scope, options), which declares how this connection reaches the objects of
 * a bucket, or of a prefix in it. Without it no request leaves the machine.
 */
#include "functions/functions_s3.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "functions/functions.h"
#include "text/json_flat.h"
#include "definition/arguments.h"

static int take_text(const tsx_flat_member *m, const char **to, tsr_error *error) {
  if (m->kind != TSX_FLAT_TEXT) return tsx_fail(error, TSR_MISMATCH, "'%s': expected text", m->key);
  *to = m->text;
  return TSR_OK;
}

static int take_number(const tsx_flat_member *m, uint32_t most, uint32_t *to, tsr_error *error) {
  if (m->kind != TSX_FLAT_INTEGER || m->integer < 0 || m->integer > most)
    return tsx_fail(error, TSR_MISMATCH, "'%s': expected an integer from 0 to %u", m->key, most);
  *to = (uint32_t)m->integer;
  return TSR_OK;
}

static int take_bool(const tsx_flat_member *m, bool *to, tsr_error *error) {
  if (m->kind != TSX_FLAT_BOOL) return tsx_fail(error, TSR_MISMATCH, "'%s': expected true or false", m->key);
  *to = m->integer;
  return TSR_OK;
}

static int take_url_style(tsr_s3_options *o, const tsx_flat_member *m, tsr_error *error) {
  if (m->kind == TSX_FLAT_TEXT && !strcmp(m->text, "path")) o->url_style = TSR_URL_PATH;
  else if (m->kind == TSX_FLAT_TEXT && !strcmp(m->text, "virtual")) o->url_style = TSR_URL_VIRTUAL;
  else return tsx_fail(error, TSR_MISMATCH, "'url_style': expected 'path' or 'virtual'");
  return TSR_OK;
}

/* The core takes 0 for the default number of retries. */
static int take_retries(tsr_s3_options *o, const tsx_flat_member *m, tsr_error *error) {
  const int code = take_number(m, 100, &o->retries, error);
  if (code >= 0 && o->retries == 0) o->retries = TSR_S3_NO_RETRIES;
  return code;
}

static int take_option(void *argument, const tsx_flat_member *option, tsr_error *error) {
  tsr_s3_options *c = argument;
  const struct {
    const char *name;
    const char **text;
  } texts[] = {{"provider", &c->provider},
               {"key_id", &c->key_id},
               {"secret", &c->secret},
               {"region", &c->region},
               {"endpoint", &c->endpoint},
               {"session_token", &c->session_token},
               {"ca_file", &c->ca_file},
               {"proxy", &c->proxy},
               {"sse", &c->sse},
               {"kms_key_id", &c->kms_key_id},
               {"storage_class", &c->storage_class}};
  const struct {
    const char *name;
    uint32_t *number, most;
  } numbers[] = {{"connect_ms", &c->connect_ms, 3600000},
                 {"stall_ms", &c->stall_ms, 3600000},
                 {"parallel", &c->parallel, 256},
                 {"part_mb", &c->part_mb, 1024},
                 {"refresh_ms", &c->refresh_ms, 86400000}};
  if (option->kind == TSX_FLAT_NULL) return TSR_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!strcmp(option->key, texts[i].name)) return take_text(option, texts[i].text, error);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (!strcmp(option->key, numbers[i].name)) return take_number(option, numbers[i].most, numbers[i].number, error);
  if (!strcmp(option->key, "retries")) return take_retries(c, option, error);
  if (!strcmp(option->key, "url_style")) return take_url_style(c, option, error);
  if (!strcmp(option->key, "requester_pays")) return take_bool(option, &c->requester_pays, error);
  if (!strcmp(option->key, "plain_http")) return take_bool(option, &c->plain_http, error);
  return tsx_fail(error, TSR_ERROR,
                  "no option is called '%s': provider, key_id, secret, session_token, region, requester_pays, "
                  "endpoint, plain_http, url_style, ca_file, proxy, sse, kms_key_id, storage_class, connect_ms, "
                  "stall_ms, retries, parallel, part_mb, refresh_ms",
                  option->key);
}

/* Declares the scope with the options in a JSON text, of which no copy stays. */
static int declare(tsx_connection *connection, const char *scope, sqlite3_value *json, tsr_error *error) {
  tsr_s3_options options = {0};
  if (sqlite3_value_type(json) != SQLITE_TEXT)
    return tsx_fail(error, TSR_MISMATCH, "argument 2: expected options as a JSON object, or NULL");
  const void *text = sqlite3_value_blob(json); /* sqlite3_value_text may make a copy, to end it with a NUL */
  const size_t size = (size_t)sqlite3_value_bytes(json);
  char *copy = text || size == 0 ? sqlite3_malloc64(size + 1) : NULL; /* an empty text has no bytes to point at */
  if (!copy) return tsx_out_of_memory(error);
  if (size > 0) memcpy(copy, text, size);
  copy[size] = 0;
  int code = tsx_flat_each(copy, take_option, &options, error);
  if (code == TSR_OK) code = tsr_environment_s3(connection->environment, scope, &options, error);
  tsx_wipe(copy, size);
  sqlite3_free(copy);
  return code;
}

void tsx_s3(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  int code = tsx_arguments_check(count, values, 1, &error);
  const char *scope = code == TSR_OK ? (const char *)sqlite3_value_text(values[0]) : "";
  if (code == TSR_OK && sqlite3_value_type(values[1]) == SQLITE_NULL) {
    code = tsr_environment_s3(connection->environment, scope, NULL, &error);
    if (code >= 0) sqlite3_result_int(context, code);
  } else if (code == TSR_OK) code = declare(connection, scope, values[1], &error);
  tsx_function_end(context, "tessera_s3", code, &error);
}
