// SPDX-License-Identifier: GPL-2.0
/*
 * trace-columns: turn a trace.dat into a stream of columns.
 *
 * usage: trace-columns FILE [OPTION...] [TABLE...]
 *
 * The options make it build decisions of an unmodified kernel's events:
 * trace_stock.c.
 *
 * Writes the tables named (default: all) to the standard output as columns.h
 * says: events as they are, and the idle periods and intervals that periods.h
 * makes of them. CPUs come one after the other; a chunk holds rows of one CPU.
 * Only the events listed in cil_tables[] are looked at. Fields are found by
 * name in the formats that the trace carries (trace_formats.c), so a trace of
 * another kernel or architecture is read as well; one that lacks a field is
 * refused. The rest is here: records and the command line.
 *
 * This is a program of its own and not a library loaded into the caller,
 * because traces come from elsewhere and libtracecmd trusts what it reads:
 * whatever a damaged file does to it, the caller sees a stream that stops.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace_formats.h"

/*
 * Much more than any trace needs. The file itself is mapped and does not count;
 * were it counted, the library would take a map that fails for the file's end.
 */
#define MEMORY_MAX		(1024ull * 1024 * 1024)

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
		cil_fail(r, "cannot be read: %s", strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		cil_fail(r, "is not a regular file");
	got = read(fd, start, sizeof(start));
	close(fd);
	if (got == 0)
		cil_fail(r, "is empty");
	if (got != sizeof(start) || memcmp(start, magic, sizeof(start)))
		cil_fail(r, "is not a trace.dat file as trace-cmd writes it");
}

static bool is_empty(struct tracecmd_input *input, int cpus)
{
	struct tep_record *record = NULL;
	int cpu;

	for (cpu = 0; cpu < cpus && !record; cpu++)
		record = tracecmd_read_cpu_first(input, cpu);
	tracecmd_free_record(record);
	return !record;
}

/* A recording of one instance (trace-cmd -B) leaves the top-level buffer empty. */
static struct tracecmd_input *used_buffer(struct tracecmd_input *top)
{
	struct tracecmd_input *instance;

	if (tracecmd_buffer_instances(top) != 1 ||
	    !is_empty(top, tep_get_cpus(tracecmd_get_tep(top))))
		return top;
	instance = tracecmd_buffer_instance_handle(top, 0);
	return instance ? instance : top;
}

/* Exported by libtracecmd, but in none of its headers; older ones lack it. */
extern const char *tracecmd_get_trace_clock(struct tracecmd_input *input)
	__attribute__((weak));

/* Some clocks of the kernel do not count ns. */
static void check_clock(struct reader *r)
{
	static const char *const clocks[] = { "counter", "x86-tsc", "ppc-tb" };
	const char *clock = tracecmd_get_trace_clock ?
			    tracecmd_get_trace_clock(r->input) : NULL;
	size_t i;

	for (i = 0; clock && i < sizeof(clocks) / sizeof(*clocks); i++) {
		if (!strcmp(clock, clocks[i]))
			cil_fail(r, "was recorded by the clock %s, which does not count ns; record with trace-cmd record -C mono",
				 clock);
	}
}

static void open_trace(struct reader *r, const char *path)
{
	check_file(r, path);
	tracecmd_set_loglevel(TEP_LOG_NONE);
	tep_set_loglevel(TEP_LOG_NONE);
	r->input = tracecmd_open(path, TRACECMD_FL_LOAD_NO_PLUGINS);
	if (!r->input)
		cil_fail(r, "is a trace.dat file, but truncated or damaged");
	check_clock(r);
	r->input = used_buffer(r->input);
	r->tep = tracecmd_get_tep(r->input);
	r->swap = tep_is_file_bigendian(r->tep) !=
		  tep_is_local_bigendian(r->tep);
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

static void begin_row(struct cil_chunk *chunk, u64 ts, int cpu)
{
	cil_put_number(chunk, 0, ts);
	cil_put_number(chunk, 1, cpu);
}

static void end_row(struct reader *r, struct cil_chunk *chunk)
{
	chunk->rows++;
	if (cil_chunk_full(chunk))
		cil_check_stream(r, cil_chunk_write(chunk, r->out));
}

/* ---- Periods and intervals: between records, structs and rows. ---- */

/* The numbers of an event into the members of a struct. */
static void read_members(const struct reader *r, size_t table,
			 const struct tep_record *record, void *to)
{
	const struct column *column = cil_tables[table].columns;
	const struct source *s = r->sources[table];

	for (; column->name; column++, s++)
		cil_store((u8 *)to + column->member, s->width,
			  read_source(r, s, record));
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
	size_t i;

	if (!r->wanted[table])
		return;
	begin_row(chunk, ts, r->periods.cpu);
	for (i = 2; i < chunk->columns && column->kind != CIL_BYTES;
	     i++, column++) {
		size_t width = chunk->buffers[i].width;

		cil_put_number(chunk, i, load((const u8 *)from + column->member,
					      width));
	}
	end_row(r, chunk);
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

	put_lasted(r, TABLE_INTERVAL, r->answers_size, interval);
	r->answers_size = 0;
}

static void put_idle(void *context, const struct cil_interval *interval)
{
	put_lasted(context, TABLE_IDLE, 0, interval);
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
		return "has a cpuidle_lab:config event of one CPU that tells of another";
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

/* ---- Reading. ---- */

/* @events are lost here, -1 for an unknown number, or it is a hole of another kind. */
static void note_hole(struct reader *r, u64 ts, int cpu, s64 events)
{
	struct cil_chunk *chunk = &r->chunks[TABLE_LOST];

	if (r->stock.current)
		cil_stock_lost(&r->stock.state);
	cil_periods_lost(&r->periods);
	if (!r->wanted[TABLE_LOST])
		return;
	begin_row(chunk, ts, cpu);
	cil_put_number(chunk, 2, events);
	end_row(r, chunk);
}

static void put_record(struct reader *r, size_t table,
		       const struct tep_record *record, int cpu)
{
	struct cil_chunk *chunk = &r->chunks[table];

	begin_row(chunk, record->ts, cpu);
	if (put_columns(r, chunk, record))
		cil_fail(r, "is damaged: a %s event of CPU %d is shorter than its format says",
			 cil_tables[table].name, cpu);
	end_row(r, chunk);
}

static void take_record(struct reader *r, const struct tep_record *record,
			int cpu)
{
	const char *error;
	u8 table;
	int id;

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
	if (table == TABLE_OFFLINE) {
		if (cil_read_field(r, table, 0, record) == (u64)cpu)
			note_hole(r, record->ts, cpu, 0);
		return;
	}
	error = use_record(r, table, record);
	if (error)
		cil_fail(r, "%s", error);
}

/* Rows of the next CPU begin in chunks of their own. */
static void write_chunks(struct reader *r)
{
	size_t table;

	for (table = 0; table < TABLE_COUNT; table++) {
		if (r->wanted[table])
			cil_check_stream(r, cil_chunk_write(&r->chunks[table],
							    r->out));
	}
}

/* The table of a record; NO_TABLE where the record holds none. */
static u8 table_of(const struct reader *r, const struct tep_record *record)
{
	u8 table = NO_TABLE;

	if (record->size >= 2)
		table = r->table_of[read_number(r, record->data, 2, false)];
	if (table != NO_TABLE && ((size_t)record->size < r->least[table] ||
				  !r->used[table]))
		table = NO_TABLE;
	return table;
}

/* The other CPUs whose events matter to one, too. */
static bool has_others(const struct reader *r)
{
	int cpus = tep_get_cpus(r->tep);

	return cpus > 1 && cpus <= OTHERS_MAX;
}

/*
 * The library ends where it cannot read on: at the end of the data, where they
 * cannot be unpacked, or without memory for that.
 */
static struct tep_record *checked(struct reader *r, int cpu,
				  struct tep_record *record)
{
	if (!record && errno == ENOMEM)
		cil_fail(r, "needs more memory than there is to unpack CPU %d", cpu);
	if (!record && errno)
		cil_fail(r, "is damaged: the events of CPU %d cannot be unpacked", cpu);
	return record;
}

static struct tep_record *first_record(struct reader *r, int cpu)
{
	errno = 0;
	return checked(r, cpu, tracecmd_read_cpu_first(r->input, cpu));
}

static struct tep_record *next_record(struct reader *r, int cpu)
{
	errno = 0;
	return checked(r, cpu, tracecmd_read_data(r->input, cpu));
}

/* Notes the timers armed on other CPUs. Their events begin again then. */
static void scan_others(struct reader *r, int cpu)
{
	struct tep_record *record;
	int other;

	for (other = 0; other < tep_get_cpus(r->tep); other++) {
		if (other == cpu)
			continue;
		record = first_record(r, other);
		for (; record; record = next_record(r, other)) {
			cil_stock_scan_other(r, table_of(r, record), record);
			tracecmd_free_record(record);
		}
		r->others[other] = first_record(r, other);
	}
}

/* Takes the changes that other CPUs made to the timers of a CPU before @ts. */
static void catch_up(struct reader *r, u64 ts)
{
	struct tep_record *record;
	int other;

	for (other = 0; other < OTHERS_MAX; other++) {
		while ((record = r->others[other]) && record->ts < ts) {
			cil_stock_other(r, table_of(r, record), record);
			tracecmd_free_record(record);
			r->others[other] = next_record(r, other);
		}
	}
}

static void forget_others(struct reader *r)
{
	int other;

	for (other = 0; other < OTHERS_MAX; other++) {
		tracecmd_free_record(r->others[other]);
		r->others[other] = NULL;
	}
}

/* A recording without the module is read twice: cil_stock_scan(). */
static void scan_cpu(struct reader *r, int cpu)
{
	struct tep_record *record;

	if (has_others(r))
		scan_others(r, cpu);
	else if (tep_get_cpus(r->tep) > 1)
		r->stock.state.all.ticking = ~0ull;
	record = first_record(r, cpu);
	for (; record; record = next_record(r, cpu)) {
		cil_stock_scan(r, table_of(r, record), record);
		tracecmd_free_record(record);
	}
	cil_stock_scanned(r);
}

static void read_cpu(struct reader *r, int cpu)
{
	const struct cil_period_sink sink = {
		.period = put_period,
		.answer = put_answer,
		.interval = put_interval,
		.idle = put_idle,
		.context = r,
	};
	struct tep_record *record;
	u64 last = 0;

	cil_periods_begin(&r->periods, cpu, &sink, &r->counts);
	if (r->stock.is_on)
		cil_stock_begin_cpu(r, cpu);
	if (r->stock.current)
		scan_cpu(r, cpu);
	record = first_record(r, cpu);
	for (; record; record = next_record(r, cpu)) {
		if (record->ts < last)
			cil_fail(r, "is damaged: time runs backwards on CPU %d at %llu ns",
				 cpu, record->ts);
		last = record->ts;
		if (r->stock.current && r->stock.state.has_all)
			catch_up(r, record->ts);
		take_record(r, record, cpu);
		r->events++;
		tracecmd_free_record(record);
	}
	if (r->stock.current)
		cil_stock_end_cpu(r);
	forget_others(r);
	cil_periods_end(&r->periods);
	write_chunks(r);
}

static void write_end(struct reader *r)
{
	const struct cil_period_counts *c = &r->counts;
	const struct cil_stock_counts *k = &r->stock.counts;
	char text[512];

	snprintf(text, sizeof(text),
		 "events %llu\ndecisions %llu\ndecisions_missing %llu\ngaps %llu\nwithout_outcome %llu\nwithout_decision %llu\nimplausible %llu\nunplaced %llu\nasked %llu\ninferred %llu\nuntold %llu\nfateless %llu\n",
		 (unsigned long long)r->events,
		 (unsigned long long)c->decisions,
		 (unsigned long long)c->decisions_missing,
		 (unsigned long long)c->gaps,
		 (unsigned long long)c->without_outcome,
		 (unsigned long long)c->without_decision,
		 (unsigned long long)c->implausible,
		 (unsigned long long)c->unplaced,
		 (unsigned long long)k->asked,
		 (unsigned long long)k->inferred,
		 (unsigned long long)k->untold,
		 (unsigned long long)k->fateless);
	cil_check_stream(r, cil_message_write(r->out, CIL_MESSAGE_END, text));
}

/* ---- The command line. ---- */

static bool want(struct reader *r, const char *name)
{
	size_t table;

	for (table = 0; table < TABLE_COUNT; table++) {
		if (!strcmp(name, cil_tables[table].name)) {
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
	bool all = true;
	size_t table;
	int cpu, i;

	if (argc < 2) {
		fprintf(stderr, "usage: trace-columns FILE [OPTION...] [TABLE...]\n");
		return 2;
	}
	limit_resources();
	r.out = take_stdout();
	if (!r.out) {
		perror("trace-columns: standard output");
		return 1;
	}
	for (i = 2; i < argc; i++) {
		if (cil_stock_option(&r, argv[i]))
			continue;
		if (!want(&r, argv[i]))
			cil_fail(&r, "has no table '%s'", argv[i]);
		all = false;
	}
	for (i = 0; all && i < (int)TABLE_COUNT; i++)
		r.wanted[i] = true;
	open_trace(&r, argv[1]);
	cil_prepare_tables(&r);
	cil_write_schema(&r);
	for (cpu = 0; cpu < tep_get_cpus(r.tep); cpu++)
		read_cpu(&r, cpu);
	write_end(&r);
	for (table = 0; table < TABLE_COUNT; table++)
		cil_chunk_free(&r.chunks[table]);
	tracecmd_close(r.input);
	return 0;
}
