/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_BPF_OPS_H
#define CIL_BPF_OPS_H

#include "../governors/common/bpf.h"

int cil_bpf_ops_register(int (*replace)(struct cil_bpf_ops *now,
					struct cil_bpf_ops *old, bool attach));

#endif /* CIL_BPF_OPS_H */
