/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An endless stream of idle periods: ordinary ones, and such as are meant to
 * find the edges of a governor. The same seed gives the same stream.
 */
#ifndef EQUALITY_STREAM_H
#define EQUALITY_STREAM_H

#include "../../../governors/common/policy.h"

/**
 * enum fate - what became of a decision
 * @FATE_ENTERED: an idle period followed
 * @FATE_REJECTED: the driver refused the state
 * @FATE_ABORTED: the CPU had work before it could sleep
 */
enum fate {
	FATE_ENTERED,
	FATE_REJECTED,
	FATE_ABORTED,
};

/**
 * struct period - one idle period
 * @enabled: the governor is enabled afresh before it, on @machine
 * @left_behind: the device has an idle period of another governor behind it,
 *	described by @before
 * @before: that idle period
 * @query: what will be known at the decision
 * @fate: what becomes of the decision
 * @outcome: the idle period, if there is one
 * @wake_ns: time after which something other than the tick wakes the CPU
 * @draw: random numbers for what depends on the decision
 */
struct period {
	bool enabled;
	bool left_behind;
	struct cil_outcome before;
	struct cil_query query;
	enum fate fate;
	struct cil_outcome outcome;
	s64 wake_ns;
	u64 draw[4];
};

/**
 * struct knobs - what makes up a run of similar idle periods
 * @timer: kind of sleep lengths, enum timer_kind
 * @wake: kind of wake-ups, enum wake_kind
 * @tick: how the tick behaves, enum tick_kind
 * @interval_ns: interval of periodic wake-ups
 * @jitter_shift: their jitter is the interval shifted right by this
 * @outlier_odds: one in so many of them is something else, 0: none
 * @reject_odds: one in so many decisions is rejected or aborted, 0: none
 * @demote_odds: in one of so many another state is entered, 0: none
 * @limit_odds: one in so many periods changes the latency request
 * @disable_odds: one in so many periods changes the disabled states
 */
struct knobs {
	u32 timer, wake, tick;
	s64 interval_ns;
	u32 jitter_shift;
	u32 outlier_odds, reject_odds, demote_odds, limit_odds, disable_odds;
};

/**
 * struct stream - where the stream stands
 * @random: state of the generator of random numbers
 * @machine: the idle states of the present chapter
 * @machine_name: where they are from
 * @chapter_left: idle periods until another machine and a fresh governor
 * @run_left: idle periods until other knobs
 * @knobs: kind of idle periods at present
 * @now_ns: time
 * @latency_req_ns: latency request at present
 * @disabled: disabled states at present
 * @tick_stopped: the tick is stopped
 */
struct stream {
	u64 random;
	struct cil_machine machine;
	const char *machine_name;
	u32 chapter_left, run_left;
	struct knobs knobs;
	u64 now_ns;
	s64 latency_req_ns;
	u32 disabled;
	bool tick_stopped;
};

void stream_init(struct stream *stream, u64 seed);
void stream_next(struct stream *stream, struct period *period);
void stream_live(struct stream *stream, struct period *period,
		 const struct cil_decision *decision);

#endif /* EQUALITY_STREAM_H */
