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
 * refused. trace_input.c opens the file, and records become rows in
 * trace_records.c. The rest is here: the order of reading, and the command
 * line.
 *
 * This is a program of its own and not a library loaded into the caller,
 * because traces come from elsewhere and libtracecmd trusts what it reads:
 * whatever a damaged file does to it, the caller sees a stream that stops.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "trace_formats.h"

/*
 * Much more than any trace needs. A file that is mapped does not count; were
 * it counted, the library would take a map that fails for the file's end.
 */
#define MEMORY_MAX		(1024ull * 1024 * 1024)

/* ---- Reading. ---- */

/* The other CPUs whose events matter to one, too. */
static bool has_others(const struct reader *r)
{
	int cpus = tep_get_cpus(r->tep);

	return cpus > 1 && cpus <= OTHERS_MAX;
}

/* Notes the timers armed on other CPUs. Their events begin again then. */
static void scan_others(struct reader *r, int cpu)
{
	struct tep_record *record;
	int other;

	for (other = 0; other < tep_get_cpus(r->tep); other++) {
		if (other == cpu)
			continue;
		record = cil_first_record(r, other);
		for (; record; record = cil_next_record(r, other)) {
			cil_stock_scan_other(r, cil_table_of(r, record), record);
			tracecmd_free_record(record);
			cil_renew_if_due(r, other, r->others, OTHERS_MAX);
		}
		r->others[other] = cil_first_record(r, other);
	}
}

/*
 * Takes the changes that other CPUs made to the timers of a CPU before its
 * event @mine, which is read again where the file is opened anew meanwhile.
 */
static struct tep_record *catch_up(struct reader *r, int cpu,
				   struct tep_record *mine)
{
	struct tep_record *record;
	u64 ts = mine->ts;
	int other;

	r->others[cpu] = mine;
	for (other = 0; other < OTHERS_MAX; other++) {
		while ((record = r->others[other]) && record->ts < ts) {
			cil_stock_other(r, cil_table_of(r, record), record);
			tracecmd_free_record(record);
			r->others[other] = cil_next_record(r, other);
			if (r->others[other])
				cil_renew_if_due(r, other, r->others, OTHERS_MAX);
		}
	}
	mine = r->others[cpu];
	r->others[cpu] = NULL;
	return mine;
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
	record = cil_first_record(r, cpu);
	for (; record; record = cil_next_record(r, cpu)) {
		cil_stock_scan(r, cil_table_of(r, record), record);
		tracecmd_free_record(record);
		cil_renew_if_due(r, cpu, r->others, OTHERS_MAX);
	}
	cil_stock_scanned(r);
}

static void read_cpu(struct reader *r, int cpu)
{
	struct tep_record *record;
	u64 last = 0;

	cil_begin_periods(r, cpu);
	cil_cause_begin_cpu(r, cpu);
	if (r->stock.is_on)
		cil_stock_begin_cpu(r, cpu);
	if (r->stock.current)
		scan_cpu(r, cpu);
	record = cil_first_record(r, cpu);
	for (; record; record = cil_next_record(r, cpu)) {
		if (record->ts < last)
			cil_fail(r, "is damaged: time runs backwards on CPU %d at %llu ns",
				 cpu, record->ts);
		last = record->ts;
		if (r->causes.has_timers)
			cil_moves_until(r, record->ts, cpu);
		if (r->stock.current && r->stock.state.has_all && has_others(r))
			record = catch_up(r, cpu, record);
		cil_take_record(r, record, cpu);
		r->events++;
		tracecmd_free_record(record);
		cil_renew_if_due(r, cpu, r->others, OTHERS_MAX);
	}
	if (r->stock.current)
		cil_stock_end_cpu(r);
	forget_others(r);
	cil_periods_end(&r->periods);
	/* Rows of the next CPU begin in chunks of their own. */
	cil_write_chunks(r);
}

static void write_end(struct reader *r)
{
	const struct cil_period_counts *c = &r->counts;
	const struct cil_stock_counts *k = &r->stock.counts;
	char text[512];

	snprintf(text, sizeof(text),
		 "events %llu\ndecisions %llu\ndecisions_missing %llu\ngaps %llu\nwithout_outcome %llu\nwithout_decision %llu\nimplausible %llu\nunplaced %llu\nasked %llu\ninferred %llu\nuntold %llu\nfateless %llu\nrebuilt %llu\n",
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
		 (unsigned long long)k->fateless,
		 (unsigned long long)k->rebuilt);
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
	cil_open(&r, argv[1]);
	cil_prepare_tables(&r);
	cil_write_schema(&r);
	if (r.causes.has_timers)
		cil_moves_find(&r);
	for (cpu = 0; cpu < tep_get_cpus(r.tep); cpu++)
		read_cpu(&r, cpu);
	write_end(&r);
	for (table = 0; table < TABLE_COUNT; table++)
		cil_chunk_free(&r.chunks[table]);
	free(r.causes.moves.all);
	cil_close(&r);
	return 0;
}
