/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From the events of one CPU, in the order of their recording, to idle periods
 * and exogenous intervals; docs/replay.md says what these are.
 *
 * Pure: reads no file, allocates nothing, keeps one period and one interval.
 * Missing events and values are marked and counted, never filled in.
 */
#ifndef CIL_PERIODS_H
#define CIL_PERIODS_H

#include "../../governors/common/record.h"
#include "../../governors/common/types.h"
#include "grid.h"

#define CIL_GOVERNOR_UNKNOWN	254

/* power:cpu_idle says with this state that the CPU is no longer idle. */
#define CIL_IDLE_EXIT		UINT32_MAX

/* Old kernels had idle states of any number; what no column holds is a lie. */
#define CIL_IDLE_DEEPEST	254

/* Beyond 146 years nothing is believed; sums of two such times fit. */
#define CIL_TIME_BELIEVED	(1ull << 62)

/* Nor is an idle period of 13 days, or an idle state that takes 5 hours. */
#define CIL_LENGTH_BELIEVED	(1ull << 50)
#define CIL_STATE_TIME_BELIEVED	(1ll << 44)

/* The bounds of HZ, and far beyond them. */
#define CIL_TICK_SHORTEST	100000
#define CIL_TICK_LONGEST	1000000000

/**
 * struct cil_period - a decision and what became of it
 * @ts: when it was recorded
 * @seq: its number on its CPU
 * @now_ns: when it was made
 * @latency_req_ns: latency request
 * @hint_ns: limit by hints, negative if none applied
 * @sleep_length_ns: time to the next timer event, the tick left out
 * @delta_tick_ns: time to the next timer event, the tick included
 * @generation: of the tunables
 * @disabled: bit k is set if state k was disabled
 * @governor: who decided
 * @flags: as recorded
 * @index: state chosen
 * @stop_tick: the tick may be stopped
 * @reason: why
 * @row: row of the matrix that was consulted
 * @base_index: answer of a kernel governor under the gate
 * @left: the idle loop was left since the decision before
 * @out_kind: CIL_OUTCOME_*; the members below are 0 for CIL_OUTCOME_NONE
 * @out_ts: when the outcome was recorded
 * @out_now_ns: when it was accounted
 * @residency_ns: time spent in the state, the exit latency included
 * @out_index: state that was entered
 * @tick: whether the tick ended the idle period
 * @poll_time_limit: the polling state gave up
 * @lost: events before the decision are missing
 * @by_tick: the tick ended the idle period, as far as it is known or follows
 * @overslept: the CPU was not woken by its own next event
 * @interval: number of the first decision of its interval, 0 if it is in none
 */
struct cil_period {
	u64 ts;
	u64 seq;
	u64 now_ns;
	s64 latency_req_ns;
	s64 hint_ns;
	s64 sleep_length_ns;
	s64 delta_tick_ns;
	u32 generation;
	u32 disabled;
	u8 governor;
	u8 flags;
	u8 index;
	u8 stop_tick;
	u8 reason;
	u8 row;
	u8 base_index;
	u8 left;
	u8 out_kind;
	u64 out_ts;
	u64 out_now_ns;
	u64 residency_ns;
	u8 out_index;
	u8 tick;
	u8 poll_time_limit;
	u8 lost;
	u8 by_tick;
	u8 overslept;
	u64 interval;
};

/**
 * struct cil_period_outcome - what became of a decision
 * @ts: when it was recorded
 * @seq: number of the decision
 * @now_ns: when it was accounted
 * @residency_ns: time spent in the state
 * @governor: who decided
 * @kind: CIL_OUTCOME_ENTERED or CIL_OUTCOME_ABORTED
 * @index: state that was entered
 * @tick: whether the tick ended the idle period
 * @poll_time_limit: the polling state gave up
 */
struct cil_period_outcome {
	u64 ts;
	u64 seq;
	u64 now_ns;
	u64 residency_ns;
	u8 governor;
	u8 kind;
	u8 index;
	u8 tick;
	u8 poll_time_limit;
};

/**
 * struct cil_interval - an exogenous interval
 * @ts: when its first decision was recorded
 * @first_seq: number of its first decision
 * @periods: idle periods in it
 * @start_ns: when the CPU went idle
 * @length_ns: until it was woken; 0: the selection was aborted, so no idle
 *	period followed
 * @timer_ns: from the start to the next timer event, the tick left out; the
 *	largest s64 if there was none, or CIL_TIMER_*
 * @tick_phase_ns: time of the next event modulo the period of the tick, as the
 *	kernel told it where that is before the timer, else of the tick; -1: unknown
 * @busy_ns: from the last period's end to the next interval, 0 if unknown
 * @latency_req_ns: latency request, -1 if unknown
 * @hint_ns: limit by hints
 * @disabled: bit k is set if state k was disabled
 * @flags: CIL_INTERVAL_*
 * @index: state chosen first
 * @last_index: state entered last
 * @governor: who decided, CIL_GOVERNOR_UNKNOWN if unknown
 */
struct cil_interval {
	u64 ts;
	u64 first_seq;
	u64 start_ns;
	s64 length_ns;
	s64 timer_ns;
	s64 tick_phase_ns;
	s64 busy_ns;
	s64 latency_req_ns;
	s64 hint_ns;
	u32 periods;
	u32 disabled;
	u8 flags;
	u8 index;
	u8 last_index;
	u8 governor;
};

/**
 * struct cil_answer - the kernel's answer to a later question for the timer
 * @at_ns: when the CPU was woken to make a later decision of the interval
 * @timer_ns: as in struct cil_interval, from then
 * @served_ns: how much longer the state lasted, its exit latency left out: the
 *	tick was served in it
 * @back_ns: from the end of the state to the decision
 * @tick_phase_ns: as in struct cil_interval
 */
struct cil_answer {
	u64 at_ns;
	s64 timer_ns;
	s64 served_ns;
	s64 back_ns;
	s64 tick_phase_ns;
};

/**
 * struct cil_period_machine - the idle states of a CPU, as recorded
 * @tick_ns: period of the scheduler tick
 * @states: number of states
 * @polling: bit k is set if the CPU spins in state k
 * @exit_latency_ns: worst case from the wake-up to the first instruction
 * @target_residency_ns: shortest stay that pays
 * @power_mw: power in the state
 */
struct cil_period_machine {
	s64 tick_ns;
	u32 states;
	u32 polling;
	s64 exit_latency_ns[CIL_STATE_MAX];
	s64 target_residency_ns[CIL_STATE_MAX];
	u32 power_mw[CIL_STATE_MAX];
};

/**
 * struct cil_period_counts - what is missing
 * @decisions: decisions seen
 * @decisions_missing: numbers that no decision carries
 * @gaps: places where numbers are missing
 * @without_outcome: decisions without outcome
 * @without_decision: outcomes whose decision is missing
 * @implausible: outcomes longer than the time there was; no interval has them
 * @unplaced: decisions before the idle states were known; no interval has them
 */
struct cil_period_counts {
	u64 decisions;
	u64 decisions_missing;
	u64 gaps;
	u64 without_outcome;
	u64 without_decision;
	u64 implausible;
	u64 unplaced;
};

/**
 * struct cil_period_sink - where the rows go
 * @period: takes a period
 * @answer: takes an answer within the interval that is given next
 * @interval: takes an interval made of periods
 * @idle: takes an interval that only power:cpu_idle tells of
 * @context: passed to all of them
 */
struct cil_period_sink {
	void (*period)(void *context, const struct cil_period *period);
	void (*answer)(void *context, const struct cil_answer *answer);
	void (*interval)(void *context, const struct cil_interval *interval);
	void (*idle)(void *context, const struct cil_interval *interval);
	void *context;
};

/**
 * struct cil_periods - one CPU on the way
 * @sink: where the rows go
 * @counts: what is missing, over all CPUs
 * @cpu: number of the CPU, for messages
 * @machine: its idle states
 * @domains_exit_ns: the longest time that it waits for its domains to wake up
 * @known: @machine is valid
 * @deepest: deepest state named so far
 * @begun: a decision was seen
 * @pending: the last decision, whose outcome may still come
 * @is_pending: @pending is valid
 * @lost: events were lost since the last decision
 * @gap: what the CPU did before the next interval is not known
 * @grid: of the CPU's tick
 * @told_phase_ns: as @tick_phase_ns of struct cil_interval, of the last decision
 * @interval: the last interval, which may go on
 * @has_interval: @interval is valid
 * @last: the last period of @interval
 * @last_timer_ns: the timer that its decision was told of, as intervals have it
 * @goes_on: the tick or the end of polling ended @last
 * @end_ns: end of @last
 * @idle: the last interval by power:cpu_idle
 * @has_idle: @idle is over, and was not given to the sink yet
 * @is_idle: @idle is under way
 * @idle_gap: what the CPU did before the next is not known
 * @idle_count: intervals by power:cpu_idle so far
 * @error: what is wrong with the events
 */
struct cil_periods {
	struct cil_period_sink sink;
	struct cil_period_counts *counts;
	u32 cpu;
	struct cil_period_machine machine;
	s64 domains_exit_ns;
	bool known;
	u8 deepest;
	bool begun;
	struct cil_period pending;
	bool is_pending;
	bool lost;
	bool gap;
	struct cil_grid grid;
	s64 told_phase_ns;
	struct cil_interval interval;
	bool has_interval;
	struct cil_period last;
	s64 last_timer_ns;
	bool goes_on;
	u64 end_ns;
	struct cil_interval idle;
	bool has_idle;
	bool is_idle;
	bool idle_gap;
	u64 idle_count;
	char error[192];
};

void cil_periods_begin(struct cil_periods *p, u32 cpu,
		       const struct cil_period_sink *sink,
		       struct cil_period_counts *counts);
const char *cil_periods_config(struct cil_periods *p,
			       const struct cil_period_machine *machine);
const char *cil_periods_decision(struct cil_periods *p,
				 const struct cil_period *decision);
const char *cil_periods_outcome(struct cil_periods *p,
				const struct cil_period_outcome *outcome);
const char *cil_periods_idle(struct cil_periods *p, u64 ts, u32 state);
void cil_periods_lost(struct cil_periods *p);
void cil_periods_end(struct cil_periods *p);

#endif /* CIL_PERIODS_H */
