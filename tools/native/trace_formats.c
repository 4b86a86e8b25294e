// SPDX-License-Identifier: GPL-2.0
/*
 * The tables of trace-columns: what they are made of, where their columns are
 * in the records of this trace, and the schema that tells the caller.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace_formats.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/* Of the events of the module. */
#define PREFIX	"cil_"

#define SAME(name, kind)	{ #name, #name, kind, 0 }
#define MEMBER(type, member, kind) \
	{ #member, #member, kind, offsetof(struct type, member) }
#define DECIDED(member, kind)	MEMBER(cil_period, member, kind)
#define BECAME(member, kind)	MEMBER(cil_period_outcome, member, kind)
#define LASTED(member, kind)	MEMBER(cil_interval, member, kind)

/* The columns of every table of intervals. */
#define INTERVAL_COLUMNS						\
	LASTED(first_seq, CIL_U64), LASTED(periods, CIL_U32),		\
	LASTED(start_ns, CIL_U64), LASTED(length_ns, CIL_S64),		\
	LASTED(timer_ns, CIL_S64), LASTED(tick_phase_ns, CIL_S64),	\
	LASTED(busy_ns, CIL_S64), LASTED(latency_req_ns, CIL_S64),	\
	LASTED(hint_ns, CIL_S64), LASTED(disabled, CIL_U32),		\
	LASTED(flags, CIL_U8), LASTED(index, CIL_U8),			\
	LASTED(last_index, CIL_U8), LASTED(governor, CIL_U8),		\
	SAME(answers, CIL_BYTES)

/* The columns that a decision and its period share. */
#define DECISION_COLUMNS						\
	DECIDED(seq, CIL_U64), DECIDED(now_ns, CIL_U64),		\
	DECIDED(latency_req_ns, CIL_S64), DECIDED(hint_ns, CIL_S64),	\
	DECIDED(sleep_length_ns, CIL_S64),				\
	DECIDED(delta_tick_ns, CIL_S64), DECIDED(generation, CIL_U32),	\
	DECIDED(disabled, CIL_U32), DECIDED(governor, CIL_U8),		\
	DECIDED(flags, CIL_U8), DECIDED(index, CIL_U8),			\
	DECIDED(stop_tick, CIL_U8), DECIDED(reason, CIL_U8),		\
	DECIDED(row, CIL_U8), DECIDED(base_index, CIL_U8),		\
	DECIDED(left, CIL_U8)

/* The device of a latency request, and its kind. */
#define DEVICE_COLUMNS							\
	{ "device", "name", CIL_TEXT, 0, true },			\
	{ "type", "type", CIL_S32, 0, true }

const struct table cil_tables[TABLE_COUNT] = {
	[TABLE_DECISION] = { "decision", "cpuidle_lab", "cil_decision", {
		DECISION_COLUMNS } },
	[TABLE_OUTCOME] = { "outcome", "cpuidle_lab", "cil_outcome", {
		BECAME(seq, CIL_U64), BECAME(now_ns, CIL_U64),
		BECAME(residency_ns, CIL_U64), BECAME(governor, CIL_U8),
		BECAME(kind, CIL_U8), BECAME(index, CIL_U8),
		BECAME(tick, CIL_U8), BECAME(poll_time_limit, CIL_U8) } },
	[TABLE_WEIGHTS] = { "weights", "cpuidle_lab", "cil_weights", {
		SAME(seq, CIL_U64), SAME(governor, CIL_U8), SAME(row, CIL_U8),
		SAME(columns, CIL_U8), SAME(weights, CIL_ARRAY) } },
	[TABLE_CONFIG] = { "config", "cpuidle_lab", "cil_config", {
		SAME(seq, CIL_U64), SAME(generation, CIL_U32),
		{ "machine_cpu", "cpu", CIL_U32, 0 }, SAME(tick_ns, CIL_S64),
		SAME(governor, CIL_U8), SAME(states, CIL_U8),
		SAME(polling, CIL_U16), SAME(exit_latency_ns, CIL_ARRAY),
		SAME(target_residency_ns, CIL_ARRAY),
		SAME(power_mw, CIL_ARRAY), SAME(names, CIL_TEXT),
		SAME(base, CIL_TEXT), SAME(tunables, CIL_TEXT),
		SAME(kernel, CIL_TEXT) } },
	[TABLE_STATE] = { "state", "cpuidle_lab", "cil_state", {
		SAME(seq, CIL_U64), SAME(offset, CIL_U32),
		SAME(total, CIL_U32), SAME(governor, CIL_U8),
		SAME(data, CIL_BYTES) } },
	[TABLE_TUNABLE] = { "tunable", "cpuidle_lab", "cil_tunable", {
		SAME(generation, CIL_U32), SAME(governor, CIL_U8),
		SAME(name, CIL_TEXT), SAME(value, CIL_TEXT) } },
	[TABLE_HINT] = { "hint", "cpuidle_lab", "cil_hint", {
		SAME(limit_ns, CIL_S64), SAME(pid, CIL_S32),
		{ "hint_cpu", "cpu", CIL_S32, 0 }, SAME(what, CIL_U8),
		SAME(comm, CIL_TEXT) } },
	[TABLE_SHADOW] = { "shadow", "cpuidle_lab", "cil_shadow", {
		SAME(seq, CIL_U64), SAME(generation, CIL_U32),
		SAME(governor, CIL_U8), SAME(flags, CIL_U8),
		SAME(index, CIL_U8), SAME(stop_tick, CIL_U8),
		SAME(reason, CIL_U8), SAME(row, CIL_U8) } },
	[TABLE_IRQ] = { "irq", "irq", "irq_handler_entry", {
		SAME(irq, CIL_S32), SAME(name, CIL_TEXT) } },
	[TABLE_HRTIMER] = { "hrtimer", "timer", "hrtimer_expire_entry", {
		SAME(function, CIL_FUNCTION),
		{ "timer", "hrtimer", CIL_U64, 0, true } } },
	[TABLE_TIMER] = { "timer", "timer", "timer_expire_entry", {
		SAME(function, CIL_FUNCTION),
		{ "timer", "timer", CIL_U64, 0, true } } },
	[TABLE_RESCHEDULE] = { "reschedule", "irq_vectors",
		"reschedule_entry", { SAME(vector, CIL_S32) } },
	[TABLE_CALL] = { "call", "irq_vectors", "call_function_single_entry", {
		SAME(vector, CIL_S32) } },
	[TABLE_CPU_IDLE] = { "cpu_idle", "power", "cpu_idle", {
		SAME(state, CIL_U32), { "idle_cpu", "cpu_id", CIL_U32, 0 } } },
	[TABLE_MARKER] = { "marker", "ftrace", "print", {
		{ "text", "buf", CIL_TEXT, 0 } } },
	[TABLE_ASKED] = { "asked", ANY_SYSTEM, "cil_sleep_length", {
		{ "sleep_length_ns", "ret", CIL_S64, 0 },
		{ "delta_tick_ns", "dn", CIL_S64, 0, true } } },
	[TABLE_STOP] = { "stop", ANY_SYSTEM, "cil_stop_tick", { } },
	[TABLE_RETAIN] = { "retain", ANY_SYSTEM, "cil_retain_tick", { } },
	[TABLE_EXIT] = { "exit", ANY_SYSTEM, "cil_idle_exit", { } },
	[TABLE_SWITCH] = { "switch", "sched", "sched_switch", {
		SAME(prev_pid, CIL_S32),
		{ "next_pid", "next_pid", CIL_S32, 0, true },
		{ "next_comm", "next_comm", CIL_TEXT, 0, true } } },
	[TABLE_TICK_STOP] = { "tick_stop", "timer", "tick_stop", {
		SAME(success, CIL_S32) } },
	[TABLE_UNASKED] = { "unasked", "cpuidle_lab", "cil_decision", {
		SAME(flags, CIL_U8) } },
	[TABLE_ARMED] = { "armed", "timer", "hrtimer_start", {
		SAME(hrtimer, CIL_U64), SAME(expires, CIL_S64),
		{ "function", "function", CIL_U64, 0, true } } },
	[TABLE_CANCELLED] = { "cancelled", "timer", "hrtimer_cancel", {
		SAME(hrtimer, CIL_U64) } },
	[TABLE_EXPIRED] = { "expired", "timer", "hrtimer_start_expired", {
		SAME(hrtimer, CIL_U64) } },
	[TABLE_REARM] = { "rearm", "timer", "hrtimer_rearm", {
		SAME(next_event, CIL_S64) } },
	[TABLE_WHEEL] = { "wheel", "timer", "timer_start", {
		SAME(timer, CIL_U64), SAME(expires, CIL_U64),
		{ "bucket", "bucket_expiry", CIL_U64, 0, true },
		SAME(now, CIL_U64), SAME(flags, CIL_U32) } },
	[TABLE_UNWHEEL] = { "unwheel", "timer", "timer_cancel", {
		SAME(timer, CIL_U64) } },
	[TABLE_SOFTIRQ] = { "softirq", "irq", "softirq_raise", {
		SAME(vec, CIL_U32) } },
	[TABLE_REQUEST_ADDED] = { "request_added", "power",
		"pm_qos_add_request", { SAME(value, CIL_S32) } },
	[TABLE_REQUEST_UPDATED] = { "request_updated", "power",
		"pm_qos_update_request", { } },
	[TABLE_REQUEST_REMOVED] = { "request_removed", "power",
		"pm_qos_remove_request", { } },
	[TABLE_CPU_REQUEST_ADDED] = { "cpu_request_added", "power",
		"dev_pm_qos_add_request", {
		DEVICE_COLUMNS } },
	[TABLE_CPU_REQUEST_UPDATED] = { "cpu_request_updated", "power",
		"dev_pm_qos_update_request", {
		DEVICE_COLUMNS } },
	[TABLE_CPU_REQUEST_REMOVED] = { "cpu_request_removed", "power",
		"dev_pm_qos_remove_request", {
		DEVICE_COLUMNS } },
	[TABLE_GOT] = { "got", ANY_SYSTEM, "cil_got_tick", {
		{ "came", "ret", CIL_U8, 0 } } },
	[TABLE_REFLECT] = { "reflect", ANY_SYSTEM, "cil_reflect", {
		{ "residency_ns", "res", CIL_U64, 0 },
		{ "bits", "bits", CIL_U32, 0 } } },
	[TABLE_OFFLINE] = { "offline", "cpuhp", "cpuhp_enter", {
		{ "offline_cpu", "cpu", CIL_U32, 0 } } },
	[TABLE_IRQ_DONE] = { "irq_done", "irq", "irq_handler_exit", { } },
	[TABLE_LOCAL_TIMER] = { "local_timer", "irq_vectors",
		"local_timer_entry", { } },
	[TABLE_LOCAL_TIMER_DONE] = { "local_timer_done", "irq_vectors",
		"local_timer_exit", { } },
	[TABLE_DECREMENTER] = { "decrementer", "powerpc",
		"timer_interrupt_entry", { } },
	[TABLE_DECREMENTER_DONE] = { "decrementer_done", "powerpc",
		"timer_interrupt_exit", { } },
	[TABLE_CALL_MANY] = { "call_many", "irq_vectors",
		"call_function_entry", { } },
	[TABLE_IRQ_WORK] = { "irq_work", "irq_vectors", "irq_work_entry", { } },
	[TABLE_IPI_RAISE] = { "ipi_raise", "ipi", "ipi_raise", {
		{ "targets", "target_cpus", CIL_BYTES, 0 },
		SAME(reason, CIL_U64) } },
	[TABLE_IPI_SEND] = { "ipi_send", "ipi", "ipi_send_cpu", {
		{ "target", "cpu", CIL_U32, 0 }, SAME(callback, CIL_U64) } },
	[TABLE_IPI_SEND_MANY] = { "ipi_send_many", "ipi", "ipi_send_cpumask", {
		{ "targets", "cpumask", CIL_BYTES, 0 },
		SAME(callback, CIL_U64) } },
	[TABLE_CAUSE] = { "cause", NULL, NULL, {
		{ "kind", NULL, CIL_U8, 0 }, { "reason", NULL, CIL_U8, 0 },
		{ "pid", NULL, CIL_S32, 0 }, { "number", NULL, CIL_S64, 0 },
		{ "own_ns", NULL, CIL_S64, 0 },
		{ "tick_ns", NULL, CIL_S64, 0 } } },
	[TABLE_TASK] = { "task", NULL, NULL, {
		{ "pid", NULL, CIL_S32, 0 }, { "comm", NULL, CIL_TEXT, 0 } } },
	[TABLE_LOST] = { "lost", NULL, NULL, {
		{ "events", NULL, CIL_S64, 0 } } },
	[TABLE_PERIOD] = { "period", NULL, NULL, {
		DECISION_COLUMNS,
		DECIDED(out_kind, CIL_U8), DECIDED(out_ts, CIL_U64),
		DECIDED(out_now_ns, CIL_U64), DECIDED(residency_ns, CIL_U64),
		DECIDED(out_index, CIL_U8), DECIDED(tick, CIL_U8),
		DECIDED(poll_time_limit, CIL_U8), DECIDED(lost, CIL_U8),
		DECIDED(by_tick, CIL_U8), DECIDED(overslept, CIL_U8),
		DECIDED(interval, CIL_U64) } },
	[TABLE_INTERVAL] = { "interval", NULL, NULL, { INTERVAL_COLUMNS } },
	[TABLE_IDLE] = { "idle", NULL, NULL, { INTERVAL_COLUMNS } },
};

/* ---- Giving up. ---- */

/**
 * cil_fail() - tell the caller what is wrong, and end
 * @r: the run
 * @format: as for printf(); the text goes on after the name of the trace
 */
void cil_fail(struct reader *r, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	cil_message_write(r->out, CIL_MESSAGE_ERROR, text);
	/* Not exit(): the library's state may be in any condition. */
	_exit(1);
}

/**
 * cil_check_stream() - give up if the columns cannot be written
 * @r: the run
 * @error: not 0 if they could not
 */
void cil_check_stream(struct reader *r, int error)
{
	if (error)
		cil_fail(r, "the columns cannot be written: %s", strerror(errno));
}

/* ---- Formats: from names to places in a record. ---- */

/*
 * The event of a table, in a trace of whatever session where it is a probe's.
 * Those of the module had no prefix once.
 */
static struct tep_event *find_event(const struct reader *r,
				    const struct table *t)
{
	const char *system = strcmp(t->system, ANY_SYSTEM) ? t->system : NULL;
	struct tep_event *event = tep_find_event_by_name(r->tep, system, t->event);

	if (event || strncmp(t->event, PREFIX, strlen(PREFIX)))
		return event;
	return tep_find_event_by_name(r->tep, system, t->event + strlen(PREFIX));
}

static const char *event_label(const struct table *t, char label[64])
{
	snprintf(label, 64, "%s:%s", t->system, t->event);
	return label;
}

static void set_array(struct reader *r, const struct table *t,
		      struct tep_format_field *field, struct source *s)
{
	unsigned int size = field->elementsize;
	char label[64];

	s->element = size;
	if (!(field->flags & TEP_FIELD_IS_ARRAY) || !field->arraylen ||
	    field->arraylen > ARRAY_MAX ||
	    (size != 2 && size != 4 && size != 8) ||
	    s->size != (size_t)size * field->arraylen)
		cil_fail(r, "the field '%s' of the event %s is no array of numbers",
			 field->name, event_label(t, label));
}

static void set_source(struct reader *r, const struct table *t,
		       const struct column *column, struct source *s)
{
	struct tep_event *event = find_event(r, t);
	struct tep_format_field *field =
		tep_find_any_field(event, column->field);
	bool number = column->kind < CIL_ARRAY ||
		      column->kind == CIL_FUNCTION;
	char label[64];

	event_label(t, label);
	if (!field && column->optional) {
		s->kind = column->kind;
		s->width = cil_kind_width(column->kind);
		return;
	}
	if (!field)
		cil_fail(r, "the event %s has no field '%s': another version of the %s recorded it",
			 label, column->field,
			 strcmp(t->system, "cpuidle_lab") ? "kernel" : "module");
	if (field->offset < 0 || field->size < 0 || field->offset > 65535 ||
	    field->size > 65535)
		cil_fail(r, "the field '%s' of the event %s lies outside of it",
			 column->field, label);
	s->kind = column->kind;
	s->width = cil_kind_width(column->kind);
	s->offset = field->offset;
	s->size = field->size;
	s->is_signed = field->flags & TEP_FIELD_IS_SIGNED;
	s->dynamic = field->flags & TEP_FIELD_IS_DYNAMIC;
	s->relative = field->flags & TEP_FIELD_IS_RELATIVE;
	if (number && s->size != 1 && s->size != 2 && s->size != 4 &&
	    s->size != 8)
		cil_fail(r, "the field '%s' of the event %s is no number",
			 column->field, label);
	if (column->kind == CIL_ARRAY)
		set_array(r, t, field, s);
	if (!number && s->dynamic && s->size != 4)
		cil_fail(r, "the field '%s' of the event %s has an unknown layout",
			 column->field, label);
}

static size_t column_count(const struct table *t)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(t->columns) && t->columns[i].name)
		i++;
	return i;
}

static void set_chunk(struct reader *r, size_t table)
{
	const struct table *t = &cil_tables[table];
	struct cil_chunk *chunk = &r->chunks[table];
	size_t i, count = column_count(t);

	chunk->table = table;
	chunk->columns = count + 2;
	chunk->buffers[0].kind = CIL_U64;
	chunk->buffers[1].kind = CIL_U16;
	for (i = 0; i < count; i++)
		chunk->buffers[i + 2].kind = t->columns[i].kind;
	for (i = 0; i < chunk->columns; i++) {
		struct cil_buffer *b = &chunk->buffers[i];

		b->width = cil_kind_width(b->kind);
		if (!b->width)
			b->width = r->sources[table][i - 2].size;
	}
	if (cil_chunk_init(chunk))
		cil_fail(r, "needs more memory than there is");
}

/**
 * cil_is_made() - are the rows of an event of ours made of other events?
 * @r: the run
 * @table: the table
 *
 * Return: true in a recording without the module.
 */
bool cil_is_made(const struct reader *r, size_t table)
{
	return r->stock.is_on && (table == TABLE_DECISION ||
				  table == TABLE_OUTCOME ||
				  table == TABLE_CONFIG);
}

static struct tep_event *event_of(struct reader *r, size_t table)
{
	const struct table *t = &cil_tables[table];
	struct tep_event *event;

	if (!t->system || cil_is_made(r, table))
		return NULL;
	event = find_event(r, t);
	return event && event->id >= 0 && event->id < ID_COUNT ? event : NULL;
}

static bool is_probe(const struct table *t)
{
	return !strcmp(t->system, ANY_SYSTEM);
}

/* The events that decisions are made of where there is no module. */
static void use_stock_events(struct reader *r)
{
	static const u8 tables[] = {
		TABLE_CPU_IDLE, TABLE_HRTIMER, TABLE_ASKED, TABLE_STOP,
		TABLE_RETAIN, TABLE_EXIT, TABLE_SWITCH, TABLE_TICK_STOP,
		TABLE_ARMED, TABLE_GOT, TABLE_CANCELLED, TABLE_EXPIRED,
		TABLE_WHEEL, TABLE_UNWHEEL, TABLE_SOFTIRQ, TABLE_TIMER,
		TABLE_REFLECT, TABLE_REARM,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(tables); i++)
		r->used[tables[i]] = event_of(r, tables[i]) &&
				     !(r->stock.has_no_probes &&
				       is_probe(&cil_tables[tables[i]]));
	r->used[TABLE_UNASKED] = r->stock.is_strict &&
				 event_of(r, TABLE_UNASKED);
}

static bool has_event(struct reader *r, size_t table)
{
	return event_of(r, table);
}

/* Finds the events that each table is made of, where the trace has them. */
static void resolve_tables(struct reader *r)
{
	bool decided = r->stock.is_on ||
		       (event_of(r, TABLE_DECISION) && event_of(r, TABLE_OUTCOME));
	size_t table;

	r->wanted[TABLE_PERIOD] &= decided;
	r->wanted[TABLE_INTERVAL] &= decided;
	r->wanted[TABLE_IDLE] &= !!event_of(r, TABLE_CPU_IDLE);
	if (r->stock.is_on) {
		use_stock_events(r);
	} else if (r->wanted[TABLE_PERIOD] || r->wanted[TABLE_INTERVAL]) {
		r->used[TABLE_DECISION] = true;
		r->used[TABLE_OUTCOME] = true;
		r->used[TABLE_CONFIG] = event_of(r, TABLE_CONFIG);
	}
	r->used[TABLE_MARKER] = event_of(r, TABLE_MARKER) &&
				(r->wanted[TABLE_PERIOD] || r->wanted[TABLE_INTERVAL]);
	r->used[TABLE_CPU_IDLE] |= r->wanted[TABLE_IDLE];
	r->wanted[TABLE_CAUSE] &= cil_cause_prepare(r, has_event);
	r->wanted[TABLE_TASK] &= r->wanted[TABLE_CAUSE];
	r->used[TABLE_OFFLINE] = event_of(r, TABLE_OFFLINE);
	r->wanted[TABLE_OFFLINE] = false;
	r->wanted[TABLE_UNASKED] = false;
	for (table = 0; table < TABLE_COUNT; table++) {
		if (cil_tables[table].system && !cil_is_made(r, table) &&
		    !event_of(r, table))
			r->wanted[table] = false;
	}
}

/* A table that is made of other events has the arrays of the module's. */
static void set_made_sources(struct reader *r, size_t table)
{
	const struct table *t = &cil_tables[table];
	size_t i;

	for (i = 0; i < column_count(t); i++) {
		struct source *s = &r->sources[table][i];

		s->kind = t->columns[i].kind;
		if (s->kind != CIL_ARRAY)
			continue;
		s->is_signed = strcmp(t->columns[i].name, "power_mw");
		s->element = s->is_signed ? 8 : 4;
		s->size = s->element * CIL_STATE_MAX;
	}
}

static void set_sources(struct reader *r, size_t table)
{
	const struct table *t = &cil_tables[table];
	size_t i, end;

	for (i = 0; i < column_count(t); i++) {
		struct source *s = &r->sources[table][i];

		set_source(r, t, &t->columns[i], s);
		end = s->offset + s->size;
		if (end > r->least[table])
			r->least[table] = end;
	}
	r->table_of[event_of(r, table)->id] = table;
}

/**
 * cil_prepare_tables() - find out where the columns are in this trace's records
 * @r: the run; the tables asked for are in @wanted. Those that the trace has no
 *	event for are taken out of it
 *
 * Gives up on a field that is missing, or is not what the table says.
 */
void cil_prepare_tables(struct reader *r)
{
	size_t table;

	memset(r->table_of, NO_TABLE, sizeof(r->table_of));
	resolve_tables(r);
	for (table = 0; table < TABLE_COUNT; table++) {
		if (cil_is_made(r, table))
			set_made_sources(r, table);
		else if (cil_tables[table].system &&
			 (r->wanted[table] || r->used[table]))
			set_sources(r, table);
		if (r->wanted[table])
			set_chunk(r, table);
	}
}

/* ---- Schema: tables, columns, and the names of symbolic values. ---- */

static void print_kind(FILE *to, const struct cil_buffer *b,
		       const struct source *s)
{
	static const char *const names[] = {
		"u8", "u16", "u32", "u64", "s32", "s64", NULL, "text", "bytes",
		"text",
	};

	if (b->kind == CIL_ARRAY)
		fprintf(to, "%c%u[%u]\n",
			s->is_signed ? 's' : 'u', (unsigned int)s->element * 8,
			(unsigned int)(s->size / s->element));
	else
		fprintf(to, "%s\n", names[b->kind]);
}

static void print_symbols(FILE *to, const char *table,
			  const struct tep_print_arg *arg)
{
	for (; arg; arg = arg->next) {
		const struct tep_print_flag_sym *symbol;
		const struct tep_print_arg *field;

		if (arg->type != TEP_PRINT_SYMBOL)
			continue;
		field = arg->symbol.field;
		if (!field || field->type != TEP_PRINT_FIELD)
			continue;
		for (symbol = arg->symbol.symbols; symbol;
		     symbol = symbol->next)
			fprintf(to, "symbol %s %s %lld %s\n", table,
				field->field.name,
				strtoll(symbol->value, NULL, 0), symbol->str);
	}
}

static void print_table(struct reader *r, FILE *to, size_t table)
{
	const struct table *t = &cil_tables[table];
	const struct cil_chunk *chunk = &r->chunks[table];
	size_t i;

	fprintf(to, "table %zu %s\ncolumn ts u64\ncolumn cpu u16\n", table,
		t->name);
	for (i = 0; i < column_count(t); i++) {
		const struct column *column = &t->columns[i];

		fprintf(to, "column %s ", column->name);
		print_kind(to, &chunk->buffers[i + 2], &r->sources[table][i]);
	}
}

/* The governors that the caller named, and that a kernel gives no reasons. */
static void print_made_symbols(struct reader *r, FILE *to, const char *table)
{
	size_t i;

	for (i = 0; i < r->stock.governor_count; i++)
		fprintf(to, "symbol %s governor %u %s\n", table,
			r->stock.governors[i].number,
			r->stock.governors[i].name);
	if (!strcmp(table, "decision"))
		fprintf(to, "symbol decision reason 0 not recorded\n");
}

/**
 * cil_write_schema() - tell what the stream holds
 * @r: the run, its tables prepared
 */
void cil_write_schema(struct reader *r)
{
	char *text = NULL;
	size_t size, table;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		cil_fail(r, "needs more memory than there is");
	fprintf(to, "cpus %d\n", tep_get_cpus(r->tep));
	for (table = 0; table < TABLE_COUNT; table++) {
		const struct tep_event *event = event_of(r, table);

		if (r->wanted[table])
			print_table(r, to, table);
		if (cil_is_made(r, table))
			print_made_symbols(r, to, cil_tables[table].name);
		if (event && (r->wanted[table] || r->used[table]))
			print_symbols(to, cil_tables[table].name,
				      event->print_fmt.args);
	}
	if (fclose(to))
		cil_fail(r, "needs more memory than there is");
	cil_check_stream(r, cil_message_write(r->out, CIL_MESSAGE_SCHEMA,
					      text));
	free(text);
}
