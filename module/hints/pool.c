// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for hints, set aside at the first one: where a task gets its hint,
 * nothing can be allocated.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "hints/pool.h"

struct cil_hint *cil_hint_pool;

/* Protects the two below. Only the birth and the death of a hint come here. */
static DEFINE_RAW_SPINLOCK(pool_lock);
static struct cil_hint *pool_free;
static u32 pool_used;

/**
 * cil_pool_used() - how many tasks have a hint, or a group that has one
 *
 * Context: any.
 */
u32 cil_pool_used(void)
{
	return READ_ONCE(pool_used);
}

/**
 * cil_pool_get() - take a hint that no task has
 * @privileged: the reserve may be used
 *
 * Context: any; with run-queue locks held.
 * Return: the hint, NULL if there is none left.
 */
struct cil_hint *cil_pool_get(bool privileged)
{
	u32 most = CIL_HINTS_MAX - (privileged ? 0 : CIL_HINTS_RESERVED);
	struct cil_hint *hint;
	unsigned long flags;

	raw_spin_lock_irqsave(&pool_lock, flags);
	hint = pool_used < most ? pool_free : NULL;
	if (hint) {
		pool_free = hint->next_free;
		WRITE_ONCE(pool_used, pool_used + 1);
	}
	raw_spin_unlock_irqrestore(&pool_lock, flags);
	return hint;
}

/**
 * cil_pool_put() - a hint is no more
 * @hint: the hint; a look-up in the table may still pass over it
 *
 * Context: any; with run-queue locks held.
 */
void cil_pool_put(struct cil_hint *hint)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&pool_lock, flags);
	hint->next_free = pool_free;
	pool_free = hint;
	WRITE_ONCE(pool_used, pool_used - 1);
	raw_spin_unlock_irqrestore(&pool_lock, flags);
}

/**
 * cil_pool_make() - set the memory aside
 *
 * Context: process, may sleep; once.
 * Return: 0 or -ENOMEM.
 */
int cil_pool_make(void)
{
	struct cil_hint *hint;

	cil_hint_pool = kvcalloc(CIL_HINTS_MAX, sizeof(*cil_hint_pool), GFP_KERNEL);
	if (!cil_hint_pool)
		return -ENOMEM;
	for (hint = cil_hint_pool; hint < cil_hint_pool + CIL_HINTS_MAX; hint++) {
		raw_spin_lock_init(&hint->lock);
		hint->next_free = pool_free;
		pool_free = hint;
	}
	return 0;
}

/**
 * cil_pool_free() - undo cil_pool_make()
 *
 * Context: process; no task has a hint, and no look-up is possible.
 */
void cil_pool_free(void)
{
	kvfree(cil_hint_pool);
	cil_hint_pool = NULL;
	pool_free = NULL;
}
