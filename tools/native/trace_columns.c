// SPDX-License-Identifier: GPL-2.0
/*
 * trace-columns: turn a trace.dat into a stream of columns.
 *
 * usage: trace-columns FILE [TABLE...]
 *
 * Writes the tables named (default: all) to the standard output as columns.h
 * says: events as they are, and the idle periods and intervals that periods.h
 * makes of them. CPUs come one after the other; a chunk holds rows of one CPU.
 * Only the events listed in tables[] are looked at. Fields are found by
 * name in the formats that the trace carries, so a trace of another kernel or
 * architecture is read as well; one that lacks a field is refused.
 *
 * This is a program of its own and not a library loaded into the caller,
 * because traces come from elsewhere and libtracecmd trusts what it reads:
 * whatever a damaged file does to it, the caller sees a stream that stops.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <trace-cmd.h>

#include "columns.h"
#include "periods.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/* The ids of events are 16 bits wide. */
#define ID_COUNT		65536
#define NO_TABLE		0xff

/* More elements than any array of ours has. */
#define ARRAY_MAX		64

/*
 * Much more than any trace needs. The file itself is mapped and does not count;
 * were it counted, the library would take a map that fails for the file's end.
 */
#define MEMORY_MAX		(1024ull * 1024 * 1024)

/**
 * struct column - one column of a table
 * @name: its name in the output
 * @field: name of the event's field
 * @kind: what it holds
 * @member: offset in the struct that periods.h has for the table
 */
struct column {
	const char *name;
	const char *field;
	enum cil_kind kind;
	size_t member;
};

/**
 * struct table - one event, one table
 * @name: name of the table
 * @system: system of the event, NULL where the table is not one event
 * @event: name of the event
 * @columns: its fields; ts and cpu come before them in every table
 */
struct table {
	const char *name;
	const char *system;
	const char *event;
	struct column columns[CIL_COLUMNS_MAX - 2];
};

enum {
	TABLE_DECISION,
	TABLE_OUTCOME,
	TABLE_WEIGHTS,
	TABLE_CONFIG,
	TABLE_STATE,
	TABLE_TUNABLE,
	TABLE_HINT,
	TABLE_SHADOW,
	TABLE_IRQ,
	TABLE_HRTIMER,
	TABLE_TIMER,
	TABLE_RESCHEDULE,
	TABLE_CALL,
	TABLE_CPU_IDLE,
	TABLE_MARKER,
	TABLE_LOST,
	TABLE_PERIOD,
	TABLE_INTERVAL,
	TABLE_IDLE,
	TABLE_COUNT
};

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
	LASTED(last_index, CIL_U8), LASTED(governor, CIL_U8)

/* The columns that a decision and its period share. */
#define DECISION_COLUMNS						\
	DECIDED(seq, CIL_U64), DECIDED(now_ns, CIL_U64),		\
	DECIDED(latency_req_ns, CIL_S64), DECIDED(hint_ns, CIL_S64),	\
	DECIDED(sleep_length_ns, CIL_S64),				\
	DECIDED(delta_tick_ns, CIL_S64), DECIDED(generation, CIL_U32),	\
	DECIDED(disabled, CIL_U32), DECIDED(governor, CIL_U8),		\
	DECIDED(flags, CIL_U8), DECIDED(index, CIL_U8),			\
	DECIDED(stop_tick, CIL_U8), DECIDED(reason, CIL_U8),		\
	DECIDED(row, CIL_U8), DECIDED(base_index, CIL_U8)

static const struct table tables[TABLE_COUNT] = {
	[TABLE_DECISION] = { "decision", "cpuidle_lab", "decision", {
		DECISION_COLUMNS } },
	[TABLE_OUTCOME] = { "outcome", "cpuidle_lab", "outcome", {
		BECAME(seq, CIL_U64), BECAME(now_ns, CIL_U64),
		BECAME(residency_ns, CIL_U64), BECAME(governor, CIL_U8),
		BECAME(kind, CIL_U8), BECAME(index, CIL_U8),
		BECAME(tick, CIL_U8), BECAME(poll_time_limit, CIL_U8) } },
	[TABLE_WEIGHTS] = { "weights", "cpuidle_lab", "weights", {
		SAME(seq, CIL_U64), SAME(governor, CIL_U8), SAME(row, CIL_U8),
		SAME(columns, CIL_U8), SAME(weights, CIL_ARRAY) } },
	[TABLE_CONFIG] = { "config", "cpuidle_lab", "config", {
		SAME(seq, CIL_U64), SAME(generation, CIL_U32),
		{ "machine_cpu", "cpu", CIL_U32, 0 }, SAME(tick_ns, CIL_S64),
		SAME(governor, CIL_U8), SAME(states, CIL_U8),
		SAME(polling, CIL_U16), SAME(exit_latency_ns, CIL_ARRAY),
		SAME(target_residency_ns, CIL_ARRAY),
		SAME(power_mw, CIL_ARRAY), SAME(names, CIL_TEXT),
		SAME(base, CIL_TEXT), SAME(tunables, CIL_TEXT),
		SAME(kernel, CIL_TEXT) } },
	[TABLE_STATE] = { "state", "cpuidle_lab", "state", {
		SAME(seq, CIL_U64), SAME(offset, CIL_U32),
		SAME(total, CIL_U32), SAME(governor, CIL_U8),
		SAME(data, CIL_BYTES) } },
	[TABLE_TUNABLE] = { "tunable", "cpuidle_lab", "tunable", {
		SAME(generation, CIL_U32), SAME(governor, CIL_U8),
		SAME(name, CIL_TEXT), SAME(value, CIL_TEXT) } },
	[TABLE_HINT] = { "hint", "cpuidle_lab", "hint", {
		SAME(limit_ns, CIL_S64), SAME(pid, CIL_S32),
		{ "hint_cpu", "cpu", CIL_S32, 0 }, SAME(what, CIL_U8),
		SAME(comm, CIL_TEXT) } },
	[TABLE_SHADOW] = { "shadow", "cpuidle_lab", "shadow", {
		SAME(seq, CIL_U64), SAME(generation, CIL_U32),
		SAME(governor, CIL_U8), SAME(flags, CIL_U8),
		SAME(index, CIL_U8), SAME(stop_tick, CIL_U8),
		SAME(reason, CIL_U8), SAME(row, CIL_U8) } },
	[TABLE_IRQ] = { "irq", "irq", "irq_handler_entry", {
		SAME(irq, CIL_S32), SAME(name, CIL_TEXT) } },
	[TABLE_HRTIMER] = { "hrtimer", "timer", "hrtimer_expire_entry", {
		SAME(function, CIL_FUNCTION) } },
	[TABLE_TIMER] = { "timer", "timer", "timer_expire_entry", {
		SAME(function, CIL_FUNCTION) } },
	[TABLE_RESCHEDULE] = { "reschedule", "irq_vectors",
		"reschedule_entry", { SAME(vector, CIL_S32) } },
	[TABLE_CALL] = { "call", "irq_vectors", "call_function_single_entry", {
		SAME(vector, CIL_S32) } },
	[TABLE_CPU_IDLE] = { "cpu_idle", "power", "cpu_idle", {
		SAME(state, CIL_U32), { "idle_cpu", "cpu_id", CIL_U32, 0 } } },
	[TABLE_MARKER] = { "marker", "ftrace", "print", {
		{ "text", "buf", CIL_TEXT, 0 } } },
	[TABLE_LOST] = { "lost", NULL, NULL, {
		{ "events", NULL, CIL_S64, 0 } } },
	[TABLE_PERIOD] = { "period", NULL, NULL, {
		DECISION_COLUMNS,
		DECIDED(out_kind, CIL_U8), DECIDED(out_ts, CIL_U64),
		DECIDED(out_now_ns, CIL_U64), DECIDED(residency_ns, CIL_U64),
		DECIDED(out_index, CIL_U8), DECIDED(tick, CIL_U8),
		DECIDED(poll_time_limit, CIL_U8), DECIDED(lost, CIL_U8) } },
	[TABLE_INTERVAL] = { "interval", NULL, NULL, { INTERVAL_COLUMNS } },
	[TABLE_IDLE] = { "idle", NULL, NULL, { INTERVAL_COLUMNS } },
};

/**
 * struct source - where a column's value is in a record
 * @kind: what the column holds
 * @offset: offset of the field in the record
 * @size: its size, 0 if it goes to the end of the record
 * @element: size of one element of an array
 * @width: of the column
 * @is_signed: its sign must be extended
 * @dynamic: it holds the place of the contents, not the contents
 * @relative: that place counts from the end of the field
 */
struct source {
	enum cil_kind kind;
	size_t offset;
	size_t size;
	size_t element;
	size_t width;
	bool is_signed;
	bool dynamic;
	bool relative;
};

/**
 * struct reader - a run of this program
 * @out: the stream
 * @input: the trace
 * @tep: its formats
 * @swap: its byte order is not ours
 * @table_of: table of each event id, or NO_TABLE
 * @wanted: tables that are written
 * @used: events that periods and intervals are made of
 * @chunks: rows of each table
 * @sources: where the columns of each table come from
 * @least: size of the shortest record of each table that has all its numbers
 * @periods: periods and intervals of the CPU being read
 * @counts: what is missing
 * @events: events read, those of no table included
 */
struct reader {
	FILE *out;
	struct tracecmd_input *input;
	struct tep_handle *tep;
	bool swap;
	u8 table_of[ID_COUNT];
	bool wanted[TABLE_COUNT];
	bool used[TABLE_COUNT];
	struct cil_chunk chunks[TABLE_COUNT];
	struct source sources[TABLE_COUNT][CIL_COLUMNS_MAX];
	size_t least[TABLE_COUNT];
	struct cil_periods periods;
	struct cil_period_counts counts;
	u64 events;
};

static void fail(struct reader *r, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));

static void fail(struct reader *r, const char *format, ...)
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

static void check_stream(struct reader *r, int error)
{
	if (error)
		fail(r, "the columns cannot be written: %s", strerror(errno));
}

/* ---- Opening: what is not a trace is said so before the library looks. ---- */

static void check_file(struct reader *r, const char *path)
{
	static const char magic[] = "\x17\x08\x44tracing";
	char start[sizeof(magic) - 1];
	struct stat st;
	ssize_t got;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fail(r, "cannot be read: %s", strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		fail(r, "is not a regular file");
	got = read(fd, start, sizeof(start));
	close(fd);
	if (got == 0)
		fail(r, "is empty");
	if (got != sizeof(start) || memcmp(start, magic, sizeof(start)))
		fail(r, "is not a trace.dat file as trace-cmd writes it");
}

static void open_trace(struct reader *r, const char *path)
{
	check_file(r, path);
	tracecmd_set_loglevel(TEP_LOG_NONE);
	tep_set_loglevel(TEP_LOG_NONE);
	r->input = tracecmd_open(path, TRACECMD_FL_LOAD_NO_PLUGINS);
	if (!r->input)
		fail(r, "is a trace.dat file, but truncated or damaged");
	r->tep = tracecmd_get_tep(r->input);
	r->swap = tep_is_file_bigendian(r->tep) !=
		  tep_is_local_bigendian(r->tep);
}

/* ---- Formats: from names to places in a record. ---- */

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
		fail(r, "the field '%s' of the event %s is no array of numbers",
		     field->name, event_label(t, label));
}

static void set_source(struct reader *r, const struct table *t,
		       const struct column *column, struct source *s)
{
	struct tep_event *event =
		tep_find_event_by_name(r->tep, t->system, t->event);
	struct tep_format_field *field =
		tep_find_any_field(event, column->field);
	bool number = column->kind < CIL_ARRAY ||
		      column->kind == CIL_FUNCTION;
	char label[64];

	event_label(t, label);
	if (!field)
		fail(r, "the event %s has no field '%s': another version of the module recorded it",
		     label, column->field);
	if (field->offset < 0 || field->size < 0 || field->offset > 65535 ||
	    field->size > 65535)
		fail(r, "the field '%s' of the event %s lies outside of it",
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
		fail(r, "the field '%s' of the event %s is no number",
		     column->field, label);
	if (column->kind == CIL_ARRAY)
		set_array(r, t, field, s);
	if (!number && s->dynamic && s->size != 4)
		fail(r, "the field '%s' of the event %s has an unknown layout",
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
	const struct table *t = &tables[table];
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
		fail(r, "needs more memory than there is");
}

static struct tep_event *event_of(struct reader *r, size_t table)
{
	const struct table *t = &tables[table];
	struct tep_event *event;

	if (!t->system)
		return NULL;
	event = tep_find_event_by_name(r->tep, t->system, t->event);
	return event && event->id >= 0 && event->id < ID_COUNT ? event : NULL;
}

/* Which events are the tables made of, and are they in the trace? */
static void resolve_tables(struct reader *r)
{
	bool decided = event_of(r, TABLE_DECISION) && event_of(r, TABLE_OUTCOME);
	size_t table;

	r->wanted[TABLE_PERIOD] &= decided;
	r->wanted[TABLE_INTERVAL] &= decided;
	r->wanted[TABLE_IDLE] &= !!event_of(r, TABLE_CPU_IDLE);
	if (r->wanted[TABLE_PERIOD] || r->wanted[TABLE_INTERVAL]) {
		r->used[TABLE_DECISION] = true;
		r->used[TABLE_OUTCOME] = true;
		r->used[TABLE_CONFIG] = event_of(r, TABLE_CONFIG);
	}
	r->used[TABLE_CPU_IDLE] = r->wanted[TABLE_IDLE];
	for (table = 0; table < TABLE_COUNT; table++) {
		if (tables[table].system && !event_of(r, table))
			r->wanted[table] = false;
	}
}

static void set_sources(struct reader *r, size_t table)
{
	const struct table *t = &tables[table];
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

static void prepare_tables(struct reader *r)
{
	size_t table;

	memset(r->table_of, NO_TABLE, sizeof(r->table_of));
	resolve_tables(r);
	for (table = 0; table < TABLE_COUNT; table++) {
		if (tables[table].system &&
		    (r->wanted[table] || r->used[table]))
			set_sources(r, table);
		if (r->wanted[table])
			set_chunk(r, table);
	}
}

/* ---- Schema: tables, columns, and the names of symbolic values. ---- */

static void print_kind(FILE *to, const struct cil_buffer *b,
		       const struct tep_format_field *field)
{
	static const char *const names[] = {
		"u8", "u16", "u32", "u64", "s32", "s64", NULL, "text", "bytes",
		"text",
	};

	if (b->kind == CIL_ARRAY)
		fprintf(to, "%c%u[%u]\n",
			field->flags & TEP_FIELD_IS_SIGNED ? 's' : 'u',
			field->elementsize * 8, field->arraylen);
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
	const struct table *t = &tables[table];
	const struct cil_chunk *chunk = &r->chunks[table];
	struct tep_event *event = event_of(r, table);
	size_t i;

	fprintf(to, "table %zu %s\ncolumn ts u64\ncolumn cpu u16\n", table,
		t->name);
	for (i = 0; i < column_count(t); i++) {
		const struct column *column = &t->columns[i];

		fprintf(to, "column %s ", column->name);
		print_kind(to, &chunk->buffers[i + 2],
			   event ? tep_find_any_field(event, column->field) :
				   NULL);
	}
}

static void write_schema(struct reader *r)
{
	char *text = NULL;
	size_t size, table;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		fail(r, "needs more memory than there is");
	fprintf(to, "cpus %d\n", tep_get_cpus(r->tep));
	for (table = 0; table < TABLE_COUNT; table++) {
		const struct tep_event *event = event_of(r, table);

		if (r->wanted[table])
			print_table(r, to, table);
		if (event && (r->wanted[table] || r->used[table]))
			print_symbols(to, tables[table].name,
				      event->print_fmt.args);
	}
	if (fclose(to))
		fail(r, "needs more memory than there is");
	check_stream(r, cil_message_write(r->out, CIL_MESSAGE_SCHEMA, text));
	free(text);
}

/* ---- Records. ---- */

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

/* Where is the content of a text or of bytes? False: outside of the record. */
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
		name = tep_find_function(r->tep, read_number(r, data + s->offset,
							     s->size, false));
		return cil_put_content(chunk, column, name ? name : "unknown",
				       strlen(name ? name : "unknown"));
	}
	if (!find_content(r, s, record, &offset, &size))
		return -1;
	if (s->kind == CIL_TEXT)
		size = strnlen((const char *)data + offset, size);
	if (cil_put_content(chunk, column, data + offset, size))
		fail(r, "needs more memory than there is");
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
			cil_put_number(chunk, i, read_source(r, s, record));
		else if (s->kind == CIL_ARRAY)
			put_array(r, chunk, i, data + s->offset);
		else if (put_content(r, chunk, i, record))
			return -1;
	}
	return 0;
}

static void begin_row(struct cil_chunk *chunk, u64 ts, int cpu)
{
	cil_put_number(chunk, 0, ts);
	cil_put_number(chunk, 1, cpu);
}

static void end_row(struct reader *r, struct cil_chunk *chunk)
{
	chunk->rows++;
	if (cil_chunk_full(chunk))
		check_stream(r, cil_chunk_write(chunk, r->out));
}

/* ---- Periods and intervals: between records, structs and rows. ---- */

/* The numbers of an event into the members of a struct. */
static void read_members(const struct reader *r, size_t table,
			 const struct tep_record *record, void *to)
{
	const struct column *column = tables[table].columns;
	const struct source *s = r->sources[table];

	for (; column->name; column++, s++)
		cil_store((u8 *)to + column->member, s->width,
			  read_source(r, s, record));
}

/* The members of a struct into a row. */
static void put_members(struct reader *r, size_t table, u64 ts,
			const void *from)
{
	const struct column *column = tables[table].columns;
	struct cil_chunk *chunk = &r->chunks[table];
	size_t i;

	if (!r->wanted[table])
		return;
	begin_row(chunk, ts, r->periods.cpu);
	for (i = 2; i < chunk->columns; i++, column++) {
		size_t width = chunk->buffers[i].width;

		cil_put_number(chunk, i, load((const u8 *)from + column->member,
					      width));
	}
	end_row(r, chunk);
}

static void put_period(void *context, const struct cil_period *period)
{
	put_members(context, TABLE_PERIOD, period->ts, period);
}

static void put_interval(void *context, const struct cil_interval *interval)
{
	put_members(context, TABLE_INTERVAL, interval->ts, interval);
}

static void put_idle(void *context, const struct cil_interval *interval)
{
	put_members(context, TABLE_IDLE, interval->ts, interval);
}

static const struct source *config_source(const struct reader *r,
					  const char *name)
{
	const struct column *column = tables[TABLE_CONFIG].columns;
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
		return "has a cpuidle_lab:config event of one CPU that tells of another";
	for (k = 0; k < machine.states && k < CIL_PERIODS_STATES; k++) {
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

/* Of use only while no decision tells more. */
static const char *take_idle(struct reader *r, const struct tep_record *record)
{
	const struct source *s = r->sources[TABLE_CPU_IDLE];

	if (r->counts.decisions || read_source(r, &s[1], record) != r->periods.cpu)
		return NULL;
	return cil_periods_idle(&r->periods, record->ts,
				read_source(r, &s[0], record));
}

static const char *use_record(struct reader *r, size_t table,
			      const struct tep_record *record)
{
	switch (table) {
	case TABLE_DECISION:
		return take_decision(r, record);
	case TABLE_OUTCOME:
		return take_outcome(r, record);
	case TABLE_CONFIG:
		return take_config(r, record);
	default:
		return take_idle(r, record);
	}
}

/* ---- Reading. ---- */

static void note_lost(struct reader *r, const struct tep_record *record, int cpu)
{
	struct cil_chunk *chunk = &r->chunks[TABLE_LOST];

	cil_periods_lost(&r->periods);
	if (!r->wanted[TABLE_LOST])
		return;
	begin_row(chunk, record->ts, cpu);
	cil_put_number(chunk, 2, record->missed_events);
	end_row(r, chunk);
}

static void put_record(struct reader *r, size_t table,
		       const struct tep_record *record, int cpu)
{
	struct cil_chunk *chunk = &r->chunks[table];

	begin_row(chunk, record->ts, cpu);
	if (put_columns(r, chunk, record))
		fail(r, "is damaged: a %s event of CPU %d is shorter than its format says",
		     tables[table].name, cpu);
	end_row(r, chunk);
}

static void take_record(struct reader *r, const struct tep_record *record,
			int cpu)
{
	const char *error;
	u8 table;
	int id;

	if (record->missed_events)
		note_lost(r, record, cpu);
	if (record->size < 2)
		fail(r, "is damaged: an event of CPU %d has no type", cpu);
	id = read_number(r, record->data, 2, false);
	table = r->table_of[id];
	if (table == NO_TABLE)
		return;
	if ((size_t)record->size < r->least[table])
		fail(r, "is damaged: a %s event of CPU %d is shorter than its format says",
		     tables[table].name, cpu);
	if (r->wanted[table])
		put_record(r, table, record, cpu);
	if (!r->used[table])
		return;
	error = use_record(r, table, record);
	if (error)
		fail(r, "%s", error);
}

/* Rows of the next CPU begin in chunks of their own. */
static void write_chunks(struct reader *r)
{
	size_t table;

	for (table = 0; table < TABLE_COUNT; table++) {
		if (r->wanted[table])
			check_stream(r, cil_chunk_write(&r->chunks[table],
							r->out));
	}
}

static void read_cpu(struct reader *r, int cpu)
{
	const struct cil_period_sink sink = {
		.period = put_period,
		.interval = put_interval,
		.idle = put_idle,
		.context = r,
	};
	struct tep_record *record = tracecmd_read_cpu_first(r->input, cpu);
	u64 last = 0;

	cil_periods_begin(&r->periods, cpu, &sink, &r->counts);
	for (; record; record = tracecmd_read_data(r->input, cpu)) {
		if (record->ts < last)
			fail(r, "is damaged: time runs backwards on CPU %d at %llu ns",
			     cpu, record->ts);
		last = record->ts;
		take_record(r, record, cpu);
		r->events++;
		tracecmd_free_record(record);
	}
	cil_periods_end(&r->periods);
	write_chunks(r);
}

static void write_end(struct reader *r)
{
	const struct cil_period_counts *c = &r->counts;
	char text[512];

	snprintf(text, sizeof(text),
		 "events %llu\ndecisions %llu\ndecisions_missing %llu\ngaps %llu\nwithout_outcome %llu\nwithout_decision %llu\nimplausible %llu\nunplaced %llu\n",
		 (unsigned long long)r->events,
		 (unsigned long long)c->decisions,
		 (unsigned long long)c->decisions_missing,
		 (unsigned long long)c->gaps,
		 (unsigned long long)c->without_outcome,
		 (unsigned long long)c->without_decision,
		 (unsigned long long)c->implausible,
		 (unsigned long long)c->unplaced);
	check_stream(r, cil_message_write(r->out, CIL_MESSAGE_END, text));
}

/* ---- The command line. ---- */

static bool want(struct reader *r, const char *name)
{
	size_t table;

	for (table = 0; table < TABLE_COUNT; table++) {
		if (!strcmp(name, tables[table].name)) {
			r->wanted[table] = true;
			return true;
		}
	}
	return false;
}

static FILE *take_stdout(void)
{
	/* Whatever the library prints must not end up in the stream. */
	int fd = dup(STDOUT_FILENO);
	FILE *out;

	if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return NULL;
	out = fdopen(fd, "wb");
	if (out)
		setvbuf(out, NULL, _IOFBF, 1 << 20);
	return out;
}

static void limit_resources(void)
{
	const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
#ifndef __SANITIZE_ADDRESS__
	const struct rlimit memory = { MEMORY_MAX, MEMORY_MAX };

	setrlimit(RLIMIT_DATA, &memory);
#endif
}

int main(int argc, char **argv)
{
	static struct reader r;
	size_t table;
	int cpu, i;

	if (argc < 2) {
		fprintf(stderr, "usage: trace-columns FILE [TABLE...]\n");
		return 2;
	}
	limit_resources();
	r.out = take_stdout();
	if (!r.out) {
		perror("trace-columns: standard output");
		return 1;
	}
	for (i = 2; i < argc; i++) {
		if (!want(&r, argv[i]))
			fail(&r, "has no table '%s'", argv[i]);
	}
	for (i = 0; argc == 2 && i < (int)TABLE_COUNT; i++)
		r.wanted[i] = true;
	open_trace(&r, argv[1]);
	prepare_tables(&r);
	write_schema(&r);
	for (cpu = 0; cpu < tep_get_cpus(r.tep); cpu++)
		read_cpu(&r, cpu);
	write_end(&r);
	for (table = 0; table < TABLE_COUNT; table++)
		cil_chunk_free(&r.chunks[table]);
	tracecmd_close(r.input);
	return 0;
}
