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

/* Walks that look for threads that are made meanwhile, or were lost. */
#define PASSES	8

/* Threads for which the lock is held at once: any user's request may be for many. */
#define BATCH	16

/**
 * struct cil_change - a request on its way, and how far it has come
 * @target: the tasks or the group that are meant
 * @request: what they get; its level is held during a step
 * @privileged: the reserve may be used
 * @wake: CPUs that should decide again, NULL if the request may interrupt none
 * @next: the thread to go on with, NULL at the end; a reference is held
 * @steps: how many there may be; a process may make threads as fast as they get it
 * @passes: how often the walk may begin again with the first thread
 * @seen: a thread that does not exit has what is wanted
 * @others: threads other than the current one are new here, or have left
 * @round: see cil_hint_settle()
 * @groups: values of groups have changed
 * @last: see cil_groups_publish()
 */
struct cil_change {
	const struct cil_target *target;
	struct cil_request request;
	bool privileged;
	struct cpumask *wake;
	struct task_struct *next;
	int steps;
	int passes;
	bool seen;
	bool others;
	u32 round;
	bool groups;
	u64 last;
};

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
			const struct cil_request *request)
{
	kuid_t euid = current_euid();
	bool mine = uid_eq(theirs->uid, euid) || uid_eq(theirs->euid, euid);
	struct cil_request before;

	if (!mine && !ns_capable(theirs->user_ns, CAP_SYS_NICE))
		return -EPERM;
	cil_hint_read_request(task, &before);
	if ((cil_request_is_below(request, &before) ||
	     request->flags & CPUIDLE_LATENCY_KEEP) && !capable(CAP_SYS_NICE))
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
static int may_set_tasks(const struct cil_change *change)
{
	struct task_struct *t;
	int ret = 0;

	if (change->target->trusted)
		return 0;
	rcu_read_lock();
	for_each_meant(change->target, t) {
		ret = may_set_task(t, __task_cred(t), &change->request);
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
static int may_set_group(const struct cil_change *change)
{
	const struct cil_group *old = cil_group_lookup(cgroup_id(change->target->cgroup));
	static const struct cil_request none = { .level = CIL_LEVEL_NONE };

	if (!cil_request_is_below(&change->request, old ? &old->value.request : &none) &&
	    !(old && change->request.kind == CPUIDLE_LATENCY_NONE))
		return 0;
	return capable(CAP_SYS_NICE) ? 0 : -EACCES;
}

static u8 level_of(const struct task_struct *thread)
{
	const struct cil_hint *hint = cil_hint_find(thread);

	return hint ? READ_ONCE(hint->level) : CIL_LEVEL_NONE;
}

/*
 * See cil_hint_set(). The credentials are read once: a thread that has others by
 * now loses what it gets here.
 */
static int set_thread(const struct cil_change *change, struct task_struct *thread)
{
	const struct cred *cred = __task_cred(thread);
	u8 before = level_of(thread);
	int ret = change->target->trusted ? 0 :
		  may_set_task(thread, cred, &change->request);

	if (ret)
		return ret;
	ret = cil_hint_set(thread, cred, &change->request, change->privileged);
	if (cil_placement_change(task_cpu(thread), before, level_of(thread)) &&
	    change->wake)
		cpumask_set_cpu(task_cpu(thread), change->wake);
	return ret;
}

/* The next thread of the walk; the thread that it had come to may be gone. */
static struct task_struct *thread_to_go_on(struct cil_change *change)
{
	if (pid_alive(change->next))
		return change->next;
	return change->passes-- ? first_meant(change->target) : NULL;
}

static bool is_same(const struct cil_request *a, const struct cil_request *b)
{
	return a->kind == b->kind && a->value == b->value &&
	       a->limit_ns == b->limit_ns && a->flags == b->flags;
}

static bool is_set(const struct task_struct *thread,
		   const struct cil_request *request)
{
	struct cil_request before;

	cil_hint_read_request(thread, &before);
	if (request->kind == CPUIDLE_LATENCY_NONE)
		return before.kind == CPUIDLE_LATENCY_NONE;
	return is_same(&before, request);
}

/*
 * The next thread to which there is something to do, found without the lock.
 * Returns false at the end.
 */
static bool find_next(struct cil_change *change)
{
	struct task_struct *before = change->next;
	struct task_struct *t;

	if (!before)
		return false;
	rcu_read_lock();
	for (t = thread_to_go_on(change); t; t = next_meant(change->target, t)) {
		if (READ_ONCE(t->flags) & PF_EXITING)
			continue;
		if (!is_set(t, &change->request))
			break;
		change->seen = true;
	}
	change->next = t ? get_task_struct(t) : NULL;
	rcu_read_unlock();
	put_task_struct(before);
	return t;
}

/* Some threads, from the one that was found on; none if that is gone. */
static int set_threads(struct cil_change *change)
	__must_hold(&cil_hints_lock)
{
	struct task_struct *before = change->next;
	struct task_struct *t = before;
	int left = BATCH;
	int ret = 0;

	lockdep_assert_held(&cil_hints_lock);
	rcu_read_lock();
	for (; t && pid_alive(before) && left--; t = next_meant(change->target, t)) {
		ret = set_thread(change, t);
		if (ret == -ESRCH)
			continue;
		if (ret < 0)
			break;
		change->others |= ret && t != current;
		change->seen = true;
	}
	change->next = t ? get_task_struct(t) : NULL;
	rcu_read_unlock();
	put_task_struct(before);
	change->round = cil_hints_settle_round();
	return ret == -ESRCH ? 0 : min(ret, 0);
}

/*
 * Threads other than the current one may have been migrating, or have got the
 * hint that their parent had a moment ago. Both are over after a grace period.
 * Requests of others do not wait for it: the lock is not held.
 */
static void settle_threads(const struct cil_change *change)
{
	struct task_struct *t;

	synchronize_rcu();
	rcu_read_lock();
	for_each_meant(change->target, t)
		cil_hint_settle(t, change->round, change->wake);
	rcu_read_unlock();
	cil_placement_wake(change->wake, cil_probes_act());
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

static int insert_group(const struct cil_change *change, const struct cil_group *old)
{
	struct cil_group *group = make_group(old, change->privileged);

	if (IS_ERR(group))
		return PTR_ERR(group);
	group->id = cgroup_id(change->target->cgroup);
	group->value.request = change->request;
	cil_level_hold(&change->request);
	cil_group_insert(group);
	return 0;
}

static int set_group(struct cil_change *change)
	__must_hold(&cil_hints_lock)
{
	bool removes = change->request.kind == CPUIDLE_LATENCY_NONE;
	struct cgroup *cgroup = change->target->cgroup;
	struct cil_group *old = cil_group_lookup(cgroup_id(cgroup));
	int ret;

	lockdep_assert_held(&cil_hints_lock);
	/* Else any user with a cgroup could have all hints resolved again. */
	if (old && is_same(&old->value.request, &change->request) &&
	    cil_user_is(old->value.payer, current_cred()))
		return 0;
	ret = removes ? 0 : insert_group(change, old);
	if (ret || (!old && removes))
		return ret;
	if (old)
		cil_group_unlink(old);
	change->groups = true;
	change->last = cil_groups_publish();
	/* Removed meanwhile: before the value was there no probe said so. */
	smp_mb();
	if (!(READ_ONCE(cgroup->self.flags) & CSS_ONLINE))
		cil_group_removed(cgroup);
	return 0;
}

/* One step with the lock held: some threads, or the group. */
static int take_step(struct cil_change *change)
{
	int ret = fatal_signal_pending(current) ? -EINTR :
		  rt_mutex_lock_killable(&cil_hints_lock);

	if (ret)
		return ret;
	ret = change->target->cgroup ? may_set_group(change) : 0;
	if (!ret && change->request.kind != CPUIDLE_LATENCY_NONE)
		ret = cil_probes_attach(&change->request, change->privileged);
	ret = ret ?: cil_level_get(&change->request, change->privileged);
	if (!ret) {
		ret = change->target->cgroup ? set_group(change) : set_threads(change);
		cil_level_put(&change->request);
	}
	cil_probes_detach_soon();
	rt_mutex_unlock(&cil_hints_lock);
	return ret;
}

/* Also after an error some threads may have got theirs. */
static int set_tasks(struct cil_change *change)
{
	struct task_struct *task = change->target->task;
	int ret = may_set_tasks(change);

	change->next = get_task_struct(task);
	change->steps = 2 * get_nr_threads(task) / BATCH + PASSES;
	change->passes = PASSES;
	change->seen = false;
	change->others = false;
	while (!ret && change->steps-- && find_next(change)) {
		ret = take_step(change);
		cond_resched();
	}
	if (change->next)
		put_task_struct(change->next);
	cil_placement_wake(change->wake, cil_probes_act());
	if (change->others)
		settle_threads(change);
	if (!ret && !change->seen)
		ret = -ESRCH;
	return ret;
}

static int set_all_tasks(struct cil_change *change)
{
	int passes = PASSES;
	int ret;

	do {
		ret = set_tasks(change);
	} while (change->others && change->request.kind == CPUIDLE_LATENCY_NONE &&
		 --passes && !fatal_signal_pending(current));
	return ret;
}

static int set_value_of_group(struct cil_change *change)
{
	int ret;

	cil_request_flush_groups();
	ret = may_write_group(change->target) ?: take_step(change);
	if (change->groups)
		settle_groups(change->last, change->wake);
	return ret;
}

/**
 * cil_request_set() - set or remove hints, or the value of a group
 * @target: whose
 * @request: what; level is ignored. CPUIDLE_LATENCY_NONE removes
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
		    const struct cil_request *request)
{
	struct cil_change change = {
		.target = target,
		.request = *request,
		.privileged = may_use_reserve(target),
	};
	int ret;

	if (change.privileged) {
		change.wake = kzalloc(cpumask_size(), GFP_KERNEL);
		if (!change.wake)
			return -ENOMEM;
	}
	ret = target->cgroup ? set_value_of_group(&change) : set_all_tasks(&change);
	kfree(change.wake);
	return ret;
}

/* Any user may read: for a hint's lock, which switches take, only one waits. */
static DEFINE_SPINLOCK(get_lock);

/* Returns 0 or -ESRCH. */
static int get_tasks(const struct cil_target *target, struct cil_request *request)
{
	struct task_struct *t;
	int ret = -ESRCH;

	rcu_read_lock();
	for_each_meant(target, t) {
		if (READ_ONCE(t->flags) & PF_EXITING)
			continue;
		spin_lock(&get_lock);
		cil_hint_read_request(t, request);
		spin_unlock(&get_lock);
		ret = 0;
		break;
	}
	rcu_read_unlock();
	return ret;
}

static void get_group(const struct cgroup *cgroup, struct cil_request *request)
{
	const struct cil_group *group;

	*request = (struct cil_request){ .level = CIL_LEVEL_NONE };
	rcu_read_lock();
	group = cil_group_lookup(cgroup_id(cgroup));
	if (group)
		*request = group->value.request;
	rcu_read_unlock();
}

/**
 * cil_request_get() - tell the request for a task or a group
 * @target: whose; of a process the first thread that there is
 * @request: filled; CPUIDLE_LATENCY_NONE if nothing was asked
 *
 * Context: process.
 * Return: 0, or of a task -ESRCH (it has exited).
 */
int cil_request_get(const struct cil_target *target, struct cil_request *request)
{
	if (!target->cgroup)
		return get_tasks(target, request);
	get_group(target->cgroup, request);
	return 0;
}
