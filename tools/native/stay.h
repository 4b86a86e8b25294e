/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Length of an idle period: the time in an idle state without the way out of it.
 *
 * A table has the worst case of an exit latency, so a residency may be shorter.
 * Such a period is halved, as the kernel's menu does. menu halves periods of up to
 * twice the exit latency. Where the table is true that errs, and the difference
 * does not: see "When there is no regret" in docs/replay.md.
 */
#ifndef CIL_STAY_H
#define CIL_STAY_H

#include "../../governors/common/types.h"

/**
 * cil_is_short() - is a period too short for the exit latency in the table?
 * @residency_ns: time in the state with the way out, as the kernel measures it
 * @exit_ns: the state's exit latency
 */
static inline bool cil_is_short(u64 residency_ns, s64 exit_ns)
{
	return exit_ns && residency_ns <= (u64)exit_ns;
}

/**
 * cil_stay_ns() - time in an idle state until something woke the CPU
 * @residency_ns: as for cil_is_short()
 * @exit_ns: as for cil_is_short()
 */
static inline s64 cil_stay_ns(u64 residency_ns, s64 exit_ns)
{
	return cil_is_short(residency_ns, exit_ns) ?
	       (s64)(residency_ns / 2) : (s64)residency_ns - exit_ns;
}

#endif /* CIL_STAY_H */
