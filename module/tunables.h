/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_TUNABLES_H
#define CIL_TUNABLES_H

#include "state.h"

/* Room for all tunables of a governor as "name=value name=value". */
#define CIL_TUNABLES_TEXT	512

/**
 * struct cil_change - new values, checked but not yet in force
 * @value: in the order of the policy's table
 * @changed: bit n: tunable n gets a new value
 */
struct cil_change {
	u32 value[CIL_TUNABLE_MAX];
	u32 changed;
};

int cil_tunables_init(void);
void cil_tunables_exit(void);
int cil_tunables_set(struct cil_governor *governor, u32 n, const char *text);
int cil_tunables_defaults(struct cil_governor *governor);
int cil_tunables_parse(const struct cil_governor *governor, const char *name,
		       const char *text, struct cil_change *change);
int cil_tunables_apply(struct cil_governor *governor,
		       const struct cil_change *change);
void cil_tunables_watch(struct cil_governor *governor, void (*changed)(void));
bool cil_tunables_live(void);
void cil_tunables_trace(const struct cil_governor *governor,
			const struct cil_tunable_set *set);
int cil_tunables_print(const struct cil_governor *governor, u32 n, char *text,
		       size_t size);
size_t cil_tunables_format(const struct cil_governor *governor,
			   const struct cil_tunable_set *set, char *text,
			   size_t size);

#endif /* CIL_TUNABLES_H */
