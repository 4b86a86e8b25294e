/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_HINTS_LOCK_H
#define CIL_HINTS_LOCK_H

#include <linux/lockdep.h>
#include <linux/rtmutex.h>

/*
 * Serialises changes of hints and of groups' values, and attaching or detaching
 * the probes: what is set is settled before the next change.
 *
 * Users of any priority take it. A holder that is preempted inherits the
 * priority of those that wait, so they do not wait for strangers that only run.
 */
extern struct rt_mutex cil_hints_lock;

#endif /* CIL_HINTS_LOCK_H */
