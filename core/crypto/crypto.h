/* crypto.h: digests, authenticated encryption and random bytes. crypto.c is the only file that includes mbedTLS. All
 * functions are thread-safe. */
#ifndef TSR_CRYPTO_H
#define TSR_CRYPTO_H

#include "tessera.h"

/* Sizes in bytes. */
#define TSR_MD5_SIZE    16
#define TSR_SHA256_SIZE 32
#define TSR_KEY_SIZE    32 /* of an AES-256 key */
#define TSR_IV_SIZE     12 /* of a GCM initialization vector */
#define TSR_TAG_SIZE    16 /* of a GCM authentication tag */

/* Each computes the digest of `size` bytes. */
int tsr__md5(const void *bytes, uint64_t size, uint8_t digest[TSR_MD5_SIZE], tsr_error *error);
int tsr__sha256(const void *bytes, uint64_t size, uint8_t digest[TSR_SHA256_SIZE], tsr_error *error);

/* Computes the HMAC-SHA-256 (RFC 2104) of `size` bytes with a key of any length. `mac` may overlap `key`. */
int tsr__hmac_sha256(const void *key, uint64_t key_size, const void *bytes, uint64_t size, uint8_t mac[TSR_SHA256_SIZE],
                     tsr_error *error);

#define TSR_RSA_MAX 1024 /* bytes of an RSA signature: of a key of 8192 bits */

/* Signs `size` bytes with RSA and SHA-256 (PKCS #1 v1.5, "RS256"). `pem`: the private key, NUL-terminated.
 * *signature_size is set to the number of bytes. Errors: TSR_DENIED if the key cannot be used. */
int tsr__rs256(const char *pem, const void *bytes, uint64_t size, uint8_t signature[TSR_RSA_MAX],
               size_t *signature_size, tsr_error *error);

/* Encrypts or decrypts `size` bytes with AES-256-GCM, without additional data. `out` has room for `size` bytes and must
 * not overlap `in`. Never use an IV twice with the same key. Errors: TSR_TOOBIG past GCM's limit of 64 GiB; TSR_AUTH if
 * the tag does not match the key, the IV and the encrypted bytes, with `out` zeroed. */
int tsr__aes_encrypt(const uint8_t key[TSR_KEY_SIZE], const uint8_t iv[TSR_IV_SIZE], const void *in, uint64_t size,
                     void *out, uint8_t tag[TSR_TAG_SIZE], tsr_error *error);
int tsr__aes_decrypt(const uint8_t key[TSR_KEY_SIZE], const uint8_t iv[TSR_IV_SIZE], const uint8_t tag[TSR_TAG_SIZE],
                     const void *in, uint64_t size, void *out, tsr_error *error);

/* Fills `bytes` with `size` random bytes of the operating system, fit for keys and IVs. */
int tsr__random(void *bytes, uint64_t size, tsr_error *error);

#endif
