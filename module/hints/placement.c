// SPDX-License-Identifier: GPL-2.0
/*
 * The hinted tasks that gate a CPU, and the end of that time.
 *
 * A task is placed where it runs or waits to run or, asleep, where it last ran.
 * When a CPU decides on an idle state nothing runs or waits there, so it is
 * gated by tasks that sleep. Each gates for as long as it lingers after it last
 * ran, which depends on the usual length of its sleeps. No scan looks for them.
 * A task that stops running marks its level as live on its CPU. The decision
 * drops marks from the tightest level on until it finds one that still holds.
 * Each mark dropped was set once, so a decision costs the same however many
 * tasks and levels there are.
 *
 * While any of its tasks is placed here, a level gates for as long as the last
 * of them lingers. That one may have left.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>

#include "compat/compat.h"
#include "hints/hints.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/pool.h"

/* With hints that linger for ever, an idle CPU looks again this often. */
#define LOOK_AGAIN_NS	NSEC_PER_SEC

/* The timer's clock and the one of the decisions differ by less. */
#define CLOCKS_DIFFER_NS	NSEC_PER_USEC

struct cil_hint_cpu __percpu *cil_hint_cpus;

DEFINE_PER_CPU(unsigned long, cil_placement_noted);

/* Changed with cil_hints_lock held. */
static bool groups_have_values;

/* Since each CPU began afresh, every task that stopped running was seen. */
static bool all_seen;

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

static bool level_holds(const struct cil_hint_cpu *cpu, u32 level, u64 now_ns,
			bool for_ever)
{
	return atomic_read(&cpu->placed[level]) &&
	       (for_ever || now_ns < cpu->until_ns[level]);
}

/* The tightest level that gates this CPU, CIL_LEVEL_NONE if none does. */
static u32 tightest(struct cil_hint_cpu *cpu, u64 now_ns, bool for_ever)
{
	const struct cil_order *order = order_of(cpu);
	u32 rank;

	while ((rank = find_first_bit(cpu->live, CIL_LEVELS)) < CIL_LEVELS) {
		if (level_holds(cpu, order->level[rank], now_ns, for_ever))
			return order->level[rank];
		__clear_bit(rank, cpu->live);
	}
	return CIL_LEVEL_NONE;
}

/* Did every user task that ran here lately have a value above 0? */
static bool is_relaxed(struct cil_hint_cpu *cpu, u64 now_ns, u64 linger_ns)
{
	if (now_ns - cpu->relaxed_ns >= linger_ns)
		cpu->relaxed_ns = 0;
	return cpu->relaxed_ns && READ_ONCE(all_seen) &&
	       (s64)(now_ns - cpu->plain_ns) >= (s64)linger_ns;
}

/* The task gates this CPU while it sleeps, for as long as it lingers. */
static void linger_level(struct cil_hint_cpu *cpu, u32 level, u64 expected_ns,
			 const struct gate_tunables *tunables, u64 now_ns)
{
	const struct cil_order *order = order_of(cpu);
	u64 until_ns = now_ns + gate_linger(tunables, expected_ns) + TICK_NSEC;

	cpu->until_ns[level] = max(cpu->until_ns[level], until_ns);
	__set_bit(order->rank[level], cpu->live);
}

/* Tasks that sleep here have other levels, which linger from now on. */
static noinline void take_changed(struct cil_hint_cpu *cpu,
				  const struct gate_tunables *tunables, u64 now_ns)
{
	u64 expected_ns = gate_longest_sleep(tunables);
	DECLARE_BITMAP(levels, CIL_LEVELS);
	u32 i;

	for (i = 0; i < BITS_TO_LONGS(CIL_LEVELS); i++)
		levels[i] = READ_ONCE(cpu->changed[i]) ? xchg(&cpu->changed[i], 0) : 0;
	for_each_set_bit(i, levels, CIL_LEVELS)
		linger_level(cpu, i, expected_ns, tunables, now_ns);
}

/* The limit on this CPU where marks are set. */
static noinline s64 find_limit(u64 now_ns)
{
	struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);
	const struct gate_tunables *tunables = gate_values();
	u32 level;

	if (unlikely(READ_ONCE(cpu->changed[0]) | READ_ONCE(cpu->changed[1])))
		take_changed(cpu, tunables, now_ns);
	level = tightest(cpu, now_ns, !tunables->linger_ms);
	if (level == CIL_LEVEL_NONE) {
		if (hrtimer_is_queued(&cpu->timer))
			hrtimer_try_to_cancel(&cpu->timer);
		return is_relaxed(cpu, now_ns, gate_linger(tunables, 0)) ?
		       CIL_HINT_RELAXED : CIL_HINT_NONE;
	}
	return tunables->mode == GATE_MODE_POLL ? 0 : cil_level_limit(level);
}

/**
 * cil_hints_limit() - the limit on this CPU by the tasks placed here
 * @now_ns: local_clock()
 *
 * Context: interrupts off.
 * Return: greatest exit latency allowed in ns, CIL_HINT_NONE or
 * CIL_HINT_RELAXED.
 */
s64 cil_hints_limit(u64 now_ns)
{
	const struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);

	BUILD_BUG_ON(CIL_LEVELS != 2 * BITS_PER_LONG);
	if (likely(!(cpu->live[0] | cpu->live[1] | cpu->relaxed_ns |
		     READ_ONCE(cpu->changed[0]) | READ_ONCE(cpu->changed[1]))))
		return CIL_HINT_NONE;
	return find_limit(now_ns);
}

static u64 gate_ends_in(struct cil_hint_cpu *cpu, u64 now_ns)
{
	bool for_ever = !gate_values()->linger_ms;
	u32 level = tightest(cpu, now_ns, for_ever);

	if (for_ever || level == CIL_LEVEL_NONE)
		return LOOK_AGAIN_NS;
	return cpu->until_ns[level] - now_ns;
}

/**
 * cil_hints_look_again() - see to it that the CPU decides again in time
 * @r: the decision just made, in which a hint kept the CPU from a deeper state
 *
 * With the tick stopped the CPU would not notice that the linger is over. A
 * timer that is armed already is left alone unless it comes too late. One
 * wake-up too many in a linger time is less than arming it in each idle period.
 *
 * Context: idle task, interrupts off; the decision has been traced.
 */
void cil_hints_look_again(const struct cil_record *r)
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

/*
 * If the task had slept before it ran this time: for how long? Of the time since
 * then it ran for some. What it waits for a CPU later on is not in it.
 */
static void learn_sleep(const struct task_struct *task, struct cil_hint *hint,
			const struct gate_tunables *tunables, bool sleeps,
			u64 now_ns)
{
	u64 runtime_ns = READ_ONCE(task->se.sum_exec_runtime);
	s64 slept_ns;

	raw_spin_lock(&hint->lock);
	if (hint->task == task) {
		slept_ns = now_ns - hint->stopped_ns -
			   (runtime_ns - hint->runtime_ns);
		if (hint->sleeps && slept_ns > 0)
			hint->expected_ns = gate_expect_sleep(tunables,
							      hint->expected_ns,
							      slept_ns);
		hint->stopped_ns = now_ns;
		hint->runtime_ns = runtime_ns;
		WRITE_ONCE(hint->sleeps, sleeps);
		WRITE_ONCE(hint->ran_tick, (u32)jiffies);
	}
	raw_spin_unlock(&hint->lock);
}

/**
 * cil_placement_ran() - a task with a hint stops running here
 * @task: the task
 * @hint: its hint
 * @sleeps: it will sleep until it is woken
 *
 * A second sleep in the same jiffy is not noted, see cil_hint_is_noted(). So the
 * task lingers from the end of the jiffy on, and several short sleeps count as one.
 *
 * Context: interrupts off.
 */
void cil_placement_ran(struct task_struct *task, struct cil_hint *hint,
		       bool sleeps)
{
	struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);
	const struct gate_tunables *tunables = gate_values();
	u64 now_ns = local_clock();
	u32 level;

	lockdep_assert_irqs_disabled();
	learn_sleep(task, hint, tunables, sleeps, now_ns);
	if (READ_ONCE(hint->relaxed)) {
		cpu->relaxed_ns = now_ns;
		return;
	}
	cpu->plain_ns = now_ns + TICK_NSEC;
	level = READ_ONCE(hint->level);
	if (level != CIL_LEVEL_NONE)
		linger_level(cpu, level, READ_ONCE(hint->expected_ns), tunables, now_ns);
}

/* The next task that stops running there is looked at. */
static void look_afresh(int cpu)
{
	WRITE_ONCE(per_cpu(cil_placement_noted, cpu), 0);
}

/* The last tasks there are not known; one without a hint may have run. */
static void forget_ran(int cpu)
{
	struct cil_hint_cpu *hints = per_cpu_ptr(cil_hint_cpus, cpu);

	hints->plain_ns = local_clock() + TICK_NSEC;
	hints->relaxed_ns = 0;
	look_afresh(cpu);
}

/**
 * cil_placement_note_plain() - see cil_placement_ran_plain()
 * @task: the task; it counts as running to the end of the jiffy
 *
 * Context: interrupts off.
 */
void cil_placement_note_plain(const struct task_struct *task)
{
	unsigned long noted = jiffies;

	lockdep_assert_irqs_disabled();
	if (task->flags & PF_KTHREAD)
		return;
	this_cpu_write(cil_hint_cpus->plain_ns, local_clock() + TICK_NSEC);
	this_cpu_write(cil_placement_noted, noted);
	/* Pairs with cil_placement_watch_groups(): whichever comes later sees the other. */
	smp_mb();
	if (READ_ONCE(groups_have_values))
		this_cpu_write(cil_placement_noted, ~noted);
}

/**
 * cil_placement_watch_groups() - look at the groups of tasks from here on, or no more
 * @watch: which of both
 *
 * Context: process; cil_hints_lock is held, values of groups have been published.
 */
void cil_placement_watch_groups(bool watch)
{
	int cpu;

	lockdep_assert_held(&cil_hints_lock);
	if (groups_have_values == watch)
		return;
	WRITE_ONCE(groups_have_values, watch);
	/* Pairs with cil_placement_note_plain(). */
	smp_mb();
	for_each_possible_cpu(cpu)
		look_afresh(cpu);
}

/* All tasks linger from now on. */
static void linger_afresh(void *unused)
{
	struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);
	const struct gate_tunables *tunables = gate_values();
	u64 until_ns = local_clock() +
		       gate_linger(tunables, gate_longest_sleep(tunables));
	u32 level;

	for (level = 0; level < CIL_LEVELS; level++)
		cpu->until_ns[level] = until_ns;
	collect_live(cpu, rcu_dereference_sched(cil_order));
}

/**
 * cil_placement_change() - the hint of a task has got another level
 * @cpu: where the task is placed
 * @before: its old level, or CIL_LEVEL_NONE
 * @level: its new level, or CIL_LEVEL_NONE
 *
 * The task lingers from the CPU's next decision on, and others of the new level
 * with it.
 *
 * Context: any.
 * Return: whether the limit is smaller, so that the CPU should decide again.
 */
bool cil_placement_change(int cpu, u32 before, u32 level)
{
	if (level == before || level == CIL_LEVEL_NONE)
		return false;
	/* Where the mark is seen, the task is seen to be placed. */
	smp_mb__before_atomic();
	set_bit(level, per_cpu_ptr(cil_hint_cpus, cpu)->changed);
	return cil_level_limit(level) < cil_level_limit(before);
}

/* The interrupt itself ends the idle period; the next decision does the rest. */
static void decide_again(void *unused)
{
}

/**
 * cil_placement_wake() - let CPUs decide again whose limit is smaller now
 * @cpus: the CPUs; empty afterwards. NULL if there are none
 * @act: hints act; else the CPUs need not be woken
 *
 * A CPU that is idle decides only when it wakes up. Without this the first
 * wake-up after a change would still be served as before it. Only requests with
 * CAP_SYS_NICE come with CPUs. A change of others counts from the next wake-up
 * on.
 *
 * Context: process, may sleep.
 */
void cil_placement_wake(struct cpumask *cpus, bool act)
{
	if (!cpus)
		return;
	if (act)
		on_each_cpu_mask(cpus, decide_again, NULL, true);
	cpumask_clear(cpus);
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
	on_each_cpu(linger_afresh, NULL, true);
}

/**
 * cil_placement_cpu_online() - a CPU is about to come online
 * @cpu: the CPU
 *
 * Its timer may have moved elsewhere, where it wakes another CPU. Tasks that ran here
 * before were seen or not.
 *
 * Context: process, may sleep.
 */
void cil_placement_cpu_online(int cpu)
{
	hrtimer_cancel(&per_cpu_ptr(cil_hint_cpus, cpu)->timer);
	forget_ran(cpu);
}

static void start_here(void *unused)
{
	forget_ran(smp_processor_id());
}

/**
 * cil_placement_start() - the probes that see tasks stop have been attached
 *
 * Context: process, may sleep; cil_hints_lock is held.
 */
void cil_placement_start(void)
{
	lockdep_assert_held(&cil_hints_lock);
	on_each_cpu(start_here, NULL, true);
	WRITE_ONCE(all_seen, true);
}

/**
 * cil_placement_stop() - the probes that see tasks stop are going to be detached
 *
 * Context: process; cil_hints_lock is held.
 */
void cil_placement_stop(void)
{
	lockdep_assert_held(&cil_hints_lock);
	WRITE_ONCE(all_seen, false);
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
 * Context: process, may sleep; no CPU decides, and no probe is attached.
 */
void cil_placement_exit(void)
{
	int n;

	for_each_possible_cpu(n)
		hrtimer_cancel(&per_cpu_ptr(cil_hint_cpus, n)->timer);
	free_percpu(cil_hint_cpus);
}
