// SPDX-License-Identifier: GPL-2.0
/*
 * Which hinted tasks gate a CPU, and until when.
 *
 * A task is placed where it runs or waits to run or, asleep, where it last
 * ran. When a CPU decides on an idle state nothing runs or waits there, so it
 * is gated by tasks that sleep, each until linger_ms after it last ran. Nobody
 * scans for them: a task that stops running marks its level as live on its
 * CPU, and the decision drops marks from the tightest level on until it finds
 * one that still holds. Each mark dropped was set once, so a decision costs the
 * same however many tasks and levels there are.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>

#include "compat/compat.h"
#include "hints.h"
#include "placement.h"

/* With hints that linger for ever, an idle CPU looks again this often. */
#define LOOK_AGAIN_NS	NSEC_PER_SEC

/* The timer's clock and the one of the decisions differ by less. */
#define CLOCKS_DIFFER_NS	NSEC_PER_USEC

struct cil_hint_cpu __percpu *cil_hint_cpus;

static const struct gate_tunables *gate_values(void)
{
	return (const void *)rcu_dereference_sched(cil_gate.tunables)->value;
}

/* The order of the levels has changed, so the marks are set afresh. */
static void collect_live(struct cil_hint_cpu *cpu, const struct cil_order *order)
{
	int rank;

	bitmap_zero(cpu->live, CIL_LEVELS);
	for (rank = 0; rank < CIL_LEVELS; rank++)
		if (atomic_read(&cpu->placed[order->level[rank]]))
			__set_bit(rank, cpu->live);
	cpu->generation = order->generation;
}

static const struct cil_order *order_of(struct cil_hint_cpu *cpu)
{
	const struct cil_order *order = rcu_dereference_sched(cil_order);

	if (unlikely(cpu->generation != order->generation))
		collect_live(cpu, order);
	return order;
}

static bool holds(const struct cil_hint_cpu *cpu, u32 level, u64 now_ns,
		  u64 linger_ns)
{
	return atomic_read(&cpu->placed[level]) &&
	       (!linger_ns || now_ns - cpu->ran_ns[level] < linger_ns);
}

/* The tightest level that gates this CPU, CIL_LEVEL_NONE if none does. */
static u32 tightest(struct cil_hint_cpu *cpu, u64 now_ns, u64 linger_ns)
{
	const struct cil_order *order = order_of(cpu);
	u32 rank;

	while ((rank = find_first_bit(cpu->live, CIL_LEVELS)) < CIL_LEVELS) {
		if (holds(cpu, order->level[rank], now_ns, linger_ns))
			return order->level[rank];
		__clear_bit(rank, cpu->live);
	}
	return CIL_LEVEL_NONE;
}

static u64 linger_ns_of(const struct gate_tunables *tunables)
{
	return (u64)tunables->linger_ms * NSEC_PER_MSEC;
}

/* Did every user task that ran here lately have a value above 0? */
static bool is_relaxed(struct cil_hint_cpu *cpu, u64 now_ns, u64 linger_ns)
{
	if (now_ns - cpu->relaxed_ns >= linger_ns)
		cpu->relaxed_ns = 0;
	return cpu->relaxed_ns && now_ns - cpu->plain_ns >= linger_ns;
}

/**
 * cil_placement_limit() - the limit on this CPU where marks are set
 * @now_ns: local_clock()
 *
 * Context: interrupts off.
 * Return: greatest exit latency allowed in ns, CIL_HINT_NONE or
 * CIL_HINT_RELAXED.
 */
s64 cil_placement_limit(u64 now_ns)
{
	struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);
	const struct gate_tunables *tunables = gate_values();
	u32 level = tightest(cpu, now_ns, linger_ns_of(tunables));

	if (level == CIL_LEVEL_NONE) {
		if (hrtimer_is_queued(&cpu->timer))
			hrtimer_try_to_cancel(&cpu->timer);
		return is_relaxed(cpu, now_ns, linger_ns_of(tunables)) ?
		       CIL_HINT_RELAXED : CIL_HINT_NONE;
	}
	return tunables->mode == GATE_MODE_POLL ? 0 : cil_level_limit(level);
}

static u64 gate_ends_in(struct cil_hint_cpu *cpu, u64 now_ns)
{
	u64 linger_ns = linger_ns_of(gate_values());
	u32 level = tightest(cpu, now_ns, linger_ns);

	if (!linger_ns || level == CIL_LEVEL_NONE)
		return LOOK_AGAIN_NS;
	return cpu->ran_ns[level] + linger_ns - now_ns;
}

/**
 * cil_placement_look_again() - see to it that the CPU decides again in time
 * @r: the decision just made, in which a hint kept the CPU from a deeper state
 *
 * With the tick stopped nobody would notice that the linger is over. A timer
 * that is armed already is left alone unless it comes too late: one wake-up too
 * many in a linger time is less than arming it in each idle period.
 *
 * Context: idle task, interrupts off; the decision has been traced.
 */
void cil_placement_look_again(const struct cil_record *r)
{
	struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);
	ktime_t wait;

	if (!r->decision.stop_tick && !r->query.tick_stopped)
		return;
	wait = ns_to_ktime(gate_ends_in(cpu, r->query.now_ns) + CLOCKS_DIFFER_NS);
	if (hrtimer_is_queued(&cpu->timer) &&
	    hrtimer_get_remaining(&cpu->timer) <= wait)
		return;
	hrtimer_start(&cpu->timer, wait, HRTIMER_MODE_REL_PINNED_HARD);
}

/* The interrupt itself ends the idle period; the next decision does the rest. */
static enum hrtimer_restart gate_ended(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

/**
 * cil_placement_ran() - a task that may mind waiting has just run on this CPU
 * @level: its level, or CIL_LEVEL_NONE
 *
 * Context: interrupts off.
 */
void cil_placement_ran(u32 level)
{
	struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);
	const struct cil_order *order;

	cpu->plain_ns = local_clock();
	if (level == CIL_LEVEL_NONE)
		return;
	order = order_of(cpu);
	cpu->ran_ns[level] = cpu->plain_ns;
	__set_bit(order->rank[level], cpu->live);
}

/**
 * cil_placement_ran_relaxed() - a task that does not has just run here
 *
 * Context: interrupts off.
 */
void cil_placement_ran_relaxed(void)
{
	this_cpu_ptr(cil_hint_cpus)->relaxed_ns = local_clock();
}

static void touch_here(void *levels)
{
	u32 level;

	for_each_set_bit(level, levels, CIL_LEVELS)
		cil_placement_ran(level);
}

/**
 * cil_placement_touch() - hints of tasks have changed: let their CPUs decide
 * @cpus: where the tasks are placed
 * @levels: their new levels; the linger begins now
 *
 * A CPU that is idle decides only when it wakes up; without this the first
 * wake-up after a change would still be served as before it.
 *
 * Context: process, may sleep.
 */
void cil_placement_touch(const struct cpumask *cpus, const unsigned long *levels)
{
	on_each_cpu_mask(cpus, touch_here, (void *)levels, true);
}

static void refresh_here(void *unused)
{
	collect_live(this_cpu_ptr(cil_hint_cpus),
		     rcu_dereference_sched(cil_order));
}

/**
 * cil_placement_refresh() - the gate's tunables have changed
 *
 * Marks that were dropped under the old values may hold under the new ones.
 *
 * Context: process, may sleep.
 */
void cil_placement_refresh(void)
{
	on_each_cpu(refresh_here, NULL, true);
}

static void start_here(void *unused)
{
	struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);

	cpu->plain_ns = local_clock();
	cpu->relaxed_ns = 0;
}

/**
 * cil_placement_start() - the probes have been attached or detached
 *
 * Whoever runs while they are not attached is not seen.
 *
 * Context: process, may sleep.
 */
void cil_placement_start(void)
{
	on_each_cpu(start_here, NULL, true);
}

/**
 * cil_placement_init() - the CPUs' counts and timers
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int cil_placement_init(void)
{
	int n;

	cil_hint_cpus = alloc_percpu(struct cil_hint_cpu);
	if (!cil_hint_cpus)
		return -ENOMEM;
	for_each_possible_cpu(n)
		cil_hrtimer_setup(&per_cpu_ptr(cil_hint_cpus, n)->timer,
				  gate_ended, CLOCK_MONOTONIC,
				  HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

/**
 * cil_placement_exit() - undo cil_placement_init()
 *
 * Context: process, may sleep; nobody decides, and no probe is attached.
 */
void cil_placement_exit(void)
{
	int n;

	for_each_possible_cpu(n)
		hrtimer_cancel(&per_cpu_ptr(cil_hint_cpus, n)->timer);
	free_percpu(cil_hint_cpus);
}
