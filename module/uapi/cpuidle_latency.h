/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/cpuidle_latency: latency hints of tasks and control groups.
 */
#ifndef _UAPI_CPUIDLE_LATENCY_H
#define _UAPI_CPUIDLE_LATENCY_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define CPUIDLE_LATENCY_MIN		(-20)
#define CPUIDLE_LATENCY_MAX		19

/* Target: the calling thread, without a file descriptor. */
#define CPUIDLE_LATENCY_SELF		(-1)

/*
 * Flags of a hint that is set. A hint without KEEP goes when its task's user id
 * (real or effective) or user namespace changes. KEEP needs CAP_SYS_NICE in the
 * initial namespace, and the hint counts for the caller.
 */
#define CPUIDLE_LATENCY_KEEP		0x1	/* whatever user it becomes */
#define CPUIDLE_LATENCY_RESET_ON_FORK	0x2	/* children do not inherit it */

/**
 * enum cpuidle_latency_kind - what a hint says
 * @CPUIDLE_LATENCY_NONE: nothing; setting it removes the hint
 * @CPUIDLE_LATENCY_VALUE: @value, -20 (most sensitive) to 19, by the table
 * @CPUIDLE_LATENCY_LIMIT: @limit_ns, the greatest exit latency tolerated
 */
enum cpuidle_latency_kind {
	CPUIDLE_LATENCY_NONE,
	CPUIDLE_LATENCY_VALUE,
	CPUIDLE_LATENCY_LIMIT,
};

/**
 * struct cpuidle_latency - a hint and whose it is
 * @fd: a pidfd, the directory of a cgroup (v2), or CPUIDLE_LATENCY_SELF. A
 *	pidfd of a process means all its present threads, one opened with
 *	PIDFD_THREAD that thread
 * @kind: enum cpuidle_latency_kind
 * @value: for CPUIDLE_LATENCY_VALUE, else 0
 * @flags: CPUIDLE_LATENCY_*; 0 without a hint, and of a group
 * @limit_ns: for CPUIDLE_LATENCY_LIMIT, else 0
 */
struct cpuidle_latency {
	__s32 fd;
	__u32 kind;
	__s32 value;
	__u32 flags;
	__u64 limit_ns;
};

/* Size of the first version of the struct. */
#define CPUIDLE_LATENCY_SIZE_VER0	24

/*
 * A later version may have a longer struct. Its size is part of a call's number
 * (_IOC_SIZE()), so programs and modules of different versions fit, as with
 * clone3(). Members that the program does not know are 0. Members that the
 * module does not know must be 0, or the call fails with E2BIG.
 *
 * Errors of all, beside E2BIG, EFAULT, EINTR and ENOTTY:
 * - EINVAL: an unknown kind, a value or limit out of range
 * - EINVAL: a member that is not 0 where it must be, a struct below the first
 *   version's size
 * - EBADF: not a pidfd, not the directory of a cgroup
 * - ESRCH: the task has exited
 *
 * Errors of setting, beside ENOMEM:
 * - EPERM: another user's task, or a group's directory that may not be written
 * - EROFS: the mount of that directory is read-only
 * - EACCES: more sensitive than before, or to be kept, without CAP_SYS_NICE
 * - EDQUOT: the owner of the task has too many hints
 * - ENOSPC: too many hints in the system, or too many distinct limits
 * - EOPNOTSUPP: this kernel lacks a part that is needed
 *
 * Getting: a task or group without a hint gives CPUIDLE_LATENCY_NONE, no error.
 */
#define CPUIDLE_LATENCY_SET_TASK	_IOW(0xc1, 0x01, struct cpuidle_latency)
#define CPUIDLE_LATENCY_GET_TASK	_IOWR(0xc1, 0x02, struct cpuidle_latency)
#define CPUIDLE_LATENCY_SET_GROUP	_IOW(0xc1, 0x03, struct cpuidle_latency)
#define CPUIDLE_LATENCY_GET_GROUP	_IOWR(0xc1, 0x04, struct cpuidle_latency)

#endif /* _UAPI_CPUIDLE_LATENCY_H */
