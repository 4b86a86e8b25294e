/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_PROBES_H
#define CIL_PROBES_H

#include <linux/types.h>

void cil_probes_init(void);
void cil_probes_exit(void);
int cil_probes_attach(bool privileged);
u32 cil_probes_attachments(void);
void cil_probes_detach_soon(void);
void cil_probes_detach_unused(void);
bool cil_probes_attached(void);

#endif /* CIL_PROBES_H */
