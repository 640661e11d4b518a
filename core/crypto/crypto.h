/* crypto.h: digests, authenticated encryption, random bytes. crypto.c is the only file that includes mbedTLS (2.28
 * and 3.x). */
#ifndef TSR_CRYPTO_H
#define TSR_CRYPTO_H

#include "tessera.h"

#define TSR_MD5_SIZE    16
#define TSR_SHA256_SIZE 32
#define TSR_KEY_SIZE    32
#define TSR_IV_SIZE     12
#define TSR_TAG_SIZE    16

int tsr__md5(const void *bytes, uint64_t size, uint8_t digest[TSR_MD5_SIZE], tsr_error *error);
int tsr__sha256(const void *bytes, uint64_t size, uint8_t digest[TSR_SHA256_SIZE], tsr_error *error);
/* AES-256-GCM without additional data; `out` has room for `size` bytes and may not overlap. TSR_AUTH where the tag does
 * not fit; then out is zeroed. */
int tsr__aes_encrypt(const uint8_t key[TSR_KEY_SIZE], const uint8_t iv[TSR_IV_SIZE], const void *in, uint64_t size,
                     void *out, uint8_t tag[TSR_TAG_SIZE], tsr_error *error);
int tsr__aes_decrypt(const uint8_t key[TSR_KEY_SIZE], const uint8_t iv[TSR_IV_SIZE], const uint8_t tag[TSR_TAG_SIZE],
                     const void *in, uint64_t size, void *out, tsr_error *error);
int tsr__random(void *bytes, uint64_t size, tsr_error *error); /* from the operating system */

#endif
