/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_HINTS_LOCK_H
#define CIL_HINTS_LOCK_H

#include <linux/lockdep.h>
#include <linux/rtmutex.h>

/*
 * Serialises requests, and attaching or detaching the probes. Any user's task
 * can hold it, so it inherits the priority of real-time tasks that wait. Else
 * one that is preempted would let them wait for its next turn. No request
 * holds it across a grace period, nor for all threads of a process or all
 * hints.
 */
extern struct rt_mutex cil_hints_lock;

#endif /* CIL_HINTS_LOCK_H */
