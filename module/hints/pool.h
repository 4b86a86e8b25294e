/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_POOL_H
#define CIL_POOL_H

#include <linux/types.h>

struct cil_hint;

/* Tasks that may have a hint, or be in a group that has one, at a time. */
#define CIL_HINTS_MAX	16384

/* All hints, those in use have a task. NULL before the first one was set. */
extern struct cil_hint *cil_hint_pool;

u32 cil_pool_used(void);
struct cil_hint *cil_pool_take(void);
void cil_pool_give(struct cil_hint *hint);
int cil_pool_make(void);
void cil_pool_free(void);

#endif /* CIL_POOL_H */
