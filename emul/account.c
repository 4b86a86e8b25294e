// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: the energy account
 *
 * At any time a CPU is in exactly one slot: an idle state, busy, or offline.
 * Its account holds the time spent in each slot and the number of entries into
 * it. Only the CPU itself writes it, on its way into and out of idle. A read
 * computes the energy:
 *
 *	energy = sum over slots of (time x power + entries x entry energy)
 *
 * The current slot's time counts up to the moment of reading.
 *
 * The entry energy makes target residencies true. Without it the deepest
 * state would be the cheapest for each idle period however short, and a
 * governor that always chooses it would look best. With it a state and the
 * next shallower one cost the same for a stay of the deeper one's target
 * residency. The stay includes the exit latency, as in the kernel's measure:
 *
 *	entry[k] = entry[k - 1] + (power[k - 1] - power[k]) x residency[k]
 *
 * Entering the polling state costs nothing.
 */
#include <linux/cpumask.h>
#include <linux/math64.h>
#include <linux/sched/clock.h>
#include "domains.h"
#include "emul.h"

struct emul_power emul_power[EMUL_SLOTS];

/**
 * emul_account_init - start an account, with the CPU offline
 * @account: the account
 */
void emul_account_init(struct emul_account *account)
{
	seqcount_init(&account->seq);
	account->slot = EMUL_OFFLINE;
	account->since_ns = local_clock();
}

/**
 * emul_account_switch - account for the current slot and enter another
 * @account: the account of the CPU this runs on; interrupts are disabled
 * @slot: the slot that begins now
 */
void emul_account_switch(struct emul_account *account, int slot)
{
	u64 now_ns = local_clock();

	write_seqcount_begin(&account->seq);
	/* The account began on another CPU, whose clock may be ahead. */
	if (now_ns > account->since_ns)
		account->past.time_ns[account->slot] += now_ns - account->since_ns;
	account->past.entries[slot]++;
	account->slot = slot;
	account->since_ns = now_ns;
	write_seqcount_end(&account->seq);
}

/**
 * emul_account_read - read an account, that of another CPU too
 * @account: the account
 * @usage: filled with a consistent copy that reaches up to now
 */
void emul_account_read(const struct emul_account *account,
		       struct emul_usage *usage)
{
	unsigned int seq;
	u64 since_ns;
	s64 now_ns;
	int slot;

	do {
		seq = read_seqcount_begin(&account->seq);
		*usage = account->past;
		slot = account->slot;
		since_ns = account->since_ns;
	} while (read_seqcount_retry(&account->seq, seq));

	/* Where clocks of CPUs differ, ours may still be behind. */
	now_ns = local_clock() - since_ns;
	if (now_ns > 0)
		usage->time_ns[slot] += now_ns;
}

/**
 * emul_slot_energy_uj - modelled energy of one slot
 * @usage: the account it is taken from
 * @slot: the slot
 *
 * Return: energy in uJ, rounded down.
 */
u64 emul_slot_energy_uj(const struct emul_usage *usage, int slot)
{
	const struct emul_power *power = &emul_power[slot];

	return mul_u64_u32_div(usage->time_ns[slot], power->mw, 1000000) +
	       mul_u64_u64_div_u64(usage->entries[slot], power->entry_nj, 1000);
}

/**
 * emul_energy_uj - modelled energy of CPUs, and of domains that hold no others
 * @cpus: the CPUs
 *
 * Return: energy in uJ since the module was loaded.
 */
u64 emul_energy_uj(const struct cpumask *cpus)
{
	struct emul_usage usage;
	u64 energy_uj = 0;
	int cpu, slot, i;

	for_each_cpu(cpu, cpus) {
		emul_account_read(&per_cpu_ptr(emul_cpus, cpu)->account,
				  &usage);
		for (slot = 0; slot < EMUL_SLOTS; slot++)
			energy_uj += emul_slot_energy_uj(&usage, slot);
	}
	for (i = 0; i < emul_domain_count; i++)
		if (cpumask_subset(&emul_domains[i]->cpus, cpus))
			energy_uj += emul_domain_energy_uj(emul_domains[i]);
	return energy_uj;
}
