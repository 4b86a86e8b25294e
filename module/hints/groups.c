// SPDX-License-Identifier: GPL-2.0
/*
 * Values of control groups (v2).
 *
 * A group's value holds for its tasks and all below it that have none of their
 * own. It limits the others: no task gets more sensitive than a group above it
 * says. The value for a task is resolved from its cgroup when it stops running.
 * That is early enough, since only tasks that sleep gate a CPU. A move of any
 * number of tasks between groups costs nothing.
 *
 * A group is known by its id, which is never used again. No reference is held
 * on the cgroup: when it is removed, a tracepoint says so.
 */
#include <linux/cgroup.h>
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "hints/groups.h"
#include "hints/job.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/users.h"

u32 cil_groups_used;
u32 cil_groups_epoch;

/* Of each CPU CIL_GROUP_FOUNDS. All modules share 8 KB of static per-CPU data. */
struct cil_group_found __percpu *cil_group_founds;

/* Changed with cil_hints_lock held, read under RCU. */
static DEFINE_HASHTABLE(groups, 10);

/* The dead are still in the table. */
static bool some_are_dead;

/* Groups that were taken out, the last one first, until no task sees them. */
static struct cil_group *unlinked;
static u64 unlinked_last;

/* Bit n is set if there may be a group whose id is n modulo 64; how many there are. */
static u64 filter;
static u32 filtered[64];

/**
 * cil_group_lookup() - the value that a cgroup has itself
 * @id: of the cgroup
 *
 * Context: RCU read section, interrupts off, or cil_hints_lock is held.
 * Return: the group, NULL if it has no value.
 */
struct cil_group *cil_group_lookup(u64 id)
{
	struct cil_group *group;

	hash_for_each_possible_rcu(groups, group, node, id,
				   lockdep_is_held(&cil_hints_lock))
		if (group->id == id && !READ_ONCE(group->dead))
			return group;
	return NULL;
}

/**
 * cil_group_find() - see cil_group_of()
 * @cgroup: of the task
 *
 * Context: RCU read section, or interrupts off.
 */
const struct cil_group_value *cil_group_find(struct cgroup *cgroup)
{
	u64 may_have = READ_ONCE(filter);
	const struct cil_group_value *found = NULL;
	struct cil_group *group;

	for (; cgroup; cgroup = cgroup_parent(cgroup)) {
		u64 id = cgroup_id(cgroup);

		if (!(may_have & BIT_ULL(id % 64)))
			continue;
		group = cil_group_lookup(id);
		if (group && (!found || cil_request_is_below(&found->request,
							     &group->value.request)))
			found = &group->value;
	}
	return found;
}

/**
 * cil_group_remember() - cil_group_find() for the task that runs here
 * @cgroup: of the task
 * @found: where this CPU remembers what is found
 * @epoch: of the groups, read before
 *
 * Context: interrupts off.
 */
const struct cil_group_value *cil_group_remember(struct cgroup *cgroup,
						 struct cil_group_found *found,
						 u32 epoch)
{
	lockdep_assert_irqs_disabled();
	found->id = cgroup_id(cgroup);
	found->epoch = epoch;
	found->value = cil_group_find(cgroup);
	return found->value;
}

/**
 * cil_group_insert() - give a cgroup a value
 * @group: the value; its request and its payer are held
 *
 * The filter lets no task see it before cil_groups_publish().
 *
 * Context: process; cil_hints_lock is held.
 */
void cil_group_insert(struct cil_group *group)
{
	lockdep_assert_held(&cil_hints_lock);
	hash_add_rcu(groups, &group->node, group->id);
	filtered[group->id % 64]++;
	cil_user_count_group(group->value.payer, 1);
	WRITE_ONCE(cil_groups_used, cil_groups_used + 1);
}

/**
 * cil_group_unlink() - take a group out
 * @group: the group; cil_groups_release() is due when no task sees it any more
 *
 * Context: process; cil_hints_lock is held.
 */
void cil_group_unlink(struct cil_group *group)
{
	lockdep_assert_held(&cil_hints_lock);
	hash_del_rcu(&group->node);
	filtered[group->id % 64]--;
	cil_user_count_group(group->value.payer, -1);
	WRITE_ONCE(cil_groups_used, cil_groups_used - 1);
	group->unlinked = ++unlinked_last;
	group->next_unlinked = unlinked;
	unlinked = group;
}

/**
 * cil_groups_unlink_dead() - take out the groups whose cgroups are gone
 *
 * Context: process; cil_hints_lock is held.
 * Return: false if there are none.
 */
bool cil_groups_unlink_dead(void)
{
	u64 before = unlinked_last;
	struct hlist_node *next;
	struct cil_group *group;
	int i;

	lockdep_assert_held(&cil_hints_lock);
	if (!READ_ONCE(some_are_dead))
		return false;
	WRITE_ONCE(some_are_dead, false);
	/* A cgroup that is removed from here on sets the mark again. */
	smp_mb();
	hash_for_each_safe(groups, i, next, group, node)
		if (READ_ONCE(group->dead))
			cil_group_unlink(group);
	return unlinked_last != before;
}

/**
 * cil_groups_publish() - let the tasks see which groups have a value
 *
 * Context: process; cil_hints_lock is held.
 * Return: for cil_groups_release(): what has been taken out by now.
 */
u64 cil_groups_publish(void)
{
	u64 bits = 0;
	int i;

	lockdep_assert_held(&cil_hints_lock);
	for (i = 0; i < ARRAY_SIZE(filtered); i++)
		bits |= (u64)!!filtered[i] << i;
	WRITE_ONCE(filter, bits);
	/* Pairs with cil_hint_join(). */
	smp_store_release(&cil_groups_epoch, cil_groups_epoch + 1);
	cil_placement_watch_groups(cil_groups_used);
	return unlinked_last;
}

/**
 * cil_groups_release() - free groups that have been taken out
 * @last: the last of them, see cil_groups_publish()
 *
 * Context: process; cil_hints_lock is held, no task goes by their values any
 * more.
 */
void cil_groups_release(u64 last)
{
	struct cil_group **place = &unlinked;
	struct cil_group *group;

	lockdep_assert_held(&cil_hints_lock);
	while ((group = *place)) {
		if (group->unlinked > last) {
			place = &group->next_unlinked;
			continue;
		}
		*place = group->next_unlinked;
		cil_level_put(&group->value.request);
		cil_user_uncharge(group->value.payer);
		kfree_rcu(group, rcu);
	}
}

/**
 * cil_group_removed() - a cgroup was removed
 * @cgroup: the cgroup
 *
 * Context: atomic, may wake a task.
 */
void cil_group_removed(const struct cgroup *cgroup)
{
	struct cil_group *group;

	rcu_read_lock();
	group = cil_group_lookup(cgroup_id(cgroup));
	if (group) {
		WRITE_ONCE(group->dead, true);
		/* Where this is seen, the group is seen to be dead. */
		smp_store_release(&some_are_dead, true);
		cil_job_queue(CIL_JOB_FLUSH, 0);
	}
	rcu_read_unlock();
}

static void count_group(const struct cil_group *group, u32 *users)
{
	users[group->value.request.level]++;
	cil_user_found(group->value.payer);
}

/**
 * cil_groups_count() - count the groups' requests by level, and by payer
 * @users: counts of CIL_LEVELS + 1 levels, added to
 *
 * Context: the machine is stopped.
 */
void cil_groups_count(u32 *users)
{
	const struct cil_group *group;
	int i;

	hash_for_each(groups, i, group, node)
		count_group(group, users);
	for (group = unlinked; group; group = group->next_unlinked)
		count_group(group, users);
}

/**
 * cil_groups_init() - get memory for what each CPU remembers of groups
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int cil_groups_init(void)
{
	cil_group_founds = __alloc_percpu(CIL_GROUP_FOUNDS * sizeof(*cil_group_founds),
					  __alignof__(*cil_group_founds));
	return cil_group_founds ? 0 : -ENOMEM;
}

/**
 * cil_groups_exit() - forget all groups
 *
 * Context: process, may sleep; no probe is attached, no value can be set.
 */
void cil_groups_exit(void)
{
	struct hlist_node *next;
	struct cil_group *group;
	int i;

	rt_mutex_lock(&cil_hints_lock);
	hash_for_each_safe(groups, i, next, group, node)
		cil_group_unlink(group);
	cil_groups_release(unlinked_last);
	rt_mutex_unlock(&cil_hints_lock);
	free_percpu(cil_group_founds);
}
