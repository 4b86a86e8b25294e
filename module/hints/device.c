// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/cpuidle_latency: hints for everybody, see docs/hints.md.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>

#include "compat/compat.h"
#include "hints/device.h"
#include "hints/groups.h"
#include "hints/request.h"
#include "symbols.h"

static bool is_valid(const struct cpuidle_latency *arg)
{
	bool none = !arg->value && !arg->limit_ns;

	if (arg->reserved)
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

static struct cil_request request_of(const struct cpuidle_latency *arg)
{
	return (struct cil_request){
		.limit_ns = arg->limit_ns,
		.kind = arg->kind,
		.value = arg->value,
		.level = CIL_LEVEL_NONE,
	};
}

static void tell_request(struct cpuidle_latency *arg,
			 const struct cil_request *request)
{
	arg->kind = request->kind;
	arg->value = request->value;
	arg->limit_ns = request->limit_ns;
	arg->reserved = 0;
}

/* On success the target holds a reference on the task. */
static int find_target(int fd, struct cil_target *target)
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

static int set_task(const struct cpuidle_latency *arg)
{
	const struct cil_request wanted = request_of(arg);
	struct cil_target target;
	int ret = find_target(arg->fd, &target);

	if (ret)
		return ret;
	ret = cil_request_set(&target, &wanted);
	put_task_struct(target.task);
	return ret;
}

static int get_task(struct cpuidle_latency *arg)
{
	struct cil_request found;
	struct cil_target target;
	int ret = find_target(arg->fd, &target);

	if (ret)
		return ret;
	ret = cil_request_get(&target, &found);
	put_task_struct(target.task);
	if (!ret)
		tell_request(arg, &found);
	return ret;
}

static int set_group(const struct cpuidle_latency *arg)
{
	const struct cil_request wanted = request_of(arg);

	return cil_group_set(arg->fd, &wanted);
}

static int get_group(struct cpuidle_latency *arg)
{
	struct cil_request found;
	int ret = cil_group_get(arg->fd, &found);

	if (!ret)
		tell_request(arg, &found);
	return ret;
}

static int set(unsigned int command, const struct cpuidle_latency *arg)
{
	if (!is_valid(arg))
		return -EINVAL;
	return command == CPUIDLE_LATENCY_SET_TASK ? set_task(arg) :
						     set_group(arg);
}

static int get(unsigned int command, struct cpuidle_latency *arg)
{
	return command == CPUIDLE_LATENCY_GET_TASK ? get_task(arg) :
						     get_group(arg);
}

static long device_ioctl(struct file *file, unsigned int command,
			 unsigned long address)
{
	void __user *user = (void __user *)address;
	struct cpuidle_latency arg;
	int ret;

	switch (command) {
	case CPUIDLE_LATENCY_SET_TASK:
	case CPUIDLE_LATENCY_SET_GROUP:
		if (copy_from_user(&arg, user, sizeof(arg)))
			return -EFAULT;
		return set(command, &arg);
	case CPUIDLE_LATENCY_GET_TASK:
	case CPUIDLE_LATENCY_GET_GROUP:
		if (copy_from_user(&arg, user, sizeof(arg)))
			return -EFAULT;
		ret = get(command, &arg);
		if (!ret && copy_to_user(user, &arg, sizeof(arg)))
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

/* Everybody may open it: each request is checked by itself. */
static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "cpuidle_latency",
	.fops = &device_fops,
	.mode = 0666,
};

/**
 * cil_device_init() - make the device
 *
 * Context: process, may sleep; hints can be set from now on.
 * Return: 0 or a negative error.
 */
int cil_device_init(void)
{
	return misc_register(&device);
}

/**
 * cil_device_exit() - remove the device
 *
 * Context: process, may sleep. Whoever has it open holds the module.
 */
void cil_device_exit(void)
{
	misc_deregister(&device);
}
