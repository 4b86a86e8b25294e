// SPDX-License-Identifier: GPL-2.0
/*
 * The scheduler's events: tracepoints that are attached only while there are
 * hints.
 *
 * sched_wakeup_new: a child appears; it inherits. sched_migrate_task: a task
 * goes elsewhere. sched_switch: a task has run here. sched_process_exit: it is
 * gone. cgroup_rmdir: so is a group. The handlers may run with run-queue locks
 * held: they take nothing from the allocator, wake no task and do not rely on
 * preemption being off but where the tracepoint's place says so.
 */
#include <linux/moduleparam.h>
#include <linux/tracepoint.h>
#include <trace/events/cgroup.h>
#include <trace/events/sched.h>

#include "hints/groups.h"
#include "hints/job.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/pool.h"
#include "hints/probes.h"
#include "hints/tasks.h"
#include "trace.h"

/* Hints that come and go must not patch the kernel each time. */
#define DETACH_AFTER	HZ

/*
 * Attaching and detaching interrupts every CPU. If an unprivileged request is
 * the cause, and not the first within this time, the probes stay for as long.
 */
#define HOLD_FOR	(60 * HZ)

static bool attached;

/* Not before these are they detached, in jiffies. */
static unsigned long detach_due;
static unsigned long held_until;

/* How often they were attached, and when by an unprivileged request. */
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

/* The hint of a task after its group has had its say. */
static struct cil_hint *find_or_join(struct task_struct *task)
{
	const struct cil_group_value *group = cil_group_of(task);
	struct cil_hint *hint = cil_hint_check_owner(task);

	if (!READ_ONCE(cil_groups_used) || !(hint || group))
		return hint;
	cil_hint_join(task, group);
	return cil_hint_find(task);
}

/* Run-queue lock of this CPU held. */
static void probe_switch(void *data, bool preempt, struct task_struct *prev,
			 struct task_struct *next, unsigned int prev_state)
{
	struct cil_hint *hint;

	/* One that exits was noted before it lost its hint. */
	if (is_idle_task(prev) || prev->flags & PF_EXITING)
		return;
	rcu_read_lock();
	hint = find_or_join(prev);
	if (hint || !(prev->flags & PF_KTHREAD))
		cil_placement_ran(prev, hint, !preempt && prev_state);
	rcu_read_unlock();
}

/* One that exits will not be waited for, but it may have minded waiting or not. */
static void note_exit(struct task_struct *task)
{
	struct cil_hint *hint;
	unsigned long flags;

	if (task->flags & PF_KTHREAD)
		return;
	local_irq_save(flags);
	rcu_read_lock();
	hint = find_or_join(task);
	if (hint && READ_ONCE(hint->level) != CIL_LEVEL_NONE)
		hint = NULL;
	cil_placement_ran(task, hint, false);
	rcu_read_unlock();
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

/*
 * In the order of attaching. Inheritance comes last and goes first: a task that
 * has a hint must be seen to exit.
 */
enum hint_probe_id {
	PROBE_EXIT,
	PROBE_MIGRATE,
	PROBE_RMDIR,
	/* From here on, a probe can give a task a hint. */
	PROBE_FIRST_THAT_GIVES,
	PROBE_SWITCH = PROBE_FIRST_THAT_GIVES,
	PROBE_WAKEUP_NEW,
};

static struct hint_probe {
	const char *name;
	void *probe;
	struct tracepoint *tracepoint;
} probes[] = {
	[PROBE_EXIT] = { "sched_process_exit", EXIT_PROBE },
	[PROBE_MIGRATE] = { "sched_migrate_task", probe_migrate },
	[PROBE_RMDIR] = { "cgroup_rmdir", probe_rmdir },
	[PROBE_SWITCH] = { "sched_switch", probe_switch },
	[PROBE_WAKEUP_NEW] = { "sched_wakeup_new", probe_wakeup_new },
};

static void match_tracepoint(struct tracepoint *tracepoint, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tracepoint->name, probes[i].name))
			probes[i].tracepoint = tracepoint;
}

/*
 * A child may inherit in the moment in which its parent loses the hint, and
 * appear when no hint is expected any more. So first the inheritance ends,
 * then such children lose the hint like their parent, while their exit would
 * still be seen; then the rest goes.
 */
static void detach_probes(int count)
{
	lockdep_assert_held(&cil_hints_lock);
	while (count--) {
		tracepoint_probe_unregister(probes[count].tracepoint,
					    probes[count].probe, NULL);
		if (count != PROBE_FIRST_THAT_GIVES)
			continue;
		tracepoint_synchronize_unregister();
		cil_hints_drop_all();
	}
	tracepoint_synchronize_unregister();
	cil_placement_start();
	attached = false;
}

static void hold_attached(bool privileged)
{
	unsigned long now = jiffies;

	attachments++;
	held_until = now;
	if (privileged)
		return;
	if (unprivileged_before && time_before(now, unprivileged_at + HOLD_FOR))
		held_until = now + HOLD_FOR;
	unprivileged_before = true;
	unprivileged_at = now;
}

/**
 * cil_probes_attach() - see to it that the scheduler's events are heard
 * @privileged: the request for a hint comes with CAP_SYS_NICE
 *
 * Context: process, may sleep; cil_hints_lock is held.
 * Return: 0, -ENOMEM, or -EOPNOTSUPP (the kernel lacks a tracepoint).
 */
int cil_probes_attach(bool privileged)
{
	int ret;
	int i;

	lockdep_assert_held(&cil_hints_lock);
	if (attached)
		return 0;
	ret = cil_hints_make_table();
	if (ret)
		return ret;
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		if (probes[i].tracepoint)
			ret = tracepoint_probe_register(probes[i].tracepoint,
							probes[i].probe, NULL);
		else
			ret = -EOPNOTSUPP;
		if (ret) {
			detach_probes(i);
			return ret;
		}
	}
	attached = true;
	hold_attached(privileged);
	cil_placement_start();
	return 0;
}

static bool is_used(void)
{
	return cil_pool_used() || READ_ONCE(cil_groups_used);
}

/**
 * cil_probes_detach_unused() - stop listening if no task has had a hint for a
 *	while
 *
 * Context: the job; cil_hints_lock is held.
 */
void cil_probes_detach_unused(void)
{
	unsigned long due = READ_ONCE(detach_due);

	if (time_before(due, held_until))
		due = held_until;
	lockdep_assert_held(&cil_hints_lock);
	if (!cil_job_take(CIL_JOB_DETACH) || !attached || is_used())
		return;
	if (time_before(jiffies, due))
		cil_job_queue(CIL_JOB_DETACH, due - jiffies);
	else
		detach_probes(ARRAY_SIZE(probes));
}

/**
 * cil_probes_detach_soon() - stop listening in a while if no task has a hint
 *
 * Context: any that may wake a task.
 */
void cil_probes_detach_soon(void)
{
	if (!is_used() && cil_job_queue(CIL_JOB_DETACH, DETACH_AFTER))
		WRITE_ONCE(detach_due, jiffies + DETACH_AFTER);
}

/**
 * cil_probes_attached() - are the probes attached?
 *
 * Context: process; a concurrent change is seen or not.
 */
bool cil_probes_attached(void)
{
	return READ_ONCE(attached);
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
	for_each_kernel_tracepoint(match_tracepoint, NULL);
}

/**
 * cil_probes_exit() - drop all hints, and stop listening
 *
 * Context: process, may sleep; no hint can be set any more.
 */
void cil_probes_exit(void)
{
	mutex_lock(&cil_hints_lock);
	if (attached)
		detach_probes(ARRAY_SIZE(probes));
	mutex_unlock(&cil_hints_lock);
}
