// SPDX-License-Identifier: GPL-2.0
/*
 * Cost model of idle states, see energy.h.
 */
#include "energy.h"
#include "fixed.h"

#define POWER_ONE	0x10000u

/*
 * Target residency at which a state is taken to draw half of the power of polling.
 * Clock gating pays sooner and saves less. Deeper states pay later and save more.
 */
#define HALF_POWER_NS	(10 * CIL_NSEC_PER_USEC)

static bool all_powers_known(const u32 *power_uw, u32 count)
{
	u32 k;

	for (k = 0; k < count; k++)
		if (!power_uw[k])
			return false;
	return true;
}

/*
 * Power is taken to fall with the square root of the target residency:
 *
 *	P_k = 1 / (1 + sqrt(target_residency_k / HALF_POWER_NS))
 *
 * If it fell as 1 / target residency, the energy to enter would not grow with
 * depth. Choices depend little on it: they change at the target residencies anyway.
 */
static u32 derived_power(s64 target_residency_ns)
{
	u64 ratio = cil_divide((u64)target_residency_ns << 16, HALF_POWER_NS);

	return cil_divide(1 << 24, (1 << 8) + cil_square_root(ratio));
}

/* Power relative to the greatest of the table. */
static u32 known_power(const u32 *power_uw, u32 count, u32 index)
{
	u32 greatest = 0;
	u32 k;

	for (k = 0; k < count; k++)
		if (power_uw[k] > greatest)
			greatest = power_uw[k];
	return cil_divide((u64)power_uw[index] << 16, greatest);
}

/**
 * cil_energy_set() - derive the cost model from a state table and powers
 * @costs: the result, one for each state
 * @machine: the state table; its powers are not looked at
 * @power_uw: power of each state
 *
 * If not every state has a power, powers are derived from the target
 * residencies. A driver lists a deeper state for a reason, so each is taken to
 * draw at least a sixteenth less than the one before it. That holds also where
 * residencies are equal, and where powers contradict the order of the states.
 * The wrong figure is not known then, and the target residencies still hold.
 */
void cil_energy_set(struct cil_cost *costs, const struct cil_machine *machine,
		    const u32 *power_uw)
{
	u32 count = machine->state_count;
	bool known = all_powers_known(power_uw, count);
	u32 limit = POWER_ONE;
	u32 k;

	for (k = 0; k < count; k++) {
		s64 pays_ns = cil_clamp(machine->states[k].target_residency_ns, 0,
					CIL_DURATION_MAX);
		u32 power = known ? known_power(power_uw, count, k) :
				    derived_power(pays_ns);

		if (power > limit)
			power = limit;
		costs[k].power = power;
		costs[k].entry = !k ? 0 : costs[k - 1].entry +
				 (u64)(costs[k - 1].power - power) * pays_ns;
		limit = power - power / 16;
	}
}

/**
 * cil_energy_init() - derive the cost model from a state table
 * @costs: the result, one for each state
 * @machine: the state table, with the powers to use
 */
void cil_energy_init(struct cil_cost *costs, const struct cil_machine *machine)
{
	u32 power_uw[CIL_STATE_MAX];
	u32 k;

	for (k = 0; k < machine->state_count; k++)
		power_uw[k] = machine->states[k].power_uw;
	cil_energy_set(costs, machine, power_uw);
}
