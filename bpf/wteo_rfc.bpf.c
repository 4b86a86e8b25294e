// SPDX-License-Identifier: GPL-2.0
/* wteo_rfc as a program in BPF. */
#include "bpf/cil_bpf.h"
#include "bpf/guard.h"
#include "governors/common/energy.c"
#include "governors/common/view.c"
#include "governors/teo_ng/teo_ng.c"
#include "governors/wteo_rfc/wteo_rfc.c"
#include "bpf/unguard.h"

CIL_BPF_POLICY("wteo_rfc", struct wteo_rfc, wteo_rfc_init, wteo_rfc_select, wteo_rfc_update,
	       sizeof(struct wteo_rfc_tunables) / sizeof(u32));
