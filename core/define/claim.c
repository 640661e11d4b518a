/* claim.c: which of several first syncs may fill a place, and what one leaves behind that has died there.
 *
 * A first sync claims its place by a file RECORD.claim_N beside what it copies. RECORD is the name of its record, which
 * tells its source, so only a sync of the same array takes a place over. N is the generation; the claim with the
 * highest one counts. The first one is the time, in milliseconds. A claim of generation N + 1 is made if the one of
 * generation N is dead, or by its own holder. The claim is made exclusively, so one of several syncs succeeds. Then it
 * looks again: if there is a higher claim, a lower one that lives after all, or an array, it gives way.
 *
 * Living and dead. Where the store has locks, the holder locks its claim, and the operating system releases the lock
 * when the process dies: a claim that says "locked" lives as long as it is locked. A holder locks its claim before it
 * looks, and who takes over makes its own claim before it tests the lock, so at least one of two notices the other.
 * Elsewhere the holder makes the next generation every CLAIM_RENEWED milliseconds, and a claim lives for CLAIM_LASTS
 * after it was made, by the store's clock. A holder that was suspended for longer finds a higher claim or an array, and
 * stops without removing anything. But what it was about to make when it was suspended is there then, in the way of the
 * one that has taken over: that one begins again.
 *
 * Whoever takes over removes everything that the dead sync has made, and copies anew: a file may be there in part. A
 * place with anything that no sync makes is left as it is. A claim is removed last of all, after the copy has become an
 * array or everything that was copied is gone: without it, nobody could take over what is there. */
#include "define/define.h"

#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "base/clock.h"
#include "crypto/crypto.h"
#include "format/layout.h"
#include "log/log.h"
#include "model/name.h"
#include "store/store.h"

#define CLAIM_LASTS   60000u /* milliseconds; without locks */
#define CLAIM_RENEWED 15000u
#define CLAIM_INFIX   ".claim_" /* after the name of the record */
#define CLAIM_PATH    80
#define CLAIM_TEXT    16 /* bytes of a claim, at most */
#define CLAIM_DEPTH   4 /* of directories that are looked through: those of a label's array */
/* Milliseconds after which nobody is about to fill an empty place: it was made, and the process died. */
#define EMPTY_LASTS  2000u
#define EMPTY_PREFIX 60000u /* the same of a prefix of a bucket */

static void claim_path(const tsr_claim *c, uint64_t generation, char path[CLAIM_PATH]) {
  snprintf(path, CLAIM_PATH, "%s" CLAIM_INFIX "%llu", c->record, (unsigned long long)generation);
}

static bool parse_claim(const tsr_claim *c, const tsr_entry *entry, uint64_t *generation) {
  char prefix[CLAIM_PATH];
  snprintf(prefix, sizeof prefix, "%s" CLAIM_INFIX, c->record);
  return entry->kind == TSR_ENTRY_FILE && tsr__name_generation(entry->name, prefix, generation);
}

/* Returns the highest claim in a listing of the root, and its entry; 0 if there is none. */
static uint64_t highest_claim(const tsr_claim *c, const tsr_listing *root, const tsr_entry **entry) {
  uint64_t highest = 0, generation;
  for (uint64_t i = 0; i < root->count; i++)
    if (parse_claim(c, &root->entries[i], &generation) && generation > highest)
      highest = generation, *entry = &root->entries[i];
  return highest;
}

static int given_up(tsr_claim *c, tsr_error *error) {
  c->lost = true;
  return tsr__fail(error, TSR_ABORT, "another sync of this array fills %s, or has filled it", c->to->name);
}

/* Says what is in the way of a first sync: an array, which another sync has made since the caller looked, or things that
 * no sync makes. */
static int in_the_way(tsr_claim *c, tsr_error *error) {
  tsr_object_kind kind;
  TSR_TRY(tsr__object_kind(c->to, "", &kind, error));
  return kind == TSR_OBJECT_ARRAY ? given_up(c, error) : tsr__creation_in_the_way(c->to, error);
}

/* ---- Living and dead --------------------------------------------------------------------------------------------- */

typedef enum claim_life { CLAIM_DEAD, CLAIM_LIVES, CLAIM_MAY_LIVE, CLAIM_UNKNOWN } claim_life;

static int life_of(tsr_claim *c, const tsr_entry *entry, claim_life *life, tsr_error *error) {
  tsr_buffer text = {.memory = c->to->memory};
  tsr_error one;
  uint64_t modified = entry->modified;
  bool locked = false;
  TSR_TRY(tsr__store_read_all(c->to, entry->name, CLAIM_TEXT, &text, error));
  const bool can_lock = text.size >= 6 && !memcmp(text.data, "locked", 6);
  const bool complete = text.size >= 6;
  tsr__buffer_release(&text);
  const int rc =
      tsr__store_has_locks(c->to) ? tsr__prepared_is_locked(c->to, entry->name, &locked, &one) : TSR_UNSUPPORTED;
  if (rc < 0 && rc != TSR_UNSUPPORTED) return *error = one, rc;
  *life = locked ? CLAIM_LIVES : rc < 0 && can_lock ? CLAIM_UNKNOWN : CLAIM_DEAD;
  if (*life != CLAIM_DEAD || can_lock) return TSR_OK;
  if (rc >= 0 && !complete) return TSR_OK; /* its holder was about to lock it, and looks again */
  if (!entry->known) TSR_TRY(tsr__store_modified(c->to, entry->name, &modified, error));
  const uint64_t now = tsr__store_now(c->to);
  if (modified > now && modified - now > CLAIM_LASTS) *life = CLAIM_UNKNOWN;
  else if (now < modified + CLAIM_LASTS) *life = CLAIM_MAY_LIVE;
  return TSR_OK;
}

/* ---- Making a claim ---------------------------------------------------------------------------------------------- */

/* Makes the file of a claim, and locks it where that is possible. */
static int make_file(tsr_claim *c, const char *path, tsr_error *error) {
  static const char locked[] = "locked\n", unlocked[] = "unlocked\n";
  tsr_error one;
  tsr_file *file;
  if (!tsr__store_has_locks(c->to)) return tsr__store_put_new(c->to, path, unlocked, strlen(unlocked), false, error);
  TSR_TRY(tsr__store_create_exclusive(c->to, path, &file, error));
  int rc = tsr__store_lock(file, &one);
  const bool can_lock = rc >= 0;
  if (rc < 0 && rc != TSR_UNSUPPORTED) *error = one;
  else if ((rc = tsr__store_append(file, can_lock ? locked : unlocked, can_lock ? strlen(locked) : strlen(unlocked),
                                   error)) >= 0 &&
           can_lock)
    return c->lock = file, TSR_OK;
  tsr__store_close_file(file);
  if (rc < 0) (void)tsr__store_remove(c->to, path, NULL);
  return rc;
}

/* Looks at the place after the claim was made. Removes lower claims. */
static int resolve_claims(tsr_claim *c, tsr_error *error) {
  tsr_object_kind kind;
  tsr_listing root = {0};
  uint64_t generation;
  TSR_TRY(tsr__object_kind(c->to, "", &kind, error));
  if (kind != TSR_OBJECT_NONE) return given_up(c, error);
  TSR_TRY(tsr__store_list_any(c->to, "", &root, error));
  const tsr_entry *entry = NULL;
  int rc = highest_claim(c, &root, &entry) == c->generation ? TSR_OK : given_up(c, error);
  for (uint64_t i = 0; i < root.count && rc >= 0; i++) {
    bool locked = false;
    if (!parse_claim(c, &root.entries[i], &generation) || generation == c->generation) continue;
    if (c->lock) rc = tsr__prepared_is_locked(c->to, root.entries[i].name, &locked, error);
    if (rc >= 0 && locked) rc = given_up(c, error);
    if (rc >= 0) (void)tsr__store_remove(c->to, root.entries[i].name, NULL);
  }
  tsr__listing_release(&root);
  return rc;
}

/* Leaves the claim to the next sync, as if its holder had died. */
static void leave_claim(tsr_claim *c) {
  tsr__store_close_file(c->lock);
  c->generation = 0;
  c->lock = NULL;
}

void tsr__claim_end(tsr_claim *c) {
  char path[CLAIM_PATH];
  claim_path(c, c->generation, path);
  if (c->generation) (void)tsr__store_remove(c->to, path, NULL);
  leave_claim(c);
}

static int make_claim(tsr_claim *c, uint64_t generation, tsr_error *error) {
  char path[CLAIM_PATH];
  tsr_error one;
  claim_path(c, generation, path);
  int rc = make_file(c, path, &one);
  if (rc == TSR_EXISTS) return given_up(c, error);
  if (rc < 0) return *error = one, rc;
  c->generation = generation;
  c->renewed = tsr__moment();
  rc = resolve_claims(c, error);
  if (rc < 0 && c->lost) tsr__claim_end(c);
  else if (rc < 0) leave_claim(c); /* the lower ones may be gone, and what they stand for is there */
  return rc;
}

/* Makes the first claim of an empty place. A sync that was suspended, and whose claim has been removed meanwhile, makes
 * the one that follows its own: that is lower, so it notices. */
static int make_first_claim(tsr_claim *c, tsr_error *error) { return make_claim(c, tsr__store_now(c->to), error); }

int tsr__claim_keep(tsr_claim *c, bool now, tsr_error *error) {
  if (c->lost) return given_up(c, error);
  if (!c->generation || c->lock || (!now && tsr__moment() - c->renewed < CLAIM_RENEWED)) return TSR_OK;
  const int rc = make_claim(c, c->generation + 1, error);
  c->lost |= rc < 0; /* another sync may take it over before the next call */
  return rc;
}

/* ---- Taking a place over ----------------------------------------------------------------------------------------- */

/* Returns true for the name of a file before it is complete: "." and 16 bytes in hexadecimal. */
static bool is_staged(const tsr_entry *entry) {
  uint8_t random[16];
  return entry->kind == TSR_ENTRY_FILE && *entry->name == '.' && strlen(entry->name) == 1 + 2 * sizeof random &&
         tsr_hex_read(entry->name + 1, sizeof random, random);
}

/* Returns true if an entry may be of a first sync: its name is one that arrays have, or the source has it, too. */
static bool may_be_copied(tsr_claim *c, const char *directory, const tsr_entry *entry) {
  static const char *const names[] = {TSR_DIR_COMMITS, TSR_DIR_FRAGMENTS, TSR_DIR_META,    TSR_DIR_FOOTERS,
                                      TSR_DIR_LABELS,  TSR_DIR_SCHEMA,    TSR_BUCKET_CLAIM};
  const char *name = entry->name;
  tsr_name parsed;
  tsr_error unseen;
  bool exists = false;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  if (is_staged(entry) || tsr__bucket_is_proof(name)) return true;
  if (!strncmp(name, TSR_PREFIX_COPYING, strlen(TSR_PREFIX_COPYING))) return true;
  if (!strncmp(name, c->record, strlen(c->record))) return true;
  if (tsr__name_parse(name, strcspn(name, "."), &parsed)) return true;
  if (*name == '.' && tsr__name_ends_in(name, TSR_SUFFIX_STAGED_VACUUM)) return true;
  const tsr_path path = tsr__path_of(directory, name, "");
  if (entry->kind == TSR_ENTRY_DIRECTORY) (void)tsr__directory_find(c->from, path.text, &exists, &unseen);
  else if (entry->kind == TSR_ENTRY_FILE) exists = tsr__store_exists(c->from, path.text);
  return exists;
}

static int check_foreign(tsr_claim *c, const char *directory, int depth, tsr_error *error);

/* Fails if a directory, listed as `entries`, holds anything that no first sync of this array makes. */
static int check_entries(tsr_claim *c, const char *directory, const tsr_listing *entries, int depth, tsr_error *error) {
  int rc = TSR_OK;
  for (uint64_t i = 0; i < entries->count && rc >= 0; i++) {
    const tsr_entry *entry = &entries->entries[i];
    const tsr_path path = tsr__path_of(directory, entry->name, "");
    tsr_name parsed;
    if (!may_be_copied(c, directory, entry))
      rc = tsr__fail(error, TSR_EXISTS,
                     "a sync was cut off there, and now there is also \"%s\", which is not of this array: remove it, "
                     "or sync to another place",
                     path.text);
    else if (entry->kind == TSR_ENTRY_DIRECTORY && depth < CLAIM_DEPTH && *entry->name != '.' &&
             !tsr__name_parse(entry->name, strlen(entry->name), &parsed))
      rc = check_foreign(c, path.text, depth + 1, error);
  }
  return rc;
}

static int check_foreign(tsr_claim *c, const char *directory, int depth, tsr_error *error) {
  tsr_listing entries = {0};
  TSR_TRY(tsr__store_list_any(c->to, directory, &entries, error));
  const int rc = check_entries(c, directory, &entries, depth, error);
  tsr__listing_release(&entries);
  return rc;
}

/* Removes schemas that a copy has not published. They go in one step, so that a sync that goes on after all cannot
 * publish a part of them. */
static int remove_unpublished(tsr_claim *c, const char *name, tsr_error *error) {
  uint8_t random[8];
  char other[sizeof TSR_PREFIX_COPYING + 2 * sizeof random] = TSR_PREFIX_COPYING;
  tsr_error one;
  TSR_TRY(tsr__random(random, sizeof random, error));
  tsr_hex_write(random, sizeof random, other + strlen(TSR_PREFIX_COPYING));
  const int rc = tsr__store_rename(c->to, name, other, &one);
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* its own sync has removed it */
  if (rc < 0) return *error = one, rc;
  return tsr__store_remove_tree(c->to, other, error);
}

/* Removes an entry of the root: fragment by fragment, because all of them may take longer than a claim lasts. */
static int remove_entry(tsr_claim *c, const tsr_entry *entry, tsr_error *error) {
  tsr_listing below = {0};
  tsr_error one;
  int rc = entry->kind == TSR_ENTRY_DIRECTORY ? tsr__store_list_any(c->to, entry->name, &below, &one) : TSR_OK;
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* schemas that have gone already */
  if (rc < 0) return *error = one, rc;
  for (uint64_t i = 0; i < below.count && rc >= 0; i++) {
    rc = tsr__claim_keep(c, false, error);
    if (rc >= 0) rc = tsr__store_remove_tree(c->to, tsr__path_of(entry->name, below.entries[i].name, "").text, error);
  }
  tsr__listing_release(&below);
  return rc < 0 ? rc : tsr__store_remove_tree(c->to, entry->name, error);
}

/* Removes what a dead sync has made, but for the claim: only what the check has seen. Unpublished schemas go first. If
 * they have become an array before that, nothing else is removed. */
static int remove_entries(tsr_claim *c, const tsr_listing *root, tsr_error *error) {
  tsr_object_kind kind;
  uint64_t generation;
  for (uint64_t i = 0; i < root->count; i++)
    if (!strncmp(root->entries[i].name, TSR_PREFIX_COPYING, strlen(TSR_PREFIX_COPYING)))
      TSR_TRY(remove_unpublished(c, root->entries[i].name, error));
  TSR_TRY(tsr__object_kind(c->to, "", &kind, error));
  if (kind != TSR_OBJECT_NONE) return given_up(c, error);
  for (uint64_t i = 0; i < root->count; i++) {
    if (!strcmp(root->entries[i].name, TSR_BUCKET_CLAIM) || parse_claim(c, &root->entries[i], &generation)) continue;
    TSR_TRY(remove_entry(c, &root->entries[i], error));
  }
  return TSR_OK;
}

static int remove_rest(tsr_claim *c, tsr_error *error) {
  tsr_listing root = {0};
  TSR_TRY(tsr__store_list_any(c->to, "", &root, error));
  int rc = check_entries(c, "", &root, 0, error);
  if (rc >= 0) rc = remove_entries(c, &root, error);
  tsr__listing_release(&root);
  return rc;
}

/* Fails if there is anything in the root but this sync's claim. */
static int check_empty(tsr_claim *c, tsr_error *error) {
  const tsr_entry *entry = NULL;
  tsr_listing root = {0};
  uint64_t generation;
  bool empty = true;
  TSR_TRY(tsr__store_list_any(c->to, "", &root, error));
  for (uint64_t i = 0; i < root.count; i++)
    empty &= !strcmp(root.entries[i].name, TSR_BUCKET_CLAIM) || tsr__bucket_is_proof(root.entries[i].name) ||
             is_staged(&root.entries[i]) || parse_claim(c, &root.entries[i], &generation);
  const bool claimed = highest_claim(c, &root, &entry) > c->generation; /* since the caller has looked */
  tsr__listing_release(&root);
  if (claimed) return given_up(c, error);
  return empty ? TSR_OK : in_the_way(c, error);
}

/* Fails if an empty place was made a moment ago: another process may be about to fill it. */
static int check_age(tsr_claim *c, tsr_error *error) {
  uint64_t modified;
  TSR_TRY(tsr__store_modified(c->to, "", &modified, error));
  if (tsr__store_now(c->to) >= modified + (tsr__store_exists(c->to, TSR_BUCKET_CLAIM) ? EMPTY_PREFIX : EMPTY_LASTS))
    return TSR_OK;
  return tsr__fail(error, TSR_BUSY,
                   "the %s was made a moment ago, and is empty: another process may be about to fill it",
                   tsr__store_place(c->to));
}

static int take_empty(tsr_claim *c, tsr_error *error) {
  TSR_TRY(check_empty(c, error));
  TSR_TRY(check_age(c, error));
  TSR_TRY(make_first_claim(c, error));
  const int rc = check_empty(c, error);
  if (rc < 0) tsr__claim_end(c);
  return rc;
}

static int take_over(tsr_claim *c, tsr_error *error) {
  tsr_listing root = {0};
  const tsr_entry *entry = NULL;
  claim_life life = CLAIM_DEAD;
  TSR_TRY(tsr__store_list_any(c->to, "", &root, error));
  const uint64_t highest = highest_claim(c, &root, &entry);
  tsr_error one;
  const int rc = highest ? life_of(c, entry, &life, &one) : TSR_OK;
  tsr__listing_release(&root);
  if (rc == TSR_NOT_FOUND) life = CLAIM_LIVES; /* its holder has just made the next one, or has ended */
  else if (rc < 0) return *error = one, rc;
  if (!highest) return take_empty(c, error);
  if (life == CLAIM_LIVES) return tsr__fail(error, TSR_BUSY, "another sync is filling it: wait for its end");
  if (life == CLAIM_MAY_LIVE)
    return tsr__fail(error, TSR_BUSY,
                     "another sync is filling it, or was killed less than %u seconds ago: try again in %u seconds",
                     CLAIM_LASTS / 1000, CLAIM_LASTS / 1000);
  if (life == CLAIM_UNKNOWN)
    return tsr__fail(error, TSR_BUSY,
                     "another sync may be filling it: its claim, %s.claim_%llu, has a lock that cannot be tested from "
                     "here, or a time ahead of the clock; if no sync runs any more, remove the %s",
                     c->record, (unsigned long long)highest, tsr__store_place(c->to));
  TSR_TRY(check_foreign(c, "", 0, error));
  TSR_TRY(make_claim(c, highest + 1, error));
  const int removed = remove_rest(c, error);
  if (removed < 0) leave_claim(c);
  return removed;
}

int tsr__claim_take(tsr_claim *c, tsr_error *error) {
  tsr_error one;
  tsr_object_kind kind;
  c->lost = false;
  int rc = tsr__store_make_directory(c->to, "", &one);
  if (rc >= 0 && c->to->is_one_file) return TSR_OK; /* a transaction leaves nothing behind */
  if (rc >= 0) {
    rc = make_first_claim(c, error);
    if (rc < 0) (void)tsr__store_remove(c->to, "", NULL);
    return rc;
  }
  if (rc != TSR_EXISTS) return *error = one, rc;
  TSR_TRY(tsr__object_kind(c->to, "", &kind, error));
  if (kind != TSR_OBJECT_NONE || c->to->is_one_file) return in_the_way(c, error);
  return take_over(c, error);
}

void tsr__claim_abandon(tsr_claim *c) {
  tsr_error unseen;
  if (!c->generation) return;
  if (remove_rest(c, &unseen) < 0) leave_claim(c);
  else tsr__claim_end(c);
}

int tsr__claim_forget(tsr_store *store, const char *record, tsr_error *error) {
  const tsr_claim c = {.to = store, .record = record};
  tsr_listing root = {0};
  uint64_t generation;
  TSR_TRY(tsr__store_list_any(store, "", &root, error));
  for (uint64_t i = 0; i < root.count; i++)
    if (parse_claim(&c, &root.entries[i], &generation)) (void)tsr__store_remove(store, root.entries[i].name, NULL);
  tsr__listing_release(&root);
  return TSR_OK;
}
