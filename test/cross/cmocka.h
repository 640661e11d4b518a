/* cmocka.h: the part of cmocka's interface that the unit tests use, for machines to which no cmocka is built: test/cross
 * compiles the tests with it. A test that fails leaves by longjmp, as cmocka's do. */
#ifndef TEST_CROSS_CMOCKA_H
#define TEST_CROSS_CMOCKA_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
  const char *name;
  void (*test)(void **state);
  int (*setup)(void **state);
  int (*teardown)(void **state);
};

enum { CROSS_PASSED, CROSS_FAILED, CROSS_SKIPPED };

static jmp_buf cross_leave;

__attribute__((format(printf, 1, 2))) static inline void print_message(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
}

#define print_error print_message
#define test_malloc malloc
#define test_free   free

__attribute__((noreturn, format(printf, 3, 4))) static inline void cross_fail(const char *file, int line,
                                                                              const char *format, ...) {
  va_list arguments;
  printf("%s:%d: ", file, line);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  longjmp(cross_leave, CROSS_FAILED);
}

static inline void cross_check_integers(uintmax_t a, uintmax_t b, int equal, const char *file, int line) {
  if ((a == b) != equal) cross_fail(file, line, "0x%" PRIxMAX " %s 0x%" PRIxMAX, a, equal ? "is not" : "is", b);
}

static inline void cross_check_texts(const char *a, const char *b, int equal, const char *file, int line) {
  if (!a || !b) cross_fail(file, line, "a text is NULL");
  if ((strcmp(a, b) == 0) != equal) cross_fail(file, line, "\"%s\" %s \"%s\"", a, equal ? "is not" : "is", b);
}

static inline void cross_check_bytes(const void *a, const void *b, size_t size, int equal, const char *file, int line) {
  if ((memcmp(a, b, size) == 0) != equal)
    cross_fail(file, line, "%zu bytes are %s", size, equal ? "not the same" : "the same");
}

#define fail_msg(...) cross_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail()        fail_msg("fails")
#define skip()        longjmp(cross_leave, CROSS_SKIPPED)
#define assert_true(condition)                                                                                         \
  do {                                                                                                                 \
    if (!(condition)) fail_msg("%s does not hold", #condition);                                                        \
  } while (0)
#define assert_false(condition)          assert_true(!(condition))
#define assert_null(pointer)             assert_true((pointer) == NULL)
#define assert_non_null(pointer)         assert_true((pointer) != NULL)
#define assert_ptr_equal(a, b)           assert_true((const void *)(a) == (const void *)(b))
#define assert_ptr_not_equal(a, b)       assert_true((const void *)(a) != (const void *)(b))
#define assert_int_equal(a, b)           cross_check_integers((uintmax_t)(a), (uintmax_t)(b), 1, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)       cross_check_integers((uintmax_t)(a), (uintmax_t)(b), 0, __FILE__, __LINE__)
#define assert_string_equal(a, b)        cross_check_texts(a, b, 1, __FILE__, __LINE__)
#define assert_string_not_equal(a, b)    cross_check_texts(a, b, 0, __FILE__, __LINE__)
#define assert_memory_equal(a, b, n)     cross_check_bytes(a, b, n, 1, __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, n) cross_check_bytes(a, b, n, 0, __FILE__, __LINE__)
#define assert_in_range(v, low, high)                                                                                  \
  assert_true((uintmax_t)(v) >= (uintmax_t)(low) && (uintmax_t)(v) <= (uintmax_t)(high))

#define cmocka_unit_test(f)                                                                                            \
  { #f, f, NULL, NULL }
#define cmocka_unit_test_setup_teardown(f, up, down)                                                                   \
  { #f, f, up, down }
#define cmocka_unit_test_teardown(f, down)                                                                             \
  { #f, f, NULL, down }
#define cmocka_run_group_tests(tests, up, down) cross_run(#tests, tests, sizeof(tests) / sizeof *(tests), up, down)

static inline int cross_run_one(const struct CMUnitTest *t, void *group_state) {
  void *state = group_state;
  const int left = setjmp(cross_leave);
  if (left == 0) {
    if (t->setup && t->setup(&state) != 0) fail_msg("the setup of %s failed", t->name);
    t->test(&state);
    if (t->teardown && t->teardown(&state) != 0) fail_msg("the teardown of %s failed", t->name);
  }
  if (left != CROSS_PASSED) printf("%s: %s\n", t->name, left == CROSS_SKIPPED ? "skipped" : "FAILED");
  fflush(stdout);
  return left == CROSS_FAILED;
}

static inline int cross_run(const char *group, const struct CMUnitTest *tests, size_t count, int (*up)(void **),
                            int (*down)(void **)) {
  void *state = NULL;
  int failed = up && up(&state) != 0;
  if (failed) printf("%s: the setup of the group FAILED\n", group);
  for (size_t i = 0; !failed && i < count; i++) failed += cross_run_one(&tests[i], state);
  if (down) down(&state);
  return failed;
}

#endif
