// SPDX-License-Identifier: GPL-2.0
/*
 * The module parameters. One named like a governor takes any number of
 * "name=value", also where lockdown closes debugfs.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/slab.h>

#include "base.h"
#include "hints/hints.h"
#include "tunables.h"

/**
 * struct cil_word - a setting of a governor that is no number
 * @name: of the setting
 * @set: change it, also before the module has started
 * @print: print it; returns the number of characters
 */
struct cil_word {
	const char *name;
	int (*set)(const char *text);
	int (*print)(char *text, size_t size);
};

/* The most settings of that kind that a governor has. */
#define WORDS_MAX	2

/**
 * struct cil_param - a module parameter
 * @governor: whose
 * @words: its settings that are no numbers
 */
struct cil_param {
	struct cil_governor *governor;
	struct cil_word words[WORDS_MAX];
};

/**
 * struct cil_wanted - what a parameter asks for
 * @values: the numbers
 * @word: by position in the parameter's @words: the text, NULL if it stays
 */
struct cil_wanted {
	struct cil_change values;
	const char *word[WORDS_MAX];
};

static int set_base(const char *name)
{
	int ret = cil_tunables_live() ? cil_base_set(name) :
					cil_base_set_boot(name);

	if (ret == -EINVAL)
		pr_err("gate: there is no base governor %*pE\n",
		       (int)strlen(name), name);
	return ret;
}

static int parse_word(const struct cil_param *param, const char *name,
		      const char *text, struct cil_wanted *wanted)
{
	int i;

	for (i = 0; i < WORDS_MAX && param->words[i].name; i++) {
		if (strcmp(name, param->words[i].name))
			continue;
		wanted->word[i] = text;
		return 0;
	}
	return cil_tunables_parse(param->governor, name, text, &wanted->values);
}

/* "name=value name=value"; the text is cut into pieces. */
static int parse_param(const struct cil_param *param, char *text,
		       struct cil_wanted *wanted)
{
	char *word;

	while ((word = strsep(&text, " ,\n"))) {
		char *value = strchr(word, '=');

		if (!*word)
			continue;
		if (value)
			*value++ = '\0';
		if (!value || parse_word(param, word, value, wanted)) {
			pr_err("%s: no tunable %*pE, or its value is out of range\n",
			       param->governor->kernel.name, (int)strlen(word),
			       word);
			return -EINVAL;
		}
	}
	return 0;
}

/* All of the new values, or none but for a base that cannot be had. */
static int param_set(const char *val, const struct kernel_param *kp)
{
	const struct cil_param *param = kp->arg;
	struct cil_wanted wanted = {};
	char *text = kstrdup(val, GFP_KERNEL);
	int ret;
	int i;

	if (!text)
		return -ENOMEM;
	ret = parse_param(param, strim(text), &wanted);
	/* The last first: a base may be refused. */
	for (i = WORDS_MAX; !ret && i-- > 0;)
		if (wanted.word[i])
			ret = param->words[i].set(wanted.word[i]);
	if (!ret && wanted.values.changed)
		ret = cil_tunables_apply(param->governor, &wanted.values);
	kfree(text);
	return ret;
}

static int param_get(char *buffer, const struct kernel_param *kp)
{
	const struct cil_param *param = kp->arg;
	const struct cil_word *words = param->words;
	const struct cil_tunable_set *set;
	size_t used = 0;
	int i;

	for (i = 0; i < WORDS_MAX && words[i].name; i++) {
		used += scnprintf(buffer + used, PAGE_SIZE - 1 - used, "%s=",
				  words[i].name);
		used += words[i].print(buffer + used, PAGE_SIZE - 1 - used);
		used += scnprintf(buffer + used, PAGE_SIZE - 1 - used, " ");
	}

	/* There are none before the module has started, and after its end. */
	rcu_read_lock();
	set = rcu_dereference(param->governor->tunables);
	if (set)
		used += cil_tunables_format(param->governor, set, buffer + used,
					    PAGE_SIZE - 1 - used);
	rcu_read_unlock();
	buffer[used++] = '\n';
	return used;
}

static const struct kernel_param_ops param_ops = {
	.set = param_set,
	.get = param_get,
};

#define X(name, number)							\
	static struct cil_param name##_param = {			\
		.governor = &cil_governors[CIL_GOVERNOR_##name],	\
	};								\
	module_param_cb(name, &param_ops, &name##_param, 0600);		\
	MODULE_PARM_DESC(name, "Tunables of " #name ": name=value[,name=value]...");
CIL_MODULE_GOVERNORS(X)
#undef X

static struct cil_param gate_param = {
	.governor = &cil_gate,
	.words = {
		{ "base", set_base, cil_base_print },
#if CIL_HINTS
		{ "latency_map", cil_hints_set_map, cil_hints_print_map },
#endif
	},
};
module_param_cb(gate, &param_ops, &gate_param, 0600);
MODULE_PARM_DESC(gate, "Tunables of gate: base=GOVERNOR, latency_map=US:US..., name=value");
