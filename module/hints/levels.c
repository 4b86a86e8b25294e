// SPDX-License-Identifier: GPL-2.0
/*
 * Levels: the distinct limits in use, and their order.
 *
 * A level stands for one greatest exit latency. Each value below 0 has its own,
 * whose limit the table of values says. The others are given to limits in ns as
 * they come into use. A level keeps its number while it has users, so the
 * counts of the CPUs stay valid. The order of the levels is an object of its
 * own, replaced as a whole. With it a CPU keeps its levels as bits sorted by
 * limit, and the first bit answers for all.
 */
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "hints/hints.h"
#include "hints/levels.h"
#include "hints/lock.h"

/**
 * struct cil_level - one level
 * @limit_ns: the greatest exit latency
 * @users: requests that stand for it
 */
struct cil_level {
	s64 limit_ns;
	atomic_t users;
};

/* One more for the requests that limit nothing. */
static struct cil_level levels[CIL_LEVELS + 1];

/* Requests that change decisions by themselves. */
static atomic_t acting;

/*
 * Greatest exit latency in us for the values -20 to -1. Each step allows about
 * 1.6 times as much, from nothing to more than any idle state known takes to
 * leave. So neighbouring states of every machine lie steps apart.
 */
static u32 map_us[CIL_LEVELS_OF_VALUES] = {
	0, 1, 2, 3, 5, 8, 13, 20, 35, 60,
	100, 150, 250, 400, 700, 1000, 2000, 3000, 5000, 10000,
};

struct cil_order __rcu *cil_order;

/**
 * cil_level_limit() - the limit of a level
 * @level: the level, or CIL_LEVEL_NONE
 *
 * Context: any.
 * Return: greatest exit latency in ns; S64_MAX for CIL_LEVEL_NONE.
 */
s64 cil_level_limit(u32 level)
{
	return READ_ONCE(levels[level].limit_ns);
}

/**
 * cil_level_users() - how many requests stand for a level
 * @level: the level
 *
 * Context: any.
 */
u32 cil_level_users(u32 level)
{
	return atomic_read(&levels[level].users);
}

/* Sorted by insertion: there are few, and the order hardly ever changes. */
static void sort_levels(struct cil_order *order)
{
	int i, k;

	for (i = 0; i < CIL_LEVELS; i++) {
		for (k = i; k > 0; k--) {
			if (cil_level_limit(order->level[k - 1]) <= cil_level_limit(i))
				break;
			order->level[k] = order->level[k - 1];
		}
		order->level[k] = i;
	}
	for (i = 0; i < CIL_LEVELS; i++)
		order->rank[order->level[i]] = i;
}

static struct cil_order *make_order(void)
{
	return kzalloc(sizeof(struct cil_order), GFP_KERNEL);
}

static struct cil_order *current_order(void)
{
	return rcu_dereference_protected(cil_order,
					 lockdep_is_held(&cil_hints_lock));
}

static void publish_order(struct cil_order *order)
	__must_hold(&cil_hints_lock)
{
	struct cil_order *old = current_order();

	lockdep_assert_held(&cil_hints_lock);
	sort_levels(order);
	order->generation = old ? old->generation + 1 : 1;
	rcu_assign_pointer(cil_order, order);
	if (old)
		kfree_rcu(old, rcu);
}

/*
 * A level that stands for the limit already, else a free one, else -ENOSPC. The
 * last levels are the reserve: a user who asks for a limit that one of them
 * stands for, or stood for, would hold it.
 */
static int find_level(s64 limit_ns, bool privileged)
{
	int end = CIL_LEVELS - (privileged ? 0 : CIL_LEVELS_RESERVED);
	int found = -ENOSPC;
	int i;

	for (i = CIL_LEVELS_OF_VALUES; i < end; i++) {
		if (levels[i].limit_ns == limit_ns)
			return i;
		if (found < 0 && !cil_level_users(i))
			found = i;
	}
	return found;
}

static int level_of_limit(s64 limit_ns, bool privileged)
{
	int level = find_level(limit_ns, privileged);
	struct cil_order *order;

	if (level < 0 || levels[level].limit_ns == limit_ns)
		return level;
	order = make_order();
	if (!order)
		return -ENOMEM;
	WRITE_ONCE(levels[level].limit_ns, limit_ns);
	publish_order(order);
	return level;
}

/**
 * cil_level_get() - find the level of a request, and hold it
 * @request: kind, value and limit_ns are given, level is filled
 * @privileged: the reserve may be used
 *
 * Context: process, may sleep; cil_hints_lock is held.
 * Return: 0, -ENOSPC (too many distinct limits are in use) or -ENOMEM.
 */
int cil_level_get(struct cil_request *request, bool privileged)
{
	int level = CIL_LEVEL_NONE;

	lockdep_assert_held(&cil_hints_lock);
	if (request->kind == CPUIDLE_LATENCY_LIMIT)
		level = level_of_limit(request->limit_ns, privileged);
	else if (request->kind == CPUIDLE_LATENCY_VALUE && request->value < 0)
		level = request->value - CPUIDLE_LATENCY_MIN;
	if (level < 0)
		return level;
	request->level = level;
	cil_level_hold(request);
	return 0;
}

/**
 * cil_level_hold() - one more request stands for a level
 * @request: a copy of one that is held
 *
 * Context: any.
 */
void cil_level_hold(const struct cil_request *request)
{
	atomic_inc(&levels[request->level].users);
	if (cil_request_can_act(request))
		atomic_inc(&acting);
}

/**
 * cil_level_put() - a request does not stand for its level any more
 * @request: a request that was held
 *
 * Context: any.
 */
void cil_level_put(const struct cil_request *request)
{
	atomic_dec(&levels[request->level].users);
	if (cil_request_can_act(request))
		atomic_dec(&acting);
}

/**
 * cil_levels_can_act() - does a request that is held change decisions?
 *
 * The value 0 changes none by itself: it shields a task from its group.
 *
 * Context: any.
 */
bool cil_levels_can_act(void)
{
	return atomic_read(&acting);
}

static s64 limit_of(const struct cil_request *request)
{
	if (request->kind == CPUIDLE_LATENCY_LIMIT)
		return request->limit_ns;
	if (request->value < 0)
		return cil_level_limit(request->value - CPUIDLE_LATENCY_MIN);
	return S64_MAX;
}

/**
 * cil_request_is_below() - is one request more sensitive than another?
 * @a: the one; level need not be filled
 * @b: the other; likewise
 *
 * Values compare as numbers, no request as the value 0. A limit in ns compares
 * with a value by the limit that the table gives to the value.
 *
 * Context: any.
 */
bool cil_request_is_below(const struct cil_request *a,
			  const struct cil_request *b)
{
	if (a->kind != CPUIDLE_LATENCY_LIMIT && b->kind != CPUIDLE_LATENCY_LIMIT)
		return a->value < b->value;
	return limit_of(a) < limit_of(b);
}

static void take_map(void)
{
	int i;

	for (i = 0; i < CIL_LEVELS_OF_VALUES; i++)
		WRITE_ONCE(levels[i].limit_ns, (s64)map_us[i] * NSEC_PER_USEC);
}

/* Before the module has started there is no order yet to replace. */
static int change_map(const u32 us[CIL_LEVELS_OF_VALUES])
	__must_hold(&cil_hints_lock)
{
	struct cil_order *order = NULL;

	lockdep_assert_held(&cil_hints_lock);
	if (current_order()) {
		order = make_order();
		if (!order)
			return -ENOMEM;
	}
	memcpy(map_us, us, sizeof(map_us));
	if (order) {
		take_map();
		publish_order(order);
	}
	return 0;
}

static int parse_map(const char *text, u32 us[CIL_LEVELS_OF_VALUES])
{
	char *copy = kstrdup(text, GFP_KERNEL);
	char *rest = copy;
	int n = 0;
	int ret = 0;
	char *word;

	if (!copy)
		return -ENOMEM;
	while (!ret && (word = strsep(&rest, " :\n"))) {
		if (!*word)
			continue;
		if (n == CIL_LEVELS_OF_VALUES || kstrtou32(word, 10, &us[n]) ||
		    (n && us[n] < us[n - 1]))
			ret = -EINVAL;
		n++;
	}
	if (n != CIL_LEVELS_OF_VALUES)
		ret = -EINVAL;
	kfree(copy);
	return ret;
}

/**
 * cil_levels_set_map() - change the table of values
 * @text: greatest exit latency in us for each value from -20 to -1, separated
 *	by blanks or colons, none smaller than the one before
 *
 * Holds for hints that are there already.
 *
 * Context: process, may sleep; also before cil_levels_init().
 * Return: 0, -EINVAL (nothing has changed) or -ENOMEM.
 */
int cil_levels_set_map(const char *text)
{
	u32 us[CIL_LEVELS_OF_VALUES];
	int ret = parse_map(text, us);

	if (ret)
		return ret;
	rt_mutex_lock(&cil_hints_lock);
	ret = change_map(us);
	rt_mutex_unlock(&cil_hints_lock);
	return ret;
}

/**
 * cil_hints_print_map() - the table of values, for people and to write back
 * @text: where to print
 * @size: room in @text
 *
 * Context: process, may sleep.
 * Return: number of characters.
 */
int cil_hints_print_map(char *text, size_t size)
{
	int used = 0;
	int i;

	rt_mutex_lock(&cil_hints_lock);
	for (i = 0; i < CIL_LEVELS_OF_VALUES; i++)
		used += scnprintf(text + used, size - used, "%s%u", i ? ":" : "",
				  map_us[i]);
	rt_mutex_unlock(&cil_hints_lock);
	return used;
}

/**
 * cil_levels_init() - the first order
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int cil_levels_init(void)
{
	struct cil_order *order = make_order();
	int i;

	if (!order)
		return -ENOMEM;
	rt_mutex_lock(&cil_hints_lock);
	for (i = CIL_LEVELS_OF_VALUES; i <= CIL_LEVELS; i++)
		levels[i].limit_ns = S64_MAX;
	take_map();
	publish_order(order);
	rt_mutex_unlock(&cil_hints_lock);
	return 0;
}

/**
 * cil_levels_exit() - forget the order
 *
 * Context: process; no CPU decides any more, no request can come.
 */
void cil_levels_exit(void)
{
	struct cil_order *order;

	rt_mutex_lock(&cil_hints_lock);
	order = current_order();
	RCU_INIT_POINTER(cil_order, NULL);
	rt_mutex_unlock(&cil_hints_lock);
	kfree_rcu(order, rcu);
}
