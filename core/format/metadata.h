/* metadata.h: decodes and encodes the files of __meta, the key-value metadata of arrays and groups. Each file is one
 * generic tile; array/array.h reads the directory. */
#ifndef TSR_METADATA_H
#define TSR_METADATA_H

#include "base/input.h"
#include "base/memory.h"

typedef struct tsr_metadata_entry {
  char *key; /* any bytes */
  uint64_t key_size; /* in bytes; may be 0 */
  bool deleted; /* the key is removed; the fields below are not set */
  tsr_datatype datatype;
  uint32_t count; /* values; 0: the key has no value */
  const uint8_t *value;
  uint64_t value_size; /* in bytes */
} tsr_metadata_entry;

typedef struct tsr_metadata_entries {
  uint64_t count;
  tsr_metadata_entry *entries;
} tsr_metadata_entries;

/* Decodes the entries of one file, in file order. `arena` owns them; nothing is borrowed from the input. */
int tsr__metadata_decode(tsr_input *in, tsr_arena *arena, tsr_metadata_entries *entries, tsr_error *error);

/* Appends an entry to the content of a file. On an error `out` is unchanged. */
int tsr__metadata_encode(const tsr_metadata_entry *entry, tsr_buffer *out, tsr_error *error);

#endif
