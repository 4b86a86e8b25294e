// SPDX-License-Identifier: GPL-2.0
/*
 * The questions of programs in BPF. A governor may ask for the next timer. Any
 * scheduler may ask for the idle state of a CPU, and for the hint of a task.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>

#include "bpf/kfuncs.h"
#include "hints/hints.h"
#include "state.h"
#include "symbols.h"

DEFINE_PER_CPU(struct cil_query *, cil_bpf_asking);
DEFINE_PER_CPU(bool, cil_bpf_governs);

/* Is the CPU in an idle state that one of our governors chose? */
static const struct cil_cpu *idle_cpu_of(s32 n)
{
	const struct cil_cpu *cpu;

	/* Replay could not answer. Schedulers share the type of program. */
	if (this_cpu_read(cil_bpf_governs))
		return ERR_PTR(-EPERM);
	if (n < 0 || n >= nr_cpu_ids || !cpu_online(n))
		return ERR_PTR(-EINVAL);
	cpu = per_cpu_ptr(cil_cpus, n);
	if (!READ_ONCE(cpu->governor))
		return ERR_PTR(-ENODEV);
	/* The kernel reflects no entry that it aborted because of a task. */
	if (!static_call(cil_idle_cpu)(n))
		return NULL;
	return READ_ONCE(cpu->decided) && !READ_ONCE(cpu->reflected) ? cpu : NULL;
}

__bpf_kfunc_start_defs();

/**
 * cil_bpf_sleep_length() - time to the next timer event if the tick is stopped
 *
 * Context: a governor's select; anything else is told 0.
 * Return: the sleep length in ns.
 */
__bpf_kfunc s64 cil_bpf_sleep_length(void)
{
	struct cil_query *query = this_cpu_read(cil_bpf_asking);

	return query ? cil_sleep_length(query) : 0;
}

/**
 * cil_bpf_delta_tick() - time to the next timer event, the tick included
 *
 * Context: a governor's select; anything else is told 0.
 * Return: the time in ns.
 */
__bpf_kfunc s64 cil_bpf_delta_tick(void)
{
	struct cil_query *query = this_cpu_read(cil_bpf_asking);

	if (!query)
		return 0;
	cil_sleep_length(query);
	return query->delta_tick_ns;
}

/**
 * cpuidle_lab_exit_latency() - how long a CPU will take to wake up
 * @cpu: number of the CPU
 *
 * The answer is of the past: the CPU may wake up meanwhile.
 *
 * Context: any.
 * Return: exit latency in ns of the idle state that a governor of this module
 * chose and the CPU is in, or
 * * 0 - it is not idle
 * * -EINVAL - no such CPU is online
 * * -ENODEV - another governor decides there
 * * -EPERM - a governor asks
 */
__bpf_kfunc s64 cpuidle_lab_exit_latency(s32 cpu)
{
	const struct cil_cpu *idle = idle_cpu_of(cpu);
	u8 index;

	if (IS_ERR_OR_NULL(idle))
		return PTR_ERR_OR_ZERO(idle);
	index = READ_ONCE(idle->record.decision.index);
	return idle->machine.states[index % CIL_STATE_MAX].exit_latency_ns;
}

/**
 * cpuidle_lab_idle_end() - when a CPU will wake up if only timers wake it
 * @cpu: number of the CPU
 *
 * Context: any.
 * Return: monotonic time in ns; S64_MAX: without a timer; 0: it is not idle, or
 * its governor did not ask; -EINVAL, -ENODEV, -EPERM: as cpuidle_lab_exit_latency().
 */
__bpf_kfunc s64 cpuidle_lab_idle_end(s32 cpu)
{
	const struct cil_cpu *idle = idle_cpu_of(cpu);
	s64 sleep_length_ns, ago_ns;

	if (IS_ERR_OR_NULL(idle))
		return PTR_ERR_OR_ZERO(idle);
	if (!READ_ONCE(idle->record.query.asked))
		return 0;
	sleep_length_ns = READ_ONCE(idle->record.query.sleep_length_ns);
	if (sleep_length_ns >= CIL_TIME_MAX / 2)
		return S64_MAX;
	/* Decisions have the local clock's time. */
	ago_ns = local_clock() - READ_ONCE(idle->record.query.now_ns);
	return ktime_get_mono_fast_ns() - ago_ns + sleep_length_ns;
}

/**
 * cpuidle_lab_latency_limit() - how late a task may be woken, by its hint
 * @pid: number of the task, in the initial namespace
 *
 * Its group's value counts as the gate last saw it. While the gate is current on
 * no CPU, a task without a hint of its own has none here, whatever its group says.
 * A move between groups is not seen then.
 * The verifier would take no pointer to the task: the module's BTF may have a
 * struct task_struct of its own.
 *
 * Context: any.
 * Return: greatest exit latency in ns, or
 * * CIL_HINT_NONE (-1) - there is no such task, it has no hint that says
 *   anything, or a governor asks
 * * CIL_HINT_RELAXED (-2) - it does not mind being late
 */
__bpf_kfunc s64 cpuidle_lab_latency_limit(s32 pid)
{
	const struct task_struct *task;
	s64 limit_ns;

	if (this_cpu_read(cil_bpf_governs))
		return CIL_HINT_NONE;
	rcu_read_lock();
	task = pid_task(find_pid_ns(pid, &init_pid_ns), PIDTYPE_PID);
	limit_ns = task ? cil_hints_limit_of(task) : CIL_HINT_NONE;
	rcu_read_unlock();
	return limit_ns;
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(governor_kfuncs)
BTF_ID_FLAGS(func, cil_bpf_sleep_length)
BTF_ID_FLAGS(func, cil_bpf_delta_tick)
BTF_ID_FLAGS(func, cpuidle_lab_exit_latency)
BTF_ID_FLAGS(func, cpuidle_lab_idle_end)
BTF_ID_FLAGS(func, cpuidle_lab_latency_limit)
BTF_KFUNCS_END(governor_kfuncs)

BTF_KFUNCS_START(query_kfuncs)
BTF_ID_FLAGS(func, cpuidle_lab_exit_latency)
BTF_ID_FLAGS(func, cpuidle_lab_idle_end)
BTF_ID_FLAGS(func, cpuidle_lab_latency_limit)
BTF_KFUNCS_END(query_kfuncs)

/* The same, as the verifier finds them. */
static const void *const governor_addrs[] = {
	cil_bpf_sleep_length,
	cil_bpf_delta_tick,
	cpuidle_lab_exit_latency,
	cpuidle_lab_idle_end,
	cpuidle_lab_latency_limit,
};

static const struct btf_kfunc_id_set governor_set = {
	.owner = THIS_MODULE,
	.set = &governor_kfuncs,
};

static const struct btf_kfunc_id_set query_set = {
	.owner = THIS_MODULE,
	.set = &query_kfuncs,
};

/**
 * cil_bpf_has_kfunc() - is a function one of the kfuncs for governors?
 * @addr: of the function
 *
 * Context: any.
 */
bool cil_bpf_has_kfunc(const void *addr)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(governor_addrs); i++)
		if (addr == governor_addrs[i])
			return true;
	return false;
}

/**
 * cil_bpf_kfuncs_register() - let programs in BPF call the kfuncs
 *
 * Context: process, may sleep; once. There is no way back but the module's end.
 * Return: 0 or the error of the BPF core.
 */
int cil_bpf_kfuncs_register(void)
{
	return register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &governor_set) ?:
	       register_btf_kfunc_id_set(BPF_PROG_TYPE_SYSCALL, &query_set) ?:
	       register_btf_kfunc_id_set(BPF_PROG_TYPE_TRACING, &query_set);
}
