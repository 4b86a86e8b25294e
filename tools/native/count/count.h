/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counting the instructions of a policy: a program that plays some intervals,
 * in which exactly the policy's own work runs inside count_select() and
 * count_update(). Valgrind's callgrind is told to count inside these only.
 */
#ifndef CIL_COUNT_H
#define CIL_COUNT_H

struct cil_policy;
struct cpuidle_governor;

const struct cil_policy *count_wrapped(const struct cil_policy *policy);

int __real_cpuidle_register_governor(struct cpuidle_governor *governor);
int __wrap_cpuidle_register_governor(struct cpuidle_governor *governor);

/* A function of its own, whatever the compiler knows about its callers. */
#define COUNTED	__attribute__((noipa, optimize("no-optimize-sibling-calls")))

#endif /* CIL_COUNT_H */
