/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_HINTS_H
#define CIL_HINTS_H

#include <linux/percpu.h>
#include <linux/spinlock.h>
#include "../governors/gate/gate.h"

struct seq_file;

/* Distinct limits that may be in use at a time. */
#define CIL_HINT_LEVELS		64

/**
 * struct cil_hint_cpu - the hinted tasks placed on a CPU
 * @lock: protects changes; the reader of @levels needs none
 * @levels: bit k is set if any has the limit of level k, an index into the
 *	limits in use, in no order
 * @count: how many for each level
 */
struct cil_hint_cpu {
	raw_spinlock_t lock;
	u64 levels;
	u32 count[CIL_HINT_LEVELS];
};

extern struct cil_hint_cpu __percpu *cil_hint_cpus;

s64 cil_hints_smallest(u64 levels);

/**
 * cil_hints_limit() - the limit on this CPU by the tasks placed here
 *
 * Context: interrupts off.
 * Return: greatest exit latency allowed in ns, or CIL_HINT_NONE.
 */
static inline s64 cil_hints_limit(void)
{
	u64 levels = READ_ONCE(this_cpu_ptr(cil_hint_cpus)->levels);

	return likely(!levels) ? CIL_HINT_NONE : cil_hints_smallest(levels);
}

int cil_hints_init(void);
void cil_hints_exit(void);
int cil_hints_set(pid_t pid, s64 limit_ns);
int cil_hints_remove(pid_t pid);
void cil_hints_show(struct seq_file *seq);

#endif /* CIL_HINTS_H */
