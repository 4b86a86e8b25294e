// SPDX-License-Identifier: GPL-2.0
/*
 * Small schedulers of sched_ext that place tasks by their latency hints.
 *
 * MODE is a sum of the bits below, 0 for none of them. CPUS is the number of
 * CPUs, SEARCH the CPUs that a bounded search looks at.
 *
 * 1. A task is small if it has used less than an eighth of a CPU lately. A task
 *    is not small before that is known.
 * 2. PACK: a small task that does not mind being late goes to the first CPU that
 *    is awake and has fewer than QUEUE tasks waiting; if there is none, to the
 *    first one. PACK_ALL: so do small tasks of any hint, and of none.
 * 3. PREFER_IDLE: a sensitive task goes to an idle CPU, its last one if that is
 *    idle. BOUNDED: the search for it ends after SEARCH CPUs.
 * 4. AWARE: a sensitive task goes to the idle CPU that wakes up soonest.
 * 5. Where 3 and 4 find no CPU, a sensitive task preempts the one on its last CPU.
 * 6. Everything else is left to sched_ext's own rule.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define PACK		1
#define PACK_ALL	2
#define PREFER_IDLE	4
#define BOUNDED		8
#define AWARE		16

#define QUEUE		2
#define SLICE_NS	3000000
#define WHOLE		1024
#define SMALL		(WHOLE / 8)

/* As the kernel has them. */
#define DSQ_GLOBAL	(1ULL << 63 | 1)
#define DSQ_LOCAL	(1ULL << 63 | 2)
#define DSQ_LOCAL_ON	(1ULL << 63 | 1ULL << 62)
#define ENQ_PREEMPT	(1ULL << 32)

/* Answer of cpuidle_lab_latency_limit() that is no limit. */
#define RELAXED		(-2)

/* Only pointers to it are used; libbpf takes no declaration for a kfunc's argument. */
struct cpumask {
	unsigned long bits[1];
};

/* Of the kernel's members those that are used; libbpf finds them by name. */
struct task_struct {
	const struct cpumask *cpus_ptr;
	int nr_cpus_allowed;
	int pid;
} __attribute__((preserve_access_index));

struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *task, __s32 cpu, __u64 flags);
	void (*enqueue)(struct task_struct *task, __u64 flags);
	void (*running)(struct task_struct *task);
	void (*stopping)(struct task_struct *task, bool runnable);
	char name[128];
};

extern __s64 cpuidle_lab_exit_latency(__s32 cpu) __ksym;
extern __s64 cpuidle_lab_latency_limit(__s32 pid) __ksym;

extern __s32 scx_bpf_select_cpu_dfl(struct task_struct *task, __s32 cpu, __u64 flags,
				    bool *is_idle) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *task, __u64 queue, __u64 slice_ns,
			       __u64 flags) __ksym;
extern __s32 scx_bpf_dsq_nr_queued(__u64 queue) __ksym;
extern bool scx_bpf_test_and_clear_cpu_idle(__s32 cpu) __ksym;
extern bool bpf_cpumask_test_cpu(__u32 cpu, const struct cpumask *mask) __ksym;

char _license[] SEC("license") = "GPL";

/**
 * struct use - what a task has used of CPUs
 * @woken_ns: when it was last woken
 * @started_ns: when it last began to run
 * @ran_ns: for how long it has run since it was woken
 * @mean: its part of a CPU, of WHOLE, mean of the last sleeps and runs
 */
struct use {
	__u64 woken_ns;
	__u64 started_ns;
	__u64 ran_ns;
	__u64 mean;
};

/*
 * By number. Storage of tasks would need cmpxchg16b in Linux 7, which the lab's
 * CPUs in virtual time lack.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __s32);
	__type(value, struct use);
} uses SEC(".maps");

static struct use *use_of(struct task_struct *task)
{
	__s32 pid = task->pid;

	return bpf_map_lookup_elem(&uses, &pid);
}

static void begin_use(struct task_struct *task, __u64 now_ns)
{
	struct use use = { .woken_ns = now_ns, .mean = WHOLE };
	__s32 pid = task->pid;

	bpf_map_update_elem(&uses, &pid, &use, BPF_ANY);
}

static bool may_run(struct task_struct *task, __s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, task->cpus_ptr);
}

/* Rule 1, for a task that is being woken. */
static bool is_small(struct task_struct *task)
{
	struct use *use = use_of(task);
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 part;

	if (!use) {
		begin_use(task, now_ns);
		return false;
	}
	part = use->ran_ns * WHOLE / (now_ns - use->woken_ns + 1);
	use->mean = (3 * use->mean + part) / 4;
	use->woken_ns = now_ns;
	use->ran_ns = 0;
	return use->mean < SMALL;
}

/* Rule 2. */
static __s32 find_busy(struct task_struct *task)
{
	__s32 cpu, found = -1, first_idle = -1;

	for (cpu = 0; cpu < CPUS && found < 0; cpu++) {
		if (!may_run(task, cpu))
			continue;
		if (cpuidle_lab_exit_latency(cpu) <= 0) {
			if (scx_bpf_dsq_nr_queued(DSQ_LOCAL_ON | cpu) < QUEUE)
				found = cpu;
		} else if (first_idle < 0) {
			first_idle = cpu;
		}
	}
	if (found < 0)
		found = first_idle;
	if (found >= 0)
		scx_bpf_test_and_clear_cpu_idle(found);
	return found;
}

/* Rule 3. */
static __s32 find_idle(struct task_struct *task, __s32 last, int search)
{
	__s32 i, cpu = last;

	for (i = 0; i < search; i++) {
		if (may_run(task, cpu) && scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
		cpu = cpu + 1 < CPUS ? cpu + 1 : 0;
	}
	return -1;
}

/* Rule 4. A CPU that is awake may be on its way into an idle state. */
static __s32 find_shallow(struct task_struct *task, __s32 last)
{
	__s64 latency, least = 1LL << 62;
	__s32 i, cpu = last, found = -1;

	for (i = 0; i < CPUS; i++) {
		latency = cpuidle_lab_exit_latency(cpu);
		if (may_run(task, cpu) && latency < least) {
			if (latency > 0) {
				least = latency;
				found = cpu;
			} else if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
				return cpu;
			}
		}
		cpu = cpu + 1 < CPUS ? cpu + 1 : 0;
	}
	return found >= 0 && scx_bpf_test_and_clear_cpu_idle(found) ? found : -1;
}

static __s32 find_for_sensitive(struct task_struct *task, __s32 last)
{
	if (MODE & AWARE)
		return find_shallow(task, last);
	return find_idle(task, last, MODE & BOUNDED ? SEARCH : CPUS);
}

static __s32 put(struct task_struct *task, __s32 cpu, __u64 flags)
{
	scx_bpf_dsq_insert(task, DSQ_LOCAL, SLICE_NS, flags);
	return cpu;
}

SEC("struct_ops/select_cpu")
__s32 BPF_PROG(choose, struct task_struct *task, __s32 last, __u64 flags)
{
	__s64 limit = MODE ? cpuidle_lab_latency_limit(task->pid) : 0;
	bool small = MODE & (PACK | PACK_ALL) && is_small(task);
	bool is_idle = false;
	__s32 cpu;

	if (MODE & (PREFER_IDLE | AWARE) && limit >= 0) {
		cpu = find_for_sensitive(task, last);
		return cpu >= 0 ? put(task, cpu, 0) : put(task, last, ENQ_PREEMPT);
	}
	if (small && (MODE & PACK_ALL || limit == RELAXED)) {
		cpu = find_busy(task);
		if (cpu >= 0)
			return put(task, cpu, 0);
	}
	cpu = scx_bpf_select_cpu_dfl(task, last, flags, &is_idle);
	return is_idle ? put(task, cpu, 0) : cpu;
}

/* Tasks that found no CPU, used up their slice, or may run on one CPU only. */
SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *task, __u64 flags)
{
	scx_bpf_dsq_insert(task, task->nr_cpus_allowed == 1 ? DSQ_LOCAL : DSQ_GLOBAL, SLICE_NS,
			   flags);
}

SEC("struct_ops/running")
void BPF_PROG(running, struct task_struct *task)
{
	struct use *use = use_of(task);

	if (use)
		use->started_ns = bpf_ktime_get_ns();
}

SEC("struct_ops/stopping")
void BPF_PROG(stopping, struct task_struct *task, bool runnable)
{
	struct use *use = use_of(task);

	if (use && use->started_ns)
		use->ran_ns += bpf_ktime_get_ns() - use->started_ns;
}

SEC(".struct_ops.link")
struct sched_ext_ops scheduler = {
	.select_cpu = (void *)choose,
	.enqueue = (void *)enqueue,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.name = "cil_hints",
};
