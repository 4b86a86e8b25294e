// SPDX-License-Identifier: GPL-2.0
/*
 * Asking for a hint: who may, and for which threads.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>

#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/probes.h"
#include "hints/request.h"
#include "hints/table.h"

/* How often threads that are made meanwhile are looked for. */
#define PASSES	8

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

/* See cil_hint_set(). Those that had a hint, or have one now, are noted. */
static int set_one(struct task_struct *thread, const struct cil_request *wanted)
{
	bool had = cil_hint_find(thread);
	int ret = cil_hint_set(thread, wanted);
	const struct cil_hint *hint = cil_hint_find(thread);

	if (had || hint)
		cil_placement_note(task_cpu(thread), hint ? READ_ONCE(hint->level) :
							    CIL_LEVEL_NONE);
	return ret;
}

/* @others: threads other than the current one that are new here, or have left. */
static int set_all(const struct cil_target *target,
		   const struct cil_request *wanted, bool *others)
{
	struct task_struct *t;
	int ret = -ESRCH;
	bool seen = false;

	*others = false;
	rcu_read_lock();
	for_each_thread(target->task, t) {
		if (!is_meant(target, t))
			continue;
		ret = set_one(t, wanted);
		if (ret == -ESRCH)
			continue;
		if (ret < 0)
			break;
		*others |= ret && t != current;
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
 * The current task does not migrate meanwhile, and makes no thread. Others may
 * have been migrating, or been given what their parent had a moment ago; both
 * is over after a grace period. So hints are taken away until none is found; a
 * process that makes threads faster than that keeps some.
 */
static int set_and_settle(const struct cil_target *target,
			  const struct cil_request *wanted)
{
	int passes = PASSES;
	bool others;
	int ret;

	do {
		ret = set_all(target, wanted, &others);
		/* Also after an error: some threads may have got theirs. */
		if (others)
			settle_all(target);
	} while (others && wanted->kind == CPUIDLE_LATENCY_NONE && --passes &&
		 !fatal_signal_pending(current));
	return ret;
}

static int set_locked(const struct cil_target *target,
		      const struct cil_request *wanted)
{
	struct cil_request request = *wanted;
	int ret;

	ret = may_set(target, wanted) ?: cil_probes_attach() ?:
	      cil_level_get(&request);
	if (!ret) {
		ret = set_and_settle(target, &request);
		cil_placement_touch();
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
	int ret = mutex_lock_killable(&cil_hints_lock);

	if (ret)
		return ret;
	ret = set_locked(target, wanted);
	mutex_unlock(&cil_hints_lock);
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
