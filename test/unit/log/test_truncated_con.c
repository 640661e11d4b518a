/* test_truncated_con.c: operations of other programs that are not finished: .con files that are cut, files that
 * are being written in place, vacuums that were cut off; and dense fragments that have fewer tiles than their box. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "store/store.h"
#include "array/array.h"
#include "log/log.h"
#include "read/reader.h"
#include "write/writer.h"
#include "small_array.h"

static tsr_array *array;

static tsr_path file_of(const char *directory, const char *suffix) {
  tsr_listing entries = {0};
  tsr_path found = {""};
  ok(tsr__store_list(array->store, directory, &entries, &error));
  for (uint64_t i = 0; i < entries.count && !*found.text; i++) {
    uint64_t stem;
    if (tsr__name_suffix(entries.entries[i].name, suffix, &stem))
      found = tsr__path_of(directory, entries.entries[i].name, "");
  }
  tsr__listing_release(&entries);
  return found;
}

static uint64_t count_of(const char *directory, const char *suffix) {
  tsr_listing entries = {0};
  uint64_t count = 0, stem;
  if (tsr__store_list(array->store, directory, &entries, NULL) < 0) return 0;
  for (uint64_t i = 0; i < entries.count; i++) count += tsr__name_suffix(entries.entries[i].name, suffix, &stem);
  tsr__listing_release(&entries);
  return count;
}

static const char *full(const tsr_path *file) {
  static char text[1200];
  snprintf(text, sizeof text, "%s/%s", path, file->text);
  return text;
}

static void cut(const tsr_path *file, off_t size) { assert_int_equal(truncate(full(file), size), 0); }

static off_t size_of(const tsr_path *file) {
  struct stat status;
  assert_int_equal(stat(full(file), &status), 0);
  return status.st_size;
}

/* Sets the time of a file's last change to so many seconds ago; < 0: in the future. */
static void change_at(const tsr_path *file, int seconds) {
  struct timespec times[2];
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  assert_int_equal(utimensat(AT_FDCWD, full(file), times, 0), 0);
}

static void put(const char *name, const void *bytes, uint64_t size) {
  tsr_file *file;
  ok(tsr__store_create_exclusive(array->store, name, &file, &error));
  ok(tsr__store_append(file, bytes, size, &error));
  tsr__store_close_file(file);
}

static void consolidate(tsr_maintenance what) {
  uint64_t merged;
  ok(tsr_array_consolidate(array, what, NULL, &merged, &error));
}
static uint64_t vacuum(tsr_maintenance what) {
  uint64_t removed;
  ok(tsr_array_vacuum(array, what, NULL, &removed, &error));
  return removed;
}

static unsigned found[4];
static char last[TSR_MESSAGE_SIZE];
static int count_finding(void *argument, const tsr_finding *finding) {
  found[finding->severity]++;
  snprintf(last, sizeof last, "%s", finding->message);
  return 0;
}
static void check(unsigned errors, unsigned notes) {
  const tsr_check_options options = {.threads = 1};
  memset(found, 0, sizeof found);
  *last = 0;
  ok(tsr_array_check(environment, path, &options, count_finding, NULL, &error));
  if (found[TSR_SEVERITY_ERROR] != errors || found[TSR_SEVERITY_NOTE] != notes)
    fail_msg("%u errors, %u notes: %s", found[TSR_SEVERITY_ERROR], found[TSR_SEVERITY_NOTE], last);
}

/* Opens the array and gives the cells that a reader sees, or the error. */
static const char *seen_at(uint64_t as_of) {
  tsr_array *ours = NULL;
  const tsr_array_options options = {.threads = 1};
  static char text[4096];
  int code = tsr_array_open(environment, path, &options, &ours, &error);
  tsr_snapshot *snapshot;
  if (code >= 0) code = tsr_snapshot_open(ours, NULL, 0, as_of, &snapshot, &error);
  if (code >= 0) {
    tsr_snapshot_close(snapshot);
    snprintf(text, sizeof text, "%s", cells_of(ours, as_of));
  } else snprintf(text, sizeof text, "%s: %s", tsr_code_name(code), error.message);
  tsr_array_close(ours);
  return text;
}
static const char *seen(void) { return seen_at(TSR_TIME_NOW); }
#define assert_seen(text) assert_string_equal(seen(), text)
static void assert_refused(const char *code, const char *words) {
  const char *text = seen();
  if (strncmp(text, code, strlen(code)) != 0 || !strstr(text, words)) fail_msg("%s", text);
}

static void make_three(bool dense) {
  array = make_small(22, dense, false);
  for (int t = 1; t <= 3; t++) write_small(array, (uint64_t)t * 10, t, t, NULL);
}
#define THREE "1=1001 2=2002 3=3003 "

static void done(void) {
  tsr_array_close(array);
  remove_tree(path);
}

/* ---- .con files that are cut ------------------------------------------------------------------------------------- */

/* TileDB dies while it writes a .con: at every length, all commits in it still have files of their own. */
static void test_con_being_written_hides_nothing(void **state) {
  make_three(false);
  consolidate(TSR_MAINTAIN_COMMITS);
  const tsr_path con = file_of("__commits", ".con");
  for (off_t size = size_of(&con) - 1; size >= 0; size--) {
    cut(&con, size);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), THREE);
  }
  assert_seen(THREE);
  check(0, 1);
  assert_non_null(strstr(last, "tessera_vacuum"));
  done();
}

static void test_cut_con_is_replaced(void **state) {
  for (int way = 0; way < 3; way++) {
    make_three(way == 2);
    consolidate(TSR_MAINTAIN_COMMITS);
    const tsr_path con = file_of("__commits", ".con");
    cut(&con, way ? 0 : size_of(&con) / 2);
    if (way == 1) consolidate(TSR_MAINTAIN_COMMITS);
    else assert_true(vacuum(TSR_MAINTAIN_ALL) > 0);
    assert_false(tsr__store_exists(array->store, con.text));
    check(0, 0);
    assert_seen(THREE);
    write_small(array, 40, 4, 4, NULL);
    consolidate(TSR_MAINTAIN_COMMITS);
    vacuum(TSR_MAINTAIN_ALL);
    assert_int_equal(count_of("__commits", ".con"), 1);
    assert_seen(THREE "4=4004 ");
    check(0, 0);
    done();
  }
}

/* The commits that a .con named were vacuumed, then the .con is cut: readers get an error instead of fewer rows, and no
 * operation hides that. */
static void test_vacuumed_commits_are_not_lost_silently(void **state) {
  uint64_t removed;
  for (int half = 0; half < 2; half++) {
    make_three(false);
    consolidate(TSR_MAINTAIN_COMMITS);
    vacuum(TSR_MAINTAIN_COMMITS);
    assert_int_equal(count_of("__commits", ".wrt"), 0);
    const tsr_path con = file_of("__commits", ".con");
    cut(&con, half ? size_of(&con) / 2 : 0);
    assert_refused("BUSY", "nothing else commits fragment");
    change_at(&con, 60);
    age("__fragments");
    assert_refused("CORRUPT", "Bring the file back");
    assert_int_equal(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &removed, &error), TSR_CORRUPT);
    assert_true(tsr__store_exists(array->store, con.text));
    check(1, 3); /* notes of three directories that nothing commits */
    done();
  }
}

/* Another .con commits everything; or it commits a part, and all other fragments are younger than the cut .con. */
static void test_cut_con_whose_commits_others_have(void **state) {
  make_three(false);
  consolidate(TSR_MAINTAIN_COMMITS);
  vacuum(TSR_MAINTAIN_COMMITS);
  put("__commits/__10_30_a0000000000000000000000000000000_22.con", "", 0);
  assert_seen(THREE);
  char name[128];
  tsr_writer *writer = prepare_small(array, 0, 5, 5, "somebody", name); /* a marker names it */
  assert_seen(THREE);
  tsr_writer_close(writer);
  check(0, 3); /* and of the marker, and the directory that it names */
  assert_true(vacuum(TSR_MAINTAIN_COMMITS) > 0);
  assert_seen(THREE);
  done();
}

/* A fragment that nothing commits belongs to another writer if its files and its name are younger than the cut .con.
 * Otherwise the .con may have committed it. */
static void test_uncommitted_fragments_are_told_by_age(void **state) {
  char name[128];
  make_three(false);
  write_small(array, 0, 7, 7, name); /* now */
  const tsr_path wrt = tsr__path_of("__commits", name, ".wrt"),
                 con = {"__commits/__10_30_a0000000000000000000000000000000_22.con"};
  ok(tsr__store_remove(array->store, wrt.text, &error));
  put(con.text, "", 0);
  change_at(&con, 60);
  assert_seen(THREE);
  change_at(&con, -1);
  assert_refused("BUSY", name);
  age("__fragments");
  change_at(&con, 60);
  assert_refused("CORRUPT", name);
  put(wrt.text, "", 0); /* as the message says */
  assert_non_null(strstr(seen(), " 7="));
  char early[128];
  write_small(array, 5, 8, 8, early); /* its files are younger, its name is not, as in a copy of an array */
  const tsr_path other = tsr__path_of("__commits", early, ".wrt");
  ok(tsr__store_remove(array->store, other.text, &error));
  assert_refused("BUSY", early);
  done();
}

/* The cut .con has a delete that no other file has. */
static void test_lost_delete_is_damage(void **state) {
  static const char line[] = "__commits/__25_25_b0000000000000000000000000000000_22.del\n";
  char bytes[200];
  make_three(false);
  memcpy(bytes, line, strlen(line));
  memset(bytes + strlen(line), 0, 16);
  bytes[strlen(line)] = 8;
  memcpy(bytes + strlen(line) + 16, "__comm", 6);
  const tsr_path con = {"__commits/__10_30_a0000000000000000000000000000000_22.con"};
  put(con.text, bytes, strlen(line) + 22);
  change_at(&con, 60);
  assert_refused("CORRUPT", "the delete condition __25_25_b");
  put("__commits/__25_25_b0000000000000000000000000000000_22.del", "", 0); /* not lost: it has a file of its own */
  if (strstr(seen(), "in no other file")) fail_msg("%s", error.message);
  done();
}

/* ---- Files that are being written -------------------------------------------------------------------------------- */

typedef struct slow { /* a writer that writes a file in pieces */
  char file[1200];
  uint8_t bytes[4096];
  size_t size, from;
  long pause; /* nanoseconds before each */
} slow;

static void *write_slowly(void *argument) {
  const slow *s = argument;
  const struct timespec moment = {0, s->pause};
  const int descriptor = open(s->file, O_WRONLY);
  for (size_t at = s->from; at < s->size; at += s->size / 3 + 1) {
    nanosleep(&moment, NULL);
    const size_t piece = TSR_MIN(s->size - at, s->size / 3 + 1);
    if (pwrite(descriptor, s->bytes + at, piece, (off_t)at) != (ssize_t)piece) break;
  }
  close(descriptor);
  return NULL;
}

/* Cuts a file and has a thread write the rest while `look` reads it. */
static void while_written(const tsr_path *file, off_t from, long pause, void (*look)(void)) {
  slow s = {.pause = pause};
  pthread_t thread;
  snprintf(s.file, sizeof s.file, "%s", full(file));
  FILE *in = fopen(s.file, "rb");
  s.size = fread(s.bytes, 1, sizeof s.bytes, in);
  s.from = (size_t)from;
  fclose(in);
  cut(file, from);
  assert_int_equal(pthread_create(&thread, NULL, write_slowly, &s), 0);
  look();
  pthread_join(thread, NULL);
}

static int metadata_code(void) {
  tsr_metadata *metadata;
  const int code = tsr_array_metadata(array, 0, TSR_TIME_NOW, &metadata, &error);
  if (code >= 0) assert_int_equal(metadata->count, 1);
  if (code >= 0) tsr_metadata_close(metadata);
  return code;
}

/* On a slow machine the writer may take longer than readers wait. Then they get BUSY, but never the error of a damaged
 * file. */
static void see_metadata(void) {
  int code;
  do code = metadata_code();
  while (code == TSR_BUSY);
  assert_int_equal(code, TSR_OK);
}
static void see_three(void) {
  const char *text;
  do text = seen();
  while (!strncmp(text, "BUSY", 4));
  assert_string_equal(text, THREE);
}

static void test_growing_files_are_waited_for(void **state) {
  make_three(false);
  const tsr_metadatum entry = {"k", 1, TSR_INT32, 1, "abcd", 4};
  ok(tsr_array_set_metadata(array, &entry, &error));
  consolidate(TSR_MAINTAIN_FRAGMENT_META);
  const tsr_path schema = file_of("__schema", ""), metadata = file_of("__meta", ""),
                 footers = file_of("__fragment_meta", ".meta");
  while_written(&metadata, 0, 15000000, see_metadata);
  while_written(&metadata, 20, 15000000, see_metadata);
  while_written(&footers, 0, 15000000, see_three);
  while_written(&schema, 0, 15000000, see_three);
  while_written(&schema, 50, 15000000, see_three);
  done();
}

/* Whoever reads while the file grows waits for it, instead of an error, longer than for an old file. On a slow machine
 * a try may take longer than readers wait: one of many is enough. */
static int waited_code;
static void wait_for_metadata(void) { waited_code = metadata_code(); }
static void test_growing_files_are_no_error(void **state) {
  make_three(false);
  const tsr_metadatum entry = {"k", 1, TSR_INT32, 1, "abcd", 4};
  ok(tsr_array_set_metadata(array, &entry, &error));
  const tsr_path metadata = file_of("__meta", "");
  waited_code = TSR_BUSY;
  for (int i = 0; i < 50 && waited_code == TSR_BUSY; i++) while_written(&metadata, 0, 28000000, wait_for_metadata);
  assert_int_equal(waited_code, TSR_OK);
  done();
}

/* Consolidated footers that are cut or damaged are ignored, since each fragment has its own footer. A vacuum removes
 * the file when it is old. */
static void test_damaged_footers_are_skipped(void **state) {
  make_three(false);
  consolidate(TSR_MAINTAIN_FRAGMENT_META);
  const tsr_path footers = file_of("__fragment_meta", ".meta");
  for (int size = 0; size < 80; size += 40) {
    cut(&footers, (uint64_t)size);
    see_three();
    change_at(&footers, 60);
    see_three();
  }
  cut(&footers, 0);
  vacuum(TSR_MAINTAIN_FRAGMENT_META);
  assert_true(tsr__store_exists(array->store, footers.text));
  change_at(&footers, 60);
  vacuum(TSR_MAINTAIN_FRAGMENT_META);
  assert_false(tsr__store_exists(array->store, footers.text));
  see_three();
  done();
}

/* A short file that does not grow is busy while it is young and damaged when it is old. If the file system's clock is
 * far ahead, the age of a file is unknown, and a file that does not change is damaged. */
static void test_short_files_are_busy_then_damaged(void **state) {
  make_three(false);
  const tsr_metadatum entry = {"k", 1, TSR_INT32, 1, "abcd", 4};
  ok(tsr_array_set_metadata(array, &entry, &error));
  const tsr_path metadata = file_of("__meta", "");
  cut(&metadata, 30);
  assert_int_equal(metadata_code(), TSR_BUSY);
  assert_non_null(strstr(error.message, "try again"));
  assert_non_null(strstr(error.message, metadata.text));
  change_at(&metadata, 60);
  assert_int_equal(metadata_code(), TSR_CORRUPT);
  change_at(&metadata, -2);
  assert_int_equal(metadata_code(), TSR_BUSY);
  change_at(&metadata, -3600);
  assert_int_equal(metadata_code(), TSR_CORRUPT);
  done();
}

/* Writes bytes into a file that is there, in place: no directory changes. */
static void write_in_place(const tsr_path *file, const char *bytes, size_t size) {
  FILE *out = fopen(full(file), "wb");
  assert_int_equal(fwrite(bytes, 1, size, out), size);
  fclose(out);
}

/* A list that was cut between two lines when it was read is read again when it has grown: by the next statement while
 * the list is fresh, later when the directory has changed. */
static void test_grown_list_is_read_again(void **state) {
  make_three(false);
  consolidate(TSR_MAINTAIN_COMMITS);
  const tsr_path con = file_of("__commits", ".con");
  const off_t size = size_of(&con);
  char bytes[4096];
  FILE *in = fopen(full(&con), "rb");
  assert_int_equal(fread(bytes, 1, sizeof bytes, in), size);
  fclose(in);
  cut(&con, strchr(bytes, '\n') + 1 - bytes);
  tsr_array *reader = open_small();
  assert_string_equal(cells_of(reader, TSR_TIME_NOW), THREE);
  write_in_place(&con, bytes, (size_t)size);
  vacuum(TSR_MAINTAIN_COMMITS); /* the commits in the complete file */
  assert_int_equal(count_of("__commits", ".wrt"), 0);
  assert_string_equal(cells_of(reader, TSR_TIME_NOW), THREE);
  tsr_array_close(reader);
  done();
}

/* A list is checked by each statement for two seconds after it was read, and then each time that it has become twice as
 * old: not by each transaction for ever. Then a statement reads it again, even if no directory has changed. */
static void test_old_lists_are_checked_seldom(void **state) {
  make_three(false);
  consolidate(TSR_MAINTAIN_COMMITS);
  const tsr_path con = file_of("__commits", ".con");
  tsr_array *reader = open_small();
  const tsr_commit_files *files = &reader->log.files;
  assert_string_equal(cells_of(reader, TSR_TIME_NOW), THREE);
  assert_int_equal(files->by_path.count, 1);
  tsr_commit_file *file = files->by_path.entries[0].value;
  assert_string_equal(cells_of(reader, TSR_TIME_NOW), THREE);
  assert_true(files->look_at <= tsr__moment()); /* it has just been read */

  const uint64_t before = tsr__moment();
  file->read_at -= 60000;
  assert_string_equal(cells_of(reader, TSR_TIME_NOW), THREE);
  assert_in_range(file->look_at, before + 60000, tsr__moment() + 2 * 60000);
  assert_true(files->look_at == file->look_at);
  write_in_place(&con, "", 0);
  reader->log.files.look_at = 0; /* another list's time has come, and not this one's */
  assert_int_equal(tsr__commit_files_changed(&reader->log, &error), 0);
  reader->log.files.look_at = file->look_at = tsr__moment();
  assert_int_equal(tsr__commit_files_changed(&reader->log, &error), 1);
  const uint64_t generation = reader->log.listing->generation;
  assert_string_equal(cells_of(reader, TSR_TIME_NOW), THREE);
  assert_true(reader->log.listing->generation > generation);
  assert_true(files->by_path.entries[0].value != file); /* read again */
  tsr_array_close(reader);
  done();
}

/* ---- Vacuums that were cut off ----------------------------------------------------------------------------------- */

/* Removes the source of this time of a merge, as a vacuum does that is cut off then. */
static void remove_source(const char *time) {
  tsr_listing entries = {0};
  ok(tsr__store_list(array->store, "__fragments", &entries, &error));
  for (uint64_t i = 0; i < entries.count; i++) {
    if (strncmp(entries.entries[i].name, time, strlen(time)) != 0) continue;
    const tsr_path gone = tsr__path_of("__fragments", entries.entries[i].name, "");
    ok(tsr__store_remove_tree(array->store, gone.text, &error));
  }
  tsr__listing_release(&entries);
}

/* Also if the source that is gone ends when the merged fragment ends. */
static void test_interrupted_vacuum_of_the_last_source(void **state) {
  make_three(false);
  consolidate(TSR_MAINTAIN_FRAGMENTS);
  remove_source("__30_30_");
  assert_seen(THREE);
  check(0, 1);
  vacuum(TSR_MAINTAIN_ALL);
  assert_seen(THREE);
  done();
}

static void test_interrupted_vacuum_is_tolerated(void **state) {
  make_three(true);
  consolidate(TSR_MAINTAIN_FRAGMENTS);
  assert_string_equal(cells_of(array, 20), "1=1001 2=2002 ");
  remove_source("__10_10_");
  assert_seen(THREE);
  /* as after the vacuum, except for the fragments that it has not removed yet */
  assert_string_equal(seen_at(20), "lost"); /* the merged fragment has no times, and one of its sources is gone */
  assert_string_equal(seen_at(10), "lost");
  check(0, 1);
  assert_non_null(strstr(last, "a vacuum was cut off"));
  vacuum(TSR_MAINTAIN_ALL);
  assert_seen(THREE);
  assert_string_equal(seen_at(20), "lost");
  check(0, 0);
  done();
}

/* The same without a vacuum file is damage. */
static void test_missing_fragment_without_vac_is_damage(void **state) {
  make_three(true);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), THREE);
  const tsr_path first = tsr__path_of("__fragments", array->log.listing->fragments.items[0].name, "");
  ok(tsr__store_remove_tree(array->store, first.text, &error));
  assert_refused("CORRUPT", "committed, but missing");
  check(1, 0);
  done();
}

/* ---- Dense fragments that have fewer tiles than their box -------------------------------------------------------- */

/* Reading its cells fails with a message that explains why. */
static void assert_split(void) {
  tsr_array *ours = open_small();
  tsr_snapshot *snapshot;
  tsr_reader *reader;
  const tsr_batch *batch;
  const tsr_column *a;
  ok(tsr_snapshot_open(ours, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(tsr_reader_start(reader, NULL, &error));
  int code = tsr_reader_next(reader, &batch, &error);
  if (code > 0) code = tsr_reader_column(reader, 1, &a, &error);
  assert_int_equal(code, TSR_CORRUPT);
  assert_non_null(strstr(error.message, "max_fragment_size"));
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  tsr_array_close(ours);
}

static void test_split_dense_fragment_is_refused(void **state) {
  array = make_small(22, true, false);
  char name[128];
  write_small(array, 10, 0, 39, name); /* four tiles */
  const tsr_path directory = tsr__path_of("__fragments", name, ""),
                 metadata = tsr__path_of(directory.text, "__fragment_metadata.tdb", "");
  uint8_t bytes[8192];
  FILE *file = fopen(full(&metadata), "r+b");
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  const int32_t box[2] = {0, 39}, wider[2] = {0, 69};
  size_t at = size - sizeof box;
  while (at > 0 && memcmp(bytes + at, box, sizeof box) != 0) at--;
  assert_true(at > 0);
  memcpy(bytes + at, wider, sizeof wider);
  rewind(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  fclose(file);
  assert_split();
  check(1, 0);
  assert_non_null(strstr(last, "the fragment's box has 7 tiles, and 4 are stored: TileDB before 2.29.2"));
  done();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_con_being_written_hides_nothing),
                                     cmocka_unit_test(test_cut_con_is_replaced),
                                     cmocka_unit_test(test_vacuumed_commits_are_not_lost_silently),
                                     cmocka_unit_test(test_cut_con_whose_commits_others_have),
                                     cmocka_unit_test(test_uncommitted_fragments_are_told_by_age),
                                     cmocka_unit_test(test_lost_delete_is_damage),
                                     cmocka_unit_test(test_growing_files_are_waited_for),
                                     cmocka_unit_test(test_growing_files_are_no_error),
                                     cmocka_unit_test(test_damaged_footers_are_skipped),
                                     cmocka_unit_test(test_short_files_are_busy_then_damaged),
                                     cmocka_unit_test(test_grown_list_is_read_again),
                                     cmocka_unit_test(test_old_lists_are_checked_seldom),
                                     cmocka_unit_test(test_interrupted_vacuum_is_tolerated),
                                     cmocka_unit_test(test_interrupted_vacuum_of_the_last_source),
                                     cmocka_unit_test(test_missing_fragment_without_vac_is_damage),
                                     cmocka_unit_test(test_split_dense_fragment_is_refused)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
