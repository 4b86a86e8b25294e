// SPDX-License-Identifier: GPL-2.0
/*
 * The trail of a run: the idle periods that were played, for those who put the
 * CPUs of a machine side by side.
 */
#include <errno.h>
#include <stdlib.h>

#include "run.h"

#define FIRST_ROOM	1024

static bool grow(void **column, size_t room, size_t size)
{
	void *larger = realloc(*column, room * size);

	if (larger)
		*column = larger;
	return larger;
}

/* Make room for so many rows. */
static bool make_room(struct rp_trail *trail, size_t room)
{
	if (!grow((void **)&trail->start_ns, room, sizeof(u64)) ||
	    !grow((void **)&trail->end_ns, room, sizeof(u64)) ||
	    !grow((void **)&trail->next_ns, room, sizeof(u64)) ||
	    !grow((void **)&trail->index, room, sizeof(u8)))
		return false;
	trail->room = room;
	return true;
}

/**
 * rp_follow() - keep the idle periods from here on
 * @run: the run
 *
 * Return: 0, or -ENOMEM.
 */
int rp_follow(struct rp_run *run)
{
	return make_room(&run->trail, FIRST_ROOM) ? 0 : -ENOMEM;
}

/**
 * rp_note_stay() - an idle period of a run that is followed has ended
 * @run: the run
 * @start_ns: when it began
 * @in: the interval, charged up to its end
 * @index: the state
 */
void rp_note_stay(struct rp_run *run, u64 start_ns,
		  const struct rp_interval *in, u32 index)
{
	struct rp_trail *trail = &run->trail;

	if (trail->count == trail->room && !make_room(trail, 2 * trail->room)) {
		run->lost = true;
		return;
	}
	trail->start_ns[trail->count] = start_ns;
	trail->end_ns[trail->count] = in->charged_ns;
	trail->next_ns[trail->count] = in->due_ns;
	trail->index[trail->count] = index;
	trail->count++;
}

/**
 * rp_trail() - the idle periods since the last call
 * @run: the run
 * @trail: filled; valid until the run goes on
 *
 * Return: 0, or -ENOMEM if there was no memory for all.
 */
int rp_trail(struct rp_run *run, struct rp_trail *trail)
{
	*trail = run->trail;
	run->trail.count = 0;
	return run->lost ? -ENOMEM : 0;
}
