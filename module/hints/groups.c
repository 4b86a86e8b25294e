// SPDX-License-Identifier: GPL-2.0
/*
 * Values of control groups (v2).
 *
 * A group's value holds for its tasks and all below it that have none of their
 * own, and limits the others: nobody gets more sensitive than any group above
 * says. What counts for a task is worked out from the cgroup that it is in when
 * it stops running, so tasks may move between groups as they like.
 *
 * A group is known by its id, which is never used again. No reference is held
 * on the cgroup: when it is removed, a tracepoint says so.
 */
#include <linux/cgroup.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/magic.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "hints/groups.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/pool.h"
#include "hints/probes.h"
#include "hints/table.h"
#include "hints/users.h"

/* Groups that may have a value at a time: all of them, and those of one payer. */
#define GROUPS_MAX		4096
#define GROUPS_PER_PAYER	(GROUPS_MAX / 4)

/**
 * struct cil_group - a group that has a value
 * @node: in the table
 * @next_old: the next of those that have been taken out
 * @rcu: to free it when nobody looks at it any more
 * @id: of the cgroup
 * @value: its value
 * @dead: the cgroup was removed
 */
struct cil_group {
	struct hlist_node node;
	struct cil_group *next_old;
	struct rcu_head rcu;
	u64 id;
	struct cil_group_value value;
	bool dead;
};

u32 cil_groups_used;

/* Changed with cil_hints_lock held, read under RCU. */
static DEFINE_HASHTABLE(groups, 10);

/* The dead are still in the table. */
static bool some_are_dead;

/* Bit n is set if there may be a group whose id is n modulo 64. */
static u64 filter;

static struct cil_group *find_group(u64 id)
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
 * @task: the task
 *
 * Context: RCU read section.
 */
const struct cil_group_value *cil_group_find(struct task_struct *task)
{
	const struct cil_group_value *found = NULL;
	struct cil_group *group;
	struct cgroup *cgroup;

	for (cgroup = task_dfl_cgroup(task); cgroup; cgroup = cgroup_parent(cgroup)) {
		u64 id = cgroup_id(cgroup);

		if (!(READ_ONCE(filter) & BIT_ULL(id % 64)))
			continue;
		group = find_group(id);
		if (group && (!found || cil_request_is_below(&found->request,
							     &group->value.request)))
			found = &group->value;
	}
	return found;
}

static void remake_filter(void)
{
	struct cil_group *group;
	u64 bits = 0;
	int i;

	hash_for_each(groups, i, group, node)
		bits |= BIT_ULL(group->id % 64);
	WRITE_ONCE(filter, bits);
}

/* Takes a group out; release_groups() is due when nobody sees it any more. */
static void unlink_group(struct cil_group *group, struct cil_group **old)
{
	hash_del_rcu(&group->node);
	WRITE_ONCE(cil_groups_used, cil_groups_used - 1);
	group->next_old = *old;
	*old = group;
}

static void release_groups(struct cil_group *old)
{
	while (old) {
		struct cil_group *group = old;

		old = group->next_old;
		cil_level_put(&group->value.request);
		cil_user_discharge(group->value.payer);
		kfree_rcu(group, rcu);
	}
}

/* The values have changed; afterwards no task goes by an old one. */
static void apply_change(struct cil_group *old)
{
	remake_filter();
	synchronize_rcu();
	if (cil_hint_pool)
		cil_hints_resolve_all();
	cil_placement_touch();
	release_groups(old);
	cil_probes_detach_soon();
}

static void bury_dead(void)
{
	struct cil_group *old = NULL;
	struct hlist_node *next;
	struct cil_group *group;
	int i;

	lockdep_assert_held(&cil_hints_lock);
	if (!READ_ONCE(some_are_dead))
		return;
	WRITE_ONCE(some_are_dead, false);
	/* Whoever dies from here on says so again. */
	smp_mb();
	hash_for_each_safe(groups, i, next, group, node)
		if (READ_ONCE(group->dead))
			unlink_group(group, &old);
	if (old)
		apply_change(old);
}

static void bury_groups(struct work_struct *work)
{
	mutex_lock(&cil_hints_lock);
	bury_dead();
	mutex_unlock(&cil_hints_lock);
}

static DECLARE_WORK(bury_work, bury_groups);

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
	group = find_group(cgroup_id(cgroup));
	if (group) {
		WRITE_ONCE(group->dead, true);
		/* Whoever sees this sees which one. */
		smp_store_release(&some_are_dead, true);
		schedule_work(&bury_work);
	}
	rcu_read_unlock();
}

/* Another thread may have put another file in the descriptor's place. */
static bool is_directory_of(const struct file *file, const struct cgroup *cgroup)
{
	const struct inode *inode = file_inode(file);

	return inode->i_sb->s_magic == CGROUP2_SUPER_MAGIC &&
	       inode->i_private == cgroup->kn;
}

/*
 * What a group's tasks may have is changed by whoever may write to its
 * directory, but nobody gets more sensitive by it without CAP_SYS_NICE.
 * Without a value a group limits nobody, so taking one away counts as that.
 */
static int may_change(int fd, const struct cgroup *cgroup,
		      const struct cil_group *old,
		      const struct cil_request *wanted)
{
	static const struct cil_request none = { .level = CIL_LEVEL_NONE };
	const struct cil_request *before = old ? &old->value.request : &none;
	struct file *file = fget_raw(fd);
	int ret;

	if (!file)
		return -EBADF;
	ret = is_directory_of(file, cgroup) ? file_permission(file, MAY_WRITE) :
					      -EBADF;
	fput(file);
	if (ret)
		return ret == -EBADF ? ret : -EPERM;
	if (!cil_request_is_below(wanted, before) &&
	    !(old && wanted->kind == CPUIDLE_LATENCY_NONE))
		return 0;
	return capable(CAP_SYS_NICE) ? 0 : -EACCES;
}

static u32 groups_of(const struct cil_user *payer)
{
	struct cil_group *group;
	u32 count = 0;
	int i;

	hash_for_each(groups, i, group, node)
		count += group->value.payer == payer;
	return count;
}

/* @payer is charged already; one who gets another value instead may be over. */
static int may_add(const struct cil_user *payer, const struct cil_group *old)
{
	if (old && old->value.payer == payer)
		return 0;
	if (cil_user_is_over(payer) || groups_of(payer) >= GROUPS_PER_PAYER)
		return -EDQUOT;
	return !old && cil_groups_used >= GROUPS_MAX ? -ENOSPC : 0;
}

static struct cil_group *make_group(const struct cil_group *old)
{
	struct cil_group *group = kzalloc(sizeof(*group), GFP_KERNEL);
	int ret = -ENOMEM;

	if (!group)
		return ERR_PTR(ret);
	group->value.payer = cil_user_charge(current_uid());
	if (group->value.payer) {
		ret = may_add(group->value.payer, old);
		if (!ret)
			return group;
		cil_user_discharge(group->value.payer);
	}
	kfree(group);
	return ERR_PTR(ret);
}

static int add_group(u64 id, const struct cil_request *request,
		     const struct cil_group *old)
{
	struct cil_group *group = make_group(old);

	if (IS_ERR(group))
		return PTR_ERR(group);
	group->id = id;
	group->value.request = *request;
	cil_level_hold(request);
	hash_add_rcu(groups, &group->node, id);
	WRITE_ONCE(cil_groups_used, cil_groups_used + 1);
	return 0;
}

static int change_group(struct cgroup *cgroup, struct cil_group *old,
			const struct cil_request *wanted)
{
	struct cil_group *gone = NULL;
	int ret = 0;

	if (wanted->kind != CPUIDLE_LATENCY_NONE)
		ret = add_group(cgroup_id(cgroup), wanted, old);
	if (ret || (!old && wanted->kind == CPUIDLE_LATENCY_NONE))
		return ret;
	if (old)
		unlink_group(old, &gone);
	apply_change(gone);
	/* Removed meanwhile: before the value was there nobody noticed. */
	smp_mb();
	if (!(READ_ONCE(cgroup->self.flags) & CSS_ONLINE))
		cil_group_removed(cgroup);
	return 0;
}

static int set_locked(int fd, struct cgroup *cgroup,
		      const struct cil_request *wanted)
{
	struct cil_request request = *wanted;
	struct cil_group *old;
	int ret;

	bury_dead();
	old = find_group(cgroup_id(cgroup));
	ret = may_change(fd, cgroup, old, wanted) ?: cil_probes_attach() ?:
	      cil_level_get(&request);
	if (!ret) {
		ret = change_group(cgroup, old, &request);
		cil_level_put(&request);
	}
	cil_probes_detach_soon();
	return ret;
}

/* The kernel's own release function may be called through a pointer: here only. */
static noinline void drop_cgroup(struct cgroup *cgroup)
{
	cgroup_put(cgroup);
}

/**
 * cil_group_set() - give a group a value, or take it away
 * @fd: directory of a cgroup (v2), open in any way
 * @wanted: the value; level is ignored
 *
 * Context: process, may sleep.
 * Return: 0, -EBADF (no such directory), -EPERM (it may not be written),
 * -EACCES (CAP_SYS_NICE is needed), -EDQUOT (the caller has too many),
 * -ENOSPC (too many groups or distinct limits), -EINTR, -ENOMEM, -EOPNOTSUPP.
 */
int cil_group_set(int fd, const struct cil_request *wanted)
{
	struct cgroup *cgroup = cgroup_get_from_fd(fd);
	int ret;

	if (IS_ERR(cgroup))
		return -EBADF;
	ret = mutex_lock_killable(&cil_hints_lock);
	if (!ret) {
		ret = set_locked(fd, cgroup, wanted);
		mutex_unlock(&cil_hints_lock);
	}
	drop_cgroup(cgroup);
	return ret;
}

/**
 * cil_group_get() - the value of a group
 * @fd: directory of a cgroup (v2)
 * @found: filled; CPUIDLE_LATENCY_NONE if it has none
 *
 * Context: process, may sleep.
 * Return: 0 or -EBADF.
 */
int cil_group_get(int fd, struct cil_request *found)
{
	struct cgroup *cgroup = cgroup_get_from_fd(fd);
	const struct cil_group *group;

	if (IS_ERR(cgroup))
		return -EBADF;
	*found = (struct cil_request){ .level = CIL_LEVEL_NONE };
	rcu_read_lock();
	group = find_group(cgroup_id(cgroup));
	if (group)
		*found = group->value.request;
	rcu_read_unlock();
	drop_cgroup(cgroup);
	return 0;
}

/**
 * cil_groups_count() - count the groups' requests by level, and by who pays
 * @users: counts of CIL_LEVELS + 1 levels, added to
 *
 * Context: the machine is stopped.
 */
void cil_groups_count(u32 *users)
{
	const struct cil_group *group;
	int i;

	hash_for_each(groups, i, group, node) {
		users[group->value.request.level]++;
		cil_user_found(group->value.payer);
	}
}

/**
 * cil_groups_exit() - forget all groups
 *
 * Context: process, may sleep; no probe is attached, nobody can set a value.
 */
void cil_groups_exit(void)
{
	struct cil_group *old = NULL;
	struct hlist_node *next;
	struct cil_group *group;
	int i;

	cancel_work_sync(&bury_work);
	hash_for_each_safe(groups, i, next, group, node)
		unlink_group(group, &old);
	release_groups(old);
}
