// SPDX-License-Identifier: GPL-2.0
/*
 * The hint of each task: a table by task_struct, filled from a pool.
 *
 * Tasks are looked up where they run, wake up or move, often with run-queue
 * locks held. So nothing is allocated, no task is woken, and a look-up takes no
 * lock. Memory is used again at once. The buckets' lists end in a mark that
 * tells one bucket from another, so a look-up notices that it changed lists.
 *
 * Lock order: bucket, then hint, then pool.
 */
#include <linux/slab.h>

#include "hints/hints.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/table.h"
#include "hints/users.h"
#include "trace.h"

struct cil_bucket *cil_buckets;

/**
 * cil_hint_trace() - trace a change of a hint
 * @hint: the hint
 * @what: CIL_HINT_*
 *
 * Context: the lock of the hint is held.
 */
void cil_hint_trace(const struct cil_hint *hint, u8 what)
{
	s64 limit_ns = hint->level == CIL_LEVEL_NONE ?
		       CIL_HINT_NONE : cil_level_limit(hint->level);

	trace_cil_hint(hint->task, limit_ns, hint->cpu, what, hint->request.kind,
		       hint->request.value);
}

/**
 * cil_hint_set_level() - let a hint count by another level
 * @hint: the hint
 * @level: the level, held by a request
 *
 * Context: the lock of the hint is held.
 */
void cil_hint_set_level(struct cil_hint *hint, u8 level)
	__must_hold(&hint->lock)
{
	lockdep_assert_held(&hint->lock);
	if (level == hint->level)
		return;
	cil_placement_in(hint->cpu, level);
	cil_placement_out(hint->cpu, hint->level);
	WRITE_ONCE(hint->level, level);
	cil_hint_note_again(hint);
}

/**
 * cil_hint_add() - give a task a hint that says nothing yet
 * @bucket: that of the task
 * @task: the task; it has no hint
 * @payer: it is charged already
 * @expected_ns: the longest sleep to expect
 * @privileged: the reserve may be used
 *
 * Context: the lock of the bucket is held.
 * Return: the hint, or ERR_PTR(-ENOSPC).
 */
struct cil_hint *cil_hint_add(struct cil_bucket *bucket, struct task_struct *task,
			      struct cil_user *payer, u64 expected_ns,
			      bool privileged)
	__must_hold(&bucket->lock)
{
	struct cil_hint *hint = cil_pool_get(privileged);

	lockdep_assert_held(&bucket->lock);
	if (!hint)
		return ERR_PTR(-ENOSPC);
	raw_spin_lock(&hint->lock);
	hint->payer = payer;
	hint->request = (struct cil_request){ .level = CIL_LEVEL_NONE };
	hint->expected_ns = expected_ns;
	hint->sleeps = false;
	hint->level = CIL_LEVEL_NONE;
	hint->resolved = 0;
	cil_hint_note_again(hint);
	hint->relaxed = false;
	hint->moved = false;
	hint->cpu = task_cpu(task);
	cil_placement_in(hint->cpu, CIL_LEVEL_NONE);
	WRITE_ONCE(hint->task, task);
	hlist_nulls_add_head_rcu(&hint->node, &bucket->hints);
	raw_spin_unlock(&hint->lock);
	return hint;
}

/**
 * cil_hint_set_request() - change the task's own request
 * @hint: the hint
 * @request: the request; its level is held, and is held once more
 *
 * Context: the lock of the hint is held.
 */
void cil_hint_set_request(struct cil_hint *hint, const struct cil_request *request)
	__must_hold(&hint->lock)
{
	lockdep_assert_held(&hint->lock);
	if (cil_hint_has_request(hint))
		cil_level_put(&hint->request);
	hint->request = *request;
	if (cil_hint_has_request(hint))
		cil_level_hold(request);
}

/**
 * cil_hint_release() - take the hint of a task away
 * @hint: the hint; its lock is dropped
 * @what: CIL_HINT_*, for the trace
 *
 * Context: the locks of the hint and of its bucket are held.
 */
void cil_hint_release(struct cil_hint *hint, u8 what)
	__releases(&hint->lock)
{
	lockdep_assert_held(&cil_bucket_of(hint->task)->lock);
	lockdep_assert_held(&hint->lock);
	hlist_nulls_del_rcu(&hint->node);
	cil_hint_trace(hint, what);
	cil_placement_out(hint->cpu, hint->level);
	cil_user_uncharge(hint->payer);
	if (cil_hint_has_request(hint))
		cil_level_put(&hint->request);
	WRITE_ONCE(hint->task, NULL);
	raw_spin_unlock(&hint->lock);
	cil_pool_put(hint);
}

/**
 * cil_hint_drop() - a task loses its hint
 * @task: the task
 * @what: CIL_HINT_*, for the trace
 *
 * Context: any.
 * Return: false if it had none.
 */
bool cil_hint_drop(struct task_struct *task, u8 what)
{
	struct cil_bucket *bucket = cil_bucket_of(task);
	struct cil_hint *hint;
	unsigned long flags;

	/* Most tasks that exit have none; no other task can give them one now. */
	rcu_read_lock();
	hint = cil_hint_find(task);
	rcu_read_unlock();
	if (!hint)
		return false;
	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = cil_hint_find(task);
	if (hint) {
		raw_spin_lock(&hint->lock);
		cil_hint_release(hint, what);
	}
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	return hint;
}

/**
 * cil_hint_read_request() - tell the request for a task itself
 * @task: the task
 * @request: filled; CPUIDLE_LATENCY_NONE if nothing
 *
 * Context: process, within an RCU read section.
 */
void cil_hint_read_request(const struct task_struct *task, struct cil_request *request)
{
	struct cil_hint *hint;
	unsigned long flags;

	*request = (struct cil_request){ .level = CIL_LEVEL_NONE };
	hint = READ_ONCE(cil_buckets) ? cil_hint_find(task) : NULL;
	if (!hint)
		return;
	raw_spin_lock_irqsave(&hint->lock, flags);
	if (hint->task == task && cil_hint_is_theirs(hint, task))
		*request = hint->request;
	raw_spin_unlock_irqrestore(&hint->lock, flags);
}

/**
 * cil_hints_limit_of() - the limit that counts for a task
 * @task: the task; it cannot be freed
 *
 * Takes no lock: the caller may hold those of hints, as in a trace event's
 * handler. A change that goes on meanwhile may be seen or not.
 *
 * Context: any, within an RCU read section.
 * Return: greatest exit latency in ns, CIL_HINT_NONE or CIL_HINT_RELAXED.
 */
s64 cil_hints_limit_of(const struct task_struct *task)
{
	const struct cil_hint *hint = READ_ONCE(cil_buckets) ? cil_hint_find(task) : NULL;
	s64 limit_ns;
	u8 level;

	/* racy: a request that changes meanwhile counts as before or after */
	if (!hint || !data_race(cil_hint_is_theirs(hint, task)))
		return CIL_HINT_NONE;
	level = READ_ONCE(hint->level);
	if (level == CIL_LEVEL_NONE)
		limit_ns = READ_ONCE(hint->relaxed) ? CIL_HINT_RELAXED : CIL_HINT_NONE;
	else
		limit_ns = cil_level_limit(level);
	/* Memory that is used again is found under another task. */
	return READ_ONCE(hint->task) == task ? limit_ns : CIL_HINT_NONE;
}

/**
 * cil_hints_drop_all() - take the hints of all tasks away
 *
 * Context: process; cil_hints_lock is held.
 */
void cil_hints_drop_all(void)
{
	struct cil_bucket *bucket;
	struct cil_hint *hint;

	lockdep_assert_held(&cil_hints_lock);
	for (bucket = cil_buckets; bucket < cil_buckets + BIT(CIL_BUCKET_BITS); bucket++) {
		raw_spin_lock_irq(&bucket->lock);
		while (!hlist_nulls_empty(&bucket->hints)) {
			hint = hlist_nulls_entry(bucket->hints.first,
						 struct cil_hint, node);
			raw_spin_lock(&hint->lock);
			cil_hint_release(hint, CIL_HINT_REMOVE);
		}
		raw_spin_unlock_irq(&bucket->lock);
	}
}

/**
 * cil_hints_make_table() - memory for all hints, at the first one
 *
 * It stays until the module goes.
 *
 * Context: process, may sleep; cil_hints_lock is held, no probe is attached.
 * Return: 0 or -ENOMEM.
 */
int cil_hints_make_table(void)
{
	struct cil_bucket *buckets;
	int i;

	lockdep_assert_held(&cil_hints_lock);
	if (cil_buckets)
		return 0;
	buckets = kvcalloc(BIT(CIL_BUCKET_BITS), sizeof(*buckets), GFP_KERNEL);
	if (!buckets)
		return -ENOMEM;
	if (cil_pool_make()) {
		kvfree(buckets);
		return -ENOMEM;
	}
	for (i = 0; i < BIT(CIL_BUCKET_BITS); i++) {
		raw_spin_lock_init(&buckets[i].lock);
		INIT_HLIST_NULLS_HEAD(&buckets[i].hints, i);
	}
	/* Programs in BPF may look at any time: cil_hints_limit_of(). */
	smp_store_release(&cil_buckets, buckets);
	return 0;
}

/**
 * cil_hints_free_table() - undo cil_hints_make_table()
 *
 * Context: process; no look-up is possible any more.
 */
void cil_hints_free_table(void)
{
	cil_pool_free();
	kvfree(cil_buckets);
	cil_buckets = NULL;
}
