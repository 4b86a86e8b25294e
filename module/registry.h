/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_REGISTRY_H
#define CIL_REGISTRY_H

int cil_registry_add(void);
void cil_registry_remove(void);

#endif /* CIL_REGISTRY_H */
