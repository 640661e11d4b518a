/* metadata.h: key-value metadata of arrays and groups. */
#ifndef TSR_METADATA_H
#define TSR_METADATA_H

#include "base/input.h"
#include "base/memory.h"

typedef struct tsr_metadata_entry {
  char *key;
  uint64_t key_size;
  bool deleted;
  tsr_datatype datatype;
  uint32_t count; /* 0: a key without a value */
  const uint8_t *value;
  uint64_t value_size;
} tsr_metadata_entry;

typedef struct tsr_metadata_entries {
  uint64_t count;
  tsr_metadata_entry *entries;
} tsr_metadata_entries;

/* The entries of one file, in file order; nothing is borrowed. */
int tsr__metadata_decode(tsr_input *in, tsr_arena *arena, tsr_metadata_entries *entries, tsr_error *error);

/* Appends an entry. */
int tsr__metadata_encode(const tsr_metadata_entry *entry, tsr_buffer *out, tsr_error *error);

#endif
