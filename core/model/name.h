/* name.h: timestamped names (format.md, "Names"). */
#ifndef TSR_NAME_H
#define TSR_NAME_H

#include "tessera.h"

typedef struct tsr_name {
  uint64_t start, end; /* milliseconds, inclusive */
  char uuid[40]; /* as it stands, NUL-terminated */
  uint32_t version; /* 0 where the name has none */
} tsr_name;

/* Of "__t1_t2_uuid[_v]" and the older "__uuid_t1[_t2]" (versions 1, 2), without suffix. False if it is neither. */
bool tsr__name_parse(const char *text, uint64_t size, tsr_name *name);

/* Writes "__t1_t2_uuid_v" (version 0: none) into text[128]. */
void tsr__name_print(const tsr_name *name, char *text);

/* A name with a new random uuid. */
int tsr__name_new(uint64_t start, uint64_t end, uint32_t version, tsr_name *name, const uint8_t random[16]);

/* Has `text` this suffix (".wrt")? Then *stem is its length without. */
bool tsr__name_suffix(const char *text, const char *suffix, uint64_t *stem);

#endif
