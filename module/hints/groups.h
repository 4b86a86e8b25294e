/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_GROUPS_H
#define CIL_GROUPS_H

#include <linux/cgroup.h>
#include <linux/compiler.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include "hints/levels.h"

struct cgroup;
struct cil_user;

/* Number of groups that have a value. Changed with cil_hints_lock held. */
extern u32 cil_groups_used;

/*
 * Counts changes of groups' values that tasks can see. Changed with
 * cil_hints_lock held; with a new epoch the new values are seen.
 */
extern u32 cil_groups_epoch;

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

/**
 * struct cil_group_found - what the group of tasks of one cgroup says
 * @id: of the cgroup
 * @value: the value, NULL if there is none
 * @epoch: of the groups; with another one @value may be gone
 */
struct cil_group_found {
	u64 id;
	const struct cil_group_value *value;
	u32 epoch;
};

/* Cgroups for which each CPU remembers that. */
#define CIL_GROUP_FOUNDS	32

/* Its own CPU's alone, with interrupts off. */
extern struct cil_group_found __percpu *cil_group_founds;

const struct cil_group_value *cil_group_find(struct cgroup *cgroup);
const struct cil_group_value *cil_group_remember(struct cgroup *cgroup,
						 struct cil_group_found *found,
						 u32 epoch);
struct cil_group *cil_group_lookup(u64 id);
void cil_group_insert(struct cil_group *group);
void cil_group_unlink(struct cil_group *group);
bool cil_groups_unlink_dead(void);
u64 cil_groups_publish(void);
void cil_groups_release(u64 last);
void cil_group_removed(const struct cgroup *cgroup);
void cil_groups_count(u32 *users);
int cil_groups_init(void);
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
	return READ_ONCE(cil_groups_used) ? cil_group_find(task_dfl_cgroup(task)) : NULL;
}

/**
 * cil_group_cgroup_of() - the cgroup that a task is in
 * @task: the task; another CPU may move it at any moment
 *
 * Context: interrupts off, or RCU read section.
 */
static inline struct cgroup *cil_group_cgroup_of(const struct task_struct *task)
{
	return rcu_dereference_raw(task->cgroups)->dfl_cgrp;
}

static inline struct cil_group_found *cil_group_found(u64 id)
{
	return this_cpu_ptr(cil_group_founds) + id % CIL_GROUP_FOUNDS;
}

/**
 * cil_group_of_current() - what the group of the task that runs here says
 * @cgroup: that the task is in
 *
 * The CPU remembers the answer, for other tasks of the same cgroup.
 *
 * Context: interrupts off, to the end of which the answer is valid.
 */
static inline const struct cil_group_value *cil_group_of_current(struct cgroup *cgroup)
{
	/* First: an answer is not kept for longer than the values behind it. */
	u32 epoch = smp_load_acquire(&cil_groups_epoch);
	struct cil_group_found *found = cil_group_found(cgroup_id(cgroup));

	return found->id == cgroup_id(cgroup) && found->epoch == epoch ?
	       found->value : cil_group_remember(cgroup, found, epoch);
}

/**
 * cil_group_is_without() - does this CPU remember that a task's group says nothing?
 * @task: the task that runs here
 *
 * Context: interrupts off.
 */
static inline bool cil_group_is_without(const struct task_struct *task)
{
	u64 id = cgroup_id(cil_group_cgroup_of(task));
	const struct cil_group_found *found = cil_group_found(id);

	return found->id == id && !found->value &&
	       found->epoch == READ_ONCE(cil_groups_epoch);
}

#endif /* CIL_GROUPS_H */
