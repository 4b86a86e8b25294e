/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_HINTS_LOCK_H
#define CIL_HINTS_LOCK_H

#include <linux/lockdep.h>
#include <linux/mutex.h>

/*
 * Serialises changes of hints and of groups' values, and attaching or detaching
 * the probes: what is set is settled before the next change.
 */
extern struct mutex cil_hints_lock;

#endif /* CIL_HINTS_LOCK_H */
