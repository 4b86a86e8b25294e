// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints themselves.
 */
#include <linux/smp.h>

#define CREATE_TRACE_POINTS
#include "trace.h"

atomic_t cil_trace_epoch = ATOMIC_INIT(0);

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
	atomic_inc(&cil_trace_epoch);
	return 0;
}

/**
 * cil_trace_checkpoint() - a checkpoint is due on every CPU, also on those that
 *	sleep
 *
 * For a reader that joins while the events are on: the kernel calls
 * cil_trace_reg() for the first reader only.
 *
 * Context: process, may sleep. Wakes all idle CPUs.
 */
void cil_trace_checkpoint(void)
{
	atomic_inc(&cil_trace_epoch);
	wake_up_all_idle_cpus();
}

/**
 * cil_trace_unreg() - nothing is due when an event is switched off
 *
 * Context: process.
 */
void cil_trace_unreg(void)
{
}
