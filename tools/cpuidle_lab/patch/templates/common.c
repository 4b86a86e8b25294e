// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of governors/common/ whose kernel form is another one. A definition here
 * takes the place of that with the same name.
 */

/* Time to the next timer if the tick is stopped, read at most once. */
static s64 cil_sleep_length(struct cil_query *query)
{
	ktime_t delta_tick;

	if (!query->asked) {
		query->sleep_length_ns = tick_nohz_get_sleep_length(&delta_tick);
		query->delta_tick_ns = delta_tick;
		query->asked = true;
	}
	return query->sleep_length_ns;
}

/*
 * A driver lists a deeper state for a reason, so each is taken to draw at least a
 * sixteenth less than the one before it. That holds also where residencies are
 * equal.
 */
static void cil_energy_set(struct cil_energy *energy,
			   const struct cil_machine *machine,
			   const u32 *power_uw)
{
	u32 limit = POWER_ONE;
	u32 k;

	for (k = 0; k < machine->state_count; k++) {
		s64 pays_ns = residency(machine, k);
		u32 power = derived_power(pays_ns);

		if (power > limit)
			power = limit;
		energy->power[k] = power;
		energy->entry[k] = 0;
		if (k)
			energy->entry[k] = energy->entry[k - 1] +
				(u64)(energy->power[k - 1] - power) * pays_ns;
		limit = power - power / 16;
	}
}
