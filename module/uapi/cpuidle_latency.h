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
 * @reserved: 0
 * @limit_ns: for CPUIDLE_LATENCY_LIMIT, else 0
 */
struct cpuidle_latency {
	__s32 fd;
	__u32 kind;
	__s32 value;
	__u32 reserved;
	__u64 limit_ns;
};

/*
 * Errors of all: EINVAL (an unknown kind, a value or limit out of range, a
 * member that is not 0 where it must be), EFAULT, EBADF (not a pidfd, not the
 * directory of a cgroup), ESRCH (the task has exited), EINTR, ENOTTY.
 * Setting: EPERM (the task is somebody else's, or the group's directory may not
 * be written), EROFS (the mount of the group's directory is read-only), EACCES (more sensitive than before, without CAP_SYS_NICE),
 * EDQUOT (the owner of the task has too many hints), ENOSPC (too many hints in
 * the system, or too many distinct limits), ENOMEM, EOPNOTSUPP (this kernel
 * lacks what is needed).
 * Getting: a task or group without a hint gives CPUIDLE_LATENCY_NONE, no error.
 */
#define CPUIDLE_LATENCY_SET_TASK	_IOW(0xc1, 0x01, struct cpuidle_latency)
#define CPUIDLE_LATENCY_GET_TASK	_IOWR(0xc1, 0x02, struct cpuidle_latency)
#define CPUIDLE_LATENCY_SET_GROUP	_IOW(0xc1, 0x03, struct cpuidle_latency)
#define CPUIDLE_LATENCY_GET_GROUP	_IOWR(0xc1, 0x04, struct cpuidle_latency)

#endif /* _UAPI_CPUIDLE_LATENCY_H */
