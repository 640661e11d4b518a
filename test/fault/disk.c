/* disk.c: the nodes of the disk in memory, its faults, its log, and its crashes (disk.h).
 *
 * A node is a file or a directory. Its number identifies it as long as the disk lives. A directory has no bytes, a file no
 * names.
 */

#include <stdio.h>

#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
  char *name;
  int node;
} entry;

typedef struct names { /* in any order */
  entry *items;
  unsigned count;
} names;

typedef struct bytes {
  uint8_t *data;
  uint64_t size;
} bytes;

typedef struct change { /* since the last sync */
  char *gone, *come; /* in a directory: the name that is removed, and the name that is added; NULL: none */
  int node;
  int other; /* the node that gets the name `gone`, where two names change their nodes; 0: none */
  bool cut; /* in a file: truncated to `offset`; otherwise `what` is written at `offset` */
  uint64_t offset;
  bytes what;
} change;

typedef struct node {
  bool directory, anonymous;
  names names, kept_names;
  bytes bytes, kept;
  change *changes;
  unsigned change_count;
  uint64_t stamp, modified;
  disk_lock lock;
} node;

struct disk {
  node *nodes;
  int count;
};

disk *disk_now;
const disk_machines *disk_machines_now;
_Atomic int disk_files_open;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
const char *const disk_fault_names[DISK_FAULTS] = {"none", "EIO", "ENOSPC", "short read", "EIO after it was done"};

static void *need(void *memory) {
  if (!memory) abort(); /* this is the test's own memory, which no injected fault concerns */
  return memory;
}

/* ---- Names and bytes --------------------------------------------------------------------------------------------- */

static char *copy_text(const char *text) { return text ? need(strdup(text)) : NULL; }

static bytes copy_bytes(bytes from) {
  bytes to = {need(malloc(from.size + 1)), from.size};
  if (from.size) memcpy(to.data, from.data, from.size);
  return to;
}

static names copy_names(names from) {
  names to = {need(calloc(from.count + 1, sizeof(entry))), from.count};
  for (unsigned i = 0; i < from.count; i++) to.items[i] = (entry){copy_text(from.items[i].name), from.items[i].node};
  return to;
}

static void free_names(names *n) {
  for (unsigned i = 0; i < n->count; i++) free(n->items[i].name);
  free(n->items);
  *n = (names){0};
}

static entry *find_name(const names *in, const char *name, size_t size) {
  for (unsigned i = 0; i < in->count; i++)
    if (!strncmp(in->items[i].name, name, size) && !in->items[i].name[size]) return &in->items[i];
  return NULL;
}

static void remove_name(names *in, const char *name) {
  entry *e = find_name(in, name, strlen(name));
  if (!e) return;
  free(e->name);
  *e = in->items[--in->count];
}

static void set_name(names *in, const char *name, int number) {
  entry *e = find_name(in, name, strlen(name));
  if (!e) {
    in->items = need(realloc(in->items, (in->count + 1) * sizeof(entry)));
    e = &in->items[in->count++];
    e->name = copy_text(name);
  }
  e->node = number;
}

static void resize(bytes *b, uint64_t size) {
  b->data = need(realloc(b->data, size + 1));
  if (size > b->size) memset(b->data + b->size, 0, size - b->size);
  b->size = size;
}

static void put(bytes *b, uint64_t offset, const uint8_t *from, uint64_t size) {
  if (!size) return;
  if (offset + size > b->size) resize(b, offset + size);
  if (from) memcpy(b->data + offset, from, size);
  else memset(b->data + offset, 0, size);
}

static void free_change(change *c) {
  free(c->gone);
  free(c->come);
  free(c->what.data);
}

static void settle(node *n) {
  for (unsigned i = 0; i < n->change_count; i++) free_change(&n->changes[i]);
  free(n->changes);
  n->changes = NULL;
  n->change_count = 0;
}

static change *add_change(node *n) {
  n->changes = need(realloc(n->changes, (n->change_count + 1) * sizeof(change)));
  change *c = &n->changes[n->change_count++];
  *c = (change){0};
  return c;
}

/* ---- Disks ------------------------------------------------------------------------------------------------------- */

static int add_node(disk *d, bool directory) {
  d->nodes = need(realloc(d->nodes, (size_t)(d->count + 1) * sizeof(node)));
  d->nodes[d->count] = (node){.directory = directory};
  return d->count++;
}

disk *disk_new(void) {
  disk *d = need(calloc(1, sizeof *d));
  add_node(d, true);
  return d;
}

disk *disk_copy(const disk *d) {
  disk *copy = need(calloc(1, sizeof *copy));
  copy->count = d->count;
  copy->nodes = need(calloc((size_t)d->count, sizeof(node)));
  for (int i = 0; i < d->count; i++) {
    const node *from = &d->nodes[i];
    node *to = &copy->nodes[i];
    *to = (node){.directory = from->directory,
                 .anonymous = from->anonymous,
                 .names = copy_names(from->names),
                 .kept_names = copy_names(from->kept_names),
                 .bytes = copy_bytes(from->bytes),
                 .kept = copy_bytes(from->kept),
                 .stamp = from->stamp,
                 .modified = from->modified};
    for (unsigned j = 0; j < from->change_count; j++) {
      const change *c = &from->changes[j];
      *add_change(to) =
          (change){copy_text(c->gone), copy_text(c->come), c->node, c->other, c->cut, c->offset, copy_bytes(c->what)};
    }
  }
  return copy;
}

void disk_free(disk *d) {
  for (int i = 0; d && i < d->count; i++) {
    node *n = &d->nodes[i];
    free_names(&n->names);
    free_names(&n->kept_names);
    free(n->bytes.data);
    free(n->kept.data);
    settle(n);
  }
  if (d) free(d->nodes);
  free(d);
}

bool disk_is_path(const char *path) {
  size_t size = strlen(DISK_ROOT);
  return !strncmp(path, DISK_ROOT, size) && (!path[size] || path[size] == '/');
}

/* Finds the node of a path. *parent is the directory that the node is or would be in, *last the node's name there. */
static int walk(const disk *d, const char *path, int *parent, const char **last) {
  int at = 0;
  *parent = -1;
  *last = "";
  for (path += strlen(DISK_ROOT); *path == '/';) {
    while (*path == '/') path++;
    size_t size = strcspn(path, "/");
    if (!size) break;
    if (at < 0) {
      *parent = -1;
      return at;
    }
    if (!d->nodes[at].directory) {
      *parent = -1;
      return -ENOTDIR;
    }
    const entry *e = find_name(&d->nodes[at].names, path, size);
    *parent = at;
    *last = path;
    at = e ? e->node : -ENOENT;
    path += size;
  }
  return at;
}

static char *last_part(const char *last) { return need(strndup(last, strcspn(last, "/"))); }

int disk_find(disk *d, const char *path, bool *directory) {
  int parent;
  const char *last;
  pthread_mutex_lock(&mutex);
  int found = walk(d, path, &parent, &last);
  if (found >= 0 && directory) *directory = d->nodes[found].directory;
  pthread_mutex_unlock(&mutex);
  return found;
}

bool disk_entry(const disk *d, int directory, unsigned index, const char **name, bool *is_directory) {
  const names *n = &d->nodes[directory].names;
  if (index >= n->count) return false;
  *name = n->items[index].name;
  *is_directory = d->nodes[n->items[index].node].directory;
  return true;
}

uint64_t disk_changes(const disk *d, int directory) { return d->nodes[directory].stamp; }
uint64_t disk_size(const disk *d, int file) { return d->nodes[file].bytes.size; }
uint64_t disk_modified(const disk *d, int number) { return d->nodes[number].modified; }
disk_lock *disk_lock_of(disk *d, int file) { return &d->nodes[file].lock; }

static uint64_t mix(uint64_t digest, const void *data, uint64_t size) {
  const uint8_t *at = data;
  for (uint64_t word; size >= sizeof word; at += sizeof word, size -= sizeof word) {
    memcpy(&word, at, sizeof word);
    digest = (digest ^ word) * UINT64_C(0xff51afd7ed558ccd);
    digest ^= digest >> 32;
  }
  while (size-- > 0) digest = (digest ^ *at++) * UINT64_C(0x100000001b3);
  return digest ^ digest >> 29;
}

static uint64_t digest_of(const disk *d, int number) {
  const node *n = &d->nodes[number];
  uint64_t digest = mix(n->directory + 1u, n->bytes.data, n->bytes.size), inner = 0;
  for (unsigned i = 0; i < n->names.count; i++) { /* the sum does not depend on the order of the names */
    const uint64_t child = digest_of(d, n->names.items[i].node);
    inner += mix(child, n->names.items[i].name, strlen(n->names.items[i].name));
  }
  return mix(digest, &inner, sizeof inner);
}

uint64_t disk_digest(const disk *d) { return digest_of(d, 0); }

uint64_t disk_digest_under(const disk *d, const char *path) {
  int parent;
  const char *last;
  const int found = walk(d, path, &parent, &last);
  return found < 0 ? 0 : digest_of(d, found);
}

bool disk_has(const disk *d, const char *suffix) {
  const size_t end = strlen(suffix);
  for (int i = 0; i < d->count; i++) {
    const names *n = &d->nodes[i].names;
    for (unsigned k = 0; k < n->count; k++) {
      const size_t size = strlen(n->items[k].name);
      if (size >= end && !strcmp(n->items[k].name + size - end, suffix)) return true;
    }
  }
  return false;
}

bool disk_locked(const disk *d) {
  for (int i = 0; i < d->count; i++) {
    const disk_lock *l = &d->nodes[i].lock;
    if (l->shared || l->reserved || l->pending || l->exclusive) return true;
  }
  return false;
}

int disk_anonymous(disk *d) {
  int file = add_node(d, false);
  d->nodes[file].anonymous = true;
  return file;
}

static void print_node(const disk *d, int number, int depth, FILE *to) {
  const node *n = &d->nodes[number];
  for (unsigned i = 0; i < n->names.count; i++) {
    const node *inner = &d->nodes[n->names.items[i].node];
    fprintf(to, "    %*s%s%s", 2 * depth, "", n->names.items[i].name, inner->directory ? "/\n" : "");
    if (inner->directory) print_node(d, n->names.items[i].node, depth + 1, to);
    else fprintf(to, " %llu\n", (unsigned long long)inner->bytes.size);
  }
}

void disk_print(const disk *d, FILE *to) { print_node(d, 0, 0, to); }

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

static atomic_int armed;
static atomic_long calls, fail_from, fail_to, failed;

void disk_arm(disk_fault fault, long from, long to) {
  atomic_store(&calls, 0);
  atomic_store(&failed, 0);
  atomic_store(&fail_from, from);
  atomic_store(&fail_to, to);
  atomic_store(&armed, (int)fault);
}

long disk_disarm(void) {
  atomic_store(&fail_to, 0);
  return atomic_load(&calls);
}

long disk_failed(void) { return atomic_load(&failed); }

static bool concerns(disk_fault fault, disk_act act) {
  switch (fault) {
  case DISK_FULL: return act == DISK_MAKE || act == DISK_WRITE;
  case DISK_SHORT: return act == DISK_READ;
  case DISK_LATE: return act >= DISK_MAKE;
  default: return true;
  }
}

/* Counts a call. Returns the errno with which the call fails, or 0. It is asked twice about a call that changes the disk:
 * before the change, and with `late` after it, for DISK_LATE. */
static int judge(disk_act act, bool late) {
  const int refused = disk_machines_now ? disk_machines_now->turn(act, late) : 0;
  if (refused) return refused;
  disk_fault fault = (disk_fault)atomic_load(&armed);
  if (!concerns(fault, act) || late != (fault == DISK_LATE)) return 0;
  long number = atomic_fetch_add(&calls, 1) + 1;
  if (number < atomic_load(&fail_from) || number >= atomic_load(&fail_to)) return 0;
  atomic_fetch_add(&failed, 1);
  return fault == DISK_FULL ? ENOSPC : fault == DISK_SHORT ? ENODATA : EIO;
}

int disk_look(void) { return -judge(DISK_LOOK, false); }

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

typedef struct logged {
  disk_act act;
  char *path, *to;
  int node;
  bool flag; /* DISK_MAKE: the node is a directory; a rename: the target must not exist */
  uint64_t offset;
  bytes what;
} logged;

static logged *journal;
static unsigned journal_size;
static const disk *logging; /* the disk whose changes are logged, or NULL */

static void touch(node *n) {
  if (disk_machines_now) n->modified = disk_machines_now->written();
}

static void note(node *n, const char *gone, const char *come, int number) {
  change *c = add_change(n);
  *c = (change){.gone = copy_text(gone), .come = copy_text(come), .node = number};
  static _Atomic uint64_t stamps;
  n->stamp = ++stamps;
  touch(n);
}

static int make(disk *d, const logged *l) {
  int parent;
  const char *last;
  int found = walk(d, l->path, &parent, &last);
  if (found >= 0) return -EEXIST;
  if (parent < 0) return found;
  char *name = last_part(last);
  int number = add_node(d, l->flag);
  touch(&d->nodes[number]);
  set_name(&d->nodes[parent].names, name, number);
  note(&d->nodes[parent], NULL, name, number);
  free(name);
  return number;
}

static int rename_node(disk *d, const logged *l) {
  int parents[2];
  const char *last[2];
  int from = walk(d, l->path, &parents[0], &last[0]), to = walk(d, l->to, &parents[1], &last[1]);
  if (from < 0) return from;
  if (parents[0] < 0 || parents[1] < 0) return to < 0 ? to : -EBUSY;
  if (to >= 0 && l->flag) return -EEXIST;
  if (to >= 0 && d->nodes[to].directory != d->nodes[from].directory) return -EEXIST;
  if (to >= 0 && d->nodes[to].names.count) return -ENOTEMPTY;
  char *gone = last_part(last[0]), *come = last_part(last[1]);
  node *a = &d->nodes[parents[0]], *b = &d->nodes[parents[1]];
  if (from != to) {
    remove_name(&a->names, gone);
    set_name(&b->names, come, from);
    if (a == b) {
      note(a, gone, come, from);
    } else {
      note(a, gone, NULL, from);
      note(b, NULL, come, from);
    }
  }
  free(gone);
  free(come);
  return 0;
}

static int exchange_nodes(disk *d, const logged *l) {
  int parents[2];
  const char *last[2];
  const int one = walk(d, l->path, &parents[0], &last[0]), other = walk(d, l->to, &parents[1], &last[1]);
  if (one < 0 || other < 0) return one < 0 ? one : other;
  if (parents[0] != parents[1] || parents[0] < 0) return -EXDEV;
  node *parent = &d->nodes[parents[0]];
  char *ends[2] = {last_part(last[0]), last_part(last[1])};
  set_name(&parent->names, ends[0], other);
  set_name(&parent->names, ends[1], one);
  note(parent, ends[0], ends[1], one);
  parent->changes[parent->change_count - 1].other = other;
  free(ends[0]);
  free(ends[1]);
  return 0;
}

static int remove_node(disk *d, const logged *l) {
  int parent;
  const char *last;
  int found = walk(d, l->path, &parent, &last);
  if (found < 0) return found;
  if (parent < 0) return -EBUSY;
  if (d->nodes[found].names.count) return -ENOTEMPTY;
  char *name = last_part(last);
  remove_name(&d->nodes[parent].names, name);
  note(&d->nodes[parent], name, NULL, found);
  free(name);
  return 0;
}

static int sync_node(disk *d, const logged *l) {
  node *n = &d->nodes[l->node];
  if (n->directory) {
    free_names(&n->kept_names);
    n->kept_names = copy_names(n->names);
  } else {
    free(n->kept.data);
    n->kept = copy_bytes(n->bytes);
  }
  settle(n);
  return 0;
}

static int write_node(disk *d, const logged *l) {
  node *n = &d->nodes[l->node];
  put(&n->bytes, l->offset, l->what.data, l->what.size);
  touch(n);
  if (!n->anonymous) *add_change(n) = (change){.offset = l->offset, .what = copy_bytes(l->what)};
  return 0;
}

static int cut_node(disk *d, const logged *l) {
  node *n = &d->nodes[l->node];
  resize(&n->bytes, l->offset);
  touch(n);
  if (!n->anonymous) *add_change(n) = (change){.offset = l->offset, .cut = true};
  return 0;
}

static int perform(disk *d, const logged *l) {
  switch (l->act) {
  case DISK_MAKE: return make(d, l);
  case DISK_WRITE: return write_node(d, l);
  case DISK_CUT: return cut_node(d, l);
  case DISK_SYNC: return sync_node(d, l);
  case DISK_RENAME: return rename_node(d, l);
  case DISK_EXCHANGE: return exchange_nodes(d, l);
  case DISK_REMOVE: return remove_node(d, l);
  default: return -EINVAL;
  }
}

static void keep_log(const logged *l) {
  journal = need(realloc(journal, (journal_size + 1) * sizeof(logged)));
  logged *copy = &journal[journal_size++];
  *copy = *l;
  copy->path = copy_text(l->path);
  copy->to = copy_text(l->to);
  copy->what = copy_bytes(l->what);
}

/* Makes a change: counts it, lets it fail if that is due, logs it. */
static int act_on(disk *d, const logged *l) {
  bool counted = d == disk_now &&
                 !((l->act == DISK_WRITE || l->act == DISK_CUT || l->act == DISK_SYNC) && d->nodes[l->node].anonymous);
  int error = counted ? judge(l->act, false) : 0;
  if (error) return -error;
  pthread_mutex_lock(&mutex);
  int result = perform(d, l);
  if (result >= 0 && counted && d == logging) keep_log(l);
  pthread_mutex_unlock(&mutex);
  error = counted && result >= 0 ? judge(l->act, true) : 0;
  return error ? -error : result;
}

int disk_make(disk *d, const char *path, bool directory) {
  return act_on(d, &(logged){.act = DISK_MAKE, .path = (char *)path, .flag = directory});
}
int disk_write(disk *d, int file, uint64_t offset, const void *data, uint64_t size) {
  return act_on(d, &(logged){.act = DISK_WRITE, .node = file, .offset = offset, .what = {(uint8_t *)data, size}});
}
int disk_cut(disk *d, int file, uint64_t size) {
  return act_on(d, &(logged){.act = DISK_CUT, .node = file, .offset = size});
}
int disk_sync(disk *d, int number) { return act_on(d, &(logged){.act = DISK_SYNC, .node = number}); }
int disk_rename(disk *d, const char *from, const char *to, bool exclusive) {
  return act_on(d, &(logged){.act = DISK_RENAME, .path = (char *)from, .to = (char *)to, .flag = exclusive});
}
int disk_exchange(disk *d, const char *one, const char *other) {
  return act_on(d, &(logged){.act = DISK_EXCHANGE, .path = (char *)one, .to = (char *)other});
}
int disk_remove(disk *d, const char *path) { return act_on(d, &(logged){.act = DISK_REMOVE, .path = (char *)path}); }

int disk_read(disk *d, int file, uint64_t offset, void *buffer, uint64_t size, bool database) {
  pthread_mutex_lock(&mutex);
  const bool anonymous = d->nodes[file].anonymous;
  pthread_mutex_unlock(&mutex);
  const int error = anonymous ? 0 : judge(database ? DISK_READ_DATABASE : DISK_READ, false);
  if (error) return -error;
  pthread_mutex_lock(&mutex);
  const node *n = &d->nodes[file];
  uint64_t there = offset >= n->bytes.size ? 0 : n->bytes.size - offset;
  if (there > size) there = size;
  if (there) memcpy(buffer, n->bytes.data + offset, there);
  if (there < size) memset((uint8_t *)buffer + there, 0, size - there);
  pthread_mutex_unlock(&mutex);
  return there < size ? -ENODATA : 0;
}

/* ---- The log ----------------------------------------------------------------------------------------------------- */

void disk_log_begin(void) {
  for (unsigned i = 0; i < journal_size; i++) {
    free(journal[i].path);
    free(journal[i].to);
    free(journal[i].what.data);
  }
  journal_size = 0;
  logging = disk_now;
}

unsigned disk_log_end(void) {
  logging = NULL;
  return journal_size;
}

unsigned disk_log_size(void) { return journal_size; }
void disk_log_apply(disk *d, unsigned index) { perform(d, &journal[index]); }

void disk_log_print(unsigned index, char text[200]) {
  static const char *const words[] = {"", "", "", "make", "write", "cut", "sync", "rename", "exchange", "remove"};
  const logged *l = &journal[index];
  if (l->path) snprintf(text, 200, "%s %.80s %.80s", words[l->act], l->path, l->to ? l->to : "");
  else snprintf(text, 200, "%s node %d", words[l->act], l->node);
}

/* ---- Crashes ----------------------------------------------------------------------------------------------------- */

static uint64_t chance(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

typedef enum fate { LOST, WHOLE, HALF, ZERO } fate;

static void lose_names(node *n, unsigned loss, uint64_t *state, unsigned odds) {
  names left = copy_names(n->kept_names);
  for (unsigned i = 0; i < n->change_count; i++) {
    const change *c = &n->changes[i];
    bool stays =
        loss != DISK_LOSE_ALL && loss != DISK_LOSE_NAMES && (loss != DISK_LAST_NAME || i + 1 == n->change_count);
    if (loss >= DISK_LOSSES) stays = chance(state) % 8 < odds;
    if (stays && c->gone && !c->other) remove_name(&left, c->gone);
    if (stays && c->other) set_name(&left, c->gone, c->other);
    if (stays && c->come) set_name(&left, c->come, c->node);
  }
  free_names(&n->names);
  n->names = left;
}

static void lose_bytes(node *n, unsigned loss, uint64_t *state, unsigned odds) {
  static const fate fates[DISK_LOSSES] = {LOST, WHOLE, LOST, HALF, ZERO, WHOLE, WHOLE};
  bytes left = copy_bytes(n->kept);
  for (unsigned i = 0; i < n->change_count; i++) {
    const change *c = &n->changes[i];
    fate now = loss < DISK_LOSSES         ? fates[loss]
               : chance(state) % 8 < odds ? WHOLE
                                          : (fate[]){LOST, HALF, ZERO}[chance(state) % 3];
    if (loss == DISK_LOSE_HALF && i < n->change_count / 2) now = WHOLE;
    if (loss == DISK_LOSE_HALF && i > n->change_count / 2) now = LOST;
    if (c->cut && now == WHOLE) resize(&left, c->offset);
    if (c->cut || now == LOST) continue;
    uint64_t size = c->what.size, end = c->offset + size;
    if (now == HALF) size /= 2;
    if (now == ZERO && end > left.size) resize(&left, end); /* bytes that were there before are kept */
    if (now != ZERO) put(&left, c->offset, c->what.data, size);
  }
  free(n->bytes.data);
  n->bytes = left;
}

static void mark(const disk *d, int number, bool *there) {
  const names *n = &d->nodes[number].names;
  there[number] = true;
  for (unsigned i = 0; i < n->count; i++)
    if (!there[n->items[i].node]) mark(d, n->items[i].node, there);
}

/* Nobody has a file open any more, so what has no name is gone, and later copies of the disk need not have it. */
static void empty_lost(disk *d) {
  bool *there = need(calloc((size_t)d->count, sizeof *there));
  mark(d, 0, there);
  for (int i = 0; i < d->count; i++) {
    node *n = &d->nodes[i];
    if (there[i]) continue;
    free_names(&n->names);
    free_names(&n->kept_names);
    free(n->bytes.data);
    free(n->kept.data);
    n->bytes = n->kept = (bytes){0};
  }
  free(there);
}

disk *disk_crash(const disk *d, unsigned loss) {
  disk *left = disk_copy(d);
  uint64_t state = loss * UINT64_C(0x9e3779b97f4a7c15);
  chance(&state);
  const unsigned odds = 1 + (unsigned)(chance(&state) % 7);
  for (int i = 0; i < left->count; i++) {
    node *n = &left->nodes[i];
    if (n->directory) lose_names(n, loss, &state, odds);
    else lose_bytes(n, loss, &state, odds);
    sync_node(left, &(logged){.node = i});
  }
  empty_lost(left);
  return left;
}

/* ---- Copying from the real file system --------------------------------------------------------------------------- */

static int import_file(disk *d, const char *real, const char *path) {
  FILE *file = fopen(real, "rb");
  if (!file) return -errno;
  int number = disk_make(d, path, false), code = number < 0 ? number : 0;
  uint8_t buffer[4096];
  uint64_t at = 0;
  for (size_t got; code >= 0 && (got = fread(buffer, 1, sizeof buffer, file)) > 0; at += got)
    code = disk_write(d, number, at, buffer, got);
  if (code >= 0) code = disk_sync(d, number);
  fclose(file);
  return code;
}

int disk_import(disk *d, const char *real, const char *path) {
  DIR *directory = opendir(real);
  if (!directory) return errno == ENOTDIR ? import_file(d, real, path) : -errno;
  int number = disk_make(d, path, true), code = number < 0 ? number : 0;
  const struct dirent *e;
  while (code >= 0 && (e = readdir(directory))) {
    char from[2000], to[2000];
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(from, sizeof from, "%s/%s", real, e->d_name);
    snprintf(to, sizeof to, "%s/%s", path, e->d_name);
    code = disk_import(d, from, to);
  }
  closedir(directory);
  if (code >= 0) code = disk_sync(d, number);
  return code < 0 ? code : disk_sync(d, 0);
}
