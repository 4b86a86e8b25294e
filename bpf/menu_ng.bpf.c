// SPDX-License-Identifier: GPL-2.0
/* menu_ng as a program in BPF. */
#include "bpf/cil_bpf.h"
#include "bpf/guard.h"
#include "governors/menu_ng/menu_ng_window.c"
#include "governors/menu_ng/menu_ng.c"
#include "bpf/unguard.h"

CIL_BPF_POLICY("menu_ng", struct menu_ng, menu_ng_init, menu_ng_select, menu_ng_update,
	       sizeof(struct menu_ng_tunables) / sizeof(u32));
