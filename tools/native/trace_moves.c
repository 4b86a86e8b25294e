// SPDX-License-Identifier: GPL-2.0
/*
 * Timers that a CPU loses to others. Timers move between CPUs, and other CPUs
 * cancel them. The events of all CPUs are read once, in the order of their times.
 * A change of another CPU's timer is kept for the reading of that CPU.
 * So the time that this takes does not grow with the square of the CPUs.
 */
#include <stdlib.h>

#include "trace_formats.h"

#define FIRST_ROOM	1024

/* Of a timer that is not armed. */
#define NO_CPU		UINT32_MAX

/**
 * struct owner - the CPU on which a timer is armed
 * @timer: its address, 0: the slot is empty
 * @cpu: its CPU, or NO_CPU
 */
struct owner {
	u64 timer;
	u32 cpu;
};

/**
 * struct owners - a hash of timers, those included that are no longer armed
 * @slots: at least half of them are empty
 * @size: how many, a power of 2
 * @count: those in use
 */
struct owners {
	struct owner *slots;
	size_t size;
	size_t count;
};

static void *zeroed(struct reader *r, size_t count, size_t size)
{
	void *found = calloc(count, size);

	if (!found)
		cil_fail(r, "needs more memory than there is for its timers");
	return found;
}

static struct owner *slot_of(const struct owners *o, u64 timer)
{
	size_t slot = (timer * 0x9e3779b97f4a7c15ull) >> 32 & (o->size - 1);

	while (o->slots[slot].timer && o->slots[slot].timer != timer)
		slot = (slot + 1) & (o->size - 1);
	return &o->slots[slot];
}

static void grow(struct reader *r, struct owners *o)
{
	struct owners more = { .size = o->size ? 2 * o->size : FIRST_ROOM };
	size_t i;

	more.slots = zeroed(r, more.size, sizeof(*more.slots));
	more.count = o->count;
	for (i = 0; i < o->size; i++) {
		if (o->slots[i].timer)
			*slot_of(&more, o->slots[i].timer) = o->slots[i];
	}
	free(o->slots);
	*o = more;
}

static void note_move(struct reader *r, u64 ts, u64 timer, u32 cpu)
{
	struct cause_moves *m = &r->causes.moves;
	size_t room = m->room ? 2 * m->room : FIRST_ROOM;
	struct cause_move *more;

	if (m->count == m->room) {
		more = realloc(m->all, room * sizeof(*more));
		if (!more)
			cil_fail(r, "needs more memory than there is for its timers");
		m->all = more;
		m->room = room;
	}
	m->all[m->count++] = (struct cause_move){ ts, timer, cpu };
}

/* A timer is on @cpu now, or on none; the CPU that had it loses it by that. */
static void take(struct reader *r, struct owners *o, u64 ts, u64 timer,
		 u32 by, u32 cpu)
{
	struct owner *owner;

	if (!timer)
		return;
	if (2 * o->count >= o->size)
		grow(r, o);
	owner = slot_of(o, timer);
	if (!owner->timer) {
		owner->timer = timer;
		o->count++;
	} else if (owner->cpu != NO_CPU && owner->cpu != by) {
		note_move(r, ts, timer, owner->cpu);
	}
	owner->cpu = cpu;
}

static void take_record(struct reader *r, struct owners *o,
			const struct tep_record *record, u32 cpu)
{
	size_t table = cil_table_of(r, record);

	if (table == TABLE_ARMED)
		take(r, o, record->ts, cil_read_field(r, table, 0, record),
		     cpu, cpu);
	else if (table == TABLE_CANCELLED || table == TABLE_EXPIRED ||
		 table == TABLE_HRTIMER)
		take(r, o, record->ts,
		     cil_read_field(r, table, table == TABLE_HRTIMER, record),
		     cpu, NO_CPU);
}

/* A CPU whose events are over comes last. */
static u64 time_of(const struct tep_record *record)
{
	return record ? record->ts : UINT64_MAX;
}

static int first_of(const u64 *ts, int cpus)
{
	int cpu, first = 0;

	for (cpu = 1; cpu < cpus; cpu++) {
		if (ts[cpu] < ts[first])
			first = cpu;
	}
	return first;
}

static int by_cpu_and_time(const void *left, const void *right)
{
	const struct cause_move *a = left, *b = right;

	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	return a->ts < b->ts ? -1 : a->ts > b->ts;
}

/**
 * cil_moves_find() - find the timers that CPUs lose to others
 * @r: the run, whose events begin again afterwards
 */
void cil_moves_find(struct reader *r)
{
	int cpus = tep_get_cpus(r->tep), cpu;
	struct cause_moves *m = &r->causes.moves;
	struct owners owners = {};
	struct tep_record **next;
	u64 *ts;

	if (cpus < 2)
		return;
	next = zeroed(r, cpus, sizeof(*next));
	ts = zeroed(r, cpus, sizeof(*ts));
	for (cpu = 0; cpu < cpus; cpu++) {
		next[cpu] = cil_first_record(r, cpu);
		ts[cpu] = time_of(next[cpu]);
	}
	while (next[cpu = first_of(ts, cpus)]) {
		take_record(r, &owners, next[cpu], cpu);
		tracecmd_free_record(next[cpu]);
		next[cpu] = NULL;
		cil_renew_if_due(r, cpu, next, cpus);
		next[cpu] = cil_next_record(r, cpu);
		ts[cpu] = time_of(next[cpu]);
	}
	free(owners.slots);
	free(next);
	free(ts);
	qsort(m->all, m->count, sizeof(*m->all), by_cpu_and_time);
}

/**
 * cil_moves_begin_cpu() - the events of a CPU begin
 * @r: the run
 * @cpu: its number
 */
void cil_moves_begin_cpu(struct reader *r, u32 cpu)
{
	struct cause_moves *m = &r->causes.moves;

	for (m->next = 0; m->next < m->count && m->all[m->next].cpu < cpu;)
		m->next++;
}

/**
 * cil_moves_until() - take the timers that the CPU being read loses to others
 * @r: the run
 * @ts: before that time
 * @cpu: the CPU
 */
void cil_moves_until(struct reader *r, u64 ts, u32 cpu)
{
	struct cause_moves *m = &r->causes.moves;

	for (; m->next < m->count && m->all[m->next].cpu == cpu &&
	     m->all[m->next].ts < ts; m->next++)
		cil_timers_gone(&r->causes.timers, m->all[m->next].timer);
}
