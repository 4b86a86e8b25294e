/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The replay library: decision logic, the same files that the module compiles,
 * driven by recorded or synthetic idle periods.
 *
 * Two ways, see docs/replay.md:
 *
 *   same points      every recorded decision is made again, with the recorded
 *                    inputs, and learns from the recorded outcome (points.c)
 *   counterfactual   the exogenous intervals are played; the policy's own
 *                    choices decide when it is asked again (engine.c)
 *
 * Data comes in columns and in chunks; all that is carried from one chunk to
 * the next is in a struct rp_run, so memory does not grow with the trace. Runs
 * are independent of each other: each may have a thread of its own, but a run
 * stays with the thread that opened it.
 */
#ifndef CIL_REPLAY_H
#define CIL_REPLAY_H

#include <stddef.h>

#include "../../../governors/common/policy.h"

/* Interval lengths are counted in classes: four to each power of two. */
#define RP_LENGTH_CLASSES	256

/* Event before a point. */
#define RP_GO_ON		0
#define RP_AFRESH		1
#define RP_STATE		2
#define RP_UNKNOWABLE		U32_MAX		/* too much was lost to decide it */

/**
 * struct rp_model - what an idle period costs: entry_pj[k] + power_mw[k] * ns
 * @power_mw: power in each state
 * @entry_pj: price of entering and leaving each state
 */
struct rp_model {
	double power_mw[CIL_STATE_MAX];
	double entry_pj[CIL_STATE_MAX];
};

/**
 * struct rp_intervals - exogenous intervals of one CPU, in columns
 * @count: number of rows
 * @start_ns: when the CPU went idle
 * @length_ns: time until something other than the tick woke it, exit latency
 *	not included; 0: the selection was aborted
 * @timer_ns: time until the next timer event, the tick left out; or one of
 *	CIL_TIMER_*
 * @tick_phase_ns: time of the next event modulo the period of the tick, as the
 *	kernel told it, see grid.h; -1 if unknown
 * @latency_req_ns: latency request
 * @disabled: bit k is set if state k was disabled
 * @flags: CIL_INTERVAL_*
 * @last_index: state that the recorder entered last; CIL_STATE_NONE without one
 * @answers: what the kernel answered later in the interval, so many times
 * @answer_at_ns: when; the answers of all intervals, one after the other
 * @answer_timer_ns: as @timer_ns, from then
 * @answer_served_ns: how much longer the state lasted, its exit latency left out
 * @answer_back_ns: from the end of the state to the decision
 * @answer_phase_ns: as @tick_phase_ns
 */
struct rp_intervals {
	size_t count;
	const u64 *start_ns;
	const s64 *length_ns;
	const s64 *timer_ns;
	const s64 *tick_phase_ns;
	const s64 *latency_req_ns;
	const u32 *disabled;
	const u8 *flags;
	const u8 *last_index;
	const u32 *answers;
	const u64 *answer_at_ns;
	const s64 *answer_timer_ns;
	const s64 *answer_served_ns;
	const s64 *answer_back_ns;
	const s64 *answer_phase_ns;
};

/**
 * struct rp_stays - recorded idle periods, in columns
 * @periods: of each interval: how many it has, at least one
 * @now_ns: when the decision was made
 * @residency_ns: time spent in the state, the exit latency included
 * @disabled: bit k is set if state k was disabled
 * @chosen: the state decided on
 * @index: the state entered
 * @tick: 1 if the kept tick ended it
 * @poll_time_limit: the polling state gave up
 */
struct rp_stays {
	const u32 *periods;
	const u64 *now_ns;
	const u64 *residency_ns;
	const u32 *disabled;
	const u8 *chosen;
	const u8 *index;
	const u8 *tick;
	const u8 *poll_time_limit;
};

/**
 * struct rp_verdicts - what each recorded idle period came to, in columns
 * @cost_pj: its part of the cost of the interval
 * @ideal: best state for what was left of the interval
 * @above: shorter than the target residency
 * @below: long enough for a deeper state
 */
struct rp_verdicts {
	double *cost_pj;
	u8 *ideal;
	u8 *above;
	u8 *below;
};

/**
 * struct rp_choices - what was decided in each interval, in columns
 * @cost_pj: modelled cost of the interval
 * @oracle_pj: cost of the best state for it
 * @decisions: decisions made in it, 0 if it was left out
 * @index: state that was chosen first
 * @stop_tick: whether the tick was to be stopped with it
 * @reason: why, enum cil_reason
 * @ideal: best state for the interval
 * @last: state from which the CPU was woken in the end
 *
 * Any of the columns may be NULL.
 */
struct rp_choices {
	double *cost_pj;
	double *oracle_pj;
	u32 *decisions;
	u8 *index;
	u8 *stop_tick;
	u8 *reason;
	u8 *ideal;
	u8 *last;
};

/**
 * struct rp_trail - idle periods that were played, in columns
 * @count: number of rows
 * @room: number of rows that there is memory for
 * @start_ns: when it began
 * @end_ns: when it ended
 * @next_ns: when the first timer was due in it, as the kernel knew it, the tick
 *	included unless it was stopped
 * @index: the state
 */
struct rp_trail {
	size_t count;
	size_t room;
	u64 *start_ns;
	u64 *end_ns;
	u64 *next_ns;
	u8 *index;
};

/**
 * struct rp_totals - what a run came to
 * @cost_pj: modelled cost of all idle periods
 * @oracle_pj: cost of the oracle, which knows each interval
 * @idle_ns: length of all intervals
 * @intervals: intervals played
 * @skipped: intervals without an end or with unknown inputs
 * @decisions: decisions made
 * @asked: decisions that asked for the sleep length
 * @ticks: idle periods that the tick ended
 * @polls: idle periods that the poll time limit ended
 * @above: idle periods shorter than the state's target residency
 * @below: idle periods long enough for a deeper state
 * @entries: idle periods in each state
 * @wakeups: intervals that ended in each state
 * @state_ns: time in each state
 * @state_pj: cost of each state
 * @heat: by state chosen and best state for what was left of the interval
 * @reasons: decisions by reason
 * @length_count: intervals by class of their length
 * @length_pj: cost by class of the length
 * @length_oracle_pj: the oracle's cost by class of the length
 */
struct rp_totals {
	double cost_pj;
	double oracle_pj;
	double idle_ns;
	u64 intervals;
	u64 skipped;
	u64 decisions;
	u64 asked;
	u64 ticks;
	u64 polls;
	u64 above;
	u64 below;
	u64 entries[CIL_STATE_MAX];
	u64 wakeups[CIL_STATE_MAX];
	double state_ns[CIL_STATE_MAX];
	double state_pj[CIL_STATE_MAX];
	u64 heat[CIL_STATE_MAX][CIL_STATE_MAX];
	u64 reasons[256];
	u64 length_count[RP_LENGTH_CLASSES];
	double length_pj[RP_LENGTH_CLASSES];
	double length_oracle_pj[RP_LENGTH_CLASSES];
};

/**
 * struct rp_breaches - answers that no governor may give
 * @range: an index that no state has
 * @disabled: a disabled state, although another one is enabled
 * @latency: an exit latency beyond the request, although an enabled state keeps it
 * @first: intervals played when the first of them was given, it included
 */
struct rp_breaches {
	u64 range;
	u64 disabled;
	u64 latency;
	u64 first;
};

/**
 * struct rp_points - recorded decisions and their outcomes, in columns
 * @count: number of rows
 * @now_ns: time of the decision
 * @latency_req_ns: latency request, as the policy was told
 * @sleep_length_ns: time to the next timer event without the tick
 * @delta_tick_ns: time to the next timer event, the tick included
 * @disabled: bit k is set if state k was disabled
 * @flags: CIL_DECISION_TICK_STOPPED and so on
 * @tunables: which row of the table of tunables was in force
 * @start: what comes before the decision: RP_GO_ON, RP_AFRESH, RP_UNKNOWABLE,
 *	or RP_STATE + n for the n-th recorded state
 * @left: 1 if another task ran since the decision before
 * @hint_ns: limit by hints, CIL_HINT_NONE if none applied
 * @base_index: answer of the kernel governor under the gate
 * @out_kind: CIL_OUTCOME_ENTERED, CIL_OUTCOME_ABORTED or CIL_OUTCOME_NONE
 * @out_now_ns: time when the outcome was accounted
 * @residency_ns: time spent in the state
 * @out_index: state that was entered
 * @tick: 1 if the tick ended the idle period
 * @poll_time_limit: the polling state gave up
 */
struct rp_points {
	size_t count;
	const u64 *now_ns;
	const s64 *latency_req_ns;
	const s64 *sleep_length_ns;
	const s64 *delta_tick_ns;
	const u32 *disabled;
	const u8 *flags;
	const u32 *tunables;
	const u32 *start;
	const u8 *left;
	const s64 *hint_ns;
	const u8 *base_index;
	const u8 *out_kind;
	const u64 *out_now_ns;
	const u64 *residency_ns;
	const u8 *out_index;
	const u8 *tick;
	const u8 *poll_time_limit;
};

/**
 * struct rp_checks - how the recorded states compare with those of the run
 * @same: equal to what the run had learned by then
 * @fresh: equal to that of a policy that starts afresh
 * @other: neither; the run went on from the recorded state
 */
struct rp_checks {
	u64 same;
	u64 fresh;
	u64 other;
};

/**
 * struct rp_answers - what is decided at each point, in columns
 * @index: the state
 * @stop_tick: whether the tick may be stopped
 * @reason: why
 * @row: row of the matrix that was consulted
 * @asked: whether the sleep length was asked for
 */
struct rp_answers {
	u8 *index;
	u8 *stop_tick;
	u8 *reason;
	u8 *row;
	u8 *asked;
};

struct rp_run;

/* Reasons of policies that no kernel can run; never in a trace. */
#define RP_REASON_ORACLE	240
#define RP_REASON_BAYES		241

u32 rp_policy_count(void);
const struct cil_policy *rp_policy(u32 number);

struct rp_run *rp_open(const struct cil_policy *policy,
		       const struct cil_machine *machine,
		       const struct rp_model *model, const u32 *tunables);
struct rp_run *rp_copy(const struct rp_run *run);
void rp_restore(struct rp_run *run, const void *state);
void rp_drive(struct rp_run *run, u32 demoted, u32 rejected, u32 every);
void rp_conceal(struct rp_run *run);
void rp_close(struct rp_run *run);

void rp_play(struct rp_run *run, const struct rp_intervals *intervals,
	     const struct rp_choices *choices);
void rp_judge(struct rp_run *run, const struct rp_intervals *intervals,
	      const struct rp_stays *stays, const struct rp_choices *choices,
	      const struct rp_verdicts *verdicts);
int rp_follow(struct rp_run *run);
int rp_trail(struct rp_run *run, struct rp_trail *trail);
void rp_forget_totals(struct rp_run *run);
void rp_totals(const struct rp_run *run, struct rp_totals *totals);
void rp_breaches(const struct rp_run *run, struct rp_breaches *breaches);

void rp_repeat(struct rp_run *run, const struct rp_points *points,
	       const u32 *tunables, const u8 *states,
	       const struct rp_answers *answers);
void rp_checks(const struct rp_run *run, struct rp_checks *checks);

u32 rp_length_class(s64 length_ns);

#endif /* CIL_REPLAY_H */
