// SPDX-License-Identifier: GPL-2.0
/*
 * A holder holds, rests and releases its CPU: waiting work has its share, pinned
 * work has the CPU, and real-time tasks are not throttled.
 */
#include <kunit/test.h>

#include "hold.h"

#define MS	((u64)CIL_NSEC_PER_MSEC)
#define SLICE	(10 * MS)

static const struct evacuate_tunables held_by = {
	.max_capacity_pct = 50,
	.latency_us = 1000000,
	.slice_us = 10000,
	.share_pct = 20,
	.backoff_ms = 100,
};

static const struct evacuate_seen alone = { .held_ns = SLICE };
static const struct evacuate_seen work = { .held_ns = SLICE, .waiting = true };
static const struct evacuate_seen pinned = {
	.held_ns = SLICE, .waiting = true, .pinned = true,
};

static void expect(struct kunit *test, struct evacuate_hold *hold,
		   const struct evacuate_seen *seen, enum evacuate_action action,
		   enum evacuate_reason reason, u64 length_ns)
{
	struct evacuate_step step = evacuate_next(hold, &held_by, seen);

	KUNIT_EXPECT_EQ(test, step.action, action);
	KUNIT_EXPECT_EQ(test, step.reason, reason);
	KUNIT_EXPECT_EQ(test, step.length_ns, length_ns);
}

static void expect_hold(struct kunit *test, struct evacuate_hold *hold,
			const struct evacuate_seen *seen)
{
	expect(test, hold, seen, EVACUATE_HOLD, EVACUATE_REASON_NONE, SLICE);
}

/* Nothing waits: slice after slice, without a rest. */
static void holds_an_empty_cpu(struct kunit *test)
{
	struct evacuate_hold hold = { 0 };
	struct evacuate_seen first = { 0 };
	int n;

	expect_hold(test, &hold, &first);
	for (n = 0; n < 1000; n++)
		expect_hold(test, &hold, &alone);
	/* Work that was there before has to see the holder first. */
	first.waiting = true;
	expect_hold(test, &hold, &first);
}

/* 2.5 ms after 10 ms: a fifth of the time. */
static void work_has_its_share(struct kunit *test)
{
	struct evacuate_hold hold = { 0 };
	struct evacuate_seen rested = { .waiting = true };
	int n;

	for (n = 0; n < 100; n++) {
		expect(test, &hold, &work, EVACUATE_REST, EVACUATE_REASON_WORK,
		       SLICE / 4);
		expect_hold(test, &hold, &rested);
	}
}

/* Looks come after slices 2, 4, 8 and so on, and only where something waits. */
static void looks_are_rare(struct kunit *test)
{
	static const struct evacuate_seen first = { .waiting = true };
	struct evacuate_hold hold = { 0 };
	u32 looks = 0;
	u32 n;

	KUNIT_EXPECT_FALSE(test, evacuate_wants_look(&hold, &work));
	for (n = 1; n <= 1024; n++) {
		looks += evacuate_wants_look(&hold, &work);
		evacuate_next(&hold, &held_by, &work);
	}
	KUNIT_EXPECT_EQ(test, looks, 10u);
	hold.waited = 1;
	KUNIT_EXPECT_TRUE(test, evacuate_wants_look(&hold, &work));
	KUNIT_EXPECT_FALSE(test, evacuate_wants_look(&hold, &alone));
	KUNIT_EXPECT_FALSE(test, evacuate_wants_look(&hold, &first));
	/* An empty slice begins the count again. */
	evacuate_next(&hold, &held_by, &alone);
	KUNIT_EXPECT_FALSE(test, evacuate_wants_look(&hold, &work));
}

static void pinned_work_gets_the_cpu(struct kunit *test)
{
	struct evacuate_hold hold = { 0 };
	u64 length_ns = 100 * MS;
	int n;

	for (n = 0; n < 10; n++) {
		expect(test, &hold, &pinned, EVACUATE_REST, EVACUATE_REASON_WORK,
		       SLICE / 4);
		expect(test, &hold, &pinned, EVACUATE_BACK_OFF,
		       EVACUATE_REASON_PINNED, length_ns);
		if (length_ns < 1600 * MS)
			length_ns *= 2;
	}
	/* It is gone, and comes back: the first release is short again. */
	expect_hold(test, &hold, &alone);
	evacuate_next(&hold, &held_by, &pinned);
	expect(test, &hold, &pinned, EVACUATE_BACK_OFF, EVACUATE_REASON_PINNED,
	       100 * MS);
}

/* A rest cuts the run that counts against the kernel's limit. */
static void realtime_tasks_are_not_throttled(struct kunit *test)
{
	struct evacuate_seen seen = { .held_ns = SLICE, .throttled = true };
	struct evacuate_hold hold = { 0 };
	u64 held_ns = 0, rested_ns = 0;
	int n;

	for (n = 0; n < 10000; n++) {
		struct evacuate_step step = evacuate_next(&hold, &held_by, &seen);

		if (step.action == EVACUATE_HOLD) {
			held_ns += step.length_ns;
			seen.held_ns = step.length_ns;
			continue;
		}
		KUNIT_EXPECT_EQ(test, step.reason, EVACUATE_REASON_THROTTLE);
		rested_ns += step.length_ns;
		seen.held_ns = 0;
	}
	KUNIT_EXPECT_LE(test, held_ns * 100 / (held_ns + rested_ns), 94ULL);
	KUNIT_EXPECT_GE(test, held_ns * 1000 / (held_ns + rested_ns), 939ULL);
	/* A small share does not make the rest shorter than the limit wants. */
	hold = (struct evacuate_hold) { .run_ns = 188 * MS - SLICE };
	seen = (struct evacuate_seen) {
		.held_ns = SLICE, .waiting = true, .throttled = true,
	};
	expect(test, &hold, &seen, EVACUATE_REST, EVACUATE_REASON_WORK, 12 * MS);
	KUNIT_EXPECT_EQ(test, hold.run_ns, 0ULL);
	/* A large one is kept. */
	expect(test, &hold, &seen, EVACUATE_REST, EVACUATE_REASON_WORK, SLICE / 4);
	/* Softirqs rest no shorter. */
	hold.run_ns = 188 * MS - SLICE;
	seen.softirq = true;
	expect(test, &hold, &seen, EVACUATE_REST, EVACUATE_REASON_SOFTIRQ,
	       12 * MS);
	/* Without the limit the run does not matter. */
	hold.run_ns = 188 * MS - SLICE;
	expect(test, &hold, &work, EVACUATE_REST, EVACUATE_REASON_WORK, SLICE / 4);
}

/* A run of 470 ms is followed by a rest of 30 ms: 94 % of half a second. */
static void a_run_under_the_limit_has_a_length(struct kunit *test)
{
	struct evacuate_seen seen = { .held_ns = SLICE, .throttled = true };
	struct evacuate_hold hold = { 0 };
	int n;

	for (n = 1; n < 47; n++)
		expect_hold(test, &hold, &seen);
	expect(test, &hold, &seen, EVACUATE_REST, EVACUATE_REASON_THROTTLE, 30 * MS);
	expect_hold(test, &hold, &seen);
}

static void realtime_tasks_take_the_cpu(struct kunit *test)
{
	struct evacuate_seen seen = { .held_ns = SLICE, .lost_ns = SLICE / 5 };
	struct evacuate_hold hold = { 0 };

	expect_hold(test, &hold, &seen);
	seen.lost_ns++;
	expect(test, &hold, &seen, EVACUATE_BACK_OFF, EVACUATE_REASON_REALTIME,
	       100 * MS);
	expect(test, &hold, &seen, EVACUATE_BACK_OFF, EVACUATE_REASON_REALTIME,
	       100 * MS);
}

/* The first run of its thread may be that of its unparking. */
static void injected_idle_time_has_the_cpu(struct kunit *test)
{
	struct evacuate_seen seen = { .held_ns = SLICE, .injected = true };
	struct evacuate_hold hold = { 0 };

	expect_hold(test, &hold, &seen);
	expect_hold(test, &hold, &alone);
	expect(test, &hold, &seen, EVACUATE_BACK_OFF, EVACUATE_REASON_INJECTION,
	       1600 * MS);
	seen.held_ns = 0;
	expect(test, &hold, &seen, EVACUATE_BACK_OFF, EVACUATE_REASON_INJECTION,
	       1600 * MS);
	seen.injected = false;
	expect_hold(test, &hold, &seen);
}

/* A long slice and a short release leave pinned work no less than other work. */
static void a_release_is_no_shorter_than_a_rest(struct kunit *test)
{
	const struct evacuate_tunables long_slices = {
		.slice_us = 100000, .share_pct = 50, .backoff_ms = 10,
	};
	struct evacuate_seen seen = pinned;
	struct evacuate_hold hold = { 0 };
	struct evacuate_step step;

	seen.held_ns = 100 * MS;
	evacuate_next(&hold, &long_slices, &seen);
	step = evacuate_next(&hold, &long_slices, &seen);
	KUNIT_EXPECT_EQ(test, step.reason, EVACUATE_REASON_PINNED);
	KUNIT_EXPECT_EQ(test, step.length_ns, 100 * MS);
}

static void no_state_within_the_limit(struct kunit *test)
{
	struct evacuate_seen seen = { .too_strict = true };
	struct evacuate_hold hold = { .waited = 1, .run_ns = SLICE };

	expect(test, &hold, &seen, EVACUATE_BACK_OFF, EVACUATE_REASON_LATENCY,
	       100 * MS);
	KUNIT_EXPECT_EQ(test, hold.waited, 0u);
	KUNIT_EXPECT_EQ(test, hold.run_ns, 0ULL);
}

static void softirqs_come_first(struct kunit *test)
{
	struct evacuate_seen seen = { .softirq = true, .waiting = true };
	struct evacuate_hold hold = { 0 };

	expect(test, &hold, &seen, EVACUATE_REST, EVACUATE_REASON_SOFTIRQ,
	       SLICE / 4);
	seen.held_ns = SLICE;
	expect(test, &hold, &seen, EVACUATE_REST, EVACUATE_REASON_SOFTIRQ,
	       SLICE / 4);
}

static void defaults_are_in_range(struct kunit *test)
{
	u32 n;

	for (n = 0; n < EVACUATE_TUNABLE_COUNT; n++) {
		KUNIT_EXPECT_GE(test, evacuate_tunables[n].def, evacuate_tunables[n].min);
		KUNIT_EXPECT_LE(test, evacuate_tunables[n].def, evacuate_tunables[n].max);
	}
	KUNIT_EXPECT_STREQ(test, evacuate_tunables[EVACUATE_MAX_CAPACITY].name,
			   "max_capacity_pct");
	KUNIT_EXPECT_STREQ(test, evacuate_tunables[EVACUATE_ORDER].name,
			   "evacuate_order");
}

static struct kunit_case hold_cases[] = {
	KUNIT_CASE(holds_an_empty_cpu),
	KUNIT_CASE(work_has_its_share),
	KUNIT_CASE(looks_are_rare),
	KUNIT_CASE(pinned_work_gets_the_cpu),
	KUNIT_CASE(realtime_tasks_are_not_throttled),
	KUNIT_CASE(a_run_under_the_limit_has_a_length),
	KUNIT_CASE(realtime_tasks_take_the_cpu),
	KUNIT_CASE(injected_idle_time_has_the_cpu),
	KUNIT_CASE(a_release_is_no_shorter_than_a_rest),
	KUNIT_CASE(no_state_within_the_limit),
	KUNIT_CASE(softirqs_come_first),
	KUNIT_CASE(defaults_are_in_range),
	{}
};

static struct kunit_suite hold_suite = {
	.name = "evacuate_hold",
	.test_cases = hold_cases,
};

kunit_test_suite(hold_suite);
