/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A small KUnit for userspace: the part of the kernel's <kunit/test.h> that
 * test cases of decision logic need. A source written against it compiles
 * unchanged as a KUnit module, where the kernel's header of the same name is
 * found instead.
 *
 * An expectation that fails marks the test and goes on; an assertion that
 * fails ends the test. Both evaluate their arguments once.
 */
#ifndef CIL_KUNIT_TEST_H
#define CIL_KUNIT_TEST_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#endif

/* The kernel's allocation flags have no meaning here. */
#define GFP_KERNEL		0u

/* Modules say these once; userspace has no use for them. */
#define MODULE_LICENSE(text)
#define MODULE_DESCRIPTION(text)
#define MODULE_AUTHOR(text)

struct kunit_allocation;

/**
 * enum kunit_status - what became of a test
 * @KUNIT_SUCCESS: every expectation held
 * @KUNIT_FAILURE: at least one did not
 * @KUNIT_SKIPPED: the test said that it could not run
 */
enum kunit_status {
	KUNIT_SUCCESS,
	KUNIT_FAILURE,
	KUNIT_SKIPPED,
};

/**
 * struct kunit - one running test
 * @priv: for the test's own use
 * @name: name of the test
 * @status: what became of it so far
 * @status_comment: why it was skipped
 * @abort: where an assertion that fails continues
 * @allocations: memory to free at its end
 */
struct kunit {
	void *priv;
	const char *name;
	enum kunit_status status;
	char status_comment[256];
	jmp_buf abort;
	struct kunit_allocation *allocations;
};

/**
 * struct kunit_case - one test
 * @run_case: the test
 * @name: its name
 */
struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
};

/**
 * struct kunit_suite - tests of one unit
 * @name: name of the unit
 * @suite_init: runs before the first test; failure fails the suite
 * @suite_exit: runs after the last test
 * @init: runs before each test; failure fails the test
 * @exit: runs after each test
 * @test_cases: the tests, ended by an empty one
 */
struct kunit_suite {
	const char name[256];
	int (*suite_init)(struct kunit_suite *suite);
	void (*suite_exit)(struct kunit_suite *suite);
	int (*init)(struct kunit *test);
	void (*exit)(struct kunit *test);
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(test)	{ .run_case = (test), .name = #test }
#define KUNIT_CASE_SLOW(test)	KUNIT_CASE(test)

#define CIL_KUNIT_PASTE_(a, b)	a##b
#define CIL_KUNIT_PASTE(a, b)	CIL_KUNIT_PASTE_(a, b)

/* The linker gathers the suites of all sources into one array. */
#define kunit_test_suites(...)						\
	static struct kunit_suite *const				\
	CIL_KUNIT_PASTE(cil_kunit_suites_, __COUNTER__)[]		\
	__attribute__((used, section("cil_kunit_suites"))) = { __VA_ARGS__ }

#define kunit_test_suite(suite)	kunit_test_suites(&(suite))

void *kunit_kzalloc(struct kunit *test, size_t size, unsigned int flags);

__attribute__((format(printf, 2, 3)))
void cil_kunit_print(struct kunit *test, const char *format, ...);

__attribute__((format(printf, 2, 3), noreturn))
void cil_kunit_skip(struct kunit *test, const char *format, ...);

__attribute__((format(printf, 5, 6)))
void cil_kunit_fail(struct kunit *test, const char *file, int line, bool fatal,
		    const char *format, ...);

#define kunit_info(test, ...)	cil_kunit_print(test, __VA_ARGS__)
#define kunit_warn(test, ...)	cil_kunit_print(test, __VA_ARGS__)
#define kunit_err(test, ...)	cil_kunit_print(test, __VA_ARGS__)
#define kunit_skip(test, ...)	cil_kunit_skip(test, __VA_ARGS__)

/* Every macro below ends here; @... is the user's message, perhaps empty. */
#define CIL_KUNIT_CHECK(test, good, fatal, what, left, right, ...)	\
do {									\
	if (!(good)) {							\
		cil_kunit_print(test, " " __VA_ARGS__);			\
		cil_kunit_fail(test, __FILE__, __LINE__, fatal,		\
			       "expected %s (left %lld, right %lld)",	\
			       what, (long long)(left),			\
			       (long long)(right));			\
	}								\
} while (0)

#define CIL_KUNIT_COMPARE(test, fatal, left, op, right, ...)		\
do {									\
	const __auto_type left_ = (left);				\
	const __auto_type right_ = (right);				\
	CIL_KUNIT_CHECK(test, left_ op right_, fatal,			\
			#left " " #op " " #right, left_, right_,	\
			##__VA_ARGS__);					\
} while (0)

#define CIL_KUNIT_BOOL(test, fatal, condition, wanted, ...)		\
do {									\
	const bool left_ = !!(condition);				\
	CIL_KUNIT_CHECK(test, left_ == (wanted), fatal,			\
			#condition " is " #wanted, left_, wanted,	\
			##__VA_ARGS__);					\
} while (0)

#define CIL_KUNIT_POINTER(test, fatal, left, op, right, ...)		\
do {									\
	const void *left_ = (left);					\
	const void *right_ = (right);					\
	CIL_KUNIT_CHECK(test, left_ op right_, fatal,			\
			#left " " #op " " #right, (intptr_t)left_,	\
			(intptr_t)right_, ##__VA_ARGS__);		\
} while (0)

/* @function returns 0 where its arguments are equal, as strcmp() does. */
#define CIL_KUNIT_BYTES(test, fatal, call, op, ...)			\
do {									\
	const int left_ = (call);					\
	CIL_KUNIT_CHECK(test, left_ op 0, fatal, #call " " #op " 0",	\
			left_, 0, ##__VA_ARGS__);			\
} while (0)

#define CIL_KUNIT_STRING(test, fatal, left, op, right, ...)		\
do {									\
	const char *text_ = (left);					\
	const char *wanted_ = (right);					\
	if (!(strcmp(text_, wanted_) op 0))				\
		cil_kunit_print(test, "left \"%s\", right \"%s\"",	\
				text_, wanted_);			\
	CIL_KUNIT_BYTES(test, fatal, strcmp(text_, wanted_), op,	\
			##__VA_ARGS__);					\
} while (0)

#define KUNIT_FAIL(test, ...) \
	cil_kunit_fail(test, __FILE__, __LINE__, false, __VA_ARGS__)
#define KUNIT_FAIL_AND_ABORT(test, ...) \
	cil_kunit_fail(test, __FILE__, __LINE__, true, __VA_ARGS__)
#define KUNIT_SUCCEED(test)	((void)(test))

#define KUNIT_EXPECT_EQ(test, left, right) \
	CIL_KUNIT_COMPARE(test, false, left, ==, right)
#define KUNIT_EXPECT_EQ_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, false, left, ==, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_NE(test, left, right) \
	CIL_KUNIT_COMPARE(test, false, left, !=, right)
#define KUNIT_EXPECT_NE_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, false, left, !=, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_LT(test, left, right) \
	CIL_KUNIT_COMPARE(test, false, left, <, right)
#define KUNIT_EXPECT_LT_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, false, left, <, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_LE(test, left, right) \
	CIL_KUNIT_COMPARE(test, false, left, <=, right)
#define KUNIT_EXPECT_LE_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, false, left, <=, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_GT(test, left, right) \
	CIL_KUNIT_COMPARE(test, false, left, >, right)
#define KUNIT_EXPECT_GT_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, false, left, >, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_GE(test, left, right) \
	CIL_KUNIT_COMPARE(test, false, left, >=, right)
#define KUNIT_EXPECT_GE_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, false, left, >=, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_TRUE(test, condition) \
	CIL_KUNIT_BOOL(test, false, condition, true)
#define KUNIT_EXPECT_TRUE_MSG(test, condition, ...) \
	CIL_KUNIT_BOOL(test, false, condition, true, ##__VA_ARGS__)
#define KUNIT_EXPECT_FALSE(test, condition) \
	CIL_KUNIT_BOOL(test, false, condition, false)
#define KUNIT_EXPECT_FALSE_MSG(test, condition, ...) \
	CIL_KUNIT_BOOL(test, false, condition, false, ##__VA_ARGS__)
#define KUNIT_EXPECT_PTR_EQ(test, left, right) \
	CIL_KUNIT_POINTER(test, false, left, ==, right)
#define KUNIT_EXPECT_PTR_EQ_MSG(test, left, right, ...) \
	CIL_KUNIT_POINTER(test, false, left, ==, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_PTR_NE(test, left, right) \
	CIL_KUNIT_POINTER(test, false, left, !=, right)
#define KUNIT_EXPECT_PTR_NE_MSG(test, left, right, ...) \
	CIL_KUNIT_POINTER(test, false, left, !=, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_NULL(test, pointer) \
	CIL_KUNIT_POINTER(test, false, pointer, ==, NULL)
#define KUNIT_EXPECT_NULL_MSG(test, pointer, ...) \
	CIL_KUNIT_POINTER(test, false, pointer, ==, NULL, ##__VA_ARGS__)
#define KUNIT_EXPECT_NOT_NULL(test, pointer) \
	CIL_KUNIT_POINTER(test, false, pointer, !=, NULL)
#define KUNIT_EXPECT_NOT_NULL_MSG(test, pointer, ...) \
	CIL_KUNIT_POINTER(test, false, pointer, !=, NULL, ##__VA_ARGS__)
#define KUNIT_EXPECT_NOT_ERR_OR_NULL(test, pointer) \
	CIL_KUNIT_POINTER(test, false, pointer, !=, NULL)
#define KUNIT_EXPECT_NOT_ERR_OR_NULL_MSG(test, pointer, ...) \
	CIL_KUNIT_POINTER(test, false, pointer, !=, NULL, ##__VA_ARGS__)
#define KUNIT_EXPECT_STREQ(test, left, right) \
	CIL_KUNIT_STRING(test, false, left, ==, right)
#define KUNIT_EXPECT_STREQ_MSG(test, left, right, ...) \
	CIL_KUNIT_STRING(test, false, left, ==, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_STRNEQ(test, left, right) \
	CIL_KUNIT_STRING(test, false, left, !=, right)
#define KUNIT_EXPECT_STRNEQ_MSG(test, left, right, ...) \
	CIL_KUNIT_STRING(test, false, left, !=, right, ##__VA_ARGS__)
#define KUNIT_EXPECT_MEMEQ(test, left, right, size) \
	CIL_KUNIT_BYTES(test, false, memcmp(left, right, size), ==)
#define KUNIT_EXPECT_MEMEQ_MSG(test, left, right, size, ...) \
	CIL_KUNIT_BYTES(test, false, memcmp(left, right, size), ==, ##__VA_ARGS__)
#define KUNIT_EXPECT_MEMNEQ(test, left, right, size) \
	CIL_KUNIT_BYTES(test, false, memcmp(left, right, size), !=)
#define KUNIT_EXPECT_MEMNEQ_MSG(test, left, right, size, ...) \
	CIL_KUNIT_BYTES(test, false, memcmp(left, right, size), !=, ##__VA_ARGS__)

#define KUNIT_ASSERT_EQ(test, left, right) \
	CIL_KUNIT_COMPARE(test, true, left, ==, right)
#define KUNIT_ASSERT_EQ_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, true, left, ==, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_NE(test, left, right) \
	CIL_KUNIT_COMPARE(test, true, left, !=, right)
#define KUNIT_ASSERT_NE_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, true, left, !=, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_LT(test, left, right) \
	CIL_KUNIT_COMPARE(test, true, left, <, right)
#define KUNIT_ASSERT_LT_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, true, left, <, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_LE(test, left, right) \
	CIL_KUNIT_COMPARE(test, true, left, <=, right)
#define KUNIT_ASSERT_LE_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, true, left, <=, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_GT(test, left, right) \
	CIL_KUNIT_COMPARE(test, true, left, >, right)
#define KUNIT_ASSERT_GT_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, true, left, >, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_GE(test, left, right) \
	CIL_KUNIT_COMPARE(test, true, left, >=, right)
#define KUNIT_ASSERT_GE_MSG(test, left, right, ...) \
	CIL_KUNIT_COMPARE(test, true, left, >=, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_TRUE(test, condition) \
	CIL_KUNIT_BOOL(test, true, condition, true)
#define KUNIT_ASSERT_TRUE_MSG(test, condition, ...) \
	CIL_KUNIT_BOOL(test, true, condition, true, ##__VA_ARGS__)
#define KUNIT_ASSERT_FALSE(test, condition) \
	CIL_KUNIT_BOOL(test, true, condition, false)
#define KUNIT_ASSERT_FALSE_MSG(test, condition, ...) \
	CIL_KUNIT_BOOL(test, true, condition, false, ##__VA_ARGS__)
#define KUNIT_ASSERT_PTR_EQ(test, left, right) \
	CIL_KUNIT_POINTER(test, true, left, ==, right)
#define KUNIT_ASSERT_PTR_EQ_MSG(test, left, right, ...) \
	CIL_KUNIT_POINTER(test, true, left, ==, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_PTR_NE(test, left, right) \
	CIL_KUNIT_POINTER(test, true, left, !=, right)
#define KUNIT_ASSERT_PTR_NE_MSG(test, left, right, ...) \
	CIL_KUNIT_POINTER(test, true, left, !=, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_NULL(test, pointer) \
	CIL_KUNIT_POINTER(test, true, pointer, ==, NULL)
#define KUNIT_ASSERT_NULL_MSG(test, pointer, ...) \
	CIL_KUNIT_POINTER(test, true, pointer, ==, NULL, ##__VA_ARGS__)
#define KUNIT_ASSERT_NOT_NULL(test, pointer) \
	CIL_KUNIT_POINTER(test, true, pointer, !=, NULL)
#define KUNIT_ASSERT_NOT_NULL_MSG(test, pointer, ...) \
	CIL_KUNIT_POINTER(test, true, pointer, !=, NULL, ##__VA_ARGS__)
#define KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pointer) \
	CIL_KUNIT_POINTER(test, true, pointer, !=, NULL)
#define KUNIT_ASSERT_NOT_ERR_OR_NULL_MSG(test, pointer, ...) \
	CIL_KUNIT_POINTER(test, true, pointer, !=, NULL, ##__VA_ARGS__)
#define KUNIT_ASSERT_STREQ(test, left, right) \
	CIL_KUNIT_STRING(test, true, left, ==, right)
#define KUNIT_ASSERT_STREQ_MSG(test, left, right, ...) \
	CIL_KUNIT_STRING(test, true, left, ==, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_STRNEQ(test, left, right) \
	CIL_KUNIT_STRING(test, true, left, !=, right)
#define KUNIT_ASSERT_STRNEQ_MSG(test, left, right, ...) \
	CIL_KUNIT_STRING(test, true, left, !=, right, ##__VA_ARGS__)
#define KUNIT_ASSERT_MEMEQ(test, left, right, size) \
	CIL_KUNIT_BYTES(test, true, memcmp(left, right, size), ==)
#define KUNIT_ASSERT_MEMEQ_MSG(test, left, right, size, ...) \
	CIL_KUNIT_BYTES(test, true, memcmp(left, right, size), ==, ##__VA_ARGS__)
#define KUNIT_ASSERT_MEMNEQ(test, left, right, size) \
	CIL_KUNIT_BYTES(test, true, memcmp(left, right, size), !=)
#define KUNIT_ASSERT_MEMNEQ_MSG(test, left, right, size, ...) \
	CIL_KUNIT_BYTES(test, true, memcmp(left, right, size), !=, ##__VA_ARGS__)

#endif /* CIL_KUNIT_TEST_H */
