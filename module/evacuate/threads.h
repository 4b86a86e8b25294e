/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_EVACUATE_THREADS_H
#define CIL_EVACUATE_THREADS_H

#include <linux/types.h>

struct task_struct;

/**
 * struct cil_lifted - a thread whose priority is above that of a holder
 * @task: a reference, NULL if there is no such thread
 * @policy: its scheduling policy before
 * @priority: its real-time priority before
 * @nice: its nice value before
 * @changed: its priority is that of the module
 */
struct cil_lifted {
	struct task_struct *task;
	u32 policy;
	u32 priority;
	s32 nice;
	bool changed;
};

/**
 * struct cil_threads - the kernel's threads of a CPU that is evacuated
 * @injector: the thread of idle_inject, NULL if there is none
 * @softirqd: ksoftirqd
 * @timerd: ktimers, with PREEMPT_RT only
 * @rcud: rcuc, where the kernel has such threads
 *
 * The holder of the CPU alone uses it.
 */
struct cil_threads {
	struct task_struct *injector;
	struct cil_lifted softirqd;
	struct cil_lifted timerd;
	struct cil_lifted rcud;
};

bool cil_threads_get(struct cil_threads *threads, unsigned int cpu);
bool cil_threads_raise(struct cil_threads *threads);
void cil_threads_lower(struct cil_threads *threads);
void cil_threads_put(struct cil_threads *threads);
unsigned long cil_threads_injections(const struct cil_threads *threads);

#endif /* CIL_EVACUATE_THREADS_H */
