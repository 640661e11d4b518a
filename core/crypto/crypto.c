/* crypto.c: MD5, SHA-256, HMAC-SHA-256 and AES-256-GCM from mbedTLS, and random bytes from the operating system.
 *
 * Supports mbedTLS 2.28 and 3.x. The digest functions that return an error have the suffix "_ret" in 2.28 and no suffix
 * in 3.x.
 */
#include <errno.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__EMSCRIPTEN__)
#include <unistd.h>
#elif defined(_WIN32)
#include <windows.h>
#include <bcrypt.h>
#endif

#include <mbedtls/version.h>
#include <mbedtls/cipher.h>
#include <mbedtls/gcm.h>
#include <mbedtls/md.h>
#include <mbedtls/md5.h>
#ifndef __wasm__ /* which has no object stores */
#include <mbedtls/pk.h>
#endif
#include <mbedtls/sha256.h>

#include <string.h>
#include "crypto/crypto.h"

#include "base/arithmetic.h"
#include "base/memory.h"

#if MBEDTLS_VERSION_NUMBER >= 0x03000000
#define crypto_md5    mbedtls_md5
#define crypto_sha256 mbedtls_sha256
#else
#define crypto_md5    mbedtls_md5_ret
#define crypto_sha256 mbedtls_sha256_ret
#endif

_Static_assert(TSR_KEY_SIZE == 32 && TSR_IV_SIZE == 12 && TSR_TAG_SIZE == 16, "the sizes of AES-256-GCM in the format");

static int fail_library(const char *what, int result, tsr_error *error) {
  if (result == MBEDTLS_ERR_CIPHER_ALLOC_FAILED || result == MBEDTLS_ERR_MD_ALLOC_FAILED)
    return tsr__fail(error, TSR_NOMEM, "%s: out of memory", what);
  return tsr__fail(error, TSR_ERROR, "%s: error -0x%04x of mbedTLS", what, (unsigned)-result);
}

int tsr__md5(const void *bytes, uint64_t size, uint8_t digest[TSR_MD5_SIZE], tsr_error *error) {
  uint8_t result[TSR_MD5_SIZE];
  int rc = crypto_md5(bytes, size, result);
  if (rc != 0) return fail_library("MD5", rc, error);
  memcpy(digest, result, sizeof result);
  return TSR_OK;
}

int tsr__sha256(const void *bytes, uint64_t size, uint8_t digest[TSR_SHA256_SIZE], tsr_error *error) {
  uint8_t result[TSR_SHA256_SIZE];
  int rc = crypto_sha256(bytes, size, result, 0);
  if (rc != 0) return fail_library("SHA-256", rc, error);
  memcpy(digest, result, sizeof result);
  return TSR_OK;
}

int tsr__hmac_sha256(const void *key, uint64_t key_size, const void *bytes, uint64_t size, uint8_t mac[TSR_SHA256_SIZE],
                     tsr_error *error) {
  uint8_t result[TSR_SHA256_SIZE];
  int rc = mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), key, key_size, bytes, size, result);
  if (rc != 0) return fail_library("HMAC-SHA-256", rc, error);
  memcpy(mac, result, sizeof result);
  tsr__wipe(result, sizeof result);
  return TSR_OK;
}

/* In bytes: GCM counts 16-byte blocks in 32 bits, and two counter values are reserved. */
#define GCM_MAX ((UINT64_C(1) << 36) - 32)

static int open_gcm(mbedtls_gcm_context *gcm, const uint8_t *key, uint64_t size, tsr_error *error) {
  if (size > GCM_MAX)
    return tsr__fail(error, TSR_TOOBIG, "AES-256-GCM: %llu bytes under one IV, %llu are allowed",
                     (unsigned long long)size, (unsigned long long)GCM_MAX);
  int rc = mbedtls_gcm_setkey(gcm, MBEDTLS_CIPHER_ID_AES, key, 8 * TSR_KEY_SIZE);
  return rc == 0 ? TSR_OK : fail_library("AES-256-GCM", rc, error);
}

int tsr__aes_encrypt(const uint8_t key[TSR_KEY_SIZE], const uint8_t iv[TSR_IV_SIZE], const void *in, uint64_t size,
                     void *out, uint8_t tag[TSR_TAG_SIZE], tsr_error *error) {
  mbedtls_gcm_context gcm;
  mbedtls_gcm_init(&gcm);
  int rc = open_gcm(&gcm, key, size, error);
  if (rc == TSR_OK) {
    int result = mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, size, iv, TSR_IV_SIZE, NULL, 0, in, out,
                                           TSR_TAG_SIZE, tag);
    if (result != 0) rc = fail_library("AES-256-GCM", result, error);
  }
  mbedtls_gcm_free(&gcm);
  return rc;
}

int tsr__aes_decrypt(const uint8_t key[TSR_KEY_SIZE], const uint8_t iv[TSR_IV_SIZE], const uint8_t tag[TSR_TAG_SIZE],
                     const void *in, uint64_t size, void *out, tsr_error *error) {
  mbedtls_gcm_context gcm;
  mbedtls_gcm_init(&gcm);
  int rc = open_gcm(&gcm, key, size, error);
  if (rc == TSR_OK) {
    int result = mbedtls_gcm_auth_decrypt(&gcm, size, iv, TSR_IV_SIZE, NULL, 0, tag, TSR_TAG_SIZE, in, out);
    if (result == MBEDTLS_ERR_GCM_AUTH_FAILED)
      rc = tsr__fail(error, TSR_AUTH, "the key is wrong or the encrypted data is damaged (%llu bytes)",
                     (unsigned long long)size);
    else if (result != 0) rc = fail_library("AES-256-GCM", result, error);
    if (rc < 0) tsr__wipe(out, size); /* unauthenticated data must not reach the caller */
  }
  mbedtls_gcm_free(&gcm);
  return rc;
}

/* Bytes per call: getentropy returns no more, and signals do not interrupt a getrandom of this size. */
#define RANDOM_PIECE 256u

/* Fills at most RANDOM_PIECE bytes. Returns 0, or -1, with errno where the system sets it. */
static int random_piece(uint8_t *to, size_t size) {
#if defined(__linux__) /* the call itself: glibc before 2.25 and musl before 1.1.20 have no function for it */
  long got;
  do got = syscall(SYS_getrandom, to, size, 0);
  while (got < 0 && errno == EINTR);
  return got == (long)size ? 0 : -1;
#elif defined(__EMSCRIPTEN__)
  return getentropy(to, size);
#elif defined(_WIN32)
  return BCryptGenRandom(NULL, to, (ULONG)size, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0 ? 0 : -1;
#else
  arc4random_buf(to, size);
  return 0;
#endif
}

int tsr__random(void *bytes, uint64_t size, tsr_error *error) {
  for (uint8_t *at = bytes; size > 0;) {
    const size_t piece = (size_t)TSR_MIN(size, RANDOM_PIECE);
    errno = 0;
    if (random_piece(at, piece) != 0)
      return tsr__fail(error, TSR_IO, "no random bytes from the system: error %d", errno);
    at += piece;
    size -= piece;
  }
  return TSR_OK;
}

#ifndef __wasm__
static int random_for_rsa(void *argument, unsigned char *bytes, size_t size) {
  (void)argument;
  return tsr__random(bytes, size, NULL) < 0 ? MBEDTLS_ERR_PK_ALLOC_FAILED : 0;
}

int tsr__rs256(const char *pem, const void *bytes, uint64_t size, uint8_t signature[TSR_RSA_MAX],
               size_t *signature_size, tsr_error *error) {
  uint8_t digest[TSR_SHA256_SIZE];
  mbedtls_pk_context key;
  TSR_TRY(tsr__sha256(bytes, size, digest, error));
  mbedtls_pk_init(&key);
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
  int result = mbedtls_pk_parse_key(&key, (const uint8_t *)pem, strlen(pem) + 1, NULL, 0, random_for_rsa, NULL);
#else
  int result = mbedtls_pk_parse_key(&key, (const uint8_t *)pem, strlen(pem) + 1, NULL, 0);
#endif
  const bool fits = result == 0 && mbedtls_pk_can_do(&key, MBEDTLS_PK_RSA) && mbedtls_pk_get_len(&key) <= TSR_RSA_MAX;
#if MBEDTLS_VERSION_NUMBER >= 0x03000000
  if (fits)
    result = mbedtls_pk_sign(&key, MBEDTLS_MD_SHA256, digest, sizeof digest, signature, TSR_RSA_MAX, signature_size,
                             random_for_rsa, NULL);
#else
  if (fits)
    result = mbedtls_pk_sign(&key, MBEDTLS_MD_SHA256, digest, sizeof digest, signature, signature_size, random_for_rsa,
                             NULL);
#endif
  mbedtls_pk_free(&key);
  if (fits && result == 0) return TSR_OK;
  return tsr__fail(error, TSR_DENIED, "the private key cannot be used: it must be RSA in PEM (error -0x%04x)",
                   (unsigned)-result);
}
#endif
