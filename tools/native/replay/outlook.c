// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: outlook
 *
 * The length of an interval as bayes expects it, from the past of one CPU: the
 * intervals that are over, and the timer.
 *
 * **The prediction.** It is the *length* of an exogenous interval, in bins of an
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
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "outlook.h"

#define __packed		__attribute__((packed))
#define __may_alias		__attribute__((may_alias))
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/* Bins of an octave; so many are computed at a time. */
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

/* An interval that ends this close to the timer was ended by it. */
#define TIMER_NEAR_NS	20000

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
 * struct expert - one predictor among several
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

static_assert(ARRAY_SIZE(experts) == EXPERTS, "there is room for each");

/* Survival is computed for so many experts at a time. */
#define LANES		4
static_assert(EXPERTS % LANES == 0, "the experts must fill their lanes");

/* Numbers that are computed at once, read from wherever an array has them. */
struct block {
	__attribute__((vector_size(BLOCK * sizeof(float)))) float n;
} __packed __may_alias;

struct lanes {
	__attribute__((vector_size(LANES * sizeof(float)))) float n;
} __packed __may_alias;

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

/* ---- What the experts say ---- */

static u64 octaves(const struct forecast *f, u32 count)
{
	u64 key = 0;
	u32 i;

	for (i = 0; i < count; i++)
		key = key << 5 | octave_of(f->past[i]);
	return key;
}

/* In half octaves. */
static u64 level(const struct forecast *f, u32 i)
{
	return (u64)(f->level[i] / (BLOCK / 2));
}

static u64 context_key(const struct forecast *f, enum context context)
{
	u64 timer = octave_of(bin_of(f->timer_ns));

	switch (context) {
	case TIMER:
		return timer;
	case ONE:
		return octaves(f, 1);
	case TIMER_ONE:
		return timer << 5 | octaves(f, 1);
	case TWO:
		return octaves(f, 2);
	case THREE:
		return octaves(f, 3);
	case SIDES_6:
		return f->sides & 0x3f;
	case SIDES_12:
		return f->sides & 0xfff;
	case SIDES_24:
		return f->sides & 0xffffff;
	case RUN:
		return f->run;
	case LEVEL_2:
		return level(f, 0);
	case LEVEL_8:
		return level(f, 1);
	case LEVEL_32:
		return level(f, 2);
	case NOTHING:
		break;
	}
	return 0;
}

static u32 row_of(const struct forecast *f, u32 i)
{
	u64 key = f->key[i];

	if (key >= experts[i].rows)
		key = (key * 0x9e3779b97f4a7c15ull) >> 40;
	return f->first_row[i] + (key & (experts[i].rows - 1));
}

static void blend(float *hazard, const float *parent, const struct row *row,
		  float trust, u32 high)
{
	u32 bin;

	for (bin = 0; bin < high; bin += BLOCK) {
		const struct block *ended = (const struct block *)(row->ended + bin);
		const struct block *reached = (const struct block *)(row->reached + bin);
		const struct block *before = (const struct block *)(parent + bin);

		((struct block *)(hazard + bin))->n =
			(ended->n + trust * before->n) / (reached->n + trust);
	}
}

static void ask(struct forecast *f, u32 i)
{
	const float *parent = i ? f->hazard[experts[i].parent] : f->prior;
	const struct row *row;

	f->key[i] = context_key(f, experts[i].context);
	f->row[i] = row_of(f, i);
	row = &f->rows[f->row[i]];
	if (row->key == f->key[i] + 1) {
		f->faith[i] = row->faith;
		blend(f->hazard[i], parent, row, i ? TRUST : PRIOR_TRUST,
		      f->high);
	} else {
		f->faith[i] = NEW_FAITH;
		memcpy(f->hazard[i], parent, f->high * sizeof(*parent));
	}
}

/* An expert leaves its weight to its parent, as far as it is no better. */
static void vote(const struct forecast *f, float votes[EXPERTS])
{
	u32 i;

	memcpy(votes, f->weight, sizeof(f->weight));
	for (i = EXPERTS; --i;) {
		votes[experts[i].parent] += votes[i] * (1 - f->faith[i]);
		votes[i] *= f->faith[i];
	}
}

/* All in one loop: each waits for its bin before, and none for another. */
static void survive(struct forecast *f, const float votes[EXPERTS], u32 end)
{
	float alive[EXPERTS];
	u32 bin, i;

	for (i = 0; i < EXPERTS; i++)
		alive[i] = 1;
	for (bin = 0; bin < end; bin++) {
		float share = 0;

		for (i = 0; i < EXPERTS; i += LANES) {
			float (*hazard)[BINS] = f->hazard + i;
			struct lanes said = { { hazard[0][bin], hazard[1][bin],
						hazard[2][bin], hazard[3][bin] } };
			struct lanes *left = (struct lanes *)(alive + i);
			struct lanes part = { left->n * said.n };
			struct lanes vote = { part.n * ((const struct lanes *)(votes + i))->n };

			*(struct lanes *)(f->survival[bin] + i) = *left;
			share += vote.n[0] + vote.n[1] + vote.n[2] + vote.n[3];
			left->n -= part.n;
		}
		f->outlook.share[bin] = share;
	}
	memcpy(f->survival[end], alive, sizeof(alive));
}

/* The mixture, as sums from the far end; the timer is there. */
static void sum_up(struct forecast *f, u32 end)
{
	struct outlook *o = &f->outlook;
	double late_ns = (double)f->timer_ns, late = 1;
	u32 bin;

	/* Hardly anything can outlast the last bin; if so, for an octave. */
	if (bin_of(f->timer_ns) >= end && late_ns > 2 * bin_begin(end))
		late_ns = 2 * bin_begin(end);
	for (bin = 0; bin < end; bin++) {
		o->at_ns[bin] = f->mean_ns[bin] < late_ns ? f->mean_ns[bin] :
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

/**
 * rp_outlook_predict() - how long will the interval last?
 * @f: what is known; its outlook is filled
 * @timer_ns: the timer, from the beginning of the interval
 */
void rp_outlook_predict(struct forecast *f, s64 timer_ns)
{
	u32 timer_bin = bin_of(timer_ns);
	u32 end = timer_bin < f->high ? timer_bin + 1 : f->high;
	float votes[EXPERTS];
	u32 i;

	f->timer_ns = timer_ns;
	for (i = 0; i < EXPERTS; i++)
		ask(f, i);
	vote(f, votes);
	survive(f, votes, end);
	if (timer_bin < f->high)
		f->outlook.share[timer_bin] *=
			part_before(timer_bin, timer_ns);
	sum_up(f, end);
}

/* ---- Learning ---- */

/* Probability that an expert gave to what has happened. */
static float likelihood(const struct forecast *f, u32 i, u32 bin, bool by_timer)
{
	if (bin >= f->outlook.end)
		return f->survival[f->outlook.end][i];
	if (!by_timer)
		return f->survival[bin][i] * f->hazard[i][bin];
	return f->survival[bin][i] *
	       (1 - f->hazard[i][bin] * part_before(bin, f->timer_ns));
}

static void reweigh(struct forecast *f, u32 bin, bool by_timer)
{
	float said[EXPERTS], joint[EXPERTS], sum = 0;
	u32 i;

	for (i = 0; i < EXPERTS; i++) {
		float own = likelihood(f, i, bin, by_timer);
		float faith = f->faith[i];

		said[i] = own;
		if (i) {
			said[i] = faith * own +
				  (1 - faith) * said[experts[i].parent];
			faith *= own / fmaxf(said[i], FLT_MIN);
			f->faith[i] = DOUBT + (1 - 2 * DOUBT) *
					      fminf(faith, 1);
		}
		joint[i] = f->weight[i] * said[i];
		sum += joint[i];
	}
	/* None of them thought it possible: none is better than another. */
	if (sum < FLT_MIN)
		return;
	for (i = 0; i < EXPERTS; i++)
		f->weight[i] = (1 - SHARE) * joint[i] / sum + SHARE / EXPERTS;
}

static void row_learn(struct forecast *f, u32 i, u32 bin, bool by_timer)
{
	struct row *row = &f->rows[f->row[i]];
	float keep = 1 - 1 / experts[i].window;
	u32 j;

	if (row->key != f->key[i] + 1) {
		memset(row, 0, sizeof(*row));
		row->key = f->key[i] + 1;
	}
	row->faith = f->faith[i];
	for (j = 0; j < f->high; j += BLOCK) {
		((struct block *)(row->reached + j))->n *= keep;
		((struct block *)(row->ended + j))->n *= keep;
	}
	for (j = 0; j < bin; j++)
		row->reached[j] += 1;
	row->reached[bin] += by_timer ? part_before(bin, f->timer_ns) : 1;
	if (!by_timer)
		row->ended[bin] += 1;
}

static double rate(const struct forecast *f, u32 most)
{
	return 1.0 / (f->learned < most ? f->learned : most);
}

static void remember(struct forecast *f, s64 length_ns, u32 bin)
{
	bool is_long = length_ns > f->usual_ns;
	u32 i;

	memmove(f->past + 1, f->past, sizeof(f->past) - sizeof(*f->past));
	f->past[0] = bin;
	f->sides = f->sides << 1 | is_long;
	f->usual_ns += (length_ns - f->usual_ns) * rate(f, 256);
	for (i = 0; i < LEVELS_KEPT; i++)
		f->level[i] += (bin - f->level[i]) * rate(f, 2 << 2 * i);
	if (is_long)
		f->run = 0;
	else if (f->run < RUN_MAX)
		f->run++;
}

/* Bins far beyond all that has happened need not be computed. */
static void limit_bins(struct forecast *f, u32 bin)
{
	u32 high = (bin / BLOCK + 1 + HEADROOM) * BLOCK;

	if (high > BINS)
		high = BINS;
	if (f->high < high || f->learned == 1)
		f->high = high;
}

/**
 * rp_outlook_learn() - the interval is over
 * @f: what is known, with the outlook for this interval
 * @length_ns: how long it has lasted
 */
void rp_outlook_learn(struct forecast *f, s64 length_ns)
{
	s64 near_ns = f->timer_ns / 16 < TIMER_NEAR_NS ? f->timer_ns / 16 :
							 TIMER_NEAR_NS;
	bool by_timer = length_ns >= f->timer_ns - near_ns &&
			length_ns <= f->timer_ns + near_ns;
	u32 bin = bin_of(by_timer ? f->timer_ns : length_ns);
	u32 i;

	f->learned++;
	reweigh(f, bin, by_timer);
	limit_bins(f, bin);
	for (i = 0; i < EXPERTS; i++)
		row_learn(f, i, bin, by_timer);
	if (!by_timer)
		f->mean_ns[bin] += (length_ns - f->mean_ns[bin]) * rate(f, 64);
	remember(f, length_ns, bin);
}

/* ---- What is to come ---- */

/**
 * rp_outlook_rest() - what is to come after some time
 * @o: the outlook
 * @now_ns: how long the interval has lasted by then
 *
 * Return: how likely it lasts longer, and for how long.
 */
struct rest rp_outlook_rest(const struct outlook *o, double now_ns)
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

/**
 * rp_outlook_init() - nothing is known yet
 * @f: of one CPU, all zero
 */
void rp_outlook_init(struct forecast *f)
{
	u32 i, row = 0;

	for (i = 0; i < BINS; i++) {
		f->prior[i] = PRIOR_HAZARD;
		f->mean_ns[i] = (bin_begin(i) + bin_begin(i + 1)) / 2;
	}
	for (i = 0; i < EXPERTS; i++) {
		f->weight[i] = 1.0f / EXPERTS;
		f->first_row[i] = row;
		row += experts[i].rows;
	}
	f->high = BINS;
}
