/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Governors that decide beside the one in use, without acting. With no shadow,
 * the call from the idle path is one static branch that is not taken.
 */
#ifndef CIL_SHADOW_H
#define CIL_SHADOW_H

#include <linux/jump_label.h>
#include "state.h"

struct seq_file;

DECLARE_STATIC_KEY_FALSE(cil_shadow_on);

void cil_shadow_decide(struct cil_cpu *cpu);

int cil_shadow_set_list(char *list);
void cil_shadow_show_list(struct seq_file *seq);
int cil_shadow_show_stats(struct seq_file *seq);
void cil_shadow_restart(const struct cil_governor *governor,
			const struct cpumask *cpus);
void cil_shadow_exit(void);

/**
 * cil_shadowed() - a decision was made: the shadows make theirs
 * @cpu: the CPU
 *
 * Context: idle task, interrupts off.
 */
static inline void cil_shadowed(struct cil_cpu *cpu)
{
	if (static_branch_unlikely(&cil_shadow_on))
		cil_shadow_decide(cpu);
}

#endif /* CIL_SHADOW_H */
