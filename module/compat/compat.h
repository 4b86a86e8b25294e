/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows about differences between kernels. Everything
 * else reads as if it were written for the newest one.
 */
#ifndef CIL_COMPAT_H
#define CIL_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/version.h>
#include <uapi/linux/pidfd.h>

#if !defined(CONFIG_X86_64) && !defined(CONFIG_ARM64) && \
	!(defined(CONFIG_PPC64) && defined(CONFIG_CPU_LITTLE_ENDIAN))
#error "cpuidle-lab has been tried on x86-64, arm64 and ppc64le only"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "cpuidle-lab needs Linux 6.1 or newer"
#endif

#ifndef CONFIG_CPU_IDLE
#error "cpuidle-lab needs a kernel with CONFIG_CPU_IDLE"
#endif

#ifndef CONFIG_NO_HZ_COMMON
#error "cpuidle-lab needs a kernel with CONFIG_NO_HZ_COMMON"
#endif

#ifndef CONFIG_KALLSYMS_ALL
#error "cpuidle-lab needs a kernel with CONFIG_KALLSYMS_ALL"
#endif

#ifndef CONFIG_KPROBES
#error "cpuidle-lab needs a kernel with CONFIG_KPROBES"
#endif

#ifndef CONFIG_TRACEPOINTS
#error "cpuidle-lab needs a kernel with CONFIG_TRACEPOINTS"
#endif

#if CIL_HINTS && !defined(CONFIG_CGROUPS)
#error "latency hints need a kernel with CONFIG_CGROUPS; CIL_HINTS=0 leaves them out"
#endif

#if CIL_HINTS && !defined(CONFIG_RT_MUTEXES)
#error "latency hints need a kernel with CONFIG_RT_MUTEXES; CIL_HINTS=0 leaves them out"
#endif

/*
 * The address of a kprobe on a function may lie behind its start. There may be
 * the ENDBR that IBT wants, or on ppc64le the entry for callers with the same
 * TOC. The kernel's name for the address says by how much.
 */
static inline unsigned long cil_function_of(const void *address)
{
	char text[KSYM_SYMBOL_LEN];
	unsigned long offset = 0;
	const char *plus;

	sprint_symbol(text, (unsigned long)address);
	plus = strchr(text, '+');
	if (!plus || sscanf(plus, "+%lx/", &offset) != 1)
		return (unsigned long)address;
	return (unsigned long)address - offset;
}

/* 6.4 brought the function. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
struct bpf_prog;

int bpf_get_kfunc_addr(const struct bpf_prog *prog, u32 func_id, u16 btf_fd_idx,
		       u8 **func_addr);
#endif

/* 6.10 took the source out of __assign_str(): __string() remembers it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define cil_assign_str(dst, src)	__assign_str(dst)
#else
#define cil_assign_str(dst, src)	__assign_str(dst, src)
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

/* 6.9 brought pidfds of single threads; before, no pidfd has this flag. */
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
