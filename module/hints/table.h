/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TABLE_H
#define CIL_TABLE_H

#include "hints/levels.h"
#include "hints/pool.h"

struct cil_group_value;

int cil_hints_make_table(void);
void cil_hints_free_table(void);
struct cil_hint *cil_hint_find(const struct task_struct *task);
int cil_hint_set(struct task_struct *task, const struct cil_request *own,
		 bool privileged);
u32 cil_hints_settle_round(void);
void cil_hint_settle(struct task_struct *task, u32 round);
void cil_hints_settle_all(void);
void cil_hint_inherit(struct task_struct *parent, struct task_struct *child);
void cil_hint_join(struct task_struct *task, const struct cil_group_value *group);
void cil_hint_move(struct task_struct *task, int cpu);
struct cil_hint *cil_hint_check_owner(struct task_struct *task);
bool cil_hint_drop(struct task_struct *task, u8 what);
void cil_hint_read_own(const struct task_struct *task, struct cil_request *own);
void cil_hints_resolve_all(void);
void cil_hints_drop_all(void);
u32 cil_hints_refused(void);

#endif /* CIL_TABLE_H */
