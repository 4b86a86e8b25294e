/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of the kernel as its cpuidle governors need to be compiled and run
 * in userspace, unmodified: one CPU, one driver, and an environment that the
 * caller sets. The headers below include/ all lead here.
 *
 * Types have the kernel's widths and signedness, because the governors'
 * arithmetic depends on them.
 */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef s64 ktime_t;

#define S32_MAX		((s32)(U32_MAX >> 1))
#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)
#define S64_MAX		((s64)(U64_MAX >> 1))
#define S64_MIN		(-S64_MAX - 1)
#define KTIME_MAX	S64_MAX
#define KTIME_MIN	S64_MIN

#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L

#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define fls(x)		((x) ? 32 - __builtin_clz(x) : 0)
#define __ffs(x)	((u32)__builtin_ctzl(x))
#define ilog2(x)	((u32)(63 - __builtin_clzll(x)))
#define noinline	__attribute__((__noinline__))
#define static_assert	_Static_assert
#define likely(x)	(x)
#define unlikely(x)	(x)
#define __init
#define __read_mostly
#define module_param(name, type, mode)
#define MODULE_LICENSE(text)
#define MODULE_DESCRIPTION(text)
#define EXPORT_SYMBOL_GPL(name)

#define min(a, b)						\
({								\
	__auto_type min_a = (a);				\
	__auto_type min_b = (b);				\
	min_a < min_b ? min_a : min_b;				\
})
#define min_t(type, a, b)	min((type)(a), (type)(b))

#define clamp(value, low, high)					\
({								\
	__auto_type clamp_value = (value);			\
	__auto_type clamp_low = (low);				\
	__auto_type clamp_high = (high);			\
	clamp_value < clamp_low ? clamp_low :			\
	clamp_value > clamp_high ? clamp_high : clamp_value;	\
})

#define do_div(n, base)						\
({								\
	u32 base_ = (base);					\
	u32 rest_ = (u64)(n) % base_;				\
	(n) = (u64)(n) / base_;					\
	rest_;							\
})

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

/* The kernel's way is another one, with the same result. */
static inline u32 int_sqrt64(u64 value)
{
	u64 low = 0, high = U32_MAX;

	while (low < high) {
		u64 middle = (low + high + 1) / 2;

		if (middle * middle <= value)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static inline s64 ktime_to_us(ktime_t time)
{
	return time / NSEC_PER_USEC;
}

static inline s64 ktime_to_ns(ktime_t time)
{
	return time;
}

/* Each thread is a CPU of its own. */
#define DEFINE_PER_CPU(type, name)	__thread type name
#define DEFINE_PER_CPU_ALIGNED(type, name)	\
	__thread type name __attribute__((__aligned__(64)))
#define this_cpu_ptr(pointer)		(pointer)
#define per_cpu_ptr(pointer, cpu)	((void)(cpu), (pointer))
#define per_cpu(variable, cpu)		(*((void)(cpu), &(variable)))

/* Older governors look at the load, which this world does not have. */
static inline unsigned int nr_iowait_cpu(int cpu)
{
	(void)cpu;
	return 0;
}

/* Of the idle task; the caller counts its switches. */
struct task_struct {
	unsigned long nvcsw;
	unsigned long nivcsw;
};

extern __thread struct task_struct shim_idle_task;
#define current		(&shim_idle_task)

/* The period of the tick is a variable here, so that any can be tested. */
extern __thread long shim_tick_nsec;
#define TICK_NSEC	shim_tick_nsec

u64 local_clock(void);
static const bool tick_nohz_enabled = true;

/* Condition for haltpoll to register. */
static inline bool kvm_para_available(void)
{
	return true;
}

#define trace_guest_halt_poll_ns_grow(now, before)
#define trace_guest_halt_poll_ns_shrink(now, before)

bool tick_nohz_tick_stopped(void);
bool tick_nohz_idle_got_tick(void);
ktime_t tick_nohz_get_sleep_length(ktime_t *delta_next);

#define CPUIDLE_STATE_MAX	10
#define CPUIDLE_NAME_LEN	16
#define CPUIDLE_FLAG_POLLING	BIT(0)

struct cpuidle_state_usage {
	unsigned long long disable;
};

struct cpuidle_state {
	s64 exit_latency_ns;
	s64 target_residency_ns;
	unsigned int flags;
};

struct cpuidle_device {
	unsigned int poll_time_limit:1;
	unsigned int cpu;
	int last_state_idx;
	u64 last_residency_ns;
	u64 poll_limit_ns;
	struct cpuidle_state_usage states_usage[CPUIDLE_STATE_MAX];
};

struct cpuidle_driver {
	struct cpuidle_state states[CPUIDLE_STATE_MAX];
	int state_count;
};

struct cpuidle_governor {
	char name[CPUIDLE_NAME_LEN];
	unsigned int rating;
	int (*enable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	void (*disable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	int (*select)(struct cpuidle_driver *drv, struct cpuidle_device *dev,
		      bool *stop_tick);
	void (*reflect)(struct cpuidle_device *dev, int index);
};

int cpuidle_register_governor(struct cpuidle_governor *governor);
s64 cpuidle_governor_latency_req(unsigned int cpu);

/* Governors register themselves when they are loaded. */
#define postcore_initcall(function)				\
__attribute__((constructor)) static void start_##function(void)	\
{								\
	function();						\
}
#define module_init(function)	postcore_initcall(function)
#define module_exit(function)

#endif /* SHIM_KERNEL_H */
