/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface between the module and a program in BPF, for both of them.
 */
#ifndef CIL_BPF_H
#define CIL_BPF_H

#include "policy.h"

struct cil_tunable_set;

/* Of struct cil_bpf_ops, and of the answers. */
#define CIL_BPF_ABI		1

/* The governor's own tunable comes before those of the program. */
#define CIL_BPF_OWN_TUNABLES	1
#define CIL_BPF_TUNABLES	(CIL_TUNABLE_MAX - CIL_BPF_OWN_TUNABLES)

/* Parts of an answer; bits 32 to 63 are the loop turns that it took. */
#define CIL_BPF_STOP_TICK	((u64)1 << 8)
#define CIL_BPF_OVER		((u64)1 << 9)

/**
 * struct cil_bpf_ops - what a program in BPF provides
 * @init: start learning afresh; the slot is the CPU times two, and one more for
 *	what the program does as a shadow
 * @select: decide. Returns an answer: the index in bits 0 to 7, then
 *	CIL_BPF_STOP_TICK, the row in bits 16 to 23, the reason in 24 to 31
 * @update: learn from the outcome. Returns an answer, of which CIL_BPF_OVER and
 *	the loop turns count
 * @read: eight bytes of the state of a slot, at an offset
 * @name: of the policy
 * @hash: of the object file, for people and traces
 * @abi: CIL_BPF_ABI
 * @cpus: CPUs that the program has memory for
 * @state_size: bytes that @read can read
 * @tunable_count: valid entries of @tunable
 * @tunable: defaults of the program's tunables
 *
 * All but @init run in the idle task with interrupts off. @init runs before them,
 * in a process.
 */
struct cil_bpf_ops {
	void (*init)(struct cil_machine *machine, struct cil_tunable_set *set,
		     u32 slot);
	u64 (*select)(struct cil_query *query, struct cil_tunable_set *set,
		      u32 slot);
	u64 (*update)(struct cil_outcome *outcome, struct cil_tunable_set *set,
		      u32 slot);
	u64 (*read)(u32 slot, u32 offset);
	char name[16];
	u64 hash;
	u32 abi;
	u32 cpus;
	u32 state_size;
	u32 tunable_count;
	u32 tunable[CIL_BPF_TUNABLES];
};

#endif /* CIL_BPF_H */
