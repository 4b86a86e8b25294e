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
#include "hints/hints.h"
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

/* How often threads that are made meanwhile, or were lost, are looked for. */
#define PASSES	8

/* Threads for which the lock is held at once: any user's request may be for many. */
#define BATCH	16

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
 * its user namespace. To be more sensitive costs the whole machine energy. So
 * the right to ask for that is the initial namespace's: any user can be root in
 * a namespace of its own.
 */
static int may_set_task(struct task_struct *task, const struct cred *theirs,
			const struct cil_request *wanted)
{
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

/*
 * Before any thread is changed; each is looked at again then. Returns 0, -EPERM
 * or -EACCES.
 */
static int may_set_tasks(const struct cil_target *target,
			 const struct cil_request *wanted)
{
	struct task_struct *t;
	int ret = 0;

	if (target->trusted)
		return 0;
	rcu_read_lock();
	for_each_meant(target, t) {
		ret = may_set_task(t, __task_cred(t), wanted);
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
 * The right to write to a group's directory is the right to change its value.
 * It is looked at without the lock. For parameters of the module it is taken
 * below locks that the kernel's own files take below those of their mount.
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

/**
 * struct cil_progress - how far a request has come
 * @next: the thread to go on with, NULL at the end; a reference is held
 * @steps: how many there may be; a process may make threads as fast as they get it
 * @passes: how often the walk may begin again with the first thread
 * @seen: a thread that does not exit has what is wanted
 * @others: threads other than the current one are new here, or have left
 * @round: see cil_hint_settle()
 * @groups: values of groups have changed
 * @last: see cil_groups_publish()
 * @wake: CPUs that should decide again, NULL if the request may interrupt none
 */
struct cil_progress {
	struct task_struct *next;
	int steps;
	int passes;
	bool seen;
	bool others;
	u32 round;
	bool groups;
	u64 last;
	struct cpumask *wake;
};

static u8 level_of(const struct task_struct *thread)
{
	const struct cil_hint *hint = cil_hint_find(thread);

	return hint ? READ_ONCE(hint->level) : CIL_LEVEL_NONE;
}

/*
 * See cil_hint_set(). The credentials are read once: a thread that has others by
 * now loses what it gets here.
 */
static int set_thread(const struct cil_target *target, struct task_struct *thread,
		      const struct cil_request *wanted, bool privileged,
		      struct cil_progress *progress)
{
	const struct cred *cred = __task_cred(thread);
	u8 before = level_of(thread);
	int ret = target->trusted ? 0 : may_set_task(thread, cred, wanted);

	if (ret)
		return ret;
	ret = cil_hint_set(thread, cred, wanted, privileged);
	if (cil_placement_change(task_cpu(thread), before, level_of(thread)) &&
	    progress->wake)
		cpumask_set_cpu(task_cpu(thread), progress->wake);
	return ret;
}

/* Where the walk goes on; the thread that it had come to may be gone. */
static struct task_struct *thread_to_go_on(const struct cil_target *target,
					   struct cil_progress *progress)
{
	if (pid_alive(progress->next))
		return progress->next;
	return progress->passes-- ? first_meant(target) : NULL;
}

static bool is_same(const struct cil_request *a, const struct cil_request *b)
{
	return a->kind == b->kind && a->value == b->value &&
	       a->limit_ns == b->limit_ns && a->flags == b->flags;
}

static bool is_set(const struct task_struct *thread,
		   const struct cil_request *wanted)
{
	struct cil_request own;

	cil_hint_read_own(thread, &own);
	if (wanted->kind == CPUIDLE_LATENCY_NONE)
		return own.kind == CPUIDLE_LATENCY_NONE;
	return is_same(&own, wanted);
}

/*
 * The next thread to which there is something to do, found without the lock.
 * Returns false at the end.
 */
static bool find_next(const struct cil_target *target,
		      const struct cil_request *wanted,
		      struct cil_progress *progress)
{
	struct task_struct *before = progress->next;
	struct task_struct *t;

	if (!before)
		return false;
	rcu_read_lock();
	for (t = thread_to_go_on(target, progress); t; t = next_meant(target, t)) {
		if (READ_ONCE(t->flags) & PF_EXITING)
			continue;
		if (!is_set(t, wanted))
			break;
		progress->seen = true;
	}
	progress->next = t ? get_task_struct(t) : NULL;
	rcu_read_unlock();
	put_task_struct(before);
	return t;
}

/* Some threads, from the one that was found on; none if that is gone. */
static int set_threads(const struct cil_target *target,
		       const struct cil_request *wanted,
		       struct cil_progress *progress)
	__must_hold(&cil_hints_lock)
{
	bool privileged = may_use_reserve(target);
	struct task_struct *before = progress->next;
	struct task_struct *t = before;
	int left = BATCH;
	int ret = 0;

	rcu_read_lock();
	for (; t && pid_alive(before) && left--; t = next_meant(target, t)) {
		ret = set_thread(target, t, wanted, privileged, progress);
		if (ret == -ESRCH)
			continue;
		if (ret < 0)
			break;
		progress->others |= ret && t != current;
		progress->seen = true;
	}
	progress->next = t ? get_task_struct(t) : NULL;
	rcu_read_unlock();
	put_task_struct(before);
	progress->round = cil_hints_settle_round();
	return ret == -ESRCH ? 0 : min(ret, 0);
}

/*
 * Threads other than the current one may have been migrating, or have got the
 * hint that their parent had a moment ago. Both are over after a grace period.
 * Requests of others do not wait for it: the lock is not held.
 */
static void settle_threads(const struct cil_target *target,
			   const struct cil_progress *progress)
{
	struct task_struct *t;

	synchronize_rcu();
	rcu_read_lock();
	for_each_meant(target, t)
		cil_hint_settle(t, progress->round, progress->wake);
	rcu_read_unlock();
	cil_placement_wake(progress->wake, cil_probes_act());
}

/*
 * Groups' values have changed; afterwards no task goes by an old one. Requests
 * of others wait neither for the grace period nor for the look at all hints: the
 * lock is not held.
 */
static void settle_groups(u64 last, struct cpumask *wake)
{
	synchronize_rcu();
	cil_hints_resolve_all(wake);
	cil_placement_wake(wake, cil_probes_act());
	rt_mutex_lock(&cil_hints_lock);
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
		settle_groups(last, NULL);
}

/**
 * cil_hints_set_map() - change the table of values, see cil_levels_set_map()
 * @text: the table
 *
 * A task's own limit and its group's value may compare the other way round
 * then, so what groups give is looked up again.
 *
 * Context: process, may sleep; also before cil_hints_init().
 * Return: 0, -EINVAL (nothing has changed) or -ENOMEM.
 */
int cil_hints_set_map(const char *text)
{
	int ret = cil_levels_set_map(text);
	bool has_groups;
	u64 last = 0;

	if (ret)
		return ret;
	rt_mutex_lock(&cil_hints_lock);
	has_groups = cil_groups_used;
	if (has_groups)
		last = cil_groups_publish();
	rt_mutex_unlock(&cil_hints_lock);
	if (has_groups)
		settle_groups(last, NULL);
	return 0;
}

/* @payer is charged already; one that changes its own value may be over. */
static int may_add_group(const struct cil_user *payer, const struct cil_group *old,
			 bool privileged)
{
	u32 most = GROUPS_MAX - (privileged ? 0 : GROUPS_RESERVED);

	if (old && old->value.payer == payer)
		return 0;
	if (cil_user_is_over(payer) || cil_user_groups(payer) >= GROUPS_PER_PAYER)
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

static int set_group(const struct cil_target *target,
		     const struct cil_request *wanted,
		     struct cil_progress *progress)
	__must_hold(&cil_hints_lock)
{
	struct cgroup *cgroup = target->cgroup;
	struct cil_group *old = cil_group_lookup(cgroup_id(cgroup));
	int ret = 0;

	/* Else any user with a cgroup could have all hints resolved again. */
	if (old && is_same(&old->value.request, wanted) &&
	    cil_user_is(old->value.payer, current_cred()))
		return 0;
	if (wanted->kind != CPUIDLE_LATENCY_NONE)
		ret = insert_group(cgroup_id(cgroup), wanted, old,
				   may_use_reserve(target));
	if (ret || (!old && wanted->kind == CPUIDLE_LATENCY_NONE))
		return ret;
	if (old)
		cil_group_unlink(old);
	progress->groups = true;
	progress->last = cil_groups_publish();
	/* Removed meanwhile: before the value was there no probe said so. */
	smp_mb();
	if (!(READ_ONCE(cgroup->self.flags) & CSS_ONLINE))
		cil_group_removed(cgroup);
	return 0;
}

/* One step with the lock held: some threads, or the group. */
static int set_locked(const struct cil_target *target,
		      const struct cil_request *wanted,
		      struct cil_progress *progress)
	__must_hold(&cil_hints_lock)
{
	bool privileged = may_use_reserve(target);
	struct cil_request request = *wanted;
	int ret;

	lockdep_assert_held(&cil_hints_lock);
	ret = target->cgroup ? may_set_group(target, wanted) : 0;
	if (!ret && wanted->kind != CPUIDLE_LATENCY_NONE)
		ret = cil_probes_attach(wanted, privileged);
	ret = ret ?: cil_level_get(&request, privileged);
	if (!ret) {
		ret = target->cgroup ? set_group(target, &request, progress) :
				       set_threads(target, &request, progress);
		cil_level_put(&request);
	}
	cil_probes_detach_soon();
	return ret;
}

static int take_step(const struct cil_target *target,
		     const struct cil_request *wanted,
		     struct cil_progress *progress)
{
	int ret = fatal_signal_pending(current) ? -EINTR :
		  rt_mutex_lock_killable(&cil_hints_lock);

	if (ret)
		return ret;
	ret = set_locked(target, wanted, progress);
	rt_mutex_unlock(&cil_hints_lock);
	return ret;
}

/* Also after an error some threads may have got theirs. */
static int set_tasks(const struct cil_target *target,
		     const struct cil_request *wanted,
		     struct cil_progress *progress)
{
	int ret = may_set_tasks(target, wanted);

	progress->next = get_task_struct(target->task);
	progress->steps = 2 * get_nr_threads(target->task) / BATCH + PASSES;
	while (!ret && progress->steps-- && find_next(target, wanted, progress)) {
		ret = take_step(target, wanted, progress);
		cond_resched();
	}
	if (progress->next)
		put_task_struct(progress->next);
	cil_placement_wake(progress->wake, cil_probes_act());
	if (progress->others)
		settle_threads(target, progress);
	if (!ret && !progress->seen)
		ret = -ESRCH;
	return ret;
}

static int set_value_of_group(const struct cil_target *target,
			      const struct cil_request *wanted,
			      struct cpumask *wake)
{
	struct cil_progress progress = { .wake = wake };
	int ret;

	cil_request_flush_groups();
	ret = may_write_group(target) ?: take_step(target, wanted, &progress);
	if (progress.groups)
		settle_groups(progress.last, wake);
	return ret;
}

static int set_all_tasks(const struct cil_target *target,
			 const struct cil_request *wanted, struct cpumask *wake)
{
	struct cil_progress progress;
	int passes = PASSES;
	int ret;

	do {
		progress = (struct cil_progress){ .passes = PASSES, .wake = wake };
		ret = set_tasks(target, wanted, &progress);
	} while (progress.others && wanted->kind == CPUIDLE_LATENCY_NONE &&
		 --passes && !fatal_signal_pending(current));
	return ret;
}

/**
 * cil_request_set() - set or remove hints, or the value of a group
 * @target: whose
 * @wanted: what; level is ignored. CPUIDLE_LATENCY_NONE removes
 *
 * If a thread cannot get its hint, those before it have theirs. Hints are taken
 * away until none is found, since threads that are made meanwhile inherit. A
 * process that makes threads, or ends them, faster than that keeps some.
 *
 * Context: process, may sleep.
 * Return: 0, -EINTR, -ENOMEM, -EOPNOTSUPP, or
 * * -EPERM - another user's task, or a directory that the caller may not write
 *   to
 * * -EACCES - CAP_SYS_NICE is needed
 * * -ESRCH - it has exited
 * * -EROFS - its mount is read-only
 * * -EBADF - the descriptor is not the cgroup's any more
 * * -EDQUOT - the payer has too many
 * * -ENOSPC - too many hints, groups or distinct limits
 */
int cil_request_set(const struct cil_target *target,
		    const struct cil_request *wanted)
{
	struct cpumask *wake = NULL;
	int ret;

	if (may_use_reserve(target)) {
		wake = kzalloc(cpumask_size(), GFP_KERNEL);
		if (!wake)
			return -ENOMEM;
	}
	ret = target->cgroup ? set_value_of_group(target, wanted, wake) :
			       set_all_tasks(target, wanted, wake);
	kfree(wake);
	return ret;
}

/* Any user may read: for a hint's lock, which switches take, only one waits. */
static DEFINE_SPINLOCK(get_lock);

/* Returns 0 or -ESRCH. */
static int get_tasks(const struct cil_target *target, struct cil_request *found)
{
	struct task_struct *t;
	int ret = -ESRCH;

	rcu_read_lock();
	for_each_meant(target, t) {
		if (READ_ONCE(t->flags) & PF_EXITING)
			continue;
		spin_lock(&get_lock);
		cil_hint_read_own(t, found);
		spin_unlock(&get_lock);
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
 * Context: process.
 * Return: 0, or of a task -ESRCH (it has exited).
 */
int cil_request_get(const struct cil_target *target, struct cil_request *found)
{
	if (!target->cgroup)
		return get_tasks(target, found);
	get_group(target->cgroup, found);
	return 0;
}
