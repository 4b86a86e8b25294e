/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_EVACUATE_TOPOLOGY_H
#define CIL_EVACUATE_TOPOLOGY_H

#include "evacuate/policy/order.h"

void cil_evac_describe(unsigned int cpu, struct evacuate_cpu *described);

#endif /* CIL_EVACUATE_TOPOLOGY_H */
