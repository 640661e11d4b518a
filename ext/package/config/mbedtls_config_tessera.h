/* mbedtls_config_tessera.h: mbedTLS 2.28 with what core/crypto calls: AES-256-GCM, MD5, SHA-256, HMAC, and
 * signatures with RSA keys in PEM. It has no sockets, files, entropy or threads. */
#ifndef MBEDTLS_CONFIG_TESSERA_H
#define MBEDTLS_CONFIG_TESSERA_H

#define MBEDTLS_AES_C
#ifndef __wasm__ /* which has one thread, and where the tables would be a part of what each page loads */
#define MBEDTLS_AES_ROM_TABLES /* else the first call makes the tables, and two threads would make them at once */
#endif
#define MBEDTLS_CIPHER_C
#define MBEDTLS_GCM_C
#define MBEDTLS_MD_C
#define MBEDTLS_MD5_C
#define MBEDTLS_SHA256_C
#ifndef __wasm__ /* which has no object stores, for whose service accounts these are */
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_BASE64_C
#define MBEDTLS_BIGNUM_C
#define MBEDTLS_OID_C
#define MBEDTLS_PEM_PARSE_C
#define MBEDTLS_PKCS1_V15
#define MBEDTLS_PK_C
#define MBEDTLS_PK_PARSE_C
#define MBEDTLS_RSA_C
#endif
#ifdef _WIN32 /* check_config.h wants it there */
#define MBEDTLS_PLATFORM_C
#endif
#if defined(__x86_64__)
#define MBEDTLS_HAVE_ASM
#define MBEDTLS_AESNI_C
#endif

#include <mbedtls/check_config.h>
#endif
