/* prefetch.c: the table of fetches. Parts are fetched in the order in which they were announced. A fetch is
 *
 *   WAITING   until fewer than `parallel` fetches are under way and there is room for its bytes
 *   SENT      until a reader wants its bytes, or a later announcement finds that its answer has come
 *   ENDING    while one thread waits for its answer; others that want the bytes wait for that thread
 *   ARRIVED   until its room is needed
 *
 * Fetches begin and end at multiples of BLOCK, so that reads of neighbouring parts find their bytes, too. When a reader
 * gets from one fetch of an object to the following one, the next fetch is sent, of twice the size: sequential reads
 * are prefetched with a growing window.
 *
 * A failed fetch is dropped: whoever wants its bytes sends its own request and gets the error. But a fetch that found
 * its object missing is kept, since that is what readers of tails want to know.
 *
 * Order: sending fetches and taking answers; adding announced parts; reading; keeping what the store has written.
 */
#include "store/prefetch.h"

#include <pthread.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/pool.h"

#define BLOCK         (UINT64_C(64) << 10) /* bytes */
#define GAP           (UINT64_C(128) << 10) /* bytes between two parts that are cheaper to fetch than another request */
#define PREFETCH_ROOM (UINT64_C(64) << 20) /* bytes of all fetches that are not WAITING */
#define RECENT        4 /* fetches to which a part may be joined: callers announce several files in turns */
#define PREFETCH_MAX  8192u /* fetches in the table */
#define KEPT_ROOM     (UINT64_C(1) << 20) /* bytes of objects that the store has written itself */

typedef enum fetch_state { WAITING, SENT, ENDING, ARRIVED } fetch_state;

typedef struct fetch {
  struct fetch *next; /* in the order of the announcements */
  fetch_state state;
  uint64_t hash; /* of the key */
  uint64_t offset, size; /* of the part; for a tail only `size` counts */
  uint64_t users; /* threads that wait for it */
  bool tail;
  bool written; /* a whole object, which the store has written itself */
  bool sequential; /* its object was read sequentially up to the beginning of this fetch */
  bool next_sent; /* the fetch after it has been sent */
  bool failed, missing; /* missing: the server has no such object */
  tsr_bucket_call call;
  tsr_buffer bytes;
  char key[]; /* a NUL-terminated text */
} fetch;

struct tsr_bucket_prefetch {
  tsr_memory *memory; /* borrowed */
  tsr_bucket *client; /* borrowed */
  pthread_mutex_t mutex; /* guards everything below */
  pthread_cond_t ended; /* a fetch has left the state ENDING */
  fetch *first, **last; /* the fetches, owned */
  uint64_t count, under_way, bytes; /* fetches; those SENT or ENDING; bytes of all that are not WAITING */
  uint64_t kept; /* bytes of whole objects */
};

int tsr__bucket_prefetch_open(tsr_memory *memory, tsr_bucket *client, tsr_bucket_prefetch **prefetch,
                              tsr_error *error) {
  tsr_bucket_prefetch *p;
  TSR_TRY(TSR_ALLOC(memory, &p, error));
  p->memory = memory;
  p->client = client;
  p->last = &p->first;
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->ended, NULL);
  *prefetch = p;
  return TSR_OK;
}

/* Removes a fetch that nobody uses from the table and frees it. */
static void drop_fetch(tsr_bucket_prefetch *p, fetch *f) {
  fetch **link = &p->first;
  while (*link != f) link = &(*link)->next;
  *link = f->next;
  if (!f->next) p->last = link;
  if (f->state == SENT) tsr__bucket_cancel(p->client, &f->call);
  if (f->state == SENT || f->state == ENDING) p->under_way--;
  if (f->state != WAITING) p->bytes -= f->size;
  if (f->written) p->kept -= f->size;
  p->count--;
  tsr__buffer_release(&f->bytes);
  tsr__free(f);
}

void tsr__bucket_prefetch_close(tsr_bucket_prefetch *p) {
  if (!p) return;
  while (p->first) drop_fetch(p, p->first);
  pthread_cond_destroy(&p->ended);
  pthread_mutex_destroy(&p->mutex);
  tsr__free(p);
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

static void send_fetch(tsr_bucket_prefetch *p, fetch *f) {
  const bool room = tsr__buffer_reserve_exactly(&f->bytes, f->size, NULL) >= 0;
  f->call = (tsr_bucket_call){.kind = TSR_BUCKET_GET,
                              .key = f->key,
                              .get.range = f->tail ? TSR_BUCKET_SUFFIX : TSR_BUCKET_RANGE,
                              .get.offset = f->offset,
                              .get.size = f->size,
                              .get.into = room ? f->bytes.data : NULL,
                              .get.room = f->size,
                              .get.most = f->size,
                              .get.buffer = room ? NULL : &f->bytes};
  f->state = SENT;
  p->under_way++;
  p->bytes += f->size;
  tsr__bucket_start(p->client, &f->call);
}

/* Drops ARRIVED fetches that nobody uses, the oldest first, until there is room for `size` bytes. */
static bool make_room(tsr_bucket_prefetch *p, uint64_t size) {
  while (p->bytes > 0 && p->bytes + size > PREFETCH_ROOM) {
    fetch *f = p->first;
    while (f && (f->state != ARRIVED || f->users > 0)) f = f->next;
    if (!f) return false;
    drop_fetch(p, f);
  }
  return true;
}

/* Sends WAITING fetches while there is room for them. `forced`: make room by dropping others. */
static void send_waiting(tsr_bucket_prefetch *p, bool forced) {
  const uint32_t parallel = tsr__bucket_parallel(p->client);
  for (fetch *f = p->first; f && p->under_way < parallel; f = f->next) {
    if (f->state != WAITING) continue;
    if (p->bytes > 0 && p->bytes + f->size > PREFETCH_ROOM) {
      if (!forced || !make_room(p, f->size)) return;
      f = p->first; /* the list has changed */
      while (f && f->state != WAITING) f = f->next;
      if (!f) return;
    }
    send_fetch(p, f);
  }
}

/* Shrinks a fetch to what has arrived, so that objects smaller than a block take no more room than they need. */
static void fit_fetch(tsr_bucket_prefetch *p, fetch *f) {
  if (f->call.get.into) f->bytes.size = f->call.result.received;
  if (f->bytes.size >= f->size) return;
  p->bytes -= f->size - f->bytes.size;
  f->size = f->bytes.size;
  tsr__buffer_shrink(&f->bytes);
}

/* Waits for the answer of a fetch that is SENT, with the mutex released meanwhile. A failed fetch becomes ARRIVED, too:
 * find_fetch ignores it unless the object is missing. */
static int end_fetch(tsr_bucket_prefetch *p, fetch *f, tsr_error *error) {
  tsr_error failure = {0};
  f->state = ENDING;
  f->users++;
  pthread_mutex_unlock(&p->mutex);
  const int rc = tsr__bucket_finish(p->client, &f->call, &failure);
  pthread_mutex_lock(&p->mutex);
  f->users--;
  p->under_way--;
  f->state = ARRIVED;
  f->missing = rc == TSR_NOT_FOUND;
  f->failed = rc < 0;
  if (rc >= 0) fit_fetch(p, f);
  if (rc < 0) tsr__buffer_release(&f->bytes);
  pthread_cond_broadcast(&p->ended);
  send_waiting(p, false);
  if (rc == TSR_INTERRUPT && error) *error = failure;
  return rc == TSR_INTERRUPT ? rc : TSR_OK;
}

/* Ends all fetches whose answers have come, with the mutex released meanwhile. */
static void collect_answers(tsr_bucket_prefetch *p) {
  for (fetch *f = p->first; f;) {
    if (f->state == SENT && tsr__bucket_answered(&f->call)) {
      (void)end_fetch(p, f, NULL);
      f = p->first; /* the list may have changed */
    } else f = f->next;
  }
}

/* Returns once a fetch has ARRIVED, with the mutex released while it waits. The caller is one of the fetch's users. */
static int await_fetch(tsr_bucket_prefetch *p, fetch *f, tsr_error *error) {
  if (f->state == WAITING) {
    (void)make_room(p, f->size);
    send_fetch(p, f);
  }
  while (f->state != ARRIVED) {
    if (f->state == SENT) TSR_TRY(end_fetch(p, f, error));
    else pthread_cond_wait(&p->ended, &p->mutex);
  }
  return TSR_OK;
}

/* ---- Announced parts --------------------------------------------------------------------------------------------- */

/* Finds the fetch that covers a part, or the tail. */
static fetch *find_fetch(const tsr_bucket_prefetch *p, const char *key, bool tail, uint64_t offset, uint64_t size) {
  const uint64_t hash = tsr__hash_text(0, key);
  for (fetch *f = p->first; f; f = f->next) {
    if (f->hash != hash || (f->tail != tail && !f->written) || (f->failed && !f->missing) || strcmp(f->key, key) != 0)
      continue;
    if (tail || (f->offset <= offset && offset - f->offset <= f->size && f->size - (offset - f->offset) >= size))
      return f;
  }
  return NULL;
}

/* Widens a part to multiples of BLOCK. */
static tsr_bucket_part align_part(const tsr_bucket_part *part) {
  if (part->tail) return *part;
  const uint64_t from = part->offset - part->offset % BLOCK, end = tsr__add_sat(part->offset, part->size);
  const uint64_t rest = end % BLOCK ? BLOCK - end % BLOCK : 0;
  return (tsr_bucket_part){part->key, from, tsr__add_sat(end, rest) - from, false};
}

static fetch *add_fetch(tsr_bucket_prefetch *p, const tsr_bucket_part *part) {
  const size_t length = strlen(part->key) + 1;
  fetch *f;
  if (p->count >= PREFETCH_MAX || part->size == 0 || part->size > PREFETCH_ROOM ||
      TSR_ALLOC_BYTES(p->memory, sizeof *f + length, &f, NULL) < 0)
    return NULL;
  memcpy(f->key, part->key, length);
  f->hash = tsr__hash_text(0, part->key);
  f->offset = part->offset;
  f->size = part->size;
  f->tail = part->tail;
  f->bytes.memory = p->memory;
  *p->last = f;
  p->last = &f->next;
  p->count++;
  return f;
}

/* Extends a fetch that has not been sent yet by the part behind it. */
static bool extend_fetch(const tsr_bucket_prefetch *p, fetch *f, const tsr_bucket_part *part) {
  const uint64_t end = f->offset + f->size;
  if (f->state != WAITING || f->tail || part->tail || strcmp(f->key, part->key) != 0 || part->offset < f->offset)
    return false;
  if (part->offset > end && part->offset - end > GAP) return false;
  const uint64_t size = tsr__add_sat(part->offset - f->offset, part->size);
  if (size > tsr__bucket_part_size(p->client)) return false;
  f->size = TSR_MAX(f->size, size);
  return true;
}

/* Drops fetches that nobody is reading: a reader may have stopped early. */
static void forget_unused(tsr_bucket_prefetch *p) {
  for (fetch *f = p->first, *next; f; f = next) {
    next = f->next;
    if (f->users == 0 && !f->written && (f->state == WAITING || f->state == ARRIVED)) drop_fetch(p, f);
  }
}

/* Adds a part: to one of the RECENT fetches if that is WAITING and the part lies close behind it; else as a new
 * fetch. */
static fetch *add_part(tsr_bucket_prefetch *p, const tsr_bucket_part *part, fetch **recent) {
  const tsr_bucket_part aligned = align_part(part);
  for (int i = 0; i < RECENT; i++)
    if (recent[i] && extend_fetch(p, recent[i], &aligned)) return recent[i];
  memmove(recent + 1, recent, (RECENT - 1) * sizeof *recent);
  return recent[0] = add_fetch(p, &aligned);
}

void tsr__bucket_prefetch_start(tsr_bucket_prefetch *p, const tsr_bucket_part *parts, uint64_t count) {
  fetch *recent[RECENT] = {NULL};
  pthread_mutex_lock(&p->mutex);
  collect_answers(p);
  if (p->count + count > PREFETCH_MAX) forget_unused(p);
  for (uint64_t i = 0; i < count; i++)
    if (!find_fetch(p, parts[i].key, parts[i].tail, parts[i].offset, parts[i].size))
      (void)add_part(p, &parts[i], recent);
  send_waiting(p, true);
  pthread_mutex_unlock(&p->mutex);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Sends the fetch behind `f` if the reader has come to `f` from the fetch before it. */
static void send_next(tsr_bucket_prefetch *p, fetch *f, uint64_t object_size) {
  const uint64_t from = f->offset + f->size;
  if (!f->sequential || f->next_sent || from >= object_size) return;
  f->next_sent = true;
  const tsr_bucket_part next = {f->key, from, TSR_MIN(2 * f->size, tsr__bucket_part_size(p->client)), false};
  if (find_fetch(p, f->key, false, from, 1)) return;
  fetch *added = p->bytes + next.size <= PREFETCH_ROOM || make_room(p, next.size) ? add_fetch(p, &next) : NULL;
  if (!added) return;
  added->sequential = true;
  send_waiting(p, false);
}

/* Makes a fetch for a part that was not announced. If it begins where another fetch ends, the object is being read
 * sequentially: then the fetch is twice as large as that one. */
static fetch *fetch_now(tsr_bucket_prefetch *p, const tsr_bucket_part *part) {
  if (part->size > tsr__bucket_part_size(p->client)) return NULL;
  if (p->count >= PREFETCH_MAX) forget_unused(p);
  tsr_bucket_part aligned = align_part(part);
  const fetch *before = aligned.offset ? find_fetch(p, part->key, false, aligned.offset - 1, 1) : NULL;
  if (before) aligned.size = TSR_MIN(TSR_MAX(aligned.size, 2 * before->size), tsr__bucket_part_size(p->client));
  aligned.size = TSR_MAX(aligned.size, align_part(part).size);
  const bool sequential = before != NULL;
  fetch *f = make_room(p, aligned.size) ? add_fetch(p, &aligned) : NULL;
  if (f) f->sequential = sequential;
  return f;
}

int tsr__bucket_prefetch_read(tsr_bucket_prefetch *p, const char *key, uint64_t object_size, uint64_t offset,
                              void *buffer, uint64_t size, tsr_error *error) {
  const tsr_bucket_part part = {key, offset, size, false};
  int rc = 0;
  pthread_mutex_lock(&p->mutex);
  fetch *f = find_fetch(p, key, false, offset, size);
  if (!f) f = fetch_now(p, &part);
  if (f) {
    f->users++;
    rc = await_fetch(p, f, error);
    if (rc >= 0) send_next(p, f, object_size);
    f->users--;
    if (rc >= 0 && f->bytes.size >= offset - f->offset + size) {
      memcpy(buffer, f->bytes.data + (offset - f->offset), size);
      rc = 1;
    } else if (rc >= 0) rc = 0;
    if (f->failed && f->users == 0) drop_fetch(p, f);
  }
  pthread_mutex_unlock(&p->mutex);
  return rc;
}

int tsr__bucket_prefetch_tail(tsr_bucket_prefetch *p, const char *key, tsr_buffer *bytes, uint64_t *object_size,
                              tsr_error *error) {
  int rc = 0;
  pthread_mutex_lock(&p->mutex);
  fetch *f = find_fetch(p, key, true, 0, 0);
  if (f) {
    f->users++;
    rc = await_fetch(p, f, error);
    f->users--;
    if (rc >= 0 && f->missing) rc = tsr__fail(error, TSR_NOT_FOUND, "no such object");
    else if (rc >= 0 && f->written) {
      rc = tsr__buffer_append(bytes, f->bytes.data, f->bytes.size, error);
      *object_size = f->size;
      if (rc >= 0) rc = 1;
    } else if (rc >= 0 && !f->failed && f->users == 0) {
      tsr__buffer_release(bytes);
      *bytes = f->bytes;
      *object_size = f->call.result.object_size;
      f->bytes = (tsr_buffer){.memory = p->memory};
      rc = 1;
    } else if (rc >= 0) rc = 0; /* it failed, or another reader wants it as well */
    if (f->users == 0 && f->state == ARRIVED && !f->written) drop_fetch(p, f);
    send_waiting(p, false);
  }
  pthread_mutex_unlock(&p->mutex);
  return rc;
}

/* ---- What the store has written ---------------------------------------------------------------------------------- */

/* Drops the oldest kept object that nobody reads. */
static bool drop_kept(tsr_bucket_prefetch *p) {
  fetch *f = p->first;
  while (f && (!f->written || f->users > 0)) f = f->next;
  if (f) drop_fetch(p, f);
  return f;
}

void tsr__bucket_prefetch_keep(tsr_bucket_prefetch *p, const char *key, tsr_buffer *bytes) {
  const tsr_bucket_part part = {key, 0, bytes->size, true};
  pthread_mutex_lock(&p->mutex);
  while (p->kept + part.size > KEPT_ROOM && drop_kept(p)) {}
  fetch *f = p->kept + part.size <= KEPT_ROOM && make_room(p, part.size) ? add_fetch(p, &part) : NULL;
  if (f) {
    f->written = true;
    f->state = ARRIVED;
    f->bytes = *bytes;
    p->bytes += f->size;
    p->kept += f->size;
    *bytes = (tsr_buffer){.memory = p->memory};
  }
  pthread_mutex_unlock(&p->mutex);
  tsr__buffer_release(bytes);
}

void tsr__bucket_prefetch_forget(tsr_bucket_prefetch *p, const char *key) {
  const uint64_t hash = tsr__hash_text(0, key);
  pthread_mutex_lock(&p->mutex);
  for (fetch *f = p->first, *next; f && p->kept > 0; f = next) {
    next = f->next;
    if (f->written && f->hash == hash && f->users == 0 && strcmp(f->key, key) == 0) drop_fetch(p, f);
  }
  pthread_mutex_unlock(&p->mutex);
}

void tsr__bucket_prefetch_doubt(tsr_bucket_prefetch *p) {
  pthread_mutex_lock(&p->mutex);
  forget_unused(p);
  pthread_mutex_unlock(&p->mutex);
}
