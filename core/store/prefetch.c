/* prefetch.c: the table of fetches. Parts are fetched in the order in which they were announced. A fetch is
 *
 *   WAITING   until fewer than `parallel` fetches are under way and there is room for its bytes
 *   SENT      until a reader wants its bytes, or a later announcement finds that its answer has come
 *   ENDING    while one thread waits for its answer; other threads that want it wait for that thread
 *   HERE      until its room is needed
 *
 * Fetches begin and end at multiples of BLOCK, so that reads of neighbouring parts find their bytes, too. When a reader
 * gets from one fetch of an object to the following one, the next fetch is sent, of twice the size: sequential reads
 * are prefetched with a growing window.
 *
 * A failed fetch is dropped: whoever wants its bytes sends its own request and gets the error. Only that an object
 * is missing is remembered, since readers of tails ask for exactly that.
 *
 * Order: sending fetches and taking answers; adding announced parts; reading; keeping what the store has written.
 */
#include "store/prefetch.h"

#include <pthread.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/pool.h"

#define BLOCK      (UINT64_C(64) << 10) /* bytes */
#define GAP        (UINT64_C(128) << 10) /* bytes between two parts that are cheaper to fetch than another request */
#define AHEAD_ROOM (UINT64_C(64) << 20) /* bytes of all fetches that are not WAITING */
#define RECENT     4 /* fetches to which a part may be joined: callers announce several files in turns */
#define AHEAD_MAX  8192u /* fetches in the table */
#define KEPT_ROOM  (UINT64_C(1) << 20) /* bytes of objects that the store has written itself */

typedef enum fetch_state { WAITING, SENT, ENDING, HERE } fetch_state;

typedef struct fetch {
  struct fetch *next; /* in the order of the announcements */
  fetch_state state;
  uint64_t hash; /* of the key */
  uint64_t offset, size; /* of the part; for a tail only `size` counts */
  uint64_t users; /* threads that wait for it */
  bool tail;
  bool whole; /* an object that the store has written itself */
  bool follows; /* its object was read sequentially up to its beginning */
  bool led; /* the next fetch has been sent */
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

int tsr__bucket_prefetch_open(tsr_memory *memory, tsr_bucket *client, tsr_bucket_prefetch **ahead, tsr_error *error) {
  tsr_bucket_prefetch *a;
  TSR_TRY(TSR_ALLOC(memory, &a, error));
  a->memory = memory;
  a->client = client;
  a->last = &a->first;
  pthread_mutex_init(&a->mutex, NULL);
  pthread_cond_init(&a->ended, NULL);
  *ahead = a;
  return TSR_OK;
}

/* Removes a fetch that nobody uses from the table and frees it. */
static void drop_fetch(tsr_bucket_prefetch *a, fetch *f) {
  fetch **link = &a->first;
  while (*link != f) link = &(*link)->next;
  *link = f->next;
  if (!f->next) a->last = link;
  if (f->state == SENT) tsr__bucket_cancel(a->client, &f->call);
  if (f->state == SENT || f->state == ENDING) a->under_way--;
  if (f->state != WAITING) a->bytes -= f->size;
  if (f->whole) a->kept -= f->size;
  a->count--;
  tsr__buffer_release(&f->bytes);
  tsr__free(f);
}

void tsr__bucket_prefetch_close(tsr_bucket_prefetch *ahead) {
  if (!ahead) return;
  while (ahead->first) drop_fetch(ahead, ahead->first);
  pthread_cond_destroy(&ahead->ended);
  pthread_mutex_destroy(&ahead->mutex);
  tsr__free(ahead);
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

static void send_fetch(tsr_bucket_prefetch *a, fetch *f) {
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
  a->under_way++;
  a->bytes += f->size;
  tsr__bucket_start(a->client, &f->call);
}

/* Drops fetches that are HERE and unused, first in list order, until there is room for `size` bytes. */
static bool make_room(tsr_bucket_prefetch *a, uint64_t size) {
  while (a->bytes > 0 && a->bytes + size > AHEAD_ROOM) {
    fetch *f = a->first;
    while (f && (f->state != HERE || f->users > 0)) f = f->next;
    if (!f) return false;
    drop_fetch(a, f);
  }
  return true;
}

/* Sends WAITING fetches while there is room for them. `forced`: make room by dropping others. */
static void send_waiting(tsr_bucket_prefetch *a, bool forced) {
  const uint32_t parallel = tsr__bucket_parallel(a->client);
  for (fetch *f = a->first; f && a->under_way < parallel; f = f->next) {
    if (f->state != WAITING) continue;
    if (a->bytes > 0 && a->bytes + f->size > AHEAD_ROOM) {
      if (!forced || !make_room(a, f->size)) return;
      f = a->first; /* the list has changed */
      while (f && f->state != WAITING) f = f->next;
      if (!f) return;
    }
    send_fetch(a, f);
  }
}

/* Shrinks a fetch to what has arrived, so that objects smaller than a block take no more room than they need. */
static void fit_fetch(tsr_bucket_prefetch *a, fetch *f) {
  if (f->call.get.into) f->bytes.size = f->call.result.received;
  if (f->bytes.size >= f->size) return;
  a->bytes -= f->size - f->bytes.size;
  f->size = f->bytes.size;
  tsr__buffer_shrink(&f->bytes);
}

/* Waits for the answer of a fetch that is SENT, with the mutex released meanwhile. A failed fetch becomes HERE, too:
 * find_fetch ignores it unless the object is missing. */
static int end_fetch(tsr_bucket_prefetch *a, fetch *f, tsr_error *error) {
  tsr_error one = {0};
  f->state = ENDING;
  f->users++;
  pthread_mutex_unlock(&a->mutex);
  const int rc = tsr__bucket_finish(a->client, &f->call, &one);
  pthread_mutex_lock(&a->mutex);
  f->users--;
  a->under_way--;
  f->state = HERE;
  f->missing = rc == TSR_NOT_FOUND;
  f->failed = rc < 0;
  if (rc >= 0) fit_fetch(a, f);
  if (rc < 0) tsr__buffer_release(&f->bytes);
  pthread_cond_broadcast(&a->ended);
  send_waiting(a, false);
  if (rc == TSR_INTERRUPT && error) *error = one;
  return rc == TSR_INTERRUPT ? rc : TSR_OK;
}

/* Takes the answers that have come, with the mutex released meanwhile. */
static void take_answers(tsr_bucket_prefetch *a) {
  for (fetch *f = a->first; f;) {
    if (f->state == SENT && tsr__bucket_answered(&f->call)) {
      (void)end_fetch(a, f, NULL);
      f = a->first; /* the list may have changed */
    } else f = f->next;
  }
}

/* Returns once a fetch is HERE, with the mutex released while it waits. The caller is one of the fetch's users. */
static int await_fetch(tsr_bucket_prefetch *a, fetch *f, tsr_error *error) {
  if (f->state == WAITING) {
    (void)make_room(a, f->size);
    send_fetch(a, f);
  }
  while (f->state != HERE) {
    if (f->state == SENT) TSR_TRY(end_fetch(a, f, error));
    else pthread_cond_wait(&a->ended, &a->mutex);
  }
  return TSR_OK;
}

/* ---- Announced parts --------------------------------------------------------------------------------------------- */

/* Finds the fetch that covers a part, or the tail. */
static fetch *find_fetch(const tsr_bucket_prefetch *a, const char *key, bool tail, uint64_t offset, uint64_t size) {
  const uint64_t hash = tsr__hash_text(0, key);
  for (fetch *f = a->first; f; f = f->next) {
    if (f->hash != hash || (f->tail != tail && !f->whole) || f->failed > f->missing || strcmp(f->key, key) != 0)
      continue;
    if (tail || (f->offset <= offset && offset - f->offset <= f->size && f->size - (offset - f->offset) >= size))
      return f;
  }
  return NULL;
}

/* Rounds the ends of a part outward to multiples of BLOCK. */
static tsr_bucket_part aligned(const tsr_bucket_part *part) {
  if (part->tail) return *part;
  const uint64_t from = part->offset - part->offset % BLOCK, end = tsr__add_sat(part->offset, part->size);
  const uint64_t rest = end % BLOCK ? BLOCK - end % BLOCK : 0;
  return (tsr_bucket_part){part->key, from, tsr__add_sat(end, rest) - from, false};
}

static fetch *add_fetch(tsr_bucket_prefetch *a, const tsr_bucket_part *part) {
  const size_t length = strlen(part->key) + 1;
  fetch *f;
  if (a->count >= AHEAD_MAX || part->size == 0 || part->size > AHEAD_ROOM ||
      TSR_ALLOC_BYTES(a->memory, sizeof *f + length, &f, NULL) < 0)
    return NULL;
  memcpy(f->key, part->key, length);
  f->hash = tsr__hash_text(0, part->key);
  f->offset = part->offset;
  f->size = part->size;
  f->tail = part->tail;
  f->bytes.memory = a->memory;
  *a->last = f;
  a->last = &f->next;
  a->count++;
  return f;
}

/* Extends a fetch that has not been sent yet by the part behind it. */
static bool extend(const tsr_bucket_prefetch *a, fetch *f, const tsr_bucket_part *part) {
  const uint64_t end = f->offset + f->size;
  if (f->state != WAITING || f->tail || part->tail || strcmp(f->key, part->key) != 0 || part->offset < f->offset)
    return false;
  if (part->offset > end && part->offset - end > GAP) return false;
  const uint64_t size = tsr__add_sat(part->offset - f->offset, part->size);
  if (size > tsr__bucket_part_size(a->client)) return false;
  f->size = TSR_MAX(f->size, size);
  return true;
}

/* Drops fetches that nobody is reading: a reader may have stopped early. */
static void forget_unused(tsr_bucket_prefetch *a) {
  for (fetch *f = a->first, *next; f; f = next) {
    next = f->next;
    if (f->users == 0 && !f->whole && (f->state == WAITING || f->state == HERE)) drop_fetch(a, f);
  }
}

/* Adds a part: to one of the most recent WAITING fetches if it lies close behind it, else as a new fetch. */
static fetch *add_part(tsr_bucket_prefetch *a, const tsr_bucket_part *part, fetch **recent) {
  const tsr_bucket_part whole = aligned(part);
  for (int i = 0; i < RECENT; i++)
    if (recent[i] && extend(a, recent[i], &whole)) return recent[i];
  memmove(recent + 1, recent, (RECENT - 1) * sizeof *recent);
  return recent[0] = add_fetch(a, &whole);
}

void tsr__bucket_prefetch_start(tsr_bucket_prefetch *ahead, const tsr_bucket_part *parts, uint64_t count) {
  fetch *recent[RECENT] = {NULL};
  pthread_mutex_lock(&ahead->mutex);
  take_answers(ahead);
  if (ahead->count + count > AHEAD_MAX) forget_unused(ahead);
  for (uint64_t i = 0; i < count; i++)
    if (!find_fetch(ahead, parts[i].key, parts[i].tail, parts[i].offset, parts[i].size))
      (void)add_part(ahead, &parts[i], recent);
  send_waiting(ahead, true);
  pthread_mutex_unlock(&ahead->mutex);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Sends the fetch after `f`, if the reader has come to `f` from the fetch before it. */
static void lead(tsr_bucket_prefetch *a, fetch *f, uint64_t object_size) {
  const uint64_t from = f->offset + f->size;
  if (!f->follows || f->led || from >= object_size) return;
  f->led = true;
  const tsr_bucket_part next = {f->key, from, TSR_MIN(2 * f->size, tsr__bucket_part_size(a->client)), false};
  if (find_fetch(a, f->key, false, from, 1)) return;
  fetch *added = a->bytes + next.size <= AHEAD_ROOM || make_room(a, next.size) ? add_fetch(a, &next) : NULL;
  if (!added) return;
  added->follows = true;
  send_waiting(a, false);
}

/* Makes a fetch for a part that was not announced. It follows the fetch that ends where it begins, if there is one. */
static fetch *fetch_now(tsr_bucket_prefetch *a, const tsr_bucket_part *part) {
  if (part->size > tsr__bucket_part_size(a->client)) return NULL;
  if (a->count >= AHEAD_MAX) forget_unused(a);
  tsr_bucket_part whole = aligned(part);
  const fetch *before = whole.offset ? find_fetch(a, part->key, false, whole.offset - 1, 1) : NULL;
  if (before) whole.size = TSR_MIN(TSR_MAX(whole.size, 2 * before->size), tsr__bucket_part_size(a->client));
  whole.size = TSR_MAX(whole.size, aligned(part).size);
  const bool follows = before != NULL;
  fetch *f = make_room(a, whole.size) ? add_fetch(a, &whole) : NULL;
  if (f) f->follows = follows;
  return f;
}

int tsr__bucket_prefetch_read(tsr_bucket_prefetch *ahead, const char *key, uint64_t object_size, uint64_t offset,
                              void *buffer, uint64_t size, tsr_error *error) {
  const tsr_bucket_part part = {key, offset, size, false};
  int rc = 0;
  pthread_mutex_lock(&ahead->mutex);
  fetch *f = find_fetch(ahead, key, false, offset, size);
  if (!f) f = fetch_now(ahead, &part);
  if (f) {
    f->users++;
    rc = await_fetch(ahead, f, error);
    if (rc >= 0) lead(ahead, f, object_size);
    f->users--;
    if (rc >= 0 && f->bytes.size >= offset - f->offset + size) {
      memcpy(buffer, f->bytes.data + (offset - f->offset), size);
      rc = 1;
    } else if (rc >= 0) rc = 0;
    if (f->failed && f->users == 0) drop_fetch(ahead, f);
  }
  pthread_mutex_unlock(&ahead->mutex);
  return rc;
}

int tsr__bucket_prefetch_tail(tsr_bucket_prefetch *ahead, const char *key, tsr_buffer *bytes, uint64_t *object_size,
                              tsr_error *error) {
  int rc = 0;
  pthread_mutex_lock(&ahead->mutex);
  fetch *f = find_fetch(ahead, key, true, 0, 0);
  if (f) {
    f->users++;
    rc = await_fetch(ahead, f, error);
    f->users--;
    if (rc >= 0 && f->missing) rc = tsr__fail(error, TSR_NOT_FOUND, "no such object");
    else if (rc >= 0 && f->whole) {
      rc = tsr__buffer_append(bytes, f->bytes.data, f->bytes.size, error);
      *object_size = f->size;
      if (rc >= 0) rc = 1;
    } else if (rc >= 0 && !f->failed && f->users == 0) {
      tsr__buffer_release(bytes);
      *bytes = f->bytes;
      *object_size = f->call.result.object_size;
      f->bytes = (tsr_buffer){.memory = ahead->memory};
      rc = 1;
    } else if (rc >= 0) rc = 0; /* it failed, or another reader wants it as well */
    if (f->users == 0 && f->state == HERE && !f->whole) drop_fetch(ahead, f);
    send_waiting(ahead, false);
  }
  pthread_mutex_unlock(&ahead->mutex);
  return rc;
}

/* ---- What the store has written ---------------------------------------------------------------------------------- */

/* Drops the oldest kept object that nobody reads. */
static bool drop_kept(tsr_bucket_prefetch *a) {
  fetch *f = a->first;
  while (f && (!f->whole || f->users > 0)) f = f->next;
  if (f) drop_fetch(a, f);
  return f;
}

void tsr__bucket_prefetch_keep(tsr_bucket_prefetch *ahead, const char *key, tsr_buffer *bytes) {
  const tsr_bucket_part part = {key, 0, bytes->size, true};
  pthread_mutex_lock(&ahead->mutex);
  while (ahead->kept + part.size > KEPT_ROOM && drop_kept(ahead)) {}
  fetch *f = ahead->kept + part.size <= KEPT_ROOM && make_room(ahead, part.size) ? add_fetch(ahead, &part) : NULL;
  if (f) {
    f->whole = true;
    f->state = HERE;
    f->bytes = *bytes;
    ahead->bytes += f->size;
    ahead->kept += f->size;
    *bytes = (tsr_buffer){.memory = ahead->memory};
  }
  pthread_mutex_unlock(&ahead->mutex);
  tsr__buffer_release(bytes);
}

void tsr__bucket_prefetch_forget(tsr_bucket_prefetch *ahead, const char *key) {
  const uint64_t hash = tsr__hash_text(0, key);
  pthread_mutex_lock(&ahead->mutex);
  for (fetch *f = ahead->first, *next; f && ahead->kept > 0; f = next) {
    next = f->next;
    if (f->whole && f->hash == hash && f->users == 0 && strcmp(f->key, key) == 0) drop_fetch(ahead, f);
  }
  pthread_mutex_unlock(&ahead->mutex);
}

void tsr__bucket_prefetch_doubt(tsr_bucket_prefetch *ahead) {
  pthread_mutex_lock(&ahead->mutex);
  forget_unused(ahead);
  pthread_mutex_unlock(&ahead->mutex);
}
