/* pending_late.c: records of commits that recovery has published late, under another name.
 *
 *   __commits/.NAME.late   of the prepared commit NAME (version 12 and later)
 *   .NAME.late             before
 *
 * A merge may span the time of a commit that is prepared and not published: whoever merges does not know of it. What
 * such
 * a commit still has to say is then published as another commit (recover_late.c). The record names that one. It is
 * written
 * before the other commit is published, and stays: from the moment on that the other one is published, the prepared one
 * does not count, and tessera_check tells how many cells were dropped. A vacuum removes the record after a day.
 *
 * The text is three lines: the path of the other commit, or "-" where no cell was left; "DROPPED of TOTAL", numbers of
 * cells; "end".
 */
#include "array/pending_late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "array/timed_write.h"

#define RECORD_MAX 1024 /* bytes */
#define NOTHING    "-"

bool tsr__late_path(const char *commit, char path[TSR_COMMIT_PATH]) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  if (!tsr__pending_paths(commit, marker, staged)) return false;
  const char *slash = strchr(commit, '/'), *name = commit;
  const bool new_layout = strncmp(commit, "__commits/", 10) == 0;
  if (new_layout) name = slash + 1;
  const int size = (int)strcspn(name, "./");
  snprintf(path, TSR_COMMIT_PATH, "%s.%.*s" TSR_LATE_SUFFIX, new_layout ? "__commits/" : "", size, name);
  return true;
}

/* A decimal number and what follows it; false if there is none. */
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
  if (!tsr__late_path(commit, path)) return tsr__fail(error, TSR_ERROR, "'%s' is no commit", commit);
  int rc = tsr__buffer_printf(&text, error, "%s\n%llu of %llu\nend\n", *late->commit ? late->commit : NOTHING,
                              (unsigned long long)late->dropped, (unsigned long long)late->total);
  if (rc >= 0) rc = tsr__write_claim(store, path, &text, error);
  tsr__buffer_release(&text);
  if (rc >= 0) rc = tsr__store_sync_directory(store, *path == '.' ? "" : "__commits", error);
  return rc;
}

int tsr__late_remove(tsr_store *store, const char *commit, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  return tsr__late_path(commit, path) ? tsr__pending_unmark(store, path, error) : TSR_OK;
}
