/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device's calls, for the programs of this folder.
 */
#ifndef HINTS_CALL_H
#define HINTS_CALL_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../module/uapi/cpuidle_latency.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD	O_EXCL
#endif

/* Open the device; the program ends if there is none. */
static inline int open_device(void)
{
	int device = open("/dev/cpuidle_latency", O_RDWR | O_CLOEXEC);

	if (device < 0) {
		perror("/dev/cpuidle_latency");
		exit(2);
	}
	return device;
}

/* Returns a pidfd of a process, or with PIDFD_THREAD of a thread; -1: errno. */
static inline int open_pidfd(int pid, unsigned int flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

/* Ask for a value for a task; returns what ioctl() does. */
static inline int set_value(int device, int fd, int value)
{
	struct cpuidle_latency arg = {
		.fd = fd,
		.kind = CPUIDLE_LATENCY_VALUE,
		.value = value,
	};

	return ioctl(device, CPUIDLE_LATENCY_SET_TASK, &arg);
}

#endif /* HINTS_CALL_H */
