/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_RECOUNT_H
#define CIL_RECOUNT_H

struct seq_file;

int cil_recount_show(struct seq_file *seq);
void cil_hints_show(struct seq_file *seq);

#endif /* CIL_RECOUNT_H */
