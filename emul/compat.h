/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows kernel versions. The rest is written for the
 * newest kernel.
 */
#ifndef EMUL_COMPAT_H
#define EMUL_COMPAT_H

#include <linux/context_tracking.h>
#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/instrumentation.h>
#include <linux/irqflags.h>
#include <linux/lockdep.h>
#include <linux/version.h>

#if !IS_ENABLED(CONFIG_CPU_IDLE)
#error "cpuidle_emul needs a kernel with CONFIG_CPU_IDLE"
#endif

#if !IS_ENABLED(CONFIG_HIGH_RES_TIMERS)
#error "cpuidle_emul needs a kernel with CONFIG_HIGH_RES_TIMERS"
#endif

#if !IS_ENABLED(CONFIG_POWERCAP)
#error "cpuidle_emul needs a kernel with CONFIG_POWERCAP"
#endif

/* The zones of older kernels bind cooling devices in another way. */
#define EMUL_HAS_THERMAL						\
	(IS_REACHABLE(CONFIG_THERMAL) &&				\
	 LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0))

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
/*
 * Leave the kernel's view: interrupts count as enabled from here on, because
 * the halt enables them untraced, and RCU stops watching this CPU.
 */
static __always_inline void emul_leave_rcu(void)
{
	trace_hardirqs_on_prepare();
	lockdep_hardirqs_on_prepare();
	instrumentation_end();
	ct_idle_enter();
	lockdep_hardirqs_on(_THIS_IP_);
}

/* The reverse, with interrupts disabled again. */
static __always_inline void emul_return_to_rcu(void)
{
	lockdep_hardirqs_off(_THIS_IP_);
	ct_idle_exit();
	instrumentation_begin();
}
#else
#define emul_leave_rcu		ct_cpuidle_enter
#define emul_return_to_rcu	ct_cpuidle_exit
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define emul_hrtimer_setup		hrtimer_setup
#define emul_hrtimer_setup_on_stack	hrtimer_setup_on_stack
#else
static inline void
emul_hrtimer_setup(struct hrtimer *timer,
		   enum hrtimer_restart (*function)(struct hrtimer *),
		   clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}

static inline void
emul_hrtimer_setup_on_stack(struct hrtimer *timer,
			    enum hrtimer_restart (*function)(struct hrtimer *),
			    clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init_on_stack(timer, clock_id, mode);
	timer->function = function;
}
#endif

#endif
