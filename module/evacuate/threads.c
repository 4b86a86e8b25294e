// SPDX-License-Identifier: GPL-2.0
/*
 * Threads of the kernel that a holder meets on its CPU.
 *
 * That of idle_inject runs while powerclamp or another user injects idle time.
 *
 * A CPU must not go idle while softirqs are pending. But what an interrupt leaves
 * of them, and all of them with PREEMPT_RT, waits for ksoftirqd, a normal task.
 * With PREEMPT_RT ktimers (6.13) runs timers, and rcuc what RCU has to do, both at
 * the priority of a holder. So these get a priority just above that while the CPU
 * is held.
 */
#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include <uapi/linux/sched/types.h>

#include "evacuate/threads.h"

/* Above sched_set_fifo_low(), below the priorities that sched_set_fifo() gives. */
#define LIFTED_PRIORITY		2

/* Only a thread that the kernel made is bound to its CPU for good. */
static bool is_thread_of(const struct task_struct *task, const char *prefix,
			 unsigned int cpu)
{
	const unsigned int bound = PF_KTHREAD | PF_NO_SETAFFINITY;
	unsigned int flags;

	/* Tasks change their other flags at any time. */
	flags = data_race(task->flags);
	return (flags & bound) == bound &&
	       str_has_prefix(task->comm, prefix) &&
	       cpumask_equal(task->cpus_ptr, cpumask_of(cpu));
}

static struct task_struct *find_bound(const char *prefix, unsigned int cpu)
{
	struct task_struct *task, *found = NULL;

	rcu_read_lock();
	for_each_process(task) {
		if (!is_thread_of(task, prefix, cpu))
			continue;
		found = get_task_struct(task);
		break;
	}
	rcu_read_unlock();
	return found;
}

static int set_priority(struct task_struct *task, u32 policy, u32 priority,
			s32 nice)
{
	const struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = policy,
		.sched_priority = priority,
		.sched_nice = nice,
	};

	return sched_setattr_nocheck(task, &attr);
}

/* Returns false if the thread exists and stays below a holder. */
static bool raise_one(struct cil_lifted *thread)
{
	struct task_struct *task = thread->task;

	if (!task || task->rt_priority >= LIFTED_PRIORITY)
		return true;
	thread->policy = task->policy;
	thread->priority = task->rt_priority;
	thread->nice = task_nice(task);
	thread->changed = !set_priority(task, SCHED_FIFO, LIFTED_PRIORITY, 0);
	return thread->changed;
}

/* A priority that the administrator has set meanwhile stays. */
static void lower_one(struct cil_lifted *thread)
{
	struct task_struct *task = thread->task;

	if (thread->changed && task->policy == SCHED_FIFO &&
	    task->rt_priority == LIFTED_PRIORITY)
		set_priority(task, thread->policy, thread->priority,
			     thread->nice);
	thread->changed = false;
}

static void put_one(struct task_struct **task)
{
	if (*task)
		put_task_struct(*task);
	*task = NULL;
}

/**
 * cil_threads_raise() - let the kernel's threads precede the holder
 * @threads: of cil_threads_get()
 *
 * Context: the holder, before it holds; may sleep.
 * Return: false if the holder would keep softirqs waiting; then nothing changes.
 */
bool cil_threads_raise(struct cil_threads *threads)
{
	if (raise_one(&threads->softirqd) && raise_one(&threads->timerd) &&
	    raise_one(&threads->rcud))
		return true;
	cil_threads_lower(threads);
	return false;
}

/**
 * cil_threads_lower() - give the kernel's threads the priorities that they had
 * @threads: of cil_threads_get()
 *
 * Context: the holder, before it rests; may sleep.
 */
void cil_threads_lower(struct cil_threads *threads)
{
	lower_one(&threads->rcud);
	lower_one(&threads->timerd);
	lower_one(&threads->softirqd);
}

/**
 * cil_threads_get() - prepare the kernel's threads of a CPU for its holder
 * @threads: filled in
 * @cpu: the CPU
 *
 * Context: the holder, before its first slice; may sleep.
 * Return: as cil_threads_raise().
 */
bool cil_threads_get(struct cil_threads *threads, unsigned int cpu)
{
	*threads = (struct cil_threads) {
		.softirqd.task = find_bound("ksoftirqd/", cpu),
		.timerd.task = find_bound("ktimers/", cpu),
		.rcud.task = find_bound("rcuc/", cpu),
		.injector = find_bound("idle_inject/", cpu),
	};
	if (cil_threads_raise(threads))
		return true;
	cil_threads_put(threads);
	return false;
}

/**
 * cil_threads_put() - give the kernel's threads of a CPU back as they were
 * @threads: of cil_threads_get(); nothing happens if they were put already
 *
 * Context: the holder, after its last slice; may sleep.
 */
void cil_threads_put(struct cil_threads *threads)
{
	cil_threads_lower(threads);
	put_one(&threads->rcud.task);
	put_one(&threads->timerd.task);
	put_one(&threads->softirqd.task);
	put_one(&threads->injector);
}

/**
 * cil_threads_injections() - how often idle time was injected on the CPU
 * @threads: of the CPU
 *
 * The kernel does not tell a module of the users of idle_inject. But its thread
 * sleeps after each injection, and is not woken for anything else.
 *
 * Context: the holder.
 * Return: a number that grows with each injection; it may wrap around.
 */
unsigned long cil_threads_injections(const struct cil_threads *threads)
{
	return threads->injector ? READ_ONCE(threads->injector->nvcsw) : 0;
}
