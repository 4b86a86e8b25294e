/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_BASE_H
#define CIL_BASE_H

#include <linux/cpuidle.h>

int cil_base_init(void);
struct cpuidle_governor *cil_base_get(void);
int cil_base_print(char *text, size_t size);
int cil_base_set(const char *name);
int cil_base_set_boot(const char *name);

#endif /* CIL_BASE_H */
