/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each CPU knows of the hinted tasks placed on it.
 */
#ifndef CIL_PLACEMENT_H
#define CIL_PLACEMENT_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include "hints/levels.h"
#include "state.h"

/**
 * struct cil_hint_cpu - the hinted tasks placed on a CPU
 * @live: bit r is set if a task of the level with rank r ran here and the CPU
 *	may be gated for it; clear bits are certain, set ones are checked
 * @relaxed_ns: when a task last ran here whose value is above 0; 0: too long
 *	ago
 * @plain_ns: when another user task last ran here while any hint was relaxed
 * @generation: of the order that @live was made with
 * @timer: wakes the CPU when its gate opens
 * @until_ns: by level: until when its tasks gate the CPU
 * @placed: by level: how many tasks are placed here; changed from any CPU
 *
 * All but @placed belongs to the CPU itself, with interrupts off.
 */
struct cil_hint_cpu {
	unsigned long live[BITS_TO_LONGS(CIL_LEVELS)];
	u64 relaxed_ns;
	u64 plain_ns;
	u32 generation;
	struct hrtimer timer;
	u64 until_ns[CIL_LEVELS];
	atomic_t placed[CIL_LEVELS + 1];
};

struct cil_hint;

extern struct cil_hint_cpu __percpu *cil_hint_cpus;

/* How many hints have a value above 0; these, and groups that have a value. */
extern atomic_t cil_placement_relaxed;
extern atomic_t cil_placement_watched;

int cil_placement_init(void);
void cil_placement_exit(void);
s64 cil_placement_find_limit(u64 now_ns);
void cil_placement_look_again(const struct cil_record *r);
void cil_placement_ran(struct task_struct *task, struct cil_hint *hint,
		       bool sleeps);
void cil_placement_relax(bool relaxed);
void cil_placement_cpu_online(int cpu);
void cil_placement_start(void);
void cil_placement_queue(int cpu, u32 level);
void cil_placement_flush(bool act);
void cil_placement_refresh(void);

/**
 * cil_placement_limit() - the limit on this CPU by the tasks placed here
 * @now_ns: local_clock()
 *
 * Context: interrupts off.
 * Return: greatest exit latency allowed in ns, CIL_HINT_NONE or
 * CIL_HINT_RELAXED.
 */
static inline s64 cil_placement_limit(u64 now_ns)
{
	const struct cil_hint_cpu *cpu = this_cpu_ptr(cil_hint_cpus);

	BUILD_BUG_ON(CIL_LEVELS != 2 * BITS_PER_LONG);
	if (likely(!(cpu->live[0] | cpu->live[1] | cpu->relaxed_ns)))
		return CIL_HINT_NONE;
	return cil_placement_find_limit(now_ns);
}

/**
 * cil_placement_watch() - there is one more reason to look at tasks without a
 *	hint, or one less
 * @more: which of both
 *
 * Context: any.
 */
static inline void cil_placement_watch(bool more)
{
	atomic_add(more ? 1 : -1, &cil_placement_watched);
}

/**
 * cil_placement_watches() - is it of interest when tasks without a hint run?
 *
 * Context: any.
 */
static inline bool cil_placement_watches(void)
{
	return atomic_read(&cil_placement_watched);
}

/**
 * cil_placement_sees_plain() - is it of interest which user tasks have no hint?
 *
 * Context: any.
 */
static inline bool cil_placement_sees_plain(void)
{
	return atomic_read(&cil_placement_relaxed);
}

/**
 * cil_placement_ran_plain() - a user task without a hint stops running here
 *
 * Context: interrupts off.
 */
static inline void cil_placement_ran_plain(void)
{
	if (cil_placement_sees_plain())
		this_cpu_ptr(cil_hint_cpus)->plain_ns = local_clock();
}

static inline void cil_placement_in(int cpu, u32 level)
{
	atomic_inc(&per_cpu_ptr(cil_hint_cpus, cpu)->placed[level]);
}

static inline void cil_placement_out(int cpu, u32 level)
{
	atomic_dec(&per_cpu_ptr(cil_hint_cpus, cpu)->placed[level]);
}

#endif /* CIL_PLACEMENT_H */
