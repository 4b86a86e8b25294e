/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests, and the levels that they are counted by.
 */
#ifndef CIL_LEVELS_H
#define CIL_LEVELS_H

#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/types.h>
#include "uapi/cpuidle_latency.h"

/* A level for each value below 0; the rest for limits in ns. */
#define CIL_LEVELS_OF_VALUES	(-CPUIDLE_LATENCY_MIN)
#define CIL_LEVELS		128

/* Of the latter, those for requests with CAP_SYS_NICE only. */
#define CIL_LEVELS_RESERVED	12

/* Tasks whose request limits nothing are counted here. */
#define CIL_LEVEL_NONE		CIL_LEVELS

/* Room for the table of values as text. */
#define CIL_MAP_TEXT		(CIL_LEVELS_OF_VALUES * 11)

/**
 * struct cil_request - the request for a task or a group
 * @limit_ns: for CPUIDLE_LATENCY_LIMIT, else 0
 * @kind: enum cpuidle_latency_kind
 * @value: for CPUIDLE_LATENCY_VALUE, else 0
 * @level: the level that stands for it, CIL_LEVEL_NONE if it limits nothing
 * @flags: CPUIDLE_LATENCY_KEEP, CPUIDLE_LATENCY_RESET_ON_FORK
 */
struct cil_request {
	s64 limit_ns;
	u8 kind;
	s8 value;
	u8 level;
	u8 flags;
};

/**
 * struct cil_order - all levels in the order of their limits
 * @rcu: to free it when no CPU can use it any more
 * @generation: tells this order from others
 * @level: by rank; rank 0 has the smallest limit
 * @rank: by level
 *
 * Never changed once published.
 */
struct cil_order {
	struct rcu_head rcu;
	u32 generation;
	u8 level[CIL_LEVELS];
	u8 rank[CIL_LEVELS];
};

extern struct cil_order __rcu *cil_order;

int cil_levels_init(void);
void cil_levels_exit(void);
int cil_level_get(struct cil_request *request, bool privileged);
void cil_level_hold(const struct cil_request *request);
void cil_level_put(const struct cil_request *request);
s64 cil_level_limit(u32 level);
u32 cil_level_users(u32 level);
bool cil_levels_can_act(void);
bool cil_request_is_below(const struct cil_request *a,
			  const struct cil_request *b);
int cil_levels_set_map(const char *text);

/**
 * cil_request_is_relaxed() - is less sensitivity asked for than by default?
 * @request: the request
 */
static inline bool cil_request_is_relaxed(const struct cil_request *request)
{
	return request->kind == CPUIDLE_LATENCY_VALUE && request->value > 0;
}

/**
 * cil_request_can_act() - can the request change a decision by itself?
 * @request: the request; its level need not be filled
 */
static inline bool cil_request_can_act(const struct cil_request *request)
{
	return request->kind == CPUIDLE_LATENCY_LIMIT || request->value;
}

#endif /* CIL_LEVELS_H */
