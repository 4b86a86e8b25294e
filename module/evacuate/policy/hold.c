// SPDX-License-Identifier: GPL-2.0
/*
 * evacuate - for how long a CPU is held, and when it is released for a while
 */

/**
 * DOC: holding a CPU
 *
 * A thread on each evacuated CPU holds the CPU in forced idle, a slice at a
 * time. Between two slices the thread decides what to do next. The first of
 * these steps that applies decides:
 *
 * 1. No idle state but polling is within the latency limit (reason latency):
 *    the CPU is released for backoff_ms.
 * 2. The kernel's own thread injects idle time, for powerclamp (injection): the
 *    CPU is released for the longest time of step 5. So powerclamp has the CPU
 *    to itself. The thread's first run does not count: it is that of its
 *    unparking after the CPU came online.
 * 3. Real-time tasks took a fifth of the slice (realtime): the same. A holder
 *    that adds its time to theirs would have them throttled.
 * 4. Softirqs wait for their thread (softirq): the holder rests.
 * 5. A task waits. The holder rests for so long that waiting work has
 *    share_pct of the time (work). If a task waits again after the next slice,
 *    the environment looks whether one of them can run nowhere else. If so,
 *    the CPU is released (pinned) for backoff_ms, and for twice as long each
 *    time that this happens again, sixteen times at most. It is never released
 *    for less than that rest. A task that can run
 *    elsewhere leaves while the holder holds: it is queued then, so another
 *    CPU may take it. The environment looks after slices 2, 4, 8, ... in a
 *    row, because the look goes over all tasks.
 * 6. The kernel limits the time of real-time tasks to 95 % of each second.
 *    There the holder rests for 6 % of the time, even if no task waits
 *    (throttle).
 * 7. Otherwise the holder holds the CPU for another slice.
 */

#include "hold.h"
#include "order.h"

/* Share of the time, in percent, that stays below the kernel's limit of 95 %. */
#define FREE_PCT	6

/* So long a holder may hold in a row on a kernel with that limit. */
#define RUN_NS		(470 * CIL_NSEC_PER_MSEC)

/* Part of a slice that real-time tasks may take. */
#define LOST_PART	5

#define LEVEL_MAX	4

static const char *const order_names[] = {
	"performance-first", "efficient-first",
};

const struct cil_tunable evacuate_tunables[EVACUATE_TUNABLE_COUNT] = {
	{
		.name = "max_capacity_pct",
		.unit = "%",
		.what = "Share of the online CPUs that stays in use; the others are held idle.",
		.why = "No CPU is evacuated.",
		.min = 1,
		.max = 100,
		.def = 100,
	},
	{
		.name = "evacuate_order",
		.unit = "",
		.what = "Class of CPUs that goes first on a hybrid machine.",
		.why = "The CPUs that stay need less energy for the same work.",
		.max = EVACUATE_EFFICIENT_FIRST,
		.def = EVACUATE_PERFORMANCE_FIRST,
		.names = order_names,
	},
	{
		.name = "evacuate_latency_us",
		.unit = "us",
		.what = "Greatest exit latency of the state in which a CPU is held.",
		.why = "Above the exit latency of any known idle state.",
		.min = 1,
		.max = 1000000,
		.def = 1000000,
	},
	{
		.name = "evacuate_slice_us",
		.unit = "us",
		.what = "Longest time for which a CPU is held without a look at waiting work.",
		.why = "A hundred wake-ups a second cost little, and a CPU is back in 10 ms.",
		.min = 1000,
		.max = 100000,
		.def = 10000,
	},
	{
		.name = "evacuate_share_pct",
		.unit = "%",
		.what = "Part of the time that waiting work gets on a held CPU.",
		.why = "Kernel threads keep up, and other tasks gain if they move away.",
		.min = 1,
		.max = 50,
		.def = 20,
	},
	{
		.name = "evacuate_backoff_ms",
		.unit = "ms",
		.what = "First time for which a CPU is released because pinned work waits.",
		.why = "Ten slices: pinned work has nine tenths of the CPU.",
		.min = 10,
		.max = 10000,
		.def = 100,
	},
};

/**
 * evacuate_wants_look() - must the environment look at the tasks that wait?
 * @hold: what the holder remembers
 * @seen: what it sees
 *
 * Context: any.
 * Return: true before a step for which @seen must tell whether work is pinned.
 */
bool evacuate_wants_look(const struct evacuate_hold *hold,
			 const struct evacuate_seen *seen)
{
	u32 waited = hold->waited + 1;

	return seen->waiting && seen->held_ns && waited > 1 &&
	       !(waited & (waited - 1));
}

static struct evacuate_step step_of(enum evacuate_action action,
				    enum evacuate_reason reason, u64 length_ns)
{
	return (struct evacuate_step) {
		.action = action,
		.reason = reason,
		.length_ns = length_ns,
	};
}

static u64 part_of(u64 held_ns, u32 pct)
{
	return held_ns * pct / (100 - pct);
}

/* The rest that the kernel's limit wants may be longer. */
static struct evacuate_step rest(struct evacuate_hold *hold,
				 const struct evacuate_seen *seen, u64 length_ns,
				 enum evacuate_reason reason)
{
	u64 limit_ns = seen->throttled ? part_of(hold->run_ns, FREE_PCT) : 0;

	if (length_ns < limit_ns)
		length_ns = limit_ns;
	hold->run_ns = 0;
	return step_of(EVACUATE_REST, reason, length_ns);
}

static struct evacuate_step back_off(struct evacuate_hold *hold,
				     const struct evacuate_tunables *tunables,
				     enum evacuate_reason reason, u32 level)
{
	hold->run_ns = 0;
	hold->waited = 0;
	return step_of(EVACUATE_BACK_OFF, reason,
		       ((u64)tunables->backoff_ms * CIL_NSEC_PER_MSEC) << level);
}

static struct evacuate_step
yield_to_tasks(struct evacuate_hold *hold,
	       const struct evacuate_tunables *tunables,
	       const struct evacuate_seen *seen, u64 slice_ns)
{
	u64 length_ns = part_of(slice_ns, tunables->share_pct);
	bool look = evacuate_wants_look(hold, seen);
	struct evacuate_step step;
	u32 level;

	/* Tasks that wait before the first slice leave when it begins. */
	if (!seen->held_ns)
		return step_of(EVACUATE_HOLD, EVACUATE_REASON_NONE, slice_ns);
	if (!look || !seen->pinned) {
		hold->waited++;
		return rest(hold, seen, length_ns, EVACUATE_REASON_WORK);
	}
	level = hold->level;
	if (hold->level < LEVEL_MAX)
		hold->level++;
	step = back_off(hold, tunables, EVACUATE_REASON_PINNED, level);
	if (step.length_ns < length_ns)
		step.length_ns = length_ns;
	return step;
}

/**
 * evacuate_next() - what a holder does next
 * @hold: what the holder remembers; all 0 when it starts
 * @tunables: the values
 * @seen: what it sees
 *
 * Context: any.
 * Return: the step, with the reason if the CPU is not held.
 */
struct evacuate_step evacuate_next(struct evacuate_hold *hold,
				   const struct evacuate_tunables *tunables,
				   const struct evacuate_seen *seen)
{
	u64 slice_ns = (u64)tunables->slice_us * CIL_NSEC_PER_USEC;

	hold->run_ns += seen->held_ns;
	if (seen->too_strict)
		return back_off(hold, tunables, EVACUATE_REASON_LATENCY, 0);
	if (seen->injected) {
		if (hold->unparked)
			return back_off(hold, tunables,
					EVACUATE_REASON_INJECTION, LEVEL_MAX);
		hold->unparked = true;
	}
	if (seen->lost_ns * LOST_PART > seen->held_ns)
		return back_off(hold, tunables, EVACUATE_REASON_REALTIME, 0);
	if (seen->softirq)
		return rest(hold, seen, part_of(slice_ns, tunables->share_pct),
			    EVACUATE_REASON_SOFTIRQ);
	if (seen->waiting)
		return yield_to_tasks(hold, tunables, seen, slice_ns);
	if (seen->held_ns) {
		hold->waited = 0;
		hold->level = 0;
	}
	if (seen->throttled && hold->run_ns >= RUN_NS)
		return rest(hold, seen, 0, EVACUATE_REASON_THROTTLE);
	return step_of(EVACUATE_HOLD, EVACUATE_REASON_NONE, slice_ns);
}
