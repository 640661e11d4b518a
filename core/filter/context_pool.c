/* context_pool.c: the slots of idle contexts. Threads take and return contexts by one atomic exchange each, so no lock is
 * held when the process forks.
 */
#include "filter/context_pool.h"

#include <stdatomic.h>

#define IDLE_CONTEXT_MAX (192u << 10) /* bytes of the largest context that is kept for later */

void *tsr__context_take(tsr_memory *root, _Atomic(void *) *slots, size_t (*size)(const void *)) {
  for (unsigned i = 0; i < TSR_CONTEXT_POOL_SLOTS; i++) {
    if (!atomic_load_explicit(&slots[i], memory_order_relaxed)) continue;
    void *context = atomic_exchange_explicit(&slots[i], NULL, memory_order_acq_rel);
    if (!context) continue;
    tsr__memory_release(root, size(context));
    return context;
  }
  return NULL;
}

bool tsr__context_return(tsr_memory *root, _Atomic(void *) *slots, void *context, uint64_t size) {
  if (size > IDLE_CONTEXT_MAX || tsr__memory_charge(root, size, NULL) < 0) return false;
  for (unsigned i = 0; i < TSR_CONTEXT_POOL_SLOTS; i++) {
    void *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&slots[i], &none, context, memory_order_acq_rel, memory_order_relaxed))
      return true;
  }
  tsr__memory_release(root, size);
  return false;
}

void tsr__context_pool_release(tsr_memory *root) {
  tsr__zstd_free_idle(root);
  tsr__gzip_free_idle(root);
}
