// SPDX-License-Identifier: GPL-2.0
/*
 * Records of a trace into rows: events as they are, and the periods and
 * intervals that periods.h makes of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_formats.h"

/* The kernel takes no longer parameter of a module. */
#define DOMAINS_MAX		2048

static u64 load(const u8 *from, size_t width)
{
	u64 u64_value;
	u32 u32_value;
	u16 u16_value;

	switch (width) {
	case 1:
		return *from;
	case 2:
		memcpy(&u16_value, from, 2);
		return u16_value;
	case 4:
		memcpy(&u32_value, from, 4);
		return u32_value;
	default:
		memcpy(&u64_value, from, 8);
		return u64_value;
	}
}

static u64 read_number(const struct reader *r, const u8 *from,
		       size_t size, bool is_signed)
{
	u64 value = load(from, size);
	u32 unused = 64 - 8 * size;

	if (r->swap)
		value = __builtin_bswap64(value) >> unused;
	/* The highest bit of the number is its sign. */
	return is_signed ? (u64)((s64)(value << unused) >> unused) : value;
}

static void put_array(struct reader *r, struct cil_chunk *chunk, size_t column,
		      const u8 *from)
{
	const struct cil_buffer *b = &chunk->buffers[column];
	const struct source *s = &r->sources[chunk->table][column - 2];
	u8 swapped[ARRAY_MAX * 8];
	size_t i, at;

	if (!r->swap) {
		cil_put_content(chunk, column, from, b->width);
		return;
	}
	for (i = 0; i < s->size; i++) {
		at = i % s->element;
		swapped[i] = from[i - at + s->element - 1 - at];
	}
	cil_put_content(chunk, column, swapped, b->width);
}

/* Finds the content of a text or of bytes. False: outside of the record. */
static bool find_content(const struct reader *r, const struct source *s,
			 const struct tep_record *record, size_t *offset,
			 size_t *size)
{
	const u8 *data = record->data;
	size_t total = record->size;
	u32 place;

	*offset = s->offset;
	*size = s->size ? s->size : total - s->offset;
	if (s->dynamic) {
		place = read_number(r, data + s->offset, 4, false);
		*offset = place & 0xffff;
		*size = place >> 16;
		if (s->relative)
			*offset += s->offset + 4;
	}
	return *offset <= total && *size <= total - *offset;
}

static int put_content(struct reader *r, struct cil_chunk *chunk,
		       size_t column, const struct tep_record *record)
{
	const struct source *s = &r->sources[chunk->table][column - 2];
	const u8 *data = record->data;
	size_t offset, size;
	const char *name;

	if (s->kind == CIL_FUNCTION) {
		name = cil_function_name(r, read_number(r, data + s->offset,
							s->size, false));
		return cil_put_content(chunk, column, name ? name : "unknown",
				       strlen(name ? name : "unknown"));
	}
	if (!find_content(r, s, record, &offset, &size))
		return -1;
	/* A field that the event lacks is an empty text; the header is no field. */
	if (s->kind == CIL_TEXT)
		size = s->offset ? strnlen((const char *)data + offset, size) : 0;
	if (cil_put_content(chunk, column, data + offset, size))
		cil_fail(r, "needs more memory than there is");
	return 0;
}

static u64 read_source(const struct reader *r, const struct source *s,
		       const struct tep_record *record)
{
	const u8 *data = record->data;

	return read_number(r, data + s->offset, s->size, s->is_signed);
}

static int put_columns(struct reader *r, struct cil_chunk *chunk,
		       const struct tep_record *record)
{
	const u8 *data = record->data;
	size_t i;

	for (i = 2; i < chunk->columns; i++) {
		const struct source *s = &r->sources[chunk->table][i - 2];

		if (s->kind < CIL_ARRAY)
			cil_put_number(chunk, i, s->size ?
				       read_source(r, s, record) : 0);
		else if (s->kind == CIL_ARRAY)
			put_array(r, chunk, i, data + s->offset);
		else if (put_content(r, chunk, i, record))
			return -1;
	}
	return 0;
}

/* The first columns of each table: 64 bits of time, 16 of the CPU. */
static void begin_row(struct cil_chunk *chunk, u64 ts, int cpu)
{
	((u64 *)chunk->buffers[0].values)[chunk->rows] = ts;
	((u16 *)chunk->buffers[1].values)[chunk->rows] = cpu;
}

/**
 * cil_write_chunks() - write the rows of all tables
 * @r: the run
 *
 * Answers of the interval that goes on stay until its row is complete.
 */
void cil_write_chunks(struct reader *r)
{
	size_t table, pending;
	char place[24];

	for (table = 0; table < TABLE_COUNT; table++) {
		if (!r->wanted[table])
			continue;
		pending = table == TABLE_INTERVAL ? r->answers_size : 0;
		cil_check_stream(r, cil_chunk_write(&r->chunks[table], pending,
						    r->out));
	}
	snprintf(place, sizeof(place), "%llu", (unsigned long long)r->place);
	cil_check_stream(r, cil_message_write(r->out, CIL_MESSAGE_PLACE, place));
}

/**
 * cil_end_row() - a row is complete
 * @r: the run
 * @chunk: its table
 */
void cil_end_row(struct reader *r, struct cil_chunk *chunk)
{
	chunk->rows++;
	if (cil_chunk_full(chunk))
		cil_write_chunks(r);
}

/* ---- Periods and intervals: between records, structs and rows. ---- */

/* The numbers of an event into the members of a struct. */
static void read_members(const struct reader *r, size_t table,
			 const struct tep_record *record, void *to)
{
	const struct column *column = cil_tables[table].columns;
	const struct source *s = r->sources[table];
	const u8 *data = record->data;
	u64 value;

	for (; column->name; column++, s++) {
		value = read_number(r, data + s->offset, s->size, s->is_signed);
		cil_store((u8 *)to + column->member, s->width, value);
	}
}

/**
 * cil_read_field() - a number of a record
 * @r: the run
 * @table: the table of its event
 * @column: the column, those that all tables have not counted
 * @record: the record
 *
 * Return: the number, 0 where the event lacks it.
 */
u64 cil_read_field(const struct reader *r, size_t table, size_t column,
		   const struct tep_record *record)
{
	const struct source *s = &r->sources[table][column];

	return s->size ? read_source(r, s, record) : 0;
}

/**
 * cil_read_content() - a text of a record, or bytes
 * @r: the run
 * @table: the table of its event
 * @column: the column, those that all tables have not counted
 * @record: the record
 * @size: set to its size
 *
 * Return: where it is, NULL if it lies outside of the record.
 */
const u8 *cil_read_content(const struct reader *r, size_t table, size_t column,
			   const struct tep_record *record, size_t *size)
{
	const u8 *data = record->data;
	size_t offset;

	if (!find_content(r, &r->sources[table][column], record, &offset, size))
		return NULL;
	return data + offset;
}

/**
 * cil_put_members() - the members of a struct into a row
 * @r: the run
 * @table: the table; nothing happens unless it is wanted
 * @ts: time of the row
 * @from: the struct
 */
void cil_put_members(struct reader *r, size_t table, u64 ts, const void *from)
{
	const struct column *column = cil_tables[table].columns;
	struct cil_chunk *chunk = &r->chunks[table];
	size_t columns, row, i;

	if (!r->wanted[table])
		return;
	begin_row(chunk, ts, r->periods.cpu);
	columns = chunk->columns;
	row = chunk->rows;
	for (i = 2; i < columns && column->kind != CIL_BYTES; i++, column++) {
		const struct cil_buffer *b = &chunk->buffers[i];
		size_t width = b->width;

		cil_store(b->values + row * width, width,
			  load((const u8 *)from + column->member, width));
	}
	cil_end_row(r, chunk);
}

static void put_period(void *context, const struct cil_period *period)
{
	cil_put_members(context, TABLE_PERIOD, period->ts, period);
}

/* The answers within an interval are the last column of its table. */
static void put_answer(void *context, const struct cil_answer *answer)
{
	struct reader *r = context;
	struct cil_chunk *chunk = &r->chunks[TABLE_INTERVAL];

	if (!r->wanted[TABLE_INTERVAL])
		return;
	if (cil_append_content(chunk, chunk->columns - 1, answer, sizeof(*answer)))
		cil_fail(r, "needs more memory than there is");
	r->answers_size += sizeof(*answer);
}

static void put_lasted(struct reader *r, size_t table, size_t answers_size,
		       const struct cil_interval *interval)
{
	struct cil_chunk *chunk = &r->chunks[table];

	if (r->wanted[table])
		cil_put_number(chunk, chunk->columns - 1, answers_size);
	cil_put_members(r, table, interval->ts, interval);
}

static void put_interval(void *context, const struct cil_interval *interval)
{
	struct reader *r = context;

	size_t size = r->answers_size;

	/* A complete row has no answers of its own to wait for. */
	r->answers_size = 0;
	put_lasted(r, TABLE_INTERVAL, size, interval);
}

static void put_idle(void *context, const struct cil_interval *interval)
{
	put_lasted(context, TABLE_IDLE, 0, interval);
}

/**
 * cil_begin_periods() - begin the periods and intervals of a CPU
 * @r: the run
 * @cpu: the CPU
 */
void cil_begin_periods(struct reader *r, int cpu)
{
	const struct cil_period_sink sink = {
		.period = put_period,
		.answer = put_answer,
		.interval = put_interval,
		.idle = put_idle,
		.context = r,
	};

	cil_periods_begin(&r->periods, cpu, &sink, &r->counts);
	r->periods.domains_exit_ns = r->domains_exit_ns;
}

static const struct source *config_source(const struct reader *r,
					  const char *name)
{
	const struct column *column = cil_tables[TABLE_CONFIG].columns;
	const struct source *s = r->sources[TABLE_CONFIG];

	while (strcmp(column->name, name)) {
		column++;
		s++;
	}
	return s;
}

static s64 config_number(const struct reader *r, const char *name,
			 const struct tep_record *record)
{
	return read_source(r, config_source(r, name), record);
}

/* Element @k of an array, 0 beyond its end. */
static s64 config_element(const struct reader *r, const char *name,
			  const struct tep_record *record, size_t k)
{
	const struct source *s = config_source(r, name);
	const u8 *data = record->data;

	if ((k + 1) * s->element > s->size)
		return 0;
	return read_number(r, data + s->offset + k * s->element, s->element,
			   s->is_signed);
}

static const char *take_config(struct reader *r,
			       const struct tep_record *record)
{
	struct cil_period_machine machine = {
		.tick_ns = config_number(r, "tick_ns", record),
		.states = config_number(r, "states", record),
		.polling = config_number(r, "polling", record),
	};
	u32 k;

	if (config_number(r, "machine_cpu", record) != r->periods.cpu)
		return "has a cpuidle_lab:cil_config event of one CPU that tells of another";
	for (k = 0; k < machine.states && k < CIL_STATE_MAX; k++) {
		machine.exit_latency_ns[k] =
			config_element(r, "exit_latency_ns", record, k);
		machine.target_residency_ns[k] =
			config_element(r, "target_residency_ns", record, k);
		machine.power_mw[k] = config_element(r, "power_mw", record, k);
	}
	return cil_periods_config(&r->periods, &machine);
}

static const char *take_decision(struct reader *r,
				 const struct tep_record *record)
{
	struct cil_period decision = { .ts = record->ts };

	read_members(r, TABLE_DECISION, record, &decision);
	return cil_periods_decision(&r->periods, &decision);
}

static const char *take_outcome(struct reader *r,
				const struct tep_record *record)
{
	struct cil_period_outcome outcome = { .ts = record->ts };

	read_members(r, TABLE_OUTCOME, record, &outcome);
	return cil_periods_outcome(&r->periods, &outcome);
}

/* The longest time that a CPU waits for its domains; @rules: as emul/tree.c has them. */
static s64 longest_exit_ns(char *rules)
{
	s64 sum_ns = 0;
	char *rule, *state;

	while ((rule = strsep(&rules, "+"))) {
		unsigned int exit_us, most_us = 0;

		strsep(&rule, "/");
		while ((state = strsep(&rule, "/"))) {
			if (sscanf(state, "%*[^:]:%*u:%6u:", &exit_us) == 1 &&
			    exit_us > most_us)
				most_us = exit_us;
		}
		sum_ns += most_us * 1000ll;
	}
	return sum_ns;
}

/* The lab writes the domains of its machine on CPU 0, which is read first. */
static void take_marker(struct reader *r, const struct tep_record *record)
{
	static const char begins[] = "domains ";
	char text[DOMAINS_MAX];
	const u8 *from;
	size_t size;

	from = cil_read_content(r, TABLE_MARKER, 0, record, &size);
	if (!from || size < sizeof(begins) || size > sizeof(text) ||
	    memcmp(from, begins, sizeof(begins) - 1))
		return;
	size -= sizeof(begins) - 1;
	memcpy(text, from + sizeof(begins) - 1, size);
	text[size - 1] = '\0';
	r->domains_exit_ns = longest_exit_ns(text);
	r->periods.domains_exit_ns = r->domains_exit_ns;
}

/*
 * Of use only while no decision tells more; without the module, of a CPU whose
 * idle states are not known.
 */
static const char *take_idle(struct reader *r, const struct tep_record *record)
{
	const struct source *s = r->sources[TABLE_CPU_IDLE];

	if (r->counts.decisions && !r->stock.is_on)
		return NULL;
	return cil_periods_idle(&r->periods, record->ts,
				read_source(r, &s[0], record));
}

static const char *use_record(struct reader *r, size_t table,
			      const struct tep_record *record)
{
	if (table == TABLE_MARKER) {
		take_marker(r, record);
		return NULL;
	}
	if (r->stock.current)
		return cil_stock_record(r, table, record);
	switch (table) {
	case TABLE_DECISION:
		return take_decision(r, record);
	case TABLE_OUTCOME:
		return take_outcome(r, record);
	case TABLE_CONFIG:
		return take_config(r, record);
	case TABLE_CPU_IDLE:
		return take_idle(r, record);
	default:
		return NULL;
	}
}

/* @events are lost here, -1 for an unknown number, or it is a hole of another kind. */
static void note_hole(struct reader *r, u64 ts, int cpu, s64 events)
{
	struct cil_chunk *chunk = &r->chunks[TABLE_LOST];

	if (r->stock.current)
		cil_stock_lost(&r->stock.state);
	cil_periods_lost(&r->periods);
	cil_cause_lost(r, ts);
	if (!r->wanted[TABLE_LOST])
		return;
	begin_row(chunk, ts, cpu);
	cil_put_number(chunk, 2, events);
	cil_end_row(r, chunk);
}

static void put_record(struct reader *r, size_t table,
		       const struct tep_record *record, int cpu)
{
	struct cil_chunk *chunk = &r->chunks[table];

	begin_row(chunk, record->ts, cpu);
	if (put_columns(r, chunk, record))
		cil_fail(r, "is damaged: a %s event of CPU %d is shorter than its format says",
			 cil_tables[table].name, cpu);
	cil_end_row(r, chunk);
}

/**
 * cil_take_record() - make rows of the next record of the CPU being read
 * @r: the run; it ends here if the record is damaged
 * @record: the record
 * @cpu: the CPU
 */
void cil_take_record(struct reader *r, const struct tep_record *record, int cpu)
{
	const char *error;
	u8 table;
	int id;

	r->place = record->offset;
	if (record->missed_events)
		note_hole(r, record->ts, cpu, record->missed_events);
	if (record->size < 2)
		cil_fail(r, "is damaged: an event of CPU %d has no type", cpu);
	id = read_number(r, record->data, 2, false);
	table = r->table_of[id];
	if (table == NO_TABLE)
		return;
	if ((size_t)record->size < r->least[table])
		cil_fail(r, "is damaged: a %s event of CPU %d is shorter than its format says",
			 cil_tables[table].name, cpu);
	if (r->wanted[table])
		put_record(r, table, record, cpu);
	if (!r->used[table])
		return;
	if (r->wanted[TABLE_CAUSE])
		cil_cause_record(r, table, record);
	if (table == TABLE_OFFLINE) {
		if (cil_read_field(r, table, 0, record) == (u64)cpu)
			note_hole(r, record->ts, cpu, 0);
		return;
	}
	error = use_record(r, table, record);
	if (error)
		cil_fail(r, "%s", error);
}

/**
 * cil_table_of() - the table of a record that periods are made of
 * @r: the run
 * @record: the record
 *
 * Return: the table, NO_TABLE where the record is of none or too short.
 */
u8 cil_table_of(const struct reader *r, const struct tep_record *record)
{
	u8 table = NO_TABLE;

	if (record->size >= 2)
		table = r->table_of[read_number(r, record->data, 2, false)];
	if (table != NO_TABLE && ((size_t)record->size < r->least[table] ||
				  !r->used[table]))
		table = NO_TABLE;
	return table;
}
