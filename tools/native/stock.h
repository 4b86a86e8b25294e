/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From the events of an unmodified kernel to decisions and their outcomes, as
 * the module would have recorded them; docs/stock.md says how sure that is.
 *
 * Three sources, of which a recording may lack some: probes on the functions
 * through which a governor asks for the next timer and the idle loop keeps or
 * stops the tick; the kernel's own events; power:cpu_idle.
 *
 * Pure: reads no file, allocates nothing. Keeps CIL_STOCK_QUEUE decisions
 * whose timer a later event may tell.
 */
#ifndef CIL_STOCK_H
#define CIL_STOCK_H

#include "periods.h"
#include "timers.h"

/* Decisions in a row that did not ask; more are given up as unknown. */
#define CIL_STOCK_QUEUE		512

/* Kinds of events after which the kernel reads the clock. */
#define CIL_STOCK_KINDS		64

/**
 * struct cil_stock_counts - how well the timers are known
 * @asked: decisions whose governor asked for the timer, as recorded
 * @inferred: decisions whose timer follows from other events
 * @untold: decisions whose timer is not known
 * @fateless: decisions of which nothing tells whether the tick was kept
 * @rebuilt: CPUs whose timers other events tell, those of the wheel included
 */
struct cil_stock_counts {
	u64 asked;
	u64 inferred;
	u64 untold;
	u64 fateless;
	u64 rebuilt;
};

/**
 * struct cil_stock_sink - where decisions and outcomes go
 * @decision: takes a decision; returns NULL, or what is wrong with it
 * @outcome: takes the outcome of the last decision, likewise
 * @context: passed to both
 */
struct cil_stock_sink {
	const char *(*decision)(void *context, const struct cil_period *d);
	const char *(*outcome)(void *context,
			       const struct cil_period_outcome *o);
	void *context;
};

/**
 * struct cil_stock_entry - a decision on the way
 * @decision: as far as it is known
 * @outcome: what became of it
 * @expiry_ns: when the first timer expired before the idle loop was left, or 0
 * @before_ns: when the timer was due that the governor knew of before, or 0
 * @idle_ns: when the CPU went idle, as the kernel takes it for the present
 * @seen_ns: time of the event from which @idle_ns was inferred
 * @seen_kind: its kind
 * @next_ns: when the next timer event is due, as the timers tell, the tick left
 *	out; CIL_NEVER: none is armed
 * @any_ns: the same, the tick included
 * @is_told: the timers tell
 * @may_hold: the tick may have had to go on: RCU's work shows later
 * @has_delta: the time to the tick was told
 * @has_fate: it is known whether the tick was kept
 * @entered: an idle state was entered
 * @ended: and left again
 * @left: the idle loop was left since
 * @told_tick: the kernel told whether the tick had come
 * @told_limit: the kernel told whether the polling state gave up
 */
struct cil_stock_entry {
	struct cil_period decision;
	struct cil_period_outcome outcome;
	u64 expiry_ns;
	u64 before_ns;
	u64 idle_ns;
	u64 seen_ns;
	u32 seen_kind;
	u64 next_ns;
	u64 any_ns;
	bool is_told;
	bool may_hold;
	bool has_delta;
	bool has_fate;
	bool entered;
	bool ended;
	bool left;
	bool told_tick;
	bool told_limit;
};

/**
 * struct cil_stock - one CPU on the way
 * @sink: where decisions and outcomes go
 * @counts: added to
 * @machine: the idle states of the CPU
 * @has_probes: probes tell of each decision
 * @latency_req_ns: latency request
 * @disabled: bit k is set if state k was disabled
 * @governor: number of the current governor
 * @seq: number of the last decision
 * @stopped: the tick is stopped
 * @left: the idle loop was left since the last decision
 * @away: another task has the CPU, as far as it is told when that ends
 * @grid: of the tick
 * @due_ns: when the timer is due that the kernel told last, 0: unknown
 * @has_open: @open is valid
 * @open: the newest decision
 * @queue: complete decisions that wait for one before them
 * @waiting: how many
 * @all: all timers, where their arming and their end were recorded
 * @has_all: @all is valid
 * @has_others: there are other CPUs
 * @idle_ns: when the CPU went idle, or was interrupted idle
 * @seen_ns: time of the event that told so
 * @seen_kind: its kind
 * @lag_ns: by kind, from such an event to the kernel's reading of the clock, as
 *	most answers showed it; 0 while none did
 * @lag_votes: answers that showed it, less those that did not
 * @event_ns: what recording an event takes
 * @ticked: the tick came, and what it did is about to be told
 * @holds: and it had work for RCU
 */
struct cil_stock {
	struct cil_stock_sink sink;
	struct cil_stock_counts *counts;
	struct cil_period_machine machine;
	bool has_probes;
	s64 latency_req_ns;
	u32 disabled;
	u8 governor;
	u64 seq;
	bool stopped;
	bool left;
	bool away;
	struct cil_grid grid;
	u64 due_ns;
	bool has_open;
	struct cil_stock_entry open;
	struct cil_stock_entry queue[CIL_STOCK_QUEUE];
	u32 waiting;
	struct cil_timers all;
	bool has_all;
	bool has_others;
	u64 idle_ns;
	u64 seen_ns;
	u32 seen_kind;
	u64 lag_ns[CIL_STOCK_KINDS];
	u64 lag_votes[CIL_STOCK_KINDS];
	u64 event_ns;
	bool ticked;
	bool holds;
};

void cil_stock_begin(struct cil_stock *s, const struct cil_stock_sink *sink,
		     struct cil_stock_counts *counts,
		     const struct cil_period_machine *machine);
const char *cil_stock_tick_told(struct cil_stock *s);
void cil_stock_softirq_rcu(struct cil_stock *s);
void cil_stock_seen(struct cil_stock *s, u64 ts, u32 kind);
const char *cil_stock_asked(struct cil_stock *s, u64 ts, s64 sleep_length_ns,
			    s64 delta_tick_ns, bool has_delta);
const char *cil_stock_fate(struct cil_stock *s, u64 ts, bool stop);
const char *cil_stock_idle(struct cil_stock *s, u64 ts, u32 state);
void cil_stock_tick(struct cil_stock *s, u64 ts);
void cil_stock_got_tick(struct cil_stock *s, bool came);
void cil_stock_reflect(struct cil_stock *s, u64 residency_ns, bool limited);
void cil_stock_expiry(struct cil_stock *s, u64 ts);
const char *cil_stock_tick_stop(struct cil_stock *s, u64 ts);
void cil_stock_left(struct cil_stock *s);
void cil_stock_exit(struct cil_stock *s);
void cil_stock_lost(struct cil_stock *s);
const char *cil_stock_end(struct cil_stock *s);

#endif /* CIL_STOCK_H */
