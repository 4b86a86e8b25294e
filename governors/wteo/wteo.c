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
 * The *condition* of an interval is known when it begins. It is the octave of the sleep
 * length, with the columns of the two intervals before. There, an interval that ended by the
 * timer has the column of its duration.
 *
 * **Data.** A *row* holds the intervals that followed one condition. For each column it has
 * a *weight*, the frequency of its intervals, and a *time*, their part of the mean duration.
 * The *base row* is for any condition. There are %WTEO_KEYED other rows. A hash gives each
 * condition a place among them, and the neighbour's besides.
 *
 * - *Learning.* Each interval weighs more than the one before it by the same share, so old
 *   ones fade. The last one weighs learning_rate in a row that has learned for long. A new
 *   row averages at first.
 * - *Evidence.* A row remembers so many intervals: the sum of its weights over the weight
 *   that the next one will have.
 * - *Aging.* Evidence fades by half with each half_life_ms in which the row learns nothing.
 * - *Base row.* It begins with one interval that lasts until the timer. It learns each
 *   interval whose row is in doubt or remembers less than %WTEO_KNOWN, and every eighth of
 *   all. It remembers sixteen.
 * - *Doubt.* When the load changes, the base row foresees columns better than a condition's
 *   known row. The logarithm of their odds is summed up while it is positive (a CUSUM test).
 *   It begins at a column with less than a quarter of its row's weight. The base row is the
 *   row's prior, worth one interval a column. At odds of 4096 to one, all conditions are
 *   forgotten.
 * - *Places.* A condition that finds both of its places taken tries for either in turn. It
 *   gets the place if the row there remembers less than %WTEO_KNOWN intervals.
 *
 * **Choosing a state.** The steps in the order of the code:
 *
 * 1. The *usable* states are enabled and within the latency request. If none is, the
 *    shallowest enabled state is usable, or else state 0.
 * 2. The sleep length is read. If this decision begins an interval, its condition is noted.
 * 3. The row is the condition's if it remembers %WTEO_KNOWN intervals, else the base row.
 * 4. The *outlook* is computed from the row; each column lasts for its mean, and never until
 *    the timer. It has the expected time till the interval ends, and the *early* part of
 *    that before the next tick. The *late* weight is that of columns that last beyond the
 *    tick. Nothing lasts beyond the timer. One interval in 16384 more is taken to last until
 *    the timer. If the tick is stopped, nothing would correct a mistake: it is one in 256,
 *    or in as many as began since. There a timer counts beyond a second, too. All other
 *    durations count as a second at most.
 * 5. If this decision resumes an interval, the time that has passed is taken off each
 *    column. Columns that are over by now are left out. A column whose mean has passed is
 *    memoryless: 3/8 of it outlast each mean. The deepest state's column is over after its
 *    mean; until then at most its target residency is taken off. If less than one interval
 *    in 128 is left, the row does not know such intervals. This one is expected to last as
 *    long again.
 * 6. The cheapest usable state is found for the whole of the expected time and for the early
 *    part. It is the deepest state whose target residency, or that of a deeper one, is within
 *    the mean. There two states differ little in energy, but exit latency is certain. So E_k
 *    counts latency_bias more than once: with 1024, twice. The code takes that off the time.
 *    If a state is not usable, costs are compared. Of usable states beyond the first, those
 *    count that pay within the sleep length.
 * 7. A stopped tick stays stopped. Otherwise the tick is stopped if one interval in 128 is
 *    late, and to stop it costs less than to keep it. To keep it costs the early part, and
 *    for the late weight the cheapest state for the remaining time. The work of stopping
 *    counts as %STOP_NS at full power. Polling never stops the tick.
 */

#include "wteo.h"

/**
 * wteo_prepare() - take over the tunables, all of them at once
 * @w: what is remembered
 * @machine: the idle states
 * @t: the tunables
 *
 * Context: any, but rarely: it divides, by shifts, for it is on select's way.
 */
void wteo_prepare(struct wteo *w, const struct cil_machine *machine,
		  const struct wteo_tunables *t)
{
	w->tunables = *t;
	/* A share g more each time gives the last one the share g / (1 + g). */
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
	struct wteo_row *base;
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
	wteo_prepare(w, machine, tunables);
	w->all_states = (1u << machine->state_count) - 1;
	w->learned = CIL_ROW_NONE;
	w->history = WTEO_KEY_HISTORY;
	w->lines = wteo_lines(machine->state_count);
	/* As long as nothing is known, the timer is believed: once. */
	base = wteo_row(w, WTEO_BASE);
	base->cells[machine->state_count].weight = WTEO_FIRST_WEIGHT;
	base->total = WTEO_FIRST_WEIGHT;
	base->next = WTEO_FIRST_WEIGHT;
}

/* A row in ten-thousandths, for people. */
static void view(const struct wteo *w, u32 columns, u32 slot, u16 *weights)
{
	cil_view(&wteo_row(w, slot)->cells->weight,
		 sizeof(struct wteo_cell) / sizeof(u32), columns, weights);
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
	view(w, n + 1, w->learned, shares);
	memcpy(weights, shares, n * sizeof(*weights));
	/* The trace has as many columns as states. */
	weights[n - 1] += shares[n];
	return w->learned;
}

static void print_us(struct cil_sink *sink, const char *format, u64 time_ns)
{
	cil_env_print(sink, format, (unsigned long long)
		      cil_divide(time_ns, CIL_NSEC_PER_USEC));
}

/* A row: the columns before, the later one last, and the timer; its weights. */
static void dump_row(const struct wteo *w, u32 columns, u32 slot, u32 now,
		     struct cil_sink *sink)
{
	const struct wteo_row *row = wteo_row(w, slot);
	u32 left = wteo_evidence(w, row, now);
	u16 shares[WTEO_COLUMNS];
	u64 time = 0;
	u32 k;

	cil_env_print(sink, "%3u ", slot);
	if (slot == WTEO_BASE)
		cil_env_print(sink, "%-20s", "any");
	else
		cil_env_print(sink, "s%u s%u < %10llu us ", row->key >> 12 & 0xf,
			      row->key >> 8 & 0xf,
			      (1ULL << (row->key & WTEO_KEY_OCTAVE)) / 1000 + 1);
	view(w, columns, slot, shares);
	for (k = 0; k < columns; k++) {
		cil_env_print(sink, " %5u", shares[k]);
		time += row->cells[k].time;
	}
	cil_env_print(sink, " | %8llu", (unsigned long long)
		      cil_divide(left + row->next / 2, row->next));
	print_us(sink, " %9llu\n", cil_divide(time << WTEO_PRODUCT_SHIFT, row->total));
}

static void wteo_dump(const void *state, const struct cil_machine *machine,
		      const void *tunables, u64 now_ns, struct cil_sink *sink)
{
	const struct wteo *w = state;
	u32 n = machine->state_count;
	u32 k;

	(void)tunables;
	cil_env_print(sink, "Weights of 10000: what followed a condition\n");
	cil_env_print(sink, "row %-20s", "before     timer");
	for (k = 0; k < n; k++)
		cil_env_print(sink, "    s%u", k);
	cil_env_print(sink, " never | evidence mean (us)\n");
	for (k = 0; k < WTEO_ROWS; k++)
		if (wteo_row(w, k)->total)
			dump_row(w, n + 1, k, wteo_steps(now_ns), sink);
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
