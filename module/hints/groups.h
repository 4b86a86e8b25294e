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
 * @payer: who pays for the members that have a hint only because of it
 */
struct cil_group_value {
	struct cil_request request;
	struct cil_user *payer;
};

const struct cil_group_value *cil_group_find(struct task_struct *task);
int cil_group_set(int fd, const struct cil_request *wanted);
int cil_group_get(int fd, struct cil_request *found);
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
