// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of a task's hint: by requests, by the scheduler's events, and by
 * values of groups.
 *
 * The functions for the scheduler's events run with run-queue locks held.
 */
#include <linux/pid.h>
#include <linux/sched/task.h>

#include "hints/groups.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/pool.h"
#include "hints/table.h"
#include "hints/tasks.h"
#include "hints/users.h"
#include "trace.h"

/* More than anything to be expected. */
#define SLEEP_UNKNOWN	U64_MAX

/**
 * struct cil_grant - what a task gets
 * @request: the request; its level is held
 * @owner: as whom the task is meant
 * @payer: pays for it; charged already
 * @expected_ns: the longest sleep to expect, if it has no hint yet
 * @what: CIL_HINT_*, for the trace
 * @privileged: the reserve may be used
 */
struct cil_grant {
	struct cil_request request;
	struct cil_owner owner;
	struct cil_user *payer;
	u64 expected_ns;
	u8 what;
	bool privileged;
};

/* Changed by the job with cil_hints_lock held, read with the lock of a hint, too. */
static u32 settle_round;

/* Times that a task could not get the hint of its parent or its group. */
static DEFINE_PER_CPU(u32, refused);

/**
 * cil_hints_refused() - how often a task found no room for a hint
 *
 * A child that should have inherited counts once; a member of a group each time
 * it stops running.
 *
 * Context: any.
 */
u32 cil_hints_refused(void)
{
	u32 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(refused, cpu);
	return sum;
}

/* The request in force: the task's own, as far as the group lets it go. */
static const struct cil_request *hint_effective(const struct cil_hint *hint,
						const struct cil_group_value *group)
{
	if (group && (!cil_hint_has_request(hint) ||
		      cil_request_is_below(&hint->request, &group->request)))
		return &group->request;
	return &hint->request;
}

static void hint_resolve(struct cil_hint *hint, const struct cil_group_value *group)
	__must_hold(&hint->lock)
{
	const struct cil_request *request = hint_effective(hint, group);
	bool relaxed = cil_request_is_relaxed(request);

	lockdep_assert_held(&hint->lock);
	cil_hint_set_level(hint, request->level);
	if (hint->relaxed != relaxed) {
		WRITE_ONCE(hint->relaxed, relaxed);
		cil_hint_note_again(hint);
	}
	/* For the cgroup that the task is in now; it may run in another one. */
	WRITE_ONCE(hint->resolved, 0);
}

/* Only the group has a value, so its payer pays. False: its quota is used up. */
static bool hint_charge_group(struct cil_hint *hint, struct cil_user *payer)
	__must_hold(&hint->lock)
{
	lockdep_assert_held(&hint->lock);
	if (hint->payer == payer)
		return true;
	if (!cil_user_charge_member(payer)) {
		this_cpu_inc(refused);
		return false;
	}
	cil_user_uncharge(hint->payer);
	hint->payer = payer;
	return true;
}

static void hint_apply(struct cil_hint *hint, const struct cil_grant *grant)
	__must_hold(&hint->lock)
{
	lockdep_assert_held(&hint->lock);
	cil_hint_set_request(hint, &grant->request);
	hint->owner = grant->owner;
	hint_resolve(hint, cil_group_of(hint->task));
	cil_hint_trace(hint, grant->what);
}

/* An inherited hint was charged before. */
static bool grant_may_pay(const struct cil_grant *grant)
{
	return grant->what == CIL_HINT_INHERIT || !cil_user_is_over(grant->payer);
}

/*
 * A task that had a hint. A child may be asked for before it is first woken;
 * that stands, and what it would inherit does not.
 */
static int hint_change(struct cil_hint *hint, const struct cil_grant *grant)
	__must_hold(&hint->lock)
{
	bool stands = grant->what == CIL_HINT_INHERIT && cil_hint_has_request(hint);
	struct cil_user *payer = grant->payer;

	lockdep_assert_held(&hint->lock);
	if (!stands && hint->payer != payer) {
		if (!grant_may_pay(grant))
			return -EDQUOT;
		swap(hint->payer, payer);
	}
	cil_user_uncharge(payer);
	if (!stands)
		hint_apply(hint, grant);
	return 0;
}

/*
 * Give a task a request of its own, or another one. Returns 1 if the task had no
 * hint at all, else 0, or -ENOSPC or -EDQUOT: then the payer is discharged.
 */
static int hint_grant(struct task_struct *task, const struct cil_grant *grant)
{
	struct cil_bucket *bucket = cil_bucket_of(task);
	struct cil_hint *hint;
	unsigned long flags;
	bool is_new;
	int ret = 1;

	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = cil_hint_find(task);
	is_new = !hint;
	if (is_new)
		hint = grant_may_pay(grant) ?
		       cil_hint_add(bucket, task, grant->payer, grant->expected_ns,
				    grant->privileged) :
		       ERR_PTR(-EDQUOT);
	if (IS_ERR(hint)) {
		ret = PTR_ERR(hint);
	} else {
		raw_spin_lock(&hint->lock);
		if (is_new)
			hint_apply(hint, grant);
		else
			ret = hint_change(hint, grant);
		raw_spin_unlock(&hint->lock);
	}
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	if (ret < 0)
		cil_user_uncharge(grant->payer);
	return ret;
}

/* Drops the lock of the hint. */
static void hint_unset_locked(struct cil_hint *hint,
			      const struct cil_group_value *group)
	__releases(&hint->lock)
{
	static const struct cil_request none = { .level = CIL_LEVEL_NONE };

	if (!group || !hint_charge_group(hint, group->payer)) {
		cil_hint_release(hint, CIL_HINT_REMOVE);
		return;
	}
	cil_hint_set_request(hint, &none);
	hint_resolve(hint, group);
	cil_hint_trace(hint, CIL_HINT_REMOVE);
	raw_spin_unlock(&hint->lock);
}

/*
 * Without a request of its own the task may still have its group's. Returns 1
 * if it had one of its own, else 0. @stale: one that was for another user only.
 */
static int hint_unset(struct task_struct *task, bool stale)
{
	const struct cil_group_value *group = cil_group_of(task);
	struct cil_bucket *bucket = cil_bucket_of(task);
	struct cil_hint *hint;
	unsigned long flags;
	bool had;

	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = cil_hint_find(task);
	had = hint && cil_hint_has_request(hint) &&
	      !(stale && cil_hint_is_theirs(hint, task));
	if (had) {
		raw_spin_lock(&hint->lock);
		hint_unset_locked(hint, group);
	}
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	return had;
}

/**
 * cil_hint_set() - give a task a request of its own, or take it away
 * @task: the task
 * @cred: the credentials with which it was allowed, the task's. If the task has
 *	changed its user since, it has no request afterwards
 * @request: the request; its level is held. CPUIDLE_LATENCY_NONE takes it away
 * @privileged: the reserve may be used
 *
 * Context: process, within an RCU read section; cil_hints_lock is held and the
 * probes are attached. If the task is new here, see cil_hint_settle().
 * Return: 1 if the task had no hint at all, or has no request of its own any
 * more; else 0 or
 * * -ESRCH - it is exiting
 * * -EDQUOT - its user has too many
 * * -ENOSPC - there are too many
 * * -ENOMEM
 */
int cil_hint_set(struct task_struct *task, const struct cred *cred,
		 const struct cil_request *request, bool privileged)
{
	struct cil_grant grant = {
		.request = *request,
		.owner = cil_owner_of(cred),
		.expected_ns = SLEEP_UNKNOWN,
		.what = CIL_HINT_SET,
		.privileged = privileged,
	};
	int ret;

	lockdep_assert_held(&cil_hints_lock);
	if (request->kind == CPUIDLE_LATENCY_NONE)
		return hint_unset(task, false);
	grant.payer = cil_user_charge(request->flags & CPUIDLE_LATENCY_KEEP ?
				      current_cred() : cred);
	if (!grant.payer)
		return -ENOMEM;
	ret = hint_grant(task, &grant);
	if (ret < 0)
		return ret;
	/*
	 * It may have passed its exit tracepoint before the hint was there.
	 * Exiting is marked before that tracepoint, so either the mark is seen
	 * here or the hint is seen there.
	 */
	smp_mb();
	if (READ_ONCE(task->flags) & PF_EXITING) {
		cil_hint_drop(task, CIL_HINT_EXIT);
		return -ESRCH;
	}
	/* Likewise it may have changed its user, and sleep since. */
	hint_unset(task, true);
	return ret;
}

static void hint_set_cpu(struct cil_hint *hint, int cpu)
	__must_hold(&hint->lock)
{
	lockdep_assert_held(&hint->lock);
	cil_placement_in(cpu, hint->level);
	cil_placement_out(hint->cpu, hint->level);
	WRITE_ONCE(hint->cpu, cpu);
	cil_hint_note_again(hint);
	cil_hint_trace(hint, CIL_HINT_MOVE);
}

/*
 * Where no migration was seen, the task is where it says. It may have slept there
 * already, before it was placed there.
 */
static void hint_settle_cpu(struct cil_hint *hint, const struct task_struct *task,
			    u32 round, struct cpumask *wake)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&hint->lock, flags);
	if (hint->task && (!task || hint->task == task) && !hint->moved &&
	    round == READ_ONCE(settle_round) &&
	    hint->cpu != task_cpu(hint->task)) {
		hint_set_cpu(hint, task_cpu(hint->task));
		if (cil_placement_change(hint->cpu, CIL_LEVEL_NONE, hint->level) && wake)
			cpumask_set_cpu(hint->cpu, wake);
	}
	raw_spin_unlock_irqrestore(&hint->lock, flags);
}

/**
 * cil_hints_settle_round() - how often have all hints been settled?
 *
 * Context: process; cil_hints_lock is held.
 */
u32 cil_hints_settle_round(void)
{
	lockdep_assert_held(&cil_hints_lock);
	return settle_round;
}

/**
 * cil_hint_settle() - make sure of the CPU of a hint that is new
 * @task: the task
 * @round: cil_hints_settle_round() when it was set; if all hints are being
 *	settled since, that will do
 * @wake: CPUs that should decide again are added, or NULL
 *
 * The task may have migrated between the moment its CPU was read and the
 * moment the hint could be found by the probe. Such a migration runs with
 * interrupts off and is over after a grace period; one that began later was
 * seen by the probe.
 *
 * Context: process, within an RCU read section, a grace period after
 * cil_hint_set().
 */
void cil_hint_settle(struct task_struct *task, u32 round, struct cpumask *wake)
{
	struct cil_hint *hint = cil_hint_find(task);

	if (hint)
		hint_settle_cpu(hint, task, round, wake);
}

static void next_round(void)
{
	rt_mutex_lock(&cil_hints_lock);
	WRITE_ONCE(settle_round, settle_round + 1);
	rt_mutex_unlock(&cil_hints_lock);
}

/*
 * A request that waits must not settle without the marks, neither one that came
 * before they go nor one that comes meanwhile.
 */
static void unmark_moved(void)
{
	struct cil_hint *end = cil_hint_pool + CIL_HINTS_MAX;
	struct cil_hint *hint;

	next_round();
	for (hint = cil_hint_pool; hint < end; hint++) {
		raw_spin_lock_irq(&hint->lock);
		hint->moved = false;
		raw_spin_unlock_irq(&hint->lock);
	}
	next_round();
}

/* The task of a hint that was for another user; a reference is taken. Else NULL. */
static struct task_struct *stale_task_get(struct cil_hint *hint)
{
	struct task_struct *task;
	unsigned long flags;

	/* The hint goes with the lock held, and only then may the task be freed. */
	raw_spin_lock_irqsave(&hint->lock, flags);
	task = hint->task;
	if (task)
		task = cil_hint_is_theirs(hint, task) ? NULL : get_task_struct(task);
	raw_spin_unlock_irqrestore(&hint->lock, flags);
	return task;
}

static void unset_stale(struct cil_hint *hint)
{
	struct task_struct *task;

	rcu_read_lock();
	task = stale_task_get(hint);
	if (task)
		hint_unset(task, true);
	rcu_read_unlock();
	if (task)
		put_task_struct(task);
}

/**
 * cil_hints_settle_all() - make sure of the CPU and the user of all hints
 *
 * Some tasks may have migrated or changed their user unseen, but none does so any
 * more. Requests wait neither for the grace period nor for the look at all hints:
 * the lock is not held. A hint that is set meanwhile is settled by its request,
 * too, if that was too early for it.
 *
 * Context: the job; cil_hints_lock is not held, the table has been made.
 */
void cil_hints_settle_all(void)
{
	struct cil_hint *end = cil_hint_pool + CIL_HINTS_MAX;
	struct cil_hint *hint;

	unmark_moved();
	/* See cil_hint_settle(). */
	synchronize_rcu();
	for (hint = cil_hint_pool; hint < end; hint++) {
		hint_settle_cpu(hint, NULL, settle_round, NULL);
		unset_stale(hint);
		cond_resched();
	}
	/* Tasks that sleep gate where they are. */
	cil_placement_refresh();
}

/**
 * cil_hint_move() - a task goes to another CPU
 * @task: the task; it still has its old CPU
 * @cpu: where it goes
 *
 * Context: interrupts off; pi or run-queue lock held.
 */
void cil_hint_move(struct task_struct *task, int cpu)
{
	struct cil_hint *hint = cil_hint_find(task);

	if (!hint)
		return;
	raw_spin_lock(&hint->lock);
	if (hint->task == task) {
		hint->moved = true;
		if (hint->cpu != cpu)
			hint_set_cpu(hint, cpu);
	}
	raw_spin_unlock(&hint->lock);
}

/*
 * Tasks that keep a hint may be of a user who does not pay for it. They leave a
 * quarter of the payer's quota, as members of a group do.
 */
static bool charge_for_child(struct cil_hint *hint)
	__must_hold(&hint->lock)
{
	lockdep_assert_held(&hint->lock);
	if (hint->request.flags & CPUIDLE_LATENCY_KEEP)
		return cil_user_charge_member(hint->payer);
	return cil_user_charge_more(hint->payer);
}

/* The child's inheritance, with a reference on its level. False: nothing. */
static bool grant_from_parent(struct task_struct *parent,
			      const struct task_struct *child,
			      struct cil_grant *grant)
{
	struct cil_hint *hint = cil_hint_find(parent);
	bool has = false;

	if (!hint)
		return false;
	raw_spin_lock(&hint->lock);
	if (hint->task == parent && cil_hint_has_request(hint) &&
	    !(hint->request.flags & CPUIDLE_LATENCY_RESET_ON_FORK) &&
	    cil_hint_is_theirs(hint, child)) {
		has = charge_for_child(hint);
		if (!has)
			this_cpu_inc(refused);
	}
	if (has) {
		grant->request = hint->request;
		grant->owner = hint->owner;
		grant->payer = hint->payer;
		grant->expected_ns = READ_ONCE(hint->expected_ns);
		grant->what = CIL_HINT_INHERIT;
		grant->privileged = false;
		cil_level_hold(&grant->request);
	}
	raw_spin_unlock(&hint->lock);
	return has;
}

/**
 * cil_hint_inherit() - a child appears
 * @parent: the task that made it, the current one
 * @child: the child
 *
 * Context: RCU read section; the child's run-queue lock is held.
 */
void cil_hint_inherit(struct task_struct *parent, struct task_struct *child)
{
	struct cil_grant grant;

	if (!grant_from_parent(parent, child, &grant))
		return;
	if (hint_grant(child, &grant) < 0)
		this_cpu_inc(refused);
	cil_level_put(&grant.request);
}

/* The task's group has the value @group now. False: the hint is gone. */
static bool hint_update_group(struct cil_hint *hint,
			      const struct cil_group_value *group)
	__must_hold(&cil_bucket_of(hint->task)->lock)
{
	bool relaxed;
	u8 level;

	lockdep_assert_held(&cil_bucket_of(hint->task)->lock);
	raw_spin_lock(&hint->lock);
	if (!cil_hint_has_request(hint) &&
	    !(group && hint_charge_group(hint, group->payer))) {
		cil_hint_release(hint, CIL_HINT_GROUP);
		return false;
	}
	level = hint->level;
	relaxed = hint->relaxed;
	hint_resolve(hint, group);
	if (hint->level != level || hint->relaxed != relaxed)
		cil_hint_trace(hint, CIL_HINT_GROUP);
	raw_spin_unlock(&hint->lock);
	return true;
}

/* As of the process, for a thread, or of the parent. */
static u64 expected_of_kin(struct task_struct *task)
{
	const struct task_struct *kin = thread_group_leader(task) ?
					rcu_dereference(task->real_parent) :
					task->group_leader;
	const struct cil_hint *hint = cil_hint_find(kin);

	return hint ? READ_ONCE(hint->expected_ns) : SLEEP_UNKNOWN;
}

/* A task gets a hint because of its group only. */
static struct cil_hint *hint_add_member(struct cil_bucket *bucket, struct task_struct *task,
					struct cil_user *payer)
	__must_hold(&bucket->lock)
{
	struct cil_hint *hint = ERR_PTR(-EDQUOT);

	lockdep_assert_held(&bucket->lock);
	if (cil_user_charge_member(payer)) {
		hint = cil_hint_add(bucket, task, payer, expected_of_kin(task),
				    false);
		if (IS_ERR(hint))
			cil_user_uncharge(payer);
	}
	if (!IS_ERR(hint))
		return hint;
	this_cpu_inc(refused);
	return NULL;
}

static noinline void join(struct task_struct *task, const struct cgroup *cgroup,
			  const struct cil_group_value *group, u32 epoch)
{
	struct cil_bucket *bucket = cil_bucket_of(task);
	struct cil_hint *hint;

	rcu_read_lock();
	raw_spin_lock(&bucket->lock);
	hint = cil_hint_find(task);
	if (!hint && group)
		hint = hint_add_member(bucket, task, group->payer);
	if (hint && hint_update_group(hint, group)) {
		WRITE_ONCE(hint->cgroup, cgroup_id(cgroup));
		WRITE_ONCE(hint->resolved, epoch);
	}
	raw_spin_unlock(&bucket->lock);
	rcu_read_unlock();
}

/* A task without a hint: may it have one because of its group? */
static bool may_join(const struct cil_group_value *group)
{
	if (!group)
		return false;
	if (cil_user_may_charge_member(group->payer))
		return true;
	this_cpu_inc(refused);
	return false;
}

/**
 * cil_hint_join() - let a task have what its group says now
 * @task: a task that cannot migrate meanwhile; if it is exiting, it has yet to
 *	lose its hint
 * @hint: its hint, NULL if it has none
 *
 * Takes no lock unless something changes.
 *
 * Context: interrupts off.
 * Return: the hint that the task has then, or NULL.
 */
struct cil_hint *cil_hint_join(struct task_struct *task, struct cil_hint *hint)
{
	/* Before the value is looked up; pairs with cil_groups_publish(). */
	u32 epoch = smp_load_acquire(&cil_groups_epoch);
	/* Once: what is found for one cgroup does not count for another. */
	struct cgroup *cgroup = cil_group_cgroup_of(task);
	const struct cil_group_value *group;

	if (hint && cil_hint_is_resolved(hint, cgroup))
		return hint;
	group = cil_group_of_current(cgroup);
	if (!hint && !may_join(group))
		return NULL;
	join(task, cgroup, group, epoch);
	return cil_hint_find(task);
}

/**
 * cil_hint_check_owner() - take a task's request away if its user has changed
 * @task: the current task
 * @hint: its hint
 *
 * No tracepoint shows changes of credentials. A decision depends on tasks that
 * have stopped running, so it is enough to look when they do. Those that stopped
 * unseen are looked at by cil_hints_settle_all().
 *
 * Context: interrupts off.
 * Return: the hint that the task still has, or NULL.
 */
struct cil_hint *cil_hint_check_owner(struct task_struct *task,
				      struct cil_hint *hint)
{
	/* Only its own task and requests change it; the lock decides. */
	if (data_race(cil_hint_is_theirs(hint, task)))
		return hint;
	rcu_read_lock();
	hint_unset(task, true);
	rcu_read_unlock();
	return cil_hint_find(task);
}

/* Its CPU shall know if that makes a difference. */
static void hint_update_placed(struct cil_hint *hint, struct cpumask *wake)
	__must_hold(&cil_bucket_of(hint->task)->lock)
{
	int cpu = READ_ONCE(hint->cpu);
	u8 before = hint->level;
	bool smaller;

	if (!hint_update_group(hint, cil_group_of(hint->task)))
		return;
	smaller = cil_placement_change(cpu, before, hint->level);
	/* Another request may have found the change before, and wakes no CPU. */
	if (wake && (smaller || cil_placement_is_changed(cpu, hint->level)))
		cpumask_set_cpu(cpu, wake);
}

/**
 * cil_hints_resolve_all() - values of groups have changed
 * @wake: CPUs that should decide again are added, or NULL
 *
 * A hint that comes to a bucket meanwhile has the new values already: the old
 * ones were out of sight before.
 *
 * Context: process, may sleep, cil_hints_lock need not be held; the table has
 * been made.
 */
void cil_hints_resolve_all(struct cpumask *wake)
{
	struct cil_bucket *bucket;
	struct hlist_nulls_node *pos;
	struct hlist_nulls_node *next;
	struct cil_hint *hint;

	for (bucket = cil_buckets; bucket < cil_buckets + BIT(CIL_BUCKET_BITS); bucket++) {
		rcu_read_lock();
		raw_spin_lock_irq(&bucket->lock);
		for (pos = bucket->hints.first; !is_a_nulls(pos); pos = next) {
			next = pos->next;
			hint = hlist_nulls_entry(pos, struct cil_hint, node);
			hint_update_placed(hint, wake);
		}
		raw_spin_unlock_irq(&bucket->lock);
		rcu_read_unlock();
		cond_resched();
	}
}
