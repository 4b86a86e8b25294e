/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TASKS_H
#define CIL_TASKS_H

#include "hints/table.h"

struct cil_group_value;

int cil_hint_set(struct task_struct *task, const struct cil_request *own,
		 bool privileged);
u32 cil_hints_settle_round(void);
void cil_hint_settle(struct task_struct *task, u32 round);
void cil_hints_settle_all(void);
void cil_hint_inherit(struct task_struct *parent, struct task_struct *child);
void cil_hint_join(struct task_struct *task, const struct cil_group_value *group);
void cil_hint_move(struct task_struct *task, int cpu);
struct cil_hint *cil_hint_check_owner(struct task_struct *task);
void cil_hints_resolve_all(void);
u32 cil_hints_refused(void);

#endif /* CIL_TASKS_H */
