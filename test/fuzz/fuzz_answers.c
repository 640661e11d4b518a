/* fuzz_answers.c: fuzzes what is read from the answers of a server: XML of object stores, heads of HTTP, times.
 *
 *   u8 kind | the answer
 */
#include "fuzz.h"

#include "remote/http_response.h"
#include "remote/s3_response.h"
#include "remote/answer.h"
#include "remote/keys.h"
#include "remote/xml.h"

typedef struct answer {
  room room;
  tsr_error error;
  const char *bytes;
  uint64_t size;
  tsr_answer_failure failure;
} answer;

static void check_text(const char *text, bool empty) {
  CHECK(text);
  const size_t size = strlen(text);
  CHECK(size <= TSR_XML_TEXT_MAX && (empty || size > 0));
}

static void check_failure(const tsr_answer_failure *failure) {
  check_text(failure->code, false);
  check_text(failure->message, true);
  check_text(failure->request_id, true);
  check_text(failure->region, true);
  check_text(failure->endpoint, true);
  check_text(failure->key, true);
}

/* Returns whether there is a result. */
static bool has_result(answer *a, int code) {
  check_told(code, &a->error);
  CHECK(code == TSR_OK || code == 1 || code == TSR_CORRUPT || code == TSR_BUDGET);
  if (code == 1) check_failure(&a->failure);
  return code == TSR_OK;
}

static void read_failure_answer(answer *a) {
  if (has_result(a, tsr__answer_failure(a->bytes, a->size, &a->room.arena, &a->failure, &a->error)))
    check_failure(&a->failure);
}

typedef int read_page(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_listing *listing,
                      tsr_answer_failure *failure, tsr_error *error);

static void check_page(answer *a, read_page *read) {
  tsr_answer_listing l;
  if (!has_result(a, read(a->bytes, a->size, &a->room.arena, &l, &a->failure, &a->error))) return;
  for (uint64_t i = 0; i < l.entry_count; i++) {
    check_text(l.entries[i].key, false);
    check_text(l.entries[i].etag, true);
    CHECK(l.entries[i].size <= INT64_MAX);
  }
  for (uint64_t i = 0; i < l.prefix_count; i++) check_text(l.prefixes[i], false);
  if (l.next) check_text(l.next, false);
}

static void read_listing(answer *a) { check_page(a, tsr__s3_response_listing); }
static void read_azure_listing(answer *a) { check_page(a, tsr__azure_response_listing); }

/* Tokens, and the keys of a service account, which are changed in place. */
static void read_json(answer *a) {
  tsr_json_member members[] = {{.name = "access_token"}, {.name = "expires_in"}, {.name = "private_key"}};
  char *text = malloc(a->size + 1);
  CHECK(text);
  memcpy(text, a->bytes, a->size);
  text[a->size] = 0;
  const int code = tsr__json_members(text, members, 3, &a->error);
  check_told(code, &a->error);
  for (int i = 0; i < 3 && code == TSR_OK; i++)
    if (members[i].text.at) CHECK(members[i].text.at > text && strlen(members[i].text.at) == members[i].text.size);
  free(text);
}

static void read_token(answer *a) {
  tsr_provider provider = {.memory = a->room.arena.memory};
  tsr_credentials credentials = {0};
  tsr_buffer text = {.memory = a->room.arena.memory};
  if (tsr__buffer_append(&text, a->bytes, a->size, NULL) < 0 || tsr__buffer_append_u8(&text, 0, NULL) < 0) return;
  const int code = tsr__keys_from_token(&provider, &text, &credentials, &a->error);
  check_told(code, &a->error);
  CHECK(code == TSR_OK || code == TSR_DENIED || code == TSR_BUDGET);
  if (code == TSR_OK) CHECK(*credentials.token && credentials.expires >= 0);
  tsr__credentials_release(&credentials);
  tsr__buffer_release(&text);
}

static void read_upload_answer(answer *a) {
  const char *id;
  if (has_result(a, tsr__s3_response_upload(a->bytes, a->size, &a->room.arena, &id, &a->failure, &a->error)))
    check_text(id, false);
}

static void read_completed(answer *a) {
  const char *etag;
  if (has_result(a, tsr__s3_response_completed(a->bytes, a->size, &a->room.arena, &etag, &a->failure, &a->error)))
    check_text(etag, true);
}

static void read_copied(answer *a) {
  const char *etag;
  int64_t modified;
  if (has_result(a,
                 tsr__s3_response_copied(a->bytes, a->size, &a->room.arena, &etag, &modified, &a->failure, &a->error)))
    check_text(etag, true);
}

static void read_deletion(answer *a) {
  tsr_s3_deletion d;
  if (!has_result(a, tsr__s3_response_deletion(a->bytes, a->size, &a->room.arena, &d, &a->failure, &a->error))) return;
  for (uint64_t i = 0; i < d.failure_count; i++) check_failure(&d.failures[i]);
}

static void read_uploads(answer *a) {
  tsr_s3_uploads u;
  if (!has_result(a, tsr__s3_response_uploads(a->bytes, a->size, &a->room.arena, &u, &a->failure, &a->error))) return;
  for (uint64_t i = 0; i < u.upload_count; i++) {
    check_text(u.uploads[i].key, false);
    check_text(u.uploads[i].upload_id, false);
  }
  if (u.next_key) {
    check_text(u.next_key, false);
    check_text(u.next_upload_id, true);
  }
}

static void read_identity_answer(answer *a) {
  tsr_s3_identity i;
  if (!has_result(a, tsr__s3_response_identity(a->bytes, a->size, &a->room.arena, &i, &a->failure, &a->error))) return;
  check_text(i.key_id, false);
  check_text(i.secret, false);
  check_text(i.session_token, false);
}

static void read_head(answer *a) {
  tsr_http_response head;
  tsr__http_response_clear(&head);
  for (uint64_t at = 0; at < a->size;) {
    const char *end = memchr(a->bytes + at, '\n', a->size - at);
    const uint64_t size = end ? (uint64_t)(end + 1 - (a->bytes + at)) : a->size - at;
    uint8_t *line = fuzz_exact(a->bytes + at, size);
    tsr__http_response_line(&head, line, size);
    free(line);
    at += size;
  }
  CHECK(head.status == 0 || (head.status >= 100 && head.status <= 999));
  CHECK(memchr(head.etag, 0, sizeof head.etag) && memchr(head.content_type, 0, sizeof head.content_type));
  CHECK(memchr(head.request_id, 0, sizeof head.request_id));
  CHECK(memchr(head.bucket_region, 0, sizeof head.bucket_region));
  if (head.has_range && head.range_first != UINT64_MAX)
    CHECK(head.range_first <= head.range_last && head.range_last < head.range_size);
}

/* A time that is read, written and read again is the same. */
static void read_time(answer *a) {
  int64_t ms, again;
  char *text = malloc(a->size + 1), stamp[TSR_HTTP_STAMP_SIZE], iso[40];
  CHECK(text);
  memcpy(text, a->bytes, a->size);
  text[a->size] = 0;
  if (tsr__http_time_parse(text, &ms)) {
    tsr__http_time_stamp(ms, stamp);
    snprintf(iso, sizeof iso, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", stamp, stamp + 4, stamp + 6, stamp + 9, stamp + 11,
             stamp + 13);
    CHECK(tsr__http_time_parse(iso, &again));
    const int64_t day = 86400000; /* zones may lead out of the years that a stamp has */
    CHECK((again <= ms && ms - again < 1000) || ms < -62135596800000 + day || ms > 253402300799999 - day);
  }
  free(text);
}

static void (*const kinds[])(answer *a) = {read_failure_answer, read_listing,  read_upload_answer, read_completed,
                                           read_copied,         read_deletion, read_uploads,       read_identity_answer,
                                           read_head,           read_time,     read_azure_listing, read_json,
                                           read_token};

int LLVMFuzzerInitialize(int *count, char ***arguments) { return 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  answer a = {.size = size - 1};
  if (size < 1 || size > FUZZ_INPUT) return 0;
  room_open(&a.room);
  uint8_t *bytes = fuzz_exact(data + 1, size - 1);
  a.bytes = (const char *)bytes;
  kinds[data[0] % (sizeof kinds / sizeof *kinds)](&a);
  free(bytes);
  room_close(&a.room);
  return 0;
}
