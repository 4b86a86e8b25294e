// SPDX-License-Identifier: GPL-2.0
/*
 * Shadow governors: they see the idle periods of the governor in use and decide
 * for themselves. They learn from the outcomes, but nothing of it acts.
 *
 * All their work is done in select, after the decision that counts. There RCU
 * watches the CPU, so the list in use is never changed but replaced, and freed
 * after a grace period.
 *
 * A shadow's inputs are those of the decision and outcome events, no more, so
 * that replay can make its decisions again: see docs/tracing.md.
 */
#include <linux/cpumask.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/seqlock.h>
#include <linux/slab.h>

#include "../governors/common/energy.h"
#include "shadow.h"
#include "trace.h"
#include "tunables.h"

/*
 * Costs are summed in units of 4096 ns at the greatest power. The model takes
 * entering a state for at most 10^9 ns of it. So a million periods a second
 * need more than two years to overflow 64 bits.
 */
#define COST_SHIFT	(16 + 12)

/* A longer period counts as 18 minutes: then a cost has at most 57 bits. */
#define PERIOD_MAX_NS	BIT_ULL(40)

/* One for the governor in use, one for each shadow. */
#define ROWS		(1 + CIL_POLICY_COUNT)

/**
 * struct cil_shadow_cost - a sum of modelled costs
 * @units: the sum
 * @rest: what is not yet a unit, in 1/2^COST_SHIFT of it
 */
struct cil_shadow_cost {
	u64 units;
	u32 rest;
};

/**
 * struct cil_shadow_row - what is counted for one governor on one CPU
 * @agree: decisions for the same state as the governor in use
 * @deeper: decisions for a deeper one
 * @shallower: decisions for a shallower one
 * @cost: of the idle periods in the states decided on
 * @index: the last decision; for the governor in use, the state entered
 */
struct cil_shadow_row {
	u64 agree;
	u64 deeper;
	u64 shallower;
	struct cil_shadow_cost cost;
	u8 index;
};

/**
 * struct cil_shadow_cpu - one CPU's part in shadow mode
 * @sequence: for readers of @row and @oracle; the CPU writes with interrupts off
 * @started: the shadows have decided here
 * @allowed: bit k: the last decision might have been for state k
 * @costs: the cost model
 * @row: of the governor in use, then of the shadows in the order of the list
 * @oracle: cost of the idle periods in the cheapest state allowed
 */
struct cil_shadow_cpu {
	seqcount_t sequence;
	bool started;
	u32 allowed;
	struct cil_cost costs[CIL_STATE_MAX];
	struct cil_shadow_row row[ROWS];
	struct cil_shadow_cost oracle;
};

/**
 * struct cil_shadow - a governor in the list
 * @governor: the governor
 * @state: what its policy learns as a shadow, on each CPU
 */
struct cil_shadow {
	const struct cil_governor *governor;
	void __percpu *state;
};

/**
 * struct cil_shadow_set - a list in use
 * @cpus: what is counted
 * @count: number of governors
 * @shadow: the governors
 */
struct cil_shadow_set {
	struct cil_shadow_cpu __percpu *cpus;
	u32 count;
	struct cil_shadow shadow[CIL_POLICY_COUNT];
};

DEFINE_STATIC_KEY_FALSE(cil_shadow_on);

/* Serialises changes. */
static DEFINE_MUTEX(shadow_lock);
static struct cil_shadow_set __rcu *current_set;

static u64 cost_of(const struct cil_cost *cost, u64 period_ns)
{
	return cost->entry + cost->power * period_ns;
}

static void add_cost(struct cil_shadow_cost *sum, u64 cost)
{
	cost += sum->rest;
	sum->units += cost >> COST_SHIFT;
	sum->rest = cost & ((1U << COST_SHIFT) - 1);
}

/* The last decisions have met with an idle period. */
static void count_period(struct cil_shadow_cpu *here, u32 rows,
			 const struct cil_outcome *outcome)
{
	u64 period_ns = min_t(u64, outcome->residency_ns, PERIOD_MAX_NS);
	u64 least = U64_MAX;
	u32 i;

	here->row[0].index = outcome->index;
	for (i = 0; i < rows; i++)
		add_cost(&here->row[i].cost,
			 cost_of(&here->costs[here->row[i].index], period_ns));
	for (i = 0; i < CIL_STATE_MAX; i++)
		if (here->allowed & BIT(i))
			least = min(least, cost_of(&here->costs[i], period_ns));
	add_cost(&here->oracle, least);
}

static void count_decision(struct cil_shadow_row *row, u8 index, u8 acting)
{
	row->index = index;
	if (index == acting)
		row->agree++;
	else if (index > acting)
		row->deeper++;
	else
		row->shallower++;
}

/* Where nothing is allowed, as the shallowest state that is not disabled is. */
static u32 allowed_states(const struct cil_machine *machine,
			  const struct cil_query *query)
{
	u32 allowed = 0, first = 0;
	u32 i;

	for (i = machine->state_count; i-- > 0;) {
		if (cil_disabled(query, i))
			continue;
		first = BIT(i);
		if (machine->states[i].exit_latency_ns <= query->latency_req_ns)
			allowed |= first;
	}
	return allowed ?: first ?: BIT(0);
}

static void restart_counts(struct cil_shadow_cpu *here,
			   const struct cil_machine *machine)
{
	here->started = true;
	memset(here->row, 0, sizeof(here->row));
	memset(&here->oracle, 0, sizeof(here->oracle));
	cil_energy_init(here->costs, machine);
}

/* One shadow learns from the outcome of the last decision, and decides. */
static u8 decide_one(const struct cil_cpu *cpu, const struct cil_shadow *shadow,
		     const struct cil_query *told,
		     const struct cil_outcome *outcome, bool fresh)
{
	const struct cil_record *r = &cpu->record;
	const struct cil_policy *policy = shadow->governor->policy;
	const struct cil_tunable_set *set =
		rcu_dereference_sched(shadow->governor->tunables);
	void *state = this_cpu_ptr(shadow->state);
	struct cil_query query = *told;
	struct cil_decision decision;

	if (fresh) {
		policy->init(state, &cpu->machine, set->value);
		cil_tunables_trace(shadow->governor, set);
	} else if (r->kind == CIL_OUTCOME_ENTERED && policy->update) {
		policy->update(state, &cpu->machine, set->value, outcome);
	}
	policy->select(state, &cpu->machine, set->value, &query, &decision);
	if (unlikely(decision.index >= cpu->machine.state_count))
		decision.index = 0;
	trace_cil_shadow(r->seq, set->generation, shadow->governor->id,
			 (fresh ? CIL_SHADOW_FRESH : 0) |
			 (query.asked ? CIL_DECISION_ASKED : 0), &decision);
	return decision.index;
}

/**
 * cil_shadow_decide() - the shadows account for the last period, and decide
 * @cpu: the CPU, whose decision number record.seq is made and traced
 *
 * They start afresh when the list is new, and together with the governor in
 * use. Otherwise that governor has made a decision before this one, and
 * record.outcome is what became of it.
 *
 * Context: idle task, interrupts off.
 */
void cil_shadow_decide(struct cil_cpu *cpu)
{
	const struct cil_shadow_set *set = rcu_dereference_sched(current_set);
	const struct cil_record *r = &cpu->record;
	struct cil_outcome outcome;
	struct cil_query told;
	u8 index[ROWS] = { r->decision.index };
	struct cil_shadow_cpu *here;
	bool fresh;
	u32 i;

	if (!set)
		return;
	here = this_cpu_ptr(set->cpus);
	fresh = !READ_ONCE(here->started) || cpu->afresh;
	cpu->afresh = false;

	/* Under a kernel base the record differs from the events in two values. */
	told = r->query;
	told.latency_req_ns = gate_latency_req(told.latency_req_ns, r->hint_ns);
	told.asked = false;
	outcome = r->outcome;
	outcome.tick_wakeup = r->tick == CIL_TICK_YES;
	for (i = 0; i < set->count; i++)
		index[1 + i] = decide_one(cpu, &set->shadow[i], &told, &outcome,
					  fresh);

	raw_write_seqcount_begin(&here->sequence);
	if (fresh)
		restart_counts(here, &cpu->machine);
	else if (r->kind == CIL_OUTCOME_ENTERED)
		count_period(here, 1 + set->count, &outcome);
	here->allowed = allowed_states(&cpu->machine, &told);
	for (i = 0; i <= set->count; i++)
		count_decision(&here->row[i], index[i], index[0]);
	raw_write_seqcount_end(&here->sequence);
}

static void free_set(struct cil_shadow_set *set)
{
	u32 i;

	if (!set)
		return;
	for (i = 0; i < set->count; i++)
		free_percpu(set->shadow[i].state);
	free_percpu(set->cpus);
	kfree(set);
}

static int add_shadow(struct cil_shadow_set *set, const char *name)
{
	const struct cil_governor *governor = cil_governor_find(name);
	struct cil_shadow *shadow;
	u32 i;

	if (!governor || !governor->policy)
		return -EINVAL;
	for (i = 0; i < set->count; i++)
		if (set->shadow[i].governor == governor)
			return -EINVAL;

	shadow = &set->shadow[set->count];
	shadow->state = __alloc_percpu(governor->policy->state_size, 8);
	if (!shadow->state)
		return -ENOMEM;
	shadow->governor = governor;
	set->count++;
	return 0;
}

static int add_shadows(struct cil_shadow_set *set, char *list)
{
	char *name;
	int ret = 0;
	int n;

	set->cpus = alloc_percpu(struct cil_shadow_cpu);
	if (!set->cpus)
		return -ENOMEM;
	for_each_possible_cpu(n)
		seqcount_init(&per_cpu_ptr(set->cpus, n)->sequence);
	while (!ret && (name = strsep(&list, " ")))
		if (*name)
			ret = add_shadow(set, name);
	return ret;
}

static struct cil_shadow_set *make_set(char *list)
{
	struct cil_shadow_set *set = kzalloc(sizeof(*set), GFP_KERNEL);
	int ret = set ? add_shadows(set, list) : -ENOMEM;

	if (!ret)
		return set;
	free_set(set);
	return ERR_PTR(ret);
}

/*
 * No CPU uses the old list after a grace period: select runs with interrupts
 * off and RCU watching, and nothing but select uses it.
 */
static void publish_shadows(struct cil_shadow_set *set)
	__must_hold(&shadow_lock)
{
	struct cil_shadow_set *old =
		rcu_dereference_protected(current_set,
					  lockdep_is_held(&shadow_lock));

	lockdep_assert_held(&shadow_lock);
	if (!set)
		static_branch_disable(&cil_shadow_on);
	rcu_assign_pointer(current_set, set);
	if (set)
		static_branch_enable(&cil_shadow_on);
	if (old)
		synchronize_rcu();
	free_set(old);
}

/**
 * cil_shadow_set_list() - replace the list
 * @list: names of our policies, separated by blanks; nothing, or "none", for
 *	no shadow. Overwritten
 *
 * The governors in the list start afresh, also those that were in the old one.
 *
 * Context: process, may sleep.
 * Return: 0, or, without any change: -EINVAL (no such policy of ours, or twice
 * the same), -ENOMEM.
 */
int cil_shadow_set_list(char *list)
{
	struct cil_shadow_set *set = NULL;

	list = strim(list);
	if (*list && strcmp(list, "none")) {
		set = make_set(list);
		if (IS_ERR(set))
			return PTR_ERR(set);
	}
	mutex_lock(&shadow_lock);
	publish_shadows(set);
	mutex_unlock(&shadow_lock);
	return 0;
}

/**
 * cil_shadow_show_list() - print the list as it can be written
 * @seq: where to print
 *
 * Context: process, may sleep.
 */
void cil_shadow_show_list(struct seq_file *seq)
{
	const struct cil_shadow_set *set;
	u32 i;

	mutex_lock(&shadow_lock);
	set = rcu_dereference_protected(current_set,
					lockdep_is_held(&shadow_lock));
	for (i = 0; set && i < set->count; i++)
		seq_printf(seq, "%s%s", i ? " " : "",
			   set->shadow[i].governor->policy->name);
	seq_puts(seq, set ? "\n" : "none\n");
	mutex_unlock(&shadow_lock);
}

static void show_row(struct seq_file *seq, u32 cpu, const char *name,
		     const char *role, const struct cil_shadow_row *row,
		     const struct cil_shadow_cost *oracle)
{
	seq_printf(seq, "%u %s %s %llu %llu %llu %llu %llu %llu\n", cpu, name,
		   role, row->agree + row->deeper + row->shallower, row->agree,
		   row->deeper, row->shallower, row->cost.units, oracle->units);
}

static void show_cpu(struct seq_file *seq, const struct cil_shadow_set *set,
		     u32 n, struct cil_shadow_cpu *copy)
{
	const struct cil_cpu *cpu = per_cpu_ptr(cil_cpus, n);
	const struct cil_governor *governor = READ_ONCE(cpu->governor);
	const struct cil_shadow_cpu *there = per_cpu_ptr(set->cpus, n);
	unsigned int sequence;
	u32 i;

	do {
		sequence = read_seqcount_begin(&there->sequence);
		*copy = *there;
	} while (read_seqcount_retry(&there->sequence, sequence));

	/* Counts of a governor that left, or starts afresh, are void. */
	if (!copy->started || !governor || READ_ONCE(cpu->restart))
		return;
	show_row(seq, n, governor->kernel.name, "active", &copy->row[0],
		 &copy->oracle);
	for (i = 0; i < set->count; i++)
		show_row(seq, n, set->shadow[i].governor->policy->name, "shadow",
			 &copy->row[1 + i], &copy->oracle);
}

/**
 * cil_shadow_show_stats() - print what was counted, a line for each governor
 * @seq: where to print
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int cil_shadow_show_stats(struct seq_file *seq)
{
	struct cil_shadow_cpu *copy = kmalloc(sizeof(*copy), GFP_KERNEL);
	const struct cil_shadow_set *set;
	u32 n;

	if (!copy)
		return -ENOMEM;
	seq_puts(seq, "# cpu governor role decisions agree deeper shallower cost oracle_cost\n");
	mutex_lock(&shadow_lock);
	set = rcu_dereference_protected(current_set,
					lockdep_is_held(&shadow_lock));
	if (set)
		for_each_online_cpu(n)
			show_cpu(seq, set, n, copy);
	mutex_unlock(&shadow_lock);
	kfree(copy);
	return 0;
}

/**
 * cil_shadow_restart() - let the shadows start afresh if one is this governor
 * @governor: the governor
 * @cpus: where
 *
 * Takes effect on each CPU at its next decision.
 *
 * Context: process, may sleep.
 */
void cil_shadow_restart(const struct cil_governor *governor,
			const struct cpumask *cpus)
{
	struct cil_shadow_set *set;
	bool found = false;
	u32 i;

	mutex_lock(&shadow_lock);
	set = rcu_dereference_protected(current_set,
					lockdep_is_held(&shadow_lock));
	for (i = 0; set && i < set->count; i++)
		found |= set->shadow[i].governor == governor;
	if (found)
		for_each_cpu(i, cpus)
			WRITE_ONCE(per_cpu_ptr(set->cpus, i)->started, false);
	mutex_unlock(&shadow_lock);
}

/**
 * cil_shadow_exit() - forget the list
 *
 * Context: process, may sleep; the file that a list is written to is gone.
 */
void cil_shadow_exit(void)
{
	mutex_lock(&shadow_lock);
	publish_shadows(NULL);
	mutex_unlock(&shadow_lock);
}
