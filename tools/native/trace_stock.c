// SPDX-License-Identifier: GPL-2.0
/*
 * trace-columns on a recording made without the module: decisions, outcomes and
 * configurations are made of the kernel's own events (stock.h), and go the way
 * of the module's.
 *
 * Facts that no event tells come from the caller, in options:
 *
 *	--machine=CPUS;TICK_NS;LATENCY_REQ_NS;DISABLED;POLLING;NAME,EXIT_NS,TARGET_NS,POWER_MW;...
 *	--governor=FROM_NS;NUMBER;NAME
 *	--kernel=RELEASE
 *	--migrates
 *	--strict
 *	--no-probes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_formats.h"

/* Number of the softirq in which RCU works. */
#define RCU_SOFTIRQ	9

/* Flags of a wheel timer: the CPU on whose wheel it is. */
#define WHEEL_CPU	0x3ffff

/* ---- Options. ---- */

static void add_state(struct reader *r, struct stock_machine *m,
		      const char *text)
{
	struct cil_period_machine *to = &m->machine;
	u32 k = to->states;
	size_t used = strlen(m->names);
	long long exit_ns, target_ns;
	char name[32];
	u32 power_mw;

	if (k == CIL_STATE_MAX ||
	    sscanf(text, "%31[^,],%lld,%lld,%u", name, &exit_ns, &target_ns,
		   &power_mw) != 4)
		cil_fail(r, "was given a machine that cannot be read: %s", text);
	to->exit_latency_ns[k] = exit_ns;
	to->target_residency_ns[k] = target_ns;
	to->power_mw[k] = power_mw;
	to->states++;
	snprintf(m->names + used, sizeof(m->names) - used, "%s%s",
		 k ? "," : "", name);
}

static void add_machine(struct reader *r, const char *text)
{
	struct stock_reader *s = &r->stock;
	struct stock_machine *m;
	long long tick_ns, latency_req_ns;
	char *copy, *word, *rest;
	int used = 0;

	m = realloc(s->machines, (s->machine_count + 1) * sizeof(*m));
	copy = strdup(text);
	if (!m || !copy)
		cil_fail(r, "needs more memory than there is");
	s->machines = m;
	m += s->machine_count++;
	memset(m, 0, sizeof(*m));
	if (sscanf(copy, "%u-%u;%lld;%lld;%u;%u;%n", &m->first, &m->last,
		   &tick_ns, &latency_req_ns, &m->disabled,
		   &m->machine.polling, &used) != 6 || !used)
		cil_fail(r, "was given a machine that cannot be read: %s", text);
	m->machine.tick_ns = tick_ns;
	m->latency_req_ns = latency_req_ns;
	for (rest = copy + used; (word = strsep(&rest, ";"));)
		add_state(r, m, word);
	free(copy);
	s->is_on = true;
}

static void add_governor(struct reader *r, const char *text)
{
	struct stock_reader *s = &r->stock;
	struct stock_governor *g = &s->governors[s->governor_count];
	unsigned long long from_ns;
	unsigned int number;

	if (s->governor_count == STOCK_GOVERNORS_MAX)
		cil_fail(r, "changes its governor more often than %u times",
			 STOCK_GOVERNORS_MAX);
	if (sscanf(text, "%llu;%u;%31s", &from_ns, &number, g->name) != 3)
		cil_fail(r, "was given a governor that cannot be read: %s", text);
	g->from_ns = from_ns;
	g->number = number;
	s->governor_count++;
}

/**
 * cil_stock_option() - take a word of the command line
 * @r: the run
 * @word: the word
 *
 * Return: whether it is one of the options above.
 */
bool cil_stock_option(struct reader *r, const char *word)
{
	if (!strncmp(word, "--machine=", 10))
		add_machine(r, word + 10);
	else if (!strncmp(word, "--governor=", 11))
		add_governor(r, word + 11);
	else if (!strcmp(word, "--strict"))
		r->stock.is_strict = true;
	else if (!strcmp(word, "--migrates"))
		r->stock.migrates = true;
	else if (!strcmp(word, "--no-probes"))
		r->stock.has_no_probes = true;
	else if (!strncmp(word, "--kernel=", 9))
		snprintf(r->stock.kernel, sizeof(r->stock.kernel), "%s",
			 word + 9);
	else
		return false;
	return true;
}

/* ---- Rows. ---- */

static const char *take_decision(void *context, const struct cil_period *d)
{
	struct reader *r = context;

	cil_put_members(r, TABLE_DECISION, d->ts, d);
	return cil_periods_decision(&r->periods, d);
}

static const char *take_outcome(void *context,
				const struct cil_period_outcome *o)
{
	struct reader *r = context;

	cil_put_members(r, TABLE_OUTCOME, o->ts, o);
	return cil_periods_outcome(&r->periods, o);
}

/* The row of config that the module would have written first. */
static void put_config(struct reader *r, const struct stock_machine *m, u32 cpu)
{
	const struct cil_period_machine *machine = &m->machine;
	struct cil_chunk *chunk = &r->chunks[TABLE_CONFIG];
	const char *texts[] = { m->names, "", "", r->stock.kernel };
	size_t i;

	if (!r->wanted[TABLE_CONFIG])
		return;
	cil_put_number(chunk, 0, 0);
	cil_put_number(chunk, 1, cpu);
	cil_put_number(chunk, 2, 0);
	cil_put_number(chunk, 3, 0);
	cil_put_number(chunk, 4, cpu);
	cil_put_number(chunk, 5, machine->tick_ns);
	cil_put_number(chunk, 6, r->stock.state.governor);
	cil_put_number(chunk, 7, machine->states);
	cil_put_number(chunk, 8, machine->polling);
	cil_put_content(chunk, 9, machine->exit_latency_ns, 0);
	cil_put_content(chunk, 10, machine->target_residency_ns, 0);
	cil_put_content(chunk, 11, machine->power_mw, 0);
	for (i = 0; i < 4; i++) {
		if (cil_put_content(chunk, 12 + i, texts[i], strlen(texts[i])))
			cil_fail(r, "needs more memory than there is");
	}
	cil_end_row(r, chunk);
}

/**
 * cil_stock_begin_cpu() - the events of the next CPU begin
 * @r: the run
 * @cpu: its number
 */
void cil_stock_begin_cpu(struct reader *r, u32 cpu)
{
	const struct cil_stock_sink sink = {
		.decision = take_decision,
		.outcome = take_outcome,
		.context = r,
	};
	struct stock_reader *s = &r->stock;
	const char *error;
	size_t i;

	s->current = NULL;
	s->held.is_held = false;
	for (i = 0; i < s->machine_count; i++) {
		if (cpu >= s->machines[i].first && cpu <= s->machines[i].last)
			s->current = &s->machines[i];
	}
	if (!s->current)
		return;
	error = cil_periods_config(&r->periods, &s->current->machine);
	if (error)
		cil_fail(r, "%s", error);
	cil_stock_begin(&s->state, &sink, &s->counts, &s->current->machine);
	cil_timers_begin(&s->state.all, s->current->machine.tick_ns);
	cil_timers_begin(&s->scan.known, s->current->machine.tick_ns);
	s->state.all.migrates = s->migrates;
	s->scan.event_ns = UINT64_MAX;
	s->scan.last_ns = 0;
	s->scan.ticks_met = 0;
	s->scan.ticks_missed = 0;
	s->scan.has_wheel = false;
	s->scan.has_probes = false;
	s->scan.has_returns = false;
	s->scan.met = 0;
	s->state.latency_req_ns = s->current->latency_req_ns;
	s->state.disabled = s->current->disabled;
	if (s->governor_count)
		s->state.governor = s->governors[0].number;
	put_config(r, s->current, cpu);
}

/**
 * cil_stock_end_cpu() - there are no more events of the CPU
 * @r: the run
 */
void cil_stock_end_cpu(struct reader *r)
{
	const char *error = cil_stock_end(&r->stock.state);

	if (error)
		cil_fail(r, "%s", error);
}

/* ---- First reading: what of the timers is there, and armed before. ---- */

/* No event takes longer to record. */
#define EVENT_MOST_NS	2000

/* A tick that comes so long after it was due was due by another clock. */
#define TICK_LATE_NS	10000000

static bool is_tick(const char *name)
{
	return name && (!strcmp(name, "tick_nohz_handler") ||
			!strcmp(name, "tick_sched_timer"));
}

/* The exit latency of the lab's emulated machine is a timer of its own. */
static bool is_emulators(const char *name)
{
	return name && !strcmp(name, "timer_expired");
}

static const char *function_of(const struct reader *r, size_t table,
			       size_t column, const struct tep_record *record)
{
	return cil_function_name(r, cil_read_field(r, table, column, record));
}

static void scan_hrtimer(struct reader *r, const struct tep_record *record)
{
	const char *name = function_of(r, TABLE_HRTIMER, 0, record);
	u64 timer = cil_read_field(r, TABLE_HRTIMER, 1, record);
	struct stock_scan *c = &r->stock.scan;

	if (is_tick(name)) {
		if (c->known.tick_due_ns == CIL_NEVER)
			return;
		if (record->ts >= c->known.tick_due_ns &&
		    record->ts - c->known.tick_due_ns < TICK_LATE_NS)
			c->ticks_met++;
		else
			c->ticks_missed++;
	} else if (!is_emulators(name) && !cil_timers_full(&c->known) &&
		   !cil_timers_knows(&c->known, timer)) {
		cil_timers_hrtimer(&c->known, timer, record->ts);
		cil_timers_hrtimer(&r->stock.state.all, timer, record->ts);
	}
}

static void scan_armed(struct reader *r, const struct tep_record *record)
{
	const char *name = function_of(r, TABLE_ARMED, 2, record);
	u64 timer = cil_read_field(r, TABLE_ARMED, 0, record);
	u64 due_ns = cil_read_field(r, TABLE_ARMED, 1, record);
	struct cil_timers *all = &r->stock.state.all;
	struct cil_timers *known = &r->stock.scan.known;

	if (!is_tick(name)) {
		cil_timers_hrtimer(known, timer, due_ns);
		return;
	}
	cil_timers_tick(known, record->ts, timer, due_ns);
	if (all->tick_phase_ns < 0)
		all->tick_phase_ns = known->tick_phase_ns;
}

static void scan_wheel(struct reader *r, u64 timer, u64 ts, bool starts)
{
	struct stock_scan *c = &r->stock.scan;

	c->has_wheel |= starts;
	if (cil_timers_full(&c->known) || cil_timers_knows(&c->known, timer))
		return;
	cil_timers_wheel_at(&c->known, timer, ts);
	if (!starts)
		cil_timers_wheel_at(&r->stock.state.all, timer, ts);
}

/* Does the idle task get the CPU back? */
static bool returns(const struct reader *r, const struct tep_record *record)
{
	return r->sources[TABLE_SWITCH][1].size &&
	       !cil_read_field(r, TABLE_SWITCH, 1, record);
}

/**
 * cil_stock_scan() - an event, before decisions are made of any
 * @r: the run
 * @table: its table, or NO_TABLE
 * @record: the event
 *
 * A timer that expires without having been armed was armed before the recording.
 * The shortest time from an event to the next says what recording one takes.
 */
void cil_stock_scan(struct reader *r, size_t table,
		    const struct tep_record *record)
{
	struct stock_scan *c = &r->stock.scan;
	u64 gap_ns = record->ts - c->last_ns;
	bool enters = table == TABLE_CPU_IDLE &&
		      (u32)cil_read_field(r, table, 0, record) != CIL_IDLE_EXIT;

	if (enters && c->last_ns && gap_ns && gap_ns < c->event_ns)
		c->event_ns = gap_ns;
	c->last_ns = record->ts;
	c->has_probes |= table == TABLE_STOP || table == TABLE_RETAIN;
	c->has_returns |= table == TABLE_SWITCH && returns(r, record);
	if (table == TABLE_ARMED)
		scan_armed(r, record);
	else if (table == TABLE_HRTIMER)
		scan_hrtimer(r, record);
	else if (table == TABLE_WHEEL || table == TABLE_TIMER)
		scan_wheel(r, cil_read_field(r, table,
					     table == TABLE_TIMER, record),
			   record->ts, table == TABLE_WHEEL);
}

/**
 * cil_stock_scan_other() - an event of another CPU, before all of this
 * @r: the run
 * @table: its table, or NO_TABLE
 * @record: the event
 *
 * The first power:cpu_idle event tells whether the CPU was idle before, and its
 * tick possibly stopped.
 */
void cil_stock_scan_other(struct reader *r, size_t table,
			  const struct tep_record *record)
{
	u64 *ticking = &r->stock.state.all.ticking;
	u64 cpu = 1ull << record->cpu % 64;

	if (!(r->stock.scan.met & cpu)) {
		*ticking |= cpu;
		if (table == TABLE_CPU_IDLE) {
			r->stock.scan.met |= cpu;
			if ((u32)cil_read_field(r, table, 0, record) ==
			    CIL_IDLE_EXIT)
				*ticking &= ~cpu;
		}
	}
	if (table == TABLE_ARMED || table == TABLE_WHEEL)
		cil_timers_hrtimer(&r->stock.scan.known,
				   cil_read_field(r, table, 0, record),
				   record->ts);
}

/**
 * cil_stock_scanned() - the events of the CPU were scanned
 * @r: the run
 */
void cil_stock_scanned(struct reader *r)
{
	const struct stock_scan *c = &r->stock.scan;
	struct cil_stock *s = &r->stock.state;

	if (c->event_ns <= EVENT_MOST_NS)
		s->event_ns = c->event_ns;
	s->has_probes = c->has_probes;
	s->has_all = c->has_wheel && c->ticks_met > c->ticks_missed;
	s->has_others = tep_get_cpus(r->tep) > 1;
	r->stock.counts.rebuilt += s->has_all;
}
/* ---- Events. ---- */

static u8 governor_at(const struct stock_reader *s, u64 ts)
{
	size_t i = s->governor_count;

	while (i && s->governors[i - 1].from_ns > ts)
		i--;
	return s->governors[i ? i - 1 : 0].number;
}

static const char *take_hrtimer(struct reader *r,
				const struct tep_record *record)
{
	const char *name = function_of(r, TABLE_HRTIMER, 0, record);
	u64 timer = cil_read_field(r, TABLE_HRTIMER, 1, record);
	struct cil_stock *s = &r->stock.state;

	if (is_tick(name)) {
		/* A later event tells if it is armed again. */
		cil_stock_tick(s, record->ts);
		s->all.tick_due_ns = CIL_NEVER;
	} else if (!is_emulators(name)) {
		cil_stock_expiry(s, record->ts);
		cil_timers_gone(&s->all, timer);
	}
	return NULL;
}

static const char *take_armed(struct reader *r, const struct tep_record *record)
{
	const char *name = function_of(r, TABLE_ARMED, 2, record);
	u64 timer = cil_read_field(r, TABLE_ARMED, 0, record);
	u64 due_ns = cil_read_field(r, TABLE_ARMED, 1, record);
	struct cil_stock *s = &r->stock.state;

	if (is_tick(name)) {
		cil_timers_tick(&s->all, record->ts, timer, due_ns);
		return cil_stock_tick_told(s);
	}
	if (!is_emulators(name))
		cil_timers_hrtimer(&s->all, timer, due_ns);
	return NULL;
}

static void take_wheel(struct reader *r, const struct tep_record *record)
{
	const struct cil_wheel_timer w = {
		.timer = cil_read_field(r, TABLE_WHEEL, 0, record),
		.expires = cil_read_field(r, TABLE_WHEEL, 1, record),
		.bucket = cil_read_field(r, TABLE_WHEEL, 2, record),
		.now = cil_read_field(r, TABLE_WHEEL, 3, record),
		.flags = cil_read_field(r, TABLE_WHEEL, 4, record),
	};

	cil_timers_wheel(&r->stock.state.all, record->ts, &w,
			 (w.flags & WHEEL_CPU) == r->periods.cpu);
}

/* The compiler begins with the highest bit where bytes do. */
static void take_reflect(struct reader *r, const struct tep_record *record)
{
	u32 bit = tep_is_file_bigendian(r->tep) ? 29 : 2;

	cil_stock_reflect(&r->stock.state,
			  cil_read_field(r, TABLE_REFLECT, 0, record),
			  cil_read_field(r, TABLE_REFLECT, 1, record) >> bit & 1);
}

/**
 * cil_stock_other() - what another CPU did to a timer
 * @r: the run
 * @table: table of the event, or NO_TABLE
 * @record: the event
 *
 * A timer that it arms, lets expire or cancels is no longer this CPU's, unless
 * it was put on this CPU's wheel. Its tick runs from the end of an idle period
 * until it is stopped.
 */
void cil_stock_other(struct reader *r, size_t table,
		     const struct tep_record *record)
{
	struct cil_timers *all = &r->stock.state.all;

	switch (table) {
	case TABLE_WHEEL:
		take_wheel(r, record);
		break;
	case TABLE_SWITCH:
		all->ticking |= 1ull << record->cpu % 64;
		break;
	case TABLE_TICK_STOP:
		if (cil_read_field(r, table, 0, record))
			all->ticking &= ~(1ull << record->cpu % 64);
		break;
	case TABLE_ARMED:
	case TABLE_CANCELLED:
	case TABLE_EXPIRED:
	case TABLE_UNWHEEL:
		cil_timers_gone(all, cil_read_field(r, table, 0, record));
		break;
	case TABLE_HRTIMER:
	case TABLE_TIMER:
		cil_timers_gone(all, cil_read_field(r, table, 1, record));
		break;
	default:
		break;
	}
}

static const char *take_switch(struct reader *r, const struct tep_record *record)
{
	struct cil_stock *s = &r->stock.state;
	const char *error = cil_stock_tick_told(s);

	if (!cil_read_field(r, TABLE_SWITCH, 0, record)) {
		cil_stock_left(s);
		s->away = r->stock.scan.has_returns;
	} else if (returns(r, record)) {
		s->away = false;
	}
	return error;
}

static const char *take_idle(struct reader *r, const struct tep_record *record)
{
	u32 state = cil_read_field(r, TABLE_CPU_IDLE, 0, record);
	const char *error;

	error = cil_stock_tick_told(&r->stock.state);
	if (error)
		return error;
	/* Only the end of the trace shows if there is more than this event. */
	error = cil_periods_idle(&r->periods, record->ts, state);
	if (r->stock.state.away)
		return error;
	return error ? error : cil_stock_idle(&r->stock.state, record->ts,
					      state);
}

static const char *give_answer(struct reader *r)
{
	struct stock_answer *a = &r->stock.held;

	a->is_held = false;
	return cil_stock_asked(&r->stock.state, a->ts, a->sleep_length_ns,
			       a->delta_tick_ns,
			       r->sources[TABLE_ASKED][1].size);
}

/*
 * An answer, the one before it being given. In strict mode the decision event,
 * if that was it that asked, comes next.
 */
static const char *take_answer(struct reader *r, const struct tep_record *record)
{
	r->stock.held = (struct stock_answer){
		.is_held = true,
		.ts = record->ts,
		.sleep_length_ns = cil_read_field(r, TABLE_ASKED, 0, record),
		.delta_tick_ns = cil_read_field(r, TABLE_ASKED, 1, record),
	};
	return r->stock.is_strict ? NULL : give_answer(r);
}

_Static_assert(TABLE_COUNT <= CIL_STOCK_KINDS, "a lag for each kind of event");

/* Is an event one after which the kernel may read the clock? */
static bool may_precede_clock(const struct reader *r, size_t table,
			      const struct tep_record *record)
{
	switch (table) {
	case TABLE_SWITCH:
		return returns(r, record);
	case TABLE_HRTIMER:
	case TABLE_TIMER:
	case TABLE_ARMED:
	case TABLE_CANCELLED:
	case TABLE_EXPIRED:
	case TABLE_REARM:
	case TABLE_WHEEL:
	case TABLE_UNWHEEL:
	case TABLE_SOFTIRQ:
		return true;
	default:
		return false;
	}
}

/*
 * A task that forces a CPU to be idle (powerclamp's) calls what the idle loop
 * calls, and asks no governor.
 */
static bool is_forced(const struct reader *r, size_t table)
{
	switch (table) {
	case TABLE_ASKED:
	case TABLE_STOP:
	case TABLE_RETAIN:
	case TABLE_GOT:
	case TABLE_REFLECT:
	case TABLE_EXIT:
	case TABLE_TICK_STOP:
		return r->stock.state.away;
	default:
		return false;
	}
}

static const char *use_event(struct reader *r, size_t table,
			     const struct tep_record *record)
{
	struct cil_stock *s = &r->stock.state;

	if (is_forced(r, table))
		return NULL;
	switch (table) {
	case TABLE_ASKED:
		return take_answer(r, record);
	case TABLE_STOP:
	case TABLE_RETAIN:
		return cil_stock_fate(s, record->ts, table == TABLE_STOP);
	case TABLE_CPU_IDLE:
		return take_idle(r, record);
	case TABLE_HRTIMER:
		return take_hrtimer(r, record);
	case TABLE_GOT:
		cil_stock_got_tick(s, cil_read_field(r, table, 0, record));
		return NULL;
	case TABLE_ARMED:
		return take_armed(r, record);
	case TABLE_REFLECT:
		take_reflect(r, record);
		return NULL;
	case TABLE_CANCELLED:
	case TABLE_EXPIRED:
	case TABLE_UNWHEEL:
		cil_timers_gone(&s->all, cil_read_field(r, table, 0, record));
		return NULL;
	case TABLE_REARM:
		s->all.device_ns = cil_read_field(r, table, 0, record);
		return NULL;
	case TABLE_WHEEL:
		take_wheel(r, record);
		return NULL;
	case TABLE_TIMER:
		cil_timers_gone(&s->all, cil_read_field(r, table, 1, record));
		return NULL;
	case TABLE_SOFTIRQ:
		if (cil_read_field(r, table, 0, record) == RCU_SOFTIRQ)
			cil_stock_softirq_rcu(s);
		return NULL;
	case TABLE_EXIT:
		cil_stock_exit(s);
		return NULL;
	case TABLE_SWITCH:
		return take_switch(r, record);
	case TABLE_TICK_STOP:
		return cil_read_field(r, table, 0, record) ?
			       cil_stock_tick_stop(s, record->ts) : NULL;
	default:
		return NULL;
	}
}

/**
 * cil_stock_record() - an event that decisions are made of
 * @r: the run
 * @table: its table
 * @record: the event
 *
 * Return: NULL, or what is wrong with it.
 */
const char *cil_stock_record(struct reader *r, size_t table,
			     const struct tep_record *record)
{
	struct cil_stock *s = &r->stock.state;
	const char *error;

	if (table == TABLE_UNASKED) {
		if (!(cil_read_field(r, table, 0, record) & CIL_DECISION_ASKED))
			r->stock.held.is_held = false;
		return NULL;
	}
	error = r->stock.held.is_held ? give_answer(r) : NULL;
	/* An answer that was held is of the governor before. */
	s->governor = governor_at(&r->stock, record->ts);
	if (!error)
		error = use_event(r, table, record);
	if (!error && may_precede_clock(r, table, record))
		cil_stock_seen(s, record->ts, table + 1);
	return error;
}
