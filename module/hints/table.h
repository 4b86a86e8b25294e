/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TABLE_H
#define CIL_TABLE_H

#include <linux/cred.h>
#include "hints/levels.h"
#include "hints/pool.h"

#define CIL_BUCKET_BITS	12

/**
 * struct cil_bucket - hints whose tasks have the same hash
 * @lock: protects changes of the list
 * @hints: the list; looking through it takes no lock
 */
struct cil_bucket {
	raw_spinlock_t lock;
	struct hlist_nulls_head hints;
};

/* NULL before the first hint was set. */
extern struct cil_bucket *cil_buckets;

int cil_hints_make_table(void);
void cil_hints_free_table(void);
struct cil_bucket *cil_bucket_of(const struct task_struct *task);
struct cil_hint *cil_hint_find(const struct task_struct *task);
struct cil_hint *cil_hint_add(struct cil_bucket *bucket, struct task_struct *task,
			      struct cil_user *payer, u64 expected_ns,
			      bool privileged);
void cil_hint_release(struct cil_hint *hint, u8 what);
void cil_hint_set_own(struct cil_hint *hint, const struct cil_request *own);
void cil_hint_set_level(struct cil_hint *hint, u8 level);
void cil_hint_trace(const struct cil_hint *hint, u8 what);
bool cil_hint_drop(struct task_struct *task, u8 what);
void cil_hint_read_own(const struct task_struct *task, struct cil_request *own);
void cil_hints_drop_all(void);

/**
 * cil_owner_of() - as whom a task runs
 * @task: the task
 *
 * Context: RCU read section.
 */
static inline struct cil_owner cil_owner_of(const struct task_struct *task)
{
	const struct cred *cred = __task_cred(task);

	return (struct cil_owner){
		.uid = cred->uid,
		.euid = cred->euid,
		.space = cred->user_ns,
	};
}

/**
 * cil_hint_is_theirs() - is the task still the one that the request was for?
 * @hint: its hint
 * @task: the task
 *
 * Context: RCU read section.
 */
static inline bool cil_hint_is_theirs(const struct cil_hint *hint,
				      const struct task_struct *task)
{
	struct cil_owner owner;

	if (!cil_hint_has_own(hint) || hint->own.flags & CPUIDLE_LATENCY_KEEP)
		return true;
	owner = cil_owner_of(task);
	return uid_eq(hint->owner.uid, owner.uid) &&
	       uid_eq(hint->owner.euid, owner.euid) &&
	       hint->owner.space == owner.space;
}

#endif /* CIL_TABLE_H */
