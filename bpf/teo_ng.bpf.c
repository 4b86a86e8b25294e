// SPDX-License-Identifier: GPL-2.0
/* teo_ng as a program in BPF. */
#include "bpf/cil_bpf.h"
#include "bpf/guard.h"
#include "governors/teo_ng/teo_ng.c"
#include "bpf/unguard.h"

CIL_BPF_POLICY("teo_ng", struct teo_ng, teo_ng_policy_init, teo_ng_policy_select,
	       teo_ng_policy_update, 0);
