// SPDX-License-Identifier: GPL-2.0
/*
 * cpuidle_lab: idle governors for an unmodified kernel. Order of start-up, and
 * the way back.
 */
#include <linux/init.h>
#include <linux/module.h>

#include "base.h"
#include "bpf/attach.h"
#include "debugfs.h"
#include "evacuate/evacuate.h"
#include "glue.h"
#include "hints/hints.h"
#include "registry.h"
#include "shadow.h"
#include "state.h"
#include "symbols.h"
#include "tunables.h"

static int __init cil_init(void)
{
	int ret;

	ret = cil_symbols_resolve();
	if (ret)
		return ret;
	ret = cil_tunables_init();
	if (ret)
		return ret;
	ret = cil_hints_init();
	if (ret)
		goto err_tunables;
	ret = cil_state_init();
	if (ret)
		goto err_hints;
	ret = cil_glue_init();
	if (ret)
		goto err_state;
	ret = cil_base_init();
	if (ret)
		goto err_glue;
	ret = cil_registry_add();
	if (ret)
		goto err_glue;
	ret = cil_evacuate_init();
	if (ret)
		goto err_registry;
	ret = cil_hints_open();
	if (ret)
		goto err_evacuate;
	cil_debugfs_init();
	cil_bpf_init();
	return 0;

err_evacuate:
	cil_evacuate_exit();
err_registry:
	cil_registry_remove();
err_glue:
	cil_glue_exit();
err_state:
	cil_state_exit();
err_hints:
	cil_hints_exit();
err_tunables:
	cil_tunables_exit();
	return ret;
}

static void __exit cil_exit(void)
{
	/* First what can still reach the module, last what that reached. */
	cil_debugfs_exit();
	cil_hints_close();
	cil_evacuate_exit();
	cil_registry_remove();
	cil_shadow_exit();
	cil_bpf_exit();
	cil_hints_exit();
	cil_glue_exit();
	cil_state_exit();
	cil_tunables_exit();
}

module_init(cil_init);
module_exit(cil_exit);

MODULE_DESCRIPTION("CPU idle governors teo_ng, menu_ng, wteo, bpf, gate; CPU evacuation");
MODULE_AUTHOR("The cpuidle-lab authors");
MODULE_VERSION(CIL_VERSION);
MODULE_LICENSE("GPL");
