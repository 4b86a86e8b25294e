// SPDX-License-Identifier: GPL-2.0
/*
 * The values of the tunables.
 *
 * A set of values is never changed once a decision may read it: a change
 * publishes a new set.
 */
#include <linux/mutex.h>
#include <linux/slab.h>

#include "trace.h"
#include "tunables.h"

/* Serialises changes. Boot parameters come before there is anything to race. */
static DEFINE_MUTEX(tunables_lock);
static u32 generation;
static bool tunables_live;

static const struct cil_tunable *tunable_of(const struct cil_governor *governor,
					    u32 n)
{
	return governor->policy ? &governor->policy->tunables[n] :
				  &gate_tunables[n];
}

static u32 tunable_count(const struct cil_governor *governor)
{
	return governor->policy ? governor->policy->tunable_count :
				  GATE_TUNABLE_COUNT;
}

static int parse_value(const struct cil_tunable *t, const char *text, u32 *value)
{
	u32 v;

	if (t->names) {
		for (v = t->min; v <= t->max; v++) {
			if (sysfs_streq(text, t->names[v])) {
				*value = v;
				return 0;
			}
		}
	}
	if (kstrtou32(text, 0, &v) || v < t->min || v > t->max)
		return -EINVAL;
	*value = v;
	return 0;
}

static int print_value(const struct cil_tunable *t, u32 value, char *text,
		       size_t size)
{
	if (t->names)
		return scnprintf(text, size, "%s", t->names[value]);
	return scnprintf(text, size, "%u", value);
}

static struct cil_tunable_set *tunables_of(const struct cil_governor *governor)
{
	return rcu_dereference_protected(governor->tunables,
					 lockdep_is_held(&tunables_lock));
}

static void publish_set(struct cil_governor *governor, struct cil_tunable_set *set)
	__must_hold(&tunables_lock)
{
	struct cil_tunable_set *old = tunables_of(governor);

	lockdep_assert_held(&tunables_lock);
	set->generation = ++generation;
	rcu_assign_pointer(governor->tunables, set);
	if (old)
		kfree_rcu(old, rcu);
}

static void trace_value(const struct cil_governor *governor, u32 n, u32 value,
			u32 of_generation)
{
	const struct cil_tunable *t = tunable_of(governor, n);
	char text[32];

	print_value(t, value, text, sizeof(text));
	trace_cil_tunable(governor->id, t->name, text, of_generation);
}

/* Before the module has started there is nothing to publish. */
static void set_boot_values(struct cil_governor *governor,
			    const struct cil_change *change)
{
	u32 n;

	for (n = 0; n < tunable_count(governor); n++)
		if (change->changed & BIT(n))
			governor->boot[n] = change->value[n];
	governor->boot_set |= change->changed;
}

/* One new set, however many values it changes. */
static int publish_change(struct cil_governor *governor,
			  const struct cil_change *change)
{
	struct cil_tunable_set *set = kmemdup(tunables_of(governor),
					      sizeof(*set), GFP_KERNEL);
	u32 n;

	if (!set)
		return -ENOMEM;
	for (n = 0; n < tunable_count(governor); n++)
		if (change->changed & BIT(n))
			set->value[n] = change->value[n];
	publish_set(governor, set);
	for (n = 0; n < tunable_count(governor); n++)
		if (change->changed & BIT(n))
			trace_value(governor, n, change->value[n],
				    generation);
	return 0;
}

/* See struct cil_governor. */
static void notify_changed(const struct cil_governor *governor)
{
	lockdep_assert_held(&tunables_lock);
	if (governor->changed)
		governor->changed();
}

/**
 * cil_tunables_apply() - put new values in force, all at once
 * @governor: whose
 * @change: the values
 *
 * Context: process, may sleep. Before the module has started the values are
 * remembered, after its end they are ignored.
 * Return: 0 or -ENOMEM.
 */
int cil_tunables_apply(struct cil_governor *governor,
		       const struct cil_change *change)
{
	int ret = 0;

	mutex_lock(&tunables_lock);
	if (tunables_live)
		ret = publish_change(governor, change);
	else
		set_boot_values(governor, change);
	notify_changed(governor);
	mutex_unlock(&tunables_lock);
	return ret;
}

/**
 * cil_tunables_watch() - be called after each change of a governor's values
 * @governor: whose
 * @changed: the function; NULL: not any more. It is not running then
 *
 * Context: process, may sleep.
 */
void cil_tunables_watch(struct cil_governor *governor, void (*changed)(void))
{
	mutex_lock(&tunables_lock);
	governor->changed = changed;
	mutex_unlock(&tunables_lock);
}

/**
 * cil_tunables_live() - can values be changed, or only be remembered?
 *
 * Context: any.
 */
bool cil_tunables_live(void)
{
	return READ_ONCE(tunables_live);
}

static int change_value(const struct cil_governor *governor, u32 n,
			const char *text, struct cil_change *change)
{
	change->changed |= BIT(n);
	return parse_value(tunable_of(governor, n), text, &change->value[n]);
}

static u32 find_tunable(const struct cil_governor *governor, const char *name)
{
	u32 n;

	for (n = 0; n < tunable_count(governor); n++)
		if (!strcmp(name, tunable_of(governor, n)->name))
			break;
	return n;
}

/**
 * cil_tunables_parse() - add a value to a change
 * @governor: whose
 * @name: of the tunable
 * @text: the value, or its name; a newline at the end is ignored
 * @change: to be applied by cil_tunables_apply()
 *
 * Context: any.
 * Return: 0, -ENOENT (no such tunable) or -EINVAL (not a number, or out of
 * range).
 */
int cil_tunables_parse(const struct cil_governor *governor, const char *name,
		       const char *text, struct cil_change *change)
{
	u32 n = find_tunable(governor, name);

	if (n == tunable_count(governor))
		return -ENOENT;
	return change_value(governor, n, text, change);
}

/**
 * cil_tunables_set() - change one tunable
 * @governor: whose
 * @n: position in the policy's table
 * @text: the value, or its name; a newline at the end is ignored
 *
 * Context: process, may sleep.
 * Return: 0, -EINVAL (not a number, or out of range: nothing has changed), or
 * -ENOMEM.
 */
int cil_tunables_set(struct cil_governor *governor, u32 n, const char *text)
{
	struct cil_change change = {};

	return change_value(governor, n, text, &change) ?:
	       cil_tunables_apply(governor, &change);
}

static void fill_set(const struct cil_governor *governor,
		     struct cil_tunable_set *set, bool boot)
{
	u32 i;

	for (i = 0; i < tunable_count(governor); i++)
		set->value[i] = boot && governor->boot_set & BIT(i) ?
				governor->boot[i] : tunable_of(governor, i)->def;
}

/**
 * cil_tunables_defaults() - back to the defaults, all at once
 * @governor: whose
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int cil_tunables_defaults(struct cil_governor *governor)
{
	struct cil_tunable_set *set = kzalloc(sizeof(*set), GFP_KERNEL);
	u32 i;

	if (!set)
		return -ENOMEM;
	fill_set(governor, set, false);
	mutex_lock(&tunables_lock);
	publish_set(governor, set);
	for (i = 0; i < tunable_count(governor); i++)
		trace_value(governor, i, tunable_of(governor, i)->def,
			    generation);
	notify_changed(governor);
	mutex_unlock(&tunables_lock);
	return 0;
}

/**
 * cil_tunables_trace() - let a trace know all values of a set
 * @governor: whose
 * @set: the values
 *
 * Context: any.
 */
void cil_tunables_trace(const struct cil_governor *governor,
			const struct cil_tunable_set *set)
{
	u32 n;

	if (!trace_cil_tunable_enabled())
		return;
	for (n = 0; n < tunable_count(governor); n++)
		trace_value(governor, n, set->value[n], set->generation);
}

/**
 * cil_tunables_print() - the value of one tunable
 * @governor: whose
 * @n: position in the policy's table
 * @text: where to print
 * @size: room in @text
 *
 * Context: process.
 * Return: number of characters.
 */
int cil_tunables_print(const struct cil_governor *governor, u32 n, char *text,
		       size_t size)
{
	u32 value;

	rcu_read_lock();
	value = rcu_dereference(governor->tunables)->value[n];
	rcu_read_unlock();
	return print_value(tunable_of(governor, n), value, text, size);
}

/**
 * cil_tunables_format() - all values of a set as "name=value name=value"
 * @governor: whose; NULL gives an empty text
 * @set: the values
 * @text: where to print
 * @size: room in @text
 *
 * Context: any.
 * Return: number of characters.
 */
size_t cil_tunables_format(const struct cil_governor *governor,
			   const struct cil_tunable_set *set, char *text,
			   size_t size)
{
	size_t used = 0;
	u32 i;

	text[0] = '\0';
	if (!governor)
		return 0;
	for (i = 0; i < tunable_count(governor); i++) {
		const struct cil_tunable *t = tunable_of(governor, i);

		used += scnprintf(text + used, size - used, "%s%s=",
				  i ? " " : "", t->name);
		used += print_value(t, set->value[i], text + used, size - used);
	}
	return used;
}

static int init_one(struct cil_governor *governor)
{
	struct cil_tunable_set *set = kzalloc(sizeof(*set), GFP_KERNEL);

	if (!set)
		return -ENOMEM;
	fill_set(governor, set, true);
	publish_set(governor, set);
	return 0;
}

static void exit_one(struct cil_governor *governor)
{
	struct cil_tunable_set *set = tunables_of(governor);

	RCU_INIT_POINTER(governor->tunables, NULL);
	if (set)
		kfree_rcu(set, rcu);
}

/**
 * cil_tunables_init() - values given at load, defaults for the rest
 *
 * Context: process, may sleep; before any governor is registered.
 * Return: 0 or -ENOMEM.
 */
int cil_tunables_init(void)
{
	int ret;
	int i;

	mutex_lock(&tunables_lock);
	ret = init_one(&cil_gate);
	for (i = 0; !ret && i < CIL_POLICY_COUNT; i++)
		ret = init_one(&cil_governors[i]);
	WRITE_ONCE(tunables_live, !ret);
	mutex_unlock(&tunables_lock);
	if (ret)
		cil_tunables_exit();
	return ret;
}

/**
 * cil_tunables_exit() - free all values
 *
 * The module parameters can be written until the module is gone; from now on
 * that changes nothing.
 *
 * Context: process, may sleep; no governor is registered any more.
 */
void cil_tunables_exit(void)
{
	int i;

	mutex_lock(&tunables_lock);
	WRITE_ONCE(tunables_live, false);
	for (i = 0; i < CIL_POLICY_COUNT; i++)
		exit_one(&cil_governors[i]);
	exit_one(&cil_gate);
	mutex_unlock(&tunables_lock);
}
