// SPDX-License-Identifier: GPL-2.0
/*
 * The scheduler's events: tracepoints that are attached only while they are of
 * use.
 *
 * While any hint or value is stored: sched_process_exit (a task is gone),
 * cgroup_rmdir (so is a group), sched_wakeup_new (a child appears; it
 * inherits). While gate is current and a stored request can act, too:
 * sched_migrate_task (a task goes elsewhere) and sched_switch (a task has run
 * here).
 *
 * The handlers may run with run-queue locks held. They take nothing from the
 * allocator, and wake no task. They do not rely on preemption being off but
 * where the tracepoint's place says so.
 */
#include <linux/moduleparam.h>
#include <linux/tracepoint.h>
#include <trace/events/cgroup.h>
#include <trace/events/sched.h>

#include "hints/groups.h"
#include "hints/hints.h"
#include "hints/job.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/pool.h"
#include "hints/probes.h"
#include "hints/tasks.h"
#include "hints/users.h"
#include "trace.h"

/* Hints that come and go must not patch the kernel each time. */
#define DETACH_AFTER	HZ

/*
 * Attaching and detaching interrupts every CPU. If an unprivileged request is
 * the cause, and not the first within this time, the probes stay for as long.
 */
#define HOLD_FOR	(60 * HZ)

/* Bits of enum hint_probe_id; changed with cil_hints_lock held. */
static unsigned long attached;

/* The module goes, so the job attaches nothing any more. */
static bool closing;

/* On so many CPUs the gate is the governor. */
static atomic_t gated;

/* Not before these are they detached, in jiffies. */
static unsigned long detach_due;
static unsigned long held_until;

/* Attachments, and the last one for an unprivileged request, in jiffies. */
static u32 attachments;
static unsigned long unprivileged_at;
static bool unprivileged_before;

/*
 * Run-queue lock held. The parent wakes its child, whose CPU has just been
 * chosen without an event; it may have got a hint before.
 */
static void probe_wakeup_new(void *data, struct task_struct *task)
{
	rcu_read_lock();
	cil_hint_move(task, task_cpu(task));
	cil_hint_inherit(current, task);
	rcu_read_unlock();
}

/* Run-queue or pi lock held; the task still has its old CPU. */
static void probe_migrate(void *data, struct task_struct *task, int cpu)
{
	cil_hint_move(task, cpu);
}

/* The hint of a task, which had @hint, after a look at its user and its group. */
static struct cil_hint *find_current(struct task_struct *task, struct cil_hint *hint)
{
	if (hint)
		hint = cil_hint_check_owner(task, hint);
	if (unlikely(READ_ONCE(cil_groups_used)))
		hint = cil_hint_join(task, hint);
	return hint;
}

/* Something has to be noted, or to be looked up. */
static noinline void stop_running(struct task_struct *task, struct cil_hint *hint,
				  bool sleeps)
{
	/* None of a kernel thread is noted. */
	if (!hint && task->flags & PF_KTHREAD &&
	    (!READ_ONCE(cil_groups_used) || cil_group_is_without(task)))
		return;
	hint = find_current(task, hint);
	if (hint)
		cil_placement_ran(task, hint, sleeps);
	else
		cil_placement_ran_plain(task);
}

/* Is nothing new that a task without a hint stops running? */
static inline bool is_noted_plain(const struct task_struct *task)
{
	unsigned long noted = this_cpu_read(cil_placement_noted);
	unsigned long now = jiffies;

	return noted == now || (noted == ~now && cil_group_is_without(task));
}

/*
 * Run-queue lock of this CPU held, interrupts off. Each instruction here counts:
 * `experiment gate --only switches` counts them.
 */
static void probe_switch(void *data, bool preempt, struct task_struct *prev,
			 struct task_struct *next, unsigned int prev_state)
{
	struct cil_hint *hint;

	/* One that exits was noted before it lost its hint. */
	if (prev->flags & (PF_IDLE | PF_EXITING))
		return;
	hint = cil_hint_find(prev);
	if (hint ? !cil_hint_is_noted(hint, prev, !preempt && prev_state) : !is_noted_plain(prev))
		stop_running(prev, hint, !preempt && prev_state);
}

/* One that exits will not be waited for, but it may have minded waiting or not. */
static void note_exit(struct task_struct *task)
{
	struct cil_hint *hint;
	unsigned long flags;

	if (task->flags & PF_KTHREAD)
		return;
	local_irq_save(flags);
	hint = find_current(task, cil_hint_find(task));
	if (hint && READ_ONCE(hint->level) == CIL_LEVEL_NONE)
		cil_placement_ran(task, hint, false);
	else
		cil_placement_ran_plain(task);
	local_irq_restore(flags);
}

static void drop_at_exit(struct task_struct *task)
{
	note_exit(task);
	cil_hint_drop(task, CIL_HINT_EXIT);
	/* Also if it lost the hint before, where no job can be queued. */
	cil_probes_detach_soon();
}

/* The task exits itself, no lock is held. */
static void __maybe_unused probe_exit(void *data, struct task_struct *task)
{
	drop_at_exit(task);
}

/* Newer kernels have this event, which also tells of the process. */
static void __maybe_unused probe_exit_dead(void *data, struct task_struct *task,
					   bool group_dead)
{
	drop_at_exit(task);
}

/* The group is dead already; a lock is held. */
static void probe_rmdir(void *data, struct cgroup *cgroup, const char *path)
{
	cil_group_removed(cgroup);
}

/* Does the kernel's event call what has the type of this function? */
#define CALLS(event, probe)						\
	__same_type(check_trace_callback_type_##event, void (typeof(probe) *))

#define EXIT_PROBE							\
	__builtin_choose_expr(CALLS(sched_process_exit, probe_exit_dead), \
			      probe_exit_dead, probe_exit)

#define CHECK(event, probe)						\
	static_assert(CALLS(event, probe),				\
		      "cpuidle-lab does not know this kernel's event " #event)

CHECK(sched_process_exit, *EXIT_PROBE);
CHECK(sched_migrate_task, probe_migrate);
CHECK(cgroup_rmdir, probe_rmdir);
CHECK(sched_switch, probe_switch);
CHECK(sched_wakeup_new, probe_wakeup_new);

/* In the order of attaching: a task that has a hint must be seen to exit. */
enum hint_probe_id {
	PROBE_EXIT,
	PROBE_RMDIR,
	PROBE_WAKEUP_NEW,
	PROBE_MIGRATE,
	PROBE_SWITCH,
	PROBE_COUNT,
};

#define PROBES_TO_KEEP	(BIT(PROBE_EXIT) | BIT(PROBE_RMDIR) | BIT(PROBE_WAKEUP_NEW))
#define PROBES_TO_ACT	(BIT(PROBE_MIGRATE) | BIT(PROBE_SWITCH))

static struct hint_probe {
	const char *name;
	void *probe;
	struct tracepoint *tracepoint;
} probes[PROBE_COUNT] = {
	[PROBE_EXIT] = { "sched_process_exit", EXIT_PROBE },
	[PROBE_RMDIR] = { "cgroup_rmdir", probe_rmdir },
	[PROBE_WAKEUP_NEW] = { "sched_wakeup_new", probe_wakeup_new },
	[PROBE_MIGRATE] = { "sched_migrate_task", probe_migrate },
	[PROBE_SWITCH] = { "sched_switch", probe_switch },
};

static void match_tracepoint(struct tracepoint *tracepoint, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tracepoint->name, probes[i].name))
			probes[i].tracepoint = tracepoint;
}

static void detach(unsigned long these)
	__must_hold(&cil_hints_lock)
{
	int i;

	lockdep_assert_held(&cil_hints_lock);
	these &= attached;
	if (these & PROBES_TO_ACT)
		cil_placement_stop();
	for_each_set_bit(i, &these, PROBE_COUNT)
		tracepoint_probe_unregister(probes[i].tracepoint,
					    probes[i].probe, NULL);
	attached &= ~these;
}

/* Has the kernel all tracepoints? Attaching one to detach it again disturbs all. */
static bool are_known(unsigned long these)
{
	int i;

	for_each_set_bit(i, &these, PROBE_COUNT)
		if (!probes[i].tracepoint)
			return false;
	return true;
}

/* Returns 0, -ENOMEM or -EOPNOTSUPP; then those that were attached before are. */
static int attach(unsigned long these)
	__must_hold(&cil_hints_lock)
{
	unsigned long before = attached;
	int ret;
	int i;

	lockdep_assert_held(&cil_hints_lock);
	these &= ~attached;
	if (!are_known(these))
		return -EOPNOTSUPP;
	for_each_set_bit(i, &these, PROBE_COUNT) {
		ret = tracepoint_probe_register(probes[i].tracepoint,
						probes[i].probe, NULL);
		if (ret) {
			detach(~before);
			return ret;
		}
		attached |= BIT(i);
	}
	if (these & PROBES_TO_ACT) {
		cil_placement_start();
		/* Tasks that have a hint may have migrated unseen. */
		if (cil_pool_used())
			cil_job_queue(CIL_JOB_SETTLE, 0);
	}
	return 0;
}

static void hold_attached(bool privileged)
{
	unsigned long now = jiffies;

	attachments++;
	/* A privileged request does not shorten the hold of an unprivileged one. */
	if (time_before(held_until, now))
		held_until = now;
	if (privileged)
		return;
	if (unprivileged_before && time_before(now, unprivileged_at + HOLD_FOR))
		held_until = now + HOLD_FOR;
	unprivileged_before = true;
	unprivileged_at = now;
}

static bool is_used(void)
{
	return cil_pool_used() || READ_ONCE(cil_groups_used);
}

/* Those that are of use while something is stored that can @act. */
static unsigned long useful(bool act)
{
	return PROBES_TO_KEEP |
	       (act && atomic_read(&gated) ? PROBES_TO_ACT : 0);
}

/**
 * cil_probes_attach() - attach the probes that a request is going to need
 * @request: the request
 * @privileged: the request for a hint comes with CAP_SYS_NICE
 *
 * Context: process, may sleep; cil_hints_lock is held.
 * Return: 0, -ENOMEM, or -EOPNOTSUPP (the kernel lacks a tracepoint).
 */
int cil_probes_attach(const struct cil_request *request, bool privileged)
{
	unsigned long these = useful(cil_request_can_act(request) ||
				     cil_levels_can_act());
	int ret;

	lockdep_assert_held(&cil_hints_lock);
	if (!(these & ~attached))
		return 0;
	ret = cil_hints_make_table() ?: attach(these);
	/* One that fails for want of memory has disturbed the CPUs, too. */
	if (ret != -EOPNOTSUPP)
		hold_attached(privileged);
	return ret;
}

/**
 * cil_probes_update() - the gate has become current, or is so no more
 *
 * If a probe cannot be attached, hints do not act; the next request tries again,
 * and tells the error.
 *
 * Context: the job.
 */
void cil_probes_update(void)
{
	unsigned long these;

	rt_mutex_lock(&cil_hints_lock);
	these = useful(cil_levels_can_act());
	if (!closing && is_used() && these & ~attached && !attach(these))
		attachments++;
	rt_mutex_unlock(&cil_hints_lock);
}

/*
 * Those to detach now; for the others the job is queued. Unprivileged requests
 * attach nothing that acts while the gate is not current, so that goes at once.
 */
static unsigned long useless(void)
{
	unsigned long these = attached;
	unsigned long at_once = 0;
	unsigned long due = READ_ONCE(detach_due);

	if (time_before(due, held_until))
		due = held_until;
	if (is_used())
		these &= ~useful(cil_levels_can_act());
	if (!atomic_read(&gated))
		at_once = these & PROBES_TO_ACT;
	if (these == at_once || !time_before(jiffies, due))
		return these;
	cil_job_queue(CIL_JOB_DETACH, due - jiffies);
	return at_once;
}

/*
 * A child may inherit in the moment in which its parent loses the hint, and
 * appear when no hint is expected any more. So first the inheritance ends, then
 * such children lose the hint like their parent, while their exit would still be
 * seen; then the rest goes. A request that comes between, while the lock is not
 * held, lets inheritance begin again and so keeps all.
 */
static void detach_all(void)
	__must_hold(&cil_hints_lock)
{
	lockdep_assert_held(&cil_hints_lock);
	detach(PROBES_TO_ACT | BIT(PROBE_WAKEUP_NEW));
	rt_mutex_unlock(&cil_hints_lock);
	tracepoint_synchronize_unregister();
	rt_mutex_lock(&cil_hints_lock);
	if (attached & BIT(PROBE_WAKEUP_NEW))
		return;
	if (attached)
		cil_hints_drop_all();
	detach(PROBES_TO_KEEP);
}

/**
 * cil_probes_detach_unused() - detach the probes that have been of no use for a
 *	while
 *
 * Context: the job; cil_hints_lock is not held.
 */
void cil_probes_detach_unused(void)
{
	unsigned long these;

	rt_mutex_lock(&cil_hints_lock);
	these = cil_job_take(CIL_JOB_DETACH) ? useless() : 0;
	if (these & BIT(PROBE_EXIT))
		detach_all();
	else
		detach(these);
	rt_mutex_unlock(&cil_hints_lock);
	if (these & BIT(PROBE_EXIT))
		cil_users_free_unused();
}

/**
 * cil_probes_detach_soon() - detach in a while what is of no use by then
 *
 * Context: any that may wake a task.
 */
void cil_probes_detach_soon(void)
{
	if ((!is_used() || !cil_levels_can_act()) && READ_ONCE(attached) &&
	    cil_job_queue(CIL_JOB_DETACH, DETACH_AFTER))
		WRITE_ONCE(detach_due, jiffies + DETACH_AFTER);
}

/**
 * cil_hints_gate() - the gate is made the governor of a CPU, or is so no more
 * @is_current: which of both
 *
 * Hints act a moment later: the job attaches the probes that they need.
 *
 * Context: process; the cpuidle lock is held.
 */
void cil_hints_gate(bool is_current)
{
	int now = is_current ? atomic_inc_return(&gated) : atomic_dec_return(&gated);

	/* Tracepoints wait for the lock of CPU hotplug, whose holder waits for us. */
	if (is_current && now == 1)
		cil_job_queue(CIL_JOB_UPDATE, 0);
	else if (!now)
		cil_job_queue(CIL_JOB_DETACH, 0);
}

/**
 * cil_probes_attached() - are probes attached?
 *
 * Context: process; a concurrent change is seen or not.
 */
bool cil_probes_attached(void)
{
	return READ_ONCE(attached);
}

/**
 * cil_probes_act() - are those attached that hints need in order to act?
 *
 * Context: process; a concurrent change is seen or not.
 */
bool cil_probes_act(void)
{
	return READ_ONCE(attached) & PROBES_TO_ACT;
}

/**
 * cil_probes_attachments() - how often have the probes been attached?
 *
 * Context: any.
 */
u32 cil_probes_attachments(void)
{
	return READ_ONCE(attachments);
}

/**
 * cil_probes_init() - find the tracepoints; none is attached yet
 *
 * Context: process, may sleep.
 */
void cil_probes_init(void)
{
	closing = false;
	for_each_kernel_tracepoint(match_tracepoint, NULL);
}

/**
 * cil_probes_exit() - drop all hints, and stop listening
 *
 * Context: process, may sleep; no hint can be set any more.
 */
void cil_probes_exit(void)
{
	rt_mutex_lock(&cil_hints_lock);
	closing = true;
	if (attached)
		detach_all();
	rt_mutex_unlock(&cil_hints_lock);
	tracepoint_synchronize_unregister();
}
