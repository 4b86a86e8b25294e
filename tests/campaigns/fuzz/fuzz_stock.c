// SPDX-License-Identifier: GPL-2.0
/* The builder of decisions of an unmodified kernel's events, in any order. */
#include "input.h"
#include "../../../tools/native/stock.h"

/**
 * struct seen - what came out, for the checks
 * @decisions: decisions that came out
 * @seq: number of the last
 * @has_outcome: it has an outcome already
 */
struct seen {
	u64 decisions;
	u64 seq;
	bool has_outcome;
};

static const char *see_decision(void *context, const struct cil_period *d)
{
	struct seen *seen = context;
	u8 known = d->flags & (CIL_DECISION_ASKED | CIL_DECISION_INFERRED |
			       CIL_DECISION_UNTOLD);

	DEMAND(!seen->decisions || d->seq > seen->seq);
	/* One of the three, and no two. */
	DEMAND(known && !(known & (known - 1)));
	seen->decisions++;
	seen->seq = d->seq;
	seen->has_outcome = false;
	return NULL;
}

static const char *see_outcome(void *context,
			       const struct cil_period_outcome *o)
{
	struct seen *seen = context;

	DEMAND(seen->decisions && o->seq == seen->seq && !seen->has_outcome);
	seen->has_outcome = true;
	return NULL;
}

static void take_timer(struct input *in, struct cil_stock *s, u64 ts)
{
	struct cil_wheel_timer w = {
		.timer = take_below(in, 8),
		.expires = take_wild(in),
		.bucket = take_below(in, 2) ? take_wild(in) : 0,
		.now = take_below(in, 2) ? take_wild(in) : ts / 4000000,
		.flags = take_wild(in),
	};

	switch (take_below(in, 4)) {
	case 0:
		cil_timers_wheel(&s->all, ts, &w, take_below(in, 2));
		break;
	case 1:
		cil_timers_tick(&s->all, ts, 9, ts + take_time(in, 24));
		break;
	case 2:
		s->all.device_ns = take_wild(in);
		break;
	default:
		cil_timers_hrtimer(&s->all, w.timer, take_wild(in));
		break;
	}
}

static void take_event(struct input *in, struct cil_stock *s, u64 ts)
{
	switch (take_below(in, 15)) {
	case 0:
		cil_stock_asked(s, ts, take_wild(in), take_wild(in),
				take_below(in, 2));
		break;
	case 1:
		cil_stock_asked(s, ts, take_time(in, 24), take_time(in, 22),
				true);
		break;
	case 2:
	case 3:
		cil_stock_fate(s, ts, take_below(in, 2));
		break;
	case 4:
		cil_stock_idle(s, ts, take_below(in, 12));
		break;
	case 5:
		cil_stock_idle(s, ts, CIL_IDLE_EXIT);
		break;
	case 6:
		cil_stock_tick(s, ts);
		break;
	case 7:
		cil_stock_expiry(s, ts);
		cil_timers_gone(&s->all, take_below(in, 8));
		break;
	case 8:
		take_timer(in, s, ts);
		break;
	case 9:
		if (take_below(in, 2))
			cil_stock_left(s);
		else
			cil_stock_exit(s);
		break;
	case 10:
		cil_stock_got_tick(s, take_below(in, 2));
		break;
	case 11:
		cil_stock_seen(s, ts, 1 + take_below(in, CIL_STOCK_KINDS - 1));
		break;
	case 12:
		if (take_below(in, 2))
			cil_stock_softirq_rcu(s);
		else
			cil_stock_tick_told(s);
		break;
	case 13:
		cil_stock_reflect(s, take_time(in, 24), take_below(in, 2));
		break;
	default:
		if (take_below(in, 2))
			cil_stock_lost(s);
		else
			cil_stock_tick_stop(s, ts);
		break;
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, size };
	struct seen seen = {};
	const struct cil_stock_sink sink = { see_decision, see_outcome, &seen };
	struct cil_period_machine machine = { .tick_ns = 4000000, .polling = 1 };
	struct cil_stock_counts counts = {};
	static struct cil_stock s;
	u64 ts = 0;
	u32 k;

	machine.states = 1 + take_below(&in, CIL_STATE_MAX);
	for (k = 0; k < machine.states; k++)
		machine.exit_latency_ns[k] = take_time(&in, 22);
	cil_stock_begin(&s, &sink, &counts, &machine);
	cil_timers_begin(&s.all, machine.tick_ns);
	s.has_probes = take_below(&in, 2);
	s.has_all = take_below(&in, 2);
	s.event_ns = take_time(&in, 11);
	while (in.size) {
		ts += take_below(&in, 16) ? take_time(&in, 24) :
					    take_time(&in, 40);
		take_event(&in, &s, ts);
	}
	cil_stock_end(&s);
	DEMAND(counts.asked + counts.inferred + counts.untold ==
	       seen.decisions);
	return 0;
}
