/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Record that each CPU keeps of the hinted tasks placed on it.
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
 *	may be gated for it. Clear bits are certain, set ones are checked
 * @changed: bit n is set if the hint of a task that is placed here has got level
 *	n; set from any CPU
 * @relaxed_ns: when a task last ran here whose value is above 0; 0: too long
 *	ago
 * @plain_ns: the end of the jiffy in which another user task last ran here, or since when
 *	they are noted
 * @generation: of the order that @live was made with
 * @timer: wakes the CPU when its gate opens
 * @until_ns: by level: until when its tasks gate the CPU
 * @placed: by level: how many tasks are placed here; changed from any CPU
 *
 * All but @changed and @placed belongs to the CPU itself, with interrupts off, or to
 * the one that brings it online.
 */
struct cil_hint_cpu {
	unsigned long live[BITS_TO_LONGS(CIL_LEVELS)];
	unsigned long changed[BITS_TO_LONGS(CIL_LEVELS)];
	u64 relaxed_ns;
	u64 plain_ns;
	u32 generation;
	struct hrtimer timer;
	u64 until_ns[CIL_LEVELS];
	atomic_t placed[CIL_LEVELS + 1];
};

struct cil_hint;

extern struct cil_hint_cpu __percpu *cil_hint_cpus;

/*
 * The jiffy in which a user task without a hint was last noted. It is the
 * complement of that if groups had values then. So a context switch learns both
 * from one comparison. 0: the next task is to be looked at. No jiffy is 0, nor
 * the complement of another.
 */
static_assert(BITS_PER_LONG == 64);
DECLARE_PER_CPU(unsigned long, cil_placement_noted);

int cil_placement_init(void);
void cil_placement_exit(void);
void cil_placement_ran(struct task_struct *task, struct cil_hint *hint,
		       bool sleeps);
void cil_placement_note_plain(const struct task_struct *task);
void cil_placement_watch_groups(bool watch);
void cil_placement_cpu_online(int cpu);
void cil_placement_start(void);
void cil_placement_stop(void);
bool cil_placement_change(int cpu, u32 before, u32 level);
void cil_placement_wake(struct cpumask *cpus, bool act);
void cil_placement_refresh(void);

/**
 * cil_placement_ran_plain() - a task without a hint stops running here
 * @task: the task
 *
 * One note of a user task in a jiffy is enough.
 *
 * Context: interrupts off.
 */
static inline void cil_placement_ran_plain(const struct task_struct *task)
{
	unsigned long noted = this_cpu_read(cil_placement_noted);
	unsigned long now = jiffies;

	if (noted != ~now && noted != now)
		cil_placement_note_plain(task);
}

/**
 * cil_placement_is_changed() - has a CPU yet to decide for a task's new level?
 * @cpu: where the task is placed
 * @level: its level, or CIL_LEVEL_NONE
 *
 * Context: any.
 */
static inline bool cil_placement_is_changed(int cpu, u32 level)
{
	return level != CIL_LEVEL_NONE &&
	       test_bit(level, per_cpu_ptr(cil_hint_cpus, cpu)->changed);
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
