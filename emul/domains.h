/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Domains of the emulated machine: CPUs that share a part of it, which sleeps if
 * all of them sleep deep enough.
 */
#ifndef EMUL_DOMAINS_H
#define EMUL_DOMAINS_H

#include <linux/cpuidle.h>
#include <linux/cpumask.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include "emul.h"

/* Idle states of a domain; with the level of being up. */
#define EMUL_DOMAIN_STATES	8
#define EMUL_DOMAIN_LEVELS	(EMUL_DOMAIN_STATES + 1)

/* Domains that hold a CPU: each has a lock, and lockdep knows eight of a kind. */
#define EMUL_DOMAIN_NESTED	8

/* Domains of a machine, and the power of one of them. */
#define EMUL_DOMAINS_MAX	1024
#define EMUL_DOMAIN_POWER_MW	10000000

/**
 * enum emul_decides - decision on the state of a domain
 * @EMUL_HARDWARE: it enters the shallowest that the members vote for
 * @EMUL_DEMOTES: likewise, but a state that does not pay is left out
 * @EMUL_KERNEL: the last CPU that goes idle decides, by the members' timers
 */
enum emul_decides {
	EMUL_HARDWARE,
	EMUL_DEMOTES,
	EMUL_KERNEL,
};

/**
 * struct emul_level - a state of a domain; level 0 is up
 * @name: its name
 * @needs: names of the state that a member must be in at least, with '~'
 *	between them; the first that a member has counts
 * @entry_ns: time to go down
 * @exit_ns: added to the exit latency of the member that wakes up
 * @target_ns: shortest stay that pays
 * @power: power, and energy of entering it
 */
struct emul_level {
	char			name[CPUIDLE_NAME_LEN];
	char			needs[4 * CPUIDLE_NAME_LEN];
	u64			entry_ns;
	u64			exit_ns;
	u64			target_ns;
	struct emul_power	power;
};

/**
 * struct emul_domain_usage - time and entries of every level
 * @time_ns: time spent
 * @entries: times entered
 */
struct emul_domain_usage {
	u64	time_ns[EMUL_DOMAIN_LEVELS];
	u64	entries[EMUL_DOMAIN_LEVELS];
};

/**
 * struct emul_domain - a domain
 * @name: its name
 * @cpus: its CPUs
 * @parent: the domain right around it, NULL if there is none
 * @decides: who decides on its state
 * @nested: number of domains within it, one in another
 * @depth: its deepest level
 * @levels: its levels
 * @of_slot: by slot of a CPU right in it, the level that the CPU votes for
 * @of_level: by level of this domain, the level of @parent that it votes for
 * @members: domains and CPUs right in it
 * @lock: guards what follows; taken after those of the domains within it
 * @votes: by level, the members that vote for it or a deeper one
 * @vote: the deepest level that all members vote for
 * @level: the level that it is at; where the hardware demotes, @vote
 * @is_waking: a member has woken up, and will have left its idle state
 * @since_ns: when @level began
 * @up_ns: while @is_waking, when the exit latency of the domain is over
 * @past: everything before @since_ns, and the entry at @since_ns
 */
struct emul_domain {
	char			name[2 * CPUIDLE_NAME_LEN];
	struct cpumask		cpus;
	struct emul_domain	*parent;
	enum emul_decides	decides;
	int			nested;
	int			depth;
	struct emul_level	levels[EMUL_DOMAIN_LEVELS];
	u8			of_slot[EMUL_SLOTS];
	u8			of_level[EMUL_DOMAIN_LEVELS];
	int			members;

	raw_spinlock_t		lock;
	u16			votes[EMUL_DOMAIN_LEVELS];
	u8			vote;
	u8			level;
	bool			is_waking;
	u64			since_ns;
	u64			up_ns;
	struct emul_domain_usage past;
};

/* All domains, each after those within it. */
extern struct emul_domain *emul_domains[EMUL_DOMAINS_MAX];
extern int emul_domain_count;

/* tree.c */
int emul_tree_grow(const char *text);
void emul_tree_free(void);

/* domains.c */
void emul_domain_start(struct emul_domain *domain);
void emul_domain_read(struct emul_domain *domain,
		      struct emul_domain_usage *usage);
u64 emul_level_energy_uj(const struct emul_domain *domain,
			 const struct emul_domain_usage *usage, int level);
u64 emul_domain_energy_uj(struct emul_domain *domain);

#endif
