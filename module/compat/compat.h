/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows about differences between kernels. Everything
 * else reads as if it were written for the newest one.
 */
#ifndef CIL_COMPAT_H
#define CIL_COMPAT_H

#include <linux/align.h>
#include <linux/hrtimer.h>
#include <linux/version.h>
#include <uapi/linux/pidfd.h>

#ifndef CONFIG_X86_64
#error "cpuidle-lab has been tried on x86-64 only"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "cpuidle-lab needs Linux 6.1 or newer"
#endif

/*
 * With IBT the address of a kprobe on a function lies behind its ENDBR. 6.2
 * began to say how functions are aligned; before, there is no IBT to care for.
 */
#ifdef CONFIG_FUNCTION_ALIGNMENT
#define cil_function_of(address) \
	ALIGN_DOWN((unsigned long)(address), CONFIG_FUNCTION_ALIGNMENT)
#else
#define cil_function_of(address)	((unsigned long)(address))
#endif

/* 6.10 took the source out of __assign_str(): __string() remembers it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define cil_assign_str(dst, src)	__assign_str(dst)
#else
#define cil_assign_str(dst, src)	__assign_str(dst, src)
#endif

/* 6.16 gave sched_process_exit a second argument. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define CIL_EXIT_PROBE_ARGS	struct task_struct *task, bool group_dead
#else
#define CIL_EXIT_PROBE_ARGS	struct task_struct *task
#endif

/* 6.13 sets up a timer and its function in one call. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define cil_hrtimer_setup	hrtimer_setup
#else
static inline void cil_hrtimer_setup(struct hrtimer *timer,
				     enum hrtimer_restart (*function)(struct hrtimer *),
				     clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* 6.9 brought pidfds of single threads; before, nobody sets this flag. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD	O_EXCL
#endif

/* 6.7 brought the writable sibling of DEFINE_SHOW_ATTRIBUTE(). */
#ifndef DEFINE_SHOW_STORE_ATTRIBUTE
#define DEFINE_SHOW_STORE_ATTRIBUTE(__name)				\
static int __name ## _open(struct inode *inode, struct file *file)	\
{									\
	return single_open(file, __name ## _show, inode->i_private);	\
}									\
static const struct file_operations __name ## _fops = {			\
	.owner		= THIS_MODULE,					\
	.open		= __name ## _open,				\
	.read		= seq_read,					\
	.write		= __name ## _write,				\
	.llseek		= seq_lseek,					\
	.release	= single_release,				\
}
#endif

#endif /* CIL_COMPAT_H */
