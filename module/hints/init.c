// SPDX-License-Identifier: GPL-2.0
/*
 * Start and end of the latency hints, their job, and CPU hotplug.
 */
#include <linux/cpuhotplug.h>

#include "hints/groups.h"
#include "hints/hints.h"
#include "hints/job.h"
#include "hints/levels.h"
#include "hints/placement.h"
#include "hints/probes.h"
#include "hints/request.h"
#include "hints/table.h"
#include "hints/tasks.h"
#include "hints/users.h"
#include "tunables.h"

static enum cpuhp_state hints_hotplug;

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
	ret = cil_groups_init();
	if (ret)
		goto err_levels;
	ret = cil_placement_init();
	if (ret)
		goto err_groups;
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
err_groups:
	cil_groups_exit();
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
