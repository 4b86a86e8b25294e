// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the fixed-point helpers:
 *
 * - quotient, root and share are those of exact arithmetic, rounded down, for
 *   any operands of their width;
 * - a clamped time is within its limits;
 * - half to the x is exact at integers and falls without a step between them;
 * - random numbers are even, and differ by seed and stream.
 */
#include <kunit/test.h>

#include "fixed.h"

static u64 draw_u64(u64 *state)
{
	u64 high = cil_random(state);

	return high << 32 | cil_random(state);
}

/* A quotient is the greatest that fits; divisors beyond 2^63 are no exception. */
static void quotients_are_rounded_down(struct kunit *test)
{
	u64 state = 1;
	u32 i;

	for (i = 0; i < 4000; i++) {
		u64 a = draw_u64(&state) >> i % 63;
		u64 c = draw_u64(&state) >> i % 64 | 1;
		u64 rest = a - cil_divide_by_shifts(a, c) * c;

		KUNIT_ASSERT_LE(test, rest, a);
		KUNIT_ASSERT_LT(test, rest, c);
		KUNIT_ASSERT_EQ(test, cil_divide(a, c),
				cil_divide_by_shifts(a, c));
	}
	KUNIT_EXPECT_EQ(test, cil_divide_by_shifts(0, 7), 0ULL);
	KUNIT_EXPECT_EQ(test, cil_divide_by_shifts(7, 7), 1ULL);
	KUNIT_EXPECT_EQ(test, cil_divide_by_shifts(6, 7), 0ULL);
	KUNIT_EXPECT_EQ(test, cil_divide_by_shifts(U64_MAX, 1), U64_MAX);
	KUNIT_EXPECT_EQ(test, cil_divide_by_shifts(U64_MAX, U64_MAX), 1ULL);
	/* The rest outgrows 64 bits on the way. */
	KUNIT_EXPECT_EQ(test, cil_divide_by_shifts(U64_MAX - 1, U64_MAX), 0ULL);
	KUNIT_EXPECT_EQ(test, cil_divide_by_shifts(U64_MAX, (1ULL << 63) + 1), 1ULL);
}

/* A root is the greatest whose square fits. */
static void roots_are_rounded_down(struct kunit *test)
{
	u64 state = 1;
	u32 i;

	for (i = 0; i < 2000; i++) {
		u64 a = draw_u64(&state) >> i % 64;
		u64 root = cil_square_root(a);

		KUNIT_ASSERT_LE(test, root * root, a);
		if (root < U32_MAX)
			KUNIT_ASSERT_GT(test, (root + 1) * (root + 1), a);
	}
	for (i = 0; i < 300; i++)
		KUNIT_ASSERT_EQ(test, cil_square_root((u64)i * i), i);
	KUNIT_EXPECT_EQ(test, cil_square_root(U64_MAX), U32_MAX);
}

/* All of a value is the value, nothing of it is nothing. */
static void shares_are_rounded_down(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, cil_scale(U32_MAX, CIL_ONE), U32_MAX);
	KUNIT_EXPECT_EQ(test, cil_scale(U32_MAX, 0), 0u);
	KUNIT_EXPECT_EQ(test, cil_scale(7, CIL_ONE / 2), 3u);
}

/* A time stays where it is between two limits, and at them. */
static void clamped_times_are_within(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, cil_clamp(4, 5, 9), 5LL);
	KUNIT_EXPECT_EQ(test, cil_clamp(5, 5, 9), 5LL);
	KUNIT_EXPECT_EQ(test, cil_clamp(6, 5, 9), 6LL);
	KUNIT_EXPECT_EQ(test, cil_clamp(9, 5, 9), 9LL);
	KUNIT_EXPECT_EQ(test, cil_clamp(10, 5, 9), 9LL);
	KUNIT_EXPECT_EQ(test, cil_clamp(-S64_MAX, 0, S64_MAX), 0LL);
	KUNIT_EXPECT_EQ(test, cil_clamp(S64_MAX, 0, S64_MAX), S64_MAX);
}

/* Exact at integers, falling in between, and in the end nothing. */
static void half_to_the_falls(struct kunit *test)
{
	u32 last = CIL_ONE;
	u64 x;

	for (x = 0; x < 31; x++)
		KUNIT_EXPECT_EQ(test, cil_half_to_the(x << 20), CIL_ONE >> x);
	for (x = 0; x < 32 << 20; x += 1021) {
		u32 left = cil_half_to_the(x);

		KUNIT_ASSERT_LE(test, left, last);
		last = left;
	}
	/* The square root of a half, within 4 millionths. */
	KUNIT_EXPECT_LE(test, cil_half_to_the(1 << 19), 759250125u + 4300);
	KUNIT_EXPECT_GE(test, cil_half_to_the(1 << 19), 759250125u - 4300);
	KUNIT_EXPECT_EQ(test, cil_half_to_the(1ULL << 25), 0u);
	KUNIT_EXPECT_EQ(test, cil_half_to_the(U64_MAX), 0u);
}

/* Exact at powers of two, rising in between, and never much too small. */
static void logarithms_rise(struct kunit *test)
{
	/* Logarithms of 16 to 32, in millionths. */
	static const u32 exact[] = {
		4000000, 4087463, 4169925, 4247928, 4321928, 4392317, 4459432,
		4523562, 4584963, 4643856, 4700440, 4754888, 4807355, 4857981,
		4906891, 4954196, 5000000,
	};
	s32 last = 0;
	u32 i;

	for (i = 4; i < 64; i++)
		KUNIT_EXPECT_EQ(test, cil_log2(1ULL << i), (s32)(i * CIL_LOG2_ONE));
	KUNIT_EXPECT_EQ(test, cil_log2(0), 4 * CIL_LOG2_ONE);
	KUNIT_EXPECT_EQ(test, cil_log2(15), 4 * CIL_LOG2_ONE);
	KUNIT_EXPECT_EQ(test, cil_log2(U64_MAX), 64 * CIL_LOG2_ONE - 1);
	for (i = 16; i <= 32; i++) {
		s32 found = cil_log2((u64)i << 20);

		KUNIT_EXPECT_GT(test, found, last);
		last = found;
		found -= 20 * CIL_LOG2_ONE;
		KUNIT_EXPECT_LE(test, found * 1000000, (s32)exact[i - 16] * CIL_LOG2_ONE);
		KUNIT_EXPECT_GE(test, found * 1000000 + 90000 * CIL_LOG2_ONE,
				(s32)exact[i - 16] * CIL_LOG2_ONE);
	}
}

/* Every bit is as often set as not, and seeds and streams tell sequences. */
static void random_is_even(struct kunit *test)
{
	u64 state = cil_random_seed(7, 3);
	u32 set[32] = { 0 };
	u32 i, bit;

	KUNIT_EXPECT_NE(test, state, cil_random_seed(7, 4));
	KUNIT_EXPECT_NE(test, state, cil_random_seed(8, 3));
	for (i = 0; i < 10000; i++) {
		u32 number = cil_random(&state);

		for (bit = 0; bit < 32; bit++)
			set[bit] += number >> bit & 1;
	}
	for (bit = 0; bit < 32; bit++) {
		KUNIT_EXPECT_LT(test, set[bit], 5250u);
		KUNIT_EXPECT_GT(test, set[bit], 4750u);
	}
}

static struct kunit_case fixed_cases[] = {
	KUNIT_CASE(quotients_are_rounded_down),
	KUNIT_CASE(roots_are_rounded_down),
	KUNIT_CASE(shares_are_rounded_down),
	KUNIT_CASE(clamped_times_are_within),
	KUNIT_CASE(half_to_the_falls),
	KUNIT_CASE(logarithms_rise),
	KUNIT_CASE(random_is_even),
	{}
};

static struct kunit_suite fixed_suite = {
	.name = "fixed",
	.test_cases = fixed_cases,
};

kunit_test_suite(fixed_suite);
