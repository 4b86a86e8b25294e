// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints themselves.
 */
#define CREATE_TRACE_POINTS
#include "trace.h"

u32 cil_trace_epoch;

/**
 * cil_trace_reg() - a checkpoint is due on every CPU
 *
 * Called when decision, config or state is switched on, in whatever order.
 *
 * Context: process; the tracepoints' lock is held.
 * Return: 0.
 */
int cil_trace_reg(void)
{
	cil_trace_epoch++;
	return 0;
}

/**
 * cil_trace_unreg() - nothing is due when an event is switched off
 *
 * Context: process.
 */
void cil_trace_unreg(void)
{
}
