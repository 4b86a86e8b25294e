// SPDX-License-Identifier: GPL-2.0
/* wteo as a program in BPF. */
#include "bpf/cil_bpf.h"
#include "bpf/guard.h"
#include "governors/common/energy.c"
#include "governors/common/view.c"
#include "governors/teo_ng/teo_ng.c"
#include "governors/wteo/wteo.c"
#include "bpf/unguard.h"

CIL_BPF_POLICY("wteo", struct wteo, wteo_init, wteo_select, wteo_update,
	       sizeof(struct wteo_tunables) / sizeof(u32));
