/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From here to unguard.h no loop can go on for ever: each turn counts, and the
 * loops of a call that has used up its turns end at once.
 */
#define for(...)							\
	for (u32 *turns_ = &cil_here()->turns; turns_; turns_ = 0)	\
		for (__VA_ARGS__)					\
			if (!cil_turn(turns_))				\
				break;					\
			else
#define while(...) while ((__VA_ARGS__) && cil_turn(&cil_here()->turns))
#pragma GCC visibility push(hidden)
