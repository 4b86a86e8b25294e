// SPDX-License-Identifier: GPL-2.0
/*
 * Asking for a hint: who may, and for which threads.
 */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>

#include "hints.h"
#include "placement.h"
#include "probes.h"
#include "request.h"

/**
 * struct cil_touched - what a change has touched
 * @cpus: where the tasks are placed
 * @added: some are new to the table, and may have been migrating
 */
struct cil_touched {
	cpumask_var_t cpus;
	bool added;
};

/*
 * Every thread of a process is asked about this one by one. New threads are
 * added at the end, so one that is made meanwhile inherits, or is met.
 */
static bool is_meant(const struct cil_target *target,
		     const struct task_struct *thread)
{
	return target->process || thread == target->task;
}

/*
 * As renice: the task must be the caller's, unless he may do it to others in
 * its user namespace. To be more sensitive costs the whole machine energy, so
 * the right to ask for that is the initial namespace's: anybody can be root in
 * a namespace of his own.
 */
static int may_set_task(struct task_struct *task, const struct cil_request *wanted)
{
	const struct cred *theirs = __task_cred(task);
	kuid_t euid = current_euid();
	bool mine = uid_eq(theirs->uid, euid) || uid_eq(theirs->euid, euid);
	struct cil_request own;

	if (!mine && !ns_capable(theirs->user_ns, CAP_SYS_NICE))
		return -EPERM;
	cil_hint_read_own(task, &own);
	if (cil_request_is_below(wanted, &own) && !capable(CAP_SYS_NICE))
		return -EACCES;
	return 0;
}

/* Returns 0, -EPERM or -EACCES. */
static int may_set(const struct cil_target *target,
		   const struct cil_request *wanted)
{
	struct task_struct *t;
	int ret = 0;

	if (target->trusted)
		return 0;
	rcu_read_lock();
	for_each_thread(target->task, t) {
		if (is_meant(target, t))
			ret = may_set_task(t, wanted);
		if (ret)
			break;
	}
	rcu_read_unlock();
	return ret;
}

static int set_all(const struct cil_target *target,
		   const struct cil_request *wanted, struct cil_touched *touched)
{
	struct task_struct *t;
	int ret = -ESRCH;
	bool seen = false;

	rcu_read_lock();
	for_each_thread(target->task, t) {
		if (!is_meant(target, t))
			continue;
		ret = cil_hint_set(t, wanted);
		if (ret == -ESRCH)
			continue;
		if (ret < 0)
			break;
		/* The current task does not migrate with interrupts off. */
		touched->added |= ret && t != current;
		cpumask_set_cpu(task_cpu(t), touched->cpus);
		seen = true;
	}
	rcu_read_unlock();
	if (seen && ret == -ESRCH)
		return 0;
	return min(ret, 0);
}

static void settle_all(const struct cil_target *target)
{
	struct task_struct *t;

	synchronize_rcu();
	rcu_read_lock();
	for_each_thread(target->task, t)
		if (is_meant(target, t))
			cil_hint_settle(t);
	rcu_read_unlock();
}

/*
 * A thread that was being made may have been given what its parent had a moment
 * ago. Whoever wakes it up does so within an RCU read section.
 */
static void unset_again(const struct cil_target *target,
			const struct cil_request *none, struct cil_touched *touched)
{
	synchronize_rcu();
	set_all(target, none, touched);
}

static int set_locked(const struct cil_target *target,
		      const struct cil_request *wanted,
		      struct cil_touched *touched)
{
	struct cil_request request = *wanted;
	int ret;

	ret = may_set(target, wanted) ?: cil_probes_attach() ?:
	      cil_level_get(&request);
	if (!ret) {
		ret = set_all(target, &request, touched);
		/* Also after an error: some threads may have got theirs. */
		if (touched->added)
			settle_all(target);
		if (target->process && wanted->kind == CPUIDLE_LATENCY_NONE)
			unset_again(target, &request, touched);
		cil_placement_touch(touched->cpus);
		cil_level_put(&request);
	}
	cil_probes_detach_soon();
	return ret;
}

/**
 * cil_request_set() - set or remove hints
 * @target: whose
 * @wanted: what; level is ignored. CPUIDLE_LATENCY_NONE removes
 *
 * If a thread cannot get its hint, those before it have theirs.
 *
 * Context: process, may sleep.
 * Return: 0, -EPERM (somebody else's task), -EACCES (CAP_SYS_NICE is needed),
 * -ESRCH (it has exited), -EDQUOT, -ENOSPC, -EINTR, -ENOMEM, -EOPNOTSUPP.
 */
int cil_request_set(const struct cil_target *target,
		    const struct cil_request *wanted)
{
	struct cil_touched touched = {};
	int ret;

	if (!zalloc_cpumask_var(&touched.cpus, GFP_KERNEL))
		return -ENOMEM;
	ret = mutex_lock_killable(&cil_hints_lock);
	if (!ret) {
		ret = set_locked(target, wanted, &touched);
		mutex_unlock(&cil_hints_lock);
	}
	free_cpumask_var(touched.cpus);
	return ret;
}

/**
 * cil_request_get() - what was asked for a task
 * @target: whose; of a process the first thread that there is
 * @found: filled; CPUIDLE_LATENCY_NONE if nothing was asked
 *
 * Context: process, may sleep.
 * Return: 0, -ESRCH (it has exited), or -EINTR.
 */
int cil_request_get(const struct cil_target *target, struct cil_request *found)
{
	int ret = mutex_lock_killable(&cil_hints_lock);
	struct task_struct *t;

	if (ret)
		return ret;
	ret = -ESRCH;
	rcu_read_lock();
	for_each_thread(target->task, t) {
		if (!is_meant(target, t) || READ_ONCE(t->flags) & PF_EXITING)
			continue;
		cil_hint_read_own(t, found);
		ret = 0;
		break;
	}
	rcu_read_unlock();
	mutex_unlock(&cil_hints_lock);
	return ret;
}
