/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_SKELETON_GOVERNOR_H
#define CIL_SKELETON_GOVERNOR_H

#include "../common/policy.h"

/**
 * struct skeleton_tunables - the tunables, in the order of their table
 * @patience: idle periods in a row that must be cut short before it matters
 */
struct skeleton_tunables {
	u32 patience;
};

/**
 * struct skeleton - what is remembered about one CPU
 * @cut_short: idle periods in a row that ended before their state paid off
 */
struct skeleton {
	u32 cut_short;
};

#endif /* CIL_SKELETON_GOVERNOR_H */
