/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbers of what ends idle periods: trace_causes.c writes them, and
 * recording/causes.py reads them. A number never changes its meaning.
 */
#ifndef CIL_CAUSES_H
#define CIL_CAUSES_H

/*
 * Rows of the reader's table `cause`: entry and exit of an idle state, the
 * interrupts of the CPU, the end of a handler, a softirq that was raised, an
 * interrupt that is raised for another CPU, lost events. The reason of an entry is
 * 1 if a task armed or cancelled a timer since the exit before.
 */
#define CIL_CAUSE_ENTER		0
#define CIL_CAUSE_EXIT		1
#define CIL_CAUSE_TIMER		2
#define CIL_CAUSE_IPI		3
#define CIL_CAUSE_DEVICE	4
#define CIL_CAUSE_DONE		5
#define CIL_CAUSE_SOFTIRQ	6
#define CIL_CAUSE_RAISE		7
#define CIL_CAUSE_LOST		8
#define CIL_CAUSE_NONE		255	/* of an idle period: nothing tells its end */

/* Reasons of interrupts between CPUs. */
#define CIL_IPI_UNKNOWN		0
#define CIL_IPI_RESCHEDULE	1
#define CIL_IPI_CALL		2
#define CIL_IPI_TIMER		3	/* the clock's device of another CPU expired */
#define CIL_IPI_WORK		4
#define CIL_IPI_OTHER		5

/* The sleep length of an interval. */
#define CIL_SLEEP_UNKNOWN	0	/* nothing tells what ended it */
#define CIL_SLEEP_BOUNDED	1	/* it was no shorter than a time */
#define CIL_SLEEP_KNOWN		2

#endif /* CIL_CAUSES_H */
