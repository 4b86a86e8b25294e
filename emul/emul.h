/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cpuidle_emul: an emulated machine with idle states to choose from.
 */
#ifndef EMUL_H
#define EMUL_H

#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/seqlock.h>
#include <linux/types.h>

/*
 * Slots of the energy account: one per idle state, busy, and offline.
 */
#define EMUL_BUSY	CPUIDLE_STATE_MAX
#define EMUL_OFFLINE	(CPUIDLE_STATE_MAX + 1)
#define EMUL_SLOTS	(CPUIDLE_STATE_MAX + 2)

/**
 * struct emul_usage - time and entries of every slot
 * @time_ns: time spent
 * @entries: times entered
 */
struct emul_usage {
	u64	time_ns[EMUL_SLOTS];
	u64	entries[EMUL_SLOTS];
};

/**
 * struct emul_account - time and entries of one CPU's slots
 * @seq: lets other CPUs read while this one, the only writer, goes on
 * @slot: the current slot
 * @since_ns: when @slot began, by local_clock()
 * @past: everything before @since_ns, and the entry at @since_ns
 */
struct emul_account {
	seqcount_t		seq;
	int			slot;
	u64			since_ns;
	struct emul_usage	past;
};

/**
 * struct emul_power - power and entry energy of a slot
 * @mw: power while in it
 * @entry_nj: energy of entering it once
 */
struct emul_power {
	u32	mw;
	u64	entry_nj;
};

struct emul_domain;

/**
 * struct emul_cpu - one emulated CPU
 * @dev: its cpuidle device, NULL if it has none
 * @timer: ends a modelled exit latency or a poll; armed only inside enter
 * @expired: @timer has fired since it was armed
 * @requests: how often a state that halts was to be entered
 * @account: its energy account
 * @domain: the innermost domain that it is in, NULL if there is none
 * @vote: the level of @domain that it votes for
 * @next_ns: when its next timer is due, as it went idle; CLOCK_MONOTONIC
 */
struct emul_cpu {
	struct cpuidle_device	*dev;
	struct hrtimer		timer;
	bool			expired;
	u32			requests;
	struct emul_account	account;
	struct emul_domain	*domain;
	u8			vote;
	u64			next_ns;
};

extern struct emul_cpu __percpu *emul_cpus;
extern struct cpuidle_driver emul_driver;
extern int emul_state_count;
extern struct emul_power emul_power[EMUL_SLOTS];
extern s64 emul_exit_latency_ns[CPUIDLE_STATE_MAX];

/**
 * struct emul_modes - how the machine differs from one that does as it is told
 * @silent: nothing reports that polling gave up at its limit
 * @reject: each time so many requests for a state have come, one is refused;
 *	0: never
 * @demote: likewise, one is served by the next shallower state that halts
 * @secretly: the driver does not notice that, and reports the state that was
 *	requested
 */
struct emul_modes {
	bool	silent;
	u32	reject;
	u32	demote;
	bool	secretly;
};

extern struct emul_modes emul_modes;

/* enter.c */
void emul_timer_init(struct emul_cpu *cpu);
int emul_enter(struct cpuidle_device *dev, struct cpuidle_driver *drv,
	       int index);
int emul_enter_thread(struct cpuidle_device *dev, struct cpuidle_driver *drv,
		      int index);
int emul_enter_poll(struct cpuidle_device *dev, struct cpuidle_driver *drv,
		    int index);

/* account.c */
void emul_account_init(struct emul_account *account);
void emul_account_switch(struct emul_account *account, int slot);
void emul_account_read(const struct emul_account *account,
		       struct emul_usage *usage);
u64 emul_slot_energy_uj(const struct emul_usage *usage, int slot);
u64 emul_energy_uj(const struct cpumask *cpus);

/* domains.c */
void emul_switch(struct emul_cpu *cpu, int slot);
u64 emul_domains_wake(struct emul_cpu *cpu, u64 cpu_exit_ns);

/* devices.c */
struct dentry;
int emul_devices_register(void);
void emul_devices_unregister(void);
void emul_table_register(struct dentry *folder);

/* work.c */
void emul_work_register(struct dentry *folder);

/* counters.c */
void emul_counters_register(void);
void emul_counters_unregister(void);

/* thermal.c */
int emul_thermal_register(void);
void emul_thermal_unregister(void);
int emul_thermal_set(int mc);

/* zones.c */
int emul_zones_register(void);
void emul_zones_unregister(void);

/* show.c */
void emul_debugfs_register(void);
void emul_debugfs_unregister(void);

#endif
