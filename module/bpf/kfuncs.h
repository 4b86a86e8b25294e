/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_BPF_KFUNCS_H
#define CIL_BPF_KFUNCS_H

#include <linux/percpu-defs.h>
#include <linux/types.h>

struct cil_query;

/* The query of the program that decides on a CPU now; NULL elsewhere. */
DECLARE_PER_CPU(struct cil_query *, cil_bpf_asking);

/* A program that governs is called on a CPU now. */
DECLARE_PER_CPU(bool, cil_bpf_governs);

int cil_bpf_kfuncs_register(void);
bool cil_bpf_has_kfunc(const void *addr);

s64 cil_bpf_sleep_length(void);
s64 cil_bpf_delta_tick(void);
s64 cpuidle_lab_exit_latency(s32 cpu);
s64 cpuidle_lab_idle_end(s32 cpu);
s64 cpuidle_lab_latency_limit(s32 pid);

#endif /* CIL_BPF_KFUNCS_H */
