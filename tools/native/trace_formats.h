/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of trace-columns share: which table has which columns, where
 * these are in a record, and the run of the program.
 *
 * trace_formats.c finds the places, trace_columns.c reads what is there.
 */
#ifndef CIL_TRACE_FORMATS_H
#define CIL_TRACE_FORMATS_H

#include <trace-cmd.h>

#include "columns.h"
#include "periods.h"

/* The ids of events are 16 bits wide. */
#define ID_COUNT		65536
#define NO_TABLE		0xff

/* More elements than any array of ours has. */
#define ARRAY_MAX		64

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

/* As the schema numbers them. */
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

/* What the tables are made of: trace_formats.c. */
extern const struct table cil_tables[TABLE_COUNT];

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
 * @answers_size: bytes of the answers within the interval to come
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
	size_t answers_size;
	struct cil_period_counts counts;
	u64 events;
};

void cil_fail(struct reader *r, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
void cil_check_stream(struct reader *r, int error);
void cil_prepare_tables(struct reader *r);
void cil_write_schema(struct reader *r);

#endif /* CIL_TRACE_FORMATS_H */
