/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's governors and the state of each CPU: types and data that all
 * other units stand on.
 */
#ifndef CIL_MODULE_STATE_H
#define CIL_MODULE_STATE_H

#include <linux/cpuidle.h>
#include <linux/rcupdate.h>

#include "../governors/common/policy.h"
#include "../governors/gate/gate.h"

/* Those of governors/list.h, the one that programs in BPF decide for among them. */
#if CIL_BPF
#define CIL_MODULE_GOVERNORS(X)	CIL_GOVERNORS(X) CIL_BPF_GOVERNOR(X)
#else
#define CIL_MODULE_GOVERNORS(X)	CIL_GOVERNORS(X)
#endif

#define X(name, number) extern const struct cil_policy name##_policy;
CIL_MODULE_GOVERNORS(X)
#undef X

/* Positions in cil_governors. They are not the numbers that traces carry. */
enum {
#define X(name, number) CIL_GOVERNOR_##name,
	CIL_MODULE_GOVERNORS(X)
#undef X
	CIL_POLICY_COUNT,
};

/**
 * struct cil_tunable_set - the values of one governor's tunables
 * @rcu: to free it when no decision can use it any more
 * @generation: counts changes over all governors; traces carry it
 * @value: in the order of the policy's table
 *
 * Never changed once published, so a decision sees all of a change or nothing.
 */
struct cil_tunable_set {
	struct rcu_head rcu;
	u32 generation;
	u32 value[CIL_TUNABLE_MAX];
};

/**
 * struct cil_governor - one of the module's governors
 * @kernel: what the kernel knows of it
 * @id: its number in traces, see governors/list.h
 * @policy: its decision logic, NULL for the gate
 * @state: the policy's state of each CPU
 * @tunables: current values
 * @changed: called after each change of @tunables, NULL if nothing wants that
 * @boot: values given at load, valid where @boot_set has a bit
 * @boot_set: which values were given at load
 */
struct cil_governor {
	struct cpuidle_governor kernel;
	u8 id;
	const struct cil_policy *policy;
	void __percpu *state;
	struct cil_tunable_set __rcu *tunables;
	void (*changed)(void);
	u32 boot[CIL_TUNABLE_MAX];
	u32 boot_set;
};

/**
 * struct cil_record - one decision and what became of it, as traces tell it
 * @seq: number of the decision on its CPU
 * @query: what the policy was told
 * @decision: what was decided in the end
 * @outcome: valid when @kind is CIL_OUTCOME_ENTERED
 * @hint_ns: limit by hints, CIL_HINT_NONE if none applied
 * @sleep_length_ns: the input, also if the policy did not ask for it
 * @delta_tick_ns: likewise
 * @timers_seq: the decision that @sleep_length_ns and @delta_tick_ns belong to
 * @generation: of the tunables that were used
 * @governor: number of the governor, see governors/list.h
 * @base_index: raw answer of a kernel governor, CIL_STATE_NONE if none was asked
 * @base_stop_tick: likewise
 * @kind: CIL_OUTCOME_*
 * @tick: CIL_TICK_*
 * @state_name: name of the state decided on, or entered
 */
struct cil_record {
	u64 seq;
	struct cil_query query;
	struct cil_decision decision;
	struct cil_outcome outcome;
	s64 hint_ns;
	s64 sleep_length_ns;
	s64 delta_tick_ns;
	u64 timers_seq;
	u32 generation;
	u8 governor;
	u8 base_index;
	bool base_stop_tick;
	u8 kind;
	u8 tick;
	const char *state_name;
};

/**
 * struct cil_cpu - all that the glue knows of one CPU
 * @machine: its idle states
 * @names: of these
 * @halt_latency_ns: least exit latency of the states that halt and are not
 *	disabled, as of the last decision. U64_MAX: there is none; 0: no governor
 *	of ours is enabled there
 * @governor: the governor of ours that is enabled there, NULL if none
 * @own: the governor whose policy decides, NULL under a kernel base
 * @base: the kernel's governor that decides, NULL under a policy
 * @state: state of @own's policy
 * @record: the last decision
 * @decided: @record awaits its outcome
 * @reflected: the idle period took place, @record.outcome is filled
 * @restart: start learning afresh at the next decision; any context sets it
 * @afresh: learning has started afresh; the shadows have yet to follow
 * @module_held: .enable took a reference on the module
 * @epoch: value of the trace epoch when the configuration was last traced
 * @checkpoint_ns: when that was
 * @switches: context switches of the idle task at the last decision
 *
 * Written by its own CPU with interrupts off, or under the cpuidle lock while
 * the device is not enabled; @restart is the exception. A driver may free its
 * devices, and itself, at any time between two calls of the governor. So all
 * that outlives a call is copied, and nothing here points to them.
 * @halt_latency_ns may be read anywhere.
 */
struct cil_cpu {
	struct cil_machine machine;
	char names[CIL_STATE_MAX][CPUIDLE_NAME_LEN];
	u64 halt_latency_ns;
	struct cil_governor *governor;
	struct cil_governor *own;
	struct cpuidle_governor *base;
	void *state;
	struct cil_record record;
	bool decided;
	bool reflected;
	bool restart;
	bool afresh;
	bool module_held;
	u32 epoch;
	u64 checkpoint_ns;
	unsigned long switches;
};

extern struct cil_governor cil_governors[CIL_POLICY_COUNT];
extern struct cil_governor cil_gate;
extern struct cil_cpu __percpu *cil_cpus;

int cil_state_init(void);
void cil_state_exit(void);
bool cil_governor_is_named(const struct cpuidle_governor *governor,
			   const char *name);
struct cil_governor *cil_governor_find(const char *name);
struct cil_governor *cil_governor_of(const struct cpuidle_governor *governor);

#endif /* CIL_MODULE_STATE_H */
