/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TEO_NG_H
#define CIL_TEO_NG_H

#include "../common/policy.h"

/**
 * struct teo_ng_bin - how often recent idle periods ended in one bin
 * @hits: metric of those that lasted as long as the next timer promised
 * @intercepts: metric of those that something else cut short
 */
struct teo_ng_bin {
	u32 hits;
	u32 intercepts;
};

/**
 * struct teo_ng - what is remembered about one CPU
 * @sleep_length_ns: sleep length at the last decision, CIL_TIME_MAX if it was
 *	not asked for
 * @bins: bin k begins at the target residency of state k
 * @total: all hits and intercepts together
 * @tick_wakeups: metric of idle periods that the tick ended
 * @tick_intercepts: metric of intercepts that came within a tick period
 * @short_idles: metric of idle periods too short to be worth a question
 */
struct teo_ng {
	s64 sleep_length_ns;
	struct teo_ng_bin bins[CIL_STATE_MAX];
	u32 total;
	u32 tick_wakeups;
	u32 tick_intercepts;
	u32 short_idles;
};

void teo_ng_init(struct teo_ng *teo);
void teo_ng_select(struct teo_ng *teo, const struct cil_machine *machine,
		   struct cil_query *query, struct cil_decision *decision);
void teo_ng_update(struct teo_ng *teo, const struct cil_machine *machine,
		   const struct cil_outcome *outcome);
void teo_ng_dump(const struct teo_ng *teo, const struct cil_machine *machine,
		 struct cil_sink *sink);

#endif /* CIL_TEO_NG_H */
