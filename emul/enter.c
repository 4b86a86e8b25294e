// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: entering an emulated idle state
 *
 * An idle state is modelled by two halts. The first is the idle period proper
 * and ends with an interrupt, whatever its reason. The second is the exit
 * latency, which is as long as in the state's table. Interrupts are served in
 * it. As in hardware nothing shortens it, not even a task that waits for this
 * CPU.
 *
 * The exit latency is a halt and not a loop, because CPUs may have to share a
 * resource. That is one clock that counts instructions (a virtual machine in
 * virtual time), or one physical CPU. There a CPU that spins takes time from
 * the others. For the same reason the polling state halts too, with a timer at
 * its time limit. Only the last EMUL_SPIN_NS of an exit latency are spent in a
 * loop, which makes the latency exact. To set up a timer and serve its
 * interrupt costs about as much.
 *
 * Threads of a core share its idle state, the shallowest of theirs. So a
 * thread whose sibling is awake has the exit latency of the shallowest state
 * that halts.
 *
 * RCU must not watch a CPU that halts, and must watch one that arms timers or
 * keeps accounts. So the states carry CPUIDLE_FLAG_RCU_IDLE, and RCU is told
 * around each halt and nowhere else. The instructions that RCU does not see
 * are those of emul_halt() only.
 */
#include <linux/cpu.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/idle.h>
#include "compat.h"
#include "emul.h"
#include "halt.h"

/* About what a timer costs in instructions, see above. */
#define EMUL_SPIN_NS		2000

/* The bounds within which the kernel's own polling state stays. */
#define EMUL_POLL_MIN_NS	10000
#define EMUL_POLL_MAX_NS	(TICK_NSEC / 16)

static enum hrtimer_restart timer_expired(struct hrtimer *timer)
{
	struct emul_cpu *cpu = container_of(timer, struct emul_cpu, timer);

	WRITE_ONCE(cpu->expired, true);
	return HRTIMER_NORESTART;
}

/**
 * emul_timer_init - prepare a CPU's timer
 * @cpu: the CPU
 */
void emul_timer_init(struct emul_cpu *cpu)
{
	emul_hrtimer_setup(&cpu->timer, timer_expired, CLOCK_MONOTONIC,
			   HRTIMER_MODE_REL_PINNED_HARD);
}

static void timer_arm(struct emul_cpu *cpu, u64 delay_ns)
{
	WRITE_ONCE(cpu->expired, false);
	hrtimer_start(&cpu->timer, ns_to_ktime(delay_ns),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

/* Halt until an interrupt has been served; interrupts are disabled around. */
static noinline void __cpuidle emul_halt(void)
{
	instrumentation_begin();
	emul_leave_rcu();
	emul_arch_halt();
	emul_return_to_rcu();
	instrumentation_end();
}

/* Let the exit latency pass, counted from now. */
static void spend_exit_latency(struct emul_cpu *cpu, u64 latency_ns)
{
	u64 end_ns = local_clock() + latency_ns;

	if (latency_ns > EMUL_SPIN_NS) {
		timer_arm(cpu, latency_ns - EMUL_SPIN_NS);
		while (!READ_ONCE(cpu->expired))
			emul_halt();
	}

	local_irq_enable();
	/* No PAUSE: an emulator takes it for leave to run another CPU. */
	while (local_clock() < end_ns)
		barrier();
	local_irq_disable();
}

static bool is_due(u32 period, u32 requests)
{
	return period && requests % period == 0;
}

static bool can_demote(const struct cpuidle_driver *drv, int index)
{
	return index && !(drv->states[index - 1].flags & CPUIDLE_FLAG_POLLING);
}

/* The idle state of this CPU's core; index is this thread's. */
static int core_state(const struct cpuidle_driver *drv, int index)
{
	int shallowest = drv->states[0].flags & CPUIDLE_FLAG_POLLING ? 1 : 0;
	int sibling;

	for_each_cpu(sibling, topology_sibling_cpumask(smp_processor_id())) {
		int slot = READ_ONCE(per_cpu_ptr(emul_cpus, sibling)->account.slot);

		if (sibling == smp_processor_id() || slot == EMUL_OFFLINE)
			continue;
		index = slot == EMUL_BUSY ? shallowest : min(index, slot);
	}
	return max(index, shallowest);
}

static __always_inline int enter_state(struct cpuidle_device *dev,
				       struct cpuidle_driver *drv, int index,
				       bool has_siblings)
{
	struct emul_cpu *cpu = this_cpu_ptr(emul_cpus);
	int reported = index;
	u64 exit_ns;

	cpu->requests++;
	if (is_due(emul_modes.reject, cpu->requests))
		return -EBUSY;
	if (is_due(emul_modes.demote, cpu->requests) && can_demote(drv, index))
		index--;
	if (!emul_modes.secretly)
		reported = index;

	/* From here on a CPU that needs this one sends it an interrupt. */
	if (current_clr_polling_and_test())
		return reported;

	WRITE_ONCE(cpu->next_ns, dev->next_hrtimer);
	emul_switch(cpu, index);
	emul_halt();
	if (has_siblings)
		index = core_state(drv, index);
	exit_ns = emul_exit_latency_ns[index];
	spend_exit_latency(cpu, emul_domains_wake(cpu, exit_ns) + exit_ns);
	emul_switch(cpu, EMUL_BUSY);
	return reported;
}

/**
 * emul_enter - enter an idle state that halts
 * @dev: this CPU's device
 * @drv: the driver
 * @index: the state
 *
 * Called and left with interrupts disabled.
 *
 * Return: the state that was entered, as far as the driver knows, or -EBUSY:
 * refused.
 */
int emul_enter(struct cpuidle_device *dev, struct cpuidle_driver *drv,
	       int index)
{
	return enter_state(dev, drv, index, false);
}

/**
 * emul_enter_thread - emul_enter() where cores have several threads
 * @dev: this CPU's device
 * @drv: the driver
 * @index: the state
 *
 * Return: as emul_enter().
 */
int emul_enter_thread(struct cpuidle_device *dev, struct cpuidle_driver *drv,
		      int index)
{
	return enter_state(dev, drv, index, true);
}

/*
 * Limit of polling: until the shallowest state that is enabled and long enough
 * would have paid. The kernel's own function for this is not exported. As
 * there, the answer is kept in the device: governors may override it, and
 * enabling or disabling a state clears it. A silent machine keeps it for
 * itself.
 */
static u64 emul_poll_limit_ns(struct cpuidle_driver *drv,
			      struct cpuidle_device *dev)
{
	u64 limit_ns = EMUL_POLL_MAX_NS;
	int i;

	if (dev->poll_limit_ns)
		return dev->poll_limit_ns;

	for (i = 1; i < drv->state_count; i++) {
		u64 residency_ns = drv->states[i].target_residency_ns;

		if (dev->states_usage[i].disable ||
		    residency_ns < EMUL_POLL_MIN_NS)
			continue;
		limit_ns = min(limit_ns, residency_ns);
		break;
	}
	if (!emul_modes.silent)
		dev->poll_limit_ns = limit_ns;
	return limit_ns;
}

/**
 * emul_enter_poll - enter the polling state
 * @dev: this CPU's device
 * @drv: the driver
 * @index: the polling state
 *
 * Interrupts do not end a poll: it ends when a task waits for this CPU or at
 * the time limit. The device's poll_time_limit tells which, unless the machine
 * is silent about it. Called and left with interrupts disabled.
 *
 * Return: @index.
 */
int emul_enter_poll(struct cpuidle_device *dev, struct cpuidle_driver *drv,
		    int index)
{
	struct emul_cpu *cpu = this_cpu_ptr(emul_cpus);

	dev->poll_time_limit = false;
	if (current_clr_polling_and_test())
		return index;

	emul_switch(cpu, index);
	timer_arm(cpu, emul_poll_limit_ns(drv, dev));
	while (!need_resched()) {
		if (READ_ONCE(cpu->expired)) {
			dev->poll_time_limit = !emul_modes.silent;
			break;
		}
		emul_halt();
	}
	/* The handler runs on this CPU only, so it is not running now. */
	hrtimer_try_to_cancel(&cpu->timer);
	emul_switch(cpu, EMUL_BUSY);
	return index;
}
