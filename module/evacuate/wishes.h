/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wishes for CPUs to be idle, and the set that follows from them.
 */
#ifndef CIL_EVACUATE_WISHES_H
#define CIL_EVACUATE_WISHES_H

#include <linux/cpumask.h>
#include <linux/list.h>
#include <linux/types.h>

/* Room for a list of CPUs as text. */
#define CIL_EVAC_TEXT	512

/**
 * struct cil_lease - a wish that ends with the file that made it
 * @list: in the list of leases
 * @max_capacity_pct: share of the online CPUs that stays, in percent
 * @cpus: CPUs that shall go
 */
struct cil_lease {
	struct list_head list;
	u32 max_capacity_pct;
	struct cpumask cpus;
};

int cil_wishes_init(void);
void cil_wishes_exit(void);

int cil_wishes_set_value(u32 n, const char *text);
void cil_wishes_defaults(void);
int cil_wishes_set_cpus(const char *text);
int cil_wishes_print_cpus(char *text, size_t size);
int cil_wishes_print_evacuated(char *text, size_t size);

struct cil_lease *cil_lease_new(void);
int cil_lease_set(struct cil_lease *lease, const char *text);
void cil_lease_end(struct cil_lease *lease);

void cil_wishes_set_cooling(u32 cpus);
u32 cil_wishes_cooling(void);

void cil_wishes_cpu_online(unsigned int cpu);
void cil_wishes_cpu_offline(unsigned int cpu);
void cil_wishes_sleep(bool asleep);

#endif /* CIL_EVACUATE_WISHES_H */
