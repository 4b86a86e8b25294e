/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All that the rest of the module sees of the governor bpf. A build for a
 * kernel that cannot have it (CIL_BPF=0) has the functions at the end in their
 * place.
 */
#ifndef CIL_BPF_H
#define CIL_BPF_H

#include "state.h"

#if CIL_BPF

/* Room for cil_bpf_name(). */
#define CIL_BPF_NAME	96

void cil_bpf_init(void);
void cil_bpf_exit(void);

bool cil_bpf_decides(const struct cil_governor *governor);
void cil_bpf_name(const void *state, char *text, size_t size);
u32 cil_bpf_state_size(const void *state);
void cil_bpf_read_state(const void *state, u32 offset, void *to, u32 size);

#else

#define CIL_BPF_NAME	1

static inline void cil_bpf_init(void)
{
}

static inline void cil_bpf_exit(void)
{
}

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

static inline void cil_bpf_read_state(const void *state, u32 offset, void *to,
				      u32 size)
{
}

#endif

#endif /* CIL_BPF_H */
