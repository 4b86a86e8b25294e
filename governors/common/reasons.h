/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reasons of decisions: one name for each step of each governor's DOC block that
 * can decide. The trace carries the number, so a released number never changes
 * its meaning: append within a governor's range.
 *
 * CIL_REASONS(X) expands X(IDENTIFIER, number, "text shown by traces").
 */
#ifndef CIL_REASONS_H
#define CIL_REASONS_H

#define CIL_REASONS(X)							\
	X(UNKNOWN,		0,  "unknown")				\
	/* Any governor. */						\
	X(NO_STATE,		1,  "no-state-enabled")			\
	X(ONE_STATE,		2,  "one-state-enabled")		\
	X(BASE,			3,  "base-governor")			\
	X(HINT_CLAMP,		4,  "hint-clamp")			\
	X(HINT_DEEPER,		5,  "hint-deeper")			\
	/* teo_ng: 16 to 31. */						\
	X(TEO_DEEPEST,		16, "teo-deepest")			\
	X(TEO_INTERCEPTS,	17, "teo-intercepts")			\
	X(TEO_LATENCY,		18, "teo-latency-limit")		\
	X(TEO_SHALLOW,		19, "teo-shallow-timer-not-asked")	\
	X(TEO_UNSTICK,		20, "teo-tick-stopped-deeper")		\
	X(TEO_TIMER,		21, "teo-timer-limit")			\
	X(TEO_TICK,		22, "teo-tick-limit")			\
	/* menu_ng: 32 to 47. */					\
	X(MENU_STATE0,		32, "menu-state0")			\
	X(MENU_PREDICTED,	33, "menu-predicted")			\
	X(MENU_LATENCY,		34, "menu-latency-limit")		\
	X(MENU_PHYSICAL,	35, "menu-instead-of-polling")		\
	X(MENU_RETAIN,		36, "menu-shallow-keep-tick")		\
	X(MENU_UNSTICK,		37, "menu-tick-stopped")		\
	X(MENU_TICK,		38, "menu-tick-limit")			\
	/* wteo: 48 to 63. */						\
	X(WTEO_SAMPLE,		48, "wteo-sample")			\
	X(WTEO_EXPECTED,	49, "wteo-expected-cost")		\
	X(WTEO_EXPECTED_TICK,	50, "wteo-expected-cost-keep-tick")

enum cil_reason {
#define X(id, number, text) CIL_REASON_##id = number,
	CIL_REASONS(X)
#undef X
};

#endif /* CIL_REASONS_H */
