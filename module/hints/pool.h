/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_POOL_H
#define CIL_POOL_H

#include <linux/jiffies.h>
#include <linux/list_nulls.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include "hints/levels.h"

struct cil_user;

/**
 * struct cil_owner - as whom a task runs
 * @uid: its real user id
 * @euid: its effective user id
 * @space: its user namespace; never followed, only compared. The payer of the hint
 *	is in it and holds it, so the address is of no other one. A hint that is
 *	kept, whose payer may be in another one, is not compared
 */
struct cil_owner {
	kuid_t uid;
	kuid_t euid;
	const void *space;
};

/**
 * struct cil_hint - the hint of one task
 * @node: in its bucket
 * @next_free: in the pool
 * @lock: protects the members below, against remote changes; taken with
 *	run-queue locks held
 * @task: the task, NULL in the pool; while @lock is held it is not freed
 * @payer: whom it counts for
 * @request: for the task itself
 * @owner: as whom the task was when that was asked, and the payer was found
 * @expected_ns: the longest sleep to expect of the task, of a child as of its
 *	parent
 * @stopped_ns: when it last stopped running
 * @runtime_ns: for how long it had run by then
 * @cpu: where the task is counted
 * @level: by which level, after the group has had its say
 * @resolved: groups' epoch for which that holds, 0 if for none
 * @cgroup: id of the cgroup for which that holds
 * @relaxed: after the group has had its say, the value is above 0
 * @moved: a migration was seen since the hint was set, or since all are settled
 * @sleeps: it stopped running in order to sleep
 * @ran_tick: the jiffy in which it last stopped running and was noted, one that
 *	is over if that no longer holds for @cpu and @level
 *
 * Hints are never freed while a look-up is possible, but their memory may be
 * used again for another task. So a user of a hint checks @task with @lock
 * held.
 */
struct cil_hint {
	struct hlist_nulls_node node;
	struct cil_hint *next_free;
	raw_spinlock_t lock;
	struct task_struct *task;
	struct cil_user *payer;
	struct cil_request request;
	struct cil_owner owner;
	u64 expected_ns;
	u64 stopped_ns;
	u64 runtime_ns;
	int cpu;
	u32 resolved;
	u64 cgroup;
	u8 level;
	bool relaxed;
	bool moved;
	bool sleeps;
	u32 ran_tick;
};

/* Tasks that may have a hint, or be in a group that has one, at a time. */
#define CIL_HINTS_MAX	16384

/* Of them, those for requests with CAP_SYS_NICE only. */
#define CIL_HINTS_RESERVED	1024

/* All hints, those in use have a task. NULL before the first one was set. */
extern struct cil_hint *cil_hint_pool;

u32 cil_pool_used(void);
struct cil_hint *cil_pool_get(bool privileged);
void cil_pool_put(struct cil_hint *hint);
int cil_pool_make(void);
void cil_pool_free(void);

/* The task has to be noted when it stops running, even if it was lately. */
static inline void cil_hint_note_again(struct cil_hint *hint)
{
	WRITE_ONCE(hint->ran_tick, (u32)jiffies - 1);
}

/* Was something asked for the task itself? Else its group has a value. */
static inline bool cil_hint_has_request(const struct cil_hint *hint)
{
	return hint->request.kind != CPUIDLE_LATENCY_NONE;
}

#endif /* CIL_POOL_H */
