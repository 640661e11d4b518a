/* bucket.c: clients of buckets, and how their calls run.
 *
 * A call is a small state machine: it WAITS until its next request is due, the request is IN_FLIGHT, its response is
 * taken, and the outcome says what comes next (bucket.h), until the call has ENDED. The thread that called
 * tsr__bucket_run drives all its calls; the transfers run on the I/O thread of http.h. So retries, further pages and
 * resumed downloads happen only while a caller waits: a call that was started ahead makes no second request before
 * tsr__bucket_finish.
 *
 * Order: clients; beginning and ending a call; its requests; driving calls; the proof of conditional writes.
 */
#include "remote/bucket.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/always.h"
#include "base/arithmetic.h"
#include "base/pool.h"
#include "base/clock.h"
#include "remote/curl.h"
#include "tessera_host.h"

#define KEY_BYTES_MAX   1024u
#define POLL_MS         20u /* between two polls of the host for cancellation, while no request is in flight */
#define SKEW_IGNORED_MS 1000 /* smaller differences between the server's clock and ours are ignored */

struct tsr_bucket {
  tsr_bucket_scopes *scopes; /* borrowed */
  tsr_memory *memory; /* borrowed */
  tsr_arena texts;
  tsr_bucket_uri uri;
};

/* ---- Clients --------------------------------------------------------------------------------- */

static int open_client(tsr_bucket *client, const char *uri, tsr_error *error) {
  TSR_TRY(tsr__bucket_uri_parse(uri, &client->texts, &client->uri, error));
  tsr_bucket_scope *scope = client->scopes ? tsr__bucket_scope_find(client->scopes, client->uri.name) : NULL;
  tsr__bucket_scope_release(scope);
  if (!scope)
    return tsr__fail(error, TSR_NOT_FOUND, "no scope for %.200s: call tessera_configure first", client->uri.name);
  const tsr_curl *curl;
  return tsr__curl_load(&curl, error);
}

int tsr__bucket_open(tsr_bucket_scopes *scopes, tsr_memory *memory, const char *uri, tsr_bucket **client,
                     tsr_error *error) {
  tsr_bucket *made;
  TSR_TRY(TSR_ALLOC(memory, &made, error));
  made->scopes = scopes;
  made->memory = memory;
  tsr__arena_init(&made->texts, memory);
  const int rc = open_client(made, uri, error);
  if (rc < 0) tsr__bucket_close(made);
  else *client = made;
  return rc;
}

void tsr__bucket_close(tsr_bucket *client) {
  if (!client) return;
  tsr__arena_release(&client->texts);
  tsr__free(client);
}

const char *tsr__bucket_name(const tsr_bucket *client) { return client->uri.bucket; }
const char *tsr__bucket_prefix(const tsr_bucket *client) { return client->uri.prefix; }

/* Returns the options of the client's scope, without the strings; the defaults if the scope was forgotten. */
static tsr_scope_options client_options(const tsr_bucket *client) {
  tsr_scope_options options = {.parallel = 32, .part_mb = 8};
  tsr_bucket_scope *scope = tsr__bucket_scope_find(client->scopes, client->uri.name);
  if (!scope) return options;
  options.parallel = scope->options.parallel;
  options.part_mb = scope->options.part_mb;
  options.refresh_ms = scope->options.refresh_ms;
  tsr__bucket_scope_release(scope);
  return options;
}

bool tsr__bucket_deletes_singly(const tsr_bucket *client) { return client->uri.dialect->deletion_keys == 1; }

uint64_t tsr__bucket_part_size(const tsr_bucket *client) { return (uint64_t)client_options(client).part_mb << 20; }
uint32_t tsr__bucket_parallel(const tsr_bucket *client) { return client_options(client).parallel; }
uint32_t tsr__bucket_refresh_ms(const tsr_bucket *client) { return client_options(client).refresh_ms; }

uint64_t tsr__bucket_now(const tsr_bucket *client) {
  tsr_bucket_scope *scope = tsr__bucket_scope_find(client->scopes, client->uri.name);
  const int64_t offset = scope ? atomic_load(&scope->clocks.offset) : 0;
  tsr__bucket_scope_release(scope);
  return (uint64_t)TSR_MAX(offset ? (int64_t)tsr__moment() + offset : tsr__bucket_clock(), 0);
}

/* ---- Beginning and ending a call ------------------------------------------------------------- */

static bool ends_in_dropped_dot(const tsr_dialect *dialect, const char *part, size_t size) {
  return dialect->drops_dots && size > 0 && part[size - 1] == '.';
}

bool tsr__bucket_can_name(const tsr_bucket *client, const char *name) {
  const tsr_dialect *dialect = client->uri.dialect;
  return *name && tsr__bucket_is_prefix(name) && !ends_in_dropped_dot(dialect, name, strlen(name)) &&
         !(dialect->forbidden && strpbrk(name, dialect->forbidden));
}

/* Refuses a part of a key that a server would change, so that it names another object. */
static int check_part(const tsr_bucket_scope *scope, const char *key, const char *part, size_t size, tsr_error *error) {
  if ((size == 1 && *part == '.') || (size == 2 && memcmp(part, "..", 2) == 0))
    return tsr__fail(error, TSR_PERM, "%s://%s/%.300s: a part of the key is '.' or '..'", scope->dialect->scheme,
                     scope->bucket, key);
  if (ends_in_dropped_dot(scope->dialect, part, size))
    return tsr__fail(error, TSR_ERROR, "%s://%s/%.300s: the server would drop the '.' at the end of a part of the name",
                     scope->dialect->scheme, scope->bucket, key);
  return TSR_OK;
}

static int check_key(const tsr_bucket_scope *scope, const char *key, bool listing, tsr_error *error) {
  const size_t size = key ? strlen(key) : 0, prefix = strlen(scope->prefix);
  if (!key || (size == 0 && !listing) || size > KEY_BYTES_MAX)
    return tsr__fail(error, TSR_ERROR, "%s://%s: a key of %zu bytes", scope->dialect->scheme, scope->bucket, size);
  const char *forbidden = scope->dialect->forbidden ? strpbrk(key, scope->dialect->forbidden) : NULL;
  if (forbidden)
    return tsr__fail(error, TSR_ERROR, "%s://%s/%.300s: the server would take '%c' in a name for another character",
                     scope->dialect->scheme, scope->bucket, key, *forbidden);
  for (const char *part = key; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
    TSR_TRY(check_part(scope, key, part, strcspn(part, "/"), error));
  /* Listing "prefix" would also list the keys of "prefix2". */
  const bool below = prefix == 0 || (listing ? strncmp(key, scope->prefix, prefix) == 0 && key[prefix] == '/'
                                             : tsr__bucket_key_is_below(key, scope->prefix));
  return below ? TSR_OK
               : tsr__fail(error, TSR_PERM, "%s://%s/%.300s is outside the scope %.200s", scope->dialect->scheme,
                           scope->bucket, key, scope->name);
}

static int check_call(const tsr_bucket_scope *scope, const tsr_bucket_call *call, tsr_error *error) {
  const bool listing = call->kind == TSR_BUCKET_LIST || call->kind == TSR_BUCKET_UPLOAD_LIST;
  if (call->kind != TSR_BUCKET_DELETE_MANY) TSR_TRY(check_key(scope, call->key, listing, error));
  for (uint64_t i = 0; call->kind == TSR_BUCKET_DELETE_MANY && i < call->key_count; i++)
    TSR_TRY(check_key(scope, call->keys[i], false, error));
  return call->kind == TSR_BUCKET_COPY ? check_key(scope, call->source, false, error) : TSR_OK;
}

static int make_state(tsr_bucket *client, tsr_bucket_call *call, tsr_error *error) {
  tsr_bucket_scope *scope = tsr__bucket_scope_find(client->scopes, client->uri.name);
  if (!scope)
    return tsr__fail(error, TSR_PERM, "the scope of %.200s was forgotten: call tessera_configure again",
                     client->uri.name);
  int rc = check_call(scope, call, error);
  if (rc >= 0) rc = TSR_ALLOC(client->memory, &call->state, error);
  if (rc < 0) {
    tsr__bucket_scope_release(scope);
    return rc;
  }
  tsr_bucket_state *state = call->state;
  state->call = call;
  state->memory = client->memory;
  state->scope = scope;
  state->got.base = call->kind == TSR_BUCKET_GET && call->get.buffer ? call->get.buffer->size : 0;
  state->page.token.memory = state->page.token_id.memory = state->body.memory = state->response.memory = client->memory;
  state->made.url.memory = state->made.lines.text.memory = state->http.received.memory = client->memory;
  tsr__arena_init(&state->arena, client->memory);
  if (call->list.objects && !call->list.objects->texts.memory)
    tsr__arena_init(&call->list.objects->texts, call->list.objects->memory);
  return TSR_OK;
}

static void end_call(tsr_bucket_call *call, int rc) {
  tsr_bucket_state *state = call->state;
  call->rc = rc;
  if (!state) return;
  call->state = NULL;
  tsr__buffer_release(&state->page.token);
  tsr__buffer_release(&state->page.token_id);
  tsr__buffer_release(&state->body);
  tsr__buffer_release(&state->response);
  tsr__buffer_release(&state->http.received);
  if (state->made.url.data) tsr__wipe(state->made.url.data, state->made.url.capacity); /* it may hold a token */
  tsr__buffer_release(&state->made.url);
  tsr__sigv4_lines_release(&state->made.lines);
  tsr__arena_release(&state->arena);
  tsr__bucket_scope_release(state->scope);
  tsr__free(state);
}

/* Makes the id of an upload that the server does not begin. */
static int make_upload_id(tsr_bucket_call *call, tsr_error *error) {
  uint8_t bytes[TSR_BUCKET_UPLOAD_MARK / 2];
  TSR_TRY(tsr__random(bytes, sizeof bytes, error));
  tsr_hex_write(bytes, sizeof bytes, call->result.id);
  return TSR_OK;
}

/* Prepares a call. If that fails, or if there is nothing to do, the call has ended. */
static void begin_call(tsr_bucket *client, tsr_bucket_call *call) {
  call->state = NULL;
  call->rc = TSR_OK;
  tsr__error_clear(&call->error);
  call->result.received = call->result.object_size = 0;
  call->result.modified = 0;
  call->result.etag.text[0] = call->result.id[0] = 0;
  if (call->kind == TSR_BUCKET_DELETE_MANY && call->key_count == 0) return;
  int rc = make_state(client, call, &call->error);
  if (rc < 0) {
    end_call(call, rc);
    return;
  }
  const tsr_dialect *dialect = client->uri.dialect;
  call->state->deleted.singly = dialect->deletion_keys == 1;
  if (call->kind == TSR_BUCKET_UPLOAD_COMPLETE && call->put.new_only && !dialect->conditional_completions)
    call->state->step = TSR_BUCKET_STEP_ABSENT;
  if (dialect->begins_uploads) return;
  if (call->kind == TSR_BUCKET_UPLOAD_CREATE) rc = make_upload_id(call, &call->error);
  if (call->kind == TSR_BUCKET_UPLOAD_CREATE || call->kind == TSR_BUCKET_UPLOAD_ABORT ||
      call->kind == TSR_BUCKET_UPLOAD_LIST)
    end_call(call, rc); /* such uploads exist on this machine alone, and their parts vanish by themselves */
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Counts a request, unless it is a retry. */
static void count_request(const tsr_bucket_state *state) {
  tsr_bucket_counters *counters = &state->scope->scopes->counters;
  _Atomic uint64_t *const by_kind[] = {&counters->gets,    &counters->heads,   &counters->lists,   &counters->puts,
                                       &counters->deletes, &counters->deletes, &counters->puts,    &counters->puts,
                                       &counters->puts,    &counters->puts,    &counters->deletes, &counters->lists};
  _Atomic uint64_t *counter = by_kind[state->call->kind];
  if (state->step == TSR_BUCKET_STEP_OWNER || state->step == TSR_BUCKET_STEP_ABSENT ||
      state->step == TSR_BUCKET_STEP_COPYING)
    counter = &counters->heads;
  if (state->step == TSR_BUCKET_STEP_COMPARE) counter = &counters->gets;
  if (!state->tries.again) atomic_fetch_add(counter, 1);
  if (atomic_fetch_add(&state->scope->scopes->outstanding, 1) == 0) atomic_fetch_add(&counters->round_trips, 1);
}

/* Sends the next request. Returns false if the call has ended. */
static bool send_request(tsr_bucket_call *call) {
  tsr_bucket_state *state = call->state;
  tsr_error error = {0};
  int rc = TSR_OK;
  if (atomic_load(&state->scope->forgotten))
    rc = tsr__fail(&error, TSR_PERM, "the scope %.200s was forgotten or replaced", state->scope->name);
  if (rc >= 0) rc = tsr__bucket_request_make(state, &error);
  if (rc < 0) {
    call->error = error;
    end_call(call, rc);
    return false;
  }
  count_request(state);
  state->phase = TSR_BUCKET_IN_FLIGHT;
  tsr__http_start(&state->http);
  return true;
}

/* Accounts for a finished request, and notes the server's clock. */
static void account_for(tsr_bucket_state *state) {
  tsr_bucket_counters *counters = &state->scope->scopes->counters;
  const int64_t date = state->http.response.date;
  atomic_fetch_sub(&state->scope->scopes->outstanding, 1);
  atomic_fetch_add(&counters->bytes_sent, state->http.bytes_sent);
  atomic_fetch_add(&counters->bytes_received, state->http.bytes_received);
  if (state->http.response.status == 0 || date == INT64_MIN) return;
  const int64_t ours = tsr__bucket_clock(), ahead = date - ours; /* the Date is rounded down to seconds */
  const int64_t there = ahead > SKEW_IGNORED_MS || ahead < -2 * SKEW_IGNORED_MS ? date : ours;
  atomic_store(&state->scope->clocks.offset, there - (int64_t)tsr__moment());
}

/* Reads the response of a finished request. Afterwards the call has ended, or waits for its next request. */
static void take_response(tsr_bucket_call *call) {
  tsr_bucket_state *state = call->state;
  account_for(state);
  state->phase = TSR_BUCKET_WAITS;
  state->tries.fresh = false;
  const tsr_bucket_outcome outcome = tsr__bucket_read_response(state);
  switch (outcome) {
  case TSR_BUCKET_DONE:
    tsr__error_clear(&call->error);
    end_call(call, TSR_OK);
    return;
  case TSR_BUCKET_FAILED: end_call(call, TSR_ALWAYS(call->error.code < 0) ? call->error.code : TSR_ERROR); return;
  case TSR_BUCKET_NEXT:
    state->tries.again = false;
    state->tries.due = 0;
    if (state->step == TSR_BUCKET_STEP_CALL && call->kind != TSR_BUCKET_GET) state->tries.failed = 0;
    return;
  case TSR_BUCKET_LATER:
    (void)tsr__bucket_plan_retry(state, outcome);
    state->tries.again = false; /* it counts as a request of its own */
    return;
  case TSR_BUCKET_SOON:
  case TSR_BUCKET_AGAIN: break;
  }
  state->tries.again = tsr__bucket_plan_retry(state, outcome);
  if (state->tries.again) atomic_fetch_add(&state->scope->scopes->counters.retries, 1);
  else end_call(call, TSR_ALWAYS(call->error.code < 0) ? call->error.code : TSR_ERROR);
}

bool tsr__bucket_answered(const tsr_bucket_call *call) {
  return !call->state || call->state->phase != TSR_BUCKET_IN_FLIGHT || tsr__http_finished(&call->state->http);
}

/* Ends a call without a result. */
static void drop_call(tsr_bucket_call *call) {
  tsr_bucket_state *state = call->state;
  if (!state) return;
  if (state->phase == TSR_BUCKET_IN_FLIGHT) {
    tsr__http_cancel(&state->http);
    atomic_fetch_sub(&state->scope->scopes->outstanding, 1);
    if (state->step == TSR_BUCKET_STEP_CALL && call->kind == TSR_BUCKET_GET) tsr__bucket_get_return(state);
  }
  tsr__error_clear(&call->error);
  end_call(call, tsr__fail_cancelled(&call->error));
}

/* ---- Driving --------------------------------------------------------------------------------- */

typedef struct driver {
  tsr_memory *memory;
  tsr_bucket_call **calls; /* running: at most `room` */
  tsr_http_request **requests; /* room for those of the calls that are in flight */
  uint64_t room, count; /* calls at most, and now */
} driver;

/* Sleeps for `ms` milliseconds, but no longer than until the next poll of the host, while no request is in flight. */
static int sleep_polling(tsr_memory *memory, uint64_t ms, tsr_error *error) {
  TSR_TRY(tsr__cancelled(memory, error));
  const struct timespec pause = {.tv_nsec = (long)TSR_MIN(ms, POLL_MS) * 1000000};
  (void)nanosleep(&pause, NULL);
  return TSR_OK;
}

/* Sends the requests that are due, waits for a response or the next due time, and reads the responses. */
static int step_calls(driver *d, tsr_error *error) {
  const uint64_t now = tsr__ticks();
  uint64_t in_flight = 0, pause = UINT64_MAX, kept = 0;
  for (uint64_t i = 0; i < d->count; i++) {
    tsr_bucket_call *call = d->calls[i];
    if (call->state->phase == TSR_BUCKET_WAITS && call->state->tries.due <= now && !send_request(call)) continue;
    d->calls[kept++] = call;
    if (call->state->phase == TSR_BUCKET_IN_FLIGHT) d->requests[in_flight++] = &call->state->http;
    else pause = TSR_MIN(pause, call->state->tries.due - now);
  }
  d->count = kept;
  if (kept == 0) return TSR_OK;
  if (in_flight == 0) return sleep_polling(d->memory, pause, error);
  TSR_TRY(tsr__http_wait(d->requests, in_flight, pause, d->memory, error));
  kept = 0;
  for (uint64_t i = 0; i < d->count; i++) {
    tsr_bucket_call *call = d->calls[i];
    if (call->state->phase == TSR_BUCKET_IN_FLIGHT && tsr__http_finished(&call->state->http)) take_response(call);
    if (call->state) d->calls[kept++] = call;
  }
  d->count = kept;
  return TSR_OK;
}

/* Runs calls to their end. `begun`: they were begun before, and those without a state have ended. */
static int drive(tsr_bucket *client, driver *d, tsr_bucket_call *calls, uint64_t count, bool begun, tsr_error *error) {
  uint64_t next = 0;
  int rc = TSR_OK;
  while (rc >= 0 && (next < count || d->count > 0)) {
    while (next < count && d->count < d->room) {
      tsr_bucket_call *call = &calls[next++];
      if (!begun) begin_call(client, call);
      if (call->state) d->calls[d->count++] = call;
    }
    rc = step_calls(d, error);
  }
  if (rc >= 0) return TSR_OK;
  for (uint64_t i = 0; i < d->count; i++) drop_call(d->calls[i]);
  for (; next < count; next++) {
    calls[next].state = NULL;
    tsr__error_clear(&calls[next].error);
    calls[next].rc = tsr__fail(&calls[next].error, rc, "interrupted");
  }
  return rc;
}

static int first_failure(const tsr_bucket_call *calls, uint64_t count, tsr_error *error) {
  for (uint64_t i = 0; i < count; i++)
    if (calls[i].rc < 0) {
      if (error) *error = calls[i].error;
      return calls[i].rc;
    }
  return TSR_OK;
}

int tsr__bucket_run_one(tsr_bucket *client, tsr_bucket_call *call, tsr_error *error) {
  tsr_bucket_call *running[1];
  tsr_http_request *requests[1];
  driver d = {client->memory, running, requests, 1, 0};
  TSR_TRY(drive(client, &d, call, 1, false, error));
  return first_failure(call, 1, error);
}

int tsr__bucket_run(tsr_bucket *client, tsr_bucket_call *calls, uint64_t count, tsr_error *error) {
  if (count == 1) return tsr__bucket_run_one(client, calls, error);
  driver d = {.memory = client->memory, .room = TSR_MIN(count, tsr__bucket_parallel(client))};
  int rc = TSR_ALLOC_ARRAY(client->memory, d.room, &d.calls, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(client->memory, d.room, &d.requests, error);
  for (uint64_t i = 0; i < count && rc < 0; i++) calls[i].rc = rc;
  if (rc >= 0) rc = drive(client, &d, calls, count, false, error);
  tsr__free(d.calls);
  tsr__free(d.requests);
  return rc < 0 ? rc : first_failure(calls, count, error);
}

void tsr__bucket_start(tsr_bucket *client, tsr_bucket_call *call) {
  begin_call(client, call);
  if (call->state) (void)send_request(call);
}

int tsr__bucket_finish(tsr_bucket *client, tsr_bucket_call *call, tsr_error *error) {
  tsr_bucket_call *running[1];
  tsr_http_request *requests[1];
  driver d = {client->memory, running, requests, 1, 0};
  if (call->state) TSR_TRY(drive(client, &d, call, 1, true, error));
  return first_failure(call, 1, error);
}

void tsr__bucket_cancel(tsr_bucket *client, tsr_bucket_call *call) { drop_call(call); }

/* ---- The proof that the server honours conditions -------------------------------------------- */

/* Creates the same object twice, with different contents: the second request must fail. */
static int test_conditions(tsr_bucket *client, const tsr_bucket_scope *scope, const char *key, tsr_error *error) {
  tsr_bucket_call first = {.kind = TSR_BUCKET_PUT, .key = key, .put.bytes = "1", .put.size = 1, .put.new_only = true};
  tsr_bucket_call second = {.kind = TSR_BUCKET_PUT, .key = key, .put.bytes = "2", .put.size = 1, .put.new_only = true};
  tsr_bucket_call removal = {.kind = TSR_BUCKET_DELETE, .key = key};
  TSR_TRY(tsr__bucket_run_one(client, &first, error));
  tsr_error ignored = {0};
  const int rc = tsr__bucket_run_one(client, &second, &ignored);
  TSR_TRY(tsr__bucket_run_one(client, &removal, error));
  if (rc == TSR_EXISTS) return TSR_OK;
  if (rc < 0) return tsr__fail(error, rc, "%s", ignored.message);
  return tsr__fail(error, TSR_READONLY,
                   "%s://%s: the server ignores %s, so two writers would overwrite each other: it can only be read%s",
                   client->uri.dialect->scheme, client->uri.bucket, scope->dialect->condition,
                   scope->advice ? scope->advice : "");
}

int tsr__bucket_prove(tsr_bucket *client, const char *key_prefix, tsr_error *error) {
  tsr_bucket_scope *scope = tsr__bucket_scope_find(client->scopes, client->uri.name);
  if (!scope)
    return tsr__fail(error, TSR_PERM, "the scope of %.200s was forgotten: call tessera_configure again",
                     client->uri.name);
  int rc = TSR_OK;
  if (atomic_load(&scope->proof) != TSR_BUCKET_PROVEN) {
    char key[KEY_BYTES_MAX + 1];
    uint64_t chance = 0;
    rc = tsr__random(&chance, sizeof chance, error);
    const int size = snprintf(key, sizeof key, "%s" TSR_BUCKET_PROOF "%016llx", key_prefix, (unsigned long long)chance);
    if (rc >= 0 && (size_t)size >= sizeof key) rc = tsr__fail(error, TSR_TOOBIG, "the key is too long");
    if (rc >= 0) rc = test_conditions(client, scope, key, error);
    if (rc >= 0) atomic_store(&scope->proof, TSR_BUCKET_PROVEN);
  }
  tsr__bucket_scope_release(scope);
  return rc;
}
