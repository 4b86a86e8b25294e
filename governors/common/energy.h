/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cost of an idle period in each state.
 *
 *	cost_k(d) = E_k + P_k * d
 *
 * P_k is the power while in state k and E_k the energy for entering and
 * leaving it. The driver promises that state k pays, compared with the next
 * shallower one, from its target residency on, so
 *
 *	E_k + P_k * target_residency_k = E_(k-1) + P_(k-1) * target_residency_k
 *
 * gives every E_k once E_0 = 0 is set: a cost that all states share changes no
 * comparison. Powers are relative to the greatest, with 16 fraction bits.
 */
#ifndef CIL_ENERGY_H
#define CIL_ENERGY_H

#include "policy.h"

/*
 * Durations beyond one second are taken as one second: the deepest state in use
 * anywhere pays after a tenth of that. A second fits 30 bits, so products of a
 * duration, a power and a share need no more than 64.
 */
#define CIL_DURATION_MAX	(1000 * CIL_NSEC_PER_MSEC)

/**
 * struct cil_cost - cost of an idle state
 * @entry: E_k, in relative power * ns
 * @power: P_k, 65536 for the state that draws most
 */
struct cil_cost {
	u64 entry;
	u32 power;
};

void cil_energy_set(struct cil_cost *costs, const struct cil_machine *machine,
		    const u32 *power_uw);
void cil_energy_init(struct cil_cost *costs, const struct cil_machine *machine);

#endif /* CIL_ENERGY_H */
