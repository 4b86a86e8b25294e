// SPDX-License-Identifier: GPL-2.0
/*
 * The trace reader past libtracecmd: true formats, records of any content.
 *
 * The library trusts what it reads, which is why the reader is a process of its
 * own; fuzzed together with it, it is the library whose faults are found. Here
 * the formats come from a real file, made by tests/tracedat.py and named by
 * FUZZ_TRACE, and the records from the input. fuzz_told.c reads them as those of
 * a recording without the module.
 */
#include <setjmp.h>
#include <unistd.h>

#include "input.h"

/* Where the reader gives up, the next input comes. */
static jmp_buf given_up;

static void __attribute__((noreturn)) give_up(int code)
{
	longjmp(given_up, code);
}

#define main reader_main
#define _exit give_up
#include "../../../tools/native/trace_formats.c"
#include "../../../tools/native/trace_columns.c"
#undef main
#undef _exit

#define RECORD_MAX	512

/* Address of the first function in the file of fuzz_told.c. */
#define FUNCTION	0xffff000000000010ull

#ifndef OPTIONS
#define FILE_VARIABLE	"FUZZ_TRACE"
#define OPTIONS		NULL
#endif

static struct reader reader;

/* All tables, as the program does without arguments. */
static void open_once(void)
{
	static const char *const options[] = { OPTIONS };
	const char *path = getenv(FILE_VARIABLE);
	size_t table, i;

	if (reader.out)
		return;
	DEMAND(path);
	reader.out = fopen("/dev/null", "wb");
	DEMAND(reader.out);
	for (table = 0; table < TABLE_COUNT; table++)
		reader.wanted[table] = true;
	if (setjmp(given_up)) {
		fprintf(stderr, "%s: cannot be opened\n", path);
		exit(1);
	}
	for (i = 0; i < sizeof(options) / sizeof(*options) && options[i]; i++)
		DEMAND(cil_stock_option(&reader, options[i]));
	cil_open(&reader, path);
	cil_prepare_tables(&reader);
	cil_write_schema(&reader);
}

/* Values that an event may hold: states, timers, functions, times near to its own. */
static u64 take_value(struct input *in, size_t table, u64 ts)
{
	switch (take_below(in, table == TABLE_CPU_IDLE ? 4 : 8)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return take_below(in, 3);
	case 3:
		return CIL_IDLE_EXIT;
	case 4:
		return FUNCTION + 16 * take_below(in, 3);
	case 5:
		return take_wild(in);
	default:
		return ts + take_time(in, 24);
	}
}

static void take_values(struct input *in, u8 *data, size_t size, size_t table,
			u64 ts)
{
	const struct source *s = reader.sources[table];
	size_t i;

	for (i = 0; i < column_count(&cil_tables[table]); i++, s++) {
		u64 value = take_value(in, table, ts);

		if ((s->kind < CIL_ARRAY || s->kind == CIL_FUNCTION) &&
		    s->offset + s->size <= size)
			memcpy(data + s->offset, &value, s->size);
	}
}

/* An event of one of our tables, or of none. */
static void take_header(struct input *in, u8 *data, size_t size, u64 ts)
{
	u16 id = take_u64(in);
	size_t table = take_below(in, TABLE_COUNT + 1);
	struct tep_event *event = NULL;

	if (table < TABLE_COUNT)
		event = event_of(&reader, table);
	if (event)
		id = event->id;
	if (event && reader.stock.is_on && take_below(in, 8))
		take_values(in, data, size, table, ts);
	memcpy(data, &id, sizeof(id));
}

/* A recording without the module is read twice, and other CPUs beside the first. */
static void give(const struct tep_record *record, bool scans, bool other)
{
	u8 table = cil_table_of(&reader, record);

	if (scans && other)
		cil_stock_scan_other(&reader, table, record);
	else if (scans)
		cil_stock_scan(&reader, table, record);
	else if (other)
		cil_stock_other(&reader, table, record);
	else
		cil_take_record(&reader, record, 0);
}

static void feed(struct input *in, bool scans)
{
	/* Of the exact size, so that a read behind it is seen. */
	static u8 *data;
	u64 ts = 0;

	while (in->size) {
		size_t size = take_below(in, take_below(in, 8) ? 160 : RECORD_MAX);
		bool other = reader.stock.is_on && !take_below(in, 8);
		struct tep_record record = { .size = size, .cpu = other };

		free(data);
		data = malloc(size);
		DEMAND(data || !size);
		take_bytes(in, data, size);
		ts += take_time(in, 32);
		if (size >= 2)
			take_header(in, data, size, ts);
		record.ts = ts;
		record.data = data;
		record.missed_events = take_below(in, 32) ? 0 : (s64)take_wild(in);
		give(&record, scans, other);
	}
}

static void read_input(struct input *in)
{
	struct input again = *in;

	if (!reader.stock.is_on) {
		feed(in, false);
	} else {
		cil_stock_begin_cpu(&reader, 0);
		feed(&again, true);
		cil_stock_scanned(&reader);
		feed(in, false);
		cil_stock_end_cpu(&reader);
	}
	cil_periods_end(&reader.periods);
	cil_write_chunks(&reader);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, size };

	open_once();
	memset(&reader.counts, 0, sizeof(reader.counts));
	reader.answers_size = 0;
	reader.domains_exit_ns = 0;
	cil_begin_periods(&reader, 0);
	cil_cause_begin_cpu(&reader, 0);
	reader.swap = take_u8(&in) & 1;
	if (!setjmp(given_up))
		read_input(&in);
	return 0;
}
