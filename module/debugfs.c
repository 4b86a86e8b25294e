// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/cpuidle_lab: tunables, hints, and a look inside.
 *
 * Nothing here is needed for the governors to work. The tunables are module
 * parameters as well, for machines whose lockdown closes debugfs.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/uaccess.h>

#include "base.h"
#include "bpf/program.h"
#include "compat/compat.h"
#include "evacuate/evacuate.h"
#include "debugfs.h"
#include "glue.h"
#include "hints/hints.h"
#include "line.h"
#include "shadow.h"
#include "symbols.h"
#include "trace.h"
#include "tunables.h"

/* The longest line that any of the files accepts. */
#define LINE_MAX	(32 + CIL_POLICY_COUNT * CPUIDLE_NAME_LEN)

/**
 * struct cil_sink - where a policy's dump goes
 * @seq: the file
 */
struct cil_sink {
	struct seq_file *seq;
};

/**
 * struct cil_file - what a file below a governor's folder stands for
 * @governor: whose
 * @n: a tunable's position, or a CPU
 */
struct cil_file {
	struct cil_governor *governor;
	u32 n;
};

static struct dentry *root;
static struct cil_file *files;
static size_t files_used;

void cil_env_print(struct cil_sink *sink, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	seq_vprintf(sink->seq, format, args);
	va_end(args);
}

static int version_show(struct seq_file *seq, void *unused)
{
	seq_puts(seq, CIL_VERSION);
	seq_putc(seq, '\n');
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(version);

static int write_one(const char __user *from, size_t size)
{
	bool yes;
	int ret = kstrtobool_from_user(from, size, &yes);

	return ret ?: yes ? 0 : -EINVAL;
}

static ssize_t checkpoint_write(struct file *f, const char __user *from,
				size_t size, loff_t *pos)
{
	int ret = write_one(from, size);

	if (!ret)
		cil_trace_checkpoint();
	return ret ?: size;
}

static const struct file_operations checkpoint_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = checkpoint_write,
};

static int symbols_show(struct seq_file *seq, void *unused)
{
	cil_symbols_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(symbols);

static int tunable_show(struct seq_file *seq, void *unused)
{
	const struct cil_file *file = seq->private;
	char text[LINE_MAX];

	cil_tunables_print(file->governor, file->n, text, sizeof(text));
	seq_printf(seq, "%s\n", text);
	return 0;
}

static ssize_t tunable_write(struct file *f, const char __user *from, size_t size,
			     loff_t *pos)
{
	const struct cil_file *file = file_inode(f)->i_private;
	char line[LINE_MAX];
	int ret = cil_copy_line(line, sizeof(line), from, size);

	if (!ret)
		ret = cil_tunables_set(file->governor, file->n, line);
	return ret ?: size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(tunable);

static ssize_t defaults_write(struct file *f, const char __user *from, size_t size,
			      loff_t *pos)
{
	const struct cil_file *file = file_inode(f)->i_private;
	int ret = write_one(from, size);

	if (!ret)
		ret = cil_tunables_defaults(file->governor);
	return ret ?: size;
}

static const struct file_operations defaults_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = defaults_write,
};

static ssize_t reset_write(struct file *f, const char __user *from, size_t size,
			   loff_t *pos)
{
	const struct cil_file *file = file_inode(f)->i_private;
	int ret = write_one(from, size);

	if (!ret)
		cil_glue_restart(file->governor, cpu_possible_mask);
	return ret ?: size;
}

static const struct file_operations reset_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = reset_write,
};

/**
 * struct cil_snapshot - a copy of a CPU's state, taken on that CPU
 * @governor: whose state is wanted
 * @state: the copy
 * @machine: the idle states
 * @tunables: the values in force
 * @decisions: made on that CPU so far
 * @live: the governor decides there now
 */
struct cil_snapshot {
	const struct cil_governor *governor;
	void *state;
	struct cil_machine machine;
	u32 tunables[CIL_TUNABLE_MAX];
	u64 decisions;
	bool live;
};

static void take_snapshot(void *data)
{
	struct cil_snapshot *snapshot = data;
	const struct cil_governor *governor = snapshot->governor;
	const struct cil_cpu *cpu = this_cpu_ptr(cil_cpus);
	const struct cil_tunable_set *set;

	/* Pairs with cil_glue_enable(). */
	snapshot->live = smp_load_acquire(&cpu->governor) &&
			 READ_ONCE(cpu->own) == governor &&
			 !READ_ONCE(cpu->restart);
	snapshot->decisions = cpu->record.seq;
	snapshot->machine = cpu->machine;
	memcpy(snapshot->state, this_cpu_ptr(governor->state),
	       governor->policy->state_size);
	set = rcu_dereference_sched(governor->tunables);
	memcpy(snapshot->tunables, set->value, sizeof(set->value));
}

static int state_show(struct seq_file *seq, void *unused)
{
	const struct cil_file *file = seq->private;
	const struct cil_policy *policy = file->governor->policy;
	struct cil_snapshot *snapshot = kzalloc(sizeof(*snapshot), GFP_KERNEL);
	struct cil_sink sink = { .seq = seq };
	int ret = -ENOMEM;

	if (snapshot)
		snapshot->state = kzalloc(policy->state_size, GFP_KERNEL);
	if (!snapshot || !snapshot->state)
		goto out;

	snapshot->governor = file->governor;
	ret = smp_call_function_single(file->n, take_snapshot, snapshot, true);
	if (ret || !snapshot->live) {
		seq_printf(seq, "%s does not decide on this CPU\n", policy->name);
		ret = 0;
		goto out;
	}
	seq_printf(seq, "%s cpu%u decisions=%llu\n", policy->name, file->n,
		   snapshot->decisions);
	if (policy->dump)
		policy->dump(snapshot->state, &snapshot->machine,
			     snapshot->tunables, local_clock(), &sink);
out:
	if (snapshot)
		kfree(snapshot->state);
	kfree(snapshot);
	return ret;
}
DEFINE_SHOW_ATTRIBUTE(state);

static int base_show(struct seq_file *seq, void *unused)
{
	char name[CPUIDLE_NAME_LEN];

	cil_base_print(name, sizeof(name));
	seq_printf(seq, "%s\n", name);
	return 0;
}

static ssize_t base_write(struct file *f, const char __user *from, size_t size,
			  loff_t *pos)
{
	char line[LINE_MAX];
	int ret = cil_copy_line(line, sizeof(line), from, size);

	if (!ret)
		ret = cil_base_set(line);
	return ret ?: size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(base);

static int shadow_show(struct seq_file *seq, void *unused)
{
	cil_shadow_show_list(seq);
	return 0;
}

static ssize_t shadow_write(struct file *f, const char __user *from, size_t size,
			    loff_t *pos)
{
	char line[LINE_MAX];
	int ret = cil_copy_line(line, sizeof(line), from, size);

	if (!ret)
		ret = cil_shadow_set_list(line);
	return ret ?: size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(shadow);

static int shadow_stats_show(struct seq_file *seq, void *unused)
{
	return cil_shadow_show_stats(seq);
}
DEFINE_SHOW_ATTRIBUTE(shadow_stats);

static struct cil_file *file_of(struct cil_governor *governor, u32 n)
{
	struct cil_file *file = &files[files_used++];

	file->governor = governor;
	file->n = n;
	return file;
}

static void make_policy_folder(struct cil_governor *governor)
{
	const struct cil_policy *policy = governor->policy;
	struct dentry *folder = debugfs_create_dir(policy->name, root);
	struct dentry *states = debugfs_create_dir("state", folder);
	char name[16];
	u32 n;

	for (n = 0; n < policy->tunable_count; n++)
		debugfs_create_file(policy->tunables[n].name, 0600, folder,
				    file_of(governor, n), &tunable_fops);
	/* A program brings its own defaults, and only when it is attached. */
	if (!cil_bpf_decides(governor))
		debugfs_create_file("defaults", 0200, folder,
				    file_of(governor, 0), &defaults_fops);
	debugfs_create_file("reset", 0200, folder, file_of(governor, 0),
			    &reset_fops);
	for_each_possible_cpu(n) {
		snprintf(name, sizeof(name), "cpu%u", n);
		debugfs_create_file(name, 0400, states, file_of(governor, n),
				    &state_fops);
	}
}

static void make_gate_folder(void)
{
	struct dentry *folder = debugfs_create_dir("gate", root);
	u32 n;

	for (n = 0; n < GATE_TUNABLE_COUNT; n++)
		debugfs_create_file(gate_tunables[n].name, 0600, folder,
				    file_of(&cil_gate, n), &tunable_fops);
	debugfs_create_file("defaults", 0200, folder, file_of(&cil_gate, 0),
			    &defaults_fops);
	debugfs_create_file("base", 0600, folder, NULL, &base_fops);
	debugfs_create_file("reset", 0200, folder, file_of(&cil_gate, 0),
			    &reset_fops);
	cil_hints_make_files(folder);
}

static size_t files_needed(void)
{
	/* Defaults and reset of each policy and the gate; the gate's tunables. */
	size_t n = 2 * (CIL_POLICY_COUNT + 1) + GATE_TUNABLE_COUNT;
	int i;

	for (i = 0; i < CIL_POLICY_COUNT; i++)
		n += cil_governors[i].policy->tunable_count + num_possible_cpus();
	return n;
}

/**
 * cil_debugfs_init() - create the files, or say that there are none
 *
 * Context: process, may sleep. The governors work without it.
 */
void cil_debugfs_init(void)
{
	int i;

	files = kcalloc(files_needed(), sizeof(*files), GFP_KERNEL);
	root = files ? debugfs_create_dir("cpuidle_lab", NULL) : NULL;
	if (IS_ERR_OR_NULL(root)) {
		pr_info("no debugfs: tunables are in /sys/module/%s/parameters\n",
			KBUILD_MODNAME);
		root = NULL;
		return;
	}

	debugfs_create_file("version", 0400, root, NULL, &version_fops);
	debugfs_create_file("symbols", 0400, root, NULL, &symbols_fops);
	debugfs_create_file("checkpoint", 0200, root, NULL, &checkpoint_fops);
	debugfs_create_file("shadow", 0600, root, NULL, &shadow_fops);
	debugfs_create_file("shadow_stats", 0400, root, NULL,
			    &shadow_stats_fops);
	for (i = 0; i < CIL_POLICY_COUNT; i++)
		make_policy_folder(&cil_governors[i]);
	make_gate_folder();
	cil_evacuate_make_files(root);
}

/**
 * cil_debugfs_exit() - remove the files and wait for their users
 *
 * Context: process, may sleep.
 */
void cil_debugfs_exit(void)
{
	debugfs_remove_recursive(root);
	kfree(files);
	root = NULL;
	files = NULL;
	files_used = 0;
}
