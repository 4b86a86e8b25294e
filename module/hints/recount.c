// SPDX-License-Identifier: GPL-2.0
/*
 * The hints as people see them, and a recount of all that is counted.
 *
 * The recount stops the machine, so what it compares belongs together: no
 * probe runs, no task migrates, and no hint is being set.
 */
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>

#include "hints/groups.h"
#include "hints/job.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/pool.h"
#include "hints/probes.h"
#include "hints/recount.h"
#include "hints/tasks.h"
#include "hints/users.h"

/* Differences that are shown one by one. */
#define SHOWN_MAX	16

/**
 * struct cil_recount - what a recount found
 * @placed: hints by CPU and level, CIL_LEVELS + 1 for each CPU
 * @users: requests that stand for each level
 * @hints: hints in the table
 * @differences: how often what is counted differs from what is there
 * @shown: used entries of @difference
 * @difference: the first differences
 */
struct cil_recount {
	u32 *placed;
	u32 users[CIL_LEVELS + 1];
	u32 hints;
	u32 differences;
	u32 shown;
	struct {
		const char *what;
		int who;
		int counted;
		int found;
	} difference[SHOWN_MAX];
};

static void recount_compare(struct cil_recount *recount, const char *what, int who,
			    int counted, int found)
{
	if (counted == found)
		return;
	recount->differences++;
	if (recount->shown == SHOWN_MAX)
		return;
	recount->difference[recount->shown].what = what;
	recount->difference[recount->shown].who = who;
	recount->difference[recount->shown].counted = counted;
	recount->difference[recount->shown++].found = found;
}

static void look_at_hint(struct cil_recount *recount, const struct cil_hint *hint)
{
	const struct task_struct *task = hint->task;

	if (!task)
		return;
	recount->hints++;
	recount->users[hint->request.level] += cil_hint_has_request(hint);
	cil_user_found(hint->payer);
	recount->placed[hint->cpu * (CIL_LEVELS + 1) + hint->level]++;
	/* Without these probes it is where it was when they were last attached. */
	if (cil_probes_act())
		recount_compare(recount, "CPU of task", task->pid, hint->cpu,
				task_cpu(task));
	recount_compare(recount, "exit state of task", task->pid, 0, task->exit_state);
	recount_compare(recount, "table entry of task", task->pid, 1,
			cil_hint_find(task) == hint);
}

static void look_at_cpu(struct cil_recount *recount, int n)
{
	const struct cil_hint_cpu *cpu = per_cpu_ptr(cil_hint_cpus, n);
	int level;

	for (level = 0; level <= CIL_LEVELS; level++)
		recount_compare(recount, "tasks placed on CPU", n,
				atomic_read(&cpu->placed[level]),
			recount->placed[n * (CIL_LEVELS + 1) + level]);
}

static void look_at_users(struct cil_recount *recount)
{
	struct cil_user_difference first;
	u32 differ = cil_users_compare(&first);

	if (!differ)
		return;
	recount_compare(recount, "hints of user", first.uid, first.counted, first.found);
	recount->differences += differ - 1;
}

static int recount_stopped(void *data)
{
	struct cil_recount *recount = data;
	int i;

	if (cil_hint_pool)
		for (i = 0; i < CIL_HINTS_MAX; i++)
			look_at_hint(recount, &cil_hint_pool[i]);
	for_each_possible_cpu(i)
		look_at_cpu(recount, i);
	cil_groups_count(recount->users);
	for (i = 0; i <= CIL_LEVELS; i++)
		recount_compare(recount, "users of level", i, cil_level_users(i),
				recount->users[i]);
	look_at_users(recount);
	recount_compare(recount, "hints in use", 0, cil_pool_used(), recount->hints);
	return 0;
}

static void show_recount(struct seq_file *seq, const struct cil_recount *recount)
{
	u32 i;

	if (!recount->differences) {
		seq_printf(seq, "agrees: %u hints\n", recount->hints);
		return;
	}
	seq_printf(seq, "%u differences\n", recount->differences);
	for (i = 0; i < recount->shown; i++)
		seq_printf(seq, "%s %d: counted %d, found %d\n",
			   recount->difference[i].what,
			   recount->difference[i].who,
			   recount->difference[i].counted,
			   recount->difference[i].found);
}

/**
 * cil_recount_show() - count all hints again and compare
 * @seq: where to print
 *
 * Context: process, may sleep. All CPUs stop for as long as it takes.
 * Return: 0 or -ENOMEM.
 */
int cil_recount_show(struct seq_file *seq)
{
	struct cil_recount *recount = kzalloc(sizeof(*recount), GFP_KERNEL);
	int ret = -ENOMEM;

	if (!recount)
		return ret;
	recount->placed = kvcalloc(nr_cpu_ids * (CIL_LEVELS + 1), sizeof(u32),
				   GFP_KERNEL);
	if (recount->placed) {
		cil_job_wait();
		rt_mutex_lock(&cil_hints_lock);
		ret = stop_machine(recount_stopped, recount, NULL);
		rt_mutex_unlock(&cil_hints_lock);
		show_recount(seq, recount);
	}
	kvfree(recount->placed);
	kfree(recount);
	return ret;
}

static void show_limit(struct seq_file *seq, u32 level)
{
	if (level == CIL_LEVEL_NONE)
		seq_puts(seq, "- ");
	else
		seq_printf(seq, "%lld ", cil_level_limit(level) / NSEC_PER_USEC);
}

static void show_request(struct seq_file *seq, const struct cil_request *request)
{
	if (request->kind == CPUIDLE_LATENCY_NONE)
		seq_puts(seq, "group ");
	else if (request->kind == CPUIDLE_LATENCY_VALUE)
		seq_printf(seq, "%d ", request->value);
	else
		seq_printf(seq, "%lldns ", request->limit_ns);
}

static void show_hint(struct seq_file *seq, struct cil_hint *hint)
{
	raw_spin_lock_irq(&hint->lock);
	if (hint->task) {
		seq_printf(seq, "%d ", task_pid_nr(hint->task));
		show_limit(seq, hint->level);
		seq_printf(seq, "%d ", hint->cpu);
		show_request(seq, &hint->request);
		/* A user chooses the name, and shall add no line to the list. */
		seq_escape_str(seq, hint->task->comm, ESCAPE_OCTAL | ESCAPE_NP, NULL);
		seq_putc(seq, '\n');
	}
	raw_spin_unlock_irq(&hint->lock);
}

static void show_placed(struct seq_file *seq, int n)
{
	const struct cil_hint_cpu *cpu = per_cpu_ptr(cil_hint_cpus, n);
	u32 placed = 0;
	int level;

	for (level = 0; level <= CIL_LEVELS; level++)
		placed += atomic_read(&cpu->placed[level]);
	if (placed)
		seq_printf(seq, "# cpu%d: %u placed\n", n, placed);
}

/**
 * cil_hints_show() - list all hints, then how many each CPU counts
 * @seq: where to print
 *
 * Context: process.
 */
void cil_hints_show(struct seq_file *seq)
{
	int i;

	seq_puts(seq, "# pid limit_us cpu asked comm\n");
	rt_mutex_lock(&cil_hints_lock);
	if (cil_hint_pool)
		for (i = 0; i < CIL_HINTS_MAX; i++)
			show_hint(seq, &cil_hint_pool[i]);
	rt_mutex_unlock(&cil_hints_lock);
	for_each_possible_cpu(i)
		show_placed(seq, i);
	if (cil_hints_refused())
		seq_printf(seq, "# times a task found no room for a hint: %u\n",
			   cil_hints_refused());
	seq_printf(seq, "# attachments: %u\n", cil_probes_attachments());
	seq_printf(seq, "# sched_switch attached: %s\n",
		   cil_probes_act() ? "yes" : "no");
	seq_printf(seq, "# tracepoints attached: %s\n",
		   cil_probes_attached() ? "yes" : "no");
}
