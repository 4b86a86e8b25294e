// SPDX-License-Identifier: GPL-2.0
#include "stream.h"

#define US		CIL_NSEC_PER_USEC
#define MS		CIL_NSEC_PER_MSEC
#define SEC		(1000 * MS)
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#endif

/* The kernel's latency request without a limit. */
#define NO_LIMIT_NS	(2147483647 * US)

/* So many in addition to the tables are machines made up at random. */
#define RANDOM_MACHINES	5

enum timer_kind { TIMER_FAR, TIMER_ANY, TIMER_NEAR, TIMER_EDGE, TIMER_WILD,
		  TIMER_KINDS };
enum wake_kind { WAKE_TIMER, WAKE_PERIODIC, WAKE_EARLY, WAKE_SHORT, WAKE_NEVER,
		 WAKE_EDGE, WAKE_WILD, WAKE_KINDS };
/* As the kernel would do; as it would never do. */
enum tick_kind { TICK_NATURAL, TICK_KEPT, TICK_STOPPED, TICK_RANDOM,
		 TICK_KINDS };

struct table {
	const char *name;
	u32 count;
	/* Exit latency and target residency in us; state 0 polls ... */
	struct { s32 latency, residency; } states[CIL_STATE_MAX];
	/* ... unless this is set. */
	bool sleeps_first;
};

static const struct table tables[] = {
	{ "Skylake-SP", 4, { {0, 0}, {2, 2}, {10, 20}, {133, 600} } },
	{ "Ice Lake-SP", 4, { {0, 0}, {1, 1}, {4, 4}, {170, 600} } },
	{ "Sapphire Rapids", 4, { {0, 0}, {1, 1}, {2, 4}, {290, 800} } },
	{ "Granite Rapids", 5, { {0, 0}, {1, 1}, {4, 4}, {170, 650},
				 {210, 1000} } },
	{ "Skylake client", 9, { {0, 0}, {2, 2}, {10, 20}, {70, 100},
				 {85, 200}, {124, 800}, {200, 800},
				 {480, 5000}, {890, 5000} } },
	{ "POWER9", 9, { {0, 0}, {1, 10}, {2, 20}, {5, 50}, {10, 100},
			 {100, 1000}, {200, 2000}, {2000, 20000},
			 {10000, 100000} } },
	{ "POWER9 emulated", 4, { {0, 0}, {1, 10}, {2, 20}, {5, 50} } },
	{ "one state", 1, { {0, 0} } },
	{ "one sleeping state", 1, { {2, 2} }, true },
	{ "two states", 2, { {0, 0}, {100, 300} } },
	{ "two sleeping states", 2, { {1, 1}, {500, 9000} }, true },
	{ "ten states", 10, { {0, 0}, {1, 2}, {2, 5}, {5, 14}, {7, 15},
			      {20, 60}, {80, 300}, {300, 1900}, {900, 8000},
			      {5000, 40000} } },
	{ "equal residencies", 5, { {0, 0}, {5, 50}, {9, 50}, {20, 50},
				    {90, 50} } },
	{ "all zero", 4, { {0, 0}, {0, 0}, {0, 0}, {0, 0} } },
	{ "unsorted", 5, { {0, 0}, {40, 400}, {3, 10}, {200, 200},
			   {100, 3000} } },
	{ "latency above residency", 4, { {0, 0}, {50, 10}, {200, 100},
					  {9000, 5000} } },
	{ "sleeps first", 3, { {1, 1}, {30, 100}, {200, 1000} }, true },
	{ "deep only", 2, { {3000, 10000}, {9000, 30000} }, true },
};

static u64 draw(struct stream *s)
{
	/* splitmix64 */
	u64 z = s->random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static u32 below(struct stream *s, u32 limit)
{
	return (u32)((draw(s) >> 32) * limit >> 32);
}

static bool one_in(struct stream *s, u32 odds)
{
	return odds && !below(s, odds);
}

/* Any order of magnitude below 2^bits is as likely as any other. */
static s64 any_below(struct stream *s, u32 bits)
{
	return (s64)(draw(s) >> (64 - 1 - below(s, bits)));
}

static s64 threshold(struct stream *s)
{
	static const s64 fixed[] = {
		0, 10 * US, 100 * US, 1 * MS, 10 * MS, 100 * MS, 45 * MS,
		50 * MS, 20 * US,
		CIL_RESIDENCY_THRESHOLD_NS, CIL_RESIDENCY_THRESHOLD_NS / 2,
	};
	s64 tick_ns = s->machine.tick_ns;

	switch (below(s, 4)) {
	case 0:
		return tick_ns;
	case 1:
		return below(s, 2) ? tick_ns / 2 : 2 * tick_ns;
	default:
		return fixed[below(s, ARRAY_SIZE(fixed))];
	}
}

/* A number at which some comparison may change, or one beside it. */
static s64 edge(struct stream *s)
{
	const struct cil_machine *machine = &s->machine;
	const struct cil_state *state;
	s64 ns;

	state = &machine->states[below(s, machine->state_count)];
	ns = below(s, 3) ? state->target_residency_ns : threshold(s);
	state = &machine->states[below(s, machine->state_count)];
	switch (below(s, 5)) {
	case 0:
		ns += state->exit_latency_ns / 2;
		break;
	case 1:
		ns += state->exit_latency_ns;
		break;
	case 2:
		ns = state->exit_latency_ns * (1 + below(s, 2));
		break;
	}
	return ns + below(s, 3) - 1;
}

/* No clock would ever say this. */
static s64 wild(struct stream *s)
{
	switch (below(s, 8)) {
	case 0:
		return CIL_TIME_MAX;
	case 1:
		return CIL_TIME_MAX - any_below(s, 40);
	case 2:
		return -any_below(s, 20);
	case 3:
		return -any_below(s, 63);
	case 4:
		return 0;
	/* Up to two hours: more than 32 bits of microseconds. */
	case 5:
		return below(s, 7200) * SEC;
	default:
		return any_below(s, 63);
	}
}

static s64 sleep_length(struct stream *s)
{
	switch (s->knobs.timer) {
	case TIMER_FAR:
		return 10 * MS + below(s, 1000) * 10 * MS;
	case TIMER_ANY:
		return any_below(s, 34);
	case TIMER_NEAR:
		return below(s, 100 * US);
	case TIMER_EDGE:
		return edge(s);
	default:
		return wild(s);
	}
}

static s64 periodic(struct stream *s)
{
	const struct knobs *knobs = &s->knobs;
	s64 jitter = knobs->interval_ns >> knobs->jitter_shift;

	if (one_in(s, knobs->outlier_odds))
		return any_below(s, 34);
	return knobs->interval_ns - jitter / 2 + (s64)(draw(s) % (jitter + 1));
}

static s64 wake_after(struct stream *s, s64 sleep_length_ns)
{
	switch (s->knobs.wake) {
	case WAKE_TIMER:
		return sleep_length_ns;
	case WAKE_PERIODIC:
		return periodic(s);
	case WAKE_EARLY:
		return sleep_length_ns > 0 ?
		       (s64)(draw(s) % (u64)sleep_length_ns) : 0;
	case WAKE_SHORT:
		return below(s, 30 * US);
	case WAKE_NEVER:
		return 3600 * SEC;
	case WAKE_EDGE:
		return edge(s);
	default:
		return wild(s);
	}
}

static s64 random_limit(struct stream *s)
{
	const struct cil_machine *machine = &s->machine;
	s64 ns;

	switch (below(s, 8)) {
	case 0:
		return 0;
	case 1:
		return below(s, 20 * US);
	case 2:
		return any_below(s, 40);
	case 3:
		return CIL_TIME_MAX;
	case 4:
		return NO_LIMIT_NS;
	case 5:
		ns = threshold(s);
		break;
	default:
		ns = machine->states[below(s, machine->state_count)]
			     .exit_latency_ns;
	}
	/* The kernel has no negative ones. */
	ns += below(s, 3) - 1;
	return ns < 0 ? 0 : ns;
}

static u32 random_disabled(struct stream *s)
{
	u32 all = (1u << s->machine.state_count) - 1;

	switch (below(s, 16)) {
	case 0:
		return all;
	case 1:
		return all & ~(1u << below(s, s->machine.state_count));
	case 2:
	case 3:
		return 1;
	case 4:
	case 5:
	case 6:
	case 7:
		return (u32)draw(s) & all;
	default:
		return 0;
	}
}

static void read_table(struct cil_machine *machine, const struct table *table)
{
	u32 i;

	machine->state_count = table->count;
	for (i = 0; i < table->count; i++) {
		struct cil_state *state = &machine->states[i];

		state->exit_latency_ns = table->states[i].latency * US;
		state->target_residency_ns = table->states[i].residency * US;
		state->polling = !i && !table->sleeps_first;
	}
}

static void random_table(struct stream *s)
{
	struct cil_machine *machine = &s->machine;
	bool sorted = below(s, 2);
	s64 residency_ns = 0, latency_ns = 0;
	u32 i;

	machine->state_count = 1 + below(s, CIL_STATE_MAX);
	for (i = 0; i < machine->state_count; i++) {
		struct cil_state *state = &machine->states[i];

		state->exit_latency_ns = any_below(s, 24);
		state->target_residency_ns = any_below(s, 27);
		state->polling = i ? one_in(s, 10) : below(s, 2);
		if (!sorted)
			continue;
		latency_ns = state->exit_latency_ns += latency_ns;
		residency_ns = state->target_residency_ns += residency_ns;
	}
}

static void new_machine(struct stream *s)
{
	static const u32 hz[] = { 100, 250, 300, 1000 };
	u32 i = below(s, ARRAY_SIZE(tables) + RANDOM_MACHINES);

	memset(&s->machine, 0, sizeof(s->machine));
	s->machine.tick_ns = SEC / hz[below(s, ARRAY_SIZE(hz))];
	if (i < ARRAY_SIZE(tables)) {
		s->machine_name = tables[i].name;
		read_table(&s->machine, &tables[i]);
	} else {
		s->machine_name = "random";
		random_table(s);
	}
	s->latency_req_ns = random_limit(s);
	s->disabled = 0;
	s->tick_stopped = false;
}

static void new_knobs(struct stream *s)
{
	static const u32 odds[] = { 0, 0, 0, 200, 20, 4 };

	s->knobs = (struct knobs){
		.timer = below(s, TIMER_KINDS),
		.wake = below(s, WAKE_KINDS),
		.tick = below(s, 2) ? TICK_NATURAL : below(s, TICK_KINDS),
		.interval_ns = below(s, 20) ? any_below(s, 30)
					    : below(s, 5000) * SEC,
		.jitter_shift = below(s, 12),
		.outlier_odds = below(s, 2) ? 0 : 2 + below(s, 8),
		.reject_odds = odds[below(s, ARRAY_SIZE(odds))],
		.demote_odds = odds[below(s, ARRAY_SIZE(odds))],
		.limit_odds = odds[below(s, ARRAY_SIZE(odds))],
		.disable_odds = odds[below(s, ARRAY_SIZE(odds))],
	};
}

/**
 * stream_init() - begin a stream
 * @stream: is filled
 * @seed: which of the streams
 */
void stream_init(struct stream *stream, u64 seed)
{
	memset(stream, 0, sizeof(*stream));
	stream->random = seed;
}

static void enable(struct stream *s, struct period *p)
{
	/* Half of the chapters keep the machine: a mere reset. */
	if (!s->now_ns || below(s, 2))
		new_machine(s);
	s->chapter_left = 1 + (u32)any_below(s, 14);
	s->run_left = 0;
	p->enabled = true;
	p->left_behind = below(s, 2);
	p->before = (struct cil_outcome){
		.now_ns = s->now_ns,
		.residency_ns = (u64)edge(s),
		.index = (u8)below(s, s->machine.state_count),
		.poll_time_limit = !below(s, 4),
	};
	if (!p->before.residency_ns)
		p->before.residency_ns = 1;
}

static bool tick_is_stopped(struct stream *s)
{
	switch (s->knobs.tick) {
	case TICK_KEPT:
		return false;
	case TICK_STOPPED:
		return true;
	case TICK_RANDOM:
		return below(s, 2);
	default:
		return s->tick_stopped;
	}
}

static s64 delta_tick(struct stream *s, s64 sleep_length_ns)
{
	s64 ns;

	if (s->knobs.timer == TIMER_WILD)
		return wild(s);
	ns = below(s, 4) ? below(s, (u32)s->machine.tick_ns + 1) : edge(s);
	return ns < sleep_length_ns ? ns : sleep_length_ns;
}

/**
 * stream_next() - everything about the next period that no decision changes
 * @stream: goes on by one period
 * @period: is filled, the outcome excepted
 */
void stream_next(struct stream *stream, struct period *period)
{
	struct stream *s = stream;
	struct cil_query *query = &period->query;
	u32 i;

	memset(period, 0, sizeof(*period));
	if (!s->chapter_left--)
		enable(s, period);
	if (!s->run_left--) {
		s->run_left = (u32)any_below(s, 11);
		new_knobs(s);
		/* Most runs begin without restrictions. */
		if (below(s, 4))
			s->disabled = 0;
		if (below(s, 2))
			s->latency_req_ns = NO_LIMIT_NS;
	}
	if (one_in(s, s->knobs.limit_odds))
		s->latency_req_ns = random_limit(s);
	if (one_in(s, s->knobs.disable_odds))
		s->disabled = random_disabled(s);

	query->now_ns = ++s->now_ns;
	query->latency_req_ns = s->latency_req_ns;
	query->disabled = s->disabled;
	query->tick_stopped = tick_is_stopped(s);
	query->sleep_length_ns = sleep_length(s);
	query->delta_tick_ns = delta_tick(s, query->sleep_length_ns);

	if (one_in(s, s->knobs.reject_odds))
		period->fate = below(s, 2) ? FATE_REJECTED : FATE_ABORTED;
	period->wake_ns = wake_after(s, query->sleep_length_ns);
	period->outcome.index = CIL_STATE_MAX;
	if (one_in(s, s->knobs.demote_odds))
		period->outcome.index = (u8)below(s, s->machine.state_count);
	for (i = 0; i < ARRAY_SIZE(period->draw); i++)
		period->draw[i] = draw(s);
	query->left = period->draw[2] & 1;
	period->outcome.left = period->draw[2] & 2;
}

static void end_by_tick(const struct stream *s, struct period *p, bool ticking)
{
	if (s->knobs.tick == TICK_RANDOM) {
		p->outcome.tick_wakeup = p->draw[0] % 4 == 0;
	} else if (ticking && p->wake_ns > p->query.delta_tick_ns) {
		p->outcome.tick_wakeup = true;
		p->wake_ns = p->query.delta_tick_ns;
	}
}

static void end_by_poll_limit(const struct stream *s, struct period *p)
{
	s64 limit_ns = (s64)(p->draw[1] % (250 * US));

	/* Sometimes the flag is stale, or contradicts the state. */
	if (p->draw[3] % 64 == 0) {
		p->outcome.poll_time_limit = p->draw[3] & 64;
	} else if (s->machine.states[p->outcome.index].polling &&
		 p->wake_ns > limit_ns) {
		p->outcome.poll_time_limit = true;
		p->outcome.tick_wakeup = false;
		p->wake_ns = limit_ns;
	}
}

/**
 * stream_live() - live through the period
 * @stream: the stream that it is from
 * @period: its outcome is filled, if there is one
 * @decision: what was decided
 */
void stream_live(struct stream *stream, struct period *period,
		 const struct cil_decision *decision)
{
	struct cil_outcome *outcome = &period->outcome;
	bool ticking = !period->query.tick_stopped && !decision->stop_tick;
	const struct cil_state *state;
	s64 latency_ns;

	/* The tick comes back when there is work, every fourth time. */
	stream->tick_stopped = !ticking && period->draw[2] % 4;
	if (period->fate != FATE_ENTERED)
		return;

	if (outcome->index == CIL_STATE_MAX)
		outcome->index = decision->index;
	end_by_tick(stream, period, ticking);
	end_by_poll_limit(stream, period);

	/* The exit takes its latency in full, in part or not at all. */
	state = &stream->machine.states[outcome->index];
	latency_ns = state->exit_latency_ns;
	if (period->draw[3] & 1)
		latency_ns = (s64)(period->draw[0] % (u64)(latency_ns + 1));
	if (period->draw[3] & 2)
		latency_ns = 0;
	outcome->residency_ns = (u64)period->wake_ns + (u64)latency_ns;
	if (period->wake_ns > 0)
		stream->now_ns += (u64)period->wake_ns % (3600 * SEC);
	outcome->now_ns = stream->now_ns;
}
