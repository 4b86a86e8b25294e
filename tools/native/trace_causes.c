// SPDX-License-Identifier: GPL-2.0
/*
 * The table `cause`: all events of a CPU that tell what ends its idle periods, in
 * one order and in numbers alone. recording/causes.py reads it.
 *
 * Architectures name their timers and the interrupts between CPUs differently;
 * the tables below know the names.
 */
#include <string.h>

#include "trace_formats.h"

/*
 * Handlers of irq:irq_handler_entry that serve the timer of a CPU, or the one
 * that stands for it in idle states that stop it. A name that ends with @ goes
 * on with the address of the device.
 */
static const struct {
	const char *architecture;
	const char *name;
} timer_handlers[] = {
	{ "arm, arm64", "arch_timer" },
	{ "arm, arm64", "systimer@" },
	{ "arm, arm64", "timer@" },
	{ "arm", "twd" },
	{ "arm", "mct_tick0" },
	{ "loongarch, x86", "timer" },
	{ "mips", "MIPS GIC timer" },
	{ "riscv", "riscv-timer" },
	{ "sparc", "local timer" },
	{ "x86", "hpet" },
};

/* Beginnings of what /proc/interrupts calls interrupts between CPUs. */
static const struct {
	const char *begin;
	u8 reason;
} ipi_reasons[] = {
	{ "Resched", CIL_IPI_RESCHEDULE },
	{ "Function call", CIL_IPI_CALL },
	{ "Single function call", CIL_IPI_CALL },
	{ "Timer broadcast", CIL_IPI_TIMER },
	{ "IRQ work", CIL_IPI_WORK },
};

/* Events that are rows as they are. */
static const struct {
	u8 table;
	u8 kind;
	u8 reason;
} rows[] = {
	{ TABLE_LOCAL_TIMER, CIL_CAUSE_TIMER, 0 },
	{ TABLE_LOCAL_TIMER_DONE, CIL_CAUSE_DONE, 0 },
	{ TABLE_DECREMENTER, CIL_CAUSE_TIMER, 0 },
	{ TABLE_DECREMENTER_DONE, CIL_CAUSE_DONE, 0 },
	{ TABLE_IRQ_DONE, CIL_CAUSE_DONE, 0 },
	{ TABLE_RESCHEDULE, CIL_CAUSE_IPI, CIL_IPI_RESCHEDULE },
	{ TABLE_CALL, CIL_CAUSE_IPI, CIL_IPI_CALL },
	{ TABLE_CALL_MANY, CIL_CAUSE_IPI, CIL_IPI_CALL },
	{ TABLE_IRQ_WORK, CIL_CAUSE_IPI, CIL_IPI_WORK },
};

/* Events of which a row takes more. */
static const u8 others[] = {
	TABLE_CPU_IDLE, TABLE_IRQ, TABLE_SOFTIRQ, TABLE_IPI_RAISE,
	TABLE_IPI_SEND, TABLE_IPI_SEND_MANY, TABLE_ARMED, TABLE_CANCELLED,
	TABLE_EXPIRED, TABLE_HRTIMER,
};

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/**
 * cil_cause_prepare() - use the events that tell what ends idle periods
 * @r: the run
 * @has: tells whether the trace has the event of a table
 *
 * Return: whether the table is wanted, and the trace has idle periods and
 * interrupts.
 */
bool cil_cause_prepare(struct reader *r, bool (*has)(struct reader *r, size_t table))
{
	size_t i;

	if (!r->wanted[TABLE_CAUSE] || !has(r, TABLE_CPU_IDLE) ||
	    !(has(r, TABLE_IRQ) || has(r, TABLE_LOCAL_TIMER)))
		return false;
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		r->used[rows[i].table] |= has(r, rows[i].table);
	for (i = 0; i < ARRAY_SIZE(others); i++)
		r->used[others[i]] |= has(r, others[i]);
	r->causes.has_timers = r->used[TABLE_ARMED] && r->used[TABLE_CANCELLED];
	r->causes.has_raise = r->used[TABLE_IPI_RAISE];
	return true;
}

/**
 * cil_cause_begin_cpu() - the events of the next CPU begin
 * @r: the run
 * @cpu: its number
 */
void cil_cause_begin_cpu(struct reader *r, u32 cpu)
{
	if (!r->causes.has_timers)
		return;
	cil_timers_begin(&r->causes.timers, 1);
	cil_moves_begin_cpu(r, cpu);
}

static void put_row(struct reader *r, u64 ts, u8 kind, u8 reason, s32 pid,
		    s64 number, s64 own_ns, s64 tick_ns)
{
	struct cil_chunk *chunk = &r->chunks[TABLE_CAUSE];

	cil_put_number(chunk, 0, ts);
	cil_put_number(chunk, 1, r->periods.cpu);
	cil_put_number(chunk, 2, kind);
	cil_put_number(chunk, 3, reason);
	cil_put_number(chunk, 4, pid);
	cil_put_number(chunk, 5, number);
	cil_put_number(chunk, 6, own_ns);
	cil_put_number(chunk, 7, tick_ns);
	cil_end_row(r, chunk);
}

static s32 pid_of(const struct reader *r, const struct tep_record *record)
{
	return tep_data_pid(r->tep, (struct tep_record *)record);
}

/**
 * cil_cause_lost() - events are missing
 * @r: the run
 * @ts: before that time
 */
void cil_cause_lost(struct reader *r, u64 ts)
{
	if (r->wanted[TABLE_CAUSE])
		put_row(r, ts, CIL_CAUSE_LOST, 0, 0, 0, 0, 0);
}

/* ---- Interrupts between CPUs. ---- */

/* The kernel shows the text of a reason, whose address alone is in the record. */
static u8 reason_of_text(struct reader *r, const struct tep_record *record)
{
	u8 reason = CIL_IPI_OTHER;
	struct trace_seq text;
	const char *at;
	size_t i;

	trace_seq_init(&text);
	tep_print_event(r->tep, &text, (struct tep_record *)record, "%s",
			TEP_PRINT_INFO);
	trace_seq_terminate(&text);
	at = text.buffer ? strchr(text.buffer, '(') : NULL;
	for (i = 0; at && i < ARRAY_SIZE(ipi_reasons); i++) {
		if (!strncmp(at + 1, ipi_reasons[i].begin,
			     strlen(ipi_reasons[i].begin)))
			reason = ipi_reasons[i].reason;
	}
	trace_seq_destroy(&text);
	return reason;
}

static u8 reason_of(struct reader *r, const struct tep_record *record)
{
	u64 address = cil_read_field(r, TABLE_IPI_RAISE, 1, record);
	struct cause_reader *c = &r->causes;
	size_t i;

	for (i = 0; i < c->reason_count; i++) {
		if (c->reasons[i].address == address)
			return c->reasons[i].reason;
	}
	if (i == CAUSE_REASONS_MAX)
		return CIL_IPI_OTHER;
	c->reasons[i].address = address;
	c->reasons[i].reason = reason_of_text(r, record);
	c->reason_count++;
	return c->reasons[i].reason;
}

/* The name of a task that raises an interrupt, once. */
static void put_task(struct reader *r, u64 ts, s32 pid)
{
	struct cil_chunk *chunk = &r->chunks[TABLE_TASK];
	const char *comm;

	if (!r->wanted[TABLE_TASK] || pid < 0 || pid >= CAUSE_PIDS_MAX ||
	    r->causes.named[pid / 8] >> pid % 8 & 1)
		return;
	r->causes.named[pid / 8] |= 1 << pid % 8;
	comm = pid ? tep_data_comm_from_pid(r->tep, pid) : "<idle>";
	cil_put_number(chunk, 0, ts);
	cil_put_number(chunk, 1, r->periods.cpu);
	cil_put_number(chunk, 2, pid);
	if (cil_put_content(chunk, 3, comm ? comm : "", comm ? strlen(comm) : 0))
		cil_fail(r, "needs more memory than there is");
	cil_end_row(r, chunk);
}

static void put_raise(struct reader *r, const struct tep_record *record,
		      u64 target, u8 reason)
{
	s32 pid = pid_of(r, record);

	put_task(r, record->ts, pid);
	put_row(r, record->ts, CIL_CAUSE_RAISE, reason, pid, target, 0, 0);
}

/* The mask is an array of words of the recorder's size and byte order. */
static void put_raises(struct reader *r, size_t table,
		       const struct tep_record *record, u8 reason)
{
	bool is_big = tep_is_file_bigendian(r->tep);
	size_t word = tep_get_long_size(r->tep);
	size_t size, i, bit;
	const u8 *mask;

	mask = cil_read_content(r, table, 0, record, &size);
	if (!mask || !word)
		return;
	for (i = 0; i < size; i++) {
		size_t place = is_big ? i - i % word + word - 1 - i % word : i;

		for (bit = 0; place < size && bit < 8; bit++) {
			if (mask[place] >> bit & 1)
				put_raise(r, record, 8 * i + bit, reason);
		}
	}
}

/* The kernel's own way to say which: no function is called by a rescheduling one. */
static u8 reason_of_callback(const struct reader *r, size_t table,
			     const struct tep_record *record)
{
	return cil_read_field(r, table, 1, record) ? CIL_IPI_CALL :
						     CIL_IPI_RESCHEDULE;
}

/* ---- Interrupts of the CPU. ---- */

static bool is_text(const u8 *at, size_t size, const char *text)
{
	size_t length = strlen(text);

	return size >= length && !memcmp(at, text, length) &&
	       (text[length - 1] == '@' || size == length || !at[length]);
}

static u8 kind_of_irq(const struct reader *r, const struct tep_record *record)
{
	size_t size, i;
	const u8 *name = cil_read_content(r, TABLE_IRQ, 1, record, &size);

	if (!name)
		return CIL_CAUSE_DEVICE;
	for (i = 0; i < ARRAY_SIZE(timer_handlers); i++) {
		if (is_text(name, size, timer_handlers[i].name))
			return CIL_CAUSE_TIMER;
	}
	return is_text(name, size, "IPI") ? CIL_CAUSE_IPI : CIL_CAUSE_DEVICE;
}

static bool is_tick(const struct reader *r, const struct tep_record *record)
{
	const char *name = cil_function_name(r,
		cil_read_field(r, TABLE_ARMED, 2, record));

	return name && (!strcmp(name, "tick_nohz_handler") ||
			!strcmp(name, "tick_sched_timer"));
}

static void arm(struct reader *r, const struct tep_record *record)
{
	u64 timer = cil_read_field(r, TABLE_ARMED, 0, record);
	u64 due_ns = cil_read_field(r, TABLE_ARMED, 1, record);
	struct cil_timers *t = &r->causes.timers;

	if (is_tick(r, record))
		cil_timers_tick(t, record->ts, timer, due_ns);
	else
		cil_timers_hrtimer(t, timer, due_ns);
}

static s64 due_or_none(u64 due_ns)
{
	return due_ns > INT64_MAX ? -1 : (s64)due_ns;
}

static void put_idle(struct reader *r, const struct tep_record *record)
{
	u32 state = cil_read_field(r, TABLE_CPU_IDLE, 0, record);
	struct cil_timers *t = &r->causes.timers;
	u64 own_ns = CIL_NEVER, tick_ns = CIL_NEVER;

	if (state == CIL_IDLE_EXIT) {
		r->causes.by_task = false;
		put_row(r, record->ts, CIL_CAUSE_EXIT, 0, pid_of(r, record), 0,
			0, 0);
		return;
	}
	if (r->causes.has_timers) {
		own_ns = cil_timers_own(t, record->ts);
		tick_ns = t->tick_due_ns;
	}
	put_row(r, record->ts, CIL_CAUSE_ENTER, r->causes.by_task,
		pid_of(r, record), state,
		due_or_none(own_ns), due_or_none(tick_ns));
}

static void put_plain(struct reader *r, size_t table,
		      const struct tep_record *record)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].table == table)
			put_row(r, record->ts, rows[i].kind, rows[i].reason,
				pid_of(r, record), 0, 0, 0);
	}
}

/**
 * cil_cause_record() - an event of the CPU being read
 * @r: the run
 * @table: its table
 * @record: the event
 */
void cil_cause_record(struct reader *r, size_t table,
		      const struct tep_record *record)
{
	switch (table) {
	case TABLE_CPU_IDLE:
		put_idle(r, record);
		break;
	case TABLE_IRQ:
		put_row(r, record->ts, kind_of_irq(r, record), 0,
			pid_of(r, record), cil_read_field(r, table, 0, record),
			0, 0);
		break;
	case TABLE_SOFTIRQ:
		put_row(r, record->ts, CIL_CAUSE_SOFTIRQ, 0, pid_of(r, record),
			cil_read_field(r, table, 0, record), 0, 0);
		break;
	case TABLE_IPI_RAISE:
		put_raises(r, table, record, reason_of(r, record));
		break;
	case TABLE_IPI_SEND:
		if (!r->causes.has_raise)
			put_raise(r, record, cil_read_field(r, table, 0, record),
				  reason_of_callback(r, table, record));
		break;
	case TABLE_IPI_SEND_MANY:
		if (!r->causes.has_raise)
			put_raises(r, table, record,
				   reason_of_callback(r, table, record));
		break;
	case TABLE_ARMED:
		r->causes.by_task |= pid_of(r, record) > 0;
		if (r->causes.has_timers)
			arm(r, record);
		break;
	case TABLE_CANCELLED:
	case TABLE_EXPIRED:
	case TABLE_HRTIMER:
		if (r->causes.has_timers)
			cil_timers_gone(&r->causes.timers,
					cil_read_field(r, table, table == TABLE_HRTIMER,
						       record));
		break;
	default:
		put_plain(r, table, record);
		break;
	}
}
