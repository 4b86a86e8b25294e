// SPDX-License-Identifier: GPL-2.0
/* A program that lacks most members. */
#include "tests/proofs/bpf/hostile/hostile.h"

HOSTILE_POLICY(members_policy);

#undef CIL_BPF_POLICY
#define CIL_BPF_POLICY(policy)							\
SEC("struct_ops/select")							\
u64 BPF_PROG(cil_select, struct cil_query *query, struct cil_tunable_set *set, u32 slot) \
{										\
	return cil_slot(slot)->generation;					\
}										\
SEC(".struct_ops.link")								\
struct cil_bpf_ops cil_policy_ops = {						\
	.select = (void *)cil_select,						\
	.name = policy,								\
	.abi = CIL_BPF_ABI,							\
	.cpus = CIL_CPUS,							\
	.state_size = sizeof(struct hostile),					\
}

CIL_BPF_POLICY("members");
