// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the KUnit suites that are linked in and prints KTAP, the format of the
 * kernel's own KUnit, so one parser reads both.
 */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <kunit/test.h>

/* An empty array makes the section exist where no suite is linked in. */
static struct kunit_suite *const no_suites[0]
__attribute__((used, section("cil_kunit_suites")));

extern struct kunit_suite *const __start_cil_kunit_suites[];
extern struct kunit_suite *const __stop_cil_kunit_suites[];

struct kunit_allocation {
	struct kunit_allocation *next;
	max_align_t memory[];
};

static const char *const result_of[] = {
	[KUNIT_SUCCESS] = "ok",
	[KUNIT_FAILURE] = "not ok",
	[KUNIT_SKIPPED] = "ok",
};

/**
 * kunit_kzalloc() - zeroed memory that lives as long as the test
 * @test: the running test
 * @size: bytes
 * @flags: ignored
 *
 * Return: the memory, or NULL.
 */
void *kunit_kzalloc(struct kunit *test, size_t size, unsigned int flags)
{
	struct kunit_allocation *allocation;

	allocation = calloc(1, sizeof(*allocation) + size);
	if (!allocation)
		return NULL;
	allocation->next = test->allocations;
	test->allocations = allocation;
	return allocation->memory;
}

static void free_allocations(struct kunit *test)
{
	struct kunit_allocation *allocation = test->allocations;

	while (allocation) {
		struct kunit_allocation *next = allocation->next;

		free(allocation);
		allocation = next;
	}
	test->allocations = NULL;
}

static void print_lines(const char *format, va_list args)
{
	printf("    # ");
	vprintf(format, args);
	putchar('\n');
}

/**
 * cil_kunit_print() - a line of comment in the output
 * @test: the running test
 * @format: printf format, without a new line at its end
 *
 * A text of blanks only, as the macros pass for "no message", prints nothing.
 */
void cil_kunit_print(struct kunit *test, const char *format, ...)
{
	va_list args;

	format += strspn(format, " ");
	if (!*format)
		return;
	va_start(args, format);
	print_lines(format, args);
	va_end(args);
}

/**
 * cil_kunit_skip() - end the test: it cannot run here
 * @test: the running test
 * @format: printf format of the reason
 */
void cil_kunit_skip(struct kunit *test, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(test->status_comment, sizeof(test->status_comment), format,
		  args);
	va_end(args);
	if (test->status == KUNIT_SUCCESS)
		test->status = KUNIT_SKIPPED;
	longjmp(test->abort, 1);
}

/**
 * cil_kunit_fail() - mark the test as failed
 * @test: the running test
 * @file: source file of the expectation
 * @line: line of the expectation
 * @fatal: end the test
 * @format: printf format of what was expected
 */
void cil_kunit_fail(struct kunit *test, const char *file, int line, bool fatal,
		    const char *format, ...)
{
	va_list args;

	printf("    # %s: failed at %s:%d\n", test->name, file, line);
	va_start(args, format);
	print_lines(format, args);
	va_end(args);
	test->status = KUNIT_FAILURE;
	if (fatal)
		longjmp(test->abort, 1);
}

static void run_steps(struct kunit *test, const struct kunit_suite *suite,
		      const struct kunit_case *kcase)
{
	if (setjmp(test->abort))
		return;
	if (suite->init && suite->init(test)) {
		KUNIT_FAIL(test, "the suite's init failed");
		return;
	}
	kcase->run_case(test);
}

static enum kunit_status run_case(const struct kunit_suite *suite,
				  const struct kunit_case *kcase, int number)
{
	struct kunit test = { .name = kcase->name };

	run_steps(&test, suite, kcase);
	if (suite->exit && !setjmp(test.abort))
		suite->exit(&test);
	free_allocations(&test);

	printf("    %s %d %s", result_of[test.status], number, kcase->name);
	if (test.status == KUNIT_SKIPPED)
		printf(" # SKIP %s", test.status_comment);
	putchar('\n');
	fflush(stdout);
	return test.status;
}

static bool is_wanted(const struct kunit_suite *suite,
		      const struct kunit_case *kcase, const char *filter)
{
	char full[512];

	if (!filter)
		return true;
	snprintf(full, sizeof(full), "%s.%s", suite->name, kcase->name);
	return !fnmatch(filter, full, 0) || !fnmatch(filter, suite->name, 0);
}

static int count_wanted(const struct kunit_suite *suite, const char *filter)
{
	const struct kunit_case *kcase;
	int count = 0;

	for (kcase = suite->test_cases; kcase->run_case; kcase++)
		count += is_wanted(suite, kcase, filter);
	return count;
}

static bool run_suite(struct kunit_suite *suite, const char *filter, int number)
{
	int counts[ARRAY_SIZE(result_of)] = { 0 };
	const struct kunit_case *kcase;
	bool good, started;
	int index = 0;

	printf("    KTAP version 1\n    # Subtest: %s\n    1..%d\n",
	       suite->name, count_wanted(suite, filter));
	started = !suite->suite_init || !suite->suite_init(suite);
	if (!started)
		printf("    # suite_init failed\n");
	for (kcase = suite->test_cases; started && kcase->run_case; kcase++)
		if (is_wanted(suite, kcase, filter))
			counts[run_case(suite, kcase, ++index)]++;
	if (started && suite->suite_exit)
		suite->suite_exit(suite);

	good = started && !counts[KUNIT_FAILURE];
	printf("# %s: pass:%d fail:%d skip:%d total:%d\n%s %d %s\n",
	       suite->name, counts[KUNIT_SUCCESS], counts[KUNIT_FAILURE],
	       counts[KUNIT_SKIPPED], index, good ? "ok" : "not ok", number,
	       suite->name);
	return good;
}

static int run_all(const char *filter)
{
	struct kunit_suite *const *suite;
	int suites = 0, number = 0;
	bool good = true;

	for (suite = __start_cil_kunit_suites;
	     suite < __stop_cil_kunit_suites; suite++)
		suites += count_wanted(*suite, filter) > 0;
	if (!suites) {
		fprintf(stderr, "kunit: no test matches %s\n",
			filter ? filter : "*");
		return 1;
	}

	printf("KTAP version 1\n1..%d\n", suites);
	for (suite = __start_cil_kunit_suites;
	     suite < __stop_cil_kunit_suites; suite++)
		if (count_wanted(*suite, filter))
			good &= run_suite(*suite, filter, ++number);
	return !good;
}

static int list_all(const char *filter)
{
	struct kunit_suite *const *suite;
	const struct kunit_case *kcase;

	for (suite = __start_cil_kunit_suites;
	     suite < __stop_cil_kunit_suites; suite++)
		for (kcase = (*suite)->test_cases; kcase->run_case; kcase++)
			if (is_wanted(*suite, kcase, filter))
				printf("%s.%s\n", (*suite)->name, kcase->name);
	return 0;
}

static const char usage[] =
	"usage: run-kunit [--list] [FILTER]\n"
	"Runs the unit tests of the governors and prints KTAP.\n"
	"FILTER is a glob over SUITE or SUITE.TEST.\n"
	"Exit code: 0 all passed, 1 a test failed or none matched, 2 usage.\n";

int main(int argc, char **argv)
{
	const char *filter = NULL;
	bool list = false;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return 0;
		}
		if (!strcmp(argv[i], "--list")) {
			list = true;
			continue;
		}
		if (argv[i][0] == '-' || filter) {
			fputs(usage, stderr);
			return 2;
		}
		filter = argv[i];
	}
	return list ? list_all(filter) : run_all(filter);
}
