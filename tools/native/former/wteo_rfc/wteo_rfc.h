/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_WTEO_RFC_H
#define CIL_WTEO_RFC_H

#include "../../../../governors/teo_ng/teo_ng.h"

/* Longest window: four times that of 2020. */
#define WTEO_RFC_HISTORY_MAX	32

/**
 * struct wteo_rfc_tunables - the tunables, in the order of their table
 * @learning_rate: share that one idle period takes from a row, per mille
 * @history_size: idle periods that must mostly be short; 0: always draw
 * @half_life_ms: time in which half of what an unused row has learned is lost;
 *	0: never
 * @seed: of the draw
 */
struct wteo_rfc_tunables {
	u32 learning_rate;
	u32 history_size;
	u32 half_life_ms;
	u32 seed;
};

/**
 * struct wteo_rfc_window - columns of the most recent idle periods
 * @size: how many there can be
 * @next: where the next one goes
 * @count: how many of them are in each column
 * @columns: them, or CIL_ROW_NONE where there was none yet
 */
struct wteo_rfc_window {
	u8 size;
	u8 next;
	u8 count[CIL_STATE_MAX];
	u8 columns[WTEO_RFC_HISTORY_MAX];
};

/**
 * struct wteo_rfc - what is remembered about one CPU
 * @teo: the state of TEO's logic
 * @random: the generator
 * @tunables: those that @learning and @aging were prepared for
 * @learning: @tunables.learning_rate as a share of CIL_ONE
 * @window: recent idle periods
 * @choice: TEO's choice at the last decision
 * @learned: row that the last update changed, or CIL_ROW_NONE
 * @touched_ns: when each row learned last
 * @rows: row i, column j: how probable it is that state j would have been right
 *	where TEO chose state i. Each row sums to CIL_ONE
 */
struct wteo_rfc {
	struct teo_ng teo;
	u64 random;
	struct wteo_rfc_tunables tunables;
	u32 learning;
	struct wteo_rfc_window window;
	u8 choice;
	u8 learned;
	u64 touched_ns[CIL_STATE_MAX];
	u32 rows[CIL_STATE_MAX][CIL_STATE_MAX];
};

#endif /* CIL_WTEO_RFC_H */
