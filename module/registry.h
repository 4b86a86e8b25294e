/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_REGISTRY_H
#define CIL_REGISTRY_H

#include "glue.h"

int cil_registry_add(void);
void cil_registry_remove(void);
struct cpuidle_governor *cil_registry_find(const char *name);
struct cil_governor *cil_registry_find_own(const char *name);
struct cil_governor *cil_registry_own(const struct cpuidle_governor *governor);

#endif /* CIL_REGISTRY_H */
