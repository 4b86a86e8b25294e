// SPDX-License-Identifier: GPL-2.0
/*
 * cpuidle_lab: idle governors for an unmodified kernel. Order of start-up, and
 * the way back.
 */
#include <linux/init.h>
#include <linux/module.h>

#include "base.h"
#include "debugfs.h"
#include "hints/device.h"
#include "glue.h"
#include "hints/table.h"
#include "hints/levels.h"
#include "hints/placement.h"
#include "hints/probes.h"
#include "registry.h"
#include "shadow.h"
#include "state.h"
#include "symbols.h"
#include "tunables.h"
#include "hints/users.h"

static int __init cil_init(void)
{
	int ret;

	ret = cil_symbols_resolve();
	if (ret)
		return ret;
	ret = cil_levels_init();
	if (ret)
		return ret;
	ret = cil_placement_init();
	if (ret)
		goto err_levels;
	ret = cil_tunables_init();
	if (ret)
		goto err_placement;
	cil_tunables_watch(&cil_gate, cil_placement_refresh);
	ret = cil_state_init();
	if (ret)
		goto err_tunables;
	ret = cil_glue_init();
	if (ret)
		goto err_state;
	ret = cil_base_init();
	if (ret)
		goto err_glue;
	ret = cil_registry_add();
	if (ret)
		goto err_glue;
	cil_probes_init();
	ret = cil_device_init();
	if (ret)
		goto err_registry;
	cil_debugfs_init();
	return 0;

err_registry:
	cil_registry_remove();
err_glue:
	cil_glue_exit();
err_state:
	cil_state_exit();
err_tunables:
	cil_tunables_watch(&cil_gate, NULL);
	cil_tunables_exit();
err_placement:
	cil_placement_exit();
err_levels:
	cil_levels_exit();
	return ret;
}

static void __exit cil_exit(void)
{
	/* First whatever can still reach us, last what it reached. */
	cil_debugfs_exit();
	cil_device_exit();
	cil_registry_remove();
	cil_shadow_exit();
	cil_probes_exit();
	cil_hints_free_table();
	cil_users_exit();
	cil_glue_exit();
	cil_state_exit();
	cil_tunables_watch(&cil_gate, NULL);
	cil_tunables_exit();
	cil_placement_exit();
	cil_levels_exit();
}

module_init(cil_init);
module_exit(cil_exit);

MODULE_DESCRIPTION("CPU idle governors menu_ng, teo_ng, wteo and gate");
MODULE_AUTHOR("The cpuidle-lab authors");
MODULE_VERSION(CIL_VERSION);
MODULE_LICENSE("GPL");
