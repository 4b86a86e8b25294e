// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/cpuidle_latency: hints for every user, see docs/hints.md.
 */
#include <linux/cgroup.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>

#include "compat/compat.h"
#include "hints/hints.h"
#include "hints/request.h"
#include "symbols.h"

#define FLAGS	(CPUIDLE_LATENCY_KEEP | CPUIDLE_LATENCY_RESET_ON_FORK)

static bool is_valid(unsigned int command, const struct cpuidle_latency *arg)
{
	bool none = !arg->value && !arg->limit_ns && !arg->flags;

	if (arg->flags & (command == CPUIDLE_LATENCY_SET_GROUP ? ~0 : ~FLAGS))
		return false;
	switch (arg->kind) {
	case CPUIDLE_LATENCY_NONE:
		return none;
	case CPUIDLE_LATENCY_VALUE:
		return !arg->limit_ns && arg->value >= CPUIDLE_LATENCY_MIN &&
		       arg->value <= CPUIDLE_LATENCY_MAX;
	case CPUIDLE_LATENCY_LIMIT:
		return !arg->value && arg->limit_ns < S64_MAX;
	}
	return false;
}

/* On success the target holds a reference on the task. */
static int find_task(int fd, struct cil_target *target)
{
	unsigned int flags = 0;
	struct pid *pid;

	*target = (struct cil_target){};
	if (fd == CPUIDLE_LATENCY_SELF) {
		target->task = get_task_struct(current);
		return 0;
	}
	pid = static_call(cil_pidfd_get_pid)(fd, &flags);
	if (IS_ERR(pid))
		return PTR_ERR(pid);
	target->process = !(flags & PIDFD_THREAD);
	target->task = get_pid_task(pid, target->process ? PIDTYPE_TGID :
							   PIDTYPE_PID);
	put_pid(pid);
	return target->task ? 0 : -ESRCH;
}

static int find_group(int fd, struct cil_target *target)
{
	struct cgroup *cgroup = cgroup_get_from_fd(fd);

	*target = (struct cil_target){ .cgroup = cgroup, .fd = fd };
	return IS_ERR(cgroup) ? -EBADF : 0;
}

/* The kernel's own release function may be called through a pointer: here only. */
static noinline void drop_cgroup(struct cgroup *cgroup)
{
	cgroup_put(cgroup);
}

static void put_target(const struct cil_target *target)
{
	if (target->cgroup)
		drop_cgroup(target->cgroup);
	else
		put_task_struct(target->task);
}

static bool is_get(unsigned int command)
{
	return _IOC_DIR(command) & _IOC_READ;
}

/* Sets the request of the target, or fills @arg with it. */
static int serve(unsigned int command, struct cpuidle_latency *arg)
{
	bool is_task = command == CPUIDLE_LATENCY_SET_TASK ||
		       command == CPUIDLE_LATENCY_GET_TASK;
	struct cil_request request = {
		.limit_ns = arg->limit_ns,
		.kind = arg->kind,
		.value = arg->value,
		.flags = arg->flags,
		.level = CIL_LEVEL_NONE,
	};
	struct cil_target target;
	int ret;

	if (!is_get(command) && !is_valid(command, arg))
		return -EINVAL;
	ret = is_task ? find_task(arg->fd, &target) : find_group(arg->fd, &target);
	if (ret)
		return ret;
	ret = is_get(command) ? cil_request_get(&target, &request) :
				cil_request_set(&target, &request);
	put_target(&target);
	arg->kind = request.kind;
	arg->value = request.value;
	arg->limit_ns = request.limit_ns;
	arg->flags = request.flags;
	return ret;
}

/* The call's number for the struct as it is known here. */
static unsigned int known_call(unsigned int command)
{
	return _IOC(_IOC_DIR(command), _IOC_TYPE(command), _IOC_NR(command),
		    sizeof(struct cpuidle_latency));
}

/* Returns 0, -EINVAL, -E2BIG or -EFAULT. */
static int copy_in(struct cpuidle_latency *arg, const void __user *user,
		   size_t size)
{
	BUILD_BUG_ON(sizeof(*arg) != CPUIDLE_LATENCY_SIZE_VER0);
	if (size < CPUIDLE_LATENCY_SIZE_VER0)
		return -EINVAL;
	return copy_struct_from_user(arg, sizeof(*arg), user, size);
}

static long device_ioctl(struct file *file, unsigned int command,
			 unsigned long address)
{
	void __user *user = (void __user *)address;
	size_t size = _IOC_SIZE(command);
	struct cpuidle_latency arg;
	int ret;

	command = known_call(command);
	switch (command) {
	case CPUIDLE_LATENCY_SET_TASK:
	case CPUIDLE_LATENCY_SET_GROUP:
	case CPUIDLE_LATENCY_GET_TASK:
	case CPUIDLE_LATENCY_GET_GROUP:
		ret = copy_in(&arg, user, size) ?: serve(command, &arg);
		/* The rest of a longer structure is 0: copy_in() refuses others. */
		if (!ret && is_get(command) && copy_to_user(user, &arg, sizeof(arg)))
			ret = -EFAULT;
		return ret;
	}
	return -ENOTTY;
}

static const struct file_operations device_fops = {
	.owner = THIS_MODULE,
	.open = nonseekable_open,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/* Any user may open it: each request is checked by itself. */
static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "cpuidle_latency",
	.fops = &device_fops,
	.mode = 0666,
};

/**
 * cil_hints_open() - let hints be set: make the device
 *
 * Context: process, may sleep.
 * Return: 0 or a negative error.
 */
int cil_hints_open(void)
{
	return misc_register(&device);
}

/**
 * cil_hints_close() - no hint can be set any more: remove the device
 *
 * Context: process, may sleep; files of debugfs are gone. An open file of the
 * device holds the module.
 */
void cil_hints_close(void)
{
	misc_deregister(&device);
}
