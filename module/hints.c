// SPDX-License-Identifier: GPL-2.0
/*
 * Latency hints of tasks, and on which CPU each hinted task is placed.
 *
 * A task is placed where it runs or waits to run or, asleep, where it last
 * ran. Three tracepoints of the scheduler tell all changes: sched_wakeup_new
 * (a child appears; it inherits), sched_migrate_task (it goes elsewhere) and
 * sched_process_exit (it is gone). They are attached only while there are
 * hints. Their handlers may run with run-queue locks held, so they take
 * nothing from the allocator and wake nobody.
 *
 * Every CPU counts the hinted tasks placed on it by level. A level is one of
 * up to 64 distinct limits in use, so that a decision looks at one word
 * however many tasks there are.
 *
 * Lock order: bucket, then pool or CPU.
 */
#include <linux/hash.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>

#include "compat/compat.h"
#include "hints.h"
#include "trace.h"

#define BUCKET_BITS	10
#define HINTS_MAX	16384

/**
 * struct cil_hint - the hint of one task
 * @node: in its bucket, or in the pool
 * @task: the task; the hint goes before the task does
 * @cpu: where the task is counted
 * @level: index of its limit
 * @moved: a migration was seen since the hint was set
 */
struct cil_hint {
	struct hlist_node node;
	struct task_struct *task;
	int cpu;
	u8 level;
	bool moved;
};

/**
 * struct cil_hint_level - one limit in use
 * @limit_ns: the limit
 * @users: number of hints that have it, 0 if the level is free
 */
struct cil_hint_level {
	s64 limit_ns;
	u32 users;
};

struct cil_hint_cpu __percpu *cil_hint_cpus;

static struct hint_bucket {
	raw_spinlock_t lock;
	struct hlist_head hints;
} buckets[1 << BUCKET_BITS];

/* Free hints and the limits in use. */
static DEFINE_RAW_SPINLOCK(pool_lock);
static struct hlist_head pool;
static struct cil_hint *pool_memory;
static struct cil_hint_level levels[CIL_HINT_LEVELS];
static u32 hint_count;

/* Children that found no room for what they should have inherited. */
static atomic_t not_inherited;

/* Serialises whoever attaches and detaches the probes. */
static DEFINE_MUTEX(attach_lock);
static bool attached;

/**
 * cil_hints_smallest() - the smallest limit of a set of levels
 * @set: bit k stands for level k, not 0
 *
 * Context: any.
 * Return: the limit in ns.
 */
s64 cil_hints_smallest(u64 set)
{
	s64 smallest = S64_MAX;

	for (; set; set &= set - 1)
		smallest = min(smallest, READ_ONCE(levels[__ffs64(set)].limit_ns));
	return smallest;
}

static void count_in(int n, u8 level)
{
	struct cil_hint_cpu *cpu = per_cpu_ptr(cil_hint_cpus, n);
	unsigned long flags;

	raw_spin_lock_irqsave(&cpu->lock, flags);
	if (!cpu->count[level]++)
		WRITE_ONCE(cpu->levels, cpu->levels | BIT_ULL(level));
	raw_spin_unlock_irqrestore(&cpu->lock, flags);
}

static void count_out(int n, u8 level)
{
	struct cil_hint_cpu *cpu = per_cpu_ptr(cil_hint_cpus, n);
	unsigned long flags;

	raw_spin_lock_irqsave(&cpu->lock, flags);
	if (!--cpu->count[level])
		WRITE_ONCE(cpu->levels, cpu->levels & ~BIT_ULL(level));
	raw_spin_unlock_irqrestore(&cpu->lock, flags);
}

/* The level of a limit, a free one if it is new, -ENOSPC without a free one. */
static int find_level(s64 limit_ns)
{
	int found = -ENOSPC;
	int i;

	for (i = 0; i < CIL_HINT_LEVELS; i++) {
		if (levels[i].users && levels[i].limit_ns == limit_ns)
			return i;
		if (!levels[i].users && found < 0)
			found = i;
	}
	return found;
}

static int get_level(s64 limit_ns)
{
	unsigned long flags;
	int level;

	raw_spin_lock_irqsave(&pool_lock, flags);
	level = find_level(limit_ns);
	if (level >= 0 && !levels[level].users++)
		WRITE_ONCE(levels[level].limit_ns, limit_ns);
	raw_spin_unlock_irqrestore(&pool_lock, flags);
	return level;
}

static void put_level(u8 level)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&pool_lock, flags);
	levels[level].users--;
	raw_spin_unlock_irqrestore(&pool_lock, flags);
}

static struct cil_hint *take_hint(void)
{
	struct cil_hint *hint = NULL;
	unsigned long flags;

	raw_spin_lock_irqsave(&pool_lock, flags);
	if (!hlist_empty(&pool)) {
		hint = hlist_entry(pool.first, struct cil_hint, node);
		hlist_del(&hint->node);
		WRITE_ONCE(hint_count, hint_count + 1);
	}
	raw_spin_unlock_irqrestore(&pool_lock, flags);
	return hint;
}

static void give_hint(struct cil_hint *hint)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&pool_lock, flags);
	hlist_add_head(&hint->node, &pool);
	WRITE_ONCE(hint_count, hint_count - 1);
	raw_spin_unlock_irqrestore(&pool_lock, flags);
}

static struct hint_bucket *bucket_of(const struct task_struct *task)
{
	return &buckets[hash_ptr(task, BUCKET_BITS)];
}

static struct cil_hint *find_hint(struct hint_bucket *bucket,
				  const struct task_struct *task)
{
	struct cil_hint *hint;

	lockdep_assert_held(&bucket->lock);
	hlist_for_each_entry(hint, &bucket->hints, node)
		if (hint->task == task)
			return hint;
	return NULL;
}

/* The lock of the hint's bucket is held. */
static void move_hint(struct cil_hint *hint, int cpu)
{
	count_in(cpu, hint->level);
	count_out(hint->cpu, hint->level);
	hint->cpu = cpu;
	trace_hint(hint->task, levels[hint->level].limit_ns, cpu, CIL_HINT_MOVE);
}

/*
 * Give a task a hint, or another limit if it has one. The reference on @level
 * goes to the hint. Returns false, keeping nothing, if the pool is empty.
 */
static bool put_hint(struct task_struct *task, u8 level, u8 what)
{
	struct hint_bucket *bucket = bucket_of(task);
	struct cil_hint *hint;
	unsigned long flags;

	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = find_hint(bucket, task);
	if (hint) {
		count_in(hint->cpu, level);
		count_out(hint->cpu, hint->level);
		put_level(hint->level);
		hint->level = level;
	} else {
		hint = take_hint();
		if (hint) {
			hint->task = task;
			hint->level = level;
			hint->moved = false;
			hint->cpu = task_cpu(task);
			hlist_add_head(&hint->node, &bucket->hints);
			count_in(hint->cpu, level);
		}
	}
	if (hint)
		trace_hint(task, levels[level].limit_ns, hint->cpu, what);
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	if (!hint)
		put_level(level);
	return hint;
}

/* The lock of the hint's bucket is held, so its task is still there. */
static void forget_hint(struct cil_hint *hint, u8 what)
{
	hlist_del(&hint->node);
	count_out(hint->cpu, hint->level);
	trace_hint(hint->task, levels[hint->level].limit_ns, hint->cpu, what);
	put_level(hint->level);
	give_hint(hint);
}

/* Returns false if the task had no hint. */
static bool drop_hint(struct task_struct *task, u8 what)
{
	struct hint_bucket *bucket = bucket_of(task);
	struct cil_hint *hint;
	unsigned long flags;

	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = find_hint(bucket, task);
	if (hint)
		forget_hint(hint, what);
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	return hint;
}

static void drop_all_hints(void)
{
	struct hint_bucket *bucket;
	struct hlist_node *next;
	struct cil_hint *hint;

	for (bucket = buckets; bucket < buckets + ARRAY_SIZE(buckets); bucket++) {
		raw_spin_lock_irq(&bucket->lock);
		hlist_for_each_entry_safe(hint, next, &bucket->hints, node)
			forget_hint(hint, CIL_HINT_REMOVE);
		raw_spin_unlock_irq(&bucket->lock);
	}
}

/* Run-queue or pi lock held; the task still has its old CPU. */
static void probe_migrate(void *data, struct task_struct *task, int cpu)
{
	struct hint_bucket *bucket = bucket_of(task);
	struct cil_hint *hint;
	unsigned long flags;

	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = find_hint(bucket, task);
	if (hint) {
		hint->moved = true;
		if (hint->cpu != cpu)
			move_hint(hint, cpu);
	}
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
}

static s64 limit_of(struct task_struct *task)
{
	struct hint_bucket *bucket = bucket_of(task);
	s64 limit_ns = CIL_HINT_NONE;
	struct cil_hint *hint;
	unsigned long flags;

	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = find_hint(bucket, task);
	if (hint)
		limit_ns = levels[hint->level].limit_ns;
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
	return limit_ns;
}

/* Run-queue lock held. The parent wakes its child. */
static void probe_wakeup_new(void *data, struct task_struct *task)
{
	s64 limit_ns = limit_of(current);
	int level;

	if (limit_ns == CIL_HINT_NONE)
		return;
	level = get_level(limit_ns);
	if (level < 0 || !put_hint(task, level, CIL_HINT_INHERIT))
		atomic_inc(&not_inherited);
}

static void detach_if_unused(struct work_struct *work);
static DECLARE_WORK(detach_work, detach_if_unused);

/* The task exits itself, no lock is held. */
static void probe_exit(void *data, CIL_EXIT_PROBE_ARGS)
{
	if (drop_hint(task, CIL_HINT_EXIT) && !READ_ONCE(hint_count))
		schedule_work(&detach_work);
}

/*
 * In the order of attaching. Inheritance comes last and goes first: whoever
 * has a hint must be seen to exit.
 */
static struct hint_probe {
	const char *name;
	void *probe;
	struct tracepoint *tracepoint;
} probes[] = {
	{ "sched_process_exit", probe_exit },
	{ "sched_migrate_task", probe_migrate },
	{ "sched_wakeup_new", probe_wakeup_new },
};

static void match_tracepoint(struct tracepoint *tracepoint, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tracepoint->name, probes[i].name))
			probes[i].tracepoint = tracepoint;
}

/*
 * A child may inherit in the moment in which its parent loses the hint, and
 * appear when nobody expects a hint any more. So first the inheritance ends,
 * then such children lose the hint like their parent, while their exit would
 * still be seen; then the rest goes.
 */
static void detach_probes(int count)
{
	bool inherited = count == ARRAY_SIZE(probes);

	lockdep_assert_held(&attach_lock);
	while (count--) {
		tracepoint_probe_unregister(probes[count].tracepoint,
					    probes[count].probe, NULL);
		if (!inherited)
			continue;
		tracepoint_synchronize_unregister();
		drop_all_hints();
		inherited = false;
	}
	tracepoint_synchronize_unregister();
	attached = false;
}

static int attach_probes(void)
{
	int ret = 0;
	int i;

	lockdep_assert_held(&attach_lock);
	if (attached)
		return 0;
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		if (probes[i].tracepoint)
			ret = tracepoint_probe_register(probes[i].tracepoint,
							probes[i].probe, NULL);
		else
			ret = -EOPNOTSUPP;
		if (ret) {
			detach_probes(i);
			return ret;
		}
	}
	attached = true;
	return 0;
}

static void detach_if_unused(struct work_struct *work)
{
	mutex_lock(&attach_lock);
	if (attached && !READ_ONCE(hint_count))
		detach_probes(ARRAY_SIZE(probes));
	mutex_unlock(&attach_lock);
}

/* The pool stays until the module goes. */
static int make_pool(void)
{
	int i;

	lockdep_assert_held(&attach_lock);
	if (pool_memory)
		return 0;
	pool_memory = kvcalloc(HINTS_MAX, sizeof(*pool_memory), GFP_KERNEL);
	if (!pool_memory)
		return -ENOMEM;
	for (i = 0; i < HINTS_MAX; i++)
		hlist_add_head(&pool_memory[i].node, &pool);
	return 0;
}

/*
 * The task may have migrated between the moment its CPU was read and the
 * moment the hint could be found by the probe. Such a migration runs with
 * interrupts off and is over after a grace period; one that began later was
 * seen by the probe.
 */
static void settle_hint(struct task_struct *task)
{
	struct hint_bucket *bucket = bucket_of(task);
	struct cil_hint *hint;
	unsigned long flags;

	synchronize_rcu();
	raw_spin_lock_irqsave(&bucket->lock, flags);
	hint = find_hint(bucket, task);
	if (hint && !hint->moved && hint->cpu != task_cpu(task))
		move_hint(hint, task_cpu(task));
	raw_spin_unlock_irqrestore(&bucket->lock, flags);
}

static int set_task(struct task_struct *task, s64 limit_ns)
{
	int level = get_level(limit_ns);

	if (level < 0)
		return level;
	if (!put_hint(task, level, CIL_HINT_SET))
		return -ENOSPC;
	settle_hint(task);
	/* It may have passed its exit tracepoint before the hint was there. */
	if (READ_ONCE(task->flags) & PF_EXITING) {
		drop_hint(task, CIL_HINT_EXIT);
		return -ESRCH;
	}
	return 0;
}

static void nothing(void *unused)
{
}

/*
 * A CPU that is idle decides only when it wakes up; without this the first
 * wake-up after a change would still be served as before it.
 */
static void let_cpu_decide(int cpu)
{
	smp_call_function_single(cpu, nothing, NULL, false);
}

static struct task_struct *get_task(pid_t nr)
{
	struct pid *pid = find_get_pid(nr);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);

	put_pid(pid);
	return task;
}

/**
 * cil_hints_set() - give a task a hint
 * @pid: the task, in the caller's pid namespace
 * @limit_ns: greatest exit latency that it tolerates, 0 or more
 *
 * Context: process, may sleep.
 * Return: 0, -ESRCH (no such task), -ENOSPC (too many hints, or too many
 * distinct limits), -ENOMEM, -EOPNOTSUPP (the kernel lacks a tracepoint).
 */
int cil_hints_set(pid_t pid, s64 limit_ns)
{
	struct task_struct *task = get_task(pid);
	int ret;

	if (!task)
		return -ESRCH;
	mutex_lock(&attach_lock);
	ret = make_pool();
	if (!ret)
		ret = attach_probes();
	if (!ret)
		ret = set_task(task, limit_ns);
	if (!ret)
		let_cpu_decide(task_cpu(task));
	if (attached && !READ_ONCE(hint_count))
		detach_probes(ARRAY_SIZE(probes));
	mutex_unlock(&attach_lock);
	put_task_struct(task);
	return ret;
}

/**
 * cil_hints_remove() - take a task's hint away
 * @pid: the task, in the caller's pid namespace
 *
 * Context: process, may sleep.
 * Return: 0, -ESRCH (no such task), -ENOENT (it has no hint).
 */
int cil_hints_remove(pid_t pid)
{
	struct task_struct *task = get_task(pid);
	int ret;

	if (!task)
		return -ESRCH;
	ret = drop_hint(task, CIL_HINT_REMOVE) ? 0 : -ENOENT;
	if (!ret)
		let_cpu_decide(task_cpu(task));
	put_task_struct(task);
	detach_if_unused(NULL);
	return ret;
}

/**
 * cil_hints_show() - list all hints, then how many each CPU counts
 * @seq: where to print
 *
 * Context: process.
 */
void cil_hints_show(struct seq_file *seq)
{
	struct cil_hint *hint;
	int i;

	seq_puts(seq, "# pid limit_us cpu comm\n");
	for (i = 0; i < ARRAY_SIZE(buckets); i++) {
		raw_spin_lock_irq(&buckets[i].lock);
		hlist_for_each_entry(hint, &buckets[i].hints, node)
			seq_printf(seq, "%d %lld %d %s\n",
				   task_pid_nr(hint->task),
				   levels[hint->level].limit_ns / NSEC_PER_USEC,
				   hint->cpu, hint->task->comm);
		raw_spin_unlock_irq(&buckets[i].lock);
	}

	for_each_possible_cpu(i) {
		const struct cil_hint_cpu *cpu = per_cpu_ptr(cil_hint_cpus, i);
		u32 placed = 0;
		int level;

		for (level = 0; level < CIL_HINT_LEVELS; level++)
			placed += READ_ONCE(cpu->count[level]);
		if (placed)
			seq_printf(seq, "# cpu%d: %u placed\n", i, placed);
	}
	if (atomic_read(&not_inherited))
		seq_printf(seq, "# children without room for a hint: %d\n",
			   atomic_read(&not_inherited));
	seq_printf(seq, "# tracepoints attached: %s\n", attached ? "yes" : "no");
}

/**
 * cil_hints_init() - per-CPU counts; no tracepoint is attached yet
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int cil_hints_init(void)
{
	int i;

	cil_hint_cpus = alloc_percpu(struct cil_hint_cpu);
	if (!cil_hint_cpus)
		return -ENOMEM;
	for_each_possible_cpu(i)
		raw_spin_lock_init(&per_cpu_ptr(cil_hint_cpus, i)->lock);
	for (i = 0; i < ARRAY_SIZE(buckets); i++)
		raw_spin_lock_init(&buckets[i].lock);
	for_each_kernel_tracepoint(match_tracepoint, NULL);
	return 0;
}

/**
 * cil_hints_exit() - drop all hints
 *
 * Context: process, may sleep; the gate is not registered any more and nobody
 * can set a hint.
 */
void cil_hints_exit(void)
{
	mutex_lock(&attach_lock);
	if (attached)
		detach_probes(ARRAY_SIZE(probes));
	mutex_unlock(&attach_lock);
	cancel_work_sync(&detach_work);
	kvfree(pool_memory);
	pool_memory = NULL;
	free_percpu(cil_hint_cpus);
}
