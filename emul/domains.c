// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: domains
 *
 * Each CPU votes for a level of its domain, by its idle state. So does each
 * domain for a level of the domain around it. Level 0 is up, and any CPU that
 * runs votes for it. The deepest level that all members vote
 * for is the domain's vote. A CPU that is offline votes for the deepest.
 *
 * The account has the rules of a CPU's, see account.c: time at each level,
 * exit latencies included, and the number of entries. A sleep ends when the
 * first member leaves its idle state.
 *
 * Where the kernel decides, the last CPU that goes idle looks at the next timer
 * of all members, as drivers/pmdomain/governor.c does. The target residency and
 * the time to go down must fit before it. Hardware that demotes seems to know
 * the length of the stay. The account takes the deepest level that has paid
 * when the stay is over.
 *
 * A CPU takes locks from its own domain outwards, and goes on to the next only
 * if the level of the one before changes. A CPU in a state that no domain asks
 * for takes none.
 */
#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched/clock.h>
#include <linux/spinlock.h>
#include "domains.h"

/* The deepest level up to that of the domain that a stay pays for. */
static int paid_level(const struct emul_domain *domain, u64 length_ns)
{
	int level = domain->level;

	if (domain->decides == EMUL_DEMOTES)
		while (level && domain->levels[level].target_ns > length_ns)
			level--;
	return level;
}

/* Where clocks of CPUs differ, ours may be behind. */
static u64 length_until(const struct emul_domain *domain, u64 now_ns)
{
	return now_ns > domain->since_ns ? now_ns - domain->since_ns : 0;
}

/* Account for a stay; that of hardware that demotes is an entry only now. */
static void add_stay(const struct emul_domain *domain, u64 now_ns,
		     struct emul_domain_usage *usage)
{
	u64 length_ns = length_until(domain, now_ns);
	int level = paid_level(domain, length_ns);

	usage->time_ns[level] += length_ns;
	if (domain->decides == EMUL_DEMOTES)
		usage->entries[level]++;
}

static void set_level(struct emul_domain *domain, int level)
{
	u64 now_ns = local_clock();

	add_stay(domain, now_ns, &domain->past);
	if (domain->decides != EMUL_DEMOTES)
		domain->past.entries[level]++;
	domain->level = level;
	domain->is_waking = false;
	domain->since_ns = now_ns;
}

/* The deepest level up to @level that ends before the next timer of a member. */
static int level_before_timers(const struct emul_domain *domain, int level)
{
	u64 now_ns = ktime_get_ns();
	u64 next_ns = U64_MAX;
	int cpu;

	if (!level)
		return 0;
	for_each_cpu(cpu, &domain->cpus) {
		const struct emul_cpu *ecpu = per_cpu_ptr(emul_cpus, cpu);

		if (READ_ONCE(ecpu->account.slot) != EMUL_OFFLINE)
			next_ns = min(next_ns, READ_ONCE(ecpu->next_ns));
	}
	while (level && now_ns + domain->levels[level].target_ns +
			domain->levels[level].entry_ns > next_ns)
		level--;
	return level;
}

/* Count a member's new vote, and enter the level that follows. */
static void count_vote(struct emul_domain *domain, int before, int after)
{
	int vote = 0;
	int level;

	for (level = before + 1; level <= after; level++)
		domain->votes[level]++;
	for (level = after + 1; level <= before; level++)
		domain->votes[level]--;
	while (vote < domain->depth &&
	       domain->votes[vote + 1] == domain->members)
		vote++;
	if (vote == domain->vote)
		return;

	domain->vote = vote;
	level = domain->decides == EMUL_KERNEL ?
		level_before_timers(domain, vote) : vote;
	if (level != domain->level)
		set_level(domain, level);
}

/* Hold the lock beyond a loop, which sparse cannot follow. */
static void lock_domain(struct emul_domain *domain)
{
	raw_spin_lock_nested(&domain->lock, domain->nested);
	__release(&domain->lock);
}

static void unlock_all(struct emul_domain **locked, int count)
{
	while (count) {
		raw_spinlock_t *lock = &locked[--count]->lock;

		__acquire(lock);
		raw_spin_unlock(lock);
	}
}

/* Count a CPU's vote for another slot in its domains. */
static noinline void switch_domains(struct emul_cpu *cpu, int slot)
{
	struct emul_domain *locked[EMUL_DOMAIN_NESTED];
	struct emul_domain *domain = cpu->domain;
	int before = cpu->vote;
	int after = domain->of_slot[slot];
	int count = 0;

	cpu->vote = after;
	while (domain && before != after) {
		int level;

		lock_domain(domain);
		locked[count++] = domain;
		level = domain->level;
		count_vote(domain, before, after);
		before = domain->of_level[level];
		after = domain->of_level[domain->level];
		domain = domain->parent;
	}
	unlock_all(locked, count);
}

/**
 * emul_switch - account for a CPU's slot and enter another, and so its domains
 * @cpu: the CPU this runs on; interrupts are disabled
 * @slot: the slot that begins now
 *
 * Between the kernel's look at the clock and the account's lies little more
 * than a call where there are no domains.
 */
void emul_switch(struct emul_cpu *cpu, int slot)
{
	emul_account_switch(&cpu->account, slot);
	if (cpu->domain)
		switch_domains(cpu, slot);
}

/* When the exit latency of a domain is over, those around it being up. */
static u64 woken_ns(struct emul_domain *domain, u64 now_ns, u64 up_ns,
		    u64 cpu_exit_ns)
{
	int level = domain->level;

	if (domain->is_waking)
		return max(up_ns, domain->up_ns);
	if (domain->decides == EMUL_DEMOTES) {
		u64 length_ns = length_until(domain, now_ns) + cpu_exit_ns;

		while (level && domain->levels[level].target_ns >
				length_ns + domain->levels[level].exit_ns)
			level--;
	}
	domain->is_waking = true;
	domain->up_ns = up_ns + domain->levels[level].exit_ns;
	return domain->up_ns;
}

/**
 * emul_domains_wake - wake up the domains of a CPU that an interrupt woke up
 * @cpu: the CPU this runs on; interrupts are disabled
 * @cpu_exit_ns: its own exit latency
 *
 * The first member that wakes up waits for the exit latency of the domain. A
 * further one waits for what is left of it.
 *
 * Return: time to wait for before the exit latency of the CPU itself.
 */
u64 emul_domains_wake(struct emul_cpu *cpu, u64 cpu_exit_ns)
{
	struct emul_domain *locked[EMUL_DOMAIN_NESTED];
	struct emul_domain *domain = cpu->domain;
	u64 now_ns, up_ns;
	int count = 0;
	int i;

	/* Each of its domains is up. */
	if (!cpu->vote)
		return 0;
	while (domain) {
		lock_domain(domain);
		locked[count++] = domain;
		/* No domain around one that is up sleeps. */
		if (!domain->level)
			break;
		domain = domain->parent;
	}
	now_ns = local_clock();
	up_ns = now_ns;
	for (i = count - 1; i >= 0; i--)
		if (locked[i]->level)
			up_ns = woken_ns(locked[i], now_ns, up_ns, cpu_exit_ns);
	unlock_all(locked, count);
	return up_ns - now_ns;
}

/**
 * emul_domain_start - start the account of a domain, with all CPUs offline
 * @domain: the domain
 */
void emul_domain_start(struct emul_domain *domain)
{
	int level;

	raw_spin_lock_init(&domain->lock);
	for (level = 1; level <= domain->depth; level++)
		domain->votes[level] = domain->members;
	domain->vote = domain->depth;
	domain->level = domain->depth;
	domain->since_ns = local_clock();
}

/**
 * emul_domain_read - read the account of a domain
 * @domain: the domain
 * @usage: filled with a consistent copy that reaches up to now
 */
void emul_domain_read(struct emul_domain *domain,
		      struct emul_domain_usage *usage)
{
	unsigned long flags;

	raw_spin_lock_irqsave_nested(&domain->lock, flags, domain->nested);
	*usage = domain->past;
	add_stay(domain, local_clock(), usage);
	raw_spin_unlock_irqrestore(&domain->lock, flags);
}

/**
 * emul_level_energy_uj - modelled energy of a domain at one level
 * @domain: the domain
 * @usage: the account it is taken from
 * @level: the level
 *
 * Return: energy in uJ, rounded down.
 */
u64 emul_level_energy_uj(const struct emul_domain *domain,
			 const struct emul_domain_usage *usage, int level)
{
	const struct emul_power *power = &domain->levels[level].power;

	return mul_u64_u32_div(usage->time_ns[level], power->mw, 1000000) +
	       mul_u64_u64_div_u64(usage->entries[level], power->entry_nj, 1000);
}

/**
 * emul_domain_energy_uj - modelled energy of a domain, without its members'
 * @domain: the domain
 *
 * Return: energy in uJ since the module was loaded.
 */
u64 emul_domain_energy_uj(struct emul_domain *domain)
{
	struct emul_domain_usage usage;
	u64 energy_uj = 0;
	int level;

	emul_domain_read(domain, &usage);
	for (level = 0; level <= domain->depth; level++)
		energy_uj += emul_level_energy_uj(domain, &usage, level);
	return energy_uj;
}
