/* seen.c: which commits of an array are new: to a reader that has a token, or since a time.
 *
 * A time says when, a token says what has been seen. A commit may become visible late, with a time before others that
 * were seen already: a reader that remembers a time would miss it. A token names the commits themselves.
 *
 * A token is "tessera:1:" and base64url (RFC 4648, without padding) of:
 *
 *   u64 identity of the array | u64 time of the newest commit | u64 how many old commits | u64 sum of their digests
 *   | u64 time before which commits are old | u32 count | entries: time as a LEB128 distance from the entry before,
 *   u64 digest | u64 digest of all this
 *
 * The newest TOKEN_COMMITS have an entry each; older ones are counted and summed up. A digest is the first 8 bytes of a
 * SHA-256. Prepared commits are left out, since recovery may publish them under other names: their cells come again.
 *
 * Merges. A merged fragment is new to the token, its cells are not:
 *
 *   - If its sources are still listed, each of them is known or new by itself.
 *   - If its vacuum file names known sources only, it is known.
 *   - Else its cells count as new, all of them. Nothing is left out.
 *
 * TileDB's merge of a dense array writes the cells between its sources, so it is never known by its sources.
 *
 * What a token cannot tell is an error: commits that are gone though no merge explains it, and purged cells whose
 * deletion the reader has not seen.
 *
 * Sections: digests; text; making and reading tokens; what is gone; what is new; what was published late; both.
 */
#include "array/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/encoding.h"
#include "base/input.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "format/schema.h"
#include "log/log.h"
#include "environment/environment.h"

#define TOKEN_PREFIX  "tessera:1:"
#define TOKEN_COMMITS 4096 /* commits with an entry; all commits of the oldest one's time have one, too */
#define TOKEN_MAX     ((uint64_t)1 << 20) /* bytes of text */
#define ENTRY_MIN     9 /* bytes of an entry */

typedef struct token_entry {
  uint64_t digest, time; /* time: the end of the commit's range */
} token_entry;

struct tsr_token {
  tsr_buffer text, entries; /* entries: token_entry, sorted by digest */
  uint64_t identity, time;
  uint64_t old_count, old_sum, old_before;
};

/* ---- Digests ----------------------------------------------------------------------------------------------------- */

static int digest_of(const void *bytes, uint64_t size, uint64_t *digest, tsr_error *error) {
  uint8_t all[TSR_SHA256_SIZE];
  TSR_TRY(tsr__sha256(bytes, size, all, error));
  memcpy(digest, all, sizeof *digest);
  return TSR_OK;
}

/* A fragment and a delete may share a name, so the digest covers which of them it is. */
static int digest_commit(const tsr_committed *item, bool is_delete, uint64_t *digest, tsr_error *error) {
  char text[256];
  const int size = snprintf(text, sizeof text, "%c%s", is_delete ? 'd' : 'f', item->name);
  return digest_of(text, TSR_MIN((uint64_t)size, sizeof text - 1), digest, error);
}

static int digest_schema(const tsr_committed *schema, uint64_t *digest, tsr_error *error) {
  return digest_of(schema->name, strlen(schema->name), digest, error);
}

/* A schema identifies an array: its name has random digits, and no change of the array removes it. A token has the
 * first one. A later one may come before it, if a clock is wrong. */
static int digest_array(const tsr_array *array, uint64_t *digest, tsr_error *error) {
  const tsr_commit_list *schemas = &array->log.listing->schemas;
  if (!schemas->count) return tsr__fail(error, TSR_CORRUPT, "the array has no schema");
  return digest_schema(&schemas->items[0], digest, error);
}

static int check_array(const tsr_array *array, const tsr_token *token, tsr_error *error) {
  const tsr_commit_list *schemas = &array->log.listing->schemas;
  for (uint64_t i = 0; i < schemas->count; i++) {
    uint64_t digest = 0;
    TSR_TRY(digest_schema(&schemas->items[i], &digest, error));
    if (digest == token->identity) return TSR_OK;
  }
  return tsr__fail(error, TSR_ERROR, "the token is of another array");
}

static int compare_digests(const void *a, const void *b) {
  const token_entry *x = a, *y = b;
  return x->digest < y->digest ? -1 : x->digest > y->digest;
}

static int compare_times(const void *a, const void *b) {
  const token_entry *x = a, *y = b;
  return x->time < y->time ? -1 : x->time > y->time ? 1 : compare_digests(a, b);
}

static void sort_entries(tsr_buffer *entries, int (*compare)(const void *, const void *)) {
  if (entries->size) qsort(entries->data, entries->size / sizeof(token_entry), sizeof(token_entry), compare);
}

static const token_entry *find_entry(const tsr_buffer *entries, uint64_t digest) {
  const token_entry key = {.digest = digest};
  if (!entries->size) return NULL;
  return bsearch(&key, entries->data, entries->size / sizeof key, sizeof key, compare_digests);
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static int fail_text(const char *why, tsr_error *error) {
  return tsr__fail(error, TSR_MISMATCH, "not a token of tessera_token: %s", why);
}

static int read_text(const char *text, uint64_t size, tsr_buffer *bytes, tsr_error *error) {
  const uint64_t prefix = strlen(TOKEN_PREFIX);
  if (size > TOKEN_MAX) return fail_text("it is too long", error);
  if (size < prefix || memcmp(text, TOKEN_PREFIX, prefix) != 0)
    return fail_text("it does not begin with " TOKEN_PREFIX, error);
  if ((size - prefix) % 4 == 1) return fail_text("it is cut off", error);
  TSR_TRY(tsr__buffer_reserve(bytes, size, error));
  if (!tsr_base64_read(TSR_BASE64_URL, text + prefix, size - prefix, bytes->data, &bytes->size))
    return fail_text("it has a character that tokens lack", error);
  return TSR_OK;
}

/* ---- Making and reading tokens ----------------------------------------------------------------------------------- */

static int put_time(tsr_buffer *out, uint64_t distance, tsr_error *error) {
  for (; distance > 127; distance >>= 7) TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)(distance | 128), error));
  return tsr__buffer_append_u8(out, (uint8_t)distance, error);
}

/* Returns the distance; a number of more than 64 bits makes the input fail. */
static uint64_t take_time(tsr_input *in) {
  uint64_t distance = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = tsr__input_u8(in);
    if (shift == 63 && byte > 1) break;
    distance |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return distance;
  }
  in->failed = true;
  return 0;
}

static int put_digest(tsr_buffer *out, tsr_error *error) {
  uint64_t digest;
  TSR_TRY(digest_of(out->data, out->size, &digest, error));
  return tsr__buffer_append_u64(out, digest, error);
}

/* Counts the commits that get no entry. The entries are sorted by time; *first is the first one that stays. */
static void count_old(tsr_token *token, uint64_t *first) {
  const token_entry *entries = (const token_entry *)(const void *)token->entries.data;
  const uint64_t count = token->entries.size / sizeof *entries;
  *first = count > TOKEN_COMMITS ? count - TOKEN_COMMITS : 0;
  while (*first > 0 && entries[*first - 1].time == entries[*first].time) --*first;
  token->old_count = *first;
  token->old_before = *first ? entries[*first].time : 0;
  for (uint64_t i = 0; i < *first; i++) token->old_sum += entries[i].digest;
}

static int encode(tsr_token *token, tsr_buffer *out, tsr_error *error) {
  uint64_t first;
  sort_entries(&token->entries, compare_times);
  count_old(token, &first);
  const token_entry *entries = (const token_entry *)(const void *)token->entries.data;
  const uint64_t count = token->entries.size / sizeof *entries;
  const uint64_t head[] = {token->identity, token->time, token->old_count, token->old_sum, token->old_before};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++) TSR_TRY(tsr__buffer_append_u64(out, head[i], error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)(count - first), error));
  for (uint64_t i = first, time = token->old_before; i < count; time = entries[i++].time) {
    TSR_TRY(put_time(out, entries[i].time - time, error));
    TSR_TRY(tsr__buffer_append_u64(out, entries[i].digest, error));
  }
  TSR_TRY(put_digest(out, error));
  TSR_TRY(tsr__buffer_append(&token->text, TOKEN_PREFIX, strlen(TOKEN_PREFIX), error));
  TSR_TRY(tsr__base64_append(TSR_BASE64_URL, out->data, out->size, &token->text, error));
  return token->text.size <= TOKEN_MAX
             ? TSR_OK
             : tsr__fail(error, TSR_TOOBIG, "%" PRIu64 " commits of one time are too many for a token", count - first);
}

static int decode(tsr_token *token, const tsr_buffer *bytes, tsr_error *error) {
  uint64_t digest = 0;
  if (bytes->size < sizeof digest) return fail_text("it is cut off", error);
  tsr_input in = tsr__input(bytes->data, bytes->size - sizeof digest);
  TSR_TRY(digest_of(in.data, in.size, &digest, error));
  if (memcmp(&digest, bytes->data + in.size, sizeof digest) != 0) return fail_text("it was changed or cut off", error);
  token->identity = tsr__input_u64(&in);
  token->time = tsr__input_u64(&in);
  token->old_count = tsr__input_u64(&in);
  token->old_sum = tsr__input_u64(&in);
  token->old_before = tsr__input_u64(&in);
  const uint32_t count = tsr__input_u32(&in);
  if (!tsr__input_fits(&in, count, ENTRY_MIN)) return fail_text("it is cut off", error);
  uint64_t time = token->old_before;
  for (uint32_t i = 0; i < count && !in.failed; i++) {
    const uint64_t distance = take_time(&in);
    const token_entry entry = {.time = time + distance, .digest = tsr__input_u64(&in)};
    in.failed |= entry.time < time;
    time = entry.time;
    TSR_TRY(tsr__buffer_append(&token->entries, &entry, sizeof entry, error));
  }
  if (in.failed || in.at < in.size) return fail_text("its entries are not valid", error);
  sort_entries(&token->entries, compare_digests);
  return TSR_OK;
}

static int token_new(tsr_memory *memory, tsr_token **token, tsr_error *error) {
  TSR_TRY(TSR_ALLOC(memory, token, error));
  (*token)->text.memory = (*token)->entries.memory = memory;
  return TSR_OK;
}

int tsr_token_read(tsr_environment *environment, const char *text, uint64_t size, tsr_token **token, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_token *made;
  tsr_buffer bytes = {.memory = &environment->memory};
  TSR_TRY(token_new(&environment->memory, &made, error));
  int rc = read_text(text, size, &bytes, error);
  if (rc >= 0) rc = decode(made, &bytes, error);
  tsr__buffer_release(&bytes);
  if (rc < 0) return tsr_token_close(made), rc;
  *token = made;
  return TSR_OK;
}

/* Adds an entry for each commit in view at the present. */
static int collect(const tsr_array *array, tsr_token *token, tsr_error *error) {
  const uint64_t present = tsr__array_present(array);
  TSR_TRY(digest_array(array, &token->identity, error));
  for (int pass = 0; pass < 2; pass++) {
    const tsr_commit_list *list = pass ? &array->log.listing->deletes : &array->log.listing->fragments;
    for (uint64_t i = 0; i < list->count; i++) {
      token_entry entry = {.time = list->items[i].parsed.end};
      if (list->items[i].prepared || entry.time > present) continue;
      TSR_TRY(digest_commit(&list->items[i], pass == 1, &entry.digest, error));
      TSR_TRY(tsr__buffer_append(&token->entries, &entry, sizeof entry, error));
      token->time = TSR_MAX(token->time, entry.time);
    }
  }
  return TSR_OK;
}

static int make(tsr_array *array, tsr_token *token, tsr_buffer *bytes, tsr_error *error) {
  TSR_TRY(tsr__log_list(&array->log, true, false, error));
  TSR_TRY(collect(array, token, error));
  return encode(token, bytes, error);
}

int tsr_token_make(tsr_array *array, tsr_token **token, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_token *made;
  tsr_buffer bytes = {.memory = &array->memory};
  TSR_TRY(token_new(&array->environment->memory, &made, error));
  const int rc = make(array, made, &bytes, error);
  tsr__buffer_release(&bytes);
  if (rc < 0) {
    tsr_token_close(made);
    return tsr__wrap(error, "array %s", array->path);
  }
  *token = made;
  return TSR_OK;
}

int tsr_token_check(tsr_array *array, const tsr_token *token, tsr_error *error) {
  TSR_OWN_ERROR(error);
  TSR_TRY(tsr__log_list(&array->log, true, false, error));
  return check_array(array, token, error);
}

void tsr_token_close(tsr_token *token) {
  if (!token) return;
  tsr__buffer_release(&token->text);
  tsr__buffer_release(&token->entries);
  tsr__free(token);
}

const char *tsr_token_text(const tsr_token *token, uint64_t *size) {
  *size = token->text.size;
  return (const char *)token->text.data;
}

uint64_t tsr_token_time(const tsr_token *token) { return token->time; }

/* ---- What is gone ------------------------------------------------------------------------------------------------ */

typedef struct seen_search {
  tsr_array *array;
  const tsr_token *token;
  bool dense, old_known; /* old_known: all commits before the token's entries are those that it has counted */
  tsr_fresh *fresh;
  tsr_error *error;
} seen_search;

static void time_text(uint64_t time, char text[64]) {
  if (time > INT64_MAX || !tsr_datetime_print(TSR_DATETIME_MS, (int64_t)time, text))
    snprintf(text, 64, "%" PRIu64, time);
}

static int fail_gone(const seen_search *s, uint64_t time) {
  char text[64];
  time_text(time, text);
  return tsr__fail(s->error, TSR_ERROR,
                   "the token cannot tell what is new before %s: read everything, and take a new token", text);
}

/* Returns true if a listed fragment spans the time, and so may have replaced a commit of it. */
static bool is_spanned(const tsr_array *array, uint64_t time) {
  const tsr_commit_list *fragments = &array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count && fragments->items[i].parsed.start <= time; i++)
    if (fragments->items[i].parsed.end >= time) return true;
  return false;
}

static bool is_merged_before(const tsr_array *array, uint64_t time) {
  const tsr_commit_list *fragments = &array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count && fragments->items[i].parsed.start < time; i++)
    if (fragments->items[i].parsed.start < fragments->items[i].parsed.end) return true;
  return false;
}

/* Compares the listed commits with those of the token: `listed` has their digests. */
static int compare_listed(seen_search *s, const tsr_buffer *listed) {
  const token_entry *all = (const token_entry *)(const void *)listed->data;
  const token_entry *known = (const token_entry *)(const void *)s->token->entries.data;
  uint64_t count = 0, sum = 0;
  for (uint64_t i = 0; i < listed->size / sizeof *all; i++) {
    if (all[i].time >= s->token->old_before) continue;
    count++;
    sum += all[i].digest;
  }
  s->old_known = count == s->token->old_count && sum == s->token->old_sum;
  if (!s->old_known && s->token->old_count && !is_merged_before(s->array, s->token->old_before))
    return fail_gone(s, s->token->old_before);
  for (uint64_t i = 0; i < s->token->entries.size / sizeof *known; i++)
    if (!find_entry(listed, known[i].digest) && !is_spanned(s->array, known[i].time))
      return fail_gone(s, known[i].time);
  return TSR_OK;
}

/* Marks the listed commits that the token lacks, whatever has replaced them. */
static int mark_unknown(seen_search *s, tsr_buffer *listed) {
  for (int pass = 0; pass < 2; pass++) {
    const tsr_commit_list *list = pass ? &s->array->log.listing->deletes : &s->array->log.listing->fragments;
    for (uint64_t i = 0; i < list->count; i++) {
      token_entry entry = {.time = list->items[i].parsed.end};
      TSR_TRY(digest_commit(&list->items[i], pass == 1, &entry.digest, s->error));
      if (!list->items[i].prepared) TSR_TRY(tsr__buffer_append(listed, &entry, sizeof entry, s->error));
      const bool known = !list->items[i].prepared && find_entry(&s->token->entries, entry.digest);
      (pass ? s->fresh->deletes : s->fresh->fragments)[i] = !known;
    }
  }
  sort_entries(listed, compare_digests);
  return compare_listed(s, listed);
}

/* The old commits are known together, or not at all. */
static void mark_old(const seen_search *s) {
  const tsr_commit_listing *l = s->array->log.listing;
  for (uint64_t i = 0; s->old_known && i < l->fragments.count; i++)
    if (!l->fragments.items[i].prepared && l->fragments.items[i].parsed.end < s->token->old_before)
      s->fresh->fragments[i] = 0;
  for (uint64_t i = 0; s->old_known && i < l->deletes.count; i++)
    if (!l->deletes.items[i].prepared && l->deletes.items[i].parsed.end < s->token->old_before)
      s->fresh->deletes[i] = 0;
}

/* ---- What is new ------------------------------------------------------------------------------------------------- */

#define STEM_DIGITS 24 /* all fragments of one merge share these digits of their UUIDs (maintain/replace.c) */
#define FIRST       "00000000" /* the last digits of the first of them, if tessera has made them */

static bool is_same_merge(const tsr_name *a, const tsr_name *b) {
  return a->start == b->start && a->end == b->end && strncmp(a->uuid, b->uuid, STEM_DIGITS) == 0;
}

/* Returns true if tessera has made the merged fragment with number `i`: the first one of its merge is listed. The
 * fragments of a merge lie together in a list, in the order of their digits. `before`: the same of the one before. */
static bool is_ours(const tsr_commit_list *fragments, uint64_t i, bool before) {
  const tsr_name *name = &fragments->items[i].parsed;
  if (i > 0 && is_same_merge(&fragments->items[i - 1].parsed, name)) return before;
  return strlen(name->uuid) >= STEM_DIGITS && strcmp(name->uuid + STEM_DIGITS, FIRST) == 0;
}

static bool has_vacuum_file(const tsr_array *array, const tsr_committed *merged) {
  const tsr_commit_list *vacuums = &array->log.listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++)
    if (strcmp(vacuums->items[i].name, merged->name) == 0) return true;
  return false;
}

/* *known: a vacuum file of the merged fragment names its sources, and the token has all of them. */
static int sources_known(const seen_search *s, const tsr_committed *merged, bool *known) {
  const tsr_commit_list *vacuums = &s->array->log.listing->vacuums;
  *known = false;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    tsr_error unseen;
    if (strcmp(vacuums->items[i].name, merged->name) != 0) continue;
    if (tsr__log_file(&s->array->log, vacuums->items[i].path, &file, &unseen) < 0) return TSR_OK;
    *known = file->names.count > 0;
    for (uint64_t n = 0; n < file->names.count && *known; n++) {
      tsr_committed source = {.name = file->names.names[n]};
      uint64_t digest;
      if (tsr__name_ends_in(source.name, TSR_SUFFIX_WRITE)) continue; /* the merge itself (kept.c) */
      if (!tsr__name_parse(source.name, strlen(source.name), &source.parsed)) return *known = false, TSR_OK;
      TSR_TRY(digest_commit(&source, false, &digest, s->error));
      *known = find_entry(&s->token->entries, digest) ||
               (s->old_known && source.parsed.end < s->token->old_before && s->token->old_count);
    }
  }
  return TSR_OK;
}

/* Unmarks the merged fragments whose cells are known, or are marked with their sources. `gone`: listed sources may be
 * missing, because a vacuum was cut off. */
static int judge_merges(const seen_search *s, bool gone) {
  const tsr_commit_list *fragments = &s->array->log.listing->fragments;
  bool ours = false;
  for (uint64_t i = 0; i < fragments->count; i++) {
    const tsr_committed *item = &fragments->items[i];
    bool known = false;
    ours = is_ours(fragments, i, ours);
    if (!s->fresh->fragments[i] || !(item->parsed.start < item->parsed.end || has_vacuum_file(s->array, item)))
      continue;
    if (s->dense && !ours) continue;
    if (!gone) TSR_TRY(tsr__sources_kept(s->array, item, NULL, &known, s->error));
    if (!known) TSR_TRY(sources_known(s, item, &known));
    if (known) s->fresh->fragments[i] = 0;
  }
  return TSR_OK;
}

/* Fails if a purge has dropped cells whose deletion the token does not know: the deletes are known by their times; what
 * a new merged fragment has lost is not known. */
static int check_purges(const seen_search *s, const tsr_buffer *losses) {
  const tsr_commit_listing *l = s->array->log.listing;
  const tsr_loss *all = (const tsr_loss *)(const void *)losses->data;
  for (uint64_t k = 0; k < losses->size / sizeof *all; k++) {
    bool meets = false;
    if (all[k].kind != TSR_LOSS_PURGED) continue;
    for (uint64_t i = 0; i < l->deletes.count; i++)
      meets |= s->fresh->deletes[i] && l->deletes.items[i].parsed.start >= all[k].from &&
               l->deletes.items[i].parsed.start <= all[k].until;
    for (uint64_t i = 0; i < l->fragments.count; i++)
      meets |= s->fresh->fragments[i] && l->fragments.items[i].parsed.start < l->fragments.items[i].parsed.end &&
               l->fragments.items[i].parsed.start <= all[k].until && l->fragments.items[i].parsed.end >= all[k].from;
    if (!meets) continue;
    char text[64];
    time_text(all[k].until, text);
    return tsr__fail(s->error, TSR_ERROR,
                     "cells deleted up to %s were purged, and the token has not seen all of their deletes: read "
                     "everything, and take a new token",
                     text);
  }
  return TSR_OK;
}

/* Counts the new commits that are not after the newest one of the token: a reader that remembers a time would miss them.
 * Neither merges count nor prepared commits, which no token has. */
static void count_late(const seen_search *s) {
  const tsr_commit_listing *l = s->array->log.listing;
  uint64_t late = 0;
  for (int pass = 0; pass < 2; pass++) {
    const tsr_commit_list *list = pass ? &l->deletes : &l->fragments;
    const uint8_t *fresh = pass ? s->fresh->deletes : s->fresh->fragments;
    for (uint64_t i = 0; i < list->count; i++) {
      const tsr_name *name = &list->items[i].parsed;
      late += fresh[i] && !list->items[i].prepared && (pass || name->start == name->end) && name->end <= s->token->time;
    }
  }
  tsr__count(s->array->environment, TSR_COUNT_commits_late, late);
}

static int find_unseen(seen_search *s, bool gone) {
  tsr_buffer listed = {.memory = &s->array->memory}, losses = {.memory = &s->array->memory};
  TSR_TRY(check_array(s->array, s->token, s->error));
  int rc = mark_unknown(s, &listed);
  tsr__buffer_release(&listed);
  if (rc < 0) return rc;
  mark_old(s);
  TSR_TRY(judge_merges(s, gone));
  rc = tsr__losses_find(s->array, s->dense, TSR_TIME_BEGIN, TSR_TIME_NOW, NULL, &losses, s->error);
  if (rc >= 0) rc = check_purges(s, &losses);
  tsr__losses_drop(s->array, &losses);
  return rc;
}

static bool is_across(const tsr_name *merged, uint64_t since) { return merged->start < since && merged->end >= since; }

/* ---- What was published late ------------------------------------------------------------------------------------- */

/* A dense array: what was published in the time range of a merge across the time, but after the merge, lies above the
 * merged cells and below those of later sources. So cells of its own may come into view with the merge.
 *
 * A fragment was published late if such a merge spans it and has not merged it, directly or through other merges. It is
 * late if more merges across the time span it than have merged it: whatever has merged it spans it, too (tsr__covered).
 * So both are counted, and no fragment is compared with all merges: there may be as many of these as commits, each over
 * the one before. */
typedef struct late_search {
  const seen_search *s;
  uint64_t since;
  tsr_map covered; /* name of a fragment -> name of the one into which it was merged */
  tsr_map across; /* name of a fragment of a merge across the time -> number of the merge + 1 */
  tsr_map above; /* name -> how many of these merges have merged it, + 1 */
  tsr_buffer path; /* const char *: names whose number is being counted */
  uint64_t *ends, *sums; /* of the merges: their ends, ascending; how many begin early enough, as a Fenwick tree */
  uint64_t merges;
} late_search;

static int compare_ends(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Numbers the merges across the time. */
static int number_merges(late_search *l) {
  const tsr_commit_list *fragments = &l->s->array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count; i++) {
    const tsr_name *name = &fragments->items[i].parsed;
    if (!is_across(name, l->since)) continue;
    if (i == 0 || !is_same_merge(&fragments->items[i - 1].parsed, name)) l->ends[l->merges++] = name->end;
    TSR_TRY(tsr__map_put(&l->across, fragments->items[i].name, (void *)(uintptr_t)l->merges, l->s->error));
  }
  if (l->merges) qsort(l->ends, l->merges, sizeof *l->ends, compare_ends);
  return TSR_OK;
}

/* Returns how many merges end before `time`. */
static uint64_t ends_before(const late_search *l, uint64_t time) {
  uint64_t low = 0, high = l->merges;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (l->ends[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void begin_merge(const late_search *l, uint64_t end) {
  for (uint64_t at = ends_before(l, end) + 1; at <= l->merges; at += at & (0 - at)) l->sums[at]++;
}

/* Returns how many merges that have begun, of which there are `begun`, end at `time` or later. */
static uint64_t count_spanning(const late_search *l, uint64_t begun, uint64_t time) {
  for (uint64_t at = ends_before(l, time); at > 0; at -= at & (0 - at)) begun -= l->sums[at];
  return begun;
}

/* Counts the merges across the time that have merged a fragment, directly or through others. Each name is counted once;
 * one that vacuum files lead back to itself ends there. */
static int count_above(late_search *l, const char *name, uint64_t *count) {
  const void *known = NULL;
  l->path.size = 0;
  for (; name && !(known = tsr__map_get(&l->above, name)); name = tsr__map_get(&l->covered, name)) {
    TSR_TRY(tsr__map_put(&l->above, name, (void *)(uintptr_t)1, l->s->error));
    TSR_TRY(tsr__buffer_append(&l->path, &name, sizeof name, l->s->error));
  }
  const char *const *path = (const char *const *)(const void *)l->path.data;
  *count = name ? (uint64_t)(uintptr_t)known - 1 : 0;
  for (uint64_t i = l->path.size / sizeof *path; i-- > 0; name = path[i]) {
    const void *merge = name ? tsr__map_get(&l->across, name) : NULL;
    *count += merge && merge != tsr__map_get(&l->across, path[i]);
    TSR_TRY(tsr__map_put(&l->above, path[i], (void *)(uintptr_t)(*count + 1), l->s->error));
  }
  return TSR_OK;
}

static int mark_late(late_search *l) {
  const tsr_commit_list *fragments = &l->s->array->log.listing->fragments;
  uint64_t begun = 0, next = 0, above;
  for (uint64_t i = 0; i < fragments->count; i++) {
    const tsr_name *name = &fragments->items[i].parsed;
    for (; next < fragments->count && fragments->items[next].parsed.start <= name->start; next++) {
      const tsr_name *merged = &fragments->items[next].parsed;
      if (!is_across(merged, l->since) || (next > 0 && is_same_merge(&fragments->items[next - 1].parsed, merged)))
        continue;
      begin_merge(l, merged->end);
      begun++;
    }
    if (l->s->fresh->fragments[i]) continue;
    if (i % 1024 == 0) TSR_TRY(tsr__cancelled(&l->s->array->environment->memory, l->s->error));
    TSR_TRY(count_above(l, fragments->items[i].name, &above));
    above += tsr__map_get(&l->across, fragments->items[i].name) != NULL; /* a merge does not come after itself */
    l->s->fresh->fragments[i] = count_spanning(l, begun, name->end) > above;
  }
  return TSR_OK;
}

static int find_late(const seen_search *s, uint64_t since) {
  const tsr_commit_list *fragments = &s->array->log.listing->fragments;
  tsr_memory *memory = &s->array->memory;
  late_search l = {.s = s, .since = since, .path.memory = memory};
  uint64_t across = 0;
  for (uint64_t i = 0; i < fragments->count; i++) across += is_across(&fragments->items[i].parsed, since);
  if (!across) return TSR_OK;
  l.covered.memory = l.across.memory = l.above.memory = memory;
  int rc = TSR_ALLOC_ARRAY(memory, across, &l.ends, s->error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(memory, across + 1, &l.sums, s->error);
  if (rc >= 0) rc = number_merges(&l);
  if (rc >= 0) rc = tsr__log_covered(&s->array->log, s->array->log.listing, &l.covered, s->error);
  if (rc >= 0) rc = mark_late(&l);
  tsr__map_release(&l.covered);
  tsr__map_release(&l.across);
  tsr__map_release(&l.above);
  tsr__buffer_release(&l.path);
  tsr__free(l.ends);
  tsr__free(l.sums);
  return rc;
}

/* ---- Both -------------------------------------------------------------------------------------------------------- */

/* By time: what was written since; and of a dense array TileDB's merges across the time, which have cells that no
 * source has, and what a merge across it brings into view. */
static int find_since(const seen_search *s, uint64_t since) {
  const tsr_commit_listing *l = s->array->log.listing;
  for (uint64_t i = 0; i < l->deletes.count; i++) s->fresh->deletes[i] = l->deletes.items[i].parsed.end >= since;
  bool ours = false;
  for (uint64_t i = 0; i < l->fragments.count; i++) {
    const tsr_name *name = &l->fragments.items[i].parsed;
    ours = is_ours(&l->fragments, i, ours);
    s->fresh->fragments[i] = name->start >= since || (s->dense && name->end >= since && !ours);
  }
  return s->dense ? find_late(s, since) : TSR_OK;
}

int tsr__fresh_find(tsr_array *array, const tsr_changed *changed, bool dense, bool gone, tsr_arena *arena,
                    tsr_fresh *fresh, tsr_error *error) {
  seen_search s = {.array = array, .token = changed->seen, .dense = dense, .fresh = fresh, .error = error};
  TSR_TRY(TSR_ARENA_ARRAY(arena, array->log.listing->fragments.count, &fresh->fragments, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, array->log.listing->deletes.count, &fresh->deletes, error));
  if (!changed->seen) return find_since(&s, changed->since);
  TSR_TRY(find_unseen(&s, gone));
  if (changed->kind != TSR_CHANGED_DROPPED) count_late(&s); /* a feed asks for both kinds */
  return TSR_OK;
}
