/* fuzz_token.c: fuzzes the texts of tokens (array/seen.c).
 *
 *   u8 kind | the rest: 0 the text; 1 what the text stands for: this target adds the digest and writes it as base64url
 *
 * Random texts would not pass the digest.
 */
#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "fuzz.h"
#include "tessera_host.h"

#define PREFIX "tessera:1:"

static tsr_environment *environment;

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  tsr_error error = {0};
  CHECK(tsr_environment_open(NULL, &environment, &error) == TSR_OK);
  return 0;
}

static void read_token(const char *text, size_t size) {
  tsr_token *token = NULL;
  tsr_error error = {0};
  const int code = tsr_token_read(environment, text, size, &token, &error);
  check_told(code, &error);
  if (code < 0) return;
  (void)tsr_token_time(token);
  tsr_token_close(token);
}

static void read_digested(const uint8_t *bytes, size_t size) {
  uint8_t digest[TSR_SHA256_SIZE], *whole = malloc(size + 8);
  char *text = malloc(strlen(PREFIX) + 2 * (size + 8) + 4);
  tsr_error error = {0};
  CHECK(whole && text && tsr__sha256(bytes, size, digest, &error) == TSR_OK);
  if (size) memcpy(whole, bytes, size);
  memcpy(whole + size, digest, 8);
  memcpy(text, PREFIX, strlen(PREFIX));
  read_token(text, strlen(PREFIX) + tsr_base64_write(TSR_BASE64_URL, whole, size + 8, text + strlen(PREFIX)));
  free(text);
  free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > FUZZ_INPUT) return 0;
  uint8_t *bytes = fuzz_exact(data + 1, size - 1);
  if (data[0] & 1) read_digested(bytes, size - 1);
  else read_token((const char *)bytes, size - 1);
  free(bytes);
  return 0;
}
