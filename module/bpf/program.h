/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The governor bpf, as the rest of the module sees it. A build for a kernel that
 * cannot have it (CIL_BPF=0) has the functions at the end in their place.
 */
#ifndef CIL_MODULE_BPF_PROGRAM_H
#define CIL_MODULE_BPF_PROGRAM_H

#include "state.h"

struct cil_bpf_ops;
struct work_struct;

#if CIL_BPF

/* Room for cil_bpf_name(). */
#define CIL_BPF_NAME	96

/* Slots of a CPU: of the governor in use, and of a shadow. */
#define CIL_BPF_SLOTS	2

/**
 * struct cil_bpf_counts - what happened since the module was loaded
 * @decisions: of programs
 * @fallbacks: of teo_ng in their place
 * @excesses: calls that took too long
 * @turns: most loop turns of a call
 */
struct cil_bpf_counts {
	u64 decisions;
	u64 fallbacks;
	u64 excesses;
	u32 turns;
};

/* The program that decides, NULL: teo_ng does. attach.c alone changes it. */
extern struct cil_bpf_ops __rcu *cil_bpf_active;

bool cil_bpf_decides(const struct cil_governor *governor);
void cil_bpf_name(const void *state, char *text, size_t size);
u32 cil_bpf_state_size(const void *state);
void cil_bpf_read_state(void *state, u32 offset, void *to, u32 size);

const struct cil_bpf_ops *cil_bpf_taken_off(const char **why);
void cil_bpf_begin_era(void);
bool cil_bpf_prepare(const struct cil_bpf_ops *p, u32 cpu, bool is_shadow);
void cil_bpf_sum_counts(struct cil_bpf_counts *sum);
void cil_bpf_watch(struct work_struct *off, struct work_struct *prepare);
void cil_bpf_unwatch(void);

#else

#define CIL_BPF_NAME	1

static inline bool cil_bpf_decides(const struct cil_governor *governor)
{
	return false;
}

static inline void cil_bpf_name(const void *state, char *text, size_t size)
{
	text[0] = '\0';
}

static inline u32 cil_bpf_state_size(const void *state)
{
	return 0;
}

static inline void cil_bpf_read_state(void *state, u32 offset, void *to,
				      u32 size)
{
}

#endif

#endif /* CIL_MODULE_BPF_PROGRAM_H */
