/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The timers of one CPU, as the kernel's events tell of them, and from these
 * what the kernel would tell a governor that asks for the next one.
 *
 * Pure: reads no file, allocates nothing. Keeps CIL_TIMERS_MAX armed timers of
 * either kind; with more, cil_timers_full(), they tell nothing.
 */
#ifndef CIL_TIMERS_H
#define CIL_TIMERS_H

#include "../../governors/common/types.h"

#define CIL_TIMERS_MAX		16384

/* When a timer is due that is not armed. */
#define CIL_NEVER		UINT64_MAX

/**
 * struct cil_heap - armed timers, the one that is due first at the top
 * @count: how many
 * @full: one was left out
 * @timers: address, time when it is due, and the slot that points here
 * @slots: by a hash of the address; index in @timers + 1, 0: empty
 */
struct cil_heap {
	u32 count;
	bool full;
	struct {
		u64 timer;
		u64 due_ns;
		u32 slot;
	} timers[CIL_TIMERS_MAX];
	u32 slots[2 * CIL_TIMERS_MAX];
};

/**
 * struct cil_timers - all timers of a CPU
 * @tick_ns: tick period
 * @hrtimers: high-resolution timers, without the tick's own
 * @wheel: timers of the wheel, by the expiry of their bucket
 * @global: those of the wheel that another CPU may serve
 * @others: the same of the other CPUs' wheels
 * @migrates: the kernel lets another CPU serve timers that are not pinned
 * @ticking: bit k is set if the tick of CPU k, another one, is running
 * @tick_due_ns: when the tick's own hrtimer is due, CIL_NEVER: is not armed
 * @tick_timer: its address, 0: not known
 * @tick_phase_ns: time of the tick modulo its period, -1 while unknown
 * @device_ns: when the clock's device will fire, as it was programmed last; 0:
 *	not recorded
 * @first_jiffy: jiffy that was told first; their low 32 bits wrap early
 * @jiffy_ns: its time, of the latest that was told
 * @has_jiffy: @first_jiffy and @jiffy_ns are valid
 */
struct cil_timers {
	s64 tick_ns;
	struct cil_heap hrtimers;
	struct cil_heap wheel;
	struct cil_heap global;
	struct cil_heap others;
	bool migrates;
	u64 ticking;
	u64 tick_due_ns;
	u64 tick_timer;
	s64 tick_phase_ns;
	u64 device_ns;
	u64 first_jiffy;
	s64 jiffy_ns;
	bool has_jiffy;
};

/**
 * struct cil_wheel_timer - a timer of the wheel that is armed
 * @timer: its address
 * @expires: jiffy for which it is armed
 * @bucket: jiffy when its bucket expires, 0: not recorded
 * @now: jiffy when it is armed
 * @flags: as the kernel has them
 */
struct cil_wheel_timer {
	u64 timer;
	u64 expires;
	u64 bucket;
	u64 now;
	u32 flags;
};

void cil_timers_begin(struct cil_timers *t, s64 tick_ns);
void cil_timers_tick(struct cil_timers *t, u64 ts, u64 timer, u64 due_ns);
void cil_timers_hrtimer(struct cil_timers *t, u64 timer, u64 due_ns);
void cil_timers_wheel(struct cil_timers *t, u64 ts,
		      const struct cil_wheel_timer *w, bool mine);
void cil_timers_gone(struct cil_timers *t, u64 timer);
bool cil_timers_full(const struct cil_timers *t);
bool cil_timers_knows(const struct cil_timers *t, u64 timer);
void cil_timers_wheel_at(struct cil_timers *t, u64 timer, u64 due_ns);
void cil_timers_forget(struct cil_timers *t, u64 now_ns);
u64 cil_timers_own(struct cil_timers *t, u64 now_ns);
void cil_timers_answer(const struct cil_timers *t, u64 now_ns, bool stopped,
		       bool stops, u64 *next_ns, u64 *any_ns);

#endif /* CIL_TIMERS_H */
