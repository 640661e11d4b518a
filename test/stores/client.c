/* client.c: runs calls of remote/bucket.h that it reads as lines, and answers each with one line. calls.py starts it beside
 * a server. Words of a line are separated by spaces; within a word the byte
 * 0x1f stands for a space, and "-" stands for "". An answer is "rc=NAME" and what the call gave, or
 * "rc=NAME message=..." to the end of the line. Bytes are made from a seed, and are compared by their MD5.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/pool.h"
#include "crypto/crypto.h"
#include "remote/bucket.h"
#include "counted_memory.h"

#define WORDS 1100
static counted_memory counted;
static tsr_memory memory;
static tsr_bucket_scopes *scopes;
static tsr_bucket *client;
static char *words[WORDS];
static int word_count;
static tsr_error error;
static uint64_t cancel_at; /* tsr ticks at which the host wants to stop; 0: never */

static uint64_t ticks(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool is_interrupted(void *argument) { return cancel_at && ticks() >= cancel_at; }

static const char *word(int i) { return i >= word_count || strcmp(words[i], "-") == 0 ? "" : words[i]; }
static uint64_t number(int i) { return strtoull(word(i), NULL, 10); }

static uint8_t *make_bytes(uint64_t size, uint64_t seed) {
  uint8_t *bytes = malloc(size + 1);
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint64_t i = 0; i < size; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    bytes[i] = (uint8_t)(x >> 32);
  }
  return bytes;
}

static void print_md5(const void *bytes, uint64_t size) {
  uint8_t digest[TSR_MD5_SIZE];
  (void)tsr__md5(bytes, size, digest, NULL);
  printf(" md5=");
  for (int i = 0; i < TSR_MD5_SIZE; i++) printf("%02x", digest[i]);
}

/* Prints the beginning of the answer. Returns true if the call has succeeded. */
static bool print_rc(int rc, const tsr_error *e) {
  printf("rc=%s", rc > 0 ? "1" : tsr_code_name(rc));
  if (rc < 0) printf(" message=%s", e->message);
  return rc >= 0;
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

static void set_option(tsr_scope_options *o, const char *name, const char *value) {
  const struct {
    const char *name;
    const char **text;
  } texts[] = {{"provider", &o->provider},
               {"key_id", &o->key_id},
               {"secret", &o->secret},
               {"session_token", &o->session_token},
               {"region", &o->region},
               {"endpoint", &o->endpoint},
               {"ca_file", &o->ca_file},
               {"proxy", &o->proxy},
               {"sse", &o->sse},
               {"kms_key_id", &o->kms_key_id},
               {"storage_class", &o->storage_class},
               {"account", &o->account},
               {"key", &o->key},
               {"sas", &o->sas},
               {"token", &o->token},
               {"tenant_id", &o->tenant_id},
               {"client_id", &o->client_id},
               {"client_secret", &o->client_secret},
               {"encryption_scope", &o->encryption_scope},
               {"service_account", &o->service_account},
               {"service_account_file", &o->service_account_file},
               {"user_project", &o->user_project}};
  const struct {
    const char *name;
    uint32_t *number;
  } numbers[] = {{"connect_ms", &o->connect_ms}, {"stall_ms", &o->stall_ms}, {"retries", &o->retries},
                 {"parallel", &o->parallel},     {"part_mb", &o->part_mb},   {"refresh_ms", &o->refresh_ms}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strcmp(texts[i].name, name) == 0) *texts[i].text = value;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(numbers[i].name, name) == 0) *numbers[i].number = (uint32_t)strtoul(value, NULL, 10);
  if (strcmp(name, "url_style") == 0) o->url_style = strcmp(value, "path") ? TSR_URL_VIRTUAL : TSR_URL_PATH;
  if (strcmp(name, "requester_pays") == 0) o->requester_pays = true;
  if (strcmp(name, "plain_http") == 0) o->plain_http = true;
}

static void run_scope(void) { /* scope NAME option=value ... */
  tsr_scope_options options = {0};
  for (int i = 2; i < word_count; i++) {
    char *equals = strchr(words[i], '=');
    if (equals) *equals = 0;
    set_option(&options, words[i], equals ? equals + 1 : "");
  }
  print_rc(tsr__bucket_scopes_set(scopes, word(1), &options, &error), &error);
}

static void run_fail_each(void) { /* fail_each N: every N-th allocation of the next calls; 0: none */
  counted.each = (long)number(1);
  printf("rc=OK");
}

static void run_open(void) { /* open URI */
  tsr__bucket_close(client);
  client = NULL;
  print_rc(tsr__bucket_open(scopes, &memory, word(1), &client, &error), &error);
}

static void print_counters(void) {
  const tsr_bucket_counters *counters = tsr__bucket_scopes_counters(scopes);
  printf("rc=OK");
#define X(name) printf(" " #name "=%" PRIu64, (uint64_t)counters->name);
  TSR_BUCKET_COUNTERS(X)
#undef X
  printf(" blocks=%d", counted.blocks);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void print_etag(const tsr_bucket_call *call) {
  printf(" etag=%s", *call->result.etag.text ? call->result.etag.text : "-");
}

static void run_get(void) { /* get KEY whole|range|suffix OFFSET SIZE MOST into|buffer */
  const char *range = word(2);
  tsr_buffer buffer = {.memory = &memory};
  uint8_t *room = NULL;
  tsr_bucket_call call = {.kind = TSR_BUCKET_GET,
                          .key = word(1),
                          .get.offset = number(3),
                          .get.size = number(4),
                          .get.most = number(5),
                          .get.buffer = &buffer};
  call.get.range = strcmp(range, "range") == 0    ? TSR_BUCKET_RANGE
                   : strcmp(range, "suffix") == 0 ? TSR_BUCKET_SUFFIX
                                                  : TSR_BUCKET_WHOLE;
  if (strcmp(word(6), "into") == 0) {
    call.get.room = call.get.range == TSR_BUCKET_WHOLE ? call.get.most : call.get.size;
    call.get.into = room = malloc(call.get.room + 1);
  } else if (tsr__buffer_append(&buffer, "front", 5, NULL) < 0) {
    printf("rc=NOMEM");
    return;
  }
  const int rc = tsr__bucket_run_one(client, &call, &error);
  if (print_rc(rc, &error)) {
    printf(" received=%" PRIu64 " size=%" PRIu64 " modified=%" PRId64, call.result.received, call.result.object_size,
           call.result.modified);
    print_md5(room ? room : buffer.data + 5, call.result.received);
    print_etag(&call);
  }
  if (!room &&
      (buffer.size != 5 + (rc >= 0 ? call.result.received : buffer.size - 5) || memcmp(buffer.data, "front", 5) != 0))
    printf(" BUFFER");
  free(room);
  tsr__buffer_release(&buffer);
}

static void run_simple(tsr_bucket_call *call) {
  const int rc = tsr__bucket_run_one(client, call, &error);
  if (!print_rc(rc, &error)) return;
  if (call->kind == TSR_BUCKET_HEAD)
    printf(" size=%" PRIu64 " modified=%" PRId64, call->result.object_size, call->result.modified);
  if (call->kind == TSR_BUCKET_UPLOAD_CREATE) printf(" id=%s", call->result.id);
  else print_etag(call);
}

static void run_put(tsr_bucket_kind kind) { /* put KEY SIZE SEED [new]; part KEY SIZE SEED ID NUMBER */
  tsr_bucket_call call = {.kind = kind, .key = word(1), .put.size = number(2)};
  uint8_t *bytes = make_bytes(call.put.size, number(3));
  call.put.bytes = bytes;
  call.put.new_only = strcmp(word(4), "new") == 0;
  if (kind == TSR_BUCKET_UPLOAD_PART) call.upload.id = word(4), call.upload.part = (uint32_t)number(5);
  run_simple(&call);
  free(bytes);
}

static void run_list(tsr_bucket_kind kind) { /* list PREFIX DELIMITER - MOST */
  tsr_bucket_objects objects = {.memory = &memory};
  tsr_bucket_call call = {
      .kind = kind, .key = word(1), .list.delimiter = *word(2), .list.most = number(4), .list.objects = &objects};
  if (print_rc(tsr__bucket_run_one(client, &call, &error), &error)) {
    printf(" count=%" PRIu64, objects.count);
    for (uint64_t i = 0; i < objects.count && i < 40; i++) {
      const tsr_bucket_object *o = &objects.at[i];
      printf(" %s|%" PRIu64 "|%s|%s", o->key, o->size,
             o->is_prefix      ? "prefix"
             : o->modified > 0 ? "time"
                               : "-",
             *o->etag ? o->etag : "-");
    }
  }
  tsr__bucket_objects_release(&objects);
}

static void run_delete_many(void) { /* delete_many KEY ...; a key "PREFIX*COUNT" stands for COUNT keys */
  static char keys[4000][80];
  static const char *list[4000];
  uint64_t count = 0;
  for (int i = 1; i < word_count; i++) {
    char *star = strchr(words[i], '*');
    const uint64_t many = star ? strtoull(star + 1, NULL, 10) : 1;
    if (star) *star = 0;
    for (uint64_t j = 0; j < many && count < 4000; j++, count++)
      if (star) (void)snprintf(keys[count], sizeof keys[count], "%.50s%05" PRIu64, words[i], j);
      else (void)snprintf(keys[count], sizeof keys[count], "%.60s", words[i]);
  }
  for (uint64_t i = 0; i < count; i++) list[i] = keys[i];
  tsr_bucket_call call = {.kind = TSR_BUCKET_DELETE_MANY, .keys = list, .key_count = count};
  run_simple(&call);
}

static void run_complete(void) { /* complete KEY ID new|- ETAG ... */
  static tsr_etag etags[1000];
  tsr_bucket_call call = {
      .kind = TSR_BUCKET_UPLOAD_COMPLETE, .key = word(1), .upload.id = word(2), .upload.etags = etags};
  call.put.new_only = strcmp(word(3), "new") == 0;
  for (int i = 4; i < word_count; i++)
    (void)snprintf(etags[call.upload.part_count++].text, sizeof etags->text, "%s", word(i));
  run_simple(&call);
}

static int run_task(void *argument, uint64_t index, tsr_error *e) {
  return tsr__bucket_run_one(client, (tsr_bucket_call *)argument + index, e);
}

/* many get|put|ahead|threads PREFIX COUNT SIZE: objects PREFIX00000 and so on, at once; object i has the seed i. With
 * "threads" eight threads get one object at a time. */
static void run_many(void) {
  const uint64_t count = number(3), size = number(4);
  const bool put = strcmp(word(1), "put") == 0, ahead = strcmp(word(1), "ahead") == 0;
  const bool threads = strcmp(word(1), "threads") == 0;
  tsr_bucket_call *calls = calloc(count, sizeof *calls);
  char(*keys)[80] = calloc(count, sizeof *keys);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count; i++) {
    (void)snprintf(keys[i], sizeof keys[i], "%.50s%05" PRIu64, word(2), i);
    calls[i] = (tsr_bucket_call){
        .kind = put ? TSR_BUCKET_PUT : TSR_BUCKET_GET, .key = keys[i], .put.size = size, .get.room = size + 1};
    if (put) calls[i].put.bytes = make_bytes(size, i);
    else calls[i].get.into = malloc(size + 1);
  }
  const uint64_t start = ticks();
  int rc = TSR_OK;
  for (uint64_t i = 0; i < count && ahead; i++) tsr__bucket_start(client, &calls[i]);
  for (uint64_t i = 0; i < count && ahead; i++)
    if (rc >= 0) rc = tsr__bucket_finish(client, &calls[i], &error);
    else tsr__bucket_cancel(client, &calls[i]);
  if (threads) rc = tsr__parallel_for(8, count, run_task, calls, &error);
  else if (!ahead) rc = tsr__bucket_run(client, calls, count, &error);
  const uint64_t taken = ticks() - start;
  for (uint64_t i = 0; i < count; i++) {
    uint8_t *expected = make_bytes(size, i);
    if (!put && calls[i].rc >= 0)
      wrong += calls[i].result.received != size || memcmp(calls[i].get.into, expected, size) != 0;
    free(put ? (void *)calls[i].put.bytes : calls[i].get.into);
    free(expected);
  }
  if (print_rc(rc, &error)) printf(" wrong=%" PRIu64 " ms=%" PRIu64, wrong, taken);
  free(calls);
  free(keys);
}

static void run_call(const char *name) {
  tsr_bucket_call call = {.key = word(1)};
  if (strcmp(name, "get") == 0) return run_get();
  if (strcmp(name, "put") == 0) return run_put(TSR_BUCKET_PUT);
  if (strcmp(name, "part") == 0) return run_put(TSR_BUCKET_UPLOAD_PART);
  if (strcmp(name, "list") == 0) return run_list(TSR_BUCKET_LIST);
  if (strcmp(name, "uploads") == 0) return run_list(TSR_BUCKET_UPLOAD_LIST);
  if (strcmp(name, "delete_many") == 0) return run_delete_many();
  if (strcmp(name, "complete") == 0) return run_complete();
  if (strcmp(name, "many") == 0) return run_many();
  if (strcmp(name, "head") == 0) call.kind = TSR_BUCKET_HEAD;
  else if (strcmp(name, "delete") == 0) call.kind = TSR_BUCKET_DELETE;
  else if (strcmp(name, "copy") == 0) call.kind = TSR_BUCKET_COPY, call.source = word(1), call.key = word(2);
  else if (strcmp(name, "create") == 0) call.kind = TSR_BUCKET_UPLOAD_CREATE;
  else if (strcmp(name, "abort") == 0) call.kind = TSR_BUCKET_UPLOAD_ABORT, call.upload.id = word(2);
  else {
    printf("rc=UNKNOWN");
    return;
  }
  run_simple(&call);
}

static void run_line(void) {
  const char *name = word(0);
  error = (tsr_error){0};
  if (strcmp(name, "scope") == 0) run_scope();
  else if (strcmp(name, "forget") == 0) print_rc(tsr__bucket_scopes_forget(scopes, word(1), &error), &error);
  else if (strcmp(name, "confine") == 0) print_rc(tsr__bucket_scopes_confine(scopes, word(1), &error), &error);
  else if (strcmp(name, "open") == 0) run_open();
  else if (strcmp(name, "counters") == 0) print_counters();
  else if (strcmp(name, "cancel_after") == 0) cancel_at = number(1) ? ticks() + number(1) : 0, printf("rc=OK");
  else if (strcmp(name, "fail_each") == 0) run_fail_each();
  else if (strcmp(name, "setenv") == 0) (void)setenv(word(1), word(2), 1), printf("rc=OK");
  else if (!client) printf("rc=CLOSED");
  else if (strcmp(name, "now") == 0) printf("rc=OK now=%" PRIu64, tsr__bucket_now(client));
  else if (strcmp(name, "prove") == 0) print_rc(tsr__bucket_prove(client, word(1), &error), &error);
  else run_call(name);
}

int main(void) {
  static char line[200000];
  counted = (counted_memory){.left = -1};
  tsr__memory_init_root(&memory, counted_reallocate, &counted);
  memory.cancel.requested = is_interrupted;
  if (tsr__bucket_scopes_open(&memory, &scopes, &error) < 0) return 1;
  while (fgets(line, sizeof line, stdin)) {
    word_count = 0;
    for (char *at = strtok(line, " \n"); at && word_count < WORDS; at = strtok(NULL, " \n")) {
      words[word_count++] = at;
      for (; *at; at++)
        if (*at == '\x1f') *at = ' ';
    }
    run_line();
    printf("\n");
    fflush(stdout);
  }
  tsr__bucket_close(client);
  tsr__bucket_scopes_close(scopes);
  if (counted.blocks) fprintf(stderr, "client: %d blocks of memory are left\n", counted.blocks);
  return counted.blocks != 0;
}
