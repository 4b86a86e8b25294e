/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types and data of all parts of trace-columns: the columns of each table, their
 * places in a record, and the run of the program.
 *
 * trace_formats.c finds the places, trace_records.c reads what is there.
 */
#ifndef CIL_TRACE_FORMATS_H
#define CIL_TRACE_FORMATS_H

#include <trace-cmd.h>

#include "causes.h"
#include "columns.h"
#include "periods.h"
#include "stock.h"

/* The ids of events are 16 bits wide. */
#define ID_COUNT		65536
#define NO_TABLE		0xff

/* More elements than any array of ours has. */
#define ARRAY_MAX		64

/* Of a probe's event, see struct table. */
#define ANY_SYSTEM		"*"

/*
 * Timers move between CPUs, and other CPUs cancel them. With more CPUs than that
 * the time to read the events of all for each of them is not spent.
 */
#define OTHERS_MAX		16

/* Governors that a recording without the module may name. */
#define STOCK_GOVERNORS_MAX	64

/**
 * struct column - one column of a table
 * @name: its name in the output
 * @field: name of the event's field
 * @kind: what it holds
 * @member: offset in the struct that periods.h has for the table
 * @optional: the event may lack it; its source then has no size
 */
struct column {
	const char *name;
	const char *field;
	enum cil_kind kind;
	size_t member;
	bool optional;
};

/**
 * struct table - one event, one table
 * @name: name of the table
 * @system: system of the event, NULL where the table is not one event;
 *	ANY_SYSTEM for a probe, whose system is the name of a session
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
	TABLE_ASKED,
	TABLE_STOP,
	TABLE_RETAIN,
	TABLE_EXIT,
	TABLE_SWITCH,
	TABLE_TICK_STOP,
	TABLE_UNASKED,
	TABLE_ARMED,
	TABLE_GOT,
	TABLE_REFLECT,
	TABLE_CANCELLED,
	TABLE_EXPIRED,
	TABLE_REARM,
	TABLE_WHEEL,
	TABLE_UNWHEEL,
	TABLE_SOFTIRQ,
	TABLE_REQUEST_ADDED,
	TABLE_REQUEST_UPDATED,
	TABLE_REQUEST_REMOVED,
	TABLE_CPU_REQUEST_ADDED,
	TABLE_CPU_REQUEST_UPDATED,
	TABLE_CPU_REQUEST_REMOVED,
	TABLE_OFFLINE,
	TABLE_IRQ_DONE,
	TABLE_LOCAL_TIMER,
	TABLE_LOCAL_TIMER_DONE,
	TABLE_DECREMENTER,
	TABLE_DECREMENTER_DONE,
	TABLE_CALL_MANY,
	TABLE_IRQ_WORK,
	TABLE_IPI_RAISE,
	TABLE_IPI_SEND,
	TABLE_IPI_SEND_MANY,
	TABLE_CAUSE,
	TABLE_TASK,
	TABLE_LOST,
	TABLE_PERIOD,
	TABLE_INTERVAL,
	TABLE_IDLE,
	TABLE_COUNT
};

/* Contents of the tables: trace_formats.c. */
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
 * struct stock_machine - the idle states of some CPUs, as the caller tells them
 * @first: number of the first CPU
 * @last: number of the last CPU
 * @machine: the idle states
 * @names: of the states, with commas between them
 * @latency_req_ns: latency request
 * @disabled: bit k is set if state k was disabled
 */
struct stock_machine {
	u32 first;
	u32 last;
	struct cil_period_machine machine;
	char names[192];
	s64 latency_req_ns;
	u32 disabled;
};

/**
 * struct stock_governor - the current governor from some time on
 * @from_ns: from when
 * @number: as the rows have it
 * @name: its name
 */
struct stock_governor {
	u64 from_ns;
	u8 number;
	char name[32];
};

/**
 * struct stock_answer - an answer to a governor that waits for the next event
 * @is_held: it waits
 * @ts: when it was given
 * @sleep_length_ns: time to the next timer event, the tick left out
 * @delta_tick_ns: time to the next timer event, the tick included
 */
struct stock_answer {
	bool is_held;
	u64 ts;
	s64 sleep_length_ns;
	s64 delta_tick_ns;
};

/**
 * struct stock_scan - what a first reading of a CPU's events tells
 * @known: timers that were armed, or expired
 * @last_ns: time of the last event
 * @event_ns: the shortest time from an event to the entry of an idle state
 * @ticks_met: ticks that came when they were due
 * @ticks_missed: ticks that came at another time
 * @has_wheel: timers of the wheel are recorded
 * @has_probes: probes tell of each decision
 * @has_returns: it is told when the idle task gets the CPU back
 * @met: bit k is set if CPU k, another one, had a power:cpu_idle event
 */
struct stock_scan {
	struct cil_timers known;
	u64 last_ns;
	u64 event_ns;
	u64 ticks_met;
	u64 ticks_missed;
	bool has_wheel;
	bool has_probes;
	bool has_returns;
	u64 met;
};

/**
 * struct stock_reader - the reading of a recording without the module
 * @is_on: decisions are made of other events
 * @is_strict: the module recorded, too, and its decision event asked for timers
 *	that the governor did not ask for; those answers are not used
 * @has_no_probes: what probes told is not used
 * @migrates: as in struct cil_timers
 * @held: in strict mode, an answer of which it is not known who asked
 * @scan: first reading of that CPU
 * @state: the CPU being read
 * @counts: how well timers are known
 * @machines: idle states
 * @machine_count: how many
 * @current: those of the CPU being read, NULL: unknown
 * @governors: in the order of time
 * @governor_count: how many
 * @kernel: release of the kernel that recorded
 */
struct stock_reader {
	bool is_on;
	bool is_strict;
	bool has_no_probes;
	bool migrates;
	struct stock_answer held;
	struct stock_scan scan;
	struct cil_stock state;
	struct cil_stock_counts counts;
	struct stock_machine *machines;
	size_t machine_count;
	const struct stock_machine *current;
	struct stock_governor governors[STOCK_GOVERNORS_MAX];
	size_t governor_count;
	char kernel[96];
};

/* A reason of an interrupt between CPUs has an address; so many are kept. */
#define CAUSE_REASONS_MAX	32

/* The kernel numbers no more tasks. */
#define CAUSE_PIDS_MAX		(4 << 20)

/**
 * struct cause_move - a timer that a CPU loses to another
 * @ts: when
 * @timer: its address
 * @cpu: the CPU that had it
 */
struct cause_move {
	u64 ts;
	u64 timer;
	u32 cpu;
};

/**
 * struct cause_moves - all such timers, by CPU and time
 * @all: the moves
 * @count: how many
 * @room: how many there is memory for
 * @next: the next one of the CPU being read
 */
struct cause_moves {
	struct cause_move *all;
	size_t count;
	size_t room;
	size_t next;
};

/**
 * struct cause_reader - the reading of what ends idle periods
 * @timers: hrtimers of the CPU being read
 * @moves: those that it loses to other CPUs
 * @has_timers: they are recorded
 * @by_task: since the CPU's last exit from idle, a task armed or cancelled one
 * @has_raise: the architecture tells of interrupts between CPUs by ipi_raise, so
 *	that ipi_send_* would tell of them twice
 * @reasons: addresses of reasons, and which CIL_IPI_* each is
 * @reason_count: how many
 * @named: bit for each task whose name was written
 */
struct cause_reader {
	struct cil_timers timers;
	struct cause_moves moves;
	bool has_timers;
	bool by_task;
	bool has_raise;
	struct {
		u64 address;
		u8 reason;
	} reasons[CAUSE_REASONS_MAX];
	size_t reason_count;
	u8 named[CAUSE_PIDS_MAX / 8];
};

/**
 * struct reader - a run of this program
 * @out: the stream
 * @fd: the file
 * @top: the trace
 * @input: its buffer that has the events
 * @tep: its formats
 * @is_packed: its events are compressed
 * @last: place of each CPU's last event in the unpacked file
 * @unpacked: so many bytes were unpacked since the file was opened
 * @swap: its byte order is not ours
 * @table_of: table of each event id, or NO_TABLE
 * @wanted: tables that are written
 * @used: events that periods and intervals are made of
 * @chunks: rows of each table
 * @sources: where the columns of each table come from
 * @least: size of the shortest record of each table that has all its numbers
 * @periods: periods and intervals of the CPU being read
 * @domains_exit_ns: the longest time that a CPU waits for its domains
 * @answers_size: bytes of the answers within the interval to come
 * @counts: what is missing
 * @events: events read, those of no table included
 * @place: where the last of them is in the file
 * @stock: the reading of a recording without the module
 * @others: next event of each other CPU where timers matter; in catch_up()
 *          that of the CPU being read, too
 * @causes: the reading of what ends idle periods
 */
struct reader {
	FILE *out;
	int fd;
	struct tracecmd_input *top, *input;
	struct tep_handle *tep;
	bool is_packed;
	u64 *last;
	u64 unpacked;
	bool swap;
	u8 table_of[ID_COUNT];
	bool wanted[TABLE_COUNT];
	bool used[TABLE_COUNT];
	struct cil_chunk chunks[TABLE_COUNT];
	struct source sources[TABLE_COUNT][CIL_COLUMNS_MAX];
	size_t least[TABLE_COUNT];
	struct cil_periods periods;
	s64 domains_exit_ns;
	size_t answers_size;
	struct cil_period_counts counts;
	u64 events;
	u64 place;
	struct stock_reader stock;
	struct tep_record *others[OTHERS_MAX];
	struct cause_reader causes;
};

void cil_fail(struct reader *r, const char *format, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
void cil_check_stream(struct reader *r, int error);
void cil_prepare_tables(struct reader *r);
void cil_write_schema(struct reader *r);
bool cil_is_made(const struct reader *r, size_t table);

/* trace_input.c */
void cil_open(struct reader *r, const char *path);
void cil_close(struct reader *r);
struct tep_record *cil_first_record(struct reader *r, int cpu);
struct tep_record *cil_next_record(struct reader *r, int cpu);
void cil_renew_if_due(struct reader *r, int cpu, struct tep_record **held,
		      int count);

/* trace_names.c */
const char *cil_function_name(const struct reader *r, u64 address);

/* trace_records.c */
void cil_begin_periods(struct reader *r, int cpu);
void cil_take_record(struct reader *r, const struct tep_record *record, int cpu);
u8 cil_table_of(const struct reader *r, const struct tep_record *record);
void cil_put_members(struct reader *r, size_t table, u64 ts, const void *from);
u64 cil_read_field(const struct reader *r, size_t table, size_t column,
		   const struct tep_record *record);
const u8 *cil_read_content(const struct reader *r, size_t table, size_t column,
			   const struct tep_record *record, size_t *size);
void cil_write_chunks(struct reader *r);
void cil_end_row(struct reader *r, struct cil_chunk *chunk);

/* trace_causes.c */
bool cil_cause_prepare(struct reader *r, bool (*has)(struct reader *r, size_t table));
void cil_cause_begin_cpu(struct reader *r, u32 cpu);
void cil_cause_record(struct reader *r, size_t table,
		      const struct tep_record *record);
void cil_cause_lost(struct reader *r, u64 ts);

/* trace_moves.c */
void cil_moves_find(struct reader *r);
void cil_moves_begin_cpu(struct reader *r, u32 cpu);
void cil_moves_until(struct reader *r, u64 ts, u32 cpu);

/* trace_stock.c */
bool cil_stock_option(struct reader *r, const char *word);
void cil_stock_begin_cpu(struct reader *r, u32 cpu);
const char *cil_stock_record(struct reader *r, size_t table,
			     const struct tep_record *record);
void cil_stock_scan(struct reader *r, size_t table,
		    const struct tep_record *record);
void cil_stock_scan_other(struct reader *r, size_t table,
			  const struct tep_record *record);
void cil_stock_other(struct reader *r, size_t table,
		     const struct tep_record *record);
void cil_stock_scanned(struct reader *r);
void cil_stock_end_cpu(struct reader *r);

#endif /* CIL_TRACE_FORMATS_H */
