/* SPDX-License-Identifier: GPL-2.0 */
/* Types and functions that the parts of the replay library share. */
#ifndef CIL_REPLAY_RUN_H
#define CIL_REPLAY_RUN_H

#include "../grid.h"
#include "replay.h"

/**
 * struct rp_driver - a driver that does not do as it is told, see rp_drive()
 * @demoted: states that it demotes
 * @rejected: states that it refuses
 * @every: how often
 * @count: how many times one of them was chosen
 */
struct rp_driver {
	u32 demoted;
	u32 rejected;
	u32 every;
	u32 count;
};

/**
 * struct rp_run - a policy on one CPU
 * @policy: the policy
 * @machine: the idle states of the CPU
 * @model: what they cost
 * @tunables: values in force
 * @state: the policy's state
 * @driver: what becomes of a choice
 * @conceals: see rp_conceal()
 * @poll_limit_ns: how long the polling state polls, by the states disabled
 * @poll_disabled: the disabled states that @poll_limit_ns is for
 * @grid: of the tick
 * @tick_stopped: the tick is stopped
 * @outcome: the last idle period, to be learned from
 * @reflected: @outcome is valid
 * @rejected: no idle period followed the last decision
 * @left: another task has run since the last decision
 * @unknowable: nothing can be decided until a state is known again
 * @checks: how recorded states compared
 * @breaches: answers that were given and may not be
 * @totals: what the run came to so far
 * @trail: idle periods since rp_trail() told them; no room unless rp_follow()
 * @lost: an idle period found no room
 */
struct rp_run {
	const struct cil_policy *policy;
	struct cil_machine machine;
	struct rp_model model;
	u32 tunables[CIL_TUNABLE_MAX];
	void *state;
	struct rp_driver driver;
	bool conceals;
	s64 poll_limit_ns;
	u32 poll_disabled;
	struct cil_grid grid;
	bool tick_stopped;
	struct cil_outcome outcome;
	bool reflected;
	bool rejected;
	bool left;
	bool unknowable;
	struct rp_checks checks;
	struct rp_breaches breaches;
	struct rp_totals totals;
	struct rp_trail trail;
	bool lost;
};

/**
 * struct rp_moment - what the environment answers at one decision
 * @sleep_length_ns: time to the next timer event without the tick
 * @delta_tick_ns: time to the next timer event, the tick included
 * @left_ns: time until the CPU is woken; the oracle may ask
 * @charge_ns: what is still to be charged of the interval; the oracle may ask
 * @model: what idle periods cost; the limits may ask
 * @poll_limit_ns: how long the policy wants to poll; 0: as the kernel does
 * @hint_ns: limit by hints, of a recorded decision
 * @base_index: what a kernel governor answered, of a recorded decision
 * @base_stop_tick: likewise
 */
struct rp_moment {
	s64 sleep_length_ns;
	s64 delta_tick_ns;
	s64 left_ns;
	s64 charge_ns;
	const struct rp_model *model;
	s64 poll_limit_ns;
	s64 hint_ns;
	u8 base_index;
	bool base_stop_tick;
};

/**
 * struct rp_interval - the interval being played
 * @now_ns: where time stands
 * @charged_ns: the interval is charged up to here, at first from its recorded
 *	beginning
 * @end_ns: when the CPU is woken
 * @timer_ns: when the next timer is due that the kernel told of, CIL_TIME_MAX:
 *	none
 * @tick_ns: when the tick was due that the kernel told of because it had to go
 *	on; 0: it told of a timer
 * @overdue: that timer was due already when the kernel told of it
 * @answers: what the kernel told later, so many times more
 * @at_ns: when
 * @told_ns: the time to the timer then
 * @served_ns: how much longer the recorder's state lasted then
 * @back_ns: from the end of its state to its decision then
 * @phase_ns: the time of the next event modulo the tick's period, as the kernel
 *	told then
 * @event_ns: when the next event is due that the kernel told of last, if that is
 *	neither a tick nor a timer; 0: it is one
 * @held: the tick cannot be stopped now
 * @latency_req_ns: latency request
 * @disabled: disabled states
 * @due_ns: when the first timer is due, the tick included unless it is stopped
 * @by_timer: a timer that the kernel told of ends it
 * @ticked: its end counts as a wake-up by the tick, too
 * @cost_pj: cost so far
 * @decisions: decisions so far
 * @first: the first decision
 * @ideal: best state at the first decision
 * @last: state of the last idle period
 */
struct rp_interval {
	u64 now_ns;
	u64 charged_ns;
	u64 end_ns;
	u64 timer_ns;
	u64 tick_ns;
	bool overdue;
	u32 answers;
	const u64 *at_ns;
	const s64 *told_ns;
	const s64 *served_ns;
	const s64 *back_ns;
	const s64 *phase_ns;
	u64 event_ns;
	bool held;
	u64 due_ns;
	bool by_timer;
	s64 latency_req_ns;
	u32 disabled;
	bool ticked;
	bool polled;
	double cost_pj;
	u32 decisions;
	struct cil_decision first;
	u32 ideal;
	u32 last;
};

extern __thread struct rp_moment rp_now;

/**
 * rp_cost() - modelled cost of an idle period
 * @model: cost of the states
 * @k: idle state
 * @length_ns: how long
 *
 * Return: pJ.
 */
static inline double rp_cost(const struct rp_model *model, u32 k,
			     double length_ns)
{
	return model->entry_pj[k] + model->power_mw[k] * length_ns;
}

void rp_set_poll_limit(struct rp_run *run, u32 disabled);
u64 rp_due(u64 at_ns, s64 timer_ns);
void rp_tell_event(struct rp_run *run, struct rp_interval *in, u64 at_ns,
		   s64 phase_ns);
void rp_judge_misses(struct rp_run *run, u32 disabled, u32 index, s64 stay_ns,
		     s64 residency_ns);
void rp_note_stay(struct rp_run *run, u64 start_ns,
		  const struct rp_interval *in, u32 index);
void rp_charge(struct rp_run *run, struct rp_interval *in, u32 index);
void rp_abort(struct rp_run *run, struct rp_interval *in);
bool rp_stay(struct rp_run *run, struct rp_interval *in);
void rp_learn(struct rp_run *run, u64 now_ns);
u32 rp_best(const struct cil_machine *machine, const struct rp_model *model,
	    s64 latency_req_ns, u32 disabled, double length_ns);

#endif /* CIL_REPLAY_RUN_H */
