// SPDX-License-Identifier: GPL-2.0
/*
 * Latency hints as the rest of the module sees them: start, end, and two
 * questions on the way to an idle state.
 */
#include <linux/cpuhotplug.h>

#include "hints/device.h"
#include "hints/files.h"
#include "hints/groups.h"
#include "hints/hints.h"
#include "hints/job.h"
#include "hints/levels.h"
#include "hints/lock.h"
#include "hints/placement.h"
#include "hints/probes.h"
#include "hints/request.h"
#include "hints/table.h"
#include "hints/tasks.h"
#include "hints/users.h"
#include "tunables.h"

static enum cpuhp_state hints_hotplug;

/**
 * cil_hints_limit() - the limit on this CPU by the tasks placed here
 * @now_ns: local_clock()
 *
 * Context: interrupts off.
 * Return: greatest exit latency allowed in ns, CIL_HINT_NONE or
 * CIL_HINT_RELAXED.
 */
s64 cil_hints_limit(u64 now_ns)
{
	return cil_placement_limit(now_ns);
}

/**
 * cil_hints_limit_of() - see cil_hint_limit_of()
 * @task: the task; it cannot be freed
 *
 * Context: any, within an RCU read section.
 * Return: greatest exit latency in ns, CIL_HINT_NONE or CIL_HINT_RELAXED.
 */
s64 cil_hints_limit_of(const struct task_struct *task)
{
	return cil_hint_limit_of(task);
}

/**
 * cil_hints_look_again() - see to it that the CPU decides again in time
 * @record: the decision just made, in which a hint kept the CPU from a deeper
 *	state
 *
 * Context: idle task, interrupts off; the decision has been traced.
 */
void cil_hints_look_again(const struct cil_record *record)
{
	cil_placement_look_again(record);
}

/**
 * cil_hints_set_map() - see cil_request_set_map()
 * @text: the table
 *
 * Context: process, may sleep; also before cil_hints_init().
 * Return: 0, -EINVAL or -ENOMEM.
 */
int cil_hints_set_map(const char *text)
{
	return cil_request_set_map(text);
}

/**
 * cil_hints_print_map() - see cil_levels_print_map()
 * @text: where to print
 * @size: room in @text
 *
 * Context: process, may sleep.
 * Return: number of characters.
 */
int cil_hints_print_map(char *text, size_t size)
{
	return cil_levels_print_map(text, size);
}

/**
 * cil_hints_make_files() - the hints' files in debugfs
 * @folder: where
 *
 * Context: process, may sleep; after cil_hints_open().
 */
void cil_hints_make_files(struct dentry *folder)
{
	cil_hint_files_make(folder);
}

/**
 * cil_hints_gate() - the gate is made the governor of a CPU, or is so no more
 * @is_current: which of both
 *
 * Hints act a moment later: what they need is attached by a job.
 *
 * Context: process; the cpuidle lock is held.
 */
void cil_hints_gate(bool is_current)
{
	cil_probes_gate(is_current);
}

static void hints_job(struct work_struct *work)
{
	if (cil_job_take(CIL_JOB_FLUSH))
		cil_request_flush_groups();
	if (cil_job_take(CIL_JOB_UPDATE))
		cil_probes_update();
	if (cil_job_take(CIL_JOB_SETTLE) && cil_probes_act())
		cil_hints_settle_all();
	cil_probes_detach_unused();
}

static int hints_cpu_online(unsigned int cpu)
{
	cil_placement_cpu_online(cpu);
	return 0;
}

/*
 * Tracepoints are silent on a CPU that is not online. But its last act is to
 * wake the task that waits for it to stop, or for its stopper to move that task
 * elsewhere. Such tasks may go elsewhere unseen. The lock of CPU hotplug is
 * held here, which a holder of cil_hints_lock may wait for. So hints are
 * settled later.
 */
static int hints_cpu_dead(unsigned int cpu)
{
	if (cil_probes_act())
		cil_job_queue(CIL_JOB_SETTLE, 0);
	return 0;
}

/**
 * cil_hints_init() - everything but the device
 *
 * Context: process, may sleep; the tunables have their values.
 * Return: 0, -ENOMEM, or the error of the hotplug core; then nothing is left.
 */
int cil_hints_init(void)
{
	int ret = cil_levels_init();

	if (ret)
		return ret;
	ret = cil_placement_init();
	if (ret)
		goto err_levels;
	cil_job_init(hints_job);
	cil_probes_init();
	ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "cpuidle_lab:hints",
					hints_cpu_online, hints_cpu_dead);
	if (ret < 0)
		goto err_placement;
	hints_hotplug = ret;
	cil_tunables_watch(&cil_gate, cil_placement_refresh);
	return 0;

err_placement:
	cil_placement_exit();
err_levels:
	cil_levels_exit();
	return ret;
}

/**
 * cil_hints_exit() - forget all hints
 *
 * Context: process, may sleep; the device is closed, and no governor of ours
 * decides.
 */
void cil_hints_exit(void)
{
	cil_tunables_watch(&cil_gate, NULL);
	cpuhp_remove_state_nocalls(hints_hotplug);
	cil_probes_exit();
	cil_job_exit();
	cil_groups_exit();
	cil_hints_free_table();
	cil_users_free_unused();
	cil_placement_exit();
	cil_levels_exit();
}

/**
 * cil_hints_open() - let hints be set
 *
 * Context: process, may sleep.
 * Return: 0 or a negative error.
 */
int cil_hints_open(void)
{
	return cil_device_init();
}

/**
 * cil_hints_close() - no hint can be set any more
 *
 * Context: process, may sleep; files of debugfs are gone.
 */
void cil_hints_close(void)
{
	cil_device_exit();
}
