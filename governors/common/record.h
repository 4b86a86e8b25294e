/* SPDX-License-Identifier: GPL-2.0 */
/**
 * DOC: numbers in recordings
 *
 * The module, the reader of traces and replay include this header, and
 * tools/cpuidle_lab/replay/abi.py reads it. So each number has one name.
 * A number in a recording never changes its meaning. All are macros, because
 * formats of events would show the name of an enumerator.
 */
#ifndef CIL_RECORD_H
#define CIL_RECORD_H

/* Equal to the kernel's CPUIDLE_STATE_MAX; the module asserts it. */
#define CIL_STATE_MAX		10

/* Bits of a decision's flags. */
#define CIL_DECISION_TICK_STOPPED	0x01	/* it was stopped already */
#define CIL_DECISION_REJECTED		0x02	/* no idle period followed the last one */
#define CIL_DECISION_ASKED		0x04	/* the governor saw the sleep length */
#define CIL_DECISION_BASE_STOP_TICK	0x08	/* answer of a kernel governor */

/* The same without the module: the governor did not ask for the timer. */
#define CIL_DECISION_INFERRED		0x10	/* it is a neighbour's, or an expiry */
#define CIL_DECISION_UNTOLD		0x20	/* nothing tells it */

/* Bit of a shadow's flags, which also have CIL_DECISION_ASKED. */
#define CIL_SHADOW_FRESH	0x01	/* it has just started to learn */

/* In place of an idle state, and of the row of a matrix. */
#define CIL_STATE_NONE		0xff
#define CIL_ROW_NONE		0xff

/* Kinds of outcome. */
#define CIL_OUTCOME_ENTERED	0
#define CIL_OUTCOME_ABORTED	1
#define CIL_OUTCOME_NONE	255	/* it is not in the recording */

/* Did the tick end the idle period? */
#define CIL_TICK_NO		0
#define CIL_TICK_YES		1
#define CIL_TICK_UNKNOWN	2

/* Flags of an interval; the reader and synth write them. */
#define CIL_INTERVAL_TIMER	0x01	/* ended by the timer that was known */
#define CIL_INTERVAL_CUT	0x02	/* its end is not in the trace */
#define CIL_INTERVAL_CONTINUED	0x04	/* the idle loop was not left before it */
#define CIL_INTERVAL_UNCERTAIN	0x08	/* ends within an exit latency */
#define CIL_INTERVAL_GAP	0x10	/* events before it were lost */
#define CIL_INTERVAL_UNKNOWN	0x20	/* timer and limits are not known */
#define CIL_INTERVAL_TICKED	0x40	/* the event that ended it came with the tick */
#define CIL_INTERVAL_OVERSLEPT	0x80	/* its own next event did not end it */

/*
 * In place of an interval's time to a timer. From CIL_TIMER_TICK down: the tick
 * had to go on, and was due in CIL_TIMER_TICK less the value.
 */
#define CIL_TIMER_UNKNOWN	(-1)
#define CIL_TIMER_TICK		(-2)

#endif /* CIL_RECORD_H */
