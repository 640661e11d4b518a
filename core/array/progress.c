/* progress.c: the registry of operations that this process is carrying out, for tessera_progress; its size is fixed.
 *
 * A slot belongs to one operation from its beginning to its end. Slots are taken, given back and read under the mutex.
 * Only the operation's thread writes `done` and `total`, without the mutex, once for each window of tiles or block of
 * bytes. After a fork the child has an empty registry: the parent's operations go on in the parent.
 * Invariant: the `serial` of a slot is 0 or that of the operation that has it; serials are never used twice.
 */
#include "array/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "array/environment.h"

typedef struct progress_slot {
  uint64_t serial; /* 0: free */
  tsr_progress entry; /* except done and total */
  _Atomic uint64_t done, total;
} progress_slot;

static struct {
  _Atomic uint64_t state;
  pthread_mutex_t mutex;
  uint64_t serial; /* the last one given */
  progress_slot slots[TSR_PROGRESS_MAX];
} progress_registry;

static void progress_lock(void) {
  if (tsr__process_enter(&progress_registry.state)) {
    pthread_mutex_init(&progress_registry.mutex, NULL);
    for (int i = 0; i < TSR_PROGRESS_MAX; i++) progress_registry.slots[i].serial = 0;
    tsr__process_made(&progress_registry.state);
  }
  pthread_mutex_lock(&progress_registry.mutex);
}

static void progress_unlock(void) { pthread_mutex_unlock(&progress_registry.mutex); }

/* Returns the slot of an operation, or NULL. No mutex is needed: only the operation's thread changes the serial, or a
 * child of a fork. */
static progress_slot *progress_slot_of(const tsr_work *work) {
  return work && work->slot >= 0 && progress_registry.slots[work->slot].serial == work->serial
             ? &progress_registry.slots[work->slot]
             : NULL;
}

static void set_path(tsr_progress *entry, const char *path) {
  const size_t size = strlen(path), most = sizeof entry->path - 1;
  const char *from = path;
  if (size > most) { /* shows the end of the path, from the beginning of a UTF-8 character on */
    from = path + (size - (most - 3));
    while ((*from & 0xC0) == 0x80) from++;
  }
  snprintf(entry->path, sizeof entry->path, "%s%s", from == path ? "" : "...", from);
}

void tsr_work_begin(tsr_environment *environment, tsr_work *work, const char *operation, const char *path,
                    uint64_t total) {
  *work = (tsr_work){.outer = environment->work, .slot = -1};
  environment->work = work;
  progress_lock();
  for (int i = 0; i < TSR_PROGRESS_MAX && work->slot < 0; i++) {
    progress_slot *s = &progress_registry.slots[i];
    if (s->serial) continue;
    work->slot = i;
    s->serial = work->serial = ++progress_registry.serial;
    s->entry = (tsr_progress){.started = tsr__environment_now()};
    snprintf(s->entry.operation, sizeof s->entry.operation, "%s", operation);
    set_path(&s->entry, path);
    atomic_store_explicit(&s->done, 0, memory_order_relaxed);
    atomic_store_explicit(&s->total, total, memory_order_relaxed);
  }
  progress_unlock();
}

void tsr_work_end(tsr_environment *environment, tsr_work *work) {
  environment->work = work->outer;
  if (work->slot < 0) return;
  progress_lock();
  progress_slot *s = progress_slot_of(work);
  if (s) s->serial = 0;
  progress_unlock();
}

void tsr__work_reach(tsr_environment *environment, uint64_t done) {
  progress_slot *s = progress_slot_of(environment->work);
  if (s && done > atomic_load_explicit(&s->done, memory_order_relaxed))
    atomic_store_explicit(&s->done, done, memory_order_relaxed);
}

void tsr_work_done(tsr_environment *environment, uint64_t more) {
  const progress_slot *s = progress_slot_of(environment->work);
  if (s) tsr__work_reach(environment, tsr__add_sat(atomic_load_explicit(&s->done, memory_order_relaxed), more));
}

void tsr__work_more(tsr_environment *environment, uint64_t total) {
  progress_slot *s = progress_slot_of(environment->work);
  if (s)
    atomic_store_explicit(&s->total, tsr__add_sat(atomic_load_explicit(&s->total, memory_order_relaxed), total),
                          memory_order_relaxed);
}

uint64_t tsr_progress_list(tsr_progress *entries, uint64_t room) {
  uint64_t count = 0, last = 0;
  progress_lock();
  while (count < room) { /* in the order in which the operations began */
    const progress_slot *next = NULL;
    for (int i = 0; i < TSR_PROGRESS_MAX; i++) {
      const progress_slot *s = &progress_registry.slots[i];
      if (s->serial > last && (!next || s->serial < next->serial)) next = s;
    }
    if (!next) break;
    last = next->serial;
    entries[count] = next->entry;
    entries[count].total = atomic_load_explicit(&next->total, memory_order_relaxed);
    entries[count].done = atomic_load_explicit(&next->done, memory_order_relaxed);
    if (entries[count].done > entries[count].total) entries[count].done = entries[count].total;
    count++;
  }
  progress_unlock();
  return count;
}
