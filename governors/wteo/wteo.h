/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_WTEO_H
#define CIL_WTEO_H

#include "wteo_rows.h"

/*
 * A tick's handler takes some microseconds, on slow machines some tens. If the
 * next decision comes later than this, a task must have run.
 */
#define WTEO_RESUME_NS		(100 * CIL_NSEC_PER_USEC)

/*
 * Keys of rows: an octave (bits 0 to 4), two columns (bits 8 to 15), and a bit
 * that no free row has.
 */
#define WTEO_KEY_OCTAVE		0x1fu
#define WTEO_KEY_HISTORY	0x10000u

/**
 * struct wteo_tunables - the tunables, in the order of their table
 * @learning_rate: least rate of learning, per mille
 * @half_life_ms: time in which an untouched row loses half of what it knows,
 *	and after which it begins anew
 * @latency_bias: what waking up costs beside energy, per 1024 of full power
 * @latency_margin: how much later a state pays that wakes up later, per 1024
 */
struct wteo_tunables {
	u32 learning_rate;
	u32 half_life_ms;
	u32 latency_bias;
	u32 latency_margin;
};

/**
 * struct wteo_interval - the interval in progress
 * @began_ns: time of the decision that began it
 * @decided_ns: time of the last decision in it
 * @sleep_length_ns: sleep length at the last decision, CIL_TIME_MAX if it was
 *	not asked for
 * @key: the condition that it began with
 * @slot: the row for that
 * @open: there is one
 * @resumed: the last wake-up did not end it
 * @keeps_tick: the last decision left the tick running
 */
struct wteo_interval {
	u64 began_ns;
	u64 decided_ns;
	s64 sleep_length_ns;
	u32 key;
	u8 slot;
	bool open;
	bool resumed;
	bool keeps_tick;
};

/**
 * struct wteo - what is remembered about one CPU
 * @interval: the interval in progress
 * @tunables: what aging, costs and growth were prepared for
 * @aging: prepared for the half-life in use
 * @energy: cost model
 * @bounds_ns: target residency of the state after each, in ascending order;
 *	for the last one, U32_MAX
 * @pays_ns: mean interval from which each state pays, in ascending order; a
 *	state that never does has that of the next deeper one
 * @paying: bit k is set if state k is the cheapest for some mean interval
 * @deepest: the deepest of those
 * @poll_ns: how long polling lasts at most, 0 where it ends no column
 * @growth: of weights, for the learning rate
 * @greatest_latency_ns: exit latency that no state exceeds
 * @all_states: bit k is set for each state k
 * @history: condition of the next interval, without the timer
 * @intervals: number of intervals learned
 * @doubt: how much better the base row foresaw what happened of late than rows
 *	that know, as a logarithm of the odds
 * @learned: row that the last update changed, or CIL_ROW_NONE
 * @rows: the rows; packed, so the last member
 */
struct wteo {
	struct wteo_interval interval;
	struct wteo_tunables tunables;
	struct wteo_aging aging;
	struct cil_energy energy;
	u32 bounds_ns[CIL_STATE_MAX];
	u32 pays_ns[CIL_STATE_MAX];
	u32 paying;
	u32 deepest;
	u32 poll_ns;
	u32 growth;
	s64 greatest_latency_ns;
	u32 all_states;
	u32 history;
	u8 intervals;
	u8 doubt;
	u8 learned;
	struct wteo_rows rows;
};

/**
 * wteo_state_used() - memory that a machine makes use of
 * @states: its number of idle states
 *
 * Return: bytes of struct wteo that are ever touched after init.
 */
static inline u32 wteo_state_used(u32 states)
{
	u32 unused = CIL_STATE_MAX - states;

	return sizeof(struct wteo) -
	       WTEO_ROWS * unused * sizeof(struct wteo_cell) -
	       unused * (sizeof(u64) + 4 * sizeof(u32));
}

void wteo_select(void *state, const struct cil_machine *machine,
		 const void *tunables, struct cil_query *query,
		 struct cil_decision *decision);
void wteo_update(void *state, const struct cil_machine *machine,
		 const void *tunables, const struct cil_outcome *outcome);
void wteo_prepare(struct wteo *w, const struct cil_machine *machine,
		  const struct wteo_tunables *t);

#endif /* CIL_WTEO_H */
