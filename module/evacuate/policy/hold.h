/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_EVACUATE_HOLD_H
#define CIL_EVACUATE_HOLD_H

#include "../../../governors/common/policy.h"

#define EVACUATE_TUNABLE_COUNT	6

/* Positions of the tunables that change the set of CPUs. */
#define EVACUATE_MAX_CAPACITY	0
#define EVACUATE_ORDER		1

/**
 * struct evacuate_tunables - the values, laid over the array of them
 * @max_capacity_pct: share of the online CPUs that stays in use, in percent
 * @order: enum evacuate_first
 * @latency_us: greatest exit latency of the forced idle state
 * @slice_us: longest time for which a CPU is held without a look
 * @share_pct: part of the time that waiting work gets on a held CPU, in percent
 * @backoff_ms: time for which a CPU is released at first if pinned work waits
 */
struct evacuate_tunables {
	u32 max_capacity_pct;
	u32 order;
	u32 latency_us;
	u32 slice_us;
	u32 share_pct;
	u32 backoff_ms;
};

extern const struct cil_tunable evacuate_tunables[EVACUATE_TUNABLE_COUNT];

/* The next step of a holder. */
enum evacuate_action {
	EVACUATE_HOLD,
	EVACUATE_REST,
	EVACUATE_BACK_OFF,
};

/* Reasons to release a CPU for a while; traces show them. */
enum evacuate_reason {
	EVACUATE_REASON_NONE,
	EVACUATE_REASON_WORK,
	EVACUATE_REASON_PINNED,
	EVACUATE_REASON_REALTIME,
	EVACUATE_REASON_LATENCY,
	EVACUATE_REASON_SOFTIRQ,
	EVACUATE_REASON_THROTTLE,
	EVACUATE_REASON_INJECTION,
	EVACUATE_REASON_COUNT,
};

/**
 * struct evacuate_seen - what a holder sees when it is free to decide
 * @held_ns: length of the slice that has just ended, 0 if none has
 * @lost_ns: time in it in which the holder waited for real-time tasks
 * @waiting: a task waits for this CPU
 * @pinned: a task that waits may run on no CPU that is left; valid only if
 *	evacuate_wants_look() said so
 * @softirq: softirqs wait for their thread
 * @too_strict: no idle state but polling is within the latency limit
 * @throttled: the kernel limits the time of real-time tasks
 * @injected: the kernel's thread for idle injection ran since the last look
 */
struct evacuate_seen {
	u64 held_ns;
	u64 lost_ns;
	bool waiting;
	bool pinned;
	bool softirq;
	bool too_strict;
	bool throttled;
	bool injected;
};

/**
 * struct evacuate_hold - what a holder remembers
 * @run_ns: time held since the last rest
 * @waited: slices in a row at whose end a task waited
 * @level: how often in a row the CPU was released for pinned work
 * @unparked: the thread for idle injection has run once
 */
struct evacuate_hold {
	u64 run_ns;
	u32 waited;
	u32 level;
	bool unparked;
};

/**
 * struct evacuate_step - what a holder does next
 * @action: enum evacuate_action
 * @reason: enum evacuate_reason
 * @length_ns: for how long
 */
struct evacuate_step {
	u8 action;
	u8 reason;
	u64 length_ns;
};

bool evacuate_wants_look(const struct evacuate_hold *hold,
			 const struct evacuate_seen *seen);
struct evacuate_step evacuate_next(struct evacuate_hold *hold,
				   const struct evacuate_tunables *tunables,
				   const struct evacuate_seen *seen);

#endif /* CIL_EVACUATE_HOLD_H */
