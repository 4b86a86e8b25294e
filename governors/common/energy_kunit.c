// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the cost model:
 *
 * - each state breaks even with the next shallower one at its target residency,
 *   whether powers are known or derived;
 * - powers count if all are known, relative to the greatest; a deeper state
 *   draws a sixteenth less than a shallower one, whatever is said;
 * - where they are derived, a deeper state draws less, whatever the table says;
 * - no table of 64-bit numbers makes a cost overflow.
 */
#include <kunit/test.h>

#include "energy.h"
#include "fixed.h"

#define US	CIL_NSEC_PER_USEC
#define ONE	65536u

/* Ten states that pay later and later. */
static const struct cil_machine client = {
	.tick_ns = 4 * CIL_NSEC_PER_MSEC,
	.state_count = 10,
	.states = {
		{ .target_residency_ns = 0 },
		{ .target_residency_ns = 2 * US },
		{ .target_residency_ns = 20 * US },
		{ .target_residency_ns = 100 * US },
		{ .target_residency_ns = 200 * US },
		{ .target_residency_ns = 800 * US },
		{ .target_residency_ns = 800 * US },
		{ .target_residency_ns = 5000 * US },
		{ .target_residency_ns = 20000 * US },
		{ .target_residency_ns = 100000 * US },
	},
};

/* Each state costs as much as the one before it at its target residency. */
static void states_break_even(struct kunit *test)
{
	struct cil_machine machine = client;
	struct cil_cost e[CIL_STATE_MAX];
	u32 known, k;

	for (known = 0; known < 2; known++) {
		for (k = 0; known && k < 10; k++)
			machine.states[k].power_uw = 5000 - 400 * k;
		cil_energy_init(e, &machine);
		KUNIT_EXPECT_EQ(test, e[0].entry, 0ULL);
		KUNIT_EXPECT_EQ(test, e[0].power, ONE);
		for (k = 1; k < 10; k++) {
			s64 pays_ns = machine.states[k].target_residency_ns;

			KUNIT_EXPECT_LT(test, e[k].power, e[k - 1].power);
			KUNIT_EXPECT_EQ(test, e[k].entry + e[k].power * pays_ns,
					e[k - 1].entry +
						e[k - 1].power * pays_ns);
		}
	}
}

/* Known powers are relative to the greatest, wherever in the table it is. */
static void known_powers_count(struct kunit *test)
{
	static const u32 falling[10] = {
		4000, 2000, 1000, 500, 400, 300, 200, 100, 50, 25,
	};
	static const u32 greatest_last[10] = {
		1, 1, 1, 1, 1, 1, 1, 1, 1, 4,
	};
	struct cil_cost e[CIL_STATE_MAX];
	u32 k;

	cil_energy_set(e, &client, falling);
	KUNIT_EXPECT_EQ(test, e[0].power, ONE);
	KUNIT_EXPECT_EQ(test, e[1].power, ONE / 2);
	KUNIT_EXPECT_EQ(test, e[7].power, ONE / 40);
	cil_energy_set(e, &client, greatest_last);
	KUNIT_EXPECT_EQ(test, e[0].power, ONE / 4);
	for (k = 1; k < 10; k++)
		KUNIT_EXPECT_EQ(test, e[k].power,
				e[k - 1].power - e[k - 1].power / 16);
}

/* One unknown power, the last one, too: all are derived. */
static void one_unknown_power_derives_all(struct kunit *test)
{
	u32 power_uw[10], missing, k;
	struct cil_cost e[CIL_STATE_MAX], derived[CIL_STATE_MAX];

	cil_energy_init(derived, &client);
	for (missing = 0; missing < 10; missing++) {
		for (k = 0; k < 10; k++)
			power_uw[k] = k == missing ? 0 : 1000 - k;
		cil_energy_set(e, &client, power_uw);
		for (k = 0; k < 10; k++)
			KUNIT_EXPECT_EQ(test, e[k].power, derived[k].power);
	}
}

/* A state that pays after 10 us draws half, one after 90 us a quarter. */
static void powers_are_derived_from_residencies(struct kunit *test)
{
	struct cil_machine machine = client;
	struct cil_cost e[CIL_STATE_MAX];

	machine.states[1].target_residency_ns = 10 * US;
	machine.states[2].target_residency_ns = 90 * US;
	cil_energy_init(e, &machine);
	KUNIT_EXPECT_EQ(test, e[0].power, ONE);
	KUNIT_EXPECT_EQ(test, e[1].power, ONE / 2);
	KUNIT_EXPECT_EQ(test, e[2].power, ONE / 4);
}

/* The powers of a state table count as any others. */
static void a_table_may_have_powers(struct kunit *test)
{
	struct cil_machine machine = client;
	struct cil_cost e[CIL_STATE_MAX];
	u32 k;

	for (k = 0; k < 10; k++)
		machine.states[k].power_uw = 4096 >> k;
	cil_energy_init(e, &machine);
	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_EQ(test, e[k].power, ONE >> k);
}

/* Where all states pay alike, each draws a sixteenth less than the one before. */
static void equal_residencies_still_fall(struct kunit *test)
{
	struct cil_machine machine = client;
	struct cil_cost e[CIL_STATE_MAX];
	u32 k;

	for (k = 0; k < 10; k++)
		machine.states[k].target_residency_ns = 100 * US;
	cil_energy_init(e, &machine);
	for (k = 1; k < 10; k++)
		KUNIT_EXPECT_EQ(test, e[k].power,
				e[k - 1].power - e[k - 1].power / 16);
}

/* Residencies are taken as 0 to a second, and no cost exceeds its width. */
static void extreme_tables_do_not_overflow(struct kunit *test)
{
	static const s64 extremes[] = {
		-S64_MAX, -1, 0, 1, CIL_DURATION_MAX, S64_MAX,
	};
	struct cil_machine machine = client;
	u64 state = 1;
	u32 round, k;

	for (round = 0; round < 2000; round++) {
		struct cil_cost e[CIL_STATE_MAX];

		machine.state_count = 1 + cil_random(&state) % 10;
		for (k = 0; k < machine.state_count; k++) {
			machine.states[k].target_residency_ns =
				extremes[cil_random(&state) % 6];
			machine.states[k].power_uw = cil_random(&state) >>
						     cil_random(&state) % 32;
		}
		cil_energy_init(e, &machine);
		for (k = 0; k < machine.state_count; k++) {
			KUNIT_ASSERT_LE(test, e[k].entry,
					(u64)ONE * CIL_DURATION_MAX);
			KUNIT_ASSERT_LE(test, e[k].power, ONE);
		}
	}
}

static struct kunit_case energy_cases[] = {
	KUNIT_CASE(states_break_even),
	KUNIT_CASE(known_powers_count),
	KUNIT_CASE(one_unknown_power_derives_all),
	KUNIT_CASE(powers_are_derived_from_residencies),
	KUNIT_CASE(a_table_may_have_powers),
	KUNIT_CASE(equal_residencies_still_fall),
	KUNIT_CASE(extreme_tables_do_not_overflow),
	{}
};

static struct kunit_suite energy_suite = {
	.name = "energy",
	.test_cases = energy_cases,
};

kunit_test_suite(energy_suite);
