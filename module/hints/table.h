/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TABLE_H
#define CIL_TABLE_H

#include <linux/list_nulls.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include "hints/levels.h"

struct cil_group_value;
struct cil_user;

/**
 * struct cil_hint - the hint of one task
 * @node: in its bucket
 * @next_free: in the pool
 * @lock: protects the members below, against remote changes; taken with
 *	run-queue locks held
 * @task: the task, NULL in the pool; the hint goes before the task does
 * @payer: whom it counts for
 * @own: what was asked for the task itself
 * @expected_ns: the longest sleep to expect of the task, of a child as of its
 *	parent
 * @stopped_ns: when it last stopped running
 * @runtime_ns: for how long it had run by then
 * @cpu: where the task is counted
 * @level: by which level, after the group has had its say
 * @relaxed: after the group has had its say, the value is above 0
 * @moved: a migration was seen since the hint was set, or since all are settled
 * @sleeps: it stopped running in order to sleep
 *
 * Hints are never freed while anybody may look for one: memory that is used
 * again is found under another task, so whoever finds a hint checks @task with
 * @lock held.
 */
struct cil_hint {
	struct hlist_nulls_node node;
	struct cil_hint *next_free;
	raw_spinlock_t lock;
	struct task_struct *task;
	struct cil_user *payer;
	struct cil_request own;
	u64 expected_ns;
	u64 stopped_ns;
	u64 runtime_ns;
	int cpu;
	u8 level;
	bool relaxed;
	bool moved;
	bool sleeps;
};

/* Serialises whoever sets hints, and whoever attaches or detaches the probes. */
extern struct mutex cil_hints_lock;

int cil_hints_make_table(void);
void cil_hints_free_table(void);
struct cil_hint *cil_hint_find(const struct task_struct *task);
int cil_hint_set(struct task_struct *task, const struct cil_request *own);
void cil_hint_settle(struct task_struct *task);
void cil_hints_settle_all(void);
void cil_hint_inherit(struct task_struct *parent, struct task_struct *child);
void cil_hint_join(struct task_struct *task, const struct cil_group_value *group);
void cil_hint_move(struct task_struct *task, int cpu);
bool cil_hint_drop(struct task_struct *task, u8 what);
void cil_hint_read_own(const struct task_struct *task, struct cil_request *own);
void cil_hints_resolve_all(void);
void cil_hints_drop_all(void);
u32 cil_hints_refused(void);

/* Was something asked for the task itself? Else its group has a value. */
static inline bool cil_hint_has_own(const struct cil_hint *hint)
{
	return hint->own.kind != CPUIDLE_LATENCY_NONE;
}

#endif /* CIL_TABLE_H */
