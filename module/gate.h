/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_GATE_GLUE_H
#define CIL_GATE_GLUE_H

#include "state.h"

int cil_gate_init(void);
struct cpuidle_governor *cil_gate_base(void);
int cil_gate_set_base(const char *name);
int cil_gate_boot_base(const char *name);
int cil_gate_print(char *text, size_t size);

#endif /* CIL_GATE_GLUE_H */
