/* base.h: what every room stands on: checked integers, bytes in and out, errors, memory, worker threads.
 *
 * Layers (docs/design.md): base < store, crypto, model < filter < format < array < ops. tessera.h, the public
 * vocabulary, is seen by all. A name tsr__noun_verb is shared between core files; a static function has a bare name.
 */
#ifndef TSR_BASE_H
#define TSR_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "tessera.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tessera keeps decoded tiles as they stand in files: little-endian machines only"
#endif

#define TSR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TSR_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- Checked arithmetic: true if the result fits -------------------------------------------------------------- */
static inline bool tsr__add(uint64_t a, uint64_t b, uint64_t *r) { return !__builtin_add_overflow(a, b, r); }
static inline bool tsr__mul(uint64_t a, uint64_t b, uint64_t *r) { return !__builtin_mul_overflow(a, b, r); }
/* a + b and a * b, or UINT64_MAX: for sizes that are compared with a limit next */
static inline uint64_t tsr__add_sat(uint64_t a, uint64_t b) {
  uint64_t r;
  return tsr__add(a, b, &r) ? r : UINT64_MAX;
}
static inline uint64_t tsr__mul_sat(uint64_t a, uint64_t b) {
  uint64_t r;
  return tsr__mul(a, b, &r) ? r : UINT64_MAX;
}

/* ---- Unaligned loads and stores; little-endian as all of the format, big-endian (_be) in RLE and dictionaries ---- */
static inline uint16_t tsr__load16(const void *p) {
  uint16_t v;
  memcpy(&v, p, 2);
  return v;
}
static inline uint32_t tsr__load32(const void *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}
static inline uint64_t tsr__load64(const void *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}
static inline void tsr__store16(void *p, uint16_t v) { memcpy(p, &v, 2); }
static inline void tsr__store32(void *p, uint32_t v) { memcpy(p, &v, 4); }
static inline void tsr__store64(void *p, uint64_t v) { memcpy(p, &v, 8); }
/* `width` bytes (1, 2, 4, 8), big-endian */
static inline uint64_t tsr__load_be(const uint8_t *p, unsigned width) {
  uint64_t v = 0;
  for (unsigned i = 0; i < width; i++) v = v << 8 | p[i];
  return v;
}
static inline void tsr__store_be(uint8_t *p, unsigned width, uint64_t v) {
  for (unsigned i = width; i-- > 0; v >>= 8) p[i] = (uint8_t)v;
}

/* ---- Errors (error.c) ------------------------------------------------------------------------------------------ */
#define TSR_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* Sets the error and returns its code, for `return tsr__fail(error, TSR_CORRUPT, "...", ...)`. */
int tsr__fail(tsr_error *error, int code, const char *format, ...) TSR_PRINTF(3, 4);
/* Puts "context: " before the message, keeps the code, returns it. Without an error (an internal call whose answer is not looked at) the code is
 * not known: TSR_ERROR. */
int tsr__wrap(tsr_error *error, const char *format, ...) TSR_PRINTF(2, 3);
/* The first statement of every public function that takes an error: behind it `error` is never NULL, so that whoever passes NULL gets the same
 * code, and what is done after a failure is the same (test_null_error.c calls each of them so). */
#define TSR_OWN_ERROR(error)                                                                                           \
  tsr_error tsr_unseen_;                                                                                               \
  if (!(error)) (error) = tsr__error_clear(&tsr_unseen_)
static inline tsr_error *tsr__error_clear(tsr_error *error) {
  error->code = TSR_OK;
  error->message[0] = 0;
  return error;
}
#define TSR_TRY(call)                                                                                                  \
  do {                                                                                                                 \
    int tsr_try_ = (call);                                                                                             \
    if (tsr_try_ < 0) return tsr_try_;                                                                                 \
  } while (0)

/* ---- Memory (memory.c) ------------------------------------------------------------------------------------------
 * Every allocation names the tsr_memory that pays for it. A child pays with its parent's money too, so a query's budget
 * stands within the environment's. Blocks remember who pays: tsr__free needs only the pointer. Thread-safe. */
typedef struct tsr_memory {
  struct tsr_memory *parent;
  void *(*reallocate)(void *argument, void *pointer, uint64_t size);
  void *argument;
  uint64_t limit; /* bytes; UINT64_MAX = none */
  const char *name; /* of the limit, for messages: "memory_mb" */
  uint64_t largest; /* bytes of a block that the allocator can give, at most */
  _Atomic uint64_t used, peak;
  bool (*interrupted)(void *argument); /* of a root: does its host want long work to end? NULL: never (tsr__stopped) */
  void *interrupted_argument;
  _Atomic uint64_t work; /* of a root: done since its host was asked */
  struct tsr_spares *spares; /* of a root: libraries' contexts that wait to be used again (filter.h); NULL: none is kept */
} tsr_memory;
/* A root: allocator (NULL: the C library's) and no limit. */
void tsr__memory_init_root(tsr_memory *memory, void *(*reallocate)(void *, void *, uint64_t), void *argument);
void tsr__memory_init(tsr_memory *memory, tsr_memory *parent, uint64_t limit, const char *name);
/* TSR_OK; TSR_BUDGET past a limit, with a message that says how much was asked for and names the limit; or TSR_NOMEM where
 * the allocator has no more. `*pointer` is set only on success. A size of 0 gives a block that can be freed. */
int tsr__alloc(tsr_memory *memory, uint64_t size, void **pointer, tsr_error *error);
int tsr__alloc_zero(tsr_memory *memory, uint64_t size, void **pointer, tsr_error *error);
int tsr__alloc_array(tsr_memory *memory, uint64_t count, uint64_t size, void **pointer,
                     tsr_error *error); /* checked product, zeroed */
int tsr__realloc(tsr_memory *memory, uint64_t size, void **pointer,
                 tsr_error *error); /* *pointer may be NULL; unchanged on failure */
void tsr__free(void *pointer); /* NULL is fine */
/* Counts bytes that others hold for us (a pinned tile, a library's context) against the budget, without allocating. */
int tsr__memory_charge(tsr_memory *memory, uint64_t size, tsr_error *error);
void tsr__memory_release(tsr_memory *memory, uint64_t size);
static inline tsr_memory *tsr__memory_root(tsr_memory *memory) {
  while (memory->parent) memory = memory->parent;
  return memory;
}
/* Was there too little memory, by a budget or of the machine? Who can do with less tries again, whichever it was. */
static inline bool tsr__lacks_memory(int code) { return code == TSR_BUDGET || code == TSR_NOMEM; }
/* Zeroes memory in a way that no compiler removes. */
void tsr__wipe(void *pointer, uint64_t size);

/* An arena: many small blocks that live as long as it does. `= {0}` then init; release frees all. Not thread-safe. */
typedef struct tsr_arena {
  tsr_memory *memory;
  struct tsr_arena_block *blocks;
  uint64_t at, capacity;
} tsr_arena;
void tsr__arena_init(tsr_arena *arena, tsr_memory *memory);
void tsr__arena_release(tsr_arena *arena);
/* Frees all but the largest block, which is used again. */
void tsr__arena_reset(tsr_arena *arena);
int tsr__arena_alloc(tsr_arena *arena, uint64_t size, void **pointer,
                     tsr_error *error); /* 16-byte aligned, not zeroed */
int tsr__arena_array(tsr_arena *arena, uint64_t count, uint64_t size, void **pointer,
                     tsr_error *error); /* checked, zeroed */
int tsr__arena_copy(tsr_arena *arena, const void *bytes, uint64_t size, void **pointer,
                    tsr_error *error); /* plus a NUL byte behind */

/* A growable buffer. `= {.memory = m}`; release frees. Growth is by half again at least. */
typedef struct tsr_buffer {
  tsr_memory *memory;
  uint8_t *data;
  uint64_t size, capacity;
} tsr_buffer;
int tsr__buffer_reserve(tsr_buffer *buffer, uint64_t more, tsr_error *error); /* room for `more` bytes behind size */
int tsr__buffer_append(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error);
int tsr__buffer_append_u8(tsr_buffer *buffer, uint8_t value, tsr_error *error);
int tsr__buffer_append_u32(tsr_buffer *buffer, uint32_t value, tsr_error *error);
int tsr__buffer_append_u64(tsr_buffer *buffer, uint64_t value, tsr_error *error);
int tsr__buffer_printf(tsr_buffer *buffer, tsr_error *error, const char *format, ...)
    TSR_PRINTF(3, 4); /* no NUL counted */
/* Gives back most of the room that its bytes do not need. */
void tsr__buffer_shrink(tsr_buffer *buffer);
void tsr__buffer_release(tsr_buffer *buffer);

/* ---- Bytes from files (bytes.c) -----------------------------------------------------------------------------------
 * The only way by which bytes from a file become values. Sticky: past the end everything reads as 0 and `failed` stays
 * set, so a decoder reads a whole record and asks once. A count from a file is checked with tsr__input_fits before
 * memory is taken for it. */
typedef struct tsr_input {
  const uint8_t *data;
  uint64_t size, at;
  bool failed;
} tsr_input;
static inline tsr_input tsr__input(const void *data, uint64_t size) {
  return (tsr_input){(const uint8_t *)data, size, 0, false};
}
static inline uint64_t tsr__input_left(const tsr_input *in) { return in->size - in->at; }
const uint8_t *tsr__input_take(tsr_input *in,
                               uint64_t size); /* borrowed from data; NULL and failed if there are fewer */
uint8_t tsr__input_u8(tsr_input *in);
uint16_t tsr__input_u16(tsr_input *in);
uint32_t tsr__input_u32(tsr_input *in);
uint64_t tsr__input_u64(tsr_input *in);
double tsr__input_f64(tsr_input *in);
bool tsr__input_fits(tsr_input *in, uint64_t count,
                     uint64_t size); /* can count records of at least size bytes be left? else failed */
/* TSR_OK, or TSR_CORRUPT "WHAT ends early: byte AT of SIZE". */
int tsr__input_check(const tsr_input *in, const char *what, tsr_error *error);

/* ---- Worker threads (pool.c) --------------------------------------------------------------------------------------
 * One pool for the process, started on first use, started anew after fork. Calls fn(argument, i) for each i < count on
 * up to `threads` threads, the caller among them; returns when all have returned: TSR_OK, or the error of the lowest i
 * that failed (the others may not have run). threads <= 1 runs on the caller alone. Not to be called from within fn. */
typedef int (*tsr_task)(void *argument, uint64_t index, tsr_error *error);
int tsr__parallel_for(unsigned threads, uint64_t count, tsr_task fn, void *argument, tsr_error *error);
/* TSR_INTERRUPT if the host to which this memory belongs wants to stop. Workers do not ask the host: they stop once the
 * caller of their job was told to. What takes long within a task asks this now and then. */
int tsr__stopped(tsr_memory *memory, tsr_error *error);
/* The same, but the host is asked only where so much decoding, with what was done since it was asked last, is more than it
 * waits for: 4 MiB or 65,536 cells. Asked before it is done. */
int tsr__stopped_after(tsr_memory *memory, uint64_t bytes, uint64_t cells, tsr_error *error);
/* tsr__parallel_for in two parts, so that workers are at it while the caller does something else. The caller's thread takes
 * no part before the finish, which does what is left and returns when all is done; while it waits it asks the host of
 * `memory` (NULL: nobody) whether to stop. Each job that was started is finished or cancelled, once, in the memory where
 * it was started. workers 0, or none to be had: the finish does all, and so it does in a child that was forked meanwhile. */
typedef struct tsr_job {
  struct tsr_job *next, *previous;
  tsr_task fn;
  void *argument;
  uint64_t count;
  _Atomic uint64_t at; /* the next index */
  _Atomic bool failed; /* hand out no more */
  _Atomic bool interrupted; /* and end what is at work */
  unsigned wanted, joined; /* workers: how many at most, how many so far */
  unsigned helpers;
  int64_t process; /* that started it, where it wanted workers */
  pthread_cond_t done; /* helpers has become 0 */
  uint64_t failed_at;
  int code;
  tsr_error error;
} tsr_job;
void tsr__job_start(tsr_job *job, unsigned workers, uint64_t count, tsr_task fn, void *argument);
int tsr__job_finish(tsr_job *job, tsr_memory *memory, tsr_error *error);
void tsr__job_cancel(tsr_job *job); /* waits until what has begun has ended, by itself or because it asks */
bool tsr__job_goes_on(const tsr_job *job); /* are there indexes that nobody has taken? */
unsigned tsr__cores(void); /* at least 1 */

/* Globals, made on first use in each process: after a fork the child finds its parent's, whose mutex may be locked for
 * ever. `state`, zero at first, is the process id * 2, + 1 once they are made. True: the caller makes them, and then
 * says so; others wait. */
bool tsr__process_enter(_Atomic uint64_t *state);
void tsr__process_made(_Atomic uint64_t *state);

#endif
