// SPDX-License-Identifier: GPL-2.0
/* The timers of one CPU, as the kernel's events tell of them; see timers.h. */
#include <string.h>

#include "timers.h"

/* Flags of a wheel timer: its expiry does not wake an idle CPU. */
#define WHEEL_DEFERRABLE	0x80000

/* Flags of a wheel timer: no other CPU may serve it. */
#define WHEEL_PINNED		0x100000

/* An hrtimer so long overdue is not armed. */
#define OVERDUE_NS		100000

/* The wheel: each level has 64 buckets, eight times as coarse as the last. */
#define WHEEL_LEVELS		9
#define WHEEL_LEVEL_SHIFT	3
#define WHEEL_LEVEL_MOST	63

/* ---- Heap with a hash of its members. ---- */

#define SLOTS			(2 * CIL_TIMERS_MAX)

static u32 hash(u64 timer)
{
	return (timer * 0x9e3779b97f4a7c15ull) >> 32 & (SLOTS - 1);
}

/* The slot of a timer, or the empty one where it would be. */
static u32 slot_of(const struct cil_heap *h, u64 timer)
{
	u32 slot = hash(timer);

	while (h->slots[slot] && h->timers[h->slots[slot] - 1].timer != timer)
		slot = (slot + 1) & (SLOTS - 1);
	return slot;
}

static void place(struct cil_heap *h, u32 i, u64 timer, u64 due_ns, u32 slot)
{
	h->timers[i].timer = timer;
	h->timers[i].due_ns = due_ns;
	h->timers[i].slot = slot;
	h->slots[slot] = i + 1;
}

static void copy(struct cil_heap *h, u32 to, u32 from)
{
	place(h, to, h->timers[from].timer, h->timers[from].due_ns,
	      h->timers[from].slot);
}

static void sift_up(struct cil_heap *h, u32 i, u64 timer, u64 due_ns, u32 slot)
{
	while (i && h->timers[(i - 1) / 2].due_ns > due_ns) {
		copy(h, i, (i - 1) / 2);
		i = (i - 1) / 2;
	}
	place(h, i, timer, due_ns, slot);
}

static void sift_down(struct cil_heap *h, u32 i, u64 timer, u64 due_ns, u32 slot)
{
	u32 child;

	while ((child = 2 * i + 1) < h->count) {
		if (child + 1 < h->count &&
		    h->timers[child + 1].due_ns < h->timers[child].due_ns)
			child++;
		if (h->timers[child].due_ns >= due_ns)
			break;
		copy(h, i, child);
		i = child;
	}
	place(h, i, timer, due_ns, slot);
}

/* Empty a slot; those that were put behind it move up. */
static void empty_slot(struct cil_heap *h, u32 hole)
{
	u32 slot = hole, home;

	for (;;) {
		slot = (slot + 1) & (SLOTS - 1);
		if (!h->slots[slot])
			break;
		home = hash(h->timers[h->slots[slot] - 1].timer);
		if (((slot - home) & (SLOTS - 1)) < ((slot - hole) & (SLOTS - 1)))
			continue;
		h->slots[hole] = h->slots[slot];
		h->timers[h->slots[hole] - 1].slot = hole;
		hole = slot;
	}
	h->slots[hole] = 0;
}

static bool disarm(struct cil_heap *h, u64 timer)
{
	u32 slot = slot_of(h, timer), i, last;
	u64 due_ns;

	if (!h->slots[slot])
		return false;
	i = h->slots[slot] - 1;
	empty_slot(h, slot);
	last = --h->count;
	if (i == last)
		return true;
	timer = h->timers[last].timer;
	due_ns = h->timers[last].due_ns;
	slot = h->timers[last].slot;
	if (i && h->timers[(i - 1) / 2].due_ns > due_ns)
		sift_up(h, i, timer, due_ns, slot);
	else
		sift_down(h, i, timer, due_ns, slot);
	return true;
}

static void arm(struct cil_heap *h, u64 timer, u64 due_ns)
{
	disarm(h, timer);
	if (h->count == CIL_TIMERS_MAX) {
		h->full = true;
		return;
	}
	h->count++;
	sift_up(h, h->count - 1, timer, due_ns, slot_of(h, timer));
}

static u64 first(const struct cil_heap *h)
{
	return h->count ? h->timers[0].due_ns : CIL_NEVER;
}

/* ---- Timers. ---- */

/**
 * cil_timers_begin() - no timer is known yet
 * @t: filled
 * @tick_ns: tick period
 */
void cil_timers_begin(struct cil_timers *t, s64 tick_ns)
{
	memset(t, 0, sizeof(*t));
	t->tick_ns = tick_ns;
	t->tick_due_ns = CIL_NEVER;
	t->tick_phase_ns = -1;
}

/**
 * cil_timers_tick() - the tick's own hrtimer is armed
 * @t: the timers
 * @ts: when
 * @timer: its address
 * @due_ns: when it is due: while the tick is stopped, when the kernel wants to
 *	be woken for the wheel
 */
void cil_timers_tick(struct cil_timers *t, u64 ts, u64 timer, u64 due_ns)
{
	t->tick_timer = timer;
	t->tick_due_ns = due_ns;
	/* A tick that is stopped for the longest time meets no grid. */
	if (due_ns >= ts && due_ns - ts <= (u64)t->tick_ns)
		t->tick_phase_ns = due_ns % (u64)t->tick_ns;
}

/**
 * cil_timers_hrtimer() - another hrtimer is armed
 * @t: the timers
 * @timer: its address
 * @due_ns: when it is due
 */
void cil_timers_hrtimer(struct cil_timers *t, u64 timer, u64 due_ns)
{
	arm(&t->hrtimers, timer, due_ns);
}

/* Jiffies of kernels of 32 bits wrap. */
static s64 jiffies_from(u64 jiffies, u64 now)
{
	return (s32)(u32)(jiffies - now);
}

/* When does the bucket expire, from now, as the kernel puts timers in it? */
static s64 bucket_from(const struct cil_wheel_timer *w)
{
	s64 expires = jiffies_from(w->expires, w->now);
	u64 at = w->now + (u64)(expires > 0 ? expires : 0);
	u32 level = 0;

	if (w->bucket)
		return jiffies_from(w->bucket, w->now);
	while (level < WHEEL_LEVELS - 1 &&
	       expires >= WHEEL_LEVEL_MOST << WHEEL_LEVEL_SHIFT * level)
		level++;
	at = ((at >> WHEEL_LEVEL_SHIFT * level) + 1)
	     << WHEEL_LEVEL_SHIFT * level;
	return at - w->now;
}

/*
 * When was jiffy @now? It was not later than @ts, and began with a tick. One
 * that is told some time after its tick tells nothing new.
 */
static u64 time_of(struct cil_timers *t, u64 ts, u64 now)
{
	s64 since_ns = (s64)((ts - (u64)t->tick_phase_ns) % (u64)t->tick_ns);
	s64 from_first_ns, jiffy_ns;

	if (!t->has_jiffy)
		t->first_jiffy = now;
	from_first_ns = jiffies_from(now, t->first_jiffy) * t->tick_ns;
	jiffy_ns = (s64)(ts - since_ns - from_first_ns);
	if (!t->has_jiffy || jiffy_ns < t->jiffy_ns)
		t->jiffy_ns = jiffy_ns;
	t->has_jiffy = true;
	return t->jiffy_ns + from_first_ns;
}

static bool leave_wheel(struct cil_timers *t, u64 timer)
{
	return disarm(&t->wheel, timer) || disarm(&t->global, timer) ||
	       disarm(&t->others, timer);
}

/**
 * cil_timers_wheel() - a timer of the wheel is armed
 * @t: the timers
 * @ts: when
 * @w: the timer
 * @mine: on the wheel of this CPU
 */
void cil_timers_wheel(struct cil_timers *t, u64 ts,
		      const struct cil_wheel_timer *w, bool mine)
{
	bool migrates = t->migrates && !(w->flags & WHEEL_PINNED);
	struct cil_heap *heap = migrates ? &t->global : &t->wheel;

	leave_wheel(t, w->timer);
	if (w->flags & WHEEL_DEFERRABLE || t->tick_phase_ns < 0 ||
	    (!mine && !migrates))
		return;
	arm(mine ? heap : &t->others, w->timer,
	    time_of(t, ts, w->now) + bucket_from(w) * t->tick_ns);
}

/**
 * cil_timers_wheel_at() - a timer of the wheel has been armed before
 * @t: the timers
 * @timer: its address
 * @due_ns: when it is due
 */
void cil_timers_wheel_at(struct cil_timers *t, u64 timer, u64 due_ns)
{
	arm(t->migrates ? &t->global : &t->wheel, timer, due_ns);
}

/**
 * cil_timers_gone() - a timer expired or was cancelled
 * @t: the timers
 * @timer: its address
 */
void cil_timers_gone(struct cil_timers *t, u64 timer)
{
	if (timer == t->tick_timer)
		t->tick_due_ns = CIL_NEVER;
	else if (!disarm(&t->hrtimers, timer))
		leave_wheel(t, timer);
}

/**
 * cil_timers_full() - were there more timers than are kept?
 * @t: the timers
 *
 * Return: true if there were, so that the first one may be missing.
 */
bool cil_timers_full(const struct cil_timers *t)
{
	return t->hrtimers.full || t->wheel.full || t->global.full ||
	       t->others.full;
}

/**
 * cil_timers_knows() - is a timer armed?
 * @t: the timers
 * @timer: its address
 *
 * Return: true if it is.
 */
bool cil_timers_knows(const struct cil_timers *t, u64 timer)
{
	return t->hrtimers.slots[slot_of(&t->hrtimers, timer)] ||
	       t->wheel.slots[slot_of(&t->wheel, timer)] ||
	       t->global.slots[slot_of(&t->global, timer)];
}

static void forget_before(struct cil_heap *h, u64 now_ns, u64 overdue_ns)
{
	while (h->count && h->timers[0].due_ns + overdue_ns < now_ns)
		disarm(h, h->timers[0].timer);
}

/**
 * cil_timers_forget() - leave out timers that must have gone elsewhere
 * @t: the timers
 * @now_ns: when the CPU goes idle: no hrtimer of its own is long overdue then
 */
void cil_timers_forget(struct cil_timers *t, u64 now_ns)
{
	u64 ticks_ns = 2 * t->tick_ns;

	forget_before(&t->hrtimers, now_ns, OVERDUE_NS);
	forget_before(&t->wheel, now_ns, ticks_ns);
	forget_before(&t->global, now_ns, ticks_ns);
	forget_before(&t->others, now_ns, ticks_ns);
}

/**
 * cil_timers_own() - when is the first hrtimer of the CPU due?
 * @t: the timers
 * @now_ns: those due before are gone, whatever else tells of them
 *
 * Return: its time, CIL_NEVER without one.
 */
u64 cil_timers_own(struct cil_timers *t, u64 now_ns)
{
	forget_before(&t->hrtimers, now_ns, 0);
	return first(&t->hrtimers);
}

static u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* The first tick after @now_ns, as the grid has it. */
static u64 next_tick(const struct cil_timers *t, u64 now_ns)
{
	s64 since_ns;

	if (t->tick_phase_ns < 0)
		return CIL_NEVER;
	since_ns = (s64)((now_ns - (u64)t->tick_phase_ns) % (u64)t->tick_ns);
	return now_ns - since_ns + t->tick_ns;
}

/**
 * cil_timers_answer() - what would the kernel tell a governor?
 * @t: the timers, as they are when the idle state is entered
 * @now_ns: when the CPU went idle
 * @stopped: the tick had been stopped before
 * @stops: the tick is stopped now
 * @next_ns: set to the time of the next timer event, the tick left out, which
 *	is CIL_NEVER if there is none
 * @any_ns: set to the time of the next timer event, the tick included
 */
void cil_timers_answer(const struct cil_timers *t, u64 now_ns, bool stopped,
		       bool stops, u64 *next_ns, u64 *any_ns)
{
	u64 hrtimer_ns = first(&t->hrtimers);
	u64 tick_ns = next_tick(t, now_ns);
	u64 wheel_ns = first(&t->wheel);
	u64 global_ns = first(&t->global);

	/* The last CPU whose tick runs serves the timers of all. */
	if (!t->ticking)
		wheel_ns = least(wheel_ns, least(global_ns, first(&t->others)));
	else if (global_ns <= tick_ns)
		wheel_ns = least(wheel_ns, global_ns);
	/* A stopped tick's timer is armed for the wheel. */
	if (stops)
		wheel_ns = t->tick_due_ns;
	*any_ns = least(hrtimer_ns, stopped ? wheel_ns : tick_ns);
	/* A cancelled timer may leave the device programmed. */
	if (t->device_ns > now_ns)
		*any_ns = t->device_ns;
	/* The tick must not be stopped for less than a period. */
	if (!stopped && !stops && wheel_ns <= tick_ns)
		*next_ns = *any_ns;
	else
		*next_ns = least(hrtimer_ns, wheel_ns);
}
