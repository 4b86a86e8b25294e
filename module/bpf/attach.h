/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs in BPF come to the governor bpf and go. A build for a kernel that
 * cannot have it (CIL_BPF=0) has the functions at the end in their place.
 */
#ifndef CIL_BPF_ATTACH_H
#define CIL_BPF_ATTACH_H

#if CIL_BPF

void cil_bpf_init(void);
void cil_bpf_exit(void);

#else

static inline void cil_bpf_init(void)
{
}

static inline void cil_bpf_exit(void)
{
}

#endif

#endif /* CIL_BPF_ATTACH_H */
