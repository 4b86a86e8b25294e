// SPDX-License-Identifier: GPL-2.0
/* skeleton as a program in BPF. */
#include "bpf/cil_bpf.h"
#include "bpf/guard.h"
#include "governors/skeleton/skeleton.c"
#include "bpf/unguard.h"

CIL_BPF_POLICY("skeleton", struct skeleton, forget, select_state, learn,
	       sizeof(table) / sizeof(table[0]));
