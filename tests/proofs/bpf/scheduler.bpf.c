// SPDX-License-Identifier: GPL-2.0
/* A scheduler of sched_ext that asks how long the CPU of each task takes to wake up. */
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct task_struct;

extern __s64 cpuidle_lab_exit_latency(__s32 cpu) __ksym;
extern __s64 cpuidle_lab_idle_end(__s32 cpu) __ksym;

/* Of the kernel's members those that are used; libbpf finds them by name. */
struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *task, __s32 cpu, __u64 flags);
	char name[128];
};

char _license[] SEC("license") = "GPL";

__u32 said;

SEC("struct_ops/select_cpu")
__s32 BPF_PROG(choose, struct task_struct *task, __s32 cpu, __u64 flags)
{
	__s64 latency = cpuidle_lab_exit_latency(cpu);

	if (latency > 0 && said < 100) {
		said++;
		bpf_printk("scheduler: exit_latency=%lld end_is_known=%d", latency,
			   cpuidle_lab_idle_end(cpu) > 0);
	}
	return cpu;
}

SEC(".struct_ops.link")
struct sched_ext_ops scheduler = {
	.select_cpu = (void *)choose,
	.name = "cil_query",
};
