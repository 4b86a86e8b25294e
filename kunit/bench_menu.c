// SPDX-License-Identifier: GPL-2.0
/*
 * Cost of a longer window for menu_ng. Drives one history_size over streams of
 * idle periods, to be run under callgrind, which counts the instructions of
 * each call of measured_period(): tests/unit/test_menu_window.py.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../governors/menu_ng/menu_ng.h"

/* Enough to fill the largest window twice before anything is measured. */
#define WARM_UP		(2 * MENU_NG_HISTORY_MAX)

/* A server with four states; the tick of a kernel with HZ=250. */
static const struct cil_machine machine = {
	.tick_ns = 4 * CIL_NSEC_PER_MSEC,
	.state_count = 4,
	.states = {
		{ 0, 0, 0, true },
		{ 2 * CIL_NSEC_PER_USEC, 2 * CIL_NSEC_PER_USEC, 0, false },
		{ 10 * CIL_NSEC_PER_USEC, 20 * CIL_NSEC_PER_USEC, 0, false },
		{ 133 * CIL_NSEC_PER_USEC, 600 * CIL_NSEC_PER_USEC, 0, false },
	},
};

static s64 next_timer_ns;
static struct menu_ng state;
static u32 values[sizeof(struct menu_ng_tunables) / sizeof(u32)];

/* The answer of the kernel is not the governor's cost: keep it short. */
void cil_env_sleep_length(struct cil_query *query)
{
	query->sleep_length_ns = next_timer_ns;
	query->delta_tick_ns = machine.tick_ns / 2;
}

void cil_env_print(struct cil_sink *sink, const char *format, ...)
{
}

/* A generator of its own, so that every libc gives the same streams. */
static double uniform(void)
{
	static u64 x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return ldexp(x >> 11, -53);
}

static double around(double center_us, double part)
{
	return center_us * (1 + part * (2 * uniform() - 1));
}

static double exponential(double mean_us)
{
	return -mean_us * log(1 - uniform());
}

static double timer(u32 n)
{
	return around(1000, 0.01);
}

static double poisson_short(u32 n)
{
	return exponential(100);
}

static double poisson_long(u32 n)
{
	return exponential(5000);
}

static double bimodal(u32 n)
{
	return uniform() < 0.5 ? around(50, 0.1) : around(3000, 0.1);
}

static double outliers(u32 n)
{
	return uniform() < 0.15 ? exponential(8000) : around(400, 0.1);
}

static double bursts(u32 n)
{
	return n % 20 ? exponential(30) : exponential(20000);
}

static double regimes(u32 n)
{
	return n / 150 % 2 ? around(2000, 0.05) : exponential(60);
}

static double pattern(u32 n)
{
	static const double cycle_us[] = { 150, 150, 900, 40, 2500, 40 };

	return around(cycle_us[n % 6], 0.02);
}

static double jitter(u32 n)
{
	return around(500, 0.8);
}

static double rejections(u32 n)
{
	return n % 3 ? exponential(700) : -1;
}

/*
 * Costs most: the middle of the window agrees, so that there is hope, and just
 * too many intervals on either side do not, so that each is left out in vain.
 */
static double adversary(u32 n)
{
	static const u32 order[] = { 0, 1, 0, 2, 0, 1, 0 };

	switch (order[n % 7]) {
	case 1:
		return 350 * uniform();
	case 2:
		return 450 + exponential(5000);
	default:
		return around(400, 0.02);
	}
}

static const struct stream {
	const char *name;
	double (*interval_us)(u32 n);
} streams[] = {
	{ "timer", timer },
	{ "poisson-100us", poisson_short },
	{ "poisson-5ms", poisson_long },
	{ "bimodal", bimodal },
	{ "outliers", outliers },
	{ "bursts", bursts },
	{ "regimes", regimes },
	{ "pattern", pattern },
	{ "jitter", jitter },
	{ "rejections", rejections },
	{ "adversary", adversary },
};

#define STREAMS		(sizeof(streams) / sizeof(streams[0]))

/* One idle period: the decision, and learning from what became of it. */
static void period(s64 interval_ns, bool rejected)
{
	struct cil_query query = {
		.latency_req_ns = CIL_TIME_MAX,
		.rejected = rejected,
	};
	struct cil_decision decision;
	struct cil_outcome outcome = { 0 };

	menu_ng_policy.select(&state, &machine, values, &query, &decision);
	if (interval_ns < 0)
		return;
	outcome.index = decision.index;
	outcome.residency_ns = interval_ns;
	outcome.tick_wakeup = !decision.stop_tick && interval_ns > machine.tick_ns;
	if (outcome.tick_wakeup)
		outcome.residency_ns = machine.tick_ns / 2;
	menu_ng_policy.update(&state, &machine, values, &outcome);
}

noinline
void measured_period(s64 interval_ns, bool rejected)
{
	period(interval_ns, rejected);
}

static void drive(const struct stream *stream, u32 periods)
{
	bool rejected = false;
	u32 n;

	menu_ng_policy.init(&state, &machine, values);
	for (n = 0; n < WARM_UP + periods; n++) {
		double us = stream->interval_us(n);
		s64 ns = us < 0 ? -1 : (s64)(us * 1000);

		next_timer_ns = (s64)(us * 1000 + exponential(2000) * 1000);
		(n < WARM_UP ? period : measured_period)(ns, rejected);
		rejected = ns < 0;
	}
}

int main(int argc, char **argv)
{
	u32 i;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (i = 0; i < STREAMS; i++)
			puts(streams[i].name);
		return 0;
	}
	if (argc != 3) {
		fprintf(stderr,
			"usage: bench-menu HISTORY_SIZE PERIODS | --list\n");
		return 2;
	}
	for (i = 0; i < menu_ng_policy.tunable_count; i++)
		values[i] = menu_ng_policy.tunables[i].def;
	values[0] = (u32)atoi(argv[1]);

	for (i = 0; i < STREAMS; i++)
		drive(&streams[i], (u32)atoi(argv[2]));
	return 0;
}
