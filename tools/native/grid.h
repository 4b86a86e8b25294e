/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The grid of the tick: the tick of a CPU comes at the same time modulo its
 * period, for as long as the CPU is online, stopped in between or not.
 *
 * The kernel tells the time to its next event, which is the tick where that is
 * before the timer. But from 7.0 on the clock's device stays programmed for a
 * timer that was cancelled. Then the next event is neither, and lies anywhere.
 * On redis three of four told times are such. So a time off the grid takes away
 * a part of the trust that a time on it gives, and only a grid without trust is
 * replaced.
 */
#ifndef CIL_GRID_H
#define CIL_GRID_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Own error in points of regret on 7.2, all workloads: 0.45 with 1, 0.06 with 4
 * and 0.08 with 8 (2026-11-24, recordings of `make stock`).
 */
#define CIL_GRID_TRUST		4

/*
 * A grid that did change is replaced after so many times off it. 8, 16 and 64
 * err alike there: 0.055, 0.060 and 0.059.
 */
#define CIL_GRID_TRUST_MAX	64

/*
 * A moment is on the grid if it is as near. On 7.2 the own error is 0.087 points
 * with 5 us, 0.023 with 7, 0.012 with 10, and 0.131 with 20, which takes events
 * of cancelled timers for ticks. On 6.12 it is 0.004 to 0.006 (2026-11-25).
 */
#define CIL_GRID_TOLERANCE_NS	10000

/**
 * struct cil_grid - the grid of a CPU's tick
 * @phase_ns: time of the tick modulo its period; -1: unknown
 * @trust: times off the grid until it is replaced
 */
struct cil_grid {
	int64_t phase_ns;
	unsigned int trust;
};

/**
 * cil_grid_meets() - is a moment on the grid, to CIL_GRID_TOLERANCE_NS?
 * @grid: the grid
 * @at_ns: the moment
 * @tick_ns: the period of the tick
 *
 * Return: false while the grid is unknown.
 */
static inline bool cil_grid_meets(const struct cil_grid *grid, uint64_t at_ns,
				  int64_t tick_ns)
{
	int64_t off_ns = (int64_t)(at_ns % (uint64_t)tick_ns) - grid->phase_ns;

	if (off_ns < 0)
		off_ns = -off_ns;
	return grid->phase_ns >= 0 && (off_ns <= CIL_GRID_TOLERANCE_NS ||
				       tick_ns - off_ns <= CIL_GRID_TOLERANCE_NS);
}

/**
 * cil_grid_note() - the kernel told that its next event is at a moment
 * @grid: follows it if it is on the grid, or takes it if it has no trust left
 * @at_ns: the moment
 * @tick_ns: the period of the tick
 */
static inline void cil_grid_note(struct cil_grid *grid, uint64_t at_ns,
				 int64_t tick_ns)
{
	if (cil_grid_meets(grid, at_ns, tick_ns)) {
		if (grid->trust < CIL_GRID_TRUST_MAX)
			grid->trust += CIL_GRID_TRUST;
	} else if (grid->trust) {
		grid->trust--;
		return;
	} else {
		grid->trust = CIL_GRID_TRUST - 1;
	}
	grid->phase_ns = (int64_t)(at_ns % (uint64_t)tick_ns);
}

#endif
