/* test_lease.c: of several environments and processes one has the lease of an array, until it gives it back or the lease
 * has ended.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "maintain/maintain.h"
#include "small_array.h"

static tsr_environment *other;

static int lease_of(tsr_environment *holder, uint64_t seconds) {
  const int rc = tsr_lease(holder, path, seconds, &error);
  if (rc < 0) fail_msg("%s", error.message);
  return rc;
}

/* Returns the names of the leases' files, in the order of a listing. */
static const char *lease_files(void) {
  static char text[200];
  tsr_store *store = open_store(path);
  tsr_listing listing = {0};
  size_t size = 0;
  *text = 0;
  ok(tsr__store_list(store, "", &listing, &error));
  for (uint64_t i = 0; i < listing.count; i++)
    if (strncmp(listing.entries[i].name, ".lease", 6) == 0)
      size += (size_t)snprintf(text + size, sizeof text - size, "%s ", listing.entries[i].name);
  tsr__listing_release(&listing);
  tsr__store_close(store);
  return text;
}

static void put_lease(const char *name, const char *content) {
  tsr_store *store = open_store(path);
  ok(tsr__store_put_new(store, name, content, strlen(content), false, &error));
  tsr__store_close(store);
}

static void array_with_two(void) {
  tsr_array_close(make_small(22, false, false));
  ok(tsr_environment_open(NULL, &other, &error));
}

static void one_has_it_until_it_gives_it_back(void **state) {
  array_with_two();
  assert_int_equal(lease_of(environment, 60), 1);
  assert_string_equal(lease_files(), ".lease_1 ");
  assert_int_equal(lease_of(other, 60), 0);
  assert_int_equal(lease_of(other, 0), 0); /* it is not theirs */
  assert_int_equal(lease_of(other, 60), 0);
  assert_int_equal(lease_of(environment, 60), 1); /* renewed */
  assert_int_equal(lease_of(environment, 0), 0);
  assert_int_equal(lease_of(environment, 0), 0);
  assert_string_equal(lease_files(), ".lease_3 ");
  assert_int_equal(lease_of(other, 60), 1);
  assert_int_equal(lease_of(environment, 60), 0);
  tsr_environment_close(other);
}

static void a_lease_that_has_ended_is_taken_over(void **state) {
  array_with_two();
  assert_int_equal(lease_of(environment, 86400), 1);
  assert_int_equal(lease_of(other, 1), 0);
  age(".lease_1"); /* two days old */
  assert_int_equal(lease_of(other, 60), 1);
  assert_int_equal(lease_of(environment, 60), 0); /* it learns that it has lost the lease */
  tsr_environment_close(other);
}

/* Makes a lease as if it had been written so many milliseconds ago. */
static void written_before(const char *name, int64_t milliseconds) {
  char file[1200];
  struct timespec times[2];
  snprintf(file, sizeof file, "%s/%s", path, name);
  clock_gettime(CLOCK_REALTIME, &times[0]);
  const int64_t now = (int64_t)times[0].tv_sec * 1000 + times[0].tv_nsec / 1000000 - milliseconds;
  times[0] = times[1] = (struct timespec){.tv_sec = (time_t)(now / 1000), .tv_nsec = (long)(now % 1000) * 1000000};
  assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
}

static int64_t lease_clock(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* A store may round times down to a second, and its clock is known to a second: so nobody takes a lease over in the two
 * seconds after its end. */
static void a_lease_that_has_just_ended_is_left_alone(void **state) {
  int taken = 1;
  array_with_two();
  assert_int_equal(lease_of(environment, 60), 1);
  written_before(".lease_1", 60100);
  const int64_t begin = lease_clock();
  taken = lease_of(other, 60);
  if (lease_clock() - begin < 1800) assert_int_equal(taken, 0); /* else this machine stood still meanwhile */
  if (!taken) {
    written_before(".lease_1", 62100);
    assert_int_equal(lease_of(other, 60), 1);
  }
  tsr_environment_close(other);
}

static void an_own_lease_that_has_ended_is_renewed(void **state) {
  array_with_two();
  assert_int_equal(lease_of(environment, 1), 1);
  age(".lease_1");
  assert_int_equal(lease_of(environment, 1), 1);
  tsr_environment_close(other);
}

/* What a process leaves that died after it had created a generation that was not the highest any more. */
static void earlier_generations_do_not_count(void **state) {
  array_with_two();
  put_lease(".lease_7", "lease 0123456789abcdef0123456789abcdef 60\n");
  put_lease(".lease_3", "lease fedcba9876543210fedcba9876543210 0\n");
  assert_int_equal(lease_of(environment, 60), 0);
  age(".lease_7");
  assert_int_equal(lease_of(environment, 60), 1);
  assert_string_equal(lease_files(), ".lease_8 ");
  tsr_environment_close(other);
}

static int count_findings(void *argument, const tsr_finding *finding) {
  ++*(int *)argument;
  return TSR_OK;
}

static void the_check_and_the_vacuum_leave_leases_alone(void **state) {
  int findings = 0;
  uint64_t removed;
  array_with_two();
  assert_int_equal(lease_of(environment, 60), 1);
  age(".lease_1");
  ok(tsr_array_check(environment, path, &(tsr_check_options){.threads = 1}, count_findings, &findings, &error));
  assert_int_equal(findings, 0);
  tsr_array *array = open_small();
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &removed, &error));
  tsr_array_close(array);
  assert_string_equal(lease_files(), ".lease_1 ");
  ok(tsr_array_drop(environment, path, &error));
  assert_int_equal(tsr_lease(environment, path, 1, &error), TSR_NOT_FOUND);
  tsr_environment_close(other);
}

static void names_are_exact(void **state) {
  static const char *const wrong[] = {".lease_", ".lease_0", ".lease_01", ".lease_1x", ".lease_1234567890123456789",
                                      "lease_1", ".lease"};
  uint64_t generation;
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(tsr__lease_parse(wrong[i], &generation));
  assert_true(tsr__lease_parse(".lease_123456789012345678", &generation));
  assert_true(generation == UINT64_C(123456789012345678));
}

static void wrong_files_are_refused(void **state) {
  static const char *const wrong[] = {"",
                                      "lease 0123456789abcdef0123456789abcdef 60",
                                      "lease 0123 60\n",
                                      "lease 0123456789abcdef0123456789abcdef 86401\n",
                                      "lease 0123456789abcdef0123456789abcdef 60\n\n",
                                      "lease 0123456789ABCDEF0123456789ABCDEF 60\n",
                                      "lease 0123456789abcdef0123456789abcdef0 60\n",
                                      "lease 0123456789abcdef0123456789abcdef 060\n",
                                      "lease 0123456789abcdef0123456789abcdef -1\n",
                                      "lease 0123456789abcdef0123456789abcdef \n",
                                      "lease 0123456789abcdef0123456789abcdef 99999999999999999999\n",
                                      "grant 0123456789abcdef0123456789abcdef 60\n"};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    array_with_two();
    put_lease(".lease_1", wrong[i]);
    assert_int_equal(tsr_lease(environment, path, 60, &error), TSR_CORRUPT);
    assert_non_null(strstr(error.message, ".lease_1 is not a lease"));
    tsr_environment_close(other);
  }
  assert_int_equal(tsr_lease(environment, path, TSR_LEASE_MAX + 1, &error), TSR_RANGE);
  assert_int_equal(tsr_lease(environment, top, 1, &error), TSR_NOT_FOUND);
}

/* ---- Processes --------------------------------------------------------------------------------------------------- */

/* Eight processes ask at one time. A pipe tells each when to begin; an end of the file does for all. */
static void of_eight_processes_one_has_it(void **state) {
  for (int turn = 0; turn < 20; turn++) {
    pid_t children[8];
    int gate[2], status, holders = 0;
    char byte;
    array_with_two();
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < 8; i++) {
      children[i] = fork();
      if (children[i] != 0) continue;
      tsr_environment *mine;
      close(gate[1]);
      if (tsr_environment_open(NULL, &mine, NULL) < 0 || read(gate[0], &byte, 1) != 0) _exit(9);
      const int rc = tsr_lease(mine, path, 60, NULL);
      _exit(rc < 0 ? 9 : rc);
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < 8; i++) {
      assert_int_equal(waitpid(children[i], &status, 0), children[i]);
      assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
      holders += WEXITSTATUS(status);
    }
    assert_int_equal(holders, 1);
    tsr_environment_close(other);
  }
}

static void the_lease_of_a_killed_process_ends(void **state) {
  int status, told[2];
  char byte;
  array_with_two();
  assert_int_equal(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    tsr_environment *mine;
    if (tsr_environment_open(NULL, &mine, NULL) < 0 || tsr_lease(mine, path, 1, NULL) != 1) _exit(9);
    (void)!write(told[1], "x", 1);
    for (;;) pause();
  }
  assert_int_equal(read(told[0], &byte, 1), 1);
  assert_int_equal(lease_of(other, 60), 0);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(lease_of(other, 60), 0); /* nobody knows that the holder is dead */
  for (int i = 0; i < 100 && lease_of(other, 60) == 0; i++) usleep(100000);
  assert_int_equal(lease_of(other, 60), 1);
  assert_int_equal(lease_of(environment, 60), 0);
  close(told[0]);
  close(told[1]);
  tsr_environment_close(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_has_it_until_it_gives_it_back),
      cmocka_unit_test(a_lease_that_has_ended_is_taken_over),
      cmocka_unit_test(a_lease_that_has_just_ended_is_left_alone),
      cmocka_unit_test(an_own_lease_that_has_ended_is_renewed),
      cmocka_unit_test(earlier_generations_do_not_count),
      cmocka_unit_test(the_check_and_the_vacuum_leave_leases_alone),
      cmocka_unit_test(names_are_exact),
      cmocka_unit_test(wrong_files_are_refused),
      cmocka_unit_test(of_eight_processes_one_has_it),
      cmocka_unit_test(the_lease_of_a_killed_process_ends),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
