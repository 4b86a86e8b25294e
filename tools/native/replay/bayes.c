// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: bayes
 *
 * An estimate of the least modelled cost for anyone who knows only the past
 * and the timer. It is a policy, so whatever it reaches can be reached: the
 * figure is an upper estimate of that floor, not a proof of it. And it cannot
 * see the future, because it has nothing but the policy interface: queries,
 * the timer and the outcomes of its own choices.
 *
 * **What is predicted.** The *length* of an exogenous interval, in bins of an
 * eighth of an octave. A tick that was kept and a poll that gave up do not end
 * an interval: it goes on with the next decision. The timer that was known
 * does end it, but says only that nothing else came before. So what is learned
 * is a *hazard* for each bin, the share of the intervals that reached the bin
 * and ended in it (Kaplan and Meier's estimate). A distribution for any timer
 * follows from it: the chance to outlast all bins before the timer is that of
 * the timer.
 *
 * **Experts.** An expert keeps such hazards apart by a *context*: nothing, the
 * timer, the intervals before, how many short ones came in a row, how long the
 * last few were on average. It forgets over its *window* of intervals. What it
 * has not seen it takes from its *parent*, an expert of a lesser context, whose
 * word weighs as much as %TRUST intervals. The first expert has no parent;
 * three in four intervals that have outlasted all others are expected to last
 * for another octave.
 *
 * **Faith.** A context that does not matter only spreads thin what its parent
 * knows as a whole. So each row of hazards has a *faith*: the probability that
 * it, and not the parent, is to be followed, by Bayes' rule from what both said
 * in this context before (as in context tree weighting: Willems, Shtarkov and
 * Tjalkens, 1995). The place in a pattern where something is about to happen
 * earns it soon, all others leave it to the parent.
 *
 * **Mixture.** Each expert has a *weight*, the probability that it is the one
 * to follow, again by Bayes' rule. A small part of all weight is dealt out
 * evenly each time (fixed share: Herbster and Warmuth, 1998), so that others
 * can take over when the load changes. The *outlook* is the mean of the
 * distributions by weight and faith. If the interval has lasted for some time,
 * what is over by now is left out, which is Bayes' rule once more.
 *
 * **Choice.** The plan of least expected cost, the model's own cost, under the
 * outlook. Plans are
 *
 * - a state with the tick stopped, until the interval ends;
 * - a state with the tick kept, and after it the best of both kinds again, for
 *   %TICKS ticks;
 * - polling until the limit, and after it the best of all kinds again, %POLLS
 *   times over.
 *
 * Only the first step of the plan is taken; when asked again, it plans afresh.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "limits.h"
#include "run.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/* Bins: 8 linear parts of each octave, from 512 ns to 34 s. */
#define BIN_SHIFT	3
#define FIRST_OCTAVE	9
#define LAST_OCTAVE	34
#define BINS		((LAST_OCTAVE + 1 - FIRST_OCTAVE) << BIN_SHIFT)
#define BLOCK		8
static_assert(BLOCK == 1 << BIN_SHIFT, "a block is an octave");

/* The word of the parent weighs as much as so many intervals. */
#define TRUST		8.0f

/* The prior hazard weighs as much as so many intervals. */
#define PRIOR_TRUST	0.02f

/* Three in four last for another octave: (1 - h)^8. */
#define PRIOR_HAZARD	0.04f

/* Octaves beyond the longest interval so far that are thought possible. */
#define HEADROOM	3

/* Faith in a new row, and the least there is in a row or in its parent. */
#define NEW_FAITH	0.5f
#define DOUBT		0.002f

/* Part of all weight that is dealt out evenly at each interval. */
#define SHARE		0.002f

/* How far plans look ahead. */
#define TICKS		8
#define POLLS		16

/* The tick's handler takes this long. If much more passes, a task has run. */
#define HANDLER_NS	2000
#define RESUME_NS	5000

/* An interval that ends this close to the timer was ended by it. */
#define TIMER_NEAR_NS	20000

/* Until a poll has shown it: the least that the kernel polls for. */
#define POLL_GUESS_NS	10000

/* Nothing is taken to last longer. */
#define LONGEST_NS	(10000 * CIL_NSEC_PER_MSEC)

/* With less than this chance to have lasted so long, nothing is known. */
#define FORLORN		(1.0 / (1 << 30))

/* Intervals that are remembered one by one. */
#define PAST		3

/* Means of the bins that are kept, the second over four times the first... */
#define LEVELS_KEPT	3

/* Runs of short intervals are counted up to this. */
#define RUN_MAX		255

enum context {
	NOTHING,
	TIMER,		/* its octave */
	ONE,		/* octave of the interval before */
	TIMER_ONE,
	TWO,		/* octaves of the last two */
	THREE,
	SIDES_6,	/* which of the last six were longer than usual */
	SIDES_12,
	SIDES_24,
	RUN,		/* intervals since the last that was longer than usual */
	LEVEL_2,	/* recent mean of the bins, the last few counting most */
	LEVEL_8,
	LEVEL_32,
};

/**
 * struct expert - who is asked
 * @context: by what its hazards are kept apart
 * @parent: expert that it takes from what it has not seen
 * @rows: contexts that it can tell apart, a power of two
 * @window: intervals over which it forgets
 */
struct expert {
	enum context context;
	u32 parent;
	u32 rows;
	float window;
};

static const struct expert experts[] = {
	{ NOTHING, 0, 1, 100000 },
	{ NOTHING, 0, 1, 2000 },
	{ NOTHING, 0, 1, 200 },
	{ NOTHING, 0, 1, 30 },
	{ TIMER, 0, 32, 20000 },
	{ TIMER_ONE, 4, 1024, 5000 },
	{ ONE, 0, 32, 20000 },
	{ TWO, 6, 1024, 5000 },
	{ THREE, 7, 1024, 5000 },
	{ SIDES_6, 0, 64, 5000 },
	{ SIDES_12, 9, 1024, 5000 },
	{ SIDES_24, 10, 1024, 5000 },
	{ RUN, 0, 256, 5000 },
	{ LEVEL_2, 0, 64, 5000 },
	{ LEVEL_8, 0, 64, 5000 },
	{ LEVEL_32, 0, 64, 5000 },
};

#define EXPERTS		ARRAY_SIZE(experts)

/* Sum of the rows in the table above; bayes_init() would go beyond its end. */
#define ROWS		(4 + 2 * 32 + 64 + 256 + 3 * 64 + 5 * 1024)

/* Survival is computed for so many experts at a time. */
#define LANES		4
static_assert(EXPERTS % LANES == 0, "the experts must fill their lanes");

/**
 * struct row - hazards in one context
 * @key: the context, plus one; 0 if nothing was learned yet
 * @faith: probability that the context matters, that is, that this row and not
 *	the expert's parent is to be followed
 * @ended: intervals that ended in each bin, those long ago count for less
 * @reached: intervals that reached each bin, likewise
 */
struct row {
	u64 key;
	float faith;
	float ended[BINS];
	float reached[BINS];
};

/**
 * struct outlook - how long the interval will last, from its beginning
 * @share: probability of each bin
 * @at_ns: length that stands for the bin
 * @beyond: probability of this bin and those after it, the timer included
 * @beyond_ns: @beyond times the mean length there
 * @late_ns: length that stands for those after all bins: the timer, usually
 * @end: number of bins
 */
struct outlook {
	float share[BINS];
	double at_ns[BINS];
	double beyond[BINS + 1];
	double beyond_ns[BINS + 1];
	double late_ns;
	u32 end;
};

/**
 * struct bayes - what is known of one CPU
 * @rows: rows of all experts, one expert after the other
 * @prior: hazards before anything is known
 * @first_row: first row of each expert
 * @row: row of each expert in the present context
 * @key: the present context of each expert
 * @hazard: what each expert says about the present interval
 * @survival: its probability to reach each bin
 * @weight: weight of each expert
 * @faith: of the present row of each expert
 * @mean_ns: mean length of the intervals in a bin
 * @learned: intervals that were learned
 * @high: end of the bins that matter, a multiple of %BLOCK
 * @outlook: the mixture
 * @start_ns: when the present interval began
 * @timer_ns: the timer, from its beginning
 * @decided_ns: when the last decision was made
 * @going_on: the next decision belongs to the present interval
 * @poll_limit_ns: how long polling goes on
 * @past: bins of the last intervals, the latest first
 * @sides: bit n is set if the n-th last was longer than usual
 * @usual_ns: mean length
 * @level: means of the bins over 2, 8 and 32 intervals
 * @run: intervals since the last that was longer than usual
 */
struct bayes {
	struct row rows[ROWS];
	float prior[BINS];
	u32 first_row[EXPERTS];
	struct row *row[EXPERTS];
	u64 key[EXPERTS];
	float hazard[EXPERTS][BINS];
	float survival[EXPERTS][BINS + 1];
	float weight[EXPERTS];
	float faith[EXPERTS];
	double mean_ns[BINS];
	u64 learned;
	u32 high;
	struct outlook outlook;
	u64 start_ns;
	s64 timer_ns;
	u64 decided_ns;
	bool going_on;
	double poll_limit_ns;
	u32 past[PAST];
	u32 sides;
	double usual_ns;
	float level[LEVELS_KEPT];
	u32 run;
};

/* ---- Bins ---- */

static u32 bin_of(s64 length_ns)
{
	u32 high;

	if (length_ns < 1 << FIRST_OCTAVE)
		return 0;
	high = 63 - __builtin_clzll((u64)length_ns);
	if (high > LAST_OCTAVE)
		return BINS - 1;
	return (high - FIRST_OCTAVE) << BIN_SHIFT |
	       (length_ns >> (high - BIN_SHIFT) & (BLOCK - 1));
}

static double bin_begin(u32 bin)
{
	double octave = (double)(1ull << (FIRST_OCTAVE + (bin >> BIN_SHIFT)));

	return octave * (1 + (bin & (BLOCK - 1)) / (double)BLOCK);
}

static u64 octave_of(u32 bin)
{
	return bin >> BIN_SHIFT;
}

/* Part of the bin that lies before a time. */
static double part_before(u32 bin, double ns)
{
	double begin_ns = bin_begin(bin), end_ns = bin_begin(bin + 1);

	if (ns <= begin_ns)
		return 0;
	return ns >= end_ns ? 1 : (ns - begin_ns) / (end_ns - begin_ns);
}

/* Times that something has made up must not overflow. */
static s64 sane(u64 ns)
{
	return ns < LONGEST_NS ? (s64)ns : LONGEST_NS;
}

/* ---- What the experts say ---- */

static u64 octaves(const struct bayes *b, u32 count)
{
	u64 key = 0;
	u32 i;

	for (i = 0; i < count; i++)
		key = key << 5 | octave_of(b->past[i]);
	return key;
}

/* In half octaves. */
static u64 level(const struct bayes *b, u32 i)
{
	return (u64)(b->level[i] / (BLOCK / 2));
}

static u64 context_key(const struct bayes *b, enum context context)
{
	u64 timer = octave_of(bin_of(b->timer_ns));

	switch (context) {
	case TIMER:
		return timer;
	case ONE:
		return octaves(b, 1);
	case TIMER_ONE:
		return timer << 5 | octaves(b, 1);
	case TWO:
		return octaves(b, 2);
	case THREE:
		return octaves(b, 3);
	case SIDES_6:
		return b->sides & 0x3f;
	case SIDES_12:
		return b->sides & 0xfff;
	case SIDES_24:
		return b->sides & 0xffffff;
	case RUN:
		return b->run;
	case LEVEL_2:
		return level(b, 0);
	case LEVEL_8:
		return level(b, 1);
	case LEVEL_32:
		return level(b, 2);
	case NOTHING:
		break;
	}
	return 0;
}

static struct row *row_of(struct bayes *b, u32 i)
{
	u64 key = b->key[i];

	if (key >= experts[i].rows)
		key = (key * 0x9e3779b97f4a7c15ull) >> 40;
	return &b->rows[b->first_row[i] + (key & (experts[i].rows - 1))];
}

static void blend(float *restrict hazard, const float *restrict parent,
		  const struct row *restrict row, float trust, u32 high)
{
	size_t first, j;

	/* In blocks of a constant size, which compilers make vectors of. */
	for (first = 0; first < high; first += BLOCK)
		for (j = 0; j < BLOCK; j++)
			hazard[first + j] = (row->ended[first + j] +
					     trust * parent[first + j]) /
					    (row->reached[first + j] + trust);
}

static void ask(struct bayes *b, u32 i)
{
	const float *parent = i ? b->hazard[experts[i].parent] : b->prior;
	const struct row *row;

	b->key[i] = context_key(b, experts[i].context);
	b->row[i] = row_of(b, i);
	row = b->row[i];
	if (row->key == b->key[i] + 1) {
		b->faith[i] = row->faith;
		blend(b->hazard[i], parent, row, i ? TRUST : PRIOR_TRUST,
		      b->high);
	} else {
		b->faith[i] = NEW_FAITH;
		memcpy(b->hazard[i], parent, b->high * sizeof(*parent));
	}
}

/* Who is no better than its parent leaves its weight to it. */
static void vote(const struct bayes *b, float votes[EXPERTS])
{
	u32 i;

	memcpy(votes, b->weight, sizeof(b->weight));
	for (i = EXPERTS; --i;) {
		votes[experts[i].parent] += votes[i] * (1 - b->faith[i]);
		votes[i] *= b->faith[i];
	}
}

/* Several at a time, as each has to wait for its bin before. */
static void survive(struct bayes *b, const float votes[EXPERTS], u32 first,
		    u32 end)
{
	float (*hazard)[BINS] = b->hazard + first;
	float (*survival)[BINS + 1] = b->survival + first;
	float alive[LANES];
	u32 bin, i;

	for (i = 0; i < LANES; i++)
		alive[i] = 1;
	for (bin = 0; bin < end; bin++) {
		float share = 0;

		for (i = 0; i < LANES; i++) {
			float part = alive[i] * hazard[i][bin];

			survival[i][bin] = alive[i];
			share += votes[first + i] * part;
			alive[i] -= part;
		}
		b->outlook.share[bin] += share;
	}
	for (i = 0; i < LANES; i++)
		survival[i][end] = alive[i];
}

/* The mixture, as sums from the far end; the timer is there. */
static void sum_up(struct bayes *b, u32 end)
{
	struct outlook *o = &b->outlook;
	double late_ns = (double)b->timer_ns, late = 1;
	u32 bin;

	/* Hardly anything can outlast the last bin; if so, for an octave. */
	if (bin_of(b->timer_ns) >= end && late_ns > 2 * bin_begin(end))
		late_ns = 2 * bin_begin(end);
	for (bin = 0; bin < end; bin++) {
		o->at_ns[bin] = b->mean_ns[bin] < late_ns ? b->mean_ns[bin] :
							    late_ns;
		late -= o->share[bin];
	}
	if (late < 0)
		late = 0;
	o->late_ns = late_ns;
	o->end = end;
	o->beyond[end] = late;
	o->beyond_ns[end] = late * late_ns;
	while (bin--) {
		o->beyond[bin] = o->beyond[bin + 1] + o->share[bin];
		o->beyond_ns[bin] = o->beyond_ns[bin + 1] +
				    o->share[bin] * o->at_ns[bin];
	}
}

static void predict(struct bayes *b)
{
	u32 timer_bin = bin_of(b->timer_ns);
	u32 end = timer_bin < b->high ? timer_bin + 1 : b->high;
	float votes[EXPERTS];
	u32 i;

	for (i = 0; i < EXPERTS; i++)
		ask(b, i);
	vote(b, votes);
	memset(b->outlook.share, 0, sizeof(b->outlook.share));
	for (i = 0; i < EXPERTS; i += LANES)
		survive(b, votes, i, end);
	if (timer_bin < b->high)
		b->outlook.share[timer_bin] *=
			part_before(timer_bin, b->timer_ns);
	sum_up(b, end);
}

/* ---- Learning ---- */

/* Probability that an expert gave to what has happened. */
static float likelihood(const struct bayes *b, u32 i, u32 bin, bool by_timer)
{
	if (bin >= b->outlook.end)
		return b->survival[i][b->outlook.end];
	if (!by_timer)
		return b->survival[i][bin] * b->hazard[i][bin];
	return b->survival[i][bin] *
	       (1 - b->hazard[i][bin] * part_before(bin, b->timer_ns));
}

static void reweigh(struct bayes *b, u32 bin, bool by_timer)
{
	float said[EXPERTS], joint[EXPERTS], sum = 0;
	u32 i;

	for (i = 0; i < EXPERTS; i++) {
		float own = likelihood(b, i, bin, by_timer);
		float faith = b->faith[i];

		said[i] = own;
		if (i) {
			said[i] = faith * own +
				  (1 - faith) * said[experts[i].parent];
			faith *= own / fmaxf(said[i], FLT_MIN);
			b->faith[i] = DOUBT + (1 - 2 * DOUBT) *
					      fminf(faith, 1);
		}
		joint[i] = b->weight[i] * said[i];
		sum += joint[i];
	}
	/* None of them thought it possible: none is better than another. */
	if (sum < FLT_MIN)
		return;
	for (i = 0; i < EXPERTS; i++)
		b->weight[i] = (1 - SHARE) * joint[i] / sum + SHARE / EXPERTS;
}

static void row_learn(struct bayes *b, u32 i, u32 bin, bool by_timer)
{
	struct row *row = b->row[i];
	float keep = 1 - 1 / experts[i].window;
	size_t first, j;

	if (row->key != b->key[i] + 1) {
		memset(row, 0, sizeof(*row));
		row->key = b->key[i] + 1;
	}
	row->faith = b->faith[i];
	for (first = 0; first < b->high; first += BLOCK) {
		for (j = 0; j < BLOCK; j++)
			row->reached[first + j] *= keep;
		for (j = 0; j < BLOCK; j++)
			row->ended[first + j] *= keep;
	}
	for (j = 0; j < bin; j++)
		row->reached[j] += 1;
	row->reached[bin] += by_timer ? part_before(bin, b->timer_ns) : 1;
	if (!by_timer)
		row->ended[bin] += 1;
}

static double rate(const struct bayes *b, u32 most)
{
	return 1.0 / (b->learned < most ? b->learned : most);
}

static void remember(struct bayes *b, s64 length_ns, u32 bin)
{
	bool is_long = length_ns > b->usual_ns;
	u32 i;

	memmove(b->past + 1, b->past, sizeof(b->past) - sizeof(*b->past));
	b->past[0] = bin;
	b->sides = b->sides << 1 | is_long;
	b->usual_ns += (length_ns - b->usual_ns) * rate(b, 256);
	for (i = 0; i < LEVELS_KEPT; i++)
		b->level[i] += (bin - b->level[i]) * rate(b, 2 << 2 * i);
	if (is_long)
		b->run = 0;
	else if (b->run < RUN_MAX)
		b->run++;
}

/* Bins far beyond all that has happened need not be computed. */
static void limit_bins(struct bayes *b, u32 bin)
{
	u32 high = (bin / BLOCK + 1 + HEADROOM) * BLOCK;

	if (high > BINS)
		high = BINS;
	if (b->high < high || b->learned == 1)
		b->high = high;
}

static void learn(struct bayes *b, s64 length_ns)
{
	s64 near_ns = b->timer_ns / 16 < TIMER_NEAR_NS ? b->timer_ns / 16 :
							 TIMER_NEAR_NS;
	bool by_timer = length_ns >= b->timer_ns - near_ns &&
			length_ns <= b->timer_ns + near_ns;
	u32 bin = bin_of(by_timer ? b->timer_ns : length_ns);
	u32 i;

	b->learned++;
	reweigh(b, bin, by_timer);
	limit_bins(b, bin);
	for (i = 0; i < EXPERTS; i++)
		row_learn(b, i, bin, by_timer);
	if (!by_timer)
		b->mean_ns[bin] += (length_ns - b->mean_ns[bin]) * rate(b, 64);
	remember(b, length_ns, bin);
}

static void bayes_update(void *state, const struct cil_machine *machine,
			 const void *tunables,
			 const struct cil_outcome *outcome)
{
	struct bayes *b = state;
	const struct cil_state *s = &machine->states[outcome->index];
	u64 back_ns = b->decided_ns + outcome->residency_ns;
	s64 slept_ns = sane(outcome->residency_ns) - s->exit_latency_ns;

	if (slept_ns < 1)
		slept_ns = 1;
	if (outcome->poll_time_limit)
		b->poll_limit_ns = (double)slept_ns;
	b->going_on = (outcome->poll_time_limit ||
		       (outcome->tick_wakeup && !s->polling)) &&
		      outcome->now_ns - back_ns <= RESUME_NS;
	if (!b->going_on)
		learn(b, sane(b->decided_ns - b->start_ns) + slept_ns);
}

/* ---- Planning ---- */

/**
 * struct rest - what is to come after some time, not divided by @share
 * @share: probability that the interval lasts longer
 * @ns: expected time that it lasts longer
 */
struct rest {
	double share;
	double ns;
};

/**
 * struct planner - what plans are made with
 * @machine: the idle states
 * @model: what they cost
 * @outlook: how long the interval will last
 * @sleeping: bit k is set if state k may be used and does not poll
 * @polling: bit k is set if it may be used and polls
 * @ticks: the tick is running and comes before the timer
 * @tick: what is to come once the next tick has woken the CPU from state k
 * @after_tick: what that will cost
 */
struct planner {
	const struct cil_machine *machine;
	const struct rp_model *model;
	const struct outlook *outlook;
	u32 sleeping;
	u32 polling;
	bool ticks;
	struct rest tick[CIL_STATE_MAX];
	double after_tick[CIL_STATE_MAX];
};

/**
 * struct plan - the first step of a plan
 * @cost: expected cost of the whole plan, not divided by the share
 * @index: idle state
 * @stop_tick: whether the tick is stopped with it
 */
struct plan {
	double cost;
	u32 index;
	bool stop_tick;
};

static struct rest rest_at(const struct outlook *o, double now_ns)
{
	struct rest rest = { 0 };
	double part, at_ns;
	u32 bin;

	if (now_ns >= o->late_ns)
		return rest;
	if (now_ns >= bin_begin(o->end)) {
		rest.share = o->beyond[o->end];
		rest.ns = o->beyond_ns[o->end] - rest.share * now_ns;
	} else {
		/* The bin's mean is ahead, or part of the bin is. */
		bin = bin_of((s64)now_ns);
		part = 1;
		at_ns = o->at_ns[bin];
		if (at_ns <= now_ns) {
			part = 1 - part_before(bin, now_ns);
			at_ns = (now_ns + bin_begin(bin + 1)) / 2;
		}
		rest.share = o->beyond[bin + 1] + part * o->share[bin];
		rest.ns = o->beyond_ns[bin + 1] +
			  part * o->share[bin] * at_ns - rest.share * now_ns;
	}
	if (rest.ns < 0)
		rest.ns = 0;
	return rest;
}

static double cost_until(const struct planner *p, u32 k, struct rest from,
			 struct rest until)
{
	return p->model->entry_pj[k] * from.share +
	       p->model->power_mw[k] * (from.ns - until.ns);
}

static void take_better(struct plan *plan, double cost, u32 index,
			bool stop_tick)
{
	if (cost < plan->cost)
		*plan = (struct plan){ cost, index, stop_tick };
}

/* One state until the interval ends. */
static struct plan sleep_through(const struct planner *p, struct rest from)
{
	struct plan plan = { .cost = INFINITY };
	u32 k;

	for (k = 0; p->sleeping >> k; k++)
		if (p->sleeping >> k & 1)
			take_better(&plan, cost_until(p, k, from,
						      (struct rest){ 0 }),
				    k, true);
	return plan;
}

/* That, or one state until the next tick and what is best then. */
static struct plan sleep(const struct planner *p, struct rest from)
{
	struct plan plan = sleep_through(p, from);
	u32 k;

	for (k = 0; p->ticks && p->sleeping >> k; k++)
		if (p->sleeping >> k & 1)
			take_better(&plan, cost_until(p, k, from, p->tick[k]) +
				    p->after_tick[k], k, false);
	return plan;
}

/* Sleep through, or until the next of the ticks, from which on it costs so. */
static double cost_from(const struct planner *p, struct rest from,
			struct rest tick, double cost)
{
	struct plan plan = sleep_through(p, from);
	u32 k;

	for (k = 0; p->sleeping >> k; k++)
		if (p->sleeping >> k & 1)
			take_better(&plan, cost + cost_until(p, k, from, tick),
				    k, false);
	return plan.cost;
}

/* From the last tick in sight back to the next one, which is at @tick_ns. */
static void look_at_ticks(struct planner *p, double tick_ns)
{
	double period_ns = p->machine->tick_ns;
	struct rest later = rest_at(p->outlook, tick_ns + TICKS * period_ns);
	double cost = sleep_through(p, later).cost;
	u32 i, k;

	for (i = TICKS; --i;) {
		struct rest tick = rest_at(p->outlook, tick_ns + i * period_ns);

		cost = cost_from(p, tick, later, cost);
		later = tick;
	}
	/* Of the next tick it counts when the CPU is awake again, too. */
	for (k = 0; p->sleeping >> k; k++) {
		double awake_ns = HANDLER_NS +
				  p->machine->states[k].exit_latency_ns;

		p->tick[k] = rest_at(p->outlook, tick_ns + awake_ns);
		p->after_tick[k] = awake_ns < period_ns ?
				   cost_from(p, p->tick[k], later, cost) :
				   sleep_through(p, p->tick[k]).cost;
	}
	p->ticks = true;
}

/* Polls one after the other, or sleep at once. */
static struct plan poll(const struct planner *p, u32 k, double now_ns,
			double limit_ns, double last_ns)
{
	struct rest rest, next;
	struct plan plan;
	u32 i = 0;

	/* The last poll may go on beyond the tick or until the timer. */
	while (i < POLLS && now_ns + i * limit_ns < last_ns)
		i++;
	next = rest_at(p->outlook, now_ns + i * limit_ns);
	plan = now_ns + i * limit_ns < last_ns ? sleep(p, next) :
						 sleep_through(p, next);
	while (i--) {
		double later = plan.cost;

		rest = rest_at(p->outlook, now_ns + i * limit_ns);
		plan = sleep(p, rest);
		take_better(&plan, later + cost_until(p, k, rest, next), k,
			    false);
		next = rest;
	}
	return plan;
}

static void allow(struct planner *p, const struct cil_query *query)
{
	const struct cil_machine *m = p->machine;
	u32 k;

	for (k = 0; k < m->state_count; k++) {
		if (cil_disabled(query, k) ||
		    (k && m->states[k].exit_latency_ns > query->latency_req_ns))
			continue;
		if (m->states[k].polling)
			p->polling |= 1u << k;
		else
			p->sleeping |= 1u << k;
	}
}

/* Begin an interval, or go on with it; the timer may be another one by now. */
static double resume(struct bayes *b, struct cil_query *query)
{
	s64 timer_ns = cil_sleep_length(query);
	s64 elapsed_ns;

	b->decided_ns = query->now_ns;
	if (!b->going_on)
		b->start_ns = query->now_ns;
	elapsed_ns = sane(query->now_ns - b->start_ns);
	/* A timer that was due and woke nobody tells nothing. */
	timer_ns = elapsed_ns + (timer_ns > 0 ? sane(timer_ns) : LONGEST_NS);
	if (!b->going_on || timer_ns != b->timer_ns) {
		b->timer_ns = timer_ns;
		predict(b);
	}
	b->going_on = false;
	return (double)elapsed_ns;
}

static struct plan make_plan(struct bayes *b, struct planner *p,
			     const struct cil_query *query, double now_ns)
{
	double last_ns = (double)b->timer_ns;
	struct rest rest = rest_at(p->outlook, now_ns);

	if (!query->tick_stopped &&
	    query->delta_tick_ns < query->sleep_length_ns) {
		last_ns = now_ns + query->delta_tick_ns;
		look_at_ticks(p, last_ns);
	}
	/* Longer than anything known: as long again, or until the timer. */
	if (rest.share < FORLORN) {
		rest.share = 1;
		rest.ns = fmin(now_ns, b->timer_ns - now_ns);
		return sleep_through(p, rest);
	}
	if (!p->polling)
		return sleep(p, rest);
	return poll(p, __builtin_ctz(p->polling), now_ns, b->poll_limit_ns,
		    last_ns);
}

static void bayes_select(void *state, const struct cil_machine *machine,
			 const void *tunables, struct cil_query *query,
			 struct cil_decision *decision)
{
	struct bayes *b = state;
	struct planner p = {
		.machine = machine,
		.model = rp_now.model,
		.outlook = &b->outlook,
	};
	double now_ns = resume(b, query);
	struct plan plan = { 0 };

	allow(&p, query);
	if (p.sleeping)
		plan = make_plan(b, &p, query, now_ns);
	else if (p.polling)
		plan.index = __builtin_ctz(p.polling);
	decision->index = (u8)plan.index;
	decision->stop_tick = plan.stop_tick;
	decision->row = CIL_ROW_NONE;
	decision->reason = RP_REASON_BAYES;
}

static void bayes_init(void *state, const struct cil_machine *machine,
		       const void *tunables)
{
	struct bayes *b = state;
	u32 i, row = 0;

	memset(b, 0, sizeof(*b));
	for (i = 0; i < BINS; i++) {
		b->prior[i] = PRIOR_HAZARD;
		b->mean_ns[i] = (bin_begin(i) + bin_begin(i + 1)) / 2;
	}
	for (i = 0; i < EXPERTS; i++) {
		b->weight[i] = 1.0f / EXPERTS;
		b->first_row[i] = row;
		row += experts[i].rows;
	}
	b->high = BINS;
	b->poll_limit_ns = POLL_GUESS_NS;
}

const struct cil_policy bayes_policy = {
	.name = "bayes",
	.state_size = sizeof(struct bayes),
	.init = bayes_init,
	.select = bayes_select,
	.update = bayes_update,
};
