// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: the tree of domains
 *
 * The parameter `domains` holds rules with '+' between them. A rule is a domain,
 * or a row of domains of as many CPUs each:
 *
 *	NAME@CPUS:POWER_MW[:DECIDES]/STATE/STATE...
 *
 * and a state of it, shallowest first:
 *
 *	NAME:ENTRY_US:EXIT_US:TARGET_US:POWER_MW:NEED~NEED...
 *
 * docs/domains.md has the meaning of each; the rules are those of machine files.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": domains: " fmt

#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "domains.h"
#include "machines.h"

struct emul_domain *emul_domains[EMUL_DOMAINS_MAX];
int emul_domain_count;

/* States that a domain may need: idle states of its CPUs, or those of a domain in it. */
struct member {
	const char	*name;
	int		first;
	int		count;
	const char	*states[CPUIDLE_STATE_MAX];
	u64		target_ns[CPUIDLE_STATE_MAX];
};

static_assert(EMUL_DOMAIN_LEVELS <= CPUIDLE_STATE_MAX);

static bool is_name(const char *text, size_t size)
{
	size_t length = text ? strlen(text) : 0;

	if (!length || length >= size)
		return false;
	for (; *text; text++)
		if (!isalnum(*text) && !strchr("_.-", *text))
			return false;
	return true;
}

static int read_number(char **text, u32 most, u32 *value)
{
	char *word = strsep(text, ":");

	if (!word || kstrtou32(word, 10, value) || *value > most)
		return -EINVAL;
	return 0;
}

/* Read a state of a domain after a shallower one, taking @text apart. */
static int parse_level(const char *domain, char *text, struct emul_level *level)
{
	const struct emul_level *before = level - 1;
	u32 entry_us, exit_us, target_us, mw;
	const char *name = strsep(&text, ":");

	if (!is_name(name, sizeof(level->name)) ||
	    read_number(&text, EMUL_LATENCY_MAX_US, &entry_us) ||
	    read_number(&text, EMUL_LATENCY_MAX_US, &exit_us) ||
	    read_number(&text, EMUL_RESIDENCY_MAX_US, &target_us) ||
	    read_number(&text, EMUL_DOMAIN_POWER_MW, &mw) || !text || !*text ||
	    strscpy(level->needs, text, sizeof(level->needs)) < 0) {
		pr_err("a state of '%s' is not NAME:entry_us:exit_us:target_us:power_mw:NEED~NEED...\n",
		       domain);
		return -EINVAL;
	}
	strscpy(level->name, name, sizeof(level->name));
	level->entry_ns = (u64)entry_us * NSEC_PER_USEC;
	level->exit_ns = (u64)exit_us * NSEC_PER_USEC;
	level->target_ns = (u64)target_us * NSEC_PER_USEC;
	level->power.mw = mw;
	if (mw > before->power.mw || level->target_ns < before->target_ns) {
		pr_err("state '%s' of '%s' has more power, or pays earlier, than the one before it\n",
		       level->name, domain);
		return -EINVAL;
	}
	/* mW x us = nJ */
	level->power.entry_nj = before->power.entry_nj +
				(u64)(before->power.mw - mw) * target_us;
	return 0;
}

static int parse_decides(const char *text, struct emul_domain *rule)
{
	static const char *const names[] = { "hardware", "demotes", "kernel" };
	int found = text ? match_string(names, ARRAY_SIZE(names), text) : 0;

	if (found < 0) {
		pr_err("'%s' must say hardware, demotes or kernel, not '%s'\n",
		       rule->name, text);
		return -EINVAL;
	}
	rule->decides = found;
	return 0;
}

/* Read what is before the states of a rule, taking @text apart. */
static int parse_head(char *text, struct emul_domain *rule, char **cpus)
{
	const char *name = strsep(&text, "@");

	*cpus = strsep(&text, ":");
	/* A number may follow. */
	if (!is_name(name, CPUIDLE_NAME_LEN) || !*cpus ||
	    read_number(&text, EMUL_DOMAIN_POWER_MW,
			&rule->levels[0].power.mw)) {
		pr_err("a rule does not begin with NAME@CPUS:power_mw\n");
		return -EINVAL;
	}
	strscpy(rule->name, name, sizeof(rule->name));
	return parse_decides(text, rule);
}

static int parse_rule(char *text, struct emul_domain *rule, char **cpus)
{
	int ret = parse_head(strsep(&text, "/"), rule, cpus);
	char *part;

	while (!ret && (part = strsep(&text, "/"))) {
		if (rule->depth == EMUL_DOMAIN_STATES) {
			pr_err("'%s' has more than %d states\n", rule->name,
			       EMUL_DOMAIN_STATES);
			return -EINVAL;
		}
		ret = parse_level(rule->name, part, &rule->levels[++rule->depth]);
	}
	if (!ret && !rule->depth) {
		pr_err("'%s' has no states\n", rule->name);
		return -EINVAL;
	}
	return ret;
}

static int add_domain(const struct emul_domain *rule)
{
	int i;

	for (i = 0; i < emul_domain_count; i++)
		if (!strcmp(rule->name, emul_domains[i]->name)) {
			pr_err("two are called '%s'\n", rule->name);
			return -EINVAL;
		}
	if (emul_domain_count == EMUL_DOMAINS_MAX) {
		pr_err("there are more than %d\n", EMUL_DOMAINS_MAX);
		return -EINVAL;
	}
	emul_domains[i] = kmemdup(rule, sizeof(*rule), GFP_KERNEL);
	if (!emul_domains[i])
		return -ENOMEM;
	emul_domain_count++;
	return 0;
}

/* Add a row of domains of @size CPUs each. */
static int add_row(struct emul_domain *rule, u32 size)
{
	char name[CPUIDLE_NAME_LEN];
	u32 seen = 0;
	int cpu, ret;

	strscpy(name, rule->name, sizeof(name));
	for_each_present_cpu(cpu) {
		cpumask_set_cpu(cpu, &rule->cpus);
		if (++seen % size && seen != num_present_cpus())
			continue;
		snprintf(rule->name, sizeof(rule->name), "%s%u", name,
			 (seen - 1) / size);
		ret = add_domain(rule);
		if (ret)
			return ret;
		cpumask_clear(&rule->cpus);
	}
	return 0;
}

/* Read a run of CPUs, a number or two with '-' between them. */
static int parse_run(char *text, struct emul_domain *rule)
{
	const char *first = strsep(&text, "-");
	u32 cpu, last;

	if (kstrtou32(first, 10, &cpu) || kstrtou32(text ?: first, 10, &last) ||
	    cpu > last) {
		pr_err("CPUs of '%s' are not all, everyN or a list as 0-3,8\n",
		       rule->name);
		return -EINVAL;
	}
	for (; cpu <= last; cpu++) {
		if (cpu >= nr_cpu_ids || !cpu_present(cpu)) {
			pr_err("CPU %u of '%s' is not there\n", cpu, rule->name);
			return -EINVAL;
		}
		if (cpumask_test_and_set_cpu(cpu, &rule->cpus)) {
			pr_err("CPU %u is twice in '%s'\n", cpu, rule->name);
			return -EINVAL;
		}
	}
	return 0;
}

/* Add the domains of a rule for the CPUs in text, taking @cpus apart. */
static int add_rule(struct emul_domain *rule, char *cpus)
{
	char *part;
	u32 size;

	if (!strcmp(cpus, "all")) {
		cpumask_copy(&rule->cpus, cpu_present_mask);
		return add_domain(rule);
	}
	if (str_has_prefix(cpus, "every") &&
	    !kstrtou32(cpus + strlen("every"), 10, &size) && size)
		return add_row(rule, size);
	while ((part = strsep(&cpus, ","))) {
		int ret = parse_run(part, rule);

		if (ret)
			return ret;
	}
	return add_domain(rule);
}

static int parse_tree(char *text)
{
	struct emul_domain *rule = kmalloc(sizeof(*rule), GFP_KERNEL);
	char *part, *cpus;
	int ret = 0;

	if (!rule)
		return -ENOMEM;
	while (!ret && (part = strsep(&text, "+"))) {
		memset(rule, 0, sizeof(*rule));
		ret = parse_rule(part, rule, &cpus) ?: add_rule(rule, cpus);
	}
	kfree(rule);
	return ret;
}

/* Order the domains by size; of those with the same CPUs the first is within. */
static void sort_domains(void)
{
	int i, j;

	for (i = 1; i < emul_domain_count; i++) {
		struct emul_domain *domain = emul_domains[i];
		unsigned int weight = cpumask_weight(&domain->cpus);

		for (j = i; j && cpumask_weight(&emul_domains[j - 1]->cpus) > weight; j--)
			emul_domains[j] = emul_domains[j - 1];
		emul_domains[j] = domain;
	}
}

/* Find the domain right around one; all that share a CPU with it are around it. */
static int find_parent(int index)
{
	struct emul_domain *domain = emul_domains[index];
	int i;

	for (i = index + 1; i < emul_domain_count; i++) {
		struct emul_domain *other = emul_domains[i];

		if (!cpumask_intersects(&domain->cpus, &other->cpus))
			continue;
		if (!cpumask_subset(&domain->cpus, &other->cpus)) {
			pr_err("'%s' and '%s' share CPUs, but neither is within the other: that is no tree\n",
			       domain->name, other->name);
			return -EINVAL;
		}
		if (!domain->parent)
			domain->parent = other;
	}
	if (!domain->parent)
		return 0;
	if (domain->decides == EMUL_DEMOTES) {
		pr_err("'%s' demotes, so the emulator takes no domain around it\n",
		       domain->name);
		return -EINVAL;
	}
	domain->parent->nested = max(domain->parent->nested, domain->nested + 1);
	if (domain->parent->nested == EMUL_DOMAIN_NESTED) {
		pr_err("more than %d are one in another\n", EMUL_DOMAIN_NESTED);
		return -EINVAL;
	}
	return 0;
}

/* The member's state that a level needs at least, or -1: it has none of these. */
static int needed_state(const char *needs, const struct member *member)
{
	int i;

	while (*needs) {
		size_t length = strcspn(needs, "~");

		for (i = member->first; i < member->count; i++)
			if (strlen(member->states[i]) == length &&
			    !strncmp(member->states[i], needs, length))
				return i;
		needs += length;
		needs += *needs == '~';
	}
	return -1;
}

/* Fill in the level that a member votes for in each of its states. */
static int fill_votes(const struct emul_domain *domain,
		      const struct member *member, u8 *of_state)
{
	int before = 0;
	int k;

	for (k = 1; k <= domain->depth; k++) {
		const struct emul_level *level = &domain->levels[k];
		int least = needed_state(level->needs, member);
		const char *fault = NULL;

		if (least < 0)
			fault = "there is none";
		else if (level->target_ns < member->target_ns[least])
			fault = "that pays later";
		else if (least < before)
			fault = "that is less than the state before it needs";
		if (fault) {
			pr_err("state '%s' of '%s' needs '%s' of %s: %s\n",
			       level->name, domain->name, level->needs,
			       member->name, fault);
			return -EINVAL;
		}
		before = least;
		while (least < member->count)
			of_state[least++] = k;
	}
	return 0;
}

static int join_child(struct emul_domain *domain, struct emul_domain *child)
{
	struct member member = { .name = child->name, .first = 1 };
	int i;

	member.count = child->depth + 1;
	for (i = 0; i < member.count; i++) {
		member.states[i] = child->levels[i].name;
		member.target_ns[i] = child->levels[i].target_ns;
	}
	domain->members++;
	return fill_votes(domain, &member, child->of_level);
}

static int join_cpus(struct emul_domain *domain)
{
	struct member member = { .name = "its CPUs" };
	int cpu, i;

	for_each_cpu(cpu, &domain->cpus)
		if (!per_cpu_ptr(emul_cpus, cpu)->domain) {
			per_cpu_ptr(emul_cpus, cpu)->domain = domain;
			domain->members++;
			member.count = emul_state_count;
		}
	if (!member.count)
		return 0;
	for (i = 0; i < member.count; i++) {
		member.states[i] = emul_driver.states[i].name;
		member.target_ns[i] = emul_driver.states[i].target_residency *
				      (u64)NSEC_PER_USEC;
	}
	domain->of_slot[EMUL_OFFLINE] = domain->depth;
	return fill_votes(domain, &member, domain->of_slot);
}

static int join_members(struct emul_domain *domain)
{
	int ret = 0;
	int i;

	for (i = 0; i < emul_domain_count && !ret; i++)
		if (emul_domains[i]->parent == domain)
			ret = join_child(domain, emul_domains[i]);
	return ret ?: join_cpus(domain);
}

static int join_tree(void)
{
	int ret = 0;
	int cpu, i;

	sort_domains();
	for (i = 0; i < emul_domain_count && !ret; i++)
		ret = find_parent(i);
	for (i = 0; i < emul_domain_count && !ret; i++)
		ret = join_members(emul_domains[i]);
	if (ret)
		return ret;
	for (i = 0; i < emul_domain_count; i++)
		emul_domain_start(emul_domains[i]);
	for_each_possible_cpu(cpu) {
		struct emul_cpu *ecpu = per_cpu_ptr(emul_cpus, cpu);

		if (ecpu->domain)
			ecpu->vote = ecpu->domain->depth;
	}
	return 0;
}

/**
 * emul_tree_grow - make the domains that the parameter tells
 * @text: rules, NULL if the machine has no domains
 *
 * The driver's table and the CPUs are there, and no CPU uses them yet.
 *
 * Return: 0; -ENOMEM; -EINVAL after a log line that names the fault. Then there
 * are no domains.
 */
int emul_tree_grow(const char *text)
{
	char *copy;
	int ret;

	if (!text)
		return 0;
	copy = kstrdup(text, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	ret = parse_tree(strim(copy)) ?: join_tree();
	kfree(copy);
	if (ret)
		emul_tree_free();
	return ret;
}

/**
 * emul_tree_free - free the domains; no CPU uses them any more
 */
void emul_tree_free(void)
{
	while (emul_domain_count)
		kfree(emul_domains[--emul_domain_count]);
}
