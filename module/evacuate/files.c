// SPDX-License-Identifier: GPL-2.0
/*
 * The files of evacuation in debugfs, and the same values as parameters of the
 * module, for machines whose lockdown closes debugfs.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat/compat.h"
#include "evacuate/files.h"
#include "evacuate/holder.h"
#include "evacuate/values.h"
#include "evacuate/wishes.h"
#include "line.h"

/* The longest list of CPUs that is read, with the name of a lease's value. */
#define TEXT_MAX	(CIL_EVAC_TEXT + 32)

static int evac_value_show(struct seq_file *seq, void *unused)
{
	char text[32];

	cil_evac_print((u32)(unsigned long)seq->private, text, sizeof(text));
	seq_printf(seq, "%s\n", text);
	return 0;
}

static ssize_t evac_value_write(struct file *f, const char __user *from,
				size_t size, loff_t *pos)
{
	char line[32];
	int ret = cil_copy_line(line, sizeof(line), from, size);

	if (!ret)
		ret = cil_wishes_set_value((u32)(unsigned long)file_inode(f)->i_private,
					   line);
	return ret ?: size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(evac_value);

static ssize_t evac_defaults_write(struct file *f, const char __user *from,
				   size_t size, loff_t *pos)
{
	bool yes;
	int ret = kstrtobool_from_user(from, size, &yes);

	if (ret || !yes)
		return ret ?: -EINVAL;
	cil_wishes_defaults();
	return size;
}

static const struct file_operations evac_defaults_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = evac_defaults_write,
};

static int show_text(struct seq_file *seq, int (*print)(char *, size_t))
{
	char *text = kmalloc(TEXT_MAX, GFP_KERNEL);

	if (!text)
		return -ENOMEM;
	print(text, TEXT_MAX);
	seq_printf(seq, "%s\n", text);
	kfree(text);
	return 0;
}

static int evac_cpus_show(struct seq_file *seq, void *unused)
{
	return show_text(seq, cil_wishes_print_cpus);
}

/* A line of which the caller frees the memory, or an error. */
static char *copy_text(const char __user *from, size_t size)
{
	char *text = kmalloc(TEXT_MAX, GFP_KERNEL);
	int ret = -ENOMEM;

	if (text)
		ret = cil_copy_line(text, TEXT_MAX, from, size);
	if (!ret)
		return text;
	kfree(text);
	return ERR_PTR(ret);
}

static ssize_t evac_cpus_write(struct file *f, const char __user *from,
			       size_t size, loff_t *pos)
{
	char *text = copy_text(from, size);
	int ret;

	if (IS_ERR(text))
		return PTR_ERR(text);
	ret = cil_wishes_set_cpus(text);
	kfree(text);
	return ret ?: size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(evac_cpus);

static int evacuated_show(struct seq_file *seq, void *unused)
{
	return show_text(seq, cil_wishes_print_evacuated);
}
DEFINE_SHOW_ATTRIBUTE(evacuated);

static int evac_stats_show(struct seq_file *seq, void *unused)
{
	cil_holders_show(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(evac_stats);

static int lease_open(struct inode *inode, struct file *f)
{
	f->private_data = cil_lease_new();
	return f->private_data ? 0 : -ENOMEM;
}

static ssize_t lease_write(struct file *f, const char __user *from, size_t size,
			   loff_t *pos)
{
	char *text = copy_text(from, size);
	int ret;

	if (IS_ERR(text))
		return PTR_ERR(text);
	ret = cil_lease_set(f->private_data, text);
	kfree(text);
	return ret ?: size;
}

static int lease_release(struct inode *inode, struct file *f)
{
	cil_lease_end(f->private_data);
	return 0;
}

static const struct file_operations lease_fops = {
	.owner = THIS_MODULE,
	.open = lease_open,
	.write = lease_write,
	.release = lease_release,
};

/**
 * cil_evac_files_make() - make the files
 * @root: the module's folder
 *
 * Context: process, may sleep.
 */
void cil_evac_files_make(struct dentry *root)
{
	struct dentry *folder = debugfs_create_dir("evacuate", root);
	unsigned long n;

	for (n = 0; n < EVACUATE_TUNABLE_COUNT; n++)
		debugfs_create_file(evacuate_tunables[n].name, 0600, folder,
				    (void *)n, &evac_value_fops);
	debugfs_create_file("defaults", 0200, folder, NULL, &evac_defaults_fops);
	debugfs_create_file("evacuate_cpus", 0600, folder, NULL, &evac_cpus_fops);
	debugfs_create_file("evacuated_cpus", 0400, folder, NULL, &evacuated_fops);
	debugfs_create_file("lease", 0200, folder, NULL, &lease_fops);
	debugfs_create_file("stats", 0400, folder, NULL, &evac_stats_fops);
}

static int value_param_set(const char *val, const struct kernel_param *kp)
{
	char line[32];

	if (strscpy(line, val, sizeof(line)) < 0)
		return -EINVAL;
	return cil_wishes_set_value((u32)(unsigned long)kp->arg, strim(line));
}

static int value_param_get(char *buffer, const struct kernel_param *kp)
{
	int used = cil_evac_print((u32)(unsigned long)kp->arg, buffer, PAGE_SIZE - 1);

	buffer[used++] = '\n';
	return used;
}

static const struct kernel_param_ops value_param_ops = {
	.set = value_param_set,
	.get = value_param_get,
};

static int cpus_param_set(const char *val, const struct kernel_param *kp)
{
	char *text = kstrdup(val, GFP_KERNEL);
	int ret = text ? cil_wishes_set_cpus(strim(text)) : -ENOMEM;

	kfree(text);
	return ret;
}

static int cpus_param_get(char *buffer, const struct kernel_param *kp)
{
	int used = cil_wishes_print_cpus(buffer, PAGE_SIZE - 1);

	buffer[used++] = '\n';
	return used;
}

static const struct kernel_param_ops cpus_param_ops = {
	.set = cpus_param_set,
	.get = cpus_param_get,
};

/* In the order of evacuate_tunables[]. */
module_param_cb(max_capacity_pct, &value_param_ops, (void *)0UL, 0600);
MODULE_PARM_DESC(max_capacity_pct, "Share of the online CPUs that stays in use, in percent (100)");
module_param_cb(evacuate_order, &value_param_ops, (void *)1UL, 0600);
MODULE_PARM_DESC(evacuate_order, "CPUs that go first: performance-first (default), efficient-first");
module_param_cb(evacuate_latency_us, &value_param_ops, (void *)2UL, 0600);
MODULE_PARM_DESC(evacuate_latency_us, "Greatest exit latency of an evacuated CPU (1000000)");
module_param_cb(evacuate_slice_us, &value_param_ops, (void *)3UL, 0600);
MODULE_PARM_DESC(evacuate_slice_us, "Longest time between two looks at waiting work (10000)");
module_param_cb(evacuate_share_pct, &value_param_ops, (void *)4UL, 0600);
MODULE_PARM_DESC(evacuate_share_pct, "Part of the time for waiting work, in percent (20)");
module_param_cb(evacuate_backoff_ms, &value_param_ops, (void *)5UL, 0600);
MODULE_PARM_DESC(evacuate_backoff_ms, "First release of a CPU on which pinned work waits (100)");
module_param_cb(evacuate_cpus, &cpus_param_ops, NULL, 0600);
MODULE_PARM_DESC(evacuate_cpus, "CPUs to evacuate, as 4-7,9");
