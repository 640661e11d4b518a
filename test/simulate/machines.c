/* machines.c: actors take turns, time passes, and faults strike (world.h). */
#include <errno.h>
#include <stdlib.h>
#include <ucontext.h>

#include "follow.h"
#include "model.h"
#include "world.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK (2 << 20)
#else
#define STACK (512 << 10)
#endif

typedef struct fiber {
  ucontext_t context;
  void (*life)(actor *a);
  char *stack;
} fiber;

typedef enum fault_kind {
  PROCESS_DIES,
  MACHINE_DIES,
  POWER_FAILS,
  CALLS_FAIL,
  DISK_IS_FULL,
  ERROR_AFTERWARDS,
  CLOCK_IS_SET,
  REQUESTS_FAIL,
  SERVER_FAILS,
  MACHINE_IS_CUT_OFF,
  FAULT_KINDS
} fault_kind;

static ucontext_t outside;

/* ---- Handing over ------------------------------------------------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__)
static const void *outside_stack;
static size_t outside_size;
#endif

static void enter(actor *a) {
  the.current = a;
#if defined(__SANITIZE_ADDRESS__)
  void *kept;
  __sanitizer_start_switch_fiber(&kept, a->fiber->stack, STACK);
  swapcontext(&outside, &a->fiber->context);
  __sanitizer_finish_switch_fiber(kept, NULL, NULL);
#else
  swapcontext(&outside, &a->fiber->context);
#endif
  the.current = NULL;
}

static void leave(actor *a) {
#if defined(__SANITIZE_ADDRESS__)
  void *kept;
  __sanitizer_start_switch_fiber(a->finished ? NULL : &kept, outside_stack, outside_size);
  swapcontext(&a->fiber->context, &outside);
  __sanitizer_finish_switch_fiber(kept, &outside_stack, &outside_size);
#else
  swapcontext(&a->fiber->context, &outside);
#endif
}

static void begin(void) {
  actor *a = the.current;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(NULL, &outside_stack, &outside_size);
#endif
  a->fiber->life(a);
  a->finished = true;
  leave(a);
}

void actor_start(actor *a, void (*life)(actor *a)) {
  fiber *f = calloc(1, sizeof *f);
  if (!f || !(f->stack = malloc(STACK))) abort();
  f->life = life;
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = STACK;
  f->context.uc_link = NULL;
  makecontext(&f->context, begin, 0);
  a->fiber = f;
}

void actor_sleep(int64_t nanoseconds) {
  actor *a = the.current;
  if (!a) the.now += nanoseconds;
  else if (a->dead) a->after_death += nanoseconds; /* it lives on in no time that others have */
  if (!a || a->dead) return;
  a->wake = the.now + nanoseconds;
  leave(a);
}

void actor_lie(actor *a) {
  a->down = true;
  a->failing = a->failing_requests = 0;
  a->after_death = 0;
  if (!the.power_is_off && one_in(2)) observe();
  a->wake = the.now + chance(3000) * INT64_C(1000000);
  leave(a);
}

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

static void die(actor *a) {
  if (a->finished || a->dead) return;
  a->dead = true;
  the.deaths++;
}

static void set_clock(machine *m) {
  static const int64_t most[] = {5, 1000, 4000, 600000}; /* ms */
  const int64_t range = most[chance(4)];
  m->offset += ((int64_t)chance((unsigned)(2 * range + 1)) - range) * 1000000;
  m->drift = (int)chance(2001) - 1000;
}

static void strike(actor *a) {
  fault_kind kind;
  do kind = chance(FAULT_KINDS);
  while (!(the.kinds & 1u << kind));
  the.faults++;
  if (one_in(2)) the.storm = the.steps + chance(400);
  say("actor %d: fault %d", a->number, kind);
  switch (kind) {
  case PROCESS_DIES: die(a); break;
  case MACHINE_DIES:
    for (int i = 0; i < the.actor_count; i++)
      if (the.actors[i].home == a->home) die(&the.actors[i]);
    break;
  case POWER_FAILS:
    the.power_is_off = true;
    for (int i = 0; i < the.actor_count; i++) die(&the.actors[i]);
    break;
  case CLOCK_IS_SET:
    if (!the.steady) set_clock(&the.machines[a->home]);
    break;
  case REQUESTS_FAIL: a->failing_requests = 1 + (int)chance(one_in(2) ? 3 : 30); break;
  case SERVER_FAILS: the.outage = the.now + chance(40000) * INT64_C(1000000); break;
  case MACHINE_IS_CUT_OFF: the.machines[a->home].cut_off = the.now + chance(90000) * INT64_C(1000000); break;
  default:
    a->fault = kind == CALLS_FAIL ? DISK_EIO : kind == DISK_IS_FULL ? DISK_FULL : DISK_LATE;
    a->failing = one_in(2) ? 1 : 1 + (int)chance(kind == ERROR_AFTERWARDS ? 2 : 30);
  }
}

static bool concerns(disk_fault fault, disk_act act, bool late) {
  if (late != (fault == DISK_LATE)) return false;
  return fault != DISK_FULL || act == DISK_MAKE || act == DISK_WRITE;
}

/* Faults are more frequent where much is at stake, and soon after another one. */
static unsigned odds(const actor *a) {
  unsigned n = the.fault_odds;
  if (a->delicate) n /= 6;
  if (the.steps < the.storm) n /= 6;
  return n ? n : 1;
}

/* Before a call or a request: time passes, something may happen, and others may go on. */
static void step(actor *a, unsigned what) {
  the.steps++;
  the.now += the.pace + chance(the.pace);
  trace((uint64_t)a->number << 8 | what);
  if (!the.stopping && the.kinds && one_in(odds(a))) strike(a);
  if (!a->dead && one_in(the.hand_over)) actor_sleep(0);
}

static int turn(disk_act act, bool late) {
  actor *a = the.current;
  if (!a) return 0;
  if (!a->dead && !late) step(a, act);
  if (a->dead) return EIO;
  if (a->failing <= 0 || !concerns(a->fault, act, late)) return 0;
  a->failing--;
  a->trouble = true;
  say("actor %d: a call fails", a->number);
#if defined(__SANITIZE_ADDRESS__)
  if (the.told) __sanitizer_print_stack_trace();
#endif
  return a->fault == DISK_FULL ? ENOSPC : EIO;
}

#define REQUEST 64 /* beside the acts of disk.h */

request_fate machines_request(void) {
  actor *a = the.current;
  request_fate fate = REQUEST_FINE;
  if (!a) return fate;
  if (!a->dead) step(a, REQUEST);
  if (a->dead) return REQUEST_DEAD;
  if (the.stopping) return fate;
  if (the.now < the.machines[a->home].cut_off) fate = one_in(4) ? REQUEST_ANSWER_LOST : REQUEST_LOST;
  else if (the.now < the.outage) fate = one_in(2) ? REQUEST_BUSY : REQUEST_LOST;
  else if (a->failing_requests > 0) {
    a->failing_requests--;
    fate = 1 + chance(REQUEST_LATE);
  }
  if (fate != REQUEST_FINE) a->trouble = true;
  return fate;
}

bool machines_dead(void) { return the.current && the.current->dead; }

static void power_comes_back(void) {
  disk *left = disk_crash(disk_now, one_in(3) ? chance(DISK_LOSSES) : DISK_LOSSES + chance(1000000));
  disk_free(disk_now);
  disk_now = left;
  the.power_is_off = false;
  the.power_failures++;
  model_power_failed(note_unknown);
  follow_power_failed();
  say("the power is back");
  observe();
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

static int64_t clock_now(bool steady) {
  the.now += 200;
  const actor *a = the.current;
  if (!a) return the.now;
  const int64_t now = the.now + a->after_death;
  if (steady || the.steady) return now;
  const machine *m = &the.machines[a->home];
  return now + m->offset + now % INT64_C(1000000000000) / 1000000 * m->drift;
}

int64_t machines_clock(void) { return clock_now(false); }

static uint64_t written(void) { return (uint64_t)(the.now / 1000000); }

/* ---- The scheduler ----------------------------------------------------------------------------------------------- */

static actor *choose(void) {
  actor *ready[ACTORS_MAX], *first = NULL;
  int count = 0;
  for (int i = 0; i < the.actor_count; i++) {
    actor *a = &the.actors[i];
    if (a->finished) continue;
    if (a->dead && !a->down) return a; /* nobody may see the disk of a dead process that still has its locks */
    if (!first || a->wake < first->wake) first = a;
    if (a->wake <= the.now) ready[count++] = a;
  }
  if (the.power_is_off) power_comes_back();
  if (count) return ready[chance((unsigned)count)];
  if (first && first->wake > the.now) the.now = first->wake;
  return first;
}

void machines_run(void) {
  for (actor *a; (a = choose());) {
    if (a->down) a->down = a->dead = false;
    if (the.steps > the.until) the.stopping = true;
    enter(a);
  }
}

void machines_begin(void) {
  static disk_machines machines = {.turn = turn, .sleep = actor_sleep, .clock = clock_now, .written = written};
  machines.locks = one_in(2);
  disk_machines_now = &machines;
}

void machines_end(void) {
  for (int i = 0; i < the.actor_count; i++) {
    fiber *f = the.actors[i].fiber;
    free(the.actors[i].unknown);
    if (!f) continue;
    free(f->stack);
    free(f);
  }
  disk_machines_now = NULL;
}
