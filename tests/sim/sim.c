// SPDX-License-Identifier: GPL-2.0
/*
 * Closed-loop simulation of one idle CPU.
 *
 * Synthetic streams of idle intervals are played to every policy on every
 * state table. A policy that keeps the tick is woken by it and asked again, a
 * polling state gives up after its limit and the policy is asked again, so
 * what a policy decides shapes what it sees. The intervals themselves are the
 * same for all policies.
 *
 * Printed is the idle-energy regret against the oracle, which knows every
 * interval beforehand: sum of costs / sum of the oracle's costs - 1, with the
 * cost model of governors/common/energy.h. Each tick that wakes the CPU costs
 * its handler at full power on top.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/energy.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define US			1000LL
#define MS			1000000LL
#define TUNABLES_MAX		16

/* Handler of the tick with what it disturbs, at the power of state 0. */
#define TICK_HANDLER_NS		2000

/* Stopping the tick means programming the timer twice: away and back. */
#define TICK_STOP_NS		2000

/* Timers are armed by the tick code this far ahead at most. */
#define TIMER_MAX_NS		(1000 * MS)

struct table {
	const char *name;
	u32 count;
	bool poll;
	/* exit latency and target residency in us, illustrative power in mW */
	struct { s64 latency_us, residency_us; u32 power_mw; }
		states[CIL_STATE_MAX];
};

static const struct table tables[] = {
	{ "skx", 4, true, { { 0, 0, 4000 }, { 2, 2, 1700 }, { 10, 20, 1200 },
			    { 133, 600, 200 } } },
	{ "skl", 9, true, { { 0, 0, 3500 }, { 2, 2, 1300 }, { 10, 20, 1000 },
			    { 70, 100, 500 }, { 85, 200, 300 },
			    { 124, 800, 180 }, { 200, 800, 120 },
			    { 480, 5000, 70 }, { 890, 5000, 50 } } },
	{ "power9", 9, true, { { 0, 0, 5000 }, { 1, 10, 3500 }, { 2, 20, 2800 },
			       { 5, 50, 2200 }, { 10, 100, 1600 },
			       { 100, 1000, 700 }, { 200, 2000, 450 },
			       { 2000, 20000, 120 }, { 10000, 100000, 40 } } },
};

/* A stream of random numbers that does not depend on the library. */
struct rng { u64 state; };

static u64 rng_next(struct rng *r)
{
	u64 z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static double rng_unit(struct rng *r)
{
	return ((rng_next(r) >> 11) + 0.5) / 9007199254740992.0;
}

static s64 poisson(struct rng *r, s64 mean_ns)
{
	return (s64)(-log(rng_unit(r)) * mean_ns) + 1;
}

static s64 near_ns(struct rng *r, s64 mean_ns)
{
	return (s64)(mean_ns * (0.9 + 0.2 * rng_unit(r)));
}

static s64 log_uniform(struct rng *r, s64 low_ns, s64 high_ns)
{
	return (s64)(low_ns * exp(rng_unit(r) * log((double)high_ns / low_ns)));
}

/* One idle interval: the timer known beforehand, and the device that is not. */
struct period {
	s64 timer_ns;
	s64 device_ns;
	s64 busy_ns;
};

struct stream {
	const char *name;
	void (*next)(struct rng *r, u32 number, struct period *p);
};

static void timer_1ms(struct rng *r, u32 i, struct period *p)
{
	p->timer_ns = 1 * MS - p->busy_ns;
}

static void timer_10ms(struct rng *r, u32 i, struct period *p)
{
	p->timer_ns = 10 * MS - p->busy_ns;
}

static void timers_mixed(struct rng *r, u32 i, struct period *p)
{
	p->timer_ns = log_uniform(r, 50 * US, 20 * MS);
}

static void poisson_15us(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = poisson(r, 15 * US);
}

static void poisson_100us(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = poisson(r, 100 * US);
}

static void poisson_1ms(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = poisson(r, 1 * MS);
}

static void poisson_5ms(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = poisson(r, 5 * MS);
}

static void poisson_50ms(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = poisson(r, 50 * MS);
}

static void bimodal_even(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = near_ns(r, rng_unit(r) < 0.5 ? 20 * US : 5 * MS);
}

static void bimodal_rare(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = near_ns(r, rng_unit(r) < 0.9 ? 30 * US : 20 * MS);
}

static void bursts(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = i % 21 ? poisson(r, 50 * US) : poisson(r, 30 * MS);
}

static void regimes(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = poisson(r, i / 500 % 2 ? 50 * US : 8 * MS);
}

static void regimes_quick(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = poisson(r, i / 60 % 2 ? 200 * US : 3 * MS);
}

static void alternating(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = near_ns(r, i % 2 ? 30 * US : 3 * MS);
}

static void pattern_of_3(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = near_ns(r, i % 3 == 2 ? 2 * MS : 50 * US);
}

static void timer_and_device(struct rng *r, u32 i, struct period *p)
{
	p->timer_ns = log_uniform(r, 200 * US, 4 * MS);
	p->device_ns = poisson(r, 2 * MS);
}

static void heavy_tail(struct rng *r, u32 i, struct period *p)
{
	p->device_ns = (s64)(10 * US / pow(rng_unit(r), 1.0 / 0.8));
}

static void two_devices(struct rng *r, u32 i, struct period *p)
{
	s64 network_ns = poisson(r, 400 * US);
	s64 disk_ns = near_ns(r, 700 * US);

	p->device_ns = rng_unit(r) < 0.3 || network_ns < disk_ns ? network_ns :
								   disk_ns;
}

static const struct stream streams[] = {
	{ "timer-1ms", timer_1ms },
	{ "timer-10ms", timer_10ms },
	{ "timers-mixed", timers_mixed },
	{ "poisson-15us", poisson_15us },
	{ "poisson-100us", poisson_100us },
	{ "poisson-1ms", poisson_1ms },
	{ "poisson-5ms", poisson_5ms },
	{ "poisson-50ms", poisson_50ms },
	{ "bimodal-even", bimodal_even },
	{ "bimodal-rare", bimodal_rare },
	{ "bursts", bursts },
	{ "regimes-500", regimes },
	{ "regimes-60", regimes_quick },
	{ "alternating", alternating },
	{ "pattern-of-3", pattern_of_3 },
	{ "timer-and-device", timer_and_device },
	{ "two-devices", two_devices },
	{ "heavy-tail", heavy_tail },
};

/* A column of the result: a policy with some of its tunables changed. */
struct contender {
	const char *name;
	const struct cil_policy *policy;
	const char *tunables;
};

static const struct contender contenders[] = {
	{ "teo_ng", &teo_ng_policy, "" },
	{ "menu_ng", &menu_ng_policy, "" },
	{ "wteo-off", &wteo_policy, "selection=0" },
	{ "wteo-sample", &wteo_policy, "selection=1" },
	{ "wteo-nxn", &wteo_policy, "row_context=0" },
	{ "wteo", &wteo_policy, "" },
};

#define FIXED ARRAY_SIZE(contenders)

/*
 * The best fixed choice in hindsight: one state with the tick stopped or kept,
 * made shallower only where the next timer is too near. For a stream whose
 * intervals follow one law it is about what a policy that knows the law, and
 * decides once for each interval, can reach.
 */
static void fixed_init(void *state, const struct cil_machine *machine,
		       const void *tunables)
{
	memcpy(state, tunables, 2 * sizeof(u32));
}

static void fixed_select(void *state, const struct cil_machine *machine,
			 const void *tunables, struct cil_query *query,
			 struct cil_decision *decision)
{
	const u32 *choice = state;
	s64 timer_ns = cil_sleep_length(query);
	u32 k = choice[0];

	if (!choice[1] && !query->tick_stopped)
		timer_ns = query->delta_tick_ns;
	while (k && machine->states[k].target_residency_ns > timer_ns)
		k--;
	decision->index = (u8)k;
	decision->stop_tick = choice[1] && !machine->states[k].polling;
}

static void fixed_update(void *state, const struct cil_machine *machine,
			 const void *tunables, const struct cil_outcome *outcome)
{
}

static const struct cil_tunable fixed_tunables[] = {
	{ .name = "state" },
	{ .name = "stop_tick" },
};

static const struct cil_policy fixed_policy = {
	.name = "fixed",
	.state_size = 2 * sizeof(u32),
	.tunables = fixed_tunables,
	.tunable_count = ARRAY_SIZE(fixed_tunables),
	.init = fixed_init,
	.select = fixed_select,
	.update = fixed_update,
};

struct options {
	s64 tick_ns;
	u32 periods;
	u32 seed;
	u32 resets;
	bool powers_known;
	bool latency;
	const char *table;
	const char *stream;
	const char *policy;
	const char *tunables;
};

static struct {
	s64 sleep_length_ns, delta_tick_ns;
} next_timer;

void cil_env_sleep_length(struct cil_query *query)
{
	query->sleep_length_ns = next_timer.sleep_length_ns;
	query->delta_tick_ns = next_timer.delta_tick_ns;
}

void cil_env_print(struct cil_sink *sink, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf((FILE *)sink, format, args);
	va_end(args);
}

static void fail(const char *what, const char *name)
{
	fprintf(stderr, "sim: %s: %s\n", what, name);
	exit(2);
}

static void set_tunable(const struct cil_policy *policy, u32 *values,
			const char *text)
{
	size_t length = strcspn(text, "=");
	u32 i;

	for (i = 0; i < policy->tunable_count; i++) {
		if (strlen(policy->tunables[i].name) != length ||
		    strncmp(policy->tunables[i].name, text, length))
			continue;
		values[i] = (u32)strtoul(text + length + 1, NULL, 0);
		return;
	}
}

/* Space-separated name=value; names of other policies are skipped. */
static void set_tunables(const struct cil_policy *policy, u32 *values,
			 const char *text)
{
	while (text && *text) {
		text += strspn(text, " ");
		if (*text)
			set_tunable(policy, values, text);
		text += strcspn(text, " ");
	}
}

static void machine_init(struct cil_machine *machine, const struct table *table,
			 s64 tick_ns, bool powers_known)
{
	u32 k;

	memset(machine, 0, sizeof(*machine));
	machine->tick_ns = tick_ns;
	machine->state_count = table->count;
	for (k = 0; k < table->count; k++) {
		struct cil_state *s = &machine->states[k];

		s->exit_latency_ns = table->states[k].latency_us * US;
		s->target_residency_ns = table->states[k].residency_us * US;
		s->power_mw = powers_known ? table->states[k].power_mw : 0;
		s->polling = !k && table->poll;
	}
}

/* As the kernel polls: until the next state pays, within a tick's sixteenth. */
static s64 poll_limit(const struct cil_machine *machine)
{
	s64 most_ns = machine->tick_ns / 16;
	u32 k;

	for (k = 1; k < machine->state_count; k++) {
		s64 pays_ns = machine->states[k].target_residency_ns;

		if (pays_ns >= 10 * US)
			return pays_ns < most_ns ? pays_ns : most_ns;
	}
	return most_ns;
}

#define LATENCY_BINS 100000

struct run {
	const struct cil_machine *machine;	/* as the policy sees it */
	const struct cil_machine *truth;
	const struct cil_energy *energy;
	const struct cil_policy *policy;
	void *state;
	u32 tunables[TUNABLES_MAX];
	u64 now_ns;
	double cost, oracle;
	double latency_sum;
	u64 decisions, periods;
	u32 *latency_us;
};

static double cost_of(const struct run *run, u32 k, double duration_ns)
{
	return run->energy->entry[k] +
	       (double)run->energy->power[k] * duration_ns;
}

static double oracle_cost(const struct run *run, s64 duration_ns)
{
	double least = INFINITY;
	u32 k;

	for (k = 0; k < run->truth->state_count; k++)
		least = fmin(least, cost_of(run, k, duration_ns));
	return least;
}

/* The worst case is the worst case: half of it on average, by a hash. */
static s64 exit_delay(const struct run *run, u32 k, u64 salt)
{
	struct rng r = { salt * 0xd1342543de82ef95ULL + k };

	return (s64)(rng_unit(&r) * run->truth->states[k].exit_latency_ns);
}

/* Called by these names, so that instructions.py can count what happens inside. */
__attribute__((noipa))
static void sim_select(struct run *run, struct cil_query *query,
		       struct cil_decision *decision)
{
	run->policy->select(run->state, run->machine, run->tunables, query,
			    decision);
	run->decisions++;
}

__attribute__((noipa))
static void sim_update(struct run *run, const struct cil_outcome *outcome)
{
	run->policy->update(run->state, run->machine, run->tunables, outcome);
}

/* One stay in one state. Returns whether it ended the interval. */
static bool stay(struct run *run, s64 left_ns, s64 timer_ns, bool *tick_stopped,
		 u64 salt, s64 *slept_ns)
{
	s64 tick_ns = run->truth->tick_ns - run->now_ns % run->truth->tick_ns;
	struct cil_query query = {
		.now_ns = run->now_ns,
		.latency_req_ns = CIL_TIME_MAX,
		.tick_stopped = *tick_stopped,
	};
	struct cil_outcome outcome = { 0 };
	struct cil_decision decision;
	s64 sleep_ns = left_ns;

	next_timer.sleep_length_ns = timer_ns;
	next_timer.delta_tick_ns = *tick_stopped || timer_ns < tick_ns ?
					   timer_ns : tick_ns;
	sim_select(run, &query, &decision);
	if (decision.stop_tick && !*tick_stopped) {
		*tick_stopped = true;
		run->cost += TICK_STOP_NS * (double)run->energy->power[0];
	}

	if (!*tick_stopped && tick_ns < sleep_ns) {
		sleep_ns = tick_ns;
		outcome.tick_wakeup = true;
	}
	if (run->truth->states[decision.index].polling &&
	    poll_limit(run->truth) < sleep_ns) {
		sleep_ns = poll_limit(run->truth);
		outcome.tick_wakeup = false;
		outcome.poll_time_limit = true;
	}

	*slept_ns = sleep_ns;
	run->cost += cost_of(run, decision.index, sleep_ns);
	if (outcome.tick_wakeup)
		run->cost += TICK_HANDLER_NS * (double)run->energy->power[0];
	outcome.index = decision.index;
	outcome.residency_ns = sleep_ns +
			       exit_delay(run, decision.index, salt);
	run->now_ns += outcome.residency_ns;
	if (outcome.tick_wakeup)
		run->now_ns += TICK_HANDLER_NS;

	if (sleep_ns == left_ns) {
		double us = run->truth->states[decision.index].exit_latency_ns /
			    1000.0;

		run->latency_sum += us;
		run->latency_us[us < LATENCY_BINS ? (u32)us :
						    LATENCY_BINS - 1]++;
	}
	outcome.now_ns = run->now_ns;
	/* Busy time passes before the outcome is accounted, see play(). */
	if (sleep_ns == left_ns)
		outcome.now_ns += 1;
	sim_update(run, &outcome);
	return sleep_ns == left_ns;
}

static void play_period(struct run *run, const struct period *p, u64 salt)
{
	s64 duration_ns = p->timer_ns < p->device_ns ? p->timer_ns :
						       p->device_ns;
	bool tick_stopped = false, ended = false;
	s64 left_ns = duration_ns, timer_ns = p->timer_ns, slept_ns;
	u64 began_ns = run->now_ns;

	while (!ended) {
		ended = stay(run, left_ns, timer_ns, &tick_stopped, salt++,
			     &slept_ns);
		left_ns -= slept_ns;
		timer_ns -= slept_ns;
	}
	run->oracle += oracle_cost(run, duration_ns);
	run->periods++;
	/* The same clock for every policy: exit latencies eat busy time. */
	run->now_ns = began_ns + duration_ns + p->busy_ns + 2 * MS / 10;
}

static void play(struct run *run, const struct stream *stream,
		 const struct options *options, u32 seed)
{
	struct rng r = { seed * 7919ULL + (u64)(stream - streams) };
	u32 i;

	run->now_ns = 1000 * MS + rng_next(&r) % (4 * MS);
	run->policy->init(run->state, run->machine, run->tunables);
	for (i = 0; i < options->periods; i++) {
		struct period p = {
			.timer_ns = log_uniform(&r, 20 * MS, TIMER_MAX_NS),
			.device_ns = CIL_TIME_MAX,
			.busy_ns = 5 * US + poisson(&r, 20 * US),
		};

		stream->next(&r, i, &p);
		if (p.timer_ns < 1)
			p.timer_ns = 1;
		play_period(run, &p, ((u64)i << 20) + seed);
	}
}

static u32 percentile(const u32 *bins, double part)
{
	u64 total = 0, sum = 0;
	u32 i;

	for (i = 0; i < LATENCY_BINS; i++)
		total += bins[i];
	for (i = 0; i < LATENCY_BINS; i++) {
		sum += bins[i];
		if (sum >= part * total)
			break;
	}
	return i;
}

struct result { double regret, latency_us, p99_us, decisions; };

static struct result measure(const struct table *table,
			     const struct stream *stream,
			     const struct contender *c,
			     const struct options *options)
{
	struct cil_machine seen, truth;
	struct cil_energy energy;
	struct run run = { .machine = &seen, .truth = &truth,
			   .energy = &energy, .policy = c->policy };
	struct result result;
	u32 i;

	machine_init(&truth, table, options->tick_ns, true);
	machine_init(&seen, table, options->tick_ns, options->powers_known);
	cil_energy_init(&energy, &truth);
	for (i = 0; i < c->policy->tunable_count; i++)
		run.tunables[i] = c->policy->tunables[i].def;
	set_tunables(c->policy, run.tunables, options->tunables);
	set_tunables(c->policy, run.tunables, c->tunables);
	run.state = calloc(1, c->policy->state_size);
	run.latency_us = calloc(LATENCY_BINS, sizeof(*run.latency_us));
	if (!run.state || !run.latency_us)
		fail("out of memory", c->name);
	for (i = 0; i < options->resets; i++)
		play(&run, stream, options, options->seed + i);
	result.regret = 100 * (run.cost / run.oracle - 1);
	result.latency_us = run.latency_sum / run.periods;
	result.p99_us = percentile(run.latency_us, 0.99);
	result.decisions = (double)run.decisions / run.periods;
	free(run.state);
	free(run.latency_us);
	return result;
}

static struct result measure_fixed(const struct table *table,
				   const struct stream *stream,
				   const struct options *options)
{
	struct result best = { .regret = INFINITY };
	u32 choice;

	for (choice = 0; choice < 2 * table->count; choice++) {
		struct contender fixed = { "fixed", &fixed_policy };
		struct result r;
		char text[32];

		snprintf(text, sizeof(text), "state=%u stop_tick=%u",
			 choice / 2, choice % 2);
		fixed.tunables = text;
		r = measure(table, stream, &fixed, options);
		if (r.regret < best.regret)
			best = r;
	}
	return best;
}

static bool wanted(const char *filter, const char *name)
{
	return !filter || !strcmp(filter, name);
}

static bool has_column(const struct options *options, u32 c)
{
	return wanted(options->policy, c < FIXED ? contenders[c].name : "fixed");
}

static void print_row(const struct options *options, const char *name,
		      const double *values)
{
	u32 c;

	printf("%-17s", name);
	for (c = 0; c <= FIXED; c++)
		if (has_column(options, c))
			printf("  %11.1f", values[c]);
	printf("\n");
}

static void print_head(const struct table *table, const struct options *options)
{
	u32 c;

	printf("\n%-17s", table->name);
	for (c = 0; c <= FIXED; c++)
		if (has_column(options, c))
			printf("  %*s", options->latency ? 21 : 11,
			       c < FIXED ? contenders[c].name : "fixed");
	printf("\n");
}

static void run_stream(const struct table *table, const struct stream *stream,
		       const struct options *options, double regret[FIXED + 1])
{
	u32 c;

	if (options->latency)
		printf("%-17s", stream->name);
	for (c = 0; c <= FIXED; c++) {
		struct result r;

		if (!has_column(options, c))
			continue;
		r = c < FIXED ? measure(table, stream, &contenders[c], options) :
				measure_fixed(table, stream, options);
		regret[c] = r.regret;
		if (options->latency)
			printf("  %8.1f %6.0f %5.2f", r.latency_us, r.p99_us,
			       r.decisions);
	}
	if (options->latency)
		printf("\n");
	else
		print_row(options, stream->name, regret);
}

static void run_table(const struct table *table, const struct options *options)
{
	double mean[FIXED + 1] = { 0 };
	double worst[FIXED + 1] = { 0 };
	u32 c, s, count = 0;

	print_head(table, options);
	for (s = 0; s < ARRAY_SIZE(streams); s++)
		count += wanted(options->stream, streams[s].name);
	for (s = 0; s < ARRAY_SIZE(streams); s++) {
		double regret[FIXED + 1] = { 0 };

		if (!wanted(options->stream, streams[s].name))
			continue;
		run_stream(table, &streams[s], options, regret);
		for (c = 0; c <= FIXED; c++) {
			mean[c] += regret[c] / count;
			worst[c] = fmax(worst[c], regret[c]);
		}
	}
	if (options->latency)
		return;
	print_row(options, "mean", mean);
	print_row(options, "worst", worst);
}

static void check_names(const struct options *options)
{
	bool table = false, stream = false, column = false;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(tables); i++)
		table |= wanted(options->table, tables[i].name);
	for (i = 0; i < ARRAY_SIZE(streams); i++)
		stream |= wanted(options->stream, streams[i].name);
	for (i = 0; i <= FIXED; i++)
		column |= has_column(options, i);
	if (!table)
		fail("unknown table", options->table);
	if (!stream)
		fail("unknown stream", options->stream);
	if (!column)
		fail("unknown policy", options->policy);
}

static const char usage[] =
	"usage: sim [OPTION=VALUE]...\n"
	"Prints idle-energy regret against the oracle, in percent.\n"
	"  table=NAME     one state table: skx skl power9 (default: all)\n"
	"  stream=NAME    one stream (default: all)\n"
	"  policy=NAME    one column (default: all)\n"
	"  tunables='NAME=VALUE ...'  for all columns that know the name\n"
	"  periods=N      idle intervals of a stream (20000)\n"
	"  resets=N       times that a stream is played from a reset (1)\n"
	"  hz=N           tick frequency (250)\n"
	"  seed=N         of the streams (1)\n"
	"  powers=1       let the policies know the powers of the states\n"
	"  latency=1      print wake-up latency (mean, p99 in us) and decisions\n"
	"                 per interval in place of regret\n"
	"Example: sim table=skx tunables='learning_rate=20'\n";

static u32 number_in(const char *value)
{
	char *end;
	unsigned long result;

	errno = 0;
	result = strtoul(value, &end, 0);
	if (errno || *end || end == value || result > U32_MAX)
		fail("not a positive number", value);
	return (u32)result;
}

static u32 count(const char *value)
{
	u32 result = number_in(value);

	if (!result)
		fail("not a positive number", value);
	return result;
}

static bool is_option(const char *arg, size_t length, const char *name)
{
	return length == strlen(name) && !strncmp(arg, name, length);
}

static void parse(struct options *o, const char *arg)
{
	const char *value = strchr(arg, '=');
	size_t length = value ? (size_t)(value - arg) : 0;

	if (!value)
		fail("unknown argument (try --help)", arg);
	value++;
	if (is_option(arg, length, "table"))
		o->table = value;
	else if (is_option(arg, length, "stream"))
		o->stream = value;
	else if (is_option(arg, length, "policy"))
		o->policy = value;
	else if (is_option(arg, length, "tunables"))
		o->tunables = value;
	else if (is_option(arg, length, "periods"))
		o->periods = count(value);
	else if (is_option(arg, length, "resets"))
		o->resets = count(value);
	else if (is_option(arg, length, "hz"))
		o->tick_ns = 1000 * MS / count(value);
	else if (is_option(arg, length, "seed"))
		o->seed = number_in(value);
	else if (is_option(arg, length, "powers"))
		o->powers_known = number_in(value);
	else if (is_option(arg, length, "latency"))
		o->latency = number_in(value);
	else
		fail("unknown argument (try --help)", arg);
}

int main(int argc, char **argv)
{
	struct options options = { .tick_ns = 4 * MS, .periods = 20000,
				   .seed = 1, .resets = 1 };
	u32 t;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return 0;
		}
		parse(&options, argv[i]);
	}
	check_names(&options);
	for (t = 0; t < ARRAY_SIZE(tables); t++)
		if (wanted(options.table, tables[t].name))
			run_table(&tables[t], &options);
	return 0;
}
