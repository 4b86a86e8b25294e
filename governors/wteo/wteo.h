/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_WTEO_H
#define CIL_WTEO_H

#include "../teo_ng/teo_ng.h"
#include "wteo_matrix.h"

/* Longest window that can be asked to agree: four times that of 2020. */
#define WTEO_HISTORY_MAX	32

/**
 * enum wteo_selection - what a row is used for
 * @WTEO_OFF: nothing: plain TEO
 * @WTEO_SAMPLE: a weighted random draw, equal to TEO's choice or shallower
 * @WTEO_EXPECTED: the state of least expected cost
 */
enum wteo_selection {
	WTEO_OFF,
	WTEO_SAMPLE,
	WTEO_EXPECTED,
};

/**
 * struct wteo_tunables - the tunables, in the order of their table
 * @learning_rate: what the column that happened gains, per mille
 * @half_life_ms: time in which an untouched row loses half of what it learned
 * @history_size: intervals that must mostly be short before a row is consulted
 * @selection: enum wteo_selection
 * @row_context: 1: keyed rows, too
 * @seed: of the random draw
 */
struct wteo_tunables {
	u32 learning_rate;
	u32 half_life_ms;
	u32 history_size;
	u32 selection;
	u32 row_context;
	u32 seed;
};

/**
 * struct wteo_window - columns of the most recent intervals
 * @size: how many there can be
 * @next: where the next one goes
 * @count: how many of them fit each column
 * @columns: them, or CIL_ROW_NONE where there was none yet
 */
struct wteo_window {
	u8 size;
	u8 next;
	u8 count[CIL_STATE_MAX];
	u8 columns[WTEO_HISTORY_MAX];
};

/**
 * struct wteo_interval - the interval in progress
 * @began_ns: time of the decision that began it
 * @decided_ns: time of the last decision in it
 * @sleep_length_ns: sleep length at the last decision, CIL_TIME_MAX if it was
 *	not asked for
 * @open: there is one
 * @resumed: the last wake-up did not end it
 * @keeps_tick: the last decision left the tick running
 * @row: TEO's choice at the decision that began it
 * @previous: column of the interval before
 */
struct wteo_interval {
	u64 began_ns;
	u64 decided_ns;
	s64 sleep_length_ns;
	bool open;
	bool resumed;
	bool keeps_tick;
	u8 row;
	u8 previous;
};

/**
 * struct wteo - what is remembered about one CPU
 * @teo: the state of TEO's logic
 * @interval: the interval in progress
 * @random: random sequence
 * @seed: the seed that it was started with
 * @aging: prepared for the half-life in use
 * @energy: cost model
 * @window: recent intervals
 * @learned: row that the last update changed, or CIL_ROW_NONE
 * @matrix: the rows; packed, so the last member
 */
struct wteo {
	struct teo_ng teo;
	struct wteo_interval interval;
	u64 random;
	u32 seed;
	struct wteo_aging aging;
	struct cil_energy energy;
	struct wteo_window window;
	u8 learned;
	struct wteo_matrix matrix;
};

/**
 * wteo_state_used() - memory that a machine makes use of
 * @states: its number of idle states
 *
 * Return: bytes of struct wteo that are ever touched after init.
 */
static inline u32 wteo_state_used(u32 states)
{
	u32 rows = (1 + states) * states;
	u32 unused = CIL_STATE_MAX - states;

	return sizeof(struct wteo) - sizeof(struct wteo_matrix) +
	       rows * (sizeof(u64) + 2 * sizeof(u16)) +
	       rows * states * sizeof(struct wteo_cell) -
	       unused * (sizeof(struct teo_ng_bin) + sizeof(u64) + sizeof(u32));
}

#endif /* CIL_WTEO_H */
