// SPDX-License-Identifier: GPL-2.0
/* Asks for the exit latency of each CPU's idle state and for hints, as a scheduler in BPF would. */
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

extern __s64 cpuidle_lab_exit_latency(__s32 cpu) __ksym;
extern __s64 cpuidle_lab_idle_end(__s32 cpu) __ksym;
extern __s64 cpuidle_lab_latency_limit(__s32 pid) __ksym;

char _license[] SEC("license") = "GPL";

/* The caller runs on CPU 0, so that CPU 1 may be idle. */
SEC("syscall") int own(void *context)
{
	return (int)cpuidle_lab_exit_latency(0);
}

SEC("syscall") int other(void *context)
{
	return (int)cpuidle_lab_exit_latency(1);
}

SEC("syscall") int end_is_known(void *context)
{
	__s64 end = cpuidle_lab_idle_end(1);

	return end > 0 ? 1 : (int)end;
}

SEC("syscall") int nonsense(void *context)
{
	return (int)cpuidle_lab_exit_latency(-1);
}

/* Of the caller. */
SEC("syscall") int limit(void *context)
{
	return (int)cpuidle_lab_latency_limit((__s32)bpf_get_current_pid_tgid());
}
