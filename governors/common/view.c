// SPDX-License-Identifier: GPL-2.0
/*
 * Weights as people read them, see view.h.
 */
#include "fixed.h"
#include "view.h"

/**
 * cil_view() - weights in ten-thousandths
 * @weights: (columns * stride) the first of every @stride numbers is a weight
 * @stride: distance of two weights, in numbers
 * @columns: number of columns, at most CIL_VIEW_MAX
 * @view: (columns) in ten-thousandths that sum to 10000; all 0 if there is no
 *	weight
 *
 * Every weight is rounded down, then the largest remainders are rounded up
 * until the sum is right.
 *
 * Context: any, but rarely: it divides.
 */
void cil_view(const u32 *weights, u32 stride, u32 columns, u16 *view)
{
	u64 remainder[CIL_VIEW_MAX];
	u32 missing = CIL_VIEW_ONE;
	u64 total = 0;
	u32 i, k;

	for (k = 0; k < columns; k++) {
		view[k] = 0;
		total += weights[k * stride];
	}
	if (!total)
		return;
	for (k = 0; k < columns; k++) {
		u64 exact = (u64)weights[k * stride] * CIL_VIEW_ONE;

		view[k] = (u16)cil_divide(exact, total);
		/* One more than the remainder, so that 0 marks "rounded up". */
		remainder[k] = exact - view[k] * total + 1;
		missing -= view[k];
	}
	/* Fewer than there are columns, as each lost less than one. */
	for (i = 0; missing && i < columns; i++, missing--) {
		u32 largest = 0;

		for (k = 1; k < columns; k++)
			if (remainder[k] > remainder[largest])
				largest = k;
		view[largest]++;
		remainder[largest] = 0;
	}
}
