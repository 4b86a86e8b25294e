// SPDX-License-Identifier: GPL-2.0
/*
 * The hints' files in debugfs, for a look inside and for the tests: what is
 * written there is not checked for rights.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>

#include "compat/compat.h"
#include "hints/hints.h"
#include "hints/levels.h"
#include "hints/recount.h"
#include "hints/request.h"
#include "line.h"

/* The longest line that the file of hints accepts. */
#define HINT_LINE_MAX	64

static int hints_show(struct seq_file *seq, void *unused)
{
	cil_hints_show(seq);
	return 0;
}

static struct task_struct *find_thread(pid_t nr)
{
	struct pid *pid = find_get_pid(nr);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);

	put_pid(pid);
	return task;
}

static int change_hint(const struct cil_target *target,
		       const struct cil_request *request)
{
	struct cil_request before;
	int ret = 0;

	if (request->kind == CPUIDLE_LATENCY_NONE) {
		ret = cil_request_get(target, &before);
		if (!ret && before.kind == CPUIDLE_LATENCY_NONE)
			ret = -ENOENT;
	}
	return ret ?: cil_request_set(target, request);
}

/* "PID LIMIT_US" sets a hint, "PID -" removes it. */
static int parse_hint(char *line)
{
	struct cil_request request = { .kind = CPUIDLE_LATENCY_LIMIT };
	struct cil_target target = { .trusted = true };
	char *limit = strim(line);
	char *pid = strsep(&limit, " ");
	u32 limit_us;
	int ret;
	int nr;

	if (!limit || kstrtoint(pid, 10, &nr) || nr <= 0)
		return -EINVAL;
	limit = skip_spaces(limit);
	if (!strcmp(limit, "-"))
		request.kind = CPUIDLE_LATENCY_NONE;
	else if (!kstrtou32(limit, 10, &limit_us))
		request.limit_ns = (s64)limit_us * NSEC_PER_USEC;
	else
		return -EINVAL;
	target.task = find_thread(nr);
	if (!target.task)
		return -ESRCH;
	ret = change_hint(&target, &request);
	put_task_struct(target.task);
	return ret;
}

static ssize_t hints_write(struct file *f, const char __user *from, size_t size,
			   loff_t *pos)
{
	char line[HINT_LINE_MAX];
	int ret = cil_copy_line(line, sizeof(line), from, size);

	if (!ret)
		ret = parse_hint(line);
	return ret ?: size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(hints);

static int latency_map_show(struct seq_file *seq, void *unused)
{
	char map[CIL_MAP_TEXT];

	cil_hints_print_map(map, sizeof(map));
	seq_printf(seq, "%s\n", map);
	return 0;
}

static ssize_t latency_map_write(struct file *f, const char __user *from,
				 size_t size, loff_t *pos)
{
	char line[CIL_MAP_TEXT];
	int ret = cil_copy_line(line, sizeof(line), from, size);

	if (!ret)
		ret = cil_hints_set_map(line);
	return ret ?: size;
}
DEFINE_SHOW_STORE_ATTRIBUTE(latency_map);

static int recount_show(struct seq_file *seq, void *unused)
{
	return cil_recount_show(seq);
}
DEFINE_SHOW_ATTRIBUTE(recount);

/**
 * cil_hints_make_files() - the hints' files in debugfs
 * @folder: where
 *
 * Context: process, may sleep; after cil_hints_open().
 */
void cil_hints_make_files(struct dentry *folder)
{
	debugfs_create_file("latency_map", 0600, folder, NULL, &latency_map_fops);
	debugfs_create_file("recount", 0400, folder, NULL, &recount_fops);
	debugfs_create_file("hints", 0600, folder, NULL, &hints_fops);
}
