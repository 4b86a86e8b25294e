// SPDX-License-Identifier: GPL-2.0
/*
 * The threads that hold CPUs in forced idle, one for each CPU.
 *
 * play_idle_precise() wants a thread of the kernel that is bound to one CPU and
 * has a FIFO priority. The lowest one is enough: it keeps normal tasks off the
 * CPU, and every other real-time task preempts it. The kernel's smpboot makes
 * such threads, and parks each of them before its CPU goes offline.
 *
 * A holder decides at the end of each slice. So a CPU that is not wanted any
 * more, is about to go offline, or has work to do is back within a slice.
 */
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/seq_file.h>
#include <linux/smpboot.h>

#include "compat/compat.h"
#include "evacuate/events.h"
#include "evacuate/holder.h"
#include "evacuate/threads.h"
#include "evacuate/values.h"
#include "hints/hints.h"
#include "symbols.h"

/* So long after the end of a slice a mark to reschedule is folded. */
#define FOLD_NS		200000

/*
 * The kernel asks no governor while a CPU is held. So a governor of ours gets
 * one decision so often, to see which idle states are disabled by now.
 */
#define LOOK_NS		NSEC_PER_SEC
#define LOOK_REST_NS	(100 * NSEC_PER_USEC)

/**
 * struct cil_holder - what one CPU's thread remembers
 * @hold: of its decisions
 * @fold: timer at the end of a slice
 * @threads: the kernel's threads of the CPU while it is evacuated
 * @ready: @threads is filled in
 * @injections: of @threads at the last look
 * @rested_ns: when the CPU last had time to go idle by itself
 * @slice_ns: length of the last slice, 0 if none came before this decision
 * @lost_ns: time in that slice in which the thread waited for other tasks
 * @limit_ns: latency limit of that slice
 * @length_ns: time that the slice was to take
 * @held_ns: time in slices so far
 * @slices: number of slices so far
 * @reasons: number of rests and releases so far, by reason
 *
 * Written by the thread alone; others read the counts.
 */
struct cil_holder {
	struct evacuate_hold hold;
	struct hrtimer fold;
	struct cil_threads threads;
	bool ready;
	unsigned long injections;
	u64 rested_ns;
	u64 slice_ns;
	u64 lost_ns;
	u64 limit_ns;
	u64 length_ns;
	u64 held_ns;
	u64 slices;
	u64 reasons[EVACUATE_REASON_COUNT];
};

static const char *const reason_names[EVACUATE_REASON_COUNT] = {
	[EVACUATE_REASON_NONE] = "none",
	[EVACUATE_REASON_WORK] = "work",
	[EVACUATE_REASON_PINNED] = "pinned",
	[EVACUATE_REASON_REALTIME] = "realtime",
	[EVACUATE_REASON_LATENCY] = "latency",
	[EVACUATE_REASON_SOFTIRQ] = "softirq",
	[EVACUATE_REASON_THROTTLE] = "throttle",
	[EVACUATE_REASON_INJECTION] = "injection",
};

static DEFINE_PER_CPU(struct task_struct *, holder_task);
static DEFINE_PER_CPU(struct cil_holder, holders);

/* CPUs that holders shall hold; bits are read without a lock. */
static struct cpumask wanted;

/**
 * cil_holder_is_wanted() - shall a CPU be held?
 * @cpu: the CPU
 *
 * Context: any.
 * Return: true if it shall.
 */
bool cil_holder_is_wanted(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &wanted);
}

/* May the task run on a CPU that is left? Its mask may change meanwhile. */
static bool can_leave(const struct task_struct *task)
{
	unsigned int cpu;

	for_each_cpu_and(cpu, READ_ONCE(task->cpus_ptr), cpu_online_mask)
		if (!cil_holder_is_wanted(cpu))
			return true;
	return false;
}

/* A task that waits here and can run nowhere else; its name for the trace. */
static pid_t find_pinned(char comm[TASK_COMM_LEN])
{
	const unsigned int here = raw_smp_processor_id();
	struct task_struct *process, *task;
	pid_t pid = 0;

	rcu_read_lock();
	for_each_process_thread(process, task) {
		if (task == current || !READ_ONCE(task->on_rq) ||
		    task_cpu(task) != here || can_leave(task))
			continue;
		pid = task->pid;
		memcpy(comm, task->comm, TASK_COMM_LEN);
		comm[TASK_COMM_LEN - 1] = '\0';
		goto out;
	}
out:
	rcu_read_unlock();
	return pid;
}

/* Never 0, which would mean that the governor decides. */
static u64 latency_limit_ns(const struct evacuate_tunables *tunables)
{
	s64 limit_ns = (s64)tunables->latency_us * NSEC_PER_USEC;
	s64 hint_ns = CIL_HINT_NONE;
	unsigned long flags;

	local_irq_save(flags);
	limit_ns = min(limit_ns,
		       static_call(cil_latency_req)(smp_processor_id()));
	if (READ_ONCE(this_cpu_ptr(cil_cpus)->governor) == &cil_gate)
		hint_ns = cil_hints_limit(local_clock());
	local_irq_restore(flags);
	if (hint_ns >= 0)
		limit_ns = min(limit_ns, hint_ns);
	return max(limit_ns, 1);
}

/*
 * A state that polls saves nothing. The idle states are known where a governor
 * of ours is enabled. Elsewhere the kernel takes the deepest that is allowed, or
 * its first one, as its own governors do.
 */
static bool is_too_strict(u64 limit_ns)
{
	const struct cil_cpu *cpu = per_cpu_ptr(cil_cpus, raw_smp_processor_id());

	return limit_ns < READ_ONCE(cpu->halt_latency_ns);
}

static void holder_look(struct cil_holder *holder, struct evacuate_seen *seen)
{
	unsigned long injections = cil_threads_injections(&holder->threads);

	preempt_disable();
	seen->waiting = !single_task_running();
	seen->softirq = local_softirq_pending();
	preempt_enable();
	seen->held_ns = holder->slice_ns;
	seen->lost_ns = holder->lost_ns;
	seen->throttled = cil_kernel.throttles_realtime;
	seen->injected = injections != holder->injections;
	holder->injections = injections;
	holder->slice_ns = 0;
	holder->lost_ns = 0;
	if (seen->held_ns)
		trace_cil_forced_idle(holder->limit_ns, holder->length_ns, seen);
}

static u64 waited_ns(void)
{
#ifdef CONFIG_SCHED_INFO
	return current->sched_info.run_delay;
#else
	return 0;
#endif
}

/*
 * The timer of play_idle_precise() marks the current task for rescheduling. That
 * may be a task that has preempted the holder. The mark is not folded into that
 * task's preemption count then, so cond_resched() would not see it.
 */
static enum hrtimer_restart fold_mark(struct hrtimer *timer)
{
	preempt_fold_need_resched();
	return HRTIMER_NORESTART;
}

static void holder_hold(struct cil_holder *holder, u64 length_ns)
{
	u64 lost_ns = waited_ns();
	u64 start_ns = local_clock();

	hrtimer_start(&holder->fold, ns_to_ktime(length_ns + FOLD_NS),
		      HRTIMER_MODE_REL_PINNED_HARD);
	play_idle_precise(length_ns, holder->limit_ns);
	hrtimer_cancel(&holder->fold);
	holder->slice_ns = local_clock() - start_ns;
	holder->lost_ns = waited_ns() - lost_ns;
	holder->length_ns = length_ns;
	WRITE_ONCE(holder->held_ns, holder->held_ns + holder->slice_ns);
	WRITE_ONCE(holder->slices, holder->slices + 1);
}

static void rest_for(struct cil_holder *holder, u64 length_ns)
{
	ktime_t length = ns_to_ktime(length_ns);

	set_current_state(TASK_INTERRUPTIBLE);
	if (!kthread_should_park() && !kthread_should_stop() &&
	    cil_holder_is_wanted(raw_smp_processor_id()))
		schedule_hrtimeout(&length, HRTIMER_MODE_REL);
	__set_current_state(TASK_RUNNING);
	holder->rested_ns = local_clock();
}

/* Between two slices, so that a release is never in the middle of one. */
static void holder_release(struct cil_holder *holder)
{
	if (holder->ready)
		cil_threads_put(&holder->threads);
	holder->ready = false;
}

/*
 * Where the kernel limits the time of real-time tasks, the threads would use up
 * the time that the holder leaves. Under a flood of interrupts they always run.
 */
static void holder_rest(struct cil_holder *holder, u64 length_ns)
{
	bool lowers = cil_kernel.throttles_realtime;

	if (lowers)
		cil_threads_lower(&holder->threads);
	rest_for(holder, length_ns);
	if (lowers && !cil_threads_raise(&holder->threads))
		holder_release(holder);
}

/* One decision, and what it leads to. */
static void holder_decide(struct cil_holder *holder)
{
	char comm[TASK_COMM_LEN] = "";
	struct evacuate_tunables tunables;
	struct evacuate_seen seen = { };
	struct evacuate_step step;
	pid_t pid = 0;

	if (local_clock() - holder->rested_ns > LOOK_NS)
		rest_for(holder, LOOK_REST_NS);
	cil_evac_tunables(&tunables);
	holder_look(holder, &seen);
	holder->limit_ns = latency_limit_ns(&tunables);
	seen.too_strict = is_too_strict(holder->limit_ns);
	if (evacuate_wants_look(&holder->hold, &seen)) {
		pid = find_pinned(comm);
		seen.pinned = pid;
	}
	step = evacuate_next(&holder->hold, &tunables, &seen);
	if (step.action == EVACUATE_HOLD) {
		holder_hold(holder, step.length_ns);
		return;
	}
	WRITE_ONCE(holder->reasons[step.reason], holder->reasons[step.reason] + 1);
	trace_cil_evacuate_back_off(&step, pid, comm);
	holder_rest(holder, step.length_ns);
}

/* Observations of an earlier hold of the CPU are stale. */
static void holder_forget(struct cil_holder *holder)
{
	holder->hold = (struct evacuate_hold) {
		.unparked = holder->hold.unparked,
	};
	holder->slice_ns = 0;
	holder->lost_ns = 0;
}

static void holder_step(unsigned int cpu)
{
	struct cil_holder *holder = per_cpu_ptr(&holders, cpu);

	if (!cil_holder_is_wanted(cpu)) {
		holder_release(holder);
		return;
	}
	if (!holder->ready) {
		holder_forget(holder);
		holder->ready = cil_threads_get(&holder->threads, cpu);
		holder->injections = cil_threads_injections(&holder->threads);
	}
	if (holder->ready)
		holder_decide(holder);
	else
		rest_for(holder, NSEC_PER_SEC);
}

static int holder_should_run(unsigned int cpu)
{
	return cil_holder_is_wanted(cpu) || per_cpu(holders, cpu).ready;
}

static void holder_setup(unsigned int cpu)
{
	sched_set_fifo_low(current);
	cil_hrtimer_setup(&per_cpu_ptr(&holders, cpu)->fold, fold_mark,
			  CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
}

/* The thread for idle injection runs once when its CPU comes online. */
static void holder_unpark(unsigned int cpu)
{
	per_cpu_ptr(&holders, cpu)->hold.unparked = false;
}

static void holder_park(unsigned int cpu)
{
	holder_release(per_cpu_ptr(&holders, cpu));
}

static void holder_cleanup(unsigned int cpu, bool online)
{
	holder_release(per_cpu_ptr(&holders, cpu));
}

static struct smp_hotplug_thread holder_threads = {
	.store = &holder_task,
	.thread_should_run = holder_should_run,
	.thread_fn = holder_step,
	.thread_comm = "cil_evacuate/%u",
	.setup = holder_setup,
	.park = holder_park,
	.unpark = holder_unpark,
	.cleanup = holder_cleanup,
};

/**
 * cil_holders_start() - make the threads
 *
 * Context: process, may sleep; CPU hotplug is not locked.
 * Return: 0 or -ENOMEM.
 */
int cil_holders_start(void)
{
	return smpboot_register_percpu_thread(&holder_threads);
}

/**
 * cil_holders_stop() - release all CPUs and end the threads
 *
 * Context: process, may sleep; after cil_holders_start(). CPU hotplug is not
 * locked, and no call of cil_holders_set() comes any more.
 */
void cil_holders_stop(void)
{
	cpumask_clear(&wanted);
	smpboot_unregister_percpu_thread(&holder_threads);
}

/**
 * cil_holders_set() - set the CPUs that shall be held
 * @cpus: online CPUs
 *
 * Context: process; callers serialise, and CPU hotplug is locked.
 */
void cil_holders_set(const struct cpumask *cpus)
{
	unsigned int cpu;

	/* Bit by bit, because holders read the mask meanwhile. */
	for_each_possible_cpu(cpu) {
		if (cpumask_test_cpu(cpu, cpus) == cil_holder_is_wanted(cpu))
			continue;
		assign_bit(cpu, cpumask_bits(&wanted), cpumask_test_cpu(cpu, cpus));
		wake_up_process(per_cpu(holder_task, cpu));
	}
}

/**
 * cil_holders_show() - print what the holders did so far, a line for each CPU
 * @seq: where to print
 *
 * Context: process.
 */
void cil_holders_show(struct seq_file *seq)
{
	const struct cil_holder *holder;
	unsigned int cpu;
	int reason;

	for_each_online_cpu(cpu) {
		holder = per_cpu_ptr(&holders, cpu);
		seq_printf(seq, "cpu%u: wanted=%d slices=%llu held_ns=%llu", cpu,
			   cil_holder_is_wanted(cpu), READ_ONCE(holder->slices),
			   READ_ONCE(holder->held_ns));
		for (reason = 1; reason < EVACUATE_REASON_COUNT; reason++)
			seq_printf(seq, " %s=%llu", reason_names[reason],
				   READ_ONCE(holder->reasons[reason]));
		seq_putc(seq, '\n');
	}
}
