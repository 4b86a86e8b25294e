/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_PROBES_H
#define CIL_PROBES_H

#include "hints/levels.h"

void cil_probes_init(void);
void cil_probes_exit(void);
int cil_probes_attach(const struct cil_request *request, bool privileged);
void cil_probes_update(void);
u32 cil_probes_attachments(void);
void cil_probes_detach_soon(void);
void cil_probes_detach_unused(void);
bool cil_probes_attached(void);
bool cil_probes_act(void);

#endif /* CIL_PROBES_H */
