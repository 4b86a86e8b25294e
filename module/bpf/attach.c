// SPDX-License-Identifier: GPL-2.0
/*
 * Programs in BPF come, go and are replaced. A program that goes is freed after
 * a grace period.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": bpf: " fmt

#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "bpf/attach.h"
#include "bpf/kfuncs.h"
#include "bpf/ops.h"
#include "bpf/program.h"
#include "glue.h"
#include "shadow.h"
#include "tunables.h"

/* Serialises changes. */
static DEFINE_MUTEX(bpf_attach_lock);

/* The reason that no program can be attached; NULL: one can. */
static const char *unavailable = "the module is starting";

static struct cil_governor *governor_of_programs(void)
{
	return &cil_governors[CIL_GOVERNOR_bpf];
}

static struct cil_bpf_ops *current_program(void)
	__must_hold(&bpf_attach_lock)
{
	return rcu_dereference_protected(cil_bpf_active,
					 lockdep_is_held(&bpf_attach_lock));
}

static void restart_everywhere(void)
{
	cil_glue_restart(governor_of_programs(), cpu_possible_mask);
	cil_shadow_restart(governor_of_programs(), cpu_possible_mask);
}

static void restart_by_teo(struct work_struct *work)
{
	const struct cil_bpf_ops *off;
	const char *why;

	mutex_lock(&bpf_attach_lock);
	off = cil_bpf_taken_off(&why);
	if (off) {
		pr_err("%s is taken off, teo_ng decides: %s\n", off->name, why);
		restart_everywhere();
	}
	mutex_unlock(&bpf_attach_lock);
}

static DECLARE_WORK(off_work, restart_by_teo);

static void prepare_slot(u32 cpu, bool is_shadow)
{
	mutex_lock(&bpf_attach_lock);
	if (cil_bpf_prepare(current_program(), cpu, is_shadow)) {
		if (is_shadow)
			cil_shadow_restart(governor_of_programs(), cpumask_of(cpu));
		else
			cil_glue_restart(governor_of_programs(), cpumask_of(cpu));
	}
	mutex_unlock(&bpf_attach_lock);
}

/* A slot at a time: a program that goes waits for one init at most. */
static void prepare_slots(struct work_struct *work)
{
	u32 n;

	for_each_possible_cpu(n) {
		prepare_slot(n, false);
		prepare_slot(n, true);
	}
}

static DECLARE_WORK(prepare_work, prepare_slots);

/* The program's defaults; a new version of the same one keeps the values. */
static int set_defaults(const struct cil_bpf_ops *now,
			const struct cil_bpf_ops *old)
{
	struct cil_change change = {};
	u32 i;

	if (old && !strcmp(old->name, now->name) &&
	    old->tunable_count == now->tunable_count)
		return 0;
	for (i = 0; i < now->tunable_count; i++) {
		change.value[CIL_BPF_OWN_TUNABLES + i] = now->tunable[i];
		change.changed |= BIT(CIL_BPF_OWN_TUNABLES + i);
	}
	return change.changed ? cil_tunables_apply(governor_of_programs(), &change) : 0;
}

/* The old program may be freed afterwards: no CPU runs it then. */
static void publish_program(struct cil_bpf_ops *now)
	__must_hold(&bpf_attach_lock)
{
	lockdep_assert_held(&bpf_attach_lock);
	rcu_assign_pointer(cil_bpf_active, now);
	cil_glue_restart(governor_of_programs(), cpu_possible_mask);
	synchronize_rcu();
	cil_bpf_begin_era();
	restart_everywhere();
	if (now)
		pr_info("%s (%016llx) is attached\n", now->name, now->hash);
	else
		pr_info("no program is attached\n");
}

static int replace_program(struct cil_bpf_ops *now, struct cil_bpf_ops *old,
			   bool attach)
{
	const struct cil_bpf_ops *current_one;
	int ret = 0;

	mutex_lock(&bpf_attach_lock);
	current_one = current_program();
	if (attach ? !!current_one : current_one != old) {
		ret = now ? -EBUSY : 0;
		goto out;
	}
	if (now)
		ret = set_defaults(now, old);
	if (!ret)
		publish_program(now);
out:
	mutex_unlock(&bpf_attach_lock);
	return ret;
}

static int status_get(char *buffer, const struct kernel_param *kp)
{
	const struct cil_bpf_ops *p;
	struct cil_bpf_counts sum;
	const char *why;
	int used;

	cil_bpf_sum_counts(&sum);
	mutex_lock(&bpf_attach_lock);
	p = current_program();
	if (unavailable)
		used = scnprintf(buffer, PAGE_SIZE, "state=unavailable: %s\n",
				 unavailable);
	else if (!p)
		used = scnprintf(buffer, PAGE_SIZE, "state=empty\n");
	else if (cil_bpf_taken_off(&why))
		used = scnprintf(buffer, PAGE_SIZE, "state=taken off: %s\n", why);
	else
		used = scnprintf(buffer, PAGE_SIZE, "state=attached\n");
	if (p)
		used += scnprintf(buffer + used, PAGE_SIZE - used,
				  "name=%s\nhash=%016llx\n", p->name, p->hash);
	mutex_unlock(&bpf_attach_lock);
	return used + scnprintf(buffer + used, PAGE_SIZE - used,
				"decisions=%llu\nfallbacks=%llu\nexcesses=%llu\nturns_max=%u\n",
				sum.decisions, sum.fallbacks, sum.excesses,
				sum.turns);
}

static const struct kernel_param_ops status_ops = {
	.get = status_get,
};
module_param_cb(bpf_status, &status_ops, NULL, 0400);
MODULE_PARM_DESC(bpf_status, "The program of the governor bpf, and what was counted (read only)");

/**
 * cil_bpf_init() - let programs be attached; say if the kernel cannot
 *
 * Without programs the governor bpf decides as teo_ng, so nothing can fail.
 *
 * Context: process, may sleep; last at load, for this cannot be undone.
 */
void cil_bpf_init(void)
{
	int ret;

	cil_bpf_watch(&off_work, &prepare_work);
	ret = cil_bpf_ops_register(replace_program);
	if (!ret)
		ret = cil_bpf_kfuncs_register();
	mutex_lock(&bpf_attach_lock);
	if (ret == -ENOENT)
		unavailable = "the kernel did not take the BTF of this module (was it stripped?)";
	else if (ret == -EOPNOTSUPP)
		unavailable = "the kernel lacks the symbol bpf_get_kfunc_addr";
	else if (ret)
		unavailable = "the kernel refuses to register the type of the programs";
	else
		unavailable = NULL;
	if (unavailable)
		pr_warn("no program can be attached: %s\n", unavailable);
	mutex_unlock(&bpf_attach_lock);
}

/**
 * cil_bpf_exit() - no work is left
 *
 * Programs are gone: they hold a reference on the module.
 *
 * Context: process, may sleep; no governor is registered any more.
 */
void cil_bpf_exit(void)
{
	cil_bpf_unwatch();
	cancel_work_sync(&off_work);
	cancel_work_sync(&prepare_work);
}
