/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TABLE_H
#define CIL_TABLE_H

#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/rculist_nulls.h>
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
struct cil_hint *cil_hint_add(struct cil_bucket *bucket, struct task_struct *task,
			      struct cil_user *payer, u64 expected_ns,
			      bool privileged);
void cil_hint_release(struct cil_hint *entry, u8 what)
	__releases(&entry->lock);
void cil_hint_set_request(struct cil_hint *hint, const struct cil_request *request);
void cil_hint_set_level(struct cil_hint *hint, u8 level);
void cil_hint_trace(const struct cil_hint *hint, u8 what);
bool cil_hint_drop(struct task_struct *task, u8 what);
void cil_hint_read_request(const struct task_struct *task, struct cil_request *request);
void cil_hints_drop_all(void);

/**
 * cil_bucket_of() - the bucket that holds the hint of a task
 * @task: the task
 *
 * Context: the table has been made.
 */
static inline struct cil_bucket *cil_bucket_of(const struct task_struct *task)
{
	return &cil_buckets[hash_ptr(task, CIL_BUCKET_BITS)];
}

/**
 * cil_hint_find() - look for the hint of a task
 * @task: the task
 *
 * The hint may go to another task at any moment, see struct cil_hint.
 *
 * Context: interrupts off, or RCU read section; the table has been made.
 * Return: the hint, NULL if the task has none.
 */
static inline struct cil_hint *cil_hint_find(const struct task_struct *task)
{
	u32 hash = hash_ptr(task, CIL_BUCKET_BITS);
	struct hlist_nulls_node *end;
	struct cil_hint *hint;

	do {
		hlist_nulls_for_each_entry_rcu(hint, end, &cil_buckets[hash].hints, node)
			if (READ_ONCE(hint->task) == task)
				return hint;
	} while (get_nulls_value(end) != hash);
	return NULL;
}

/**
 * cil_owner_of() - as whom a task runs
 * @cred: the task's real credentials
 *
 * Context: interrupts off, or RCU read section.
 */
static inline struct cil_owner cil_owner_of(const struct cred *cred)
{
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
 * Context: interrupts off, or RCU read section.
 */
static inline bool cil_hint_is_theirs(const struct cil_hint *hint,
				      const struct task_struct *task)
{
	struct cil_owner owner;

	if (!cil_hint_has_request(hint) || hint->request.flags & CPUIDLE_LATENCY_KEEP)
		return true;
	owner = cil_owner_of(rcu_dereference_raw(task->real_cred));
	return uid_eq(hint->owner.uid, owner.uid) &&
	       uid_eq(hint->owner.euid, owner.euid) &&
	       hint->owner.space == owner.space;
}

#endif /* CIL_TABLE_H */
