/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tunables of evacuation.
 */
#ifndef CIL_EVACUATE_VALUES_H
#define CIL_EVACUATE_VALUES_H

#include "evacuate/policy/hold.h"

int cil_evac_parse(u32 n, const char *text, u32 *value);
void cil_evac_store(u32 n, u32 value);
u32 cil_evac_value(u32 n);
void cil_evac_tunables(struct evacuate_tunables *tunables);
int cil_evac_print(u32 n, char *text, size_t size);

#endif /* CIL_EVACUATE_VALUES_H */
