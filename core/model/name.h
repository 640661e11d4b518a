/* name.h: names of files and directories that consist of timestamps and a UUID, such as those of fragments and commits
 * (format.md, "Names"). */
#ifndef TSR_NAME_H
#define TSR_NAME_H

#include "tessera.h"

typedef struct tsr_name {
  uint64_t start, end; /* in milliseconds since 1970, inclusive */
  char uuid[40]; /* as in the name, NUL-terminated */
  uint32_t version; /* format version; 0: the name has none */
} tsr_name;

/* Parses a name without suffix: "__t1_t2_uuid[_v]", or "__uuid_t1[_t2]" of format versions 1 and 2. Returns false if
 * the text has neither form. */
bool tsr__name_parse(const char *text, uint64_t size, tsr_name *name);

/* Writes "__t1_t2_uuid_v" to `text`, which has room for 128 bytes. Version 0 is left out. */
void tsr__name_print(const tsr_name *name, char *text);

/* Makes a name whose UUID is the 16 random bytes in hexadecimal. Always returns TSR_OK. */
int tsr__name_new(uint64_t start, uint64_t end, uint32_t version, tsr_name *name, const uint8_t random[16]);

/* Returns true if `text` ends with the suffix, such as ".wrt", and sets *stem to the size of the text before it. */
bool tsr__name_suffix(const char *text, const char *suffix, uint64_t *stem);

/* Reads a number below 2^64 that consists of `size` decimal digits and nothing else. Returns false if it does not. */
bool tsr__name_number(const char *text, uint64_t size, uint64_t *number);

/* Returns true if `text` is the prefix and then a generation, a number above 0 without leading zeros. */
bool tsr__name_generation(const char *text, const char *prefix, uint64_t *generation);

/* Returns true if `text` ends with the suffix. */
static inline bool tsr__name_ends_in(const char *text, const char *suffix) {
  uint64_t stem;
  return tsr__name_suffix(text, suffix, &stem);
}

#endif
