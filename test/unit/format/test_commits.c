/* test_commits.c: consolidated commits with binary bytes in them, ignore and vacuum files,
 * consolidated footers. */

#include <stdio.h>
#include <string.h>

#include "format/commits.h"
#include "format_test.h"

#define UUID "0123456789abcdef0123456789abcdef"

static int decode_commits(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_commits commits;
  return tsr__commits_decode(&in, arena, &commits, error);
}
static int decode_names(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_names names;
  return tsr__names_decode(&in, arena, &names, error);
}
static int decode_footers(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_footers footers;
  return tsr__footers_decode(in.data, in.size, arena, &footers, error);
}

/* ---- Consolidated commits ---------------------------------------------------------------------------------------- */

static void put_delete(bytes *b, const char *line, const void *data, uint64_t size) {
  put_text(b, line), put8(b, '\n'), put64(b, size), put(b, data, size);
}

/* A write, a delete whose bytes look like lines and contain NULs, an update, a write of the old layout, a name without
 * a version. */
static bytes interleaved(bool last_newline) {
  bytes b = {0};
  put_text(&b, "__commits/__1_1_" UUID "_22.wrt\n");
  put_delete(&b, "__commits/__2_2_" UUID "_22.del", "x\n\0__9_9_" UUID "_22.wrt\n\n", 50);
  put_delete(&b, "__commits/__3_3_" UUID "_22.upd", "", 0);
  put_text(&b, "__4_5_" UUID "_10.ok\n");
  put_text(&b, "file:///elsewhere/__commits/__6_6_" UUID ".wrt");
  if (last_newline) put8(&b, '\n');
  return b;
}

static void test_con_entries_of_all_kinds_decode(void **state) {
  for (int newline = 0; newline < 2; newline++) {
    bytes b = interleaved(newline);
    room r;
    room_open(&r, UINT64_MAX);
    tsr_input in = tsr__input(b.data, b.size);
    tsr_commits commits;
    tsr_error error = {0};
    if (tsr__commits_decode(&in, &r.arena, &commits, &error) < 0) fail_msg("%s", error.message);
    assert_int_equal(commits.count, 5);
    const tsr_commit *c = commits.commits;
    assert_int_equal(c[0].kind, TSR_COMMIT_WRITE);
    assert_string_equal(c[0].name, "__1_1_" UUID "_22");
    assert_int_equal(c[1].kind, TSR_COMMIT_DELETE);
    assert_string_equal(c[1].name, "__2_2_" UUID "_22");
    assert_int_equal(c[1].size, 50);
    assert_memory_equal(c[1].bytes, "x\n\0__9", 6);
    assert_ptr_equal(c[1].bytes,
                     b.data + strlen("__commits/__1_1_" UUID "_22.wrt\n__commits/__2_2_" UUID "_22.del\n") + 8);
    assert_int_equal(c[2].kind, TSR_COMMIT_UPDATE);
    assert_int_equal(c[2].size, 0);
    assert_int_equal(c[3].kind, TSR_COMMIT_WRITE);
    assert_string_equal(c[3].name, "__4_5_" UUID "_10");
    assert_string_equal(c[4].name, "__6_6_" UUID);
    room_close(&r);
    drop(&b);
  }
}

static void test_empty_con_is_refused(void **state) {
  bytes b = {0};
  put(&b, "", 0);
  assert_refused(decode_commits, &b, TSR_CORRUPT, "empty");
  drop(&b);
}

static void test_con_with_bad_entries_is_refused(void **state) {
  static const char *const lines[] = {
      "\n",
      "__commits/__1_1_" UUID "_22\n",
      "__commits/__1_1_" UUID "_22.vac\n",
      "__commits/.wrt\n",
      "__commits/\n",
      "__commits/__1_1_" UUID "_22.wrt/\n/",
      "__commits/__1_" UUID "_22.wrt\n",
      "__commits/__1_1_" UUID "_22.wrt\r\n",
      "__commits/__2_1_../x.wrt\n",
      "__commits/abc.wrt\n",
      "__commits/__1_1_" UUID "_22.wrt\n\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    bytes b = {0};
    put_text(&b, lines[i]);
    assert_refused(decode_commits, &b, TSR_CORRUPT, "consolidated commits: entry");
    drop(&b);
  }
  bytes b = {0};
  put_text(&b, "__commits/__1_1_" UUID "_22.wrt\n__commits/__2_2_" UUID "_22.del");
  assert_refused(decode_commits, &b, TSR_CORRUPT, "entry 1, '__commits/__2_2_");
  assert_refused(decode_commits, &b, TSR_CORRUPT, "its content is missing");
  put_text(&b, "\n1234567");
  assert_refused(decode_commits, &b, TSR_CORRUPT, "what follows it ends early");
  b.size -= 7;
  put64(&b, UINT64_MAX);
  assert_refused(decode_commits, &b, TSR_CORRUPT, "what follows it ends early");
  drop(&b);
}

static void test_damaged_con_is_refused_or_harmless(void **state) {
  bytes b = interleaved(true);
  tsr_error error;
  for (uint64_t size = 0; size <= b.size; size++) decode_once(decode_commits, b.data, size, UINT64_MAX, &error);
  survive_flips(decode_commits, &b);
  assert_budgets(decode_commits, &b);
  drop(&b);
}

/* ---- Ignore and vacuum files ------------------------------------------------------------------------------------- */

static void assert_names(const char *text, uint64_t count, const char *const *names) {
  bytes b = {0};
  put_text(&b, text);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_input in = tsr__input(b.data, b.size);
  tsr_names got;
  tsr_error error = {0};
  if (tsr__names_decode(&in, &r.arena, &got, &error) < 0) fail_msg("%s", error.message);
  assert_int_equal(got.count, count);
  for (uint64_t i = 0; i < count; i++) assert_string_equal(got.names[i], names[i]);
  room_close(&r);
  drop(&b);
}

static void test_name_lists_keep_last_components(void **state) {
  const char *a[] = {"A_22.wrt", "B", "C", "D", "E", "F", "G"};
  assert_names("__commits/A_22.wrt\n/__fragments/B\n/C\nfile:///x/__meta/../__fragments/D\ns3://bucket/E/\nF\n__meta/G",
               7, a);
  assert_names("__commits/A_22.wrt\n", 1, a);
  assert_names("A_22.wrt", 1, a);
  assert_names("", 0, NULL);
}

static void test_name_lists_with_bad_names_are_refused(void **state) {
  static const char *const lines[] = {"\n", "/\n",           "a\n\nb\n", "__fragments/..\n", "__fragments/.\n",
                                      "..", "__meta//..//\n"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    bytes b = {0};
    put_text(&b, lines[i]);
    assert_refused(decode_names, &b, TSR_CORRUPT, "list of names: line");
    drop(&b);
  }
  bytes b = {0};
  put(&b, "a\nb\0c\n", 6);
  assert_refused(decode_names, &b, TSR_CORRUPT, "line 2");
  drop(&b);
  for (int i = 0; i < 256; i++) put8(&b, 'n');
  assert_refused(decode_names, &b, TSR_CORRUPT, "line 1");
  b.size--;
  assert_accepted(decode_names, &b);
  assert_budgets(decode_names, &b);
  survive_flips(decode_names, &b);
  drop(&b);
}

/* ---- Consolidated footers ---------------------------------------------------------------------------------------- */

static bytes footers(uint64_t first, uint64_t second) {
  bytes b = {0};
  put32(&b, 2);
  put_text64(&b, "__1_1_" UUID "_22"), put64(&b, first);
  put_text64(&b, "file:///tmp/array/__2_3_" UUID "_8"), put64(&b, second);
  put_text(&b, "footer oneSECOND");
  return b;
}

/* TileDB states wrong offsets for the footers that follow one of version 3, 4 or 11. */
static void test_footers_behind_miscounted_ones_are_left_out(void **state) {
  static const char *const versions[] = {"", "_11"};
  for (int v = 0; v < 2; v++) {
    bytes b = {0};
    put32(&b, 3);
    for (int i = 0; i < 3; i++) {
      char name[64];
      snprintf(name, sizeof name, "__%d_%d_" UUID "%s", i, i, i == 1 ? versions[v] : "_9");
      put_text64(&b, name), put64(&b, 4 + 3 * 16 + 2 * strlen("__0_0_" UUID "_9") + strlen("__0_0_" UUID) +
                                          strlen(versions[v]) + 10 * (uint64_t)i);
    }
    put_text(&b, "0123456789abcdefghijABCDEFGHIJ");
    room r;
    room_open(&r, UINT64_MAX);
    tsr_footers all;
    tsr_error error = {0};
    if (tsr__footers_decode(b.data, b.size, &r.arena, &all, &error) < 0) fail_msg("%s", error.message);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.footers[0].size, 10);
    assert_memory_equal(b.data + all.footers[0].at, "0123456789", 10);
    room_close(&r);
    drop(&b);
  }
}

static void test_footers_decode(void **state) {
  bytes b = footers(0, 0);
  uint64_t table = b.size - 16;
  drop(&b);
  b = footers(table, table + 10);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_footers all;
  tsr_error error = {0};
  if (tsr__footers_decode(b.data, b.size, &r.arena, &all, &error) < 0) fail_msg("%s", error.message);
  assert_int_equal(all.count, 2);
  assert_string_equal(all.footers[0].name, "__1_1_" UUID "_22");
  assert_string_equal(all.footers[1].name, "__2_3_" UUID "_8");
  assert_int_equal(all.footers[0].size, 10);
  assert_int_equal(all.footers[1].size, 6);
  assert_memory_equal(b.data + all.footers[0].at, "footer one", 10);
  assert_memory_equal(b.data + all.footers[1].at, "SECOND", 6);
  room_close(&r);
  survive_flips(decode_footers, &b);
  assert_budgets(decode_footers, &b);
  for (uint64_t size = 0; size < table; size++) {
    tsr_error ignored;
    assert_int_equal(decode_once(decode_footers, b.data, size, UINT64_MAX, &ignored), TSR_CORRUPT);
  }
  drop(&b);

  const uint64_t bad[][2] = {
      {table - 1, table + 10}, {table + 11, table + 10}, {table, table + 17}, {0, 0}, {table, UINT64_MAX}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    b = footers(bad[i][0], bad[i][1]);
    assert_refused(decode_footers, &b, TSR_CORRUPT, "the table puts the footer");
    drop(&b);
  }
  put32(&b, 1), put_text64(&b, "__fragments/x"), put64(&b, 0);
  assert_refused(decode_footers, &b, TSR_CORRUPT, "no timestamped name");
  drop(&b);
  put32(&b, 0);
  assert_accepted(decode_footers, &b);
  memset(b.data, 255, 4);
  assert_refused(decode_footers, &b, TSR_CORRUPT, "the table ends early");
  drop(&b);
}

/* Writes and deletes decode as they were encoded. */
static void test_encoded_entries_decode(void **state) {
  room r;
  room_open(&r, UINT64_MAX);
  tsr_buffer out = {.memory = &r.memory};
  tsr_error error = {0};
  tsr_commits commits;
  assert_int_equal(tsr__commits_encode_write("__1_1_" UUID "_22", &out, &error), TSR_OK);
  assert_int_equal(tsr__commits_encode_delete("__2_2_" UUID "_22", "a\n\0b", 4, &out, &error), TSR_OK);
  assert_int_equal(tsr__commits_encode_write("__3_3_" UUID "_22", &out, &error), TSR_OK);
  assert_memory_equal(out.data, "__commits/__1_1_" UUID "_22.wrt\n", 56);
  tsr_input in = tsr__input(out.data, out.size);
  if (tsr__commits_decode(&in, &r.arena, &commits, &error) < 0) fail_msg("%s", error.message);
  assert_int_equal(commits.count, 3);
  assert_string_equal(commits.commits[0].name, "__1_1_" UUID "_22");
  assert_int_equal(commits.commits[1].kind, TSR_COMMIT_DELETE);
  assert_int_equal(commits.commits[1].size, 4);
  assert_memory_equal(commits.commits[1].bytes, "a\n\0b", 4);
  assert_string_equal(commits.commits[2].name, "__3_3_" UUID "_22");
  tsr__buffer_release(&out);
  room_close(&r);
}

/* A .meta stands for a .con only if it has the footers of all its fragments, in their order, and of no others. */
static void test_commits_match_their_footers(void **state) {
  static char one[] = "__1_1_" UUID "_22", two[] = "__2_2_" UUID "_22", old[] = "__1_1_" UUID "_9";
  tsr_commit all[] = {{.kind = TSR_COMMIT_WRITE, .name = one}, {.kind = TSR_COMMIT_WRITE, .name = two}};
  tsr_footer theirs[] = {{.name = one}, {.name = two}};
  const tsr_commits commits = {.commits = all, .count = 2};
  tsr_footers footers = {.footers = theirs, .count = 2};
  assert_true(tsr__commits_match(&commits, &footers));
  theirs[1].name = old; /* as many, but of another fragment */
  assert_false(tsr__commits_match(&commits, &footers));
  theirs[1].name = two;
  footers.partial = true;
  assert_false(tsr__commits_match(&commits, &footers));
  footers.partial = false;
  footers.count = 1;
  assert_false(tsr__commits_match(&commits, &footers));
  footers.count = 2;
  all[1].kind = TSR_COMMIT_DELETE;
  assert_false(tsr__commits_match(&commits, &footers));
  all[1].kind = TSR_COMMIT_WRITE;
  all[0].name = theirs[0].name = old;
  assert_false(tsr__commits_match(&commits, &footers));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_con_entries_of_all_kinds_decode),
      cmocka_unit_test(test_empty_con_is_refused),
      cmocka_unit_test(test_con_with_bad_entries_is_refused),
      cmocka_unit_test(test_damaged_con_is_refused_or_harmless),
      cmocka_unit_test(test_name_lists_keep_last_components),
      cmocka_unit_test(test_name_lists_with_bad_names_are_refused),
      cmocka_unit_test(test_footers_decode),
      cmocka_unit_test(test_footers_behind_miscounted_ones_are_left_out),
      cmocka_unit_test(test_encoded_entries_decode),
      cmocka_unit_test(test_commits_match_their_footers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
