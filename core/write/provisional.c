/* provisional.c: makes directories for fragments under provisional names. */
#include "write/provisional.h"

#include <stdio.h>

#include "array/array.h"

/* bytes of memory_mb for each thread that encodes tiles, since codecs need memory */
#define THREAD_BYTES (UINT64_C(2) << 20)

int tsr__provisional_folder(tsr_writer *writer, const char *folder, tsr_error *error) {
  tsr_error one;
  const int rc = tsr__store_make_directory(writer->array->store, folder, &one);
  if (rc >= 0 && writer->commit.options.durable) return tsr__store_sync_directory(writer->array->store, "", error);
  if (rc < 0 && rc != TSR_EXISTS) {
    *error = one;
    return rc;
  }
  return TSR_OK;
}

int tsr__provisional_name(char name[128], tsr_error *error) {
  uint8_t random[16];
  tsr_name made;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &made, random));
  snprintf(name, 128, ".%s", made.uuid);
  return TSR_OK;
}

int tsr__provisional_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error) {
  if (scratch) {
    TSR_TRY(tsr__provisional_name(name, error));
    return tsr__store_make_provisional(scratch, name, error);
  }
  if (layout_has_commits_folder(writer->version)) {
    TSR_TRY(tsr__provisional_folder(writer, TSR_DIR_FRAGMENTS, error));
    TSR_TRY(tsr__provisional_folder(writer, TSR_DIR_COMMITS, error));
  }
  TSR_TRY(tsr__provisional_name(name, error));
  const tsr_path p = tsr__writer_path(writer, name);
  return tsr__store_make_provisional(writer->array->store, p.text, error);
}

tsr_fragment_target tsr__provisional_target(tsr_writer *writer, const char *directory, const tsr_interval *box) {
  const uint64_t limit = writer->memory.limit;
  return (tsr_fragment_target){.environment = writer->array->environment,
                               .store = writer->array->store,
                               .directory = directory,
                               .metadata_name = !layout_has_commit_files(writer->version) ? TSR_FILE_STAGED_METADATA
                                                                                          : TSR_FILE_FRAGMENT_METADATA,
                               .schema = writer->schema,
                               .version = writer->version,
                               .key = tsr__array_key(writer->array),
                               .box = box,
                               .memory = &writer->memory,
                               .window_bytes = limit / 16,
                               .threads = (unsigned)TSR_MIN(writer->threads, TSR_MAX(limit / THREAD_BYTES, 1)),
                               .durable = writer->commit.options.durable};
}
