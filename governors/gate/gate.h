/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_GATE_H
#define CIL_GATE_H

#include "../common/policy.h"

/* No latency hint applies. */
#define CIL_HINT_NONE	(-1LL)

/* All tasks here tolerate a late wake-up: the CPU may go deeper than the base. */
#define CIL_HINT_RELAXED	(-2LL)

/* Modes of a gated CPU, in the order of the names in the table of tunables. */
enum gate_mode {
	GATE_MODE_CAP,
	GATE_MODE_POLL,
};

#define GATE_TUNABLE_COUNT	4

/**
 * struct gate_tunables - the gate's values, laid over the array of them
 * @mode: enum gate_mode
 * @linger_ms: for how long a task that sleeps gates its CPU at least; 0: for
 *	ever
 * @linger_max_ms: for how long it does so at most
 * @hints_per_user: hints that the tasks of one user may have
 *
 * The environment works out the limit with them; the gate is told the limit.
 */
struct gate_tunables {
	u32 mode;
	u32 linger_ms;
	u32 linger_max_ms;
	u32 hints_per_user;
};

extern const struct cil_tunable gate_tunables[GATE_TUNABLE_COUNT];

u64 gate_longest_sleep(const struct gate_tunables *tunables);
u64 gate_expect_sleep(const struct gate_tunables *tunables, u64 expected_ns,
		      u64 slept_ns);
u64 gate_linger(const struct gate_tunables *tunables, u64 expected_ns);
s64 gate_latency_req(s64 latency_req_ns, s64 hint_ns);
void gate_clamp(const struct cil_machine *machine,
		struct cil_query *query, s64 hint_ns,
		struct cil_decision *decision);

#endif /* CIL_GATE_H */
