/* lease.c: an advisory lease on an array or a group, with which processes on many machines agree which of them
 * consolidates. It stops nobody who does not take it.
 *
 * A lease is a file .lease_N in the root of the array, where readers and TileDB ignore it. N is the generation; the
 * file with the highest generation is the current lease. It contains the holder's id (a random id of the environment)
 * and the duration in seconds. The store's clock tells when the file was written, so the clocks of the holders do not
 * matter.
 *
 *   take, renew   Creates the file of the next generation, which fails if another process was quicker. Then lists the
 *                 root again: whoever created the highest generation holds the lease, and removes the earlier files. A
 *                 process that was suspended for long may create a generation that has been removed meanwhile; the
 *                 listing then shows a higher one, and it removes its own file.
 *   release       Creates the next generation with 0 seconds.
 *
 * The file with the highest generation is never removed, not even after a release: otherwise generations would restart,
 * and a suspended process could create one that looks like the highest.
 *
 * The protocol needs only exclusive creation and listing, so it is the same in all stores. In a database the files are
 * rows, and others see them when the transaction has committed.
 */
#include "maintain/maintain.h"

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "format/layout.h"
#include "model/name.h"
#include "array/array.h"
#include "environment/environment.h"
#include "tessera_host.h"

/* A store rounds times down to a second, and its clock is known to within a second. Nobody takes over a lease until it
 * has been expired for this many milliseconds. */
#define LEASE_SLACK 2000
#define LEASE_TRIES 10 /* attempts to list and then read a file before it disappears */
#define LEASE_SIZE  128 /* bytes of a file, at most */
#define LEASE_PATH  40 /* bytes of a path */

typedef struct leasing { /* one call */
  tsr_environment *environment;
  tsr_store *store;
  uint64_t newest; /* the highest generation; 0: there has been no lease */
  uint64_t until; /* when that lease expires, in milliseconds since 1970; 0: it was released */
  bool own; /* this environment has taken that lease */
  tsr_error *error;
} leasing;

static const char *lease_path(uint64_t generation, char path[LEASE_PATH]) {
  snprintf(path, LEASE_PATH, TSR_PREFIX_LEASE "%llu", (unsigned long long)generation);
  return path;
}

bool tsr__lease_parse(const char *name, uint64_t *generation) {
  return tsr__name_generation(name, TSR_PREFIX_LEASE, generation);
}

/* ---- The newest lease -------------------------------------------------------------------------------------------- */

/* Lists the root. Returns the entry with the highest generation, owned by the listing, or NULL. */
static int list_leases(leasing *l, tsr_listing *listing, const tsr_entry **newest) {
  TSR_TRY(tsr__store_list_any(l->store, "", listing, l->error));
  l->newest = 0;
  *newest = NULL;
  for (uint64_t i = 0; i < listing->count; i++) {
    uint64_t generation;
    if (listing->entries[i].kind != TSR_ENTRY_FILE || !tsr__lease_parse(listing->entries[i].name, &generation))
      continue;
    if (generation <= l->newest) continue;
    l->newest = generation;
    *newest = &listing->entries[i];
  }
  return TSR_OK;
}

/* Writes the content of a file: "lease HOLDER SECONDS" and a newline. Returns its size. */
static int lease_encode(const char *holder, uint64_t seconds, char text[LEASE_SIZE]) {
  return snprintf(text, LEASE_SIZE, "lease %s %llu\n", holder, (unsigned long long)seconds);
}

static bool lease_decode(const char *text, char holder[TSR_HOLDER_SIZE], uint64_t *seconds) {
  static const char begin[] = "lease ";
  const size_t digits = TSR_HOLDER_SIZE - 1, number = strlen(begin) + digits + 1;
  char same[LEASE_SIZE];
  if (strlen(text) < number || strspn(text + strlen(begin), "0123456789abcdef") != digits) return false;
  if (!tsr__name_number(text + number, strcspn(text + number, "\n"), seconds)) return false;
  memcpy(holder, text + strlen(begin), digits);
  holder[digits] = 0;
  lease_encode(holder, *seconds, same);
  return *seconds <= TSR_LEASE_MAX && strcmp(text, same) == 0;
}

/* Reads the newest lease. TSR_NOT_FOUND if a newer one has replaced it meanwhile. */
static int read_lease(leasing *l, const tsr_entry *entry) {
  tsr_buffer text = {.memory = l->store->memory};
  char holder[TSR_HOLDER_SIZE];
  uint64_t seconds = 0, written = entry->modified;
  if (!entry->known) TSR_TRY(tsr__store_modified(l->store, entry->name, &written, l->error));
  int rc = tsr__store_read_all(l->store, entry->name, LEASE_SIZE, &text, l->error);
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, l->error);
  if (rc >= 0 && !lease_decode((const char *)text.data, holder, &seconds))
    rc = tsr__fail(l->error, TSR_CORRUPT, "%s is not a lease of this version", entry->name);
  tsr__buffer_release(&text);
  if (rc < 0) return rc;
  l->own = strcmp(holder, l->environment->lease_holder) == 0;
  l->until = seconds ? written + seconds * 1000 + LEASE_SLACK : 0;
  return TSR_OK;
}

/* Fails with TSR_NOT_FOUND if the root is neither an array nor a group. The presence of a lease proves that it is one.
 */
static int lease_check_object(leasing *l) {
  tsr_object_kind kind = TSR_OBJECT_ARRAY;
  if (l->newest == 0) TSR_TRY(tsr__object_kind(l->store, "", &kind, l->error));
  return kind == TSR_OBJECT_NONE ? tsr__fail(l->error, TSR_NOT_FOUND, "array or group not found") : TSR_OK;
}

static int find_lease(leasing *l) {
  int rc = TSR_NOT_FOUND;
  for (int tries = 0; rc == TSR_NOT_FOUND && tries < LEASE_TRIES; tries++) {
    tsr_listing listing = {0};
    const tsr_entry *newest;
    rc = list_leases(l, &listing, &newest);
    if (rc < 0) return rc;
    rc = newest ? read_lease(l, newest) : TSR_OK;
    tsr__listing_release(&listing);
  }
  return rc == TSR_NOT_FOUND ? tsr__fail(l->error, TSR_BUSY, "the lease changes hands too often") : rc;
}

/* ---- The next lease ---------------------------------------------------------------------------------------------- */

/* Removes the files of earlier generations. Leftovers do no harm, so failures are ignored. */
static void remove_earlier(leasing *l, const tsr_listing *listing) {
  for (uint64_t i = 0; i < listing->count; i++) {
    uint64_t generation;
    if (!tsr__lease_parse(listing->entries[i].name, &generation) || generation >= l->newest) continue;
    const char *path = listing->entries[i].name;
    (void)tsr__store_remove_many(l->store, &path, 1, NULL);
  }
}

/* Creates the next generation. Returns 1 if it is then the highest one, so that this environment holds the lease; 0 if
 * another one was quicker. */
static int next_lease(leasing *l, uint64_t seconds) {
  char path[LEASE_PATH], text[LEASE_SIZE];
  tsr_listing listing = {0};
  const tsr_entry *newest;
  tsr_error one;
  const uint64_t own = l->newest + 1;
  const int size = lease_encode(l->environment->lease_holder, seconds, text);
  int rc = tsr__store_put_new(l->store, lease_path(own, path), text, (uint64_t)size, true, &one);
  if (rc == TSR_EXISTS) return 0;
  if (rc < 0) {
    if (l->error) *l->error = one;
    return rc;
  }
  TSR_TRY(list_leases(l, &listing, &newest));
  if (l->newest == own) remove_earlier(l, &listing);
  else (void)tsr__store_remove(l->store, path, NULL);
  tsr__listing_release(&listing);
  return l->newest == own;
}

/* Makes the id of the environment. */
static int find_holder(tsr_environment *environment, tsr_error *error) {
  uint8_t random[(TSR_HOLDER_SIZE - 1) / 2];
  if (*environment->lease_holder) return TSR_OK;
  TSR_TRY(tsr__random(random, sizeof random, error));
  tsr_hex_write(random, sizeof random, environment->lease_holder);
  return TSR_OK;
}

static int lease(leasing *l, uint64_t seconds) {
  TSR_TRY(find_holder(l->environment, l->error));
  TSR_TRY(find_lease(l));
  TSR_TRY(lease_check_object(l));
  if (seconds == 0 && (!l->own || l->until == 0)) return 0;
  if (seconds > 0 && !l->own && tsr__store_now(l->store) < l->until) return 0;
  const int rc = next_lease(l, seconds);
  return rc < 0 ? rc : rc && seconds > 0;
}

int tsr__lease_take(tsr_environment *environment, tsr_store *store, uint64_t seconds, tsr_error *error) {
  leasing l = {.environment = environment, .store = store, .error = error};
  return lease(&l, seconds);
}

int tsr_lease(tsr_environment *environment, const char *path, uint64_t seconds, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_store *store;
  char *directory;
  if (seconds > TSR_LEASE_MAX)
    return tsr__fail(error, TSR_RANGE, "a lease of %llu seconds: expected 0 to %d", (unsigned long long)seconds,
                     TSR_LEASE_MAX);
  TSR_TRY(tsr__path_open(environment, "array or group", path, &directory, &store, error));
  const int rc = tsr__lease_take(environment, store, seconds, error);
  tsr__store_close(store);
  if (rc < 0) tsr__wrap(error, "lease of %s", directory);
  tsr__free(directory);
  return rc;
}
