/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Weights as people read them: ten-thousandths that sum to exactly 10000.
 */
#ifndef CIL_VIEW_H
#define CIL_VIEW_H

#include "policy.h"

/* Sum of the weights of a view. */
#define CIL_VIEW_ONE	10000

/* Columns that a view may have: one for each state, and one more. */
#define CIL_VIEW_MAX	(CIL_STATE_MAX + 1)

void cil_view(const u32 *weights, u32 stride, u32 columns, u16 *view);

#endif /* CIL_VIEW_H */
