/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixed-point arithmetic of the decision logic: no floating point, and no
 * division that a 32-bit kernel could not do.
 */
#ifndef CIL_FIXED_H
#define CIL_FIXED_H

#include "types.h"

/* One, as a share with 30 fraction bits: the most that leaves a u32 room. */
#define CIL_ONE		0x40000000u

/* One, as a logarithm. */
#define CIL_LOG2_ONE	16

/**
 * cil_scale() - a share of a value
 * @value: any value
 * @share: 0 to CIL_ONE
 *
 * Return: @value * @share, rounded down.
 */
static inline u32 cil_scale(u32 value, u32 share)
{
	return ((u64)value * share) >> 30;
}

/**
 * cil_clamp() - a time forced into a range
 * @value: the time
 * @low: least result
 * @high: greatest result
 */
static inline s64 cil_clamp(s64 value, s64 low, s64 high)
{
	if (value < low)
		return low;
	return value < high ? value : high;
}

/**
 * cil_divide_by_shifts() - quotient without a division
 * @dividend: the dividend
 * @divisor: not 0
 *
 * Return: @dividend / @divisor, rounded down.
 */
static inline u64 cil_divide_by_shifts(u64 dividend, u64 divisor)
{
	u64 quotient = 0, rest = 0;
	int bit;

	for (bit = 63; bit >= 0; bit--) {
		bool carry = rest >> 63;

		rest = rest << 1 | (dividend >> bit & 1);
		if (carry || rest >= divisor) {
			rest -= divisor;
			quotient |= 1ULL << bit;
		}
	}
	return quotient;
}

/**
 * cil_divide() - quotient
 * @dividend: the dividend
 * @divisor: not 0
 *
 * For rare paths only. Where a register does not hold the dividend, it is worth
 * more to need no library function than to be quick.
 *
 * Return: @dividend / @divisor, rounded down.
 */
static inline u64 cil_divide(u64 dividend, u64 divisor)
{
#if __SIZEOF_LONG__ == 8
	return dividend / divisor;
#else
	return cil_divide_by_shifts(dividend, divisor);
#endif
}

/**
 * cil_square_root() - integer square root
 * @value: any value
 *
 * Return: the greatest integer whose square is at most @value.
 */
static inline u32 cil_square_root(u64 value)
{
	u64 bit, root = 0;

	for (bit = 1ULL << 62; bit; bit >>= 2) {
		if (value >= root + bit) {
			value -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

/* Horner's next step for a polynomial in -x, x below one. */
static inline u32 cil_horner(u32 constant, u32 x, u32 result)
{
	return constant - cil_scale(result, x);
}

/**
 * cil_half_to_the() - two to the power of minus @x
 * @x: not negative, 20 fraction bits
 *
 * A polynomial of degree 4 that is exact at both ends of [0, 1]. So the result
 * has no step where @x passes an integer. It is wrong by at most 4 millionths,
 * a twentieth of the step in a view of ten thousandths.
 *
 * Return: a share, CIL_ONE at 0.
 */
static inline u32 cil_half_to_the(u64 x)
{
	u32 fraction = (x & 0xfffff) << 10;
	u32 result;

	if (x >> 25)
		return 0;
	result = cil_horner(57215467, fraction, 7346532);
	result = cil_horner(257191740, fraction, result);
	result = cil_horner(744193718, fraction, result);
	result = cil_horner(CIL_ONE, fraction, result);
	return result >> (x >> 20);
}

/**
 * cil_log2() - binary logarithm, roughly
 * @value: any value; less than 16 counts as 16
 *
 * Straight from one power of two to the next, so at most 0.09 too small.
 *
 * Return: the logarithm in sixteenths, rounded down; %CIL_LOG2_ONE is one.
 */
static inline s32 cil_log2(u64 value)
{
	u32 n;

	if (value < 16)
		value = 16;
	n = 63 - (u32)__builtin_clzll(value);
	return (s32)(n * CIL_LOG2_ONE + (value >> (n - 4) & (CIL_LOG2_ONE - 1)));
}

/**
 * cil_random_seed() - start a random sequence
 * @seed: the user's number
 * @stream: number of the sequence: equal seeds give different sequences
 *
 * Return: the generator's state; every bit depends on every bit of both.
 */
static inline u64 cil_random_seed(u32 seed, u32 stream)
{
	u64 z = ((u64)stream << 32 | seed) + 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/**
 * cil_random() - next number of a random sequence
 * @state: the generator, a linear congruence modulo 2^64 whose weak low bits
 *	are mixed with the high ones (PCG)
 *
 * Return: 32 evenly distributed bits.
 */
static inline u32 cil_random(u64 *state)
{
	u64 old = *state;
	u32 mixed = ((old >> 18) ^ old) >> 27;
	u32 turn = old >> 59;

	*state = old * 6364136223846793005ULL + 1442695040888963407ULL;
	return mixed >> turn | mixed << (-turn & 31);
}

#endif /* CIL_FIXED_H */
