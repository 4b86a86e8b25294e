/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One CPU under wteo, for its test cases.
 */
#ifndef CIL_WTEO_BENCH_KUNIT_H
#define CIL_WTEO_BENCH_KUNIT_H

#include "../../kunit/include/cil_test_env.h"
#include "wteo.h"

#define US		CIL_NSEC_PER_USEC
#define MS		CIL_NSEC_PER_MSEC

struct kunit;

/**
 * struct bench - all that a policy needs to run: too large for a kernel stack
 * @machine: the idle states
 * @tunables: their defaults at first
 * @wteo: the policy's state
 * @other: another one, to compare
 * @random: random sequence
 * @now_ns: the time
 */
struct bench {
	struct cil_machine machine;
	struct wteo_tunables tunables;
	struct wteo wteo;
	struct wteo other;
	u64 random;
	u64 now_ns;
};

/**
 * struct step - one idle period
 * @query: what is asked
 * @outcome: what became of it
 * @sleep_length_ns: time to the next timer
 * @delta_tick_ns: time to the next timer or tick
 */
struct step {
	struct cil_query query;
	struct cil_outcome outcome;
	s64 sleep_length_ns;
	s64 delta_tick_ns;
};

/* Target residencies and exit latencies of the ten states, in us. */
extern const s64 bench_residencies_us[CIL_STATE_MAX];
extern const s64 bench_latencies_us[CIL_STATE_MAX];

void bench_machine(struct bench *b, u32 states);
struct bench *bench_new(struct kunit *test, u32 states);
u32 bench_below(struct bench *b, u32 limit);
s64 bench_duration(struct bench *b);
void bench_random_step(struct bench *b, struct step *s);
void bench_decide(struct bench *b, struct wteo *w, struct step *s,
		  struct cil_decision *d);
void bench_random_outcome(struct bench *b, struct step *s, u8 index);
u64 bench_sum(const struct bench *b, u32 slot);
struct cil_decision bench_sleep(struct bench *b, s64 slept_ns,
				s64 sleep_length_ns, bool tick);
void bench_own_doing(struct bench *b, s64 slept_ns, bool tick, bool left);

/**
 * bench_cells() - the cells of a row
 * @b: the bench
 * @slot: number of the row
 */
static inline struct wteo_cell *bench_cells(const struct bench *b, u32 slot)
{
	return wteo_row(&b->wteo, slot)->cells;
}

/**
 * bench_row() - a row
 * @b: the bench
 * @slot: number of the row
 */
static inline struct wteo_row *bench_row(const struct bench *b, u32 slot)
{
	return wteo_row(&b->wteo, slot);
}

/**
 * wteo_steps() - a time in the unit of ages
 * @now_ns: the time
 */
static inline u32 wteo_steps(u64 now_ns)
{
	return (u32)(now_ns >> WTEO_STEP_SHIFT);
}

/**
 * difference() - how far two numbers are apart
 * @a: a number
 * @b: another
 */
static inline u32 difference(u32 a, u32 b)
{
	return a > b ? a - b : b - a;
}

#endif /* CIL_WTEO_BENCH_KUNIT_H */
