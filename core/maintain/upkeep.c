/* upkeep.c: keeps the number of fragments of an array small while commits make it longer (tsr_array_upkeep).
 *
 * Tiers. Each commit makes a small fragment. As soon as there are `fanout` neighbours of about the same size, they are
 * merged into one fragment of the next tier, which is merged in the same way once it has enough neighbours of its own
 * size. With a fanout of n, N commits of equal size leave at most n fragments in each of log_n(N) tiers, and each cell
 * is rewritten once per tier. Commits of very different sizes may never have n such neighbours. So once there are as
 * many fragments as the tiers allow, n neighbours are merged if the largest has at most half of their cells; even then
 * no cell is rewritten more than log_2 times. If there are twice as many, the n neighbours with the fewest cells are
 * merged, whatever their sizes.
 *
 * consolidate.c knows which neighbours may be merged at all, and merges them. This file chooses among those, in passes
 * from the newest fragments to the oldest, since a pass may complete the next tier. Each merge is a commit of its own,
 * so a call may end after any of them: when it has read enough, when its time is over, or on an error.
 *
 * Several writers. A call holds the lease of the array (lease.c), and never waits for it: a process that does not get
 * it merges nothing, because another one is merging. The lease only saves work. Merges without it that conflict are
 * resolved as always (merge_conflict.c). */
#include "maintain/maintain.h"

#include "array/array.h"
#include "base/arithmetic.h"
#include "base/clock.h"
#include "environment/environment.h"
#include "format/layout.h"
#include "format/schema.h"
#include "label/label.h"
#include "log/log.h"
#include "store/store.h"
#include "tessera_host.h"

#define FANOUT_DEFAULT   16
#define FRAGMENT_DEFAULT (UINT64_C(1) << 30) /* bytes */
#define LEASE_SECONDS    30
#define PASSES           64 /* a pass that merges nothing ends earlier */
#define FILES_FACTOR     16 /* commits have files of their own until there are this many times `fanout` */
#define JOINED_GRACE     10000 /* ms for which a commit's own file stays once a .con has the commit */

/* ---- Tiers ------------------------------------------------------------------------------------------------------- */

typedef struct run_size { /* of the fragments of a run together */
  uint64_t least, most, cells, bytes; /* least and most: cells of one fragment, at least 1 */
} run_size;

static run_size size_of(const tsr_tier_fragment *fragments, uint64_t count) {
  run_size size = {.least = UINT64_MAX};
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t cells = TSR_MAX(fragments[i].cells, 1);
    size.least = TSR_MIN(size.least, cells);
    size.most = TSR_MAX(size.most, cells);
    size.cells = tsr__add_sat(size.cells, cells);
    size.bytes = tsr__add_sat(size.bytes, fragments[i].bytes);
  }
  return size;
}

/* Returns how many tiers lie between the smallest fragment and the largest. */
static uint64_t tier_count(const run_size *size, uint64_t fanout) {
  uint64_t tiers = 1;
  for (uint64_t ratio = size->most / size->least; ratio >= fanout; ratio /= fanout) tiers++;
  return tiers;
}

/* Finds the run of n neighbours with the fewest cells that ends at or before `end`. Returns its end. */
static uint64_t cheapest_run(const tsr_tier_fragment *fragments, uint64_t end, const tsr_tier_rules *rules) {
  uint64_t best = 0, least = UINT64_MAX;
  for (uint64_t at = end; at >= rules->fanout; at--) {
    const run_size run = size_of(fragments + at - rules->fanout, rules->fanout);
    if (run.cells >= least || run.bytes > rules->max_fragment_bytes) continue;
    least = run.cells;
    best = at;
  }
  return best;
}

bool tsr__tier_choose(const tsr_tier_fragment *fragments, uint64_t count, const tsr_tier_rules *rules, uint64_t *end,
                      uint64_t *waits) {
  const uint64_t n = rules->fanout;
  if (count < n) return false;
  const run_size all = size_of(fragments, count);
  const uint64_t allowed = tsr__mul_sat(n, tier_count(&all, n)), begin = *end;
  for (; *end >= n; --*end) {
    const run_size run = size_of(fragments + *end - n, n);
    const bool even = run.most < tsr__mul_sat(run.least, n);
    if (!even && !(count >= allowed && run.most <= run.cells / 2)) continue;
    if (run.bytes > rules->max_fragment_bytes) continue;
    if (!rules->bytes_limited || run.bytes <= rules->bytes) return true;
    ++*waits;
    *end -= n - 1; /* the loop takes one more */
  }
  if (count < tsr__mul_sat(allowed, 2)) return false;
  *end = cheapest_run(fragments, begin, rules);
  return *end > 0 && (!rules->bytes_limited || size_of(fragments + *end - n, n).bytes <= rules->bytes);
}

/* ---- One array --------------------------------------------------------------------------------------------------- */

typedef struct upkeep_call {
  tsr_array *array;
  const tsr_upkeep_options *options;
  tsr_tiers tiers;
  bool joined; /* commits, into a .con */
  tsr_upkeep *result;
} upkeep_call;

/* Takes or renews the lease. Returns 1 if this environment has it, 0 if another one has. */
static int take_lease(const upkeep_call *u, tsr_error *error) {
  if (u->array->store->is_one_file) return 1; /* a database has one writer at a time */
  const int rc = tsr__lease_take(u->array->environment, u->array->store, LEASE_SECONDS, error);
  return rc < 0 ? tsr__wrap(error, "array %s: its lease", u->array->path) : rc;
}

static void give_lease_back(const upkeep_call *u) {
  tsr_error unseen;
  if (!u->array->store->is_one_file) (void)tsr__lease_take(u->array->environment, u->array->store, 0, &unseen);
}

static bool is_over(const tsr_tiers *tiers) {
  return tiers->merges_left == 0 || (tiers->deadline && tsr__moment() >= tiers->deadline);
}

static int merge_fragments(upkeep_call *u, tsr_error *error) {
  const tsr_upkeep_options *o = u->options;
  const tsr_consolidate_options options = {.memory_bytes = o->memory_bytes, .threads = o->threads};
  for (int pass = 0; pass < PASSES; pass++) {
    const uint64_t before = u->tiers.merges;
    u->tiers.waits = 0;
    TSR_TRY(tsr__consolidate_tiers(u->array, &options, &u->tiers, error));
    if (u->tiers.merges == before || is_over(&u->tiers)) break;
    if (o->automatic && !u->tiers.again) { /* a pass that finds nothing reads all names, too */
      u->tiers.waits = u->tiers.waits_next;
      break;
    }
    const int ours = take_lease(u, error); /* a pass may take longer than the lease lasts */
    if (ours <= 0) return ours;
  }
  return TSR_OK;
}

/* ---- Files of commits and footers -------------------------------------------------------------------------------- */

/* Joins the files of commits, and the footers of fragments, into one file each. */
static int merge_files(upkeep_call *u, tsr_error *error) {
  static const tsr_maintenance kinds[] = {TSR_MAINTAIN_COMMITS, TSR_MAINTAIN_FRAGMENT_META};
  const tsr_consolidate_options options = {.memory_bytes = u->options->memory_bytes};
  for (int i = 0; i < 2; i++) {
    uint64_t merged = 0;
    const int rc = tsr_array_consolidate(u->array, kinds[i], &options, &merged, error);
    if (rc < 0 && rc != TSR_UNSUPPORTED) return rc; /* arrays of old versions have no such files */
  }
  return TSR_OK;
}

/* Returns 1 if a vacuum takes no state of the past away: merged fragments keep the times of their cells. */
static int vacuum_is_harmless(tsr_array *array, tsr_error *error) {
  const tsr_schema *schema;
  uint32_t version;
  TSR_TRY(tsr__log_list(&array->log, false, false, error));
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &schema, error));
  if (schema->dense || tsr__schema_write_version(schema, &version, error) < 0) return 0;
  return layout_has_timed_merges(version);
}

int tsr_array_keeps_times(tsr_array *array, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return vacuum_is_harmless(array, error);
}

/* Returns how many commits in the listing have no more than a file of their own. */
static uint64_t count_loose(const tsr_commit_listing *listing) {
  uint64_t loose = 0;
  for (uint64_t i = 0; i < listing->fragments.count; i++) {
    const tsr_committed *item = &listing->fragments.items[i];
    loose += !item->joined && !item->prepared && !item->old_layout;
  }
  return loose;
}

static int join_footers(const upkeep_call *u, tsr_array *array, tsr_error *error) {
  const tsr_consolidate_options options = {.memory_bytes = u->options->memory_bytes};
  uint64_t merged = 0;
  const int rc = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENT_META, &options, &merged, error);
  return rc == TSR_UNSUPPORTED ? TSR_OK : rc;
}

/* Returns for how long the files of joined commits stay, in ms. */
static uint64_t joined_grace(const upkeep_call *u) {
  if (u->array->store->is_one_file) return 0; /* every reader has a snapshot of the database */
  return u->options->automatic ? JOINED_GRACE : TSR_MIN(u->options->grace, JOINED_GRACE);
}

/* Keeps the names in __commits few, of the array or of one of its labels, without a vacuum. Each transaction reads them
 * all, and what merges have replaced stays committed. So as soon as there are many commits with files of their own,
 * they are joined into a .con, and some time later their files are removed. Nothing else is: readers may be about to
 * open it. */
static int join_array(void *argument, tsr_array *array, tsr_error *error) {
  upkeep_call *u = argument;
  const uint64_t many = tsr__mul_sat(u->tiers.rules.fanout, FILES_FACTOR);
  const tsr_schema *schema;
  uint32_t version;
  TSR_TRY(tsr__log_list(&array->log, true, false, error));
  const uint64_t loose = count_loose(array->log.listing);
  if (loose < many && array->log.listing->written <= loose) return TSR_OK;
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &schema, error));
  TSR_TRY(tsr__schema_write_version(schema, &version, error));
  if (!layout_has_commits_folder(version)) return TSR_OK;
  if (loose >= many) TSR_TRY(tsr__join_commits(array, version, error));
  if (loose >= many) TSR_TRY(join_footers(u, array, error));
  u->joined |= loose >= many;
  return tsr__vacuum_joined(array, joined_grace(u), error);
}

/* ---- Removing what was replaced ---------------------------------------------------------------------------------- */

/* Returns 1 if this call removes what merges have replaced, else 0. */
static int removes_replaced(const upkeep_call *u, tsr_error *error) {
  const tsr_upkeep_vacuum vacuum = u->options->vacuum;
  if (vacuum == TSR_UPKEEP_VACUUM_HARMLESS) return vacuum_is_harmless(u->array, error);
  return vacuum == TSR_UPKEEP_VACUUM_ALWAYS;
}

static int remove_replaced(upkeep_call *u, tsr_error *error) {
  const tsr_vacuum_options options = {.grace = u->options->grace, .most = u->options->most_removed};
  return tsr_array_vacuum(u->array, TSR_MAINTAIN_FRAGMENTS | TSR_MAINTAIN_COMMITS | TSR_MAINTAIN_FRAGMENT_META,
                          &options, &u->result->removed, error);
}

static int keep_up(upkeep_call *u, tsr_error *error) {
  const uint64_t files = tsr__mul_sat(u->tiers.rules.fanout, FILES_FACTOR);
  TSR_TRY(merge_fragments(u, error));
  const int removes = removes_replaced(u, error);
  if (removes < 0) return removes;
  if (!removes) {
    TSR_TRY(join_array(u, u->array, error));
    return u->joined ? tsr__label_arrays_each(u->array, join_array, u, error) : TSR_OK;
  }
  const bool many = u->array->log.listing && u->array->log.listing->written >= files;
  /* a caller that asks for it does so rarely: put off whenever merges took long, it would not happen under load */
  if (u->options->files || (!is_over(&u->tiers) && !u->options->automatic && many)) TSR_TRY(merge_files(u, error));
  return remove_replaced(u, error);
}

/* Counts what waits, and merges nothing: another process has the lease. */
static int only_count(upkeep_call *u, tsr_error *error) {
  const tsr_consolidate_options options = {.memory_bytes = u->options->memory_bytes};
  u->tiers.merges_left = 0;
  return tsr__consolidate_tiers(u->array, &options, &u->tiers, error);
}

int tsr_array_upkeep(tsr_array *array, const tsr_upkeep_options *options, tsr_upkeep *result, tsr_error *error) {
  TSR_OWN_ERROR(error);
  static const tsr_upkeep_options none = {0};
  const tsr_upkeep_options *o = options ? options : &none;
  const uint64_t begun = tsr__moment();
  *result = (tsr_upkeep){0};
  upkeep_call u = {.array = array, .options = o, .result = result};
  u.tiers.rules =
      (tsr_tier_rules){.fanout = o->fanout ? o->fanout : FANOUT_DEFAULT,
                       .max_fragment_bytes = o->max_fragment_bytes ? o->max_fragment_bytes : FRAGMENT_DEFAULT,
                       .bytes_limited = o->most_bytes > 0,
                       .bytes = o->most_bytes};
  u.tiers.merges_left = o->most_merges ? o->most_merges : UINT64_MAX;
  u.tiers.deadline = o->milliseconds ? begun + o->milliseconds : 0;
  const int ours = o->count_only ? 0 : take_lease(&u, error);
  if (ours < 0) return ours;
  const int rc = ours ? keep_up(&u, error) : only_count(&u, error);
  if (ours) give_lease_back(&u);
  result->merges = u.tiers.merges;
  result->merged = u.tiers.merged;
  result->left = u.tiers.waits;
  if (o->automatic) {
    tsr__count(array->environment, TSR_COUNT_auto_merges, u.tiers.merges);
    tsr__count(array->environment, TSR_COUNT_auto_merge_ms, tsr__moment() - begun);
  }
  return rc;
}

uint64_t tsr_snapshot_unmerged(const tsr_snapshot *snapshot, uint64_t most) {
  uint64_t count = 0;
  for (uint64_t i = snapshot->fragment_count; i-- > 0 && count < most;)
    count += snapshot->fragments[i].fragment->parsed.start == snapshot->fragments[i].fragment->parsed.end;
  return count;
}
