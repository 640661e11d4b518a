#include "places.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <sqlite3ext.h> /* whose macros would go through a table */

#include "base/memory.h"

extern const char __executable_start; /* of the linker */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *places[PLACES_MAX]; /* by number */
static unsigned table[PLACES_MAX]; /* numbers by address; 0: none */
static bool met[PLACES_MAX];
static long count;
static atomic_bool watching;
static _Atomic(const char *) failing;
static atomic_bool again;
static atomic_long failed;

static void note(const char *at) {
  pthread_mutex_lock(&mutex);
  size_t i = ((uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15)) >> 51;
  while (table[i] && places[table[i]] != at) i = (i + 1) % PLACES_MAX;
  if (!table[i]) {
    if (count == PLACES_MAX * 3 / 4) abort();
    table[i] = (unsigned)++count;
    places[count] = at;
  }
  met[table[i]] = true;
  pthread_mutex_unlock(&mutex);
}

static bool fails(const void *at) {
  if (atomic_load(&watching)) note(at);
  const char *expected = at;
  if (atomic_load(&failing) != expected) return false;
  if (!atomic_load(&again) && !atomic_compare_exchange_strong(&failing, &expected, NULL)) return false;
  atomic_fetch_add(&failed, 1);
  return true;
}

void places_watch(void) {
  for (long n = 0; n < PLACES_MAX; n++) met[n] = false;
  atomic_store(&watching, true);
}

long places_count(void) { return count; }

bool places_met(long n) { return met[n]; }

void places_arm(long n, bool on) {
  atomic_store(&watching, false);
  atomic_store(&failed, 0);
  atomic_store(&again, on);
  atomic_store(&failing, n ? places[n] : NULL);
}

void places_end(void) {
  atomic_store(&watching, false);
  atomic_store(&failing, NULL);
}

long places_failed(void) { return atomic_load(&failed); }

unsigned long places_address(long n) { return (unsigned long)(places[n] - &__executable_start); }

/* ---- The functions ----------------------------------------------------------------------------------------------- */

static int fail(tsr_error *error) { return tsr__fail(error, TSR_NOMEM, "no memory at this place"); }

#define WRAP(name, needed, parameters, arguments)                                                                      \
  int __real_##name parameters;                                                                                        \
  int __wrap_##name parameters;                                                                                        \
  int __wrap_##name parameters {                                                                                       \
    return (needed) && fails(__builtin_return_address(0)) ? fail(error) : __real_##name arguments;                     \
  }

WRAP(tsr__alloc, true, (tsr_memory * m, uint64_t size, void *p, tsr_error *error), (m, size, p, error))
WRAP(tsr__alloc_zero, true, (tsr_memory * m, uint64_t size, void *p, tsr_error *error), (m, size, p, error))
WRAP(tsr__alloc_array, true, (tsr_memory * m, uint64_t n, uint64_t size, void *p, tsr_error *error),
     (m, n, size, p, error))
WRAP(tsr__alloc_raw, true, (tsr_memory * m, uint64_t n, uint64_t size, void *p, tsr_error *error),
     (m, n, size, p, error))
WRAP(tsr__realloc, true, (tsr_memory * m, uint64_t size, void *p, tsr_error *error), (m, size, p, error))
WRAP(tsr__realloc_array, true, (tsr_memory * m, uint64_t n, uint64_t size, void *p, tsr_error *error),
     (m, n, size, p, error))
WRAP(tsr__arena_alloc, true, (tsr_arena * a, uint64_t size, void *p, tsr_error *error), (a, size, p, error))
WRAP(tsr__arena_array, true, (tsr_arena * a, uint64_t n, uint64_t size, void *p, tsr_error *error),
     (a, n, size, p, error))
WRAP(tsr__arena_raw, true, (tsr_arena * a, uint64_t n, uint64_t size, void *p, tsr_error *error),
     (a, n, size, p, error))
WRAP(tsr__arena_copy, true, (tsr_arena * a, const void *b, uint64_t size, void *p, tsr_error *error),
     (a, b, size, p, error))

/* Code may rely on the room that it has reserved, so a buffer fails only where it must grow. */
static bool grows(const tsr_buffer *b, uint64_t more) { return more > b->capacity - b->size; }

WRAP(tsr__buffer_reserve, grows(b, more), (tsr_buffer * b, uint64_t more, tsr_error *error), (b, more, error))
WRAP(tsr__buffer_reserve_exactly, grows(b, more), (tsr_buffer * b, uint64_t more, tsr_error *error), (b, more, error))
WRAP(tsr__buffer_append, grows(b, size), (tsr_buffer * b, const void *p, uint64_t size, tsr_error *error),
     (b, p, size, error))
WRAP(tsr__buffer_append_u8, grows(b, 1), (tsr_buffer * b, uint8_t value, tsr_error *error), (b, value, error))
WRAP(tsr__buffer_append_u32, grows(b, 4), (tsr_buffer * b, uint32_t value, tsr_error *error), (b, value, error))
WRAP(tsr__buffer_append_u64, grows(b, 8), (tsr_buffer * b, uint64_t value, tsr_error *error), (b, value, error))

int __wrap_tsr__buffer_printf(tsr_buffer *buffer, tsr_error *error, const char *format, ...) TSR_PRINTF(3, 4);
int __wrap_tsr__buffer_printf(tsr_buffer *buffer, tsr_error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int size = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (grows(buffer, (uint64_t)size + 1) && fails(__builtin_return_address(0))) return fail(error);
  TSR_TRY(__real_tsr__buffer_reserve(buffer, (uint64_t)size + 1, error));
  va_start(arguments, format);
  buffer->size += (uint64_t)vsnprintf((char *)buffer->data + buffer->size, (size_t)size + 1, format, arguments);
  va_end(arguments);
  return TSR_OK;
}

/* ---- The extension's table of SQLite's functions ----------------------------------------------------------------- */

int sqlite3_tessera_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

static const sqlite3_api_routines *sqlite;

static void *place_malloc(int size) { return fails(__builtin_return_address(0)) ? NULL : sqlite->malloc(size); }

static void *place_malloc64(sqlite3_uint64 size) {
  return fails(__builtin_return_address(0)) ? NULL : sqlite->malloc64(size);
}

static void *place_realloc64(void *p, sqlite3_uint64 size) {
  return size && fails(__builtin_return_address(0)) ? NULL : sqlite->realloc64(p, size);
}

static sqlite3_value *place_value_dup(const sqlite3_value *value) {
  return value && fails(__builtin_return_address(0)) ? NULL : sqlite->value_dup(value);
}

static char *place_mprintf(const char *format, ...) {
  va_list arguments;
  if (fails(__builtin_return_address(0))) return NULL;
  va_start(arguments, format);
  char *text = sqlite->vmprintf(format, arguments);
  va_end(arguments);
  return text;
}

int places_load(sqlite3 *db, char **message, const sqlite3_api_routines *api) {
  static sqlite3_api_routines changed;
  if (!sqlite) {
    sqlite = api;
    changed = *api;
    changed.malloc = place_malloc;
    changed.malloc64 = place_malloc64;
    changed.realloc64 = place_realloc64;
    changed.value_dup = place_value_dup;
    changed.mprintf = place_mprintf;
  }
  return sqlite3_tessera_init(db, message, &changed);
}
