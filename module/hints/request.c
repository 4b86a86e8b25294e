// SPDX-License-Identifier: GPL-2.0
/*
 * Requests for hints: permission, the threads meant, and groups.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "hints/groups.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/probes.h"
#include "hints/request.h"
#include "hints/tasks.h"
#include "hints/users.h"

/*
 * Groups that may have a value at a time: all of them, those for requests with
 * CAP_SYS_NICE only, and those of one payer.
 */
#define GROUPS_MAX		4096
#define GROUPS_RESERVED		256
#define GROUPS_PER_PAYER	(GROUPS_MAX / 4)

/* How often threads that are made meanwhile are looked for. */
#define PASSES	8

/* The thread behind a place in the list of a process' threads, NULL at the end. */
static struct task_struct *thread_behind(const struct task_struct *task,
					 struct list_head *place)
{
	struct list_head *next = rcu_dereference(list_next_rcu(place));

	return next == &task->signal->thread_head ? NULL :
	       list_entry(next, struct task_struct, thread_node);
}

static struct task_struct *first_meant(const struct cil_target *target)
{
	return target->process ? thread_behind(target->task,
					       &target->task->signal->thread_head) :
				 target->task;
}

static struct task_struct *next_meant(const struct cil_target *target,
				      struct task_struct *thread)
{
	return target->process ? thread_behind(target->task, &thread->thread_node) :
				 NULL;
}

/*
 * The thread that is meant, or all of a process. New threads are added at the
 * end, so one that is made meanwhile inherits, or is met. In an RCU read section.
 */
#define for_each_meant(target, t)					\
	for ((t) = first_meant(target); (t); (t) = next_meant(target, t))

/*
 * As renice: the task must be the caller's, unless he may do it to others in
 * its user namespace. To be more sensitive costs the whole machine energy, so
 * the right to ask for that is the initial namespace's: any user can be root
 * in a namespace of its own.
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
	if ((cil_request_is_below(wanted, &own) ||
	     wanted->flags & CPUIDLE_LATENCY_KEEP) && !capable(CAP_SYS_NICE))
		return -EACCES;
	return 0;
}

/*
 * However many uids the users of the machine own: a part of everything is out
 * of their reach.
 */
static bool may_use_reserve(const struct cil_target *target)
{
	return target->trusted || ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE);
}

/* Returns 0, -EPERM or -EACCES. */
static int may_set_tasks(const struct cil_target *target,
			 const struct cil_request *wanted)
{
	struct task_struct *t;
	int ret = 0;

	if (target->trusted)
		return 0;
	rcu_read_lock();
	for_each_meant(target, t) {
		ret = may_set_task(t, wanted);
		if (ret)
			break;
	}
	rcu_read_unlock();
	return ret;
}

/* Another thread may have put another file in the descriptor's place. */
static bool is_directory_of(const struct file *file, const struct cgroup *cgroup)
{
	const struct inode *inode = file_inode(file);

	return inode->i_sb->s_magic == CGROUP2_SUPER_MAGIC &&
	       inode->i_private == cgroup->kn;
}

/* Returns 0, -EBADF, -EPERM or -EROFS. */
static int may_write_directory(struct file *file, const struct cgroup *cgroup)
{
	int ret;

	if (!is_directory_of(file, cgroup))
		return -EBADF;
	if (file_permission(file, MAY_WRITE))
		return -EPERM;
	ret = mnt_want_write(file->f_path.mnt);
	if (!ret)
		mnt_drop_write(file->f_path.mnt);
	return ret;
}

/*
 * The right to write to a group's directory is the right to change its value. It
 * is looked at without the lock: parameters of the module take that below locks
 * that the kernel's own files take below those of their mount.
 */
static int may_write_group(const struct cil_target *target)
{
	struct file *file = fget_raw(target->fd);
	int ret;

	if (!file)
		return -EBADF;
	ret = may_write_directory(file, target->cgroup);
	fput(file);
	return ret;
}

/*
 * CAP_SYS_NICE is needed to make a group's tasks more sensitive. Without a value
 * a group limits no task, so taking one away counts as that.
 */
static int may_set_group(const struct cil_target *target,
			 const struct cil_request *wanted)
{
	const struct cil_group *old = cil_group_lookup(cgroup_id(target->cgroup));
	static const struct cil_request none = { .level = CIL_LEVEL_NONE };
	const struct cil_request *before = old ? &old->value.request : &none;

	if (!cil_request_is_below(wanted, before) &&
	    !(old && wanted->kind == CPUIDLE_LATENCY_NONE))
		return 0;
	return capable(CAP_SYS_NICE) ? 0 : -EACCES;
}

/* See cil_hint_set(). A change is queued for those that had a hint, or have one now. */
static int set_thread(struct task_struct *thread, const struct cil_request *wanted,
		      bool privileged)
{
	bool had = cil_hint_find(thread);
	int ret = cil_hint_set(thread, wanted, privileged);
	const struct cil_hint *hint = cil_hint_find(thread);

	if (had || hint)
		cil_placement_queue(task_cpu(thread), hint ? READ_ONCE(hint->level) :
							    CIL_LEVEL_NONE);
	return ret;
}

/* @others: threads other than the current one that are new here, or have left. */
static int set_threads(const struct cil_target *target,
		       const struct cil_request *wanted, bool *others)
{
	struct task_struct *t;
	int ret = -ESRCH;
	bool privileged = may_use_reserve(target);
	bool seen = false;

	*others = false;
	rcu_read_lock();
	for_each_meant(target, t) {
		ret = set_thread(t, wanted, privileged);
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

/*
 * Threads other than the current one may have been migrating, or been given what
 * their parent had a moment ago; both is over after a grace period. Requests of
 * others do not wait for it: the lock is not held.
 */
static void settle_threads(const struct cil_target *target, u32 round)
{
	struct task_struct *t;

	synchronize_rcu();
	rcu_read_lock();
	for_each_meant(target, t)
		cil_hint_settle(t, round);
	rcu_read_unlock();
}

/*
 * Groups' values have changed; afterwards no task goes by an old one. Requests
 * of others do not wait for the grace period: the lock is not held.
 */
static void settle_groups(u64 last)
{
	synchronize_rcu();
	rt_mutex_lock(&cil_hints_lock);
	if (cil_hint_pool)
		cil_hints_resolve_all();
	cil_placement_flush(cil_probes_act());
	cil_groups_release(last);
	cil_probes_detach_soon();
	rt_mutex_unlock(&cil_hints_lock);
}

/**
 * cil_request_flush_groups() - forget the values of cgroups that are gone
 *
 * Context: process, may sleep; cil_hints_lock is not held.
 */
void cil_request_flush_groups(void)
{
	u64 last = 0;

	rt_mutex_lock(&cil_hints_lock);
	if (cil_groups_unlink_dead())
		last = cil_groups_publish();
	rt_mutex_unlock(&cil_hints_lock);
	if (last)
		settle_groups(last);
}

/* @payer is charged already; one that changes its own value may be over. */
static int may_add_group(const struct cil_user *payer, const struct cil_group *old,
			 bool privileged)
{
	u32 most = GROUPS_MAX - (privileged ? 0 : GROUPS_RESERVED);

	if (old && old->value.payer == payer)
		return 0;
	if (cil_user_is_over(payer) || cil_groups_of(payer) >= GROUPS_PER_PAYER)
		return -EDQUOT;
	return !old && cil_groups_used >= most ? -ENOSPC : 0;
}

static struct cil_group *make_group(const struct cil_group *old, bool privileged)
{
	struct cil_group *group = kzalloc(sizeof(*group), GFP_KERNEL);
	int ret = -ENOMEM;

	if (!group)
		return ERR_PTR(ret);
	group->value.payer = cil_user_charge(current_cred());
	if (group->value.payer) {
		ret = may_add_group(group->value.payer, old, privileged);
		if (!ret)
			return group;
		cil_user_uncharge(group->value.payer);
	}
	kfree(group);
	return ERR_PTR(ret);
}

static int insert_group(u64 id, const struct cil_request *request,
			const struct cil_group *old, bool privileged)
{
	struct cil_group *group = make_group(old, privileged);

	if (IS_ERR(group))
		return PTR_ERR(group);
	group->id = id;
	group->value.request = *request;
	cil_level_hold(request);
	cil_group_insert(group);
	return 0;
}

/**
 * struct cil_unsettled - what is left to do after a change, without the lock
 * @threads: some threads other than the current one are new here, or have left
 * @round: see cil_hint_settle()
 * @groups: values of groups have changed
 * @last: see cil_groups_publish()
 */
struct cil_unsettled {
	bool threads;
	u32 round;
	bool groups;
	u64 last;
};

static int set_group(const struct cil_target *target,
		     const struct cil_request *wanted,
		     struct cil_unsettled *unsettled)
	__must_hold(&cil_hints_lock)
{
	struct cgroup *cgroup = target->cgroup;
	struct cil_group *old = cil_group_lookup(cgroup_id(cgroup));
	int ret = 0;

	if (wanted->kind != CPUIDLE_LATENCY_NONE)
		ret = insert_group(cgroup_id(cgroup), wanted, old,
				   may_use_reserve(target));
	if (ret || (!old && wanted->kind == CPUIDLE_LATENCY_NONE))
		return ret;
	if (old)
		cil_group_unlink(old);
	unsettled->groups = true;
	unsettled->last = cil_groups_publish();
	/* Removed meanwhile: before the value was there no probe said so. */
	smp_mb();
	if (!(READ_ONCE(cgroup->self.flags) & CSS_ONLINE))
		cil_group_removed(cgroup);
	return 0;
}

/* Also after an error some threads may have got theirs. */
static int set_tasks(const struct cil_target *target,
		     const struct cil_request *wanted,
		     struct cil_unsettled *unsettled)
	__must_hold(&cil_hints_lock)
{
	int ret = set_threads(target, wanted, &unsettled->threads);

	unsettled->round = cil_hints_settle_round();
	cil_placement_flush(cil_probes_act());
	return ret;
}

static int set_locked(const struct cil_target *target,
		      const struct cil_request *wanted,
		      struct cil_unsettled *unsettled)
	__must_hold(&cil_hints_lock)
{
	bool privileged = may_use_reserve(target);
	struct cil_request request = *wanted;
	int ret;

	lockdep_assert_held(&cil_hints_lock);
	ret = target->cgroup ? may_set_group(target, wanted) :
			       may_set_tasks(target, wanted);
	/* Unless the probes are attached there is nothing to take away. */
	if (ret || (wanted->kind == CPUIDLE_LATENCY_NONE &&
		    !cil_probes_attached()))
		return ret;
	if (wanted->kind != CPUIDLE_LATENCY_NONE)
		ret = cil_probes_attach(wanted, privileged);
	ret = ret ?: cil_level_get(&request, privileged);
	if (!ret) {
		ret = target->cgroup ? set_group(target, &request, unsettled) :
				       set_tasks(target, &request, unsettled);
		cil_level_put(&request);
	}
	cil_probes_detach_soon();
	return ret;
}

static int set_and_settle(const struct cil_target *target,
			  const struct cil_request *wanted,
			  struct cil_unsettled *unsettled)
{
	int ret = rt_mutex_lock_killable(&cil_hints_lock);

	*unsettled = (struct cil_unsettled){};
	if (ret)
		return ret;
	ret = set_locked(target, wanted, unsettled);
	rt_mutex_unlock(&cil_hints_lock);
	if (unsettled->threads)
		settle_threads(target, unsettled->round);
	if (unsettled->groups)
		settle_groups(unsettled->last);
	return ret;
}

/**
 * cil_request_set() - set or remove hints, or the value of a group
 * @target: whose
 * @wanted: what; level is ignored. CPUIDLE_LATENCY_NONE removes
 *
 * If a thread cannot get its hint, those before it have theirs. Hints are taken
 * away until none is found, since threads that are made meanwhile inherit; a
 * process that makes threads faster than that keeps some.
 *
 * Context: process, may sleep.
 * Return: 0, -EPERM (another user's task, or a directory that the caller may
 * not write to), -EACCES (CAP_SYS_NICE is needed), -ESRCH (it has exited),
 * -EROFS (its mount is read-only), -EBADF (the descriptor is not the cgroup's
 * any more), -EDQUOT (the payer has too many), -ENOSPC (too many hints, groups
 * or distinct limits), -EINTR, -ENOMEM, -EOPNOTSUPP.
 */
int cil_request_set(const struct cil_target *target,
		    const struct cil_request *wanted)
{
	struct cil_unsettled unsettled;
	int passes = PASSES;
	int ret = 0;

	if (target->cgroup) {
		cil_request_flush_groups();
		ret = may_write_group(target);
	}
	if (ret)
		return ret;
	do {
		ret = set_and_settle(target, wanted, &unsettled);
	} while (unsettled.threads && wanted->kind == CPUIDLE_LATENCY_NONE &&
		 --passes && !fatal_signal_pending(current));
	return ret;
}

/* Returns 0 or -ESRCH. */
static int get_tasks(const struct cil_target *target, struct cil_request *found)
{
	struct task_struct *t;
	int ret = -ESRCH;

	rcu_read_lock();
	for_each_meant(target, t) {
		if (READ_ONCE(t->flags) & PF_EXITING)
			continue;
		cil_hint_read_own(t, found);
		ret = 0;
		break;
	}
	rcu_read_unlock();
	return ret;
}

static void get_group(const struct cgroup *cgroup, struct cil_request *found)
{
	const struct cil_group *group;

	*found = (struct cil_request){ .level = CIL_LEVEL_NONE };
	rcu_read_lock();
	group = cil_group_lookup(cgroup_id(cgroup));
	if (group)
		*found = group->value.request;
	rcu_read_unlock();
}

/**
 * cil_request_get() - what was asked for a task or a group
 * @target: whose; of a process the first thread that there is
 * @found: filled; CPUIDLE_LATENCY_NONE if nothing was asked
 *
 * Context: process, may sleep.
 * Return: 0, or of a task -ESRCH (it has exited) or -EINTR.
 */
int cil_request_get(const struct cil_target *target, struct cil_request *found)
{
	int ret;

	if (target->cgroup) {
		get_group(target->cgroup, found);
		return 0;
	}
	ret = rt_mutex_lock_killable(&cil_hints_lock);
	if (ret)
		return ret;
	ret = get_tasks(target, found);
	rt_mutex_unlock(&cil_hints_lock);
	return ret;
}
