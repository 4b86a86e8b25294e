/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One CPU under menu_ng, for its test cases.
 */
#ifndef CIL_MENU_NG_BENCH_KUNIT_H
#define CIL_MENU_NG_BENCH_KUNIT_H

#include <kunit/test.h>

#include "../../kunit/include/cil_test_env.h"
#include "menu_ng.h"

#define US	CIL_NSEC_PER_USEC
#define MS	CIL_NSEC_PER_MSEC

/* A server: polling, and three states of which the second one is shallow. */
static const struct cil_machine server = {
	.tick_ns = 4 * MS,
	.state_count = 4,
	.states = {
		{ 0, 0, 0, true },
		{ 2 * US, 2 * US, 0, false },
		{ 10 * US, 20 * US, 0, false },
		{ 133 * US, 600 * US, 0, false },
	},
};

/* A machine that does not poll, with a state that pays only after a tick. */
static const struct cil_machine client = {
	.tick_ns = 4 * MS,
	.state_count = 4,
	.states = {
		{ 2 * US, 2 * US, 0, false },
		{ 85 * US, 200 * US, 0, false },
		{ 200 * US, 800 * US, 0, false },
		{ 890 * US, 5 * MS, 0, false },
	},
};

/**
 * struct fixture - one CPU under menu_ng
 * @menu: its state
 * @tunables: values, the defaults at first
 * @query: what the next decision is told
 * @decision: the last decision
 */
struct fixture {
	struct menu_ng menu;
	struct menu_ng_tunables tunables;
	struct cil_query query;
	struct cil_decision decision;
};

/**
 * menu_ng_test_init() - a CPU with its defaults, for each test
 * @test: its priv is the fixture
 *
 * Return: 0, or -1 if there is no memory.
 */
static inline int menu_ng_test_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	u32 i;

	if (!f)
		return -1;
	for (i = 0; i < menu_ng_policy.tunable_count; i++)
		((u32 *)&f->tunables)[i] = menu_ng_policy.tunables[i].def;
	f->query.latency_req_ns = CIL_TIME_MAX;
	menu_ng_policy.init(&f->menu, &server, &f->tunables);
	test->priv = f;
	return 0;
}

/**
 * learn() - add intervals to the window
 * @f: the fixture
 * @count: how many
 * @interval_us: each of them
 */
static inline void learn(struct fixture *f, u32 count, u32 interval_us)
{
	while (count--)
		menu_ng_window_add(&f->menu.window, interval_us);
}

/**
 * typical_us() - the typical interval
 * @f: the fixture
 */
static inline u32 typical_us(struct fixture *f)
{
	return menu_ng_typical_us(&f->menu.window, &f->tunables);
}

/**
 * resize() - another window
 * @f: the fixture
 * @size: intervals in it
 * @min_share: part of them that must agree, in percent
 */
static inline void resize(struct fixture *f, u32 size, u32 min_share)
{
	f->tunables.history_size = size;
	f->tunables.min_share = min_share;
	menu_ng_window_resize(&f->menu.window, size, min_share);
}

/**
 * choose_at() - choose a state
 * @f: the fixture
 * @machine: the idle states
 * @sleep_length_ns: time to the next timer
 * @delta_tick_ns: time to the next timer or tick
 *
 * Return: its number.
 */
static inline u32 choose_at(struct fixture *f, const struct cil_machine *machine,
			    s64 sleep_length_ns, s64 delta_tick_ns)
{
	cil_test_env_timer(sleep_length_ns, delta_tick_ns);
	f->query.asked = false;
	memset(&f->decision, 0xaa, sizeof(f->decision));
	menu_ng_policy.select(&f->menu, machine, &f->tunables, &f->query,
			      &f->decision);
	return f->decision.index;
}

/**
 * choose() - choose a state with the tick in half a period
 * @f: the fixture
 * @machine: the idle states
 * @sleep_length_ns: time to the next timer
 *
 * Return: its number.
 */
static inline u32 choose(struct fixture *f, const struct cil_machine *machine,
			 s64 sleep_length_ns)
{
	s64 tick_ns = machine->tick_ns / 2;

	return choose_at(f, machine, sleep_length_ns,
			 sleep_length_ns < tick_ns ? sleep_length_ns : tick_ns);
}

/**
 * wake() - an idle period is over
 * @f: the fixture
 * @machine: the idle states
 * @index: the state that was entered
 * @residency_ns: for how long
 * @tick: the tick ended it
 * @poll_limit: it polled for too long
 */
static inline void wake(struct fixture *f, const struct cil_machine *machine,
			u32 index, u64 residency_ns, bool tick, bool poll_limit)
{
	struct cil_outcome outcome = {
		.residency_ns = residency_ns,
		.index = index,
		.tick_wakeup = tick,
		.poll_time_limit = poll_limit,
	};

	menu_ng_policy.update(&f->menu, machine, &f->tunables, &outcome);
}

/**
 * newest_us() - the last interval of the window
 * @f: the fixture
 */
static inline u32 newest_us(const struct fixture *f)
{
	const struct menu_ng_window *w = &f->menu.window;

	return w->ring[(w->newest - 1) % MENU_NG_HISTORY_MAX];
}

#endif /* CIL_MENU_NG_BENCH_KUNIT_H */
