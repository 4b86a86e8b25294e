/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_GROUPS_H
#define CIL_GROUPS_H

#include <linux/compiler.h>
#include <linux/sched.h>
#include "hints/levels.h"

struct cgroup;
struct cil_user;

/* How many groups have a value. Changed with cil_hints_lock held. */
extern u32 cil_groups_used;

/**
 * struct cil_group_value - what a group says
 * @request: to its tasks; never changed
 * @payer: pays for the members that have a hint only because of it
 */
struct cil_group_value {
	struct cil_request request;
	struct cil_user *payer;
};

/**
 * struct cil_group - a group that has a value
 * @node: in the table
 * @next_unlinked: the next of those that have been taken out
 * @unlinked: number of this one among them
 * @rcu: to free it when no task looks at it any more
 * @id: of the cgroup
 * @value: its value
 * @dead: the cgroup was removed
 */
struct cil_group {
	struct hlist_node node;
	struct cil_group *next_unlinked;
	u64 unlinked;
	struct rcu_head rcu;
	u64 id;
	struct cil_group_value value;
	bool dead;
};

const struct cil_group_value *cil_group_find(struct task_struct *task);
struct cil_group *cil_group_lookup(u64 id);
void cil_group_insert(struct cil_group *group);
void cil_group_unlink(struct cil_group *group);
bool cil_groups_unlink_dead(void);
u64 cil_groups_publish(void);
void cil_groups_release(u64 last);
u32 cil_groups_of(const struct cil_user *payer);
void cil_group_removed(const struct cgroup *cgroup);
void cil_groups_count(u32 *users);
void cil_groups_exit(void);

/**
 * cil_group_of() - what the group of a task says
 * @task: the task
 *
 * Context: RCU read section, to the end of which the answer is valid.
 * Return: the least sensitive value of its cgroup and all above it, NULL if
 * none of them has one.
 */
static inline const struct cil_group_value *cil_group_of(struct task_struct *task)
{
	return READ_ONCE(cil_groups_used) ? cil_group_find(task) : NULL;
}

#endif /* CIL_GROUPS_H */
