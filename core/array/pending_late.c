/* pending_late.c: records of late publications: prepared commits in whose place recovery has published another commit
 * (docs/commits.md).
 *
 *   __commits/.NAME.late   the record of the prepared commit NAME (version 12 and later)
 *   .NAME.late             the same below version 12
 *
 * A merge by a process that does not know of a prepared commit may span the commit's time. The cells of the commit that
 * still count are then published as another commit (recover_late.c), which the record names. The record is written
 * before the other commit is published. As soon as the other commit is published, the prepared one does not count. The
 * record stays, so that tessera_check can tell how many cells were dropped; a vacuum removes it after a day.
 *
 * A record has three lines of text: the path of the other commit, or "-" if no cell was left; "DROPPED of TOTAL",
 * numbers of cells; "end".
 */
#include "array/pending_late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "format/layout.h"
#include "array/timed_write.h"

#define RECORD_MAX 1024 /* bytes */
#define NOTHING    "-"

bool tsr__late_path(const char *commit, char path[TSR_COMMIT_PATH]) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  if (!tsr__pending_paths(commit, marker, staged)) return false;
  const char *slash = strchr(commit, '/'), *name = commit;
  const bool new_layout = strncmp(commit, TSR_DIR_COMMITS "/", strlen(TSR_DIR_COMMITS "/")) == 0;
  if (new_layout) name = slash + 1;
  const int size = (int)strcspn(name, "./");
  snprintf(path, TSR_COMMIT_PATH, "%s.%.*s" TSR_SUFFIX_LATE, new_layout ? TSR_DIR_COMMITS "/" : "", size, name);
  return true;
}

/* Takes a decimal number and the text `behind` from *at. Returns false if they are not there. */
static bool pending_late_take_number(char **at, const char *behind, uint64_t *number) {
  char *end;
  if (**at < '0' || **at > '9') return false;
  *number = strtoull(*at, &end, 10);
  if (strncmp(end, behind, strlen(behind)) != 0) return false;
  *at = end + strlen(behind);
  return true;
}

static bool pending_late_parse(char *text, tsr_late *late) {
  char other[TSR_COMMIT_PATH], *line = strchr(text, '\n');
  if (!line || line - text >= TSR_COMMIT_PATH) return false;
  *line++ = 0;
  *late = (tsr_late){0};
  if (!pending_late_take_number(&line, " of ", &late->dropped) || !pending_late_take_number(&line, "\n", &late->total))
    return false;
  if (strcmp(line, "end\n") != 0) return false;
  if (strcmp(text, NOTHING) == 0) return true;
  if (!tsr__late_path(text, other)) return false;
  memcpy(late->commit, text, strlen(text) + 1);
  return true;
}

int tsr__late_read_file(tsr_store *store, const char *path, tsr_late *late, tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  tsr_error one = {0};
  int rc = tsr__store_read_all(store, path, RECORD_MAX, &text, &one);
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, &one);
  if (rc >= 0) rc = strlen((char *)text.data) + 1 == text.size && pending_late_parse((char *)text.data, late);
  tsr__buffer_release(&text);
  if (rc == TSR_NOT_FOUND || rc == TSR_TOOBIG) return 0;
  if (rc < 0 && error) *error = one;
  return rc;
}

int tsr__late_read(tsr_store *store, const char *commit, tsr_late *late, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  return tsr__late_path(commit, path) ? tsr__late_read_file(store, path, late, error) : 0;
}

int tsr__late_write(tsr_store *store, const char *commit, const tsr_late *late, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  tsr_buffer text = {.memory = store->memory};
  if (!tsr__late_path(commit, path)) return tsr__fail(error, TSR_ERROR, "'%s' is not the path of a commit", commit);
  int rc = tsr__buffer_printf(&text, error, "%s\n%llu of %llu\nend\n", *late->commit ? late->commit : NOTHING,
                              (unsigned long long)late->dropped, (unsigned long long)late->total);
  if (rc >= 0) rc = tsr__write_claim(store, path, &text, error);
  tsr__buffer_release(&text);
  if (rc >= 0) rc = tsr__store_sync_directory(store, *path == '.' ? "" : TSR_DIR_COMMITS, error);
  return rc;
}

int tsr__late_remove(tsr_store *store, const char *commit, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  return tsr__late_path(commit, path) ? tsr__pending_unmark(store, path, error) : TSR_OK;
}
