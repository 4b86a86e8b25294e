// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: work that takes time instead of instructions
 *
 * In a virtual machine whose clock counts the instructions of all CPUs, two
 * busy CPUs each run at half speed. So the throughput of several busy CPUs
 * cannot be measured there with programs that compute. This file offers work
 * that costs nothing but time: a task halts its CPU until it has used the time
 * that it asked for. The CPU counts as busy, because it does not enter its idle
 * loop. The scheduler may preempt the task at any interrupt; the time in which
 * other tasks run does not count.
 */
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include "compat.h"
#include "emul.h"

/* The longest piece of work, in us: a second. */
#define WORK_MAX_US	1000000

static enum hrtimer_restart work_is_due(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

/* Halt once, for @left_ns at most; returns the time that it took. */
static u64 halt_for(struct hrtimer *timer, u64 left_ns)
{
	u64 start_ns;

	local_irq_disable();
	if (need_resched()) {
		local_irq_enable();
		return 0;
	}
	start_ns = local_clock();
	hrtimer_start(timer, ns_to_ktime(left_ns), HRTIMER_MODE_REL_PINNED_HARD);
	/* Enables interrupts; RCU watches, as for any task that runs. */
	safe_halt();
	hrtimer_cancel(timer);
	return local_clock() - start_ns;
}

static int do_work(u64 work_ns)
{
	struct hrtimer timer;
	u64 used_ns = 0;

	emul_hrtimer_setup_on_stack(&timer, work_is_due, CLOCK_MONOTONIC,
				    HRTIMER_MODE_REL_PINNED_HARD);
	while (used_ns < work_ns && !signal_pending(current)) {
		preempt_disable();
		used_ns += halt_for(&timer, work_ns - used_ns);
		preempt_enable();
		/* Not cond_resched(), which misses a mark that is not folded. */
		if (need_resched())
			schedule();
	}
	destroy_hrtimer_on_stack(&timer);
	return used_ns < work_ns ? -EINTR : 0;
}

static ssize_t work_write(struct file *file, const char __user *from, size_t size,
			  loff_t *pos)
{
	unsigned int us;
	int ret = kstrtouint_from_user(from, size, 10, &us);

	if (!ret && (!us || us > WORK_MAX_US))
		ret = -EINVAL;
	if (!ret)
		ret = do_work((u64)us * NSEC_PER_USEC);
	return ret ?: size;
}

static const struct file_operations work_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = work_write,
};

/**
 * emul_work_register - offer work in debugfs
 * @folder: where
 */
void emul_work_register(struct dentry *folder)
{
	debugfs_create_file("work", 0200, folder, NULL, &work_fops);
}
