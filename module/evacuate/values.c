// SPDX-License-Identifier: GPL-2.0
/*
 * The tunables of evacuation: numbers that holders read without a lock.
 */
#include <linux/kernel.h>
#include <linux/string.h>

#include "evacuate/values.h"

/* By position in evacuate_tunables[]; 0 stands for the default until it is set. */
static u32 values[EVACUATE_TUNABLE_COUNT];
static bool is_value_set[EVACUATE_TUNABLE_COUNT];

static int parse_name(const struct cil_tunable *tunable, const char *text,
		      u32 *value)
{
	u32 n;

	for (n = 0; n <= tunable->max; n++) {
		if (strcmp(text, tunable->names[n]))
			continue;
		*value = n;
		return 0;
	}
	return -EINVAL;
}

/**
 * cil_evac_parse() - read the text of a value
 * @n: position of the tunable
 * @text: a number or a name
 * @value: the value
 *
 * Context: any.
 * Return: 0, or -EINVAL if it is not a value in the tunable's range.
 */
int cil_evac_parse(u32 n, const char *text, u32 *value)
{
	const struct cil_tunable *tunable = &evacuate_tunables[n];

	if (tunable->names)
		return parse_name(tunable, text, value);
	if (kstrtou32(text, 10, value) || *value < tunable->min ||
	    *value > tunable->max)
		return -EINVAL;
	return 0;
}

/**
 * cil_evac_store() - set a value
 * @n: position of the tunable
 * @value: a value in its range
 *
 * Context: process; callers serialise changes of one value.
 */
void cil_evac_store(u32 n, u32 value)
{
	WRITE_ONCE(values[n], value);
	/* Pairs with cil_evac_value(). */
	smp_store_release(&is_value_set[n], true);
}

/**
 * cil_evac_value() - read a value
 * @n: position of the tunable
 *
 * Context: any.
 * Return: the value, in the unit of the tunable.
 */
u32 cil_evac_value(u32 n)
{
	/* Pairs with cil_evac_store(). */
	return smp_load_acquire(&is_value_set[n]) ? READ_ONCE(values[n]) :
						    evacuate_tunables[n].def;
}

/**
 * cil_evac_tunables() - read all values
 * @tunables: where to put them
 *
 * Context: any.
 */
void cil_evac_tunables(struct evacuate_tunables *tunables)
{
	u32 *value = (u32 *)tunables;
	u32 n;

	BUILD_BUG_ON(sizeof(*tunables) != sizeof(values));
	for (n = 0; n < EVACUATE_TUNABLE_COUNT; n++)
		value[n] = cil_evac_value(n);
}

/**
 * cil_evac_print() - the text of a value
 * @n: position of the tunable
 * @text: where to print
 * @size: room in @text
 *
 * Context: any.
 * Return: number of characters.
 */
int cil_evac_print(u32 n, char *text, size_t size)
{
	const struct cil_tunable *tunable = &evacuate_tunables[n];
	u32 value = cil_evac_value(n);

	if (tunable->names)
		return scnprintf(text, size, "%s", tunable->names[value]);
	return scnprintf(text, size, "%u", value);
}
