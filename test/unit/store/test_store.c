/* test_store.c: the same tests of a store in memory, in a directory, and in a directory within a bound; then tests of
 * links, pipes and times, which only directories have. test_store_bounds.c tests what a bound refuses. */
#define _GNU_SOURCE /* nftw */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <string.h>

#include "store/store.h"
#include "store_memory.h"

/* ---- A store of each kind --------------------------------------------------------------------------------------- */

typedef enum store_kind { MEMORY, DIRECTORY, BOUND, KINDS } store_kind;

typedef struct fixture {
  tsr_memory root;
  uint64_t calls, fail_at; /* allocations so far; the number of the one that fails, from 1 */
  char top[200], directory[300]; /* a new directory, and the store's directory in it, which does not exist yet */
  tsr_store *store;
  tsr_bounds bounds;
} fixture;

static void *reallocate(void *argument, void *pointer, uint64_t size) {
  fixture *f = argument;
  if (size == 0) {
    free(pointer);
    return NULL;
  }
  return ++f->calls == f->fail_at ? NULL : realloc(pointer, size);
}

static void fixture_open_in(fixture *f, store_kind kind, const char *place) {
  memset(f, 0, sizeof *f);
  tsr__memory_init_root(&f->root, reallocate, f);
  snprintf(f->top, sizeof f->top, "%s/tessera-store-XXXXXX", place);
  assert_non_null(mkdtemp(f->top));
  snprintf(f->directory, sizeof f->directory, "%s/deep/down/array", f->top);
  if (kind != MEMORY) {
    assert_int_equal(tsr__store_directory_open(&f->root, f->directory, &f->store, NULL), TSR_OK);
    if (kind == BOUND) assert_int_equal(tsr__bounds_set(&f->bounds, &f->root, f->top, NULL), TSR_OK);
    f->store->bounds = &f->bounds;
  } else {
    assert_int_equal(tsr__store_memory_open(&f->root, f->directory, &f->store, NULL), TSR_OK);
    assert_int_equal(tsr__store_remove(f->store, "", NULL), TSR_OK); /* so that every store begins without a root */
  }
}

static void fixture_open(fixture *f, store_kind kind) { fixture_open_in(f, kind, P_tmpdir); }

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at) { return remove(path); }

static void fixture_close(fixture *f) {
  tsr__store_close(f->store);
  tsr__bounds_release(&f->bounds);
  assert_int_equal(f->root.used, 0);
  nftw(f->top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(tsr_store *store, const char *path, const char *text) {
  tsr_file *file;
  tsr_error error = {0};
  if (tsr__store_create_exclusive(store, path, &file, &error) < 0) fail_msg("%s", error.message);
  assert_int_equal(tsr__store_append(file, text, strlen(text), NULL), TSR_OK);
  assert_int_equal(file->size, strlen(text));
  assert_int_equal(tsr__store_sync(file, NULL), TSR_OK);
  tsr__store_close_file(file);
}

static void holds(tsr_store *store, const char *path, const char *text) {
  tsr_buffer b = {.memory = store->memory};
  tsr_error error = {0};
  if (tsr__store_read_all(store, path, UINT64_MAX, &b, &error) < 0) fail_msg("%s", error.message);
  assert_int_equal(b.size, strlen(text));
  assert_memory_equal(b.data, text, b.size);
  tsr__buffer_release(&b);
}

/* "name/ name " for a directory and a file, '?' behind all else */
static void lists(tsr_store *store, const char *path, const char *wanted) {
  tsr_listing listing = {0};
  char text[1000] = "";
  tsr_error error = {0};
  if (tsr__store_list(store, path, &listing, &error) < 0) fail_msg("%s", error.message);
  for (uint64_t i = 0; i < listing.count; i++) {
    static const char *marks[] = {"", "/", "?"};
    strcat(strcat(strcat(text, listing.entries[i].name), marks[listing.entries[i].kind]), " ");
  }
  tsr__listing_release(&listing);
  assert_string_equal(text, wanted);
}

/* ---- What all do ---------------------------------------------------------------------------------------------- */

static void paths(tsr_store *s) {
  static const char *const bad[] = {"/",    "/a",     "a/",    "a//b", ".",  "..",   "../x",
                                    "a/..", "a/../b", "a/./b", "./a",  "//", "a/b/", "/etc/passwd"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tsr_file *file;
    tsr_listing listing;
    tsr_stamp stamp;
    uint64_t when;
    const char *p = bad[i];
    tsr_error error = {0};
    assert_int_equal(tsr__store_open_file(s, p, &file, &error), TSR_PERM);
    assert_non_null(strstr(error.message, p));
    assert_non_null(strstr(error.message, s->name));
    assert_int_equal(tsr__store_create_exclusive(s, p, &file, NULL), TSR_PERM);
    assert_int_equal(tsr__store_list(s, p, &listing, NULL), TSR_PERM);
    assert_int_equal(tsr__store_stamp(s, p, &stamp, NULL), TSR_PERM);
    assert_int_equal(tsr__store_modified(s, p, &when, NULL), TSR_PERM);
    assert_int_equal(tsr__store_sync_directory(s, p, NULL), TSR_PERM);
    assert_int_equal(tsr__store_rename(s, p, "x", NULL), TSR_PERM);
    assert_int_equal(tsr__store_rename(s, "x", p, NULL), TSR_PERM);
    assert_int_equal(tsr__store_rename_exclusive(s, p, "x", NULL), TSR_PERM);
    assert_int_equal(tsr__store_rename_exclusive(s, "x", p, NULL), TSR_PERM);
    assert_int_equal(tsr__store_remove(s, p, NULL), TSR_PERM);
    assert_int_equal(tsr__store_make_directory(s, p, NULL), TSR_PERM);
    assert_false(tsr__store_exists(s, p));
  }
  tsr_file *file;
  assert_int_equal(tsr__store_open_file(s, "", &file, NULL), TSR_PERM);
  assert_int_equal(tsr__store_create_exclusive(s, "", &file, NULL), TSR_PERM);
  assert_int_equal(tsr__store_rename(s, "", "x", NULL), TSR_PERM);
  put(s, "...", "dots"); /* a valid name */
  put(s, ".hidden", "");
  put(s, "a\\b \x01", "bytes");
  lists(s, "", "... .hidden a\\b \x01 ");
  assert_int_equal(tsr__store_remove(s, "...", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(s, ".hidden", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(s, "a\\b \x01", NULL), TSR_OK);
}

static void absent_root(tsr_store *s) {
  tsr_listing listing = {0};
  tsr_stamp stamp = {0};
  tsr_file *file;
  uint64_t when;
  tsr_error error = {0};
  assert_int_equal(tsr__store_list(s, "", &listing, &error), TSR_NOT_FOUND);
  assert_int_equal(strncmp(error.message, s->name, strlen(s->name)), 0);
  assert_int_equal(tsr__store_stamp(s, "", &stamp, NULL), TSR_OK);
  assert_true(stamp.known && stamp.a == 0 && stamp.b == 0 && stamp.c == 0);
  assert_int_equal(tsr__store_open_file(s, "a", &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_create_exclusive(s, "a", &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_make_directory(s, "a", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_modified(s, "", &when, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_remove(s, "", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_sync_directory(s, "", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_make_directory(s, "", NULL), TSR_OK); /* its parents are made, too */
  assert_int_equal(tsr__store_make_directory(s, "", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_sync_directory(s, "", NULL), TSR_OK);
  lists(s, "", "");
}

static void files(tsr_store *s) {
  tsr_file *file, *second;
  tsr_error error = {0};
  uint64_t opened = s->files_opened, bytes = s->bytes_read;
  uint8_t data[10], all[10];
  put(s, "f", "0123456789");
  assert_int_equal(tsr__store_create_exclusive(s, "f", &file, &error), TSR_EXISTS);
  assert_int_equal(tsr__store_open_file(s, "f", &file, NULL), TSR_OK);
  assert_true(file->size == 10 && file->store == s);
  assert_string_equal(file->path, "f");
  for (uint64_t offset = 0; offset <= 12; offset++) {
    for (uint64_t size = 0; size <= 12; size++) {
      memset(all, 'x', 10);
      uint8_t *exact = malloc(size + (size == 0)); /* of exact size, so that the sanitizer reports a byte too many */
      int rc = tsr__store_read_at(file, offset, exact, size, &error);
      assert_int_equal(rc, offset + size <= 10 ? TSR_OK : TSR_CORRUPT);
      if (rc == TSR_OK) assert_memory_equal(exact, &"0123456789"[offset], size);
      free(exact);
    }
  }
  assert_int_equal(tsr__store_read_at(file, 8, data, 3, &error), TSR_CORRUPT);
  char wanted[500];
  snprintf(wanted, sizeof wanted, "%s/f: 3 bytes are needed at byte 8, but the file has 10 bytes", s->name);
  assert_string_equal(error.message, wanted);
  assert_int_equal(tsr__store_read_at(file, UINT64_MAX, data, 2, NULL), TSR_CORRUPT);
  assert_int_equal(tsr__store_read_at(file, 2, data, UINT64_MAX, NULL), TSR_CORRUPT);
  assert_int_equal(tsr__store_append(file, "x", 1, NULL), TSR_IO); /* opened for reading */
  assert_int_equal(tsr__store_remove(s, "f", NULL), TSR_OK); /* an open file can still be read */
  assert_int_equal(tsr__store_read_at(file, 0, data, 10, NULL), TSR_OK);
  assert_memory_equal(data, "0123456789", 10);
  tsr__store_close_file(file);
  tsr__store_close_file(NULL);
  assert_int_equal(tsr__store_open_file(s, "f", &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(s->files_opened, opened + 2);
  assert_int_equal(s->bytes_read, bytes + 220 + 10); /* the sum of size over offset + size <= 10, and 10 */

  assert_int_equal(tsr__store_create_exclusive(s, "grows", &file, NULL), TSR_OK);
  assert_int_equal(tsr__store_open_file(s, "grows", &second, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, "abc", 3, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, NULL, 0, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, "defg", 4, NULL), TSR_OK);
  assert_true(file->size == 7 && second->size == 0); /* the size when it was opened */
  assert_int_equal(tsr__store_read_at(file, 2, data, 5, NULL), TSR_OK);
  assert_memory_equal(data, "cdefg", 5);
  assert_int_equal(tsr__store_read_at(second, 0, data, 1, NULL), TSR_CORRUPT);
  tsr__store_close_file(second);
  tsr__store_close_file(file);
  holds(s, "grows", "abcdefg");
  put(s, "none", "");
  holds(s, "none", "");

  tsr_buffer b = {.memory = s->memory};
  assert_int_equal(tsr__buffer_append(&b, "before ", 7, NULL), TSR_OK);
  assert_int_equal(tsr__store_read_all(s, "grows", 6, &b, &error), TSR_TOOBIG);
  assert_non_null(strstr(error.message, "grows: the file has 7 bytes, at most 6"));
  assert_int_equal(tsr__store_read_all(s, "nothing", 6, &b, NULL), TSR_NOT_FOUND);
  assert_int_equal(b.size, 7);
  assert_int_equal(tsr__store_read_all(s, "grows", 7, &b, NULL), TSR_OK);
  assert_int_equal(b.size, 14);
  assert_memory_equal(b.data, "before abcdefg", 14);
  tsr__buffer_release(&b);
  assert_true(tsr__store_exists(s, "grows") && !tsr__store_exists(s, "grow") && !tsr__store_exists(s, ""));

  uint64_t now = (uint64_t)time(NULL) * 1000, modified = 0;
  assert_int_equal(tsr__store_modified(s, "grows", &modified, NULL), TSR_OK);
  assert_true(modified <= now + 5000 && modified + 60000 > now);
  assert_int_equal(tsr__store_modified(s, "nothing", &modified, &error), TSR_NOT_FOUND);
  const uint32_t subject = error.subject;
  assert_int_equal(tsr__store_open_file(s, "nothing", &file, &error), TSR_NOT_FOUND);
  assert_true(subject != 0 && error.subject == subject); /* the same file */
  assert_int_equal(tsr__store_open_file(s, "nothing2", &file, &error), TSR_NOT_FOUND);
  assert_true(error.subject != 0 && error.subject != subject);
  assert_int_equal(tsr__store_remove(s, "grows", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(s, "none", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(s, "none", NULL), TSR_NOT_FOUND);
}

static void directories(tsr_store *s) {
  tsr_file *file;
  tsr_listing listing = {0};
  assert_int_equal(tsr__store_make_directory(s, "a", NULL), TSR_OK);
  assert_int_equal(tsr__store_make_directory(s, "a", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_make_directory(s, "x/y", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_make_directory(s, "a-b", NULL), TSR_OK); /* '-' sorts before '/' */
  assert_int_equal(tsr__store_make_directory(s, "a/c", NULL), TSR_OK);
  put(s, "a/z", "1");
  put(s, "a/B", "2");
  put(s, "a/c/d", "3");
  put(s, "a-b/x", "4");
  put(s, "a0", "5");
  put(s, "\xc3\xa4", "6");
  lists(s, "", "a/ a-b/ a0 \xc3\xa4 ");
  lists(s, "a", "B c/ z ");
  lists(s, "a/c", "d ");
  lists(s, "a-b", "x ");
  assert_int_equal(tsr__store_list(s, "a0", &listing, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_list(s, "q", &listing, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_list(s, "a0/q", &listing, NULL), TSR_NOT_FOUND);
  tsr_error error = {0};
  assert_int_equal(tsr__store_open_file(s, "a", &file, &error), TSR_NOT_FOUND);
  assert_non_null(strstr(error.message, "is a directory"));
  assert_int_equal(tsr__store_open_file(s, "a0/q", &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_create_exclusive(s, "a0/q", &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_create_exclusive(s, "a", &file, NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_make_directory(s, "a0", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_remove(s, "a", NULL), TSR_EXISTS); /* not empty */
  assert_int_equal(tsr__store_sync_directory(s, "a/c", NULL), TSR_OK);
  assert_int_equal(tsr__store_sync_directory(s, "q", NULL), TSR_NOT_FOUND);
  for (unsigned threads = 1; threads <= 3; threads++) { /* the first failure is reported */
    const char *const directories[] = {"", "a", "a/c", "q", "a-b", "r"};
    tsr_file *files[2];
    assert_int_equal(tsr__store_open_file(s, "a0", &files[0], NULL), TSR_OK);
    assert_int_equal(tsr__store_open_file(s, "a/z", &files[1], NULL), TSR_OK);
    assert_int_equal(tsr__store_sync_all(s, files, 2, directories, 3, threads, &error), TSR_OK);
    assert_int_equal(tsr__store_sync_all(s, files, 0, directories, 0, threads, &error), TSR_OK);
    assert_int_equal(tsr__store_sync_all(s, files, 2, directories, 6, threads, &error), TSR_NOT_FOUND);
    assert_non_null(strstr(error.message, "/q"));
    tsr__store_close_file(files[0]);
    tsr__store_close_file(files[1]);
  }

  for (int i = 0; i < 300; i++) { /* made in an order that is not sorted */
    char name[30];
    snprintf(name, sizeof name, "a-b/%03d", i * 7 % 300);
    put(s, name, "");
  }
  assert_int_equal(tsr__store_list(s, "a-b", &listing, NULL), TSR_OK);
  assert_int_equal(listing.count, 301);
  for (int i = 0; i < 300; i++) assert_int_equal(atoi(listing.entries[i].name), i);
  tsr__listing_release(&listing);
  assert_int_equal(listing.count, 0);
  tsr__listing_release(&listing);
}

static void renames(tsr_store *s) { /* in the tree that directories() made */
  assert_int_equal(tsr__store_rename(s, "a/z", "a/y", NULL), TSR_OK);
  holds(s, "a/y", "1");
  assert_false(tsr__store_exists(s, "a/z"));
  assert_int_equal(tsr__store_rename(s, "a/y", "a/B", NULL), TSR_OK); /* replaces the file */
  holds(s, "a/B", "1");
  lists(s, "a", "B c/ ");
  assert_int_equal(tsr__store_rename(s, "a/B", "a/B", NULL), TSR_OK);
  assert_int_equal(tsr__store_rename_exclusive(s, "a/B", "a/B", NULL), TSR_EXISTS);
  tsr_error error = {0};
  assert_int_equal(tsr__store_rename_exclusive(s, "a/B", "a/c/d", &error), TSR_EXISTS);
  assert_non_null(strstr(error.message, "/a/B: renaming to 'a/c/d': "));
  holds(s, "a/c/d", "3");
  assert_int_equal(tsr__store_rename_exclusive(s, "a/B", "a/c/e", NULL), TSR_OK);
  lists(s, "a/c", "d e ");
  assert_int_equal(tsr__store_rename(s, "nothing", "b", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_rename_exclusive(s, "nothing", "b", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_rename(s, "a0", "q/b", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_rename_exclusive(s, "a0", "q/b", NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_rename(s, "a", "a/c/a", NULL), TSR_ERROR);
  assert_int_equal(tsr__store_rename_exclusive(s, "a", "a/q", NULL), TSR_ERROR);

  assert_int_equal(tsr__store_rename_exclusive(s, "a", "m", NULL), TSR_OK); /* with everything in it */
  lists(s, "m", "c/ ");
  lists(s, "m/c", "d e ");
  holds(s, "m/c/d", "3");
  lists(s, "", "a-b/ a0 m/ \xc3\xa4 ");
  assert_int_equal(tsr__store_make_directory(s, "empty", NULL), TSR_OK);
  assert_int_equal(tsr__store_rename_exclusive(s, "m", "empty", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_rename(s, "m", "empty", NULL), TSR_OK); /* an empty directory may be replaced */
  holds(s, "empty/c/d", "3");
  assert_int_equal(tsr__store_rename(s, "a-b", "empty", NULL), TSR_EXISTS); /* one with entries may not */
  assert_int_equal(tsr__store_rename(s, "a-b", "a0", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_rename(s, "a0", "a-b", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_rename(s, "a0/q", "b", NULL), TSR_NOT_FOUND);
  lists(s, "", "a-b/ a0 empty/ \xc3\xa4 ");

  tsr_file *file; /* an open file can be used after its renaming */
  char byte;
  assert_int_equal(tsr__store_open_file(s, "empty/c/d", &file, NULL), TSR_OK);
  assert_int_equal(tsr__store_rename(s, "empty", "moved", NULL), TSR_OK);
  assert_int_equal(tsr__store_read_at(file, 0, &byte, 1, NULL), TSR_OK);
  assert_int_equal(byte, '3');
  tsr__store_close_file(file);
}

static void stamps(tsr_store *s) {
  tsr_stamp a, b;
  assert_int_equal(tsr__store_make_directory(s, "stamped", NULL), TSR_OK);
  usleep(120000); /* until the directory's stamp is known */
  assert_int_equal(tsr__store_stamp(s, "stamped", &a, NULL), TSR_OK);
  assert_int_equal(tsr__store_stamp(s, "stamped", &b, NULL), TSR_OK);
  if (!a.known) return; /* the file system keeps whole seconds */
  assert_true(b.known && a.a == b.a && a.b == b.b && a.c == b.c);
  put(s, "stamped/x", "");
  assert_int_equal(tsr__store_stamp(s, "stamped", &b, NULL), TSR_OK);
  assert_true(!b.known || a.a != b.a || a.b != b.b || a.c != b.c);
  usleep(120000);
  assert_int_equal(tsr__store_stamp(s, "stamped", &a, NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(s, "stamped/x", NULL), TSR_OK);
  usleep(120000);
  assert_int_equal(tsr__store_stamp(s, "stamped", &b, NULL), TSR_OK);
  assert_true(a.known && b.known && (a.a != b.a || a.b != b.b));
  assert_int_equal(tsr__store_stamp(s, "never", &b, NULL), TSR_OK);
  assert_true(b.known && b.a == 0 && b.b == 0 && b.c == 0);
}

static bool is_locked(tsr_store *s, const char *path) {
  tsr_file *file;
  bool locked = false;
  tsr_error error = {0};
  assert_int_equal(tsr__store_open_file(s, path, &file, NULL), TSR_OK);
  if (tsr__store_locked(file, &locked, &error) < 0) fail_msg("%s", error.message);
  tsr__store_close_file(file);
  return locked;
}

/* A lock belongs to one open file: it does not end when the process opens and closes the same file again. */
static void locks(tsr_store *s) {
  tsr_file *file, *again;
  assert_int_equal(tsr__store_create_exclusive(s, "lock", &file, NULL), TSR_OK);
  assert_false(is_locked(s, "lock"));
  assert_int_equal(tsr__store_lock(file, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, "text", 4, NULL), TSR_OK);
  assert_int_equal(tsr__store_open_file(s, "lock", &again, NULL), TSR_OK);
  tsr__store_close_file(again);
  holds(s, "lock", "text");
  assert_true(is_locked(s, "lock"));
  assert_true(is_locked(s, "lock"));
  assert_int_equal(tsr__store_rename(s, "lock", "locked", NULL), TSR_OK);
  assert_true(is_locked(s, "locked"));
  tsr__store_close_file(file);
  assert_false(is_locked(s, "locked"));
  assert_int_equal(tsr__store_remove(s, "locked", NULL), TSR_OK);

  /* A child that closes its copy of the file leaves the parent's lock; one that keeps it does not prolong the lock. */
  for (int keeps = 0; keeps < 2; keeps++) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(tsr__store_create_exclusive(s, "locked", &file, NULL), TSR_OK);
    assert_int_equal(tsr__store_lock(file, NULL), TSR_OK);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[1]);
      if (!keeps) tsr__store_close_file(file);
      _exit(read(ends[0], &byte, 1) != 0); /* until the parent has looked */
    }
    close(ends[0]);
    if (keeps) tsr__store_close_file(file);
    assert_int_equal(is_locked(s, "locked"), !keeps);
    close(ends[1]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!keeps) {
      assert_true(is_locked(s, "locked"));
      tsr__store_close_file(file);
    }
    assert_false(is_locked(s, "locked"));
    assert_int_equal(tsr__store_remove(s, "locked", NULL), TSR_OK);
  }
}

/* Calls that a store may answer in one request. */
/* Small files come with their bytes, larger ones open; what is no file is an error in both ways. */
static void open_small(tsr_store *s) {
  tsr_file *file;
  char bytes[3];
  for (uint64_t most = 0; most < 6; most++) {
    const uint64_t opened = s->files_opened, read = s->bytes_read;
    assert_int_equal(tsr__store_open_small(s, "many/a", most, NULL, &file, NULL), TSR_OK);
    assert_int_equal(file->size, 3);
    assert_int_equal(file->kept != NULL, most >= 3);
    assert_int_equal(s->files_opened - opened, 1);
    assert_int_equal(s->bytes_read - read, most >= 3 ? 3 : 0);
    assert_int_equal(tsr__store_read_at(file, 0, bytes, 3, NULL), TSR_OK);
    assert_memory_equal(bytes, "abc", 3);
    assert_int_equal(tsr__store_read_at(file, 1, bytes, 3, NULL), TSR_CORRUPT);
    tsr__store_close_file(file);
  }
  tsr_arena arena;
  tsr__arena_init(&arena, s->memory);
  assert_int_equal(tsr__store_open_small(s, "many/a", 3, &arena, &file, NULL), TSR_OK);
  tsr__store_close_file(file);
  assert_memory_equal(file->kept, "abc", 3); /* until the arena is released */
  tsr__arena_release(&arena);
  assert_int_equal(tsr__store_open_small(s, "many/none", 9, NULL, &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_open_small(s, "many", 9, NULL, &file, NULL) < 0, true);
  assert_int_equal(tsr__store_open_small(s, "../many", 9, NULL, &file, NULL), TSR_PERM);
}

static void in_one_call(tsr_store *s) {
  const char *const paths[] = {"many", "many/none", "many/c"}, *const bad[] = {"many", "../many"};
  const char *const gone[] = {"many/a", "many/none", "many/c/d"};
  tsr_listing listings[3];
  tsr_stamp stamps[3], again[3];
  tsr_file *file;
  uint8_t bytes[3];
  tsr_error error;
  assert_int_equal(tsr__store_make_provisional(s, "many", NULL), TSR_OK);
  assert_int_equal(tsr__store_make_provisional(s, "many", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_make_directory(s, "many/c", NULL), TSR_OK);
  assert_int_equal(tsr__store_put_new(s, "many/a", "abc", 3, true, NULL), TSR_OK);
  assert_int_equal(tsr__store_put_new(s, "many/b", "", 0, true, NULL), TSR_OK);
  assert_int_equal(tsr__store_put_new(s, "many/c/d", "d", 1, false, NULL), TSR_OK);
  assert_int_equal(tsr__store_put_new(s, "many/a", "xyz!", 4, true, NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_put_new(s, "many/b", "", 0, true, NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_put_new(s, "many/c", "x", 1, true, NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_put_new(s, "many/none/x", "x", 1, true, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_put_new(s, "../x", "x", 1, true, NULL), TSR_PERM);
  holds(s, "many/a", "abc");
  holds(s, "many/b", "");

  assert_int_equal(tsr__store_list_many(s, paths, 3, listings, stamps, NULL), TSR_OK);
  assert_int_equal(listings[0].count, 3);
  assert_int_equal(listings[2].count, 1);
  assert_true(!listings[0].missing && listings[1].missing && !listings[2].missing && listings[1].count == 0);
  assert_int_equal(tsr__store_stamp_many(s, paths, 3, again, NULL), TSR_OK);
  assert_true(tsr__same_stamp(&stamps[1], &again[1]));
  assert_true(!stamps[0].known || !again[0].known || tsr__same_stamp(&stamps[0], &again[0]));
  for (int i = 0; i < 3; i++) tsr__listing_release(&listings[i]);
  assert_int_equal(tsr__store_list_many(s, bad, 2, listings, stamps, NULL), TSR_PERM);
  assert_int_equal(tsr__store_stamp_many(s, bad, 2, stamps, NULL), TSR_PERM);
  assert_int_equal(listings[0].count, 0);

  const tsr_read_hint hints[] = {{"many/a", 0, TSR_WHOLE, false}, {"many/a", 1, 2, false}, {"many/none", 0, 9, true}};
  tsr__store_prefetch(s, hints, 3);
  tsr__store_prefetch(s, &(tsr_read_hint){"../many", 0, TSR_WHOLE, false}, 1);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tsr__store_open_sized(s, "many/a", i ? TSR_SIZE_UNKNOWN : 3, &file, NULL), TSR_OK);
    assert_int_equal(file->size, 3);
    assert_int_equal(tsr__store_read_at(file, 1, bytes, 2, NULL), TSR_OK);
    assert_memory_equal(bytes, "bc", 2);
    tsr__store_close_file(file);
  }

  open_small(s);

  assert_int_equal(tsr__store_remove_many(s, gone, 3, NULL), TSR_OK);
  assert_int_equal(tsr__store_remove_many(s, bad, 2, NULL) < 0, true);
  lists(s, "many", "b c/ ");
  put(s, "many/c/e", "e");
  assert_int_equal(tsr__store_make_directory(s, "many/c/f", NULL), TSR_OK);
  put(s, "many/c/f/g", "g");
  assert_int_equal(tsr__store_remove_tree(s, "many/b", NULL), TSR_OK); /* a file */
  assert_int_equal(tsr__store_remove_tree(s, "many", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove_tree(s, "many", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove_tree(s, "", NULL), TSR_PERM);
  assert_int_equal(tsr__store_list(s, "many", listings, NULL), TSR_NOT_FOUND);
}

static void all(store_kind kind) {
  fixture f;
  fixture_open(&f, kind);
  absent_root(f.store);
  paths(f.store);
  files(f.store);
  directories(f.store);
  renames(f.store);
  stamps(f.store);
  locks(f.store);
  in_one_call(f.store);
  fixture_close(&f);
}

static void test_the_memory_store_behaves_as_a_store(void **state) { all(MEMORY); }
static void test_a_directory_behaves_as_a_store(void **state) { all(DIRECTORY); }
static void test_a_directory_within_a_bound_behaves_as_a_store(void **state) { all(BOUND); }

/* ---- Every allocation fails once ------------------------------------------------------------------------------- */

static int some_work(tsr_store *s, tsr_error *error) {
  tsr_file *file;
  tsr_listing listing;
  tsr_buffer b = {.memory = s->memory};
  TSR_TRY(tsr__store_make_directory(s, "", error));
  TSR_TRY(tsr__store_make_directory(s, "d", error));
  for (int i = 0; i < 20; i++) {
    char name[20];
    snprintf(name, sizeof name, "d/%d", i);
    TSR_TRY(tsr__store_create_exclusive(s, name, &file, error));
    int rc = tsr__store_append(file, "abc", 3, error);
    tsr__store_close_file(file);
    TSR_TRY(rc);
  }
  TSR_TRY(tsr__store_rename(s, "d", "e", error));
  TSR_TRY(tsr__store_rename(s, "e/1", "e/2", error));
  TSR_TRY(tsr__store_list(s, "e", &listing, error));
  bool right = listing.count == 19;
  tsr__listing_release(&listing);
  assert_true(right);
  TSR_TRY(tsr__store_read_all(s, "e/2", 100, &b, error));
  right = b.size == 3;
  tsr__buffer_release(&b);
  assert_true(right);
  TSR_TRY(tsr__store_put_new(s, "e/new", "abc", 3, true, error));
  tsr_listing two[2];
  tsr_stamp stamps[2];
  TSR_TRY(tsr__store_list_many(s, (const char *const[]){"e", ""}, 2, two, stamps, error));
  for (int i = 0; i < 2; i++) tsr__listing_release(&two[i]);
  TSR_TRY(tsr__store_remove(s, "e/2", error));
  return tsr__store_remove_tree(s, "e", error);
}

static void test_no_failing_allocation_leaks(void **state) {
  for (store_kind kind = MEMORY; kind < KINDS; kind++) {
    int rc = TSR_NOMEM;
    for (uint64_t n = 1; rc != TSR_OK; n++) {
      fixture f;
      tsr_error error = {0};
      fixture_open(&f, kind);
      f.calls = 0;
      f.fail_at = n;
      rc = some_work(f.store, &error);
      if (rc != TSR_OK) assert_int_equal(rc, TSR_NOMEM);
      assert_true(n < 500);
      fixture_close(&f);
    }
  }
}

/* ---- Only a directory ------------------------------------------------------------------------------------------ */

static void test_no_regular_files(void **state) {
  fixture f;
  char path[400], target[400];
  tsr_file *file;
  tsr_error error = {0};
  fixture_open(&f, DIRECTORY);
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  assert_int_equal(tsr__store_make_directory(f.store, "dir", NULL), TSR_OK);
  put(f.store, "dir/real", "data");
  snprintf(path, sizeof path, "%s/pipe", f.directory);
  assert_int_equal(mkfifo(path, 0600), 0);
  snprintf(path, sizeof path, "%s/link", f.directory);
  assert_int_equal(symlink("dir/real", path), 0);
  snprintf(path, sizeof path, "%s/linked", f.directory);
  assert_int_equal(symlink("dir", path), 0);
  snprintf(path, sizeof path, "%s/dangling", f.directory);
  assert_int_equal(symlink("nowhere", path), 0);
  snprintf(path, sizeof path, "%s/loop", f.directory);
  assert_int_equal(symlink("loop", path), 0);
  lists(f.store, "", "dangling? dir/ link linked/ loop? pipe? ");
  lists(f.store, "linked", "real ");
  holds(f.store, "link", "data");
  assert_int_equal(tsr__store_open_file(f.store, "pipe", &file, &error), TSR_NOT_FOUND);
  assert_non_null(strstr(error.message, "/pipe: is a pipe"));
  assert_int_equal(tsr__store_open_file(f.store, "dangling", &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_open_file(f.store, "loop", &file, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_create_exclusive(f.store, "dangling", &file, NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_remove(f.store, "linked", NULL), TSR_OK); /* the link, not its target */
  assert_int_equal(tsr__store_remove(f.store, "link", NULL), TSR_OK);
  holds(f.store, "dir/real", "data");
  lists(f.store, "", "dangling? dir/ loop? pipe? ");
  snprintf(target, sizeof target, "%s/nowhere", f.directory);
  assert_int_equal(access(target, F_OK), -1);
  fixture_close(&f);
}

static void test_a_file_that_shrinks_is_damage(void **state) {
  fixture f;
  char path[400], data[10];
  tsr_file *file;
  tsr_error error = {0};
  fixture_open(&f, DIRECTORY);
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  put(f.store, "f", "0123456789");
  assert_int_equal(tsr__store_open_file(f.store, "f", &file, NULL), TSR_OK);
  snprintf(path, sizeof path, "%s/f", f.directory);
  assert_int_equal(truncate(path, 4), 0);
  assert_int_equal(tsr__store_read_at(file, 2, data, 5, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "/f: the file ends at byte 4, it had 10 bytes"));
  tsr__store_close_file(file);
  fixture_close(&f);
}

/* A write that fails in the middle leaves the file as it was. */
static void test_a_failed_append_leaves_the_file_as_it_was(void **state) {
  fixture f;
  tsr_file *file;
  struct rlimit before, limit;
  char block[6000] = {0};
  fixture_open(&f, DIRECTORY);
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  assert_int_equal(tsr__store_create_exclusive(f.store, "f", &file, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, "abc", 3, NULL), TSR_OK);
  getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 5000;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  int rc = tsr__store_append(file, block, sizeof block, NULL);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  assert_int_equal(rc, TSR_IO);
  assert_int_equal(file->size, 3);
  assert_int_equal(tsr__store_append(file, "def", 3, NULL), TSR_OK);
  tsr__store_close_file(file);
  holds(f.store, "f", "abcdef");
  fixture_close(&f);
}

/* A relative root, with slashes at its end, stays where it was after a chdir of the host. */
static void test_a_relative_root_stays_where_it_was(void **state) {
  fixture f;
  char here[4096], path[600];
  tsr_store *s;
  tsr_file *file;
  tsr_error error = {0};
  fixture_open(&f, DIRECTORY);
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir(f.top), 0);
  assert_int_equal(tsr__store_directory_open(&f.root, "relative/array//", &s, NULL), TSR_OK);
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(tsr__store_make_directory(s, "", NULL), TSR_OK);
  put(s, "x", "1");
  snprintf(path, sizeof path, "%s/relative/array/x", f.top);
  assert_int_equal(access(path, R_OK), 0);
  assert_int_equal(tsr__store_open_file(s, "y", &file, &error), TSR_NOT_FOUND);
  assert_string_equal(error.message, "relative/array//y: opening: No such file or directory");
  tsr__store_close(s);
  assert_int_equal(chdir(here), 0);

  assert_int_equal(tsr__store_directory_open(&f.root, "/", &s, NULL), TSR_OK);
  assert_int_equal(tsr__store_make_directory(s, "", NULL), TSR_EXISTS);
  holds(s, path + 1, "1");
  tsr__store_close(s);
  snprintf(path, sizeof path, "%s/relative/array/x/sub/root", f.top); /* a file is in the way */
  assert_int_equal(tsr__store_directory_open(&f.root, path, &s, NULL), TSR_OK);
  assert_int_equal(tsr__store_make_directory(s, "", NULL), TSR_NOT_FOUND);
  tsr__store_close(s);

  char *lengthy = malloc(6000);
  memset(lengthy, 'a', 5999);
  lengthy[5999] = 0;
  assert_int_equal(tsr__store_open_file(f.store, lengthy, &file, &error), TSR_NOT_FOUND);
  lengthy[300] = 0;
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  assert_int_equal(tsr__store_open_file(f.store, lengthy, &file, &error), TSR_NOT_FOUND);
  free(lengthy);
  assert_int_equal(tsr__store_directory_open(&f.root, "", &s, NULL), TSR_ERROR);
  tsr__store_close(NULL);
  fixture_close(&f);
}

/* Directories whose last change is of this moment or in the future. A stamp of this moment is known only where the
 * next change certainly differs. */
static void test_a_stamp_of_a_recent_or_future_time_is_not_known(void **state) {
  fixture f;
  tsr_stamp stamp;
  fixture_open(&f, DIRECTORY);
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  for (int i = 0; i < 200; i++) {
    char name[16];
    tsr_stamp next;
    tsr_file *file;
    snprintf(name, sizeof name, "%d", i);
    assert_int_equal(tsr__store_stamp(f.store, "", &stamp, NULL), TSR_OK);
    assert_int_equal(tsr__store_create_exclusive(f.store, name, &file, NULL), TSR_OK);
    tsr__store_close_file(file);
    assert_int_equal(tsr__store_stamp(f.store, "", &next, NULL), TSR_OK);
    assert_false(tsr__same_stamp(&stamp, &next));
    assert_int_equal(tsr__store_remove(f.store, name, NULL), TSR_OK);
  }
  usleep(120000);
  struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 4000000000}};
  assert_int_equal(utimensat(AT_FDCWD, f.directory, times, 0), 0);
  usleep(120000);
  assert_int_equal(tsr__store_stamp(f.store, "", &stamp, NULL), TSR_OK);
  assert_false(stamp.known);
  fixture_close(&f);
}

enum { CREATED, REMOVED, LINKED, REPLACED, REMOVED_DIRECTORY, CHANGES };

static void in_directory(const fixture *f, const char *prefix, int i, char path[400]) {
  snprintf(path, 400, "%s/%s%d", f->directory, prefix, i);
}

static void make_file(const fixture *f, const char *prefix, int i) {
  char path[400];
  in_directory(f, prefix, i, path);
  const int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0666);
  assert_true(file >= 0 && close(file) == 0);
}

static int change(int kind, const char *from, const char *to) {
  switch (kind) {
  case CREATED: return mkdir(to, 0777);
  case REMOVED: return unlink(from);
  case LINKED: return link(from, to);
  case REPLACED: return rename(from, to);
  default: return rmdir(from);
  }
}

/* Changes a directory right after its stamp was taken, in each way, many times. */
static void changes_change_stamps(const char *place) {
  fixture f;
  fixture_open_in(&f, DIRECTORY, place);
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  for (int i = 0; i < 200 * CHANGES; i++) {
    const int kind = i % CHANGES;
    char from[400], to[400];
    tsr_stamp stamp, next;
    in_directory(&f, "from", i, from);
    in_directory(&f, "to", i, to);
    if (kind == REMOVED_DIRECTORY) assert_int_equal(mkdir(from, 0777), 0);
    else make_file(&f, "from", i);
    if (kind == REPLACED) make_file(&f, "to", i);
    assert_int_equal(tsr__store_stamp(f.store, "", &stamp, NULL), TSR_OK);
    make_file(&f, "other", i); /* Linux: the first change after a look has a fine-grained time */
    assert_int_equal(tsr__store_stamp(f.store, "", &stamp, NULL), TSR_OK);
    assert_int_equal(change(kind, from, to), 0);
    assert_int_equal(tsr__store_stamp(f.store, "", &next, NULL), TSR_OK);
    if (tsr__same_stamp(&stamp, &next)) fail_msg("%s: change %d leaves the stamp as it was", place, kind);
  }
  fixture_close(&f);
}

/* tmpfs takes the time of some changes from elsewhere than the other file systems. */
static void test_every_change_of_a_directory_changes_a_known_stamp(void **state) {
  changes_change_stamps(P_tmpdir);
  if (access("/dev/shm", W_OK) == 0) changes_change_stamps("/dev/shm");
}

/* A child shares its parent's lock. The lock ends when the process that took it closes the file, or when both have
 * ended. */
static void test_a_child_shares_the_lock_of_its_parent(void **state) {
  fixture f;
  tsr_file *file;
  int status;
  fixture_open(&f, DIRECTORY);
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  assert_int_equal(tsr__store_create_exclusive(f.store, "lock", &file, NULL), TSR_OK);
  assert_int_equal(tsr__store_lock(file, NULL), TSR_OK);
  pid_t child = fork();
  if (child == 0) {
    const bool locked = is_locked(f.store, "lock");
    tsr__store_close_file(file);
    _exit(locked && is_locked(f.store, "lock") ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_true(is_locked(f.store, "lock"));
  tsr__store_close_file(file);
  assert_false(is_locked(f.store, "lock"));
  child = fork(); /* the lock of a process that dies is released */
  if (child == 0) {
    tsr_file *own;
    _exit(tsr__store_create_exclusive(f.store, "own", &own, NULL) < 0 || tsr__store_lock(own, NULL) < 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_false(is_locked(f.store, "own"));
  fixture_close(&f);
}

static const tsr_store_methods *real_methods;

/* Lists a directory that another process has removed since its files were found. */
static int list_what_has_gone(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  if (strcmp(path, "tree/below") == 0) {
    assert_int_equal(real_methods->remove(store, "tree/below/file", NULL), TSR_OK);
    assert_int_equal(real_methods->remove(store, "tree/below", NULL), TSR_OK);
  }
  return real_methods->list(store, path, listing, error);
}

/* Two processes that vacuum remove the same fragments. */
static void test_a_tree_that_another_process_removes_meanwhile(void **state) {
  fixture f;
  bool exists = true;
  fixture_open(&f, DIRECTORY);
  assert_int_equal(tsr__store_make_directory(f.store, "", NULL), TSR_OK);
  assert_int_equal(tsr__store_make_directory(f.store, "tree", NULL), TSR_OK);
  assert_int_equal(tsr__store_make_directory(f.store, "tree/below", NULL), TSR_OK);
  put(f.store, "tree/below/file", "1");
  real_methods = f.store->methods;
  tsr_store_methods methods = *real_methods;
  methods.list = list_what_has_gone;
  f.store->methods = &methods;
  assert_int_equal(tsr__store_remove_tree(f.store, "tree", NULL), TSR_OK);
  f.store->methods = real_methods;
  assert_int_equal(tsr__directory_find(f.store, "tree", &exists, NULL), TSR_OK);
  assert_false(exists);
  fixture_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_child_shares_the_lock_of_its_parent),
      cmocka_unit_test(test_the_memory_store_behaves_as_a_store),
      cmocka_unit_test(test_a_directory_behaves_as_a_store),
      cmocka_unit_test(test_a_directory_within_a_bound_behaves_as_a_store),
      cmocka_unit_test(test_no_failing_allocation_leaks),
      cmocka_unit_test(test_no_regular_files),
      cmocka_unit_test(test_a_file_that_shrinks_is_damage),
      cmocka_unit_test(test_a_failed_append_leaves_the_file_as_it_was),
      cmocka_unit_test(test_a_relative_root_stays_where_it_was),
      cmocka_unit_test(test_a_stamp_of_a_recent_or_future_time_is_not_known),
      cmocka_unit_test(test_every_change_of_a_directory_changes_a_known_stamp),
      cmocka_unit_test(test_a_tree_that_another_process_removes_meanwhile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
