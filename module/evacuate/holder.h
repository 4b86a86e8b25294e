/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_EVACUATE_HOLDER_H
#define CIL_EVACUATE_HOLDER_H

#include <linux/cpumask.h>

struct seq_file;

int cil_holders_start(void);
void cil_holders_stop(void);
void cil_holders_set(const struct cpumask *cpus);
bool cil_holder_is_wanted(unsigned int cpu);
void cil_holders_show(struct seq_file *seq);

#endif /* CIL_EVACUATE_HOLDER_H */
