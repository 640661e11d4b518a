/* test_crypto.c: published vectors of MD5 (RFC 1321), SHA-256 (FIPS 180-4), HMAC (RFC 4231) and AES-256-GCM (the GCM specification's
 * test cases 13 to 15), and every bit of a tag, a key, an IV and a text flipped. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"

static size_t unhex(const char *text, uint8_t *bytes) {
  size_t size = strlen(text) / 2;
  for (size_t i = 0; i < size; i++) {
    char pair[3] = {text[2 * i], text[2 * i + 1], 0};
    bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return size;
}

static void test_digests_match_published_vectors(void **state) {
  static const struct {
    const char *text, *md5, *sha256;
  } cases[] = {
      {"", "d41d8cd98f00b204e9800998ecf8427e", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "900150983cd24fb0d6963f7d28e17f72", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
       "57edf4a22be3c955ac49da2e2107b67a", "f371bc4a311f2b009eef952dd83ca80e2b60026c8e935592d0f9c308453c813e"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t wanted[TSR_SHA256_SIZE], md5[TSR_MD5_SIZE], sha256[TSR_SHA256_SIZE];
    unhex(cases[i].md5, wanted);
    assert_int_equal(tsr__md5(cases[i].text, strlen(cases[i].text), md5, NULL), TSR_OK);
    assert_memory_equal(md5, wanted, sizeof md5);
    unhex(cases[i].sha256, wanted);
    assert_int_equal(tsr__sha256(cases[i].text, strlen(cases[i].text), sha256, NULL), TSR_OK);
    assert_memory_equal(sha256, wanted, sizeof sha256);
  }
  uint8_t a[TSR_SHA256_SIZE], b[TSR_SHA256_SIZE];
  assert_int_equal(tsr__sha256(NULL, 0, a, NULL), TSR_OK);
  assert_int_equal(tsr__sha256("", 0, b, NULL), TSR_OK);
  assert_memory_equal(a, b, sizeof a);
  assert_int_equal(tsr__md5(NULL, 0, a, NULL), TSR_OK);
}

static void test_hmac_matches_rfc_4231(void **state) {
  uint8_t keys[4][131], wanted[TSR_SHA256_SIZE], mac[TSR_SHA256_SIZE];
  memset(keys[0], 0x0b, 20);
  memcpy(keys[1], "Jefe", 4);
  memset(keys[2], 0xaa, 131);
  const struct {
    const uint8_t *key;
    uint64_t size;
    const char *text, *mac;
  } cases[] = {
      {keys[0], 20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {keys[1], 4, "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {keys[2], 131, "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {NULL, 0, "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unhex(cases[i].mac, wanted);
    assert_int_equal(tsr__hmac_sha256(cases[i].key, cases[i].size, cases[i].text, strlen(cases[i].text), mac, NULL),
                     TSR_OK);
    assert_memory_equal(mac, wanted, sizeof mac);
  }
  memset(mac, 0x0b, sizeof mac); /* the key and the result in one place */
  assert_int_equal(tsr__hmac_sha256(mac, 20, "Hi There", 8, mac, NULL), TSR_OK);
  unhex(cases[0].mac, wanted);
  assert_memory_equal(mac, wanted, sizeof mac);
}

static const struct {
  const char *key, *iv, *text, *encrypted, *tag;
} gcm_cases[] = {
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "", "",
     "530f8afbc74536b9a963b4f1c4cb738b"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000",
     "00000000000000000000000000000000", "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657b"
     "a"
     "637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0ab"
     "c"
     "c9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
};

static void test_gcm_matches_published_vectors(void **state) {
  for (size_t i = 0; i < sizeof gcm_cases / sizeof *gcm_cases; i++) {
    uint8_t key[32], iv[12], text[64], encrypted[64], tag[16], out[64], made[16];
    unhex(gcm_cases[i].key, key);
    unhex(gcm_cases[i].iv, iv);
    size_t size = unhex(gcm_cases[i].text, text);
    unhex(gcm_cases[i].encrypted, encrypted);
    unhex(gcm_cases[i].tag, tag);
    assert_int_equal(tsr__aes_encrypt(key, iv, text, size, out, made, NULL), TSR_OK);
    assert_memory_equal(out, encrypted, size);
    assert_memory_equal(made, tag, 16);
    memset(out, 0xee, sizeof out);
    assert_int_equal(tsr__aes_decrypt(key, iv, tag, encrypted, size, out, NULL), TSR_OK);
    assert_memory_equal(out, text, size);
  }
}

/* Wherever a bit is wrong: TSR_AUTH, and not a byte of text. */
static void test_every_flipped_bit_fails_authentication(void **state) {
  struct {
    uint8_t key[32], iv[12], tag[16], encrypted[40];
  } good, bad;
  uint8_t text[40], out[40];
  static const uint8_t zero[40];
  for (int i = 0; i < 40; i++) text[i] = (uint8_t)(i * 7);
  assert_int_equal(tsr__random(good.key, 32, NULL), TSR_OK);
  assert_int_equal(tsr__random(good.iv, 12, NULL), TSR_OK);
  assert_int_equal(tsr__aes_encrypt(good.key, good.iv, text, 40, good.encrypted, good.tag, NULL), TSR_OK);
  for (size_t bit = 0; bit < 8 * sizeof good; bit++) {
    bad = good;
    ((uint8_t *)&bad)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    memset(out, 0xee, sizeof out);
    tsr_error error = {0};
    assert_int_equal(tsr__aes_decrypt(bad.key, bad.iv, bad.tag, bad.encrypted, 40, out, &error), TSR_AUTH);
    assert_non_null(strstr(error.message, "key"));
    assert_memory_equal(out, zero, 40);
  }
  assert_int_equal(tsr__aes_decrypt(good.key, good.iv, good.tag, good.encrypted, 39, out, NULL), TSR_AUTH);
  assert_int_equal(tsr__aes_decrypt(good.key, good.iv, good.tag, NULL, 0, NULL, NULL), TSR_AUTH);
  assert_int_equal(tsr__aes_decrypt(good.key, good.iv, good.tag, good.encrypted, 40, out, NULL), TSR_OK);
  assert_memory_equal(out, text, 40);
}

static void test_gcm_refuses_more_than_its_limit(void **state) { /* refused before a byte is touched */
  uint8_t key[32] = {0}, iv[12] = {0}, tag[16] = {0}, one[1] = {0}, out[1];
  tsr_error error = {0};
  uint64_t past = (UINT64_C(1) << 36) - 31;
  assert_int_equal(tsr__aes_encrypt(key, iv, one, past, out, tag, &error), TSR_TOOBIG);
  assert_int_equal(tsr__aes_encrypt(key, iv, one, UINT64_MAX, out, tag, NULL), TSR_TOOBIG);
}

static void test_random_bytes_differ(void **state) {
  uint8_t a[4096] = {0}, b[4096] = {0};
  assert_int_equal(tsr__random(a, 0, NULL), TSR_OK);
  assert_int_equal(a[0], 0);
  assert_int_equal(tsr__random(a, sizeof a, NULL), TSR_OK);
  assert_int_equal(tsr__random(b, sizeof b, NULL), TSR_OK);
  assert_memory_not_equal(a, b, sizeof a);
  unsigned ones = 0;
  for (size_t i = 0; i < sizeof a; i++) ones += (unsigned)__builtin_popcount(a[i]);
  assert_true(ones > 15000 && ones < 17800); /* 16384 expected, 90 the standard deviation */
  assert_true(tsr__load64(a + sizeof a - 8) != 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_digests_match_published_vectors),
      cmocka_unit_test(test_hmac_matches_rfc_4231),
      cmocka_unit_test(test_gcm_matches_published_vectors),
      cmocka_unit_test(test_every_flipped_bit_fails_authentication),
      cmocka_unit_test(test_gcm_refuses_more_than_its_limit),
      cmocka_unit_test(test_random_bytes_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
