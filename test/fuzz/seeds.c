/* seeds.c: makes inputs for the targets `array`, `sql` and `objects` from the corpus: each small array or group becomes a tree,
 * and each of its objects an input of its own.
 *
 * usage: seeds CORPUS OUT     writes to the directories OUT/array, OUT/sql and OUT/objects, which must exist
 */
#include <dirent.h>
#include <sys/stat.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/crypto.h"
#include "fuzz.h"

#define TREE_MAX   8000 /* bytes of a tree; larger ones are left out */
#define SQL_MAX    4000 /* bytes of a tree for `sql`, with its statements */
#define OBJECT_MAX 4000 /* bytes of an object */

enum { /* the kinds of objects, as in fuzz_objects.c */
       SCHEMA,
       ENUMERATION,
       METADATA,
       GROUP,
       CONDITION,
       COMMITS,
       NAMES,
       TILE,
       RTREE,
       FRAGMENT,
       FOOTERS
};

static tsr_memory memory;
static unsigned long number;

static void *take(tsr_arena *arena, const void *bytes, uint64_t size) {
  void *copy;
  CHECK(tsr__arena_copy(arena, bytes, size, &copy, NULL) == TSR_OK);
  return copy;
}

static void read_all(const char *path, tsr_buffer *out) {
  FILE *file = fopen(path, "rb");
  uint8_t block[4096];
  CHECK(file);
  for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
    CHECK(tsr__buffer_append(out, block, n, NULL) == TSR_OK);
  fclose(file);
}

static void write_seed(const char *out, const char *target, const char *noun, const tsr_buffer *bytes) {
  char path[4096];
  CHECK(snprintf(path, sizeof path, "%s/%s/%s-%lu", out, target, noun, number++) < (int)sizeof path);
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(bytes->data, 1, bytes->size, file) == bytes->size && fclose(file) == 0);
}

/* ---- Trees ------------------------------------------------------------------------------------------------------ */

/* Appends all files below `path`, with names that begin with the prefix. An empty directory is a name that ends with a slash. */
static void gather(const char *path, const char *prefix, const uint8_t *key, tsr_arena *arena, tree *t) {
  DIR *directory = opendir(path);
  uint32_t before = t->count;
  CHECK(directory);
  for (struct dirent *entry; (entry = readdir(directory)) && t->count < FILES_MAX;) {
    char below[4096], name[4096];
    struct stat status;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    CHECK(snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below && stat(below, &status) == 0);
    CHECK(snprintf(name, sizeof name, "%s%s", prefix, entry->d_name) < 250);
    if (S_ISDIR(status.st_mode)) {
      strcat(name, "/");
      gather(below, name, key, arena, t);
      continue;
    }
    tsr_buffer bytes = {.memory = &memory};
    read_all(below, &bytes);
    tree_file *file = &t->files[t->count++];
    *file = (tree_file){.path = take(arena, name, strlen(name)), .path_size = (uint8_t)strlen(name)};
    pieces_cut(take(arena, bytes.data, bytes.size), bytes.size, key, arena, &file->content);
    tsr__buffer_release(&bytes);
  }
  closedir(directory);
  if (t->count == before && *prefix && t->count < FILES_MAX) {
    tree_file *file = &t->files[t->count++];
    *file = (tree_file){.path = take(arena, prefix, strlen(prefix)), .path_size = (uint8_t)strlen(prefix)};
    file->content.count = 1;
  }
}

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

static void write_object(const char *out, uint8_t kind, uint8_t version, const piece *schema, const piece *of,
                         uint32_t count) {
  static const char *const nouns[] = {"schema", "enumeration", "metadata", "group",    "condition", "commits",
                                      "names",  "tile",        "rtree",    "fragment", "footers"};
  tsr_buffer bytes = {.memory = &memory};
  pieces p = {0};
  uint8_t head[3] = {kind, 0, version};
  if (schema) p.items[p.count++] = *schema;
  for (uint32_t i = 0; i < count && p.count < PIECES_MAX; i++) p.items[p.count++] = of[i];
  CHECK(tsr__buffer_append(&bytes, head, sizeof head, NULL) == TSR_OK);
  pieces_write(&p, &bytes);
  if (bytes.size <= OBJECT_MAX) write_seed(out, "objects", nouns[kind], &bytes);
  tsr__buffer_release(&bytes);
}

static bool ends(const char *text, const char *with) {
  size_t size = strlen(text), wanted = strlen(with);
  return size >= wanted && !strcmp(text + size - wanted, with);
}

static void objects_of(const char *out, const tree *t) {
  const piece *schema = NULL;
  for (uint32_t f = 0; f < t->count; f++) {
    const char *path = (const char *)t->files[f].path;
    bool is_schema = ends(path, "__array_schema.tdb") || (!strncmp(path, "__schema/", 9) && !strchr(path + 9, '/'));
    if (is_schema && t->files[f].content.items[0].kind == 1) schema = &t->files[f].content.items[0];
  }
  for (uint32_t f = 0; f < t->count; f++) {
    const char *path = (const char *)t->files[f].path;
    const pieces *content = &t->files[f].content;
    const piece *first = &content->items[0];
    uint8_t version = (uint8_t)(first->version ? first->version - 1 : 0); /* the target adds 1 */
    if (first == schema) write_object(out, SCHEMA, version, NULL, first, 1);
    else if (strstr(path, "__enumerations/")) write_object(out, ENUMERATION, version, NULL, first, 1);
    else if (strstr(path, "__meta/") && first->kind == 1) write_object(out, METADATA, version, NULL, first, 1);
    else if (strstr(path, "__group/") && first->kind == 1) write_object(out, GROUP, version, NULL, first, 1);
    else if (ends(path, ".del")) write_object(out, CONDITION, version, NULL, first, 1);
    else if (ends(path, ".con")) write_object(out, COMMITS, version, NULL, content->items, content->count);
    else if (ends(path, ".ign") || ends(path, ".vac"))
      write_object(out, NAMES, version, NULL, content->items, content->count);
    else if (ends(path, ".meta") && schema) write_object(out, FOOTERS, version, schema, first, 1);
    else if (ends(path, "__fragment_metadata.tdb") && schema) {
      write_object(out, FRAGMENT, first->version, schema, content->items, content->count);
      if (content->count > 1) write_object(out, RTREE, version, schema, first, 1);
    }
  }
}

/* Writes a generic tile with its stored bytes. */
static void tile_of(const char *out, const char *path) {
  tsr_buffer bytes = {.memory = &memory};
  read_all(path, &bytes);
  piece raw = {.bytes = bytes.data, .size = (uint32_t)bytes.size};
  write_object(out, TILE, 0, NULL, &raw, 1);
  tsr__buffer_release(&bytes);
}

/* ---- The corpus ------------------------------------------------------------------------------------------------- */

/* Reads "encryption_key": "..." from the description beside an array. */
static bool find_key(const char *path, uint8_t key[TSR_KEY_SIZE]) {
  char name[4096];
  struct stat status;
  tsr_buffer text = {.memory = &memory};
  CHECK(snprintf(name, sizeof name, "%s.json", path) < (int)sizeof name);
  if (stat(name, &status) != 0) return false;
  read_all(name, &text);
  CHECK(tsr__buffer_append(&text, "", 1, NULL) == TSR_OK);
  const char *at = strstr((const char *)text.data, "\"encryption_key\": \"");
  if (at) memcpy(key, at + strlen("\"encryption_key\": \""), TSR_KEY_SIZE);
  tsr__buffer_release(&text);
  return at != NULL;
}

static bool exists(const char *directory, const char *name) {
  char path[4096];
  struct stat status;
  CHECK(snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path);
  return stat(path, &status) == 0;
}

static void take_array(const char *path, const char *out) {
  tsr_arena arena = {0};
  tsr_buffer bytes = {.memory = &memory};
  tree t = {0};
  tsr__arena_init(&arena, &memory);
  void *files;
  CHECK(tsr__arena_array(&arena, FILES_MAX, sizeof(tree_file), &files, NULL) == TSR_OK);
  t.files = files;
  if (find_key(path, t.key)) t.flags = TREE_FILTERED | TREE_ENCRYPTED;
  gather(path, "", tree_key(&t), &arena, &t);
  tree_write(&t, &bytes);
  if (t.count < FILES_MAX && bytes.size <= TREE_MAX) {
    write_seed(out, "array", "tree", &bytes);
    tsr_buffer sql = {.memory = &memory}; /* begins with the choices of the statements; the tree follows */
    uint8_t head[50] = {(uint8_t)(number % 4), sizeof head - 2};
    uint64_t state = number + 1;
    for (size_t i = 2; i < sizeof head; i++) head[i] = (uint8_t)fuzz_random(&state);
    CHECK(tsr__buffer_append(&sql, head, sizeof head, NULL) == TSR_OK);
    CHECK(tsr__buffer_append(&sql, bytes.data, bytes.size, NULL) == TSR_OK);
    if (sql.size <= SQL_MAX) write_seed(out, "sql", "tree", &sql);
    tsr__buffer_release(&sql);
  }
  objects_of(out, &t);
  tsr__buffer_release(&bytes);
  tsr__arena_release(&arena);
}

static void walk(const char *path, const char *out) {
  bool array = exists(path, "__schema") || exists(path, "__array_schema.tdb");
  if (array || exists(path, "__group")) take_array(path, out);
  DIR *directory = opendir(path);
  CHECK(directory);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char below[4096];
    struct stat status;
    if (entry->d_name[0] == '.') continue;
    CHECK(snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below && stat(below, &status) == 0);
    if (S_ISDIR(status.st_mode) && (!array || !strcmp(entry->d_name, "__schema"))) walk(below, out);
    else if (ends(path, "__schema") && S_ISREG(status.st_mode)) tile_of(out, below);
  }
  closedir(directory);
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: seeds CORPUS OUT\n");
    return 2;
  }
  tsr__memory_init_root(&memory, NULL, NULL);
  walk(arguments[1], arguments[2]);
  printf("%lu inputs\n", number);
  CHECK(memory.used == 0);
  return 0;
}

/* The mutators call this function of libFuzzer. It is never called here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) { return size < most ? size : most; }
