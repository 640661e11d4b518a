/* kept.c: which states of the past can still be read as a whole.
 *
 * An array keeps every state until a vacuum or a purge takes some of them away:
 *
 *   - A merged fragment without times of cells (dense arrays, sparse ones below format version 15) shows its cells only
 *     to those who see its whole time range [a, b]. A state within the range needs the sources. Once they are vacuumed,
 *     the states of a <= time < b lack the fragment's cells. A vacuum that was cut off may leave the commit of a source
 *     whose files are gone: whoever opens the sources passes on the names of those that are missing.
 *   - A merge that purges drops the cells that were deleted by then, at `until`. The states before it lack them. Such a
 *     fragment shows by itself: it says that it has processed a delete of its time range, or a newer one, and its cells
 *     have no times of deletion. A delete that it has not processed was committed later, and has taken nothing. But the
 *     next merge over the fragment writes times of deletion again, so our own purge also notes its range in the array's
 *     metadata (TSR_PURGED_KEY).
 *
 * A snapshot of the past finds its losses when it is made; a request fails if it meets one of them (read/plan.c). The
 * present lacks nothing, so its snapshots never get here.
 *
 * Sections: losses; messages.
 */
#include "array/array.h"

#include <stdio.h>
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "format/schema.h"
#include "log/log.h"
#include "environment/environment.h"
#include "tessera_host.h"

/* ---- Losses ------------------------------------------------------------------------------------------------------ */

#define STEM_DIGITS 24 /* all fragments of one merge share these digits of their UUIDs (maintain/replace.c) */

static bool same_merge(const tsr_name *a, const tsr_name *b) {
  return a->start == b->start && a->end == b->end && strncmp(a->uuid, b->uuid, STEM_DIGITS) == 0;
}

int tsr__sources_kept(tsr_array *array, const tsr_committed *merged, const tsr_map *missing, bool *all,
                      tsr_error *error) {
  const tsr_commit_list *vacuums = &array->log.listing->vacuums;
  *all = false;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    if (!same_merge(&vacuums->items[i].parsed, &merged->parsed)) continue;
    tsr_error one;
    const int rc = tsr__log_file(&array->log, vacuums->items[i].path, &file, &one);
    if (rc == TSR_NOT_FOUND) return TSR_OK; /* then the sources are gone, too */
    if (rc < 0) return *error = one, rc;
    *all = true;
    for (uint64_t n = 0; n < file->names.count; n++) {
      const char *name = file->names.names[n];
      if (tsr__name_ends_in(name, TSR_SUFFIX_WRITE)) continue; /* the merge, as an exchange of duplicates names it */
      *all = *all && tsr__map_get(&array->log.listing->names, name) && !(missing && tsr__map_get(missing, name));
    }
  }
  return TSR_OK;
}

typedef struct loss_search {
  tsr_array *array;
  bool dense, any; /* any: what any state lacks */
  uint64_t since, as_of;
  uint64_t newest_delete; /* when it comes into view; 0: there is none */
  const tsr_map *missing; /* names of fragments that are committed and gone; or NULL */
  tsr_buffer *losses;
  tsr_error *error;
} loss_search;

/* Adds a loss; takes over the reference to the fragment, also on an error. */
static int add_loss(const loss_search *s, tsr_loss_kind kind, tsr_fragment *fragment, uint64_t from, uint64_t until) {
  const tsr_loss loss = {kind, fragment, from, until};
  const int rc = tsr__buffer_append(s->losses, &loss, sizeof loss, s->error);
  if (rc < 0 && fragment) tsr__array_fragment_drop(s->array, fragment);
  return rc;
}

/* Returns true if a delete is listed that comes into view within start..end. */
static bool has_delete(const tsr_array *array, uint64_t start, uint64_t end) {
  const tsr_commit_list *deletes = &array->log.listing->deletes;
  for (uint64_t i = deletes->count; i-- > 0;)
    if (deletes->items[i].parsed.end >= start && deletes->items[i].parsed.end <= end) return true;
  return false;
}

int tsr__merged_delete(tsr_array *array, const tsr_committed *merged, uint64_t *time, bool *purged, tsr_error *error) {
  const tsr_name *name = &merged->parsed;
  tsr_fragment *fragment;
  *time = 0;
  *purged = false;
  if (name->start == name->end || !has_delete(array, name->start, UINT64_MAX)) return TSR_OK;
  TSR_TRY(tsr__array_fragment(array, merged, NULL, 0, &fragment, error));
  const tsr_fragment_metadata *m = &fragment->metadata;
  const int rc = m->at.processed_conditions ? tsr__fragment_processed(array, fragment, error) : TSR_OK;
  for (uint32_t i = 0; rc >= 0 && i < m->processed.count; i++) {
    tsr_name one;
    const char *slash = strrchr(m->processed.names[i], '/'), *text = slash ? slash + 1 : m->processed.names[i];
    if (tsr__name_parse(text, strcspn(text, "."), &one) && one.start >= name->start) *time = TSR_MAX(*time, one.end);
  }
  *purged = *time && m->has_times && !m->has_delete_metadata && layout_has_delete_metadata(m->version);
  tsr__array_fragment_drop(array, fragment);
  return rc;
}

/* Returns true if the merged fragment may lack cells because of a delete that the state does not show yet. The delete
 * may be newer than all of its cells. */
static bool may_be_purged(const loss_search *s, const tsr_name *name) {
  return name->start <= s->as_of && s->newest_delete > s->as_of;
}

/* Returns true if the state shows some of the merged fragment's times and not all of them. */
static bool is_split(const loss_search *s, const tsr_name *name) {
  if (s->any) return true;
  if (name->start > s->as_of || name->end < s->since) return false;
  return name->start < s->since || name->end > s->as_of;
}

/* Adds what the state lacks of a merged fragment. */
static int search_fragment(const loss_search *s, const tsr_committed *item) {
  const tsr_name *name = &item->parsed;
  const bool timed = !s->dense && layout_has_timed_merges(name->version);
  bool whole = false, purged = false;
  uint64_t deleted = 0;
  tsr_fragment *fragment;
  if (!is_split(s, name) && !(timed && may_be_purged(s, name))) return TSR_OK;
  if (timed) {
    TSR_TRY(tsr__merged_delete(s->array, item, &deleted, &purged, s->error));
    whole = !purged || (!s->any && deleted <= s->as_of);
  } else {
    TSR_TRY(tsr__sources_kept(s->array, item, s->missing, &whole, s->error));
  }
  if (whole) return TSR_OK;
  TSR_TRY(tsr__array_fragment(s->array, item, NULL, 0, &fragment, s->error));
  if (timed) return add_loss(s, TSR_LOSS_PURGED, fragment, name->start, deleted);
  if (!fragment->metadata.empty_domain) return add_loss(s, TSR_LOSS_MERGED, fragment, name->start, name->end);
  tsr__array_fragment_drop(s->array, fragment);
  return TSR_OK;
}

bool tsr__purge_noted(const tsr_metadata *metadata, uint64_t range[2]) {
  for (uint64_t i = 0; i < metadata->count; i++) {
    const tsr_metadatum *entry = &metadata->entries[i];
    if (entry->key_size != strlen(TSR_PURGED_KEY) || memcmp(entry->key, TSR_PURGED_KEY, entry->key_size) != 0) continue;
    if (entry->datatype != TSR_UINT64 || entry->value_size != 2 * sizeof *range) continue;
    memcpy(range, entry->value, entry->value_size);
    return true;
  }
  return false;
}

/* Adds what our purges have noted. A copy of the array has the note, but perhaps no commit that is as old. */
static int search_note(const loss_search *s) {
  const tsr_commit_listing *listing = s->array->log.listing;
  tsr_metadata *metadata;
  uint64_t range[2];
  if (s->dense || !listing->fragments.count) return TSR_OK;
  if (!has_delete(s->array, s->any ? 0 : tsr__add_sat(s->as_of, 1), UINT64_MAX)) return TSR_OK;
  TSR_TRY(tsr__metadata_open(s->array->environment, s->array->store, tsr__array_key(s->array), NULL, TSR_TIME_BEGIN,
                             TSR_TIME_NOW, &metadata, s->error));
  const bool noted = tsr__purge_noted(metadata, range);
  tsr_metadata_close(metadata);
  if (!noted || listing->fragments.items[0].parsed.start >= range[1]) return TSR_OK;
  if (!s->any && (s->as_of < range[0] || s->as_of >= range[1])) return TSR_OK;
  return add_loss(s, TSR_LOSS_PURGED, NULL, range[0], range[1]);
}

int tsr__losses_find(tsr_array *array, bool dense, uint64_t since, uint64_t as_of, const tsr_map *missing,
                     tsr_buffer *losses, tsr_error *error) {
  const bool any = since == TSR_TIME_BEGIN && as_of == TSR_TIME_NOW;
  loss_search s = {array, dense, any, since, as_of, 0, missing, losses, error};
  const tsr_commit_list *fragments = &array->log.listing->fragments, *deletes = &array->log.listing->deletes;
  for (uint64_t i = 0; i < deletes->count; i++)
    s.newest_delete = TSR_MAX(s.newest_delete, deletes->items[i].parsed.end);
  for (uint64_t i = 0; i < fragments->count; i++)
    if (fragments->items[i].parsed.start < fragments->items[i].parsed.end)
      TSR_TRY(search_fragment(&s, &fragments->items[i]));
  return search_note(&s);
}

void tsr__losses_drop(tsr_array *array, tsr_buffer *losses) {
  const tsr_loss *items = (const tsr_loss *)(const void *)losses->data;
  for (uint64_t i = 0; i < losses->size / sizeof *items; i++)
    if (items[i].fragment) tsr__array_fragment_drop(array, items[i].fragment);
  tsr__buffer_release(losses);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static void print_time(uint64_t milliseconds, char text[64]) {
  if (milliseconds > INT64_MAX || !tsr_datetime_print(TSR_DATETIME_MS, (int64_t)milliseconds, text))
    snprintf(text, 64, "%llu", (unsigned long long)milliseconds);
}

/* Appends the box of the lost cells, like {"day":[1,90],"name":["a","k"]}. */
static int print_box(const tsr_schema *schema, const tsr_fragment *fragment, tsr_buffer *out, tsr_error *error) {
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *dimension = &schema->fields[d];
    const tsr_interval *interval = &fragment->metadata.non_empty_domain[d];
    char low[64], high[64];
    TSR_TRY(tsr__buffer_printf(out, error, "%s\"%.64s\":[", d ? "," : "{", dimension->name));
    if (dimension->values_per_cell == TSR_VARIABLE) {
      TSR_TRY(tsr__buffer_printf(
          out, error, "\"%.*s\",\"%.*s\"]", (int)tsr_utf8_cut(interval->low_text, interval->low_size, 40),
          (const char *)interval->low_text, (int)tsr_utf8_cut(interval->high_text, interval->high_size, 40),
          (const char *)interval->high_text));
      continue;
    }
    tsr__value_print(dimension->datatype, interval->low, low, sizeof low);
    tsr__value_print(dimension->datatype, interval->high, high, sizeof high);
    TSR_TRY(tsr__buffer_printf(out, error, "%s,%s]", low, high));
  }
  return tsr__buffer_append(out, "}", 2, error); /* with its NUL */
}

/* Gives the time from which on all states are whole, as text. */
static int whole_from(tsr_snapshot *snapshot, char text[64], tsr_error *error) {
  tsr_buffer all = {.memory = &snapshot->array->memory};
  uint64_t from = 0;
  const int rc =
      tsr__losses_find(snapshot->array, snapshot->schema->dense, TSR_TIME_BEGIN, TSR_TIME_NOW, NULL, &all, error);
  const tsr_buffer *const both[] = {&all,
                                    &snapshot->losses}; /* the latter include those of a vacuum that was cut off */
  for (int b = 0; b < 2; b++) {
    const tsr_loss *losses = (const tsr_loss *)(const void *)both[b]->data;
    for (uint64_t i = 0; i < both[b]->size / sizeof *losses; i++) from = TSR_MAX(from, losses[i].until);
  }
  tsr__losses_drop(snapshot->array, &all);
  print_time(from, text);
  return rc;
}

static int fail_with(tsr_snapshot *snapshot, const tsr_loss *loss, tsr_buffer *box, tsr_error *error) {
  char state[64], from[64], until[64], whole[64];
  const bool begins = snapshot->since > loss->from && snapshot->as_of >= loss->until;
  print_time(begins ? snapshot->since : snapshot->as_of, state);
  print_time(loss->from, from);
  print_time(loss->until, until);
  TSR_TRY(whole_from(snapshot, whole, error));
  if (loss->fragment) TSR_TRY(print_box(snapshot->schema, loss->fragment, box, error));
  if (loss->kind == TSR_LOSS_PURGED)
    return tsr__fail(error, TSR_ERROR,
                     "the state at %s is lost: cells deleted up to %s were purged; from %s on the past is whole", state,
                     until, whole);
  return tsr__fail(error, TSR_ERROR,
                   "%s %s is lost: cells of %s were merged over %s to %s, and their sources are vacuumed; from %s on "
                   "the past is whole",
                   begins ? "what was written since" : "the state at", state, (const char *)box->data, from, until,
                   whole);
}

int tsr__loss_fail(tsr_snapshot *snapshot, const tsr_loss *loss, tsr_error *error) {
  tsr_buffer box = {.memory = &snapshot->array->memory};
  const int rc = fail_with(snapshot, loss, &box, error);
  tsr__buffer_release(&box);
  return rc;
}
