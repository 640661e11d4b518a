/* name.c: names that consist of timestamps and a UUID.
 *
 *   __T1_T2_UUID[_V]   since format version 3: fragments, commits, schemas, metadata, consolidated files
 *   __UUID_T           format versions 1 and 2: fragments
 *   __UUID_T1_T2       format versions 1 and 2: consolidated fragments. TileDB uses T2 as the time of all cells, and T1
 *                      may be greater than T2.
 *
 * T, T1 and T2 are decimal numbers of milliseconds below 2^64, and V is a decimal number below 2^32. A UUID consists of
 * letters, digits and '-'; all known writers use 32 hex digits. Since it contains no '_', the number of parts
 * distinguishes the forms; a name of three parts has the newer form if its first two parts are numbers. A suffix such
 * as ".wrt" is not part of the name.
 */
#include "model/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"

#define NAME_PARTS_MAX 4

/* Any number of this many decimal digits fits into 64 bits. */
#define DIGITS_CERTAIN    19
#define GENERATION_DIGITS 18 /* at most */

typedef struct name_part {
  const char *text;
  uint64_t size;
} name_part;

bool tsr__name_number(const char *text, uint64_t size, uint64_t *number) {
  if (size == 0) return false;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < size; i++) {
    const unsigned digit = (unsigned)(uint8_t)text[i] - '0';
    if (digit > 9) return false;
    if (i < DIGITS_CERTAIN) sum = sum * 10 + digit;
    else if (!tsr__mul(sum, 10, &sum) || !tsr__add(sum, digit, &sum)) return false;
  }
  *number = sum;
  return true;
}

static bool parse_number(name_part p, uint64_t *value) { return tsr__name_number(p.text, p.size, value); }

static bool parse_uuid(name_part p, char uuid[40]) {
  if (p.size == 0 || p.size > 39) return false;
  bool valid = true;
  for (uint64_t i = 0; i < p.size; i++) {
    const unsigned c = (uint8_t)p.text[i];
    valid &= (c - '0' <= 9) | ((c | 0x20) - 'a' <= 25) | (c == '-');
  }
  if (!valid) return false;
  memcpy(uuid, p.text, p.size);
  uuid[p.size] = 0;
  return true;
}

bool tsr__name_parse(const char *text, uint64_t size, tsr_name *name) {
  if (size < 2 || text[0] != '_' || text[1] != '_') return false;
  name_part parts[NAME_PARTS_MAX];
  unsigned count = 0;
  const char *const end = text + size;
  for (const char *at = text + 2;; at++) { /* at the beginning of each part */
    if (count == NAME_PARTS_MAX) return false;
    const char *stop = memchr(at, '_', (size_t)(end - at));
    if (!stop) stop = end;
    parts[count++] = (name_part){at, (uint64_t)(stop - at)};
    at = stop;
    if (at == end) break;
  }

  tsr_name found = {0};
  uint64_t version = 0, ignored;
  if (count >= 3 && parse_number(parts[0], &found.start) && parse_number(parts[1], &found.end)) {
    if (!parse_uuid(parts[2], found.uuid)) return false;
    if (count == 4 && (!parse_number(parts[3], &version) || version > UINT32_MAX)) return false;
    found.version = (uint32_t)version;
  } else {
    if (count < 2 || count > 3 || !parse_uuid(parts[0], found.uuid)) return false;
    if (count == 3 && !parse_number(parts[1], &ignored)) return false;
    if (!parse_number(parts[count - 1], &found.end)) return false;
    found.start = found.end;
  }
  *name = found;
  return true;
}

void tsr__name_print(const tsr_name *name, char *text) {
  int size = snprintf(text, 128, "__%" PRIu64 "_%" PRIu64 "_%s", name->start, name->end, name->uuid);
  if (name->version) snprintf(text + size, 128 - (size_t)size, "_%" PRIu32, name->version);
}

int tsr__name_new(uint64_t start, uint64_t end, uint32_t version, tsr_name *name, const uint8_t random[16]) {
  static const char digits[] = "0123456789abcdef";
  *name = (tsr_name){.start = start, .end = end, .version = version};
  for (unsigned i = 0; i < 16; i++) {
    name->uuid[2 * i] = digits[random[i] >> 4];
    name->uuid[2 * i + 1] = digits[random[i] & 15];
  }
  return TSR_OK;
}

bool tsr__name_suffix(const char *text, const char *suffix, uint64_t *stem) {
  uint64_t size = strlen(text), tail = strlen(suffix);
  if (size < tail || memcmp(text + size - tail, suffix, tail) != 0) return false;
  *stem = size - tail;
  return true;
}

bool tsr__name_generation(const char *text, const char *prefix, uint64_t *generation) {
  if (strncmp(text, prefix, strlen(prefix)) != 0) return false;
  const char *digits = text + strlen(prefix);
  const size_t count = strlen(digits);
  if (count == 0 || count > GENERATION_DIGITS || *digits == '0' || strspn(digits, "0123456789") != count) return false;
  *generation = 0;
  for (; *digits; digits++) *generation = *generation * 10 + (uint64_t)(*digits - '0');
  return true;
}
