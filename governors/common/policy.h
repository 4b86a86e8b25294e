/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The policy interface: everything that a governor's decision logic may see
 * and everything that it may say.
 *
 * Decision logic is pure C. It allocates nothing, takes no lock, and reads no
 * clock. It calls nothing but the three functions named cil_env_*. The
 * environment provides them: the kernel module, the unit tests or the replay
 * library. The same source is compiled for all three.
 */
#ifndef CIL_POLICY_H
#define CIL_POLICY_H

#include "types.h"
#include "reasons.h"
#include "record.h"
#include "../list.h"

#define CIL_NSEC_PER_USEC	1000LL
#define CIL_NSEC_PER_MSEC	1000000LL

/* Tunables that a policy may have. */
#define CIL_TUNABLE_MAX		24

/* Bytes of state that a policy may have for each CPU. */
#define CIL_STATE_SIZE_MAX	16384

/* A timer that never expires, as the kernel's KTIME_MAX. */
#define CIL_TIME_MAX		S64_MAX

/* Target residencies below this are not worth asking for the next timer. */
#define CIL_RESIDENCY_THRESHOLD_NS	(15 * CIL_NSEC_PER_USEC)

/**
 * struct cil_state - one idle state
 * @exit_latency_ns: worst case from the wake-up to the first instruction
 * @target_residency_ns: shortest stay that pays, exit latency included
 * @power_uw: power while in the state in uW, 0 where unknown
 * @polling: the CPU spins in this state, so the tick must not be stopped
 */
struct cil_state {
	s64 exit_latency_ns;
	s64 target_residency_ns;
	u32 power_uw;
	bool polling;
};

/**
 * struct cil_machine - the idle states of one CPU, shallowest first
 * @tick_ns: period of the scheduler tick
 * @state_count: number of valid entries in @states, 1 to CIL_STATE_MAX
 * @cpu: number of the CPU
 * @states: the table, in the driver's order
 */
struct cil_machine {
	s64 tick_ns;
	u32 state_count;
	u32 cpu;
	struct cil_state states[CIL_STATE_MAX];
};

/**
 * struct cil_query - what is known when a state must be chosen
 * @now_ns: time of the decision, by the local clock of the CPU
 * @latency_req_ns: greatest exit latency allowed (PM QoS and hints)
 * @disabled: bit k is set if state k must not be used
 * @tick_stopped: the scheduler tick is stopped already
 * @rejected: no idle period followed the last selection: the driver refused
 *	the state, the CPU had work before it could sleep, or there was none
 * @left: another task ran since the last decision
 * @asked: @sleep_length_ns and @delta_tick_ns are valid; the policy sets it
 *	through cil_sleep_length() only
 * @sleep_length_ns: time to the next timer event if the tick is stopped; the
 *	time to CIL_TIME_MAX if there is none
 * @delta_tick_ns: time to the next timer event, the tick included
 *
 * To read the sleep length costs time in the kernel, so a policy reads it
 * lazily. The reading is part of its behaviour and recorded.
 */
struct cil_query {
	u64 now_ns;
	s64 latency_req_ns;
	u32 disabled;
	bool tick_stopped;
	bool rejected;
	bool left;
	bool asked;
	s64 sleep_length_ns;
	s64 delta_tick_ns;
};

/**
 * struct cil_decision - the answer
 * @index: idle state to enter
 * @stop_tick: the scheduler tick may be stopped
 * @row: row of the matrix that was consulted, or CIL_ROW_NONE
 * @reason: the step that decided, enum cil_reason
 */
struct cil_decision {
	u8 index;
	bool stop_tick;
	u8 row;
	u8 reason;
};

/**
 * struct cil_outcome - what became of a decision
 * @now_ns: time at which the outcome is accounted, by the same clock
 * @residency_ns: time spent in the state as measured by the kernel, the exit
 *	latency included
 * @index: state that was entered; the driver may have demoted the choice
 * @tick_wakeup: the scheduler tick ended the idle period
 * @poll_time_limit: the polling state gave up because its time was over
 * @left: another task ran since the decision
 */
struct cil_outcome {
	u64 now_ns;
	u64 residency_ns;
	u8 index;
	bool tick_wakeup;
	bool poll_time_limit;
	bool left;
};

/**
 * struct cil_tunable - one number that the user may change
 * @name: file name in debugfs, key of the module parameter
 * @unit: unit of the value, "" if it has none
 * @what: one sentence: what it does
 * @why: one sentence: the reason for the default
 * @min: least value accepted
 * @max: greatest value accepted
 * @def: default
 * @names: NULL, or @max + 1 names shown and accepted in place of numbers
 *
 * The values of a governor are an array of u32 in the order of its table. The
 * governor overlays a struct of u32 members on it.
 */
struct cil_tunable {
	const char *name;
	const char *unit;
	const char *what;
	const char *why;
	u32 min;
	u32 max;
	u32 def;
	const char *const *names;
};

/* Receiver of a policy's readable dump; the environment defines it. */
struct cil_sink;

/**
 * struct cil_policy - one governor's decision logic
 * @name: name of the governor
 * @state_size: bytes of state for each CPU, at most CIL_STATE_SIZE_MAX
 * @tunables: its tunables
 * @tunable_count: number of its tunables, at most CIL_TUNABLE_MAX
 * @init: start learning afresh; called with the state memory in any condition
 * @select: choose a state. Must set every member of the decision
 * @update: learn from the outcome of the last decision. Called at most once for
 *	a decision, before the next @select, and not at all if there was no
 *	idle period. NULL if the policy learns nothing
 * @dump: print the state for people. May be NULL
 * @row_learned: copy the matrix row that the last @update changed, and return
 *	its number; -1 if none. Its weights are 0 to 10000 and sum to 10000.
 *	NULL without a matrix
 *
 * All callbacks of one CPU are serialised by the environment. Tunables may
 * differ between two calls; a policy whose state depends on one must cope.
 * All run in any context, interrupts off included.
 */
struct cil_policy {
	const char *name;
	u32 state_size;
	const struct cil_tunable *tunables;
	u32 tunable_count;
	void (*init)(void *state, const struct cil_machine *machine,
		     const void *tunables);
	void (*select)(void *state, const struct cil_machine *machine,
		       const void *tunables, struct cil_query *query,
		       struct cil_decision *decision);
	void (*update)(void *state, const struct cil_machine *machine,
		       const void *tunables, const struct cil_outcome *outcome);
	void (*dump)(const void *state, const struct cil_machine *machine,
		     const void *tunables, u64 now_ns, struct cil_sink *sink);
	int (*row_learned)(const void *state, const struct cil_machine *machine,
			   u16 weights[CIL_STATE_MAX]);
};

/**
 * cil_env_sleep_length() - ask the environment for the next timer
 * @query: sleep_length_ns and delta_tick_ns are filled
 *
 * Provided by the environment. Policies call cil_sleep_length() instead.
 */
void cil_env_sleep_length(struct cil_query *query);

/**
 * cil_env_print() - printf into a dump
 * @sink: as passed to the policy's dump callback
 * @format: printf format restricted to what kernel and libc share
 */
__attribute__((format(printf, 2, 3)))
void cil_env_print(struct cil_sink *sink, const char *format, ...);

/**
 * cil_sleep_length() - time to the next timer event if the tick is stopped
 * @query: the query being decided
 *
 * Return: the sleep length in ns; delta_tick_ns of the query is valid, too.
 */
static inline s64 cil_sleep_length(struct cil_query *query)
{
	if (!query->asked) {
		cil_env_sleep_length(query);
		query->asked = true;
	}
	return query->sleep_length_ns;
}

/**
 * cil_disabled() - may state @index not be used?
 * @query: the query being decided
 * @index: idle state
 */
static inline bool cil_disabled(const struct cil_query *query, u32 index)
{
	return query->disabled & (1u << index);
}

#define CIL_DECLARE_POLICY(name, number) extern const struct cil_policy name##_policy;
CIL_GOVERNORS(CIL_DECLARE_POLICY)
CIL_FORMER_GOVERNORS(CIL_DECLARE_POLICY)
#undef CIL_DECLARE_POLICY

#endif /* CIL_POLICY_H */
