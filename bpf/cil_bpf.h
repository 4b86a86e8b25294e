/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A policy in pure C as a program in BPF. A governor's file includes this,
 * bpf/guard.h, its own sources, and ends with CIL_BPF_POLICY().
 *
 * All that the policy touches lies in an arena: the verifier wants no proof of
 * bounds there, and user space can read it.
 */
#ifndef CIL_BPF_PROGRAM_H
#define CIL_BPF_PROGRAM_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* A struct that is passed by value cannot cross a call. */
#define noinline inline __attribute__((__always_inline__))

#pragma GCC visibility push(hidden)
#include "governors/common/bpf.h"
#pragma GCC visibility pop

/* The machine's possible CPUs; `cpuidle-lab bpf` gives the number. */
#ifndef CIL_CPUS
#define CIL_CPUS		8
#endif

/* Bytes for the local arrays of a policy; cpuidle_lab/bpf/llvm_pass.py places them. */
#define CIL_FRAME		512

/* Loop turns of init, which runs once. */
#define CIL_INIT_TURNS		100000

#define cil_each(i, count) _Pragma("unroll") for (u32 i = 0; i < (count); i++)

/* As module/state.h has it; module/bpf/ops.c asserts that. */
struct cil_tunable_set {
	void *rcu[2];
	u32 generation;
	u32 value[CIL_TUNABLE_MAX];
};

extern s64 cil_bpf_sleep_length(void) __ksym;
extern s64 cil_bpf_delta_tick(void) __ksym;

/**
 * struct cil_slot - what one policy instance on one CPU is told, and answers
 * @machine: copy of the module's
 * @query: copy of the module's
 * @decision: the answer
 * @outcome: copy of the module's
 * @tunables: values in the order of the policy's table
 * @generation: of @tunables
 */
struct cil_slot {
	struct cil_machine machine;
	struct cil_query query;
	struct cil_decision decision;
	struct cil_outcome outcome;
	u32 tunables[CIL_TUNABLE_MAX];
	u32 generation;
};

/**
 * struct cil_here - what a call uses while it runs on a CPU
 * @turns: loop turns that are left
 * @frame: local arrays
 */
struct cil_here {
	u32 turns;
	u8 frame[CIL_FRAME];
};

#define CIL_SLOTS	(2 * CIL_CPUS)
#define CIL_PAGES(size)	(((size) + 4095) / 4096)

struct {
	__uint(type, 33); /* BPF_MAP_TYPE_ARENA, which Debian 12's headers lack */
	__uint(map_flags, 1 << 10); /* BPF_F_MMAPABLE */
	__uint(max_entries, 4 + CIL_PAGES(CIL_SLOTS * (sizeof(struct cil_slot) + CIL_STATE_SIZE_MAX) +
					  CIL_CPUS * sizeof(struct cil_here)));
} cil_arena SEC(".maps");

#define CIL_ARENA __attribute__((address_space(1)))

struct cil_slot CIL_ARENA cil_slots[CIL_SLOTS];
struct cil_here CIL_ARENA cil_heres[CIL_CPUS];

/* Always 0, which the verifier does not know: see llvm_pass.py. */
u64 cil_zero;

char _license[] SEC("license") = "GPL";

static __always_inline struct cil_here *cil_here(void)
{
	return (struct cil_here *)&cil_heres[bpf_get_smp_processor_id() % CIL_CPUS];
}

static __always_inline struct cil_slot *cil_slot(u32 slot)
{
	return (struct cil_slot *)&cil_slots[slot % CIL_SLOTS];
}

/* Where llvm_pass.py puts a local array. */
__attribute__((__noinline__, used)) __hidden void *cil_frame(u32 offset)
{
	return (u8 *)cil_here()->frame + offset;
}

/* True in the end, as far as the verifier knows. */
#define cil_may_not_go ({						\
	__label__ stop, on;						\
	bool stopped_ = false;						\
	asm volatile goto("may_goto %l[stop]" :::: stop);		\
	goto on;							\
stop:	stopped_ = true;						\
on:	stopped_; })

/* One turn of a loop is taken; are there any left? */
static __always_inline bool cil_turn(u32 *turns)
{
	if (!*turns || cil_may_not_go)
		return false;
	--*turns;
	return true;
}

/* Functions that a policy's environment provides. */
__hidden void cil_env_sleep_length(struct cil_query *query)
{
	query->sleep_length_ns = cil_bpf_sleep_length();
	query->delta_tick_ns = cil_bpf_delta_tick();
}

#define cil_env_print(...) ((void)0)

/* The compiler would make calls of these loops again without the barriers. */
static __attribute__((__noinline__)) void cil_set(void *to, int value, u64 size)
{
	u32 *turns = &cil_here()->turns;
	u8 *t = to;

	for (u64 i = 0; i < size && cil_turn(turns); i++) {
		t[i] = value;
		barrier();
	}
}

static __attribute__((__noinline__)) void cil_move(void *to, const void *from, u64 size)
{
	u32 *turns = &cil_here()->turns;
	const u8 *f = from;
	u8 *t = to;
	u64 i;

	if (t < f) {
		for (i = 0; i < size && cil_turn(turns); i++) {
			t[i] = f[i];
			barrier();
		}
	} else {
		for (i = size; i > 0 && cil_turn(turns); i--) {
			t[i - 1] = f[i - 1];
			barrier();
		}
	}
}

static __attribute__((__noinline__)) int cil_compare(const void *a, const void *b, u64 size)
{
	u32 *turns = &cil_here()->turns;
	const u8 *x = a, *y = b;

	for (u64 i = 0; i < size && cil_turn(turns); i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

#define memset(to, value, size)		cil_set(to, value, size)
#define memmove(to, from, size)		cil_move(to, from, size)
#define memcpy(to, from, size)		cil_move(to, from, size)
#define memcmp(a, b, size)		cil_compare(a, b, size)

/* The compiler makes a product of 128 bits of the builtin, which BPF lacks. */
#define __builtin_mul_overflow(a, b, result) ({				\
	u64 a_ = (a), b_ = (b), most_ = ~0ULL;				\
	if (b_)								\
		most_ /= b_;						\
	asm volatile("" : "+r"(most_));					\
	*(result) = a_ * b_;						\
	a_ > most_; })

static __always_inline void cil_begin(struct cil_slot *slot, struct cil_tunable_set *set)
{
	cil_here()->turns = set->value[0];
	if (slot->generation == set->generation)
		return;
	slot->generation = set->generation;
	cil_each(i, CIL_BPF_TUNABLES)
		slot->tunables[i] = set->value[CIL_BPF_OWN_TUNABLES + i];
}

static __always_inline u64 cil_end(struct cil_tunable_set *set, u64 answer)
{
	u32 left = cil_here()->turns;

	return answer | (left ? 0 : CIL_BPF_OVER) | (u64)(set->value[0] - left) << 32;
}

static __always_inline u64 cil_answer(const struct cil_decision *d)
{
	return d->index | (d->stop_tick ? CIL_BPF_STOP_TICK : 0) | (u64)d->row << 16 |
	       (u64)d->reason << 24;
}

static __always_inline void cil_copy_machine(struct cil_machine *to, struct cil_machine *from)
{
	to->tick_ns = from->tick_ns;
	to->state_count = from->state_count;
	to->cpu = from->cpu;
	cil_each(i, CIL_STATE_MAX) {
		to->states[i].exit_latency_ns = from->states[i].exit_latency_ns;
		to->states[i].target_residency_ns = from->states[i].target_residency_ns;
		to->states[i].power_uw = from->states[i].power_uw;
		to->states[i].polling = from->states[i].polling;
	}
}

static __always_inline void cil_copy_query(struct cil_query *to, struct cil_query *from)
{
	to->now_ns = from->now_ns;
	to->latency_req_ns = from->latency_req_ns;
	to->disabled = from->disabled;
	to->tick_stopped = from->tick_stopped;
	to->rejected = from->rejected;
	to->left = from->left;
	to->asked = false;
	to->sleep_length_ns = 0;
	to->delta_tick_ns = 0;
}

static __always_inline void cil_copy_outcome(struct cil_outcome *to, struct cil_outcome *from)
{
	to->now_ns = from->now_ns;
	to->residency_ns = from->residency_ns;
	to->index = from->index;
	to->tick_wakeup = from->tick_wakeup;
	to->poll_time_limit = from->poll_time_limit;
	to->left = from->left;
}

/*
 * CIL_BPF_POLICY(name, type, init, select, update, tunables) - the program
 *
 * The name of the policy, the type of its state, its three functions as in
 * struct cil_policy, and the number of its tunables.
 */
#define CIL_BPF_POLICY(policy, type, do_init, do_select, do_update, tunables_)	\
_Static_assert(sizeof(type) <= CIL_STATE_SIZE_MAX, "the state is too large");	\
type CIL_ARENA cil_states[CIL_SLOTS];						\
SEC("struct_ops/init")								\
void BPF_PROG(cil_init, struct cil_machine *machine, struct cil_tunable_set *set, u32 slot) \
{										\
	struct cil_slot *s = cil_slot(slot);					\
										\
	cil_copy_machine(&s->machine, machine);					\
	s->generation = ~set->generation;					\
	cil_begin(s, set);							\
	cil_here()->turns = CIL_INIT_TURNS;					\
	do_init((type *)&cil_states[slot % CIL_SLOTS], &s->machine, s->tunables); \
}										\
SEC("struct_ops/select")							\
u64 BPF_PROG(cil_select, struct cil_query *query, struct cil_tunable_set *set, u32 slot) \
{										\
	struct cil_slot *s = cil_slot(slot);					\
										\
	cil_begin(s, set);							\
	cil_copy_query(&s->query, query);					\
	do_select((type *)&cil_states[slot % CIL_SLOTS], &s->machine, s->tunables, \
		  &s->query, &s->decision);					\
	return cil_end(set, cil_answer(&s->decision));				\
}										\
SEC("struct_ops/update")							\
u64 BPF_PROG(cil_update, struct cil_outcome *outcome, struct cil_tunable_set *set, u32 slot) \
{										\
	struct cil_slot *s = cil_slot(slot);					\
										\
	cil_begin(s, set);							\
	cil_copy_outcome(&s->outcome, outcome);					\
	do_update((type *)&cil_states[slot % CIL_SLOTS], &s->machine, s->tunables, \
		  &s->outcome);							\
	return cil_end(set, 0);							\
}										\
SEC("struct_ops/read")								\
u64 BPF_PROG(cil_read, u32 slot, u32 offset)					\
{										\
	u8 *state = (u8 *)(type *)&cil_states[slot % CIL_SLOTS];		\
										\
	return *(u64 *)(state + offset % CIL_STATE_SIZE_MAX);			\
}										\
SEC(".struct_ops.link")								\
struct cil_bpf_ops cil_policy_ops = {						\
	.init = (void *)cil_init,						\
	.select = (void *)cil_select,						\
	.update = (void *)cil_update,						\
	.read = (void *)cil_read,						\
	.name = policy,								\
	.abi = CIL_BPF_ABI,							\
	.cpus = CIL_CPUS,							\
	.state_size = sizeof(type),						\
	.tunable_count = tunables_,						\
}

#endif /* CIL_BPF_PROGRAM_H */
