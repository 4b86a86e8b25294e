// SPDX-License-Identifier: GPL-2.0
/*
 * wteo - least expected cost, learned from what followed the same condition
 */

/**
 * DOC: wteo
 *
 * **Idea.** TEO expects the majority of recent cases to go on. But where nine of ten idle
 * periods last 30 us and the tenth 20 ms, the tenth decides about energy. The cost of state
 * k for a duration d is E_k + P_k * d; target residencies tell both, see common/energy.h. It
 * is linear in d, so the *mean* duration decides. The governor learns that mean for each
 * condition. The tick, if left running, gives a second decision and rules out short ones.
 *
 * **Terms.** An *interval* begins with a decision and ends when something else than the
 * governor's own doing wakes the CPU. Its own doing is a tick that it left running, before
 * the timer, and the end of a polling state's time. The interval then goes on with the next
 * decision, unless a task ran in between. The same holds after a refusal by the driver.
 *
 * The *column* of an interval is the deepest state whose target residency is within its
 * duration. The exit latency of the last state entered does not count as duration. One more
 * column, *never*, is for intervals that ended by the timer.
 *
 * The *condition* of an interval is the octave of the sleep length at its begin, with the
 * columns of the two intervals before. An interval that ended by the timer has the column of
 * its duration there.
 *
 * **Data.** A *row* holds the intervals that followed one condition. For each column it has
 * a *weight*, the frequency of its intervals, and a *time*, their part of the mean duration.
 * The *base row* is for any condition. A hash gives each condition a place among
 * %WTEO_KEYED other rows, and the neighbour's besides.
 *
 * - *Learning.* Each interval weighs more than the one before it by the same share, so old
 *   ones fade. The last one weighs learning_rate in a row that has learned for long.
 * - *Evidence.* A row remembers so many intervals: the sum of its weights over the weight
 *   that the next one will have. The sum halves with each half_life_ms without learning.
 * - *Base row.* It begins with one interval that lasts until the timer. It learns each
 *   interval whose row is in doubt or remembers less than three, and every eighth of all.
 * - *Doubt.* When the load changes, the base row foresees columns better than a condition's
 *   known row. The logarithm of their odds is summed up while it is positive (a CUSUM test).
 *   It begins at a column with less than a quarter of its row's weight. The base row is the
 *   row's prior, worth one interval a column. In the end all conditions are forgotten.
 * - *Places.* A condition that finds both of its places taken tries for either in turn. It
 *   gets the place if the row there remembers less than three intervals.
 *
 * **Choosing a state.** The steps in the order of the code:
 *
 * 1. The *usable* states are enabled and within the latency request. If none is, the
 *    shallowest enabled state is usable, or else state 0.
 * 2. The sleep length is read. If this decision begins an interval, its condition is noted.
 * 3. The row is the condition's if it remembers three intervals, else the base row.
 * 4. The *outlook* is computed from the row; each column lasts for its mean, and never until
 *    the timer. It has the expected time till the interval ends, and the *early* part of
 *    that before the next tick. The *late* weight is that of columns that last beyond the
 *    tick. Nothing lasts beyond the timer. One interval in 16384 more is taken to last until
 *    the timer. If the tick is stopped, nothing would correct a mistake: it is one in 256,
 *    or in as many as began since. There a timer counts beyond a second, too.
 * 5. If this decision resumes an interval, the time that has passed is taken off each
 *    column. Columns that are over by now are left out. A column whose mean has passed is
 *    memoryless: 3/8 of it outlast each mean. The deepest state's column is over after its
 *    mean; until then at most its target residency is taken off. If less than one interval
 *    in 128 is left, this one is of another kind, and expected to last as long again.
 * 6. The cheapest usable state is found for the expected time, and for the early part. It is
 *    the deepest state whose target residency, or that of a deeper one, is within the mean.
 *    There two states differ little in energy, but exit latency is certain. So E_k counts
 *    latency_bias more than once: with 1024, twice. The code takes that off the time. If a
 *    state is not usable, costs are compared. Of usable states beyond the first, those count
 *    that pay within the sleep length.
 * 7. A stopped tick stays stopped. Otherwise the tick is stopped if one interval in 128 is
 *    late, and to stop it costs less than to keep it. To keep it costs the early part, and
 *    for the late weight the cheapest state for the remaining time. The work of stopping
 *    counts as %STOP_NS at full power. Polling never stops the tick.
 */

#include "wteo.h"

/* The base row remembers sixteen intervals, to forget an old load soon: 1/16 in 2^20. */
#define BASE_GROWTH	0x10000u

/* At odds of 4096 to one, in 16ths of a bit, all conditions are forgotten. */
#define DOUBT_MAX	(12 * CIL_LOG2_ONE)

/* Work of stopping the tick, as time at full power: 2 or 10 us have up to 0.3 points more. */
#define STOP_NS		(5 * CIL_NSEC_PER_USEC)

/* One interval in 128 is rare: if fewer are late, the tick costs less than to compare. */
#define RARE_SHIFT	7

/* One in 256: else power9, its tick stopped, has 17 points more in 20,000 intervals. */
#define STOPPED_SHIFT	8

/* Takes over the tunables, all of them at once; by shifts, for it is on select's way. */
static void prepare(struct wteo *w, const struct wteo_tunables *t)
{
	w->tunables = *t;
	/* A share g more each time, of 20 fraction bits, gives the last one g / (1 + g). */
	w->growth = (u32)cil_divide_by_shifts((u64)t->learning_rate << 20,
					      1000 - t->learning_rate);
	w->half_life = S32_MAX;
	if (t->half_life_ms)
		w->half_life = (s32)((t->half_life_ms * (u64)CIL_NSEC_PER_MSEC - 1) >>
				     WTEO_STEP_SHIFT) + 1;
	w->discount = (u32)cil_divide_by_shifts(1024ULL << 30, 1024 + t->latency_bias);
}

static void wteo_init(void *state, const struct cil_machine *machine,
		      const void *tunables)
{
	static const u32 unknown_mw[CIL_STATE_MAX];
	struct wteo *w = state;
	struct wteo_row *base = wteo_row(w, WTEO_BASE);
	u32 k = machine->state_count;

	memset(w, 0, sizeof(*w));
	/* Powers are derived from the target residencies, which drivers know. */
	cil_energy_set(w->costs, machine, unknown_mw);
	w->begin_ns[k] = WTEO_NO_DURATION;
	while (k--) {
		s64 pays_ns = machine->states[k].target_residency_ns;
		s64 latency_ns = machine->states[k].exit_latency_ns;

		w->begin_ns[k] = w->begin_ns[k + 1];
		if (pays_ns < w->begin_ns[k] && pays_ns < CIL_DURATION_MAX)
			w->begin_ns[k] = wteo_duration(pays_ns);
		if (latency_ns > w->greatest_latency_ns)
			w->greatest_latency_ns = latency_ns;
	}
	w->begin_ns[0] = 0;
	prepare(w, tunables);
	w->learned = CIL_ROW_NONE;
	w->history = WTEO_KEY_HISTORY;
	/* As long as nothing is known, the timer is believed: once. */
	base->cells[machine->state_count].weight = WTEO_FIRST_WEIGHT;
	base->total = WTEO_FIRST_WEIGHT;
	base->next = WTEO_FIRST_WEIGHT;
}

/* Divides what a row knows by a power of two. */
static noinline void shrink(struct wteo_row *row, u32 columns, u32 shift)
{
	u32 k;

	row->total = 0;
	row->time = 0;
	for (k = 0; k < columns; k++) {
		row->cells[k].weight >>= shift;
		row->cells[k].time >>= shift;
		row->total += row->cells[k].weight;
		row->time += row->cells[k].time;
	}
}

/* A row at its age: it loses half with each half-life. A clock that went back ages nothing. */
static noinline void grow_old(const struct wteo *w, struct wteo_row *row, u32 columns, u32 now)
{
	while ((s32)(now - row->learned) >= w->half_life && row->total) {
		row->learned += (u32)w->half_life;
		shrink(row, columns, 1);
	}
}

static inline struct wteo_row *aged_row(const struct wteo *w, u32 slot, u32 columns,
					u32 now)
{
	struct wteo_row *row = wteo_row(w, slot);

	if ((s32)(now - row->learned) >= w->half_life)
		grow_old(w, row, columns, now);
	return row;
}

/* Three intervals: with nine mean regret is 0.01 points greater on four tables. */
static inline bool remembers_enough(const struct wteo_row *row)
{
	return row->total >= (u64)row->next * 3;
}

/* Each interval weighs more than the one before it, so learning touches one cell. */
static inline void learn(struct wteo_row *row, u32 columns, u32 column,
			 u32 duration_ns, u32 now, u32 growth)
{
	u32 weight = row->next;
	u32 time = wteo_product(weight, duration_ns);

	row->cells[column].weight += weight;
	row->cells[column].time += time;
	row->time += time;
	row->total += weight;
	row->next = weight + (u32)((u64)weight * growth >> 20);
	row->learned = now;
	if (row->total > WTEO_TOTAL_MAX) {
		row->next >>= 3;
		shrink(row, columns, 3);
	}
}

/* Did the base row foresee a column better than the condition's? Its prior is Laplace's. */
static noinline bool is_in_doubt(struct wteo *w, u32 columns, u32 column)
{
	const struct wteo_row *base = wteo_row(w, WTEO_BASE);
	const struct wteo_row *row = wteo_row(w, w->slot);
	u64 prior = (u64)columns * row->next;
	u64 by_base = (u64)base->cells[column].weight + base->next;
	u64 of_base = base->total + (u64)columns * base->next;
	/* Their shares of the column, each times the same. */
	s32 doubt = w->doubt + cil_log2(by_base * (row->total + prior)) -
		    cil_log2(row->cells[column].weight * of_base + prior * by_base);
	u32 k;

	w->doubt = (u8)cil_clamp(doubt, 0, DOUBT_MAX);
	if (w->doubt < DOUBT_MAX)
		return w->doubt;
	for (k = 1; k < WTEO_ROWS; k++)
		wteo_row(w, k)->key = wteo_row(w, k)->total = 0;
	w->doubt = 0;
	return true;
}

/* Learns from the end of an interval. */
static void end_interval(struct wteo *w, const struct cil_machine *machine,
			 const struct cil_outcome *outcome)
{
	u32 never = machine->state_count, columns = never + 1;
	u32 column = never - 1;
	u32 now = (u32)(outcome->now_ns >> WTEO_STEP_SHIFT);
	struct wteo_row *row = aged_row(w, w->slot, columns, now);
	u32 duration_ns, learned;
	bool is_known;

	/*
	 * The rest may be too short, as latencies are worst cases. A shallower state
	 * heals that. With less off, a deep state would look right for ever.
	 */
	duration_ns = wteo_duration((s64)(outcome->residency_ns -
					  (u64)machine->states[outcome->index].exit_latency_ns));
	duration_ns = wteo_duration((s64)(duration_ns + w->decided_ns - w->began_ns));
	while (w->begin_ns[column] > duration_ns)
		column--;
	learned = (s64)outcome->residency_ns >= w->sleep_length_ns ? never : column;
	w->intervals++;
	is_known = row->key == w->key && remembers_enough(row);
	if (is_known && (w->doubt || row->cells[learned].weight < row->total / 4))
		is_known = !is_in_doubt(w, columns, learned);
	/* The condition gets the row if it is free, or another one that knows little has it. */
	if (row->key != w->key && (!row->key || !remembers_enough(row))) {
		shrink(row, columns, 31);
		row->key = w->key;
		row->next = WTEO_FIRST_WEIGHT;
	}
	if (row->key == w->key) {
		learn(row, columns, learned, duration_ns, now, w->growth);
		w->learned = w->slot;
	}
	if (!is_known || w->intervals % 8 == 0)
		learn(aged_row(w, WTEO_BASE, columns, now), columns, learned,
		      duration_ns, now, BASE_GROWTH);
	/* The condition for the next interval, as far as it is known. */
	w->history = WTEO_KEY_HISTORY | column << 8 | (w->history & 0xf00) << 4;
}

static void wteo_update(void *state, const struct cil_machine *machine,
			const void *tunables, const struct cil_outcome *outcome)
{
	struct wteo *w = state;

	(void)tunables;
	w->learned = CIL_ROW_NONE;
	if (!w->open)
		return;
	/* A wake-up that is the governor's own doing does not end the interval. */
	w->open = !outcome->left &&
		  (outcome->poll_time_limit ||
		   (outcome->tick_wakeup && w->keeps_tick &&
		    (s64)outcome->residency_ns < w->sleep_length_ns));
	if (!w->open)
		end_interval(w, machine, outcome);
}

/**
 * struct outlook - what is expected of an interval
 * @timer_ns: time to the next timer without the tick
 * @tick_ns: time to the next timer or tick
 * @share: weight of the columns that are possible
 * @late: weight of those that last beyond the tick
 * @time: expected time to the end, as a wteo_product() with @share
 * @early_time: the part of @time before the tick
 */
struct outlook {
	u32 timer_ns;
	u32 tick_ns;
	u32 share;
	u32 late;
	u32 time;
	u32 early_time;
};

/* Step 1, where a state is disabled or beyond the latency request: a mask of the others. */
static noinline u32 find_usable(const struct cil_machine *machine,
				const struct cil_query *query)
{
	u32 enabled = ~query->disabled & ((1u << machine->state_count) - 1);
	u32 usable = enabled;
	u32 k;

	for (k = 0; k < machine->state_count; k++)
		if (machine->states[k].exit_latency_ns > query->latency_req_ns)
			usable &= ~(1u << k);
	/* If none meets the request, the shallowest comes nearest. */
	if (!usable)
		usable = enabled & -enabled;
	return usable ? usable : 1;
}

/* Step 2: the factor, a prime near 2^32 over the golden ratio (Knuth), spreads keys. */
static inline void begin(struct wteo *w, const struct cil_query *query, u32 timer_ns)
{
	u32 key = 32 - (u32)__builtin_clz(timer_ns | 1) + w->history;
	u32 place = (u64)(key * 2654435761u) * WTEO_KEYED >> 32;
	u32 first = wteo_row(w, 1 + place)->key;
	const struct wteo_row *other = wteo_row(w, 1 + (place ^ 1));

	if (first != key && (other->key == key ||
			     (first && (!other->key || (w->intervals & 1)))))
		place ^= 1;
	w->key = key;
	w->slot = (u8)(1 + place);
	w->began_ns = query->now_ns;
	w->stopped = query->tick_stopped ?
		     w->stopped + (w->stopped < 1u << WTEO_UNSEEN_SHIFT) : 0;
}

/* Step 4: some weight, and what it expects, bounded by tick and timer. */
static inline void expect(struct outlook *o, u32 weight, u32 time)
{
	u32 until_tick = wteo_product(weight, o->tick_ns);
	u32 until_timer = until_tick;

	if (time <= until_tick) {
		o->early_time += time;
		o->time += time;
		return;
	}
	o->early_time += until_tick;
	if (o->timer_ns != o->tick_ns) {
		until_timer = wteo_product(weight, o->timer_ns);
		o->late += weight;
	}
	o->time += time < until_timer ? time : until_timer;
}

/* Step 5: a column may reach from 1 us to 10 ms, and that of the deepest state has no end. */
static noinline struct outlook see_rest(struct outlook o, const struct wteo *w,
					const struct wteo_row *row, u32 states,
					u64 now_ns)
{
	u32 over_ns = wteo_duration((s64)(now_ns - w->began_ns));
	u32 k;

	for (k = 0; k < states; k++) {
		struct wteo_cell cell = row->cells[k];
		u32 over = wteo_product(cell.weight, over_ns);
		u32 mean = cell.time;

		if (over_ns >= w->begin_ns[k + 1])
			continue;
		if (k + 1 == states && over_ns > w->begin_ns[k]) {
			if (over > mean)
				continue;
			over = wteo_product(cell.weight, w->begin_ns[k]);
		}
		if (over < mean) {
			cell.time -= over;
			over = 0;
		}
		for (; over >= mean && cell.weight; over -= mean) {
			cell.weight = cell.weight / 8 * 3;
			cell.time = cell.time / 8 * 3;
		}
		o.share += cell.weight;
		expect(&o, cell.weight, cell.time);
	}
	if (o.share + row->cells[states].weight < row->total >> RARE_SHIFT) {
		o.share = row->total;
		expect(&o, row->total, wteo_product(row->total, over_ns));
	}
	o.share += row->cells[states].weight;
	return o;
}

/* Steps 4 and 5. */
static inline struct outlook look_ahead(const struct wteo *w, u32 states,
					const struct cil_query *query,
					const struct wteo_row *row, u32 timer_ns)
{
	u32 shift = WTEO_UNSEEN_SHIFT;
	struct outlook o = { .timer_ns = timer_ns, .tick_ns = wteo_duration(query->delta_tick_ns) };
	u32 k = states;
	u32 unseen;

	if (query->now_ns != w->began_ns) {
		o = see_rest(o, w, row, states, query->now_ns);
	} else {
		o.share = row->total;
		o.time = row->time - row->cells[k].time;
		o.early_time = o.time;
		/* The others are over before the tick. */
		while (w->begin_ns[k] > o.tick_ns) {
			k--;
			o.early_time -= row->cells[k].time;
			o.time -= row->cells[k].time;
			expect(&o, row->cells[k].weight, row->cells[k].time);
		}
	}
	if (query->tick_stopped) {
		s64 beyond_ns;

		shift = 31 - (u32)__builtin_clz(w->stopped | 1u << STOPPED_SHIFT);
		/* A timer may be a minute away: what lies beyond a second counts, too. */
		beyond_ns = (query->sleep_length_ns >> shift) - (CIL_DURATION_MAX >> shift);
		o.time += wteo_product(row->total, wteo_duration(beyond_ns));
	}
	unseen = row->total >> shift;
	o.share += unseen;
	/* More than any timer. */
	expect(&o, row->cells[states].weight + unseen, U32_MAX);
	return o;
}

/* Below 2^63, so two may be added: a share has 30 bits, a power 16. */
static inline u64 cost(const struct wteo *w, u32 index, u32 share, u32 time)
{
	const struct cil_cost *cost = &w->costs[index];

	return (cost->entry >> 14) * share + ((u64)cost->power * time << 14);
}

/* Step 6, for intervals of so much weight and time; @usable is 0 where all states are. */
static inline u32 cheapest(const struct wteo *w, u32 states, u32 usable,
			   u32 timer_ns, u32 share, u32 time)
{
	u32 best = states - 1;
	u32 k;

	if (!usable) {
		while (wteo_product(share, w->begin_ns[best]) > time)
			best--;
		return best;
	}
	best = (u32)__builtin_ctz(usable);
	for (k = best + 1; usable >> k && w->begin_ns[k] <= timer_ns; k++)
		if (usable >> k & 1 && cost(w, k, share, time) <= cost(w, best, share, time))
			best = k;
	return best;
}

/* A time for step 6, where E_k counts once. */
static inline u32 discounted(const struct wteo *w, u32 time)
{
	return (u64)time * w->discount >> 30;
}

static void wteo_select(void *state, const struct cil_machine *machine,
			const void *tunables, struct cil_query *query,
			struct cil_decision *decision)
{
	struct wteo *w = state;
	u32 states = machine->state_count;
	u32 timer_ns, early_time, index, usable = 0;
	bool stops = query->tick_stopped;
	const struct wteo_row *row;
	struct outlook o;

	if (memcmp(&w->tunables, tunables, sizeof(w->tunables)))
		prepare(w, tunables);
	if (query->disabled || query->latency_req_ns < w->greatest_latency_ns)
		usable = find_usable(machine, query);
	timer_ns = wteo_duration(cil_sleep_length(query));
	/* Without an outcome the driver refused, or there was work that is done already. */
	if (!w->open || query->left)
		begin(w, query, timer_ns);
	/* Step 3: the condition's row, if it knows enough. */
	row = aged_row(w, w->slot, states + 1, (u32)(query->now_ns >> WTEO_STEP_SHIFT));
	decision->row = w->slot;
	if (row->key != w->key || !remembers_enough(row)) {
		row = wteo_row(w, WTEO_BASE);
		decision->row = WTEO_BASE;
	}
	o = look_ahead(w, states, query, row, timer_ns);
	early_time = discounted(w, stops ? o.time : o.early_time);
	index = cheapest(w, states, usable, timer_ns, o.share, early_time);
	/* Step 7: is it cheaper to stop the tick than to be asked again by it? */
	if (!stops && o.late >= o.share >> RARE_SHIFT) {
		u32 time = discounted(w, o.time);
		u32 stop = cheapest(w, states, usable, timer_ns, o.share, time);
		u32 after = cheapest(w, states, usable, timer_ns, o.late, time - early_time);
		u64 work = (u64)w->costs[0].power * discounted(w, STOP_NS) * (o.share >> 14);

		stops = !machine->states[stop].polling &&
			cost(w, stop, o.share, time) + work <
			cost(w, index, o.share, early_time) +
			cost(w, after, o.late, time - early_time);
		if (stops)
			index = stop;
	}
	decision->index = (u8)index;
	decision->stop_tick = stops;
	decision->reason = stops ? CIL_REASON_WTEO_EXPECTED : CIL_REASON_WTEO_EXPECTED_TICK;
	w->open = true;
	w->decided_ns = query->now_ns;
	w->sleep_length_ns = query->sleep_length_ns;
	w->keeps_tick = !stops;
}

static int wteo_row_learned(const void *state,
			    const struct cil_machine *machine,
			    u16 weights[CIL_STATE_MAX])
{
	const struct wteo *w = state;
	u32 n = machine->state_count;
	u16 shares[WTEO_COLUMNS];

	if (w->learned == CIL_ROW_NONE)
		return -1;
	cil_view(&wteo_row(w, w->learned)->cells->weight, 2, n + 1, shares);
	memcpy(weights, shares, n * sizeof(*weights));
	/* The trace has as many columns as states. */
	weights[n - 1] += shares[n];
	return w->learned;
}

/* Rows that know something: the columns before, the later one last, and the timer; weights. */
static void wteo_dump(const void *state, const struct cil_machine *machine,
		      const void *tunables, u64 now_ns, struct cil_sink *sink)
{
	const struct wteo *w = state;
	u32 n = machine->state_count;
	u16 shares[WTEO_COLUMNS];
	u32 i, k;

	(void)tunables;
	cil_env_print(sink, "Weights of 10000: what followed a condition\nrow %-20s",
		      "before     timer");
	for (k = 0; k < n; k++)
		cil_env_print(sink, "    s%u", k);
	cil_env_print(sink, " never | evidence mean (us)\n");
	for (i = 0; i < WTEO_ROWS; i++) {
		const struct wteo_row *row = wteo_row(w, i);
		s32 age = (s32)((u32)(now_ns >> WTEO_STEP_SHIFT) - row->learned) / w->half_life;
		u64 left = row->total >> cil_clamp(age, 0, 31);

		if (!row->total)
			continue;
		cil_env_print(sink, "%3u ", i);
		if (i == WTEO_BASE)
			cil_env_print(sink, "%-20s", "any");
		else
			cil_env_print(sink, "s%u s%u < %10llu us ", row->key >> 12 & 0xf,
				      row->key >> 8 & 0xf,
				      (1ULL << (row->key & 0x1f)) / 1000 + 1);
		cil_view(&row->cells->weight, 2, n + 1, shares);
		for (k = 0; k <= n; k++)
			cil_env_print(sink, " %5u", shares[k]);
		cil_env_print(sink, " | %8llu %9llu\n", (unsigned long long)
			      cil_divide(left + row->next / 2, row->next),
			      (unsigned long long)
			      cil_divide(cil_divide((u64)row->time << WTEO_PRODUCT_SHIFT,
						    row->total), CIL_NSEC_PER_USEC));
	}
}

static const struct cil_tunable wteo_tunables[] = {
	{
		.name = "learning_rate",
		.unit = "per mille",
		.what = "What the last interval weighs in a row that has learned for long.",
		.why = "Half of a row is 43 intervals: a mean of fewer errs by too much.",
		.min = 1, .max = 100, .def = 16,
	}, {
		.name = "half_life_ms",
		.unit = "ms",
		.what = "Time in which an untouched row loses half of what it knows; 0: never.",
		.why = "A minute: a row that knew for long is asked for four more.",
		.min = 0, .max = 86400000, .def = 60000,
	}, {
		.name = "latency_bias",
		.unit = "per 1024",
		.what = "What entering and leaving a state counts beside its energy.",
		.why = "A state saves what it costs to enter: exit latency is at most TEO's.",
		.min = 0, .max = 8192, .def = 1024,
	},
};

static_assert(sizeof(wteo_tunables) / sizeof(*wteo_tunables) ==
	      sizeof(struct wteo_tunables) / sizeof(u32),
	      "a description for each tunable");

const struct cil_policy wteo_policy = {
	.name = "wteo",
	.state_size = sizeof(struct wteo),
	.tunables = wteo_tunables,
	.tunable_count = sizeof(struct wteo_tunables) / sizeof(u32),
	.init = wteo_init,
	.select = wteo_select,
	.update = wteo_update,
	.dump = wteo_dump,
	.row_learned = wteo_row_learned,
};
