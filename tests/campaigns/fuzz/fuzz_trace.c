// SPDX-License-Identifier: GPL-2.0
/*
 * The trace reader past libtracecmd: true formats, records of any content.
 *
 * The library trusts what it reads, which is why the reader is a process of its
 * own; fuzzed together with it, it is the library whose faults are found. Here
 * the formats come from a real file, made by tests/tracedat.py and named by
 * FUZZ_TRACE, and the records from the input.
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

static struct reader reader;

/* All tables, as the program does without arguments. */
static void open_once(void)
{
	const char *path = getenv("FUZZ_TRACE");
	size_t table;

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
	open_trace(&reader, path);
	cil_prepare_tables(&reader);
	cil_write_schema(&reader);
}

/* An event of one of our tables, or of none. */
static void take_header(struct input *in, u8 *data)
{
	u16 id = take_u64(in);
	size_t table = take_below(in, TABLE_COUNT + 1);
	struct tep_event *event = NULL;

	if (table < TABLE_COUNT)
		event = event_of(&reader, table);
	if (event)
		id = event->id;
	memcpy(data, &id, sizeof(id));
}

static void feed(struct input *in)
{
	/* Of the exact size, so that a read behind it is seen. */
	static u8 *data;
	u64 ts = 0;

	while (in->size) {
		size_t size = take_below(in, take_below(in, 8) ? 160 : RECORD_MAX);
		struct tep_record record = { .size = size };

		free(data);
		data = malloc(size);
		DEMAND(data || !size);
		take_bytes(in, data, size);
		if (size >= 2)
			take_header(in, data);
		ts += take_time(in, 32);
		record.ts = ts;
		record.data = data;
		record.missed_events = take_below(in, 32) ? 0 : (s64)take_wild(in);
		take_record(&reader, &record, 0);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static const struct cil_period_sink sink = {
		put_period, put_answer, put_interval, put_idle, &reader,
	};
	struct input in = { data, size };

	open_once();
	memset(&reader.counts, 0, sizeof(reader.counts));
	reader.answers_size = 0;
	cil_periods_begin(&reader.periods, 0, &sink, &reader.counts);
	reader.swap = take_u8(&in) & 1;
	if (!setjmp(given_up)) {
		feed(&in);
		cil_periods_end(&reader.periods);
		write_chunks(&reader);
	}
	return 0;
}
