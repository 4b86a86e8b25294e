/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The governors that decide for themselves and their numbers in traces, one
 * X(name, number) for each: folder governors/<name>/, object <name>_policy. A
 * number belongs to its governor for ever. Keep governors.mk in step.
 */
#ifndef CIL_GOVERNOR_LIST_H
#define CIL_GOVERNOR_LIST_H

#define CIL_GOVERNORS(X)		\
	X(teo_ng,		0)	\
	X(menu_ng,		1)	\
	X(wteo,			2)

/*
 * The module had these once, and recordings have their numbers. Replay keeps
 * them, in tools/native/former/<name>/.
 */
#define CIL_FORMER_GOVERNORS(X)		\
	X(wteo_rfc,		3)

/* Programs in BPF decide for it. The module has it where the kernel can. */
#define CIL_BPF_GOVERNOR(X)		\
	X(bpf,			4)

/* 254 is taken, too: the reader of traces does not know the governor. */
#define CIL_GATE_NUMBER			255

#endif /* CIL_GOVERNOR_LIST_H */
