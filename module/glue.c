// SPDX-License-Identifier: GPL-2.0
/*
 * Between the kernel's cpuidle core and the decision logic.
 *
 * The way of one idle period: select first accounts for the last period
 * (update, outcome event). Then it fills the query, lets the policy or the
 * kernel governor decide, and traces the decision. The CPU sleeps. reflect only
 * notes the outcome, because it runs before the work that ended the idle
 * period.
 *
 * select and reflect run on their own CPU, in the idle task. enable and disable
 * run in a task. The kernel keeps select out meanwhile, but a CPU that is still
 * asleep, unseen by RCU, may come to reflect at any time.
 */
#include <linux/cpuhotplug.h>
#include <linux/module.h>
#include <linux/sched/clock.h>

#include "base.h"
#include "emit.h"
#include "glue.h"
#include "hints/hints.h"
#include "shadow.h"
#include "symbols.h"
#include "trace.h"
#include "tunables.h"

static enum cpuhp_state glue_hotplug;

/*
 * Forget what was learned on a CPU and what was due there. May run with
 * interrupts off.
 */
static void start_afresh(struct cil_cpu *cpu, const struct cil_tunable_set *set)
{
	cpu->decided = false;
	cpu->afresh = true;
	if (cpu->own)
		cpu->own->policy->init(cpu->state, &cpu->machine, set->value);
}

/* Account for the last decision: the outcome event, and learning. */
static void account_outcome(struct cil_cpu *cpu,
			    const struct cil_tunable_set *set, u64 now_ns)
{
	struct cil_record *r = &cpu->record;

	r->outcome.now_ns = now_ns;
	r->outcome.left = r->query.left;
	if (cpu->reflected) {
		r->kind = CIL_OUTCOME_ENTERED;
		if (cpu->own && cpu->own->policy->update)
			cpu->own->policy->update(cpu->state, &cpu->machine,
						 set->value, &r->outcome);
	} else {
		r->kind = CIL_OUTCOME_ABORTED;
		r->tick = CIL_TICK_NO;
		r->outcome.residency_ns = 0;
		r->outcome.index = r->decision.index;
		r->outcome.poll_time_limit = false;
	}
	cil_emit_outcome(cpu);
	cpu->decided = false;
}

/*
 * As find_deepest_state() of the kernel chooses where a CPU is held: the first
 * state stands for none, disabled or not. A further one without an exit latency
 * is never chosen.
 */
static u64 least_halt_latency_ns(const struct cil_machine *machine, u32 disabled)
{
	u64 least_ns = U64_MAX;
	u32 i;

	for (i = 0; i < machine->state_count; i++) {
		const struct cil_state *s = &machine->states[i];

		if (s->polling || (i && (!s->exit_latency_ns || disabled & BIT(i))))
			continue;
		least_ns = min_t(u64, least_ns, s->exit_latency_ns);
	}
	return least_ns;
}

/* The last set stays in the record, between decisions too. */
static void copy_disabled(struct cil_cpu *cpu, const struct cpuidle_device *dev)
{
	u32 disabled = 0;
	u32 i;

	for (i = 0; i < cpu->machine.state_count; i++)
		disabled |= (u32)!!dev->states_usage[i].disable << i;
	if (likely(cpu->halt_latency_ns && disabled == cpu->record.query.disabled))
		return;
	cpu->record.query.disabled = disabled;
	WRITE_ONCE(cpu->halt_latency_ns,
		   least_halt_latency_ns(&cpu->machine, disabled));
}

/* A governor of the kernel reads PM QoS itself; only its answer is ours. */
static void decide_by_base(struct cil_cpu *cpu, struct cpuidle_driver *drv,
			   struct cpuidle_device *dev)
{
	struct cil_record *r = &cpu->record;
	bool stop_tick = true;
	int index = cpu->base->select(drv, dev, &stop_tick);

	if (unlikely(index >= cpu->machine.state_count))
		index = 0;
	r->base_index = index;
	r->base_stop_tick = stop_tick;
	r->decision.index = index;
	r->decision.stop_tick = stop_tick;
	r->decision.row = CIL_ROW_NONE;
	r->decision.reason = CIL_REASON_BASE;
	if (unlikely(r->hint_ns != CIL_HINT_NONE))
		gate_clamp(&cpu->machine, &r->query, r->hint_ns, &r->decision);
}

static void decide_by_policy(struct cil_cpu *cpu,
			     const struct cil_tunable_set *set)
{
	struct cil_record *r = &cpu->record;

	r->base_index = CIL_STATE_NONE;
	r->base_stop_tick = false;
	r->query.latency_req_ns = gate_latency_req(r->query.latency_req_ns,
						   r->hint_ns);
	cpu->own->policy->select(cpu->state, &cpu->machine, set->value,
				 &r->query, &r->decision);
	/* A policy under development must not make the kernel read astray. */
	if (unlikely(r->decision.index >= cpu->machine.state_count))
		r->decision.index = 0;
}

/* Did a hint keep the CPU from a deeper state, or may it have? */
static bool is_restricted(const struct cil_cpu *cpu)
{
	const struct cil_record *r = &cpu->record;
	const struct cil_machine *machine = &cpu->machine;

	if (likely(r->hint_ns < 0))
		return false;
	if (cpu->base)
		return r->decision.index < r->base_index;
	return machine->states[machine->state_count - 1].exit_latency_ns >
	       r->hint_ns;
}

/**
 * cil_glue_select() - choose an idle state
 * @drv: the driver
 * @dev: the device of this CPU
 * @stop_tick: cleared if the tick must go on
 *
 * Context: idle task, interrupts off.
 * Return: index of the state.
 */
int cil_glue_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
		    bool *stop_tick)
{
	struct cil_cpu *cpu = this_cpu_ptr(cil_cpus);
	struct cil_record *r = &cpu->record;
	const struct cil_tunable_set *set =
		rcu_dereference_sched((cpu->own ?: cpu->governor)->tunables);
	unsigned long switches = current->nvcsw + current->nivcsw;
	u64 now_ns = local_clock();

	/* The idle task counts a switch each time that it gives way. */
	r->query.left = switches != cpu->switches;
	cpu->switches = switches;
	/* No period followed the last selection: refused, or work came first. */
	r->query.rejected = !cpu->reflected && !dev->last_residency_ns;

	if (cpu->decided)
		account_outcome(cpu, set, now_ns);
	if (unlikely(READ_ONCE(cpu->restart))) {
		WRITE_ONCE(cpu->restart, false);
		start_afresh(cpu, set);
		cpu->epoch = 0;
	}

	r->seq++;
	r->generation = set->generation;
	r->hint_ns = cpu->governor == &cil_gate ? cil_hints_limit(now_ns) :
						  CIL_HINT_NONE;
	r->query.now_ns = now_ns;
	r->query.latency_req_ns = static_call(cil_latency_req)(dev->cpu);
	copy_disabled(cpu, dev);
	r->query.tick_stopped = static_call(cil_tick_stopped)();
	r->query.asked = false;

	cil_emit_checkpoint(cpu, set);
	if (cpu->base)
		decide_by_base(cpu, drv, dev);
	else
		decide_by_policy(cpu, set);
	cil_emit_decision(cpu);
	cil_shadowed(cpu);
	if (is_restricted(cpu))
		cil_hints_look_again(r);

	cpu->decided = true;
	/* Of an earlier decision: even one from before the table changed. */
	cpu->reflected = false;
	if (!r->decision.stop_tick)
		*stop_tick = false;
	return r->decision.index;
}

/* As drivers count it: until the shallowest state beside would have paid. */
static u64 glue_poll_limit_ns(const struct cil_machine *machine,
			      const struct cpuidle_device *dev)
{
	u32 i;

	if (dev->poll_limit_ns)
		return dev->poll_limit_ns;
	for (i = 0; i < machine->state_count; i++)
		if (!machine->states[i].polling && !dev->states_usage[i].disable)
			return machine->states[i].target_residency_ns;
	return U64_MAX;
}

/*
 * Some drivers do not report that polling gave up at its limit. A poll that a
 * task has ended is known by the mark that the task waits.
 */
static bool has_poll_expired(const struct cil_machine *machine,
			     const struct cpuidle_device *dev, int index)
{
	if (!machine->states[index].polling)
		return false;
	return dev->poll_time_limit ||
	       (!need_resched() &&
		dev->last_residency_ns >= glue_poll_limit_ns(machine, dev));
}

/**
 * cil_glue_reflect() - note what became of a decision
 * @dev: the device of this CPU
 * @index: the state that was entered
 *
 * The values are copied at once: a forced or suspended idle period may
 * overwrite them before the next selection.
 *
 * Context: idle task, interrupts on or off. Adds to the wake-up latency.
 */
void cil_glue_reflect(struct cpuidle_device *dev, int index)
{
	struct cil_cpu *cpu = this_cpu_ptr(cil_cpus);
	struct cpuidle_governor *base = READ_ONCE(cpu->base);
	struct cil_record *r = &cpu->record;

	r->outcome.residency_ns = dev->last_residency_ns;
	r->outcome.index = index;
	r->outcome.poll_time_limit = has_poll_expired(&cpu->machine, dev, index);
	/* For a base of the kernel, too. */
	dev->poll_time_limit |= r->outcome.poll_time_limit;
	cpu->reflected = true;

	if (base) {
		/* Reading clears the tick's mark, and the base wants it. */
		r->tick = CIL_TICK_UNKNOWN;
		if (base->reflect)
			base->reflect(dev, index);
		return;
	}

	r->outcome.tick_wakeup = static_call(cil_got_tick)();
	r->tick = r->outcome.tick_wakeup ? CIL_TICK_YES : CIL_TICK_NO;
	dev->last_state_idx = index;
	dev->poll_time_limit = false;
}

static void copy_machine(struct cil_cpu *cpu, const struct cpuidle_driver *drv,
			 unsigned int n)
{
	struct cil_machine *machine = &cpu->machine;
	int i;

	BUILD_BUG_ON(CIL_STATE_MAX != CPUIDLE_STATE_MAX);
	memset(machine, 0, sizeof(*machine));
	machine->tick_ns = TICK_NSEC;
	machine->cpu = n;
	machine->state_count = drv->state_count;
	for (i = 0; i < drv->state_count; i++) {
		const struct cpuidle_state *from = &drv->states[i];
		struct cil_state *to = &machine->states[i];

		to->exit_latency_ns = from->exit_latency_ns;
		to->target_residency_ns = from->target_residency_ns;
		/* The kernel counts in mW. */
		to->power_uw = 1000 * clamp(from->power_usage, 0, (int)(U32_MAX / 1000));
		to->polling = from->flags & CPUIDLE_FLAG_POLLING;
		strscpy_pad(cpu->names[i], from->name, sizeof(cpu->names[i]));
	}
}

/**
 * cil_glue_enable() - a governor of ours takes over a CPU
 * @governor: the governor
 * @drv: the driver of the CPU
 * @dev: the device of the CPU
 *
 * The kernel cannot cope with a governor that refuses: the CPU would lose its
 * idle states. So nothing here can fail while the module is alive. While it is
 * being removed the reference is not to be had. It is not needed, because
 * removal takes the governor off the CPU before the code goes.
 *
 * Context: process, cpuidle lock held, the device is not enabled.
 * Return: 0.
 */
int cil_glue_enable(struct cil_governor *governor, struct cpuidle_driver *drv,
		    struct cpuidle_device *dev)
{
	struct cil_cpu *cpu = per_cpu_ptr(cil_cpus, dev->cpu);
	struct cpuidle_governor *base = governor == &cil_gate ?
					cil_base_get() : &governor->kernel;
	struct cil_governor *own = cil_governor_of(base);

	/* No reader may see the policy's state before it is initialised. */
	WRITE_ONCE(cpu->restart, true);
	cpu->module_held = try_module_get(THIS_MODULE);
	copy_machine(cpu, drv, dev->cpu);
	if (!own && base->enable && base->enable(drv, dev))
		own = &cil_governors[0];
	WRITE_ONCE(cpu->own, own);
	WRITE_ONCE(cpu->base, own ? NULL : base);
	cpu->state = own ? per_cpu_ptr(own->state, dev->cpu) : NULL;
	memset(&cpu->record.query, 0, sizeof(cpu->record.query));
	copy_disabled(cpu, dev);
	cpu->record.governor = governor->id;
	cpu->epoch = 0;
	cpu->decided = false;
	cpu->reflected = false;
	/* Pairs with take_snapshot(): a reader that sees it sees all of the above. */
	smp_store_release(&cpu->governor, governor);
	if (governor == &cil_gate)
		cil_hints_gate(true);
	return 0;
}

/**
 * cil_glue_disable() - a governor of ours leaves a CPU
 * @drv: the driver of the CPU
 * @dev: the device of the CPU
 *
 * Context: process, cpuidle lock held.
 */
void cil_glue_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct cil_cpu *cpu = per_cpu_ptr(cil_cpus, dev->cpu);

	if (cpu->base && cpu->base->disable)
		cpu->base->disable(drv, dev);
	/* It may be a module's that goes; a CPU that wakes up calls no more. */
	WRITE_ONCE(cpu->base, NULL);
	if (cpu->governor == &cil_gate)
		cil_hints_gate(false);
	WRITE_ONCE(cpu->halt_latency_ns, 0);
	WRITE_ONCE(cpu->governor, NULL);
	if (cpu->module_held) {
		cpu->module_held = false;
		module_put(THIS_MODULE);
	}
}

/**
 * cil_glue_restart() - let a governor start learning afresh
 * @governor: the governor
 * @cpus: where
 *
 * Takes effect on each CPU at its next decision. Under the gate, a base of ours
 * starts afresh; a governor of the kernel cannot be told.
 *
 * Context: any.
 */
void cil_glue_restart(const struct cil_governor *governor,
		      const struct cpumask *cpus)
{
	int n;

	for_each_cpu(n, cpus) {
		struct cil_cpu *cpu = per_cpu_ptr(cil_cpus, n);

		if (READ_ONCE(cpu->governor) == governor ||
		    READ_ONCE(cpu->own) == governor)
			WRITE_ONCE(cpu->restart, true);
	}
}

/*
 * Some drivers keep their devices registered while a CPU is offline. What was
 * learned before is stale then, and a decision from before has no outcome.
 */
static int glue_cpu_online(unsigned int n)
{
	WRITE_ONCE(per_cpu_ptr(cil_cpus, n)->restart, true);
	return 0;
}

/**
 * cil_glue_init() - the hotplug callback
 *
 * Context: process, may sleep; cil_state_init() has run.
 * Return: 0 or the error of the hotplug core.
 */
int cil_glue_init(void)
{
	int ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN,
					    "cpuidle_lab:online",
					    glue_cpu_online, NULL);

	if (ret < 0)
		return ret;
	glue_hotplug = ret;
	return 0;
}

/**
 * cil_glue_exit() - undo cil_glue_init()
 *
 * Context: process, may sleep; no governor is registered any more.
 */
void cil_glue_exit(void)
{
	cpuhp_remove_state_nocalls(glue_hotplug);
}
