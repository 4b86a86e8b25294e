/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TASKS_H
#define CIL_TASKS_H

#include "hints/groups.h"
#include "hints/table.h"

int cil_hint_set(struct task_struct *task, const struct cred *cred,
		 const struct cil_request *request, bool privileged);
u32 cil_hints_settle_round(void);
void cil_hint_settle(struct task_struct *task, u32 round, struct cpumask *wake);
void cil_hints_settle_all(void);
void cil_hint_inherit(struct task_struct *parent, struct task_struct *child);
struct cil_hint *cil_hint_join(struct task_struct *task, struct cil_hint *hint);
void cil_hint_move(struct task_struct *task, int cpu);
struct cil_hint *cil_hint_check_owner(struct task_struct *task,
				      struct cil_hint *hint);
void cil_hints_resolve_all(struct cpumask *wake);
u32 cil_hints_refused(void);

/**
 * cil_hint_is_resolved() - does a task have what its group says?
 * @hint: its hint
 * @cgroup: that the task is in
 *
 * Context: interrupts off, or RCU read section.
 */
static inline bool cil_hint_is_resolved(const struct cil_hint *hint,
					const struct cgroup *cgroup)
{
	return READ_ONCE(hint->resolved) == READ_ONCE(cil_groups_epoch) &&
	       READ_ONCE(hint->cgroup) == cgroup_id(cgroup);
}

/**
 * cil_hint_is_noted() - would the end of a task's run change nothing?
 * @hint: its hint
 * @task: the task
 * @sleeps: it will sleep until it is woken
 *
 * True if it was noted in this jiffy already, as the same user's task and with
 * the same value of its group.
 *
 * Context: interrupts off.
 */
static inline bool cil_hint_is_noted(const struct cil_hint *hint,
				     const struct task_struct *task, bool sleeps)
{
	return READ_ONCE(hint->ran_tick) == (u32)jiffies &&
	       READ_ONCE(hint->sleeps) == sleeps &&
	       /* racy: a mismatch is compared again with the lock held */
	       data_race(cil_hint_is_theirs(hint, task)) &&
	       (!READ_ONCE(cil_groups_used) ||
		cil_hint_is_resolved(hint, cil_group_cgroup_of(task)));
}

#endif /* CIL_TASKS_H */
