/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_EVACUATE_ORDER_H
#define CIL_EVACUATE_ORDER_H

#include "../../../governors/common/types.h"

/* The class of a hybrid machine's CPUs that goes first; in the order of the names. */
enum evacuate_first {
	EVACUATE_PERFORMANCE_FIRST,
	EVACUATE_EFFICIENT_FIRST,
};

/**
 * struct evacuate_cpu - an online CPU, as far as the order depends on it
 * @key: place in the order, smallest first; evacuate_choose() fills it in
 * @cpu: its number, at most 65535
 * @core: a number that all CPUs of its core share, at most 65535
 * @package: a number that all CPUs of its package share, at most 65535
 * @capacity: its performance; CPUs of one class have the same
 * @asked: the user named this CPU
 * @isolated: the scheduler leaves this CPU alone; it goes only if it is named
 */
struct evacuate_cpu {
	u64 key;
	u32 cpu;
	u32 core;
	u32 package;
	u32 capacity;
	bool asked;
	bool isolated;
};

/**
 * struct evacuate_wish - how many CPUs shall go
 * @boot_cpu: the CPU whose core goes last
 * @max_capacity_pct: share of the online CPUs that stays, 1 to 100
 * @cooling: number of CPUs that a thermal zone wants to be idle
 * @order: enum evacuate_first
 */
struct evacuate_wish {
	u32 boot_cpu;
	u32 max_capacity_pct;
	u32 cooling;
	u32 order;
};

u32 evacuate_left(u32 online, u32 max_capacity_pct);
u32 evacuate_choose(struct evacuate_cpu *cpus, u32 count,
		    const struct evacuate_wish *wish);

#endif /* CIL_EVACUATE_ORDER_H */
