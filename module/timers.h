/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TIMERS_H
#define CIL_TIMERS_H

#include "state.h"

void cil_timers_read(struct cil_record *record);

#endif /* CIL_TIMERS_H */
